"""Walks from single donors to rows: Shapley shares of the loss.

Walks from all donors together to a row: SAGE's shares, where predictions are averaged before they are judged.

Walks from donors to rows that share out the prediction, each row by itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import ceil

import numpy as np

from losslens.cells.matrix import Means
from losslens.game_theory import along, random_orders
from losslens.progress import Teller
from losslens.results.shapley import Shares, monte_carlo_error, rows_only
from losslens.shapley import control_variates, walks
from losslens.shapley.allotment import everybody, met
from losslens.shapley.games import Board, Ends, ends
from losslens.shapley.stopping import MOST_PREDICTIONS
from losslens.shapley.walks import Summary, Sweep
from losslens.typing import Floats, Indices, Mask
from losslens.uncertainty import standard_errors

FEWEST_SWEEPS, FEWEST_WALKS = 5, 2000  # before anything is decided


@dataclass(frozen=True, eq=False)
class PairWalk:
    """Each sweep gives every row one donor."""

    board: Board
    donors: Iterator[Indices]  # of one sweep after the other
    rng: np.random.Generator
    words: str  # of the design
    apart: bool = False  # no row is its own donor

    @property
    def cost(self) -> int:
        """Both ends of a walk are known, unless some columns are always kept."""
        return self.board.n * (self.board.p - int(self.board.whole))

    @property
    def fewest(self) -> int:
        """Enough to tell rows and donors from noise, and walks enough for their variance."""
        return max(FEWEST_SWEEPS, ceil(FEWEST_WALKS / self.board.n))

    @property
    def size(self) -> int:
        """Shares, steps, orders and what controls make of them."""
        return self.board.n * self.board.p * 40

    @cached_property
    def ends(self) -> Ends | None:
        """The gain of each row and donor over all pairs; without those of a row with itself, where nobody meets it."""
        found, weight = ends(self.board), self.board.sample.weight
        if found is None or not self.apart:
            return found
        if not np.allclose(weight, weight[0]):  # rows then count by whom they can meet
            return None
        return Ends(found.by_row / (1 - weight), found.by_donor / (1 - weight))

    @property
    def total(self) -> float | None:
        """GE_0 - GE_P."""
        return None if self.ends is None else self.ends.total(self.board.sample.weight)

    @property
    def total_error(self) -> float:
        """Of the gains of rows and donors."""
        sample, known = self.board.sample, self.ends
        if known is None or sample.units() < 3:
            return np.inf
        means = Means(local=known.by_row, mass=sample.weight, caused=known.by_donor, lent=sample.weight)
        return standard_errors.std_error(means, everybody(sample.n), sample, np.arange(sample.n))

    def sweeps(self, count: int) -> list[Sweep]:
        """In each every row once, every donor once."""
        return walks.sweeps(self.board, np.stack([next(self.donors) for _ in range(count)], axis=1), self.rng)

    def round(self, sweep: Sweep) -> Floats:
        """The mean of a sweep."""
        return np.asarray(self.board.sample.weight @ sweep.shares)

    def summary(self, sweeps: list[Sweep]) -> Summary:
        """With as little noise as controls allow."""
        sample = self.board.sample
        found = control_variates.gather(self.board, sweeps, self.ends, apart=self.apart)
        shares = Shares(
            found.local, found.caused, met(found.donors, repeats=True, fresh=True, apart=self.apart), found.cells
        )
        drawn = monte_carlo_error(shares, sample, np.arange(sample.n))
        total = float(found.sfimp.sum()) if self.total is None else self.total
        gains = found.local.sum(axis=1) if self.ends is None else self.ends.by_row
        return Summary(found.sfimp, shares, drawn, total, gains)

    def sampling(self, found: Summary) -> Floats:
        """From the effects of rows and donors, their noise taken off."""
        return sampling_error(self.board, found.shares, found.monte_carlo_error)

    def design(self, sweeps: int) -> str:
        """What was drawn."""
        return f"{sweeps:,} {self.words}"

    @property
    def remarks(self) -> list[str]:
        """Where the whole is not known beforehand."""
        return [] if self.ends is not None else ["the whole is the mean gain over the pairs that met"]


def sampling_error(board: Board, shares: Shares, drawn: Floats) -> Floats:
    """The sampling error of each player, (p,); infinite where there are too few rows for one."""
    sample, every = board.sample, np.arange(board.n)
    if sample.units() < 3:
        return np.full(board.p, np.inf)
    both = [
        standard_errors.std_error(shares.means(j, sample, every), shares.meeting, sample, every) for j in range(board.p)
    ]
    return np.asarray(np.sqrt(np.maximum(np.square(both) - np.square(drawn), 0.0)))


MEAN_STEPS_AT_ONCE = 1 << 18  # steps that are walked at a time
FEWEST_MEAN_SWEEPS, FEWEST_MEAN_WALKS = 4, 200  # before anything is decided


@dataclass(frozen=True, eq=False)
class MeanWalk:
    """Each sweep walks every row once, with the same donors."""

    board: Board
    donors: Indices  # (B,)
    rng: np.random.Generator

    @property
    def cost(self) -> int:
        """Every step of every donor, but the ends."""
        return self.board.n * len(self.donors) * (self.board.p - int(self.board.whole))

    @property
    def fewest(self) -> int:
        """A walk is as many predictions as there are donors: few have to do."""
        return max(FEWEST_MEAN_SWEEPS, ceil(FEWEST_MEAN_WALKS / self.board.n))

    @property
    def size(self) -> int:
        """Shares, steps, orders and what controls make of them."""
        return self.board.n * self.board.p * 40

    @property
    def lent(self) -> Floats:
        """How much each donor counts."""
        weight = self.board.sample.weight[self.donors]
        return np.asarray(weight / weight.sum())

    @cached_property
    def gains(self) -> Floats | None:
        """What all players take off each row's loss: every walk has the same ends."""
        board = self.board
        if not board.whole:
            return None
        mean = np.tensordot(self.lent, board.sample.prediction[self.donors], 1)
        every = np.broadcast_to(mean, (board.n, *mean.shape))
        assert board.sample.loss is not None  # it has been judged
        return board.judge(np.arange(board.n), np.ascontiguousarray(every)) - board.sample.loss

    @property
    def total(self) -> float | None:
        """What they take off together."""
        return None if self.gains is None else float(self.board.sample.weight @ self.gains)

    @property
    def total_error(self) -> float:
        """Of the rows' gains."""
        if self.gains is None:
            return np.inf
        return float(np.linalg.norm(rows_only(self.gains[:, None], self.board.sample.weight)))

    def sweeps(self, count: int) -> list[Sweep]:
        """In each an order for each row; all donors walk along."""
        return [self._sweep() for _ in range(count)]

    def _sweep(self) -> Sweep:
        board, B = self.board, len(self.donors)
        orders = random_orders(board.n, board.p, self.rng)
        shares, steps, single = np.empty((board.n, board.p)), np.empty((board.n, board.p)), True
        step = max(1, MEAN_STEPS_AT_ONCE // (B * (board.p + 1)))
        for start in range(0, board.n, step):
            rows = np.arange(start, min(start + step, board.n))
            path = walks.path(board, np.repeat(rows, B), np.tile(self.donors, len(rows)), np.repeat(orders[rows], B, 0))
            mean = np.einsum("ib...,b->i...", path.reshape(len(rows), B, *path.shape[1:]), self.lent)
            losses = board.judge(np.repeat(rows, board.p + 1), mean.reshape(-1, *mean.shape[2:]))
            shares[rows] = along(orders[rows], losses.reshape(len(rows), board.p + 1))
            number = walks.single_number(mean)
            single = single and number is not None
            if number is not None:
                steps[rows] = -along(orders[rows], number)
        return Sweep(self.donors, orders.astype(np.int16), shares, steps if single else None)

    def round(self, sweep: Sweep) -> Floats:
        """The mean of a sweep."""
        return np.asarray(self.board.sample.weight @ sweep.shares)

    def summary(self, sweeps: list[Sweep]) -> Summary:
        """Means over the sweeps, turns of the order taken off; every row's total is known."""
        weight, cells = self.board.sample.weight, np.stack([one.shares for one in sweeps], axis=1)
        gains = cells.sum(axis=2).mean(axis=1)  # the same in every sweep
        if all(one.steps is not None for one in sweeps):
            cells = control_variates.turned(self.board, sweeps, cells, self._marks)
        local = cells.mean(axis=1)
        drawn = np.full(self.board.p, np.nan)
        if len(sweeps) > 1:
            drawn = np.sqrt(np.square(weight) @ cells.var(axis=1, ddof=1) / len(sweeps))
        sfimp = weight @ local
        shares = Shares(local, None, everybody(self.board.n))
        return Summary(sfimp, shares, drawn, float(weight @ gains), gains)

    @property
    def _marks(self) -> Mask:
        lends = np.zeros(self.board.n, bool)
        lends[self.donors] = True
        return lends

    def sampling(self, found: Summary) -> Floats:
        """Rows alone vary; donors are taken as they are."""
        return np.asarray(np.linalg.norm(rows_only(found.shares.local, self.board.sample.weight), axis=0))

    def design(self, sweeps: int) -> str:
        """What was drawn."""
        return f"{sweeps:,} sweeps of walks from {len(self.donors):,} donors"

    @property
    def remarks(self) -> list[str]:
        """Where some donors stand for all."""
        if len(self.donors) >= int(np.sum(self.board.sample.weight > 0)):
            return []
        return [f"{len(self.donors):,} donors, drawn at random, stand for all rows: the errors leave that draw out"]


FEWEST = 10  # walks a row before anything is decided
PRECISE = 0.01  # of the spread of the predictions: the Monte-Carlo error at which walks end
CELLS = 40 * walks.BINS  # walks from which additive parts are learnt; fewer would fit noise
EFFECT_STEPS_AT_ONCE = 1 << 17  # steps that are walked at a time


@dataclass(frozen=True, eq=False)
class EffectRecord:
    """What each player adds to each row."""

    local: Floats  # (r, p)
    std_error: Floats  # (r, p)
    walks: int  # a row
    complete: bool


@dataclass(frozen=True, eq=False)
class EffectWalk:
    """Each sweep walks every row once, from a donor drawn by its weight."""

    board: Board
    rows: Indices
    donors: Indices
    weight: Floats
    rng: np.random.Generator

    @property
    def cost(self) -> int:
        """The most predictions that a sweep takes."""
        return len(self.rows) * (self.board.p - int(self.board.whole))

    def run(self, budget: int | None, room: int, tell: Teller) -> EffectRecord:
        """Until the errors are small beside the spread of the predictions, or the budget is spent."""
        board = self.board
        most = ((budget or MOST_PREDICTIONS) - board.counter.rows) // max(1, self.cost)
        most = int(min(max(most, 0), room // (len(self.rows) * board.p * 40)))
        if most < 2:
            raise ValueError(
                f"two walks a row take {2 * self.cost:,} predictions and some memory; raise budget= or memory="
            )
        sweeps: list[Sweep] = []
        wanted, complete = most if budget is not None else min(FEWEST, most), True
        spread = float(board.sample.prediction[self.donors].std())
        try:
            while len(sweeps) < wanted:
                tell.expect(board.n + wanted * self.cost)
                some = max(1, min(wanted - len(sweeps), EFFECT_STEPS_AT_ONCE // max(1, self.cost)))
                sweeps += self._sweeps(some)
                if len(sweeps) >= wanted and budget is None:
                    wanted = min(most, self._enough(sweeps, spread))
        except KeyboardInterrupt:
            if len(sweeps) < 2:
                raise
            complete = False
        return self._summary(sweeps, complete=complete)

    def _enough(self, sweeps: list[Sweep], spread: float) -> int:
        error = np.sqrt(np.mean(np.square(self._summary(sweeps).std_error), axis=0)).max()
        if not error > PRECISE * spread > 0:  # or every donor predicts the same
            return len(sweeps)
        return int(1 + len(sweeps) * min(4.0, (error / (PRECISE * spread)) ** 2))

    def _sweeps(self, count: int) -> list[Sweep]:
        """Donors of a sweep come without replacement where they weigh the same and are enough."""
        r = len(self.rows)
        lenders = np.stack([self._lenders(r) for _ in range(count)])
        orders = random_orders(count * r, self.board.p, self.rng)
        rows = np.tile(self.rows, count)
        steps, together = np.empty((count * r, self.board.p)), max(1, EFFECT_STEPS_AT_ONCE // self.board.p)
        for start in range(0, count * r, together):
            part = slice(start, start + together)
            path = walks.path(self.board, rows[part], lenders.ravel()[part], orders[part])
            steps[part] = -along(orders[part], np.asarray(path, float))
        found = steps.reshape(count, r, -1)
        small = orders.astype(np.int16).reshape(count, r, -1)
        return [Sweep(lenders[c], small[c], found[c], found[c]) for c in range(count)]

    def _lenders(self, r: int) -> Indices:
        """A systematic draw along a random order: every donor as often as its weight says, to within one."""
        order = self.rng.permutation(len(self.donors))
        at = (np.arange(r) + self.rng.random()) / r
        place = np.searchsorted(np.cumsum(self.weight[order]), at, side="right")
        return self.donors[order][np.minimum(place, len(order) - 1)][self.rng.permutation(r)]

    def _summary(self, sweeps: list[Sweep], *, complete: bool = True) -> EffectRecord:
        """Means over the walks of each row; what a donor's additive part and the known total explain is taken off."""
        board, R = self.board, len(sweeps)
        cells = np.stack([one.shares for one in sweeps], axis=1)  # (r, R, p)
        lenders = np.stack([one.donors for one in sweeps], axis=1)
        if cells.shape[0] * R >= 2 * CELLS:
            for half in range(2):  # nobody is explained by a fit to its own noise
                parts = walks.additive_parts(board, sweeps[1 - half :: 2], self.rows)
                parts = parts - self.weight @ parts[self.donors]
                cells[:, half::2] += parts[lenders[:, half::2]]  # their mean over the donors is 0
        if board.whole:
            base = board.sample.prediction
            excess = cells.sum(axis=2) - (base[self.rows] - self.weight @ base[self.donors])[:, None]
            cells = cells - excess[:, :, None] * _slopes(cells, excess)
        error = cells.std(axis=1, ddof=1) / np.sqrt(R)
        return EffectRecord(cells.mean(axis=1), error, R, complete)


def _slopes(cells: Floats, excess: Floats) -> Floats:
    """How much of a walk's excess each player has on average, (p,); they sum to one."""
    pull = excess - excess.mean(axis=1, keepdims=True)
    spread = float(np.sum(pull * cells.sum(axis=2)))
    if not spread > 1e-12 * float(np.sum(np.square(cells.sum(axis=2)))):
        return np.full(cells.shape[2], 1 / cells.shape[2])
    return np.asarray(np.einsum("irp,ir->p", cells, pull) / spread)
