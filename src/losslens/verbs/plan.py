"""`plan`: what a call of a verb takes, before it is made: counts of the functions that run, and rehearsed seconds."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from math import ceil
from typing import Any

import numpy as np

from losslens.donors.conditional import BoundSampler
from losslens.donors.designs import Latin
from losslens.donors.questions import pose
from losslens.engines import rates
from losslens.engines.base import Declined, coalition_count
from losslens.engines.blackbox import BlackBox
from losslens.engines.choice import CHECKED
from losslens.losses import OutputsLoss, is_scorer, names_of
from losslens.models import Model, as_model, one_output
from losslens.passes import in_common, ways
from losslens.passes.counts import DRAWING, count, count_importances
from losslens.passes.parts import call
from losslens.passes.rehearsal import FEW, TIME_LIMIT, Arguments, OnFew, Share, rehearse, some_rows
from losslens.passes.scored import check_budget, curves_besides, in_steps, mean_score, prepare_scored, scored_features
from losslens.passes.task import Options, Task, default_loss, effect_of, picked, prepare
from losslens.passes.ways import design_of, route
from losslens.progress import silent
from losslens.refits.learner import Learner
from losslens.refits.learner import learner as checked_learner
from losslens.refits.leave_out import as_estimator, leave_out_fits
from losslens.results.plan import Plan, Stage
from losslens.rows.segments import MOST_ROWS
from losslens.shapley import effects
from losslens.shapley.conditional import drawn_coalitions
from losslens.shapley.request import check_request
from losslens.shapley.scores import MAX_ROUNDS, MIN_ROUNDS, check_scores, donors_a_row
from losslens.shapley.stopping import MOST_PREDICTIONS, ShapleySettings
from losslens.shapley.walk_kinds import FIRST_EFFECT_SWEEPS
from losslens.shapley.ways import CONDITIONAL, choose, engine_name, result_by
from losslens.tables import checks, loading
from losslens.tables.features import resolve
from losslens.tables.frames import as_table
from losslens.tables.sources import as_source
from losslens.verbs import refits
from losslens.verbs.compare import checked_cases, compare, options_of_each
from losslens.verbs.conditional import checked_task, conditional_predictive_impact
from losslens.verbs.features import feature_effect, feature_importance
from losslens.verbs.interactions import pair_interactions, wanted_pairs
from losslens.verbs.report import affordable_pairs, checked_report, report
from losslens.verbs.running import in_own_words, refuse_foreign
from losslens.verbs.segments import checked_segments, weak_segments
from losslens.verbs.shapley import checked_effects, shapley_effect, shapley_importance
from losslens.verbs.time_blocks import time_blocks
from losslens.workers import active, here, with_executor

SOME_PAIRS, SOME_PLAYERS = 40, 4  # that are rehearsed
PAGE = {"report": 0.5, "feature": 0.1, "value": 1e-4}  # seconds of a page, of a feature, and of a row of a feature
PAGE_ROWS = 2000  # rows beyond which the page takes no longer


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
    refuse_foreign(verb.__name__, options)
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
    values = {name: parameter.default for name, parameter in named.items()} | options
    if missing := [name for name, value in values.items() if value is inspect.Parameter.empty]:
        raise TypeError(f"{verb.__name__} needs the argument {missing[0]!r}: pass {missing[0]}=")
    return {"executor": None} | values


@with_executor
def _planned(model: Any, X: Any, y: Any, verb: Callable[..., Any], *, executor: Any, **arguments: Any) -> Plan:
    """The plan; on the cluster of `executor` whatever predicts, fits or reads files there, and what is faster so."""
    resolved = in_own_words({**arguments, "model": model, "X": X, "y": y}, "model")
    model, X, y = (resolved.pop(name) for name in ("model", "X", "y"))
    plan, cluster = PLANNED[verb](model, X, y, resolved, TIME_LIMIT), active()
    if cluster is None or plan.workers:
        return plan
    tasks = plan.fits or ceil((plan.calls or 1) / cluster.grain)
    seconds = rates.on_a_cluster(plan.seconds, max(1, tasks), cluster.threads, 8 * plan.n_predictions)
    if plan.fits or plan.n_predictions > CHECKED or seconds < plan.seconds:
        plan = replace(plan, workers=cluster.threads, seconds=seconds)
    return plan


# Importances, effects and pairs: one model on one table. Planners take the arguments of a verb, and `time_limit`, the
# seconds that their rehearsals may take.


def _by_loss(verb: Callable[..., Any], model: Any, X: Any, y: Any, arguments: Arguments, time_limit: float) -> Plan:
    """`feature_importance` or `shapley_importance`, by a loss, a score, or each of several."""
    model, loss = as_model(model), arguments["loss"]
    if isinstance(loss, (list, tuple)):  # those that share predictions take fewer
        time_limit /= max(1, len(loss))
        named = names_of(loss).items()
        plans = {name: _by_loss(verb, model, X, y, arguments | {"loss": one}, time_limit) for name, one in named}
        return _kept_together(plans, upper=True)
    in_memory, by_score = PLANNED_BY_LOSS[verb]
    mean = mean_score(model, loss, y) if verb is feature_importance else None
    if is_scorer(loss) and mean is None:
        return by_score(model, X, y, arguments, time_limit)
    chosen = default_loss(model, loss, y) if mean is None else mean[0]
    arguments = arguments if mean is None else arguments | {"loss": chosen}
    if isinstance(chosen, OutputsLoss) and chosen.each:
        of_one, count = y if checks.output_names(y) is None else np.asarray(y)[:, 0], len(chosen.outputs)
        first = _by_loss(verb, one_output(model, 0, count), X, of_one, arguments | {"loss": chosen.each[0]}, time_limit)
        if not any(first.predictions or ()) and first.n_predictions <= CHECKED:  # an engine, which takes one by one
            return _repeated(first, count, memory=count * first.memory)
    X, y, arguments, data = _data(model, X, y, arguments)
    if data is None:
        return in_memory(model, X, y, arguments, time_limit)
    if verb is feature_importance:
        options = picked(Options, arguments)
        try:
            return _in_parts(call.importance_stream(model, data, chosen, options), data, call.summed)
        except Declined:  # a sample that fits into memory, of which the first rows stand for all
            rows = len(data.sample(options.memory, options.random_state))
            read = min(rows, loading.HEAD)
            X, y, weight = data.load(np.arange(read))
            few, times = in_memory(model, X, y, arguments | {"sample_weight": weight}, time_limit), rows / read
            return _repeated(few, times, predictions=tuple(round(times * many) for many in few.predictions or ()))
    from losslens.shapley import parts  # imports compiled engines

    settings = picked(ShapleySettings, arguments)
    return _in_parts(parts.share_stream(model, data, chosen, settings, picked(Options, arguments)), data, parts.run)


def _importances(model: Model, X: Any, y: Any, arguments: Arguments, time_limit: float) -> Plan:
    chosen = default_loss(model, arguments["loss"], y)
    task = prepare(model, X, y, picked(Options, arguments), loss=chosen, response=chosen.reads)
    few = partial(_on_few, feature_importance, model, task, y)
    if isinstance(task.design, BoundSampler):
        first = few(arguments | {"features": _first(task, 1)})
        seconds = _seconds(task, task.n * (1 + task.design.draws), first, time_limit)
        counted = count_importances(task, draws=seconds < DRAWING)  # slow samplers draw for no count
        return replace(counted, seconds=len(task.subjects) * seconds)
    counted = count_importances(task)
    if not counted.grows:
        return _of_cells(task, counted, few(arguments), time_limit)
    return _until_precise(task, counted, few(arguments | {"donors": Latin(ways.FIRST_DRAW)}), time_limit)


def _until_precise(task: Task, counted: Plan, first_draw: OnFew, time_limit: float) -> Plan:
    """The counts with the seconds of the donors that features need on few rows; of a slow model three first draws."""
    results = []

    def share(rows: int, result: Any) -> float:
        results.append(result)
        return float(result.n_predictions / counted.n_predictions)

    seconds, more = _seconds(task, counted.n_predictions, first_draw, time_limit, share), 0.0
    for name, predictions in zip(counted.features, counted.predictions or (), strict=True):
        if name in (counted.grows or ()):
            one = results[-1][name] if results else None
            draws = 2.0 if one is None else ways.more_donors(one) / ways.FIRST_DRAW if ways.wants_more(one) else 0.0
            more += draws * predictions
    return replace(counted, seconds=seconds * (1 + more / counted.n_predictions))


def _scores(model: Model, X: Any, y: Any, arguments: Arguments, time_limit: float) -> Plan:
    """Predictions of the design, of the grid of a sampled feature's curve, and those that the scorer reads first."""
    method, task = prepare_scored(model, X, y, arguments["loss"], picked(Options, arguments))
    designs = scored_features(task, method)
    on_grid = curves_besides(task, designs)
    cells = [one for one in designs if not in_steps(task, method, *one)]
    check_budget(task, [pose(*one, task.n, task.entropy) for one in (*cells, *on_grid)])
    counted = count(task, designs)
    if on_grid:
        curves = count(task, on_grid)
        more = dict(zip(curves.features, curves.predictions or (), strict=True))
        pairs = zip(counted.features, counted.predictions or (), strict=True)
        checked = min(task.n, CHECKED) if set(curves.engines) != {task.engine.name} else 0
        of_curves = curves.n_predictions - checked
        counted = replace(
            counted, predictions=tuple(many + more.get(name, 0) for name, many in pairs),
            n_predictions=counted.n_predictions + of_curves, calls=(counted.calls or 0) + (curves.calls or 0),
            memory=counted.memory + curves.memory, upper=counted.upper or curves.upper,
        )  # fmt: skip
    counted = replace(counted, n_predictions=counted.n_predictions + method.probed)
    some = _first(task, SOME_PLAYERS)
    few, times = _on_few(feature_importance, model, task, y, arguments | {"features": some}), len(designs) / len(some)
    by_model = task.engine.name in counted.engines
    seconds = _seconds(task, int(counted.n_predictions * by_model / times), few, time_limit)
    return replace(counted, seconds=times * seconds)  # in proportion to rows: the scorer takes longer than predictions


def _effects(model: Any, X: Any, y: Any, arguments: Arguments, time_limit: float) -> Plan:
    wrapped, response = effect_of(as_model(model), arguments["target"])
    X, _, arguments, data = _data(wrapped, X, None, arguments)
    if data is not None:
        stream = call.effect_stream(wrapped, data, response, arguments["target"], picked(Options, arguments))
        return _in_parts(stream, data, call.curves)
    task = prepare(wrapped, X, None, picked(Options, arguments), loss=None, response=response)
    counted = count(task, [(s, design_of(task, s, ways.effect_design)) for s in task.subjects])
    return _of_cells(task, counted, _on_few(feature_effect, model, task, None, arguments), time_limit)


def _pairs(model: Any, X: Any, y: Any, arguments: Arguments, time_limit: float) -> Plan:
    table, wrapped = as_table(X), as_model(model)
    chosen_pairs = wanted_pairs(table, arguments["features"], arguments["pairs"])
    every = arguments | {"features": chosen_pairs.features}
    if is_scorer(arguments["loss"]):
        return _scores(wrapped, table, y, every, time_limit)
    chosen, pairs = default_loss(wrapped, arguments["loss"], y), list(chosen_pairs.together)
    options = picked(Options, every)
    task = in_common.by_cells(prepare(wrapped, table, y, options, loss=chosen, response=chosen.reads, all_pairs=True))
    counted = count_importances(task)
    if counted.grows:  # the pairs have a fixed number of donors
        counted = count_importances(replace(task, design=Latin(ways.FIXED_DONORS)))
    some = pairs[:: ceil(len(pairs) / SOME_PAIRS)]
    few = _on_few(pair_interactions, wrapped, task, y, arguments | {"pairs": some})
    times = 1.0 if task.engine.name in counted.engines else len(pairs) / len(some)
    counted = _of_cells(task, counted, few, time_limit)
    return replace(counted, seconds=times * counted.seconds)


def _of_cells(task: Task, counted: Plan, few: OnFew, time_limit: float) -> Plan:
    """The counts with seconds in proportion to predictions; of engines to rows, or to pairs where they fill cells."""
    by_model, predictions = task.engine.name in counted.engines, counted.n_predictions
    all_pairs = task.design is None or task.design.all_pairs
    power = 1 + (all_pairs and any(route(task, subject).way == "cells" for subject in task.subjects))

    def share(rows: int, result: Any) -> float:
        return float(result.n_predictions / predictions if by_model else (rows / task.n) ** power)

    return replace(counted, seconds=_seconds(task, predictions * by_model, few, time_limit, share))


def _conditional(model: Any, X: Any, y: Any, arguments: Arguments, time_limit: float) -> Plan:
    sampler, draws = arguments["sampler"], arguments["draws"]
    task = checked_task(model, X, y, sampler, arguments["loss"], draws, picked(Options, arguments))
    p, n, words = len(task.subjects), task.n, f"{sampler!r}, {draws} draw{'s' * (draws != 1)}"
    few = _on_few(conditional_predictive_impact, model, task, y, arguments | {"features": _first(task, 1)})
    seconds = p * _seconds(task, n * (1 + draws), few, time_limit)
    return _counted(
        task, n * (1 + draws * p), kept_bytes=8 * n * (p + 3 * draws), seconds=seconds,
        designs=(words,) * p, predictions=(n * draws,) * p, kept=n, complete=True, grows=(),
        calls=ceil(n / task.engine.rows_a_call(n)) * (1 + draws * p),  # each feature and draw has its own
    )  # fmt: skip


def _weak_segments(model: Any, X: Any, y: Any, arguments: Arguments, time_limit: float) -> Plan:
    """Every row is predicted once, and some of them are searched."""
    loss, level, depth = (arguments[name] for name in ("loss", "level", "depth"))
    task = checked_segments(model, X, y, loss, level, depth, picked(Options, arguments))
    few, searched = _on_few(weak_segments, model, task, y, arguments), min(task.n, 2 * MOST_ROWS)
    return _counted(
        task, task.n, kept_bytes=task.n * (8 * (len(task.subjects) + 6) + 64), exact=False,
        way="found on one half, judged on the other", seconds=_seconds(task, task.n, few, time_limit, n=searched),
    )  # fmt: skip


# Shapley values.


def _shares(model: Model, X: Any, y: Any, arguments: Arguments, time_limit: float) -> Plan:
    settings = picked(ShapleySettings, arguments)
    request = check_request(model, X, y, arguments["loss"], settings, picked(Options, arguments))
    task, (way, cost) = request.task, choose(request)
    (least, most), times = way.predictions(request), 1.0
    if way is CONDITIONAL:  # of two players the sampler draws one in each of two coalitions, of all half in each
        times = max(1.0, drawn_coalitions(request) * request.p / 4)
        arguments = arguments | {"features": _first(task, 2)}

    def in_this_way(model: Any, X: Any, y: Any, **arguments: Any) -> Any:
        budget = None if settings.budget is None else max(20 * X.n * request.p, settings.budget * X.n // task.n)
        some = replace(settings, budget=budget)
        few = check_request(model, X, y, arguments["loss"], some, picked(Options, arguments))
        return few, result_by(way, few)

    def share(rows: int, ran: Any) -> float:
        few, result = ran
        if not way.by_model or way is CONDITIONAL:
            smaller = None if way is CONDITIONAL else way.cost(few)
            return rows / task.n if smaller is None or not cost.amount else smaller.amount / cost.amount
        # As many sweeps for all rows, or as many predictions if these are to reach a precision. If the fewest sweeps
        # were enough, of which few rows have more, something between.
        predicted = result.n_predictions
        needed = max(least, min(most, predicted * (1 if settings.precision else task.n / rows)))
        fewest = predicted <= 1.05 * way.predictions(few)[0]
        return float(predicted / ((least * needed) ** 0.5 if fewest else needed))

    few = _on_few(in_this_way, model, task, y, arguments)
    return _counted(
        task, least, most, way.kept_bytes(request), way=way.words, exact=way.exact and request.all_pairs,
        engines=(engine_name(request, way),) * request.p,
        seconds=times * _seconds(task, int(least * way.by_model / times), few, time_limit, share),
    )  # fmt: skip


def _score_shares(model: Model, X: Any, y: Any, arguments: Arguments, time_limit: float) -> Plan:
    """All coalitions, or those along orders: at most as many different ones as the orders pass."""
    settings = picked(ShapleySettings, arguments)
    request = check_scores(model, X, y, arguments["loss"], settings, picked(Options, arguments))
    task, exact, p, n = request.task, request.exact, len(request.task.subjects), request.task.n
    m, a_round, first = donors_a_row(task, n), max(1, p * (p - 1)), n + request.method.probed
    least = most = coalition_count(p) - 2
    if not request.by_coalitions:
        rounds_left = np.inf if settings.budget is None else (settings.budget - first) // (a_round * n * m)
        least, most = (min(most, a_round * max(1, min(rounds, rounds_left))) for rounds in (MIN_ROUNDS, MAX_ROUNDS))
    # A coalition takes as long in an order; all of those of some players are rehearsed.
    some = _first(task, SOME_PLAYERS)
    few = _on_few(shapley_importance, model, task, y, arguments | {"features": some, "method": "exact", "budget": None})
    times = max(1.0, least / (coalition_count(len(some)) - 2 or 1))

    def share(rows: int, result: Any) -> float:
        return rows * donors_a_row(task, rows) / (n * m)

    least, most = (
        int(first + many * n * m) if exact is None else min(n, CHECKED) + first - n for many in (least, most)
    )
    return _counted(
        task, least, most, 16 * n * m, exact=request.by_coalitions and m == n, upper=not request.by_coalitions,
        way=f"all coalitions{', by the model' * (exact is None)}" if request.by_coalitions else "orders",
        engines=((exact or task.engine).name,) * p,
        seconds=times * _seconds(task, int(least * (exact is None) / times), few, time_limit, share),
    )  # fmt: skip


def _shapley_effects(model: Any, X: Any, y: Any, arguments: Arguments, time_limit: float) -> Plan:
    names = ("rows", "target", "scale", "method", "budget", "sample_weight")
    rows, target, scale, method, budget, weight = (arguments[name] for name in names)
    started = time.perf_counter()
    options = picked(Options, arguments | {"sample_weight": None})
    request = checked_effects(model, X, rows, target, scale, method, budget, weight, options)
    checking = time.perf_counter() - started
    task, r, (way, predictions) = request.task, len(request.rows), effects.choose(request)
    by_model = way in (effects.by_coalitions, effects.by_walks)
    least = most = task.n + predictions - r if by_model else min(task.n, CHECKED)
    walks = way in (effects.by_walks, effects.by_linked_walks)
    if way is effects.by_walks:
        sweeps = FIRST_EFFECT_SWEEPS if budget is None else (budget - task.n) // max(1, request.steps)
        least = task.n + sweeps * request.steps
        most = MOST_PREDICTIONS if budget is None else least

    def few(rows: int) -> Callable[[], Any]:
        at = request.rows[np.linspace(0, r - 1, rows).astype(np.intp)]
        some = None if budget is None else task.n + (least - task.n) * rows // r
        of_few = replace(request, rows=at, row_labels=None, budget=some, task=replace(task, progress=False))
        return partial(effects.explain_by, way, rows, of_few)

    return _counted(
        task, least, most, 8 * r * len(request.players), exact=not walks,
        way="walks" if walks else "all coalitions, by the model" if by_model else "by the engine",
        engines=((task.engine if by_model else task.exact).name,) * len(request.players),
        seconds=checking + _seconds(task, least * by_model, few, time_limit, n=r),
    )  # fmt: skip


# What planners share.


def _data(model: Model, X: Any, y: Any, arguments: Arguments) -> tuple[Any, Any, Arguments, loading.Opened | None]:
    """X, y and the arguments, of data in memory; or the data, if they are read in parts."""
    if (source := as_source(X)) is None:
        return X, y, arguments, None
    data = loading.opened(model, source, y, arguments["sample_weight"])
    if loading.streams(data, checks.memory_bytes(arguments["memory"])):
        return source, y, arguments, data
    X, y, weight = data.load()
    return X, y, arguments | {"sample_weight": weight}, None


def _in_parts(stream: Any, data: loading.Opened, run: Callable[..., Any]) -> Plan:
    from losslens.passes.parts.counts import plan_stream  # imports compiled engines

    return plan_stream(stream, data, run)


def _on_few(verb: Callable[..., Any], model: Any, task: Task, y: Any, arguments: Arguments) -> OnFew:
    """The call on some of its rows."""

    def prepared(rows: int) -> Callable[[], Any]:
        X, some, of_few = some_rows(task.table, y, arguments, rows)
        return partial(verb, model, X, *([] if y is None else [some]), **of_few)

    return prepared


def _first(task: Task, count: int) -> dict[str, list[Any]]:
    """The first features, which represent all of them."""
    labels = task.table.labels
    return {s.feature.name: [labels[j] for j in s.feature.columns] for s in task.subjects[:count]}


def _seconds(
    task: Task, predictions: int, few: OnFew, time_limit: float, share: Share | None = None, n: int | None = None
) -> float:
    """Seconds of a call in which the model predicts so many rows: of a slow model those of its calls alone.

    Else those of few rows, in proportion to their number unless their share of the work is given.
    """
    n = n or task.n
    if predictions:
        seconds, call = _model_seconds(task, predictions, time_limit)
        if max(call, seconds * min(1, FEW / n)) > time_limit / 2:
            return seconds
    return rehearse(few, n, time_limit, share)


def _model_seconds(task: Task, predictions: int, time_limit: float) -> tuple[float, float]:
    """Seconds of the model alone for so many predictions in full batches, and of a call of few rows."""
    batch = min(predictions, task.engine.rows_a_call(task.n))
    model = task.engine.timed(batch, time_limit)
    return model.seconds(ceil(predictions / batch), predictions), model.call


def _counted(task: Task, least: int, most: int | None = None, kept_bytes: int = 0, **fields: Any) -> Plan:
    """The plan of so many predictions in full batches; `kept_bytes` are of the result."""
    names = tuple(subject.feature.name for subject in task.subjects)
    batch = max(1, min(least, task.engine.rows_a_call(task.n)))
    usual: Arguments = {"features": names, "engines": (task.engine.name,) * len(names), "calls": ceil(least / batch)}
    memory = kept_bytes + batch * (task.table.row_bytes + 64)
    return Plan(n_predictions=least, most=most, memory=memory, backend=task.table.backend, **usual | fields)


# Several plans together.


def _repeated(plan: Plan, times: float, **fields: Any) -> Plan:
    """The plan of so many calls like this one."""
    counts: Arguments = {name: round(times * (getattr(plan, name) or 0)) for name in ("n_predictions", "calls", "most")}
    return replace(plan, seconds=times * plan.seconds, **counts, **fields)


def _sum(plans: Mapping[str, Plan], **fields: Any) -> Plan:
    """The plan of calls one after the other, by name, with the features of the first."""
    first, *_ = plans.values()
    stages = tuple(Stage(name, one.seconds, one.n_predictions, one.calls or 0) for name, one in plans.items())
    n_predictions = sum(one.n_predictions for one in plans.values())
    most = sum(max(one.n_predictions, one.most or 0) for one in plans.values())
    totals = {
        "n_predictions": n_predictions, "most": most, "calls": sum(stage.calls for stage in stages),
        "seconds": sum(stage.seconds for stage in stages), "memory": max(one.memory for one in plans.values()),
        "upper": most == n_predictions and any(one.upper for one in plans.values()),
    }  # fmt: skip
    return replace(first, predictions=None, way=None, stages=stages, **totals | fields)


def _kept_together(plans: Mapping[str, Plan], **fields: Any) -> Plan:
    """The plan of calls one after the other, whose results are all kept."""
    return _sum(plans, memory=sum(one.memory for one in plans.values()), **fields)


def _compared(models: Any, X: Any, y: Any, arguments: Arguments, time_limit: float) -> Plan:
    loss, shapley, weight, groups = (arguments[name] for name in ("loss", "shapley", "sample_weight", "groups"))
    cases, loss = checked_cases(models, X, y, loss, shapley, weight, groups)
    shared = picked(Options, arguments | {"sample_weight": None, "groups": None})
    time_limit /= len(cases) * (1 + shapley)
    plans: dict[str, Plan] = {}
    for name, case in cases.items():
        rows, options = (case.model, case.X, case.y), case.options(shared)
        each = vars(options_of_each(options, len(cases))) | {"loss": loss}
        plans[f"{name}: importances"] = _by_loss(feature_importance, *rows, each, time_limit)
        if shapley:
            every = vars(options) | {"loss": loss}
            plans[f"{name}: Shapley shares"] = _by_loss(shapley_importance, *rows, every, time_limit)
    return _kept_together(plans)


def _reported(model: Any, X: Any, y: Any, arguments: Arguments, time_limit: float) -> Plan:
    shapley, names = arguments["shapley"], ("models", "loss", "by", "shapley", "interactions", "rows")
    of_report = {name: arguments[name] for name in names}
    models, data, most = checked_report(model, X, y, **of_report, options=picked(Options, arguments))
    by_loss, by_score = (vars(data.options) | {"loss": loss} for loss in (data.loss, data.scorer))
    steps: list[tuple[str, Any, Arguments]] = [("importances", feature_importance, by_loss)]
    steps += [("importances by the score", feature_importance, by_score)] * (data.scorer is not None)
    steps += [("Shapley shares", shapley_importance, by_loss)] * shapley
    time_limit /= len(models) * len(steps) + 1
    plans = {
        f"{name}: {step}": _by_loss(verb, each, data.X, data.y, of_step, time_limit)
        for step, verb, of_step in steps
        for name, each in models.items()
    }
    table, (first, *_) = as_table(data.X), plans.values()
    named = resolve(data.options.features, table.labels, by_position=table.backend == "numpy")
    chosen = {one.name: [table.labels[j] for j in one.columns] for one in named[:most]}
    paired = affordable_pairs(model, data, chosen, first.n_predictions) if len(chosen) > 1 else None
    if paired is not None:
        plans["pairs of features"] = _pairs(model, data.X, data.y, by_loss | vars(paired) | {"pairs": None}, time_limit)
    values = min(table.n, PAGE_ROWS) * PAGE["value"]
    page = Stage("the page", PAGE["report"] + len(first.features) * (PAGE["feature"] + values))
    total = _sum(plans)
    return replace(total, seconds=total.seconds + page.seconds, stages=(*(total.stages or ()), page))


# Learners.


def _refits(
    verb: Callable[..., Any], estimator: Any, X: Any, y: Any, arguments: Arguments, time_limit: float, times: int = 1
) -> Plan:
    """Fits and explanations of all folds, so many times, and of pairs; from fits on some rows, and the first fold."""
    learner, models = _learner(estimator, X, y, arguments), list[Any]()
    pairs = learner.pairs

    def fit(few: Learner) -> None:
        models[:] = [few.fitted(few.splits[0][0], few.y)]
        classes = getattr(models[0], "classes_", None)
        if classes is not None and len(classes) < len(np.unique(few.y)):
            raise ValueError("these rows lack a class")

    def explain(model: Any, X: Any, y: Any, options: Options) -> Plan:
        of_verb = {name: arguments[name] for name in inspect.signature(verb).parameters if name in arguments}
        return _by_loss(verb, model, X, y, of_verb | vars(options), time_limit)

    trained, tested = ([len(pair[side]) for pair in learner.splits] for side in (0, 1))
    rows = times * sum(trained) + sum(trained[first] - tested[second] for first, second in pairs)
    fits = times * len(trained) + len(pairs)
    fitting = Stage("fits", rows * _seconds_a_row(learner, fit), fits=fits)
    with here():
        first: Plan = learner.explained_by(models[0], 0, explain)
    folds = times * sum(tested) / tested[0] + 2 * len(pairs)  # a fit without a pair is explained on both
    total = _sum({"explanations": _repeated(first, round(folds) if max(tested) - min(tested) <= 1 else folds)})
    return replace(total, seconds=total.seconds + fitting.seconds, stages=(fitting, *(total.stages or ())), fits=fits)


def _seconds_a_row(learner: Learner, fit: Callable[[Learner], Any]) -> float:
    """Seconds of a fit for each of its rows, from fits on more and more rows of the first fold."""
    train, test = learner.splits[0]

    def on_few(rows: int) -> Callable[[], Any]:
        some = train[np.unique(np.linspace(0, len(train) - 1, rows).astype(np.intp))]
        return partial(fit, replace(learner, splits=((some, test[:: max(1, len(train) // rows)]),)))

    return rehearse(on_few, len(train), steep=True) / len(train)


def _learner(estimator: Any, X: Any, y: Any, arguments: Arguments) -> Learner:
    cv, fit_params, variance = arguments["cv"], arguments["fit_params"], arguments.get("variance", "corrected")
    return checked_learner(estimator, X, y, cv, fit_params, picked(Options, arguments), variance)


def _permuted_targets(estimator: Any, X: Any, y: Any, arguments: Arguments, time_limit: float) -> Plan:
    checks.check_whole(arguments["permutations"], "permutations")
    return _refits(feature_importance, estimator, X, y, arguments, time_limit, 1 + arguments["permutations"])


def _left_out(estimator: Any, X: Any, y: Any, arguments: Arguments, time_limit: float) -> Plan:
    """Fits, predictions and losses of the first fold, as often as there are folds and features, and one more."""
    learner = _learner(as_estimator(estimator), X, y, arguments)
    without_each = leave_out_fits(learner, arguments["features"], arguments["how"], arguments["loss"])
    features, tested, table = without_each.features, without_each.tested, learner.table

    def first(few: Learner) -> Any:
        """Of all tested rows as many are predicted as there are training rows of all of these."""
        train = few.splits[0][0]
        splits = ((train, tested[:: max(1, len(learner.splits[0][0]) // len(train))]),)
        return replace(without_each, learner=replace(few, splits=splits)).one((0, 0), silent)

    fits = (1 + len(features)) * len(learner.splits)
    seconds = (1 + len(features)) * _seconds_a_row(learner, first) * sum(len(train) for train, _ in learner.splits)
    return Plan(
        features=tuple(one.name for one in features), engines=(BlackBox.name,) * len(features),
        n_predictions=fits * len(tested), calls=fits, fits=fits, seconds=seconds, backend=table.backend,
        memory=table.n * (8 * (2 + 4 * len(features)) + 2 * table.row_bytes),
        stages=(Stage("fits and predictions", seconds, fits * len(tested), fits, fits),),
    )  # fmt: skip


# For data in memory by a loss, and by a score.
PLANNED_BY_LOSS = {feature_importance: (_importances, _scores), shapley_importance: (_shares, _score_shares)}
PLANNED: dict[Callable[..., Any], Callable[[Any, Any, Any, Arguments, float], Plan]] = {
    feature_importance: partial(_by_loss, feature_importance), feature_effect: _effects,
    shapley_importance: partial(_by_loss, shapley_importance),
    shapley_effect: _shapley_effects, pair_interactions: _pairs, conditional_predictive_impact: _conditional,
    compare: _compared, report: _reported, weak_segments: _weak_segments,
    refits.feature_importance_cv: partial(_refits, feature_importance),
    refits.shapley_importance_cv: partial(_refits, shapley_importance),
    refits.permuted_target_test: _permuted_targets, refits.leave_one_covariate_out: _left_out,
}  # fmt: skip
