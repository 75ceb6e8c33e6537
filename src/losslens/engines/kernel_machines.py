"""Sums of products: machines with a Gaussian kernel, whose n x g predictions of a feature are one matrix product.

``f(x) = intercept + sum over terms l of coef[l] prod over columns j of exp(-gamma[j] (x[j] - centres[l, j])^2)``

Row i keeps some columns and donor k lends the others, so that ``f(i, k) = intercept + A[i] diag(coef) B[k]``, where A
holds the terms' factors of the kept columns and B those of the lent ones. B is smooth in each lent column: where it is
cheaper, f is worked out at a few nodes and interpolated, with an error below the rounding of the sum (`node_count`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial, reduce
from math import ceil
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from losslens.donors.designs import All
from losslens.donors.questions import Ask, Subject, pose
from losslens.engines import rates
from losslens.engines.base import (
    Answer,
    AnswerWay,
    Declined,
    ExactEngine,
    PlayerGames,
    ReadModel,
    Site,
    coalition_count,
)
from losslens.losses import Loss, squared_error
from losslens.progress import Tick
from losslens.tables.sample import Sample
from losslens.typing import Floats, Indices, Mask
from losslens.workers import in_process

if TYPE_CHECKING:
    from losslens.engines.readers.unwrapped import UnwrappedModel

# Columns of the estimator, and what an ask's values put there: (size, columns).
Image = tuple[Sequence[int] | NDArray[np.intp], Floats]

MOST_PRODUCTS = 2e11  # multiply-adds a feature: declined above
EPS = float(np.finfo(np.float64).eps)
SMALLEST = 1e-200  # a product that underflows may be divided by no less: its lost digits must stay lost in the sum
FEWEST_ROWS, BLOCK = 64, 1 << 16  # rows, or rows times terms, of a block: its arrays stay in the processor's cache
TOTAL_BYTES = 1 << 27  # of the terms that a total works on at a time
FAR: dict[str, Any] = {"under": "ignore", "over": "ignore"}  # what is too far away adds nothing
HELD = 32  # columns whose factors a block holds; with more they are worked out twice


@dataclass(frozen=True, eq=False)
class ProductForm(ReadModel):
    """``intercept + sum over l of coef[l] prod over j of exp(-gamma[j] (x[j] - centres[l, j])^2)``."""

    centres: Floats  # (L, C)
    coef: Floats  # (L,)
    gamma: Floats  # (C,)
    intercept: float
    kind: ClassVar[str] = "products"

    def engine(self, unwrapped: UnwrappedModel, site: Site) -> Products:
        """Matrix products over the rows of a table."""
        images = partial(unwrapped.image_of, site.table)
        return Products(self, unwrapped.matrix(site.table), images, site.memory // 8, site.n_jobs)

    def check_parts(self, loss: Loss | None) -> None:
        """Every row needs all donors at once."""
        raise Declined("kernel machines are not read part by part")

    def predict(self, matrix: Floats) -> Floats:
        """Predictions of rows of the estimator's input."""
        parts = np.array_split(matrix, 1 + len(matrix) * len(self.coef) // (16 * BLOCK))
        return np.concatenate([_Block(self, part, ()).predict() for part in parts])


def _factor(form: ProductForm, x: Floats, column: int) -> Floats:
    """One column's factor of each term, (rows, L); rows that share a value share the work."""
    values, place = np.unique(x, return_inverse=True)
    if 2 * len(values) <= len(x):
        return np.take(_factor(form, values, column), place.reshape(-1), axis=0)
    found = x[:, None] - form.centres[:, column]
    np.square(found, out=found)
    found *= -form.gamma[column]
    return np.exp(found, out=found)


class _Block:
    """The terms of some rows, whole and without the factors of some columns."""

    def __init__(self, form: ProductForm, matrix: Floats, asked: Sequence[int]) -> None:
        self.form, self.matrix = form, matrix
        self.held: dict[int, Floats] = {}
        self.whole = self._but(asked)
        for j in asked:
            factor = _factor(form, matrix[:, j], j)
            self.whole *= factor
            if len(asked) <= HELD:
                self.held[j] = factor

    def predict(self) -> Floats:
        """Predictions of the rows as they are."""
        return np.asarray(self.whole @ self.form.coef + self.form.intercept)

    def without(self, columns: Sequence[int]) -> Floats:
        """All other factors, multiplied: what these very numbers were multiplied into, they are divided out of."""
        factors = (self.held[j] if j in self.held else _factor(self.form, self.matrix[:, j], j) for j in columns)
        lent = reduce(np.multiply, factors)
        return self.whole / lent if lent.min(initial=1.0) >= SMALLEST else self._but(columns)

    def _but(self, columns: Sequence[int]) -> Floats:
        """All other factors, from the sum of their exponents."""
        total = np.zeros((len(self.matrix), len(self.form.coef)))
        for j in np.flatnonzero(self.form.gamma):
            if j not in columns:
                total -= self.form.gamma[j] * np.square(self.matrix[:, j, None] - self.form.centres[:, j])
        return np.exp(total, out=total)


def node_count(stretch: float) -> int:
    """Chebyshev nodes that interpolate exp(-stretch (u - c)^2) on [-1, 1] to EPS / 2, whatever the centre c.

    In the ellipse with foci -1, 1 and half-axes that sum to rho it is at most M = exp(stretch (rho - 1/rho)^2 / 4), so
    that a polynomial of degree N through the points cos(k pi / N) is wrong by at most 4 M / (rho^N (rho - 1)), for any
    rho > 1 (Trefethen, Approximation Theory and Approximation Practice, theorem 8.2); the smallest N is taken.

    >>> node_count(1.0), node_count(100.0)
    (26, 132)
    """
    rho = 1 + np.geomspace(1e-4, 1e8, 2000)
    logarithm = np.log(8 / EPS) + stretch / 4 * np.square(rho - 1 / rho) - np.log(rho - 1)
    return max(1, ceil(float(np.min(logarithm / np.log(rho))))) + 1


def _nodes(form: ProductForm, image: Image) -> int | None:
    """Nodes that stand for the values of a single column, where there are so few that they pay."""
    if len(image[0]) != 1:
        return None
    L, g, half = len(form.coef), len(image[1]), min(float(np.ptp(image[1])) / 2, 1e100)  # it is squared
    nodes = node_count(float(form.gamma[image[0][0]]) * half**2)
    return nodes if nodes * (L + g) < L * g else None


def _interpolate(form: ProductForm, column: int, values: Floats, nodes: int) -> tuple[Floats, Floats]:
    """The terms at the nodes, (L, nodes), and what each node adds to each value, (g, nodes): a barycentric formula."""
    half = np.ptp(values) / 2 or 1.0  # gaps are taken on [-1, 1], where no digits are lost to a distant middle
    middle = values.min() + half
    points = np.sin(np.pi / 2 / (nodes - 1) * np.arange(nodes - 1, -nodes, -2))
    gaps = ((form.centres[:, column] - middle) / half)[:, None] - points
    weights = np.exp(-form.gamma[column] * half**2 * np.square(gaps)) * form.coef[:, None]
    gaps = ((values - middle) / half)[:, None] - points
    hit = np.abs(gaps) < EPS**2
    shares = np.where(np.arange(nodes) % 2, -1.0, 1.0) / np.where(hit, 1.0, gaps)
    shares[:, [0, -1]] /= 2
    on = hit.any(axis=1)
    shares[on] = hit[on]
    return weights, shares / shares.sum(axis=1, keepdims=True)


@dataclass(frozen=True, eq=False)
class _Lent:
    """What an ask's values bring: ``kept @ weights @ shares.T``; without nodes the shares are the terms' own."""

    form: ProductForm
    columns: list[int]  # those that move the model
    values: Floats  # (g, columns)
    weights: Floats | None  # (L, nodes)
    shares: Floats | None  # (g, nodes) or (g, L); None: too large to hold
    step: int  # values at a time where they are not held

    def parts(self) -> Iterator[tuple[slice, Floats]]:
        """The shares, some values at a time."""
        if self.shares is not None:
            yield slice(None), self.shares
            return
        for start in range(0, len(self.values), self.step):
            part = slice(start, start + self.step)
            yield part, _terms(self.form, (self.columns, self.values[part]))

    def project(self, kept: Floats) -> Floats:
        """From the terms to the nodes."""
        return kept if self.weights is None else np.asarray(kept @ self.weights)

    def fill(self, kept: Floats, out: Floats) -> None:
        """Predictions of some rows at all values, (rows, g)."""
        kept = self.project(kept)
        for part, shares in self.parts():
            np.matmul(kept, shares.T, out=out[:, part])
        out += self.form.intercept

    def gather(self, kept: Floats, met: NDArray[np.int32]) -> Floats:
        """Predictions of each row at some values, (rows, m)."""
        if self.shares is not None and met.shape[1] * self.shares.shape[1] <= len(self.values):
            return np.asarray(np.einsum("br,bmr->bm", self.project(kept), self.shares[met]) + self.form.intercept)
        full = np.empty((len(kept), len(self.values)))
        self.fill(kept, full)
        return np.take_along_axis(full, met.astype(np.intp), axis=1)


def _terms(form: ProductForm, image: Image) -> Floats:
    """Each term's coefficient times its factors of some values, (values, L)."""
    factors = (_factor(form, x, j) for j, x in zip(image[0], image[1].T, strict=True))
    return reduce(np.multiply, factors, form.coef)


def _moving(form: ProductForm, image: Image) -> Image:
    """The image in the columns that move the model at all."""
    places = [place for place, j in enumerate(image[0]) if form.gamma[j] > 0]
    return [int(image[0][place]) for place in places], np.asarray(image[1], np.float64)[:, places]


def _lend(form: ProductForm, image: Image, room: int) -> _Lent:
    """Prepare the values of an ask; `room`: bytes that may be held for it."""
    columns, values = image = _moving(form, image)
    if not np.isfinite(values).all():
        raise ValueError("the model takes finite numbers alone, and the grid holds a missing or infinite value")
    step = max(1, room // (8 * max(1, len(form.coef))))
    if (nodes := _nodes(form, image)) is not None:
        return _Lent(form, list(columns), values, *_interpolate(form, columns[0], values[:, 0], nodes), step)
    held = columns and step >= len(values)
    return _Lent(form, list(columns), values, None, _terms(form, image) if held else None, step)


def cost(form: ProductForm, n: int, g: int, image: Image | None = None) -> float:
    """Multiply-adds for n rows at g values: of one matrix product, or, where the values are known, as it will be."""
    L = len(form.coef)
    nodes = None if image is None else _nodes(form, _moving(form, image))
    return float(n) * (g * L if nodes is None else nodes * (L + g))


@dataclass(frozen=True, eq=False)
class Products(ExactEngine):
    """Fills cells by matrix products; `images` says what an ask's values put into which columns of the estimator."""

    form: ProductForm
    matrix: Floats  # (n, C): the estimator's input
    images: Callable[[Ask], Image]
    block_bytes: int
    n_jobs: int | None = None
    name: ClassVar[str] = "products"
    _known: dict[int, tuple[Ask, _Lent]] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        if not np.isfinite(self.matrix).all():
            raise Declined("its input holds missing or infinite values")

    def fill(self, rows: Indices, asks: Sequence[Ask], tick: Tick) -> Answer:
        """Predictions of these rows, unchanged and in all cells of each ask, block of rows by block."""
        base, cells = np.empty(len(rows)), [np.empty((len(rows), ask.width)) for ask in asks]
        lent, step, filled = self._prepare(asks), self._rows_a_block(), 1 + sum(ask.most(1) for ask in asks)

        def fill_block(rows: Indices, start: int, tick: Tick) -> None:
            part = slice(start, start + step)
            with np.errstate(**FAR):  # each thread for itself
                self._fill(rows[part], asks, lent, base[part], [array[part] for array in cells])
            tick(filled * len(base[part]))

        blocks = in_process(self.n_jobs).map(fill_block, rows, range(0, len(rows), step), tick)
        deque(blocks, maxlen=0)  # each has filled its part of the arrays
        return Answer(base, cells, [0] * len(asks))

    def predict(self, rows: Indices) -> Floats:
        """Predictions of some rows."""
        return self.form.predict(self.matrix[rows])

    def way(self, subject: Subject, loss: Loss | None, *, blocked: bool) -> AnswerWay:
        """Cells, where their matrix products are few enough."""
        n, g = len(self.matrix), len(subject.distinct)
        if cost(self.form, n, g) > MOST_PRODUCTS:
            image = self.images(pose(subject, All(), n, 0).ask)  # what the values are can make it cheaper
            if cost(self.form, n, g, image) > MOST_PRODUCTS:
                raise Declined(f"{subject.feature.name!r} has too many values for its products")
        return "cells"

    def seconds(self, subject: Subject, way: AnswerWay) -> float:
        """Of the matrix products."""
        return rates.MULTIPLIED * cost(self.form, len(self.matrix), len(subject.distinct))

    def games(self, players: Sequence[Subject]) -> ProductGames:
        """Totals of the squared loss."""
        return ProductGames(self, players)

    def _rows_a_block(self) -> int:
        """A rule of counts: the answer must not hang, in its last bit, on the number of workers."""
        terms, columns = max(1, len(self.form.coef)), min(HELD, len(self.form.gamma))
        fits = self.block_bytes // (16 * (terms * (columns + 4) + len(self.matrix)))
        return max(1, min(fits, max(FEWEST_ROWS, BLOCK // terms)))

    def _prepare(self, asks: Sequence[Ask]) -> list[_Lent]:
        """What each ask lends; kept for the next rows, which ask the same."""
        room = self.block_bytes // (2 * max(1, len(asks)))
        with np.errstate(**FAR):
            known = {id(a): self._known.get(id(a)) or (a, _lend(self.form, self.images(a), room)) for a in asks}
        self._known.clear()
        self._known.update(known)
        return [known[id(ask)][1] for ask in asks]

    def _fill(
        self, rows: Indices, asks: Sequence[Ask], lent: Sequence[_Lent], base: Floats, cells: Sequence[Floats]
    ) -> None:
        block = _Block(self.form, self.matrix[rows], sorted({j for each in lent for j in each.columns}))
        base[:] = block.predict()
        for ask, each, out in zip(asks, lent, cells, strict=True):
            own = ask.own[rows]
            if not each.columns:
                out[:] = base[:, None]
            elif ask.met is None:
                each.fill(block.without(each.columns), out)
                on = np.flatnonzero(own >= 0)
                out[on, own[on]] = base[on]  # a row at its own value is the row itself, to the last bit
            else:
                met = ask.met[rows]
                out[:] = each.gather(block.without(each.columns), met)
                i, k = np.nonzero(met == own[:, None])
                out[i, k] = base[i]


@dataclass(frozen=True, eq=False)
class ProductGames(PlayerGames):
    """Totals of the squared loss, coalition by coalition."""

    engine: Products
    players: Sequence[Subject]

    def ways(self, loss: Loss, *, averaged: bool) -> dict[str, float]:
        """Multiply-adds."""
        n, terms = len(self.engine.matrix), len(self.engine.form.coef)
        takes = coalition_count(len(self.players)) * (float(n) * terms * min(n, terms))
        return {"product totals": takes} if loss == squared_error and not averaged else {}

    def total_errors(self, sample: Sample, loss: Loss, tick: Tick) -> Callable[[Mask], tuple[float, float]]:
        """The mean losses of a coalition and of its complement."""
        images = [self.engine.images(pose(player, All(), sample.n, 0).ask)[0] for player in self.players]

        def error(S: Mask) -> float:
            tick(1)
            lent, y = sorted({int(j) for k in np.flatnonzero(~S) for j in images[k]}), np.asarray(sample.y, float)
            return coalition_error(self.engine.form, self.engine.matrix, lent, y, sample.weight)

        return lambda S: (error(S), error(~S))


def coalition_error(
    form: ProductForm, matrix: Floats, columns: Sequence[int], y: Floats, weight: Floats | None = None
) -> float:
    """The mean squared error over all n^2 pairs of a row and a donor that lends these columns.

    A triangle R with ``R'R = Z'Z`` stands for the donors' shares Z: a row's errors with all of them have the length of
    one product with R. No sums are squared first and subtracted then, as in ``coef' (A'A * B'B) coef``.
    """
    weight = np.full(len(y), 1 / len(y)) if weight is None else weight / weight.sum()
    moving, lending = _moving(form, (columns, matrix[:, list(columns)]))
    if len(moving) == 0:
        return float(weight @ np.square(form.predict(matrix) - y))
    values, place = np.unique(lending, axis=0, return_inverse=True)
    root = np.sqrt(np.bincount(place.reshape(-1), weight))[:, None]
    total, triangle, step = 0.0, np.empty((0, 0)), max(1, TOTAL_BYTES // (64 * (len(form.coef) + 1)))
    with np.errstate(**FAR):
        lent = _lend(form, (moving, values), TOTAL_BYTES)
        for part, shares in lent.parts():
            more = root[part] * np.insert(shares, 0, 1.0, axis=1)
            triangle = np.concatenate([triangle, more]) if triangle.size else more
            if len(triangle) > 2 * triangle.shape[1]:  # else it would not pay
                triangle = np.asarray(np.linalg.qr(triangle, mode="r"))
        for part in (slice(start, start + step) for start in range(0, len(y), step)):
            kept = lent.project(_Block(form, matrix[part], list(moving)).without(list(moving)))
            gaps = np.insert(kept, 0, form.intercept - y[part], axis=1) @ triangle.T
            total += float(weight[part] @ np.einsum("ij,ij->i", gaps, gaps))
    return total
