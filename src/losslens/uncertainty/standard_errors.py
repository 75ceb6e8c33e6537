"""Standard errors and confidence intervals, computed from the means of the cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np

from losslens.cells.matrix import Means
from losslens.cells.row_sums import InfluenceSums
from losslens.donors.designs import Design
from losslens.donors.layout import CommonGrid, Layout, OwnDonors
from losslens.tables.checks import is_one_of
from losslens.tables.frozen import Frozen
from losslens.tables.sample import Sample, by_unit, chunks
from losslens.typing import Floats, Indices, Mask
from losslens.uncertainty.cell_weights import CellWeights, DonorEffects, EffectTotals, cell_weights, inverse
from losslens.uncertainty.leave_one_out import leave_one_out

Target = Literal["sample", "model", "learner"]
ONE_DONOR = "no standard error: it compares donors, and there is only one; use two or more"


@dataclass(frozen=True, eq=False)
class Influence(Frozen):
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

    @cached_property
    def skewness(self) -> float:
        """Skewness of the estimate: that of the influences, divided by the square root of their number.

        As it is estimated: `interval` limits how far it goes.
        """
        std_error = self.std_error
        if not std_error > 0:
            return 0.0
        # Divided before cubes are taken: those of small numbers are 0.
        return float(
            np.sum((self.moved / std_error) ** 3) if self.cubes is None else self.cubes / self.variance / std_error
        )

    @property
    def third_moment(self) -> float:
        """The third central moment of the estimate."""
        return float(np.sum(self.moved**3)) if self.cubes is None else self.cubes

    def __neg__(self) -> Influence:
        """Influence on the negative estimate."""
        return replace(self, moved=-self.moved, cubes=None if self.cubes is None else -self.cubes)

    def __sub__(self, other: Influence) -> Influence:
        """Influence on the difference of two estimates from the same rows and independently sampled donors."""
        if len(self.moved) != len(other.moved):
            raise ValueError("no difference: the two estimates leave out different rows, groups or blocks of rows")
        symmetric = self.cubes == other.cubes == 0  # as of blocks
        noise = self.noise + other.noise
        return Influence(self.moved - other.moved, self.excess + other.excess, noise, cubes=0.0 if symmetric else None)


def std_error(means: Means, layout: Layout, sample: Sample, rows: Indices) -> float:
    """Jackknife standard error of the PFI of this model over new data."""
    return influence(means, layout, sample, rows).std_error


def influence(
    means: Means, layout: Layout, sample: Sample, rows: Indices, fit: RowColumnFit | None = None
) -> Influence:
    """Influence of each row, or group of rows, on the PFI of this model: the jackknife.

    Each row has two roles, observation and donor. Where the means are over all pairs, or over a grid that all rows
    share, a row or group is deleted exactly from the sums (`leave_one_out`). Where donors were sampled for each row,
    its influence is ``w_i a_i + u_i c_i``, with a and c its effects in both roles (cell ~ PFI + a_i + c_k) and w and u
    its weights among rows and donors; sampling donors adds noise to both effects, whose excess is subtracted. The
    effects need a design in which all rows, and all donors, have as many cells: `_deleted_from_sampled` has the others.
    fit: that of `fit_effects`, where it was computed before.
    """
    units, used = sample.units(), sample.units(rows)
    check_units(used, sample)
    if isinstance(layout, OwnDonors) and layout.alone:
        assert means.local is not None  # set wherever there is an importance
        local, mass = np.zeros(sample.n), np.zeros(sample.n)
        local[rows], mass[rows] = np.where(means.mass > 0, means.local, 0.0), means.mass
        return Influence(influence_on_mean(local[:, None], mass, sample.block)[:, 0])
    if isinstance(layout, CommonGrid):
        if means.influences is not None:
            return _of_all_rows(means, means.influences, units)
        return Influence(_deleted(*_by_all_rows(means, layout, sample), sample, rows))
    fit = fit_effects(means, layout, sample, rows) if fit is None else fit
    if not fit.complete and _is_uneven(layout, sample, rows):
        return _deleted_from_sampled(means, layout, sample, rows, fit.noise)
    if not np.isfinite(fit.noise):
        raise ValueError(
            "no standard error: too few cells to separate the effects of rows and donors from noise; use more donors"
        )
    if fit.complete and not layout.even:
        return Influence(_deleted(means, layout, sample, rows))
    factor = jackknife_factor(units, leaves_out_own=sample.block is not None or layout.leaves_out_own)
    if fit.fitted and (sample.block is not None or layout.leaves_out_own):
        factor = _of_a_mean(units)  # fitted effects, unlike means, include those of the own group
    moved = np.sqrt(factor) * _influence_of(fit, means, sample, rows)
    if not fit.fitted:
        return Influence(moved, noise=0.0 if fit.complete else fit.noise)
    # A fitted effect has variance D2/(m-1), not D2/m, because donor effects are fitted too. Both roles together add
    # 2 D2/(n(m-1)), of which D2/(nm) is variance of the estimate: the rest is subtracted. Rank bins (Systematic)
    # balance the donors of each row: there the noise is counted about once without a correction.
    return Influence(moved, fit.noise * (2 * fit.m / (fit.m - 1) * factor - 1), fit.noise)


def _by_all_rows(means: Means, layout: CommonGrid, sample: Sample) -> tuple[Means, CommonGrid]:
    """A grid at quantiles, with every row in the role of a donor: what it causes is interpolated on the curve.

    Its donors are no sample of m rows: they are where they are because of all rows. A row moves the quantiles beside
    its own value, and so the mean over them as far as the curve rises there; beyond the last quantile no farther.
    """
    if layout.steps is None or means.caused is None or means.donor_weight is None or not layout.has_mass:
        return means, layout
    curve, place = np.full(layout.size, np.nan), layout.own[layout.donors]
    curve[place] = means.caused[layout.donors]
    with_donors = np.flatnonzero(np.isfinite(curve))
    caused = np.interp(layout.steps, with_donors, curve[with_donors])
    weight = sample.weight / sample.weight.sum()
    on_grid = weight * np.isfinite(caused)
    caused = _centred(np.where(on_grid > 0, caused, 0.0), on_grid) + means.pfi
    return replace(means, caused=caused, donor_weight=weight), replace(layout, donors=np.arange(sample.n))


def _deleted(means: Means, layout: Layout, sample: Sample, rows: Indices) -> Floats:
    """What each unit moves, by exact deletion: ``(G-1)/G sum of (U_(-g) - mean)^2`` is the variance.

    `given` leaves r units as observations and all as donors, a grid may have few donors: the roles are samples of
    different sizes, and each has the jackknife's factor of its own size. With all rows in both roles it is one factor.
    """
    if means.local is None or means.caused is None or means.donor_weight is None:
        raise ValueError("no standard error: the mean of each donor's cells was not kept for these rows")
    mass = np.zeros(sample.n)
    mass[rows] = means.mass
    observed, donors = sample.by_unit(mass) > 0, sample.by_unit(means.donor_weight) > 0
    if donors.sum() < 2:
        raise ValueError(ONE_DONOR)
    factor = 1.0
    if sample.block is None and not layout.leaves_out_own:
        factor = sample.others_share(rows, means.mass)
    roles = leave_one_out(means, layout, sample, rows, means.pfi / factor, by_group=True)
    return _jackknife(roles[0], observed) + _jackknife(roles[1], donors)


def _is_uneven(layout: OwnDonors, sample: Sample, rows: Indices) -> bool:
    """Whether single rows have sampled donors, and some rows, or donors, have more weight or more cells than others."""
    if sample.block is not None or layout.even:
        return False
    return len(rows) < sample.n or bool(np.ptp(sample.weight) > 1e-12 * sample.weight.max())


def _deleted_from_sampled(means: Means, layout: OwnDonors, sample: Sample, rows: Indices, noise: float) -> Influence:
    """Exact deletion, less what sampling adds to the squares.

    No effect is fitted: the rows of `given` have a donor once or twice, too little for an effect of its own. Let cells
    be ``a_i + c_k + e_ik`` with weights W. Without unit g, of weight ``s_g = W_g. + W_.g`` in both roles, the mean
    moves by ``W_g. a_g + W_.g c_g``, as it should, plus ``(W_ig - s_g W_i.) / (1 - s_g)`` times each other a_i,
    likewise each other c_k, and W_ik times each e_ik of its cells, which so counts in its row and in its donor. What
    the squares of these add, less 1/u for deviations from a mean of u, is about as many variances of a, c and e.
    """
    weights, n = cell_weights(layout, sample, rows), sample.n
    by_row = np.zeros(n)
    by_row[rows] = weights.by_row
    both = by_row + weights.by_donor
    scale = np.square(1 / np.maximum(1 - both, 1 / n))
    total, added = means.mass.sum(), np.zeros(2)
    for part in chunks(rows, layout.width):
        i, k = rows[part][:, None], layout.donors[rows[part]]
        W = sample.weight[i] * layout.weights(sample, rows[part], k) / total
        added[0] += np.sum(scale[k] * W * (W - 2 * both[k] * by_row[i]))
        added[1] += np.sum(scale[i] * W * (W - 2 * both[i] * weights.by_donor[k]))
    spread = scale * both**2
    for role, share in enumerate((by_row, weights.by_donor)):
        added[role] += np.square(share) @ (spread.sum() - spread - 1 / np.sum(share > 0))
    # A cell that was measured both ways is in the row and in the donor of either unit with the same numbers.
    again = float((1 + weights.swapped) * added.sum() + weights.squares) / 3
    moved = _deleted(means, layout, sample, rows)
    # The variance of a cell is the mean of squares - PFI^2 + V, where V = moved^2 - again times this variance.
    excess = again / (1 + again) * (max(float(means.square - means.pfi**2), 0.0) + float(moved @ moved))
    # Without a fit to tell noise from effects: a mean of independent cells has about this variance, others have more.
    return Influence(moved, excess, noise if np.isfinite(noise) else excess)


def _jackknife(changes: Floats, counted: Mask) -> Floats:
    """Changes by deletion of each unit, about their mean and scaled so that their squares sum to the variance."""
    u = int(counted.sum())
    return np.where(counted, np.sqrt((u - 1) / u) * (changes - changes[counted].mean()), 0.0)


def influence_on_mean(values: Floats, weight: Floats, block: Indices | None = None) -> Floats:
    """What each row, or group of rows, moves weighted means by exact deletion, (n, p) -> (n, p) or (G, p).

    Without group g a mean is ``(S - S_g) / (W - W_g)``, S the sum of w x: less by ``(S_g - W_g mean) / (W - W_g)``.
    """
    total, of_unit = weight.sum(), by_unit(weight, block)
    if np.count_nonzero(of_unit) < 2:
        raise ValueError(f"a standard error needs at least 2 {_called(block)} with weight")
    pull = by_unit(weight[:, None] * (values - weight @ values / total), block)
    changes = pull / (total - of_unit)[:, None]
    return jackknifed(changes, of_unit > 0)


def jackknifed(changes: Floats, counted: Mask) -> Floats:
    """Changes by deletion of each unit, (u, p), about their mean and scaled: `_jackknife` of each column."""
    return np.stack([_jackknife(column, counted) for column in changes.T], axis=1)


def influence_on_error(sample: Sample, rows: Indices) -> Influence:
    """Influence of each row on the mean loss of these rows, nothing replaced."""
    assert sample.loss is not None  # results with a loss have it
    used = sample.units(rows)
    check_units(used, sample)
    weight = np.zeros(sample.n)
    weight[rows] = sample.weight[rows]
    total = None if sample.totals is None else _of_a_mean(used) * sample.totals.error_square
    return Influence(influence_on_mean(sample.loss[:, None], weight, sample.block)[:, 0], total=total)


def _of_all_rows(means: Means, sums: InfluenceSums, units: int) -> Influence:
    """Sums over all rows of files; influences of the kept rows are scaled so that their squares sum to the variance."""
    if means.local is None or means.caused is None or means.donor_weight is None:
        raise ValueError("no standard error: the mean of each donor's cells was not kept for these rows")
    moved = means.donor_weight * (means.caused - means.pfi) + means.mass / means.mass.sum() * (means.local - means.pfi)
    factor = jackknife_factor(units)
    variance, square = factor * sums.square, float(moved @ moved)
    return Influence(
        moved * np.sqrt(variance / square) if square > 0 else moved,
        total=variance,
        cubes=factor**1.5 * sums.cube,
        with_error=float(np.sqrt(factor * _of_a_mean(units))) * sums.with_error,
    )


def _of_a_mean(units: int) -> float:
    """The factor from a sum of squared influences to the variance of a mean over rows, or groups."""
    return units / (units - 1)


def ratio_influence(importance: Influence, on_error: Influence, unbiased: float, error: float) -> Influence:
    """Influence of each row on ``1 + importance / error``, to first order: both numbers depend on the rows."""
    slope = unbiased / error
    total = None
    if importance.with_error is not None:
        total = importance.variance - 2 * slope * importance.with_error + slope**2 * on_error.variance
        total = max(total, 0.0) / error**2
    moved = importance.moved / error - unbiased / error**2 * on_error.moved
    return Influence(moved, importance.excess / error**2, importance.noise / error**2, total)


def check_units(units: int, sample: Sample) -> None:
    """Check that there are enough rows or groups for a standard error."""
    if units < 3:
        raise ValueError(f"a standard error needs at least 3 {_called(sample.block)} with weight; there are {units}")


def _called(block: Indices | None) -> str:
    return "rows" if block is None else "groups"


def monte_carlo_variance(means: Means, layout: Layout, sample: Sample, rows: Indices) -> float:
    """Variance of the PFI over fresh draws of the donors: ``D2/(nm)``, for distinct shifts ``(1 - (m-1)/(n-1))`` of it.

    D2 is the residual mean square of the fit cell ~ row + donor. For rank bins (Systematic) this is an upper bound.
    """
    if isinstance(layout, CommonGrid):
        return 0.0
    if layout.alone:
        raise ValueError("no Monte-Carlo error: the variance of a sampler's draws is not estimated separately")
    return fit_effects(means, layout, sample, rows).noise


def grid_influence(means: Means, design: Design, sample: Sample) -> Influence:
    """Influence of each donor of a grid on the PFI: donors are sampled from the rows without replacement."""
    if design.ranked:
        raise ValueError(f"no Monte-Carlo error: {design!r} is not random; use Latin(m) or Grid(m)")
    if means.caused is None or means.donor_weight is None:
        raise ValueError("no Monte-Carlo error: the mean of each donor's cells was not kept")
    donors = means.donor_weight > 0
    d = int(donors.sum())
    if d < 2:
        raise ValueError("no Monte-Carlo error: it compares donors, and there is only one; use two or more")
    left = max(1 - d / sample.units(), 0.0)
    return Influence(np.sqrt(d / (d - 1) * left) * means.donor_weight[donors] * (means.caused[donors] - means.pfi))


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
    """The influence of each unit, with effects that were fitted (or are means) in a sampled design, less one factor.

    Deleting unit g from a weighted mean of effects moves it by ``s_g a_g / (1 - s_g)``, s_g its share of the weight
    and a_g its own mean effect, where u equal shares have ``s_g a_g u / (u - 1)``. The common factor is for n equal
    shares: beside it each unit is scaled by ``(1 - 1/u) / (1 - s_g)``. A role of u < n units, such as the rows of
    `given`, has the variance of a mean of u, larger than that of n by ``u (n - 1) / ((u - 1) n)``.
    """
    assert means.donor_weight is not None  # `Averages` sets it for OwnDonors
    mass, row = np.zeros(sample.n), np.zeros(sample.n)
    mass[rows], row[rows] = means.mass / means.mass.sum(), fit.row  # a row without donors has effect 0
    n = sample.units()
    moved = np.zeros(len(sample.by_unit(mass)))
    for share, effect in ((mass, row), (means.donor_weight, fit.donor)):
        each, pull = sample.by_unit(share), sample.by_unit(share * effect)
        u = int(np.sum(each > 0))
        if u < 2:
            raise ValueError(ONE_DONOR)
        scaled = (1 - 1 / u) * np.where(each > 0, pull, 0.0) / (1 - each)
        moved += np.sqrt(u * (n - 1) / ((u - 1) * n)) * np.where(each > 0, scaled - scaled.sum() / u, 0.0)
    return moved


def fit_effects(means: Means, layout: OwnDonors, sample: Sample, rows: Indices) -> RowColumnFit:
    """Effects of rows and donors and the residual mean square, from row sums, donor sums and the mean square.

    Rows and donors are not orthogonal in an incomplete design: a row's mean includes the effects of its own donors.
    Evenly spaced shifts split rows and donors into unconnected components, whose effects can't be compared; but there
    the row means are balanced already, and donor means are corrected for them.
    """
    return fit_several([means], layout, sample, rows)[0]


def fit_several(
    several: Sequence[Means], layout: OwnDonors, sample: Sample, rows: Indices, weights: CellWeights | None = None
) -> list[RowColumnFit]:
    """`fit_effects` of several means over the same cells."""
    if layout.width < 3:
        raise ValueError(
            f"no standard error from {layout.width} donor(s) a row: the variance between rows can't be separated from "
            "noise; use 3 donors or more"
        )
    weights = cell_weights(layout, sample, rows) if weights is None else weights
    totals = [_effect_totals(means, weights) for means in several]
    effects = weights.effects(totals)
    return [
        _fitted(means, layout, sample, weights, of_sums, solved)
        for means, of_sums, solved in zip(several, totals, effects, strict=True)
    ]


def _effect_totals(means: Means, weights: CellWeights) -> EffectTotals:
    """The weighted sums of the cells of each row and donor, less the mean."""
    if means.local is None or means.caused is None:
        raise ValueError("no standard error: the mean of each donor's cells was not kept for these rows")
    pfi = means.pfi
    row, donor = (
        np.where(weight > 0, mean, pfi)  # without weight there is no mean
        for weight, mean in ((weights.by_row, means.local), (weights.by_donor, means.caused))
    )
    size = float(weights.by_row @ np.abs(row) + weights.by_donor @ np.abs(donor))
    return EffectTotals((row - pfi) * weights.by_row, (donor - pfi) * weights.by_donor, size)


def _fitted(
    means: Means,
    layout: OwnDonors,
    sample: Sample,
    weights: CellWeights,
    totals: EffectTotals,
    effects: DonorEffects,
) -> RowColumnFit:
    by_row, by_donor, cells = weights.by_row, weights.by_donor, weights.cells
    freedom, components = weights.freedom, weights.components
    unexplained = max(float(means.square - means.pfi**2 - effects.explained), 0.0)
    residual = unexplained * cells / freedom if freedom > 0 else np.nan  # D2
    complete = not layout.repeats and layout.width >= sample.n - 1
    # With all distinct shifts there is no noise.
    left = 1.0 if layout.repeats else 1 - (layout.width - 1) / (sample.n - 1)
    balanced = complete or layout.binned or layout.spread or components > 1
    if balanced:
        row, donor = inverse(by_row) * totals.row, inverse(by_donor) * (totals.donor if complete else effects.left)
    else:
        row, donor = weights.row_effects(totals, effects), effects.donor
    return RowColumnFit(
        row=_centred(row, by_row),
        donor=_centred(donor, by_donor),
        noise=residual * weights.squares * left,
        m=cells / (1 - weights.swapped / 2) / int(np.sum(by_row > 0)),
        fitted=not balanced,
        complete=complete,
    )


def _centred(effect: Floats, mass: Floats) -> Floats:
    return np.where(mass > 0, effect - (effect @ mass) / mass.sum(), 0.0)


def jackknife_factor(units: int, *, leaves_out_own: bool = False) -> float:
    """The factor from a sum of squared influences to the jackknife variance of a mean over pairs of rows.

    V-statistics, which include pairs of a row with itself, are first scaled to the U-statistic.
    """
    factor = 1.0 if leaves_out_own else units / (units - 1)
    return factor**2 * units * (units - 1) / (units - 2) ** 2


def interval(estimate: float, error: float, units: float, level: float, skewness: float = 0.0) -> tuple[float, float]:
    """A confidence interval: Student's, the end on the side of the skewness bent outward as `reach` says.

    `units` are effective (`Sample.effective_units`); `skewness` is that of the estimate, and is limited here.
    """
    from scipy.stats import t

    down, up = reach(float(t.ppf((1 + check_level(level)) / 2, degrees_of_freedom(units))), skewness)
    return estimate - error * float(down), estimate + error * float(up)


def around(value: float, centre: float, ends: tuple[float, float]) -> tuple[float, float]:
    """The interval of a number as it is printed, from the ends of an interval about `centre`.

    A mean over all pairs is c times that over pairs of different rows, about which the interval is, with c < 1. Each
    end is the farther one of itself and c times itself: the interval covers as often, and has the number inside. Where
    the two numbers have different signs, the ends are shifted instead.

    >>> around(0.9, 1.0, (0.5, 2.0)), around(0.9, 1.0, (-0.5, 2.0)), around(3.0, 3.0, (1.0, 5.0))
    ((0.45, 2.0), (-0.5, 2.0), (1.0, 5.0))
    """
    low, high = ends
    share = value / centre if value * centre > 0 else None
    shown = (low + value - centre, high + value - centre) if share is None else (low * share, high * share)
    return min(low, shown[0]), max(high, shown[1])


def p_value(estimate: float, error: float, units: float, skewness: float = 0.0) -> float:
    """One-sided p-value of no importance, against a positive one: the level at which the lower end is 0, inverted."""
    from scipy.stats import t

    if not np.isfinite(error):
        return float("nan")
    if not error > 0:
        return 0.0 if estimate > 0 else 1.0
    return float(t.sf(_quantile_at(estimate / error, skewness), degrees_of_freedom(units)))


def degrees_of_freedom(units: float) -> float:
    """Degrees of freedom of Student's t, from the effective number of rows or groups."""
    return max(units - 1, 1.0)


def welch(variances: tuple[float, float], units: tuple[float, float]) -> float:
    """Degrees of freedom of a difference between two sets of rows: Welch's and Satterthwaite's."""
    freedoms = list(map(degrees_of_freedom, units))
    parts = sum(v**2 / f for v, f in zip(variances, freedoms, strict=True))
    return max(int(sum(variances) ** 2 / parts) if parts > 0 else min(freedoms), 1)


def skewness_limit(t: Any) -> Any:
    """The largest skewness that an interval with quantile t is bent by: ``3 (sqrt(t^2 + 1/2) - t)``.

    A larger estimate comes from a few rows. The limit falls as t grows, so that intervals grow with their level: bent
    by Hall's correction alone, they reach no farther than ``REACH (t + sqrt(t^2 + 1/2))`` standard errors.
    """
    return 3 * (np.sqrt(t**2 + 0.5) - t)


# Hall's at the limit is (3 / a)(1 - cbrt(1 - a t - a^2 / 6)) = (3 / a)(1 - cbrt(1/4)).
REACH = 2 * (1 - 0.25 ** (1 / 3))
LENGTHENING = 2 / 3


def lengthened(t: Any, skewness: Any) -> Any:
    """The quantile for the end on the side of the skewness a: ``t + 2/3 a^2 (a / limit)^2 (t^3 + t)``.

    The variance of an estimate is estimated, too. With influences of excess kurtosis k it varies as one of 2n/(k + 2)
    degrees of freedom. Where they are like gamma variables, k is 3/2 of their squared skewness ``n a^2``, and 1/freedom
    is ``1/n + 3/4 a^2``: Student's quantile, which grows by ``(t^3 + t) / 4`` times 1/freedom, is longer by
    ``3/16 a^2 (t^3 + t)``. But samples without the far rows of a skewed distribution show neither its skewness nor its
    kurtosis: in those whose interval misses, a is two thirds of the usual one. More is therefore added, and less only
    where a is far below its limit: 2/3 and the square of a / limit were chosen by simulation, so that exponential
    features with an interaction are covered at n = 80 (``python -m benchmarks.coverage_data --only skewed_shares``) and
    normal ones as before.

    At the limit the interval reaches 4.3 standard errors at 95%, 5.5 at 99% (n = 300) on this side, on the other t.
    """
    limit = np.maximum(skewness_limit(t), 1e-300)  # rounded to 0 for a t of 1e8
    a = np.minimum(np.abs(skewness), limit)
    return t + LENGTHENING * np.square(a * a / limit) * (t**3 + t)


def reach(t: Any, skewness: Any) -> tuple[Floats, Floats]:
    """How far an interval with quantile t extends down and up, in standard errors: `bent`, by a lengthened quantile.

    Positive skewness moves the upper end only.
    """
    longer = lengthened(t, skewness)
    down, up = bent(longer, skewness)
    return np.where(skewness < 0, down, t), np.where(skewness > 0, up, t)


def bent(t: Any, skewness: Any) -> tuple[Floats, Floats]:
    """How far down and up by Hall's correction for skewness, or by Student's quantile t where that is farther.

    Bending an end in would exclude 0 more often than stated.
    """
    a = np.clip(skewness, -skewness_limit(t), skewness_limit(t))
    return np.maximum(t, _hall(t, a)), np.maximum(t, -_hall(-t, a))


def _quantile_at(distance: float, skewness: float) -> float:
    """The quantile whose interval reaches this far down: the inverse of `reach`, continued below 0."""
    x, a = distance, skewness
    if a >= 0:
        return x
    longer = x + a * x**2 / 3 + a**2 * x**3 / 27 + a / 6
    if -a > skewness_limit(longer):  # `bent` at the limit, inverted; x > 0 here, as `longer` < a / 6 elsewhere
        longer = (x**2 - 0.5 * REACH**2) / (2 * REACH * x)
    return min(x, longer if longer <= 0 else _before_lengthening(longer, a))


def _before_lengthening(longer: float, a: float) -> float:
    """The quantile t > 0 that is lengthened to this one, which is t or more and grows with t."""
    from scipy.optimize import brentq

    return float(brentq(lambda t: float(lengthened(t, a)) - longer, 0.0, longer, xtol=1e-14, rtol=1e-14))


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


def _hall(t: Any, a: Any) -> Floats:
    """Inverse of Hall's (1992) ``t + a t^2 / 3 + a^2 t^3 / 27 + a / 6``, which is nearly symmetric for skewness a.

    That is ``(3 / a) (cbrt(1 + a (t - a / 6)) - 1)``.
    """
    curved = np.abs(a) >= 1e-6
    safe = np.where(curved, a, 1.0)
    return np.asarray(np.where(curved, 3 / safe * (np.cbrt(1 + safe * (t - safe / 6)) - 1), t))
