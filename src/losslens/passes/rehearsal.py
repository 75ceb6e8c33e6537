"""Seconds of a call, from the same call on some of its rows."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from losslens.donors.designs import Design
from losslens.tables import checks
from losslens.tables.frames import Table, as_table
from losslens.workers import here

FEW, GROWTH = 32, 4  # rows of the first rehearsal, and times more of the next
TIME_LIMIT = 0.3  # seconds of all rehearsals of a call, about
ONCE = 0.7  # where more rows take less than this share of the time of fewer, that included what happens once
LONGEST = 1.0  # seconds of a first rehearsal beyond which there is no second

Arguments = dict[str, Any]
OnFew = Callable[[int], Callable[[], Any]]  # a call on so many of its rows


def some_rows(table: Table, y: Any, arguments: Arguments, rows: int) -> tuple[Table, Any, Arguments]:
    """Evenly spaced rows, their targets, and the arguments of a verb with their weights, groups and donors."""
    positions = np.unique(np.linspace(0, table.n - 1, rows).astype(np.intp))
    some, donors = Arguments(progress=False), arguments.get("donors")
    if isinstance(donors, Design) and (donors.m or 0) > rows // 2:  # no more than there are rows
        some["donors"] = replace(donors, m=max(1, rows // 2))  # type: ignore[type-var]  # designs are dataclasses
    for name in {"sample_weight", "groups"} & arguments.keys():
        if arguments[name] is not None:
            some[name] = checks.vector(arguments[name], table.n, name, table.index)[positions]
    if y is not None:
        several = checks.output_names(y) is not None
        y = as_table(y).at(positions).native if several else checks.vector(y, table.n, "y", table.index)[positions]
    return table.at(positions), y, arguments | some


def rehearse(few: OnFew, n: int, power: int = 1, first: int = FEW) -> float:
    """Seconds of a call on n rows; few(k) prepares the call on k of them, and only the call is timed.

    Where few rows are an error more are tried. Two rehearsals or more separate what does not depend on the rows from
    what grows with this power of their number.
    """
    timings: list[tuple[float, float]] = []
    rows, began = min(first, n), time.perf_counter()
    while True:
        seconds = 0.0
        try:
            with here(), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about few rows
                for _ in range(1 if timings else 2):  # what happens once, such as compiling, is not counted
                    run = few(rows)
                    started = time.perf_counter()
                    run()
                    seconds = time.perf_counter() - started
                    if seconds > TIME_LIMIT / 2:
                        break
        except Exception:
            if rows == n:
                raise
        else:
            timings.append(((rows / n) ** power, max(seconds, 1e-6)))
        spent = time.perf_counter() - began + GROWTH * seconds
        if rows == n or (timings and (seconds > LONGEST if len(timings) == 1 else spent > TIME_LIMIT)):
            return _of_all(timings)
        rows = min(n, GROWTH * rows)


def _of_all(timings: list[tuple[float, float]]) -> float:
    """Seconds of all the work, on the line through the last two timings of shares of it."""
    share, seconds = timings[-1]
    before, earlier = timings[-2] if len(timings) > 1 else (0.0, 0.0)
    if seconds < ONCE * earlier:
        before, earlier = 0.0, 0.0
    return seconds + max(0.0, seconds - earlier) / (share - before) * (1 - share)
