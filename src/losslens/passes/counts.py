"""What a call takes, counted by the functions that run: routes, questions, rows to keep; of files passes over them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import ceil
from typing import Any

import numpy as np

from losslens.donors.conditional import BoundSampler
from losslens.donors.designs import Design
from losslens.donors.questions import FEW_VALUES, Subject, has_ties, pose
from losslens.engines.choice import CHECKED
from losslens.passes.parts.reading import Job
from losslens.passes.parts.results import MOST_KEPT, Summed
from losslens.passes.parts.stream import Stream
from losslens.passes.rehearsal import rehearse
from losslens.passes.task import FeatureDesign, Task
from losslens.passes.ways import first_designs, route
from losslens.results.plan import Plan
from losslens.tables.frames import Table
from losslens.tables.loading import HEAD, Opened
from losslens.tables.sources import Part
from losslens.workers import Elsewhere, Serial, on_a_cluster

MOST_DRAWN = 5_000_000  # donors of all rows that are drawn to count which of them have the same value
DRAWING = 0.5  # seconds after which samplers draw values for no more features
PARTS_IN_MEMORY = 6  # memory of a worker, as a multiple of the largest part
FIRST = 200  # rows of the run that shows which engine supports the data


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


@dataclass(frozen=True, eq=False)
class _Head:
    """Reads the first rows, which are in memory; repeats them where they are too few."""

    table: Table

    def each(self, parts: Sequence[Part], columns: Sequence[str]) -> Iterator[Any]:
        return (self.table.rows(np.arange(part.skip, part.skip + part.rows) % self.table.n) for part in parts)


def plan_stream(stream: Stream, data: Opened, run: Callable[[Stream], Any]) -> Plan:
    """The plan of a checked call that `run` computes; `Declined` if no engine reads the data in parts."""
    n, k, cluster = stream.n, len(stream.features), stream.workers if isinstance(stream.workers, Elsewhere) else None
    size = max(part.rows for job in stream.jobs for part in job.parts)
    on_head = partial(_on_head, stream, data, run, size)
    first = on_head(min(FIRST, n))()  # the engine may decline these data
    kept = min(n, MOST_KEPT) * (16 * k + 64)  # bytes of the rows that are kept
    of_shares = not isinstance(first, Summed)
    passes = 3 if of_shares and stream.read.donor_sums == "patterns" else 2  # 3: Shapley values of trees
    seconds = rehearse(on_head, n) + passes * _reading(stream, data)
    if cluster is not None:
        seconds = passes * on_a_cluster(seconds / passes, len(stream.jobs), cluster.threads, 8 * CHECKED)
    return Plan(
        features=tuple(feature.name for feature in stream.features), designs=("All()",) * k, n=n,
        engines=(first.engine,) * k, predictions=(0,) * k, parts=sum(len(job.parts) for job in stream.jobs),
        passes=passes, n_predictions=CHECKED, most=CHECKED, seconds=seconds,
        memory=PARTS_IN_MEMORY * size * data.head.row_bytes + kept,
        workers=0 if cluster is None else cluster.threads,
        backend="pandas" if stream.head.backend == "numpy" else stream.head.backend,
    )  # fmt: skip


def _on_head(stream: Stream, data: Opened, run: Callable[[Stream], Any], size: int, rows: int) -> Callable[[], Any]:
    """The call on the first rows, in parts; their weights may all be zero, and don't matter here."""
    y = None if data.y is None else data.y[np.arange(rows) % data.head.n]
    cut = [Part("the first rows", start, min(size, rows - start), None) for start in range(0, rows, size)]
    reader = replace(stream.data, reader=_Head(data.head), weight=None)
    few = replace(stream, data=reader, jobs=[Job(tuple(cut), y)], n=rows, workers=Serial(), progress=False)
    return partial(run, few)


def _reading(stream: Stream, data: Opened) -> float:
    """Seconds to read all data once, from reading the first part, or the first rows of a large one."""
    first = min(stream.jobs[0].parts[0], data.source.cut(HEAD).parts[0], key=lambda part: part.rows)
    started = time.perf_counter()
    data.source.load(first, stream.data.names)
    return (time.perf_counter() - started) * stream.n / first.rows
