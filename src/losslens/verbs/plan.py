"""What a verb would do, before it does it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from math import ceil
from typing import TYPE_CHECKING, Any

from losslens.donors.conditional import BoundSampler
from losslens.donors.designs import All, Design, Grid
from losslens.donors.questions import Question, Subject, pose
from losslens.engines import rates
from losslens.engines.additive import Additive
from losslens.engines.choice import CHECKED
from losslens.engines.kernel_machines import Products
from losslens.engines.kernel_machines import cost as products
from losslens.losses import is_scorer
from losslens.models import Model, as_model
from losslens.passes import steps
from losslens.passes.auto import effect_design, importance_design
from losslens.passes.dispatch import exact_for, who
from losslens.passes.options import Options, picked
from losslens.passes.parts import call
from losslens.passes.scored import score_design
from losslens.passes.task import Task, class_of, default_loss, effect_response, prepare
from losslens.results.plan import Plan
from losslens.shapley.cost import ShapleyPlan, plan_importance, spread
from losslens.shapley.stopping import Wanted
from losslens.verbs import features
from losslens.verbs.shapley import shapley_importance
from losslens.workers import active, anywhere

if TYPE_CHECKING:
    from losslens.passes.parts.cost import StreamPlan

VERBS: tuple[Callable[..., Any], ...] = (features.feature_importance, features.feature_effect, shapley_importance)
TIMED = 200  # rows of trees that are walked to see how long it takes


def plan(
    verb: Callable[..., Any], model: Any, X: Any, y: Any = None, **options: Any
) -> Plan | ShapleyPlan | StreamPlan:
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
    if verb not in VERBS:
        names = ", ".join(known.__name__ for known in VERBS)
        raise ValueError(f"plan takes a verb first: {names}; got {verb!r}")
    takes = inspect.signature(verb).parameters
    if unknown := options.keys() - takes.keys():
        raise TypeError(f"{verb.__name__} has no argument {min(unknown)!r}")
    wanted = {name: takes[name].default for name in takes if name not in ("model", "X", "y")} | options
    return _planned(model, X, y, verb, **wanted)


@anywhere
def _planned(
    model: Any, X: Any, y: Any, verb: Callable[..., Any], *, executor: Any, **wanted: Any
) -> Plan | ShapleyPlan | StreamPlan:
    """The same where the work would be done."""
    known, options = as_model(model), picked(Options, wanted)
    streamed = _streamed(known, X, y, verb, wanted, options)
    if streamed is not None:
        return streamed
    if verb is shapley_importance:
        return plan_importance(model, X, y, wanted["loss"], picked(Wanted, wanted), options)
    if verb is features.feature_effect:
        response = effect_response(known)
        task = prepare(known, X, None, options, loss=None, response=response)
        class_of(task.sample, wanted["target"], response)
        return _cost(task, effect_design, 0)
    if is_scorer(wanted["loss"]):
        task = prepare(known, X, None, options, loss=None, response=next(iter(known.responses)), exact=False)
        return _cost(task, score_design, task.n)  # the scorer is called once to see what it asks for
    chosen = default_loss(known, wanted["loss"])
    task = prepare(known, X, y, options, loss=chosen, response=chosen.reads)
    return _cost(task, lambda subject, _: importance_design(subject, task.sample), 0)


def _streamed(
    known: Model, X: Any, y: Any, verb: Callable[..., Any], wanted: dict[str, Any], options: Options
) -> StreamPlan | None:
    """The plan of data that are read part by part; None where they are in memory, or will be."""
    from losslens.passes.parts.cost import plan_stream  # late: it brings compiled engines along

    if verb is not features.feature_effect and is_scorer(wanted["loss"]):
        return None
    data = call.opened(known, X, None if verb is features.feature_effect else y, options)
    if data is None:
        return None
    if verb is features.feature_effect:
        return plan_stream(call.effect_stream(known, data, effect_response(known), wanted["target"], options), data)
    loss = default_loss(known, wanted["loss"])
    if verb is shapley_importance:
        from losslens.shapley import parts

        return plan_stream(parts.share_stream(known, data, loss, picked(Wanted, wanted), options), data, parts.run)
    return plan_stream(call.importance_stream(known, data, loss, options), data)


def _cost(task: Task, rule: Callable[[Subject, int], Design], more: int) -> Plan:
    exact = [exact_for(task, s, task.design) for s in task.subjects]
    designs = [task.design or (All() if e else rule(s, task.n)) for s, e in zip(task.subjects, exact, strict=True)]
    questions = [pose(s, d, task.n, task.entropy) for s, d in zip(task.subjects, designs, strict=True)]
    counts = [0 if e else _most(question, task.n) for question, e in zip(questions, exact, strict=True)]
    complete = task.budget.fits(questions, task.n)
    asked = [question for question, e in zip(questions, exact, strict=True) if not e]
    turns = 0 if not asked else 1 if complete else sum(1 for _ in task.budget.turns(asked))
    turns = len(asked) if isinstance(task.design, BoundSampler) else turns  # drawn features go one by one
    total = turns * task.n + sum(counts) + more + (min(task.n, CHECKED) if any(exact) else 0)
    rows, seconds = task.engine.timed_batch()
    kept = task.n if complete else task.budget.kept_rows(questions, task.n)
    working = task.budget.memory // 8 if not complete else rows * (task.table.row_bytes + 64)
    engines = [who(task, s, d) for s, d in zip(task.subjects, designs, strict=True)]
    threads, predicting = spread(task, seconds * total / rows, total) if asked else (0, seconds * total / rows)
    lanes, exactly = _exact_seconds(task, [(q, way) for q, (_, way) in zip(questions, engines, strict=True)])
    return Plan(
        features=tuple(q.subject.feature.name for q in questions),
        engines=tuple(name for name, _ in engines),
        designs=tuple(repr(q.design) for q in questions),
        predictions=tuple(counts),
        n_predictions=total,
        calls=ceil(total / task.engine.rows_a_call(task.n)),
        memory=kept * task.budget.row_bytes(questions) + working,
        complete=complete,
        seconds=predicting + exactly,
        grows=tuple(q.subject.feature.name for q, e in zip(questions, exact, strict=True) if _grows(task, q) and not e),
        backend=task.table.backend,
        workers=max(threads, lanes),
    )


def _exact_seconds(task: Task, answered: list[tuple[Question, str]]) -> tuple[int, float]:
    """The threads of a cluster that an exact engine uses, and what it takes: some rows timed, or counts times rates."""
    engine, n = task.exact, task.n
    cells = [question for question, way in answered if way == "cells"]
    if isinstance(engine, Additive):
        return 0, rates.ADDED * n * len(cells)
    if isinstance(engine, Products):
        return 0, rates.MULTIPLIED * sum(products(engine.form, n, len(q.subject.distinct)) for q in cells)
    seconds = sum(_tables_and_totals(task, question, way) for question, way in answered if way in ("table", "total"))
    if not cells:
        return 0, seconds
    walked = n * steps.second_a_row(engine, cells, task.sample, task.loss, TIMED)
    cluster = active()
    if cluster is None or not steps.pays(engine, n, len(cells), cluster):
        return 0, seconds + walked
    return cluster.threads, seconds + steps.there(walked, engine, n, len(cells), cluster)


def _tables_and_totals(task: Task, question: Question, way: str) -> float:
    engine = task.exact
    if way == "table":
        a_tree = rates.WALKED if engine.tables is None else rates.LOOKED_UP
        return float(task.n * len(question.subject.distinct) * len(engine.bound.roots) * a_tree)
    if engine.is_single:
        return task.n * rates.SECONDS["single tree"]
    from losslens.engines.trees.coalitions import cost

    known = rates.SECONDS if task.device is None else rates.SECONDS | rates.DEVICE_SECONDS
    return cost(engine.bound) * known["tree totals"]


def _most(question: Question, n: int) -> int:
    """The most predictions that a feature can need; a random grid may hold fewer values in another draw."""
    design = question.design
    if isinstance(design, Grid) and design.m is not None and question.subject.feature.kind != "pair":
        return n * min(design.m, len(question.subject.distinct))
    return question.ask.most(n)


def _grows(task: Task, question: Question) -> bool:
    return task.design is None and task.loss is not None and not question.design.common
