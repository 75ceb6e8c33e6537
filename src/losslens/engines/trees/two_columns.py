"""The compiled part of `painting`: the rectangles of a row, their corners, and running sums along both axes.

All pairs of a row and a donor who lends two columns: each row's predictions as a picture with two axes.

With two features free a row can reach a few leaves of each tree. Each holds for a rectangle of classes of the two, and
the edges of all of them part the plane into a grid. A leaf is noted at the four corners of its rectangle; running sums
along both axes then give the trees' sum everywhere, and every donor is read off where its two classes lie. That takes a
walk over the trees for each row, and not for each pair.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import types
from numpy.typing import NDArray

from losslens.engines.compiled import compiled
from losslens.engines.trees.bound import BoundEnsemble, Ints
from losslens.engines.trees.node_rules import CUT, FEATURE, ONE, RIGHT, RULE, U, array_of, goes_left, i4, i8, u1, u8


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
def reach(i, nodes, roots, first, second, codes, size, sets, output, stack, boxes):
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
        many = reach(i, nodes, roots, first, second, codes, size, sets, output, stack, boxes)
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


MOST_READ = 2e8  # pairs that are read off: some seconds, with their losses
MOST_PAINTED = 4e9  # places of all grids: ten seconds
MOST_PLACES = 1 << 22  # of one grid: 32 MiB
LOOKED_AT = 8  # rows that say how large the grids are
A_BOX = 10  # places that a leaf's rectangle takes as long as
SIDES = 6  # of a box: where it begins and ends along both axes, its leaf, its output


@dataclass(frozen=True)
class Picture:
    """How much work one row's picture is: what the largest of a few rows takes."""

    places: int
    boxes: int

    @property
    def cost(self) -> int:
        """In places."""
        return self.places + A_BOX * self.boxes


def look(bound: BoundEnsemble, columns: NDArray[np.intp]) -> Picture | None:
    """What pictures of two columns take; None where these have no rectangles of classes (missing values, sets)."""
    if len(columns) != 2 or np.any(bound.special[columns] < bound.size[columns]):
        return None
    n = bound.codes.shape[1]
    rows = np.unique(np.linspace(0, n - 1, LOOKED_AT).astype(np.intp))
    codes = np.ascontiguousarray(bound.codes[:, rows])
    boxes, stack = np.empty((len(bound.value), SIDES), np.int32), np.empty((bound.depth + 2, 5), np.int32)
    places = most = 0
    for i in range(len(rows)):
        many = int(
            reach(
                i, bound.nodes, bound.roots, columns[0], columns[1], codes, bound.size, bound.sets, bound.output, stack,
                boxes,
            )
        )  # fmt: skip
        edges = [len(np.unique(boxes[:many, [side, side + 1]])) for side in (0, 2)]
        places, most = max(places, edges[0] * edges[1]), max(most, many)
    return Picture(places, most)


def takes(bound: BoundEnsemble, picture: Picture | None, pairs: int) -> bool:
    """Whether pictures are few and small enough."""
    if picture is None or picture.places > MOST_PLACES:
        return False
    n, outputs = bound.codes.shape[1], len(bound.unit)
    return pairs * outputs <= MOST_READ and n * picture.cost * outputs <= MOST_PAINTED


def pays(bound: BoundEnsemble, picture: Picture, donors: int) -> bool:
    """Whether a row's picture is less work than asking each donor of each tree."""
    return picture.cost < donors * len(bound.roots)


def painted_table(
    bound: BoundEnsemble, columns: NDArray[np.intp], values: Ints, rows: NDArray[np.intp]
) -> NDArray[np.int64]:
    """Sums of leaves, (rows, g, outputs), with two columns at g donors' classes (2, g); exact, for `Bound.respond`."""
    raw = np.empty((len(rows), values.shape[1], len(bound.unit)), np.int64)
    codes, values = np.ascontiguousarray(bound.codes[:, rows]), np.ascontiguousarray(values, np.int32)
    sizes = bound.size[columns].tolist()
    boxes, stack = np.empty((len(bound.value), SIDES), np.int32), np.empty((bound.depth + 2, 5), np.int32)
    along, across = (np.zeros(size + 1, np.int64) for size in sizes)
    grid, start = np.empty(min((sizes[0] + 1) * (sizes[1] + 1), 1 << 16), np.int64), 0
    while start < len(rows):
        start = paint(
            start, bound.nodes, bound.roots, columns[0], columns[1], codes, values, bound.size, bound.sets, bound.value,
            bound.output, stack, boxes, along, across, grid, raw,
        )  # fmt: skip
        if start < len(rows):  # this row's grid is larger than any before
            grid = np.empty(max(2 * len(grid), int(along[-1] + 1) * int(across[-1] + 1)), np.int64)
    return raw
