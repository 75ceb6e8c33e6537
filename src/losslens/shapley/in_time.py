"""Shapley importances within a time: rows, and the predictions that it affords."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from losslens.losses import OutputsLoss
from losslens.passes.affordable_rows import FEWEST_SWEEPS, rows_within
from losslens.passes.allowance import Limits, repeated
from losslens.results.shapley import ShapleyImportance
from losslens.shapley.request import Request
from losslens.shapley.stopping import Paper
from losslens.shapley.ways import choose, result_by
from losslens.text import duration


def importance_in_time(request: Request, limits: Limits) -> ShapleyImportance:
    """The importance with as many rows, and then sweeps, as the time affords; exact engines need none."""
    if not limits.timed:
        counted = replace(request, settings=replace(request.settings, budget=int(limits.predictions), limits=None))
        return result_by(choose(counted)[0], counted)
    untimed = replace(request, settings=replace(request.settings, budget=None, limits=None))
    if isinstance(request.settings.method, Paper) or request.settings.averages_predictions or not request.all_pairs:
        raise ValueError(
            "a time as budget is for walks over all pairs of rows: leave out method and donors, or budget="
        )
    if isinstance(request.loss, OutputsLoss) or request.task.blocked:
        raise ValueError("a time as budget is for one output, and rows without groups: pass a number of predictions")
    exact = request.settings.algorithm == "exact"
    way, _ = choose(untimed if exact else replace(untimed, settings=replace(untimed.settings, budget=1)))
    if not way.by_model:
        return result_by(way, untimed)
    if exact:
        raise ValueError("a time as budget is for walks, which method='exact' rules out: leave out method, or budget=")
    task, columns = request.task, 1 + FEWEST_SWEEPS * max(1, request.p - 1)
    rows = rows_within(task, limits, columns)
    some = task.of_rows(rows)
    respond = some.engine.respond
    some = replace(some, engine=replace(some.engine, respond=lambda table: repeated(lambda: respond(table))))
    budget = None
    if len(rows) < np.count_nonzero(task.sample.weight) and request.settings.precision is None:  # the time is spent
        budget = 2 * FEWEST_SWEEPS * len(rows) * request.p  # more than it affords
    settings = replace(untimed.settings, limits=limits, budget=budget, method="walk" if request.p > 1 else "auto")
    timed = replace(request, task=some, settings=settings)
    importance = result_by(choose(timed)[0], timed)
    used = "all" if len(rows) == task.n else f"{len(rows):,} of"
    words = f"budget: {used} {task.n:,} rows, {importance.design}, in {duration(limits.used)} of {limits.budget}"
    return replace(importance, remarks=(*importance.remarks, words))
