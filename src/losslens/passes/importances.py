"""Importances of all features by each of some losses: exact engines take one loss at a time, the model all at once."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from losslens.donors.designs import Design
from losslens.donors.questions import Subject, Subjects
from losslens.losses import Loss, OutputsLoss
from losslens.models import Model, one_output
from losslens.passes import ways
from losslens.passes.outcomes import Evaluated
from losslens.passes.task import Options, Task, prepare
from losslens.passes.ways import design_of, evaluate, route
from losslens.results.importance import FeatureImportance
from losslens.results.importances import Importances
from losslens.results.outputs import several_samples, with_mean
from losslens.results.replaced_rows import ReplacedRows
from losslens.tables.frames import as_table
from losslens.tables.loading import load
from losslens.tables.sample import Sample, with_parts
from losslens.tables.sources import as_source

ByFeature = dict[str, list[FeatureImportance]]  # by one loss, and by its parts


def by_losses(
    model: Model, X: Any, y: Any, losses: Mapping[str, Loss], options: Options, subjects: Subjects | None = None
) -> dict[str, Importances]:
    """The importances by each loss, of a table in memory; losses of one response share the model's predictions."""
    if (source := as_source(X)) is not None:
        X, y, weight = load(model, source, y, options.sample_weight, options.memory)
        options = replace(options, sample_weight=weight)
    check = partial(prepare, options=options, subjects=Subjects(as_table(X)) if subjects is None else subjects)
    results: dict[str, Importances] = {}
    for names in _of_one_response(losses):
        several = _of_same_predictions(model, X, y, [losses[name] for name in names], check)
        results |= zip(names, several, strict=True)
    return results


def _of_one_response(losses: Mapping[str, Loss]) -> list[list[str]]:
    """The names of losses that are evaluated on the same predictions."""
    together: dict[tuple[str, ...], list[str]] = {}
    for name, loss in losses.items():
        together.setdefault((loss.reads, name) if asks_alone(loss) else (loss.reads,), []).append(name)
    return list(together.values())


def asks_alone(loss: Loss) -> bool:
    """Whether a loss keeps y in a form of its own, and asks for curves at times of its own."""
    return isinstance(loss, OutputsLoss) and loss.encodes


def _of_same_predictions(
    model: Model, X: Any, y: Any, losses: Sequence[Loss], check: Callable[..., Task]
) -> list[Importances]:
    """By losses of one response: exact engines take one at a time, the model's predictions serve all others."""
    tasks = [check(model, X, y, loss=loss, response=loss.reads) for loss in losses]
    exact_tasks = [_of_each_output(model, X, task, check) for task in tasks]
    predicted: dict[tuple[int, ...], set[str]] = defaultdict(set)  # by losses: the features that the model predicts
    for j, subject in enumerate(tasks[0].subjects):
        losses_at = tuple(k for k, each in enumerate(exact_tasks) if not _is_exact(each, j))
        predicted[losses_at].add(subject.feature.name)
    results: list[ByFeature] = [{} for _ in tasks]
    n_predictions = 0
    for k, each in enumerate(exact_tasks):
        if names := {name for losses_at, some in predicted.items() if k not in losses_at for name in some}:
            exact, count = _exact(tasks[k], each, names)
            results[k] |= exact
            n_predictions += count
    for losses_at, names in predicted.items():
        if losses_at:
            first = losses_at[0]
            joint = _joint([tasks[k] for k in losses_at], names, declined=_declined(tasks[first], exact_tasks[first]))
            several, count = until_precise(joint)
            n_predictions += count
            for k, one in zip(losses_at, several, strict=True):
                results[k] |= one
    names_in_order = [subject.feature.name for subject in tasks[0].subjects]
    return [
        result_of(loss, {name: one[name] for name in names_in_order}, n_predictions)
        for loss, one in zip(_losses(tasks), results, strict=True)
    ]


def _of_each_output(model: Model, X: Any, task: Task, check: Callable[..., Task]) -> list[Task]:
    """The task itself; for a mean over outputs, as far as engines are exact, one task for each of them."""
    loss, y = task.loss, task.sample.y
    if not isinstance(loss, OutputsLoss) or not loss.each or y is None:
        return [task]
    tasks: list[Task] = []
    for k, one in enumerate(loss.each):
        tasks.append(check(one_output(model, k, len(loss.each)), X, loss.target(y, k), loss=one, response="values"))
        if tasks[-1].exact is None:
            break
    return tasks


def _is_exact(tasks: Sequence[Task], k: int) -> bool:
    """Whether engines compute the k-th feature; of several outputs over all pairs, where means are linear in losses."""
    design = tasks[0].design
    if len(tasks) > 1 and not (design is None or design.all_pairs):
        return False
    return all(task.exact is not None and route(task, task.subjects[k], design).exact for task in tasks)


def _exact(task: Task, exact_tasks: Sequence[Task], names: set[str]) -> tuple[ByFeature, int]:
    """Features that exact engines compute, by one loss and its parts."""
    if exact_tasks[0] is task:
        (results,), count = until_precise(_with_features(task, names))
        return results, count
    loss = task.loss
    assert isinstance(loss, OutputsLoss)  # others have one task
    parts = [until_precise(_with_features(one, names)) for one in exact_tasks]
    samples: dict[int, list[Sample]] = {}
    results = {}
    for name in parts[0][0][0]:
        by_output = [by_feature[name][0] for (by_feature,), _ in parts]
        if (key := id(by_output[0].sample)) not in samples:
            samples[key] = several_samples([one.sample for one in by_output], loss)
        results[name] = with_mean(by_output, loss, samples[key])
    return results, sum(count for _, count in parts)


def _with_features(task: Task, names: set[str]) -> Task:
    subjects = tuple(s for s in task.subjects if s.feature.name in names)
    return task if len(subjects) == len(task.subjects) else replace(task, subjects=subjects)


def _joint(tasks: Sequence[Task], names: set[str], declined: str) -> Task:
    """One task of the losses of several, for features that the model predicts."""
    losses = _losses(tasks)
    budget = replace(tasks[0].budget, losses=len(with_parts(losses)))
    return replace(_with_features(tasks[0], names), losses=losses, budget=budget, declined=declined)


def _losses(tasks: Sequence[Task]) -> tuple[Loss, ...]:
    return tuple(loss for task in tasks for loss in task.losses)


def _declined(task: Task, exact_tasks: Sequence[Task]) -> str:
    """Why the model makes the predictions: for several outputs, the reason of the last of their tasks."""
    last = exact_tasks[-1]
    if last is task or last.exact is None:
        return last.declined
    return next((why for s in last.subjects if (why := route(last, s, last.design).declined)), task.declined)


def until_precise(task: Task) -> tuple[list[ByFeature], int]:
    """The importances of each feature by each loss of the task, and the number of predictions.

    Features that "auto" samples get donors until the noise is negligible for all losses.
    """
    rule = partial(ways.first_design, blocked=task.blocked)
    designs = {subject: design_of(task, subject, rule) for subject in task.subjects}
    results: ByFeature = {}  # by all losses and their parts
    spent: Counter[str] = Counter()  # predictions of each feature
    total = 0
    while designs:
        evaluated, predicted = evaluate(_with_memory_left(task, designs, results), list(designs.items()))
        total += predicted
        next_designs: dict[Subject, Design] = {}
        for subject, by_loss in zip(designs, evaluated, strict=True):
            several, name = _importances(task, by_loss), subject.feature.name
            spent[name] += several[0].n_predictions
            more = [one for one in several if ways.wants_more(one)] if task.design is None else []
            if more:  # the draw so far is not kept while the next is computed
                noisiest = max(more, key=ways.more_donors)
                next_designs[subject] = ways.next_design(noisiest, subject, task.n)
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
    return _split(task, results), total


def _importances(task: Task, by_loss: Sequence[Evaluated]) -> list[FeatureImportance]:
    """The importance of a feature by each loss, and by its parts."""
    return [
        FeatureImportance(**shared_fields(task, one), loss=loss).trimmed()
        for one, loss in zip(by_loss, with_parts(task.losses), strict=True)
    ]


def _split(task: Task, results: ByFeature) -> list[ByFeature]:
    """The features in the order of the task, by each of its losses."""
    split, start = [], 0
    for loss in task.losses:
        stop = start + 1 + len(loss.parts)
        split.append({s.feature.name: results[s.feature.name][start:stop] for s in task.subjects})
        start = stop
    return split


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


def importances_of(task: Task) -> Importances:
    """All features by the loss of a task."""
    (features,), n_predictions = until_precise(task)
    return result_of(task.losses[0], features, n_predictions)


def result_of(loss: Loss, features: ByFeature, n_predictions: int) -> Importances:
    """The importances by a loss, with those of its outputs."""
    overall, *parts = (
        Importances({name: by_part[k] for name, by_part in features.items()}, n_predictions)
        for k in range(1 + len(loss.parts))
    )
    names = loss.outputs if isinstance(loss, OutputsLoss) else ()
    return replace(overall, by_output=dict(zip(names, parts, strict=True)))


def shared_fields(task: Task, one: Evaluated) -> dict[str, Any]:
    """The fields that importances and effects share."""
    replaced = None  # a pair has no donors
    if one.feature.kind != "pair":  # replaced rows, to be compared with real ones
        replaced = ReplacedRows(one.feature.name, one.feature.columns, task.real_rows.now[1], one.outcome.drawn)
    return one.fields(task.table.names, task.every, task.table.backend) | {"extrapolated": replaced}
