"""One pass over the rows with an engine that fills cells: predict, evaluate the loss, average, keep what fits.

`budget` says whether all cells are kept (a complete pass), or those of some rows (a streamed pass).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from losslens.cells.lazy import deferred
from losslens.cells.matrix import Averages, Cells
from losslens.donors.questions import Ask, Question, all_rows
from losslens.engines.base import Answer, Averaged, CellEngine
from losslens.losses import Loss
from losslens.passes.budget import Budget, Filled
from losslens.progress import Tick
from losslens.tables.sample import Sample, cell_changes, changes_by_loss, chunks, losses_of, with_parts
from losslens.typing import Indices

CELLS_AVERAGED = 1 << 24  # at a time, by an engine that averages them where they were predicted
PARTS, AHEAD = 16, 2  # parts of the rows on a device, and parts that it fills while another one is averaged


def run(
    engine: CellEngine,
    questions: Sequence[Question],
    sample: Sample,
    loss: Loss | None,
    budget: Budget,
    kept: Indices,
    tick: Tick,
    others: Sequence[Loss] = (),
) -> tuple[Sample, list[Filled], int]:
    """The sample with predictions and losses, the outcome for each feature of a turn, and the number of predictions.

    Parts of the loss, and `others` of the same response with theirs, are evaluated on the same predictions.
    """
    n = sample.n
    step = n if len(kept) == n else budget.rows_at_a_time(questions)
    dropped = np.ones(n, bool)
    dropped[kept] = False
    rest = np.flatnonzero(dropped)
    parts = [part[k : k + step] for part in (kept, rest) for k in range(0, len(part), step)]
    return _pass(engine, questions, sample, () if loss is None else (loss, *others), kept, parts, tick)


def _pass(
    engine: CellEngine,
    questions: Sequence[Question],
    sample: Sample,
    losses: Sequence[Loss],
    kept: Indices,
    parts: Sequence[Indices],
    tick: Tick,
) -> tuple[Sample, list[Filled], int]:
    """Every part of the rows once; the parts that hold the kept rows come first."""
    collected = _Pass(questions, sample, losses, kept)
    loss = losses[0] if losses else None
    # A device, which sums cells itself, of one loss.
    averaging: Any = engine if hasattr(engine, "averaged") and len(with_parts(losses)) <= 1 else None
    inside = [] if averaging is None else [k for k, q in enumerate(questions) if averaging.averages(q.ask)]
    outside = [k for k in range(len(questions)) if k not in inside]
    if outside or not inside:
        start = 0
        for rows, answer in _answers(engine, parts, [questions[k].ask for k in outside], tick):
            collected.add(rows, answer, outside, start)
            start += len(rows)
    if inside:
        start, asked = 0, [questions[k] for k in inside]
        wide = sum(question.width for question in asked)
        for some in (part[k] for part in parts for k in chunks(part, wide, CELLS_AVERAGED)):
            found = averaging.averaged(some, asked, sample, loss, tick, kept=start < max(1, len(kept)))
            if found is None:
                collected.add(some, engine.fill(some, [question.ask for question in asked], tick), inside, start)
            else:
                collected.add_averaged(some, *found, asked=inside, start=start, record=not outside)
            start += len(some)
    return collected.finish()


class _Pass:
    """Predictions and losses of the rows, and the means of each feature's cells."""

    def __init__(self, questions: Sequence[Question], sample: Sample, losses: Sequence[Loss], kept: Indices) -> None:
        self.questions, self.sample, self.losses, self.kept = questions, sample, losses, kept
        self.beside = with_parts(losses)[1:]
        self.collectors: list[_Collector] = []
        self.averages: list[list[Averages]] = []  # of each feature, by each further loss
        self.counts = np.zeros(len(questions), np.intp)

    def add(self, rows: Indices, answer: Answer, asked: Sequence[int], start: int) -> None:
        """Cells of these rows, the start-th and those after it, for the features `asked`."""
        self._record(rows, answer.base)
        for k, predictions, count in zip(asked, answer.cells, answer.n_predictions, strict=True):
            self._add_cells(k, rows, predictions, start)
            self.counts[k] += count

    def add_averaged(
        self, rows: Indices, base: NDArray[Any], found: Iterator[Averaged], *, asked: Sequence[int], start: int,
        record: bool,
    ) -> None:  # fmt: skip
        """The same of cells that an engine has summed; `record` their predictions unless another one has."""
        if record:
            self._record(rows, base)
        for k, one in zip(asked, found, strict=True):
            if one.sums is not None:
                self.collectors[k].add_sums(rows, one, start)
            else:
                assert one.predictions is not None  # not summed, so that it is done here
                self._add_cells(k, rows, one.predictions, start)
            self.counts[k] += len(rows) * self.questions[k].width

    def finish(self) -> tuple[Sample, list[Filled], int]:
        """After all rows."""
        sample = self.sample
        filled = []
        for q, c, others, count in zip(self.questions, self.collectors, self.averages, self.counts, strict=True):
            means, cells = c.averages.finish(all_rows(sample.n)), c.kept_cells
            if self.losses:
                cells = _changed(cells, self.losses[0], sample)
            beside = tuple(
                (replace(one.finish(all_rows(sample.n)), pd=means.pd), _changed(cells, loss, one.sample))
                for one, loss in zip(others, self.beside, strict=True)
            )
            filled.append(Filled.of(q, means, cells, int(count), beside))
        return sample, filled, int(self.counts.sum()) + sample.n

    def _record(self, rows: Indices, base: NDArray[Any]) -> None:
        if not self.collectors:
            self.sample = blank(self.sample, base, 1 + len(self.beside) if self.losses else 0)
            ceiling = self.losses[0].ceiling(base.dtype) if self.losses else None
            self.collectors = [_Collector(Averages(q.meeting, self.sample, ceiling), self.kept) for q in self.questions]
            samples = [(loss, self.sample.alone(1 + k)) for k, loss in enumerate(self.beside)]
            self.averages = [
                [Averages(q.meeting, sample, loss.ceiling(base.dtype)) for loss, sample in samples]
                for q in self.questions
            ]
        record(self.sample, rows, base, self.losses)

    def _add_cells(self, k: int, rows: Indices, predictions: NDArray[Any], start: int) -> None:
        collector = self.collectors[k]
        collector.keep(rows, predictions, start)
        if not self.losses:
            collector.averages.add(rows, predictions, None)
            return
        for part in collector.averages.parts(rows):  # changes are averaged while they are in the processor's cache
            changes, *others = changes_by_loss(self.losses, self.sample, rows[part], predictions[part])
            collector.averages.add(rows[part], predictions[part], changes)
            for averages, of_loss in zip(self.averages[k], others, strict=True):
                averages.add(rows[part], None, of_loss)


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


def blank(sample: Sample, base: NDArray[Any], losses: int) -> Sample:
    """The sample with empty predictions and so many losses, which `record` fills."""
    prediction = np.empty((sample.n, *base.shape[1:]), base.dtype)
    empty = tuple(np.empty(sample.n) for _ in range(losses))
    return replace(sample, prediction=prediction, loss=empty[0] if losses else None, beside=empty[1:])


def record(sample: Sample, rows: Indices, base: NDArray[Any], losses: Sequence[Loss]) -> None:
    """Fill in predictions and losses of some rows."""
    sample.prediction[rows] = base
    if losses and sample.loss is not None:
        for loss in losses:
            loss.check_prediction(base)
        for into, found in zip((sample.loss, *sample.beside), losses_of(losses, sample, rows, base), strict=True):
            into[rows] = found


class _Collector:
    """Averages all cells of a feature and keeps those of the kept rows."""

    def __init__(self, averages: Averages, kept: Indices) -> None:
        self.averages, self.kept = averages, kept
        self.predictions: NDArray[Any] | None = None

    def add_sums(self, rows: Indices, found: Averaged, start: int) -> None:
        assert found.sums is not None
        self.averages.add_sums(rows, found.sums)
        if found.predictions is not None:
            self.keep(rows, found.predictions, start)

    def keep(self, rows: Indices, predictions: NDArray[Any], start: int) -> None:
        """Cells of the kept ones of these rows; their changes follow from predictions."""
        if len(rows) == len(self.kept) and start == 0:
            self.predictions = predictions
            return
        if self.predictions is None:
            self.predictions = np.empty((len(self.kept), *predictions.shape[1:]), predictions.dtype)
        if start < len(self.kept):
            self.predictions[start : start + len(rows)] = predictions

    @property
    def kept_cells(self) -> Cells:
        """The cells of the kept rows."""
        assert self.predictions is not None  # there is at least one part
        return Cells(self.kept, self.predictions, None)
