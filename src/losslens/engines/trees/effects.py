"""Exact Shapley values of the predictions of trees, averaged over donors: from the leaves, without any coalition.

In a game of a row's columns a player outside the coalition takes a donor's values. On the scale of the sums of leaves
the game is a sum over leaves. A leaf is reached if the players A are in the coalition and the players B are not; each
of A gets ``(|A| - 1)! |B|! / (|A| + |B|)!`` of the leaf's value, and each of B minus
``|A|! (|B| - 1)! / (|A| + |B|)!`` of it.
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

TREE_PARTS = 8  # parts of the trees that are summed separately, for any n_jobs: the result doesn't depend on it
FEW_ROWS, MANY_ROWS = 1 << 12, 1 << 15  # rows that walk together: more if there are many donors
WALK_BYTES = 1 << 26  # memory of such rows or donors
WORK = 10**8  # comparisons of groups between two tests whether to stop: a tenth of a second
MEMBER_BYTES = 17  # of a member of a side at a level
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
    """Shapley values of the raw score, (rows, players, outputs): weighted means over the donors.

    A player is one or several columns; columns of no player keep the row's values. Over all players the values sum to
    the difference between the row's score and the mean score with the donors' values. Progress counts rows.
    """
    walk = _EffectWalk(bound, players, rows, donors, weight)
    effects = np.zeros((len(rows), len(players), bound.ensemble.outputs))
    jobs = list(walk.jobs())
    with closing(in_process(n_jobs).map(_EffectWalk.work, walk, jobs, tick)) as results:
        for (some, _), part in zip(jobs, results, strict=True):
            effects[some] += part
    return effects


def linear_response(bound: BoundEnsemble) -> Callable[[Floats], Floats] | None:
    """A function from raw effects (m, p, outputs) to effects on the response, (m, p) or (m, p, K); None if not linear.

    The response is linear in the sums of leaves for most regressors, probabilities of forests, and scores.
    """
    trial = np.linspace(0.1, 0.9, 5)[:, None] + 0.01 * np.arange(bound.ensemble.outputs)
    response = bound.ensemble.link(trial)
    if response.ndim == 1:
        return _single_output if trial.shape[1] == 1 and np.allclose(response, trial[:, 0], rtol=1e-6) else None
    if trial.shape[1] == 1:
        two = response.shape[1] == 2 and np.allclose(response, np.hstack([1 - trial, trial]), rtol=1e-6)
        return _of_both_classes if two else None
    return _unchanged if response.shape == trial.shape and np.allclose(response, trial, rtol=1e-6) else None


# Linear links.


def _single_output(effects: Floats) -> Floats:
    return effects[:, :, 0]


def _of_both_classes(effects: Floats) -> Floats:
    return np.concatenate([-effects, effects], axis=2)


def _unchanged(effects: Floats) -> Floats:
    return effects


def shares(largest: int) -> Floats:
    """``(x - 1)! y! / (x + y)!`` for x and y up to `largest`; 0 at x = 0.

    >>> shares(2).tolist()[1:]  # 1 / (1 + y), 1 / ((1 + y) (2 + y))
    [[1.0, 0.5, 0.3333333333333333], [0.5, 0.16666666666666666, 0.08333333333333333]]
    """
    share, y = np.zeros((largest + 1, largest + 1)), np.arange(largest + 1)
    if largest > 0:
        share[1] = 1 / (y + 1)
    for x in range(1, largest):
        share[x + 1] = share[x] * (x / (x + y + 1))
    return share


class _EffectWalk:
    """Data of all jobs: trees, rows and donors."""

    def __init__(
        self,
        bound: BoundEnsemble,
        players: Sequence[Sequence[int]],
        rows: NDArray[np.intp],
        donors: NDArray[np.intp],
        weight: Floats,
    ) -> None:
        self.bound, self.players, self.player_of = bound, len(players), _owners(players, len(bound.size))
        self.info = np.empty((len(bound.nodes), effect_kernels.FIELDS), np.int32)
        buffer = np.empty(bound.depth + 1, np.int32)
        self.path_players = int(
            effect_kernels.describe_nodes(bound.nodes, bound.roots, self.player_of, buffer, self.info)
        )  # on the path that has most of them
        self.share, self.value = shares(self.path_players), _values(bound)
        counted = weight > 0
        self.weight = weight[counted] / weight[counted].sum()
        self.codes, self.donor_codes = bound.codes[:, rows], bound.codes[:, donors[counted]]

    def jobs(self) -> Iterator[Job]:
        """Blocks of rows, and for each the trees in parts."""
        n, T = self.codes.shape[1], len(self.bound.roots)
        row_bytes = 8 * (self.players * self.bound.ensemble.outputs + self.path_players)
        step = self._block_size(row_bytes, max(FEW_ROWS, self.donor_codes.shape[1]))
        parts = np.linspace(0, T, min(T, TREE_PARTS) + 1).astype(int).tolist()
        for start in range(0, n, step):
            for first, last in pairwise(parts):
                yield slice(start, min(start + step, n)), slice(first, last)

    def work(self, job: Job, tick: Tick) -> Floats:
        """The effects of some rows and trees."""
        rows, trees = job
        codes, step = np.ascontiguousarray(self.codes[:, rows]), self._block_size(0, MANY_ROWS)
        effects = np.zeros((codes.shape[1], self.players, self.bound.ensemble.outputs))
        for start in range(0, self.donor_codes.shape[1], step):
            part = slice(start, start + step)
            walker = _Walker(self, codes, np.ascontiguousarray(self.donor_codes[:, part]), self.weight[part], effects)
            for t in range(trees.start, trees.stop):
                walker.add(t, tick)
        n, T = codes.shape[1], len(self.bound.roots)
        tick(n * trees.stop // T - n * trees.start // T)  # each tree counts as a fraction of the rows
        return effects

    def _block_size(self, own_bytes: int, wanted: int) -> int:
        """Number of rows or donors that walk together, given the bytes of each beside those at every level."""
        each = own_bytes + MEMBER_BYTES * (self.bound.depth + 1)
        return int(np.clip(WALK_BYTES // each, 64, min(wanted, MANY_ROWS)))


def _owners(players: Sequence[Sequence[int]], p: int) -> Ints:
    """The player of each column."""
    owners = np.full(p, effect_kernels.NO_PLAYER, np.int32)
    for number, columns in enumerate(players):
        if np.any(owners[list(columns)] != effect_kernels.NO_PLAYER):
            raise ValueError("a column belongs to two players")
        owners[list(columns)] = number
    return owners


def _values(bound: BoundEnsemble) -> Floats:
    """Leaf values in the model's units, relative to the first of their tree: a common constant has no effect."""
    leaves, scale = np.diff(bound.leaf_at), bound.unit / bound.ensemble.divisor
    value = bound.value - np.repeat(bound.value[bound.leaf_at[:-1]], leaves, axis=0)
    narrow = value.shape[1] < len(scale)
    return np.asarray(value * (np.repeat(scale[bound.output], leaves)[:, None] if narrow else scale))


class _Walker:
    """Walks some rows and donors through the trees."""

    def __init__(self, walk: _EffectWalk, codes: Ints, donor_codes: Ints, weight: Floats, effects: Floats) -> None:
        self.walk, self.codes, self.donor_codes, self.weight, self.effects = walk, codes, donor_codes, weight, effects
        n, m = codes.shape[1], donor_codes.shape[1]
        levels, players = walk.bound.depth + 1, min(walk.path_players, effect_kernels.MAX_PATH_PLAYERS) + 1
        self.sides = _side(codes, levels), _side(donor_codes, levels)
        self.path, self.path_players = np.empty((2, levels), np.int32)
        self.candidates = np.empty(max(n, m) + 1, np.uint64)
        self.violating = np.empty((m // 64 + 1, players), np.uint64)
        self.mass, self.part = np.empty(m), np.empty((n, players))

    def add(self, t: int, tick: Tick) -> None:
        """Add the effects of a tree."""
        walk, bound = self.walk, self.walk.bound
        s, end = int(bound.roots[t]), int(walk.info[bound.roots[t], effect_kernels.STOP])
        if walk.info[s:end, effect_kernels.ABOVE].max() > effect_kernels.MAX_PATH_PLAYERS:
            self._add_leaves(t, range(s, end), tick)
            return
        while s < end:
            tick(0)  # raises if the call has been cancelled
            s = effect_kernels.walk(
                s, end, WORK, bound.output[t], bound.nodes, walk.info, walk.player_of, bound.size, bound.sets,
                walk.value, self.weight, walk.share, *self.sides, self.path, self.path_players, self.candidates,
                self.violating, self.mass, self.part, self.effects,
            )  # fmt: skip

    def _add_leaves(self, t: int, nodes: range, tick: Tick) -> None:
        """As `add`, leaf by leaf: slow, but for any number of players on a path."""
        walk, out, width = self.walk, self.walk.bound.output[t], self.walk.value.shape[1]
        path: list[int] = []
        for s in nodes:
            tick(0)
            del path[walk.info[s, effect_kernels.LEVEL] :]
            if walk.bound.nodes[s, FEATURE] >= 0:
                path.append(s)
                continue
            players, part = self._leaf_shares(path, s)
            self.effects[:, players, out : out + width] += part[:, :, None] * walk.value[walk.bound.nodes[s, RIGHT]]

    def _leaf_shares(self, path: Sequence[int], leaf: int) -> tuple[Ints, Floats]:
        """The players on the path to a leaf, and their shares in its value, (rows, players)."""
        walk = self.walk
        players = np.empty(walk.info[leaf, effect_kernels.ABOVE] + 1, np.int32)  # the last is "no player"
        players[walk.info[path, effect_kernels.BIT]] = walk.player_of[walk.bound.nodes[path, FEATURE]]
        by_rows, by_donors = (self._violated(codes, path, leaf) for codes in (self.codes, self.donor_codes))
        of_rows, of_donors = by_rows[:, :-1].astype(float), by_donors[:, :-1].astype(float)
        # A column of no player always has the row's value.
        mass = (~by_rows[:, -1:] & (of_rows @ of_donors.T == 0)) * self.weight
        out, needed = of_rows.sum(axis=1).astype(int), of_donors.sum(axis=1).astype(int)
        gain, loss = walk.share[needed][:, out].T * mass, walk.share[out][:, needed] * mass
        return players[:-1], gain @ of_donors - loss.sum(axis=1, keepdims=True) * of_rows

    def _violated(self, codes: Ints, path: Sequence[int], leaf: int) -> NDArray[np.bool_]:
        """Players whose conditions are violated on a leaf's path, (members, players + 1): the last is no player."""
        info = self.walk.info
        violated = np.zeros((codes.shape[1], info[leaf, effect_kernels.ABOVE] + 1), np.bool_)
        for a, child in zip(path, [*path[1:], leaf], strict=True):
            violated[:, info[a, effect_kernels.BIT]] |= _goes_left(self.walk.bound, a, codes) != (child == a + 1)
        return violated


def _goes_left(bound: BoundEnsemble, s: int, codes: Ints) -> NDArray[np.bool_]:
    """Which members go left at a node."""
    f, cut, rule = bound.nodes[s, [FEATURE, CUT, RULE]]
    if rule >= SETS:
        return bound.sets[rule - SETS][codes[f]] != 0
    left: NDArray[np.bool_] = codes[f] < cut
    return left | (codes[f] == bound.size[f] - 1) if rule == MISSING_LEFT else left


def _side(codes: Ints, levels: int) -> tuple[NDArray[Any], ...]:
    """Rows or donors as a side of the kernels; at level 0 all are in one group, which violates no condition."""
    n = codes.shape[1]
    ids, group = np.zeros((2, levels, n), np.int32)
    violated, matched = np.zeros((levels, n), np.uint64), np.ones((levels, n), np.uint8)
    count, table = (np.zeros((length, 2), np.int32) for length in (levels, 1 << (2 * n).bit_length()))
    ids[0], count[0] = np.arange(n), (n, 1)
    return codes, ids, group, violated, matched, count, np.zeros(2 * n, np.int32), table
