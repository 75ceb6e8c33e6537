"""A table's columns as numbers, for scikit-learn's estimators; scikit-learn is imported where it is needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from losslens.tables.columns import Column, is_missing, is_number
from losslens.tables.frames import Table
from losslens.typing import Floats, Indices

LARGEST = 3e38  # about the largest number of single precision
MOST_HELD = 1 << 20  # rows times columns that are held as numbers: 8 MiB
MOST_INDICATORS = 32  # of a categorical column: its most frequent values


@dataclass(frozen=True)
class Axis:
    """The meaning of a number: a column's value, an indicator of one value, or an indicator of missing values."""

    column: str
    says: Literal["number", "value", "missing"]
    value: str = ""
    start: Any = 0.0  # subtracted, so that single precision suffices; for dates the rest is in days

    def rule(self, threshold: float, *, above: bool) -> str:
        """The rule of the rows at or below a threshold, or above it, as text."""
        if self.says == "missing":
            return f"{self.column} is {'missing' if above else 'known'}"
        if self.says == "value":
            return f"{self.column} {'=' if above else '≠'} {self.value}"
        how = ">" if above else "≤"
        if isinstance(self.start, np.datetime64):
            bound = self.start + np.timedelta64(round(threshold * 86_400), "s")
            return f"{self.column} {how} {str(bound.astype('datetime64[s]')).replace('T00:00:00', '')}"
        return f"{self.column} {how} {self.start + threshold:.4g}"


class Numbers:
    """The columns of a table as numbers; each is converted once, as long as they are few numbers."""

    def __init__(self, table: Table, weight: Floats | None = None, block: Indices | None = None) -> None:
        self.table, self.block = table, block  # (n,): groups of rows
        self.counted = np.arange(table.n) if weight is None else np.flatnonzero(weight > 0)  # rows to learn from
        self._converted: dict[int, tuple[Floats, tuple[Axis, ...]]] = {}

    def of(self, columns: Sequence[int], dtype: type = np.float64) -> tuple[Floats, tuple[Axis, ...]]:
        """These columns side by side, (n, d), and the meaning of each number."""
        parts: list[Floats] = []
        axes: tuple[Axis, ...] = ()
        for j in columns:
            part, of_part = self._converted.get(j) or _convert(self.table.column(j), self.table.names[j])
            if self.table.n * len(self.table.names) <= MOST_HELD:
                self._converted[j] = part, of_part
            parts.append(part.astype(dtype, copy=False))
            axes += of_part
        together: Floats = np.empty((self.table.n, len(axes)), dtype)
        start = 0
        while parts:  # each is released once it is written
            part = parts.pop(0)
            together[:, start : start + part.shape[1]] = part
            start += part.shape[1]
        return together, axes


def _convert(column: Column, name: str) -> tuple[Floats, tuple[Axis, ...]]:
    """Numbers and dates, with the median for missing ones; indicators of the values of a categorical column."""
    distinct = column.distinct
    missing_values = np.arange(len(distinct)) >= distinct.present
    missing = missing_values[distinct.codes]
    if not distinct.ordered:
        count = np.bincount(distinct.codes, minlength=len(distinct))
        frequent = np.argsort(-count, kind="stable")[:MOST_INDICATORS]
        shown = [int(code) for code in frequent if not missing_values[code]]
        parts = [(distinct.codes == code).astype(float) for code in shown]
        axes = [Axis(name, "value", str(distinct.values[code])) for code in shown]
    else:
        values, start = _as_floats(distinct.values)
        parts, axes = [_fill_missing(values[distinct.codes], missing)], [Axis(name, "number", start=start)]
    if missing.any() and not missing.all():
        parts, axes = [*parts, missing.astype(float)], [*axes, Axis(name, "missing")]
    if not parts:  # only missing values
        parts, axes = [np.zeros(len(distinct.codes))], [Axis(name, "missing")]
    return np.stack(parts, axis=1), tuple(axes)


def _as_floats(values: NDArray[Any]) -> tuple[Floats, Any]:
    """Ordered values as floats, and what was subtracted: dates in days, ordered categories by position."""
    if values.dtype.kind in "mM":
        known = values[~np.isnat(values)]
        start = known.min() if len(known) else values.dtype.type(0, "s")
        days = (values - start) / np.timedelta64(1, "D")
        return np.asarray(days, float), start if values.dtype.kind == "M" else start / np.timedelta64(1, "D")
    if values.dtype.kind in "biuf":
        return _centred(values.astype(float))
    if not all(is_number(value) for value in values if not is_missing(value)):
        return np.array([np.nan if is_missing(v) else k for k, v in enumerate(values)]), 0.0
    return _centred(np.array([np.nan if is_missing(v) else float(v) for v in values]))


def _centred(values: Floats) -> tuple[Floats, float]:
    """Large numbers close to each other minus their median, and the median; clipped to single precision."""
    values = np.clip(values, -LARGEST, LARGEST)
    known = values[np.isfinite(values)]
    far = len(known) > 0 and np.abs(known).max() > 1000 * np.ptp(known) > 0
    start = float(np.round(np.median(known))) if far else 0.0
    return values - start, start


def _fill_missing(values: Floats, missing: NDArray[np.bool_]) -> Floats:
    known = np.isfinite(values) & ~missing
    return np.where(known, values, np.median(values[known]) if known.any() else 0.0)


def scikit_learn(module: str) -> Any:
    """A module of scikit-learn, or an error that says how to install it."""
    try:
        return import_module(f"sklearn.{module}")
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("this needs scikit-learn: pip install scikit-learn") from error


def cloned(estimator: Any, seed: int) -> Any:
    """An unfitted copy; the seed is used where the user set no random_state."""
    copy = scikit_learn("base").clone(estimator)
    unseeded = [name for name, value in copy.get_params().items() if name.endswith("random_state") and value is None]
    return copy.set_params(**dict.fromkeys(unseeded, seed % 2**31)) if unseeded else copy
