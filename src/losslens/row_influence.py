"""How far leaving out each row would move a feature's importance: the jackknife, from the means of the cells."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from losslens.cells import Means
from losslens.meetings import Common, Meeting, PerRow
from losslens.sample import Floats, Indices, Sample, chunks
from losslens.shown_results import Saved
from losslens.tables import make_frame

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_LISTED = 5  # rows in the repr


@dataclass(frozen=True, eq=False, repr=False)
class RowInfluence(Saved):
    """How far each row moves a feature's importance: as an observation whose loss changes, and as a donor.

    ``total_i = U - U_(-i)``: the U-statistic (`unbiased`) less the one without row i in either role, which is
    ``U_(-i) = (T - R_i - C_i) / ((n - 1)(n - 2))`` with row sums R and column sums C of the cells. Above 0: the feature
    would matter less without the row. On every pair of rows without weights the totals sum to 0; with weights, with
    groups and on sampled donors they are what `drop` gives, over the cells that are left. NaN: no cell would be left.

    `FeatureImportance.influence` holds the same differences scaled to standard errors (there rows of a group add up):
    without weights, on every pair, ``influence.moved = sqrt((n - 1) / n) total``.
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

    def to_frame(self) -> Any:
        """One row a row: row, as_row, as_donor, total; those that move the importance most first."""
        order = self.order
        columns = {"as_row": self.as_row, "as_donor": self.as_donor, "total": self.total}
        return make_frame({"row": order, **{name: some[order] for name, some in columns.items()}}, self.backend)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw each row's influence as a donor over that as an observation."""
        from losslens.plots import plot_row_influence

        return plot_row_influence(self, ax=ax)

    @property
    def headline(self) -> str:
        """What the numbers are."""
        return f"what each row adds to the importance of {self.name} ({self.title}), {self.unbiased:.4g} with all rows"

    def __repr__(self) -> str:
        lines = [f"RowInfluence: {self.headline}"]
        for i in self.order[:MOST_LISTED].tolist():
            parts = f"{self.as_row[i]:+.3g} as a row, {self.as_donor[i]:+.3g} as a donor"
            lines.append(f"  row {i}  {self.total[i]:+.3g} ({parts})")
        left = len(self.as_row) - MOST_LISTED
        return "\n".join([*lines, *([f"  ({left:,} rows more)"] if left > 0 else [])])


def leave_one_out(means: Means, meeting: Meeting, sample: Sample, unbiased: float) -> tuple[Floats, Floats]:
    """How far each row moves the U-statistic, as an observation and as a donor, (n,) each.

    With T the weighted sum of the cells and M what counts as their mass, U = T / M. Without row i both lose its row and
    its column: ``U - U_(-i) = (R_i + C_i - U (M - M_(-i))) / M_(-i)``. The mass lost is shared by the row and the
    column as they weigh.
    """
    if isinstance(meeting, PerRow) and (meeting.alone or meeting.even):
        raise ValueError(
            "row_influence is not known where values were drawn given the other columns: what leaving out a donor "
            "would change is no sum of cells there; drop(rows) leaves out rows and averages the cells that are left"
        )
    if means.local is None or means.caused is None or means.lent is None:
        raise ValueError("the influence of single rows is not known: the mean of each donor's cells was not kept")
    weight, mass = sample.weight, means.mass
    lent = means.lent * mass.sum()
    row = mass * np.where(mass > 0, means.local, 0.0)
    column = lent * np.where(lent > 0, means.caused, 0.0)
    own, squares = _own(meeting, sample)  # changes of own cells are 0: they have mass alone
    left = mass.sum() - mass - lent + own
    whole = mass.sum()
    if sample.block is None and not meeting.leaves_out_own:  # from V up to U, as `unbiased` does
        inside = mass @ weight - mass * weight - squares + own * weight
        whole = mass.sum() - mass @ weight
        left = left - np.divide(inside, 1 - weight, out=np.zeros(sample.n), where=weight < 1)
    left = np.where(left > 1e-12 * whole, left, np.nan)  # nan: nothing is left
    lost = unbiased * (whole - left)
    part = np.divide(mass, mass + lent, out=np.zeros(sample.n), where=mass + lent > 0)
    return (row - lost * part) / left, (column - lost * (1 - part)) / left


def _own(meeting: Meeting, sample: Sample) -> tuple[Floats, Floats]:
    """Mass of the cells of each row with itself; and of those of each donor, times the rows' weights, (n,) each."""
    weight = sample.weight
    own, squares = np.zeros(sample.n), np.zeros(sample.n)
    if isinstance(meeting, Common):
        if meeting.block(sample) is None:
            own[meeting.donors] = weight[meeting.donors] ** 2
            squares[meeting.donors] = weight[meeting.donors] * float(weight @ weight)
        return own, squares
    rows = np.arange(sample.n)
    for part in chunks(rows, meeting.width):
        donors = meeting.donors[rows[part]]
        mass = weight[rows[part]][:, None] * meeting.weights(sample, rows[part], donors)
        own[part] = (mass * (donors == rows[part][:, None])).sum(axis=1)
        flat = np.where(donors < 0, sample.n - 1, donors).ravel()  # a cell that is left out weighs nothing
        squares += np.bincount(flat, (mass * weight[rows[part]][:, None]).ravel(), sample.n)
    return own, squares
