"""Trees, forests and boosting of scikit-learn, read from the arrays that they predict with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from losslens.engines.base import Declined
from losslens.engines.readers.ensemble import Ensemble, Leading, as_summed, label, largest, sign_label
from losslens.engines.readers.layout import (
    Ints,
    Link,
    Nodes,
    PreorderForest,
    bits,
    codes,
    in_preorder,
    numbers,
    single_numbers,
    starts_of,
)
from losslens.engines.readers.recognition import kind_of, kinds_of
from losslens.losses import Response
from losslens.models import Model
from losslens.typing import Floats

TREES = ("DecisionTreeRegressor", "DecisionTreeClassifier", "ExtraTreeRegressor", "ExtraTreeClassifier")
FORESTS = ("RandomForestRegressor", "RandomForestClassifier", "ExtraTreesRegressor", "ExtraTreesClassifier")
BOOSTING = ("GradientBoostingRegressor", "GradientBoostingClassifier")
HISTOGRAM_BOOSTING = ("HistGradientBoostingRegressor", "HistGradientBoostingClassifier")

SMALLEST_COMPLEMENT = 1e-8  # the logarithm of a smaller 1 - p would be off by some 1e-9 of itself
# What a tree predicts from, and what describes it. Splits by categories, say, would need more.
_STATE = {"max_depth", "node_count", "nodes", "values"}
_NODE = {
    "left_child", "right_child", "feature", "threshold", "impurity", "n_node_samples", "weighted_n_node_samples",
    "missing_go_to_left",
}  # fmt: skip


def read_tree(model: Model, response: Response) -> Ensemble:
    """One tree."""
    return _average([model.native], model, response)


def read_forest(model: Model, response: Response) -> Ensemble:
    """The average of a forest's trees."""
    return _average(model.native.estimators_, model, response)


def _average(estimators: Sequence[Any], model: Model, response: Response) -> Ensemble:
    if model.native.n_outputs_ > 1 and model.output is None:
        raise Declined("it has several outputs")
    trees = _trees(estimators)
    forest = _gathered(trees)
    value, link = _values(trees, forest, model) if response == "values" else _class_values(trees, forest, response)
    return forest.ensemble(
        value=value,
        output=np.zeros(len(trees)),
        offset=np.zeros(value.shape[1]),
        link=link,
        divisor=float(len(trees)),
        single=True,
        accepts_missing=bool(estimators[0]._support_missing_values(np.empty((1, 1)))),
        encode=_encode_finite,
    )


def _trees(estimators: Sequence[Any]) -> list[Any]:
    """The arrays of trees of scikit-learn's own classes."""
    if not kinds_of(estimators) <= {f"sklearn.{name}" for name in TREES}:
        raise Declined("its estimators are not trees of scikit-learn")
    check_arrays(estimators)
    return [estimator.tree_ for estimator in estimators]


def check_arrays(estimators: Sequence[Any]) -> None:
    """Raise `Declined` if trees have fields besides those that are read, in any release."""
    kinds_of(estimator.tree_ for estimator in estimators)
    for estimator in estimators:
        state = estimator.tree_.__getstate__()
        if further := (state.keys() - _STATE) | (set(state["nodes"].dtype.names) - _NODE):
            raise Declined(f"its trees hold {min(further)!r}, which may decide where a row goes")


def _values(trees: Sequence[Any], forest: PreorderForest, model: Model) -> tuple[Floats, Link]:
    output, outputs = model.output or 0, trees[0].value.shape[1]
    if not 0 <= output < outputs:  # the model says which there are
        raise Declined(f"it has no output {output}")
    return _leaf_values(trees, forest, [0], output), as_summed("values")


def _class_values(trees: Sequence[Any], forest: PreorderForest, response: Response) -> tuple[Floats, Link]:
    """Leaf values and link of a classifier: probabilities, or what determines the label."""
    n_classes = trees[0].value.shape[2]
    if abs(trees[0].value[0].sum() - 1) > 1e-6:
        raise Declined("its leaves hold counts, as before scikit-learn 1.3")
    if response == "probabilities" and n_classes == 2:
        both = _leaf_values(trees, forest, [0, 1])
        return both[:, 1:].copy() if _is_complement(both[:, 0], len(trees)) else both, as_summed(response)
    if response == "probabilities":
        return _leaf_values(trees, forest, range(n_classes)), as_summed(response)
    rows = _leaf_values(trees, forest, range(n_classes))
    if len(trees) == 1:  # the label is a function of the leaf, ties included
        return rows.argmax(axis=1).astype(np.float64)[:, None], label
    if not np.isin(rows, (0.0, 1.0)).all():
        return rows, Leading(as_summed("scores"))
    return rows, largest  # votes are integers: their sums have no rounding error


def _is_complement(first: Floats, trees: int) -> bool:
    """Whether 1 - p has the digits of every probability of the first class that isn't 0: means of these leaves."""
    return bool(first.min(where=first > 0, initial=1.0) > SMALLEST_COMPLEMENT * trees)


# Arrays of many trees -> concatenated arrays.


def _gathered(trees: Sequence[Any]) -> PreorderForest:
    """The nodes of these trees; tree by tree, since each then fits in the processor's cache."""
    counts = np.array([tree.node_count for tree in trees])
    starts = starts_of(counts)
    n = int(counts.sum())
    left, right, feature = (np.empty(n, np.int32) for _ in range(3))
    threshold, missing_left = np.empty(n), np.empty(n, np.bool_)
    for tree, start, stop in zip(trees, starts.tolist(), (starts + counts).tolist(), strict=True):
        part = slice(start, stop)
        left[part] = np.where(tree.children_left < 0, -1, tree.children_left + start)
        np.add(tree.children_right, start, out=right[part], casting="same_kind")
        feature[part], threshold[part] = tree.feature, tree.threshold
        missing_left[part] = tree.missing_go_to_left
    return in_preorder(Nodes(starts, left, right, feature, threshold, missing_left))


def _leaf_values(trees: Sequence[Any], forest: PreorderForest, columns: Sequence[int], output: int = 0) -> Floats:
    values = (np.concatenate([tree.value[:, output, column] for tree in trees])[forest.leaves] for column in columns)
    return np.stack(list(values), axis=1)


# Boosting.


def read_boosting(model: Model, response: Response) -> Ensemble:
    """GradientBoosting: a constant plus a sum of trees, scaled by the learning rate."""
    native = model.native
    if not (isinstance(native.init_, str) and native.init_ == "zero"):
        init = kind_of(native.init_)
        sure = ("prior", "most_frequent", "constant")  # without a draw
        if init != "sklearn.DummyRegressor" and not (
            init == "sklearn.DummyClassifier" and native.init_.strategy in sure
        ):
            raise Declined("it starts from the predictions of another model")
    kind_of(native._loss)  # declined unless it is scikit-learn's own
    trees = _trees(native.estimators_.ravel())
    forest = _gathered(trees)
    offset = native._raw_predict_init(np.zeros((1, native.n_features_in_), np.float32)).ravel()
    return forest.ensemble(
        value=native.learning_rate * _leaf_values(trees, forest, [0]),
        output=np.arange(len(trees)) % len(offset),
        offset=offset,
        link=as_summed(response) if response == "values" else _class_link(native._loss, response, np.greater_equal),
        single=True,
        accepts_missing=False,
        encode=_encode_finite,
    )


def read_histogram_boosting(model: Model, response: Response) -> Ensemble:
    """HistGradientBoosting: a constant plus a sum of trees, with its own encoding of categories."""
    native = model.native
    loss, predictors = native._loss, [predictor for stage in native._predictors for predictor in stage]
    kinds_of([loss, *predictors])  # declined unless they are scikit-learn's own
    forest, value = _gathered_predictors(native, predictors)
    offset = np.asarray(native._baseline_prediction, dtype=np.float64).ravel()
    return forest.ensemble(
        value=value,
        output=np.arange(len(predictors)) % len(offset),
        offset=offset,
        link=partial(_inverse, loss) if response == "values" else _class_link(loss, response, np.greater),
        encode=partial(_encode_categories, _category_codes(native)),
    )


def _gathered_predictors(native: Any, predictors: Sequence[Any]) -> tuple[PreorderForest, Floats]:
    counts = np.array([len(predictor.nodes) for predictor in predictors], np.int64)
    starts = starts_of(counts)
    parts = [predictor.nodes for predictor in predictors]
    nodes = np.concatenate(parts, dtype=parts[0].dtype)  # named: finding a common one takes longer than all else
    leaf = nodes["is_leaf"].astype(np.bool_)
    shift = np.repeat(starts, counts)
    bitsets = [predictor.raw_left_cat_bitsets for predictor in predictors]
    first_set = np.repeat(starts_of(np.array([len(words) for words in bitsets], np.int64)), counts)
    in_set = np.where(nodes["is_categorical"] & ~leaf, nodes["bitset_idx"] + first_set, -1).astype(np.int32)
    sets = tuple(bits(row) for words in bitsets for row in words)
    forest = in_preorder(
        Nodes(
            roots=starts,
            left=np.where(leaf, -1, nodes["left"] + shift),
            right=np.where(leaf, -1, nodes["right"] + shift),
            feature=_columns(native)[np.where(leaf, 0, nodes["feature_idx"])],
            threshold=np.ascontiguousarray(nodes["num_threshold"]),
            missing_left=nodes["missing_go_to_left"].astype(np.bool_),
            in_set=in_set if sets else None,
            sets=sets,
        )
    )
    return forest, nodes["value"][forest.leaves][:, None]


def _columns(native: Any) -> Ints:
    """The table's column for each column of the trees, which have categorical columns before numerical ones."""
    if native._preprocessor is None:
        return np.arange(native.n_features_in_)
    return np.argsort(~native.is_categorical_, kind="stable")


def _category_codes(native: Any) -> Mapping[int, Mapping[Any, float]]:
    """The code of each category, for each categorical column."""
    if native._preprocessor is None:
        return {}
    encoder = native._preprocessor.named_transformers_["encoder"]
    kinds_of([native._preprocessor, encoder])
    categories = encoder.categories_
    columns = np.flatnonzero(native.is_categorical_).tolist()
    return {
        column: {value: float(place) for place, value in enumerate(values.tolist())}
        for column, values in zip(columns, categories, strict=True)
    }


def _encode_finite(column: int, values: NDArray[Any]) -> Floats:
    encoded = single_numbers(values)
    if np.isinf(encoded).any():
        raise Declined("a column holds values that are infinite in float32")  # the model itself refuses them
    return encoded


def _encode_categories(category_codes: Mapping[int, Mapping[Any, float]], column: int, values: NDArray[Any]) -> Floats:
    if column not in category_codes:
        return numbers(values)
    code = category_codes[column]
    # If trained on polars' None, a missing value is a category of its own; if on NaN, or on none missing, it isn't.
    return codes(values, code, missing=code.get(None, np.nan), unseen=np.nan)


# Raw outputs -> the model's response.


def _inverse(loss: Any, raw: Floats) -> Floats:
    return np.asarray(loss.link.inverse(raw[:, 0]))


def _probabilities(loss: Any, raw: Floats) -> Floats:
    return np.asarray(loss.predict_proba(raw[:, 0] if raw.shape[1] == 1 else raw))


def _class_link(loss: Any, response: Response, second: np.ufunc) -> Link:
    """`second` compares a single score with 0: GradientBoosting and HistGradientBoosting break a tie differently."""
    if response == "probabilities":
        return partial(_probabilities, loss)
    if response == "labels":
        return Leading(as_summed("scores")) if loss.is_multiclass else partial(sign_label, second)
    return as_summed(response)
