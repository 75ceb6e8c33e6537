"""A small table in memory that holds all values of the grids: what an exact engine is bound to and checked on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from losslens.columns import is_missing
from losslens.streams.counting import Grid
from losslens.tables import Batch, Edit, Table, as_columns, column_like, frame_table


def codebook(head: Table, grids: Mapping[int, Grid], kinds: Mapping[str, Any] | None) -> Table:
    """Row v holds the v-th value of each grid (the last one where a grid has fewer); other columns are as in `head`."""
    if kinds is not None:
        head = as_columns(head, head.names, kinds, as_array=False)
    size = max(2, *(len(grid) for grid in grids.values()))
    edits = []
    for j, grid in grids.items():
        index = np.minimum(np.arange(size), len(grid) - 1)
        if grid.values.dtype.kind in "biufmM":
            source = column_like(head, j, grid.values)
        else:
            source, index = head.column(j).extended(_plain(grid.values)), head.n + index
        edits.append(Edit(0, size, j, source, index))
    native = Batch(head).fill(np.zeros(size, np.intp), edits)
    if head.backend == "numpy":
        return Table(np.array(native), head.labels, head.names, size, "numpy")
    found = frame_table(native)
    return Table(native, head.labels, head.names, size, found.backend)


def _plain(values: NDArray[Any]) -> list[Any]:
    """Values as a frame library takes them: whole numbers that became floats beside missing ones are whole again."""
    if values.dtype.kind in "mM":
        values = values.astype(f"{values.dtype.kind}8[us]")  # NumPy makes numbers of nanoseconds
    return [None if is_missing(value) and values.dtype.kind != "f" else value for value in values.tolist()]
