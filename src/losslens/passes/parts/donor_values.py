"""Latin donors over all rows of data in parts: stored columns of all rows, and random orders that take no memory."""

from __future__ import annotations

import tempfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from losslens.donors.designs import Shifts
from losslens.passes.parts.counting import Bins, CountedGrid, places
from losslens.passes.parts.reading import Data, Job, kept_in
from losslens.progress import Tick
from losslens.tables.columns import Column
from losslens.tables.frames import Table, column_like
from losslens.typing import Floats, Indices

Words = NDArray[np.uint64]
ROUNDS = 6  # of the Feistel network
STORED = 50_000  # most rows for which a permutation is stored; with more it is computed on access


@dataclass(frozen=True, eq=False)
class Scramble:
    """A permutation of 0 .. n-1 by a Feistel network on the bits of a number, repeated for results of n or more.

    >>> sorted(Scramble(10, (1, 2, 3, 4, 5, 6))[np.arange(10)].tolist()) == list(range(10))
    True
    """

    n: int
    keys: tuple[int, ...]

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, index: Any) -> Indices:
        index = np.asarray(index)
        image = self._once(index.ravel().astype(np.uint64))
        outside = np.flatnonzero(image >= self.n)
        while len(outside):  # fewer than three in four: each falls below n after a few rounds
            image[outside] = self._once(image[outside])
            outside = outside[image[outside] >= self.n]
        return image.astype(np.intp).reshape(index.shape)

    def _once(self, x: Words) -> Words:
        half = np.uint64(max(1, (max(self.n - 1, 1).bit_length() + 1) // 2))
        mask = np.uint64((1 << int(half)) - 1)
        left, right = x >> half, x & mask
        for key in self.keys:
            left, right = right, left ^ (_mixed(right + np.uint64(key)) & mask)
        return (left << half) | right


def _mixed(x: Words) -> Words:
    """Splitmix: every bit of the result depends on every bit of x."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def random_order(n: int, rng: np.random.Generator) -> Any:
    """A random order of n rows: stored if n is small, else computed on access."""
    if n <= STORED:
        return rng.permutation(n)
    return Scramble(n, tuple(int(key) for key in rng.integers(2**62, size=ROUNDS)))


WEIGHT = -1  # the key of the column of weights


@dataclass(frozen=True, eq=False)
class Gather:
    """The arguments of the second pass, small enough to send to workers."""

    data: Data
    bins: Bins
    grids: Mapping[int, CountedGrid]
    weighted: bool
    kept: Indices


@dataclass(frozen=True, eq=False)
class Gathered:
    """Columns of all rows of a part, and all columns of its kept rows."""

    columns: dict[int, NDArray[Any]]  # the value itself where the grid has bins, else its position on the grid
    kept: tuple[Any, NDArray[Any] | None, Floats]  # a table, y, weights


def gather(arguments: Gather, job: Job, tick: Tick) -> Gathered:
    """The columns of a part; a job has one part here."""
    (rows,) = arguments.data.rows(job, tick)
    at = places(rows.table, arguments.grids, arguments.grids, arguments.bins)
    columns: dict[int, NDArray[Any]] = {}
    for j, grid in arguments.grids.items():
        columns[j] = rows.table.column(j).array.astype(grid.values.dtype) if grid.binned else at[j].astype(np.int32)
    if arguments.weighted:
        columns[WEIGHT] = rows.weight
    kept = kept_in(arguments.kept, rows.part)
    y = None if rows.y is None else rows.y[kept]
    return Gathered(columns, (rows.table.rows(kept), y, rows.weight[kept]))


class Store:
    """Columns of all rows: in memory, or in files of the temporary folder where they don't fit."""

    def __init__(self, n: int, memory: int) -> None:
        self.n, self.free = n, memory // 4
        self.folder: tempfile.TemporaryDirectory[str] | None = None
        self.columns: dict[int, NDArray[Any]] = {}

    def put(self, start: int, columns: Mapping[int, NDArray[Any]]) -> None:
        """Store values of the rows from `start` on."""
        for j, values in columns.items():
            if j not in self.columns:
                self.columns[j] = self._allocate(j, values.dtype)
            self.columns[j][start : start + len(values)] = values

    def _allocate(self, j: int, dtype: np.dtype[Any]) -> NDArray[Any]:
        size = self.n * dtype.itemsize
        if size <= self.free:
            self.free -= size
            return np.empty(self.n, dtype)
        if self.folder is None:
            self.folder = tempfile.TemporaryDirectory(prefix="losslens-")
        return np.memmap(Path(self.folder.name) / f"column{j}", dtype, "w+", shape=(self.n,))

    def close(self) -> None:
        """Release the memory and remove the files."""
        self.columns.clear()
        if self.folder is not None:
            self.folder.cleanup()


def latin(n: int, m: int, entropy: int, name: str) -> Shifts:
    """m distinct shifts over all rows; the draw of a feature depends on its name, not on the other features."""
    rng = np.random.default_rng([entropy, n, zlib.crc32(name.encode())])
    return Shifts(random_order(n, rng), random_order(n, rng), rng.choice(n, m, replace=False))


@dataclass(frozen=True, eq=False)
class ValuesOfPart:
    """The values of the donors of each row of a part, for one column: m per row."""

    places: NDArray[Any]  # (b, m): positions on the grid; where it has bins, the values themselves
    weight: Floats | None  # (b, m): of the donors

    def column(self, table: Table, j: int, book: Table, grid: CountedGrid) -> tuple[Column, Indices]:
        """A column and the position of each value in it, (m, b)."""
        if not grid.binned:
            return book.column(j), np.ascontiguousarray(self.places.T, np.intp)
        flat = self.places.T.ravel()
        return column_like(table, j, flat), np.arange(len(flat)).reshape(self.places.shape[::-1])


def donor_values(store: Store, shifts: Shifts, j: int, start: int, stop: int) -> ValuesOfPart:
    """The values of the donors of rows start .. stop."""
    donors = shifts[np.arange(start, stop)]
    weight = store.columns.get(WEIGHT)
    values = np.asarray(store.columns[j][donors])
    return ValuesOfPart(values, None if weight is None else np.asarray(weight[donors]))
