"""The black box: any model, one row of the table for each cell.

Each distinct (row, value) pair is predicted once. If a feature has few values, cells that hold the row's own value are
not predicted: they equal the unchanged row. Batches repeat the same rows with one column changed, across features, and
batches of equal size follow each other. The first cells are the unchanged rows, so that a feature which the model
ignores changes no prediction, not even in the last bit. `Mixer` predicts the rows of Shapley games: some columns from
the row, the others from a donor.

`Repeats` notes whether the model answers the same rows alike. It doesn't if its predictions are random (dropout that
was left on, noise), or if they depend on the other rows of a batch (a mean over them, batch normalisation in training
mode). No number is exact then. Rounding depends on the batch, too: predictions are compared with their own spread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import pairwise
from math import ceil
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from losslens.donors.questions import FEW_VALUES, Ask
from losslens.engines.base import Answer, GameArrays
from losslens.engines.batches import UNCHANGED, ColumnBlock, Cut, OwnValues, SharedGrid, edits, group, pack, pieces
from losslens.losses import Loss
from losslens.progress import Tick
from losslens.tables.columns import Column
from losslens.tables.frames import Batch, Edit, Table
from losslens.tables.sample import Sample
from losslens.typing import Indices, Mask
from losslens.workers import PerThread, choose_workers, warn_once

FEW_ROWS = 16  # whose cells say, besides the unchanged rows, how predictions vary
SMALL_TASK = 10_000  # rows, at most
EDITED = 8  # columns with replaced values in calls that are timed
UNSTEADY = (
    "the model answers the same rows differently when it is asked again: its predictions are random, or depend on the "
    "other rows of a batch"
)
# Of the standard deviation of the predictions; single precision may hide a shorter one in which a network computes.
NOISE, NOISE_IN_SINGLE = 1e-3, 1e-2
ROUNDING = 1e-5  # of the largest prediction
LABELS = 1e-3  # share of labels that rounding may change
REMEMBERED = 1_000  # unchanged rows, at most, whose predictions are compared with those of a later pass


@dataclass(eq=False)
class Repeats:
    """Compares answers for rows that are predicted twice, and keeps the reason why none of them counts as exact."""

    watches: bool = True  # False: what predicts only stands in for the model
    declined: str = ""
    rows: Indices | None = None  # the first rows that were predicted as they are
    base: NDArray[Any] | None = None  # and their predictions

    def compare(self, first: NDArray[Any], again: NDArray[Any], every: Callable[[], NDArray[Any]]) -> None:
        """Two answers for the same rows; `every` gives predictions of different rows, which say how much they vary."""
        if not self.watches or self.declined or np.array_equal(first, again):
            return
        if differ(first, again, every()):
            self.declined = UNSTEADY
            warn_once(
                f"{UNSTEADY}; importances contain that noise, and none of them is exact. Fix the seed, switch off "
                "dropout (evaluation mode), or predict each row by itself"
            )

    def compare_unchanged(self, rows: Indices, base: NDArray[Any], every: Callable[[], NDArray[Any]]) -> None:
        """Predictions of rows as they are, with those of an earlier pass over the same rows, if there was one."""
        if self.rows is None or self.base is None:
            self.rows, self.base = rows[:REMEMBERED].copy(), base[:REMEMBERED].copy()
        elif np.array_equal(self.rows, rows[: len(self.rows)]):
            self.compare(self.base, base[: len(self.rows)], every)


def differ(first: NDArray[Any], again: NDArray[Any], every: NDArray[Any]) -> bool:
    """Whether answers for the same rows differ by more than rounding.

    >>> y = np.arange(4.0)
    >>> differ(y, y + 1e-9, y), differ(y, y + 0.1, y)
    (False, True)
    """
    if first.dtype.kind != "f":
        return int(np.sum(first != again)) > LABELS * first.size
    noise = NOISE if first.dtype.itemsize >= 8 else NOISE_IN_SINGLE
    gaps = np.sqrt(np.mean(np.square(np.subtract(first, again, dtype=np.float64)), axis=0))
    spread, largest = np.std(every, axis=0, dtype=np.float64), np.abs(every).max()
    return bool(np.max(gaps) > noise * np.max(spread) + ROUNDING * float(largest))


@dataclass(frozen=True, eq=False)
class BlackBox:
    """Calls the model's predict function; works for any feature and any donors."""

    table: Table
    respond: Callable[[Any], NDArray[Any]]
    batch_rows: int
    n_jobs: int | None = None
    repeats: Repeats = field(default_factory=Repeats)  # whether the model answers the same rows alike
    name: ClassVar[str] = "blackbox"

    def fill(self, rows: Indices, asks: Sequence[Ask], tick: Tick) -> Answer:
        """Predictions of these rows, unchanged and in all cells of each ask, one block of rows after the other."""
        store = _Store(len(rows), asks)
        for block in np.array_split(np.arange(len(rows)), ceil(len(rows) / self.batch_rows)):
            plans = [_plan(ask, rows[block]) for ask in asks]
            size = self._batch_size(len(block), plans)
            batches = pack(pieces(len(block), plans, size), size)
            for batch, predictions in self._predict(rows[block], asks, batches, tick):
                store.put(block, batch, predictions)
            twice = store.predicted_twice(block, plans)
            store.complete(block, plans)
            some = partial(store.some, block)
            self.repeats.compare(*twice, some)
            self.repeats.compare_unchanged(rows[block], store.answer().base[block], some)
        return store.answer()

    @property
    def jobs(self) -> int:
        """Batches that are predicted at the same time."""
        workers: Any = choose_workers(self.n_jobs)
        return int(getattr(workers, "n_jobs", getattr(workers, "threads", 1)))

    def predictions(self, asks: Sequence[Ask], batches: Sequence[list[Cut]], tick: Tick) -> NDArray[Any]:
        """Predictions of batches of all rows, one batch after the other, each a task of the workers."""
        runs = ((np.arange(self.table.n), [batch]) for batch in batches)
        answers = choose_workers(self.n_jobs).map(_predict_run, (self, asks), runs, tick)
        return np.concatenate([predictions for run in answers for _, predictions in run])

    def count(self, rows: Indices, ask: Ask) -> int:
        """The predictions that `fill` makes of these rows in the cells of an ask."""
        blocks = np.array_split(rows, ceil(len(rows) / self.batch_rows))
        return sum(_plan(ask, block).count for block in blocks)

    def mixer(self, players: Sequence[tuple[int, ...]], columns: dict[int, Column]) -> Mixer:
        """Predicts mixed rows with the same model."""
        return Mixer(self.table, players, columns, self.respond, self.batch_rows, self.n_jobs)

    def rows_a_call(self, n: int) -> int:
        """Rows of a full batch: a multiple of the block size."""
        block = ceil(n / ceil(n / self.batch_rows))
        return self.batch_rows // block * block

    def replaced_rows(self, rows: int) -> Any:
        """So many rows with values of other rows in some columns, each in some of them, to see how long they take.

        The same rows again would be predicted faster.
        """
        n, columns = self.table.n, np.unique(np.linspace(0, len(self.table.names) - 1, EDITED).astype(int)).tolist()
        ends = np.linspace(0, rows, len(columns) + 1).astype(int).tolist()
        rng = np.random.default_rng(0)
        replaced = [
            Edit(start, stop, j, self.table.column(j), rng.integers(0, n, stop - start))
            for j, (start, stop) in zip(columns, pairwise(ends), strict=True)
            if stop > start
        ]
        return Batch(self.table).fill(np.arange(rows) % n, replaced)

    def _batch_size(self, b: int, plans: Sequence[SharedGrid | OwnValues]) -> int:
        """Rows of a batch: a multiple of the block size, chosen so that all batches are of similar size."""
        cells = b + sum(plan.count for plan in plans)
        calls = ceil(cells / self.rows_a_call(b))
        return ceil(cells / calls / b) * b

    def _predict(
        self, rows: Indices, asks: Sequence[Ask], batches: Iterable[list[Cut]], tick: Tick
    ) -> Iterator[tuple[list[Cut], NDArray[Any]]]:
        """Predictions batch by batch. Batches and their order don't depend on n_jobs, hence neither do the results."""
        workers = choose_workers(self.n_jobs)
        together = batches_a_task(workers.grain, self.rows_a_call(len(rows)))
        runs = ((rows, run) for run in group(batches, together))
        for run in workers.map(_predict_run, (self, asks), runs, tick):
            yield from run

    @cached_property
    def _buffers(self) -> PerThread[Batch]:
        return PerThread(partial(Batch, self.table))


def batches_a_task(grain: int, size: int) -> int:
    """How many batches of a size workers take together: as many as they take small tasks, or fewer large ones."""
    return min(grain, ceil(grain * SMALL_TASK / size))


def _predict_run(
    shared: tuple[BlackBox, Sequence[Ask]], run: tuple[Indices, list[list[Cut]]], tick: Tick
) -> list[tuple[list[Cut], NDArray[Any]]]:
    """The batches of one run with their predictions."""
    (engine, asks), (rows, batches), answers = shared, run, []
    for batch in batches:
        positions = batch[0].rows if len(batch) == 1 else np.concatenate([piece.rows for piece in batch])
        predictions = engine.respond(engine._buffers.get().fill(positions, edits(batch, asks), rows))
        tick(len(predictions))
        answers.append((batch, predictions))
    return answers


def _plan(ask: Ask, rows: Indices) -> SharedGrid | OwnValues:
    if ask.donor_values is None:
        return SharedGrid(ask.own[rows], ask.size)
    return OwnValues(ask.own[rows], ask.donor_values[rows], is_sparing(ask))


def is_sparing(ask: Ask) -> bool:
    """Whether values that a row is given twice, and its own, are looked for: otherwise every cell is predicted."""
    return (ask.donor_values is not None and ask.donor_values.repeats) or ask.size <= FEW_VALUES


class _Store:
    """Collects predictions; arrays are allocated when the first batch shows their dtype and number of columns."""

    def __init__(self, n: int, asks: Sequence[Ask]) -> None:
        self.n, self.asks = n, asks
        self.counts = [0] * len(asks)
        self.base: NDArray[Any] | None = None
        self.cells: list[NDArray[Any]] = []

    def put(self, block: Indices, batch: Sequence[Cut], predictions: NDArray[Any]) -> None:
        if self.base is None:
            outputs = predictions.shape[1:]
            self.base = np.empty((self.n, *outputs), predictions.dtype)
            self.cells = [np.empty((self.n, ask.width, *outputs), predictions.dtype) for ask in self.asks]
        if predictions.shape[1:] != self.base.shape[1:]:
            raise ValueError(
                f"predictions must not change shape between calls: the model returned {predictions.shape}, "
                f"expected {(len(predictions), *self.base.shape[1:])} as in earlier calls"
            )
        start = 0
        for piece in batch:
            some = predictions[start : start + len(piece)]
            cells = self.base if piece.ask == UNCHANGED else self.cells[piece.ask]
            if isinstance(piece, ColumnBlock):
                shape = (piece.stop - piece.start, len(block), *cells.shape[2:])
                cells[block[0] : block[-1] + 1, piece.start : piece.stop] = some.reshape(shape).swapaxes(0, 1)
                self.counts[piece.ask] += len(piece)
            elif piece.ask == UNCHANGED:
                self.base[block[piece.rows]] = some
            else:
                flat = cells.reshape(-1, *cells.shape[2:])  # one index instead of two takes half the time
                flat[block[piece.rows] * cells.shape[1] + piece.columns] = some
                self.counts[piece.ask] += len(piece)
            start += len(piece)

    def some(self, block: Indices) -> NDArray[Any]:
        """Predictions of the unchanged rows of a block, and of the cells of a few of them."""
        assert self.base is not None
        few = block[:: len(block) // FEW_ROWS + 1]
        outputs = self.base.shape[1:]
        return np.concatenate([self.base[block], *(cells[few].reshape(-1, *outputs) for cells in self.cells)])

    def predicted_twice(
        self, block: Indices, plans: Sequence[SharedGrid | OwnValues]
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """Predictions of rows as they are, and of the same rows as cells with their own values.

        Of the last feature that has such cells: they are in other batches than the unchanged rows, if there are others.
        """
        assert self.base is not None
        for base, cells, plan in reversed(list(self.each(block, plans))):
            rows, columns = plan.own_values()
            if len(rows):
                return base[rows], cells[rows, columns]
        return self.base[:0], self.base[:0]

    def complete(self, block: Indices, plans: Sequence[SharedGrid | OwnValues]) -> None:
        for base, cells, plan in self.each(block, plans):
            plan.complete(cells, base)

    def each(
        self, block: Indices, plans: Sequence[SharedGrid | OwnValues]
    ) -> Iterator[tuple[NDArray[Any], NDArray[Any], SharedGrid | OwnValues]]:
        """For each plan: the block's predictions of the unchanged rows, and of its cells."""
        assert self.base is not None  # every block starts with its unchanged rows
        part = slice(block[0], block[-1] + 1)
        for plan, cells in zip(plans, self.cells, strict=True):
            yield self.base[part], cells[part], plan

    def answer(self) -> Answer:
        assert self.base is not None
        return Answer(self.base, self.cells, self.counts)


STEP = 64  # batch sizes are multiples of it: most linear algebra libraries then compute every row in the same way


@dataclass(frozen=True, eq=False)
class Mixer:
    """Predicts rows that mix the values of a row and a donor."""

    table: Table
    players: Sequence[tuple[int, ...]]  # the columns of each player
    columns: dict[int, Column]
    respond: Callable[[Any], NDArray[Any]]
    batch_rows: int
    n_jobs: int | None = None

    def predict(self, rows: Indices, donors: Indices, kept: Mask, tick: Tick) -> NDArray[Any]:
        """Predictions of rows[b] with the values of donors[b] for the players that are not in kept[b], (m, ...)."""
        result: NDArray[Any] | None = None
        for start, predictions in self._batches(rows, donors, kept, tick):
            if result is None:
                result = np.empty((len(rows), *predictions.shape[1:]), predictions.dtype)
            if predictions.shape[1:] != result.shape[1:]:
                raise ValueError(
                    f"predictions must not change shape between calls: the model returned {predictions.shape}, "
                    f"expected {(len(predictions), *result.shape[1:])} as in earlier calls"
                )
            result[start : start + len(predictions)] = predictions
        assert result is not None  # there is at least one row
        return result

    def arrays(self, codes: NDArray[np.int32], sample: Sample, loss: Loss, tick: Tick) -> GameArrays | None:
        """What walks read, where the model is on a device that computes the loss; else None: NumPy's arrays."""
        return None

    def _batches(self, rows: Indices, donors: Indices, kept: Mask, tick: Tick) -> Iterator[tuple[int, NDArray[Any]]]:
        size = max(STEP, self.batch_rows // STEP * STEP)
        parts = [slice(start, min(start + size, len(rows))) for start in range(0, len(rows), size)]
        workers = choose_workers(self.n_jobs if len(parts) > 1 else 1)
        answers = workers.map(_mix_batch, (self,), ((rows[p], donors[p], kept[p]) for p in parts), tick)
        yield from zip((part.start for part in parts), answers, strict=True)

    def _mixed(self, rows: Indices, donors: Indices, kept: Mask) -> NDArray[Any]:
        batch, edits = Batch(self.table), []
        if batch.source is not None:
            return self.respond(batch.mix(rows, donors, self._columns(kept)))
        for j, player in enumerate(self.players):
            if kept[:, j].all():
                continue
            source = np.where(kept[:, j], rows, donors)
            edits += [Edit(0, len(rows), column, self.columns[column], source) for column in player]
        return self.respond(batch.fill(rows, edits))

    def _columns(self, kept: Mask) -> Mask:
        """Which columns keep the row's own value, (m, columns): always those that belong to no player."""
        return np.concatenate([kept, np.ones((len(kept), 1), bool)], axis=1)[:, self._player_of_column()]

    def _player_of_column(self) -> Indices:
        """The player of each column; one more than the last for columns of none."""
        player = np.full(len(self.table.names), len(self.players))
        for j, columns in enumerate(self.players):
            player[list(columns)] = j
        return player


def _mix_batch(shared: tuple[Mixer], part: tuple[Indices, Indices, Mask], tick: Tick) -> NDArray[Any]:
    predictions = shared[0]._mixed(*part)
    tick(len(predictions))
    return predictions
