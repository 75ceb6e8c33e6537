"""The page in a real browser: what a reader does, and the numbers that are shown then.

Most pages here are of made-up summaries, whose numbers are known; two are of the library's own.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import losslens as ll
import summaries
from browser import Reader, as_opened, brush, members, set_donors, set_range, tick, unfold, value
from summaries import Made, made

Open = Callable[..., Any]


@pytest.fixture(scope="module")
def usual() -> Made:
    return made()


@pytest.fixture(scope="module")
def usual_page(chromium: Any, usual: Made, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    reader = Reader(chromium, tmp_path_factory.mktemp("usual"))
    yield reader.open(usual)
    reader.close()


@pytest.fixture
def page(usual_page: Any) -> Any:
    """The page of the usual summary as it is in the beginning, whatever the last test has done with it."""
    return as_opened(usual_page)


def brushed(page: Any, name: str) -> tuple[float, float]:
    words = page.locator("#subgroup-words").inner_text().replace("−", "-")
    found = re.search(rf"{name} from (\S+) to (\S+)\.(\s|$)", words)
    assert found, words
    return float(found[1]), float(found[2])


def curve(page: Any, kind: str, summary: Made, name: str) -> np.ndarray[Any, Any]:
    """The numbers of a curve as the table under the charts shows them."""
    if page.locator("#curve-numbers").get_attribute("open") is None:
        page.locator("#curve-numbers summary").click()
    g = len(summary.exact[name][0])
    page.locator(f'output[data-name="{kind}-{g - 1}"]').wait_for()
    shown = page.locator(f'output[data-name^="{kind}-"]').evaluate_all("all => all.map((one) => one.dataset.value)")
    return np.array([float(text) if text else np.nan for text in shown])


def test_opens_with_words_ranking_and_a_feature(page: Any, usual: Made) -> None:
    assert page.title() == "A made-up model"
    assert page.locator("h1").inner_text() == usual["words"]["question"]
    assert page.locator(".opening dd").all_inner_texts() == usual["words"]["opening"]
    for folded, key in (("#findings", "sentences"), (".careful", "careful")):
        sentence = page.get_by_text(usual["words"][key][0])
        assert not sentence.is_visible()
        page.locator(f"{folded} summary").click()
        assert sentence.is_visible()
    names = page.locator("button.feature").all_inner_texts()
    assert names == [feature["name"] for feature in usual["features"]]
    assert page.locator("#feature-name").inner_text() == names[0]
    assert value(page, "pfi-0-0") == usual["features"][0]["models"][0]["pfi"]
    assert value(page, "sfimp-1-0") == usual["features"][1]["models"][0]["sfimp"]
    assert page.locator("#chart-pi canvas").count()
    policy = page.locator('meta[http-equiv="Content-Security-Policy"]').get_attribute("content")
    script = next(part for part in policy.split(";") if "script-src" in part)
    assert "unsafe" not in script
    assert "default-src 'none'" in policy


def test_a_click_opens_a_feature(page: Any, usual: Made) -> None:
    page.locator("button.feature").nth(1).click()
    name = usual["features"][1]["name"]
    assert page.locator("#feature-name").inner_text() == name
    assert value(page, "pfi-all") == usual["features"][1]["models"][0]["pfi"]
    assert page.locator('button.feature[aria-pressed="true"]').all_inner_texts() == [name]


def test_a_feature_opens_by_keyboard(page: Any) -> None:
    page.locator("button.feature").nth(2).focus()
    page.keyboard.press("Enter")
    assert page.locator("#feature-name").inner_text() == page.locator("button.feature").nth(2).inner_text()
    assert page.evaluate("document.activeElement.id") == "feature-name"


def test_a_hovered_curve_shows_its_card(page: Any, usual: Made) -> None:
    page.locator("#chart-pi").scroll_into_view_if_needed()
    box = page.locator("#chart-pi").bounding_box()
    before = page.locator("#chart-pi").screenshot()
    page.mouse.move(box["x"] + 0.5 * box["width"], box["y"] + 0.9 * box["height"])
    page.mouse.move(box["x"] + 0.55 * box["width"], box["y"] + 0.85 * box["height"])
    page.locator('#card[data-row]:not([data-row=""])').wait_for()
    row = int(page.locator("#card").get_attribute("data-row"))
    assert page.locator("#card h3").inner_text() == f"Row {usual['table']['index'][row]}"
    assert np.isclose(value(page, "card-local"), usual["features"][0]["models"][0]["local"][row], rtol=1e-6)
    assert page.locator("#chart-pi").screenshot() != before
    page.mouse.move(5, 5)
    page.locator('#card[data-row=""]').wait_for()


def test_influential_rows_are_a_click_away(page: Any, usual: Made) -> None:
    local = usual["features"][0]["models"][0]["local"]
    for where, row in (("#most", local.argmax()), ("#least", local.argmin())):
        page.locator(f"{where} button").first.click()
        assert int(page.locator("#card").get_attribute("data-row")) == row


def test_a_brushed_subgroup_has_the_numbers_of_its_definition(opened: Open) -> None:
    """Whole cells, weighted rows: PFI and PI of both conditionals to six digits."""
    summary = made(weighted=True)
    page = opened(summary)
    name = summary["features"][0]["name"]
    brush(page, "#chart-pi-rows", 0.3, 0.7)
    low, high = brushed(page, name)
    values = next(c["values"] for c in summary["table"]["columns"] if c["name"] == name)
    rows = np.flatnonzero((values >= low) & (values <= high))
    assert 20 < len(rows) < summary["n"] - 20
    assert members(page) == len(rows)
    for place, feature in enumerate(summary["features"]):
        page.locator(f'button.feature[data-feature="{place}"]').click()
        given, subset = (of(summary, feature["name"], rows) for of in (summaries.given, summaries.subset))
        np.testing.assert_allclose(value(page, "pfi-given"), given[0], rtol=1e-6)
        np.testing.assert_allclose(value(page, "pfi-subset"), subset[0], rtol=1e-6)
        for donors, (pfi, pi) in (("subset", subset), ("given", given)):
            set_donors(page, donors)
            np.testing.assert_allclose(value(page, f"pfi-{place}-0"), pfi, rtol=1e-6)
            np.testing.assert_allclose(curve(page, "PI", summary, feature["name"]), pi, rtol=1e-6, atol=1e-6)


def test_low_rank_cells_stay_within_the_stated_error(opened: Open) -> None:
    summary = made(whole=False)
    page = opened(summary)
    set_range(page, "b", "-0.5", "1.25")
    values = summary["table"]["columns"][1]["values"]
    rows = np.flatnonzero((values >= -0.5) & (values <= 1.25))
    assert members(page) == len(rows)
    name = summary["features"][0]["name"]
    given, subset = summaries.given(summary, name, rows), summaries.subset(summary, name, rows)
    np.testing.assert_allclose(value(page, "pfi-given"), given[0], rtol=1e-6)
    stated = float(page.locator('output[data-name="pfi-subset"]').get_attribute("data-error"))
    assert stated == summary["features"][0]["models"][0]["cells"]["error"]
    assert abs(value(page, "pfi-subset") - subset[0]) <= stated
    assert np.abs(curve(page, "PI", summary, name) - given[1]).max() <= float(
        page.locator("#note-pi").get_attribute("data-error")
    )
    assert "±" in page.locator(".tile", has=page.locator('output[data-name="pfi-subset"]')).inner_text()
    assert "approximated" in page.locator("#note-pi").inner_text()


@pytest.mark.parametrize("whole", [True, False])
def test_a_report_shows_the_numbers_of_its_results(opened: Open, monkeypatch: pytest.MonkeyPatch, whole: bool) -> None:
    """`given` to six digits always; PI and `subset` to six digits with whole cells, else within the error it states."""
    if not whole:
        monkeypatch.setattr(importlib.import_module("losslens.page.sizes"), "MOST_CELLS", 0)
    rng = np.random.default_rng(3)
    X = rng.normal(size=(200, 3)).round(1)
    y = 2 * X[:, 0] + X[:, 1] * X[:, 2] + rng.normal(size=200)
    asked = {"loss": "squared_error", "random_state": 0}

    def model(X: Any) -> Any:
        return 2 * np.asarray(X)[:, 0] + np.sin(np.asarray(X)[:, 1]) * np.asarray(X)[:, 2]

    page = opened(ll.report(model, X, y, shapley=False, **asked).summary)
    names = page.locator("button.feature").all_inner_texts()
    set_range(page, names[1], "-0.5", "0.8")
    rows = (X[:, int(re.sub(r"\D", "", names[1]))] >= -0.5) & (X[:, int(re.sub(r"\D", "", names[1]))] <= 0.8)
    assert members(page) == rows.sum()
    found = ll.feature_importance(model, X, y, donors=ll.All(), **asked)
    for place, name in enumerate(names):
        page.locator(f'button.feature[data-feature="{place}"]').click()
        np.testing.assert_allclose(value(page, "pfi-given"), found[name].given(rows).pfi, rtol=1e-6)
        subset = page.locator('output[data-name="pfi-subset"]')
        stated = float(subset.get_attribute("data-error") or 0)
        assert (stated == 0) == whole
        np.testing.assert_allclose(value(page, "pfi-subset"), found[name].subset(rows).pfi, rtol=1e-6, atol=stated)


@pytest.mark.parametrize("whole", [True, False])
def test_pd_of_a_small_subgroup_is_the_librarys(opened: Open, monkeypatch: pytest.MonkeyPatch, whole: bool) -> None:
    """58 of 400 rows in which the effect has another sign than in all: within the error that the page states, which
    is small beside the curve."""
    if not whole:
        monkeypatch.setattr(importlib.import_module("losslens.page.sizes"), "MOST_CELLS", 0)
    rng = np.random.default_rng(4)
    X = np.column_stack([rng.integers(0, 20, 400) / 10, rng.permutation(400) / 100, rng.normal(size=400)])

    def model(X: Any) -> Any:
        A = np.asarray(X)
        return np.where(A[:, 1] < 0.58, -3.0, 1.0) * A[:, 0] + np.sin(A[:, 2]) + 0.1 * A[:, 0] * A[:, 2]

    summary = ll.report(model, X, model(X) + rng.normal(size=400), loss="squared_error", shapley=False).summary
    page = opened(summary)
    place = next(k for k, feature in enumerate(summary["features"]) if feature["name"] == "x0")
    page.locator(f'button.feature[data-feature="{place}"]').click()
    set_range(page, "x1", "0", "0.575")
    assert members(page) == 58
    page.locator("#curve-numbers summary").click()
    shown = page.locator('output[data-name^="PD-"]').evaluate_all("all => all.map((one) => Number(one.dataset.value))")
    truth = ll.feature_effect(model, X, features="x0", donors="all")["x0"].given(X[:, 1] < 0.58).pd
    stated = float(page.locator("#note-pd").get_attribute("data-error"))
    assert np.abs(np.array(shown) - truth).max() <= stated < 0.15 * np.ptp(truth)
    assert ("±" in page.locator("#note-pd").inner_text()) != whole


def test_conditions_are_combined_and_taken_away(page: Any, usual: Made) -> None:
    a, kinds = usual["table"]["columns"][0]["values"], np.array(usual["table"]["columns"][2]["values"])
    set_range(page, "a", "0", "9")
    tick(page, "c", "kind 2")
    assert members(page) == ((a >= 0) & (kinds == "kind 2")).sum()
    tick(page, "c", "kind 3")
    assert members(page) == ((a >= 0) & np.isin(kinds, ["kind 2", "kind 3"])).sum()
    unfold(page)
    page.locator("#chips button").first.click()
    assert members(page) == np.isin(kinds, ["kind 2", "kind 3"]).sum()
    page.locator("#clear").click()
    assert members(page) == usual["n"]
    assert value(page, "pfi-all") == usual["features"][0]["models"][0]["pfi"]


def test_a_condition_that_nobody_meets_is_said(page: Any) -> None:
    set_range(page, "a", "500", "600")
    assert "No row satisfies this" in page.locator("#subgroup-words").inner_text()


def test_rows_chosen_in_the_table_are_a_subgroup(page: Any, usual: Made) -> None:
    boxes = page.locator("#table-body input")
    for k in (0, 3, 7):
        boxes.nth(k).check()
    page.locator("#table-keep").click()
    assert members(page) == 3
    pfi = summaries.subset(usual, usual["features"][0]["name"], np.array([0, 3, 7]))[0]
    np.testing.assert_allclose(value(page, "pfi-subset"), pfi, rtol=1e-6, atol=1e-6)


def test_rows_of_curves_are_chosen_from_their_card(page: Any, usual: Made) -> None:
    page.locator("#most button").first.click()
    page.locator("#card button", has_text="Choose").click()
    assert page.locator("#table-keep").inner_text().startswith("Keep the")
    assert page.locator("#table-keep").is_enabled()


def test_the_table_sorts_filters_and_jumps(page: Any, usual: Made) -> None:
    loss = usual["table"]["models"][0]["loss"]
    page.locator('#table-head button[data-key="loss"]').click()
    assert page.locator('th[aria-sort="descending"]').inner_text().startswith("loss")
    shown = page.locator("#table-body button.row").all_inner_texts()
    assert [int(text) for text in shown[:5]] == list(usual["table"]["index"][np.argsort(-loss)[:5]])
    page.locator('#table-head button[data-key="loss"]').click()
    assert int(page.locator("#table-body button.row").first.inner_text()) == usual["table"]["index"][loss.argmin()]
    page.locator("#table-body tr").nth(2).click()
    assert int(page.locator("#card").get_attribute("data-row")) == np.argsort(loss)[2]
    page.locator("#table-filter").fill("kind 1")
    kinds = np.array(usual["table"]["columns"][2]["values"])
    assert page.locator("#table-where").inner_text().endswith(f" of {(kinds == 'kind 1').sum()}")
    page.locator("#table-on").click()
    assert page.locator("#table-where").inner_text().startswith("rows 51 ")


def test_themes(opened: Open) -> None:
    page = opened(made(n=60), color_scheme="dark")
    paper = "getComputedStyle(document.querySelector('section')).backgroundColor"
    dark, chart = page.evaluate(paper), page.locator("#chart-pi").screenshot()
    page.locator("#theme").click()
    assert page.evaluate(paper) != dark
    page.wait_for_timeout(200)
    assert page.locator("#chart-pi").screenshot() != chart
    page.reload()
    page.locator("html[data-ready]").wait_for()
    assert page.evaluate("document.documentElement.dataset.theme") == "light"  # remembered


def test_prints(opened: Open) -> None:
    page = opened(made(n=60), color_scheme="dark")
    pdf = page.pdf(format="A4")
    assert pdf.startswith(b"%PDF")
    assert len(pdf) > 10_000
    page.emulate_media(media="print")
    assert not page.locator("#observations").is_visible()
    assert not page.locator("#theme").is_visible()
    assert page.locator("#ranking").is_visible()
    assert page.locator("#feature").is_visible()
