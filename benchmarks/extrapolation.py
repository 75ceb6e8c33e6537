"""Whether the warning of extrapolation warns when it should: false alarms, known density ratios, curved ties, and cost.

Bars: independent columns warn in at most 5 % of the features; the AUC of Gaussian pairs is at most 0.04 under that of
the true density ratio, at n = 2,000; every curved tie warns; a feature costs under 0.2 s.

`python -m benchmarks.extrapolation [--quick]`.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from losslens.results.replaced_rows import ReplacedRows
from losslens.tables.column_scores import CodedRows
from losslens.tables.frames import as_table
from losslens.tables.sample import copy_columns, spread_rows

Floats = NDArray[np.float64]
CURVED = ("square", "circle", "sum of five", "category decides the range", "city and country", "sine of three waves")


def coded(X: Any) -> CodedRows:
    """The rows among which replaced ones are looked for."""
    table = as_table(X)
    return CodedRows.of(table.names, copy_columns(table, spread_rows(table)))


def mixture(n: int, p: int, rng: np.random.Generator) -> pd.DataFrame:
    """Independent numbers, words and numbers with gaps."""
    kinds = (
        lambda: rng.normal(size=n),
        lambda: rng.exponential(size=n),
        lambda: rng.choice(list("abcd"), n, p=[0.5, 0.3, 0.15, 0.05]),
        lambda: np.where(rng.random(n) < 0.2, np.nan, rng.integers(0, 5, n)),
    )
    return pd.DataFrame({f"c{j}": kinds[j % 4]() for j in range(p)})


def pair(rho: float, n: int, rng: np.random.Generator) -> Floats:
    a, b = rng.normal(size=(2, n))
    return np.column_stack([a, rho * a + np.sqrt(1 - rho**2) * b])


def truth(rho: float, n: int = 400_000) -> tuple[float, float]:
    """AUC of the density ratio of a Gaussian pair, and the share of replaced rows that are ten times as frequent."""

    def odds(x: Floats, y: Floats) -> Floats:
        bent = (rho**2 * x**2 - 2 * rho * x * y + rho**2 * y**2) / (2 * (1 - rho**2))
        return np.asarray(0.5 * np.log(1 - rho**2) + bent)

    rng = np.random.default_rng(0)
    real, replaced = np.sort(odds(*pair(rho, n, rng).T)), odds(*rng.normal(size=(2, n)))
    return float(np.searchsorted(real, replaced).mean() / n), float((replaced > np.log(10)).mean())


def curved(name: str, n: int, rng: np.random.Generator) -> Any:
    a, b, c = rng.normal(size=(3, n))
    if name == "square":
        return np.column_stack([a, a**2 + 0.3 * b, c])
    if name == "circle":
        angle = rng.uniform(0, 2 * np.pi, n)
        return np.column_stack([np.cos(angle) + 0.1 * a, np.sin(angle) + 0.1 * b, c])
    if name == "sum of five":
        others = rng.normal(size=(n, 5))
        return np.column_stack([others.sum(axis=1) + 0.5 * a, others])
    if name == "sine of three waves":
        return np.column_stack([2 * a, np.sin(4 * a) + 0.1 * b, c])
    kind = rng.integers(0, 4, n)
    if name == "city and country":
        return pd.DataFrame({"city": np.array(list("abcd"))[kind], "country": np.where(kind < 2, "x", "y"), "z": c})
    return pd.DataFrame({"x": 2 * kind + rng.uniform(size=n), "kind": np.array(list("abcd"))[kind], "z": c})


def false_alarms(runs: int) -> Iterator[str]:
    for n in (100, 300, 1000):
        for p in (3, 10):
            found, rng = [], np.random.default_rng(n + p)
            while len(found) < runs:
                table = coded(mixture(n, p, rng))
                found += [ReplacedRows("x", (j,), table).extrapolation for j in range(p)]
            auc = np.array([one.auc for one in found])
            warned, share = np.mean([one.warns for one in found]), np.mean([one.share for one in found])
            bar = "" if warned <= 0.05 else "  over the bar"
            told = f"AUC {auc.mean():.3f} ± {auc.std():.3f}  far {share:.1%}"
            yield f"n = {n:5,} p = {p:2}  warn {warned:6.1%}  {told}{bar}"


def known_ratios(runs: int) -> Iterator[str]:
    for rho in (0.3, 0.6, 0.9, 0.99):
        auc, share = truth(rho)
        for n in (300, 2000):
            rng = np.random.default_rng(n)
            found = []
            for _ in range(runs):
                X = np.column_stack([pair(rho, n, rng), rng.normal(size=(n, 3))])
                found.append(ReplacedRows("x", (0,), coded(X)).extrapolation)
            mean, far = np.mean([one.auc for one in found]), np.mean([one.share for one in found])
            bar = "" if n < 2000 or auc - 0.04 < mean < auc + 0.02 else "  off the bar"
            yield f"rho = {rho:4} n = {n:5,}  AUC {mean:.3f} (truth {auc:.3f})  far {far:.1%} (truth {share:.1%}){bar}"


def curved_ties() -> Iterator[str]:
    for name in CURVED:
        for n in (300, 2000):
            table = coded(curved(name, n, np.random.default_rng(0)))
            found = ReplacedRows("x", (0,), table).extrapolation
            bar = "" if found.warns or name.startswith("sine") else "  should warn"
            told = f"AUC {found.auc:.3f}  far {found.share:.1%}  tied to {', '.join(found.ties)}"
            yield f"{name:27} n = {n:5,}  {told}{bar}"


def costs() -> Iterator[str]:
    for n, p in ((100, 10), (1000, 13), (10_000, 13), (10_000, 200)):
        table = np.random.default_rng(0).normal(size=(n, p))
        start = time.perf_counter()
        real = coded(table)
        ready = time.perf_counter()
        _ = real.scores
        scored = time.perf_counter()
        for j in range(5):
            _ = ReplacedRows("x", (j,), real).extrapolation
        each = (time.perf_counter() - scored) / 5
        told = f"codes {1e3 * (ready - start):.2f} ms, scores {1e3 * (scored - ready):.0f} ms, then {1e3 * each:.0f} ms"
        yield f"n = {n:6,} p = {p:3}  {told} a feature{'' if each < 0.2 else '  over the bar'}"


def main(runs: int = 120) -> None:
    parts = (
        ("independent columns", false_alarms(runs)),
        ("Gaussian pairs, with three columns of noise", known_ratios(max(3, runs // 12))),
        ("curved ties (of waves nothing is promised)", curved_ties()),
        ("cost", costs()),
    )
    for title, lines in parts:
        print(f"\n{title}", flush=True)
        for line in lines:
            print(f"  {line}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    main(30 if parser.parse_args().quick else 120)
