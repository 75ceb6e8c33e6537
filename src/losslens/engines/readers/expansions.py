"""A step that mixes columns, read together with the linear regression after it: both are one sum of products.

Polynomial features are monomials, and a Nystroem map is a matrix times kernels at its components. Between the step and
the model there may be steps that scale or select columns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from losslens.engines.base import Declined
from losslens.engines.kernel_machines import ProductForm
from losslens.engines.monomials import MonomialSum
from losslens.engines.readers.kernel_machines import gaussian_sum
from losslens.engines.readers.linear import read_linear
from losslens.engines.readers.recognition import class_names, kind_of
from losslens.losses import Response
from losslens.typing import Floats

MAX_POWERS = 10**8  # exponents of all terms


@dataclass(frozen=True, eq=False)
class Expansion:
    """A step that mixes columns, the steps that scale and select what it makes, and the model after these."""

    step: Any
    scalings: Sequence[Any]
    estimator: Any


def expansion_at(steps: Sequence[Any]) -> int | None:
    """Which of the steps before an estimator mixes columns, if that and all later ones can be read; else None."""
    for place, step in enumerate(steps):
        if kind_of(step) in _FORMS and _mixes(step):
            alone = getattr(steps[0], "n_features_in_", 2) == 1  # functions of one column add up
            return place if not alone and all(_scaling(later) is not None for later in steps[place + 1 :]) else None
    return None


def read_expansion(expansion: Expansion, response: Response) -> ProductForm:
    """The sum of products that the steps and the model compute."""
    step, name = type(expansion.step).__name__, type(expansion.estimator).__name__
    if (linear := read_linear(expansion.estimator, response)) is None:
        raise Declined(f"its step {step} mixes columns, and the {response} of {name} are no linear function of these")
    coef, intercept = linear.coef[0], float(linear.intercept[0])
    for later in reversed(expansion.scalings):
        if (scaling := _scaling(later)) is None:  # as in expansion_at
            raise Declined(f"its step {type(later).__name__} after {step} is not known to scale columns")
        coef, added = scaling(later, coef)
        intercept += added
    return replace(_FORMS[kind_of(expansion.step)](expansion.step, coef, intercept), only_squared=True)


def _polynomial(step: Any, coef: Floats, intercept: float) -> MonomialSum:
    if step.n_output_features_ * step.n_features_in_ > MAX_POWERS:
        raise Declined("its PolynomialFeatures makes too many columns")
    powers = np.asarray(step.powers_, np.intp)
    degree = powers.sum(axis=1)
    used = np.flatnonzero((coef != 0) & (degree > 0))  # sparse models leave terms out
    return MonomialSum(coef[used], intercept + float(coef[degree == 0].sum()), powers[used])


def _nystroem(step: Any, coef: Floats, intercept: float) -> ProductForm:
    if step.kernel != "rbf" or step.kernel_params:
        raise Declined(f"its Nystroem has the kernel {step.kernel!r}, not 'rbf'")
    gamma = 1 / step.components_.shape[1] if step.gamma is None else step.gamma
    return gaussian_sum(step.components_, step.normalization_.T @ coef, gamma, intercept)


def _mixes(step: Any) -> bool:
    if not hasattr(step, "n_features_in_"):
        return False
    if kind_of(step) == "sklearn.Nystroem":
        return True
    low, high = step.degree if isinstance(step.degree, tuple) else (0, step.degree)
    highest = min(high, step.n_features_in_) if step.interaction_only else high
    return bool(step.n_features_in_ > 1 and max(low, 2) <= highest)


_FORMS: dict[str, Callable[[Any, Floats, float], ProductForm]] = {
    "sklearn.Nystroem": _nystroem,
    "sklearn.PolynomialFeatures": _polynomial,
}


# Steps that scale and select: coefficients of what a step makes -> those of what it gets, and what that adds.

Scaling = Callable[[Any, Floats], tuple[Floats, float]]


def _scaling(step: Any) -> Scaling | None:
    kind, *ancestors = class_names(step)
    if getattr(step, "clip", False):
        return None
    return _selected if "sklearn.SelectorMixin" in ancestors else _SCALINGS.get(kind)


def _selected(step: Any, coef: Floats) -> tuple[Floats, float]:
    kept = step.get_support()
    before = np.zeros(len(kept))
    before[kept] = coef
    return before, 0.0


def _standard(step: Any, coef: Floats) -> tuple[Floats, float]:
    return _scaled(coef, step.mean_ if step.with_mean else None, step.scale_ if step.with_std else None)


def _robust(step: Any, coef: Floats) -> tuple[Floats, float]:
    return _scaled(coef, step.center_ if step.with_centering else None, step.scale_ if step.with_scaling else None)


def _max_abs(step: Any, coef: Floats) -> tuple[Floats, float]:
    return _scaled(coef, None, step.scale_)


def _scaled(coef: Floats, middle: Floats | None, scale: Floats | None) -> tuple[Floats, float]:
    """Columns minus a middle, divided by a scale."""
    coef = coef if scale is None else coef / scale
    return coef, 0.0 if middle is None else -float(coef @ middle)


def _min_max(step: Any, coef: Floats) -> tuple[Floats, float]:
    return coef * step.scale_, float(coef @ step.min_)


_SCALINGS: dict[str, Scaling] = {
    "sklearn.StandardScaler": _standard,
    "sklearn.RobustScaler": _robust,
    "sklearn.MaxAbsScaler": _max_abs,
    "sklearn.MinMaxScaler": _min_max,
}
