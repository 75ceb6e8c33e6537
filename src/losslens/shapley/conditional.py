"""The conditional game, in which replaced values are drawn given the kept ones, and the way to compute its shares.

The sampler is fitted again for every coalition, so coalitions are few: all of them, or those along some orders.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from losslens import game_theory
from losslens.donors.conditional import BoundSampler
from losslens.donors.samplers import DrawnValues
from losslens.passes.ways import EXACT_PREDICTIONS
from losslens.progress import ProgressBar, Tick
from losslens.results.shapley import ShapleyImportance, Shares, with_mean
from losslens.shapley.coalitions import Tally, all_coalitions
from losslens.shapley.games import Value
from losslens.shapley.request import Request
from losslens.shapley.setup import FullGain, GameSetup, full_gain
from losslens.shapley.way import all_pairs, own_donors, result
from losslens.tables.frames import Batch, Edit
from losslens.typing import Floats, Indices, Mask

MOST_PLAYERS = 10  # up to which all coalitions are used
COALITIONS = 1 << MOST_PLAYERS  # roughly so many along the orders of more players
MIN_DRAWS, MIN_CIRCLES = 2, 2  # two at least: the Monte-Carlo error is the spread between them


def predictions(request: Request) -> tuple[int, int]:
    """Every draw of every coalition."""
    return (request.n + drawn_coalitions(request) * request.n * _rounds_and_draws(request)[1],) * 2


def drawn_coalitions(request: Request) -> int:
    """Those that need draws."""
    return _rounds_and_draws(request)[0] * _coalitions_a_round(request.p)


def draws(request: Request, setup: GameSetup, progress: ProgressBar) -> ShapleyImportance:
    """All coalitions of few players, those along some orders of many; shares of donors where values come from them."""
    design, p, entropy = _sampler(request), setup.p, request.task.entropy
    rng, names = np.random.default_rng([entropy, 18]), [player.feature.name for player in setup.players]
    circles, m = _rounds_and_draws(request)
    progress.set_total(predictions(request)[1])
    all_of_them = p <= MOST_PLAYERS
    rounds = [(kept := all_coalitions(p), game_theory.coefficients(kept))]
    if not all_of_them:
        order = np.argsort(names, kind="stable")  # by name, so that the order of the columns does not matter
        rounds = [_circle_coefficients(order[game_theory.circle(p, rng)]) for _ in range(circles)]
    game, tally = ConditionalGame(setup, design, m, entropy, full_gain(setup)), Tally(setup.n, p)
    by_draw = [game.add_to(tally, kept, share, len(rounds)) for kept, share in rounds]
    weight = setup.sample.weight
    sfimp = weight @ tally.local
    # With all coalitions the only noise is that of the draws; along some orders also that of the orders.
    repeats = by_draw[0] if all_of_them else np.array([drawn.mean(axis=0) for drawn in by_draw])
    caused = with_mean(tally.caused, weight, sfimp) if tally.has_donors else None
    pairs = own_donors(np.arange(setup.n)[:, None], alone=True) if caused is None else all_pairs(setup.n)
    return result(
        setup, sfimp, "all coalitions" if all_of_them else "cyclic orders", exact=False,
        design=f"{m} draws a row by {design!r}", shares=Shares(tally.local, caused, pairs),
        monte_carlo_error=repeats.std(axis=0, ddof=1) / np.sqrt(len(repeats)), freedom=float(len(repeats) - 1),
        remarks=(
            "replaced values are drawn given those that a coalition keeps; whether they look like real ones is not "
            "checked: see conditional_predictive_impact",
        ),
    )  # fmt: skip


def _sampler(request: Request) -> BoundSampler:
    design = request.task.design
    assert isinstance(design, BoundSampler)  # else this way is not chosen
    return design


def _rounds_and_draws(request: Request) -> tuple[int, int]:
    """Rounds of coalitions, all of them or those of a circle of orders, and draws a row in each."""
    p, budget = request.p, request.settings.budget or EXACT_PREDICTIONS * request.p
    rounds = 1 if p <= MOST_PLAYERS else max(MIN_CIRCLES, COALITIONS // p**2)
    most = budget // (rounds * _coalitions_a_round(p) * request.n)
    return rounds, int(np.clip(most, MIN_DRAWS, _sampler(request).draws))


def _coalitions_a_round(p: int) -> int:
    """Coalitions of a round that need draws: neither the empty nor the full one."""
    return max(1, (1 << p) - 2 if p <= MOST_PLAYERS else p * (p - 1))


def _circle_coefficients(orders: Indices) -> tuple[Mask, Floats]:
    """The coalitions of one circle of orders, and the coefficient of each in each player's mean share."""
    grown, p = game_theory.coalitions_along(orders), orders.shape[1]
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
    """Errors of coalitions; the values of the other players are drawn given theirs."""

    setup: GameSetup
    design: BoundSampler
    m: int  # draws a row
    entropy: int
    gain: FullGain | None

    def add_to(self, tally: Tally, coalitions: Mask, share: Floats, rounds: int) -> Floats:
        """Evaluate these coalitions, one of several rounds; returns the shares by single draws, (m, p)."""
        by_draw: Floats | float = 0.0
        for kept, part in zip(coalitions, share, strict=True):
            value = self.value(kept)
            assert value.by_draw is not None
            tally.add(part / rounds, value)
            by_draw = by_draw + np.multiply.outer(value.by_draw, part)
        return np.asarray(by_draw)

    def value(self, kept: Mask) -> Value:
        """Draw the replaced values and compute the losses. A donor's error: its rows' mean change."""
        setup, weight = self.setup, self.setup.sample.weight
        base = setup.sample.loss
        assert base is not None  # every game of a request has a loss
        if kept.all():
            return self._without_draws(base, np.zeros(setup.n))
        if not kept.any() and self.gain is not None:  # over all pairs
            others = 1 - weight if self.design.leaves_out_own else 1.0
            return self._without_draws(base + self.gain.by_row / others, self.gain.by_donor / others)
        columns = [j for player, k in zip(setup.players, kept, strict=True) if not k for j in player.feature.columns]
        names = sorted(player.feature.name for player, k in zip(setup.players, kept, strict=True) if k)
        rng = np.random.default_rng([self.entropy, 17, *"\0".join(names).encode()])  # independent of the column order
        drawn = self.design.draw_values(columns, rng, m=self.m)
        losses = drawn_losses(setup, columns, drawn, setup.counter)
        weights = draw_weights(drawn, weight)
        no_donor = weights.sum(axis=0) == 0  # these rows keep their loss
        losses[:, no_donor], weights[:, no_donor] = base[no_donor], 1.0
        by_row = (weights * losses).sum(axis=0) / weights.sum(axis=0)
        filled = np.where(weights > 0, losses, by_row) @ weight
        by_donor = None if drawn.alone else _donor_deviations(losses - by_row, drawn.donors.T, weights * weight)
        by_draw = np.append(filled, np.full(self.m - len(filled), filled.mean()))
        return Value(float(weight @ by_row), by_row, by_donor, by_draw=by_draw)

    def _without_draws(self, by_row: Floats, by_donor: Floats) -> Value:
        weight = self.setup.sample.weight
        total = weight @ by_row
        return Value(float(total), by_row, by_donor - weight @ by_donor, by_draw=np.full(self.m, total))


def _donor_deviations(losses: Floats, donors: Indices, counts: Floats) -> Floats:
    """The mean deviation of losses by donor; losses are centred by row, so that row effects are no donor's."""
    n, of_draw = losses.shape[1], np.maximum(donors, 0).ravel()
    counts = np.where(donors < 0, 0.0, counts).ravel()
    mass = np.bincount(of_draw, counts, n)
    total = np.bincount(of_draw, counts * losses.ravel(), n)
    return np.divide(total, mass, out=np.zeros(n), where=mass > 0)


def drawn_losses(setup: GameSetup, columns: Sequence[int], drawn: DrawnValues, tick: Tick) -> Floats:
    """The losses of all rows with drawn values, one draw after the other, (m, n)."""
    mixer = setup.mixer
    assert mixer is not None
    n, m = drawn.donors.shape
    batch, losses = Batch(mixer.table), np.empty((m, n))
    own = {j: mixer.table.column(j) for j in columns if j not in drawn.sources}
    for k in range(m):
        donor = np.where(drawn.donors[:, k] < 0, np.arange(n), drawn.donors[:, k])
        for start in range(0, n, mixer.batch_rows):
            rows = np.arange(start, min(start + mixer.batch_rows, n))
            edits = [
                Edit(0, len(rows), j, drawn.sources[j], (k + 1) * n + rows) if j in drawn.sources
                else Edit(0, len(rows), j, own[j], donor[rows])
                for j in columns
            ]  # fmt: skip
            losses[k, rows] = setup.losses(rows, mixer.respond(batch.fill(rows, edits)))
            tick(len(rows))
    return losses


def draw_weights(drawn: DrawnValues, weight: Floats) -> Floats:
    """The weight of each draw, (m, n): that of its donor; 0 where there is no donor."""
    donors = drawn.donors.T
    return np.where(donors < 0, 0.0, 1.0 if drawn.alone else weight[donors])
