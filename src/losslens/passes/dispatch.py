"""Who answers for which feature: an exact engine where one applies, else the black box."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from losslens.donors.designs import All, Design
from losslens.donors.questions import Subject, pose
from losslens.engines.additive import Additive
from losslens.engines.base import Engine
from losslens.engines.choice import CHECKED
from losslens.engines.kernel_machines import MOST_PRODUCTS, Products, cost
from losslens.passes import dense, steps, sums
from losslens.passes.budget import Answered, Filled
from losslens.passes.task import Task
from losslens.progress import bar
from losslens.tables.sample import Sample

Asked = tuple[Subject, Design]


def exact_for(task: Task, subject: Subject, design: Design | None) -> bool:
    """Whether the exact engine takes this feature; a design of None is the engine's to choose."""
    engine, kind = task.exact, subject.feature.kind
    if engine is None or not (design is None or design.all_pairs) or kind == "pair":
        return False
    if isinstance(engine, Products):
        return _affordable(engine, subject, task)
    if task.sample.block is not None:  # who lends to whom differs from row to row
        return False
    if isinstance(engine, Additive):
        return True
    if kind == "single":
        return bool(engine.takes(subject.feature.columns[0]))
    return _takes_table(task, subject) or _groups(task)


def _takes_table(task: Task, subject: Subject) -> bool:
    """Whether the cells of a group of columns are few enough to look at one by one; they needn't all be kept."""
    return bool(task.exact.takes_pairs(task.n * len(subject.distinct), subject.feature.columns))


def _groups(task: Task) -> bool:
    """Whether a group's importance can be had without its cells."""
    from losslens.passes import groups

    return groups.applies(task.exact, task.loss)


def _why_not(task: Task, subject: Subject) -> str:
    """Why the model itself was asked for a feature, where an exact engine knows it."""
    if task.declined or task.exact is None or subject.feature.kind == "pair":
        return task.declined
    if task.sample.block is not None:
        return "with groups= who lends to whom differs from row to row"
    return f"{subject.feature.name!r} has too many values for its {task.exact.name}"


def _affordable(engine: Products, subject: Subject, task: Task) -> bool:
    """Whether the matrix products of a feature are few enough; what its values are can make them fewer."""
    g = len(subject.distinct)
    if cost(engine.form, task.n, g) <= MOST_PRODUCTS:
        return True
    image = engine.images(pose(subject, All(), task.n, task.entropy).ask)
    return cost(engine.form, task.n, g, image) <= MOST_PRODUCTS


def ask(task: Task, asked: Sequence[Asked]) -> tuple[list[Answered], int]:
    """All features, each by its engine; and how many rows the model was asked for."""
    found: dict[str, Answered] = {}
    predicted = 0
    for run in (_ask_black_box, _ask_exact, _ask_table, _ask_without_cells):
        mine = [(subject, design) for subject, design in asked if _who(task, subject, design) is run]
        if not mine:
            continue
        asks_model = run is _ask_black_box
        sample, filled, count = run(task, mine)
        predicted += count
        name = _name(task, run)
        for (subject, design), part in zip(mine, filled, strict=True):
            why = _why_not(task, subject) if asks_model else ""
            found[subject.feature.name] = Answered(subject.feature, design, name, sample, part, why)
    if any(answer.engine != task.engine.name for answer in found.values()):
        predicted += min(task.n, CHECKED)  # rows that an exact engine was compared with the model on
    return [found[subject.feature.name] for subject, _ in asked], predicted


Run = Callable[[Task, Sequence[Asked]], tuple[Sample, list[Filled], int]]


def _who(task: Task, subject: Subject, design: Design) -> Run:
    if not exact_for(task, subject, design):
        return _ask_black_box
    if isinstance(task.exact, (Additive, Products)) or subject.feature.kind == "single":
        return _ask_exact
    return _ask_table if _takes_table(task, subject) else _ask_without_cells


def _name(task: Task, run: Run) -> str:
    if run is _ask_black_box:
        return task.engine.name
    there = run is _ask_without_cells and task.device is not None and not task.exact.is_single
    return f"{task.exact.name} on {task.device}" if there else str(task.exact.name)


def who(task: Task, subject: Subject, design: Design) -> tuple[str, str]:
    """The engine that answers for a feature, with its device, and in which way: "model", "cells", "table", "total"."""
    ways: dict[Run, str] = {_ask_black_box: "model", _ask_exact: "cells", _ask_table: "table"}
    run = _who(task, subject, design)
    return _name(task, run), ways.get(run, "total")


def _ask_black_box(task: Task, asked: Sequence[Asked]) -> tuple[Sample, list[Filled], int]:
    if task.design is None or not task.design.conditional:
        return _pass(task, task.engine, asked, "predictions")
    # One feature after the other: two that share a column may have it drawn in two ways.
    share = replace(task, budget=replace(task.budget, memory=task.budget.memory // len(asked)))
    parts = [_pass(share, task.engine, [one], "predictions") for one in asked]
    return parts[0][0], [filled for _, part, _ in parts for filled in part], sum(count for *_, count in parts)


def _ask_exact(task: Task, asked: Sequence[Asked]) -> tuple[Sample, list[Filled], int]:
    engine, shared = task.exact, (task.sample, task.loss, task.budget, task.entropy)
    if isinstance(engine, Additive):
        return (*sums.run(engine, asked, *shared), 0)
    if isinstance(engine, Products):
        sample, filled, _ = _pass(task, engine, asked, "cells")
        return sample, filled, 0
    questions = [pose(subject, design, task.n, task.entropy) for subject, design in asked]
    with bar(task.n, "explaining", task.progress, "rows") as tick:
        return (*steps.run(engine, questions, *shared, task.n_jobs, tick), 0)


def _ask_table(task: Task, asked: Sequence[Asked]) -> tuple[Sample, list[Filled], int]:
    """Groups of columns of trees: one table of rows and values each."""
    sample, filled, _ = _pass(task, task.exact, asked, "rows")
    return sample, filled, 0


def _ask_without_cells(task: Task, asked: Sequence[Asked]) -> tuple[Sample, list[Filled], int]:
    from losslens.passes import groups

    assert task.loss is not None  # `exact_for` has asked
    return (*groups.run(task.exact, asked, task.sample, task.loss, task.entropy), 0)


def _pass(task: Task, engine: Engine, asked: Sequence[Asked], unit: str) -> tuple[Sample, list[Filled], int]:
    questions = [pose(subject, design, task.n, task.entropy) for subject, design in asked]
    most = task.n + sum(question.ask.most(task.n) for question in questions)
    total = task.n * len(questions) if unit == "rows" else most
    with bar(total, "explaining", task.progress, unit) as tick:
        return dense.run(engine, questions, task.sample, task.loss, task.budget, task.entropy, tick)
