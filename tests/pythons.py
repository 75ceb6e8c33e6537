"""The tests on every Python of this machine, each with the newest releases it gets: make pythons.

Looked for on the path and in pyenv; of several patch releases the newest. Each has an environment of its own, such as
.venv-3.13. Options are passed on to pytest. One table at the end; an exit status other than 0 if anything failed.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

ROOT = Path(__file__).parents[1]
MINORS = ("3.11", "3.12", "3.13", "3.14")
SHOWN = (
    "numpy",
    "scipy",
    "pandas",
    "polars",
    "scikit-learn",
    "numba",
    "xgboost-cpu",
    "lightgbm",
    "matplotlib",
    "bokeh",
)
WINDOWS = os.name == "nt"
# Version, whether it is the usual build of CPython, and its path: that of a shim of pyenv is not where Python is.
ASK_PYTHON = """
import json, platform, sys, sysconfig
usual = platform.python_implementation() == "CPython" and not sysconfig.get_config_var("Py_GIL_DISABLED")
print(json.dumps([list(sys.version_info), usual, getattr(sys, "_base_executable", sys.executable)]))
"""
ASK_RELEASES = f"""
import json
from importlib.metadata import distributions
found = {{one.metadata["Name"].lower(): one.version for one in distributions()}}
print(json.dumps([found.get(name, "") for name in {SHOWN!r}]))
"""


@dataclass(frozen=True)
class Interpreter:
    """A Python of this machine."""

    version: tuple[int | str, ...]  # as sys.version_info, whose levels alpha, beta, candidate, final are in order
    path: str

    @property
    def minor(self) -> str:
        """Such as 3.13."""
        return f"{self.version[0]}.{self.version[1]}"

    @property
    def release(self) -> str:
        """Such as 3.13.1, or 3.14.0rc2."""
        level = (
            "" if self.version[3] == "final" else f"{str(self.version[3]).replace('candidate', 'rc')}{self.version[4]}"
        )
        return ".".join(map(str, self.version[:3])) + level


def candidates() -> Iterator[Path]:
    """Files that may be a Python: this one, those on the path, those of pyenv."""
    yield Path(sys.executable)
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        yield from (Path(folder) / f"python{minor}{'.exe' if WINDOWS else ''}" for minor in MINORS)
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / ("pyenv-win" if WINDOWS else "") / "versions"
    yield from sorted(pyenv.glob("*/python.exe" if WINDOWS else "*/bin/python"))


def look_at(path: Path) -> Interpreter | None:
    """The Python behind a file, or None: a shim of pyenv without a version, a build without the GIL, no CPython."""
    if not path.is_file():
        return None
    try:
        said = subprocess.run([path, "-I", "-c", ASK_PYTHON], capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    version, usual, executable = json.loads(said.stdout)
    return Interpreter(tuple(version), executable) if usual else None


def newest(found: Iterable[Interpreter]) -> list[Interpreter]:
    """One of each supported minor version, the newest patch release, in order."""
    best: dict[str, Interpreter] = {}
    for one in found:
        if one.minor in MINORS and (one.minor not in best or one.version > best[one.minor].version):
            best[one.minor] = one
    return [best[minor] for minor in MINORS if minor in best]


def run(*command: object, **variables: str) -> int:
    """The exit status of a command, without what leads Python elsewhere."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return subprocess.run([str(part) for part in command], cwd=ROOT, env=clean | variables, check=False).returncode


def tried(one: Interpreter, options: list[str]) -> tuple[list[str], bool]:
    """A line of the table for a Python, and whether all is well."""
    folder = ROOT / f".venv-{one.minor}"
    python = folder / ("Scripts/python.exe" if WINDOWS else "bin/python")
    print(f"\nPython {one.release}: {one.path}, in {folder.name}", flush=True)
    if not python.is_file() and run(one.path, "-m", "venv", folder):
        return [one.release, *[""] * len(SHOWN), "no environment", "", "", ""], False
    pip = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile")
    if run(python, *pip, "--upgrade", "--upgrade-strategy", "eager", "--editable", ".[suite,places]"):
        return [one.release, *[""] * len(SHOWN), "not installed", "", "", ""], False
    asked = subprocess.run([python, "-I", "-c", ASK_RELEASES], capture_output=True, text=True, check=True)
    with tempfile.TemporaryDirectory() as outside:
        report, start = Path(outside) / "tests.xml", time.monotonic()
        status = run(
            python, "-m", "pytest", "-q", f"--junitxml={report}", *options, NUMBA_CACHE_DIR=str(folder / "numba")
        )
        seconds = f"{time.monotonic() - start:.0f}"
        passed, failed, skipped = counts(report.read_text("utf-8")) if report.is_file() else (0, 0, 0)
    return [one.release, *json.loads(asked.stdout), str(passed), str(failed), str(skipped), seconds], status == 0


def counts(xml: str) -> tuple[int, int, int]:
    """Tests that passed, failed or broke off, and were skipped, of a report in JUnit's format."""
    suites = list(ET.fromstring(xml).iter("testsuite"))
    every, failures, errors, skipped = (
        sum(int(suite.get(name, 0)) for suite in suites) for name in ("tests", "failures", "errors", "skipped")
    )
    return every - failures - errors - skipped, failures + errors, skipped


def table(lines: list[list[str]]) -> str:
    """Columns under their titles."""
    every = [["python", *SHOWN, "passed", "failed", "skipped", "seconds"], *lines]
    widths = [max(map(len, column)) for column in zip(*every, strict=True)]
    return "\n".join("  ".join(map(str.rjust, line, widths)) for line in every)


def main(options: list[str]) -> int:
    """Try them all, one after another: each takes every core."""
    found = newest(one for path in candidates() if (one := look_at(path)))
    if not found:
        print(f"no Python of {', '.join(MINORS)} on the path or in pyenv")
        return 1
    results = [tried(one, options) for one in found]
    print("\n" + table([line for line, _ in results]))
    return 0 if all(well for _, well in results) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
