"""Polynomials in several columns: sums of products whose factors are powers.

With some columns replaced, terms with the same powers of these are one: ``f(i, k) = sum over e of a_e(i) x_k^e``. One
column has few powers (its degree plus one), so that a cell costs as much as a polynomial in one number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import TYPE_CHECKING

import numpy as np

from losslens.engines.base import Site
from losslens.engines.kernel_machines import Image, ProductForm, Products
from losslens.typing import Floats, Indices

if TYPE_CHECKING:
    from losslens.engines.readers.unwrapped import UnwrappedModel


@dataclass(frozen=True, eq=False)
class MonomialSum(ProductForm):
    """Terms with the factors ``x[j]^powers[l, j]``."""

    powers: Indices  # (L, C)

    def engine(self, unwrapped: UnwrappedModel, site: Site) -> Products:
        """The engine on the rows of a table; products of float32 numbers are rounded to float32."""
        return replace(super().engine(unwrapped, site), in_single=unwrapped.gives_single(site.table))

    @property
    def width(self) -> int:
        """Columns of the estimator's input."""
        return int(self.powers.shape[1])

    def cancelled(self) -> float:
        """Terms may have any size: what rounding does is seen in predictions."""
        return 0.0

    def moves(self, column: int) -> bool:
        """Whether any term has a power of it."""
        return bool(self.powers[:, column].any())

    def factor(self, x: Floats, column: int) -> Floats:
        """One column's power of each term, (rows, L)."""
        return np.asarray(np.power(x[:, None], self.powers[:, column]))

    def block(self, matrix: Floats, replaced: Sequence[int]) -> MonomialBlock:
        """The monomials of some rows."""
        return MonomialBlock(self, np.vstack([matrix.T, np.ones(len(matrix))]))

    @cached_property
    def multiplied(self) -> Indices:
        """The columns whose product each term is, as often as they occur, (degree, L); filled up with a column of 1."""
        degrees = self.powers.sum(axis=1)
        term, column = np.nonzero(self.powers)
        times = self.powers[term, column]
        term, column = np.repeat(term, times), np.repeat(column, times)
        place = np.arange(len(term)) - np.repeat(np.cumsum(degrees) - degrees, degrees)
        table = np.full((int(degrees.max(initial=0)), len(degrees)), self.width)
        table[place, term] = column
        return table

    def rank(self, image: Image) -> int | None:
        """The number of different powers of the values."""
        different = len(np.unique(self.powers[:, list(image[0])], axis=0))
        L, g = len(self.coef), len(image[1])
        return different if different * (L + g) < L * g else None

    def spanned(self, image: Image, rank: int) -> tuple[Floats, Floats]:
        """The coefficients of the terms with each of the powers, (L, rank), and the powers of the values, (g, rank)."""
        powers, of_term = np.unique(self.powers[:, list(image[0])], axis=0, return_inverse=True)
        weights = np.zeros((len(self.coef), rank))
        weights[np.arange(len(self.coef)), of_term.reshape(-1)] = self.coef
        basis = (np.power(x[:, None], e) for x, e in zip(image[1].T, powers.T, strict=True))
        return weights, reduce(np.multiply, basis)


@dataclass(frozen=True, eq=False)
class MonomialBlock:
    """The monomials of some rows, multiplied anew for each set of replaced columns: values may be 0."""

    form: MonomialSum
    columns: Floats  # (C + 1, rows): a row of 1 for each factor that is missing

    def predict(self) -> Floats:
        """Sums of the unchanged rows."""
        return np.asarray(self.without(()) @ self.form.coef + self.form.intercept)

    def without(self, columns: Sequence[int]) -> Floats:
        """The product of all factors but those of some columns, (rows, L)."""
        product = np.ones((len(self.form.coef), self.columns.shape[1]))
        for factors in np.where(np.isin(self.form.multiplied, columns), self.form.width, self.form.multiplied):
            product *= self.columns[factors]
        return np.asarray(product.T)
