"""Naive Bayes: log-odds, or log-likelihoods of several classes, as sums over functions of single columns."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from losslens.engines.base import Declined
from losslens.engines.linked_sums import SEVERAL_CLASSES, ColumnFunctions, LinkedLinear
from losslens.engines.readers.recognition import kind_of
from losslens.losses import Response
from losslens.typing import Floats

Sums = tuple[Floats, Floats, ColumnFunctions | None]  # coefficients (K, C), intercepts (K,), functions of columns


def read_naive_bayes(estimator: Any, response: Response) -> LinkedLinear | None:
    """The sums of a naive Bayes classifier; None if it is none, or not fitted."""
    reader = _READERS.get(kind_of(estimator))
    if reader is None or response not in ("probabilities", "labels") or not hasattr(estimator, "classes_"):
        return None
    coef, intercept, functions = reader(estimator)
    labels = response == "labels"
    if len(coef) == 2:
        difference = coef[1:] - coef[:1], intercept[1:] - intercept[:1]
        return LinkedLinear(*difference, "sign" if labels else "odds", response, functions)
    if labels:
        raise Declined(SEVERAL_CLASSES)
    return LinkedLinear(coef, intercept, "softmax", response, functions)


def _gaussian(estimator: Any) -> Sums:
    """-(x - theta)^2 / (2 var), as a polynomial in the distance from the middle of the classes."""
    theta, var = np.asarray(estimator.theta_, float), np.asarray(estimator.var_, float)
    middle = theta.mean(axis=0)
    deviation = theta - middle
    columns = np.arange(theta.shape[1])
    functions = ColumnFunctions(np.concatenate([columns, columns]), partial(_two_powers, middle))
    constant = np.log(estimator.class_prior_) - 0.5 * np.sum(np.log(2 * np.pi * var) + deviation**2 / var, axis=1)
    return np.concatenate([deviation / var, -0.5 / var], axis=1), constant, functions


def _two_powers(middle: Floats, X: Floats) -> Floats:
    return np.concatenate([X - middle, (X - middle) ** 2], axis=1)


def _bernoulli(estimator: Any) -> Sums:
    present = np.asarray(estimator.feature_log_prob_, float)
    absent = np.log(1 - np.exp(present))
    functions = None
    if estimator.binarize is not None:
        functions = ColumnFunctions(np.arange(present.shape[1]), partial(_above, float(estimator.binarize)))
    return present - absent, np.asarray(estimator.class_log_prior_) + absent.sum(axis=1), functions


def _above(threshold: float, X: Floats) -> Floats:
    return np.asarray(np.greater(X, threshold), float)


def _multinomial(estimator: Any) -> Sums:
    return np.array(estimator.feature_log_prob_, float), np.array(estimator.class_log_prior_, float), None


def _complement(estimator: Any) -> Sums:
    coef = np.array(estimator.feature_log_prob_, float)
    return coef, np.zeros(len(coef)), None


def _categorical(estimator: Any) -> Sums:
    """A number for each category of each column."""
    widths = [table.shape[1] for table in estimator.feature_log_prob_]
    column = np.repeat(np.arange(len(widths)), widths)
    category = np.concatenate([np.arange(width) for width in widths])
    coef = np.concatenate([np.asarray(table, float) for table in estimator.feature_log_prob_], axis=1)
    functions = ColumnFunctions(column, partial(_is_category, column, category))
    return coef, np.array(estimator.class_log_prior_, float), functions


def _is_category(column: Any, category: Any, X: Floats) -> Floats:
    return np.asarray(np.trunc(X)[:, column] == category, float)  # which it reads as whole numbers


_READERS: dict[str, Callable[[Any], Sums]] = {
    "sklearn.GaussianNB": _gaussian,
    "sklearn.BernoulliNB": _bernoulli,
    "sklearn.MultinomialNB": _multinomial,
    "sklearn.ComplementNB": _complement,
    "sklearn.CategoricalNB": _categorical,
}
