"""Rows that the model was trained on, where the estimator itself tells: it holds them, or a score of their targets."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

STORED = ("_fit_X", "X_train_", "X_fit_")  # of nearest neighbours, Gaussian processes, kernel ridge regression
SAME = 0.05  # share of the rows from which on it is said that they are training rows
TWINS = 4  # times the share of training rows that equal another: new rows may equal them just so
SO = "on training rows importances also show what a model has learned by heart"


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
