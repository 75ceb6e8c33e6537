"""The change of a feature's importance when a row is left out: the jackknife, from the means of the cells."""

from __future__ import annotations

import numpy as np

from losslens.cells.matrix import Means
from losslens.donors.layout import CommonGrid, Layout, OwnDonors
from losslens.tables.sample import Sample, chunks
from losslens.typing import Floats


def leave_one_out(means: Means, layout: Layout, sample: Sample, unbiased: float) -> tuple[Floats, Floats]:
    """Influence of each row on the U-statistic, as an observation and as a donor, (n,) each.

    With T the weighted sum of the cells and M the sum of their weights, U = T / M. Without row i both lose its row and
    its column: ``U - U_(-i) = (R_i + C_i - U (M - M_(-i))) / M_(-i)``. The lost weight is split between row and
    column in proportion to theirs.
    """
    if isinstance(layout, OwnDonors) and (layout.alone or layout.even):
        raise ValueError(
            "no row_influence: values were drawn given the other columns, so the effect of leaving out a donor is no "
            "sum of cells; use drop(rows), which averages the remaining cells"
        )
    if means.local is None or means.caused is None or means.lent is None:
        raise ValueError("no row_influence: the mean of each donor's cells was not kept")
    weight, mass = sample.weight, means.mass
    lent = means.lent * mass.sum()
    row = mass * np.where(mass > 0, means.local, 0.0)
    column = lent * np.where(lent > 0, means.caused, 0.0)
    own, squares = _own(layout, sample)  # own cells have weight, but their change is 0
    left = mass.sum() - mass - lent + own
    whole = mass.sum()
    if sample.block is None and not layout.leaves_out_own:  # from V up to U, as `unbiased` does
        inside = mass @ weight - mass * weight - squares + own * weight
        whole = mass.sum() - mass @ weight
        left = left - np.divide(inside, 1 - weight, out=np.zeros(sample.n), where=weight < 1)
    left = np.where(left > 1e-12 * whole, left, np.nan)  # NaN: no cell is left
    lost = unbiased * (whole - left)
    part = np.divide(mass, mass + lent, out=np.zeros(sample.n), where=mass + lent > 0)
    return (row - lost * part) / left, (column - lost * (1 - part)) / left


def _own(layout: Layout, sample: Sample) -> tuple[Floats, Floats]:
    """Mass of the cells of each row with itself; and of those of each donor, times the rows' weights, (n,) each."""
    weight = sample.weight
    own, squares = np.zeros(sample.n), np.zeros(sample.n)
    if isinstance(layout, CommonGrid):
        if layout.block(sample) is None:
            own[layout.donors] = weight[layout.donors] ** 2
            squares[layout.donors] = weight[layout.donors] * float(weight @ weight)
        return own, squares
    rows = np.arange(sample.n)
    for part in chunks(rows, layout.width):
        donors = layout.donors[rows[part]]
        mass = weight[rows[part]][:, None] * layout.weights(sample, rows[part], donors)
        own[part] = (mass * (donors == rows[part][:, None])).sum(axis=1)
        flat = np.where(donors < 0, sample.n - 1, donors).ravel()  # an omitted cell has weight 0
        squares += np.bincount(flat, (mass * weight[rows[part]][:, None]).ravel(), sample.n)
    return own, squares
