"""Who answers for which feature: an exact engine where one applies, else the black box."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from losslens import passes, stepping, summing
from losslens.donors import All, Derangements, Design
from losslens.engines import BlackBox
from losslens.engines.additive import Additive
from losslens.engines.exact import CHECKED
from losslens.engines.products import MOST_PRODUCTS, Products, cost
from losslens.passes import Filled
from losslens.progress import bar
from losslens.questions import Subject, pose
from losslens.sample import Sample
from losslens.tasks import Task

Asked = tuple[Subject, Design]


@dataclass(frozen=True, eq=False)
class Answered:
    """A feature's share of a pass, and who answered."""

    subject: Subject
    design: Design
    engine: str
    sample: Sample
    filled: Filled


def exact_for(task: Task, subject: Subject, design: Design | None) -> bool:
    """Whether the exact engine takes this feature; a design of None is the engine's to choose."""
    engine, kind = task.exact, subject.feature.kind
    everybody = design is None or isinstance(design, All) or (isinstance(design, Derangements) and design.common)
    if engine is None or not everybody or kind == "pair":
        return False
    if isinstance(engine, Products):
        return _affordable(engine, subject, task)
    if task.sample.block is not None:  # who lends to whom differs from row to row
        return False
    return isinstance(engine, Additive) or kind == "single"


def _affordable(engine: Products, subject: Subject, task: Task) -> bool:
    """Whether the matrix products of a feature are few enough; what its values are can make them fewer."""
    g = len(subject.distinct)
    if cost(engine.form, task.n, g) <= MOST_PRODUCTS:
        return True
    image = engine.images(pose(subject, All(), task.n, task.entropy).ask)
    return cost(engine.form, task.n, g, image) <= MOST_PRODUCTS


def ask(task: Task, asked: Sequence[Asked]) -> tuple[list[Answered], int]:
    """All features, each by its engine; and how many rows the model was asked for."""
    exact = [exact_for(task, subject, design) for subject, design in asked]
    found: dict[str, Answered] = {}
    predicted = 0
    for engine, chosen in ((task.exact, True), (task.engine, False)):
        mine = [pair for pair, is_exact in zip(asked, exact, strict=True) if is_exact == chosen]
        if not mine:
            continue
        sample, filled, count = _run(task, engine, mine)
        predicted += count
        for (subject, design), part in zip(mine, filled, strict=True):
            found[subject.feature.name] = Answered(subject, design, engine.name, sample, part)
    return [found[subject.feature.name] for subject, _ in asked], predicted


def _run(task: Task, engine: Any, asked: Sequence[Asked]) -> tuple[Sample, list[Filled], int]:
    shared = (task.sample, task.loss, task.budget, task.entropy)
    checked = min(task.n, CHECKED)  # rows that an exact engine was compared with the model on
    if isinstance(engine, Additive):
        return (*summing.run(engine, asked, *shared), checked)
    questions = [pose(subject, design, task.n, task.entropy) for subject, design in asked]
    if not isinstance(engine, (BlackBox, Products)):
        with bar(task.n, "explaining", task.progress, "rows") as tick:
            return (*stepping.run(engine, questions, *shared, task.n_jobs, tick), checked)
    most = task.n + sum(question.ask.most(task.n) for question in questions)
    unit = "predictions" if isinstance(engine, BlackBox) else "cells"
    with bar(most, "explaining", task.progress, unit) as tick:
        sample, filled, predicted = passes.run(engine, questions, *shared, tick)
    return sample, filled, predicted if isinstance(engine, BlackBox) else checked
