"""The compiled search of large trees: rows are passed down a tree together.

Each node divides the rows that come to it. A row on its own path goes its own way and leaves a *stray* on the other
side: itself with the node's feature free, for the classes that lead there. A stray goes its own way too, and both ways
where a node asks for its free feature. Whoever arrives at a leaf is noted. No row waits for another, and there is
hardly a branch to foresee, so the processor is never stopped.

Places in arrays are unsigned throughout: numba checks every signed one for being negative, which takes half the time.


Ensembles with large trees: curves by passing rows down."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil
from typing import Any

import numpy as np
from numba import types
from numpy.typing import NDArray

from losslens.engines.compiled import compiled, trailing_zeros
from losslens.engines.trees.bound import STEPS, BoundEnsemble, RawSteps
from losslens.engines.trees.node_rules import (
    CUT,
    FEATURE,
    FIRST,
    HIGH,
    LOW,
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

HALF, LOW_HALF = np.uint64(32), np.uint64(0xFFFFFFFF)  # two numbers in a word
FULL = -1  # what a search says where it needs more room


@compiled(
    types.void(
        u8, array_of(i4, 2), array_of(i4, 2), array_of(u1), array_of(u8), array_of(i4), u8, u8, u8, u8, array_of(u8),
    )
)  # fmt: skip
def divide(s, nodes, codes, wanted, strays, on_path, p0, p1, q0, q1, ends):
    """Divide the rows p0 .. p1 and the strays q0 .. q1 at a node that cuts the classes in two.

    Those who go left are written behind all others; those who go right stay, moved together. `ends`: where the rows
    on the left and on the right end, and the strays; those on the left begin behind q1 and room for new ones.
    """
    f, cut, low, high = nodes[s, FEATURE], nodes[s, CUT], nodes[s, LOW], nodes[s, HIGH]
    free, edge, column = U(f), U(cut), codes[f]
    left_path, right_path, left, right = p1, p0, ends[2], q0
    for q in range(q0, q1):
        who, span = strays[TWO * q], strays[TWO * q + ONE]
        if who & LOW_HALF == free:  # its own feature: it may go both ways
            start, stop = span >> HALF, span & LOW_HALF
            strays[TWO * left], strays[TWO * left + ONE] = who, start << HALF | min(stop, edge)
            left += U(start < edge)
            strays[TWO * right], strays[TWO * right + ONE] = who, max(start, edge) << HALF | stop
            right += U(edge < stop)
            continue
        goes = U(column[who >> HALF] < cut)
        strays[TWO * left], strays[TWO * left + ONE] = who, span
        left += goes
        strays[TWO * right], strays[TWO * right + ONE] = who, span
        right += ONE - goes
    stray_left, stray_right = U(wanted[f] != 0 and low < cut), U(wanted[f] != 0 and cut < high)
    span_left, span_right = U(low) << HALF | U(min(cut, high)), U(max(cut, low)) << HALF | U(high)
    for q in range(p0, p1):
        row = on_path[q]
        who, goes = U(row) << HALF | free, U(column[U(row)] < cut)
        on_path[left_path] = row
        left_path += goes
        on_path[right_path] = row
        right_path += ONE - goes
        strays[TWO * left], strays[TWO * left + ONE] = who, span_left
        left += stray_left & (ONE - goes)
        strays[TWO * right], strays[TWO * right + ONE] = who, span_right
        right += stray_right & goes
    ends[0], ends[1], ends[2], ends[3] = left_path, right_path, left, right


@compiled(
    types.void(
        u8, array_of(i4, 2), array_of(i4, 2), array_of(i4), array_of(i4), array_of(u1), array_of(u1, 2), array_of(u8),
        array_of(i4), u8, u8, u8, u8, array_of(u8),
    )
)  # fmt: skip
def divide_specially(s, nodes, codes, size, special, wanted, sets, strays, on_path, p0, p1, q0, q1, ends):
    """The same where the feature has classes that are looked at one by one: a stray may hold for one of these."""
    f, cut, rule, low, high = nodes[s, FEATURE], nodes[s, CUT], nodes[s, RULE], nodes[s, LOW], nodes[s, HIGH]
    free, edge, column = U(f), U(cut), codes[f]
    left_path, right_path, left, right = p1, p0, ends[2], q0
    for q in range(q0, q1):
        who, span = strays[TWO * q], strays[TWO * q + ONE]
        start, stop, mine = span >> HALF, span & LOW_HALF, who & LOW_HALF == free
        if mine and start < U(special[f]):
            strays[TWO * left], strays[TWO * left + ONE] = who, start << HALF | min(stop, edge)
            left += U(start < edge)
            strays[TWO * right], strays[TWO * right + ONE] = who, max(start, edge) << HALF | stop
            right += U(edge < stop)
            continue
        code = i4(start) if mine else column[who >> HALF]
        place = left if goes_left(code, cut, rule, size[f], sets) else right
        strays[TWO * place], strays[TWO * place + ONE] = who, span
        left, right = left + U(place == left), right + U(place == right)
    singles = size[f] - special[f] if nodes[s, FIRST] and wanted[f] else 0
    for q in range(p0, p1):
        row = on_path[q]
        who, code = U(row) << HALF | free, column[U(row)]
        if goes_left(code, cut, rule, size[f], sets):
            on_path[left_path] = row
            left_path += ONE
            strays[TWO * right], strays[TWO * right + ONE] = who, U(max(cut, low)) << HALF | U(high)
            right += U(wanted[f] != 0 and cut < high)
        else:
            on_path[right_path] = row
            right_path += ONE
            strays[TWO * left], strays[TWO * left + ONE] = who, U(low) << HALF | U(min(cut, high))
            left += U(wanted[f] != 0 and low < cut)
        for c in range(size[f] - singles, size[f]):
            if c == code:
                continue
            place = left if goes_left(c, cut, rule, size[f], sets) else right
            strays[TWO * place], strays[TWO * place + ONE] = who, U(c) << HALF | U(c + 1)
            left, right = left + U(place == left), right + U(place == right)
    ends[0], ends[1], ends[2], ends[3] = left_path, right_path, left, right


@compiled(
    i8(
        i4, array_of(i4, 2), array_of(i4, 2), array_of(i4), array_of(i4), array_of(u1), array_of(u1, 2),
        array_of(u8), array_of(i4), array_of(u8, 2), array_of(u8), array_of(i4), array_of(i4), array_of(u8),
    )
)  # fmt: skip
def pass_down(root, nodes, codes, size, special, wanted, sets, strays, on_path, jobs, found, at_leaf, own, ends):
    """Who arrives where: the own leaf of each row, and the strays at each other leaf; how many, or FULL.

    A stray is two words: its row and free feature, and the classes from and to for which it holds.
    """
    for i in range(codes.shape[1]):
        on_path[i] = i
    jobs[0, 0], jobs[0, 1], jobs[0, 2], jobs[0, 3], jobs[0, 4] = root, 0, codes.shape[1], 0, 0
    waiting, arrived = 1, U(0)
    while waiting > 0:
        waiting -= 1
        s, p0, p1, q0, q1 = jobs[waiting, 0], jobs[waiting, 1], jobs[waiting, 2], jobs[waiting, 3], jobs[waiting, 4]
        while nodes[s, FEATURE] >= 0 and (p1 > p0 or q1 > q0):
            f = nodes[s, FEATURE]
            plain = nodes[s, RULE] == PLAIN and special[f] == size[f]
            singles = size[f] - special[f] if nodes[s, FIRST] and wanted[f] else 0
            new = (p1 - p0) * U(1 + singles)  # strays at most, on either side
            if TWO * (q1 + TWO * new + q1 - q0 + ONE) > U(len(strays)) or TWO * p1 - p0 >= U(len(on_path)):
                return FULL
            ends[2] = q1 + new
            if plain:
                divide(s, nodes, codes, wanted, strays, on_path, p0, p1, q0, q1, ends)
            else:
                divide_specially(s, nodes, codes, size, special, wanted, sets, strays, on_path, p0, p1, q0, q1, ends)
            jobs[waiting, 0], jobs[waiting, 1], jobs[waiting, 2] = U(nodes[s, RIGHT]), p0, ends[1]
            jobs[waiting, 3], jobs[waiting, 4] = q0, ends[3]
            waiting += 1
            s, p0, p1, q0, q1 = s + ONE, p1, ends[0], q1 + new, ends[2]
        if nodes[s, FEATURE] >= 0:
            continue
        if arrived + q1 - q0 > U(len(at_leaf)):
            return FULL
        leaf = nodes[s, RIGHT]
        for q in range(p0, p1):
            own[on_path[q]] = leaf
        for q in range(q0, q1):
            found[TWO * arrived], found[TWO * arrived + ONE] = strays[TWO * q], strays[TWO * q + ONE]
            at_leaf[arrived] = leaf
            arrived += ONE
    return i8(arrived)


@compiled(
    i8(array_of(u8), array_of(i4), i8, i8, array_of(i4), array_of(i4), i8, array_of(i8, 2), array_of(i8), array_of(i4))
)  # fmt: skip
def sort_strays(found, at_leaf, arrived, s, own, slot, features, value, events, begins):
    """Write the strays of one tree by row and wanted feature, whose number is its `slot`, behind place `s`; or FULL.

    An event is 1 + width numbers: the classes from and to, and the gain there.
    """
    width, p = U(value.shape[1]), U(features)
    long = width + ONE
    if U(s + arrived) * long > U(len(events)):
        return FULL
    for k in range(U(len(begins))):
        begins[k] = 0
    for q in range(U(arrived)):
        begins[(found[TWO * q] >> HALF) * p + U(slot[found[TWO * q] & LOW_HALF])] += 1
    stop = s
    for k in range(U(len(begins))):  # where each one ends; writing from there backwards leaves where it begins
        stop += begins[k]
        begins[k] = stop
    for q in range(U(arrived)):
        row, leaf = found[TWO * q] >> HALF, U(at_leaf[q])
        k = row * p + U(slot[found[TWO * q] & LOW_HALF])
        at = begins[k] - 1
        begins[k] = at
        place, mine = U(at) * long, U(own[row])
        events[place] = i8(found[TWO * q + ONE])
        for w in range(width):
            events[place + ONE + w] = value[leaf, w] - value[mine, w]
    return s + arrived


@compiled(
    i8(
        i8, array_of(i4, 2), array_of(i8), array_of(i4, 2), array_of(i8, 2), array_of(i4), array_of(i4), array_of(u1),
        array_of(i8), array_of(u8), array_of(i4), array_of(i8, 2), i8, array_of(i8, 2), array_of(i8, 2),
    )
)  # fmt: skip
def emit_row(row, begins, events, own, value, output, size, wanted, diff, mark, classes, raw, s, start, total):
    """The steps of one row's curves, written from place `s` on, and its own sum of leaves.

    Gains go into the difference array, marks say where; both are left empty again.
    """
    i, outputs, width, p, trees = U(row), U(raw.shape[1]), U(value.shape[1]), U(start.shape[1] - 1), U(len(output))
    long, s, number = width + ONE, U(s), U(0)
    for w in range(outputs):
        total[i, w] = 0
    for t in range(trees):
        for w in range(width):
            total[i, U(output[t]) + w] += value[U(own[t, i]), w]
    for f in range(U(len(size))):
        if wanted[f] == 0:
            continue
        for t in range(trees):
            out = U(output[t])
            for q in range(U(begins[t, i * p + number]), U(begins[t, i * p + number + ONE])):
                span = U(events[q * long])
                a, z = span >> HALF, span & LOW_HALF
                mark[a >> U(6)] |= ONE << (a & U(63))
                mark[z >> U(6)] |= ONE << (z & U(63))
                if outputs == ONE:  # the usual case
                    diff[a] += events[TWO * q + ONE]
                    diff[z] -= events[TWO * q + ONE]
                    continue
                for w in range(width):
                    gain = events[q * long + ONE + w]
                    diff[a * outputs + out + w] += gain
                    diff[z * outputs + out + w] -= gain
        start[i, number] = s
        number += ONE
        classes[s] = 0
        for w in range(outputs):
            raw[s, w] = total[i, w] + diff[w]
            diff[w] = 0
        mark[U(0)] &= ~ONE
        s += ONE
        for place in range(U((size[f] >> 6) + 1)):
            word = mark[place]
            mark[place] = U(0)
            while word != 0:
                at = (place << U(6)) + U(trailing_zeros(word))
                word &= word - ONE
                if outputs == ONE:
                    step = diff[at]
                    diff[at] = 0
                    raw[s, 0] = raw[s - ONE, 0] + step
                    classes[s] = at
                    s += U(step != 0 and at < U(size[f]))
                    continue
                moved = np.int64(0)
                for w in range(outputs):
                    step = diff[at * outputs + w]
                    diff[at * outputs + w] = 0
                    moved |= step
                    raw[s, w] = raw[s - ONE, w] + step
                classes[s] = at
                s += U(moved != 0 and at < U(size[f]))
    start[i, number] = s
    return i8(s)


MOST_ROWS = 2048  # passed down together, before their gains are summed
EVENTS = 48  # gains of a row in a tree that there is room for; more where that is too little


class LargeTrees:
    """Curves by passing rows down. It keeps arrays that are used again: one for each thread."""

    def __init__(self, bound: BoundEnsemble, wanted: NDArray[np.uint8], room: int) -> None:
        self.bound, self.wanted = bound, wanted
        self.features = int(wanted.sum())
        self.slot = np.cumsum(wanted, dtype=np.int32) - 1
        each = EVENTS * 8 * (1 + bound.value.shape[1]) + 4 * self.features  # bytes of a row in a tree
        self.rows = rows = int(np.clip(room // (each * len(bound.roots)), 16, MOST_ROWS))
        self.strays = np.empty(128 * rows, np.uint64)
        self.found, self.at_leaf = np.empty(128 * rows, np.uint64), np.empty(64 * rows, np.int32)
        self.events = np.empty(EVENTS * rows * len(bound.roots) * (1 + bound.value.shape[1]), np.int64)
        self.on_path = np.empty((bound.depth + 3) * rows, np.int32)
        self.jobs, self.ends = np.empty((bound.depth + 2, 5), np.uint64), np.empty(4, np.uint64)

    def steps(self, start: int, stop: int) -> Iterator[RawSteps]:
        """The curves of rows start .. stop, some rows at a time; the arrays are used again for the next ones."""
        bound, wanted = self.bound, self.wanted
        outputs, largest = bound.ensemble.outputs, int(bound.size.max())
        diff, mark = np.zeros((largest + 1) * outputs, np.int64), np.zeros((largest >> 6) + 1, np.uint64)
        most = int(bound.size[wanted > 0].sum()) + 2 * len(wanted)  # steps of one row
        classes, raw = np.empty(most + STEPS, np.int32), np.empty((most + STEPS, outputs), np.int64)
        begins, total = np.empty((self.rows, int(wanted.sum()) + 1), np.int64), np.empty((self.rows, outputs), np.int64)
        block = ceil((stop - start) / ceil((stop - start) / self.rows))  # all about as long
        for at in range(start, stop, block):
            codes = np.ascontiguousarray(bound.codes[:, at : min(at + block, stop)])
            own, sorted_at = self._gains(codes)
            first = s = 0
            for i in range(codes.shape[1]):
                s = emit_row(
                    i, sorted_at, self.events, own, bound.value, bound.output, bound.size, wanted, diff, mark,
                    classes, raw, s, begins, total,
                )  # fmt: skip
                if s > STEPS or i == codes.shape[1] - 1:
                    some = slice(first, i + 1)
                    yield RawSteps(slice(at + first, at + i + 1), begins[some], classes[:s], raw[:s], total[some])
                    first, s = i + 1, 0

    def _gains(self, codes: NDArray[np.int32]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """The own leaves of a block of rows, and where the gains of each row and feature begin, tree by tree."""
        bound, p, b = self.bound, self.features, codes.shape[1]
        trees = len(bound.roots)
        own, begins = np.empty((trees, b), np.int32), np.empty((trees, b * p + 1), np.int32)
        s = 0
        for t in range(trees):
            while (arrived := self._pass_down(t, codes, own[t])) == FULL:
                self.strays, self.found = _doubled(self.strays, 0), _doubled(self.found, 0)
                self.at_leaf = _doubled(self.at_leaf, 0)
            while (end := self._sort(t, arrived, s, own[t], begins[t])) == FULL:
                self.events = _doubled(self.events, s * (1 + bound.value.shape[1]))
            s = end
        return own, begins

    def _pass_down(self, t: int, codes: NDArray[np.int32], own: NDArray[np.int32]) -> int:
        bound = self.bound
        return int(
            pass_down(
                bound.roots[t], bound.nodes, codes, bound.size, bound.special, self.wanted, bound.sets, self.strays,
                self.on_path, self.jobs, self.found, self.at_leaf, own, self.ends,
            )
        )  # fmt: skip

    def _sort(self, t: int, arrived: int, s: int, own: NDArray[np.int32], begins: NDArray[np.int32]) -> int:
        return int(
            sort_strays(
                self.found,
                self.at_leaf,
                arrived,
                s,
                own,
                self.slot,
                self.features,
                self.bound.value,
                self.events,
                begins,
            )
        )


def _doubled(array: NDArray[Any], kept: int) -> NDArray[Any]:
    """Twice the room, with the first entries kept."""
    larger = np.empty((2 * len(array), *array.shape[1:]), array.dtype)
    larger[:kept] = array[:kept]
    return larger
