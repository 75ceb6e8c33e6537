"""Games: from a coalition to its error. Its players keep a row's values, the others take a donor's.

A value holds as much as is known of the error: that of every pair of a row and a donor, its mean for each row and each
donor, or the total alone. Never a Shapley weight.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from losslens.shapley.setup import GameSetup
from losslens.tables.columns import joint
from losslens.tables.sample import Sample
from losslens.typing import Floats, Indices, Mask

TOGETHER = 1 << 17  # pairs that are predicted, and whose losses are computed, at a time
HELD = 256  # coalitions whose distinct values are remembered


@dataclass(frozen=True, eq=False)
class Value:
    """The error of a coalition."""

    total: float
    by_row: Floats | None = None  # (n,)
    by_donor: Floats | None = None  # (n,)
    pairs: Floats | None = None  # (n, m)
    by_draw: Floats | None = None  # (m,): where replaced values are drawn given the kept ones


class Game(Protocol):
    """Errors of coalitions."""

    def values(self, kept: Mask) -> Iterator[Value]:
        """The value of each coalition, (coalitions, p)."""


@dataclass(frozen=True, eq=False)
class PairGame:
    """The model predicts every pair of a row and a donor; values that a row meets twice are predicted once."""

    setup: GameSetup
    donors: Indices | None  # (n, m); None: every row lends to every row
    keeps_pairs: bool = False
    leaves_out_own: bool = False  # no row is its own donor
    predicted: dict[bytes, NDArray[Any]] = field(default_factory=dict)  # of coalitions that come next
    distinct: dict[bytes, tuple[Indices, Indices]] = field(default_factory=dict)  # see `_replaced`

    def values(self, kept: Mask) -> Iterator[Value]:
        """Coalition by coalition."""
        for S in self.in_batches(kept):
            means = _PairMeans(self.setup.sample, self.donors, self.keeps_pairs, self.leaves_out_own)
            for rows, codes, predictions in self.cells(S):
                flat = predictions.reshape(-1, *predictions.shape[2:])
                losses = self.setup.losses(np.repeat(rows, predictions.shape[1]), flat)
                losses = losses.reshape(predictions.shape[:2])
                for some in self._blocks(len(rows)):
                    means.add(rows[some], self._spread(losses[some], codes))
            yield means.value()

    def mean_predictions(self, S: Mask) -> NDArray[Any]:
        """Each row's prediction, averaged over its donors."""
        found: list[NDArray[Any]] = []
        weight = self.setup.sample.weight
        for rows, codes, predictions in self.cells(S):
            for some in self._blocks(len(rows)):
                lent = weight[None] if self.donors is None else weight[self.donors[rows[some]]]
                lent = np.broadcast_to(lent / lent.sum(axis=1, keepdims=True), (len(rows[some]), lent.shape[1]))
                found.append(np.einsum("bm...,bm->b...", self._spread(predictions[some], codes), lent))
        return np.concatenate(found)

    def in_batches(self, kept: Mask) -> Iterator[Mask]:
        """Coalitions one by one; several small ones are predicted together."""
        waiting: list[Mask] = []
        cells = 0
        for S in kept:
            width = len(self._replaced(S)[0]) if self.donors is None else self.donors.shape[1]
            if waiting and cells + self.setup.n * width > TOGETHER:
                yield from self._predict_together(waiting)
                waiting, cells = [], 0
            waiting.append(S)
            cells += self.setup.n * width
        yield from self._predict_together(waiting)

    def _predict_together(self, together: list[Mask]) -> Iterator[Mask]:
        """These coalitions, their predictions at hand; a single one is predicted piece by piece."""
        several = [S for S in together if self._needs_model(S)]
        if len(several) > 1:
            every = np.arange(self.setup.n)
            donors = [self._donors_of(S, every) for S in several]
            sizes = [part.size for part in donors]
            rows = np.concatenate([np.repeat(every, part.shape[1]) for part in donors])
            keeps = np.repeat(np.stack(several), sizes, axis=0)
            found = self.setup.predict(rows, np.concatenate([part.ravel() for part in donors]), keeps)
            parts = np.split(found, np.cumsum(sizes)[:-1])
            self.predicted.update({S.tobytes(): part for S, part in zip(several, parts, strict=True)})
        yield from together
        self.predicted.clear()

    def _donors_of(self, S: Mask, rows: Indices) -> Indices:
        """Who lends to these rows, (rows, m): of donors with the same values the first."""
        if self.donors is not None:
            return self.donors[rows]
        first = self._replaced(S)[0]
        return np.broadcast_to(first, (len(rows), len(first)))

    @property
    def _step(self) -> int:
        """Rows that are averaged together, whatever the coalition: equal losses have equal means, to the last bit."""
        return max(1, TOGETHER // (self.setup.n if self.donors is None else self.donors.shape[1]))

    def _blocks(self, rows: int) -> Iterator[slice]:
        for start in range(0, rows, self._step):
            yield slice(start, start + self._step)

    def _spread(self, cells: NDArray[Any], codes: Indices) -> NDArray[Any]:
        """One column a donor, not one a value."""
        return cells if self.donors is not None else cells[:, codes]

    def _needs_model(self, S: Mask) -> bool:
        return not S.all() and not (self.setup.covers_table and not S.any())

    def _replaced(self, S: Mask) -> tuple[Indices, Indices]:
        """Rows that hold the distinct values of the replaced players, and which of them each row holds."""
        if S.tobytes() not in self.distinct:
            if len(self.distinct) > HELD:
                self.distinct.clear()
            self.distinct[S.tobytes()] = self._find_distinct(S)
        return self.distinct[S.tobytes()]

    def _find_distinct(self, S: Mask) -> tuple[Indices, Indices]:
        setup = self.setup
        if S.all():
            return np.zeros(1, np.intp), np.zeros(setup.n, np.intp)
        if setup.covers_table and not S.any():
            return np.arange(setup.n), np.arange(setup.n)
        together = joint([part for j in np.flatnonzero(~S) for part in setup.players[j].parts])
        return together.first, together.codes

    def cells(self, S: Mask) -> Iterator[tuple[Indices, Indices, NDArray[Any]]]:
        """Some rows, the place of each donor among the columns of their cells, and the predictions there."""
        setup, base = self.setup, self.setup.sample.prediction
        first, codes = self._replaced(S) if self.donors is None else (np.zeros(self.donors.shape[1], np.intp),) * 2
        step = self._step * max(1, setup.n // len(first) if self.donors is None else 1)
        for start in range(0, setup.n, step):
            rows = np.arange(start, min(start + step, setup.n))
            donors = self._donors_of(S, rows)
            if S.tobytes() in self.predicted:
                whole = self.predicted[S.tobytes()]
                predictions = whole.reshape(setup.n, len(first), *whole.shape[1:])[rows]
            elif S.all():
                predictions = np.broadcast_to(base[rows][:, None], (*donors.shape, *base.shape[1:]))
            elif not self._needs_model(S):
                predictions = base[donors]
            else:
                mixed = np.repeat(rows, donors.shape[1])
                keeps = np.broadcast_to(S, (len(mixed), setup.p))
                predictions = setup.predict(mixed, donors.ravel(), keeps)
                predictions = predictions.reshape(*donors.shape, *predictions.shape[1:])
            yield rows, codes, predictions


class _PairMeans:
    """Averages the losses of a coalition's cells."""

    def __init__(self, sample: Sample, donors: Indices | None, keeps_pairs: bool, leaves_out_own: bool) -> None:
        self.sample, self.donors, self.leaves_out_own = sample, donors, leaves_out_own
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
        with np.errstate(invalid="ignore"):  # a row whose donors all have weight 0
            self.by_row[rows] = (lent * losses).sum(axis=1) / self.row_mass[rows]
        counts, where = (weight[rows][:, None] * lent).ravel(), self.donors[rows].ravel()
        self.by_donor += np.bincount(where, counts * losses.ravel(), self.sample.n)
        self.mass += np.bincount(where, counts, self.sample.n)

    def value(self) -> Value:
        weight = self.sample.weight
        mass = weight * (1 - weight) if self.leaves_out_own else weight
        met = (mass > 0) & (self.row_mass > 0)
        with np.errstate(invalid="ignore"):
            by_donor = self.by_donor / self.mass
        return Value(float(mass[met] @ self.by_row[met] / mass[met].sum()), self.by_row, by_donor, self.pairs)


@dataclass(frozen=True, eq=False)
class MeanGame:
    """SAGE's game: predictions are averaged over the donors before the loss, so that only rows have errors."""

    pairs: PairGame

    def values(self, kept: Mask) -> Iterator[Value]:
        """Coalition by coalition."""
        setup = self.pairs.setup
        for S in self.pairs.in_batches(kept):
            losses = setup.losses(np.arange(setup.n), self.pairs.mean_predictions(S))
            yield Value(float(setup.sample.weight @ losses), losses)


@dataclass(frozen=True, eq=False)
class Remembered:
    """Totals of a game; each coalition is played once."""

    game: Game
    known: dict[bytes, float] = field(default_factory=dict)

    def values(self, kept: Mask) -> Iterator[Value]:
        """Coalition by coalition."""
        for S in kept:
            if S.tobytes() not in self.known:
                self.known[S.tobytes()] = next(iter(self.game.values(S[None]))).total
            yield Value(self.known[S.tobytes()])
