"""Curves of ensembles with trees of more than 64 leaves: many rows are passed down a tree together.

Each node divides the rows that reach it. A row on its own path goes to one side and sends an *off-path copy* to the
other: itself with the node's feature free, for the classes that lead there. A copy goes to the side of its row's value,
and to both sides where a node compares its free feature. At the leaves arriving rows and copies are recorded. No row
waits for another, and hardly a branch has to be predicted, so the processor never stalls.

Indices of arrays are unsigned throughout: numba tests every signed one for being negative, which takes half the time.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil
from typing import Any

import numpy as np
from numba import types
from numpy.typing import NDArray

from losslens.engines.compiled import compiled, trailing_zeros
from losslens.engines.trees.bound import STEPS_PER_YIELD, BoundEnsemble, RawSteps
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
FULL = -1  # returned by a kernel whose buffers are too small


@compiled(
    types.void(
        u8, array_of(i4, 2), array_of(i4, 2), array_of(u1), array_of(u8), array_of(i4), u8, u8, u8, u8, array_of(u8),
    )
)  # fmt: skip
def divide(s, nodes, codes, wanted, copies, on_path, p0, p1, q0, q1, ends):
    """Divide the rows p0 .. p1 and the copies q0 .. q1 at a node that cuts ordered classes in two.

    Those that go left are appended after all others; those that go right stay in place, compacted. `ends`: ends of the
    rows on the left and on the right, then of the copies; copies on the left start after q1 and space for new ones.
    """
    f, cut, low, high = nodes[s, FEATURE], nodes[s, CUT], nodes[s, LOW], nodes[s, HIGH]
    free, edge, column = U(f), U(cut), codes[f]
    left_path, right_path, left, right = p1, p0, ends[2], q0
    for q in range(q0, q1):
        key, span = copies[TWO * q], copies[TWO * q + ONE]
        if key & LOW_HALF == free:  # its free feature: it may go to both sides
            start, stop = span >> HALF, span & LOW_HALF
            copies[TWO * left], copies[TWO * left + ONE] = key, start << HALF | min(stop, edge)
            left += U(start < edge)
            copies[TWO * right], copies[TWO * right + ONE] = key, max(start, edge) << HALF | stop
            right += U(edge < stop)
            continue
        goes = U(column[key >> HALF] < cut)
        copies[TWO * left], copies[TWO * left + ONE] = key, span
        left += goes
        copies[TWO * right], copies[TWO * right + ONE] = key, span
        right += ONE - goes
    copy_left, copy_right = U(wanted[f] != 0 and low < cut), U(wanted[f] != 0 and cut < high)
    span_left, span_right = U(low) << HALF | U(min(cut, high)), U(max(cut, low)) << HALF | U(high)
    for q in range(p0, p1):
        row = on_path[q]
        key, goes = U(row) << HALF | free, U(column[U(row)] < cut)
        on_path[left_path] = row
        left_path += goes
        on_path[right_path] = row
        right_path += ONE - goes
        copies[TWO * left], copies[TWO * left + ONE] = key, span_left
        left += copy_left & (ONE - goes)
        copies[TWO * right], copies[TWO * right + ONE] = key, span_right
        right += copy_right & goes
    ends[0], ends[1], ends[2], ends[3] = left_path, right_path, left, right


@compiled(
    types.void(
        u8, array_of(i4, 2), array_of(i4, 2), array_of(i4), array_of(i4), array_of(u1), array_of(u1, 2), array_of(u8),
        array_of(i4), u8, u8, u8, u8, array_of(u8),
    )
)  # fmt: skip
def divide_special(s, nodes, codes, size, special, wanted, sets, copies, on_path, p0, p1, q0, q1, ends):
    """As `divide`, for a feature with classes that have no order: a copy may be for a single one of these."""
    f, cut, rule, low, high = nodes[s, FEATURE], nodes[s, CUT], nodes[s, RULE], nodes[s, LOW], nodes[s, HIGH]
    free, edge, column = U(f), U(cut), codes[f]
    left_path, right_path, left, right = p1, p0, ends[2], q0
    for q in range(q0, q1):
        key, span = copies[TWO * q], copies[TWO * q + ONE]
        start, stop, mine = span >> HALF, span & LOW_HALF, key & LOW_HALF == free
        if mine and start < U(special[f]):
            copies[TWO * left], copies[TWO * left + ONE] = key, start << HALF | min(stop, edge)
            left += U(start < edge)
            copies[TWO * right], copies[TWO * right + ONE] = key, max(start, edge) << HALF | stop
            right += U(edge < stop)
            continue
        code = i4(start) if mine else column[key >> HALF]
        place = left if goes_left(code, cut, rule, size[f], sets) else right
        copies[TWO * place], copies[TWO * place + ONE] = key, span
        left, right = left + U(place == left), right + U(place == right)
    singles = size[f] - special[f] if nodes[s, FIRST] and wanted[f] else 0
    for q in range(p0, p1):
        row = on_path[q]
        key, code = U(row) << HALF | free, column[U(row)]
        if goes_left(code, cut, rule, size[f], sets):
            on_path[left_path] = row
            left_path += ONE
            copies[TWO * right], copies[TWO * right + ONE] = key, U(max(cut, low)) << HALF | U(high)
            right += U(wanted[f] != 0 and cut < high)
        else:
            on_path[right_path] = row
            right_path += ONE
            copies[TWO * left], copies[TWO * left + ONE] = key, U(low) << HALF | U(min(cut, high))
            left += U(wanted[f] != 0 and low < cut)
        for c in range(size[f] - singles, size[f]):
            if c == code:
                continue
            place = left if goes_left(c, cut, rule, size[f], sets) else right
            copies[TWO * place], copies[TWO * place + ONE] = key, U(c) << HALF | U(c + 1)
            left, right = left + U(place == left), right + U(place == right)
    ends[0], ends[1], ends[2], ends[3] = left_path, right_path, left, right


@compiled(
    i8(
        i4, array_of(i4, 2), array_of(i4, 2), array_of(i4), array_of(i4), array_of(u1), array_of(u1, 2),
        array_of(u8), array_of(i4), array_of(u8, 2), array_of(u8), array_of(i4), array_of(i4), array_of(u8),
    )
)  # fmt: skip
def pass_down(root, nodes, codes, size, special, wanted, sets, copies, on_path, jobs, arrivals, at_leaf, own, ends):
    """Record the own leaf of each row, and the copies that arrive at other leaves; returns how many, or FULL.

    A copy is two words: its row and free feature, and the range of classes for which it stands.
    """
    for i in range(codes.shape[1]):
        on_path[i] = i
    jobs[0, 0], jobs[0, 1], jobs[0, 2], jobs[0, 3], jobs[0, 4] = root, 0, codes.shape[1], 0, 0
    waiting, n_arrived = 1, U(0)
    while waiting > 0:
        waiting -= 1
        s, p0, p1, q0, q1 = jobs[waiting, 0], jobs[waiting, 1], jobs[waiting, 2], jobs[waiting, 3], jobs[waiting, 4]
        while nodes[s, FEATURE] >= 0 and (p1 > p0 or q1 > q0):
            f = nodes[s, FEATURE]
            plain = nodes[s, RULE] == PLAIN and special[f] == size[f]
            singles = size[f] - special[f] if nodes[s, FIRST] and wanted[f] else 0
            new = (p1 - p0) * U(1 + singles)  # copies at most, on either side
            if TWO * (q1 + TWO * new + q1 - q0 + ONE) > U(len(copies)) or TWO * p1 - p0 >= U(len(on_path)):
                return FULL
            ends[2] = q1 + new
            if plain:
                divide(s, nodes, codes, wanted, copies, on_path, p0, p1, q0, q1, ends)
            else:
                divide_special(s, nodes, codes, size, special, wanted, sets, copies, on_path, p0, p1, q0, q1, ends)
            jobs[waiting, 0], jobs[waiting, 1], jobs[waiting, 2] = U(nodes[s, RIGHT]), p0, ends[1]
            jobs[waiting, 3], jobs[waiting, 4] = q0, ends[3]
            waiting += 1
            s, p0, p1, q0, q1 = s + ONE, p1, ends[0], q1 + new, ends[2]
        if nodes[s, FEATURE] >= 0:
            continue
        if n_arrived + q1 - q0 > U(len(at_leaf)):
            return FULL
        leaf = nodes[s, RIGHT]
        for q in range(p0, p1):
            own[on_path[q]] = leaf
        for q in range(q0, q1):
            arrivals[TWO * n_arrived], arrivals[TWO * n_arrived + ONE] = copies[TWO * q], copies[TWO * q + ONE]
            at_leaf[n_arrived] = leaf
            n_arrived += ONE
    return i8(n_arrived)


@compiled(
    i8(array_of(u8), array_of(i4), i8, i8, array_of(i4), array_of(i4), i8, array_of(i8, 2), array_of(i8), array_of(i4))
)  # fmt: skip
def sort_copies(arrivals, at_leaf, n_arrived, s, own, slot, features, value, events, begins):
    """Write the gains of one tree from position `s` on, sorted by row and wanted feature (numbered by `slot`); or FULL.

    An event is 1 + width numbers: a range of classes, and the gain there: value of the leaf minus the own leaf's.
    """
    width, p = U(value.shape[1]), U(features)
    long = width + ONE
    if U(s + n_arrived) * long > U(len(events)):
        return FULL
    for k in range(U(len(begins))):
        begins[k] = 0
    for q in range(U(n_arrived)):
        begins[(arrivals[TWO * q] >> HALF) * p + U(slot[arrivals[TWO * q] & LOW_HALF])] += 1
    stop = s
    for k in range(U(len(begins))):  # the end of each run; writing backwards from there leaves its start
        stop += begins[k]
        begins[k] = stop
    for q in range(U(n_arrived)):
        row, leaf = arrivals[TWO * q] >> HALF, U(at_leaf[q])
        k = row * p + U(slot[arrivals[TWO * q] & LOW_HALF])
        at = begins[k] - 1
        begins[k] = at
        place, mine = U(at) * long, U(own[row])
        events[place] = i8(arrivals[TWO * q + ONE])
        for w in range(width):
            events[place + ONE + w] = value[leaf, w] - value[mine, w]
    return s + n_arrived


@compiled(
    i8(
        i8, array_of(i4, 2), array_of(i8), array_of(i4, 2), array_of(i8, 2), array_of(i4), array_of(i4), array_of(u1),
        array_of(i8), array_of(u8), array_of(i4), array_of(i8, 2), i8, array_of(i8, 2), array_of(i8, 2),
    )
)  # fmt: skip
def emit_row(row, begins, events, own, value, output, size, wanted, diff, mark, classes, raw, s, start, total):
    """Write the steps of one row's curves from position `s` on, and its own sum of leaves.

    Gains go into the difference array, and bits of `mark` say where; both are zeroed again.
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


MAX_ROWS = 2048  # rows passed down together, before their gains are summed
EVENTS = 48  # expected gains per row and tree; the buffer grows if there are more


class LargeTrees:
    """Curves by passing rows down. It reuses its arrays, so each thread needs its own."""

    def __init__(self, bound: BoundEnsemble, wanted: NDArray[np.uint8], memory: int) -> None:
        self.bound, self.wanted = bound, wanted
        self.features = int(wanted.sum())
        self.slot = np.cumsum(wanted, dtype=np.int32) - 1
        each = EVENTS * 8 * (1 + bound.value.shape[1]) + 4 * self.features  # bytes of a row in a tree
        self.rows = rows = int(np.clip(memory // (each * len(bound.roots)), 16, MAX_ROWS))
        self.copies = np.empty(128 * rows, np.uint64)
        self.arrivals, self.at_leaf = np.empty(128 * rows, np.uint64), np.empty(64 * rows, np.int32)
        self.events = np.empty(EVENTS * rows * len(bound.roots) * (1 + bound.value.shape[1]), np.int64)
        self.on_path = np.empty((bound.depth + 3) * rows, np.int32)
        self.jobs, self.ends = np.empty((bound.depth + 2, 5), np.uint64), np.empty(4, np.uint64)

    def steps(self, start: int, stop: int) -> Iterator[RawSteps]:
        """Curves of rows start .. stop, some rows at a time; the arrays are overwritten by the next ones."""
        bound, wanted = self.bound, self.wanted
        outputs, largest = bound.ensemble.outputs, int(bound.size.max())
        diff, mark = np.zeros((largest + 1) * outputs, np.int64), np.zeros((largest >> 6) + 1, np.uint64)
        row_steps = int(bound.size[wanted > 0].sum()) + 2 * len(wanted)  # steps of one row, at most
        max_steps = row_steps + STEPS_PER_YIELD
        classes, raw = np.empty(max_steps, np.int32), np.empty((max_steps, outputs), np.int64)
        begins, total = np.empty((self.rows, int(wanted.sum()) + 1), np.int64), np.empty((self.rows, outputs), np.int64)
        block = ceil((stop - start) / ceil((stop - start) / self.rows))  # blocks of about equal size
        for at in range(start, stop, block):
            codes = np.ascontiguousarray(bound.codes[:, at : min(at + block, stop)])
            own, sorted_at = self._gains(codes)
            first = s = 0
            for i in range(codes.shape[1]):
                s = emit_row(
                    i, sorted_at, self.events, own, bound.value, bound.output, bound.size, wanted, diff, mark,
                    classes, raw, s, begins, total,
                )  # fmt: skip
                if s > STEPS_PER_YIELD or i == codes.shape[1] - 1:
                    some = slice(first, i + 1)
                    yield RawSteps(slice(at + first, at + i + 1), begins[some], classes[:s], raw[:s], total[some])
                    first, s = i + 1, 0

    def _gains(self, codes: NDArray[np.int32]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """The own leaves of a block of rows, and where the gains of each row and feature start, tree by tree."""
        bound, p, b = self.bound, self.features, codes.shape[1]
        trees = len(bound.roots)
        own, begins = np.empty((trees, b), np.int32), np.empty((trees, b * p + 1), np.int32)
        s = 0
        for t in range(trees):
            while (arrived := self._pass_down(t, codes, own[t])) == FULL:
                self.copies, self.arrivals = _doubled(self.copies, 0), _doubled(self.arrivals, 0)
                self.at_leaf = _doubled(self.at_leaf, 0)
            while (end := self._sort(t, arrived, s, own[t], begins[t])) == FULL:
                self.events = _doubled(self.events, s * (1 + bound.value.shape[1]))
            s = end
        return own, begins

    def _pass_down(self, t: int, codes: NDArray[np.int32], own: NDArray[np.int32]) -> int:
        bound = self.bound
        return int(
            pass_down(
                bound.roots[t], bound.nodes, codes, bound.size, bound.special, self.wanted, bound.sets, self.copies,
                self.on_path, self.jobs, self.arrivals, self.at_leaf, own, self.ends,
            )
        )  # fmt: skip

    def _sort(self, t: int, arrived: int, s: int, own: NDArray[np.int32], begins: NDArray[np.int32]) -> int:
        return int(
            sort_copies(
                self.arrivals, self.at_leaf, arrived, s, own, self.slot, self.features, self.bound.value, self.events,
                begins,
            )
        )  # fmt: skip


def _doubled(array: NDArray[Any], kept: int) -> NDArray[Any]:
    """An array twice as long, with the first entries copied."""
    larger = np.empty((2 * len(array), *array.shape[1:]), array.dtype)
    larger[:kept] = array[:kept]
    return larger
