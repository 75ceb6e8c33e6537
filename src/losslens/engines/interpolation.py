"""Means over all pairs of an analytic function of a sum of two numbers, linear in the number of rows.

``mean over k of phi(u_i + v_k)`` for all i: every v is replaced by masses at the 8 nearest points of a grid, every u by
a polynomial through 8 points, and between the points is a product of a Toeplitz matrix. Steps of 1/32: for functions
that are analytic up to a distance of pi from the real line, and decay no faster than exp(-2 |x|), the error is at most
1e-14 of the largest value within a few steps: rounding is larger.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import floor
from typing import Self

import numpy as np
from numpy.typing import NDArray

from losslens.typing import Floats

POINTS, STEPS = 8, 32  # of a polynomial; of the grid, in one unit
Tables = NDArray[np.uint8]


def _lagrange() -> Floats:
    """Coefficients of t^0 .. t^7 of the polynomials that are 1 at one of the points and 0 at the others, (8, 8)."""
    nodes = np.arange(POINTS) - (POINTS - 1) / 2
    rows = []
    for node in nodes:
        others = nodes[nodes != node]
        rows.append(np.poly(others)[::-1] / np.prod(node - others))  # halves: exact but for the division
    return np.array(rows)


LAGRANGE = _lagrange()


@dataclass(frozen=True, eq=False)
class GridAxis:
    """Numbers on a grid: in steps, and the intervals that hold them."""

    x: Floats  # (n,), in steps
    first: int  # where the first interval begins
    intervals: int

    @classmethod
    def of(cls, numbers: Floats) -> Self:
        """The intervals between the smallest and the largest number."""
        x = np.ascontiguousarray(numbers * STEPS)
        first = floor(x.min())
        return cls(x, first, floor(x.max()) - first + 1)

    @property
    def points(self) -> int:
        """Points of the grid that polynomials need."""
        return self.intervals + POINTS - 1

    def masses(self, table: Tables, weight: Floats, tables: int) -> Floats:
        """The weights of the numbers, of each table by itself, as masses at the points, (tables, points)."""
        from losslens.engines.interpolation_kernels import add_powers

        sums = np.zeros((tables, self.intervals, POINTS))
        add_powers(self.x, float(self.first), table, np.ascontiguousarray(weight), sums)
        nodes, masses = sums @ LAGRANGE.T, np.zeros((tables, self.points))
        for j in range(POINTS):
            masses[:, j : j + self.intervals] += nodes[:, :, j]
        return masses

    def interpolate(self, table: Tables, values: Floats) -> Floats:
        """Functions with these values at the points, (tables, points), at the numbers: each from its table."""
        from losslens.engines.interpolation_kernels import evaluate

        windows = np.lib.stride_tricks.sliding_window_view(values, POINTS, axis=1)
        result = np.empty(len(self.x))
        evaluate(self.x, float(self.first), table, np.ascontiguousarray(windows @ LAGRANGE), result)
        return result


def means_of_sums(phi: Callable[[Floats], Floats], axis: GridAxis, averaged: GridAxis, masses: Floats) -> Floats:
    """Sums of phi(u + v) over the masses at the points v of one axis, for each point u of the other, (points,)."""
    first = axis.first + averaged.first - (POINTS - 2)  # the points begin 3 steps before the intervals, of both
    samples = phi((first + np.arange(axis.points + averaged.points - 1)) / STEPS)
    return np.correlate(samples, masses, "valid")
