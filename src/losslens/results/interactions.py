"""Pairwise interactions: how much more two features are worth together, with standard errors and tests."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from losslens.results.base import Result
from losslens.results.table import INTERVAL, ResultTable
from losslens.tables.features import position_of
from losslens.typing import Axes, Floats
from losslens.uncertainty.inference import adjusted, difference
from losslens.uncertainty.standard_errors import interval

PAIRS_IN_TEXT = 10


@dataclass(frozen=True, eq=False, repr=False)
class Interactions(Result):
    """Pairwise interactions of performance: above 0 two features are worth more together.

    All matrices are (p, p) and symmetric. Standard errors, intervals and tests are about this model on new data; they
    are NaN where they are unknown, and `absent` has the reason.

    `to_frame()` has one row a pair, the strongest first: with standard error, 95% interval and p-values.
    """

    features: tuple[str, ...]
    index: Floats  # 0 on the diagonal, NaN for pairs that were not requested
    kind: str  # what the numbers are
    title: str  # of the loss
    backend: str
    unbiased: Floats | None = None  # the U-statistics: the centres of intervals
    std_error: Floats | None = None
    units: float = 0  # effective number of rows, or groups of rows
    absent: str = ""  # why some or all pairs have no standard error
    n_predictions: int = 0  # rows that the model predicted

    def __getitem__(self, pair: tuple[str, str]) -> float:
        return float(self.index[self._at(pair)])

    @property
    def low(self) -> Floats:
        """The low ends of the 95% intervals."""
        return self.intervals()[0]

    @property
    def high(self) -> Floats:
        """The high ends of the 95% intervals."""
        return self.intervals()[1]

    def intervals(self, level: float = 0.95) -> tuple[Floats, Floats]:
        """Low and high ends of the confidence interval of every pair, each at this level.

        Student's, without a correction for skewness: most interactions are 0, and then the estimated skewness increases
        with the estimate itself.
        """
        low, high = np.full_like(self.index, np.nan), np.full_like(self.index, np.nan)
        for pair, (value, error) in self._estimates.items():
            low[pair], high[pair] = interval(value, error, self.units, level)
        return _symmetric(low), _symmetric(high)

    def interval(self, first: str, second: str, level: float = 0.95) -> tuple[float, float]:
        """Confidence interval of one pair's interaction, for this model on new data."""
        at = self._at((first, second))
        pair = min(at), max(at)
        if pair not in self._estimates:
            raise ValueError(f"no interval: {self.absent or 'the standard error is unknown'}")
        return interval(*self._estimates[pair], self.units, level)

    @cached_property
    def p(self) -> Floats:
        """p-values of the two-sided tests of no interaction, not adjusted."""
        p = np.full_like(self.index, np.nan)
        for pair, (value, error) in self._estimates.items():
            names = self.features[pair[0]], self.features[pair[1]]
            p[pair] = difference(names, value, error, self.units - 1, 0.95).p_value
        return _symmetric(p)

    @cached_property
    def p_adjusted(self) -> Floats:
        """p-values adjusted for the number of pairs by Holm's method, against any false rejection."""
        p, pairs = np.full_like(self.index, np.nan), list(self._estimates)
        if pairs:
            first, second = np.array(pairs).T
            p[first, second] = adjusted(self.p[first, second], "holm")
        return _symmetric(p)

    def _table(self) -> ResultTable:
        first, second = np.array(self._pairs, np.intp).reshape(-1, 2).T
        error = np.full_like(self.index, np.nan) if self.std_error is None else self.std_error
        low, high = self.intervals()
        numbers = {"interaction": self.index, "std_error": error, "low": low, "high": high, "p": self.p}
        numbers["p_adjusted"] = self.p_adjusted
        columns = {
            "first": [self.features[j] for j in first],
            "second": [self.features[k] for k in second],
            **{name: matrix[first, second] for name, matrix in numbers.items()},
        }
        # An interaction has the decimals of its interval: most are smaller than their standard error.
        largest = np.fmax.reduce([np.abs(matrix[first, second]) for matrix in (self.index, low, high)])
        return ResultTable(
            f"Interactions: {self.headline}", columns,
            ("{pair}", "{interaction}[ ± {std_error} ({low} to {high}), p = {p_adjusted}]"),
            (("pair", "{pair}"), ("interaction", "{interaction}"), *([INTERVAL] if self._estimates else [])),
            self.notes,
            extra={"pair": [f"{self.features[j]}, {self.features[k]}" for j, k in self._pairs], "largest": largest},
            like="largest", alike=("interaction", "std_error", "low", "high"), most_in_text=PAIRS_IN_TEXT,
        )  # fmt: skip

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the pairs as a table of colours."""
        from losslens.plots.interactions import plot_interactions

        return plot_interactions(self, ax=ax)

    def plot_ranking(self, k: int = 10, ax: Axes | None = None) -> Axes:
        """Draw the k strongest pairs with their intervals, the strongest on top."""
        from losslens.plots.interactions import plot_interaction_ranking

        return plot_interaction_ranking(self, k=k, ax=ax)

    @property
    def headline(self) -> str:
        """What the numbers are."""
        return f"{self.kind}, {self.title}"

    @property
    def notes(self) -> list[str]:
        """How the numbers were computed."""
        notes = [f"{self.n_predictions:,} predictions"] if self.n_predictions else []
        if self._estimates:
            notes.insert(0, "± standard error of this model on new data; p: no interaction, adjusted for all pairs")
        without = len(self._pairs) - len(self._estimates)
        if without and self.absent:
            notes.append(f"no interval for {without if self._estimates else 'any'} of the pairs: {self.absent}")
        return notes

    @property
    def _pairs(self) -> list[tuple[int, int]]:
        first, second = np.triu_indices(len(self.features), 1)
        order = np.argsort(-np.abs(self.index[first, second]), kind="stable")
        pairs = [(int(first[k]), int(second[k])) for k in order]
        return [pair for pair in pairs if np.isfinite(self.index[pair])]

    @cached_property
    def _estimates(self) -> dict[tuple[int, int], tuple[float, float]]:
        """Estimate and standard error of the pairs that have them."""
        if self.std_error is None or self.unbiased is None:
            return {}
        return {
            pair: (float(self.unbiased[pair]), float(self.std_error[pair]))
            for pair in self._pairs
            if np.isfinite(self.std_error[pair])
        }

    def _at(self, pair: tuple[str, str]) -> tuple[int, int]:
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise KeyError(f"interactions are indexed by two names, such as interactions['a', 'b']; got {pair!r}")
        return position_of(pair[0], self.features), position_of(pair[1], self.features)


def _symmetric(upper: Floats) -> Floats:
    """A symmetric matrix from its upper triangle."""
    return np.where(np.isnan(upper), upper.T, upper)
