"""Named losses, as in `losslens.losses`, of predictions that are on a device."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from losslens.losses import Loss

# y (rows, 1) and what the loss reads, (rows, donors), of several outputs (K, rows, donors) -> losses (rows, donors)
Evaluate = Callable[[Any, Any], Any]


@dataclass(frozen=True, eq=False)
class PredictionLoss:
    """A named loss of predictions that are on a device, in double precision as everywhere."""

    evaluate: Evaluate
    second: bool = False  # the prediction is the probability of the second of two classes

    @classmethod
    def of(cls, loss: Loss, like: Any, classes: int) -> PredictionLoss | None:
        """The loss of predictions like these, (rows, ...); None if it is not supported.

        classes: at least so many columns are needed, one for each class of y.
        """
        if loss.custom or loss.reads == "outputs" or (like.ndim == 2 and like.shape[1] < classes):
            return None
        second = loss.name == "brier" and like.ndim == 2 and like.shape[1] == 2
        table = _OF_ONE if like.ndim == 1 or second else _OF_SEVERAL
        if loss.name not in table:
            return None
        options = dict(loss.parameters)
        if loss.name == "log_loss":
            options["eps"] = float(torch.finfo(like.dtype).eps)
        return cls(partial(table[loss.name], **options), second)

    def __call__(self, y: Any, predictions: Any) -> Any:
        """Losses of y (rows,) and predictions (rows, donors) or (rows, donors, K), (rows, donors)."""
        if self.second:
            predictions = predictions[..., 1]
        return self.evaluate(y[:, None], (predictions if predictions.ndim == 2 else predictions.movedim(2, 0)).double())


# Only what is computed here is overwritten: f may be the predictions themselves.


def _squared_error(y: Any, f: Any) -> Any:
    return (f - y).square_()


def _absolute_error(y: Any, f: Any) -> Any:
    return (f - y).abs_()


def _huber(y: Any, f: Any, *, delta: float) -> Any:
    size = (f - y).abs_()
    inner = size.clamp(max=delta)
    return size.sub_(inner, alpha=0.5).mul_(inner)


def _pinball(y: Any, f: Any, *, alpha: float) -> Any:
    residual = f - y
    return torch.maximum(residual * (1 - alpha), residual.mul_(-alpha))


def _poisson(y: Any, f: Any) -> Any:
    return torch.xlogy(y, y / f).sub_(y).add_(f).mul_(2)


def _gamma(y: Any, f: Any) -> Any:
    ratio = y / f
    return (ratio - ratio.log()).sub_(1).mul_(2)


def _hinge(y: Any, f: Any) -> Any:
    return (f * (1 - 2 * y)).add_(1).clamp_(min=0)


def _log_loss(y: Any, f: Any, *, eps: float) -> Any:
    return torch.where(y > 0, f, 1 - f).clamp_(eps, 1 - eps).log_().neg_()


def _of_true_class(y: Any, f: Any) -> Any:
    """Each row's prediction for its true class."""
    return torch.gather(f, 0, y.long().expand(f.shape[1:])[None])[0]


def _log_loss_of_several(y: Any, f: Any, *, eps: float) -> Any:
    return _of_true_class(y, f).clamp_(eps, 1 - eps).log_().neg_()


def _brier_of_several(y: Any, f: Any) -> Any:
    """The sum of (p_k - [y = k])^2 is that of p_k^2, minus 2 p_y - 1."""
    return f.square().sum(dim=0).sub_(_of_true_class(y, f), alpha=2).add_(1)


_OF_ONE: dict[str, Callable[..., Any]] = {
    "squared_error": _squared_error,
    "absolute_error": _absolute_error,
    "huber": _huber,
    "pinball": _pinball,
    "brier": _squared_error,
    "hinge": _hinge,
    "log_loss": _log_loss,
    "poisson_deviance": _poisson,
    "gamma_deviance": _gamma,
}
_OF_SEVERAL: dict[str, Callable[..., Any]] = {"log_loss": _log_loss_of_several, "brier": _brier_of_several}
