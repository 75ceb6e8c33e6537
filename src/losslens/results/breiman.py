"""Breiman's out-of-bag importance: by tree and feature, and by row and feature."""

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
    """How much the loss of single trees on their out-of-bag rows increases when a feature's values are permuted.

    `to_frame()` has one row a feature, the most important first: feature, importance, std_error, scaled.

    Examples
    --------
    >>> import numpy as np, losslens as ll
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> X = np.random.default_rng(0).normal(size=(100, 2))
    >>> forest = RandomForestRegressor(10, random_state=0).fit(X, 2 * X[:, 0])
    >>> imp = ll.breiman_importance(forest, X, 2 * X[:, 0])
    >>> imp.exact, imp.n_trees, imp.trees.shape
    (True, 10, (10, 2))
    """

    features: tuple[str, ...]  #: names of the features
    trees: Floats  #: each tree's importances, (T, p); NaN for one with fewer than two out-of-bag rows
    local: Floats  #: mean change over the trees that a row is out of bag of, (n, p); NaN if there is none
    error: float  #: mean out-of-bag error of single trees, nothing permuted
    forest_error: float  #: out-of-bag error of the forest: of the mean prediction over these trees
    loss: Loss  #: the loss whose change is reported
    permutations: int | None  #: by tree and feature; None: the expectation, over all pairs of out-of-bag rows
    n_predictions: int  #: predictions of single trees, unchanged rows included
    backend: str

    @property
    def importance(self) -> Floats:
        """The mean over the trees, (p,)."""
        return np.asarray(self._used.mean(axis=0))

    @property
    def std_error(self) -> Floats:
        """Standard deviation over the trees, divided by the square root of their number, (p,).

        It measures the variation between forests on the same data, not between data sets.
        """
        if self.n_trees < 2:
            return np.full(len(self.features), np.nan)
        return np.asarray(self._used.std(axis=0, ddof=1) / np.sqrt(self.n_trees))

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
        """The number of trees with an importance."""
        return len(self._used)

    @property
    def n_skipped(self) -> int:
        """Trees with fewer than two out-of-bag rows: nothing can be permuted."""
        return len(self.trees) - self.n_trees

    @property
    def headline(self) -> str:
        """What the numbers are."""
        return f"increase in a tree's out-of-bag {self.loss.title}; {in_digits(self.error)} with nothing permuted"

    @property
    def notes(self) -> list[str]:
        """How the numbers were computed."""
        times = "1 permutation" if self.permutations == 1 else f"{self.permutations} permutations"
        kind = "exact over all pairs of out-of-bag rows" if self.exact else f"sampled with {times} a tree"
        notes = [
            f"the forest's out-of-bag {self.loss.title}: {in_digits(self.forest_error)}",
            f"{kind}; {self.n_trees:,} trees; {self.n_predictions:,} predictions of single trees",
        ]
        if self.n_skipped:
            notes.append(f"{self.n_skipped:,} trees skipped: fewer than two out-of-bag rows")
        never = int(np.isnan(self.local[:, 0]).sum())
        if never:
            notes.append(f"{never:,} of {len(self.local):,} rows are in the bag of every tree: no local importance")
        return notes

    def _table(self) -> ResultTable:
        columns = {name: getattr(self, name) for name in ("importance", "std_error", "scaled")}
        view = (FEATURE, IMPORTANCE, ("std. error over trees", "{std_error}"), ("scaled", "{scaled}"))
        title = f"BreimanImportance: {self.headline}"
        table = ResultTable(title, {"feature": self.features, **columns}, RANKED, view, self.notes, like="importance")
        return table.ordered(np.argsort(-self.importance, kind="stable"))

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the ranking."""
        from losslens.plots.bars import plot_breiman

        return plot_breiman(self, ax=ax)

    @property
    def _used(self) -> Floats:
        return self.trees[~np.isnan(self.trees[:, 0])]
