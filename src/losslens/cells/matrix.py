"""The matrix of cells and its means: everything the library reports is one of these.

A cell is a row i that met a donor k. It holds a prediction and, once a loss is chosen, the change of loss
``D(i, k) = L(f(x_i with k's values), y_i) - L(f(x_i), y_i)``. Rows average to local importances, cells that
share a value to the PI curve, all of them to the PFI.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from losslens.cells.late import late
from losslens.cells.row_sums import InfluenceSums
from losslens.donors.layout import CommonGrid, Layout, OwnDonors
from losslens.tables.sample import Sample, chunks
from losslens.typing import Floats, Indices


@dataclass(frozen=True, eq=False)
class Cells:
    """Cells that a result keeps: of every row, or of the stated ones."""

    rows: Indices = late()  # (r,), positions in the sample
    predictions: NDArray[Any] = late()  # (r, c) or (r, c, K)
    changes: Floats | None = late(None)  # (r, c)


@dataclass(frozen=True, eq=False, kw_only=True)
class Means:
    """Means of the cells of some rows: the numbers of a result."""

    local: Floats | None = late()  # (r,): mean change of each row; NaN where it met nobody
    mass: Floats  # (r,): how much each row counts
    pi: Floats | None = late(None)  # (g,): mean change of the cells that share a value; None where it is not known
    weights: Floats | None = late(None)  # (g,): share of the cells at each value; None where nothing says
    pd: NDArray[Any] | None = late(None)  # (g,) or (g, K): mean prediction at each value
    caused: Floats | None = late(None)  # (n,): mean change that each row causes as a donor
    lent: Floats | None = None  # (n,): how much each row counts as a donor
    square: float = float("nan")  # mean squared change; the noise of sampled designs needs it
    clipped: float = 0.0  # share of cells whose loss is at the clipping bound
    total: float | None = None  # the mean over all cells, where it is known without the rest
    influences: InfluenceSums | None = None  # over all rows, where these are some rows of files

    @property
    def has_weights(self) -> bool:
        """Whether there are weights, without working them out."""
        return self.__dict__["weights"] is not None

    @property
    def has_pd(self) -> bool:
        """Whether there is a mean prediction, without working it out."""
        return self.__dict__["pd"] is not None

    @property
    def pfi(self) -> float:
        """The mean over all cells."""
        if self.total is not None:
            return self.total
        if self.local is None:
            raise ValueError("there is no loss to average")
        met = self.mass > 0
        if not met.any():
            raise ValueError("no cell is left to average: these rows lend nothing to each other, or weigh nothing")
        return float(self.mass[met] @ self.local[met] / self.mass[met].sum())


class Averages:
    """Running means over cells that arrive a few rows at a time, so that the matrix need never be held."""

    def __init__(self, meeting: Layout, sample: Sample, ceiling: float | None = None) -> None:
        self.meeting, self.sample, self.ceiling = meeting, sample, ceiling
        n, g = sample.n, meeting.size
        self.row_sum, self.row_mass = np.zeros(n), np.zeros(n)
        self.curve_sum, self.curve_mass, self.value_mass = np.zeros(g), np.zeros(g), np.zeros(g)
        self.pd_sum: NDArray[Any] | None = None
        self.pd_mass = np.zeros(g)
        self.columns = _CommonColumns(meeting, sample) if isinstance(meeting, CommonGrid) else _PerRowColumns(sample)
        self.square = self.clipped = 0.0
        self.judged = False

    def add(self, rows: Indices, predictions: NDArray[Any], changes: Floats | None) -> None:
        """Add all cells of these rows; each row is added once."""
        for part in chunks(rows, self.meeting.width):
            some = None if changes is None else changes[part]
            shown = predictions[part]
            if shown.dtype.kind == "i" and self.sample.classes is not None:  # labels: how often each is predicted
                shown = shown[..., None] == np.arange(len(self.sample.classes))
            if isinstance(self.meeting, CommonGrid):
                self._add_common(self.meeting, rows[part], shown, some)
            else:
                self._add_per_row(self.meeting, rows[part], shown, some)

    def _add_common(
        self, meeting: CommonGrid, rows: Indices, predictions: NDArray[Any], changes: Floats | None
    ) -> None:
        weight, lent = self.sample.weight[rows], meeting.weights(self.sample, rows)
        alike = meeting.block(self.sample) is None  # every row meets the same mass at each value
        self.row_mass[rows] = lent.sum(axis=1)
        self.value_mass += weight.sum() * lent[0] if alike else weight @ lent
        self._add_pd(np.tensordot(weight, predictions, 1), weight.sum())
        if changes is None:
            return
        self.judged = True
        if alike:
            self.row_sum[rows] = changes @ lent[0]
            self.curve_sum += weight @ changes
            self.curve_mass += weight.sum()
        else:
            weighted = changes * lent
            self.row_sum[rows] = weighted.sum(axis=1)
            self.curve_sum += weight @ weighted
            self.curve_mass += weight @ lent
        self.columns.add(rows, changes, weight)
        self._count_clipped(rows, changes, weight[:, None] * lent)

    def _add_per_row(
        self, meeting: OwnDonors, rows: Indices, predictions: NDArray[Any], changes: Floats | None
    ) -> None:
        donors = meeting.donors[rows]  # worked out once: shifts are not stored
        lent = meeting.weights(self.sample, rows, donors)
        weight = (self.sample.weight[rows][:, None] * lent).ravel()
        places, g = meeting.places(rows, donors).ravel(), meeting.size
        self.row_mass[rows] = lent.sum(axis=1)
        mass = np.bincount(places, weight, g)
        self.value_mass += mass
        flat = predictions.reshape(len(places), -1)
        sums = np.stack([np.bincount(places, weight * column, g) for column in flat.T], axis=-1)
        self._add_pd(sums.reshape(g, *predictions.shape[2:]), mass)
        if changes is None:
            return
        self.judged = True
        weighted = weight * changes.ravel()
        self.row_sum[rows] = (lent * changes).sum(axis=1)
        self.curve_sum += np.bincount(places, weighted, g)
        self.curve_mass += mass
        self.columns.add(donors, changes, weight)
        self.square += float(weighted @ changes.ravel())
        self._count_clipped(rows, changes, weight.reshape(changes.shape))

    def _count_clipped(self, rows: Indices, changes: Floats, weight: Floats) -> None:
        if self.ceiling is not None and self.sample.loss is not None:
            bound = changes + self.sample.loss[rows][:, None] >= self.ceiling * (1 - 1e-9)
            self.clipped += float(np.sum(bound * weight))

    def _add_pd(self, sums: NDArray[Any], mass: Any) -> None:
        self.pd_sum = sums.astype(float) if self.pd_sum is None else self.pd_sum + sums
        self.pd_mass = self.pd_mass + mass

    def finish(self, rows: Indices) -> Means:
        """The means over the cells of these rows (those that were added)."""
        has_mass = self.meeting.has_mass
        total = self.value_mass.sum()
        counts = self.judged and has_mass
        with np.errstate(invalid="ignore"):  # 0 / 0: nothing was met, hence NaN
            pd_mass = self.pd_mass if self.pd_sum is None else self.pd_mass.reshape(-1, *[1] * (self.pd_sum.ndim - 1))
            caused, lent = self.columns.finish() if counts else (None, None)
            return Means(
                local=self.row_sum[rows] / self.row_mass[rows] if counts else None,
                mass=self.sample.weight[rows] * self.row_mass[rows],
                pi=self.curve_sum / self.curve_mass if self.judged else None,
                weights=self.value_mass / total if has_mass else None,
                pd=None if self.pd_sum is None else self.pd_sum / pd_mass,
                caused=caused,
                lent=lent,
                square=self.square / total if counts else float("nan"),
                clipped=float(self.clipped / total) if has_mass else 0.0,
            )


class _PerRowColumns:
    """Means over the cells of each donor, where each row has donors of its own."""

    def __init__(self, sample: Sample) -> None:
        self.sum, self.mass = np.zeros(sample.n), np.zeros(sample.n)

    def add(self, donors: Indices, changes: Floats, weight: Floats) -> None:
        # A cell that is left out has donor -1 and weight 0: it adds nothing to whoever is last.
        n = len(self.sum)
        donors = np.where(donors < 0, n - 1, donors).ravel()
        self.sum += np.bincount(donors, weight * changes.ravel(), n)
        self.mass += np.bincount(donors, weight, n)

    def finish(self) -> tuple[Floats, Floats]:
        return self.sum / self.mass, self.mass / self.mass.sum()


class _CommonColumns:
    """Means over the cells of each donor, where donors with one value share a column of cells.

    A donor's own block has to be left out of its column, so what each block adds at the values it holds is kept apart.
    """

    def __init__(self, meeting: CommonGrid, sample: Sample) -> None:
        self.meeting, self.sample = meeting, sample
        self.sum, self.mass = np.zeros(meeting.size), 0.0
        self.block = meeting.block(sample)
        if self.block is not None:
            self.held = meeting.held_by_block(sample)
            self.within = np.zeros(self.held.nnz + 1)
            self.block_mass = np.zeros(self.held.shape[0])

    def add(self, rows: Indices, changes: Floats, weight: Floats) -> None:
        self.sum += weight @ changes
        self.mass += float(weight.sum())
        if self.block is not None:
            self.block_mass += np.bincount(self.block[rows], weight, len(self.block_mass))
            mine = self.held[self.block[rows]].tocoo()
            row, column = mine.coords
            self.within += np.bincount(mine.data, weight[row] * changes[row, column], len(self.within))

    def finish(self) -> tuple[Floats, Floats]:
        donors, n = self.meeting.donors, self.sample.n
        place = self.meeting.own[donors]
        total, mass = self.sum[place], np.full(len(donors), self.mass)
        if self.block is not None:
            total = total - self.within[np.asarray(self.held[self.block[donors], place]).ravel()]
            mass = mass - self.block_mass[self.block[donors]]
        caused, lent = np.zeros(n), np.zeros(n)
        mass = np.where(mass > 1e-12 * self.mass, mass, 0.0)
        caused[donors] = np.divide(total, mass, out=np.zeros(len(donors)), where=mass > 0)
        lent[donors] = self.sample.weight[donors] * mass
        return caused, lent / lent.sum()


def means(cells: Cells, meeting: Layout, sample: Sample, ceiling: float | None = None) -> Means:
    """The means of cells that are all at hand."""
    averages = Averages(meeting, sample, ceiling)
    averages.add(cells.rows, cells.predictions, cells.changes)
    return averages.finish(cells.rows)


def shares(meeting: Layout, sample: Sample, rows: Indices) -> Floats:
    """The share of the cells of these rows at each grid value, without the cells."""
    mass = np.zeros(meeting.size)
    for part in chunks(rows, meeting.width):
        lent = meeting.weights(sample, rows[part]) * sample.weight[rows[part]][:, None]
        mass += np.bincount(meeting.places(rows[part]).ravel(), lent.ravel(), meeting.size)
    return np.asarray(mass / mass.sum())


def curves(values: NDArray[Any], meeting: Layout, sample: Sample, rows: Indices) -> NDArray[Any]:
    """One curve a row on the grid, (r, g); NaN at values that a row never met, the mean where it met one twice."""
    if isinstance(meeting, CommonGrid):
        return values
    r, g = len(rows), meeting.size
    met = meeting.weights(sample, rows) > 0
    flat = (np.arange(r)[:, None] * g + meeting.places(rows))[met]
    count = np.bincount(flat, minlength=r * g)
    with np.errstate(invalid="ignore"):
        return (np.bincount(flat, values[met], r * g) / count).reshape(r, g)
