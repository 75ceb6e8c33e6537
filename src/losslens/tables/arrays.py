"""Arrays of users; masked values are refused, because NumPy would use what is under the mask."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from losslens.typing import Indices


def plain_array(values: Any, name: str) -> NDArray[Any]:
    """An array without a mask."""
    hidden = masked_rows(values)
    if len(hidden):
        raise ValueError(
            f"{name} has {len(hidden)} masked values (the first in row {hidden[0]}); leave these rows out, or "
            "fill the values with .filled(...)"
        )
    try:
        return native_order(np.asarray(values))
    except ValueError as error:
        if "inhomogeneous" not in str(error):
            raise ValueError(f"{name} can't be converted to an array: {error}") from error
        raise ValueError(f"{name} needs one value for each row; got lists of different lengths") from error


def native_order(array: NDArray[Any]) -> NDArray[Any]:
    """The array in this machine's byte order: kernels and frame libraries read no other."""
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def masked_rows(values: Any) -> Indices:
    """The rows with masked values; only a masked array has some, not one of pandas with missing values."""
    if not isinstance(values, np.ma.MaskedArray):
        return np.empty(0, np.intp)
    mask = np.atleast_1d(np.ma.getmaskarray(values))
    return np.flatnonzero(mask.reshape(len(mask), -1).any(axis=1))
