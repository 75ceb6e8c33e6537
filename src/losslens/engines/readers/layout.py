"""Nodes of trees in any order -> preorder; values of a table -> the numbers that trees compare."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from losslens.engines.base import Declined
from losslens.engines.readers.ensemble import Ensemble
from losslens.tables.columns import is_missing
from losslens.typing import Floats

Ints = NDArray[np.int64]
Link = Callable[[Floats], NDArray[Any]]

_BLOCK_NODES = 10_000  # nodes tested for preorder at a time: their arrays stay in the processor's cache


@dataclass(frozen=True, eq=False)
class Nodes:
    """Nodes of all trees, concatenated in the library's order; children are positions in these arrays.

    The left child of a leaf is -1; its right child and feature are arbitrary. The arrays belong to the reader and may
    be written to.
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
class PreorderForest:
    """Nodes in preorder, with leaves numbered in that order."""

    nodes: Nodes
    leaves: Ints  # (leaves,): position of each leaf among the library's nodes

    def ensemble(self, value: Floats, output: NDArray[Any], offset: Floats, link: Link, **options: Any) -> Ensemble:
        """The sum of these trees, given the value of each leaf."""
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


def in_preorder(nodes: Nodes) -> PreorderForest:
    """Reorder nodes so that every left child follows its parent, and number the leaves."""
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
    reordered = Nodes(nodes.roots, nodes.left, right, feature, *rest)
    return PreorderForest(reordered, leaves if order is None else order[leaves])


def _is_preorder(nodes: Nodes) -> bool:
    """Whether nodes are in preorder already, as those of scikit-learn mostly are: not those of pruned trees.

    Pruning turns a node into a leaf, but scikit-learn keeps the old subtree in its arrays.
    """
    if 2 * np.count_nonzero(nodes.left < 0) != len(nodes.left) + len(nodes.roots):  # as in binary trees of these leaves
        return False
    first = [0]
    for root in nodes.roots.tolist():
        if root - first[-1] >= _BLOCK_NODES:
            first.append(root)
    bounds = pairwise([*first, len(nodes.left)])
    return all(_is_preorder_block(nodes.left[a:b] - a, nodes.right[a:b] - a) for a, b in bounds)


def _is_preorder_block(left: NDArray[Any], right: NDArray[Any]) -> bool:
    """Whether some complete trees are in preorder, tested as balanced brackets.

    An inner node opens a bracket that the last leaf of its left subtree closes, so the right child follows the leaf
    that brings the count of open brackets back. At each depth brackets open and close alternately, hence there is
    only one way to pair them all.
    """
    leaf = left < 0
    inner = np.flatnonzero(~leaf)
    last = right[inner] - 1  # last node of the left subtree
    if not (np.array_equal(left[inner], inner + 1) and (last > inner).all() and (last < len(leaf)).all()):
        return False
    opened = np.cumsum(1 - 2 * leaf.view(np.int8), dtype=np.int32)
    right_children = np.zeros(len(leaf), np.bool_)
    right_children[last + 1] = True
    each = np.count_nonzero(right_children) == len(inner)
    return bool(each and leaf[last].all() and (opened[last] == opened[inner] - 1).all())


def _reordered(nodes: Nodes) -> tuple[Nodes, Ints]:
    """The nodes reachable from the roots, in preorder, and their old positions: level by level, all trees at once."""
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
    place = np.full(len(left) + 1, -1, np.int64)  # the extra last entry maps -1 to -1
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


@cache
def complete_tree(depth: int) -> tuple[Ints, Ints, Ints]:
    """A complete tree in preorder: level (-1 at leaves) and right child of each node, and the leaf's number."""
    level, right, number = (np.array([x], np.int64) for x in (-1, -1, 0))
    for above in reversed(range(depth)):
        below = len(level)
        level = np.concatenate([[above], level, level])
        right = np.concatenate([[1 + below], right + 1, right + 1 + below])
        number = np.concatenate([[0], number, number | 1 << above])
    return level, right, number


def starts_of(counts: NDArray[Any]) -> Ints:
    """Start of each run when runs of these lengths are concatenated."""
    return np.asarray(np.cumsum(counts) - counts, dtype=np.int64)


def bits(words: NDArray[np.uint32]) -> Ints:
    """The members of a bit set."""
    return np.flatnonzero(np.unpackbits(words.astype("<u4").view(np.uint8), bitorder="little"))


# Values of a column -> numbers.


def numbers(values: NDArray[Any]) -> Floats:
    """Values as float64, missing ones as NaN; text and dates are declined."""
    array = np.asarray(values)
    if array.dtype.kind in "mM":
        raise Declined("its trees compare numbers, but a column holds dates")
    try:
        return array.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise Declined("its trees compare numbers, but a column holds text") from error


def single_numbers(values: NDArray[Any]) -> Floats:
    """Values rounded to float32, for libraries that compare in it; values too large for it become infinite."""
    with np.errstate(over="ignore"):
        rounded = numbers(values).astype(np.float32)
    if values.dtype.kind in "iu" and not np.array_equal(rounded, values.astype(np.float32)):
        raise Declined("a column holds integers above 2^53, which round differently by way of float64")
    return rounded.astype(np.float64)


def codes(values: NDArray[Any], place: Mapping[Any, float], missing: float, unseen: float) -> Floats:
    """The code of each value: its position among the categories."""
    if values.dtype.kind in "mM":
        raise Declined("a categorical column holds dates")
    positions = [missing if is_missing(value) else place.get(value, unseen) for value in values.tolist()]
    return np.array(positions, dtype=np.float64)
