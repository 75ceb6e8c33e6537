"""`plan`: the cost of a call of a verb, before it is made."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from math import ceil
from typing import Any

import numpy as np

from losslens.donors.conditional import bound
from losslens.donors.designs import Latin
from losslens.engines import rates
from losslens.engines.blackbox import TIMED
from losslens.losses import is_scorer, names_of
from losslens.models import as_model
from losslens.passes import in_common
from losslens.passes.auto import FIXED_DONORS
from losslens.passes.cost import DRAWN_ROWS, REHEARSED, StandIn, allowed, fitted_rates, hurried, spread, thinned
from losslens.passes.task import Options, default_loss, picked
from losslens.progress import silent
from losslens.refits.cost import timed_fits
from losslens.refits.learner import Learner
from losslens.refits.learner import learner as checked_learner
from losslens.refits.leave_out import as_estimator, leave_out_fits
from losslens.results.importance import FeatureImportance
from losslens.results.plan import Plan, Stage
from losslens.rows.segments import MOST_ROWS
from losslens.shapley.cost import plan_effects
from losslens.shapley.effects import explained_rows
from losslens.shapley.setup import set_up
from losslens.shapley.stopping import ShapleySettings
from losslens.tables import checks
from losslens.tables.features import resolve
from losslens.tables.frames import as_table
from losslens.verbs.compare import checked_cases, compare, options_of_each
from losslens.verbs.conditional import checked_task, conditional_predictive_impact, mean_changes
from losslens.verbs.costs import effects_cost, importances_cost, rows_of_table, shares_cost
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
from losslens.verbs.rows import clusters, extrapolation, observations, regions
from losslens.verbs.segments import checked_segments, segments_of, weak_segments
from losslens.verbs.shapley import checked_effects, shapley_effect, shapley_importance
from losslens.verbs.time_blocks import time_blocks
from losslens.workers import active, here, packed_size, with_executor

SECONDS = 0.8  # of a plan that consists of several, about
ONE_PLAN = 0.6  # seconds of one of them, if it takes its time
EXPLAINED, PAIRED = 2_000, 60  # rows to explain, and single features and pairs, that a plan looks at
SEARCHED_ROWS = 200  # of a first rehearsal of a search for segments
AGAIN = 0.1  # seconds of a plan of a fold that is made twice

Arguments = dict[str, Any]


def plan(verb: Callable[..., Any], model: Any, X: Any, y: Any = None, **options: Any) -> Plan:
    """The cost of a call of a verb: predictions, fits, calls of the model, memory and seconds.

    The model is timed in a few calls, and the rest of the work is rehearsed on few rows: a plan takes less than a
    second, or as long as two calls of the model on 16 rows, if that is longer. Of data that would be read in parts,
    only the metadata and the first rows are read; of a table of millions of values, some rows. A learner is fitted on
    some of the rows, at least once (64 rows, or two a column), and the time of a fit on all of them is extrapolated:
    ``timed_rows`` says from how many.

    Parameters
    ----------
    verb
        Any verb that takes a model or an estimator, such as `losslens.shapley_importance`, `losslens.report` or
        `losslens.feature_importance_cv`. Those that take a finished result predict nothing, and have no plan.
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
    if verb in OF_RESULTS:
        return f"{verb.__name__} makes no predictions: there is nothing to plan"
    names = ", ".join(known.__name__ for known in PLANNED)
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
    found = {name: parameter.default for name, parameter in named.items()} | options
    if missing := [name for name, value in found.items() if value is inspect.Parameter.empty]:
        raise TypeError(f"{verb.__name__} needs the argument {missing[0]!r}: pass {missing[0]}=")
    return {"executor": None} | found


@with_executor
def _planned(model: Any, X: Any, y: Any, verb: Callable[..., Any], *, executor: Any, **arguments: Any) -> Plan:
    """The plan, made where the verb would run: in this process or on the cluster of `executor`."""
    return PLANNED[verb](model, X, y, arguments)


# One model on one table.


def _importances(model: Any, X: Any, y: Any, given: Arguments) -> Plan:
    options = picked(Options, given)
    return _of_losses(lambda loss: importances_cost(model, X, y, loss, options), given["loss"])


def _of_losses(plan_of: Callable[[Any], Plan], loss: Any) -> Plan:
    """The plan of a call with one loss, or with each of several; where they share predictions it is an upper bound."""
    if not isinstance(loss, (list, tuple)):
        return plan_of(loss)
    named = names_of(loss)
    parts = _PlansTogether(len(named))
    for name, one in named.items():
        parts.add(name, partial(plan_of, one))
    return parts.together(memory=sum(one.memory for one in parts.plans), upper=True)


def _effects(model: Any, X: Any, y: Any, given: Arguments) -> Plan:
    return effects_cost(model, X, given["target"], picked(Options, given))


def _shares(model: Any, X: Any, y: Any, given: Arguments) -> Plan:
    settings, options = picked(ShapleySettings, given), picked(Options, given)
    return _of_losses(lambda loss: shares_cost(model, X, y, loss, settings, options), given["loss"])


def _shapley_effects(model: Any, X: Any, y: Any, given: Arguments) -> Plan:
    some, explained, times = rows_of_table(X, None, picked(Options, given), time.thread_time()), given["rows"], 1.0
    if some.X is not X:  # positions are those of all rows
        explained, times = explained_rows(as_table(X), explained, EXPLAINED)
    options, weight = replace(some.options, sample_weight=None), some.options.sample_weight
    asked = (given["target"], given["method"], given["budget"], weight, options)
    request = checked_effects(model, some.X, explained, *asked)
    return plan_effects(request, some.started, some.n, some.design, times)


def _pairs(model: Any, X: Any, y: Any, given: Arguments) -> Plan:
    table = as_table(X)
    wanted = wanted_pairs(table, given["features"], given["pairs"])
    alone, together = list(wanted.alone), list(wanted.columns)
    step = ceil(len(wanted.features) / PAIRED)
    some = {name: wanted.features[name] for name in (*alone[::step], *together[::step])}
    options = picked(Options, given | {"features": some})  # the same donors for all cost as much as others
    cost = partial(importances_cost, model, table, y, given["loss"], further=_split(model, given["loss"]))
    found = cost(options)
    if found.grows:  # the pairs have a fixed number of donors
        found = cost(replace(options, donors=Latin(FIXED_DONORS)))
    if step == 1:
        return found
    at = [k // step for k in range(len(alone))] + [len(alone[::step]) + k // step for k in range(len(together))]
    times = len(at) / len(some)
    every: Any = {name: tuple(getattr(found, name)[k] for k in at) for name in ("engines", "designs", "predictions")}
    grows = tuple(name for name, k in zip(wanted.features, at, strict=True) if found.features[k] in (found.grows or ()))
    counts = {name: ceil(times * getattr(found, name)) for name in ("n_predictions", "calls", "memory")}
    return replace(
        found, features=tuple(wanted.features), grows=grows, seconds=times * found.seconds, **every, **counts
    )


def _split(model: Any, loss: Any) -> Callable[[Sequence[FeatureImportance]], None] | None:
    """What is computed of the cells of as many pairs as there are importances, about."""
    if is_scorer(loss):
        return None
    known = as_model(model)
    return partial(in_common.rehearse, scale=in_common.adding_scale(known, default_loss(known, loss))[0])


def _conditional(model: Any, X: Any, y: Any, given: Arguments) -> Plan:
    """Draws and losses of some features, on more and more rows, with a stand-in for the model."""
    started, sampler, draws, options = time.thread_time(), given["sampler"], given["draws"], picked(Options, given)
    some = rows_of_table(X, y, options, started)
    task = checked_task(model, some.X, some.y, sampler, given["loss"], draws, some.options)
    n, p = some.n, len(task.subjects)
    total = n * (1 + draws * p)
    seconds, batch = n / task.n * (time.thread_time() - started), min(total, task.engine.rows_a_call(n), n)
    with here():
        timed = task.engine.timed(batch, allowed(TIMED))
        seen: list[Any] = []
        few_rows, began = min(task.n, DRAWN_ROWS), time.perf_counter()
        while True:
            few = thinned(task, few_rows, StandIn(timed.predictions))
            setup, design = set_up(few, None, silent), bound(sampler, few.table, few.sample.weight)
            before = time.thread_time()
            mean_changes(few, setup, few.subjects[len(seen) * 7 % p], design, draws, silent)
            took = time.thread_time() - before
            seen.append((np.array([1.0, few.n]), took))
            if time.perf_counter() - began + 2 * took > allowed(REHEARSED) or len(seen) > p:
                break
            few_rows = min(task.n, 2 * few_rows)
    each = float(np.array([1.0, n]) @ fitted_rates(seen))
    threads, predicting = spread(task, timed.seconds(ceil(n / batch) * (1 + draws * p), total), total)
    return Plan(
        features=tuple(subject.feature.name for subject in task.subjects),
        engines=(task.engine.name,) * p,
        designs=(f"{sampler!r}, {draws} draw{'s' * (draws != 1)}",) * p,
        predictions=(n * draws,) * p,
        n_predictions=total,
        calls=ceil(n / batch) * (1 + draws * p),
        memory=8 * n * (p + 3 * draws) + batch * (task.table.row_bytes + 64),
        complete=True,
        seconds=seconds + p * each + predicting,
        grows=(),
        backend=task.table.backend,
        workers=threads,
    )


def _weak_segments(model: Any, X: Any, y: Any, given: Arguments) -> Plan:
    """Every row is predicted once; the search is rehearsed on more and more rows, up to as many as it looks at."""
    started, options = time.thread_time(), picked(Options, given)
    some = rows_of_table(X, y, options, started)
    task = checked_segments(model, some.X, some.y, given["loss"], given["level"], given["depth"], some.options)
    n, p, known = some.n, len(task.table.names), task.loss
    assert known is not None  # `checked_segments` has chosen one
    seconds, batch = n / task.n * (time.thread_time() - started), min(n, task.engine.rows_a_call(n))
    with here():
        timed = task.engine.timed(batch, allowed(TIMED))
        seen: list[Any] = []
        few_rows, began = min(task.n, SEARCHED_ROWS), time.perf_counter()
        while True:
            before = time.thread_time()
            few = thinned(task, few_rows, StandIn(timed.predictions))
            sample = set_up(few, None, silent).sample
            quiet = replace(options, progress=False)
            segments_of(few.table, sample, known, given["level"], given["depth"], options=quiet)
            took = time.thread_time() - before
            seen.append((np.array([1.0, few.n]), took))
            if few_rows == task.n or time.perf_counter() - began + 2 * took > allowed(REHEARSED):
                break
            few_rows = min(task.n, 2 * few_rows)
    searching = float(np.array([1.0, min(n, 2 * MOST_ROWS)]) @ fitted_rates(seen))
    calls = ceil(n / batch)
    threads, predicting = spread(task, timed.seconds(calls, n), n)
    return Plan(
        features=task.table.names,
        engines=(task.engine.name,) * p,
        way="found on one half, judged on the other",
        exact=False,
        n_predictions=n,
        calls=calls,
        memory=n * (8 * (p + 6) + 64) + batch * task.table.row_bytes,
        seconds=seconds + searching + predicting,
        backend=task.table.backend,
        workers=threads,
    )


# Several plans together.


@dataclass(eq=False)
class _PlansTogether:
    """Plans that are made one after the other, in about a second: each gets its share of the time that is left."""

    count: int
    began: float = field(default_factory=time.perf_counter)
    stages: list[Stage] = field(default_factory=list)
    plans: list[Plan] = field(default_factory=list)

    @contextmanager
    def share(self) -> Iterator[None]:
        """The time of the next one."""
        left = SECONDS - (time.perf_counter() - self.began)
        with hurried(min(1.0, max(0.02, left / ONE_PLAN / max(1, self.count)))):
            yield
        self.count -= 1

    def add(self, name: str, cost: Callable[[], Plan]) -> Plan:
        """The next plan."""
        with self.share():
            found = cost()
        self.plans.append(found)
        self.stages.append(Stage(name, found.seconds, found.n_predictions, found.calls or 0))
        return found

    def together(self, **more: Any) -> Plan:
        """The plan of the whole call, with the features of the first."""
        first, stages = self.plans[0], self.stages
        n_predictions = sum(stage.n_predictions for stage in stages)
        most = n_predictions + sum(max(0, (one.most or 0) - one.n_predictions) for one in self.plans)
        return Plan(
            **{
                "features": first.features,
                "engines": first.engines,
                "designs": first.designs,
                "n_predictions": n_predictions,
                "most": most,
                "upper": any(one.upper for one in self.plans) and most == n_predictions,
                "calls": sum(stage.calls for stage in stages),
                "memory": max(one.memory for one in self.plans),
                "seconds": sum(stage.seconds for stage in stages),
                "grows": first.grows,
                "backend": first.backend,
                "workers": max(one.workers for one in self.plans),
                "stages": tuple(stages),
            }
            | more
        )


def _compared(models: Any, X: Any, y: Any, given: Arguments) -> Plan:
    shapley, weight = given["shapley"], given["sample_weight"]
    cases, loss = checked_cases(models, X, y, given["loss"], shapley, weight, given["groups"])
    shared = replace(picked(Options, given | {"sample_weight": None, "groups": None}))
    parts = _PlansTogether(len(cases) * (1 + shapley))
    for name, case in cases.items():
        options = case.options(shared)
        alone = options_of_each(options, len(cases))
        parts.add(f"{name}: importances", partial(importances_cost, case.model, case.X, case.y, loss, alone))
        if shapley:
            share = partial(shares_cost, case.model, case.X, case.y, loss, ShapleySettings(), options)
            parts.add(f"{name}: Shapley shares", share)
    return parts.together(memory=sum(one.memory for one in parts.plans))


def _reported(model: Any, X: Any, y: Any, given: Arguments) -> Plan:
    shapley, asked = given["shapley"], {name: given[name] for name in ("models", "loss", "by", "interactions", "rows")}
    models, data, most = checked_report(model, X, y, **asked, shapley=shapley, options=picked(Options, given))
    scored = data.scorer is not None
    parts = _PlansTogether(len(models) * (1 + shapley + scored) + 1)
    call = (data.X, data.y, data.loss)
    for name, each in models.items():
        parts.add(f"{name}: importances", partial(importances_cost, each, *call, data.options))
    for name, each in models.items() if scored else ():
        scores = partial(importances_cost, each, data.X, data.y, data.scorer, data.options)
        parts.add(f"{name}: importances by the score", scores)
    for name, each in models.items() if shapley else ():
        parts.add(f"{name}: Shapley shares", partial(shares_cost, each, *call, ShapleySettings(), data.options))
    table, p = as_table(data.X), len(parts.plans[0].features)
    named = resolve(data.options.features, table.labels, by_position=table.backend == "numpy")
    chosen = {one.name: [table.labels[j] for j in one.columns] for one in named[:most]}
    paired = affordable_pairs(model, data, chosen, parts.plans[0].n_predictions) if len(chosen) > 1 else None
    if paired is not None:
        parts.add("pairs of features", lambda: _pairs(model, data.X, data.y, given | vars(paired) | {"pairs": None}))
    page, n = rates.PAGE, min(table.n, rates.PAGE_ROWS)
    parts.stages.append(Stage("the page", page["report"] + p * (page["feature"] + n * page["value"])))
    return parts.together()


# Learners.


def _refits(known: Learner, explain: Callable[..., Plan], times: int = 1) -> Plan:
    """Fits and explanations of all folds, so many times, and of pairs; from fits on some rows, and the first fold."""
    parts, cluster, pairs = _PlansTogether(1), active(), known.pairs
    with here():  # a fold is one task
        fit = timed_fits(known, lambda few: few.fitted(few.splits[0][0], few.y))
    trained, tested = ([len(pair[side]) for pair in known.splits] for side in (0, 1))
    fitted_on = [*times * trained, *(trained[first] - tested[second] for first, second in pairs)]
    fits, fitting = len(fitted_on), sum(fit.seconds(rows) for rows in fitted_on)
    parts.stages.append(Stage("fits", fitting, fits=fits))

    def explained() -> Plan:
        began = time.perf_counter()
        with here():
            one: Plan = known.explained_by(fit.result, 0, explain)
            if fits > 2 and time.perf_counter() - began < AGAIN:  # what happens once does not happen in every fold
                one = known.explained_by(fit.result, 0, explain)
        usual = 1.0 if max(tested) - min(tested) <= 1 else sum(tested) / len(tested) / tested[0]
        folds = usual * (times * len(tested) + 2 * len(pairs))  # a fit without a pair is explained on both
        counts = {name: round(folds * getattr(one, name)) for name in ("n_predictions", "calls")}
        most = None if one.most is None else round(folds * one.most)
        return replace(one, seconds=folds * one.seconds, most=most, **counts)

    plan = parts.add("explanations", explained)
    seconds, threads = fitting + plan.seconds, 0
    if cluster is not None:
        threads, tasks = cluster.threads, len(known.splits) + len(pairs) if times == 1 else times
        seconds = rates.on_a_cluster(seconds, tasks, threads, packed_size(known, cluster))
    timed_rows = fit.rows[-1] if fit.rows[-1] < trained[0] else None
    return parts.together(fits=fits, seconds=seconds, workers=threads, timed_rows=timed_rows)


def _learner(estimator: Any, X: Any, y: Any, given: Arguments) -> Learner:
    variance = given.get("variance", "corrected")
    return checked_learner(estimator, X, y, given["cv"], given["fit_params"], picked(Options, given), variance)


def _importances_cv(estimator: Any, X: Any, y: Any, given: Arguments) -> Plan:
    explain = partial(importances_cost, loss=given["loss"])
    return _refits(_learner(estimator, X, y, given), explain)


def _shares_cv(estimator: Any, X: Any, y: Any, given: Arguments) -> Plan:
    explain = partial(shares_cost, loss=given["loss"], wanted=picked(ShapleySettings, given))
    return _refits(_learner(estimator, X, y, given), explain)


def _permuted_targets(estimator: Any, X: Any, y: Any, given: Arguments) -> Plan:
    checks.check_whole(given["permutations"], "permutations")
    explain = partial(importances_cost, loss=given["loss"])
    return _refits(_learner(estimator, X, y, given), explain, 1 + given["permutations"])


def _left_out(estimator: Any, X: Any, y: Any, given: Arguments) -> Plan:
    """Fits, predictions and losses of the first fold, as often as there are folds and features, and one more."""
    how, loss, cluster = given["how"], given["loss"], active()
    check_how(how)
    known = _learner(as_estimator(estimator), X, y, given)
    fits_without = leave_out_fits(known, given["features"], how, loss)
    left = fits_without.left
    trained, predicted = [len(train) for train, _ in known.splits], fits_without.tested

    def first(few: Learner) -> Any:
        """On some rows; as many of all tested ones are predicted as there are training rows of all of these."""
        train = few.splits[0][0]
        splits = ((train, predicted[:: max(1, trained[0] // len(train))]),)
        return replace(fits_without, known=replace(few, splits=splits)).one((0, 0), silent)

    with here():
        fit = timed_fits(known, first)
    fits = (1 + len(left)) * len(known.splits)
    seconds, threads = (1 + len(left)) * sum(fit.seconds(rows) for rows in trained), 0
    if cluster is not None:
        threads = cluster.threads
        seconds = rates.on_a_cluster(seconds, fits, threads, packed_size(known, cluster))
    predictions = fits * len(predicted)
    table = known.table
    return Plan(
        features=tuple(one.name for one in left),
        engines=("blackbox",) * len(left),
        n_predictions=predictions,
        calls=fits,
        memory=table.n * (8 * (2 + 4 * len(left)) + 2 * table.row_bytes),
        seconds=seconds,
        backend=table.backend,
        workers=threads,
        stages=(Stage("fits and predictions", seconds, predictions, fits, fits),),
        fits=fits,
        timed_rows=fit.rows[-1] if fit.rows[-1] < trained[0] else None,
    )


PLANNED: dict[Callable[..., Any], Callable[[Any, Any, Any, Arguments], Plan]] = {
    feature_importance: _importances,
    feature_effect: _effects,
    shapley_importance: _shares,
    shapley_effect: _shapley_effects,
    pair_interactions: _pairs,
    conditional_predictive_impact: _conditional,
    compare: _compared,
    report: _reported,
    weak_segments: _weak_segments,
    feature_importance_cv: _importances_cv,
    shapley_importance_cv: _shares_cv,
    permuted_target_test: _permuted_targets,
    leave_one_covariate_out: _left_out,
}
OF_RESULTS = (regions, clusters, observations, extrapolation, time_blocks)
