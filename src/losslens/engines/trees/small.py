"""Ensembles of small trees: curves by masks."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from losslens.engines.trees import masks
from losslens.engines.trees.bound import Bound
from losslens.engines.trees.search import STEPS, RawSteps

ROOM = 1 << 16  # places of the difference arrays of the rows that are searched together


class SmallTrees:
    """Curves by masks. It keeps arrays that are used again: one for each thread."""

    def __init__(self, bound: Bound, tables: masks.Tables, wanted: NDArray[np.uint8]) -> None:
        self.bound, self.tables, self.wanted = bound, tables, wanted
        room, outputs = int(tables.offset[-1]), bound.ensemble.outputs
        self.rows = rows = int(np.clip(ROOM // (room * outputs), 1, 64))
        self.groups = int(np.clip(4 * STEPS // (rows * room), 1, 32))  # of rows, before their steps are handed over
        self.forbidden = np.empty((2, rows), np.uint64)
        self.diff = np.zeros(rows * room * outputs, np.int64)

    def steps(self, start: int, stop: int) -> Iterator[RawSteps]:
        """The curves of rows start .. stop, some rows at a time; the arrays are used again for the next ones."""
        bound, tables, wanted = self.bound, self.tables, self.wanted
        plain = tuple(tables)
        rows = self.rows * self.groups
        most = rows * int(bound.size[wanted > 0].sum()) + 1
        classes, raw = np.empty(most, np.int32), np.empty((most, bound.ensemble.outputs), np.int64)
        begins = np.empty((rows, int(wanted.sum()) + 1), np.int64)
        own = np.empty((rows, bound.ensemble.outputs), np.int64)
        for at in range(start, stop, rows):
            s, end = 0, min(at + rows, stop)
            for k in range(at, end, self.rows):
                codes = np.ascontiguousarray(bound.codes[:, k : min(k + self.rows, end)])
                b, mine = codes.shape[1], own[k - at :]
                masks.search(
                    codes, plain, bound.size, bound.special, bound.value, bound.output, self.forbidden, self.diff, mine
                )
                s = masks.emit(b, self.diff, mine, bound.size, tables.offset, wanted, classes, raw, begins[k - at :], s)
            b = end - at
            yield RawSteps(slice(at, end), begins[:b], classes[:s], raw[:s], own[:b])
