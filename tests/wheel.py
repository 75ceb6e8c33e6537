"""Build the sdist and the wheel, and try the wheel in a fresh environment outside the tree: make wheel.

The wheel is made from the sdist, as an index would. The environment holds what the library needs and no extra;
tests/smoke.py runs there. Needs nothing but Python and an index to install from.
"""

import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
PIP = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check")


def environment(folder: Path) -> Path:
    """The interpreter of a new environment."""
    venv.create(folder, with_pip=True)
    return folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def run(*command: object, cwd: Path) -> None:
    """A step that ends everything where it fails; without what could lead Python to the tree."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    subprocess.run([str(part) for part in command], cwd=cwd, env=clean, check=True)


def main() -> None:
    """Build, install, try."""
    for old in (*DIST.glob("losslens-*.tar.gz"), *DIST.glob("losslens-*.whl")):
        old.unlink()
    with tempfile.TemporaryDirectory() as folder:
        outside = Path(folder)
        print("building the sdist, and the wheel from it", flush=True)
        builder = environment(outside / "builder")
        run(builder, *PIP, "build", cwd=outside)
        run(builder, "-m", "build", "--outdir", DIST, ROOT, cwd=outside)
        (wheel,) = DIST.glob("losslens-*.whl")
        print(f"installing {wheel.name} without extras", flush=True)
        user = environment(outside / "user")
        run(user, *PIP, wheel, cwd=outside)
        run(user, "-m", "pip", "--disable-pip-version-check", "check", cwd=outside)
        run(user, ROOT / "tests" / "smoke.py", cwd=outside)


if __name__ == "__main__":
    sys.exit(main())
