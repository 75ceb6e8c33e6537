"""Predictions of all pairs of a row, which keeps some columns, and a donor, whose values replace the others.

The row's kept values allow some leaves of a tree, the donor's values allow some: of a small tree both are words of
bits, which have one bit in common. Larger trees are walked down, pair by pair.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numba import types
from numpy.typing import NDArray

from losslens.engines.compiled import compiled
from losslens.engines.intrinsics import trailing_zeros
from losslens.engines.trees.bound import BoundEnsemble, Ints
from losslens.engines.trees.node_rules import U, i4, i8, u8, walk_pairs
from losslens.engines.trees.small_trees import Tables
from losslens.typing import Indices

MASKS = 1 << 22  # trees times donors whose masks are held
NONE = U(0)
TILE_ROWS, TILE_DONORS = U(16), U(256)  # pairs whose sums stay in the cache while all trees are added


@compiled(types.void(u8[:, ::1], u8[:, ::1], i4[::1], i8[:, ::1], i4[::1], i8[:, :, ::1]))
def add_pairs(kept, replaced, leaf_at, value, output, raw):
    """Add the values of trees that have masks: of the one leaf that the row and the donor both allow."""
    rows, donors, width = U(raw.shape[0]), U(raw.shape[1]), U(value.shape[1])
    for i0 in range(NONE, rows, TILE_ROWS):
        for k0 in range(NONE, donors, TILE_DONORS):
            for t in range(U(len(kept))):
                leaf, out = U(leaf_at[t]), U(output[t])
                for i in range(i0, min(i0 + TILE_ROWS, rows)):
                    allowed = kept[t, i]
                    for w in range(width):
                        for k in range(k0, min(k0 + TILE_DONORS, donors)):
                            raw[i, k, out + w] += value[leaf + U(trailing_zeros(allowed & replaced[t, k])), w]


def pair_table(
    bound: BoundEnsemble, tables: Tables | None, kept: Sequence[int] | Indices, values: Ints, rows: Indices
) -> NDArray[np.int64]:
    """Sums of leaves, (rows, g, outputs), of some rows at g donors' values; exact, for `BoundEnsemble.respond`.

    `values` holds the classes of these values, (replaced columns, g), columns in the table's order. Without `tables`,
    if a tree has too many leaves for a mask, every pair walks down every tree.
    """
    replaced = np.isin(np.arange(len(bound.size)), kept, invert=True)
    codes = np.ascontiguousarray(bound.codes[:, rows])
    donor_codes = np.zeros((len(replaced), values.shape[1]), np.int32)
    donor_codes[replaced] = values
    raw = np.zeros((len(rows), values.shape[1], len(bound.unit)), np.int64)
    if tables is None:
        walk_pairs(bound.trees, replaced, codes, donor_codes, raw)
        return raw
    step = max(1, MASKS // max(1, values.shape[1]))
    for t in range(0, len(bound.roots), step):
        part, in_part = slice(t, t + step), (tables.tree >= t) & (tables.tree < t + step)
        of_rows, of_donors = (
            tables.allowed(entries, tables.tree[entries] - t, len(bound.roots[part]), classes)
            for mask, classes in ((~replaced, codes), (replaced, donor_codes))
            for entries in (np.flatnonzero(in_part & mask[tables.feature]),)
        )
        add_pairs(of_rows, of_donors, bound.leaf_at[part], bound.value, bound.output[part], raw)
    return raw
