"""Exact shares of single rows in the square of a sum of trees: from products of two nodes, for any number of players.

A tree is a constant and a sum over its splits: of the two nodes below a split one is *counted*: 1 for rows that reach
it, times the difference between the values that the two nodes lead to if no node below them is counted. There are as
many as leaves, less one, and on average they have one condition less. The square of a sum of trees is a sum over pairs
of counted nodes of different trees and, for the square of each tree, over single ones.

A product of two nodes is a node again: a box with the conditions of both. Rows are compared with donors by their
*patterns*, the sets of players whose conditions they violate. Let Q be the q players of a box, M(S) the weight of the
rows that violate no players but those of S, A the players that row i doesn't violate, and w(s) = s! (q - 1 - s)! / q!,
w(q) = 0. In the game in which players outside the coalition take a donor's values, player j gets, as a mean over the
donors,

    E(A) - F(A - j),    E(A) = sum of w(|S| - 1) M(S) over the subsets S of A but the empty one,
                        F(A) = E(A) + sum of w(|S|) M(S) over the subsets S of A

times the values of both nodes. What row i gets with donor k, row k loses with donor i: a row's share as a donor is the
same number with the other sign. Rows with the same pattern have the same share, which is computed once.

Kernels are imported when they are needed: the cost is counted without them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from losslens.engines.trees.bound import BoundEnsemble, Ints
from losslens.engines.trees.node_rules import CUT, FEATURE, MISSING_LEFT, RIGHT, RULE, SETS
from losslens.progress import Tick
from losslens.typing import Floats
from losslens.workers import in_process

MOST_IN_TABLE = 14  # players of a box for which tables over their subsets are used
MOST_PLAYERS = 64  # of a box: bits of a word
MOST_PATTERNS = 1 << 16  # of a node
MOST_TOGETHER = 1 << 20  # patterns of two nodes, up to which those that occur are told apart
PARTS = 32  # of the pairs of trees, which are summed separately, for any n_jobs: the result doesn't depend on it
AT_ONCE = 1 << 21  # products of nodes times rows between two tests whether to stop
COMPARED = 128  # nodes from which the cost of all products is estimated
PRODUCT, ADDITION, COMPARISON = 250, 0.1, 0.2  # of nodes, of numbers, of patterns: in units of the work for a row


@dataclass(frozen=True, eq=False)
class SquareShares:
    """What players get of the squares of a row's outputs, less their means, and interactions: summed over outputs."""

    local: Floats  # (n, players)
    index: Floats  # (players, players): Shapley interaction index of the mean square
    of_target: Floats  # (players, players): of the mean product with a target


def square_shares(
    bound: BoundEnsemble,
    players: Sequence[Sequence[int]],
    weight: Floats,
    target: Floats,
    *,
    n_jobs: int | None,
    tick: Tick,
) -> SquareShares:
    """Each row's shares in the squares of its outputs, and interactions in these and in products with the target.

    weight: of the rows, as donors; sums to one. target: (n, outputs). Every column that a tree uses belongs to a
    player. Progress counts products of two nodes.
    """
    boxes, p = _Boxes(bound, players, weight, target), len(players)
    local, index, of_target = np.zeros((len(weight), p)), np.zeros((p, p)), np.zeros((p, p))
    with closing(in_process(n_jobs).map(_Boxes.work, boxes, boxes.parts(), tick)) as results:
        for part, more, with_target in results:
            local += part
            index += more
            of_target += with_target
    return SquareShares(local, index + index.T, of_target)


def products(bound: BoundEnsemble) -> int:
    """The number of products of counted nodes of different trees of the same output, and of these nodes alone."""
    nodes = np.diff(bound.leaf_at).astype(np.int64) - 1
    output = bound.output if bound.value.shape[1] == 1 else np.zeros_like(bound.output)
    by_output = (nodes[output == out] for out in np.unique(output))
    return sum(int(some.sum() ** 2 - some @ some) // 2 + int(some.sum()) for some in by_output)


def cost(bound: BoundEnsemble, players: Sequence[Sequence[int]], memory: float) -> float | None:
    """Operations, in units of the work for a row: products of nodes times rows, and tables; None if too large.

    The tables' sizes are those of products of some nodes.
    """
    n, p, leaves = bound.codes.shape[1], len(players), len(bound.value)
    on_path = min(p, bound.depth)
    a_tree = int(np.diff(bound.leaf_at).max()) + 4  # nodes, and what is held of a product
    held = leaves * n * (2 + on_path / 8) + 8 * n * (a_tree * (on_path + 3) + p)  # all patterns, and a thread's sums
    if min(p, 2 * on_path) > MOST_PLAYERS or min(n, 2.0**on_path) > MOST_PATTERNS or held > memory:
        return None
    owner, at = _owners(bound, players), np.flatnonzero(bound.nodes[:, FEATURE] >= 0) + 1  # those to the left
    some = [_path(bound, int(s), owner) for s in at[np.linspace(0, len(at) - 1, min(len(at), COMPARED)).astype(int)]]
    sizes = np.array([(a | b).bit_count() for a in some for b in some])
    tables = np.minimum(1.5 * ADDITION * sizes * 2.0**sizes, COMPARISON * (n / 3) ** 2)
    return products(bound) * (PRODUCT + n + float(tables.sum()) / max(1, len(sizes)))


def _owners(bound: BoundEnsemble, players: Sequence[Sequence[int]]) -> Ints:
    """The player of each column."""
    owner = np.full(len(bound.size), -1, np.int32)
    for j, columns in enumerate(players):
        owner[list(columns)] = j
    return owner


def _path(bound: BoundEnsemble, node: int, owner: Ints) -> int:
    """The players on the path to a node, as bits."""
    s, players = int(bound.roots[np.searchsorted(bound.roots, node, side="right") - 1]), 0
    while s < node:
        players |= 1 << int(owner[bound.nodes[s, FEATURE]])
        right = int(bound.nodes[s, RIGHT])
        s = right if node >= right else s + 1
    return players


@dataclass(frozen=True, eq=False)
class _Node:
    """A counted node, the players whose conditions some rows violate, and the patterns of all rows in these players."""

    value: Floats  # (outputs,)
    squared: float  # of the square of its tree, summed over the outputs
    players: list[int]
    met: NDArray[np.uint64]  # of each player: the rows that fulfil its conditions, as bits
    patterns: NDArray[np.uint64]
    pattern_of: NDArray[np.uint16]  # (n,)


@dataclass(frozen=True)
class _Job:
    """Products of some nodes with those of another tree; if it is the same, nodes alone."""

    trees: tuple[int, int]
    first: int
    last: int
    products: int


class _Boxes:
    """The counted nodes of all trees, and what rows make of them."""

    def __init__(self, bound: BoundEnsemble, players: Sequence[Sequence[int]], weight: Floats, target: Floats) -> None:
        from losslens.engines.trees.pair_box_kernels import LANES

        self.bound, self.p, self.weight, self.n = bound, len(players), np.array(weight, np.float64), len(weight)
        self.pull = self.weight[:, None] * target
        owner, value = _owners(bound, players), _centred_values(bound, self.weight)
        constants, by_tree = zip(*(_nodes(bound, t, owner, value) for t in range(len(bound.roots))), strict=True)
        nodes = [node for some in by_tree for node in some]
        self.at = np.append(0, np.cumsum([len(some) for some in by_tree]))
        classes, sizes = [len(node.patterns) for node in nodes], np.array([len(node.players) for node in nodes], int)
        self.most_classes = max(classes, default=0)
        self.widest = min(self.p, 2 * max(sizes, default=0))  # players of a box, at most
        in_tables = self.widest <= MOST_IN_TABLE  # else patterns may be listed more than once
        self.rows = min(self.n, 1 << self.widest) if in_tables else self.n  # listed patterns of a box, at most
        self.column_at = np.append(0, np.cumsum(-(-sizes // LANES) * LANES)).astype(np.int32)
        values = np.array([node.value for node in nodes]).reshape(len(nodes), value.shape[1])
        alone = np.array([node.squared for node in nodes]) + 2 * np.sum(values * self._constants(constants), axis=1)
        self.nodes = (
            np.append(0, np.cumsum(sizes)).astype(np.int32),
            np.array([j for node in nodes for j in node.players], np.int32),
            np.concatenate([np.zeros((0, -(-self.n // 64)), np.uint64), *(node.met for node in nodes)]),
            np.append(0, np.cumsum(classes)).astype(np.int32),
            np.concatenate([np.zeros(0, np.uint64), *(node.patterns for node in nodes)]),
            np.array([node.pattern_of for node in nodes], np.uint16).reshape(len(nodes), self.n),
            values,
            alone,
            self.column_at,
        )

    def _constants(self, constants: Sequence[Floats]) -> Floats:
        """The sum of the constants of all trees, of each output, or for each node of its output."""
        by_tree, output = np.array(constants), self.bound.output
        if by_tree.shape[1] > 1:
            return np.asarray(by_tree.sum(axis=0))
        of_output = np.bincount(output, by_tree[:, 0]).astype(np.float64)
        return np.repeat(of_output[output], np.diff(self.at))[:, None]

    @cached_property
    def factors(self) -> Floats:
        """Factors of E and F, ones, and three of interactions: for q players those of subset S are at 2^q + S."""
        from losslens.engines.trees.effects import shares

        most = min(self.widest, MOST_IN_TABLE)
        factors = np.ones((6, 2 << most))
        share = shares(most)  # (x - 1)! y! / (x + y)!
        for q in range(1, most + 1):
            size = np.array([S.bit_count() for S in range(1 << q)])
            mine, others = share[size, q - size], share[q - size, size]
            factors[:2, 1 << q : 2 << q] = mine, mine + others
            u = np.zeros(q + 3)  # s! (q - 2 - s)! / (q - 1)! at s + 2
            u[2 : q + 1] = share[np.arange(1, q), np.arange(q - 2, -1, -1)]
            factors[3:, 1 << q : 2 << q] = (
                u[size] + 2 * u[size + 1] + u[size + 2],
                u[size + 1] + u[size + 2],
                u[size + 2],
            )
        return factors

    @cached_property
    def share(self) -> Floats:
        """Shares of a box that has no table."""
        from losslens.engines.trees.effects import shares

        return shares(self.widest)

    def parts(self) -> list[list[_Job]]:
        """All products, in parts of about the same size."""
        jobs = list(self._jobs())
        ends = np.cumsum([job.products for job in jobs])
        number = (ends - 1) * PARTS // max(1, ends[-1]) if jobs else ends
        return [[job for job, at in zip(jobs, number, strict=True) if at == part] for part in range(PARTS)]

    def _jobs(self) -> Iterator[_Job]:
        narrow, count = self.bound.value.shape[1] == 1, np.diff(self.at)
        for t in range(len(count)):
            yield _Job((t, t), int(self.at[t]), int(self.at[t + 1]), int(count[t]))
            for other in range(t + 1, len(count)):
                if narrow and self.bound.output[t] != self.bound.output[other]:
                    continue
                step = max(1, AT_ONCE // (self.n * max(1, int(count[other]))))
                for first in range(int(self.at[t]), int(self.at[t + 1]), step):
                    last = min(first + step, int(self.at[t + 1]))
                    yield _Job((t, other), first, last, (last - first) * int(count[other]))

    def work(self, jobs: Sequence[_Job], tick: Tick) -> tuple[Floats, Floats, Floats]:
        """The shares in some products, and interactions of the players: in squares, and in products with the target."""
        from losslens.engines.trees import pair_box_kernels

        of_node, of_tree = np.diff(self.column_at), np.diff(self.column_at[self.at])
        total, index, of_target = (np.zeros((rows, self.p)) for rows in (self.n, self.p, self.p))
        no_pull, width = np.empty((0, 0)), self.bound.value.shape[1]
        sums = np.zeros(self.n * max(of_node, default=0)), np.zeros(self.n * max(of_tree, default=0))
        buffers = (self._joined(2 * max(of_node, default=0)), self._subsets(), self._compared())
        for job in jobs:
            a, b = job.trees
            others, pull = (int(self.at[b]), int(self.at[b + 1])), no_pull
            if a == b:
                out = self.bound.output[a]
                others, pull = (0, 0), np.ascontiguousarray(self.pull[:, out : out + width])
            pair_box_kernels.add_products(
                job.first, job.last, *others, MOST_IN_TABLE, self.nodes, self.weight, pull, self.factors, self.share,
                *buffers, *sums, total, index, of_target,
            )  # fmt: skip
            tick(job.products)
        return total, index, of_target

    def _joined(self, columns: int) -> tuple[NDArray[Any], ...]:
        return (
            np.full(self.p, -1, np.int32), np.zeros(MOST_PLAYERS, np.int32), np.zeros(self.most_classes, np.uint64),
            np.zeros(self.rows, np.uint64), np.zeros(self.rows), np.zeros(self.n, np.int32),
            np.zeros(self.rows * columns), np.zeros(MOST_PLAYERS, np.int32),
        )  # fmt: skip

    def _subsets(self) -> tuple[NDArray[Any], ...]:
        size = max(8, 1 << min(self.widest, MOST_IN_TABLE))
        seen = np.zeros(size // 8, np.uint64)
        return (
            np.zeros(self.n, np.uint16), np.zeros(self.n, np.uint16), seen.view(np.uint8), seen,
            np.zeros(size, np.int32), np.zeros(size), np.zeros(size), np.zeros(size),
        )  # fmt: skip

    def _compared(self) -> tuple[NDArray[Any], ...]:
        pairs = min(MOST_TOGETHER, self.most_classes**2) if self.widest > MOST_IN_TABLE else 0
        return (
            np.zeros(pairs), np.zeros(pairs, np.uint8), np.zeros(pairs, np.int32),
            np.zeros((self.widest, -(-self.rows // 64)), np.uint64), np.zeros(self.rows * (self.widest + 8)),
            np.zeros(self.widest + 8), np.zeros((self.rows, 2)), np.zeros(self.rows + 4, np.uint64),
            np.zeros(self.rows + 4), np.zeros(self.rows * (self.widest + 8)), np.zeros(MOST_PLAYERS + 2, np.uint64),
        )  # fmt: skip


def _nodes(bound: BoundEnsemble, t: int, owner: Ints, value: Floats) -> tuple[Floats, list[_Node]]:
    """A tree as a constant, (outputs,), and its counted nodes that some mixed rows reach."""
    nodes, n, root = bound.nodes, bound.codes.shape[1], int(bound.roots[t])
    waiting: list[tuple[int, dict[int, NDArray[np.bool_]]]] = [(root, {})]
    splits: dict[int, tuple[int, int, dict[int, NDArray[np.bool_]]]] = {}  # the counted node, the other; rows
    leaf_of: dict[int, int] = {}  # that a node leads to if no node below it is counted
    order = []
    while waiting:
        s, met = waiting.pop()
        f = int(nodes[s, FEATURE])
        order.append(s)
        if f < 0:
            leaf_of[s] = int(nodes[s, RIGHT])
            continue
        left, j = _goes_left(bound, s), int(owner[f])
        below = [(child, met[j] & goes if j in met else goes) for child, goes in
                 ((s + 1, left), (int(nodes[s, RIGHT]), ~left))]  # fmt: skip
        below = sorted((one for one in below if one[1].any()), key=lambda one: int(one[1].sum()))
        waiting += [(child, met | {j: held}) for child, held in below]
        splits[s] = below[0][0], below[-1][0], met | {j: below[0][1]}  # fewer rows: more boxes are empty
    for s in reversed(order):
        if s in splits:
            leaf_of[s] = leaf_of[splits[s][1]]
    constant: Floats = value[leaf_of[root]]
    first, last = bound.leaf_at[t : t + 2]
    squares = np.sum((value[first:last] - constant) ** 2, axis=1)
    counted = []
    for child, other, met in splits.values():
        if child != other:
            one, two = leaf_of[child], leaf_of[other]
            counted.append(_node(value[one] - value[two], float(squares[one - first] - squares[two - first]), met, n))
    return constant, counted


def _node(value: Floats, squared: float, met: dict[int, NDArray[np.bool_]], n: int) -> _Node:
    players = sorted(j for j, held in met.items() if not held.all())
    held = np.array([met[j] for j in players], np.bool_).reshape(len(players), n)
    bits = np.uint64(1) << np.arange(len(players), dtype=np.uint64)
    violated = (np.where(held, np.uint64(0), bits[:, None])).sum(axis=0, dtype=np.uint64)
    patterns, pattern_of = np.unique(violated, return_inverse=True)
    return _Node(value, squared, players, _as_words(held), patterns, pattern_of.reshape(-1).astype(np.uint16))


def _goes_left(bound: BoundEnsemble, s: int) -> NDArray[np.bool_]:
    """Which rows go left at a node."""
    f, cut, rule = bound.nodes[s, [FEATURE, CUT, RULE]]
    if rule >= SETS:
        return bound.sets[rule - SETS][bound.codes[f]] != 0
    left: NDArray[np.bool_] = bound.codes[f] < cut
    return left | (bound.codes[f] == bound.size[f] - 1) if rule == MISSING_LEFT else left


def _as_words(bits: NDArray[np.bool_]) -> NDArray[np.uint64]:
    """Bits of each row of an array as words."""
    packed = np.packbits(bits, axis=1)
    filled = np.zeros((len(bits), -(-packed.shape[1] // 8) * 8), np.uint8)
    filled[:, : packed.shape[1]] = packed
    return filled.view(np.uint64)


def _centred_values(bound: BoundEnsemble, weight: Floats) -> Floats:
    """Leaf values in the model's units, less the mean of their tree over the rows."""
    leaves, scale = np.diff(bound.leaf_at), bound.unit / bound.ensemble.divisor
    tree = np.repeat(np.arange(len(leaves)), leaves)
    apart = bound.value - bound.value[bound.leaf_at[:-1]][tree]
    value: Floats = apart * (scale[bound.output][tree][:, None] if apart.shape[1] < len(scale) else scale)
    for t, (first, last) in enumerate(zip(bound.leaf_at[:-1], bound.leaf_at[1:], strict=True)):
        mass = np.bincount(_leaf_of(bound, t) - first, weight, last - first)
        value[first:last] -= mass @ value[first:last]
    return value


def _leaf_of(bound: BoundEnsemble, t: int) -> NDArray[np.int64]:
    """The leaf of each row."""
    n = bound.codes.shape[1]
    leaf = np.empty(n, np.int64)
    waiting = [(int(bound.roots[t]), np.arange(n))]
    while waiting:
        s, rows = waiting.pop()
        if bound.nodes[s, FEATURE] < 0:
            leaf[rows] = bound.nodes[s, RIGHT]
            continue
        left = _goes_left(bound, s)[rows]
        waiting += [(s + 1, rows[left]), (int(bound.nodes[s, RIGHT]), rows[~left])]
    return leaf
