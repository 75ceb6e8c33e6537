"""What a verb would do, before it does it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

from losslens.losses import is_scorer
from losslens.models import Model, as_model
from losslens.passes.auto import effect_design, first_design
from losslens.passes.cost import plan_cells
from losslens.passes.options import Options, picked
from losslens.passes.parts import call
from losslens.passes.parts.stream import Stream
from losslens.passes.scored import score_design
from losslens.passes.task import class_of, default_loss, effect_response, prepare
from losslens.results.plan import Plan
from losslens.shapley.cost import plan_shares
from losslens.shapley.stopping import Wanted
from losslens.tables.loading import Opened
from losslens.verbs.features import feature_effect, feature_importance
from losslens.verbs.shapley import shapley_importance
from losslens.workers import anywhere


def plan(verb: Callable[..., Any], model: Any, X: Any, y: Any = None, **options: Any) -> Plan:
    """What a verb would ask of the model: rows, calls, memory and seconds, from one timed batch.

    Of data that would be read part by part, only their metadata and first rows are looked at.

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
        raise ValueError(f"plan takes a verb first: {names}; got {verb!r}")
    takes = inspect.signature(verb).parameters
    if unknown := options.keys() - takes.keys():
        raise TypeError(f"{verb.__name__} has no argument {min(unknown)!r}")
    wanted = {name: takes[name].default for name in takes if name not in ("model", "X", "y")} | options
    return _planned(model, X, y, verb, **wanted)


@anywhere
def _planned(model: Any, X: Any, y: Any, verb: Callable[..., Any], *, executor: Any, **wanted: Any) -> Plan:
    """The same where the work would be done."""
    return PLANNED[verb](as_model(model), X, y, wanted, picked(Options, wanted))


def _importances(known: Model, X: Any, y: Any, wanted: dict[str, Any], options: Options) -> Plan:
    if is_scorer(wanted["loss"]):
        task = prepare(known, X, None, options, loss=None, response=next(iter(known.responses)), exact=False)
        return plan_cells(task, score_design, task.n)  # the scorer is called once to see what it asks for
    loss = default_loss(known, wanted["loss"])
    data = call.opened(known, X, y, options)
    if data is not None:
        return _in_parts(call.importance_stream(known, data, loss, options), data)
    task = prepare(known, X, y, options, loss=loss, response=loss.reads)
    return plan_cells(task, partial(first_design, blocked=task.blocked))


def _effects(known: Model, X: Any, y: Any, wanted: dict[str, Any], options: Options) -> Plan:
    response, target = effect_response(known), wanted["target"]
    data = call.opened(known, X, None, options)
    if data is not None:
        return _in_parts(call.effect_stream(known, data, response, target, options), data)
    task = prepare(known, X, None, options, loss=None, response=response)
    class_of(task.sample, target, response)
    return plan_cells(task, effect_design)


def _shares(known: Model, X: Any, y: Any, wanted: dict[str, Any], options: Options) -> Plan:
    asked, loss = picked(Wanted, wanted), wanted["loss"]
    data = None if is_scorer(loss) else call.opened(known, X, y, options)
    if data is not None:
        from losslens.shapley import parts  # late: it brings compiled engines along

        return _in_parts(parts.share_stream(known, data, default_loss(known, loss), asked, options), data, parts.run)
    return plan_shares(known, X, y, loss, asked, options)


def _in_parts(stream: Stream, data: Opened, run: Callable[[Stream], Any] | None = None) -> Plan:
    from losslens.passes.parts.cost import plan_stream  # late: it brings compiled engines along

    return plan_stream(stream, data, run)


PLANNED: dict[Callable[..., Any], Callable[..., Plan]] = {
    feature_importance: _importances,
    feature_effect: _effects,
    shapley_importance: _shares,
}
