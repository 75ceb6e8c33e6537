"""Targets, predictions and influences of single rows, for the table of observations."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from losslens.results.importances import Importances
from losslens.results.observations import Observations
from losslens.results.shapley import ShapleyImportance
from losslens.tables.sample import Sample
from losslens.typing import Floats, Indices


def rank_rows(shapley: ShapleyImportance, importances: Importances | None) -> Observations:
    """Rows by how much all features together reduce their loss, with what they are and, on request, their influence."""
    if shapley.loss is None or shapley.sample.loss is None:
        raise ValueError(f"{shapley.title} is a score of all rows together, which single rows do not have; use a loss")
    if shapley.aggregate == "prediction":
        raise ValueError("with averaged predictions rows have another gain than with single donors; leave out Sage()")
    rows, sample = shapley.at, shapley.sample
    assert sample.y is not None  # a loss has read it
    importance, loss = shapley.observations, shapley.sample.loss[rows]
    largest = (None, None) if importances is None else largest_influence(importances, len(rows), sample.y[rows])
    labels = shapley.loss.reads == "labels"
    return Observations(
        importance=importance,
        loss=loss,
        weight=sample.weight[rows] / sample.weight[rows].sum(),
        target=observed_target(sample, rows),
        prediction=shown_prediction(sample, rows, labels),
        influence=largest[0],
        influence_on=largest[1],
        title=shapley.title,
        backend=shapley.backend,
        row_labels=shapley.row_labels,
    )


def observed_target(sample: Sample, rows: Indices) -> NDArray[Any] | None:
    """The target of these rows, as labels if there are classes; None without a target."""
    if sample.y is None:
        return None
    return np.asarray(sample.y[rows] if sample.classes is None else sample.classes[sample.y[rows]])


def shown_prediction(sample: Sample, rows: Indices, labels: bool) -> NDArray[Any] | None:
    """Predictions of these rows, of several classes the most likely one; None if it is not one number or label."""
    shown = sample.prediction[rows]
    if sample.classes is None:
        return np.asarray(shown) if shown.ndim == 1 else None
    if labels:
        return np.asarray(sample.classes[shown]) if shown.ndim == 1 and shown.min() >= 0 else None
    return np.asarray(sample.classes[shown.argmax(axis=1)]) if shown.ndim == 2 else np.asarray(shown)


def largest_influence(importances: Importances, n: int, target: NDArray[Any]) -> tuple[Floats, NDArray[Any]]:
    """The influence of each row that is largest over the features, and the feature."""
    first = next(iter(importances.values()))
    rows = len(first.at)
    if rows != n:
        raise ValueError(f"the importances are of {rows} rows, the Shapley shares of {n}; explain the same rows")
    if first.sample.y is None or not np.array_equal(first.sample.y[first.at], target):
        raise ValueError(
            "the importances are of other rows than the Shapley shares; explain the same rows in the same order"
        )
    totals, names, why = [], [], ""
    for name, feature in importances.items():
        try:
            totals.append(feature.row_influence.total)
            names.append(name)
        except ValueError as error:  # for example curves only
            why = str(error)
    if not totals:
        raise ValueError(f"the influence of single rows is not available for any feature: {why}")
    table = np.stack(totals, axis=1)
    place = np.abs(np.nan_to_num(table)).argmax(axis=1)
    return table[np.arange(n), place], np.array(names, dtype=object)[place]
