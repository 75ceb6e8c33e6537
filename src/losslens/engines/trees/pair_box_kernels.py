"""Compiled kernel for the shares of rows in the product of two nodes: see `pair_boxes`."""

from __future__ import annotations

from numba import njit, types

from losslens.engines.compiled import array_of, compiled
from losslens.engines.intrinsics import add_four, count_bits, trailing_zeros
from losslens.engines.trees.effect_kernels import NONE, OF_E, OF_F, PLAIN_SUMS, sum_subsets
from losslens.engines.trees.node_rules import ONE, TWO, U, i4, i8, u1, u8

f8, u2 = types.float64, types.uint16
SLOWER = U(2)  # how much longer comparing two patterns takes than a player of a subset
LANES = 4  # columns that are added at once
OF_PAIRS, OF_SINGLES, OF_ALL = 3, 4, 5  # more rows of factors, for interactions

# Nodes: where their players begin, players, and the rows that fulfil a player's conditions, as bits; where the distinct
# patterns of violated players begin, the patterns, and the number of each row's pattern; values in products with nodes
# of other trees, and alone; where the columns of their players begin, filled up to a multiple of LANES.
NODES = types.Tuple(
    (
        array_of(i4), array_of(i4), array_of(u8, 2), array_of(i4), array_of(u8), array_of(u2, 2), array_of(f8, 2),
        array_of(f8), array_of(i4),
    )
)  # fmt: skip
# Two nodes together: each player's bit; the column of a bit; patterns of the second node in these bits; distinct
# patterns of both; their weights; each row's distinct pattern; the shares of these patterns: in columns the players of
# the first node, then those of the second, which get nothing if they are among those of the first; the players by bit.
JOINED = types.Tuple(
    (array_of(i4), array_of(i4), array_of(u8), array_of(u8), array_of(f8), array_of(i4), array_of(f8), array_of(i4))
)
# Few players: the first node's pattern of each row, both nodes' pattern; by pattern whether it occurs, the same eight
# at a time, its number, and three sums over subsets.
SUBSETS = types.Tuple(
    (
        array_of(u2), array_of(u2), array_of(u1), array_of(u8), array_of(i4), array_of(f8), array_of(f8), array_of(f8),
    )
)  # fmt: skip
# Many players: weight, occurrence and number of two patterns together; of each player the patterns that violate it, as
# bits; the players of each pattern, as zeros and ones; sums; what a donor of each pattern lends rows that violate so
# many players; some patterns, and what they lend; interactions of each pattern with its players; where the patterns of
# each number of players end.
COMPARED = types.Tuple(
    (
        array_of(f8), array_of(u1), array_of(i4), array_of(u8, 2), array_of(f8), array_of(f8), array_of(f8, 2),
        array_of(u8), array_of(f8), array_of(f8), array_of(u8),
    )
)  # fmt: skip


@njit
def _join(a, b, nodes, joined):
    """Number the players of two nodes by bits; returns how many there are, or -1 if no row can reach both nodes.

    The bits of a's players are known: they are in the order of `nodes`.
    """
    entry_at, player, met, class_at, words = nodes[0], nodes[1], nodes[2], nodes[3], nodes[4]
    bit_of, columns, words_b = joined[0], joined[1], joined[2]
    before, old, width = U(entry_at[a]), U(entry_at[a + ONE] - entry_at[a]), U(nodes[8][a + ONE] - nodes[8][a])
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
            columns[q], joined[7][q], to = i4(width + own), player[e], q
            q += ONE
        for c in range(classes):
            words_b[c] |= ((words[first + c] >> own) & ONE) << to
        own += ONE
    return i8(q)


@njit
def _count_in_table(b, q, weight, nodes, joined, subsets):
    """Weigh the rows of each pattern of two nodes with few players; returns the number of distinct patterns."""
    number, words_b, pattern, mass, row_of = nodes[5], joined[2], joined[3], joined[4], joined[5]
    own, both, seen, eight, place, M = subsets[0], subsets[1], subsets[2], subsets[3], subsets[4], subsets[5]
    size, n = ONE << q, U(len(weight))
    for S in range(max(size, U(8))):
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
        row_of[i] = place[U(both[i])]
    return i8(used)


@njit
def _count_by_nodes(a, b, weight, nodes, joined, compared):
    """As `_count_in_table` for many players: by both nodes' own patterns."""
    class_at, words, number = nodes[3], nodes[4], nodes[5]
    words_b, pattern, mass, row_of = joined[2], joined[3], joined[4], joined[5]
    heavy, seen, place = compared[0], compared[1], compared[2]
    first, of_a, of_b = U(class_at[a]), U(class_at[a + ONE] - class_at[a]), U(class_at[b + ONE] - class_at[b])
    if of_a * of_b > U(len(heavy)):  # each row by itself
        for i in range(U(len(weight))):
            pattern[i] = words[first + U(number[a, i])] | words_b[U(number[b, i])]
            mass[i], row_of[i] = weight[i], i4(i)
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
        row_of[i] = place[U(number[a, i]) * of_b + U(number[b, i])]
    return i8(used)


@njit
def _pay_by_subsets(used, q, width, value, factors, joined, subsets):
    """Shares of rows with each distinct pattern: see `pair_boxes`."""
    columns, pattern, table, M, E, F = joined[1], joined[3], joined[6], subsets[5], subsets[6], subsets[7]
    sum_subsets(q, NONE, M, PLAIN_SUMS, NONE, factors, M)
    sum_subsets(q, NONE, M, OF_E, NONE, factors, E)
    sum_subsets(q, NONE, M, OF_F, NONE, factors, F)
    full = (ONE << q) - ONE
    for g in range(used):
        met = full ^ pattern[g]
        most = E[met]
        for b in range(q):
            table[g * width + U(columns[b])] = (most - F[met & ~(ONE << b)]) * value


@njit
def _mark(used, q, pattern, mass, violating, ones):
    """The patterns that violate each player, and the players of each pattern; returns the weight of those without."""
    groups, wide, inside = (used + U(63)) >> U(6), (q + U(7)) & ~U(7), 0.0
    for b in range(q):
        for w in range(groups):
            violating[b, w] = NONE
    for b in range(used * wide):
        ones[b] = 0.0
    for h in range(used):
        word = pattern[h]
        if word == NONE:
            inside += mass[h]
        while word != NONE:
            b = U(trailing_zeros(word))
            violating[b, h >> U(6)] |= ONE << (h & U(63))
            ones[h * wide + b] = 1.0
            word &= word - ONE
    return inside


@njit
def _find_disjoint(used, mine, pattern, violating, lent, some, theirs):
    """List the patterns that are disjoint from one, and what they lend; returns how many, filled up to fours.

    Also the sum of the second thing that they lend.
    """
    count, second, before = NONE, 0.0, 0.0
    for w in range((used + U(63)) >> U(6)):
        disjoint, rest = ~NONE >> (U(64) - min(used - (w << U(6)), U(64))), mine
        while rest != NONE:
            disjoint &= ~violating[U(trailing_zeros(rest)), w]
            rest &= rest - ONE
        while disjoint != NONE:
            h = (w << U(6)) + U(trailing_zeros(disjoint))
            disjoint &= disjoint - ONE
            some[count], theirs[count] = pattern[h], lent[h, 0]
            second, before = before + lent[h, 1], second  # two sums in turn: none waits for the one before
            count += ONE
    while count & U(3) != NONE:
        some[count], theirs[count] = NONE, 0.0
        count += ONE
    return count, second + before


@njit
def _sum_bits(sums, wide, factor, words, count):
    """The sum of the factors of the words that have each bit."""
    for b in range(wide):
        sums[b] = 0.0
    for k in range(count):
        for b in range(wide):
            sums[b] += factor[k] if (words[k] >> b) & ONE else 0.0


@njit
def _add_up(used, q, value, mine, players, compared, index):
    """Add what each pattern, of weights `mine`, says of its players and all others to `index`."""
    violating, sums, some, factor, of_pattern = compared[3], compared[5], compared[7], compared[8], compared[9]
    wide = (q + U(7)) & ~U(7)
    for a in range(q):
        count = NONE
        for w in range((used + U(63)) >> U(6)):
            word = violating[a, w]
            while word != NONE:
                g = (w << U(6)) + U(trailing_zeros(word))
                word &= word - ONE
                some[count], factor[count] = g, mine[g] * value
                count += ONE
        while count & U(3) != NONE:
            some[count], factor[count] = NONE, 0.0
            count += ONE
        for b in range(wide):
            sums[b] = 0.0
        for k in range(count):
            for b in range(wide):
                sums[b] += factor[k] * of_pattern[some[k] * wide + b]
        for b in range(q):
            if a != b:
                index[U(players[a]), U(players[b])] += sums[b]


@njit
def _sort_by_size(used, q, joined, compared):
    """Order the patterns by their number of players."""
    pattern, mass, row_of, moved, new, ends = joined[3], joined[4], joined[5], compared[7], compared[8], compared[10]
    masses = compared[9]
    for f in range(q + TWO):
        ends[f] = NONE
    for g in range(used):
        ends[U(count_bits(pattern[g])) + ONE] += ONE
    for f in range(q + ONE):
        ends[f + ONE] += ends[f]  # where they begin; then each is moved there, and they end one further
    for g in range(used):
        f = U(count_bits(pattern[g]))
        moved[ends[f]], masses[ends[f]], new[g] = pattern[g], mass[g], f8(ends[f])
        ends[f] += ONE
    for g in range(used):
        pattern[g], mass[g] = moved[g], masses[g]
    for i in range(U(len(row_of))):
        row_of[i] = i4(new[U(row_of[i])])


@njit
def _pay_by_comparison(used, q, width, value, share, joined, compared, index):
    """As `_pay_by_subsets`, by comparing distinct patterns: those of a row and a donor must be disjoint.

    What the players whom donors violate get, those whom the row violates lose, in equal parts; so with a donor that
    violates no player, of whom none gets anything. Interactions, see `_add_interactions`: of players whom a row
    violates with those whom donors do, half from the gains of the row and half from those of rows with donors
    exchanged; so `index` and its transpose sum to them.
    """
    columns, pattern, mass, table = joined[1], joined[3], joined[4], joined[6]
    violating, ones, gains, lent, some, theirs, of_pattern = (
        compared[3], compared[4], compared[5], compared[6], compared[7], compared[8], compared[9]
    )  # fmt: skip
    _sort_by_size(used, q, joined, compared)
    wide, inside, ends, begin = (q + U(7)) & ~U(7), _mark(used, q, pattern, mass, violating, ones), compared[10], NONE
    for f in range(q + ONE):
        h = used if begin == ends[f] else NONE
        for m in range(q + ONE):
            first, second = share[m, f], share[f - min(f, ONE), m]
            while h < ends[m]:
                lent[h, 0], lent[h, 1] = mass[h] * first, mass[h] * second
                h += ONE
        for g in range(begin, ends[f]):
            count, among = _find_disjoint(used, pattern[g], pattern, violating, lent, some, theirs)
            total = inside
            _sum_bits(gains, wide, theirs, some, count)
            for b in range(q):
                total += gains[b]
            lost = total / max(f8(f), 1.0)
            for b in range(q):
                table[g * width + U(columns[b])] = value * (gains[b] - lost * ones[g * wide + b])
            for b in range(wide):
                of_pattern[g * wide + b] = among * ones[g * wide + b] - 2.0 * gains[b]
        begin = ends[f]
    _add_up(used, q, value, mass, joined[7], compared, index)


@njit
def _add_interactions(used, q, value, pattern, mine, theirs, players, share, compared, index):
    """Add interactions of the players whom rows, of weights `mine`, violate with all others to `index`, (p, p).

    With donors of weights `theirs`. Of a row that violates f players, and a donor that violates m others, every two of
    the f have (f - 2)! m! / (f + m - 1)!, and each of the f with each of the m minus (f - 1)! (m - 1)! / (f + m - 1)!.
    """
    violating, ones, sums, lent = compared[3], compared[4], compared[5], compared[6]
    some, factor, of_pattern = compared[7], compared[8], compared[9]
    wide = (q + U(7)) & ~U(7)
    _mark(used, q, pattern, theirs, violating, ones)
    for f in range(ONE, q + ONE):
        for h in range(used):
            m = U(count_bits(pattern[h]))
            lent[h, 0], lent[h, 1] = theirs[h] * share[m, f - ONE], theirs[h] * share[f - ONE, m]
        for g in range(used):
            if U(count_bits(pattern[g])) != f:
                continue
            count, among = _find_disjoint(used, pattern[g], pattern, violating, lent, some, factor)
            _sum_bits(sums, wide, factor, some, count)
            for b in range(wide):
                of_pattern[g * wide + b] = among * ones[g * wide + b] - sums[b]
    _add_up(used, q, value, mine, players, compared, index)


@njit
def _fold(at, half, table):
    """Add the upper half of a table, which begins at `at`, to the lower one; returns the sum of the upper half."""
    total = 0.0
    for S in range(at, at + half):
        total += table[S + half]
        table[S] += table[S + half]
    return total


@njit
def _multiply(half, which, begin, given, factors, table):
    """The first half of a table: numbers times some of the factors."""
    for S in range(half):
        table[S] = given[S] * factors[which, begin + S]


@njit
def _fold_interactions(q, value, players, factors, subsets, single, index):
    """As `_add_interactions`, of all rows and donors, to one half of `index`: from the sums over subsets M.

    A coalition S pays M(S) M(Q - S). Players j and k get the sums over S with both, less those with j, less those with
    k, plus those over all S, each with factors of its own. S and Q - S count the same: those without the last player
    suffice, twice. M is overwritten.
    """
    size, M, pairs, singles, last = ONE << q, subsets[5], subsets[6], subsets[7], i8(q) - 1
    half = size >> ONE
    for S in range(half):
        singles[S] = M[S] * M[size - ONE - S]
    _multiply(half, U(OF_ALL), size, singles, factors, M)
    _multiply(half, U(OF_PAIRS), size, singles, factors, pairs)
    _multiply(half, U(OF_SINGLES), size, singles, factors, singles)
    for j in range(last - 1, -1, -1):
        _fold(NONE, ONE << U(j), M)
        single[j] = _fold(NONE, ONE << U(j), singles)
    every, twice = M[0], 2.0 * value
    for j in range(last):
        index[U(players[U(last)]), U(players[U(j)])] += twice * (every - single[j])
    for j in range(last - 1, 0, -1):
        half, one = ONE << U(j), U(players[U(j)])
        _fold(NONE, half, pairs)
        for k in range(j - 1, -1, -1):
            both = _fold(half, ONE << U(k), pairs)
            index[one, U(players[U(k)])] += twice * ((both - single[j]) - (single[k] - every))


@njit
def _add_to_rows(n, begin, end, width, at, row_of, table, sums):
    """Add the columns from begin to end, of width, of the rows' shares to their sums, which begin at `at`."""
    to = at
    for i in range(n):
        e = U(row_of[i]) * width + begin
        for _ in range(begin, end, U(LANES)):
            add_four(sums, to, table, e)
            to, e = to + U(LANES), e + U(LANES)


@njit
def _flush(a, at, nodes, sums, total):
    """Move the sums of the players of a node, which begin at `at`, to the totals of the rows."""
    entry_at, player, width = nodes[0], nodes[1], U(nodes[8][a + ONE] - nodes[8][a])
    first, q = U(entry_at[a]), U(entry_at[a + ONE] - entry_at[a])
    for i in range(U(len(total))):
        for s in range(q):
            total[i, U(player[first + s])] += sums[at + i * width + s]
    for x in range(at, at + U(len(total)) * width):
        sums[x] = 0.0


@njit
def _add_target(a, q, weight, pull, nodes, share, joined, compared, index):
    """Add interactions of the players of a node in its mean product with a target, of weighted values `pull`."""
    class_at, words, number, value = nodes[3], nodes[4], nodes[5], nodes[6]
    pattern, mass, players, pulled = joined[3], joined[4], joined[7], joined[6]
    first, used = U(class_at[a]), U(class_at[a + ONE] - class_at[a])
    for c in range(used):
        pattern[c], mass[c], pulled[c] = words[first + c], 0.0, 0.0
    for i in range(U(len(weight))):
        c = U(number[a, i])
        mass[c] += weight[i]
        for w in range(U(value.shape[1])):
            pulled[c] += pull[i, w] * value[a, w]
    _add_interactions(used, q, 1.0, pattern, pulled, mass, players, share, compared, index)
    _add_interactions(used, q, 1.0, pattern, mass, pulled, players, share, compared, index)


@compiled(
    types.void(
        i8, i8, i8, i8, i8, NODES, array_of(f8), array_of(f8, 2), array_of(f8, 2), array_of(f8, 2), JOINED, SUBSETS,
        COMPARED, array_of(f8), array_of(f8), array_of(f8, 2), array_of(f8, 2), array_of(f8, 2),
    )
)  # fmt: skip
def add_products(
    first, last, others_first, others_last, most, nodes, weight, pull, factors, share, joined, subsets, compared,
    sums_a, sums_b, total, index, of_target,
):  # fmt: skip
    """Add the rows' shares in the products of some nodes with others, or in the nodes alone, to `total`, (rows, p).

    Interactions of the players are added to `index`, (p, p), with its transpose; those of nodes alone with a target, of
    weighted values `pull`, to `of_target`. `most`: players up to which tables over their subsets are used. The sums of
    a node's players are zeros before and after.
    """
    entry_at, player, class_at, words, number = nodes[0], nodes[1], nodes[3], nodes[4], nodes[5]
    value, alone, column_at, n = nodes[6], nodes[7], nodes[8], U(len(weight))
    bit_of, columns, row_of, table, own = joined[0], joined[1], joined[5], joined[6], subsets[0]
    begin, end = U(others_first), U(others_last)
    for a in range(U(first), U(last)):
        before, width_a = U(entry_at[a]), U(column_at[a + ONE] - column_at[a])
        for e in range(before, U(entry_at[a + ONE])):
            bit_of[U(player[e])] = columns[e - before] = i4(e - before)
            joined[7][e - before] = player[e]
        for i in range(n):
            own[i] = u2(words[U(class_at[a]) + U(number[a, i])])
        if begin == end:
            _add_target(a, U(entry_at[a + ONE]) - before, weight, pull, nodes, share, joined, compared, of_target)
        for b in range(begin, max(end, begin + ONE)):
            product, width_b, other = 0.0, NONE, a
            if begin < end:
                for w in range(U(value.shape[1])):
                    product += 2.0 * value[a, w] * value[b, w]
                other, width_b = b, U(column_at[b + ONE] - column_at[b])
            else:
                product = alone[a]
            q = _join(a, other, nodes, joined) if product != 0.0 else 0
            if q <= 0:
                continue
            few = q <= most
            if few:
                used = U(_count_in_table(other, U(q), weight, nodes, joined, subsets))
            else:
                used = U(_count_by_nodes(a, other, weight, nodes, joined, compared))
            width = width_a + width_b
            for c in range(used * width):
                table[c] = 0.0
            if few and SLOWER * used * used > U(q) << U(q):
                _pay_by_subsets(used, U(q), width, product, factors, joined, subsets)
                _fold_interactions(U(q), product, joined[7], factors, subsets, compared[5], index)
            else:
                _pay_by_comparison(used, U(q), width, product, share, joined, compared, index)
            _add_to_rows(n, NONE, width_a, width, NONE, row_of, table, sums_a)
            if width_b > NONE:
                at = n * U(column_at[b] - column_at[begin])
                _add_to_rows(n, width_a, width, width, at, row_of, table, sums_b)
        _flush(a, NONE, nodes, sums_a, total)
        for e in range(before, U(entry_at[a + ONE])):
            bit_of[U(player[e])] = -1
    for b in range(begin, end):
        _flush(b, n * U(column_at[b] - column_at[begin]), nodes, sums_b, total)
