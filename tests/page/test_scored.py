"""The page by a score: its numbers are those of the library, and its sentences hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.tree import DecisionTreeClassifier

import losslens as ll
from browser import value
from claims import KINDS, drawn, false, told_by_score, unknown
from losslens.page.embedding import embedded
from losslens.page.leading import leading
from losslens.text import CLAIMS, Sentence

Open = Callable[..., Any]
RNG = np.random.default_rng(3)
N = 90
X = pd.DataFrame({"a": RNG.normal(size=N), "b": RNG.normal(size=N).round(1), "c": RNG.integers(0, 3, N)})
Y = np.where(X["a"] + 0.5 * X["b"] + RNG.normal(size=N) > 0, "yes", "no")
SITE = np.where(Y == "no", np.where(np.arange(N) % 3 == 0, "only no", "one"), np.where(np.arange(N) % 2, "one", "two"))
SITE[:6] = "two"
LOGISTIC, TREE = LogisticRegression().fit(X, Y), DecisionTreeClassifier(max_depth=1).fit(X, Y)
OPTIONS: dict[str, Any] = {"shapley": False, "interactions": False, "random_state": 0, "progress": False}


@pytest.fixture(scope="module")
def report() -> Any:
    return ll.report(LOGISTIC, X, Y, models={"tree": TREE}, loss="roc_auc", by=pd.Series(SITE, name="site"), **OPTIONS)


def test_the_numbers_of_the_score_are_the_librarys(report: Any) -> None:
    found, score = ll.compare({"this model": LOGISTIC, "tree": TREE}, X, Y, loss="roc_auc"), report.summary["score"]
    errors = found.errors().set_index("model")
    for model in score["models"]:
        numbers = errors.loc[model["name"]]
        assert (model["base"], model["low"]) == pytest.approx((numbers["score"], numbers["low"]))
        assert model["high"] == pytest.approx(min(numbers["high"], 1))
    first = found.importances["this model"]
    assert [feature["name"] for feature in score["features"]] == [one.name for one in first._ranked]
    for feature in score["features"]:
        for name, entry in zip(found.names, feature["models"], strict=True):
            one = found.importances[name][feature["name"]]
            assert (entry["pfi"], entry["low"], entry["high"]) == pytest.approx((one.pfi, *one.interval()))
    assert score["differences"][0]["value"] == pytest.approx(found.error_difference("tree", "this model").value)


def test_groups_have_scores_with_donors_from_all_rows(report: Any) -> None:
    groups = report.summary["score"]["groups"]
    scores = ll.feature_importance(LOGISTIC, X, Y, loss="roc_auc").by(SITE)
    assert [group["label"] for group in groups["groups"]] == list(scores)
    for group in groups["groups"]:
        one = scores[group["label"]]
        assert group["base"] == pytest.approx(one.score, nan_ok=True)
        expected = [one[name].pfi for name in groups["features"]]
        assert [entry["pfi"] for entry in group["importances"]] == pytest.approx(expected, nan_ok=True)
    rows = SITE == "two"
    two = next(group for group in groups["groups"] if group["label"] == "two")
    assert two["base"] == pytest.approx(roc_auc_score(Y[rows] == "yes", LOGISTIC.decision_function(X[rows])))
    few = {"groups": [group | {"n": 9 if group["label"] == "one" else group["n"]} for group in groups["groups"]]}
    summary = report.summary | {"score": report.summary["score"] | {"groups": groups | few}}
    kept = embedded(summary, "none", np.random.default_rng(0))["score"]["groups"]["groups"]
    assert [group["label"] for group in kept] == ["only no", "two"]


def test_the_first_screen_is_about_the_score_and_the_rest_about_the_loss_it_names(opened: Open, report: Any) -> None:
    score, words = report.summary["score"], report.summary["words"]
    assert [text.claim for text in words["opening"][:2]] == ["how_well", "leads_surely"]
    assert "that of tree 0." in words["opening"][0]
    assert report.summary["loss"]["title"] == "log loss"
    picture = leading(report.summary)
    assert picture["measure"] == "The ROC AUC"
    row, entry = picture["rows"][0], score["features"][0]["models"][0]
    base = score["models"][0]["base"]
    assert (row["value"], row["low"], row["high"]) == pytest.approx(
        (base - entry["pfi"], base - entry["high"], base - entry["low"])
    )
    page = opened(report.summary)
    assert value(page, "score-0-a") == pytest.approx(entry["pfi"])
    shown = page.locator("#score").inner_text()
    assert "From here on: log loss." in shown
    assert "falls when a feature" in shown
    assert "nan" not in shown
    assert "Errors here are measured by the log loss." in page.locator("#models").inner_text()


def test_an_error_that_a_scorer_negates_grows() -> None:
    y = X["a"].to_numpy() + RNG.normal(size=N)
    model = LinearRegression().fit(X, y)
    found = ll.report(model, X, y, loss="neg_mean_absolute_error", embed="none", **OPTIONS).summary
    assert "its mean absolute error is" in found["words"]["opening"][0]
    assert "smaller is better" in found["words"]["opening"][0]
    row = leading(found)["rows"][0]
    assert row["name"] == "a"
    assert row["value"] > found["score"]["models"][0]["base"] > 0


def test_a_report_by_a_score_has_a_plan() -> None:
    plan = ll.plan(ll.report, LOGISTIC, X, Y, loss="roc_auc", **(OPTIONS | {"shapley": True}))
    assert any("by the score" in stage.name for stage in plan.stages)


def test_sentences_about_scores_hold() -> None:
    """One data set of each kind: what is about these rows is never false, and each sentence is a known one."""
    wrong: Counter[str] = Counter()
    made = set()
    for kind in KINDS:
        case = drawn(kind, 0, min(kind.n, 30))
        said = told_by_score(case)
        assert unknown(said) == []
        wrong.update(text.claim for text in false(case, said))
        made |= {text.claim for text in said["words"] if isinstance(text, Sentence)}
    assert {name: times for name, times in wrong.items() if times > (1 if CLAIMS[name] else 0)} == {}
    assert {"how_well", "how_score", "leads_surely", "leads_here", "surely_matter"} <= made
