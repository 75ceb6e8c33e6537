"""Shares from the errors of coalitions: of all coalitions, or of those along some orders."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from losslens import game_theory
from losslens.donors.layout import CommonGrid, Layout, OwnDonors
from losslens.donors.questions import Subject
from losslens.engines.base import coalition_count
from losslens.passes.ways import EXACT_PREDICTIONS
from losslens.results.shapley import ShapleyImportance, Shares, mean_of, monte_carlo_error, with_mean
from losslens.shapley.games import Game, Value
from losslens.shapley.setup import GameSetup
from losslens.shapley.way import Cost, result
from losslens.typing import Floats, Indices, Mask

MOST_PLAYERS = 20  # in a table of all coalitions: 2^20 entries
MOST_PREDICTIONS = 10**9  # with method='exact' and no budget
COALITION_OVERHEAD = 128  # predictions: a coalition takes at least as long as these, however few rows it has


def all_coalitions(p: int) -> Mask:
    """Every coalition, (2^p, p), in the order of a table."""
    return game_theory.members(p, np.arange(1 << p))


def count_predictions(players: Sequence[Subject], n: int, m: int, covers_table: bool, mirrors: bool = False) -> float:
    """An upper bound for all coalitions: equal values of the replaced players are predicted once for each row.

    mirrors: of a coalition and its complement only one is predicted, the one with fewer values.
    """
    p = len(players)
    if p > MOST_PLAYERS:
        return (coalition_count(p) - 2) * n * m / (1 + mirrors)
    values = np.ones(1)
    for player in players:  # one entry for each set of replaced players, the empty set first
        values = np.concatenate([values, np.minimum(values * len(player.distinct), float(m))])
    if mirrors:
        values = np.minimum(values, values[::-1]) / 2
    return float(values[1 : -1 if covers_table else None].sum() * n) + n


def cost_by_model(
    players: Sequence[Subject], n: int, m: int, covers_table: bool, budget: int | None, wants_exact: bool,
    mirrors: bool = False,
) -> Cost:  # fmt: skip
    """The cost of all coalitions, predicted by the model, with m donors a row."""
    most = budget or (MOST_PREDICTIONS if wants_exact else EXACT_PREDICTIONS * len(players))
    rows = count_predictions(players, n, m, covers_table, mirrors)
    return Cost(max(rows, COALITION_OVERHEAD * coalition_count(len(players))), "predictions", most)


def share_all(
    setup: GameSetup, game: Game, pairs: Layout, *, keeps: bool = False, design: str = "all pairs"
) -> ShapleyImportance:
    """Every coalition once, of a game with errors of rows; shares of donors and pairs where it has theirs."""
    kept, weight = all_coalitions(setup.p), setup.sample.weight
    tally, table, row_hashes = Tally(setup.n, setup.p, keeps), np.empty(len(kept)), np.zeros(len(kept), np.int64)
    exact, ends = isinstance(pairs, CommonGrid), [np.empty(0)] * 2
    order = np.stack([np.arange(len(kept)), np.arange(len(kept))[::-1]], axis=1)[: len(kept) // 2].ravel()
    for bits, value in zip(order.tolist(), game.values(kept[order]), strict=True):  # each with its complement
        assert value.by_row is not None
        tally.add(game_theory.coefficients(kept[bits][None])[0], value)
        table[bits], row_hashes[bits] = value.total, hash(value.by_row.tobytes())
        if bits in (0, len(kept) - 1):
            ends[bits > 0] = value.by_row
    sfimp, shares = game_theory.values(table), tally.shares(pairs, weight, _idle_players(row_hashes, setup.p))
    noise = np.zeros(setup.p) if exact else monte_carlo_error(shares, setup.sample, np.arange(setup.n))
    return result(
        setup, sfimp, "all coalitions", design=design, exact=exact, shares=shares,
        error_none=float(table[0] if exact else setup.sample.error + sfimp.sum()),
        gains=ends[0] - ends[1], table=table, monte_carlo_error=noise,
    )  # fmt: skip


def _idle_players(row_hashes: Indices, p: int) -> list[int]:
    """Players that change no row's error in any coalition."""
    pairs = [row_hashes.reshape(-1, 2, 1 << j) for j in range(p)]
    return [j for j, both in enumerate(pairs) if np.array_equal(both[:, 0], both[:, 1])]


class Tally:
    """Sums the errors of coalitions, times their coefficients, into shares of rows, donors and pairs."""

    def __init__(self, n: int, p: int, keeps_pairs: bool = False) -> None:
        self.p, self.keeps_pairs = p, keeps_pairs
        self.local, self.caused = np.zeros((n, p)), np.zeros((n, p))
        self.cells: Floats | None = None
        self.has_donors = True

    def add(self, share: Floats, value: Value) -> None:
        """Add a coalition whose error has the coefficient share[j] for player j."""
        assert value.by_row is not None
        self.local += np.multiply.outer(value.by_row, share)
        if value.by_donor is None:
            self.has_donors = False
        else:
            self.caused += np.multiply.outer(value.by_donor, share)
        if self.keeps_pairs and value.pairs is not None:
            self.cells = np.zeros((self.p, *value.pairs.shape)) if self.cells is None else self.cells
            for j in range(self.p):
                self.cells[j] += share[j] * value.pairs

    def shares(self, pairs: Layout, weight: Floats, idle: Sequence[int] = ()) -> Shares:
        """Shares of rows, donors and pairs; those of idle players are rounding errors and set to 0."""
        cells = np.ascontiguousarray(np.moveaxis(self.cells, 0, 2)) if self.cells is not None else None
        local, caused = self.local, self.caused
        if self.has_donors and isinstance(pairs, OwnDonors):
            mass = weight * (1 - weight) if pairs.leaves_out_own else weight
            caused = with_mean(caused, mass, mean_of(local, mass))
        for j in idle:
            local[:, j] = caused[:, j] = 0.0
            if cells is not None:
                cells[:, :, j] = 0.0
        return Shares(local, caused if self.has_donors else None, pairs, cells)


# Some orders.


def over_rounds(rounds: Sequence[Floats]) -> tuple[Floats, Floats]:
    """The mean over independent rounds of orders, (p,), and its standard error; NaN for a single round."""
    each = np.array(rounds)
    error = each.std(axis=0, ddof=1) / np.sqrt(len(each)) if len(each) > 1 else np.full(each.shape[1], np.nan)
    return each.mean(axis=0), error


def mean_along(game: Game, orders: Indices) -> Floats:
    """The mean shares along some orders; a coalition of several orders is evaluated once."""
    kept = game_theory.coalitions_along(orders)
    flat = kept.reshape(-1, kept.shape[2])
    distinct, place = np.unique(np.packbits(flat, axis=1), axis=0, return_index=True, return_inverse=True)[1:]
    errors = np.array([value.total for value in game.values(flat[distinct])])
    return np.asarray(game_theory.along(orders, errors[place.reshape(kept.shape[:2])]).mean(axis=0))


def without_and_with_all(game: Game, p: int) -> tuple[float, float]:
    """The errors of the empty and of the full coalition."""
    none, everything = (next(iter(game.values(np.full((1, p), full)))).total for full in (False, True))
    return none, everything
