"""Donors over the whole data: the values of each asked column of all rows, small enough to be looked up at random."""

from __future__ import annotations

import tempfile
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from losslens.columns import Column
from losslens.donors import Shifts
from losslens.scrambling import random_order
from losslens.streams.counting import Bins, Grid
from losslens.streams.parts import Data, Floats, Indices, Stretch, kept_in
from losslens.tables import Table, column_like

WEIGHT = -1  # stands for the column of weights


@dataclass(frozen=True, eq=False)
class Gather:
    """What the second pass is asked; it travels."""

    data: Data
    bins: Bins
    grids: Mapping[int, Grid]
    weighted: bool
    kept: Indices

    def places(self, table: Table, columns: Iterable[int]) -> dict[int, Indices]:
        """Where the values of each row stand on their grids."""
        distinct = {j: table.column(j).distinct for j in columns}
        bins = self.bins.of(table, distinct)
        return {j: self.grids[j].places(known.values, bins[j])[known.codes] for j, known in distinct.items()}


@dataclass(frozen=True, eq=False)
class Gathered:
    """Of one part: its columns, small, and its kept rows, whole."""

    columns: dict[int, NDArray[Any]]  # the value itself where the grid has bins, else its place on the grid
    kept: tuple[Any, NDArray[Any] | None, Floats]  # a table, y, weights


def gather(asked: Gather, stretch: Stretch) -> Gathered:
    """The columns of a part (one a stretch)."""
    (rows,) = asked.data.rows(stretch)
    places = asked.places(rows.table, asked.grids)
    found: dict[int, NDArray[Any]] = {}
    for j, grid in asked.grids.items():
        found[j] = rows.table.column(j).array.astype(grid.values.dtype) if grid.binned else places[j].astype(np.int32)
    if asked.weighted:
        found[WEIGHT] = rows.weight
    kept = kept_in(asked.kept, rows.part)
    y = None if rows.y is None else rows.y[kept]
    return Gathered(found, (rows.table.rows(kept), y, rows.weight[kept]))


class Store:
    """Columns of all rows: in memory, or where they don't fit in a file of the system's temporary folder."""

    def __init__(self, n: int, memory: int) -> None:
        self.n, self.room = n, memory // 4
        self.folder: tempfile.TemporaryDirectory[str] | None = None
        self.columns: dict[int, NDArray[Any]] = {}

    def put(self, start: int, columns: Mapping[int, NDArray[Any]]) -> None:
        """The rows from `start` on."""
        for j, values in columns.items():
            if j not in self.columns:
                self.columns[j] = self._room_for(j, values.dtype)
            self.columns[j][start : start + len(values)] = values

    def _room_for(self, j: int, dtype: np.dtype[Any]) -> NDArray[Any]:
        size = self.n * dtype.itemsize
        if size <= self.room:
            self.room -= size
            return np.empty(self.n, dtype)
        if self.folder is None:
            self.folder = tempfile.TemporaryDirectory(prefix="losslens-")
        return np.memmap(Path(self.folder.name) / f"column{j}", dtype, "w+", shape=(self.n,))

    def close(self) -> None:
        """Let go of everything; files are removed."""
        self.columns.clear()
        if self.folder is not None:
            self.folder.cleanup()


def latin(n: int, m: int, entropy: int, name: str) -> Shifts:
    """m distinct shifts over all rows; a feature's draw hangs on its name, not on the others asked for."""
    rng = np.random.default_rng([entropy, n, zlib.crc32(name.encode())])
    return Shifts(random_order(n, rng), random_order(n, rng), rng.choice(n, m, replace=False))


@dataclass(frozen=True, eq=False)
class Loan:
    """What the rows of one part receive for one column: m values each."""

    places: NDArray[Any]  # (b, m): on the grid; of values in bins, the values themselves
    weight: Floats | None  # (b, m): of the donors

    def column(self, table: Table, j: int, book: Table, grid: Grid) -> tuple[Column, Indices]:
        """A column to gather from, and where in it each value stands, (m, b)."""
        if not grid.binned:
            return book.column(j), np.ascontiguousarray(self.places.T, np.intp)
        flat = self.places.T.ravel()
        return column_like(table, j, flat), np.arange(len(flat)).reshape(self.places.shape[::-1])


def lend(store: Store, shifts: Shifts, j: int, start: int, stop: int) -> Loan:
    """The values that rows start .. stop receive."""
    donors = shifts[np.arange(start, stop)]
    weight = store.columns.get(WEIGHT)
    return Loan(np.asarray(store.columns[j][donors]), None if weight is None else np.asarray(weight[donors]))
