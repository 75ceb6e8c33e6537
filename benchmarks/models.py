"""The data and models that all benchmarks share."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.datasets import make_friedman1
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.linear_model import LinearRegression
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR


def data(n: int = 1000, p: int = 13, seed: int = 0) -> tuple[Any, Any, Any, Any]:
    """Training and test rows of Friedman's first function: five useful features, the others noise."""
    X, y = make_friedman1(n_samples=2000 + n, n_features=p, noise=1.0, random_state=seed)
    return X[:2000], y[:2000], X[2000:], y[2000:]


def models() -> dict[str, Any]:
    """One of each kind."""
    return {
        "forest": RandomForestRegressor(100, random_state=0),
        "boosting": HistGradientBoostingRegressor(random_state=0),
        "MLP": make_pipeline(
            StandardScaler(),
            MLPRegressor(hidden_layer_sizes=(100, 50), max_iter=200, early_stopping=True, random_state=0),
        ),
        "SVR": make_pipeline(StandardScaler(), SVR(C=10)),
        "linear": LinearRegression(),
    }


class Timed(RegressorMixin, BaseEstimator):
    """A regressor that keeps the time spent inside its predict, and now and then times the same rows once more.

    The third call of ten is followed by the same rows alone, and by those of the last three calls in one batch: what a
    good batch takes at that moment. `extra` is the time that this adds to a run.
    """

    def __init__(self, model: Any) -> None:
        self.model, self.seconds, self.rows, self.extra, self.calls = model, 0.0, 0, 0.0, 0
        self.last: list[Any] = []
        self.against_good: list[float] = []
        self.good: list[float] = []

    def predict(self, X: Any) -> Any:
        started = time.perf_counter()
        answer = self.model.predict(X)
        ended = time.perf_counter()
        self.seconds += ended - started
        self.rows += len(answer)
        self.calls += 1
        if self.calls % 10 in (1, 2, 3):
            self.last.append(X.copy() if hasattr(X, "copy") else X)
        if self.calls % 10 == 3:
            good = min(_seconds_a_row(self.model, rows) for rows in (self.last[-1], _together(self.last)))
            self.good.append(good)
            self.against_good.append((ended - started) / len(answer) / good)
            self.last = []
        self.extra += time.perf_counter() - ended
        return answer

    def fit(self, X: Any, y: Any) -> Timed:
        """For scikit-learn, which takes nothing without it."""
        raise NotImplementedError


def timed(model: Any) -> Timed:
    """A timed model; its name still tells what it is, as batches are larger for forests."""
    return type(f"Timed{type(model).__name__}", (Timed,), {})(model)  # type: ignore[no-any-return]


def _together(tables: list[Any]) -> Any:
    if isinstance(tables[0], np.ndarray):
        return np.concatenate(tables)
    return pd.concat(tables, ignore_index=True) if isinstance(tables[0], pd.DataFrame) else pl.concat(tables)


def _seconds_a_row(model: Any, rows: Any) -> float:
    started = time.perf_counter()
    model.predict(rows)
    return (time.perf_counter() - started) / len(rows)
