"""XGBoost and LightGBM, read from the format in which their boosters are saved.

Not by way of treelite: reading takes two to three times as long with it, and it drops the encoding of categories.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from losslens.engines.base import Declined
from losslens.engines.readers import ensemble
from losslens.engines.readers.ensemble import Array, Ensemble, Transform
from losslens.engines.readers.layout import (
    Ints,
    Nodes,
    PreorderForest,
    bits,
    codes,
    in_preorder,
    numbers,
    single_numbers,
    starts_of,
)
from losslens.engines.readers.recognition import kind_of
from losslens.losses import Response
from losslens.models import Model
from losslens.tables.columns import is_missing
from losslens.typing import Floats

XGBOOST = ("Booster", "XGBRegressor", "XGBClassifier", "XGBRFRegressor", "XGBRFClassifier")
LIGHTGBM = ("Booster", "LGBMRegressor", "LGBMClassifier", "LGBMRanker")

# XGBoost.

_XGBOOST_LINKS: Mapping[str, Transform] = {
    **dict.fromkeys(("reg:squarederror", "reg:squaredlogerror", "reg:absoluteerror"), ensemble.identity),
    **dict.fromkeys(("reg:pseudohubererror", "reg:quantileerror", "binary:logitraw"), ensemble.identity),
    **dict.fromkeys(("rank:ndcg", "rank:map", "rank:pairwise"), ensemble.identity),
    **dict.fromkeys(("binary:logistic", "reg:logistic"), ensemble.logistic),
    **dict.fromkeys(("count:poisson", "reg:gamma", "reg:tweedie", "survival:cox", "survival:aft"), ensemble.exp),
    **dict.fromkeys(("multi:softprob", "multi:softmax"), ensemble.softmax),
    "binary:hinge": ensemble.step,
}


def read_xgboost(model: Model, response: Response) -> Ensemble | None:
    """An XGBoost booster or an estimator that wraps one."""
    native = model.native
    booster = native if type(native).__name__ == "Booster" else native.get_booster()
    kind_of(booster)  # declined unless it is the library's own
    saved = json.loads(booster.save_raw("json").decode())
    learner = saved["learner"]
    booster_state = learner["gradient_booster"]
    if booster_state["name"] == "gblinear":
        return None
    model_state = booster_state["gbtree"]["model"] if booster_state["name"] == "dart" else booster_state["model"]
    transform, offset = _xgboost_objective(learner, tuple(saved["version"]), response)
    used = len(model_state["trees"])
    if booster is not native and getattr(native, "best_iteration", None) is not None:
        used = int(model_state["iteration_indptr"][native.best_iteration + 1])
    if used == 0:
        raise Declined("it has no trees")
    trees = model_state["trees"][:used]
    forest, value = _xgboost_trees(trees)
    kept = booster_state.get("weight_drop", model_state.get("weight_drop"))  # of DART; since 3.4 beside its trees
    if kept is not None:
        weights = np.asarray(kept, dtype=np.float32)[:used]
        value = value * np.repeat(weights, [len(tree["left_children"]) for tree in trees])
    missing = float(native.missing) if booster is not native else np.nan
    return forest.ensemble(
        value=value[forest.leaves].astype(np.float64)[:, None],
        output=np.asarray(model_state["tree_info"])[:used],
        offset=offset,
        link=ensemble.of_classes(transform, response, np.float32, len(offset)),
        strict=True,
        single=True,
        encode=partial(_encode_xgboost, _category_codes(model_state), _categorical(forest), missing, booster is native),
    )


def _xgboost_objective(
    learner: Mapping[str, Any], version: tuple[int, ...], response: Response
) -> tuple[Transform, Floats]:
    """The transformation that predict applies to the raw outputs, and their starting values."""
    objective, options = learner["objective"]["name"], learner["learner_model_param"]
    outputs = max(1, int(options["num_class"]))
    if int(options.get("num_target", 1)) > 1:
        raise Declined("it has several outputs")
    if objective not in _XGBOOST_LINKS or (objective == "binary:logitraw" and version < (3, 1)):
        raise Declined(f"the objective {objective} is not supported")
    if outputs > 1 and (response == "values" or (response == "labels" and outputs == 2)):
        raise Declined("it predicts several columns where one is needed")
    transform = _XGBOOST_LINKS[objective]
    start = np.atleast_1d(np.array(json.loads(options["base_score"]), dtype=np.float32))  # "5E-1", or a list from 3.1
    if transform is ensemble.logistic:
        start = -np.log(1 / start - 1)
    elif transform is ensemble.exp:
        start = np.log(start)
    offset = np.broadcast_to(start, outputs).astype(np.float64)
    return ensemble.identity if response == "scores" else transform, offset


def _xgboost_trees(trees: Sequence[Mapping[str, Any]]) -> tuple[PreorderForest, Array]:
    """All trees, and the number stored at each node: the threshold, or the value of a leaf."""
    if any(int(tree["tree_param"]["size_leaf_vector"]) > 1 for tree in trees):
        raise Declined("its trees have several outputs each")
    counts = np.array([len(tree["left_children"]) for tree in trees])
    starts = starts_of(counts)
    names = ("left_children", "right_children", "split_indices", "split_conditions", "default_left")
    left, right, feature, at_node, default = (np.concatenate([tree[name] for tree in trees]) for name in names)
    leaf, shift = left < 0, np.repeat(starts, counts)
    left, right = np.where(leaf, -1, left + shift), np.where(leaf, -1, right + shift)
    in_set, sets = _xgboost_sets(trees, starts, len(left))
    if sets:
        # XGBoost sends categories in the set to the right, `Ensemble` to the left: swap the children.
        swapped = in_set >= 0
        left, right = np.where(swapped, right, left), np.where(swapped, left, right)
        default = default.astype(np.bool_) ^ swapped
    at_node = at_node.astype(np.float32)
    nodes = Nodes(
        roots=starts,
        left=left,
        right=right,
        feature=feature.astype(np.int32),
        threshold=at_node.astype(np.float64),
        missing_left=default.astype(np.bool_),
        in_set=in_set if sets else None,
        sets=sets,
    )
    return in_preorder(nodes), at_node


def _xgboost_sets(
    trees: Sequence[Mapping[str, Any]], starts: Ints, n: int
) -> tuple[NDArray[np.int32], tuple[Ints, ...]]:
    in_set = np.full(n, -1, np.int32)
    sets: list[Ints] = []
    for tree, start in zip(trees, starts.tolist(), strict=True):
        nodes = np.asarray(tree["categories_nodes"], dtype=np.int64)
        in_set[start + nodes] = np.arange(len(sets), len(sets) + len(nodes))
        categories = np.asarray(tree["categories"], dtype=np.int64)
        for first, size in zip(tree["categories_segments"], tree["categories_sizes"], strict=True):
            sets.append(categories[first : first + size])
    return in_set, tuple(sets)


def _categorical(forest: PreorderForest) -> frozenset[int]:
    """Columns that are split by sets of categories."""
    nodes = forest.nodes
    return frozenset() if nodes.in_set is None else frozenset(nodes.feature[nodes.in_set >= 0].tolist())


def counts_bytes() -> bool:
    """Whether XGBoost saves all of a text with other than ASCII letters: before 3.4 it counts characters as bytes."""
    return tuple(int(part) for part in sys.modules["xgboost"].__version__.split(".")[:2]) >= (3, 4)


def _category_codes(model_state: Mapping[str, Any]) -> Mapping[int, Mapping[Any, float]]:
    """The codes of the categories of each column that was categorical in training; saved from XGBoost 3.1 on."""
    by_column = {}
    for column, encoded in enumerate(model_state.get("cats", {}).get("enc", ())):
        values = np.asarray(encoded["values"])
        if not len(values) or ("offsets" in encoded and (values < 0).any() and not counts_bytes()):
            continue
        categories = values.tolist()
        if "offsets" in encoded:
            text, ends = values.astype(np.int8).tobytes(), np.asarray(encoded["offsets"]).tolist()
            try:
                categories = [text[first:last].decode() for first, last in pairwise(ends)]
            except UnicodeDecodeError:  # a model of an earlier release
                continue
        by_column[column] = {value: float(place) for place, value in enumerate(categories)}
    return by_column


def _encode_xgboost(
    category_codes: Mapping[int, Mapping[Any, float]],
    categorical: frozenset[int],
    missing: float,
    finite: bool,
    column: int,
    values: Array,
) -> Floats:
    if values.dtype == object and not _is_boolean(values):
        code = category_codes.get(column)
        if code is None:  # before 3.1 XGBoost uses the codes of the table, which the values don't tell
            raise Declined("a column holds categories, but the booster does not save their codes")
        if missing >= 0 and missing == int(missing):  # by its place in the table's list, which values don't tell
            raise Declined(f"missing={missing:g} makes the category with this code in the table a missing value")
        kind = type(next(iter(code)))
        if not all(is_missing(value) or isinstance(value, kind) for value in values.tolist()):
            raise Declined("a column holds categories of a type other than in training")
        encoded = codes(values, code, missing=np.nan, unseen=-1.0)
        if (encoded < 0).any():  # XGBoost 3.2 refuses it or takes it for the next category
            raise Declined("a column holds a category that was not present in training")
        return encoded
    encoded = single_numbers(values)
    encoded[encoded == np.float64(np.float32(missing))] = np.nan
    if finite and np.isinf(encoded).any():
        raise Declined("a column holds values that are infinite in float32")  # a DMatrix refuses them
    return _as_codes(np.floor(encoded)) if column in categorical else encoded


def _is_boolean(values: Array) -> bool:
    """Whether all objects are True, False or missing."""
    return all(is_missing(value) or isinstance(value, (bool, np.bool_)) for value in values.tolist())


def _as_codes(values: Floats) -> Floats:
    """Numbers truncated to category codes; numbers that can't be one become -1, which is in no set."""
    truncated = np.trunc(values) + 0.0
    return np.where((truncated < 0) | (truncated >= 2**31), -1.0, truncated)


# LightGBM.

_LIGHTGBM_LINKS: Mapping[str, Transform] = {
    **dict.fromkeys(("regression", "regression_l1", "huber", "fair", "quantile", "mape"), ensemble.identity),
    **dict.fromkeys(("lambdarank", "rank_xendcg"), ensemble.identity),
    **dict.fromkeys(("poisson", "gamma", "tweedie"), ensemble.exp),
    "cross_entropy": ensemble.logistic,
    "cross_entropy_lambda": ensemble.log1p_exp,
    "multiclass": ensemble.softmax,
}
_MISSING_AS_ZERO, _ZERO_IS_MISSING = 0, 1  # treatment of missing values: two bits of LightGBM's decision_type
_ZERO = 1.0000000180025095e-35  # LightGBM treats smaller numbers as 0


def read_lightgbm(model: Model, response: Response) -> Ensemble:
    """A LightGBM booster or an estimator that wraps one."""
    native = model.native
    booster = native if type(native).__name__ == "Booster" else native.booster_
    kind_of(booster)  # declined unless it is the library's own
    if booster is not native and native.get_params().get("pred_early_stop"):
        raise Declined("its predictions stop early")
    # Up to the best iteration if there is one, as predict does.
    head, *blocks = booster.model_to_string().split("\nTree=")
    header = dict(line.partition("=")[::2] for line in head.split("\n"))
    trees = [dict(line.partition("=")[::2] for line in block.split("\n\n", 1)[0].split("\n")) for block in blocks]
    if not trees:
        raise Declined("it has no trees")
    if any(tree.get("is_linear", "0") != "0" for tree in trees):
        raise Declined("its leaves hold linear models")
    forest, value = _lightgbm_trees(trees)
    outputs = int(header["num_tree_per_iteration"])
    raw = response == "scores" or (booster is native and "objective" not in header)  # called with raw_score
    averaged = "average_output" in header and not raw  # raw scores of LightGBM's random forests are sums
    transform = ensemble.identity if raw else _lightgbm_transform(header.get("objective"), booster, model)
    if outputs > 1 and response == "values":
        raise Declined("it predicts several columns where one is needed")
    return forest.ensemble(
        value=value[forest.leaves][:, None],
        output=np.arange(len(trees)) % outputs,
        offset=np.zeros(outputs),
        link=ensemble.of_classes(transform, response, np.float64, outputs),
        divisor=float(len(trees) // outputs) if averaged else 1.0,
        encode=partial(_encode_lightgbm, _categories(booster, blocks[-1]), forest),
    )


def _lightgbm_transform(objective: str | None, booster: Any, model: Model) -> Transform:
    """The transformation that predict applies to raw outputs, for an objective such as 'binary sigmoid:1'."""
    if objective is None:
        if model.kind == "classifier":
            raise Declined("a custom objective gives no probabilities")
        return ensemble.identity
    name, *words = objective.split(" ")
    options = dict(word.partition(":")[::2] for word in words)
    if name in ("binary", "multiclassova"):
        # The text has six digits only. After training a booster is reloaded from its text, unless it keeps its data.
        training = booster.params if getattr(booster, "train_set", None) is not None else {}
        return partial(ensemble.scaled_logistic, float(training.get("sigmoid", options["sigmoid"])))
    if "sqrt" in options:
        return ensemble.signed_square
    if name not in _LIGHTGBM_LINKS:
        raise Declined(f"the objective {name} is not supported")
    return _LIGHTGBM_LINKS[name]


def _joined(trees: Sequence[Mapping[str, str]], name: str, kind: type) -> Array:
    """One field, concatenated over all trees."""
    # Without the empty fields of single leaves: NumPy parses text of blanks only as a 0.
    return np.fromstring(" ".join(tree[name] for tree in trees if tree[name]), kind, sep=" ")


def _lightgbm_trees(trees: Sequence[Mapping[str, str]]) -> tuple[PreorderForest, Floats]:
    """All trees, and the values of their nodes: of each tree the inner nodes first, then the leaves."""
    n_leaves = np.array([int(tree["num_leaves"]) for tree in trees])
    counts = 2 * n_leaves - 1
    starts, n = starts_of(counts), int(counts.sum())
    leaf = np.arange(n) - np.repeat(starts, counts) >= np.repeat(n_leaves - 1, counts)
    first, first_leaf = (np.repeat(x, n_leaves - 1) for x in (starts, starts + n_leaves - 1))

    def at_inner_nodes(values: Array, kind: type, at_leaves: Any = 0) -> Array:
        at_nodes: Array = np.full(n, at_leaves, dtype=kind)
        at_nodes[~leaf] = values
        return at_nodes

    def child(name: str) -> Array:  # -1 is the first leaf of the tree, -2 the second
        numbers = _joined(trees, name, int)
        return at_inner_nodes(np.where(numbers < 0, first_leaf - 1 - numbers, first + numbers), np.int64, -1)

    threshold, decision = _joined(trees, "threshold", float), _joined(trees, "decision_type", int)
    by_set, kind = (decision & 1) > 0, (decision >> 2) & 3
    if (kind == _ZERO_IS_MISSING)[~by_set].any():
        raise Declined("it treats zeros as missing values")
    missing_left = np.where(kind == _MISSING_AS_ZERO, threshold >= 0, (decision & 2) > 0) & ~by_set
    number, sets = _lightgbm_sets(trees, threshold, by_set)
    nodes = Nodes(
        roots=starts,
        left=child("left_child"),
        right=child("right_child"),
        feature=at_inner_nodes(_joined(trees, "split_feature", int), np.int32),
        threshold=at_inner_nodes(threshold, np.float64),
        missing_left=at_inner_nodes(missing_left, np.bool_),
        in_set=at_inner_nodes(number, np.int32, -1) if sets else None,
        sets=sets,
    )
    value = np.zeros(n)
    value[leaf] = _joined(trees, "leaf_value", float)
    return in_preorder(nodes), value


def _lightgbm_sets(
    trees: Sequence[Mapping[str, str]], threshold: Floats, by_set: Array
) -> tuple[Ints, tuple[Ints, ...]]:
    """Number of each inner node's set, -1 if it has a threshold; nodes with a set hold its number in `threshold`."""
    n_sets = np.array([int(tree["num_cat"]) for tree in trees])
    inner = [int(tree["num_leaves"]) - 1 for tree in trees]
    sets = []
    for tree in (tree for tree in trees if tree["num_cat"] != "0"):
        bounds = [int(word) for word in tree["cat_boundaries"].split()]
        words = np.array([int(word) for word in tree["cat_threshold"].split()], np.uint32)
        sets += [bits(words[start:stop]) for start, stop in pairwise(bounds)]
    number = np.where(by_set, threshold, 0).astype(np.int64) + np.repeat(starts_of(n_sets), inner)
    return np.where(by_set, number, -1), tuple(sets)


@dataclass(frozen=True, eq=False)
class _Categories:
    """Categories of pandas columns in training. LightGBM does not save which columns these were."""

    lists: Sequence[Sequence[Any]]
    declared: Sequence[int]  # columns declared as categorical_feature

    @property
    def has_booleans(self) -> bool:
        """Whether True and False are categories of some column, perhaps in reverse order."""
        return any(isinstance(value, (bool, np.bool_)) for categories in self.lists for value in categories)

    def codes(self, column: int, values: Array) -> Mapping[Any, float]:
        """The code of each category of a column; Declined if the column's list of categories is ambiguous."""
        present = {value for value in values.tolist() if not is_missing(value)}
        if len(self.lists) == len(self.declared):  # true unless some were ordered, or numbers were declared
            fits = [self.lists[self.declared.index(column)]] if column in self.declared else []
            fits = [categories for categories in fits if present & set(categories)]
        else:
            fits = [categories for categories in self.lists if present <= set(categories)]
        if not fits or any(list(categories) != list(fits[0]) for categories in fits):
            raise Declined("it does not save which of its lists of categories belongs to which column")
        return {value: float(place) for place, value in enumerate(fits[0])}


def _categories(booster: Any, tail: str) -> _Categories:
    declared = re.search(r"^\[categorical_feature: ([\d,]+)\]$", tail, re.MULTILINE)
    columns = [] if declared is None else [int(word) for word in declared[1].split(",")]
    return _Categories(booster.pandas_categorical or (), columns)


def _encode_lightgbm(categories: _Categories, forest: PreorderForest, column: int, values: Array) -> Floats:
    if values.dtype == object and (not _is_boolean(values) or categories.has_booleans):
        return codes(values, categories.codes(column, values), missing=np.nan, unseen=np.nan)
    encoded, nodes = numbers(values), forest.nodes
    thresholds = np.unique(nodes.threshold[nodes.feature == column])
    with np.errstate(over="ignore"):
        rounded = encoded.astype(np.float32).astype(np.float64)
    # LightGBM rounds integers in an array, not in a frame: it matters if a threshold lies between.
    if values.dtype.kind != "f" and (thresholds.searchsorted(encoded) != thresholds.searchsorted(rounded)).any():
        raise Declined("a column holds integers above 2^24, which LightGBM rounds in arrays but not in frames")
    encoded[np.abs(encoded) <= _ZERO] = 0.0
    return _as_codes(encoded) if column in _categorical(forest) else encoded
