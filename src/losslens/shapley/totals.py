"""Ways that know the error of a coalition over all pairs, but nothing of single rows: squared losses of trees and of
sums of products. All coalitions, or, where these are too many, those along some orders."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from losslens import game_theory
from losslens.donors.designs import Latin
from losslens.engines.base import coalition_count
from losslens.progress import ProgressBar
from losslens.results.shapley import Shares, monte_carlo_error
from losslens.shapley.allotment import Allotment, Cost, all_pairs, own_donors
from losslens.shapley.by_engine import EngineWay
from losslens.shapley.coalitions import Orders, mean_along, share_all, without_and_with_all
from losslens.shapley.games import Value
from losslens.shapley.request import Request
from losslens.shapley.setup import GameSetup, full_gain
from losslens.shapley.stopping import StoppingRule, joint_reach
from losslens.shapley.walk_kinds import sampling_error
from losslens.text import size_in_words
from losslens.typing import Floats, Mask

FEW_DONORS = 6  # a row, where single pairs are looked at for the sampling error alone
MOST_CELLS = 4e8  # pairs times coalitions that are looked at for it: some seconds
FEWEST_CIRCLES = 8  # of orders, before their error is looked at
PRECISE = 0.005  # of the whole: orders are drawn until the Monte-Carlo error is below


@dataclass(frozen=True, eq=False)
class TotalGame:
    """Errors over all pairs from an engine that needs none of them; a coalition and its complement come together."""

    both: Callable[[Mask], tuple[float, float]]
    known: dict[bytes, float] = field(default_factory=dict)

    def values(self, kept: Mask) -> Iterator[Value]:
        """Coalition by coalition, each once."""
        for S in kept:
            if S.tobytes() not in self.known:
                self.known[S.tobytes()], self.known[(~S).tobytes()] = self.both(S)
            yield Value(self.known[S.tobytes()])


class ProductTotals(EngineWay):
    """All coalitions of a sum of products."""

    name = "product totals"
    words = "all coalitions' totals, from the kernel's factors; no single rows"
    operations = "multiply-adds"
    most = 2e12
    absent = (
        "totals of coalitions need no pairs; raise budget= to let the model predict the pairs, or use method='walk'"
    )

    def run(self, request: Request, setup: GameSetup, progress: ProgressBar) -> Allotment:
        """Totals, and what single rows gain by all players together."""
        progress.set_total(1 << setup.p)
        found = share_all(setup, self.game(request, setup, progress), all_pairs(setup.n))
        remark = "the sampling error is not known: nothing is of single rows"
        return replace(found, gains=_gains(setup), absent=self.absent, remarks=(*found.remarks, remark))

    def game(self, request: Request, setup: GameSetup, progress: ProgressBar) -> TotalGame:
        """Totals of coalitions, from the engine."""
        return TotalGame(request.task.games.total_errors(setup.sample, request.loss, progress))


class TreeTotals(ProductTotals):
    """All coalitions of trees."""

    name = "tree totals"
    words = "all coalitions' totals, from the leaves; no single rows"
    operations = "word operations"
    most, most_on_device = 4e11, 1e14
    uses_device = True

    def affordable(self, request: Request) -> float:
        """Word operations, here or on the device."""
        return self.most if request.task.device is None else self.most_on_device

    def run(self, request: Request, setup: GameSetup, progress: ProgressBar) -> Allotment:
        """Totals, and the sampling error of a few pairs."""
        progress.set_total(1 << (setup.p - int(setup.covers_table)))  # a coalition comes with its complement
        found = share_all(setup, self.game(request, setup, progress), all_pairs(setup.n))
        found = replace(found, gains=_gains(setup), absent=_what_rows_take(setup.n, setup.p))
        return _with_sampling_error(found, request, setup, request.generator())


class TreeOrders(TreeTotals):
    """Exact totals along random circles of players: the only noise is in the orders."""

    name = "tree orders"
    words = "orders of exact totals; no single rows"
    exact = False

    def cost(self, request: Request) -> Cost | None:
        """Enough circles of orders to see their error, p (p - 1) / 2 coalitions each."""
        circle = request.engine_work.get(self.name)
        if circle is None:
            return None
        return Cost(FEWEST_CIRCLES * max(1.0, circle), self.operations, 4 * self.affordable(request))

    def run(self, request: Request, setup: GameSetup, progress: ProgressBar) -> Allotment:
        """Totals, and the sampling error of a few pairs."""
        rng = request.generator()
        most = int(4 * self.affordable(request) / max(1.0, request.engine_work[self.name]))
        rule = StoppingRule(None, request.wanted.precision)
        found = self._share(setup, self.game(request, setup, progress), most, rule, rng, progress)
        found = replace(found, gains=_gains(setup), absent=_what_rows_take(setup.n, setup.p))
        return _with_sampling_error(found, request, setup, rng)

    def _share(
        self, setup: GameSetup, game: TotalGame, most: int, rule: StoppingRule, rng: np.random.Generator,
        progress: ProgressBar,
    ) -> Allotment:  # fmt: skip
        nothing, everything = without_and_with_all(game, setup.p)
        rounds: list[Floats] = []
        total, complete, precise = nothing - everything, True, False
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
        short = "the most work of a call ended it before the precision was reached"
        return Allotment(
            sfimp=orders.mean, method="orders of exact totals", design=f"{2 * setup.p * len(rounds):,} orders",
            exact=False, error_none=nothing, monte_carlo_error=orders.std_error, freedom=orders.freedom,
            complete=complete, remarks=(short,) if complete and width and not precise else (),
        )  # fmt: skip


def _is_precise(rounds: list[Floats], total: float, width: float | None, progress: ProgressBar) -> bool:
    """Whether the orders are; after every fourth round, so that looking often does not make a lucky look."""
    if len(rounds) < FEWEST_CIRCLES or len(rounds) % 4:
        return False
    orders = Orders(np.array(rounds))
    widest = float(orders.std_error.max())
    if total:
        progress.note(f"± {1.96 * widest / abs(total):.2%} of the whole")
    if width:
        return joint_reach(orders.rounds.shape[1], orders.freedom) * widest <= width
    return widest <= PRECISE * abs(total)


def _with_sampling_error(found: Allotment, request: Request, setup: GameSetup, rng: np.random.Generator) -> Allotment:
    """The sampling error of totals, from a few pairs of each row whose shares are looked at one by one."""
    n, p, m = setup.n, setup.p, min(FEW_DONORS, setup.n)
    if p > 24 or n * m * 2.0**p > MOST_CELLS or m < 3:
        return replace(found, remarks=(*found.remarks, "the sampling error is not known: single rows are too dear"))
    donors, rows = Latin(m).draw(n, rng), np.repeat(np.arange(n), m)
    cells = request.task.games.shares_of_pairs(
        setup.sample, request.loss, rows, donors.ravel(), request.task.n_jobs
    ).reshape(n, m, p)
    shares = Shares(cells.mean(axis=1), None, own_donors(donors), cells)
    drawn = monte_carlo_error(shares, setup.sample, np.arange(n))
    return replace(found, sampling=sampling_error(setup, shares, drawn))


def _gains(setup: GameSetup) -> Floats | None:
    gain = full_gain(setup)
    return None if gain is None else gain.by_row


def _what_rows_take(n: int, p: int) -> str:
    """What it would take to know single rows where only totals are affordable."""
    cells = n * (n - 1) / 2 * coalition_count(p)
    return (
        f"the totals of coalitions need no pairs; single rows would take {cells:.2g} cells of pairs and coalitions. "
        f"Explain fewer rows, or use method='walk' (its results take {size_in_words(40 * n * p)} a sweep)"
    )
