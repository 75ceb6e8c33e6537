"""Rows within an allowance: all of them, or as many as make the sum of the variances smallest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import inf
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from losslens.passes.allowance import Limits, Meter, ModelFailed
from losslens.passes.drawing import FEWEST_DONORS, Drawing, OutOfBudget
from losslens.passes.task import Task
from losslens.passes.ways import ByFeature, route
from losslens.typing import Floats, Indices

FEWEST_ROWS = 10
FEWEST_SWEEPS = 8  # of walks, where there are fewer rows
PILOT, PILOT_ROWS = 0.1, 50  # share of the predictions from which variances are estimated, and its fewest rows
SAFE = 0.9  # share of a time that the first columns take: costs are estimates
Computed = TypeVar("Computed")


def rows_within(task: Task, limits: Limits, columns: int) -> Indices:
    """Rows drawn at random, as many as the limits afford so many predictions of each of: all, or fewer."""
    if limits.every_row or all(route(task, subject).exact for subject in task.subjects):
        return task.every
    drawing = Drawing(replace(task, exact=None, outputs=()), Meter(limits), lambda rows: None)
    order = random_order(task)
    known = len(or_raise(lambda: drawing.calibrate(order))) if limits.timed else 0  # predictions need no timing
    count = check_enough(drawing, known, columns)
    return np.sort(order[: int(min(len(order), SAFE * count // columns))])


def random_order(task: Task) -> Indices:
    """Rows in the order in which they are used; those of weight 0 count for nothing, unless there are few others."""
    order = np.random.default_rng((task.entropy, 39)).permutation(task.n)
    counted = order[task.sample.weight[order] > 0]
    return counted if len(counted) >= FEWEST_ROWS else order


def rows_for_all(tasks: Sequence[Task], limits: Limits, *, shapley: bool) -> Indices:
    """Rows of which the limits afford the importances by each model, and the Shapley shares."""
    rows = []
    for k, task in enumerate(tasks):
        p = len(task.subjects)
        columns = 1 + FEWEST_DONORS * p  # or as many again for shares, which get half of the limits
        columns = 2 * max(columns, 1 + FEWEST_SWEEPS * (p - 1)) if shapley else columns
        rows.append(rows_within(task, limits.share(k, len(tasks)), columns))
    return min(rows, key=len)


def or_raise(compute: Callable[[], Computed]) -> Computed:
    """What is computed before there is any result: an error of the model is raised."""
    try:
        return compute()
    except ModelFailed as failed:
        raise failed.cause from None
    except OutOfBudget:
        raise ValueError(
            "the model became far slower than at first, before there was a result: raise budget="
        ) from None


def check_enough(drawing: Drawing, known: int, columns: int) -> float:
    """The predictions that are affordable, of which each row needs so many; raises where these are too few."""
    meter, rows = drawing.meter, min(drawing.task.n, FEWEST_ROWS)
    affordable = known + meter.rows_left(drawing.largest)
    if affordable < rows * columns:
        raise ValueError(
            f"budget={meter.limits.budget!r} affords {meter.words(affordable, drawing.largest)}, but {rows} rows, the "
            f"fewest, with {columns:,} predictions each take {meter.words(rows * columns, drawing.largest)}"
        )
    return affordable


def rows_of(drawing: Drawing, base: NDArray[Any], order: Indices) -> tuple[int, NDArray[Any]]:
    """How many rows are used, and the predictions of the first of them.

    All of them, if there are predictions enough. Else as many as make the sum of the variances smallest, by those of a
    pilot: more rows with few donors, or fewer rows with more donors for the features whose noise is large.
    """
    meter, task, costs = drawing.meter, drawing.task, np.array(drawing.costs)
    affordable = len(base) + (SAFE if meter.limits.timed else 1.0) * meter.rows_left(drawing.largest)
    columns = 1 + costs.sum()
    most = int(min(len(order), affordable / columns, task.budget.cells(len(costs), task.n) // columns))
    few = int(PILOT * affordable / columns) if affordable < inf else 0
    if affordable >= 2 * len(order) * columns or few < PILOT_ROWS or most <= 2 * few:
        return max(most, 1), base
    pilot = Drawing(task.of_rows(np.sort(order[:few])), meter, drawing.tick)
    try:
        pilot.begin(base[:few], np.argsort(np.argsort(order[:few])))
        pilot.first_round()
    except ModelFailed as failed:
        raise failed.cause from None
    except OutOfBudget:
        pass
    by_order = pilot.base[np.argsort(np.argsort(order[:few]))]
    base = base if len(base) > few else by_order
    affordable = len(base) + (SAFE if meter.limits.timed else 1.0) * meter.rows_left(drawing.largest)
    most = max(1, min(most, int(affordable // columns)))
    if not np.all(pilot.m >= FEWEST_DONORS):
        return most, base
    sampling, noise = few * variances(pilot.look(), pilot.m)
    if not np.isfinite([sampling, noise]).all():  # as where many rows have no weight
        return most, base
    counts = np.unique(np.geomspace(few, most, 40).astype(int))
    totals = [
        (sampling.sum() + np.sum(noise / _spread(noise, costs, affordable / count - columns))) / count
        for count in counts
    ]
    return int(counts[np.argmin(totals)]), base


def _spread(noise: Floats, least: Floats, columns: float) -> Floats:
    """Donors of each feature, at least so many, whose noise is smallest in all with so many columns more."""
    low, high = 0.0, 1e12
    root = np.sqrt(noise) / max(np.sqrt(noise).max(), 1e-300)
    for _ in range(60):
        middle = np.sqrt(max(low, 1e-6) * high)
        if np.maximum(least, middle * root).sum() - least.sum() > columns:
            high = middle
        else:
            low = middle
    return np.asarray(np.maximum(np.maximum(least, low * root), 1.0))


def variances(by_feature: ByFeature, m: Floats) -> Floats:
    """The variance of each importance due to rows, and that due to one donor a row, (2, p); NaN where unknown."""
    pairs = []
    for (one, *_), donors in zip(by_feature.values(), m.tolist(), strict=True):
        try:
            influence = one.influence
        except ValueError:  # too few rows or donors
            pairs.append((np.nan, np.nan))
            continue
        noise = influence.noise if donors < inf else 0.0
        pairs.append((max(influence.variance - noise, 0.0), noise * donors if noise else 0.0))
    return np.array(pairs).T
