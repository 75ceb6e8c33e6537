"""An ensemble bound to a table: thresholds become cuts between classes of values, leaf values become integers.

Values of a feature that no node separates are one *class*. A row is then a few small integers, and a curve has one
value per class, however many distinct values there are. A `Search` computes such curves.

Sums of integers are exact in any order. A leaf value becomes a multiple of a unit so small that only the last bits of
the sum of the largest leaves are lost. A loss may depend on the relative error of a small prediction (a deviance, a
logarithm): then trees with leaves of very different sizes are declined.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from losslens.engines.base import Declined
from losslens.engines.readers.ensemble import Ensemble, is_affine
from losslens.engines.readers.pipelines import UnwrappedModel
from losslens.engines.trees import node_rules
from losslens.progress import Tick
from losslens.tables.columns import ClassRuns, Column, Distinct
from losslens.tables.frames import Table
from losslens.typing import Floats
from losslens.workers import Serial, Workers

if TYPE_CHECKING:
    from losslens.engines.trees.small_trees import Tables

FEW = 64  # rows whose leaves NumPy looks up, without a kernel: every call compares so many with the model
STEPS_PER_YIELD = 1 << 16  # steps that a search yields at a time, about: they stay in the processor's cache


@dataclass(frozen=True, eq=False)
class RawSteps:
    """Curves of some rows; row i has for the k-th requested feature the steps ``start[i, k] : start[i, k+1]``.

    A step is the first class at which the curve has a value; every curve has a step at class 0.
    """

    rows: slice
    start: NDArray[np.int64]  # (b, requested + 1)
    classes: NDArray[np.int32]
    raw: NDArray[np.int64]  # (steps, outputs)
    own: NDArray[np.int64]  # (b, outputs): at the row's own values


class Search(Protocol):
    """Computes curves of rows. It reuses its arrays, so each thread needs its own."""

    def steps(self, start: int, stop: int) -> Iterator[RawSteps]:
        """Curves of rows start .. stop, some rows at a time; the arrays are overwritten by the next ones."""


Ints = NDArray[np.int32]
Image = tuple[NDArray[np.intp], Floats]  # columns of the estimator, and their values
Images = Callable[[int], Image | None]  # of a column of the table; None if no tree compares it
MAX_SET_BYTES = 10**8  # categories times nodes of a column, one byte each


@dataclass(frozen=True, eq=False)
class BoundEnsemble:
    """Trees and rows in terms of classes; features are columns of the user's table, numbered 0 .. p-1."""

    nodes: Ints  # (N, 4), see `node_rules`
    roots: Ints  # (T,)
    leaf_at: Ints  # (T + 1,): the first leaf of each tree
    value: NDArray[np.int64]  # (leaves, W), in units of `unit`
    output: Ints  # (T,)
    unit: Floats  # (outputs,)
    codes: Ints  # (p, n): the class of each row
    size: Ints  # (p,): number of classes
    special: Ints  # (p,): classes from here on have no order: the missing value, or all classes of categories
    sets: NDArray[np.uint8]  # (sets, classes): whether a class goes left
    class_of: tuple[ClassRuns, ...]  # (p,): of the distinct values of each column
    ensemble: Ensemble

    @property
    def trees(self) -> tuple[NDArray[Any], ...]:
        """The arrays that kernels take, of the type `node_rules.TREES`."""
        return self.nodes, self.roots, self.size, self.special, self.sets, self.leaf_at, self.value, self.output

    @cached_property
    def is_small(self) -> bool:
        """Whether every tree has few enough leaves for `tables`."""
        return int(np.diff(self.leaf_at).max()) <= node_rules.SMALL_TREE_LEAVES

    @cached_property
    def tables(self) -> Tables | None:
        """The masks of small trees; None if a tree is too large for them."""
        if not self.is_small:
            return None
        from losslens.engines.trees.small_trees import tables  # of bound ensembles

        return tables(self)

    @cached_property
    def depth(self) -> int:
        """The length of the longest path."""
        depth, level = 0, self.roots
        while len(level := level[self.nodes[level, node_rules.FEATURE] >= 0]):
            depth, level = depth + 1, np.concatenate([level + 1, self.nodes[level, node_rules.RIGHT]])
        return depth

    def sums_of(self, codes: Ints) -> NDArray[np.int64]:
        """Sums of leaf values of rows with these classes, (m, outputs)."""
        raw = np.zeros((codes.shape[1], self.ensemble.outputs), np.int64)
        if codes.shape[1] > FEW:
            no_values = np.zeros((len(codes), 1), np.int32)
            node_rules.walk_pairs(
                self.trees, np.zeros(len(codes), np.bool_), np.ascontiguousarray(codes), no_values, raw[:, None]
            )
            return raw
        tree, row = (part.ravel() for part in np.indices((len(self.roots), codes.shape[1])))
        node_of = self.roots[tree]
        while len(inner := np.flatnonzero(self.nodes[node_of, node_rules.FEATURE] >= 0)):
            fields = self.nodes[node_of[inner]]
            feature, rule = fields[:, node_rules.FEATURE], fields[:, node_rules.RULE]
            code = codes[feature, row[inner]]
            left = code < fields[:, node_rules.CUT]
            left |= (rule == node_rules.MISSING_LEFT) & (code == self.size[feature] - 1)
            by_set = rule >= node_rules.SETS
            left[by_set] = self.sets[rule[by_set] - node_rules.SETS, code[by_set]] != 0
            node_of[inner] = np.where(left, node_of[inner] + 1, fields[:, node_rules.RIGHT])
        leaf = self.nodes[node_of, node_rules.RIGHT]
        for w in range(self.value.shape[1]):
            np.add.at(raw, (row, self.output[tree] + w), self.value[leaf, w])
        return raw

    def respond(self, raw: NDArray[np.int64], room: Floats | None = None) -> NDArray[Any]:
        """The model's predictions, from sums of leaf values (m, outputs); written to `room` if they are these sums."""
        return self.ensemble.link(self.scores(raw, room))

    def scores(self, raw: NDArray[np.int64], room: Floats | None = None) -> Floats:
        """The raw outputs, from sums of leaf values (..., outputs)."""
        scores = np.multiply(raw, self.unit, out=room)
        scores += self.ensemble.offset
        if self.ensemble.divisor != 1:
            scores /= self.ensemble.divisor
        return scores


def tree_images(
    ensemble: Ensemble, unwrapped: UnwrappedModel, table: Table, requested: Mapping[int, tuple[Column, Distinct]]
) -> Images:
    """The numbers that trees compare, at the distinct values of a column."""
    width = len(unwrapped.source)
    if unwrapped.transform is None:  # computed for one column at a time
        used = {column % width for column in ensemble.nodes_of} & requested.keys()
        return lambda j: _copies(ensemble, width, np.array([j]), [requested[j][1].values]) if j in used else None
    images = unwrapped.images(table, {j: (column, distinct.first) for j, (column, distinct) in requested.items()})
    compared = {
        j: _copies(ensemble, width, places, [values[:, k] for k in range(len(places))])
        for j, (places, values) in images.items()
        if len(places)
    }
    return compared.get


def _copies(ensemble: Ensemble, width: int, places: NDArray[np.intp], values: Sequence[NDArray[Any]]) -> Image:
    """The columns of the estimator, in each copy of them that trees compare, and their numbers."""
    columns = np.concatenate([places + copy * width for copy in range(ensemble.copies)])
    numbers = [ensemble.numbers(int(c), values[k % len(places)]) for k, c in enumerate(columns)]
    return columns, np.stack(numbers, axis=1)


def bind(
    ensemble: Ensemble,
    n: int,
    distinct: Sequence[Distinct],
    images: Images,
    workers: Workers | None = None,
) -> BoundEnsemble:
    """Bind an ensemble to the distinct values of a table's columns, of n rows; the workers are threads, or this one."""
    nodes = np.zeros((len(ensemble.feature), node_rules.COLUMNS), np.int32)
    nodes[:, node_rules.FEATURE] = -1
    nodes[:, node_rules.RIGHT] = ensemble.right
    p = len(distinct)
    size, special = np.ones(p, np.int32), np.ones(p, np.int32)
    class_of: list[ClassRuns] = []
    sets: list[NDArray[np.bool_]] = []  # which classes go left, at nodes where these are not an interval
    codes = np.empty((p, n), np.int32)
    shared = ensemble, distinct, images, codes
    for j, (classes, runs) in enumerate((workers or Serial()).map(_bind_column, shared, range(p))):
        classes.write(nodes, j, sets)
        class_of.append(runs)
        size[j], special[j] = classes.size, classes.special
    if np.any((ensemble.feature >= 0) & (nodes[:, node_rules.FEATURE] < 0)):
        raise Declined("its trees use a column that the table doesn't have")
    left = np.zeros((max(1, len(sets)), max(map(len, sets), default=1)), np.uint8)
    for row, goes_left in zip(left, sets, strict=False):
        row[: len(goes_left)] = goes_left
    value, unit = fixed_point(ensemble)
    leaf_at = np.append(ensemble.first_leaf, len(value)).astype(np.int32)
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
        sets=left,
        class_of=tuple(class_of),
        ensemble=ensemble,
    )


def _bind_column(
    shared: tuple[Ensemble, Sequence[Distinct], Images, Ints], j: int, _: Tick
) -> tuple[_ColumnClasses, ClassRuns]:
    """The classes of a column, and of each of its values; the class of each row is written to ``codes[j]``."""
    ensemble, distinct, images, codes = shared
    values = distinct[j]
    columns, image = images(j) or (np.empty(0, np.intp), np.empty((len(values), 0)))
    nodes_of = ensemble.nodes_of
    compared = [(image[:, c], nodes_of[column]) for c, column in enumerate(columns) if column in nodes_of]
    classes = _ColumnClasses(ensemble, len(values), compared)
    codes[j] = classes.class_of[values.codes]
    return classes, ClassRuns.of(classes.class_of, classes.size)


def _cuts(values: Floats, thresholds: Floats, side: Literal["left", "right"]) -> NDArray[np.intp]:
    """The place of each threshold among sorted values; in order, so that successive searches read the same memory."""
    order, cuts = np.argsort(thresholds), np.empty(len(thresholds), np.intp)
    cuts[order] = np.searchsorted(values, thresholds[order], side)
    return cuts


Compared = tuple[Floats, NDArray[np.intp]]  # a column's numbers at each distinct value, and the nodes that compare them


class _ColumnClasses:
    """The distinct values of one column of the table, grouped by what the nodes that compare it can separate.

    If all numbers that trees compare increase in some order of the values, each node cuts this order in two, and values
    between two cuts are a class; a missing value comes last and is a class of its own. Otherwise (categories, or
    several columns made of one) values that all nodes treat alike are a class, and classes have no order.
    """

    def __init__(self, ensemble: Ensemble, g: int, compared: Sequence[Compared]) -> None:
        self.ensemble, self.g, self.compared = ensemble, g, compared
        if any(np.isnan(numbers).any() for numbers, _ in compared) and not ensemble.accepts_missing:
            raise Declined("it was fitted without missing values, but the table has some")
        self.missing = bool(compared) and bool(np.isnan(compared[0][0]).any())
        self.rules: list[NDArray[np.bool_]] = []  # of each compared column, (nodes, classes), if there is no order
        order = self._order()
        if order is None:
            self._by_sets()
        else:
            self._by_cuts(order)

    def _order(self) -> NDArray[np.intp] | None:
        """An order in which all numbers increase, missing values last; None if there is none, or a node has a set."""
        if not self.compared:
            return np.arange(self.g)
        first = self.compared[0][0]
        order, kept = np.argsort(first, kind="stable"), self.g - int(np.isnan(first).sum())
        for numbers, nodes in self.compared:
            if self.ensemble.in_set is not None and np.any(self.ensemble.in_set[nodes] >= 0):
                return None
            ranked = numbers[order]
            if (
                not (np.all(ranked[1:kept] >= ranked[: kept - 1]) and np.isnan(ranked[kept:]).all())
                or np.isnan(ranked[:kept]).any()
            ):
                return None
        return order

    def _by_cuts(self, order: NDArray[np.intp]) -> None:
        kept = self.g - (int(np.isnan(self.compared[0][0]).sum()) if self.compared else 0)
        side: Literal["left", "right"] = "left" if self.ensemble.strict else "right"
        threshold = self.ensemble.threshold
        self.cuts = [_cuts(numbers[order[:kept]], threshold[nodes], side) for numbers, nodes in self.compared]
        starts_class = np.zeros(self.g + 1, np.int32)
        for cut in self.cuts:
            starts_class[cut] = 1
        starts_class[0] = 0
        starts_class[kept] = self.missing and kept > 0
        ranked = np.cumsum(starts_class[: self.g], dtype=np.int32)
        self.class_of = np.empty(self.g, np.int32)
        self.class_of[order] = ranked
        self.before = np.append(np.int32(0), ranked + np.int32(1))  # number of classes among the first k values
        self.size = int(ranked[-1]) + 1
        self.special = self.size - self.missing

    def _by_sets(self) -> None:
        if sum(len(nodes) for _, nodes in self.compared) * self.g > MAX_SET_BYTES:
            raise Declined(f"too many of its nodes split a column of {self.g} categories")
        goes_left = [np.stack([self._goes_left(numbers, s) for s in nodes]) for numbers, nodes in self.compared]
        patterns = np.packbits(np.concatenate(goes_left), axis=0).T
        _, first, alike = np.unique(patterns, axis=0, return_index=True, return_inverse=True)
        self.class_of = alike.reshape(-1).astype(np.int32)
        self.rules = [rule[:, first] for rule in goes_left]
        self.size, self.special = len(first), 0

    def write(self, nodes: Ints, j: int, sets: list[NDArray[np.bool_]]) -> None:
        """Fill in the nodes that compare this column."""
        for k, (_, compared) in enumerate(self.compared):
            nodes[compared, node_rules.FEATURE] = j
            if self.rules:
                nodes[compared, node_rules.RULE] = node_rules.SETS + len(sets) + np.arange(len(compared))
                sets.extend(self.rules[k])
                continue
            nodes[compared, node_rules.CUT] = self.before[self.cuts[k]]
            if self.missing:
                nodes[compared, node_rules.RULE] = np.where(
                    self.ensemble.missing_left[compared], node_rules.MISSING_LEFT, node_rules.PLAIN
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


# Leaf values as integers.


FIXED_BITS = 61  # of 63: the sum over all trees fits, with a bit to spare
PRECISION = 1e-10  # of predictions; 1e-9 of the mean losses is promised
FAR_APART = "the values of its leaves are too many orders of magnitude apart to be added up as integers"


def fixed_point(ensemble: Ensemble) -> tuple[NDArray[np.int64], Floats]:
    """Leaf values as integers, (leaves, W), and their unit, a power of two, in each output."""
    unit = _unit(ensemble)
    return np.rint(ensemble.value / unit).astype(np.int64), np.resize(unit, ensemble.outputs)


def check_digits(ensemble: Ensemble) -> None:
    """Raise `Declined` unless predictions keep their digits if each leaf value is rounded to its unit.

    Leaves of one sign don't cancel: every sum of one leaf of each tree has a relative error of at most q, if over the
    trees the largest values of |error| - q |value| have a sum of at most 0. Leaves of both signs have no such bound,
    nor has a prediction near 0 a relative error to speak of. Behind a link that is not linear, such as an exponential,
    an error of a sum is a relative error of the prediction.
    """
    unit, value, offset, trees = _unit(ensemble), ensemble.value, ensemble.offset, len(ensemble.roots)
    most = trees * float(unit.max()) / 2  # of the error of a sum
    small = most <= PRECISION * ensemble.divisor
    one_sign = (value.min() >= 0 and offset.min() >= 0) or (value.max() <= 0 and offset.max() <= 0)
    if one_sign:
        small &= most <= PRECISION * trees * min(abs(float(value.min())), abs(float(value.max())))
    if small:
        return
    error = np.abs(value - np.rint(value / unit) * unit)
    if one_sign and np.any(_largest_sums(ensemble, error - PRECISION * np.abs(value)) > PRECISION * np.abs(offset)):
        raise Declined(FAR_APART)
    absolute = bool(np.all(_largest_sums(ensemble, error) <= PRECISION * ensemble.divisor))
    if not (absolute or is_affine(ensemble.link, ensemble.outputs)):
        raise Declined(FAR_APART)


def _unit(ensemble: Ensemble) -> Floats:
    """The unit of each column of leaf values, (W,)."""
    if not np.isfinite(ensemble.value).all():
        raise Declined("the value of a leaf is not finite")
    largest = np.maximum.reduceat(np.abs(ensemble.value), ensemble.first_leaf, axis=0).sum(axis=0)
    return np.asarray(2.0 ** (np.ceil(np.log2(np.maximum(largest, 1e-300))) - FIXED_BITS))


def _largest_sums(ensemble: Ensemble, of_leaves: Floats) -> Floats:
    """The largest sum over the trees of what each has at one of its leaves, (leaves, W), in each output."""
    largest = np.maximum.reduceat(of_leaves, ensemble.first_leaf, axis=0)
    if largest.shape[1] == ensemble.outputs:
        return np.asarray(largest.sum(axis=0))
    return np.asarray(np.bincount(ensemble.output, largest[:, 0], ensemble.outputs), np.float64)
