"""A small classification tree over columns of any kind, and the rules that it puts into words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from losslens.rows.splits import Split, SplitRule, both, candidates, sides_of
from losslens.rows.splits import in_words as said
from losslens.tables.columns import Distinct
from losslens.typing import Floats, Indices, Mask

LEAST_ROWS, LEAST_SHARE = 5, 0.01  # on either side of a question
WORTH = 0.01  # share of the rows that a question must put right, beyond what is right without it
AT_A_TIME = 256  # questions


@dataclass(frozen=True, eq=False)
class Node:
    """Rows, the cluster that most of them belong to, and the question that parts them."""

    label: int
    right: float  # weight of the rows that belong there
    split: Split | None = None
    yes: Node | None = None
    no: Node | None = None


def grow(columns: Mapping[str, Distinct], labels: Indices, weight: Floats, here: Mask, depth: int) -> Node:
    """A tree of so many questions one after the other, without questions that put hardly any row right."""
    least = max(LEAST_ROWS, int(np.ceil(LEAST_SHARE * here.sum())))
    member = weight[:, None] * (labels[:, None] == np.arange(int(labels.max()) + 1))
    return _below(dict(sorted(columns.items())), member, here, depth, least, WORTH * float(weight[here].sum()))


def _below(
    columns: Mapping[str, Distinct], member: Floats, here: Mask, depth: int, least: int, worth: float
) -> Node:  # columns by name: their order in the table must not decide between equal questions
    counts = member[here].sum(axis=0)
    leaf = Node(int(counts.argmax()), float(counts.max()))
    if depth == 0 or here.sum() < 2 * least or np.sum(counts > 0) < 2:
        return leaf
    split = _best(candidates(columns, here, least, here, least), member, np.flatnonzero(here))
    if split is None:
        return leaf
    yes = _below(columns, member, here & split.rows, depth - 1, least, worth)
    no = _below(columns, member, here & ~split.rows, depth - 1, least, worth)
    right = yes.right + no.right
    return Node(leaf.label, right, split, yes, no) if right >= leaf.right + worth else leaf


def _best(asked: list[Split], member: Floats, rows: Indices) -> Split | None:
    """The question with the purest sides, by Gini's index; None where none is purer than all rows together."""
    mine = member[rows]
    total = mine.sum(axis=0)
    best, found = float(np.square(total).sum() / total.sum()) * (1 + 1e-9), None
    for start in range(0, len(asked), AT_A_TIME):
        some = asked[start : start + AT_A_TIME]
        yes = sides_of(some, rows).T @ mine
        purity = _purity(yes) + _purity(total - yes)
        place = int(np.argmax(purity > purity.max() * (1 - 1e-12)))  # the first of equal ones, rounding or not
        if purity[place] > best * (1 + 1e-12):
            best, found = float(purity[place]), some[place]
    return found


def _purity(counts: Floats) -> Floats:
    """``sum_c n_c^2 / n`` for each side, (s,)."""
    total = counts.sum(axis=1)
    return np.asarray(np.divide(np.square(counts).sum(axis=1), total, out=np.zeros(len(total)), where=total > 0))


def placed(tree: Node, rows: int) -> Indices:
    """Where the tree puts each row, (n,)."""
    if tree.split is None or tree.yes is None or tree.no is None:
        return np.full(rows, tree.label)
    return np.where(tree.split.rows, placed(tree.yes, rows), placed(tree.no, rows))


def asked_about(tree: Node) -> tuple[str, ...]:
    """The columns that the questions are about, by name."""
    return tuple(sorted({rule.column for rules, _ in _leaves(tree, ()) for rule in rules}))


def in_words(tree: Node, k: int) -> tuple[str, ...]:
    """A rule for each of k clusters; "" for a cluster in which the tree puts nobody, and where there is no question."""
    if tree.split is None:
        return ("",) * k
    leaves = _leaves(tree, ())
    return tuple(_either([rules for rules, label in leaves if label == c]) for c in range(k))


def _leaves(tree: Node, rules: tuple[SplitRule, ...]) -> list[tuple[tuple[SplitRule, ...], int]]:
    if tree.split is None or tree.yes is None or tree.no is None:
        return [(rules, tree.label)]
    return [*_leaves(tree.yes, both(rules, tree.split.yes)), *_leaves(tree.no, both(rules, tree.split.no))]


def _either(leaves: list[tuple[SplitRule, ...]]) -> str:
    told = [said(rules) for rules in leaves]
    if len(told) > 1:
        told = [f"({text})" if len(rules) > 1 else text for text, rules in zip(told, leaves, strict=True)]
    return " or ".join(told)
