"""Kernel machines: fitted estimator -> the sum of products that it computes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from losslens.engines.base import Declined
from losslens.engines.kernel_machines import GaussianSum
from losslens.engines.readers.recognition import kind_of
from losslens.losses import Response
from losslens.typing import Floats


def read_product(estimator: Any, response: Response, classes: NDArray[Any] | None) -> GaussianSum | None:
    """The product form of a fitted estimator; None if it is no such model, `Declined` if it can't be read exactly.

    Only scikit-learn's own classes are read: a subclass may predict otherwise.
    """
    fitted, readable, read = _READERS.get(kind_of(estimator), ("", "", None))
    if read is None or not hasattr(estimator, fitted):  # if it isn't fitted, predict raises in the black box
        return None
    if classes is not None and len(classes) > 2:
        raise Declined("the scores of more than two classes are not a single sum of products")
    if response != readable:
        raise Declined(f"its {readable} are a sum of products, its {response} are not")
    return read(estimator)


def gaussian_sum(centres: Any, coef: Any, gamma: Any, intercept: Any) -> GaussianSum:
    """One kernel at each centre; gamma: one number, or one per column."""
    if hasattr(centres, "toarray") or centres.dtype == np.float32:
        raise Declined("it was fitted to a sparse or single-precision table")
    if coef.size != len(centres):
        raise Declined("it has several outputs")
    columns = np.asfortranarray(centres, dtype=np.float64)  # read column by column
    gammas = np.array(np.broadcast_to(gamma, columns.shape[1]), np.float64)
    return GaussianSum(np.array(coef, np.float64).reshape(-1), float(np.squeeze(intercept)), columns, gammas)


def _read_machine(machine: Any) -> GaussianSum:
    """A support vector machine or kernel ridge; with two classes `dual_coef_` has the decision function's sign."""
    if not isinstance(machine.kernel, str) or machine.kernel != "rbf":
        raise Declined(f"its kernel is {machine.kernel!r}, not 'rbf'")
    if not hasattr(machine, "X_fit_"):
        return gaussian_sum(machine.support_vectors_, machine.dual_coef_, machine._gamma, machine.intercept_)
    gamma = 1 / machine.X_fit_.shape[1] if machine.gamma is None else machine.gamma
    return gaussian_sum(machine.X_fit_, machine.dual_coef_, gamma, 0.0)


def _read_process(process: Any) -> GaussianSum:
    """Each kernel of the sum at each training row; a constant adds the same to all predictions."""
    kernels, weight = _read_covariance(process.kernel_), process._y_train_std * process.alpha_
    base = gaussian_sum(process.X_train_, weight, 0.0, process._y_train_mean)
    added = sum(scale * float(base.coef.sum()) for scale, gamma in kernels if not np.any(gamma))
    wide = [(scale, np.broadcast_to(gamma, base.width)) for scale, gamma in kernels if np.any(gamma)]
    if len(wide) == 1:
        (scale, gamma), centres = wide[0], base.centres
        return GaussianSum(scale * base.coef, base.intercept + added, centres, np.array(gamma))
    # A constant is one kernel without a width.
    coef = np.concatenate([np.empty(0), *(scale * base.coef for scale, _ in wide)])
    gammas = np.asfortranarray(np.repeat([gamma for _, gamma in wide], len(base.coef), axis=0).reshape(-1, base.width))
    centres = np.asfortranarray(np.tile(base.centres, (len(wide), 1)))
    return GaussianSum(coef, base.intercept + added, centres, gammas)


def _read_covariance(kernel: Any) -> list[tuple[float, Floats]]:
    """A sum of Gaussian kernels: the factor of each and its gamma, one number or one per column; 0 of a constant."""
    name = kind_of(kernel)
    if name == "sklearn.RBF":
        return [(1.0, 0.5 / np.square(np.asarray(kernel.length_scale, np.float64)))]
    if name == "sklearn.ConstantKernel":
        return [(float(kernel.constant_value), np.zeros(()))]
    if name == "sklearn.WhiteKernel":  # noise of the training rows: 0 between them and any other rows, even equal ones
        return []
    if name == "sklearn.Exponentiation" and kernel.exponent > 0 and len(base := _read_covariance(kernel.kernel)) == 1:
        return [(scale**kernel.exponent, gamma * kernel.exponent) for scale, gamma in base]
    if name not in ("sklearn.Product", "sklearn.Sum"):
        raise Declined(
            f"its kernel {type(kernel).__name__} is not made of sums and products of RBF and constant kernels"
        )
    first, second = _read_covariance(kernel.k1), _read_covariance(kernel.k2)
    if name == "sklearn.Sum":
        return first + second
    return [(a * b, gamma + other) for a, gamma in first for b, other in second]


_READERS: dict[str, tuple[str, Response | str, Callable[[Any], GaussianSum] | None]] = {
    "sklearn.SVR": ("support_vectors_", "values", _read_machine),
    "sklearn.NuSVR": ("support_vectors_", "values", _read_machine),
    "sklearn.SVC": ("support_vectors_", "scores", _read_machine),
    "sklearn.NuSVC": ("support_vectors_", "scores", _read_machine),
    "sklearn.KernelRidge": ("X_fit_", "values", _read_machine),
    "sklearn.GaussianProcessRegressor": ("X_train_", "values", _read_process),
}
