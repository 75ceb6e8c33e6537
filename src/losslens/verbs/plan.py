"""`plan`: what a call of a verb takes, before it is made: counts of the functions that run, and rehearsed seconds."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from math import ceil
from typing import Any
from warnings import catch_warnings

import numpy as np

from losslens.donors.conditional import BoundSampler
from losslens.donors.designs import Latin
from losslens.donors.questions import pose
from losslens.engines import rates
from losslens.engines.base import coalition_count
from losslens.engines.choice import CHECKED
from losslens.losses import Loss, OutputsLoss, is_scorer, names_of
from losslens.models import Model, as_model, one_output
from losslens.passes import in_common, ways
from losslens.passes.counts import DRAWING, Count, count, count_importances, more_donors
from losslens.passes.parts import call
from losslens.passes.rehearsal import FEW, WITHIN, Arguments, Rehearsal, rehearse, some_rows
from losslens.passes.scored import check_budget, curves_besides, prepare_scored, scored_features
from losslens.passes.task import Options, Task, default_loss, effect_of, picked, prepare
from losslens.passes.ways import design_of
from losslens.progress import silent
from losslens.refits.learner import Learner
from losslens.refits.learner import learner as checked_learner
from losslens.refits.leave_out import as_estimator, leave_out_fits
from losslens.results.plan import Plan, Stage
from losslens.rows.segments import MOST_ROWS
from losslens.shapley.conditional import drawn_coalitions
from losslens.shapley.effects import by_coalitions, by_walks, explain_by
from losslens.shapley.effects import choose as choose_effects
from losslens.shapley.request import check_request
from losslens.shapley.scores import MAX_ROUNDS, MIN_ROUNDS, check_scores, donors_a_row, score_shapley
from losslens.shapley.stopping import MOST_PREDICTIONS, ShapleySettings
from losslens.shapley.walk_kinds import FIRST_EFFECT_SWEEPS
from losslens.shapley.ways import CONDITIONAL, choose, engine_name, result_by
from losslens.tables import checks, loading
from losslens.tables.features import resolve
from losslens.tables.frames import as_table
from losslens.tables.sources import as_source
from losslens.verbs.compare import checked_cases, compare, options_of_each
from losslens.verbs.conditional import checked_task, conditional_predictive_impact
from losslens.verbs.features import feature_effect, feature_importance
from losslens.verbs.interactions import pair_interactions, wanted_pairs
from losslens.verbs.refits import (
    check_how,
    feature_importance_cv,
    leave_one_covariate_out,
    permuted_target_test,
    shapley_importance_cv,
)
from losslens.verbs.report import affordable_pairs, checked_report, report
from losslens.verbs.segments import checked_segments, weak_segments
from losslens.verbs.shapley import checked_effects, shapley_effect, shapley_importance
from losslens.verbs.time_blocks import time_blocks
from losslens.workers import active, here, with_executor

SOME_PAIRS, SOME_PLAYERS = 40, 4  # that are rehearsed
PILOT_ROWS = 200  # that show how many donors a row needs
PAGE = {"report": 0.5, "feature": 0.1, "value": 1e-4}  # seconds of a page, of a feature, and of a row of a feature
PAGE_ROWS = 2000  # rows beyond which the page takes no longer

OnFew = Callable[[int], Callable[[], Any]]  # a call on so many of its rows


def plan(verb: Callable[..., Any], model: Any, X: Any, y: Any = None, **options: Any) -> Plan:
    """What a call of a verb takes: predictions, fits, calls of the model, memory, and about how many seconds.

    Engine, design, predictions and rows kept are counted by the functions that the call runs. Seconds are those of
    the same call on more and more of its rows, for a third of a second or so, and of a slow model those of a batch of
    predictions: expect the right order of magnitude, not more. Of data that would be read in parts, only the metadata
    and the first rows are read. A learner is fitted on some of the rows.

    Parameters
    ----------
    verb
        Any verb that takes a model or an estimator, such as `losslens.shapley_importance`, `losslens.report` or
        `losslens.feature_importance_cv`; `time_blocks` predicts nothing, and has no plan.
    model, X, y, options
        The arguments of that verb, `executor` included; for `shapley_effect` the rows in place of `y`.

    Examples
    --------
    >>> import numpy as np, losslens as ll
    >>> X = np.arange(20.0).reshape(10, 2)
    >>> ll.plan(ll.feature_effect, lambda X: X[:, 0], X).n_predictions
    190
    """
    if not callable(verb) or verb not in PLANNED:
        raise ValueError(_refusal(verb))
    return _planned(model, X, y, verb, **_arguments(verb, y, options))


def _refusal(verb: Any) -> str:
    if verb is time_blocks:
        return "time_blocks makes no predictions: there is nothing to plan"
    names = ", ".join(one.__name__ for one in PLANNED)
    return f"the first argument of plan is one of {names}; got {verb!r}"


def _arguments(verb: Callable[..., Any], y: Any, options: Arguments) -> Arguments:
    """All arguments of the verb beside model, X and y, with their defaults."""
    parameters = dict(inspect.signature(verb).parameters)
    if parameters.pop("options", None):  # those of `feature_importance`
        parameters = dict(inspect.signature(feature_importance).parameters) | parameters
    named = dict(list(parameters.items())[2:])
    if "rows" in named and named["rows"].default is inspect.Parameter.empty and y is not None:
        options = {"rows": y} | options
    named.pop("y", None)
    if unknown := options.keys() - named.keys():
        raise TypeError(f"{verb.__name__} has no argument {min(unknown)!r}")
    given = {name: parameter.default for name, parameter in named.items()} | options
    if missing := [name for name, value in given.items() if value is inspect.Parameter.empty]:
        raise TypeError(f"{verb.__name__} needs the argument {missing[0]!r}: pass {missing[0]}=")
    return {"executor": None} | given


@with_executor
def _planned(model: Any, X: Any, y: Any, verb: Callable[..., Any], *, executor: Any, **arguments: Any) -> Plan:
    """The plan; on the cluster of `executor` whatever predicts, fits or reads files there, and what is faster so."""
    plan, cluster = PLANNED[verb](model, X, y, arguments), active()
    if cluster is None or plan.workers:
        return plan
    tasks = plan.fits or ceil((plan.calls or 1) / cluster.grain)
    seconds = rates.on_a_cluster(plan.seconds, max(1, tasks), cluster.threads, 8 * plan.n_predictions)
    if plan.fits or plan.n_predictions > CHECKED or seconds < plan.seconds:
        plan = replace(plan, workers=cluster.threads, seconds=seconds)
    return plan


# One model on one table. Every planner takes the arguments of its verb, and seconds for its rehearsals.


def _importances(model: Any, X: Any, y: Any, given: Arguments, within: float = WITHIN) -> Plan:
    if isinstance(given["loss"], (list, tuple)):
        return _by_loss(_importances, model, X, y, given)
    known, options = as_model(model), picked(Options, given)
    if is_scorer(loss := given["loss"]):
        return _scores(known, X, y, given, within)
    chosen = default_loss(known, loss, y)
    if (plan := _by_output(_importances, known, X, y, chosen, given, within)) is not None:
        return plan
    X, y, given, data = _data(known, X, y, given)
    if data is not None:
        return _in_parts(call.importance_stream(known, data, chosen, options), data, call.summed)
    task = prepare(known, X, y, picked(Options, given), loss=chosen, response=chosen.reads)
    run = partial(_on_few, feature_importance, model, task, y)
    if not isinstance(task.design, BoundSampler):
        pilot = run(given | {"donors": Latin(ways.FIRST_DRAW)})
        return _of_cells(task, count_importances(task), run(given), within, pilot=pilot)
    each = _of_one(task, run(given | {"features": _first(task, 1)}), task.design.draws, within)
    counted = count_importances(task, draws=each < DRAWING)  # slow samplers draw for no count
    return _cells_plan(task, counted, len(task.subjects) * each)


def _by_loss(plan: Callable[..., Plan], model: Any, X: Any, y: Any, given: Arguments) -> Plan:
    """The plans with each of several losses; where they share predictions, an upper bound."""
    named = names_of(given["loss"])
    parts = _PlansTogether(len(named))
    for name, one in named.items():
        parts.add(name, partial(plan, model, X, y, given | {"loss": one}))
    return parts.together(memory=sum(one.memory for one in parts.plans), upper=True)


def _scores(known: Model, X: Any, y: Any, given: Arguments, within: float) -> Plan:
    """Predictions of the design, of the grid of a sampled feature's curve, and those that the scorer reads first."""
    method, task = prepare_scored(known, X, y, given["loss"], picked(Options, given))
    asked = scored_features(task, method)
    on_grid = curves_besides(task, asked)
    check_budget(task, [pose(*one, task.n, task.entropy) for one in (*asked, *on_grid)])
    counted = count(task, asked)
    counted = counted.with_curves(count(task, on_grid)) if on_grid else counted
    counted = replace(counted, checked=counted.checked + method.probed)
    some = _first(task, SOME_PLAYERS)
    run, times = _on_few(feature_importance, known.native, task, y, given | {"features": some}), len(asked) / len(some)
    return _of_cells(task, counted, run, within, times=times, by_rows=True)  # the scorer takes longer than predictions


def _by_output(
    plan: Callable[..., Plan], known: Model, X: Any, y: Any, loss: Loss, given: Arguments, within: float
) -> Plan | None:
    """The plan of a mean over outputs that engines compute one after another; None where the model is asked."""
    if not isinstance(loss, OutputsLoss) or not loss.each:
        return None
    of_one, times = y if checks.output_names(y) is None else np.asarray(y)[:, 0], len(loss.outputs)
    first = plan(one_output(known, 0, times), X, of_one, given | {"loss": loss.each[0]}, within)
    if any(first.predictions or ()) or first.n_predictions > CHECKED:  # an engine is compared with the model on some
        return None
    return replace(
        first, n_predictions=times * first.n_predictions, calls=times * (first.calls or 0),
        memory=times * first.memory, seconds=times * first.seconds,
    )  # fmt: skip


def _effects(model: Any, X: Any, y: Any, given: Arguments) -> Plan:
    known, response = effect_of(as_model(model), given["target"])
    X, _, given, data = _data(known, X, None, given)
    if data is not None:
        stream = call.effect_stream(known, data, response, given["target"], picked(Options, given))
        return _in_parts(stream, data, call.summed)
    task = prepare(known, X, None, picked(Options, given), loss=None, response=response)
    counted = count(task, [(s, design_of(task, s, ways.effect_design)) for s in task.subjects])
    return _of_cells(task, counted, _on_few(feature_effect, model, task, None, given), WITHIN)


def _pairs(model: Any, X: Any, y: Any, given: Arguments, within: float = WITHIN) -> Plan:
    table, known = as_table(X), as_model(model)
    wanted = wanted_pairs(table, given["features"], given["pairs"])
    every = given | {"features": wanted.features}
    if is_scorer(given["loss"]):
        return _scores(known, table, y, every, within)
    chosen, pairs = default_loss(known, given["loss"], y), list(wanted.together)
    task = in_common.by_cells(prepare(known, table, y, picked(Options, every), loss=chosen, response=chosen.reads))
    counted = count_importances(task)
    if counted.grows:  # the pairs have a fixed number of donors
        counted = count_importances(replace(task, design=Latin(ways.FIXED_DONORS)))
    some = pairs[:: ceil(len(pairs) / SOME_PAIRS)]
    run, times = _on_few(pair_interactions, model, task, y, given | {"pairs": some}), len(pairs) / len(some)
    return _of_cells(task, counted, run, within, times=1.0 if counted.by_model else times)


def _conditional(model: Any, X: Any, y: Any, given: Arguments) -> Plan:
    sampler, draws = given["sampler"], given["draws"]
    task = checked_task(model, X, y, sampler, given["loss"], draws, picked(Options, given))
    p, n, words = len(task.subjects), task.n, f"{sampler!r}, {draws} draw{'s' * (draws != 1)}"
    run = _on_few(conditional_predictive_impact, model, task, y, given | {"features": _first(task, 1)})
    total = n * (1 + draws * p)
    seconds = p * _of_one(task, run, draws, WITHIN)
    calls = ceil(n / task.engine.rows_a_call(n)) * (1 + draws * p)  # each feature and draw has its own
    counts = _batches(task, total, kept=8 * n * (p + 3 * draws)) | {"calls": calls}
    return _plan(
        task, seconds, designs=(words,) * p, predictions=(n * draws,) * p, kept=n, complete=True, grows=(), **counts
    )


def _weak_segments(model: Any, X: Any, y: Any, given: Arguments) -> Plan:
    """Every row is predicted once, and some of them are searched."""
    task = checked_segments(model, X, y, given["loss"], given["level"], given["depth"], picked(Options, given))
    run, searched = _on_few(weak_segments, model, task, y, given), min(task.n, 2 * MOST_ROWS)
    seconds = _seconds(task, task.n, lambda rows: _share(run(rows), rows / searched), WITHIN, searched)
    return _plan(
        task, seconds, way="found on one half, judged on the other", exact=False,
        **_batches(task, task.n, kept=task.n * (8 * (len(task.subjects) + 6) + 64)),
    )  # fmt: skip


# What they share.


def _data(known: Model, X: Any, y: Any, given: Arguments) -> tuple[Any, Any, Arguments, loading.Opened | None]:
    """X, y and the arguments, of data in memory; or the data, if they are read in parts."""
    if (source := as_source(X)) is None:
        return X, y, given, None
    data = loading.opened(known, source, y, given["sample_weight"])
    if loading.streams(data, checks.memory_bytes(given["memory"])):
        return source, y, given, data
    X, y, weight = data.load()
    return X, y, given | {"sample_weight": weight}, None


def _in_parts(stream: Any, data: loading.Opened, run: Callable[..., Any]) -> Plan:
    from losslens.passes.parts.counts import plan_stream  # imports compiled engines

    return plan_stream(stream, data, run)


def _on_few(verb: Callable[..., Any], model: Any, task: Task, y: Any, given: Arguments) -> OnFew:
    """The call on some of its rows."""

    def prepared(rows: int) -> Callable[[], Any]:
        X, some, arguments = some_rows(task.table, y, given, rows)
        return partial(verb, model, X, *([] if y is None else [some]), **arguments)

    return prepared


def _share(call: Callable[[], Any], share: float) -> Rehearsal:
    """A rehearsal that is a fixed share of the work."""
    return lambda: share if call() is not None else 0.0


def _first(task: Task, count: int) -> dict[str, list[Any]]:
    """Some features, which stand for all."""
    labels = task.table.labels
    return {s.feature.name: [labels[j] for j in s.feature.columns] for s in task.subjects[:count]}


def _of_cells(
    task: Task, counted: Count, run: OnFew, within: float, *, times: float = 1.0, by_rows: bool = False,
    pilot: OnFew | None = None,
) -> Plan:  # fmt: skip
    """The plan of importances or effects; the work is in proportion to predictions or cells, or to rows.

    times: how many times the features of `run` there are. pilot: the call with the first donors of features that grow;
    few rows show how many more are needed, and would all be donors otherwise.
    """
    cells = any(r.way == "cells" and d.all_pairs for r, (_, d) in zip(counted.routes, counted.asked, strict=True))
    power, expected = 1 + (cells and not by_rows), counted.expected()
    piloted = PILOT_ROWS * (1 + ways.FIRST_DRAW * len(counted.asked))
    if counted.grows and pilot is not None:
        run = pilot
        if _model_seconds(task, piloted, within / 2)[0] < within:
            with here(), catch_warnings(action="ignore"):  # about few rows
                expected = counted.expected(more_donors(pilot(min(task.n, PILOT_ROWS))().values()))

    def share(rows: int) -> Rehearsal:
        call = run(rows)
        if counted.by_model and not by_rows:
            return lambda: call().n_predictions / expected
        return _share(call, (rows / task.n) ** power)

    seconds = times * _seconds(task, int(expected * counted.by_model / times), share, within)
    return _cells_plan(task, counted, seconds)


def _cells_plan(task: Task, counted: Count, seconds: float) -> Plan:
    return Plan(
        features=counted.features, engines=tuple(r.label for r in counted.routes), calls=counted.calls,
        designs=tuple(repr(design) for _, design in counted.asked), predictions=counted.predictions,
        n_predictions=counted.n_predictions, upper=counted.upper, memory=counted.memory, kept=counted.kept,
        complete=counted.kept == task.n, grows=counted.grows, backend=task.table.backend,
        seconds=seconds,
    )  # fmt: skip


def _model_seconds(task: Task, predictions: int, within: float) -> tuple[float, float]:
    """Seconds of the model alone for so many predictions in full batches, and of a call of few rows."""
    batch = min(predictions, task.engine.rows_a_call(task.n))
    model = task.engine.timed(batch, within)
    return model.seconds(ceil(predictions / batch), predictions), model.call


def _seconds(task: Task, predictions: int, share: Callable[[int], Rehearsal], within: float, n: int = 0) -> float:
    """Seconds of a call in which the model predicts so many rows: of a slow model those of its calls alone."""
    n = n or task.n
    if predictions:
        seconds, call = _model_seconds(task, predictions, within)
        if max(call, seconds * min(1, FEW / n)) > within / 2:
            return seconds
    return rehearse(share, n, within)


def _of_one(task: Task, run: OnFew, draws: int, within: float) -> float:
    """Seconds of a call with one feature, for each of whose rows a sampler draws so many values."""
    return _seconds(task, task.n * (1 + draws), lambda rows: _share(run(rows), rows / task.n), within)


def _plan(task: Task, seconds: float, **named: Any) -> Plan:
    names = tuple(subject.feature.name for subject in task.subjects)
    shared = {"features": names, "engines": (task.engine.name,) * len(names), "backend": task.table.backend}
    return Plan(**shared | named, seconds=seconds)


def _batches(task: Task, least: int, most: int | None = None, kept: int = 0) -> Arguments:
    """Predictions, calls of full batches, and bytes of a batch and of what is kept."""
    batch = max(1, min(least, task.engine.rows_a_call(task.n)))
    memory = kept + batch * (task.table.row_bytes + 64)
    return {"n_predictions": least, "most": most, "calls": ceil(least / batch), "memory": memory}


# Shapley values.


def _shares(model: Any, X: Any, y: Any, given: Arguments, within: float = WITHIN) -> Plan:
    if isinstance(loss := given["loss"], (list, tuple)):
        return _by_loss(_shares, model, X, y, given)
    known, settings = as_model(model), picked(ShapleySettings, given)
    if is_scorer(loss):
        return _score_shares(known, X, y, given, settings, within)
    chosen = default_loss(known, loss, y)
    if (plan := _by_output(_shares, known, X, y, chosen, given, within)) is not None:
        return plan
    X, y, given, data = _data(known, X, y, given)
    if data is not None:
        from losslens.shapley import parts  # imports compiled engines

        return _in_parts(parts.share_stream(known, data, chosen, settings, picked(Options, given)), data, parts.run)
    request = check_request(known, X, y, loss, settings, picked(Options, given))
    task, (way, cost) = request.task, choose(request)
    (least, most), times = way.predictions(request), 1.0
    if way is CONDITIONAL:  # of two players the sampler draws one in each of two coalitions, of all half in each
        times = max(1.0, drawn_coalitions(request) * request.p / 4)
        given = given | {"features": _first(task, 2)}

    def share(rows: int) -> Rehearsal:
        return partial(of_few, rows, *some_rows(task.table, y, given, rows))

    def of_few(rows: int, X: Any, some: Any, arguments: Arguments) -> float:
        budget = None if settings.budget is None else max(20 * rows * request.p, settings.budget * rows // task.n)
        few = check_request(known, X, some, loss, replace(settings, budget=budget), picked(Options, arguments))
        if way.pairs and not (way.by_model or request.keeps_pairs(task.n)):  # those of few rows would fit
            few = replace(few, task=replace(few.task, budget=replace(few.task.budget, memory=0)))
        predicted = result_by(way, few).n_predictions
        if not way.by_model or way is CONDITIONAL:
            smaller = None if way is CONDITIONAL else way.cost(few)
            return smaller.amount / cost.amount if smaller is not None and cost.amount else rows / task.n
        if most == least:
            return predicted / least
        # As many sweeps for all rows, or as many predictions if these are to reach a precision. If the fewest sweeps
        # were enough, of which few rows have more, something between.
        needed = max(least, min(most, predicted * (1 if settings.precision else task.n / rows)))
        fewest = predicted <= 1.05 * way.predictions(few)[0]
        return predicted / ((least * needed) ** 0.5 if fewest else needed)

    return _plan(
        task, times * _seconds(task, int(least * way.by_model / times), share, within), way=way.words,
        engines=(engine_name(request, way),) * request.p, exact=way.exact and request.all_pairs,
        **_batches(task, least, most, way.kept_bytes(request)),
    )  # fmt: skip


def _score_shares(known: Model, X: Any, y: Any, given: Arguments, settings: ShapleySettings, within: float) -> Plan:
    """All coalitions, or those along orders: at most as many different ones as the orders pass."""
    request = check_scores(known, X, y, given["loss"], settings, picked(Options, given))
    task, probed, exact = request.task, request.method.probed, request.exact
    p, n = len(task.subjects), task.n
    m, least, a_round = donors_a_row(task, n), coalition_count(p) - 2, max(1, p * (p - 1))
    most, q = least, min(p, SOME_PLAYERS)  # which stand for all
    times = coalition_count(p) / coalition_count(q)
    if not request.by_coalitions:
        left = np.inf if settings.budget is None else (settings.budget - n - probed) // (a_round * n * m)
        least, most = (min(least, a_round * max(1, min(many, left))) for many in (MIN_ROUNDS, MAX_ROUNDS))
        times = a_round / max(1, q * (q - 1))
    least, most = (int(n + probed + many * n * m) for many in (least, most))
    if exact is not None:
        least = most = min(n, CHECKED) + probed

    def share(rows: int) -> Rehearsal:
        X, some, arguments = some_rows(task.table, y, given | {"features": _first(task, q)}, rows)
        budget = rows + probed + MIN_ROUNDS * q * (q - 1) * rows * donors_a_row(task, rows)
        pinned = replace(settings, method="exact", budget=None)
        if not request.by_coalitions:
            pinned = replace(settings, method="walk", budget=budget)
        call = partial(score_shapley, known, X, some, given["loss"], pinned, picked(Options, arguments))
        return _share(call, rows * donors_a_row(task, rows) / (n * m))

    way = f"all coalitions{', by the model' * (exact is None)}" if request.by_coalitions else "orders"
    return _plan(
        task, times * _seconds(task, int(least * (exact is None) / times), share, within),
        engines=((exact or task.engine).name,) * p, way=way, exact=request.by_coalitions and m == n,
        upper=not request.by_coalitions, **_batches(task, least, most, 16 * n * m),
    )  # fmt: skip


def _shapley_effects(model: Any, X: Any, y: Any, given: Arguments) -> Plan:
    rows, target, method, budget, weight = (given[k] for k in ("rows", "target", "method", "budget", "sample_weight"))
    options = picked(Options, given | {"sample_weight": None})
    started = time.perf_counter()
    request = checked_effects(model, X, rows, target, method, budget, weight, options)
    checking = time.perf_counter() - started
    task, r, (way, predictions) = request.task, len(request.rows), choose_effects(request)
    by_model, least = way in (by_coalitions, by_walks), min(task.n, CHECKED)
    least = most = task.n + predictions - r if by_model else least
    if way is by_walks:
        sweeps = FIRST_EFFECT_SWEEPS if request.budget is None else (request.budget - task.n) // max(1, request.steps)
        least = task.n + sweeps * request.steps
        most = MOST_PREDICTIONS if request.budget is None else least

    def share(rows: int) -> Rehearsal:
        at = request.rows[np.linspace(0, r - 1, rows).astype(np.intp)]
        budget = None if request.budget is None else task.n + (least - task.n) * rows // r
        few = replace(request, rows=at, row_labels=None, budget=budget, task=replace(task, progress=False))
        return _share(partial(explain_by, way, rows, few), rows / r)

    words = "walks" if way is by_walks else "all coalitions, by the model" if by_model else "by the engine"
    return _plan(
        task, checking + _seconds(task, least * by_model, share, WITHIN, r), way=words, exact=way is not by_walks,
        engines=((task.engine if by_model else task.exact).name,) * len(request.players),
        **_batches(task, least, most, 8 * r * len(request.players)),
    )  # fmt: skip


# Several plans together.


@dataclass(eq=False)
class _PlansTogether:
    """Plans that are made one after the other, each in its share of the time."""

    count: int
    stages: list[Stage] = field(default_factory=list)
    plans: list[Plan] = field(default_factory=list)

    def add(self, name: str, plan_of: Callable[..., Plan]) -> Plan:
        """The next plan."""
        plan = plan_of(within=WITHIN / max(1, self.count))
        self.plans.append(plan)
        self.stages.append(Stage(name, plan.seconds, plan.n_predictions, plan.calls or 0))
        return plan

    def together(self, **more: Any) -> Plan:
        """The plan of the whole call, with the features of the first."""
        first, n_predictions = self.plans[0], sum(stage.n_predictions for stage in self.stages)
        most = n_predictions + sum(max(0, (one.most or 0) - one.n_predictions) for one in self.plans)
        sums = {name: sum(getattr(stage, name) for stage in self.stages) for name in ("calls", "seconds")}
        upper = any(one.upper for one in self.plans) and most == n_predictions
        largest = max(one.memory for one in self.plans)
        fields = {"n_predictions": n_predictions, "most": most, "upper": upper, "memory": largest} | sums | more
        return replace(first, predictions=None, way=None, stages=tuple(self.stages), **fields)


def _compared(models: Any, X: Any, y: Any, given: Arguments) -> Plan:
    shapley = given["shapley"]
    cases, loss = checked_cases(models, X, y, given["loss"], shapley, given["sample_weight"], given["groups"])
    shared = picked(Options, given | {"sample_weight": None, "groups": None})
    parts = _PlansTogether(len(cases) * (1 + shapley))
    for name, case in cases.items():
        rows, options = (case.model, case.X, case.y), case.options(shared)
        alone = vars(options_of_each(options, len(cases))) | {"loss": loss}
        parts.add(f"{name}: importances", partial(_importances, *rows, alone))
        if shapley:
            parts.add(f"{name}: Shapley shares", partial(_shares, *rows, vars(options) | {"loss": loss}))
    return parts.together(memory=sum(one.memory for one in parts.plans))


def _reported(model: Any, X: Any, y: Any, given: Arguments) -> Plan:
    shapley, asked = given["shapley"], {name: given[name] for name in ("models", "loss", "by", "interactions", "rows")}
    models, data, most = checked_report(model, X, y, **asked, shapley=shapley, options=picked(Options, given))
    by_loss, by_score = (vars(data.options) | {"loss": loss} for loss in (data.loss, data.scorer))
    stages = [("importances", _importances, by_loss)]
    stages += [("importances by the score", _importances, by_score)] * (data.scorer is not None)
    stages += [("Shapley shares", _shares, by_loss)] * shapley
    parts = _PlansTogether(len(models) * len(stages) + 1)
    for stage, plan_of, arguments in stages:
        for name, each in models.items():
            parts.add(f"{name}: {stage}", partial(plan_of, each, data.X, data.y, arguments))
    table, first = as_table(data.X), parts.plans[0]
    named = resolve(data.options.features, table.labels, by_position=table.backend == "numpy")
    chosen = {one.name: [table.labels[j] for j in one.columns] for one in named[:most]}
    paired = affordable_pairs(model, data, chosen, first.n_predictions) if len(chosen) > 1 else None
    if paired is not None:
        pairs = partial(_pairs, model, data.X, data.y, by_loss | vars(paired) | {"pairs": None})
        parts.add("pairs of features", pairs)
    values = min(table.n, PAGE_ROWS) * PAGE["value"]
    parts.stages.append(Stage("the page", PAGE["report"] + len(first.features) * (PAGE["feature"] + values)))
    return parts.together()


# Learners.


def _refits(known: Learner, plan_of: Callable[..., Plan], given: Arguments, times: int = 1) -> Plan:
    """Fits and explanations of all folds, so many times, and of pairs; from fits on some rows, and the first fold."""
    parts, pairs, models = _PlansTogether(1), known.pairs, list[Any]()

    def fit(few: Learner) -> Any:
        models[:] = [few.fitted(few.splits[0][0], few.y)]
        classes = getattr(models[0], "classes_", None)
        if classes is not None and len(classes) < len(np.unique(few.y)):
            raise ValueError("these rows lack a class")
        return models

    trained, tested = ([len(pair[side]) for pair in known.splits] for side in (0, 1))
    rows = times * sum(trained) + sum(trained[first] - tested[second] for first, second in pairs)
    fits = times * len(trained) + len(pairs)
    parts.stages.append(Stage("fits", rows * _seconds_of_fits(known, fit), fits=fits))

    def explained(within: float) -> Plan:
        def explain(model: Any, X: Any, y: Any, options: Options) -> Plan:
            return plan_of(model, X, y, given | vars(options), within)

        with here():
            one: Plan = known.explained_by(models[0], 0, explain)
        folds = times * sum(tested) / tested[0] + 2 * len(pairs)  # a fit without a pair is explained on both
        folds = round(folds) if max(tested) - min(tested) <= 1 else folds
        counts: Arguments = {
            name: round(folds * (getattr(one, name) or 0)) for name in ("n_predictions", "calls", "most")
        }
        return replace(one, seconds=folds * one.seconds, **counts)

    parts.add("explanations", explained)
    return parts.together(fits=fits)


def _seconds_of_fits(known: Learner, fit: Callable[[Learner], Any]) -> float:
    """Seconds of a fit for each of its rows, from fits on more and more rows of the first fold."""
    train, test = known.splits[0]

    def share(rows: int) -> Rehearsal:
        some = train[np.unique(np.linspace(0, len(train) - 1, rows).astype(np.intp))]
        few = replace(known, splits=((some, test[:: max(1, len(train) // rows)]),))
        return _share(lambda: fit(few), rows / len(train))

    return rehearse(share, len(train), steep=True) / len(train)


def _learner(estimator: Any, X: Any, y: Any, given: Arguments) -> Learner:
    variance = given.get("variance", "corrected")
    return checked_learner(estimator, X, y, given["cv"], given["fit_params"], picked(Options, given), variance)


def _importances_cv(estimator: Any, X: Any, y: Any, given: Arguments) -> Plan:
    return _refits(_learner(estimator, X, y, given), _importances, {"loss": given["loss"]})


def _shares_cv(estimator: Any, X: Any, y: Any, given: Arguments) -> Plan:
    return _refits(_learner(estimator, X, y, given), _shares, given)


def _permuted_targets(estimator: Any, X: Any, y: Any, given: Arguments) -> Plan:
    checks.check_whole(given["permutations"], "permutations")
    known, times = _learner(estimator, X, y, given), 1 + given["permutations"]
    return _refits(known, _importances, {"loss": given["loss"]}, times)


def _left_out(estimator: Any, X: Any, y: Any, given: Arguments) -> Plan:
    """Fits, predictions and losses of the first fold, as often as there are folds and features, and one more."""
    check_how(given["how"])
    known = _learner(as_estimator(estimator), X, y, given)
    without = leave_out_fits(known, given["features"], given["how"], given["loss"])
    left, tested, table = without.left, without.tested, known.table

    def first(few: Learner) -> Any:
        """Of all tested rows as many are predicted as there are training rows of all of these."""
        train = few.splits[0][0]
        splits = ((train, tested[:: max(1, len(known.splits[0][0]) // len(train))]),)
        return replace(without, known=replace(few, splits=splits)).one((0, 0), silent)

    fits = (1 + len(left)) * len(known.splits)
    seconds = (1 + len(left)) * _seconds_of_fits(known, first) * sum(len(train) for train, _ in known.splits)
    stage = Stage("fits and predictions", seconds, fits * len(tested), fits, fits)
    return Plan(
        features=tuple(one.name for one in left), engines=("blackbox",) * len(left), n_predictions=fits * len(tested),
        calls=fits, memory=table.n * (8 * (2 + 4 * len(left)) + 2 * table.row_bytes), seconds=seconds, fits=fits,
        stages=(stage,), backend=table.backend,
    )  # fmt: skip


PLANNED: dict[Callable[..., Any], Callable[[Any, Any, Any, Arguments], Plan]] = {
    feature_importance: _importances, feature_effect: _effects, shapley_importance: _shares,
    shapley_effect: _shapley_effects, pair_interactions: _pairs, conditional_predictive_impact: _conditional,
    compare: _compared, report: _reported, weak_segments: _weak_segments,
    feature_importance_cv: _importances_cv, shapley_importance_cv: _shares_cv,
    permuted_target_test: _permuted_targets, leave_one_covariate_out: _left_out,
}  # fmt: skip
