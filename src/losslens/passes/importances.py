"""Importances of all features by each of some losses, with as many donors as these need.

An exact engine takes one loss; the model's predictions serve all losses that read the same response.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from losslens.donors.designs import Design
from losslens.donors.questions import Subject, Subjects
from losslens.losses import Loss, OutputsLoss
from losslens.models import Model, one_output
from losslens.passes import ways
from losslens.passes.task import Options, Task, prepare
from losslens.passes.ways import design_of, evaluate
from losslens.results.importance import FeatureImportance
from losslens.results.importances import Importances
from losslens.tables.frames import as_table
from losslens.tables.sample import with_parts

ByFeature = dict[str, list[FeatureImportance]]  # by all losses of a task and their parts


def tasks_of(
    model: Model, X: Any, y: Any, losses: Mapping[str, Loss], options: Options, subjects: Subjects | None = None
) -> list[tuple[list[str], Task]]:
    """Checked calls, each with the names of its losses: those of one response share a call without an exact engine."""
    check = partial(prepare, options=options, subjects=Subjects(as_table(X)) if subjects is None else subjects)
    together: dict[tuple[str, ...], dict[str, Task]] = {}
    for name, loss in losses.items():
        task = _by_output(model, X, check(model, X, y, loss=loss, response=loss.reads), check)
        alone = task.exact is not None or task.outputs or asks_alone(loss)
        together.setdefault((loss.reads, name) if alone else (loss.reads,), {})[name] = task
    return [(list(tasks), _joint(list(tasks.values()))) for tasks in together.values()]


def asks_alone(loss: Loss) -> bool:
    """Whether a loss keeps y in a form of its own, and asks for curves at times of its own."""
    return isinstance(loss, OutputsLoss) and loss.encodes


def _by_output(model: Model, X: Any, task: Task, check: Callable[..., Task]) -> Task:
    """The task of a mean over several outputs with one for each of them, if exact engines take these."""
    loss, y, outputs = task.loss, task.sample.y, list[Task]()
    for k, one in enumerate(loss.each if isinstance(loss, OutputsLoss) and y is not None else ()):
        target = loss.target(y, k)  # type: ignore[union-attr]
        outputs.append(check(one_output(model, k, len(loss.each)), X, target, loss=one, response="values"))  # type: ignore[union-attr]
        if outputs[-1].exact is None:
            return replace(task, declined=outputs[-1].declined)
    return replace(task, outputs=tuple(outputs))


def _joint(tasks: Sequence[Task]) -> Task:
    """One task of the losses of several."""
    losses = tuple(loss for task in tasks for loss in task.losses)
    return replace(tasks[0], losses=losses, budget=replace(tasks[0].budget, losses=len(with_parts(losses))))


def by_each_loss(task: Task) -> list[Importances]:
    """All features by each loss of a task: donors, predictions, losses, means, and again until these are precise."""
    designs = {s: design_of(task, s, partial(ways.first_design, blocked=task.blocked)) for s in task.subjects}
    results: ByFeature = {}
    spent: Counter[str] = Counter()  # predictions of each feature
    total = 0
    while designs:
        evaluated, predicted = evaluate(_with_memory_left(task, designs, results), list(designs.items()))
        total += predicted
        next_designs: dict[Subject, Design] = {}
        for subject, by_loss in zip(designs, evaluated, strict=True):
            several, name = [one.trimmed() for one in by_loss], subject.feature.name
            spent[name] += several[0].n_predictions
            more = [one for one in several if ways.wants_more(one)] if task.design is None else []
            if more:  # the draw so far is not kept while the next is computed
                next_designs[subject] = ways.next_design(max(more, key=ways.more_donors), subject, task.n)
            elif several[0].design.common and spent[name] == several[0].n_predictions:  # computed at once
                results[name] = several
            else:  # new results, without the influences that were computed for the decision
                results[name] = [replace(one, n_predictions=spent[name]) for one in several]
        designs = next_designs
        del evaluated, by_loss, several, more
    if unsteady := task.engine.repeats.declined:  # predictions of a row differed, perhaps in a later round only
        for name, several in results.items():
            if several[0].engine == task.engine.name:
                results[name] = [replace(one, exact=False, declined=unsteady) for one in several]
    return _by_loss(task, results, total)


def _with_memory_left(task: Task, designs: dict[Subject, Design], results: ByFeature) -> Task:
    """The task with the memory that earlier features leave; these keep cells of no more rows than the next."""
    cells = {name: one[0].layout.width for name, one in results.items() if one[0].engine == task.engine.name}
    if not cells:
        return task
    budget = replace(task.budget, other_widths=tuple(cells.values()))
    widths = [len(s.distinct) if design.m is None else design.m for s, design in designs.items()]
    kept = budget.rows_to_keep(widths, task.n, task.entropy)
    results |= {name: [one.keeping(kept) for one in results[name]] for name in cells}
    return replace(task, budget=budget)


def _by_loss(task: Task, results: ByFeature, n_predictions: int) -> list[Importances]:
    """The features in the order of the task, by each loss, with those of its outputs."""
    features = {s.feature.name: results[s.feature.name] for s in task.subjects}
    each = [
        Importances({name: several[k] for name, several in features.items()}, n_predictions)
        for k in range(len(with_parts(task.losses)))
    ]
    by_loss = []
    for loss in task.losses:
        overall, *parts = each[: 1 + len(loss.parts)]
        del each[: 1 + len(loss.parts)]
        names = loss.outputs if isinstance(loss, OutputsLoss) else ()
        by_loss.append(replace(overall, by_output=dict(zip(names, parts, strict=True))))
    return by_loss
