"""The black box: any model, one row of the table for each cell.

Each distinct (row, value) pair is predicted once, and a row's own value not at all where a feature has few values.
Cells are laid out so that batches repeat the same rows with one column changed, across features, and batches of one
size follow each other; the first cells of all are the unchanged rows, so that a feature the model ignores changes
nothing, to the last bit.
"""

from __future__ import annotations

import itertools
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from losslens.columns import Column
from losslens.engines.base import FEW_VALUES, Answer, Ask, Indices
from losslens.engines.mixing import Mixer
from losslens.progress import Tick
from losslens.tables import Batch, Edit, Table
from losslens.workers import active

RUN = 8  # batches that a worker takes at a time: they share one buffer
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


@dataclass(frozen=True)
class BlackBox:
    """Asks the model itself."""

    table: Table
    respond: Callable[[Any], NDArray[Any]]
    batch_rows: int
    n_jobs: int | None = None
    name: ClassVar[str] = "blackbox"

    def fill(self, rows: Indices, asks: Sequence[Ask], tick: Tick) -> Answer:
        """Predictions of these rows, unchanged and in all cells of each ask, block of rows by block."""
        store = _Store(len(rows), asks)
        for block in np.array_split(np.arange(len(rows)), ceil(len(rows) / self.batch_rows)):
            plans = [_plan(ask, rows[block]) for ask in asks]
            size = self._batch_size(len(block), plans)
            batches = pack(_pieces(len(block), plans, size), size)
            for batch, predictions in self._predict(rows[block], asks, batches, tick):
                store.put(block, batch, predictions)
            store.complete(block, plans)
        return store.answer()

    def mixer(self, players: Sequence[tuple[int, ...]], columns: dict[int, Column]) -> Mixer:
        """Somebody to ask the same model for mixed rows."""
        return Mixer(self.table, players, columns, self.respond, self.batch_rows, self.n_jobs)

    def rows_a_call(self, n: int) -> int:
        """Rows of a full batch: a whole number of times the block."""
        block = ceil(n / ceil(n / self.batch_rows))
        return self.batch_rows // block * block

    def timed_batch(self) -> tuple[int, float]:
        """Rows and seconds of one batch of unchanged rows."""
        rows = np.arange(min(self.table.n, self.batch_rows))
        table = Batch(self.table).fill(rows, [])
        started = time.perf_counter()
        self.respond(table)
        return len(rows), time.perf_counter() - started

    def _batch_size(self, b: int, plans: Sequence[_Table | _Matrix]) -> int:
        """A whole number of times the block, and as many of these as make all batches about as large."""
        cells = b + sum(plan.count for plan in plans)
        calls = ceil(cells / self.rows_a_call(b))
        return ceil(cells / calls / b) * b

    def _predict(
        self, rows: Indices, asks: Sequence[Ask], batches: Iterable[list[Cut]], tick: Tick
    ) -> Iterator[tuple[list[Cut], NDArray[Any]]]:
        """Predictions batch by batch, in order, whoever makes them: the answer can't depend on n_jobs."""
        cluster = active()
        if cluster is not None:
            far = ((rows, run) for run in group(batches, 8 * RUN))
            for found in cluster.map(_work_far_away, (self, asks), far):
                for batch, predictions in found:
                    tick(len(predictions))
                    yield batch, predictions
            return
        if self.n_jobs is None and "joblib" not in sys.modules:  # nobody can have asked for workers
            yield from self._serve(rows, asks, batches, tick)
            return
        from joblib import Parallel, delayed
        from joblib.parallel import get_active_backend

        backend, _ = get_active_backend(prefer="threads")
        if backend.effective_n_jobs(Parallel(n_jobs=self.n_jobs, prefer="threads").n_jobs) == 1:
            yield from self._serve(rows, asks, batches, tick)
            return
        shared = getattr(backend, "supports_sharedmem", False)  # threads; processes don't say
        stop = threading.Event() if shared else None
        runs = group(batches, RUN if shared else 8 * RUN)
        ask = delayed(_work)
        workers = Parallel(n_jobs=self.n_jobs, prefer="threads", return_as="generator")
        try:  # around the call too, because it hands out work already
            found = workers(ask(self, rows, asks, run, tick if shared else None, stop) for run in runs)
            for run in found:
                for batch, predictions in run:
                    if not shared:
                        tick(len(predictions))
                    yield batch, predictions
        finally:
            if stop is not None:
                stop.set()

    def _serve(
        self, rows: Indices, asks: Sequence[Ask], batches: Iterable[list[Cut]], tick: Tick | None
    ) -> Iterator[tuple[list[Cut], NDArray[Any]]]:
        buffer, wanted = Batch(self.table), None
        for batch in batches:
            if len(batch) > 1 or wanted is not batch[0].rows:  # most batches repeat the rows of the last one
                wanted = batch[0].rows if len(batch) == 1 else np.concatenate([piece.rows for piece in batch])
                these = rows[wanted]
            predictions = self.respond(buffer.fill(these, edits(batch, asks)))
            if tick is not None:
                tick(len(predictions))
            yield batch, predictions


def _work(
    engine: BlackBox,
    rows: Indices,
    asks: Sequence[Ask],
    batches: list[list[Cut]],
    tick: Tick | None,
    stop: threading.Event | None,
) -> list[tuple[list[Cut], NDArray[Any]]]:
    """One worker's run of batches; it ends early once nobody waits for the answer (Ctrl-C)."""
    wanted = itertools.takewhile(lambda batch: stop is None or not stop.is_set(), batches)
    return list(engine._serve(rows, asks, wanted, tick))


def _work_far_away(
    shared: tuple[BlackBox, Sequence[Ask]], run: tuple[Indices, list[list[Cut]]]
) -> list[tuple[list[Cut], NDArray[Any]]]:
    """A run of batches on a cluster."""
    engine, asks = shared
    return list(engine._serve(run[0], asks, run[1], None))


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


def _pieces(b: int, plans: Sequence[_Table | _Matrix], size: int) -> Iterator[Cut]:
    nobody = np.zeros(b, np.intp)
    room = _Room(b, size)
    yield room.take(Piece(UNCHANGED, np.arange(b), nobody, nobody))
    for number, plan in enumerate(plans):
        yield from map(room.take, plan.pieces(number, room))


class _Room:
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


def _plan(ask: Ask, rows: Indices) -> _Table | _Matrix:
    if ask.met is None:
        return _Table(ask.own[rows], ask.size)
    return _Matrix(ask.own[rows], ask.met[rows], ask.met.repeats or ask.size <= FEW_VALUES)


class _Table:
    """Every row meets every value.

    With few values a row's own is skipped: in slot s row i takes value own[i] + 1 + s, round and round, until its own.
    """

    def __init__(self, own: Indices, size: int) -> None:
        self.own, self.size = own, size
        self.count = len(own) * size - (int(np.sum(own >= 0)) if size <= FEW_VALUES else 0)

    def pieces(self, number: int, room: _Room) -> Iterator[Cut]:
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


class _Matrix:
    """Each row meets values of its own; one that it meets again, or that is its own, is not asked for twice."""

    def __init__(self, own: Indices, met: NDArray[np.int32], sparing: bool) -> None:
        self.met = met
        self.same = met == own[:, None]
        self.leader = first_with_value(met) if sparing else None
        self.wanted = None if self.leader is None else (self.leader == np.arange(met.shape[1])) & ~self.same
        self.count = met.size if self.wanted is None else int(self.wanted.sum())

    def pieces(self, number: int, room: _Room) -> Iterator[Cut]:
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


class _Store:
    """Predictions as they come in; arrays are made once the first batch shows their type and number of columns."""

    def __init__(self, n: int, asks: Sequence[Ask]) -> None:
        self.n, self.asks = n, asks
        self.counts = [0] * len(asks)
        self.base: NDArray[Any] | None = None
        self.cells: list[NDArray[Any]] = []

    def put(self, block: Indices, batch: Sequence[Cut], predictions: NDArray[Any]) -> None:
        if self.base is None:
            more = predictions.shape[1:]
            self.base = np.empty((self.n, *more), predictions.dtype)
            self.cells = [np.empty((self.n, ask.width, *more), predictions.dtype) for ask in self.asks]
        if predictions.shape[1:] != self.base.shape[1:]:
            raise ValueError(
                f"the model returned predictions of shape {predictions.shape} after some with "
                f"{self.base.shape[1:] or 'one'} column(s): its answers must not change shape between calls"
            )
        start = 0
        for piece in batch:
            some = predictions[start : start + len(piece)]
            cells = self.base if piece.ask == UNCHANGED else self.cells[piece.ask]
            if isinstance(piece, Slab):
                shape = (piece.stop - piece.start, len(block), *cells.shape[2:])
                cells[block[0] : block[-1] + 1, piece.start : piece.stop] = some.reshape(shape).swapaxes(0, 1)
                self.counts[piece.ask] += len(piece)
            elif piece.ask == UNCHANGED:
                self.base[block[piece.rows]] = some
            else:
                flat = cells.reshape(-1, *cells.shape[2:])  # one index instead of two: half the time
                flat[block[piece.rows] * cells.shape[1] + piece.columns] = some
                self.counts[piece.ask] += len(piece)
            start += len(piece)

    def complete(self, block: Indices, plans: Sequence[_Table | _Matrix]) -> None:
        assert self.base is not None  # the first piece of every block is the unchanged rows
        part = slice(block[0], block[-1] + 1)
        for plan, cells in zip(plans, self.cells, strict=True):
            plan.complete(cells[part], self.base[part])

    def answer(self) -> Answer:
        assert self.base is not None
        return Answer(self.base, self.cells, self.counts)
