"""What importances and effects take, counted by the functions that run: routes, questions, and rows to keep."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import ceil
from typing import Any

from losslens.donors.conditional import BoundSampler
from losslens.donors.designs import Design
from losslens.donors.questions import FEW_VALUES, Subject, has_ties, pose
from losslens.engines.choice import CHECKED
from losslens.passes import ways
from losslens.passes.task import FeatureDesign, Task
from losslens.passes.ways import Route, design_of, route
from losslens.results.importance import FeatureImportance

MOST_DRAWN = 5_000_000  # donors of all rows that are drawn to see which of them have the same value
DRAWING = 0.5  # seconds after which samplers draw values for no more features


@dataclass(frozen=True, eq=False)
class Count:
    """The engine, the design and the predictions of each feature, and what they come to."""

    asked: tuple[FeatureDesign, ...]
    routes: tuple[Route, ...]
    predictions: tuple[int, ...]  # by the model, of each feature
    unchanged: int  # rows that the model predicts as they are, once, or with a sampler once for each feature
    checked: int  # rows on which it is compared with an exact engine
    calls: int
    kept: int  # rows whose cells are kept
    memory: int  # bytes of these, and of a batch
    upper: bool  # some rows may get a value twice, or their own: these are upper bounds
    grows: tuple[str, ...]  # features that get more donors until the noise of the draw is negligible

    @property
    def features(self) -> tuple[str, ...]:
        """Names."""
        return tuple(subject.feature.name for subject, _ in self.asked)

    @property
    def by_model(self) -> bool:
        """Whether the model predicts cells."""
        return not all(one.exact for one in self.routes)

    @property
    def n_predictions(self) -> int:
        """All of them, of the first donors."""
        return self.unchanged + self.checked + sum(self.predictions)

    def expected(self, more: Mapping[str, float] | None = None) -> int:
        """All of them if features that grow need so many times their first donors once more; twice where unknown."""
        each = zip(self.features, self.predictions, strict=True)
        return self.n_predictions + int(sum((more or {}).get(name, 2.0) * k for name, k in each if name in self.grows))

    def with_curves(self, other: Count) -> Count:
        """Together with the curves of some of these features on a grid."""
        more = dict(zip(other.features, other.predictions, strict=True))
        each = zip(self.features, self.predictions, strict=True)
        return replace(
            self, predictions=tuple(many + more.get(name, 0) for name, many in each), calls=self.calls + other.calls,
            unchanged=self.unchanged + other.unchanged, memory=self.memory + other.memory,
            upper=self.upper or other.upper,
        )  # fmt: skip


def count_importances(task: Task, *, draws: bool = True) -> Count:
    """The features of `feature_importance` with their first donors."""
    rule = partial(ways.first_design, blocked=task.blocked)
    return count(task, [(subject, design_of(task, subject, rule)) for subject in task.subjects], draws=draws)


def more_donors(pilot: Iterable[FeatureImportance]) -> dict[str, float]:
    """How many times the first donors of a pilot its features need in the next round, if any."""
    return {one.name: ways.more_donors(one) / ways.FIRST_DRAW if ways.wants_more(one) else 0.0 for one in pilot}


def count(task: Task, asked: Sequence[FeatureDesign], *, draws: bool = True) -> Count:
    """Features with these designs; what a sampler would draw beyond some seconds, or not at all, is an upper bound."""
    n, began = task.n, time.perf_counter()
    routes = tuple(route(task, *one) for one in asked)
    cells = [_cells(task, *one, draws=draws and time.perf_counter() - began < DRAWING) for one in asked]
    widths = [width for width, *_ in cells]
    by_model = [width for width, r in zip(widths, routes, strict=True) if not r.exact]
    conditional = task.design is not None and task.design.conditional  # values are drawn for one feature at a time
    passes = len(by_model) if conditional else min(1, len(by_model))
    predictions = tuple(0 if r.exact else many for (_, many, _), r in zip(cells, routes, strict=True))
    total, checked = passes * n + sum(predictions), min(n, CHECKED) if len(by_model) < len(asked) else 0
    batch = min(max(1, total), task.engine.rows_a_call(n))
    kept = task.budget.kept_rows(widths, n)
    working = batch * (task.table.row_bytes + 64) if kept == n else task.budget.memory // 8
    growing = task.design is None and task.loss is not None
    return Count(
        asked=tuple(asked), routes=routes, predictions=predictions, unchanged=passes * n, checked=checked,
        calls=ceil(total / batch) + bool(checked), kept=kept,
        memory=kept * task.budget.cell_bytes * sum(widths) + working,
        upper=any(bound and not r.exact for (*_, bound), r in zip(cells, routes, strict=True)),
        grows=tuple(
            s.feature.name for (s, d), r in zip(asked, routes, strict=True) if growing and not r.exact and not d.common
        ),
    )  # fmt: skip


def _cells(task: Task, subject: Subject, design: Design, *, draws: bool) -> tuple[int, int, bool]:
    """Cells in a row, predictions of all rows, and whether these are an upper bound: draws are not looked at."""
    n, m = task.n, None if design.common or design.conditional else design.m
    if isinstance(design, BoundSampler):
        m = None if draws else design.draws
        values = n * design.draws
    elif m is not None and n * m > MOST_DRAWN:
        design.check(n)
        values = len(subject.distinct)
        values -= int(values <= FEW_VALUES)
    else:
        m = None
    if m is not None:
        return m, n * min(m, values), bool(design.repeats or has_ties(subject.distinct))
    question: Any = pose(subject, design, n, task.entropy)
    return question.width, task.engine.count(task.every, question.ask), False
