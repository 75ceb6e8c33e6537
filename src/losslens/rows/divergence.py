"""How much a row's prediction depends on a feature, whatever its label: mean divergence between its ICE values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from losslens.donors.layout import CommonGrid
from losslens.results.importance import FeatureImportance
from losslens.typing import Floats

Kind = Callable[[NDArray[Any], Floats], Floats]
CONSTANT = 1e-9  # relative spread below which values are equal up to rounding
ROUNDING = 1e-12  # rounding error of predictions, relative to the largest


def divergence(one: FeatureImportance) -> Floats:
    """The mean over pairs of donors of the divergence between the row's predictions with their values, (n,).

    Squared error: ``2 var_k f(x_i, k)``; absolute error: ``mean |f(x_i, k) - f(x_i, l)|``; log loss: the
    Kullback-Leibler divergence. For a model without interactions with this feature it is the same for every row.
    """
    kinds: dict[str, tuple[Kind, int]] = {
        "squared_error": (_squared, 2),
        "absolute_error": (_absolute, 1),
        "log_loss": (_log, 0),
    }
    if one.loss.name not in kinds:
        other = "" if one.loss.reads == "outputs" else "change the loss of the result, with_loss(...), or "
        raise ValueError(
            "target='interaction' is defined for squared error, absolute error and log loss of one prediction a row, "
            f"but the loss is {one.loss.title}; {other}use target='importance'"
        )
    one._need_all_cells("regions")
    predictions = np.asarray(one.cells.predictions, float)
    one._need_donors("regions")
    weights = _donor_weights(one)
    with np.errstate(invalid="ignore"):  # 0 / 0: a row without donors
        shares = np.broadcast_to(weights / weights.sum(axis=1, keepdims=True), predictions.shape[:2])
    measure, power = kinds[one.loss.name]
    values = measure(predictions, shares)
    rounding = ROUNDING ** max(power, 1) * float(np.abs(predictions).max()) ** power
    return np.where(np.abs(values) <= rounding, 0.0, values)


def _donor_weights(one: FeatureImportance) -> Floats:
    """Weights of the donors: on a common grid the same for all rows, even if a row's own pair is left out.

    Otherwise a row's divergence would depend on its own value, and so on columns correlated with it.
    """
    layout, weight = one.layout, one.sample.weight
    if isinstance(layout, CommonGrid):
        mass = np.bincount(layout.own[layout.donors], weight[layout.donors], layout.size)
        return np.asarray(mass, float)[None, :]
    return layout.weights(one.sample, one.cells.rows)


def is_constant(values: Floats) -> bool:
    """Whether values differ by no more than rounding."""
    return bool(np.ptp(values) <= CONSTANT * max(float(np.abs(values).max(initial=0.0)), 1e-300))


def _squared(predictions: Floats, shares: Floats) -> Floats:
    mean = (shares * predictions).sum(axis=1, keepdims=True)
    return np.asarray(2 * (shares * np.square(predictions - mean)).sum(axis=1))


def _absolute(predictions: Floats, shares: Floats) -> Floats:
    """``sum_kl w_k w_l |f_k - f_l| = 2 sum_k w_k f_k (2 W_k - w_k - 1)`` with f sorted and W cumulated."""
    order = np.argsort(predictions, axis=1)
    f, w = (np.take_along_axis(some, order, axis=1) for some in (predictions, shares))
    return np.asarray(2 * (w * f * (2 * np.cumsum(w, axis=1) - w - 1)).sum(axis=1))


def _log(predictions: NDArray[Any], shares: Floats) -> Floats:
    """``sum_c mean(p_c log p_c) - mean(p_c) mean(log p_c)``, over the classes c."""
    eps = np.finfo(float).eps
    p = np.clip(predictions, eps, 1.0)
    logs, w = np.log(p), shares[:, :, None]
    inside = (w * p * logs).sum(axis=1) - (w * p).sum(axis=1) * (w * logs).sum(axis=1)
    return np.asarray(inside.sum(axis=1))
