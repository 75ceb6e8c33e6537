"""The arrows between the rooms, and the weight of the front door."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def run(code, *arguments):
    # A process of its own: this one has imported everything, and import-linter changes sys.path and logging.
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )


def test_import_contracts_hold():
    code = "from importlinter.cli import lint_imports_command as run; run()"
    # No cache: parallel workers and `make test` would write to the same one.
    result = run(code, "--config", str(ROOT / "pyproject.toml"), "--no-cache", "--no-logo")
    assert result.returncode == 0, result.stdout + result.stderr


def test_import_stays_light():
    heavy = {"matplotlib", "sklearn", "pandas", "polars", "rich"}
    result = run("import sys, losslens; print(*sys.modules)")
    assert result.returncode == 0, result.stderr
    imported = set(result.stdout.split())
    assert "losslens" in imported
    assert not heavy & imported
