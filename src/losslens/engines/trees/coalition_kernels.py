"""Compiled kernels for coalitions: which rows fulfil which conditions of a tree, and how many fulfil two of them.

A leaf is a box. With some features kept and the others replaced it has two *patterns* (sets of rows): the rows that
fulfil its conditions on kept features, and the donors that fulfil those on replaced ones. A node compares a feature of
one of these two *sides*, and splits the pattern of that side in two: the smaller half is its *basis*, the side's
pattern 1 + 2k for its k-th node, the rest is 2 + 2k; pattern 0 is all rows. Only basis patterns are counted: all other
counts are differences.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from losslens.engines.compiled import compiled, count_bits, larger, part, smaller, trailing_zeros
from losslens.engines.loops import each
from losslens.engines.plain_arrays import array_of
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

_WORD = ir.IntType(64)
_LINE = ir.VectorType(_WORD, WORDS)


def _at(builder, address, kind=_LINE):
    return builder.inttoptr(address, ir.PointerType(kind))


@intrinsic
def add_lines(_, table, rows, count, planes, digits):
    """Count, for every bit position of a line, in how many of these lines of the table it is set.

    All bits are counted at once: plane q holds binary digit q of each count. 16 lines are added by a tree of full
    adders, two lines and the current digit at a time, so that a single carry reaches the fifth plane. Written in LLVM
    IR, because the lower planes then stay in registers. The planes from the fifth on must be zero at the start.
    """

    def emit(context, builder, signature, arguments):
        table, rows, count, planes, digits = arguments
        size, zero = _number(8 * WORDS), ir.Constant(_LINE, [0] * WORDS)
        running = [cgutils.alloca_once_value(builder, zero) for _ in range(4)]

        def add(digit, k, start):
            if digit < 0:
                row = builder.load(_at(builder, builder.add(start, _number(8 * k)), _WORD))
                return builder.load(_at(builder, builder.add(table, builder.mul(row, size))), align=8)
            one, two = add(digit - 1, k, start), add(digit - 1, k + (1 << digit), start)
            current, either = builder.load(running[digit]), builder.xor(one, two)
            builder.store(builder.xor(current, either), running[digit])
            return builder.or_(builder.and_(one, two), builder.and_(current, either))

        with cgutils.for_range_slice(builder, _number(0), count, _number(GROUP), intp=_WORD) as (g, _):
            carry = cgutils.alloca_once_value(builder, add(3, 0, builder.add(rows, builder.mul(g, _number(8)))))
            with cgutils.for_range_slice(builder, _number(4), digits, _number(1), intp=_WORD) as (q, _):
                place = _at(builder, builder.add(planes, builder.mul(q, size)))
                current, carried = builder.load(place, align=8), builder.load(carry)
                builder.store(builder.and_(current, carried), carry)
                builder.store(builder.xor(current, carried), place, align=8)
        for digit, line in enumerate(running):
            builder.store(builder.load(line), _at(builder, builder.add(planes, _number(8 * WORDS * digit))), align=8)

    return types.void(i8, i8, i8, i8, i8), emit


def _number(value):
    return ir.Constant(_WORD, value)


@part(i8(i8, array_of(u8, 2), array_of(i8)))
def list_rows(at, bits, rows):
    """Write the rows of a pattern; returns how many."""
    size = NONE
    for w in each(U(bits.shape[1])):
        word = bits[at, w]
        while word != NONE:
            rows[size] = U(64) * w + U(trailing_zeros(word))
            size += ONE
            word &= word - ONE
    return size


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
    for s in each(len(above)):
        a = above[s]
        if a < 0:
            continue
        k, left = inner[a], s == a + 1
        for o in each(2):
            level[s, o], pattern[s, o] = level[a, o], pattern[a, o]
        o, at, first = place[k, 0], place[k, 1], 1 + 2 * place[k, 2]
        depth, parent, flip, size, rest = level[a, o], pattern[a, o], NONE if left else ~NONE, 0, 0
        for w in each(U(stack.shape[2])):
            word = stack[o, depth, w]
            part = word & (tests[test[k], w] ^ flip)
            stack[o, depth + 1, w] = part
            size += count_bits(part)
            rest += count_bits(word ^ part)
        if left:
            mine = size <= rest if first_slab else parts[at, 1] != 0
            for w in each(U(stack.shape[2])):
                bits[at, w] = stack[o, depth + 1, w] if mine else stack[o, depth, w] ^ stack[o, depth + 1, w]
            parts[at, 0], parts[at, 1], parts[at, 2] = parent, mine, size if mine else rest
            if moments.shape[1] > 0:
                list_rows(at, bits, rows)
            for m in each(moments.shape[1]):
                total = 0.0 if first_slab else sums[o, first, m]
                for q in each(parts[at, 2]):
                    total += moments[rows[q], m]
                sums[o, first, m], sums[o, first + 1, m] = total, sums[o, parent, m] - total
        level[s, o], pattern[s, o] = depth + 1, first + (left != parts[at, 1])


@compiled(types.void(i8, i8, array_of(u8, 2), array_of(u8, 3)))
def transpose(start, stop, bits, table):
    """Mark for each row the basis patterns that contain it: patterns start .. stop are the columns of the table."""
    for w in each(U(bits.shape[1])):
        for column in each(U(stop - start)):
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
    for at in each(first, last):
        size, digits = list_rows(at, bits, rows), 4
        for q in each(size, size + GROUP):
            rows[q] = table.shape[1] - 1
        while size >> digits:
            digits += 1
        for c in each(larger(after[at] - start, 0) // COLUMNS, table.shape[0]):
            for q in each(U(4), U(digits)):
                for w in each(words):
                    planes[q, w] = NONE
            part = table.address + 8 * WORDS * table.shape[1] * c
            add_lines(part, rows.address, size, planes.address, digits)
            for w in each(words):
                for b in each(bits_per_word):
                    digit[b] = 0
                for q in each(U(digits)):
                    word = planes[q, w]
                    for b in each(bits_per_word):
                        digit[b] += ((word >> b) & ONE) << q
                column = U(COLUMNS * c) + U(64) * w
                for b in each(bits_per_word):
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
    for i in each(len(weight) if begins[len(weight)] < 0 else 0):
        begins[i] = end
        for c in each(table.shape[0]):
            for w in each(table.shape[2]):
                word = table[c, i, w]
                while word != NONE:
                    columns[end] = COLUMNS * c + 64 * w + trailing_zeros(word)
                    end += 1
                    word &= word - ONE
        begins[i + 1] = end
    for at in each(first, last):
        for q in each(list_rows(at, bits, rows)):
            i = rows[q]
            for e in each(U(begins[i]), U(begins[i + 1])):
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
    for s in each(s0, s1):
        a = above[s]
        t += a < 0
        begin = larger(u0, t + 1)
        if a >= 0:
            o, at, depth = U(place[inner[a], 0]), place[inner[a], 1], U(level[s, place[inner[a], 0]])
            start, patterns = U(starts[o, begin]), U(starts[o, u1] - starts[o, begin])
            first = ONE + TWO * (start - U(starts[o, 0]))
            if s == a + 1:
                row, shift = U(at - top[o]), start - U(starts[o, u0])
                counts[o, depth, NONE] = sums[o, 1 + 2 * place[inner[a], 2], 0]
                for c in each(patterns):
                    both, q = shared[o, row, shift + c], first + TWO * c
                    counts[o, depth, q] = both
                    counts[o, depth, q + ONE] = counts[o, depth, U(parts[start + c, 0])] - both
            if s > a + 1 or parts[at, 1] == 0:  # the other child
                counts[o, depth, NONE] = counts[o, depth - ONE, NONE] - counts[o, depth, NONE]
                for q in each(first, first + TWO * patterns):
                    counts[o, depth, q] = counts[o, depth - ONE, q] - counts[o, depth, q]
        if inner[s + 1] == inner[s]:
            kept, replaced = U(level[s, 0]), U(level[s, 1])
            for w in each(U(value.shape[1])):
                others = 0.0
                for c in each(U(root[begin] - inner[root[begin]]), U(root[u1] - inner[root[u1]])):
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
    for i0 in each(NONE, rows, TILE_ROWS):
        for k0 in each(NONE, donors, TILE_DONORS):
            for t in each(U(len(kept))):
                leaf, out = U(leaf_at[t]), U(output[t])
                for i in each(i0, smaller(i0 + TILE_ROWS, rows)):
                    allowed = kept[t, i]
                    for w in each(width):
                        for k in each(k0, smaller(k0 + TILE_DONORS, donors)):
                            raw[i, k, out + w] += value[leaf + U(trailing_zeros(allowed & replaced[t, k])), w]


@compiled(
    types.void(
        array_of(i4, 2), array_of(i4), array_of(i4), array_of(i4, 2), array_of(i4, 2), array_of(i4), array_of(u1, 2),
        array_of(i8, 2), array_of(i4), array_of(i8, 3),
    )
)  # fmt: skip
def walk_pairs(nodes, roots, replaced, codes, values, size, sets, value, output, raw):
    """Add the values of all trees, pair by pair; feature f is the donor's ``values[replaced[f]]``, the row's at -1."""
    for t in each(len(roots)):
        for i in each(raw.shape[0]):
            for k in each(raw.shape[1]):
                s = roots[t]
                while nodes[s, FEATURE] >= 0:
                    f = nodes[s, FEATURE]
                    code = codes[f, i] if replaced[f] < 0 else values[replaced[f], k]
                    s = s + 1 if goes_left(code, nodes[s, CUT], nodes[s, RULE], size[f], sets) else nodes[s, RIGHT]
                for w in each(value.shape[1]):
                    raw[i, k, output[t] + w] += value[nodes[s, RIGHT], w]
