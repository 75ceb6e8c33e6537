"""The compiled search of large trees: rows are passed down a tree together.

Each node divides the rows that come to it. A row on its own path goes its own way and leaves a *stray* on the other
side: itself with the node's feature free, for the classes that lead there. A stray goes its own way too, and both ways
where a node asks for its free feature. Whoever arrives at a leaf is noted. No row waits for another, and there is no
branch to foresee: the processor is never stopped.
"""

from __future__ import annotations

import numpy as np

from losslens.engines.compiled import compiled, trailing_zeros
from losslens.engines.trees.rules import (
    CUT,
    FEATURE,
    FIRST,
    HIGH,
    LOW,
    ONE,
    PLAIN,
    RIGHT,
    RULE,
    array_of,
    goes_left,
    i4,
    i8,
    u1,
    u8,
)  # fmt: skip

LOW_WORD = 0xFFFFFFFF
FULL = -1  # what a search says where it needs more room


@compiled(
    i8(
        i4, array_of(i4, 2), array_of(i4, 2), array_of(i4), array_of(i4), array_of(u1), array_of(u1, 2),
        array_of(i8, 2), array_of(i4), array_of(i8, 2), array_of(i8, 2), array_of(i4), array_of(i4),
    )
)  # fmt: skip
def pass_down(root, nodes, codes, size, special, wanted, sets, strays, on_path, jobs, found, at_leaf, own):
    """Who arrives where: the own leaf of each row, and the strays at each other leaf; how many, or FULL.

    A stray is two words: row and free feature, and the classes from and to for which it holds.
    """
    for i in range(codes.shape[1]):
        on_path[i] = i
    jobs[0, 0], jobs[0, 1], jobs[0, 2], jobs[0, 3], jobs[0, 4] = root, 0, codes.shape[1], 0, 0
    waiting, arrived = 1, 0
    while waiting > 0:
        waiting -= 1
        s, p0, p1, q0, q1 = jobs[waiting, 0], jobs[waiting, 1], jobs[waiting, 2], jobs[waiting, 3], jobs[waiting, 4]
        while nodes[s, FEATURE] >= 0 and (p1 > p0 or q1 > q0):
            f, cut, rule, low, high = nodes[s, FEATURE], nodes[s, CUT], nodes[s, RULE], nodes[s, LOW], nodes[s, HIGH]
            plain = rule == PLAIN and special[f] == size[f]
            singles = size[f] - special[f] if nodes[s, FIRST] and wanted[f] else 0
            new = (p1 - p0) * (1 + singles)  # strays at most, on either side
            if q1 + 2 * new + q1 - q0 > len(strays) or 2 * p1 - p0 > len(on_path):
                return FULL
            # Those who go left are written behind all others; those who go right stay, moved together.
            left_path, right_path, left, right = p1, p0, q1 + new, q0
            for q in range(q0, q1):
                who, span = strays[q, 0], strays[q, 1]
                code = codes[f, who >> 32]
                if who & LOW_WORD == f:
                    start, stop = span >> 32, span & LOW_WORD
                    if start < special[f]:  # an interval of classes, that may go both ways
                        strays[left, 0], strays[left, 1] = who, start << 32 | min(stop, cut)
                        left += start < cut
                        strays[right, 0], strays[right, 1] = who, max(start, cut) << 32 | stop
                        right += cut < stop
                        continue
                    code = start
                goes = code < cut
                if not plain:
                    goes = goes_left(code, cut, rule, size[f], sets)
                strays[left, 0], strays[left, 1] = who, span
                left += goes
                strays[right, 0], strays[right, 1] = who, span
                right += not goes
            strays_left = wanted[f] != 0 and low < cut
            strays_right = wanted[f] != 0 and cut < high
            span_left, span_right = low << 32 | min(cut, high), max(cut, low) << 32 | high
            for q in range(p0, p1):
                row = on_path[q]
                who, code = np.int64(row) << 32 | f, codes[f, row]
                goes = code < cut if plain else goes_left(code, cut, rule, size[f], sets)
                on_path[left_path] = row
                left_path += goes
                on_path[right_path] = row
                right_path += not goes
                strays[left, 0], strays[left, 1] = who, span_left
                left += strays_left and not goes
                strays[right, 0], strays[right, 1] = who, span_right
                right += strays_right and goes
                for c in range(size[f] - singles, size[f]):
                    side = goes_left(c, cut, rule, size[f], sets)
                    strays[left, 0], strays[left, 1] = who, c << 32 | c + 1
                    left += c != code and side
                    strays[right, 0], strays[right, 1] = who, c << 32 | c + 1
                    right += c != code and not side
            jobs[waiting, 0], jobs[waiting, 1], jobs[waiting, 2] = nodes[s, RIGHT], p0, right_path
            jobs[waiting, 3], jobs[waiting, 4] = q0, right
            waiting += 1
            s, p0, p1, q0, q1 = s + 1, p1, left_path, q1 + new, left
        if nodes[s, FEATURE] >= 0:
            continue
        if arrived + q1 - q0 > len(found):
            return FULL
        leaf = nodes[s, RIGHT]
        for q in range(p0, p1):
            own[on_path[q]] = leaf
        for q in range(q0, q1):
            found[arrived, 0], found[arrived, 1], at_leaf[arrived] = strays[q, 0], strays[q, 1], leaf
            arrived += 1
    return arrived


@compiled(
    i8(
        array_of(i8, 2), array_of(i4), i8, i8, array_of(i4), i8, array_of(i8, 2), array_of(i8, 2), array_of(i4),
    )
)  # fmt: skip
def sort_strays(found, at_leaf, arrived, s, own, features, value, events, begins):
    """Write the strays of one tree by row and feature behind place `s`: their classes, and the gain there; or FULL."""
    width = value.shape[1]
    if s + arrived > len(events):
        return FULL
    for k in range(len(begins)):
        begins[k] = 0
    for q in range(arrived):
        begins[(found[q, 0] >> 32) * features + (found[q, 0] & LOW_WORD)] += 1
    stop = s
    for k in range(len(begins)):  # where each one ends; writing from there backwards leaves where it begins
        stop += begins[k]
        begins[k] = stop
    for q in range(arrived):
        row, leaf = found[q, 0] >> 32, at_leaf[q]
        k = row * features + (found[q, 0] & LOW_WORD)
        at = begins[k] - 1
        begins[k] = at
        events[at, 0] = found[q, 1]
        for w in range(width):
            events[at, 1 + w] = value[leaf, w] - value[own[row], w]
    return s + arrived


@compiled(
    i8(
        i8, array_of(i4, 2), array_of(i8, 2), array_of(i4, 2), array_of(i8, 2), array_of(i4), array_of(i4),
        array_of(u1), array_of(i8, 2), array_of(u8), array_of(i4), array_of(i8, 2), i8, array_of(i8, 2),
        array_of(i8, 2),
    )
)  # fmt: skip
def emit_row(i, begins, events, own, value, output, size, wanted, diff, mark, classes, raw, s, start, total):
    """The steps of one row's curves, written from place `s` on, and its own sum of leaves.

    Gains go into the difference array, marks say where; both are left empty again.
    """
    outputs, width, features = raw.shape[1], value.shape[1], len(size)
    for w in range(outputs):
        total[i, w] = 0
    for t in range(len(output)):
        for w in range(width):
            total[i, output[t] + w] += value[own[t, i], w]
    number = 0
    for f in range(features):
        if wanted[f] == 0:
            continue
        for t in range(len(output)):
            out = output[t]
            for q in range(begins[t, i * features + f], begins[t, i * features + f + 1]):
                a, z = events[q, 0] >> 32, events[q, 0] & LOW_WORD
                mark[a >> 6] |= ONE << np.uint64(a & 63)
                mark[z >> 6] |= ONE << np.uint64(z & 63)
                for w in range(width):
                    diff[a, out + w] += events[q, 1 + w]
                    diff[z, out + w] -= events[q, 1 + w]
        start[i, number] = s
        number += 1
        classes[s] = 0
        for w in range(outputs):
            raw[s, w] = total[i, w] + diff[0, w]
            diff[0, w] = 0
        mark[0] &= ~ONE
        s += 1
        for place in range((size[f] >> 6) + 1):
            word = mark[place]
            mark[place] = np.uint64(0)
            while word != 0:
                at = (place << 6) + trailing_zeros(word)
                word &= word - ONE
                moved = np.int64(0)
                for w in range(outputs):
                    step = diff[at, w]
                    diff[at, w] = 0
                    moved |= step
                    raw[s, w] = raw[s - 1, w] + step
                classes[s] = at
                s += moved != 0 and at < size[f]
    start[i, number] = s
    return s
