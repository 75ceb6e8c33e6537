"""Several numbers of one run side by side: differences, ranks and tests, which need to know how they vary together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from losslens.blas import one_thread
from losslens.tables.features import unknown_feature
from losslens.text import in_digits
from losslens.typing import Floats
from losslens.uncertainty.standard_errors import check_level, interval, p_value

Adjustment = Literal["holm", "benjamini_hochberg"]
DRAWS, AT_A_TIME = 5000, 100
MOST_GAPS = 4_000_000  # differences in memory at a time


@dataclass(frozen=True)
class Difference:
    """How much more one number is than another of the same run."""

    first: str
    second: str
    value: float
    std_error: float
    low: float
    high: float
    p_value: float  # two-sided, of no difference
    level: float

    def __repr__(self) -> str:
        ends = f"{in_digits(self.low)} to {in_digits(self.high)} ({self.level:.0%})"
        return f"<Difference {self.first!r} - {self.second!r}: {in_digits(self.value)}, {ends}, p = {self.p_value:.2g}>"


@dataclass(frozen=True, eq=False)
class Estimates:
    """Numbers and their covariance."""

    names: tuple[str, ...]
    value: Floats  # (p,)
    covariance: Floats  # (p, p)
    freedom: int  # degrees of freedom of the variances
    skewness: Floats = field(default_factory=lambda: np.zeros(0))  # (p,): none where it is not known
    noise: Floats = field(default_factory=lambda: np.zeros(0))  # (p,): the part that is due to draws, apart for each

    @property
    def std_error(self) -> Floats:
        """Of each number, (p,)."""
        return np.asarray(np.sqrt(np.maximum(np.diag(self.covariance), 0.0)))

    def position(self, name: str) -> int:
        """Where a name stands."""
        if name not in self.names:
            raise KeyError(unknown_feature(name, self.names, "features"))
        return self.names.index(name)

    def difference(self, first: str, second: str, level: float = 0.95) -> Difference:
        """Paired: what moves both numbers alike cancels."""
        j, k = self.position(first), self.position(second)
        return difference(
            (first, second), float(self.value[j] - self.value[k]), float(self._gap_error[j, k]), self.freedom, level
        )

    @property
    def _gap_error(self) -> Floats:
        """Standard errors of all differences, (p, p)."""
        own = np.diag(self.covariance)
        noise = self.noise if len(self.noise) else np.zeros(len(own))
        least = (noise[:, None] + noise) * (1 - np.eye(len(own)))
        return np.asarray(np.sqrt(np.maximum(own[:, None] + own - 2 * self.covariance, least)))

    def ranks(self, level: float = 0.95) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]:
        """The rank of each number (1 is the largest) and the lowest and highest that it may have, all at once.

        A rank is bounded by the numbers that are surely larger or smaller, judged by simultaneous intervals of all
        differences.
        """
        error = self._gap_error
        gap = self.value[:, None] - self.value
        reach = _largest_gap(self.covariance, error, self.freedom, check_level(level)) * error
        rank = 1 + np.argsort(np.argsort(-self.value, kind="stable"), kind="stable")
        best, worst = 1 + np.sum(gap + reach < 0, axis=1), len(rank) - np.sum(gap - reach > 0, axis=1)
        return rank, best, worst

    def intervals(self, level: float = 0.95) -> tuple[Floats, Floats]:
        """Low and high ends, each number by itself."""
        ends = [interval(v, e, self.freedom + 1, level, a) for v, e, a in self._each()]
        return np.array([low for low, _ in ends]), np.array([high for _, high in ends])

    def p_values(self) -> Floats:
        """One-sided, of no importance, (p,)."""
        return np.array([p_value(v, e, self.freedom + 1) for v, e, _ in self._each()])

    def _each(self) -> list[tuple[float, float, float]]:
        skewness = self.skewness if len(self.skewness) else np.zeros(len(self.names))
        return list(zip(self.value.tolist(), self.std_error.tolist(), skewness.tolist(), strict=True))


class Inference:
    """What every result of several features can be asked."""

    @property
    def estimates(self) -> Estimates:
        """The numbers and their covariance."""
        raise NotImplementedError

    def _frame(self, data: dict[str, Any]) -> Any:
        """A table in the user's own frame library."""
        raise NotImplementedError

    def difference(self, first: str, second: str, level: float = 0.95) -> Difference:
        """How much more one feature is worth than another, paired: the same rows and donors move both."""
        return self.estimates.difference(first, second, level)

    def ranks(self, level: float = 0.95) -> Any:
        """Each feature's rank with the ranks that it may have, simultaneously for all features; a data frame."""
        known = self.estimates
        rank, best, worst = known.ranks(level)
        order = np.argsort(rank)
        data = {"feature": [known.names[j] for j in order], "rank": rank[order], "low": best[order]}
        return self._frame(data | {"high": worst[order]})

    def test(self, adjust: Adjustment | None = "holm") -> Any:
        """One-sided tests of no importance; a data frame, the smallest p first.

        Parameters
        ----------
        adjust
            ``"holm"`` bounds the chance of a single false finding, ``"benjamini_hochberg"`` the expected share of
            false ones among the findings, None leaves each test by itself.
        """
        known = self.estimates
        return self._frame(columns_of_tests(known.names, known.value, known.p_values(), adjust, known.std_error))


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
    """p-values of several tests together."""
    if how not in ("holm", "benjamini_hochberg"):
        raise ValueError(f"adjust is 'holm', 'benjamini_hochberg' or None; got {how!r}")
    order, m = np.argsort(p, kind="stable"), len(p)
    out = np.empty(m)
    if how == "holm":  # step down: the smallest counts m times, and no later one is smaller
        out[order] = np.minimum(np.maximum.accumulate(p[order] * (m - np.arange(m))), 1.0)
    else:  # step up: the largest counts once
        scaled = p[order] * m / np.arange(1, m + 1)
        out[order] = np.minimum(np.minimum.accumulate(scaled[::-1])[::-1], 1.0)
    return out


def difference(names: tuple[str, str], value: float, error: float, freedom: int, level: float) -> Difference:
    """A difference with its interval and two-sided p-value, both Student's."""
    low, high = interval(value, error, freedom + 1, level)
    p = float(value == 0) if error == 0 else 2 * p_value(abs(value), error, freedom + 1)
    return Difference(*names, value, error, low, high, p, level)


@one_thread()
def _largest_gap(covariance: Floats, error: Floats, freedom: int, level: float) -> float:
    """How many standard errors the largest of all differences is off, at most, with this probability."""
    rng = np.random.default_rng(20180417)  # its own seed: the same result has the same ranks
    size, axes = np.linalg.eigh(covariance)
    root = axes * np.sqrt(np.maximum(size, 0.0))
    scale = np.divide(1.0, error, out=np.zeros_like(error), where=error > 1e-12 * max(error.max(), 1e-300))
    largest: list[Floats] = []
    step = int(np.clip(MOST_GAPS // error.size, 1, AT_A_TIME))
    for _ in range(DRAWS // step):
        drawn = rng.normal(size=(step, len(covariance))) @ root.T
        drawn /= np.sqrt(rng.chisquare(freedom, size=(step, 1)) / freedom)
        gaps = np.abs(drawn[:, :, None] - drawn[:, None, :]) * scale
        largest.append(gaps.max(axis=(1, 2)))
    return float(np.quantile(np.concatenate(largest), level))
