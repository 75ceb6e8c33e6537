"""What a verb would do, before it does it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from math import ceil
from typing import Any

from losslens import explain
from losslens.answers import exact_for
from losslens.auto import effect_design, importance_design
from losslens.donors import All, Design, Grid
from losslens.engines.exact import CHECKED
from losslens.lending import Bound
from losslens.losses import is_scorer
from losslens.models import as_model
from losslens.questions import Question, Subject, pose
from losslens.results import duration, size_in_words
from losslens.scoring import score_design
from losslens.shapley_plans import ShapleyPlan, plan_importance
from losslens.sharing import shapley_importance
from losslens.tables import make_frame
from losslens.tasks import Task, class_of, default_loss, effect_response, prepare

VERBS: tuple[Callable[..., Any], ...] = (explain.feature_importance, explain.feature_effect, shapley_importance)


@dataclass(frozen=True)
class Plan:
    """The cost of a call: one entry a feature, and the whole."""

    features: tuple[str, ...]
    engines: tuple[str, ...]
    designs: tuple[str, ...]
    predictions: tuple[int, ...]  # rows to predict for each feature
    n_predictions: int  # all of them, unchanged rows included
    calls: int
    memory: int  # bytes that the result keeps and the run needs
    complete: bool  # all cells are kept; otherwise the result is streamed
    seconds: float
    grows: tuple[str, ...]  # features whose number of donors is doubled until it suffices
    backend: str

    def to_frame(self) -> Any:
        """One row a feature."""
        columns = {"feature": self.features, "engine": self.engines, "design": self.designs}
        return make_frame(
            {name: list(values) for name, values in columns.items()} | {"n_predictions": list(self.predictions)},
            self.backend,
        )

    def __repr__(self) -> str:
        kept = "all cells kept" if self.complete else "streamed: single curves kept for some rows"
        lines = [
            f"Plan: {self.n_predictions:,} predictions in {self.calls:,} call{'s' * (self.calls != 1)}, "
            f"about {duration(self.seconds)}",
            f"  memory: {size_in_words(self.memory)} ({kept})",
        ]
        width = max(map(len, self.features))
        for name, engine, design, count in zip(
            self.features, self.engines, self.designs, self.predictions, strict=True
        ):
            more = " at least, doubled until certain" if name in self.grows else ""
            lines.append(f"  {name:<{width}}  {engine}  {design}  {count:,} predictions{more}")
        return "\n".join(lines)


def plan(verb: Callable[..., Any], model: Any, X: Any, y: Any = None, **options: Any) -> Plan | ShapleyPlan:
    """What a verb would ask of the model: rows, calls, memory and seconds, from one timed batch.

    Parameters
    ----------
    verb
        `losslens.feature_importance`, `losslens.feature_effect` or `losslens.shapley_importance`.
    model, X, y, options
        The arguments of that verb.

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
    wanted.pop("executor", None)
    if verb is shapley_importance:
        return plan_importance(model, X, y, wanted)
    known = as_model(model)
    if verb is explain.feature_effect:
        response, target = effect_response(known), wanted.pop("target")
        task = prepare(known, X, None, loss=None, response=response, groups=None, **wanted)
        class_of(task.sample, target, response)
        return _cost(task, effect_design, 0)
    loss = wanted.pop("loss")
    if is_scorer(loss):
        task = prepare(known, X, None, loss=None, response=next(iter(known.responses)), exact=False, **wanted)
        return _cost(task, score_design, task.n)  # the scorer is called once to see what it asks for
    chosen = default_loss(known, loss)
    task = prepare(known, X, y, loss=chosen, response=chosen.reads, **wanted)
    return _cost(task, lambda subject, _: importance_design(subject, task.sample), 0)


def _cost(task: Task, rule: Callable[[Subject, int], Design], more: int) -> Plan:
    exact = [exact_for(task, s, task.design) for s in task.subjects]
    designs = [task.design or (All() if e else rule(s, task.n)) for s, e in zip(task.subjects, exact, strict=True)]
    questions = [pose(s, d, task.n, task.entropy) for s, d in zip(task.subjects, designs, strict=True)]
    counts = [0 if e else _most(question, task.n) for question, e in zip(questions, exact, strict=True)]
    complete = task.budget.fits(questions, task.n)
    asked = [question for question, e in zip(questions, exact, strict=True) if not e]
    turns = 0 if not asked else 1 if complete else sum(1 for _ in task.budget.turns(asked))
    turns = len(asked) if isinstance(task.design, Bound) else turns  # drawn features go one by one
    total = turns * task.n + sum(counts) + more + (min(task.n, CHECKED) if any(exact) else 0)
    rows, seconds = task.engine.timed_batch()
    kept = task.n if complete else task.budget.kept_rows(questions, task.n)
    working = task.budget.memory // 8 if not complete else rows * (task.table.row_bytes + 64)
    return Plan(
        features=tuple(q.subject.feature.name for q in questions),
        engines=tuple(task.exact.name if e else task.engine.name for e in exact),
        designs=tuple(repr(q.design) for q in questions),
        predictions=tuple(counts),
        n_predictions=total,
        calls=ceil(total / task.engine.rows_a_call(task.n)),
        memory=kept * task.budget.row_bytes(questions) + working,
        complete=complete,
        seconds=seconds * total / rows + _exact_seconds(task, sum(exact), seconds / rows),
        grows=tuple(q.subject.feature.name for q, e in zip(questions, exact, strict=True) if _grows(task, q) and not e),
        backend=task.table.backend,
    )


def _exact_seconds(task: Task, features: int, second_a_row: float) -> float:
    """What an exact engine takes, in predictions of the whole table: of the order of one a feature."""
    return second_a_row * task.n * features / 2


def _most(question: Question, n: int) -> int:
    """The most predictions that a feature can need; a random grid may hold fewer values in another draw."""
    design = question.design
    if isinstance(design, Grid) and design.m is not None and question.subject.feature.kind != "pair":
        return n * min(design.m, len(question.subject.distinct))
    return question.ask.most(n)


def _grows(task: Task, question: Question) -> bool:
    return task.design is None and task.loss is not None and not question.design.common
