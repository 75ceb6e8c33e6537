"""Kernel machines: a fitted estimator -> the sum of products that it computes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from losslens.engines.kernel_machines import EPS, ProductForm
from losslens.engines.readers.ensemble import Declined
from losslens.losses import Response

DIGITS = 1e-11  # a model whose own rounding, next to the spread of its predictions, is larger is declined


def read_product(estimator: Any, response: Response, classes: NDArray[Any] | None) -> ProductForm | None:
    """The form of a fitted estimator; None where it is no such model, `Declined` where it can't be answered for.

    The class itself has to be scikit-learn's: a subclass may predict otherwise.
    """
    fitted, gives, read = _READERS.get(_class(estimator), ("", "", None))
    if read is None or not hasattr(estimator, fitted):  # the black box will hear from the model that it isn't fitted
        return None
    if classes is not None and len(classes) > 2:
        raise Declined("the scores of more than two classes are no single sum of products")
    if response != gives:
        raise Declined(f"its {gives} are a sum of products, its {response} are not")
    form = read(estimator)
    some = form.centres[:: max(1, len(form.centres) // 50)]
    spread = float(form.predict(some).std()) if len(some) else 0.0
    if EPS * float(np.linalg.norm(form.coef)) > DIGITS * max(1.0, spread):
        raise Declined("its coefficients are so large, and cancel, that its predictions are partly rounding errors")
    return form


def _class(thing: Any) -> str:
    return f"{type(thing).__module__.partition('.')[0]}.{type(thing).__name__}"


def _form(centres: Any, coef: Any, gamma: Any, intercept: Any) -> ProductForm:
    if hasattr(centres, "toarray") or centres.dtype == np.float32:
        raise Declined("it was fitted to a sparse table, or to one in single precision")
    if coef.size != len(centres):
        raise Declined("it has several outputs")
    columns = np.asfortranarray(centres, dtype=np.float64)  # a column at a time is what is read
    gammas = np.array(np.broadcast_to(gamma, columns.shape[1]), np.float64)
    return ProductForm(columns, np.array(coef, np.float64).reshape(-1), gammas, float(np.squeeze(intercept)))


def _read_machine(machine: Any) -> ProductForm:
    """A support vector machine or kernel ridge; public signs of two classes are those of the decision function."""
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
    """The factor before a Gaussian kernel and its gamma, one number or one a column."""
    name = _class(kernel)
    if name == "sklearn.RBF":
        return 1.0, 0.5 / np.square(np.asarray(kernel.length_scale, np.float64))
    if name == "sklearn.ConstantKernel":
        return kernel.constant_value, 0.0
    if name == "sklearn.WhiteKernel":  # noise of the training rows: between them and any others, even equal ones, 0
        return 0.0, 0.0
    if name not in ("sklearn.Product", "sklearn.Sum"):
        raise Declined(f"its kernel {type(kernel).__name__} is no product of Gaussian and constant ones")
    (scale, gamma), (other, more) = _read_covariance(kernel.k1), _read_covariance(kernel.k2)
    if name == "sklearn.Product":
        return scale * other, gamma + more
    if scale and other:
        raise Declined("its kernel is a sum")
    return (scale, gamma) if scale else (other, more)


_READERS: dict[str, tuple[str, Response | str, Callable[[Any], ProductForm] | None]] = {
    "sklearn.SVR": ("support_vectors_", "values", _read_machine),
    "sklearn.NuSVR": ("support_vectors_", "values", _read_machine),
    "sklearn.SVC": ("support_vectors_", "scores", _read_machine),
    "sklearn.NuSVC": ("support_vectors_", "scores", _read_machine),
    "sklearn.KernelRidge": ("X_fit_", "values", _read_machine),
    "sklearn.GaussianProcessRegressor": ("X_train_", "values", _read_process),
}
