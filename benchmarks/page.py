"""The report: seconds to make it, megabytes, and seconds from opening the file to the first chart in chromium.

Bars: at most 6 MB, and 2 s to the first chart, also of 200 features and 100,000 rows that were given.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingRegressor
from tests.support.browser import started

import losslens as ll
from losslens.datasets import load_bikeshare

LARGEST, SLOWEST = 6.0, 2.0  # MB and seconds


def bikeshare() -> tuple[Any, Any, Any]:
    X, y = load_bikeshare()
    return HistGradientBoostingRegressor(categorical_features="from_dtype", random_state=0).fit(X, y), X, y


def wide(n: int, p: int) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, p))
    y = X[:, 0] * X[:, 1] + np.sin(X[:, 2]) + 0.3 * X[:, 3:20].sum(axis=1) + rng.normal(size=n)
    boosting = HistGradientBoostingRegressor(max_iter=50, random_state=0).fit(X[:20_000], y[:20_000])
    return boosting, X, y


def opening(chromium: Any, path: Path) -> float:
    """Seconds until the first chart is drawn."""
    page = chromium.new_page(viewport={"width": 1280, "height": 800})
    page.goto(path.as_uri())
    page.locator("html[data-ready]").wait_for(timeout=60_000)
    ready = float(page.evaluate("document.documentElement.dataset.ready")) / 1000
    page.close()
    return ready


def case(name: str, chromium: Any, model: Any, X: Any, y: Any, **options: Any) -> None:
    start = time.perf_counter()
    report = ll.report(model, X, y, random_state=0, progress=False, **options)
    made = time.perf_counter() - start
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "report.html"
        report.save(path)
        written = time.perf_counter() - start
        size, ready = path.stat().st_size / 1e6, min(opening(chromium, path) for _ in range(3))
    over = "  over the bar" if size > LARGEST or ready > SLOWEST else ""
    print(f"{name:44}{made:9.1f} s{written - made:8.1f} s{size:8.2f} MB{ready:8.2f} s{over}", flush=True)


def main(n: int = 100_000, p: int = 200) -> None:
    print(f"{'':44}{'computed':>11}{'written':>10}{'size':>11}{'opened':>10}")
    model, X, y = bikeshare()
    kinds = {"small": {"max_iter": 10}, "stumps": {"max_depth": 1}}
    others = {name: clone(model).set_params(**how).fit(X, y) for name, how in kinds.items()}
    with started() as chromium:
        case("Bikeshare", chromium, model, X, y)
        case("Bikeshare, 3 models, without shares", chromium, model, X, y, models=others, shapley=False)
        case("Bikeshare, no rows in the file, without shares", chromium, model, X, y, shapley=False, embed="none")
        case(f"boosting, p = {p}, n = {n:,}, without shares", chromium, *wide(n, p), shapley=False)


if __name__ == "__main__":
    main()
