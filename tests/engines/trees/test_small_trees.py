"""Tables of small trees."""

import numpy as np

from losslens.engines.trees import small_trees
from tree_cases import REGRESSORS, TARGET, TRAIN, X, bound_of


def test_tables_hold_each_pair_of_leaves_once():
    model = REGRESSORS["forest"].fit(TRAIN, TARGET)
    tables = small_trees.tables(bound_of(model, X))
    pairs = [tree.get_n_leaves() ** 2 for tree in model.estimators_]
    np.testing.assert_array_equal(np.diff(tables.pair_at), pairs)
    assert len(tables.entry) == len(tables.span) == sum(pairs)
