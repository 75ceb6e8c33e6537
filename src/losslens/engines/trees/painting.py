"""All pairs of a row and a donor who lends two columns: each row's predictions as a picture with two axes.

With two features free a row can reach a few leaves of each tree. Each holds for a rectangle of classes of the two, and
the edges of all of them part the plane into a grid. A leaf is noted at the four corners of its rectangle; running sums
along both axes then give the trees' sum everywhere, and every donor is read off where its two classes lie. That takes a
walk over the trees for each row, and not for each pair.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from losslens.engines.trees import paint_kernels as kernels
from losslens.engines.trees.bound import Bound, Ints

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


def look(bound: Bound, columns: NDArray[np.intp]) -> Picture | None:
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
            kernels.reach(
                i, bound.nodes, bound.roots, columns[0], columns[1], codes, bound.size, bound.sets, bound.output, stack,
                boxes,
            )
        )  # fmt: skip
        edges = [len(np.unique(boxes[:many, [side, side + 1]])) for side in (0, 2)]
        places, most = max(places, edges[0] * edges[1]), max(most, many)
    return Picture(places, most)


def takes(bound: Bound, picture: Picture | None, pairs: int) -> bool:
    """Whether pictures are few and small enough."""
    if picture is None or picture.places > MOST_PLACES:
        return False
    n, outputs = bound.codes.shape[1], len(bound.unit)
    return pairs * outputs <= MOST_READ and n * picture.cost * outputs <= MOST_PAINTED


def pays(bound: Bound, picture: Picture, donors: int) -> bool:
    """Whether a row's picture is less work than asking each donor of each tree."""
    return picture.cost < donors * len(bound.roots)


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
