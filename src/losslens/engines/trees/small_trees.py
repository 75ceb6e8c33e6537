"""Curves of ensembles whose trees have up to 64 leaves: a set of leaves is the bits of one word.

Each class of a feature allows some leaves of a tree. The one leaf that all features allow is the row's own. The leaves
that exactly one feature forbids are those that the row reaches when this feature varies; it is the feature of the node
where the paths to the two leaves split.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numba import njit, types
from numpy.typing import NDArray

from losslens.engines.compiled import compiled
from losslens.engines.intrinsics import trailing_zeros
from losslens.engines.trees.bound import STEPS_PER_YIELD, BoundEnsemble, Ints, RawSteps
from losslens.engines.trees.node_rules import (
    CUT,
    FEATURE,
    ONE,
    RIGHT,
    RULE,
    TREES,
    U,
    goes_left,
    i4,
    i8,
    u1,
    u8,
)
from losslens.typing import Indices

u2 = types.uint16
DIFFERENCES = 1 << 18  # of the curves of all rows of one search, about: these share what is read of a tree's tables
HALF, LOW_HALF = U(32), U(0xFFFFFFFF)  # a word of two positions


class Tables(NamedTuple):
    """The leaves that each class of each feature allows. An *entry* is a feature used by a tree."""

    first: NDArray[np.int32]  # (T + 1,): the first entry of each tree
    feature: NDArray[np.int32]  # of each entry
    mask_at: NDArray[np.int32]  # where an entry's classes start in `mask`
    mask: NDArray[np.uint64]  # the leaves that a class allows
    pair_at: NDArray[np.int32]  # (T + 1,): where a tree's pairs of leaves start
    split: NDArray[
        np.uint16
    ]  # of each pair of leaves: entry of the node where the paths split, times leaves, plus leaf
    span_at: NDArray[np.int32]  # (T + 1,): where a tree's pairs of an entry and a leaf start
    span: NDArray[np.uint64]  # the ordered classes of an entry that lead to a leaf: two positions like `offset`
    offset: NDArray[np.int32]  # (p + 1,): a feature's first position in the difference array
    has_special: NDArray[np.uint8]  # (T,): whether some feature of a tree has classes without order

    @property
    def tree(self) -> NDArray[np.intp]:
        """The tree of each entry."""
        return np.repeat(np.arange(len(self.first) - 1), np.diff(self.first))

    def allowed(self, entries: Indices, group: Indices, groups: int, codes: Ints) -> NDArray[np.uint64]:
        """The leaves that classes (features, m) allow, over all entries of each group: (groups, m)."""
        words = np.full((groups, codes.shape[1]), ~np.uint64(0))
        for e, k in zip(entries.tolist(), group.tolist(), strict=True):
            words[k] &= self.mask[self.mask_at[e] + codes[self.feature[e]]]
        return words


_TABLES = types.Tuple((i4[::1], i4[::1], i4[::1], u8[::1], i4[::1], u2[::1], i4[::1], u8[::1], i4[::1], u1[::1]))


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
    mask, split = np.repeat(all_leaves, bound.size[feature]), np.zeros(pair_at[-1], np.uint16)
    below = _leaves_below(bound)[inner] - bound.leaf_at[tree][:, None]
    _tabulate(
        inner, _of_trees(tree, len(leaves)), entry.astype(np.int32), below, bound.trees, first, feature, mask_at,
        pair_at, span_at, offset, mask, split, span,
    )  # fmt: skip
    span[span[:, 0] >= span[:, 1]] = 0  # no ordered class: what is added there is subtracted again
    both = span[:, 0].astype(np.uint64) << HALF | span[:, 1].astype(np.uint64)
    return Tables(first, feature, mask_at, mask, pair_at, split, span_at, both, offset, has_special)


def _starts(lengths: NDArray[np.int32]) -> NDArray[np.int32]:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)


def _of_trees(tree: NDArray[np.intp], trees: int) -> NDArray[np.int32]:
    """The position at which the items of each tree start, (T + 1,)."""
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
        i4[::1], i4[::1], i4[::1], i4[:, ::1], TREES, i4[::1], i4[::1], i4[::1], i4[::1], i4[::1], i4[::1], u8[::1],
        u2[::1], i4[:, ::1],
    )
)  # fmt: skip
def _tabulate(
    inner, inner_at, entry_of, below, trees, first, feature, mask_at, pair_at, span_at, offset, mask, split, span
):
    """Narrow the masks, and the spans of classes that lead to each leaf; fill in where all pairs of leaves split.

    Every inner node forbids its right leaves to classes that go left, and its left leaves to those that go right.
    """
    nodes, _, size, _, sets, leaf_at, _, _ = trees
    for t in range(U(len(inner_at) - 1)):
        leaves, e0, pairs, spans = U(leaf_at[t + ONE] - leaf_at[t]), first[t], U(pair_at[t]), U(span_at[t])
        for k in range(U(inner_at[t]), U(inner_at[t + ONE])):
            s, e, low, middle, high = U(inner[k]), entry_of[k], U(below[k, 0]), U(below[k, 1]), U(below[k, 2])
            cut, rule, first_mask, first_span = nodes[s, CUT], nodes[s, RULE], U(mask_at[e]), spans + U(e - e0) * leaves
            classes, place = size[feature[e]], offset[feature[e]] + cut
            left, right = ((ONE << (middle - low)) - ONE) << low, ((ONE << (high - middle)) - ONE) << middle
            for c in range(classes):
                mask[first_mask + U(c)] &= ~(right if goes_left(c, cut, rule, classes, sets) else left)
            for z in range(middle, high):
                if span[first_span + z, 0] < place:
                    span[first_span + z, 0] = place
                for x in range(low, middle):
                    split[pairs + x * leaves + z] = U(e - e0) * leaves + z
                    split[pairs + z * leaves + x] = U(e - e0) * leaves + x
            for x in range(low, middle):
                if span[first_span + x, 1] > place:
                    span[first_span + x, 1] = place


@njit
def search(codes, begin, rows, trees, tables, forbidden, diff, own, first_row):
    """Sum the own leaves of a few rows from `begin` on, and add the gains of all trees to their difference arrays.

    The sums are written to `own` from `first_row` on.

    A gain is the value of a reached leaf minus that of the own leaf. ``forbidden[0, i]`` are the leaves that at least
    one feature of row i forbids, ``forbidden[1, i]`` those that two or more forbid: zero before and after.
    """
    _, _, size, special, _, leaf_at, value, output = trees
    first, feature, mask_at, mask, pair_at, split, span_at, span, offset, has_special = tables
    width, outputs = U(value.shape[1]), U(own.shape[1])
    row_size = U(offset[len(size)])  # positions of a row in the difference array
    for i in range(rows):
        for w in range(outputs):
            own[first_row + i, w] = 0
    for t in range(U(len(output))):
        leaf0, leaves, out = U(leaf_at[t]), U(leaf_at[t + ONE] - leaf_at[t]), U(output[t])
        e0, spans, all_leaves = U(first[t]), U(span_at[t]), ~U(0) >> (U(64) - leaves)
        for e in range(e0, U(first[t + ONE])):
            column, first_mask = codes[feature[e]], U(mask_at[e])
            for i in range(rows):
                forbids = ~mask[first_mask + U(column[begin + i])]
                forbidden[1, i] |= forbidden[0, i] & forbids
                forbidden[0, i] |= forbids
        for i in range(rows):
            leaf, base = U(trailing_zeros(~forbidden[0, i])), i * row_size
            own_leaf, pairs = leaf0 + leaf, U(pair_at[t]) + leaf * leaves
            for w in range(width):
                own[first_row + i, out + w] += value[own_leaf, w]
            others = forbidden[0, i] & ~forbidden[1, i] & all_leaves
            forbidden[0, i] = forbidden[1, i] = 0
            specials = others if has_special[t] else U(0)
            while others != 0:
                leaf = U(trailing_zeros(others))
                others &= others - ONE
                both = U(span[spans + U(split[pairs + leaf])])
                start, stop = base + (both >> HALF), base + (both & LOW_HALF)
                if width == ONE:  # the usual case
                    gain = value[leaf0 + leaf, 0] - value[own_leaf, 0]
                    diff[start * outputs + out] += gain
                    diff[stop * outputs + out] -= gain
                    continue
                for w in range(width):
                    gain = value[leaf0 + leaf, w] - value[own_leaf, w]
                    diff[start * outputs + w] += gain
                    diff[stop * outputs + w] -= gain
            while specials != 0:
                leaf = U(trailing_zeros(specials))
                specials &= specials - ONE
                e = e0 + U(split[pairs + leaf]) // leaves
                f = feature[e]
                for c in range(U(special[f]), U(size[f])):
                    if mask[U(mask_at[e]) + c] >> leaf & ONE:
                        place = (base + U(offset[f]) + c) * outputs + out
                        for w in range(width):
                            gain = value[leaf0 + leaf, w] - value[own_leaf, w]
                            diff[place + w] += gain
                            diff[place + outputs + w] -= gain


@njit
def emit(rows, trees, tables, diff, own, first_row, requested, classes, raw, start, s):
    """Write the steps of some rows' curves from position `s` on, of rows from `first_row` on; returns their end.

    The difference array is zeroed.
    """
    _, _, size, _, _, _, _, _ = trees
    _, _, _, _, _, _, _, _, offset, _ = tables
    outputs, p = U(raw.shape[1]), U(len(size))
    for i in range(rows):
        number = U(0)
        for f in range(p):
            base, count = i * U(offset[p]) + U(offset[f]), U(size[f])
            start[first_row + i, number] = s
            classes[s] = 0
            for w in range(outputs):
                raw[s, w] = own[first_row + i, w] + diff[base * outputs + w]
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
            if requested[f]:
                number += ONE
            else:
                s = U(start[first_row + i, number])
        start[first_row + i, number] = s
    return s


@compiled(
    u8(i4[:, ::1], u8, u8, TREES, _TABLES, u8[:, ::1], i8[::1], i8[:, ::1], u1[::1], i4[::1], i8[:, ::1], i8[:, ::1])
)
def write(codes, begin, stop, trees, tables, forbidden, diff, own, requested, classes, raw, start):
    """Write the steps of the curves of rows begin .. stop, and their sums of own leaves, a few rows at a time."""
    row, s = begin, U(0)
    while row < stop:
        rows, first = min(U(forbidden.shape[1]), stop - row), row - begin
        search(codes, row, rows, trees, tables, forbidden, diff, own, first)
        s = emit(rows, trees, tables, diff, own, first, requested, classes, raw, start, s)
        row += rows
    return s


class SmallTrees:
    """Curves by masks of leaves, of a few rows at a time. It reuses its arrays, so each thread needs its own."""

    def __init__(self, bound: BoundEnsemble, tables: Tables, requested: NDArray[np.uint8]) -> None:
        self.bound, self.tables, self.requested = bound, tuple(tables), requested
        row_size, outputs = int(tables.offset[-1]), bound.ensemble.outputs
        together = int(np.clip(DIFFERENCES // (row_size * outputs), 1, 96))
        # Before steps are yielded: few stay in the cache, but threads wait for each other at each item.
        rows = together * int(np.clip(8 * STEPS_PER_YIELD // (together * row_size), 1, 32))
        max_steps = rows * int(bound.size[requested > 0].sum()) + int(bound.size.max()) + 1
        self.classes, self.raw = np.empty(max_steps, np.int32), np.empty((max_steps, outputs), np.int64)
        self.begins = np.empty((rows, int(requested.sum()) + 1), np.int64)
        self.own = np.empty((rows, outputs), np.int64)
        self.forbidden = np.zeros((2, together), np.uint64)
        self.diff = np.zeros(together * row_size * outputs, np.int64)

    def steps(self, start: int, stop: int) -> Iterator[RawSteps]:
        """Curves of rows start .. stop, some rows at a time; the arrays are overwritten by the next ones."""
        for first in range(start, stop, len(self.own)):
            end = min(first + len(self.own), stop)
            s: int = write(
                self.bound.codes, first, end, self.bound.trees, self.tables, self.forbidden, self.diff, self.own,
                self.requested, self.classes, self.raw, self.begins,
            )  # fmt: skip
            b = end - first
            yield RawSteps(slice(first, end), self.begins[:b], self.classes[:s], self.raw[:s], self.own[:b])
