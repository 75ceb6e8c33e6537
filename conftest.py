"""For all tests, those in docstrings among them."""

import sys
from collections.abc import Generator
from importlib.util import find_spec
from typing import Any

import pytest

from deprecations import deprecated_uses_of_ours_raise

# Whose examples need what is not everywhere: their newest releases want newer dependencies than the library does.
collect_ignore = [f"src/losslens/{name}.py" for name in ("mlflow", "skore") if find_spec(name) is None]


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, Any, Any]:
    """What modules do when they are imported, too."""
    with deprecated_uses_of_ours_raise():
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Generator[None, Any, Any]:
    """Each test, with its fixtures."""
    with deprecated_uses_of_ours_raise():
        return (yield)


@pytest.fixture(autouse=True)
def _no_figure_stays_open():
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")
