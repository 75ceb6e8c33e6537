"""The matrix of cells and its means, from which all results are computed.

A cell is row i paired with donor k. It holds a prediction and, once a loss is chosen, the change of loss
``D(i, k) = L(f(x_i with k's values), y_i) - L(f(x_i), y_i)``. The mean of
a row's cells is its local importance, the mean of the cells at a grid value is the PI there, the mean of all cells the
PFI.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from losslens.cells.row_sums import InfluenceSums
from losslens.donors.layout import CommonGrid, Layout, OwnDonors
from losslens.tables.frozen import Frozen, deferred, lazy
from losslens.tables.sample import Sample, chunks
from losslens.typing import Floats, Indices

KEPT_BYTES = 16  # of a row and feature in a result, besides its local importance: positions, what it causes as a donor
NEARLY = 1 - 1e-9  # a loss this close to the clipping bound was clipped
WORKING_BYTES = 160  # of a row, for a feature that is being computed: sorted values, positions, sums, fitted effects


def besides_cells(n: int, features: int) -> int:
    """Bytes that results take besides cells and local importances, and that a feature takes while it is computed."""
    return n * (KEPT_BYTES * features + WORKING_BYTES)


def drawn_cells(n: int, m: int) -> int:
    """Bytes of m values that a sampler draws for each of n rows: the values, their donors and positions."""
    return 24 * n * m


@dataclass(frozen=True, eq=False)
class Cells(Frozen):
    """Cells that a result keeps: of every row, or of some rows."""

    rows: Indices = lazy()  # (r,), positions in the sample
    predictions: NDArray[Any] = lazy()  # (r, c) or (r, c, K)
    changes: Floats | None = lazy(None)  # (r, c)


@dataclass(frozen=True, eq=False, kw_only=True)
class Means(Frozen):
    """Means of the cells of some rows."""

    local: Floats | None = lazy()  # (r,): mean change of each row; NaN for a row without donors
    mass: Floats  # (r,): weight of each row
    pi: Floats | None = lazy(None)  # (g,): mean change of the cells at each value; None where it was not computed
    weights: Floats | None = lazy(None)  # (g,): share of the cells at each value; None for grids without weights
    pd: NDArray[Any] | None = lazy(None)  # (g,) or (g, K): mean prediction at each value
    caused: Floats | None = lazy(None)  # (n,): mean change that each row causes as a donor
    donor_weight: Floats | None = None  # (n,): weight of each row as a donor
    square: float = float("nan")  # mean squared change, for the Monte-Carlo variance of sampled designs
    clipped: float = 0.0  # share of cells whose loss is at the clipping bound
    total: float | None = None  # the mean over all cells, where it was computed without the others
    influences: InfluenceSums | None = None  # over all rows of files, where the fields above are of some of them

    @property
    def has_weights(self) -> bool:
        """Whether there are weights, without computing them."""
        return self.__dict__["weights"] is not None

    @cached_property
    def pfi(self) -> float:
        """The mean over all cells."""
        if self.total is not None:
            return self.total
        if self.local is None:
            raise ValueError("no importance: this was computed without y; use feature_importance")
        counted = self.mass > 0
        if not counted.any():
            raise ValueError("no cell to average: these rows have no donors with weight, or have weight 0 themselves")
        return float(self.mass[counted] @ self.local[counted] / self.mass[counted].sum())


@dataclass(frozen=True, eq=False, kw_only=True)
class CellSums:
    """Weighted sums over the cells of b rows with donors of their own."""

    row_mass: Floats  # (b,)
    value_mass: Floats  # (g,)
    pd: NDArray[Any] | None  # (g,) or (g, K): of predictions at each value; None: they are summed elsewhere
    row: Floats | None = None  # (b,): of each row's changes, weighted by donors; None without a loss
    curve: Floats | float = 0.0  # (g,): of changes at each value
    donor: tuple[Floats, Floats] | None = None  # (n,) each: of each donor's changes, and weights, where needed
    square: float = 0.0  # of squared changes
    clipped: float = 0.0  # weight of the cells whose loss is at the clipping bound


class Averages:
    """Running means over cells that are added a few rows at a time: the full matrix is never in memory."""

    def __init__(self, layout: Layout, sample: Sample, ceiling: float | None = None) -> None:
        self.layout, self.sample, self.ceiling = layout, sample, ceiling
        n, g = sample.n, layout.size
        self.row_sum, self.row_mass = np.zeros(n), np.zeros(n)
        self.curve_sum, self.value_mass = np.zeros(g), np.zeros(g)
        self.pd_sum: NDArray[Any] | None = None
        self.columns: _CommonColumns | _PerRowColumns | None
        if isinstance(layout, CommonGrid):
            self.curve_mass, self.pd_mass = np.zeros(g), np.zeros(g)
            self.columns = _CommonColumns(layout, sample)
        else:  # the same cells are in all three
            self.curve_mass = self.pd_mass = self.value_mass
            self.columns = None if has_own_values(layout) else _PerRowColumns(sample)
        self.square = self.clipped = 0.0
        self.has_changes = False

    def add(self, rows: Indices, predictions: NDArray[Any] | None, changes: Floats | None) -> None:
        """Add all cells of these rows; each row is added once. Predictions may be averaged elsewhere."""
        for part in self.parts(rows):
            some = None if changes is None else changes[part]
            shown = None if predictions is None else predictions[part]
            # Labels: their mean is how often each is predicted.
            if shown is not None and shown.dtype.kind == "i" and self.sample.classes is not None:
                shown = shown[..., None] == np.arange(len(self.sample.classes))
            if isinstance(self.layout, CommonGrid):
                self._add_common(self.layout, rows[part], shown, some)
            else:
                self._add_per_row(self.layout, rows[part], shown, some)

    def parts(self, rows: Indices) -> Iterator[slice]:
        """The rows that are added at a time."""
        return chunks(rows, self.layout.width, self.layout.size // 4)

    def _add_common(
        self, layout: CommonGrid, rows: Indices, predictions: NDArray[Any] | None, changes: Floats | None
    ) -> None:
        weight, cell_weight = self.sample.weight[rows], layout.weights(self.sample, rows)
        same = layout.block(self.sample) is None  # all rows have the same donor weights
        self.row_mass[rows] = cell_weight.sum(axis=1)
        self.value_mass += weight.sum() * cell_weight[0] if same else weight @ cell_weight
        if predictions is not None:
            self._add_pd(np.tensordot(weight, predictions, 1))
        self.pd_mass += weight.sum()
        if changes is None:
            return
        self.has_changes = True
        summed = weight @ changes  # over the rows
        if same:
            self.row_sum[rows] = changes @ cell_weight[0]
            self.curve_sum += summed
            self.curve_mass += weight.sum()
        else:
            weighted = changes * cell_weight
            self.row_sum[rows] = weighted.sum(axis=1)
            self.curve_sum += weight @ weighted
            self.curve_mass += weight @ cell_weight
        assert isinstance(self.columns, _CommonColumns)
        self.columns.add(rows, changes, weight, summed)
        if self.ceiling is not None:
            self.clipped += self._clipped(rows, changes, weight[:, None] * cell_weight)

    def _add_per_row(
        self, layout: OwnDonors, rows: Indices, predictions: NDArray[Any] | None, changes: Floats | None
    ) -> None:
        donors = layout.donors[rows]  # computed once: shifts are not stored
        cell_weight = layout.weights(self.sample, rows, donors)
        weight = (self.sample.weight[rows][:, None] * cell_weight).ravel()
        places, g = layout.places(rows, donors).ravel(), layout.size
        pd = None
        if predictions is not None:
            flat = predictions.reshape(len(places), -1)
            by_output = [np.bincount(places, weight * column, g) for column in flat.T]
            pd = by_output[0] if predictions.ndim == 2 else np.stack(by_output, axis=-1)
        sums = CellSums(row_mass=cell_weight.sum(axis=1), value_mass=_counted(places, weight, g), pd=pd)
        if changes is not None:
            weighted = weight * changes.ravel()
            sums = replace(
                sums,
                row=(cell_weight * changes).sum(axis=1),
                curve=_counted(places, weighted, g),
                square=float(weighted @ changes.ravel()),
                clipped=self._clipped(rows, changes, weight.reshape(changes.shape)),
            )
            if self.columns is not None:
                # An omitted cell has donor -1 and weight 0: it adds nothing to the last row.
                n = self.sample.n
                donors = np.where(donors < 0, n - 1, donors).ravel()
                sums = replace(sums, donor=(_counted(donors, weighted, n), _counted(donors, weight, n)))
        self.add_sums(rows, sums)

    def add_sums(self, rows: Indices, sums: CellSums) -> None:
        """Add sums over all cells of these rows, which have donors of their own; each row is added once."""
        self.row_mass[rows] = sums.row_mass
        self.value_mass += sums.value_mass
        if sums.pd is not None:
            self._add_pd(sums.pd)
        if sums.row is None:
            return
        self.has_changes = True
        self.row_sum[rows] = sums.row
        self.curve_sum += sums.curve
        if sums.donor is not None:
            assert isinstance(self.columns, _PerRowColumns)  # a common grid has no such sums
            self.columns.add(*sums.donor)
        self.square += sums.square
        self.clipped += sums.clipped

    def _clipped(self, rows: Indices, changes: Floats, weight: Floats) -> float:
        if self.ceiling is None or self.sample.loss is None:
            return 0.0
        return float(np.sum((changes + self.sample.loss[rows][:, None] >= NEARLY * self.ceiling) * weight))

    def _add_pd(self, sums: NDArray[Any]) -> None:
        if self.pd_sum is None:
            self.pd_sum = sums.astype(float, copy=False)
        else:
            self.pd_sum += sums

    def finish(self, rows: Indices) -> Means:
        """The means over the cells of these rows (those that were added); the sums are used up."""
        has_mass = self.layout.has_mass
        total = self.value_mass.sum()
        counts = self.has_changes and has_mass
        with np.errstate(invalid="ignore", divide="ignore"):  # 0 / 0: no cells, hence NaN; to NumPy 1.26 also "divide"
            pd_mass = self.pd_mass if self.pd_sum is None else self.pd_mass.reshape(-1, *[1] * (self.pd_sum.ndim - 1))
            caused, donor_weight = self._of_donors() if counts else (None, None)
            all_rows = len(rows) == self.sample.n
            row_sum, row_mass = (sums if all_rows else sums[rows] for sums in (self.row_sum, self.row_mass))
            return Means(
                local=np.divide(row_sum, row_mass, out=row_sum) if counts else None,
                mass=_even(np.multiply(row_mass, self.sample.weight[rows], out=row_mass)),
                pi=self._pi(caused) if self.has_changes else None,
                weights=_even(self.value_mass / total) if has_mass else None,
                pd=None if self.pd_sum is None else np.divide(self.pd_sum, pd_mass, out=self.pd_sum),
                caused=caused,
                donor_weight=donor_weight,
                square=self.square / total if counts else float("nan"),
                clipped=float(self.clipped / total) if has_mass else 0.0,
            )

    def _of_donors(self) -> tuple[Floats, Floats]:
        """The mean change that each row causes as a donor, and its weight as a donor."""
        if self.columns is not None:
            return self.columns.finish()
        assert isinstance(self.layout, OwnDonors)  # whose donors have values of their own
        place = self.layout.place
        donor_weight = self.value_mass[place]
        caused = self.curve_sum[place]
        caused /= donor_weight
        donor_weight /= donor_weight.sum()
        return caused, _even(donor_weight)

    def _pi(self, caused: Floats | None) -> Floats:
        """The mean change at each value; where every donor has a value of its own, from what it causes, on access."""
        if self.columns is None and caused is not None and isinstance(self.layout, OwnDonors):
            return deferred(_at_places, caused, self.layout.place)
        return self.curve_sum / self.curve_mass


def _counted(places: Indices, weight: Floats, size: int) -> Floats:
    return np.asarray(np.bincount(places, weight, size), float)


def has_own_values(layout: OwnDonors) -> bool:
    """Whether every donor has a value of its own: the cells of a donor are then those of a value."""
    if layout.binned or layout.place.ndim != 1 or len(layout.place) != layout.size:
        return False
    seen = np.zeros(layout.size, bool)
    seen[layout.place] = True
    return bool(seen.all())


def _at_places(of_rows: Floats, place: Indices) -> Floats:
    """Numbers of the rows in the order of their places, which are all different."""
    spread = np.empty_like(of_rows)
    spread[place] = of_rows
    return spread


class _PerRowColumns:
    """Means over the cells of each donor, where each row has donors of its own."""

    def __init__(self, sample: Sample) -> None:
        self.sum, self.mass = np.zeros(sample.n), np.zeros(sample.n)

    def add(self, of_changes: Floats, mass: Floats) -> None:
        self.sum += of_changes
        self.mass += mass

    def finish(self) -> tuple[Floats, Floats]:
        caused = np.divide(self.sum, self.mass, out=self.sum)
        self.mass /= self.mass.sum()
        return caused, _even(self.mass)


class _CommonColumns:
    """Means over the cells of each donor, where donors with the same value share a column of cells.

    A donor is not paired with rows of its own block, so the sums of each block at its own values are kept separately.
    """

    def __init__(self, layout: CommonGrid, sample: Sample) -> None:
        self.layout, self.sample = layout, sample
        self.sum, self.mass = np.zeros(layout.size), 0.0
        self.block = layout.block(sample)
        if self.block is not None:
            self.held = layout.held_by_block(sample)
            self.within = np.zeros(self.held.nnz + 1)
            self.block_mass = np.zeros(self.held.shape[0])

    def add(self, rows: Indices, changes: Floats, weight: Floats, summed: Floats) -> None:
        """`summed`: the changes, weighted, over the rows."""
        self.sum += summed
        self.mass += float(weight.sum())
        if self.block is not None:
            self.block_mass += np.bincount(self.block[rows], weight, len(self.block_mass))
            mine = self.held[self.block[rows]].tocoo()
            row, column = mine.coords
            self.within += np.bincount(mine.data, weight[row] * changes[row, column], len(self.within))

    def finish(self) -> tuple[Floats, Floats]:
        donors, n = self.layout.donors, self.sample.n
        place = self.layout.own[donors]
        total, mass = self.sum[place], np.full(len(donors), self.mass)
        if self.block is not None:
            total = total - self.within[np.asarray(self.held[self.block[donors], place]).ravel()]
            mass = mass - self.block_mass[self.block[donors]]
        caused, donor_weight = np.zeros(n), np.zeros(n)
        mass = np.where(mass > 1e-12 * self.mass, mass, 0.0)
        caused[donors] = np.divide(total, mass, out=np.zeros(len(donors)), where=mass > 0)
        donor_weight[donors] = self.sample.weight[donors] * mass
        total_weight = donor_weight.sum()  # 0 if no donor counts
        return caused, _even(donor_weight / total_weight if total_weight > 0 else np.full(n, np.nan))


def _even(weight: Floats) -> Floats:
    """Weights that are equal, to rounding, as one number in n places: most results then hold no vector of them."""
    low, high = weight.min(initial=np.inf), weight.max(initial=-np.inf)
    return np.broadcast_to(high, weight.shape) if high > 0 and high - low <= 1e-13 * high else weight


def means(cells: Cells, layout: Layout, sample: Sample, ceiling: float | None = None) -> Means:
    """The means of cells that are all in memory."""
    averages = Averages(layout, sample, ceiling)
    averages.add(cells.rows, cells.predictions, cells.changes)
    return averages.finish(cells.rows)


def shares(layout: Layout, sample: Sample, rows: Indices) -> Floats:
    """The share of these rows' cells at each grid value; the cells themselves are not needed."""
    if isinstance(layout, CommonGrid):
        mass = layout.value_mass(sample, rows)
        return np.asarray(mass / mass.sum())
    mass = np.zeros(layout.size)
    for part in chunks(rows, layout.width):
        donors = layout.donors[rows[part]]
        cell_mass = layout.weights(sample, rows[part], donors) * sample.weight[rows[part]][:, None]
        mass += np.bincount(layout.places(rows[part], donors).ravel(), cell_mass.ravel(), layout.size)
    return np.asarray(mass / mass.sum())


def curves(values: NDArray[Any], layout: Layout, sample: Sample, rows: Indices) -> NDArray[Any]:
    """One curve a row on the grid, (r, g): the mean over its donors at a value; NaN where none of them has it."""
    if isinstance(layout, CommonGrid):
        return values
    r, g = len(rows), layout.size
    counted = layout.weights(sample, rows) > 0
    flat = (np.arange(r)[:, None] * g + layout.places(rows))[counted]
    count = np.bincount(flat, minlength=r * g)
    with np.errstate(invalid="ignore"):
        return (np.bincount(flat, values[counted], r * g) / count).reshape(r, g)
