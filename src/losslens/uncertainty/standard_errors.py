"""Standard errors and intervals, from the cells' means alone: no prediction is needed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from losslens.cells.matrix import Means
from losslens.cells.row_sums import InfluenceSums
from losslens.donors.designs import Design
from losslens.donors.layout import CommonGrid, Layout, OwnDonors
from losslens.tables.sample import Sample
from losslens.typing import Floats, Indices

# Skewness that an interval is bent by; beyond, single rows make it, and bending adds to the width alone.
MOST_BENT = 0.4
Target = Literal["sample", "model", "learner"]


@dataclass(frozen=True, eq=False)
class Influence:
    """How far each row (or block of rows) moves a number: its squares sum to the variance, once noise is taken off."""

    moved: Floats  # (u,), scaled by the jackknife's factor
    excess: float = 0.0  # what the draw of the donors adds to the squares beyond its own share
    noise: float = 0.0  # its own share: the variance is never less
    total: float | None = None  # the variance, where it is more than the sum of these squares
    cubes: float | None = None  # the sum of the cubes over all rows, where `moved` has some of them only
    with_error: float | None = None  # likewise the covariance with the mean loss

    @property
    def variance(self) -> float:
        """The variance of the number over new data."""
        if self.total is not None:
            return self.total
        return max(float(self.moved @ self.moved) - self.excess, self.noise)

    @property
    def std_error(self) -> float:
        """Its square root."""
        return float(np.sqrt(self.variance))

    @property
    def skewness(self) -> float:
        """Of the number itself: that of the influences over the root of their count."""
        if not self.variance > 0:
            return 0.0
        cubes = np.sum(self.moved**3) if self.cubes is None else self.cubes
        return float(np.clip(cubes / self.variance**1.5, -MOST_BENT, MOST_BENT))

    def __sub__(self, other: Influence) -> Influence:
        """On the difference of two numbers of the same rows, whose donors were drawn independently."""
        return Influence(self.moved - other.moved, self.excess + other.excess, self.noise + other.noise)


def std_error(means: Means, meeting: Layout, sample: Sample, rows: Indices) -> float:
    """Standard error of the PFI of this model over new data: the jackknife's."""
    return influence(means, meeting, sample, rows).std_error


def influence(means: Means, meeting: Layout, sample: Sample, rows: Indices) -> Influence:
    """How far each row moves the PFI of this model.

    Each row counts twice, as an observation and as a donor: its influence is ``w_i a_i + u_i c_i``, with a and c
    its effects in both roles (cell ~ PFI + a_i + c_k) and w and u its shares among rows and donors. Rows that
    belong together add up first. Sampled donors add their own noise to both effects: what is too much goes.
    """
    units, here = sample.units(), sample.units(rows)
    _check_units(here, sample)
    factor = jackknife_factor(units, leaves_out_own=sample.block is not None or meeting.leaves_out_own)
    if isinstance(meeting, OwnDonors) and meeting.alone:
        return _influence_alone(means, sample, rows, here)
    if isinstance(meeting, CommonGrid):
        moved = np.sqrt(factor) * _by_unit(_influence(means, meeting, sample, rows), sample)
        return Influence(moved) if means.influences is None else _of_all_rows(moved, means.influences, factor, units)
    fit = fit_effects(means, meeting, sample, rows)
    if not np.isfinite(fit.noise):
        raise ValueError("no standard error: so few cells can't tell rows, donors and noise apart; use more donors")
    if fit.fitted and (sample.block is not None or meeting.leaves_out_own):
        factor = _of_a_mean(units)  # fitted effects, unlike means, don't lack those of the own block
    moved = np.sqrt(factor) * _by_unit(_influence_of(fit, means, sample, rows), sample)
    if not fit.fitted:
        return Influence(moved, noise=0.0 if fit.complete else fit.noise)
    # A fitted effect has variance D2/(m-1), not D2/m: the donors' share of a row's information is lost. Both roles
    # together bring 2 D2/(n(m-1)), of which D2/(nm) belongs to the estimate: the rest goes. Rank bins (Systematic)
    # even out the donors that each row meets: there the noise counts about once as it is.
    return Influence(moved, fit.noise * (2 * fit.m / (fit.m - 1) * factor - 1), fit.noise)


def _of_all_rows(moved: Floats, sums: InfluenceSums, factor: float, units: int) -> Influence:
    """Sums over all rows of files; what the kept rows move is scaled so that its squares sum to the variance."""
    variance, square = factor * sums.square + sums.noise, float(moved @ moved)
    return Influence(
        moved * np.sqrt(variance / square) if square > 0 else moved,
        noise=sums.noise,
        total=variance,
        cubes=factor**1.5 * sums.cube,
        with_error=float(np.sqrt(factor * _of_a_mean(units))) * sums.with_error,
    )


def _of_a_mean(units: int) -> float:
    """From a sum of squared influences to the variance of a mean over rows."""
    return units / (units - 1)


def _influence_alone(means: Means, sample: Sample, rows: Indices, here: int) -> Influence:
    """How far each row moves the PFI where nobody lent its values: as an observation alone."""
    assert means.local is not None  # who has an importance has its rows'
    met, moved = means.mass > 0, np.zeros(sample.n)
    moved[rows[met]] = means.mass[met] / means.mass[met].sum() * (means.local[met] - means.pfi)
    return Influence(np.sqrt(_of_a_mean(here)) * _by_unit(moved, sample))


def influence_on_error(sample: Sample, rows: Indices) -> Influence:
    """How far each row moves the mean loss of these rows, nothing replaced."""
    assert sample.loss is not None  # only judged samples are asked
    share = sample.weight[rows] / sample.weight[rows].sum()
    moved = np.zeros(sample.n)
    moved[rows] = share * (sample.loss[rows] - share @ sample.loss[rows])
    here = sample.units(rows)
    _check_units(here, sample)
    total = None if sample.totals is None else _of_a_mean(here) * sample.totals.error_square
    return Influence(np.sqrt(_of_a_mean(here)) * _by_unit(moved, sample), total=total)


def ratio_influence(importance: Influence, on_error: Influence, unbiased: float, error: float) -> Influence:
    """How far each row moves ``1 + importance / error``, to first order: both numbers move with the rows."""
    slope = unbiased / error
    total = None
    if importance.with_error is not None:
        total = importance.variance - 2 * slope * importance.with_error + slope**2 * on_error.variance
        total = max(total, 0.0) / error**2
    moved = importance.moved / error - unbiased / error**2 * on_error.moved
    return Influence(moved, importance.excess / error**2, importance.noise / error**2, total)


def _check_units(here: int, sample: Sample) -> None:
    if here < 3:
        what = "rows" if sample.block is None else "groups"
        raise ValueError(f"a standard error needs at least 3 {what} that count; there are {here}")


def monte_carlo_variance(means: Means, meeting: Layout, sample: Sample, rows: Indices) -> float:
    """Variance of the PFI over fresh draws of the donors: ``D2/(nm)``, for distinct shifts ``(1 - (m-1)/(n-1))`` of it.

    D2 is the residual mean square of the fit cell ~ row + donor. For rank bins (Systematic) this is an upper bound.
    """
    if isinstance(meeting, CommonGrid):
        return 0.0 if means.influences is None else means.influences.noise
    if meeting.alone:
        raise ValueError("no Monte-Carlo error: what a sampler's draws add is not kept apart")
    return fit_effects(means, meeting, sample, rows).noise


def grid_influence(means: Means, design: Design, sample: Sample) -> Influence:
    """How far each donor of a grid moves the PFI: donors are drawn among the rows, none twice."""
    if design.ranked:
        raise ValueError(
            f"{design!r} draws nothing: how far it is from all pairs is no matter of chance; use Latin(m) or Grid(m)"
        )
    if means.caused is None or means.lent is None:
        raise ValueError("no Monte-Carlo error: the mean of each donor's cells is not known")
    lends = means.lent > 0
    d = int(lends.sum())
    if d < 2:
        raise ValueError("no Monte-Carlo error from one donor: nothing says how donors differ")
    left = max(1 - d / sample.units(), 0.0)
    return Influence(np.sqrt(d / (d - 1) * left) * means.lent[lends] * (means.caused[lends] - means.pfi))


def _influence(means: Means, meeting: CommonGrid, sample: Sample, rows: Indices) -> Floats:
    """How much each row moves the PFI, as an observation and as a donor, (n,)."""
    if means.local is None or means.caused is None or means.lent is None:
        raise ValueError("no standard error: the mean of each donor's cells is not known for these rows")
    moved = np.where(means.lent > 0, means.lent * (means.caused - means.pfi), 0.0)
    d = int(np.sum(means.lent > 0))
    if d < np.count_nonzero(sample.weight) and sample.block is None:  # a grid of few donors: their own small sample
        if d < 2:
            raise ValueError("no standard error from one donor: nothing says how donors differ")
        moved *= np.sqrt(d / (d - 1))
    met = means.mass > 0
    moved[rows[met]] += means.mass[met] / means.mass[met].sum() * (means.local[met] - means.pfi)
    return moved


@dataclass(frozen=True, eq=False)
class RowColumnFit:
    """The least-squares fit cell ~ PFI + row + donor, on the cells met."""

    row: Floats  # (r,)
    donor: Floats  # (n,)
    noise: float  # variance of the PFI that is due to the draw of the donors
    m: float  # donors that a row met, on average
    fitted: bool  # False: the means are the effects, as they are balanced
    complete: bool  # every pair met: there is no noise


def _influence_of(fit: RowColumnFit, means: Means, sample: Sample, rows: Indices) -> Floats:
    assert means.lent is not None  # Averages fills it for PerRow
    moved = means.lent * fit.donor
    moved[rows] += means.mass / means.mass.sum() * fit.row  # a row that met nobody has effect 0
    return moved


def fit_effects(means: Means, meeting: OwnDonors, sample: Sample, rows: Indices) -> RowColumnFit:
    """Effects of rows and donors, and what they leave unexplained, from row sums, donor sums and the mean square.

    Rows and donors are not orthogonal in an incomplete design: a row's mean also holds the effects of the donors it
    happened to meet. Evenly spaced shifts split rows and donors into circles that never meet; effects of different
    circles can't be compared, but there the row means are already balanced, and donors are corrected for them.
    """
    if meeting.width < 3:
        raise ValueError(
            f"no standard error from {meeting.width} donor(s) a row: their own noise can't be told apart from "
            "the rows'; use 3 donors or more"
        )
    if means.local is None or means.caused is None:
        raise ValueError("no standard error: the mean of each donor's cells is not known for these rows")
    met, squares, cells = _shares(meeting, sample, rows)
    by_row, by_donor = _sums(met)
    row_total = by_row * np.where(by_row > 0, means.local - means.pfi, 0.0)
    donor_total = by_donor * np.where(by_donor > 0, means.caused - means.pfi, 0.0)
    row, donor = _least_squares(met, row_total, donor_total)
    freedom, circles = _degrees_of_freedom(met, cells)
    explained = row @ row_total + donor @ donor_total
    unexplained = max(float(means.square - means.pfi**2 - explained), 0.0)
    residual = unexplained * cells / freedom if freedom > 0 else np.nan  # D2
    complete = not meeting.repeats and meeting.width >= sample.n - 1
    left = 1.0 if meeting.repeats else 1 - (meeting.width - 1) / (sample.n - 1)  # all distinct shifts leave no noise
    balanced = complete or meeting.binned or circles > 1
    if balanced:
        row = _inverse(by_row) * row_total
        donor = _inverse(by_donor) * (donor_total - (0.0 if complete else met.T @ row))
    return RowColumnFit(
        row=_centred(row, by_row),
        donor=_centred(donor, by_donor),
        noise=residual * squares * left,
        m=cells / int(np.sum(by_row > 0)),
        fitted=not balanced,
        complete=complete,
    )


def _shares(meeting: OwnDonors, sample: Sample, rows: Indices) -> tuple[Any, float, int]:
    """How much each cell counts, a sparse matrix (rows, donors); the sum of the squares, and how many cells count.

    A pair that is met twice is one cell, unless it says something new.
    """
    from scipy import sparse

    lent = meeting.weights(sample, rows) * sample.weight[rows][:, None]
    counted = lent > 0
    a_row = counted.sum() / max(1, counted.any(axis=1).sum())
    if a_row < 2:
        raise ValueError(f"no standard error: the rows met {a_row:.1f} donors that count, on average; use more donors")
    where = np.repeat(np.arange(len(rows)), counted.sum(axis=1))
    share = lent[counted] / lent.sum()
    met = sparse.csr_array((share, (where, np.asarray(meeting.donors[rows])[counted])), shape=(len(rows), sample.n))
    told = share if meeting.fresh else met.data
    return met, float(told @ told), len(told)


def _sums(met: Any) -> tuple[Floats, Floats]:
    return np.asarray(met.sum(axis=1), float), np.asarray(met.sum(axis=0), float)


def _least_squares(met: Any, row_total: Floats, donor_total: Floats) -> tuple[Floats, Floats]:
    """Row and donor effects: the normal equations, reduced to the donors and solved by conjugate gradients."""
    from scipy.sparse import linalg

    by_row, by_donor = _sums(met)
    per_row = _inverse(by_row)

    def reduced(effect: Floats) -> Floats:
        return np.asarray(by_donor * effect - met.T @ (per_row * (met @ effect)))

    operator = linalg.LinearOperator((met.shape[1], met.shape[1]), matvec=reduced, dtype=np.float64)
    donor, _ = linalg.cg(operator, donor_total - met.T @ (per_row * row_total), rtol=1e-10, maxiter=500)
    return np.asarray(per_row * (row_total - met @ donor)), np.asarray(donor)


def _degrees_of_freedom(met: Any, told: int) -> tuple[int, int]:
    """Cells less the effects that can be told apart, and the number of circles that never meet."""
    from scipy import sparse
    from scipy.sparse import csgraph

    r, n = met.shape
    cells = met.tocoo()
    graph = sparse.csr_array((cells.data, (cells.coords[0], r + cells.coords[1])), shape=(r + n, r + n))
    idle = sum(int(np.sum(mass == 0)) for mass in _sums(met))
    circles = int(csgraph.connected_components(graph, directed=False)[0]) - idle
    return told - (r + n - idle) + circles, circles


def _inverse(mass: Floats) -> Floats:
    return np.divide(1.0, mass, out=np.zeros(len(mass)), where=mass > 0)


def _centred(effect: Floats, mass: Floats) -> Floats:
    return np.where(mass > 0, effect - (effect @ mass) / mass.sum(), 0.0)


def _by_unit(moved: Floats, sample: Sample) -> Floats:
    """Rows that belong together move a number together."""
    if sample.block is None:
        return moved
    return np.asarray(np.bincount(np.unique(sample.block, return_inverse=True)[1], moved), float)


def jackknife_factor(units: int, *, leaves_out_own: bool = False) -> float:
    """From a sum of squared influences to the jackknife's variance of a mean over pairs of rows.

    V-statistics, in which each row also meets itself, are first scaled up to the U-statistic that they estimate.
    """
    up = 1.0 if leaves_out_own else units / (units - 1)
    return up**2 * units * (units - 1) / (units - 2) ** 2


def interval(estimate: float, error: float, units: float, level: float, skewness: float = 0.0) -> tuple[float, float]:
    """A confidence interval: Student's, bent by Hall's transformation as the estimate is skewed."""
    from scipy.stats import t

    reach = float(t.ppf((1 + check_level(level)) / 2, units - 1))
    return estimate - error * _unbent(reach, skewness), estimate - error * _unbent(-reach, skewness)


def p_value(estimate: float, error: float, units: float) -> float:
    """Of the test that there is no importance, against there being some: Student's, one-sided.

    Without importance there is no skewness either, and an estimate of it would go up with the estimate itself.
    """
    from scipy.stats import t

    if not np.isfinite(error):
        return float("nan")
    if not error > 0:
        return 0.0 if estimate > 0 else 1.0
    return float(t.sf(estimate / error, units - 1))


def check_target(target: Target) -> Target:
    """What an interval is about, where there is one fitted model."""
    if target == "learner":
        raise ValueError(
            "one fitted model says nothing of what refits would give: target='learner' needs feature_importance_cv "
            "or shapley_importance_cv"
        )
    if target not in ("model", "sample"):
        raise ValueError(f"target is 'model', 'sample' or, after refits, 'learner'; got {target!r}")
    return target


def check_level(level: float) -> float:
    """The probability that an interval holds what it is about."""
    if not isinstance(level, (int, float, np.number)) or not 0 < level < 1:
        raise ValueError(f"level lies between 0 and 1, such as 0.95; got {level!r}")
    return level


def _unbent(t: float, a: float) -> float:
    """Hall (1992): where ``t + a t^2 / 3 + a^2 t^3 / 27 + a / 6``, nearly symmetric for a t skewed by a, takes a value.

    That is ``(3 / a) (cbrt(1 + a (t - a / 6)) - 1)``.
    """
    return t if abs(a) < 1e-6 else float(3 / a * (np.cbrt(1 + a * (t - a / 6)) - 1))
