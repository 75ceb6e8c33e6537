"""A page agrees with itself, and a contradiction that is planted in the rendered page is found."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import losslens as ll
from losslens.page.agreement import Rendered, by_script, contradictions, numbers_in
from losslens.page.packing import safe_json

Html = Callable[[str], str]
N = 400
RNG = np.random.default_rng(3)
X = pd.DataFrame(
    {"a": RNG.normal(size=N), "b2": RNG.normal(size=N), "c": RNG.normal(size=N), "2": RNG.integers(0, 3, N)}
)
NOISY = (X["2"] == 1).to_numpy()
Y = 2 * X["a"] + X["b2"] + 0.7 * X["a"] * X["b2"] + RNG.normal(size=N) * np.where(NOISY, 4, 1)


def model(X: Any) -> Any:
    return np.asarray(2 * X["a"] + X["b2"] + 0.7 * X["a"] * X["b2"] + 0.1 * X["c"] + 0.1 * X["2"])


def other(X: Any) -> Any:
    return np.asarray(2 * X["a"])


OPTIONS: dict[str, Any] = {"loss": "squared_error", "random_state": 0, "progress": False}


@pytest.fixture(scope="module")
def report() -> Any:
    return ll.report(model, X, Y, models={"other": other}, by="2", target_name="height", **OPTIONS)


@pytest.fixture(scope="module")
def page(report: Any) -> str:
    return str(report.html())


def test_a_page_agrees_with_itself(report: Any) -> None:
    assert report.check() == []
    said = Rendered.of(report.html())
    assert {"how_well", "surely_matter", "error_is_larger", "errors_differ", "works_together"} <= {
        claim for claim, _ in said.sentences
    }


def test_a_page_by_a_score_with_weights_agrees_with_itself() -> None:
    y = np.where(Y > 0, "tall", "short")
    classifier = LogisticRegression().fit(X, y)
    weight = RNG.integers(1, 4, N)
    by_score = ll.report(classifier, X, y, sample_weight=weight, **(OPTIONS | {"loss": "roc_auc"}))
    assert by_score.check() == []
    assert by_score.summary["words"]["opening"][0].startswith("On these 400 rows, weighted, its ROC AUC is ")


def data(edit: Callable[[dict[str, Any]], None]) -> Html:
    """A page whose tables are drawn from other data."""

    def planted(page: str) -> str:
        start = page.index(">", page.index('id="summary"')) + 1
        end = page.index("</script>", start)
        tree = json.loads(page[start:end])
        edit(tree)
        return page[:start] + safe_json(tree) + page[end:]

    return planted


def text(pattern: str, new: str) -> Html:
    """A page with other text in the first place of its HTML."""

    def planted(page: str) -> str:
        changed, count = re.subn(pattern, new, page, count=1)
        assert count == 1
        return changed

    return planted


def at(*path: Any, to: Any) -> Html:
    def edit(tree: Any) -> None:
        for key in path[:-1]:
            tree = tree[key]
        tree[path[-1]] = to

    return data(edit)


SURE = r'data-claim="(leads_surely|leads_here)">[^<]*'
PLANTED: dict[str, Html] = {
    "the error of the first sentence": text(r"off by about [\d.]+", "off by about 9.87"),
    "the error of the alternative": text(r"average would be off by [\d.]+", "average would be off by 9.87"),
    "a comparison of both": text(r"(average would be off by [\d.]+)", r"\1, less than the model"),
    "the number of rows": text(r"On these 400 rows", "On these 399 rows"),
    "the feature that leads": text(r"depends most on a: when a is", "depends most on c: when c is"),
    "the number of the leader": text(r"(when a is shuffled between rows[^<]*?off by )[\d.]+", r"\g<1>9.87"),
    "no sure feature": text(SURE, 'data-claim="no_single_feature">No single feature surely matters: when a is'),
    "a feature that surely matters is uncertain": text(r"(It is uncertain[^<]*? with )[^<]* shuffled", r"\1a shuffled"),
    "an uncertain feature surely matters": text(r"(On new rows, too[^<]*? with )[^<]* shuffled", r"\1c shuffled"),
    "a mark": text(r'<circle class="sure"', '<circle class="unsure"'),
    "the place of a mark": text(r'(<circle class="sure" cx=")[\d.]+%', r"\g<1>1.00%"),
    "a number of the picture": text(r'(data-name="leading-0" data-value="[^"]*">)[\d.]+', r"\g<1>9.87"),
    "an interval of the picture": text(r'(<td class="number between">)[\d.]+ to', r"\g<1>0.12 to"),
    "a p-value of the table": at("features", 0, "models", 0, "p", to=0.3),
    "an importance of the table": at("features", 0, "models", 0, "pfi", to=1234.5),
    "the order of the features": data(lambda tree: tree["features"].reverse()),
    "an interval that leaves out its number": at("models", 0, "error_high", to=0.001),
    "a difference of two models": at("compared", "differences", 0, "error", "value", to=-99.0),
    "a difference of two groups": at("for_whom", "models", 0, "differences", 0, "error", "value", to=-99.0),
    "a share": at("features", 0, "models", 0, "share", to=0.123),
    "how much smaller the error is": at("models", 0, "skill", to=0.123),
    "the rows of a segment": text(r'(data-claim="error_is_larger">Where [^(]*\()\d+', r"\g<1>77"),
    "the error of a segment": at("segments", "segments", 0, "error", to=1.5),
    "the error of a group": text(r'(data-claim="errors_differ">[^<]*? is 1, )[\d.]+', r"\g<1>98.76"),
    "an interaction": text(r'(data-claim="works_together">[^<]*?(?:: |adds ))[\d.]+', r"\g<1>98.76"),
    "a share in a sentence": text(r'(data-claim="largest_shares">[^<]*?go to a \()[\d.]+', r"\g<1>12.3"),
}  # fmt: skip


@pytest.mark.parametrize("planted", PLANTED.values(), ids=list(PLANTED))
def test_a_planted_contradiction_is_found(page: str, planted: Html) -> None:
    changed = planted(page)
    assert changed != page
    assert contradictions(changed)


def test_a_section_by_another_criterion_is_found() -> None:
    y = (Y > 0).astype(int)
    by_score = ll.report(
        LogisticRegression().fit(X, y), X, y, shapley=False, interactions=False, **(OPTIONS | {"loss": "roc_auc"})
    ).html()
    assert contradictions(by_score) == []
    for planted in (
        text("Errors here are measured by the log loss", "Errors here are measured by the squared error"),
        text(r"<caption>The ROC AUC", "<caption>The log loss"),
        text(r"(when a is shuffled between rows[^<]*?, its )ROC AUC", r"\1log loss"),
    ):
        assert contradictions(planted(by_score))


def test_what_the_script_draws_is_what_is_checked(opened: Any, report: Any) -> None:
    """Every number that the check takes for a cell of the script's tables is drawn, and the drawn page agrees."""
    drawn = opened(report.summary)
    assert contradictions(drawn.content()) == []
    seen = numbers_in(drawn.locator("body").inner_text())
    for radio in drawn.locator("input[name=model]").all():
        radio.check()
        for k in range(len(report.summary["features"])):
            drawn.locator("button.feature").nth(k).click()
            seen |= numbers_in(drawn.locator("main").inner_text())
    cells = numbers_in(" ".join(by_script(Rendered.of(report.html()).data)))
    assert len(cells) > 60
    assert cells - seen == set()


def test_the_number_of_rows_of_a_list_is_no_number_of_a_table() -> None:
    """More rows stand out than are listed: the sentence counts the lines of its own list."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 2))
    y = X[:, 0] + 0.1 * rng.normal(size=600)
    wrong = np.flatnonzero(np.abs(X[:, 0]) > 1)[:40]
    y[wrong] = -6 * X[wrong, 0]
    page = ll.report(lambda X: X[:, 0], X, y, loss="squared_error", random_state=0, progress=False)
    assert "The clearest 20 of " in page.summary["rows"]["remark"]
    assert page.check() == []
