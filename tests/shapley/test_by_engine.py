"""SAGE's game without donors: means of sums, and of leaves, against all coalitions by the model's own predict."""

import numpy as np
import pandas as pd
import pytest
from sklearn import ensemble, linear_model, tree
from sklearn.base import clone

import coalitions
import losslens as ll
from losslens.losses import resolve
from losslens.shapley import ways

RNG = np.random.default_rng(5)
N = 30
X = pd.DataFrame(RNG.normal(size=(N, 4)).round(1), columns=list("abcd"))
X.loc[::7, "d"] = np.nan
Y = (X.a + X.b * X.c + RNG.normal(size=N)).to_numpy()
CLASSES = np.digitize(Y, [-0.5, 0.7])
WEIGHT = RNG.uniform(0.2, 2, N)
WEIGHT[3] = 0.0
MODELS = {
    "line": (linear_model.LinearRegression(), ["squared_error"]),
    "tree": (tree.DecisionTreeRegressor(max_depth=4), ["absolute_error"]),
    "forest": (ensemble.RandomForestRegressor(4, random_state=0), ["squared_error", ll.losses.pinball(0.8)]),
    "boosting": (ensemble.HistGradientBoostingRegressor(max_iter=8, min_samples_leaf=3), ["huber"]),
    "classes": (ensemble.RandomForestClassifier(4, max_depth=3, random_state=0), ["brier", "log_loss"]),
}
CASES = [(name, loss) for name, (_, losses) in MODELS.items() for loss in losses]


@pytest.mark.parametrize("features", [None, {"ab": ["a", "b"], "c": ["c"]}], ids=["columns", "some, joined"])
@pytest.mark.parametrize(("name", "loss"), CASES, ids=[f"{name} {k}" for k, (name, _) in enumerate(CASES)])
def test_sage_is_that_of_all_coalitions(name, loss, features):
    """Columns of no player keep the row's values."""
    model, _ = MODELS[name]
    table, y = X.fillna(0.0) if name in ("line", "tree") else X, CLASSES if name == "classes" else Y
    model.fit(table, y)
    ask = model.predict_proba if y is CLASSES else model.predict
    options = {"features": features, "loss": loss, "sample_weight": WEIGHT}
    found = ll.shapley_importance(model, table, y, method=ll.Sage(), **options)
    expected = ll.shapley_importance(ask, table, y, donors="all", method=ll.Sage("exact"), **options)
    assert (found.exact, found.engine == "blackbox", expected.engine) == (True, False, "blackbox")
    for of in ("sfimp", "local", "error_none", "gains", "std_error"):
        np.testing.assert_allclose(getattr(found, of), getattr(expected, of), rtol=1e-9, atol=1e-12, err_msg=of)
    mine, theirs = (of.interactions.index for of in (found, expected))
    np.testing.assert_allclose(mine, theirs, rtol=1e-9, atol=1e-12)


def test_unused_columns_have_no_share_to_the_last_bit():
    model = ensemble.RandomForestRegressor(4, random_state=0, max_features=None).fit(X.assign(b=0.0), Y)
    found = ll.shapley_importance(model, X, Y, method=ll.Sage())
    assert found.engine == "trees"
    np.testing.assert_array_equal(found.local[:, 1], 0.0)


# Orders, along which mean predictions are known.

BOOSTED = ensemble.HistGradientBoostingRegressor(max_iter=10, min_samples_leaf=3, random_state=0)
WALKED = {
    "regression": (
        ensemble.HistGradientBoostingRegressor(max_iter=10, min_samples_leaf=3, random_state=0),
        "squared_error",
        0,
    ),
    "absolute": (
        ensemble.HistGradientBoostingRegressor(max_iter=10, min_samples_leaf=3, random_state=0),
        "absolute_error",
        0,
    ),
    "forest": (ensemble.RandomForestClassifier(5, max_leaf_nodes=6, random_state=0), "brier", 2),
    "forest, 3 classes": (ensemble.RandomForestClassifier(5, max_leaf_nodes=6, random_state=0), "brier", 3),
    "linear": (linear_model.LinearRegression(), "absolute_error", 0),
}


@pytest.mark.parametrize("players", [None, [[0, 2], [1]]], ids=["columns", "some"])
@pytest.mark.parametrize("name", WALKED)
def test_orders_of_mean_predictions_are_right_on_average(name, players, monkeypatch):
    """Against all coalitions by the model's own predict, averaged over all donors by weight."""
    for one in ("leaf means", "coalitions"):
        way = next(way for way in ways.WAYS if way.name == one)
        monkeypatch.setattr(ways, "WAYS", tuple(other for other in ways.WAYS if other is not way))
    rng = np.random.default_rng(3)
    table, weight = np.column_stack([rng.normal(size=(24, 2)), rng.integers(0, 3, 24)]), rng.integers(0, 3, 24) + 0.0
    y = table[:, 0] * (1 + table[:, 1]) + table[:, 2]
    native, loss, classes = WALKED[name]
    y = y if classes == 0 else np.digitize(y, [0.5] if classes == 2 else [0.2, 1.5])
    native = clone(native).fit(table, y)
    predict = native.predict if classes == 0 else native.predict_proba
    expected = coalitions.mean_shares(predict, table, y, resolve(loss).function, players, weight)
    named = None if players is None else {f"g{k}": columns for k, columns in enumerate(players)}
    found = [
        ll.shapley_importance(
            native, table, y, loss=loss, features=named, method=ll.Sage(), sample_weight=weight, random_state=s
        )
        for s in range(30)
    ]  # fmt: skip
    shares = np.array([one.sfimp for one in found])
    spread, moving = shares.std(axis=0, ddof=1), shares.std(axis=0) > 1e-12
    assert (np.abs(shares.mean(axis=0) - expected.sfimp) <= 5 * spread / np.sqrt(30) + 1e-9).all()
    stated = np.mean([one.monte_carlo_error**2 for one in found], axis=0)
    assert not moving.any() or 0.4 < np.median(stated[moving] / spread[moving] ** 2) < 2.5
    for one in found[:2]:
        assert "sweeps of orders over" in one.design
        assert (one.exact, one.n_predictions) == (False, 24)
        np.testing.assert_allclose(one.local[weight > 0].sum(axis=1), expected.gains[weight > 0], atol=1e-9)
