"""Any model on the rows of a part: what each cell adds to the sums of a column."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import reduce
from math import ceil
from operator import add
from typing import Any

import numpy as np
from numpy.typing import NDArray

from losslens.losses import Loss
from losslens.sample import Sample, lose
from losslens.streams.counting import Grid
from losslens.streams.influences import RowSums
from losslens.streams.lenders import Gather, Loan
from losslens.streams.parts import Data, Floats, Indices, Rows, Stretch, judged
from losslens.tables import Batch, Edit, Table

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
    grids: Mapping[int, Grid]
    gather: Gather

    def sample(self, rows: Rows) -> Sample:
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

    error: Floats  # (3,): of w l, w^2 l and w^2 l^2
    columns: dict[int, ColumnSums]
    asked: int  # rows that the model was asked for

    def __add__(self, other: BoxSums) -> BoxSums:
        columns = dict(self.columns)
        for j, more in other.columns.items():
            columns[j] = columns[j] + more if j in columns else more
        return BoxSums(self.error + other.error, columns, self.asked + other.asked)


def evaluate(work: BoxWork, turn: Turn) -> BoxSums:
    """All cells of a turn."""
    (rows,) = work.data.rows(turn.stretch)
    sample = work.sample(rows)
    w, loss = sample.weight, sample.loss
    assert loss is not None
    error = np.array([w @ loss, w**2 @ loss, w**2 @ loss**2]) * turn.first
    columns, asked = {}, sample.n
    for j, loan in turn.loans.items():
        columns[j], count = _column(work, rows, sample, j, loan)
        asked += count
    return BoxSums(error, columns, asked)


def _column(work: BoxWork, rows: Rows, sample: Sample, j: int, loan: Loan | None) -> tuple[ColumnSums, int]:
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
