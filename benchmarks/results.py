"""What comes after the numbers: the first text, picture and file of a result, and its extrapolation.

Bars: pictures and files compute nothing, so that the first picture takes at most 2 s and a file at most 10 s, also on
busy cores with the default number of BLAS threads; the extrapolation of a feature takes at most 0.2 s.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor

import losslens as ll
from benchmarks.lines import Line


def seconds(work: Callable[[], Any]) -> tuple[float, Any]:
    started = time.perf_counter()
    found = work()
    return time.perf_counter() - started, found


def lines(quick: bool = False, n: int = 2_000, p: int = 20) -> Iterator[Line]:
    """Of boosted trees."""
    mpl.use("agg")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, p))
    X[:, 1] += X[:, 0]
    y = X[:, 0] * X[:, 2] + rng.normal(size=n)
    model = HistGradientBoostingRegressor(random_state=0).fit(X, y)
    ll.feature_importance(model, X[:100], y[:100])["x0"].plot()  # everything is imported and compiled
    computed, imp = seconds(lambda: ll.feature_importance(model, X, y, progress=False))
    text, _ = seconds(lambda: repr(imp))
    curve, _ = seconds(imp["x0"].plot)
    ranking, _ = seconds(imp.plot)
    with tempfile.TemporaryDirectory() as folder:
        some = imp.given(np.arange(200))  # a file of megabytes, not of hundreds
        saved, _ = seconds(lambda: some.save(Path(folder) / "result.losslens"))
        size = (Path(folder) / "result.losslens").stat().st_size
    asked, _ = seconds(lambda: imp.extrapolation)
    parts = (
        ("all importances", computed, 2.0), ("text", text, 2.0), ("first picture of a feature", curve, 2.0),
        ("ranking", ranking, 2.0), (f"file of 200 rows, {size / 1e6:.1f} MB", saved, 10.0),
        (f"extrapolation of {p} features", asked, 0.2 * p),
    )  # fmt: skip
    for what, took, bar in parts:
        yield Line(f"{what}, boosting, n = {n:,}, p = {p}", "", took, bar, unit="s")


if __name__ == "__main__":
    for line in lines():
        print(line, flush=True)
