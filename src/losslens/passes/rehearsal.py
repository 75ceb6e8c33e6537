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
WITHIN = 0.3  # seconds of all rehearsals of a call, about
LONG, LONGEST = 0.6, 1.0  # seconds beyond which the second has twice the rows, not four times; and of a first alone
ONCE = 0.7  # of the seconds of fewer rows: below it they were the first to be compiled for
STEEPEST = 3.0  # most the power of the rows that a fit takes

Arguments = dict[str, Any]
OnFew = Callable[[int], Callable[[], Any]]  # a call on so many of its rows
Share = Callable[[int, Any], float]  # of the work, in a call on so many rows that had this result


def some_rows(table: Table, y: Any, arguments: Arguments, rows: int) -> tuple[Table, Any, Arguments]:
    """Evenly spaced rows, their targets, and the arguments of a verb with their weights, groups and donors."""
    at = np.unique(np.linspace(0, table.n - 1, rows).astype(np.intp))
    some, donors = Arguments(progress=False), arguments.get("donors")
    if isinstance(donors, Design) and (donors.m or 0) > rows // 2:  # no more than there are rows
        some["donors"] = replace(donors, m=max(1, rows // 2))  # type: ignore[type-var]  # designs are dataclasses
    for name in {"sample_weight", "groups"} & arguments.keys():
        if arguments[name] is not None:
            some[name] = checks.vector(arguments[name], table.n, name, table.index)[at]
    if y is not None:
        several = checks.output_names(y) is not None
        y = as_table(y).at(at).native if several else checks.vector(y, table.n, "y", table.index)[at]
    return table.at(at), y, arguments | some


def rehearse(few: OnFew, n: int, within: float = WITHIN, share: Share | None = None, *, steep: bool = False) -> float:
    """Seconds of a call on n rows; few(k) prepares the call on k of them.

    Only the call is timed, not what takes k rows out of n. Where few rows are an error more are tried. Seconds grow
    along a line or, if they may be steep, as a power, of the share of the work: that of the rows unless it is given.
    """
    seen: list[tuple[float, float]] = []
    rows, began = min(FEW, n), time.perf_counter()
    while True:
        try:
            with here(), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about few rows
                for _ in range(1 if seen else 2):  # what happens once, such as compiling, is not counted
                    run = few(rows)
                    started = time.perf_counter()
                    result = run()
                    took = time.perf_counter() - started
                    if GROWTH * took > LONG:
                        break
        except Exception:
            if rows == n:
                raise
        else:
            seen.append((share(rows, result) if share else rows / n, max(took, 1e-6)))
        growth = GROWTH
        if len(seen) == 1 and took < LONGEST:  # two rehearsals tell what few rows take as long for as all
            left, growth = float("inf"), GROWTH if GROWTH * took < LONG else 2
        else:
            slower = GROWTH if len(seen) < 2 else max(1.0, seen[-1][1] / seen[-2][1])
            left = within - (time.perf_counter() - began) - (slower * seen[-1][1] if seen else 0.0)
        if rows == n or (seen and left < 0):
            return _of_all(seen, steep)
        rows = min(n, growth * rows)


def _of_all(seen: list[tuple[float, float]], steep: bool) -> float:
    """Seconds at the share 1."""
    share, took = seen[-1]
    before, earlier = seen[-2] if len(seen) > 1 else (0.0, 0.0)
    if took < earlier * ONCE:  # something happened once in the first
        before, earlier = 0.0, 0.0
    if steep and earlier and took / earlier > share / before:
        return float(took * share ** -min(STEEPEST, log(took / earlier) / log(share / before)))
    slope = max(0.0, took - earlier) / (share - before) if share > before else 0.0
    return float(took + slope * max(0.0, 1 - share))
