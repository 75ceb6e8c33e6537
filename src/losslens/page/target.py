"""The target: the classes of a classifier by name, the class whose probability is shown, predicted labels."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from losslens.page.labels import texts
from losslens.results.effects import FeatureEffect
from losslens.results.importance import FeatureImportance

MOST_CLASSES = 10  # with a PD curve: the most frequent ones


def target_dict(name: str, one: FeatureImportance) -> dict[str, Any]:
    """The target of the first model; without classes, `classes` and `shown` are None."""
    classes = one.sample.classes
    if classes is None:
        return {"name": name, "reads": one.loss.reads, "classes": None, "shown": None, "drawn": None}
    order = _by_frequency(one)
    return {
        "name": name, "reads": one.loss.reads, "classes": _named(classes),
        "shown": 1 if len(classes) == 2 else order[0],  # of two as `effect`, of more the most frequent
        "drawn": sorted(order[:MOST_CLASSES]),
    }  # fmt: skip


def shown_class(target: dict[str, Any]) -> str | None:
    """The class whose probability the page shows, by name."""
    return None if target["classes"] is None else str(target["classes"][target["shown"]])


def _by_frequency(one: FeatureImportance) -> list[int]:
    sample = one.sample
    assert sample.y is not None  # every loss reads it
    assert sample.classes is not None  # as the caller has seen
    mass = np.bincount(sample.y, sample.weight, len(sample.classes))
    return [int(k) for k in np.argsort(-mass, kind="stable")]


def _named(classes: NDArray[Any]) -> list[str]:
    return [str(text) for text in texts(classes.tolist())]


def true_labels(one: FeatureImportance) -> list[str] | None:
    """The classes of the rows by name; None without classes."""
    if one.sample.classes is None or one.sample.y is None:
        return None
    named = _named(one.sample.classes)
    return [named[k] for k in one.sample.y]


def predictions(one: FeatureImportance, shown: str | None) -> NDArray[Any] | None:
    """One number a row: the predicted value, or the probability or score of the shown class; None for labels alone."""
    prediction, classes = one.sample.prediction, one.sample.classes
    if classes is not None and one.loss.reads == "labels":
        return None
    if prediction.ndim == 1:
        return np.asarray(prediction, float)
    assert classes is not None  # predictions have a column for each
    return np.asarray(prediction[:, _place(classes, shown)], float)


def predicted_labels(one: FeatureImportance) -> list[str | None] | None:
    """The predicted class of each row by name: the most probable one; None without classes."""
    prediction, classes = one.sample.prediction, one.sample.classes
    if classes is None or one.loss.reads == "values":
        return None
    if prediction.ndim == 2:
        place = prediction.argmax(axis=1)
    else:
        place = prediction if one.loss.reads == "labels" else (prediction > 0).astype(int)
    named = _named(classes)
    return [named[k] if k >= 0 else None for k in place.tolist()]  # -1: a label that is no class of y


def effect_of(one: FeatureImportance, shown: str | None) -> FeatureEffect:
    """PD and ICE of the values, or of a class by name."""
    classes = one.sample.classes
    if classes is None or one.loss.reads == "values":
        return one.effect
    return one.effect_of(classes[_place(classes, shown)])


def _place(classes: NDArray[Any], name: str | None) -> int:
    named = _named(classes)
    if name not in named:
        raise ValueError(f"class {name!r} is not one of the model's, {named!r}")
    return named.index(name)
