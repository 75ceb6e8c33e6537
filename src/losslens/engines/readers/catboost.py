"""CatBoost, read from the JSON in which it saves a model.

An oblivious tree tests at all nodes of a level whether the same number is above the same border; the results are the
bits of the leaf's number. It is written out as an ordinary tree.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from losslens.engines.base import Declined
from losslens.engines.readers import ensemble
from losslens.engines.readers.ensemble import Ensemble, Transform
from losslens.engines.readers.layout import (
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


def read_catboost(model: Model, response: Response) -> Ensemble:
    """A CatBoost model."""
    native = model.native
    kind_of(native._object)  # declined unless it is the library's own
    saved = _saved(native)
    features = saved["features_info"]
    if compared := [kind for kind, some in features.items() if some and kind != "float_features"]:
        raise Declined(
            f"its trees compare {compared[0].replace('_', ' ')}, and those that compare numbers alone are read"
        )
    if "oblivious_trees" not in saved:
        raise Declined("its trees are not symmetric: only those of grow_policy='SymmetricTree' are read")
    scale, bias = saved["scale_and_bias"]
    if len(bias) > 1 and response == "values":
        raise Declined("it has several outputs")
    trees = saved["oblivious_trees"]
    if not trees:
        raise Declined("it has no trees")
    numeric = features["float_features"]
    forest, value = _written_out(trees, {one["feature_index"]: one["flat_feature_index"] for one in numeric}, len(bias))
    highest = frozenset(one["flat_feature_index"] for one in numeric if one["nan_value_treatment"] == "AsTrue")
    return forest.ensemble(
        value=scale * value,
        output=np.zeros(len(trees)),
        offset=np.array(bias),
        link=_link(saved["model_info"], response, len(bias)),
        single=True,
        encode=partial(_encode, highest),
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


def _link(info: Mapping[str, Any], response: Response, outputs: int) -> Link:
    if "params" not in info and "loss_function" not in info:
        raise Declined("it is a sum of models with several objectives")
    loss = (info["params"]["loss_function"] if "params" in info else json.loads(info["loss_function"]))["type"]
    if loss not in _LINKS:
        raise Declined(f"the objective {loss} is not supported")
    if response != "labels" or outputs > 1:
        transform = ensemble.identity if response == "scores" else _LINKS[loss]
        return ensemble.of_classes(transform, response, np.float64, outputs)  # type: ignore[no-any-return]
    if "binclass_probability_threshold" in info:
        raise Declined("its labels have a threshold of their own")
    return partial(ensemble.sign_label, np.greater)


def _written_out(
    trees: Sequence[Mapping[str, Any]], column: Mapping[int, int], outputs: int
) -> tuple[PreorderForest, Floats]:
    """Ordinary trees, and the values of their leaves; `column` is the table's for each feature."""
    written = [complete_tree(len(tree["splits"])) for tree in trees]
    counts = np.array([len(level) for level, _, _ in written])
    starts, splits = starts_of(counts), [split for tree in trees for split in tree["splits"]]
    first = starts_of(np.array([len(tree["splits"]) for tree in trees]))
    level, right = (np.concatenate([one[k] for one in written]) for k in (0, 1))
    leaf = level < 0
    split = np.where(leaf, 0, level + np.repeat(first, counts))
    feature = np.array([*(column[one["float_feature_index"]] for one in splits), 0])  # 0: if all trees are leaves
    nodes = Nodes(
        roots=starts,
        left=np.where(leaf, -1, np.arange(1, len(leaf) + 1)),
        right=np.where(leaf, -1, right + np.repeat(starts, counts)),
        feature=feature[split],
        threshold=np.array([*(one["border"] for one in splits), 0.0])[split],
        missing_left=np.zeros(len(leaf), np.bool_),
    )
    values = [
        np.array(tree["leaf_values"]).reshape(-1, outputs)[number[level < 0]]
        for tree, (level, _, number) in zip(trees, written, strict=True)
    ]
    return in_preorder(nodes), np.concatenate(values)


def _encode(missing_highest: frozenset[int], column: int, values: NDArray[Any]) -> Floats:
    """Numbers; a missing value is below all borders, or above them."""
    missing = np.inf if column in missing_highest else -np.inf
    return np.nan_to_num(single_numbers(values), nan=missing, posinf=np.inf, neginf=-np.inf)
