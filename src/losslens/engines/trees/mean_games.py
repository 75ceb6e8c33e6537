"""Mean predictions of a row over all donors, in every coalition: SAGE's game, from the leaves of trees.

On the path to a leaf a row violates the conditions of some players, B, and a donor those of others. The coalition S
reaches the leaf with the row's values if no player of B is in it, and then with those of the donors that violate
players of S only. With c(T) the weight of the donors that violate exactly T, the leaf has a weight in the mean over
donors of ``sum of c(T) over all T in S``, or 0 if S has players of B: that is the sum over all T in S of
``(-1)^|T and B| c(T - B)``. All leaves are added into one table of 2^p such terms, and one sum over subsets gives the
means of every coalition.

Along an order, in which players join one by one, the donors that violate T reach the leaf from the step after the last
player of T to that before the first of B: two additions, and no table of all coalitions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numba import njit, types
from numpy.typing import NDArray

from losslens.engines.base import coalition_count
from losslens.engines.compiled import compiled
from losslens.engines.intrinsics import count_bits, trailing_zeros
from losslens.engines.trees.bound import BoundEnsemble
from losslens.engines.trees.effect_kernels import ABOVE, BIT, NO_PLAYER, NONE, PARENT
from losslens.engines.trees.effects import MOST_IN_TABLE, LeafLayout, count_patterns
from losslens.engines.trees.node_rules import CUT, FEATURE, ONE, RIGHT, RULE, TREES, U, f8, goes_left, i4, i8, u8
from losslens.typing import Floats, Indices

Players = Sequence[Sequence[int]]


class MeanGames:
    """Mean predictions of rows over the donors, of a response that is linear in the sums of leaves."""

    def __init__(self, bound: BoundEnsemble, players: Players, weight: Floats) -> None:
        self.bound, self.layout, self.p = bound, LeafLayout(bound, players), len(players)
        counts = count_patterns(bound, players, np.arange(len(weight)), (weight / weight.sum())[None])
        self.counts = np.concatenate(counts.tables)
        self.place = np.empty(len(self.counts), np.uint64)  # of each set of a path's players among all players'
        for s in self.layout.leaves.tolist():
            table, members = self.layout.table_at[bound.nodes[s, RIGHT]], np.zeros(1, np.uint64)
            for player in self.layout.players_of(s).tolist():
                members = np.append(members, members | np.uint64(1 << player))
            self.place[table : table + len(members)] = members
        self.codes = np.ascontiguousarray(bound.codes.T)
        first = bound.value[bound.leaf_at[:-1]]  # leaf values are relative to the first of their tree
        base = np.zeros(bound.ensemble.outputs)
        for t, out in enumerate(bound.output.tolist()):
            base[out : out + first.shape[1]] += first[t] * bound.unit[out : out + first.shape[1]]
        self.base = (base + bound.ensemble.offset) / bound.ensemble.divisor

    def of_row(self, i: int) -> NDArray[Any]:
        """Those of row i in all coalitions, (2^p, ...); bit j of a coalition's number: it contains player j."""
        table = np.zeros((self.bound.ensemble.outputs, 1 << self.p))
        layout = self.layout
        add_leaves(
            self.codes[i], self.bound.trees, layout.info, layout.leaves, layout.table_at, layout.value, self.counts,
            self.place, table,
        )  # fmt: skip
        for j in range(self.p):
            halves = table.reshape(len(table), -1, 2, 1 << j)
            halves[:, :, 1] += halves[:, :, 0]
        return self.bound.ensemble.link((table + self.base[:, None]).T)

    def along(self, rows: Indices, orders: Indices) -> NDArray[Any]:
        """Those of rows as players join in some orders, (walks, p + 1, ...)."""
        layout, (walks, p) = self.layout, orders.shape
        added = np.zeros((walks, p + 2, self.bound.ensemble.outputs))
        places = np.argsort(orders, axis=1).astype(np.int32)
        joined = np.empty(1 << min(MOST_IN_TABLE, layout.path_players), np.int32)
        add_stretches(
            self.codes, np.array(rows, np.int64), places, self.bound.trees, layout.info, layout.leaves,
            layout.table_at, layout.value, self.counts, self.place, joined, added,
        )  # fmt: skip
        scores = np.cumsum(added[:, :-1], axis=1) + self.base
        predictions = self.bound.ensemble.link(scores.reshape(-1, scores.shape[2]))
        return predictions.reshape(walks, p + 1, *predictions.shape[1:])


def costs(bound: BoundEnsemble, players: Players) -> tuple[float, float]:
    """Operations for a row in all coalitions, and for a walk; infinite where a path has too many players for tables."""
    layout, p = LeafLayout(bound, players), len(players)
    if layout.path_players > MOST_IN_TABLE:
        return float("inf"), float("inf")
    leaves = float(layout.table_at[-1])
    return leaves + p * coalition_count(p), leaves


@njit(forceinline=True)
def find_violated(codes, s, nodes, size, sets, info):
    """The players whose conditions on the path to a leaf a row violates, and whether columns of no player do."""
    violated, outside = NONE, False
    while info[s, PARENT] >= 0:
        a = info[s, PARENT]
        f = nodes[a, FEATURE]
        if goes_left(codes[f], nodes[a, CUT], nodes[a, RULE], size[f], sets) != (s == a + 1):
            if info[a, BIT] == NO_PLAYER:
                outside = True  # which no coalition can repair
            else:
                violated |= ONE << U(info[a, BIT])
        s = a
    return violated, outside


@compiled(
    types.void(
        i4[:, ::1], i8[::1], i4[:, ::1], TREES, i4[:, ::1], i8[::1], i8[::1], f8[:, ::1], f8[::1], u8[::1], i4[::1],
        f8[:, :, ::1],
    )
)  # fmt: skip
def add_stretches(codes, rows, places, trees, info, leaves, table_at, value, counts, place, joined, added):
    """Add all leaves where walks reach them: at the first step of a stretch, and subtracted after the last.

    joined: for a set of a leaf's players, the step from which all have joined.
    """
    nodes, _, size, _, sets, leaf_at, _, output = trees
    for b in range(U(len(rows))):
        t = 0
        for number in range(len(leaves)):
            while number >= leaf_at[t + 1]:
                t += 1
            s = leaves[number]
            leaf, q = U(nodes[s, RIGHT]), U(info[s, ABOVE])
            violated, outside = find_violated(codes[rows[b]], s, nodes, size, sets, info)
            if outside:
                continue
            table, end, out = U(table_at[leaf]), i4(added.shape[1] - 1), U(output[t])
            for bit in range(q):
                step = places[b, trailing_zeros(place[table + (ONE << bit)])] + i4(1)
                joined[ONE << bit] = step
                if violated & (ONE << bit):
                    end = min(end, step)
            joined[0] = 0
            others = ((ONE << q) - ONE) & ~violated
            T = NONE
            while True:
                low = T & (T - ONE)  # without one of its players
                if low != NONE:
                    joined[T] = max(joined[low], joined[T ^ low])
                mass = counts[table + T]
                if mass != 0.0 and joined[T] < end:
                    for w in range(U(value.shape[1])):
                        added[b, joined[T], out + w] += mass * value[leaf, w]
                        added[b, end, out + w] -= mass * value[leaf, w]
                if others == T:
                    break
                T = (T - others) & others


@compiled(
    types.void(i4[::1], TREES, i4[:, ::1], i8[::1], i8[::1], f8[:, ::1], f8[::1], u8[::1], f8[:, ::1])
)  # fmt: skip
def add_leaves(codes, trees, info, leaves, table_at, value, counts, place, table):
    """Add the terms of all leaves, for a row with these classes."""
    nodes, _, size, _, sets, leaf_at, _, output = trees
    t = 0
    for number in range(len(leaves)):
        while number >= leaf_at[t + 1]:
            t += 1
        s = leaves[number]
        leaf, q = U(nodes[s, RIGHT]), U(info[s, ABOVE])
        violated, outside = find_violated(codes, s, nodes, size, sets, info)
        if outside:
            continue
        row = U(table_at[leaf])
        for T in range(ONE << q):
            mass = counts[row + (T & ~violated)]
            if mass == 0.0:
                continue
            if count_bits(T & violated) & 1:
                mass = -mass
            for w in range(U(value.shape[1])):
                table[U(output[t]) + w, place[row + T]] += mass * value[leaf, w]
