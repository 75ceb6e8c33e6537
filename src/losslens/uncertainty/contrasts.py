"""What each row moves the difference of two groups' means, where the means of rows are over donors from all rows."""

from __future__ import annotations

import numpy as np

from losslens.donors.layout import CommonGrid, Layout
from losslens.tables.sample import Sample, by_unit, chunks
from losslens.typing import Floats, Indices
from losslens.uncertainty.standard_errors import influence_on_mean, jackknifed

ROUNDING = 1e-12  # of the weight of all donors


def of_rows(values: Floats, sample: Sample, group: Indices) -> Floats:
    """What each row, or group of rows, moves the weighted means over these rows, (n, q) -> (units, q)."""
    weight = np.zeros(sample.n)
    weight[group] = sample.weight[group]
    return influence_on_mean(values, weight, sample.block)


def contrast(sample: Sample, first: Indices, second: Indices) -> Floats:
    """The weight of each row in the mean over the first rows less that over the second, (n,)."""
    weight = np.zeros(sample.n)
    for group, sign in ((first, 1.0), (second, -1.0)):
        weight[group] += sign * sample.weight[group] / sample.weight[group].sum()
    return weight


def of_donors(
    cells: Floats, means: Floats, layout: Layout, sample: Sample, places: Indices, weight: Floats
) -> tuple[Floats, Floats]:
    """What each row, or group of rows, moves a weighted sum of the means of rows, as a donor, (units, p).

    Let ``q_i = sum_k d_ik phi(i, k)`` be the mean of row i over its donors, and c_i the weight of the row. Without the
    donors of unit h it is ``q_i + sum_{k in h} d_ik (q_i - phi(i, k)) / (1 - d_ih)``: the sum over rows, times c, is
    what h moves. A row and itself, and rows of a group, are no pair.

    Also what the sampling of donors adds to the sum of squares, of all p together and of each, (1 + p,): a cell's noise
    is in its row's mean, where it belongs, and once more in its donor's. It is as much as the squares of the cells.

    cells: (r, m, p), of the rows at `places` with the donors of the layout; means: (r, p), over the donors.
    """
    moved, noise, unit = np.zeros((sample.n, cells.shape[2])), np.zeros(1 + cells.shape[2]), sample.block
    counted = np.flatnonzero(weight[places])  # the others move nothing, and may have no donor
    for part in chunks(counted, cells.shape[1]):
        some, rows = counted[part], places[counted[part]]
        if isinstance(layout, CommonGrid):
            own = np.arange(sample.n) if unit is None else unit
            share = np.where(own[rows][:, None] != own, sample.weight, 0.0)
            share /= share.sum(axis=1, keepdims=True)
            of_unit = share if unit is None else by_unit(share.T, unit).T[:, np.unique(unit, return_inverse=True)[1]]
            pull = weight[rows][:, None] * share / np.maximum(1 - of_unit, ROUNDING)
            moved += np.einsum("ik,ikj->kj", pull, cells[some]) - pull.T @ means[some]
            continue
        donors = layout.donors[rows]
        share = layout.weights(sample, rows, donors)
        share /= share.sum(axis=1, keepdims=True)
        pull = weight[rows][:, None] * share / np.maximum(1 - share, ROUNDING)
        changes = pull[:, :, None] * (cells[some] - np.einsum("im,imj->ij", share, cells[some])[:, None])
        np.add.at(moved, donors, changes)
        noise += [np.square(changes.sum(axis=2)).sum(), *np.square(changes).sum(axis=(0, 1))]
    return jackknifed(by_unit(moved, unit), by_unit(sample.weight, unit) > 0), noise
