"""All pairs of a row and a donor who lends two columns: each row's predictions as a picture with two axes.

With two features free a row can reach a few leaves of each tree. Each holds for a rectangle of classes of the two, and
the edges of all of them part the plane into a grid. A leaf is noted at the four corners of its rectangle; running sums
along both axes then give the trees' sum everywhere, and every donor is read off where its two classes lie. That takes a
walk over the trees for each row, and not for each pair.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from losslens.engines.trees import paint_kernels as kernels
from losslens.engines.trees.bound import Bound, Ints

MOST_READ = 2e8  # pairs that are read off: some seconds, with their losses
MOST_PAINTED = 1e10  # places of all grids, at most: the same
EDGES = 8  # of a tree along one axis that a row can meet, about
SIDES = 6  # of a box: where it begins and ends along both axes, its leaf, its output


def takes(bound: Bound, columns: NDArray[np.intp], pairs: int) -> bool:
    """Whether two columns have rectangles of classes (no missing values, no sets), and few enough of them."""
    if len(columns) != 2 or np.any(bound.special[columns] < bound.size[columns]):
        return False
    a, b = bound.size[columns].tolist()
    grid = float(min(a * b, (EDGES * len(bound.roots)) ** 2))
    n, outputs = bound.codes.shape[1], len(bound.unit)
    return pairs * outputs <= MOST_READ and n * grid * outputs <= MOST_PAINTED


def pays(bound: Bound, columns: NDArray[np.intp], donors: int) -> bool:
    """Whether a row's picture is less work than asking each donor of each tree."""
    a, b = bound.size[columns].tolist()
    trees = len(bound.roots)
    return min(a * b, (EDGES * trees) ** 2) + 50 * trees < donors * trees


def painted_table(bound: Bound, columns: NDArray[np.intp], values: Ints, rows: NDArray[np.intp]) -> NDArray[np.int64]:
    """Sums of leaves, (rows, g, outputs), with two columns at g donors' classes (2, g); exact, for `Bound.respond`."""
    raw = np.empty((len(rows), values.shape[1], len(bound.unit)), np.int64)
    codes, values = np.ascontiguousarray(bound.codes[:, rows]), np.ascontiguousarray(values, np.int32)
    sizes = bound.size[columns].tolist()
    boxes, stack = np.empty((len(bound.value), SIDES), np.int32), np.empty((bound.depth + 2, 5), np.int32)
    along, across = (np.zeros(size + 1, np.int64) for size in sizes)
    grid, start = np.empty(min((sizes[0] + 1) * (sizes[1] + 1), 1 << 16), np.int64), 0
    while start < len(rows):
        start = kernels.paint(
            start, bound.nodes, bound.roots, columns[0], columns[1], codes, values, bound.size, bound.sets, bound.value,
            bound.output, stack, boxes, along, across, grid, raw,
        )  # fmt: skip
        if start < len(rows):  # this row's grid is larger than any before
            grid = np.empty(max(2 * len(grid), int(along[-1] + 1) * int(across[-1] + 1)), np.int64)
    return raw
