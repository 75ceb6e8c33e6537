"""`plan`: what a call of a verb takes, before it is made: counts of the functions that run, and rehearsed seconds."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import ceil
from time import perf_counter
from typing import Any

import numpy as np

from losslens.donors.conditional import BoundSampler
from losslens.donors.designs import Latin
from losslens.donors.questions import pose
from losslens.engines.base import Declined, coalition_count
from losslens.engines.blackbox import BlackBox
from losslens.engines.choice import CHECKED
from losslens.losses import OutputsLoss, is_scorer, names_of
from losslens.models import Model, as_model, one_output
from losslens.passes import in_common
from losslens.passes.allowance import Limits, limits_of
from losslens.passes.counts import count, count_importances, plan_stream
from losslens.passes.pair_map import MOST_BINS
from losslens.passes.pair_map import MOST_ROWS as ROWS_OF_MAP
from losslens.passes.parts import call
from losslens.passes.rehearsal import FEW, TIME_LIMIT, Arguments, OnFew, rehearse, some_rows
from losslens.passes.scored import check_budget, curves_besides, in_steps, mean_score, prepare_scored, scored_features
from losslens.passes.task import Options, Task, default_loss, effect_of, opened, picked, prepare
from losslens.passes.ways import FIXED_DONORS, effect_designs, route
from losslens.progress import silent
from losslens.refits.learner import Learner
from losslens.refits.learner import learner as checked_learner
from losslens.refits.leave_out import as_estimator, leave_out_fits
from losslens.results.plan import Plan, Stage
from losslens.rows.segments import MOST_ROWS
from losslens.shapley import effect_walks, effects
from losslens.shapley.conditional import drawn_coalitions
from losslens.shapley.request import check_request
from losslens.shapley.scores import MAX_ROUNDS, MIN_ROUNDS, check_scores, donors_a_row
from losslens.shapley.stopping import MOST_PREDICTIONS, ShapleySettings
from losslens.shapley.ways import CONDITIONAL, choose, engine_name, result_by
from losslens.tables import checks, loading
from losslens.tables.features import resolve
from losslens.tables.frames import as_table
from losslens.verbs import refits
from losslens.verbs.blocks import feature_groups
from losslens.verbs.compare import checked_cases, compare, options_of_each
from losslens.verbs.conditional import checked_task, conditional_predictive_impact
from losslens.verbs.features import feature_effect, feature_importance
from losslens.verbs.good_models import Candidates, candidates, check_shares, good_models
from losslens.verbs.interactions import chosen_pairs, pair_interactions
from losslens.verbs.report import affordable_pairs, checked_report, report
from losslens.verbs.running import in_own_words, refuse_foreign
from losslens.verbs.segments import checked_segments, weak_segments
from losslens.verbs.shapley import checked_effects, shapley_effect, shapley_importance
from losslens.verbs.time_blocks import time_blocks
from losslens.workers import active, here, on_a_cluster, with_executor

SOME_PAIRS, SOME_PLAYERS = 40, 4  # that are rehearsed
OWN_WORK, MIXING = 3e-8, 1e-7  # seconds for each prediction besides the model's: batches, losses, means; mixed rows
GROWN = 3  # times the predictions of the first draw that features take whose donors are doubled until precise
PAGE, PAGE_FEATURE = 0.5, 0.2  # seconds of a page, and of a feature on it


def plan(verb: Callable[..., Any], model: Any, X: Any, y: Any = None, **options: Any) -> Plan:
    """What a call of a verb takes: predictions, fits, calls of the model, memory, and about how many seconds.

    Engine, design, predictions and rows kept are counted by the functions that the call runs. Seconds are those of a
    batch of predictions, times their number; of an exact engine, a score, a sampler, and the fits of a learner those on
    more and more of the rows, for a third of a second or so: expect the right order of magnitude, not more. Of data
    that would be read in parts, only the metadata and the first rows are read.

    Parameters
    ----------
    verb
        Any verb that takes a model or an estimator, such as `losslens.shapley_importance`, `losslens.report` or
        `losslens.feature_importance_cv`; `time_blocks` and `feature_groups` predict nothing, and have no plan.
    model, X, y, options
        The arguments of that verb, `executor` included; for `shapley_effect` the rows in place of `y`.

    Examples
    --------
    >>> import numpy as np, losslens as ll
    >>> X = np.arange(20.0).reshape(10, 2)
    >>> ll.plan(ll.feature_effect, lambda X: X[:, 0], X).n_predictions
    190
    """
    if verb in (time_blocks, feature_groups):
        raise ValueError(f"{verb.__name__} makes no predictions: there is nothing to plan")
    if not callable(verb) or verb not in PLANNED:
        names = ", ".join(one.__name__ for one in PLANNED)
        raise ValueError(f"the first argument of plan is one of {names}; got {verb!r}")
    refuse_foreign(verb.__name__, options)
    arguments = _arguments(verb, model, X, y, options)
    return _planned(verb=verb, arguments=arguments, executor=arguments.pop("executor"))


def _arguments(verb: Callable[..., Any], model: Any, X: Any, y: Any, options: Arguments) -> Arguments:
    """All arguments of the verb, with their defaults."""
    names = list(inspect.signature(verb).parameters)
    third = names[2] == "y" or (names[2] == "rows" and y is not None)
    arguments = _bound(verb, model, X, *([y] if third else []), **options)
    if "options" in arguments:  # those of `feature_importance`
        arguments = _bound(feature_importance, model, X, y, **arguments.pop("options")) | arguments
    return arguments


def _bound(verb: Callable[..., Any], *positional: Any, **options: Any) -> Arguments:
    try:
        bound = inspect.signature(verb).bind(*positional, **options)
    except TypeError as error:
        raise TypeError(f"{verb.__name__}: {error}") from None
    bound.apply_defaults()
    return bound.arguments


@with_executor
def _planned(*, verb: Callable[..., Any], arguments: Arguments, executor: Any) -> Plan:
    """The plan; on the cluster of `executor` whatever predicts, fits or reads files there, and what is faster so."""
    first = next(iter(inspect.signature(verb).parameters))
    resolved = in_own_words(arguments, first)
    model, X, y = resolved.pop(first), resolved.pop("X"), resolved.pop("y", None)
    limits = _limits(verb, resolved)
    plan, cluster = PLANNED[verb](model, X, y, resolved), active()
    plan = plan if limits is None else _affordable(plan, limits)
    if cluster is None or plan.workers:
        return plan
    tasks = plan.fits or ceil((plan.calls or 1) / cluster.grain)
    seconds = on_a_cluster(plan.seconds, max(1, tasks), cluster.threads, 8 * plan.n_predictions)
    if plan.fits or plan.n_predictions > CHECKED or seconds < plan.seconds:
        plan = replace(plan, workers=cluster.threads, seconds=seconds)
    return plan


def _limits(verb: Callable[..., Any], arguments: Arguments) -> Limits | None:
    """The limits of a call that spends them on rows and donors; its budget and precision leave the arguments."""
    shapley = verb in (shapley_importance, shapley_effect, refits.shapley_importance_cv)
    if "budget" not in arguments or (shapley and not isinstance(arguments["budget"], str)):
        return None
    precision = None if shapley else arguments.pop("precision", None)
    budget, arguments["budget"] = arguments["budget"], None
    return limits_of(budget, precision)


def _affordable(plan: Plan, limits: Limits) -> Plan:
    """The plan with as much of its predictions as the limits afford; an exact engine takes what it takes."""
    part = min(1.0, limits.predictions / plan.n_predictions, limits.seconds / max(plan.seconds, 1e-9))
    if part == 1 or plan.n_predictions <= CHECKED:
        return plan
    each = None if plan.predictions is None else tuple(round(part * one) for one in plan.predictions)
    return replace(
        plan, n_predictions=round(part * plan.n_predictions), predictions=each, seconds=part * plan.seconds, grows=(),
        calls=None if plan.calls is None else ceil(part * plan.calls), upper=True,
        budget=f"{limits.budget} affords about {part:.0%} of {plan.n_predictions:,} predictions: fewer donors, or rows",
    )  # fmt: skip


# Importances, effects and pairs: one model on one table. Planners take the arguments of a verb.


def _by_loss(verb: Callable[..., Any], model: Any, X: Any, y: Any, arguments: Arguments) -> Plan:
    """`feature_importance` or `shapley_importance`, by a loss, a score, or each of several."""
    model, loss = as_model(model), arguments["loss"]
    if isinstance(loss, (list, tuple)):  # those that share predictions take fewer
        plans = {name: _by_loss(verb, model, X, y, arguments | {"loss": one}) for name, one in names_of(loss).items()}
        return _sum(plans, kept=True, upper=True)
    of_rows = verb is feature_importance
    in_memory, by_score = (_importances, _scores) if of_rows else (_shares, _score_shares)
    mean = mean_score(model, loss, y) if verb is feature_importance else None
    if is_scorer(loss) and mean is None:
        return by_score(model, X, y, arguments)
    chosen = default_loss(model, loss, y) if mean is None else mean[0]
    arguments = arguments if mean is None else arguments | {"loss": chosen}
    if isinstance(chosen, OutputsLoss) and chosen.each:
        of_one, count = y if checks.output_names(y) is None else np.asarray(y)[:, 0], len(chosen.outputs)
        first = _by_loss(verb, one_output(model, 0, count), X, of_one, arguments | {"loss": chosen.each[0]})
        if not any(first.predictions or ()) and first.n_predictions <= CHECKED:  # an engine, which takes one by one
            return _repeated(first, count, memory=count * first.memory)
    X, y, arguments, data = _data(model, X, y, arguments)
    if data is None:
        return in_memory(model, X, y, arguments)
    if verb is feature_importance:
        options = picked(Options, arguments)
        try:
            return plan_stream(call.importance_stream(model, data, chosen, options), data, call.summed)
        except Declined:  # a sample that fits into memory, of which the first rows stand for all
            rows = len(data.sample(options.memory, options.random_state))
            read = min(rows, loading.HEAD)
            X, y, weight = data.load(np.arange(read))
            few, times = in_memory(model, X, y, arguments | {"sample_weight": weight}), rows / read
            return _repeated(few, times, predictions=tuple(round(times * many) for many in few.predictions or ()))
    from losslens.shapley.covariance_parts import run, share_stream  # imports compiled engines

    stream = share_stream(model, data, chosen, picked(ShapleySettings, arguments), picked(Options, arguments))
    return plan_stream(stream, data, run)


def _importances(model: Model, X: Any, y: Any, arguments: Arguments) -> Plan:
    """By a loss, in memory: counts of the first draw, and seconds with the donors that noisy features will need."""
    chosen = default_loss(model, arguments["loss"], y)
    task = prepare(model, X, y, picked(Options, arguments), loss=chosen, response=chosen.reads)
    counted = count_importances(task)
    if isinstance(task.design, BoundSampler):
        few = _on_few(feature_importance, model, task, y, arguments | {"features": _first(task, 1)})
        return _timed(task, counted, few, len(task.subjects), draws=True)
    planned = _of_cells(task, counted, _on_few(feature_importance, model, task, y, arguments))
    if not counted.grows:
        return planned
    pairs = zip(counted.features, counted.predictions or (), strict=True)
    growing = sum(predictions for name, predictions in pairs if name in counted.grows)
    return replace(planned, seconds=planned.seconds * (1 + (GROWN - 1) * growing / counted.n_predictions))


def _scores(model: Model, X: Any, y: Any, arguments: Arguments) -> Plan:
    """Predictions of the design, of the grid of a sampled feature's curve, and those that the scorer reads first."""
    method, task = prepare_scored(model, X, y, arguments["loss"], picked(Options, arguments))
    designs = scored_features(task, method)
    on_grid = curves_besides(task, designs)
    cells = [one for one in designs if not in_steps(task, method, *one)]
    check_budget(task, [pose(*one, task.n, task.entropy) for one in (*cells, *on_grid)])
    counted, p = count(task, [*designs, *on_grid]), len(designs)
    each = list(zip(counted.features, counted.predictions or (), strict=True))
    more = dict(each[p:])
    counted = replace(
        counted, features=counted.features[:p], engines=counted.engines[:p], designs=(counted.designs or ())[:p],
        predictions=tuple(many + more.get(name, 0) for name, many in each[:p]),
        n_predictions=counted.n_predictions + method.probed,
    )  # fmt: skip
    some = _first(task, SOME_PLAYERS)
    few = _on_few(feature_importance, model, task, y, arguments | {"features": some})
    return _timed(task, counted, few, len(designs) / len(some), draws=True)


def _effects(model: Any, X: Any, y: Any, arguments: Arguments) -> Plan:
    """`feature_effect`: a pass over a table, or over files part by part."""
    wrapped, response = effect_of(as_model(model), arguments["target"])
    X, _, arguments, data = _data(wrapped, X, None, arguments)
    if data is not None:
        stream = call.effect_stream(wrapped, data, response, arguments["target"], picked(Options, arguments))
        return plan_stream(stream, data, call.curves)
    task = prepare(wrapped, X, None, picked(Options, arguments), loss=None, response=response)
    counted = count(task, effect_designs(task))
    return _of_cells(task, counted, _on_few(feature_effect, wrapped, task, None, arguments))


def _pairs(model: Any, X: Any, y: Any, arguments: Arguments) -> Plan:
    """`pair_interactions`: predictions of all pairs, seconds of some of them times their number."""
    table, wrapped = as_table(X), as_model(model)
    of_pairs = chosen_pairs(table, arguments["features"], arguments["pairs"])
    every = arguments | {"features": of_pairs.features}
    if is_scorer(arguments["loss"]):
        return _scores(wrapped, table, y, every)
    chosen, pairs = default_loss(wrapped, arguments["loss"], y), list(of_pairs.together)
    options = picked(Options, every)
    task = in_common.by_cells(prepare(wrapped, table, y, options, loss=chosen, response=chosen.reads, all_pairs=True))
    counted = count_importances(task)
    if counted.grows:  # the pairs have a fixed number of donors
        counted = count_importances(replace(task, design=Latin(FIXED_DONORS)))
    some = pairs[:: ceil(len(pairs) / SOME_PAIRS)]
    few = _on_few(pair_interactions, wrapped, task, y, arguments | {"pairs": some})
    return _of_cells(task, counted, few, len(pairs) / len(some))


def _conditional(model: Any, X: Any, y: Any, arguments: Arguments) -> Plan:
    """`conditional_predictive_impact`: a sampler draws for one feature after the other, of which the first is timed."""
    sampler, draws = arguments["sampler"], arguments["draws"]
    task = checked_task(model, X, y, sampler, arguments["loss"], draws, picked(Options, arguments))
    p, n, words = len(task.subjects), task.n, f"{sampler!r}, {draws} draw{'s' * (draws != 1)}"
    few = _on_few(conditional_predictive_impact, model, task, y, arguments | {"features": _first(task, 1)})
    return _of_predictions(
        task, n * (1 + draws * p), None, few, p, draws=True, kept_bytes=8 * n * (p + 3 * draws),
        designs=(words,) * p, predictions=(n * draws,) * p, kept=n, complete=True, grows=(),
        calls=ceil(n / task.engine.rows_a_call(n)) * (1 + draws * p),  # each feature and draw has its own
    )  # fmt: skip


def _weak_segments(model: Any, X: Any, y: Any, arguments: Arguments) -> Plan:
    """Every row is predicted once, and some of them are searched."""
    own = {name: arguments[name] for name in ("loss", "level", "depth")}
    task = checked_segments(model, X, y, **own, options=picked(Options, arguments))
    kept, way = task.n * (8 * (len(task.subjects) + 6) + 64), "found on one half, judged on the other"
    few, n = _on_few(weak_segments, model, task, y, arguments), min(task.n, 2 * MOST_ROWS)
    return _of_predictions(task, task.n, None, few, draws=True, n=n, kept_bytes=kept, exact=False, way=way)


# Shapley values.


def _shares(model: Model, X: Any, y: Any, arguments: Arguments) -> Plan:
    """`shapley_importance` by a loss: by the way that the call takes, which is timed on some rows."""
    settings = picked(ShapleySettings, arguments)
    request = check_request(model, X, y, arguments["loss"], settings, picked(Options, arguments))
    task, (way, _), times = request.task, choose(request), 1.0
    if way is CONDITIONAL:  # of two players the sampler draws one in each of two coalitions, of all half in each
        times = max(1.0, drawn_coalitions(request) * request.p / 4)
        arguments = arguments | {"features": _first(task, 2)}

    def in_this_way(model: Any, X: Any, y: Any, **arguments: Any) -> Any:
        few = check_request(model, X, y, arguments["loss"], settings, picked(Options, arguments))
        return result_by(way, few)

    return _of_predictions(
        task, *way.predictions(request), _on_few(in_this_way, model, task, y, arguments), times,
        power=1 + way.pairs, draws=way is CONDITIONAL, kept_bytes=way.kept_bytes(request), way=way.words,
        exact=way.exact and request.all_pairs, engines=(engine_name(request, way),) * request.p,
    )  # fmt: skip


def _score_shares(model: Model, X: Any, y: Any, arguments: Arguments) -> Plan:
    """All coalitions, or those along orders: at most as many different ones as the orders pass."""
    settings = picked(ShapleySettings, arguments)
    request = check_scores(model, X, y, arguments["loss"], settings, picked(Options, arguments))
    task, p, n = request.task, len(request.task.subjects), request.task.n
    m, a_round, first = donors_a_row(task, n), max(1, p * (p - 1)), n + request.method.probed
    least = most = coalition_count(p) - 2
    if not request.by_coalitions:
        rounds_left = np.inf if settings.budget is None else (settings.budget - first) // (a_round * n * m)
        least, most = (min(most, a_round * max(1, min(rounds, rounds_left))) for rounds in (MIN_ROUNDS, MAX_ROUNDS))
    # A coalition takes as long in an order; all of those of some players are rehearsed.
    some = _first(task, SOME_PLAYERS)
    few = _on_few(shapley_importance, model, task, y, arguments | {"features": some, "method": "exact", "budget": None})
    times = max(1.0, least / (coalition_count(len(some)) - 2 or 1))
    least, most = (int(first + many * n * m) for many in (least, most))
    return _of_predictions(
        task, least, most, few, times, power=1 + (m == n), draws=True, kept_bytes=16 * n * m,
        exact=request.by_coalitions and m == n, upper=not request.by_coalitions,
        way="all coalitions, by the model" if request.by_coalitions else "orders",
    )  # fmt: skip


def _shapley_effects(model: Any, X: Any, y: Any, arguments: Arguments) -> Plan:
    """`shapley_effect`: by the way that the call takes, which is timed on some of the explained rows."""
    own = {name: arguments[name] for name in ("rows", "target", "scale", "method", "budget")}
    options = picked(Options, arguments | {"sample_weight": None})
    request = checked_effects(model, X, **own, weight=arguments["sample_weight"], options=options)
    task, r, (way, predictions) = request.task, len(request.rows), effects.choose(request)
    by_model = way in (effects.by_coalitions, effects.by_walks)
    least = most = task.n + predictions - r if by_model else min(task.n, CHECKED)
    walks = way in (effects.by_walks, effects.by_linked_walks)
    if way is effects.by_walks:
        sweeps = (own["budget"] - task.n) // max(1, request.steps) if own["budget"] else effect_walks.FIRST_SWEEPS
        least = task.n + sweeps * request.steps
        most = least if own["budget"] else MOST_PREDICTIONS

    def few(rows: int) -> Callable[[], Any]:
        some = request.rows[np.linspace(0, r - 1, rows).astype(np.intp)]
        of_few = replace(request, rows=some, row_labels=None, budget=None, task=replace(task, progress=False))
        return partial(effects.explain_by, way, rows, of_few)

    return _of_predictions(
        task, least, most, few, n=r, kept_bytes=8 * r * len(request.players), exact=not walks,
        way="walks" if walks else "all coalitions, by the model" if by_model else "by the engine",
        engines=((task.engine if by_model else task.exact).name,) * len(request.players),
    )  # fmt: skip


# What planners share.


def _data(model: Model, X: Any, y: Any, arguments: Arguments) -> tuple[Any, Any, Arguments, loading.Opened | None]:
    """X, y and the arguments, of data in memory; or the data, if they are read in parts."""
    options = picked(Options, arguments)
    X, y, loaded, data = opened(model, X, y, options)
    return X, y, arguments if loaded is options else arguments | {"sample_weight": loaded.sample_weight}, data


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


def _of_cells(task: Task, counted: Plan, few: OnFew, times: float = 1.0) -> Plan:
    """The counts with seconds; of engines in proportion to rows, or to pairs of them where these fill cells."""
    all_pairs = task.design is None or task.design.all_pairs
    fills = all_pairs and any(route(task, subject).way == "cells" for subject in task.subjects)
    return _timed(task, counted, few, times, power=1 + fills)


def _timed(
    task: Task, counted: Plan, few: OnFew, times: float = 1.0, *, power: int = 1, draws: bool = False,
    n: int | None = None, own: float = OWN_WORK,
) -> Plan:  # fmt: skip
    """The counts with seconds: of all predictions in full batches, and of `few`, so many times, for n rows.

    `few` is called for what an engine computes, and where a sampler, a scorer or a search (`draws`) takes longer than
    predictions; not with a slow model. If predictions go on until the result is precise, they are those in the middle.
    """
    seconds, short = 0.0, True
    if by_model := any(task.engine.name in engine.split(", ") for engine in counted.engines):
        predictions = ceil((counted.n_predictions * max(counted.n_predictions, counted.most or 0)) ** 0.5)
        batch = min(predictions, task.engine.rows_a_call(task.n))
        a_batch = rehearse(lambda rows: partial(task.engine.respond, task.engine.replaced_rows(rows)), batch, first=1)
        seconds = predictions * (a_batch / batch + own)
        short = a_batch * FEW / batch < TIME_LIMIT / 2
    if short and (draws or not by_model or set(counted.engines) != {task.engine.name}):
        seconds = max(seconds, times * rehearse(few, n or task.n, power))
    return replace(counted, seconds=seconds)


def _of_predictions(
    task: Task, least: int, most: int | None, few: OnFew, times: float = 1.0, *, power: int = 1, draws: bool = False,
    n: int | None = None, kept_bytes: int = 0, **fields: Any,
) -> Plan:  # fmt: skip
    """The plan of so many predictions in full batches; `kept_bytes` are of the result. For seconds see `_timed`."""
    names = tuple(subject.feature.name for subject in task.subjects)
    batch = max(1, min(least, task.engine.rows_a_call(task.n)))
    usual: Arguments = {"features": names, "engines": (task.engine.name,) * len(names), "calls": ceil(least / batch)}
    memory = kept_bytes + batch * (task.table.row_bytes + 64)
    counted = Plan(n_predictions=least, most=most, memory=memory, backend=task.table.backend, **usual | fields)
    return _timed(task, counted, few, times, power=power, draws=draws, n=n, own=MIXING)


# Several plans together.


def _repeated(plan: Plan, times: float, **fields: Any) -> Plan:
    """The plan of so many calls like this one."""
    counts: Arguments = {name: round(times * (getattr(plan, name) or 0)) for name in ("n_predictions", "calls", "most")}
    return replace(plan, seconds=times * plan.seconds, **counts, **fields)


def _sum(plans: Mapping[str, Plan], more: Sequence[Stage] = (), *, kept: bool = False, **fields: Any) -> Plan:
    """The plan of calls one after the other, by name, and of further stages; `kept`: all results are held at once."""
    first, *_ = plans.values()
    each = [Stage(name, one.seconds, one.n_predictions, one.calls or 0) for name, one in plans.items()]
    most = sum(max(one.n_predictions, one.most or 0) for one in plans.values()) + sum(one.n_predictions for one in more)
    stages = tuple(sorted([*each, *more], key=lambda stage: not stage.fits))  # fits come first
    totals: Arguments = {
        "n_predictions": sum(stage.n_predictions for stage in stages), "calls": sum(stage.calls for stage in stages),
        "seconds": sum(stage.seconds for stage in stages),
        "memory": (sum if kept else max)(one.memory for one in plans.values()),
    }  # fmt: skip
    upper = most == totals["n_predictions"] and (
        any(one.upper for one in plans.values()) or any(one.n_predictions for one in more)
    )
    return replace(first, predictions=None, way=None, stages=stages, most=most, **totals | {"upper": upper} | fields)


def _compared(models: Any, X: Any, y: Any, arguments: Arguments) -> Plan:
    """`compare`: importances and shares of each case."""
    loss, shapley, weight, groups = (arguments[name] for name in ("loss", "shapley", "sample_weight", "groups"))
    cases, loss = checked_cases(models, X, y, loss, shapley, weight, groups)
    shared = picked(Options, arguments | {"sample_weight": None, "groups": None})
    plans: dict[str, Plan] = {}
    for name, case in cases.items():
        rows, options = (case.model, case.X, case.y), case.options(shared)
        each = options_of_each(options, len(cases)).arguments | {"loss": loss}
        plans[f"{name}: importances"] = _by_loss(feature_importance, *rows, each)
        if shapley:
            plans[f"{name}: Shapley shares"] = _by_loss(shapley_importance, *rows, options.arguments | {"loss": loss})
    return _sum(plans, kept=True)


def _reported(model: Any, X: Any, y: Any, arguments: Arguments) -> Plan:
    """`report`: importances, scores and shares of each model, pairs of features of the first, and the page."""
    names = ("models", "loss", "by", "shapley", "interactions", "rows")
    of_report = {name: arguments[name] for name in names}
    models, data, most = checked_report(model, X, y, **of_report, options=picked(Options, arguments))
    by_loss, by_score = (data.options.arguments | {"loss": loss} for loss in (data.loss, data.scorer))
    steps: list[tuple[str, Any, Arguments]] = [("importances", feature_importance, by_loss)]
    steps += [("importances by the score", feature_importance, by_score)] * (data.scorer is not None)
    steps += [("Shapley shares", shapley_importance, by_loss)] * arguments["shapley"]
    plans = {
        f"{name}: {step}": _by_loss(verb, each, data.X, data.y, of_step)
        for step, verb, of_step in steps
        for name, each in models.items()
    }
    table, (first, *_) = as_table(data.X), plans.values()
    named = resolve(data.options.features, table.labels, by_position=table.backend == "numpy")
    chosen = {one.name: [table.labels[j] for j in one.columns] for one in named[:most]}
    paired = affordable_pairs(model, data, chosen, first.n_predictions) if len(chosen) > 1 else None
    if paired is not None:
        plans["pairs of features"] = _pairs(model, data.X, data.y, by_loss | paired.arguments | {"pairs": None})
    more = [] if paired is None else [_pair_map(plans["pairs of features"], table.n)]
    return _sum(plans, [*more, Stage("the page", PAGE + len(first.features) * PAGE_FEATURE)])


def _pair_map(pairs: Plan, n: int) -> Stage:
    """The strongest pair over both features, which is not known yet: of two features with many values."""
    rows = (1 + MOST_BINS**2) * min(n, ROWS_OF_MAP)
    seconds = pairs.seconds * rows / max(pairs.n_predictions, rows)
    return Stage("the strongest pair", seconds, rows, 1 + MOST_BINS)


# Learners.


def _refits(verb: Callable[..., Any], estimator: Any, X: Any, y: Any, arguments: Arguments) -> Plan:
    """Fits and explanations of all folds, of pairs and of permuted targets; from fits on some rows, and one fold."""
    if "permutations" in arguments:
        checks.check_count(arguments["permutations"], "permutations")
    learner, models, times = _learner(estimator, X, y, arguments), list[Any](), 1 + arguments.get("permutations", 0)
    pairs = learner.pairs

    def fit(few: Learner) -> None:
        models[:] = [few.fitted(few.splits[0][0], few.y)]
        classes = getattr(models[0], "classes_", None)
        if classes is not None and len(classes) < len(np.unique(few.y)):
            raise ValueError("these rows lack a class")

    def explain(model: Any, X: Any, y: Any, options: Options) -> Plan:
        of_verb = {name: arguments[name] for name in inspect.signature(verb).parameters if name in arguments}
        return _by_loss(verb, model, X, y, of_verb | options.arguments)

    trained, tested = ([len(pair[side]) for pair in learner.splits] for side in (0, 1))
    rows = times * sum(trained) + sum(trained[first] - tested[second] for first, second in pairs)
    fits = times * len(trained) + len(pairs)
    fitting = Stage("fits", rows * _seconds_a_row(learner, fit), fits=fits)
    with here():
        first: Plan = learner.explained_by(models[0], 0, explain)
    folds = times * sum(tested) / tested[0] + 2 * len(pairs)  # a fit without a pair is explained on both
    explained = _repeated(first, round(folds) if max(tested) - min(tested) <= 1 else folds)
    return _sum({"explanations": explained}, [fitting], fits=fits)


def _good_models(models: Any, X: Any, y: Any, arguments: Arguments) -> Plan:
    """As a comparison; of candidates to fit, so many fits and explanations as those of the first."""
    check_shares(arguments["within"], arguments["margin"])
    options, loss = picked(Options, arguments), arguments["loss"]
    given, fitted = candidates(models, X, y, arguments["train"], loss, options), list[Any]()
    if not isinstance(given, Candidates):
        return _compared(given, X, y, arguments | {"shapley": False})

    def fit(few: Learner) -> None:
        fitted[:] = [few.fitted(few.splits[0][0], few.y)]

    count, (estimator, rows) = len(given.fits), next(iter(given.fits.values()))
    try:
        seconds = len(rows) * _seconds_a_row(replace(given.learner, estimator=estimator), fit)
        given.check(fitted[0])
    except Exception:  # noqa: BLE001 - whatever a learner raises: the call leaves out a fit that fails or lacks a class
        start = perf_counter()
        fitted[:] = [given.first()]
        seconds = perf_counter() - start
    X, y, weight, groups = given.judged
    of_first = options_of_each(options, count).arguments | {"loss": loss, "sample_weight": weight, "groups": groups}
    with here():
        first = _by_loss(feature_importance, fitted[0], X, y, of_first)
    return _sum({"importances": _repeated(first, count)}, [Stage("fits", count * seconds, fits=count)], fits=count)


def _seconds_a_row(learner: Learner, fit: Callable[[Learner], Any]) -> float:
    """Seconds of a fit for each of its rows, from fits on more and more rows of the first fold."""
    train, test = learner.splits[0]

    def on_few(rows: int) -> Callable[[], Any]:
        some = train[np.unique(np.linspace(0, len(train) - 1, rows).astype(np.intp))]
        return partial(fit, replace(learner, splits=((some, test[:: max(1, len(train) // rows)]),)))

    return rehearse(on_few, len(train)) / len(train)


def _learner(estimator: Any, X: Any, y: Any, arguments: Arguments) -> Learner:
    cv, fit_params, variance = arguments["cv"], arguments["fit_params"], arguments.get("variance", "corrected")
    return checked_learner(estimator, X, y, cv, fit_params, picked(Options, arguments), variance)


def _left_out(estimator: Any, X: Any, y: Any, arguments: Arguments) -> Plan:
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


PLANNED: dict[Callable[..., Any], Callable[[Any, Any, Any, Arguments], Plan]] = {
    feature_importance: partial(_by_loss, feature_importance), feature_effect: _effects,
    shapley_importance: partial(_by_loss, shapley_importance),
    shapley_effect: _shapley_effects, pair_interactions: _pairs, conditional_predictive_impact: _conditional,
    compare: _compared, good_models: _good_models, report: _reported, weak_segments: _weak_segments,
    refits.feature_importance_cv: partial(_refits, feature_importance),
    refits.shapley_importance_cv: partial(_refits, shapley_importance),
    refits.permuted_target_test: partial(_refits, feature_importance), refits.leave_one_covariate_out: _left_out,
}  # fmt: skip
