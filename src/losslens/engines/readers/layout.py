"""Trees in any order of their nodes -> preorder, and values of a table -> the numbers that trees compare."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from losslens.engines.readers.ensemble import Declined, Ensemble
from losslens.tables.columns import is_missing
from losslens.typing import Floats

Ints = NDArray[np.int64]
Link = Callable[[Floats], NDArray[Any]]

_BLOCK = 10_000  # nodes


@dataclass(frozen=True, eq=False)
class Nodes:
    """Nodes of all trees in one row, in a library's own order; a child is a place in that row.

    A leaf has -1 for a left child, and anything for its right child and feature. The arrays are the reader's own:
    they may be written into.
    """

    roots: Ints  # (T,)
    left: NDArray[np.integer[Any]]  # (N,)
    right: NDArray[np.integer[Any]]  # (N,)
    feature: NDArray[np.integer[Any]]  # (N,)
    threshold: Floats  # (N,)
    missing_left: NDArray[np.bool_]  # (N,)
    in_set: NDArray[np.int32] | None = None  # (N,)
    sets: tuple[Ints, ...] = ()


@dataclass(frozen=True, eq=False)
class ReadForest:
    """The same in preorder; `leaves` tells which node of the library's row each numbered leaf was."""

    nodes: Nodes
    leaves: Ints  # (leaves,)

    def ensemble(self, value: Floats, output: NDArray[Any], offset: Floats, link: Link, **options: Any) -> Ensemble:
        """The sum of these trees, with the value of each leaf."""
        nodes = self.nodes
        return Ensemble(
            roots=nodes.roots.astype(np.int32),
            feature=nodes.feature.astype(np.int32, copy=False),
            threshold=nodes.threshold,
            right=nodes.right.astype(np.int32, copy=False),
            missing_left=nodes.missing_left,
            value=value,
            output=output.astype(np.int32),
            offset=offset.astype(np.float64),
            link=link,
            in_set=nodes.in_set,
            sets=nodes.sets,
            **options,
        )


def in_preorder(nodes: Nodes) -> ReadForest:
    """Every left child next to its parent, and leaves numbered in that order."""
    if not _is_preorder(nodes):
        nodes, order = _reordered(nodes)
    else:
        order = None
    leaves = np.flatnonzero(nodes.left < 0)
    right = nodes.right.astype(np.int32, copy=False)
    right[leaves] = np.arange(len(leaves), dtype=np.int32)
    feature = nodes.feature.astype(np.int32, copy=False)
    feature[leaves] = -1
    rest = (nodes.threshold, nodes.missing_left, nodes.in_set, nodes.sets)
    found = Nodes(nodes.roots, nodes.left, right, feature, *rest)
    return ReadForest(found, leaves if order is None else order[leaves])


def _is_preorder(nodes: Nodes) -> bool:
    """Whether nodes are in preorder already, as those of scikit-learn mostly are.

    A few trees at a time: what is worked out for them stays in the processor's cache.
    """
    first = [0]
    for root in nodes.roots.tolist():
        if root - first[-1] >= _BLOCK:
            first.append(root)
    return all(_is_block(nodes.left[a:b] - a, nodes.right[a:b] - a) for a, b in pairwise([*first, len(nodes.left)]))


def _is_block(left: NDArray[Any], right: NDArray[Any]) -> bool:
    """Inner nodes open a bracket that the last leaf of their left part closes.

    So the right child stands behind the leaf that brings the count of open brackets back. At each count brackets
    open and close in turn, hence the only way to pair them all is the right one.
    """
    leaf = left < 0
    inner = np.flatnonzero(~leaf)
    last = right[inner] - 1  # of the left part
    if not (np.array_equal(left[inner], inner + 1) and (last > inner).all() and (last < len(leaf)).all()):
        return False
    opened = np.cumsum(1 - 2 * leaf.view(np.int8), dtype=np.int32)
    right_children = np.zeros(len(leaf), np.bool_)
    right_children[last + 1] = True
    each = np.count_nonzero(right_children) == len(inner)
    return bool(each and leaf[last].all() and (opened[last] == opened[inner] - 1).all())


def _reordered(nodes: Nodes) -> tuple[Nodes, Ints]:
    """The nodes that a root leads to, in preorder, and where each stood: level by level over all trees at once."""
    left, right = nodes.left.astype(np.int64), nodes.right.astype(np.int64)
    levels, inner_levels, level = [], [], nodes.roots
    while len(level):
        inner = level[left[level] >= 0]
        levels.append(level)
        inner_levels.append(inner)
        level = np.concatenate([left[inner], right[inner]])
    size = np.ones(len(left), np.int64)
    for inner in reversed(inner_levels):
        size[inner] += size[left[inner]] + size[right[inner]]
    place = np.full(len(left) + 1, -1, np.int64)  # the last one for -1
    place[nodes.roots] = np.cumsum(size[nodes.roots]) - size[nodes.roots]
    for inner in inner_levels:
        place[left[inner]] = place[inner] + 1
        place[right[inner]] = place[inner] + 1 + size[left[inner]]
    reached = np.concatenate(levels)
    order = np.empty(len(reached), np.int64)
    order[place[reached]] = reached
    moved = Nodes(
        roots=place[nodes.roots],
        left=place[left[order]],
        right=place[np.where(left[order] < 0, -1, right[order])],
        feature=nodes.feature[order],
        threshold=nodes.threshold[order],
        missing_left=nodes.missing_left[order],
        in_set=None if nodes.in_set is None else nodes.in_set[order],
        sets=nodes.sets,
    )
    return moved, order


def starts_of(counts: NDArray[Any]) -> Ints:
    """Where each run begins when runs of these lengths stand one behind the other."""
    return np.asarray(np.cumsum(counts) - counts, dtype=np.int64)


def bits(words: NDArray[np.uint32]) -> Ints:
    """The numbers that a bit set holds."""
    return np.flatnonzero(np.unpackbits(words.astype("<u4").view(np.uint8), bitorder="little"))


# Values of a column -> numbers.


def numbers(values: NDArray[Any]) -> Floats:
    """Values as float64, missing ones as NaN; words and dates are declined."""
    array = np.asarray(values)
    if array.dtype.kind in "mM":
        raise Declined("its trees compare numbers, and a column holds dates")
    try:
        return array.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise Declined("its trees compare numbers, and a column holds words") from error


def single_numbers(values: NDArray[Any]) -> Floats:
    """Values rounded to float32 as libraries do that compare in it; one too large for it becomes infinite."""
    found = numbers(values)
    with np.errstate(over="ignore"):
        rounded = found.astype(np.float32)
    if values.dtype.kind in "iu" and not np.array_equal(rounded, values.astype(np.float32)):
        raise Declined("a column holds whole numbers above 2^53, which round differently by way of float64")
    return rounded.astype(np.float64)


def codes(values: NDArray[Any], place: Mapping[Any, float], missing: float, unseen: float) -> Floats:
    """Values by their place among the categories."""
    if values.dtype.kind in "mM":
        raise Declined("a column of categories holds dates")
    found = [missing if is_missing(value) else place.get(value, unseen) for value in values.tolist()]
    return np.array(found, dtype=np.float64)
