"""The wheel holds every file of the package and nothing else; `make wheel` installs it and tries it."""

import zipfile
from contextlib import chdir, redirect_stdout
from io import StringIO
from pathlib import Path

import pytest
from hatchling import build

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "losslens"
# Folders with files that are no modules, and the kinds of these; hatchling leaves out what .gitignore names.
DATA = {".": {".typed"}, "data": {".csv", ".gz", ".md"}, "page": {".css", ".html", ".js", ".md"}}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    with chdir(ROOT), redirect_stdout(StringIO()):
        name = build.build_wheel(str(folder))
    with zipfile.ZipFile(folder / name) as opened:
        return {Path(path) for path in opened.namelist()}


def test_the_wheel_holds_the_files_of_the_package(wheel):
    """Neither compiled modules nor kernels, and nothing that .gitignore hides by accident."""
    files = {path.relative_to(PACKAGE.parent) for path in PACKAGE.rglob("*") if path.is_file()}
    assert {path for path in wheel if path.parts[0] == "losslens"} == {
        path for path in files if "__pycache__" not in path.parts
    }


def test_files_that_are_no_modules_are_of_known_kinds(wheel):
    found = {}
    for path in wheel:
        if path.parts[0] == "losslens" and path.suffix != ".py":
            found.setdefault(path.parts[1] if len(path.parts) > 2 else ".", set()).add(path.suffix)
    assert found == DATA


def test_beside_the_package_the_wheel_holds_its_metadata_alone(wheel):
    beside = [path for path in wheel if path.parts[0] != "losslens"]
    assert {path.parts[0].partition("-")[0] for path in beside} == {"losslens"}
    assert {path.name for path in beside} == {"METADATA", "WHEEL", "RECORD", "entry_points.txt", "LICENSE"}
