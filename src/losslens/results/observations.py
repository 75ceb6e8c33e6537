"""Observations as a result: how much the model's knowledge helps each row, and which rows look wrong."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from losslens.results.base import Result
from losslens.results.table import IMPORTANCE, ResultTable
from losslens.typing import Floats, Indices

if TYPE_CHECKING:
    from matplotlib.axes import Axes


FAR = 7.0  # how far under the median a suspicious row lies, in distances of the lower quartile: 4.7 normal deviations
QUARTER = 0.6745  # the distance of the quartile of a normal distribution, in its deviations
MOST_LISTED, MOST_SHOWN = 10, 15  # rows in the text, and in a notebook


@dataclass(frozen=True, eq=False, repr=False)
class Observations(Result):
    """What the features together take off each row's loss.

    ``O_i = mean_k L(f(x_k), y_i) - L(f(x_i), y_i)``, the sum of the row's local SFIMP. Above 0: knowing the row's
    features helps the model to predict it. Below 0 the model would do better on the row not knowing it.

    `to_frame()` has one row a row, the least important first: importance, loss, target, prediction, suspicious,
    influence.
    """

    importance: Floats  # (n,)
    loss: Floats  # (n,): of the unchanged rows
    weight: Floats  # (n,), sums to one
    target: NDArray[Any] | None  # (n,): numbers or labels
    prediction: NDArray[Any] | None  # (n,): numbers, or the likeliest label
    influence: Floats | None  # (n,): of `RowInfluence.total` over the features, that which is largest in size
    influence_on: NDArray[Any] | None  # (n,): names of the features that it is of
    title: str  # of the loss
    backend: str

    @cached_property
    def fence(self) -> float:
        """What a suspicious row's importance lies under: ``M - 7 (M - Q1)``, and never more than 0.

        M is the median of the rows' importances and Q1 their lower quartile (weighted). Only the lower half says how
        far the others reach, because importances are skewed: by the rows that a model knows best under a squared loss,
        by those it knows worst under a log loss. Of normally spread rows 1 in a million lies that far out. Where Q1 is
        the median, as under a zero-one loss, 4.7 times the root mean square of what lies under the median is taken.

        Of rows without wrong targets 0.4% to 1.8% lay under it with squared and absolute errors, 0% to 2.2% with a log
        loss, and up to 7% with the Brier score, whose bound makes a model's sure mistakes as bad as wrong labels.
        """
        middle, quarter = _quantiles(self.importance, self.weight, (0.5, 0.25))
        far = FAR * (middle - quarter)
        if not far > 1e-9 * abs(middle):
            known = ~np.isnan(self.importance)
            under = np.minimum(self.importance[known] - middle, 0.0)
            far = FAR * QUARTER * float(np.sqrt(self.weight[known] @ under**2 / self.weight[known].sum()))
        return min(middle - far, 0.0)

    @cached_property
    def suspicious(self) -> Indices:
        """Rows that the model's knowledge clearly hurts (`importance` under `fence`), the most suspicious first.

        Their target looks wrong, or they are unlike what the model has learnt. A wrong target that lies beyond the
        prediction, seen from the mean, doesn't show here: knowing the row still helps, however large the loss is.
        """
        counted = (self.weight > 0) & (self.importance < self.fence)
        found = np.flatnonzero(counted)
        return found[np.argsort(self.importance[found], kind="stable")]

    def _table(self) -> ResultTable:
        order = np.argsort(self.importance, kind="stable")
        flagged = np.zeros(len(order), bool)
        flagged[self.suspicious] = True
        columns: dict[str, NDArray[Any] | None] = {
            "row": np.arange(len(order)),
            "importance": self.importance,
            "loss": self.loss,
            "target": self.target,
            "prediction": self.prediction,
            "suspicious": flagged,
            "influence": self.influence,
            "influence_on": self.influence_on,
        }
        known = {name: column[order] for name, column in columns.items() if column is not None}
        return ResultTable(
            f"Observations: {self.headline}",
            {name: column.tolist() if column.dtype.kind in "OU" else column for name, column in known.items()},
            ("row {row}: importance {importance}, loss {loss}[, target {target}, predicted {prediction}]",),
            (("least helped rows", "{row}"), IMPORTANCE, ("loss", "{loss}"), ("suspicious", "{suspicious}")),
            formats={"row": "d"}, in_text=np.flatnonzero(flagged[order]).tolist(), most_in_text=MOST_LISTED,
            most=MOST_SHOWN,
        )  # fmt: skip

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw each row's importance over its loss; suspicious rows are marked with their numbers."""
        from losslens.plots.rows import plot_observations

        return plot_observations(self, ax=ax)

    @property
    def headline(self) -> str:
        """What was found."""
        n, hurt = len(self.importance), int(np.sum(self.importance < 0))
        found = len(self.suspicious)
        return f"{n:,} rows; the model's knowledge hurts {hurt:,} of them, {found:,} clearly ({self.title})"


def _quantiles(values: Floats, weight: Floats, shares: tuple[float, ...]) -> list[float]:
    """Weighted quantiles, in the middle between two values where either would do."""
    counted = (weight > 0) & np.isfinite(values)
    if not counted.any():
        return [np.nan] * len(shares)
    order = np.argsort(values[counted])
    ordered, mass = values[counted][order], np.cumsum(weight[counted][order])
    slack = 1e-9 * mass[-1]
    low, high = (np.searchsorted(mass, np.array(shares) * mass[-1] + off) for off in (-slack, slack))
    last = len(ordered) - 1
    return ((ordered[np.minimum(low, last)] + ordered[np.minimum(high, last)]) / 2).tolist()  # type: ignore[no-any-return]
