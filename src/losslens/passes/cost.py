"""The cost of importances and effects of data in memory: predictions, one timed batch of the model, and rates."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil

from losslens.donors.designs import Design
from losslens.donors.questions import Question, Subject, pose
from losslens.engines import rates
from losslens.engines.choice import CHECKED
from losslens.passes import steps
from losslens.passes.dispatch import Route, design_of, route
from losslens.passes.task import Task
from losslens.results.plan import Plan
from losslens.workers import active, packed_size

TIMED = 200  # rows on which tree engines are timed


def plan_cells(task: Task, rule: Callable[[Subject, int], Design], more: int = 0) -> Plan:
    """The cost of importances or effects; `rule` chooses the design of ``donors="auto"``."""
    routes = [route(task, s) for s in task.subjects]
    designs = [design_of(task, s, rule) for s in task.subjects]
    questions = [pose(s, d, task.n, task.entropy) for s, d in zip(task.subjects, designs, strict=True)]
    answered = list(zip(questions, routes, strict=True))
    counts = [0 if r.exact else _most(question, task.n) for question, r in answered]
    complete = task.budget.fits(questions, task.n)
    asked = [question for question, r in answered if not r.exact]
    turns = 0 if not asked else 1 if complete else sum(1 for _ in task.budget.turns(asked))
    if task.design is not None and task.design.conditional:
        turns = len(asked)  # features are drawn one at a time
    total = turns * task.n + sum(counts) + more + (min(task.n, CHECKED) if len(asked) < len(questions) else 0)
    rows, seconds = task.engine.timed_batch()
    kept = task.n if complete else task.budget.kept_rows(questions, task.n)
    working = task.budget.memory // 8 if not complete else rows * (task.table.row_bytes + 64)
    threads, predicting = spread(task, seconds * total / rows, total) if asked else (0, seconds * total / rows)
    lanes, exactly = _exact_seconds(task, [(q, r) for q, r in answered if r.exact])
    return Plan(
        features=tuple(q.subject.feature.name for q in questions),
        engines=tuple(r.label for r in routes),
        designs=tuple(repr(q.design) for q in questions),
        predictions=tuple(counts),
        n_predictions=total,
        calls=ceil(total / task.engine.rows_a_call(task.n)),
        memory=kept * task.budget.row_bytes(questions) + working,
        complete=complete,
        seconds=predicting + exactly,
        grows=tuple(q.subject.feature.name for q in asked if _grows(task, q)),
        backend=task.table.backend,
        workers=max(threads, lanes),
    )


def _exact_seconds(task: Task, answered: list[tuple[Question, Route]]) -> tuple[int, float]:
    """The threads of a cluster that the exact engine uses, and its seconds: some rows timed, or counts and rates."""
    engine, n = task.exact, task.n
    seconds = sum(r.engine.seconds(q.subject, r.way) for q, r in answered if r.way != "steps")
    walked = [q for q, r in answered if r.way == "steps"]
    if not walked:
        return 0, seconds
    here = n * steps.seconds_per_row(engine, walked, task.sample, task.loss, TIMED)
    cluster = active()
    if cluster is None or not steps.cluster_is_faster(engine, n, len(walked), cluster):
        return 0, seconds + here
    return cluster.threads, seconds + steps.cluster_seconds(here, engine, n, len(walked), cluster)


def _most(question: Question, n: int) -> int:
    """The most predictions of a feature; a random grid may have fewer distinct values in another draw."""
    design = question.design
    if design.sampled_grid and design.m is not None and question.subject.feature.kind != "pair":
        return n * min(design.m, len(question.subject.distinct))
    return question.ask.most(n)


def _grows(task: Task, question: Question) -> bool:
    return task.design is None and task.loss is not None and not question.design.common


def spread(task: Task, seconds: float, cells: int) -> tuple[int, float]:
    """The threads of the active cluster, and the seconds on it with the transfer of model, table and predictions."""
    cluster = active()
    if cluster is None or not task.engine.travels:
        return 0, seconds
    tasks = max(1, ceil(cells / task.engine.rows_a_call(task.n) / cluster.grain))
    threads = cluster.threads
    travels = packed_size(task.engine, cluster) + 8 * cells
    return threads, rates.on_a_cluster(seconds, tasks, threads, travels)
