"""The choice of the engine of each feature, and the pass over the rows that fits the engine.

The exact engine computes what it supports; the black box computes the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from losslens.cells.matrix import drawn_cells
from losslens.donors.designs import All, Design
from losslens.donors.questions import Question, Subject, pose
from losslens.engines.base import AnswerWay, CellEngine, Declined, MixedRows
from losslens.engines.choice import CHECKED
from losslens.passes import dense, factors, groups, steps, sums
from losslens.passes.budget import Answered, Filled
from losslens.passes.task import Task
from losslens.progress import bar
from losslens.tables.sample import Sample

NOT_IN_TABLE = "exact engines know the values of the table only"
ONE_HOLDS_ALL = "one row or group holds nearly all weight, and little is left of the pairs if its own are left out"
LEAST_LEFT = 1e-6  # of the weight: subtraction keeps ten digits

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


def route(task: Task, subject: Subject, design: Design | None = None) -> Route:
    """The exact engine if it supports the feature, else the black box; cell by cell under designs of some pairs."""
    declined = task.declined
    if task.exact is not None:
        try:
            way = task.exact.way(subject, task.loss, blocked=task.blocked)
        except Declined as why:
            declined = str(why)
        else:
            if way != "cells" and task.loss is not None and _few_digits_left(task, design):
                return Route(task.engine, "cells", task.engine.name, exact=False, declined=ONE_HOLDS_ALL)
            if design is None or design.all_pairs or subject.feature.kind == "pair":
                return Route(task.exact, way, task.exact.label(way), exact=True)
            if design.values is None:
                mixed = task.exact if task.exact.fills_own_donors else MixedRows(task.exact, len(task.table.names))
                return Route(mixed, "cells", task.exact.name, exact=True)
            declined = NOT_IN_TABLE
    return Route(task.engine, "cells", task.engine.name, exact=False, declined=declined)


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
    design = rule(subject, task.n)
    if task.budget.is_tight(len(task.subjects), task.n):
        subject.release()
    return design


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
        parts = []
        for one in asked:
            parts.append(_cells(share, engine, [one]))
            if task.budget.is_tight(len(asked), task.n):
                one[0].release()
        return parts[0][0], [filled for _, part, _ in parts for filled in part], sum(count for *_, count in parts)
    n, budget, sample = task.n, task.budget, task.sample
    posed = _Posed(task, asked, keep=len(asked) == 1 or not budget.is_tight(len(asked), n))
    drawn = sum(drawn_cells(n, m) for m in posed.widths) if task.design is not None and task.design.conditional else 0
    kept = replace(budget, memory=max(budget.memory // 4, budget.memory - drawn)).rows_to_keep(
        posed.widths, n, task.entropy
    )
    turns, filled, total = list(budget.turns(posed.widths, n)), [], 0
    most = len(turns) * n + sum(posed.most)
    with bar(most, "explaining", task.progress, "predictions" if engine is task.engine else "cells") as tick:
        for turn in turns:
            questions = [posed[k] for k in turn]
            for k in turn if len(turns) > 1 else ():
                asked[k][0].release()  # the question has what the pass needs of it
            other, more, count = dense.run(engine, questions, task.sample, task.loss, budget, kept, tick, task.others)
            if len(sample.prediction) == 0 or len(kept) == n:  # cells are not compared with those of a turn again
                sample = other
            filled += [_drawn(task, question, part) for question, part in zip(questions, more, strict=True)]
            total += count
            del questions, other  # what it holds of each row is released before the next turn
    return sample, filled, total if engine is task.engine else 0


class _Posed:
    """The questions of a pass: all at once, or where memory is tight each when it is asked for."""

    def __init__(self, task: Task, asked: Sequence[Asked], *, keep: bool) -> None:
        self.task, self.asked = task, asked
        self.held: dict[int, Question] = {}
        self.widths, self.most = [], []  # cells in a row, and the most predictions, of each
        for k, (subject, design) in enumerate(asked):
            if not keep and (m := drawn_per_row(design)) is not None:
                self.widths.append(m)
                self.most.append(m * task.n)
                continue
            question = self[k]
            self.widths.append(question.meeting.width)
            self.most.append(question.ask.most(task.n))
            if keep:
                self.held[k] = question
            else:
                subject.release()

    def __getitem__(self, k: int) -> Question:
        return self.held.get(k) or pose(*self.asked[k], self.task.n, self.task.entropy)


def drawn_per_row(design: Design) -> int | None:
    """The number of donors that each row has of its own; None where it depends on the feature."""
    return None if design.common or design.conditional else design.m


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
    questions = []
    for subject, design in asked:
        question = pose(subject, design, task.n, task.entropy)
        if task.budget.is_tight(len(asked), task.n):  # the engine has the classes of all rows, and reads no values
            question = replace(question, ask=replace(question.ask, index=()))
            subject.release()
        questions.append(question)
    with bar(task.n, "explaining", task.progress, "rows") as tick:
        return *steps.run(
            engine, questions, task.sample, task.loss, task.budget, task.entropy, task.n_jobs, tick
        ), 0  # fmt: skip


def _sums(task: Task, engine: Any, asked: Sequence[Asked]) -> Passed:
    return *sums.run(engine, asked, task.sample, task.loss, task.budget, task.entropy, task.n_jobs), 0


def _totals(task: Task, engine: Any, asked: Sequence[Asked]) -> Passed:
    assert task.loss is not None  # totals are sums of losses
    tight = task.budget.is_tight(len(task.subjects), task.n)
    return *groups.run(engine, asked, task.sample, task.loss, task.entropy, tight=tight), 0


def _factors(task: Task, engine: Any, asked: Sequence[Asked]) -> Passed:
    assert task.loss is not None  # the squared one
    with bar(task.n * len(asked), "explaining", task.progress, "rows") as tick:
        return *factors.run(engine, asked, task.sample, task.loss, task.budget, task.entropy, tick), 0


PASSES: dict[AnswerWay, Callable[[Task, Any, Sequence[Asked]], Passed]] = {
    "cells": _cells, "steps": _steps, "sums": _sums, "totals": _totals, "factors": _factors,
}  # fmt: skip
