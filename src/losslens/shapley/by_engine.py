"""Ways that use an exact engine: a closed form, or all coalitions inside trees."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from losslens import game_theory
from losslens.engines.base import coalition_count
from losslens.engines.choice import CHECKED
from losslens.progress import ProgressBar, Tick
from losslens.results.shapley import Shares
from losslens.shapley.allotment import Allotment, Cost, Way, all_pairs
from losslens.shapley.coalitions import MOST_PLAYERS, share_all
from losslens.shapley.games import Game, Value
from losslens.shapley.request import Request
from losslens.shapley.setup import GameSetup
from losslens.tables.sample import chunks
from losslens.typing import Floats, Mask

EXACT_FACTOR = 16  # times the usual limit with method='exact'
CELLS_AT_ONCE = 1 << 18  # pairs times coalitions in memory at a time


class EngineWay(Way):
    """Applies where the exact engine offers a way of this name."""

    unit = "coalitions"
    exact, by_model = True, False
    operations: ClassVar[str]  # what the engine counts as its cost
    limit: ClassVar[float]  # operations of about half a minute

    def cost(self, request: Request) -> Cost | None:
        """As the engine counts; None for more players than a table of coalitions allows."""
        operations = request.engine_work.get(self.name)
        if operations is None or request.p > MOST_PLAYERS:
            return None
        more = EXACT_FACTOR if request.settings.method == "exact" else 1
        return Cost(operations, self.operations, more * self.limit)

    def predictions(self, request: Request) -> tuple[int, int]:
        """Rows on which the engine is compared with the model."""
        return (min(request.n, CHECKED),) * 2


class ClosedForm(EngineWay):
    """Squared loss of a sum: ``phi_j(i, k) = (c_ij - c_kj) (2 r_i + C_i - C_k)``, c centred, C their sum, r = y - f."""

    name = words = "closed form"
    unit = operations = "predictions"
    quick = np.inf
    pairs = True

    def cost(self, request: Request) -> Cost | None:
        """No operations worth counting."""
        return Cost(0.0, self.operations) if self.name in request.engine_work else None

    def run(self, request: Request, setup: GameSetup, progress: ProgressBar) -> Allotment:
        """Shares of rows, donors and pairs."""
        sample, weight = setup.sample, setup.sample.weight
        parts = request.task.games.contributions(weight)[:, :, 0]
        total, residual = parts.sum(axis=1), np.asarray(sample.y, float) - sample.prediction
        reach = 2 * residual + total
        # Replacing j and l adds 2 d_j d_l to a pair's loss, d = c_i - c_k: the mean is 4 cov(c_j, c_l).
        index = np.zeros((setup.p, setup.p))
        for some in chunks(request.task.every, setup.p):
            index -= 4 * (parts[some] * weight[some, None]).T @ parts[some]
        cells = None
        if request.keeps_pairs(setup.n):
            gaps = parts[:, None] - parts
            cells = gaps * (reach[:, None] - total)[:, :, None]
        local = parts * reach[:, None]
        local += (weight * total) @ parts
        sfimp, lent = weight @ local, (weight * reach) @ parts
        parts *= (total - weight @ reach)[:, None]  # from here on what a row causes as a donor: not held twice
        parts += lent
        np.fill_diagonal(index, 0.0)
        return Allotment(
            sfimp=sfimp, method="closed form", error_none=sample.error + float(sfimp.sum()),
            shares=Shares(local, parts, all_pairs(setup.n), cells), gains=local.sum(axis=1),
            monte_carlo_error=np.zeros(setup.p), index=index,
        )  # fmt: skip


class TreePairs(EngineWay):
    """All coalitions of all pairs, inside the trees, for any loss."""

    name = "tree pairs"
    words = "all coalitions of all pairs, inside the trees"
    unit = "cells"
    operations = "cells of pairs and coalitions"
    limit, quick = 4e9, 2e8
    pairs = True

    def run(self, request: Request, setup: GameSetup, progress: ProgressBar) -> Allotment:
        """Shares of rows, donors and, where memory allows, pairs."""
        progress.set_total(request.task.games.pair_work)
        shares = request.task.games.pair_shares(
            setup.sample, request.loss, keep_cells=request.keeps_pairs(setup.n),
            n_jobs=request.task.n_jobs, tick=progress,
        )  # fmt: skip
        return Allotment(
            sfimp=setup.sample.weight @ shares.local, method="all coalitions", error_none=float(shares.errors[0]),
            shares=Shares(shares.local, shares.caused, all_pairs(setup.n), shares.cells),
            gains=shares.local.sum(axis=1), table=shares.errors, monte_carlo_error=np.zeros(setup.p),
        )  # fmt: skip


class TreeMeans(TreePairs):
    """SAGE's game inside the trees: all coalitions of all pairs, averaged over the donors before the loss."""

    name = "tree means"
    pairs = False

    def run(self, request: Request, setup: GameSetup, progress: ProgressBar) -> Allotment:
        """Shares of rows; donors have none of their own."""
        n, p, weight, means = setup.n, setup.p, setup.sample.weight, self.means(request, setup)
        local, table = np.empty((n, p)), np.zeros(1 << p)
        progress.set_total(n)
        for i in range(n):
            losses = setup.losses(np.full(1 << p, i), means(i))
            local[i] = game_theory.values(losses)
            table += weight[i] * losses
            progress(1)
        return Allotment(
            sfimp=weight @ local, method="all coalitions", error_none=float(table[0]),
            shares=Shares(local, None, all_pairs(n)), gains=local.sum(axis=1), table=table,
            monte_carlo_error=np.zeros(p),
        )  # fmt: skip

    def means(self, request: Request, setup: GameSetup) -> Callable[[int], Floats]:
        """Mean predictions of a row over the donors, in all coalitions: a function of the row."""
        games, weight, donors = request.task.games, setup.sample.weight, np.arange(setup.n)
        step = max(1, CELLS_AT_ONCE >> setup.p)

        def of(i: int) -> Floats:
            mean: Floats | float = 0.0
            for start in range(0, setup.n, step):
                part = slice(start, start + step)
                predictions = games.pair_predictions(np.full(len(donors[part]), i), donors[part])
                mean = mean + np.tensordot(weight[part] / weight.sum(), predictions, 1)
            return np.asarray(mean)

        return of


class LeafMeans(TreeMeans):
    """The same where predictions are sums of leaves: so are their means over donors."""

    name = "leaf means"
    words = "all coalitions, from the leaves"
    operations = "terms of leaves and coalitions"

    def means(self, request: Request, setup: GameSetup) -> Callable[[int], Floats]:
        """From the weights of donors at each leaf."""
        means: Callable[[int], Floats] = request.task.games.mean_predictions(setup.sample.weight)
        return means


class SumMeans(ClosedForm):
    """SAGE's game of a sum, squared loss: ``phi_j(i) = c_ij (2 (y_i - mean f) - C_i)``, c centred, C their sum."""

    name = "means of sums"
    pairs = False

    def run(self, request: Request, setup: GameSetup, progress: ProgressBar) -> Allotment:
        """Shares of rows; donors have none of their own."""
        sample, weight = setup.sample, setup.sample.weight
        parts = request.task.games.contributions(weight)[:, :, 0]
        total = parts.sum(axis=1)
        reach = 2 * (np.asarray(sample.y, float) - sample.prediction) + total  # f = its mean + C
        index = -2 * (parts * weight[:, None]).T @ parts  # j and l together: (c_j + c_l)^2 has 2 c_j c_l
        np.fill_diagonal(index, 0.0)
        parts *= reach[:, None]
        sfimp = weight @ parts
        return Allotment(
            sfimp=sfimp, method="closed form", error_none=sample.error + float(sfimp.sum()),
            shares=Shares(parts, None, all_pairs(setup.n)), gains=parts.sum(axis=1),
            monte_carlo_error=np.zeros(setup.p), index=index,
        )  # fmt: skip


class SingleTree(EngineWay):
    """All coalitions of a single tree: rows and donors in closed form, for any loss."""

    name = "single tree"
    words = "all coalitions, from the leaves"
    operations = "rows and coalitions"
    limit, quick = 3e8, 3e6

    def run(self, request: Request, setup: GameSetup, progress: ProgressBar) -> Allotment:
        """Shares of rows and donors."""
        progress.set_total(1 << setup.p)
        return share_all(setup, self.game(request, setup, progress), all_pairs(setup.n))

    def game(self, request: Request, setup: GameSetup, tick: Tick) -> Game:
        """Errors of rows and donors, from the engine."""
        return _RowGame(request.task.games.row_errors(setup.sample, request.loss), setup.sample.weight, tick)

    def coalitions(self, request: Request) -> float:
        """All of them."""
        return coalition_count(request.p)


@dataclass(frozen=True, eq=False)
class _RowGame:
    """Mean errors of rows and of donors over all pairs, from an engine."""

    errors: Callable[[Mask], tuple[Floats, Floats]]
    weight: Floats
    tick: Tick

    def values(self, kept: Mask) -> Iterator[Value]:
        for S in kept:
            self.tick(1)
            by_row, by_donor = self.errors(S)
            yield Value(float(self.weight @ by_row), by_row, by_donor)
