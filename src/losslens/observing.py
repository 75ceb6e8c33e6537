"""The verb that looks at observations: from shares of a model's performance to what they are worth row by row."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from losslens.importances import Importances
from losslens.observation_results import Observations
from losslens.results import Floats, Indices
from losslens.sample import Sample
from losslens.shapley_results import ShapleyImportance


def observations(shapley: ShapleyImportance, importances: Importances | None = None) -> Observations:
    """Say how much the model's knowledge helps each row, which rows look wrong, and which carry the importances.

    ``O_i = mean_k L(f(x_k), y_i) - L(f(x_i), y_i)``: the loss of a row with everybody's prediction less that with its
    own. It is the sum of the row's local SFIMP. No prediction is made.

    Parameters
    ----------
    shapley
        What `shapley_importance` gives.
    importances
        What `feature_importance` gives for the same rows: adds how far leaving out a row would move a feature's
        importance, for that feature which it moves most.

    Examples
    --------
    >>> import numpy as np, losslens as ll
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> y = X[:, 0] + 0.1 * X[:, 1]
    >>> y[7] = -10 * X[7, 0]  # a wrong target
    >>> shares = ll.shapley_importance(lambda X: X[:, 0], X, y, loss="squared_error")
    >>> ll.observations(shares).suspicious
    array([7])
    """
    if not isinstance(shapley, ShapleyImportance):
        raise TypeError(f"observations takes what shapley_importance gives; got {type(shapley).__name__}")
    if shapley.loss is None or shapley.sample.loss is None:
        raise ValueError(f"{shapley.title} is a score of all rows together: single rows have none; use a loss")
    at, sample = shapley.at, shapley.sample
    importance, loss = shapley.observations, shapley.sample.loss[at]
    influence, on = (None, None) if importances is None else _largest(importances, len(at))
    labels = shapley.loss.reads == "labels"
    return Observations(
        importance=importance,
        loss=loss,
        weight=sample.weight[at] / sample.weight[at].sum(),
        target=_target(sample, at),
        prediction=_prediction(sample, at, labels),
        influence=influence,
        influence_on=on,
        title=shapley.title,
        sampled=not shapley.exact,
        backend=shapley.backend,
    )


def _target(sample: Sample, at: Indices) -> NDArray[Any] | None:
    if sample.y is None:
        return None
    return np.asarray(sample.y[at] if sample.classes is None else sample.classes[sample.y[at]])


def _prediction(sample: Sample, at: Indices, labels: bool) -> NDArray[Any] | None:
    """Numbers as they are, and of several classes the likeliest; None where that is not one plain number or label."""
    shown = sample.prediction[at]
    if sample.classes is None:
        return np.asarray(shown) if shown.ndim == 1 else None
    if labels:
        return np.asarray(sample.classes[shown]) if shown.ndim == 1 and shown.min() >= 0 else None
    return np.asarray(sample.classes[shown.argmax(axis=1)]) if shown.ndim == 2 else np.asarray(shown)


def _largest(importances: Importances, n: int) -> tuple[Floats, NDArray[Any]]:
    """The largest influence of each row over the features, and on which."""
    if not isinstance(importances, Importances):
        raise TypeError(f"importances is what feature_importance gives; got {type(importances).__name__}")
    rows = len(next(iter(importances.values())).at)
    if rows != n:
        raise ValueError(f"the importances are of {rows} rows, the Shapley shares of {n}; explain the same rows")
    totals, names, why = [], [], ""
    for name, feature in importances.items():
        try:
            totals.append(feature.row_influence.total)
            names.append(name)
        except ValueError as error:  # curves only, say
            why = str(error)
    if not totals:
        raise ValueError(f"no feature tells the influence of single rows: {why}")
    table = np.nan_to_num(np.stack(totals, axis=1))
    place = np.abs(table).argmax(axis=1)
    return table[np.arange(n), place], np.array(names, dtype=object)[place]
