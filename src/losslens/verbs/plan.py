"""`plan`: the cost of a call of a verb, before it is made."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from losslens.donors.designs import Design
from losslens.losses import is_scorer
from losslens.models import Model, as_model
from losslens.passes.auto import effect_design, first_design
from losslens.passes.cost import plan_cells, plan_scores
from losslens.passes.parts import call
from losslens.passes.parts.stream import Stream
from losslens.passes.task import Options, Task, class_of, default_loss, effect_response, picked, prepare
from losslens.results.plan import Plan
from losslens.shapley.cost import plan_shares
from losslens.shapley.stopping import ShapleySettings
from losslens.tables import checks
from losslens.tables.frames import as_table
from losslens.tables.loading import Opened
from losslens.tables.sources import as_source
from losslens.verbs.features import effects_of, feature_effect, feature_importance, importances_of
from losslens.verbs.shapley import shapley_importance
from losslens.workers import with_executor

VALUES, MOST, FEWEST = 500_000, 200_000, 2_000  # values and rows of a table that a plan looks at, and rows at least


def plan(verb: Callable[..., Any], model: Any, X: Any, y: Any = None, **options: Any) -> Plan:
    """The cost of a call of a verb: predictions, calls of the model, memory and seconds.

    The model is timed in a few calls, and the rest of the work is rehearsed on few rows: a plan takes less than a
    second, or as long as two calls of the model on 16 rows, if that is longer. Of data that would be read in parts,
    only the metadata and the first rows are read; of a table of millions of values, some rows.

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
    rows = _Rows(X, y, options, None, started)
    if data is None and as_source(X) is None:
        rows = _looked_at(rows)
    return PLANNED[verb](known, data, arguments, rows)


@dataclass(frozen=True)
class _Rows:
    """The rows that a plan looks at, of n rows."""

    X: Any
    y: Any
    options: Options
    n: int | None
    started: float
    design: Design | None = None  # that of all rows, where some rows have too few donors for it

    def restored(self, task: Task) -> Task:
        """The task with the design of all rows."""
        return task if self.design is None else replace(task, design=self.design)


def _looked_at(rows: _Rows) -> _Rows:
    """Of a large table evenly spaced rows, so that a plan takes no longer than of a small one."""
    table, options = as_table(rows.X), rows.options
    most = max(FEWEST, min(MOST, VALUES // len(table.names)))
    if table.n <= most:
        return replace(rows, n=table.n)
    at = np.unique(np.linspace(0, table.n - 1, most).astype(np.intp))

    def some(values: Any, name: str) -> Any:
        return None if values is None else checks.vector(values, table.n, name, table.index)[at]

    weight, design = some(options.sample_weight, "sample_weight"), options.donors
    if weight is not None and np.count_nonzero(weight) < 2:
        weight = None
    options = replace(options, sample_weight=weight, groups=some(options.groups, "groups"))
    if isinstance(design, Design) and (design.m or 0) >= len(at):
        drawn: Any = design
        options = replace(options, donors=replace(drawn, m=1))
    else:
        design = None
    return _Rows(table.at(at), some(rows.y, "y"), options, table.n, rows.started, design)


def _importances(known: Model, data: Opened | None, arguments: dict[str, Any], rows: _Rows) -> Plan:
    X, y, options = rows.X, rows.y, rows.options
    if is_scorer(arguments["loss"]):
        return plan_scores(known, X, y, arguments["loss"], options, rows.started, rows.n)
    loss = default_loss(known, arguments["loss"])
    if data is not None:
        return _in_parts(call.importance_stream(known, data, loss, options), data)
    task = rows.restored(prepare(known, X, y, options, loss=loss, response=loss.reads))
    rule = partial(first_design, blocked=task.blocked)
    return plan_cells(task, rule, lambda task, asked: importances_of(task, asked, loss)[0], rows.started, rows.n)


def _effects(known: Model, data: Opened | None, arguments: dict[str, Any], rows: _Rows) -> Plan:
    options = rows.options
    response, target = effect_response(known), arguments["target"]
    if data is not None:
        return _in_parts(call.effect_stream(known, data, response, target, options), data)
    task = rows.restored(prepare(known, rows.X, None, options, loss=None, response=response))
    of = class_of(task.sample, target, response)
    return plan_cells(task, effect_design, lambda task, asked: effects_of(task, asked, of)[0], rows.started, rows.n)


def _shares(known: Model, data: Opened | None, arguments: dict[str, Any], rows: _Rows) -> Plan:
    wanted, loss, options = picked(ShapleySettings, arguments), arguments["loss"], rows.options
    if data is None:
        return plan_shares(known, rows.X, rows.y, loss, wanted, options, rows.started, rows.n, rows.restored)
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
