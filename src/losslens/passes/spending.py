"""Importances within an allowance: rows drawn once at random, then round after round of donors.

After each round the variance due to donors and that due to rows are estimated, and the next columns of cells go where
they reduce the variances most. Whatever ends the call, all complete columns count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from heapq import heapify, heapreplace
from math import inf
from typing import Any, NamedTuple

import numpy as np

from losslens.passes.affordable_rows import check_enough, or_raise, random_order, rows_of, variances
from losslens.passes.allowance import Limits, Meter, ModelFailed
from losslens.passes.drawing import FEWEST_DONORS, CellColumn, Drawing, OutOfBudget
from losslens.passes.task import Task
from losslens.passes.ways import NOISE_SHARE, ByFeature, evaluate_until_precise, first_designs, route
from losslens.progress import bar
from losslens.results.afforded import Afforded, Stopped
from losslens.results.importance import FeatureImportance
from losslens.results.one_number import together
from losslens.results.table import or_else
from losslens.typing import Floats, Indices
from losslens.uncertainty.looks import LEADING, settled_ranks

PRECISE = NOISE_SHARE / 10  # of the variance due to rows: a budget is there to be spent
SURELY = 2.5  # standard errors
WITHIN = "sampled within budget="
ENDS = OutOfBudget, ModelFailed, KeyboardInterrupt  # of a call, whose complete columns count


class Spent(NamedTuple):
    """What an allowance gave: importances of the rows that were used."""

    by_feature: ByFeature
    n_predictions: int
    afforded: Afforded | None  # None: everything was computed, by exact engines


def spend(task: Task, limits: Limits) -> Spent:
    """Importances of as many rows and donors as the limits allow, or as precision requires."""
    task, every = _of_the_model(task)
    if every:
        by_feature, predicted = evaluate_until_precise(task, first_designs(task))
        return Spent(by_feature, predicted, None)
    meter = Meter(limits)
    order = task.every if limits.every_row else random_order(task)
    with _bar(task, limits) as tick:
        drawing = Drawing(task, meter, tick)
        base = or_raise(lambda: drawing.calibrate(order))
        check_enough(drawing, len(base), 1 + sum(drawing.costs))
        count, base = (task.n, base) if limits.every_row else rows_of(drawing, base, order)
        rows = np.sort(order[:count])
        some = task if count == task.n else task.of_rows(rows)
        drawing = drawing if some is task else Drawing(some, meter, tick)
        positions = np.searchsorted(rows, order[:count])
        or_raise(lambda: drawing.begin(base[:count], positions))
        return _rounds(drawing, rows, task.n, np.zeros((0, len(task.subjects))))


def go_on(task: Task, limits: Limits, before: Afforded, features: Mapping[str, FeatureImportance]) -> Spent:
    """The rounds after those of a result, with its rows, which are those of the task."""
    task = replace(task, design=None, exact=None, outputs=(), declined=next(iter(features.values())).declined)
    with _bar(task, limits) as tick:
        drawing = Drawing(task, Meter(limits), tick)
        for one, feature in zip(drawing.held, features.values(), strict=True):
            cells = list(np.moveaxis(feature.cells.predictions, 1, 0))
            one.n_predictions = feature.n_predictions
            if feature.design.all_pairs:
                one.values = cells
                continue
            same = replace(one.shifts, shifts=one.shifts.shifts[: len(cells)])[:]
            if not np.array_equal(same, np.asarray(feature.layout.donors)):
                raise ValueError("this release of NumPy draws other donors than that of the result: make a new call")
            one.donors = cells
        or_raise(lambda: drawing.calibrate(np.arange(task.n)))
        drawing.base = next(iter(features.values())).sample.prediction
        return _rounds(drawing, before.rows, before.n, before.looks, before.settled)


def _of_the_model(task: Task) -> tuple[Task, bool]:
    """The task without an exact engine, and whether none is needed: it computes all features."""
    if task.design is not None:
        raise ValueError(f"budget chooses the donors of each feature: leave out donors={task.design!r}, or budget=")
    if all(route(task, subject).exact for subject in task.subjects):
        return task, True
    reason = task.declined or next(r.declined for r in (route(task, s) for s in task.subjects) if not r.exact)
    return replace(task, exact=None, outputs=(), declined=reason or WITHIN), False


def _bar(task: Task, limits: Limits) -> Any:
    most = limits.predictions if limits.predictions < inf else task.n * (1 + FEWEST_DONORS * len(task.subjects))
    return bar(int(most), "explaining", task.progress)


def _rounds(
    drawing: Drawing, rows: Indices, n: int, looks: Floats, settled: tuple[str, ...] = ()
) -> Spent:  # fmt: skip
    """Round after round, until precision or the limits end it."""
    meter, (stopped, error) = drawing.meter, or_raise(partial(_first_round, drawing))
    while True:
        before, by_feature = drawing.width, ByFeature()
        try:
            by_feature = drawing.look()
            if not len(looks) or not np.array_equal(looks[-1], drawing.m):
                looks = np.vstack([looks, drawing.m])
            if meter.limits.ranks:
                settled = _settled(by_feature, looks, settled)
            queue, stopped = _next_columns(drawing, by_feature, settled) if stopped is None else ([], stopped)
            if stopped is not None:
                break
            meter.own = 1.2 * drawing.looked * (before + len(queue))
            drawing.predict(queue)
        except ENDS as stop:
            if stopped is not None:  # interrupted again, while what was done is looked at
                raise
            stopped, error = _why(stop)
            if drawing.width == before and by_feature:
                break
    seconds = meter.seconds if meter.limits.timed else None
    afforded = Afforded(
        budget=meter.limits.budget, stopped=stopped, seconds=seconds, rows=rows, n=n, looks=looks, settled=settled,
        error=error, seed=drawing.task.entropy,
    )  # fmt: skip
    by_feature = _unsteady(drawing.task, by_feature)
    return Spent(by_feature, meter.predictions, afforded)


def _unsteady(task: Task, by_feature: ByFeature) -> ByFeature:
    """Nothing is exact where the model answered the same rows differently."""
    if not (why := task.engine.repeats.declined):
        return by_feature
    return {name: [replace(one, exact=False, declined=why) for one in some] for name, some in by_feature.items()}


def _first_round(drawing: Drawing) -> tuple[Stopped | None, str]:
    """A few columns of each feature; why there are no more, if some stop was the reason, unless some have none."""
    try:
        drawing.first_round()
    except ENDS as stop:
        if not all(one.donors or one.complete for one in drawing.held):
            raise
        return _why(stop)
    return None, ""


def _why(stop: BaseException) -> tuple[Stopped, str]:
    """The reason, and the error of the model if there was one."""
    if isinstance(stop, ModelFailed):
        return "failed", stop.words
    return "budget" if isinstance(stop, OutOfBudget) else "interrupted", ""


def _settled(by_feature: ByFeature, looks: Floats, settled: tuple[str, ...]) -> tuple[str, ...]:
    """What is settled by all looks; what was before, where there are too few rows or donors for standard errors."""
    estimates = or_else(lambda: together({name: one for name, (one, *_) in by_feature.items()}), None)
    if estimates is None or len(estimates) < len(by_feature):
        return settled
    return settled_ranks(estimates, looks, settled)


def _next_columns(
    drawing: Drawing, by_feature: ByFeature, settled: Sequence[str]
) -> tuple[list[CellColumn], Stopped | None]:
    """The columns of the next round, those first that reduce the variances most; or why there is none."""
    meter, m, n = drawing.meter, drawing.m, drawing.task.n
    names = list(by_feature)
    if meter.limits.ranks and len(settled) >= min(LEADING, len(names) - 1):
        return [], "settled"
    value = np.array([one.pfi for one, *_ in by_feature.values()])
    sampling, noise = variances(by_feature, m)
    noise = np.where(np.isfinite(m), noise, 0.0)
    unknown = ~np.isfinite(noise)
    noise[unknown] = np.nanmax(np.append(noise[~unknown], 0.0)) or 1.0
    sampling[unknown] = 0.0
    bound = PRECISE * np.maximum(sampling, _least(value, sampling + noise / m))
    with np.errstate(divide="ignore", invalid="ignore"):
        enough = np.where(noise > 0, np.where(bound > 0, noise / bound, inf), 0.0)
    if meter.limits.ranks:
        enough[[names.index(one) for one in settled]] = 0.0
    if np.all(m >= enough):
        return [], "precise"
    largest, width = drawing.task.budget.cells(len(names), n) // n, drawing.width
    if width >= largest:
        return [], "memory"
    affordable = min(meter.rows_left(drawing.largest) / n, largest - width)
    if affordable < 1 and all(one.ask.size > 2 for one in drawing.held):
        return [], "budget"
    count = max(width, len(names))  # rounds double the columns; no last round is small
    count = count if affordable >= 1.5 * count else max(1, int(affordable))
    return _queue(drawing, noise, m, enough, count), None


def _least(value: Floats, variance: Floats) -> Floats:
    """The variance to which those of surely unimportant features compare: that of the last leading one."""
    least = np.zeros(len(value))
    if len(value) > LEADING:
        last = np.argsort(-value)[LEADING - 1]
        error = np.sqrt(variance)
        outside = value + SURELY * error < value[last] - SURELY * error[last]
        least[outside] = variance[last]
    return least


def _queue(drawing: Drawing, noise: Floats, m: Floats, enough: Floats, count: int) -> list[CellColumn]:
    """So many columns, each where it reduces the noise most; all values where so many donors were due."""
    heap = [(-b / (k * (k + 1)), j, int(k)) for j, (b, k) in enumerate(zip(noise, m, strict=True)) if k < enough[j]]
    heapify(heap)
    queue: list[CellColumn] = []
    while heap and len(queue) < count and heap[0][0] < 0:
        _, j, k = heap[0]
        one = drawing.held[j]
        if one.ask.size <= drawing.task.n // 2 and k + 1 >= one.ask.size - 1:
            queue += [CellColumn(j, v, of_values=True) for v in range(len(one.values), one.ask.size)]
            heapreplace(heap, (0.0, j, k))
            continue
        queue.append(CellColumn(j, k))
        k += 1
        over = k >= min(enough[j], drawing.task.n)
        heapreplace(heap, (0.0 if over else -noise[j] / (k * (k + 1)), j, k))
    return queue
