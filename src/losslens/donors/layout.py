"""Layout of the cell matrix: a grid shared by all rows (`CommonGrid`), or donors drawn for each row (`OwnDonors`)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from losslens.donors.designs import DonorMatrix
from losslens.tables.sample import Sample
from losslens.typing import Floats, Indices


@dataclass(frozen=True, eq=False)
class CommonGrid:
    """Every row is evaluated at every value of one grid."""

    own: Indices  # (n,): grid position of each row's own value; -1 if it is not on the grid
    donors: Indices  # (d,): the donor rows; empty for values given by the user
    size: int
    leaves_out_own: bool = False
    # Of a grid at quantiles, whose donors stand for all rows, (n,): where each row's value lies between grid values, in
    # steps from the first; NaN: nowhere.
    steps: Floats | None = None

    @property
    def own_places(self) -> Indices | None:
        """The grid position of each row's own value, (n,); -1 where it has none; None where rows have no such place."""
        return self.own

    @property
    def width(self) -> int:
        """Cells in a row."""
        return self.size

    @property
    def has_mass(self) -> bool:
        """Whether donors give the grid values weights; without donors there are curves but no importance."""
        return len(self.donors) > 0

    def places(self, rows: Indices) -> Indices:
        """Grid positions of the cells of these rows, (b, g)."""
        return np.broadcast_to(np.arange(self.size), (len(rows), self.size))

    def block(self, sample: Sample) -> Indices | None:
        """Groups inside which no pairs count: `groups=`, single rows (no row is its own donor), or None."""
        if not self.has_mass:
            return None
        if sample.block is not None:
            return sample.block
        return np.arange(sample.n) if self.leaves_out_own else None

    def weights(self, sample: Sample, rows: Indices) -> Floats:
        """Weights of the cells of these rows: the donors' weights at each value, (1, g) or (b, g)."""
        donor_weight, place = sample.weight[self.donors], self.own[self.donors]
        total = np.bincount(place, donor_weight, self.size)
        block = self.block(sample)
        if block is None:
            return np.asarray(total[None, :], float)
        from scipy import sparse

        shape = (int(block.max()) + 1, self.size)
        group_weight = sparse.csr_array((donor_weight, (block[self.donors], place)), shape=shape)
        left = total - group_weight[block[rows]].toarray()
        left[left < 1e-12 * total.max()] = 0.0  # rounding error at values that occur in the row's own group only
        return left

    def value_mass(self, sample: Sample, rows: Indices) -> Floats:
        """The weight of all cells of these rows at each value, (g,): the sum of `weights` over the rows, weighted.

        A row's own group holds back its own weight, so one sum over the donors replaces one over rows and values.
        """
        donor_weight, place = sample.weight[self.donors], self.own[self.donors]
        row_mass = float(sample.weight[rows].sum())
        mass: Floats = np.asarray(row_mass * np.bincount(place, donor_weight, self.size), float)
        block = self.block(sample)
        if block is None:
            return mass
        of_block = np.bincount(block[rows], sample.weight[rows], int(block.max()) + 1)
        left: Floats = mass - np.bincount(place, donor_weight * of_block[block[self.donors]], self.size)
        left[left < 1e-12 * mass.max()] = 0.0  # rounding error at values that occur in the rows' own groups only
        return left

    def held_by_block(self, sample: Sample) -> Any:
        """Which values occur in each group: a sparse matrix (groups, g) of running numbers from 1."""
        from scipy import sparse

        block = self.block(sample)
        assert block is not None
        flat = np.unique(block[self.donors] * self.size + self.own[self.donors])
        shape = (int(block.max()) + 1, self.size)
        return sparse.csr_array((np.arange(1, len(flat) + 1), (flat // self.size, flat % self.size)), shape=shape)

    def subset(self, rows: Indices) -> tuple[CommonGrid, Indices]:
        """Rows and donors in `rows` alone, and the grid positions that remain."""
        place = np.full(len(self.own), -1, np.intp)
        place[rows] = np.arange(len(rows))
        donors = place[self.donors][place[self.donors] >= 0]
        own = self.own[rows]
        kept, steps = np.unique(own[donors]), None if self.steps is None else self.steps[rows]
        return replace(self, own=own, donors=donors, steps=steps).keep(kept), kept

    def keep(self, kept: Indices) -> CommonGrid:
        """These grid values only."""
        place = np.full(self.size + 1, -1, np.intp)  # the last entry is for own == -1
        place[kept] = np.arange(len(kept))
        own, donors = np.asarray(place[self.own]), self.donors
        steps = None if self.steps is None or not len(kept) else np.interp(self.steps, kept, np.arange(len(kept)))
        return replace(self, own=own, donors=donors[own[donors] >= 0], size=len(kept), steps=steps)


@dataclass(frozen=True, eq=False)
class OwnDonors:
    """Each row has donors of its own."""

    donors: DonorMatrix  # (n, m); -1 where a cell is left out
    place: Indices  # (n,): grid position of each row's value; (m,): of a column that is a rank bin; (n, m): of a cell
    size: int
    binned: bool = False
    spread: bool = False  # the donors of each row are spread over the feature's range: row means are balanced
    leaves_out_own: bool = False
    repeats: bool = False  # a pair may occur twice
    fresh: bool = False  # repeated pairs are independent measurements
    even: bool = False  # rows have equal mass, however many donors they have
    alone: bool = False  # values were drawn for the row, without a donor
    mirrored: bool = False  # the second half of the columns holds the pairs of the first with row and donor swapped

    has_mass = True

    @property
    def own_places(self) -> Indices | None:
        """The grid position of each row's own value, (n,), where cells are those of their donors' values; else None."""
        return None if self.binned or self.spread or self.alone or self.place.ndim == 2 else self.place

    @property
    def width(self) -> int:
        """Cells in a row."""
        return int(self.donors.shape[1])

    def places(self, rows: Indices, donors: Indices | None = None) -> Indices:
        """Grid positions of the cells of these rows, (b, m)."""
        if self.binned:
            return np.broadcast_to(self.place, (len(rows), self.width))
        if self.place.ndim == 2:
            return np.asarray(self.place[rows])
        return np.asarray(self.place[self.donors[rows] if donors is None else donors])

    def weights(self, sample: Sample, rows: Indices, donors: Indices | None = None) -> Floats:
        """Weights of the cells of these rows: the donor's weight; 0 inside a group, (b, m)."""
        donors = self.donors[rows] if donors is None else donors
        counted = donors >= 0
        if sample.block is not None and not self.alone:
            counted &= sample.block[donors] != sample.block[rows][:, None]
        weight = np.where(counted, 1.0 if self.alone else sample.weight[donors], 0.0)
        if not self.even:
            return weight
        total = weight.sum(axis=1, keepdims=True)
        return np.asarray(np.divide(weight, total, out=np.zeros(weight.shape), where=total > 0))

    def mean_with_swapped(self, cells: Floats, rows: Indices) -> Floats:
        """Cells of these rows, (r, m): the mean with the pair of row and donor swapped, if its row is one of them."""
        place = np.full(self.donors.shape[0], -1, np.intp)
        place[rows] = np.arange(len(rows))
        other, column = place[self.donors[rows]], (np.arange(self.width) + self.width // 2) % self.width
        return np.asarray(np.where(other >= 0, (cells + cells[other, column]) / 2, cells))

    def subset(self, rows: Indices) -> tuple[OwnDonors, Indices]:
        """Rows and donors in `rows` alone (other cells are left out), and the grid positions that remain."""
        inside = np.full(self.donors.shape[0] + 1, -1, np.intp)  # the last entry is for donors == -1
        inside[rows] = np.arange(len(rows))
        donors = inside[self.donors[rows]]
        place = self.place if self.binned else self.place[rows]
        return replace(self, donors=donors, place=place), np.arange(self.size)

    def keep(self, kept: Indices) -> OwnDonors:
        """These grid values only; cells at other values have no weight."""
        place = np.zeros(self.size, np.intp)
        place[kept] = np.arange(len(kept))
        return replace(self, place=np.asarray(place[self.place]), size=len(kept))


Layout = CommonGrid | OwnDonors
