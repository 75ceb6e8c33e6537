"""The compiled part of the additive engine: two passes over some rows of the table."""

from __future__ import annotations

from numba import types

from losslens.engines.compiled import compiled
from losslens.engines.trees.node_rules import U

ROWS = U(512)  # handled at a time, so that they stay in the processor's cache

_f8 = types.float64
_vector, _matrix = types.Array(_f8, 1, "C", readonly=True), types.Array(_f8, 2, "C", readonly=True)
_sums = types.Array(_f8, 2, "C")


@compiled(types.void(_matrix, _vector, _vector, _vector, _sums))
def add_moments(parts, shift, weight, pull, sums):
    """Add to ``sums[:, j]`` the weighted sums of m, m^2 and, with the residual's pull, of m; m = x - shift."""
    for i in range(U(parts.shape[0])):
        for j in range(U(parts.shape[1])):
            moved = parts[i, j] - shift[j]
            sums[0, j] += weight[i] * moved
            sums[1, j] += weight[i] * moved * moved
            sums[2, j] += pull[i] * moved


@compiled(types.void(_matrix, _vector, _vector, _vector, _vector, types.Array(_f8, 2, "A")))
def write_changes(parts, mean, scale, variance, residual, local):
    """``local[j, i] = c (2 r_i + c) + var(c)``, with c what column j adds to row i, less its mean."""
    n, p = U(parts.shape[0]), U(parts.shape[1])
    for block in range(U((parts.shape[0] + 511) // 512)):
        for j in range(p):
            for i in range(block * ROWS, min(n, (block + U(1)) * ROWS)):
                c = (parts[i, j] - mean[j]) * scale[j]
                local[j, i] = c * (c + 2 * residual[i]) + variance[j]
