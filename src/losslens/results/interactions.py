"""How much more two features are worth together than each by itself, and how surely."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from losslens.results.base import Result
from losslens.results.table import INTERVAL, ResultTable
from losslens.tables.features import unknown_feature
from losslens.typing import Floats
from losslens.uncertainty.inference import adjusted, difference
from losslens.uncertainty.standard_errors import interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHOWN = 10  # pairs in the text


@dataclass(frozen=True, eq=False, repr=False)
class Interactions(Result):
    """Pairwise interactions of performance: above 0 two features are worth more together.

    All matrices are (p, p) and symmetric. Standard errors, intervals and tests are about this model on new data; they
    are NaN where nothing says how the numbers vary, and `absent` has the reason.

    `to_frame()` has one row a pair, the strongest first: with standard error, 95% interval and p-values.
    """

    features: tuple[str, ...]
    index: Floats  # 0 on the diagonal, NaN where a pair was not asked for
    kind: str  # what the numbers are
    title: str  # of the loss
    backend: str
    unbiased: Floats | None = None  # the U-statistics, at which intervals are centred
    std_error: Floats | None = None
    units: int = 0  # rows, or groups of rows, that the errors come from
    absent: str = ""  # why some pairs have no error, or all
    n_predictions: int = 0  # rows that the model was asked for

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
        """Low and high ends of every pair's confidence interval, each by itself.

        Student's: most pairs have nothing in common, and then the skewness that bends the interval of an importance is
        an estimate that goes up with the number itself.
        """
        low, high = np.full_like(self.index, np.nan), np.full_like(self.index, np.nan)
        for pair, (value, error) in self._known.items():
            low[pair], high[pair] = interval(value, error, self.units, level)
        return _both_ways(low), _both_ways(high)

    def interval(self, first: str, second: str, level: float = 0.95) -> tuple[float, float]:
        """Confidence interval of one pair's interaction, for this model on new data."""
        at = self._at((first, second))
        pair = min(at), max(at)
        if pair not in self._known:
            raise ValueError(f"no interval: {self.absent or 'nothing says how these numbers vary'}")
        return interval(*self._known[pair], self.units, level)

    @cached_property
    def p(self) -> Floats:
        """Of the two-sided tests of no interaction, each by itself."""
        found = np.full_like(self.index, np.nan)
        for pair, (value, error) in self._known.items():
            names = self.features[pair[0]], self.features[pair[1]]
            found[pair] = difference(names, value, error, self.units - 1, 0.95).p_value
        return _both_ways(found)

    @cached_property
    def p_adjusted(self) -> Floats:
        """The same for all pairs together: Holm's, which bound the chance of a single false finding."""
        found, pairs = np.full_like(self.index, np.nan), list(self._known)
        if pairs:
            first, second = np.array(pairs).T
            found[first, second] = adjusted(self.p[first, second], "holm")
        return _both_ways(found)

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
        # A number has the decimals of its interval: most interactions are smaller than what they are known to.
        largest = np.fmax.reduce([np.abs(matrix[first, second]) for matrix in (self.index, low, high)])
        return ResultTable(
            f"Interactions: {self.headline}", columns,
            ("{pair}", "{interaction}[ ± {std_error} ({low} to {high}), p = {p_adjusted}]"),
            (("pair", "{pair}"), ("interaction", "{interaction}"), *([INTERVAL] if self._known else [])), self.notes,
            extra={"pair": [f"{self.features[j]}, {self.features[k]}" for j, k in self._pairs], "largest": largest},
            like="largest", alike=("interaction", "std_error", "low", "high"), most_in_text=SHOWN,
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
        """What a reader should know of the numbers."""
        found = [f"{self.n_predictions:,} predictions"] if self.n_predictions else []
        if self._known:
            found.insert(0, "± standard error of this model on new data; p: no interaction, for all pairs together")
        without = len(self._pairs) - len(self._known)
        if without and self.absent:
            found.append(f"no interval for {without if self._known else 'any'} of the pairs: {self.absent}")
        return found

    @property
    def _pairs(self) -> list[tuple[int, int]]:
        first, second = np.triu_indices(len(self.features), 1)
        order = np.argsort(-np.abs(self.index[first, second]), kind="stable")
        asked = [(int(first[k]), int(second[k])) for k in order]
        return [pair for pair in asked if np.isfinite(self.index[pair])]

    @cached_property
    def _known(self) -> dict[tuple[int, int], tuple[float, float]]:
        """Number and error of the pairs that have them."""
        if self.std_error is None or self.unbiased is None:
            return {}
        return {
            pair: (float(self.unbiased[pair]), float(self.std_error[pair]))
            for pair in self._pairs
            if np.isfinite(self.std_error[pair])
        }

    def _at(self, pair: tuple[str, str]) -> tuple[int, int]:
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise KeyError(f"two names, such as interactions['a', 'b']; got {pair!r}")
        for name in pair:
            if name not in self.features:
                raise KeyError(unknown_feature(name, self.features, "features"))
        return self.features.index(pair[0]), self.features.index(pair[1])


def _both_ways(upper: Floats) -> Floats:
    """A symmetric matrix from what stands above its diagonal."""
    return np.where(np.isnan(upper), upper.T, upper)
