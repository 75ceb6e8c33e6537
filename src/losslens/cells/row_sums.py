"""Influence of rows on an importance, from sums that are added over parts of the rows: each row is read once.

With R_i the mean change of row i over the donors and C_v the mean change that a donor of class v causes, row i moves
the importance by ``u_i = w_i (R_i + D_v(i)), D = C - 2 PFI``. C is known only after all rows have been read. So sums
of powers of w and R are kept, over all rows and by class, and ``sum of u^2 = sum w^2 R^2 + 2 sum_v D_v (sum of w^2 R in
v) + sum_v D_v^2 (sum of w^2 in v)``. Where R is the mean over a few donors, its sampling variance is subtracted
from its square.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from losslens.typing import Floats


@dataclass(frozen=True, eq=False)
class InfluenceSums:
    """Sums over all rows of powers of u, the influence of each row on an importance."""

    square: float
    cube: float
    with_error: float  # of u times the influence of the row on the mean loss
    noise: float = 0.0  # variance of the importance that is due to sampling donors


@dataclass(frozen=True, eq=False)
class PartSums:
    """Sums over the rows of a part; parts are added field by field."""

    def __add__(self, other: Self) -> Self:
        return replace(
            self, **{one.name: _plus(getattr(self, one.name), getattr(other, one.name)) for one in fields(self)}
        )


def _plus(a: Any, b: Any) -> Any:
    """Numbers and arrays are added, lists joined; tuples and dicts are added entry by entry."""
    if isinstance(a, tuple):
        return tuple(map(_plus, a, b))
    if isinstance(a, dict):
        return a | {key: _plus(a[key], value) if key in a else value for key, value in b.items()}
    return a + b


@dataclass(frozen=True, eq=False)
class RowSums(PartSums):
    """Sums of one feature over the rows of a part."""

    rows: Floats  # (5,): of w R, w^2 R, w^2 R^2, w^2 R l, w^3 R^3
    classes: Floats  # (6, g): of w^2, w^2 R, w^2 l, w^3, w^3 R, w^3 R^2

    @classmethod
    def of(cls, w: Floats, R: Floats, loss: Floats, at: NDArray[Any], g: int, noise: Floats | float = 0.0) -> RowSums:
        """Sums over rows with weights w, importances R (sampling variance `noise`), losses, and classes `at`."""
        w2, w3 = w**2, w**3
        rows = np.array([w @ R, w2 @ R, w2 @ (R**2 - noise), w2 @ (R * loss), w3 @ R**3])
        each = (w2, w2 * R, w2 * loss, w3, w3 * R, w3 * R**2)
        return cls(rows, np.stack([np.bincount(at, weight, g) for weight in each]))

    def influences(self, pfi: float, caused: Floats, error: float, noise: float = 0.0) -> InfluenceSums:
        """After all rows: from the PFI, the mean change C that donors of each class cause, and the mean loss."""
        D = caused - 2 * pfi
        w2, w2r, w2l, w3, w3r, w3r2 = self.classes
        square = self.rows[2] + 2 * D @ w2r + D**2 @ w2
        cube = self.rows[4] + 3 * D @ w3r2 + 3 * D**2 @ w3r + D**3 @ w3
        with_error = self.rows[3] - error * self.rows[1] + D @ (w2l - error * w2)
        return InfluenceSums(max(float(square), 0.0), float(cube), float(with_error), noise)
