"""Run tests against mutants, in a copy of the working tree: fork, import the changed module, stop at the first failure."""

from __future__ import annotations

import ast
import hashlib
import importlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.mutants.reach import blocks, is_compiled, stretches
from tests.mutants.sample import Mutant

REPOSITORY = Path(__file__).parents[2]
CACHE = REPOSITORY / ".cache" / "mutants"
TREE = CACHE / "tree"  # the copy in which mutants live
REACH = CACHE / "reach"
LONGEST = 40.0  # seconds of tests run against a mutant, fastest first
FIRST = 8.0  # seconds of tests of the module's own, before all others
SLOW_START = 30.0  # seconds that imports and a busy machine may take
COMPILING = 120.0  # more for mutants in compiled functions
LIBRARIES = (
    "hypothesis", "numpy", "scipy.stats", "pandas", "polars", "sklearn.ensemble", "sklearn.linear_model", "sklearn.svm",
    "sklearn.pipeline", "sklearn.neural_network", "numba", "matplotlib.pyplot", "xgboost", "lightgbm", "narwhals",
    "joblib", "rich", "bokeh", "jinja2", "pyarrow.parquet",
)  # fmt: skip
# Whole programs, pictures, a browser, other libraries: slow, and what they say of a number is said by others.
LEFT_OUT = (
    "tests/cli/", "tests/test_cluster", "tests/test_gallery", "tests/test_peers", "tests/test_readme",
    "tests/test_rooms", "tests/test_workers", "tests/page/test_odd", "tests/page/test_page", "tests/plots/test_every",
    "tests/plots/test_images", "tests/plots/test_names", "tests/plots/test_notebook", "tests/plots/test_shapley",
    "tests/verbs/test_plan", "tests/engines/test_gpu", "tests/results/test_walls", "tests/fuzz", "src/losslens/cli",
)  # fmt: skip
_OPTIONS = ["-n0", "-x", "-q", "-p", "no:cacheprovider", "--no-header", "--tb=no", "-o", "addopts=--doctest-modules"]
_OPTIONS = [*_OPTIONS, "--import-mode=importlib", "--mpl", "--ignore-glob=*/engines/gpu/*"]


def copy_tree(*, with_source: bool) -> None:
    """Bring the copy up to date with the working tree; files that have not changed keep their date."""
    with_source = with_source or not TREE.exists()
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=REPOSITORY, capture_output=True, text=True, check=True
    ).stdout.split("\n")
    wanted = {name for name in listed if (REPOSITORY / name).is_file()}
    wanted = {name for name in wanted if with_source or name.startswith("tests/")}
    for folder in ("src", "tests") if with_source else ("tests",):
        for old in (TREE / folder).rglob("*.py"):
            if str(old.relative_to(TREE)) not in wanted:
                old.unlink()
    for name in wanted:
        source, target = REPOSITORY / name, TREE / name
        if not target.exists() or source.read_bytes() != target.read_bytes():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)


def _environment() -> dict[str, str]:
    path = os.pathsep.join([str(TREE / "src"), str(TREE)])
    return {
        **os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "MPLBACKEND": "Agg", "CI": "1",
        "PYTHONDONTWRITEBYTECODE": "1", "NUMBA_CACHE_DIR": str(CACHE / "numba"),
    }  # fmt: skip


@dataclass(eq=False)
class Reach:
    """For each place "path:line" the tests that come there, and how long each takes."""

    seconds: dict[str, float] = field(default_factory=dict)
    places: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    def add(self, found: dict[str, Any]) -> None:
        tests = found["tests"]
        self.seconds |= dict(zip(tests, found["seconds"], strict=True))
        for place, numbers in found["places"].items():
            self.places[place] |= {tests[number] for number in numbers}


def find_reach() -> Reach:
    """Run the tests that have changed since they were last run here, and all of them where the source has."""
    source = hashlib.sha256(b"".join(path.read_bytes() for path in sorted((TREE / "src").rglob("*.py")))).hexdigest()
    known = REACH / source[:16]
    known.mkdir(parents=True, exist_ok=True)
    files = [*(TREE / "tests").rglob("test_*.py"), *(TREE / "src").rglob("*.py")]
    names = [str(path.relative_to(TREE)) for path in sorted(files)]
    names = [name for name in names if not name.startswith(LEFT_OUT) and "/gpu/" not in name]
    stamp = {
        name: known / (hashlib.sha256(name.encode() + (TREE / name).read_bytes()).hexdigest()[:24] + ".json")
        for name in names
    }
    missing = [name for name in names if not stamp[name].exists()]
    if missing:
        fresh = known / "fresh"
        shutil.rmtree(fresh, ignore_errors=True)
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "tests.mutants.reach",
            "-p",
            "no:cacheprovider",
            "-n2",
            *missing,
        ]
        subprocess.run(command, cwd=TREE, env={**_environment(), "LOSSLENS_REACH": str(fresh)}, check=False)
        split_by_file(
            [json.loads(part.read_text()) for part in fresh.glob("*.json")], {name: stamp[name] for name in missing}
        )
    reach = Reach()
    for name in names:
        reach.add(json.loads(stamp[name].read_text()))
    return reach


def split_by_file(found: list[dict[str, Any]], stamp: dict[str, Path]) -> None:
    """Keep what was found test file by test file: then only changed files need another run."""
    parts: dict[str, dict[str, Any]] = {
        name: {"tests": [], "seconds": [], "places": defaultdict(list)} for name in stamp
    }
    for one in found:
        position = []
        for test, seconds in zip(one["tests"], one["seconds"], strict=True):
            part = parts.get(test.split("::")[0])
            position.append((part, len(part["tests"]) if part else 0))
            if part:
                part["tests"].append(test)
                part["seconds"].append(seconds)
        for place, numbers in one["places"].items():
            for number in numbers:
                part, at = position[number]
                if part:
                    part["places"][place].append(at)
    for name, part in parts.items():
        stamp[name].write_text(json.dumps(part))


class Selection:
    """Which tests to run against a mutant."""

    def __init__(self, reach: Reach, source: Path) -> None:
        self.reach, self.starts, self.uses = reach, defaultdict(list), defaultdict(set)
        calls: dict[str, set[str]] = defaultdict(set)
        trees = {str(path.relative_to(source)): ast.parse(path.read_text()) for path in sorted(source.rglob("*.py"))}
        names = {node.name for tree in trees.values() for node in ast.walk(tree) if is_compiled(node)}
        for path, tree in trees.items():
            for block in blocks(tree):
                for stretch in stretches(block):
                    place = f"{path}:{stretch[0].lineno}"
                    self.starts[path].append((stretch[0].lineno, max(each.end_lineno or 0 for each in stretch), place))
                    for name in _named(stretch) & names:
                        self.uses[name].add(place)
            for node in ast.walk(tree):
                if is_compiled(node):
                    for name in _named([node]) & names - {node.name}:
                        calls[name].add(node.name)
        for name in names:  # and through compiled functions that call it
            seen, queue = {name}, [name]
            while queue:
                for caller in calls[queue.pop()] - seen:
                    seen.add(caller)
                    queue.append(caller)
            self.uses[name] = set().union(*(self.uses[each] for each in seen))

    def tests(self, mutant: Mutant) -> list[str]:
        """Fastest first, the module's own before others, up to a number of seconds."""
        if mutant.compiled:
            places = self.uses[mutant.compiled]
        else:
            around = [each for each in self.starts[mutant.path] if each[0] <= mutant.line <= each[1]]
            inner = max(around, default=None)
            places = {inner[2]} if inner else {place for _, _, place in self.starts[mutant.path]}
        found = set().union(*(self.reach.places.get(place, set()) for place in places))
        return self._ordered(found, mutant.path)

    def _ordered(self, tests: set[str], path: str) -> list[str]:
        own = f"test_{Path(path).stem}.py", f"src/losslens/{path}"
        chosen: dict[str, None] = {}
        spent = 0.0
        for limit, mine in ((FIRST, True), (LONGEST, False)):
            for test in sorted(tests, key=lambda each: (self.reach.seconds[each], each)):
                is_own = test.split("::")[0].endswith(own)
                seconds = self.reach.seconds[test] + 0.01
                if (mine and not is_own) or test in chosen or spent + seconds > limit:
                    continue
                chosen[test] = None
                spent += seconds
        return list(chosen)


def _named(nodes: list[Any]) -> set[str]:
    return {each.id for node in nodes for each in ast.walk(node) if isinstance(each, ast.Name)} | {
        each.attr for node in nodes for each in ast.walk(node) if isinstance(each, ast.Attribute)
    }


@dataclass(frozen=True)
class Verdict:
    """What became of a mutant: killed, timeout, survived or not covered."""

    mutant: Mutant
    outcome: str
    killer: str = ""
    tests: int = 0
    seconds: float = 0.0


def warm_up() -> None:
    """Import what is slow to import, once; the package itself never, so that each fork imports the mutant."""
    os.environ.update(_environment())
    for name in LIBRARIES:
        importlib.import_module(name)
    if "losslens" in sys.modules:
        raise RuntimeError("losslens is imported already: mutants would not be")


def judge(mutant: Mutant, selection: Selection) -> Verdict:
    """Put the mutant into the copy, run its tests, put the original back."""
    tests = selection.tests(mutant)
    if not tests:
        return Verdict(mutant, "not covered")
    path = TREE / "src" / "losslens" / mutant.path
    original = path.read_bytes()
    limit = SLOW_START + 4 * sum(selection.reach.seconds[test] for test in tests)
    is_compiled_module = b"compiled(" in original
    start = time.monotonic()
    try:
        path.write_text(mutant.text)
        cache = _cache_without(mutant) if is_compiled_module else CACHE / "numba"
        outcome, killer = _run(tests, limit + COMPILING * is_compiled_module, cache)
    finally:
        path.write_bytes(original)
        if is_compiled_module:
            shutil.rmtree(CACHE / "numba-mutant", ignore_errors=True)
    return Verdict(mutant, outcome, killer, len(tests), time.monotonic() - start)


def _cache_without(mutant: Mutant) -> Path:
    """A copy of numba's cache without the mutant's module and those that import it: they are compiled again."""
    sources = {path.stem: path.read_text() for path in (TREE / "src/losslens/engines").rglob("*.py")}
    stale, stem = {Path(mutant.path).stem}, ""
    while stem is not None:
        more = (
            name
            for name, text in sources.items()
            if name not in stale and any(f".{old} import" in text for old in stale)
        )
        stem = next(more, None)
        stale |= {stem} - {None}
    target = CACHE / "numba-mutant"
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    if (CACHE / "numba").exists():
        shutil.copytree(
            CACHE / "numba", target, dirs_exist_ok=True,
            ignore=lambda _, names: [name for name in names if name.split(".")[0] in stale],
        )  # fmt: skip
    return target


def _run(tests: list[str], limit: float, cache: Path) -> tuple[str, str]:
    told = CACHE / "killer"
    told.unlink(missing_ok=True)
    child = os.fork()
    if child == 0:
        _be_child(tests, told, cache)
    end = time.monotonic() + limit
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            code = os.waitstatus_to_exitcode(status)
            if code == 0:
                return "survived", ""
            if told.exists() or code < 0:  # a signal: the mutant crashed
                return "killed", told.read_text() if told.exists() else f"signal {-code}"
            raise RuntimeError(f"pytest ended with {code}:\n{(CACHE / 'output').read_text()[-2000:]}")
        time.sleep(0.02)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return "timeout", ""


def _be_child(tests: list[str], told: Path, cache: Path) -> None:
    import numba

    code = 99
    try:
        os.setsid()
        quiet = os.open(CACHE / "output", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        os.chdir(TREE)
        sys.path[:0] = [str(TREE / "src"), str(TREE)]
        sys.dont_write_bytecode = True
        os.environ["NUMBA_CACHE_DIR"] = numba.config.CACHE_DIR = str(cache)
        code = int(pytest.main([*_OPTIONS, *tests], plugins=[_Tell(told)]))
        if code == 5:  # nothing collected
            code = 99
    finally:
        os._exit(code)


class _Tell:
    """Notes which test failed, or which file could not be imported."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed and not self.path.exists():
            self.path.write_text(f"import of {report.nodeid}")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self.path.exists():
            self.path.write_text(report.nodeid)


def fail_anyway(tests: list[str]) -> list[str]:
    """Those of these tests that fail without any mutant, run in the same way."""
    return [test for test in tests if _run([test], SLOW_START * 10, CACHE / "numba")[0] != "survived"]
