"""The compiled part of the additive engine: sums over some rows of the table, and the change of each row."""

from __future__ import annotations

from numba import types

from losslens.engines.compiled import compiled
from losslens.engines.intrinsics import store_past_cache
from losslens.engines.trees.node_rules import ONE, TWO, U

_f8 = types.float64
_vector, _matrix = types.Array(_f8, 1, "C", readonly=True), types.Array(_f8, 2, "C", readonly=True)
_sums, _out = types.Array(_f8, 2, "C"), types.Array(_f8, 1, "C")


@compiled(types.void(_matrix, types.Array(types.int64, 1, "C"), _sums, types.uint64))
def copy_columns(parts, columns, copies, start):
    """Write some columns of a few rows to `copies`, (columns, n), from row `start` on."""
    for k in range(U(len(columns))):
        column, j = copies[k], U(columns[k])
        for i in range(U(parts.shape[0])):
            store_past_cache(column, start + i, parts[i, j])


@compiled(types.void(_matrix, _vector, _vector, _vector, _f8, _out, _out, _sums))
def add_moments(parts, shift, weight, y, intercept, prediction, residual, sums):
    """Complete the predictions of a few rows, write their residuals r, and add up.

    ``sums[:, j]`` are those of m and m^2 weighted by `weight`, and of m weighted by that and r; m = x - shift.
    """
    last = U(parts.shape[0]) - ONE
    for i in range(last + ONE):
        prediction[i] += intercept
        residual[i] = y[i] - prediction[i]
    for i in range(U(0), last + ONE, U(4)):  # four rows at once: sums are read and written a quarter as often
        second, third, fourth = min(i + ONE, last), min(i + TWO, last), min(i + U(3), last)
        w, r = weight[i], weight[i] * residual[i]
        w2, w3, w4 = weight[second] * (second > i), weight[third] * (third > second), weight[fourth] * (fourth > third)
        r2, r3, r4 = w2 * residual[second], w3 * residual[third], w4 * residual[fourth]
        for j in range(U(parts.shape[1])):
            m, m2 = parts[i, j] - shift[j], parts[second, j] - shift[j]
            m3, m4 = parts[third, j] - shift[j], parts[fourth, j] - shift[j]
            sums[0, j] += w * m + w2 * m2 + (w3 * m3 + w4 * m4)
            sums[1, j] += w * m * m + w2 * m2 * m2 + (w3 * m3 * m3 + w4 * m4 * m4)
            sums[2, j] += r * m + r2 * m2 + (r3 * m3 + r4 * m4)


@compiled(types.void(_vector, _vector, _f8, _f8, _f8, _out))
def write_changes(column, residual, mean, scale, variance, out):
    """c (c + 2 r) + var(c) for each row: the mean change of its squared loss."""
    for i in range(U(len(column))):
        c = (column[i] - mean) * scale
        out[i] = c * (c + 2 * residual[i]) + variance
