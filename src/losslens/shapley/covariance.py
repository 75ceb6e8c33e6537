"""SFIMP as a covariance: exact for any number of features, without coalitions and without evaluating a loss.

Let ``L(y, f) = a(y) - b(y) T(f) + c(f)``, and a_j(i, k) feature j's Shapley value in the game that gives row i the
values of donor k for the features outside a coalition, and pays T of the prediction. Swapping row and donor turns a
coalition into its complement, hence a_j(k, i) = -a_j(i, k), and what holds the prediction alone cancels over all pairs:

    SFIMP_j = cov(b, phi_j),    phi_j(i) = mean over k of a_j(i, k), the Shapley value of row i's prediction.

A row's shares as an observation and as a donor sum to ``mean over k of (b_i - b_k) a_j(i, k)``, which is all that
standard errors need. So two weightings of the donors suffice, with their weights w and with w b. This holds for every
set of pairs that has each pair in both directions.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from losslens.losses import log_loss
from losslens.progress import ProgressBar, Tick, silent
from losslens.results.shapley import ShapleyImportance, donor_mass
from losslens.shapley.by_engine import engine_cost
from losslens.shapley.by_model import TOTAL_ESTIMATED, as_predicted, by_walks, walk_predictions
from losslens.shapley.request import Request
from losslens.shapley.setup import GameSetup, full_gain
from losslens.shapley.way import Cost, result
from losslens.tables.sample import Sample
from losslens.typing import Floats

FEW_LOSSES = 1e7  # distinct targets times predictions, up to which each row's gain is computed, too
ROUNDING = 1e-13  # of the largest effect: a feature that moves no sum by more has no effect
ABSENT = "totals and standard errors were computed without shares of single rows; use method='rows'"
_PAIRS = ("all pairs", "all pairs of different rows")
UNCLIPPED = "log losses follow from raw scores, so those of mixed rows are not clipped"


def cost(request: Request) -> Cost | None:
    """As the engine counts; None where columns are left out of the game, or where a log loss is clipped."""
    offered = engine_cost("covariance", "rows and leaves")(request)
    return None if offered is None or not request.covers_table or _is_clipped(request) else offered


def number_bytes(request: Request) -> int:
    """Of a number for each row and feature."""
    return 8 * request.n * request.p


def totals(request: Request, setup: GameSetup, progress: ProgressBar) -> ShapleyImportance:
    """Totals, and what each row adds to them in both roles, from an exact engine."""
    progress.set_total(setup.n)
    both = over_pairs(request, setup.sample, progress)
    sfimp = mean_of_both(both, setup.sample)
    gain = full_gain(setup, FEW_LOSSES) if setup.sample.block is None else None
    return result(
        setup, sfimp, "covariance", both=both, gains=None if gain is None else gain.by_row, absent=ABSENT,
        design="all pairs" if setup.sample.block is None else "all pairs of rows of different groups",
        remarks=(UNCLIPPED,) if _may_be_clipped(request) else (),
    )  # fmt: skip


def row_walk_cost(request: Request) -> Cost | None:
    """That of walks, where rows are wanted and the totals are known."""
    if request.settings.method != "rows" or request.p < 2 or cost(request) is None:
        return None
    return as_predicted(walk_predictions)(request)


def walks_for_rows(request: Request, setup: GameSetup, progress: ProgressBar) -> ShapleyImportance:
    """Totals and standard errors by the covariance; walks distribute them over single rows and donors.

    Half of what the walks miss in both roles of a row together is added to either.
    """
    walked, sample = by_walks(request, setup, progress), setup.sample
    both = over_pairs(request, sample, silent)
    if request.leaves_out_own:
        both /= donor_mass(sample, leaves_out_own=True)[:, None]
    sfimp = mean_of_both(both, sample, leaves_out_own=request.leaves_out_own)
    shares = walked.shares
    assert shares is not None  # of all pairs, and
    assert shares.caused is not None  # predictions are not averaged
    missed = (both - shares.local - shares.caused) / 2
    local, remarks, gains = shares.local + missed, walked.remarks, walked.gains
    if TOTAL_ESTIMATED in remarks:  # the walks did not know what each row gains; the total is the covariance's
        gains, remarks = local.sum(axis=1), tuple(one for one in remarks if one != TOTAL_ESTIMATED)
    return replace(
        walked, sfimp=sfimp, method="covariance", design=_PAIRS[request.leaves_out_own], exact=True, both=both,
        shares=replace(shares, local=local, caused=shares.caused + missed), gains=gains,
        error_none=sample.error + float(sfimp.sum()), monte_carlo_error=np.zeros(setup.p), freedom=np.inf,
        remarks=(*remarks, f"single rows by {walked.design}"),
    )  # fmt: skip


def over_pairs(request: Request, sample: Sample, tick: Tick) -> Floats:
    """A row's shares as an observation and as a donor, means over all pairs or those of different groups, (n, p)."""
    games, n_jobs, weight = request.task.games, request.task.n_jobs, sample.weight
    b = games.sum_weights(request.loss, sample.target(request.loss))
    b -= weight @ b
    weights = np.vstack([weight, (weight[:, None] * b).T])
    effects = games.effects_on_sums(weights, n_jobs, tick)
    step = max(1, request.task.budget.memory // (2 * 8 * weights.shape[0] * b.shape[1] * request.p))
    parts = np.split(request.task.every, range(step, sample.n, step))  # rows whose effects take half of the memory
    both, largest = np.empty((sample.n, request.p)), 0.0
    for rows in parts:
        of_rows = effects(rows)
        both[rows], largest = both_roles(b[rows], of_rows), max(largest, float(np.abs(of_rows[0]).max()))
    idle = np.abs(both).max(axis=0) <= ROUNDING * np.abs(b).max() * largest
    if sample.block is not None:
        order = np.argsort(sample.block, kind="stable")
        for rows in np.split(order, np.flatnonzero(np.diff(sample.block[order])) + 1):
            own_groups = np.zeros_like(weights)
            own_groups[:, rows] = weights[:, rows]
            both[rows] -= both_roles(b[rows], games.effects_on_sums(own_groups, n_jobs, silent)(rows))
        both /= donor_mass(sample)[:, None]
    both[:, idle] = 0.0
    return both


def mean_of_both(both: Floats, sample: Sample, *, leaves_out_own: bool = False) -> Floats:
    """SFIMP, (p,): every pair counts in both roles."""
    mass = sample.weight * donor_mass(sample, leaves_out_own=leaves_out_own)
    return np.asarray(mass @ both / (2 * mass.sum()))


def both_roles(b: Floats, effects: Floats) -> Floats:
    """A row's shares as an observation and as a donor, (rows, p).

    b: centred, (rows, K). effects: Shapley values of the rows' predictions, summed over the donors with their weights
    w and, for each of the K columns of b, with w b, (1 + K, rows, p, K).
    """
    own = np.einsum("ic,ijc->ij", b, effects[0])
    return np.asarray(own - np.einsum("cijc->ij", effects[1:]))


def _is_clipped(request: Request) -> bool:
    """Whether the log loss clips the prediction of a row."""
    if not _may_be_clipped(request):
        return False
    prediction = request.task.exact.predict(request.task.every[request.task.sample.weight > 0])
    return bool(prediction.min() <= least_probability(prediction.dtype))


def _may_be_clipped(request: Request) -> bool:
    """Whether the log loss may clip the prediction of a mixed row."""
    if request.loss != log_loss:
        return False
    low, high = request.task.games.range_of_sums()
    return beyond_bound(low, high, request.task.exact.predict(request.task.every[:1]).dtype)


def beyond_bound(low: Floats, high: Floats, dtype: np.dtype[Any]) -> bool:
    """Whether sums between these, (K,) each, may be beyond the clipping bound of the log loss."""
    if len(low) == 1:
        largest = np.maximum(-low, high)
    else:
        largest = np.max(high) + np.log(np.sum(np.exp(high - np.max(high)))) - low
    return bool(np.max(largest) >= -np.log(least_probability(dtype)))


def least_probability(dtype: np.dtype[Any]) -> float:
    """The clipping bound of the log loss."""
    ceiling = log_loss.ceiling(dtype)
    assert ceiling is not None
    return float(np.exp(-ceiling))
