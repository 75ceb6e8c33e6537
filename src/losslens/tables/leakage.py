"""Warnings where a model has seen the answers: y is one of the columns of X, or these rows are its training rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from math import lgamma, log
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from losslens.tables.arrays import plain_array
from losslens.tables.checks import output_names, vector
from losslens.tables.columns import Column, is_number
from losslens.tables.frames import Table, as_table
from losslens.workers import warn_once

FEW = 16  # rows, spread over the table, which rule out nearly every column
NEAR = 1e-3  # relative difference of numbers there: a table may be rounded
CHANCE = 1e-6  # of an equal column, above which it may be a coincidence


def warn_of_target(X: Any, y: Any) -> None:
    """Warn if a column of X equals y in every row; what is wrong with X or y is left to other checks.

    A column with the values of y in random order equals y with a probability of one over the number of orders that
    differ, n! / (n_1! n_2! ...), with n_v rows of value v. There is no warning where that exceeds one in a million: a
    constant, a few rows, few truth values.
    """
    with suppress(TypeError, ValueError, ArithmeticError, OSError):
        table = as_table(X)
        for what, values in _targets(y):
            for name in _equal_columns(table, values):
                warn_once(target_among(name, f"equals {what} in every row"))


def target_among(name: str, why: str) -> str:
    """The warning for data in memory and in files."""
    return (
        f"X has the target: its column {name!r} {why}, so a model that reads it is given the answer; leave it out, or "
        "ignore this if the model drops it"
    )


def _targets(y: Any) -> list[tuple[str, Any]]:
    """y, or each of its columns: outputs, events and times."""
    if getattr(getattr(y, "dtype", None), "names", None):
        return [(f"{name!r} of y", y[name]) for name in y.dtype.names]
    if (names := output_names(y)) is None:
        return [("y", y)]
    frame = nw.from_native(y, eager_only=True, pass_through=True)
    if isinstance(frame, nw.DataFrame):  # by column: an array of all would have one type
        return [(f"{name!r} of y", frame[name].to_numpy()) for name in frame.columns]
    return [(f"{name!r} of y", column) for name, column in zip(names, plain_array(y, "y").T, strict=True)]


def _equal_columns(table: Table, y: Any) -> list[str]:
    values = vector(y, table.n, "y")
    found = [table.names[j] for j in _near(table, values) if _equal(table.column(j), values)]
    return [] if not found or _by_chance(values) else found


def _near(table: Table, y: NDArray[Any]) -> Sequence[int]:
    """Columns that are near y in a few rows: some all over the table, and those of the smallest and the largest y."""
    every = range(len(table.names))
    if y.dtype.kind not in "biufOU":
        return every
    extreme = [int(y.argmin()), int(y.argmax())] if y.dtype.kind in "biuf" else []
    few = np.unique(np.r_[extreme, np.linspace(0, table.n - 1, FEW)].astype(np.intp))
    pairs = list(zip(table.entries(few), y[few].tolist(), strict=True))
    return [j for j in every if all(_are_near(row[j], value) for row, value in pairs)]


def _are_near(entry: Any, value: Any) -> bool:
    if is_number(entry) and is_number(value):
        return abs(float(entry) - float(value)) <= NEAR * abs(float(value))
    same = entry == value
    return isinstance(same, (bool, np.bool_)) and bool(same)  # neither pandas' NA nor an array


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


STORED = ("_fit_X", "X_train_", "X_fit_")  # of nearest neighbours, Gaussian processes, kernel ridge regression
SAME = 0.05  # share of the rows from which on it is said that they are training rows
TWINS = 4  # times the share of training rows that equal another: new rows may equal them just so
SO = "on training rows importances also show what a model has memorised"


def training_rows(model: Any, X: Any, y: Any) -> str:
    """What a fitted estimator tells of these rows as rows that it was trained on; "" where it tells nothing.

    Only what follows from its attributes is said: rows equal stored ones in all columns, more often than training rows
    equal each other; or the score that a forest has of its out-of-bag predictions is that of y, row by row.
    """
    with suppress(TypeError, ValueError, AttributeError, ArithmeticError):
        if (equal := _equal_rows(model, X)) is not None:
            n, same, twins = len(equal[0]), int(equal[0].sum()), equal[1]
            if same > max(SAME, TWINS * twins) * n:
                return f"{same:,} of {n:,} rows equal rows that the model was trained on, in every column: {SO}"
        if _has_score_of(model, y):
            return f"y is, row by row, the target that the model was trained on, as its out-of-bag score shows: {SO}"
    return ""


def _equal_rows(model: Any, X: Any) -> tuple[NDArray[np.bool_], float] | None:
    """Which rows equal one that the model holds, and the share of these that equal another; None if it holds none."""
    last = model.steps[-1][1] if hasattr(model, "steps") else model
    stored = next((vars(last)[name] for name in STORED if isinstance(vars(last).get(name), np.ndarray)), None)
    if stored is None or stored.ndim != 2 or stored.dtype.kind not in "fiub":
        return None
    seen = model[:-1].transform(X) if hasattr(model, "steps") and len(model.steps) > 1 else X
    rows = np.asarray(seen, stored.dtype)
    if rows.shape[1:] != stored.shape[1:]:
        return None
    known = set(map(bytes, np.ascontiguousarray(stored + 0)))  # + 0: -0.0 equals 0.0
    return np.array([bytes(row) in known for row in np.ascontiguousarray(rows + 0)]), 1 - len(known) / len(stored)


def _has_score_of(model: Any, y: Any) -> bool:
    """Whether the R² of a forest's out-of-bag predictions with y, in this order, is the one that it stored."""
    if not (hasattr(model, "oob_prediction_") and hasattr(model, "oob_score_")):
        return False
    target, predicted = np.asarray(y, float), np.asarray(model.oob_prediction_)
    if target.shape != predicted.shape:
        return False
    spread = float(np.square(target - target.mean()).sum())
    found = 1 - float(np.square(target - predicted).sum()) / spread if spread > 0 else np.nan
    return bool(abs(found - model.oob_score_) < 1e-12)  # its last bits
