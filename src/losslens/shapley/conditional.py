"""The game in which replaced values are drawn given the kept ones, and the way that shares it out.

The sampler is fitted anew for every coalition, so coalitions are few: all of them, or those along some orders.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from losslens import game_theory
from losslens.donors.conditional import BoundSampler
from losslens.donors.samplers import DrawnValues
from losslens.passes.auto import EXACT_PREDICTIONS
from losslens.progress import ProgressBar, Tick
from losslens.results.shapley import Shares, with_mean
from losslens.shapley.allotment import Allotment, all_pairs, own_donors
from losslens.shapley.by_model import ModelWay
from losslens.shapley.coalitions import Tally, all_coalitions
from losslens.shapley.games import Value
from losslens.shapley.request import Request
from losslens.shapley.setup import FullGain, GameSetup, full_gain
from losslens.tables.frames import Batch, Edit
from losslens.typing import Floats, Indices, Mask

MOST_PLAYERS = 10  # of whom all coalitions are drawn for
COALITIONS = 1 << MOST_PLAYERS  # of some orders, about
FEWEST_DRAWS, FEWEST_CIRCLES = 2, 2


class ConditionalCoalitions(ModelWay):
    """All coalitions of few players."""

    name = "draws"
    words = "all coalitions; replaced features are drawn given the kept ones"

    def predictions(self, request: Request) -> tuple[int, int]:
        """All draws of all coalitions."""
        rounds, m = _rounds_and_draws(request)
        return (request.n + rounds * _coalitions_a_round(request.p) * request.n * m,) * 2

    def run(self, request: Request, setup: GameSetup, progress: ProgressBar) -> Allotment:
        """Rows and, where values have donors, donors."""
        design, p, entropy = _sampler(request), setup.p, request.task.entropy
        rng, names = np.random.default_rng([entropy, 18]), [player.feature.name for player in setup.players]
        circles, m = _rounds_and_draws(request)
        progress.set_total(self.predictions(request)[1])
        all_of_them = p <= MOST_PLAYERS
        rounds = [(kept := all_coalitions(p), game_theory.coefficients(kept))]
        if not all_of_them:
            order = np.argsort(names, kind="stable")  # circles go by names, not by the order of the columns
            rounds = [_of_circle(order[game_theory.circle(p, rng)]) for _ in range(circles)]
        game, tally = ConditionalGame(setup, design, m, entropy, full_gain(setup)), Tally(setup.n, p)
        by_draw = [game.add_to(tally, kept, share, len(rounds)) for kept, share in rounds]
        weight = setup.sample.weight
        sfimp = weight @ tally.local
        # Over all coalitions only draws add noise, along some orders these do, too.
        repeats = by_draw[0] if all_of_them else np.array([drawn.mean(axis=0) for drawn in by_draw])
        caused = with_mean(tally.caused, weight, sfimp) if tally.knows_donors else None
        pairs = own_donors(np.arange(setup.n)[:, None], alone=True) if caused is None else all_pairs(setup.n)
        return Allotment(
            sfimp=sfimp, method="all coalitions" if all_of_them else "orders on circles", exact=False,
            design=f"{m} draws a row by {design!r}", shares=Shares(tally.local, caused, pairs),
            error_none=float(setup.sample.error + sfimp.sum()), gains=tally.local.sum(axis=1),
            monte_carlo_error=repeats.std(axis=0, ddof=1) / np.sqrt(len(repeats)), freedom=float(len(repeats) - 1),
            remarks=("replaced values are drawn given those that a coalition keeps",),
        )  # fmt: skip


class ConditionalOrders(ConditionalCoalitions):
    """Coalitions along some orders of many players."""

    words = "orders on circles; replaced features are drawn given the kept ones"


def _sampler(request: Request) -> BoundSampler:
    design = request.task.design
    assert isinstance(design, BoundSampler)  # else this way is not chosen
    return design


def _rounds_and_draws(request: Request) -> tuple[int, int]:
    """Rounds of coalitions, all of them or those of a circle of orders, and draws a row in each."""
    p, budget = request.p, request.wanted.budget or EXACT_PREDICTIONS * request.p
    rounds = 1 if p <= MOST_PLAYERS else max(FEWEST_CIRCLES, COALITIONS // p**2)
    most = budget // (rounds * _coalitions_a_round(p) * request.n)
    return rounds, int(np.clip(most, FEWEST_DRAWS, _sampler(request).draws))


def _coalitions_a_round(p: int) -> int:
    """Coalitions of a round that are drawn for, neither nobody nor everybody."""
    return max(1, (1 << p) - 2 if p <= MOST_PLAYERS else p * (p - 1))


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


@dataclass(frozen=True, eq=False)
class ConditionalGame:
    """Errors of coalitions whose other players are drawn given them."""

    setup: GameSetup
    design: BoundSampler
    m: int  # draws a row
    entropy: int
    gain: FullGain | None

    def add_to(self, tally: Tally, coalitions: Mask, share: Floats, rounds: int) -> Floats:
        """Play these coalitions, one round of several; gives the shares by single draws, (m, p)."""
        by_draw: Floats | float = 0.0
        for kept, part in zip(coalitions, share, strict=True):
            value = self.value(kept)
            assert value.by_draw is not None
            tally.add(part / rounds, value)
            by_draw = by_draw + np.multiply.outer(value.by_draw, part)
        return np.asarray(by_draw)

    def value(self, kept: Mask) -> Value:
        """Draw what is not kept, and compute the losses. Donors: how far each moves the rows that it lends to."""
        setup, weight = self.setup, self.setup.sample.weight
        base = setup.sample.loss
        assert base is not None  # a game has a loss
        if kept.all():
            return self._without_draws(base, np.zeros(setup.n))
        if not kept.any() and self.gain is not None:  # over all pairs
            others = 1 - weight if self.design.leaves_out_own else 1.0
            return self._without_draws(base + self.gain.by_row / others, self.gain.by_donor / others)
        columns = [j for player, k in zip(setup.players, kept, strict=True) if not k for j in player.feature.columns]
        names = sorted(player.feature.name for player, k in zip(setup.players, kept, strict=True) if k)
        rng = np.random.default_rng([self.entropy, 17, *"\0".join(names).encode()])  # whatever the order of the columns
        lent = self.design.lend_to(columns, rng, m=self.m)
        losses = drawn_losses(setup, columns, lent, setup.counter)
        counted = draw_weights(lent, weight)
        nobody = counted.sum(axis=0) == 0  # lends to these rows: they keep their loss
        losses[:, nobody], counted[:, nobody] = base[nobody], 1.0
        by_row = (counted * losses).sum(axis=0) / counted.sum(axis=0)
        filled = np.where(counted > 0, losses, by_row) @ weight
        by_donor = None if lent.alone else _moved(losses - by_row, lent.donors.T, counted * weight)
        by_draw = np.append(filled, np.full(self.m - len(filled), filled.mean()))
        return Value(float(weight @ by_row), by_row, by_donor, by_draw=by_draw)

    def _without_draws(self, by_row: Floats, by_donor: Floats) -> Value:
        weight = self.setup.sample.weight
        total = weight @ by_row
        return Value(float(total), by_row, by_donor - weight @ by_donor, by_draw=np.full(self.m, total))


def _moved(losses: Floats, donors: Indices, counts: Floats) -> Floats:
    """How far each donor moves its rows' losses from their means: what rows have in common is no donor's effect."""
    n, at = losses.shape[1], np.maximum(donors, 0).ravel()
    counts = np.where(donors < 0, 0.0, counts).ravel()
    mass = np.bincount(at, counts, n)
    total = np.bincount(at, counts * losses.ravel(), n)
    return np.divide(total, mass, out=np.zeros(n), where=mass > 0)


def drawn_losses(setup: GameSetup, columns: Sequence[int], lent: DrawnValues, tick: Tick) -> Floats:
    """The losses of all rows with the values that were drawn for them, one draw after the other, (m, n)."""
    mixer = setup.mixer
    assert mixer is not None
    n, m = lent.donors.shape
    batch, found = Batch(mixer.table), np.empty((m, n))
    own = {j: mixer.table.column(j) for j in columns if j not in lent.sources}
    for k in range(m):
        donor = np.where(lent.donors[:, k] < 0, np.arange(n), lent.donors[:, k])
        for start in range(0, n, mixer.batch_rows):
            rows = np.arange(start, min(start + mixer.batch_rows, n))
            edits = [
                Edit(0, len(rows), j, lent.sources[j], (k + 1) * n + rows) if j in lent.sources
                else Edit(0, len(rows), j, own[j], donor[rows])
                for j in columns
            ]  # fmt: skip
            found[k, rows] = setup.losses(rows, mixer.respond(batch.fill(rows, edits)))
            tick(len(rows))
    return found


def draw_weights(lent: DrawnValues, weight: Floats) -> Floats:
    """How much each draw counts, (m, n): as much as its donor; 0 where there is none."""
    donors = lent.donors.T
    return np.where(donors < 0, 0.0, 1.0 if lent.alone else weight[donors])
