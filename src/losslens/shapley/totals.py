"""Ways that compute the error of a coalition over all pairs, but not of single rows: squared losses of trees and of
sums of products. All coalitions, or, where these are too many, those along some orders."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from losslens import game_theory
from losslens.donors.designs import Latin
from losslens.engines.base import coalition_count
from losslens.progress import ProgressBar, Tick
from losslens.results.shapley import Shares, monte_carlo_error
from losslens.shapley.allotment import Allotment, Cost, all_pairs, own_donors
from losslens.shapley.by_engine import EngineWay
from losslens.shapley.coalitions import Orders, mean_along, share_all, without_and_with_all
from losslens.shapley.games import Value
from losslens.shapley.request import Request
from losslens.shapley.setup import GameSetup, full_gain
from losslens.shapley.stopping import StoppingRule, joint_quantile
from losslens.shapley.walk_kinds import sampling_error
from losslens.text import size_in_words
from losslens.typing import Floats, Mask

SAMPLED_DONORS = 6  # of a row, for the sampling error
MOST_CELLS = 4e8  # pairs times coalitions for the sampling error: a few seconds
MIN_CIRCLES = 8  # of orders, before their Monte-Carlo error is estimated
USUAL_CIRCLES = 10  # until they are precise, most of the time
PRECISE = 0.005  # of the total: orders are drawn until the Monte-Carlo error is below


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
    limit = 2e12
    absent = "only totals were computed; raise budget= to let the model predict the pairs, or use method='walk'"

    def run(self, request: Request, setup: GameSetup, progress: ProgressBar) -> Allotment:
        """Totals, and each row's gain from all players."""
        progress.set_total(1 << setup.p)
        allotment = share_all(setup, self.game(request, setup, progress), all_pairs(setup.n))
        remark = "the sampling error is unknown: single rows have no shares"
        return replace(allotment, gains=_gains(setup), absent=self.absent, remarks=(*allotment.remarks, remark))

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
    limit, limit_on_device = 4e11, 1e14
    uses_device = True

    def affordable(self, request: Request) -> float:
        """Word operations, on the CPU or on the device."""
        return self.limit if request.task.device is None else self.limit_on_device

    def run(self, request: Request, setup: GameSetup, progress: ProgressBar) -> Allotment:
        """Totals, and the sampling error of a few pairs."""
        progress.set_total(1 << (setup.p - int(setup.covers_table)))  # a coalition and its complement count once
        allotment = share_all(setup, self.game(request, setup, progress), all_pairs(setup.n))
        allotment = replace(allotment, gains=_gains(setup), absent=_why_no_rows(setup.n, setup.p))
        return _with_sampling_error(allotment, request, setup, request.generator())


class TreeOrders(TreeTotals):
    """Exact totals along cyclic orders: the orders are the only source of noise."""

    name = "tree orders"
    words = "orders of exact totals; no single rows"
    exact = False

    def cost(self, request: Request) -> Cost | None:
        """Enough circles of orders to estimate their error, p (p - 1) / 2 coalitions each."""
        circle = request.engine_work.get(self.name)
        if circle is None:
            return None
        return Cost(MIN_CIRCLES * max(1.0, circle), self.operations, 4 * self.affordable(request))

    def coalitions(self, request: Request) -> float:
        """Those of as many circles as most models need."""
        return USUAL_CIRCLES * request.p * (request.p - 1) / 2

    def run(self, request: Request, setup: GameSetup, progress: ProgressBar) -> Allotment:
        """Totals, and the sampling error of a few pairs."""
        rng = request.generator()
        most = int(4 * self.affordable(request) / max(1.0, request.engine_work[self.name]))
        rule = StoppingRule(None, request.settings.precision)
        allotment = self._share(setup, self.game(request, setup, progress), most, rule, rng, progress)
        allotment = replace(allotment, gains=_gains(setup), absent=_why_no_rows(setup.n, setup.p))
        return _with_sampling_error(allotment, request, setup, rng)

    def _share(
        self, setup: GameSetup, game: TotalGame, most: int, rule: StoppingRule, rng: np.random.Generator,
        progress: ProgressBar,
    ) -> Allotment:  # fmt: skip
        empty, full = without_and_with_all(game, setup.p)
        rounds: list[Floats] = []
        total, complete, precise = empty - full, True, False
        width = rule.half_width(total, 0.0)
        try:
            while len(rounds) < most and not precise:
                rounds.append(mean_along(game, game_theory.circle(setup.p, rng)))
                precise = _is_precise(rounds, total, width, progress)
        except KeyboardInterrupt:
            if len(rounds) < 2:
                raise
            complete = False
        orders = Orders(np.array(rounds))
        short = "stopped at the limit on operations, before the precision was reached"
        return Allotment(
            sfimp=orders.mean, method="orders of exact totals", design=f"{2 * setup.p * len(rounds):,} orders",
            exact=False, error_none=empty, monte_carlo_error=orders.std_error, freedom=orders.freedom,
            complete=complete, remarks=(short,) if complete and width and not precise else (),
        )  # fmt: skip


def _is_precise(rounds: list[Floats], total: float, width: float | None, progress: ProgressBar) -> bool:
    """Whether the orders are precise; checked every fourth round only, so that early stopping by chance is rare."""
    if len(rounds) < MIN_CIRCLES or len(rounds) % 4:
        return False
    orders = Orders(np.array(rounds))
    widest = float(orders.std_error.max())
    if total:
        progress.note(f"± {1.96 * widest / abs(total):.2%} of the total")
    if width:
        return joint_quantile(orders.rounds.shape[1], orders.freedom) * widest <= width
    return widest <= PRECISE * abs(total)


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


def _gains(setup: GameSetup) -> Floats | None:
    gain = full_gain(setup)
    return None if gain is None else gain.by_row


def _why_no_rows(n: int, p: int) -> str:
    """Why there are no shares of single rows, and what they would take."""
    cells = n * (n - 1) / 2 * coalition_count(p)
    return (
        f"only totals of coalitions were computed; single rows would take {cells:.2g} cells of pairs and coalitions. "
        f"Explain fewer rows, or use method='walk' (its results take {size_in_words(40 * n * p)} a sweep)"
    )
