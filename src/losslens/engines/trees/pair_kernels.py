"""Compiled games of pairs: what trees say of a row and a donor in every coalition, and what its players are worth.

In a tree two values are allowed wherever row and donor part. A leaf is reached by the coalitions that hold all
players of a set A and none of a set B, ``1[A in S] 1[B not in S] = sum over T in B of (-1)^|T| 1[A + T in S]``: it adds
to a few places of a table, and one sum over subsets makes that the sums of leaves of all coalitions.
"""

from __future__ import annotations

import numpy as np
from numba import types

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
from losslens.engines.trees.pair_losses import QUICK, lose_logs, lose_squares

f8 = types.float64
NONE, THREE, FOUR, EIGHT = U(0), U(3), U(4), U(8)
LOW = U(6)  # players whose coalitions stand next to each other and are added up together
GIVEN, SQUARED, LOGISTIC = 0, 1, 2  # losses that NumPy has computed, and those that don't need it

# Plain tuples, as in `masks`; see `pair_games.Forest` and `pair_games._Room`.
TREES = types.Tuple(
    (
        array_of(i4, 2), array_of(i4), array_of(i4), array_of(u1, 2), array_of(i4), array_of(i8, 2), array_of(i4),
        array_of(i4, 2), array_of(i4), array_of(i4), array_of(u8, 2), array_of(u8, 2),
    )
)  # fmt: skip
ROOM = types.Tuple((array_of(i8), array_of(u8, 2), array_of(u8, 2), array_of(u8)))


# What is prepared once.


@compiled(types.void(array_of(i4, 2), array_of(i4), array_of(i4), array_of(u8, 2)))
def list_leaves(nodes, leaf_at, tree, under):
    """The leaves on the left and on the right of every inner node of small trees, as bits."""
    for s in range(len(nodes) - 1, -1, -1):  # children stand behind their parents
        if nodes[s, FEATURE] >= 0:
            left, right = s + 1, nodes[s, RIGHT]
            under[s, 0] = under[left, 0] | under[left, 1]
            under[s, 1] = under[right, 0] | under[right, 1]
        else:
            under[s, 0], under[s, 1] = ONE << U(nodes[s, RIGHT] - leaf_at[tree[s]]), NONE


@compiled(
    types.void(
        array_of(i4, 2), array_of(i4), array_of(u1, 2), array_of(i4), array_of(u8, 2), array_of(i4), array_of(i4, 2),
        array_of(u8, 2), array_of(u8, 2),
    )
)  # fmt: skip
def allow(nodes, size, sets, tree, under, entry, codes, allowed, outside):
    """Note which leaves of small trees the values of each row allow: those of each player, and of all other columns."""
    for i in range(U(len(codes))):
        for e in range(U(allowed.shape[1])):
            allowed[i, e] = ~NONE
        for t in range(U(outside.shape[1])):
            outside[i, t] = ~NONE
        for s in range(U(len(nodes))):
            f = nodes[s, FEATURE]
            if f >= 0:
                left = goes_left(codes[i, U(f)], nodes[s, CUT], nodes[s, RULE], size[U(f)], sets)
                keeps = ~under[s, ONE if left else NONE]
                if entry[s] >= 0:
                    allowed[i, U(entry[s])] &= keeps
                else:
                    outside[i, U(tree[s])] &= keeps


@compiled(types.void(array_of(i4, 2), array_of(i4), array_of(i8), array_of(i8), array_of(u8), array_of(i8)))
def compare(codes, player, rows, donors, differ, cells):
    """The players whose classes differ between each row and its donor, as bits, and their coalitions; -1: no player."""
    for b in range(U(len(rows))):
        i, k, found = U(rows[b]), U(donors[b]), NONE
        for f in range(U(len(player))):
            if player[f] >= 0 and codes[i, f] != codes[k, f]:
                found |= ONE << U(player[f])
        differ[b] = found
        cells[b] = i8(1) << count_bits(found)


# What trees say of a pair.


@compiled(types.void(array_of(i8, 2), u8, u8, u8, u8, u8, array_of(i8)), forceinline=True)
def arrive(value, leaf, out, holds, lacks, cells, table):
    """Add a leaf that the coalitions reach which hold all of some players and lack all of others."""
    for w in range(U(value.shape[1])):
        here, amount, part = (out + w) * cells + holds, value[leaf, w], lacks
        while part != NONE:
            sign = i8(count_bits(part) & 1)
            table[here + part] += (amount ^ -sign) + sign
            part = (part - ONE) & lacks
        table[here] += amount


@compiled(types.void(u8, u8, array_of(u8), u8, TREES, array_of(u8, 2), array_of(i8)))
def add_small(i, k, bits, cells, trees, parts, table):
    """Add all trees, from the leaves that the values of the two rows allow; `bits` are the players, 0 where they agree.

    A player is *active* in a tree where the row's value and the donor's don't allow the same of the leaves that the
    pair can reach at all.
    """
    _, _, _, _, leaf_at, value, output, _, first, owner, allowed, outside = trees
    for t in range(U(len(leaf_at)) - ONE):
        leaf, out, start, stop = U(leaf_at[t]), U(output[t]), U(first[t]), U(first[t + ONE])
        reached = outside[i, t]
        for e in range(start, stop):
            reached &= allowed[i, e] | allowed[k, e]
        active = NONE
        for e in range(start, stop):
            mine, theirs = allowed[i, e], allowed[k, e]
            parts[active, 0] = mine
            parts[active, 1] = theirs
            parts[active, 2] = bits[U(owner[e])]
            active += U((mine ^ theirs) & reached != NONE)
        while reached != NONE:
            place = U(trailing_zeros(reached))
            reached &= reached - ONE
            holds, lacks = NONE, NONE
            for e in range(active):
                holds |= parts[e, 2] & (((parts[e, 1] >> place) & ONE) - ONE)
                lacks |= parts[e, 2] & (((parts[e, 0] >> place) & ONE) - ONE)
            arrive(value, leaf + place, out, holds, lacks, cells, table)


@compiled(types.void(u8, u8, array_of(i4), array_of(u8), u8, TREES, array_of(u8, 2), array_of(i8)))
def add_large(i, k, player, bits, cells, trees, stack, table):
    """The same for trees of any size: walk down, both ways where the two rows part at an undecided player."""
    nodes, roots, size, sets, _, value, output, codes, _, _, _, _ = trees
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
            arrive(value, U(nodes[s, RIGHT]), out, holds, lacks, cells, table)


@compiled(types.void(array_of(i8), u8, u8, u8), forceinline=True)
def climb(table, start, stop, half):
    """Let sums over the subsets of some players, whose coalitions are `half`, be sums over two more."""
    for block in range(start, stop, FOUR * half):
        for c in range(block, block + half):
            none, one, two = table[c], table[c + half], table[c + TWO * half]
            table[c + half] = none + one
            table[c + TWO * half] = none + two
            table[c + THREE * half] += none + one + two


@compiled(types.void(array_of(i8), u8, u8), forceinline=True)
def climb_eight(table, start, stop):
    """The same for the first three players."""
    for c in range(start, stop, EIGHT):
        a, b, d, e = table[c], table[c + ONE], table[c + TWO], table[c + THREE]
        f, g, h = table[c + FOUR], table[c + U(5)], table[c + U(6)]
        b, g = a + b, f + g
        e, d = b + d + e, a + d
        last = g + h + table[c + U(7)]
        h = f + h
        table[c + ONE], table[c + TWO], table[c + THREE] = b, d, e
        table[c + FOUR], table[c + U(5)], table[c + U(6)], table[c + U(7)] = a + f, b + g, d + h, e + last


@compiled(types.void(array_of(i8), u8, u8))
def sum_subsets(table, start, players):
    """Put the sum over all subsets in the place of each set. Steps known when this is compiled are taken faster."""
    stop, half = start + (ONE << players), ONE
    if players >= U(11):
        half = U(2048)
        for near in range(start, stop, half):  # what fits into the nearest cache
            climb_eight(table, near, near + half)
            climb(table, near, near + half, U(8))
            climb(table, near, near + half, U(32))
            climb(table, near, near + half, U(128))
            climb(table, near, near + half, U(512))
    elif players >= U(7):
        half = U(128)
        climb_eight(table, start, stop)
        climb(table, start, stop, U(8))
        climb(table, start, stop, U(32))
    while TWO * half < stop - start:
        climb(table, start, stop, half)
        half *= FOUR
    if half < stop - start:
        for c in range(start, start + half):
            table[c + half] += table[c]


@compiled(u8(u8, array_of(u8)))
def number_players(differ, bits):
    """Give the players that differ the numbers 0, 1 .. in their order, as bits, and the others none; how many."""
    for j in range(U(len(bits))):
        bits[j] = (ONE << U(count_bits(differ & ((ONE << j) - ONE)))) if (differ >> j) & ONE else NONE
    return U(count_bits(differ))


@compiled(types.void(u8, u8, array_of(i4), u8, TREES, u8, ROOM))
def tell(i, k, player, players, trees, outputs, room):
    """Fill the table, (outputs, coalitions), with the sums of leaves of one pair."""
    table, stack, parts, bits = room
    cells = ONE << players
    for c in range(outputs * cells):
        table[c] = 0
    if trees[10].shape[0] > 0:
        add_small(i, k, bits, cells, trees, parts, table)
    else:
        add_large(i, k, player, bits, cells, trees, stack, table)
    for w in range(outputs):
        sum_subsets(table, w * cells, players)


@compiled(types.void(array_of(i8), array_of(i8), array_of(u8), array_of(i4), TREES, ROOM, array_of(i8, 2)))
def tell_pairs(rows, donors, differ, player, trees, room, raw):
    """The sums of leaves of some pairs, all their coalitions one behind the other: (., outputs)."""
    outputs, at, players, table = U(raw.shape[1]), NONE, NONE, room[0]
    for b in range(U(len(rows))):
        if b == NONE or differ[b] != differ[b - ONE]:
            players = number_players(differ[b], room[3])
        cells = ONE << players
        tell(U(rows[b]), U(donors[b]), player, players, trees, outputs, room)
        for w in range(outputs):
            for c in range(cells):
                raw[at + c, w] = table[w * cells + c]
        at += cells


# What players are worth.


@compiled(types.void(u8, array_of(f8, 2)))
def weigh(players, weight):
    """The weights of losses by the members of a coalition beyond the lowest players, and by those among them.

    Of a coalition with s members of q it is ``w(s - 1) + w(s)``, ``w(s) = s! (q - s - 1)! / q!``, w(-1) = w(q) = 0.
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


@compiled(
    types.void(array_of(f8, 2), u8, u8, u8, array_of(f8, 2), f8, f8, array_of(f8, 2), array_of(f8, 2), array_of(f8, 2)),
    **QUICK,
)
def tally(lost, block, side, above, weight, mine, theirs, near, far, held):
    """Add up the losses of some coalitions: by the lowest players, by the others, and over pairs."""
    start = block * side
    for o in range(TWO):
        total, mass = 0.0, mine if o == NONE else theirs
        for c in range(side):
            share = lost[o, c] * weight[above, c]
            total += share
            near[o, c] += share
            held[o, start + c] += lost[o, c] * mass
        far[o, block] = total


@compiled(types.void(array_of(f8, 2), u8, u8, u8, array_of(f8)), **QUICK)
def halve(sums, o, players, first, worth):
    """Note the sum over the sets that hold each player; the sums are used up."""
    while players > NONE:
        players -= ONE
        cells = ONE << players
        held = 0.0
        for c in range(cells):
            held += sums[o, c + cells]
            sums[o, c] += sums[o, c + cells]
        worth[first + players] = held


@compiled(types.void(u8, u8, u8, f8, array_of(f8), array_of(f8, 3)))
def share(b, o, differ, gained, worth, shares):
    """What each player is worth, from the sums over the coalitions that hold it; together they are worth the gain."""
    players, total = U(count_bits(differ)), gained
    for j in range(players):
        total += worth[j]
    place = NONE
    for j in range(U(shares.shape[2])):
        shares[b, o, j] = 0.0
        if (differ >> j) & ONE:
            now = total / f8(players) - worth[place]
            shares[b, o, j] = now if o == NONE else -now  # the donor holds what the row doesn't
            place += ONE


@compiled(types.void(u8, array_of(f8, 2), array_of(i4), array_of(f8)))
def spread(differ, held, places, errors):
    """Add the sums of pairs with the same players to those of all coalitions, for the others don't matter to them."""
    place, whole = i4(1), (ONE << U(count_bits(differ))) - ONE
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
        errors[c] += held[NONE, U(places[c])] + held[ONE, whole - U(places[c])]
    for c in range(whole + ONE):
        held[NONE, c] = 0.0
        held[ONE, c] = 0.0


@compiled(
    types.void(
        i8, array_of(i8), array_of(i8), array_of(u8), array_of(i4), array_of(f8), array_of(f8, 2), array_of(f8, 2),
        f8, f8, TREES, ROOM, array_of(f8, 2), array_of(f8, 2), array_of(i4), array_of(f8, 3), array_of(f8),
    )
)  # fmt: skip
def play(
    kind, rows, donors, differ, player, y, mass, given, scale, shift, trees, room, far, held, places, shares, errors
):
    """The shares of the players of some pairs, for the row's y and for the donor's; their losses join the errors.

    Pairs with the same players stand together. `given` are the losses of all coalitions, one pair behind the other.
    `far` and `held` have room for all coalitions; `held` is empty, and left so.
    """
    worth, lost, near, weight = np.empty(64), np.empty((2, 64)), np.empty((2, 64)), np.empty((64, 64))
    players, at, table = NONE, NONE, room[0]
    for b in range(U(len(rows))):
        if b == NONE or differ[b] != differ[b - ONE]:
            if b > NONE:
                spread(differ[b - ONE], held, places, errors)
            players = number_players(differ[b], room[3])
            if b == NONE or players != U(count_bits(differ[b - ONE])):
                weigh(players, weight)
        i, k = U(rows[b]), U(donors[b])
        if kind != GIVEN:
            tell(i, k, player, players, trees, ONE, room)
        low = min(players, LOW)
        side, blocks = ONE << low, ONE << (players - low)
        for c in range(side):
            near[NONE, c] = 0.0
            near[ONE, c] = 0.0
        gained, regained = 0.0, 0.0
        for block in range(blocks):
            if kind == SQUARED:
                lose_squares(table, block * side, side, scale, shift, y[i], y[k], lost)
            elif kind == LOGISTIC:
                lose_logs(table, block * side, side, scale, shift, y[i], y[k], lost)
            else:
                for c in range(side):
                    lost[NONE, c] = given[NONE, at + c]
                    lost[ONE, c] = given[ONE, at + c]
                at += side
            if block == NONE:
                gained, regained = lost[NONE, NONE], lost[ONE, NONE]
            tally(lost, block, side, U(count_bits(block)), weight, mass[b, 0], mass[b, 1], near, far, held)
        gained -= lost[NONE, side - ONE]
        regained -= lost[ONE, side - ONE]
        for o in range(TWO):
            halve(near, o, low, NONE, worth)
            halve(far, o, players - low, low, worth)
            share(b, o, differ[b], gained if o == NONE else regained, worth, shares)
    if len(rows) > 0:
        spread(differ[U(len(rows)) - ONE], held, places, errors)


@compiled(types.void(array_of(i8), array_of(i8), array_of(f8), array_of(f8, 3), u8, array_of(f8, 2), array_of(f8, 2)))
def collect(rows, donors, weight, shares, sides, local, caused):
    """Add the shares of pairs to the means of rows and of donors; with two sides each donor is a row as well."""
    for b in range(U(len(rows))):
        i, k = U(rows[b]), U(donors[b])
        for o in range(sides):
            for j in range(U(shares.shape[2])):
                local[i, j] += weight[k] * shares[b, o, j]
                caused[k, j] += weight[i] * shares[b, o, j]
            i, k = k, i
