"""Kernel machines: fitted estimator -> the sum of products that it computes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from losslens.engines.base import Declined
from losslens.engines.kernel_machines import ProductForm
from losslens.engines.readers.recognition import kind_of
from losslens.losses import Response


def read_product(estimator: Any, response: Response, classes: NDArray[Any] | None) -> ProductForm | None:
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


def _form(centres: Any, coef: Any, gamma: Any, intercept: Any) -> ProductForm:
    if hasattr(centres, "toarray") or centres.dtype == np.float32:
        raise Declined("it was fitted to a sparse or single-precision table")
    if coef.size != len(centres):
        raise Declined("it has several outputs")
    columns = np.asfortranarray(centres, dtype=np.float64)  # read column by column
    gammas = np.array(np.broadcast_to(gamma, columns.shape[1]), np.float64)
    return ProductForm(columns, np.array(coef, np.float64).reshape(-1), gammas, float(np.squeeze(intercept)))


def _read_machine(machine: Any) -> ProductForm:
    """A support vector machine or kernel ridge; with two classes `dual_coef_` has the decision function's sign."""
    if not isinstance(machine.kernel, str) or machine.kernel != "rbf":
        raise Declined(f"its kernel is {machine.kernel!r}, not 'rbf'")
    if not hasattr(machine, "X_fit_"):
        return _form(machine.support_vectors_, machine.dual_coef_, machine._gamma, machine.intercept_)
    gamma = 1 / machine.X_fit_.shape[1] if machine.gamma is None else machine.gamma
    return _form(machine.X_fit_, machine.dual_coef_, gamma, 0.0)


def _read_process(process: Any) -> ProductForm:
    scale, gamma = _read_covariance(process.kernel_)
    return _form(process.X_train_, scale * process._y_train_std * process.alpha_, gamma, process._y_train_mean)


def _read_covariance(kernel: Any) -> tuple[Any, Any]:
    """The factor of a Gaussian kernel and its gamma: one number, or one per column."""
    name = kind_of(kernel)
    if name == "sklearn.RBF":
        return 1.0, 0.5 / np.square(np.asarray(kernel.length_scale, np.float64))
    if name == "sklearn.ConstantKernel":
        return kernel.constant_value, 0.0
    if name == "sklearn.WhiteKernel":  # noise of the training rows: 0 between them and any other rows, even equal ones
        return 0.0, 0.0
    if name not in ("sklearn.Product", "sklearn.Sum"):
        raise Declined(f"its kernel {type(kernel).__name__} is not a product of Gaussian and constant kernels")
    (scale, gamma), (scale2, gamma2) = _read_covariance(kernel.k1), _read_covariance(kernel.k2)
    if name == "sklearn.Product":
        return scale * scale2, gamma + gamma2
    if scale and scale2:
        raise Declined("its kernel is a sum")
    return (scale, gamma) if scale else (scale2, gamma2)


_READERS: dict[str, tuple[str, Response | str, Callable[[Any], ProductForm] | None]] = {
    "sklearn.SVR": ("support_vectors_", "values", _read_machine),
    "sklearn.NuSVR": ("support_vectors_", "values", _read_machine),
    "sklearn.SVC": ("support_vectors_", "scores", _read_machine),
    "sklearn.NuSVC": ("support_vectors_", "scores", _read_machine),
    "sklearn.KernelRidge": ("X_fit_", "values", _read_machine),
    "sklearn.GaussianProcessRegressor": ("X_train_", "values", _read_process),
}
