"""The seconds of a call, from the same call on more and more of its rows."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from math import log
from typing import Any

import numpy as np

from losslens.donors.designs import Design
from losslens.tables import checks
from losslens.tables.frames import Table, as_table
from losslens.workers import here

FEW, GROWTH = 32, 4  # rows of the first rehearsal, and times more of the next
TIME_LIMIT = 0.3  # seconds of all rehearsals of a call, about
LONG = 0.6  # seconds beyond which the second rehearsal has twice the rows of the first, not four times
LONGEST = 1.0  # seconds of a first rehearsal beyond which there is no second
ONCE = 0.7  # where more rows take less than this share of the time of fewer, that included what happens once
STEEPEST = 3.0  # largest power of the number of rows with which seconds grow

Arguments = dict[str, Any]
OnFew = Callable[[int], Callable[[], Any]]  # a call on so many of its rows
Share = Callable[[int, Any], float]  # of the work, in a call on so many rows that had this result


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


def rehearse(
    few: OnFew, n: int, time_limit: float = TIME_LIMIT, share: Share | None = None, *, steep: bool = False
) -> float:
    """Seconds of a call on n rows; few(k) prepares the call on k of them.

    Only the call is timed, not its preparation. Where few rows are an error more are tried. Seconds grow linearly or,
    if they may be steep, as a power of the share of the work: the share of the rows unless `share` gives it.
    """
    timings: list[tuple[float, float]] = []
    rows, began = min(FEW, n), time.perf_counter()
    while True:
        try:
            with here(), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about few rows
                for _ in range(1 if timings else 2):  # what happens once, such as compiling, is not counted
                    run = few(rows)
                    started = time.perf_counter()
                    result = run()
                    seconds = time.perf_counter() - started
                    if GROWTH * seconds > LONG:
                        break
        except Exception:
            if rows == n:
                raise
        else:
            timings.append((share(rows, result) if share else rows / n, max(seconds, 1e-6)))
        growth = GROWTH
        if len(timings) == 1 and seconds < LONGEST:  # two rehearsals separate what does not depend on the rows
            seconds_left, growth = float("inf"), GROWTH if GROWTH * seconds < LONG else 2
        else:
            slower = GROWTH if len(timings) < 2 else max(1.0, timings[-1][1] / timings[-2][1])
            seconds_left = time_limit - (time.perf_counter() - began) - (slower * timings[-1][1] if timings else 0.0)
        if rows == n or (timings and seconds_left < 0):
            return _of_all(timings, steep)
        rows = min(n, growth * rows)


def _of_all(timings: list[tuple[float, float]], steep: bool) -> float:
    """Seconds of all the work, from those of shares of it."""
    share, seconds = timings[-1]
    earlier_share, earlier = timings[-2] if len(timings) > 1 else (0.0, 0.0)
    if seconds < earlier * ONCE:
        earlier_share, earlier = 0.0, 0.0
    if steep and earlier and seconds / earlier > share / earlier_share:
        return float(seconds * share ** -min(STEEPEST, log(seconds / earlier) / log(share / earlier_share)))
    slope = max(0.0, seconds - earlier) / (share - earlier_share) if share > earlier_share else 0.0
    return float(seconds + slope * max(0.0, 1 - share))
