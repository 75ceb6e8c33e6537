"""How a node splits the classes of a feature, shared by all compiled kernels, and the walk from the root to a leaf."""

from __future__ import annotations

import numpy as np
from numba import njit, types

from losslens.engines.compiled import compiled

# Columns of the array of nodes. At a leaf FEATURE is -1 and RIGHT the leaf's number.
FEATURE, CUT, RIGHT, RULE, COLUMNS = range(5)
# Values of RULE. PLAIN: classes below the cut go left; MISSING_LEFT: also the last class, a missing value; SETS + k:
# the classes of the k-th set go left.
PLAIN, MISSING_LEFT, SETS = 0, 1, 2
SMALL_TREE_LEAVES = 64  # largest number of leaves of a "small" tree: a set of leaves is one 64-bit word
U = np.uint64
ONE, TWO = U(1), U(2)

u1, i4, i8, u8, f8 = types.uint8, types.int32, types.int64, types.uint64, types.float64
# `BoundEnsemble.trees`: nodes, roots, size, special, sets, leaf_at, value, output. Kernels take plain tuples: numba
# would keep a class in its cache, and fail to load it once the class has moved.
TREES = types.Tuple((i4[:, ::1], i4[::1], i4[::1], i4[::1], u1[:, ::1], i4[::1], i8[:, ::1], i4[::1]))


@njit
def goes_left(code, cut, rule, size, sets):
    """Whether a class goes left at a node."""
    if rule == PLAIN:
        return code < cut
    if rule == MISSING_LEFT:
        return code < cut or code == size - 1
    return sets[rule - SETS, code] != 0


@compiled(types.void(TREES, types.boolean[::1], i4[:, ::1], i4[:, ::1], i8[:, :, ::1]))
def walk_pairs(trees, replaced, codes, values, raw):
    """Add the values of all trees, pair by pair: of the leaves at the row's codes and the donor's replaced values."""
    nodes, roots, size, _, sets, _, value, output = trees
    for t in range(U(len(roots))):
        out = U(output[t])
        for i in range(U(raw.shape[0])):
            for k in range(U(raw.shape[1])):
                s = U(roots[t])
                while nodes[s, FEATURE] >= 0:
                    f = U(nodes[s, FEATURE])
                    code = values[f, k] if replaced[f] else codes[f, i]
                    left = goes_left(code, nodes[s, CUT], nodes[s, RULE], size[f], sets)
                    s = s + ONE if left else U(nodes[s, RIGHT])
                for w in range(U(value.shape[1])):
                    raw[i, k, out + w] += value[U(nodes[s, RIGHT]), w]
