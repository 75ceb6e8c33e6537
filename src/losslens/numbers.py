"""A table's columns as numbers, for estimators that read nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from losslens.columns import Column, is_missing
from losslens.tables import Table

Floats = NDArray[np.float64]
MOST_WORDS = 32  # values of a column of words that get a number each, the most frequent


@dataclass(frozen=True)
class Axis:
    """What one number of a row says: a column's value, whether it is a certain one, or whether it is missing."""

    column: str
    says: Literal["number", "value", "missing"]
    value: str = ""

    def rule(self, threshold: float, *, above: bool) -> str:
        """The rows at or below a threshold, or above it, in words."""
        if self.says == "missing":
            return f"{self.column} is {'missing' if above else 'known'}"
        if self.says == "value":
            return f"{self.column} {'=' if above else '≠'} {self.value}"
        return f"{self.column} {'>' if above else '≤'} {threshold:.4g}"


class Numbers:
    """The columns of a table as numbers; each is looked at once."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self._known: dict[int, tuple[Floats, tuple[Axis, ...]]] = {}

    def column(self, j: int) -> Column:
        """A column of the table."""
        return self.table.column(j)

    def of(self, columns: Sequence[int]) -> tuple[Floats, tuple[Axis, ...]]:
        """These columns side by side, (n, d), and what each number says."""
        for j in columns:
            if j not in self._known:
                self._known[j] = _numbered(self.table.column(j), self.table.names[j])
        parts = [self._known[j] for j in columns]
        if not parts:
            return np.empty((self.table.n, 0)), ()
        return np.concatenate([part for part, _ in parts], axis=1), tuple(axis for _, axes in parts for axis in axes)


def _numbered(column: Column, name: str) -> tuple[Floats, tuple[Axis, ...]]:
    """Numbers and dates as they are, the median where one is missing; words by one number a value."""
    distinct = column.distinct
    missing = _missing(distinct.values)[distinct.codes]
    if not distinct.ordered:
        count = np.bincount(distinct.codes, minlength=len(distinct))
        shown = [int(code) for code in np.argsort(-count, kind="stable")[:MOST_WORDS] if not _absent(distinct, code)]
        parts = [(distinct.codes == code).astype(float) for code in shown]
        axes = [Axis(name, "value", str(distinct.values[code])) for code in shown]
    else:
        parts, axes = [_filled(_as_floats(distinct.values)[distinct.codes], missing)], [Axis(name, "number")]
    if missing.any() and not missing.all():
        parts, axes = [*parts, missing.astype(float)], [*axes, Axis(name, "missing")]
    if not parts:  # nothing but missing values
        parts, axes = [np.zeros(len(distinct.codes))], [Axis(name, "missing")]
    return np.stack(parts, axis=1), tuple(axes)


def _as_floats(values: NDArray[Any]) -> Floats:
    """Values that have an order; ordered words by their place."""
    if values.dtype.kind in "mM":
        return np.where(np.isnat(values), np.nan, values.astype("i8").astype(float))
    if values.dtype.kind in "biuf":
        return values.astype(float)
    numeric = all(isinstance(value, (int, float, np.number, np.bool_)) for value in values if not is_missing(value))
    return np.array([np.nan if is_missing(v) else float(v) if numeric else k for k, v in enumerate(values)])


def _missing(values: NDArray[Any]) -> NDArray[np.bool_]:
    if values.dtype.kind in "mM":
        return np.asarray(np.isnat(values))
    if values.dtype.kind in "biu":
        return np.zeros(len(values), bool)
    return np.array([is_missing(value) for value in values], bool)


def _absent(distinct: Any, code: int) -> bool:
    return bool(_missing(distinct.values[code : code + 1])[0])


def _filled(values: Floats, missing: NDArray[np.bool_]) -> Floats:
    known = np.isfinite(values) & ~missing
    return np.where(known, values, np.median(values[known]) if known.any() else 0.0)
