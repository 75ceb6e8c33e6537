"""All cells of a feature as one population: runs of donors with which a row has one prediction.

A score of all rows is one of this population: of the rows with the feature drawn from others, whichever row has whose.
Exact engines give a row's curve as a few steps, so that n x n cells are some ten runs a row.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from losslens.donors.layout import CommonGrid, Layout, OwnDonors
from losslens.tables.frozen import Frozen
from losslens.tables.sample import Sample
from losslens.typing import Floats, Indices, Mask


@dataclass(frozen=True, eq=False, kw_only=True)
class Pool(Frozen):
    """Runs ``first .. stop`` of classes of donors, in each of which a row has one prediction; rows ascend."""

    sample: Sample  # all rows, which are the donors
    row: NDArray[Any]  # (N,)
    first: NDArray[Any]  # (N,)
    stop: NDArray[Any]  # (N,)
    prediction: NDArray[Any]  # (N,) or (N, K)
    donor_class: Indices  # (n,): -1: no donor
    size: int  # classes
    at_value: NDArray[Any] | None  # (g,): the class of each value of the grid; None where rows have donors of their own
    leaves_out_own: bool = False

    @classmethod
    def of_steps(
        cls, sample: Sample, count: Indices, classes: NDArray[Any], prediction: NDArray[Any], layout: CommonGrid,
        at_value: NDArray[Any], size: int,
    ) -> Self:  # fmt: skip
        """Of curves of all rows, of which each has `count` steps; `classes` are where these begin."""
        ends = np.cumsum(count)
        stop = np.empty_like(classes)
        stop[:-1] = classes[1:]
        stop[ends - 1] = size
        donor_class = np.full(sample.n, -1)
        donor_class[layout.donors] = at_value[layout.own[layout.donors]]
        row = np.repeat(np.arange(sample.n, dtype=np.int32), count)
        return cls(
            sample=sample, row=row, first=classes, stop=stop, prediction=prediction, donor_class=donor_class, size=size,
            at_value=at_value, leaves_out_own=layout.leaves_out_own,
        )  # fmt: skip

    @classmethod
    def of_cells(cls, sample: Sample, predictions: NDArray[Any], layout: Layout) -> Self:
        """Of the cells of all rows, (n, c) or (n, c, K)."""
        n, width = predictions.shape[:2]
        flat = predictions.reshape(n * width, *predictions.shape[2:])
        row, first = np.repeat(np.arange(n, dtype=np.int32), width), np.tile(np.arange(width, dtype=np.int32), n)
        if isinstance(layout, OwnDonors):
            donor = np.asarray(layout.donors[np.arange(n)]).ravel()
            kept = donor >= 0
            return cls(
                sample=sample, row=row[kept], first=donor[kept], stop=donor[kept] + 1, prediction=flat[kept],
                donor_class=np.arange(n), size=n, at_value=None, leaves_out_own=layout.leaves_out_own,
            )  # fmt: skip
        new = np.ones(n * width, bool)  # runs of one prediction
        if flat.ndim == 1:
            new[1:] = (flat[1:] != flat[:-1]) | (first[1:] == 0)
        counts = np.bincount(row[new], minlength=n)
        return cls.of_steps(sample, counts, first[new], flat[new], layout, np.arange(width), width)

    def of_rows(self, rows: Indices) -> Self:
        """The cells of some rows; donors are from all rows."""
        kept = np.zeros(self.sample.n, bool)
        kept[rows] = True
        return self._some(kept[self.row])

    def _some(self, kept: Mask) -> Self:
        parts = {name: getattr(self, name)[kept] for name in ("row", "first", "stop", "prediction")}
        return replace(self, **parts)

    @property
    def unchanged(self) -> Self:
        """The same pairs with each row's own prediction: what the population is compared with."""
        if self.at_value is None:
            return replace(self, prediction=self.sample.prediction[self.row])
        rows = self.rows
        return replace(
            self, row=rows, first=np.zeros_like(rows), stop=np.full_like(rows, self.size),
            prediction=self.sample.prediction[rows],
        )  # fmt: skip

    @property
    def matched(self) -> bool:
        """Whether rows weigh otherwise in pairs than by themselves."""
        return self.at_value is None or self.leaves_out_own or self.sample.block is not None

    @cached_property
    def rows(self) -> Indices:
        """The rows that have cells."""
        return np.unique(self.row)

    # Units: rows, or groups of rows, that are left out together; pairs inside groups don't count.

    @cached_property
    def unit(self) -> Indices:
        """The unit of each row, (n,)."""
        if self.sample.block is None:
            return np.arange(self.sample.n)
        return np.unique(self.sample.block, return_inverse=True)[1].reshape(-1)

    @property
    def units(self) -> int:
        """How many."""
        return int(self.unit.max()) + 1

    @cached_property
    def _inside(self) -> tuple[Indices, Indices]:
        """The pairs inside units: their runs and donors."""
        if self.at_value is None:
            mine = np.flatnonzero(self.unit[self.row] == self.unit[self.first])
            return mine, self.first[mine]
        order = np.argsort(self.unit, kind="stable")
        start = np.searchsorted(self.unit[order], np.arange(self.units + 1))
        of_row = np.diff(start)[self.unit[self.rows]]
        row = np.repeat(self.rows, of_row)
        offset = np.arange(len(row)) - np.repeat(np.cumsum(of_row) - of_row, of_row)
        donor = order[start[self.unit[row]] + offset]
        kept = self.donor_class[donor] >= 0
        row, donor = row[kept], donor[kept]
        return self.run_at(row, self.donor_class[donor]), donor

    @property
    def left_out(self) -> tuple[Indices, Indices]:
        """The pairs inside units, where these don't count."""
        return self._inside if self.leaves_out_own or self.sample.block is not None else _NONE

    @property
    def own(self) -> tuple[Indices, Indices]:
        """The pairs inside units, where these do: of a row with itself."""
        return _NONE if self.leaves_out_own or self.sample.block is not None else self._inside

    def run_at(self, row: Indices, value: Indices) -> Indices:
        """The run of a row at a class."""
        key = self.row.astype(np.int64) * self.size + self.first
        return np.searchsorted(key, row.astype(np.int64) * self.size + value, side="right") - 1

    # Weights.

    def lends(self, weight: Floats | None = None) -> Floats:
        """The weight of the donors of each run; `weight` is that of donors, all of the sample's if None."""
        weight = self.sample.weight if weight is None else weight
        if self.at_value is None:
            lends = np.asarray(weight[self.first])
        else:
            counted = self.donor_class >= 0
            held = np.bincount(self.donor_class[counted], weight[counted], self.size)
            cumulative = np.concatenate([[0.0], np.cumsum(held)])
            mass_below = cumulative[self.first]
            lends = np.append(mass_below[1:], 0.0)  # a run ends where the next one of its row begins
            lends[self.stop == self.size] = cumulative[-1]
            lends -= mass_below
        run, donor = self.left_out
        if len(run):
            lends = lends - np.bincount(run, weight[donor], len(lends))
            lends[lends < 1e-12 * weight.max()] = 0.0
        return lends

    @cached_property
    def mass(self) -> Floats:
        """The weight of each run, (N,)."""
        return np.asarray(self.sample.weight[self.row] * self.lends())

    def by_donor(self, code: Indices, values: Floats, codes: int) -> Floats:
        """Sums over the cells of each donor of values of the runs by their code, (N,) -> (n, codes)."""
        weight, values = self.sample.weight, values * self.sample.weight[self.row]
        ends = [np.bincount(edge * codes + code, values, (self.size + 1) * codes) for edge in (self.first, self.stop)]
        if self.at_value is None:
            of_class = ends[0].reshape(-1, codes)
        else:
            of_class = np.cumsum((ends[0] - ends[1]).reshape(-1, codes), axis=0)
        sums = weight[:, None] * of_class[self.donor_class]
        sums[self.donor_class < 0] = 0.0
        run, donor = self.left_out
        if len(run):
            own_group = np.bincount(donor * codes + code[run], values[run] * weight[donor], sums.size)
            sums -= own_group.reshape(sums.shape)
        return np.asarray(sums)

    def pairs_of_units(self) -> tuple[Indices, Indices, Floats]:
        """The runs of each unit as rows and as donors, each pair once: their positions, units and weights."""
        weight = self.sample.weight
        if self.at_value is None:
            run, donor = np.arange(len(self.row)), self.first
        else:
            donors = np.flatnonzero((self.donor_class >= 0) & (weight > 0))
            run = self._runs_at_classes[:, self.donor_class[donors]].ravel()
            donor = np.tile(donors, len(self.rows))
        others = self.unit[self.row[run]] != self.unit[donor]  # the others are among those of the row
        run, donor = run[others], donor[others]
        return (
            np.concatenate([np.arange(len(self.row)), run]),
            np.concatenate([self.unit[self.row], self.unit[donor]]),
            np.concatenate([self.mass, weight[self.row[run]] * weight[donor]]),
        )

    @property
    def pairs(self) -> int:
        """How many pairs of rows and donors there are."""
        return len(self.row) if self.at_value is None else len(self.rows) * self.sample.n

    @property
    def _runs_at_classes(self) -> Indices:
        """The run of each row at each class, (r, size)."""
        return np.repeat(np.arange(len(self.row)), self.stop - self.first).reshape(len(self.rows), self.size)

    def at_values(self, values: Indices) -> NDArray[Any]:
        """The predictions of the rows at some values of the grid, (r, v) or (r, v, K)."""
        assert self.at_value is not None  # callers ask for grids
        row, value = np.repeat(self.rows, len(values)), np.tile(self.at_value[values], len(self.rows))
        found = self.prediction[self.run_at(row, value)]
        return found.reshape(len(self.rows), len(values), *found.shape[1:])


_NONE = (np.zeros(0, np.intp), np.zeros(0, np.intp))
