"""Exact Shapley shares of the loss of single pairs of a row and a donor, for any loss; players are columns.

In each of 2^q coalitions its members keep the row's values and the other players take the donor's; q is the number of
players in which the trees can separate the two rows. Trees are walked once for all coalitions of a pair. With the roles
of row and donor exchanged, coalitions become their complements and predictions stay the same: the losses of both are
computed together, unless columns outside the game differ.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from losslens import losses
from losslens.engines.trees import pair_kernels
from losslens.engines.trees.bound import BoundEnsemble, Ints
from losslens.engines.trees.node_rules import SMALL_TREE_LEAVES
from losslens.losses import Loss
from losslens.progress import Tick
from losslens.tables.sample import CHUNK, Sample
from losslens.typing import Floats, Indices
from losslens.workers import PerThread, in_process

Players = Sequence[Sequence[int]]
Words = NDArray[np.uint64]
TASK_CELLS = 1 << 21  # cells and leaves of one task of a thread
STRIPE_PAIRS = 1 << 20  # pairs sorted together
MOST_PLAYERS = 64  # bits of a word
MAX_MASKS = 1 << 24  # rows times players of all trees, up to which masks of leaves are kept
PROBE = np.array([-37.1, -8.3, -1.0, -0.3, 0.0, 1e-9, 0.1, 0.7, 1.0, 5.7, 29.3])  # scores by which a link is recognised


@dataclass(frozen=True, eq=False)
class PairShares:
    """Shares of the players in the losses of all pairs: positive if the row's own value lowers the loss."""

    local: Floats  # (n, p): of each row, the mean over donors
    caused: Floats  # (n, p): of each donor, the mean over rows
    errors: Floats  # (2**p,): the mean loss of each coalition; bit j of its number: it contains player j
    cells: Floats | None  # (n, n, p): of each row and donor, if requested


def cost(bound: BoundEnsemble, players: Players, n: int) -> float:
    """Cells of all pairs if all players differed in each; ticks add up to this number."""
    return n * (n - 1) / 2 * (1 if _is_symmetric(bound, players) else 2) * 2.0 ** len(players)


def over_pairs(
    bound: BoundEnsemble,
    players: Players,
    sample: Sample,
    loss: Loss,
    *,
    n_jobs: int | None,
    tick: Tick,
    keep_cells: bool,
) -> PairShares:
    """The shares of all pairs of two rows, averaged; a row that is its own donor has none."""
    if sample.loss is None:
        raise ValueError("the losses of the sample's own predictions have not been computed yet")
    n, p, weight = sample.n, len(players), np.array(sample.weight, np.float64)
    game = _Game(bound, players, sample, loss, sides=2 if _is_symmetric(bound, players) else 1)
    local, caused, cells = np.zeros((n, p)), np.zeros((n, p)), np.zeros((n, n, p)) if keep_cells else None
    errors = np.full(1 << p, np.sum(weight**2 * sample.loss))
    tasks = (task for some in _stripes(game, keep_cells) for task in game.tasks(*some))
    for task, shares, part in _work(game, tasks, n_jobs, tick):
        errors += part
        pair_kernels.collect(task.rows, task.donors, weight, shares, game.sides, local, caused)
        if cells is not None:
            cells[task.rows, task.donors] = shares[:, 0]
            if game.sides == 2:
                cells[task.donors, task.rows] = shares[:, 1]
    return PairShares(local, caused, errors, cells)


def pair_predictions(bound: BoundEnsemble, packed: PackedRows, rows: Indices, donors: Indices) -> NDArray[np.int64]:
    """Sums of leaves, (pairs, 2**p, outputs), for `BoundEnsemble.respond`; coalitions as in `PairShares.errors`."""
    p, outputs = int(packed.player.max()) + 1, len(bound.unit)
    raw = np.empty((len(rows) << p, outputs), np.int64)
    all_players = np.full(len(rows), (1 << p) - 1, np.uint64)
    pairs, buffers = (np.array(rows, np.int64), np.array(donors, np.int64)), _Buffers(p, bound).walk
    pair_kernels.sum_leaves_of_pairs(*pairs, all_players, bound.trees, tuple(packed), buffers, raw)
    return raw.reshape(len(rows), 1 << p, outputs)


def walk_sums(
    bound: BoundEnsemble, packed: PackedRows, rows: Indices, donors: Indices, orders: Indices
) -> NDArray[np.int64]:
    """Sums of leaves along walks from donors to rows, (walks, players + 1, outputs), for `BoundEnsemble.respond`."""
    walks, p = orders.shape
    raw = np.empty((walks, p + 1, len(bound.unit)), np.int64)
    places = np.argsort(orders, axis=1).astype(np.int32)
    stack, parts = _walk_buffers(bound)
    buffers = np.empty(len(bound.unit) * (p + 2), np.int64), stack, parts, np.empty(p, np.uint64)
    pairs = np.array(rows, np.int64), np.array(donors, np.int64)
    pair_kernels.sum_leaves_of_walks(*pairs, places, bound.trees, tuple(packed), buffers, raw)
    return raw


class PackedRows(NamedTuple):
    """Rows in terms of players. For small trees the leaves that rows allow are bits.

    An *entry* is a player that a tree uses.
    """

    codes: Ints  # (n, columns)
    player: Ints  # (columns,): the player that a column belongs to; -1 for none
    first: Ints  # (T + 1,): the first entry of each tree
    owner: Ints  # (entries,): the player
    allowed: Words  # (n, entries): the leaves that a player's values allow; (0, 0) if a tree is too large
    outside: Words  # (n, T): the leaves that the columns of no player allow


def pack_rows(bound: BoundEnsemble, players: Players) -> PackedRows:
    """The rows of an ensemble, for games of these players."""
    player, codes, T = _player_of(bound, players), np.ascontiguousarray(bound.codes.T), len(bound.roots)
    none, no_words = np.zeros(0, np.int32), np.empty((0, 0), np.uint64)
    if (tables := bound.tables) is None:
        return PackedRows(codes, player, none, none, no_words, no_words)
    tree, owner, p = tables.tree, player[tables.feature], len(players)
    owned, others = np.flatnonzero(owner >= 0), np.flatnonzero(owner < 0)
    entries, entry = np.unique(tree[owned] * p + owner[owned], return_inverse=True)
    if len(codes) * len(entries) > MAX_MASKS:
        return PackedRows(codes, player, none, none, no_words, no_words)
    allowed = tables.allowed(owned, entry, len(entries), bound.codes)
    outside = tables.allowed(others, tree[others], T, bound.codes)
    existing = ~np.uint64(0) >> (SMALL_TREE_LEAVES - np.diff(bound.leaf_at)).astype(np.uint64)
    outside &= existing[:, None]
    first = np.searchsorted(entries // p, np.arange(T + 1)).astype(np.int32)
    masks = np.ascontiguousarray(allowed.T), np.ascontiguousarray(outside.T)
    return PackedRows(codes, player, first, (entries % p).astype(np.int32), *masks)


class _Task(NamedTuple):
    """Pairs sorted by their differing players."""

    rows: NDArray[np.int64]
    donors: NDArray[np.int64]
    differ: NDArray[np.uint64]
    cells: NDArray[np.int64]

    def part(self, which: slice) -> _Task:
        """Some of the pairs."""
        return _Task(self.rows[which], self.donors[which], self.differ[which], self.cells[which])


def _walk_buffers(bound: BoundEnsemble) -> tuple[Words, Words]:
    """For a way down large trees, and for the players of a small one."""
    return np.empty((bound.depth + 2, 3), np.uint64), np.empty((SMALL_TREE_LEAVES, 3), np.uint64)


class _Buffers:
    """Arrays of one thread."""

    def __init__(self, p: int, bound: BoundEnsemble) -> None:
        stack, parts = _walk_buffers(bound)
        self.walk = np.empty(len(bound.unit) << p, np.int64), stack, parts, np.empty(p, np.uint64)  # table and players
        block = 1 << int(pair_kernels.LOW)
        self.sums = (
            np.empty(MOST_PLAYERS),
            np.empty((2, block)),
            np.empty((2, block)),
            np.empty((MOST_PLAYERS, block)),
            np.empty((2, 1 << p)),
            np.zeros((2, 1 << p)),
            np.empty(1 << p, np.int32),
        )  # fmt: skip - by player, losses and sums of a block, weights; of all coalitions: by block, over pairs, places


class _Game:
    """The players, the trees and the loss."""

    def __init__(self, bound: BoundEnsemble, players: Players, sample: Sample, loss: Loss, sides: int) -> None:
        self.bound, self.p, self.sample, self.loss, self.sides = bound, len(players), sample, loss, sides
        self.packed, self.kind = pack_rows(bound, players), _kind(bound, loss)
        self.target = sample.target(loss)
        self.y = np.zeros(sample.n) if self.kind == pair_kernels.PRECOMPUTED else self.target.astype(np.float64)
        self.scale = float(bound.unit[0] / bound.ensemble.divisor)
        self.shift = float(bound.ensemble.offset[0] / bound.ensemble.divisor)

    def buffers(self) -> _Buffers:
        return _Buffers(self.p, self.bound)

    def tasks(self, rows: NDArray[np.int64], donors: NDArray[np.int64]) -> Iterator[_Task]:
        """These pairs, sorted by their differing players, some at a time."""
        differ, cells = np.empty(len(rows), np.uint64), np.empty(len(rows), np.int64)
        pair_kernels.compare(self.packed.codes, self.packed.player, rows, donors, differ, cells)
        order = np.argsort(differ, kind="stable")
        pairs = _Task(rows[order], donors[order], differ[order], cells[order])
        return _cut(pairs, pairs.cells * len(self.bound.unit) + len(self.bound.value), TASK_CELLS)

    def play(self, task: _Task, buffers: _Buffers) -> tuple[Floats, Floats]:
        """The shares of each pair, (pairs, 2, p), as row and as donor; the summed losses of all coalitions."""
        shares, errors = np.empty((len(task.rows), 2, self.p)), np.zeros(1 << self.p)
        if self.kind == pair_kernels.PRECOMPUTED:
            done = 0
            for part in _cut(task, task.cells, CHUNK):
                self._sum(part, self._losses(part, buffers), buffers, shares[done : done + len(part.rows)], errors)
                done += len(part.rows)
        else:
            self._sum(task, np.empty((2, 0)), buffers, shares, errors)
        return shares, errors

    def _losses(self, task: _Task, buffers: _Buffers) -> Floats:
        """The losses of all coalitions of these pairs, for the rows' y and for the donors'."""
        sample, loss, bound = self.sample, self.loss, self.bound
        raw = np.empty((int(task.cells.sum()), len(bound.unit)), np.int64)
        pair_kernels.sum_leaves_of_pairs(
            task.rows, task.donors, task.differ, bound.trees, tuple(self.packed), buffers.walk, raw
        )
        prediction = bound.respond(raw)
        if loss.domains is not None:
            loss.check_prediction(prediction)
        values = np.zeros((2, len(raw)))
        for side, target_rows in zip(values, [task.rows, task.donors][: self.sides], strict=False):
            side[:] = loss(np.repeat(self.target[target_rows], task.cells), sample.shown(loss, prediction))
        return values

    def _sum(self, task: _Task, losses: Floats, buffers: _Buffers, shares: Floats, errors: Floats) -> None:
        weight = self.sample.weight
        mass = np.zeros((len(task.rows), 2))
        mass[:, : self.sides] = (weight[task.rows] * weight[task.donors])[:, None]
        pair_kernels.play(
            self.kind, task.rows, task.donors, task.differ, self.y, mass, losses, self.scale, self.shift,
            self.bound.trees, tuple(self.packed), buffers.walk, buffers.sums, shares, errors,
        )  # fmt: skip


def _cut(task: _Task, load: NDArray[np.int64], part_load: int) -> Iterator[_Task]:
    """Parts of about the same load."""
    number = (np.cumsum(load) - load) // part_load
    edges = np.flatnonzero(np.diff(number, prepend=-1, append=-1))
    return (task.part(slice(a, b)) for a, b in pairwise(edges))


def _stripes(game: _Game, keep_cells: bool) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """All pairs of two rows, once if both sides are computed together; pairs without weight only if cells are kept."""
    n, counts = game.sample.n, game.sample.weight > 0
    step = max(1, STRIPE_PAIRS // n)
    for start in range(0, n, step):
        stop = min(n, start + step)
        rows, donors = np.repeat(np.arange(start, stop), n), np.tile(np.arange(n), stop - start)
        mask = donors > rows if game.sides == 2 else donors != rows
        if not keep_cells:
            mask &= counts[rows] | counts[donors]
        yield rows[mask], donors[mask]


def _work(
    game: _Game, tasks: Iterable[_Task], n_jobs: int | None, tick: Tick
) -> Iterator[tuple[_Task, Floats, Floats]]:
    """The tasks and their results, in order: the sums can't depend on n_jobs."""
    buffers = PerThread(game.buffers)

    def play(game: _Game, task: _Task, tick: Tick) -> tuple[_Task, Floats, Floats]:
        played = game.play(task, buffers.get())
        tick(len(task.rows) << game.p)
        return (task, *played)

    # A user's loss may not be thread-safe.
    return in_process(1 if game.loss.custom else n_jobs).map(play, game, tasks, tick)


# Preparation.


def _player_of(bound: BoundEnsemble, players: Players) -> Ints:
    """The player that each column belongs to; -1 for none."""
    player = np.full(len(bound.size), -1, np.int32)
    for j, columns in enumerate(players):
        player[list(columns)] = j
    return player


def _is_symmetric(bound: BoundEnsemble, players: Players) -> bool:
    """Whether a row and its donor can be exchanged: the trees use no column outside the game."""
    return bool(np.all((_player_of(bound, players) >= 0) | (bound.size == 1)))


def _kind(bound: BoundEnsemble, loss: Loss) -> int:
    """How a loss is computed; a link is recognised by its values at a few scores."""
    compiled = loss in (losses.squared_error, losses.brier, losses.log_loss)
    if bound.ensemble.outputs != 1 or not compiled or not bound.ensemble.is_tried:
        return pair_kernels.PRECOMPUTED
    response = bound.ensemble.link(PROBE[:, None].copy())
    if response.dtype != np.float64 or (response.ndim == 2 and response.shape[1] != 2):
        return pair_kernels.PRECOMPUTED
    score = response if response.ndim == 1 else response[:, 1]
    if loss != losses.log_loss:
        return pair_kernels.SQUARED if np.array_equal(score, PROBE) else pair_kernels.PRECOMPUTED
    logistic = 1 / (1 + np.exp(-PROBE))
    return pair_kernels.LOGISTIC if np.allclose(score, logistic, 1e-14, 0) else pair_kernels.PRECOMPUTED
