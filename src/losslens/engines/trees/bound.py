"""What a search gives, by whichever way it was found.

An ensemble bound to a table: thresholds become cuts between classes of values, leaves become whole numbers.

Values of a feature that no node tells apart are one *class*. A row is then a few small whole numbers, and a curve has
one value a class, however many distinct values there are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from losslens.engines.readers.ensemble import Declined, Ensemble
from losslens.engines.trees import node_rules
from losslens.tables.columns import Distinct
from losslens.typing import Floats

STEPS = 1 << 16  # handed over at a time, about: they stay in the processor's cache


@dataclass(frozen=True, eq=False)
class RawSteps:
    """Curves of the rows from .. to; of row i and the k-th wanted feature the steps ``start[i, k] : start[i, k+1]``.

    A step is the class from which on the curve has a value; every curve has one at class 0.
    """

    rows: slice
    start: NDArray[np.int64]  # (b, wanted + 1)
    classes: NDArray[np.int32]
    raw: NDArray[np.int64]  # (steps, outputs)
    own: NDArray[np.int64]  # (b, outputs): with nothing replaced


class Search(Protocol):
    """It keeps arrays that are used again: one for each thread."""

    def steps(self, start: int, stop: int) -> Iterator[RawSteps]:
        """The curves of rows start .. stop, some rows at a time; the arrays are used again for the next ones."""


Ints = NDArray[np.int32]
Images = Mapping[int, tuple[NDArray[np.intp], Floats]]  # column of the table -> columns of the estimator, their values
MOST_SETS = 10**8  # categories times nodes: a byte each
FIXED_BITS = 61  # of 63: sums of all trees fit with a bit to spare


@dataclass(frozen=True, eq=False)
class BoundEnsemble:
    """Trees and rows in the same language; `features` are columns of the user's table, numbered 0 .. p-1."""

    nodes: Ints  # (N, 7), see `rules`
    roots: Ints  # (T,)
    leaf_at: Ints  # (T + 1,): the first leaf of each tree
    value: NDArray[np.int64]  # (leaves, W), in units of `unit`
    output: Ints  # (T,)
    unit: Floats  # (outputs,)
    codes: Ints  # (p, n): the class of each row
    size: Ints  # (p,): classes
    special: Ints  # (p,): classes from here on are looked at one by one: the missing value, or all of them
    sets: NDArray[np.uint8]  # (sets, classes): whether a class goes left
    class_of: tuple[Ints, ...]  # (p,) of (g,): the class of each distinct value
    depth: int
    ensemble: Ensemble

    def respond(self, raw: NDArray[np.int64]) -> NDArray[Any]:
        """What the model would say, from sums of leaves (m, outputs)."""
        scores = raw * self.unit
        scores += self.ensemble.offset
        if self.ensemble.divisor != 1:
            scores /= self.ensemble.divisor
        return self.ensemble.link(scores)


def bind(ensemble: Ensemble, distinct: Sequence[Distinct], images: Images) -> BoundEnsemble:
    """Bind an ensemble to the distinct values of a table's columns."""
    nodes = np.zeros((len(ensemble.feature), node_rules.COLUMNS), np.int32)
    nodes[:, node_rules.FEATURE] = -1
    nodes[:, node_rules.RIGHT] = ensemble.right
    by_feature = _nodes_of(ensemble.feature)
    p = len(distinct)
    size, special = np.ones(p, np.int32), np.ones(p, np.int32)
    class_of, sets = [], _Sets()
    for j, values in enumerate(distinct):
        at, image = images.get(j, (np.empty(0, np.intp), np.empty((len(values), 0))))
        asked = [(image[:, c], by_feature[column]) for c, column in enumerate(at) if column in by_feature]
        axis = _Axis(ensemble, len(values), asked)
        axis.write(nodes, j, sets)
        class_of.append(axis.class_of)
        size[j], special[j] = axis.size, axis.special
    if np.any((ensemble.feature >= 0) & (nodes[:, node_rules.FEATURE] < 0)):
        raise Declined("its trees ask for a column that the table doesn't have")
    codes = np.stack([known[values.codes] for known, values in zip(class_of, distinct, strict=True)])
    value, unit = _fixed_point(ensemble)
    leaf_at = np.append(np.searchsorted(_leaf_nodes(ensemble), ensemble.roots), len(value)).astype(np.int32)
    depth = _frame(nodes, ensemble.roots, special)
    return BoundEnsemble(
        nodes=nodes,
        roots=ensemble.roots,
        leaf_at=leaf_at,
        value=value,
        output=ensemble.output,
        unit=unit,
        codes=codes,
        size=size,
        special=special,
        sets=sets.table(),
        class_of=tuple(class_of),
        depth=depth,
        ensemble=ensemble,
    )


def _nodes_of(feature: NDArray[np.int32]) -> dict[int, NDArray[np.intp]]:
    """The nodes that ask for each feature."""
    order = np.argsort(feature.astype(np.int16) if feature.max(initial=0) < 2**15 else feature, kind="stable")
    ends = np.cumsum(np.bincount(feature + 1))  # of the leaves, then of each feature's nodes
    parts = np.split(order, ends[:-1])[1:]
    return {f: part for f, part in enumerate(parts) if len(part)}


def _leaf_nodes(ensemble: Ensemble) -> NDArray[np.intp]:
    return np.flatnonzero(ensemble.feature < 0)


def _fixed_point(ensemble: Ensemble) -> tuple[NDArray[np.int64], Floats]:
    """Leaves as whole numbers of a unit, a power of two so small that only the last bits of a sum are lost."""
    value, roots = ensemble.value, ensemble.roots
    if not np.isfinite(value).all():
        raise Declined("a leaf holds no finite number")
    largest = np.maximum.reduceat(np.abs(value).max(axis=1), np.searchsorted(_leaf_nodes(ensemble), roots))
    unit = 2.0 ** (np.ceil(np.log2(max(largest.sum(), 1e-300))) - FIXED_BITS)
    return np.rint(value / unit).astype(np.int64), np.full(ensemble.outputs, unit)


class _Sets:
    """Which classes go left at nodes whose classes are no interval."""

    def __init__(self) -> None:
        self.rows: list[NDArray[np.bool_]] = []

    def add(self, goes_left: NDArray[np.bool_]) -> int:
        self.rows.append(goes_left)
        return node_rules.SETS + len(self.rows) - 1

    def table(self) -> NDArray[np.uint8]:
        table = np.zeros((max(1, len(self.rows)), max(map(len, self.rows), default=1)), np.uint8)
        for row, goes_left in zip(table, self.rows, strict=False):
            row[: len(goes_left)] = goes_left
        return table


Asked = tuple[Floats, NDArray[np.intp]]  # a column's numbers at each distinct value, and the nodes that compare them


class _Axis:
    """One column of the table: its distinct values, as the nodes that ask for it tell them apart.

    Where there is an order of the values in which the numbers that trees compare rise, each node cuts them in two, and
    values between two cuts are a class; a missing value, the last, is a class of its own. Otherwise (categories,
    columns made of several) values that all nodes treat alike are a class, and each is looked at by itself.
    """

    def __init__(self, ensemble: Ensemble, g: int, asked: Sequence[Asked]) -> None:
        self.ensemble, self.g, self.asked = ensemble, g, asked
        if any(np.isnan(numbers).any() for numbers, _ in asked) and not ensemble.accepts_missing:
            raise Declined("it was fitted without missing values, and the table has some")
        self.missing = bool(asked) and bool(np.isnan(asked[0][0]).any())
        self.rules: list[NDArray[np.bool_]] = []  # of each column asked for, (nodes, classes), where there is no order
        order = self._order()
        if order is None:
            self._by_sets()
        else:
            self._by_cuts(order)

    def _order(self) -> NDArray[np.intp] | None:
        """An order in which all numbers rise, missing values last; None where there is none, or a node has a set."""
        if not self.asked:
            return np.arange(self.g)
        first = self.asked[0][0]
        order, kept = np.argsort(first, kind="stable"), self.g - int(np.isnan(first).sum())
        for numbers, at in self.asked:
            if self.ensemble.in_set is not None and np.any(self.ensemble.in_set[at] >= 0):
                return None
            ranked = numbers[order]
            if (
                not (np.all(ranked[1:kept] >= ranked[: kept - 1]) and np.isnan(ranked[kept:]).all())
                or np.isnan(ranked[:kept]).any()
            ):
                return None
        return order

    def _by_cuts(self, order: NDArray[np.intp]) -> None:
        kept = self.g - (int(np.isnan(self.asked[0][0]).sum()) if self.asked else 0)
        side: Literal["left", "right"] = "left" if self.ensemble.strict else "right"
        threshold = self.ensemble.threshold
        self.cuts = [np.searchsorted(numbers[order[:kept]], threshold[at], side) for numbers, at in self.asked]
        begins = np.zeros(self.g + 1, np.int32)
        for cut in self.cuts:
            begins[cut] = 1
        begins[0] = 0
        begins[kept] = self.missing and kept > 0
        ranked = np.cumsum(begins[: self.g], dtype=np.int32)
        self.class_of = np.empty(self.g, np.int32)
        self.class_of[order] = ranked
        self.before = np.append(0, ranked + 1)  # classes among the first values
        self.size = int(ranked[-1]) + 1
        self.special = self.size - self.missing

    def _by_sets(self) -> None:
        if sum(len(at) for _, at in self.asked) * self.g > MOST_SETS:
            raise Declined(f"too many of its nodes ask for a column of {self.g} categories")
        every = [np.stack([self._goes_left(numbers, s) for s in at]) for numbers, at in self.asked]
        seen = np.packbits(np.concatenate(every), axis=0).T
        _, first, alike = np.unique(seen, axis=0, return_index=True, return_inverse=True)
        self.class_of = alike.reshape(-1).astype(np.int32)
        self.rules = [rule[:, first] for rule in every]
        self.size, self.special = len(first), 0

    def write(self, nodes: Ints, j: int, sets: _Sets) -> None:
        """Fill in the nodes that ask for this column."""
        for k, (_, at) in enumerate(self.asked):
            nodes[at, node_rules.FEATURE] = j
            if self.rules:
                nodes[at, node_rules.RULE] = [sets.add(rule) for rule in self.rules[k]]
                continue
            nodes[at, node_rules.CUT] = self.before[self.cuts[k]]
            if self.missing:
                nodes[at, node_rules.RULE] = np.where(
                    self.ensemble.missing_left[at], node_rules.MISSING_LEFT, node_rules.PLAIN
                )

    def _goes_left(self, numbers: Floats, s: int) -> NDArray[np.bool_]:
        ensemble = self.ensemble
        if ensemble.in_set is not None and ensemble.in_set[s] >= 0:
            left = np.isin(numbers, ensemble.sets[ensemble.in_set[s]])
        elif ensemble.strict:
            left = numbers < ensemble.threshold[s]
        else:
            left = numbers <= ensemble.threshold[s]
        return np.where(np.isnan(numbers), ensemble.missing_left[s], left)


def _frame(nodes: Ints, roots: Ints, special: Ints) -> int:
    """Fill in what each node can be reached with; the longest path."""
    room = 64
    while True:
        depth = int(node_rules.frame(nodes, roots, special, np.empty((room, 2), np.int32)))
        if depth >= 0:
            return depth
        room *= 4
