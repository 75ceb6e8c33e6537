"""The matrix of cells and its means: everything the library reports is one of these.

A cell is a row i that met a donor k. It holds a prediction and, once a loss is chosen, the change of loss
``D(i, k) = L(f(x_i with k's values), y_i) - L(f(x_i), y_i)``. Rows average to local importances, cells that
share a value to the PI curve, all of them to the PFI. Two layouts say who met whom: `Common` and `PerRow`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from losslens.donors import Lending
from losslens.losses import Loss

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]
CHUNK = 1 << 18  # cells handled at a time: temporaries stay in the processor's cache


@dataclass(frozen=True, eq=False)
class Sample:
    """The rows as the model saw them, shared by all features of a result."""

    weight: Floats  # (n,), sums to one
    prediction: NDArray[Any]  # (n,) or (n, K), of the unchanged rows
    y: NDArray[Any] | None = None  # (n,): numbers, or class positions where there are classes
    loss: Floats | None = None  # (n,), of the unchanged rows
    classes: NDArray[Any] | None = None
    block: Indices | None = None  # rows that belong together lend nothing to each other

    @property
    def n(self) -> int:
        """How many rows."""
        return len(self.weight)

    @property
    def error(self) -> float:
        """GE_P, the mean loss of the unchanged rows."""
        return float(self.weight @ self.loss) if self.loss is not None else float("nan")

    def at(self, rows: Indices) -> Sample:
        """These rows alone, as a sample of their own."""
        if not self.weight[rows].sum() > 0:
            raise ValueError("all of the chosen rows have weight zero")
        return replace(
            self,
            weight=self.weight[rows] / self.weight[rows].sum(),
            prediction=self.prediction[rows],
            y=None if self.y is None else self.y[rows],
            loss=None if self.loss is None else self.loss[rows],
            block=None if self.block is None else self.block[rows],
        )

    def with_loss(self, loss: Loss) -> Sample:
        """The same rows judged by a loss."""
        return replace(self, loss=loss(self.target(loss), self.shown(loss, self.prediction)))

    def target(self, loss: Loss) -> NDArray[Any]:
        """y as the loss reads it: a user's own function gets labels, a named loss class positions."""
        if self.y is None:
            raise ValueError("these rows have no y")
        if loss.custom and self.classes is not None:
            return np.asarray(self.classes[self.y])
        return self.y

    def shown(self, loss: Loss, prediction: NDArray[Any]) -> NDArray[Any]:
        """Predictions as the loss reads them: a user's own function gets labels as labels."""
        if loss.custom and loss.reads == "labels" and self.classes is not None:
            labels = np.asarray(self.classes[prediction])
            if prediction.min() < 0:  # a label that is no class of y
                labels = labels.astype(object)
                labels[prediction < 0] = None
            return labels
        return prediction


@dataclass(frozen=True, eq=False)
class Common:
    """Every row meets every value of one grid."""

    own: Indices  # (n,): where on the grid each row's own value is; -1 where it is not on it
    donors: Indices  # (d,): the rows that lend; none for values of the user's own
    size: int
    leaves_out_own: bool = False

    @property
    def width(self) -> int:
        """Cells in a row."""
        return self.size

    @property
    def has_mass(self) -> bool:
        """Whether donors say how much each grid value counts; without them there are curves and no number."""
        return len(self.donors) > 0

    def places(self, rows: Indices) -> Indices:
        """Grid positions of the cells of these rows, (b, g)."""
        return np.broadcast_to(np.arange(self.size), (len(rows), self.size))

    def block(self, sample: Sample) -> Indices | None:
        """What lends nothing to itself: blocks of rows, single rows, or nothing."""
        if sample.block is not None:
            return sample.block
        return np.arange(sample.n) if self.leaves_out_own else None

    def weights(self, sample: Sample, rows: Indices) -> Floats:
        """How much the cells of these rows count: the donors' weights at each value, (1, g) or (b, g)."""
        lent, place = sample.weight[self.donors], self.own[self.donors]
        total = np.bincount(place, lent, self.size)
        block = self.block(sample)
        if block is None:
            return np.asarray(total[None, :], float)
        from scipy import sparse

        shape = (int(block.max()) + 1, self.size)
        within = sparse.csr_array((lent, (block[self.donors], place)), shape=shape)
        left = total - within[block[rows]].toarray()
        left[left < 1e-12 * total.max()] = 0.0  # what rounding leaves of a value that the own block alone holds
        return left

    def held_by_block(self, sample: Sample) -> Any:
        """Which values each block holds: a sparse matrix (blocks, g) of running numbers, and how many there are."""
        from scipy import sparse

        block = self.block(sample)
        assert block is not None
        flat = np.unique(block[self.donors] * self.size + self.own[self.donors])
        shape = (int(block.max()) + 1, self.size)
        return sparse.csr_array((np.arange(1, len(flat) + 1), (flat // self.size, flat % self.size)), shape=shape)

    def subset(self, rows: Indices) -> tuple[Common, Indices]:
        """Rows and donors in `rows` alone, and the grid positions that remain."""
        inside = np.full(len(self.own), -1, np.intp)
        inside[rows] = np.arange(len(rows))
        donors = inside[self.donors][inside[self.donors] >= 0]
        own = self.own[rows]
        kept = np.unique(own[donors])
        return replace(self, own=own, donors=donors).keep(kept), kept

    def keep(self, kept: Indices) -> Common:
        """These grid values alone."""
        place = np.full(self.size + 1, -1, np.intp)  # the last entry serves own == -1
        place[kept] = np.arange(len(kept))
        own = np.asarray(place[self.own])
        return replace(self, own=own, donors=self.donors[own[self.donors] >= 0], size=len(kept))


@dataclass(frozen=True, eq=False)
class PerRow:
    """Each row meets donors of its own."""

    donors: Lending  # (n, m); -1 where a cell is left out
    place: Indices  # (n,): grid position of each row's value; or (m,): of each column, where columns are rank bins
    size: int
    binned: bool = False
    leaves_out_own: bool = False
    repeats: bool = False  # a pair may be met twice

    has_mass = True

    @property
    def width(self) -> int:
        """Cells in a row."""
        return int(self.donors.shape[1])

    def places(self, rows: Indices, donors: Indices | None = None) -> Indices:
        """Grid positions of the cells of these rows, (b, m)."""
        if self.binned:
            return np.broadcast_to(self.place, (len(rows), self.width))
        return np.asarray(self.place[self.donors[rows] if donors is None else donors])

    def weights(self, sample: Sample, rows: Indices, donors: Indices | None = None) -> Floats:
        """How much the cells of these rows count: the donor's weight; nothing inside a block, (b, m)."""
        donors = self.donors[rows] if donors is None else donors
        counted = donors >= 0
        if sample.block is not None:
            counted &= sample.block[donors] != sample.block[rows][:, None]
        return np.where(counted, sample.weight[donors], 0.0)

    def subset(self, rows: Indices) -> tuple[PerRow, Indices]:
        """Rows and donors in `rows` alone (other cells are left out), and the grid positions that remain."""
        inside = np.full(self.donors.shape[0] + 1, -1, np.intp)  # the last entry serves donors == -1
        inside[rows] = np.arange(len(rows))
        donors = inside[self.donors[rows]]
        place = self.place if self.binned else self.place[rows]
        return replace(self, donors=donors, place=place), np.arange(self.size)

    def keep(self, kept: Indices) -> PerRow:
        """These grid values alone; at the others no cell counts."""
        place = np.zeros(self.size, np.intp)
        place[kept] = np.arange(len(kept))
        return replace(self, place=np.asarray(place[self.place]), size=len(kept))


Meeting = Common | PerRow


@dataclass(frozen=True, eq=False)
class Cells:
    """Cells that a result keeps: of every row, or of the stated ones."""

    rows: Indices  # (r,), positions in the sample
    predictions: NDArray[Any]  # (r, c) or (r, c, K)
    changes: Floats | None = None  # (r, c)


@dataclass(frozen=True, eq=False)
class Means:
    """Means of the cells of some rows: the numbers of a result."""

    local: Floats | None  # (r,): mean change of each row; NaN where it met nobody
    mass: Floats  # (r,): how much each row counts
    pi: Floats | None  # (g,): mean change of the cells that share a value; None where it is not known
    weights: Floats | None  # (g,): share of the cells at each value; None where nothing says
    pd: NDArray[Any] | None  # (g,) or (g, K): mean prediction at each value
    caused: Floats | None = None  # (n,): mean change that each row causes as a donor
    lent: Floats | None = None  # (n,): how much each row counts as a donor
    square: float = float("nan")  # mean squared change
    clipped: float = 0.0  # share of cells whose loss is at the clipping bound

    @property
    def pfi(self) -> float:
        """The mean over all cells."""
        if self.local is None:
            raise ValueError("there is no loss to average")
        met = self.mass > 0
        if not met.any():
            raise ValueError("no cell is left to average: these rows lend nothing to each other, or weigh nothing")
        return float(self.mass[met] @ self.local[met] / self.mass[met].sum())


def chunks(rows: Indices, width: int) -> Iterator[slice]:
    """Slices of `rows` that hold about CHUNK cells each."""
    step = max(1, CHUNK // max(width, 1))
    for start in range(0, len(rows), step):
        yield slice(start, min(start + step, len(rows)))


def lose(loss: Loss, sample: Sample, rows: Indices, predictions: NDArray[Any]) -> Floats:
    """Changes of loss of the cells of these rows: ``L(prediction, y_i) - l_i``, (b, c)."""
    if sample.loss is None:
        raise ValueError("the sample has not been judged by a loss yet")
    b, c = predictions.shape[:2]
    flat = predictions.reshape(b * c, *predictions.shape[2:])
    losses = loss(np.repeat(sample.target(loss)[rows], c), sample.shown(loss, flat)).reshape(b, c)
    losses -= sample.loss[rows][:, None]
    return losses


class Averages:
    """Running means over cells that arrive a few rows at a time, so that the matrix need never be held."""

    def __init__(self, meeting: Meeting, sample: Sample, ceiling: float | None = None) -> None:
        self.meeting, self.sample, self.ceiling = meeting, sample, ceiling
        n, g = sample.n, meeting.size
        self.row_sum, self.row_mass = np.zeros(n), np.zeros(n)
        self.curve_sum, self.curve_mass, self.value_mass = np.zeros(g), np.zeros(g), np.zeros(g)
        self.pd_sum: NDArray[Any] | None = None
        self.pd_mass = np.zeros(g)
        self.columns = _CommonColumns(meeting, sample) if isinstance(meeting, Common) else _PerRowColumns(sample)
        self.square = self.clipped = 0.0
        self.judged = False

    def add(self, rows: Indices, predictions: NDArray[Any], changes: Floats | None) -> None:
        """Add all cells of these rows; each row is added once."""
        for part in chunks(rows, self.meeting.width):
            some = None if changes is None else changes[part]
            if isinstance(self.meeting, Common):
                self._add_common(self.meeting, rows[part], predictions[part], some)
            else:
                self._add_per_row(self.meeting, rows[part], predictions[part], some)

    def _add_common(self, meeting: Common, rows: Indices, predictions: NDArray[Any], changes: Floats | None) -> None:
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

    def _add_per_row(self, meeting: PerRow, rows: Indices, predictions: NDArray[Any], changes: Floats | None) -> None:
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
                clipped=self.clipped / total if has_mass else 0.0,
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

    def __init__(self, meeting: Common, sample: Sample) -> None:
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


def means(cells: Cells, meeting: Meeting, sample: Sample, ceiling: float | None = None) -> Means:
    """The means of cells that are all at hand."""
    averages = Averages(meeting, sample, ceiling)
    averages.add(cells.rows, cells.predictions, cells.changes)
    return averages.finish(cells.rows)


def curves(values: NDArray[Any], meeting: Meeting, sample: Sample, rows: Indices) -> NDArray[Any]:
    """One curve a row on the grid, (r, g); NaN at values that a row never met, the mean where it met one twice."""
    if isinstance(meeting, Common):
        return values
    r, g = len(rows), meeting.size
    met = meeting.weights(sample, rows) > 0
    flat = (np.arange(r)[:, None] * g + meeting.places(rows))[met]
    count = np.bincount(flat, minlength=r * g)
    with np.errstate(invalid="ignore"):
        return (np.bincount(flat, values[met], r * g) / count).reshape(r, g)
