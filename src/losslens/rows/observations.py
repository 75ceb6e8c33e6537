"""The verb that looks at observations: from shares of a model's performance to what they are worth row by row."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from losslens.results.importances import Importances
from losslens.tables.sample import Sample
from losslens.typing import Floats, Indices


def observed_target(sample: Sample, at: Indices) -> NDArray[Any] | None:
    """The target of these rows, as labels where there are classes; None without a target."""
    if sample.y is None:
        return None
    return np.asarray(sample.y[at] if sample.classes is None else sample.classes[sample.y[at]])


def shown_prediction(sample: Sample, at: Indices, labels: bool) -> NDArray[Any] | None:
    """Numbers as they are, and of several classes the likeliest; None where that is not one plain number or label."""
    shown = sample.prediction[at]
    if sample.classes is None:
        return np.asarray(shown) if shown.ndim == 1 else None
    if labels:
        return np.asarray(sample.classes[shown]) if shown.ndim == 1 and shown.min() >= 0 else None
    return np.asarray(sample.classes[shown.argmax(axis=1)]) if shown.ndim == 2 else np.asarray(shown)


def largest_influence(importances: Importances, n: int, target: NDArray[Any]) -> tuple[Floats, NDArray[Any]]:
    """The largest influence of each row over the features, and on which."""
    if not isinstance(importances, Importances):
        raise TypeError(f"importances is what feature_importance gives; got {type(importances).__name__}")
    rows = len(next(iter(importances.values())).at)
    if rows != n:
        raise ValueError(f"the importances are of {rows} rows, the Shapley shares of {n}; explain the same rows")
    first = next(iter(importances.values()))
    if first.sample.y is None or not np.array_equal(first.sample.y[first.at], target):
        raise ValueError("the importances are of other rows than the Shapley shares; explain the same in one order")
    totals, names, why = [], [], ""
    for name, feature in importances.items():
        try:
            totals.append(feature.row_influence.total)
            names.append(name)
        except ValueError as error:  # curves only, say
            why = str(error)
    if not totals:
        raise ValueError(f"no feature tells the influence of single rows: {why}")
    table = np.stack(totals, axis=1)
    place = np.abs(np.nan_to_num(table)).argmax(axis=1)
    return table[np.arange(n), place], np.array(names, dtype=object)[place]
