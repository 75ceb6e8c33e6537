"""`plan`: the cost of a call of a verb, before it is made."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from losslens.losses import is_scorer
from losslens.models import Model, as_model
from losslens.passes.auto import effect_design, first_design
from losslens.passes.cost import plan_cells, plan_scores
from losslens.passes.parts import call
from losslens.passes.parts.stream import Stream
from losslens.passes.task import Options, class_of, default_loss, effect_response, picked, prepare
from losslens.results.plan import Plan
from losslens.shapley.cost import plan_shares
from losslens.shapley.stopping import ShapleySettings
from losslens.tables.loading import Opened
from losslens.tables.sources import as_source
from losslens.verbs.features import effects_of, feature_effect, feature_importance, importances_of
from losslens.verbs.shapley import shapley_importance
from losslens.workers import with_executor


def plan(verb: Callable[..., Any], model: Any, X: Any, y: Any = None, **options: Any) -> Plan:
    """The cost of a call of a verb: predictions, calls of the model, memory and seconds, from one timed batch.

    Of data that would be read in parts, only the metadata and the first rows are read.

    Parameters
    ----------
    verb
        `losslens.feature_importance`, `losslens.feature_effect` or `losslens.shapley_importance`.
    model, X, y, options
        The arguments of that verb, `executor` and `device` included.

    Examples
    --------
    >>> import numpy as np, losslens as ll
    >>> X = np.arange(20.0).reshape(10, 2)
    >>> ll.plan(ll.feature_effect, lambda X: X[:, 0], X).n_predictions
    190
    """
    if verb not in PLANNED:
        names = ", ".join(known.__name__ for known in PLANNED)
        raise ValueError(f"the first argument of plan is one of {names}; got {verb!r}")
    parameters = inspect.signature(verb).parameters
    if unknown := options.keys() - parameters.keys():
        raise TypeError(f"{verb.__name__} has no argument {min(unknown)!r}")
    defaults = {name: parameters[name].default for name in parameters if name not in ("model", "X", "y")}
    return _planned(model, X, y if "y" in parameters else None, verb, **defaults | options)


@with_executor
def _planned(model: Any, X: Any, y: Any, verb: Callable[..., Any], *, executor: Any, **arguments: Any) -> Plan:
    """The plan, made where the verb would run: in this process or on the cluster of `executor`."""
    started = time.perf_counter()
    known, options = as_model(model), picked(Options, arguments)
    data = None
    if not is_scorer(arguments.get("loss")) and (source := as_source(X)) is not None:
        X, data = source, call.opened(known, source, y, options)
    return PLANNED[verb](known, X, y, data, arguments, options, started)


def _importances(
    known: Model, X: Any, y: Any, data: Opened | None, arguments: dict[str, Any], options: Options, started: float
) -> Plan:
    if is_scorer(arguments["loss"]):
        return plan_scores(known, X, y, arguments["loss"], options, started)
    loss = default_loss(known, arguments["loss"])
    if data is not None:
        return _in_parts(call.importance_stream(known, data, loss, options), data)
    task = prepare(known, X, y, options, loss=loss, response=loss.reads)
    rule = partial(first_design, blocked=task.blocked)
    return plan_cells(task, rule, lambda task, asked: importances_of(task, asked, loss)[0], started)


def _effects(
    known: Model, X: Any, y: Any, data: Opened | None, arguments: dict[str, Any], options: Options, started: float
) -> Plan:
    response, target = effect_response(known), arguments["target"]
    if data is not None:
        return _in_parts(call.effect_stream(known, data, response, target, options), data)
    task = prepare(known, X, None, options, loss=None, response=response)
    of = class_of(task.sample, target, response)
    return plan_cells(task, effect_design, lambda task, asked: effects_of(task, asked, of)[0], started)


def _shares(
    known: Model, X: Any, y: Any, data: Opened | None, arguments: dict[str, Any], options: Options, started: float
) -> Plan:
    wanted, loss = picked(ShapleySettings, arguments), arguments["loss"]
    if data is None:
        return plan_shares(known, X, y, loss, wanted, options, started)
    from losslens.shapley import parts  # imports compiled engines

    return _in_parts(parts.share_stream(known, data, default_loss(known, loss), wanted, options), data, parts.run)


def _in_parts(stream: Stream, data: Opened, run: Callable[[Stream], Any] | None = None) -> Plan:
    from losslens.passes.parts.cost import plan_stream  # imports compiled engines

    return plan_stream(stream, data, run)


PLANNED: dict[Callable[..., Any], Callable[..., Plan]] = {
    feature_importance: _importances,
    feature_effect: _effects,
    shapley_importance: _shares,
}
