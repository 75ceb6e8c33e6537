"""How a node splits the classes of a feature; shared by all compiled kernels."""

from __future__ import annotations

import numpy as np
from numba import types

from losslens.engines.compiled import compiled, larger, part, smaller
from losslens.engines.loops import each
from losslens.engines.plain_arrays import array_of

# Columns of the array of nodes. At a leaf FEATURE is -1 and RIGHT the leaf's number. LOW .. HIGH are the ordered
# classes of the feature with which the node can be reached; FIRST: no node above compares the feature. These
# three are filled in for ensembles with a large tree only.
FEATURE, CUT, RIGHT, RULE, LOW, HIGH, FIRST, COLUMNS = range(8)
# Values of RULE. PLAIN: classes below the cut go left; MISSING_LEFT: also the last class, a missing value; SETS + k:
# the classes of the k-th set go left.
PLAIN, MISSING_LEFT, SETS = 0, 1, 2
SMALL_TREE_LEAVES = 64  # largest number of leaves of a "small" tree: a set of leaves is one 64-bit word
U = np.uint64
ONE, TWO = U(1), U(2)

u1, i4, i8, u8 = types.uint8, types.int32, types.int64, types.uint64


@part(types.boolean(i4, i4, i4, i4, array_of(u1, 2)))
def goes_left(code, cut, rule, size, sets):
    """Whether a class goes left at a node."""
    if rule == PLAIN:
        return code < cut
    if rule == MISSING_LEFT:
        return code < cut or code == size - 1
    return sets[rule - SETS, code] != 0


@compiled(
    types.void(
        array_of(i4, 2), array_of(i4, 2), array_of(i4), array_of(i4), array_of(u1, 2), array_of(i8, 2), array_of(i4),
        array_of(i8, 2),
    )
)  # fmt: skip
def add_own_leaves(codes, nodes, roots, size, sets, value, output, raw):
    """Add the values of the leaves that rows reach, tree by tree."""
    for t in each(U(len(roots))):
        out = U(output[t])
        for i in each(U(codes.shape[1])):
            s = U(roots[t])
            while nodes[s, FEATURE] >= 0:
                f = U(nodes[s, FEATURE])
                left = goes_left(codes[f, i], nodes[s, CUT], nodes[s, RULE], size[f], sets)
                s = s + ONE if left else U(nodes[s, RIGHT])
            for w in each(U(value.shape[1])):
                raw[i, out + w] += value[U(nodes[s, RIGHT]), w]


@compiled(i8(array_of(i4, 2), array_of(i4), array_of(i4), array_of(i4, 2)))
def fill_ranges(nodes, roots, special, stack):
    """Fill in LOW, HIGH and FIRST of every node; returns the longest path, or -1 if `stack` is too short for it."""
    longest = 0
    for t in each(len(roots)):
        s = roots[t]
        depth = 0
        while True:
            f = nodes[s, FEATURE]
            if f >= 0:
                low, high, first = 0, special[f], 1
                for d in range(depth - 1, -1, -1):
                    above = stack[d, 0]
                    if nodes[above, FEATURE] == f:
                        first = 0
                        cut = nodes[above, CUT]
                        if stack[d, 1] == 0:  # this node is in its left subtree
                            low, high = nodes[above, LOW], smaller(nodes[above, HIGH], cut)
                        else:
                            low, high = larger(nodes[above, LOW], cut), nodes[above, HIGH]
                        break
                nodes[s, LOW], nodes[s, HIGH], nodes[s, FIRST] = low, high, first
                if depth == len(stack):
                    return -1
                stack[depth, 0], stack[depth, 1] = s, 0
                depth += 1
                longest = larger(longest, depth)
                s += 1
                continue
            while depth > 0 and stack[depth - 1, 1] == 1:
                depth -= 1
            if depth == 0:
                break
            stack[depth - 1, 1] = 1
            s = nodes[stack[depth - 1, 0], RIGHT]
    return longest
