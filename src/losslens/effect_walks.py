"""Walks from donors to rows that share out the prediction, each row by itself."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from losslens import walks
from losslens.games import Board
from losslens.progress import Teller
from losslens.sample import Floats, Indices
from losslens.shapley import along, random_orders
from losslens.stopping import MOST_PREDICTIONS
from losslens.walks import Sweep

FEWEST = 10  # walks a row before anything is decided
PRECISE = 0.01  # of the spread of the predictions: the Monte-Carlo error at which walks end
CELLS = 40 * walks.BINS  # walks from which additive parts are learnt; fewer would fit noise
TOGETHER = 1 << 17  # steps that are walked at a time


@dataclass(frozen=True, eq=False)
class Walked:
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

    def run(self, budget: int | None, room: int, tell: Teller) -> Walked:
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
                some = max(1, min(wanted - len(sweeps), TOGETHER // max(1, self.cost)))
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
        steps, together = np.empty((count * r, self.board.p)), max(1, TOGETHER // self.board.p)
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

    def _summary(self, sweeps: list[Sweep], *, complete: bool = True) -> Walked:
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
        return Walked(cells.mean(axis=1), error, R, complete)


def _slopes(cells: Floats, excess: Floats) -> Floats:
    """How much of a walk's excess each player has on average, (p,); they sum to one."""
    pull = excess - excess.mean(axis=1, keepdims=True)
    spread = float(np.sum(pull * cells.sum(axis=2)))
    if not spread > 1e-12 * float(np.sum(np.square(cells.sum(axis=2)))):
        return np.full(cells.shape[2], 1 / cells.shape[2])
    return np.asarray(np.einsum("irp,ir->p", cells, pull) / spread)
