"""A network on the device that it lives on, against its own forward.

Needs NumPy, narwhals and torch with CUDA; from the repository's root: ``PYTHONPATH=src python -m benchmarks.gpu``.
Medians after a warm-up.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from statistics import median
from typing import Any

import numpy as np
import torch

from benchmarks.lines import Line

P = 10
LARGE, SMALL = (10_000, 100), (300, 10)  # rows and donors


def seconds(work: Callable[[], Any], rounds: int = 5) -> float:
    """The median time of some rounds, after one to warm up."""
    times = []
    for _ in range(rounds + 1):
        _wait()
        started = time.perf_counter()
        work()
        _wait()
        times.append(time.perf_counter() - started)
    return median(times[1:])


def _wait() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def network(device: str, n: int, donors: int) -> Iterator[Line]:
    import losslens as ll
    from losslens.donors.designs import Grid
    from losslens.donors.questions import Subjects, pose
    from losslens.engines.choice import choose
    from losslens.models import as_model
    from losslens.tables.features import resolve
    from losslens.tables.frames import as_table

    torch.manual_seed(0)
    widths = (P, 512, 512, 512, 1)
    layers = [part for a, b in pairwise(widths) for part in (torch.nn.Linear(a, b), torch.nn.ReLU())]
    net = torch.nn.Sequential(*layers[:-1]).to(device)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, P)).astype(np.float32)
    y = X[:, 0] * X[:, 1]
    table, model = as_table(X), as_model(net)
    engine = choose(net, model.responder("values"), table, 1 << 33, None)
    known = Subjects(table)
    subjects = [known.subject(f) for f in resolve(None, table.labels, by_position=True)]
    asks = [pose(s, Grid(donors), n, 0).ask for s in subjects]
    cells = n * donors * P + n
    rows = torch.randn(engine.batch_rows, P, device=device)

    def forward() -> None:
        with torch.no_grad():
            for _ in range(-(-cells // engine.batch_rows)):
                net(rows)

    peer = "its own forward: rows a second"
    for precise in (True, False):
        torch.backends.cuda.matmul.allow_tf32 = not precise
        kind = "float32" if precise else "tf32"
        own = -(-cells // engine.batch_rows) * engine.batch_rows / seconds(forward, 3)
        yield Line(f"GPU, module, {kind}: forward of 3 x 512", "10^6 rows a second", own / 1e6)
        filled = cells / seconds(lambda: engine.fill(np.arange(n), asks, lambda rows: None), 3)
        bar = 0.9 if precise else None
        yield Line(f"GPU, module, {kind}: the engine, {cells:,} cells", peer, filled / own, bar, "", "x", at_least=True)
        options = {"loss": "squared_error", "random_state": 0, "memory": "8 GiB", "progress": False}
        for what, verb, more, bar in (
            (f"feature_importance, Grid({donors})", ll.feature_importance, {"donors": Grid(donors)}, None),
            (f"feature_importance, Latin({donors})", ll.feature_importance, {"donors": ll.Latin(donors)}, 0.7),
            ('feature_importance, "auto"', ll.feature_importance, {}, 0.5),
            ("shapley_importance, walks", ll.shapley_importance, {"method": "walk"}, 0.3),
        ):
            found: list[Any] = []
            took = seconds(lambda: found.append(verb(net, X, y, **options, **more).n_predictions), 3)  # noqa: B023
            work, note = f"GPU, module, {kind}: {what}", f"{found[-1]:,} predictions in {took:.2f} s"
            yield Line(work, peer, found[-1] / took / own, bar if precise else None, note, "x", at_least=True)


def lines(quick: bool, device: str = "cuda") -> Iterator[Line]:
    """Every bar of a GPU; `quick`: tiny sizes, to see that it runs."""
    yield from network(device, *(SMALL if quick else LARGE))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to see that it runs")
    options = parser.parse_args()
    print(torch.__version__, torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU")
    for line in lines(options.quick, options.device):
        print(line, flush=True)


if __name__ == "__main__":
    main()
