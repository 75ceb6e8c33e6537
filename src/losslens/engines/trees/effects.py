"""Exact Shapley values of the predictions of trees, averaged over donors: from the leaves, without any coalition.

In a game of a row's columns a player outside the coalition takes a donor's values. On the scale of the sums of leaves
the game is a sum over leaves. A leaf is reached if the players A are in the coalition and the players B are not; each
of A gets ``(|A| - 1)! |B|! / (|A| + |B|)!`` of the leaf's value, and each of B minus
``|A|! (|B| - 1)! / (|A| + |B|)!`` of it. A are the players whose conditions the donor violates, B those of the row: so
it suffices to count, at each leaf, the donors of each pattern of violated players. The work grows with the number of
rows plus that of donors, and counts of parts of the donors add up.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from math import factorial, lcm
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from losslens.engines.trees import effect_kernels
from losslens.engines.trees.bound import BoundEnsemble, Ints
from losslens.engines.trees.effect_kernels import WORD
from losslens.engines.trees.node_rules import FEATURE, RIGHT
from losslens.progress import Tick, silent
from losslens.typing import Floats
from losslens.workers import Work, in_process

MOST_IN_TABLE = 14  # players on a path: a table has an entry for each of their patterns
CHUNK_BYTES = 1 << 19  # of the tables of some leaves: they stay in the processor's cache
TABLE_BYTES = 1 << 22  # of tables that are in memory together: with all of a forest's, rows would wait for memory
BLOCK_BYTES, LEAST_ROWS, MOST_ROWS = 1 << 20, 1 << 8, 1 << 12  # rows that walk together: by their effects' memory
Patterns = NDArray[np.uint64]  # (patterns, words)
Others = dict[int, tuple[Patterns, Floats]]  # by leaf: patterns and their weights (patterns, D)
Scratch = tuple[NDArray[Any], ...]  # arrays that `effect_kernels.add_effects` works with
S = TypeVar("S")
P = TypeVar("P")
R = TypeVar("R")


def shapley_effects(
    bound: BoundEnsemble,
    players: Sequence[Sequence[int]],
    rows: NDArray[np.intp],
    donors: NDArray[np.intp],
    weights: Floats,
    *,
    n_jobs: int | None,
    tick: Tick,
) -> Floats:
    """Shapley values of the raw score, (D, rows, players, outputs): sums over the donors with each of D weightings.

    weights: (D, donors), of any sign. A player is one or several columns; columns of no player keep the row's values.
    Over all players the values sum to the weighted sum over donors of the row's score less that with the donor's
    values. Progress counts rows.
    """
    layout, counted = LeafLayout(bound, players), np.any(weights != 0, axis=0)
    unit = np.abs(weights).max(axis=1, initial=0.0)  # equal weights become 1, and sums of them are exact
    weights = np.compress(counted, weights, axis=1) / np.where(unit > 0, unit, 1.0)[:, None]
    walk = _Walk(layout, _taken(bound, rows), _taken(bound, donors[counted]), weights)
    effects = np.zeros((len(unit), len(rows), len(players), bound.ensemble.outputs))
    for chunks in layout.in_memory(len(unit)):
        walk.add(walk.counts(chunks, n_jobs, tick), effects, layout.chunks, n_jobs, tick)
    effects *= unit[:, None, None, None]
    return effects


@dataclass(frozen=True)
class Chunk:
    """Some nodes of a tree, and where the tables of their leaves begin and end."""

    tree: int
    first: int
    last: int
    begin: int
    end: int
    wide: tuple[int, ...]  # leaves of too many players for a table


@dataclass(frozen=True, eq=False)
class PatternCounts:
    """Weights of the donors of each pattern of violated players, at every leaf of some trees: they add up."""

    chunks: tuple[Chunk, ...]
    weightings: int
    tables: tuple[Floats, ...]  # of each chunk: its leaves, weightings, patterns
    others: Others  # patterns and their weights, at leaves of too many players for a table

    def __add__(self, other: PatternCounts) -> PatternCounts:
        if self.chunks != other.chunks:
            raise ValueError("counts of different trees or players don't add up")
        others = {}
        for s, leaf_counts in self.others.items():
            patterns, weights = (np.concatenate(pair) for pair in zip(leaf_counts, other.others[s], strict=True))
            distinct, place = _distinct(patterns)
            others[s] = distinct, _sums(place, weights.T, len(distinct))
        return PatternCounts(self.chunks, self.weightings, tuple(map(np.add, self.tables, other.tables)), others)


def count_patterns(
    bound: BoundEnsemble, players: Sequence[Sequence[int]], donors: NDArray[np.intp], weights: Floats
) -> PatternCounts:
    """Counts of donors' patterns with each of D weightings, (D, donors), for `effects_of`; they take `count_bytes`.

    Parts of the donors may be bound separately.
    """
    layout, no_rows = LeafLayout(bound, players), np.empty((len(bound.size), 0), np.int32)
    walk = _Walk(layout, no_rows, _taken(bound, donors), np.ascontiguousarray(weights))
    return walk.counts(layout.chunks, 1, silent)


def count_bytes(bound: BoundEnsemble, players: Sequence[Sequence[int]], weightings: int, donors: int) -> Floats:
    """The most memory of the counts of each tree, (T,)."""
    layout = LeafLayout(bound, players)
    patterns = np.where(layout.above > MOST_IN_TABLE, np.minimum(np.exp2(layout.above), donors), 0.0)
    others = np.append(0.0, np.cumsum(patterns * (layout.above // WORD + 1 + weightings)))
    return 8.0 * (weightings * np.diff(layout.table_at[bound.leaf_at]) + np.diff(others[bound.leaf_at]))


def effects_of(
    counts: PatternCounts, bound: BoundEnsemble, players: Sequence[Sequence[int]], rows: NDArray[np.intp]
) -> Floats:
    """The values of `shapley_effects`, for the donors of the counts."""
    layout, codes = LeafLayout(bound, players), _taken(bound, rows)
    D = counts.weightings
    walk = _Walk(layout, codes, np.empty((len(codes), 0), np.int32), np.empty((D, 0)))
    effects = np.zeros((D, len(rows), len(players), bound.ensemble.outputs))
    walk.add(counts, effects, counts.chunks, 1, silent)
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


class LeafLayout:
    """Trees in terms of players, and the place of each leaf's table."""

    def __init__(self, bound: BoundEnsemble, players: Sequence[Sequence[int]]) -> None:
        self.bound, self.players, self.player_of = bound, len(players), _owners(players, len(bound.size))
        self.info = np.empty((len(bound.nodes), effect_kernels.FIELDS), np.int32)
        buffer = np.empty(bound.depth + 1, np.int32)
        most = effect_kernels.describe_nodes(bound.trees, self.player_of, buffer, self.info)
        self.path_players = int(most)  # on the path that has most of them
        used = np.unique(bound.nodes[:, FEATURE])
        self.shift = int(np.any(self.player_of[used[used >= 0]] == effect_kernels.NO_PLAYER))
        self.leaves = np.flatnonzero(bound.nodes[:, FEATURE] < 0)
        self.above = self.info[self.leaves, effect_kernels.ABOVE]
        entries = np.where(self.above <= MOST_IN_TABLE, 1 << np.minimum(self.above, 62), 0)
        self.table_at = np.append(0, np.cumsum(entries))
        self.value = _values(bound)
        self.factors, self.unit = _factors(min(MOST_IN_TABLE, self.path_players))

    @cached_property
    def share(self) -> Floats:
        """Shares of leaves that have no table."""
        return shares(self.path_players)

    @cached_property
    def chunks(self) -> tuple[Chunk, ...]:
        """All nodes: tables of a few leaves each."""
        return tuple(chunk for t in range(len(self.bound.roots)) for chunk in self._of_tree(t))

    def _of_tree(self, t: int) -> Iterator[Chunk]:
        """Leaves are added to a chunk until their tables take its memory."""
        leaf, end, starts = int(self.bound.leaf_at[t]), int(self.bound.leaf_at[t + 1]), self.table_at
        first = int(self.bound.roots[t])
        while leaf < end:
            full = int(np.searchsorted(starts, starts[leaf] + CHUNK_BYTES // 32, side="right")) - 1
            stop = min(max(full, leaf + 1), end, leaf + MOST_ROWS)
            last = int(self.leaves[stop - 1]) + 1
            wide = self.leaves[leaf:stop][self.above[leaf:stop] > MOST_IN_TABLE]
            yield Chunk(t, first, last, int(starts[leaf]), int(starts[stop]), tuple(wide.tolist()))
            leaf, first = stop, last

    def in_memory(self, weightings: int) -> Iterator[tuple[Chunk, ...]]:
        """All chunks, as many at a time as their tables fit into memory."""
        first = 0
        for last, chunk in enumerate(self.chunks, 1):
            entries = chunk.end - self.chunks[first].begin
            if last == len(self.chunks) or 16 * weightings * entries > TABLE_BYTES:
                yield self.chunks[first:last]
                first = last

    def players_of(self, s: int) -> Ints:
        """The players on the path to a leaf, by their bits."""
        nodes, info = self.bound.nodes, self.info
        players = np.empty(info[s, effect_kernels.ABOVE] + 1, np.int32)  # the last is "no player"
        while info[s, effect_kernels.PARENT] >= 0:
            s = int(info[s, effect_kernels.PARENT])
            players[info[s, effect_kernels.BIT]] = self.player_of[nodes[s, FEATURE]]
        return players[:-1]

    def patterns(self, s: int, start: int, stop: int, codes: Ints, *, own: bool) -> Patterns:
        """Patterns of rows (`own`) or donors at a leaf of any number of players."""
        words = self.info[s, effect_kernels.ABOVE] // WORD + 1
        patterns = np.zeros((stop - start, words), np.uint64)
        effect_kernels.find_patterns(s, own, start, codes, self.bound.trees, self.info, patterns)
        return patterns


class _Walk:
    """Rows and donors that go through the trees; weights are (D, donors)."""

    def __init__(self, layout: LeafLayout, codes: Ints, donor_codes: Ints, weights: Floats) -> None:
        self.layout, self.codes, self.donor_codes, self.weights = layout, codes, donor_codes, weights
        self.n, self.D = codes.shape[1], weights.shape[0]
        self.row_bytes = 8 * self.D * layout.players * layout.bound.ensemble.outputs  # of the effects

    # Every donor, then every row.

    def counts(self, chunks: tuple[Chunk, ...], n_jobs: int | None, tick: Tick) -> PatternCounts:
        """The donors' patterns at some leaves."""
        tables: list[Floats] = []
        others: Others = {}
        for table, more in _in_order(n_jobs, _Walk.count, self, chunks, tick):
            tables.append(table)
            others |= more
        return PatternCounts(chunks, self.D, tuple(tables), others)

    def add(
        self, counts: PatternCounts, effects: Floats, all_chunks: Sequence[Chunk], n_jobs: int | None, tick: Tick
    ) -> None:
        """Add effects to those of all rows, (D, rows, players, outputs)."""
        tables = [self.tabulate(chunk, table.copy()) for chunk, table in zip(counts.chunks, counts.tables, strict=True)]
        shared = _Tables(self, counts, tables, effects, all_chunks)
        for _ in _in_order(n_jobs, _Tables.work, shared, self.blocks(), tick):
            pass

    # Steps.

    def count(self, chunk: Chunk, tick: Tick) -> tuple[Floats, Others]:
        """The weights of the donors' patterns at some leaves: in tables, and those without a table."""
        layout, m = self.layout, self.donor_codes.shape[1]
        root = int(layout.bound.roots[chunk.tree])
        counts = np.zeros(self.D * (chunk.end - chunk.begin))
        words = np.zeros((layout.bound.depth + 1, min(m, MOST_ROWS)), np.uint32)
        for start in range(0, m, MOST_ROWS):
            tick(0)
            effect_kernels.count(
                root, chunk.first, chunk.last, MOST_IN_TABLE, start, min(start + MOST_ROWS, m), self.donor_codes,
                layout.bound.trees, layout.info, layout.table_at, chunk.begin, self.weights, words, counts,
            )  # fmt: skip
        others = {}
        for s in chunk.wide:
            tick(0)
            patterns, place = _distinct(layout.patterns(s, 0, m, self.donor_codes, own=False))
            others[s] = patterns, _sums(place, self.weights, len(patterns))
        return counts, others

    def tabulate(self, chunk: Chunk, counts: Floats) -> Floats:
        """What rows look up; the counts are overwritten."""
        layout, table = self.layout, np.empty(2 * len(counts))
        effect_kernels.tabulate(
            chunk.first, chunk.last, MOST_IN_TABLE, layout.bound.nodes, layout.info, layout.table_at, chunk.begin,
            layout.factors, self.D, counts, table,
        )  # fmt: skip
        return table

    def add_block(
        self, chunk: Chunk, table: Floats, others: Others, block: slice, scratch: Scratch, effects: Floats
    ) -> None:
        """Add effects to those of a block of rows, (D, outputs, players, rows)."""
        layout = self.layout
        root, out = int(layout.bound.roots[chunk.tree]), int(layout.bound.output[chunk.tree])
        effect_kernels.add_effects(
            root, chunk.first, chunk.last, MOST_IN_TABLE, layout.shift, block.start, self.codes, layout.bound.trees,
            layout.info, layout.table_at, chunk.begin, layout.player_of, layout.value, out, layout.unit, table,
            *scratch, effects,
        )  # fmt: skip
        for s in chunk.wide:
            self._compare(s, out, *others[s], block, effects)

    def _compare(self, s: int, out: int, patterns: Patterns, mass: Floats, block: slice, effects: Floats) -> None:
        """As `add_block`, at a leaf that has no table: distinct patterns of rows are compared with those of donors."""
        layout, players = self.layout, self.layout.players_of(s)
        q = len(players)
        row_patterns = layout.patterns(s, block.start, block.stop, self.codes, own=True)
        reached = np.flatnonzero(row_patterns[:, q // WORD] >> np.uint64(q % WORD) == 0)
        row_patterns, place = _distinct(row_patterns[reached])
        part = np.zeros((len(row_patterns), self.D, q))
        effect_kernels.compare_patterns(row_patterns, patterns, mass, layout.share, part)
        values = layout.value[layout.bound.nodes[s, RIGHT]]
        for w, value in enumerate(values):
            for d in range(self.D):
                effects[d, out + w, players[:, None], reached] += value * part[place, d].T

    def scratch(self) -> Scratch:
        """Arrays for the patterns of rows that walk together, and for what they get."""
        layout, B, players = self.layout, self.block_size, len(self.layout.unit) - 1
        width = -(-self.D * layout.value.shape[1] * players // 4) * 4
        places = np.full((2 << (players + layout.shift)) + 1, -1)
        places[-1] = 0
        return (
            np.zeros((layout.bound.depth + 1, B), np.uint32), np.empty(layout.path_players + 1, np.int32), places,
            np.empty(B, np.uint64), np.empty((B, width)), np.zeros((B, width)),
        )  # fmt: skip

    # Blocks of rows.

    @property
    def block_size(self) -> int:
        """The number of rows that walk together."""
        return int(np.clip(BLOCK_BYTES // max(1, self.row_bytes), LEAST_ROWS, MOST_ROWS))

    def blocks(self) -> list[slice]:
        """Rows that walk together."""
        step = self.block_size
        return [slice(start, min(start + step, self.n)) for start in range(0, self.n, step)]

    def zeros(self, block: slice) -> Floats:
        layout = self.layout
        return np.zeros((self.D, layout.bound.ensemble.outputs, layout.players, block.stop - block.start))


@dataclass(frozen=True, eq=False)
class _Tables:
    """What rows look up at many leaves, and where their effects are added."""

    walk: _Walk
    counts: PatternCounts
    tables: Sequence[Floats]
    effects: Floats  # (D, rows, players, outputs)
    all_chunks: Sequence[Chunk]  # of which those of the counts are a fraction

    def work(self, block: slice, tick: Tick) -> None:
        """Add the effects of a block of rows; blocks don't overlap."""
        effects, scratch = self.walk.zeros(block), self.walk.scratch()
        for chunk, table in zip(self.counts.chunks, self.tables, strict=True):
            tick(0)
            self.walk.add_block(chunk, table, self.counts.others, block, scratch, effects)
        self.effects[:, block] += effects.transpose(0, 3, 2, 1)
        done = [_fraction(rows, self.counts.chunks, self.all_chunks) for rows in (block.start, block.stop)]
        tick(done[1] - done[0])


def _in_order(n_jobs: int | None, work: Work[S, P, R], shared: S, parts: Sequence[P], tick: Tick) -> Iterator[R]:
    """The results of all parts, in their order."""
    with closing(in_process(n_jobs).map(work, shared, parts, tick)) as results:
        yield from results


def _fraction(rows: int, some: Sequence[Chunk], all_chunks: Sequence[Chunk]) -> int:
    """Rows that some nodes count as, so that all add up."""
    if not some:
        return 0
    first, nodes = all_chunks[0].first, all_chunks[-1].last - all_chunks[0].first
    return rows * (some[-1].last - first) // nodes - rows * (some[0].first - first) // nodes


def _taken(bound: BoundEnsemble, rows: NDArray[np.intp]) -> Ints:
    """The classes of some rows; all of them are not copied."""
    n = bound.codes.shape[1]
    return bound.codes if len(rows) == n and np.array_equal(rows, np.arange(n)) else np.take(bound.codes, rows, axis=1)


def _distinct(patterns: Patterns) -> tuple[Patterns, NDArray[np.intp]]:
    """Distinct patterns, and the place of each pattern among them."""
    if patterns.shape[1] == 1:
        distinct, place = np.unique(patterns[:, 0], return_inverse=True)
        return distinct[:, None], place
    distinct, place = np.unique(patterns, axis=0, return_inverse=True)
    return np.ascontiguousarray(distinct), place.reshape(-1)


def _sums(place: NDArray[np.intp], weights: Floats, number: int) -> Floats:
    """Sums of weights, (number, D), at the places where they belong."""
    return np.stack([np.bincount(place, one, number) for one in weights], axis=1)


def _factors(most: int) -> tuple[Floats, Floats]:
    """Factors of `effect_kernels.tabulate` as whole numbers, those of S among q players at 2^q + S; units.

    Sums of whole numbers are exact: with equal weights, what should be 0 is 0.
    """
    factors, unit = np.ones((2, 2 << most)), np.zeros(most + 1)
    members = np.zeros(1, int)  # of each set
    for q in range(1, most + 1):
        members, scale = np.append(members, members + 1), lcm(*range(1, q + 1))
        factor = np.array([0] + [scale * factorial(s) * factorial(q - 1 - s) // factorial(q) for s in range(q)] + [0])
        factors[:, 1 << q : 2 << q] = factor[members], factor[members] + factor[members + 1]
        unit[q] = 1 / scale
    return factors, unit


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
    return np.ascontiguousarray(value * (np.repeat(scale[bound.output], leaves)[:, None] if narrow else scale))
