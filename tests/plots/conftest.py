from collections.abc import Iterator

import matplotlib as mpl
import pytest


@pytest.fixture(autouse=True)
def _style_unchanged() -> Iterator[None]:
    """No plot changes the user's style."""
    before = dict(mpl.rcParams)
    yield
    assert dict(mpl.rcParams) == before
