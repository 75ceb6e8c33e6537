"""SAGE's game without donors: means of sums, and of leaves, against all coalitions by the model's own predict."""

import numpy as np
import pandas as pd
import pytest
from sklearn import ensemble, linear_model, tree

import losslens as ll

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
    options = {"aggregate": "prediction", "features": features, "loss": loss, "sample_weight": WEIGHT}
    found = ll.shapley_importance(model, table, y, **options)
    expected = ll.shapley_importance(ask, table, y, donors="all", method="exact", **options)
    assert (found.exact, found.engine == "blackbox", expected.engine) == (True, False, "blackbox")
    for of in ("sfimp", "local", "error_none", "gains", "std_error"):
        np.testing.assert_allclose(getattr(found, of), getattr(expected, of), rtol=1e-9, atol=1e-12, err_msg=of)
    mine, theirs = (of.interactions.index for of in (found, expected))
    np.testing.assert_allclose(mine, theirs, rtol=1e-9, atol=1e-12)


def test_unused_columns_have_no_share_to_the_last_bit():
    model = ensemble.RandomForestRegressor(4, random_state=0, max_features=None).fit(X.assign(b=0.0), Y)
    found = ll.shapley_importance(model, X, Y, aggregate="prediction")
    assert found.engine == "trees"
    np.testing.assert_array_equal(found.local[:, 1], 0.0)
