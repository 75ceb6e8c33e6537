"""CatBoost, read from the JSON in which it saves a model.

An oblivious tree tests the same condition at all nodes of a level; the results are the bits of the leaf's number. It is
written out as an ordinary tree. A condition is that a number is above a border, or that a category is a certain one,
which the model stores by its hash.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from losslens.engines.base import Declined
from losslens.engines.readers import ensemble
from losslens.engines.readers.cityhash import hash_of
from losslens.engines.readers.ensemble import Array, Ensemble, Transform
from losslens.engines.readers.layout import (
    Ints,
    Link,
    Nodes,
    PreorderForest,
    complete_tree,
    in_preorder,
    single_numbers,
    starts_of,
)
from losslens.engines.readers.recognition import kind_of
from losslens.losses import Response
from losslens.models import Model
from losslens.typing import Floats

CATBOOST = ("CatBoost", "CatBoostRegressor", "CatBoostClassifier", "CatBoostRanker")

_LINKS: Mapping[str, Transform] = {
    **dict.fromkeys(("RMSE", "MAE", "MAPE", "Quantile", "LogLinQuantile", "Expectile"), ensemble.identity),
    **dict.fromkeys(("Huber", "Lq", "LogCosh", "PythonUserDefinedPerObject"), ensemble.identity),
    **dict.fromkeys(("QueryRMSE", "YetiRank", "YetiRankPairwise", "PairLogit", "PairLogitPairwise"), ensemble.identity),
    **dict.fromkeys(("Poisson", "Tweedie"), ensemble.exp),
    **dict.fromkeys(("Logloss", "CrossEntropy", "MultiClassOneVsAll"), ensemble.logistic),
    "MultiClass": ensemble.softmax,
}
_KNOWN = ("float_features", "categorical_features")
STATISTICS = (
    "its trees compare statistics of the target within categories; "
    "one_hot_max_size= says up to how many categories are compared themselves"
)


def read_catboost(model: Model, response: Response) -> Ensemble:
    """A CatBoost model."""
    native = model.native
    kind_of(native._object)  # declined unless it is the library's own
    saved = _saved(native)
    columns = _FeatureColumns(saved["features_info"])
    scale, bias = saved["scale_and_bias"]
    if len(bias) > 1 and response in ("values", "labels"):
        raise Declined("it has several outputs" if response == "values" else ensemble.TIES)
    if "oblivious_trees" in saved:
        trees = [_oblivious(tree, columns, len(bias)) for tree in saved["oblivious_trees"]]
    else:
        trees = [_grown(tree, columns, len(bias)) for tree in saved["trees"]]
    if not trees:
        raise Declined("it has no trees")
    forest = _gathered(trees)
    return forest.ensemble(
        value=scale * np.concatenate([tree.value for tree in trees])[forest.leaves],
        output=np.zeros(len(trees)),
        offset=np.array(bias),
        link=_link(saved["model_info"], response),
        single=True,
        encode=partial(_encode, columns.categorical, columns.missing_highest),
    )


def _saved(native: Any) -> dict[str, Any]:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "model.json"
        try:
            native.save_model(str(path), format="json")
        except Exception as error:  # the library has one exception for everything: not fitted, columns of text
            raise Declined(f"CatBoost can't save it as JSON ({error})") from error
        saved: dict[str, Any] = json.loads(path.read_bytes())
    return saved


def _link(info: Mapping[str, Any], response: Response) -> Link:
    if "params" not in info and "loss_function" not in info:
        raise Declined("it is a sum of models with several objectives")
    loss = (info["params"]["loss_function"] if "params" in info else json.loads(info["loss_function"]))["type"]
    if loss not in _LINKS:
        raise Declined(f"the objective {loss} is not supported")
    if response != "labels":
        transform = ensemble.identity if response == "scores" else _LINKS[loss]
        return partial(ensemble.respond, transform, response, np.float64)
    if "binclass_probability_threshold" in info:
        raise Declined("its labels have a threshold of their own")
    return partial(ensemble.sign_label, np.greater)


@dataclass(frozen=True)
class _Condition:
    """Whether a number is above the border, or a category has this hash."""

    column: int
    border: float = 0.0
    category: int | None = None


class _FeatureColumns:
    """The table's column of each feature, which CatBoost counts by type."""

    def __init__(self, info: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
        for kind in (kind for kind, features in info.items() if features and kind not in _KNOWN):
            raise Declined(STATISTICS if kind == "ctrs" else f"its trees compare {kind}")
        numeric, categorical = info.get("float_features", ()), info.get("categorical_features", ())
        self.of_number = {one["feature_index"]: one["flat_feature_index"] for one in numeric}
        self.of_category = {one["feature_index"]: one["flat_feature_index"] for one in categorical}
        self.missing_highest = frozenset(
            x["flat_feature_index"] for x in numeric if x["nan_value_treatment"] == "AsTrue"
        )
        self.categorical = frozenset(self.of_category.values())
        self.by_split: dict[int, _Condition] = {}

    def condition(self, split: Mapping[str, Any]) -> _Condition:
        """The condition of a split; trees repeat their splits, and each is read once."""
        index = split["split_index"]
        if index not in self.by_split:
            self.by_split[index] = self._read(split)
        return self.by_split[index]

    def _read(self, split: Mapping[str, Any]) -> _Condition:
        kind = split["split_type"]
        if kind == "FloatFeature":
            index = split["float_feature_index"]
            return _Condition(self.of_number[index], split["border"])
        if kind == "OneHotFeature":
            return _Condition(self.of_category[split["cat_feature_index"]], category=split["value"])
        raise Declined(STATISTICS)


@dataclass(frozen=True, eq=False)
class _Tree:
    """A tree in preorder. Above a border is right, but the category itself is left: `Ensemble` has it so."""

    conditions: Sequence[_Condition]
    position: Ints  # (nodes,): the position in `conditions`; -1 at leaves
    right: Ints  # (nodes,)
    value: Floats  # (nodes, outputs), of leaves


def _oblivious(tree: Mapping[str, Any], columns: _FeatureColumns, outputs: int) -> _Tree:
    conditions = [columns.condition(split) for split in tree["splits"]]  # the first is the lowest bit
    level, right, number = complete_tree(len(conditions))
    turned = sum(1 << bit for bit, condition in enumerate(conditions) if condition.category is not None)
    return _Tree(conditions, level, right, np.array(tree["leaf_values"]).reshape(-1, outputs)[number ^ turned])


def _grown(tree: Mapping[str, Any], columns: _FeatureColumns, outputs: int) -> _Tree:
    """A tree that is not oblivious."""
    conditions: list[_Condition] = []
    position: list[int] = []
    right: list[int] = []
    value = []
    waiting = [(tree, -1)]  # nodes, each with the one whose right child it is
    while waiting:
        node, above = waiting.pop()
        if above >= 0:
            right[above] = len(right)
        leaf = "split" not in node
        position.append(-1 if leaf else len(conditions))
        value.append(np.broadcast_to(node["value"] if leaf else 0.0, outputs))
        right.append(-1)
        if not leaf:
            conditions.append(columns.condition(node["split"]))
            first, second = ("left", "right") if conditions[-1].category is None else ("right", "left")
            waiting += [(node[second], len(right) - 1), (node[first], -1)]
    return _Tree(conditions, np.array(position), np.array(right), np.array(value, np.float64))


def _gathered(trees: Sequence[_Tree]) -> PreorderForest:
    conditions = [condition for tree in trees for condition in tree.conditions]
    counts = np.array([len(tree.position) for tree in trees])
    starts, first = starts_of(counts), starts_of(np.array([len(tree.conditions) for tree in trees]))
    position = np.concatenate([tree.position for tree in trees])
    leaf = position < 0
    position = np.where(leaf, 0, position + np.repeat(first, counts))
    right = np.concatenate([tree.right for tree in trees])
    hashes = {one.category: 0 for one in conditions if one.category is not None}
    place = {None: -1} | {category: place for place, category in enumerate(hashes)}

    def at_nodes(values: Sequence[Any], kind: Any) -> Array:
        return np.asarray(np.array([*values, 0], kind)[position])  # a forest of leaves has no conditions

    return in_preorder(
        Nodes(
            roots=starts,
            left=np.where(leaf, -1, np.arange(1, len(leaf) + 1)),
            right=np.where(leaf, -1, right + np.repeat(starts, counts)),
            feature=at_nodes([one.column for one in conditions], np.int32),
            threshold=at_nodes([one.border for one in conditions], np.float64),
            missing_left=np.zeros(len(leaf), np.bool_),
            in_set=at_nodes([place[one.category] for one in conditions], np.int32) if hashes else None,
            sets=tuple(np.array([category]) for category in hashes),
        )
    )


def _encode(categorical: frozenset[int], missing_highest: frozenset[int], column: int, values: NDArray[Any]) -> Floats:
    if column not in categorical:  # a missing value is below all borders, or above them
        return np.nan_to_num(
            single_numbers(values), nan=np.inf if column in missing_highest else -np.inf, posinf=np.inf, neginf=-np.inf
        )
    names = values.tolist()
    if not all(isinstance(name, (str, int)) and not isinstance(name, bool) for name in names):
        raise Declined("a column of categories holds other values than text and integers")
    return np.array([hash_of(str(name)) for name in names], np.float64)
