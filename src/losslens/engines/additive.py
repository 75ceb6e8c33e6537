"""Additive models: f = b + sum over columns of g_j(x_j). All pairs in closed form.

With c = g - mean(g) and r = y - f, replacing a row's g_i by a donor's g_k changes the squared loss by
``(r_i + c_i - c_k)^2 - r_i^2``. Its mean over the donors is ``c_i (2 r_i + c_i) + var(c)``: O(1) per row.
Absolute, pinball and hinge losses are ``up_i max(0, u_i - c_k) + down_i max(0, c_k - u_i)`` with u_i the value of c at
which the loss is zero: cumulative sums of the sorted c give the mean over the donors in O(log n) per row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import fsum
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from losslens.donors.questions import Subject
from losslens.engines import rates
from losslens.engines.base import BLOCKED, AnswerWay, Declined, ExactEngine, PlayerGames, SumEffects
from losslens.engines.loss_scales import weights_of_sums
from losslens.losses import Loss, squared_error
from losslens.progress import Tick
from losslens.tables.frames import Table
from losslens.typing import Floats, Indices

if TYPE_CHECKING:
    from losslens.engines.readers.unwrapped import UnwrappedModel

CHUNK_ROWS = 512  # rows read at a time, which stay in the processor's cache until everything of them is computed
SOME_ROWS = 8192  # rows that say what is typical


@dataclass(frozen=True, eq=False)
class Additive(ExactEngine):
    """An additive model on a table; column j adds ``scale[j] * parts[:, j]`` to the predictions."""

    parts: Floats  # (n, p)
    scale: Floats  # (p,)
    intercept: float
    name: ClassVar[str] = "additive"

    @classmethod
    def of(cls, coef: Floats, intercept: float, unwrapped: UnwrappedModel, table: Table) -> Self:
        """The engine of a linear model; coef has one entry per column of the estimator's input."""
        if len(coef) != len(unwrapped.source):
            raise Declined(f"the model was fitted on {len(coef)} columns, but its input has {len(unwrapped.source)}")
        if unwrapped.transform is None:
            return cls(unwrapped.matrix(table), coef, intercept)
        # Sum the contributions of all input columns that are derived from the same column of the table.
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
        """Predictions of the given rows, from differences, as importances are: unlike the model's, they lose no digits
        where values are far from 0.
        """
        parts = self.parts[rows] if rows.ndim == 1 else np.take_along_axis(self.parts, rows, axis=0)
        base = fsum([*(self.parts[0] * self.scale).tolist(), self.intercept])
        return np.asarray((parts - self.parts[0]) @ self.scale + base)

    def way(self, subject: Subject, loss: Loss | None, *, blocked: bool) -> AnswerWay:
        """Closed-form sums over all donors."""
        if blocked:
            raise Declined(BLOCKED)
        return "sums"

    def seconds(self, subject: Subject, way: AnswerWay) -> float:
        """A few operations per row."""
        return rates.ADDED * len(self.parts)

    def contribution(self, columns: Sequence[int], weight: Floats) -> Floats:
        """The centred sum c of the contributions of some columns, (n,)."""
        return centred(self.parts[:, list(columns)] @ self.scale[list(columns)], weight)

    def games(self, players: Sequence[Subject]) -> AdditiveGames:
        """Closed forms for the squared loss and for predictions."""
        return AdditiveGames(self, players)


@dataclass(frozen=True, eq=False)
class AdditiveGames(PlayerGames):
    """Games in which each player adds its contribution to the prediction."""

    engine: Additive
    players: Sequence[Subject]

    def contributions(self, weight: Floats) -> Floats:
        """The centred contributions c of all players, (n, p)."""
        parts = np.empty((len(weight), len(self.players)))
        for k, player in enumerate(self.players):
            parts[:, k] = self.engine.contribution(player.feature.columns, weight)
        return parts

    def ways(self, loss: Loss, *, averaged: bool) -> dict[str, float]:
        """Closed form for the squared loss, from `contributions`."""
        return {"closed form": 0.0, "covariance": 0.0} if loss == squared_error and not averaged else {}

    def sum_weights(self, loss: Loss, y: NDArray[Any]) -> Floats | None:
        """2y for the squared loss."""
        return weights_of_sums(loss, y, 1.0, 1) if loss == squared_error else None

    def effects_on_sums(self, weights: Floats, n_jobs: int | None, tick: Tick) -> SumEffects:
        """The differences between what each player adds to a row and to the donors, for weights (D, n)."""
        return differences(self.contributions(weights[0])[:, :, None], weights)

    def effect_ways(self, rows: int, donors: int) -> dict[str, float]:
        """Closed form, see `effects`."""
        return {"closed form": 0.0}

    def effects(self, rows: Indices, donors: Indices, weight: Floats, n_jobs: int | None, tick: Tick) -> Floats:
        """Shapley values of the predictions of some rows, (rows, p); weight: of the donors."""
        return self.contributions(np.bincount(donors, weight, len(self.engine.parts)).astype(float))[rows]


def differences(added: Floats, weights: Floats) -> SumEffects:
    """``sum over k of weights[d, k] (added[i] - added[k])``, for additions (n, p, K): a function of the rows i."""
    total, lent = weights.sum(axis=1)[:, None, None, None], np.tensordot(weights, added, 1)[:, None]
    return lambda rows: total * added[rows] - lent


def centred(added: Floats, weight: Floats) -> Floats:
    """c, (n,): the contributions minus their weighted mean."""
    added = added - added[0]  # so that a constant contribution gives exactly 0
    return np.asarray(added - weight @ added)


@dataclass(frozen=True, eq=False)
class Moments:
    """Per column: the mean of the model's input, the variance of c, and the covariance of c and the residuals."""

    mean: Floats  # (p,)
    variance: Floats  # (p,)
    covariance: Floats  # (p,)

    @property
    def pfi(self) -> Floats:
        """The mean change of the squared loss over all rows and donors, (p,)."""
        return np.asarray(2 * (self.variance + self.covariance))


@dataclass(frozen=True, eq=False)
class AdditiveRows:
    """What one pass over the rows gives: predictions, copies of columns, and of the squared loss r and its moments."""

    prediction: Floats  # f, (n,)
    columns: dict[int, Floats]  # (n,) each, as the model reads them
    residual: Floats | None = None  # r, (n,)
    moments: Moments | None = None

    @classmethod
    def read(cls, engine: Additive, columns: Sequence[int], y: Floats | None, weight: Floats) -> AdditiveRows:
        """From memory once; y: of the squared loss."""
        from losslens.engines.additive_sums import add_moments

        parts, scale, (n, p) = engine.parts, engine.scale, engine.parts.shape
        head = parts[:SOME_ROWS]
        # Any typical value avoids cancellation in the variance; a constant column minus its own value is exactly 0.
        shift = np.ascontiguousarray(np.where((head == head[0]).all(axis=0), head[0], head.mean(axis=0)))
        first, second, cross = sums = np.zeros((3, p))
        prediction, residual, copies = np.empty(n), np.empty(0 if y is None else n), np.empty((len(columns), n))
        some = slice(None) if len(columns) == p else list(columns)  # a slice is no copy
        for start in range(0, n, CHUNK_ROWS):
            rows = slice(start, start + CHUNK_ROWS)
            chunk = np.ascontiguousarray(parts[rows])
            copies[:, rows] = chunk[:, some].T
            prediction[rows] = chunk @ scale + engine.intercept
            if y is not None:
                residual[rows] = y[rows] - prediction[rows]
                add_moments(chunk, shift, weight[rows], weight[rows] * residual[rows], sums)
        copied = dict(zip(columns, copies, strict=True))
        if y is None:
            return cls(prediction, copied)
        variance = scale**2 * np.maximum(second - first**2, 0.0)
        moments = Moments(shift + first, variance, scale * (cross - first * (weight @ residual)))
        return cls(prediction, copied, residual, moments)


@dataclass(frozen=True, eq=False)
class Hinges:
    """``up_i max(0, u_i - c) + down_i max(0, c - u_i)``: the loss of each row as a function of c."""

    zero: Floats  # u, (n,)
    up: Floats  # (n,)
    down: Floats  # (n,)

    def over_donors(self, c: Floats, weight: Floats) -> Floats:
        """The mean loss of each row over the donors, (n,)."""
        below = _shortfall(c, weight, self.zero)  # sum of weight max(0, u - c)
        return np.asarray(self.up * below + self.down * (below - (weight.sum() * self.zero - weight @ c)))

    def over_rows(self, c: Floats, weight: Floats) -> Floats:
        """The mean loss over all rows at each value of c."""
        up, down = weight * self.up, weight * self.down
        above = _shortfall(-self.zero, up, -c)  # sum of up max(0, u - c)
        return np.asarray(above + _shortfall(self.zero, down, c))


def _shortfall(c: Floats, weight: Floats, u: Floats) -> Floats:
    """The sum over k of w_k max(0, u - c_k), for each u."""
    order = np.argsort(c)
    below = np.searchsorted(c[order], u)
    mass = np.concatenate([[0.0], np.cumsum(weight[order])])[below]
    moment = np.concatenate([[0.0], np.cumsum(weight[order] * c[order])])[below]
    return np.asarray(mass * u - moment)


def hinges(loss: Loss, y: NDArray[np.generic], prediction: Floats, c: Floats) -> Hinges:
    """A piecewise linear loss with one kink, as a function of one feature's contribution."""
    n = len(c)
    if loss.name == "hinge":  # 1 - s (f - c_i + c), s = +1 for the second class and -1 for the first
        sign = np.where(y == 1, 1.0, -1.0)
        return Hinges(sign - prediction + c, (sign > 0).astype(float), (sign < 0).astype(float))
    alpha = dict(loss.parameters).get("alpha")
    up, down = (1.0, 1.0) if alpha is None else (alpha, 1 - alpha)
    return Hinges(np.asarray(y, float) - prediction + c, np.full(n, up), np.full(n, down))
