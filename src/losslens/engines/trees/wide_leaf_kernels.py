"""Kernels for Shapley values of predictions at leaves of too many players for a table: see `effect_kernels`."""

from __future__ import annotations

from numba import types

from losslens.engines.compiled import compiled
from losslens.engines.intrinsics import count_bits, trailing_zeros
from losslens.engines.trees.effect_kernels import ABOVE, BIT, NO_PLAYER, NONE, PARENT
from losslens.engines.trees.node_rules import CUT, FEATURE, ONE, RULE, TREES, U, f8, goes_left, i4, i8, u1, u8

WORD = 64  # bits


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
