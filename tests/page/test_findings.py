"""Findings in the report: the numbers are the library's, the page shows them, and what was not found has no place."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression

import losslens as ll
from browser import members, set_range, value
from losslens.page.page import html
from losslens.results.sentences import ALIKE
from summaries import Made, made, with_findings

Open = Callable[..., Any]
N = 400
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 5)).round(2)
X[:, 2] = RNG.integers(0, 2, N)
X[:, 4] = X[:, 3] + 0.05 * X[:, 4]  # tied to x3


def model(X: Any) -> Any:
    """x0 and x2 work together, x1 is for itself, x3 and x4 go together."""
    X = np.asarray(X)
    return 2 * X[:, 0] * X[:, 2] + X[:, 1] + X[:, 3]


Y = model(X) + 0.1 * RNG.normal(size=N)
Y[7] = -20.0  # a wrong target
ASKED: dict[str, Any] = {"loss": "squared_error", "random_state": 0}


@pytest.fixture(scope="module")
def summary() -> dict[str, Any]:
    return dict(ll.report(model, X, Y, **ASKED).summary)


@pytest.fixture(scope="module")
def imp() -> Any:
    return ll.feature_importance(model, X, Y, **ASKED)


@pytest.fixture(scope="module")
def shares() -> Any:
    return ll.shapley_importance(model, X, Y, **ASKED)


def named(summary: dict[str, Any]) -> dict[str, Any]:
    return {feature["name"]: feature for feature in summary["features"]}


# Numbers.


def test_extrapolation_is_the_librarys(summary: dict[str, Any], imp: Any) -> None:
    for name, feature in named(summary).items():
        told, one = feature["extrapolation"], imp[name].extrapolation
        assert (told["auc"], told["share"], told["warns"]) == (one.auc, one.share, one.warns)
        np.testing.assert_array_equal(told["faded"], one.faded)
        assert bool(told["sentence"]) == one.warns
    assert named(summary)["x3"]["extrapolation"]["warns"]
    assert not named(summary)["x1"]["extrapolation"]["warns"]
    assert any("x3" in text and "unrealistic rows" in text for text in summary["words"]["careful"])


def test_curves_on_bins_fade_by_the_mean_share_of_a_bin(monkeypatch: pytest.MonkeyPatch, imp: Any) -> None:
    monkeypatch.setattr(importlib.import_module("losslens.page.sizes"), "MOST_CELLS", 0)
    found = ll.report(model, X, Y, shapley=False, interactions=False, features=["x3"], **ASKED).summary
    feature, one = found["features"][0], imp["x3"]
    own = dict(zip(X[:, 3].tolist(), feature["own"].tolist(), strict=True))
    place = np.array([own[v] for v in one.grid.tolist()])
    share = np.bincount(place, one.weights * one.extrapolation.at) / np.bincount(place, one.weights)
    np.testing.assert_array_equal(feature["extrapolation"]["faded"], share > 0.5)
    assert len(share) < len(one.grid)


def test_regions_are_the_librarys(summary: dict[str, Any], imp: Any) -> None:
    found = imp.regions(X)
    assert "x0" in found.found
    for name, feature in named(summary).items():
        assert (feature["regions"] is not None) == any(text.startswith(f"{name} ") for text in found.sentences)
    told = named(summary)["x0"]["regions"]
    expected = found._shown("x0")
    assert [one["rule"] for one in told["tree"]] == [region.rule for region in expected]
    for one, region in zip(told["tree"], expected, strict=True):
        assert (one["n"], one["pfi"], one["low"], one["high"]) == (region.n, region.pfi, region.low, region.high)
        assert one["p"] == region.p or region.depth == 0
    (sentence,), more = told["sentences"], max(expected[1:3], key=lambda side: side.pfi)
    start = f"x0 matters more where {more.rule} ({more.n} rows): with it replaced the root mean squared error goes from"
    assert sentence.startswith(start)


def test_many_rows_and_features_are_looked_at_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("losslens.verbs.report.REGION_ROWS", 300)
    monkeypatch.setattr("losslens.verbs.report.REGION_CELLS", 300 * N)
    found = ll.report(model, X, Y, shapley=False, interactions=False, **ASKED).summary
    said = "Regions were searched for the 1 most important feature, on a random sample of 300 rows."
    assert said in found["words"]["computed"]
    with_regions = [feature for feature in found["features"] if feature["regions"]]
    assert [feature["name"] for feature in with_regions] == [found["features"][0]["name"]]
    assert with_regions[0]["regions"]["tree"][0]["n"] == 300


def test_pairs_are_the_librarys(summary: dict[str, Any]) -> None:
    told = summary["interactions"]
    expected = ll.pair_interactions(model, X, Y, donors="all", **ASKED)
    assert told["n_pairs"] == len(told["pairs"]) == 10
    best = told["pairs"][0]
    assert {best["first"], best["second"]} == {"x0", "x2"}
    assert best["low"] < expected.interaction["x0", "x2"] < best["high"]
    m = re.search(r"sampled with Latin\((\d+)\)", told["how"])
    assert m, told["how"]  # all pairs of rows, 15 times, would be more than the importances took
    again = ll.pair_interactions(model, X, Y, features=told["features"], donors=ll.Latin(int(m[1])), **ASKED)
    one = again.interaction.estimates()["x0 x x2"]
    assert (best["value"], best["low"], best["high"]) == (again.interaction["x0", "x2"], one.low, one.high)
    sentence = f"{best['first']} and {best['second']} work together in the model: "
    assert any(text.startswith(sentence) for text in summary["words"]["sentences"])


def test_a_model_that_only_adds_is_never_said_to_combine_features() -> None:
    """Income and debt, r = .92, in a linear model: they have much in common, all of it shared information."""
    rng = np.random.default_rng(0)
    income, age = rng.normal(size=N), rng.normal(size=N)
    debt = 0.92 * income + np.sqrt(1 - 0.92**2) * rng.normal(size=N)
    table = pd.DataFrame({"income": income, "debt": debt, "age": age})
    y = 2 * income - 3 * debt + age + 0.5 * rng.normal(size=N)
    for fitted in (LinearRegression().fit(table, y), lambda X: 2 * X["income"] - 3 * X["debt"] + X["age"]):
        pairs = ll.pair_interactions(fitted, table, y, **ASKED)
        assert pairs["income", "debt"] > 10
        assert pairs.p_adjusted[0, 1] < 1e-20
        found = ll.report(fitted, table, y, shapley=False, **ASKED).summary
        assert not any("work together" in text for text in found["words"]["sentences"])
        assert all((one["value"], one["p"]) == (0, 1) for one in found["interactions"]["pairs"])


def test_a_loss_without_parts_has_no_pairs_on_the_page() -> None:
    label = np.where(X[:, 0] * X[:, 1] > 0, "yes", "no")
    fitted = RandomForestClassifier(5, random_state=0).fit(X, label)
    found = ll.report(fitted, X, label, loss="zero_one", shapley=False, random_state=0).summary
    assert found["interactions"] is None
    assert any("model combines features is unknown: labels can't" in text for text in found["words"]["computed"])
    assert not any("work together" in text for text in found["words"]["sentences"])


def test_exact_engines_look_at_every_pair_of_rows() -> None:
    from sklearn.ensemble import HistGradientBoostingRegressor

    trees = HistGradientBoostingRegressor(max_iter=10, random_state=0).fit(X, Y)
    told = ll.report(trees, X, Y, shapley=False, interactions=3, random_state=0).summary["interactions"]
    assert told["how"].startswith("The 3 most important features in pairs: exact over all pairs of rows")
    expected = ll.pair_interactions(trees, X, Y, features=told["features"], random_state=0)
    for one in told["pairs"]:
        assert one["value"] == pytest.approx(expected.interaction[one["first"], one["second"]], abs=1e-12)


def test_pairs_take_no_more_predictions_than_they_may(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two columns of two values take 2 N predictions each; with both together it is 8 N, and 15 N by five donors."""
    monkeypatch.setattr("losslens.verbs.report.PAIR_PREDICTIONS", 0)
    allowed = ll.feature_importance(model, X, Y, **ASKED).n_predictions
    told = ll.report(model, X, Y, shapley=False, **ASKED).summary["interactions"]
    assert int(told["how"].split(" ")[-2].replace(",", "")) <= allowed + N  # the rows themselves, once
    few = (X[:, :2] > 0).astype(float)
    none = ll.report(lambda X: X[:, 0] * X[:, 1], few, Y, shapley=False, **ASKED).summary
    assert none["interactions"] is None
    assert any("Pairs of features were not computed" in text for text in none["words"]["computed"])


def test_rows_are_the_librarys(summary: dict[str, Any], shares: Any, imp: Any) -> None:
    told, expected = summary["rows"], shares.rank_rows(imp)
    np.testing.assert_allclose(told["importance"], expected.importance)
    np.testing.assert_array_equal(told["suspicious"], expected.suspicious)
    assert told["suspicious"][0] == 7
    np.testing.assert_allclose(told["influence"], expected.influence[expected.suspicious])
    assert told["influence_on"] == expected.influence_on[expected.suspicious].tolist()
    assert told["hurt"] == (expected.importance < 0).sum()
    assert told["fence"] == pytest.approx(expected.fence)
    assert any("wrong" in text for text in summary["words"]["sentences"])


def test_clusters_are_the_librarys(summary: dict[str, Any], shares: Any) -> None:
    told, expected = summary["clusters"], shares.clusters(X, random_state=0)
    np.testing.assert_array_equal(told["labels"], expected.labels)
    assert [one["n"] for one in told["clusters"]] == expected.sizes.tolist()
    assert [one["rule"] for one in told["clusters"]] == list(expected.rules)
    profile = dict(zip(expected.features, expected.profiles[0].tolist(), strict=True))
    for known in told["clusters"][0]["known_by"]:
        assert known["value"] == pytest.approx(profile[known["name"]])
    assert ("no clusters" in told["sentence"]) == (expected.k == 1)


def test_every_stability_has_its_words() -> None:
    assert [next(words for least, words in ALIKE if not s < least) for s in (1.0, 0.85, 0.7, -0.1)] == [
        "nearly the same", "much the same", "similar", "not the same",
    ]  # fmt: skip


# Other kinds of reports.


def test_without_shares_nothing_is_said_of_rows() -> None:
    found = ll.report(model, X, Y, shapley=False, interactions=False, **ASKED).summary
    assert found["rows"] is found["clusters"] is found["interactions"] is None
    assert any("Shapley shares were not requested" in text for text in found["words"]["computed"])
    page = html(found)
    for section in ("rows", "together"):
        assert f'<section id="{section}"' not in page


def test_groups_weights_classes_and_further_models() -> None:
    label = np.where(X[:, 0] + X[:, 1] > 0, "yes", "no")
    one, other = LogisticRegression().fit(X, label), LogisticRegression(C=0.01).fit(X, label)
    groups = {"both": ["x0", "x1"], "x2": ["x2"], "x3": ["x3"]}
    weight = RNG.uniform(0, 2, N).round()
    found = ll.report(
        one, X, label, models={"tame": other}, features=groups, sample_weight=weight, random_state=0
    ).summary
    assert sorted(found["interactions"]["features"]) == sorted(groups)
    assert named(found)["both"]["extrapolation"]["faded"] is None
    assert len(found["rows"]["importance"]) == N
    assert np.isfinite(named(found)["x3"]["models"][0]["pi"]).all()  # at values that only rows of weight 0 hold, too
    assert html(found)


def test_of_groups_that_share_columns_one_meets_the_others() -> None:
    groups = {"both": ["x0", "x1"], "again": ["x1", "x2"], "x3": ["x3"]}
    found = ll.report(model, X, Y, features=groups, shapley=False, **ASKED).summary
    strongest = next(feature["name"] for feature in found["features"] if feature["name"] != "x3")
    assert set(found["interactions"]["features"]) == {strongest, "x3"}


def test_few_rows_find_little_and_fail_at_nothing() -> None:
    found = ll.report(model, X[:3], Y[:3], **ASKED).summary
    assert not any(feature["regions"] for feature in found["features"])
    assert html(found)


@pytest.mark.parametrize("interactions", [1, -3, 2.5, "all"])
def test_numbers_of_features_that_meet(interactions: Any) -> None:
    with pytest.raises(ValueError, match="interactions is True, False or a number of features"):
        ll.report(model, X, Y, interactions=interactions, **ASKED)


# In a browser.


def drawn(page: Any, name: str) -> np.ndarray[Any, Any]:
    data = page.evaluate(f"Array.from(Bokeh.documents.at(-1).get_model_by_name('{name}').data.y, (y) => y)")
    return np.array([np.nan if y is None else y for y in data], float)


def test_a_page_shows_its_findings(opened: Open) -> None:
    summary = with_findings(made(n=90))
    page = opened(summary)
    first = summary["features"][0]
    assert page.locator(".ranking .far").count() == 1
    assert first["extrapolation"]["sentence"] in page.locator("#feature-far").inner_text()
    assert page.locator("#regions").is_visible()
    assert value(page, "region-1") == first["regions"]["tree"][1]["pfi"]
    assert "0.0030" in page.locator("#regions-body tr").nth(1).inner_text()
    assert value(page, "pair-0") == 2.5
    assert page.locator("#together .hollow").count() == 1
    page.locator("#together button.name").nth(1).click()
    assert page.locator("#feature-name").inner_text() == summary["interactions"]["pairs"][0]["second"]
    assert page.locator("#feature-far").is_hidden()
    assert page.locator("#regions").is_hidden()
    np.testing.assert_allclose(value(page, "worth-89"), summary["rows"]["importance"][89], rtol=1e-6)
    page.locator("#suspicious-body tr").nth(1).click()
    assert page.locator("#card").get_attribute("data-row") == "88"


def test_curves_are_faded_for_everybody_and_for_a_subgroup(opened: Open) -> None:
    summary = with_findings(made(n=90, words=False))  # categories are no curves
    page = opened(summary)
    feature = summary["features"][0]
    faded = feature["extrapolation"]["faded"]
    pi = np.sqrt(summary["models"][0]["error"] + feature["models"][0]["pi"])  # the root of the error there
    np.testing.assert_allclose(drawn(page, "pi-mean"), np.where(faded, np.nan, pi), rtol=1e-6)
    beside = faded | np.append(False, faded[:-1])  # up to the first value that is not
    np.testing.assert_allclose(drawn(page, "pi-faded"), np.where(beside, pi, np.nan), rtol=1e-6)
    set_range(page, "b", "0", "9")
    for side in ("pi", "pd"):
        assert np.isnan(drawn(page, f"{side}-mean"))[faded].all()
        assert np.isfinite(drawn(page, f"{side}-faded"))[faded].all()
    page.locator("button.feature").nth(1).click()
    assert len(drawn(page, "pi-faded")) == 0
    assert np.isfinite(drawn(page, "pi-mean")).all()


def test_a_cluster_is_looked_at_as_a_subgroup(opened: Open) -> None:
    summary = with_findings(made(n=90, models=2))
    page = opened(summary)
    page.locator('#clusters-body button[data-cluster="1"]').click()
    assert members(page) == summary["clusters"]["clusters"][1]["n"]
    assert "cluster 2" in page.locator("#subgroup-words").inner_text()
    page.get_by_label("model 1").check()
    assert members(page) == summary["clusters"]["clusters"][1]["n"]
    assert page.locator("#regions").is_hidden()  # they are the first model's
    set_range(page, "row importance, forest", "-9", "0")
    rows = (summary["clusters"]["labels"] == 1) & (summary["rows"]["importance"] <= 0)
    assert members(page) == rows.sum() > 0


def test_a_page_without_findings_has_no_empty_places(opened: Open) -> None:
    page = opened(made(n=60))
    for place in ("#together", "#rows"):
        assert page.locator(place).count() == 0
    assert page.locator("#regions").is_hidden()
    assert page.locator("#feature-far").is_hidden()
    assert page.locator(".far:visible").count() == 0


@pytest.mark.parametrize("width", [390, 1200])
def test_findings_fit_the_screen(opened: Open, width: int) -> None:
    summary: Made = with_findings(made(n=60, names=("a" * 70, "b c " * 20, "c")))
    page = opened(summary, viewport={"width": width, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_report_of_the_library_opens(opened: Open, summary: dict[str, Any]) -> None:
    page = opened(summary)
    assert value(page, "pair-0") == summary["interactions"]["pairs"][0]["value"]
    assert page.locator("#suspicious-body tr").count() == len(summary["rows"]["suspicious"])
