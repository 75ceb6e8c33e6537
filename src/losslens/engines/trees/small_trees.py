"""The compiled search of trees with up to 64 leaves: sets of leaves are bits of a word.

Each class of a feature allows some leaves of a tree. The one leaf that all features allow is the row's own. Leaves that
exactly one feature forbids are what the row can reach when that feature is free; it is the one that is asked for where
the ways to the two leaves part.


Ensembles of small trees: curves by masks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numba import types
from numpy.typing import NDArray

from losslens.engines.compiled import compiled, trailing_zeros
from losslens.engines.trees.bound import STEPS, BoundEnsemble, RawSteps
from losslens.engines.trees.node_rules import (
    CUT,
    FEATURE,
    MOST_LEAVES,
    ONE,
    RIGHT,
    RULE,
    U,
    array_of,
    goes_left,
    i4,
    i8,
    u1,
    u8,
)


class Tables(NamedTuple):
    """What each class of each feature allows, tree by tree. An *entry* is a feature that a tree asks for."""

    first: NDArray[np.int32]  # (T + 1,): the first entry of each tree
    feature: NDArray[np.int32]  # of each entry
    mask_at: NDArray[np.int32]  # where an entry's classes begin in `mask`
    mask: NDArray[np.uint64]  # the leaves that a class allows
    leaf_at: NDArray[np.int32]  # (T + 1,)
    pair_at: NDArray[np.int32]  # (T + 1,): where a tree's pairs of leaves begin
    entry: NDArray[np.int32]  # of each pair, where the ways to them part
    span: NDArray[np.int32]  # (., 2): its ordinary classes, from .. to, that lead to the second leaf, as places
    offset: NDArray[np.int32]  # (p + 1,): a feature's first place in the difference array
    one_by_one: NDArray[np.uint8]  # (T,): whether some feature of a tree has other classes


# A plain tuple: numba would keep the class in its cache, and fail to load that once the class has moved.
_TABLES = types.Tuple(
    (
        array_of(i4), array_of(i4), array_of(i4), array_of(u8), array_of(i4), array_of(i4), array_of(i4),
        array_of(i4, 2), array_of(i4), array_of(u1),
    )
)  # fmt: skip


def tables(bound: BoundEnsemble) -> Tables:
    """The masks of all classes and the spans of all pairs of leaves."""
    nodes, p, leaves = bound.nodes, len(bound.size), np.diff(bound.leaf_at)
    inner = np.flatnonzero(nodes[:, FEATURE] >= 0)
    tree = np.searchsorted(bound.roots, inner, "right") - 1
    entries, entry = np.unique(tree * p + nodes[inner, FEATURE], return_inverse=True)
    feature = (entries % p).astype(np.int32)
    first = np.searchsorted(entries // p, np.arange(len(bound.roots) + 1)).astype(np.int32)
    mask_at = _starts(bound.size[feature])
    begins = np.zeros(mask_at[-1], np.uint8)  # classes that some node tells from the one before
    cut = nodes[inner, CUT]
    inside = cut < bound.size[feature[entry]]
    begins[mask_at[entry[inside]] + cut[inside]] = 1
    for e in np.flatnonzero(bound.special[feature] < bound.size[feature]):
        begins[mask_at[e] + bound.special[feature[e]] : mask_at[e + 1]] = 1
    pair_at = _starts(leaves**2)
    one_by_one = np.zeros(len(leaves), np.uint8)
    one_by_one[(entries // p)[bound.special[feature] < bound.size[feature]]] = 1
    made = Tables(
        first, feature, mask_at, np.zeros(mask_at[-1], np.uint64), bound.leaf_at, pair_at,
        np.zeros(pair_at[-1], np.int32), np.zeros((pair_at[-1], 2), np.int32), _starts(bound.size + 1), one_by_one,
    )  # fmt: skip
    of_node = np.zeros(len(nodes), np.int32)
    of_node[inner] = entry
    _part(nodes, bound.roots, of_node, np.empty((65, 3), np.int32), made.leaf_at, pair_at, made.entry)
    box = np.empty((MOST_LEAVES, MOST_LEAVES, 2), np.int32)
    stack = np.empty(MOST_LEAVES, np.int32)
    _tabulate(nodes, bound.roots, bound.size, bound.special, bound.sets, begins, stack, box, tuple(made))
    return made


@compiled(
    types.void(
        array_of(i4, 2), array_of(i4), array_of(i4), array_of(i4, 2), array_of(i4), array_of(i4), array_of(i4)
    )
)  # fmt: skip
def _part(nodes, roots, of_node, above, leaf_at, pair_at, entry):
    """For each pair of leaves of a tree the entry of the node where the ways to them part."""
    for t in range(len(roots)):
        leaves, at = leaf_at[t + 1] - leaf_at[t], pair_at[t]
        depth, s, leaf = 0, roots[t], 0
        while True:
            if nodes[s, FEATURE] >= 0:
                above[depth, 0], above[depth, 1], above[depth, 2] = s, leaf, -1  # its first leaf, its first right leaf
                depth += 1
                s += 1
                continue
            leaf += 1
            while depth > 0 and above[depth - 1, 2] >= 0:  # both sides are done
                depth -= 1
                middle = above[depth, 2]
                for x in range(above[depth, 1], middle):
                    for z in range(middle, leaf):
                        entry[at + x * leaves + z] = of_node[above[depth, 0]]
                        entry[at + z * leaves + x] = of_node[above[depth, 0]]
            if depth == 0:
                break
            above[depth - 1, 2] = leaf
            s = nodes[above[depth - 1, 0], RIGHT]


def _starts(lengths: NDArray[np.int32]) -> NDArray[np.int32]:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)


@compiled(
    types.void(
        array_of(i4, 2), array_of(i4), array_of(i4), array_of(i4), array_of(u1, 2), array_of(u1), array_of(i4),
        array_of(i4, 3), _TABLES,
    )
)  # fmt: skip
def _tabulate(nodes, roots, size, special, sets, begins, stack, box, made):
    """Fill in the masks, and the spans from the boxes of the leaves."""
    first, feature, mask_at, mask, leaf_at, pair_at, entry, span, offset, _ = made
    for t in range(len(roots)):
        leaves = leaf_at[t + 1] - leaf_at[t]
        for e in range(first[t], first[t + 1]):
            f, at, k0 = feature[e], mask_at[e], e - first[t]
            for leaf in range(leaves):
                box[k0, leaf, 0], box[k0, leaf, 1] = 0, 0
            c = 0
            while c < size[f]:
                stop = c + 1
                while stop < size[f] and begins[at + stop] == 0:
                    stop += 1
                reached = np.uint64(0)
                stack[0] = roots[t]
                k = 1
                while k > 0:
                    k -= 1
                    s = stack[k]
                    while nodes[s, FEATURE] >= 0:
                        if nodes[s, FEATURE] != f:
                            stack[k] = nodes[s, RIGHT]
                            k += 1
                            s += 1
                        elif goes_left(c, nodes[s, CUT], nodes[s, RULE], size[f], sets):
                            s += 1
                        else:
                            s = nodes[s, RIGHT]
                    leaf = nodes[s, RIGHT] - leaf_at[t]
                    reached |= ONE << np.uint64(leaf)
                    if c < special[f]:
                        if box[k0, leaf, 1] == 0:
                            box[k0, leaf, 0] = c
                        box[k0, leaf, 1] = stop
                for known in range(c, stop):
                    mask[at + known] = reached
                c = stop
        for pair in range(pair_at[t], pair_at[t + 1]):
            e, leaf = entry[pair], (pair - pair_at[t]) % leaves
            if leaf != (pair - pair_at[t]) // leaves:  # from a leaf to itself there is no such entry
                span[pair, 0] = offset[feature[e]] + box[e - first[t], leaf, 0]
                span[pair, 1] = offset[feature[e]] + box[e - first[t], leaf, 1]


@compiled(
    types.void(
        array_of(i4, 2), _TABLES, array_of(i4), array_of(i4), array_of(i8, 2), array_of(i4), array_of(u8, 2),
        array_of(i8), array_of(i8, 2),
    )
)  # fmt: skip
def search(codes, made, size, special, value, output, forbidden, diff, own):
    """Sum the own leaves of a few rows, and add the gains of all trees to their parts of the difference array.

    ``forbidden[0, i]`` are the leaves that a feature of row i forbids, ``forbidden[1, i]`` those that two or more do.
    """
    first, feature, mask_at, mask, leaf_at, pair_at, entry, span, offset, one_by_one = made
    rows, width, outputs = U(codes.shape[1]), U(value.shape[1]), U(own.shape[1])
    room = U(offset[len(size)])
    for i in range(rows):
        for w in range(outputs):
            own[i, w] = 0
    for t in range(U(len(output))):
        leaf0, leaves, out = U(leaf_at[t]), U(leaf_at[t + ONE] - leaf_at[t]), U(output[t])
        there = ~U(0) >> (U(64) - leaves)
        for i in range(rows):
            forbidden[0, i] = 0
            forbidden[1, i] = 0
        for e in range(U(first[t]), U(first[t + ONE])):
            column, at = codes[feature[e]], U(mask_at[e])
            for i in range(rows):
                forbids = ~mask[at + U(column[i])]
                forbidden[1, i] |= forbidden[0, i] & forbids
                forbidden[0, i] |= forbids
        for i in range(rows):
            leaf, here = U(trailing_zeros(~forbidden[0, i])), i * room
            mine, pairs = leaf0 + leaf, U(pair_at[t]) + leaf * leaves
            for w in range(width):
                own[i, out + w] += value[mine, w]
            others = forbidden[0, i] & ~forbidden[1, i] & there
            forbidden[0, i] = others
            while others != 0:
                leaf = U(trailing_zeros(others))
                others &= others - ONE
                start, stop = here + U(span[pairs + leaf, 0]), here + U(span[pairs + leaf, 1])
                if width == ONE:  # the usual case
                    gain = value[leaf0 + leaf, 0] - value[mine, 0]
                    diff[start * outputs + out] += gain
                    diff[stop * outputs + out] -= gain
                    continue
                for w in range(width):
                    gain = value[leaf0 + leaf, w] - value[mine, w]
                    diff[start * outputs + w] += gain
                    diff[stop * outputs + w] -= gain
            others = forbidden[0, i] if one_by_one[t] else U(0)
            while others != 0:
                leaf = U(trailing_zeros(others))
                others &= others - ONE
                e = U(entry[pairs + leaf])
                f = feature[e]
                for c in range(U(special[f]), U(size[f])):
                    if mask[U(mask_at[e]) + c] >> leaf & ONE:
                        place = (here + U(offset[f]) + c) * outputs + out
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
    """The steps of some rows' curves, from place `s` on; where they end. The difference array is left empty."""
    outputs, p, s = U(raw.shape[1]), U(len(size)), U(s)
    for i in range(U(rows)):
        number = U(0)
        for f in range(p):
            here, count = i * U(offset[p]) + U(offset[f]), U(size[f])
            if wanted[f] == 0:
                for c in range(here * outputs, (here + count + ONE) * outputs):
                    diff[c] = 0
                continue
            start[i, number] = s
            number += ONE
            classes[s] = 0
            for w in range(outputs):
                raw[s, w] = own[i, w] + diff[here * outputs + w]
                diff[here * outputs + w] = 0
                diff[(here + count) * outputs + w] = 0
            s += ONE
            if outputs == ONE:  # the usual case, in a third of the time
                level = raw[s - ONE, 0]
                for c in range(ONE, count):
                    step = diff[here + c]
                    diff[here + c] = 0
                    level += step
                    raw[s, 0] = level
                    classes[s] = c
                    s += U(step != 0)
                continue
            for c in range(ONE, count):
                moved = np.int64(0)
                for w in range(outputs):
                    step = diff[(here + c) * outputs + w]
                    diff[(here + c) * outputs + w] = 0
                    moved |= step
                    raw[s, w] = raw[s - ONE, w] + step
                classes[s] = c
                s += U(moved != 0)
        start[i, number] = s
    return i8(s)


ROOM = 1 << 16  # places of the difference arrays of the rows that are searched together


class SmallTrees:
    """Curves by masks. It keeps arrays that are used again: one for each thread."""

    def __init__(self, bound: BoundEnsemble, tables: Tables, wanted: NDArray[np.uint8]) -> None:
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
                search(
                    codes, plain, bound.size, bound.special, bound.value, bound.output, self.forbidden, self.diff, mine
                )
                s = emit(b, self.diff, mine, bound.size, tables.offset, wanted, classes, raw, begins[k - at :], s)
            b = end - at
            yield RawSteps(slice(at, end), begins[:b], classes[:s], raw[:s], own[:b])
