"""Ensembles with large trees: curves by passing rows down."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray

from losslens.engines.trees import passing
from losslens.engines.trees.bound import Bound
from losslens.engines.trees.search import STEPS, RawSteps

MOST_ROWS = 2048  # passed down together, before their gains are summed
EVENTS = 48  # gains of a row in a tree that there is room for; more where that is too little


class LargeTrees:
    """Curves by passing rows down. It keeps arrays that are used again: one for each thread."""

    def __init__(self, bound: Bound, wanted: NDArray[np.uint8], room: int) -> None:
        self.bound, self.wanted = bound, wanted
        self.features = int(wanted.sum())
        self.slot = np.cumsum(wanted, dtype=np.int32) - 1
        each = EVENTS * 8 * (1 + bound.value.shape[1]) + 4 * self.features  # bytes of a row in a tree
        self.rows = rows = int(np.clip(room // (each * len(bound.roots)), 16, MOST_ROWS))
        self.strays = np.empty(128 * rows, np.uint64)
        self.found, self.at_leaf = np.empty(128 * rows, np.uint64), np.empty(64 * rows, np.int32)
        self.events = np.empty(EVENTS * rows * len(bound.roots) * (1 + bound.value.shape[1]), np.int64)
        self.on_path = np.empty((bound.depth + 3) * rows, np.int32)
        self.jobs, self.ends = np.empty((bound.depth + 2, 5), np.uint64), np.empty(4, np.uint64)

    def steps(self, start: int, stop: int) -> Iterator[RawSteps]:
        """The curves of rows start .. stop, some rows at a time; the arrays are used again for the next ones."""
        bound, wanted = self.bound, self.wanted
        outputs, largest = bound.ensemble.outputs, int(bound.size.max())
        diff, mark = np.zeros((largest + 1) * outputs, np.int64), np.zeros((largest >> 6) + 1, np.uint64)
        most = int(bound.size[wanted > 0].sum()) + 2 * len(wanted)  # steps of one row
        classes, raw = np.empty(most + STEPS, np.int32), np.empty((most + STEPS, outputs), np.int64)
        begins, total = np.empty((self.rows, int(wanted.sum()) + 1), np.int64), np.empty((self.rows, outputs), np.int64)
        block = ceil((stop - start) / ceil((stop - start) / self.rows))  # all about as long
        for at in range(start, stop, block):
            codes = np.ascontiguousarray(bound.codes[:, at : min(at + block, stop)])
            own, sorted_at = self._gains(codes)
            first = s = 0
            for i in range(codes.shape[1]):
                s = passing.emit_row(
                    i, sorted_at, self.events, own, bound.value, bound.output, bound.size, wanted, diff, mark,
                    classes, raw, s, begins, total,
                )  # fmt: skip
                if s > STEPS or i == codes.shape[1] - 1:
                    some = slice(first, i + 1)
                    yield RawSteps(slice(at + first, at + i + 1), begins[some], classes[:s], raw[:s], total[some])
                    first, s = i + 1, 0

    def _gains(self, codes: NDArray[np.int32]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """The own leaves of a block of rows, and where the gains of each row and feature begin, tree by tree."""
        bound, p, b = self.bound, self.features, codes.shape[1]
        trees = len(bound.roots)
        own, begins = np.empty((trees, b), np.int32), np.empty((trees, b * p + 1), np.int32)
        s = 0
        for t in range(trees):
            while (arrived := self._pass_down(t, codes, own[t])) == passing.FULL:
                self.strays, self.found = _doubled(self.strays, 0), _doubled(self.found, 0)
                self.at_leaf = _doubled(self.at_leaf, 0)
            while (end := self._sort(t, arrived, s, own[t], begins[t])) == passing.FULL:
                self.events = _doubled(self.events, s * (1 + bound.value.shape[1]))
            s = end
        return own, begins

    def _pass_down(self, t: int, codes: NDArray[np.int32], own: NDArray[np.int32]) -> int:
        bound = self.bound
        return int(
            passing.pass_down(
                bound.roots[t], bound.nodes, codes, bound.size, bound.special, self.wanted, bound.sets, self.strays,
                self.on_path, self.jobs, self.found, self.at_leaf, own, self.ends,
            )
        )  # fmt: skip

    def _sort(self, t: int, arrived: int, s: int, own: NDArray[np.int32], begins: NDArray[np.int32]) -> int:
        return int(
            passing.sort_strays(
                self.found,
                self.at_leaf,
                arrived,
                s,
                own,
                self.slot,
                self.features,
                self.bound.value,
                self.events,
                begins,
            )
        )


def _doubled(array: NDArray[Any], kept: int) -> NDArray[Any]:
    """Twice the room, with the first entries kept."""
    larger = np.empty((2 * len(array), *array.shape[1:]), array.dtype)
    larger[:kept] = array[:kept]
    return larger
