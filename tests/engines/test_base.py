"""Designs of some pairs where an engine has the curves: the numbers of brute force, without the model's predictions.

The oracle is the model's own `predict` on rows in which one column holds the donor's values. Donors are those that the
same call with a function draws: a draw depends on the column and the seed alone.
"""

from functools import cache

import numpy as np
import pandas as pd
import pytest
from sklearn import ensemble
from sklearn import linear_model as linear
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import losslens as ll
from losslens.engines.choice import CHECKED

RNG = np.random.default_rng(0)
N = 90
X = np.column_stack([RNG.normal(size=N), RNG.normal(size=N).round(1), RNG.integers(0, 3, N), RNG.normal(size=N)])
Y = 2 * X[:, 0] + X[:, 1] * X[:, 2] + 0.3 * RNG.normal(size=N)
LABELS = (Y > 0).astype(int)
WEIGHT, GROUPS = RNG.integers(0, 4, N).astype(float), RNG.integers(0, 30, N)

MODELS = {
    "boosting": (ensemble.HistGradientBoostingRegressor(max_iter=20, min_samples_leaf=5), Y, "trees"),
    "forest": (ensemble.RandomForestClassifier(8, random_state=0), LABELS, "trees"),
    "linear": (make_pipeline(StandardScaler(), linear.Ridge()), Y, "additive"),
    "logistic": (linear.LogisticRegression(), LABELS, "link"),
}
DESIGNS = (
    ll.Grid(12), ll.Grid(12, at="quantiles"), ll.Grid(values=[-9.0, 0.1, 1.0, 9.0]), ll.Latin(4), ll.Systematic(4),
    ll.Permutations(4), ll.Derangements(4),
)  # fmt: skip
UNITS = {"plain": {}, "weights": {"sample_weight": WEIGHT}, "groups": {"groups": GROUPS}}


@cache
def fitted(name):
    model, y, engine = MODELS[name]
    return model.fit(X, y), y, engine


def same(first, second, name):
    found, expected = (number_or_reason(one, name) for one in (first, second))
    if isinstance(expected, str):
        assert found == expected
    else:
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


def number_or_reason(one, name):
    try:
        return getattr(one, name)
    except ValueError as why:
        return str(why)


@pytest.mark.thread_unsafe(reason="models that all threads share are fitted")
@pytest.mark.parametrize("units", UNITS)
@pytest.mark.parametrize("design", DESIGNS, ids=repr)
@pytest.mark.parametrize("name", MODELS)
def test_they_have_the_models_numbers_without_its_predictions(name, design, units):
    """The oracle is the same call with the bare prediction function, which no engine reads."""
    model, y, engine = fitted(name)
    function = model.predict if y is Y else model.predict_proba
    loss, options = "squared_error" if y is Y else "log_loss", UNITS[units] | {"donors": design, "random_state": 1}
    found, asked = (ll.feature_importance(one, X, y, loss=loss, **options) for one in (model, function))
    assert (found.engine, found.declined, found.n_predictions) == (engine, {}, min(N, CHECKED))
    assert asked.engine == "blackbox"
    assert (found.design, found.exact) == (asked.design, False)
    for one, other in zip(found.values(), asked.values(), strict=True):
        assert one.n_predictions == 0
        for number in ("pfi", "std_error", "local", "weights", "pi", "ici"):
            same(one, other, number)


@pytest.mark.parametrize("name", MODELS)
def test_grids_have_the_models_curves(name):
    """PD and ICE are what the model predicts with a column at each value, values of the user's included."""
    model, y, engine = fitted(name)
    for design in (ll.Grid(7), ll.Grid(values=[9.0, -9.0, 0.05])):
        found = ll.feature_effect(model, X, donors=design)
        assert (found.engine, found.n_predictions) == (engine, CHECKED)
        for j, one in enumerate(found.values()):
            for k, value in enumerate(one.grid):
                at = X.copy()
                at[:, j] = value
                expected = model.predict(at) if y is Y else model.predict_proba(at)[:, 1]
                np.testing.assert_allclose(one.ice[:, k], expected, rtol=0, atol=1e-12)
                assert one.pd[k] == pytest.approx(expected.mean(), abs=1e-12)


def test_rows_that_are_not_kept_are_read_too():
    """With little memory rows come in parts, in another order than the table's."""
    X, y = (np.tile(one, reps) for one, reps in ((globals()["X"], (20, 1)), (Y, 20)))
    X[:, 0] += np.arange(len(X)) / 1e4
    model = fitted("boosting")[0]
    options = {"donors": ll.Latin(12), "random_state": 1, "features": "x0"}
    whole = ll.feature_importance(model, X, y, **options)["x0"]
    part = ll.feature_importance(model, X, y, memory="600 KiB", **options)["x0"]
    assert len(part.rows) < len(X)
    np.testing.assert_allclose(part.local, whole.local, rtol=1e-12, atol=1e-12)
    assert part.pfi == pytest.approx(whole.pfi, rel=1e-12)


def test_values_of_a_frame_keep_their_type():
    """Categories: a value that no row has is one that the model was fitted with."""
    frame = pd.DataFrame({"a": X[:, 0], "c": pd.Categorical.from_codes(X[:, 2].astype(int) % 2, list("uvw"))})
    model = ensemble.HistGradientBoostingRegressor(max_iter=20, min_samples_leaf=5, categorical_features="from_dtype")
    model.fit(frame, Y)
    design = ll.Grid(values=["w", "u"])
    found = ll.feature_effect(model, frame, features="c", donors=design)
    asked = ll.feature_effect(model.predict, frame, features="c", donors=design)
    assert (found.engine, asked.engine) == ("trees", "blackbox")
    np.testing.assert_allclose(found["c"].pd, asked["c"].pd, rtol=1e-12)
