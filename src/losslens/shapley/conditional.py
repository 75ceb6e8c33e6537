"""The game in which replaced values are drawn given the kept ones, and how it is shared out.

The sampler is fitted anew for every coalition, so coalitions are few: all of them, or those of some orders.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from losslens import game_theory
from losslens.donors.conditional import BoundSampler
from losslens.donors.samplers import DrawnValues
from losslens.engines.blackbox import BlackBox
from losslens.progress import Tick
from losslens.results.shapley import Shares, levelled
from losslens.shapley.allotment import Allotment, all_coalitions, everybody, met
from losslens.shapley.games import Board, Ends, ends
from losslens.tables.frames import Batch, Edit, Table
from losslens.typing import Floats, Indices, Mask

MOST_PLAYERS = 10  # whose coalitions are all asked for
COALITIONS = 1 << MOST_PLAYERS  # of some orders, about
FEWEST_DRAWS, FEWEST_CIRCLES = 2, 2


def drawn_losses(
    board: Board, engine: BlackBox, table: Table, columns: Sequence[int], lent: DrawnValues, tick: Tick
) -> Floats:
    """The losses of all rows with the values that were lent to them, one draw after the other, (m, n)."""
    n, m = lent.donors.shape
    batch, found = Batch(table), np.empty((m, n))
    own = {j: table.column(j) for j in columns if j not in lent.sources}
    for k in range(m):
        donor = np.where(lent.donors[:, k] < 0, np.arange(n), lent.donors[:, k])
        for start in range(0, n, engine.batch_rows):
            rows = np.arange(start, min(start + engine.batch_rows, n))
            edits = [
                Edit(0, len(rows), j, lent.sources[j], (k + 1) * n + rows) if j in lent.sources
                else Edit(0, len(rows), j, own[j], donor[rows])
                for j in columns
            ]  # fmt: skip
            found[k, rows] = board.judge(rows, engine.respond(batch.fill(rows, edits)))
            tick(len(rows))
    return found


def lenders_weight(lent: DrawnValues, weight: Floats) -> Floats:
    """How much each draw counts, (m, n): as much as who lent it; nothing where nobody did."""
    donors = lent.donors.T
    return np.where(donors < 0, 0.0, 1.0 if lent.alone else weight[donors])


@dataclass(frozen=True, eq=False)
class Drawn:
    """What one coalition's draws gave."""

    by_row: Floats  # (n,): the mean loss of each row
    by_donor: Floats | None  # (n,): how far each donor moves the rows that it lends to; None where nobody lends
    by_draw: Floats  # (m,): the mean loss of each draw


@dataclass(frozen=True, eq=False)
class DrawnGame:
    """Errors of coalitions whose other players are drawn given them."""

    board: Board
    engine: BlackBox
    design: BoundSampler
    m: int
    entropy: int
    known: Ends | None

    def value(self, kept: Mask) -> Drawn:
        """Draw what is not kept, and lose."""
        board, table = self.board, self.design.numbers.table
        assert board.sample.loss is not None  # a game has a loss
        if kept.all():
            return self._known(board.sample.loss, np.zeros(board.n))
        if not kept.any() and self.known is not None:  # over all pairs, without a draw
            apart = 1 - board.sample.weight if self.design.leaves_out_own else 1.0
            return self._known(board.sample.loss + self.known.by_row / apart, self.known.by_donor / apart)
        columns = [j for player, k in zip(board.players, kept, strict=True) if not k for j in player.feature.columns]
        rng = np.random.default_rng([self.entropy, 17, *_letters(board.names_of(kept))])
        lent = self.design.lend_to(columns, rng, m=self.m)
        losses = drawn_losses(board, self.engine, table, columns, lent, board.counter)
        counted = lenders_weight(lent, board.sample.weight)
        nobody = counted.sum(axis=0) == 0  # is like these rows: nothing is known to be lost
        losses[:, nobody], counted[:, nobody] = board.sample.loss[nobody], 1.0
        by_row = (counted * losses).sum(axis=0) / counted.sum(axis=0)
        filled = np.where(counted > 0, losses, by_row) @ board.sample.weight
        by_donor = None if lent.alone else _moved(losses - by_row, lent.donors.T, counted * board.sample.weight)
        return Drawn(by_row, by_donor, np.append(filled, np.full(self.m - len(filled), filled.mean())))

    def _known(self, by_row: Floats, by_donor: Floats) -> Drawn:
        weight = self.board.sample.weight
        return Drawn(by_row, by_donor - weight @ by_donor, np.full(self.m, weight @ by_row))


def _moved(losses: Floats, donors: Indices, counts: Floats) -> Floats:
    """How far each donor moves its rows' losses from their means: what rows have in common is no donor's doing."""
    n, at = losses.shape[1], np.maximum(donors, 0).ravel()
    counts = np.where(donors < 0, 0.0, counts).ravel()
    mass = np.bincount(at, counts, n)
    total = np.bincount(at, counts * losses.ravel(), n)
    return np.divide(total, mass, out=np.zeros(n), where=mass > 0)


def _letters(names: Sequence[str]) -> list[int]:
    """Names as numbers, whatever the order of the columns."""
    return list("\0".join(sorted(names)).encode())


def share_out(board: Board, engine: BlackBox, design: BoundSampler, entropy: int, budget: int) -> Allotment:
    """Shares of the error that knowing takes off, where what is not known is drawn given what is."""
    p, rng = board.p, np.random.default_rng([entropy, 18])
    names = [player.feature.name for player in board.players]
    order = np.argsort(names, kind="stable")  # circles go by names, not by the order of the columns
    exact, (circles, m) = p <= MOST_PLAYERS, rounds_and_draws(p, board.n, design, budget)
    rounds = [_of_all(p)] if exact else [_of_circle(order[game_theory.circle(p, rng)]) for _ in range(circles)]
    game = DrawnGame(board, engine, design, m, entropy, ends(board))
    tally = _DrawnTally(board.n, p)
    for kept, share in rounds:
        tally.add_round(map(game.value, kept), share, len(rounds))
    return tally.allotment(board, f"{m} draws a row by {design!r}", exact=exact)


def rounds_and_draws(p: int, n: int, design: BoundSampler, budget: int) -> tuple[int, int]:
    """Rounds of coalitions, all of them or those of a circle of orders, and draws a row in each."""
    rounds = 1 if p <= MOST_PLAYERS else max(FEWEST_CIRCLES, COALITIONS // p**2)
    return rounds, int(np.clip(budget // (rounds * coalitions(p) * n), FEWEST_DRAWS, design.draws))


def coalitions(p: int) -> int:
    """Coalitions of a round that are drawn for, neither nobody nor everybody."""
    return max(1, (1 << p) - 2 if p <= MOST_PLAYERS else p * (p - 1))


def _of_all(p: int) -> tuple[Mask, Floats]:
    kept = all_coalitions(p)
    return kept, game_theory.coefficients(kept)


def _of_circle(orders: Indices) -> tuple[Mask, Floats]:
    """The coalitions of one circle of orders, and what each adds to each player's mean share along them."""
    grown, p = game_theory.coalitions_met(orders), orders.shape[1]
    share = np.zeros(grown.shape)
    joins = grown[:, 1:] & ~grown[:, :-1]
    share[:, :-1] += joins / len(orders)
    share[:, 1:] -= joins / len(orders)
    flat = grown.reshape(-1, p)
    first, place = np.unique(np.packbits(flat, axis=1), axis=0, return_index=True, return_inverse=True)[1:]
    total = np.zeros((len(first), p))
    np.add.at(total, place.reshape(-1), share.reshape(-1, p))
    return flat[first], total


class _DrawnTally:
    """Adds up what coalitions bring to each player: row by row, donor by donor, draw by draw."""

    def __init__(self, n: int, p: int) -> None:
        self.local, self.caused = np.zeros((n, p)), np.zeros((n, p))
        self.knows_donors = True
        self.rounds: list[Floats] = []  # (m, p) each: the shares by single draws

    def add_round(self, values: Iterable[Drawn], share: Floats, rounds: int) -> None:
        """The coalitions of some orders, nobody first."""
        drawn: Floats | float = 0.0
        for part, value in zip(share, values, strict=True):
            self.local += np.multiply.outer(value.by_row, part / rounds)
            drawn = drawn + np.multiply.outer(value.by_draw, part)
            if value.by_donor is None:
                self.knows_donors = False
            else:
                self.caused += np.multiply.outer(value.by_donor, part / rounds)
        self.rounds.append(np.asarray(drawn))

    def allotment(self, board: Board, design: str, *, exact: bool) -> Allotment:
        """The shares; over all coalitions only draws add noise, along some orders these do, too."""
        weight, gains = board.sample.weight, self.local.sum(axis=1)
        sfimp = weight @ self.local
        repeats = self.rounds[0] if exact else np.array([drawn.mean(axis=0) for drawn in self.rounds])
        caused = levelled(self.caused, weight, sfimp) if self.knows_donors else None
        apart = met(np.arange(board.n)[:, None], alone=True) if caused is None else everybody(board.n)
        return Allotment(
            sfimp=sfimp, method="all coalitions" if exact else "orders on circles", design=design, exact=False,
            shares=Shares(self.local, caused, apart), error_none=float(board.sample.error + sfimp.sum()), gains=gains,
            monte_carlo_error=repeats.std(axis=0, ddof=1) / np.sqrt(len(repeats)), freedom=float(len(repeats) - 1),
            remarks=("replaced values are drawn given those that a coalition keeps",),
        )  # fmt: skip
