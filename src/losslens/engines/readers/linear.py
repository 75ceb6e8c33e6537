"""Linear models: estimator -> the coefficients of the columns that it sees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from losslens.engines.readers.ensemble import Declined
from losslens.engines.readers.pipelines import class_names
from losslens.losses import Response
from losslens.typing import Floats


@dataclass(frozen=True, eq=False)
class Linear:
    """``intercept + matrix @ coef``, for the matrix that the estimator sees."""

    coef: Floats  # (C,)
    intercept: float


def read_linear(estimator: Any, response: Response) -> Linear | None:
    """The coefficients behind a response: None where it isn't a sum over columns, Declined where it is several sums.

    Nothing is checked against the model's own predictions: that is for the caller, who has a table.
    """
    ancestors = frozenset(class_names(estimator))
    if response == "values" and "sklearn.RANSACRegressor" in ancestors:
        return read_linear(_learned(estimator, "estimator_"), response)
    readable = {"values": _REGRESSORS, "scores": _CLASSIFIERS}.get(response, frozenset())
    if not (readable & ancestors and _is_straight(estimator, ancestors)):
        return None
    coef = _learned(estimator, "coef_")
    rows = np.atleast_2d(np.asarray(coef.toarray() if hasattr(coef, "toarray") else coef, np.float64))
    intercepts = np.asarray(_learned(estimator, "intercept_"), np.float64).reshape(-1)
    if len(rows) != 1:
        what = "targets" if response == "values" else "scores"
        raise Declined(f"{type(estimator).__name__} gives {len(rows)} {what}, one sum each")
    return Linear(rows[0].copy(), float(intercepts[0]))  # fitting on would change the model's own


def _is_straight(estimator: Any, ancestors: frozenset[str]) -> bool:
    """Whether its options leave it linear: a kernel or a link can bend it."""
    if "sklearn.BaseLibSVM" in ancestors:
        return bool(estimator.kernel == "linear")
    if "sklearn.TweedieRegressor" in ancestors:
        return bool(estimator.link == "identity" or (estimator.link == "auto" and estimator.power <= 0))
    return True


def _learned(estimator: Any, name: str) -> Any:
    try:
        return getattr(estimator, name)
    except AttributeError as error:
        raise Declined(f"{type(estimator).__name__} has no {name}; is it fitted?") from error


# Multi-task, cross-validated and multi-output kinds descend from these or are named beside them.
_REGRESSORS = frozenset(
    f"sklearn.{name}"
    for name in (
        "LinearRegression",
        "Ridge",
        "RidgeCV",
        "ElasticNet",  # and Lasso
        "ElasticNetCV",
        "LassoCV",
        "MultiTaskElasticNetCV",
        "MultiTaskLassoCV",
        "Lars",  # and LassoLars, LarsCV, LassoLarsCV, LassoLarsIC
        "OrthogonalMatchingPursuit",
        "OrthogonalMatchingPursuitCV",
        "BayesianRidge",
        "ARDRegression",
        "HuberRegressor",
        "TheilSenRegressor",
        "QuantileRegressor",
        "SGDRegressor",
        "PassiveAggressiveRegressor",
        "LinearSVR",
        "SVR",
        "NuSVR",
        "TweedieRegressor",
    )
)
_CLASSIFIERS = frozenset(
    f"sklearn.{name}"
    for name in (
        "LogisticRegression",  # and LogisticRegressionCV
        "RidgeClassifier",
        "RidgeClassifierCV",
        "SGDClassifier",
        "Perceptron",
        "PassiveAggressiveClassifier",
        "LinearDiscriminantAnalysis",
        "LinearSVC",
        "SVC",
        "NuSVC",
    )
)
