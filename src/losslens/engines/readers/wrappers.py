"""Estimators that hold others: the response of the model inside that they use, and what they make of it.

A wrapper around one model applies a function to the response: the inverse of a transformed target, or a calibration. A
mean of models adds up responses. Both are read from the fitted attributes that predict uses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from losslens.engines.base import Declined, Mean, Member, Wrapped
from losslens.engines.readers.ensemble import TIES
from losslens.engines.readers.recognition import kind_of, kinds_of
from losslens.losses import Response

Array = NDArray[Any]


def inside(native: Any) -> Any:
    """The fitted model inside a wrapper around one model; None if this is no such wrapper."""
    return _INSIDE[kind_of(native)](native) if _may_be_in(_INSIDE, native) else None


def wrapped_in(native: Any, response: Response) -> Wrapped | None:
    """The model inside a wrapper around one model; None if this is no such wrapper."""
    estimator = inside(native)
    return None if estimator is None else _WRAPPERS[kind_of(native)](native, estimator, response)


def mean_in(native: Any, response: Response) -> Mean | None:
    """The models whose mean an estimator is; None if it is no mean."""
    return _MEANS[kind_of(native)](native, response) if _may_be_in(_MEANS, native) else None


def _may_be_in(table: Mapping[str, Any], native: Any) -> bool:
    """Whether the name of its class is one of these: looking at all of its methods takes longer."""
    return f"sklearn.{type(native).__name__}" in table and kind_of(native) in table


# A transformed target.


def _transformed_target(native: Any, estimator: Any, response: Response) -> Wrapped:
    if native._training_dim != 1:
        raise Declined("it has several outputs")
    transformer = native.transformer_
    if not _check_inverse(transformer):
        return Wrapped(estimator, response)
    return Wrapped(estimator, response, partial(_inverse, transformer), form=_form(transformer))


def _inverse(transformer: Any, prediction: Array) -> Array:
    with np.errstate(all="ignore"):  # a link is tried on numbers that may be outside its domain
        return np.asarray(transformer.inverse_transform(prediction.reshape(-1, 1)))[:, 0]


def _check_inverse(transformer: Any) -> bool:
    """Whether a transformer changes values at all; Declined unless it changes each without regard to the others."""
    kind = kind_of(transformer)
    if kind == "sklearn.Pipeline":
        steps = [step for _, step in transformer.steps if step is not None and step != "passthrough"]
        return max(map(_check_inverse, steps), default=False)
    if kind == "sklearn.FunctionTransformer":
        func = transformer.inverse_func
        if func is None or is_pointwise(func, transformer.inv_kw_args):
            return func is not None
        name = getattr(func, "__name__", type(func).__name__)
        raise Declined(f"the function {name} of its transformed target is not known to work value by value")
    if kind not in POINTWISE_INVERSES:
        raise Declined(f"the {type(transformer).__name__} of its target is not known to work value by value")
    return True


def _form(transformer: Any) -> Any:
    """Link, slope and shift of an inverse that is ``link(slope x + shift)``; None for others."""
    kind = kind_of(transformer)
    if kind == "sklearn.FunctionTransformer":
        link = {np.exp: "log", np.expm1: "log1p"}.get(transformer.inverse_func)
        return None if link is None else (link, 1.0, 0.0)
    if kind not in _LINEAR_INVERSES:
        return None
    ends = _inverse(transformer, np.array([0.0, 1.0]))
    return "identity", float(ends[1] - ends[0]), float(ends[0])


_LINEAR_INVERSES = {"sklearn.StandardScaler", "sklearn.MinMaxScaler", "sklearn.MaxAbsScaler", "sklearn.RobustScaler"}
# Steps whose transformation and inverse change each value without regard to the others.
POINTWISE_INVERSES = _LINEAR_INVERSES | {"sklearn.PowerTransformer", "sklearn.QuantileTransformer"}


def is_pointwise(func: Any, options: Any) -> bool:
    """Whether a function works value by value, as NumPy's ufuncs do."""
    # A ufunc with a signature (matmul) combines several elements, and options can name other arrays.
    return isinstance(func, np.ufunc) and (func.nin, func.nout, func.signature) == (1, 1, None) and not options


# Calibration.


def _calibrated(native: Any, estimator: Any, response: Response) -> Wrapped:
    if response == "labels":
        raise Declined(TIES)
    return _one_calibrated(native.calibrated_classifiers_[0])


def _alone(native: Any) -> Any:
    return native.calibrated_classifiers_[0].estimator if len(native.calibrated_classifiers_) == 1 else None


def _mean_of_calibrated(native: Any, response: Response) -> Mean:
    each = native.calibrated_classifiers_
    if response == "labels":
        raise Declined(TIES)
    return Mean([Member(_one_calibrated(one)) for one in each], native.n_features_in_)


def _one_calibrated(one: Any) -> Wrapped:
    kind_of(one)  # declined unless it is scikit-learn's own
    kinds_of(one.calibrators)
    if one.method not in ("sigmoid", "isotonic", "temperature"):
        raise Declined(f"the calibration method {one.method} is not supported")
    if not np.array_equal(one.estimator.classes_, one.classes):
        raise Declined("it was calibrated without some of the classes")
    transform = partial(_temperature if one.method == "temperature" else _by_class, one.calibrators)
    inner_response: Response = "scores" if hasattr(one.estimator, "decision_function") else "probabilities"
    sigmoid = one.method == "sigmoid" and inner_response == "scores" and len(one.calibrators) == 1
    form: Any = ("logistic", -float(one.calibrators[0].a_), -float(one.calibrators[0].b_)) if sigmoid else None
    return Wrapped(one.estimator, inner_response, transform, form=form)


def _by_class(calibrators: Sequence[Any], response: Array) -> Array:
    """Calibrated probabilities of each class against the others, as scikit-learn's _CalibratedClassifier has them."""
    if len(calibrators) == 1:
        second = np.asarray(calibrators[0].predict(response[:, 1] if response.ndim == 2 else response))
        return _at_most_1(np.column_stack([1.0 - second, second]))
    each = np.column_stack([one.predict(column) for one, column in zip(calibrators, response.T, strict=True)])
    total = each.sum(axis=1)[:, None]
    return _at_most_1(np.divide(each, total, out=np.full(each.shape, 1 / each.shape[1]), where=total != 0))


def _temperature(calibrators: Sequence[Any], response: Array) -> Array:
    return _at_most_1(np.asarray(calibrators[0].predict(response.reshape(len(response), -1)), np.float64))


def _at_most_1(probabilities: Array) -> Array:
    probabilities[(probabilities > 1.0) & (probabilities <= 1.0 + 1e-5)] = 1.0
    return probabilities


def _thresholded(native: Any, estimator: Any, response: Response) -> Wrapped:
    """Of a classifier with a threshold of its own: its probabilities and scores are those of the model inside."""
    if response == "labels":
        raise Declined("its labels have a threshold of their own")
    return Wrapped(estimator, response)


# Means.


def _bagging(native: Any, response: Response) -> Mean:
    estimators, width = native.estimators_, native.n_features_in_
    inner_response: Response = "probabilities" if response == "labels" else response
    if response != "values":
        if not all(hasattr(one, "predict_proba") for one in estimators):
            raise Declined("its classifiers vote, as they have no probabilities")
        if any(len(one.classes_) != native.n_classes_ for one in estimators):
            raise Declined("some of its models were fitted without one of the classes")
    members = [
        Member(Wrapped(one, inner_response), columns=np.asarray(columns, np.intp))
        for one, columns in zip(estimators, native.estimators_features_, strict=True)
    ]
    return Mean(members, width, largest=response == "labels")


def _voting_regressor(native: Any, response: Response) -> Mean:
    return Mean(_voters(native, response), native.n_features_in_)


def _voting_classifier(native: Any, response: Response) -> Mean:
    if response == "labels":
        raise Declined(TIES)
    return Mean(_voters(native, response), native.n_features_in_)


def _voters(native: Any, response: Response) -> list[Member]:
    weights = native._weights_not_none or [1.0] * len(native.estimators_)
    return [
        Member(Wrapped(one, response), float(weight)) for one, weight in zip(native.estimators_, weights, strict=True)
    ]


_INSIDE: dict[str, Callable[[Any], Any]] = {
    "sklearn.TransformedTargetRegressor": lambda native: native.regressor_,
    "sklearn.CalibratedClassifierCV": _alone,
    "sklearn.FixedThresholdClassifier": lambda native: getattr(native, "estimator_", native.estimator),
    "sklearn.TunedThresholdClassifierCV": lambda native: native.estimator_,
}
_WRAPPERS: dict[str, Callable[[Any, Any, Response], Wrapped]] = {
    "sklearn.TransformedTargetRegressor": _transformed_target,
    "sklearn.CalibratedClassifierCV": _calibrated,
    "sklearn.FixedThresholdClassifier": _thresholded,
    "sklearn.TunedThresholdClassifierCV": _thresholded,
}
_MEANS: dict[str, Callable[[Any, Response], Mean]] = {
    "sklearn.CalibratedClassifierCV": _mean_of_calibrated,
    "sklearn.BaggingRegressor": _bagging,
    "sklearn.BaggingClassifier": _bagging,
    "sklearn.VotingRegressor": _voting_regressor,
    "sklearn.VotingClassifier": _voting_classifier,
}
