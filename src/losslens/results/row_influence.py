"""The change of a feature's importance when a row is left out (jackknife)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from losslens import plots
from losslens.plots.look import Look, draws
from losslens.results.base import Result
from losslens.results.table import ResultTable
from losslens.tables.row_labels import Labels, label_text, row_names
from losslens.typing import Axes, Colors, FeatureLabels, Floats, Indices

ROWS_IN_TEXT, ROWS_IN_NOTEBOOK = 5, 15


@dataclass(frozen=True, eq=False, repr=False)
class RowInfluence(Result):
    """Influence of each row on a feature's importance, as an observation and as a donor.

    ``total_i = c (U - U_(-i))``: the importance, c U, minus c times the mean over pairs of different rows without row i
    in both roles, ``U_(-i) = (T - R_i - C_i) / ((n - 1)(n - 2))`` with row sums R and column sums C of the cells, and c
    the share of the pairs of different rows (of all pairs without weights ``(n - 1) / n``). Above 0: the feature would
    be less important without the row. Over all pairs of rows without weights the totals sum to 0; with weights, groups
    or sampled donors U_(-i) is that of `drop`, over the remaining cells. NaN: no cell would remain.

    `FeatureImportance.influence` has the same differences of U scaled for standard errors (and added within groups):
    without weights, over all pairs, ``influence.moved = sqrt((n - 1) / n) (U - U_(-i))``.

    `to_frame()` has one line for each row: row, as_row, as_donor, total; the largest influences first.

    Examples
    --------
    >>> import numpy as np, losslens as ll
    >>> X = np.random.default_rng(0).normal(size=(100, 2))
    >>> x0 = ll.feature_importance(lambda X: X[:, 0], X, X[:, 0], loss="squared_error")["x0"]
    >>> rows = x0.row_influence
    >>> bool(np.isclose(rows.without[0], 0.99 * x0.drop([0]).unbiased)), bool(abs(rows.total.sum()) < 1e-9)
    (True, True)
    """

    name: str  #: name of the feature
    title: str  #: name of the loss
    unbiased: float  #: importance over all pairs of different rows (U)
    as_row: Floats  #: influence as an observation, (n,)
    as_donor: Floats  #: influence as a donor, (n,)
    backend: str
    row_labels: Labels | None = None  # (n,), of a pandas index
    pfi: float = np.nan  #: importance over all rows; NaN in older files, whose influences are on `unbiased`

    _of_one = True

    @property
    def importance(self) -> float:
        """The importance with all rows, which the influences change."""
        return self.unbiased if np.isnan(self.pfi) else self.pfi

    @property
    def total(self) -> Floats:
        """The sum of both roles, (n,): the decrease of the importance when the row is left out."""
        return np.asarray(self.as_row + self.as_donor)

    @property
    def without(self) -> Floats:
        """The importance without each row, (n,)."""
        return np.asarray(self.importance - self.total)

    @property
    def order(self) -> NDArray[Any]:
        """Rows by decreasing size of their influence, those without a number last: labels, or else positions."""
        return row_names(self.row_labels, self.ranking)

    @property
    def ranking(self) -> Indices:
        """The positions of the rows in that order."""
        return np.argsort(-np.abs(np.nan_to_num(self.total, nan=0.0)) + np.isnan(self.total), kind="stable")

    def _table(self) -> ResultTable:
        columns = {
            "row": row_names(self.row_labels, np.arange(len(self.total))),
            "as_row": self.as_row,
            "as_donor": self.as_donor,
        }
        return ResultTable(
            f"RowInfluence: {self.headline}", columns | {"total": self.total},
            ("row {row}", "{total} ({as_row} as a row, {as_donor} as a donor)"),
            (("row", "{row}"), ("influence", "{total}"), ("as a row", "{as_row}"), ("as a donor", "{as_donor}")),
            ["above 0: the feature would be less important without the row"],
            formats={"row": label_text} | dict.fromkeys(("as_row", "as_donor", "total"), "+.3g"),
            most_in_text=ROWS_IN_TEXT, most=ROWS_IN_NOTEBOOK,
        ).ordered(self.ranking)  # fmt: skip

    @draws("curve")
    def plot(
        self, ax: Axes | None = None, *, colors: Colors | None = None, labels: FeatureLabels | None = None
    ) -> Axes:
        """Draw the ten rows that move a feature's importance most: what each adds to it, as a row and as a donor.

        Parameters
        ----------
        colors
            Colour of the bars.

        Examples
        --------
        >>> import numpy as np, losslens as ll
        >>> X = np.random.default_rng(0).normal(size=(50, 2))
        >>> imp = ll.feature_importance(lambda X: X[:, 1], X, 2 * X[:, 1], loss="squared_error")
        >>> len(imp["x1"].row_influence.plot().get_yticklabels())
        10
        """
        return plots.rows.plot_row_influence(self, ax, Look(colors=colors, labels=labels))

    @property
    def headline(self) -> str:
        """What the numbers are."""
        return f"influence of rows on the importance of {self.name} ({self.title}), {self.importance:.4g} with all rows"
