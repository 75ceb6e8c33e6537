"""Links and named losses on a device: from sums of leaves to predictions to losses.

A `DeviceLoss` first states an affine argument, ``shift + scale * sum``, for each row, so that what all pairs of a row
have in common is done in the step that converts sums to numbers: for squared error this is already the residual.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import log, log1p
from typing import Any

import numpy as np
import torch
from torch.nn.functional import softplus

from losslens.losses import Loss

Link = Callable[[Any], Any]
# y (rows, 1) and the argument (outputs, rows, donors), which may be overwritten -> losses (rows, donors)
Evaluate = Callable[[Any, Any], Any]
PROBE = np.linspace(0.05, 0.9, 7)  # scores by which a link is recognised


@dataclass(frozen=True, eq=False)
class DeviceLoss:
    """A loss as a function of y and of an affine argument of the sums of leaves."""

    evaluate: Evaluate
    residual: bool = False  # the argument is prediction - y
    signed: bool = False  # the argument is the score, negated for the second class
    fused: int | None = None  # its kind in `fused`, if it is supported there
    clip: tuple[float, float] = (0.0, 0.0)  # the smallest and the largest log loss

    def affine(self, y: Any, offset: Any) -> tuple[Any, Any]:
        """Shift and scale of each row's sums, both (rows, outputs)."""
        if self.residual:
            return offset - y, torch.ones_like(offset - y)
        scale = 1 - 2 * y if self.signed else torch.ones_like(y)
        return offset * scale, torch.ones_like(offset) * scale


def device_loss(link: Callable[[Any], Any], outputs: int, loss: Loss) -> DeviceLoss | None:
    """The loss of trees with this link, on a device; None if link or loss is not supported.

    A link is recognised by its values at a few scores.
    """
    scores = PROBE[:, None] - 0.1 * np.arange(outputs)
    response = np.asarray(link(scores.copy()))
    if loss.custom or response.dtype.kind != "f":
        return None
    expected = (response if response.ndim == 1 else response[:, 1]) if outputs == 1 else response.T
    raw = torch.from_numpy(scores.T.copy())
    for candidate in (_first, _exp, _logistic) if outputs == 1 else (_all, _softmax):
        values = candidate(raw.clone()).numpy()
        if values.shape == expected.shape and np.allclose(values, expected, rtol=1e-6, atol=0):
            return _composed(candidate, loss, float(np.finfo(response.dtype).eps))
    return None


@dataclass(frozen=True, eq=False)
class PredictionLoss:
    """A named loss of predictions that are on a device, in double precision as everywhere."""

    loss: DeviceLoss
    second: bool = False  # the prediction is the probability of the second of two classes

    @classmethod
    def of(cls, loss: Loss, like: Any, classes: int) -> PredictionLoss | None:
        """The loss of predictions like these, (rows, ...); None if it is not supported.

        classes: at least so many columns are needed, one for each class of y.
        """
        if loss.custom or loss.reads == "outputs" or (like.ndim == 2 and like.shape[1] < classes):
            return None
        second = loss.name == "brier" and like.ndim == 2 and like.shape[1] == 2
        composed = _composed(_first if like.ndim == 1 or second else _all, loss, float(torch.finfo(like.dtype).eps))
        return None if composed is None else cls(composed, second)

    def __call__(self, y: Any, predictions: Any) -> Any:
        """Losses of y (rows,) and predictions (rows, donors) or (rows, donors, K), (rows, donors)."""
        if self.second:
            predictions = predictions[..., 1]
        raw = predictions[None] if predictions.ndim == 2 else predictions.movedim(2, 0)
        y = y[:, None]
        shift, scale = self.loss.affine(y, torch.zeros_like(y))
        return self.loss.evaluate(y, shift + scale * raw.double())


def _composed(link: Link, loss: Loss, eps: float) -> DeviceLoss | None:
    options = dict(loss.parameters)
    if link is _first and loss.name in _RESIDUALS:
        return DeviceLoss(partial(_RESIDUALS[loss.name], **options), residual=True, fused=_FUSED.get(loss.name))
    if link is _logistic and loss.name == "log_loss":
        clip = -log1p(-eps), -log(eps)
        return DeviceLoss(partial(_log_loss_of_scores, clip), signed=True, fused=_FUSED["log_loss"], clip=clip)
    if link is _first and loss.name == "hinge":
        return DeviceLoss(_hinge, signed=True)
    several = link in (_all, _softmax)
    if loss.name == "log_loss":
        return DeviceLoss(partial(_of_predictions, link, partial(_log_loss_of_several if several else _log_loss, eps)))
    if several:
        return DeviceLoss(partial(_of_predictions, link, _brier_of_several)) if loss.name == "brier" else None
    if loss.name in _RESIDUALS:
        return DeviceLoss(partial(_of_residuals, link, partial(_RESIDUALS[loss.name], **options)))
    return DeviceLoss(partial(_of_predictions, link, _DEVIANCES[loss.name])) if loss.name in _DEVIANCES else None


def _of_predictions(link: Link, evaluate: Evaluate, y: Any, raw: Any) -> Any:
    return evaluate(y, link(raw))


def _of_residuals(link: Link, evaluate: Evaluate, y: Any, raw: Any) -> Any:
    return evaluate(y, link(raw).sub_(y)[None])


# Links.


def _first(raw: Any) -> Any:
    return raw[0]


def _exp(raw: Any) -> Any:
    return raw[0].exp_()


def _logistic(raw: Any) -> Any:
    return raw[0].sigmoid_()


def _all(raw: Any) -> Any:
    return raw


def _softmax(raw: Any) -> Any:
    return torch.softmax(raw, dim=0)


# Losses, as in `losslens.losses`; of residuals r = f - y, of predictions f, and of signed scores s.


def _squared_error(y: Any, r: Any) -> Any:
    return r[0].square_()


def _absolute_error(y: Any, r: Any) -> Any:
    return r[0].abs_()


def _huber(y: Any, r: Any, *, delta: float) -> Any:
    size = r[0].abs_()
    inner = size.clamp(max=delta)
    return size.sub_(inner, alpha=0.5).mul_(inner)


def _pinball(y: Any, r: Any, *, alpha: float) -> Any:
    return torch.maximum(r[0] * (1 - alpha), r[0].mul_(-alpha))


def _poisson(y: Any, f: Any) -> Any:
    return torch.xlogy(y, y / f).sub_(y).add_(f).mul_(2)


def _gamma(y: Any, f: Any) -> Any:
    ratio = y / f
    return (ratio - ratio.log()).sub_(1).mul_(2)


def _hinge(y: Any, s: Any) -> Any:
    return s[0].add_(1).clamp_(min=0)


def _log_loss(eps: float, y: Any, f: Any) -> Any:
    return torch.where(y > 0, f, 1 - f).clamp_(eps, 1 - eps).log_().neg_()


def _log_loss_of_scores(clip: tuple[float, float], y: Any, s: Any) -> Any:
    """Without the probability: minus its logarithm is log(1 + exp(-score)), for the first class log(1 + exp(score))."""
    return softplus(s[0], threshold=40).clamp_(*clip)


def _of_true_class(y: Any, f: Any) -> Any:
    """Each row's prediction for its true class."""
    return torch.gather(f, 0, y.long().expand(f.shape[1:])[None])[0]


def _log_loss_of_several(eps: float, y: Any, f: Any) -> Any:
    return _of_true_class(y, f).clamp_(eps, 1 - eps).log_().neg_()


def _brier_of_several(y: Any, f: Any) -> Any:
    """The sum of (p_k - [y = k])^2 is that of p_k^2, minus 2 p_y - 1; of two classes only one counts."""
    p_y = _of_true_class(y, f)
    return (1 - p_y).square_() if len(f) == 2 else f.square().sum(dim=0).sub_(p_y, alpha=2).add_(1)


_RESIDUALS: dict[str, Callable[..., Any]] = {
    "squared_error": _squared_error,
    "absolute_error": _absolute_error,
    "huber": _huber,
    "pinball": _pinball,
    "brier": _squared_error,
}
_FUSED = {"squared_error": 0, "brier": 0, "absolute_error": 1, "log_loss": 2}
_DEVIANCES: dict[str, Evaluate] = {"poisson_deviance": _poisson, "gamma_deviance": _gamma}
