"""`losslens.sklearn`: scikit-learn's own tests of it are in verbs/test_scikit_inspection.py; what is more is here."""

import copy
import pickle

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingRegressor, RandomForestClassifier
from sklearn.inspection import permutation_importance as of_scikit_learn
from sklearn.metrics import get_scorer, r2_score
from sklearn.neighbors import KNeighborsRegressor
from sklearn.utils import Bunch

from losslens.sklearn import permutation_importance

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 3))
Y = (X[:, 0] + 0.3 * RNG.normal(size=120) > 0).astype(int)
FOREST = RandomForestClassifier(8, random_state=0).fit(X, Y)


def test_the_bunch_has_standard_errors_and_the_result():
    found = permutation_importance(FOREST, X, Y, scoring="roc_auc", n_repeats=4, random_state=0)
    assert found.importances.shape == (3, 4)
    np.testing.assert_array_equal(found.importances_mean, [one.pfi for one in found.result.values()])
    np.testing.assert_array_equal(found.std_error, [one.std_error for one in found.result.values()])
    assert found.low[0] > 0 > found.low[1]
    assert (found.result.engine, found.result["x0"].n_predictions) == ("trees", 0)


def test_several_scores_are_a_dict_and_bad_arguments_are_named():
    found = permutation_importance(FOREST, X, Y, scoring=["accuracy", "neg_log_loss"], max_samples=60, random_state=0)
    assert list(found) == ["accuracy", "neg_log_loss"]
    with pytest.raises(ValueError, match="n_repeats is a whole number from 1 on; got 0"):
        permutation_importance(FOREST, X, Y, n_repeats=0)
    with pytest.raises(ValueError, match=r"max_samples must be <= n_samples: .* got 1\.5"):
        permutation_importance(FOREST, X, Y, max_samples=1.5)


NUMBERS = X[:, 0] + X[:, 1] * X[:, 2]
BOOSTING = GradientBoostingRegressor(n_estimators=20, random_state=0)
NEIGHBOURS = KNeighborsRegressor()


@pytest.mark.thread_unsafe(reason="models that all threads share are fitted")
@pytest.mark.parametrize("scoring", [None, "neg_mean_absolute_error", ["r2", "neg_max_error"]])
@pytest.mark.parametrize("model", [BOOSTING, NEIGHBOURS], ids=["engine", "black box"])
def test_the_columns_are_those_of_scikit_learn(model, scoring):
    """The same seed gives the same permutations: the numbers differ by rounding alone."""
    model.fit(X, NUMBERS)
    for state in (3, np.random.RandomState(5)):
        options = {"scoring": scoring, "n_repeats": 4, "random_state": state}
        theirs = of_scikit_learn(model, X, NUMBERS, **copy.deepcopy(options))
        ours = permutation_importance(model, X, NUMBERS, **options)
        if not isinstance(scoring, list):
            theirs, ours = {"": theirs}, {"": ours}
        assert list(ours) == list(theirs)
        for name, one in theirs.items():
            np.testing.assert_allclose(ours[name].importances, one.importances, rtol=1e-9, atol=1e-12)
            np.testing.assert_allclose(ours[name].importances_std, one.importances_std, rtol=1e-9, atol=1e-12)
            if model is NEIGHBOURS:
                np.testing.assert_allclose(ours[name].importances_mean, one.importances_mean, rtol=1e-9, atol=1e-12)


@pytest.mark.thread_unsafe(reason="models that all threads share are fitted")
def test_the_mean_of_an_engine_is_that_over_all_permutations():
    """Each pair of a row and a donor is in the same share of the permutations; R2 is linear in the mean loss."""
    some, y = X[:40], NUMBERS[:40]
    model = BOOSTING.fit(X, NUMBERS)
    found = permutation_importance(model, some, y, random_state=0)
    assert found.result.exact
    for j, mean in enumerate(found.importances_mean):
        scores = []
        for shift in range(len(some)):
            shuffled = some.copy()
            shuffled[:, j] = np.roll(some[:, j], shift)
            scores.append(r2_score(y, model.predict(shuffled)))
        assert mean == pytest.approx(model.score(some, y) - np.mean(scores), abs=1e-12)


def fresh():
    return permutation_importance(FOREST, X[:50], Y[:50], random_state=0)


NAMES = ["importances_mean", "importances_std", "importances", "std_error", "low", "high", "result"]


@pytest.mark.parametrize(
    "read",
    [
        lambda found: pickle.loads(pickle.dumps(found)),
        dict,
        lambda found: {**found},
        lambda found: found | {},
        lambda found: dict(found.items()),
        lambda found: dict(zip(found.keys(), found.values(), strict=True)),
        lambda found: {name: found[name] for name in found},
        lambda found: {name: getattr(found, name) for name in dir(found)},
        lambda found: {name: found.get(name) for name in found.keys()},  # noqa: SIM118
        lambda found: {name: found.pop(name) for name in list(found)},
        copy.copy,
        copy.deepcopy,
        lambda found: found.copy(),
    ],
)  # fmt: skip
def test_what_is_computed_when_it_is_read_is_there_for_every_reader(read):
    expected = {name: getattr(fresh(), name) for name in NAMES[:-1]}
    found = read(fresh())
    assert sorted(found) == sorted(NAMES)
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name], values)
        assert isinstance(found[name], np.ndarray)


def test_the_bunch_is_one_of_scikit_learn(monkeypatch):
    found = fresh()
    assert isinstance(found, Bunch)
    assert found.get("nothing", 3) == 3
    assert "array(" in repr(found)
    assert "Deferred" not in repr(found)
    with pytest.raises(AttributeError):
        _ = found.nothing
    with pytest.raises(KeyError):
        found.pop("nothing")
    pickled = pickle.dumps(fresh())
    monkeypatch.setitem(globals(), "FOREST", None)  # a pickle needs no model
    assert pickle.loads(pickled).importances.shape == (3, 5)


def test_columns_of_another_model_are_refused():
    model = GradientBoostingRegressor(n_estimators=5, random_state=0).fit(X, NUMBERS)
    early, late = (permutation_importance(model, X, NUMBERS, random_state=0) for _ in range(2))
    assert (early.result.exact, early.importances.shape) == (True, (3, 5))
    model.fit(X, -NUMBERS)
    with pytest.raises(RuntimeError, match="the estimator, X or y has changed since permutation_importance was called"):
        _ = late.importances
    assert early.importances.shape == (3, 5)


def test_two_scores_of_one_function_have_the_names_that_they_are_given():
    scoring = {"a": get_scorer("r2"), "b": get_scorer("r2")}
    found = permutation_importance(BOOSTING.fit(X, NUMBERS), X, NUMBERS, scoring=scoring, random_state=0)
    np.testing.assert_array_equal(found["a"].importances_mean, found["b"].importances_mean)
