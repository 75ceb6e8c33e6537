"""Kernel machines as sums of products: one matrix product gives n x g predictions.

``f(x) = intercept + sum over terms l of coef[l] prod over columns j of a factor of x[j]``

Row i keeps some columns and takes the others from donor k: ``f(i, k) = intercept + A[i] diag(coef) B[k]``, where A
holds the terms' factors of the kept columns and B those of the replaced ones. Factors of a Gaussian kernel,
``exp(-gamma[l, j] (x[j] - centres[l, j])^2)``, are smooth in each replaced column: if cheaper, f is computed at a few
nodes and interpolated, with an error below the rounding of the sum (`node_count`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from math import ceil
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from losslens.donors.designs import All
from losslens.donors.questions import Ask, Subject, pose
from losslens.engines.base import (
    Answer,
    AnswerWay,
    Declined,
    ExactEngine,
    ReadModel,
    Site,
    Wrapped,
    spread,
)
from losslens.losses import Loss, squared_error
from losslens.progress import Tick
from losslens.typing import Floats, Indices
from losslens.workers import in_process

if TYPE_CHECKING:
    from losslens.engines.readers.pipelines import UnwrappedModel

# Columns of the estimator's input, and their values for each value of an ask: (size, columns).
Image = tuple[Sequence[int] | NDArray[np.intp], Floats]

Respond = Callable[[Floats], NDArray[Any]]

MIN_CELLS = 10**6  # of a feature: fewer are computed one by one in a moment
MAX_PRODUCTS = 2e11  # multiply-adds per feature; above, the feature is declined
EPS = float(np.finfo(np.float64).eps)
ROUNDING_LIMIT = 1e-11  # rounding error of the model's own predictions, relative to their spread; above, it is declined
MIN_DIVISOR = 1e-200  # digits lost by underflow stay negligible in the sum if a product is divided by no less
# Rows of a block, at least, and rows times terms: its arrays stay in the processor's cache.
MIN_BLOCK_ROWS, BLOCK_TERMS = 64, 1 << 16
IGNORE_RANGE: dict[str, Any] = {"under": "ignore", "over": "ignore"}  # np.errstate: the factor of a distant centre is 0
MAX_CACHED = 32  # columns whose factors a block caches; with more columns, factors are computed twice


@dataclass(frozen=True, eq=False)
class GaussianSum(ReadModel):
    """Terms with the factors ``exp(-gamma[l, j] (x[j] - centres[l, j])^2)``, and what the model makes of their sum."""

    coef: Floats  # (L,)
    intercept: float
    centres: Floats  # (L, C)
    gamma: Floats  # (C,), or (L, C) if it differs from term to term
    respond: Respond | None = None  # sums, (m, 1) -> predictions
    kind: ClassVar[str] = "products"

    def engine(self, unwrapped: UnwrappedModel, site: Site) -> Products:
        """The engine on the rows of a table."""
        images = partial(unwrapped.image_of, site.table)
        matrix, memory = unwrapped.matrix(site.table), site.memory // 8
        if matrix.shape[1] != self.width:
            raise Declined(f"the model was fitted on {self.width} columns, but its input has {matrix.shape[1]}")
        engine = Products(self, matrix, images, memory, site.n_jobs, unwrapped.source)
        some = self.predict(matrix[:: max(1, len(matrix) // 50)])
        if EPS * float(np.linalg.norm(self.coef)) > ROUNDING_LIMIT * spread(some):  # no factor is above 1
            raise Declined("its coefficients cancel so much that part of its predictions is rounding error")
        return engine

    def check_parts(self, loss: Loss | None) -> None:
        """Raise `Declined`: sums of products are not computed part by part."""
        raise Declined("sums of products are not computed part by part; pass a sample of the rows in memory")

    def then(self, wrapped: Wrapped) -> ReadModel:
        """The same sums, whose responses a wrapper changes."""
        return replace(self, respond=partial(_then, self.respond, wrapped.after))

    def predict(self, matrix: Floats) -> Floats:
        """The sums of rows of the estimator's input."""
        parts = np.array_split(matrix, 1 + len(matrix) * len(self.coef) // (16 * BLOCK_TERMS))
        return np.concatenate([self.block(part, ()).predict() for part in parts])

    @property
    def width(self) -> int:
        """Columns of the estimator's input."""
        return int(self.centres.shape[1])

    def moves(self, column: int) -> bool:
        """Whether a kernel has a width there."""
        return bool(np.any(self.gamma[..., column] > 0))

    def factor(self, x: Floats, column: int) -> Floats:
        """One column's factor of each term, (rows, L); if there are many ties, computed once per distinct value."""
        values, position = np.unique(x, return_inverse=True)
        if 2 * len(values) <= len(x):
            return np.take(self.factor(values, column), position.reshape(-1), axis=0)
        exponent = _squares(x, self.centres[:, column])
        exponent *= -self.gamma[..., column]
        return np.exp(exponent, out=exponent)

    def block(self, matrix: Floats, replaced: Sequence[int]) -> GaussianBlock:
        """The products of the factors of some rows."""
        return GaussianBlock(self, matrix, replaced)

    def rank(self, image: Image) -> int | None:
        """The number of interpolation nodes for the values of a single column."""
        if len(image[0]) != 1:
            return None
        L, g, half = len(self.coef), len(image[1]), min(float(np.ptp(image[1])) / 2, 1e100)  # finite when squared
        nodes = node_count(float(np.max(self.gamma[..., image[0][0]])) * half**2)
        return nodes if nodes * (L + g) < L * g else None

    def spanned(self, image: Image, rank: int) -> tuple[Floats, Floats]:
        """The terms at the nodes, (L, nodes), and the barycentric weights of the nodes for each value, (g, nodes)."""
        (column,), values, gamma = image[0], image[1][:, 0], self.gamma
        half = np.ptp(values) / 2 or 1.0  # differences are taken on [-1, 1]: a distant middle costs no digits
        middle = values.min() + half
        points = np.sin(np.pi / 2 / (rank - 1) * np.arange(rank - 1, -rank, -2))
        gaps = ((self.centres[:, column] - middle) / half)[:, None] - points
        weights = np.exp(-gamma[..., column, None] * half**2 * np.square(gaps)) * self.coef[:, None]
        gaps = ((values - middle) / half)[:, None] - points
        hit = np.abs(gaps) < EPS**2
        basis = np.where(np.arange(rank) % 2, -1.0, 1.0) / np.where(hit, 1.0, gaps)
        basis[:, [0, -1]] /= 2
        hits = hit.any(axis=1)
        basis[hits] = hit[hits]
        return weights, basis / basis.sum(axis=1, keepdims=True)


def _then(respond: Respond | None, after: Respond | None, sums: Floats) -> NDArray[Any]:
    responses = sums[:, 0] if respond is None else respond(sums)
    return responses if after is None else after(responses)


def _squares(x: Floats, centres: Floats) -> Floats:
    """Squared distances, (rows, L); infinite beyond the largest number, where a factor is 0."""
    distance = x[:, None] - centres
    with np.errstate(over="ignore"):
        return np.square(distance, out=distance)


class GaussianBlock:
    """The terms of some rows: products of the factors of all columns, or of all but some replaced columns."""

    def __init__(self, form: GaussianSum, matrix: Floats, replaced: Sequence[int]) -> None:
        self.form, self.matrix = form, matrix
        self.cached: dict[int, Floats] = {}
        self.product = self._product_without(replaced)
        for j in replaced:
            factor = form.factor(matrix[:, j], j)
            self.product *= factor
            if len(replaced) <= MAX_CACHED:
                self.cached[j] = factor

    def predict(self) -> Floats:
        """Sums of the unchanged rows."""
        return np.asarray(self.product @ self.form.coef + self.form.intercept)

    def without(self, columns: Sequence[int]) -> Floats:
        """The product of all other factors, by division: the divisors are bit for bit the factors of the product."""
        factors = (self.cached[j] if j in self.cached else self.form.factor(self.matrix[:, j], j) for j in columns)
        divisor = reduce(np.multiply, factors)
        return self.product / divisor if divisor.min(initial=1.0) >= MIN_DIVISOR else self._product_without(columns)

    def _product_without(self, columns: Sequence[int]) -> Floats:
        """The product of all other factors, from the sum of their exponents."""
        total = np.zeros((len(self.matrix), len(self.form.coef)))
        for j in range(self.form.width):
            if self.form.moves(j) and j not in columns:
                total -= self.form.gamma[..., j] * _squares(self.matrix[:, j], self.form.centres[:, j])
        return np.exp(total, out=total)


def node_count(gamma: float) -> int:
    """Chebyshev nodes that interpolate exp(-gamma (u - c)^2) on [-1, 1] to EPS / 2, whatever the centre c.

    In the ellipse with foci -1, 1 and half-axes that sum to rho, it is at most M = exp(gamma (rho - 1/rho)^2 / 4), so
    that the error of the polynomial of degree N through the points cos(k pi / N) is at most 4 M / (rho^N (rho - 1)) for
    any rho > 1 (Trefethen, Approximation Theory and Approximation Practice, theorem 8.2); the smallest N is taken.

    >>> node_count(1.0), node_count(100.0)
    (26, 132)
    """
    rho = 1 + np.geomspace(1e-4, 1e8, 2000)
    logarithm = np.log(8 / EPS) + gamma / 4 * np.square(rho - 1 / rho) - np.log(rho - 1)
    return max(1, ceil(float(np.min(logarithm / np.log(rho))))) + 1


@dataclass(frozen=True, eq=False)
class _DonorTerms:
    """The donors' side of the sums, ``kept @ weights @ basis.T``, or of all terms, ``kept @ basis.T``."""

    form: GaussianSum
    columns: list[int]  # replaced columns with an effect on the model
    values: Floats  # (g, columns)
    weights: Floats | None  # (L, rank)
    basis: Floats | None  # (g, rank) or (g, L); None: too large to keep in memory
    step: int  # values at a time if the basis is not kept in memory

    def parts(self) -> Iterator[tuple[slice, Floats]]:
        """The basis, some values at a time."""
        if self.basis is not None:
            yield slice(None), self.basis
            return
        for start in range(0, len(self.values), self.step):
            part = slice(start, start + self.step)
            yield part, _terms(self.form, (self.columns, self.values[part]))

    def project(self, kept: Floats) -> Floats:
        """Products of the kept columns' factors, (rows, L), mapped to the functions that span them."""
        return kept if self.weights is None else np.asarray(kept @ self.weights)

    def fill(self, kept: Floats, cells: Floats) -> None:
        """Sums of some rows at all values, (rows, g)."""
        kept = self.project(kept)
        for part, basis in self.parts():
            np.matmul(kept, basis.T, out=cells[:, part])
        cells += self.form.intercept

    def gather(self, kept: Floats, index: Indices) -> Floats:
        """Sums of row i at the values with positions ``index[i]``, (rows, m)."""
        if self.basis is not None and index.shape[1] * self.basis.shape[1] <= len(self.values):
            return np.asarray(np.einsum("br,bmr->bm", self.project(kept), self.basis[index]) + self.form.intercept)
        full = np.empty((len(kept), len(self.values)))
        self.fill(kept, full)
        return np.take_along_axis(full, index.astype(np.intp), axis=1)


def _terms(form: GaussianSum, image: Image) -> Floats:
    """Each term's coefficient times its factors of some values, (values, L)."""
    factors = (form.factor(x, j) for j, x in zip(image[0], image[1].T, strict=True))
    return reduce(np.multiply, factors, form.coef)


def _moving(form: GaussianSum, image: Image) -> Image:
    """The image restricted to columns with an effect on the model."""
    positions = [position for position, j in enumerate(image[0]) if form.moves(j)]
    return [int(image[0][position]) for position in positions], np.asarray(image[1], np.float64)[:, positions]


def _donor_terms(form: GaussianSum, image: Image, max_bytes: int) -> _DonorTerms:
    """Prepare the values of an ask, with at most max_bytes for the basis."""
    columns, values = image = _moving(form, image)
    if not np.isfinite(values).all():
        raise ValueError(
            "the grid has missing or infinite values, but the model takes finite numbers only; remove them"
        )
    step = max(1, max_bytes // (8 * max(1, len(form.coef))))
    if (rank := form.rank(image)) is not None and columns:
        return _DonorTerms(form, list(columns), values, *form.spanned(image, rank), step)
    fits = columns and step >= len(values)
    return _DonorTerms(form, list(columns), values, None, _terms(form, image) if fits else None, step)


def cost(form: GaussianSum, n: int, g: int, image: Image | None = None) -> float:
    """Multiply-adds for n rows at g values: of one matrix product or, given an image, of the cheapest way."""
    L = len(form.coef)
    rank = None if image is None else form.rank(_moving(form, image))
    return float(n) * (g * L if rank is None else rank * (L + g))


@dataclass(frozen=True, eq=False)
class Halves:
    """The predictions of all pairs of a row and a value, ``kept @ replaced.T``."""

    kept: Floats  # (n, r + 1)
    replaced: Floats  # (g, r + 1)


@dataclass(frozen=True, eq=False)
class Products(ExactEngine):
    """Fills cells by matrix products; `images` maps an ask to columns of the estimator's input and their values."""

    form: GaussianSum
    matrix: Floats  # (n, C): the estimator's input
    images: Callable[[Ask], Image]
    block_bytes: int
    n_jobs: int | None = None
    source: Indices | None = None  # (C,): the table's column that each comes from; None: the table is the input
    in_halves: bool = True  # whether squared losses may be averaged without cells
    name: ClassVar[str] = "products"
    fills_own_donors: ClassVar[bool] = True
    _ranks: dict[tuple[int, ...], int | None] = field(default_factory=dict, init=False, repr=False)
    _prepared: dict[int, tuple[Ask, _DonorTerms]] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        if not np.isfinite(self.matrix).all():
            raise Declined("the input of the model has missing or infinite values")

    def fill(self, rows: Indices, asks: Sequence[Ask], tick: Tick) -> Answer:
        """Predictions of these rows, unchanged and in all cells of each ask, one block of rows after the other."""
        base, cells = np.empty(len(rows)), [np.empty((len(rows), ask.width)) for ask in asks]
        terms, step, filled = self._prepare(asks), self._rows_a_block(), 1 + sum(ask.most(1) for ask in asks)

        def fill_block(rows: Indices, start: int, tick: Tick) -> None:
            part = slice(start, start + step)
            with np.errstate(**IGNORE_RANGE):  # set per thread
                self._fill(rows[part], asks, terms, base[part], [array[part] for array in cells])
            tick(filled * len(base[part]))

        blocks = in_process(self.n_jobs).map(fill_block, rows, range(0, len(rows), step), tick)
        deque(blocks, maxlen=0)  # run all blocks: each fills its part of the arrays
        return Answer(self._responses(base), [self._responses(array) for array in cells], [0] * len(asks))

    def predict(self, rows: Indices) -> NDArray[Any]:
        """Predictions of the given rows."""
        if rows.ndim == 1:
            return self._responses(self.form.predict(self.matrix[rows]))
        of_each = rows if self.source is None else rows[:, self.source]
        return self._responses(self.form.predict(np.take_along_axis(self.matrix, of_each, axis=0)))

    def _responses(self, sums: Floats) -> NDArray[Any]:
        """Predictions, given sums: of the same shape, or with one more axis for classes."""
        if self.form.respond is None:
            return sums
        responses = self.form.respond(sums.reshape(-1, 1))
        return responses.reshape(*sums.shape, *responses.shape[1:])

    @property
    def own_rounding(self) -> bool:
        """Losses of probabilities may differ by the rounding of 1 - p."""
        return self.form.respond is not None

    def way(self, subject: Subject, loss: Loss | None, *, blocked: bool) -> AnswerWay:
        """Factors of the squared loss, else cells, unless their matrix products are too expensive."""
        n, g = len(self.matrix), len(subject.distinct)
        all_pairs = not blocked and subject.feature.kind != "pair"  # which has a grid of its own
        squared = self.in_halves and all_pairs and loss == squared_error and self.form.respond is None
        rank = self._rank(subject) if squared and float(n) * g > MIN_CELLS else None
        if rank is not None and float(n) * rank * (len(self.form.coef) + rank) <= MAX_PRODUCTS:
            return "factors"
        too_many = f"{subject.feature.name!r} has too many distinct values ({g:,}) for matrix products"
        if cost(self.form, n, g) > MAX_PRODUCTS:
            image = self.images(pose(subject, All(), n, 0).ask)  # interpolation may be cheaper
            if cost(self.form, n, g, image) > MAX_PRODUCTS:
                raise Declined(too_many)
        return "cells"

    def by_cells(self) -> Products:
        """Without means of squared losses."""
        return replace(self, in_halves=False)

    def _rank(self, subject: Subject) -> int | None:
        """How many functions of the feature's values span the terms; None if that is not cheaper, or nothing moves."""
        columns = subject.feature.columns
        if columns not in self._ranks:
            image = _moving(self.form, self.images(pose(subject, All(), len(self.matrix), 0).ask))
            self._ranks[columns] = self.form.rank(image) if len(image[0]) else None
        return self._ranks[columns]

    def turns(self, subjects: Sequence[Subject]) -> Iterator[list[int]]:
        """Features whose halves fit into memory at a time, as positions."""
        turn: list[int] = []
        width = 0
        for k, subject in enumerate(subjects):
            more = 1 + (self._rank(subject) or 0)
            if turn and 16 * len(self.matrix) * (width + more) > self.block_bytes:  # both halves
                yield turn
                turn, width = [], 0
            turn.append(k)
            width += more
        yield turn

    def halves(self, asks: Sequence[Ask], tick: Tick) -> tuple[Floats, list[Halves]]:
        """Predictions of the unchanged rows, and both sides of those of each ask, all of which have a rank."""
        n, step, terms = len(self.matrix), self._rows_a_block(), self._prepare(asks)
        base, halves = np.empty(n), []
        for each in terms:
            assert each.basis is not None  # that of a rank is kept
            replaced = np.insert(each.basis, each.basis.shape[1], 1.0, axis=1)
            halves.append(Halves(np.full((n, replaced.shape[1]), self.form.intercept), replaced))
        columns = sorted({j for each in terms for j in each.columns})

        def fill_block(matrix: Floats, start: int, tick: Tick) -> None:
            part = slice(start, start + step)
            with np.errstate(**IGNORE_RANGE):  # set per thread
                block = self.form.block(matrix[part], columns)
                base[part] = block.predict()
                for each, half in zip(terms, halves, strict=True):
                    half.kept[part, :-1] = each.project(block.without(each.columns))
            tick(len(asks) * len(base[part]))

        deque(in_process(self.n_jobs).map(fill_block, self.matrix, range(0, n, step), tick), maxlen=0)
        return base, halves

    def _rows_a_block(self) -> int:
        """Derived from counts: results must not depend on the number of workers, not even in the last bit."""
        terms, columns = max(1, len(self.form.coef)), min(MAX_CACHED, self.form.width)
        fits = self.block_bytes // (16 * (terms * (columns + 4) + len(self.matrix)))
        return max(1, min(fits, max(MIN_BLOCK_ROWS, BLOCK_TERMS // terms)))

    def _prepare(self, asks: Sequence[Ask]) -> list[_DonorTerms]:
        """The donors' side of each ask; kept for the next rows, which come with the same asks."""
        size = self.block_bytes // (2 * max(1, len(asks)))
        with np.errstate(**IGNORE_RANGE):
            prepared = {
                id(ask): self._prepared.get(id(ask)) or (ask, _donor_terms(self.form, self.images(ask), size))
                for ask in asks
            }
        self._prepared.clear()
        self._prepared.update(prepared)
        return [prepared[id(ask)][1] for ask in asks]

    def _fill(
        self, rows: Indices, asks: Sequence[Ask], terms: Sequence[_DonorTerms], base: Floats, cells: Sequence[Floats]
    ) -> None:
        block = self.form.block(self.matrix[rows], sorted({j for each in terms for j in each.columns}))
        base[:] = block.predict()
        for ask, each, out in zip(asks, terms, cells, strict=True):
            own = ask.own[rows]
            if not each.columns:
                out[:] = base[:, None]
            elif ask.donor_values is None:
                each.fill(block.without(each.columns), out)
                own_rows = np.flatnonzero(own >= 0)
                # Exactly the unchanged prediction where the value is the row's own.
                out[own_rows, own[own_rows]] = base[own_rows]
            else:
                index = ask.donor_values[rows]
                out[:] = each.gather(block.without(each.columns), index)
                i, k = np.nonzero(index == own[:, None])
                out[i, k] = base[i]
