"""Compiled code for Shapley values of predictions: a tree is walked once for many rows and donors together.

A leaf is a box. On the way to it a row *breaks* the conditions of some players, and a donor those of others. A
coalition of the two arrives there if it has all players that the donor breaks and none that the row breaks: the two
sets must be disjoint, and say everything. Rows that break the same players on the way to a node are a *group* there,
and so are donors. Groups are compared, not pairs; one that is disjoint from nobody's goes no further.

Players are bits of a word, numbered along the way from the root.
"""

from __future__ import annotations

from numba import types

from losslens.engines.compiled import compiled, count_bits, trailing_zeros
from losslens.engines.trees.node_rules import (
    CUT,
    FEATURE,
    ONE,
    PLAIN,
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
MOST_PLAYERS = 64  # on a way, as bits of a word
LEVEL, STOP, BIT, ABOVE, FACTS = range(5)  # see `frame`
NOBODY = -1  # who owns a column that is no player's
ROWS, DONORS = 0, 1  # the two sides
GONE, NEW = -2, -1  # where members of a group go: nowhere, or to a group that is yet to be made
MEMBERS, GROUPS = 0, 1
AT_ONCE = U(64)  # groups compared before somebody looks whether one was found
MIX = U(0x9E3779B97F4A7C15)  # spreads words over the slots of a table

# A side's codes; by level its members, their groups, the sets that the groups break, whether a group can still meet
# somebody, and how many members and groups there are; where groups go; a table to find groups by what they break.
_SIDE = types.Tuple(
    (
        array_of(i4, 2), array_of(i4, 2), array_of(i4, 2), array_of(u8, 2), array_of(u1, 2), array_of(i4, 2),
        array_of(i4), array_of(i4, 2),
    )
)  # fmt: skip


@compiled(i8(array_of(i4, 2), array_of(i4), array_of(i4), array_of(i4), array_of(i4, 2)))
def frame(nodes, roots, player_of, way, facts):
    """Note each node's level, where its part of the tree ends, its player's bit, and how many players are above it.

    `way` has room for the players of a way. The most there are on any.
    """
    most = 0
    for t in range(len(roots)):
        end = roots[t + 1] if t + 1 < len(roots) else len(nodes)
        facts[roots[t], LEVEL], facts[roots[t], STOP], facts[roots[t], ABOVE] = 0, end, 0
        for s in range(roots[t], end):
            f, above = nodes[s, FEATURE], facts[s, ABOVE]
            most = max(most, above)
            facts[s, BIT] = NOBODY
            if f < 0:
                continue
            if player_of[f] != NOBODY:
                bit = 0
                while bit < above and way[bit] != player_of[f]:
                    bit += 1
                way[bit] = player_of[f]
                facts[s, BIT] = bit
                above = max(above, bit + 1)
            right = nodes[s, RIGHT]
            facts[s + 1, LEVEL] = facts[right, LEVEL] = facts[s, LEVEL] + 1
            facts[s + 1, ABOVE] = facts[right, ABOVE] = above
            facts[s + 1, STOP], facts[right, STOP] = right, facts[s, STOP]
    return most


@compiled(i4(u8, u8, i4, array_of(u8, 2), array_of(i4, 2)))
def _find(word, level, many, broken, table):
    """The group of a level that breaks these players; a new one, the last, where there was none.

    A slot of the table is taken if the group it names is there and names the slot: so nothing need be emptied.
    """
    slots = U(len(table) - 1)
    at = ((word * MIX) >> U(32)) & slots
    while table[at, 0] < many and U(table[table[at, 0], 1]) == at:
        if broken[level, U(table[at, 0])] == word:
            return table[at, 0]
        at = (at + ONE) & slots
    table[at, 0], table[many, 1] = many, at
    broken[level, U(many)] = word
    return many


@compiled(u8(i4))
def _word(bit):
    return NONE if bit == NOBODY else ONE << U(bit)


@compiled(types.void(i8, i8, i8, u8, u8, array_of(i4, 2), i4, u1, array_of(u1, 2), _SIDE))
def _follow(side, s, level, bit, again, nodes, size, left, sets, state):
    """Move the members of a side from node s to one of its children, at `level`.

    `bit` is the node's player, or nothing where its column is nobody's; `again` is the same where the player was asked
    for above. Two loops over the members, so that none has a branch that hangs on them.
    """
    codes, ids, group, broken, meets, count, to, table = state
    level = U(level)
    up, f, cut, rule = level - ONE, U(nodes[s, FEATURE]), nodes[s, CUT], nodes[s, RULE]
    members, before = U(count[up, MEMBERS]), U(count[up, GROUPS])
    for place in range(TWO * before):
        to[place] = GONE
    lends = side == DONORS and bit == NONE  # a column of nobody's is always the row's
    for q in range(members):
        code = codes[f, U(ids[up, q])]
        goes = code < cut if rule == PLAIN else goes_left(code, cut, rule, size, sets)
        place = TWO * U(group[up, q]) + U(goes != left and not lends)
        group[level, q], to[place] = place, NEW
    groups = i4(0)
    for place in range(TWO * before):
        word, breaks = broken[up, place >> ONE], place & ONE
        if to[place] == GONE or not meets[up, place >> ONE] or (breaks and bit == NONE):
            to[place] = GONE
            continue
        word = word | bit if breaks else word
        if word & again == NONE:  # nobody else has the same
            to[place], broken[level, U(groups)] = groups, word
        else:
            to[place] = _find(word, level, groups, broken, table)
        groups = max(groups, to[place] + i4(1))
    many = NONE
    for q in range(members):
        h = to[U(group[level, q])]
        ids[level, many], group[level, many] = ids[up, q], h
        many += U(h != GONE)
    count[level, MEMBERS], count[level, GROUPS] = many, groups


@compiled(i8(i8, u8, _SIDE, _SIDE, array_of(u8)))
def _meet(level, bit, mine, others, free):
    """Mark the groups of a side that may still meet somebody behind a node with this bit; how many there are.

    A group that doesn't break this player is as disjoint from others as it was above. Any other meets only those who
    don't break it either; `free` has room for them.
    """
    broken, meets, count, level = mine[3], mine[4], mine[5], U(level)
    theirs, counted, many, found = others[3], others[5], NONE, 0
    for h in range(U(counted[level, GROUPS])):
        free[many] = theirs[level, h]
        many += U(theirs[level, h] & bit == NONE)
    for g in range(U(count[level, GROUPS])):
        word, start = broken[level, g], NONE
        met = word & bit == NONE
        while not met and start < many:
            end = min(start + AT_ONCE, many)
            for h in range(start, end):  # without a way out, so that several are compared at once
                met |= word & free[h] == NONE
            start = end
        meets[level, g] = met
        found += met
    return found


@compiled(types.void(i8, i8, array_of(f8), _SIDE, array_of(u8, 2), array_of(f8)))
def _weigh(level, players, weight, donors, breaking, mass):
    """Weigh the groups of donors at a leaf, and list, for each player, those that break it: as bits of words."""
    _, ids, group, broken, _, count, _, _ = donors
    level = U(level)
    groups = U(count[level, GROUPS])
    for w in range((groups + U(63)) >> U(6)):
        for b in range(U(players)):
            breaking[w, b] = NONE
    for h in range(groups):
        word, mass[h] = broken[level, h], 0.0
        while word != NONE:
            breaking[h >> U(6), U(trailing_zeros(word))] |= ONE << (h & U(63))
            word &= word - ONE
    for q in range(U(count[level, MEMBERS])):
        mass[U(group[level, q])] += weight[U(ids[level, q])]


@compiled(types.void(i8, i8, array_of(f8, 2), _SIDE, _SIDE, array_of(u8, 2), array_of(f8), array_of(f8, 2)))
def _compare(level, players, share, rows, donors, breaking, mass, part):
    """The parts of a leaf that the players of the way have, for each group of rows that meets somebody."""
    broken, meets, count, theirs, level = rows[3], rows[4], rows[5], donors[3], U(level)
    groups = U(donors[5][level, GROUPS])
    for g in range(U(count[level, GROUPS])):
        for b in range(U(players)):
            part[g, b] = 0.0
        mine, met, lost = broken[level, g], NONE, 0.0
        size = U(count_bits(mine))
        for w in range((groups + U(63)) >> U(6)):
            disjoint, rest = ~NONE >> (U(64) - min(groups - (w << U(6)), U(64))), mine
            while rest != NONE:
                disjoint &= ~breaking[w, U(trailing_zeros(rest))]
                rest &= rest - ONE
            met |= disjoint
            while disjoint != NONE:
                h = (w << U(6)) + U(trailing_zeros(disjoint))
                disjoint &= disjoint - ONE
                word = theirs[level, h]
                needed = U(count_bits(word))
                lost += mass[h] * share[size, needed]
                gain = mass[h] * share[needed, size]
                while word != NONE:
                    part[g, U(trailing_zeros(word))] += gain
                    word &= word - ONE
        while mine != NONE:
            part[g, U(trailing_zeros(mine))] -= lost
            mine &= mine - ONE
        meets[level, g] = met != NONE


@compiled(types.void(i8, i8, i8, i8, array_of(i4), array_of(f8, 2), array_of(f8, 2), _SIDE, array_of(f8, 3)))
def _hand_out(level, players, leaf, out, way, value, part, rows, effects):
    """Add a leaf's value to the effects of its rows."""
    _, ids, group, _, meets, count, _, _ = rows
    level, players, leaf, out, width = U(level), U(players), U(leaf), U(out), U(value.shape[1])
    if width == ONE:  # the usual case
        for g in range(U(count[level, GROUPS])):
            for b in range(players):
                part[g, b] *= value[leaf, NONE]
    for q in range(U(count[level, MEMBERS])):
        i, g = U(ids[level, q]), U(group[level, q])
        if not meets[level, g]:
            continue
        if width == ONE:
            for b in range(players):
                effects[i, U(way[b]), out] += part[g, b]
            continue
        for b in range(players):
            for w in range(width):
                effects[i, U(way[b]), out + w] += part[g, b] * value[leaf, w]


@compiled(
    i8(
        i8, i8, i8, i8, array_of(i4, 2), array_of(i4, 2), array_of(i4), array_of(i4), array_of(u1, 2), array_of(f8, 2),
        array_of(f8), array_of(f8, 2), _SIDE, _SIDE, array_of(i4), array_of(i4), array_of(u8), array_of(u8, 2),
        array_of(f8), array_of(f8, 2), array_of(f8, 3),
    )
)  # fmt: skip
def walk(
    s, end, work, out, nodes, facts, player_of, size, sets, value, weight, share, rows, donors, trail, way, free,
    breaking, mass, part, effects,
):  # fmt: skip
    """Add the effects of a tree from node s on, until it ends or so much work is done; where to go on.

    At level 0 both sides hold everybody, as one group. `trail` and `way`, the nodes and players above, stay for the
    next call, as the sides do.
    """
    in_rows, in_donors = rows[5], donors[5]
    while s < end and work > 0:
        level, f, bit = facts[s, LEVEL], nodes[s, FEATURE], NONE
        if level > 0:
            a = trail[level - 1]
            left, asked, bit = u1(s == a + 1), size[nodes[a, FEATURE]], _word(facts[a, BIT])
            again = bit if facts[a, BIT] < facts[a, ABOVE] else NONE
            _follow(ROWS, a, level, bit, again, nodes, asked, left, sets, rows)
            _follow(DONORS, a, level, bit, again, nodes, asked, left, sets, donors)
        work -= in_rows[level, MEMBERS] + in_donors[level, MEMBERS]
        work -= i8(in_rows[level, GROUPS]) * in_donors[level, GROUPS]
        if f < 0:
            _weigh(level, facts[s, ABOVE], weight, donors, breaking, mass)
            _compare(level, facts[s, ABOVE], share, rows, donors, breaking, mass, part)
            _hand_out(level, facts[s, ABOVE], nodes[s, RIGHT], out, way, value, part, rows, effects)
        elif _meet(level, bit, rows, donors, free) == 0 or _meet(level, bit, donors, rows, free) == 0:
            s = facts[s, STOP]
            continue
        else:
            trail[level] = s
            if facts[s, BIT] != NOBODY:
                way[facts[s, BIT]] = player_of[f]
        s += 1
    return s
