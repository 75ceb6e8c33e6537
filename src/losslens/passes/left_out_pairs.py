"""Pairs that are left out: of a row with itself, or of rows of one group (`groups=`).

They are summed from the same curves as all pairs, and subtracted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from losslens.engines.base import Steps
from losslens.tables.columns import stable_order
from losslens.tables.sample import Sample, weight_of_others
from losslens.typing import Floats, Indices

PAIRS = 1 << 18  # at a time, about
LARGE = 200  # rows of a group whose pairs are not evaluated one by one


class RowMass:
    """Weights of the rows if pairs inside groups are left out, or their own cells alone; shared by all features."""

    def __init__(self, sample: Sample) -> None:
        self.weight, self.block = sample.weight, sample.block

    @cached_property
    def donor_mass(self) -> Floats:
        """The total weight of the donors of each row: those of other groups, or all but itself."""
        if self.block is None:
            return weight_of_others(self.weight)
        return weight_of_others(np.bincount(self.block, self.weight).astype(float))[self.block]

    @cached_property
    def mass(self) -> Floats:
        """The weight of each row as observation."""
        return self.weight * self.donor_mass

    @cached_property
    def donor_weight(self) -> Floats:
        """The weight of each row as donor."""
        return np.asarray(self.mass / self.mass.sum())

    def at_values(self, codes: Indices, size: int, *, leaves_out: bool) -> Floats:
        """The mass of the pairs whose donor has each of so many values; `leaves_out`: without pairs inside groups."""
        return np.bincount(codes, self.mass if leaves_out else self.weight, size).astype(float)


def ratio(sums: Floats, mass: Floats) -> Floats:
    """Sums divided by masses; NaN where nothing is averaged: a value of a single row, a group with all the weight."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.where(mass > 0, sums, np.nan) / mass)


ROUNDING = 1e-13  # of a difference of masses, which are 1 altogether


def share_left(mass: float, total: float) -> float:
    """The share of a mass that is a difference of others: 0 where that is a rounding error."""
    return float(mass / total) if mass > ROUNDING else 0.0


def large_groups(block: Indices) -> list[Indices]:
    """The rows of each group of more than `LARGE`."""
    return [np.flatnonzero(block == one) for one in np.flatnonzero(np.bincount(block) > LARGE)]


def pairs_inside(block: Indices) -> Iterator[tuple[Indices, Indices]]:
    """All pairs of a row and a donor of the same group, if it is not large; so many at a time."""
    size = np.bincount(block)[block]
    order = stable_order(block)
    order = order[size[order] <= LARGE]
    members = size[order]  # of the group of each row
    first = np.searchsorted(block[order], block[order])  # where it begins
    total, start = np.cumsum(members), 0
    while start < len(order):
        earlier = total[start] - members[start]
        stop = max(start + 1, int(np.searchsorted(total, earlier + PAIRS, side="right")))
        sizes = members[start:stop]
        place = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        yield order[np.repeat(np.arange(start, stop), sizes)], order[np.repeat(first[start:stop], sizes) + place]
        start = stop


@dataclass(frozen=True, eq=False)
class OwnGroups:
    """Rows in the order of their groups, whose pairs are summed by themselves, to be left out."""

    order: Indices  # (n,)
    block: Indices  # (n,): the group of each row, in this order
    codes: NDArray[np.int32]  # (k, n): their classes

    @classmethod
    def of(cls, block: Indices, classes: Sequence[NDArray[np.int32]]) -> Self:
        """Rows in the order of their groups; `classes` has the class of each row, (n,), for each feature."""
        order = stable_order(block)
        return cls(order, block[order], np.stack([of_rows[order] for of_rows in classes]))

    def keep_groups(self, edges: Sequence[int]) -> list[int]:
        """Edges of chunks of rows, moved so that no chunk splits a group."""
        moved = np.searchsorted(self.block, self.block[edges[:-1]])
        return [*np.unique(moved).tolist(), edges[-1]]

    def undo(self, of_rows: NDArray[Any]) -> NDArray[Any]:
        """Numbers of the rows in this order, in that of the table; nothing, if there are none."""
        restored = np.empty_like(of_rows)
        restored[self.order[: len(of_rows)]] = of_rows
        return restored

    def sums(self, start: int, stop: int, weight: Floats) -> OwnGroupSums:
        """Empty sums over the pairs inside the groups of the rows start .. stop."""
        block, codes = self.block[start:stop], self.codes[:, start:stop]
        order = np.stack([np.lexsort((of_feature, block)) for of_feature in codes])
        mass = np.zeros((len(codes), stop - start + 1))
        np.cumsum(weight[start:stop][order], axis=1, out=mass[:, 1:])
        ends = np.column_stack([np.searchsorted(block, block, side) for side in ("left", "right")])
        members = np.ascontiguousarray(np.take_along_axis(codes, order, axis=1))
        return OwnGroupSums(ends, order, members, mass, np.zeros(members.shape))


@dataclass(frozen=True, eq=False)
class OwnGroupSums:
    """Sums over the pairs inside the groups of b rows; each feature has the rows of a group sorted by class."""

    ends: NDArray[np.int64]  # (b, 2): where the group of each row begins and ends
    order: Indices  # (k, b)
    members: NDArray[np.int32]  # (k, b): classes
    mass: Floats  # (k, b + 1): weight of the rows before each
    jumps: Floats  # (k, b)

    def add(
        self, steps: Steps, changes: Floats, rows: slice, weight: Floats, loss: Floats, ceiling: float, clipped: Floats
    ) -> Floats:
        """Add the pairs of some rows; returns the sum of changes of each row, (rows, k), and reduces `clipped`."""
        from losslens.engines.step_sums import sum_own_groups

        own = np.empty((len(weight), len(self.members)))
        sum_own_groups(
            steps.start, steps.classes, changes, weight, loss, ceiling, self.ends[rows], self.members, self.mass, own,
            self.jumps, clipped,
        )  # fmt: skip
        return own

    def caused(self) -> Floats:
        """The sum of the changes that each row causes in its group, (b, k)."""
        running, first = np.cumsum(self.jumps, axis=1), self.ends[:, 0]
        earlier = np.where(first > 0, running[:, first - 1], 0.0)
        caused = np.empty(self.jumps.shape[::-1])
        np.put_along_axis(caused, self.order.T, (running - earlier).T, axis=0)
        return caused
