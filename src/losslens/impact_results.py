"""Conditional predictive impact as a result: a change of loss a row and feature."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from losslens.inference import Estimates, Inference
from losslens.results import Floats, in_digits
from losslens.shares import rows_only
from losslens.tables import make_frame
from losslens.uncertainty import Influence, Target, check_target

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class ConditionalImpact(Inference):
    """How much the loss grows when a feature's values are drawn anew given the other features."""

    features: tuple[str, ...]
    local: Floats  # (n, p): the change of each row's loss
    weight: Floats  # (n,), sums to one
    error: float  # with nothing replaced
    title: str  # of the loss
    backend: str

    @property
    def importance(self) -> Floats:
        """The mean over rows, (p,)."""
        return np.asarray(self.weight @ self.local)

    @property
    def std_error(self) -> Floats:
        """Standard error of `importance` for this model on new data, (p,)."""
        return self.estimates.std_error

    def interval(self, level: float = 0.95, target: Target = "model") -> tuple[Floats, Floats]:
        """Low and high ends for each feature, for this model on new data."""
        if check_target(target) == "sample":
            raise ValueError("how much the draws alone move the numbers is not kept apart; use target='model'")
        return self.estimates.intervals(level)

    @cached_property
    def estimates(self) -> Estimates:
        """The importances of this model on new data and their covariance."""
        counted = int(np.sum(self.weight > 0))
        if counted < 3:
            raise ValueError(f"a standard error needs at least 3 rows that count; there are {counted}")
        moved = rows_only(self.local, self.weight)
        skewness = np.array([Influence(column).skewness for column in moved.T])
        return Estimates(self.features, self.importance, moved.T @ moved, counted - 1, skewness)

    @property
    def headline(self) -> str:
        """What the numbers are."""
        return (
            f"increase in {self.title} beyond what the other features tell; {in_digits(self.error)} with nothing drawn"
        )

    def to_frame(self) -> Any:
        """One row a feature, the most important first."""
        order = np.argsort(-self.importance, kind="stable")
        error = low = high = p = np.full(len(order), np.nan)
        if self._has_errors:
            error, (low, high), p = self.std_error, self.interval(), self.estimates.p_values()
        data = {"feature": [self.features[j] for j in order], "importance": self.importance[order]}
        data |= {"std_error": error[order], "low": low[order], "high": high[order]}
        return self._frame(data | {"target": ["model"] * len(order), "p": p[order]})

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the ranking."""
        from losslens.plots import plot_impact

        return plot_impact(self, ax=ax)

    def save(self, path: str | Path) -> None:
        """Write the result to one file that `losslens.load` reads back; nothing in it can run."""
        from losslens.storage import save

        save(self, path)

    def _frame(self, data: dict[str, Any]) -> Any:
        return make_frame(data, self.backend)

    def _repr_html_(self) -> str:
        from losslens.plots.html import show

        return show(self)

    def __repr__(self) -> str:
        order, width = np.argsort(-self.importance, kind="stable"), max(map(len, self.features))
        told = self._told() if self._has_errors else [""] * len(order)
        lines = [f"  {self.features[j]:<{width}}  {in_digits(float(self.importance[j]))}{told[j]}" for j in order]
        return "\n".join([f"ConditionalImpact: {self.headline}", *lines])

    @property
    def _has_errors(self) -> bool:
        """Whether there are rows enough to say how sure the numbers are."""
        return int(np.sum(self.weight > 0)) >= 3

    def _told(self) -> list[str]:
        """How sure each number is, in words."""
        numbers = zip(self.importance.tolist(), self.std_error.tolist(), self.estimates.p_values(), strict=True)
        return [f" ± {in_digits(error, like=value)}  p = {p:.3g}" for value, error, p in numbers]
