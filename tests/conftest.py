import gc
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# Each pytest worker has a core of its own: models that start a thread per core would fight over them.
# Set before NumPy and the estimator libraries load, or they don't see it.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MPLBACKEND", "Agg")  # no window, no display needed

# A shell starts jobs in the background with Ctrl-C ignored, and so would be that of the tests.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

import pytest
from hypothesis import HealthCheck, settings

# No deadline, no complaint about slow data: how fast a busy machine is says nothing about the code.
# On CI the same examples every time: new ones are for developers, who can act on what they find.
settings.register_profile(
    "losslens",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
    derandomize=bool(os.environ.get("CI")),
)
settings.load_profile("losslens")


# Files that take longest, before all others: one of them at the end would leave a worker alone with it.
FIRST = [
    "page/test_odd_summaries",
    "page/test_page",
    "page/test_controls",
    "page/test_accessibility",
    "page/test_intervals",
    "page/test_findings",
    "test_cluster",
    "cli/test_commands",
    "page/test_report",
    "page/test_charts",
    "engines/test_exact_engines",
    "plots/test_shapley",
    "plots/test_every_plot",
    "test_readme",
    "test_gallery",
    "plots/test_names_and_axes",
    "test_identities",
    "passes/test_within_memory",
    "passes/parts/test_same_numbers",
    "donors/test_samplers",
    "plots/test_feature",
    "uncertainty/test_standard_errors",
    "shapley/test_walks",
    "verbs/test_plan",
]


# Modules and collected tests stay to the end: the garbage collector need not look at them again and again.
def pytest_collectstart() -> None:
    gc.disable()


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    places = {here / f"{name}.py": place for place, name in enumerate(FIRST)}
    items.sort(key=lambda item: places.get(item.path, len(FIRST)))


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """A browser, for the tests of the report."""
    from browser import started

    with started() as running:
        yield running


@pytest.fixture(scope="session")
def tab(chromium: Any) -> Iterator[Any]:
    """One tab for all tests that need no other."""
    from browser import USUAL

    context = chromium.new_context(**USUAL)
    yield context.new_page()
    context.close()


@pytest.fixture
def opened(chromium: Any, tab: Any, tmp_path: Path) -> Iterator[Any]:
    """Opens pages; what they complained about fails the test."""
    from browser import Reader

    reader = Reader(chromium, tmp_path, tab)
    yield reader.open
    reader.close()
