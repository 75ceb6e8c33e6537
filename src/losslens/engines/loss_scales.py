"""Losses that are linear in y on some scale T of the predictions: ``L = a(y) - sum over c of b_c(y) T_c(f) + c(f)``.

The squared error has b = 2y and T = f; the log loss one-hot y and log-probabilities, that is a model's raw scores up to
a function that all classes share. An engine whose sums are on this scale gives exact Shapley importances without
evaluating any loss (`losslens.shapley.covariance`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from losslens.losses import Loss, brier, log_loss, poisson_deviance, squared_error, tweedie_deviance
from losslens.typing import Floats

TOLERANCE = 1e-5  # of the trial of a link, which may be evaluated in single precision


@dataclass(frozen=True)
class LossScale:
    """b and T of a loss; classes: y is a class, and every b sums to the same over the classes."""

    b: Callable[[NDArray[Any], int], Floats]  # y, number of columns of the predictions -> (n, K)
    T: Callable[[NDArray[Any]], Floats]  # predictions -> (n, K)
    classes: bool = False


def _twice(y: NDArray[Any], columns: int) -> Floats:
    return 2.0 * np.asarray(y, float)[:, None]


def _one_hot(y: NDArray[Any], columns: int) -> Floats:
    return np.asarray(np.asarray(y)[:, None] == np.arange(columns), float)


def _brier_weights(y: NDArray[Any], columns: int) -> Floats:
    """The Brier score of two classes is that of the second: half the sum over both."""
    return (1.0 if columns == 2 else 2.0) * _one_hot(y, columns)


def _itself(prediction: NDArray[Any]) -> Floats:
    return np.asarray(prediction, float).reshape(len(prediction), -1)


def _logarithm(prediction: NDArray[Any]) -> Floats:
    with np.errstate(all="ignore"):
        return np.log(_itself(prediction))


_SQUARED, _POISSON = LossScale(_twice, _itself), LossScale(_twice, _logarithm)
_SCALES = (
    (squared_error, _SQUARED), (tweedie_deviance(0), _SQUARED), (poisson_deviance, _POISSON),
    (tweedie_deviance(1), _POISSON), (brier, LossScale(_brier_weights, _itself, classes=True)),
    (log_loss, LossScale(_one_hot, _logarithm, classes=True)),
)  # fmt: skip


def scale_of(loss: Loss) -> LossScale | None:
    """b and T of a loss; None for a loss that is not linear in y on any scale, and for a function of the user's."""
    return next((scale for named, scale in _SCALES if loss == named), None)


def slope_on_sums(loss: Loss, link: Callable[[Floats], NDArray[Any]], outputs: int) -> float | None:
    """How steep T is in a model's sums, of which `link` makes predictions; None where T is not linear in them.

    Only differences between the classes matter. A link is tried on a few sums.
    """
    if (scale := scale_of(loss)) is None:
        return None
    sums = 0.1 + 0.8 * np.modf(np.sqrt(2.0 + np.arange(7 * outputs)))[0].reshape(7, outputs)  # like probabilities, too
    response = link(sums)
    if (response.ndim == 2) != scale.classes:
        return None
    reached = _contrasts(scale.T(response))
    sums = _contrasts(sums)
    if reached.shape != sums.shape:
        return None
    sums, reached = sums - sums.mean(axis=0), reached - reached.mean(axis=0)
    slope = float(np.vdot(sums, reached) / np.vdot(sums, sums))
    if not (slope > TOLERANCE and np.allclose(reached, slope * sums, rtol=0, atol=TOLERANCE)):
        return None
    return float(round(slope)) if response.dtype == np.float32 else slope


def _contrasts(columns: Floats) -> Floats:
    """Differences between classes; a single column as it is."""
    return columns if columns.shape[1] == 1 else columns[:, 1:] - columns[:, :1]


def weights_of_sums(loss: Loss, y: NDArray[Any], slope: float, outputs: int) -> Floats:
    """b for a model's sums, (n, outputs); a single sum for two classes is the difference between their T."""
    scale = scale_of(loss)
    assert scale is not None  # `slope_on_sums` gave a slope
    b = scale.b(y, max(outputs, 2) if scale.classes else 1)
    if scale.classes and outputs == 1:
        b = (b[:, 1:] - b[:, :1]) / 2
    return slope * b
