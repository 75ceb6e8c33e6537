"""The story: the same claims in all formats, and none that the numbers don't bear."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import losslens as ll
from losslens.page.story import story_of

RNG = np.random.default_rng(0)
X = pd.DataFrame({"hour of the day": RNG.integers(0, 24, 200).astype(float), "wind": RNG.normal(size=200)})


def model(rows):
    return 30.0 * (rows["hour of the day"].to_numpy() > 16) + rows["wind"].to_numpy()


def told(y, frame=X, **asked):
    return ll.report(model, frame, y, loss="squared_error", interactions=False, shapley=False, random_state=0, **asked)


Y = model(X) + RNG.normal(size=200)


def test_the_headline_and_each_claim_state_the_numbers():
    report = told(Y)
    story, feature = story_of(report.summary), report.summary["features"][0]
    error, entry = report.summary["models"][0]["error"], feature["models"][0]
    after, now = (np.sqrt(error + change) for change in (entry["pfi"], 0.0))
    assert story.headline == "This model depends most on hour of the day"
    said = "when hour of the day is shuffled between rows, its predictions are off by "
    numbers = [float(part) for part in re.findall(r"\d+\.?\d*", story.claims[0].partition(said)[2])][:2]
    assert numbers == pytest.approx([after, now], rel=0.02)
    worst = int(np.argmax(entry["pi"]))
    most_at = (
        f"matters most at {feature['labels'][worst]}: with that value in every row the root mean squared error is "
    )
    assert most_at in story.claims[1]
    assert float(re.findall(r"is (\d+\.?\d*) instead", story.claims[1])[0]) == pytest.approx(
        np.sqrt(error + entry["pi"][worst]), rel=0.01
    )
    assert "the mean prediction of the target ranges from " in story.claims[2]


def test_what_is_not_sure_or_useless_is_no_headline():
    unsure = story_of(told(RNG.normal(size=200) * 50 + 15).summary)
    assert "depends" not in unsure.headline
    wrong = story_of(told(-Y).summary)
    assert "no better" in wrong.headline
    assert wrong.claims == [""]  # where a useless model "matters most" says nothing, and the headline says it once
    assert wrong.curves == []
    options = {"loss": "squared_error", "interactions": False, "shapley": False}
    below = story_of(ll.report(lambda rows: model(rows) - 40, X, Y - 40, **options).summary).claims[2]
    assert "ranges from −" in below
    assert "-" not in below


def test_a_value_that_few_rows_have_is_said_to_be_rare():
    """An event in 1 of 20 rows, which the model adds 50 for; and the same for one half of the rows."""
    for every, said in ((20, True), (2, False)):
        frame = pd.DataFrame({"event": (np.arange(200) % every == 0).astype(float), "wind": X["wind"]})

        def predict(rows):
            return 50 * rows["event"].to_numpy() + rows["wind"].to_numpy()

        options = {"loss": "squared_error", "interactions": False, "shapley": False, "random_state": 0}
        story = story_of(ll.report(predict, frame, predict(frame) + RNG.normal(size=200), **options).summary)
        assert ("Only 5.0% of the rows have it." in story.claims[1]) == said
        assert ("Only" in story.claims[1]) == said
        assert story.curves[0].few


def test_marks_of_the_story_are_those_of_the_first_screen():
    from matplotlib.figure import Figure

    from losslens.page.story import _draw_bars

    story, ax = story_of(told(Y).summary), Figure().subplots()
    _draw_bars(ax, story)
    marks = [line for line in ax.lines if line.get_marker() == "o"]
    hollow = [line.get_markerfacecolor() == "white" for line in marks]
    assert hollow == [not row["sure"] for row in story.bars["rows"]]
    assert ("Hollow" in story.key) == any(hollow)


def test_all_formats_say_the_same(tmp_path: Path):
    report = told(Y)
    story = story_of(report.summary)
    for kind, start in (("html", b"<!DOCTYPE"), ("pdf", b"%PDF"), ("png", b"\x89PNG")):
        report.story(tmp_path / f"story.{kind}")
        assert (tmp_path / f"story.{kind}").read_bytes().startswith(start)
    page = unescape((tmp_path / "story.html").read_text("utf-8"))
    assert all(text in page for text in (story.headline, story.well, story.caveat, *story.claims))
    assert page.count("<svg") == 3
    with pytest.raises(ValueError, match=r"a story is an .html, a .pdf or a .png file; got 'story.docx'"):
        report.story("story.docx")


def test_categories_dates_and_missing_values_are_told(tmp_path: Path):
    frame = X.assign(**{"hour of the day": X["hour of the day"].where(X.index % 7 > 0)})
    frame["day"] = pd.Timestamp("2024-01-01") + pd.to_timedelta(np.arange(200), unit="D")
    frame["town"] = pd.Categorical(np.where(np.arange(200) % 3, "hills", "harbour"))

    def by_town(rows):
        return 9.0 * (rows["town"] == "hills").to_numpy() + 0.0 * rows["wind"].to_numpy()

    def by_day(rows):
        return (rows["day"] - pd.Timestamp("2024-01-01")).dt.days.to_numpy(float)

    for predict, word in ((by_town, "harbour"), (by_day, "2024-")):
        report = ll.report(
            predict, frame, predict(frame) + 1.0, loss="squared_error", interactions=False, shapley=False
        )
        assert word in story_of(report.summary).claims[1]
        report.story(tmp_path / "story.png")


def test_the_page_opens_its_own_story(chromium, tmp_path: Path):
    """Offline, in a tab of its own: the same sheet as the file, with three pictures and no script."""
    report = told(Y)
    report.save(tmp_path / "page.html")
    report.story(tmp_path / "story.html")
    with chromium.new_context(offline=True) as context:
        page = context.new_page()
        page.goto((tmp_path / "page.html").as_uri())
        page.locator("html[data-ready]").wait_for(state="attached")
        with context.expect_page() as opened:
            page.locator("#story").click()
        sheet = opened.value
        sheet.locator("h1").wait_for()
        story = story_of(report.summary)
        assert sheet.locator("h1").inner_text() == story.headline
        assert sheet.locator("h2").all_inner_texts() == [text for text in story.claims if text]
        assert sheet.locator("svg").count() == len(story.claims)
        assert story.caveat in sheet.locator("main").inner_text()
        assert sheet.locator("script").count() == 0
        written = (tmp_path / "story.html").read_text("utf-8")
        assert sheet.locator("main").inner_html().count("<path") == written.count("<path")


def test_a_page_without_a_story_has_no_button(opened):
    from summaries import made

    assert not opened(made()).locator("#story").is_visible()
