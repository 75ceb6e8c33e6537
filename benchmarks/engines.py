"""Exact engines against their named peers, as ratios measured in one run on the same fitted model.

One thread on both sides, interleaved, medians of three rounds after a warm-up. About 9 minutes on two quiet cores;
`--quick` takes one round, `--only 1,3,7` some lines, `--large` adds a million rows.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import log10
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks import peers
from benchmarks.peers import ENGINE, bound_to, explain, fitted, interleaved, permute, rows, seconds

ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")

# line, model, rows fitted on and rows explained, features, bar, repeats of scikit-learn that are timed (of 5)
PERMUTED = (
    (1, "forest", 1_000, 13, 8, 5),
    (1, "forest", 10_000, 13, 6, 5),
    (2, "boosting", 1_000, 13, 16, 5),
    (2, "boosting", 10_000, 13, 22, 5),
    (3, "LightGBM", 10_000, 13, 20, 5),
    (3, "XGBoost", 10_000, 13, 5, 5),
    (4, "forest", 2_000, 200, 50, 1),
    (4, "boosting", 2_000, 200, 50, 1),
    (9, "SVR", 1_000, 13, 2.5, 5),
)


@dataclass(frozen=True)
class Row:
    """One line of the table; a bar of None is none."""

    work: str
    against: str
    value: float
    unit: str
    bar: float | None
    note: str
    at_least: bool = True

    def __str__(self) -> str:
        bar, verdict = "", "info"
        if self.bar is not None:
            bar = f"(bar {'' if self.at_least else '<= '}{self.bar:g})"
            good = self.value >= self.bar if self.at_least else self.value <= self.bar
            verdict = "pass" if good else "MISS"
        found = f"{_short(self.value)} {self.unit}"
        return f"{self.work:44}{self.against:34}{found:>9} {bar:14}{verdict:6}{self.note}"


def _short(value: float) -> str:
    """Two digits at least: 1,234 or 57 or 9.3 or 0.84."""
    return f"{value:,.0f}" if abs(value) >= 10 else f"{value:.1f}" if abs(value) >= 2 else f"{value:.2f}"


def permutations(line: int, rounds: int) -> Iterator[Row]:
    """All features against scikit-learn's permutations."""
    for _, name, n, p, bar, repeats in (case for case in PERMUTED if case[0] == line):
        model, (_, _, X, y) = fitted(name, n, p), rows(n, n, p)
        explain(model, X, y, ENGINE[name])
        permute(model, X[:100], y[:100], 1)
        found = interleaved(
            lambda m=model, X=X, y=y, e=ENGINE[name]: explain(m, X, y, e),
            lambda m=model, X=X, y=y, r=repeats: permute(m, X, y, r),
            rounds,
            5 / repeats,
        )
        note = found.note + ("" if repeats == 5 else f" (5 x {repeats} repeat)")
        against = "permutation_importance, 5 repeats"
        yield Row(f"exact, {name}, n = {n:,}, p = {p}", against, found.ratio, "x", bar, note)


def curves(rounds: int, n: int = 1_000, values: int = 50) -> Iterator[Row]:
    """Full ICI matrices against scikit-learn's ICE curves."""
    model, (_, _, X, y) = fitted("forest", n), rows(n, n)

    def ours() -> None:
        for feature in explain(model, X, y, "trees").values():
            assert feature.ici.shape == (n, n)

    ours()
    peers.individual_curves(model, X, 2)
    found = interleaved(ours, lambda: peers.individual_curves(model, X, values), rounds, X.shape[1] * len(X) / values)
    note = f"{found.note} ({values} values of 1 feature, x {X.shape[1] * n // values})"
    yield Row(f"13 full ICI matrices, forest, n = {n:,}", "partial_dependence(individual)", found.ratio, "x", 400, note)


def growth(rounds: int, n: int = 10_000) -> Iterator[Row]:
    """The exponent from 10^4 to 10^5 rows."""
    for name in ("forest", "boosting"):
        model, (_, _, X, y) = fitted(name, n), rows(n, 10 * n)
        explain(model, X[:100], y[:100], "trees")
        found = interleaved(
            lambda m=model, X=X, y=y: explain(m, X[:n], y[:n], "trees"),
            lambda m=model, X=X, y=y: explain(m, X, y, "trees"),
            rounds,
        )
        work = f"growth, {name}, n = 10^4 to 10^5"
        yield Row(work, "itself: log10 of the ratio", log10(found.ratio), "", 1.05, found.note, at_least=False)


def additive(rounds: int, n: int = 1_000_000, p: int = 50) -> Iterator[Row]:
    """A linear model against one bare predict."""
    X_fit, y_fit, X, y = rows(10_000, n, p)
    model = peers.unfitted("linear").fit(X_fit, y_fit)
    model.predict(X)
    explain(model, X, y, "additive")
    found = interleaved(lambda: explain(model, X, y, "additive"), lambda: model.predict(X), rounds)
    work = f"exact, linear, n = {n:,}, p = {p}"
    yield Row(work, "one predict: its time, times", 1 / found.ratio, "x", 4, found.note, at_least=False)


def coalition(rounds: int, n: int = 10_000, some: int = 1_000_000) -> Iterator[Row]:
    """The error of one coalition over all pairs against predicting them."""
    from losslens.engines.trees.coalitions import CoalitionErrors

    model, (_, _, X, y) = fitted("boosting", n), rows(n, n)
    bound, kept = bound_to(model, X, y), np.arange(0, X.shape[1], 2)
    CoalitionErrors(bound, y, np.ones(n)).error(kept)
    prepared = seconds(lambda: CoalitionErrors(bound, y, np.ones(n)))
    errors, many = CoalitionErrors(bound, y, np.ones(n)), np.tile(X, (some // n, 1))
    found = interleaved(lambda: errors.error(kept), lambda: model.predict(many), rounds, n * n / some)
    note = f"{found.note} (10^6 rows, x {n * n // some}); + {prepared:.2g} s for all coalitions"
    work = f"GE_S, boosting, {len(bound.value):,} leaves, n = {n:,}"
    yield Row(work, f"predicting {n * n:.0e} pairs".replace("e+0", "0^"), found.ratio, "x", 1_000, note)


def threads(rounds: int, n: int = 10_000) -> Iterator[Row]:
    """Two threads against one."""
    for name in ("forest", "boosting"):
        model, (_, _, X, y) = fitted(name, n), rows(n, n)
        explain(model, X[:1000], y[:1000], "trees", 2)
        found = interleaved(
            lambda m=model, X=X, y=y: explain(m, X, y, "trees", 2),
            lambda m=model, X=X, y=y: explain(m, X, y, "trees", 1),
            rounds,
        )
        note = f"{found.note} (means something on two idle cores alone)"
        yield Row(f"n_jobs=2, {name}, n = {n:,}", "n_jobs=1", found.ratio, "x", 1.8, note)


def first_minute(rounds: int) -> Iterator[Row]:
    """What compiling and loading add to the first tree call of a process."""
    cold, warm = [], []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            cold.append(peers.in_process("first", NUMBA_CACHE_DIR=folder))
            warm.append(peers.in_process("first", NUMBA_CACHE_DIR=folder))
    for work, found, bar in (("compiling, empty cache", cold, 8), ("loading, compiled before", warm, 1)):
        extra, more = (median(one.get(key, np.inf) for one in found) for key in ("extra", "coalitions"))
        note = found[0].get("failed") or f"+ {more:.2g} s before a first coalition"
        yield Row(work, "first tree call - second", extra, "s", bar, note, at_least=False)
    with tempfile.TemporaryDirectory() as folder:
        found = peers.in_process("first", **peers.copy_without_cache(Path(folder)))
        works = found.get("package", "").startswith(folder)
    note = f"works; {found['extra']:.2g} s in every process" if works else f"fails: {found}"
    yield Row("no folder to keep a cache in", "works (1) or fails (0)", float(works), "", 1, note)


def a_million(_: int) -> Iterator[Row]:
    """A million rows in a process of its own; information, no bar."""
    found = peers.in_process("large")
    note = found.get("failed") or f"peak {found['peak'] / 2**20:.0f} MiB above the data's {found['data'] / 2**20:.0f}"
    yield Row("exact, boosting, n = 1,000,000, p = 13", "memory='1 GiB'", found.get("seconds", np.nan), "s", None, note)


def accuracy(n: int = 60) -> None:
    """Print how far exact numbers are from means over all pairs of the model's own predictions."""
    gaps = {}
    for name, engine in ENGINE.items():
        model, (_, _, X, y) = fitted(name, 1_000), rows(1_000, n)
        base = float(np.mean(np.square(y - model.predict(X))))
        truth = np.array([peers.replaced(model, X, y, [j]) - base for j in range(X.shape[1])])
        found = np.array([feature.pfi for feature in explain(model, X, y, engine).values()])
        gaps[name] = np.abs(found - truth).max() / truth.max()
    gaps["GE_S of boosting"] = _coalition_gap(n)
    slack = {"XGBoost": 1e-5}  # which adds up in float32
    verdict = "pass" if all(gap <= slack.get(name, 1e-9) for name, gap in gaps.items()) else "MISS"
    shown = ", ".join(f"{name} {gap:.0e}" for name, gap in gaps.items())
    print(f"largest difference from brute force over all pairs, n = {n}, relative: {verdict}\n  {shown}")


def _coalition_gap(n: int) -> float:
    from losslens.engines.trees.coalitions import CoalitionErrors

    model, (_, _, X, y) = fitted("boosting", 1_000), rows(1_000, n)
    kept, lent = list(range(0, X.shape[1], 2)), list(range(1, X.shape[1], 2))
    truth = peers.replaced(model, X, y, lent)
    return abs(CoalitionErrors(bound_to(model, X, y), y, np.ones(n)).error(kept) - truth) / truth


def _permuted(line: int) -> Callable[[int], Iterator[Row]]:
    return lambda rounds: permutations(line, rounds)


LINES: dict[int, Callable[[int], Iterator[Row]]] = {
    **{line: _permuted(line) for line in (1, 2, 3, 4)},
    5: curves,
    6: growth,
    7: additive,
    8: coalition,
    9: _permuted(9),
    10: threads,
    11: first_minute,
    12: a_million,
}


def _asked() -> Any:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.engines", description=__doc__)
    parser.add_argument("--only", default="", help="numbers of lines, such as 1,3,7")
    parser.add_argument("--quick", action="store_true", help="one round")
    parser.add_argument("--large", action="store_true", help="a million rows, too (line 12)")
    asked = parser.parse_args()
    chosen = {int(word) for word in asked.only.split(",") if word}
    if not chosen <= set(LINES):
        parser.error(f"--only takes numbers from 1 to {max(LINES)}")
    asked.lines = chosen or {line for line in LINES if line != 12 or asked.large}
    return asked


def main() -> None:
    """Print the table, from a process that has had one thread from its beginning."""
    asked = _asked()
    if any(os.environ.get(key) != value for key, value in ONE_THREAD.items()):
        command = [sys.executable, "-m", "benchmarks.engines", *sys.argv[1:]]
        subprocess.run(command, env=os.environ | ONE_THREAD, check=True)
        return
    warnings.simplefilter("ignore")
    rounds = 1 if asked.quick else 3
    print(f"all lines take about 9 minutes on two quiet cores; rounds: {rounds}; x: how many times faster, or as said")
    accuracy()
    print(f"{'':4}{'work':44}{'against':34}{'measured':>9} {'':14}{'':6}seconds, ours against theirs", flush=True)
    for line in sorted(asked.lines):
        try:
            for row in LINES[line](rounds):
                print(f"{line:>2}  {row}", flush=True)
        except peers.OtherEngineError as error:  # the other lines are still worth knowing
            print(f"{line:>2}  MISS: {error}", flush=True)


if __name__ == "__main__":
    main()
