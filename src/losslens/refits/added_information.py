"""Whether a feature adds information: changes of the loss without what more noise of fitting takes from them.

A fit with a feature that is worth nothing is worse than one without it, by the noise of one more term. In a scale T on
which the loss is convex, T_1 with and T_0 without the feature, ``d = L(T_0) - L(T_1)`` has under the null hypothesis,
that both fits estimate the same function of the other features, the mean ``V_0 - V_1``. V is the noise of fits, what
averaging over them gains: ``mean_g L(T_g) - L(mean_g T_g)``, the variance for the squared error. The divergence
``D = L(T_1) - L(T_0) - L'(T_0)(T_1 - T_0)``, ``(f_1 - f_0)^2`` for the squared error, has as its mean the noise of the
difference. So ``c = d + share D`` has mean 0 with ``share = (V_1 - V_0) / noise of the difference``, between 0 and 1.
With the share 1 this is Clark and West's test of nested models, which takes f_0 to be without noise where f_1 is not.

V is the noise of fits at rows that are new to all of them, or to none. Of K folds one fit alone has not seen a row, and
flexible learners follow the rows that they have seen, the more the more features they have: the spread of all K fits
takes this contrast for noise, that of the fits that have seen the row does not. (Boosting with 10-row leaves, n = 200:
the share that makes the mean 0 is .07; by all fits it is .39, by those that have seen the row .00.)

``d + D = -L'(T_0)(T_1 - T_0)`` has the mean 0 whatever the training rows; c is share times it and 1 - share times d, of
whose variance training adds a part: of that of c it adds (1 - share)^2 times as much.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from losslens.losses import Loss
from losslens.typing import Floats

Slope = Callable[[NDArray[Any], Floats], Any]
TINY = 1e-300  # in place of 0, whose logarithm is not finite


@dataclass(frozen=True)
class ConvexLoss:
    """A loss as a convex function of the scale on which models add: y and T, (..., n, K), to its value and slope."""

    scale: Callable[[NDArray[Any]], Floats]
    value: Callable[[NDArray[Any], Floats], Floats]  # (..., n)
    slope: Callable[[NDArray[Any], Floats], Floats]  # (..., n, K)

    def divergence(self, y: NDArray[Any], start: Floats, end: Floats) -> Floats:
        """``L(end) - L(start) - L'(start)(end - start)``."""
        path = (self.slope(y, start) * (end - start)).sum(axis=-1)
        return np.asarray(self.value(y, end) - self.value(y, start) - path)

    def noise(self, y: NDArray[Any], fits: Floats, weight: Floats) -> Floats:
        """How much the mean of the fits, (K, n, .), of these weights, (K, n), is better than a fit, (n,)."""
        return np.asarray((weight * self.value(y, fits)).sum(axis=0) - self.value(y, _mean(fits, weight)))

    def corrected(
        self, y: NDArray[Any], without: Floats, full: Floats, weight: Floats, tested: Floats
    ) -> tuple[Floats, float]:
        """What is added to the changes of the rows, (n,), from the fits without and with the feature, (K, n, .).

        And the share of the divergence.

        tested: the share of each fit in a row's change, (K, n): those that have not been fitted to it.
        """
        seen = having_seen(tested)
        gap = full - without
        noise = (seen * self.divergence(y, without, without + gap - _mean(gap, seen))).sum(axis=0)
        more = weight @ (self.noise(y, full, seen) - self.noise(y, without, seen))
        total = weight @ noise
        share = float(np.clip(more / total, 0.0, 1.0)) if total > 0 else 0.0
        return np.asarray(share * (tested * self.divergence(y, without, full)).sum(axis=0)), share


def having_seen(tested: Floats) -> Floats:
    """The weights of fits with a row among their training rows, (K, n), from the shares of those that test it.

    Of all fits where fewer than two have seen the row: where all test it they agree in this, too.
    """
    seen = tested == 0
    seen |= seen.sum(axis=0) < 2
    return np.asarray(seen / seen.sum(axis=0))


def _mean(fits: Floats, weight: Floats) -> Floats:
    return np.asarray((weight[..., None] * fits).sum(axis=0))


def convex_form(loss: Loss) -> ConvexLoss | None:
    """A loss on a scale on which it is convex; None where none is known."""
    parameters = dict(loss.parameters)
    power = {"squared_error": 0.0, "poisson_deviance": 1.0, "gamma_deviance": 2.0} | parameters
    p = power.get(loss.name, power.get("power"))
    if loss.custom:
        return None
    if loss.name == "log_loss":
        return ConvexLoss(_log_probabilities, _log_loss, lambda y, T: _softmax(T) - _one_hot(y, T))
    if loss.name == "brier":
        return ConvexLoss(_itself, _brier, lambda y, T: _both(T) * 2 * (T - _one_hot(y, T)))
    if p is not None and 1 <= p <= 2:  # a deviance: its derivative by log f is 2 (f^(2-p) - y f^(1-p))
        return _of_numbers(loss, lambda y, T: 2 * (np.exp((2 - p) * T) - y * np.exp((1 - p) * T)), log=True)
    slopes: dict[str, Slope] = {
        "absolute_error": lambda y, f: np.sign(f - y),
        "pinball": lambda y, f: (f > y) - parameters["alpha"],
        "huber": lambda y, f: np.clip(f - y, -parameters["delta"], parameters["delta"]),
    }
    slope = (lambda y, f: 2 * (f - y)) if p == 0 else slopes.get(loss.name)
    return None if slope is None or loss.reads != "values" else _of_numbers(loss, slope)


def _of_numbers(loss: Loss, slope: Slope, *, log: bool = False) -> ConvexLoss:
    """A loss of predicted numbers, by these or by their logarithms."""

    def value(y: NDArray[Any], T: Floats) -> Floats:
        prediction = np.exp(T[..., 0]) if log else T[..., 0]
        return loss(np.broadcast_to(y, prediction.shape).ravel(), prediction.ravel()).reshape(prediction.shape)

    def scale(prediction: NDArray[Any]) -> Floats:
        return np.log(np.maximum(_itself(prediction), TINY))[..., None] if log else _itself(prediction)[..., None]

    return ConvexLoss(scale, value, lambda y, T: np.asarray(slope(y, T[..., 0]))[..., None])


def _itself(prediction: NDArray[Any]) -> Floats:
    return np.asarray(prediction, float)


def _log_probabilities(prediction: NDArray[Any]) -> Floats:
    eps = np.finfo(float).eps
    return np.asarray(np.log(np.clip(_itself(prediction), eps, 1 - eps)))


def _log_loss(y: NDArray[Any], T: Floats) -> Floats:
    return np.asarray(np.log(np.exp(T).sum(axis=-1)) - (T * _one_hot(y, T)).sum(axis=-1))


def _softmax(T: Floats) -> Floats:
    shares = np.exp(T)
    return np.asarray(shares / shares.sum(axis=-1, keepdims=True))


def _brier(y: NDArray[Any], T: Floats) -> Floats:
    return np.asarray(_both(T) * np.square(T - _one_hot(y, T)).sum(axis=-1))


def _both(T: Floats) -> float:
    """The Brier score of two classes is that of one of them."""
    return 0.5 if T.shape[-1] == 2 else 1.0


def _one_hot(y: NDArray[Any], T: Floats) -> Floats:
    return np.asarray(y[:, None] == np.arange(T.shape[-1]), float)
