"""Links and losses on a device: what trees add up to, turned into predictions and judged; the named losses.

A judge first says what it wants to see of a row's answers, ``shift + scale * sum``, so that what all of a row's pairs
share is done in the one step that makes numbers of sums: for a squared error that is already the residual.
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
Lose = Callable[[Any, Any], Any]  # y (rows, 1) and what is seen (outputs, rows, donors), written over -> (rows, donors)
PROBE = np.linspace(0.05, 0.9, 7)  # scores that a link is known by


@dataclass(frozen=True, eq=False)
class DeviceLoss:
    """How a row's answers are seen, and what they lose."""

    lose: Lose
    less: bool = False  # y is taken off
    signed: bool = False  # turned round for the second class
    fused: int | None = None  # how `fused` calls it, if it knows it
    clip: tuple[float, float] = (0.0, 0.0)  # the least and the largest log loss

    def seen(self, y: Any, offset: Any) -> tuple[Any, Any]:
        """The shift and the scale of each row's sums, both (rows, outputs)."""
        if self.less:
            return offset - y, torch.ones_like(offset - y)
        scale = 1 - 2 * y if self.signed else torch.ones_like(y)
        return offset * scale, torch.ones_like(offset) * scale


def judge_of(link: Callable[[Any], Any], outputs: int, loss: Loss) -> DeviceLoss | None:
    """How answers of trees with this link are judged on a device; None where that is not known.

    A link is known by what it makes of a few scores.
    """
    scores = PROBE[:, None] - 0.1 * np.arange(outputs)
    said = np.asarray(link(scores.copy()))
    if loss.custom or said.dtype.kind != "f":
        return None
    theirs = (said if said.ndim == 1 else said[:, 1]) if outputs == 1 else said.T
    raw = torch.from_numpy(scores.T.copy())
    for known in (_first, _exp, _logistic) if outputs == 1 else (_all, _softmax):
        ours = known(raw.clone()).numpy()
        if ours.shape == theirs.shape and np.allclose(ours, theirs, rtol=1e-6, atol=0):
            return _composed(known, loss, float(np.finfo(said.dtype).eps))
    return None


def _composed(link: Link, loss: Loss, eps: float) -> DeviceLoss | None:
    options = dict(loss.parameters)
    if link is _first and loss.name in _RESIDUALS:
        return DeviceLoss(partial(_RESIDUALS[loss.name], **options), less=True, fused=_FUSED.get(loss.name))
    if link is _logistic and loss.name == "log_loss":
        clip = -log1p(-eps), -log(eps)
        return DeviceLoss(partial(_log_loss_of_scores, clip), signed=True, fused=_FUSED["log_loss"], clip=clip)
    if link is _first and loss.name == "hinge":
        return DeviceLoss(_hinge, signed=True)
    several = link in (_all, _softmax)
    if loss.name == "log_loss":
        return DeviceLoss(partial(_after, link, partial(_log_loss_of_several if several else _log_loss, eps)))
    if several:
        return DeviceLoss(partial(_after, link, _brier_of_several)) if loss.name == "brier" else None
    if loss.name in _RESIDUALS:
        return DeviceLoss(partial(_less, link, partial(_RESIDUALS[loss.name], **options)))
    return DeviceLoss(partial(_after, link, _DEVIANCES[loss.name])) if loss.name in _DEVIANCES else None


def _after(link: Link, lose: Lose, y: Any, seen: Any) -> Any:
    return lose(y, link(seen))


def _less(link: Link, lose: Lose, y: Any, seen: Any) -> Any:
    return lose(y, link(seen).sub_(y)[None])


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


# Losses, as in `losslens.losses`; of residuals f - y, of predictions, and of scores.


def _squared_error(y: Any, seen: Any) -> Any:
    return seen[0].square_()


def _absolute_error(y: Any, seen: Any) -> Any:
    return seen[0].abs_()


def _huber(y: Any, seen: Any, *, delta: float) -> Any:
    gap = seen[0].abs_()
    inner = gap.clamp(max=delta)
    return gap.sub_(inner, alpha=0.5).mul_(inner)


def _pinball(y: Any, seen: Any, *, alpha: float) -> Any:
    return torch.maximum(seen[0] * (1 - alpha), seen[0].mul_(-alpha))


def _poisson(y: Any, f: Any) -> Any:
    return torch.xlogy(y, y / f).sub_(y).add_(f).mul_(2)


def _gamma(y: Any, f: Any) -> Any:
    ratio = y / f
    return (ratio - ratio.log()).sub_(1).mul_(2)


def _hinge(y: Any, seen: Any) -> Any:
    return seen[0].add_(1).clamp_(min=0)


def _log_loss(eps: float, y: Any, f: Any) -> Any:
    return torch.where(y > 0, f, 1 - f).clamp_(eps, 1 - eps).log_().neg_()


def _log_loss_of_scores(clip: tuple[float, float], y: Any, seen: Any) -> Any:
    """Without the probability: -log of it is log(1 + exp(-score)), for the first class log(1 + exp(score))."""
    return softplus(seen[0], threshold=40).clamp_(*clip)


def _own(y: Any, f: Any) -> Any:
    """Each row's number for its true class."""
    return torch.gather(f, 0, y.long().expand(f.shape[1:])[None])[0]


def _log_loss_of_several(eps: float, y: Any, f: Any) -> Any:
    return _own(y, f).clamp_(eps, 1 - eps).log_().neg_()


def _brier_of_several(y: Any, f: Any) -> Any:
    """The sum of (p_k - [y = k])^2 is that of p_k^2, less 2 p_y - 1; of two classes one counts."""
    own = _own(y, f)
    return (1 - own).square_() if len(f) == 2 else f.square().sum(dim=0).sub_(own, alpha=2).add_(1)


_RESIDUALS: dict[str, Callable[..., Any]] = {
    "squared_error": _squared_error,
    "absolute_error": _absolute_error,
    "huber": _huber,
    "pinball": _pinball,
    "brier": _squared_error,
}
_FUSED = {"squared_error": 0, "brier": 0, "absolute_error": 1, "log_loss": 2}
_DEVIANCES: dict[str, Lose] = {"poisson_deviance": _poisson, "gamma_deviance": _gamma}
