"""All pairs with two columns replaced, looked up in a grid for each row: equal to walks of all pairs down all trees."""

import numpy as np
import pytest
from sklearn.ensemble import (
    GradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)

import losslens as ll
from losslens.donors.questions import Subjects
from losslens.engines.base import Site
from losslens.engines.choice import choose_exact
from losslens.engines.trees import pair_table as module
from losslens.engines.trees.pair_table import pair_table
from losslens.models import as_model
from losslens.tables.frames import as_table

N = 150
RNG = np.random.default_rng(3)
X = np.column_stack([RNG.normal(size=N), RNG.integers(0, 4, N), RNG.normal(size=(N, 2))])
Y = X[:, 0] * X[:, 1] + X[:, 2] + 0.3 * RNG.normal(size=N)
K = np.digitize(Y, [-0.5, 1.0])
MODELS = {
    "boosting": HistGradientBoostingRegressor(max_iter=30, min_samples_leaf=4).fit(X, Y),
    "forest": RandomForestRegressor(12, random_state=0).fit(X, Y),
    "votes": RandomForestClassifier(6, max_depth=5, random_state=0).fit(X, K),
    "scores": GradientBoostingClassifier(n_estimators=8, random_state=0).fit(X, K),
}


def bound(model, table=X):
    response = "probabilities" if hasattr(model, "predict_proba") else "values"
    known = as_model(model)
    frame = as_table(table)
    site = Site(frame, Subjects(frame).column, frozenset(range(table.shape[1])), 1 << 28, None, False)
    engine, declined = choose_exact(known, response, known.responder(response), None, site)
    assert not declined
    return engine.bound


@pytest.mark.parametrize("columns", [(0, 1), (0, 2), (1, 3), (2, 3)], ids=str)
@pytest.mark.parametrize("name", MODELS)
def test_grids_hold_what_walks_give(name, columns):
    trees, replaced = bound(MODELS[name]), np.array(columns)
    kept = np.setdiff1d(np.arange(4), replaced)
    rows, values = np.array([5, 3, 80, 149]), trees.codes[replaced][:, ::-1]
    expected = pair_table(trees, None, kept, values, rows)
    assert np.ptp(expected) > 0
    np.testing.assert_array_equal(module.grid_table(trees, replaced, values, rows), expected)


def test_a_grid_that_grows_while_rows_come(monkeypatch):
    """A grid larger than its buffer stops the kernel, which goes on where it was."""
    trees, rows = bound(MODELS["forest"]), np.arange(N)
    values, whole = trees.codes[[0, 2]], np.empty
    small = module.grid_table(trees, np.array([0, 2]), values, rows)
    asked = []

    def narrow(shape, *kind):
        if isinstance(shape, int):
            asked.append(shape)
            shape = 4 if len(asked) == 1 else shape
        return whole(shape, *kind)

    monkeypatch.setattr(module.np, "empty", narrow)
    np.testing.assert_array_equal(module.grid_table(trees, np.array([0, 2]), values, rows), small)
    assert len(asked) > 1


def test_missing_values_and_three_columns_have_no_rectangles():
    Z = np.where(RNG.random(X.shape) < 0.1, np.nan, X)
    holes = bound(HistGradientBoostingRegressor(max_iter=5, min_samples_leaf=4).fit(Z, Y), Z)
    trees = bound(MODELS["boosting"])
    cost = module.grid_cost(trees, np.array([0, 2]))
    assert cost.cells > 1
    assert module.is_feasible(trees, cost, N * N)
    assert module.grid_cost(holes, np.array([0, 2])) is None
    assert module.grid_cost(trees, np.array([0, 1, 2])) is None
    assert not module.is_feasible(trees, None, N * N)
    assert not module.is_feasible(trees, cost, int(module.MAX_PAIRS) + 1)
    assert not module.is_feasible(trees, module.GridCost(module.MAX_GRID_CELLS + 1, 1), N * N)


@pytest.mark.parametrize("loss", ["squared_error", "absolute_error"])
@pytest.mark.parametrize("name", ["boosting", "forest"])
def test_groups_of_two_columns_are_brute_force(name, loss, monkeypatch):
    used = []
    monkeypatch.setattr(module, "grid_table", lambda *asked: used.append(1) or table(*asked))
    options = {"loss": loss, "features": {"a": [0, 1], "b": [3, 2]}, "donors": "all", "progress": False}
    found = ll.feature_importance(MODELS[name], X, Y, **options)
    asked = ll.feature_importance(MODELS[name].predict, X, Y, **options)
    assert (found.engine, bool(used)) == ("trees", True)
    for group in "ab":
        np.testing.assert_allclose(found[group].ici, asked[group].ici, atol=1e-9)
        assert found[group].std_error == pytest.approx(asked[group].std_error, abs=1e-10)


table = module.grid_table
