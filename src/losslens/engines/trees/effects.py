"""Shapley values of what trees predict, exact, over donors: from their leaves, without a single coalition.

In a game of the columns of a row a player that is out takes a donor's values. On the scale of the sums of leaves the
game is a sum over leaves. Of the players, A must be in for the leaf to be reached and B must be out, and each of A gets
``(|A| - 1)! |B|! / (|A| + |B|)!`` of the leaf's value; each of B loses ``|A|! (|B| - 1)! / (|A| + |B|)!`` of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from losslens.engines.trees import effect_kernels
from losslens.engines.trees.bound import BoundEnsemble, Ints
from losslens.engines.trees.node_rules import CUT, FEATURE, MISSING_LEFT, RIGHT, RULE, SETS
from losslens.progress import Tick
from losslens.typing import Floats
from losslens.workers import in_process

LANES = 8  # parts of the trees that are summed apart, however many threads there are: the answer can't depend on them
FEW_ROWS, MANY_ROWS = 1 << 12, 1 << 15  # that walk together: more where there are many donors
ROOM = 1 << 26  # bytes that they may take
WORK = 10**8  # groups that are compared between two looks whether to stop: a tenth of a second
BYTES = 17  # of a member of a side at a level
Job = tuple[slice, slice]  # rows and trees


def shapley_effects(
    bound: BoundEnsemble,
    players: Sequence[Sequence[int]],
    rows: NDArray[np.intp],
    donors: NDArray[np.intp],
    weight: Floats,
    *,
    n_jobs: int | None,
    tick: Tick,
) -> Floats:
    """Shapley values of the raw score, (rows, players, outputs), each the mean over the donors by their weights.

    A player is one or several columns; columns of no player keep the row's own values. Over all players the values sum
    to the difference between the row's score and the mean of those with the donors' values. Progress counts rows.
    """
    walk = _EffectWalk(bound, players, rows, donors, weight)
    effects = np.zeros((len(rows), len(players), bound.ensemble.outputs))
    jobs = list(walk.jobs())
    with closing(in_process(n_jobs).map(_EffectWalk.work, walk, jobs, tick)) as results:
        for (some, _), found in zip(jobs, results, strict=True):
            effects[some] += found
    return effects


def linear_response(bound: BoundEnsemble) -> Callable[[Floats], Floats] | None:
    """What turns raw effects (m, p, outputs) into those of the response, (m, p) or (m, p, K); None if it isn't linear.

    Sums of leaves are the response of most regressors, the probabilities of forests, and scores.
    """
    trial = np.linspace(0.1, 0.9, 5)[:, None] + 0.01 * np.arange(bound.ensemble.outputs)
    said = bound.ensemble.link(trial)
    if said.ndim == 1:
        return _only if trial.shape[1] == 1 and np.allclose(said, trial[:, 0], rtol=1e-6) else None
    if trial.shape[1] == 1:
        two = said.shape[1] == 2 and np.allclose(said, np.hstack([1 - trial, trial]), rtol=1e-6)
        return _of_both_classes if two else None
    return _same if said.shape == trial.shape and np.allclose(said, trial, rtol=1e-6) else None


# The links that are linear.


def _only(effects: Floats) -> Floats:
    return effects[:, :, 0]


def _of_both_classes(effects: Floats) -> Floats:
    return np.concatenate([-effects, effects], axis=2)


def _same(effects: Floats) -> Floats:
    return effects


def shares(most: int) -> Floats:
    """``(x - 1)! y! / (x + y)!`` for x and y up to `most`; 0 at x = 0.

    >>> shares(2).tolist()[1:]  # 1 / (1 + y), 1 / ((1 + y) (2 + y))
    [[1.0, 0.5, 0.3333333333333333], [0.5, 0.16666666666666666, 0.08333333333333333]]
    """
    share, y = np.zeros((most + 1, most + 1)), np.arange(most + 1)
    if most > 0:
        share[1] = 1 / (y + 1)
    for x in range(1, most):
        share[x + 1] = share[x] * (x / (x + y + 1))
    return share


class _EffectWalk:
    """What all jobs share: trees, rows and donors."""

    def __init__(
        self,
        bound: BoundEnsemble,
        players: Sequence[Sequence[int]],
        rows: NDArray[np.intp],
        donors: NDArray[np.intp],
        weight: Floats,
    ) -> None:
        self.bound, self.players, self.player_of = bound, len(players), _owners(players, len(bound.size))
        self.facts = np.empty((len(bound.nodes), effect_kernels.FACTS), np.int32)
        way = np.empty(bound.depth + 1, np.int32)
        self.most = int(effect_kernels.frame(bound.nodes, bound.roots, self.player_of, way, self.facts))
        self.share, self.value = shares(self.most), _values(bound)
        counted = weight > 0
        self.weight = weight[counted] / weight[counted].sum()
        self.codes, self.lent = bound.codes[:, rows], bound.codes[:, donors[counted]]

    def jobs(self) -> Iterator[Job]:
        """Blocks of rows, and for each the trees in lanes."""
        n, T = self.codes.shape[1], len(self.bound.roots)
        a_row = 8 * (self.players * self.bound.ensemble.outputs + self.most)
        step = self._together(a_row, max(FEW_ROWS, self.lent.shape[1]))
        lanes = np.linspace(0, T, min(T, LANES) + 1).astype(int).tolist()
        for start in range(0, n, step):
            for first, last in pairwise(lanes):
                yield slice(start, min(start + step, n)), slice(first, last)

    def work(self, job: Job, tick: Tick) -> Floats:
        """The effects of some rows and trees."""
        rows, trees = job
        codes, step = np.ascontiguousarray(self.codes[:, rows]), self._together(0, MANY_ROWS)
        effects = np.zeros((codes.shape[1], self.players, self.bound.ensemble.outputs))
        for start in range(0, self.lent.shape[1], step):
            part = slice(start, start + step)
            walker = _Walker(self, codes, np.ascontiguousarray(self.lent[:, part]), self.weight[part], effects)
            for t in range(trees.start, trees.stop):
                walker.add(t, tick)
        n, T = codes.shape[1], len(self.bound.roots)
        tick(n * trees.stop // T - n * trees.start // T)  # as if each tree were a part of the rows
        return effects

    def _together(self, each: int, wanted: int) -> int:
        """How many rows or donors walk together, that take so many bytes each and some at every level."""
        return int(np.clip(ROOM // (each + BYTES * (self.bound.depth + 1)), 64, min(wanted, MANY_ROWS)))


def _owners(players: Sequence[Sequence[int]], p: int) -> Ints:
    """The player of each column."""
    owners = np.full(p, effect_kernels.NOBODY, np.int32)
    for number, columns in enumerate(players):
        if np.any(owners[list(columns)] != effect_kernels.NOBODY):
            raise ValueError("a column belongs to two players")
        owners[list(columns)] = number
    return owners


def _values(bound: BoundEnsemble) -> Floats:
    """Leaves in the model's units, relative to the first of their tree: what all have in common has no effect."""
    leaves, scale = np.diff(bound.leaf_at), bound.unit / bound.ensemble.divisor
    value = bound.value - np.repeat(bound.value[bound.leaf_at[:-1]], leaves, axis=0)
    narrow = value.shape[1] < len(scale)
    return np.asarray(value * (np.repeat(scale[bound.output], leaves)[:, None] if narrow else scale))


class _Walker:
    """Some rows and donors on their way through the trees."""

    def __init__(self, walk: _EffectWalk, codes: Ints, lent: Ints, weight: Floats, effects: Floats) -> None:
        self.walk, self.codes, self.lent, self.weight, self.effects = walk, codes, lent, weight, effects
        levels, players = walk.bound.depth + 1, min(walk.most, effect_kernels.MOST_PLAYERS) + 1
        self.sides = _side(codes, levels), _side(lent, levels)
        self.trail, self.way = np.empty((2, levels), np.int32)
        self.free = np.empty(max(codes.shape[1], lent.shape[1]) + 1, np.uint64)
        self.breaking = np.empty((lent.shape[1] // 64 + 1, players), np.uint64)
        self.mass, self.part = np.empty(lent.shape[1]), np.empty((codes.shape[1], players))

    def add(self, t: int, tick: Tick) -> None:
        """Add the effects of a tree."""
        walk, bound = self.walk, self.walk.bound
        s, end = int(bound.roots[t]), int(walk.facts[bound.roots[t], effect_kernels.STOP])
        if walk.facts[s:end, effect_kernels.ABOVE].max() > effect_kernels.MOST_PLAYERS:
            self._add_leaves(t, range(s, end), tick)
            return
        while s < end:
            tick(0)  # raises where nobody waits any more
            s = effect_kernels.walk(
                s, end, WORK, bound.output[t], bound.nodes, walk.facts, walk.player_of, bound.size, bound.sets,
                walk.value, self.weight, walk.share, *self.sides, self.trail, self.way, self.free, self.breaking,
                self.mass, self.part, self.effects,
            )  # fmt: skip

    def _add_leaves(self, t: int, nodes: range, tick: Tick) -> None:
        """The same leaf by leaf: slow, and for any number of players on a way."""
        walk, out, width = self.walk, self.walk.bound.output[t], self.walk.value.shape[1]
        trail: list[int] = []
        for s in nodes:
            tick(0)
            del trail[walk.facts[s, effect_kernels.LEVEL] :]
            if walk.bound.nodes[s, FEATURE] >= 0:
                trail.append(s)
                continue
            way, part = self._parts(trail, s)
            self.effects[:, way, out : out + width] += part[:, :, None] * walk.value[walk.bound.nodes[s, RIGHT]]

    def _parts(self, trail: Sequence[int], leaf: int) -> tuple[Ints, Floats]:
        """The players on the way to a leaf, and which parts of it they have, (rows, players)."""
        walk = self.walk
        way = np.empty(walk.facts[leaf, effect_kernels.ABOVE] + 1, np.int32)  # the last is nobody
        way[walk.facts[trail, effect_kernels.BIT]] = walk.player_of[walk.bound.nodes[trail, FEATURE]]
        by_rows, by_donors = (self._broken(codes, trail, leaf) for codes in (self.codes, self.lent))
        mine, lent = by_rows[:, :-1].astype(float), by_donors[:, :-1].astype(float)
        mass = (~by_rows[:, -1:] & (mine @ lent.T == 0)) * self.weight  # a column of nobody's is always the row's
        out, needed = mine.sum(axis=1).astype(int), lent.sum(axis=1).astype(int)
        gain, loss = walk.share[needed][:, out].T * mass, walk.share[out][:, needed] * mass
        return way[:-1], gain @ lent - loss.sum(axis=1, keepdims=True) * mine

    def _broken(self, codes: Ints, trail: Sequence[int], leaf: int) -> NDArray[np.bool_]:
        """Which players' conditions are broken on the way to a leaf, (members, players and nobody)."""
        facts = self.walk.facts
        broken = np.zeros((codes.shape[1], facts[leaf, effect_kernels.ABOVE] + 1), np.bool_)
        for a, child in zip(trail, [*trail[1:], leaf], strict=True):
            broken[:, facts[a, effect_kernels.BIT]] |= _goes_left(self.walk.bound, a, codes) != (child == a + 1)
        return broken


def _goes_left(bound: BoundEnsemble, s: int, codes: Ints) -> NDArray[np.bool_]:
    """Who goes left at a node."""
    f, cut, rule = bound.nodes[s, [FEATURE, CUT, RULE]]
    if rule >= SETS:
        return bound.sets[rule - SETS][codes[f]] != 0
    left: NDArray[np.bool_] = codes[f] < cut
    return left | (codes[f] == bound.size[f] - 1) if rule == MISSING_LEFT else left


def _side(codes: Ints, levels: int) -> tuple[NDArray[Any], ...]:
    """Rows or donors as the kernels know them; at level 0 all are in one group, which breaks nothing."""
    n = codes.shape[1]
    ids, group = np.zeros((2, levels, n), np.int32)
    broken, meets = np.zeros((levels, n), np.uint64), np.ones((levels, n), np.uint8)
    count, table = (np.zeros((length, 2), np.int32) for length in (levels, 1 << (2 * n).bit_length()))
    ids[0], count[0] = np.arange(n), (n, 1)
    return codes, ids, group, broken, meets, count, np.zeros(2 * n, np.int32), table
