"""Influence of rows on an importance, from sums that are added over parts of the rows: each row is read once.

With R_i the mean change of row i over the donors and C_v the mean change that a donor of class v causes, deleting row i
moves the importance U by ``u_i = a_i (R_i + C_v(i)) - 2 U o_i``, a and o made of its weight (`Deletion`). C and U are
complete only after all rows have been read. So sums of products of a R, a and o are kept, over all rows and by class,
from which the sums of u, u^2 and u^3 follow.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from losslens.typing import Floats


@dataclass(frozen=True, eq=False)
class InfluenceSums:
    """Sums over all rows of powers of u about its mean, u the influence of each row on an importance."""

    square: float
    cube: float
    with_error: float  # of u times the influence of the row on the mean loss

    @classmethod
    def of_powers(cls, units: int, sums: Iterable[float]) -> Self:
        """Compute it from the sums of u, u^2, u^3, u times the influence on the mean loss, and of that influence."""
        total, square, cube, product, pull = sums
        mean = total / units
        about_mean = max(square - units * mean**2, 0.0)
        return cls(about_mean, cube - 3 * mean * square + 2 * units * mean**3, product - mean * pull)


@dataclass(frozen=True, eq=False)
class Deletion:
    """What the deletion of a row does to means over all rows, as far as its weight says.

    Weights sum to one. Pairs of different rows have the mass ``Z = 1 - sum of w^2``, and ``Z_i = Z - 2 w_i (1 - w_i)``
    without row i: ``U - U_(-i) = (w_i (R_i + C_i) - 2 U w_i (1 - w_i)) / Z_i``. It is scaled so that equal weights
    have ``w_i (R_i + C_i - 2 V)``, V the mean over all pairs.
    """

    squares: float  # sum of the squared weights
    units: int  # rows with a weight above zero

    @property
    def pairs(self) -> float:
        """The mass of pairs of different rows."""
        return 1 - self.squares

    def of_pairs(self, w: Floats) -> tuple[Floats, Floats]:
        """The factors a of R + C and o of 2 U."""
        left, u = self.pairs - 2 * w * (1 - w), self.units
        a = np.divide((u - 1) * (u - 2) / u**2 * w, left, out=np.zeros(len(w)), where=left > 0)
        return a, a * (1 - w)

    def of_mean(self, w: Floats) -> Floats:
        """The factor of a row's distance from a mean over rows, w_i of equal weights: ``w_i / (1 - w_i)``, scaled."""
        return (self.units - 1) / self.units * np.divide(w, 1 - w, out=np.zeros(len(w)), where=w < 1)


@dataclass(frozen=True, eq=False)
class PartSums:
    """Sums over the rows of a part; parts are added field by field."""

    def __add__(self, other: Self) -> Self:
        return replace(
            self, **{one.name: _plus(getattr(self, one.name), getattr(other, one.name)) for one in fields(self)}
        )


def _plus(a: Any, b: Any) -> Any:
    """Numbers and arrays are added, lists joined; tuples are added entry by entry."""
    return tuple(map(_plus, a, b)) if isinstance(a, tuple) else a + b


@dataclass(frozen=True, eq=False)
class JointSums(PartSums):
    """Sums over the rows of a part of products of x and o: ``u = x - 2 U o`` are influences on p importances U."""

    x: Floats  # (p,)
    xx: Floats  # (p, p)
    xxx: Floats  # (p, p): of x_j^2 x_k
    xxo: Floats  # (p, p)
    xo: Floats  # (2, p): of x o and x o^2
    o: Floats  # (3,): of o, o^2 and o^3

    @classmethod
    def of(cls, both: Floats, weight: Floats, deletion: Deletion) -> Self:
        """Sum over rows, whose shares in both roles together are `both`, (rows, p)."""
        a, o = deletion.of_pairs(weight)
        x, powers = a[:, None] * both, np.stack([o, o**2])
        return cls(
            x.sum(axis=0), x.T @ x, np.square(x).T @ x, (o[:, None] * x).T @ x, powers @ x,
            np.array([o.sum(), o @ o, powers[1] @ o]),
        )  # fmt: skip

    def about_mean(self, sfimp: Floats, deletion: Deletion) -> tuple[Floats, Floats]:
        """Sums of ``v_j v_k`` and of ``v_j^2 v_k``, (p, p) each, v = u less its mean."""
        U, (o, oo, ooo), (xo, xoo) = 2 * sfimp / deletion.pairs, self.o, self.xo
        u, UU = self.x - U * o, np.outer(U, U)
        uu = self.xx - np.outer(xo, U) - np.outer(U, xo) + UU * oo
        uuu = self.xxx - np.outer(np.diagonal(self.xxo), U) - 2 * U[:, None] * self.xxo + 2 * UU * xoo[:, None]
        uuu += np.outer(U**2, xoo - U * ooo)
        mean = u / deletion.units
        cubes = uuu - np.outer(np.diagonal(uu), mean) - 2 * mean[:, None] * uu
        cubes += 2 * deletion.units * np.outer(mean**2, mean)
        square = uu - np.outer(u, mean)
        return (square + square.T) / 2, cubes  # symmetric to the last bit


@dataclass(frozen=True, eq=False)
class RowSums(PartSums):
    """Sums of one feature over the rows of a part."""

    rows: Floats  # (16,): of w R, x, o, products of x and o, b l, b, and products of x or o with b l or b; x = a R
    classes: Floats  # (12, g): of a times products of x and o, of a b l and a b

    @classmethod
    def of(cls, w: Floats, R: Floats, loss: Floats, places: NDArray[Any], g: int, deletion: Deletion) -> RowSums:
        """Sums over rows with weights w, importances R, losses, and classes `places`."""
        (a, o), b = deletion.of_pairs(w), deletion.of_mean(w)
        x, bl = a * R, b * loss
        squares = [np.sum(x**2), x @ o, o @ o]
        cubes = [np.sum(x**3), x**2 @ o, x @ o**2, np.sum(o**3)]
        rows = [w @ R, x.sum(), o.sum(), *squares, *cubes, bl.sum(), b.sum(), x @ bl, x @ b, o @ bl, o @ b]
        each = (a, a * x, a * o, a * x**2, a * x * o, a * o**2, a**2, a**2 * x, a**2 * o, a**3, a * bl, a * b)
        return cls(np.array(rows), np.stack([np.bincount(places, one, g) for one in each]))

    def influences(self, pfi: float, C: Floats, error: float, deletion: Deletion) -> InfluenceSums:
        """After all rows: from the PFI, the mean change C that donors of each class cause, and the mean loss."""
        U = 2 * pfi / deletion.pairs
        _, x, o, xx, xo, oo, xxx, xxo, xoo, ooo, bl, b, xbl, xb, obl, ob = self.rows
        a, ax, ao, axx, axo, aoo, aa, aax, aao, aaa, abl, ab = self.classes
        square = xx - 2 * U * xo + U**2 * oo + 2 * C @ (ax - U * ao) + C**2 @ aa
        cube = xxx - 3 * U * xxo + 3 * U**2 * xoo - U**3 * ooo
        cube += 3 * C @ (axx - 2 * U * axo + U**2 * aoo) + 3 * C**2 @ (aax - U * aao) + C**3 @ aaa
        product = xbl - error * xb - U * (obl - error * ob) + C @ (abl - error * ab)
        sums = (float(one) for one in (x - U * o + C @ a, square, cube, product, bl - error * b))
        return InfluenceSums.of_powers(deletion.units, sums)
