"""The black box: any model, one row of the table for each cell.

Each distinct (row, value) pair is predicted once, and a row's own value not at all where a feature has few values.
Cells are laid out so that batches repeat the same rows with one column changed, across features, and batches of one
size follow each other; the first cells of all are the unchanged rows, so that a feature the model ignores changes
nothing, to the last bit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from losslens.donors.questions import FEW_VALUES, Ask
from losslens.tables.frames import Edit
from losslens.typing import Indices

UNCHANGED = -1


@dataclass(frozen=True, eq=False)
class Piece:
    """Cells of one feature to predict: `rows` (positions in the block) at `values`, to be stored in `columns`."""

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
class Slab:
    """The common case: every row of the block at columns start..stop, column by column. It is stored in one stroke."""

    ask: int
    rows: Indices
    start: int
    stop: int
    met: Indices | None  # the values; None: those at start..stop

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def values(self) -> Indices:
        """The value of each cell."""
        return self.spread(np.arange(self.start, self.stop)) if self.met is None else self.met

    def spread(self, along: Indices) -> Indices:
        """One entry a column, repeated for each row."""
        return np.repeat(along, len(self) // len(along))

    def cut(self, start: int, stop: int) -> Slab | Piece:
        """All of the cells, or some as a piece."""
        if stop - start == len(self):
            return self
        columns = self.spread(np.arange(self.start, self.stop))
        return Piece(self.ask, self.rows, columns, self.values).cut(start, stop)


Cut = Piece | Slab


def edits(batch: Sequence[Cut], asks: Sequence[Ask]) -> list[Edit]:
    """Which values go where in a batch."""
    found, start = [], 0
    for piece in batch:
        if piece.ask != UNCHANGED:
            ask = asks[piece.ask]
            for column, source, index in zip(ask.columns, ask.sources, ask.index, strict=True):
                found.append(Edit(start, start + len(piece), column, source, _index(piece, index)))
        start += len(piece)
    return found


def _index(piece: Cut, index: Indices) -> Indices:
    if isinstance(piece, Slab) and piece.met is None:
        return index[piece.start : piece.stop]  # the same for every row
    return np.asarray(index[piece.values])


def pack(pieces: Iterable[Cut], size: int) -> Iterator[list[Cut]]:
    """Fill batches of exactly `size` rows, across features; the last one may be shorter."""
    batch: list[Cut] = []
    room = size
    for piece in pieces:
        start = 0
        while start < len(piece):
            stop = min(len(piece), start + room)
            batch.append(piece.cut(start, stop))
            room -= stop - start
            start = stop
            if room == 0:
                yield batch
                batch, room = [], size
    if batch:
        yield batch


def group(items: Iterable[Any], size: int) -> Iterator[list[Any]]:
    """Lists of `size` items."""
    some: list[Any] = []
    for item in items:
        some.append(item)
        if len(some) == size:
            yield some
            some = []
    if some:
        yield some


def pieces(b: int, plans: Sequence[SharedGrid | OwnValues], size: int) -> Iterator[Cut]:
    """All that these rows ask for, cut where batches end: the rows as they are first, then plan by plan."""
    nobody = np.zeros(b, np.intp)
    room = _Buffer(b, size)
    yield room.take(Piece(UNCHANGED, np.arange(b), nobody, nobody))
    for number, plan in enumerate(plans):
        yield from map(room.take, plan.pieces(number, room))


class _Buffer:
    """What is left in the batch being filled, so that slabs end where it ends and need not be cut."""

    def __init__(self, b: int, size: int) -> None:
        self.b, self.size, self.left = b, size, size
        self._rows: dict[int, Indices] = {}

    def slots(self, start: int, width: int) -> int:
        """How many columns of a block of rows come next."""
        return min(max(1, self.left // self.b), width - start)

    def rows(self, slots: int) -> Indices:
        """Every row of the block, as often as there are columns."""
        if slots not in self._rows:
            self._rows[slots] = np.tile(np.arange(self.b), slots)
        return self._rows[slots]

    def take(self, piece: Cut) -> Cut:
        """Count a piece in."""
        self.left = self.size - (self.size - self.left + len(piece)) % self.size
        return piece


class SharedGrid:
    """Every row meets every value.

    With few values a row's own is skipped: in slot s row i takes value own[i] + 1 + s, round and round, until its own.
    """

    def __init__(self, own: Indices, size: int) -> None:
        self.own, self.size = own, size
        self.count = len(own) * size - (int(np.sum(own >= 0)) if size <= FEW_VALUES else 0)

    def pieces(self, number: int, room: _Buffer) -> Iterator[Cut]:
        """The cells in the order of values, cut where the batch is full."""
        start = 0
        while start < self.size:
            slots = room.slots(start, self.size)
            if self.size > FEW_VALUES:
                yield Slab(number, room.rows(slots), start, start + slots, None)
            else:
                yield self._others(number, room.rows(slots), start, start + slots)
            start += slots

    def _others(self, number: int, rows: Indices, start: int, stop: int) -> Piece:
        values = (self.own + 1) + np.arange(start, stop)[:, None]
        values -= self.size * (values >= self.size)
        if stop == self.size:  # the last slot brings everybody's own value
            other = values != self.own
            values, rows = values[other], rows[other.ravel()]
        values = values.ravel()
        return Piece(number, rows, values, values)

    def complete(self, cells: NDArray[Any], base: NDArray[Any]) -> None:
        """A row at its own value is the row itself."""
        on = np.flatnonzero(self.own >= 0)
        cells[on, self.own[on]] = base[on]


class OwnValues:
    """Each row meets values of its own; one that it meets again, or that is its own, is not asked for twice."""

    def __init__(self, own: Indices, met: NDArray[np.int32], sparing: bool) -> None:
        self.met = met
        self.same = met == own[:, None]
        self.leader = first_with_value(met) if sparing else None
        self.wanted = None if self.leader is None else (self.leader == np.arange(met.shape[1])) & ~self.same
        self.count = met.size if self.wanted is None else int(self.wanted.sum())

    def pieces(self, number: int, room: _Buffer) -> Iterator[Cut]:
        """The cells in the order of values, cut where the batch is full."""
        start, m = 0, self.met.shape[1]
        while start < m:
            stop = start + room.slots(start, m)
            if self.wanted is None:  # no value is met twice, and next to none is a row's own
                yield Slab(
                    number, room.rows(stop - start), start, stop, self.met[:, start:stop].T.ravel().astype(np.intp)
                )
            else:
                columns, rows = np.nonzero(self.wanted[:, start:stop].T)
                columns += start
                yield Piece(number, rows, columns, self.met[rows, columns].astype(np.intp))
            start = stop

    def complete(self, cells: NDArray[Any], base: NDArray[Any]) -> None:
        """Cells that were not asked for are the same as others, or as the row itself."""
        if self.leader is not None:
            leader = self.leader if cells.ndim == 2 else self.leader[..., None]
            cells[:] = np.take_along_axis(cells, leader, axis=1)
        where = np.nonzero(self.same)
        cells[where] = base[where[0]]


def first_with_value(met: NDArray[np.int32]) -> Indices:
    """For each cell of a row the first column that holds the same value.

    >>> first_with_value(np.array([[3, 1, 3]], np.int32)).tolist()
    [[0, 1, 0]]
    """
    order = np.argsort(met, axis=1, kind="stable")
    ranked = np.take_along_axis(met, order, axis=1)
    starts = np.ones(met.shape, bool)
    starts[:, 1:] = ranked[:, 1:] != ranked[:, :-1]
    place = np.maximum.accumulate(np.where(starts, np.arange(met.shape[1]), 0), axis=1)
    leader = np.empty(met.shape, np.intp)
    np.put_along_axis(leader, order, np.take_along_axis(order, place, axis=1), axis=1)
    return leader
