"""The result of a test against permuted targets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from losslens.results.base import Saveable
from losslens.tables.frames import make_frame
from losslens.text import in_digits
from losslens.typing import Floats
from losslens.uncertainty.inference import Adjustment, columns_of_tests

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class PermutedTarget(Saveable):
    """Importances beside those that a learner gives features when there is nothing to learn."""

    features: tuple[str, ...]
    importance: Floats  # (p,)
    null: Floats  # (B, p): with the target permuted
    what: str  # the numbers are, such as "increase in squared error"
    backend: str

    @property
    def p_values(self) -> Floats:
        """``(1 + #{null >= importance}) / (1 + B)``, (p,): never 0."""
        return np.asarray((1 + np.sum(self.null >= self.importance, axis=0)) / (1 + len(self.null)))

    def test(self, adjust: Adjustment | None = "holm") -> Any:
        """The tests as a data frame, the smallest p first; `adjust` as in ``Importances.test``."""
        columns = columns_of_tests(self.features, self.importance, self.p_values, adjust)
        return make_frame(columns, self.backend)

    def to_frame(self) -> Any:
        """The tests, adjusted for their number by Holm's method."""
        return self.test()

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw each feature's importance over its importances with permuted targets."""
        from losslens.plots.refits import plot_permuted_target

        return plot_permuted_target(self, ax=ax)

    @property
    def headline(self) -> str:
        """What the numbers are."""
        return f"{self.what} against {len(self.null)} refits with the target permuted"

    def __repr__(self) -> str:
        width = max(map(len, self.features))
        lines = [f"PermutedTarget: {self.headline}"]
        for j in np.argsort(-self.importance, kind="stable"):
            value = in_digits(float(self.importance[j]))
            lines.append(f"  {self.features[j]:<{width}}  {value}  p = {self.p_values[j]:.3g}")
        least = 1 / (1 + len(self.null))
        return "\n".join([*lines, f"  (p is at least {least:.3g}; .test() adjusts for the number of features)"])
