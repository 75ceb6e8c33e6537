"""Curves of ensembles whose trees have up to 64 leaves: a set of leaves is the bits of one word.

Each class of a feature allows some leaves of a tree. The one leaf that all features allow is the row's own. The leaves
that exactly one feature forbids are those that the row reaches when this feature varies; it is the feature of the node
where the paths to the two leaves split.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import ClassVar, NamedTuple

import numpy as np
from numba import types
from numpy.typing import NDArray

from losslens.engines.compiled import compiled, trailing_zeros
from losslens.engines.plain_arrays import array_of
from losslens.engines.trees.bound import STEPS_PER_YIELD, BoundEnsemble, RawSteps
from losslens.engines.trees.node_rules import (
    CUT,
    FEATURE,
    ONE,
    RIGHT,
    RULE,
    U,
    goes_left,
    i4,
    i8,
    u1,
    u8,
)


class Tables(NamedTuple):
    """The leaves that each class of each feature allows. An *entry* is a feature used by a tree."""

    first: NDArray[np.int32]  # (T + 1,): the first entry of each tree
    feature: NDArray[np.int32]  # of each entry
    mask_at: NDArray[np.int32]  # where an entry's classes start in `mask`
    mask: NDArray[np.uint64]  # the leaves that a class allows
    leaf_at: NDArray[np.int32]  # (T + 1,)
    pair_at: NDArray[np.int32]  # (T + 1,): where a tree's pairs of leaves start
    entry: NDArray[np.uint8]  # of each pair of leaves: that of the node where the paths to them split, from `first` on
    span_at: NDArray[np.int32]  # (T + 1,): where a tree's pairs of an entry and a leaf start
    span: NDArray[np.int32]  # (., 2): the ordered classes of an entry that lead to a leaf, as positions like `offset`
    offset: NDArray[np.int32]  # (p + 1,): a feature's first position in the difference array
    has_special: NDArray[np.uint8]  # (T,): whether some feature of a tree has classes without order


# A plain tuple: numba would keep the class in its cache, and fail to load it once the class has moved.
_TABLES = types.Tuple(
    (
        array_of(i4), array_of(i4), array_of(i4), array_of(u8), array_of(i4), array_of(i4), array_of(u1),
        array_of(i4), array_of(i4, 2), array_of(i4), array_of(u1),
    )
)  # fmt: skip


def tables(bound: BoundEnsemble) -> Tables:
    """The masks of all classes and the spans of all pairs of leaves."""
    nodes, p, leaves = bound.nodes, len(bound.size), np.diff(bound.leaf_at)
    inner = np.flatnonzero(nodes[:, FEATURE] >= 0).astype(np.int32)
    tree = np.searchsorted(bound.roots, inner, "right") - 1
    entries, entry = np.unique(tree * p + nodes[inner, FEATURE], return_inverse=True)
    feature, of_tree = (entries % p).astype(np.int32), entries // p
    first = _of_trees(of_tree, len(leaves))
    mask_at, pair_at, span_at = _starts(bound.size[feature]), _starts(leaves**2), _starts(np.diff(first) * leaves)
    has_special = np.zeros(len(leaves), np.uint8)
    has_special[of_tree[bound.special[feature] < bound.size[feature]]] = 1
    all_leaves = ~np.uint64(0) >> (64 - leaves[of_tree]).astype(np.uint64)
    offset = _starts(bound.size + 1)
    spans = np.stack([offset[feature], offset[feature] + bound.special[feature]], axis=1)
    span = np.repeat(spans, leaves[of_tree], axis=0)
    result = Tables(
        first, feature, mask_at, np.repeat(all_leaves, bound.size[feature]), bound.leaf_at, pair_at,
        np.zeros(pair_at[-1], np.uint8), span_at, span, offset, has_special,
    )  # fmt: skip
    below = _leaves_below(bound)[inner] - bound.leaf_at[tree][:, None]
    _tabulate(
        inner, _of_trees(tree, len(leaves)), entry.astype(np.int32), below, nodes, bound.size, bound.sets,
        tuple(result),
    )  # fmt: skip
    span[span[:, 0] >= span[:, 1]] = 0  # no ordered class: what is added there is subtracted again
    return result


def _starts(lengths: NDArray[np.int32]) -> NDArray[np.int32]:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)


def _of_trees(tree: NDArray[np.intp], trees: int) -> NDArray[np.int32]:
    """Where the items of each tree start, (T + 1,)."""
    return np.searchsorted(tree, np.arange(trees + 1)).astype(np.int32)


def _leaves_below(bound: BoundEnsemble) -> NDArray[np.int32]:
    """The first leaf below each node, the first one on its right, and the end of its leaves, (N, 3)."""
    nodes, level = bound.nodes, bound.roots
    leaf = nodes[:, FEATURE] < 0
    below = np.empty((len(nodes), 3), np.int32)
    below[:, 0] = np.cumsum(leaf) - leaf
    below[level, 2] = bound.leaf_at[1:]
    while len(level := level[~leaf[level]]):
        right = nodes[level, RIGHT]
        below[level, 1] = below[level + 1, 2] = below[right, 0]
        below[right, 2] = below[level, 2]
        level = np.concatenate([level + 1, right])
    return below


@compiled(
    types.void(
        array_of(i4), array_of(i4), array_of(i4), array_of(i4, 2), array_of(i4, 2), array_of(i4), array_of(u1, 2),
        _TABLES,
    )
)  # fmt: skip
def _tabulate(inner, inner_at, entry_of, below, nodes, size, sets, tables):
    """Narrow the masks, and the spans of classes that lead to each leaf; fill in the entries of all pairs of leaves.

    Every inner node forbids its right leaves to classes that go left, and its left leaves to those that go right.
    """
    first, feature, mask_at, mask, leaf_at, pair_at, entry, span_at, span, offset, _ = tables
    for t in range(U(len(inner_at) - 1)):
        leaves, e0, pairs, spans = U(leaf_at[t + ONE] - leaf_at[t]), first[t], U(pair_at[t]), U(span_at[t])
        for k in range(U(inner_at[t]), U(inner_at[t + ONE])):
            s, e, low, middle, high = U(inner[k]), entry_of[k], U(below[k, 0]), U(below[k, 1]), U(below[k, 2])
            cut, rule, at, mine = nodes[s, CUT], nodes[s, RULE], U(mask_at[e]), spans + U(e - e0) * leaves
            classes, place = size[feature[e]], offset[feature[e]] + cut
            left, right = ((ONE << (middle - low)) - ONE) << low, ((ONE << (high - middle)) - ONE) << middle
            for c in range(classes):
                mask[at + U(c)] &= ~(right if goes_left(c, cut, rule, classes, sets) else left)
            for z in range(middle, high):
                if span[mine + z, 0] < place:
                    span[mine + z, 0] = place
                for x in range(low, middle):
                    entry[pairs + x * leaves + z] = e - e0
                    entry[pairs + z * leaves + x] = e - e0
            for x in range(low, middle):
                if span[mine + x, 1] > place:
                    span[mine + x, 1] = place


@compiled(
    types.void(
        array_of(i4, 2), _TABLES, array_of(i4), array_of(i4), array_of(i8, 2), array_of(i4), array_of(u8, 2),
        array_of(i8), array_of(i8, 2),
    )
)  # fmt: skip
def search(codes, tables, size, special, value, output, forbidden, diff, own):
    """Sum the own leaves of a few rows, and add the gains of all trees to the rows' parts of the difference array.

    A gain is the value of a reached leaf minus that of the own leaf. ``forbidden[0, i]`` are the leaves that at least
    one feature of row i forbids, ``forbidden[1, i]`` those that two or more forbid: zero before and after.
    """
    first, feature, mask_at, mask, leaf_at, pair_at, entry, span_at, span, offset, has_special = tables
    rows, width, outputs = U(codes.shape[1]), U(value.shape[1]), U(own.shape[1])
    row_size = U(offset[len(size)])  # positions of a row in the difference array
    for i in range(rows):
        for w in range(outputs):
            own[i, w] = 0
    for t in range(U(len(output))):
        leaf0, leaves, out = U(leaf_at[t]), U(leaf_at[t + ONE] - leaf_at[t]), U(output[t])
        e0, spans, all_leaves = U(first[t]), U(span_at[t]), ~U(0) >> (U(64) - leaves)
        for e in range(e0, U(first[t + ONE])):
            column, at = codes[feature[e]], U(mask_at[e])
            for i in range(rows):
                forbids = ~mask[at + U(column[i])]
                forbidden[1, i] |= forbidden[0, i] & forbids
                forbidden[0, i] |= forbids
        for i in range(rows):
            leaf, base = U(trailing_zeros(~forbidden[0, i])), i * row_size
            mine, pairs = leaf0 + leaf, U(pair_at[t]) + leaf * leaves
            for w in range(width):
                own[i, out + w] += value[mine, w]
            others = forbidden[0, i] & ~forbidden[1, i] & all_leaves
            forbidden[0, i] = forbidden[1, i] = 0
            specials = others if has_special[t] else U(0)
            while others != 0:
                leaf = U(trailing_zeros(others))
                others &= others - ONE
                place = spans + U(entry[pairs + leaf]) * leaves + leaf
                start, stop = base + U(span[place, 0]), base + U(span[place, 1])
                if width == ONE:  # the usual case
                    gain = value[leaf0 + leaf, 0] - value[mine, 0]
                    diff[start * outputs + out] += gain
                    diff[stop * outputs + out] -= gain
                    continue
                for w in range(width):
                    gain = value[leaf0 + leaf, w] - value[mine, w]
                    diff[start * outputs + w] += gain
                    diff[stop * outputs + w] -= gain
            while specials != 0:
                leaf = U(trailing_zeros(specials))
                specials &= specials - ONE
                e = e0 + U(entry[pairs + leaf])
                f = feature[e]
                for c in range(U(special[f]), U(size[f])):
                    if mask[U(mask_at[e]) + c] >> leaf & ONE:
                        place = (base + U(offset[f]) + c) * outputs + out
                        for w in range(width):
                            gain = value[leaf0 + leaf, w] - value[mine, w]
                            diff[place + w] += gain
                            diff[place + outputs + w] -= gain


@compiled(
    i8(
        i8, array_of(i8), array_of(i8, 2), array_of(i4), array_of(i4), array_of(u1), array_of(i4), array_of(i8, 2),
        array_of(i8, 2), i8,
    )
)  # fmt: skip
def emit(rows, diff, own, size, offset, wanted, classes, raw, start, s):
    """Write the steps of some rows' curves from position `s` on; returns their end. The difference array is zeroed."""
    outputs, p, s = U(raw.shape[1]), U(len(size)), U(s)
    for i in range(U(rows)):
        number = U(0)
        for f in range(p):
            base, count = i * U(offset[p]) + U(offset[f]), U(size[f])
            start[i, number] = s
            classes[s] = 0
            for w in range(outputs):
                raw[s, w] = own[i, w] + diff[base * outputs + w]
                diff[base * outputs + w] = 0
                diff[(base + count) * outputs + w] = 0
            level = raw[s, 0]
            s += ONE
            for c in range(ONE, count):
                if outputs == ONE:  # the usual case, in a third of the time
                    moved = diff[base + c]
                    diff[base + c] = 0
                    level += moved
                    raw[s, 0] = level
                else:
                    moved = np.int64(0)
                    for w in range(outputs):
                        step = diff[(base + c) * outputs + w]
                        diff[(base + c) * outputs + w] = 0
                        moved |= step
                        raw[s, w] = raw[s - ONE, w] + step
                classes[s] = c
                s += U(moved != 0)
            if wanted[f]:
                number += ONE
            else:
                s = U(start[i, number])
        start[i, number] = s
    return i8(s)


class BlockSearch(ABC):
    """Curves of a few rows at a time, from their differences. It reuses its arrays, so each thread needs its own."""

    differences: ClassVar[int]  # of all rows of one search, about
    yields: ClassVar[int]  # times STEPS_PER_YIELD steps

    def __init__(self, bound: BoundEnsemble, wanted: NDArray[np.uint8]) -> None:
        self.bound, self.wanted, self.offset = bound, wanted, _starts(bound.size + 1)
        self.row_size, outputs = int(self.offset[-1]), bound.ensemble.outputs
        self.rows = rows = int(np.clip(self.differences // (self.row_size * outputs), 1, 64))
        # Before steps are yielded: few stay in the cache, but threads wait for each other at each item.
        self.searches = int(np.clip(self.yields * STEPS_PER_YIELD // (rows * self.row_size), 1, 32))
        rows *= self.searches
        max_steps = rows * int(bound.size[wanted > 0].sum()) + int(bound.size.max()) + 1
        self.classes, self.raw = np.empty(max_steps, np.int32), np.empty((max_steps, outputs), np.int64)
        self.begins = np.empty((rows, int(wanted.sum()) + 1), np.int64)
        self.own = np.empty((rows, outputs), np.int64)

    @abstractmethod
    def write(self, codes: NDArray[np.int32], own: NDArray[np.int64], begins: NDArray[np.int64], s: int) -> int:
        """Write the sums of the own leaves of a few rows, and their steps from position `s` on; returns their end."""

    def steps(self, start: int, stop: int) -> Iterator[RawSteps]:
        """Curves of rows start .. stop, some rows at a time; the arrays are overwritten by the next ones."""
        bound, rows, own, begins = self.bound, len(self.own), self.own, self.begins
        for at in range(start, stop, rows):
            s, end = 0, min(at + rows, stop)
            for k in range(at, end, self.rows):
                codes = np.ascontiguousarray(bound.codes[:, k : min(k + self.rows, end)])
                s = self.write(codes, own[k - at :], begins[k - at :], s)
            b = end - at
            yield RawSteps(slice(at, end), begins[:b], self.classes[:s], self.raw[:s], own[:b])


class SmallTrees(BlockSearch):
    """Curves by masks of leaves."""

    differences: ClassVar[int] = 1 << 17  # more rows share what is read of a tree's tables
    yields: ClassVar[int] = 8

    def __init__(self, bound: BoundEnsemble, tables: Tables, wanted: NDArray[np.uint8]) -> None:
        super().__init__(bound, wanted)
        self.tables = tuple(tables)
        self.forbidden = np.zeros((2, self.rows), np.uint64)
        self.diff = np.zeros(self.rows * self.row_size * bound.ensemble.outputs, np.int64)

    def write(self, codes: NDArray[np.int32], own: NDArray[np.int64], begins: NDArray[np.int64], s: int) -> int:
        """The gains of all leaves that the rows can reach, summed to steps."""
        bound, diff = self.bound, self.diff
        search(codes, self.tables, bound.size, bound.special, bound.value, bound.output, self.forbidden, diff, own)
        classes, raw = self.classes, self.raw
        return emit(codes.shape[1], diff, own, bound.size, self.offset, self.wanted, classes, raw, begins, s)
