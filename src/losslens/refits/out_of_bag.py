"""One tree and its out-of-bag rows: the changes of its loss when these rows exchange values of a feature.

All pairs of rows take few predictions, because a tree has few nodes. A donor's value matters only at nodes that split
on the feature. There a row follows both branches, each with the number of donors that take it. So it reaches a few
leaves only, and each leaf is weighted by its number of donors.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from losslens.losses import Loss, Response
from losslens.tables.sample import Sample, loss_changes
from losslens.typing import Floats, Indices

Numbers = NDArray[np.float32]  # trees of scikit-learn compare in single precision
ROWS = 4096  # rows followed at a time, so that their arrays stay in the processor's cache


@dataclass(frozen=True, eq=False)
class Tree:
    """A fitted tree in arrays over its nodes; at a leaf `feature` is -1.

    A row goes left where its value is at most the threshold; a missing value goes where `missing_left` says.
    """

    native: Any  # of scikit-learn: computes the leaf of a row
    columns: Indices  # of the table, in the order of the tree's training data
    feature: Indices  # (N,): the column of the table that a node splits on
    threshold: Floats  # (N,)
    children: Indices  # (2 N,): the right child of node s at 2 s, the left one at 2 s + 1
    missing_left: NDArray[np.bool_] | None  # (N,); None where the table has no missing value
    prediction: NDArray[Any]  # (N,) or (N, K), as the loss reads it
    vote: Floats  # (N,) or (N, K): what the forest averages

    def seen(self, X: Numbers) -> Numbers:
        """The rows with the columns of this tree's training data."""
        if np.array_equal(self.columns, np.arange(X.shape[1])):
            return X
        return np.ascontiguousarray(X[:, self.columns])

    def leaves(self, X: Numbers) -> Indices:
        """The leaf of each row."""
        return np.asarray(self.native.apply(self.seen(X)), np.intp)

    def turns_left(self, X: Numbers, row: Indices, node: Indices) -> NDArray[np.bool_]:
        """Whether these rows go left at these nodes."""
        value = X.take(row * X.shape[1] + self.feature.take(node))
        left = value <= self.threshold.take(node)
        if self.missing_left is not None:
            left |= np.isnan(value) & self.missing_left.take(node)
        return np.asarray(left)


def read(estimator: Any, columns: Indices, response: Response, n_classes: int, *, missing: bool) -> Tree:
    """A tree of scikit-learn as arrays."""
    native = estimator.tree_
    inner = native.children_left >= 0
    split = np.where(inner, native.feature, 0)
    prediction: NDArray[Any]
    if response == "values":
        vote = prediction = np.array(native.value[:, 0, 0], np.float64)
    else:
        # The classes of a single tree are positions among those of the forest; some may be missing.
        vote = np.zeros((native.node_count, n_classes))
        vote[:, np.asarray(estimator.classes_).astype(np.intp)] = native.value[:, 0]
        prediction = vote if response == "probabilities" else vote.argmax(axis=1)
    return Tree(
        native=native,
        columns=columns,
        feature=np.where(inner, columns[split], -1),
        threshold=np.array(native.threshold, np.float64),
        children=np.stack([native.children_right, native.children_left], axis=1).ravel().astype(np.intp),
        missing_left=np.array(native.missing_go_to_left, bool) if missing else None,
        prediction=prediction,
        vote=vote,
    )


def grew_on(tree: Tree, X: Numbers, bag: Indices) -> bool:
    """Whether the leaves hold as many rows of the bag as in training, as far as can be known."""
    if tree.missing_left is not None and not _counts_follow_splits():
        return True
    sizes = tree.native.n_node_samples
    rows = np.unique(bag)
    if sizes[0] > len(rows):  # grown on copies of rows, not on weights
        rows = bag
    found = np.bincount(tree.leaves(X[rows]), minlength=len(sizes))
    leaf = tree.feature < 0
    return bool((sizes[leaf] <= found[leaf]).all())  # fewer: rows of weight zero were left out


def _counts_follow_splits() -> bool:
    """Whether a node counts the rows that its splits send there.

    Before scikit-learn 1.8 some splits send missing values to one side in training and to the other in predictions.
    """
    major, minor = sys.modules["sklearn"].__version__.split(".")[:2]  # loaded: the trees are its own
    return (int(major), int(minor)) >= (1, 8)


@dataclass(frozen=True, eq=False)
class Trial:
    """A tree on its out-of-bag rows: their values, and its predictions and losses with nothing replaced."""

    tree: Tree
    X: Numbers  # (m, p)
    leaf: Indices  # (m,)
    sample: Sample
    loss: Loss

    @property
    def base(self) -> Floats:
        """The loss of each row with nothing replaced, (m,)."""
        assert self.sample.loss is not None  # `evaluated` has computed it
        return self.sample.loss

    def changes(self, row: Indices, node: Indices) -> Floats:
        """The changes of loss of these rows if they end in these leaves."""
        predicted = self.tree.prediction[node]
        if self.loss.domains is not None:  # a deviance is not defined for every prediction
            self.loss.check_prediction(predicted)
        return loss_changes(self.loss, self.sample, row, predicted[:, None])[:, 0]


def evaluated(tree: Tree, X: Numbers, y: NDArray[Any], classes: NDArray[Any] | None, loss: Loss) -> Trial:
    """The predictions and losses of a tree on these rows."""
    leaf = tree.leaves(X)
    predicted = tree.prediction[leaf]
    if loss.domains is not None:
        loss.check_prediction(predicted)
    sample = Sample(np.full(len(y), 1 / len(y)), predicted, y, classes=classes).with_loss(loss)
    return Trial(tree, X, leaf, sample, loss)


# A number of permutations.


def over_permutations(
    trial: Trial, features: Sequence[Indices], draws: Sequence[np.random.Generator], times: int
) -> tuple[Floats, int]:
    """Mean change of loss of each row over random permutations, (m, p), and the number of predictions.

    Each feature, given by its columns, has its own random numbers.
    """
    m = len(trial.X)
    rows, changed = np.arange(m), trial.X.copy()
    found = np.zeros((m, len(features)))
    for place, (columns, draw) in enumerate(zip(features, draws, strict=True)):
        for _ in range(times):
            changed[:, columns] = trial.X[draw.permutation(m)[:, None], columns]
            found[:, place] += trial.changes(rows, trial.tree.leaves(changed))
        changed[:, columns] = trial.X[:, columns]
    return found / times, m * len(features) * times


# All pairs.


class Paths(NamedTuple):
    """Rows at nodes, each with a replaced feature and the number of donors whose values lead there."""

    row: Indices
    feature: Indices  # the replaced one
    node: Indices
    donors: Indices  # their number

    def at(self, index: Indices) -> Paths:
        """Some of them."""
        return Paths(*(part.take(index) for part in self))


def over_all_pairs(trial: Trial, features: Sequence[Indices]) -> tuple[Floats, int]:
    """Mean change of loss of each row over all donors, itself included, (m, p), and the number of leaves reached."""
    m, p = len(trial.X), len(features)
    found, reached = np.zeros((m, p)), 0
    for feature_of, alone in _rounds(features, trial.X.shape[1]):
        tree, X = trial.tree, trial.X
        donors_at = _donors_one_column(tree, X) if alone else _donors_several_columns(tree, X, feature_of >= 0)
        for start, stop in pairwise([*range(0, m, ROWS), m]):
            # A row that stays in its own leaf changes nothing: only other leaves count.
            arrived = _other_leaves(tree, X, np.arange(start, stop), feature_of, donors_at)
            if not len(arrived.row):
                continue
            change = trial.changes(arrived.row, arrived.node) * arrived.donors
            cell = (arrived.row - start) * p + arrived.feature
            found[start:stop] += np.bincount(cell, change, (stop - start) * p).reshape(-1, p)
            reached += len(cell)
    return found / m, reached


def _rounds(features: Sequence[Indices], width: int) -> list[tuple[Indices, bool]]:
    """For each column the feature that it belongs to, or -1; and whether every feature is one column.

    Single columns share one round; a group, or a column that belongs to several features, takes another.
    """
    alone, others = np.full(width, -1), []
    for place, columns in enumerate(features):
        if len(columns) == 1 and alone[columns[0]] < 0:
            alone[columns[0]] = place
        else:
            others.append(np.full(width, -1))
            others[-1][columns] = place
    return [(alone, True)] * bool((alone >= 0).any()) + [(feature_of, False) for feature_of in others]


def _other_leaves(tree: Tree, X: Numbers, rows: Indices, feature_of: Indices, donors_at: Indices) -> Paths:
    """All leaves but their own that these rows reach with other rows' values."""
    paths = _off_own_path(tree, X, rows, feature_of, donors_at)
    arrived = []
    while len(paths.node):
        leaf = tree.feature.take(paths.node) < 0
        arrived.append(paths.at(np.flatnonzero(leaf)))
        paths = _step(tree, X, paths.at(np.flatnonzero(~leaf)), feature_of, donors_at)
    return Paths(*map(np.concatenate, zip(*arrived, strict=True))) if arrived else paths


def _off_own_path(tree: Tree, X: Numbers, rows: Indices, feature_of: Indices, donors_at: Indices) -> Paths:
    """At each node of a row's own path that splits on a feature: the other child, with the donors that go there."""
    row, node = _own_path(tree, X, rows)
    other = tree.children.take(2 * node + ~tree.turns_left(X, row, node))
    feature, donors = feature_of.take(tree.feature.take(node)), donors_at.take(other)
    return Paths(row, feature, other, donors).at(np.flatnonzero((feature >= 0) & (donors > 0)))


def _own_path(tree: Tree, X: Numbers, rows: Indices) -> tuple[Indices, Indices]:
    """The inner nodes that each row passes: the rows, and a node for each."""
    if tree.missing_left is None:
        path = tree.native.decision_path(tree.seen(X[rows]))
        row, node = np.repeat(rows, np.diff(path.indptr)), path.indices.astype(np.intp)
        inner = np.flatnonzero(tree.feature.take(node) >= 0)
        return row.take(inner), node.take(inner)
    # Before scikit-learn 1.8 `decision_path` ignores `missing_go_to_left`, unlike `apply` and `predict`.
    passed, node = [], np.zeros(len(rows), np.intp)
    while len(rows):
        inner = np.flatnonzero(tree.feature.take(node) >= 0)
        rows, node = rows.take(inner), node.take(inner)
        passed.append((rows, node))
        node = tree.children.take(2 * node + tree.turns_left(X, rows, node))
    row, node = (np.concatenate(part) for part in zip(*passed, strict=True))
    return row, node


def _step(tree: Tree, X: Numbers, paths: Paths, feature_of: Indices, donors_at: Indices) -> Paths:
    """One node further: the child of the row's own value, or both where the node splits on the replaced feature."""
    row, feature, node, donors = paths
    child = tree.children.take(2 * node + tree.turns_left(X, row, node))
    fork = np.flatnonzero(feature_of.take(tree.feature.take(node)) == feature)
    if not len(fork):
        return Paths(row, feature, child, donors)
    left, right = (tree.children.take(2 * node.take(fork) + side) for side in (1, 0))
    child[fork], donors[fork] = left, donors_at.take(left)
    both = Paths(
        np.concatenate([row, row.take(fork)]),
        np.concatenate([feature, feature.take(fork)]),
        np.concatenate([child, right]),
        np.concatenate([donors, donors_at.take(right)]),
    )
    return both.at(np.flatnonzero(both.donors))


def _donors_one_column(tree: Tree, X: Numbers) -> Indices:
    """For each node, the rows that pass all splits above it on its parent's column, other columns ignored, (N,).

    Sorted by a column, the rows that pass its splits above a node are a run from `low` to `high`, and perhaps those
    with a missing value. All nodes of a level are computed at once.
    """
    used = np.unique(tree.feature[tree.feature >= 0])
    place = np.searchsorted(used, tree.feature)
    cut, gaps = _cuts(tree, X, used)
    donors_at = np.zeros(len(tree.feature), np.intp)
    node, low = np.zeros(1, np.intp), np.zeros((1, len(used)), np.intp)
    high, gap = np.broadcast_to(len(X) - gaps, low.shape), np.broadcast_to(gaps, low.shape)
    while len(node):
        inner = np.flatnonzero(tree.feature.take(node) >= 0)
        node, low, high, gap = node.take(inner), low[inner], high[inner], gap[inner]
        at = np.arange(len(node)), place.take(node)
        left, right = tree.children.take(2 * node + 1), tree.children.take(2 * node)
        end, start, gap_left, gap_right = high.copy(), low.copy(), gap.copy(), gap.copy()
        end[at] = np.minimum(high[at], cut.take(node))
        start[at] = np.maximum(low[at], cut.take(node))
        if tree.missing_left is not None:
            gap_left[at] *= tree.missing_left.take(node)
            gap_right[at] *= ~tree.missing_left.take(node)
        donors_at[left] = np.maximum(end[at] - low[at], 0) + gap_left[at]
        donors_at[right] = np.maximum(high[at] - start[at], 0) + gap_right[at]
        node, gap = np.concatenate([left, right]), np.concatenate([gap_left, gap_right])
        low, high = np.concatenate([low, start]), np.concatenate([end, high])
    return donors_at


def _cuts(tree: Tree, X: Numbers, used: Indices) -> tuple[Indices, Indices]:
    """The number of values up to a node's threshold, (N,), and of missing values in each column used."""
    cut, gaps = np.zeros(len(tree.feature), np.intp), np.zeros(len(used), np.intp)
    for place, column in enumerate(used):
        values = np.sort(X[:, column])  # missing ones come last
        gaps[place] = np.isnan(values).sum()
        here = np.flatnonzero(tree.feature == column)
        cut[here] = np.searchsorted(values[: len(values) - gaps[place]], tree.threshold[here], side="right")
    return cut, gaps


def _donors_several_columns(tree: Tree, X: Numbers, inside: NDArray[np.bool_]) -> Indices:
    """The same for several columns together, (N,): they have no common order, so the rows are passed down the tree."""
    donors_at, gate = np.zeros((2, len(tree.feature)), np.intp)
    passed = {0: np.arange(len(X))}
    level = np.zeros(1, np.intp)
    while len(level):
        level = level[tree.feature.take(level) >= 0]
        asks = inside.take(tree.feature.take(level))
        left, right = tree.children.take(2 * level + 1), tree.children.take(2 * level)
        for node, *sides in np.stack([level, left, right], axis=1)[asks].tolist():
            rows = passed[int(gate[node])]
            goes = tree.turns_left(X, rows, np.full(len(rows), node))
            for child, part in zip(sides, (rows[goes], rows[~goes]), strict=True):
                passed[child], donors_at[child] = part, len(part)
        for child in (left, right):  # all rows pass a split on another column
            gate[child] = np.where(asks, child, gate.take(level))
        level = np.concatenate([left, right])
    return donors_at
