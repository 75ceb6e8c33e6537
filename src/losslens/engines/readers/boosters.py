"""XGBoost and LightGBM, read from what their boosters save.

Not by way of treelite: reading takes two to three times as long with it, and it drops what encodes categories.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from losslens.engines.readers import ensemble
from losslens.engines.readers.ensemble import Array, Declined, Ensemble, Transform
from losslens.engines.readers.layout import (
    Ints,
    Nodes,
    ReadForest,
    bits,
    codes,
    in_preorder,
    numbers,
    single_numbers,
    starts_of,
)
from losslens.engines.readers.ubjson import parse
from losslens.losses import Response
from losslens.models import Model
from losslens.tables.columns import is_missing
from losslens.typing import Floats

XGBOOST = ("Booster", "XGBRegressor", "XGBClassifier", "XGBRFRegressor", "XGBRFClassifier")
LIGHTGBM = ("Booster", "LGBMRegressor", "LGBMClassifier", "LGBMRanker")

# XGBoost.

_XGBOOST_LINKS: Mapping[str, Transform] = {
    **dict.fromkeys(("reg:squarederror", "reg:squaredlogerror", "reg:absoluteerror"), ensemble.same),
    **dict.fromkeys(("reg:pseudohubererror", "reg:quantileerror", "binary:logitraw"), ensemble.same),
    **dict.fromkeys(("rank:ndcg", "rank:map", "rank:pairwise"), ensemble.same),
    **dict.fromkeys(("binary:logistic", "reg:logistic"), ensemble.logistic),
    **dict.fromkeys(("count:poisson", "reg:gamma", "reg:tweedie", "survival:cox", "survival:aft"), ensemble.exp),
    **dict.fromkeys(("multi:softprob", "multi:softmax"), ensemble.softmax),
    "binary:hinge": ensemble.step,
}


def read_xgboost(model: Model, response: Response) -> Ensemble | None:
    """A booster of XGBoost or an estimator around one."""
    native = model.native
    booster = native if type(native).__name__ == "Booster" else native.get_booster()
    saved = parse(bytes(booster.save_raw("ubj")))
    learner = saved["learner"]
    machine = learner["gradient_booster"]
    if machine["name"] == "gblinear":
        return None
    grown = machine["gbtree"]["model"] if machine["name"] == "dart" else machine["model"]
    transform, offset = _xgboost_objective(learner, tuple(saved["version"]), response)
    used = len(grown["trees"])
    if booster is not native and getattr(native, "best_iteration", None) is not None:
        used = int(grown["iteration_indptr"][native.best_iteration + 1])
    if used == 0:
        raise Declined("it has no trees")
    trees = grown["trees"][:used]
    forest, value = _xgboost_trees(trees)
    if machine["name"] == "dart":
        weights = np.asarray(machine["weight_drop"], dtype=np.float32)[:used]
        value = value * np.repeat(weights, [len(tree["left_children"]) for tree in trees])
    missing = float(native.missing) if booster is not native else np.nan
    return forest.ensemble(
        value=value[forest.leaves].astype(np.float64)[:, None],
        output=np.asarray(grown["tree_info"])[:used],
        offset=offset,
        link=partial(ensemble.respond, transform, response, np.float32),
        strict=True,
        single=True,
        encode=partial(_encode_xgboost, _dictionaries(grown), _categorical(forest), missing, booster is native),
    )


def _xgboost_objective(
    learner: Mapping[str, Any], version: tuple[int, ...], response: Response
) -> tuple[Transform, Floats]:
    """What predict does to the raw outputs, and where they start."""
    objective, options = learner["objective"]["name"], learner["learner_model_param"]
    outputs = max(1, int(options["num_class"]))
    if int(options.get("num_target", 1)) > 1:
        raise Declined("it has several outputs")
    if objective not in _XGBOOST_LINKS or (objective == "binary:logitraw" and version < (3, 1)):
        raise Declined(f"the objective {objective} isn't known here")
    if outputs > 1 and (response == "values" or (response == "labels" and outputs == 2)):
        raise Declined("it gives several columns where one is asked for")
    transform = _XGBOOST_LINKS[objective]
    start = np.atleast_1d(np.array(json.loads(options["base_score"]), dtype=np.float32))  # "5E-1", or a list from 3.1
    if transform is ensemble.logistic:
        start = -np.log(1 / start - 1)
    elif transform is ensemble.exp:
        start = np.log(start)
    offset = np.broadcast_to(start, outputs).astype(np.float64)
    return ensemble.same if response == "scores" else transform, offset


def _xgboost_trees(trees: Sequence[Mapping[str, Any]]) -> tuple[ReadForest, Array]:
    """All trees, and what stands at each of their nodes: at a leaf, its value."""
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
        # Categories in a set go to the right and all others to the left: with the children swapped it is as here.
        turned = in_set >= 0
        left, right = np.where(turned, right, left), np.where(turned, left, right)
        default = default.astype(np.bool_) ^ turned
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


def _categorical(forest: ReadForest) -> frozenset[int]:
    """Columns that a set of categories is asked about."""
    nodes = forest.nodes
    return frozenset() if nodes.in_set is None else frozenset(nodes.feature[nodes.in_set >= 0].tolist())


def _dictionaries(grown: Mapping[str, Any]) -> Mapping[int, Mapping[Any, float]]:
    """The categories of each column that was a categorical one in training: kept from XGBoost 3.1 on."""
    found = {}
    for column, encoded in enumerate(grown.get("cats", {}).get("enc", ())):
        values = np.asarray(encoded["values"])
        # Of words beyond ASCII XGBoost 3.2 counts letters where it needs bytes, and so cuts pandas' in wrong places.
        if not len(values) or ("offsets" in encoded and (values < 0).any()):
            continue
        known = values.tolist()
        if "offsets" in encoded:
            text, ends = values.astype(np.uint8).tobytes().decode(), np.asarray(encoded["offsets"]).tolist()
            known = [text[first:last] for first, last in pairwise(ends)]
        found[column] = {value: float(place) for place, value in enumerate(known)}
    return found


def _encode_xgboost(
    dictionaries: Mapping[int, Mapping[Any, float]],
    categorical: frozenset[int],
    missing: float,
    finite: bool,
    column: int,
    values: Array,
) -> Floats:
    if values.dtype == object and not _truths(values):
        place = dictionaries.get(column)
        if place is None:  # before 3.1 XGBoost takes the table's own codes, which values alone don't tell
            raise Declined("a column holds categories whose codes the booster doesn't tell")
        kind = type(next(iter(place)))
        if not all(is_missing(value) or isinstance(value, kind) for value in values.tolist()):
            raise Declined("a column holds categories of another type than in training")
        found = codes(values, place, missing=np.nan, unseen=-1.0)
        if (found < 0).any():  # XGBoost 3.2 refuses it or takes it for the next one in order
            raise Declined("a column holds a category that was not there in training")
        return found
    found = single_numbers(values)
    found[found == np.float64(np.float32(missing))] = np.nan
    if finite and np.isinf(found).any():
        raise Declined("a column holds values that are infinite in float32")  # a DMatrix refuses them
    return _whole(np.floor(found)) if column in categorical else found


def _truths(values: Array) -> bool:
    """Whether objects are True, False and missing: a column of truth values with gaps."""
    return all(is_missing(value) or isinstance(value, (bool, np.bool_)) for value in values.tolist())


def _whole(found: Floats) -> Floats:
    """Numbers cut to categories; those that can't be one become -1, which is in no set."""
    cut = np.trunc(found) + 0.0
    return np.where((cut < 0) | (cut >= 2**31), -1.0, cut)


# LightGBM.

_LIGHTGBM_LINKS: Mapping[str, Transform] = {
    **dict.fromkeys(("regression", "regression_l1", "huber", "fair", "quantile", "mape"), ensemble.same),
    **dict.fromkeys(("lambdarank", "rank_xendcg"), ensemble.same),
    **dict.fromkeys(("poisson", "gamma", "tweedie"), ensemble.exp),
    "cross_entropy": ensemble.logistic,
    "cross_entropy_lambda": ensemble.log1p_exp,
    "multiclass": ensemble.softmax,
}
_MISSING_AS_ZERO, _ZERO_IS_MISSING = 0, 1  # kinds of missing values, two bits of a decision type
_ZERO = 1.0000000180025095e-35  # LightGBM takes smaller numbers for 0


def read_lightgbm(model: Model, response: Response) -> Ensemble:
    """A booster of LightGBM or an estimator around one."""
    native = model.native
    booster = native if type(native).__name__ == "Booster" else native.booster_
    if booster is not native and native.get_params().get("pred_early_stop"):
        raise Declined("its predictions stop early")
    # Up to the best iteration where there is one, as predict does.
    head, *blocks = booster.model_to_string().split("\nTree=")
    header = dict(line.partition("=")[::2] for line in head.split("\n"))
    trees = [dict(line.partition("=")[::2] for line in block.split("\n\n", 1)[0].split("\n")) for block in blocks]
    if not trees:
        raise Declined("it has no trees")
    if any(tree.get("is_linear", "0") != "0" for tree in trees):
        raise Declined("its leaves hold linear models")
    forest, value = _lightgbm_trees(trees)
    outputs = int(header["num_tree_per_iteration"])
    plain = response == "scores" or (booster is native and "objective" not in header)  # asked with raw_score
    averaged = "average_output" in header and not plain  # raw scores of LightGBM's forests are sums
    transform = ensemble.same if plain else _lightgbm_transform(header.get("objective"), booster, model)
    if outputs > 1 and response == "values":
        raise Declined("it gives several columns where one is asked for")
    return forest.ensemble(
        value=value[forest.leaves][:, None],
        output=np.arange(len(trees)) % outputs,
        offset=np.zeros(outputs),
        link=partial(ensemble.respond, transform, response, np.float64),
        divisor=float(len(trees) // outputs) if averaged else 1.0,
        encode=partial(_encode_lightgbm, _categories(booster, blocks[-1]), forest),
    )


def _lightgbm_transform(objective: str | None, booster: Any, model: Model) -> Transform:
    """What predict does to the raw outputs of an objective such as 'binary sigmoid:1'."""
    if objective is None:
        if model.kind == "classifier":
            raise Declined("an objective of the user's own gives no probabilities")
        return ensemble.same
    name, *words = objective.split(" ")
    options = dict(word.partition(":")[::2] for word in words)
    if name in ("binary", "multiclassova"):
        # The text has six digits of it. A booster is loaded from its text after training, unless it is to go on.
        training = booster.params if getattr(booster, "train_set", None) is not None else {}
        return partial(ensemble.scaled_logistic, float(training.get("sigmoid", options["sigmoid"])))
    if "sqrt" in options:
        return ensemble.signed_square
    if name not in _LIGHTGBM_LINKS:
        raise Declined(f"the objective {name} isn't known here")
    return _LIGHTGBM_LINKS[name]


def _joined(trees: Sequence[Mapping[str, str]], name: str, kind: type) -> Array:
    """One field of all trees."""
    # Without the empty ones of single leaves: of nothing but blanks NumPy makes a 0.
    return np.fromstring(" ".join(tree[name] for tree in trees if tree[name]), kind, sep=" ")


def _lightgbm_trees(trees: Sequence[Mapping[str, str]]) -> tuple[ReadForest, Floats]:
    """All trees, and the values of their nodes: of each tree the inner ones first, then the leaves."""
    n_leaves = np.array([int(tree["num_leaves"]) for tree in trees])
    counts = 2 * n_leaves - 1
    starts, n = starts_of(counts), int(counts.sum())
    leaf = np.arange(n) - np.repeat(starts, counts) >= np.repeat(n_leaves - 1, counts)
    first, first_leaf = (np.repeat(x, n_leaves - 1) for x in (starts, starts + n_leaves - 1))

    def spread(found: Array, kind: type, elsewhere: Any = 0) -> Array:
        whole: Array = np.full(n, elsewhere, dtype=kind)
        whole[~leaf] = found
        return whole

    def child(name: str) -> Array:  # -1 is the first leaf of the tree, -2 the second
        numbers = _joined(trees, name, int)
        return spread(np.where(numbers < 0, first_leaf - 1 - numbers, first + numbers), np.int64, -1)

    threshold, decision = _joined(trees, "threshold", float), _joined(trees, "decision_type", int)
    by_set, kind = (decision & 1) > 0, (decision >> 2) & 3
    if (kind == _ZERO_IS_MISSING)[~by_set].any():
        raise Declined("zeros count as missing values in it")
    missing_left = np.where(kind == _MISSING_AS_ZERO, threshold >= 0, (decision & 2) > 0) & ~by_set
    number, sets = _lightgbm_sets(trees, threshold, by_set)
    nodes = Nodes(
        roots=starts,
        left=child("left_child"),
        right=child("right_child"),
        feature=spread(_joined(trees, "split_feature", int), np.int32),
        threshold=spread(threshold, np.float64),
        missing_left=spread(missing_left, np.bool_),
        in_set=spread(number, np.int32, -1) if sets else None,
        sets=sets,
    )
    value = np.zeros(n)
    value[leaf] = _joined(trees, "leaf_value", float)
    return in_preorder(nodes), value


def _lightgbm_sets(
    trees: Sequence[Mapping[str, str]], threshold: Floats, by_set: Array
) -> tuple[Ints, tuple[Ints, ...]]:
    """Each inner node's set, -1 where it has a threshold; the threshold of the others numbers the tree's sets."""
    many = np.array([int(tree["num_cat"]) for tree in trees])
    inner = [int(tree["num_leaves"]) - 1 for tree in trees]
    sets = []
    for tree in (tree for tree in trees if tree["num_cat"] != "0"):
        bounds = [int(word) for word in tree["cat_boundaries"].split()]
        words = np.array([int(word) for word in tree["cat_threshold"].split()], np.uint32)
        sets += [bits(words[start:stop]) for start, stop in pairwise(bounds)]
    number = np.where(by_set, threshold, 0).astype(np.int64) + np.repeat(starts_of(many), inner)
    return np.where(by_set, number, -1), tuple(sets)


@dataclass(frozen=True, eq=False)
class _Categories:
    """Categories of pandas columns in training. Which columns these were LightGBM doesn't keep."""

    lists: Sequence[Sequence[Any]]
    declared: Sequence[int]  # columns that were to be split by sets

    @property
    def of_truths(self) -> bool:
        """Whether True and False are categories of some column, perhaps the other way round."""
        return any(isinstance(value, (bool, np.bool_)) for known in self.lists for value in known)

    def place(self, column: int, values: Array) -> Mapping[Any, float]:
        """The number of each category of a column, or Declined where that is not certain."""
        present = {value for value in values.tolist() if not is_missing(value)}
        if len(self.lists) == len(self.declared):  # as it is unless some were ordered, or numbers were declared
            fits = [self.lists[self.declared.index(column)]] if column in self.declared else []
            fits = [known for known in fits if present & set(known)]
        else:
            fits = [known for known in self.lists if present <= set(known)]
        if not fits or any(list(known) != list(fits[0]) for known in fits):
            raise Declined("it doesn't keep which of its lists of categories belongs to a column")
        return {value: float(place) for place, value in enumerate(fits[0])}


def _categories(booster: Any, tail: str) -> _Categories:
    declared = re.search(r"^\[categorical_feature: ([\d,]+)\]$", tail, re.MULTILINE)
    columns = [] if declared is None else [int(word) for word in declared[1].split(",")]
    return _Categories(booster.pandas_categorical or (), columns)


def _encode_lightgbm(categories: _Categories, forest: ReadForest, column: int, values: Array) -> Floats:
    if values.dtype == object and (not _truths(values) or categories.of_truths):
        return codes(values, categories.place(column, values), missing=np.nan, unseen=np.nan)
    found, nodes = numbers(values), forest.nodes
    thresholds = np.unique(nodes.threshold[nodes.feature == column])
    with np.errstate(over="ignore"):
        rounded = found.astype(np.float32).astype(np.float64)
    # Whole numbers are rounded in an array, not in a frame: it matters where a threshold lies between.
    if values.dtype.kind != "f" and (thresholds.searchsorted(found) != thresholds.searchsorted(rounded)).any():
        raise Declined("a column holds whole numbers above 2^24, which LightGBM rounds in arrays but not in frames")
    found[np.abs(found) <= _ZERO] = 0.0
    return _whole(found) if column in _categorical(forest) else found
