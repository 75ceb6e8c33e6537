"""How time and memory grow: rows, columns, trees, workers, and the device. ``python -m benchmarks.scale``.

Data are written to Parquet files and read part by part, over all pairs of rows. The growth exponent is the slope of
log time against log size; 1 means proportional.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd

import losslens as ll

ROWS, COLUMNS, TREES = 50_000, 10, 50
MEMORY = "16 MB"  # so little that everything is read part by part


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        one = written(Path(folder) / "warm", 60_000, 5)
        timed(forest(one, 5), one)  # compiled now
        print(f"{'':>12} {'size':>9} {'seconds':>8}   {'exponent':>8}")
        grows("rows, trees", (50_000, 100_000, 200_000), lambda n: of_forest(Path(folder), n, COLUMNS, TREES))
        grows("rows, linear", (50_000, 100_000, 200_000, 400_000), lambda n: of_line(Path(folder), n, COLUMNS))
        grows("columns", (5, 10, 20), lambda p: of_forest(Path(folder), ROWS, p, TREES))
        grows("trees", (25, 50, 100), lambda t: of_forest(Path(folder), ROWS, COLUMNS, t))
        if find_spec("distributed"):
            grows("workers", (1, 2), lambda w: of_workers(Path(folder), w))
        of_memory(Path(folder))
        if find_spec("torch"):
            grows("device", (20_000, 40_000, 80_000), of_module)


def grows(what: str, sizes: tuple[int, ...], run: Callable[[int], float]) -> None:
    seconds = []
    for size in sizes:
        seconds.append(run(size))
        print(f"{what:>12} {size:>9,} {seconds[-1]:>8.2f}", flush=True)
    slope = np.polyfit(np.log(sizes), np.log(seconds), 1)[0]
    print(f"{what:>12} {'':>9} {'':>8}   {slope:>8.2f}", flush=True)


def written(folder: Path, n: int, p: int) -> Path:
    """n rows of p columns and a target, in files of at most 50,000 rows."""
    if folder.exists():
        return folder
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    for k, start in enumerate(range(0, n, 50_000)):
        rows = min(50_000, n - start)
        frame = pd.DataFrame(rng.normal(size=(rows, p)), columns=[f"x{j}" for j in range(p)])
        frame["y"] = frame["x0"] * frame["x1"] + frame["x2"] + rng.normal(size=rows)
        frame.to_parquet(folder / f"{k:04}.parquet")
    return folder


def forest(folder: Path, trees: int):
    from sklearn.ensemble import HistGradientBoostingRegressor

    frame = pd.read_parquet(folder / "0000.parquet")[:10_000]
    model = HistGradientBoostingRegressor(max_iter=trees, max_leaf_nodes=16)
    return model.fit(frame.drop(columns="y"), frame["y"])


def timed(model, folder: Path, **options) -> float:
    clock = time.perf_counter if options else time.process_time  # here, others on the machine don't count
    started = clock()
    found = ll.feature_importance(model, folder, "y", memory=MEMORY, progress=False, random_state=0, **options)
    assert found["x0"].whole is not None
    return clock() - started


def of_forest(folder: Path, n: int, p: int, trees: int) -> float:
    data = written(folder / f"{n}-{p}", n, p)
    return timed(forest(data, trees), data)


def of_line(folder: Path, n: int, p: int) -> float:
    from sklearn.linear_model import LinearRegression

    data = written(folder / f"{n}-{p}", n, p)
    frame = pd.read_parquet(data / "0000.parquet")
    return timed(LinearRegression().fit(frame.drop(columns="y"), frame["y"]), data)


def of_workers(folder: Path, workers: int) -> float:
    from distributed import Client, LocalCluster

    data = written(folder / f"200000-{COLUMNS}", 200_000, COLUMNS)
    model = forest(data, TREES)
    cluster = LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=":0")
    with cluster, Client(cluster) as client:
        timed(model, written(folder / f"50000-{COLUMNS}", 50_000, COLUMNS), executor=client)  # loaded there, too
        return timed(model, data, executor=client)


def of_memory(folder: Path) -> None:
    """The most memory of a process that explains files of several sizes, beyond what it has before."""
    for n in (500_000, 1_000_000, 2_000_000):
        data = written(folder / f"{n}-20", n, 20)
        run = subprocess.run([sys.executable, "-c", SCRIPT, str(data)], capture_output=True, text=True, check=True)
        before, after = map(int, run.stdout.split())
        words = f"MiB beyond imports; the columns take {n * 168 / 2**20:.0f}"
        print(f"{'memory':>12} {n:>9,} {(after - before) / 1024:>8.0f} {words}", flush=True)


SCRIPT = """
import sys, pandas as pd, losslens as ll
from pathlib import Path
from benchmarks.memory import forget_peak, resident
from sklearn.linear_model import LinearRegression
frame = pd.read_parquet(Path(sys.argv[1]) / "0000.parquet")
model = LinearRegression().fit(frame.drop(columns="y"), frame["y"])
ll.feature_importance(model, frame[:1000].drop(columns="y"), frame["y"][:1000])  # everything is imported
forget_peak()
before = resident("VmRSS")
ll.feature_importance(model, sys.argv[1], "y", memory="64 MiB", progress=False)
print(before // 1024, resident("VmHWM") // 1024)
"""


def of_module(n: int) -> float:
    """A network on the device that it lives on, Latin donors of data in memory."""
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = torch.nn.Sequential(torch.nn.Linear(COLUMNS, 512), torch.nn.ReLU(), torch.nn.Linear(512, 1)).to(device)
    X = np.random.default_rng(0).normal(size=(n, COLUMNS))
    started = time.perf_counter()
    ll.feature_importance(model, X, X[:, 0], loss="squared_error", donors=ll.Latin(8), random_state=0, progress=False)
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
