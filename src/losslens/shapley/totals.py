"""Ways that compute the error of a coalition over all pairs, but not of single rows: squared losses of sums of
products, and of trees with columns that belong to no player (else `covariance` tells more)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from losslens.donors.designs import Latin
from losslens.engines.base import coalition_count
from losslens.progress import ProgressBar, Tick
from losslens.results.shapley import Shares, monte_carlo_error
from losslens.shapley.allotment import Allotment, all_pairs, own_donors
from losslens.shapley.by_engine import EngineWay
from losslens.shapley.coalitions import share_all
from losslens.shapley.games import Value
from losslens.shapley.request import Request
from losslens.shapley.setup import GameSetup, full_gain
from losslens.shapley.walk_kinds import sampling_error
from losslens.text import size_in_words
from losslens.typing import Mask

SAMPLED_DONORS = 6  # of a row, for the sampling error
MOST_CELLS = 4e8  # pairs times coalitions for the sampling error: a few seconds


@dataclass(frozen=True, eq=False)
class TotalGame:
    """Errors over all pairs from an engine that computes no pairs, of a coalition and its complement at once."""

    both: Callable[[Mask], tuple[float, float]]
    totals: dict[bytes, float] = field(default_factory=dict)

    def values(self, kept: Mask) -> Iterator[Value]:
        """Coalition by coalition, each computed once."""
        for S in kept:
            if S.tobytes() not in self.totals:
                self.totals[S.tobytes()], self.totals[(~S).tobytes()] = self.both(S)
            yield Value(self.totals[S.tobytes()])


class ProductTotals(EngineWay):
    """All coalitions of a sum of products."""

    name = "product totals"
    words = "all coalitions' totals, from the kernel's factors; no single rows"
    operations = "multiply-adds"
    limit = 1e11
    rows = False
    absent = "only totals were computed; raise budget= to let the model predict the pairs, or use method='walk'"

    def run(self, request: Request, setup: GameSetup, progress: ProgressBar) -> Allotment:
        """Totals, and each row's gain from all players."""
        progress.set_total(1 << setup.p)
        allotment = share_all(setup, self.game(request, setup, progress), all_pairs(setup.n))
        remark = "the sampling error is unknown: single rows have no shares"
        gain = full_gain(setup)
        gains = None if gain is None else gain.by_row
        return replace(allotment, gains=gains, absent=self.absent, remarks=(*allotment.remarks, remark))

    def game(self, request: Request, setup: GameSetup, tick: Tick) -> TotalGame:
        """Totals of coalitions, from the engine."""
        return TotalGame(request.task.games.total_errors(setup.sample, request.loss, tick))

    def coalitions(self, request: Request) -> float:
        """All of them, each with its complement."""
        return coalition_count(request.p) / 2


class TreeTotals(ProductTotals):
    """All coalitions of trees."""

    name = "tree totals"
    words = "all coalitions' totals, from the leaves; no single rows"
    operations = "word operations"
    limit = 4e11

    def run(self, request: Request, setup: GameSetup, progress: ProgressBar) -> Allotment:
        """Totals, and the sampling error of a few pairs."""
        progress.set_total(1 << setup.p)
        allotment = share_all(setup, self.game(request, setup, progress), all_pairs(setup.n))
        allotment = replace(allotment, absent=_why_no_rows(setup.n, setup.p))
        return _with_sampling_error(allotment, request, setup, request.generator())


def _with_sampling_error(
    allotment: Allotment, request: Request, setup: GameSetup, rng: np.random.Generator
) -> Allotment:
    """Add the sampling error, estimated from the shares of a few pairs of each row."""
    n, p, m = setup.n, setup.p, min(SAMPLED_DONORS, setup.n)
    if p > 24 or n * m * 2.0**p > MOST_CELLS or m < 3:
        return replace(
            allotment,
            remarks=(*allotment.remarks, "the sampling error is unknown: shares of single rows are too expensive"),
        )
    donors, rows = Latin(m).draw(n, rng), np.repeat(np.arange(n), m)
    cells = request.task.games.shares_of_pairs(
        setup.sample, request.loss, rows, donors.ravel(), request.task.n_jobs
    ).reshape(n, m, p)
    shares = Shares(cells.mean(axis=1), None, own_donors(donors), cells)
    noise = monte_carlo_error(shares, setup.sample, np.arange(n))
    return replace(allotment, sampling=sampling_error(setup, shares, noise))


def _why_no_rows(n: int, p: int) -> str:
    """Why there are no shares of single rows, and what they would take."""
    cells = n * (n - 1) / 2 * coalition_count(p)
    return (
        f"only totals of coalitions were computed; single rows would take {cells:.2g} cells of pairs and coalitions. "
        f"Explain fewer rows, or use method='walk' (its results take {size_in_words(40 * n * p)} a sweep)"
    )
