"""Several losses and several outputs in one call: which share predictions, and the mean over outputs.

Every mean over cells is linear in the losses: the mean over outputs follows from a pass for each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from losslens.cells.matrix import Cells
from losslens.donors.questions import Subjects
from losslens.engines.choice import CHECKED
from losslens.losses import Loss, OutputsLoss
from losslens.models import Model, one_output
from losslens.passes.task import Options, Outcome, Passed, Task, prepare
from losslens.tables.frames import as_table
from losslens.tables.frozen import deferred
from losslens.tables.sample import Sample, with_parts


def tasks_by_response(
    model: Model, X: Any, y: Any, losses: Mapping[str, Loss], options: Options, subjects: Subjects | None = None
) -> list[tuple[list[str], Task]]:
    """Checked calls, each with the names of its losses: without an exact engine, all that read the same response.

    `subjects` are those of the table X, where calls with other models share them.
    """
    check = partial(prepare, options=options, subjects=Subjects(as_table(X)) if subjects is None else subjects)
    by_response: dict[tuple[str, ...], dict[str, Task]] = {}
    for name, loss in losses.items():
        task = _with_outputs(model, X, check(model, X, y, loss=loss, response=loss.reads), check)
        alone = task.exact is not None or task.outputs or is_alone(loss)
        by_response.setdefault((loss.reads, name) if alone else (loss.reads,), {})[name] = task
    return [(list(tasks), _with_losses(list(tasks.values()))) for tasks in by_response.values()]


def is_alone(loss: Loss) -> bool:
    """Whether a loss keeps y in a form of its own, and reads curves at times of its own."""
    return isinstance(loss, OutputsLoss) and loss.encodes


def _with_outputs(model: Model, X: Any, task: Task, check: Callable[..., Task]) -> Task:
    """The task of a mean over several outputs with one for each of them, if exact engines take these."""
    loss, y, outputs = task.loss, task.sample.y, list[Task]()
    if not isinstance(loss, OutputsLoss) or y is None:
        return task
    for k, one in enumerate(loss.each):
        output, target = one_output(model, k, len(loss.each)), loss.target(y, k)
        outputs.append(check(output, X, target, loss=one, response="values"))
        if outputs[-1].exact is None:
            return replace(task, declined=outputs[-1].declined)
    return replace(task, outputs=tuple(outputs))


def _with_losses(tasks: Sequence[Task]) -> Task:
    """One task with the losses of all."""
    losses = tuple(loss for task in tasks for loss in task.losses)
    return replace(tasks[0], losses=losses, budget=replace(tasks[0].budget, losses=len(with_parts(losses))))


def mean_of_outputs(each: Sequence[Passed], loss: OutputsLoss) -> Passed:
    """Outcomes by the mean loss, and by that of each output, of passes by exact engines."""
    samples = several_samples([one.samples[0] for one in each], loss)
    outcomes = [
        _with_mean([by_loss[0] for by_loss in one], loss) for one in zip(*(p.outcomes for p in each), strict=True)
    ]
    return Passed(samples, outcomes, (len(each) - 1) * min(samples[0].n, CHECKED))  # every engine was checked


def several_samples(samples: Sequence[Sample], loss: OutputsLoss) -> list[Sample]:
    """The rows with the predictions and targets of all outputs: with their mean loss, and with the loss of each."""
    y = np.stack([sample.y for sample in samples if sample.y is not None], axis=1)
    every = replace(samples[0], prediction=_stacked(*(sample.prediction for sample in samples)), y=y)
    losses = [sample.loss for sample in samples if sample.loss is not None]
    return [replace(every, loss=loss_of_rows) for loss_of_rows in (_weighted(loss.weights, *losses), *losses)]


def _with_mean(parts: Sequence[Outcome], loss: OutputsLoss) -> list[Outcome]:
    """The outcome of a feature by the mean of outputs and by each."""
    first = parts[0]
    predictions = deferred(_stacked, *(vars(part.cells)["predictions"] for part in parts))
    pd = _of_means(parts, "pd", _stacked)
    rows = vars(first.cells)["rows"]
    changes = deferred(_weighted, loss.weights, *(vars(part.cells)["changes"] for part in parts))
    total = None
    if all(part.means.total is not None for part in parts):
        total = float(np.dot(loss.weights, [part.means.total or 0.0 for part in parts]))
    mean = replace(
        first,
        cells=Cells(rows, predictions, changes),
        means=replace(
            first.means,
            total=total,
            pd=pd,
            clipped=0.0,
            **{name: _of_means(parts, name, _weighted, loss.weights) for name in ("local", "pi", "caused")},
        ),
    )
    each = [
        replace(
            mean, cells=Cells(rows, predictions, vars(part.cells)["changes"]), means=replace(part.means, pd=pd)
        )
        for part in parts
    ]  # fmt: skip
    return [mean, *each]


def _of_means(parts: Sequence[Outcome], name: str, combine: Callable[..., Any], *first: Any) -> Any:
    values = [vars(part.means)[name] for part in parts]
    return None if any(one is None for one in values) else deferred(combine, *first, *values)


def _stacked(*parts: Any) -> Any:
    return None if any(part is None for part in parts) else np.stack(parts, axis=-1)


def _weighted(weights: Sequence[float], *parts: Any) -> Any:
    if any(part is None for part in parts):
        return None
    return sum(weight * part for weight, part in zip(weights, parts, strict=True))
