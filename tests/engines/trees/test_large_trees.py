"""Rows passed down large trees."""

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

from losslens.engines.trees import large_trees, small_trees
from tree_cases import bound_of

RNG = np.random.default_rng(0)
X = np.column_stack([RNG.normal(size=(300, 2)), RNG.integers(0, 9, 300), RNG.integers(0, 3, 300)])
X[RNG.random(X.shape) < 0.1] = np.nan  # a missing value is a class without order, as categories are
Y = np.nan_to_num(X[:, 0]) + (X[:, 2] > 4) * np.nan_to_num(X[:, 1]) + RNG.normal(size=300)
MODELS = {
    "one output": HistGradientBoostingRegressor(max_iter=4, min_samples_leaf=2, categorical_features=[2, 3]).fit(X, Y),
    "three outputs": HistGradientBoostingClassifier(max_iter=3, min_samples_leaf=2).fit(X, np.digitize(Y, [-1, 1])),
}


def curves(search):
    """Steps of each curve, their classes and sums of leaves, and those of the rows themselves."""
    parts = [(np.diff(a.start), a.classes.copy(), a.raw.copy(), a.own.copy()) for a in search.steps(5, 290)]
    return [np.concatenate(part) for part in zip(*parts, strict=True)]


@pytest.mark.parametrize("buffers", ["ample", "to be enlarged", "small blocks"])
@pytest.mark.parametrize("wanted", [(1, 1, 1, 1), (0, 1, 0, 1), (1, 0, 1, 0), (0, 0, 0, 0)], ids=str)
@pytest.mark.parametrize("model", MODELS)
def test_curves_are_those_of_the_search_for_small_trees(model, wanted, buffers, monkeypatch):
    """Trees of up to 64 leaves can be searched either way: the same integers, whatever the buffers hold at first."""
    if buffers == "to be enlarged":
        monkeypatch.setattr(large_trees, "EVENTS", 1)
    bound = bound_of(MODELS[model], X, "values" if model == "one output" else "probabilities")
    mask = np.array(wanted, np.uint8)
    large = large_trees.LargeTrees(bound, mask, memory=20_000 if buffers == "small blocks" else 2**27)
    large.keys, large.jobs = large.keys[: large.rows], large.jobs[:2]
    expected = curves(small_trees.SmallTrees(bound, small_trees.tables(bound), mask))
    for found, known in zip(curves(large), expected, strict=True):
        np.testing.assert_array_equal(found, known)
