"""Kernels for Shapley values of predictions at leaves of too many players for a table: see `effect_kernels`."""

from __future__ import annotations

from numba import types

from losslens.engines.compiled import array_of, compiled
from losslens.engines.intrinsics import count_bits, trailing_zeros
from losslens.engines.trees.effect_kernels import ABOVE, BIT, NO_PLAYER, NONE, PARENT, TREES, f8
from losslens.engines.trees.node_rules import CUT, FEATURE, ONE, RULE, U, goes_left, i4, i8, u1, u8

WORD = 64  # bits


@compiled(types.void(i8, u1, u8, array_of(i4, 2), TREES, array_of(u8, 2)))
def find_patterns(s, own, start, codes, trees, patterns):
    """Patterns of rows or donors from `start` on, at any leaf s, as words; a row's last bit is that of no player."""
    nodes, info, size, sets = trees
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


@compiled(types.void(array_of(u8, 2), array_of(u8, 2), array_of(f8, 2), array_of(f8, 2), array_of(f8, 3)))
def compare(rows, donors, mass, share, part):
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
