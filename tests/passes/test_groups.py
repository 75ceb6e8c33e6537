"""Columns of a tree ensemble, replaced together: by a table of pairs, in closed form, or as a total alone."""

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
from losslens.engines.trees import engine, two_columns

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
TOTALS = ("boosting", "forest", "votes", "two classes")


@pytest.fixture
def no_table(monkeypatch):
    """As if 120 rows had too many pairs to look at one by one."""
    for module, name in ((engine, "MAX_SMALL_TREES"), (engine, "MAX_LARGE_TREES"), (two_columns, "MAX_PAIRS")):
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


@pytest.mark.usefixtures("no_table")
@pytest.mark.parametrize("design", ["all", ll.Derangements()], ids=str)
@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["alike", "weighted"])
@pytest.mark.parametrize("name", TOTALS)
def test_without_a_table_the_total_is_brute_force(name, weight, design):
    few, whole = explained(name, donors=design, sample_weight=weight)
    for group in GROUP:
        assert few[group].means.total is not None
        assert (few[group].engine, few[group].exact) == ("trees", True)
        assert few[group].pfi == pytest.approx(whole[group].pfi, abs=1e-9)
        assert few[group].ratio == pytest.approx(whole[group].ratio, abs=1e-9)


@pytest.mark.usefixtures("no_table")
def test_what_a_total_can_not_say_it_refuses_with_the_reason():
    few = explained("boosting")[0]
    for ask in (lambda f: f.local, lambda f: f.pi, lambda f: f.given(np.arange(50)), lambda f: f.ici):
        with pytest.raises(ValueError, match=r"was not computed: 120 rows and 120 values have too many cells"):
            ask(few["three"])
    assert np.isnan(few.to_frame()["std_error"]).all()
    assert "three" in repr(few)


@pytest.mark.usefixtures("no_table")
@pytest.mark.parametrize("design", ["all", ll.Derangements()], ids=str)
@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["alike", "weighted"])
@pytest.mark.parametrize("name", ["tree", "leaf classes"])
def test_a_single_tree_needs_no_table(name, weight, design):
    few, whole = explained(name, donors=design, sample_weight=weight)
    for group in GROUP:
        assert len(few[group].rows) == 0
        np.testing.assert_allclose(few[group].local, whole[group].local, atol=1e-10)
        np.testing.assert_allclose(few[group].pi, whole[group].pi, atol=1e-10)
        np.testing.assert_allclose(few[group].weights, whole[group].weights, atol=1e-12)
        assert few[group].clipped == pytest.approx(whole[group].clipped, abs=1e-12)
        assert few[group].pfi == pytest.approx(whole[group].pfi, abs=1e-10)
        assert few[group].std_error == pytest.approx(whole[group].std_error, abs=1e-10)


@pytest.mark.usefixtures("no_table")
@pytest.mark.parametrize("name", ["histograms", "classes"])
def test_other_losses_of_several_trees_are_asked_of_the_model(name):
    assert explained(name)[0].engine == "blackbox"
