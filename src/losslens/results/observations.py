"""Importances of observations: how much the features reduce the loss of each row, and which rows are suspicious."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from losslens import plots
from losslens.plots.look import Look, draws
from losslens.results.base import Result
from losslens.results.table import IMPORTANCE, ResultTable
from losslens.tables.row_labels import Labels, label_text, row_names
from losslens.text import Sentence, claim
from losslens.typing import Axes, AxisScale, Colors, Floats, Indices

FENCE = 7.0  # distance of the fence from the median, in distances of the lower quartile: 4.7 normal standard deviations
QUARTILE = 0.6745  # distance of the quartile of a normal distribution from its mean, in standard deviations
ROWS_IN_TEXT, ROWS_IN_NOTEBOOK = 10, 15


@dataclass(frozen=True, eq=False, repr=False)
class Observations(Result):
    """How much all features together reduce the loss of each row.

    ``O_i = mean_k L(f(x_k), y_i) - L(f(x_i), y_i)``, the sum of the row's local SFIMP. Above 0: the features of the row
    help to predict its target. Below 0: predictions from other rows' features would be better.

    `to_frame()` has one line for each row, the least important first: importance, loss, target, prediction, suspicious,
    influence.

    Examples
    --------
    >>> import numpy as np, losslens as ll
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> y = X[:, 0] + 0.1 * X[:, 1]
    >>> y[7] = -10 * X[7, 0]  # a wrong target
    >>> ranking = ll.shapley_importance(lambda X: X[:, 0], X, y, loss="squared_error").rank_rows()
    >>> ranking.suspicious, bool(ranking.importance[7] < ranking.fence)
    (array([7]), True)
    """

    importance: Floats  #: how much all features together reduce the loss of each row, (n,)
    loss: Floats  #: loss of the unchanged rows, (n,)
    weight: Floats  #: weights of the rows, (n,): they sum to one
    target: NDArray[Any] | None  #: true values, (n,): numbers or labels
    prediction: NDArray[Any] | None  #: predictions, (n,): numbers, or the likeliest label
    #: the `RowInfluence.total` of each row, (n,), of the feature where it is largest in absolute value
    influence: Floats | None
    influence_on: NDArray[Any] | None  #: names of these features, (n,)
    title: str  #: name of the loss
    backend: str
    row_labels: Labels | None = None  # (n,), of a pandas index

    @cached_property
    def fence(self) -> float:
        """The importance under which a row is suspicious: ``M - 7 (M - Q1)``, at most 0.

        M is the median of the rows' importances and Q1 their lower quartile (weighted). The spread is that of the lower
        half, because importances are skewed: to the right under a squared loss, to the left under a log loss. Of
        normally distributed importances 1 in a million is below the fence. Where Q1 is the median, as under a zero-one
        loss, the distance is 4.7 times the root mean square deviation below the median.

        Of rows with correct targets 0.4% to 1.8% were below it with squared and absolute errors, 0% to 2.2% with a log
        loss, and up to 7% with the Brier score, which is bounded: confident mistakes cost as much as wrong labels.
        Where the noise of the target is several times larger for some rows than for most, 2% to 5% were, and up to 6.5%
        of single samples: one fence for all rows is set by those with little noise.
        """
        middle, quarter = _quantiles(self.importance, self.weight, (0.5, 0.25))
        far = FENCE * (middle - quarter)
        if not far > 1e-9 * abs(middle):
            present = ~np.isnan(self.importance)
            weight, below = self.weight[present], np.minimum(self.importance[present] - middle, 0.0)
            far = FENCE * QUARTILE * float(np.sqrt(weight @ below**2 / weight.sum()))
        return min(middle - far, 0.0)

    @property
    def suspicious(self) -> NDArray[Any]:
        """Rows whose `importance` is below `fence`, the lowest first: their labels, or positions where there are none.

        Their target may be wrong, or they differ from the training data. A wrong target that is further from the mean
        than the prediction is not detected: the features still reduce the loss, however large it is.
        """
        return row_names(self.row_labels, self.flagged)

    @cached_property
    def flagged(self) -> Indices:
        """The positions of the suspicious rows."""
        rows = np.flatnonzero((self.weight > 0) & (self.importance < self.fence))
        return rows[np.argsort(self.importance[rows], kind="stable")]

    @property
    def _message(self) -> Sentence:
        from losslens.results.sentences import helped_rows

        return helped_rows(self)

    def _table(self) -> ResultTable:
        order = np.argsort(self.importance, kind="stable")
        flagged = np.zeros(len(order), bool)
        flagged[self.flagged] = True
        columns: dict[str, NDArray[Any] | None] = {
            "row": row_names(self.row_labels, np.arange(len(order))),
            "importance": self.importance,
            "loss": self.loss,
            "target": self.target,
            "prediction": self.prediction,
            "suspicious": flagged,
            "influence": self.influence,
            "influence_on": self.influence_on,
        }
        present = {name: column[order] for name, column in columns.items() if column is not None}
        return ResultTable(
            f"Observations: {self.headline}",
            {name: column.tolist() if column.dtype.kind in "OU" else column for name, column in present.items()},
            ("row {row}: importance {importance}, loss {loss}[, target {target}, predicted {prediction}]",),
            (("least helped rows", "{row}"), IMPORTANCE, ("loss", "{loss}"), ("suspicious", "{suspicious}")),
            formats={"row": label_text}, in_text=np.flatnonzero(flagged[order]).tolist(), most_in_text=ROWS_IN_TEXT,
            most=ROWS_IN_NOTEBOOK,
        )  # fmt: skip

    def _rows_drawn(self, lines: int) -> int:
        return 0

    @draws("rows")
    def plot(
        self, ax: Axes | None = None, *, scale: AxisScale = "linear", colors: Colors | None = None,
        title: str | None = None,
    ) -> Axes:  # fmt: skip
        """Draw each row's importance (decrease in loss by all features) over its loss; suspicious rows are numbered.

        Parameters
        ----------
        colors
            Two colours: of the rows, and of those that stand out.

        Examples
        --------
        >>> import numpy as np, losslens as ll
        >>> X = np.random.default_rng(0).normal(size=(50, 2))
        >>> shares = ll.shapley_importance(lambda X: X[:, 1], X, 2 * X[:, 1], loss="squared_error")
        >>> shares.rank_rows().plot().get_xlabel()
        "squared error, the row's own"
        """
        return plots.rows.plot_observations(self, ax, Look(scale=scale, colors=colors))

    @property
    def headline(self) -> str:
        """The number of rows, and of those with a negative importance."""
        return self._negative_rows()

    @claim(level=0)
    def _negative_rows(self) -> str:
        """The number of rows, and of those with a negative importance."""
        n, negative = len(self.importance), int(np.sum(self.importance < 0))
        suspicious = len(self.flagged)
        many = f"{suspicious:,} {'is' if suspicious == 1 else 'are'} suspicious"
        return f"{n:,} rows; {negative:,} have a negative importance, {many} ({self.title})"


def _quantiles(values: Floats, weight: Floats, shares: tuple[float, ...]) -> list[float]:
    """Weighted quantiles; the midpoint where two values qualify."""
    counted = (weight > 0) & np.isfinite(values)
    if not counted.any():
        return [np.nan] * len(shares)
    order = np.argsort(values[counted])
    ordered, mass = values[counted][order], np.cumsum(weight[counted][order])
    slack = 1e-9 * mass[-1]
    low, high = (np.searchsorted(mass, np.array(shares) * mass[-1] + shift) for shift in (-slack, slack))
    last = len(ordered) - 1
    return ((ordered[np.minimum(low, last)] + ordered[np.minimum(high, last)]) / 2).tolist()  # type: ignore[no-any-return]
