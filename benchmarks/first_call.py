"""What compiling adds to the first call of each verb: processor seconds of the first call less those of the second.

Every case runs in fresh processes: with an empty cache, then with the one that the first has filled. Fitted beforehand,
with one call of the model, so that the difference is ours. `--only` takes names of cases; about 3 minutes for all.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import losslens as ll
from benchmarks.lines import Line, in_one_thread
from benchmarks.peers import rows, unfitted

COMPILING, LOADING = 4.5, 0.5  # bars


def _importance(model: Any, X: Any, y: Any) -> Any:
    return ll.feature_importance(model, X, y, loss="squared_error", progress=False)


def _effect(model: Any, X: Any, y: Any) -> Any:
    return ll.shapley_effect(model, X, X, progress=False)


def _shapley(method: str) -> Callable[[Any, Any, Any], Any]:
    return lambda model, X, y: ll.shapley_importance(model, X, y, loss="squared_error", method=method, progress=False)


# name: model, features, verb
CASES: dict[str, tuple[str, int, Callable[[Any, Any, Any], Any]]] = {
    "importance": ("boosting", 13, _importance),
    "importance-forest": ("forest", 13, _importance),
    "importance-linear": ("linear", 13, _importance),
    "groups": (
        "boosting",
        13,
        lambda model, X, y: ll.feature_importance(model, X, y, features={"two": [0, 1]}, progress=False),
    ),
    "effect": ("boosting", 13, _effect),
    "effect-forest": ("forest", 13, _effect),
    "shapley-6": ("boosting", 6, _shapley("totals")),
    "shapley-20": ("boosting", 20, _shapley("totals")),
    "shapley-forest-20": ("forest", 20, _shapley("totals")),
    "shapley-rows-20": ("boosting", 20, _shapley("rows")),
}


def measure(name: str) -> dict[str, Any]:
    """The first call less the second, in this process."""
    kind, p, call = CASES[name]
    X_fit, y_fit, X, y = rows(500, 200, p)
    model = unfitted(kind).fit(X_fit, y_fit)
    model.predict(X)
    spent = []
    for _ in range(2):
        started = time.process_time()
        result = call(model, X, y)
        spent.append(time.process_time() - started)
    return {"extra": spent[0] - spent[1], "engine": str(getattr(result, "engine", "")), "package": ll.__file__}


def in_process(name: str, **environment: str) -> dict[str, Any]:
    """What a fresh process has measured."""
    command = [sys.executable, "-m", "benchmarks.first_call", "--measure", name]
    cached = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(command, env=cached | environment, capture_output=True, text=True, check=False)
    if done.returncode:
        return {"extra": np.inf, "engine": done.stderr.strip().rpartition("\n")[2]}
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def lines(quick: bool, names: tuple[str, ...] = tuple(CASES)) -> Iterator[Line]:
    """Two lines a case; quick: one round instead of the best of two."""
    for name in names:
        cold, warm = [], []
        for _ in range(1 if quick else 2):
            with tempfile.TemporaryDirectory() as folder:
                cold.append(in_process(name, NUMBA_CACHE_DIR=folder))
                warm.append(in_process(name, NUMBA_CACHE_DIR=folder))
        for work, found, bar in (("compiling", cold, COMPILING), ("loading", warm, LOADING)):
            best = min(found, key=lambda one: one["extra"])
            yield Line(f"{work}, {name}", "first call - second, CPU", best["extra"], bar, best["engine"], "s")
    with tempfile.TemporaryDirectory() as folder:
        found = in_process("importance", **copy_without_cache(Path(folder)))
        works = found.get("package", "").startswith(folder)
    note = f"works; {found['extra']:.2g} s in every process" if works else f"fails: {found}"
    yield Line("no folder to keep a cache in", "works (1) or fails (0)", float(works), 1, note, at_least=True)


def copy_without_cache(folder: Path) -> dict[str, str]:
    """A copy of the package that nothing can be cached beside, and the environment that leads there.

    Files stand where the folders would be made: that stops even root, whom permissions don't.
    """
    source = Path(ll.__file__).parent
    shutil.copytree(source, folder / source.name, ignore=shutil.ignore_patterns("__pycache__"))
    for place in [path.parent for path in folder.rglob("__init__.py")]:
        (place / "__pycache__").touch()
    (folder / "file").touch()
    nowhere = str(folder / "file" / "nowhere")
    return {
        "PYTHONPATH": str(folder),
        "NUMBA_CACHE_DIR": nowhere,
        "HOME": nowhere,
        "XDG_CACHE_HOME": nowhere,
        "MPLCONFIGDIR": str(folder),
    }


def main() -> None:
    """Print the lines that the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.first_call", description=__doc__)
    parser.add_argument("--only", default=",".join(CASES), help=f"some of {', '.join(CASES)}")
    parser.add_argument("--quick", action="store_true", help="one round")
    parser.add_argument("--measure", choices=tuple(CASES), help=argparse.SUPPRESS)
    asked = parser.parse_args()
    in_one_thread("benchmarks.first_call")
    if asked.measure:
        print(json.dumps(measure(asked.measure)))
        return
    for line in lines(asked.quick, tuple(asked.only.split(","))):
        print(line, flush=True)


if __name__ == "__main__":
    main()
