"""Shares of single rows and donors in what each feature earns.

Shapley feature importance as a result: the model's performance shared out among features, rows and donors."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import Any, Literal, Self

import numpy as np

from losslens import game_theory
from losslens.cells.matrix import Cells, Means, means
from losslens.donors.layout import CommonGrid, Layout, OwnDonors
from losslens.losses import Loss
from losslens.results.base import Result, Stored
from losslens.results.interactions import Interactions
from losslens.results.selection import positions, split
from losslens.results.shapley_curve import ShapleyCurve, Values
from losslens.results.table import ERROR, FEATURE, ResultTable, or_else
from losslens.tables.features import unknown_feature
from losslens.tables.sample import Sample, Totals
from losslens.text import in_digits, size_in_words
from losslens.typing import Axes, Floats, Indices
from losslens.uncertainty import standard_errors
from losslens.uncertainty.inference import Estimates, Inference
from losslens.uncertainty.standard_errors import Influence, Target, check_level


@dataclass(frozen=True, eq=False)
class Shares(Stored):
    """What is known of single rows and donors."""

    local: Floats  # (r, p): mean over the donors of each row
    caused: Floats | None  # (n, p): mean over the rows of each donor; None where rows alone have errors
    meeting: Layout  # who met whom
    cells: Floats | None = None  # (r, m, p): of every pair that met; None where they are too many

    @property
    def leaves_out_own(self) -> bool:
        """Whether no row met itself."""
        return self.meeting.leaves_out_own

    def of(self, j: int | tuple[int, int]) -> Floats:
        """Of each row, one feature's, or the difference of two."""
        return _pick(j, self.local)

    def means(self, j: int | tuple[int, int], sample: Sample, at: Indices) -> Means:
        """Means over the pairs of one feature, or of the difference of two."""
        if self.cells is not None:
            changes = np.ascontiguousarray(_pick(j, self.cells))
            return means(Cells(at, np.broadcast_to(0.0, changes.shape), changes), self.meeting, sample)
        if isinstance(self.meeting, OwnDonors) and self.meeting.alone:
            return Means(local=self.of(j), mass=sample.weight[at])
        if self.caused is None or len(at) < sample.n:
            raise ValueError("what each donor did to these rows is not kept")
        apart = 1 - sample.weight if self.leaves_out_own else np.ones(sample.n)
        mass = sample.weight * apart
        return Means(local=self.of(j), mass=mass, caused=_pick(j, self.caused), lent=mass / mass.sum())


def _pick(j: int | tuple[int, int], shares: Floats) -> Floats:
    return shares[..., j] if isinstance(j, int) else np.asarray(shares[..., j[0]] - shares[..., j[1]])


def mean_of(local: Floats, weight: Floats) -> Floats:
    """The mean over rows, (p,); a row that met nobody who counts says nothing."""
    known = (weight > 0) & ~np.isnan(local).any(axis=1)
    return np.asarray(weight[known] @ local[known] / weight[known].sum())


def with_mean(caused: Floats, weight: Floats, sfimp: Floats) -> Floats:
    """Means of donors, moved to average to the rows' mean: with weights, pairs that met weigh as neither does."""
    return np.asarray(caused + (sfimp - mean_of(caused, weight)))


def monte_carlo_error(shares: Shares, sample: Sample, at: Indices) -> Floats:
    """Standard error over fresh draws of donors and orders, (p,); NaN where too few were drawn to tell."""
    p = shares.local.shape[1]
    try:
        variance = [
            standard_errors.monte_carlo_variance(shares.means(j, sample, at), shares.meeting, sample, at)
            for j in range(p)
        ]
    except ValueError:
        return np.full(p, np.nan)
    return np.asarray(np.sqrt(np.array(variance)))


def rows_only(local: Floats, weight: Floats) -> Floats:
    """Donors are taken as they are: how far each row alone moves the means, (r, p)."""
    weight = weight / weight.sum()
    n = int(np.sum(weight > 0))
    if n < 2:
        raise ValueError("a standard error needs at least 2 rows with weight")
    return np.asarray(np.sqrt(n / (n - 1)) * weight[:, None] * (local - weight @ local))


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class ShapleyImportance(Result, Inference):
    """How much of a model's performance each feature earns; the shares sum to ``error_none - error_all``.

    `to_frame()` has one row a feature, the most important first.
    """

    features: tuple[str, ...]
    sfimp: Floats  # (p,): positive = useful
    error_all: float  # GE_P: nothing replaced
    error_none: float  # GE_0: all features replaced
    title: str  # of the loss or the scorer
    loss: Loss | None  # None: a scorer, whose errors are scores with a minus sign
    aggregate: Literal["loss", "prediction"]
    method: str  # what was done, in words
    engine: str
    design: str
    exact: bool
    n_predictions: int
    sample: Sample
    at: Indices  # positions in the sample of the rows that this result speaks of
    values: Values
    monte_carlo_error: Floats  # (p,): standard error that is due to drawing orders and donors; 0 where nothing is
    backend: str
    freedom: float = np.inf  # degrees of freedom of the Monte-Carlo error
    leaves_out_own: bool = False  # pairs of a row with itself don't count: the U-statistic
    shares: Shares | None = None
    gains: Floats | None = None  # (r,): what all features together take off each row's loss
    table: Floats | None = None  # (2^p,): the error of every coalition; bit j: feature j is kept
    sampling: Floats | None = None  # (p,): the sampling error, where no shares tell it
    index: Floats | None = None  # (p, p): interactions, where they are known without a table
    absent: str = ""  # what it would take to know single rows
    remarks: tuple[str, ...] = ()
    complete: bool = True  # False: stopped by hand

    @property
    def whole(self) -> Totals | None:
        """What is known of all rows of data in files; None for data in memory."""
        return self.sample.totals

    # -- numbers --------------------------------------------------------------------------------------------------

    @property
    def share(self) -> Floats:
        """Each feature's part of the whole, (p,): they sum to one."""
        if not self._whole:
            raise ValueError("the features together take nothing off the error: there is nothing to share; use sfimp")
        return np.asarray(self.sfimp / self._whole)

    @property
    def _whole(self) -> float:
        """What the features take off together; 0 where that is rounding."""
        total = self.error_none - self.error_all
        return total if abs(total) > 1e-12 * (abs(self.error_none) + abs(self.error_all)) else 0.0

    @property
    def unbiased(self) -> Floats:
        """The U-statistics, at which intervals are centred: pairs of a row with itself are left out, (p,)."""
        return np.asarray(self.sfimp * self._up_to_u)

    @property
    def paper_sfimp(self) -> Floats:
        """The paper's sign: what a feature adds to the error, negative for a useful one."""
        return np.asarray(-self.sfimp)

    @property
    def local(self) -> Floats:
        """Importance of each feature for each row, (n, p): a row sums to its own gain, a column averages to SFIMP."""
        return self._known.local

    @property
    def observations(self) -> Floats:
        """What the features together take off each row's loss, (n,): how much the model's knowledge helps it."""
        if self.gains is None:
            raise ValueError(f"the gain of single rows is not known: {self.absent}")
        return self.gains

    @cached_property
    def sampling_error(self) -> Floats:
        """Standard error of this model's importance on new data, as if every order and pair had been asked, (p,)."""
        if self.sampling is not None:
            return self.sampling
        return np.sqrt([found.variance for found in self._influences])

    @property
    def std_error(self) -> Floats:
        """Standard error of `sfimp` for this model on new data, (p,): sampling and Monte-Carlo error together."""
        return np.asarray(np.hypot(self.sampling_error, self.monte_carlo_error))

    def interval(self, level: float = 0.95, target: Target = "model") -> tuple[Floats, Floats]:
        """Low and high ends for each feature.

        About this model on new data (both errors; centred at the U-statistic), or about this sample, had every
        order and pair been asked (Monte-Carlo error alone).
        """
        if standard_errors.check_target(target) == "sample":
            from scipy.stats import t

            reach = float(t.ppf((1 + check_level(level)) / 2, self.freedom)) * self.monte_carlo_error
            return self.sfimp - reach, self.sfimp + reach
        ends = [
            standard_errors.interval(value, error, self._units, level, skewness)
            for value, error, skewness in np.column_stack((self.unbiased, self.std_error, self._skewness)).tolist()
        ]
        return np.array([low for low, _ in ends]), np.array([high for _, high in ends])

    def influence(self, feature: str) -> Influence:
        """How far each row, as an observation and as a donor, moves a feature's share."""
        if feature not in self.features:
            raise KeyError(unknown_feature(feature, self.features, "features"))
        return self._influences[self.features.index(feature)]

    @cached_property
    def estimates(self) -> Estimates:
        """The importances of this model on new data and their covariance."""
        if self.sampling is not None:
            raise ValueError("how the shares vary together is not known: their errors alone were worked out")
        if np.isnan(self.std_error).any():
            raise ValueError("no test and no difference: how much the draws moved the shares is not known here")
        drawn = self.monte_carlo_error
        covariance = np.diag(np.square(self.std_error))
        for j, k in combinations(range(len(self.features)), 2):
            own = self.sampling_error[j] ** 2 + self.sampling_error[k] ** 2
            # Shares of one walk move against each other: for draws, the least favourable covariance is taken.
            covariance[j, k] = covariance[k, j] = (own - self._influence((j, k)).variance) / 2 - drawn[j] * drawn[k]
        return Estimates(self.features, self.unbiased, covariance, self._units - 1, self._skewness)

    @property
    def interactions(self) -> Interactions:
        """How much more each two features are worth together: the Shapley interaction index, from all coalitions."""
        if self.table is None and self.index is None:
            raise ValueError(
                "interactions need the error of every coalition, which method='exact' gives for all rows; "
                "pair_interactions gives PFI_j + PFI_l - PFI_jl without them"
            )
        index = self.index if self.table is None else game_theory.interactions(self.table)
        assert index is not None
        return Interactions(self.features, index, "Shapley interaction index", self.title, self.backend)

    # -- some rows ------------------------------------------------------------------------------------------------

    def given(self, rows: Any) -> Self:
        """These rows, donors from everywhere; a boolean mask or row positions."""
        chosen = positions(rows, len(self.at))
        known, at = self._known, self.at[chosen]
        weight = self.sample.weight[at]
        if not weight.sum() > 0:
            raise ValueError("these rows have weight zero: nothing is shared out among them")
        cells = None if known.cells is None else known.cells[chosen]
        shares = replace(known, local=known.local[chosen], cells=cells, caused=None)
        weight = weight * (1 - weight) if known.leaves_out_own else weight
        met = ~np.isnan(shares.local[:, 0]) & (weight > 0)
        sfimp = weight[met] @ shares.local[met] / weight[met].sum()
        assert self.sample.loss is not None  # who has shares has losses
        error = float(self.sample.weight[at] @ self.sample.loss[at] / self.sample.weight[at].sum())
        gains = None if self.gains is None else self.gains[chosen]
        none = error + float(sfimp.sum())
        new = replace(
            self, sfimp=sfimp, error_all=error, error_none=none, at=at, shares=shares, gains=gains, table=None,
            sampling=None, index=None,
        )  # fmt: skip
        return replace(new, monte_carlo_error=new._monte_carlo(self.monte_carlo_error))

    def by(self, groups: Any) -> dict[Any, Self]:
        """``{label: given(groups == label)}`` for each label."""
        return {label: self.given(mask) for label, mask in split(groups, len(self.at)).items()}

    # -- where ----------------------------------------------------------------------------------------------------

    def curve(self, feature: str, by: Literal["own", "donor"] = "own") -> ShapleyCurve:
        """Where in a feature's range its share comes from: at rows that hold a value, or at donors that lend it.

        Either way the curve averages to the feature's SFIMP.
        """
        if feature not in self.features:
            raise KeyError(unknown_feature(feature, self.features, "features"))
        if by not in ("own", "donor"):
            raise ValueError(f"by is 'own', a row's own value, or 'donor', the value it is given; got {by!r}")
        j, known = self.features.index(feature), self._known
        if by == "own":
            weight, amount, codes = self.sample.weight[self.at], known.local[:, j], self.values.codes[self.at, j]
        else:
            weight, amount, codes = self.sample.weight, self._caused(known, j), self.values.codes[:, j]
        if known.leaves_out_own:
            weight = weight * (1 - weight)
        return ShapleyCurve.of(feature, by, self.values, j, codes, weight, amount, self.title, self.backend)

    def _caused(self, known: Shares, j: int) -> Floats:
        if self.aggregate == "prediction":
            raise ValueError("donors have no share where predictions are averaged over them first; use by='own'")
        if known.caused is not None:
            return known.caused[:, j]
        if known.cells is None:
            raise ValueError(f"what donors did to these rows alone is not known: {self._needs_pairs}")
        found = known.means(j, self.sample, self.at).caused
        assert found is not None  # Averages fills it
        weight = self.sample.weight
        mass = weight * (1 - weight) if known.leaves_out_own else weight
        return with_mean(np.where(np.isfinite(found), found, np.nan)[:, None], mass, self.sfimp[[j]])[:, 0]

    @property
    def _needs_pairs(self) -> str:
        needs = size_in_words(32 * self.sample.n**2 * len(self.features))
        return f"it needs every pair of rows; explain again with memory='{needs}', or with method='walk'"

    # -- shown ----------------------------------------------------------------------------------------------------

    @property
    def headline(self) -> str:
        """What the numbers are."""
        what = "decrease" if self.loss is not None else "increase"
        sign = 1 if self.loss is not None else -1
        ends = f"{in_digits(sign * self.error_none)} without, {in_digits(sign * self.error_all)} with all features"
        return f"{what} in {self.title} that each feature earns; {ends}"

    @property
    def notes(self) -> list[str]:
        """What a reader should know of how the numbers came about."""
        kind = f"exact over {self.design}" if self.exact else f"sampled with {self.design}"
        game = "" if self.aggregate == "loss" else "SAGE: predictions averaged over donors before the loss; "
        found = [f"{game}{self.method}, {kind}; {self.engine}; {self.n_predictions:,} predictions"]
        if not self.exact and or_else(lambda: self.std_error, None) is None:
            found.append("± is the Monte-Carlo error alone: how the numbers would be on new data is not known")
        if not self.complete:
            found.append("stopped by hand: a valid estimate with the error stated, but fewer walks than asked for")
        return [*found, *self.remarks]

    def _table(self) -> ResultTable:
        none, whole = np.full(len(self.features), np.nan), self._whole
        error = or_else(lambda: self.std_error, none)
        columns = {
            "feature": self.features,
            "sfimp": self.sfimp,
            "share": self.sfimp / whole if whole else none,
            "std_error": error,
            "monte_carlo_error": self.monte_carlo_error,
            "low": lambda: or_else(lambda: self.interval()[0], none),
            "high": lambda: or_else(lambda: self.interval()[1], none),
            "target": ["model"] * len(self.features),  # the errors are about this model's importance on new data
        }
        drawn = self.monte_carlo_error if not self.exact and error is none else error
        return ResultTable(
            f"ShapleyImportance: {self.headline}", columns,
            ("{feature}", "{sfimp}[ ± {drawn}]", "[{share:>6}]"),
            (FEATURE, ("SFIMP", "{sfimp}"), ERROR, ("share", "{share}")), self.notes,
            extra={"drawn": drawn}, like="sfimp", alike=("std_error", "low", "high", "drawn"),
            # Parts of a loss would turn the signs.
            formats={} if whole > 0 else {"share": lambda share: ""},
        ).ordered(self._order)  # fmt: skip

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the features' shares, the largest on top."""
        from losslens.plots.shapley import plot_shapley

        return plot_shapley(self, ax=ax)

    # -- inside ---------------------------------------------------------------------------------------------------

    @property
    def _known(self) -> Shares:
        if self.shares is None:
            raise ValueError(f"single rows are not known: {self.absent}")
        return self.shares

    @property
    def _order(self) -> Indices:
        return np.argsort(-self.sfimp, kind="stable")

    @property
    def _up_to_u(self) -> float:
        """From the V-statistic to the U-statistic, which leaves out pairs of a row with itself."""
        if self.aggregate == "prediction" or self.leaves_out_own:
            return 1.0
        return 1 / (1 - self.sample.own_share(self.at, self.sample.weight[self.at]))

    @property
    def _units(self) -> int:
        return self.sample.units(self.at)

    @property
    def _skewness(self) -> Floats:
        """Of each share; none where no shares of single rows tell it, (p,)."""
        if self.sampling is not None:
            return np.zeros(len(self.features))
        pairs = zip(self._influences, self.std_error.tolist(), strict=True)
        return np.array([replace(found, total=error**2).skewness for found, error in pairs])

    @cached_property
    def _influences(self) -> list[Influence]:
        return [self._influence(j) for j in range(len(self.features))]

    def _influence(self, j: int | tuple[int, int]) -> Influence:
        """How far each row moves the share of a feature, or the difference of two."""
        known = self._known
        if self.aggregate == "prediction":
            return Influence(rows_only(known.of(j)[:, None], self.sample.weight[self.at])[:, 0])
        if known.cells is None and len(self.at) < self.sample.n:
            raise ValueError(f"the standard error for some rows is not known: {self._needs_pairs}")
        found = known.means(j, self.sample, self.at)
        moved = standard_errors.influence(found, known.meeting, self.sample, self.at)
        return replace(moved, excess=moved.excess + moved.noise, noise=0.0)  # draws are stated apart

    def _monte_carlo(self, otherwise: Floats) -> Floats:
        """Of the rows at hand; where every pair was asked, nothing was drawn."""
        if self.shares is None or isinstance(self.shares.meeting, CommonGrid) or self.shares.cells is None:
            return np.zeros(len(self.features)) if self.exact else np.full_like(otherwise, np.nan)
        return monte_carlo_error(self.shares, self.sample, self.at)
