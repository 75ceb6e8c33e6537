"""The controls of the page in a real browser: bar, boxes and ranges, the address, files of tables, long names."""

from __future__ import annotations

import csv
import io
import json
import urllib.parse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from browser import Reader, as_opened, members, set_donors, set_range, tick, unfold, value
from summaries import Made, made, with_findings

Open = Callable[..., Any]
WORDS = ["missing", "(missing)", "", "1234567.1", "1234567.2", "=1+1", None]


def few_and_words(n: int = 140) -> Made:
    """An integer of few values with some missing, words of which some look like nothing, and 40 more columns."""
    summary = with_findings(made(n=n, names=("a", "b", "c"), models=2))
    columns = summary["table"]["columns"]
    days = np.arange(n) % 7 + 1.0
    days[::10] = np.nan
    columns.append({"name": "weekday", "kind": "integer", "values": days})
    columns.append({"name": "words", "kind": "words", "values": [WORDS[i % 7] for i in range(n)]})
    columns += [{"name": f"other {k}", "kind": "number", "values": np.linspace(0, 1, n)} for k in range(40)]
    return summary


@pytest.fixture(scope="module")
def summary() -> Made:
    return few_and_words()


@pytest.fixture(scope="module")
def shared(chromium: Any, summary: Made, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    reader = Reader(chromium, tmp_path_factory.mktemp("controls"))
    yield reader.open(summary)
    reader.close()


@pytest.fixture
def page(shared: Any) -> Any:
    """The page in its first state."""
    return as_opened(shared)


def column(summary: Made, name: str) -> Any:
    return next(column["values"] for column in summary["table"]["columns"] if column["name"] == name)


def boxes(page: Any, name: str) -> list[str]:
    unfold(page)
    page.locator("#condition-column").select_option(label=name)
    return page.locator("#condition-fields .choice").all_inner_texts()


def test_the_bar_is_one_line_and_nothing_that_is_opened_is_behind_it(page: Any) -> None:
    for width, height in ((1280, 800), (400, 800)):
        page.set_viewport_size({"width": width, "height": height})
        assert page.locator("#subgroup").bounding_box()["height"] < 50
        unfold(page)
        page.keyboard.press("Escape")
        assert page.locator("#add").get_attribute("open") is None
        assert page.evaluate("document.activeElement.textContent") == "Choose rows"
        unfold(page)
        page.evaluate("document.querySelectorAll('button.feature')[2].click()")  # whatever covers it
        assert page.locator("#add").get_attribute("open") is None
        top = page.locator("#feature-name").bounding_box()["y"]
        bar = page.locator("#subgroup").bounding_box()
        assert bar["y"] <= 0 < bar["height"] <= top < 100
        before = page.evaluate("scrollY")
        unfold(page)
        page.locator("#condition-column").focus()
        page.locator("#done").click()
        assert page.evaluate("scrollY") == before > 100
    page.evaluate("scrollTo(0, document.body.scrollHeight)")
    page.locator("#ranking-head button").first.evaluate("(one) => one.focus()")
    bar = page.locator("#subgroup").bounding_box()
    assert page.locator("#ranking-head button").first.bounding_box()["y"] >= bar["y"] + bar["height"]


def test_integers_of_few_values_are_boxes(page: Any, summary: Made) -> None:
    days = column(summary, "weekday")
    expected = [f"{day} {(days == day).sum()}" for day in range(1, 8)] + [f"(missing) {np.isnan(days).sum()}"]
    assert boxes(page, "weekday") == expected
    tick(page, "weekday", "2", "(missing)")
    assert members(page) == (np.isnan(days) | (days == 2)).sum()
    assert "weekday is one of 2 and (missing)" in page.locator("#subgroup-words").inner_text()
    unfold(page)
    assert page.locator("#bound-low").count() == 0
    page.locator("#condition-column").select_option(label="a")  # 140 values: from, to
    assert page.locator("#bound-low").count() == 1


def test_categories_stay_distinct_and_missing_values_are_no_category(page: Any, summary: Made) -> None:
    words = column(summary, "words")
    shown = {'"(missing)"': "(missing)", '""': "", "(missing)": None}
    found = boxes(page, "words")
    assert len(found) == len(set(found)) == len(WORDS)
    assert found[-1] == f"(missing) {words.count(None)}"
    for label in ("missing", '"(missing)"', '""', "1234567.1", "(missing)"):
        tick(page, "words", label)
        assert members(page) == words.count(shown.get(label, label)) > 0
        page.locator("#clear").click()


def test_a_column_of_many_is_found_by_its_name(page: Any) -> None:
    unfold(page)
    assert page.locator("#condition-column option").count() > 40
    page.locator("#column-search").fill("THER 17")
    assert page.locator("#condition-column option").all_inner_texts() == ["other 17"]
    assert page.locator("#condition-column").evaluate("(one) => one.selectedOptions[0].text") == "other 17"
    assert page.locator("#bound-high").input_value() == "1"
    page.locator("#column-search").fill("no such")
    assert "No column" in page.locator("#column-found").inner_text()
    assert page.locator("#condition-fields").inner_text() == ""
    page.locator("#column-search").fill("")  # other tests share the page, and no address takes this back


def test_the_state_is_in_the_address(page: Any, summary: Made, opened: Open) -> None:
    """After a reload, in another window, and by steps with the back button."""
    page.locator("button.feature").nth(1).click()
    set_range(page, "b", "-0.5", "1.25")
    tick(page, "words", '""', "(missing)")
    set_donors(page, "subset")
    page.locator('#table-head button[data-key="loss"]').click()
    page.locator('#ranking-head button[data-key="name"]').click()
    page.get_by_label("model 1").check()
    rows = members(page)
    b, words = column(summary, "b"), column(summary, "words")
    assert rows == sum(-0.5 <= b[i] <= 1.25 and words[i] in ("", None) for i in range(len(b))) > 0

    def state(page: Any) -> tuple[Any, ...]:
        ask = "all => all.map((one) => one.textContent + one.ariaSort)"
        return (
            page.locator("#subgroup-words").inner_text(),
            page.locator("#feature-name").inner_text(),
            page.locator("th[aria-sort]:not([aria-sort=none])").evaluate_all(ask),
            page.locator("input:checked").evaluate_all("all => all.map((one) => one.name + one.value)"),
            page.locator("#table-body button.row").first.text_content(),  # far below: not laid out yet
            value(page, "pfi-given"),
        )

    before, address = state(page), page.url
    page.reload()
    page.locator("html[data-ready]").wait_for()
    assert state(page) == before
    assert page.locator("#subgroup-words").inner_text() in before[0]
    other = opened(summary)
    other.goto(other.url + address[address.index("#") :])
    other.locator(f'#subgroup-words[data-n="{rows}"]').wait_for()
    assert state(other) == before
    page.go_back()  # the model
    page.locator("#model-choice input[value='0']:checked").wait_for()
    for _ in range(3):  # both orders and the donors
        page.go_back()
    page.locator("input[value=given]:checked").wait_for(state="attached")
    assert members(page) == rows
    page.go_back()  # the second box
    page.go_back()
    page.locator(f'#subgroup-words[data-n="{np.sum((b >= -0.5) & (b <= 1.25))}"]').wait_for()
    page.go_back()
    page.locator(f'#subgroup-words[data-n="{len(b)}"]').wait_for()
    page.go_forward()
    page.locator(f'#subgroup-words[data-n="{np.sum((b >= -0.5) & (b <= 1.25))}"]').wait_for()


def test_no_address_breaks_the_page(page: Any, summary: Made) -> None:
    """Garbage, scripts and half-right conditions: what is understood is done, the rest is left out."""
    rng = np.random.default_rng(0)
    pieces = [
        "%", "%zz", "where=", "{", "}", "[", '"', "null", "feature=", "&", "=", "<img src=x onerror=alert(1)>", "rows",
        "1e999", "__proto__", "constructor", "sort=", "[[]]", "model=", "javascript:alert(1)", "\ud800", "0-999999999",
    ]  # fmt: skip
    wheres: list[Any] = [
        {"column": "__proto__", "in": [1]}, {"made": "constructor", "from": 1}, {"column": "words", "from": 0},
        {"column": "a", "from": "<b>", "to": {}}, {"column": "words", "in": [[], {}, 7]}, [], 7, None,
        {"rows": "x,-,1-,5000-9000,3-2"},
    ]  # fmt: skip
    hashes = ["".join(rng.choice(pieces, 12)) for _ in range(150)]
    hashes += [f"where={urllib.parse.quote(json.dumps(one))}" for one in wheres]
    hashes += ["feature=<script>alert(1)</script>", 'ranking=["bars0",true]', 'sort=[{"made":"toString"},1]']
    go = """(hashes) => hashes.map((hash) => {
        history.pushState(null, "", "#" + hash);
        dispatchEvent(new PopStateEvent("popstate"));
        return document.getElementById("subgroup-words").dataset.n;
    })"""
    counts = page.evaluate(go, hashes)
    assert set(counts) == {str(summary["n"])}
    right = {"column": "weekday", "in": [3, None, "3", 99]}
    address = "where=" + urllib.parse.quote(json.dumps(right)) + "&where=%7B&feature=nobody&model=7&donors=both"
    days = column(summary, "weekday")
    assert page.evaluate(go, [address]) == [str((np.isnan(days) | (days == 3)).sum())]
    assert page.locator("img").count() == 0
    page.locator(".skip").evaluate("(one) => one.click()")  # a link within the page leaves the state alone
    assert page.evaluate("[location.hash.includes('weekday'), document.activeElement.id]") == [True, "ranking"]


def saved(page: Any, name: str) -> list[list[str]]:
    button = page.locator(f'button[data-csv="{name}"]').first
    with page.expect_download() as download:
        button.evaluate("(one) => one.click()")
    assert download.value.suggested_filename == f"{name}.csv"
    raw = Path(download.value.path()).read_bytes()
    assert raw.startswith(b"\xef\xbb\xbf")
    return list(csv.reader(io.StringIO(raw.decode("utf-8-sig"), newline="")))


def test_every_table_can_be_saved(page: Any, summary: Made) -> None:
    assert page.locator("main table:not(.leading)").count() == page.locator("button.csv").count()
    head, *lines = saved(page, "ranking")
    entries = [
        (f["name"], m, e["pfi"], e["sfimp_high"]) for f in summary["features"] for m, e in enumerate(f["models"])
    ]
    assert len(lines) == len(entries)
    for line, (name, m, pfi, high) in zip(lines, entries, strict=True):
        told = dict(zip(head, line, strict=True))
        assert (told["feature"], told["model"]) == (name, summary["models"][m]["name"])
        assert (float(told["pfi"]), float(told["sfimp_high"])) == (pfi, high)
    head, *lines = saved(page, "curve")
    entry = summary["features"][0]["models"][0]
    np.testing.assert_allclose([float(line[head.index("PI")]) for line in lines], entry["pi"], rtol=1e-6)
    np.testing.assert_allclose([float(line[head.index("PI low")]) for line in lines], entry["pi_low"], rtol=1e-6)
    head, *lines = saved(page, "regions")
    assert [line[1] for line in lines] == ["all rows", "b ≤ 0", "b > 0"]
    assert [float(line[5]) for line in lines] == [region["pfi"] for region in summary["features"][0]["regions"]["tree"]]
    assert saved(page, "together")[1][2] == "2.5"
    assert saved(page, "clusters")[1][0] == "1"
    tick(page, "weekday", "2")
    page.locator('#table-head button[data-key="loss"]').click()
    head, *lines = saved(page, "observations")
    days, loss = column(summary, "weekday"), summary["table"]["models"][0]["loss"]
    rows = sorted(np.flatnonzero(days == 2), key=lambda i: -loss[i])
    assert [int(line[0]) for line in lines] == [summary["table"]["index"][i] for i in rows]
    words = [column(summary, "words")[i] for i in rows]
    assert [line[head.index("words")] for line in lines] == [{None: "", "=1+1": "'=1+1"}.get(w, w) for w in words]
    np.testing.assert_array_equal([float(line[head.index("b")]) for line in lines], column(summary, "b")[rows])


NASTY = ["=cmd|' /C calc'!A0", "+1", "-1", "-1+1", "@x", "\t=1", ' say "hi", \r\n you', "plain", "−3", "=-1", "1e5"]


def test_files_have_no_formulas(opened: Open) -> None:
    summary = made(n=44)
    summary["table"]["columns"].append({"name": "=evil(),\n", "kind": "words", "values": NASTY * 4})
    page = opened(summary)
    head, *lines = saved(page, "observations")
    assert head[-1] == "'=evil(),\n"
    risky = {"=cmd|' /C calc'!A0", "-1+1", "@x", "\t=1", "=-1"}
    assert [line[-1] for line in lines[:11]] == [f"'{text}" if text in risky else text for text in NASTY]


LONG = [f"{kind}{'x' * 140}{' word' * 5}{'y' * 140}" for kind in "pqr"]


def test_long_names_never_widen_the_page(opened: Open) -> None:
    summary = with_findings(made(n=40, names=tuple(LONG), models=2))
    for model, name in zip(summary["models"], LONG, strict=False):
        model["name"] = name
    summary["title"], summary["by"], summary["target"]["name"] = LONG[0], LONG[2], LONG[1]
    kinds = summary["table"]["columns"][2]
    kinds["values"] = [f"{value} {LONG[1]}" for value in kinds["values"]]
    for feature in summary["features"]:
        if feature["kind"] == "words":
            feature["values"] = feature["labels"] = [f"{label} {LONG[1]}" for label in feature["labels"]]
    page = opened(summary, viewport={"width": 1280, "height": 800})
    wide = "[...document.querySelectorAll('body, main > *')].map((one) => one.getBoundingClientRect().right)"
    for width in (1280, 400):
        page.set_viewport_size({"width": width, "height": 800})
        for k in range(3):
            page.locator("button.feature").nth(k).click()
            unfold(page)
            page.locator("#condition-column").select_option(index=5)
            page.locator("#condition-fields input").first.check()
            if page.locator("#python-code").is_hidden():
                page.locator("#python").click()
            page.locator("#curve-numbers").evaluate("(one) => { one.open = true; }")
            page.locator("details").evaluate_all("all => all.forEach((one) => { one.open = true; })")
            page.locator("#most button").first.evaluate("(one) => one.click()")
            assert page.evaluate("document.scrollingElement.scrollWidth") <= width
            assert max(page.evaluate(wide)) <= width
            assert page.locator("#controls").evaluate("(one) => one.scrollWidth <= one.clientWidth + 1")
            assert page.locator("#subgroup").bounding_box()["height"] < (50 if width > 700 else 72)  # the error below
            page.keyboard.press("Escape")
            page.locator("#done").evaluate("(one) => one.click()")
