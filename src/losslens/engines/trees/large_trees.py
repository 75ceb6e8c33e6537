"""Curves of ensembles with trees of more than 64 leaves: many rows are passed down a tree together.

Each node divides the rows that reach it. A row on its own path goes to one side and sends an *off-path copy* to the
other: itself with the node's feature free. A copy goes to the side of its row's value, and to both sides where a node
compares its free feature; for which classes it arrives at a leaf depends on the leaf alone. So a copy is one word, its
*key*: the row, and the *kind* of what is free. No row waits for another, and hardly a branch has to be predicted, so
the processor never stalls.

At its leaf a copy becomes an *event* of its row: the classes that lead there, and the value of the leaf. A row's events
in all trees, sorted by feature, are the steps of its curves.

Indices of arrays are unsigned throughout: numba tests every signed one for being negative, which takes half the time.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil

import numpy as np
from numba import njit, types
from numpy.typing import NDArray

from losslens.engines.compiled import compiled
from losslens.engines.intrinsics import count_bits, trailing_zeros
from losslens.engines.trees.bound import STEPS_PER_YIELD, BoundEnsemble, RawSteps
from losslens.engines.trees.node_rules import (
    CUT,
    FEATURE,
    ONE,
    PLAIN,
    RIGHT,
    RULE,
    TREES,
    TWO,
    U,
    goes_left,
    i4,
    i8,
    u8,
)

u4 = types.uint32
SIX, HALF, LOW_HALF = U(6), U(32), U(0xFFFFFFFF)  # words of 64 bits, or of two numbers
LAST_BIT = U(1 << 63)
KEYS_FULL, EVENTS_FULL, JOBS_FULL = -1, -2, -3  # returned by a kernel whose buffers are too small
WAITS, DONE = U(0), U(1)  # a right subtree
KIND, SINGLES = U(0), U(1)  # of a feature: the kind of its ordered classes, and the first kind of its other ones


@njit
def divide(keys, q0, q1, codes, f, cut, row, free, path, left_part, right_empty):
    """Divide the keys q0 .. q1 at a node that cuts ordered classes in two; returns both ends, left << 32 | right.

    Those that go left are appended after q1; those that go right stay from q0 on, compacted. Copies with this feature
    free, and keys with the bit `path`, go both ways, the latter as a row and a copy: where there are classes on a side.
    """
    left, right = q1, q0
    for q in range(q0, q1):
        key = U(keys[q])
        copy = key & row | free
        differ = key ^ copy
        goes, both = U(codes[f, key & row] < cut), U(differ - ONE >= path - ONE)
        alone = goes & (both ^ ONE)
        swap = differ & (U(0) - goes)  # arithmetic: a branch could not be predicted
        keys[left] = copy ^ swap
        keys[right] = key ^ swap
        left += alone | both & left_part
        right += ONE ^ (alone | both & right_empty)
    return left << HALF | right


@njit
def divide_special(
    s, trees, codes, kinds, keys, q0, q1, room, shift, on_path, left_part, right_part, ends
):  # fmt: skip
    """Divide the keys q0 .. q1 at a node whose feature has classes without order, each of which is a kind.

    At the first node of the feature a row sends copies for all these classes: there is `room` for them on either side.
    """
    nodes, _, size, special, sets, _, _, _ = trees
    f, cut, rule = nodes[s, FEATURE], nodes[s, CUT], nodes[s, RULE]
    free, first, column, row = U(kinds[f, KIND]), U(kinds[f, SINGLES]), codes[f], (ONE << shift) - ONE
    requested = free != first
    singles = U(size[f] - special[f]) if requested else U(0)
    right, left, many = q0, q1 + room, q1 - q0
    read = left + room + many  # a copy of the keys, because those that go right may overtake them
    for q in range(many):
        keys[read + q] = keys[q0 + q]
    for q in range(read, read + many):
        key = U(keys[q])
        kind = key >> shift
        if kind == free:
            keys[left] = key
            left += left_part
            keys[right] = key
            right += right_part
            continue
        code = special[f] + i4(kind - first) if first <= kind < first + singles else column[key & row]
        to_left, own = goes_left(code, cut, rule, size[f], sets), kind == on_path
        copy = key & row | free << shift
        keys[left] = key if to_left else copy
        left += U(to_left or (own and requested and left_part != 0))
        keys[right] = copy if to_left else key
        right += U(not to_left or (own and requested and right_part != 0))
        if not own or room == 0:
            continue
        for c in range(singles):
            if special[f] + i4(c) == code:
                continue
            copy = key & row | (first + c) << shift
            to_left = goes_left(special[f] + i4(c), cut, rule, size[f], sets)
            keys[left if to_left else right] = copy
            left += U(to_left)
            right += U(not to_left)
    ends[0], ends[1] = right, left


@njit
def is_first(jobs, depth, nodes, f):
    """Whether no node above compares a feature."""
    above = U(0)
    for up in range(depth):
        above += U(U(nodes[jobs[up, 0], FEATURE]) == f)
    return above == 0


@compiled(
    i8(
        TREES, i4[:, ::1], u4[:, ::1], i8[::1], u8, u8, u4[::1], u8[:, ::1], u8[::1], u8[::1], i8[::1], u4[::1],
        i4[:, ::1], i8[:, ::1], u8,
    )
)  # fmt: skip
def pass_down(trees, codes, kinds, base, shift, on_path, keys, jobs, ends, span, events, count, begins, own, capacity):
    """Pass all rows down all trees: record the values of their own leaves, and their events; or says what is full.

    ``begins[i, t]`` is the number of events of row i before tree t. A key is a kind and a row; the kind `on_path` is a
    row itself. ``span[k]`` holds the classes of kind k that lead to the node that is visited, as positions on the axis
    of all features; what a subtree has changed there is put back afterwards.
    """
    nodes, roots, size, special, _, _, value, _ = trees
    rows, width, row = U(codes.shape[1]), U(value.shape[1]), (ONE << shift) - ONE
    long, no_kind = width + ONE, U(len(span) - 1)
    path, kind = on_path << shift, on_path - ONE
    for i in range(rows):
        count[i] = 0
    for t in range(U(len(roots))):
        for i in range(rows):
            keys[i] = i | path
            begins[i, t] = count[i]
        s, q0, q1, depth = U(roots[t]), U(0), rows, U(0)
        while True:
            while nodes[s, FEATURE] >= 0 and q1 > q0:
                f, cut = U(nodes[s, FEATURE]), nodes[s, CUT]
                free, cut_place = U(kinds[f, KIND]), U(base[f]) + U(cut)
                bounds = span[free]
                low, high = bounds >> HALF, bounds & LOW_HALF
                if depth == U(len(jobs)):
                    return JOBS_FULL
                if nodes[s, RULE] == PLAIN and special[f] == size[f]:
                    if q1 + q1 - q0 > U(len(keys)):
                        return KEYS_FULL
                    sender = path if free != no_kind else U(0)  # then no row sends a copy
                    first_left = q1
                    sides = U(low < cut_place), U(cut_place >= high)
                    end = divide(keys, q0, q1, codes, f, cut, row, free << shift, sender, *sides)
                    left, right = end >> HALF, end & LOW_HALF
                else:
                    room = U(0)
                    if free != no_kind and is_first(jobs, depth, nodes, f):
                        for q in range(q0, q1):
                            room += U(U(keys[q]) >> shift == on_path)
                        room *= U(size[f] - special[f])
                    first_left = q1 + room
                    if first_left + room + TWO * (q1 - q0) > U(len(keys)):
                        return KEYS_FULL
                    sides = U(low < cut_place), U(cut_place < high)
                    divide_special(s, trees, codes, kinds, keys, q0, q1, room, shift, on_path, *sides, ends)
                    right, left = ends[0], ends[1]
                jobs[depth, 0], jobs[depth, 1], jobs[depth, 2], jobs[depth, 3] = s, q0, right, bounds
                jobs[depth, 4] = WAITS
                depth += ONE
                span[free] = low << HALF | min(cut_place, high)
                s, q0, q1 = s + ONE, first_left, left
            if nodes[s, FEATURE] < 0:
                leaf, one = U(nodes[s, RIGHT]), value[U(nodes[s, RIGHT]), 0]
                for q in range(q0, q1):
                    key = U(keys[q])
                    i, is_own = key & row, U(key >= path)
                    own[i if is_own else rows, t * width] = one  # arithmetic again: the other rows share a place
                    place = U(count[i])
                    if place == capacity:
                        return EVENTS_FULL
                    count[i] = place + (ONE ^ is_own)
                    place = (i * capacity + place) * long
                    events[place] = i8(span[key >> shift & kind])
                    events[place + ONE] = one
                    for w in range(ONE, width):
                        own[i if is_own else rows, t * width + w] = value[leaf, w]
                        events[place + ONE + w] = value[leaf, w]
            while depth > 0:  # up to a node whose right subtree waits
                up = depth - ONE
                s = jobs[up, 0]
                f = U(nodes[s, FEATURE])
                if jobs[up, 4] == WAITS and jobs[up, 2] > jobs[up, 1]:
                    jobs[up, 4] = DONE
                    cut_place, bounds = U(base[f]) + U(nodes[s, CUT]), jobs[up, 3]
                    span[kinds[f, KIND]] = max(cut_place, bounds >> HALF) << HALF | bounds & LOW_HALF
                    s, q0, q1 = U(nodes[s, RIGHT]), jobs[up, 1], jobs[up, 2]
                    break
                span[kinds[f, KIND]] = jobs[up, 3]
                depth = up
            else:
                break
    for i in range(rows):
        begins[i, U(len(roots))] = count[i]
    return 0


@njit
def list_bits(mark, first, stop, places, end):
    """Write the positions of bits of the words first .. stop, counted from the first, and zero them; returns the end.

    Most words have up to three bits, which are written without a branch, and are overwritten where there are fewer.
    """
    for number in range(stop - first):
        word = U(mark[first + number])
        mark[first + number] = U(0)
        first_place, count = number << SIX, U(count_bits(word))
        places[end] = first_place + U(trailing_zeros(word | LAST_BIT))
        word &= word - ONE
        places[end + ONE] = first_place + U(trailing_zeros(word | LAST_BIT))
        word &= word - ONE
        places[end + TWO] = first_place + U(trailing_zeros(word | LAST_BIT))
        if count > U(3):
            more = end + U(3)
            word &= word - ONE
            while word != 0:
                places[more] = first_place + U(trailing_zeros(word))
                word &= word - ONE
                more += ONE
        end += count
    return end


@compiled(
    i8(
        i8, i8, i4[:, ::1], i8[::1], u8, i8[:, ::1], i4[::1], i8[::1], i4[::1], i8[::1], u8[::1], i4[::1], i8[:, ::1],
        i8[:, ::1], i8[:, ::1],
    )
)  # fmt: skip
def emit_rows(
    i, stop, begins, events, capacity, own, output, base, size, diff, mark, classes, raw, start, total
):  # fmt: skip
    """Write the steps of the curves of rows from `i` on, and their sums of own leaves; returns the first row left out.

    Gains (an event's value minus that of the own leaf) go into the difference array, whose positions are those of all
    features one after the other, and bits of `mark` say where; both are zeroed again.
    """
    i, first_row, trees, outputs, p = U(i), U(i), U(len(output)), U(raw.shape[1]), U(len(size))
    width, s, pad = U(own.shape[1]) // trees, U(0), U(0)
    long = width + ONE
    while ONE << pad < outputs:  # a position of the difference array has room for all outputs
        pad += ONE
    while i < U(stop) and s <= U(STEPS_PER_YIELD):
        row, first_event = i - first_row, i * capacity * long
        for w in range(outputs):
            total[row, w] = 0
        for t in range(trees):
            out, first = U(output[t]), own[i, t * width]
            for w in range(width):
                total[row, out + w] += own[i, t * width + w]
            for q in range(U(begins[i, t]), U(begins[i, t + ONE])):
                place = first_event + q * long
                span, gain = U(events[place]), events[place + ONE] - first
                a, z = span >> HALF, span & LOW_HALF
                mark[a >> SIX] |= ONE << (a & U(63))
                mark[z >> SIX] |= ONE << (z & U(63))
                a, z = (a << pad) + out, (z << pad) + out
                diff[a] += gain
                diff[z] -= gain
                for w in range(ONE, width):
                    gain = events[place + ONE + w] - own[i, t * width + w]
                    diff[a + w] += gain
                    diff[z + w] -= gain
        for k in range(p):
            origin, end = U(base[k]), U(size[k])
            start[row, k] = s
            classes[s] = 0
            for w in range(outputs):
                raw[s, w] = total[row, w] + diff[(origin << pad) + w]
                diff[(origin << pad) + w] = 0
            mark[origin >> SIX] &= ~ONE
            s += ONE
            level, listed = raw[s - ONE, 0], list_bits(mark, origin >> SIX, (origin + end >> SIX) + ONE, classes, s)
            for q in range(s, listed):
                c = U(classes[q])
                classes[s] = c
                if outputs == ONE:  # the usual case
                    moved = diff[origin + c]
                    diff[origin + c] = 0
                    level += moved
                    raw[s, 0] = level
                else:
                    moved = np.int64(0)
                    for w in range(outputs):
                        step = diff[(origin + c << pad) + w]
                        diff[(origin + c << pad) + w] = 0
                        moved |= step
                        raw[s, w] = raw[s - ONE, w] + step
                s += U(moved != 0 and c < end)
        start[row, p] = s
        i += ONE
    return i8(i)


MIN_ROWS, MAX_ROWS = 512, 2048  # rows passed down together, before their events are summed: the more, the more leaves
EVENTS = 48  # expected events per row and tree; the buffer grows if there are more


class LargeTrees:
    """Curves by passing rows down. It reuses its arrays, so each thread needs its own."""

    def __init__(self, bound: BoundEnsemble, requested: NDArray[np.uint8], memory: int) -> None:
        self.bound, self.columns = bound, np.flatnonzero(requested)
        trees, self.long = len(bound.roots), 1 + bound.value.shape[1]
        self.size = size = bound.size[self.columns]
        words = (size >> 6) + 1  # a feature starts a new word on the axis of positions
        self.base, self.words = 64 * (np.cumsum(words) - words).astype(np.int64), int(words.sum())
        self._count_kinds()
        each, leaves = EVENTS * 8 * self.long * trees, len(bound.value) // trees  # bytes of a row; blocks fill a tree
        rows = int(np.clip(memory // each, 16, min(MAX_ROWS, max(MIN_ROWS, leaves))))
        self.rows = min(rows, 1 << (32 - self.on_path.bit_length()))
        self.capacity = EVENTS * trees + 1 if len(size) else 1  # an odd number, so that rows share no cache line sets
        self.keys = np.empty(64 * self.rows, np.uint32)
        self.events = np.empty(self.rows * self.capacity * self.long, np.int64)
        self.jobs, self.ends = np.empty((64, 5), np.uint64), np.empty(2, np.uint64)

    def _count_kinds(self) -> None:
        """Number what can be free: the ordered classes of a requested feature, or one of its other classes."""
        bound, columns = self.bound, self.columns
        singles = (bound.size - bound.special)[columns]
        n_kinds = len(columns) + int(singles.sum())
        self.on_path = 1 << n_kinds.bit_length()  # a bit that no kind has, nor the number `n_kinds`
        self.kinds = np.full((len(bound.size), 2), n_kinds, np.uint32)
        self.kinds[columns, 0] = np.arange(len(columns))
        self.kinds[columns, 1] = len(columns) + np.cumsum(singles) - singles
        self.base_of = np.zeros(len(bound.size), np.int64)
        self.base_of[columns] = self.base
        of_class = np.concatenate(
            [self.base]
            + [b + np.arange(*ends) for b, *ends in zip(self.base, bound.special[columns], self.size, strict=True)]
            + [np.zeros(1, np.int64)]
        ).astype(np.uint64)
        self.span = of_class << HALF | of_class + ONE
        self.span[: len(columns)] += bound.special[columns].astype(np.uint64) - ONE  # of the ordered classes, at a root

    def steps(self, start: int, stop: int) -> Iterator[RawSteps]:
        """Curves of rows start .. stop, some rows at a time; the arrays are overwritten by the next ones."""
        bound, p, size = self.bound, len(self.columns), self.size
        outputs = bound.ensemble.outputs
        stride = 1 << (outputs - 1).bit_length()
        diff, mark = np.zeros(64 * self.words * stride, np.int64), np.zeros(self.words, np.uint64)
        max_steps = int(size.sum()) + 2 * p + STEPS_PER_YIELD + 4
        classes, raw = np.empty(max_steps, np.int32), np.empty((max_steps, outputs), np.int64)
        begins, total = np.empty((self.rows, p + 1), np.int64), np.empty((self.rows, outputs), np.int64)
        block = ceil((stop - start) / ceil((stop - start) / self.rows))  # blocks of about equal size
        for begin in range(start, stop, block):
            b = min(block, stop - begin)
            counts, own = self._pass_down(np.ascontiguousarray(bound.codes[:, begin : begin + b]))
            i = 0
            while i < b:
                first, i = i, emit_rows(
                    i, b, counts, self.events, self.capacity, own, bound.output, self.base, size, diff, mark, classes,
                    raw, begins, total,
                )  # fmt: skip
                s = begins[i - first - 1, p]
                yield RawSteps(
                    slice(begin + first, begin + i), begins[: i - first], classes[:s], raw[:s], total[: i - first]
                )

    def _pass_down(self, codes: NDArray[np.int32]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """The number of events before each tree, and the values of own leaves, for each row of a block."""
        bound, b = self.bound, codes.shape[1]
        trees, shift = len(bound.roots), (b - 1).bit_length()
        begins, count = np.empty((b, trees + 1), np.int32), np.empty(b, np.uint32)
        own = np.empty((b + 1, trees * (self.long - 1)), np.int64)
        while True:
            full = pass_down(
                bound.trees, codes, self.kinds, self.base_of, shift, self.on_path, self.keys, self.jobs, self.ends,
                self.span.copy(), self.events, count, begins, own, self.capacity,
            )  # fmt: skip
            if full == KEYS_FULL:
                self.keys = np.empty(2 * len(self.keys), np.uint32)
            elif full == EVENTS_FULL:
                self.capacity *= 2
                self.events = np.empty(self.rows * self.capacity * self.long, np.int64)
            elif full == JOBS_FULL:
                self.jobs = np.empty((2 * len(self.jobs), 5), np.uint64)
            else:
                return begins, own
