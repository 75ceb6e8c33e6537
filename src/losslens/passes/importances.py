"""From the answers of engines to importances, by each loss: exact engines one loss at a time, the model all at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from losslens.donors.designs import Design
from losslens.donors.questions import Subject, Subjects
from losslens.losses import Loss, OutputsLoss
from losslens.models import Model, one_output
from losslens.passes import auto
from losslens.passes.budget import Answered
from losslens.passes.dispatch import Asked, ask, design_of, route
from losslens.passes.task import Options, Task, prepare
from losslens.results.importance import FeatureImportance
from losslens.results.importances import Importances
from losslens.results.outputs import several_samples, with_mean
from losslens.results.replaced_rows import ReplacedRows
from losslens.tables.frames import as_table
from losslens.tables.loading import load
from losslens.tables.sample import Sample, with_parts
from losslens.tables.sources import as_source

Found = dict[str, list[FeatureImportance]]  # of each feature, by losses and their parts


def by_losses(
    model: Model, X: Any, y: Any, losses: Sequence[Loss], options: Options, subjects: Subjects | None = None
) -> list[Importances]:
    """The importances by each of some losses that read the same response of a table in memory.

    What an exact engine gives by a loss it computes; all other losses are evaluated on the same predictions.
    """
    if len(losses) == 1 and losses[0].reads != "outputs":
        return [
            until_precise(prepare(model, X, y, options, loss=losses[0], response=losses[0].reads, subjects=subjects))
        ]
    if (source := as_source(X)) is not None:
        X, y, weight = load(model, source, y, options.sample_weight, options.memory)
        options = replace(options, sample_weight=weight)
    subjects = Subjects(as_table(X)) if subjects is None else subjects
    check = partial(prepare, options=options, subjects=subjects)
    tasks = [check(model, X, y, loss=loss, response=loss.reads) for loss in losses]
    each = [_of_each_output(model, X, task, check) for task in tasks]
    asked = {s.feature.name: k for k, s in enumerate(tasks[0].subjects)}
    by_model = {name: [at for at, of in enumerate(each) if not _is_exact(of, k)] for name, k in asked.items()}
    found: list[Found] = [{} for _ in tasks]
    predicted = 0
    for at, (task, of) in enumerate(zip(tasks, each, strict=True)):
        if names := {name for name, others in by_model.items() if at not in others}:
            exact, count = _exact(task, of, names)
            found[at] |= exact
            predicted += count
    for group in {tuple(others): None for others in by_model.values() if others}:
        names = {name for name, others in by_model.items() if tuple(others) == group}
        first, *rest = (tasks[at] for at in group)
        task = replace(_only(first, names), others=tuple(task.loss for task in rest if task.loss is not None))
        task = replace(task, budget=replace(task.budget, losses=len(with_parts(task.losses))))
        task = replace(task, declined=_declined(each[group[0]], task))
        features, count = found_by_loss(task)
        predicted += count
        start = 0
        for at in group:
            stop = start + len(with_parts(tasks[at].losses))
            found[at] |= {name: several[start:stop] for name, several in features.items()}
            start = stop
    return [
        by_loss(task.losses, {name: of[name] for name in asked}, predicted)[0]
        for task, of in zip(tasks, found, strict=True)
    ]


def _of_each_output(model: Model, X: Any, task: Task, check: Callable[..., Task]) -> list[Task]:
    """The task itself; for a mean over outputs, as far as engines are exact, one task for each of them."""
    loss, y = task.loss, task.sample.y
    if not isinstance(loss, OutputsLoss) or not loss.each or y is None:
        return [task]
    found: list[Task] = []
    for k, one in enumerate(loss.each):
        found.append(check(one_output(model, k, len(loss.each)), X, loss.target(y, k), loss=one, response="values"))
        if found[-1].exact is None:
            break
    return found


def _is_exact(tasks: Sequence[Task], k: int) -> bool:
    """Whether engines compute the k-th feature; of several outputs over all pairs, where means are linear in losses."""
    design = tasks[0].design
    if len(tasks) > 1 and not (design is None or design.all_pairs):
        return False
    return all(task.exact is not None and route(task, task.subjects[k], design).exact for task in tasks)


def _exact(task: Task, each: Sequence[Task], names: set[str]) -> tuple[Found, int]:
    """Features that exact engines compute, by one loss and its parts."""
    if each[0] is task:
        return found_by_loss(_only(task, names))
    loss = task.loss
    assert isinstance(loss, OutputsLoss)  # others have one task
    parts = [found_by_loss(_only(one, names)) for one in each]
    samples: dict[int, list[Sample]] = {}
    found = {}
    for name in parts[0][0]:
        of = [features[name][0] for features, _ in parts]
        if id(of[0].sample) not in samples:
            samples[id(of[0].sample)] = several_samples([one.sample for one in of], loss)
        found[name] = with_mean(of, loss, samples[id(of[0].sample)])
    return found, sum(count for _, count in parts)


def _only(task: Task, names: set[str]) -> Task:
    return replace(task, subjects=tuple(s for s in task.subjects if s.feature.name in names))


def _declined(each: Sequence[Task], task: Task) -> str:
    """Why the model is asked: of several outputs, what the last of their tasks says."""
    last = each[-1]
    if not isinstance(task.loss, OutputsLoss) or last is task or not task.loss.each:
        return task.declined
    if last.exact is None:
        return last.declined
    return next((why for s in last.subjects if (why := route(last, s, last.design).declined)), task.declined)


def importances_of(task: Task, asked: Sequence[Asked]) -> tuple[list[FeatureImportance], int]:
    """Importances with these designs, and the number of predictions."""
    answered, predicted = ask(task, asked)
    samples: dict[int, list[Sample]] = {}
    return [_by_loss(task, answer, samples)[0] for answer in answered], predicted


def _importance(task: Task, answer: Answered, loss: Loss) -> FeatureImportance:
    return FeatureImportance(**shared_fields(task, answer), loss=loss).trimmed()


def until_precise(task: Task) -> Importances:
    """All features by one loss; those that "auto" samples get donors until the noise of the sample is negligible."""
    return by_loss(task.losses, *found_by_loss(task))[0]


def found_by_loss(task: Task) -> tuple[dict[str, list[FeatureImportance]], int]:
    """Each feature by every loss of the call and its parts, and the number of predictions.

    Features that "auto" samples get donors until the noise is negligible for all losses.
    """
    rule = partial(auto.first_design, blocked=task.blocked)
    designs = {s.feature.name: design_of(task, s, rule) for s in task.subjects}
    found: dict[str, list[FeatureImportance]] = {}  # of each feature, by each loss and its parts
    spent: Counter[str] = Counter()  # predictions of each feature
    pending = list(task.subjects)
    total = 0
    while pending:
        asked = [(s, designs[s.feature.name]) for s in pending]
        now = _beside(task, asked, found)
        answered, predicted = ask(now, asked)
        total += predicted
        pending = []
        samples: dict[int, list[Sample]] = {}  # one for all features that share one, by each loss
        for (subject, _), answer in zip(asked, answered, strict=True):
            name, several = answer.feature.name, _by_loss(task, answer, samples)
            spent[name] += several[0].n_predictions
            more = [one for one in several if auto.wants_more(one)] if task.design is None else []
            if more:  # the draw so far is not kept while the next is computed
                noisiest = max(more, key=auto.more_donors)
                designs[name] = auto.next_design(noisiest, subject, task.n)
                pending.append(subject)
            elif several[0].design.common and spent[name] == several[0].n_predictions:  # computed at once
                found[name] = several
            else:  # new results, without the influences that were computed for the decision
                found[name] = [replace(one, n_predictions=spent[name]) for one in several]
        del answered, answer, several, more
    if unsteady := task.engine.repeats.declined:  # a later round may have shown it
        for name, several in found.items():
            if several[0].engine == task.engine.name:
                found[name] = [replace(one, exact=False, declined=unsteady) for one in several]
    return {s.feature.name: found[s.feature.name] for s in task.subjects}, total


def _by_loss(task: Task, answer: Answered, samples: dict[int, list[Sample]]) -> list[FeatureImportance]:
    """The importance of a feature by each loss, and by its parts."""
    losses, sample = with_parts(task.losses), answer.sample
    if len(losses) == 1:
        return [_importance(task, answer, losses[0])]
    alone = samples.setdefault(id(sample), [sample.alone(k) for k in range(len(losses))])
    return [_importance(task, one, loss) for one, loss in zip(answer.of_losses(alone), losses, strict=True)]


def by_loss(losses: Sequence[Loss], found: dict[str, list[FeatureImportance]], predicted: int) -> list[Importances]:
    """The importances by each loss, with those of its outputs, from those of each feature by losses and parts."""
    results, start = [], 0
    for loss in losses:
        of = [
            Importances({name: several[k] for name, several in found.items()}, predicted)
            for k in range(start, start + 1 + len(loss.parts))
        ]
        start += len(of)
        names = loss.outputs if isinstance(loss, OutputsLoss) else ()
        results.append(replace(of[0], by_output=dict(zip(names, of[1:], strict=True))))
    return results


def _beside(task: Task, asked: Sequence[tuple[Subject, Design]], found: dict[str, list[FeatureImportance]]) -> Task:
    """The call with the memory that features computed before leave; these keep cells of no more rows than the next."""
    cells = {name: of[0].meeting.width for name, of in found.items() if of[0].engine == task.engine.name}
    if not cells:
        return task
    budget = replace(task.budget, beside=tuple(cells.values()))
    widths = [len(s.distinct) if design.m is None else design.m for s, design in asked]
    kept = budget.rows_to_keep(widths, task.n, task.entropy)
    found |= {name: [one.keeping(kept) for one in found[name]] for name in cells}
    first, *others = (one.sample for one in found[next(iter(cells))])
    losses = tuple(sample.loss for sample in others if sample.loss is not None)
    return replace(task, budget=budget, sample=replace(first, beside=losses) if losses else first)


def shared_fields(task: Task, answer: Answered) -> dict[str, Any]:
    """The fields that importances and effects share."""
    fields = answer.fields(task.table.names, task.every, task.table.backend)
    return fields | {"extrapolated": _replaced_rows(task, answer)}


def _replaced_rows(task: Task, answer: Answered) -> ReplacedRows | None:
    """Rows with replaced values, to be compared with real ones; None for a pair, whose values have no donors."""
    feature = answer.feature
    if feature.kind == "pair":
        return None
    return ReplacedRows(feature.name, feature.columns, task.real_rows[1], answer.filled.drawn)
