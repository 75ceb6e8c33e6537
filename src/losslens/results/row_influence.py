"""How far leaving out each row would move a feature's importance: the jackknife, from the means of the cells."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from losslens.results.base import Result
from losslens.results.table import ResultTable
from losslens.typing import Axes, Floats, Indices

MOST_LISTED, MOST_SHOWN = 5, 15  # rows in the text, and in a notebook


@dataclass(frozen=True, eq=False, repr=False)
class RowInfluence(Result):
    """How far each row moves a feature's importance: as an observation whose loss changes, and as a donor.

    ``total_i = U - U_(-i)``: the U-statistic (`unbiased`) less the one without row i in either role, which is
    ``U_(-i) = (T - R_i - C_i) / ((n - 1)(n - 2))`` with row sums R and column sums C of the cells. Above 0: the feature
    would matter less without the row. On every pair of rows without weights the totals sum to 0; with weights, with
    groups and on sampled donors they are what `drop` gives, over the cells that are left. NaN: no cell would be left.

    `FeatureImportance.influence` holds the same differences scaled to standard errors (there rows of a group add up):
    without weights, on every pair, ``influence.moved = sqrt((n - 1) / n) total``.

    `to_frame()` has one row a row: row, as_row, as_donor, total; those that move the importance most first.
    """

    name: str
    title: str  # of the loss
    unbiased: float  # U, of all rows
    as_row: Floats  # (n,)
    as_donor: Floats  # (n,)
    backend: str

    @property
    def total(self) -> Floats:
        """Both roles together, (n,): what leaving out the row takes off the importance."""
        return np.asarray(self.as_row + self.as_donor)

    @property
    def without(self) -> Floats:
        """The importance (U-statistic) without each row, (n,)."""
        return np.asarray(self.unbiased - self.total)

    @property
    def order(self) -> Indices:
        """Rows, those that move the importance most first; those without a number last."""
        return np.argsort(-np.abs(np.nan_to_num(self.total, nan=0.0)) + np.isnan(self.total), kind="stable")

    def _table(self) -> ResultTable:
        columns = {
            "row": np.arange(len(self.total)),
            "as_row": self.as_row,
            "as_donor": self.as_donor,
            "total": self.total,
        }
        return ResultTable(
            f"RowInfluence: {self.headline}", columns,
            ("row {row}", "{total} ({as_row} as a row, {as_donor} as a donor)"),
            (("row", "{row}"), ("influence", "{total}"), ("as a row", "{as_row}"), ("as a donor", "{as_donor}")),
            ["above 0: the feature would matter less without the row"],
            formats={"row": "d"} | dict.fromkeys(("as_row", "as_donor", "total"), "+.3g"),
            most_in_text=MOST_LISTED, most=MOST_SHOWN,
        ).ordered(self.order)  # fmt: skip

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw each row's influence as a donor over that as an observation."""
        from losslens.plots.rows import plot_row_influence

        return plot_row_influence(self, ax=ax)

    @property
    def headline(self) -> str:
        """What the numbers are."""
        return f"what each row adds to the importance of {self.name} ({self.title}), {self.unbiased:.4g} with all rows"
