"""The cost of Shapley values, estimated before it runs: counts, timed calls of the model, and a rehearsal.

Ways that go coalition by coalition are timed on some coalitions, the others on few rows; a stand-in answers for the
model. How many sweeps of walks are needed is tried with the model itself, on few rows.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from math import ceil, comb
from typing import Any

import numpy as np

from losslens.donors.designs import Design
from losslens.engines import rates
from losslens.engines.base import ExactEngine, coalition_count
from losslens.engines.blackbox import TIMED, CallTime
from losslens.engines.choice import CHECKED
from losslens.engines.repeats import Repeats
from losslens.models import Model
from losslens.passes.cost import (
    REHEARSED,
    ROWS,
    TRIED,
    TRIED_SECONDS,
    StandIn,
    allowed,
    fitted_rates,
    scorer_seconds,
    spread,
    thinned,
)
from losslens.passes.scorers import ReplayedScore
from losslens.passes.task import Options, Task
from losslens.progress import silent
from losslens.results.plan import Plan
from losslens.shapley.allotment import Way
from losslens.shapley.by_model import WALKS, Walks
from losslens.shapley.coalitions import seconds_a_coalition
from losslens.shapley.effects import (
    EffectRequest,
    by_coalitions,
    by_walks,
    effect_walk,
    explain_by,
    in_closed_form,
    of_one_number,
)
from losslens.shapley.effects import choose as choose_effects
from losslens.shapley.request import Request, check_request
from losslens.shapley.scores import MAX_ROUNDS, MIN_ROUNDS, check_scores, donors_a_row, score_game
from losslens.shapley.setup import set_up
from losslens.shapley.stopping import MOST_PREDICTIONS, ShapleySettings
from losslens.shapley.walk_kinds import FIRST_EFFECT_SWEEPS
from losslens.shapley.ways import choose, engine_name, result_by
from losslens.tables import checks
from losslens.tables.frames import as_table
from losslens.workers import here

MIXED_ROWS = 2_000  # on which an exact engine is timed
PAIRS = 300_000  # most predictions of a coalition in a rehearsal
TRIED_STEPS, MOST_SWEEPS = 60_000, 20  # most predictions of walks that are tried, and sweeps of a rehearsal
DECIDED_PLAYERS = 32  # most players of a stopping decision that is timed
DECIDED = 0.2  # of the time of a stopping decision on few rows, the part that is in proportion to them, about
GROWTH = 2  # times the rows of the next rehearsal
REHEARSED_WORK, MOST_ROWS = 2e6, 640  # operations and rows of a first rehearsal of a way that is linear in rows
FEW_EXPLAINED = 4  # rows that are explained at first in a rehearsal of `shapley_effect`


def plan_shares(
    model: Any,
    X: Any,
    y: Any,
    loss: Any,
    settings: ShapleySettings,
    options: Options,
    started: float,
    n: int | None = None,
    restored: Callable[[Task], Task] = lambda task: task,
) -> Plan:
    """The cost of `shapley_importance` of n rows, whose preparation began at `started`; X may hold some of the rows.

    `restored` gives a task the design of all rows, which has more donors than some rows do.
    """
    times = 1.0 if n is None else n / as_table(X).n
    if times > 1 and settings.budget is not None:
        settings = replace(settings, budget=ceil(settings.budget / times))
    some = check_request(model, X, y, loss, settings, options)
    request = replace(some, task=restored(some.task))
    task, (way, _) = request.task, choose(request, times)
    least, most = way.predictions(request)
    batch, threads = min(least, task.engine.rows_a_call(task.n)), 0
    predicted = times if way.by_model else 1.0  # an exact engine is compared with the model on some rows
    seconds = time.thread_time() - started  # the call begins with the same
    if way.by_model:
        with here():
            timed = task.engine.timed(batch, allowed(TIMED))
            if isinstance(way, Walks):
                (rows, beside), calls = _walks(request, timed), 0
            else:
                rows, beside, calls = most, *_coalitions(request, way, timed)
        threads, predicting = spread(task, timed.seconds(max(calls, ceil(rows / batch)), rows), rows)
        seconds += beside + predicting
    else:
        seconds += _on_few_rows(request, way, (model, X, y, loss, options), times)
    return Plan(
        features=tuple(player.feature.name for player in request.players),
        engines=(engine_name(request, way),) * request.p,
        way=way.words,
        exact=way.exact and request.all_pairs,
        n_predictions=int(least * predicted),
        most=int(most * predicted),
        calls=ceil(least * predicted / batch),
        memory=int(times * way.kept_bytes(request) + batch * (task.table.row_bytes + 64)),
        seconds=times * seconds,
        backend=task.table.backend,
        workers=threads,
    )


def plan_effects(request: EffectRequest, started: float, n: int, design: Design | None, explained: float) -> Plan:
    """The cost of `shapley_effect` with n rows in X, whose preparation began at `started`; X may hold some of them.

    The way itself runs on more and more of the rows to explain, with a stand-in for the model. `design` is that of all
    rows, where X has too few; there are `explained` times as many rows to explain as in the request.
    """
    task, r, p = request.task, int(explained * len(request.rows)), len(request.players)
    design = design or task.design
    donors = n if design is None or design.all_pairs else design.m or n
    times = explained * max(1.0, donors / len(request.donors))
    way, count = choose_effects(request, times)
    by_model, walks = way in (by_coalitions, by_walks), way is by_walks
    seconds, threads, batch = max(1.0, n / task.n) * (time.thread_time() - started), 0, 1
    least = most = min(n, CHECKED)
    small, sweeps = request, 0
    if by_model:
        batch = task.engine.rows_a_call(task.n)
        with here():
            timed = task.engine.timed(batch, allowed(TIMED))
            fewest, sweeps = _effect_sweeps(request, timed) if walks else (0, 0)
        unchanged = max(n, task.n)
        steps = explained * request.steps
        least, most = (unchanged + (int(many * steps) if walks else count - r) for many in (fewest, sweeps))
        threads, predicting = spread(task, timed.seconds(ceil(most / batch), most), most)
        seconds += predicting
        if walks and request.budget is None:
            most = MOST_PREDICTIONS
        engine = replace(task.engine, respond=StandIn(timed.predictions), repeats=Repeats(watches=False))
        small = replace(request, task=replace(task, engine=engine))
    lent, of_rows = _explained(small, way, sweeps)
    if way is in_closed_form:  # rows and donors are handled one after the other, not in pairs
        seconds += times / explained * lent + explained * of_rows
    else:
        seconds += (explained if walks else times) * (lent + of_rows)
    return Plan(
        features=tuple(player.feature.name for player in request.players),
        engines=(task.engine.name if by_model else task.exact.name,) * p,
        way="walks" if walks else "all coalitions, by the model" if by_model else "by the engine",
        exact=not walks,
        n_predictions=int(least),
        most=int(most),
        calls=ceil(least / batch) if by_model else 1,
        memory=8 * r * p + batch * (task.table.row_bytes + 64),
        seconds=seconds,
        backend=task.table.backend,
        workers=threads,
    )


def _explained(request: EffectRequest, way: Any, sweeps: int) -> tuple[float, float]:
    """Seconds whatever the number of rows to explain, and those of all rows in proportion to them, from some."""
    r, seen, began = len(request.rows), [], time.perf_counter()
    rows, task = min(len(request.rows), FEW_EXPLAINED), replace(request.task, progress=False)
    while True:
        some = replace(request, rows=request.rows[np.linspace(0, r - 1, rows).astype(np.intp)], task=task)
        if way is by_walks:  # as many as in the call
            some = replace(some, budget=task.n + max(2, sweeps) * some.steps)
        started = time.thread_time()
        explain_by(way, rows, some)
        seen.append((np.array([1.0, rows]), time.thread_time() - started))
        if rows == r or time.perf_counter() - began + 4 * seen[-1][1] > allowed(REHEARSED):
            fixed, each = fitted_rates(seen)
            return float(fixed), float(r * each)
        rows = min(r, 4 * rows)


def _effect_sweeps(request: EffectRequest, model: CallTime) -> tuple[int, int]:
    """The fewest sweeps of walks, and those that a trial with the model on few rows says are needed."""
    if request.budget is not None:
        return ((request.budget - request.task.n) // max(1, request.steps),) * 2
    fewest, a_row = FIRST_EFFECT_SWEEPS, request.steps / len(request.rows)
    affordable = (allowed(TRIED_SECONDS) - model.seconds(1, request.task.n)) / (model.row * a_row * fewest + 1e-12)
    rows = int(min(len(request.rows), TRIED, TRIED_STEPS / (a_row * fewest), affordable))
    if rows < FEW_EXPLAINED:
        return fewest, fewest
    few = replace(request, rows=request.rows[:rows], task=replace(request.task, progress=False))
    walk = effect_walk(few, set_up(of_one_number(few), None, silent))
    sweeps = walk.sweeps(fewest)
    while (noise := walk.noise(sweeps)) > 4 and 4 * len(sweeps) * few.steps < TRIED_STEPS:  # as in the call
        sweeps += walk.sweeps(3 * len(sweeps))
    return fewest, int(len(sweeps) * noise)


def plan_score_shares(
    model: Model, X: Any, y: Any, scorer: Any, settings: ShapleySettings, options: Options, started: float, n: int,
    restored: Callable[[Task], Task],
) -> Plan:  # fmt: skip
    """The cost of `shapley_importance` of n rows by a scorer, as in `plan_shares`.

    The scorer is timed on all of X; some coalitions are predicted on few rows, with a stand-in for the model.
    """
    request = check_scores(model, X, y, scorer, settings, options, n, restored)
    task, method, exact, p = request.task, request.method, request.exact, len(request.task.subjects)
    m = donors_a_row(task, n)
    coalitions = coalition_count(p), coalition_count(p)
    if not request.by_coalitions:
        left = 0 if settings.budget is None else settings.budget - n - method.probed
        most = MAX_ROUNDS if settings.budget is None else max(1, left // (p * (p - 1) * n * m))
        coalitions = _along_circles(p, min(MIN_ROUNDS, most)), _along_circles(p, most)
    mixed = [int(count - 2) * n * m for count in coalitions]  # rows
    least, most = (n + method.probed + rows for rows in mixed)
    if exact is not None:
        least = most = min(n, CHECKED) + method.probed
    batch = min(least, task.engine.rows_a_call(n))
    seconds = n / task.n * (time.thread_time() - started)
    with here():
        timed = task.engine.timed(batch, allowed(TIMED))
        few = thinned(task, int(min(task.n, PAIRS**0.5)), StandIn(timed.predictions))
        if task.design is not None and not task.design.all_pairs and m > few.n:
            drawn: Any = task.design
            few = replace(few, design=replace(drawn, m=few.n))
        at_once = replace(method, judge=ReplayedScore(lambda *_: 0.0), weight=None)
        game = score_game(few, set_up(few, None, silent), at_once, exact=exact is not None)
        gathering = seconds_a_coalition(game.pairs.setup, game, allowed(REHEARSED / 2))[0] * n * m / game.donors.size
    each, a_row = scorer_seconds(method, task, timed)
    scoring = each + n * a_row
    threads, predicting = spread(task, timed.seconds(ceil(least / batch), least), least)
    if exact is not None:
        predicting += mixed[0] * _seconds_a_mixed_row(exact, task)
    return Plan(
        features=tuple(player.feature.name for player in task.subjects),
        engines=((task.engine if exact is None else exact).name,) * p,
        way=f"all coalitions{', by the model' * (exact is None)}" if request.by_coalitions else "orders",
        exact=request.by_coalitions and m == n,
        n_predictions=least,
        most=most,
        calls=ceil(least / batch),
        memory=16 * n * m + batch * (task.table.row_bytes + 64),
        seconds=seconds + coalitions[0] * (gathering + m * scoring) + predicting,
        backend=task.table.backend,
        workers=threads,
    )


def _seconds_a_mixed_row(exact: ExactEngine, task: Task) -> float:
    """Seconds in which an exact engine predicts a row of mixed values: of some rows, the second time."""
    source = np.repeat(task.every[:MIXED_ROWS, None], len(task.table.names), axis=1)
    source[:, 0] = source[::-1, 0]
    for _ in range(2):
        began = time.thread_time()
        exact.predict(source)
        took = time.thread_time() - began
    return took / len(source)


def _along_circles(p: int, rounds: int) -> float:
    """Different coalitions, about, along so many random circles of orders, each with p of every size between."""
    sizes = [comb(p, s) for s in range(1, p)]
    return 2 + sum(count * (1 - (1 - min(1.0, p / count)) ** rounds) for count in sizes)


# By the model.


def _walks(request: Request, model: CallTime) -> tuple[int, float]:
    """Predictions of walks until they are precise, and seconds beside the model, as far as few rows tell."""
    least, most = WALKS.predictions(request)
    first = max(1, (least - request.n) // WALKS.predictions_a_sweep(request))
    rows = min(TRIED, request.n, max(2, int(TRIED_STEPS * request.n / (least - request.n))))
    affordable = model.call + (least - request.n) * rows / request.n * model.row < allowed(TRIED_SECONDS)
    some, few = request, _few(request, rows, model)
    if request.p > DECIDED_PLAYERS:  # decisions about all of them take too long, in proportion to their number
        players = request.players[:: ceil(request.p / DECIDED_PLAYERS)]
        some = replace(request, task=replace(request.task, subjects=players))
        few = _few(some, rows, model)
    if least < most and affordable:  # the model itself shows how many are needed
        respond = request.task.engine.respond
        few = replace(few, task=replace(few.task, engine=replace(few.task.engine, respond=respond)))
    walk = _few_walks(few, first)
    sweeps = walk.sweeps(min(first, MOST_SWEEPS))
    deciding, needed = _decision(walk, sweeps)
    if request.settings.precision is not None:
        needed = ceil(needed * rows / request.n)  # the variance of a sweep falls as 1/n, the precision does not
    if not affordable or needed <= first or least == most:
        needed = first
    growth = DECIDED * deciding / rows
    if deciding < allowed(REHEARSED / 4) and few.n < request.n:  # a second time, on more rows
        more = _few_walks(_few(some, min(request.n, 4 * rows), model), first)
        growth = max(0.0, _decision(more, more.sweeps(min(first, MOST_SWEEPS)))[0] - deciding) / (more.setup.n - rows)
    deciding = (deciding + growth * (request.n - rows)) * request.p / some.p
    steps = (least - request.n) / first * needed
    decisions = 1.5 + (needed > first)  # with the last summary, half of one
    return int(min(most, request.n + steps)), decisions * deciding + steps * _step(request, model, rows)


def _few_walks(few: Request, first: int) -> Any:
    """Walks without a budget."""
    few = replace(few, settings=replace(few.settings, budget=None))
    walk: Any = replace(WALKS.walk(few, set_up(few.task, None, silent)), fewest=first)
    try:
        walk.half_width  # noqa: B018 - of few rows the total may not be clearly different from 0
    except ValueError:
        walk = replace(walk, rule=replace(walk.rule, precision=None))
    return walk


def _decision(walk: Any, sweeps: list[Any]) -> tuple[float, int]:
    """Seconds of a stopping decision, and how many sweeps it says are needed."""
    started = time.thread_time()
    needed = walk.sweeps_needed(sweeps)
    return time.thread_time() - started, needed


def _step(request: Request, model: CallTime, rows: int) -> float:
    """Seconds of a step of a walk, beside its prediction."""
    while True:
        walk = _few_walks(_few(request, rows, model), 1)
        started = time.thread_time()
        walk.sweeps(1)
        took = time.thread_time() - started
        if took > allowed(REHEARSED / 8) or rows == request.n:
            return float(took / max(1, walk.cost))
        rows = min(request.n, 4 * rows)


def _coalitions(request: Request, way: Way, model: CallTime) -> tuple[float, int]:
    """Seconds beside the model, and how often it is called at least."""
    coalitions = way.coalitions(request)
    rows_a_coalition = way.predictions(request)[1] / coalitions
    few = _few(request, int(request.n * min(1.0, (PAIRS / rows_a_coalition) ** 0.5)), model)
    setup = set_up(few.task, None, silent)
    game = way.game(few, setup)
    assert game is not None  # it has coalitions
    stand_in: Any = few.task.engine.respond
    stand_in.asked.clear()
    conditional = request.task.design is not None and request.task.design.conditional
    # Values are drawn for each column that is not kept, or predictions shared with the complement: a coalition and its
    # complement together take the mean time.
    seconds, done = seconds_a_coalition(setup, game, allowed(REHEARSED / 2), 1 + (conditional or request.mirrors))
    more = max(1.0, way.predictions(request)[1] / way.predictions(few)[1])
    return coalitions * seconds * more, int(coalitions * len(stand_in.asked) / done)


def _few(request: Request, rows: int, model: CallTime) -> Request:
    """The same request on few rows, with a stand-in for the model and no more donors than there are rows."""
    task, design = thinned(request.task, rows, StandIn(model.predictions)), request.task.design
    if design is not None and not design.conditional and (design.m or 0) >= task.n:
        drawn: Any = design
        task = replace(task, design=replace(drawn, m=task.n - 1))
    return replace(request, task=task)


# By an exact engine.


def _on_few_rows(request: Request, way: Way, call: tuple[Any, Any, Any, Any, Options], times: float) -> float:
    """Seconds of the same way on more and more rows, in proportion to rows, kept pairs, groups and operations.

    There are `times` as many rows, by which the caller multiplies: what every call takes is divided by it.
    """
    model, X, y, loss, options = call
    table, n, block = as_table(X), request.n, request.task.sample.block
    y = checks.vector(y, n, "y", table.index)
    keeps, began, rate = way.rows and request.keeps_pairs(n), time.perf_counter(), rates.SECONDS.get(way.name, 0.0)
    seen: list[tuple[Any, float]] = []

    def work(some: Request) -> Any:
        amount = way.cost(some)
        assert amount is not None  # it applies to all rows
        groups = 0 if some.task.sample.block is None else some.task.sample.units()
        return np.array([1.0, some.n * some.p, some.n**2 * some.p * keeps, groups, amount.amount])

    rows = min(n, ROWS if way.rows else int(np.clip(REHEARSED_WORK * n / max(1.0, work(request)[-1]), ROWS, MOST_ROWS)))

    while True:
        at = np.unique(np.linspace(0, n - 1, rows).astype(np.intp))
        weight = request.task.sample.weight[at]
        groups = None if block is None else block[at]
        options = replace(options, sample_weight=weight if weight.any() else None, groups=groups, progress=False)
        small = check_request(model, table.at(at), y[at], loss, request.settings, options)
        if not seen and rate * work(small)[-1] > allowed(REHEARSED):  # even few rows take too long
            return float(rate * work(request)[-1])
        if way.rows and not keeps:
            small = replace(small, task=replace(small.task, budget=replace(small.task.budget, memory=0)))
        started = time.thread_time()
        result_by(way, small)
        took = time.thread_time() - started
        seen.append((work(small), took))
        if small.n == n or time.perf_counter() - began + GROWTH**2 * took > allowed(REHEARSED):
            break
        rows = min(n, GROWTH * rows)
    return float(work(request) / [times, 1, 1, 1, 1] @ fitted_rates(seen))
