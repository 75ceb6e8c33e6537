"""What importances and effects take, counted by the functions that run: routes, questions, and rows to keep."""

from __future__ import annotations

import time
from collections.abc import Sequence
from math import ceil
from typing import Any

from losslens.donors.conditional import BoundSampler
from losslens.donors.designs import Design
from losslens.donors.questions import FEW_VALUES, Subject, has_ties, pose
from losslens.engines.choice import CHECKED
from losslens.passes.task import FeatureDesign, Task
from losslens.passes.ways import first_designs, route
from losslens.results.plan import Plan

MOST_DRAWN = 5_000_000  # donors of all rows that are drawn to count which of them have the same value
DRAWING = 0.5  # seconds after which samplers draw values for no more features


def count_importances(task: Task) -> Plan:
    """The plan of `feature_importance` with the first draw of donors."""
    return count(task, first_designs(task))


def count(task: Task, designs: Sequence[FeatureDesign]) -> Plan:
    """The plan of features with these designs, without seconds; predictions of values that are not drawn are bounds.

    Unchanged rows are predicted once, or with a sampler once for each feature.
    """
    n, began = task.n, time.perf_counter()
    routes = [route(task, *one) for one in designs]
    cells = [_cells(task, *one, draws=time.perf_counter() - began < DRAWING) for one in designs]
    widths = [width for width, *_ in cells]
    predictions = tuple(0 if r.exact else many for (_, many, _), r in zip(cells, routes, strict=True))
    by_model = sum(not r.exact for r in routes)
    conditional = task.design is not None and task.design.conditional
    total = n * (by_model if conditional else min(1, by_model)) + sum(predictions)
    checked = min(n, CHECKED) if by_model < len(designs) else 0  # an exact engine is compared with the model
    batch = min(max(1, total), task.engine.rows_a_call(n))
    kept = task.budget.kept_rows(widths, n)
    working = batch * (task.table.row_bytes + 64) if kept == n else task.budget.memory // 8
    growing = task.design is None and task.loss is not None
    sampled = [s.feature.name for (s, d), r in zip(designs, routes, strict=True) if not r.exact and not d.common]
    return Plan(
        features=tuple(subject.feature.name for subject, _ in designs),
        engines=tuple(r.label for r in routes),
        designs=tuple(repr(design) for _, design in designs),
        predictions=predictions,
        n_predictions=total + checked,
        upper=any(bound and not r.exact for (*_, bound), r in zip(cells, routes, strict=True)),
        calls=ceil(total / batch) + bool(checked),
        memory=kept * task.budget.cell_bytes * sum(widths) + working,
        kept=kept,
        complete=kept == n,
        grows=tuple(sampled if growing else ()),
        backend=task.table.backend,
    )


def _cells(task: Task, subject: Subject, design: Design, *, draws: bool) -> tuple[int, int, bool]:
    """Cells in a row, predictions of all rows, and whether these are an upper bound because nothing is drawn."""
    n, m = task.n, None if design.common or design.conditional else design.m
    if isinstance(design, BoundSampler) and not draws:
        return design.draws, n * design.draws, True
    if m is not None and n * m > MOST_DRAWN:
        design.check(n)
        values = len(subject.distinct)
        return m, n * min(m, values - int(values <= FEW_VALUES)), bool(design.repeats or has_ties(subject.distinct))
    question: Any = pose(subject, design, n, task.entropy)
    return question.width, task.engine.count(task.every, question.ask), False
