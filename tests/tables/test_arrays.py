"""Arrays of users: what is masked is refused and what is missing is not, and errors say what is wrong."""

import numpy as np
import pandas as pd
import pytest

import losslens as ll
from losslens import losses
from losslens.tables.arrays import masked_rows, plain_array


def test_only_masked_arrays_are_masked():
    """Arrays of pandas with missing values have a `_mask` too."""
    missing = pd.array([1.0, None, 3.0], dtype="Float64")
    assert len(masked_rows(missing)) == 0
    assert masked_rows(np.ma.masked_array([[1, 2], [3, 4], [5, 6]], [[0, 0], [0, 1], [1, 1]])).tolist() == [1, 2]
    rows = np.arange(6.0).reshape(3, 2)
    for call in (
        lambda: ll.feature_importance(lambda X: X[:, 0], rows, missing, loss="squared_error"),
        lambda: ll.feature_importance(lambda X: missing, rows, rows[:, 0], loss="squared_error"),
    ):
        with pytest.raises((ValueError, TypeError)) as error:
            call()
        assert "masked" not in str(error.value)


class Unreadable:
    def __array__(self, dtype=None, copy=None):
        raise ValueError("the file is closed")


def test_lists_of_different_lengths_are_told_from_other_errors():
    with pytest.raises(ValueError, match="y needs one value for each row; got lists of different lengths"):
        plain_array([[1], [2, 3]], "y")
    with pytest.raises(ValueError, match="y can't be converted to an array: the file is closed"):
        plain_array(Unreadable(), "y")


@pytest.mark.parametrize("loss", [losses.squared_error, losses.pointwise(lambda y, f: (y - f) ** 2, reads="values")])
def test_losses_refuse_masks(loss):
    masked = np.ma.masked_array([1.0, 2.0], [False, True])
    for name, arguments in (("y", (masked, [1.0, 2.0])), ("prediction", ([1.0, 2.0], masked))):
        with pytest.raises(ValueError, match=rf"{name} has 1 masked values \(the first in row 1\)"):
            loss(*arguments)
    assert loss(np.ma.masked_array([1.0, 2.0]), [1.0, 3.0]).tolist() == [0.0, 1.0]
