"""Estimators of scikit-learn, which is imported where one is needed."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def scikit_learn(module: str) -> Any:
    """A module of scikit-learn, or how to get it."""
    try:
        return import_module(f"sklearn.{module}")
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("this needs scikit-learn: pip install scikit-learn") from error


def cloned(estimator: Any, seed: int) -> Any:
    """An unfitted copy; it draws by the seed where its owner has named none."""
    copy = scikit_learn("base").clone(estimator)
    if "random_state" in copy.get_params() and copy.get_params()["random_state"] is None:
        copy.set_params(random_state=seed % 2**31)
    return copy
