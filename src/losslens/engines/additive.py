"""Additive models: f = b + sum over columns of g_j(x_j). All pairs in closed form.

With c = g - mean(g) and r = y - f, replacing a row's g_i by a donor's g_k changes the squared loss by
``(r_i + c_i - c_k)^2 - r_i^2``. Its mean over the donors is ``c_i (2 r_i + c_i) + var(c)``: O(1) per row.
For other losses see `sum_losses`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import fsum
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from losslens.donors.questions import Ask, Subject
from losslens.engines.base import Answer, AnswerWay, Declined, ExactEngine, PlayerGames, SumEffects
from losslens.engines.loss_scales import slope_on_sums, weights_of_sums
from losslens.engines.sum_losses import check_deltas
from losslens.losses import Loss, Response, squared_error
from losslens.progress import Tick
from losslens.tables.frames import Table
from losslens.typing import Floats, Indices

if TYPE_CHECKING:
    from losslens.engines.readers.pipelines import UnwrappedModel

CHUNK_ROWS = 512  # rows read at a time, which stay in the processor's cache until everything of them is computed
SOME_ROWS = 8192  # rows that say what is typical
CELLS_AT_ONCE = 1 << 18  # computed at a time


@dataclass(frozen=True, eq=False)
class Additive(ExactEngine):
    """An additive model on a table; column j adds ``scale[j] * parts[:, j]`` to the predictions."""

    parts: Floats  # (n, p)
    scale: Floats  # (p,)
    intercept: float
    in_single: bool = False  # whether the model adds this up in float32
    name: ClassVar[str] = "additive"
    adds_in_single: ClassVar[bool] = True
    link: ClassVar[Literal["identity"]] = "identity"
    response: ClassVar[Response] = "values"  # or scores, which are numbers, too
    sums_losses: ClassVar[bool] = True
    fills_own_donors: ClassVar[bool] = True

    @classmethod
    def of(cls, coef: Floats, intercept: Floats, unwrapped: UnwrappedModel, table: Table) -> tuple[Self, ...]:
        """One for each row of coefficients, (K, C), with one entry per column of the estimator's input."""
        K, width = coef.shape
        if width != len(unwrapped.source):
            raise Declined(f"the model was fitted on {width} columns, but its input has {len(unwrapped.source)}")
        if unwrapped.transform is None:
            matrix = unwrapped.matrix(table)
            return tuple(cls(matrix, one, float(b)) for one, b in zip(coef, intercept, strict=True))
        # Sum the contributions of all input columns that are derived from the same column of the table.
        p = len(table.names)
        spread = np.zeros((K, width, p))
        spread[:, np.arange(width), unwrapped.source] = coef
        parts = np.empty((K, table.n, p))
        start = 0
        for part in unwrapped.chunks(table):
            for of_sum, one in zip(parts, spread, strict=True):
                of_sum[start : start + part.shape[0]] = part @ one
            start += part.shape[0]
        return tuple(cls(one, np.ones(p), float(b)) for one, b in zip(parts, intercept, strict=True))

    @property
    def sums(self) -> tuple[Additive, ...]:
        """The one sum, as `LinkedSums` has one or several."""
        return (self,)

    @cached_property
    def prediction(self) -> Floats:
        """f, (n,)."""
        return np.asarray(self.parts @ self.scale + self.intercept)

    @cached_property
    def magnitude(self) -> float:
        """The largest of what is added up, over all columns."""
        largest = np.maximum(self.parts.max(axis=0), -self.parts.min(axis=0)) @ np.abs(self.scale)
        return float(largest) + abs(self.intercept)

    @property
    def uses(self) -> Floats:
        """By how much what each column adds varies, over some rows."""
        return np.asarray(np.ptp(self.parts[:CHUNK_ROWS], axis=0) * np.abs(self.scale))

    def predict(self, rows: NDArray[np.intp]) -> Floats:
        """Predictions of the given rows, from differences, as importances are: unlike the model's, they lose no digits
        where values are far from 0.
        """
        parts = self.parts[rows] if rows.ndim == 1 else np.take_along_axis(self.parts, rows, axis=0)
        base = fsum([*(self.parts[0] * self.scale).tolist(), self.intercept])
        return np.asarray((parts - self.parts[0]) @ self.scale + base)

    def way(self, subject: Subject, loss: Loss | None, *, blocked: bool) -> AnswerWay:
        """Closed-form sums over all donors; cells of a product grid."""
        if subject.feature.kind == "pair":
            return "cells"
        if loss is not None and loss.name == "huber":
            check_deltas(loss, float(np.ptp(self.added(subject.feature.columns))))
        return "sums"

    def added(self, columns: Sequence[int]) -> Floats:
        """What some columns add together, (n,)."""
        if len(columns) == 1:
            return np.asarray(self.parts[:, columns[0]] * self.scale[columns[0]])
        return np.asarray(self.parts[:, list(columns)] @ self.scale[list(columns)])

    def contribution(self, columns: Sequence[int], weight: Floats) -> Floats:
        """The centred sum c of the contributions of some columns, (n,)."""
        return centred(self.added(columns), weight)

    def fill(self, rows: Indices, asks: Sequence[Ask], tick: Tick) -> Answer:
        """Predictions of these rows, unchanged and in all cells of each ask."""
        return fill_cells(self.sums, _only_sum, rows, asks, tick)

    def games(self, players: Sequence[Subject]) -> AdditiveGames:
        """Closed forms for the squared loss and for predictions."""
        return AdditiveGames(self.sums, _only_sum, players)


def _only_sum(sums: Floats) -> Floats:
    return sums[:, 0]


def fill_cells(
    sums: Sequence[Additive], respond: Callable[[Floats], NDArray[Any]], rows: Indices, asks: Sequence[Ask], tick: Tick
) -> Answer:
    """Cells, from what columns add to each sum."""
    unchanged, cells = np.column_stack([one.predict(rows) for one in sums]), []
    base = respond(unchanged)
    tick(len(rows))
    for ask in asks:
        of_ask = np.empty((len(rows), ask.width, *base.shape[1:]), base.dtype)
        kept, replaced = unchanged.copy(), np.zeros((ask.size, len(sums)))
        for k, one in enumerate(sums):
            for j, index in zip(ask.columns, ask.index, strict=True):
                column = one.parts[:, j] * one.scale[j]
                kept[:, k] -= column[rows]
                replaced[:, k] += column[index]
        for start in range(0, len(rows), step := max(1, CELLS_AT_ONCE // ask.width)):
            part = slice(start, start + step)
            own = ask.own[rows[part]]
            if ask.donor_values is None:
                at_own = np.flatnonzero(own >= 0)
                donated, own_cells = replaced[None], (at_own, own[at_own])
            else:
                value = ask.donor_values[rows[part]]
                row, cell = np.nonzero(value == own[:, None])
                donated, own_cells = replaced[value], (row, cell)
            mixed = kept[part, None] + donated
            of_ask[part] = respond(mixed.reshape(-1, len(sums))).reshape(of_ask[part].shape)
            of_ask[part][own_cells] = base[part][own_cells[0]]  # a row at its own values is the row itself
            tick(ask.most(len(mixed)))
        cells.append(of_ask)
    return Answer(base, cells, [0] * len(asks))


@dataclass(frozen=True, eq=False)
class SumGames(PlayerGames):
    """Games in which each player adds its contribution to each sum of a model."""

    sums: tuple[Additive, ...]
    respond: Callable[[Floats], NDArray[Any]]  # sums, (m, K) -> predictions
    players: Sequence[Subject]

    def contributions(self, weight: Floats) -> Floats:
        """The centred contributions c of all players to each sum, (n, p, K)."""
        parts = np.empty((len(weight), len(self.players), len(self.sums)))
        for k, player in enumerate(self.players):
            for of_sum, one in zip(parts[:, k].T, self.sums, strict=True):
                of_sum[:] = one.contribution(player.feature.columns, weight)
        return parts

    def ways(self, loss: Loss, *, averaged: bool) -> dict[str, float]:
        """The covariance, see `losslens.shapley.covariance`."""
        return {} if averaged or self._slope(loss) is None else {"covariance": 0.0}

    def _slope(self, loss: Loss) -> float | None:
        return slope_on_sums(loss, self.respond, len(self.sums))

    def sum_weights(self, loss: Loss, y: NDArray[Any]) -> Floats | None:
        """b of each sum, (n, K)."""
        slope = self._slope(loss)
        return None if slope is None else weights_of_sums(loss, y, slope, len(self.sums))

    def range_of_sums(self) -> tuple[Floats, Floats]:
        """The lowest and the highest sums that rows with replaced values may have, (K,) each."""
        ends = np.empty((2, len(self.sums)))
        for k, one in enumerate(self.sums):
            added = one.parts.min(axis=0) * one.scale, one.parts.max(axis=0) * one.scale
            ends[:, k] = one.intercept + np.sum(np.minimum(*added)), one.intercept + np.sum(np.maximum(*added))
        return ends[0], ends[1]

    def effects_on_sums(self, weights: Floats, n_jobs: int | None, tick: Tick) -> SumEffects:
        """The differences between what each player adds to a row and to the donors, for weights (D, n)."""
        return differences(self.contributions(weights[0]), weights)

    def effect_ways(self, rows: int, donors: int) -> dict[str, float]:
        """Walks: the response is no sum."""
        return {"walks": 0.0}

    @cached_property
    def _added(self) -> Floats:
        """The contributions, (n, p, K)."""
        return self.contributions(np.full(n := len(self.sums[0].parts), 1 / n))

    def walk_sums(self, rows: Indices, donors: Indices, orders: Indices) -> Floats:
        """The sums along walks from donors to rows, (walks, players + 1, K)."""
        gaps = self._added[rows] - self._added[donors]
        steps = np.take_along_axis(gaps, orders[:, :, None], axis=1)
        along = np.zeros((len(rows), orders.shape[1] + 1, len(self.sums)))
        np.cumsum(steps, axis=1, out=along[:, 1:])
        own = np.column_stack([one.prediction[rows] for one in self.sums])
        return along + (own - along[:, -1])[:, None]


@dataclass(frozen=True, eq=False)
class AdditiveGames(SumGames):
    """Games of sums without a link, which predictions are."""

    def ways(self, loss: Loss, *, averaged: bool) -> dict[str, float]:
        """The covariance, and for the squared loss a closed form of single rows."""
        closed = {"closed form": 0.0} if loss == squared_error and len(self.sums) == 1 else {}
        walks = {"mean walks": 0.0} if averaged and len(self.sums) == 1 else {}
        return closed | walks | super().ways(loss, averaged=averaged)

    def mean_walks(self, weight: Floats) -> Callable[[Indices, Indices], Floats]:
        """A function from rows and orders to mean predictions over the donors as players join, (walks, p + 1)."""
        added, own = self.contributions(weight)[:, :, 0], self.sums[0].prediction

        def along(rows: Indices, orders: Indices) -> Floats:
            steps = np.take_along_axis(added[rows], orders, axis=1)
            joined = np.column_stack([np.zeros(len(rows)), np.cumsum(steps, axis=1)])
            return np.asarray(joined + (own[rows] - joined[:, -1])[:, None])

        return along

    def effect_ways(self, rows: int, donors: int) -> dict[str, float]:
        """Closed form, see `effects`."""
        return {"closed form": 0.0}

    def effects(self, rows: Indices, donors: Indices, weight: Floats, n_jobs: int | None, tick: Tick) -> Floats:
        """Shapley values of the predictions of some rows, (rows, p, ...), as weighted means over the donors."""
        of_donors = np.bincount(donors, weight, len(self.sums[0].parts)).astype(float)
        effects = self.contributions(of_donors)[rows]
        return effects[:, :, 0] if len(self.sums) == 1 else effects


def differences(added: Floats, weights: Floats) -> SumEffects:
    """``sum over k of weights[d, k] (added[i] - added[k])``, for additions (n, p, K): a function of the rows i."""
    total, of_donors = weights.sum(axis=1)[:, None, None, None], np.tensordot(weights, added, 1)[:, None]
    return lambda rows: total * added[rows] - of_donors


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
class SumRows:
    """What one pass over the rows gives: sums, copies of columns, and of the squared loss r and its moments."""

    sums: Floats  # (n,); without a link these are predictions
    columns: dict[int, Floats]  # (n,) each, as the model reads them
    residual: Floats | None = None  # r, (n,)
    moments: Moments | None = None

    @classmethod
    def read(cls, engine: Additive, columns: Sequence[int], y: Floats | None, weight: Floats) -> SumRows:
        """One pass over the rows; y: of the squared loss, whose moments are computed."""
        from losslens.engines.additive_sums import add_moments, copy_columns

        parts, scale, (n, p) = engine.parts, engine.scale, engine.parts.shape
        head = parts[:SOME_ROWS]
        # Any typical value avoids cancellation in the variance; a constant column minus its own value is exactly 0.
        shift = np.ascontiguousarray(np.where((head == head[0]).all(axis=0), head[0], head.mean(axis=0)))
        first, second, cross = sums = np.zeros((3, p))
        prediction, residual, copies = np.empty(n), np.empty(0 if y is None else n), np.empty((len(columns), n))
        some = np.array(columns, np.int64)
        for start in range(0, n, CHUNK_ROWS):
            rows = slice(start, start + CHUNK_ROWS)
            chunk, f = np.ascontiguousarray(parts[rows]), prediction[rows]
            copy_columns(chunk, some, copies, start)
            np.dot(chunk, scale, out=f)
            if y is None:
                f += engine.intercept
            else:
                add_moments(chunk, shift, weight[rows], y[rows], engine.intercept, f, residual[rows], sums)
        copied = dict(zip(columns, copies, strict=True))
        if y is None:
            return cls(prediction, copied)
        variance = scale**2 * np.maximum(second - first**2, 0.0)
        moments = Moments(shift + first, variance, scale * (cross - first * (weight @ residual)))
        return cls(prediction, copied, residual, moments)
