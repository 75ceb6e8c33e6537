"""The best constant: one prediction for all rows, the same for each, with the smallest mean loss."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from losslens.losses import Loss, OutputLoss, OutputsLoss
from losslens.tables.sample import Sample
from losslens.typing import Floats, Indices

MEANS = ("squared_error", "poisson_deviance", "gamma_deviance", "tweedie_deviance")  # least at the mean of y


@dataclass(frozen=True)
class BestConstant:
    """What it predicts, in words, and its error on the same rows."""

    words: str
    error: float


def best_constant(loss: Loss, sample: Sample, rows: Indices) -> BestConstant:
    """The best constant of these rows, or ValueError where it is not known.

    Squared error and deviances: the weighted mean of y. Absolute error and pinball loss: a quantile. Huber loss: where
    the clipped residuals have the mean 0. Log loss and Brier score: the share of each class. Zero-one loss: the most
    frequent class. Hinge loss of two classes: a score of 1 for the more frequent one.
    """
    words, losses, weight = losses_of_constant(loss, sample, rows)
    return BestConstant(words, float(weight @ losses))


def losses_of_constant(loss: Loss, sample: Sample, rows: Indices) -> tuple[str, Floats, Floats]:
    """The best constant in words, its loss for each of these rows, and their weights, which sum to one."""
    if sample.totals is not None:
        raise ValueError("the best constant needs y of all rows, and a result of files keeps some of them")
    if loss.custom or sample.y is None:
        raise ValueError(f"the best constant prediction is not known for the loss {loss.name!r}; use a named loss")
    if not sample.weight[rows].any():
        raise ValueError("the best constant needs a row with a weight above zero, and these rows have none")
    if loss.reads == "outputs":
        return _of_outputs(loss, sample, rows)
    y, weight = sample.y[rows], sample.weight[rows] / sample.weight[rows].sum()
    words, constant = _constant(loss, y, weight, sample.prediction)
    if loss.reads == "probabilities" and len(np.unique(y[weight > 0])) == 1:
        return words, np.zeros(len(y)), weight  # else: what clipping leaves
    return words, loss(y, np.broadcast_to(constant, (len(y), *constant.shape))), weight


def _of_outputs(loss: Loss, sample: Sample, rows: Indices) -> tuple[str, Floats, Floats]:
    """Each output has a constant of its own."""
    several = loss.of if isinstance(loss, OutputLoss) else loss
    if not isinstance(several, OutputsLoss) or not several.each or sample.y is None:
        raise ValueError(f"the best constant is not known for {loss.title}")
    found = []
    for k in [loss.k] if isinstance(loss, OutputLoss) else range(len(several.each)):
        one = replace(sample, y=several.target(sample.y, k), prediction=sample.prediction[:, k])
        found.append(losses_of_constant(several.each[k], one, rows))
    words, losses, weight = found[0]
    if isinstance(loss, OutputLoss):
        return words, losses, weight
    if len({one for one, _, _ in found}) > 1:  # means and medians, or quantiles
        words = "the best constant"
    return f"{words} in each {several.noun}", several.mean(np.stack([best for _, best, _ in found], axis=1)), weight


def skill(error: float, constant: float) -> float:
    """``1 - error / constant``: 1 without errors, 0 as good as the best constant; R² for the squared error."""
    if not constant > 0:
        raise ValueError("the skill divides by the error of the best constant, which is exactly 0 here")
    return 1 - error / constant


def _constant(loss: Loss, y: NDArray[Any], weight: Floats, prediction: NDArray[Any]) -> tuple[str, NDArray[Any]]:
    """The best constant in words, and one row of predictions."""
    if loss.reads == "values":
        words, value = _value(loss, np.asarray(y, float), weight)
        try:
            loss.check_prediction(np.array([value]))
        except ValueError as error:
            raise ValueError(f"{words}, {value:g}, is no prediction for which {loss.name} is defined") from error
        return words, np.asarray(value)
    if loss.reads == "scores" and prediction.ndim > 1:
        raise ValueError("the best constant is not known for the hinge loss of more than two classes")
    share = np.bincount(y, weight, minlength=prediction.shape[1] if prediction.ndim > 1 else 2)
    if loss.reads == "probabilities":
        return "the share of each class", share
    if loss.reads == "labels":
        return "the most frequent class", np.asarray(share.argmax())
    return "a score of 1 for the more frequent class", np.asarray(1.0 if share[1] >= share[0] else -1.0)


def _value(loss: Loss, y: Floats, weight: Floats) -> tuple[str, float]:
    parameters = dict(loss.parameters)
    if loss.name in MEANS:
        return "the mean of y", float(np.clip(weight @ y, y.min(), y.max()))  # not rounded beyond a constant y
    if loss.name == "huber":
        return "the constant with the smallest Huber loss", _huber(y, weight, parameters["delta"])
    alpha = parameters.get("alpha", 0.5)
    words = "the median of y" if alpha == 0.5 else f"the {alpha:.4g} quantile of y"
    order = np.argsort(y, kind="stable")
    reached = np.searchsorted(np.cumsum(weight[order]), alpha)
    return words, float(y[order[min(int(reached), len(y) - 1)]])


def _huber(y: Floats, weight: Floats, delta: float) -> float:
    """Where the weighted mean of residuals clipped at delta, which falls along the constants, is 0."""
    from scipy.optimize import brentq

    low, width = float(y.min()), float(np.ptp(y))

    def slope(centre: float) -> float:
        return float(weight @ np.clip(y - (low + centre * width), -delta, delta))

    return low + width * float(brentq(slope, 0.0, 1.0, xtol=1e-14)) if width > 0 else low
