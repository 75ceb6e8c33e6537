"""One pass over the rows with an engine that fills cells: predict, evaluate the loss, average, keep what fits.

`budget` says whether all cells are kept (a complete pass), or those of some rows (a streamed pass).
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from losslens.cells.matrix import Averages, Cells
from losslens.donors.questions import Ask, Question, all_rows
from losslens.engines.base import Answer, CellEngine
from losslens.losses import Loss
from losslens.passes.budget import Budget, Filled
from losslens.progress import Tick, silent
from losslens.tables.sample import Sample, chunks, loss_changes
from losslens.typing import Floats, Indices

PARTS, AHEAD = 16, 2  # parts of the rows on a device, and parts that it fills while another one is averaged


def run(
    engine: CellEngine,
    questions: Sequence[Question],
    sample: Sample,
    loss: Loss | None,
    budget: Budget,
    kept: Indices,
    tick: Tick,
) -> tuple[Sample, list[Filled], int]:
    """The sample with predictions and losses, the outcome for each feature of a turn, and the number of predictions."""
    n = sample.n
    step = n if len(kept) == n else budget.rows_at_a_time(questions)
    others = np.ones(n, bool)
    others[kept] = False
    rest = np.flatnonzero(others)
    parts = [part[k : k + step] for part in (kept, rest) for k in range(0, len(part), step)]
    return _pass(engine, questions, sample, loss, kept, parts, tick)


def expected_seconds(
    engine: CellEngine, questions: Sequence[Question], sample: Sample, loss: Loss | None, rows: int
) -> float:
    """Seconds of a pass over all rows, from passes over one row, one row again, and `rows` rows."""
    took = []
    for some in (np.arange(1), np.arange(1), np.arange(min(rows, sample.n))):
        started = time.thread_time()
        _pass(engine, questions, sample, loss, some, [some], silent)
        took.append(time.thread_time() - started)
    each = max(0.0, took[2] - took[1]) / max(1, len(some) - 1)
    return took[0] + (sample.n - 1) * each


def _pass(
    engine: CellEngine,
    questions: Sequence[Question],
    sample: Sample,
    loss: Loss | None,
    kept: Indices,
    parts: Sequence[Indices],
    tick: Tick,
) -> tuple[Sample, list[Filled], int]:
    """Every part of the rows once; the parts that hold the kept rows come first."""
    asks = [question.ask for question in questions]
    collectors: list[_Collector] = []
    counts = np.zeros(len(asks), np.intp)
    start = 0
    for rows, answer in _answers(engine, parts, asks, tick):
        if not collectors:
            sample = _blank(sample, answer.base, loss)
            ceiling = loss.ceiling(answer.base.dtype) if loss is not None else None
            collectors = [_Collector(Averages(q.meeting, sample, ceiling), kept) for q in questions]
        _record(sample, rows, answer.base, loss)
        counts += answer.n_predictions
        for collector, predictions in zip(collectors, answer.cells, strict=True):
            changes = None if loss is None else cell_changes(loss, sample, rows, predictions)
            collector.add(rows, predictions, changes, start)
        start += len(rows)
    filled = [
        Filled.of(q, c.averages.finish(all_rows(sample.n)), c.kept_cells, int(count))
        for q, c, count in zip(questions, collectors, counts, strict=True)
    ]
    return sample, filled, int(counts.sum()) + sample.n


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


def _blank(sample: Sample, base: NDArray[Any], loss: Loss | None) -> Sample:
    """The sample with empty predictions and losses, which `_record` fills."""
    prediction = np.empty((sample.n, *base.shape[1:]), base.dtype)
    return replace(sample, prediction=prediction, loss=None if loss is None else np.empty(sample.n))


def _record(sample: Sample, rows: Indices, base: NDArray[Any], loss: Loss | None) -> None:
    sample.prediction[rows] = base
    if loss is not None and sample.loss is not None:
        loss.check_prediction(base)
        sample.loss[rows] = loss(sample.target(loss)[rows], sample.shown(loss, base))


def cell_changes(loss: Loss, sample: Sample, rows: Indices, predictions: NDArray[Any]) -> Floats:
    """The changes of loss of the cells of these rows, some rows at a time."""
    changes = np.empty(predictions.shape[:2])
    for part in chunks(rows, predictions.shape[1]):
        if loss.domains is not None:  # a deviance is not defined for every prediction
            loss.check_prediction(predictions[part].ravel())
        changes[part] = loss_changes(loss, sample, rows[part], predictions[part])
    return changes


class _Collector:
    """Averages all cells of a feature and keeps those of the kept rows."""

    def __init__(self, averages: Averages, kept: Indices) -> None:
        self.averages, self.kept = averages, kept
        self.cells: Cells | None = None

    def add(self, rows: Indices, predictions: NDArray[Any], changes: Floats | None, start: int) -> None:
        self.averages.add(rows, predictions, changes)
        if len(rows) == len(self.kept) and start == 0:
            self.cells = Cells(rows, predictions, changes)
            return
        if self.cells is None:
            shape = (len(self.kept), *predictions.shape[1:])
            kept_changes = None if changes is None else np.empty(shape[:2])
            self.cells = Cells(self.kept, np.empty(shape, predictions.dtype), kept_changes)
        if start < len(self.kept):
            part = slice(start, start + len(rows))
            self.cells.predictions[part] = predictions
            if changes is not None and self.cells.changes is not None:
                self.cells.changes[part] = changes

    @property
    def kept_cells(self) -> Cells:
        """The cells of the kept rows."""
        assert self.cells is not None  # there is at least one part
        return self.cells
