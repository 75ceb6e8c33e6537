"""Walks from single donors to rows: Shapley shares of the loss."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import ceil

import numpy as np

from losslens import controls, uncertainty, walks
from losslens.allotments import everybody, met
from losslens.cells import Means
from losslens.games import Board, Ends, ends
from losslens.sample import Floats, Indices
from losslens.shares import Shares, monte_carlo_error
from losslens.walking import Summary
from losslens.walks import Sweep

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
        if known is None or uncertainty.count_units(sample) < 3:
            return np.inf
        means = Means(known.by_row, sample.weight, caused=known.by_donor, lent=sample.weight)
        return uncertainty.std_error(means, everybody(sample.n), sample, np.arange(sample.n))

    def sweeps(self, count: int) -> list[Sweep]:
        """In each every row once, every donor once."""
        return walks.sweeps(self.board, np.stack([next(self.donors) for _ in range(count)], axis=1), self.rng)

    def round(self, sweep: Sweep) -> Floats:
        """The mean of a sweep."""
        return np.asarray(self.board.sample.weight @ sweep.shares)

    def summary(self, sweeps: list[Sweep]) -> Summary:
        """With as little noise as controls allow."""
        sample = self.board.sample
        found = controls.gather(self.board, sweeps, self.ends, apart=self.apart)
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
    if uncertainty.count_units(sample) < 3:
        return np.full(board.p, np.inf)
    both = [
        uncertainty.std_error(shares.means(j, sample, every), shares.meeting, sample, every) for j in range(board.p)
    ]
    return np.asarray(np.sqrt(np.maximum(np.square(both) - np.square(drawn), 0.0)))
