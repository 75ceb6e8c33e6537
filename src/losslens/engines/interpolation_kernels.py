"""The compiled part of interpolation on a grid: sums of powers in each interval, and polynomials of each interval."""

from __future__ import annotations

from numba import types

from losslens.engines.compiled import compiled

_f8, _u1 = types.float64, types.uint8
_vector, _tables = types.Array(_f8, 1, "C", readonly=True), types.Array(_f8, 3, "C")


@compiled(types.void(_vector, _f8, types.Array(_u1, 1, "C", readonly=True), _vector, _tables))
def add_powers(x, first, table, weight, sums):
    """Add ``weight t^d``, d = 0 .. 7, to the interval of each x, t its place in it, from -1/2 to 1/2.

    `x` is in steps of the grid; interval b of ``sums[table]``, (intervals, 8), begins at ``first + b``.
    """
    last = sums.shape[1] - 1
    for i in range(x.shape[0]):
        s = x[i] - first
        b = min(max(int(s), 0), last)
        t = s - b - 0.5
        t2, m = t * t, weight[i]
        mt, t4 = m * t, t2 * t2
        row = sums[table[i], b]
        row[0] += m
        row[1] += mt
        row[2] += m * t2
        row[3] += mt * t2
        row[4] += m * t4
        row[5] += mt * t4
        row[6] += m * (t4 * t2)
        row[7] += mt * (t4 * t2)


@compiled(types.void(_vector, _f8, types.Array(_u1, 1, "C", readonly=True), _tables, types.Array(_f8, 1, "C")))
def evaluate(x, first, table, coefficients, values):
    """The polynomial of the interval of each x, at its place in it; coefficients: (tables, intervals, 8)."""
    last = coefficients.shape[1] - 1
    for i in range(x.shape[0]):
        s = x[i] - first
        b = min(max(int(s), 0), last)
        t = s - b - 0.5
        t2 = t * t
        c = coefficients[table[i], b]
        low = c[0] + c[1] * t + t2 * (c[2] + c[3] * t)
        values[i] = low + t2 * t2 * (c[4] + c[5] * t + t2 * (c[6] + c[7] * t))
