"""Intervals that the page computes in the browser, against the library's own of the same rows."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from importlib.resources import files
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t as student

import losslens as ll
from browser import members, set_range, value
from losslens.page.quality import error_ends

Open = Callable[..., Any]
N = 150


def model(rows: Any) -> Any:
    return rows["a"].to_numpy() * (1 + rows["b"].to_numpy()) + rows["c"].to_numpy()


def data(n: int = N) -> tuple[pd.DataFrame, Any, Any]:
    rng = np.random.default_rng(3)
    X = pd.DataFrame({"a": rng.normal(size=n), "b": rng.normal(size=n).round(1), "c": rng.integers(0, 5, n)})
    return X, model(X) + rng.exponential(1.0, n), rng.uniform(0.2, 2.0, n)


def scripts(*names: str) -> str:
    return "\n".join((files("losslens.page") / "assets" / f"{name}.js").read_text() for name in names)


def test_students_quantile_is_that_of_scipy(chromium: Any) -> None:
    freedoms = [1.0, 1.5, 2.0, 2.7, 5.0, 9.9, 30.0, 123.4, 4999.0, 1e5]
    page = chromium.new_page()
    found = page.evaluate(
        f"() => {{ {scripts('intervals')}; return {json.dumps(freedoms)}.map((f) => studentQuantile(f)); }}"
    )
    page.close()
    np.testing.assert_allclose(found, student.ppf(0.975, freedoms), rtol=1e-9)


def shown(page: Any, name: str) -> tuple[float, float, float]:
    found = page.locator(f'output[data-name="{name}"]').first
    return tuple(float(found.get_attribute(f"data-{key}")) for key in ("value", "low", "high"))  # type: ignore[return-value]


TEN = [("b", low / 10, low / 10 + 1) for low in range(-15, 5, 4)] + [("a", low / 10, 9.0) for low in range(-8, 12, 4)]


@pytest.mark.parametrize("loss", ["squared_error", "log_loss"])
def test_ten_subgroups_of_two_models_have_the_librarys_numbers(opened: Open, loss: str) -> None:
    """Rows, error, `given` and `subset` of the first model, and `given` of the second: regression, and classes."""
    X, y, _ = data()

    def classes(slope: float) -> Callable[[Any], Any]:
        return lambda rows: np.column_stack([1 - (p := 1 / (1 + np.exp(-slope * model(rows)))), p])

    first, other = (model, lambda rows: 0.9 * model(rows)) if loss == "squared_error" else (classes(1.0), classes(0.5))
    target = y if loss == "squared_error" else (y > 1).astype(int)
    asked = {"loss": loss, "random_state": 0, "progress": False}
    page = opened(
        ll.report(first, X, target, models={"other": other}, shapley=False, interactions=False, **asked).summary
    )
    one, two = (ll.feature_importance(each, X, target, **asked)["a"] for each in (first, other))
    page.locator("button.feature", has_text=re.compile("^a")).first.click()
    for column, low, high in TEN:
        set_range(page, column, str(low), str(high))
        rows = ((X[column] >= low) & (X[column] <= high)).to_numpy()
        assert members(page) == rows.sum() > 2
        assert shown(page, "subgroup-error")[0] == pytest.approx(one.given(rows).error, rel=1e-6)
        for name, exact in (("given", one.given(rows)), ("subset", one.subset(rows))):
            assert shown(page, f"pfi-{name}")[0] == pytest.approx(exact.pfi, rel=1e-6, abs=1e-6 * exact.std_error)
        page.locator("#model-choice input").nth(1).check()
        assert value(page, "pfi-given") == pytest.approx(two.given(rows).pfi, rel=1e-6, abs=1e-6 * two.std_error)
        page.locator("#model-choice input").nth(0).check()
        page.locator("#clear").click()


@pytest.mark.parametrize("weighted", [False, True], ids=["even", "weighted"])
def test_subgroups_have_the_librarys_intervals(opened: Open, weighted: bool) -> None:
    """Whole cells: errors and both importances of three subgroups, to six digits of the interval's width."""
    X, y, weight = data()
    w = weight if weighted else None
    report = ll.report(
        model, X, y, loss="squared_error", sample_weight=w, shapley=False, interactions=False, random_state=0,
        progress=False,
    )  # fmt: skip
    imp = ll.feature_importance(model, X, y, loss="squared_error", sample_weight=w)
    page = opened(report.summary)
    places = {feature["name"]: place for place, feature in enumerate(report.summary["features"])}
    for column, low, high in (("b", -0.5, 0.5), ("a", 1.3, 9), ("b", -9, 9)):
        set_range(page, column, str(low), str(high))
        rows = ((X[column] >= low) & (X[column] <= high)).to_numpy()
        assert members(page) == rows.sum()
        value, *ends = shown(page, "subgroup-error")
        given = imp["a"].given(rows)
        assert value == pytest.approx(given.error, rel=1e-6)
        np.testing.assert_allclose(ends, error_ends(given), rtol=1e-6)
        for name, place in places.items():
            page.locator(f'button.feature[data-feature="{place}"]').click()
            for donors, exact in (("given", imp[name].given(rows)), ("subset", imp[name].subset(rows))):
                value, *ends = shown(page, f"pfi-{donors}")
                assert value == pytest.approx(exact.pfi, rel=1e-6)
                np.testing.assert_allclose(ends, exact.interval(), rtol=1e-6, atol=1e-6 * exact.std_error)
        page.locator("#clear").click()


def test_low_rank_cells_have_intervals_to_the_stated_error(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer bins and ranks than the cells have: the width is off by no more than the page says, and that is little."""
    monkeypatch.setattr("losslens.page.sizes.MOST_CELLS", 1000)
    monkeypatch.setattr("losslens.page.sizes.MOST_BINS", 40)
    X, y, weight = data(400)
    report = ll.report(
        model, X, y, loss="squared_error", sample_weight=weight, shapley=False, interactions=False, random_state=0,
        progress=False,
    )  # fmt: skip
    imp = ll.feature_importance(model, X, y, loss="squared_error", sample_weight=weight)
    page = opened(report.summary)
    for column, low, high in (("b", -0.5, 0.5), ("a", 0.2, 9)):
        set_range(page, column, str(low), str(high))
        rows = ((X[column] >= low) & (X[column] <= high)).to_numpy()
        for place, feature in enumerate(report.summary["features"]):
            page.locator(f'button.feature[data-feature="{place}"]').click()
            for donors, exact in (
                ("given", imp[feature["name"]].given(rows)),
                ("subset", imp[feature["name"]].subset(rows)),
            ):
                _, *ends = shown(page, f"pfi-{donors}")
                off = float(page.locator(f'output[data-name="pfi-{donors}"]').get_attribute("data-off"))
                assert 0 < off < 0.3
                true = exact.interval()
                assert abs((ends[1] - ends[0]) - (true[1] - true[0])) <= off * (ends[1] - ends[0])
        page.locator("#clear").click()


def test_small_subgroups_are_said_to_be_small(opened: Open) -> None:
    X, y, _ = data()
    report = ll.report(
        model, X, y, loss="squared_error", shapley=False, interactions=False, random_state=0, progress=False
    )
    page = opened(report.summary)
    values = np.sort(X["a"].to_numpy())
    set_range(page, "a", str(values[-5] - 1e-6), "9")
    assert members(page) == 5
    assert "count as 5 of equal weight" in page.locator("#feature-numbers").inner_text()
    assert "count as 5 of equal weight" in page.locator("#subgroup-error .far").get_attribute("title")
    set_range(page, "a", str(values[-2] - 1e-6), "9")
    assert members(page) == 2
    assert "needs at least 3 rows" in page.locator("#feature-numbers").inner_text()
    assert "too few rows" in page.locator("#subgroup-error").inner_text()


def test_without_cells_there_is_no_interval_and_it_is_said_why(opened: Open) -> None:
    """A group of columns, and a further model, whose cells the page does not hold."""
    X, y, _ = data()
    report = ll.report(
        model, X, y, loss="squared_error", models={"other": lambda rows: 0.9 * model(rows)},
        features={"a": ["a"], "b and c": ["b", "c"]}, shapley=False, interactions=False, random_state=0, progress=False,
    )  # fmt: skip
    page = opened(report.summary)
    set_range(page, "b", "-0.5", "0.5")
    for name, words in (("b and c", "a group of columns"), ("a", "95%")):
        place = [feature["name"] for feature in report.summary["features"]].index(name)
        page.locator(f'button.feature[data-feature="{place}"]').click()
        assert words in page.locator("#feature-numbers .tile").nth(1).inner_text()
    page.locator("#model-choice input").nth(1).check()
    assert "cells are not in the page" in page.locator("#feature-numbers .tile").nth(1).inner_text()
    assert page.locator("#subgroup-error").inner_text().startswith("error ")
