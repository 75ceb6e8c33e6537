"""What all games of a call have in common: rows, players, and the predictions of mixed rows."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from losslens.cells.matrix import Means
from losslens.donors.layout import OwnDonors
from losslens.donors.questions import Subject
from losslens.engines.base import GameArrays
from losslens.engines.blackbox import Mixer, Repeats
from losslens.engines.choice import CHECKED
from losslens.losses import Loss, OutputsLoss, squared_error
from losslens.passes.task import Task
from losslens.progress import Tick
from losslens.results.shapley import Shares
from losslens.tables.columns import stable_order
from losslens.tables.sample import Sample
from losslens.typing import Floats, Indices, Mask
from losslens.uncertainty.cell_weights import CellWeights, cell_weights

BINS = 12  # of a column's values, for the additive approximation of the prediction
LOSSES_AT_ONCE = 1 << 17  # computed at a time
MOST_LOSSES = 1e9  # distinct targets times predictions, above which the full gain is not computed


class PredictionCounter:
    """Counts the rows that the model predicts, and advances a progress bar."""

    def __init__(self, tick: Tick) -> None:
        self.tick, self.rows, self._lock = tick, 0, threading.Lock()

    def __call__(self, rows: int, /) -> None:
        """Count `rows` more; threads call it, too."""
        with self._lock:
            self.rows += rows
        self.tick(rows)


@dataclass(frozen=True, eq=False)
class GameSetup:
    """Rows, players and the model; see `set_up`."""

    task: Task
    sample: Sample  # with predictions, and with losses unless there is no loss
    mixer: Mixer | None  # predicts mixed rows; None with an exact engine
    counter: PredictionCounter
    covers_table: bool  # every column belongs to a player
    repeats: Repeats  # whether the model answers the same rows alike

    @property
    def loss(self) -> Loss | None:
        """None: a scorer, or predictions are distributed."""
        return self.task.loss

    @property
    def players(self) -> tuple[Subject, ...]:
        """The features."""
        return self.task.subjects

    @property
    def n(self) -> int:
        """Rows."""
        return self.sample.n

    @property
    def p(self) -> int:
        """Players."""
        return len(self.players)

    @cached_property
    def codes(self) -> NDArray[np.int32]:
        """The code of each player's value in each row, (n, p)."""
        return np.stack([player.distinct.codes for player in self.players], axis=1).astype(np.int32)

    def predict(self, rows: Indices, donors: Indices, kept: Mask) -> NDArray[Any]:
        """Predictions of rows[b] with the values of donors[b] for the players that are not in kept[b]."""
        if not len(rows):
            return self.sample.prediction[:0]
        assert self.mixer is not None
        predictions = self.mixer.predict(rows, donors, kept, self.counter)
        if self.repeats.watches:
            own = rows == donors  # nothing is replaced, so that the row is predicted again
            base = self.sample.prediction
            self.repeats.compare(base[rows[own]], predictions[own], lambda: base)
        return predictions

    @cached_property
    def bins(self) -> list[Indices]:
        """Of each player a few bins of the values of each of its columns, one after the other, (n, columns)."""
        return [player_bins(player) for player in self.players]

    @cached_property
    def arrays(self) -> GameArrays:
        """What walks read, as NumPy's arrays."""
        return GameArrays(
            np, self.codes, self.sample.prediction, self.predict, self._losses_of_walks, HostPairs, self.covers_table
        )

    @cached_property
    def loss_arrays(self) -> GameArrays:
        """The same for walks that distribute the loss: where a torch module lives on a GPU, they run there."""
        if self.mixer is None or self.loss is None:
            return self.arrays
        on_device = self.mixer.arrays(self.codes, self.sample, self.loss, self.counter)
        return self.arrays if on_device is None else replace(on_device, covers_table=self.covers_table)

    def _losses_of_walks(self, rows: Indices, predictions: NDArray[Any]) -> Floats:
        b, c = predictions.shape[:2]
        return self.losses(np.repeat(rows, c), predictions.reshape(b * c, *predictions.shape[2:])).reshape(b, c)

    def losses(self, rows: Indices, predictions: NDArray[Any]) -> Floats:
        """The losses of these rows, one prediction each."""
        assert self.loss is not None
        self.loss.check_cells(predictions)  # a deviance is NaN outside its domain
        return self.loss(self.sample.target(self.loss)[rows], self.sample.shown(self.loss, predictions))


@dataclass(frozen=True, eq=False)
class HostPairs:
    """Pairs of rows and donors whose cells, (n, m, p), are in this process."""

    layout: OwnDonors
    sample: Sample
    cells: Floats

    @cached_property
    def weights(self) -> CellWeights:
        """The weights of the pairs."""
        return cell_weights(self.layout, self.sample, np.arange(self.sample.n))

    def means(self) -> list[Means]:
        """Of each player."""
        shares = Shares(self.cells[:, 0], None, self.layout, self.cells)
        return [shares.means(j, self.sample, np.arange(self.sample.n)) for j in range(self.cells.shape[2])]


def player_bins(player: Subject) -> Indices:
    """The bin of each row's value in each column, numbered across the columns, (n, columns)."""
    bins = [value_bins(column.distinct.codes) for column in player.columns]
    starts = np.cumsum([0, *(int(b.max()) + 1 for b in bins)])
    return np.stack([b + start for b, start in zip(bins, starts, strict=False)], axis=1)


def value_bins(codes: Indices) -> Indices:
    """A few bins of values with about the same number of rows each."""
    rank = np.argsort(stable_order(codes))
    values = int(codes.max()) + 1
    if values <= BINS:
        return codes
    first = np.full(values, len(codes))
    np.minimum.at(first, codes, rank)  # equal values share a bin
    return np.unique(first[codes] * BINS // len(codes), return_inverse=True)[1].reshape(-1)


def fetched(array: Any) -> NDArray[Any]:
    """An array of any library as NumPy's."""
    if not hasattr(array, "cpu"):
        return np.asarray(array)
    from losslens.engines.gpu.arrays import host  # torch is there: it made the array

    return host(array)


def set_up(task: Task, exact: Any, tick: Tick) -> GameSetup:
    """Predict the rows as they are, by an exact engine or else (None) by the model, and compute their losses."""
    columns = {j: column for s in task.subjects for j, column in zip(s.feature.columns, s.columns, strict=True)}
    counter, every, mixer = PredictionCounter(tick), task.every, None
    players = [s.feature.columns for s in task.subjects]
    if exact is None:
        mixer = task.engine.mixer(players, columns)
        base = mixer.predict(every, every, np.ones((task.n, len(players)), bool), counter)
    else:
        base = exact.predict(every)
        counter.rows += min(task.n, CHECKED)  # rows on which the engine was compared with the model
    sample = replace(task.sample, prediction=base)
    if task.loss is not None:
        task.loss.check_prediction(base)
        sample = sample.with_loss(task.loss)
    repeats = task.engine.repeats if exact is None else Repeats(watches=False)
    return GameSetup(task, sample, mixer, counter, len(columns) == len(task.table.names), repeats)


@dataclass(frozen=True, eq=False)
class FullGain:
    """How much keeping all players reduces the loss, over all pairs: means of l_0(i, k) - l_i."""

    by_row: Floats  # (n,): over donors
    by_donor: Floats  # (n,): over rows

    def total(self, weight: Floats) -> float:
        """GE_0 - GE_P."""
        return float(weight @ self.by_row)


def _squared_gain(y: NDArray[Any], prediction: NDArray[Any], losses: Floats, weight: Floats) -> FullGain:
    """Of squared errors: from moments, without pairs."""
    y, f = np.asarray(y, float), np.asarray(prediction, float)
    shift = weight @ f
    y, f = y - shift, f - shift
    by_row = np.square(y) + weight @ np.square(f) - losses
    return FullGain(by_row, np.square(f) + weight @ np.square(y) - 2 * f * (weight @ y) - weight @ losses)


def full_gain(setup: GameSetup, most: float = MOST_LOSSES) -> FullGain | None:
    """The gain of each row and donor; None where it takes more losses than `most`, or predictions.

    Where all columns are replaced, the prediction is the donor's own. Rows with equal targets have equal losses.
    """
    sample, loss = setup.sample, setup.loss
    if not setup.covers_table or loss is None or sample.loss is None or sample.y is None:
        return None
    weight = sample.weight
    if loss == squared_error:
        return _squared_gain(sample.y, sample.prediction, sample.loss, weight)
    if isinstance(loss, OutputsLoss) and loss.each and all(one == squared_error for one in loss.each):
        losses = loss.by_output(sample.y, sample.prediction).T
        each = [
            _squared_gain(loss.target(sample.y, k), sample.prediction[:, k], one, weight)
            for k, one in enumerate(losses)
        ]
        sums = (loss.mean(np.stack([getattr(gain, name) for gain in each], axis=1)) for name in ("by_row", "by_donor"))
        return FullGain(*sums)
    first, place = np.unique(sample.y, return_index=True, return_inverse=True, axis=0)[1:]
    if len(first) * setup.n > most:
        return None
    mass, place = np.bincount(place.reshape(-1), weight, len(first)), place.reshape(-1)
    of_target, by_donor = np.empty(len(first)), np.zeros(setup.n)
    step = max(1, LOSSES_AT_ONCE // setup.n)
    for start in range(0, len(first), step):
        some = first[start : start + step]
        pairs = np.tile(sample.prediction, (len(some), *[1] * (sample.prediction.ndim - 1)))
        losses = setup.losses(np.repeat(some, setup.n), pairs).reshape(len(some), setup.n)
        of_target[start : start + step] = losses @ weight
        by_donor += mass[start : start + step] @ losses
    return FullGain(of_target[place] - sample.loss, by_donor - weight @ sample.loss)
