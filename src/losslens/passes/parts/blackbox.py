"""Any model on data larger than memory: Latin donors over all rows.

Three passes: count the values of the asked columns; gather these columns, which are small, and some rows, which are
kept; then ask the model. The kept rows meet every value of the grid. They give the single curves and the standard
errors, and tell how many donors every row needs; the numbers come from all rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from math import ceil
from operator import add
from typing import Any

import numpy as np
from numpy.typing import NDArray

from losslens.cells.matrix import Cells
from losslens.cells.row_sums import RowSums
from losslens.donors.designs import All, Design, Latin
from losslens.donors.questions import Ask
from losslens.engines.blackbox import BlackBox
from losslens.engines.choice import batch_rows
from losslens.losses import Loss
from losslens.passes.parts.counting import (
    Counted,
    CountedGrid,
    FirstPass,
    Quantiles,
    codebook,
    first_pass,
    kinds_of_all,
)
from losslens.passes.parts.kept_rows import sample_of
from losslens.passes.parts.lenders import Gather, Loan, Store, gather, latin, lend
from losslens.passes.parts.reading import Data, PartRows, Stretch, judged
from losslens.passes.parts.results import Summed, SummedColumn, curves_only, loss_sums, totals
from losslens.passes.parts.stream import Stream, classes_of, wants_labels
from losslens.passes.task import label_positions
from losslens.progress import Tick, bar, silent
from losslens.tables.frames import Batch, Edit, Table, one_after_another, one_behind_the_other
from losslens.tables.sample import Sample, lose
from losslens.typing import Floats, Indices

Respond = Callable[[Any], NDArray[Any]]


@dataclass(frozen=True, eq=False)
class BoxWork:
    """What all parts of the last pass need; it travels."""

    data: Data
    model: Any
    respond: Respond
    loss: Loss
    classes: NDArray[Any] | None
    mass: float
    size: int  # rows of a batch
    book: Table
    grids: Mapping[int, CountedGrid]
    gather: Gather

    def sample(self, rows: PartRows) -> Sample:
        """The rows of a part, predicted and judged."""
        sample = judged(rows, self.model, self.loss, self.classes, self.mass)
        batch, every = Batch(rows.table), np.arange(rows.table.n)
        found = [self.respond(batch.fill(every[part], [])) for part in _slices(len(every), self.size)]
        prediction = np.concatenate(found)
        self.loss.check_prediction(prediction)
        return replace(sample, prediction=prediction).with_loss(self.loss)


@dataclass(frozen=True, eq=False)
class Turn:
    """Some columns of one part, with what its rows receive: None, where they meet every value of the grid."""

    stretch: Stretch
    loans: dict[int, Loan | None]
    first: bool  # the rows themselves are counted in one turn only

    @property
    def name(self) -> str:
        """Of the part."""
        return self.stretch.name


@dataclass(frozen=True, eq=False)
class ColumnSums:
    """Sums over the cells of one column."""

    cells: Floats  # (g, 3 + outputs): mass, changes, mass at the ceiling, predictions, at each value
    rows: RowSums
    within: Floats  # (2,): squares of a row's changes around their mean, and how many times the variance that is

    def __add__(self, other: ColumnSums) -> ColumnSums:
        return ColumnSums(self.cells + other.cells, self.rows + other.rows, self.within + other.within)


@dataclass(frozen=True, eq=False)
class BoxSums:
    """Sums over the cells of a turn."""

    losses: Floats  # (3,)
    columns: dict[int, ColumnSums]
    asked: int  # rows that the model was asked for

    def __add__(self, other: BoxSums) -> BoxSums:
        columns = dict(self.columns)
        for j, more in other.columns.items():
            columns[j] = columns[j] + more if j in columns else more
        return BoxSums(self.losses + other.losses, columns, self.asked + other.asked)


def evaluate(work: BoxWork, turn: Turn, tick: Tick) -> BoxSums:
    """All cells of a turn."""
    (rows,) = work.data.rows(turn.stretch)
    sample = work.sample(rows)
    columns, asked = {}, sample.n
    for j, loan in turn.loans.items():
        columns[j], count = _column(work, rows, sample, j, loan)
        asked += count
        tick(sample.n)
    return BoxSums(loss_sums(sample) * turn.first, columns, asked)


def _column(work: BoxWork, rows: PartRows, sample: Sample, j: int, loan: Loan | None) -> tuple[ColumnSums, int]:
    grid, b = work.grids[j], sample.n
    if loan is None:  # everybody meets every value
        source, index = work.book.column(j), np.broadcast_to(np.arange(len(grid))[:, None], (len(grid), b))
        lent: Any = np.broadcast_to((grid.mass[:, 0] / grid.mass[:, 0].sum())[:, None], index.shape)
        places = index
    else:
        source, index = loan.column(rows.table, j, work.book, grid)
        lent = np.ones(index.shape) if loan.weight is None else loan.weight.T
        places = _places(work, source, index, j) if grid.binned else index
    own, batch, every = work.gather.places(rows.table, [j])[j], Batch(rows.table), np.arange(b)
    found = []
    for part in _slices(b, work.size):
        some, changes, cells = every[part], [], []
        for slot in range(len(index)):
            prediction = work.respond(batch.fill(some, [Edit(0, len(some), j, source, index[slot, part])]))
            if work.loss.domains is not None:
                work.loss.check_prediction(prediction)
            changes.append(lose(work.loss, sample, some, prediction[:, None])[:, 0])
            weight = sample.weight[some] * lent[slot, part]
            cells.append(_cells(work, sample, some, prediction, changes[-1], weight, places[slot, part], len(grid)))
        by_row = _rows(sample, some, np.stack(changes), lent[:, part], own[part], len(grid), loan is None)
        found.append(ColumnSums(np.sum(cells, axis=0), *by_row))
    return reduce(add, found), index.size


def _rows(
    sample: Sample, rows: Indices, changes: Floats, lent: Floats, own: Indices, g: int, every: bool
) -> tuple[RowSums, Floats]:
    """What the rows themselves say: means over their donors, how far these are off, and how donors differ."""
    with np.errstate(invalid="ignore", divide="ignore"):  # a row whose donors weigh nothing says nothing
        share = np.where(lent.sum(axis=0) > 0, lent / lent.sum(axis=0), 0.0)
    w, R = sample.weight[rows], np.sum(share * changes, axis=0)
    noise, within = np.zeros(len(rows)), np.zeros(2)
    if not every:
        together = np.sum(share**2, axis=0)
        square = np.sum(share * (changes - R) ** 2, axis=0)  # its mean: (1 - together) times the variance
        told = (together < 1 - 1e-9) & (together > 0)
        noise[told] = (square * together)[told] / (1 - together[told])
        within = np.array([w[told] @ square[told], w[told] @ (1 - together[told])])
    assert sample.loss is not None
    return RowSums.of(w, R, sample.loss[rows], own, g, noise), within


def _places(work: BoxWork, source: Any, index: Indices, j: int) -> Indices:
    """Where lent values stand on the grid."""
    distinct = source.distinct
    bins = work.gather.bins.of(work.book, {j: distinct})[j]
    return np.asarray(work.grids[j].places(distinct.values, bins)[distinct.codes][index])


def _cells(
    work: BoxWork, sample: Sample, rows: Indices, prediction: NDArray[Any], changes: Floats, weight: Floats,
    places: Indices, g: int,
) -> Floats:  # fmt: skip
    """Sums of some cells at each value of the grid."""
    ceiling = work.loss.ceiling(prediction.dtype)
    clipped = np.zeros(len(rows))
    if ceiling is not None:
        assert sample.loss is not None
        clipped = weight * (changes + sample.loss[rows] >= ceiling * (1 - 1e-9))
    shown = prediction
    if prediction.dtype.kind == "i" and work.classes is not None:
        shown = (prediction[:, None] == np.arange(len(work.classes))).astype(float)
    columns = [weight, weight * changes, clipped, *(weight[:, None] * shown.reshape(len(rows), -1)).T]
    return np.stack([np.bincount(places, column, g) for column in columns], axis=1)


def _slices(n: int, size: int) -> list[slice]:
    count = ceil(n / size)
    return [slice(n * k // count, n * (k + 1) // count) for k in range(count)]


BINS = 256  # of a column with many values
CURVES, FEWEST_CURVES = 500, 64  # rows that meet every value
MOST_DONORS, FEWEST_DONORS = 64, 2  # of "auto"
TOLERATED = 0.1  # the draw's share of the variance, as with data in memory


# The kept rows.


@dataclass(frozen=True, eq=False)
class Curves:
    """What all columns need to lay out the curves of the kept rows; it travels."""

    table: Table
    respond: Respond
    size: int
    book: Table
    grids: Mapping[int, CountedGrid]
    places: Mapping[int, Indices]


@dataclass(frozen=True)
class _Named:
    j: int
    name: str


def curves_of(asked: Curves, column: _Named, _: Tick) -> tuple[NDArray[Any], NDArray[Any], int]:
    """Predictions of the kept rows, unchanged and at every value of a column."""
    j, n = column.j, asked.table.n
    g = len(asked.grids[j])
    both = one_behind_the_other(asked.table.native, asked.book)  # a batch keeps unchanged rows: these stand first
    ask = Ask(column.name, (j,), (both.column(j),), (n + np.arange(g),), asked.places[j], g)
    answer = BlackBox(asked.table, asked.respond, asked.size).fill(np.arange(n), [ask], silent)
    return answer.base, answer.cells[0], answer.n_predictions[0]


@dataclass(frozen=True, eq=False)
class StreamedColumn:
    """What the kept rows say of one column."""

    cells: Cells
    local: Floats  # (r,): mean over the values
    design: Design
    noise: float  # D2: what rows and donors leave unexplained of a cell
    asked: int


# The whole run.


@dataclass(eq=False)
class _BlackBoxRun:
    stream: Stream

    def everything(self) -> Summed:
        """Count, gather, ask."""
        self._count()
        store = Store(self.stream.n, self.stream.memory)
        try:
            self._gather(store)
            self._look_at_kept()
            sums = reduce(add, self._answers(store))
        finally:
            store.close()
        return self._result(sums)

    def _count(self) -> None:
        stream = self.stream
        self.bins = Quantiles.of_rows(stream.here_and_there, stream.asked, BINS)
        asked = FirstPass(stream.data, stream.asked, self.bins, wants_labels(stream))
        self.counted: Counted = first_pass(asked, stream.stretches, stream.workers, stream.progress)
        kinds = kinds_of_all(self.counted, stream.data.columns)
        self.grids = self.counted.grids
        self.data = replace(stream.data, kinds=kinds)
        self.book = codebook(stream.head, self.grids, kinds)
        self.classes = classes_of(stream, self.counted.labels)
        self.respond: Respond = stream.model.responder(stream.response)
        if stream.response == "labels" and self.classes is not None:
            place = {label: k for k, label in enumerate(self.classes.tolist())}
            self.respond = partial(label_positions, self.respond, place)
        self.size = batch_rows(stream.model.native, stream.head, stream.memory)
        self.parts = _single(stream.stretches, self.counted)

    def _gather(self, store: Store) -> None:
        stream = self.stream
        rng = np.random.default_rng([stream.entropy, stream.n])
        cells = sum(24 * len(grid) for grid in self.grids.values())
        most = int(np.clip(stream.memory // 8 // cells, FEWEST_CURVES, CURVES))
        at = np.sort(rng.choice(stream.n, min(most, stream.n), replace=False))
        weighted = stream.data.weight is not None
        self.asked = Gather(self.data, self.bins, self.grids, weighted, at)
        kept = []
        with bar(stream.n, "gathering", stream.progress, "rows") as tick:
            gathered = stream.workers.map(gather, self.asked, self.parts, tick)
            for stretch, found in zip(self.parts, gathered, strict=True):
                store.put(stretch.start, found.columns)
                kept.append(found.kept)
        tables, ys, weights = zip(*kept, strict=True)
        self.table = one_after_another(tables, self.book)
        y = None if ys[0] is None else np.concatenate(ys)
        rows = PartRows(self.parts[0].parts[0], self.table, y, np.concatenate(weights), 0)
        self.kept_at, self.kept_rows = at, rows

    def _look_at_kept(self) -> None:
        """All values for a few rows: curves, errors, and how many donors all rows need."""
        stream, loss = self.stream, self.stream.loss
        assert loss is not None
        self.places = self.asked.places(self.table, stream.asked)
        asked = Curves(self.table, self.respond, self.size, self.book, self.grids, self.places)
        named = [_Named(j, stream.head.names[j]) for j in stream.asked]
        mass = float(self.counted.mass[0])
        sample = judged(self.kept_rows, stream.nameplate, loss, self.classes, mass)
        self.columns: dict[int, StreamedColumn] = {}
        for column, found in zip(named, stream.workers.map(curves_of, asked, named), strict=True):
            base, cells, count = found
            loss.check_prediction(base)
            self.sample = replace(sample, prediction=base).with_loss(loss)
            self.columns[column.j] = self._column(column.j, cells, count)

    def _column(self, j: int, predictions: NDArray[Any], asked: int) -> StreamedColumn:
        loss, rows = self.stream.loss, np.arange(len(self.kept_at))
        assert loss is not None
        changes = lose(loss, self.sample, rows, predictions)
        lent = self.grids[j].mass[:, 0] / self.counted.mass[0]
        weight = self.sample.weight / self.sample.weight.sum()
        local, curve = changes @ lent, weight @ changes
        r, pfi = len(rows), float(weight @ local)
        left = changes - local[:, None] - curve + pfi
        noise = float(weight @ left**2 @ lent) * r / max(r - 1, 1)
        u = local + curve[self.places[j]] - 2 * pfi
        return StreamedColumn(
            Cells(rows, predictions, changes), local, self._design(j, noise, float(weight @ u**2)), noise, asked
        )

    def _design(self, j: int, noise: float, spread: float) -> Design:
        """Every value where they are few; else as many donors as the rows' own spread asks for."""
        given, grid = self.stream.design, self.grids[j]
        if isinstance(given, Latin):
            given.check(self.stream.n)
            return given
        if isinstance(given, All):
            if grid.binned:
                raise ValueError(
                    f"donors='all' would ask for every value of {self.stream.head.names[j]!r} for {self.stream.n:,} "
                    "rows, and no exact engine knows the model; use donors='auto' or Latin(m)"
                )
            return given
        m = ceil(noise / (TOLERATED * spread)) if spread > 0 else FEWEST_DONORS
        m = int(np.clip(m, FEWEST_DONORS, min(MOST_DONORS, self.stream.n)))
        return All() if not grid.binned and len(grid) <= m + 1 else Latin(m)

    def _answers(self, store: Store) -> Iterator[BoxSums]:
        stream, loss = self.stream, self.stream.loss
        assert loss is not None
        work = BoxWork(
            self.data, stream.nameplate, self.respond, loss, self.classes, float(self.counted.mass[0]), self.size,
            self.book, self.grids, self.asked,
        )  # fmt: skip
        shifts = {
            j: latin(stream.n, column.design.m, stream.entropy, stream.head.names[j])
            for j, column in self.columns.items()
            if isinstance(column.design, Latin)
        }
        total = sum(stretch.rows for stretch in self.parts) * len(stream.asked)
        with bar(total, "explaining", stream.progress, "rows of columns") as tick:
            yield from stream.workers.map(evaluate, work, self._turns(store, shifts), tick)

    def _turns(self, store: Store, shifts: Mapping[int, Any]) -> Iterator[Turn]:
        """Parts and columns, a few at a time: what rows receive travels with them."""
        for stretch in self.parts:
            start, stop = stretch.start, stretch.start + stretch.rows
            for k, columns in enumerate(self._groups(stretch.rows)):
                loans = {j: lend(store, shifts[j], j, start, stop) if j in shifts else None for j in columns}
                yield Turn(stretch, loans, k == 0)

    def _groups(self, rows: int) -> list[list[int]]:
        most, groups, size = self.stream.memory // 32, [[]], 0  # type: ignore[var-annotated]
        for j, column in self.columns.items():
            needs = 16 * rows * (column.design.m if isinstance(column.design, Latin) else 1)
            if groups[-1] and size + needs > most:
                groups.append([])
                size = 0
            groups[-1].append(j)
            size += needs
        return groups

    def _result(self, sums: BoxSums) -> Summed:
        stream = self.stream
        sample = sample_of(self.sample, totals(stream, self.counted, self.kept_at, sums.losses))
        columns = {j: self._summed(j, sums.columns[j], sample) for j in stream.asked}
        asked = sums.asked + sum(column.asked for column in self.columns.values())
        return Summed(stream, "blackbox", sample, columns, asked)

    def _summed(self, j: int, sums: ColumnSums, sample: Sample) -> SummedColumn:
        column, grid, n = self.columns[j], self.grids[j], self.stream.n
        mass, changes, clipped, *predictions = sums.cells.T
        with np.errstate(invalid="ignore", divide="ignore"):  # values that nobody met
            pi, pd = changes / mass, np.stack(predictions, axis=1) / mass[:, None]
        pfi = float(changes.sum() / mass.sum())
        curve = np.where(mass > 0, pi, 0.0)
        design, noise = column.design, 0.0
        if isinstance(design, Latin):
            # What donors leave unexplained of a cell; one donor a row doesn't tell, and then the kept rows do.
            square, times = sums.within.tolist()
            spread = float(mass / mass.sum() @ (curve - pfi) ** 2)
            left = max(square / times - spread, 0.0) if times > 0 else column.noise
            noise = left * n * self.counted.squares**2 / design.m * (1 - (design.m - 1) / (n - 1))
        one = sample.prediction.ndim == 1 and sample.prediction.dtype.kind != "i"
        assert sample.totals is not None
        means = replace(
            curves_only(sample, mass, pd[:, 0] if one else pd),
            local=column.local, pi=pi, caused=curve[self.places[j]], lent=sample.weight,
            clipped=float(clipped.sum() / mass.sum()), total=pfi,
            influences=sums.rows.influences(pfi, curve, sample.totals.error, noise),
        )  # fmt: skip
        asked = column.asked + n * (design.m if isinstance(design, Latin) else len(grid))
        return SummedColumn(grid, self.places[j], means, column.cells, design, asked)


def run(stream: Stream) -> Summed:
    """Three passes, and what they add up to."""
    return _BlackBoxRun(stream).everything()


def _single(stretches: Sequence[Stretch], counted: Counted) -> list[Stretch]:
    """One stretch a part, with its checksum."""
    found, k = [], 0
    for stretch in stretches:
        at = 0
        for part in stretch.parts:
            y = None if stretch.y is None else stretch.y[at : at + part.rows]
            found.append(Stretch((part,), y, (counted.checksums[k],)))
            at, k = at + part.rows, k + 1
    return found
