"""Additive models: f = b + sum over columns of g_j(x_j). All pairs in closed form.

With c = g - its mean and r = y - f, replacing a row's g_i by a donor's g_k moves the squared loss by
``(r_i + c_i - c_k)^2 - r_i^2``. Its mean over the donors is ``c_i (2 r_i + c_i) + var(c)``: O(1) a row.
Absolute, pinball and hinge losses are ``up_i max(0, u_i - c_k) + down_i max(0, c_k - u_i)`` with u_i the value of c at
which the loss is zero: sums of the sorted c give the mean over the donors in O(log n) a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from losslens.donors.questions import Subject
from losslens.engines import rates
from losslens.engines.base import BLOCKED, AnswerWay, Declined, ExactEngine, PlayerGames
from losslens.losses import Loss, squared_error
from losslens.progress import Tick
from losslens.tables.frames import Table
from losslens.typing import Floats, Indices

if TYPE_CHECKING:
    from losslens.engines.readers.unwrapped import UnwrappedModel

ROWS = 8192  # handled at a time: a table of another layout is copied piece by piece


@dataclass(frozen=True, eq=False)
class Additive(ExactEngine):
    """What each column of the table adds: ``scale[j] * parts[:, j]``."""

    parts: Floats  # (n, p)
    scale: Floats  # (p,)
    intercept: float
    name: ClassVar[str] = "additive"

    @classmethod
    def of(cls, coef: Floats, intercept: float, unwrapped: UnwrappedModel, table: Table) -> Self:
        """A linear model of the columns that an estimator sees, on the columns of a table."""
        if len(coef) != len(unwrapped.source):
            raise Declined("it was fitted on another number of columns")
        if unwrapped.transform is None:
            return cls(unwrapped.matrix(table), coef, intercept)
        # What the columns made of one column add together.
        p = len(table.names)
        spread = np.zeros((len(coef), p))
        spread[np.arange(len(coef)), unwrapped.source] = coef
        parts = np.concatenate([np.asarray(part @ spread) for part in unwrapped.chunks(table)])
        return cls(parts, np.ones(p), intercept)

    @cached_property
    def prediction(self) -> Floats:
        """f, (n,)."""
        return np.asarray(self.parts @ self.scale + self.intercept)

    def predict(self, rows: NDArray[np.intp]) -> Floats:
        """Predictions of some rows."""
        return np.asarray(self.parts[rows] @ self.scale + self.intercept)

    def way(self, subject: Subject, loss: Loss | None, *, blocked: bool) -> AnswerWay:
        """Sums over all donors."""
        if blocked:
            raise Declined(BLOCKED)
        return "sums"

    def seconds(self, subject: Subject, way: AnswerWay) -> float:
        """A few operations a row."""
        return rates.ADDED * len(self.parts)

    def contribution(self, columns: Sequence[int], weight: Floats) -> Floats:
        """c of some columns together, (n,)."""
        return centred(self.parts[:, list(columns)] @ self.scale[list(columns)], weight)

    def games(self, players: Sequence[Subject]) -> AdditiveGames:
        """The squared loss, and predictions, in closed form."""
        return AdditiveGames(self, players)


@dataclass(frozen=True, eq=False)
class AdditiveGames(PlayerGames):
    """A player adds its contribution to a prediction."""

    engine: Additive
    players: Sequence[Subject]

    def contributions(self, weight: Floats) -> Floats:
        """c of each player, (n, p), centred."""
        return np.stack([self.engine.contribution(player.feature.columns, weight) for player in self.players], axis=1)

    def ways(self, loss: Loss, *, averaged: bool) -> dict[str, float]:
        """See `contributions`."""
        return {"closed form": 0.0} if loss == squared_error and not averaged else {}

    def effect_ways(self, rows: int, donors: int) -> dict[str, float]:
        """See `effects`."""
        return {"closed form": 0.0}

    def effects(self, rows: Indices, donors: Indices, weight: Floats, n_jobs: int | None, tick: Tick) -> Floats:
        """Shapley values of the predictions of some rows, (rows, p); donors have weights."""
        return self.contributions(np.bincount(donors, weight, len(self.engine.parts)).astype(float))[rows]


def centred(added: Floats, weight: Floats) -> Floats:
    """c, (n,): what is added to each row, less its mean."""
    added = added - added[0]  # a constant is exactly 0
    return np.asarray(added - weight @ added)


@dataclass(frozen=True, eq=False)
class Moments:
    """Of each column: the mean of what the model reads, the variance of c, and its covariance with the residuals."""

    mean: Floats  # (p,)
    variance: Floats  # (p,)
    covariance: Floats  # (p,)

    @classmethod
    def of(cls, engine: Additive, residual: Floats, weight: Floats) -> Moments:
        """One pass over the table."""
        from losslens.engines.additive_sums import add_moments

        parts, scale, pull = engine.parts, engine.scale, weight * residual
        head = parts[:ROWS]
        # Any typical value keeps the digits of the variance; the value itself makes a constant column exactly 0.
        shift = np.ascontiguousarray(np.where((head == head[0]).all(axis=0), head[0], head.mean(axis=0)))
        first, second, cross = sums = np.zeros((3, parts.shape[1]))
        for start in range(0, len(parts), ROWS):
            rows = slice(start, start + ROWS)
            add_moments(np.ascontiguousarray(parts[rows]), shift, weight[rows], pull[rows], sums)
        variance = scale**2 * np.maximum(second - first**2, 0.0)
        return cls(shift + first, variance, scale * (cross - first * (weight @ residual)))

    @property
    def pfi(self) -> Floats:
        """The mean change of a squared loss over all rows and donors, (p,)."""
        return np.asarray(2 * (self.variance + self.covariance))


@dataclass(frozen=True, eq=False)
class Hinges:
    """``up_i max(0, u_i - c) + down_i max(0, c - u_i)``: the loss of each row as a function of c."""

    zero: Floats  # u, (n,)
    up: Floats  # (n,)
    down: Floats  # (n,)

    def over_donors(self, c: Floats, weight: Floats) -> Floats:
        """The mean loss of each row over the donors, (n,)."""
        short = _shortfall(c, weight, self.zero)
        return np.asarray(self.up * short + self.down * (short - (weight.sum() * self.zero - weight @ c)))

    def over_rows(self, c: Floats, weight: Floats) -> Floats:
        """The mean loss of all rows at each value of c."""
        up, down = weight * self.up, weight * self.down
        over = _shortfall(-self.zero, up, -c)  # sum of up max(0, u - c)
        return np.asarray(over + _shortfall(self.zero, down, c))


def _shortfall(c: Floats, weight: Floats, u: Floats) -> Floats:
    """sum over k of w_k max(0, u - c_k), for each u."""
    order = np.argsort(c)
    below = np.searchsorted(c[order], u)
    mass = np.concatenate([[0.0], np.cumsum(weight[order])])[below]
    reach = np.concatenate([[0.0], np.cumsum(weight[order] * c[order])])[below]
    return np.asarray(mass * u - reach)


def hinges(loss: Loss, y: NDArray[np.generic], prediction: Floats, c: Floats) -> Hinges:
    """A loss of two straight lines as a function of one feature's contribution."""
    n = len(c)
    if loss.name == "hinge":  # 1 - s (f - c_i + c), s = +1 for the second class and -1 for the first
        sign = np.where(y == 1, 1.0, -1.0)
        return Hinges(sign - prediction + c, (sign > 0).astype(float), (sign < 0).astype(float))
    alpha = dict(loss.parameters).get("alpha")
    up, down = (1.0, 1.0) if alpha is None else (alpha, 1 - alpha)
    return Hinges(np.asarray(y, float) - prediction + c, np.full(n, up), np.full(n, down))
