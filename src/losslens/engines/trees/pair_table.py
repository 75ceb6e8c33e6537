"""Predictions of all pairs of a row, which keeps some columns, and a donor, whose values replace the others.

The row's kept values allow some leaves of a tree, the donor's values allow some: of a small tree both are words of
bits, which have one bit in common. Larger trees are walked down, pair by pair.

If two columns are replaced, rectangle sums on a grid for each row take a walk over the trees for each row, not for each
pair. With two features free a row can reach a few leaves of each tree. Each leaf holds for a rectangle of classes of
the two features, and the edges of all rectangles divide the plane into a grid. The leaf's value is added at the four
corners of its rectangle; running sums along both axes then give the trees' sum everywhere, and each donor's prediction
is looked up at its two classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numba import njit, types
from numpy.typing import NDArray

from losslens.engines.compiled import compiled
from losslens.engines.intrinsics import trailing_zeros
from losslens.engines.trees.bound import BoundEnsemble, Ints
from losslens.engines.trees.node_rules import (
    CUT,
    FEATURE,
    ONE,
    RIGHT,
    RULE,
    TREES,
    U,
    goes_left,
    i4,
    i8,
    u8,
    walk_pairs,
)
from losslens.engines.trees.small_trees import Tables
from losslens.typing import Indices


@njit
def _to_positions(marks):
    """Replace marks of first classes by the grid position of each class; the last entry becomes their number."""
    position = -1
    for c in range(len(marks) - 1):
        position += marks[c]
        marks[c] = position
    marks[len(marks) - 1] = position + 1


@njit
def _sum_rectangles(o, n_boxes, boxes, value, along, across, high, wide, grid):
    """Sum of all trees at each position of the grid, for one output."""
    for c in range(high * wide):
        grid[c] = 0
    width = U(value.shape[1])
    for q in range(n_boxes):
        out = U(boxes[q, 5])
        if o < out or o >= out + width:
            continue
        leaf_value = value[U(boxes[q, 4]), o - out]
        a0, a1 = U(along[U(boxes[q, 0])]) * wide, U(along[U(boxes[q, 1])]) * wide
        b0, b1 = U(across[U(boxes[q, 2])]), U(across[U(boxes[q, 3])])
        grid[a0 + b0] += leaf_value
        grid[a0 + b1] -= leaf_value
        grid[a1 + b0] -= leaf_value
        grid[a1 + b1] += leaf_value
    for a in range(high):
        running, row = i8(0), a * wide
        for b in range(wide):
            running += grid[row + b]
            grid[row + b] = running if a == 0 else running + grid[row + b - wide]


@njit
def _list_boxes(i, trees, first, second, codes, stack, boxes):
    """List the leaves that a row reaches with two features free, with their rectangles of classes; returns how many."""
    nodes, roots, size, _, sets, _, _, output = trees
    n_boxes = U(0)
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
                else:  # both sides: the right one later
                    later = stack[depth]
                    later[0], later[1], later[2], later[3], later[4] = nodes[s, RIGHT], a0, a1, b0, b1
                    if f == first:
                        a1 = later[1] = cut
                    else:
                        b1 = later[3] = cut
                    depth += 1
                    s = s + 1
            box = boxes[n_boxes]
            box[0], box[1], box[2], box[3], box[4], box[5] = a0, a1, b0, b1, nodes[s, RIGHT], output[t]
            n_boxes += ONE
            if depth == 0:
                break
            depth -= 1
            s, a0, a1, b0, b1 = stack[depth, 0], stack[depth, 1], stack[depth, 2], stack[depth, 3], stack[depth, 4]
    return n_boxes


reach = compiled(u8(u8, TREES, i4, i4, i4[:, ::1], i4[:, ::1], i4[:, ::1]))(_list_boxes.py_func)


@compiled(
    i8(
        u8, TREES, i4, i4, i4[:, ::1], i4[:, ::1], i4[:, ::1], i4[:, ::1], i8[::1], i8[::1], i8[::1], i8[:, :, ::1]
    )
)  # fmt: skip
def fill_rows(start, trees, first, second, codes, values, stack, boxes, along, across, grid, raw):
    """Fill the rows from `start` on; returns where it stopped: at the end, or at a row whose grid is too large.

    `along` and `across` hold the grid position of each class; their last entry is the number of positions.
    """
    _, _, _, _, _, _, value, _ = trees
    for i in range(start, U(raw.shape[0])):
        n_boxes = _list_boxes(i, trees, first, second, codes, stack, boxes)
        for c in range(U(len(along))):
            along[c] = 0
        for c in range(U(len(across))):
            across[c] = 0
        for q in range(n_boxes):
            along[U(boxes[q, 0])] = 1
            along[U(boxes[q, 1])] = 1
            across[U(boxes[q, 2])] = 1
            across[U(boxes[q, 3])] = 1
        _to_positions(along)
        _to_positions(across)
        high, wide = U(along[len(along) - 1]) + ONE, U(across[len(across) - 1]) + ONE
        if high * wide > U(len(grid)):
            return i8(i)
        for o in range(U(raw.shape[2])):
            _sum_rectangles(o, n_boxes, boxes, value, along, across, high, wide, grid)
            for k in range(U(raw.shape[1])):
                raw[i, k, o] = grid[U(along[U(values[0, k])]) * wide + U(across[U(values[1, k])])]
    return i8(raw.shape[0])


MAX_PAIRS = 2e8  # pairs looked up: some seconds, with their losses
MAX_TOTAL_CELLS = 4e9  # grid cells of all rows: ten seconds
MAX_GRID_CELLS = 1 << 22  # of one grid: 32 MiB
TRIAL_ROWS = 8  # rows from which the size of grids is estimated
CELLS_PER_BOX = 10  # grid cells that take as long as adding one rectangle
BOX_FIELDS = 6  # of a box: its bounds along both axes, its leaf, its output


@dataclass(frozen=True)
class GridCost:
    """Size of one row's grid: the largest among a few rows."""

    cells: int
    boxes: int

    @property
    def total(self) -> int:
        """Work for one row, in units of grid cells."""
        return self.cells + CELLS_PER_BOX * self.boxes


def grid_cost(bound: BoundEnsemble, columns: NDArray[np.intp]) -> GridCost | None:
    """Size of the grids of two columns; None if their classes have no order (missing values, sets)."""
    if len(columns) != 2 or np.any(bound.special[columns] < bound.size[columns]):
        return None
    n = bound.codes.shape[1]
    rows = np.unique(np.linspace(0, n - 1, TRIAL_ROWS).astype(np.intp))
    codes = np.ascontiguousarray(bound.codes[:, rows])
    boxes, stack = np.empty((len(bound.value), BOX_FIELDS), np.int32), np.empty((bound.depth + 2, 5), np.int32)
    max_cells = max_boxes = 0
    for i in range(len(rows)):
        n_boxes = int(reach(i, bound.trees, *columns, codes, stack, boxes))
        edges = [len(np.unique(boxes[:n_boxes, [side, side + 1]])) for side in (0, 2)]
        max_cells, max_boxes = max(max_cells, edges[0] * edges[1]), max(max_boxes, n_boxes)
    return GridCost(max_cells, max_boxes)


def is_feasible(bound: BoundEnsemble, cost: GridCost | None, pairs: int) -> bool:
    """Whether grids exist, and are few and small enough."""
    if cost is None or cost.cells > MAX_GRID_CELLS:
        return False
    n, outputs = bound.codes.shape[1], len(bound.unit)
    return pairs * outputs <= MAX_PAIRS and n * cost.total * outputs <= MAX_TOTAL_CELLS


def is_cheaper(bound: BoundEnsemble, cost: GridCost, donors: int) -> bool:
    """Whether a row's grid is less work than looking up each donor in each tree, or walking down a large one."""
    return not bound.is_small or cost.total < donors * len(bound.roots)


def grid_table(
    bound: BoundEnsemble, columns: NDArray[np.intp], values: Ints, rows: NDArray[np.intp]
) -> NDArray[np.int64]:
    """As `pair_table.pair_table`, with two columns at g donors' classes (2, g): sums of leaves, (rows, g, outputs)."""
    raw = np.empty((len(rows), values.shape[1], len(bound.unit)), np.int64)
    codes, values = np.ascontiguousarray(bound.codes[:, rows]), np.ascontiguousarray(values, np.int32)
    sizes = bound.size[columns].tolist()
    boxes, stack = np.empty((len(bound.value), BOX_FIELDS), np.int32), np.empty((bound.depth + 2, 5), np.int32)
    along, across = (np.zeros(size + 1, np.int64) for size in sizes)
    grid, start = np.empty(min((sizes[0] + 1) * (sizes[1] + 1), 1 << 16), np.int64), 0
    while start < len(rows):
        start = fill_rows(start, bound.trees, *columns, codes, values, stack, boxes, along, across, grid, raw)
        if start < len(rows):  # this row's grid is larger than all before
            grid = np.empty(max(2 * len(grid), int(along[-1] + 1) * int(across[-1] + 1)), np.int64)
    return raw


MASKS = 1 << 22  # trees times donors whose masks are held
NONE = U(0)
TILE_ROWS, TILE_DONORS = U(16), U(256)  # pairs whose sums stay in the cache while all trees are added


@compiled(types.void(u8[:, ::1], u8[:, ::1], i4[::1], i8[:, ::1], i4[::1], i8[:, :, ::1]))
def add_pairs(kept, replaced, leaf_at, value, output, raw):
    """Add the values of trees that have masks: of the one leaf that the row and the donor both allow."""
    rows, donors, width = U(raw.shape[0]), U(raw.shape[1]), U(value.shape[1])
    for i0 in range(NONE, rows, TILE_ROWS):
        for k0 in range(NONE, donors, TILE_DONORS):
            for t in range(U(len(kept))):
                leaf, out = U(leaf_at[t]), U(output[t])
                for i in range(i0, min(i0 + TILE_ROWS, rows)):
                    allowed = kept[t, i]
                    for w in range(width):
                        for k in range(k0, min(k0 + TILE_DONORS, donors)):
                            raw[i, k, out + w] += value[leaf + U(trailing_zeros(allowed & replaced[t, k])), w]


def pair_table(
    bound: BoundEnsemble, tables: Tables | None, kept: Sequence[int] | Indices, values: Ints, rows: Indices
) -> NDArray[np.int64]:
    """Sums of leaves, (rows, g, outputs), of some rows at g donors' values; exact, for `BoundEnsemble.respond`.

    `values` holds the classes of these values, (replaced columns, g), columns in the table's order. Without `tables`,
    if a tree has too many leaves for a mask, every pair walks down every tree.
    """
    replaced = np.isin(np.arange(len(bound.size)), kept, invert=True)
    codes = np.ascontiguousarray(bound.codes[:, rows])
    donor_codes = np.zeros((len(replaced), values.shape[1]), np.int32)
    donor_codes[replaced] = values
    raw = np.zeros((len(rows), values.shape[1], len(bound.unit)), np.int64)
    if tables is None:
        walk_pairs(bound.trees, replaced, codes, donor_codes, raw)
        return raw
    step = max(1, MASKS // max(1, values.shape[1]))
    for t in range(0, len(bound.roots), step):
        part, in_part = slice(t, t + step), (tables.tree >= t) & (tables.tree < t + step)
        of_rows, of_donors = (
            tables.allowed(entries, tables.tree[entries] - t, len(bound.roots[part]), classes)
            for mask, classes in ((~replaced, codes), (replaced, donor_codes))
            for entries in (np.flatnonzero(in_part & mask[tables.feature]),)
        )
        add_pairs(of_rows, of_donors, bound.leaf_at[part], bound.value, bound.output[part], raw)
    return raw
