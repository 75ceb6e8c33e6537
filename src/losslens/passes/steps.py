"""One pass over the rows with an engine that gives curves as steps: evaluate the loss, average, keep what fits.

The same means as in `dense`, over all pairs, without a matrix of cells: a curve with few steps has few losses.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from losslens.cells.lazy import deferred
from losslens.cells.matrix import Cells, Means
from losslens.donors.layout import CommonGrid
from losslens.donors.questions import Question
from losslens.engines import rates
from losslens.engines.base import StepEngine, Steps, Walker
from losslens.losses import Loss
from losslens.passes.budget import Budget, Filled, RowMass
from losslens.progress import Tick, silent
from losslens.tables.sample import Sample
from losslens.typing import Floats, Indices
from losslens.workers import Cluster, PerThread, Workers, active, in_process

LANES = 8  # parts of the rows that are summed separately, for any number of threads: the result does not depend on it
LANE_ROWS = 500  # the fewest rows of a part


def run(
    engine: StepEngine,
    questions: Sequence[Question],
    sample: Sample,
    loss: Loss | None,
    budget: Budget,
    entropy: int,
    n_jobs: int | None,
    tick: Tick,
) -> tuple[Sample, list[Filled]]:
    """The sample with predictions and losses, and the outcome for each feature."""
    n = sample.n
    kept = budget.rows_to_keep([question.meeting.width for question in questions], n, entropy)
    # The engine's order: columns as they stand in the table, each once.
    places = {question.ask.columns: question for question in sorted(questions, key=lambda q: q.ask.columns)}
    axes = _axes(engine, list(places.values()), sample)
    edges = np.linspace(0, n, lanes(n) + 1).astype(int).tolist()
    walkers = PerThread(partial(engine.walker, [question.ask for question in places.values()]))
    work = LaneWork(axes, sample, loss, engine.predict(np.arange(1)), kept)
    cluster = active()
    if cluster is not None and pays(engine, n, len(questions), cluster):
        workers: Workers = cluster
    else:  # a loss of the user's own may not be thread-safe
        workers = in_process(n_jobs if loss is None or not loss.custom else 1)
    some = list(workers.map(_sum_lane, (work, walkers), pairwise(edges), tick))
    sample = replace(sample, prediction=np.concatenate([lane.prediction for lane in some]))
    if loss is not None:
        sample = replace(sample, loss=np.concatenate([lane.loss for lane in some]))
    at, rows = {columns: k for k, columns in enumerate(places)}, RowMass(sample)
    return sample, [_filled(at[q.ask.columns], q, axes, sample, rows, some, kept) for q in questions]


def lanes(n: int) -> int:
    """Parts of n rows."""
    return int(np.clip(n // LANE_ROWS, 1, LANES))


def there(seconds: float, engine: StepEngine, n: int, asked: int, cluster: Cluster) -> float:
    """What lanes of so many seconds take on a cluster: the table travels, and sums of rows come back."""
    return rates.on_a_cluster(seconds, lanes(n), cluster.threads, engine.takes_about(n)[1] + 8 * n * (asked + 2))


def pays(engine: StepEngine, n: int, asked: int, cluster: Cluster) -> bool:
    """Whether a cluster is faster; the numbers are the same."""
    seconds, _ = engine.takes_about(n)
    return there(seconds, engine, n, asked, cluster) < seconds


def second_a_row(
    engine: StepEngine, questions: Sequence[Question], sample: Sample, loss: Loss | None, rows: int
) -> float:
    """Seconds of a row, from some that are timed, after two that trigger the compilation."""
    places = {question.ask.columns: question for question in sorted(questions, key=lambda q: q.ask.columns)}
    axes, walker = _axes(engine, list(places.values()), sample), engine.walker([q.ask for q in places.values()])
    work = LaneWork(axes, sample, loss, engine.predict(np.arange(1)), kept=np.empty(0, np.intp))
    rows, seconds = min(rows, sample.n), 0.0
    for stop in (min(2, rows), rows):
        started = time.thread_time()  # of this thread only
        work.sums(0, stop, walker)
        seconds = time.thread_time() - started
    return seconds / rows


class Axes:
    """The classes of each feature, one behind the other, and the mass of the donors below each."""

    def __init__(self, count: int, class_of: Sequence[NDArray[np.int32]], lent: Sequence[Floats]) -> None:
        self.count, self.class_of = count, class_of  # features, and of each the class of each value of its grid
        self.at = np.concatenate([[0], np.cumsum([len(mass) + 1 for mass in lent])]).astype(np.int64)
        self.mass = np.concatenate([part for mass in lent for part in (np.zeros(1), np.cumsum(mass))])

    def part(self, k: int) -> slice:
        """Where the classes of a feature stand."""
        return slice(int(self.at[k]), int(self.at[k + 1]) - 1)

    def on_grid(self, k: int, jumps: NDArray[Any]) -> NDArray[Any]:
        """The running sum of what each class adds, at each value of the grid."""
        return np.asarray(np.cumsum(jumps, axis=0)[self.class_of[k]])


def _axes(engine: StepEngine, questions: Sequence[Question], sample: Sample) -> Axes:
    asks = [question.ask for question in questions]
    class_of = [engine.classes(ask) for ask in asks]
    lent = [
        np.bincount(of[ask.own], sample.weight, int(of.max()) + 1).astype(float)
        for ask, of in zip(asks, class_of, strict=True)
    ]
    return Axes(len(asks), class_of, lent)


@dataclass(frozen=True, eq=False)
class LaneSums:
    """What a run of rows contributes, for k features."""

    prediction: NDArray[Any]  # (b,) or (b, K): with nothing replaced
    loss: Floats  # (b,): of these predictions; zeros where there is no loss
    local: Floats  # (b, k)
    curve: Floats  # (classes, 1 + outputs): what each class adds to the changes and the predictions
    clipped: Floats  # (k,)
    cells: list[Kept]


@dataclass(frozen=True, eq=False)
class LaneWork:
    """Sums the steps of runs of rows."""

    axes: Axes
    sample: Sample
    loss: Loss | None
    like: NDArray[Any]  # some prediction: its type and shape
    kept: Indices

    def sums(self, start: int, stop: int, walker: Walker, tick: Tick = silent) -> LaneSums:
        """Over the rows start .. stop."""
        from losslens.engines.step_sums import sum_steps

        axes, sample, count, b = self.axes, self.sample, self.axes.count, stop - start
        ceiling = np.inf if self.loss is None else _ceiling(self.loss, self.like)
        found = LaneSums(
            prediction=np.empty((b, *self.like.shape[1:]), self.like.dtype), loss=np.zeros(b),
            local=np.zeros((b, count)), clipped=np.zeros(count),
            curve=np.zeros((axes.at[-1], 1 + _columns(self.like[:0], sample).shape[1])), cells=[],
        )  # fmt: skip
        for steps in walker.steps(start, stop):
            rows, here = steps.rows, slice(steps.rows.start - start, steps.rows.stop - start)
            found.prediction[here] = steps.own
            changes = None
            if self.loss is not None:
                found.loss[here], changes = _judge(self.loss, sample, steps)
            sum_steps(
                steps.start, steps.classes, np.zeros(len(steps.classes)) if changes is None else changes,
                _columns(steps.prediction, sample), sample.weight[rows],
                sample.weight[rows] if self.loss is None else found.loss[here], ceiling, axes.mass, axes.at,
                found.local[here], found.curve, found.clipped,
            )  # fmt: skip
            found.cells.extend(self._kept(steps, changes))
            tick(rows.stop - rows.start)
        return found

    def _kept(self, steps: Steps, changes: Floats | None) -> Iterator[Kept]:
        """The steps of kept rows: all of them at once, or row by row."""
        first, last = np.searchsorted(self.kept, [steps.rows.start, steps.rows.stop])
        chosen = self.kept[first:last] - steps.rows.start
        whole = len(chosen) == steps.rows.stop - steps.rows.start
        for rows in [slice(0, len(chosen))] if whole else [slice(row, row + 1) for row in chosen]:
            start = steps.start[rows]
            part = slice(int(start[0, 0]), int(start[-1, -1]))
            judged = None if changes is None else changes[part].copy()
            prediction = steps.prediction[part].copy()
            yield Kept(start - start[0, 0], steps.classes[part].copy(), prediction, judged)


@dataclass(frozen=True, eq=False)
class Kept:
    """All curves of some rows."""

    start: NDArray[np.int64]  # (rows, asks + 1)
    classes: NDArray[np.int32]
    prediction: NDArray[Any]
    changes: Floats | None

    def spread(self, name: str, k: int, begin: Indices, cells: NDArray[Any]) -> None:
        """One feature's curves of these rows at each value of its grid; class c begins at ``begin[c]``."""
        first, stop = self.start[:, k], self.start[:, k + 1]
        ends = np.cumsum(stop - first)
        mine = np.arange(ends[-1]) + np.repeat(stop - ends, stop - first)  # the steps of these curves, row by row
        at = begin[self.classes[mine]]
        behind = np.append(at[1:], 0)
        behind[ends - 1] = cells.shape[1]
        cells.reshape(-1, *cells.shape[2:])[:] = np.repeat(getattr(self, name)[mine], behind - at, axis=0)


def _sum_lane(shared: tuple[LaneWork, PerThread[Walker]], rows: tuple[int, int], tick: Tick) -> LaneSums:
    work, walkers = shared
    return work.sums(*rows, walkers.get(), tick)


def _ceiling(loss: Loss, prediction: NDArray[Any]) -> float:
    ceiling = loss.ceiling(prediction.dtype)
    return np.inf if ceiling is None else ceiling * (1 - 1e-9)


def _columns(prediction: NDArray[Any], sample: Sample) -> Floats:
    """Predictions as columns to be averaged; of labels how often each is predicted."""
    if prediction.dtype.kind == "i" and sample.classes is not None:
        return np.asarray(prediction[:, None] == np.arange(len(sample.classes)), float)
    return np.ascontiguousarray(prediction if prediction.ndim == 2 else prediction[:, None], np.float64)


def _judge(loss: Loss, sample: Sample, steps: Steps) -> tuple[Floats, Floats]:
    """The losses of the rows with nothing replaced, and the change of loss of each step."""
    rows, y = steps.rows, sample.target(loss)
    loss.check_prediction(steps.own)
    if loss.domains is not None:
        loss.check_prediction(steps.prediction)
    base = loss(y[rows], sample.shown(loss, steps.own))
    count = steps.start[:, -1] - steps.start[:, 0]
    changes = loss(np.repeat(y[rows], count), sample.shown(loss, steps.prediction))
    changes -= np.repeat(base, count)
    return base, changes


def _filled(
    k: int, question: Question, axes: Axes, sample: Sample, rows: RowMass, lanes: Sequence[LaneSums], kept: Indices
) -> Filled:
    meeting = question.meeting
    assert isinstance(meeting, CommonGrid)  # designs in which all rows are donors
    cells = spread_cells(k, axes, sample, [part for lane in lanes for part in lane.cells], kept)
    return Filled.of(question, _means(k, meeting, axes, sample, rows, lanes), cells)


def _means(k: int, meeting: CommonGrid, axes: Axes, sample: Sample, rows: RowMass, lanes: Sequence[LaneSums]) -> Means:
    weight, own, part = sample.weight, meeting.own, axes.part(k)
    lent = np.bincount(own, weight, meeting.size)
    apart = meeting.leaves_out_own
    value_mass = lent - (np.bincount(own, weight**2, meeting.size) if apart else 0.0)
    curves = axes.on_grid(k, np.sum([lane.curve[part] for lane in lanes], axis=0))  # sums of all rows, at each value
    changes, pd = curves[:, 0], curves[:, 1:]
    one = sample.prediction.ndim == 1 and sample.prediction.dtype.kind != "i"
    shared = {
        "mass": rows.mass if apart else weight,
        "weights": value_mass / value_mass.sum(),
        "pd": pd[:, 0] if one else pd,
    }
    if sample.loss is None:
        return Means(local=None, **shared)
    local = np.concatenate([lane.local[:, k] for lane in lanes])
    with np.errstate(invalid="ignore", divide="ignore"):  # a value of one row only
        pi = changes * lent / value_mass if apart else changes
    return Means(
        local=local / rows.met if apart else local,
        **shared,
        pi=pi,
        caused=changes[own] / rows.met if apart else changes[own],
        lent=rows.lent if apart else weight,
        clipped=float(sum(lane.clipped[k] for lane in lanes) / value_mass.sum()),
    )


def spread_cells(k: int, axes: Axes, sample: Sample, parts: Sequence[Kept], kept: Indices) -> Cells:
    """The cells of the kept rows, laid out on first access."""
    laid_out = SpreadCells(k, axes.class_of[k], tuple(parts))
    changes = None if sample.loss is None else deferred(laid_out.of, "changes", sample.loss[:0])
    return Cells(kept, deferred(laid_out.of, "prediction", sample.prediction[:0]), changes)


@dataclass(frozen=True, eq=False)
class SpreadCells:
    """One feature's curves of the kept rows, as steps, and how to lay them out at each value of the grid."""

    k: int
    class_of: NDArray[np.int32]  # (g,)
    parts: tuple[Kept, ...]

    def of(self, name: str, like: NDArray[Any]) -> NDArray[Any]:
        """Their predictions, or changes of loss, (r, g) or (r, g, K)."""
        of, size = self.class_of, int(self.class_of.max()) + 1
        rising = bool(np.all(of[1:] >= of[:-1]))  # then a class is a run of values; else curves are laid out by class
        begin, width = (np.searchsorted(of, np.arange(size)), len(of)) if rising else (np.arange(size), size)
        cells = np.empty((sum(len(part.start) for part in self.parts), width, *like.shape[1:]), like.dtype)
        done = 0
        for part in self.parts:
            part.spread(name, self.k, begin, cells[done : done + len(part.start)])
            done += len(part.start)
        return cells if rising else cells[:, of]
