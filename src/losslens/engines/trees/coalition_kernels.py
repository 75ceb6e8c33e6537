"""Compiled kernels for coalitions: which rows fulfil which conditions of a tree, and how many fulfil two of them.

A leaf is a box. With some features kept and the others replaced it has two *patterns* (sets of rows): the rows that
fulfil its conditions on kept features, and the donors that fulfil those on replaced ones. A node compares a feature of
one of these two *sides*, and splits the pattern of that side in two: the smaller half is its *basis*, the side's
pattern 1 + 2k for its k-th node, the rest is 2 + 2k; pattern 0 is all rows. Only basis patterns are counted: all other
counts are differences.
"""

from __future__ import annotations

import numpy as np
from numba import njit, types

from losslens.engines.compiled import array_of, compiled
from losslens.engines.intrinsics import count_bits, trailing_zeros
from losslens.engines.trees.node_rules import (
    CUT,
    FEATURE,
    ONE,
    RIGHT,
    RULE,
    TWO,
    U,
    goes_left,
    i4,
    i8,
    u1,
    u8,
)

f8 = types.float64
NONE = U(0)
WORDS = 8  # words added at once: one line of the processor's cache
COLUMNS = 64 * WORDS  # bits of such a line
GROUP = 16  # lines added at once
PLANES = 40  # binary digits of a count
TILE_ROWS, TILE_DONORS = U(16), U(256)  # pairs whose sums stay in the cache while all trees are added


@njit
def add_lines(c, table, rows, count, planes, digits):
    """Count, for every bit position of a line, in how many of these lines of the table it is set.

    All bits are counted at once: plane q holds binary digit q of each count.
    """
    for q in range(U(digits)):
        for w in range(U(WORDS)):
            planes[q, w] = NONE
    for k in range(U(count)):
        row = U(rows[k])
        for w in range(U(WORDS)):
            q, carry = NONE, table[c, row, w]
            while carry != NONE:
                planes[q, w], carry = planes[q, w] ^ carry, planes[q, w] & carry
                q += ONE


@njit
def list_rows(at, bits, rows):
    """Write the rows of a pattern; returns how many."""
    size = NONE
    for w in range(U(bits.shape[1])):
        word = bits[at, w]
        while word != NONE:
            rows[size] = U(64) * w + U(trailing_zeros(word))
            size += ONE
            word &= word - ONE
    return i8(size)


@compiled(
    types.void(
        array_of(i4), array_of(i4), array_of(i4, 2), array_of(i4), array_of(u8, 2), array_of(f8, 2), array_of(u8, 3),
        array_of(i8), array_of(i4, 2), array_of(i4, 2), array_of(i4, 2), array_of(u8, 2), array_of(f8, 3), u1,
    )
)  # fmt: skip
def divide(above, inner, place, test, tests, moments, stack, rows, level, pattern, parts, bits, sums, first_slab):
    """The patterns of both sides at each node, and sums of moments over their rows; the stacks start with all rows.

    Rows may come in slabs: the first one decides which half is the basis, and sums are added to those of the others.
    """
    for s in range(len(above)):
        a = above[s]
        if a < 0:
            continue
        k, left = inner[a], s == a + 1
        for o in range(2):
            level[s, o], pattern[s, o] = level[a, o], pattern[a, o]
        o, at, first = place[k, 0], place[k, 1], 1 + 2 * place[k, 2]
        depth, parent, flip, size, rest = level[a, o], pattern[a, o], NONE if left else ~NONE, 0, 0
        for w in range(U(stack.shape[2])):
            word = stack[o, depth, w]
            part = word & (tests[test[k], w] ^ flip)
            stack[o, depth + 1, w] = part
            size += count_bits(part)
            rest += count_bits(word ^ part)
        if left:
            mine = size <= rest if first_slab else parts[at, 1] != 0
            for w in range(U(stack.shape[2])):
                bits[at, w] = stack[o, depth + 1, w] if mine else stack[o, depth, w] ^ stack[o, depth + 1, w]
            parts[at, 0], parts[at, 1], parts[at, 2] = parent, mine, size if mine else rest
            if moments.shape[1] > 0:
                list_rows(at, bits, rows)
            for m in range(moments.shape[1]):
                total = 0.0 if first_slab else sums[o, first, m]
                for q in range(parts[at, 2]):
                    total += moments[rows[q], m]
                sums[o, first, m], sums[o, first + 1, m] = total, sums[o, parent, m] - total
        level[s, o], pattern[s, o] = depth + 1, first + (left != parts[at, 1])


@compiled(types.void(i8, i8, array_of(u8, 2), array_of(u8, 3)))
def transpose(start, stop, bits, table):
    """Mark for each row the basis patterns that contain it: patterns start .. stop are the columns of the table."""
    for w in range(U(bits.shape[1])):
        for column in range(U(stop - start)):
            bit = ONE << (column & U(63))
            word = bits[U(start) + column, w]
            while word != NONE:
                row = U(64) * w + U(trailing_zeros(word))
                table[column // U(COLUMNS), row, (column >> U(6)) % U(WORDS)] |= bit
                word &= word - ONE


@compiled(
    types.void(
        i8, i8, i8, array_of(i4), array_of(u8, 2), array_of(u8, 3), array_of(i8), array_of(u8, 2), array_of(u8),
        array_of(f8, 2),
    )
)  # fmt: skip
def count(first, last, start, after, bits, table, rows, planes, digit, shared):
    """Add how many rows the basis patterns first .. last share with those of the table, numbered from `start` on.

    Patterns before ``after[at]`` belong to the same tree or to one before it, and are not needed.
    """
    # Constants, but read from shapes: the compiler would unroll loops of known length, which takes long.
    words, bits_per_word = U(table.shape[2]), U(len(digit))
    for at in range(first, last):
        size, digits = list_rows(at, bits, rows), 4
        for q in range(size, size + GROUP):
            rows[q] = table.shape[1] - 1
        while size >> digits:
            digits += 1
        for c in range(max(after[at] - start, 0) // COLUMNS, table.shape[0]):
            add_lines(U(c), table, rows, size, planes, digits)
            for w in range(words):
                for b in range(bits_per_word):
                    digit[b] = 0
                for q in range(U(digits)):
                    word = planes[q, w]
                    for b in range(bits_per_word):
                        digit[b] += ((word >> b) & ONE) << q
                column = U(COLUMNS * c) + U(64) * w
                for b in range(bits_per_word):
                    shared[U(at - first), column + b] += np.int64(digit[b])


@compiled(
    types.void(
        i8, i8, array_of(u8, 2), array_of(u8, 3), array_of(f8), array_of(i8), array_of(i8), array_of(i4),
        array_of(f8, 2),
    )
)  # fmt: skip
def weigh(first, last, bits, table, weight, rows, begins, columns, shared):
    """Add the weight of the rows that the basis patterns first .. last share with those of the table.

    The columns of each row are listed once per table: `begins` ends with -1 until that is done.
    """
    end = 0
    for i in range(len(weight) if begins[len(weight)] < 0 else 0):
        begins[i] = end
        for c in range(table.shape[0]):
            for w in range(table.shape[2]):
                word = table[c, i, w]
                while word != NONE:
                    columns[end] = COLUMNS * c + 64 * w + trailing_zeros(word)
                    end += 1
                    word &= word - ONE
        begins[i + 1] = end
    for at in range(first, last):
        for q in range(list_rows(at, bits, rows)):
            i = rows[q]
            for e in range(U(begins[i]), U(begins[i + 1])):
                shared[at - first, U(columns[e])] += weight[i]


@compiled(
    f8(
        i8, i8, i8, i8, i8, array_of(i4), array_of(i4), array_of(i4), array_of(i4, 2), array_of(i4, 2),
        array_of(i4, 2), array_of(i4, 2), array_of(i4, 2), array_of(i4), array_of(f8, 3), array_of(f8, 2),
        array_of(f8, 3), array_of(f8, 3),
    )
)  # fmt: skip
def sum_products(
    s0, s1, t, u0, u1, root, above, inner, place, starts, parts, level, leaf_pattern, top, sums, value, shared, counts
):
    """Over all pairs of a row and a donor, the sum of the values of leaves s0 .. s1 times the values of trees u0 .. u1.

    Each tree is multiplied with later ones only; node s0 is in tree t. Along the path `counts` holds, for each side and
    level, what the pattern there shares with every pattern of the trees; `shared` that of a basis, from `top` on.
    """
    total, t = 0.0, t - 1 if above[s0] < 0 else t
    for s in range(s0, s1):
        a = above[s]
        t += a < 0
        begin = max(u0, t + 1)
        if a >= 0:
            o, at, depth = U(place[inner[a], 0]), place[inner[a], 1], U(level[s, place[inner[a], 0]])
            start, patterns = U(starts[o, begin]), U(starts[o, u1] - starts[o, begin])
            first = ONE + TWO * (start - U(starts[o, 0]))
            if s == a + 1:
                row, shift = U(at - top[o]), start - U(starts[o, u0])
                counts[o, depth, NONE] = sums[o, 1 + 2 * place[inner[a], 2], 0]
                for c in range(patterns):
                    both, q = shared[o, row, shift + c], first + TWO * c
                    counts[o, depth, q] = both
                    counts[o, depth, q + ONE] = counts[o, depth, U(parts[start + c, 0])] - both
            if s > a + 1 or parts[at, 1] == 0:  # the other child
                counts[o, depth, NONE] = counts[o, depth - ONE, NONE] - counts[o, depth, NONE]
                for q in range(first, first + TWO * patterns):
                    counts[o, depth, q] = counts[o, depth - ONE, q] - counts[o, depth, q]
        if inner[s + 1] == inner[s]:
            kept, replaced = U(level[s, 0]), U(level[s, 1])
            for w in range(U(value.shape[1])):
                others = 0.0
                for c in range(U(root[begin] - inner[root[begin]]), U(root[u1] - inner[root[u1]])):
                    pairs = counts[NONE, kept, U(leaf_pattern[c, 0])] * counts[ONE, replaced, U(leaf_pattern[c, 1])]
                    others += value[c, w] * pairs
                total += value[s - inner[s], w] * others
    return total


@compiled(
    i8(
        i8, array_of(i4, 2), array_of(u1), array_of(i4, 2), array_of(i4), array_of(u1, 2), array_of(i4), array_of(i4, 2)
    )
)  # fmt: skip
def reach(i, nodes, fixed, codes, size, sets, stack, reached):
    """List the leaves of one tree that row i and later ones can reach while all features but the `fixed` ones vary.

    Stops before the row whose leaves might not fit; returns the number of leaves listed.
    """
    count, leaves = 0, (len(nodes) + 1) // 2
    while i < codes.shape[1] and count + leaves <= len(reached):
        stack[0], waiting = 0, 1
        while waiting > 0:
            waiting -= 1
            s = stack[waiting]
            while nodes[s, FEATURE] >= 0:
                f = nodes[s, FEATURE]
                if fixed[f] == 0:
                    stack[waiting] = nodes[s, RIGHT]
                    waiting += 1
                    s += 1
                elif goes_left(codes[f, i], nodes[s, CUT], nodes[s, RULE], size[f], sets):
                    s += 1
                else:
                    s = nodes[s, RIGHT]
            reached[count, 0], reached[count, 1] = nodes[s, RIGHT], i
            count += 1
        i += 1
    return count


@compiled(types.void(array_of(u8, 2), array_of(u8, 2), array_of(i4), array_of(i8, 2), array_of(i4), array_of(i8, 3)))
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


@compiled(
    types.void(
        array_of(i4, 2), array_of(i4), array_of(i4), array_of(i4, 2), array_of(i4, 2), array_of(i4), array_of(u1, 2),
        array_of(i8, 2), array_of(i4), array_of(i8, 3),
    )
)  # fmt: skip
def walk_pairs(nodes, roots, replaced, codes, values, size, sets, value, output, raw):
    """Add the values of all trees, pair by pair; feature f is the donor's ``values[replaced[f]]``, the row's at -1."""
    for t in range(len(roots)):
        for i in range(raw.shape[0]):
            for k in range(raw.shape[1]):
                s = roots[t]
                while nodes[s, FEATURE] >= 0:
                    f = nodes[s, FEATURE]
                    code = codes[f, i] if replaced[f] < 0 else values[replaced[f], k]
                    s = s + 1 if goes_left(code, nodes[s, CUT], nodes[s, RULE], size[f], sets) else nodes[s, RIGHT]
                for w in range(value.shape[1]):
                    raw[i, k, output[t] + w] += value[nodes[s, RIGHT], w]
