"""Raw outputs of boosters -> what they predict, in the precision of the raw outputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from losslens.engines.ensembles import Floats
from losslens.losses import Response

Array = NDArray[Any]
Transform = Callable[[Array], Array]  # raw outputs -> what predict returns, in their own precision


def same(raw: Array) -> Array:
    """Raw outputs as they are."""
    return raw


def exp(raw: Array) -> Array:
    """For the logarithm of a mean."""
    with np.errstate(over="ignore"):
        return np.asarray(np.exp(raw))


def logistic(raw: Array) -> Array:
    """Probability of the second of two classes."""
    # XGBoost bounds the exponent, so that the probability is never 0 in float32.
    most = np.float32(88.7) if raw.dtype == np.float32 else np.inf
    with np.errstate(over="ignore"):
        return np.asarray(1 / (1 + np.exp(np.minimum(-raw, most))))


def scaled_logistic(scale: float, raw: Array) -> Array:
    """The same with a slope."""
    return logistic(scale * raw)


def softmax(raw: Array) -> Array:
    """Probabilities of several classes."""
    powers = np.exp(raw - raw.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def step(raw: Array) -> Array:
    """The second of two classes, or not."""
    return (raw > 0).astype(raw.dtype)


def log1p_exp(raw: Array) -> Array:
    """A mean that is never negative."""
    return np.asarray(np.log1p(exp(raw)))


def signed_square(raw: Array) -> Array:
    """For the root of the target."""
    return np.asarray(np.sign(raw) * raw * raw)


def respond(transform: Transform, response: Response, dtype: type[np.floating[Any]], raw: Floats) -> Array:
    """What the model says: one column of raw outputs stands for a value or for the second of two classes."""
    out = transform(raw.astype(dtype, copy=False))
    two = out.shape[1] == 1
    if response in ("values", "scores"):
        return out[:, 0] if two else out
    if response == "probabilities":
        return np.column_stack([1 - out[:, 0], out[:, 0]]) if two else out
    return (out[:, 0] > 1 - out[:, 0]).astype(np.intp) if two else out.argmax(axis=1)
