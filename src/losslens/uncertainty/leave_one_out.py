"""The change of a feature's importance when a row, or a group, is left out: the jackknife, from means of cells."""

from __future__ import annotations

import numpy as np

from losslens.cells.matrix import Means
from losslens.donors.layout import CommonGrid, Layout, OwnDonors
from losslens.tables.sample import Sample, chunks
from losslens.typing import Floats, Indices


def leave_one_out(
    means: Means, layout: Layout, sample: Sample, rows: Indices, unbiased: float, *, by_group: bool = False
) -> tuple[Floats, Floats]:
    """Influence of each row on the U-statistic of `rows`, as an observation and as a donor, (n,) each.

    With T the weighted sum of the cells and M the sum of their weights, U = T / M. Without row i both lose its row and
    its column: ``U - U_(-i) = (R_i + C_i - U (M - M_(-i))) / M_(-i)``. The lost weight is split between row and
    column in proportion to theirs without own cells.

    ``by_group``: the same for each group of rows (`groups=`), (G,) each. No pair inside a group counts, so that
    the sums over its rows and over its donors have no cell in common.
    """
    if isinstance(layout, OwnDonors) and (layout.alone or layout.even):
        raise ValueError(
            "no row_influence: values were drawn given the other columns, so the effect of leaving out a donor is no "
            "sum of cells; use drop(rows), which averages the remaining cells"
        )
    if means.local is None or means.caused is None or means.donor_weight is None:
        raise ValueError("no row_influence: the mean of each donor's cells was not kept")
    weight, total = sample.weight, means.mass.sum()
    mass, row = np.zeros(sample.n), np.zeros(sample.n)
    mass[rows], row[rows] = means.mass, means.mass * np.where(means.mass > 0, means.local, 0.0)
    donor_mass = means.donor_weight * total
    column = donor_mass * np.where(donor_mass > 0, means.caused, 0.0)
    own, squares = _own(layout, sample, rows)  # own cells have weight, but their change is 0
    if by_group:
        mass, row, donor_mass, column, own, squares = (
            sample.by_unit(x) for x in (mass, row, donor_mass, column, own, squares)
        )
    left, pair_mass = total - mass - donor_mass + own, total
    if sample.block is None and not layout.leaves_out_own:  # from V up to U, as `unbiased` does
        inside = mass @ weight - mass * weight - squares + own * weight
        pair_mass = total - float(mass @ weight)
        left = left - np.divide(inside, 1 - weight, out=np.zeros(sample.n), where=weight < 1)
    left = np.where(left > 1e-12 * pair_mass, left, np.nan)  # NaN: no cell is left
    lost = unbiased * (pair_mass - left)
    others = mass + donor_mass - 2 * own
    part = np.divide(mass - own, others, out=np.zeros(len(mass)), where=others > 1e-12 * pair_mass)
    return (row - lost * part) / left, (column - lost * (1 - part)) / left


def _own(layout: Layout, sample: Sample, rows: Indices) -> tuple[Floats, Floats]:
    """Mass of the cells of each row with itself; and of those of each donor, times the rows' weights, (n,) each."""
    weight = sample.weight
    own, squares = np.zeros(sample.n), np.zeros(sample.n)
    if isinstance(layout, CommonGrid):
        if layout.block(sample) is None:
            counted = np.zeros(sample.n)
            counted[rows] = weight[rows]
            own[layout.donors] = weight[layout.donors] * counted[layout.donors]
            squares[layout.donors] = weight[layout.donors] * float(counted @ counted)
        return own, squares
    for part in chunks(rows, layout.width):
        donors = layout.donors[rows[part]]
        mass = weight[rows[part]][:, None] * layout.weights(sample, rows[part], donors)
        own[rows[part]] = (mass * (donors == rows[part][:, None])).sum(axis=1)
        flat = np.where(donors < 0, sample.n - 1, donors).ravel()  # an omitted cell has weight 0
        squares += np.bincount(flat, (mass * weight[rows[part]][:, None]).ravel(), sample.n)
    return own, squares
