"""The way "cells": an engine predicts every cell; each gets its loss and is averaged, and kept if there is memory.

`memory` says whether all cells are kept (a complete pass), or those of some rows (a streamed pass).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from losslens.cells.matrix import Averages, Cells, drawn_cells
from losslens.donors.questions import Ask, Question, all_rows, pose
from losslens.engines.base import Answer, Averaged, CellEngine
from losslens.losses import Loss
from losslens.passes.task import FeatureDesign, Outcome, Passed, Task
from losslens.progress import Tick, bar
from losslens.tables.frozen import deferred
from losslens.tables.sample import Sample, cell_changes, changes_by_loss, chunks, losses_of, with_parts
from losslens.typing import Indices

CELLS_AVERAGED = 1 << 24  # at a time, by an engine that averages them where they were predicted
PARTS, AHEAD = 16, 2  # parts of the rows on a device, and parts that it fills while another one is averaged


def run(task: Task, engine: CellEngine, designs: Sequence[FeatureDesign]) -> Passed:
    """All features: draw donors, predict their cells, evaluate the losses, average.

    Losses of the task and their parts are evaluated on the same predictions.
    """
    conditional = task.design is not None and task.design.conditional
    if conditional and len(designs) > 1:
        # One feature at a time: two features that share a column may have different draws of it.
        share = replace(task, budget=replace(task.budget, memory=task.budget.memory // len(designs)))
        each = [run(share, engine, [one]) for one in designs]
        return Passed(each[0].samples, [one.outcomes[0] for one in each], sum(one.n_predictions for one in each))
    questions = [pose(subject, design, task.n, task.entropy) for subject, design in designs]
    kept = _rows_to_keep(task, [question.width for question in questions], conditional)
    most = task.n + sum(question.ask.most(task.n) for question in questions)
    with bar(most, "explaining", task.progress, "predictions" if engine is task.engine else "cells") as tick:
        passed = _pass(engine, questions, task, kept, tick)
    if not conditional:
        return passed
    (question,), (by_loss,) = questions, passed.outcomes
    return passed._replace(outcomes=[[_drawn(task, question, one) for one in by_loss]])


def _rows_to_keep(task: Task, widths: Sequence[int], conditional: bool) -> Indices:
    """The rows whose cells are kept: all that fit beside what a sampler draws."""
    drawn = sum(drawn_cells(task.n, m) for m in widths) if conditional else 0
    left = replace(task.budget, memory=max(task.budget.memory // 4, task.budget.memory - drawn))
    left.check_machine(widths, task.n)
    return left.rows_to_keep(widths, task.n, task.entropy)


def _drawn(task: Task, question: Question, outcome: Outcome) -> Outcome:
    """With what a sampler drew for some rows: replaced rows are compared with real ones."""
    ask, (rows, _) = question.ask, task.real_rows.now
    assert ask.donor_values is not None  # every row has its own draws
    first = ask.donor_values[rows][:, 0]
    return replace(outcome, drawn=tuple(s.array[index[first]] for s, index in zip(ask.sources, ask.index, strict=True)))


def _pass(engine: CellEngine, questions: Sequence[Question], task: Task, kept: Indices, tick: Tick) -> Passed:
    """Every part of the rows once; the parts that hold the kept rows come first."""
    parts, running = _parts(task, questions, kept), _Running(questions, task, kept)
    # A device, which sums cells itself, of one loss.
    averaging: Any = engine if hasattr(engine, "averaged") and len(with_parts(task.losses)) <= 1 else None
    averaged_there = [] if averaging is None else [k for k, q in enumerate(questions) if averaging.averages(q.ask)]
    averaged_here = [k for k in range(len(questions)) if k not in averaged_there]
    if averaged_here or not averaged_there:
        start = 0
        for rows, answer in _answers(engine, parts, [questions[k].ask for k in averaged_here], tick):
            running.add(rows, answer, averaged_here, start)
            start += len(rows)
    if averaged_there:
        start, mine = 0, [questions[k] for k in averaged_there]
        wide = sum(question.width for question in mine)
        for some in (part[k] for part in parts for k in chunks(part, wide, CELLS_AVERAGED)):
            sums = averaging.averaged(some, mine, task.sample, task.loss, tick, kept=start < max(1, len(kept)))
            if sums is None:
                running.add(some, engine.fill(some, [question.ask for question in mine], tick), averaged_there, start)
            else:
                base, averaged = sums
                running.add_averaged(some, base, averaged, averaged_there, start, record=not averaged_here)
            start += len(some)
    return running.finish()


def _parts(task: Task, questions: Sequence[Question], kept: Indices) -> list[Indices]:
    """The kept rows, then the others, as many at a time as the memory allows."""
    step = task.n if len(kept) == task.n else task.budget.rows_at_a_time(questions)
    dropped = np.ones(task.n, bool)
    dropped[kept] = False
    return [part[k : k + step] for part in (kept, np.flatnonzero(dropped)) for k in range(0, len(part), step)]


def _answers(
    engine: CellEngine, parts: Sequence[Indices], asks: Sequence[Ask], tick: Tick
) -> Iterator[tuple[Indices, Answer]]:
    """Part by part. A separate device fills the next parts while this process averages one, so it is never idle."""
    if not getattr(engine, "is_remote", False):
        for rows in parts:
            yield rows, engine.fill(rows, asks, tick)
        return
    from concurrent.futures import ThreadPoolExecutor

    smaller = [some for rows in parts for some in np.array_split(rows, min(PARTS, len(rows)))]
    with ThreadPoolExecutor(AHEAD) as pool:
        pending = deque(pool.submit(engine.fill, rows, asks, tick) for rows in smaller[:AHEAD])
        for number, rows in enumerate(smaller):
            answer = pending.popleft().result()
            if number + AHEAD < len(smaller):
                pending.append(pool.submit(engine.fill, smaller[number + AHEAD], asks, tick))
            yield rows, answer


class _Running:
    """Predictions of the rows and their losses, and running means of each feature's cells, by each loss."""

    def __init__(self, questions: Sequence[Question], task: Task, kept: Indices) -> None:
        self.questions, self.losses, self.kept = questions, task.losses, kept
        self.each: Sequence[Loss | None] = with_parts(task.losses) or [None]
        self.samples, self.features = [task.sample], list[_FeatureCells]()  # made when the type of predictions is known

    def add(self, rows: Indices, answer: Answer, features: Sequence[int], start: int) -> None:
        """Cells of these rows, the start-th and those after it, for some of the features."""
        self._record(rows, answer.base)
        for k, predictions, count in zip(features, answer.cells, answer.n_predictions, strict=True):
            self.features[k].add(rows, predictions, start, self.losses, self.samples)
            self.features[k].n_predictions += count

    def add_averaged(
        self, rows: Indices, base: NDArray[Any], sums: Iterator[Averaged], features: Sequence[int], start: int, *,
        record: bool,
    ) -> None:  # fmt: skip
        """The same of cells that an engine has summed; `record` their predictions unless another one has."""
        if record:
            self._record(rows, base)
        for k, one in zip(features, sums, strict=True):
            feature = self.features[k]
            if one.sums is not None:
                feature.averages[0].add_sums(rows, one.sums)
                if one.predictions is not None:
                    feature.keep(rows, one.predictions, start)
            else:
                assert one.predictions is not None  # not summed, so that it is done here
                feature.add(rows, one.predictions, start, self.losses, self.samples)
            feature.n_predictions += len(rows) * feature.question.width

    def finish(self) -> Passed:
        """After all rows."""
        outcomes = [feature.outcomes(self.each, self.samples) for feature in self.features]
        n_predictions = sum(feature.n_predictions for feature in self.features)
        return Passed(self.samples, outcomes, n_predictions + self.samples[0].n)

    def _record(self, rows: Indices, base: NDArray[Any]) -> None:
        """The predictions of unchanged rows and their losses."""
        if not self.features:
            self.samples = blank(self.samples[0], base, self.each)
            self.features = [_FeatureCells(q, self.each, self.samples, self.kept, base) for q in self.questions]
        record(self.samples, rows, base, self.losses)


def blank(sample: Sample, base: NDArray[Any], losses: Sequence[Loss | None]) -> list[Sample]:
    """The sample with empty predictions, once with each loss, which `record` fills in."""
    sample = replace(sample, prediction=np.empty((sample.n, *base.shape[1:]), base.dtype))
    return [replace(sample, loss=None if one is None else np.empty(sample.n)) for one in losses]


def record(samples: Sequence[Sample], rows: Indices, base: NDArray[Any], losses: Sequence[Loss]) -> None:
    """Fill in predictions and losses of some rows."""
    samples[0].prediction[rows] = base  # which all samples share
    for loss in losses:
        loss.check_prediction(base)
    for sample, of_rows in zip(samples, losses_of(losses, samples[0], rows, base), strict=False):
        assert sample.loss is not None  # there is a loss
        sample.loss[rows] = of_rows


class _FeatureCells:
    """The running means of a feature's cells, by each loss, and its cells of the kept rows."""

    def __init__(
        self, question: Question, losses: Sequence[Loss | None], samples: Sequence[Sample], kept: Indices,
        base: NDArray[Any],
    ) -> None:  # fmt: skip
        ceilings = [None if loss is None else loss.ceiling(base.dtype) for loss in losses]
        self.averages = [Averages(question.layout, *one) for one in zip(samples, ceilings, strict=True)]
        self.question, self.kept, self.n_predictions = question, kept, 0
        self.predictions: NDArray[Any] | None = None

    def add(
        self, rows: Indices, predictions: NDArray[Any], start: int, losses: Sequence[Loss], samples: Sequence[Sample]
    ) -> None:
        """Average the cells of these rows, the start-th and those after it, and keep those that are kept."""
        self.keep(rows, predictions, start)
        first, *others = self.averages
        if not losses:
            first.add(rows, predictions, None)
            return
        for part in first.parts(rows):  # changes are averaged while they are in the processor's cache
            changes, *further = changes_by_loss(losses, samples, rows[part], predictions[part])
            first.add(rows[part], predictions[part], changes)
            for averages, of_loss in zip(others, further, strict=True):
                averages.add(rows[part], None, of_loss)

    def keep(self, rows: Indices, predictions: NDArray[Any], start: int) -> None:
        """Cells of the kept ones of these rows; their changes follow from predictions."""
        if len(rows) == len(self.kept) and start == 0:
            self.predictions = predictions
            return
        if self.predictions is None:
            self.predictions = np.empty((len(self.kept), *predictions.shape[1:]), predictions.dtype)
        if start < len(self.kept):
            self.predictions[start : start + len(rows)] = predictions

    def outcomes(self, losses: Sequence[Loss | None], samples: Sequence[Sample]) -> list[Outcome]:
        """After all rows, by each loss."""
        assert self.predictions is not None  # there is at least one part
        cells, every = Cells(self.kept, self.predictions, None), all_rows(samples[0].n)
        means = [averages.finish(every) for averages in self.averages]
        means[1:] = [replace(one, pd=means[0].pd) for one in means[1:]]  # of the same predictions
        return [
            Outcome.of(self.question, one, cells if loss is None else _changed(cells, loss, sample), self.n_predictions)
            for one, loss, sample in zip(means, losses, samples, strict=True)
        ]


def _changed(cells: Cells, loss: Loss, sample: Sample) -> Cells:
    """The same cells with the changes of a loss, which predictions give on access: until then they take no memory."""
    rows = cells.rows
    if len(rows) < sample.n:  # of the other rows nothing is held
        own = None if sample.loss is None else sample.loss[rows]
        y = None if sample.y is None else sample.y[rows]
        sample = Sample(sample.weight[rows], sample.prediction[rows], y, own, classes=sample.classes)
        rows = np.arange(len(rows))
    if loss.custom:  # a function of the user's may say something else later
        return replace(cells, changes=cell_changes(loss, sample, rows, cells.predictions))
    return replace(cells, changes=deferred(cell_changes, loss, sample, rows, cells.predictions))
