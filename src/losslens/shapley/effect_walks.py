"""Walks to some rows: they distribute the predictions of these rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from losslens.game_theory import along, random_orders
from losslens.progress import Tick, silent
from losslens.shapley import control_variates
from losslens.shapley.setup import BINS
from losslens.shapley.stopping import MOST_PREDICTIONS
from losslens.shapley.walks import SWEEP_BYTES, Sweep, WalkKind, check_memory, walk_from_donors
from losslens.typing import Floats, Indices
from losslens.workers import in_process

STEPS_AT_ONCE = 1 << 17  # predicted at a time, and between two updates of the progress bar
FIRST_SWEEPS = 10  # before the first stopping decision
PRECISE = 0.01  # of the predictions' standard deviation: sweeps are drawn until the Monte-Carlo error is below
MIN_WALKS = 40 * BINS  # to estimate additive parts; fewer would fit noise
SLOPE_REACH = 0.01  # of the sums' standard deviation, for slopes of a link
STRATA = 4  # of the donors, unless the budget allows less
LINKED_STEPS_AT_ONCE = 1 << 15  # of the sums, which stay in the processor's cache


@dataclass(frozen=True, eq=False, kw_only=True)
class EffectWalk(WalkKind):
    """To some rows, from donors drawn by weight; distributes the predictions of these rows."""

    rows: Indices
    donors: Indices
    weight: Floats  # of the donors
    budget: int | None
    memory: int  # bytes for the sweeps
    sweep_bytes: ClassVar[int] = SWEEP_BYTES  # per row and player

    @cached_property
    def max_sweeps(self) -> int:
        """The most sweeps that the budget allows."""
        most = ((self.budget or MOST_PREDICTIONS) - self.setup.counter.rows) // max(1, self.cost)
        if most < 2:
            raise ValueError(f"two sweeps of walks take {2 * self.cost:,} predictions; raise budget=")
        return int(most)

    @property
    def first_sweeps(self) -> int:
        """All that the budget allows, if there is one."""
        first = self.max_sweeps if self.budget is not None else min(FIRST_SWEEPS, self.max_sweeps)
        check_memory(first, len(self.rows), self.setup.p, self.memory, self.sweep_bytes)
        return first

    @property
    def predictions_at_once(self) -> int:
        """Predictions between two updates of the progress bar."""
        return STEPS_AT_ONCE

    def sweeps(self, count: int) -> list[Sweep]:
        """Each from new donors."""
        donors = np.stack([self._draw_donors(len(self.rows)) for _ in range(count)])
        together = max(1, STEPS_AT_ONCE // self.setup.p)
        return walk_from_donors(self.setup.arrays, self.rows, donors, self.rng, together, judged=False)

    def _draw_donors(self, r: int) -> Indices:
        """A systematic draw along a random order: every donor as often as its weight says, up to rounding."""
        order = self.rng.permutation(len(self.donors))
        level = (np.arange(r) + self.rng.random()) / r
        place = np.searchsorted(np.cumsum(self.weight[order]), level, side="right")
        return self.donors[order][np.minimum(place, len(order) - 1)][self.rng.permutation(r)]

    def sweeps_needed(self, sweeps: list[Sweep]) -> int:
        """Until the errors are small compared to the spread of the predictions."""
        if self.budget is not None or (missing := self.noise(sweeps)) <= 1:
            return len(sweeps)
        needed = int(1 + len(sweeps) * min(4.0, missing))
        check_memory(min(needed, self.max_sweeps), len(self.rows), self.setup.p, self.memory, self.sweep_bytes)
        return needed

    def noise(self, sweeps: list[Sweep]) -> float:
        """The variance of these sweeps over that of precise ones; 1 if all donors have the same prediction."""
        error = np.sqrt(np.mean(np.square(self.summary(sweeps)[1]), axis=0)).max()
        precise = PRECISE * float(self.setup.sample.prediction[self.donors].std())
        return float((error / precise) ** 2) if error > precise > 0 else 1.0

    def summary(self, sweeps: list[Sweep]) -> tuple[Floats, Floats]:
        """What each player adds to each row, and its Monte-Carlo error, (r, p) each.

        Means over the walks of each row; the donor's additive part and the known total are control variates.
        """
        setup, R = self.setup, len(sweeps)
        cells = np.stack([one.shares for one in sweeps], axis=1)  # (r, R, p)
        self.subtract_controls(cells, sweeps)
        if setup.covers_table:
            base = setup.sample.prediction
            excess = cells.sum(axis=2) - (base[self.rows] - self.weight @ base[self.donors])[:, None]
            cells = cells - excess[:, :, None] * _slopes(cells, excess)
        return cells.mean(axis=1), cells.std(axis=1, ddof=1) / np.sqrt(R)

    def subtract_controls(self, cells: Floats, sweeps: list[Sweep]) -> None:
        """Subtract, in place, what is explained by the additive part of the donor: its mean over the donors is 0."""
        donors = np.stack([one.donors for one in sweeps], axis=1)
        if cells.shape[0] * len(sweeps) < 2 * MIN_WALKS:
            return
        for half in range(2):  # cross-fitting: no walk is fitted to its own noise
            parts = control_variates.additive_parts(self.setup, sweeps[1 - half :: 2], self.rows)
            parts = parts - self.weight @ parts[self.donors]
            cells[:, half::2] += parts[donors[:, half::2]]


@dataclass(frozen=True, eq=False, kw_only=True)
class LinkedWalk(EffectWalk):
    """To some rows, where an engine knows the sums u of which a link h makes predictions: log-odds, say.

    A step of player j from donor k towards row i moves the sums by s_j, (K,), and the prediction by about g s_j, with g
    the slopes of the link, (K,). Over all orders s_j averages to a_j(i, k), j's Shapley value on the scale of the sums,
    which has a closed form. With slopes g(i) at the row's sums, g(k) at the donor's, and their mean over donors g, each
    step has three control variates, whose means over orders and over donors with weights w_k are exact:

        g(i) s_j,   mean  g(i) A_j(i),               A_j(i) = sum over k of w_k a_j(i, k)
        g(k) s_j,   mean  sum over k of w_k g(k) a_j(i, k)
        g s_j,      mean  g A_j(i)

    So the donors are counted with the weights w and w g_1, .., w g_K. Subtracting any multiples of the controls less
    their means changes no expectation, if the multiples don't depend on the walk: they are fitted to the other half of
    the sweeps. What is left is the bend of the link between row and donor; of a linear link nothing. Slopes need not be
    those of the link for this to hold, so difference quotients will do.
    """

    strata: int  # of the donors, by their predictions: a row has two walks from each of them in a sweep
    pick: Callable[[NDArray[Any]], NDArray[Any]]  # one number of each prediction
    tick: Tick
    sweep_bytes = 128

    @property
    def games(self) -> Any:
        """Of the engine."""
        return self.setup.task.games

    @cached_property
    def slopes(self) -> Floats:
        """The slopes of the link at the sums of each row, (n, K)."""
        every, p = np.arange(self.setup.n), self.setup.p
        own = self.games.walk_sums(every, every, np.tile(np.arange(p), (len(every), 1)))[:, -1]
        reach = SLOPE_REACH * np.where(np.ptp(own, axis=0) > 0, own.std(axis=0), 1.0)
        ends = [[self._respond(own + side * np.diag(reach)[k]) for side in (-1, 1)] for k in range(own.shape[1])]
        return np.stack([(high - low) / (2 * step) for (low, high), step in zip(ends, reach, strict=True)], axis=1)

    def _respond(self, sums: Floats) -> Floats:
        """The explained prediction, from sums (..., K)."""
        return np.asarray(self.pick(self.games.respond(sums.reshape(-1, sums.shape[-1]))), float).reshape(
            sums.shape[:-1]
        )

    @cached_property
    def mean_slope(self) -> Floats:
        """Over the donors, (K,)."""
        return np.asarray(self.weight @ self.slopes[self.donors])

    @cached_property
    def means(self) -> Floats:
        """The exact means of the controls, (3, p, r)."""
        weight = np.bincount(self.donors, self.weight, self.setup.n)
        weights = np.vstack([weight, weight * self.slopes.T])
        effects = self.games.effects_on_sums(weights, self.setup.task.n_jobs, silent)(self.rows)  # (1 + K, r, p, K)
        at_row = np.einsum("rk,rpk->pr", self.slopes[self.rows], effects[0])
        at_donor = np.einsum("krpk->pr", effects[1:])
        return np.stack([at_row, at_donor, np.einsum("k,rpk->pr", self.mean_slope, effects[0])])

    def sweeps(self, count: int) -> list[Sweep]:
        """Each row has donors from all strata, and for each of these walks in an order and in its reverse."""
        (r, p), D, means = (len(self.rows), self.setup.p), self.strata, self.means
        donors = np.stack([self._draw_strata(r) for _ in range(count)]).reshape(-1)  # sweep, row, stratum
        orders, rows = random_orders(len(donors), p, self.rng), np.tile(np.repeat(self.rows, D), count)
        step = max(1, LINKED_STEPS_AT_ONCE // (2 * D * (p + 1))) * D
        slices = [slice(start, start + step) for start in range(0, len(rows), step)]
        parts = [(rows[some], donors[some], orders[some]) for some in slices]
        done = in_process(self.setup.task.n_jobs).map(_linked_steps, self, parts, self.tick)
        steps = np.concatenate(list(done), axis=2).reshape(4, p, count, r)
        return [Sweep(donors, orders, one[0].T, None, controls=one[1:] - means) for one in np.moveaxis(steps, 2, 0)]

    def _draw_strata(self, r: int) -> Indices:
        """For each row donors that are evenly spaced in the order of their predictions, (r, strata), by weight."""
        level = (np.arange(self.strata) + self.rng.random((r, 1))) / self.strata
        place = np.searchsorted(self._ranked[1], level, side="right")
        return self._ranked[0][np.minimum(place, len(self.donors) - 1)]

    @cached_property
    def _ranked(self) -> tuple[Indices, Floats]:
        """The donors in the order of their predictions, and their cumulated weights."""
        order = np.argsort(self.setup.sample.prediction[self.donors], kind="stable")
        return self.donors[order], np.cumsum(self.weight[order])

    def subtract_controls(self, cells: Floats, sweeps: list[Sweep]) -> None:
        """Subtract, in place, what the steps of the sums explain."""
        controls = np.stack([one.controls for one in sweeps], axis=3)
        left = np.ascontiguousarray(cells.transpose(2, 0, 1))
        control_variates.subtract_centred(left, controls, np.array([0.5, 0.5, 0.0]))
        cells[:] = left.transpose(1, 2, 0)


def _linked_steps(walk: LinkedWalk, part: tuple[Indices, Indices, Indices], tick: Tick) -> Floats:
    """By how much each player changes the prediction, and its three controls: means over strata, (4, p, rows)."""
    rows, donors, orders = part
    mean_slope = np.broadcast_to(walk.mean_slope, walk.slopes[rows].shape)
    steps = np.zeros((4, orders.shape[1], len(rows) // walk.strata))
    for there in (orders, orders[:, ::-1]):
        sums = walk.games.walk_sums(rows, donors, there)
        slopes = (walk.slopes[rows], walk.slopes[donors], mean_slope)
        controls = [np.einsum("bsk,bk->bs", sums, one) for one in slopes]
        for total, one in zip(steps, (walk._respond(sums), *controls), strict=True):
            total -= along(there, one).reshape(-1, walk.strata, len(total)).sum(axis=1).T / (2 * walk.strata)
        tick(len(rows) * (orders.shape[1] - int(walk.setup.covers_table)))
    return steps


def _slopes(cells: Floats, excess: Floats) -> Floats:
    """Each player's average part of a walk's excess, (p,); the parts sum to one."""
    pull = excess - excess.mean(axis=1, keepdims=True)
    spread = float(np.sum(pull * cells.sum(axis=2)))
    if not spread > 1e-12 * float(np.sum(np.square(cells.sum(axis=2)))):
        return np.full(cells.shape[2], 1 / cells.shape[2])
    return np.asarray(np.einsum("irp,ir->p", cells, pull) / spread)
