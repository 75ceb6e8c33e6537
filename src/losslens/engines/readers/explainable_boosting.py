"""Explainable boosting machines of interpret: tables of scores over bins of one column, of two, or of more.

A table is a tree that looks for the bin of each of its columns in turn. Without tables of several columns the model is
a sum of functions of one column each, which is cheaper.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from losslens.engines.base import Declined, ReadModel
from losslens.engines.linked_sums import ColumnFunctions, LinkedLinear
from losslens.engines.readers import ensemble
from losslens.engines.readers.layout import Ints, Nodes, codes, in_preorder, numbers
from losslens.engines.readers.linear import Linear
from losslens.engines.readers.recognition import kind_of
from losslens.engines.sum_losses import Link
from losslens.losses import Response
from losslens.models import Model
from losslens.tables.columns import is_missing
from losslens.typing import Floats

MACHINES = ("interpret.ExplainableBoostingRegressor", "interpret.ExplainableBoostingClassifier")
_TRANSFORMS = {
    "identity": ensemble.identity,
    "log": ensemble.exp,
    "logit": ensemble.logistic,
    "mlogit": ensemble.softmax,
}
_LINKS: dict[str, Link] = {"log": "log", "logit": "logistic"}


def read_explainable_boosting(model: Model, response: Response) -> ReadModel | None:
    """A sum of functions of single columns, or of trees; None if it is another model, or not fitted."""
    if kind_of(model.native) not in MACHINES or not hasattr(model.native, "term_scores_"):
        return None
    try:
        return _read(model.native, response)
    except (AttributeError, IndexError, KeyError) as error:
        raise Declined("this version of interpret stores its terms in a format that losslens can't read") from error


def _read(machine: Any, response: Response) -> ReadModel:
    link, offset = machine.link_, np.atleast_1d(np.asarray(machine.intercept_, np.float64))
    if link not in _TRANSFORMS or response not in ("values", "scores", "probabilities", "labels"):
        raise Declined(f"the {response} of interpret's link {link!r} are not supported")
    if response == "labels" and len(offset) > 1:
        raise Declined(ensemble.TIES)
    axes = _Axes(machine.bins_, machine.feature_types_in_)
    terms = list(zip(machine.term_features_, machine.term_scores_, strict=True))
    if not terms:
        raise Declined("it has no terms, and predicts a constant")
    if len(offset) == 1 and all(len(columns) == 1 and axes.is_numeric(columns[0]) for columns, _ in terms):
        return _sums(terms, axes, link, offset, response)
    return _trees(terms, axes, link, offset, response)


@dataclass(frozen=True, eq=False)
class _Axes:
    """The cuts between the bins of each column, which depend on how many columns a table has."""

    bins: Sequence[Sequence[Any]]
    types: Sequence[str]

    def level(self, column: int, dimensions: int) -> Any:
        """Cuts, or the bin of each category; tables of two columns may have fewer bins."""
        levels = self.bins[column]
        return levels[min(len(levels), dimensions) - 1]

    def is_numeric(self, column: int) -> bool:
        """Whether its values are numbers, or categories that are written as whole numbers."""
        return self.types[column] == "continuous" or all(key.isdecimal() for key in self.categories(column))

    def categories(self, column: int) -> list[str]:
        """The categories of a column, of all levels: one level may have more of them than another."""
        return list(dict.fromkeys(key for level in self.bins[column] for key in level))

    def leaves(self, column: int, dimensions: int) -> tuple[Floats, Ints]:
        """The numbers of `encode` at which bins change, and the bin on each side, that of missing values last."""
        level = self.level(column, dimensions)
        if self.types[column] == "continuous":
            return np.asarray(level, np.float64), np.append(np.arange(1, len(level) + 2), 0)
        bins = [level.get(key, -1) for key in self.categories(column)]
        return np.arange(1.0, len(bins) + 1), np.array([*bins, -1, 0])

    def encode(self, column: int, values: NDArray[Any]) -> Floats:
        """Values as they are compared: categories by position, unknown ones after all others, missing ones as NaN."""
        if self.types[column] == "continuous":
            return np.minimum(numbers(values), np.finfo(np.float64).max)  # which leaves infinity to missing values
        if values.dtype.kind in "mM" or (values.dtype.kind == "f" and values.dtype != np.float64):
            raise Declined(f"a column of categories holds {values.dtype}")
        place = {key: float(position) for position, key in enumerate(self.categories(column))}
        some, inverse = np.unique(values, return_inverse=True) if values.dtype.kind in "biuf" else (values, slice(None))
        keys = np.empty(len(some), object)
        keys[:] = [_key(value) for value in some.tolist()]
        return codes(keys, place, np.nan, float(len(place)))[inverse]


def _key(value: Any) -> Any:
    """A category as interpret writes it."""
    if isinstance(value, str):
        if value.strip() != value or not value:
            raise Declined("a category is empty, or begins or ends with a blank")
        return value
    if is_missing(value):
        return None
    if not isinstance(value, (bool, int, float)):
        raise Declined(f"a category is a {type(value).__name__}, neither text nor a number")
    return str(value + 0.0).removesuffix(".0") if isinstance(value, float) else str(value)


Term = tuple[Sequence[int], Floats]


# Functions of single columns.


def _sums(terms: Sequence[Term], axes: _Axes, link: str, offset: Floats, response: Response) -> ReadModel:
    column = np.array([columns[0] for columns, _ in terms], np.intp)
    tables = [(*axes.leaves(columns[0], 1), np.asarray(scores, np.float64).reshape(-1)) for columns, scores in terms]
    functions = ColumnFunctions(column, partial(_scores, axes, column, tables))
    if response == "labels":
        return LinkedLinear(np.ones((1, len(column))), offset, "sign", response, functions)
    if link == "identity" or response == "scores":
        return Linear(np.ones((1, len(column))), offset, functions=functions)
    return LinkedLinear(np.ones((1, len(column))), offset, _LINKS[link], response, functions)


def _scores(axes: _Axes, column_of: Ints, tables: Sequence[tuple[Floats, Ints, Floats]], X: Floats) -> Floats:
    added = np.empty((len(X), len(column_of)))
    for k, (j, (cuts, bins, scores)) in enumerate(zip(column_of, tables, strict=True)):
        x = axes.encode(int(j), X[:, j])
        leaf = np.where(np.isnan(x), len(bins) - 1, np.searchsorted(cuts, x, side="right"))
        added[:, k] = scores[bins[leaf]]
    return added


# Trees.


@dataclass(frozen=True, eq=False)
class _SearchTree:
    """Nodes in preorder; a leaf's feature is -1."""

    feature: Ints
    threshold: Floats
    right: Ints  # position of the right child

    def then(self, other: _SearchTree) -> _SearchTree:
        """Another tree in place of each leaf."""
        leaf = self.feature < 0
        start = np.concatenate([[0], np.cumsum(np.where(leaf, len(other.feature), 1))])
        feature, threshold = np.empty(start[-1], np.int64), np.empty(start[-1])
        right, inner = np.empty(start[-1], np.int64), start[:-1][~leaf]
        feature[inner], threshold[inner] = self.feature[~leaf], self.threshold[~leaf]
        right[inner] = start[self.right[~leaf]]
        copies = start[:-1][leaf][:, None] + np.arange(len(other.feature))
        feature[copies], threshold[copies], right[copies] = other.feature, other.threshold, copies[:, :1] + other.right
        return _SearchTree(feature, threshold, right)


def _search(column: int, cuts: Floats) -> _SearchTree:
    """The tree that looks for a number among sorted cuts; missing values turn right at the root."""
    nodes: list[tuple[int, float, int]] = [(column, np.inf, 2 * len(cuts) + 2)]

    def look(first: int, last: int) -> None:
        """Between these cuts; a tree of m cuts has 2 m + 1 nodes."""
        if first == last:
            nodes.append((-1, np.nan, -1))
            return
        middle = (first + last) // 2
        nodes.append((column, float(cuts[middle]), len(nodes) + 2 * (middle - first) + 2))
        look(first, middle)
        look(middle + 1, last)

    look(0, len(cuts))
    feature, threshold, right = zip(*nodes, (-1, np.nan, -1), strict=True)
    return _SearchTree(np.array(feature), np.array(threshold), np.array(right))


def _trees(terms: Sequence[Term], axes: _Axes, link: str, offset: Floats, response: Response) -> ensemble.Ensemble:
    trees, values = [], []
    for columns, scores in terms:
        leaves = [axes.leaves(column, len(columns)) for column in columns]
        searches = [_search(int(column), cuts) for column, (cuts, _) in zip(columns, leaves, strict=True)]
        trees.append(reduce(_SearchTree.then, searches))
        values.append(np.asarray(scores, np.float64)[np.ix_(*(bins for _, bins in leaves))].reshape(-1, len(offset)))
    roots = np.cumsum([0, *(len(tree.feature) for tree in trees)])[:-1]
    feature = np.concatenate([tree.feature for tree in trees])
    inner, first = feature >= 0, np.repeat(roots, [len(tree.feature) for tree in trees])
    left = np.where(inner, np.arange(len(feature)) + 1, -1)
    right = np.where(inner, np.concatenate([tree.right for tree in trees]) + first, -1)
    threshold, missing_left = np.concatenate([tree.threshold for tree in trees]), np.zeros(len(feature), np.bool_)
    forest = in_preorder(Nodes(roots, left, right, feature, threshold, missing_left))
    transform = {"scores": ensemble.identity, "labels": ensemble.step}.get(response, _TRANSFORMS[link])
    return forest.ensemble(
        value=np.concatenate(values),
        output=np.zeros(len(roots)),
        offset=offset,
        link=partial(ensemble.respond, transform, response, np.float64),
        strict=True,
        encode=axes.encode,
    )
