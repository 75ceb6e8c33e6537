"""Trees and a table: which values are a class, and which tables are declined."""

import numpy as np
import pytest

from losslens.engines.base import Declined
from tree_cases import REGRESSORS, TARGET, TRAIN, X, bound_of


def test_missing_values_that_a_model_was_not_fitted_with_are_declined():
    table = X.copy()
    table[3, 0] = np.nan
    with pytest.raises(Declined, match="fitted without missing values"):
        bound_of(REGRESSORS["boosting"].fit(TRAIN, TARGET), table)
