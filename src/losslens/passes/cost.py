"""The cost of importances and effects of data in memory: counts of cells, timed calls of the model, and a rehearsal.

What a call takes beside the model is rehearsed on a few rows, with a stand-in for the model that answers at once. Only
how many donors ``donors="auto"`` needs is tried with the model itself, on few rows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray

from losslens.donors.conditional import BoundSampler, bound
from losslens.donors.designs import Design
from losslens.donors.questions import FEW_VALUES, Subject, Subjects, has_ties, pose
from losslens.engines import rates
from losslens.engines.base import CellEngine
from losslens.engines.blackbox import TIMED, BlackBox, CallTime, batches_a_task
from losslens.engines.choice import CHECKED
from losslens.engines.repeats import Repeats
from losslens.models import Model
from losslens.passes import auto, dense, scored, steps
from losslens.passes.dispatch import Asked, Route, ask, design_of, route
from losslens.passes.scorers import ScorerMethod
from losslens.passes.task import Options, Task
from losslens.results.importance import FeatureImportance
from losslens.results.plan import Plan
from losslens.typing import Indices
from losslens.uncertainty.cell_weights import MATRIX_CELLS
from losslens.workers import active, here, packed_size

REHEARSED = 0.25  # seconds of a rehearsal, about
FEATURES, ROWS, GROWTH = 6, 40, 4  # of a rehearsal: most features, rows at first, and times more the next time
FEW_FEATURES = 4  # of a rehearsal on many rows
SPACING = 64  # donors of "auto", most of the time a divisor of it
MORE_ROWS, WIDE = 160, 64  # rows at first where all features have at most so many cells in a row
DRAWN_ROWS = 500  # rows for which a sampler draws values in a rehearsal: it is fitted to them first
TRIED = 240  # rows on which the donors of "auto" are tried
TRIED_CELLS, TRIED_SHARE, TRIED_SECONDS = 100_000, 0.01, 0.15  # most predictions of that, their share, and seconds
STEPPED = 200  # rows on which tree engines are timed
FILLED = 400_000  # cells on which other exact engines are timed
SUMMED = 1.0  # expected seconds up to which sums are not estimated, but computed

_PACE: ContextVar[float] = ContextVar("pace", default=1.0)

Build = Callable[[Task, Sequence[Asked]], Sequence[Any]]  # computes the results of some features, with these designs


@contextmanager
def hurried(share: float) -> Iterator[None]:
    """Rehearsals and timed calls take only this share of their seconds: one of several plans that are made together."""
    token = _PACE.set(share * _PACE.get())
    try:
        yield
    finally:
        _PACE.reset(token)


def allowed(seconds: float) -> float:
    """So many seconds, or the share of them that one of several plans has."""
    return seconds * _PACE.get()


@dataclass(frozen=True, eq=False)
class Expected:
    """What a feature under a design takes, from counts; no donors are drawn."""

    subject: Subject
    design: Design
    n: int

    @property
    def name(self) -> str:
        """The feature."""
        return self.subject.feature.name

    @cached_property
    def values(self) -> int:
        """Distinct values of all rows; estimated where the table is large, and the subject has some of them."""
        return values_of_all(len(self.subject.distinct), len(self.subject.distinct.codes), self.n)

    @cached_property
    def cells(self) -> tuple[int, int]:
        """Cells in a row, and how many of them are predicted at most."""
        design = self.design
        if isinstance(design, BoundSampler):
            draws = design.sampler.draws(self.n)
            return draws, draws
        if design.values is not None or self.subject.feature.kind == "pair":
            rows = len(self.subject.parts[0].codes)
            question = pose(self.subject, design, rows, 0)
            return question.width, question.ask.most(rows) // rows
        values = self.values
        others = values - int(values <= FEW_VALUES)
        if design.all_pairs:
            return values, others
        m = design.m
        assert m is not None  # donors are drawn
        if design.common:  # another draw may have more distinct values
            return min(m, values), min(m, values)
        return m, min(m, others)

    def with_donors(self, m: int) -> Expected:
        """The same with another number of donors."""
        design: Any = self.design
        return replace(self, design=replace(design, m=m))

    def on(self, few: Task) -> Expected:
        """The same feature on few rows, with no more donors than they have."""
        subject = next(s for s in few.subjects if s.feature.name == self.name)
        if isinstance(few.design, BoundSampler):
            return Expected(subject, few.design, few.n)
        m = self.design.m
        return replace(self if m is None or m < few.n else self.with_donors(few.n - 1), subject=subject, n=few.n)

    @property
    def width(self) -> int:
        """Cells in a row."""
        return self.cells[0]

    @property
    def predictions(self) -> int:
        """The most predictions."""
        return self.n * self.cells[1]

    @property
    def may_be_fewer(self) -> bool:
        """Whether rows may get a value twice, or their own, and are predicted there once, or not at all."""
        design = self.design
        if isinstance(design, BoundSampler) or design.all_pairs or design.values is not None:
            return False
        alike = design.common or design.repeats or has_ties(self.subject.distinct)
        return self.subject.feature.kind != "pair" and alike


def values_of_all(counted: int, rows: int, n: int) -> int:
    """Distinct values of n rows, of which some have so many.

    If D values are equally frequent, a value occurs n / D times, and is among the rows with probability
    1 - (1 - rows/n)^(n/D): D is the number with which the expected count is the one found.
    """
    low, high = n if counted == rows else counted, n
    while low < high:
        middle = (low + high) // 2
        if middle * (1 - (1 - rows / n) ** (n / middle)) < counted - 0.5:
            low = middle + 1
        else:
            high = middle
    return low


@dataclass(frozen=True, eq=False)
class CountedCells:
    """What all features take, from counts."""

    expected: list[Expected]
    routes: list[Route]
    grows: list[Expected]  # features that may need more donors
    by_model: int  # rows that the model predicts, unchanged ones included
    checked: int  # rows on which it is compared with an exact engine

    @property
    def asked(self) -> list[Expected]:
        """Features whose cells the model predicts."""
        return [one for one, r in zip(self.expected, self.routes, strict=True) if not r.exact]

    @property
    def n_predictions(self) -> int:
        """All of them, at least."""
        return self.by_model + self.checked


def count_cells(task: Task, rule: Callable[[Subject, int], Design], n: int, *, all_exact: bool = True) -> CountedCells:
    """The cells of n rows, of which the task may have some; `rule` chooses the design of ``donors="auto"``.

    `all_exact`: of features that no exact engine takes.
    """
    designs = [design_of(task, s, lambda subject, _: rule(subject, n), all_exact=all_exact) for s in task.subjects]
    for design in designs:
        design.check(n)
    routes = [route(task, s, d) for s, d in zip(task.subjects, designs, strict=True)]
    expected = [Expected(s, d, n) for s, d in zip(task.subjects, designs, strict=True)]
    asked = [one for one, r in zip(expected, routes, strict=True) if not r.exact]
    turns = int(bool(asked))
    if task.design is not None and task.design.conditional:
        turns = len(asked)  # features are drawn one at a time
    return CountedCells(
        expected, routes, [one for one in asked if _grows(task, one)],
        by_model=turns * n + sum(one.predictions for one in asked),
        checked=min(n, CHECKED) if len(asked) < len(expected) else 0,
    )  # fmt: skip


def plan_cells(
    task: Task, rule: Callable[[Subject, int], Design], build: Build, started: float, n: int | None = None,
    *, all_exact: bool = True,
) -> Plan:  # fmt: skip
    """The cost of importances or effects of n rows, whose preparation began at `started`; the task may have some rows.

    `rule` chooses the design of ``donors="auto"``, and `build` computes the results of a round of donors.
    """
    n = task.n if n is None else n
    times, counted = n / task.n, count_cells(task, rule, n, all_exact=all_exact)
    expected, routes, grows, asked, total = (
        counted.expected, counted.routes, counted.grows, counted.asked, counted.by_model
    )  # fmt: skip
    seconds = times * (time.thread_time() - started)  # the call begins so; values of other features are not counted
    complete = task.budget.fits(expected, n)
    batch = min(total, task.engine.rows_a_call(n))
    calls = ceil(total / batch) if asked else 0
    threads = 0
    if asked:
        with here():
            model = task.engine.timed(batch, allowed(TIMED))
            rounds = [asked, *_more_rounds(task, grows, build, model)]
            seconds += _beside_model(task, rounds, build, model)
        more = sum(one.predictions for some in rounds[1:] for one in some)
        threads, predicting = spread(task, model.seconds(ceil((total + more) / batch), total + more), total + more)
        seconds += predicting
    exact = [(one, r) for one, r in zip(expected, routes, strict=True) if r.exact]
    lanes, exactly = _exact_seconds(task, exact, build)
    kept = n if complete else task.budget.kept_rows(expected, n)
    working = task.budget.memory // 8 if not complete else batch * (task.table.row_bytes + 64)
    return Plan(
        features=tuple(one.name for one in expected),
        engines=tuple(r.label for r in routes),
        designs=tuple(repr(one.design) for one in expected),
        predictions=tuple(0 if r.exact else one.predictions for one, r in zip(expected, routes, strict=True)),
        upper=any(one.may_be_fewer for one in asked),
        n_predictions=counted.n_predictions,
        calls=calls + bool(counted.checked),
        memory=kept * task.budget.row_bytes(expected) + working,
        complete=complete,
        seconds=seconds + times * exactly,
        grows=tuple(one.name for one in grows),
        backend=task.table.backend,
        workers=max(threads, lanes),
    )


def plan_scores(
    model: Model,
    X: Any,
    y: Any,
    scorer: Any,
    options: Options,
    started: float,
    n: int,
    restored: Callable[[Task], Task],
) -> Plan:
    """The cost of importances by a scorer: of the predictions, and of calls of the scorer, one of which is timed."""
    method, task = scored.prepare_scored(model, X, y, scorer, options)
    task = restored(task)

    def build(task: Task, asked: Sequence[Asked]) -> Sequence[Any]:
        return [answer.filled.cells.predictions for answer in ask(task, asked)[0]]

    rule = scored.rule_of(method)
    asked = [(s, task.design or rule(s, n)) for s in task.subjects]
    on_grid = scored.curves_besides(task, asked)
    expected = [Expected(s, d, n) for s, d in (*asked, *on_grid)]
    scored.check_budget(task, expected, n)
    plan = plan_cells(task, rule, build, started, n, all_exact=False)
    if on_grid:  # the curves of sampled features
        curves = replace(task, subjects=tuple(s for s, _ in on_grid), design=on_grid[0][1])
        more = plan_cells(curves, rule, build, time.thread_time(), n)
        each_more = dict(zip(more.features, more.predictions or (), strict=True))
        plan = replace(
            plan, upper=plan.upper or more.upper, seconds=plan.seconds + more.seconds, memory=plan.memory + more.memory,
            predictions=tuple(
                k + each_more.get(name, 0) for name, k in zip(plan.features, plan.predictions or (), strict=True)
            ),
            n_predictions=plan.n_predictions + count_cells(curves, rule, n).by_model,
        )  # fmt: skip
    few = task.engine.timed(CHECKED, allowed(TIMED))
    calls, rows = scored.calls_of(method, [(one.design, one.width) for one in expected], n)
    each, a_row = scorer_seconds(method, task, few)
    # The verb calls the model once more, for the scorer to show which predictions it needs.
    seconds = plan.seconds + calls * each + rows * a_row + few.seconds(1, method.probed)
    return replace(plan, seconds=seconds, n_predictions=plan.n_predictions + method.probed)


def scorer_seconds(method: ScorerMethod, task: Task, model: CallTime) -> tuple[float, float]:
    """Seconds of a call of the scorer, and of each row in it, from calls on all rows and on a part of them."""
    predictions = StandIn(model.predictions)(task.every)

    def least(rows: Indices | None) -> float:
        """Of some calls after the first, which may load something."""
        took = []
        for _ in range(3):
            began = time.thread_time()  # of this thread alone, on busy cores, too
            some = predictions if rows is None else predictions[rows]
            method.of_rows(some, None if method.weight is None else method.weight[: len(some)], rows)
            took.append(time.thread_time() - began)
        return min(took[1:])

    every = least(None)
    try:
        part = task.every[: task.n // 2]
        a_row = min(max(0.0, every - least(part)) / max(1, task.n - len(part)), every / task.n)
    except Exception:  # noqa: BLE001 - whatever a scorer raises that needs all rows, or all classes
        a_row = every / task.n
    return max(0.0, every - a_row * task.n), a_row


# The model.


def _grows(task: Task, one: Expected) -> bool:
    return task.design is None and task.loss is not None and not one.design.common


def _more_rounds(task: Task, grows: Sequence[Expected], build: Build, model: CallTime) -> list[list[Expected]]:
    """The round of more donors that features will need, judging by a trial on few rows; without one, twice as many.

    Both the noise of the donors and the sampling error fall as 1/n, so that few rows need as many donors as all.
    """
    if not grows:
        return []
    cells = sum(one.cells[1] for one in grows) + 1
    most = max(TRIED_CELLS, int(TRIED_SHARE * task.n * cells))
    rows = min(TRIED, task.n, most // cells, int(allowed(TRIED_SECONDS) / (model.row * cells + 1e-12)))
    if rows < TRIED // 4 or model.call > allowed(TRIED_SECONDS):
        return [[one.with_donors(2 * one.width) for one in grows]]
    few = thinned(task, rows, task.engine.respond)
    tried = [one.on(few) for one in grows]
    found: Sequence[FeatureImportance] = build(few, [(one.subject, one.design) for one in tried])
    more = []
    for one, importance in zip(grows, found, strict=True):
        if auto.wants_more(importance):
            more.append(one.with_donors(min(auto.more_donors(importance), one.values - 1)))
    return [more] if more else []


def spread(task: Task, seconds: float, cells: int) -> tuple[int, float]:
    """The threads of the active cluster, and the seconds on it with the transfer of model, table and predictions."""
    cluster = active()
    if cluster is None or not task.engine.travels:
        return 0, seconds
    size = task.engine.rows_a_call(task.n)
    tasks = max(1, ceil(cells / size / batches_a_task(cluster.grain, size)))
    threads = cluster.threads
    travels = packed_size(task.engine, cluster) + 8 * cells
    return threads, rates.on_a_cluster(seconds, tasks, threads, travels)


# Beside the model.


@dataclass(frozen=True, eq=False)
class StandIn:
    """Answers at once in place of the model: with predictions that it has given, over and over."""

    predictions: NDArray[Any]
    asked: list[int] = field(default_factory=list)  # rows of each call

    def __call__(self, table: Any) -> NDArray[Any]:
        """As many predictions as rows."""
        self.asked.append(len(table))
        return np.asarray(self.predictions[np.arange(len(table)) % len(self.predictions)])


def thinned(task: Task, rows: int, respond: Callable[[Any], NDArray[Any]]) -> Task:
    """The same call on some of the rows, evenly spaced, in this process."""
    at = np.unique(np.linspace(0, task.n - 1, rows).astype(np.intp))
    table, sample, design = task.table.at(at), task.sample, task.design
    subjects, weight = Subjects(table), sample.weight[at]
    weight = weight / weight.sum() if weight.any() else np.full(len(at), 1 / len(at))
    block = None if sample.block is None else np.unique(sample.block[at], return_inverse=True)[1]
    return replace(
        task,
        table=table,
        subjects=tuple(subjects.subject(s.feature) for s in task.subjects),
        design=bound(design.sampler, table, weight, block) if isinstance(design, BoundSampler) else design,
        engine=BlackBox(table, respond, task.engine.batch_rows, n_jobs=1, repeats=Repeats(watches=False)),
        exact=None,
        sample=replace(
            sample,
            weight=weight,
            y=None if sample.y is None else sample.y[at],
            block=block,
        ),
        n_jobs=1,
        progress=False,
    )


def _beside_model(task: Task, rounds: Sequence[Sequence[Expected]], build: Build, model: CallTime) -> float:
    """Seconds of all rounds beside the model: those of some features on few rows, in proportion to their work."""
    drawn = task.design is not None and task.design.conditional
    fewest = min(task.n, max((_like_all(one) for r in rounds for one in r if _grows(task, one)), default=0))
    most = 1 if drawn else FEW_FEATURES if fewest else FEATURES
    some = [r[:: max(1, ceil(len(r) / most))] for r in rounds]
    rows = DRAWN_ROWS if drawn else ROWS if any(one.width > WIDE for one in some[0]) else max(MORE_ROWS, fewest)
    began, seen = time.perf_counter(), []
    while True:
        # Shifts are evenly spaced or not as in the call: standard errors take longer if not.
        few = thinned(task, min(rows + (rounds[0][0].n - rows) % SPACING, task.n), StandIn(model.predictions))
        tried = [[one.on(few) for one in r] for r in some]
        started = time.thread_time()
        for r in tried:
            for importance, one in zip(build(few, [(one.subject, one.design) for one in r]), r, strict=True):
                if _grows(task, one):
                    auto.wants_more(importance)
        took = time.thread_time() - started
        seen.append((_all_work(tried), took))
        quadratic = not drawn and any(one.width > few.n // 2 for one in tried[0])
        rows *= GROWTH
        if few.n >= task.n or time.perf_counter() - began + took * GROWTH ** (1 + quadratic) > allowed(REHEARSED):
            break
    return float(_all_work(rounds) @ fitted_rates(seen))


def _like_all(one: Expected) -> int:
    """Rows above which standard errors are computed in the same way as for all rows."""
    m = one.width
    return MATRIX_CELLS // m + 1 if one.n % m and one.n * m > MATRIX_CELLS else 0


def _all_work(rounds: Sequence[Sequence[Expected]]) -> NDArray[np.float64]:
    return np.asarray(np.sum([_work(r) for r in rounds], axis=0))


def _work(expected: Sequence[Expected]) -> NDArray[np.float64]:
    """Features, rows of features, and cells."""
    return np.array([len(expected), sum(one.n for one in expected), sum(one.n * one.width for one in expected)], float)


def fitted_rates(seen: Sequence[tuple[NDArray[np.float64], float]]) -> NDArray[np.float64]:
    """Seconds per unit of each kind of work, none of them negative, closest to what was seen, relatively."""
    from scipy.optimize import nnls

    work, seconds = np.array([work for work, _ in seen]), np.array([max(seconds, 1e-6) for _, seconds in seen])
    return np.asarray(nnls(work / seconds[:, None], np.ones(len(seen)))[0])


# Exact engines.


def _exact_seconds(task: Task, answered: list[tuple[Expected, Route]], build: Build) -> tuple[int, float]:
    """The threads of a cluster that the exact engine uses, and its seconds."""
    engine, n, seconds = task.exact, task.n, 0.0
    by_way: dict[str, list[Expected]] = {}
    by_filling: dict[CellEngine, list[Expected]] = {}
    for one, r in answered:
        if r.way == "cells":
            by_filling.setdefault(r.engine, []).append(one)
        else:
            by_way.setdefault(r.way, []).append(one)
    if summed := by_way.get("sums", []):
        seconds += _sums_seconds(task, summed, build)
    for filling, filled in by_filling.items():
        questions = [pose(one.subject, one.design, n, 0) for one in filled]
        rows = max(2, FILLED // sum(one.width for one in filled))
        seconds += dense.expected_seconds(filling, questions, task.sample, task.losses, rows)
    seconds += sum(engine.seconds(one.subject, "factors") for one in by_way.get("factors", []))
    if not (stepped := by_way.get("steps", [])):
        return 0, seconds
    questions = [pose(one.subject, one.design, n, 0) for one in stepped]
    alone = n * steps.seconds_per_row(engine, questions, task.sample, task.loss, STEPPED)
    cluster = active()
    if cluster is None or not steps.cluster_is_faster(engine, n, len(stepped), cluster):
        return 0, seconds + alone
    return cluster.threads, seconds + steps.cluster_seconds(alone, engine, n, len(stepped), cluster)


def _sums_seconds(task: Task, summed: Sequence[Expected], build: Build) -> float:
    expected = float(sum(task.exact.seconds(one.subject, "sums") for one in summed))
    if expected > SUMMED:
        return expected
    started = time.thread_time()
    build(replace(task, n_jobs=1), [(one.subject, one.design) for one in summed])
    return time.thread_time() - started
