"""The way "steps": an engine gives curves as steps; steps get losses, are averaged, and kept as memory allows.

The same means as in `cells`, over all pairs, without a matrix of cells: a curve with few steps has few losses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from losslens.cells.matrix import Cells, Means
from losslens.cells.pool import Pool
from losslens.donors.layout import CommonGrid
from losslens.donors.questions import Question, pose
from losslens.engines.base import StepEngine, Steps, Walker
from losslens.losses import Loss, squared_error
from losslens.passes.left_out_pairs import OwnGroups, RowMass, ratio, share_left
from losslens.passes.task import FeatureDesign, Outcome, Passed, Task
from losslens.progress import Tick, bar, silent
from losslens.tables.columns import ClassRuns
from losslens.tables.frozen import deferred
from losslens.tables.sample import Sample
from losslens.typing import Floats, Indices
from losslens.workers import Elsewhere, PerThread, Workers, active, in_process, on_a_cluster

CHUNKS = 64  # most chunks of rows, each summed by itself: fixed, so that results do not depend on the number of threads
CHUNK_ROWS = 1250  # rows of a chunk, at least: they are passed down large trees together


def run(task: Task, engine: StepEngine, designs: Sequence[FeatureDesign]) -> Passed:
    """All features: the means of their cells, summed over the steps of curves, and the cells on access."""
    questions = [pose(subject, design, task.n, task.entropy) for subject, design in designs]
    with bar(task.n, "explaining", task.progress, "rows") as tick:
        return _pass(task, engine, questions, tick)


def _pass(task: Task, engine: StepEngine, questions: Sequence[Question], tick: Tick) -> Passed:
    n, sample, loss = task.n, task.sample, task.loss
    widths = [question.layout.width for question in questions]
    task.budget.check_machine(widths, n)
    kept = task.budget.rows_to_keep(widths, n, task.entropy)
    places = _in_engine_order(questions)
    axes = _axes(engine, list(places.values()), sample)
    edges = np.linspace(0, n, n_chunks(n) + 1).astype(int).tolist()
    work, groups = ChunkWork(axes, sample, loss, engine.predict(np.arange(1)), kept), None
    if sample.block is not None and loss is not None:
        class_of_rows = [axis.each[q.ask.own] for q, axis in zip(places.values(), axes.class_of, strict=True)]
        groups = OwnGroups.of(sample.block, class_of_rows)
        engine, work, edges = engine.reordered(groups.order), work.by_group(groups), groups.keep_groups(edges)
    walkers = PerThread(partial(engine.walker, [question.ask for question in places.values()]))
    cluster = active()
    if cluster is not None and cluster_is_faster(engine, n, len(questions), cluster):
        workers: Workers = cluster
    else:  # a user-defined loss may not be thread-safe
        workers = in_process(task.n_jobs if loss is None or not loss.custom else 1)
        walkers.get()  # before threads start: from Python 3.12 on each would compute what the engine caches
    chunks, curve, local = list[ChunkSums](), np.zeros(()), [np.empty(n if loss else 0) for _ in places]
    summed = workers.map(_sum_chunk, (work, walkers), pairwise(edges), tick)
    for rows, chunk in zip(pairwise(edges), summed, strict=True):
        for of_feature, column in zip(local, chunk.local.T, strict=True):
            of_feature[slice(*rows)] = column[: len(of_feature)]  # nothing without a loss
        curve = np.add(curve, chunk.curve, out=curve) if chunks else chunk.curve
        chunks.append(replace(chunk, local=chunk.local[:0].copy(), curve=curve[:0]))  # not held twice
    prediction, losses = (np.concatenate([getattr(chunk, name) for chunk in chunks]) for name in ("prediction", "loss"))
    back: Any = ...
    if groups is not None:  # to the table's order
        prediction, losses, *local = (groups.undo(one) for one in (prediction, losses, *local))
        back = np.argsort(groups.order[work.kept])
    sample = replace(sample, prediction=prediction, loss=None if loss is None else losses)
    place, mass = {columns: k for k, columns in enumerate(places)}, RowMass(sample)
    outcomes = []
    for question in questions:
        k = place[question.ask.columns]
        own_group = None if groups is None else groups.undo(np.concatenate([chunk.own_group[:, k] for chunk in chunks]))
        assert isinstance(question.layout, CommonGrid)
        by_class = np.cumsum(curve[axes.part(k)], axis=0)
        curves = ClassCurves(by_class, axes.class_of[k], question.layout, sample, mass, own_group)
        cells = spread_cells(k, axes, sample, loss, [part for chunk in chunks for part in chunk.cells], kept, back)
        clipped = float(sum(chunk.clipped[k] for chunk in chunks))
        if loss is not None and question.layout.leaves_out_own and groups is None:  # the cells of rows with themselves
            clipped -= float(sample.weight**2 @ (losses >= _ceiling(loss, work.like)))
        outcomes.append([Outcome.of(question, curves.means(local[k], clipped), cells)])
    return Passed([sample], outcomes)


def pools(task: Task, engine: StepEngine, questions: Sequence[Question], sample: Sample) -> tuple[Sample, list[Pool]]:
    """The rows with their predictions, and all cells of each feature, as steps; cells wait until they are read."""
    places, n = _in_engine_order(questions), task.n
    walkers = PerThread(partial(engine.walker, [question.ask for question in places.values()]))
    edges = np.linspace(0, n, n_chunks(n) + 1).astype(int).tolist()
    walkers.get()  # before threads start, as above
    with bar(n, "explaining", task.progress, "rows") as tick:
        chunks = list(in_process(task.n_jobs).map(_feature_steps, walkers, pairwise(edges), tick))
    parts = tuple(part for _, kept in chunks for part in kept)
    sample = replace(sample, prediction=np.concatenate([own for predictions, _ in chunks for own in predictions]))
    index = {columns: k for k, columns in enumerate(places)}
    return sample, [
        deferred(_pool, parts, index[q.ask.columns], engine.classes(q.ask), q.layout, sample) for q in questions
    ]


@dataclass(frozen=True, eq=False)
class FeatureSteps:
    """The curves of some rows, feature by feature."""

    count: NDArray[np.int64]  # (features, rows): steps of each curve
    begin: Indices  # (features + 1,): where those of a feature begin
    classes: NDArray[np.int32]
    prediction: NDArray[Any]

    @classmethod
    def of(cls, steps: Steps) -> FeatureSteps:
        """Copies of the steps."""
        first, count = steps.start[:, :-1].T.ravel(), np.diff(steps.start).T
        ends = np.cumsum(count)
        mine = np.arange(ends[-1]) + np.repeat(first - ends + count.ravel(), count.ravel())
        begin = np.append(0, ends[count.shape[1] - 1 :: count.shape[1]])
        return cls(count, begin, steps.classes[mine], steps.prediction[mine])


def _feature_steps(
    shared: PerThread[Walker], rows: tuple[int, int], tick: Tick
) -> tuple[list[NDArray[Any]], list[FeatureSteps]]:
    """The predictions of rows unchanged, and their curves."""
    own, kept = [], list[FeatureSteps]()
    for steps in shared.get().steps(*rows):
        own.append(steps.own.copy())
        kept.append(FeatureSteps.of(steps))
        tick(steps.rows.stop - steps.rows.start)
    return own, kept


def _pool(parts: Sequence[FeatureSteps], k: int, class_of: ClassRuns, layout: CommonGrid, sample: Sample) -> Pool:
    """The cells of one feature."""
    classes, prediction = (
        np.concatenate([getattr(part, name)[part.begin[k] : part.begin[k + 1]] for part in parts])
        for name in ("classes", "prediction")
    )
    count = np.concatenate([part.count[k] for part in parts])
    return Pool.of_steps(sample, count, classes, prediction, layout, class_of.each, class_of.size)


def n_chunks(n: int) -> int:
    """The number of chunks that n rows are split into."""
    return int(np.clip(n // CHUNK_ROWS, 1, CHUNKS))


def cluster_seconds(seconds: float, engine: StepEngine, n: int, n_features: int, cluster: Elsewhere) -> float:
    """Time on a cluster for `seconds` of work: the table is sent, and sums of the rows are returned."""
    return on_a_cluster(seconds, n_chunks(n), cluster.threads, engine.takes_about(n)[1] + 8 * n * (n_features + 2))


def cluster_is_faster(engine: StepEngine, n: int, n_features: int, cluster: Elsewhere) -> bool:
    """Whether a cluster is faster; the numbers are the same."""
    seconds, _ = engine.takes_about(n)
    return cluster_seconds(seconds, engine, n, n_features, cluster) < seconds


def _in_engine_order(questions: Sequence[Question]) -> dict[tuple[int, ...], Question]:
    """The questions in the order of their columns in the table, each once, by columns."""
    return {question.ask.columns: question for question in sorted(questions, key=lambda q: q.ask.columns)}


class Axes:
    """The classes of all features, concatenated, and the cumulative donor weight of each feature."""

    def __init__(self, count: int, class_of: Sequence[ClassRuns], donor_mass: Sequence[Floats]) -> None:
        self.count, self.class_of = count, class_of  # features, and the class of each value of their grids
        self.begin = np.concatenate([[0], np.cumsum([len(mass) + 1 for mass in donor_mass])]).astype(np.int64)
        self.mass = np.concatenate([part for mass in donor_mass for part in (np.zeros(1), np.cumsum(mass))])

    def part(self, k: int) -> slice:
        """The positions of the classes of a feature."""
        return slice(int(self.begin[k]), int(self.begin[k + 1]) - 1)


def _axes(engine: StepEngine, questions: Sequence[Question], sample: Sample) -> Axes:
    asks = [question.ask for question in questions]
    class_of, donor_mass = [engine.classes(ask) for ask in asks], []
    for question, classes in zip(questions, class_of, strict=True):
        assert isinstance(question.layout, CommonGrid)  # all rows are donors of all rows
        donor_mass.append(np.bincount(classes.each[question.layout.own], sample.weight, classes.size).astype(float))
    return Axes(len(asks), class_of, donor_mass)


@dataclass(frozen=True, eq=False)
class ChunkSums:
    """Sums over a chunk of rows, for k features."""

    prediction: NDArray[Any]  # (b,) or (b, K): of the unchanged rows
    loss: Floats  # (b,): of these predictions; zeros without a loss
    local: Floats  # (b, k)
    curve: Floats  # (classes, 1 + outputs): jumps of the changes of loss and of the predictions at each class
    clipped: Floats  # (k,)
    cells: list[KeptCurves]
    own_group: Floats  # (b, k): the sum of the changes that each row causes in its own group; (0, k) without groups


@dataclass(frozen=True, eq=False)
class ChunkWork:
    """Sums the steps of chunks of rows."""

    axes: Axes
    sample: Sample
    loss: Loss | None
    like: NDArray[Any]  # any prediction, for type and shape
    kept: Indices
    groups: OwnGroups | None = None  # rows are in its order; pairs inside groups are left out

    def by_group(self, groups: OwnGroups) -> ChunkWork:
        """The work with rows in the order of their groups."""
        order, sample = groups.order, self.sample
        place = np.empty(len(order), np.intp)
        place[order] = np.arange(len(order))
        y = None if sample.y is None else sample.y[order]
        sample = replace(sample, weight=sample.weight[order], y=y, block=groups.block)
        return replace(self, sample=sample, kept=np.sort(place[self.kept]), groups=groups)

    def sums(self, start: int, stop: int, walker: Walker, tick: Tick = silent) -> ChunkSums:
        """The sums over the rows start .. stop."""
        from losslens.engines.step_sums import sum_steps

        axes, sample, count, b = self.axes, self.sample, self.axes.count, stop - start
        ceiling = np.inf if self.loss is None else _ceiling(self.loss, self.like)
        sums = ChunkSums(
            prediction=np.empty((b, *self.like.shape[1:]), self.like.dtype), loss=np.zeros(b),
            local=np.zeros((b, count)), clipped=np.zeros(count),
            curve=np.zeros((axes.begin[-1], 1 + _columns(self.like[:0], sample, np.zeros(0)).shape[1])), cells=[],
            own_group=np.zeros((0, count)),
        )  # fmt: skip
        own_groups = None if self.groups is None else self.groups.sums(start, stop, sample.weight)
        room, shown = np.zeros(0), np.zeros(0)  # used again: new memory would take as long as filling it
        for steps in walker.steps(start, stop):
            rows, in_chunk = steps.rows, slice(steps.rows.start - start, steps.rows.stop - start)
            sums.prediction[in_chunk] = steps.own
            if len(room) < len(steps.classes):
                room = np.zeros(len(steps.classes) * 5 // 4)
                shown = np.zeros(len(room) * (sums.curve.shape[1] - 1)) if self.like.dtype != np.float64 else shown
            changes, y = None, room[:0]
            if self.loss is not None:
                sums.loss[in_chunk], changes, y = _losses(self.loss, sample, steps, room[: len(steps.classes)])
            sum_steps(
                steps.start, steps.classes, room if changes is None else changes,
                _columns(steps.prediction, sample, shown), y, sample.weight[rows],
                sample.weight[rows] if self.loss is None else sums.loss[in_chunk], ceiling, axes.mass, axes.begin,
                sums.local[in_chunk], sums.curve, sums.clipped,
            )  # fmt: skip
            if own_groups is not None and changes is not None:
                sums.local[in_chunk] -= own_groups.add(
                    steps, changes, in_chunk, sample.weight[rows], sums.loss[in_chunk], ceiling, sums.clipped
                )
            sums.cells.extend(self._kept(steps, sums.loss[in_chunk]))
            tick(rows.stop - rows.start)
        return sums if own_groups is None else replace(sums, own_group=own_groups.caused())

    def _kept(self, steps: Steps, own: Floats) -> Iterator[KeptCurves]:
        """Copies of the steps of kept rows; `own` are the losses of these rows unchanged, if there is a loss."""
        first, last = np.searchsorted(self.kept, [steps.rows.start, steps.rows.stop])
        if first == last:
            return
        rows = self.kept[first:last]
        y = None if self.loss is None else self.sample.target(self.loss)[rows]
        own = own[:0] if self.loss is None else own[rows - steps.rows.start]
        if last - first == steps.rows.stop - steps.rows.start and steps.start[0, 0] == 0:  # all of them, the usual case
            yield self._own_changes(
                KeptCurves(steps.start.copy(), steps.classes.copy(), steps.prediction.copy(), y, own)
            )
            return
        start = steps.start[rows - steps.rows.start]
        length = start[:, -1] - start[:, 0]
        shift = np.cumsum(length) - length - start[:, 0]  # from positions in all steps to positions in those copied
        mine = np.arange(length.sum()) - np.repeat(shift, length)
        yield self._own_changes(KeptCurves(start + shift[:, None], steps.classes[mine], steps.prediction[mine], y, own))

    def _own_changes(self, curves: KeptCurves) -> KeptCurves:
        """The curves; with the changes of a user-defined loss, which another call of it may not repeat."""
        if self.loss is None or not self.loss.custom:
            return curves
        length = curves.start[:, -1] - curves.start[:, 0]
        return replace(curves, changes=curves.changes_at(self.loss, self.sample, np.arange(length.sum()), length))


@dataclass(frozen=True, eq=False)
class KeptCurves:
    """All curves of some rows."""

    start: NDArray[np.int64]  # (rows, asks + 1)
    classes: NDArray[np.int32]
    prediction: NDArray[Any]
    y: NDArray[Any] | None  # (rows,): as the loss reads it; None without a loss
    loss: Floats  # (rows,): of the unchanged rows
    changes: Floats | None = None  # of the loss, where they are not computed from predictions on access

    def changes_at(self, loss: Loss, sample: Sample, steps: Indices, count: Indices) -> Floats:
        """Changes of loss at some steps, of which each row has `count`."""
        if self.changes is not None:
            return self.changes[steps]
        assert self.y is not None  # there is a loss
        losses = loss(np.repeat(self.y, count), sample.shown(loss, self.prediction[steps]))
        return np.asarray(losses - np.repeat(self.loss, count))

    def of(self, k: int) -> tuple[Indices, Indices, Indices]:
        """The steps of one feature's curves, row by row, how many each row has, and where they end."""
        first, stop = self.start[:, k], self.start[:, k + 1]
        ends = np.cumsum(stop - first)
        return np.arange(ends[-1]) + np.repeat(stop - ends, stop - first), stop - first, ends


def _sum_chunk(shared: tuple[ChunkWork, PerThread[Walker]], rows: tuple[int, int], tick: Tick) -> ChunkSums:
    work, walkers = shared
    return work.sums(*rows, walkers.get(), tick)


def _ceiling(loss: Loss, prediction: NDArray[Any]) -> float:
    ceiling = loss.ceiling(prediction.dtype)
    return np.inf if ceiling is None else ceiling * (1 - 1e-9)


def _columns(prediction: NDArray[Any], sample: Sample, room: Floats) -> Floats:
    """Predictions as columns to be averaged, in `room` unless they are; labels become indicators of the classes."""
    if prediction.dtype.kind == "i" and sample.classes is not None:
        return np.asarray(prediction[:, None] == np.arange(len(sample.classes)), float)
    columns = prediction if prediction.ndim == 2 else prediction[:, None]
    if columns.dtype == np.float64:
        return np.ascontiguousarray(columns)
    numbers = room[: columns.size].reshape(columns.shape)
    numbers[:] = columns
    return numbers


def _losses(loss: Loss, sample: Sample, steps: Steps, room: Floats) -> tuple[Floats, Floats, Floats]:
    """The losses of the unchanged rows, the change of loss at each step, and y if `sum_steps` fills these changes in.

    It does so for squared errors, in one pass. NumPy takes several, and threads wait for each other between them.
    """
    y = sample.target(loss)[steps.rows]
    loss.check_prediction(steps.own)
    base = loss(y, sample.shown(loss, steps.own))
    if loss == squared_error:
        return base, room, np.asarray(y, float)
    if loss.domains is not None:
        loss.check_prediction(steps.prediction)
    count = steps.start[:, -1] - steps.start[:, 0]
    changes = loss(np.repeat(y, count), sample.shown(loss, steps.prediction))
    changes -= np.repeat(base, count)
    return base, changes, room[:0]


@dataclass(frozen=True, eq=False)
class ClassCurves:
    """Mean changes and predictions of one feature at each class; what is as long as the grid is computed on access."""

    by_class: Floats  # (classes, 1 + outputs): the change of loss, then the predictions
    class_of: ClassRuns  # of g values
    layout: CommonGrid
    sample: Sample
    rows: RowMass
    own_group: Floats | None = None  # (n,): the sum of the changes that each row causes in its own group, left out

    @property
    def leaves_out(self) -> bool:
        """Whether pairs inside groups, or of a row with itself, are left out."""
        return self.layout.leaves_out_own or self.sample.block is not None

    def means(self, local: Floats, clipped: float) -> Means:
        """The means of all cells, from sums over each row's donors and their mass at the loss's ceiling."""
        rows, weight = self.rows, self.sample.weight
        shared: dict[str, Any] = {
            "mass": rows.mass if self.leaves_out else weight,
            "weights": deferred(self.weights),
            "pd": deferred(self.pd),
        }
        if self.sample.loss is None:
            return Means(local=None, **shared)
        return Means(
            local=ratio(local, rows.donor_mass) if self.leaves_out else local,
            **shared,
            pi=deferred(self.pi),
            caused=deferred(self.caused),
            donor_weight=rows.donor_weight if self.leaves_out else weight,
            clipped=share_left(clipped, float(rows.mass.sum() if self.leaves_out else weight.sum())),
        )

    def _value_mass(self) -> Floats:
        return self.rows.at_values(self.layout.own, self.layout.size, leaves_out=self.leaves_out)

    def weights(self) -> Floats:
        """The share of the cells at each value, (g,)."""
        mass = self._value_mass()
        return np.asarray(mass / mass.sum())

    def pd(self) -> NDArray[Any]:
        """The mean prediction at each value, (g,) or (g, K)."""
        single = self.sample.prediction.ndim == 1 and self.sample.prediction.dtype.kind != "i"
        return np.asarray(self.by_class[self.class_of.each, 1] if single else self.by_class[self.class_of.each, 1:])

    def pi(self) -> Floats:
        """The mean change at each value, (g,)."""
        if not self.leaves_out:
            return np.asarray(self.by_class[self.class_of.each, 0])
        sums = np.bincount(self.layout.own, self.sample.weight * self._sums(), self.layout.size)
        return ratio(sums.astype(float), self._value_mass())

    def caused(self) -> Floats:
        """The mean change that each row causes as a donor, (n,)."""
        if not self.leaves_out:
            return self._sums()
        mass = self.rows.donor_mass
        return np.divide(self._sums(), mass, out=np.zeros(self.sample.n), where=mass > 0)

    def _sums(self) -> Floats:
        """The sum of the changes that each row causes, (n,)."""
        changes = self.by_class[self.class_of.each[self.layout.own], 0]
        return np.asarray(changes if self.own_group is None else changes - self.own_group)


def spread_cells(
    k: int, axes: Axes, sample: Sample, loss: Loss | None, parts: Sequence[KeptCurves], kept: Indices, back: Any = ...
) -> Cells:  # fmt: skip
    """The cells of the kept rows, computed on first access; `back` puts the rows of the parts in order."""
    curves = SpreadCells(k, axes.class_of[k], tuple(parts), back)
    changes = None if loss is None else deferred(curves.changes, loss, sample)
    return Cells(kept, deferred(curves.predictions, sample.prediction[:0]), changes)


@dataclass(frozen=True, eq=False)
class SpreadCells:
    """One feature's curves of the kept rows as steps, which are expanded to all values of the grid."""

    k: int
    class_of: ClassRuns  # of g values
    parts: tuple[KeptCurves, ...]
    back: Any = ...

    def predictions(self, like: NDArray[Any]) -> NDArray[Any]:
        """The predictions of the kept rows at all values, (r, g) or (r, g, K)."""
        return self._spread(lambda part, steps, _: part.prediction[steps], like)

    def changes(self, loss: Loss, sample: Sample) -> Floats:
        """The changes of loss of the kept rows at all values, (r, g)."""
        return self._spread(lambda part, *steps: part.changes_at(loss, sample, *steps), np.empty(0))

    def _spread(
        self, of_steps: Callable[[KeptCurves, Indices, Indices], NDArray[Any]], like: NDArray[Any]
    ) -> NDArray[Any]:
        """The values that a function has at steps, expanded to all values of the grid, (r, g) or (r, g, K)."""
        each, size = self.class_of.each, self.class_of.size
        rising = bool(np.all(each[1:] >= each[:-1]))  # a class is a range of values; else curves are expanded by class
        begin, width = (np.searchsorted(each, np.arange(size)), len(each)) if rising else (np.arange(size), size)
        cells = np.empty((sum(len(part.start) for part in self.parts), width, *like.shape[1:]), like.dtype)
        filled = 0
        for part in self.parts:
            steps, count, ends = part.of(self.k)
            first = begin[part.classes[steps]]
            stop = np.append(first[1:], 0)
            stop[ends - 1] = width
            block = cells[filled : filled + len(part.start)].reshape(-1, *like.shape[1:])
            block[:] = np.repeat(of_steps(part, steps, count), stop - first, axis=0)
            filled += len(part.start)
        cells = cells if rising else cells[:, each]
        return cells if self.back is ... else cells[self.back]
