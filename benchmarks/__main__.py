"""All benchmarks of speed in one table: work, peer, ratio, bar, verdict.

One run of one process, in which libraries have one thread; lines about two threads say so. Under 20 minutes on two
quiet cores. `--only trees,shapley` takes some parts, `--quick` fewer rounds and sizes; `--write` puts the table into
docs/performance.md. What a result holds, rather than how long it takes, is simulated by `make coverage`.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from importlib.metadata import version
from pathlib import Path

from benchmarks import engines, first_call, overhead, results, shapley
from benchmarks.lines import Line, in_one_thread, markdown

PAGE = Path(__file__).parents[1] / "docs" / "performance.md"
BEGIN, END = "<!-- python -m benchmarks --write -->\n", "<!-- end -->\n"


def several(
    module: dict[int, Callable[[bool], Iterator[Line]]], numbers: tuple[int, ...], quick: bool
) -> Iterator[Line]:
    """Some parts of a benchmark."""
    for number in numbers:
        yield from module[number](quick)


def on_a_gpu(quick: bool) -> Iterator[Line]:
    """The lines of `benchmarks.gpu`, where there is one."""
    try:
        import torch
    except ModuleNotFoundError:
        yield Line("torch modules on a GPU", "", missing="needs torch")
        return
    if not torch.cuda.is_available():
        yield Line("torch modules on a GPU", "", missing="needs a GPU")
        return
    from benchmarks import gpu

    yield from gpu.lines(quick)


PARTS: dict[str, Callable[[bool], Iterator[Line]]] = {
    "trees": partial(several, engines.PARTS, (1, 2, 3)),
    "scores": engines.PARTS[14],
    "drop-in": engines.PARTS[15],
    "designs": engines.PARTS[16],
    "growth": lambda _: engines.ROUNDS[6](1),  # calls are long: one round is enough
    "additive": engines.PARTS[7],
    "cores": engines.PARTS[10],
    "overhead": overhead.lines,
    "results": results.lines,
    "shapley": partial(several, shapley.PARTS, (3, 9)),
    "first": first_call.lines,
    "gpu": on_a_gpu,
}


def machine() -> str:
    """Where and with what this was measured."""
    info = Path("/proc/cpuinfo")
    names = [line.partition(":")[2].strip() for line in info.read_text().splitlines() if line.startswith("model name")]
    libraries = ", ".join(f"{name} {version(name)}" for name in ("numpy", "numba", "scikit-learn"))
    chip = names[0] if names else platform.machine()
    return f"{chip}, {os.cpu_count()} cores; Python {platform.python_version()}, {libraries}"


def write(found: str) -> None:
    """Put a table between the marks of the page."""
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    PAGE.write_text(before + BEGIN + found + END + rest.partition(END)[2], encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--only", default=",".join(PARTS), help=f"some of {', '.join(PARTS)}")
    parser.add_argument("--quick", action="store_true", help="one round, and nothing that is long")
    parser.add_argument("--write", action="store_true", help="put the table into docs/performance.md")
    asked = parser.parse_args()
    chosen = asked.only.split(",")
    if not set(chosen) <= set(PARTS):
        parser.error(f"--only takes some of {', '.join(PARTS)}")
    in_one_thread("benchmarks")
    lines: list[Line] = []
    try:
        for name in chosen:
            started = time.perf_counter()
            for line in PARTS[name](asked.quick):
                lines.append(line)
                print(f"{name:9} {line}", file=sys.stderr, flush=True)
            print(f"{name:9} {time.perf_counter() - started:.0f} s", file=sys.stderr, flush=True)
    finally:  # what was measured is worth knowing, also when a part fails
        found = f"\n{machine()}.\n\n{markdown(lines)}\n\n"
        print(found)
    if asked.write:
        write(found)


if __name__ == "__main__":
    main()
