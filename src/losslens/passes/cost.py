"""What a verb on data in memory would cost: counts of predictions, one timed batch of the model, and rates."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil

from losslens.donors.designs import All, Design
from losslens.donors.questions import Question, Subject, pose
from losslens.engines import rates
from losslens.engines.additive import Additive
from losslens.engines.blackbox import BlackBox
from losslens.engines.choice import CHECKED
from losslens.engines.kernel_machines import Products
from losslens.engines.kernel_machines import cost as products
from losslens.passes import steps
from losslens.passes.dispatch import exact_for, who
from losslens.passes.task import Task
from losslens.results.plan import Plan
from losslens.workers import active, packed_size

TIMED = 200  # rows of trees that are walked to see how long it takes


def plan_cells(task: Task, rule: Callable[[Subject, int], Design], more: int = 0) -> Plan:
    """The cost of importances or effects; `rule` chooses what ``donors="auto"`` stands for."""
    exact = [exact_for(task, s, task.design) for s in task.subjects]
    designs = [task.design or (All() if e else rule(s, task.n)) for s, e in zip(task.subjects, exact, strict=True)]
    questions = [pose(s, d, task.n, task.entropy) for s, d in zip(task.subjects, designs, strict=True)]
    counts = [0 if e else _most(question, task.n) for question, e in zip(questions, exact, strict=True)]
    complete = task.budget.fits(questions, task.n)
    asked = [question for question, e in zip(questions, exact, strict=True) if not e]
    turns = 0 if not asked else 1 if complete else sum(1 for _ in task.budget.turns(asked))
    turns = len(asked) if task.design is not None and task.design.conditional else turns  # drawn features go one by one
    total = turns * task.n + sum(counts) + more + (min(task.n, CHECKED) if any(exact) else 0)
    rows, seconds = task.engine.timed_batch()
    kept = task.n if complete else task.budget.kept_rows(questions, task.n)
    working = task.budget.memory // 8 if not complete else rows * (task.table.row_bytes + 64)
    engines = [who(task, s, d) for s, d in zip(task.subjects, designs, strict=True)]
    threads, predicting = spread(task, seconds * total / rows, total) if asked else (0, seconds * total / rows)
    lanes, exactly = _exact_seconds(task, [(q, way) for q, (_, way) in zip(questions, engines, strict=True)])
    return Plan(
        features=tuple(q.subject.feature.name for q in questions),
        engines=tuple(name for name, _ in engines),
        designs=tuple(repr(q.design) for q in questions),
        predictions=tuple(counts),
        n_predictions=total,
        calls=ceil(total / task.engine.rows_a_call(task.n)),
        memory=kept * task.budget.row_bytes(questions) + working,
        complete=complete,
        seconds=predicting + exactly,
        grows=tuple(q.subject.feature.name for q, e in zip(questions, exact, strict=True) if _grows(task, q) and not e),
        backend=task.table.backend,
        workers=max(threads, lanes),
    )


def _exact_seconds(task: Task, answered: list[tuple[Question, str]]) -> tuple[int, float]:
    """The threads of a cluster that an exact engine uses, and what it takes: some rows timed, or counts times rates."""
    engine, n = task.exact, task.n
    cells = [question for question, way in answered if way == "cells"]
    if isinstance(engine, Additive):
        return 0, rates.ADDED * n * len(cells)
    if isinstance(engine, Products):
        return 0, rates.MULTIPLIED * sum(products(engine.form, n, len(q.subject.distinct)) for q in cells)
    seconds = sum(_tables_and_totals(task, question, way) for question, way in answered if way in ("table", "total"))
    if not cells:
        return 0, seconds
    walked = n * steps.second_a_row(engine, cells, task.sample, task.loss, TIMED)
    cluster = active()
    if cluster is None or not steps.pays(engine, n, len(cells), cluster):
        return 0, seconds + walked
    return cluster.threads, seconds + steps.there(walked, engine, n, len(cells), cluster)


def _tables_and_totals(task: Task, question: Question, way: str) -> float:
    engine = task.exact
    if way == "table":
        a_tree = rates.WALKED if engine.tables is None else rates.LOOKED_UP
        return float(task.n * len(question.subject.distinct) * len(engine.bound.roots) * a_tree)
    if engine.is_single:
        return task.n * rates.SECONDS["single tree"]
    from losslens.engines.trees.coalitions import cost

    known = rates.SECONDS if task.device is None else rates.SECONDS | rates.DEVICE_SECONDS
    return cost(engine.bound) * known["tree totals"]


def _most(question: Question, n: int) -> int:
    """The most predictions that a feature can need; a random grid may hold fewer values in another draw."""
    design = question.design
    if design.sampled_grid and design.m is not None and question.subject.feature.kind != "pair":
        return n * min(design.m, len(question.subject.distinct))
    return question.ask.most(n)


def _grows(task: Task, question: Question) -> bool:
    return task.design is None and task.loss is not None and not question.design.common


def spread(task: Task, seconds: float, cells: int) -> tuple[int, float]:
    """The threads of the verb's cluster, and what predictions take there: model and table travel, predictions back."""
    cluster = active()
    if cluster is None or type(task.engine) is not BlackBox:  # torch modules stay on their device
        return 0, seconds
    tasks = max(1, ceil(cells / task.engine.rows_a_call(task.n) / cluster.grain))
    threads = cluster.threads
    travels = packed_size(task.engine, cluster) + 8 * cells
    return threads, rates.on_a_cluster(seconds, tasks, threads, travels)
