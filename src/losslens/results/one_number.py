"""The importance of one feature as a number: by a loss or by a scorer, with its interval, test and caution."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np

from losslens.results.base import Tabular
from losslens.results.selection import Grouped, Numbers
from losslens.results.table import or_else, why_not
from losslens.uncertainty import standard_errors
from losslens.uncertainty.inference import Difference, Estimates, Inference, Rows, between
from losslens.uncertainty.standard_errors import Influence, Target, check_target


class OneNumber(Grouped, Tabular, Inference):
    """What importances of a feature by a loss and by a scorer have in common: `pfi`, `unbiased` and its `influence`."""

    _is_score: ClassVar[bool] = False  # by a scorer
    _sampled: ClassVar[bool] = True  # whether donors may be sampled, and add noise

    name: str
    _doubts = ""  # why the number, not only its interval, is to be taken with caution

    @property
    def features(self) -> tuple[str, ...]:
        """The name of the feature."""
        return (self.name,)

    @cached_property
    def _estimates(self: Any) -> Estimates:
        return Estimates.of_influences(
            (self.name,), [self.pfi], [self.influence], self._units, self._unit, centre=np.array([self.unbiased]),
            doubts=(self._doubts,), scale=self.base,
        )  # fmt: skip

    @property
    def std_error(self: Any) -> float:
        """Standard error of `pfi` for this model on new data: the jackknife over rows, as observations and donors."""
        return float(self.influence.std_error)

    def interval(self: Any, level: float = 0.95, target: Target = "model") -> tuple[float, float]:
        """Confidence interval of the importance.

        Parameters
        ----------
        level
            The coverage probability.
        target
            ``"model"``: this fitted model on new data. ``"sample"``: the mean over all
            pairs of these rows (Monte-Carlo error only; the width is 0 where all pairs were used). ``"learner"``,
            refits on new data, needs `feature_importance_cv`.
        """
        if check_target(target) == "sample":
            drawn: tuple[float, float] = self._drawn_interval(level)
            return drawn
        skewness = self.influence.skewness
        ends = standard_errors.interval(self.unbiased, self.std_error, self._units, level, skewness)
        return standard_errors.around(self.pfi, self.unbiased, ends)

    _ends: Any = cached_property(lambda self: self.interval())  # for tables

    @property
    def p_value(self: Any) -> float:
        """p-value of the one-sided test that this model's importance on new data is at most 0."""
        return standard_errors.p_value(self.unbiased, self.std_error, self._units, self.influence.skewness)

    @property
    def caution(self) -> str:
        """Why the number or its interval is to be taken with caution, in plain words; empty if it is not."""
        return self._caution

    @cached_property
    def _caution(self) -> str:
        """The caution of what the number is uncertain for."""
        estimates = or_else(self.estimates, None)
        return "" if estimates is None else estimates.cautions[0]

    @property
    def _numbers(self) -> Numbers:
        numbers = {name: number_of(self, name) for name in ("importance", "std_error", "low", "high")}
        return {self.name: {**numbers, "caution": self.caution or why_not(lambda: self.std_error)}}

    @property
    def _axis(self: Any) -> str:
        return f"{self.name}: {self.change}"

    @property
    def _base(self: Any) -> float:
        return or_else(lambda: float(self.base), np.nan)

    @property
    def _base_estimates(self: Any) -> Estimates:
        number = (self._measure,), [self.base], [self.base_influence]
        return Estimates.of_influences(*number, self._units, self._unit)

    def _less(self, other: Any, names: tuple[str, str], level: float, *, paired: bool) -> Difference:
        """The importance to this model less that to another, on the same rows or on others."""
        influence = self._influence_less(other) if paired else None
        rows: Rows = "same" if paired else "independent"
        return between(self.estimates(), other.estimates(), self.name, names, level, rows, influence)

    def _influence_less(self: Any, other: Any) -> Influence:
        """Influence of each row on the difference of two importances on the same rows."""
        influence: Influence = self.influence - other.influence
        return influence


def together(features: Mapping[str, Any]) -> Estimates:
    """The estimates of several results of one feature each, on the same rows, by name, with their covariance."""
    absent = {name: why for name, f in features.items() if (why := why_not(partial(getattr, f, "std_error")))}
    with_error = {name: f for name, f in features.items() if name not in absent}
    if not with_error:
        name, why = next(iter(absent.items()))
        raise ValueError(f"no feature has a standard error; {name!r}: {why}")
    results = with_error.values()
    first = next(iter(results))
    return Estimates.of_influences(
        tuple(with_error), [f.pfi for f in results], [f.influence for f in results], first._units, first._unit,
        0.0 if first.totals is None else first.totals.units, centre=np.array([f.unbiased for f in results]),
        doubts=tuple(f._doubts for f in results), absent=absent, scale=first.base, sampled=first._sampled,
    )  # fmt: skip


NUMBERS: dict[str, Callable[[Any], float]] = {
    "importance": lambda feature: feature.pfi,
    "std_error": lambda feature: feature.std_error,
    "low": lambda feature: feature._ends[0],
    "high": lambda feature: feature._ends[1],
    "ratio": lambda feature: feature.ratio,
}


def number_of(feature: Any, name: str) -> float:
    """One number of a feature's importance, or score, for a table; NaN where there is none."""
    return or_else(lambda: NUMBERS[name](feature), np.nan)


def numbers_of(features: Any, name: str) -> list[float]:
    """One number of each of several features, for a column of a table."""
    return [number_of(feature, name) for feature in features]
