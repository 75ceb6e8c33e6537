"""Compiled code for coalitions: who keeps to which part of a tree, and in how many rows two parts meet.

A leaf is a box. With some features kept and the others replaced it has two *patterns*: the rows that meet its kept
conditions, and the donors that meet its replaced ones. A node asks for a feature on one of these two *sides*. It
divides the pattern of that side in two: the smaller half is its *basis*, the side's pattern 1 + 2k for its k-th node,
the rest is 2 + 2k; pattern 0 is all rows. Only basis patterns are counted: everything else is a difference.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from losslens.engines.compiled import compiled, count_bits, trailing_zeros
from losslens.engines.trees.node_rules import (
    CUT,
    FEATURE,
    ONE,
    RIGHT,
    RULE,
    TWO,
    U,
    array_of,
    goes_left,
    i4,
    i8,
    u1,
    u8,
)

f8 = types.float64
NONE = U(0)
WORDS = 8  # added at once: one line of the processor's cache
COLUMNS = 64 * WORDS
GROUP = 16  # rows added at once
PLANES = 40  # binary digits of a count
TILE_ROWS, TILE = U(16), U(256)  # pairs whose sums stay in the cache while all trees are added

_WORD = ir.IntType(64)
_LINE = ir.VectorType(_WORD, WORDS)


def _at(builder, address, kind=_LINE):
    return builder.inttoptr(address, ir.PointerType(kind))


@intrinsic
def add_lines(_, table, rows, many, planes, digits):
    """Count, for every bit of a line, in how many of these lines of the table it is set.

    All bits are counted at once: plane q holds digit q of each count. 16 lines are added as one adds numbers by hand,
    two and the digit that stands there at a time, so that a single carry reaches the fifth plane. In LLVM's own terms,
    because the lower planes then stay in registers. The planes from the fifth on must begin with zeros.
    """

    def emit(context, builder, signature, arguments):
        table, rows, many, planes, digits = arguments
        size, zero = _number(8 * WORDS), ir.Constant(_LINE, [0] * WORDS)
        running = [cgutils.alloca_once_value(builder, zero) for _ in range(4)]

        def add(digit, k, start):
            if digit < 0:
                row = builder.load(_at(builder, builder.add(start, _number(8 * k)), _WORD))
                return builder.load(_at(builder, builder.add(table, builder.mul(row, size))), align=8)
            one, two = add(digit - 1, k, start), add(digit - 1, k + (1 << digit), start)
            stands, either = builder.load(running[digit]), builder.xor(one, two)
            builder.store(builder.xor(stands, either), running[digit])
            return builder.or_(builder.and_(one, two), builder.and_(stands, either))

        with cgutils.for_range_slice(builder, _number(0), many, _number(GROUP), intp=_WORD) as (g, _):
            carry = cgutils.alloca_once_value(builder, add(3, 0, builder.add(rows, builder.mul(g, _number(8)))))
            with cgutils.for_range_slice(builder, _number(4), digits, _number(1), intp=_WORD) as (q, _):
                place = _at(builder, builder.add(planes, builder.mul(q, size)))
                stands, carried = builder.load(place, align=8), builder.load(carry)
                builder.store(builder.and_(stands, carried), carry)
                builder.store(builder.xor(stands, carried), place, align=8)
        for digit, line in enumerate(running):
            builder.store(builder.load(line), _at(builder, builder.add(planes, _number(8 * WORDS * digit))), align=8)

    return types.void(i8, i8, i8, i8, i8), emit


def _number(value):
    return ir.Constant(_WORD, value)


@compiled(i8(i8, array_of(u8, 2), array_of(i8)))
def list_rows(at, bits, rows):
    """The rows of a pattern; how many."""
    many = NONE
    for w in range(U(bits.shape[1])):
        word = bits[at, w]
        while word != NONE:
            rows[many] = U(64) * w + U(trailing_zeros(word))
            many += ONE
            word &= word - ONE
    return many


@compiled(
    types.void(
        array_of(i4), array_of(i4), array_of(i4, 2), array_of(i4), array_of(u8, 2), array_of(f8, 2), array_of(u8, 3),
        array_of(i8), array_of(i4, 2), array_of(i4, 2), array_of(i4, 2), array_of(u8, 2), array_of(f8, 3),
    )
)  # fmt: skip
def divide(above, inner, place, test, tests, moments, stack, rows, level, pattern, parts, bits, sums):
    """Find the patterns of both sides at each node, and what their rows sum to; the stacks begin with all rows."""
    for s in range(len(above)):
        a = above[s]
        if a < 0:
            continue
        k, left = inner[a], s == a + 1
        for o in range(2):
            level[s, o], pattern[s, o] = level[a, o], pattern[a, o]
        o, at, first = place[k, 0], place[k, 1], 1 + 2 * place[k, 2]
        depth, whole, flip, here, there = level[a, o], pattern[a, o], NONE if left else ~NONE, 0, 0
        for w in range(U(stack.shape[2])):
            word = stack[o, depth, w]
            part = word & (tests[test[k], w] ^ flip)
            stack[o, depth + 1, w] = part
            here += count_bits(part)
            there += count_bits(word ^ part)
        if left:
            for w in range(U(stack.shape[2])):
                bits[at, w] = stack[o, depth + 1, w] if here <= there else stack[o, depth, w] ^ stack[o, depth + 1, w]
            parts[at, 0], parts[at, 1], parts[at, 2] = whole, here <= there, min(here, there)
            list_rows(at, bits, rows)
            for m in range(moments.shape[1]):
                total = 0.0
                for q in range(min(here, there)):
                    total += moments[rows[q], m]
                sums[o, first, m], sums[o, first + 1, m] = total, sums[o, whole, m] - total
        level[s, o], pattern[s, o] = depth + 1, first + (left != parts[at, 1])


@compiled(types.void(i8, i8, array_of(u8, 2), array_of(u8, 3)))
def turn(start, stop, bits, table):
    """Note for each row which basis patterns hold it: those at start .. stop are the columns of the table."""
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
    """How many rows the basis patterns first .. last share with those of the table, which are `start` and so on.

    Patterns before ``after[at]`` are of the same tree or of one before it, and aren't wanted.
    """
    words, bits_a_word = (
        U(table.shape[2]),
        U(len(digit)),
    )  # known, but loops of known length are unrolled: that takes long
    for at in range(first, last):
        many, digits = list_rows(at, bits, rows), 4
        for q in range(many, many + GROUP):
            rows[q] = table.shape[1] - 1
        while many >> digits:
            digits += 1
        for c in range(max(after[at] - start, 0) // COLUMNS, table.shape[0]):
            for q in range(U(4), U(digits)):
                for w in range(words):
                    planes[q, w] = NONE
            part = table.ctypes.data + 8 * WORDS * table.shape[1] * c
            add_lines(part, rows.ctypes.data, many, planes.ctypes.data, digits)
            for w in range(words):
                for b in range(bits_a_word):
                    digit[b] = 0
                for q in range(U(digits)):
                    word = planes[q, w]
                    for b in range(bits_a_word):
                        digit[b] += ((word >> b) & ONE) << q
                column = U(COLUMNS * c) + U(64) * w
                for b in range(bits_a_word):
                    shared[U(at - first), column + b] = np.int64(digit[b])


@compiled(
    types.void(
        i8, i8, array_of(u8, 2), array_of(u8, 3), array_of(f8), array_of(i8), array_of(i8), array_of(i4),
        array_of(f8, 2),
    )
)  # fmt: skip
def weigh(first, last, bits, table, weight, rows, begins, columns, shared):
    """What the rows weigh that the basis patterns first .. last share with those of the table.

    The columns of each row are listed once for each table, when `begins` doesn't end with their number yet.
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
        for c in range(shared.shape[1]):
            shared[at - first, c] = 0.0
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
def couple(
    s0, s1, t, u0, u1, root, above, inner, place, starts, parts, level, leaf_pattern, top, sums, value, shared, room
):
    """Over all pairs of a row and a donor, the sum of what leaves among s0 .. s1 say times what trees u0 .. u1 say.

    Each tree meets those behind it alone; node s0 is in tree t. Along the walk `room` holds, for each side and level,
    what the pattern there shares with every pattern of the trees; `shared` what a basis does, from the `top` one on.
    """
    total, t = 0.0, t - 1 if above[s0] < 0 else t
    for s in range(s0, s1):
        a = above[s]
        t += a < 0
        begin = max(u0, t + 1)
        if a >= 0:
            o, at, here = U(place[inner[a], 0]), place[inner[a], 1], U(level[s, place[inner[a], 0]])
            start, many = U(starts[o, begin]), U(starts[o, u1] - starts[o, begin])
            first = ONE + TWO * (start - U(starts[o, 0]))
            if s == a + 1:
                row, shift = U(at - top[o]), start - U(starts[o, u0])
                room[o, here, NONE] = sums[o, 1 + 2 * place[inner[a], 2], 0]
                for c in range(many):
                    known, q = shared[o, row, shift + c], first + TWO * c
                    room[o, here, q] = known
                    room[o, here, q + ONE] = room[o, here, U(parts[start + c, 0])] - known
            if s > a + 1 or parts[at, 1] == 0:  # the other child
                room[o, here, NONE] = room[o, here - ONE, NONE] - room[o, here, NONE]
                for q in range(first, first + TWO * many):
                    room[o, here, q] = room[o, here - ONE, q] - room[o, here, q]
        if inner[s + 1] == inner[s]:
            mine, lent = U(level[s, 0]), U(level[s, 1])
            for w in range(U(value.shape[1])):
                met = 0.0
                for c in range(U(root[begin] - inner[root[begin]]), U(root[u1] - inner[root[u1]])):
                    both = room[NONE, mine, U(leaf_pattern[c, 0])] * room[ONE, lent, U(leaf_pattern[c, 1])]
                    met += value[c, w] * both
                total += value[s - inner[s], w] * met
    return total


@compiled(
    i8(
        i8, array_of(i4, 2), array_of(u1), array_of(i4, 2), array_of(i4), array_of(u1, 2), array_of(i4), array_of(i4, 2)
    )
)  # fmt: skip
def reach(i, nodes, mine, codes, size, sets, stack, found):
    """Note the leaves of one tree that row i and those behind it can reach while all features but `mine` are free.

    It stops at the row whose leaves might not fit in; how many were found.
    """
    many, most = 0, (len(nodes) + 1) // 2
    while i < codes.shape[1] and many + most <= len(found):
        stack[0], waiting = 0, 1
        while waiting > 0:
            waiting -= 1
            s = stack[waiting]
            while nodes[s, FEATURE] >= 0:
                f = nodes[s, FEATURE]
                if mine[f] == 0:
                    stack[waiting] = nodes[s, RIGHT]
                    waiting += 1
                    s += 1
                elif goes_left(codes[f, i], nodes[s, CUT], nodes[s, RULE], size[f], sets):
                    s += 1
                else:
                    s = nodes[s, RIGHT]
            found[many, 0], found[many, 1] = nodes[s, RIGHT], i
            many += 1
        i += 1
    return many


@compiled(types.void(array_of(u8, 2), array_of(u8, 2), array_of(i4), array_of(i8, 2), array_of(i4), array_of(i8, 3)))
def add_pairs(mine, lent, leaf_at, value, output, raw):
    """Add the values of trees that have masks: of the one leaf that row and donor both allow."""
    rows, donors, width = U(raw.shape[0]), U(raw.shape[1]), U(value.shape[1])
    for i0 in range(NONE, rows, TILE_ROWS):
        for k0 in range(NONE, donors, TILE):
            for t in range(U(len(mine))):
                leaf, out = U(leaf_at[t]), U(output[t])
                for i in range(i0, min(i0 + TILE_ROWS, rows)):
                    allowed = mine[t, i]
                    for w in range(width):
                        for k in range(k0, min(k0 + TILE, donors)):
                            raw[i, k, out + w] += value[leaf + U(trailing_zeros(allowed & lent[t, k])), w]


@compiled(
    types.void(
        array_of(i4, 2), array_of(i4), array_of(i4), array_of(i4, 2), array_of(i4, 2), array_of(i4), array_of(u1, 2),
        array_of(i8, 2), array_of(i4), array_of(i8, 3),
    )
)  # fmt: skip
def walk_pairs(nodes, roots, lent, codes, values, size, sets, value, output, raw):
    """Add the values of all trees, pair by pair; a feature is the donor's ``values[lent[f]]``, or its row's at -1."""
    for t in range(len(roots)):
        for i in range(raw.shape[0]):
            for k in range(raw.shape[1]):
                s = roots[t]
                while nodes[s, FEATURE] >= 0:
                    f = nodes[s, FEATURE]
                    code = codes[f, i] if lent[f] < 0 else values[lent[f], k]
                    s = s + 1 if goes_left(code, nodes[s, CUT], nodes[s, RULE], size[f], sets) else nodes[s, RIGHT]
                for w in range(value.shape[1]):
                    raw[i, k, output[t] + w] += value[nodes[s, RIGHT], w]
