"""What must work where losslens is installed without any extra: make wheel runs this outside the tree.

A plain script, without pytest: nothing but the library and what it depends on is there.
"""

import os
import subprocess
import sys
import tempfile
from importlib.metadata import files
from importlib.util import find_spec
from pathlib import Path

import losslens as ll

HEAVY = {"bokeh", "matplotlib", "numba", "rich", "scipy"} & set(sys.modules)
assert not HEAVY, f"import losslens has loaded {HEAVY}"

import numpy as np  # noqa: E402  after the look at what losslens itself loads

from losslens.datasets import load_bikeshare  # noqa: E402

SCRIPT = Path(sys.executable).with_name("losslens.exe" if sys.platform == "win32" else "losslens")
EXTRAS = ("pandas", "polars", "pyarrow", "sklearn", "torch")
DATA = {".css", ".csv", ".gz", ".html", ".js", ".md", ".typed"}


def told(*arguments: str, code: int = 0) -> str:
    """What the command line prints, on either stream."""
    done = subprocess.run([SCRIPT, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def check_place() -> None:
    """The library comes from the environment, all of its files are there, and no extra is."""
    assert Path(ll.__file__).is_relative_to(sys.prefix), f"losslens comes from {ll.__file__}"
    assert [name for name in EXTRAS if find_spec(name)] == []
    installed = files("losslens") or []
    assert [str(path) for path in installed if not Path(str(path.locate())).exists()] == []
    kinds = {path.suffix for path in installed if path.parts[0] == "losslens"} - {".py", ".pyc"}
    assert kinds == DATA, kinds


def check_numbers() -> None:
    """A function of an array: (x0 - x0')^2 has the mean 2 var(x0) over all pairs of rows; it does not use x1."""
    X = np.random.default_rng(0).normal(size=(100, 2))
    imp = ll.feature_importance(lambda X: X[:, 0], X, X[:, 0] + 1, loss="squared_error", donors="all")
    assert np.allclose([one.pfi for one in imp.values()], [2 * X[:, 0].var(), 0])
    assert "squared error" in str(imp)
    imp.plot().figure.savefig("ranking.png")
    imp.save("saved.losslens")
    assert np.array_equal(ll.load("saved.losslens")["x0"].local, imp["x0"].local)


def check_report() -> None:
    """One page, with the scripts and the sections that the package carries."""
    X = np.random.default_rng(0).normal(size=(60, 3))
    y = X[:, 0] * X[:, 1]
    ll.report(lambda X: X[:, 0] * X[:, 1] + X[:, 2] / 9, X, y, loss="squared_error", random_state=0).save("page.html")
    page = Path("page.html").read_text(encoding="utf-8")
    assert page.lstrip().lower().startswith("<!doctype html>")
    assert "What does this model need" in page


def check_commands() -> None:
    """The script is there, and says what an extra would add."""
    assert "importance" in told("--help")
    assert told("--version").split()[-1] == ll.__version__
    assert 'pip install "losslens[demo]"' in told("demo", code=2)
    said = ""
    try:
        load_bikeshare()
    except ImportError as error:
        said = str(error)
    assert 'pip install "losslens[demo]"' in said


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.environ["MPLBACKEND"] = "agg"
        os.chdir(folder)
        for check in (check_place, check_numbers, check_report, check_commands):
            check()
            print(f"{check.__name__[6:]}: fine", flush=True)
        os.chdir(Path(folder).anchor)  # Windows removes no folder that a process is in
