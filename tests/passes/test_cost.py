"""Counts from which the cost of a call is estimated."""

import numpy as np
import pytest

from losslens.passes.cost import values_of_all


@pytest.mark.parametrize("values", [1, 5, 300, 2_000, 5_000, 20_000])
def test_the_values_of_some_rows_tell_those_of_all(values):
    """A column of 20,000 rows with D equally frequent values, seen in 2,000 of them; all distinct ones are all rows."""
    rng = np.random.default_rng(0)
    column = rng.permutation(np.arange(20_000) % values)
    counted = len(np.unique(column[:2_000]))
    assert values_of_all(counted, 2_000, 20_000) == pytest.approx(values, rel=0.05)


def test_all_rows_have_the_values_that_were_counted():
    assert values_of_all(7, 100, 100) == 7
    assert values_of_all(100, 100, 100) == 100
