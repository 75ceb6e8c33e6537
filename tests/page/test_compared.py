"""Several models on the page: paired differences are those of `compare`, and none is said to be better by chance."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom

import losslens as ll
from browser import set_range, value
from losslens.page.groups import compared

Open = Callable[..., Any]
RNG = np.random.default_rng(8)
X = pd.DataFrame({"a": RNG.normal(size=160), "b": RNG.normal(size=160).round(1)})
Y = X["a"].to_numpy() + X["b"].to_numpy() + RNG.normal(size=160)


def first(rows: Any) -> Any:
    return rows["a"].to_numpy() + rows["b"].to_numpy()


MODELS = {"only a": lambda rows: rows["a"].to_numpy(), "wrong": lambda rows: -rows["b"].to_numpy()}


@pytest.fixture(scope="module")
def report() -> Any:
    options = {"shapley": False, "interactions": False, "random_state": 0, "progress": False}
    return ll.report(first, X, Y, models=MODELS, loss="squared_error", **options)


@pytest.fixture(scope="module")
def comparison() -> Any:
    return ll.compare({"this model": first} | MODELS, X, Y, loss="squared_error", shapley=False)


def test_differences_are_those_of_compare(report: Any, comparison: Any) -> None:
    names = list(comparison.names)
    features = [feature["name"] for feature in report.summary["features"]]
    found = report.summary["compared"]["differences"]
    assert [(one["first"], one["second"]) for one in found] == [(0, 1), (0, 2), (1, 2)]
    for one in found:
        pair = names[one["first"]], names[one["second"]]
        expected = comparison.error_difference(*pair)
        assert (one["error"]["low"], one["error"]["high"]) == pytest.approx((expected.low, expected.high))
        for name, shown in zip(features, one["importances"], strict=True):
            each = comparison.difference(name, *pair)
            numbers = (shown["value"], shown["low"], shown["high"], shown["p"])
            assert numbers == pytest.approx((each.value, each.low, each.high, each.p_value))


def test_the_page_shows_them_from_the_model_that_is_chosen(opened: Open, report: Any, comparison: Any) -> None:
    page = opened(report.summary)
    assert value(page, "model-difference-1") == pytest.approx(comparison.error_difference("only a", "this model").value)
    page.locator("#model-base").select_option(label="wrong")
    assert value(page, "model-difference-0") == pytest.approx(comparison.error_difference("this model", "wrong").value)
    place = [feature["name"] for feature in report.summary["features"]].index("b")
    assert value(page, f"model-pfi-{place}-0") == pytest.approx(comparison.difference("b", "this model", "wrong").value)
    page.locator("#model-base").select_option(label="this model")
    set_range(page, "b", "-0.5", "0.5")
    rows = (X["b"] >= -0.5) & (X["b"] <= 0.5)
    part = ll.compare({"this model": first} | MODELS, X[rows], Y[rows], loss="squared_error", shapley=False)
    expected = part.error_difference("wrong", "this model")
    assert value(page, "model-difference-2") == pytest.approx(expected.value, rel=1e-6)
    shown = page.locator('output[data-name="model-difference-2"]')
    low, high = (float(shown.get_attribute(f"data-{end}")) for end in ("low", "high"))
    assert (low, high) == pytest.approx((expected.low, expected.high), rel=1e-3)


def test_a_model_that_is_surely_better_is_named(report: Any) -> None:
    assert [text.claim for text in report.summary["compared"]["sentences"]] == ["smallest_error"]
    assert "this model surely has the smallest error" in report.summary["compared"]["sentences"][0]


def test_equal_models_are_seldom_said_to_differ() -> None:
    """Predictions with independent noise of the same size have the same error on new rows: 120 data sets."""
    wrong = 0
    for seed in range(120):
        rng = np.random.default_rng(seed)
        rows = rng.normal(size=(80, 3))
        y = rng.normal(size=80)
        each = {f"x{j}": ll.feature_importance(lambda X, j=j: 0.5 * X[:, j], rows, y, loss="squared_error",
                                               features=["x0"]) for j in range(3)}  # fmt: skip
        found = compared(each, ["x0"])
        assert found is not None
        claims = {text.claim for text in found["sentences"]}
        assert len(claims) == 1
        wrong += "smallest_error" in claims
    assert wrong <= binom.isf(0.001, 120, 0.05)


def test_one_model_is_not_compared() -> None:
    assert compared({"one": None}, []) is None  # type: ignore[dict-item]
