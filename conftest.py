"""For all tests, those in docstrings among them."""

import sys
from collections.abc import Generator
from typing import Any

import pytest

from deprecations import deprecated_uses_of_ours_raise


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
