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


def test_torch_is_never_imported_unasked():
    """Where nobody names a device and no model is torch's; and where somebody does, that it is missing is said."""
    code = """
import sys
import numpy as np
from sklearn.ensemble import GradientBoostingRegressor

class Forbidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "torch":
            raise ModuleNotFoundError("torch was imported")

sys.meta_path.insert(0, Forbidden())
import losslens as ll
X = np.random.default_rng(0).normal(size=(60, 3))
model = GradientBoostingRegressor(n_estimators=5).fit(X, X[:, 0] * X[:, 1])
for predict in (model, lambda X: X[:, 0]):
    options = {"loss": "squared_error", "progress": False}
    ll.feature_importance(predict, X, X[:, 0], **options)
    ll.feature_importance(predict, X, X[:, 0], features={"both": [0, 1]}, **options)
    ll.shapley_importance(predict, X, X[:, 0], **options)
    ll.plan(ll.shapley_importance, predict, X, X[:, 0], **options)
assert "torch" not in sys.modules
try:
    ll.shapley_importance(model, X, X[:, 0], device="cuda")
except ImportError as error:
    print(error)
"""
    result = run(code)
    assert result.returncode == 0, result.stderr
    assert "device='cuda' needs torch" in result.stdout
