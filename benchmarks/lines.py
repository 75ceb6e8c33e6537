"""One line of a benchmark: the work, the peer it is measured against, what came out, its bar, and whether it is met.

Each benchmark of speed yields such lines; `python -m benchmarks` gathers them in one table, `run` prints those of one.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import isnan, nan

ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


@dataclass(frozen=True)
class Line:
    """A bar of None is none; `low`: the other end of a range; `missing`: in a word, why nothing was measured here."""

    work: str
    peer: str
    value: float = nan
    bar: float | None = None
    note: str = ""
    unit: str = ""  # x: how many times as fast, or as said
    at_least: bool = False
    low: float | None = None
    missing: str = ""

    @property
    def measured(self) -> str:
        """The value with its unit."""
        return "" if isnan(self.value) else f"{short(self.value)} {self.unit}".rstrip()

    @property
    def wanted(self) -> str:
        """The bar, with its direction."""
        if self.bar is None:
            return ""
        sign = ">= " if self.at_least else "<= " if self.low is None else f"{self.low:g} to "
        return f"{sign}{self.bar:g} {self.unit}".rstrip()

    @property
    def verdict(self) -> str:
        """pass, MISS, info without a bar, or what is missing."""
        if self.missing or self.bar is None:
            return self.missing or "info"
        good = self.value >= self.bar if self.at_least else self.value <= self.bar
        return "pass" if good and (self.low is None or self.value >= self.low) else "MISS"

    def __str__(self) -> str:
        return (
            f"{self.work:58} {self.peer:38}{self.measured:>10}  {self.wanted:12}{self.verdict:6}  {self.note}".rstrip()
        )


def short(value: float) -> str:
    """Two digits at least, and one after the point below 100: 1,234 or 57.3 or 9.3 or 0.84 or 1.2e-05."""
    if 0 < abs(value) < 0.01:
        return f"{value:.2g}"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 2 else f"{value:.2f}"


def markdown(lines: Iterable[Line]) -> str:
    """One table: of lines of a kind with the same peer and bar the worst, of how many, and how many miss it."""
    kinds: dict[tuple[str, ...], list[Line]] = {}
    for line in lines:
        kinds.setdefault((line.work.partition(",")[0], line.peer, line.wanted, line.missing), []).append(line)
    table = [("work", "peer", "ratio", "bar", "verdict"), ("---", "---", "---:", "---", "---")]
    for kind in kinds.values():
        worst = (min if kind[0].at_least else max)(kind, key=lambda line: line.value)
        misses = sum(line.verdict == "MISS" for line in kind)
        work = worst.work.removesuffix(" (the worst)") + (f" (the worst of {len(kind)})" if len(kind) > 1 else "")
        verdict = f"{misses} of {len(kind)} MISS" if misses and len(kind) > 1 else worst.verdict
        table.append((work, worst.peer, worst.measured, worst.wanted, verdict))
    return "\n".join(f"| {' | '.join(row)} |" for row in table)


def in_one_thread(module: str) -> None:
    """Go on in a process that has had one thread from its beginning; libraries read these variables when imported."""
    if any(os.environ.get(key) != value for key, value in ONE_THREAD.items()):
        command = [sys.executable, "-m", module, *sys.argv[1:]]
        sys.exit(subprocess.run(command, env=os.environ | ONE_THREAD, check=False).returncode)
    warnings.simplefilter("ignore")


def run(module: str, doc: str | None, parts: Mapping[int, Callable[[bool], Iterator[Line]]], usual: set[int]) -> None:
    """Print the lines that the command line asks for: `--only 1,3`, or the usual ones; `--quick`."""
    from joblib import parallel_config  # not needed for a line

    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=doc)
    parser.add_argument("--only", default="", help="numbers of parts, such as 1,3,7")
    parser.add_argument("--quick", action="store_true", help="one round, few seeds, and nothing that is long")
    parser.add_argument("--jobs", type=int, default=1, help="processes of simulations")
    asked = parser.parse_args()
    chosen = {int(word) for word in asked.only.split(",") if word} or usual
    if not chosen <= set(parts):
        parser.error(f"--only takes numbers from 1 to {max(parts)}")
    in_one_thread(module)
    with parallel_config(n_jobs=asked.jobs):
        for part in sorted(chosen):
            for line in parts[part](asked.quick):
                print(f"{part:>2}  {line}", flush=True)
