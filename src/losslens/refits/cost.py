"""The cost of fits: a few of them are timed, on more and more rows."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from math import log
from typing import Any

import numpy as np

from losslens.passes.cost import allowed
from losslens.refits.learner import Learner
from losslens.typing import Indices

FITTED = 0.5  # seconds of all timed fits, about
FIRST_ROWS, ROWS_A_COLUMN, GROWTH = 64, 2, 2  # of the first timed fit, and times more rows of the next one
STEEPEST = 3.0  # most the power of the rows that a fit takes
A_CLASS = 10  # rows of each class at least
SHORT = 0.02  # seconds of a fit that is made twice, because something may happen once

Fit = Callable[[Learner], Any]


@dataclass(frozen=True, eq=False)
class FitTime:
    """Seconds of fits on more and more rows, and what the last one gave."""

    rows: tuple[int, ...]
    took: tuple[float, ...]
    result: Any

    @property
    def earlier(self) -> tuple[int, float]:
        """The rows and seconds of the fit before the last two: a longer stretch has less noise."""
        return self.rows[-3:][0], self.took[-3:][0]

    @property
    def steepness(self) -> float:
        """The power of the rows that the last fits took."""
        rows, took = self.earlier
        if rows == self.rows[-1]:
            return 1.0
        return float(min(STEEPEST, max(0.0, log(self.took[-1] / took) / log(self.rows[-1] / rows))))

    def seconds(self, rows: int) -> float:
        """Of a fit on so many rows: by that power, or along a line where they grow more slowly than the rows."""
        more, power, last = rows / self.rows[-1], self.steepness, self.took[-1]
        if power >= 1:
            return float(last * more**power)
        before, took = self.earlier
        slope = max(0.0, last - took) / (self.rows[-1] - before)
        return max(last * min(1.0, more), last + slope * (rows - self.rows[-1]))

    @property
    def next_one(self) -> float:
        """Seconds of the next fit, about."""
        return float(self.took[-1] * GROWTH ** max(self.steepness, 0.5))


def timed_fits(known: Learner, fit: Fit) -> FitTime:
    """The time of `fit`, which fits the first fold, from fits on more and more of its rows.

    Where too few rows are an error, more are tried.
    """
    train, test = known.splits[0]
    rows, began, seen = max(FIRST_ROWS, ROWS_A_COLUMN * len(known.table.names)), time.perf_counter(), None
    while True:
        some = _spread(known, train, rows)
        few = replace(known, splits=((some, _thinned(test, len(test) * len(some) // len(train))),))
        try:
            took, result = _seconds(partial(fit, few))
        except Exception:
            if len(some) == len(train):
                raise
        else:
            before = FitTime((), (), None) if seen is None else seen
            seen = FitTime((*before.rows, len(some)), (*before.took, max(took, 1e-6)), result)
        if len(some) == len(train) and seen is not None:
            return seen
        if seen is not None and time.perf_counter() - began + seen.next_one > allowed(FITTED):
            return seen
        rows *= GROWTH


def _seconds(fit: Callable[[], Any]) -> tuple[float, Any]:
    for _ in range(2):
        started = time.perf_counter()
        result = fit()
        took = time.perf_counter() - started
        if took > SHORT:
            break
    return took, result


def _spread(known: Learner, train: Indices, rows: int) -> Indices:
    """Evenly spaced training rows; of a classifier some of every class."""
    from sklearn.base import is_classifier

    some = _thinned(train, rows)
    if not is_classifier(known.estimator) or len(some) == len(train):
        return some
    labels = np.unique(known.y[train], return_inverse=True)[1]
    order = np.argsort(labels, kind="stable")
    place = np.arange(len(order)) - np.searchsorted(labels[order], labels[order])  # of a row in its class
    return np.union1d(some, train[order[place < A_CLASS]])


def _thinned(rows: Indices, most: int) -> Indices:
    return rows[np.unique(np.linspace(0, len(rows) - 1, max(2, min(most, len(rows)))).astype(np.intp))]
