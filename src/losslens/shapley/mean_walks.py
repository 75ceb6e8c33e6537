"""Walks from all donors together, whose predictions are averaged before the loss: SAGE's shares."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from losslens.game_theory import random_orders
from losslens.progress import silent
from losslens.results.shapley import Shares
from losslens.shapley import control_variates
from losslens.shapley.loss_walks import STEPS_AT_ONCE, PerformanceWalk, WalkSummary
from losslens.shapley.setup import FullGain
from losslens.shapley.walks import Sweep, contributions, path
from losslens.shapley.way import all_pairs
from losslens.typing import Floats, Indices
from losslens.uncertainty import standard_errors


@dataclass(frozen=True, eq=False, kw_only=True)
class MeanWalk(PerformanceWalk):
    """From all donors together, whose predictions are averaged before the loss."""

    donors: Indices  # (B,)

    @property
    def donor_weight(self) -> Floats:
        """The weights of the donors; they sum to one."""
        weight = self.setup.sample.weight[self.donors]
        return np.asarray(weight / weight.sum())

    @cached_property
    def gain(self) -> FullGain | None:
        """All walks of a row have the same ends."""
        setup = self.setup
        if not setup.covers_table:
            return None
        mean = np.tensordot(self.donor_weight, setup.sample.prediction[self.donors], 1)
        every = np.broadcast_to(mean, (setup.n, *mean.shape))
        assert setup.sample.loss is not None
        by_row = setup.losses(np.arange(setup.n), np.ascontiguousarray(every)) - setup.sample.loss
        return FullGain(by_row, np.zeros(setup.n))

    @property
    def total_error(self) -> float:
        """From the gains of rows."""
        if self.gain is None:
            return np.inf
        return float(
            np.linalg.norm(standard_errors.influence_on_mean(self.gain.by_row[:, None], self.setup.sample.weight))
        )

    def sweeps(self, count: int) -> list[Sweep]:
        """In each, every row has one order for all donors."""
        return [self._sweep() for _ in range(count)]

    def _sweep(self) -> Sweep:
        setup = self.setup
        orders, rows = random_orders(setup.n, setup.p, self.rng), np.arange(setup.n)
        together = max(1, STEPS_AT_ONCE // (self.donors_predicted * (setup.p + 1)))
        predict = lambda part: self.mean_path(rows[part], orders[part])  # noqa: E731
        shares, steps, _ = contributions(setup.arrays, rows, orders, predict, together)
        return Sweep(self.donors, orders.astype(np.int16), shares, steps)

    @property
    def donors_predicted(self) -> int:
        """Donors whose predictions are averaged, at each step."""
        return len(self.donors)

    def mean_path(self, rows: Indices, orders: Indices) -> NDArray[Any]:
        """Mean predictions over the donors along walks to these rows, (b, p + 1, ...)."""
        B, donors = len(self.donors), np.tile(self.donors, len(rows))
        predictions = path(self.setup.arrays, np.repeat(rows, B), donors, np.repeat(orders, B, 0))
        predictions = predictions.reshape(len(rows), B, *predictions.shape[1:])
        return np.asarray(np.einsum("ib...,b->i...", predictions, self.donor_weight))

    def summary(self, sweeps: list[Sweep]) -> WalkSummary:
        """Means over the sweeps, with the effect of the order as a control; every row's total is exact."""
        n, weight, cells = self.setup.n, self.setup.sample.weight, np.stack([one.shares for one in sweeps], axis=1)
        gains = cells.sum(axis=2).mean(axis=1)  # the same in every sweep
        if all(one.steps is not None for one in sweeps):
            cells = control_variates.without_order_terms(self.setup, sweeps, cells, self.parts(sweeps))
        local = cells.mean(axis=1)
        noise = np.full(self.setup.p, np.nan)
        if len(sweeps) > 1:
            noise = np.sqrt(np.square(weight) @ cells.var(axis=1, ddof=1) / len(sweeps))
        shares = Shares(local, None, all_pairs(n))
        return WalkSummary(weight @ local, shares, noise, float(weight @ gains), gains)

    def parts(self, sweeps: list[Sweep]) -> Floats:
        """What each player adds to each row's mean prediction, (n, p), estimated from the steps of the walks."""
        return control_variates.own_parts(self.setup, sweeps, np.isin(np.arange(self.setup.n), self.donors))

    def sampling(self, summary: WalkSummary) -> Floats:
        """From the variation between rows; donors are taken as fixed."""
        return np.asarray(
            np.linalg.norm(standard_errors.influence_on_mean(summary.shares.local, self.setup.sample.weight), axis=0)
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class ExactMeanWalk(MeanWalk):
    """The same where an engine knows the mean predictions: only orders are drawn.

    The Shapley value phi_ij of a row's prediction is known, too. Of the squared loss a step d of the mean prediction m
    is worth (2 y_i - m_before - m_after) d. Its part that is linear in m, 2 y_i d, has the exact mean 2 y_i phi_ij,
    over rows a covariance. What depends on the order is the square, as ``d_j (sum of d before j - sum of d after j)``
    of a sum with the steps phi_ij does. These terms have mean 0 over orders, and are the control variates of
    `MeanWalk`: here from exact steps, not from estimated ones.
    """

    along: Callable[[Indices, Indices], NDArray[Any]]  # rows and orders to mean predictions

    @property
    def donors_predicted(self) -> int:
        """None of its own: their mean is known."""
        return 1

    def mean_path(self, rows: Indices, orders: Indices) -> NDArray[Any]:
        """From the engine."""
        self.setup.counter.tick(len(rows) * (self.setup.p - 1))
        return self.along(rows, orders)

    def parts(self, sweeps: list[Sweep]) -> Floats:
        """phi, (n, p), of the second of two classes."""
        return self._effects if self._effects.ndim == 2 else self._effects[:, :, 1]

    @cached_property
    def _effects(self) -> Floats:
        """Shapley values of the predictions of all rows."""
        task = self.setup.task
        return np.asarray(task.games.effects(task.every, self.donors, self.donor_weight, task.n_jobs, silent))
