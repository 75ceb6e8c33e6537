"""Errors over all n^2 pairs of a row, which keeps some columns, and a donor, which lends the others; from trees.

The squared error of a sum of trees needs no pair: over all pairs the product of two leaves has the mean
``value * value' * share of rows in both boxes' kept conditions * share of donors in both boxes' replaced conditions``.
Of a single tree every loss is a sum over its leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from losslens.engines.trees import coalition_kernels
from losslens.engines.trees.bound import BoundEnsemble, Ints
from losslens.engines.trees.node_rules import CUT, FEATURE, MISSING_LEFT, RIGHT, RULE, SETS
from losslens.engines.trees.small_trees import Tables
from losslens.typing import Floats

Kept = Sequence[int] | NDArray[np.intp] | NDArray[np.bool_]
Words = NDArray[np.uint64]
LeafLoss = Callable[[NDArray[np.int32], NDArray[np.int32]], Floats]
MOST_WORDS = 4e10  # of `cost`: one to four seconds a coalition, with equal weights
TOGETHER = 1024  # basis patterns in a table; more only where a single tree has more
TABLE_BYTES = 1 << 25  # a table has fewer where it would be larger
SHARED = 1 << 20  # counts that are held: a table's patterns times some nodes
TEST_BYTES = 1 << 24
FOUND = 1 << 20  # rows and leaves that are noted together
MASKS = 1 << 22  # trees times donors whose masks are held


def cost(bound: BoundEnsemble) -> float:
    """Word operations, had all leaves to be compared with each other. Callers decline above `MOST_WORDS`."""
    return float(len(bound.value)) ** 2 * bound.codes.shape[1] / 64


def squared_error(bound: BoundEnsemble, kept: Kept, y: Floats, weight: Floats) -> float:
    """The mean squared error over all pairs where these columns are kept; see `CoalitionErrors`."""
    return CoalitionErrors(bound, y, weight).error(kept)


class CoalitionErrors:
    """Mean squared errors of coalitions, over all pairs; what the coalitions share is prepared once.

    The model's answer must be its raw output, ``(offset + sum of leaves) / divisor``. `y` is (n,) or (n, outputs) on
    the same scale: class indicators where the outputs are probabilities. The error is a sum over outputs. With equal
    weights all counts are whole numbers; what is left is rounding, some 1e-15 of the variance of y and predictions.
    """

    def __init__(self, bound: BoundEnsemble, y: Floats, weight: Floats) -> None:
        rows = np.flatnonzero(weight > 0)
        weight = weight[rows] / weight[rows].sum()
        equal = bool(np.all(weight == weight[0]))
        self.mass = float(len(rows)) if equal else 1.0
        self.weight = weight[:0] if equal else weight  # of rows that count differently
        self.bound, self.codes, self.share = bound, np.ascontiguousarray(bound.codes[:, rows]), weight
        self.walk = walk = _CoalitionWalk.of(bound)
        test, self.tests = node_tests(bound, self.codes)
        self.test = test[walk.order]
        y = np.asarray(y, np.float64).reshape(len(y), -1)[rows]
        mean = weight @ y
        rest = weight @ (y - mean)  # what rounding has left
        self.y = y - mean - rest
        self.moments = np.column_stack([np.ones(len(y)), self.y]) * (1.0 if equal else weight[:, None])
        # Leaves relative to one of their own tree, so that no digits are lost to what all of them have in common.
        value, scale = bound.value[walk.leaves], bound.unit / bound.ensemble.divisor
        base = value[walk.first_leaf[:-1]]
        self.base = _by_output(walk, base, len(scale))
        narrow = scale[walk.output[walk.leaf_tree]][:, None] if value.shape[1] < len(scale) else scale
        self.value = (value - base[walk.leaf_tree]) * narrow
        self.scale = scale
        self.offset = bound.ensemble.offset / bound.ensemble.divisor - mean - rest + self.base * scale

    def error(self, kept: Kept) -> float:
        """The error where these columns are kept and a donor lends all others."""
        return self.errors(kept)[0]

    def errors(self, kept: Kept) -> tuple[float, float]:
        """The errors where these columns are kept, and where all others are: the work is the same."""
        mask = as_mask(kept, len(self.bound.size))[self.bound.nodes[self.walk.order, FEATURE]]
        if mask.all() or not mask.any():
            together, apart = self._whole()
            return (together, apart) if mask.all() else (apart, together)
        walk, sides = self.walk, self._divide(mask)
        mine, lent = (sides.sums[o, sides.leaf_pattern[:, o]] for o in range(2))
        joint = (mine[:, 0] * lent[:, 0])[:, None] / self.mass**2
        shift = np.add.reduceat(self.value * joint, walk.first_leaf[:-1], axis=0)  # the means of the trees
        value = self.value - shift[walk.leaf_tree]
        offset = self.offset + _by_output(walk, shift, len(self.offset))
        cross = _Crossing(walk, sides, value, self.weight, self.codes.shape[1]).total() / self.mass**2
        square = np.sum(value**2 * joint) + 2 * cross + np.sum(offset**2) + np.sum(self.share @ self.y**2)
        products = self._product(value, mine, lent), self._product(value, lent, mine)
        return float(square - 2 * products[0]), float(square - 2 * products[1])

    def _product(self, value: Floats, a: Floats, b: Floats) -> float:
        """The mean of y times the answer, both centred, where side a is kept."""
        wide = value.shape[1] > 1
        target = a[:, 1:] if wide else a[np.arange(len(a)), 1 + self.walk.output[self.walk.leaf_tree]][:, None]
        return float(np.sum(value * target * b[:, :1])) / self.mass**2

    def _whole(self) -> tuple[float, float]:
        """The errors where all columns that matter are kept, and where none is: neither is a difference."""
        place = np.full(len(self.codes), -1, np.int32)
        raw = _walk_pairs(self.bound, self.codes, place, np.zeros((0, 1), np.int32))[:, 0]
        own = (raw - self.base) * self.scale + self.offset
        together, apart = self.share @ (own - self.y) ** 2, self.share @ (own**2 + self.y**2)
        return float(together.sum()), float(apart.sum())

    def _divide(self, kept: NDArray[np.bool_]) -> _Sides:
        """The two sides, given which inner nodes ask for a kept column."""
        walk, words, n = self.walk, self.tests.shape[1], self.codes.shape[1]
        side = np.where(kept, 0, 1)
        by, many = np.argsort(side, kind="stable"), np.bincount(side, minlength=2)
        place = np.empty((len(side), 3), np.int32)
        place[by, 1] = np.arange(len(side))
        place[:, 0], place[:, 2] = side, place[:, 1] - side * many[0]
        before = np.zeros((2, len(walk.inner)), np.int32)
        for o in range(2):
            before[o] = o * many[0] + np.append(0, np.cumsum(side == o))[walk.inner]
        starts = np.ascontiguousarray(before[:, walk.root])
        level, pattern = np.zeros((2, len(walk.above), 2), np.int32)
        parts, bits = np.empty((len(side), 3), np.int32), np.empty((len(side), words), np.uint64)
        sums = np.empty((2, 1 + 2 * int(many.max()), self.moments.shape[1]))
        sums[:, 0] = self.moments.sum(axis=0)
        stack = np.empty((2, self.bound.depth + 2, words), np.uint64)
        stack[:, 0] = pack_bits(np.ones((1, n), np.bool_))[0]
        coalition_kernels.divide(
            walk.above, walk.inner, place, self.test, self.tests, self.moments, stack, np.empty(n, np.int64), level,
            pattern, parts, bits, sums,
        )  # fmt: skip
        tree = np.searchsorted(walk.inner[walk.root], by, "right") - 1
        leaf_pattern = pattern[np.diff(walk.inner) == 0]
        return _Sides(place, before, starts, starts[side[by], tree + 1], level, leaf_pattern, parts, bits, sums)


@dataclass(frozen=True, eq=False)
class _CoalitionWalk:
    """The nodes in preorder, trees of the same output next to each other."""

    order: NDArray[np.intp]  # (I,): the inner nodes, as the bound numbers them
    leaves: NDArray[np.intp]  # (leaves,): the same for the leaves
    leaf_tree: NDArray[np.intp]  # (leaves,)
    first_leaf: NDArray[np.intp]  # (T + 1,)
    output: Ints  # (T,)
    root: Ints  # (T + 1,): the first node of each tree, and the end
    above: Ints  # (N,): the parent; -1 at a root
    inner: Ints  # (N + 1,): inner nodes before this one

    @classmethod
    def of(cls, bound: BoundEnsemble) -> _CoalitionWalk:
        trees = np.argsort(bound.output, kind="stable")
        ends = np.append(bound.roots[1:], len(bound.nodes))
        nodes = np.concatenate([np.arange(bound.roots[t], ends[t]) for t in trees])
        root = np.append(0, np.cumsum(ends[trees] - bound.roots[trees])).astype(np.int32)
        asks, right = bound.nodes[nodes, FEATURE] >= 0, bound.nodes[nodes, RIGHT]
        at = np.flatnonzero(asks)
        above = np.full(len(nodes), -1, np.int32)
        above[at + 1] = at
        above[(right + np.repeat(root[:-1] - bound.roots[trees], np.diff(root)))[at]] = at
        inner = np.append(0, np.cumsum(asks)).astype(np.int32)
        first_leaf = (root - inner[root]).astype(np.intp)
        leaf_tree = np.repeat(np.arange(len(trees)), np.diff(first_leaf))
        leaves = right[~asks].astype(np.intp)
        return cls(nodes[asks], leaves, leaf_tree, first_leaf, bound.output[trees], root, above, inner)


@dataclass(frozen=True, eq=False)
class _Sides:
    """The patterns of a coalition; side 0 is kept, side 1 is lent. A basis has a *place*, side 1's behind side 0's."""

    place: Ints  # (I, 3): of each inner node its side, its place, and its place on its side
    before: Ints  # (2, N + 1): the place where each side goes on at a node
    starts: Ints  # (2, T + 1): the same at a tree
    after: Ints  # (I,), by place: where the next tree begins
    level: Ints  # (N, 2): nodes of each side above
    leaf_pattern: Ints  # (leaves, 2)
    parts: Ints  # (I, 3), by place: the pattern that is divided, whether the basis is on the left, its rows
    bits: Words  # (I, words), by place: the basis
    sums: Floats  # (2, patterns, 1 + outputs): rows of a pattern, or their weight, and the sum of their y


@dataclass(frozen=True, eq=False)
class _Crossing:
    """What all trees say times what all others say: a few trees at a time against all before them."""

    walk: _CoalitionWalk
    sides: _Sides
    value: Floats
    weight: Floats
    n: int

    def total(self) -> float:
        walk, sides, total = self.walk, self.sides, 0.0
        blocks = list(self._blocks())
        widest = max(int(np.max(sides.starts[:, u1] - sides.starts[:, u0])) for _, u0, u1 in blocks)
        chunks = -(-widest // coalition_kernels.COLUMNS)
        table = np.empty((2, chunks, self.n + 1, coalition_kernels.WORDS), np.uint64)  # the last row is empty
        step = max(16, SHARED // (chunks * coalition_kernels.COLUMNS))
        shared = np.empty((2, step, chunks * coalition_kernels.COLUMNS))
        room = np.empty((2, int(sides.level.max()) + 1, sides.sums.shape[1]))
        room[:, 0] = sides.sums[:, :, 0]
        for t0, u0, u1 in blocks:
            if u1 - t0 == 1:
                continue  # a tree that meets no other
            table[:] = 0
            counts = [self._counts(o, u0, u1, table[o], shared[o]) for o in range(2)]
            for s0 in range(walk.root[t0], walk.root[u1], step):
                s1 = min(s0 + step, walk.root[u1])
                top = np.ascontiguousarray(sides.before[:, max(s0 - 1, 0)])  # at a left child its parent is counted
                for o in range(2):
                    counts[o](top[o], sides.before[o, s1 - 1])
                t = int(np.searchsorted(walk.root, s0, "right")) - 1
                total += coalition_kernels.couple(
                    s0, s1, t, u0, u1, walk.root, walk.above, walk.inner, sides.place, sides.starts, sides.parts,
                    sides.level, sides.leaf_pattern, top, sides.sums, self.value, shared, room,
                )  # fmt: skip
        return total

    def _counts(self, o: int, u0: int, u1: int, table: Words, shared: Floats) -> Callable[[int, int], None]:
        """A function that counts, or weighs, what some basis patterns share with those of the trees u0 .. u1."""
        sides, rows = self.sides, np.empty(self.n + coalition_kernels.GROUP, np.int64)
        start, stop = sides.starts[o, u0], sides.starts[o, u1]
        coalition_kernels.turn(start, stop, sides.bits, table)
        if len(self.weight):
            begins = np.full(self.n + 1, -1, np.int64)
            columns = np.empty(int(sides.parts[start:stop, 2].sum()), np.int32)
            return lambda first, last: coalition_kernels.weigh(
                first, last, sides.bits, table, self.weight, rows, begins, columns, shared
            )
        planes, digit = (
            np.empty((coalition_kernels.PLANES, coalition_kernels.WORDS), np.uint64),
            np.empty(64, np.uint64),
        )
        return lambda first, last: coalition_kernels.count(
            first, last, start, sides.after, sides.bits, table, rows, planes, digit, shared
        )

    def _blocks(self) -> Iterator[tuple[int, int, int]]:
        """Trees that fit into a table; before them the first tree of the same output."""
        output, starts = self.walk.output, self.sides.starts
        columns = min(TOGETHER, max(coalition_kernels.COLUMNS, TABLE_BYTES // (8 * self.n) * 64))
        t0 = u0 = 0
        for t in range(1, len(output)):
            other = output[t] != output[u0]
            if other or np.any(starts[:, t + 1] - starts[:, u0] > columns):
                yield t0, u0, t
                t0, u0 = t if other else t0, t
        yield t0, u0, len(output)


def as_mask(kept: Kept, p: int) -> NDArray[np.bool_]:
    """Columns, by number or as a mask, as a mask."""
    given = np.asarray(kept)
    if given.dtype == np.bool_:
        return given
    mask = np.zeros(p, np.bool_)
    mask[given.astype(np.intp)] = True
    return mask


def _by_output(walk: _CoalitionWalk, of_trees: NDArray[Any], outputs: int) -> NDArray[Any]:
    """Sums over the trees of each output."""
    if of_trees.shape[1] == outputs:
        return np.asarray(of_trees.sum(axis=0))
    total = np.zeros(outputs, of_trees.dtype)
    np.add.at(total, walk.output, of_trees[:, 0])
    return total


def pack_bits(marks: NDArray[np.bool_]) -> Words:
    """Marks (m, n) as bits of words."""
    room = np.zeros((len(marks), 8 * -(-marks.shape[1] // 64)), np.uint8)
    room[:, : -(-marks.shape[1] // 8)] = np.packbits(marks, axis=1, bitorder="little")
    return room.view(np.uint64)


def node_tests(bound: BoundEnsemble, codes: Ints) -> tuple[Ints, Words]:
    """Which test each node makes, and which rows go left there; many nodes make the same one."""
    asked, test = np.unique(bound.nodes[:, [FEATURE, CUT, RULE]], axis=0, return_inverse=True)
    n = codes.shape[1]
    bits = np.zeros((len(asked), -(-n // 64)), np.uint64)
    step = max(1, TEST_BYTES // n)
    for f in range(len(codes)):
        of_feature = np.flatnonzero(asked[:, 0] == f)
        for some in np.split(of_feature, range(step, len(of_feature), step)):
            cut, rule = asked[some, 1:].T
            left = codes[f] < cut[:, None]
            left[rule == MISSING_LEFT] |= codes[f] == bound.size[f] - 1
            for k in np.flatnonzero(rule >= SETS):
                left[k] = bound.sets[rule[k] - SETS][codes[f]]
            bits[some] = pack_bits(left)
    return test.reshape(-1).astype(np.int32), bits


# A single tree, any loss.


def single_tree_errors(bound: BoundEnsemble, kept: Kept, leaf_loss: LeafLoss, weight: Floats) -> tuple[Floats, Floats]:
    """The mean loss of each row over all donors, and that of each donor over all rows, both (n,).

    ``leaf_loss(leaves, rows)`` gives the losses of these rows, had they arrived at these leaves. The error is the mean
    of either, by the same weights.
    """
    mask, leaves = as_mask(kept, len(bound.size)), len(bound.value)
    weight = weight / weight.sum()
    donors, alike = _profiles(bound, ~mask)
    arrive, lent, of_leaf = np.zeros(leaves, np.bool_), np.zeros(leaves), np.zeros(leaves)
    of_row, of_donor, counts = np.zeros(len(weight)), np.zeros(donors.shape[1]), np.bincount(alike, weight)
    for leaf, donor in _reached(bound, ~mask, donors):
        arrive[leaf] = True
        lent += np.bincount(leaf, counts[donor], leaves)
    for leaf, row in _reached(bound, mask, bound.codes):
        leaf, row = leaf[arrive[leaf]], row[arrive[leaf]]
        loss = leaf_loss(leaf, row)
        _add(of_row, row, loss * lent[leaf])
        of_leaf += np.bincount(leaf, loss * weight[row], leaves)
    for leaf, donor in _reached(bound, ~mask, donors):
        _add(of_donor, donor, of_leaf[leaf])
    return of_row, of_donor[alike]


def _profiles(bound: BoundEnsemble, mine: NDArray[np.bool_]) -> tuple[Ints, NDArray[np.intp]]:
    """Codes that differ in the columns `mine`, where there are clearly fewer than rows; and which each row has."""
    n, asked = bound.codes.shape[1], np.isin(np.arange(len(mine)), bound.nodes[:, FEATURE])
    columns = np.flatnonzero(mine & asked)
    if np.prod(bound.size[columns], dtype=np.float64) >= n:
        return bound.codes, np.arange(n)
    key = np.zeros(n, np.int64)
    for j in columns:
        key = key * bound.size[j] + bound.codes[j]
    _, first, alike = np.unique(key, return_index=True, return_inverse=True)
    return np.ascontiguousarray(bound.codes[:, first]), alike.reshape(-1)


def _add(total: Floats, at: Ints, values: Floats) -> None:
    """Add values at places that rise."""
    part = slice(at[0], at[-1] + 1)
    total[part] += np.bincount(at - at[0], values)


def _reached(bound: BoundEnsemble, mine: NDArray[np.bool_], codes: Ints) -> Iterator[tuple[Ints, Ints]]:
    """The leaves that each row can reach by its own columns `mine` and any others, some rows at a time."""
    if len(bound.roots) != 1:
        raise ValueError(f"this is for a single tree, not {len(bound.roots)}")
    found = np.empty((max(FOUND, len(bound.value)), 2), np.int32)
    stack, flags, start = np.empty(bound.depth + 2, np.int32), mine.astype(np.uint8), 0
    while start < codes.shape[1]:
        many = coalition_kernels.reach(start, bound.nodes, flags, codes, bound.size, bound.sets, stack, found)
        yield found[:many, 0].copy(), found[:many, 1].copy()
        start = int(found[many - 1, 1]) + 1


# All pairs, one by one.


def pair_table(
    bound: BoundEnsemble, tables: Tables | None, kept: Kept, values: Ints, rows: NDArray[np.intp]
) -> NDArray[np.int64]:
    """Sums of leaves, (rows, g, outputs), of some rows at g donors' values; exact, for `Bound.respond`.

    `values` holds the classes of these values, (replaced columns, g), the columns in their order. Without `tables`,
    where a tree has too many leaves for a mask, every pair walks down every tree.
    """
    mask = as_mask(kept, len(bound.size))
    place = np.where(mask, -1, np.cumsum(~mask) - 1).astype(np.int32)
    codes, values = np.ascontiguousarray(bound.codes[:, rows]), np.ascontiguousarray(values, np.int32)
    if tables is None:
        return _walk_pairs(bound, codes, place, values)
    raw = np.zeros((len(rows), values.shape[1], len(bound.unit)), np.int64)
    step = max(1, MASKS // max(1, values.shape[1]))
    for t in range(0, len(bound.roots), step):
        part = slice(t, t + step)
        mine = _masks(tables, part, np.where(mask, np.arange(len(mask)), -1), codes, len(bound.roots))
        lent = _masks(tables, part, place, values, len(bound.roots))
        coalition_kernels.add_pairs(mine, lent, bound.leaf_at[part], bound.value, bound.output[part], raw)
    return raw


def _masks(tables: Tables, trees: slice, place: NDArray[Any], codes: Ints, T: int) -> Words:
    """The leaves of each tree that these classes allow, (trees, columns of codes)."""
    numbers = range(T)[trees]
    allowed = np.full((len(numbers), codes.shape[1]), ~np.uint64(0))
    for t, words in zip(numbers, allowed, strict=True):
        for e in range(tables.first[t], tables.first[t + 1]):
            if place[tables.feature[e]] >= 0:
                words &= tables.mask[tables.mask_at[e] + codes[place[tables.feature[e]]]]
    return allowed


def _walk_pairs(bound: BoundEnsemble, codes: Ints, place: Ints, values: Ints) -> NDArray[np.int64]:
    raw = np.zeros((codes.shape[1], values.shape[1], len(bound.unit)), np.int64)
    coalition_kernels.walk_pairs(
        bound.nodes, bound.roots, place, codes, values, bound.size, bound.sets, bound.value, bound.output, raw
    )
    return raw
