"""Constraints for pip: every dependency of pyproject.toml at the oldest version that it allows (`make test-oldest`)."""

import sys
import tomllib
from pathlib import Path

from packaging.requirements import Requirement

PYPROJECT = Path(__file__).parents[1] / "pyproject.toml"


def constraints() -> list[str]:
    """`name==lower bound` of each requirement that has one; two bounds for one name would be two answers."""
    project = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["project"]
    lists = [project["dependencies"], *project["optional-dependencies"].values()]
    requirements = [Requirement(line) for lines in lists for line in lines]
    bounds = {
        requirement.name: specifier.version
        for requirement in requirements
        for specifier in requirement.specifier
        if specifier.operator == ">="
    }
    return [f"{name}=={version}" for name, version in sorted(bounds.items())]


if __name__ == "__main__":
    sys.stdout.write("\n".join(constraints()) + "\n")
