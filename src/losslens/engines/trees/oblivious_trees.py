"""Curves of ensembles of oblivious trees, which ask one question at all nodes of a level.

The answers are the bits of the leaf's number. A curve of a feature jumps at the cuts of its questions, each time by the
difference of two leaves whose numbers differ in one answer; the row's own side of the cut does not matter. So a row
needs its own leaf and one difference a level, and where a curve begins follows from the row's own sum.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import types
from numpy.typing import NDArray

from losslens.engines.compiled import compiled
from losslens.engines.readers.layout import complete_tree
from losslens.engines.trees.bound import BoundEnsemble
from losslens.engines.trees.node_rules import CUT, FEATURE, ONE, PLAIN, RULE, U, array_of, i4, i8, u1, u8
from losslens.engines.trees.small_trees import BlockSearch

MAX_DEPTH = 16


class Levels(NamedTuple):
    """The questions of all trees, one a level; a feature's cuts are in rising order among those of a tree."""

    first: NDArray[np.int32]  # (T + 1,): the first question of each tree
    feature: NDArray[np.int32]
    cut: NDArray[np.int32]
    bit: NDArray[np.uint64]  # of the leaf's number, if the class is at or above the cut
    kept: NDArray[np.uint64]  # the bits of all other features
    below: NDArray[np.uint64]  # the bits of the feature just below the cut, and at it
    above: NDArray[np.uint64]


_LEVELS = types.Tuple(
    (array_of(i4), array_of(i4), array_of(i4), array_of(u8), array_of(u8), array_of(u8), array_of(u8))
)


def levels_of(bound: BoundEnsemble) -> Levels | None:
    """The questions of all trees; None if a tree is not oblivious, or asks for missing values or categories."""
    leaves = np.diff(bound.leaf_at)
    depth = np.log2(leaves).astype(np.int64)
    if (2**depth != leaves).any() or depth.max() > MAX_DEPTH or (bound.nodes[:, RULE] != PLAIN).any():
        return None
    first = np.concatenate([[0], np.cumsum(depth)])
    asked = np.zeros((first[-1], 2), np.int32)  # feature and cut
    for d in np.unique(depth).tolist():
        trees = np.flatnonzero(depth == d)
        if (found := _questions(bound, trees, d)) is None:
            return None
        asked[first[trees][:, None] + np.arange(d)] = found
    tree = np.repeat(np.arange(len(leaves)), depth)
    bit = np.uint64(1) << (first[tree + 1] - 1 - np.arange(len(tree))).astype(np.uint64)  # the root has the highest
    order = np.lexsort([asked[:, 1], asked[:, 0], tree])
    asked, bit, tree = asked[order], bit[order], tree[order]
    begins = np.ones(len(tree), np.bool_)  # another feature, or another tree
    begins[1:] = (tree[1:] != tree[:-1]) | (asked[1:, 0] != asked[:-1, 0])
    group, start = np.cumsum(begins) - 1, np.flatnonzero(begins)
    through = np.cumsum(bit, dtype=np.uint64)
    above = through - (through - bit)[start][group]
    whole = above[np.append(start[1:], len(tree))[group] - 1]
    feature, cut = np.ascontiguousarray(asked.T)
    return Levels(first.astype(np.int32), feature, cut, bit, ~whole, above - bit, above)


def _questions(bound: BoundEnsemble, trees: NDArray[np.intp], depth: int) -> NDArray[np.int32] | None:
    """Feature and cut of each level of some trees, (trees, depth, 2); None if they differ within a level."""
    level, _, _ = complete_tree(depth)
    nodes = bound.nodes[bound.roots[trees][:, None] + np.arange(len(level))][:, :, [FEATURE, CUT]]
    found = nodes[:, :depth]  # the first nodes lead to the first leaf
    if (nodes[:, level < 0, 0] >= 0).any() or (nodes[:, level >= 0] != found[:, level[level >= 0]]).any():
        return None
    return found


@compiled(
    types.void(
        array_of(i4, 2), _LEVELS, array_of(i4), array_of(i4), array_of(i8, 2), array_of(i4), array_of(u8),
        array_of(i8, 2), array_of(i8, 2),
    )
)  # fmt: skip
def jump(codes, levels, offset, leaf_at, value, output, index, jumps, own):
    """Sum the own leaves of a few rows, and the jumps of their curves at each cut: ``jumps[position, row]``."""
    first, feature, cut, bit, kept, below, above = levels
    rows, width, outputs = U(codes.shape[1]), U(value.shape[0]), U(own.shape[0])
    for t in range(U(len(output))):
        leaf0 = U(leaf_at[t])
        for i in range(rows):
            index[i] = 0
        for e in range(U(first[t]), U(first[t + ONE])):
            column, at, by = codes[feature[e]], cut[e], bit[e]
            for i in range(rows):
                index[i] |= by if column[i] >= at else U(0)
        for w in range(width):
            out, leaf = U(output[t]) + w, value[w, leaf0:]
            mine = own[out]
            for i in range(rows):
                mine[i] += leaf[index[i]]
            for e in range(U(first[t]), U(first[t + ONE])):
                others, low, high = kept[e], below[e], above[e]
                to = jumps[(U(offset[feature[e]]) + U(cut[e])) * outputs + out]
                for i in range(rows):
                    to[i] += leaf[index[i] & others | high] - leaf[index[i] & others | low]


@compiled(types.void(array_of(i4, 2), array_of(i4), array_of(i4), array_of(u1), array_of(i8, 2), i8))
def anchor(codes, size, offset, wanted, jumps, outputs):
    """Where curves begin, less the row's own sum: minus the jumps up to the row's own class."""
    rows, outputs = U(codes.shape[1]), U(outputs)
    for f in range(U(len(size))):
        if wanted[f] == 0:
            continue
        column = codes[f]
        for w in range(outputs):
            begin = jumps[U(offset[f]) * outputs + w]
            for i in range(rows):
                begin[i] = 0  # a cut below all classes is no jump
            for c in range(ONE, U(size[f])):
                step = jumps[(U(offset[f]) + c) * outputs + w]
                for i in range(rows):
                    begin[i] -= step[i] if column[i] >= c else 0


class ObliviousTrees(BlockSearch):
    """Curves by levels. It reuses its arrays, so each thread needs its own."""

    def __init__(self, bound: BoundEnsemble, levels: Levels, wanted: NDArray[np.uint8]) -> None:
        super().__init__(bound, wanted)
        self.levels, self.value = tuple(levels), np.ascontiguousarray(bound.value.T)
        self.index = np.empty(self.rows, np.uint64)
        self.jumps = np.zeros((self.row_size * bound.ensemble.outputs, self.rows), np.int64)
        self.sums = np.empty((bound.ensemble.outputs, self.rows), np.int64)

    def search(self, codes: NDArray[np.int32], own: NDArray[np.int64]) -> None:
        """Sum the own leaves of a few rows, and fill in their parts of the difference array."""
        bound, b = self.bound, codes.shape[1]
        self.sums[:] = 0
        jump(
            codes, self.levels, self.offset, bound.leaf_at, self.value, bound.output, self.index, self.jumps, self.sums
        )
        anchor(codes, bound.size, self.offset, self.wanted, self.jumps, len(self.sums))
        own[:b] = self.sums[:, :b].T
        self.diff.reshape(self.rows, -1)[:b] = self.jumps[:, :b].T
        self.jumps[:] = 0
