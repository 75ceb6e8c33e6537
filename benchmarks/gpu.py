"""What a GPU adds: coalitions of trees over all pairs, and a network on the device that it lives on.

Needs NumPy, narwhals and torch with CUDA; from the repository's root: ``PYTHONPATH=src python -m benchmarks.gpu``.
Trees are drawn at random, 100 of 31 leaves over 10 columns; ``--data file.npz`` takes boxes written by
``--export file.npz`` (which needs scikit-learn and no GPU) with the CPU engine's own errors to compare with. Medians
after a warm-up. Half a minute on an H200.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch

from benchmarks.lines import Line
from losslens.engines.gpu.boxes import Boxes
from losslens.engines.gpu.losses import device_loss
from losslens.engines.gpu.pairs import DevicePairs
from losslens.engines.gpu.totals import DeviceErrors
from losslens.losses import absolute_error, log_loss, squared_error

TREES, LEAVES, P = 100, 31, 10
LARGE, SMALL = (10_000, TREES), (300, 5)  # rows and trees
FIELDS = ("condition", "bits", "value", "tree", "offset")


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


# Trees.


def drawn(n: int, rng: np.random.Generator, trees: int = TREES) -> tuple[Boxes, np.ndarray[Any, Any]]:
    """Random trees: a leaf is cut in two until there are enough. And a target that they have something to say about."""
    X = rng.random((n, P))
    known: dict[tuple[int, float, float], int] = {}
    bits = [np.ones(n, bool)]
    condition = np.zeros((trees * LEAVES, P), np.int32)
    for t in range(trees):
        leaves = [np.tile([0.0, 1.0], (P, 1))]
        while len(leaves) < LEAVES:
            box, j = leaves.pop(rng.integers(len(leaves))), rng.integers(P)
            cut = rng.uniform(*(box[j] * [0.75, 0.25] + box[j][::-1] * [0.25, 0.75]))
            lower, upper = box.copy(), box.copy()
            lower[j, 1] = upper[j, 0] = cut
            leaves += [lower, upper]
        for number, box in enumerate(leaves):
            for j, (low, high) in enumerate(box):
                if (low, high) == (0.0, 1.0):
                    continue
                if (j, low, high) not in known:
                    known[j, low, high] = len(bits)
                    bits.append((X[:, j] >= low) & (X[:, j] < high))
                condition[t * LEAVES + number, j] = known[j, low, high]
    words = np.zeros((len(bits), 8 * -(-n // 64)), np.uint8)
    words[:, : -(-n // 8)] = np.packbits(np.stack(bits), axis=1, bitorder="little")
    value = rng.normal(size=(trees * LEAVES, 1)) / 10
    boxes = Boxes(n, condition, words.view(np.uint64), value, np.repeat(np.arange(trees), LEAVES), np.zeros(1))
    return boxes, X[:, 0] + rng.normal(size=n)


def export(path: Path, n: int, trees: int) -> None:
    """Boxes of a fitted ensemble, and what the CPU engine says of some coalitions."""
    from sklearn.ensemble import GradientBoostingRegressor

    import losslens as ll
    from losslens.engines.trees.boxes import boxes
    from losslens.passes.task import Options, prepare

    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000 + n, P))
    y = (
        X[:, 0] * X[:, 1]
        + np.sin(2 * X[:, 2])
        + X[:, 3:6].sum(axis=1)
        + np.abs(X[:, 6]) * X[:, 7]
        + rng.normal(size=len(X))
    )
    model = GradientBoostingRegressor(n_estimators=trees, max_leaf_nodes=LEAVES, max_depth=None, random_state=0)
    model.fit(X[n:], y[n:])
    options = Options(random_state=0, progress=False)
    task = prepare(model, X[:n], y[:n], options, loss=ll.losses.squared_error, response="values")
    made, weight = boxes(task.exact.bound, np.arange(n)), np.full(n, 1 / n)
    kept = rng.random((24, P)) < 0.5
    prepared = task.exact.coalition_errors(y[:n], weight)
    errors = np.array([prepared.errors(S) for S in kept])
    np.savez(path, n=n, y=y[:n], kept=kept, errors=errors, **{name: getattr(made, name) for name in FIELDS})


def read(path: Path) -> tuple[Boxes, Any, Any, Any]:
    held = np.load(path)
    return Boxes(int(held["n"]), *(held[name] for name in FIELDS)), held["y"], held["kept"], held["errors"]


def all_coalitions(boxes: Boxes, y: Any, device: str, every: int) -> Iterator[Line]:
    prepared = DeviceErrors(boxes, y, np.full(boxes.n, 1 / boxes.n), device)
    places = np.arange(0, 1 << (P - 1), every)  # a coalition and its complement at once
    marks = (places[:, None] >> np.arange(P) & 1).astype(bool)
    work = f"GPU: totals of {2 * len(marks):,} coalitions, n = {boxes.n:,}, {len(boxes.value):,} leaves"
    yield Line(work, "", seconds(lambda: [prepared.errors(S) for S in marks], 3), 2.0, unit="s")


def one_coalition(boxes: Boxes, y: Any, device: str) -> Iterator[Line]:
    prepared = DeviceErrors(boxes, y, np.full(boxes.n, 1 / boxes.n), device)
    half = np.arange(P) % 2 == 0
    work = f"GPU: totals of one coalition, n = {boxes.n:,}"
    yield Line(work, "", 1000 * seconds(lambda: prepared.errors(half), 20), 15.0, unit="ms")
    weighted = DeviceErrors(boxes, y, np.linspace(1, 1 + 1e-13, boxes.n), device)
    (a, b), (c, d) = prepared.errors(half), weighted.errors(half)
    worst = max(abs(a - c) / c, abs(b - d) / d)
    yield Line(work, "products in doubles: relative error", worst, 1e-9)


def compare(boxes: Boxes, y: Any, kept: Any, errors: Any, device: str) -> Iterator[Line]:
    prepared = DeviceErrors(boxes, y, np.full(boxes.n, 1 / boxes.n), device)
    found = np.array([prepared.errors(S) for S in kept])
    peer = "totals on the CPU: relative error"
    yield Line("GPU: totals, the worst of 48", peer, float(np.max(np.abs(found / errors - 1))), 1e-9)
    on_device = device_loss(lambda raw: raw[:, 0], 1, squared_error)
    pairs = DevicePairs(boxes, y, np.ones(boxes.n), on_device, device)
    worst = max(abs(pairs.means(S)[0].mean() / e - 1) for S, (e, _) in zip(kept[:6], errors[:6], strict=True))
    yield Line("GPU: means of pairs, squared_error", peer, worst, 1e-6)


def pair_rates(boxes: Boxes, y: Any, device: str) -> Iterator[Line]:
    same, logistic = lambda raw: raw[:, 0], _logistic
    for loss, link, target in (
        (squared_error, same, y), (absolute_error, same, y), (log_loss, logistic, (y > np.median(y)).astype(float)),
    ):  # fmt: skip
        prepared = DevicePairs(boxes, target, np.ones(boxes.n), device_loss(link, 1, loss), device)
        half = np.arange(P) % 2 == 0
        rate = boxes.n**2 / seconds(lambda: prepared.means(half))  # noqa: B023
        work = f"GPU: means of pairs, {loss.name}, n = {boxes.n:,}"
        yield Line(work, "10^9 pairs a second", rate / 1e9, 20.0, at_least=True)


def _logistic(raw: Any) -> Any:
    p = 1 / (1 + np.exp(-raw[:, 0]))
    return np.column_stack([1 - p, p])


# A network.


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


def lines(
    quick: bool, *, device: str = "cuda", data: Path | None = None, trees: bool = True, module: bool = True
) -> Iterator[Line]:
    """Every bar of a GPU; `quick`: tiny sizes, to see that it runs."""
    rng = np.random.default_rng(0)
    n, number = SMALL if quick else LARGE
    if trees:
        boxes, y = drawn(n, rng, number)
        if data:
            boxes, y, kept, errors = read(data)
            yield from compare(boxes, y, kept, errors, device)
        yield from all_coalitions(boxes, y, device, 64 if quick else 1)
        yield from one_coalition(*drawn(10 * n, rng, number), device)
        yield from pair_rates(boxes, y, device)
    if module:
        yield from network(device, n, 10 if quick else 100)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__)
    parser.add_argument("--export", type=Path)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--only", choices=["trees", "network"])
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to see that it runs")
    asked = parser.parse_args()
    if asked.export:
        export(asked.export, *(SMALL if asked.quick else LARGE))
        return
    print(torch.__version__, torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU")
    trees, module = asked.only != "network", asked.only != "trees"
    for line in lines(asked.quick, device=asked.device, data=asked.data, trees=trees, module=module):
        print(line, flush=True)


if __name__ == "__main__":
    main()
