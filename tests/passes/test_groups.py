"""Columns of a tree ensemble, replaced together: by a table of pairs, or by a sample of them."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import (
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import losslens as ll
from losslens.engines.trees import engine, pair_table

N = 120
RNG = np.random.default_rng(5)
X = np.column_stack([RNG.normal(size=N), RNG.integers(0, 4, N), RNG.normal(size=N).round(1), RNG.normal(size=N)])
Y = X[:, 0] * X[:, 1] + X[:, 2] + 0.3 * RNG.normal(size=N)
K = np.digitize(Y, [-0.5, 1.0])
GROUP = {"two": ["x2", "x0"], "three": ["x0", "x1", "x3"]}
WEIGHT = RNG.integers(0, 4, N).astype(float)

MODELS = {
    "boosting": (GradientBoostingRegressor(n_estimators=20, random_state=0), Y, "squared_error"),
    "histograms": (HistGradientBoostingRegressor(max_iter=20, min_samples_leaf=4), Y, "absolute_error"),
    "forest": (RandomForestRegressor(7, random_state=0), Y, "squared_error"),
    "tree": (DecisionTreeRegressor(random_state=0), Y, "huber"),
    "votes": (RandomForestClassifier(5, max_depth=4, random_state=0), K, "brier"),
    "two classes": (RandomForestClassifier(5, max_depth=4, random_state=0), Y > 0, "brier"),
    "classes": (HistGradientBoostingClassifier(max_iter=5, min_samples_leaf=4), K, "log_loss"),
    "leaf classes": (DecisionTreeClassifier(max_depth=5, random_state=0), K, "log_loss"),
}


@pytest.fixture
def many(monkeypatch):
    """As if 120 rows had too many pairs for three columns, but not for two."""
    monkeypatch.setattr(engine, "MANY_COLUMNS", 0)


@pytest.fixture
def no_table(many, monkeypatch):
    """As if 120 rows had too many pairs to look at one by one."""
    for module, name in ((engine, "MAX_SMALL_TREES"), (engine, "MAX_LARGE_TREES"), (pair_table, "MAX_PAIRS")):
        monkeypatch.setattr(module, name, 0)


def explained(name, **options):
    model, y, loss = MODELS[name]
    fitted = clone(model).fit(X, y)  # tests may run in threads
    ask = fitted.predict_proba if loss in ("brier", "log_loss") else fitted.predict
    shared = {"features": GROUP, "donors": "all", "loss": loss, "progress": False} | options
    return ll.feature_importance(fitted, X, y, **shared), ll.feature_importance(ask, X, y, **shared)


@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["alike", "weighted"])
@pytest.mark.parametrize("name", MODELS)
def test_a_table_of_pairs_is_brute_force(name, weight):
    found, asked = explained(name, sample_weight=weight)
    assert (found.engine, asked.engine, found.exact) == ("trees", "blackbox", True)
    for group in GROUP:
        np.testing.assert_allclose(found[group].ici, asked[group].ici, atol=1e-9)
        np.testing.assert_allclose(found[group].local, asked[group].local, atol=1e-10)
        assert found[group].pfi == pytest.approx(asked[group].pfi, abs=1e-10)
        assert found[group].std_error == pytest.approx(asked[group].std_error, abs=1e-10)


@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["alike", "weighted"])
@pytest.mark.parametrize("name", MODELS)
def test_a_table_that_does_not_fit_is_streamed(name, weight):
    found, asked = explained(name, sample_weight=weight, memory="256 KiB")
    assert found.engine == "trees"
    for group in GROUP:
        assert not found[group].complete
        np.testing.assert_allclose(found[group].local, asked[group].local, atol=1e-10)
        assert found[group].pfi == pytest.approx(asked[group].pfi, abs=1e-10)
        assert found[group].std_error == pytest.approx(asked[group].std_error, abs=1e-10)


# More pairs than a sample is worth.


def sampled_as_by_the_model(one, drawn, every):
    """A sample of the model's own predictions, with errors; `every` is the importance over all pairs."""
    assert (one.engine, one.exact, type(one.design)) == ("blackbox", False, ll.Latin)
    assert "sampled, as all pairs take longer" in one.declined
    np.testing.assert_array_equal(one.local, drawn.local)
    assert one.std_error == drawn.std_error > 0
    assert 0 < one.influence.noise < 0.1 * one.influence.variance
    assert abs(one.pfi - every.pfi) < 4 * np.sqrt(one.influence.noise)


def drawn_as(one, name, options):
    """The same donors of the model's predict function."""
    return explained(name, donors=one.design, **options)[1][one.name]


@pytest.mark.usefixtures("many")
@pytest.mark.parametrize("options", [{}, {"sample_weight": WEIGHT}, {"groups": np.arange(N) // 2}], ids=str)
@pytest.mark.parametrize("name", MODELS)
def test_three_columns_are_sampled_and_two_are_not(name, options):
    options = options | {"random_state": 0}
    found, every = explained(name, donors="auto", **options)[0], explained(name, **options)[1]
    assert (found["two"].engine, found["two"].exact) == ("trees", True)
    assert found["two"].pfi == pytest.approx(every["two"].pfi, abs=1e-10)
    sampled_as_by_the_model(found["three"], drawn_as(found["three"], name, options), every["three"])


@pytest.mark.usefixtures("many")
def test_donors_that_are_named_are_taken():
    found, asked = explained("forest")
    assert (found["three"].engine, found["three"].exact) == ("trees", True)
    assert found["three"].pfi == pytest.approx(asked["three"].pfi, abs=1e-10)


@pytest.mark.usefixtures("many")
def test_a_group_of_few_values_is_exact():
    """Columns of a category: as many donors have all of its values."""
    rows = np.column_stack([X[:, 0], np.eye(4)[X[:, 1].astype(int)]])
    model = RandomForestRegressor(7, random_state=0).fit(rows, Y)
    of = {"features": {"kind": [1, 2, 3, 4]}, "progress": False}
    found = ll.feature_importance(model, rows, Y, **of)["kind"]
    assert (found.engine, found.design, found.exact) == ("trees", ll.All(), True)


@pytest.mark.usefixtures("no_table")
@pytest.mark.parametrize("name", ["forest", "tree", "classes"])
def test_beyond_the_limit_two_columns_are_sampled_too(name):
    found, every = explained(name, donors="auto", random_state=0)[0], explained(name)[1]
    for group in GROUP:
        drawn = drawn_as(found[group], name, {"random_state": 0})
        sampled_as_by_the_model(found[group], drawn, every[group])


@pytest.mark.usefixtures("no_table")
def test_all_pairs_beyond_the_limit_are_asked_of_the_model():
    found, asked = explained("boosting")
    assert (found.engine, found.exact) == ("blackbox", True)
    assert found["three"].declined == "'three' has too many values for its trees"
    np.testing.assert_array_equal(found["three"].local, asked["three"].local)


@pytest.mark.usefixtures("many")
def test_a_plan_says_that_three_columns_are_sampled():
    model = clone(MODELS["forest"][0]).fit(X, Y)
    planned = ll.plan(ll.feature_importance, model, X, Y, features=GROUP)
    assert planned.engines == ("trees", "blackbox")
    assert planned.designs == ("All()", "Latin(8)")
    assert planned.predictions == (0, 8 * N)
