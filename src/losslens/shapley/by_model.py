"""Ways that let the model predict mixed rows: all coalitions, walks, and the paper's algorithm."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import ceil
from typing import Any

import numpy as np

from losslens.donors.designs import Permutations
from losslens.donors.layout import Layout
from losslens.game_theory import random_orders
from losslens.progress import ProgressBar
from losslens.results.shapley import ShapleyImportance
from losslens.shapley import walks
from losslens.shapley.coalitions import cost_by_model, count_predictions, mean_along, over_rounds, share_all
from losslens.shapley.games import MeanGame, PairGame, Remembered, Value
from losslens.shapley.loss_walks import LossWalk, latin_shifts
from losslens.shapley.mean_walks import MeanWalk
from losslens.shapley.request import BACKGROUND, Request
from losslens.shapley.setup import GameSetup
from losslens.shapley.stopping import MOST_PREDICTIONS, Paper
from losslens.shapley.walks import SWEEP_BYTES
from losslens.shapley.way import Cost, all_pairs, own_donors, result
from losslens.typing import Mask

MIN_SWEEPS_AND_WALKS = 5, 2000  # from single donors, before the first stopping decision
TOTAL_ESTIMATED = "the total is estimated: the mean gain over the drawn pairs"
FEW_DONORS = "{:,} donors were drawn for all rows; standard errors do not include this draw"
MIN_FROM_ALL_DONORS = 4, 200  # the same from all donors: each step takes one prediction per donor


def as_predicted(predictions: Callable[[Request], tuple[int, int]]) -> Callable[[Request], Cost]:
    """The cost of a way without a limit: the fewest rows that the model predicts."""
    return lambda request: Cost(predictions(request)[0], "predictions")


# All coalitions of all pairs, or of drawn pairs.


def coalition_predictions(request: Request) -> tuple[int, int]:
    """Equal values of the replaced players are predicted once for each row, complements once for both."""
    rows = count_predictions(request.players, request.n, request.donors_a_row, request.covers_table, request.mirrors)
    return int(rows), int(rows)


def coalition_cost(request: Request) -> Cost:
    """Predictions, within the budget."""
    settings = request.settings
    return cost_by_model(
        request.players, request.n, request.donors_a_row, request.covers_table, settings.budget,
        wants_exact=settings.algorithm == "exact", mirrors=request.mirrors,
    )  # fmt: skip


def coalitions(request: Request, setup: GameSetup, progress: ProgressBar) -> ShapleyImportance:
    """Shares of rows, donors and, where memory allows, pairs."""
    progress.set_total(coalition_predictions(request)[1])
    design, donors, words = request.task.design, None, "all pairs"
    pairs: Layout = all_pairs(setup.n)
    if design is not None and not request.all_pairs:
        donors, words = request.draw_donors(request.generator()), repr(design)
        pairs = own_donors(donors, repeats=design.repeats, leaves_out_own=design.leaves_out_own)
    keeps = request.keeps_pairs(setup.n if donors is None else donors.shape[1])
    game = PairGame(setup, donors, keeps, pairs.leaves_out_own, mirrors=request.mirrors)
    means = MeanGame(game) if request.averages_predictions else game
    return share_all(setup, means, pairs, keeps=keeps, design=words)


# Walks from donors to rows, until the stopping rule is met.


def walk_predictions(request: Request) -> tuple[int, int]:
    """Those of the first sweeps, and as many as the budget allows."""
    n, settings = request.n, request.settings
    sweep = _sweep_cost(request, min(request.donors_a_row, BACKGROUND) if request.averages_predictions else 1)
    if settings.budget is not None and settings.precision is None:
        return (n + (settings.budget - n) // max(1, sweep) * sweep,) * 2
    fewest = n + _first_sweeps(request) * sweep
    if not request.all_pairs:
        return fewest, fewest
    return fewest, max(settings.budget or MOST_PREDICTIONS, fewest)


def walk_bytes(request: Request) -> int:
    """Of the first sweeps."""
    return SWEEP_BYTES * request.n * request.p * _first_sweeps(request)


def _first_sweeps(request: Request) -> int:
    return min_sweeps(request) if request.all_pairs else request.donors_a_row


def min_sweeps(request: Request) -> int:
    """Sweeps before the first stopping decision: min_walks to estimate the variance of the walks."""
    sweeps, min_walks = MIN_FROM_ALL_DONORS if request.averages_predictions else MIN_SWEEPS_AND_WALKS
    return max(sweeps, ceil(min_walks / request.n))


def _sweep_cost(request: Request, donors: int) -> int:
    """Predictions of a sweep. Both ends of a walk are predicted already, unless some columns are always kept."""
    return request.n * (request.p - int(request.covers_table)) * donors


def by_walks(request: Request, setup: GameSetup, progress: ProgressBar) -> ShapleyImportance:
    """Shares of rows, donors and the pairs that were drawn."""
    walk = _walk(request, setup)
    walked = walks.run(walk, progress)
    sweeps, remarks = f"{len(walked.sweeps):,} sweeps", []
    if isinstance(walk, MeanWalk):
        donors = len(walk.donors)
        if donors < int(np.sum(setup.sample.weight > 0)):
            remarks = [FEW_DONORS.format(donors)]
        return walk.result(walked, f"{sweeps} of walks from {donors:,} donors", remarks)
    if walk.gain is None:
        remarks = [TOTAL_ESTIMATED]
    words = "of Latin walks" if request.all_pairs else f"of walks, {request.task.design!r}"
    return walk.result(walked, f"{sweeps} {words}", remarks)


def _walk(request: Request, setup: GameSetup) -> LossWalk | MeanWalk:
    """The kind of walks, and when they end."""
    design, settings, rng = request.task.design, request.settings, request.generator()
    shared: dict[str, Any] = {
        "setup": setup, "rng": rng, "settings": settings, "memory": request.task.budget.memory // 2,
        "fewest": min_sweeps(request),
    }  # fmt: skip
    if request.averages_predictions:
        background = request.draw_background(rng)
        return MeanWalk(**shared, cost=_sweep_cost(request, len(background)), donors=background)
    leaves_out_own, fixed = request.leaves_out_own, None
    donors = latin_shifts(setup.n, rng, leaves_out_own=leaves_out_own)
    if not request.all_pairs:
        drawn = request.draw_donors(rng)
        donors, fixed = iter(drawn.T), drawn.shape[1]
        if settings.budget is not None:
            raise ValueError(f"donors={design!r} fixes the number of sweeps; leave out budget=")
    return LossWalk(
        **shared, fixed_sweeps=fixed, cost=_sweep_cost(request, 1), donors=donors, leaves_out_own=leaves_out_own,
        both_ways=request.all_pairs and setup.covers_table,
    )  # fmt: skip


# The paper's algorithm.


def paper_predictions(request: Request) -> tuple[int, int]:
    """Orders may share coalitions, or not."""
    n, p, paper = request.n, request.p, _settings(request)
    distinct = min(paper.m_feat * (p - 1), 2**p - 2)
    return n + n * (p - 1) * paper.m_obs, n + distinct * n * paper.m_obs


def paper_orders(request: Request, setup: GameSetup, progress: ProgressBar) -> ShapleyImportance:
    """Orders of features, and new permutations of rows for each coalition along them: means over all rows."""
    paper, rng = _settings(request), request.generator()
    progress.set_total(paper_predictions(request)[1])
    game = Remembered(_FreshPairs(setup, paper.m_obs, rng))
    rounds = [mean_along(game, order[None]) for order in random_orders(paper.m_feat, setup.p, rng)]
    sfimp, error = over_rounds(rounds)
    nothing = next(iter(game.values(np.zeros((1, setup.p), bool)))).total
    return result(
        setup, sfimp, "the paper's algorithm", exact=False, error_none=nothing,
        design=f"{paper.m_feat} orders and {paper.m_obs} permutations", monte_carlo_error=error,
        freedom=float(len(rounds) - 1), absent="the paper's algorithm averages over rows; use method='walk'",
        remarks=("the Monte-Carlo error is that of the orders; the permutations of rows add to it",),
    )  # fmt: skip


def _settings(request: Request) -> Paper:
    paper = request.settings.method
    assert isinstance(paper, Paper)  # else this way is not chosen
    return paper


@dataclass(frozen=True, eq=False)
class _FreshPairs:
    """Each coalition has its own permutations of the donors."""

    setup: GameSetup
    m: int
    rng: np.random.Generator

    def values(self, kept: Mask) -> Iterator[Value]:
        for S in kept:
            yield from PairGame(self.setup, Permutations(self.m).draw(self.setup.n, self.rng)).values(S[None])
