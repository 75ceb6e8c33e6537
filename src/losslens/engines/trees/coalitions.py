"""Errors of trees over all n^2 pairs of a row, which keeps some columns, and a donor, whose values replace the others.

The squared error of a sum of trees needs no single pair: over all pairs the product of two leaves has the mean
``value * value' * share of rows in both boxes' kept conditions * share of donors in both boxes' replaced conditions``.
For a single tree every loss is a sum over its leaves.
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
MAX_WORD_OPERATIONS = 4e10  # of a coalition, see `cost`: one to four seconds with equal weights
TABLE_PATTERNS = 1024  # basis patterns in a table; more only if a single tree has more
TABLE_BYTES = 1 << 25  # upper bound of a table's size: it has fewer patterns if there are many rows
SHARED_COUNTS = 1 << 20  # counts held at a time: a table's patterns times some nodes
TEST_BYTES = 1 << 24  # of node tests evaluated at a time, one byte per test and row
REACHED_LEAVES = 1 << 20  # (leaf, row) pairs listed at a time
MASKS = 1 << 22  # trees times donors whose masks are held


def cost(bound: BoundEnsemble) -> float:
    """Word operations of comparing all leaves with each other. Callers decline above `MAX_WORD_OPERATIONS`."""
    return float(len(bound.value)) ** 2 * bound.codes.shape[1] / 64


def squared_error(bound: BoundEnsemble, kept: Kept, y: Floats, weight: Floats) -> float:
    """The mean squared error over all pairs if these columns are kept; see `CoalitionErrors`."""
    return CoalitionErrors(bound, y, weight).error(kept)


class CoalitionErrors:
    """Mean squared errors of coalitions over all pairs; what all coalitions have in common is prepared once.

    The model's prediction must be its raw output, ``(offset + sum of leaves) / divisor``. `y` is (n,) or (n, outputs)
    on the same scale: class indicators if the outputs are probabilities. The error is a sum over outputs. With equal
    weights all counts are integers; the rounding error is some 1e-15 of the variance of y and predictions.
    """

    def __init__(self, bound: BoundEnsemble, y: Floats, weight: Floats, memory: int = 1 << 27) -> None:
        rows = np.flatnonzero(weight > 0)
        weight = weight[rows] / weight[rows].sum()
        equal = bool(np.all(weight == weight[0]))
        self.mass = float(len(rows)) if equal else 1.0
        self.weight = weight[:0] if equal else weight  # empty: rows are counted
        codes = bound.codes if len(rows) == bound.codes.shape[1] else np.ascontiguousarray(bound.codes[:, rows])
        self.bound, self.codes, self.share = bound, codes, weight
        self.walk = walk = _CoalitionWalk.of(bound)
        self.slabs = _Slabs.of(bound, walk, codes, memory)
        y = np.asarray(y, np.float64).reshape(len(y), -1)[rows]
        mean = weight @ y
        rest = weight @ (y - mean)  # rounding error of the mean
        self.y = y - mean - rest
        self.moments = np.column_stack([np.ones(len(y)), self.y]) * (1.0 if equal else weight[:, None])
        # Leaf values relative to one leaf of their tree, so that no digits are lost to a common constant.
        value, scale = bound.value[walk.leaves], bound.unit / bound.ensemble.divisor
        base = value[walk.first_leaf[:-1]]
        self.base = _by_output(walk, base, len(scale))
        narrow = scale[walk.output[walk.leaf_tree]][:, None] if value.shape[1] < len(scale) else scale
        self.value = (value - base[walk.leaf_tree]) * narrow
        self.scale = scale
        # The mean cancels first: what is left has digits for the rest.
        self.offset = bound.ensemble.offset / bound.ensemble.divisor + self.base * scale - mean - rest

    def error(self, kept: Kept) -> float:
        """The error if these columns are kept and all others replaced by a donor's."""
        return self.errors(kept)[0]

    def errors(self, kept: Kept) -> tuple[float, float]:
        """The errors if these columns are kept, and if all others are: both come from the same counts."""
        mask = as_mask(kept, len(self.bound.size))[self.bound.nodes[self.walk.order, FEATURE]]
        if mask.all() or not mask.any():
            all_kept, none_kept = self._trivial_errors()
            return (all_kept, none_kept) if mask.all() else (none_kept, all_kept)
        walk, sides = self.walk, self._divide(mask)
        of_rows, of_donors = (sides.sums[o, sides.leaf_pattern[:, o]] for o in range(2))
        joint = (of_rows[:, 0] * of_donors[:, 0])[:, None] / self.mass**2
        shift = np.add.reduceat(self.value * joint, walk.first_leaf[:-1], axis=0)  # the means of the trees
        value = self.value - shift[walk.leaf_tree]
        offset = self.offset + _by_output(walk, shift, len(self.offset))
        cross = _CrossProducts(walk, self.slabs, sides, value, self.weight).total() / self.mass**2
        square = np.sum(value**2 * joint) + 2 * cross + np.sum(offset**2) + np.sum(self.share @ self.y**2)
        products = self._product(value, of_rows, of_donors), self._product(value, of_donors, of_rows)
        return float(square - 2 * products[0]), float(square - 2 * products[1])

    def _product(self, value: Floats, a: Floats, b: Floats) -> float:
        """The mean of y times the prediction, both centred, if side a is kept."""
        wide = value.shape[1] > 1
        target = a[:, 1:] if wide else a[np.arange(len(a)), 1 + self.walk.output[self.walk.leaf_tree]][:, None]
        return float(np.sum(value * target * b[:, :1])) / self.mass**2

    def _trivial_errors(self) -> tuple[float, float]:
        """The errors if all columns that the trees use are kept, and if none is: both without any cancellation."""
        place = np.full(len(self.codes), -1, np.int32)
        raw = _walk_pairs(self.bound, self.codes, place, np.zeros((0, 1), np.int32))[:, 0]
        own = (raw - self.base) * self.scale + self.offset
        all_kept, none_kept = self.share @ (own - self.y) ** 2, self.share @ (own**2 + self.y**2)
        return float(all_kept.sum()), float(none_kept.sum())

    def _divide(self, kept: NDArray[np.bool_]) -> _Sides:
        """The two sides, given which inner nodes compare a kept column."""
        walk, slabs = self.walk, self.slabs
        side = np.where(kept, 0, 1)
        by, counts = np.argsort(side, kind="stable"), np.bincount(side, minlength=2)
        place = np.empty((len(side), 3), np.int32)
        place[by, 1] = np.arange(len(side))
        place[:, 0], place[:, 2] = side, place[:, 1] - side * counts[0]
        before = np.zeros((2, len(walk.inner)), np.int32)
        for o in range(2):
            before[o] = o * counts[0] + np.append(0, np.cumsum(side == o))[walk.inner]
        starts = np.ascontiguousarray(before[:, walk.root])
        level, pattern = np.zeros((2, len(walk.above), 2), np.int32)
        parts = np.empty((len(side), 3), np.int32)
        sums = np.empty((2, 1 + 2 * int(counts.max()), self.moments.shape[1]))
        sums[:, 0] = self.moments.sum(axis=0)
        for slab in slabs.rows:
            bits = slabs.divide(slab, place, self.moments[slab], level, pattern, parts, sums)
        tree = np.searchsorted(walk.inner[walk.root], by, "right") - 1
        leaf_pattern, whole = pattern[np.diff(walk.inner) == 0], bits if len(slabs.rows) == 1 else None
        after = starts[side[by], tree + 1]
        return _Sides(place, before, starts, after, level, pattern, leaf_pattern, parts, whole, sums)


@dataclass(frozen=True, eq=False)
class _CoalitionWalk:
    """The nodes in preorder, trees of the same output next to each other."""

    order: NDArray[np.intp]  # (I,): the inner nodes, as numbered in the bound ensemble
    leaves: NDArray[np.intp]  # (leaves,): the leaves, likewise
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
        is_inner, right = bound.nodes[nodes, FEATURE] >= 0, bound.nodes[nodes, RIGHT]
        at = np.flatnonzero(is_inner)
        above = np.full(len(nodes), -1, np.int32)
        above[at + 1] = at
        above[(right + np.repeat(root[:-1] - bound.roots[trees], np.diff(root)))[at]] = at
        inner = np.append(0, np.cumsum(is_inner)).astype(np.int32)
        first_leaf = (root - inner[root]).astype(np.intp)
        leaf_tree = np.repeat(np.arange(len(trees)), np.diff(first_leaf))
        leaves = right[~is_inner].astype(np.intp)
        return cls(nodes[is_inner], leaves, leaf_tree, first_leaf, bound.output[trees], root, above, inner)


@dataclass(frozen=True, eq=False)
class _Sides:
    """The patterns of a coalition; side 0 is kept, side 1 replaced. A basis has a *place*, side 1's after side 0's."""

    place: Ints  # (I, 3): of each inner node its side, its place, and its place within its side
    before: Ints  # (2, N + 1): number of places of each side before a node
    starts: Ints  # (2, T + 1): the same before a tree
    after: Ints  # (I,), by place: the first place of the next tree
    level: Ints  # (N, 2): nodes of each side above
    pattern: Ints  # (N, 2)
    leaf_pattern: Ints  # (leaves, 2)
    parts: Ints  # (I, 3), by place: the pattern that is split, whether the basis is its left part, its rows in a slab
    bits: Words | None  # (I, words), by place: the basis, if there is one slab
    sums: Floats  # (2, patterns, 1 + outputs): rows of a pattern, or their weight, and the sum of their y


@dataclass(frozen=True, eq=False)
class _Slabs:
    """Slabs of rows whose patterns fit into memory: counts of rows add up over slabs. Mostly there is one."""

    bound: BoundEnsemble
    walk: _CoalitionWalk
    codes: Ints
    rows: list[slice]
    tests: tuple[Ints, Words] | None  # if there is one slab

    @classmethod
    def of(cls, bound: BoundEnsemble, walk: _CoalitionWalk, codes: Ints, memory: int) -> _Slabs:
        """As large as memory allows, with a basis, a test and a line of both tables a row."""
        n, row_bytes = codes.shape[1], len(walk.order) // 4 + 4 * 8 * coalition_kernels.WORDS
        size = max(64, memory // row_bytes // 64 * 64)
        rows = [slice(start, min(start + size, n)) for start in range(0, n, size)]
        return cls(bound, walk, codes, rows, node_tests(bound, codes) if len(rows) == 1 else None)

    def divide(
        self, slab: slice, place: Ints, moments: Floats, level: Ints, pattern: Ints, parts: Ints, sums: Floats
    ) -> Words:
        """The bases of a slab; sums of moments, if there are any, are added to those of slabs before."""
        test, tests = self.tests or node_tests(self.bound, np.ascontiguousarray(self.codes[:, slab]))
        n = slab.stop - slab.start
        bits = np.empty((len(place), tests.shape[1]), np.uint64)
        stack = np.empty((2, self.bound.depth + 2, tests.shape[1]), np.uint64)
        stack[:, 0] = pack_bits(np.ones((1, n), np.bool_))[0]
        fresh = slab.start == 0 and moments.shape[1] > 0
        coalition_kernels.divide(
            self.walk.above, self.walk.inner, place, test[self.walk.order], tests, moments, stack,
            np.empty(n, np.int64), level, pattern, parts, bits, sums, int(fresh),
        )  # fmt: skip
        return bits

    def bases(self, slab: slice, sides: _Sides) -> Words:
        """The bases of a slab, of sides that have been divided."""
        if sides.bits is not None:
            return sides.bits
        nothing = np.empty((slab.stop - slab.start, 0))
        return self.divide(slab, sides.place, nothing, sides.level, sides.pattern, sides.parts, sides.sums)


@dataclass(frozen=True, eq=False)
class _CrossProducts:
    """Sum over pairs of different trees of the products of their predictions: a few trees against all before them."""

    walk: _CoalitionWalk
    slabs: _Slabs
    sides: _Sides
    value: Floats
    weight: Floats

    def total(self) -> float:
        walk, sides, total = self.walk, self.sides, 0.0
        blocks = list(self._blocks())
        widest = max(int(np.max(sides.starts[:, u1] - sides.starts[:, u0])) for _, u0, u1 in blocks)
        chunks = -(-widest // coalition_kernels.COLUMNS)
        step = min(max(16, SHARED_COUNTS // (chunks * coalition_kernels.COLUMNS)), len(walk.above))
        shared = np.empty((2, step, chunks * coalition_kernels.COLUMNS))
        on_path = np.empty((2, int(sides.level.max()) + 1, sides.sums.shape[1]))
        on_path[:, 0] = sides.sums[:, :, 0]
        for t0, u0, u1 in blocks:
            if u1 - t0 == 1:
                continue  # a single tree: no product
            counters = None
            for s0 in range(walk.root[t0], walk.root[u1], step):
                s1 = min(s0 + step, walk.root[u1])
                top = np.ascontiguousarray(sides.before[:, max(s0 - 1, 0)])  # a left child needs its parent's counts
                for o in range(2):  # only what is used
                    shared[o, : sides.before[o, s1 - 1] - top[o]] = 0
                for slab in self.slabs.rows:
                    if counters is None or len(self.slabs.rows) > 1:
                        counters = None  # released before the next
                        counters = self._counters(slab, u0, u1, chunks)
                    for o in range(2):
                        counters[o](top[o], sides.before[o, s1 - 1], shared[o])
                t = int(np.searchsorted(walk.root, s0, "right")) - 1
                total += coalition_kernels.sum_products(
                    s0, s1, t, u0, u1, walk.root, walk.above, walk.inner, sides.place, sides.starts, sides.parts,
                    sides.level, sides.leaf_pattern, top, sides.sums, self.value, shared, on_path,
                )  # fmt: skip
        return total

    def _counters(self, slab: slice, u0: int, u1: int, chunks: int) -> list[Callable[[int, int, Floats], None]]:
        """For each side a function that adds the rows of a slab that some bases share with those of trees u0 .. u1."""
        bits, n = self.slabs.bases(slab, self.sides), slab.stop - slab.start
        table = np.zeros((2, chunks, n + 1, coalition_kernels.WORDS), np.uint64)  # the last row is empty
        return [self._counter(o, u0, u1, bits, table[o], self.weight[slab]) for o in range(2)]

    def _counter(
        self, o: int, u0: int, u1: int, bits: Words, table: Words, weight: Floats
    ) -> Callable[[int, int, Floats], None]:
        sides, n = self.sides, table.shape[1] - 1
        rows = np.empty(n + coalition_kernels.GROUP, np.int64)
        start, stop = sides.starts[o, u0], sides.starts[o, u1]
        coalition_kernels.transpose(start, stop, bits, table)
        if len(weight):
            begins = np.full(n + 1, -1, np.int64)
            columns = np.empty(int(sides.parts[start:stop, 2].sum()), np.int32)
            return lambda first, last, shared: coalition_kernels.weigh(
                first, last, bits, table, weight, rows, begins, columns, shared
            )
        planes = np.empty((coalition_kernels.PLANES, coalition_kernels.WORDS), np.uint64)
        digit = np.empty(64, np.uint64)
        return lambda first, last, shared: coalition_kernels.count(
            first, last, start, sides.after, bits, table, rows, planes, digit, shared
        )

    def _blocks(self) -> Iterator[tuple[int, int, int]]:
        """Ranges of trees that fit into a table: first tree of the same output, first tree, end."""
        output, starts, widest_slab = self.walk.output, self.sides.starts, self.slabs.rows[0].stop
        columns = min(TABLE_PATTERNS, max(coalition_kernels.COLUMNS, TABLE_BYTES // (8 * widest_slab) * 64))
        t0 = u0 = 0
        for t in range(1, len(output)):
            other = output[t] != output[u0]
            if other or np.any(starts[:, t + 1] - starts[:, u0] > columns):
                yield t0, u0, t
                t0, u0 = t if other else t0, t
        yield t0, u0, len(output)


def as_mask(kept: Kept, p: int) -> NDArray[np.bool_]:
    """Columns, given by number or as a mask, as a mask."""
    columns = np.asarray(kept)
    if columns.dtype == np.bool_:
        return columns
    mask = np.zeros(p, np.bool_)
    mask[columns.astype(np.intp)] = True
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
    padded = np.zeros((len(marks), 8 * -(-marks.shape[1] // 64)), np.uint8)
    padded[:, : -(-marks.shape[1] // 8)] = np.packbits(marks, axis=1, bitorder="little")
    return padded.view(np.uint64)


def node_tests(bound: BoundEnsemble, codes: Ints) -> tuple[Ints, Words]:
    """The test of each node, and for each distinct test the rows that go left, as bits."""
    tests, test = np.unique(bound.nodes[:, [FEATURE, CUT, RULE]], axis=0, return_inverse=True)
    n = codes.shape[1]
    bits = np.zeros((len(tests), -(-n // 64)), np.uint64)
    step = max(1, TEST_BYTES // n)
    for f in range(len(codes)):
        of_feature = np.flatnonzero(tests[:, 0] == f)
        for some in np.split(of_feature, range(step, len(of_feature), step)):
            cut, rule = tests[some, 1:].T
            left = codes[f] < cut[:, None]
            left[rule == MISSING_LEFT] |= codes[f] == bound.size[f] - 1
            for k in np.flatnonzero(rule >= SETS):
                left[k] = bound.sets[rule[k] - SETS][codes[f]]
            bits[some] = pack_bits(left)
    return test.reshape(-1).astype(np.int32), bits


# A single tree, any loss.


def single_tree_errors(bound: BoundEnsemble, kept: Kept, leaf_loss: LeafLoss, weight: Floats) -> tuple[Floats, Floats]:
    """The mean loss of each row over all donors, and that of each donor over all rows, both (n,).

    ``leaf_loss(leaves, rows)`` returns the losses of these rows if they are predicted by these leaves. The error is the
    weighted mean of either.
    """
    mask, leaves = as_mask(kept, len(bound.size)), len(bound.value)
    weight = weight / weight.sum()
    donors, alike = _profiles(bound, ~mask)
    reachable, donor_weight, of_leaf = np.zeros(leaves, np.bool_), np.zeros(leaves), np.zeros(leaves)
    of_row, of_donor, counts = np.zeros(len(weight)), np.zeros(donors.shape[1]), np.bincount(alike, weight)
    for leaf, donor in _reached(bound, ~mask, donors):
        reachable[leaf] = True
        donor_weight += np.bincount(leaf, counts[donor], leaves)
    for leaf, row in _reached(bound, mask, bound.codes):
        leaf, row = leaf[reachable[leaf]], row[reachable[leaf]]
        loss = leaf_loss(leaf, row)
        _add(of_row, row, loss * donor_weight[leaf])
        of_leaf += np.bincount(leaf, loss * weight[row], leaves)
    for leaf, donor in _reached(bound, ~mask, donors):
        _add(of_donor, donor, of_leaf[leaf])
    return of_row, of_donor[alike]


def _profiles(bound: BoundEnsemble, mask: NDArray[np.bool_]) -> tuple[Ints, NDArray[np.intp]]:
    """Distinct codes of some columns, if there are clearly fewer than rows (else all rows); and the one of each row."""
    n, used = bound.codes.shape[1], np.isin(np.arange(len(mask)), bound.nodes[:, FEATURE])
    columns = np.flatnonzero(mask & used)
    if np.prod(bound.size[columns], dtype=np.float64) >= n:
        return bound.codes, np.arange(n)
    key = np.zeros(n, np.int64)
    for j in columns:
        key = key * bound.size[j] + bound.codes[j]
    _, first, alike = np.unique(key, return_index=True, return_inverse=True)
    return np.ascontiguousarray(bound.codes[:, first]), alike.reshape(-1)


def _add(total: Floats, at: Ints, values: Floats) -> None:
    """Add values at increasing positions."""
    part = slice(at[0], at[-1] + 1)
    total[part] += np.bincount(at - at[0], values)


def _reached(bound: BoundEnsemble, fixed: NDArray[np.bool_], codes: Ints) -> Iterator[tuple[Ints, Ints]]:
    """The leaves that each row can reach if these columns are fixed and all others vary, some rows at a time."""
    if len(bound.roots) != 1:
        raise ValueError(f"this is for a single tree, not {len(bound.roots)}")
    reached = np.empty((max(REACHED_LEAVES, len(bound.value)), 2), np.int32)
    stack, flags, start = np.empty(bound.depth + 2, np.int32), fixed.astype(np.uint8), 0
    while start < codes.shape[1]:
        count = coalition_kernels.reach(start, bound.nodes, flags, codes, bound.size, bound.sets, stack, reached)
        yield reached[:count, 0].copy(), reached[:count, 1].copy()
        start = int(reached[count - 1, 1]) + 1


# All pairs, one by one.


def pair_table(
    bound: BoundEnsemble, tables: Tables | None, kept: Kept, values: Ints, rows: NDArray[np.intp]
) -> NDArray[np.int64]:
    """Sums of leaves, (rows, g, outputs), of some rows at g donors' values; exact, for `BoundEnsemble.respond`.

    `values` holds the classes of these values, (replaced columns, g), columns in the table's order. Without `tables`,
    if a tree has too many leaves for a mask, every pair walks down every tree.
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
        of_rows = _masks(tables, part, np.where(mask, np.arange(len(mask)), -1), codes, len(bound.roots))
        of_donors = _masks(tables, part, place, values, len(bound.roots))
        coalition_kernels.add_pairs(of_rows, of_donors, bound.leaf_at[part], bound.value, bound.output[part], raw)
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
