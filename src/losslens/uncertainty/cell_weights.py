"""Weights of the cells of an incomplete design as a matrix (rows, donors): its sums, products and components.

The effects of rows and donors are fitted with products of this matrix and vectors. Shifts need no matrix for that: a
shift pairs rows and donors in their cyclic orders, so that a product is a sum of m shifted vectors, and a million rows
with a hundred donors each take a few vectors.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from losslens.donors.designs import Redrawn, Shifts
from losslens.donors.layout import OwnDonors
from losslens.tables.sample import Sample
from losslens.typing import Floats, Indices, Mask

ESTIMABLE = 1e-12  # the least share of a wave's variance within rows with which its effect can be estimated

FEW_COLUMNS = 8  # of donors, which usually connect all rows
MATRIX_CELLS = 1 << 16  # of uneven shifts, above which no matrix is laid out


@dataclass(frozen=True, eq=False)
class EffectTotals:
    """Weighted sums of the cells of each row and donor, less the mean."""

    row: Floats  # (r,)
    donor: Floats  # (n,)
    size: float  # of the sums before the mean was subtracted

    def rounding(self, expected: float) -> float:
        """The size of what is rounding, which has no solution, where rows explain all of the donors' totals."""
        return 1e-13 * (float(np.abs(self.donor).sum()) + expected) + 1e-14 * self.size


@dataclass(frozen=True, eq=False)
class DonorEffects:
    """The least-squares effects of donors, in the fit cell ~ mean + row + donor."""

    donor: Floats  # (n,)
    left: Floats  # (n,): the donors' totals, less those expected from the means of their rows
    explained: float  # sum of squares that rows and donors explain
    row: Floats | None = None  # (r,), where they were computed, too


class CellWeights(ABC):
    """The weight of each cell, as a matrix (r, n) that sums to 1."""

    # Cells with weight; a pair that occurs twice is one cell, unless each occurrence is a new draw. A pair that was
    # measured together with that of row and donor swapped is one with it.
    cells: int
    squares: float  # sum of their squared weights
    swapped: float = 0.0  # the share of the cells that were measured together with another one

    @abstractmethod
    def times(self, donor: Floats) -> Floats:
        """The matrix times a vector of the donors, (r,)."""

    @abstractmethod
    def transposed(self, row: Floats) -> Floats:
        """The transposed matrix times a vector of the rows, (n,)."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """Rows and donors."""

    @property
    @abstractmethod
    def connected(self) -> int:
        """Components of the graph of rows and donors, those without a cell included."""

    @cached_property
    def by_row(self) -> Floats:
        """The weight of each row, (r,)."""
        return self.times(np.ones(self.shape[1]))

    @cached_property
    def by_donor(self) -> Floats:
        """The weight of each donor, (n,)."""
        return self.transposed(np.ones(self.shape[0]))

    def effects(self, several: Sequence[EffectTotals]) -> list[DonorEffects]:
        """The least-squares effects of donors, from the sums of cells: the normal equations, reduced to the donors."""
        return [self._effects(totals) for totals in several]

    def _effects(self, totals: EffectTotals) -> DonorEffects:
        per_row = inverse(self.by_row)
        row_mean = per_row * totals.row
        left = self.transposed(row_mean)
        rounding = totals.rounding(float(np.abs(left).sum()))
        np.subtract(totals.donor, left, out=left)
        donor = self._solve(left, per_row, rounding)
        return DonorEffects(donor, left, float(row_mean @ totals.row + donor @ left))

    def row_effects(self, totals: EffectTotals, of_donors: DonorEffects) -> Floats:
        """The effects of rows, beside those of donors."""
        if of_donors.row is not None:
            return of_donors.row
        return np.asarray(inverse(self.by_row) * (totals.row - self.times(of_donors.donor)))

    def _solve(self, total: Floats, per_row: Floats, rounding: float) -> Floats:
        """Solve the normal equations for the donors' effects by conjugate gradients."""
        from scipy.sparse import linalg

        def reduced(effect: Floats) -> Floats:
            return np.asarray(self.by_donor * effect - self.transposed(per_row * self.times(effect)))

        operator = linalg.LinearOperator((len(total), len(total)), matvec=reduced, dtype=np.float64)
        return np.asarray(linalg.cg(operator, total, rtol=1e-10, atol=rounding, maxiter=500)[0])

    @property
    def components(self) -> int:
        """Components with a cell."""
        return self.connected - self._idle

    @property
    def freedom(self) -> float:
        """Degrees of freedom: the number of cells less that of estimable effects of rows and donors.

        Where all cells were measured both ways, the effects of a row and of the same row as a donor are one.
        """
        return self.cells - (sum(self.shape) - self._idle - self.components) * (1 - self.swapped / 2)

    @cached_property
    def _idle(self) -> int:
        return sum(int(np.sum(mass == 0)) for mass in (self.by_row, self.by_donor))

    def _check(self, cells: int, rows: int) -> None:
        if cells < 2 * max(1, rows):
            each = cells / max(1, rows)
            raise ValueError(f"no standard error: rows have {each:.1f} donors with weight on average; use more donors")


def inverse(mass: Floats) -> Floats:
    """1 / mass, and 0 where there is none."""
    return np.divide(1.0, mass, out=np.zeros(len(mass)), where=mass > 0)


def cell_weights(layout: OwnDonors, sample: Sample, rows: Indices) -> CellWeights:
    """The weights of the cells of these rows."""
    donors = layout.donors.drawn if isinstance(layout.donors, Redrawn) else layout.donors
    if isinstance(donors, Shifts) and not layout.even and len(rows) * donors.shape[1] > MATRIX_CELLS:
        return ShiftWeights(donors, sample, rows)
    return MatrixWeights(layout, sample, rows)


class MatrixWeights(CellWeights):
    """The weights for any donors, as a sparse matrix."""

    def __init__(self, layout: OwnDonors, sample: Sample, rows: Indices) -> None:
        from scipy import sparse

        donors = np.asarray(layout.donors[rows])
        mass = layout.weights(sample, rows, donors) * sample.weight[rows][:, None]
        counted = mass > 0
        self._check(int(counted.sum()), int(counted.any(axis=1).sum()))
        self.donors, self.counted = donors, counted
        where = np.repeat(np.arange(len(rows)), counted.sum(axis=1))
        share = mass[counted] / mass.sum()
        self.matrix = sparse.csr_array((share, (where, donors[counted])), shape=(len(rows), sample.n))
        distinct = share if layout.fresh else self.matrix.data
        self.cells, self.squares = len(distinct), float(distinct @ distinct)
        if layout.mirrored:
            present = np.isin(donors[counted], rows)
            self.cells, self.swapped = len(distinct) - int(present.sum()) // 2, float(present.mean())
            self.squares += float(share[present] @ share[present])

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and donors."""
        r, n = self.matrix.shape
        return int(r), int(n)

    def times(self, donor: Floats) -> Floats:
        """The matrix times a vector of the donors, (r,)."""
        return np.asarray(self.matrix @ donor)

    def transposed(self, row: Floats) -> Floats:
        """The transposed matrix times a vector of the rows, (n,)."""
        return np.asarray(self.matrix.T @ row)

    @cached_property
    def connected(self) -> int:
        """Components of the graph of rows and donors."""
        return connected_pairs(self.donors, lambda some: self.counted[:, some], self.shape[1])


@dataclass(frozen=True, eq=False)
class _Shifted:
    """A shift by s positions: ``v[(a + s) % n]`` for every position a."""

    s: int

    def of(self, v: Any) -> Any:
        return np.concatenate([v[self.s :], v[: self.s]])

    def add(self, v: Floats, total: Floats) -> None:
        """Add the shifted vector."""
        cut = len(v) - self.s
        total[:cut] += v[self.s :]
        total[cut:] += v[: self.s]

    def add_back(self, v: Floats, total: Floats) -> None:
        """Add the vector shifted in the other direction."""
        cut = len(v) - self.s
        total[self.s :] += v[:cut]
        total[: self.s] += v[cut:]


class ShiftWeights(CellWeights):
    """Donors by shifts: row and donor vectors in their cyclic orders, one shift after the other."""

    def __init__(self, donors: Shifts, sample: Sample, rows: Indices) -> None:
        n = sample.n
        self.donor, self.at = donors.donor, donors.places[rows]  # the donor at each position; the position of each row
        self.shifts = [_Shifted(int(s) % n) for s in donors.shifts]
        self.blocks: tuple[Indices, Indices] | None = None
        if sample.block is not None:
            of_rows = np.empty(n, sample.block.dtype)
            of_rows[donors.places] = sample.block
            self.blocks = of_rows, sample.block[self.donor]
        # Whether all rows and donors weigh the same: then the matrix only depends on the distance of two positions.
        self.cyclic = self.blocks is None and len(rows) == n and np.ptp(sample.weight) <= 1e-13 * sample.weight.max()
        if self.cyclic:
            self.cells = n * len(self.shifts)
            self.squares = 1 / self.cells
            self.row_weight, self.donor_weight = np.broadcast_to(1 / self.cells, n), np.broadcast_to(1.0, n)
            self.by_row = self.by_donor = np.broadcast_to(1 / n, n)
            self._check(self.cells, n)
            return
        self.row_weight, self.donor_weight = np.zeros(n), sample.weight[self.donor]
        self.row_weight[self.at] = sample.weight[rows]
        total = squares = 0.0
        cells, has_donors = 0, np.zeros(n, bool)
        for shift, mask in self._each():
            weight = self.row_weight * shift.of(self.donor_weight)
            weight = weight if mask is None else weight * mask
            counted = weight > 0
            cells += int(counted.sum())
            has_donors |= counted
            total += float(weight.sum())
            squares += float(weight @ weight)
        self._check(cells, int(has_donors.sum()))
        self.row_weight /= total
        self.cells, self.squares = cells, squares / total**2

    def _each(self) -> Iterator[tuple[_Shifted, Mask | None]]:
        """Yield each shift, and which of its pairs are of two groups (None: all)."""
        for shift in self.shifts:
            yield shift, None if self.blocks is None else self.blocks[0] != shift.of(self.blocks[1])

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and donors."""
        return len(self.at), len(self.donor)

    def times(self, donor: Floats) -> Floats:
        """The matrix times a vector of the donors, (r,)."""
        added, total = donor[self.donor], np.zeros(len(self.donor))
        added *= self.donor_weight
        for shift, mask in self._each():
            if mask is None:
                shift.add(added, total)
            else:
                total += shift.of(added) * mask
        total *= self.row_weight
        return np.asarray(total[self.at])

    def transposed(self, row: Floats) -> Floats:
        """The transposed matrix times a vector of the rows, (n,)."""
        added, total = np.zeros(len(self.donor)), np.zeros(len(self.donor))
        added[self.at] = row
        added *= self.row_weight
        for shift, mask in self._each():
            shift.add_back(added if mask is None else added * mask, total)
        total *= self.donor_weight
        added[self.donor] = total
        return added

    def _solve(self, total: Floats, per_row: Floats, rounding: float) -> Floats:
        """A cyclic matrix is diagonal in the Fourier basis: ``(1 - |l|^2) / n`` with l the mean of the shifts' waves.

        Where that is 0, the effects of unconnected rows and donors can't be compared, and the smallest ones are taken.
        """
        if not self.cyclic:
            return super()._solve(total, per_row, rounding)
        n = len(total)
        left = 1 - np.abs(np.fft.rfft(np.bincount([shift.s for shift in self.shifts], minlength=n))) ** 2 / (
            len(self.shifts) ** 2
        )
        wave = np.fft.rfft(total[self.donor])
        estimable = left > ESTIMABLE
        np.divide(wave, left, out=wave, where=estimable)
        wave[~estimable] = 0
        effect = np.empty(n)
        effect[self.donor] = n * np.fft.irfft(wave, n)
        return effect

    @property
    def connected(self) -> int:
        """Components of the graph of rows and donors.

        If every pair of a shift weighs the same, donors that share a row are a difference of two shifts apart, in the
        cyclic group of the positions: components are cosets of the differences. Otherwise shifts are added one by one.
        """
        n, r = len(self.donor), len(self.at)
        if self.cyclic:
            return int(np.gcd.reduce([n, *(shift.s - self.shifts[0].s for shift in self.shifts)]))
        components, label, position = 2 * n, np.arange(2 * n), np.arange(n)
        for shift, mask in self._each():
            counted = (self.row_weight > 0) & (shift.of(self.donor_weight) > 0)
            counted = counted if mask is None else counted & mask
            components, renamed = _components(label[:n][counted], label[n:][shift.of(position)[counted]], components)
            label = renamed[label]
        return components - (n - r)  # positions of rows that are not among these


def connected_pairs(donors: Indices, counted: Callable[[slice], Mask], n: int) -> int:
    """Components of the graph of rows and n donors, donors (r, m), of which `counted` says which count in some columns.

    The first columns usually connect all rows and donors: more pairs never separate what is connected.
    """
    r = len(donors)
    for some in (slice(0, FEW_COLUMNS), slice(None)):
        row, column = np.nonzero(counted(some))
        components = _components(row, r + donors[:, some][row, column], r + n)[0]
        if components == 1:
            break
    return components


def _components(row: NDArray[Any], donor: NDArray[Any], size: int) -> tuple[int, Indices]:
    """The number of components of a graph with these edges, and the component of each node."""
    from scipy import sparse
    from scipy.sparse import csgraph

    graph = sparse.csr_array((np.ones(len(row), np.int8), (row, donor)), shape=(size, size))
    components, label = csgraph.connected_components(graph, directed=False)
    return int(components), np.asarray(label, np.intp)
