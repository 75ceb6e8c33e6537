"""Run tests against mutants: collect the tests once, then fork for each mutant, change the function, run its tests.

Nothing is written to the source. A function gets the code of the mutant in its place; a compiled one is compiled again
in the fork, with all compiled functions that call it, and without numba's cache on disk.
"""

from __future__ import annotations

import ast
import gc
import hashlib
import importlib
import inspect
import json
import os
import pickle
import re
import resource
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest
from tests.mutants.reach import blocks, is_compiled, stretches
from tests.mutants.sample import Mutant

REPOSITORY = Path(__file__).parents[2]
SOURCE = REPOSITORY / "src" / "losslens"
CACHE = REPOSITORY / ".cache" / "mutants"
FIRST = 3.0  # seconds of tests of the module's own, before all others
LONGEST = 6.0  # seconds of tests run against a mutant, fastest first
SLOW_TESTS = 60.0  # seconds for those that were stopped while it was found what they reach
PATIENCE = 10.0, 4.0  # a mutant has so many seconds, and so many times as long as its tests take without it
STUCK = 20.0  # times as long by the clock: on a busy machine that is no sign of an endless loop, but of a deadlock
ASLEEP = 4.0  # seconds without any use of the processor: it waits for a thread that a fork doesn't have
COMPILING = 100.0  # more for compiled functions
ABSENT = 98  # exit status of a fork in which nothing could be changed
# Whole programs, pictures, a browser, other libraries: slow, and what they say of a number is said by others.
LEFT_OUT = (
    "tests/cli/", "tests/test_cluster", "tests/test_gallery", "tests/test_peers", "tests/test_readme",
    "tests/test_rooms", "tests/test_workers", "tests/page/test_odd", "tests/page/test_page", "tests/plots/test_every",
    "tests/plots/test_images", "tests/plots/test_names", "tests/plots/test_notebook", "tests/plots/test_shapley",
    "tests/verbs/test_plan", "tests/engines/test_torch_modules", "tests/results/test_walls", "tests/fuzz",
    "src/losslens/cli",
)  # fmt: skip


def test_files() -> list[str]:
    """Files with tests or examples that may be run against mutants."""
    files = [*(REPOSITORY / "tests").rglob("test_*.py"), *SOURCE.rglob("*.py")]
    names = sorted(str(path.relative_to(REPOSITORY)) for path in files)
    return [name for name in names if not name.startswith(LEFT_OUT) and "/gpu/" not in name]


def _environment() -> dict[str, str]:
    path = os.pathsep.join([str(REPOSITORY / "src"), str(REPOSITORY)])
    return {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "MPLBACKEND": "Agg", "CI": "1"}


@dataclass(eq=False)
class Reach:
    """For each place "path:line" the tests that come there, and how long each takes."""

    seconds: dict[str, float] = field(default_factory=dict)
    places: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    def add(self, found: dict[str, Any]) -> None:
        """Add what the tests of a file reach."""
        tests = found["tests"]
        self.seconds |= dict(zip(tests, found["seconds"], strict=True))
        for place, numbers in found["places"].items():
            self.places[place] |= {tests[number] for number in numbers}


def find_reach() -> Reach:
    """Run the tests that have changed since they were last run here, and all of them where the source has."""
    source = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(SOURCE.rglob("*.py")))).hexdigest()
    known = CACHE / source[:16]
    known.mkdir(parents=True, exist_ok=True)
    stamp = {
        name: known / (hashlib.sha256(name.encode() + (REPOSITORY / name).read_bytes()).hexdigest()[:24] + ".json")
        for name in test_files()
    }
    missing = {name: path for name, path in stamp.items() if not path.exists()}
    if missing:
        fresh = known / "fresh"
        for old in fresh.glob("*.json"):
            old.unlink()
        plugins = ["-p", "tests.mutants.reach", "-p", "no:cacheprovider"]
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "--tb=no",
            *plugins,
            *(["-n0"] if len(missing) < 9 else []),
            *missing,
        ]
        subprocess.run(command, cwd=REPOSITORY, env=_environment() | {"LOSSLENS_REACH": str(fresh)}, check=False)
        keep_by_file([json.loads(part.read_text()) for part in fresh.glob("*.json")], missing)
    reach = Reach()
    for path in stamp.values():
        reach.add(json.loads(path.read_text()))
    return reach


def keep_by_file(found: list[dict[str, Any]], paths: dict[str, Path]) -> None:
    """Keep what was found test file by test file: then only changed files need another run."""
    parts: dict[str, Any] = {name: {"tests": [], "seconds": [], "places": defaultdict(list)} for name in paths}
    for one in found:
        position = []
        for test, seconds in zip(one["tests"], one["seconds"], strict=True):
            part = parts[test.split("::")[0]]
            position.append((part, len(part["tests"])))
            part["tests"].append(test)
            part["seconds"].append(seconds)
        for place, numbers in one["places"].items():
            for part, at in (position[number] for number in numbers):
                part["places"][place].append(at)
    for name, part in parts.items():
        paths[name].write_text(json.dumps(part))


class Selection:
    """Which tests to run against a mutant."""

    def __init__(self, reach: Reach, *, slow: bool) -> None:
        self.reach, self.slow = reach, slow
        self.starts: dict[str, list[tuple[int, int, str]]] = defaultdict(list)
        self.uses: dict[str, set[str]] = defaultdict(set)
        calls: dict[str, set[str]] = defaultdict(set)
        trees = {str(path.relative_to(SOURCE)): ast.parse(path.read_text()) for path in sorted(SOURCE.rglob("*.py"))}
        home: dict[str, set[str]] = defaultdict(set)  # modules of the compiled functions of a name
        for path, tree in trees.items():
            for node in ast.walk(tree):
                if is_compiled(node):
                    home[node.name].add(Path(path).stem)
        for path, tree in trees.items():
            text = (SOURCE / path).read_text()
            near = {Path(path).stem, *re.findall(r"\w+", text)}
            compiled = {name for name, stems in home.items() if stems & near}
            for stretch in (stretch for block in blocks(tree) for stretch in stretches(block)):
                place = f"{path}:{stretch[0].lineno}"
                self.starts[path].append((stretch[0].lineno, max(each.end_lineno or 0 for each in stretch), place))
                for name in _named(stretch) & compiled:
                    self.uses[name].add(place)
            for node in ast.walk(tree):
                if is_compiled(node):
                    for name in _named([node]) & compiled - {node.name}:
                        calls[name].add(node.name)
        self.callers = {name: _closure(name, calls) for name in home}
        self.uses = {name: set().union(*(self.uses[each] for each in self.callers[name])) for name in home}

    def tests(self, mutant: Mutant) -> list[str]:
        """Fastest first, the module's own before others, up to a number of seconds."""
        if mutant.compiled:
            places = self.uses[mutant.compiled]
        else:
            around = [each for each in self.starts[mutant.path] if each[0] <= mutant.line <= each[1]]
            inner = max(around, default=None)
            places = {inner[2]} if inner else {place for _, _, place in self.starts[mutant.path]}
        found = set().union(*(self.reach.places.get(place, set()) for place in places))
        own = f"/test_{Path(mutant.path).stem}.py", f"src/losslens/{mutant.path}"
        if mutant.compiled:  # its own tests may call it themselves
            found |= {test for test in self.reach.seconds if test.split("::")[0].endswith(own)}
        chosen: dict[str, None] = {}
        spent = 0.0
        for limit, only_own in ((FIRST, True), (LONGEST, False), (LONGEST + SLOW_TESTS * self.slow, False)):
            for test in sorted(found, key=lambda each: (self.reach.seconds[each], each)):
                seconds = min(self.reach.seconds[test], 1e9 if limit <= LONGEST else 10.0) + 0.01
                if (
                    test not in chosen
                    and spent + seconds <= limit
                    and (not only_own or test.split("::")[0].endswith(own))
                ):
                    chosen[test] = None
                    spent += seconds
        return list(chosen)


def _closure(name: str, calls: dict[str, set[str]]) -> list[str]:
    """The function and all that call it, callees first."""
    order: list[str] = []
    seen: set[str] = set()

    def visit(one: str) -> None:
        if one not in seen:  # a name may also be that of a variable: then the calls go round in circles
            seen.add(one)
            for caller in sorted(calls[one]):
                visit(caller)
            order.insert(0, one)

    visit(name)
    return order


def _named(nodes: list[Any]) -> set[str]:
    every = [each for node in nodes for each in ast.walk(node)]
    return {each.id for each in every if isinstance(each, ast.Name)} | {
        each.attr for each in every if isinstance(each, ast.Attribute)
    }


@dataclass(frozen=True)
class Verdict:
    """What became of a mutant: killed, timeout, survived, not covered or equivalent."""

    mutant: Mutant
    outcome: str
    killer: str = ""
    tests: int = 0
    seconds: float = 0.0


class Jury:
    """A pytest plugin: instead of running all tests, forks for each mutant and runs the tests that reach it."""

    def __init__(self, mutants: list[Mutant], selection: Selection, tell: Callable[[Verdict], None]) -> None:
        self.mutants, self.selection, self.tell = mutants, selection, tell
        self.items: dict[str, pytest.Item] = {}
        self.told = CACHE / f"killer-{os.getpid()}"
        self.began = CACHE / f"began-{os.getpid()}"
        self.wrong: list[str] = []  # tests that fail without any mutant

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Judge all mutants, then see that the tests that killed pass without them."""
        self.items = {item.nodeid: item for item in session.items if not _hangs_in_a_fork(item)}
        for mutant in self.mutants:  # some modules are imported when they are needed
            importlib.import_module(mutant.module)
        self.program = Program.now()
        gc.freeze()  # a fork that collects garbage would copy all memory
        killers = set()
        for mutant in self.mutants:
            verdict = self._judge(mutant)
            killers.add(verdict.killer)
            self.tell(verdict)
        for test in sorted(killers & self.items.keys()):
            if self._fork([test], 600.0, lambda: None)[0] != "survived":
                self.wrong.append(test)
        return True

    def _judge(self, mutant: Mutant) -> Verdict:
        start, chosen = time.monotonic(), self.selection.tests(mutant)
        tests = [test for test in chosen if test in self.items]
        if not chosen:
            return Verdict(mutant, "not covered")
        usual = sum(min(10.0, self.selection.reach.seconds[test]) for test in tests)
        limit = PATIENCE[0] + PATIENCE[1] * usual + COMPILING * bool(mutant.compiled)
        callers = self.selection.callers.get(mutant.compiled, [])
        outcome, killer = "survived", ""
        while tests:
            outcome, killer = self._fork(tests, limit, lambda: self.program.put(mutant, callers))
            if outcome not in ("timeout", "endless"):
                break
            last = self.began.read_text()
            if self._fork([last], PATIENCE[0] + COMPILING, lambda: None)[0] in ("survived", "killed"):
                # Alone, with the mutant, it uses up its time once more: it doesn't end.
                alone = self._fork([last], limit, lambda: self.program.put(mutant, callers))[0]
                outcome, killer = ("killed", f"{last} does not end") if alone == "endless" else ("timeout", "")
                break
            del self.items[last]  # hangs in a fork without any mutant, too: a library's threads are not there
            tests.remove(last)
        if outcome == "survived" and len(tests) < len(chosen):
            outcome, killer = self._afresh([test for test in chosen if test not in tests], mutant, callers, limit)
        return Verdict(mutant, outcome, killer, len(chosen), time.monotonic() - start)

    def _afresh(self, tests: list[str], mutant: Mutant, callers: list[str], limit: float) -> tuple[str, str]:
        """In a process of its own: slower, but it has all threads."""
        kept = CACHE / f"mutant-{os.getpid()}"
        kept.write_bytes(pickle.dumps((mutant, callers)))
        command = [sys.executable, "-m", "pytest", "-n0", "-qx", "--tb=no", "-p", "tests.mutants.afresh"]
        try:
            done = subprocess.run(
                [*command, "-p", "no:cacheprovider", *tests], cwd=REPOSITORY, capture_output=True, text=True,
                check=False, env=os.environ | {"LOSSLENS_MUTANT": str(kept)}, timeout=STUCK * limit,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return "timeout", ""
        finally:
            kept.unlink()
        last = next(
            (line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))), "a new process"
        )
        return ("survived", "") if done.returncode == 0 else ("killed", last)

    def _fork(self, tests: list[str], limit: float, change: Callable[[], None]) -> tuple[str, str]:
        self.told.unlink(missing_ok=True)
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            resource.setrlimit(resource.RLIMIT_CPU, (int(limit), int(limit) + 5))
            self._be_child(tests, change)
        end, worked = time.monotonic() + STUCK * limit, time.monotonic()
        used: list[str] = []  # of the processor, by the program and by the system
        while time.monotonic() < end and time.monotonic() < worked + ASLEEP:
            done, status = os.waitpid(child, os.WNOHANG)
            if done and os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXCPU:
                return "endless", ""
            if done:
                killer = self.told.read_text() if self.told.exists() else ""
                if os.WIFEXITED(status) and os.WEXITSTATUS(status) == ABSENT:
                    return "undecided", "nothing to change: the function is not loaded"
                return ("survived", "") if status == 0 else ("killed", killer or f"ended with status {status}")
            state = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
            if state[0] != "S" or state[11:13] != used:  # it runs, waits for a processor, or has used one
                worked, used = time.monotonic(), state[11:13]
            time.sleep(0.01)
        os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return "timeout", ""

    def _be_child(self, tests: list[str], change: Callable[[], None]) -> None:
        code = 99
        try:
            os.setpgid(0, 0)
            quiet = os.open(os.devnull, os.O_WRONLY)
            os.dup2(quiet, 1)
            os.dup2(quiet, 2)
            try:
                change()
            except LookupError:
                os._exit(ABSENT)
            except Exception as error:  # noqa: BLE001 - the compiler refuses it: no test could pass
                self.told.write_text(f"{type(error).__name__} when it was compiled")
                os._exit(1)
            for test, after in zip(tests, [*tests[1:], None], strict=True):
                self.began.write_text(test)
                item, following = self.items[test], None if after is None else self.items[after]
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            code = 0
        finally:
            os._exit(code)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """In the fork: the first failure ends it."""
        if report.failed:
            self.told.write_text(report.nodeid)
            os._exit(1)


def _hangs_in_a_fork(item: pytest.Item) -> bool:
    """Whether it uses polars, whose threads a fork doesn't have."""
    function = getattr(item, "function", None)
    text = str(getattr(item, "dtest", "")) if function is None else inspect.getsource(function)
    return "polars" in item.nodeid + text or "pl." in text


@dataclass(frozen=True, eq=False)
class Program:
    """What is loaded of the package: functions by file and qualified name; by name kernels and what they call."""

    functions: dict[tuple[str, str], list[FunctionType]]
    kernels: dict[str, list[Any]]
    dispatchers: dict[str, list[Any]]  # numba's

    @classmethod
    def now(cls) -> Program:
        """All that is loaded."""
        from numba.extending import is_jitted

        from losslens.engines.compiled import Kernel

        functions, kernels, dispatchers = defaultdict(list), defaultdict(list), defaultdict(list)
        for each in gc.get_objects():
            if type(each) is FunctionType and each.__code__.co_filename.startswith(str(SOURCE)):
                functions[each.__code__.co_filename, each.__code__.co_qualname].append(each)
            elif isinstance(each, Kernel):
                kernels[each.function.__name__].append(each)
            elif is_jitted(each) and not each.stats.cache_path:  # kernels have a cache
                dispatchers[each.py_func.__name__].append(each)
        return cls(functions, kernels, dispatchers)

    def put(self, mutant: Mutant, callers: list[str]) -> None:
        """Change the running program into the mutant."""
        module = importlib.import_module(mutant.module)
        path = str(module.__file__)
        changed = 0
        for code in _codes(compile(mutant.text, path, "exec")):
            name = code.co_qualname
            if mutant.function and (name == mutant.function or name.startswith(f"{mutant.function}.<locals>.")):
                for function in self.functions.get((path, name), []):
                    function.__code__ = code
                    changed += 1
        if mutant.constant:
            fresh, old = dict(vars(module)), getattr(module, mutant.constant)
            exec(compile(mutant.after, path, "exec"), fresh)
            for other in [each for name, each in sys.modules.items() if name.startswith("losslens")]:
                if vars(other).get(mutant.constant) is old:
                    setattr(other, mutant.constant, fresh[mutant.constant])
                    changed += 1
        if not changed:
            raise LookupError(f"nothing to change for {mutant.path}:{mutant.line}")
        if callers:
            from numba import njit

            for dispatcher in (each for name in callers for each in self.dispatchers[name]):
                dispatcher.recompile()
            for kernel in (each for name in callers for each in self.kernels[name]):
                kernel.dispatcher = njit(kernel.signature, **kernel.options)(kernel.function)


def _codes(code: CodeType) -> Iterator[CodeType]:
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield inner
            yield from _codes(inner)


def judge(mutants: list[Mutant], selection: Selection, tell: Callable[[Verdict], None]) -> list[str]:
    """Judge mutants; returns tests that killed some and fail without any, too."""
    jury = Jury(mutants, selection, tell)
    files = sorted({test.split("::")[0] for mutant in mutants for test in selection.tests(mutant)})
    os.environ.update(_environment())
    os.chdir(REPOSITORY)
    sys.path[:0] = [str(REPOSITORY / "src"), str(REPOSITORY)]
    pytest.main(["-n0", "-q", "--no-header", "--tb=no", "-p", "no:cacheprovider", "-s", *files], plugins=[jury])
    jury.told.unlink(missing_ok=True)
    jury.began.unlink(missing_ok=True)
    return jury.wrong
