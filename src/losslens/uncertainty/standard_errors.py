"""Standard errors and confidence intervals, computed from the means of the cells."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from losslens.cells.matrix import Means
from losslens.cells.row_sums import InfluenceSums
from losslens.donors.designs import Design
from losslens.donors.layout import CommonGrid, Layout, OwnDonors
from losslens.tables.checks import is_one_of
from losslens.tables.sample import Sample
from losslens.typing import Floats, Indices
from losslens.uncertainty.cell_weights import cell_weights, inverse

# The largest skewness that intervals are corrected for: a larger estimate comes from single rows, and would only widen
# the interval.
MAX_SKEWNESS = 0.4
Target = Literal["sample", "model", "learner"]


@dataclass(frozen=True, eq=False)
class Influence:
    """Influence of each row (or group of rows) on an estimate; the sum of squares, less noise, is the variance."""

    moved: Floats  # (u,), scaled by the jackknife's factor
    excess: float = 0.0  # what sampling donors adds to the sum of squares beyond `noise`
    noise: float = 0.0  # variance that is due to sampling donors: the variance is never less
    total: float | None = None  # the variance, where it is not the sum of these squares
    cubes: float | None = None  # the sum of cubes over all rows, where `moved` holds some rows only
    with_error: float | None = None  # likewise the covariance with the mean loss

    @property
    def variance(self) -> float:
        """The variance of the estimate over new data."""
        if self.total is not None:
            return self.total
        return max(float(self.moved @ self.moved) - self.excess, self.noise)

    @property
    def std_error(self) -> float:
        """The standard error of the estimate over new data."""
        return float(np.sqrt(self.variance))

    @property
    def skewness(self) -> float:
        """Skewness of the estimate: that of the influences, divided by the square root of their number."""
        if not self.variance > 0:
            return 0.0
        cubes = np.sum(self.moved**3) if self.cubes is None else self.cubes
        return float(np.clip(cubes / self.variance**1.5, -MAX_SKEWNESS, MAX_SKEWNESS))

    def __sub__(self, other: Influence) -> Influence:
        """Influence on the difference of two estimates from the same rows and independently sampled donors."""
        return Influence(self.moved - other.moved, self.excess + other.excess, self.noise + other.noise)


def std_error(means: Means, layout: Layout, sample: Sample, rows: Indices) -> float:
    """Jackknife standard error of the PFI of this model over new data."""
    return influence(means, layout, sample, rows).std_error


def influence(means: Means, layout: Layout, sample: Sample, rows: Indices) -> Influence:
    """Influence of each row on the PFI of this model.

    Each row has two roles, observation and donor: its influence is ``w_i a_i + u_i c_i``, with a and c its effects in
    both roles (cell ~ PFI + a_i + c_k) and w and u its weights among rows and donors. Influences are first added within
    groups of rows. Sampling donors adds noise to both effects; its excess is subtracted.
    """
    units, used = sample.units(), sample.units(rows)
    _check_units(used, sample)
    factor = jackknife_factor(units, leaves_out_own=sample.block is not None or layout.leaves_out_own)
    if isinstance(layout, OwnDonors) and layout.alone:
        return _influence_alone(means, sample, rows, used)
    if isinstance(layout, CommonGrid):
        moved = np.sqrt(factor) * _by_unit(_influence(means, layout, sample, rows), sample)
        return Influence(moved) if means.influences is None else _of_all_rows(moved, means.influences, factor, units)
    fit = fit_effects(means, layout, sample, rows)
    if not np.isfinite(fit.noise):
        raise ValueError(
            "no standard error: too few cells to separate the effects of rows and donors from noise; use more donors"
        )
    if fit.fitted and (sample.block is not None or layout.leaves_out_own):
        factor = _of_a_mean(units)  # fitted effects, unlike means, include those of the own group
    moved = np.sqrt(factor) * _by_unit(_influence_of(fit, means, sample, rows), sample)
    if not fit.fitted:
        return Influence(moved, noise=0.0 if fit.complete else fit.noise)
    # A fitted effect has variance D2/(m-1), not D2/m, because donor effects are fitted too. Both roles together add
    # 2 D2/(n(m-1)), of which D2/(nm) is variance of the estimate: the rest is subtracted. Rank bins (Systematic)
    # balance the donors of each row: there the noise is counted about once without a correction.
    return Influence(moved, fit.noise * (2 * fit.m / (fit.m - 1) * factor - 1), fit.noise)


def _of_all_rows(moved: Floats, sums: InfluenceSums, factor: float, units: int) -> Influence:
    """Sums over all rows of files; influences of the kept rows are scaled so that their squares sum to the variance."""
    variance, square = factor * sums.square + sums.noise, float(moved @ moved)
    return Influence(
        moved * np.sqrt(variance / square) if square > 0 else moved,
        noise=sums.noise,
        total=variance,
        cubes=factor**1.5 * sums.cube,
        with_error=float(np.sqrt(factor * _of_a_mean(units))) * sums.with_error,
    )


def _of_a_mean(units: int) -> float:
    """The factor from a sum of squared influences to the variance of a mean over rows."""
    return units / (units - 1)


def _influence_alone(means: Means, sample: Sample, rows: Indices, used: int) -> Influence:
    """Influence of each row on the PFI where values come from no donors: as an observation only."""
    assert means.local is not None  # set wherever there is an importance
    counted, moved = means.mass > 0, np.zeros(sample.n)
    moved[rows[counted]] = means.mass[counted] / means.mass[counted].sum() * (means.local[counted] - means.pfi)
    return Influence(np.sqrt(_of_a_mean(used)) * _by_unit(moved, sample))


def influence_on_error(sample: Sample, rows: Indices) -> Influence:
    """Influence of each row on the mean loss of these rows, nothing replaced."""
    assert sample.loss is not None  # results with a loss have it
    share = sample.weight[rows] / sample.weight[rows].sum()
    moved = np.zeros(sample.n)
    moved[rows] = share * (sample.loss[rows] - share @ sample.loss[rows])
    used = sample.units(rows)
    _check_units(used, sample)
    total = None if sample.totals is None else _of_a_mean(used) * sample.totals.error_square
    return Influence(np.sqrt(_of_a_mean(used)) * _by_unit(moved, sample), total=total)


def ratio_influence(importance: Influence, on_error: Influence, unbiased: float, error: float) -> Influence:
    """Influence of each row on ``1 + importance / error``, to first order: both numbers depend on the rows."""
    slope = unbiased / error
    total = None
    if importance.with_error is not None:
        total = importance.variance - 2 * slope * importance.with_error + slope**2 * on_error.variance
        total = max(total, 0.0) / error**2
    moved = importance.moved / error - unbiased / error**2 * on_error.moved
    return Influence(moved, importance.excess / error**2, importance.noise / error**2, total)


def _check_units(units: int, sample: Sample) -> None:
    if units < 3:
        what = "rows" if sample.block is None else "groups"
        raise ValueError(f"a standard error needs at least 3 {what} with weight; there are {units}")


def monte_carlo_variance(means: Means, layout: Layout, sample: Sample, rows: Indices) -> float:
    """Variance of the PFI over fresh draws of the donors: ``D2/(nm)``, for distinct shifts ``(1 - (m-1)/(n-1))`` of it.

    D2 is the residual mean square of the fit cell ~ row + donor. For rank bins (Systematic) this is an upper bound.
    """
    if isinstance(layout, CommonGrid):
        return 0.0 if means.influences is None else means.influences.noise
    if layout.alone:
        raise ValueError("no Monte-Carlo error: the variance of a sampler's draws is not estimated separately")
    return fit_effects(means, layout, sample, rows).noise


def grid_influence(means: Means, design: Design, sample: Sample) -> Influence:
    """Influence of each donor of a grid on the PFI: donors are sampled from the rows without replacement."""
    if design.ranked:
        raise ValueError(f"no Monte-Carlo error: {design!r} is not random; use Latin(m) or Grid(m)")
    if means.caused is None or means.lent is None:
        raise ValueError("no Monte-Carlo error: the mean of each donor's cells was not kept")
    donors = means.lent > 0
    d = int(donors.sum())
    if d < 2:
        raise ValueError("no Monte-Carlo error: there is one donor only, and donors must be compared; use more")
    left = max(1 - d / sample.units(), 0.0)
    return Influence(np.sqrt(d / (d - 1) * left) * means.lent[donors] * (means.caused[donors] - means.pfi))


def _influence(means: Means, layout: CommonGrid, sample: Sample, rows: Indices) -> Floats:
    """Influence of each row on the PFI, as an observation and as a donor, (n,)."""
    if means.local is None or means.caused is None or means.lent is None:
        raise ValueError("no standard error: the mean of each donor's cells was not kept for these rows")
    moved = np.where(means.lent > 0, means.lent * (means.caused - means.pfi), 0.0)
    d = int(np.sum(means.lent > 0))
    if (
        d < np.count_nonzero(sample.weight) and sample.block is None
    ):  # a grid of few donors is a small sample of its own
        if d < 2:
            raise ValueError("no standard error: there is one donor only, and donors must be compared; use more")
        moved *= np.sqrt(d / (d - 1))
    counted = means.mass > 0
    moved[rows[counted]] += means.mass[counted] / means.mass[counted].sum() * (means.local[counted] - means.pfi)
    return moved


@dataclass(frozen=True, eq=False)
class RowColumnFit:
    """The least-squares fit cell ~ PFI + row + donor, on the computed cells."""

    row: Floats  # (r,)
    donor: Floats  # (n,)
    noise: float  # variance of the PFI that is due to sampling donors
    m: float  # mean number of donors of a row
    fitted: bool  # False: the design is balanced, and means are the effects
    complete: bool  # every pair is a cell: there is no noise


def _influence_of(fit: RowColumnFit, means: Means, sample: Sample, rows: Indices) -> Floats:
    assert means.lent is not None  # `Averages` sets it for OwnDonors
    moved = means.lent * fit.donor
    moved[rows] += means.mass / means.mass.sum() * fit.row  # a row without donors has effect 0
    return moved


def fit_effects(means: Means, layout: OwnDonors, sample: Sample, rows: Indices) -> RowColumnFit:
    """Effects of rows and donors and the residual mean square, from row sums, donor sums and the mean square.

    Rows and donors are not orthogonal in an incomplete design: a row's mean includes the effects of its own donors.
    Evenly spaced shifts split rows and donors into unconnected components, whose effects can't be compared; but there
    the row means are balanced already, and donor means are corrected for them.
    """
    if layout.width < 3:
        raise ValueError(
            f"no standard error from {layout.width} donor(s) a row: the variance between rows can't be separated from "
            "noise; use 3 donors or more"
        )
    if means.local is None or means.caused is None:
        raise ValueError("no standard error: the mean of each donor's cells was not kept for these rows")
    weights = cell_weights(layout, sample, rows)
    by_row, by_donor, cells = weights.by_row, weights.by_donor, weights.cells
    row_total = np.where(by_row > 0, means.local - means.pfi, 0.0)
    row_total *= by_row
    donor_total = np.where(by_donor > 0, means.caused - means.pfi, 0.0)
    donor_total *= by_donor
    row, donor = weights.effects(row_total, donor_total)
    freedom, components = weights.freedom, weights.components
    explained = row @ row_total + donor @ donor_total
    unexplained = max(float(means.square - means.pfi**2 - explained), 0.0)
    residual = unexplained * cells / freedom if freedom > 0 else np.nan  # D2
    complete = not layout.repeats and layout.width >= sample.n - 1
    left = (
        1.0 if layout.repeats else 1 - (layout.width - 1) / (sample.n - 1)
    )  # with all distinct shifts there is no noise
    balanced = complete or layout.binned or components > 1
    if balanced:
        row = inverse(by_row) * row_total
        donor = inverse(by_donor) * (donor_total - (0.0 if complete else weights.transposed(row)))
    return RowColumnFit(
        row=_centred(row, by_row),
        donor=_centred(donor, by_donor),
        noise=residual * weights.squares * left,
        m=cells / int(np.sum(by_row > 0)),
        fitted=not balanced,
        complete=complete,
    )


def _centred(effect: Floats, mass: Floats) -> Floats:
    return np.where(mass > 0, effect - (effect @ mass) / mass.sum(), 0.0)


def _by_unit(moved: Floats, sample: Sample) -> Floats:
    """Influences, added within groups of rows."""
    if sample.block is None:
        return moved
    return np.asarray(np.bincount(np.unique(sample.block, return_inverse=True)[1], moved), float)


def jackknife_factor(units: int, *, leaves_out_own: bool = False) -> float:
    """The factor from a sum of squared influences to the jackknife variance of a mean over pairs of rows.

    V-statistics, which include pairs of a row with itself, are first scaled to the U-statistic.
    """
    up = 1.0 if leaves_out_own else units / (units - 1)
    return up**2 * units * (units - 1) / (units - 2) ** 2


def interval(estimate: float, error: float, units: float, level: float, skewness: float = 0.0) -> tuple[float, float]:
    """A confidence interval: Student's, corrected for skewness by Hall's transformation."""
    from scipy.stats import t

    reach = float(t.ppf((1 + check_level(level)) / 2, units - 1))
    return estimate - error * _hall(reach, skewness), estimate - error * _hall(-reach, skewness)


def p_value(estimate: float, error: float, units: float) -> float:
    """One-sided p-value of Student's test of no importance, against a positive one.

    Not corrected for skewness: under the hypothesis there is none, and its estimate increases with the importance.
    """
    from scipy.stats import t

    if not np.isfinite(error):
        return float("nan")
    if not error > 0:
        return 0.0 if estimate > 0 else 1.0
    return float(t.sf(estimate / error, units - 1))


def check_target(target: Target) -> Target:
    """Check the target of an interval where there is one fitted model."""
    if is_one_of(target, ("learner",)):
        raise ValueError(
            "target='learner' needs refits, and this result is of one fitted model; use feature_importance_cv or "
            "shapley_importance_cv"
        )
    if not is_one_of(target, ("model", "sample")):
        raise ValueError(f"target is 'model', 'sample' or, after refits, 'learner'; got {target!r}")
    return target


def check_level(level: float) -> float:
    """Check the coverage probability of an interval."""
    if not isinstance(level, (int, float, np.number)) or not 0 < level < 1:
        raise ValueError(f"level lies between 0 and 1, such as 0.95; got {level!r}")
    return level


def _hall(t: float, a: float) -> float:
    """Inverse of Hall's (1992) ``t + a t^2 / 3 + a^2 t^3 / 27 + a / 6``, which is nearly symmetric for skewness a.

    That is ``(3 / a) (cbrt(1 + a (t - a / 6)) - 1)``.
    """
    return t if abs(a) < 1e-6 else float(3 / a * (np.cbrt(1 + a * (t - a / 6)) - 1))
