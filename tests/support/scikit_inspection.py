"""scikit-learn's partial dependence, computed by losslens: arguments and results as there.

For scikit-learn's own tests. Where an argument asks for something that losslens does not compute, `pytest.skip` says
what.
"""

from itertools import product

import numpy as np
import pandas as pd
import pytest
from sklearn.base import is_classifier, is_regressor
from sklearn.inspection._partial_dependence import _grid_from_X
from sklearn.utils import Bunch

import losslens as ll


def partial_dependence(
    estimator, X, features, *, sample_weight=None, categorical_features=None, response_method="auto",
    percentiles=(0.05, 0.95), grid_resolution=100, method="auto", kind="average", custom_values=None,
):  # fmt: skip
    """Curves of `feature_effect`, on the grid that scikit-learn would use."""
    if method == "recursion":
        pytest.skip("recursion weights the branches of a tree by its training rows, which is no mean over rows of X")
    X = X if hasattr(X, "iloc") else np.asarray(X)
    labels = list(X.columns) if hasattr(X, "iloc") else list(range(X.shape[1]))
    columns = _columns(features, labels)
    given = custom_values or {}
    values = {k: given[c] for k, c in enumerate(np.atleast_1d(features)) if c in given and columns[k] is not None}
    if np.asarray(features).dtype == bool:
        values = {}
    taken = X.iloc[:, columns] if hasattr(X, "iloc") else X[:, columns]
    categorical = [False] * len(columns) if categorical_features is None else np.isin(columns, categorical_features)
    _, axes = _grid_from_X(taken, percentiles, categorical, grid_resolution, values)
    curves = _partial_dependence_curves(estimator, X, columns, axes, sample_weight, response_method)
    average, individual = (np.array(part) for part in zip(*curves, strict=True))
    shape = tuple(map(len, axes))
    found = Bunch(grid_values=axes)
    if kind in ("average", "both"):
        found["average"] = average.reshape(len(average), *shape)
    if kind in ("individual", "both"):
        found["individual"] = individual.reshape(*individual.shape[:2], *shape)
    return found


def partial_dependence_brute(est, grid, features, X, response_method, sample_weight=None):
    """Of one feature: scikit-learn's own function below `partial_dependence`."""
    (column,) = features
    curves = _partial_dependence_curves(est, X, [column], [grid[:, 0]], sample_weight, response_method)
    return tuple(np.array(part) for part in zip(*curves, strict=True))


def _columns(features, labels):
    """Positions of columns, from positions, names or a mask."""
    wanted = np.atleast_1d(np.asarray(features))
    if wanted.dtype == bool:
        return np.flatnonzero(wanted).tolist()
    if wanted.dtype.kind in "iu":
        return wanted.tolist()
    return [labels.index(name) for name in wanted.tolist()]


def _partial_dependence_curves(estimator, X, columns, axes, sample_weight, response_method):
    """For each output the PD and ICE curves on the product grid, its last axis the fastest.

    The rows are repeated for all values of the other columns; one call then gives the curves of the last column.
    """
    fixed = list(product(*axes[:-1]))
    table, group = _repeated(X, columns[:-1], fixed), np.repeat(np.arange(len(fixed)), len(X))
    name = columns[-1] if isinstance(X, np.ndarray) else X.columns[columns[-1]]
    weight = None if sample_weight is None else np.tile(sample_weight, len(fixed))
    for model, target in _outputs(estimator, X, response_method):
        (one,) = ll.feature_effect(
            model, table, target=target, sample_weight=weight, features=[name], donors=ll.Grid(values=list(axes[-1]))
        ).values()
        place = [list(one.grid).index(value) for value in axes[-1]]  # the grid of a result is sorted
        parts = [one.given(group == k) for k in range(len(fixed))] if len(fixed) > 1 else [one]
        yield np.concatenate([part.pd[place] for part in parts]), np.hstack([part.ice[:, place] for part in parts])


def _repeated(X, columns, fixed):
    """The table once for each tuple of values, which all of its rows take in these columns."""
    if not columns:
        return X
    table = pd.concat([X] * len(fixed)) if isinstance(X, pd.DataFrame) else np.tile(X, (len(fixed), 1))
    for place, column in enumerate(columns):
        values = np.repeat([one[place] for one in fixed], len(X))
        if isinstance(table, pd.DataFrame):
            table.isetitem(column, values.astype(X.dtypes.iloc[column]))
        else:
            table[:, column] = values
    return table


def _outputs(estimator, X, response_method):
    """A model and a class for each output: classes of a classifier, columns of a regression."""
    if is_classifier(estimator):
        classes = list(estimator.classes_)
        model = estimator if response_method != "decision_function" else estimator.decision_function
        if model is not estimator:
            return [(model, None)]
        return [(estimator, label) for label in (classes[1:] if len(classes) == 2 else classes)]
    if not is_regressor(estimator):
        raise ValueError("'estimator' must be a fitted regressor or classifier")
    width = np.shape(estimator.predict(X[:2]))[1:]
    if not width:
        return [(estimator, None)]
    return [(lambda table, k=k: estimator.predict(table)[:, k], None) for k in range(width[0])]
