"""A warning where y is one of the columns of X: a model that reads it is given the answer."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from math import lgamma, log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from losslens.tables.checks import vector
from losslens.tables.columns import Column
from losslens.tables.frames import Table, as_table
from losslens.workers import warn_once

FEW = 64  # first rows, which rule out nearly every column
CHANCE = 1e-6  # of an equal column, above which it may be a coincidence


def warn_of_target(X: Any, y: Any) -> None:
    """Warn if a column of X equals y in every row; what is wrong with X or y is left to other checks.

    A column with the values of y in random order equals y with a probability of one over the number of orders that
    differ, n! / (n_1! n_2! ...), with n_v rows of value v. There is no warning where that exceeds one in a million: a
    constant, a few rows, few truth values.
    """
    with suppress(TypeError, ValueError, OSError):
        for name in _equal_columns(as_table(X), y):
            warn_once(
                f"X has the target: its column {name!r} equals y in every row, so a model that reads it is given the "
                "answer; leave it out"
            )


def _equal_columns(table: Table, y: Any) -> list[str]:
    values = vector(y, table.n, "y")
    few = np.arange(min(FEW, table.n))
    first = table.at(few)
    alike = [j for j in range(len(table.names)) if _equal(first.column(j), values[few])]
    found = [table.names[j] for j in alike if _equal(table.column(j), values)]
    return [] if not found or _by_chance(values) else found


def _equal(column: Column, y: NDArray[Any]) -> bool:
    array = column.array
    if array.dtype.kind in "biuf" and y.dtype.kind in "biuf":
        with np.errstate(over="ignore"):
            own = y.astype(array.dtype) if array.dtype.kind == "f" else y  # a table in single precision
        return bool(np.array_equal(array, own))
    if array.dtype.kind in "biufmM" or y.dtype.kind in "biufmM":
        return array.dtype.kind == y.dtype.kind and bool(np.array_equal(array, y))
    return bool(array.tolist() == y.tolist())


def _by_chance(y: NDArray[Any]) -> bool:
    count = list(Counter(y.tolist()).values())
    return lgamma(len(y) + 1) - sum(lgamma(k + 1) for k in count) < -log(CHANCE)
