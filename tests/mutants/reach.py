"""Which tests execute which statements: a pytest plugin that marks the source while it is imported.

Every block of statements gets a call in front, and another after each compound statement, that notes that it was
reached. Compiled functions can't be marked: a compiled function is reached by the tests that reach a place which
names it. Seconds are of the processor: a busy machine makes no test slow. A test that takes more than a few is stopped
(what it reached until then counts) and kept for mutants that survive all others.
"""

from __future__ import annotations

import ast
import builtins
import json
import os
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from importlib.machinery import PathFinder, SourceFileLoader
from pathlib import Path
from typing import Any

import pytest

MARK = "__losslens_reached__"
SLOW = 2.5  # seconds after which a test is stopped
_COMPOUND = (ast.If, ast.For, ast.While, ast.Try, ast.With, ast.Match)


def is_compiled(node: ast.AST) -> bool:
    """Whether numba or triton compiles this function: then nothing may be added to it."""
    if not isinstance(node, ast.FunctionDef):
        return False
    return any(word in ast.unparse(each) for each in node.decorator_list for word in ("compiled(", "jit", "intrinsic"))


def blocks(tree: ast.AST) -> Iterator[list[ast.stmt]]:
    """Statement lists of Python functions, outer before inner; not those of modules, classes and compiled functions."""

    def inside(node: ast.AST, in_function: bool) -> Iterator[list[ast.stmt]]:
        if is_compiled(node):
            return
        in_function = in_function or isinstance(node, ast.FunctionDef)
        for _, value in ast.iter_fields(node):
            if not isinstance(value, list) or not value:
                continue
            is_code = isinstance(value[0], ast.stmt)
            if is_code and in_function and not isinstance(node, ast.ClassDef):
                yield value
            for child in value:
                if isinstance(child, ast.AST) and (is_code or isinstance(child, ast.ExceptHandler | ast.match_case)):
                    yield from inside(child, in_function)

    yield from inside(tree, in_function=False)


def stretches(block: list[ast.stmt]) -> Iterator[list[ast.stmt]]:
    """The block, cut after each compound statement, behind which the program need not come."""
    stretch: list[ast.stmt] = []
    for statement in block:
        stretch.append(statement)
        if isinstance(statement, _COMPOUND):
            yield stretch
            stretch = []
    if stretch:
        yield stretch


def marked(tree: ast.Module, path: str) -> ast.Module:
    """The module with a mark, "path:line", in front of every stretch."""
    for block in list(blocks(tree)):
        new: list[ast.stmt] = []
        for stretch in stretches(block):
            first = stretch[0]
            is_docstring = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
            mark = ast.parse(f"{MARK}({path + ':' + str(first.lineno)!r})").body[0]
            for node in ast.walk(mark):
                if hasattr(node, "lineno"):
                    ast.copy_location(node, first)
            new += [first, mark, *stretch[1:]] if is_docstring else [mark, *stretch]
        block[:] = new
    return ast.fix_missing_locations(tree)


class _Loader(SourceFileLoader):
    def get_code(self, fullname: str) -> Any:  # never the .pyc, which has no marks
        path = self.get_filename(fullname)
        place = path.split("/losslens/")[-1]
        return compile(marked(ast.parse(Path(path).read_bytes()), place), path, "exec")


class _Finder:
    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> Any:
        if name.split(".", maxsplit=1)[0] != "losslens" or ".gpu" in name:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _Loader(spec.loader.name, spec.loader.path)
        return spec


_now: set[str] = set()
_of_file: dict[str, set[str]] = defaultdict(set)
_of_fixture: dict[Any, set[str]] = {}
_of_test: dict[str, set[str]] = {}
_seconds: dict[str, float] = {}
_slow: set[str] = set()
_useless: set[str] = set()  # skipped, or failing without a mutant


def _swap(into: set[str]) -> set[str]:
    global _now
    before, _now = _now, into
    setattr(builtins, MARK, into.add)
    return before


_swap(set())
sys.meta_path.insert(0, _Finder())  # type: ignore[arg-type]


@pytest.hookimpl(hookwrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Iterator[None]:
    """What a test file executes while it is imported counts for all of its tests."""
    before = _swap(_of_file[str(collector.path)])
    yield
    _swap(before)


@pytest.hookimpl(hookwrapper=True)
def pytest_fixture_setup(fixturedef: Any) -> Iterator[None]:
    """What a shared fixture executes counts for all tests that ask for it."""
    if fixturedef.scope == "function":
        yield
        return
    before = _swap(_of_fixture.setdefault(fixturedef, set()))
    yield
    _swap(before)


class _TooSlow(BaseException):
    """Stops a test; no `except Exception` of a test or of the library holds it up."""


def _stop(*_: Any) -> None:
    raise _TooSlow


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    before, start = _swap(_of_test.setdefault(item.nodeid, set())), time.process_time()
    yield
    _seconds[item.nodeid] = time.process_time() - start
    _swap(before)
    reached = _of_test[item.nodeid]
    reached |= _of_file[str(item.path)]
    known = getattr(getattr(item, "_fixtureinfo", None), "name2fixturedefs", {})
    for name in getattr(item, "fixturenames", []):
        for fixture in known.get(name) or ():
            reached |= _of_fixture.get(fixture, set())


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    signal.signal(signal.SIGPROF, _stop)
    signal.setitimer(signal.ITIMER_PROF, SLOW)
    yield
    signal.setitimer(signal.ITIMER_PROF, 0)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    if call.excinfo is not None:
        (_slow if call.excinfo.errisinstance(_TooSlow) else _useless).add(item.nodeid)
    yield


def pytest_sessionfinish(session: pytest.Session) -> None:
    if not _of_test:
        return
    folder = Path(os.environ["LOSSLENS_REACH"])
    folder.mkdir(parents=True, exist_ok=True)
    tests = sorted(_of_test.keys() - _useless)
    places: dict[str, list[int]] = defaultdict(list)
    for number, test in enumerate(tests):
        for place in _of_test[test]:
            places[place].append(number)
    seconds = [1e9 if test in _slow else round(_seconds[test], 4) for test in tests]
    whole = {"tests": tests, "seconds": seconds, "places": places}
    (folder / f"reach-{os.getpid()}.json").write_text(json.dumps(whole))
