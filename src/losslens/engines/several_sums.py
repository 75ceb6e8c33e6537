"""Mean losses over all pairs of models with one sum for each of several classes, or of several models of two.

What a donor lends moves all sums. If it moves them along one line, by ``t_k direction``, a row's loss is an analytic
function of one number, which Chebyshev nodes give: its mean over the donors is a weighted sum over the nodes, and its
mean over the rows, known at the nodes, a polynomial. Where it moves them along a curve (a spline, a group of columns),
every distinct value is a node.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil, log, pi, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from losslens.engines.base import Declined
from losslens.engines.sum_losses import Link, Piecewise, logistic
from losslens.losses import Loss, brier
from losslens.typing import Floats, Indices, Mask

ON_A_LINE = 1e-13  # of what is lent: how far it may be from a line
PIECE = 8.0  # width of a stretch of the line with its own nodes, in differences of sums
DIGITS = 37.0  # log of 1 / error
MOST_ON_LINES, MOST_VALUES = 2e9, 1e8  # rows times nodes times classes, on a line and where every value is a node
CELLS = 1 << 16  # rows times nodes that are evaluated at a time


def transform(link: Link, sums: Floats) -> Floats:
    """Probabilities of the classes, the last axis."""
    if link == "softmax":
        powers = np.exp(sums - sums.max(axis=-1, keepdims=True))
        return np.asarray(powers / powers.sum(axis=-1, keepdims=True))
    if link == "mean-logistic":
        return np.stack([logistic(sign * sums).mean(axis=-1) for sign in (-1, 1)], axis=-1)
    chances = logistic(sums)
    total = chances.sum(axis=-1, keepdims=True)
    return np.where(total == 0, 1 / sums.shape[-1], chances / np.where(total == 0, 1, total))


def _log_losses(link: Link, sums: Floats, y: NDArray[Any]) -> Floats:
    """Unclipped, for sums (rows, nodes, K)."""
    if link == "mean-logistic":
        chances = -np.logaddexp(0.0, np.where(y == 1, -1.0, 1.0)[:, None, None] * sums)
        largest = chances.max(axis=2)
        return np.asarray(-largest - np.log(np.exp(chances - largest[:, :, None]).mean(axis=2)))
    if link == "one-vs-rest":
        sums = -np.logaddexp(0.0, -sums)  # logarithms of the chances of each class against the rest
    largest = sums.max(axis=2)
    total = np.exp(sums - largest[:, :, None]).sum(axis=2)
    return np.asarray(np.log(total) + largest - np.take_along_axis(sums, y[:, None, None], axis=2)[:, :, 0])


@dataclass(frozen=True, eq=False)
class Line:
    """What donors lend, along one direction: ``t[:, None] * direction``."""

    t: Floats  # (n,)
    direction: Floats  # (K,)

    @classmethod
    def of(cls, lent: Floats) -> Line | None:
        """None if what is lent, (n, K), lies on no line through 0."""
        widest = int(np.abs(lent).max(axis=0).argmax())
        t = lent[:, widest]
        at = int(np.abs(t).argmax())
        if t[at] == 0:
            return cls(t, np.zeros(lent.shape[1]))
        direction = lent[at] / t[at]
        off = np.abs(lent - t[:, None] * direction).max()
        return cls(t, direction) if off <= ON_A_LINE * np.abs(t[at]) else None


@dataclass(frozen=True, eq=False)
class LentNodes(ABC):
    """Where the rows' losses are evaluated, and how means follow."""

    lent: Floats  # (M, K)

    @abstractmethod
    def masses(self, weight: Floats) -> Floats:
        """Weights of the nodes, (M,), that give means over the donors."""

    @abstractmethod
    def values(self, at_nodes: Floats) -> Floats:
        """Numbers at the nodes, (M, ...), as those of the donors, (n, ...)."""


@dataclass(frozen=True, eq=False)
class DistinctNodes(LentNodes):
    """Every distinct value is a node."""

    node: Indices  # (n,)

    @classmethod
    def of(cls, lent: Floats) -> DistinctNodes:
        """The distinct rows."""
        lent, node = np.unique(lent, axis=0, return_inverse=True)
        return cls(lent, node.reshape(-1))

    def masses(self, weight: Floats) -> Floats:
        """The weights of donors with this value."""
        return np.bincount(self.node, weight, len(self.lent)).astype(float)

    def values(self, at_nodes: Floats) -> Floats:
        """Looked up."""
        return np.asarray(at_nodes[self.node])


@dataclass(frozen=True, eq=False)
class ChebyshevNodes(LentNodes):
    """Stretches of a line with as many nodes each, (P, m) in all."""

    piece: Indices  # (n,): the stretch of each donor
    place: Floats  # (n,): its place there, from -1 to 1
    count: int  # m

    @classmethod
    def of(cls, line: Line, link: Link) -> ChebyshevNodes:
        """As many as reach rounding: singularities are pi / slope away, slope the largest difference of sums.

        Of a mean of logistic functions also its zeros: none where all sums are less than pi / 2 from the real line,
        since logistic functions have positive real parts there.
        """
        ends = line.direction if link == "softmax" else np.append(line.direction, 0.0)
        low, high, slope = float(line.t.min()), float(line.t.max()), float(np.ptp(ends))
        if link == "mean-logistic":
            slope = 2 * float(np.abs(line.direction).max())
        pieces = max(1, ceil((high - low) * slope / PIECE))
        half = (high - low) / (2 * pieces) or 1.0
        reach = pi / max(slope * half, 1e-3)
        count = 2 + ceil(DIGITS / log(reach + sqrt(1 + reach * reach)))
        piece = np.minimum(((line.t - low) / (2 * half)).astype(np.intp), pieces - 1)
        middle = low + half * (2 * np.arange(pieces) + 1)
        place = np.clip((line.t - middle[piece]) / half, -1, 1)
        t = middle[:, None] + half * _chebyshev_points(count)
        return cls(t.reshape(-1, 1) * line.direction, piece, place, count)

    def masses(self, weight: Floats) -> Floats:
        """From the means of Chebyshev polynomials over the donors of each stretch."""
        pieces, polynomials = len(self.lent) // self.count, _polynomials(self.place, self.count)
        moments = [np.bincount(self.piece, weight * polynomial, pieces) for polynomial in polynomials]
        return np.asarray((np.array(moments).T @ _to_coefficients(self.count)).reshape(-1))

    def values(self, at_nodes: Floats) -> Floats:
        """Polynomials through the nodes of each stretch."""
        shape = at_nodes.shape[1:]
        by_piece = at_nodes.reshape(-1, self.count, *shape)
        coefficients = np.tensordot(_to_coefficients(self.count), by_piece, (1, 1))  # (m, P, ...)
        found = np.zeros((len(self.piece), *shape))
        for polynomial, of_pieces in zip(_polynomials(self.place, self.count), coefficients, strict=True):
            found += polynomial.reshape(-1, *[1] * len(shape)) * of_pieces[self.piece]
        return found


def _chebyshev_points(count: int) -> Floats:
    return np.cos(pi * (np.arange(count) + 0.5) / count)


def _polynomials(x: Floats, count: int) -> Iterator[Floats]:
    """T_0(x), T_1(x), ..."""
    before, now = x, np.ones(len(x))
    for _ in range(count):
        yield now
        before, now = now, 2 * x * now - before


def _to_coefficients(count: int) -> Floats:
    """Values at the points -> coefficients of the polynomials, (m, m)."""
    matrix = np.cos(np.outer(np.arange(count), pi * (np.arange(count) + 0.5) / count)) * 2 / count
    matrix[0] /= 2
    return np.asarray(matrix)


def nodes_of(link: Link, u: Floats, lent: Floats, ceiling: float | None) -> list[tuple[Indices, LentNodes]]:
    """Rows and their nodes, for rows that keep u and donors that lend this, (n, K) each; `Declined` if too many.

    Those of a line for all rows but those of which a log loss may be clipped: it is not analytic there.
    """
    every, line = np.arange(len(u)), None if link == "largest" else Line.of(lent)
    nodes = None if line is None else ChebyshevNodes.of(line, link)
    if line is None or nodes is None or len(nodes.lent) >= len(lent):
        found: list[tuple[Indices, LentNodes]] = [(every, DistinctNodes.of(lent))]
    else:
        clipped = np.zeros(len(u), bool) if ceiling is None else _may_be_clipped(link, u, line, ceiling)
        found = [(every[~clipped], nodes)]
        if clipped.any():
            found.append((every[clipped], DistinctNodes.of(lent)))
    for rows, some in found:
        if len(rows) * some.lent.size > (MOST_ON_LINES if isinstance(some, ChebyshevNodes) else MOST_VALUES):
            raise Declined(
                "what a donor lends moves the sums of several classes too far, along a curve, or where log losses are "
                f"clipped: its {len(some.lent):,} values would be evaluated for {len(rows):,} rows"
            )
    return found


def _may_be_clipped(link: Link, u: Floats, line: Line, ceiling: float) -> Mask:
    """Whether a log loss of each row may be above the ceiling: it is largest at an end of the line.

    That of a mean of K functions is at most log K above the least of theirs, which are largest at an end.
    """
    if link == "mean-logistic":
        ends = [np.abs(u + t * line.direction) for t in (line.t.min(), line.t.max())]
        return np.asarray(log(u.shape[1]) + np.logaddexp(0.0, np.maximum(*ends).min(axis=1)) >= ceiling)
    found = np.zeros(len(u), bool)
    for t in (line.t.min(), line.t.max()):
        sums = u + t * line.direction
        least = sums.min(axis=1)
        if link == "softmax":
            largest = np.logaddexp.reduce(sums, axis=1) - least
        else:
            largest = log(sums.shape[1]) + np.logaddexp(0.0, -least)
        found |= largest >= ceiling
    return found


@dataclass(frozen=True, eq=False)
class AtNodes:
    """Losses of probabilities of several classes."""

    link: Link
    loss: Loss
    y: NDArray[Any]
    u: Floats  # (n, K)
    base: Floats  # losses of the rows as they are
    ceiling: float | None

    def over_donors(self, lent: Floats, weight: Floats) -> Floats:
        """Sums over the nodes."""
        found = np.empty(len(self.u))
        for some, nodes in nodes_of(self.link, self.u, lent, self.ceiling):
            masses = nodes.masses(weight)
            for rows, losses in self._losses(some, nodes):
                found[rows] = losses @ masses
        return found

    def over_rows(self, lent: Floats, weight: Floats) -> Floats:
        """Means over the rows at the nodes."""
        found = np.zeros(len(lent))
        for some, nodes in nodes_of(self.link, self.u, lent, self.ceiling):
            sums = np.zeros(len(nodes.lent))
            for rows, losses in self._losses(some, nodes):
                sums += weight[rows] @ losses
            found += nodes.values(sums)
        return found

    def own(self, lent: Floats) -> Floats:
        """As they were computed from the predictions."""
        return self.base

    def clipped(self, lent: Floats, weight: Floats) -> float:
        """The share of the pairs whose loss is at the ceiling."""
        share = 0.0
        for some, nodes in nodes_of(self.link, self.u, lent, self.ceiling):
            if self.ceiling is not None and isinstance(nodes, DistinctNodes):
                masses, bound = nodes.masses(weight), self.ceiling * (1 - 1e-9)
                for rows, losses in self._losses(some, nodes):
                    share += float(weight[rows] @ (losses >= bound) @ masses)
        return share

    def _losses(self, some: Indices, nodes: LentNodes) -> Iterator[tuple[Indices, Floats]]:
        """Losses of some rows at a time, (rows, M)."""
        for rows, sums in _sums_at(self.u, some, nodes):
            y = self.y[rows]
            if self.loss == brier:
                others = transform(self.link, sums)
                np.put_along_axis(others, y[:, None, None], 0.0, axis=2)
                squares = others.sum(axis=2) ** 2
                if others.shape[2] > 2:  # that of two classes is one square
                    squares += np.einsum("imk,imk->im", others, others)
                yield rows, squares
            else:
                losses = _log_losses(self.link, sums, y)
                yield rows, losses if self.ceiling is None else np.minimum(losses, self.ceiling)


def _sums_at(u: Floats, some: Indices, nodes: LentNodes) -> Iterator[tuple[Indices, Floats]]:
    """Sums of some rows at a time, (rows, M, K)."""
    step = max(1, CELLS // len(nodes.lent))
    for start in range(0, len(some), step):
        rows = some[start : start + step]
        yield rows, u[rows, None] + nodes.lent


def mean_probabilities(link: Link, u: Floats, lent: Floats, weight: Floats) -> Floats:
    """The mean over the rows where each of these is lent, (n, K)."""
    ((some, nodes),) = nodes_of(link, u, lent, None)
    means = np.zeros((len(nodes.lent), 2 if link == "mean-logistic" else nodes.lent.shape[1]))
    for rows, sums in _sums_at(u, some, nodes):
        means += np.tensordot(weight[rows], transform(link, sums), 1)
    return nodes.values(means)


# Labels: the class with the largest sum.


@dataclass(frozen=True, eq=False)
class OfLargest:
    """The zero-one loss of the class with the largest sum."""

    y: NDArray[Any]
    u: Floats  # (n, K)

    @classmethod
    def check(cls, u: Floats, lent: Floats, margin: float, tied: str) -> None:
        """Raise `Declined` where two sums are this close, or donors lend too many values along a curve."""
        line = Line.of(lent)
        if line is None:
            for _, sums in _sums_at(u, *nodes_of("largest", u, lent, None)[0]):
                largest = np.partition(sums, -2, axis=2)[:, :, -2:]
                if np.any(largest[:, :, 1] - largest[:, :, 0] <= margin):
                    raise Declined(tied)
            return
        ordered = np.sort(u + lent, axis=1)
        if np.any(ordered[:, -1] - ordered[:, -2] <= margin):
            raise Declined(tied)
        for k in range(u.shape[1]):
            # Where two sums of slopes that differ by d are equal, they are this close within 2 margin / d.
            gaps = np.abs(line.direction - line.direction[k])
            if (steep := gaps[gaps > 0]).size:
                for bound, _ in _of_largest(np.full(len(u), k), u, line).kinks:
                    check_ties(bound[np.isfinite(bound)], line.t, 2 * margin / steep.min(), tied)

    def over_donors(self, lent: Floats, weight: Floats) -> Floats:
        """Donors beyond each row's interval, or at each distinct value."""
        if (line := Line.of(lent)) is not None:
            return _of_largest(self.y, self.u, line).over_donors(line.t, weight)
        ((some, nodes),) = nodes_of("largest", self.u, lent, None)
        masses, found = nodes.masses(weight), np.empty(len(some))
        for rows, sums in _sums_at(self.u, some, nodes):
            found[rows] = (sums.argmax(axis=2) != self.y[rows, None]) @ masses
        return found

    def over_rows(self, lent: Floats, weight: Floats) -> Floats:
        """The share of rows with another label."""
        return np.asarray(1 - _shares(self.u, lent, [np.where(self.y == k, weight, 0) for k in range(self.u.shape[1])]))

    def own(self, lent: Floats) -> Floats:
        """Whether the label of each row is wrong."""
        return np.asarray((self.u + lent).argmax(axis=1) != self.y, float)


def _of_largest(y: NDArray[Any], u: Floats, line: Line) -> Piecewise:
    """0 on an interval of t, where all other sums are smaller."""
    n = len(u)
    low, high = np.full(n, -np.inf), np.full(n, np.inf)
    mine, slope = u[np.arange(n), y], line.direction[y]
    for k, (other, its) in enumerate(zip(u.T, line.direction, strict=True)):
        lead, gain = mine - other, slope - its  # ahead where lead + gain t > 0
        never = (gain == 0) & (lead <= 0) & (y != k)
        with np.errstate(divide="ignore", invalid="ignore"):
            at = -lead / gain
        low = np.where(gain > 0, np.maximum(low, at), np.where(never, np.inf, low))
        high = np.where(gain < 0, np.minimum(high, at), high)
    wins = low < high
    low, high = np.where(wins, low, np.inf), np.where(wins, high, np.inf)
    one = np.ones((1, n))
    return Piecewise(lambda t: np.ones((1, len(t))), one, [(low, one), (high, -one)])


def shares_of_labels(u: Floats, lent: Floats, weight: Floats) -> Floats:
    """The share of the rows with each label where each of these is lent, (m, K)."""
    return np.column_stack(
        [_shares(u, lent, [weight if k == j else 0 * weight for j in range(u.shape[1])]) for k in range(u.shape[1])]
    )


def _shares(u: Floats, lent: Floats, weights: Sequence[Floats]) -> Floats:
    """The sum of the weights, of each class its own, of the rows with its label where each of these is lent, (m,)."""
    if (line := Line.of(lent)) is not None:
        parts = []
        for k, weight in enumerate(weights):
            one = _of_largest(np.full(len(u), k), u, line)
            parts.append(weight.sum() - one.over_rows(line.t, weight))
        return np.asarray(np.sum(parts, axis=0))
    ((some, nodes),), by_class = nodes_of("largest", u, lent, None), np.column_stack(weights)
    found = np.zeros(len(nodes.lent))
    for rows, sums in _sums_at(u, some, nodes):
        found += np.take_along_axis(by_class[rows], sums.argmax(axis=2), axis=1).sum(axis=0)
    return nodes.values(found)


def check_ties(at: Floats, lent: Floats, margin: float, tied: str) -> None:
    """Raise `Declined` if a number that is lent is as close to one of these, where a label changes."""
    ordered = np.sort(lent)
    if np.any(np.searchsorted(ordered, at - margin) != np.searchsorted(ordered, at + margin, "right")):
        raise Declined(tied)
