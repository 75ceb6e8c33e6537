"""What a call may take: a time, or a number of predictions; and what calls of the model take, as measured on the way.

A call of the model takes a fixed time and a time for each row. Both are estimated from the calls made so far.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any, TypeVar

import numpy as np

from losslens.tables.checks import check_count
from losslens.text import duration

UNITS = {"s": 1.0, "sec": 1.0, "second": 1.0, "min": 60.0, "minute": 60.0, "h": 3600.0, "hour": 3600.0}
RANKS = "ranks"  # the precision at which the leading ranks are settled
CALL_SHARE = 0.05  # of the time, for one call of the model: the clock is read between calls
FIXED_TIMES = 5  # a call takes at least so many times its fixed cost: else most of the time would be spent on that
GROWTH = 8  # a call has at most so many times the rows of the largest one so far
TIMED = 30  # latest calls from which costs are estimated
PAUSES = 0.1, 0.5, 1.0  # seconds before a failed call of the model is repeated
Result = TypeVar("Result")
clock, pause = time.monotonic, time.sleep  # the one place where time is read and waited for


@dataclass(frozen=True)
class Limits:
    """What a call may take, from its beginning on, and whether it ends when the leading ranks are settled."""

    budget: str  # as the caller wrote it
    seconds: float = inf
    predictions: float = inf
    ranks: bool = False
    every_row: bool = False  # rows are chosen already
    began: float = field(default_factory=lambda: clock())  # noqa: PLW0108 - `clock` when it is called

    @property
    def timed(self) -> bool:
        """Whether seconds are limited."""
        return self.seconds < inf

    @property
    def used(self) -> float:
        """Seconds since the call began."""
        return clock() - self.began

    def share(self, k: int, parts: int) -> Limits:
        """The limits of the k-th of so many parts, from 0 on: of the seconds that are left, or of all predictions."""
        left = max(self.seconds - self.used, 0.0)
        return replace(self, seconds=left / (parts - k), predictions=np.floor(self.predictions / parts), began=clock())


def limits_of(budget: Any, precision: Any = None) -> Limits | None:
    """The limits that the arguments `budget` and `precision` state; None where they state none."""
    if precision is not None and not is_ranks(precision):
        raise ValueError(f"precision is 'ranks' (the leading ranks are settled) or None; got {precision!r}")
    if budget is None:
        return Limits("", ranks=True) if precision is not None else None
    if isinstance(budget, str):
        return Limits(budget, seconds=seconds_of(budget), ranks=precision is not None)
    check_count(budget, "budget of predictions")
    return Limits(f"{budget:,} predictions", predictions=int(budget), ranks=precision is not None)


def is_ranks(precision: Any) -> bool:
    """Whether a precision is the word for settled ranks."""
    return isinstance(precision, str) and precision == RANKS


def seconds_of(text: str) -> float:
    """A time in words.

    >>> seconds_of("90 s"), seconds_of("10 min"), seconds_of("1.5h")
    (90.0, 600.0, 5400.0)
    """
    parts = re.fullmatch(r"\s*(\d+\.?\d*|\.\d+)\s*([a-z]+?)s?\s*", text) or re.fullmatch(r"\s*(\d+)\s*(s)\s*", text)
    seconds = 0.0 if parts is None else float(parts[1]) * UNITS.get(parts[2], 0.0)
    if not 0 < seconds < inf:
        raise ValueError(
            f"budget is a time, such as '90 s', '10 min' or '1 h', or a number of predictions; got {text!r}"
        )
    return seconds


class ModelFailed(Exception):  # noqa: N818 - of the model, which raised `cause`
    """A call of the model failed, and so it did when it was repeated."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(cause)
        self.cause = cause

    @property
    def words(self) -> str:
        """The error of the model."""
        return f"{type(self.cause).__name__}: {' '.join(str(self.cause).split())[:200]}"


def repeated(call: Callable[[], Result]) -> Result:
    """The result of a call, which is repeated where it fails; then raises `ModelFailed`."""
    for wait in PAUSES:
        try:
            return call()
        except Exception:  # noqa: BLE001 - whatever an endpoint raises
            pause(wait)
    try:
        return call()
    except Exception as error:
        raise ModelFailed(error) from error


class Meter:
    """Counts predictions, times calls of the model, and says what the rest of an allowance affords."""

    def __init__(self, limits: Limits) -> None:
        self.limits, self.predictions = limits, 0
        self.timings: list[tuple[int, float]] = []  # rows and seconds of the calls
        self.own = 0.0  # seconds that the result takes after the last call

    @property
    def seconds(self) -> float:
        """Seconds since the call began."""
        return clock() - self.limits.began

    def record(self, rows: int, seconds: float) -> None:
        """A call of the model has ended."""
        self.predictions += rows
        self.timings.append((rows, seconds))

    @property
    def costs(self) -> tuple[float, float]:
        """Seconds of a call, and of each row in it; 0 and 1 where predictions are counted.

        The line through the latest calls with the least relative errors; neither is negative. The first call, which
        may include what happens once, counts only where there is no other.
        """
        if not self.limits.timed:
            return 0.0, 1.0
        from scipy.optimize import nnls

        rows, seconds = np.array(self.timings[1:][-TIMED:] or self.timings, float).T
        seconds = np.maximum(seconds, 1e-9)
        if np.ptp(rows) == 0:  # one number of rows tells nothing of the fixed part
            return 0.0, float(np.mean(seconds / rows))
        (fixed, each), _ = nnls(np.column_stack([1 / seconds, rows / seconds]), np.ones(len(rows)))
        return float(fixed), max(float(each), 1e-12)

    def time_of(self, rows: int, largest: int) -> float:
        """Seconds, or predictions, of so many rows in calls of the usual size."""
        fixed, each = self.costs
        return float(np.ceil(rows / self.rows_a_call(largest)) * fixed + each * rows)

    def rows_a_call(self, largest: int) -> int:
        """Rows of a call: it takes a small part of the time, and several times its fixed cost."""
        if not self.limits.timed:
            return largest
        fixed, each = self.costs
        seconds = max(CALL_SHARE * self.limits.seconds, FIXED_TIMES * fixed)
        tried = GROWTH * max(rows for rows, _ in self.timings)  # costs are not extrapolated farther
        return int(np.clip((seconds - fixed) / each, 1, min(largest, tried)))

    @property
    def left(self) -> float:
        """Seconds, or predictions, that are left."""
        if self.limits.timed:
            return self.limits.seconds - self.seconds - self.own
        return self.limits.predictions - self.predictions

    def rows_left(self, largest: int) -> float:
        """The rows that the rest affords, in calls of the usual size."""
        fixed, each = self.costs
        size, left = self.rows_a_call(largest), self.left
        if left == inf:
            return inf
        full, rest = divmod(max(left, 0.0), fixed + each * size)
        return float(full * size + max((rest - fixed) / each, 0.0) // 1)

    def words(self, rows: float, largest: int) -> str:
        """What so many predictions take."""
        time_needed = f", about {duration(self.time_of(int(rows), largest))}" if self.limits.timed else ""
        return f"{rows:,.0f} predictions{time_needed}"
