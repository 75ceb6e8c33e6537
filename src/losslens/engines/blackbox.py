"""The black box: any model, one row of the table for each cell.

Each distinct (row, value) pair is predicted once, and a row's own value not at all where a feature has few values.
Cells are laid out so that batches repeat the same rows with one column changed, across features, and batches of one
size follow each other; the first cells of all are the unchanged rows, so that a feature the model ignores changes
nothing, to the last bit.


Rows that keep the values of some players and take a donor's values of the others: what a Shapley game asks for."""

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

from losslens.donors.questions import FEW_VALUES, Ask
from losslens.engines.base import Answer
from losslens.engines.batches import RUN, UNCHANGED, Cut, OwnValues, SharedGrid, Slab, edits, group, pack, pieces
from losslens.progress import Tick
from losslens.tables.columns import Column
from losslens.tables.frames import Batch, Edit, Table
from losslens.typing import Indices, Mask
from losslens.workers import active


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
            batches = pack(pieces(len(block), plans, size), size)
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

    def _batch_size(self, b: int, plans: Sequence[SharedGrid | OwnValues]) -> int:
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


def _plan(ask: Ask, rows: Indices) -> SharedGrid | OwnValues:
    if ask.met is None:
        return SharedGrid(ask.own[rows], ask.size)
    return OwnValues(ask.own[rows], ask.met[rows], ask.met.repeats or ask.size <= FEW_VALUES)


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

    def complete(self, block: Indices, plans: Sequence[SharedGrid | OwnValues]) -> None:
        assert self.base is not None  # the first piece of every block is the unchanged rows
        part = slice(block[0], block[-1] + 1)
        for plan, cells in zip(plans, self.cells, strict=True):
            plan.complete(cells[part], self.base[part])

    def answer(self) -> Answer:
        assert self.base is not None
        return Answer(self.base, self.cells, self.counts)


STEP = 64  # rows of a batch come in these: most libraries of linear algebra then treat every row alike


@dataclass(frozen=True, eq=False)
class Mixer:
    """Asks the model itself for mixed rows."""

    table: Table
    players: Sequence[tuple[int, ...]]  # the columns of each
    columns: dict[int, Column]
    respond: Callable[[Any], NDArray[Any]]
    batch_rows: int
    n_jobs: int | None = None

    def predict(self, rows: Indices, donors: Indices, kept: Mask, tick: Tick) -> NDArray[Any]:
        """Predictions of rows[b] with the values of donors[b] for the players that are not in kept[b], (m, ...)."""
        found: NDArray[Any] | None = None
        for start, predictions in self._batches(rows, donors, kept, tick):
            if found is None:
                found = np.empty((len(rows), *predictions.shape[1:]), predictions.dtype)
            if predictions.shape[1:] != found.shape[1:]:
                raise ValueError(f"the model's answers changed their shape: {predictions.shape} after {found.shape}")
            found[start : start + len(predictions)] = predictions
        assert found is not None  # callers ask for a row at least
        return found

    def _batches(self, rows: Indices, donors: Indices, kept: Mask, tick: Tick) -> Iterator[tuple[int, NDArray[Any]]]:
        size = max(STEP, self.batch_rows // STEP * STEP)
        parts = [slice(start, min(start + size, len(rows))) for start in range(0, len(rows), size)]
        cluster = active()
        if cluster is not None:
            answers: Any = cluster.map(_mix_far_away, (self,), ((rows[p], donors[p], kept[p]) for p in parts))
        elif len(parts) == 1 or (self.n_jobs is None and "joblib" not in sys.modules):
            answers = (self._mixed(rows[part], donors[part], kept[part]) for part in parts)
        else:
            from joblib import Parallel, delayed

            ask = delayed(_ask)
            workers = Parallel(n_jobs=self.n_jobs, prefer="threads", return_as="generator")
            answers = workers(ask(self, rows[part], donors[part], kept[part]) for part in parts)
        for part, predictions in zip(parts, answers, strict=True):
            tick(len(predictions))
            yield part.start, predictions

    def _mixed(self, rows: Indices, donors: Indices, kept: Mask) -> NDArray[Any]:
        batch, edits = Batch(self.table), []
        if batch.source is not None:
            return self.respond(batch.mix(rows, donors, self._columns(kept)))
        for j, player in enumerate(self.players):
            if kept[:, j].all():
                continue
            lender = np.where(kept[:, j], rows, donors)
            edits += [Edit(0, len(rows), column, self.columns[column], lender) for column in player]
        return self.respond(batch.fill(rows, edits))

    def _columns(self, kept: Mask) -> Mask:
        """Which columns keep the row's own value, (m, columns): those of no player always do."""
        player = np.full(len(self.table.names), len(self.players))
        for j, columns in enumerate(self.players):
            player[list(columns)] = j
        return np.concatenate([kept, np.ones((len(kept), 1), bool)], axis=1)[:, player]


def _mix_far_away(shared: tuple[Mixer], part: tuple[Indices, Indices, Mask]) -> NDArray[Any]:
    """A batch on a cluster."""
    return shared[0]._mixed(*part)


def _ask(mixer: Mixer, rows: Indices, donors: Indices, kept: Mask) -> NDArray[Any]:
    return mixer._mixed(rows, donors, kept)
