"""Compiled games of pairs: predictions of trees for a row and a donor in every coalition, and Shapley values of losses.

In a tree both sides are followed wherever row and donor differ. A leaf is reached by the coalitions S that contain all
players of a set A and none of a set B, ``1[A in S] 1[B not in S] = sum over T in B of (-1)^|T| 1[A + T in S]``: it is
added at a few positions of a table, and one sum over subsets turns the table into the sums of leaves of all coalitions.

Along a walk from donor to row, in one order of the players, a leaf is reached on one stretch: from the step after the
last player of A joined to that before the first of B does. It is added at the beginning, and subtracted at the end.
"""

from __future__ import annotations

from numba import njit, types

from losslens.engines.compiled import compiled
from losslens.engines.intrinsics import count_bits, leading_zeros, sum_subsets, trailing_zeros
from losslens.engines.trees.node_rules import (
    CUT,
    FEATURE,
    ONE,
    RIGHT,
    RULE,
    TREES,
    TWO,
    U,
    f8,
    goes_left,
    i4,
    i8,
    u8,
)
from losslens.engines.trees.pair_losses import REORDERED_SUMS, log_losses, squared_losses

NONE = U(0)
LAST_BIT = U(63)
LOW = U(6)  # "low" players: their 64 coalitions are adjacent and are summed together, as a block
COALITIONS, WALK = U(0), U(1)  # where leaves are added
PRECOMPUTED, SQUARED, LOGISTIC = 0, 1, 2  # losses computed by NumPy, and those computed here

# See `pair_games.PackedRows` and `pair_games._Buffers`.
ROWS = types.Tuple((i4[:, ::1], i4[::1], i4[::1], i4[::1], u8[:, ::1], u8[:, ::1]))
BUFFERS = types.Tuple((i8[::1], u8[:, ::1], u8[:, ::1], u8[::1]))
SUMS = types.Tuple((f8[::1], f8[:, ::1], f8[:, ::1], f8[:, ::1], f8[:, ::1], f8[:, ::1], i4[::1]))


@compiled(types.void(i4[:, ::1], i4[::1], i8[::1], i8[::1], u8[::1], i8[::1]))
def compare(codes, player, rows, donors, differ, cells):
    """The players whose classes differ between each row and its donor, as bits, and the number of their coalitions."""
    for b in range(U(len(rows))):
        i, k, players = U(rows[b]), U(donors[b]), NONE
        for f in range(U(len(player))):
            if player[f] >= 0 and codes[i, f] != codes[k, f]:  # -1: the column belongs to no player
                players |= ONE << U(player[f])
        differ[b] = players
        cells[b] = i8(1) << count_bits(players)


# Predictions of a pair.


@njit(forceinline=True)
def add_leaf(value, leaf, out, holds, lacks, cells, table):
    """Add a leaf that is reached by the coalitions that contain all of some players and none of others."""
    for w in range(U(value.shape[1])):
        place, amount, part = (out + w) * cells + holds, value[leaf, w], lacks
        while part != NONE:
            sign = i8(count_bits(part) & 1)
            table[place + part] += (amount ^ -sign) + sign
            part = (part - ONE) & lacks
        table[place] += amount


@njit(forceinline=True)
def add_stretch(value, leaf, out, holds, lacks, steps, table):
    """Add a leaf where a walk reaches it: bits are the steps at which players join, the first step is the donor."""
    begin, end = NONE, steps
    if holds != NONE:
        begin = LAST_BIT - U(leading_zeros(holds)) + ONE
    if lacks != NONE:
        end = U(trailing_zeros(lacks)) + ONE
    if begin < end:
        for w in range(U(value.shape[1])):
            place, amount = (out + w) * (steps + ONE), value[leaf, w]
            table[place + begin] += amount
            table[place + end] -= amount


@njit(forceinline=True)
def add_part(where, value, leaf, out, holds, lacks, size, table):
    """Add a leaf along a walk, or in all coalitions; a function as an argument would keep numba from caching."""
    if where == WALK:
        add_stretch(value, leaf, out, holds, lacks, size, table)
    else:
        add_leaf(value, leaf, out, holds, lacks, size, table)


@njit(forceinline=True)
def add_small(where, i, k, bits, cells, trees, packed, parts, table):
    """Add all trees, from the leaves that the values of the two rows allow; `bits` are the players, 0 if they agree.

    A player is *active* in a tree if the row's value and the donor's allow different leaves among those that the pair
    can reach at all.
    """
    _, _, _, _, _, leaf_at, value, output = trees
    _, _, first, owner, allowed, outside = packed
    for t in range(U(len(output))):
        leaf, out, start, stop = U(leaf_at[t]), U(output[t]), U(first[t]), U(first[t + ONE])
        reached = outside[i, t]
        for e in range(start, stop):
            reached &= allowed[i, e] | allowed[k, e]
        active = NONE
        for e in range(start, stop):
            of_row, of_donor = allowed[i, e], allowed[k, e]
            parts[active, 0] = of_row
            parts[active, 1] = of_donor
            parts[active, 2] = bits[U(owner[e])]
            active += U((of_row ^ of_donor) & reached != NONE)
        while reached != NONE:
            place = U(trailing_zeros(reached))
            reached &= reached - ONE
            holds, lacks = NONE, NONE
            for e in range(active):
                holds |= parts[e, 2] & (((parts[e, 1] >> place) & ONE) - ONE)
                lacks |= parts[e, 2] & (((parts[e, 0] >> place) & ONE) - ONE)
            add_part(where, value, leaf + place, out, holds, lacks, cells, table)


@njit
def add_large(where, i, k, bits, cells, trees, packed, stack, table):
    """As `add_small`, for trees of any size: walk down, to both sides where the rows differ in an undecided player."""
    nodes, roots, size, _, sets, _, value, output = trees
    codes, player, _, _, _, _ = packed
    for t in range(U(len(roots))):
        out = U(output[t])
        stack[0, 0] = U(roots[t])
        stack[0, 1] = NONE
        stack[0, 2] = NONE
        waiting = ONE
        while waiting != NONE:
            waiting -= ONE
            s, holds, lacks = stack[waiting, 0], stack[waiting, 1], stack[waiting, 2]
            while nodes[s, FEATURE] >= 0:
                f, cut, rule, right = U(nodes[s, FEATURE]), nodes[s, CUT], nodes[s, RULE], U(nodes[s, RIGHT])
                bit = bits[U(player[f])] if player[f] >= 0 else NONE
                left = goes_left(codes[k if bit & lacks else i, f], cut, rule, size[f], sets)
                if bit & ~(holds | lacks) and left != goes_left(codes[k, f], cut, rule, size[f], sets):
                    stack[waiting, 0] = right if left else s + ONE
                    stack[waiting, 1] = holds
                    stack[waiting, 2] = lacks | bit
                    waiting += ONE
                    holds |= bit
                s = s + ONE if left else right
            add_part(where, value, U(nodes[s, RIGHT]), out, holds, lacks, cells, table)


@njit
def number_players(differ, bits):
    """Number the players that differ 0, 1, .. as bits, and give the others 0; returns how many differ."""
    for j in range(U(len(bits))):
        bits[j] = (ONE << U(count_bits(differ & ((ONE << j) - ONE)))) if (differ >> j) & ONE else NONE
    return U(count_bits(differ))


@njit(forceinline=True)
def sum_leaves(i, k, players, trees, packed, outputs, buffers):
    """Fill the table, (outputs, coalitions), with the sums of leaves of one pair."""
    table, stack, parts, bits = buffers
    cells = ONE << players
    for c in range(outputs * cells):
        table[c] = 0
    _, _, _, _, allowed, _ = packed
    if allowed.shape[0] > 0:
        add_small(COALITIONS, i, k, bits, cells, trees, packed, parts, table)
    else:
        add_large(COALITIONS, i, k, bits, cells, trees, packed, stack, table)
    for w in range(outputs):
        sum_subsets(table, w * cells, players)


@compiled(types.void(i8[::1], i8[::1], u8[::1], TREES, ROWS, BUFFERS, i8[:, ::1]))
def sum_leaves_of_pairs(rows, donors, differ, trees, packed, buffers, raw):
    """The sums of leaves of some pairs, their coalitions concatenated: (., outputs)."""
    outputs, position, players, table = U(raw.shape[1]), NONE, NONE, buffers[0]
    for b in range(U(len(rows))):
        if b == NONE or differ[b] != differ[b - ONE]:
            players = number_players(differ[b], buffers[3])
        cells = ONE << players
        sum_leaves(U(rows[b]), U(donors[b]), players, trees, packed, outputs, buffers)
        for w in range(outputs):
            for c in range(cells):
                raw[position + c, w] = table[w * cells + c]
        position += cells


@compiled(types.void(i8[::1], i8[::1], i4[:, ::1], TREES, ROWS, BUFFERS, i8[:, :, ::1]))
def sum_leaves_of_walks(rows, donors, places, trees, packed, buffers, raw):
    """The sums of leaves along walks from donors to rows, (walks, players + 1, outputs); places: when players join."""
    table, stack, parts, bits = buffers
    steps, outputs = U(raw.shape[1]), U(raw.shape[2])
    for b in range(U(len(rows))):
        i, k = U(rows[b]), U(donors[b])
        for j in range(U(len(bits))):
            bits[j] = ONE << U(places[b, j])
        for c in range(outputs * (steps + ONE)):
            table[c] = 0
        if packed[4].shape[0] > 0:
            add_small(WALK, i, k, bits, steps, trees, packed, parts, table)
        else:
            add_large(WALK, i, k, bits, steps, trees, packed, stack, table)
        for w in range(outputs):
            total = i8(0)
            for step in range(steps):
                total += table[w * (steps + ONE) + step]
                raw[b, step, w] = total


# Shapley values.


@njit(error_model="numpy")
def weigh(players, weight):
    """Weights of the losses of coalitions, by the number of members above the low players, and by the low members.

    For a coalition with s of q members it is ``w(s - 1) + w(s)``, ``w(s) = s! (q - s - 1)! / q!``, w(-1) = w(q) = 0.
    """
    side = ONE << min(players, LOW)
    for above in range(players - min(players, LOW) + ONE):
        for c in range(side):
            weight[above, c] = 0.0
    now = 1.0 / f8(max(players, ONE))
    before = 0.0
    for s in range(players + ONE):
        if s == players:
            now = 0.0
        for above in range(min(s, players - min(players, LOW)) + ONE):
            for c in range(side):
                if above + U(count_bits(c)) == s:
                    weight[above, c] = before + now
        before = now
        now *= f8(s + ONE) / max(f8(players) - f8(s) - 1.0, 1.0)


@njit(forceinline=True, **REORDERED_SUMS)
def add_block(losses, block, side, above, weight, row_mass, donor_mass, by_low, by_high, by_coalition):
    """Add the losses of a block of coalitions to sums by low players, by the other players, and over pairs."""
    start = block * side
    for o in range(TWO):
        total, mass = 0.0, row_mass if o == NONE else donor_mass
        for c in range(side):
            weighted = losses[o, c] * weight[above, c]
            total += weighted
            by_low[o, c] += weighted
            by_coalition[o, start + c] += losses[o, c] * mass
        by_high[o, block] = total


@njit(forceinline=True, **REORDERED_SUMS)
def sum_by_player(sums, o, players, first, with_player):
    """The sum over the sets that contain each player; `sums` is overwritten."""
    while players > NONE:
        players -= ONE
        cells = ONE << players
        total = 0.0
        for c in range(cells):
            total += sums[o, c + cells]
            sums[o, c] += sums[o, c + cells]
        with_player[first + players] = total


@njit(error_model="numpy")
def write_shares(b, o, differ, gain, with_player, shares):
    """Shapley shares, from the sums over the coalitions that contain each player; together they are the gain."""
    players, total = U(count_bits(differ)), gain
    for j in range(players):
        total += with_player[j]
    place = NONE
    for j in range(U(shares.shape[2])):
        shares[b, o, j] = 0.0
        if (differ >> j) & ONE:
            now = total / f8(players) - with_player[place]
            shares[b, o, j] = now if o == NONE else -now  # with roles exchanged, coalitions are complements
            place += ONE


@njit
def add_errors(differ, by_coalition, places, errors):
    """Add losses of pairs with the same differing players to those of all coalitions; other players don't matter."""
    place, full = i4(1), (ONE << U(count_bits(differ))) - ONE
    places[0] = 0
    stop = ONE
    while stop < U(len(errors)):
        step = i4(0)
        if differ & stop:
            step = place
            place *= i4(2)
        for c in range(stop):
            places[stop + c] = places[c] + step
        stop *= TWO
    for c in range(U(len(errors))):
        errors[c] += by_coalition[NONE, U(places[c])] + by_coalition[ONE, full - U(places[c])]
    for c in range(full + ONE):
        by_coalition[NONE, c] = 0.0
        by_coalition[ONE, c] = 0.0


@compiled(
    types.void(
        i8, i8[::1], i8[::1], u8[::1], f8[::1], f8[:, ::1], f8[:, ::1], f8, f8, TREES, ROWS, BUFFERS, SUMS,
        f8[:, :, ::1], f8[::1],
    )
)  # fmt: skip
def play(kind, rows, donors, differ, y, mass, precomputed, scale, shift, trees, packed, buffers, sums, shares, errors):
    """Shares of the players of some pairs, for the row's y and for the donor's; their losses are added to the errors.

    Pairs with the same differing players are adjacent. `precomputed` are the losses of all coalitions, pairs
    concatenated, if `kind` is that. Of the sums, those by coalition are zero, and left so.
    """
    with_player, losses, by_low, weight, by_high, by_coalition, places = sums
    players, position, table = NONE, NONE, buffers[0]
    for b in range(U(len(rows))):
        if b == NONE or differ[b] != differ[b - ONE]:
            if b > NONE:
                add_errors(differ[b - ONE], by_coalition, places, errors)
            players = number_players(differ[b], buffers[3])
            if b == NONE or players != U(count_bits(differ[b - ONE])):
                weigh(players, weight)
        i, k = U(rows[b]), U(donors[b])
        if kind != PRECOMPUTED:
            sum_leaves(i, k, players, trees, packed, ONE, buffers)
        low = min(players, LOW)
        side, blocks = ONE << low, ONE << (players - low)
        for c in range(side):
            by_low[NONE, c] = 0.0
            by_low[ONE, c] = 0.0
        row_gain, donor_gain = 0.0, 0.0
        for block in range(blocks):
            if kind == SQUARED:
                squared_losses(table, block * side, side, scale, shift, y[i], y[k], losses)
            elif kind == LOGISTIC:
                log_losses(table, block * side, side, scale, shift, y[i], y[k], losses)
            else:
                for c in range(side):
                    losses[NONE, c] = precomputed[NONE, position + c]
                    losses[ONE, c] = precomputed[ONE, position + c]
                position += side
            if block == NONE:
                row_gain, donor_gain = losses[NONE, NONE], losses[ONE, NONE]
            above = U(count_bits(block))
            add_block(losses, block, side, above, weight, mass[b, 0], mass[b, 1], by_low, by_high, by_coalition)
        row_gain -= losses[NONE, side - ONE]
        donor_gain -= losses[ONE, side - ONE]
        for o in range(TWO):
            sum_by_player(by_low, o, low, NONE, with_player)
            sum_by_player(by_high, o, players - low, low, with_player)
            write_shares(b, o, differ[b], row_gain if o == NONE else donor_gain, with_player, shares)
    if len(rows) > 0:
        add_errors(differ[U(len(rows)) - ONE], by_coalition, places, errors)


@compiled(types.void(i8[::1], i8[::1], f8[::1], f8[:, :, ::1], u8, f8[:, ::1], f8[:, ::1]))
def collect(rows, donors, weight, shares, sides, local, caused):
    """Add the shares of pairs to the means of rows and of donors; with two sides each donor is also a row."""
    for b in range(U(len(rows))):
        i, k = U(rows[b]), U(donors[b])
        for o in range(sides):
            for j in range(U(shares.shape[2])):
                local[i, j] += weight[k] * shares[b, o, j]
                caused[k, j] += weight[i] * shares[b, o, j]
            i, k = k, i
