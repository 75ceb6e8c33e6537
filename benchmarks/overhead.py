"""How much time goes beside the model: wall time over time inside predict, and predict against one good batch.

Bars: overhead at most 1.10 for forest, boosting, MLP and SVR; linear at most 3 on NumPy and 2 on frames; time inside
predict at most 1.05 times that of the same rows in one good batch.
"""

from __future__ import annotations

import time
import warnings
from statistics import median
from typing import Any

import pandas as pd
import polars as pl
from sklearn.inspection import permutation_importance

import losslens as ll
from benchmarks.models import data, models, timed

BAR = {"linear": {"numpy": 3.0, "pandas": 2.0, "polars": 2.0}}
DONORS: dict[str, Any] = {"forest": ll.Latin(30), "SVR": ll.Latin(30), "MLP": ll.Grid(200), "boosting": ll.Grid(100)}


def one(model: Any, X: Any, y: Any, donors: Any) -> tuple[float, float, float]:
    """Overhead, predict's time against a good batch of the same rows, and seconds a row of such a batch."""
    model = timed(model)
    started = time.perf_counter()
    ll.feature_importance(model, X, y, donors=donors, random_state=0, memory="2 GiB", loss="squared_error")
    wall = time.perf_counter() - started - model.extra
    return wall / model.seconds, median(model.against_good), median(model.good)


def peer(model: Any, X: Any, y: Any, good: float, repeats: int = 2) -> float:
    """scikit-learn's wall time over that of the same rows in good batches."""
    started = time.perf_counter()
    permutation_importance(model, X, y, scoring="neg_mean_squared_error", n_repeats=repeats, random_state=0)
    return (time.perf_counter() - started) / (len(y) * (X.shape[1] * repeats + 1) * good)


def main(rounds: int = 3) -> None:
    """Print the table."""
    warnings.simplefilter("ignore")
    X_train, y_train, X, y = data()
    columns = [f"c{j}" for j in range(X.shape[1])]
    tables = {"numpy": X, "pandas": pd.DataFrame(X, columns=columns), "polars": pl.DataFrame(X, schema=columns)}
    train = {
        "numpy": X_train,
        "pandas": pd.DataFrame(X_train, columns=columns),
        "polars": pl.DataFrame(X_train, schema=columns),
    }
    print(
        "n = 1,000, p = 13; medians of", rounds, "rounds; ours: wall / inside predict, inside predict / one good batch"
    )
    print(f"{'model':10}{'table':8}{'overhead':>9}{'bar':>6}{'predict':>9}{'bar':>6}{'scikit-learn / good batch':>28}")
    for name, model in models().items():
        for kind, table in tables.items():
            model.fit(train[kind], y_train)
            found = [one(model, table, y, DONORS.get(name, "all")) for _ in range(rounds)]
            overhead, predict, good = (median(column) for column in zip(*found, strict=True))
            theirs = f"{peer(model, table, y, good):.1f}" if kind == "numpy" else ""
            bar = BAR.get(name, {}).get(kind, 1.10)
            print(f"{name:10}{kind:8}{overhead:9.3f}{bar:6.2f}{predict:9.3f}{1.05:6.2f}{theirs:>28}", flush=True)


if __name__ == "__main__":
    main()
