"""How the cells of a black box become batches: one row of the table for each cell to predict.

Each distinct (row, value) pair is predicted once, and a row's own value not at all if a feature has few values. Batches
repeat the same rows with one column changed, across features, and all have the same size; the first cells are the
unchanged rows, so that a feature the model ignores changes nothing, to the last bit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from losslens.donors.questions import FEW_VALUES, Ask
from losslens.tables.frames import Edit
from losslens.typing import Indices

UNCHANGED = -1


@dataclass(frozen=True, eq=False)
class Piece:
    """Cells of one feature to predict: `rows` (positions among the rows of a call) at `values`, stored in `columns`."""

    ask: int
    rows: Indices
    columns: Indices
    values: Indices

    def __len__(self) -> int:
        return len(self.rows)

    def cut(self, start: int, stop: int) -> Piece:
        """Some of the cells."""
        return Piece(self.ask, self.rows[start:stop], self.columns[start:stop], self.values[start:stop])


@dataclass(frozen=True, eq=False)
class ColumnBlock:
    """The common case: all rows of a call at columns start..stop, column by column; stored by one assignment."""

    ask: int
    rows: Indices
    start: int
    stop: int
    drawn: Indices | None  # the values; None: those at start..stop

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def values(self) -> Indices:
        """The value of each cell."""
        return self.spread(np.arange(self.start, self.stop)) if self.drawn is None else self.drawn

    def spread(self, positions: Indices) -> Indices:
        """One entry per column, repeated for each row."""
        return np.repeat(positions, len(self) // len(positions))

    def cut(self, start: int, stop: int) -> ColumnBlock | Piece:
        """All of the cells, or some of them as a piece."""
        if stop - start == len(self):
            return self
        columns = self.spread(np.arange(self.start, self.stop))
        return Piece(self.ask, self.rows, columns, self.values).cut(start, stop)


Cut = Piece | ColumnBlock


def edits(batch: Sequence[Cut], asks: Sequence[Ask]) -> list[Edit]:
    """The values to write into a batch."""
    written, start = [], 0
    for piece in batch:
        if piece.ask != UNCHANGED:
            ask = asks[piece.ask]
            for column, source, index in zip(ask.columns, ask.sources, ask.index, strict=True):
                written.append(Edit(start, start + len(piece), column, source, _index(piece, index)))
        start += len(piece)
    return written


def _index(piece: Cut, index: Indices) -> Indices:
    if isinstance(piece, ColumnBlock) and piece.drawn is None:
        return index[piece.start : piece.stop]  # the same for every row
    return np.asarray(index[piece.values])


def pack(pieces: Iterable[Cut], size: int) -> Iterator[list[Cut]]:
    """Fill batches of exactly `size` rows, across features; the last one may be shorter."""
    batch: list[Cut] = []
    left = size
    for piece in pieces:
        start = 0
        while start < len(piece):
            stop = min(len(piece), start + left)
            batch.append(piece.cut(start, stop))
            left -= stop - start
            start = stop
            if left == 0:
                yield batch
                batch, left = [], size
    if batch:
        yield batch


def group(items: Iterable[Any], size: int) -> Iterator[list[Any]]:
    """Lists of `size` items; the last one may be shorter."""
    iterator = iter(items)
    while some := list(islice(iterator, size)):
        yield some


def pieces(b: int, plans: Sequence[SharedGrid | OwnValues], size: int) -> Iterator[Cut]:
    """All cells of b rows, cut where batches end: first the unchanged rows, then plan by plan."""
    unused = np.zeros(b, np.intp)
    space = _BatchSpace(b, size)
    yield space.take(Piece(UNCHANGED, np.arange(b), unused, unused))
    for number, plan in enumerate(plans):
        yield from map(space.take, plan.pieces(number, space))


class _BatchSpace:
    """Space left in the batch being filled, so that blocks end where it ends and need not be cut."""

    def __init__(self, b: int, size: int) -> None:
        self.b, self.size, self.left = b, size, size
        self._rows: dict[int, Indices] = {}

    def slots(self, start: int, width: int) -> int:
        """Number of columns, for all rows, that come next."""
        return min(max(1, self.left // self.b), width - start)

    def rows(self, slots: int) -> Indices:
        """All rows, repeated for each column."""
        if slots not in self._rows:
            self._rows[slots] = np.tile(np.arange(self.b), slots)
        return self._rows[slots]

    def take(self, piece: Cut) -> Cut:
        """Use up the space of a piece."""
        self.left = self.size - (self.size - self.left + len(piece)) % self.size
        return piece


class SharedGrid:
    """All rows at all values.

    With few values a row's own is skipped: in slot s row i takes value own[i] + 1 + s, cyclically, up to its own.
    """

    def __init__(self, own: Indices, size: int) -> None:
        self.own, self.size = own, size
        self.count = len(own) * size - (int(np.sum(own >= 0)) if size <= FEW_VALUES else 0)

    def pieces(self, number: int, space: _BatchSpace) -> Iterator[Cut]:
        """The cells in the order of values, cut where the batch is full."""
        start = 0
        while start < self.size:
            slots = space.slots(start, self.size)
            if self.size > FEW_VALUES:
                yield ColumnBlock(number, space.rows(slots), start, start + slots, None)
            else:
                yield self._others(number, space.rows(slots), start, start + slots)
            start += slots

    def _others(self, number: int, rows: Indices, start: int, stop: int) -> Piece:
        values = (self.own + 1) + np.arange(start, stop)[:, None]
        values -= self.size * (values >= self.size)
        if stop == self.size:  # the last slot is each row's own value
            other = values != self.own
            values, rows = values[other], rows[other.ravel()]
        values = values.ravel()
        return Piece(number, rows, values, values)

    def own_values(self) -> tuple[Indices, Indices]:
        """Cells that are predicted although they are the row itself, as rows and columns."""
        rows = np.flatnonzero(self.own >= 0) if self.size > FEW_VALUES else np.empty(0, np.intp)
        return rows, self.own[rows]

    def complete(self, cells: NDArray[Any], base: NDArray[Any]) -> None:
        """A row at its own value is the row itself."""
        rows = np.flatnonzero(self.own >= 0)
        cells[rows, self.own[rows]] = base[rows]


class OwnValues:
    """Each row at values drawn for it; a value drawn twice, or equal to the row's own, is not predicted twice."""

    def __init__(self, own: Indices, drawn: Indices, sparing: bool) -> None:
        self.drawn = drawn
        self.same = drawn == own[:, None]
        self.leader = first_with_value(drawn) if sparing else None
        self.predicted = None if self.leader is None else (self.leader == np.arange(drawn.shape[1])) & ~self.same
        self.count = drawn.size if self.predicted is None else int(self.predicted.sum())

    def pieces(self, number: int, space: _BatchSpace) -> Iterator[Cut]:
        """The cells in the order of values, cut where the batch is full."""
        start, m = 0, self.drawn.shape[1]
        while start < m:
            stop = start + space.slots(start, m)
            if self.predicted is None:  # no value is drawn twice, and hardly any is a row's own
                yield ColumnBlock(
                    number, space.rows(stop - start), start, stop, self.drawn[:, start:stop].T.ravel().astype(np.intp)
                )
            else:
                columns, rows = np.nonzero(self.predicted[:, start:stop].T)
                columns += start
                yield Piece(number, rows, columns, self.drawn[rows, columns].astype(np.intp))
            start = stop

    def own_values(self) -> tuple[Indices, Indices]:
        """Cells that are predicted although they are the row itself, as rows and columns."""
        rows, columns = np.nonzero(self.same if self.predicted is None else self.same[:0])
        return rows, columns

    def complete(self, cells: NDArray[Any], base: NDArray[Any]) -> None:
        """Cells that were not predicted equal another cell, or the row itself."""
        if self.leader is not None:
            leader = self.leader if cells.ndim == 2 else self.leader[..., None]
            cells[:] = np.take_along_axis(cells, leader, axis=1)
        where = np.nonzero(self.same)
        cells[where] = base[where[0]]


def first_with_value(drawn: Indices) -> Indices:
    """For each cell of a row the first column that holds the same value.

    >>> first_with_value(np.array([[3, 1, 3]], np.int32)).tolist()
    [[0, 1, 0]]
    """
    order = np.argsort(drawn, axis=1, kind="stable")
    ranked = np.take_along_axis(drawn, order, axis=1)
    starts = np.ones(drawn.shape, bool)
    starts[:, 1:] = ranked[:, 1:] != ranked[:, :-1]
    place = np.maximum.accumulate(np.where(starts, np.arange(drawn.shape[1]), 0), axis=1)
    leader = np.empty(drawn.shape, np.intp)
    np.put_along_axis(leader, order, np.take_along_axis(order, place, axis=1), axis=1)
    return leader
