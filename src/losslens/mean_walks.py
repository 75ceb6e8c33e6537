"""Walks from all donors together to a row: SAGE's shares, where predictions are averaged before they are judged."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import ceil

import numpy as np

from losslens import controls, walks
from losslens.allotments import everybody
from losslens.games import Board, Marks
from losslens.sample import Floats, Indices
from losslens.shapley import along, random_orders
from losslens.shares import Shares, rows_only
from losslens.walking import Summary
from losslens.walks import Sweep

TOGETHER = 1 << 18  # steps that are walked at a time
FEWEST_SWEEPS, FEWEST_WALKS = 4, 200  # before anything is decided


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
        return max(FEWEST_SWEEPS, ceil(FEWEST_WALKS / self.board.n))

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
        step = max(1, TOGETHER // (B * (board.p + 1)))
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
            cells = controls.turned(self.board, sweeps, cells, self._marks)
        local = cells.mean(axis=1)
        drawn = np.full(self.board.p, np.nan)
        if len(sweeps) > 1:
            drawn = np.sqrt(np.square(weight) @ cells.var(axis=1, ddof=1) / len(sweeps))
        sfimp = weight @ local
        shares = Shares(local, None, everybody(self.board.n))
        return Summary(sfimp, shares, drawn, float(weight @ gains), gains)

    @property
    def _marks(self) -> Marks:
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
