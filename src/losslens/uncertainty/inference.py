"""Several estimates of one run: differences, ranks and tests, all based on their joint covariance."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from losslens.blas import one_thread
from losslens.tables.checks import is_one_of
from losslens.tables.features import position_of
from losslens.tables.frozen import Frozen
from losslens.text import in_digits
from losslens.typing import Floats
from losslens.uncertainty.cautions import few_groups, in_short, of_estimate, sentences, skewed, small_group
from losslens.uncertainty.standard_errors import (
    Influence,
    around,
    check_level,
    degrees_of_freedom,
    interval,
    p_value,
    reach,
    welch,
)

Adjustment = Literal["holm", "benjamini_hochberg"]
Rows = Literal["same", "others", "independent"]  # of two results that are compared
Unit = Literal["rows", "groups", "blocks", "folds"]
DRAWS, BATCH = 5000, 100  # simulated vectors of estimates, in all and at a time
MAX_DIFFERENCES = 4_000_000  # held in memory at a time, 8 bytes each
DIFFERENT_ROWS = "per pair of different rows"
ROUNDING = 1e-12  # of the numbers compared: a difference with an error below it is one of their last bits


@dataclass(frozen=True)
class Difference:
    """The difference of two estimates of the same run.

    Examples
    --------
    >>> import numpy as np, losslens as ll
    >>> X = np.random.default_rng(0).normal(size=(100, 2))
    >>> imp = ll.feature_importance(lambda X: 2 * X[:, 0], X, 2 * X[:, 0], loss="squared_error")
    >>> difference = imp.difference("x0", "x1")
    >>> bool(difference.low > 0), bool(difference.p_value < 0.001)
    (True, True)
    """

    first: str  #: name of the one
    second: str  #: and of the other
    value: float  #: the first less the second
    std_error: float  #: its standard error
    low: float  #: low end of the interval
    high: float  #: high end
    p_value: float  #: two-sided, of the hypothesis of no difference
    level: float  #: level of the interval
    caution: str = ""  #: why the interval is to be taken with caution; empty if it is not
    note: str = ""  #: what it is the difference of, where that is not of the two numbers as they are printed

    @property
    def turned(self) -> Difference:
        """The second less the first."""
        return replace(self, first=self.second, second=self.first, value=-self.value, low=-self.high, high=-self.low)

    def __repr__(self) -> str:
        ends = f"{in_digits(self.low)} to {in_digits(self.high)} ({self.level:.0%})"
        shown = f"{self.first!r} - {self.second!r}: {in_digits(self.value)}, {ends}, p = {self.p_value:.2g}"
        return f"<Difference {'; '.join(filter(None, (shown, self.note, self.caution)))}>"


@dataclass(frozen=True, repr=False)
class Number:
    """One number with its interval: that of one name, where a result has many.

    Examples
    --------
    >>> import numpy as np, losslens as ll
    >>> X = np.random.default_rng(0).normal(size=(100, 2))
    >>> one = ll.feature_importance(lambda X: 2 * X[:, 0], X, 2 * X[:, 0], loss="squared_error").estimates()["x0"]
    >>> bool(one.low < one.value < one.high), bool(one.p_value < 0.001)
    (True, True)
    """

    name: str  #: what it is the number of
    value: float  #: the number, as it is printed everywhere
    std_error: float  #: its standard error
    low: float  #: low end of the interval
    high: float  #: high end
    p_value: float  #: of the hypothesis that it is at most 0; two-sided, that it is 0, where it may be of either sign
    level: float  #: level of the interval
    caution: str = ""  #: why the interval is to be taken with caution; empty if it is not

    def __repr__(self) -> str:
        ends = f"{in_digits(self.low)} to {in_digits(self.high)} ({self.level:.0%})"
        shown = f"{self.name!r}: {in_digits(self.value)}, {ends}, p = {self.p_value:.2g}"
        return f"<Number {shown}{f'; {self.caution}' if self.caution else ''}>"


@dataclass(frozen=True, eq=False)
class Estimates(Frozen):
    """Numbers that are uncertain together, by name: all that intervals, tests, ranks and differences are made of.

    `influences` are what each row, or group of rows, moves each number: two results whose influences are of the same
    rows can be compared. There is a covariance where there are differences between the names.
    """

    names: tuple[str, ...]  #: what the numbers are of
    value: Floats  #: the numbers as they are printed, (p,)
    std_error: Floats  #: standard errors, (p,)
    #: the effective number of rows, groups of rows, or folds: degrees of freedom are one less; or that of each, (p,)
    units: Any
    skewness: Floats = field(default_factory=lambda: np.zeros(0))  # (p,), or empty where it was not estimated
    unit: Unit = "rows"  #: what is left out: "rows", "groups", "blocks" or "folds"
    influences: tuple[Influence, ...] = ()  # p of them, or none
    covariance: Floats = field(default_factory=lambda: np.zeros((0, 0)))  # (p, p)
    # (p,): variance from sampling donors, independent between features; empty: 0
    noise: Floats = field(default_factory=lambda: np.zeros(0))
    # (p, p): the third moment of each difference, row less column; empty: intervals are not bent
    cubes: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    #: (p,): what intervals and tests are of, such as means over pairs of different rows; empty: the numbers themselves
    centre: Floats = field(default_factory=lambda: np.zeros(0))
    doubts: tuple[str, ...] = ()  # p of them, or none: why a number, not only its interval, is to be taken with caution
    absent: Mapping[str, str] = field(default_factory=dict)  # why other names have no standard error
    scale: float = 0.0  # a number that these are parts of: differences within its rounding are 0
    tested: Estimates | None = None  # the numbers that p-values are of, where these are others than the intervals'
    two_sided: bool = False  #: whether p-values are of the hypothesis that a number is 0, not at most 0

    @classmethod
    def of_influences(
        cls, names: tuple[str, ...], value: Any, influences: Sequence[Influence], units: float, unit: Unit,
        rows: float = 0.0, *, sampled: bool = True, **more: Any,
    ) -> Self:  # fmt: skip
        """Estimates from what each row or group moves each number.

        rows: how many there are, where the influences are of some.
        sampled: donors may be, whose noise is independent between the numbers: it is part of the variances only.
        """
        more |= {"skewness": np.array([one.skewness for one in influences]), "influences": tuple(influences)}
        more |= {"unit": unit} | ({"noise": np.array([one.noise for one in influences])} if sampled else {})
        variance = np.array([one.variance for one in influences])
        covariance = np.diag(variance)
        if len(influences) > 1:
            moved = np.stack([one.moved for one in influences], axis=1)
            covariance = cross_products(moved)
            if sampled:
                np.fill_diagonal(covariance, variance)
            if unit != "blocks":  # too few to estimate a skewness
                more["cubes"] = cubed_differences(moved) * (np.sqrt(len(moved) / rows) if rows else 1.0)
        return cls.of_covariance(names, np.asarray(value, float), covariance, units, **more)

    @classmethod
    def of_covariance(
        cls, names: tuple[str, ...], value: Floats, covariance: Floats, units: float, **more: Any
    ) -> Self:
        """Estimates from a covariance, (p, p)."""
        std_error = np.sqrt(np.maximum(np.diag(covariance), 0.0))
        return cls(names, value, std_error, units, covariance=covariance, **more)

    @classmethod
    def of_folds(cls, names: tuple[str, ...], per_fold: Floats, correction: float) -> Self:
        """Means over folds as estimates, (M, p) -> (p,); the covariance is that over the folds times the correction."""
        mean = per_fold.mean(axis=0)
        deviations = per_fold - mean
        covariance = cross_products(deviations, correction / (len(per_fold) - 1))
        return cls.of_covariance(names, mean, covariance, len(per_fold), unit="folds")

    @property
    def freedom(self) -> float:
        """Degrees of freedom of the variances."""
        return degrees_of_freedom(self.units)

    def position(self, name: str) -> int:
        """The position of a name."""
        if str(name) in self.absent:
            raise ValueError(self.absent[str(name)])
        return position_of(name, self.names)

    def __getitem__(self, name: str) -> Number:
        return self.number(name)

    def __len__(self) -> int:
        return len(self.names)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def number(self, name: str, level: float = 0.95) -> Number:
        """One number with its interval."""
        j = self.position(name)
        value, centre, error, units, skewness = self._each[j]
        low, high = around(value, centre, interval(centre, error, units, level, skewness))
        p = float(self.p_values()[j])
        return Number(self.names[j], value, error, low, high, p, level, self.cautions[j])

    def difference(self, first: str, second: str, level: float = 0.95) -> Difference:
        """The paired difference: errors common to both estimates cancel."""
        j, k = self.position(first), self.position(second)
        result = difference(
            (first, second),
            float(self.value[j] - self.value[k]),
            float(self._difference_errors[j, k]),
            self.freedom,
            level,
            float(self._difference_skewness[j, k]),
            centre=float(self._centres[j] - self._centres[k]),
            grouped=self.unit == "groups",
        )
        doubts = sentences((first, second), (self.doubts[j], self.doubts[k]), "Of") if self.doubts else []
        return replace(result, caution=" ".join(filter(None, [result.caution, *doubts])))

    @property
    def _difference_errors(self) -> Floats:
        """Standard errors of all differences, (p, p)."""
        if len(self.covariance) < len(self.names):
            raise ValueError("the covariance of these numbers is unknown, so there are no differences or ranks")
        own = np.diag(self.covariance)
        noise = self.noise if len(self.noise) else np.zeros(len(own))
        least = (noise[:, None] + noise) * (1 - np.eye(len(own)))
        return np.asarray(np.sqrt(np.maximum(own[:, None] + own - 2 * self.covariance, least)))

    @property
    def _difference_skewness(self) -> Floats:
        """Skewness of all differences, (p, p)."""
        error, own = self._difference_errors, np.diag(self.covariance)
        if not self.cubes.size:
            return np.zeros_like(error)
        rounding = 1e-7 * np.sqrt(np.maximum(own[:, None] + own, 0.0))  # equal estimates differ by no more
        return np.divide(self.cubes, error**3, out=np.zeros_like(error), where=error > rounding)

    def ranks(self, level: float = 0.95) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]:
        """The rank of each estimate (1 is the largest) with simultaneous lower and upper confidence limits.

        A rank is bounded by the numbers of estimates that are significantly larger or smaller, according to
        simultaneous confidence intervals of all differences.
        """
        low, high = self.differences_at_once(level)
        rank = 1 + np.argsort(np.argsort(-self.value, kind="stable"), kind="stable")
        return rank, 1 + np.sum(high < 0, axis=1), len(rank) - np.sum(low > 0, axis=1)

    def differences_at_once(self, level: float = 0.95) -> tuple[Floats, Floats]:
        """Low and high ends of all differences, row less column, (p, p): all of them hold with this probability."""
        error = self._difference_errors
        differences = self._centres[:, None] - self._centres
        t = _largest_difference(self.covariance, error, self.freedom, check_level(level))
        down, up = (error * far for far in reach(t, self._difference_skewness))
        return differences - down, differences + up

    def at_once(self, quantile: float) -> tuple[Floats, Floats]:
        """Low and high ends that reach this quantile of the largest error of several numbers (`largest_error`)."""
        ends = []
        for value, centre, error, _, skewness in self._each:
            down, up = reach(quantile, skewness)
            ends.append(around(value, centre, (centre - error * float(down), centre + error * float(up))))
        low, high = np.array(ends).T
        return low, high

    def above(self, bound: float) -> Floats:
        """p-values of the hypothesis that a number is at most this bound, (p,)."""
        return np.array([p_value(c - bound, e, units, a) for _, c, e, units, a in self._each])

    def intervals(self, level: float = 0.95) -> tuple[Floats, Floats]:
        """Low and high ends of the confidence intervals, each at this level."""
        ends = [around(v, c, interval(c, e, units, level, a)) for v, c, e, units, a in self._each]
        return np.array([low for low, _ in ends]), np.array([high for _, high in ends])

    def p_values(self) -> Floats:
        """p-values of the hypothesis of no importance, (p,): one-sided, or two-sided as `two_sided` says."""
        return np.array([self._p_value(*one) for _, *one in (self.tested or self)._each])

    def _p_value(self, centre: float, error: float, units: float, skewness: float) -> float:
        return (two_sided_p if self.two_sided else p_value)(centre, error, units, skewness)

    @property
    def cautions(self) -> tuple[str, ...]:
        """Why each number or its interval is to be taken with caution, (p,); empty text if it is not."""
        doubts = self.doubts or ("",) * len(self.names)
        if self.unit in ("blocks", "folds") or np.ndim(self.units):  # too few for a skewness; no number of rows
            return tuple(doubts)
        of_each = [of_estimate(a, units, grouped=self.unit == "groups") for *_, units, a in self._each]
        return tuple(" ".join(filter(None, both)) for both in zip(of_each, doubts, strict=True))

    @property
    def _centres(self) -> Floats:
        return self.centre if len(self.centre) else self.value

    @property
    def _each(self) -> list[tuple[float, float, float, float, float]]:
        """Value, centre, standard error, units and skewness of each."""
        skewness = self.skewness if len(self.skewness) else np.zeros(len(self.names))
        columns = (self.value, self._centres, self.std_error, np.broadcast_to(self.units, len(self.names)), skewness)
        return list(zip(*(numbers.tolist() for numbers in columns), strict=True))


def between(
    first: Estimates, second: Estimates, name: str, called: tuple[str, str], level: float,
    rows: Rows, influence: Influence | None = None,
) -> Difference:  # fmt: skip
    """A number less that of the same name of a second result, with the names of both.

    Their rows are the same; or others of one result, with the same donors, so that a row moves both as a donor, and one
    at most as an observation; or they have nothing in common. `influence`: on the difference, where it is not
    the difference of those on each. Degrees of freedom of different rows are Welch's.

    It is the difference of the numbers as they are printed. Only two sets of rows with nothing in common and of
    different sizes are compared per pair of different rows: a row with itself is a larger share of fewer pairs.
    """
    j, k = first.position(name), second.position(name)
    (value, centre, a), (subtracted, other, b) = (
        (one.value[column], one._centres[column], one.influences[column]) for one, column in ((first, j), (second, k))
    )
    freedom, few, doubts, size, note = first.freedom, "", list[str](), 0.0, ""
    grouped = "groups" in (first.unit, second.unit)
    if rows != "same":
        freedom = welch((a.variance, b.variance), (first.units, second.units))
    if rows == "independent":
        total = a.variance + b.variance
        parts = (one.skewness * (one.variance / total) ** 1.5 if total > 0 else 0.0 for one in (a, b))
        error, skewness = float(np.sqrt(total)), next(parts) - next(parts)
        if not np.isclose(value * other, subtracted * centre, rtol=1e-9, atol=0):
            value, subtracted, note = centre, other, DIFFERENT_ROWS
    else:
        both = a - b if influence is None else influence
        error, skewness = both.std_error, both.skewness
    if rows == "others":
        size = float(max(map(abs, (value, subtracted, first.scale, second.scale))))
        few = small_group(min(first.units, second.units)) if first.unit == "rows" else ""
        doubts = [one.doubts[one.position(name)] if one.doubts else "" for one in (first, second)]
    result = difference(
        called, float(value - subtracted), error, freedom, check_level(level), skewness,
        centre=float(centre - other), grouped=grouped, size=size,
    )  # fmt: skip
    cautions = filter(None, [few, result.caution, *sentences(called, doubts, "In")])
    return replace(result, caution=" ".join(cautions), note=note)


class Estimated(Frozen):
    """A result whose numbers have standard errors: `_estimates` are those of all rows, computed once."""

    def estimates(self: Any, rows: Any = None) -> Estimates:
        """The uncertain numbers by name: values, standard errors, intervals, p-values.

        Parameters
        ----------
        rows
            Some rows, as in `given`; None: all of them.
        """
        if rows is not None and not hasattr(self, "given"):
            raise ValueError(f"{type(self).__name__} has numbers for all rows only: leave out rows")
        estimates: Estimates = self._estimates if rows is None else self.given(rows).estimates()
        return estimates

    def interval(self: Any, level: float = 0.95) -> tuple[Any, Any]:
        """Low and high ends of the intervals of all numbers, each at this level, for this model on new data.

        Parameters
        ----------
        level
            The coverage probability.
        """
        ends: tuple[Any, Any] = self._estimates.intervals(level)
        return ends


class Inference(Estimated):
    """Differences, ranks and tests of a result with several features."""

    def difference(self: Any, first: str, second: str, level: float = 0.95) -> Difference:
        """How much more important `first` is than `second`, with an interval at `level`; paired: of the same cells."""
        result: Difference = self._estimates.difference(first, second, level)
        return result

    def ranks(self: Any, level: float = 0.95) -> Any:
        """Each feature's rank with simultaneous confidence limits at `level`; a data frame."""
        estimates = self._estimates
        rank, best, worst = estimates.ranks(level)
        order = np.argsort(rank)
        data = {"feature": [estimates.names[j] for j in order], "rank": rank[order], "low": best[order]}
        return self._with_cautions(data | {"high": worst[order]})

    def test(self: Any, adjust: Adjustment | None = "holm") -> Any:
        """One-sided tests of no importance; a data frame, the smallest p first.

        Refits are always tested with the corrected variance: the jackknife's is about twice the true one for a feature
        that is worth nothing, and a test would find too little.

        Parameters
        ----------
        adjust
            ``"holm"`` controls the probability of any false rejection, ``"benjamini_hochberg"`` the expected share of
            false rejections, None adjusts nothing.
        """
        estimates = self._tested
        columns = columns_of_tests(estimates.names, estimates.value, estimates.p_values(), adjust, estimates.std_error)
        return self._with_cautions(columns)

    def _with_cautions(self: Any, columns: dict[str, Any]) -> Any:
        cautions = self._cautions_of(columns["feature"])
        return self._frame(columns if cautions is None else columns | {"caution": cautions})

    _tested = property(attrgetter("_estimates"), doc="The estimates that `test` uses.")

    def _cautions_of(self, names: Sequence[str]) -> list[str] | None:
        """Why the numbers of these features are to be taken with caution; None where nothing is checked."""
        return None


def or_why(compute: Callable[[], Difference], level: float) -> Difference:
    """A difference; NaN where a ValueError says that there is none, for the reason in `caution`."""
    try:
        return compute()
    except ValueError as error:
        return Difference("", "", np.nan, np.nan, np.nan, np.nan, np.nan, level, str(error))


def columns_of_differences(
    labels: Mapping[str, Sequence[Any]], differences: Sequence[Difference], adjust: Adjustment | None
) -> dict[str, Any]:
    """The columns of a table of differences, the largest first; `labels`: columns that say what they are of."""
    order = np.argsort([-np.nan_to_num(abs(one.value), nan=-1.0) for one in differences], kind="stable")
    data: dict[str, Any] = {name: [values[k] for k in order] for name, values in labels.items()}
    names = {"difference": "value", "std_error": "std_error", "low": "low", "high": "high"}
    data |= {column: [getattr(differences[k], name) for k in order] for column, name in names.items()}
    data["p"] = p = np.array([differences[k].p_value for k in order])
    if adjust is not None:
        data["p_adjusted"] = adjusted(p, adjust)
    cautions = ["; ".join(filter(None, (differences[k].note, in_short(differences[k].caution)))) for k in order]
    return data | {"caution": cautions}


def columns_of_tests(
    names: Sequence[str], value: Floats, p: Floats, adjust: Adjustment | None, error: Floats | None = None
) -> dict[str, Any]:
    """The columns of a table of tests, the smallest p first."""
    order = np.lexsort((-value, p))
    columns: dict[str, Any] = {"feature": [names[j] for j in order], "importance": value[order]}
    if error is not None:
        columns["std_error"] = error[order]
    columns["p"] = p[order]
    return columns if adjust is None else columns | {"p_adjusted": adjusted(p, adjust)[order]}


def adjusted(p: Floats, how: Adjustment) -> Floats:
    """p-values adjusted for the number of tests."""
    if not is_one_of(how, ("holm", "benjamini_hochberg")):
        raise ValueError(f"adjust is 'holm', 'benjamini_hochberg' or None; got {how!r}")
    if not np.isfinite(p).all():  # of numbers without a standard error
        result = np.full(len(p), np.nan)
        result[np.isfinite(p)] = adjusted(p[np.isfinite(p)], how)
        return result
    order, m = np.argsort(p, kind="stable"), len(p)
    result = np.empty(m)
    if how == "holm":
        # Step down: the smallest p is multiplied by m, the next by m - 1, and none is below an earlier one.
        result[order] = np.minimum(np.maximum.accumulate(p[order] * (m - np.arange(m))), 1.0)
    else:  # step up: the largest p is multiplied by 1, the k-th smallest by m / k
        scaled = p[order] * m / np.arange(1, m + 1)
        result[order] = np.minimum(np.minimum.accumulate(scaled[::-1])[::-1], 1.0)
    return result


def difference(
    names: tuple[str, str],
    value: float,
    error: float,
    freedom: float,
    level: float,
    skewness: float = 0.0,
    *,
    centre: float | None = None,
    grouped: bool = False,
    size: float = 0.0,
) -> Difference:
    """A difference with its interval and the two-sided p-value: the interval at level 1 - p ends at 0.

    Of two numbers of this `size` that agree to rounding, for every row, it is 0 without an error.
    centre: what interval and p-value are of, where that is not the difference as it is printed.
    """
    if max(abs(value), error) <= ROUNDING * size:
        value = centre = error = 0.0
    centre = value if centre is None else centre
    low, high = around(value, centre, interval(centre, error, freedom + 1, level, skewness))
    p = two_sided_p(centre, error, freedom + 1, skewness)
    cautions = few_groups(freedom + 1) if grouped else "", skewed(skewness, freedom, level)
    return Difference(*names, value, error, low, high, p, level, " ".join(filter(None, cautions)))


def two_sided_p(value: float, error: float, units: float, skewness: float = 0.0) -> float:
    """p-value of the hypothesis that a number is 0: the interval at level 1 - p ends there."""
    if error == 0:
        return float(value == 0)
    return min(2 * p_value(abs(value), error, units, float(np.copysign(1.0, value)) * skewness), 1.0)


@one_thread()
def cubed_differences(moved: Floats) -> Floats:
    """Sums over rows of the cubed difference of every two columns, (u, p) -> (p, p)."""
    squares = np.square(moved).T @ moved  # of a^2 b; the diagonal holds a^3
    cubes = np.diag(squares)
    return np.asarray(cubes[:, None] - 3 * squares + 3 * squares.T - cubes)


@one_thread()
def cross_products(moved: Floats, factor: float = 1.0) -> Floats:
    """Sums over rows of the products of every two columns, times a factor, (p, p)."""
    return np.asarray(moved.T @ moved if factor == 1 else factor * moved.T @ moved)


@one_thread()
def largest_error(influences: Sequence[Influence], freedom: float, level: float) -> float:
    """The quantile of the largest absolute error of several numbers, in standard errors: a multivariate t, simulated.

    Their correlations are those of the influences; numbers without an error are left out.
    """
    rng = np.random.default_rng(20180417)
    moved = np.stack([one.moved for one in influences if one.std_error > 0] or [np.ones(1)], axis=1)
    root = np.linalg.qr(moved / np.sqrt(np.square(moved).sum(axis=0)), mode="r")
    largest = []
    for _ in range(DRAWS // BATCH):
        drawn = np.abs(rng.normal(size=(BATCH, len(root))) @ root).max(axis=1)
        largest.append(drawn / np.sqrt(rng.chisquare(freedom, size=BATCH) / freedom))
    return float(np.quantile(np.concatenate(largest), check_level(level)))


@one_thread()
def _largest_difference(covariance: Floats, error: Floats, freedom: float, level: float) -> float:
    """The quantile of the largest absolute difference in standard errors, simulated from a multivariate t."""
    rng = np.random.default_rng(20180417)  # a fixed seed: the same result always has the same ranks
    size, axes = np.linalg.eigh(covariance)
    root = axes * np.sqrt(np.maximum(size, 0.0))
    scale = np.divide(1.0, error, out=np.zeros_like(error), where=error > 1e-12 * max(error.max(), 1e-300))
    largest: list[Floats] = []
    batch = int(np.clip(MAX_DIFFERENCES // error.size, 1, BATCH))
    for _ in range(DRAWS // batch):
        drawn = rng.normal(size=(batch, len(covariance))) @ root.T
        drawn /= np.sqrt(rng.chisquare(freedom, size=(batch, 1)) / freedom)
        differences = np.abs(drawn[:, :, None] - drawn[:, None, :]) * scale
        largest.append(differences.max(axis=(1, 2)))
    return float(np.quantile(np.concatenate(largest), level))
