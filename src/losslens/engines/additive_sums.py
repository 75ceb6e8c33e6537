"""The compiled part of the additive engine: sums over some rows of the table, and the change of each row."""

from __future__ import annotations

from numba import types

from losslens.engines.compiled import compiled
from losslens.engines.trees.node_rules import U

_f8 = types.float64
_vector, _matrix = types.Array(_f8, 1, "C", readonly=True), types.Array(_f8, 2, "C", readonly=True)
_sums, _out = types.Array(_f8, 2, "C"), types.Array(_f8, 1, "C")


@compiled(types.void(_matrix, _vector, _vector, _vector, _sums))
def add_moments(parts, shift, weight, pull, sums):
    """Add to ``sums[:, j]`` the sums of m and m^2 weighted by `weight`, and of m weighted by `pull`; m = x - shift."""
    for i in range(U(parts.shape[0])):
        for j in range(U(parts.shape[1])):
            m = parts[i, j] - shift[j]
            sums[0, j] += weight[i] * m
            sums[1, j] += weight[i] * m * m
            sums[2, j] += pull[i] * m


@compiled(types.void(_vector, _vector, _f8, _f8, _f8, _out))
def write_changes(column, residual, mean, scale, variance, out):
    """c (c + 2 r) + var(c) for each row: the mean change of its squared loss."""
    for i in range(U(len(column))):
        c = (column[i] - mean) * scale
        out[i] = c * (c + 2 * residual[i]) + variance
