"""A small classification tree over columns of any kind, and its rules in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

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

    label: int
    right: float  # weight of the rows that the subtree classifies right
    split: Split | None = None
    yes: Node | None = None
    no: Node | None = None


def grow(columns: Mapping[str, Distinct], labels: Indices, weight: Floats, here: Mask, depth: int) -> Node:
    """A tree of at most this depth, without splits that classify hardly any further row right."""
    least = max(LEAST_ROWS, int(np.ceil(LEAST_SHARE * here.sum())))
    member = weight[:, None] * (labels[:, None] == np.arange(int(labels.max()) + 1))
    by_name = dict(sorted(columns.items()))  # the order of the table's columns must not decide between equal splits
    return _below(by_name, member, here, depth, least, LEAST_GAIN * float(weight[here].sum()))


def _below(columns: Mapping[str, Distinct], member: Floats, here: Mask, depth: int, least: int, gain: float) -> Node:
    counts = member[here].sum(axis=0)
    leaf = Node(int(counts.argmax()), float(counts.max()))
    if depth == 0 or here.sum() < 2 * least or np.sum(counts > 0) < 2:
        return leaf
    split = _best(candidates(columns, here, least), member, np.flatnonzero(here))
    if split is None:
        return leaf
    yes = _below(columns, member, here & split.rows, depth - 1, least, gain)
    no = _below(columns, member, here & ~split.rows, depth - 1, least, gain)
    right = yes.right + no.right
    return Node(leaf.label, right, split, yes, no) if right >= leaf.right + gain else leaf


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
    if tree.split is None or tree.yes is None or tree.no is None:
        return np.full(rows, tree.label)
    return np.where(tree.split.rows, predict(tree.yes, rows), predict(tree.no, rows))


def columns_of(tree: Node) -> tuple[str, ...]:
    """The columns that the tree uses, sorted by name."""
    return tuple(sorted({rule.column for rules, _ in _leaves(tree, ()) for rule in rules}))


def in_words(tree: Node, k: int) -> tuple[str, ...]:
    """A rule for each of k clusters; "" for a cluster that the tree never predicts, and if there is no split."""
    if tree.split is None:
        return ("",) * k
    leaves = _leaves(tree, ())
    return tuple(_either([rules for rules, label in leaves if label == c]) for c in range(k))


def _leaves(tree: Node, rules: tuple[SplitRule, ...]) -> list[tuple[tuple[SplitRule, ...], int]]:
    if tree.split is None or tree.yes is None or tree.no is None:
        return [(rules, tree.label)]
    return [*_leaves(tree.yes, with_rule(rules, tree.split.yes)), *_leaves(tree.no, with_rule(rules, tree.split.no))]


def _either(leaves: list[tuple[SplitRule, ...]]) -> str:
    texts = [rules_in_words(rules) for rules in leaves]
    if len(texts) > 1:
        texts = [f"({text})" if len(rules) > 1 else text for text, rules in zip(texts, leaves, strict=True)]
    return " or ".join(texts)
