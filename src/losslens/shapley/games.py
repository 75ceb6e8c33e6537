"""From a coalition to its error: a game. The kept players' values are a row's own, a donor lends the others'.

A value tells as much as its engine does: the error of every pair of a row and a donor, its mean for each row and each
donor, or the total alone. Never a Shapley weight.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from losslens.donors.questions import Subject
from losslens.engines.blackbox import BlackBox, Mixer
from losslens.engines.choice import CHECKED
from losslens.losses import Loss
from losslens.passes.task import Task
from losslens.progress import Tick
from losslens.tables.columns import joint
from losslens.tables.sample import Sample
from losslens.typing import Floats, Indices, Mask

TOGETHER = 1 << 17  # pairs that the model is asked for, and judged, at a time
HELD = 256  # coalitions whose distinct values are remembered
MOST_ENDS = 1e9  # losses of one row's target at another row's prediction


class Counter:
    """Counts the rows that the model is asked for, and lets a bar know."""

    def __init__(self, tick: Tick) -> None:
        self.tick, self.rows = tick, 0

    def __call__(self, rows: int, /) -> None:
        """Note that `rows` more were asked for."""
        self.rows += rows
        self.tick(rows)


@dataclass(frozen=True, eq=False)
class Board:
    """What every game of a call is played on: the rows as the model sees them, and the players."""

    sample: Sample  # judged, unless there is no loss
    loss: Loss | None
    players: tuple[Subject, ...]
    mixer: Mixer
    counter: Counter
    whole: bool  # every column belongs to a player

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
        """Which of its values each player has in each row, (n, p)."""
        return np.stack([player.distinct.codes for player in self.players], axis=1).astype(np.int32)

    def names_of(self, kept: Mask) -> list[str]:
        """Who is in a coalition."""
        return [player.feature.name for player, k in zip(self.players, kept, strict=True) if k]

    def predict(self, rows: Indices, donors: Indices, kept: Mask) -> NDArray[Any]:
        """Predictions of mixed rows."""
        if not len(rows):
            return self.sample.prediction[:0]
        return self.mixer.predict(rows, donors, kept, self.counter)

    def base_of(self, rows: Indices, donors: Indices, weight: Floats) -> Floats | None:
        """The mean prediction of the donors, for each row; None where a row keeps some columns."""
        return np.full(len(rows), weight @ self.sample.prediction[donors]) if self.whole else None

    def judge(self, rows: Indices, predictions: NDArray[Any]) -> Floats:
        """The losses of predictions for these rows, one prediction each."""
        assert self.loss is not None  # who judges has one
        if self.loss.domains is not None:  # a deviance of a prediction it is not defined for is no number
            self.loss.check_prediction(predictions)
        return self.loss(self.sample.target(self.loss)[rows], self.sample.shown(self.loss, predictions))


def set_up(task: Task, exact: Any, tick: Tick) -> Board:
    """Ask the model, or an exact engine, for the rows as they are, and judge them."""
    engine = task.engine
    assert isinstance(engine, BlackBox)  # the one that answers everything
    columns = {j: column for s in task.subjects for j, column in zip(s.feature.columns, s.columns, strict=True)}
    players = [s.feature.columns for s in task.subjects]
    mixer = engine.mixer(players, columns)
    counter, every = Counter(tick), task.every
    if exact is None:
        base = mixer.predict(every, every, np.ones((task.n, len(players)), bool), counter)
    else:
        base = exact.predict(every)
        counter.rows += min(task.n, CHECKED)  # rows that the engine was compared with the model on
    sample = replace(task.sample, prediction=base)
    if task.loss is not None:
        task.loss.check_prediction(base)
        sample = sample.with_loss(task.loss)
    return Board(sample, task.loss, task.subjects, mixer, counter, len(columns) == len(task.table.names))


# The two ends of every walk: nothing replaced, and everything.


@dataclass(frozen=True, eq=False)
class Ends:
    """What knowing all players takes off the error, over all pairs: for each row, and at each donor."""

    by_row: Floats  # (n,): mean over donors of l_0(i, k) - l_i
    by_donor: Floats  # (n,): mean over rows

    def total(self, weight: Floats) -> float:
        """GE_0 - GE_P."""
        return float(weight @ self.by_row)


def ends(board: Board) -> Ends | None:
    """The gain of each row and donor; None where that takes too many losses, or predictions that nobody has made.

    Where all columns are replaced a row's prediction is the donor's own. Rows of one target share their losses.
    """
    sample, loss = board.sample, board.loss
    if not board.whole or loss is None or sample.loss is None or sample.y is None:
        return None
    weight = sample.weight
    if loss.name == "squared_error" and not loss.custom:  # no pair is needed
        y, f = np.asarray(sample.y, float), np.asarray(sample.prediction, float)
        shift = weight @ f
        y, f = y - shift, f - shift
        by_row = np.square(y) + weight @ np.square(f) - sample.loss
        return Ends(by_row, np.square(f) + weight @ np.square(y) - 2 * f * (weight @ y) - weight @ sample.loss)
    first, place = np.unique(sample.y, return_index=True, return_inverse=True)[1:]
    if len(first) * board.n > MOST_ENDS:
        return None
    mass, place = np.bincount(place.reshape(-1), weight, len(first)), place.reshape(-1)
    of_target, by_donor = np.empty(len(first)), np.zeros(board.n)
    step = max(1, TOGETHER // board.n)
    for start in range(0, len(first), step):
        some = first[start : start + step]
        pairs = np.tile(sample.prediction, (len(some), *[1] * (sample.prediction.ndim - 1)))
        losses = board.judge(np.repeat(some, board.n), pairs).reshape(len(some), board.n)
        of_target[start : start + step] = losses @ weight
        by_donor += mass[start : start + step] @ losses
    return Ends(of_target[place] - sample.loss, by_donor - weight @ sample.loss)


# Games.


@dataclass(frozen=True, eq=False)
class Value:
    """The error of a coalition."""

    total: float
    by_row: Floats | None = None  # (n,)
    by_donor: Floats | None = None  # (n,)
    pairs: Floats | None = None  # (n, m)


class Game(Protocol):
    """Errors of coalitions."""

    def values(self, kept: Mask) -> Iterator[Value]:
        """The value of each coalition, (coalitions, p)."""


@dataclass(frozen=True, eq=False)
class PairGame:
    """The model itself, on every pair of a row and a donor; values that a row meets twice are asked for once."""

    board: Board
    donors: Indices | None  # (n, m); None: every row lends to every row
    keeps_pairs: bool = False
    apart: bool = False  # no row is its own donor
    asked: dict[bytes, NDArray[Any]] = field(default_factory=dict)  # predictions of coalitions that come next
    held: dict[bytes, tuple[Indices, Indices]] = field(
        default_factory=dict
    )  # the distinct values of the last coalitions

    def values(self, kept: Mask) -> Iterator[Value]:
        """Coalition by coalition."""
        for S in self.in_turn(kept):
            finish = self._reducer()
            for rows, codes, predictions in self.cells(S):
                losses = self.board.judge(np.repeat(rows, predictions.shape[1]), _flat(predictions))
                losses = losses.reshape(predictions.shape[:2])
                for some in self._blocks(len(rows)):
                    finish.add(rows[some], self._spread(losses[some], codes))
            yield finish.value()

    def mean_predictions(self, S: Mask) -> NDArray[Any]:
        """Each row's prediction, averaged over its donors: what a row is told that does not see the others."""
        found: list[NDArray[Any]] = []
        weight = self.board.sample.weight
        for rows, codes, predictions in self.cells(S):
            for some in self._blocks(len(rows)):
                lent = weight[None] if self.donors is None else weight[self.donors[rows[some]]]
                lent = np.broadcast_to(lent / lent.sum(axis=1, keepdims=True), (len(rows[some]), lent.shape[1]))
                found.append(np.einsum("bm...,bm->b...", self._spread(predictions[some], codes), lent))
        return np.concatenate(found)

    def in_turn(self, kept: Mask) -> Iterator[Mask]:
        """Coalitions one by one; the model is asked for several small ones at once."""
        waiting: list[Mask] = []
        cells = 0
        for S in kept:
            width = len(self._replaced(S)[0]) if self.donors is None else self.donors.shape[1]
            if waiting and cells + self.board.n * width > TOGETHER:
                yield from self._ask(waiting)
                waiting, cells = [], 0
            waiting.append(S)
            cells += self.board.n * width
        yield from self._ask(waiting)

    def _ask(self, together: list[Mask]) -> Iterator[Mask]:
        """These coalitions, their predictions at hand; a single one is asked for piece by piece."""
        several = [S for S in together if self._needs_model(S)]
        if len(several) > 1:
            every = np.arange(self.board.n)
            lenders = [self._lenders(S, every) for S in several]
            sizes = [part.size for part in lenders]
            rows = np.concatenate([np.repeat(every, part.shape[1]) for part in lenders])
            keeps = np.repeat(np.stack(several), sizes, axis=0)
            found = self.board.predict(rows, np.concatenate([part.ravel() for part in lenders]), keeps)
            parts = np.split(found, np.cumsum(sizes)[:-1])
            self.asked.update({S.tobytes(): part for S, part in zip(several, parts, strict=True)})
        yield from together
        self.asked.clear()

    def _lenders(self, S: Mask, rows: Indices) -> Indices:
        """Who lends to these rows, (rows, m)."""
        if self.donors is not None:
            return self.donors[rows]
        first = self._replaced(S)[0]
        return np.broadcast_to(first, (len(rows), len(first)))

    @property
    def _step(self) -> int:
        """Rows that are averaged together, whatever the coalition: equal losses have equal means, to the last bit."""
        return max(1, TOGETHER // (self.board.n if self.donors is None else self.donors.shape[1]))

    def _blocks(self, rows: int) -> Iterator[slice]:
        for start in range(0, rows, self._step):
            yield slice(start, start + self._step)

    def _spread(self, cells: NDArray[Any], codes: Indices) -> NDArray[Any]:
        """One column a donor, not one a value."""
        return cells if self.donors is not None else cells[:, codes]

    def _reducer(self) -> _Reducer:
        return _Reducer(self.board.sample, self.donors, self.keeps_pairs, self.apart)

    def _needs_model(self, S: Mask) -> bool:
        return not S.all() and not (self.board.whole and not S.any())

    def _replaced(self, S: Mask) -> tuple[Indices, Indices]:
        """Rows that hold the distinct values of the replaced players, and which of them each row holds."""
        if S.tobytes() not in self.held:
            if len(self.held) > HELD:
                self.held.clear()
            self.held[S.tobytes()] = self._distinct(S)
        return self.held[S.tobytes()]

    def _distinct(self, S: Mask) -> tuple[Indices, Indices]:
        board = self.board
        if S.all():
            return np.zeros(1, np.intp), np.zeros(board.n, np.intp)
        if board.whole and not S.any():
            return np.arange(board.n), np.arange(board.n)
        parts = [part for j in np.flatnonzero(~S) for part in board.players[j].parts]
        together = joint(parts)
        return together.first, together.codes

    def cells(self, S: Mask) -> Iterator[tuple[Indices, Indices, NDArray[Any]]]:
        """Some rows, the place of each donor among the columns of their cells, and the predictions there."""
        board, sample = self.board, self.board.sample
        first, codes = self._replaced(S) if self.donors is None else (np.zeros(self.donors.shape[1], np.intp),) * 2
        step = self._step * max(1, board.n // len(first) if self.donors is None else 1)
        for start in range(0, board.n, step):
            rows = np.arange(start, min(start + step, board.n))
            lenders = self._lenders(S, rows)
            if S.tobytes() in self.asked:
                whole = self.asked[S.tobytes()]
                predictions = whole.reshape(board.n, len(first), *whole.shape[1:])[rows]
            elif S.all():
                predictions = np.broadcast_to(
                    sample.prediction[rows][:, None], (*lenders.shape, *sample.prediction.shape[1:])
                )
            elif not self._needs_model(S):
                predictions = sample.prediction[lenders]
            else:
                mixed = np.repeat(rows, lenders.shape[1])
                keeps = np.broadcast_to(S, (len(mixed), board.p))
                predictions = board.predict(mixed, lenders.ravel(), keeps)
                predictions = predictions.reshape(*lenders.shape, *predictions.shape[1:])
            yield rows, codes, predictions


def _flat(predictions: NDArray[Any]) -> NDArray[Any]:
    return predictions.reshape(-1, *predictions.shape[2:])


class _Reducer:
    """Averages the losses of a coalition's cells."""

    def __init__(self, sample: Sample, donors: Indices | None, keeps_pairs: bool, apart: bool) -> None:
        self.sample, self.donors, self.apart = sample, donors, apart
        n = sample.n
        self.by_row, self.by_donor = np.empty(n), np.zeros(n)
        self.mass, self.row_mass = np.zeros(n), np.ones(n)
        self.pairs = np.empty((n, n if donors is None else donors.shape[1])) if keeps_pairs else None

    def add(self, rows: Indices, losses: Floats) -> None:
        weight = self.sample.weight
        if self.pairs is not None:
            self.pairs[rows] = losses
        if self.donors is None:
            self.by_row[rows] = losses @ weight
            self.by_donor += weight[rows] @ losses
            self.mass += weight[rows].sum()
            return
        lent = weight[self.donors[rows]]
        self.row_mass[rows] = lent.sum(axis=1)
        with np.errstate(invalid="ignore"):  # a row that met nobody who counts
            self.by_row[rows] = (lent * losses).sum(axis=1) / self.row_mass[rows]
        counts, where = (weight[rows][:, None] * lent).ravel(), self.donors[rows].ravel()
        self.by_donor += np.bincount(where, counts * losses.ravel(), self.sample.n)
        self.mass += np.bincount(where, counts, self.sample.n)

    def value(self) -> Value:
        weight = self.sample.weight
        mass = weight * (1 - weight) if self.apart else weight
        met = (mass > 0) & (self.row_mass > 0)
        with np.errstate(invalid="ignore"):
            by_donor = self.by_donor / self.mass
        return Value(float(mass[met] @ self.by_row[met] / mass[met].sum()), self.by_row, by_donor, self.pairs)


@dataclass(frozen=True, eq=False)
class MeanGame:
    """SAGE's game: predictions are averaged over the donors before they are judged, so that only rows have errors."""

    pairs: PairGame

    def values(self, kept: Mask) -> Iterator[Value]:
        """Coalition by coalition."""
        board = self.pairs.board
        for S in self.pairs.in_turn(kept):
            losses = board.judge(np.arange(board.n), self.pairs.mean_predictions(S))
            yield Value(float(board.sample.weight @ losses), losses)


@dataclass(frozen=True, eq=False)
class TotalGame:
    """Errors over all pairs from an engine that needs none of them; a coalition and its complement come together."""

    both: Callable[[Mask], tuple[float, float]]
    known: dict[bytes, float] = field(default_factory=dict)

    def values(self, kept: Mask) -> Iterator[Value]:
        """Coalition by coalition, each once."""
        for S in kept:
            if S.tobytes() not in self.known:
                self.known[S.tobytes()], self.known[(~S).tobytes()] = self.both(S)
            yield Value(self.known[S.tobytes()])


@dataclass(frozen=True, eq=False)
class Remembered:
    """Totals of a game; a coalition that was asked for is not asked for again."""

    game: Game
    known: dict[bytes, float] = field(default_factory=dict)

    def values(self, kept: Mask) -> Iterator[Value]:
        """Coalition by coalition."""
        for S in kept:
            if S.tobytes() not in self.known:
                self.known[S.tobytes()] = next(iter(self.game.values(S[None]))).total
            yield Value(self.known[S.tobytes()])


@dataclass(frozen=True, eq=False)
class RowGame:
    """Errors of rows and of donors over all pairs, from an engine that needs none of them."""

    errors: Callable[[Mask], tuple[Floats, Floats]]
    weight: Floats

    def values(self, kept: Mask) -> Iterator[Value]:
        """Coalition by coalition."""
        for S in kept:
            by_row, by_donor = self.errors(S)
            yield Value(float(self.weight @ by_row), by_row, by_donor)
