"""Standard errors and intervals, from the cells' means alone: no prediction is needed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from losslens.cells import Common, Means, Meeting, PerRow, Sample

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]


def std_error(means: Means, meeting: Meeting, sample: Sample, rows: Indices) -> float:
    """Standard error of the PFI of this model over new data: the jackknife's.

    Each row counts twice, as an observation and as a donor: its influence is
    ``w_i (row_i - PFI) + u_i (column_i - PFI)``, with w and u its shares among rows and donors. Rows that belong
    together add up first. Sampled donors add their own noise to row and column means: half of it is taken off.
    """
    units = sample.n if sample.block is None else len(np.unique(sample.block))
    if units < 3:
        what = "rows" if sample.block is None else "groups"
        raise ValueError(f"a standard error needs at least 3 {what}; there are {units}")
    variance = _small_sample(meeting, sample, units) * _sum_of_squares(influence(means, meeting, sample, rows), sample)
    if isinstance(meeting, PerRow) and not meeting.binned and meeting.width < sample.n - 1:
        # Rank bins (Systematic) even out the donors that each row meets: there the noise is already small.
        variance -= monte_carlo_variance(means, meeting, sample, rows)
    return float(np.sqrt(max(variance, 0.0)))


def influence(means: Means, meeting: Meeting, sample: Sample, rows: Indices) -> Floats:
    """How much each row moves the PFI, as an observation and as a donor, (n,)."""
    if means.local is None or means.pi is None:
        raise ValueError("no standard error: the mean of each donor's cells is not known for these rows")
    if isinstance(meeting, Common):
        caused, lent = meeting.columns(sample, means.pi)
    else:
        _enough_donors(meeting)
        assert means.caused is not None and means.lent is not None  # Averages fills both for PerRow
        caused, lent = means.caused, means.lent
    moved = np.where(lent > 0, lent * (caused - means.pfi), 0.0)
    met = means.mass > 0
    moved[rows[met]] += means.mass[met] / means.mass[met].sum() * (means.local[met] - means.pfi)
    return moved


def _enough_donors(meeting: PerRow) -> None:
    if meeting.width < 3:
        raise ValueError(
            f"no standard error from {meeting.width} donor(s) a row: their own noise can't be told apart from "
            "the rows'; use 3 donors or more"
        )


def _sum_of_squares(influences: Floats, sample: Sample) -> float:
    if sample.block is not None:
        influences = np.bincount(np.unique(sample.block, return_inverse=True)[1], influences)
    return float(influences @ influences)


def _small_sample(meeting: Meeting, sample: Sample, units: int) -> float:
    """The jackknife's factor; V-statistics are first scaled up to the U-statistic that they estimate."""
    leaves_out = sample.block is not None or meeting.leaves_out_own
    up = 1.0 if leaves_out else units / (units - 1)
    return up**2 * units * (units - 1) / (units - 2) ** 2


def monte_carlo_variance(means: Means, meeting: Meeting, sample: Sample, rows: Indices) -> float:
    """Variance of the PFI over fresh draws of the donors, for distinct shifts: ``D2/(nm) (1 - (m-1)/(n-1))``.

    D2 is the residual mean square of the least-squares fit cell ~ row + donor on the cells met. For rank bins
    (Systematic) this is an upper bound.
    """
    if isinstance(meeting, Common):
        return 0.0
    _enough_donors(meeting)
    lent = meeting.weights(sample, rows) * sample.weight[rows][:, None]
    lent /= lent.sum()
    m, n = meeting.width, sample.n
    return residual_mean_square(means, meeting.donors[rows], lent) * float(np.sum(lent**2)) * (1 - (m - 1) / (n - 1))


def residual_mean_square(means: Means, donors: NDArray[np.int32], lent: Floats) -> float:
    """D2: what rows and donors leave unexplained, from row sums, donor sums and the mean square alone.

    The normal equations are reduced to the donors (rows are eliminated) and solved by conjugate gradients. Evenly
    spaced shifts split rows and donors into several circles that never meet, which costs fewer degrees of freedom.
    """
    from scipy import sparse
    from scipy.sparse import csgraph, linalg

    assert means.local is not None and means.caused is not None and means.lent is not None
    rows, n = len(lent), len(means.caused)
    counted = lent > 0
    where = np.repeat(np.arange(rows), counted.sum(axis=1))
    met = sparse.csr_array((lent[counted], (where, donors[counted])), shape=(rows, n))
    by_row, by_donor = met.sum(axis=1), met.sum(axis=0)
    row_total = np.where(by_row > 0, np.nan_to_num(means.local) - means.pfi, 0.0) * by_row
    donor_total = np.where(by_donor > 0, np.nan_to_num(means.caused) - means.pfi, 0.0) * by_donor
    per_row = np.divide(1.0, by_row, out=np.zeros(rows), where=by_row > 0)

    def reduced(donor_effect: Floats) -> Floats:
        return np.asarray(by_donor * donor_effect - met.T @ (per_row * (met @ donor_effect)))

    target = donor_total - met.T @ (per_row * row_total)
    operator = linalg.LinearOperator((n, n), matvec=reduced, dtype=np.float64)
    donor_effect, _ = linalg.cg(operator, target, rtol=1e-10, maxiter=200)
    row_effect = per_row * (row_total - met @ donor_effect)
    explained = row_effect @ row_total + donor_effect @ donor_total
    cells, active = int(counted.sum()), int(np.sum(by_row > 0) + np.sum(by_donor > 0))
    graph = sparse.block_array([[None, met], [met.T, None]])
    circles = csgraph.connected_components(graph, directed=False)[0] - (rows + n - active)
    freedom = cells - active + circles
    unexplained = max(means.square - means.pfi**2 - explained, 0.0)
    return float(unexplained * cells / freedom) if freedom > 0 else float("nan")


def interval(estimate: float, error: float, units: int, level: float) -> tuple[float, float]:
    """A confidence interval: on the log scale where the estimate is over three standard errors, else symmetric."""
    if not 0 < level < 1:
        raise ValueError(f"level lies between 0 and 1, such as 0.95; got {level!r}")
    from scipy.stats import t

    reach = float(t.ppf((1 + level) / 2, units - 1))
    if estimate > 3 * error > 0:
        factor = np.exp(reach * error / estimate)
        return float(estimate / factor), float(estimate * factor)
    return estimate - reach * error, estimate + reach * error
