"""A small classification tree over columns of any kind, and its rules in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from losslens.rows.splits import Split, SplitRule, candidates, sides_of, with_rule
from losslens.rows.splits import in_words as rules_in_words
from losslens.tables.columns import Distinct
from losslens.typing import Floats, Indices, Mask

LEAST_ROWS, LEAST_SHARE = 5, 0.01  # on either side of a split
LEAST_GAIN = 0.01  # share of the rows that a split must classify right beyond those that are right without it
BATCH = 64  # splits evaluated at a time


@dataclass(frozen=True, eq=False)
class Node:
    """Some rows: the most frequent cluster among them, and the split that divides them."""

    rules: tuple[SplitRule, ...]
    label: int
    right: float  # weight of the rows that the subtree classifies right
    split: Split | None = None
    below: tuple[Node, ...] = ()  # where the answer is yes, and where it is no

    @property
    def leaves(self) -> list[Node]:
        """Its leaves, from left to right."""
        return [leaf for node in self.below for leaf in node.leaves] if self.below else [self]


def grow(columns: Mapping[str, Distinct], labels: Indices, weight: Floats, here: Mask, depth: int) -> Node:
    """A tree of at most this depth, without splits that classify hardly any further row right."""
    least = max(LEAST_ROWS, int(np.ceil(LEAST_SHARE * here.sum())))
    member = weight[:, None] * (labels[:, None] == np.arange(int(labels.max()) + 1))
    by_name = dict(sorted(columns.items()))  # the order of the table's columns must not decide between equal splits
    gain = LEAST_GAIN * float(weight[here].sum())

    def below(here: Mask, rules: tuple[SplitRule, ...], depth: int) -> Node:
        counts = member[here].sum(axis=0)
        leaf = Node(rules, int(counts.argmax()), float(counts.max()))
        if depth == 0 or here.sum() < 2 * least or np.sum(counts > 0) < 2:
            return leaf
        split = _best(candidates(by_name, here, least), member, np.flatnonzero(here))
        if split is None:
            return leaf
        sides = (here & split.rows, split.yes), (here & ~split.rows, split.no)
        nodes = tuple(below(rows, with_rule(rules, rule), depth - 1) for rows, rule in sides)
        right = sum(node.right for node in nodes)
        return replace(leaf, right=right, split=split, below=nodes) if right >= leaf.right + gain else leaf

    return below(here, (), depth)


def _best(splits: list[Split], member: Floats, rows: Indices) -> Split | None:
    """The split with the purest sides, by Gini's index; None if none is purer than all rows together."""
    of_rows = member[rows]
    total = of_rows.sum(axis=0)
    largest, best = float(np.square(total).sum() / total.sum()) * (1 + 1e-9), None
    for start in range(0, len(splits), BATCH):
        some = splits[start : start + BATCH]
        yes = sides_of(some, rows).T @ of_rows
        purity = _purity(yes) + _purity(total - yes)
        place = int(np.argmax(purity > purity.max() * (1 - 1e-12)))  # the first of splits equal up to rounding
        if purity[place] > largest * (1 + 1e-12):
            largest, best = float(purity[place]), some[place]
    return best


def _purity(counts: Floats) -> Floats:
    """``sum_c n_c^2 / n`` for each side, (s,)."""
    total = counts.sum(axis=1)
    return np.asarray(np.divide(np.square(counts).sum(axis=1), total, out=np.zeros(len(total)), where=total > 0))


def predict(tree: Node, rows: int) -> Indices:
    """The predicted cluster of each row, (n,)."""
    if tree.split is None:
        return np.full(rows, tree.label)
    yes, no = (predict(node, rows) for node in tree.below)
    return np.where(tree.split.rows, yes, no)


def columns_of(tree: Node) -> tuple[str, ...]:
    """The columns that the tree uses, sorted by name."""
    return tuple(sorted({rule.column for leaf in tree.leaves for rule in leaf.rules}))


def in_words(tree: Node, k: int) -> tuple[str, ...]:
    """A rule for each of k clusters; "" for a cluster that the tree never predicts, and if there is no split."""
    if tree.split is None:
        return ("",) * k
    return tuple(_either([leaf.rules for leaf in tree.leaves if leaf.label == c]) for c in range(k))


def _either(leaves: list[tuple[SplitRule, ...]]) -> str:
    texts = [rules_in_words(rules) for rules in leaves]
    if len(texts) > 1:
        texts = [f"({text})" if len(rules) > 1 else text for text, rules in zip(texts, leaves, strict=True)]
    return " or ".join(texts)
