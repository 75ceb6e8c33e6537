"""Row positions from what users choose rows by: masks, positions and labels of groups."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from losslens.tables.columns import is_missing
from losslens.typing import Indices


def positions(rows: Any, n: int) -> Indices:
    """Row positions from a boolean mask or from positions, checked and sorted."""
    array = in_order(rows, n)
    if len(np.unique(array)) < len(array):
        raise ValueError("a row position occurs twice; list each row once")
    return np.sort(array)


def all_but(rows: Any, n: int) -> Indices:
    """The positions of all rows except these; `rows` may be empty, but not all rows."""
    array = np.asarray(rows)
    if array.shape == (0,) or (array.dtype == bool and array.shape == (n,) and not array.any()):
        return np.arange(n)
    others = np.setdiff1d(np.arange(n), positions(array, n))
    if len(others) == 0:
        raise ValueError("every row is left out; keep at least one")
    return others


def in_order(rows: Any, n: int) -> Indices:
    """Row positions from a boolean mask or from positions, checked, in the given order."""
    array = np.asarray(rows)
    if array.shape == (0,):
        raise ValueError("no row is chosen; choose at least one")
    if array.dtype == object and all(isinstance(item, (bool, np.bool_)) for item in array.ravel()):
        array = array.astype(bool)
    if array.ndim != 1 or array.dtype.kind not in "biu":
        raise TypeError(f"rows is a boolean mask or a list of row positions; got {type(rows).__name__}")
    if array.dtype == bool:
        if len(array) != n:
            raise ValueError(f"the mask has {len(array)} entries for {n} rows")
        array = np.flatnonzero(array)
    elif len(array) and (array.min() < -n or array.max() >= n):
        raise ValueError(f"row positions run from 0 to {n - 1}; got {array.min()} to {array.max()}")
    array = array.astype(np.intp) % n
    if len(array) == 0:
        raise ValueError("no row is chosen; choose at least one")
    return array


def split(groups: Any, n: int) -> dict[Any, NDArray[np.bool_]]:
    """A mask for each label, in sorted order."""
    labels = np.asarray(groups)
    if labels.ndim != 1 or len(labels) != n:
        raise ValueError(f"groups needs one label for each of {n} rows; got shape {labels.shape}")
    missing = sum(map(is_missing, labels.tolist()))
    if missing:
        raise ValueError(f"groups has {missing} missing labels; name them or leave these rows out")
    try:
        distinct, codes = np.unique(labels, return_inverse=True)
    except TypeError:  # labels of several types: in order of occurrence
        place = {label: code for code, label in enumerate(dict.fromkeys(labels.tolist()))}
        codes = np.array([place[own] for own in labels.tolist()])
        return {label: codes == code for label, code in place.items()}
    # `tolist` would convert dates in nanoseconds to integers.
    names = list(distinct) if distinct.dtype.kind in "mM" else distinct.tolist()
    return {name: codes.reshape(-1) == code for code, name in enumerate(names)}
