"""Pages of odd summaries in a real browser, and what no page lets happen."""

from __future__ import annotations

import base64
import hashlib
import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from browser import brush, members, set_range, unfold, value
from losslens.page.page import SCRIPTS, asset, html
from summaries import made

Open = Callable[..., Any]
NASTY = (
    "</script><script>alert(1)</script>",
    'it\'s "quoted" & <b>bold</b>',
    "größe ☃ 温度",
    "{{ 7 * 7 }}",
    "a\nb\\u0000",
)


def test_several_models_stand_side_by_side(opened: Open) -> None:
    summary = made(models=3)
    page = opened(summary)
    for m, entry in enumerate(summary["features"][0]["models"]):  # the ranking is of the chosen one
        page.get_by_label(summary["models"][m]["name"], exact=True).check()
        assert value(page, f"pfi-0-{m}") == entry["pfi"]
    assert value(page, "pfi-all") == summary["features"][0]["models"][2]["pfi"]
    set_range(page, "a", "0", "9")
    assert page.locator('output[data-name="pfi-subset"]').get_attribute("data-value") == ""  # and no number is made up


def test_names_are_text_whatever_they_hold(opened: Open) -> None:
    page = opened(made(n=60, names=NASTY))
    assert sorted(page.locator("button.feature").evaluate_all("all => all.map((one) => one.textContent)")) == sorted(
        NASTY
    )
    for k in range(len(NASTY)):
        page.locator("button.feature").nth(k).click()
    assert page.locator("b", has_text="bold").count() == 0


def test_one_feature(opened: Open) -> None:
    page = opened(made(n=50, names=("only",), shares=False))
    assert page.locator("button.feature").count() == 1
    assert page.locator('output[data-name="sfimp-0-0"]').count() == 0


def test_200_features_are_searched(opened: Open) -> None:
    names = tuple(f"feature {k}" for k in range(200))
    page = opened(made(n=80, names=names, whole=False))
    assert page.locator("button.feature").count() == 20
    page.locator("#ranking-search").fill("feature 19")
    assert page.locator("button.feature").count() == 11
    page.locator("#ranking-search").fill("")
    page.locator("#ranking-more").click()
    assert page.locator("button.feature").count() == 200


def test_thinned_rows_are_said(opened: Open) -> None:
    page = opened(made(n=500, n_given=50_000, names=("a", "b")))
    assert "500 of the 50,000 rows" in page.locator("#thinned").inner_text()
    assert "200 of 500 rows" in page.locator("#note-pi").inner_text()


def test_missing_values_stand_apart_and_can_be_brushed(opened: Open) -> None:
    summary = made(missing=True, weighted=True)
    page = opened(summary)
    page.locator("button.feature", has_text="a").click()
    lost = np.flatnonzero(np.isnan(summary["table"]["columns"][0]["values"]))
    brush(page, "#chart-pi-rows", 0.92, 0.99)
    assert "a is missing" in page.locator("#subgroup-words").inner_text()
    assert members(page) == len(lost)


def test_a_group_without_curves(opened: Open) -> None:
    summary = made(n=60)
    feature = summary["features"][0]
    feature |= {"name": "a and b", "kind": "group", **dict.fromkeys(("values", "labels", "weights", "own"))}
    feature["models"][0] |= dict.fromkeys(("pi", "pi_low", "pi_high", "pd", "pd_low", "pd_high", "ice", "cells"))
    page = opened(summary)
    assert page.locator("#no-curves").is_visible()
    set_range(page, "a", "0", "9")
    rows = summary["table"]["columns"][0]["values"] >= 0
    weight = summary["table"]["weight"][rows]
    np.testing.assert_allclose(
        value(page, "pfi-given"), weight @ feature["models"][0]["local"][rows] / weight.sum(), rtol=1e-6
    )


def test_a_phone(opened: Open) -> None:
    page = opened(made(n=60), viewport={"width": 390, "height": 800}, has_touch=True, is_mobile=True)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_the_policy_holds(opened: Open) -> None:
    """A script that somebody smuggles in does not run, and the page can ask nobody."""
    page = opened(made(n=60), watched=False)
    smuggle = """() => {
        const script = document.createElement("script");
        script.textContent = "window.smuggled = true";
        document.body.append(script);
        return window.smuggled === true;
    }"""
    assert page.evaluate(smuggle) is False
    assert page.evaluate("fetch('https://example.org/').then(() => 'answered', (error) => error.name)") == "TypeError"
    page.locator("html").evaluate("(html) => html.setAttribute('onclick', 'window.smuggled = true')")
    page.locator("h1").click()
    assert page.evaluate("window.smuggled === true") is False


def test_every_script_has_its_hash_and_no_other() -> None:
    text = html(made(n=30))
    scripts = re.findall(r"<script>(.*?)</script>", text, flags=re.DOTALL)
    hashes = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)
    assert policy
    assert re.findall(r"&#39;sha256-([^&]*)&#39;", policy[1]) == hashes
    assert len(hashes) == 3
    assert text == html(made(n=30))  # nothing random: the same page again


def test_no_name_is_defined_by_two_scripts() -> None:
    """They are one script: the later definition of a name would silently take the place of the earlier."""
    names = [
        name
        for script in SCRIPTS
        for name in re.findall(r"(?m)^(?:async )?(?:function|const|let) (\w+)", asset(f"{script}.js"))
    ]
    assert [name for name, times in Counter(names).items() if times > 1] == []


def test_columns_may_be_called_as_the_page_calls_its_own(opened: Open) -> None:
    summary = made(n=80, names=("loss", "target", "prediction"))
    page = opened(summary)
    page.locator("button.feature", has_text="loss").click()
    brush(page, "#chart-pi-rows", 0.3, 0.7)
    low, high = re.findall(r"from (\S+) to (\S+)\.$", page.locator("#subgroup-words").inner_text().replace("−", "-"))[0]
    values = summary["table"]["columns"][0]["values"]
    assert members(page) == ((values >= float(low)) & (values <= float(high))).sum()


def test_groups_that_were_asked_for_are_offered(opened: Open) -> None:
    page = opened(made(n=80) | {"by": "c"})
    unfold(page)
    page.get_by_label("kind 0").check()
    assert "c is kind 0" in page.locator("#subgroup-words").inner_text()


def test_the_error_of_low_rank_cells_is_that_of_the_group(opened: Open) -> None:
    summary = made(n=80, whole=False)
    for feature in summary["features"]:
        feature["models"][0]["cells"] |= {"error_times_n": 6.0, "pi_error_times_root_n": 5.0}
    page = opened(summary)
    set_range(page, "a", "0", "9")
    subset = page.locator('output[data-name="pfi-subset"]').get_attribute("data-error")
    assert float(subset) == 6 / members(page)
    np.testing.assert_allclose(float(page.locator("#note-pi").get_attribute("data-error")), 5 / members(page) ** 0.5)


def test_dates_text_targets_and_labels(opened: Open) -> None:
    summary = made(n=80)
    day = 24 * 3600 * 1000.0
    feature = next(feature for feature in summary["features"] if feature["name"] == "a")
    feature |= {"kind": "date", "values": 1.7e12 + day * np.arange(len(feature["values"]))}
    dates = 1.7e12 + day * feature["own"]
    summary["table"]["columns"][0] |= {"kind": "date", "values": dates}
    summary["table"]["y"] = np.array(["yes", "no"] * 40)
    summary["table"]["models"][0] |= {"prediction": np.linspace(0, 1, 80), "label": ["no", "no"] * 40}
    summary["target"] |= {"reads": "probabilities", "classes": ["no", "yes"], "shown": 1, "drawn": [0, 1]}
    page = opened(summary)
    head = page.locator("#table-head").inner_text()
    assert "probability of yes" in head
    assert "predicted class" in head
    page.locator("#most button").first.click()
    assert "probability of yes" in page.locator("#card").inner_text()
    page.locator("button.feature", has_text="a").click()
    set_range(page, "a", "2023-12-01", "2023-12-20")
    inside = (dates >= 1701388800000) & (dates < 1703116800000)
    assert members(page) == inside.sum() > 0
    assert "2023-12-01" in page.locator("#subgroup-words").inner_text()


def test_another_model_has_its_own_categories_and_texts(opened: Open) -> None:
    """The most frequent prediction is another: a ticked box means what stands beside it, and the filter looks anew."""
    summary = made(n=80, models=2)
    said = [np.array([often] * 60 + [seldom] * 20, object) for often, seldom in (("nope", "yeah"), ("yeah", "nope"))]
    for model, prediction in zip(summary["table"]["models"], said, strict=True):
        model["prediction"] = prediction
    for feature in summary["features"]:
        feature["models"][1]["ice"] = None  # as the library leaves it
    page = opened(summary)
    unfold(page)
    page.locator("#condition-column").select_option(label="prediction")
    page.locator("#table-filter").fill("yeah")
    assert page.locator("#table-where").inner_text().endswith(" of 20")
    page.locator("#done").click()
    page.get_by_label("model 1").check()
    assert page.locator("#table-where").inner_text().endswith(" of 60")
    unfold(page)
    assert page.locator(".choice").all_inner_texts() == ["yeah 60", "nope 20"]
    page.get_by_label("yeah").check()
    assert "prediction is yeah" in page.locator("#subgroup-words").inner_text()
    assert members(page) == 60
    assert "forest only" in page.locator("#no-curves").inner_text()
    page.locator("#done").click()
    page.get_by_label("forest").check()
    assert page.locator(".choice input:checked").evaluate_all("all => all.map((box) => box.value)") == ["yeah"]
    assert members(page) == 20


def test_a_feature_may_be_called_as_another_column(opened: Open) -> None:
    summary = made(n=80)
    features = {feature["name"]: feature for feature in summary["features"]}
    features["a"] |= {"name": "b", "column": "a"}
    features["b"] |= {"name": "of no column", "column": None}
    features["c"] |= {"column": "c"}
    page = opened(summary)
    page.locator('button.feature[title="b"]').click()
    brush(page, "#chart-pi-rows", 0.3, 0.7)
    assert " a from " in page.locator("#subgroup-words").inner_text()
    low = float(page.locator("#bound-low").get_attribute("value"))  # of a, which the editor shows first
    assert low > summary["table"]["columns"][0]["values"].min()
    page.locator("button.feature", has_text="of no column").click()
    bars = page.evaluate("Bokeh.documents.at(-1).get_model_by_name('pi-rows-all').data.top")
    expected = np.histogram(summary["table"]["columns"][1]["values"], 30)[0]
    assert sum(bars) == 80
    assert np.count_nonzero(bars) == np.count_nonzero(expected)  # at their values, not at whole numbers


def test_rows_of_no_known_place(opened: Open) -> None:
    summary = made(n=60)
    for feature in summary["features"]:
        feature |= {"column": None, "own": None}
        feature["models"][0] |= {"cells": None, "ice": None}
    page = opened(summary)
    for k in range(3):
        page.locator("button.feature").nth(k).click()
    set_range(page, "a", "500", "600")
    assert "no row is in the subgroup" in page.locator("#no-curves").inner_text()
    set_range(page, "a", "9", "0")
    assert "a from 9 to 0" in page.locator("#subgroup-words").inner_text()


def test_sampled_numbers_are_not_called_exact(opened: Open) -> None:
    summary = made(n=80, weighted=True)
    for feature in summary["features"]:
        feature["models"][0]["exact"] = False
    page = opened(summary)
    set_range(page, "a", "0", "9")
    assert "exact" not in page.locator("#feature-numbers").inner_text()
    assert "; sampled" in page.locator("#feature-numbers").inner_text()
    assert "sampled, by bins of ranks: approximate" in page.locator("#feature-numbers").inner_text()
    page.locator("#curve-numbers summary").click()
    page.locator('output[data-name^="PD-"]').first.wait_for()
    shown = page.locator('output[data-name^="PD-"]').evaluate_all("all => all.map((one) => Number(one.dataset.value))")
    rows = summary["table"]["columns"][0]["values"] >= 0
    weight = summary["table"]["weight"][rows] / summary["table"]["weight"][rows].sum()
    ice = summary["features"][0]["models"][0]["ice"]["values"][rows]  # all rows are drawn
    np.testing.assert_allclose(shown, weight @ ice, atol=1e-3)


def test_pd_is_that_of_the_chosen_class(opened: Open) -> None:
    """Of two classes all curves are known; of three, single rows and subgroups have those of the shown one only."""
    two, three = made(n=60), made(n=60)
    for summary, classes in ((two, ["no", "yes"]), (three, ["low", "middle", "high"])):
        summary["target"] = {"name": "y", "reads": "probabilities", "classes": classes, "shown": 1, "drawn": [0, 1]}
        for feature in summary["features"]:
            pd = feature["models"][0]["pd"]
            feature["models"][0]["pd_classes"] = [0.3 - pd, pd] + [None] * (len(classes) - 2)
    for summary, turned in ((two, lambda pd: 1 - pd), (three, lambda pd: 0.3 - pd)):
        page = opened(summary)
        page.locator("#curve-numbers summary").click()
        pd = summary["features"][0]["models"][0]["pd"]
        assert page.locator("#class-choice option").count() == 2
        np.testing.assert_allclose(numbers(page, "PD"), pd, rtol=1e-5)
        page.locator("#class-choice").select_option(index=0)
        np.testing.assert_allclose(numbers(page, "PD"), turned(pd), rtol=1e-5, atol=1e-5)
        title = page.locator("#title-pd").inner_text()
        assert title == f"Probability of {summary['target']['classes'][0]} when a row gets this value"
        set_range(page, "a", "0", "9")
        known = summary is two
        assert np.isfinite(numbers(page, "PD")).all() == known
        assert page.locator("#class-note").is_visible() != known
        assert page.locator("#side-pd").is_visible()  # with the mean of all rows at least


def numbers(page: Any, kind: str) -> Any:
    shown = page.locator(f'output[data-name^="{kind}-"]').evaluate_all("all => all.map((one) => one.dataset.value)")
    return np.array([float(text) if text else np.nan for text in shown])


def test_missing_words_are_not_the_word_missing(opened: Open) -> None:
    summary = made(n=60)
    summary["table"]["columns"][2]["values"] = [None, "missing", "there"] * 20
    page = opened(summary)
    unfold(page)
    page.locator("#condition-column").select_option(label="c")
    assert sorted(page.locator(".choice").all_inner_texts()) == ["(missing) 20", "missing 20", "there 20"]
    page.locator('.choice input[value="missing"]').check()
    assert members(page) == 20
    assert "c is missing." in page.locator("#subgroup-words").inner_text()


def test_whole_numbers_are_written_in_full(opened: Open) -> None:
    summary = made(n=30)
    summary["table"]["columns"][1] |= {"kind": "integer", "values": np.arange(30) + 12345673.0}
    assert "12,345,673" in opened(summary).locator("#table-body").inner_text()


def test_rows_may_be_called_by_words(opened: Open) -> None:
    """In the table, which can be sorted by them, and on the card."""
    summary = made(n=30)
    names = [f"id{k:02d} <b>" for k in np.random.default_rng(0).permutation(30)]
    summary["table"]["index"] = names
    page = opened(summary)
    assert page.locator("#table-body button.row").all_inner_texts() == names
    page.locator('#table-head button[data-key="index"]').click()
    page.locator('#table-head button[data-key="index"]').click()
    assert page.locator("#table-body button.row").all_inner_texts() == sorted(names)
    page.locator("#table-body button.row").nth(2).click()
    assert page.locator("#card h3").inner_text() == "Row id02 <b>"
