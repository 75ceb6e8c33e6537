"""Ways that use an exact engine and give single rows: a closed form, coalitions inside trees, or orders of means."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from losslens import game_theory
from losslens.engines.choice import CHECKED
from losslens.progress import ProgressBar
from losslens.results.shapley import ShapleyImportance, Shares
from losslens.shapley import walks
from losslens.shapley.by_model import FEW_DONORS, min_sweeps
from losslens.shapley.mean_walks import ExactMeanWalk
from losslens.shapley.request import Request
from losslens.shapley.setup import GameSetup
from losslens.shapley.way import Cost, all_pairs, result
from losslens.tables.sample import chunks
from losslens.typing import Floats

MOST_LEAVES = 1e9  # and sets of donors at them, in a sweep of walks
MOST_CELLS, QUICK_CELLS = 4e9, 2e8  # of pairs and coalitions inside trees: half a minute, and a second
EXACT_FACTOR = 16  # times the usual limit with method='exact'


def engine_cost(
    name: str, operations: str, limit: float = np.inf, players: float = np.inf
) -> Callable[[Request], Cost | None]:
    """The cost of a way, as the engine counts; None where it offers none of this name, or for more players."""

    def cost(request: Request) -> Cost | None:
        work = request.engine_work.get(name)
        if work is None or request.p > players:
            return None
        return Cost(work, operations, (EXACT_FACTOR if request.settings.algorithm == "exact" else 1) * limit)

    return cost


def checked_rows(request: Request) -> tuple[int, int]:
    """Rows on which the engine is compared with the model."""
    return (min(request.n, CHECKED),) * 2


def closed_form(request: Request, setup: GameSetup, progress: ProgressBar) -> ShapleyImportance:
    """Squared loss of a sum: ``phi_j(i, k) = (c_ij - c_kj) (2 r_i + C_i - C_k)``, c centred, C their sum, r = y - f.

    In SAGE's game ``phi_j(i) = c_ij (2 (y_i - mean f) - C_i)``.
    """
    sample, weight = setup.sample, setup.sample.weight
    parts = request.task.games.contributions(weight)[:, :, 0]
    if request.averages_predictions:
        return _of_means(parts, setup)
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
    sfimp, as_donor = weight @ local, (weight * reach) @ parts
    parts *= (total - weight @ reach)[:, None]  # from here on what a row causes as a donor: not held twice
    parts += as_donor
    np.fill_diagonal(index, 0.0)
    shares = Shares(local, parts, all_pairs(setup.n), cells)
    return result(setup, sfimp, "closed form", shares=shares, index=index)


def _of_means(parts: Floats, setup: GameSetup) -> ShapleyImportance:
    """SAGE's shares of rows; donors have none of their own."""
    sample, weight, total = setup.sample, setup.sample.weight, parts.sum(axis=1)
    reach = 2 * (np.asarray(sample.y, float) - sample.prediction) + total  # f = its mean + C
    index = -2 * (parts * weight[:, None]).T @ parts  # j and l together: (c_j + c_l)^2 has 2 c_j c_l
    np.fill_diagonal(index, 0.0)
    parts *= reach[:, None]
    return result(setup, weight @ parts, "closed form", shares=Shares(parts, None, all_pairs(setup.n)), index=index)


def tree_pairs(request: Request, setup: GameSetup, progress: ProgressBar) -> ShapleyImportance:
    """All coalitions of all pairs, inside the trees, for any loss."""
    progress.set_total(request.task.games.pair_work)
    shares = request.task.games.pair_shares(
        setup.sample, request.loss, keep_cells=request.keeps_pairs(setup.n),
        n_jobs=request.task.n_jobs, tick=progress,
    )  # fmt: skip
    return result(
        setup, setup.sample.weight @ shares.local, "all coalitions", error_none=float(shares.errors[0]),
        shares=Shares(shares.local, shares.caused, all_pairs(setup.n), shares.cells), table=shares.errors,
    )  # fmt: skip


def leaf_means(request: Request, setup: GameSetup, progress: ProgressBar) -> ShapleyImportance:
    """SAGE's game where predictions are sums of leaves: so are their means over donors, which have no shares."""
    n, p, weight = setup.n, setup.p, setup.sample.weight
    means = request.task.games.mean_predictions(weight)
    local, table = np.empty((n, p)), np.zeros(1 << p)
    progress.set_total(n)
    for i in range(n):
        losses = setup.losses(np.full(1 << p, i), means(i))
        local[i] = game_theory.values(losses)
        table += weight[i] * losses
        progress(1)
    shares = Shares(local, None, all_pairs(n))
    return result(setup, weight @ local, "all coalitions", error_none=float(table[0]), shares=shares, table=table)


def mean_walks(request: Request, setup: GameSetup, progress: ProgressBar) -> ShapleyImportance:
    """SAGE's game where mean predictions over the donors are known along any order: only orders are drawn."""
    rng = request.generator()
    donors = with_weight = np.flatnonzero(setup.sample.weight > 0)
    if request.task.design is not None:
        donors = request.draw_background(rng)
    weight = np.bincount(donors, setup.sample.weight[donors], setup.n)
    walk = ExactMeanWalk(
        setup=setup, rng=rng, memory=request.task.budget.memory // 2, fewest=min_sweeps(request), donors=donors,
        settings=request.settings, cost=setup.n * (setup.p - 1),
        along=request.task.games.mean_walks(weight / weight.sum()),
    )  # fmt: skip
    walked = walks.run(walk, progress)
    remarks = ["mean predictions over the donors are exact; orders are drawn"]
    if len(donors) < len(with_weight):
        remarks.append(FEW_DONORS.format(len(donors)))
    return walk.result(walked, f"{len(walked.sweeps):,} sweeps of orders over {len(donors):,} donors", remarks)
