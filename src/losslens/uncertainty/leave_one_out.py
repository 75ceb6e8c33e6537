"""How far leaving out each row would move a feature's importance: the jackknife, from the means of the cells."""

from __future__ import annotations

import numpy as np

from losslens.cells.matrix import Means
from losslens.donors.layout import CommonGrid, Layout, OwnDonors
from losslens.tables.sample import Sample, chunks
from losslens.typing import Floats


def leave_one_out(means: Means, meeting: Layout, sample: Sample, unbiased: float) -> tuple[Floats, Floats]:
    """How far each row moves the U-statistic, as an observation and as a donor, (n,) each.

    With T the weighted sum of the cells and M what counts as their mass, U = T / M. Without row i both lose its row and
    its column: ``U - U_(-i) = (R_i + C_i - U (M - M_(-i))) / M_(-i)``. The mass lost is shared by the row and the
    column as they weigh.
    """
    if isinstance(meeting, OwnDonors) and (meeting.alone or meeting.even):
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


def _own(meeting: Layout, sample: Sample) -> tuple[Floats, Floats]:
    """Mass of the cells of each row with itself; and of those of each donor, times the rows' weights, (n,) each."""
    weight = sample.weight
    own, squares = np.zeros(sample.n), np.zeros(sample.n)
    if isinstance(meeting, CommonGrid):
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
