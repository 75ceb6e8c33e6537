"""Exact shares of the loss of single pairs of a row and a donor, any loss: the players of a game are columns.

In each of 2^q coalitions its members keep the row's values and the other players take the donor's; q are the players
that the trees tell apart in the two rows. Trees are walked once for all coalitions of a pair. The donor, had it been
the row, would hear the same in the complements: both are judged together, unless columns outside the game differ.
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
from losslens.engines.trees.node_rules import FEATURE, SMALL_TREE_LEAVES
from losslens.losses import Loss
from losslens.progress import Tick, silent
from losslens.tables.sample import CHUNK, Sample
from losslens.typing import Floats, Indices
from losslens.workers import PerThread, in_process

Players = Sequence[Sequence[int]]
Words = NDArray[np.uint64]
TASK = 1 << 21  # cells and leaves that a thread takes at a time
PAIRS = 1 << 20  # that are sorted together
MASKS = 1 << 24  # rows times players of all trees whose leaves are held
PROBE = np.array([-37.1, -8.3, -1.0, -0.3, 0.0, 1e-9, 0.1, 0.7, 1.0, 5.7, 29.3])  # scores that show what a link does


@dataclass(frozen=True, eq=False)
class PairShares:
    """Shares of the players in the losses of all pairs: positive where knowing the row's own value lowers the loss."""

    local: Floats  # (n, p): of each row, the mean over donors
    caused: Floats  # (n, p): of each donor, the mean over rows
    errors: Floats  # (2**p,): the mean loss of each coalition; bit j of its number says that it holds player j
    cells: Floats | None  # (n, n, p): of each row and donor, where asked for


def cost(bound: BoundEnsemble, players: Players, n: int) -> float:
    """Cells of all pairs, were all players to differ in each; ticks add up to as many."""
    return n * (n - 1) / 2 * (1 if _is_even(bound, players) else 2) * 2.0 ** len(players)


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
        raise ValueError("the sample has not been judged by a loss yet")
    n, p, weight = sample.n, len(players), np.array(sample.weight, np.float64)
    game = _Game(bound, players, sample, loss, sides=2 if _is_even(bound, players) else 1)
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


def pair_shares(
    bound: BoundEnsemble,
    players: Players,
    sample: Sample,
    loss: Loss,
    rows: Indices,
    donors: Indices,
    *,
    n_jobs: int | None,
) -> Floats:
    """The shares of the players, (pairs, p), for these rows and their donors."""
    game = _Game(bound, players, sample, loss, sides=1)
    found = np.empty((len(rows), len(players)))
    for task, shares, _ in _work(game, game.tasks(np.array(rows, np.int64), np.array(donors, np.int64)), n_jobs):
        found[task.place] = shares[:, 0]
    return found


def pair_predictions(bound: BoundEnsemble, players: Players, rows: Indices, donors: Indices) -> NDArray[np.int64]:
    """Sums of leaves, (pairs, 2**p, outputs), for `Bound.respond`; bit j of a coalition says that it holds player j."""
    p, outputs = len(players), len(bound.unit)
    raw = np.empty((len(rows) << p, outputs), np.int64)
    every = np.full(len(rows), (1 << p) - 1, np.uint64)
    pairs, player = (np.array(rows, np.int64), np.array(donors, np.int64)), _player_of(bound, players)
    pair_kernels.tell_pairs(*pairs, every, player, tuple(_forest(bound, player)), _Scratch(p, bound).walk, raw)
    return raw.reshape(len(rows), 1 << p, outputs)


class PackedForest(NamedTuple):
    """The trees. Of small ones the leaves that rows allow are bits; an *entry* is a player that a tree asks for."""

    nodes: Ints
    roots: Ints
    size: Ints
    sets: NDArray[np.uint8]
    leaf_at: Ints
    value: NDArray[np.int64]
    output: Ints
    codes: Ints  # (n, columns)
    first: Ints  # (T + 1,): the first entry of each tree
    owner: Ints  # (entries,): the player
    allowed: Words  # (n, entries): the leaves that a player's values allow, (0, 0) where a tree is too large
    outside: Words  # (n, T): the same for all columns that belong to no player


class _Task(NamedTuple):
    """Pairs whose players come in turn; `place`: where they stood in the list that was cut."""

    rows: NDArray[np.int64]
    donors: NDArray[np.int64]
    differ: NDArray[np.uint64]
    cells: NDArray[np.int64]
    place: NDArray[np.intp]

    def part(self, which: slice) -> _Task:
        """Some of the pairs."""
        return _Task(
            self.rows[which], self.donors[which], self.differ[which], self.cells[which], self.place[which]
        )  # fmt: skip


class _Scratch:
    """What a thread works in."""

    def __init__(self, p: int, bound: BoundEnsemble) -> None:
        stack, parts = np.empty((bound.depth + 2, 3), np.uint64), np.empty((SMALL_TREE_LEAVES, 3), np.uint64)
        self.walk = np.empty(len(bound.unit) << p, np.int64), stack, parts, np.empty(p, np.uint64)  # table and players
        self.far, self.held, self.places = np.empty((2, 1 << p)), np.zeros((2, 1 << p)), np.empty(1 << p, np.int32)


class _Game:
    """The players, what the trees say of them and what the loss makes of that."""

    def __init__(self, bound: BoundEnsemble, players: Players, sample: Sample, loss: Loss, sides: int) -> None:
        self.bound, self.p, self.sample, self.loss, self.sides = bound, len(players), sample, loss, sides
        self.player, self.kind = _player_of(bound, players), _kind(bound, loss)
        self.forest = _forest(bound, self.player)
        self.target = sample.target(loss)
        self.y = np.zeros(sample.n) if self.kind == pair_kernels.GIVEN else self.target.astype(np.float64)
        self.scale = float(bound.unit[0] / bound.ensemble.divisor)
        self.shift = float(bound.ensemble.offset[0] / bound.ensemble.divisor)

    def room(self) -> _Scratch:
        return _Scratch(self.p, self.bound)

    def tasks(self, rows: NDArray[np.int64], donors: NDArray[np.int64]) -> Iterator[_Task]:
        """These pairs, those with the same players next to each other, some at a time."""
        differ, cells = np.empty(len(rows), np.uint64), np.empty(len(rows), np.int64)
        pair_kernels.compare(self.forest.codes, self.player, rows, donors, differ, cells)
        order = np.argsort(differ, kind="stable")
        whole = _Task(rows[order], donors[order], differ[order], cells[order], order)
        return _cut(whole, whole.cells * len(self.bound.unit) + len(self.bound.value), TASK)

    def play(self, task: _Task, room: _Scratch) -> tuple[Floats, Floats]:
        """The shares of each pair, (pairs, 2, p), as row and as donor; the summed losses of all coalitions."""
        shares, errors = np.empty((len(task.rows), 2, self.p)), np.zeros(1 << self.p)
        if self.kind == pair_kernels.GIVEN:
            done = 0
            for part in _cut(task, task.cells, CHUNK):
                self._sum(part, self._lose(part, room), room, shares[done : done + len(part.rows)], errors)
                done += len(part.rows)
        else:
            self._sum(task, np.empty((2, 0)), room, shares, errors)
        return shares, errors

    def _lose(self, task: _Task, room: _Scratch) -> Floats:
        """The losses of all coalitions of these pairs, for the rows' y and for the donors'."""
        sample, loss, bound = self.sample, self.loss, self.bound
        raw = np.empty((int(task.cells.sum()), len(bound.unit)), np.int64)
        pair_kernels.tell_pairs(task.rows, task.donors, task.differ, self.player, tuple(self.forest), room.walk, raw)
        prediction = bound.respond(raw)
        if loss.domains is not None:
            loss.check_prediction(prediction)
        lost = np.zeros((2, len(raw)))
        for side, judges in zip(lost, [task.rows, task.donors][: self.sides], strict=False):
            side[:] = loss(np.repeat(self.target[judges], task.cells), sample.shown(loss, prediction))
        return lost

    def _sum(self, task: _Task, lost: Floats, room: _Scratch, shares: Floats, errors: Floats) -> None:
        weight = self.sample.weight
        mass = np.zeros((len(task.rows), 2))
        mass[:, : self.sides] = (weight[task.rows] * weight[task.donors])[:, None]
        pair_kernels.play(
            self.kind, task.rows, task.donors, task.differ, self.player, self.y, mass, lost, self.scale, self.shift,
            tuple(self.forest), room.walk, room.far, room.held, room.places, shares, errors,
        )  # fmt: skip


def _cut(task: _Task, load: NDArray[np.int64], most: int) -> Iterator[_Task]:
    """Parts of about the same load."""
    number = (np.cumsum(load) - load) // most
    edges = np.flatnonzero(np.diff(number, prepend=-1, append=-1))
    return (task.part(slice(a, b)) for a, b in pairwise(edges))


def _stripes(game: _Game, keep_cells: bool) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """All pairs of two rows, once where both sides are judged; only if asked for those that have no weight."""
    n, counts = game.sample.n, game.sample.weight > 0
    step = max(1, PAIRS // n)
    for start in range(0, n, step):
        stop = min(n, start + step)
        rows, donors = np.repeat(np.arange(start, stop), n), np.tile(np.arange(n), stop - start)
        wanted = donors > rows if game.sides == 2 else donors != rows
        if not keep_cells:
            wanted &= counts[rows] | counts[donors]
        yield rows[wanted], donors[wanted]


def _work(
    game: _Game, tasks: Iterable[_Task], n_jobs: int | None, tick: Tick = silent
) -> Iterator[tuple[_Task, Floats, Floats]]:
    """The tasks and what came of them, in their order, whoever did them: the answer can't depend on n_jobs."""
    rooms = PerThread(game.room)

    def play(game: _Game, task: _Task, tick: Tick) -> tuple[_Task, Floats, Floats]:
        played = game.play(task, rooms.get())
        tick(len(task.rows) << game.p)
        return (task, *played)

    # A loss of the user's own may not be thread-safe.
    return in_process(1 if game.loss.custom else n_jobs).map(play, game, tasks, tick)


# What is prepared.


def _player_of(bound: BoundEnsemble, players: Players) -> Ints:
    """The player that each column belongs to; -1 where none."""
    player = np.full(len(bound.size), -1, np.int32)
    for j, columns in enumerate(players):
        player[list(columns)] = j
    return player


def _is_even(bound: BoundEnsemble, players: Players) -> bool:
    """Whether a row and its donor can be exchanged: no column outside the game matters."""
    return bool(np.all((_player_of(bound, players) >= 0) | (bound.size == 1)))


def _forest(bound: BoundEnsemble, player: Ints) -> PackedForest:
    nodes, leaves, n, p = bound.nodes, np.diff(bound.leaf_at), bound.codes.shape[1], int(player.max(initial=0)) + 1
    tree = (np.searchsorted(bound.roots, np.arange(len(nodes)), "right") - 1).astype(np.int32)
    owner = np.where(nodes[:, FEATURE] >= 0, player[nodes[:, FEATURE]], -1)
    owned = owner >= 0
    entries, of_owned = np.unique(tree[owned].astype(np.int64) * p + owner[owned], return_inverse=True)
    entry = np.full(len(nodes), -1, np.int32)
    entry[owned] = of_owned
    codes, first = np.ascontiguousarray(bound.codes.T), np.searchsorted(entries // p, np.arange(len(leaves) + 1))
    allowed, outside = np.empty((0, 0), np.uint64), np.empty((0, 0), np.uint64)
    if leaves.max() <= SMALL_TREE_LEAVES and n * len(entries) <= MASKS:
        allowed, outside = np.empty((n, len(entries)), np.uint64), np.empty((n, len(leaves)), np.uint64)
        under = np.empty((len(nodes), 2), np.uint64)
        pair_kernels.list_leaves(nodes, bound.leaf_at, tree, under)
        pair_kernels.allow(nodes, bound.size, bound.sets, tree, under, entry, codes, allowed, outside)
        outside &= ~np.uint64(0) >> (SMALL_TREE_LEAVES - leaves).astype(np.uint64)  # no tree has more
    return PackedForest(
        nodes, bound.roots, bound.size, bound.sets, bound.leaf_at, bound.value, bound.output, codes,
        first.astype(np.int32), (entries % p).astype(np.int32), allowed, outside,
    )  # fmt: skip


def _kind(bound: BoundEnsemble, loss: Loss) -> int:
    """How a loss is computed; a link is known by what it makes of a few scores."""
    if bound.ensemble.outputs != 1 or loss not in (losses.squared_error, losses.brier, losses.log_loss):
        return pair_kernels.GIVEN
    said = bound.ensemble.link(PROBE[:, None].copy())
    if said.dtype != np.float64 or (said.ndim == 2 and said.shape[1] != 2):
        return pair_kernels.GIVEN
    score = said if said.ndim == 1 else said[:, 1]
    if loss != losses.log_loss:
        return pair_kernels.SQUARED if np.array_equal(score, PROBE) else pair_kernels.GIVEN
    logistic = 1 / (1 + np.exp(-PROBE))
    return pair_kernels.LOGISTIC if np.allclose(score, logistic, 1e-14, 0) else pair_kernels.GIVEN
