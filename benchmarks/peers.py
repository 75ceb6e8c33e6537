"""What the engines are measured with: data, fitted models, the peers' calls, and processes of their own.

`python -m benchmarks.peers first` and `python -m benchmarks.peers large` are such processes: they print JSON.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from statistics import median
from typing import Any

import numpy as np
from sklearn import ensemble
from sklearn.datasets import make_friedman1
from sklearn.inspection import partial_dependence, permutation_importance
from sklearn.linear_model import LinearRegression
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR

import losslens as ll
from benchmarks.memory import forget_peak, resident

ENGINE = {
    "forest": "trees",
    "boosting": "trees",
    "LightGBM": "trees",
    "XGBoost": "trees",
    "CatBoost": "trees",
    "linear": "additive",
    "SVR": "products",
}


def rows(fitted: int, explained: int, p: int = 13) -> tuple[Any, Any, Any, Any]:
    """Friedman's first function with noise: five useful features, two of them by an interaction alone."""
    X, y = make_friedman1(n_samples=fitted + explained, n_features=p, noise=1.0, random_state=0)
    return X[:fitted], y[:fitted], X[fitted:], y[fitted:]


def unfitted(name: str) -> Any:
    """A regressor with its defaults, on one thread."""
    return _made(name, "Regressor")


def classifier(name: str) -> Any:
    """The classifier of the same kind; the leaves of the forest are impure, so that labels of its sums may tie."""
    return _made(name, "Classifier", min_samples_leaf=5)


def _made(name: str, kind: str, **of_forest: Any) -> Any:
    if name == "LightGBM":
        import lightgbm

        return getattr(lightgbm, f"LGBM{kind}")(n_estimators=100, n_jobs=1, random_state=0, verbose=-1)
    if name == "XGBoost":
        import xgboost

        return getattr(xgboost, f"XGB{kind}")(n_estimators=100, n_jobs=1, random_state=0)
    if name == "CatBoost":
        import catboost

        options = {"iterations": 100, "thread_count": 1, "random_seed": 0, "verbose": 0, "allow_writing_files": False}
        return getattr(catboost, f"CatBoost{kind}")(**options)
    if name == "MLP":
        return make_pipeline(StandardScaler(), MLPRegressor(hidden_layer_sizes=(100, 50), max_iter=50, random_state=0))
    if name == "forest":
        return getattr(ensemble, f"RandomForest{kind}")(100, random_state=0, n_jobs=1, **of_forest)
    if name == "boosting":
        return getattr(ensemble, f"HistGradientBoosting{kind}")(random_state=0)
    return {"linear": LinearRegression(n_jobs=1), "SVR": SVR()}[name]


@lru_cache(maxsize=8)
def fitted(name: str, n: int, p: int = 13) -> Any:
    """A model fitted on n rows."""
    X, y, _, _ = rows(n, 1, p)
    return unfitted(name).fit(X, y)


class OtherEngineError(RuntimeError):
    """Another engine has answered than the one that is measured."""


def explain(model: Any, X: Any, y: Any, engine: str, n_jobs: int | None = None) -> Any:
    """All exact importances, local ones too; an error where another engine has answered."""
    imp = ll.feature_importance(model, X, y, loss="squared_error", n_jobs=n_jobs, progress=False)
    if imp.engine != engine:
        raise OtherEngineError(f"{imp.engine} has answered, not {engine}: {next(iter(imp.values())).declined}")
    assert np.isfinite([feature.pfi for feature in imp.values()]).all()
    if engine == "additive":  # each by itself: side by side they take as much room as the table
        assert all(feature.local.shape == (len(y),) for feature in imp.values())
    else:
        assert imp.local.shape == X.shape
    return imp


def _on_one_thread(model: Any, X: Any, y: Any) -> float:
    """CatBoost takes all cores for a predict unless it is told how many."""
    return -float(np.mean(np.square(y - model.predict(X, thread_count=1))))


def permute(model: Any, X: Any, y: Any, repeats: int = 5) -> Any:
    """scikit-learn's permutation importance."""
    scoring = _on_one_thread if "CatBoost" in type(model).__name__ else "neg_mean_squared_error"
    return permutation_importance(model, X, y, scoring=scoring, n_repeats=repeats, random_state=0, n_jobs=1)


def individual_curves(model: Any, X: Any, values: int) -> Any:
    """scikit-learn's ICE curves of the first feature, at some values."""
    return partial_dependence(model, X, [0], kind="individual", grid_resolution=values, percentiles=(0, 1))


def replaced(model: Any, X: Any, y: Any, columns: list[int]) -> float:
    """The mean squared error over all pairs of a row and a donor that lends these columns, from the model itself."""
    n = len(X)
    many = np.repeat(X, n, axis=0)
    many[:, columns] = np.tile(X[:, columns], (n, 1))
    return float(np.mean(np.square(np.repeat(y, n) - model.predict(many))))


def bound_to(model: Any, X: Any, y: Any) -> Any:
    """The trees of a model and these rows, in the engine's own form."""
    from losslens.losses import resolve
    from losslens.passes.task import Options, prepare

    loss = resolve("squared_error")
    task = prepare(model, X, y, Options(n_jobs=1, progress=False), loss=loss, response=loss.reads)
    return task.exact.bound


def seconds(call: Callable[[], Any], clock: Callable[[], float] = time.perf_counter) -> float:
    """Of one call."""
    started = clock()
    call()
    return clock() - started


@dataclass(frozen=True)
class Measured:
    """Medians over rounds; the ratio is that of the same round, theirs over ours."""

    ours: float
    theirs: float
    ratio: float

    @property
    def note(self) -> str:
        """Both times."""
        return f"{self.ours:.3g} s against {self.theirs:.3g} s"


def interleaved(
    ours: Callable[[], Any], theirs: Callable[[], Any], rounds: int, scale: float = 1.0,
    clock: Callable[[], float] = time.perf_counter,
) -> Measured:  # fmt: skip
    """Ours, theirs, ours, theirs, ...; `scale`: theirs is a part of the work, this many times of which is all."""
    pairs = [(seconds(ours, clock), scale * seconds(theirs, clock)) for _ in range(rounds)]
    mine, other = (median(column) for column in zip(*pairs, strict=True))
    return Measured(mine, other, median(b / a for a, b in pairs))


def in_process(what: str, **environment: str) -> dict[str, Any]:
    """What a process of its own has measured."""
    command = [sys.executable, "-m", "benchmarks.peers", what]
    done = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, check=False)
    if done.returncode:
        return {"failed": done.stderr.strip().rpartition("\n")[2]}
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def large(n: int = 1_000_000) -> dict[str, Any]:
    """Seconds, and peak memory above what was there before, for a million rows."""
    model = fitted("boosting", 20_000)
    _, _, X, y = rows(0, n)
    explain(model, X[:100], y[:100], "trees")
    forget_peak()
    before = resident("VmRSS")
    took = seconds(lambda: explain(model, X, y, "trees"))
    return {"seconds": took, "peak": resident("VmHWM") - before, "data": X.nbytes + y.nbytes}


if __name__ == "__main__":
    print(json.dumps({"large": large}[sys.argv[1]]()))
