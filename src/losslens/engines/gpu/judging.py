"""Links and losses on a device: what trees add up to, turned into predictions and judged; the named losses."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import log, log1p
from typing import Any

import numpy as np
import torch
from torch.nn.functional import softplus

from losslens.losses import Loss

Judge = Callable[[Any, Any], Any]  # y (rows, 1), sums of leaves (outputs, rows, donors), written over -> (rows, donors)
Link = Callable[[Any], Any]
PROBE = np.linspace(0.05, 0.9, 7)  # scores that a link is known by


def judge_of(link: Callable[[Any], Any], outputs: int, loss: Loss) -> Judge | None:
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


def _composed(link: Link, loss: Loss, eps: float) -> Judge | None:
    several = link in (_all, _softmax)
    if loss.name == "log_loss":
        if link is _logistic:
            return partial(_log_loss_of_scores, eps)
        return partial(_after, link, partial(_log_loss_of_several if several else _log_loss, eps))
    lose = (_SEVERAL if several else _LOSSES).get(loss.name)
    return None if lose is None else partial(_after, link, partial(lose, **dict(loss.parameters)))


def _after(link: Link, lose: Judge, y: Any, raw: Any) -> Any:
    return lose(y, link(raw))


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


# Losses, as in `losslens.losses`.


def _squared_error(y: Any, f: Any) -> Any:
    return f.sub_(y).square_()


def _absolute_error(y: Any, f: Any) -> Any:
    return f.sub_(y).abs_()


def _huber(y: Any, f: Any, *, delta: float) -> Any:
    f = _absolute_error(y, f)
    inner = f.clamp(max=delta)
    return f.sub_(inner, alpha=0.5).mul_(inner)


def _pinball(y: Any, f: Any, *, alpha: float) -> Any:
    f = f.neg_().add_(y)
    return torch.maximum(f * (alpha - 1), f.mul_(alpha))


def _poisson(y: Any, f: Any) -> Any:
    return torch.xlogy(y, y / f).sub_(y).add_(f).mul_(2)


def _gamma(y: Any, f: Any) -> Any:
    ratio = y / f
    return (ratio - ratio.log()).sub_(1).mul_(2)


def _hinge(y: Any, f: Any) -> Any:
    return f.mul_(1 - 2 * y).add_(1).clamp_(min=0)


def _log_loss(eps: float, y: Any, f: Any) -> Any:
    return torch.where(y > 0, f, 1 - f).clamp_(eps, 1 - eps).log_().neg_()


def _log_loss_of_scores(eps: float, y: Any, raw: Any) -> Any:
    """Without the probability: -log of it is log(1 + exp(-score)), for the first class log(1 + exp(score))."""
    return softplus(raw[0].mul_(1 - 2 * y), threshold=40).clamp_(-log1p(-eps), -log(eps))


def _own(y: Any, f: Any) -> Any:
    """Each row's number for its true class."""
    return torch.gather(f, 0, y.long().expand(f.shape[1:])[None])[0]


def _log_loss_of_several(eps: float, y: Any, f: Any) -> Any:
    return _own(y, f).clamp_(eps, 1 - eps).log_().neg_()


def _brier_of_several(y: Any, f: Any) -> Any:
    """The sum of (p_k - [y = k])^2 is that of p_k^2, less 2 p_y - 1; of two classes one counts."""
    own = _own(y, f)
    return (1 - own).square_() if len(f) == 2 else f.square().sum(dim=0).sub_(own, alpha=2).add_(1)


_LOSSES: dict[str, Judge] = {
    "squared_error": _squared_error,
    "absolute_error": _absolute_error,
    "huber": _huber,
    "pinball": _pinball,
    "poisson_deviance": _poisson,
    "gamma_deviance": _gamma,
    "brier": _squared_error,
    "hinge": _hinge,
}
_SEVERAL: dict[str, Judge] = {"brier": _brier_of_several}
