"""The choice of the engine of each feature, and the pass over the rows that fits the engine.

The exact engine computes what it supports; the black box computes the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from losslens.cells.matrix import drawn_cells
from losslens.donors.designs import All, Design, Latin
from losslens.donors.questions import Question, Subject, pose
from losslens.engines.base import AnswerWay, CellEngine, Declined, MixedRows
from losslens.engines.choice import CHECKED
from losslens.passes import dense, factors, steps, sums
from losslens.passes.auto import FIRST_DRAW
from losslens.passes.budget import Answered, Filled
from losslens.passes.task import Task
from losslens.progress import bar
from losslens.tables.sample import Sample

NOT_IN_TABLE = "exact engines know the values of the table only"
SAMPLED = "sampled, as all pairs take longer: donors='all' takes them"
ONE_HOLDS_ALL = "one row or group holds nearly all weight, and little is left of the pairs if its own are left out"
LEAST_LEFT = 1e-6  # of the weight: subtraction keeps ten digits

Asked = tuple[Subject, Design]
Passed = tuple[Sample, list[Filled], int]  # the sample with predictions, the outcomes, predictions of the model


@dataclass(frozen=True, eq=False)
class Route:
    """The engine of a feature, and its way of answering."""

    engine: Any
    way: AnswerWay
    label: str  # the engine's name
    exact: bool  # without predictions of the model
    declined: str = ""  # why no exact engine is used


def route(task: Task, subject: Subject, design: Design | None = None) -> Route:
    """The exact engine if it supports the feature, else the black box; cell by cell under designs of some pairs."""
    declined = task.declined
    if is_sampled(task, subject) and (design is None or not design.all_pairs):
        declined = SAMPLED
    elif task.exact is not None:
        try:
            way = task.exact.way(subject, task.loss, blocked=task.blocked)
        except Declined as why:
            declined = str(why)
        else:
            if way != "cells" and task.loss is not None and _few_digits_left(task, design):
                return Route(task.engine, "cells", task.engine.name, exact=False, declined=ONE_HOLDS_ALL)
            if design is None or design.all_pairs or subject.feature.kind == "pair":
                return Route(task.exact, way, task.exact.name, exact=True)
            if design.values is None:
                mixed = task.exact if task.exact.fills_own_donors else MixedRows(task.exact, len(task.table.names))
                return Route(mixed, "cells", task.exact.name, exact=True)
            declined = NOT_IN_TABLE
    return Route(task.engine, "cells", task.engine.name, exact=False, declined=declined)


def is_sampled(task: Task, subject: Subject) -> bool:
    """Whether "auto" draws donors for a feature of many values although there is an exact engine."""
    if task.design is not None or task.loss is None or task.exact is None:
        return False
    return bool(task.exact.prefers_sample(subject)) and len(subject.distinct) - 1 > FIRST_DRAW


def _few_digits_left(task: Task, design: Design | None) -> bool:
    """Whether pairs inside groups, or rows' own, which are subtracted from all pairs, hold nearly all weight."""
    if not task.blocked and (design is None or not design.leaves_out_own):
        return False
    return task.largest_share > 1 - LEAST_LEFT


def design_of(
    task: Task, subject: Subject, rule: Callable[[Subject, int], Design], *, all_exact: bool = True
) -> Design:
    """The design of a feature; for "auto" all rows if the engine is exact (`all_exact`), else by the rule, as pairs."""
    if task.design is not None:
        return task.design
    if all_exact and subject.feature.kind != "pair" and route(task, subject).exact:
        return All()
    return Latin(FIRST_DRAW) if is_sampled(task, subject) else rule(subject, task.n)


def ask(task: Task, asked: Sequence[Asked]) -> tuple[list[Answered], int]:
    """All features, each by its engine, and the number of predictions of the model."""
    routes = [route(task, subject, design) for subject, design in asked]
    found: dict[str, Answered] = {}
    predicted = min(task.n, CHECKED) if any(r.exact for r in routes) else 0  # the exact engine was checked on these
    for engine, way in dict.fromkeys((r.engine, r.way) for r in routes):
        mine = [(one, r) for one, r in zip(asked, routes, strict=True) if (r.engine, r.way) == (engine, way)]
        sample, filled, count = PASSES[way](task, engine, [one for one, _ in mine])
        predicted += count
        unsteady = task.engine.repeats.declined if engine is task.engine else ""
        for ((subject, design), r), part in zip(mine, filled, strict=True):
            declined = unsteady or r.declined
            found[subject.feature.name] = Answered(subject.feature, design, r.label, sample, part, declined)
    return [found[subject.feature.name] for subject, _ in asked], predicted


# The pass of each way.


def _cells(task: Task, engine: CellEngine, asked: Sequence[Asked]) -> Passed:
    if task.design is not None and task.design.conditional and len(asked) > 1:
        # One feature at a time: two features that share a column may have different draws of it.
        share = replace(task, budget=replace(task.budget, memory=task.budget.memory // len(asked)))
        parts = [_cells(share, engine, [one]) for one in asked]
        return parts[0][0], [filled for _, part, _ in parts for filled in part], sum(count for *_, count in parts)
    n, budget = task.n, task.budget
    questions = [pose(subject, design, n, task.entropy) for subject, design in asked]
    widths = [question.meeting.width for question in questions]
    drawn = sum(drawn_cells(n, m) for m in widths) if task.design is not None and task.design.conditional else 0
    left = replace(budget, memory=max(budget.memory // 4, budget.memory - drawn))
    left.check_machine(widths, n)
    kept = left.rows_to_keep(widths, n, task.entropy)
    most = n + sum(question.ask.most(n) for question in questions)
    with bar(most, "explaining", task.progress, "predictions" if engine is task.engine else "cells") as tick:
        sample, filled, total = dense.run(
            engine, questions, task.sample, task.loss, budget, kept, tick, task.others
        )  # fmt: skip
    filled = [_drawn(task, question, part) for question, part in zip(questions, filled, strict=True)]
    return sample, filled, total if engine is task.engine else 0


def _drawn(task: Task, question: Question, filled: Filled) -> Filled:
    """With what a sampler drew for some rows: replaced rows are compared with real ones."""
    if question.conditioning is None:
        return filled
    ask, (rows, _) = question.ask, task.real_rows
    assert ask.met is not None  # every row has its own draws
    first = ask.met[rows][:, 0]
    drawn = tuple(source.array[index[first]] for source, index in zip(ask.sources, ask.index, strict=True))
    return replace(filled, drawn=drawn)


def _steps(task: Task, engine: Any, asked: Sequence[Asked]) -> Passed:
    questions = [pose(subject, design, task.n, task.entropy) for subject, design in asked]
    with bar(task.n, "explaining", task.progress, "rows") as tick:
        return *steps.run(
            engine, questions, task.sample, task.loss, task.budget, task.entropy, task.n_jobs, tick
        ), 0  # fmt: skip


def _sums(task: Task, engine: Any, asked: Sequence[Asked]) -> Passed:
    return *sums.run(engine, asked, task.sample, task.loss, task.budget, task.entropy, task.n_jobs), 0


def _factors(task: Task, engine: Any, asked: Sequence[Asked]) -> Passed:
    assert task.loss is not None  # the squared one
    with bar(task.n * len(asked), "explaining", task.progress, "rows") as tick:
        return *factors.run(engine, asked, task.sample, task.loss, task.budget, task.entropy, tick), 0


PASSES: dict[AnswerWay, Callable[[Task, Any, Sequence[Asked]], Passed]] = {
    "cells": _cells, "steps": _steps, "sums": _sums, "factors": _factors,
}  # fmt: skip
