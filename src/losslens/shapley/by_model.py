"""Ways in which the model predicts mixed rows: all coalitions, walks, and the paper's algorithm."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil

import numpy as np

from losslens.donors.designs import Permutations
from losslens.donors.layout import Layout
from losslens.game_theory import random_orders
from losslens.progress import ProgressBar
from losslens.shapley import walks
from losslens.shapley.allotment import Allotment, Cost, Way, all_pairs, own_donors
from losslens.shapley.coalitions import Orders, cost_by_model, count_predictions, mean_along, share_all
from losslens.shapley.games import MeanGame, PairGame, Remembered, Value
from losslens.shapley.request import BACKGROUND, Request
from losslens.shapley.setup import GameSetup
from losslens.shapley.stopping import MOST_PREDICTIONS, StoppingRule
from losslens.shapley.walk_kinds import SWEEP_BYTES, LossWalk, MeanWalk, latin_shifts
from losslens.typing import Mask

FEWEST = 5, 2000  # sweeps and walks from single donors before anything is decided
FEWEST_MEAN = 4, 200  # the same from all donors: a walk is as many predictions as there are donors


class ModelWay(Way):
    """Any model, any loss."""

    unit = "predictions"
    exact, by_model = False, True

    def cost(self, request: Request) -> Cost | None:
        """Always affordable."""
        return Cost(self.predictions(request)[0], self.unit)


class Coalitions(ModelWay):
    """All coalitions of all pairs, or of drawn ones."""

    name = "coalitions"
    words = "all coalitions, by the model"
    exact = True

    def predictions(self, request: Request) -> tuple[int, int]:
        """A row meets no more values of the replaced players than there are."""
        return (int(count_predictions(request.players, request.n, request.donors_a_row, request.covers_table)),) * 2

    def cost(self, request: Request) -> Cost | None:
        """Predictions, within the budget."""
        wanted = request.wanted
        return cost_by_model(
            request.players, request.n, request.donors_a_row, request.covers_table, wanted.budget,
            wants_exact=wanted.method == "exact",
        )  # fmt: skip

    def run(self, request: Request, setup: GameSetup, progress: ProgressBar) -> Allotment:
        """Rows, donors and, where there is room, pairs."""
        design, donors = request.task.design, None
        progress.set_total(self.predictions(request)[1])
        if not request.all_pairs:
            donors = request.draw_donors(request.generator())
        width = setup.n if donors is None else donors.shape[1]
        keeps, leaves_out_own = request.keeps_pairs(width), False
        pairs: Layout = all_pairs(setup.n)
        if donors is not None:
            assert design is not None
            leaves_out_own = design.leaves_out_own
            pairs = own_donors(donors, repeats=design.repeats, leaves_out_own=leaves_out_own)
        played = PairGame(setup, donors, keeps, leaves_out_own)
        game = MeanGame(played) if request.averages_predictions else played
        return share_all(setup, game, pairs, keeps=keeps, design="all pairs" if donors is None else repr(design))


class Walks(ModelWay):
    """Walks from donors to rows, until they are exact enough."""

    name = words = "walks"

    def predictions(self, request: Request) -> tuple[int, int]:
        """Sweeps before anything is decided, and as many as the budget allows."""
        n, wanted = request.n, request.wanted
        sweep = self._sweep_cost(request, min(request.donors_a_row, BACKGROUND) if request.averages_predictions else 1)
        if wanted.budget is not None and wanted.precision is None:
            return (n + (wanted.budget - n) // max(1, sweep) * sweep,) * 2
        fewest = n + self._first_sweeps(request) * sweep
        if not request.all_pairs:
            return fewest, fewest
        return fewest, max(wanted.budget or MOST_PREDICTIONS, fewest)

    def kept_bytes(self, request: Request) -> int:
        """The first sweeps."""
        return SWEEP_BYTES * request.n * request.p * self._first_sweeps(request)

    def _first_sweeps(self, request: Request) -> int:
        return self._fewest(request) if request.all_pairs else request.donors_a_row

    def _fewest(self, request: Request) -> int:
        """Enough to tell rows and donors from noise, and walks enough for their variance."""
        sweeps, enough = FEWEST_MEAN if request.averages_predictions else FEWEST
        return max(sweeps, ceil(enough / request.n))

    def _sweep_cost(self, request: Request, donors: int) -> int:
        """Every step of every walk; both its ends are known, unless some columns are always kept."""
        return request.n * (request.p - int(request.covers_table)) * donors

    def run(self, request: Request, setup: GameSetup, progress: ProgressBar) -> Allotment:
        """Rows, donors and the pairs that were drawn."""
        if request.averages_predictions:
            return self._from_all_donors(request, setup, progress)
        design, wanted, rng = request.task.design, request.wanted, request.generator()
        leaves_out_own = request.leaves_out_own
        donors, sweeps = latin_shifts(setup.n, rng, leaves_out_own=leaves_out_own), None
        words = "sweeps of Latin walks"
        if not request.all_pairs:
            drawn = request.draw_donors(rng)
            donors, sweeps, words = iter(drawn.T), drawn.shape[1], f"sweeps of walks, {design!r}"
            if wanted.budget is not None:
                raise ValueError(f"donors={design!r} says how many sweeps to walk; leave out budget=")
        walk = LossWalk(
            setup=setup, rng=rng, rule=StoppingRule(wanted.budget, wanted.precision, sweeps),
            memory=request.task.budget.memory // 2, cost=self._sweep_cost(request, 1), fewest=self._fewest(request),
            donors=donors, leaves_out_own=leaves_out_own,
        )  # fmt: skip
        walked = walks.run(walk, progress)
        remarks = [] if walk.gain is not None else ["the whole is the mean gain over the pairs that met"]
        return walk.allotment(walked, f"{len(walked.sweeps):,} {words}", remarks)

    def _from_all_donors(self, request: Request, setup: GameSetup, progress: ProgressBar) -> Allotment:
        rng, wanted = request.generator(), request.wanted
        donors = request.draw_background(rng)
        walk = MeanWalk(
            setup=setup, rng=rng, rule=StoppingRule(wanted.budget, wanted.precision),
            memory=request.task.budget.memory // 2, cost=self._sweep_cost(request, len(donors)),
            fewest=self._fewest(request), donors=donors,
        )  # fmt: skip
        walked = walks.run(walk, progress)
        remarks = []
        if len(donors) < int(np.sum(setup.sample.weight > 0)):
            remarks = [f"{len(donors):,} donors, drawn at random, stand for all rows: the errors leave that draw out"]
        design = f"{len(walked.sweeps):,} sweeps of walks from {len(donors):,} donors"
        return walk.allotment(walked, design, remarks)


WALKS = Walks()


class Paper(ModelWay):
    """The paper's algorithm: orders of features, and fresh permutations for the error of each coalition they meet."""

    name, words = "paper", "the paper's algorithm"

    def predictions(self, request: Request) -> tuple[int, int]:
        """Orders may meet the same coalitions, or different ones."""
        n, p, wanted = request.n, request.p, request.wanted
        distinct = min(wanted.orders * (p - 1), 2**p - 2)
        return n + n * (p - 1) * wanted.permutations, n + distinct * n * wanted.permutations

    def kept_bytes(self, request: Request) -> int:
        """As much as the first sweeps of walks."""
        return WALKS.kept_bytes(request)

    def run(self, request: Request, setup: GameSetup, progress: ProgressBar) -> Allotment:
        """Means over rows alone."""
        wanted, rng = request.wanted, request.generator()
        progress.set_total(self.predictions(request)[1])
        game = Remembered(_FreshPairs(setup, wanted.permutations, rng))
        rounds = [mean_along(game, order[None]) for order in random_orders(wanted.orders, setup.p, rng)]
        orders = Orders(np.array(rounds))
        nothing = next(iter(game.values(np.zeros((1, setup.p), bool)))).total
        return Allotment(
            sfimp=orders.mean, method="the paper's algorithm", exact=False, error_none=nothing,
            monte_carlo_error=orders.std_error, freedom=orders.freedom,
            design=f"{wanted.orders} orders and {wanted.permutations} permutations",
            absent="the paper's algorithm averages over rows; use method='walk'",
            remarks=("the Monte-Carlo error is that of the orders: the permutations of a coalition add to it",),
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class _FreshPairs:
    """Coalitions with permutations of their own."""

    setup: GameSetup
    m: int
    rng: np.random.Generator

    def values(self, kept: Mask) -> Iterator[Value]:
        for S in kept:
            yield from PairGame(self.setup, Permutations(self.m).draw(self.setup.n, self.rng)).values(S[None])
