"""Plans of one model on one table: importances, effects and shares, of which the plans of other verbs consist."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from losslens.donors.designs import Design
from losslens.engines.choice import CHECKED
from losslens.losses import Loss, OutputsLoss, is_scorer
from losslens.models import Model, as_model, one_output
from losslens.passes import in_common
from losslens.passes.auto import effect_design, first_design
from losslens.passes.cost import CountedCells, count_cells, plan_cells, plan_scores
from losslens.passes.dispatch import Asked
from losslens.passes.importances import importances_of
from losslens.passes.parts import call
from losslens.passes.parts.stream import Stream
from losslens.passes.task import Options, Task, class_of, default_loss, effect_of, prepare
from losslens.results.importance import FeatureImportance
from losslens.results.plan import Plan
from losslens.shapley.cost import plan_score_shares, plan_shares
from losslens.shapley.stopping import ShapleySettings
from losslens.tables import checks, loading
from losslens.tables.frames import as_table
from losslens.tables.loading import Opened
from losslens.tables.sources import BATCH_ROWS, as_source
from losslens.verbs.features import effects_of

VALUES, MOST, FEWEST = 500_000, 200_000, 2_000  # values and rows of a table that a plan looks at, and rows at least
LOADED = 1 << 26  # bytes of files above which only first rows are loaded


def importances_cost(
    model: Any,
    X: Any,
    y: Any,
    loss: Any,
    options: Options,
    further: Callable[[Sequence[FeatureImportance]], Any] | None = None,
) -> Plan:
    """The plan of `importances`; `further` is what else is computed of them."""
    known = as_model(model)
    if is_scorer(loss):
        rows = rows_of_table(X, y, options, time.thread_time())
        return plan_scores(known, rows.X, rows.y, loss, rows.options, rows.started, rows.n, rows.restored)
    chosen = default_loss(known, loss, y)
    by_output = _by_output(known, y, chosen, lambda one, y, of: importances_cost(one, X, y, of, options, further))
    if by_output is not None:
        return by_output
    rows = _looked_at(known, X, y, options)
    if rows.data is not None:
        return _in_parts(call.importance_stream(known, rows.data, chosen, options), rows.data)
    task = rows.restored(prepare(known, rows.X, rows.y, rows.options, loss=chosen, response=chosen.reads))
    if further is not None:  # of pairs
        task = in_common.by_cells(task)

    def build(task: Task, asked: Sequence[Asked]) -> Sequence[FeatureImportance]:
        found = importances_of(task, asked)[0]
        if further is not None:
            further(found)
        return found

    return plan_cells(task, partial(first_design, blocked=task.blocked), build, rows.started, rows.n)


def _by_output(model: Model, y: Any, loss: Loss, plan: Callable[..., Plan]) -> Plan | None:
    """The plan of a mean over outputs that engines compute one after another; None where the model is asked."""
    if not isinstance(loss, OutputsLoss) or not loss.each:
        return None
    of_one = y if checks.output_names(y) is None else np.asarray(y)[:, 0]
    times = len(loss.outputs)
    first = plan(one_output(model, 0, times), of_one, loss.each[0])
    if any(first.predictions or ()) or first.n_predictions > CHECKED:  # an engine is compared with the model on some
        return None
    return replace(
        first, n_predictions=times * first.n_predictions, calls=times * (first.calls or 0),
        memory=times * first.memory, seconds=times * first.seconds,
    )  # fmt: skip


def importances_count(model: Any, X: Any, y: Any, loss: Loss, options: Options) -> CountedCells:
    """The cells of importances of a table, without any time."""
    task = prepare(model, X, y, options, loss=loss, response=loss.reads)
    return count_cells(task, partial(first_design, blocked=task.blocked), task.n)


def effects_cost(model: Any, X: Any, target: Any, options: Options) -> Plan:
    """The plan of `feature_effect`."""
    known, response = effect_of(as_model(model), target)
    rows = _looked_at(known, X, None, options)
    if rows.data is not None:
        return _in_parts(call.effect_stream(known, rows.data, response, target, options), rows.data)
    task = rows.restored(prepare(known, rows.X, None, rows.options, loss=None, response=response))
    of = class_of(task.sample, target, response)
    return plan_cells(task, effect_design, lambda task, asked: effects_of(task, asked, of)[0], rows.started, rows.n)


def shares_cost(model: Any, X: Any, y: Any, loss: Any, wanted: ShapleySettings, options: Options) -> Plan:
    """The plan of `shapley_importance`."""
    known = as_model(model)
    if is_scorer(loss):
        rows = rows_of_table(X, y, options, time.thread_time())
        return plan_score_shares(known, rows.X, rows.y, loss, wanted, rows.options, rows.started, rows.n, rows.restored)
    chosen = default_loss(known, loss, y)
    by_output = _by_output(known, y, chosen, lambda one, y, of: shares_cost(one, X, y, of, wanted, options))
    if by_output is not None:
        return by_output
    rows = _looked_at(known, X, y, options)
    if rows.data is None:
        return plan_shares(known, rows.X, rows.y, loss, wanted, rows.options, rows.started, rows.n, rows.restored)
    from losslens.shapley import parts  # imports compiled engines

    stream = parts.share_stream(known, rows.data, chosen, wanted, options)
    return _in_parts(stream, rows.data, parts.run)


def _in_parts(stream: Stream, data: Opened, run: Callable[[Stream], Any] | None = None) -> Plan:
    from losslens.passes.parts.cost import plan_stream  # imports compiled engines

    return plan_stream(stream, data, run)


# The rows that a plan looks at.


@dataclass(frozen=True)
class PlannedRows:
    """Some of n rows; or data that are read in parts."""

    X: Any
    y: Any
    options: Options
    n: int
    started: float  # time of this thread when its preparation began; earlier by the time that it waited for files
    design: Design | None = None  # that of all rows, where some rows have too few donors for it
    data: Opened | None = None

    def restored(self, task: Task) -> Task:
        """The task with the design of all rows."""
        return task if self.design is None else replace(task, design=self.design)


def _looked_at(known: Model, X: Any, y: Any, options: Options) -> PlannedRows:
    """All rows or some, in memory or in files; of large files that would be loaded, the first ones."""
    started, source = time.thread_time(), as_source(X)
    if source is None:
        return rows_of_table(X, y, options, started)
    data, began = loading.opened(known, source, y, options.sample_weight), time.perf_counter()
    if loading.streams(data, options.memory):
        return PlannedRows(source, y, options, data.n, started, data=data)
    first = source.cut(BATCH_ROWS).parts[0]
    if data.size > LOADED and first.rows >= FEWEST and options.groups is None:
        y = None if data.y is None else data.y[: first.rows]
        data = replace(data, source=replace(source, parts=(first,)), y=y)
    X, y, weight = data.load()
    waited = time.perf_counter() - began - (time.thread_time() - started)
    return rows_of_table(X, y, replace(options, sample_weight=weight), started - max(0.0, waited), source.n)


def rows_of_table(X: Any, y: Any, options: Options, started: float, n: int | None = None) -> PlannedRows:
    """Of a large table evenly spaced rows, so that a plan takes no longer than of a small one; n: rows in all."""
    table = as_table(X)
    n, most = table.n if n is None else n, max(FEWEST, min(MOST, VALUES // len(table.names)))
    if n <= most and table.n == n:
        return PlannedRows(X, y, options, n, started)
    began = time.thread_time()  # the call takes no rows
    at = np.unique(np.linspace(0, table.n - 1, min(most, table.n)).astype(np.intp))

    def some(values: Any, name: str) -> Any:
        if name == "y" and checks.output_names(values) is not None:
            return as_table(values).at(at).native
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
    X, y = table.at(at), some(y, "y")
    return PlannedRows(X, y, options, n, started + time.thread_time() - began, design)
