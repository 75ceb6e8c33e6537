"""The data and models that all benchmarks share."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
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
            StandardScaler(), MLPRegressor(hidden_layer_sizes=(100,), max_iter=200, early_stopping=True, random_state=0)
        ),
        "SVR": make_pipeline(StandardScaler(), SVR(C=10)),
        "linear": LinearRegression(),
    }


class Timed:
    """A regressor that keeps the time spent inside its predict, and the rows it was asked for."""

    def __init__(self, model: Any) -> None:
        self.model, self.seconds, self.rows = model, 0.0, 0

    def predict(self, X: Any) -> Any:
        started = time.perf_counter()
        answer = self.model.predict(X)
        self.seconds += time.perf_counter() - started
        self.rows += len(answer)
        return answer


def good_batch(model: Any, X: Any, size: int) -> float:
    """Seconds a row of one batch of `size` rows."""
    rows = np.resize(np.arange(len(X)), size)
    batch = X[rows] if isinstance(X, np.ndarray) or not hasattr(X, "iloc") else X.iloc[rows]
    started = time.perf_counter()
    model.predict(batch)
    return (time.perf_counter() - started) / size
