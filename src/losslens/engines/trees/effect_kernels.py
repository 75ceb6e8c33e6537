"""Compiled kernels for Shapley values of predictions: a tree is walked once for many rows and donors together.

A leaf is a box. On the path to it a row *violates* the conditions of some players, and a donor those of others. A
coalition of the two reaches the leaf if it contains all players that the donor violates and none that the row violates:
the two sets must be disjoint, and nothing else matters. Rows that violate the same players on the path to a node are a
*group* there, and so are donors. Groups are compared, not pairs; a group that is disjoint from no group of the other
side goes no further.

Players are bits of a word, numbered along the path from the root.
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
MAX_PATH_PLAYERS = 64  # players on a path, as bits of a word
LEVEL, STOP, BIT, ABOVE, FIELDS = range(5)  # see `describe_nodes`
NO_PLAYER = -1  # the player of a column that belongs to none
ROWS, DONORS = 0, 1  # the two sides
DROPPED, NEW = -2, -1  # where members of a group go: nowhere, or to a group that is yet to be made
MEMBERS, GROUPS = 0, 1
COMPARED = U(64)  # groups compared before the loop tests whether a disjoint one was among them
MIX = U(0x9E3779B97F4A7C15)  # multiplier of the hash function

# A side: its codes; by level its members, their groups, the players that the groups violate, whether a group is
# disjoint from one of the other side, and the numbers of members and groups; where groups go; a hash table of groups.
_SIDE = types.Tuple(
    (
        array_of(i4, 2), array_of(i4, 2), array_of(i4, 2), array_of(u8, 2), array_of(u1, 2), array_of(i4, 2),
        array_of(i4), array_of(i4, 2),
    )
)  # fmt: skip


@compiled(i8(array_of(i4, 2), array_of(i4), array_of(i4), array_of(i4), array_of(i4, 2)))
def describe_nodes(nodes, roots, player_of, path_players, info):
    """Fill in each node's level, the end of its subtree, its player's bit, and the number of players above it.

    `path_players` is a buffer for the players of a path. Returns the largest number of players on any path.
    """
    largest = 0
    for t in range(len(roots)):
        end = roots[t + 1] if t + 1 < len(roots) else len(nodes)
        info[roots[t], LEVEL], info[roots[t], STOP], info[roots[t], ABOVE] = 0, end, 0
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
    return largest


@compiled(i4(u8, u8, i4, array_of(u8, 2), array_of(i4, 2)))
def _group_of(word, level, groups, violated, table):
    """The group of a level that violates these players; if there is none, a new one, the last.

    A slot of the hash table is taken if the group it names exists and names the slot: so it need not be cleared.
    """
    slots = U(len(table) - 1)
    at = ((word * MIX) >> U(32)) & slots
    while table[at, 0] < groups and U(table[table[at, 0], 1]) == at:
        if violated[level, U(table[at, 0])] == word:
            return table[at, 0]
        at = (at + ONE) & slots
    table[at, 0], table[groups, 1] = groups, at
    violated[level, U(groups)] = word
    return groups


@compiled(u8(i4))
def _word(bit):
    return NONE if bit == NO_PLAYER else ONE << U(bit)


@compiled(types.void(i8, i8, i8, u8, u8, array_of(i4, 2), i4, u1, array_of(u1, 2), _SIDE))
def _descend(side, s, level, bit, again, nodes, size, left, sets, state):
    """Move the members of a side from node s to one of its children, at `level`.

    `bit` is the node's player, or 0 if its column belongs to none; `again` is the same bit if a node above compares the
    player already. Two loops over the members, so that neither has a branch that depends on them.
    """
    codes, ids, group, violated, matched, count, to, table = state
    level = U(level)
    up, f, cut, rule = level - ONE, U(nodes[s, FEATURE]), nodes[s, CUT], nodes[s, RULE]
    members, before = U(count[up, MEMBERS]), U(count[up, GROUPS])
    for place in range(TWO * before):
        to[place] = DROPPED
    irrelevant = side == DONORS and bit == NONE  # a column of no player always has the row's value
    for q in range(members):
        code = codes[f, U(ids[up, q])]
        goes = code < cut if rule == PLAIN else goes_left(code, cut, rule, size, sets)
        place = TWO * U(group[up, q]) + U(goes != left and not irrelevant)
        group[level, q], to[place] = place, NEW
    groups = i4(0)
    for place in range(TWO * before):
        word, violates = violated[up, place >> ONE], place & ONE
        if to[place] == DROPPED or not matched[up, place >> ONE] or (violates and bit == NONE):
            to[place] = DROPPED
            continue
        word = word | bit if violates else word
        if word & again == NONE:  # no other group has the same players
            to[place], violated[level, U(groups)] = groups, word
        else:
            to[place] = _group_of(word, level, groups, violated, table)
        groups = max(groups, to[place] + i4(1))
    kept = NONE
    for q in range(members):
        h = to[U(group[level, q])]
        ids[level, kept], group[level, kept] = ids[up, q], h
        kept += U(h != DROPPED)
    count[level, MEMBERS], count[level, GROUPS] = kept, groups


@compiled(i8(i8, u8, _SIDE, _SIDE, array_of(u8)))
def _match(level, bit, mine, others, candidates):
    """Mark the groups of a side that are disjoint from a group of the other side; returns how many there are.

    `bit` is the player of the node above. A group that doesn't violate this player is as disjoint from others as it was
    there. Any other can be disjoint only from groups that don't violate it either: the `candidates`.
    """
    violated, matched, count, level = mine[3], mine[4], mine[5], U(level)
    theirs, their_count, n_candidates, n_matched = others[3], others[5], NONE, 0
    for h in range(U(their_count[level, GROUPS])):
        candidates[n_candidates] = theirs[level, h]
        n_candidates += U(theirs[level, h] & bit == NONE)
    for g in range(U(count[level, GROUPS])):
        word, start = violated[level, g], NONE
        disjoint = word & bit == NONE
        while not disjoint and start < n_candidates:
            end = min(start + COMPARED, n_candidates)
            for h in range(start, end):  # without early exit, so that several are compared at once
                disjoint |= word & candidates[h] == NONE
            start = end
        matched[level, g] = disjoint
        n_matched += disjoint
    return n_matched


@compiled(types.void(i8, i8, array_of(f8), _SIDE, array_of(u8, 2), array_of(f8)))
def _weigh(level, players, weight, donors, violating, mass):
    """Weigh the groups of donors at a leaf, and list for each player the groups that violate it: as bits of words."""
    _, ids, group, violated, _, count, _, _ = donors
    level = U(level)
    groups = U(count[level, GROUPS])
    for w in range((groups + U(63)) >> U(6)):
        for b in range(U(players)):
            violating[w, b] = NONE
    for h in range(groups):
        word, mass[h] = violated[level, h], 0.0
        while word != NONE:
            violating[h >> U(6), U(trailing_zeros(word))] |= ONE << (h & U(63))
            word &= word - ONE
    for q in range(U(count[level, MEMBERS])):
        mass[U(group[level, q])] += weight[U(ids[level, q])]


@compiled(types.void(i8, i8, array_of(f8, 2), _SIDE, _SIDE, array_of(u8, 2), array_of(f8), array_of(f8, 2)))
def _compare(level, players, share, rows, donors, violating, mass, part):
    """The shares of the path's players in a leaf's value, for each group of rows that is disjoint from some donors."""
    violated, matched, count, theirs, level = rows[3], rows[4], rows[5], donors[3], U(level)
    groups = U(donors[5][level, GROUPS])
    for g in range(U(count[level, GROUPS])):
        for b in range(U(players)):
            part[g, b] = 0.0
        mine, disjoint_any, lost = violated[level, g], NONE, 0.0
        size = U(count_bits(mine))
        for w in range((groups + U(63)) >> U(6)):
            disjoint, rest = ~NONE >> (U(64) - min(groups - (w << U(6)), U(64))), mine
            while rest != NONE:
                disjoint &= ~violating[w, U(trailing_zeros(rest))]
                rest &= rest - ONE
            disjoint_any |= disjoint
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
        matched[level, g] = disjoint_any != NONE


@compiled(types.void(i8, i8, i8, i8, array_of(i4), array_of(f8, 2), array_of(f8, 2), _SIDE, array_of(f8, 3)))
def _add_effects(level, players, leaf, out, path_players, value, part, rows, effects):
    """Add a leaf's value to the effects of its rows."""
    _, ids, group, _, matched, count, _, _ = rows
    level, players, leaf, out, width = U(level), U(players), U(leaf), U(out), U(value.shape[1])
    if width == ONE:  # the usual case
        for g in range(U(count[level, GROUPS])):
            for b in range(players):
                part[g, b] *= value[leaf, NONE]
    for q in range(U(count[level, MEMBERS])):
        i, g = U(ids[level, q]), U(group[level, q])
        if not matched[level, g]:
            continue
        if width == ONE:
            for b in range(players):
                effects[i, U(path_players[b]), out] += part[g, b]
            continue
        for b in range(players):
            for w in range(width):
                effects[i, U(path_players[b]), out + w] += part[g, b] * value[leaf, w]


@compiled(
    i8(
        i8, i8, i8, i8, array_of(i4, 2), array_of(i4, 2), array_of(i4), array_of(i4), array_of(u1, 2), array_of(f8, 2),
        array_of(f8), array_of(f8, 2), _SIDE, _SIDE, array_of(i4), array_of(i4), array_of(u8), array_of(u8, 2),
        array_of(f8), array_of(f8, 2), array_of(f8, 3),
    )
)  # fmt: skip
def walk(
    s, end, work, out, nodes, info, player_of, size, sets, value, weight, share, rows, donors, path, path_players,
    candidates, violating, mass, part, effects,
):  # fmt: skip
    """Add the effects of a tree from node s on, until it ends or `work` is used up; returns the node to continue at.

    At level 0 each side is one group of all its members. `path` and `path_players`, the nodes and players above, are
    kept for the next call, as the sides are.
    """
    in_rows, in_donors = rows[5], donors[5]
    while s < end and work > 0:
        level, f, bit = info[s, LEVEL], nodes[s, FEATURE], NONE
        if level > 0:
            a = path[level - 1]
            left, compared_size, bit = u1(s == a + 1), size[nodes[a, FEATURE]], _word(info[a, BIT])
            again = bit if info[a, BIT] < info[a, ABOVE] else NONE
            _descend(ROWS, a, level, bit, again, nodes, compared_size, left, sets, rows)
            _descend(DONORS, a, level, bit, again, nodes, compared_size, left, sets, donors)
        work -= in_rows[level, MEMBERS] + in_donors[level, MEMBERS]
        work -= i8(in_rows[level, GROUPS]) * in_donors[level, GROUPS]
        if f < 0:
            _weigh(level, info[s, ABOVE], weight, donors, violating, mass)
            _compare(level, info[s, ABOVE], share, rows, donors, violating, mass, part)
            _add_effects(level, info[s, ABOVE], nodes[s, RIGHT], out, path_players, value, part, rows, effects)
        elif _match(level, bit, rows, donors, candidates) == 0 or _match(level, bit, donors, rows, candidates) == 0:
            s = info[s, STOP]
            continue
        else:
            path[level] = s
            if info[s, BIT] != NO_PLAYER:
                path_players[info[s, BIT]] = player_of[f]
        s += 1
    return s
