"""The result of a test against permuted targets."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from losslens.results.base import Ranked
from losslens.results.table import FEATURE, IMPORTANCE, ResultTable
from losslens.typing import Floats
from losslens.uncertainty.inference import Adjustment, columns_of_tests


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class PermutedTarget(Ranked):
    """Importances compared with those of refits to a permuted target, where there is nothing to learn.

    Examples
    --------
    >>> import numpy as np, losslens as ll
    >>> from sklearn.linear_model import LinearRegression
    >>> X = np.random.default_rng(0).normal(size=(60, 2))
    >>> test = ll.permuted_target_test(LinearRegression(), X, 2 * X[:, 1], permutations=19, random_state=0)
    >>> test.null.shape, test.p_values[1].item()
    ((19, 2), 0.05)
    """

    features: tuple[str, ...]  #: names of the features
    importance: Floats  #: importances with the target as it is, (p,)
    null: Floats  #: importances with the target permuted, (B, p)
    what: str  #: what the numbers are, such as "increase in squared error"
    backend: str

    _picture = "rankings.plot_permuted_target"
    _errors_elsewhere = "its p-values come from permuted targets: test()"

    def _part(self, name: str) -> PermutedTarget:
        """The result of one feature."""
        j = [self.features.index(name)]
        return replace(self, features=(name,), importance=self.importance[j], null=self.null[:, j])

    @property
    def p_values(self) -> Floats:
        """``(1 + #{null >= importance}) / (1 + B)``, (p,): never 0."""
        return np.asarray((1 + np.sum(self.null >= self.importance, axis=0)) / (1 + len(self.null)))

    def test(self, adjust: Adjustment | None = "holm") -> Any:
        """The tests as a data frame, the smallest p first; `adjust` as in ``Importances.test``."""
        return self._frame(columns_of_tests(self.features, self.importance, self.p_values, adjust))

    def to_frame(self) -> Any:
        """The tests, adjusted for their number by Holm's method."""
        return self.test()

    @property
    def headline(self) -> str:
        """What the numbers are."""
        return f"{self.what} against {len(self.null)} refits with the target permuted"

    def _table(self) -> ResultTable:
        columns = {"feature": self.features, "importance": self.importance, "p": self.p_values}
        notes = [f"p is at least {1 / (1 + len(self.null)):.3g}; .test() adjusts for the number of features"]
        line, view = ("{feature}", "{importance}", "p = {p}"), (FEATURE, IMPORTANCE, ("p", "{p}"))
        table = ResultTable(f"PermutedTarget: {self.headline}", columns, line, view, notes)
        return table.ordered(np.argsort(-self.importance, kind="stable"))
