"""How much time goes beside the model: wall time over time inside predict, and predict against one good batch.

The bars of both are in `BAR` and `BATCH`. Beside them, as a note: what scikit-learn takes for the same rows.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from statistics import median
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
from sklearn.inspection import permutation_importance

import losslens as ll
from benchmarks.lines import Line, run
from benchmarks.models import data, models, timed

BAR = {"linear": {"numpy": 2.5, "pandas": 1.6, "polars": 1.6}}  # others 1.10
BATCH = 1.05
SHORT = 5.0  # seconds of a run that is made three times
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


def lines(quick: bool) -> Iterator[Line]:
    """n = 1,000, p = 13, three kinds of tables; medians of three runs where one is short."""
    X_train, y_train, X, y = data()
    columns = [f"c{j}" for j in range(X.shape[1])]
    kinds = {
        "numpy": np.asarray,
        "pandas": partial(pd.DataFrame, columns=columns),
        "polars": partial(pl.DataFrame, schema=columns),
    }
    for name, model in models().items():
        batches = {}
        for kind, table in kinds.items():
            model.fit(table(X_train), y_train)
            measure = partial(one, model, table(X), y, DONORS.get(name, "all"))
            started = time.perf_counter()
            found = [measure()]
            if not quick and time.perf_counter() - started < SHORT:
                found += [measure(), measure()]
            overhead, batches[kind], good = (median(column) for column in zip(*found, strict=True))
            note = f"scikit-learn: {peer(model, X, y, good):.1f} x a good batch" if kind == "numpy" else ""
            bar = BAR.get(name, {}).get(kind, 1.10)
            yield Line(f"black box, {name}, {kind}", "time inside predict", overhead, bar, note, "x")
        worst = max(batches, key=batches.__getitem__)
        work = f"time inside predict, {name}, {worst} (the worst)"
        yield Line(work, "the same rows in one good batch", batches[worst], BATCH, unit="x")


if __name__ == "__main__":
    run("benchmarks.overhead", __doc__, {1: lines}, {1})
