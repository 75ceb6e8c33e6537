"""Compiled kernels for Shapley values of predictions: patterns of donors are counted, and rows look up what they get.

A leaf is a box. On the path to it a row *violates* the conditions of some players, and a donor those of others: their
*patterns*. A coalition of the two reaches the leaf if it contains all players that the donor violates and none that
the row violates; nothing else matters. So the donors matter to a row only by how many of them have each pattern.

Players are bits of a pattern, numbered along the path from the root. If some columns belong to no player, bit 0 of the
rows' patterns says whether the row violates one of their conditions, which no coalition can repair; players come after.
"""

from __future__ import annotations

from numba import njit, types

from losslens.engines.compiled import compiled
from losslens.engines.intrinsics import add_four, count_bits, sum_subsets, trailing_zeros
from losslens.engines.trees.node_rules import (
    CUT,
    FEATURE,
    ONE,
    PLAIN,
    RIGHT,
    RULE,
    TREES,
    U,
    f8,
    goes_left,
    i4,
    i8,
    u1,
    u8,
)

u4 = types.uint32
NONE = U(0)
LEVEL, STOP, BIT, ABOVE, PARENT, FIELDS = range(6)  # see `describe_nodes`
OF_E, OF_F = U(0), U(1)  # rows of factors; those of subset S of q players are at 2^q + S
NO_PLAYER = -1  # the player of a column that belongs to none
WORD = 64  # bits of a word of a pattern


@compiled(i8(TREES, i4[::1], i4[::1], i4[:, ::1]))
def describe_nodes(trees, player_of, path_players, info):
    """Fill in each node's level, the end of its subtree, its player's bit, the players above it, and its parent.

    `path_players` is a buffer for the players of a path. Returns the largest number of players on any path.
    """
    nodes, roots, _, _, _, _, _, _ = trees
    largest = 0
    for t in range(len(roots)):
        end = roots[t + 1] if t + 1 < len(roots) else len(nodes)
        info[roots[t], LEVEL], info[roots[t], STOP], info[roots[t], ABOVE], info[roots[t], PARENT] = 0, end, 0, -1
        for s in range(roots[t], end):
            f, above = nodes[s, FEATURE], info[s, ABOVE]
            largest = max(largest, above)
            info[s, BIT] = NO_PLAYER
            if f < 0:
                continue
            if player_of[f] != NO_PLAYER:
                bit = 0
                while bit < above and path_players[bit] != player_of[f]:
                    bit += 1
                path_players[bit] = player_of[f]
                info[s, BIT] = bit
                above = max(above, bit + 1)
            right = nodes[s, RIGHT]
            info[s + 1, LEVEL] = info[right, LEVEL] = info[s, LEVEL] + 1
            info[s + 1, ABOVE] = info[right, ABOVE] = above
            info[s + 1, STOP], info[right, STOP] = right, info[s, STOP]
            info[s + 1, PARENT] = info[right, PARENT] = s
    return largest


@njit
def _step(s, shift, own, start, count, codes, trees, info, words):
    """Patterns at a node from those at its parent, of `count` rows or donors from `start` on.

    `own` is what a violated condition of no player's column adds: a donor's value of such a column is never looked at.
    """
    nodes, _, size, _, sets, _, _, _ = trees
    a, level = info[s, PARENT], U(info[s, LEVEL])
    up, f, cut, rule = level - ONE, U(nodes[a, FEATURE]), nodes[a, CUT], nodes[a, RULE]
    left = s == a + 1
    bit = own if info[a, BIT] == NO_PLAYER else u4(1) << u4(info[a, BIT] + shift)
    if rule == PLAIN:
        for i in range(count):
            violates = (codes[f, start + i] < cut) != left
            words[level, i] = words[up, i] | (bit if violates else u4(0))
        return
    for i in range(count):
        violates = goes_left(codes[f, start + i], cut, rule, size[f], sets) != left
        words[level, i] = words[up, i] | (bit if violates else u4(0))


@compiled(
    types.void(
        i8, i8, i8, i8, u8, u8, i4[:, ::1], TREES, i4[:, ::1], i8[::1], i8, f8[:, ::1], u4[:, ::1], f8[::1]
    )
)  # fmt: skip
def count(root, first, last, most, start, stop, codes, trees, info, table_at, base, weight, words, counts):
    """Add the weights of donors to the counts of their patterns, at the leaves among some nodes.

    A leaf of q players has D tables of 2^q counts each, which begin at D times its `table_at`, less that of `base`.
    """
    nodes, _, _, _, _, _, _, _ = trees
    members, D = stop - start, U(weight.shape[0])
    s = root
    while s < last:
        if info[s, STOP] <= first or info[s, ABOVE] > most:
            s = info[s, STOP]
            continue
        level = U(info[s, LEVEL])
        if level > NONE:
            _step(s, 0, u4(0), start, members, codes, trees, info, words)
        if nodes[s, FEATURE] < 0:
            for d in range(D):
                first_entry = D * U(table_at[nodes[s, RIGHT]] - base) + (d << U(info[s, ABOVE]))
                for i in range(members):
                    counts[first_entry + U(words[level, i])] += weight[d, start + i]
        s += 1


@compiled(types.void(i8, i8, i8, i4[:, ::1], i4[:, ::1], i8[::1], i8, f8[:, ::1], i8, f8[::1], f8[::1]))
def tabulate(first, last, most, nodes, info, table_at, base, factors, D, counts, table):
    """Turn counts of patterns into what rows look up, at the leaves among some nodes; `counts` is overwritten.

    With M(S) the weight of the donors that violate no players but those of S, and A the players that a row doesn't
    violate, player j gets ``E(A) - F(A - j)``: sums of c M(S) over the subsets S of A, with the factors
    c = (|S| - 1)! (q - |S|)! / q! (0 if S is empty) of E, and c + |S|! (q - 1 - |S|)! / q! (c if S is full) of F.
    """
    for s in range(first, last):
        q = U(info[s, ABOVE])
        if nodes[s, FEATURE] >= 0 or q > U(most):
            continue
        size, begin = ONE << q, U(D) * U(table_at[nodes[s, RIGHT]] - base)
        for d in range(U(D)):
            source = begin + d * size
            sum_subsets(counts, source, q)
            for which in (OF_E, OF_F):
                target = source + source + which * size
                for S in range(size):
                    table[target + S] = counts[source + S] * factors[which, size + S]
                sum_subsets(table, target, q)


@njit
def _add_payoffs(used, flip, q, shift, first_entry, D, unit, leaf, value, table, distinct, parts):
    """Add to the parts what rows with each of some distinct patterns get at a leaf: by players, weightings, outputs.

    `flip` is 0, or the bit in which patterns at this leaf differ from those at its sibling: those that are listed.
    """
    full, width, first = (ONE << q) - ONE, U(value.shape[1]), value[leaf, 0]
    both = ONE << (q + U(shift))
    for d in range(D):
        of_e = first_entry + (d + d) * (full + ONE)
        of_f = of_e + full + ONE
        for g in range(used):
            word = distinct[g]
            if flip != NONE and word & both == NONE:
                word ^= flip
            if shift > 0 and word & ONE != NONE:
                continue
            satisfied, c = full ^ ((word >> U(shift)) & full), d * width
            most = table[of_e + satisfied]
            for b in range(q):
                payoff = (most - table[of_f + (satisfied & ~(ONE << b))]) * unit
                parts[g, c] += payoff * first
                for w in range(ONE, width):
                    parts[g, c + w] += payoff * value[leaf, w]
                c += D * width


@njit
def _flush(first, last, out, width, path_players, sums, effects):
    """Add the sums of some players of a path to their effects."""
    D = U(effects.shape[0])
    for b in range(first, last):
        j = U(path_players[b])
        for d in range(D):
            for w in range(width):
                c = (b * D + d) * width + w
                for i in range(U(effects.shape[3])):
                    effects[d, out + w, j, i] += sums[i, c]
                    sums[i, c] = 0.0


@compiled(
    types.void(
        i8, i8, i8, i8, i8, u8, i4[:, ::1], TREES, i4[:, ::1], i8[::1], i8, i4[::1], f8[:, ::1], u8, f8[::1], f8[::1],
        u4[:, ::1], i4[::1], i8[::1], u8[::1], f8[:, ::1], f8[:, ::1], f8[:, :, :, ::1],
    )
)  # fmt: skip
def add_effects(
    root, first, last, most, shift, start, codes, trees, info, table_at, base, player_of, value, out, unit, table,
    words, path_players, places, distinct, parts, sums, effects,
):  # fmt: skip
    """Add what rows from `start` on get at the leaves among some nodes to their effects, (D, outputs, players, rows).

    Rows with the same pattern get the same: it is computed once, as one of the `parts`, whose number is in `places`,
    more the last of these; so places need not be cleared. Sums are those of the players of the present path.
    """
    nodes, _, _, _, _, _, _, _ = trees
    members, D, width = U(effects.shape[3]), U(effects.shape[0]), U(value.shape[1])
    s, open_players = root, 0
    while True:
        above = info[s, ABOVE] if s < last else 0
        if above < open_players:
            _flush(U(above), U(open_players), out, width, path_players, sums, effects)
            open_players = above
        if s >= last:
            break
        if info[s, STOP] <= first or above > most:
            s = info[s, STOP]
            continue
        level = U(info[s, LEVEL])
        if level > NONE:
            _step(s, shift, u4(1), start, members, codes, trees, info, words)
        if nodes[s, FEATURE] >= 0:
            if info[s, BIT] != NO_PLAYER:
                path_players[info[s, BIT]] = player_of[nodes[s, FEATURE]]
            s += 1
            continue
        q, used, taken, flip = U(above), NONE, places[-1], NONE
        a, open_players = info[s, PARENT], above
        if s + 1 < last and info[s + 1, PARENT] == a and nodes[s + 1, FEATURE] < 0:  # two leaves at once
            flip = ONE if info[a, BIT] == NO_PLAYER else ONE << U(info[a, BIT] + shift)
            both = u4(1) << u4(above + shift)
            for i in range(members):
                words[level, i] |= both if words[level - ONE, i] & u4(flip) != u4(0) else u4(0)
        for i in range(members):
            word = U(words[level, i])
            place = places[word]  # without a branch, which could not be predicted
            distinct[used] = word
            places[word] = place if place >= taken else taken + i8(used)
            used += U(place < taken)
        columns = (q * D * width + U(3)) & ~U(3)
        for g in range(used):
            for c in range(columns):
                parts[g, c] = 0.0
        for other in range(2 if flip != NONE else 1):
            leaf = U(nodes[s + other, RIGHT])
            first_entry, flipped = U(2) * D * U(table_at[leaf] - base), flip if other else NONE
            _add_payoffs(used, flipped, q, shift, first_entry, D, unit[q], leaf, value, table, distinct, parts)
        for i in range(members):
            target, source = i * U(sums.shape[1]), U(places[U(words[level, i])] - taken) * U(parts.shape[1])
            for c in range(NONE, columns, U(4)):
                add_four(sums, target + c, parts, source + c)
        s += 1 if flip != NONE else 0
        places[-1] = taken + i8(used)
        s += 1


# Leaves of too many players for a table: patterns are words of bits.


@compiled(types.void(i8, u1, u8, i4[:, ::1], TREES, i4[:, ::1], u8[:, ::1]))
def find_patterns(s, own, start, codes, trees, info, patterns):
    """Patterns of rows or donors from `start` on, at any leaf s, as words; a row's last bit is that of no player."""
    nodes, _, size, _, sets, _, _, _ = trees
    last = info[s, ABOVE]
    while info[s, PARENT] >= 0:
        a = info[s, PARENT]
        bit = info[a, BIT] if info[a, BIT] != NO_PLAYER else last
        if bit < last or own:
            word, mask, f, left = U(bit // WORD), ONE << U(bit % WORD), U(nodes[a, FEATURE]), s == a + 1
            for i in range(U(len(patterns))):
                if goes_left(codes[f, start + i], nodes[a, CUT], nodes[a, RULE], size[f], sets) != left:
                    patterns[i, word] |= mask
        s = a


@compiled(types.void(u8[:, ::1], u8[:, ::1], f8[:, ::1], f8[:, ::1], f8[:, :, ::1]))
def compare_patterns(rows, donors, mass, share, part):
    """What each player gets, (rows, D, players), by comparing distinct patterns of rows with those of donors."""
    words, D = U(rows.shape[1]), U(mass.shape[1])
    for g in range(U(len(rows))):
        size = NONE
        for c in range(words):
            size += U(count_bits(rows[g, c]))
        for h in range(U(len(donors))):
            common, needed = NONE, NONE
            for c in range(words):
                common |= rows[g, c] & donors[h, c]
            if common != NONE:
                continue
            for c in range(words):
                needed += U(count_bits(donors[h, c]))
            for d in range(D):
                lost, gain = mass[h, d] * share[size, needed], mass[h, d] * share[needed, size]
                for c in range(words):
                    word = rows[g, c]
                    while word != NONE:
                        part[g, d, (c << U(6)) + U(trailing_zeros(word))] -= lost
                        word &= word - ONE
                    word = donors[h, c]
                    while word != NONE:
                        part[g, d, (c << U(6)) + U(trailing_zeros(word))] += gain
                        word &= word - ONE
