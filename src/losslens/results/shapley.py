"""Shapley feature importance: the model's performance distributed over features, rows and donors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from losslens import game_theory, plots
from losslens.cells.matrix import Cells, Means, means
from losslens.donors.layout import CommonGrid, Layout, OwnDonors
from losslens.losses import Loss
from losslens.plots.look import Look, draws
from losslens.results.base import Ranked, Stored, WithLocal
from losslens.results.clusters import Clusters
from losslens.results.gap import Gap, gap_between
from losslens.results.importances import Importances
from losslens.results.interactions import Interactions
from losslens.results.observations import Observations
from losslens.results.selection import Compared, Grouped, positions
from losslens.results.shapley_curve import ShapleyCurve, Values
from losslens.results.table import ERROR, FEATURE, ResultTable, named, or_else
from losslens.tables.checks import is_one_of
from losslens.tables.constant import best_constant, skill
from losslens.tables.features import position_of
from losslens.tables.sample import Sample, Totals
from losslens.text import (
    Sentence,
    claim,
    how_computed,
    in_digits,
    listed,
    measured,
    percent,
    rounding_error,
    share_in_words,
    size_in_words,
)
from losslens.tracebacks import brief
from losslens.typing import Axes, Colors, FeatureLabels, Floats, Indices, Mask, Sort
from losslens.uncertainty import cautions, standard_errors
from losslens.uncertainty.inference import Difference, Estimates, Inference, Unit, between
from losslens.uncertainty.row_errors import row_errors
from losslens.uncertainty.standard_errors import Influence, Target, check_level

SHOWN = 0.0005  # smallest share, of the total, that tables with one decimal show


@dataclass(frozen=True, eq=False)
class Shares(Stored):
    """Shapley shares of single rows, donors and pairs."""

    local: Floats  # (r, p): mean over the donors of each row
    caused: Floats | None  # (n, p): mean over the rows of each donor; None where donors are averaged first
    layout: Layout  # the pairs of rows and donors
    cells: Floats | None = None  # (r, m, p): of every pair; None where there are too many
    local_error: Floats | None = None  # (r, p): Monte-Carlo error of local; None: computed from the pairs of all rows

    @property
    def leaves_out_own(self) -> bool:
        """Whether no row is its own donor."""
        return self.layout.leaves_out_own

    @property
    def is_complete(self) -> bool:
        """Whether the shares are means over all pairs, and not over drawn ones."""
        return isinstance(self.layout, CommonGrid)

    def of(self, j: int | tuple[int, int]) -> Floats:
        """Shares of each row, of one feature or the difference of two."""
        return _pick(j, self.local)

    def means(self, j: int | tuple[int, int], sample: Sample, rows: Indices, *, alike: bool = True) -> Means:
        """Means over the pairs of one feature, or of the difference of two.

        alike: a pair that was measured together with the one of row and donor swapped has the mean of both. Errors
        depend on nothing else, and the noise of single pairs is then that of independent measurements.
        """
        if self.cells is not None:
            changes = np.ascontiguousarray(_pick(j, self.cells))
            if alike and isinstance(self.layout, OwnDonors) and self.layout.mirrored:
                changes = self.layout.mean_with_swapped(changes, rows)
            return means(Cells(rows, np.broadcast_to(0.0, changes.shape), changes), self.layout, sample)
        if isinstance(self.layout, OwnDonors) and self.layout.alone:
            return Means(local=self.of(j), mass=sample.weight[rows])
        if self.caused is None or len(rows) < sample.n:
            raise ValueError("the shares of each donor in these rows were not kept")
        mass = sample.weight * donor_mass(sample, leaves_out_own=self.leaves_out_own)
        return Means(local=self.of(j), mass=mass, caused=_pick(j, self.caused), donor_weight=mass / mass.sum())


def _pick(j: int | tuple[int, int], shares: Floats) -> Floats:
    return shares[..., j] if isinstance(j, int) else np.asarray(shares[..., j[0]] - shares[..., j[1]])


def mean_of(local: Floats, weight: Floats) -> Floats:
    """The mean over rows with weight and donors, (p,)."""
    counted = (weight > 0) & ~np.isnan(local).any(axis=1)
    return np.asarray(weight[counted] @ local[counted] / weight[counted].sum())


def with_mean(caused: Floats, weight: Floats, sfimp: Floats) -> Floats:
    """Donor means, shifted to have the mean of the rows, from which sampled pairs with weights may deviate."""
    return np.asarray(caused + (sfimp - mean_of(caused, weight)))


def donor_mass(sample: Sample, *, leaves_out_own: bool = False) -> Floats:
    """The weight of the donors of each row, (n,): all, those of other groups, or all other rows."""
    if sample.block is not None:
        return np.asarray(1 - np.bincount(sample.block, sample.weight)[sample.block])
    return 1 - sample.weight if leaves_out_own else np.ones(sample.n)


def monte_carlo_error(shares: Shares, sample: Sample, rows: Indices) -> Floats:
    """Standard error over new draws of donors and orders, (p,); NaN where too few were drawn."""
    p = shares.local.shape[1]
    try:
        variance = [
            standard_errors.monte_carlo_variance(shares.means(j, sample, rows), shares.layout, sample, rows)
            for j in range(p)
        ]
    except ValueError:
        return np.full(p, np.nan)
    return np.asarray(np.sqrt(np.array(variance)))


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class ShapleyImportance(Grouped, Ranked, WithLocal, Inference):
    """How much of a model's performance each feature contributes; the shares sum to ``error_none - error_all``.

    `to_frame()` has one row a feature, the most important first.

    Examples
    --------
    >>> import numpy as np, losslens as ll
    >>> X = np.random.default_rng(0).normal(size=(100, 2))
    >>> shares = ll.shapley_importance(lambda X: X[:, 0] + X[:, 1], X, X[:, 0] + X[:, 1], loss="squared_error")
    >>> bool(np.isclose(shares.sfimp.sum(), shares.error_none - shares.error_all)), round(float(shares.share.sum()), 9)
    (True, 1.0)
    """

    features: tuple[str, ...]  #: names of the features
    sfimp: Floats  #: Shapley importance of each feature, (p,): positive = useful
    error_all: float  #: error of the model, nothing replaced (GE_P)
    error_none: float  #: error with all features replaced (GE_0)
    title: str  #: name of the loss or the scorer
    loss: Loss | None  #: None: a scorer, whose errors are scores with a minus sign
    aggregate: Literal["loss", "prediction"]  #: what is averaged over donors
    method: str  #: how it was computed, in words
    engine: str  #: the engine that computed the predictions
    design: str  #: the donor design that was used
    exact: bool  #: whether the importances are not sampled; single rows may be, see `local_error`
    n_predictions: int  #: rows that the model predicted
    sample: Sample
    at: Indices  # positions in the sample of the rows of this result
    values: Values
    monte_carlo_error: Floats  #: standard error due to sampled orders and donors, (p,); 0 without sampling
    backend: str
    freedom: float = np.inf  # degrees of freedom of the Monte-Carlo error
    leaves_out_own: bool = False  # without pairs of a row with itself: the U-statistic
    shares: Shares | None = None
    both: Floats | None = None  # (n, p): shares of each row plus those of it as a donor, where there are no others
    gains: Floats | None = None  # (r,): how much all features together reduce each row's loss
    #: the error of every coalition, (2^p,); bit j: feature j is kept; None where not all were computed
    table: Floats | None = None
    covariance: Floats | None = None  # (p, p): of the shares over new data, where no row was kept
    cubes: Floats | None = None  # (p, p): likewise their third moments, of j twice and k once
    index: Floats | None = None  # (p, p): interactions, where they were computed without a table
    absent: str = ""  # how to obtain shares of single rows
    remarks: tuple[str, ...] = ()
    #: why the model made the predictions, or an engine computed a sample; empty if one computed everything exactly
    declined: str = ""
    complete: bool = True  #: False: the run was interrupted
    covers_table: bool = False  # whether every column belongs to a feature; False in older files

    _internal = ("absent", "both", "gains", "index", "remarks", "shares", "values", "totals")

    @property
    def totals(self) -> Totals | None:
        """Totals over all rows of files; None for data in memory."""
        return self.sample.totals

    # -- numbers --------------------------------------------------------------------------------------------------

    @property
    def share(self) -> Floats:
        """Each feature's share of the total, (p,): they sum to one."""
        if not self._total:
            raise ValueError("the features together do not change the error, so percentages are undefined; use .sfimp")
        return np.asarray(self.sfimp / self._total)

    @property
    def _total(self) -> float:
        """How much all features reduce the error; 0 up to rounding errors."""
        total = self.error_none - self.error_all
        return total if abs(total) > 1e-12 * (abs(self.error_none) + abs(self.error_all)) else 0.0

    @property
    def error_constant(self) -> float:
        """The error of the best constant, such as the mean of y for the squared error, on the same rows."""
        if self.loss is None:
            raise ValueError(f"the best constant is not known for the scorer {self.title}; use a loss")
        return best_constant(self.loss, self.sample, self.at).error

    @property
    def skill(self) -> float:
        """``1 - error_all / error_constant``: 0 as good as the best constant; R² for the squared error."""
        return skill(self.error_all, self.error_constant)

    @property
    def clipped(self) -> float:
        """Share of the pairs whose donor alone gives the row's class probability 0: log losses at the clipping bound.

        They are part of `error_none`. NaN where that is not the error of predictions for other rows, because some
        columns belong to no feature, and for data in files.
        """
        sample, loss = self.sample, self.loss
        bound = None if loss is None else loss.ceiling(sample.prediction.dtype)
        if loss is None or bound is None or self.aggregate == "prediction":
            return 0.0
        if sample.totals is not None or sample.y is None or not self.covers_table:
            return np.nan
        weight = sample.weight[self.at] / sample.weight[self.at].sum()
        of_class = np.bincount(sample.y[self.at], weight, minlength=sample.prediction.shape[1])
        losses = [loss(np.full(sample.n, c), sample.prediction) for c in range(len(of_class))]
        at_bound = np.array([sample.weight @ (one >= bound * (1 - 1e-9)) for one in losses])
        return float(of_class @ at_bound)

    @property
    def unbiased(self) -> Floats:
        """The U-statistics, without pairs of a row with itself, (p,): what intervals and tests are of."""
        return np.asarray(self.sfimp * self._up_to_u)

    @property
    def paper_sfimp(self) -> Floats:
        """SFIMP with the sign of the paper: the change of the error, negative for a useful feature."""
        return np.asarray(-self.sfimp)

    @property
    def local(self) -> Floats:
        """Importance of each feature for each row, (n, p): rows sum to `observations`, column means are SFIMP."""
        return self._row_shares.local

    @cached_property
    def local_error(self) -> Floats:
        """Standard error of each number of `local` due to sampled orders and donors, (n, p).

        0 without sampling; NaN where fewer than three walks, or too few rows, were drawn to estimate it.
        """
        shares, sample = self._row_shares, self.sample
        if shares.local_error is not None:
            return shares.local_error
        if isinstance(shares.layout, CommonGrid):
            return np.full(shares.local.shape, 0.0 if self.exact else np.nan)
        if shares.cells is None or self.gains is None or len(self.at) < sample.n:
            return np.full(shares.local.shape, np.nan)
        m = shares.layout.width
        sweep, donors = np.arange(m) % (m // 2 if shares.layout.mirrored else m), shares.layout.donors[self.at]
        mass, cells, local, gains = shares.layout.weights(sample, self.at), shares.cells, shares.local, self.gains
        # Where both roles together are exact, only half of their difference is drawn.
        if self.both is not None and shares.caused is not None:
            each = (np.ascontiguousarray(_pick(j, cells)) for j in range(local.shape[1]))
            cells = np.stack([one - shares.layout.mean_with_swapped(one, self.at) for one in each], axis=2)
            local = (shares.local - shares.caused) / 2
            gains = local.sum(axis=1)
        errors = row_errors(cells, sweep, donors, mass, local, gains, sample.weight)
        if shares.layout.repeats:
            return errors
        others = sample.n - 1 - int(shares.leaves_out_own)  # donors are drawn without replacement: all leave no error
        return np.asarray(errors * np.sqrt(max(0.0, 1 - (m - 1) / max(1, others))))

    @property
    def _lines(self) -> list[tuple[str, float, Floats]]:
        """Name, importance and local importances of each feature."""
        return list(zip(self.features, self.sfimp.tolist(), self.local.T, strict=True))

    @property
    def observations(self) -> Floats:
        """How much all features together reduce the loss of each row, (n,)."""
        if self.gains is None:
            raise ValueError(f"no importance of single rows: {self.absent}")
        return self.gains

    @cached_property
    def sampling_error(self) -> Floats:
        """Standard error of this model's importance on new data, without the Monte-Carlo error, (p,)."""
        if self.covariance is not None:
            return np.asarray(np.sqrt(np.diagonal(self.covariance)))
        return np.sqrt([one.variance for one in self._influences])

    @property
    def std_error(self) -> Floats:
        """Standard error of `sfimp` for this model on new data, (p,): sampling and Monte-Carlo error together."""
        return np.asarray(np.hypot(self.sampling_error, self.monte_carlo_error))

    def interval(self, level: float = 0.95, target: Target = "model") -> tuple[Floats, Floats]:
        """Low and high ends for each feature.

        Parameters
        ----------
        level
            The coverage probability.
        target
            ``"model"``: this model on new data (both errors). ``"sample"``: the value over
            all orders and pairs of this sample (Monte-Carlo error only).
        """
        if standard_errors.check_target(target) == "sample":
            from scipy.stats import t

            reach = float(t.ppf((1 + check_level(level)) / 2, self.freedom)) * self.monte_carlo_error
            return self.sfimp - reach, self.sfimp + reach
        numbers = Estimates(
            self.features, self.sfimp, self.std_error, self._units, self._skewness, centre=self.unbiased
        )
        return numbers.intervals(level)

    @cached_property
    def caution(self) -> tuple[str, ...]:
        """Why each number or its interval is to be taken with caution, (p,); empty text if it is not."""
        skewness = or_else(lambda: self._skewness, None)
        if skewness is None:
            return ("",) * len(self.features)
        doubts = zip(skewness.tolist(), self._doubts, strict=True)
        return tuple(" ".join(filter(None, (cautions.of_estimate(a, self._units), doubt))) for a, doubt in doubts)

    @property
    def _doubts(self) -> tuple[str, ...]:
        """Why each number is to be taken with caution: a target that is mostly one value."""
        sample = self.sample if len(self.at) == self.sample.n else self.sample.at(self.at)
        doubt = cautions.inflated(sample)
        return tuple(doubt if value else "" for value in self.sfimp.tolist())

    def influence(self, feature: str) -> Influence:
        """Influence of each row, as an observation and as a donor, on the share of `feature`."""
        return self._influences[position_of(feature, self.features)]

    @cached_property
    def _estimates(self) -> Estimates:
        """The importances of this model on new data and their covariance."""
        if np.isnan(self.std_error).any():
            raise ValueError("no test and no difference: the Monte-Carlo error of the shares is unknown")
        exact = self.both is not None or self.covariance is not None
        covariance, cubes = self._exact_moments() if exact else self._moments_of_differences()
        return Estimates.of_covariance(
            self.features, self.sfimp, covariance, self._units, skewness=self._skewness, cubes=cubes,
            centre=self.unbiased, unit="rows" if self.sample.block is None else "groups", influences=self._moving,
            doubts=self._doubts,
        )  # fmt: skip

    def _exact_moments(self) -> tuple[Floats, Floats]:
        """Covariances, and third moments of differences; the influence on a difference is that of differences here."""
        if self.covariance is not None and self.cubes is not None:
            covariance, cubes = self.covariance, self.cubes
        else:
            moved = np.stack([one.moved for one in self._influences])
            covariance, cubes = moved @ moved.T, np.square(moved) @ moved.T
        own = np.diagonal(cubes)
        return covariance, np.asarray(own[:, None] - own - 3 * (cubes - cubes.T))

    def _moments_of_differences(self) -> tuple[Floats, Floats]:
        """Covariances, and third moments of differences, from each difference where donors or orders are sampled."""
        drawn, cubes = self.monte_carlo_error, np.zeros((len(self.features),) * 2)
        covariance = np.diag(np.square(self.std_error))
        for j, k in combinations(range(len(self.features)), 2):
            own, of_both = self.sampling_error[j] ** 2 + self.sampling_error[k] ** 2, self._influence((j, k))
            # Shares of one walk are negatively correlated: for sampling, the least favourable covariance is assumed.
            covariance[j, k] = covariance[k, j] = (own - of_both.variance) / 2 - drawn[j] * drawn[k]
            cubes[j, k], cubes[k, j] = of_both.third_moment, -of_both.third_moment
        return covariance, cubes

    @property
    def interactions(self) -> Interactions:
        """How much more every two features are worth together: the Shapley interaction index, from all coalitions.

        Correlated features have one even if the model only adds them; `pair_interactions` separates the two.
        """
        if self.table is None and self.index is None:
            raise ValueError(
                "interactions need the error of every coalition, which this result has not: with all rows, pass "
                "method='rows' for few features; or use pair_interactions, PFI_j + PFI_l - PFI_jl"
            )
        index = self.index if self.table is None else game_theory.interactions(self.table)
        assert index is not None
        return Interactions(self.features, index, "Shapley interaction index", self.title, self.backend)

    # -- some rows ------------------------------------------------------------------------------------------------

    @brief
    def given(self, rows: Any) -> Self:
        """The result for these rows as observations, with donors from all rows.

        `rows` is a boolean mask or a list of rows: labels, if X is a pandas frame whose index has labels, otherwise
        positions.
        """
        chosen = positions(rows, len(self.at), self.row_labels, self.backend)
        every, own = self._row_shares, self.at[chosen]
        weight = self.sample.weight[own]
        if not weight.sum() > 0:
            raise ValueError("the chosen rows have weight 0; choose rows with weight")
        cells = None if every.cells is None else every.cells[chosen]
        error = None if every.is_complete else self.local_error[chosen]
        shares = replace(every, local=every.local[chosen], cells=cells, caused=None, local_error=error)
        weight = weight * donor_mass(self.sample, leaves_out_own=every.leaves_out_own)[own]
        sfimp = mean_of(shares.local, weight)
        assert self.sample.loss is not None  # shares need a loss
        error_all = float(self.sample.weight[own] @ self.sample.loss[own] / self.sample.weight[own].sum())
        gains = None if self.gains is None else self.gains[chosen]
        none = error_all + float(sfimp.sum())
        new = replace(
            self, sfimp=sfimp, error_all=error_all, error_none=none, at=own, shares=shares, gains=gains, table=None,
            both=None, covariance=None, cubes=None, index=None, exact=self.exact and every.is_complete,
        )  # fmt: skip
        return replace(new, monte_carlo_error=new._monte_carlo(self.monte_carlo_error))

    @property
    def _moving(self) -> tuple[Influence, ...]:
        """Influences whose variances include the Monte-Carlo error; none where no rows are kept."""
        influences: list[Influence] = or_else(lambda: self._influences, [])
        return tuple(Influence(one.moved, total=e**2) for one, e in zip(influences, self.std_error, strict=False))

    def _less(
        self, other: ShapleyImportance, feature: str, names: tuple[str, str], level: float, *, paired: bool
    ) -> Difference:
        """A share of this model less that of another, on the same rows or on others."""
        j, one, another = position_of(feature, self.features), self.influence(feature), other.influence(feature)
        if not paired:
            return between(self.estimates(), other.estimates(), feature, names, level, "independent")
        # Both may have drawn the same walks. The covariance of their noise is unknown: the least favourable is assumed.
        moved = one.moved - another.moved
        drawn = self.monte_carlo_error[j] + other.monte_carlo_error[j]
        both = Influence(moved, total=float(moved @ moved + drawn**2))
        return between(self.estimates(), other.estimates(), feature, names, level, "same", both)

    @property
    def _measure(self) -> Literal["score", "error"]:  # type: ignore[override]
        return "error" if self.is_error else "score"

    @property
    def _base(self) -> float:
        return self.error_all if self.is_error else -self.error_all

    doubted = ()  # features whose drawn values differ from real ones: values come from rows

    @property
    def _importance(self) -> Floats:
        return self.sfimp

    def _by_own_value(self, feature: str) -> tuple[NDArray[Any], Floats, bool]:
        """The values of a feature, the curve by own value there, and whether they have an order."""
        curve = self.curve(feature)
        return curve.grid, curve.importance, curve.ordered

    @property
    def _base_estimates(self) -> Estimates:
        influence = standard_errors.influence_on_error(self.sample, self.at)
        unit: Unit = "rows" if self.sample.block is None else "groups"
        return Estimates.of_influences(("error",), [self.error_all], [influence], self._units, unit)

    def _between(self, parts: Sequence[Any], rows: Sequence[Mask], names: tuple[str, str]) -> Compared:
        """The lines of a gap, which are how much less a feature takes off the error of the first rows."""
        gap = self.gap(*rows, names=names)
        few = "" if self.sample.block is not None else cautions.small_group(min(part._units for part in parts))

        def compare(feature: str | None, level: float) -> Difference:
            one = gap.whole(level) if feature is None else gap.part(feature, level).turned
            return replace(one, first=names[0], second=names[1], caution=" ".join(filter(None, (few, one.caution))))

        return compare

    def _values_held(self, column: str) -> NDArray[Any] | None:
        return self.values.held(column, self.at)

    @brief
    def gap(self, rows_a: Any, rows_b: Any = None, *, names: Sequence[str] | None = None) -> Gap:
        """How much larger the error of some rows is than that of others, distributed to the features.

        Donors are all rows, whatever the two groups. Standard errors are for this model on new rows, and leave out each
        row (or each group of `groups=`) as an observation and as a donor.

        Parameters
        ----------
        rows_a, rows_b
            The rows, as in `given`; `rows_b` by default all others. Rows may be in both, such as those of a site and
            all rows.
        names
            What the two groups are called.

        Examples
        --------
        >>> import numpy as np, losslens as ll
        >>> X = np.random.default_rng(0).normal(size=(200, 2))
        >>> late = np.arange(200) >= 100
        >>> y = X[:, 0] + np.where(late, -X[:, 1], X[:, 1])  # the model knows the first half
        >>> shares = ll.shapley_importance(lambda X: X[:, 0] + X[:, 1], X, y, loss="squared_error")
        >>> gap = shares.gap(late, names=("late", "early"))
        >>> bool(np.isclose(gap.parts.sum(), gap.total)), gap.lines[1 + gap.parts[1:].argmax()]
        (True, 'x1')
        """
        first = positions(rows_a, len(self.at), self.row_labels, self.backend)
        if rows_b is None:
            second = np.setdiff1d(np.arange(len(self.at)), first)
            if not len(second):
                raise ValueError("rows_a are all rows, so there are no others to compare them with; pass rows_b")
        else:
            second = positions(rows_b, len(self.at), self.row_labels, self.backend)
        shares, local = self._row_shares, np.zeros((self.sample.n, len(self.features)))
        local[self.at] = shares.local
        drawn_alone = isinstance(shares.layout, OwnDonors) and shares.layout.alone
        pairs = None if shares.cells is None or drawn_alone else (shares.cells, shares.layout, self.at)
        donors_as_they_are = pairs is None and shares.is_complete and self.aggregate == "loss"
        remark = f"intervals of lines take the donors as they are; otherwise {self._needs_pairs}"
        return gap_between(
            (self.at[first], self.at[second]), local, self.sample, pairs, with_own=self._up_to_u != 1,
            names=("these rows", "the others" if rows_b is None else "those rows") if names is None else names,
            features=self.features, title=self.title, backend=self.backend, covers_table=self.covers_table,
            remarks=(remark,) if donors_as_they_are else (),
        )  # fmt: skip

    def rank_rows(self, importances: Importances | None = None) -> Observations:
        """How much the model gains for each row, which rows look wrong, and which rows are influential.

        ``O_i = mean_k L(f(x_k), y_i) - L(f(x_i), y_i)``: the mean loss of a row with the predictions of all rows less
        that with its own. It is the sum of the row's local SFIMP. No prediction is made.

        Parameters
        ----------
        importances
            The result of `feature_importance` for the same rows: adds the influence of each row on the importance of
            the feature that would change most without it.

        Examples
        --------
        >>> import numpy as np, losslens as ll
        >>> X = np.random.default_rng(0).normal(size=(200, 2))
        >>> y = X[:, 0] + 0.1 * X[:, 1]
        >>> y[7] = -10 * X[7, 0]  # a wrong target
        >>> shares = ll.shapley_importance(lambda X: X[:, 0], X, y, loss="squared_error")
        >>> shares.rank_rows().suspicious
        array([7])
        """
        from losslens.rows.observations import rank_rows

        if not isinstance(importances, Importances | None):
            raise TypeError(f"importances must be a result of feature_importance; got {type(importances).__name__}")
        return rank_rows(self, importances)

    def clusters(
        self, X: Any, *, k: int | None = None, depth: int = 3, starts: int = 10, random_state: Any = None
    ) -> Clusters:
        """Cluster rows by their local SFIMP: by how much the model gains from each feature for a row.

        k-means on the rows' local SFIMP, n x p. All features share one scale, that of the loss, so that a feature which
        the model ignores doesn't count: ``z = asinh(local / s)``, s the median length of a row's local SFIMP. Within s
        that is linear; beyond it is logarithmic, so that a few rows with huge losses do not form a cluster. A small
        tree on the columns of X describes the clusters. No prediction is made. Shares from few walks are noisy for
        single rows: call `shapley_importance` with a higher precision or an exact method.

        Parameters
        ----------
        X
            The table that was explained; further columns may be used in rules.
        k
            Number of clusters. None: the largest number from 2 to 6 that is stable (`Clusters.stability` of 0.8 or
            more), with 1% of the rows or more in each cluster and a valley between every two of them, where the density
            is less than half of that at the lower peak; 1 if there is none, because a continuum has no natural cut.
        depth
            The most conditions in a rule.
        starts
            Random starts of k-means; the best result is taken.
        random_state
            A seed or a NumPy generator.

        Examples
        --------
        >>> import numpy as np, losslens as ll
        >>> X = np.random.default_rng(0).normal(size=(300, 3))
        >>> X[:, 2] = X[:, 2] > 0
        >>> f = lambda X: np.where(X[:, 2] == 1, X[:, 0], 10 + X[:, 1])
        >>> clusters = ll.shapley_importance(f, X, f(X), loss="squared_error").clusters(X, k=2, random_state=0)
        >>> int(clusters.sizes.sum()), len(clusters.rules)
        (300, 2)
        """
        from losslens.rows.clusters import find_clusters

        return find_clusters(self, X, k, depth, starts, random_state)

    # -- where ----------------------------------------------------------------------------------------------------

    def curve(self, feature: str, by: Literal["own", "donor"] = "own") -> ShapleyCurve:
        """Shapley importance along the values of `feature`: means over rows, or donors, with each value.

        `by` is ``"own"``, the value of the row, or ``"donor"``. Either way, the weighted mean of the curve is the
        feature's SFIMP.
        """
        j = position_of(feature, self.features)
        if not is_one_of(by, ("own", "donor")):
            raise ValueError(f"by is 'own', the row's value, or 'donor', the donor's value; got {by!r}")
        shares = self._row_shares
        if by == "own":
            weight, amount, codes = self.sample.weight[self.at], shares.local[:, j], self.values.codes[self.at, j]
        else:
            weight, amount, codes = self.sample.weight, self._caused(shares, j), self.values.codes[:, j]
        others = donor_mass(self.sample, leaves_out_own=shares.leaves_out_own)
        weight = weight * (others[self.at] if by == "own" else others)
        return ShapleyCurve.of(feature, by, self.values, j, codes, weight, amount, self.title, self.backend)

    def _caused(self, shares: Shares, j: int) -> Floats:
        if self.aggregate == "prediction":
            raise ValueError("donors have no shares where predictions are averaged over donors first; use by='own'")
        if shares.caused is not None:
            return shares.caused[:, j]
        if shares.cells is None:
            raise ValueError(f"no shares of donors in these rows: {self._needs_pairs}")
        caused = shares.means(j, self.sample, self.at, alike=False).caused
        assert caused is not None  # set by `Averages`
        mass = self.sample.weight * donor_mass(self.sample, leaves_out_own=shares.leaves_out_own)
        return with_mean(np.where(np.isfinite(caused), caused, np.nan)[:, None], mass, self.sfimp[[j]])[:, 0]

    @property
    def _needs_pairs(self) -> str:
        if self.method == "covariance":  # single rows without pairs: all of them would be too many
            return "every pair of rows is needed; explain again with method='walk'"
        needs = size_in_words(32 * self.sample.n**2 * len(self.features))
        return f"every pair of rows is needed; explain again with memory='{needs}', or with method='walk'"

    # -- shown ----------------------------------------------------------------------------------------------------

    @property
    def headline(self) -> str:
        """What the numbers are."""
        what, sign = ("decrease", 1) if self.is_error else ("increase", -1)
        none, all_own = in_digits(sign * self.error_none), in_digits(sign * self.error_all)
        ends = f"{none} with all values from other rows, {all_own} with each row's own"
        return f"{what} in {self.quantity} by each feature; {ends}"

    @property
    def is_error(self) -> bool:
        """Whether `error_all` is an error and no negated score: of a loss, or of a scorer that negates an error."""
        return self.loss is not None or measured(self.title)[1]

    @property
    def harm(self) -> str:
        """What a feature with a negative importance does."""
        return "increase the error" if self.is_error else "lower the score"

    @property
    def quantity(self) -> str:
        """The name of the loss, or of what the scorer measures."""
        return self.title if self.loss is not None else measured(self.title)[0]

    @property
    def notes(self) -> list[str]:
        """How the numbers were computed."""
        kind = f"exact over {self.design} of rows" if self.exact else f"sampled, {self.design}"
        game = "" if self.aggregate == "loss" else "SAGE: predictions averaged over donors before the loss; "
        notes = [f"{game}{kind}; method: {self.method}; {how_computed(self.engine, self.n_predictions)}"]
        if not self.exact and or_else(lambda: self.std_error, None) is None:
            notes.append("±: Monte-Carlo error only; the error on new data is unknown")
        else:
            notes = named(notes)
        if not self.complete:
            notes.append("interrupted: a valid estimate with the stated error, from fewer walks than requested")
        remarks = (self.negative_in_words, self.clipped_in_words)
        return [*notes, *(text for text in remarks if text), *self.remarks]

    @property
    @claim(level=0)
    def negative_in_words(self) -> str:
        """What negative shares mean, and hence shares above 100%; "" where all are shown as 0% or more."""
        parts = zip(self.features, self.sfimp, strict=True)
        names = [name for name, part in parts if self._total > 0 and part <= -SHOWN * self._total]
        if not names:
            return ""
        one = len(names) == 1
        who, what = listed(names, 3), f"{'its' if one else 'their'} values {self.harm}"
        return (
            f"the share{'' if one else 's'} of {who} {'is' if one else 'are'} below 0: on these rows, on average over "
            f"coalitions, {what}; the other shares add up to more than 100%"
        )

    @property
    @claim(level=0)
    def clipped_in_words(self) -> str:
        """How much of `error_none`, and so of the shares, is at the clipping bound of the log loss; "" for none."""
        if not self.clipped > 0:
            return ""
        return (
            f"{share_in_words(self.clipped)} of the predictions for other rows give the true class probability 0: "
            "their log loss is set to the clipping bound, on which the error with other rows' values and the shares "
            "depend"
        )

    def _cautions_of(self, names: Sequence[str]) -> list[str]:
        return [self.caution[self.features.index(name)] for name in names]

    @property
    def cautions(self) -> list[str]:
        """Which intervals are to be taken with caution, and why; empty if none is."""
        order = self._order.tolist()
        return cautions.noted([self.features[j] for j in order], [self.caution[j] for j in order])

    @property
    def _message(self) -> Sentence:
        from losslens.results.sentences import largest_shares

        return largest_shares(self)

    def _table(self) -> ResultTable:
        none, total = np.full(len(self.features), np.nan), self._total
        error = or_else(lambda: self.std_error, none)
        columns = {
            "feature": self.features,
            "sfimp": self.sfimp,
            "share": self.sfimp / total if total else none,
            "std_error": error,
            "monte_carlo_error": self.monte_carlo_error,
            "low": lambda: or_else(lambda: self.interval()[0], none),
            "high": lambda: or_else(lambda: self.interval()[1], none),
            "target": ["model"] * len(self.features),  # the errors are about this model's importance on new data
            "caution": lambda: list(self.caution),
        }
        drawn = self.monte_carlo_error if not self.exact and error is none else error
        noise = rounding_error(max(len(self.at), 1), self.error_none, self.error_all)
        return ResultTable(
            f"ShapleyImportance: {self.headline}", columns,
            ("{feature}", "{sfimp}[ ± {drawn}]", "[{share:>6}]"),
            (FEATURE, ("SFIMP", "{sfimp}"), ERROR, ("share", "{share}")), [*self.notes, *self.cautions],
            extra={"drawn": drawn}, like="sfimp", alike=("std_error", "low", "high", "drawn"),
            # Shares of a negative total would have the opposite sign.
            formats={"share": lambda share: percent(share if abs(share) > noise / total else 0.0) if total > 0 else ""},
            rounding=noise,
        ).ordered(self._order)  # fmt: skip

    _picture = "rankings.plot_shapley"

    @draws("rows")
    def plot_waterfall(
        self, ax: Axes | None = None, *, top: int | None = None, sort: Sort = "importance",
        colors: Colors | None = None, labels: FeatureLabels | None = None, title: str | None = None,
    ) -> Axes:  # fmt: skip
        """Draw the steps from the error with all values from other rows to that with their own, the largest first.

        Parameters
        ----------
        top
            How many features have a step of their own, the largest shares; the others are one step.
        colors
            Two colours: of features that harm and of those that help.

        Examples
        --------
        >>> import numpy as np, losslens as ll
        >>> X = np.random.default_rng(0).normal(size=(50, 2))
        >>> shares = ll.shapley_importance(lambda X: X[:, 1], X, 2 * X[:, 1], loss="squared_error")
        >>> [label.get_text() for label in shares.plot_waterfall().get_yticklabels()]
        ['no feature', 'x1', 'x0', 'all features']
        """
        return plots.shares.plot_waterfall(self, ax, Look(top, sort, colors=colors, labels=labels))

    # -- inside ---------------------------------------------------------------------------------------------------

    @property
    def _row_shares(self) -> Shares:
        if self.shares is None:
            raise ValueError(f"no shares of single rows: {self.absent}")
        return self.shares

    @property
    def _order(self) -> Indices:
        return np.argsort(-self.sfimp, kind="stable")

    @property
    def _up_to_u(self) -> float:
        """The factor from the V-statistic to the U-statistic, which is without pairs of a row with itself."""
        if self.aggregate == "prediction" or self.leaves_out_own or self.sample.block is not None:
            return 1.0
        return 1 / self.sample.others_share(self.at, self.sample.weight[self.at])

    @property
    def _units(self) -> float:
        """The effective number of rows."""
        return self.sample.effective_units(self.at)

    @property
    def _skewness(self) -> Floats:
        """Skewness of each estimate, (p,)."""
        if self.cubes is not None:
            error = np.where(self.std_error > 0, self.std_error, np.inf)
            return np.asarray(np.diagonal(self.cubes) / error / error / error)
        pairs = zip(self._influences, self.std_error.tolist(), strict=True)
        return np.array([replace(influence, total=error**2).skewness for influence, error in pairs])

    @cached_property
    def _influences(self) -> list[Influence]:
        return [self._influence(j) for j in range(len(self.features))]

    def _influence(self, j: int | tuple[int, int]) -> Influence:
        """Influence of each row on the share of a feature, or on the difference of two."""
        if self.both is not None:
            return standard_errors.influence(*self._both_means(j), self.sample, self.at)
        shares = self._row_shares
        if self.aggregate == "prediction":
            weight = self.sample.weight[self.at]
            standard_errors.check_units(self.sample.units(self.at), self.sample)
            return Influence(standard_errors.influence_on_mean(shares.of(j)[:, None], weight)[:, 0])
        if shares.cells is None and len(self.at) < self.sample.n:
            raise ValueError(f"no standard error for some rows: {self._needs_pairs}")
        averages = shares.means(j, self.sample, self.at)
        moved = standard_errors.influence(averages, shares.layout, self.sample, self.at)
        return replace(moved, excess=moved.excess + moved.noise, noise=0.0)  # the Monte-Carlo error is separate

    def _both_means(self, j: int | tuple[int, int]) -> tuple[Means, Layout]:
        """Means over all pairs: leaving out a row deletes both of its roles, so that only their sum matters."""
        assert self.both is not None
        half, n = _pick(j, self.both) / 2, self.sample.n
        mass = self.sample.weight * donor_mass(self.sample, leaves_out_own=self.leaves_out_own)
        pairs = CommonGrid(np.arange(n), np.arange(n), n, self.leaves_out_own)
        return Means(local=half, mass=mass, caused=half, donor_weight=mass / mass.sum()), pairs

    def _monte_carlo(self, unknown: Floats) -> Floats:
        """Monte-Carlo error for these rows; 0 where all pairs were used."""
        if self.shares is None or isinstance(self.shares.layout, CommonGrid) or self.shares.cells is None:
            return np.zeros(len(self.features)) if self.exact else np.full_like(unknown, np.nan)
        return monte_carlo_error(self.shares, self.sample, self.at)
