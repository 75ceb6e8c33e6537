"""The charts of the page in a real browser: one report of the library with every kind of feature, shared by the tests.

What Bokeh draws is read from its models: the sources of its lines, the ends of its axes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest

import losslens as ll
from browser import Reader, members, set_donors, tick
from summaries import made

Open = Callable[..., Any]
N = 120
TOWNS = [
    f"Department store of the northern region no. {k:02d}, {'a long way from the sea' * (k % 2)}" for k in range(40)
]
SIZES = ["small", "medium", "large", "very large"]


def _frame() -> tuple[pd.DataFrame, Any]:
    rng = np.random.default_rng(5)
    frame = pd.DataFrame({
        "town": pd.Categorical(np.array(TOWNS)[np.r_[np.arange(40), rng.integers(0, 40, N - 40)]], TOWNS),
        "size": pd.Categorical(rng.choice(SIZES, N), SIZES, ordered=True),
        "day": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 300, N), unit="D"),
        "age": np.where(rng.random(N) < 0.1, np.nan, rng.gamma(2, 20, N).round(1)),
        "rooms": rng.integers(1, 7, N),
    })  # fmt: skip
    return frame, _model(frame) + rng.standard_t(2, N) * 4  # single rows far out


def _model(frame: Any, slope: float = 1.0) -> Any:
    effect = np.random.default_rng(0).normal(0, 3, 40)
    day = (frame["day"] - pd.Timestamp("2024-01-01")).dt.days.to_numpy() / 100
    age = frame["age"].fillna(90).to_numpy() / 30
    towns = effect[frame["town"].cat.codes.to_numpy()]
    return slope * (towns + day * age + frame["size"].cat.codes.to_numpy()) + frame["rooms"].to_numpy() / 2


@pytest.fixture(scope="module")
def summary() -> dict[str, Any]:
    frame, y = _frame()
    models = {"half": lambda F: _model(F, 0.5)}
    return ll.report(_model, frame, y, loss="squared_error", shapley=False, models=models, random_state=0).summary


@pytest.fixture(scope="module")
def shared(chromium: Any, summary: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    reader = Reader(chromium, tmp_path_factory.mktemp("charts"))
    yield reader.open(summary, viewport={"width": 1280, "height": 900})
    reader.close()


@pytest.fixture
def page(shared: Any) -> Any:
    """As in the beginning, whatever the test before has done: subgroups and switches are taken back."""
    shared.mouse.move(2, 2)
    if shared.locator("#clear").is_visible():
        shared.locator("#clear").click()
    shared.locator('#model-choice input[value="0"]').check()
    set_donors(shared, "given")
    shared.keyboard.press("Escape")
    for side in ("pi", "pd"):
        if shared.locator(f"#whole-{side}").get_attribute("aria-pressed") == "true":
            shared.evaluate(f"document.getElementById('whole-{side}').click()")
    return shared


def opened_feature(page: Any, summary: dict[str, Any], name: str) -> dict[str, Any]:
    place = next(k for k, feature in enumerate(summary["features"]) if feature["name"] == name)
    page.locator(f'button.feature[data-feature="{place}"]').click()
    return summary["features"][place]


MODEL = "Bokeh.documents.at(-1).get_model_by_name"


def source(page: Any, name: str) -> dict[str, Any]:
    """The data of one of Bokeh's sources."""
    plain = "(one) => (typeof one === 'object' && one !== null ? Array.from(one) : one)"
    return page.evaluate(
        f"""() => Object.fromEntries(Object.entries({MODEL}("{name}").data).map(
            ([key, all]) => [key, Array.from(all, {plain})]))"""
    )


def finite(numbers: list[float]) -> list[float]:
    return [one for one in numbers if np.isfinite(one)]


def y_range(page: Any, side: str) -> tuple[float, float]:
    start, end = page.evaluate(f"[{MODEL}('{side}').y_range.start, {MODEL}('{side}').y_range.end]")
    return start, end


def labels(page: Any, side: str = "pi") -> list[str]:
    """The categories in the order of their lines, in full."""
    return page.locator(f"#lines-{side} tbody th > *").evaluate_all("all => all.map((one) => one.title)")


def told(summary, changes, model=0):
    """Changes of the squared error as the page tells them: the root of the error there."""
    return np.sqrt(summary["models"][int(model)]["error"] + np.asarray(changes))


# Categories.


def test_categories_have_points_and_intervals_the_largest_first_and_15_of_40(page, summary):
    feature = opened_feature(page, summary, "town")
    assert page.locator("#chart-pi").is_hidden()  # no line joins them
    pi = feature["models"][0]["pi"]
    order = [feature["labels"][v] for v in np.argsort(-pi, kind="stable")]
    for side in ("pi", "pd"):  # the same line in both
        assert labels(page, side) == order[:15]
    assert page.locator("#lines-pi .whisker").count() == 2 * 15  # of both models
    line = page.locator("#lines-pi tbody tr").first.locator("svg.category")
    band = feature["models"][0]["pi_low"].max(), feature["models"][0]["pi_high"].max()
    error = summary["models"][0]["error"]
    assert line.get_attribute("aria-label").startswith(f"{np.sqrt(error + pi.max()):.4g}"[:4])
    assert "95%:" in line.get_attribute("aria-label")
    assert band[0] < pi.max() < band[1]
    page.locator("#more-pd").click()
    assert labels(page) == order
    assert page.locator("#more-pi").inner_text() == "Show the first 15 values"
    page.locator("#more-pi").click()
    assert len(labels(page, "pd")) == 15


def test_long_names_stay_apart_and_within_the_page(page, summary):
    opened_feature(page, summary, "town")
    shown = page.locator("#lines-pi tbody th > *").all_inner_texts()
    assert len({text[:24] for text in shown}) == 15  # without what they have in common
    assert page.evaluate("document.documentElement.scrollWidth") <= 1280
    assert labels(page)[0] in TOWNS
    colour = page.evaluate("getComputedStyle(document.documentElement).getPropertyValue('--bar').trim()")
    assert re.fullmatch("#[0-9a-f]{6}", colour)  # of the bars of a distribution


def test_a_saved_table_of_categories_has_their_numbers(page, summary):
    feature = opened_feature(page, summary, "town")
    with page.expect_download() as saved:
        page.locator("#categories-pi button.csv").click()
    table = pd.read_csv(saved.value.path())
    assert table["town"].tolist() == feature["labels"]
    np.testing.assert_allclose(table["PI low"], feature["models"][0]["pi_low"], rtol=1e-6)


def test_other_orders_on_request_and_ordered_categories_keep_theirs(page, summary):
    feature = opened_feature(page, summary, "town")
    page.locator("#category-order").select_option("rows")
    assert labels(page)[:3] == [feature["labels"][v] for v in np.argsort(-feature["weights"], kind="stable")[:3]]
    page.locator("#category-order").select_option("name")
    assert labels(page) == TOWNS[:15]
    page.locator("#category-order").select_option("change")
    opened_feature(page, summary, "size")
    page.locator("#category-order").select_option("own")
    assert labels(page) == SIZES
    opened_feature(page, summary, "town")
    assert page.locator("#category-order").input_value() == "change"  # it has no order of its own


def test_a_click_on_a_category_forms_a_subgroup_and_keeps_the_focus(page, summary):
    frame, _ = _frame()
    opened_feature(page, summary, "size")
    first = page.locator("#lines-pi tbody button", has_text="medium")
    first.focus()
    page.keyboard.press("Enter")
    assert members(page) == (frame["size"] == "medium").sum()
    assert page.evaluate("document.activeElement.textContent") == "medium"
    assert first.get_attribute("aria-pressed") == "true"
    page.locator("#lines-pd tbody button", has_text="small").click()
    assert members(page) == frame["size"].isin(["medium", "small"]).sum()
    text = page.locator("#lines-pi tbody tr", has_text="medium").locator("td.number").inner_text()
    assert text == f"{(frame['size'] == 'medium').sum()} of {(frame['size'] == 'medium').sum()}"
    set_donors(page, "subset")
    large = page.locator("#lines-pi tbody tr", has_text="very large").locator("svg.category")
    assert large.get_attribute("aria-label") == "no row of the subgroup has this value"
    assert "Values without a filled point" in page.locator("#note-pi").inner_text()
    first.click()
    assert members(page) == (frame["size"] == "small").sum()


def test_rows_are_hovered_and_picked_at_a_category(page, summary):
    opened_feature(page, summary, "size")
    plot = page.locator("#lines-pi tbody tr").first.locator(".plot")
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    for share in np.linspace(0.1, 0.9, 17):  # until a mark is near
        page.mouse.move(box["x"] + share * box["width"], box["y"] + box["height"] / 2)
        page.wait_for_timeout(40)
        if page.locator("#tip-pi").is_visible():
            break
    row = int(page.locator("#card").get_attribute("data-row"))
    assert page.locator("#tip-pi").inner_text().startswith(f"row {row} at {labels(page)[0]}: ")
    assert page.locator("#lines-pi .lit-row").count() > 0
    plot.click(position={"x": share * box["width"], "y": box["height"] / 2})
    assert page.locator("#lines-pi .picked-row").count() > 0
    assert page.locator("#card h3").inner_text() == f"Row {row}"


# The axis.


def test_the_axis_follows_the_mean_and_says_what_goes_beyond(page, summary):
    entry = opened_feature(page, summary, "age")["models"][0]
    for side in ("pi", "pd"):
        low, high = y_range(page, side)
        mean = told(summary, entry["pi"]) if side == "pi" else entry["pd"]
        curves = source(page, f"{side}-curves")["ys"]
        assert low < mean.min() <= mean.max() < high
        beyond = sum(min(one) < low or max(one) > high for one in map(finite, curves))
        text = page.locator(f"#beyond-{side}").inner_text()
        who = f"{beyond} of the {len(curves)} rows drawn"
        picked = r"(Row \d+(,| and) )?"  # another test may have picked one
        assert re.fullmatch(f"{picked}{who}( and the 95% band)? go beyond the chart.", text) if beyond else not text
        if not beyond:
            continue
        page.locator(f"#whole-{side}").click()
        wide = y_range(page, side)
        assert wide[0] < low or wide[1] > high
        assert page.locator(f"#beyond-{side}").inner_text() == ""
        assert page.locator(f"#whole-{side}").is_visible()  # to go back
        page.locator(f"#whole-{side}").click()
        assert y_range(page, side) == (low, high)
    assert page.locator("#beyond-pi").inner_text()  # heavy tails: some do


def test_the_axis_stays_when_a_row_far_out_is_picked_and_covers_it_on_request(page, summary):
    local = opened_feature(page, summary, "age")["models"][0]["local"]
    before = y_range(page, "pi")
    page.locator("#most button").first.click()
    assert int(page.locator("#card").get_attribute("data-row")) == local.argmax()
    assert y_range(page, "pi") == before
    assert re.match(f"Row {local.argmax()}(,| and) .* go beyond the chart.", page.locator("#beyond-pi").inner_text())
    page.locator("#whole-pi").click()
    picked = finite(source(page, "pi-picked")["y"])
    low, high = y_range(page, "pi")
    assert low < min(picked)
    assert before[1] < max(picked) < high


# Curves.


def test_a_curve_of_a_subset_is_one_line(page, summary):
    frame, _ = _frame()
    feature = opened_feature(page, summary, "age")
    tick(page, "rooms", "1", "2")
    set_donors(page, "subset")
    rows = frame["rooms"].between(1, 2) & frame["age"].notna()
    held = np.unique(feature["own"][rows.to_numpy()])
    line, bridge = source(page, "pi-mean"), source(page, "pi-bridge")
    assert len(finite(line["y"])) == len(held)  # each value that a row has, and no other
    pieces = 1 + len(line["y"]) - len(held)
    assert pieces == 1 + len(finite(bridge["x"])) // 2  # dotted from each piece to the next
    assert pieces < len(held) / 4
    assert "The line joins the values that rows of the subgroup have" in page.locator("#note-pi").inner_text()
    assert ("thin and dotted" in page.locator("#note-pi").inner_text()) == (pieces > 1)
    set_donors(page, "given")
    assert "The line joins" not in page.locator("#note-pi").inner_text()


def test_few_values_are_dots_on_a_line_and_missing_ones_stand_apart(page, summary):
    feature = opened_feature(page, summary, "rooms")
    assert len(source(page, "pi-mean-dots")["x"]) == len(feature["labels"]) == 6
    assert len(source(page, "pi-mean")["x"]) == 6
    assert page.evaluate(f"{MODEL}('pi-rows-number').ticker.min_interval") == 1  # whole numbers on the axis
    feature = opened_feature(page, summary, "age")
    assert len(source(page, "pi-mean-dots")["x"]) == 1
    assert len(source(page, "pi-mean")["x"]) == len(feature["labels"]) - 1
    assert len(source(page, "pi-whiskers")["x"]) == 2  # of both models


def test_ticks_of_the_vertical_axis_are_written_as_numbers_of_the_page_are(page, summary):
    opened_feature(page, summary, "rooms")
    written = "pi-up').formatter.v_compute([-0.5, 20, 2500000]"
    assert page.evaluate(f"{MODEL}('{written})") == ["\N{MINUS SIGN}0.5", "20", "2.5M"]


def test_dates_are_dates(page, summary):
    opened_feature(page, summary, "day")
    axes = f"[{MODEL}('pi-rows-date').visible, {MODEL}('pi-rows-number').visible]"
    assert page.evaluate(axes) == [True, False]
    page.locator("#chart-pi").scroll_into_view_if_needed()
    box = page.locator("#chart-pi").bounding_box()
    for share in np.linspace(0.3, 0.9, 13):  # until a curve is near
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + share * box["height"])
        page.wait_for_timeout(40)
        if page.locator("#tip-pi").is_visible():
            break
    assert re.search(r"row \d+ at 2024-\d\d-\d\d.*: ", page.locator("#tip-pi").inner_text())


def test_each_model_has_its_own_band_and_keeps_its_colour(page, summary):
    feature = opened_feature(page, summary, "rooms")
    entries = feature["models"]
    bands = source(page, "pi-bands")
    assert len(set(bands["colour"])) == len(bands["xs"]) == 2
    for outline, entry in zip(bands["ys"], (entries[1], entries[0]), strict=True):  # the chosen one above
        np.testing.assert_allclose(
            outline,
            np.r_[
                told(summary, entry["pi_low"], entry is entries[1]),
                told(summary, entry["pi_high"], entry is entries[1])[::-1],
            ],
            rtol=1e-6,
        )
    other = source(page, "pi-others")
    np.testing.assert_allclose(other["ys"][0], told(summary, entries[1]["pi"], 1), rtol=1e-6)
    page.locator('#model-choice input[value="1"]').check()
    again = source(page, "pi-bands")
    assert again["colour"] == bands["colour"][::-1]
    np.testing.assert_allclose(source(page, "pi-mean")["y"], told(summary, entries[1]["pi"], 1), rtol=1e-6)
    assert "half: mean of all rows (PI), 95% band" in page.locator("#legend-pi").inner_text()
    page.locator('#model-choice input[value="0"]').check()
    tick(page, "rooms", "1", "2")
    assert "half, all rows" in page.locator("#legend-pi").inner_text()
    assert len(source(page, "pi-bands")["xs"]) == 1  # of the other model, of all rows


# The page around them.


def test_words_beside_those_of_the_method(page, summary):
    opened_feature(page, summary, "rooms")
    assert page.locator("#side-pi h3").inner_text() == (
        "How far off the predictions are (root mean squared error) when a row gets this value (PI, ICI)"
    )
    assert page.locator("#side-pd h3").inner_text().endswith("when a row gets this value (PD, ICE)")
    assert page.evaluate(f"{MODEL}('pi-up').axis_label") == "root mean squared error"


def test_charts_use_the_width_there_is_in_both_themes_and_on_paper(page, summary):
    opened_feature(page, summary, "rooms")
    assert page.locator("#chart-pi").bounding_box()["width"] > 540
    assert page.locator("#chart-pi").bounding_box()["y"] == page.locator("#chart-pd").bounding_box()["y"]
    opened_feature(page, summary, "town")
    colour = "getComputedStyle(document.querySelector('#lines-pi .mean')).fill"
    light = page.evaluate(colour)
    page.locator("#theme").click()
    assert page.evaluate(colour) != light
    page.locator("#theme").click()
    page.emulate_media(media="print")
    assert page.locator("#lines-pi tbody tr").first.is_visible()
    assert not page.locator("#more-pi").is_visible()
    assert not page.locator("#category-line").is_visible()
    page.emulate_media(media="screen")
    page.set_viewport_size({"width": 400, "height": 800})
    try:
        assert page.locator("#lines-pi").bounding_box()["width"] > 330
        opened_feature(page, summary, "rooms")
        assert page.locator("#chart-pi").bounding_box()["width"] > 330
        assert page.evaluate("document.documentElement.scrollWidth") <= 400
    finally:
        page.set_viewport_size({"width": 1280, "height": 900})


def test_a_chart_that_is_alone_takes_the_whole_width_and_nothing_is_said_of_rows_within(opened: Open) -> None:
    summary = made(n=60, names=("a",), shares=False)
    entry = summary["features"][0]["models"][0]
    entry |= dict.fromkeys(("pd", "pd_low", "pd_high", "ice", "pd_classes"))
    entry["cells"]["values"] = np.tile(entry["pi"], (60, 1))  # all rows alike: none goes beyond the chart
    summary["target"]["name"] = "y" * 300
    page = opened(summary, viewport={"width": 1280, "height": 900})
    assert page.evaluate("document.documentElement.scrollWidth") <= 1280
    assert page.locator("#side-pd").is_hidden()
    assert page.locator("#chart-pi").bounding_box()["width"] > 1100
    assert page.locator("#beyond-pi").inner_text() == ""
    assert page.locator("#whole-pi").is_hidden()


def test_leading_features_stand_side_by_side_with_the_value_that_matters_most(page, summary):
    page.locator("#clear").evaluate("(one) => one.click()")
    shown = page.locator("#glance figure")
    features = [feature for feature in summary["features"] if feature["models"][0]["pi"] is not None][:8]
    assert shown.count() == len(features) > 2
    for figure, feature in zip(shown.all(), features, strict=True):
        assert figure.locator("button").get_attribute("title") == feature["name"]
        pi, faded = feature["models"][0]["pi"], (feature["extrapolation"] or {"faded": None})["faded"]
        worst = np.nanmax(np.where(faded, np.nan, pi) if faded is not None else pi)
        text = figure.locator(".quiet").last.inner_text()
        assert text.startswith("most at ")
        assert float(text.split(": ")[-1].replace(",", "")) == pytest.approx(told(summary, worst), rel=6e-3)
    shown.nth(1).locator("button").click()
    assert page.locator("#feature-name").inner_text() == features[1]["name"]


def test_a_row_with_another_value_has_the_prediction_of_its_curve(page, summary):
    feature = opened_feature(page, summary, "rooms")
    page.locator("#most button").first.click()
    row = int(page.locator("#card").get_attribute("data-row"))
    slider = page.locator(".what-if input")
    rooms = next(column for column in summary["table"]["columns"] if column["name"] == "rooms")["values"]
    assert slider.get_attribute("aria-valuetext") == f"{rooms[row]:g}"
    for k in (0, len(feature["labels"]) - 1):
        slider.fill(str(k))
        text = page.locator('[data-name="what-if"]').inner_text()
        ice = feature["models"][0]["ice"]["values"][row][k]
        assert text.startswith(f"{feature['labels'][k]}: prediction of ")
        said = float(re.search(r"prediction of [^\d]*?([−\d.,]+) \(larger", text)[1].replace(",", "").replace("−", "-"))
        assert said == pytest.approx(ice, rel=2e-3, abs=1e-3)
    page.locator("#card .card-head button", has_text="Close").click()
    assert page.locator(".what-if").count() == 0
