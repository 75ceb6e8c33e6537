"""Ways to share out the error that the features take off: each gives the shares, and as much of their origin as it can.

In closed form for additive models; from all coalitions, where they are few enough to be asked one by one; from some
orders, where a coalition's error is exact and coalitions are many. Walks have a room of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from losslens import game_theory
from losslens.donors.layout import CommonGrid, Layout, OwnDonors
from losslens.engines.additive import Additive
from losslens.results.shapley import Shares, levelled, mean_of, monte_carlo_error
from losslens.shapley.games import Board, Game, Value
from losslens.tables.sample import Sample
from losslens.typing import Floats, Indices, Mask


@dataclass(frozen=True, eq=False, kw_only=True)
class Allotment:
    """Who earns how much, and what is known of how."""

    sfimp: Floats
    method: str
    design: str = "all pairs"
    exact: bool = True
    error_none: float
    shares: Shares | None = None
    gains: Floats | None = None
    table: Floats | None = None
    monte_carlo_error: Floats
    freedom: float = np.inf  # degrees of freedom of the Monte-Carlo error
    sampling: Floats | None = None
    index: Floats | None = None  # (p, p): interactions, where they are known without a table
    absent: str = ""
    remarks: tuple[str, ...] = ()
    complete: bool = True


def everybody(n: int, apart: bool = False) -> CommonGrid:
    """Every row meets every row; without itself where pairs of a row with itself are left out."""
    return CommonGrid(np.arange(n), np.arange(n), n, apart)


def nobody_drawn(p: int) -> Floats:
    """No Monte-Carlo error."""
    return np.zeros(p)


def left_apart(found: Allotment, sample: Sample, error_all: float) -> Allotment:
    """The same without pairs of a row with itself, in which no feature earns anything: the U-statistic."""
    weight = sample.weight
    if weight.max() >= 1:
        raise ValueError("one row has all the weight: there is no pair of different rows that counts")
    up = 1 / (1 - float(weight @ weight))
    new = replace(
        found, sfimp=found.sfimp * up, monte_carlo_error=found.monte_carlo_error * up,
        error_none=error_all + up * (found.error_none - error_all),
        design="all pairs of different rows" if found.exact else f"{found.design}, pairs of different rows",
        index=None if found.index is None else found.index * up,
        table=None if found.table is None else error_all + up * (found.table - error_all),
        gains=None if found.gains is None else found.gains / (1 - weight),
    )  # fmt: skip
    shares = found.shares
    if shares is None or shares.caused is None:
        return new
    apart = 1 - weight[:, None]
    meeting = everybody(sample.n, apart=True)
    return replace(
        new, shares=replace(shares, local=shares.local / apart, caused=shares.caused / apart, meeting=meeting)
    )


# Additive models.


def closed_form(board: Board, engine: Additive, keeps: bool) -> Allotment:
    """Squared loss of a sum: ``phi_j(i, k) = (c_ij - c_kj) (2 r_i + C_i - C_k)``, c centred, C their sum, r = y - f."""
    sample, weight = board.sample, board.sample.weight
    parts = np.stack([engine.contribution(player.feature.columns, weight) for player in board.players], axis=1)
    whole, residual = parts.sum(axis=1), np.asarray(sample.y, float) - sample.prediction
    reach = 2 * residual + whole
    local = parts * reach[:, None] + (weight * whole) @ parts
    caused = (weight * reach) @ parts - parts * (weight @ reach - whole)[:, None]
    cells = None
    if keeps:
        gaps = parts[:, None] - parts
        cells = gaps * (reach[:, None] - whole)[:, :, None]
    sfimp = weight @ local
    shares = Shares(local, caused, everybody(board.n), cells)
    return Allotment(
        sfimp=sfimp, method="closed form", error_none=sample.error + float(sfimp.sum()), shares=shares,
        gains=local.sum(axis=1), monte_carlo_error=nobody_drawn(board.p), index=_interactions(parts, weight),
    )  # fmt: skip


def _interactions(parts: Floats, weight: Floats) -> Floats:
    """Replacing j and l adds ``2 d_j d_l`` to a pair's loss, d = c_i - c_k: in the mean 4 cov(c_j, c_l), taken off."""
    index = -4 * (parts * weight[:, None]).T @ parts
    np.fill_diagonal(index, 0.0)
    return index


# All coalitions.


def all_coalitions(p: int) -> Mask:
    """Every coalition, in the order of their places in a table."""
    return game_theory.members(p, np.arange(1 << p))


def from_all(board: Board, game: Game, meeting: Layout, *, keeps: bool = False, design: str = "all pairs") -> Allotment:
    """Every coalition once; rows, donors and pairs are shared out as the totals are."""
    kept = all_coalitions(board.p)
    tally = _PairTally(board.n, board.p, meeting, keeps)
    for S, value in zip(kept, game.values(kept), strict=True):
        tally.add(game_theory.coefficients(S[None])[0], value)
    table, shares = np.array(tally.totals), tally.shares(board.sample.weight)
    exact = isinstance(meeting, CommonGrid)
    gains = None if shares is None else tally.by_row_none - tally.by_row_all
    sfimp = game_theory.values(table)
    drawn = nobody_drawn(board.p) if exact or shares is None else monte_carlo_error(shares, board.sample, _every(board))
    return Allotment(
        sfimp=sfimp, method="all coalitions", design=design, exact=exact, shares=shares,
        error_none=float(table[0] if exact else board.sample.error + sfimp.sum()), gains=gains, table=table,
        monte_carlo_error=drawn,
    )  # fmt: skip


def _every(board: Board) -> Indices:
    return np.arange(board.n)


class _PairTally:
    """Adds up what coalitions bring to each player, row by row, donor by donor and pair by pair."""

    def __init__(self, n: int, p: int, meeting: Layout, keeps: bool) -> None:
        self.n, self.p, self.meeting, self.keeps = n, p, meeting, keeps
        self.totals: list[float] = []
        self.seen: list[int] = []  # what the rows' errors looked like
        self.local, self.caused = np.zeros((n, p)), np.zeros((n, p))
        self.cells: Floats | None = None
        self.by_row_none = self.by_row_all = np.zeros(n)
        self.knows_rows = self.knows_donors = True

    def add(self, share: Floats, value: Value) -> None:
        if value.by_row is None:
            self.knows_rows = False
        else:
            self.local += np.multiply.outer(value.by_row, share)
            self.seen.append(hash(value.by_row.tobytes()))
            self.by_row_none = value.by_row if not self.totals else self.by_row_none
            self.by_row_all = value.by_row
        if value.by_donor is None:
            self.knows_donors = False
        else:
            self.caused += np.multiply.outer(value.by_donor, share)
        if self.keeps and value.pairs is not None:
            self.cells = np.zeros((self.p, *value.pairs.shape)) if self.cells is None else self.cells
            for j in range(self.p):
                self.cells[j] += share[j] * value.pairs
        self.totals.append(value.total)

    def _idle(self) -> list[int]:
        """Players that change nothing, whomever they join."""
        pairs = [np.array(self.seen).reshape(-1, 2, 1 << j) for j in range(self.p)]
        return [j for j, both in enumerate(pairs) if np.array_equal(both[:, 0], both[:, 1])]

    def shares(self, weight: Floats) -> Shares | None:
        if not self.knows_rows:
            return None
        cells = np.ascontiguousarray(np.moveaxis(self.cells, 0, 2)) if self.cells is not None else None
        if self.knows_donors and isinstance(self.meeting, OwnDonors):
            mass = weight * (1 - weight) if self.meeting.leaves_out_own else weight
            self.caused = levelled(self.caused, mass, mean_of(self.local, mass))
        for j in self._idle():  # what coalitions add up to is rounding
            self.local[:, j] = self.caused[:, j] = 0.0
            if cells is not None:
                cells[:, :, j] = 0.0
        return Shares(self.local, self.caused if self.knows_donors else None, self.meeting, cells)


def met(
    donors: Indices, *, repeats: bool = False, fresh: bool = False, apart: bool = False, alone: bool = False
) -> OwnDonors:
    """Each row with donors of its own."""
    n = len(donors)
    return OwnDonors(donors, np.arange(n), n, leaves_out_own=apart, repeats=repeats, fresh=fresh, alone=alone)


# Some orders, where the error of a coalition is exact.


@dataclass(frozen=True, eq=False)
class Orders:
    """Shares along some orders: one mean a round, the rounds independent of each other."""

    rounds: Floats  # (rounds, p)

    @property
    def mean(self) -> Floats:
        """The estimate."""
        return np.asarray(self.rounds.mean(axis=0))

    @property
    def freedom(self) -> float:
        """Degrees of freedom of the standard error."""
        return float(len(self.rounds) - 1)

    @property
    def std_error(self) -> Floats:
        """Of the mean; NaN for a single round."""
        if len(self.rounds) < 2:
            return np.full(self.rounds.shape[1], np.nan)
        return np.asarray(self.rounds.std(axis=0, ddof=1) / np.sqrt(len(self.rounds)))


def circles(game: Game, p: int, rng: np.random.Generator) -> Iterator[Floats]:
    """The mean shares along the 2 p orders of one random circle after the other, (p,)."""
    while True:
        yield mean_along(game, game_theory.circle(p, rng))


def mean_along(game: Game, orders: Indices) -> Floats:
    """The mean shares along some orders; a coalition that several meet is asked for once."""
    kept = game_theory.coalitions_met(orders)
    flat = kept.reshape(-1, kept.shape[2])
    distinct, place = np.unique(np.packbits(flat, axis=1), axis=0, return_index=True, return_inverse=True)[1:]
    errors = np.array([value.total for value in game.values(flat[distinct])])
    return np.asarray(game_theory.along(orders, errors[place.reshape(kept.shape[:2])]).mean(axis=0))
