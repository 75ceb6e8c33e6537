"""What a large page holds: as much as fits, the most important first, with the rounding that it states."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import losslens as ll
from losslens.page import sizes
from losslens.page.packing import Box
from losslens.page.page import packed


def test_all_cells_or_a_form_of_them_or_of_some_features() -> None:
    assert sizes.held(300, 4, 1, 300 * 300 * 4) == sizes.Held(all_cells=True, rank=8, curves=4)
    assert sizes.held(5000, 12, 1, 10**9) == sizes.Held(all_cells=False, rank=8, curves=12)
    assert sizes.held(5000, 30, 1, 10**9) == sizes.Held(all_cells=False, rank=4, curves=30)
    large = sizes.held(5000, 200, 1, 10**9)
    assert (large.rank, large.curves) == (4, 16)
    assert sizes.held(5000, 200, 3, 10**9).curves == 16  # the least
    assert [large.bins(place) for place in (15, 16)] == [128, 64]
    assert sizes.held(300, 4, 1, 1).bins(0) is None


def model(X: Any) -> Any:
    return 2 * X[:, 0] * X[:, 1] + np.sin(X[:, 2]) + 0.2 * X[:, 3]


@pytest.fixture(scope="module")
def both() -> tuple[Any, Any, Any]:
    """The same report as a small page, and as one that has to save."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 5))
    ask: dict[str, Any] = {"loss": "squared_error", "shapley": False, "interactions": False, "random_state": 0}
    y = model(X) + rng.normal(size=150)
    with pytest.MonkeyPatch.context() as patch:
        small = ll.report(model, X, y, **ask).summary
        for name, value in (("MOST_CELLS", 0), ("LARGE", 100), ("BUDGET", 0), ("LEAST", 2 * 150 * 11)):
            patch.setattr(sizes, name, value)
        return small, ll.report(model, X, y, **ask).summary, X


def test_a_large_page_has_single_curves_of_leading_features_only(both: Any) -> None:
    small, large, _ = both
    assert [feature["name"] for feature in large["features"]] == [feature["name"] for feature in small["features"]]
    for place, (feature, full) in enumerate(zip(large["features"], small["features"], strict=True)):
        entry = feature["models"][0]
        assert (entry["cells"] is None) == (entry["ice"] is None) == (feature["own"] is None) == (place >= 2)
        assert entry["pfi"] == full["models"][0]["pfi"]
        assert len(entry["pi"]) == len(feature["labels"]) == (128 if place < 2 else 64)


def test_its_numbers_are_off_by_no_more_than_it_says(both: Any) -> None:
    small, large, _ = both
    step, sentence = large["rounded"]["step"], large["rounded"]["sentence"]
    unit = max(small["models"][0]["error"], small["features"][0]["models"][0]["pfi"])
    assert 0.4e-4 * unit < step <= 1e-4 * unit
    assert f"off by {step / 2:.1g} at most" in sentence
    exact = {feature["column"] for feature in large["features"][:2]}
    exact |= {one["column"] for found in large["segments"]["segments"] for one in found["conditions"]}
    assert f"{5 - len(exact)} column" in sentence
    for feature, full in zip(large["features"], small["features"], strict=True):
        off = np.abs(feature["models"][0]["local"] - full["models"][0]["local"])
        assert off.max() <= step / 2 * (1 + 1e-9)
    for column, full in zip(large["table"]["columns"], small["table"]["columns"], strict=True):
        off = np.abs(column["values"] - full["values"]).max()
        assert off == 0 if column["name"] in exact else 0 < off <= np.ptp(full["values"]) / 400
    tree = packed(large, box := Box())
    assert tree["features"][0]["models"][0]["local"]["$"][3]["scale"] == step
    assert len(box.base64()) < 0.6 * len(packing(small))


def packing(summary: Any) -> str:
    packed(summary, box := Box())
    return box.base64()


def test_the_page_says_what_is_rounded_and_which_curves_it_has(opened: Any, both: Any) -> None:
    from browser import set_range, value

    _, large, X = both
    page = opened(large)
    assert "numbers of rows are rounded" in page.locator("#holds").inner_text()
    leading = large["features"][0]["column"]
    set_range(page, leading, "0.5", "9")
    group = X[:, int(leading[1:])] >= 0.5
    for place in (0, 3):
        page.locator(f'button.feature[data-feature="{place}"]').click()
        local = large["features"][place]["models"][0]["local"]
        assert value(page, "pfi-given") == pytest.approx(local[group].mean(), rel=1e-9)
    assert "curves of single rows for the 2 most important features only" in page.locator("#no-curves").inner_text()
    assert "at most" in page.locator("#feature-numbers").inner_text()
