"""From an empty folder to the first picture: a new environment, pip install, and the README's example up to its plot.

python benchmarks/first_minute.py, with any Python that may install from an index; nothing else is needed. The example
runs twice: the first time nothing is compiled or cached. Processor seconds say more than seconds of the clock where the
machine has other work, or the index is slow; on Windows those of pip are not known.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
LAST = "imp['hr'].plot()"
# A statement of the example that contains the words ends the step.
STEPS = {
    "loading scikit-learn and losslens": "from losslens.datasets",
    "loading the data (pandas)": "train_test_split(X",
    "fitting the model": ".fit(",
    "the first explanation": "ll.feature_importance(",
    "printing it": "print(imp)",
    "the first picture, saved": LAST,
}


def example() -> list[str]:
    """The statements of the README up to its first picture."""
    (code,) = re.findall(r"^```python\n(.*?)^```$", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE | re.DOTALL)
    statements = [ast.unparse(node) for node in ast.parse(code).body]
    return statements[: statements.index(LAST) + 1]


def run_example() -> dict[str, tuple[float, float]]:
    """Wall and processor seconds of each step, in this process."""
    os.environ["MPLBACKEND"] = "agg"
    names: dict[str, Any] = {}
    spent: dict[str, tuple[float, float]] = {}
    steps = iter(STEPS.items())
    step, end = next(steps)
    started = time.perf_counter(), time.process_time()
    for statement in example():
        if statement == LAST:
            statement = f"{LAST}.figure.savefig('hr.png')"
        exec(statement, names)
        if end in statement:
            now = time.perf_counter(), time.process_time()
            spent[step] = now[0] - started[0], now[1] - started[1]
            started = now
            step, end = next(steps, ("", "\0"))
    assert list(spent) == list(STEPS), "the README's example has changed: mend STEPS"
    assert Path("hr.png").stat().st_size > 0
    return spent


def timed(*command: object, cwd: Path) -> tuple[float, float, str]:
    """Wall and processor seconds of a command, and what it printed."""
    before, started = os.times(), time.perf_counter()
    clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "NUMBA_CACHE_DIR")}
    done = subprocess.run(list(map(str, command)), cwd=cwd, env=clean, check=True, stdout=subprocess.PIPE, text=True)
    after = os.times()
    processor = after.children_user + after.children_system - before.children_user - before.children_system
    return time.perf_counter() - started, processor, done.stdout


def main() -> None:
    """Print a table of steps and seconds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--what", default=f"{ROOT}[demo]", help="what pip installs; default: this clone with its demo")
    parser.add_argument("--example", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.example:
        print(json.dumps(run_example()))
        return
    lines: list[tuple[str, tuple[float, float], tuple[float, float] | None]] = []
    with tempfile.TemporaryDirectory() as folder:
        outside = Path(folder)

        def say(what: str) -> None:
            print(f"{what} ...", file=sys.stderr, flush=True)

        say("creating an environment")
        before, started = os.times(), time.perf_counter()
        venv.create(outside / "env", with_pip=True)
        after = os.times()
        used = sum(after[:4]) - sum(before[:4])
        lines.append(("creating the environment", (time.perf_counter() - started, used), None))
        python = outside / "env" / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
        say("installing")
        pip = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check", asked.what)
        lines.append(("pip install, with the extra demo", timed(python, *pip, cwd=outside)[:2], None))
        runs = []
        for which in ("the first time", "again"):
            say(f"the README's example, {which}")
            runs.append(
                json.loads(timed(python, Path(__file__).resolve(), "--example", cwd=outside)[2].splitlines()[-1])
            )
        lines += [(step, tuple(runs[0][step]), tuple(runs[1][step])) for step in STEPS]
    print("| step | seconds | of a processor | again | of a processor |\n| --- | ---: | ---: | ---: | ---: |")
    for step, first, again in lines:
        print(
            f"| {step} | {first[0]:.1f} | {first[1]:.1f} | "
            + ("| |" if again is None else f"{again[0]:.1f} | {again[1]:.1f} |")
        )
    sums = [sum(line[1][i] for line in lines) for i in (0, 1)] + [
        sum(line[2][i] for line in lines if line[2]) for i in (0, 1)
    ]
    print("| **all** | " + " | ".join(f"**{total:.1f}**" for total in sums) + " |")
    print(f"\n{platform.system()}, {os.cpu_count()} cores, Python {platform.python_version()}")


if __name__ == "__main__":
    main()
