"""Curves of ensembles of oblivious trees, which ask one question at all nodes of a level.

The answers are the bits of the leaf's number. A curve of a feature jumps at the cuts of its questions, each time by the
difference of two leaves whose numbers differ in one answer; the row's own side of the cut does not matter. So a row
needs its own leaf and one difference a level, and where a curve begins follows from the row's own sum.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import numpy as np
from numba import types
from numpy.typing import NDArray

from losslens.engines.compiled import array_of, compiled
from losslens.engines.readers.layout import complete_tree
from losslens.engines.trees.bound import BoundEnsemble
from losslens.engines.trees.node_rules import CUT, FEATURE, ONE, PLAIN, RULE, U, i4, i8, u1, u8
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


@compiled(
    types.void(
        array_of(i4, 2), array_of(i4), array_of(i4), array_of(u1), array_of(i8, 2), array_of(i8, 2), array_of(i8),
        array_of(i8, 2),
    )
)  # fmt: skip
def lay_out(codes, size, offset, wanted, jumps, own, level, raw):
    """Sum jumps to curves, row by row with a step at each class; the jumps are zeroed.

    A curve begins with the row's own sum less the jumps up to the row's own class.
    """
    rows, outputs, width, begin = U(codes.shape[1]), U(own.shape[0]), U(0), U(0)
    for f in range(U(len(size))):
        width += U(size[f]) if wanted[f] else U(0)
    for f in range(U(len(size))):
        column, count, first = codes[f], U(size[f]), U(offset[f])
        for place in range(first * outputs, (first + count + ONE) * outputs):
            if not wanted[f] or place < (first + ONE) * outputs or place >= (first + count) * outputs:
                jumps[place] = 0  # a cut below or above all classes is no jump
        if not wanted[f]:
            continue
        for w in range(outputs):
            for i in range(rows):
                level[i] = own[w, i]
            for c in range(ONE, count):
                step = jumps[(first + c) * outputs + w]
                for i in range(rows):
                    level[i] -= step[i] if column[i] >= c else 0
            for c in range(count):
                step = jumps[(first + c) * outputs + w]
                for i in range(rows):
                    level[i] += step[i]
                    step[i] = 0
                    raw[i * width + begin + c, w] = level[i]
        begin += count


class ObliviousTrees(BlockSearch):
    """Curves by levels, with a step at each class. It reuses its arrays, so each thread needs its own."""

    differences: ClassVar[int] = 1 << 14  # jumps and steps stay in the processor's cache
    yields: ClassVar[int] = 2

    def __init__(self, bound: BoundEnsemble, levels: Levels, wanted: NDArray[np.uint8]) -> None:
        super().__init__(bound, wanted)
        self.levels, self.value = tuple(levels), np.ascontiguousarray(bound.value.T)
        self.index, self.level = np.empty(self.rows, np.uint64), np.empty(self.rows, np.int64)
        self.jumps = np.zeros((self.row_size * bound.ensemble.outputs, self.rows), np.int64)
        self.sums = np.empty((bound.ensemble.outputs, self.rows), np.int64)
        size = bound.size[wanted > 0]
        self.width, rows = int(size.sum()), len(self.begins)
        self.begins[:] = self.width * np.arange(rows)[:, None] + np.append(0, np.cumsum(size))
        self.classes[: self.width * rows] = np.tile(np.concatenate([np.arange(s) for s in size]), rows)

    def write(self, begin: int, stop: int) -> int:
        """The jumps of the rows' curves, summed to steps; where they begin is known."""
        bound, jumps, sums = self.bound, self.jumps, self.sums
        for at in range(begin, stop, self.rows):
            codes, done = np.ascontiguousarray(bound.codes[:, at : min(at + self.rows, stop)]), at - begin
            sums[:] = 0
            jump(codes, self.levels, self.offset, bound.leaf_at, self.value, bound.output, self.index, jumps, sums)
            raw = self.raw[done * self.width :]
            lay_out(codes, bound.size, self.offset, self.wanted, jumps, sums, self.level, raw)
            self.own[done : done + codes.shape[1]] = sums[:, : codes.shape[1]].T
        return (stop - begin) * self.width
