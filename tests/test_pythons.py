"""Which Pythons `make pythons` tries, and what its table says."""

import sys
from pathlib import Path

import pytest
from tests import pythons


def interpreter(*version):
    return pythons.Interpreter(version, f"python {version}")


def test_one_of_each_minor_version_is_tried_the_newest_patch_release():
    old, new, rc = (
        interpreter(3, 12, 1, "final", 0), interpreter(3, 12, 10, "final", 0), interpreter(3, 14, 0, "candidate", 2),
    )  # fmt: skip
    final = interpreter(3, 14, 0, "final", 0)
    others = [interpreter(3, 10, 9, "final", 0), interpreter(2, 7, 18, "final", 0)]
    assert pythons.newest([rc, *others, new, old]) == [new, rc]
    assert pythons.newest([final, old, rc]) == [old, final]
    assert [one.release for one in (new, rc, final)] == ["3.12.10", "3.14.0rc2", "3.14.0"]


def test_the_python_that_runs_is_among_them():
    here = pythons.look_at(Path(sys.executable))
    assert here.version == tuple(sys.version_info)
    assert Path(here.path).is_file()
    assert Path(sys.executable) in pythons.candidates()


@pytest.mark.skipif(sys.platform == "win32", reason="a script of the shell")
def test_a_shim_without_a_version_is_none(tmp_path):
    shim = tmp_path / "python3.12"
    shim.write_text("#!/bin/sh\necho 'pyenv: python3.12: command not found'\nexit 127\n")
    shim.chmod(0o755)
    assert pythons.look_at(shim) is None
    assert pythons.look_at(tmp_path / "python3.13") is None


def test_the_table_counts_what_pytest_reported():
    xml = '<testsuites><testsuite errors="1" failures="2" skipped="3" tests="10"/></testsuites>'
    assert pythons.counts(xml) == (4, 3, 3)
    shown = pythons.table([["3.12.10", *["1.0"] * len(pythons.SHOWN), "4", "3", "3", "60"]]).splitlines()
    assert len({len(line) for line in shown}) == 1
    assert shown[0].split() == ["python", *pythons.SHOWN, "passed", "failed", "skipped", "seconds"]
    assert shown[1].split()[0] == "3.12.10"
    assert shown[1].split()[-4:] == ["4", "3", "3", "60"]
