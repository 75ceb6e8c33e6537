"""The compiled part of `painting`: the rectangles of a row, their corners, and running sums along both axes."""

from __future__ import annotations

from numba import types

from losslens.engines.compiled import compiled
from losslens.engines.trees.rules import CUT, FEATURE, ONE, RIGHT, RULE, U, array_of, goes_left, i4, i8, u1, u8


@compiled(types.void(array_of(i8)))
def _count(marks):
    """Marks of where places begin become the places of the classes; behind the last class, how many there are."""
    place = -1
    for c in range(len(marks) - 1):
        place += marks[c]
        marks[c] = place
    marks[len(marks) - 1] = place + 1


@compiled(
    types.void(u8, u8, array_of(i4, 2), array_of(i8, 2), array_of(i8), array_of(i8), u8, u8, array_of(i8))
)  # fmt: skip
def _sum_up(o, many, boxes, value, along, across, high, wide, grid):
    """What all trees say together at each place of the grid, of one output."""
    grid[: high * wide] = 0
    width = U(value.shape[1])
    for q in range(many):
        out = U(boxes[q, 5])
        if o < out or o >= out + width:
            continue
        said = value[U(boxes[q, 4]), o - out]
        a0, a1 = U(along[U(boxes[q, 0])]) * wide, U(along[U(boxes[q, 1])]) * wide
        b0, b1 = U(across[U(boxes[q, 2])]), U(across[U(boxes[q, 3])])
        grid[a0 + b0] += said
        grid[a0 + b1] -= said
        grid[a1 + b0] -= said
        grid[a1 + b1] += said
    for a in range(high):
        running, row = i8(0), a * wide
        for b in range(wide):
            running += grid[row + b]
            grid[row + b] = running if a == 0 else running + grid[row + b - wide]


@compiled(
    u8(
        u8, array_of(i4, 2), array_of(i4), i4, i4, array_of(i4, 2), array_of(i4), array_of(u1, 2), array_of(i4),
        array_of(i4, 2), array_of(i4, 2),
    )
)  # fmt: skip
def _reach(i, nodes, roots, first, second, codes, size, sets, output, stack, boxes):
    """The leaves that a row can reach with two features free, each with its rectangle of classes; how many."""
    many = U(0)
    for t in range(len(roots)):
        s, a0, a1, b0, b1 = roots[t], i4(0), size[first], i4(0), size[second]
        depth = 0
        while True:
            while nodes[s, FEATURE] >= 0:
                f, cut = nodes[s, FEATURE], nodes[s, CUT]
                low, high = (a0, a1) if f == first else (b0, b1)
                if f != first and f != second:
                    s = s + 1 if goes_left(codes[f, i], cut, nodes[s, RULE], size[f], sets) else nodes[s, RIGHT]
                elif cut >= high:
                    s = s + 1
                elif cut <= low:
                    s = nodes[s, RIGHT]
                else:  # both ways: the right one later
                    later = stack[depth]
                    later[0], later[1], later[2], later[3], later[4] = nodes[s, RIGHT], a0, a1, b0, b1
                    if f == first:
                        a1 = later[1] = cut
                    else:
                        b1 = later[3] = cut
                    depth += 1
                    s = s + 1
            box = boxes[many]
            box[0], box[1], box[2], box[3], box[4], box[5] = a0, a1, b0, b1, nodes[s, RIGHT], output[t]
            many += ONE
            if depth == 0:
                break
            depth -= 1
            s, a0, a1, b0, b1 = stack[depth, 0], stack[depth, 1], stack[depth, 2], stack[depth, 3], stack[depth, 4]
    return many


@compiled(
    i8(
        u8, array_of(i4, 2), array_of(i4), i4, i4, array_of(i4, 2), array_of(i4, 2), array_of(i4), array_of(u1, 2),
        array_of(i8, 2), array_of(i4), array_of(i4, 2), array_of(i4, 2), array_of(i8), array_of(i8), array_of(i8),
        array_of(i8, 3),
    )
)  # fmt: skip
def paint(
    start, nodes, roots, first, second, codes, values, size, sets, value, output, stack, boxes, along, across, grid, raw
):  # fmt: skip
    """Fill the rows from `start` on; returns where it stopped: at the end, or at a row whose grid needs more room.

    `along` and `across`: which place of the grid each class has; the last entry is how many places there are.
    """
    for i in range(start, U(raw.shape[0])):
        many = _reach(i, nodes, roots, first, second, codes, size, sets, output, stack, boxes)
        along[:] = 0
        across[:] = 0
        for q in range(many):
            along[U(boxes[q, 0])] = 1
            along[U(boxes[q, 1])] = 1
            across[U(boxes[q, 2])] = 1
            across[U(boxes[q, 3])] = 1
        _count(along)
        _count(across)
        high, wide = U(along[len(along) - 1]) + ONE, U(across[len(across) - 1]) + ONE
        if high * wide > U(len(grid)):
            return i8(i)
        for o in range(U(raw.shape[2])):
            _sum_up(o, many, boxes, value, along, across, high, wide, grid)
            for k in range(U(raw.shape[1])):
                place = U(along[U(values[0, k])]) * wide + U(across[U(values[1, k])])
                raw[i, k, o] = grid[place]
    return i8(raw.shape[0])
