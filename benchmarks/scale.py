"""How time and memory grow: rows, columns, trees, workers, and a network on a GPU. ``python -m benchmarks.scale``.

Data are written to Parquet files and read part by part, over all pairs of rows. The growth exponent is the slope of
log time against log size; 1 means proportional. Beside the measured seconds stand those that `ll.plan` expected. With
``--quick`` sizes are a quarter, and memory is left out.
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
QUICK = "--quick" in sys.argv
MEMORY = "4 MB" if QUICK else "16 MB"  # so little that everything is read part by part


def main() -> None:
    k = 4 if QUICK else 1
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        one = written(folder / "warm", 60_000, 5)
        timed(forest(one, 5), one)  # compiled now
        print(f"{'':>12} {'size':>9} {'seconds':>8} {'planned':>8} {'ratio':>6}   {'exponent':>8}")
        many = (50_000 // k, 100_000 // k, 200_000 // k)
        grows("rows, trees", many, lambda n: of_forest(folder, n, COLUMNS, TREES))
        grows("rows, linear", many, lambda n: of_line(folder, n, COLUMNS))
        grows("rows, box", many[:2], lambda n: of_box(folder, n, COLUMNS))
        grows("columns", (5, 10, 20), lambda p: of_forest(folder, ROWS // k, p, TREES))
        grows("trees", (25, 50, 100), lambda t: of_forest(folder, ROWS // k, COLUMNS, t))
        if find_spec("distributed"):
            grows("workers", (1, 2), lambda w: of_workers(folder, w, 200_000 // k))
        else:
            print(f"{'workers':>12} dask.distributed is not installed")
        if not QUICK:
            of_memory(folder)
    on_device()


def on_device() -> None:
    """A network, where torch sees CUDA."""
    if not find_spec("torch"):
        print(f"{'device':>12} torch is not installed")
        return
    import torch

    if not torch.cuda.is_available():
        print(f"{'device':>12} torch sees no CUDA device")
        return
    grows("device, net", (20_000, 40_000, 80_000), of_module)


def grows(what: str, sizes: tuple[int, ...], run: Callable[[int], tuple[float, float]]) -> None:
    """Seconds, and what `plan` expected; then the slope of log seconds against log size."""
    seconds = []
    for size in sizes:
        took, planned = run(size)
        seconds.append(took)
        print(f"{what:>12} {size:>9,} {took:>8.2f} {planned:>8.2f} {planned / took:>6.2f}", flush=True)
    slope = np.polyfit(np.log(sizes), np.log(seconds), 1)[0]
    print(f"{what:>12} {'':>9} {'':>8} {'':>8} {'':>6}   {slope:>8.2f}", flush=True)


def written(folder: Path, n: int, p: int, most: int = 50_000) -> Path:
    """n rows of p columns and a target, in files of at most `most` rows."""
    if folder.exists():
        return folder
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    for k, start in enumerate(range(0, n, most)):
        rows = min(most, n - start)
        frame = pd.DataFrame(rng.normal(size=(rows, p)), columns=[f"x{j}" for j in range(p)])
        frame["y"] = frame["x0"] * frame["x1"] + frame["x2"] + rng.normal(size=rows)
        frame.to_parquet(folder / f"{k:04}.parquet")
    return folder


def forest(folder: Path, trees: int):
    from sklearn.ensemble import HistGradientBoostingRegressor

    frame = pd.read_parquet(folder / "0000.parquet")[:10_000]
    model = HistGradientBoostingRegressor(max_iter=trees, max_leaf_nodes=16)
    return model.fit(frame.drop(columns="y"), frame["y"])


def timed(model, folder: Path, **options) -> tuple[float, float]:
    """Seconds, measured and planned."""
    options = {"memory": MEMORY} | options
    planned = ll.plan(ll.feature_importance, model, folder, "y", **options)
    clock = time.perf_counter if "executor" in options else time.process_time  # here, others on the machine don't count
    started = clock()
    found = ll.feature_importance(model, folder, "y", progress=False, random_state=0, **options)
    assert found["x0"].totals is not None
    return clock() - started, planned.seconds


def of_forest(folder: Path, n: int, p: int, trees: int) -> tuple[float, float]:
    data = written(folder / f"{n}-{p}", n, p)
    return timed(forest(data, trees), data)


def of_line(folder: Path, n: int, p: int) -> tuple[float, float]:
    from sklearn.linear_model import LinearRegression

    data = written(folder / f"{n}-{p}", n, p)
    frame = pd.read_parquet(data / "0000.parquet")
    return timed(LinearRegression().fit(frame.drop(columns="y"), frame["y"]), data)


def of_box(folder: Path, n: int, p: int) -> tuple[float, float]:
    """A function that no reader knows, four donors a row."""
    data = written(folder / f"{n}-{p}", n, p)

    def predict(table):
        return np.tanh(np.asarray(table) @ np.linspace(-1, 1, p * p).reshape(p, p)).sum(axis=1)

    return timed(predict, data, loss="squared_error", donors=ll.Latin(4))


def of_workers(folder: Path, workers: int, n: int) -> tuple[float, float]:
    from distributed import Client, LocalCluster

    data = written(folder / f"parts-{n}", n, COLUMNS, min(50_000, n // 4))
    model = forest(data, TREES)
    cluster = LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=":0")
    with cluster, Client(cluster) as client:
        timed(model, written(folder / "small", 20_000, COLUMNS, 5_000), executor=client)  # loaded there, too
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


def of_module(n: int) -> tuple[float, float]:
    """A network on the device that it lives on, Latin donors of data in memory."""
    import torch

    layers = torch.nn.Linear(COLUMNS, 512), torch.nn.ReLU(), torch.nn.Linear(512, 1)
    model, X = torch.nn.Sequential(*layers).to("cuda"), np.random.default_rng(0).normal(size=(n, COLUMNS))
    options = {"loss": "squared_error", "donors": ll.Latin(8)}
    ll.plan(ll.feature_importance, model, X, X[:, 0], **options)  # warm
    planned = ll.plan(ll.feature_importance, model, X, X[:, 0], **options)
    started = time.perf_counter()
    ll.feature_importance(model, X, X[:, 0], random_state=0, progress=False, **options)
    return time.perf_counter() - started, planned.seconds


if __name__ == "__main__":
    main()
