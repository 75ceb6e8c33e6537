"""The compiled part of `product_effects`: Shapley values of a sum of products, pair by pair.

In the game of one product, ``v(S) = prod over j in S of a[j] prod over j not in S of b[j]``, the features before j in a
random order are each there with probability t, the time at which j comes, uniform between 0 and 1:

    phi_j = (a[j] - b[j]) * integral over t of prod over h other than j of (b[h] + t (a[h] - b[h]))

The integrand is a polynomial in t, which a few Gauss-Legendre points integrate exactly.
"""

from __future__ import annotations

from numba import types

from losslens.engines.compiled import array_of, compiled
from losslens.engines.trees.node_rules import ONE, U
from losslens.engines.trees.pair_losses import REORDERED_SUMS

TILE = 64  # terms at a time: what a pair needs of them stays in the first cache
f8, u8 = types.float64, types.uint64


@compiled(
    types.void(
        array_of(f8, 4), array_of(f8, 4), array_of(f8, 2), array_of(f8, 2), array_of(f8, 2), array_of(f8, 2), u8, u8,
        types.boolean, array_of(f8, 3), array_of(f8, 3), array_of(f8, 3),
    ),
    **REORDERED_SUMS,
)  # fmt: skip
def add_pairs(kept, lent, coef, points, of_rows, of_donors, first, last, mirrored, scratch, own, swapped):
    """Add the Shapley values of rows first .. last with all donors, with weights, to `own`, (D, rows, p).

    kept, lent: factors of rows and donors, (tiles, rows or donors, p, TILE); coef: (tiles, TILE); points: places and
    weights, (2, q). mirrored: the donors are the rows; each pair is taken once, and as its reverse added to `swapped`.
    """
    p = U(kept.shape[2])
    gap, before, sums, mixed, run = scratch[0], scratch[1], scratch[2], scratch[3], scratch[4, 0]
    for tile in range(U(len(coef))):
        for i in range(first, last):
            for k in range(i + ONE if mirrored else U(0), U(lent.shape[1])):
                for j in range(p):
                    for s in range(U(TILE)):
                        gap[j, s] = kept[tile, i, j, s] - lent[tile, k, j, s]
                        sums[j, s] = 0.0
                for at in range(U(points.shape[1])):
                    t = points[0, at]
                    for s in range(U(TILE)):
                        run[s] = 1.0
                    for j in range(p):
                        for s in range(U(TILE)):
                            before[j, s] = run[s]
                            mixed[j, s] = lent[tile, k, j, s] + t * gap[j, s]
                            run[s] *= mixed[j, s]
                    for s in range(U(TILE)):
                        run[s] = points[1, at] * coef[tile, s]
                    for back in range(p):
                        j = p - ONE - back
                        for s in range(U(TILE)):
                            sums[j, s] += before[j, s] * run[s]
                            run[s] *= mixed[j, s]
                for j in range(p):
                    share = 0.0
                    for s in range(U(TILE)):
                        share += gap[j, s] * sums[j, s]
                    for d in range(U(len(of_donors))):
                        own[d, i - first, j] += of_donors[d, k] * share
                        if mirrored:
                            swapped[d, k, j] -= of_rows[d, i] * share
