"""A tree that predicts some columns from others: the number of its leaves, chosen on held-out rows, and their rules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from losslens.tables.columns import Distinct
from losslens.tables.numbers import Axis
from losslens.typing import Floats, Indices

LEAST = 20  # rows in a leaf
HELD_OUT = 3  # one row in three is held out to choose the number of leaves


def grown(tree: Any, others: Floats, target: Floats, seed: int) -> Any:
    """A tree that predicts the target from the other columns; None if no split helps."""
    from losslens.tables.numbers import cloned

    aim = target[:, 0] if target.shape[1] == 1 else target
    if tree is not None:
        return cloned(tree, seed).fit(others, _aimed(tree, aim))
    leaves = _best_count(others, aim, seed)
    return None if leaves == 1 else _tree(leaves, LEAST, seed).fit(others, aim)


def _aimed(tree: Any, aim: Floats) -> NDArray[Any]:
    """The target as a classification tree takes it: classes, numbered."""
    if getattr(tree, "_estimator_type", "") != "classifier" and "Classifier" not in type(tree).__name__:
        return aim
    return np.asarray(np.unique(aim, axis=0, return_inverse=True)[1].reshape(-1))


def _tree(leaves: int, least: int, seed: int) -> Any:
    from losslens.tables.numbers import scikit_learn

    return scikit_learn("tree").DecisionTreeRegressor(
        max_leaf_nodes=leaves, min_samples_leaf=least, random_state=seed % 2**31
    )


def _best_count(others: Floats, aim: Floats, seed: int) -> int:
    """The largest number of leaves whose error on held-out rows is not surely above the least; 1 if no split helps.

    Numbers are doubled until the error is larger three times in a row. Of those that are as good as the best, to a
    standard error of the difference, the largest: a split too many costs a few donors; one too few leaves dependence in
    the leaves, so that drawn values differ from real ones and a test flags features that add nothing.
    """
    held = np.random.default_rng(seed).permutation(len(others)) % HELD_OUT == 0
    if held.sum() < LEAST or (~held).sum() < 2 * LEAST:
        return 1
    train, labels = others[~held], aim[~held]
    least = LEAST - LEAST // HELD_OUT  # the same share of these rows
    errors, leaves, best = {1: _squares(aim[held] - labels.mean(axis=0))}, 2, 1
    while leaves <= len(train) // least and leaves <= 8 * best:
        tree = _tree(leaves, least, seed).fit(train, labels)
        errors[leaves] = _squares(aim[held] - tree.predict(others[held]).reshape(aim[held].shape))
        best = min(errors, key=lambda k: errors[k].mean())
        leaves *= 2
    if best == 1:
        return 1
    above = {k: error - errors[best] for k, error in errors.items()}
    return max(k for k, more in above.items() if more.mean() <= more.std() / np.sqrt(len(more)))


def _squares(deviation: Floats) -> Floats:
    """The squared error of each row."""
    return np.asarray(np.square(deviation.reshape(len(deviation), -1)).sum(axis=1))


def leaves_of(tree: Any, others: Floats, axes: Sequence[Axis]) -> tuple[Indices, tuple[str, ...]]:
    """The leaf of each row, and a rule for each leaf that has rows."""
    if tree is None:
        return np.zeros(len(others), np.intp), ("",)
    reached = np.asarray(tree.apply(others))
    if reached.ndim != 1:
        raise TypeError(f"tree must be a single decision tree; got {type(tree).__name__}")
    node, leaf = np.unique(reached, return_inverse=True)
    rules = _rules(tree.tree_, axes) if hasattr(tree, "tree_") else {int(k): f"leaf {k}" for k in node}
    seen = set(node.tolist())
    order = [k for k in rules if k in seen]  # from left to right
    rank = {k: place for place, k in enumerate(order)}
    place = np.array([rank[int(k)] for k in node], np.intp)
    return place[leaf.reshape(-1)], tuple(rules[k] for k in order)


def same_values(names: Sequence[str], columns: Sequence[Distinct], n: int) -> tuple[Indices, tuple[str, ...]]:
    """Rows with equal values in some columns as leaves, and a rule for each."""
    if not columns:
        return np.zeros(n, np.intp), ("",)
    held, leaf = np.unique(np.stack([one.codes for one in columns], axis=1), axis=0, return_inverse=True)
    rules = (
        " and ".join(f"{name} = {one.values[k]}" for name, one, k in zip(names, columns, codes, strict=True))
        for codes in held.tolist()
    )
    return leaf.reshape(-1).astype(np.intp), tuple(rules)


def _rules(nodes: Any, axes: Sequence[Axis]) -> dict[int, str]:
    """A rule for each leaf, from left to right; a tighter bound replaces a looser one."""
    texts: dict[int, str] = {}
    waiting: list[tuple[int, dict[tuple[int, bool], str]]] = [(0, {})]
    while waiting:
        node, rules = waiting.pop()
        j, threshold = int(nodes.feature[node]), float(nodes.threshold[node])
        if nodes.children_left[node] < 0:
            texts[node] = " and ".join(rules[key] for key in sorted(rules, key=lambda key: (key[0], not key[1])))
            continue
        for child, above in ((nodes.children_right[node], True), (nodes.children_left[node], False)):
            kept = {key: rule for key, rule in rules.items() if key != (j, above)}
            waiting.append((int(child), {**kept, (j, above): axes[j].rule(threshold, above=above)}))
    return texts
