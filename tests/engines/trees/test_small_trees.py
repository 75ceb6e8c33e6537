"""Tables of small trees."""

import numpy as np

from losslens.engines.trees import small_trees
from tree_cases import REGRESSORS, TARGET, TRAIN, X, bound_of


def test_tables_hold_each_pair_of_leaves_once():
    model = REGRESSORS["forest"].fit(TRAIN, TARGET)
    tables = small_trees.tables(bound_of(model, X))
    leaves = [tree.get_n_leaves() for tree in model.estimators_]
    np.testing.assert_array_equal(np.diff(tables.pair_at), np.square(leaves))
    assert len(tables.split) == np.square(leaves).sum()
    assert len(tables.span) == np.diff(tables.first) @ leaves  # a leaf and a feature of its tree
