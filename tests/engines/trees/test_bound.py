"""Trees and a table: which values are a class, and which tables are declined."""

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor

from losslens.engines.base import Declined
from losslens.engines.trees.node_rules import SMALL_TREE_LEAVES
from tree_cases import REGRESSORS, TARGET, TRAIN, X, bound_of


def test_missing_values_that_a_model_was_not_fitted_with_are_declined():
    table = X.copy()
    table[3, 0] = np.nan
    with pytest.raises(Declined, match="fitted without missing values"):
        bound_of(REGRESSORS["boosting"].fit(TRAIN, TARGET), table)


def test_a_few_rows_and_many_reach_the_same_leaves_as_in_the_model():
    """Few rows are walked down by NumPy, many by a kernel: with cuts, a missing value left or right, and categories."""
    rng = np.random.default_rng(0)
    table = np.column_stack([rng.normal(size=150), rng.normal(size=150), rng.integers(0, 6, 150)])
    table[rng.random(150) < 0.2, 0] = np.nan
    y = np.where(np.isnan(table[:, 0]), 1.0, table[:, 0]) + np.sin(3.0 * table[:, 2]) * table[:, 1]
    model = HistGradientBoostingRegressor(max_iter=20, min_samples_leaf=4, categorical_features=[2]).fit(table, y)
    bound = bound_of(model, table)
    many = bound.sums_of(bound.codes)
    few = np.concatenate([bound.sums_of(bound.codes[:, at : at + 50]) for at in range(0, 150, 50)])
    np.testing.assert_array_equal(few, many)
    np.testing.assert_allclose(bound.respond(many), model.predict(table), rtol=1e-12)


def test_the_longest_path_of_small_trees_is_that_of_the_library():
    model = REGRESSORS["forest"].fit(TRAIN, TARGET)
    assert max(tree.get_n_leaves() for tree in model.estimators_) <= SMALL_TREE_LEAVES
    assert bound_of(model, X).depth == max(tree.get_depth() for tree in model.estimators_)
