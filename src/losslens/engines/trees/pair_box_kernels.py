"""Compiled kernel for the shares of rows in the product of two leaves: see `pair_boxes`."""

from __future__ import annotations

from numba import types

from losslens.engines.compiled import compiled, count_bits, trailing_zeros
from losslens.engines.trees.node_rules import ONE, TWO, U, array_of, i4, i8, u1, u8

f8, u2 = types.float64, types.uint16
NONE = U(0)
TOGETHER = 4  # products whose shares are added to the rows' sums in one go: these sums stay in the cache
SLOWER = U(2)  # how much longer comparing two patterns takes than a player of a subset
LANES = 4  # columns of the sums are a multiple of this

# Leaves: where their players begin, players, and the rows that fulfil a player's conditions, as bits; where the
# distinct patterns of violated players begin, the patterns, and the number of each row's pattern; values.
LEAVES = types.Tuple(
    (
        array_of(i4), array_of(i4), array_of(u8, 2), array_of(i4), array_of(u8), array_of(u2, 2), array_of(f8, 2),
    )
)  # fmt: skip
# Two leaves together: each player's bit; players and columns of the sums by bit; patterns of the second leaf in these
# bits; distinct patterns of both; their weights; each row's distinct pattern, for the products that wait to be added;
# the shares of these patterns.
JOINED = types.Tuple(
    (
        array_of(i4), array_of(i4), array_of(i4), array_of(u8), array_of(u8), array_of(f8), array_of(i4, 2),
        array_of(f8, 3),
    )
)  # fmt: skip
# Few players: the first leaf's pattern of each row, both leaves' pattern; by pattern whether it occurs, the same eight
# at a time, its number, and three sums over subsets.
SUBSETS = types.Tuple(
    (
        array_of(u2), array_of(u2), array_of(u1), array_of(u8), array_of(i4), array_of(f8), array_of(f8), array_of(f8),
    )
)  # fmt: skip
# Many players: weight, occurrence and number of two patterns together; of each player the patterns that violate it, as
# bits; the players of each pattern, as zeros and ones; sums.
COMPARED = types.Tuple(
    (array_of(f8), array_of(u1), array_of(i4), array_of(u8, 2), array_of(f8, 2), array_of(f8))
)  # fmt: skip
FIRST, SECOND, PLAIN = 0, 1, 2  # factors of E, of F, and ones


@compiled(types.void(u8, u8, array_of(f8)))
def _add_four(w, bit, table):
    """Two players at once, for four neighbouring subsets: written out, so that they are added together."""
    x, y, z = w + bit, w + TWO * bit, w + U(3) * bit
    a, b, c, d = table[w], table[w + U(1)], table[w + U(2)], table[w + U(3)]
    e, f, g, h = a + table[x], b + table[x + U(1)], c + table[x + U(2)], d + table[x + U(3)]
    i, j, k, m = table[y], table[y + U(1)], table[y + U(2)], table[y + U(3)]
    r, s, t, u = (
        e + (i + table[z]), f + (j + table[z + U(1)]), g + (k + table[z + U(2)]), h + (m + table[z + U(3)])
    )  # fmt: skip
    table[x], table[x + U(1)], table[x + U(2)], table[x + U(3)] = e, f, g, h
    table[y], table[y + U(1)], table[y + U(2)], table[y + U(3)] = a + i, b + j, c + k, d + m
    table[z], table[z + U(1)], table[z + U(2)], table[z + U(3)] = r, s, t, u


@compiled(types.void(u8, i8, array_of(f8, 2), array_of(f8), array_of(f8)))
def _sum_subsets(q, which, factors, given, table):
    """Sums over the subsets of each of the subsets of q players, of numbers times factors; several players at once."""
    size = ONE << q
    if q < U(3):
        for w in range(size):
            table[w] = given[w] * factors[which, size + w]
        for b in range(q):
            for w in range(size):
                if w & (ONE << b) != NONE:
                    table[w] += table[w ^ (ONE << b)]
        return
    for w in range(NONE, size, U(8)):
        at = size + w
        a, b = given[w] * factors[which, at], given[w + U(1)] * factors[which, at + U(1)]
        c, d = given[w + U(2)] * factors[which, at + U(2)], given[w + U(3)] * factors[which, at + U(3)]
        e, f = given[w + U(4)] * factors[which, at + U(4)], given[w + U(5)] * factors[which, at + U(5)]
        g, h = given[w + U(6)] * factors[which, at + U(6)], given[w + U(7)] * factors[which, at + U(7)]
        b, d, f, h = a + b, c + d, e + f, g + h
        c, d, g, h = a + c, b + d, e + g, f + h
        table[w], table[w + U(1)], table[w + U(2)], table[w + U(3)] = a, b, c, d
        table[w + U(4)], table[w + U(5)], table[w + U(6)], table[w + U(7)] = a + e, b + f, c + g, d + h
    bit = U(8)
    while bit < size:
        if TWO * bit < size:
            for start in range(NONE, size, U(4) * bit):
                for w in range(start, start + bit, U(4)):
                    _add_four(w, bit, table)
            bit *= U(4)
        else:
            for w in range(NONE, bit, U(4)):
                x = w + bit
                a, b = table[w] + table[x], table[w + U(1)] + table[x + U(1)]
                c, d = table[w + U(2)] + table[x + U(2)], table[w + U(3)] + table[x + U(3)]
                table[x], table[x + U(1)], table[x + U(2)], table[x + U(3)] = a, b, c, d
            bit *= TWO


@compiled(i8(u8, u8, LEAVES, array_of(i4), JOINED))
def _join(a, b, leaves, column_of, joined):
    """Number the players of two leaves by bits; returns how many there are, or -1 if no row can reach both leaves.

    The bits of a's players are known: they are in the order of `leaves`.
    """
    entry_at, player, met, class_at, words, _, _ = leaves
    bit_of, players, columns, words_b = joined[0], joined[1], joined[2], joined[3]
    before, old = U(entry_at[a]), U(entry_at[a + ONE] - entry_at[a])
    for e in range(U(entry_at[b]), U(entry_at[b + ONE])):
        if bit_of[U(player[e])] < 0:
            continue
        own, any_row = before + U(bit_of[U(player[e])]), NONE
        for w in range(U(met.shape[1])):
            any_row |= met[own, w] & met[e, w]
            if any_row != NONE:
                break
        if any_row == NONE:
            return -1
    q, own, first, classes = old, NONE, U(class_at[b]), U(class_at[b + ONE] - class_at[b])
    for c in range(classes):
        words_b[c] = NONE
    for e in range(U(entry_at[b]), U(entry_at[b + ONE])):
        bit = bit_of[U(player[e])]
        to = U(bit)
        if bit < 0:
            players[q], columns[q], to = player[e], column_of[U(player[e])], q
            q += ONE
        for c in range(classes):
            words_b[c] |= ((words[first + c] >> own) & ONE) << to
        own += ONE
    return i8(q)


@compiled(i8(u8, u8, u8, array_of(f8), LEAVES, JOINED, SUBSETS))
def _count_in_table(b, q, k, weight, leaves, joined, subsets):
    """Weigh the rows of each pattern of two leaves with few players; returns the number of distinct patterns."""
    number, words_b, pattern, mass, row_of = leaves[5], joined[3], joined[4], joined[5], joined[6]
    own, both, seen, eight, place, M = subsets[0], subsets[1], subsets[2], subsets[3], subsets[4], subsets[5]
    size, n = ONE << q, U(len(weight))
    for S in range(size):
        M[S] = 0.0
    for w in range((size + U(7)) >> U(3)):
        eight[w] = NONE
    for i in range(n):
        both[i] = own[i] | u2(words_b[U(number[b, i])])
    for i in range(n):
        M[U(both[i])] += weight[i]
        seen[U(both[i])] = 1
    used = NONE
    for w in range((size + U(7)) >> U(3)):
        occur = eight[w]
        while occur != NONE:
            S = (w << U(3)) + (U(trailing_zeros(occur)) >> U(3))
            occur &= occur - ONE
            place[S], pattern[used], mass[used] = i4(used), S, M[S]
            used += ONE
    for i in range(n):
        row_of[k, i] = place[U(both[i])]
    return i8(used)


@compiled(i8(u8, u8, u8, array_of(f8), LEAVES, JOINED, COMPARED))
def _count_by_leaves(a, b, k, weight, leaves, joined, compared):
    """As `_count_in_table` for many players: by both leaves' own patterns."""
    class_at, words, number = leaves[3], leaves[4], leaves[5]
    words_b, pattern, mass, row_of = joined[3], joined[4], joined[5], joined[6]
    heavy, seen, place = compared[0], compared[1], compared[2]
    first, of_a, of_b = U(class_at[a]), U(class_at[a + ONE] - class_at[a]), U(class_at[b + ONE] - class_at[b])
    if of_a * of_b > U(len(heavy)):  # each row by itself
        for i in range(U(len(weight))):
            pattern[i] = words[first + U(number[a, i])] | words_b[U(number[b, i])]
            mass[i], row_of[k, i] = weight[i], i4(i)
        return len(weight)
    for c in range(of_a * of_b):
        heavy[c] = 0.0
    for c in range(of_a * of_b):
        seen[c] = 0
    for i in range(U(len(weight))):
        c = U(number[a, i]) * of_b + U(number[b, i])
        heavy[c] += weight[i]
        seen[c] = 1
    used, c = NONE, NONE
    for ca in range(of_a):
        for cb in range(of_b):
            if seen[c]:
                pattern[used], mass[used], place[c] = words[first + ca] | words_b[cb], heavy[c], i4(used)
                used += ONE
            c += ONE
    for i in range(U(len(weight))):
        row_of[k, i] = place[U(number[a, i]) * of_b + U(number[b, i])]
    return i8(used)


@compiled(types.void(u8, u8, u8, f8, array_of(f8, 2), JOINED, SUBSETS))
def _pay_by_subsets(used, q, k, value, factors, joined, subsets):
    """Shares of rows with each distinct pattern: see `pair_boxes`."""
    columns, pattern, table, M, E, F = joined[2], joined[4], joined[7], subsets[5], subsets[6], subsets[7]
    _sum_subsets(q, PLAIN, factors, M, M)
    _sum_subsets(q, FIRST, factors, M, E)
    _sum_subsets(q, SECOND, factors, M, F)
    full = (ONE << q) - ONE
    for g in range(used):
        met = full ^ pattern[g]
        most = E[met]
        for b in range(q):
            table[k, g, U(columns[b])] = (most - F[met & ~(ONE << b)]) * value


@compiled(types.void(u8, u8, u8, f8, array_of(f8, 2), JOINED, COMPARED))
def _pay_by_comparison(used, q, k, value, share, joined, compared):
    """As `_pay_by_subsets`, by comparing distinct patterns: those of a row and a donor must be disjoint."""
    columns, pattern, mass, table = joined[2], joined[4], joined[5], joined[7]
    violating, ones, gains = compared[3], compared[4], compared[5]
    groups, width = (used + U(63)) >> U(6), (q + U(3)) & ~U(3)
    for b in range(q):
        for w in range(groups):
            violating[b, w] = NONE
    for h in range(used):
        word = pattern[h]
        for b in range(width):
            ones[h, b] = 0.0
        while word != NONE:
            b = U(trailing_zeros(word))
            violating[b, h >> U(6)] |= ONE << (h & U(63))
            ones[h, b] = 1.0
            word &= word - ONE
    for g in range(used):
        lost, mine, f = 0.0, pattern[g], U(count_bits(pattern[g]))
        for b in range(width):
            gains[b] = 0.0
        for w in range(groups):
            disjoint, rest = ~NONE >> (U(64) - min(used - (w << U(6)), U(64))), mine
            while rest != NONE:
                disjoint &= ~violating[U(trailing_zeros(rest)), w]
                rest &= rest - ONE
            while disjoint != NONE:
                h = (w << U(6)) + U(trailing_zeros(disjoint))
                disjoint &= disjoint - ONE
                m = U(count_bits(pattern[h]))
                lost += mass[h] * share[f, m]
                gain = mass[h] * share[m, f]
                for b in range(NONE, width, U(4)):
                    r, s = gains[b] + gain * ones[h, b], gains[b + U(1)] + gain * ones[h, b + U(1)]
                    t, u = gains[b + U(2)] + gain * ones[h, b + U(2)], gains[b + U(3)] + gain * ones[h, b + U(3)]
                    gains[b], gains[b + U(1)], gains[b + U(2)], gains[b + U(3)] = r, s, t, u
        for b in range(q):
            table[k, g, U(columns[b])] = value * (gains[b] - lost * ones[g, b])


@compiled(types.void(u8, JOINED, array_of(f8, 2)))
def _add_to_rows(count, joined, sums):
    """Add the shares in one or four products to the rows' sums."""
    row_of, table = joined[6], joined[7]
    columns, n = U(sums.shape[1]), U(len(sums))
    if count < U(TOGETHER):
        for k in range(count):
            for i in range(n):
                r = U(row_of[k, i])
                for s in range(columns):
                    sums[i, s] += table[k, r, s]
        return
    for i in range(n):
        a, b, c, d = U(row_of[0, i]), U(row_of[1, i]), U(row_of[2, i]), U(row_of[3, i])
        for s in range(NONE, columns, U(LANES)):
            e, f, g, h = s, s + U(1), s + U(2), s + U(3)
            v = sums[i, e] + ((table[0, a, e] + table[1, b, e]) + (table[2, c, e] + table[3, d, e]))
            w = sums[i, f] + ((table[0, a, f] + table[1, b, f]) + (table[2, c, f] + table[3, d, f]))
            x = sums[i, g] + ((table[0, a, g] + table[1, b, g]) + (table[2, c, g] + table[3, d, g]))
            y = sums[i, h] + ((table[0, a, h] + table[1, b, h]) + (table[2, c, h] + table[3, d, h]))
            sums[i, e], sums[i, f], sums[i, g], sums[i, h] = v, w, x, y


@compiled(
    types.void(
        i8, i8, i8, i8, i8, LEAVES, array_of(i4), array_of(f8), array_of(f8, 2), array_of(f8, 2), JOINED, SUBSETS,
        COMPARED, array_of(f8, 2),
    )
)  # fmt: skip
def add_products(
    first, last, others_first, others_last, most, leaves, column_of, weight, factors, share, joined, subsets, compared,
    sums,
):  # fmt: skip
    """Add the rows' shares in the products of some leaves with others to `sums`, (rows, columns).

    Without others each leaf is multiplied with itself. `most`: players up to which tables over their subsets are used.
    """
    entry_at, player, class_at, words, number, value = leaves[0], leaves[1], leaves[3], leaves[4], leaves[5], leaves[6]
    bit_of, players, columns, table, own = joined[0], joined[1], joined[2], joined[7], subsets[0]
    for a in range(U(first), U(last)):
        before = U(entry_at[a])
        for e in range(before, U(entry_at[a + ONE])):
            bit_of[U(player[e])], players[e - before] = i4(e - before), player[e]
            columns[e - before] = column_of[U(player[e])]
        for i in range(U(len(weight))):
            own[i] = u2(words[U(class_at[a]) + U(number[a, i])])
        k = NONE
        begin, end = (U(others_first), U(others_last)) if others_first < others_last else (a, a + ONE)
        for b in range(begin, end):
            product = 0.0
            for w in range(U(value.shape[1])):
                product += value[a, w] * value[b, w]
            q = _join(a, b, leaves, column_of, joined) if product != 0.0 else 0
            if q <= 0:
                continue
            few = q <= most
            if few:
                used = U(_count_in_table(b, U(q), k, weight, leaves, joined, subsets))
            else:
                used = U(_count_by_leaves(a, b, k, weight, leaves, joined, compared))
            for g in range(used):
                for c in range(U(sums.shape[1])):
                    table[k, g, c] = 0.0
            if few and SLOWER * used * used > U(q) << U(q):
                _pay_by_subsets(used, U(q), k, product, factors, joined, subsets)
            else:
                _pay_by_comparison(used, U(q), k, product, share, joined, compared)
            k += ONE
            if k == U(TOGETHER):
                _add_to_rows(k, joined, sums)
                k = NONE
        _add_to_rows(k, joined, sums)
        for e in range(before, U(entry_at[a + ONE])):
            bit_of[U(player[e])] = -1
