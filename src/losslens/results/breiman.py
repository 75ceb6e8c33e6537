"""Breiman's importance as a result: one number a tree and feature, and one a row and feature."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from losslens.losses import Loss
from losslens.results.base import Result
from losslens.results.table import FEATURE, IMPORTANCE, RANKED, ResultTable
from losslens.text import in_digits
from losslens.typing import Axes, Floats


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class BreimanImportance(Result):
    """How much the loss of single trees grows on their out-of-bag rows when a feature's values are permuted there.

    `to_frame()` has one row a feature, the most important first: feature, importance, std_error, scaled.
    """

    features: tuple[str, ...]
    trees: Floats  # (T, p): each tree's importances; NaN for one with fewer than two out-of-bag rows
    local: Floats  # (n, p): mean change over the trees that had not seen the row; NaN where every tree had
    error: float  # mean over the trees of their own out-of-bag error, nothing permuted
    forest_error: float  # error of the mean prediction of the trees that had not seen the row
    loss: Loss
    permutations: int | None  # a tree and feature; None: their expectation, over all pairs of out-of-bag rows
    n_predictions: int  # of single trees, unchanged rows included
    backend: str

    @property
    def importance(self) -> Floats:
        """The mean over the trees, (p,)."""
        return np.asarray(self._judged.mean(axis=0))

    @property
    def std_error(self) -> Floats:
        """Standard deviation over the trees, divided by the square root of their number, (p,).

        It says how far another forest on the same data might be, not how the importance would be on new data.
        """
        if self.n_trees < 2:
            return np.full(len(self.features), np.nan)
        return np.asarray(self._judged.std(axis=0, ddof=1) / np.sqrt(self.n_trees))

    @property
    def scaled(self) -> Floats:
        """Importance over its standard error, (p,): the z-score that R's randomForest prints; 0 where both are 0.

        It grows with the number of trees. Use it to rank features of one forest, not as a test.
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(self.importance == 0, 0.0, self.importance / self.std_error)

    @property
    def exact(self) -> bool:
        """Whether the numbers are the expectation over all permutations."""
        return self.permutations is None

    @property
    def n_trees(self) -> int:
        """Trees that were judged."""
        return len(self._judged)

    @property
    def n_skipped(self) -> int:
        """Trees with fewer than two out-of-bag rows: nothing can be permuted there."""
        return len(self.trees) - self.n_trees

    @property
    def headline(self) -> str:
        """What the numbers are."""
        return f"increase in a tree's out-of-bag {self.loss.title}; {in_digits(self.error)} with nothing permuted"

    @property
    def notes(self) -> list[str]:
        """What a reader should know of how the numbers came about."""
        times = "1 permutation" if self.permutations == 1 else f"{self.permutations} permutations"
        kind = "exact over all pairs of out-of-bag rows" if self.exact else f"sampled with {times} a tree"
        found = [
            f"the forest's own out-of-bag {self.loss.title}: {in_digits(self.forest_error)}",
            f"{kind}; {self.n_trees:,} trees; {self.n_predictions:,} predictions of single trees",
        ]
        if self.n_skipped:
            found.append(f"{self.n_skipped:,} trees skipped: fewer than two rows are out of their bag")
        never = int(np.isnan(self.local[:, 0]).sum())
        if never:
            found.append(f"{never:,} of {len(self.local):,} rows are in the bag of every tree: no local importance")
        return found

    def _table(self) -> ResultTable:
        columns = {
            "feature": self.features,
            "importance": self.importance,
            "std_error": self.std_error,
            "scaled": self.scaled,
        }
        view = (FEATURE, IMPORTANCE, ("std. error over trees", "{std_error}"), ("scaled", "{scaled}"))
        title = f"BreimanImportance: {self.headline}"
        table = ResultTable(title, columns, RANKED, view, self.notes, like="importance")
        return table.ordered(np.argsort(-self.importance, kind="stable"))

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the ranking."""
        from losslens.plots.bars import plot_breiman

        return plot_breiman(self, ax=ax)

    @property
    def _judged(self) -> Floats:
        return self.trees[~np.isnan(self.trees[:, 0])]
