"""Games: from a coalition to its error. Its players keep the row's values, the others take the donor's.

A value holds the error in as much detail as the game has: of every pair of a row and a donor, the means of each row and
each donor, or the total alone. Shapley weights are not applied here.
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

PAIRS_AT_ONCE = 1 << 17  # pairs predicted, and their losses computed, at a time
CACHED_COALITIONS = 256  # whose distinct replaced values are cached


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
    """The model predicts every pair of a row and a donor; equal values of donors are predicted once for each row."""

    setup: GameSetup
    donors: Indices | None  # (n, m); None: every row is a donor of every row
    keeps_pairs: bool = False
    leaves_out_own: bool = False  # no row is its own donor
    # All players cover the table: row i with donor k under a coalition is row k with donor i under its complement, so
    # that of two complements that are asked for one after the other only one is predicted.
    mirrors: bool = False
    predicted: dict[bytes, NDArray[Any]] = field(default_factory=dict)  # of the coalitions in the current batch
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
        means: list[NDArray[Any]] = []
        weight = self.setup.sample.weight
        for rows, codes, predictions in self.cells(S):
            for some in self._blocks(len(rows)):
                donor_weight = weight[None] if self.donors is None else weight[self.donors[rows[some]]]
                donor_weight = np.broadcast_to(
                    donor_weight / donor_weight.sum(axis=1, keepdims=True), (len(rows[some]), donor_weight.shape[1])
                )
                means.append(np.einsum("bm...,bm->b...", self._spread(predictions[some], codes), donor_weight))
        return np.concatenate(means)

    def in_batches(self, kept: Mask) -> Iterator[Mask]:
        """Coalitions one by one; several small ones are predicted in one batch."""
        waiting: list[Mask] = []
        cells = 0
        earlier: Mask | None = None
        for S in kept:
            if self.mirrors and earlier is not None and np.array_equal(S, ~earlier):
                waiting.append(S)  # in one batch with its complement, which it is predicted with
                earlier = None
                continue
            width = len(self._replaced(S)[0]) if self.donors is None else self.donors.shape[1]
            if waiting and cells + self.setup.n * width > PAIRS_AT_ONCE:
                yield from self._predict_batch(waiting)
                waiting, cells = [], 0
            waiting.append(S)
            earlier = S
            cells += self.setup.n * width
        yield from self._predict_batch(waiting)

    def _predict_batch(self, batch: list[Mask]) -> Iterator[Mask]:
        """These coalitions, predicted in one batch; a single one is predicted later, in blocks of rows."""
        mixed = self._to_predict([S for S in batch if self._needs_model(S)])
        if len(mixed) > 1:
            every = np.arange(self.setup.n)
            donors = [self._donors_of(S, every) for S in mixed]
            sizes = [part.size for part in donors]
            rows = np.concatenate([np.repeat(every, part.shape[1]) for part in donors])
            keeps = np.repeat(np.stack(mixed), sizes, axis=0)
            predictions = self.setup.predict(rows, np.concatenate([part.ravel() for part in donors]), keeps)
            parts = np.split(predictions, np.cumsum(sizes)[:-1])
            self.predicted.update({S.tobytes(): part for S, part in zip(mixed, parts, strict=True)})
        elif self.mirrors and len(mixed) < len(batch):
            for S in mixed:
                blocks = [cells.reshape(-1, *cells.shape[2:]) for _, _, cells in self.cells(S)]
                self.predicted[S.tobytes()] = np.concatenate(blocks)
        yield from batch
        self.predicted.clear()

    def _to_predict(self, batch: list[Mask]) -> list[Mask]:
        """Of two complements in a batch, only the one that replaces fewer distinct values."""
        if not self.mirrors:
            return batch
        requested = {S.tobytes() for S in batch}
        chosen: dict[bytes, Mask] = {}
        for S in batch:
            other = (~S).tobytes()
            if other not in requested:
                chosen[S.tobytes()] = S
            elif other not in chosen:
                fewer = len(self._replaced(S)[0]) <= len(self._replaced(~S)[0])
                chosen[S.tobytes() if fewer else other] = S if fewer else ~S
        return list(chosen.values())

    def _donors_of(self, S: Mask, rows: Indices) -> Indices:
        """The donors of these rows, (rows, m); of donors with equal values only the first."""
        if self.donors is not None:
            return self.donors[rows]
        first = self._replaced(S)[0]
        return np.broadcast_to(first, (len(rows), len(first)))

    @property
    def _step(self) -> int:
        """Rows averaged at once; the same for all coalitions, so that equal losses have equal means to the last bit."""
        return max(1, PAIRS_AT_ONCE // (self.setup.n if self.donors is None else self.donors.shape[1]))

    def _blocks(self, rows: int) -> Iterator[slice]:
        for start in range(0, rows, self._step):
            yield slice(start, start + self._step)

    def _spread(self, cells: NDArray[Any], codes: Indices) -> NDArray[Any]:
        """From one column per distinct value to one per donor."""
        return cells if self.donors is not None else cells[:, codes]

    def _needs_model(self, S: Mask) -> bool:
        return not S.all() and not (self.setup.covers_table and not S.any())

    def _replaced(self, S: Mask) -> tuple[Indices, Indices]:
        """The first row of each distinct value of the replaced players, and the code of each row's value."""
        if S.tobytes() not in self.distinct:
            if len(self.distinct) > CACHED_COALITIONS:
                self.distinct.clear()
            self.distinct[S.tobytes()] = self._find_distinct(S)
        return self.distinct[S.tobytes()]

    def _find_distinct(self, S: Mask) -> tuple[Indices, Indices]:
        """As `_replaced` says; no player is replaced, or all are, without looking at values."""
        setup = self.setup
        if S.all():
            return np.zeros(1, np.intp), np.zeros(setup.n, np.intp)
        if setup.covers_table and not S.any():
            return np.arange(setup.n), np.arange(setup.n)
        distinct = joint([part for j in np.flatnonzero(~S) for part in setup.players[j].parts])
        return distinct.first, distinct.codes

    def cells(self, S: Mask) -> Iterator[tuple[Indices, Indices, NDArray[Any]]]:
        """Blocks of rows: the rows, the column of each donor, and the predictions (rows, columns)."""
        setup, base = self.setup, self.setup.sample.prediction
        first, codes = self._replaced(S) if self.donors is None else (np.zeros(self.donors.shape[1], np.intp),) * 2
        step = self._step * max(1, setup.n // len(first) if self.donors is None else 1)
        for start in range(0, setup.n, step):
            rows = np.arange(start, min(start + step, setup.n))
            donors = self._donors_of(S, rows)
            if S.tobytes() in self.predicted:
                batch = self.predicted[S.tobytes()]
                predictions = batch.reshape(setup.n, len(first), *batch.shape[1:])[rows]
            elif self.mirrors and (~S).tobytes() in self.predicted:
                batch, column = self.predicted[(~S).tobytes()], self._replaced(~S)[1]
                swapped = batch.reshape(setup.n, -1, *batch.shape[1:])[first[:, None], column[rows]]
                predictions = np.ascontiguousarray(np.swapaxes(swapped, 0, 1))
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
    """Averages the losses of a coalition's cells by row and by donor."""

    def __init__(self, sample: Sample, donors: Indices | None, keeps_pairs: bool, leaves_out_own: bool) -> None:
        self.sample, self.donors, self.leaves_out_own = sample, donors, leaves_out_own
        n = sample.n
        self.by_row, self.by_donor = np.empty(n), np.zeros(n)
        self.mass, self.row_mass = np.zeros(n), np.ones(n)
        self.pairs = np.empty((n, n if donors is None else donors.shape[1])) if keeps_pairs else None

    def add(self, rows: Indices, losses: Floats) -> None:
        """Average the losses of some rows, one for each of their donors, into the means of rows and of donors."""
        weight = self.sample.weight
        if self.pairs is not None:
            self.pairs[rows] = losses
        if self.donors is None:
            self.by_row[rows] = losses @ weight
            self.by_donor += weight[rows] @ losses
            self.mass += weight[rows].sum()
            return
        donor_weight = weight[self.donors[rows]]
        self.row_mass[rows] = donor_weight.sum(axis=1)
        with np.errstate(invalid="ignore"):  # a row whose donors all have weight 0
            self.by_row[rows] = (donor_weight * losses).sum(axis=1) / self.row_mass[rows]
        counts, where = (weight[rows][:, None] * donor_weight).ravel(), self.donors[rows].ravel()
        self.by_donor += np.bincount(where, counts * losses.ravel(), self.sample.n)
        self.mass += np.bincount(where, counts, self.sample.n)

    def value(self) -> Value:
        """The means over all rows that were added."""
        weight = self.sample.weight
        mass = weight * (1 - weight) if self.leaves_out_own else weight
        counted = (mass > 0) & (self.row_mass > 0)
        with np.errstate(invalid="ignore"):
            by_donor = self.by_donor / self.mass
        total = mass[counted] @ self.by_row[counted] / mass[counted].sum()
        return Value(float(total), self.by_row, by_donor, self.pairs)


@dataclass(frozen=True, eq=False)
class MeanGame:
    """SAGE's game: predictions are averaged over the donors before the loss, so only rows have errors."""

    pairs: PairGame

    def values(self, kept: Mask) -> Iterator[Value]:
        """Coalition by coalition."""
        setup = self.pairs.setup
        for S in self.pairs.in_batches(kept):
            losses = setup.losses(np.arange(setup.n), self.pairs.mean_predictions(S))
            yield Value(float(setup.sample.weight @ losses), losses)


@dataclass(frozen=True, eq=False)
class Remembered:
    """Totals of a game; each coalition is evaluated once."""

    game: Game
    totals: dict[bytes, float] = field(default_factory=dict)

    def values(self, kept: Mask) -> Iterator[Value]:
        """Coalition by coalition."""
        for S in kept:
            if S.tobytes() not in self.totals:
                self.totals[S.tobytes()] = next(iter(self.game.values(S[None]))).total
            yield Value(self.totals[S.tobytes()])
