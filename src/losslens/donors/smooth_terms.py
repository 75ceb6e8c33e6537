"""Columns as terms of smooth curves: numbers and natural cubic splines of them, for linear models of curves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from losslens.typing import Floats

KNOTS = 12  # of a column, at most
MOST_TERMS = 200  # of all columns, about: with many columns each has fewer knots
ROWS_A_TERM = 4  # at least
MOST_ROWS = 2000  # that decide knots and scales
STRAIGHT = 30.0  # linear terms are this many times larger than curved ones: a ridge penalty hardly touches them


@dataclass(frozen=True, eq=False)
class SmoothTerms:
    """Knots and scales of every column; as a function, the standardised terms of some rows."""

    knots: Sequence[Floats]  # of each column; fewer than three: a line
    middle: Floats  # of all terms
    scale: Floats

    @classmethod
    def of(cls, columns: Floats) -> Self:
        """Knots between quantiles of these rows and even steps: few rows far out may lie on a bend, too."""
        n, p = columns.shape
        most = min(KNOTS, min(MOST_TERMS, n // ROWS_A_TERM) // max(p, 1))
        columns = columns[:: -(-n // MOST_ROWS)] if n > MOST_ROWS else columns
        knots = [_knots(column, most) for column in columns.T]
        terms = _terms(columns, knots)
        spread = terms.std(axis=0)
        heavy = np.concatenate([[STRAIGHT, *[1.0] * max(len(some) - 2, 0)] for some in knots]) if knots else np.empty(0)
        return cls(knots, terms.mean(axis=0), np.where(spread > 0, spread, 1.0) / heavy)

    def __call__(self, columns: Floats) -> Floats:
        """The terms of some rows, (n, d)."""
        return np.asarray((_terms(columns, self.knots) - self.middle) / self.scale)


def _knots(column: Floats, most: int) -> Floats:
    if most < 3 or len(np.unique(column)) < most:
        return np.empty(0)
    even = np.linspace(column.min(), column.max(), most)
    return np.unique((np.quantile(column, np.linspace(0, 1, most)) + even) / 2)


def _terms(columns: Floats, knots: Sequence[Floats]) -> Floats:
    parts = [_curve(column, some) for column, some in zip(columns.T, knots, strict=True)]
    return np.concatenate([np.empty((len(columns), 0)), *parts], axis=1)


def _curve(column: Floats, knots: Floats) -> Floats:
    """The column, and for each inner knot a cubic spline that is straight beyond the outermost knots, (n, 1 + k)."""
    if len(knots) < 3:
        return column[:, None]
    width = knots[-1] - knots[0]
    cubes = np.maximum((column[:, None] - knots) / width, 0.0) ** 3
    sides = (cubes[:, :-1] - cubes[:, -1:]) * width / (knots[-1] - knots[:-1])
    return np.column_stack([column, sides[:, :-1] - sides[:, -1:]])
