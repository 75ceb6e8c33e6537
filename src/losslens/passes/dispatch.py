"""The choice of the engine of each feature, and the pass over the rows that fits the engine.

The exact engine computes what it supports; the black box computes the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from losslens.donors.designs import All, Design
from losslens.donors.questions import Subject, pose
from losslens.engines.base import AnswerWay, CellEngine, Declined
from losslens.engines.choice import CHECKED
from losslens.passes import dense, groups, steps, sums
from losslens.passes.budget import Answered, Filled
from losslens.passes.task import Task
from losslens.progress import bar
from losslens.tables.sample import Sample

PAIR = "exact engines compute all pairs of rows, but the product grid of two columns has no donors"

Asked = tuple[Subject, Design]
Passed = tuple[Sample, list[Filled], int]  # the sample with predictions, the outcomes, predictions of the model


@dataclass(frozen=True, eq=False)
class Route:
    """The engine of a feature, and its way of answering."""

    engine: Any
    way: AnswerWay
    label: str  # the engine's name, with its device
    exact: bool  # without predictions of the model
    declined: str = ""  # why no exact engine is used


def route(task: Task, subject: Subject) -> Route:
    """The exact engine if it supports the feature, else the black box."""
    declined = task.declined
    if task.exact is not None and subject.feature.kind == "pair":
        declined = PAIR
    elif task.exact is not None:
        try:
            way = task.exact.way(subject, task.loss, blocked=task.blocked)
        except Declined as why:
            declined = str(why)
        else:
            return Route(task.exact, way, task.exact.label(way), exact=True)
    return Route(task.engine, "cells", task.engine.name, exact=False, declined=declined)


def design_of(task: Task, subject: Subject, rule: Callable[[Subject, int], Design]) -> Design:
    """The design of a feature; for "auto" all rows if the engine is exact, else by the rule."""
    return task.design or (All() if route(task, subject).exact else rule(subject, task.n))


def ask(task: Task, asked: Sequence[Asked]) -> tuple[list[Answered], int]:
    """All features, each by its engine, and the number of predictions of the model."""
    routes = [route(task, subject) for subject, _ in asked]
    found: dict[str, Answered] = {}
    predicted = min(task.n, CHECKED) if any(r.exact for r in routes) else 0  # the exact engine was checked on these
    for engine, way in dict.fromkeys((r.engine, r.way) for r in routes):
        mine = [(one, r) for one, r in zip(asked, routes, strict=True) if (r.engine, r.way) == (engine, way)]
        sample, filled, count = PASSES[way](task, engine, [one for one, _ in mine])
        predicted += count
        for ((subject, design), r), part in zip(mine, filled, strict=True):
            found[subject.feature.name] = Answered(subject.feature, design, r.label, sample, part, r.declined)
    return [found[subject.feature.name] for subject, _ in asked], predicted


# The pass of each way.


def _cells(task: Task, engine: CellEngine, asked: Sequence[Asked]) -> Passed:
    if task.design is not None and task.design.conditional and len(asked) > 1:
        # One feature at a time: two features that share a column may have different draws of it.
        share = replace(task, budget=replace(task.budget, memory=task.budget.memory // len(asked)))
        parts = [_cells(share, engine, [one]) for one in asked]
        return parts[0][0], [filled for _, part, _ in parts for filled in part], sum(count for *_, count in parts)
    questions = [pose(subject, design, task.n, task.entropy) for subject, design in asked]
    most = task.n + sum(question.ask.most(task.n) for question in questions)
    with bar(most, "explaining", task.progress, "predictions" if engine is task.engine else "cells") as tick:
        sample, filled, count = dense.run(
            engine, questions, task.sample, task.loss, task.budget, task.entropy, tick
        )  # fmt: skip
    return sample, filled, count if engine is task.engine else 0


def _steps(task: Task, engine: Any, asked: Sequence[Asked]) -> Passed:
    questions = [pose(subject, design, task.n, task.entropy) for subject, design in asked]
    with bar(task.n, "explaining", task.progress, "rows") as tick:
        return *steps.run(
            engine, questions, task.sample, task.loss, task.budget, task.entropy, task.n_jobs, tick
        ), 0  # fmt: skip


def _sums(task: Task, engine: Any, asked: Sequence[Asked]) -> Passed:
    return *sums.run(engine, asked, task.sample, task.loss, task.budget, task.entropy), 0


def _totals(task: Task, engine: Any, asked: Sequence[Asked]) -> Passed:
    assert task.loss is not None  # totals are sums of losses
    return *groups.run(engine, asked, task.sample, task.loss, task.entropy), 0


PASSES: dict[AnswerWay, Callable[[Task, Any, Sequence[Asked]], Passed]] = {
    "cells": _cells, "steps": _steps, "sums": _sums, "totals": _totals,
}  # fmt: skip
