"""Errors of coalitions of players over all pairs, from trees that need no pair for them.

A player is one or several columns. The players of a coalition keep a row's values, the others take a donor's; columns
of no player are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from losslens.donors.questions import Subject
from losslens.engines.trees.bound import BoundEnsemble
from losslens.engines.trees.node_rules import FEATURE
from losslens.losses import Loss
from losslens.progress import Tick
from losslens.tables.sample import Sample
from losslens.typing import Floats, Indices, Mask

if TYPE_CHECKING:
    from losslens.engines.trees.engine import Trees

Players = Sequence[Subject]
RowErrors = Callable[[Mask], tuple[Floats, Floats]]
TotalErrors = Callable[[Mask], tuple[float, float]]


def single_tree(engine: Trees, players: Players, sample: Sample, loss: Loss) -> RowErrors:
    """Errors of rows and of donors, sums over the leaves: any loss."""
    y, said = sample.target(loss), engine.said_by_leaves

    def leaf_loss(leaves: Indices, rows: Indices) -> Floats:
        return loss(y[rows], sample.shown(loss, said[leaves]))

    return lambda S: engine.errors_of_single_tree(_kept(engine.bound, players, S), leaf_loss, sample.weight)


def device_pairs(engine: Trees, players: Players, sample: Sample, loss: Loss) -> RowErrors:
    """Errors of rows and of donors, from all pairs on a device: any named loss."""
    prepared = engine.device_pairs(loss, np.asarray(sample.target(loss), float), sample.weight)
    bound, used = engine.bound, _used(engine.bound, players)
    last: dict[bytes, tuple[Floats, Floats]] = {}

    def errors(S: Mask) -> tuple[Floats, Floats]:
        if S[used].all():  # the rows as they are
            assert sample.loss is not None
            return sample.loss, np.full(sample.n, sample.error)
        mine = (S & used).tobytes()
        if mine not in last:  # players that no tree asks for change nothing, to the last bit
            last.clear()  # such coalitions follow each other
            last[mine] = prepared.means(np.isin(np.arange(len(bound.size)), _kept(bound, players, S)))
        return last[mine]

    return errors


def totals(engine: Trees, players: Players, sample: Sample, loss: Loss, tick: Tick) -> TotalErrors:
    """Squared errors of a coalition and of its complement, from the leaves; each is counted once."""
    target = engine.squared_target(loss, sample.target(loss))
    assert target is not None  # `Trees.gives_totals` has been asked
    prepared, bound, used = engine.coalition_errors(target, sample.weight), engine.bound, _used(engine.bound, players)
    covers_table = sum(len(player.feature.columns) for player in players) == len(bound.size)
    known: dict[bytes, tuple[float, float]] = {}

    def both(S: Mask) -> tuple[float, float]:
        """Coalitions that differ by players that no tree asks for are the same one, to the last bit."""
        mine, others = (S & used).tobytes(), (~S & used).tobytes()
        if mine not in known:
            known[mine] = counted(S)
            known[others] = known[mine][1], known[mine][0]
        return known[mine]

    def counted(S: Mask) -> tuple[float, float]:
        tick(1)
        if covers_table:
            return prepared.errors(_kept(bound, players, S))
        return prepared.error(_kept(bound, players, S)), prepared.error(_kept(bound, players, ~S))

    return both


def _kept(bound: BoundEnsemble, players: Players, S: Mask) -> Indices:
    """The columns that rows keep: those of the coalition, and those of no player."""
    replaced = [j for k in np.flatnonzero(~S).tolist() for j in players[k].feature.columns]
    return np.setdiff1d(np.arange(len(bound.size)), replaced)


def _used(bound: BoundEnsemble, players: Players) -> Mask:
    """The players that a tree asks for."""
    asked = np.isin(np.arange(len(bound.size)), bound.nodes[:, FEATURE])
    return np.array([bool(asked[list(player.feature.columns)].any()) for player in players])
