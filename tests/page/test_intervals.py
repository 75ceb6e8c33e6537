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
from browser import members, numbers_at, set_range, value
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


TEN = [("b", low / 10, low / 10 + 1) for low in range(-15, 5, 4)] + [("a", low / 10, 9.0) for low in range(-8, 12, 4)]
SHOWN = ["subgroup-error", "pfi-given", "pfi-subset"]


def where(column: str, low: float, high: float) -> dict[str, Any]:
    return {"column": column, "from": low, "to": high}


def inside(X: pd.DataFrame, column: str, low: float, high: float) -> Any:
    return ((X[column] >= low) & (X[column] <= high)).to_numpy()


def ends(told: dict[str, str]) -> list[float]:
    return [float(told["low"]), float(told["high"])]


@pytest.mark.parametrize("loss", ["squared_error", "log_loss"])
def test_ten_subgroups_of_two_models_have_the_librarys_numbers(opened: Open, loss: str) -> None:
    """Rows, error, `given` and `subset` of the first model, and `given` of the second: regression, and classes.

    One subgroup is made by hand, of the second model: the address of the same state gives the same numbers.
    """
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
    set_range(page, *map(str, TEN[0]))
    page.locator("#model-choice input").nth(1).check()
    by_hand = value(page, "pfi-given")
    states = [{"feature": "a", "where": where(*part)} for part in TEN]
    of_first = numbers_at(page, states, SHOWN)
    of_second = numbers_at(page, [state | {"model": "other"} for state in states], ["pfi-given"])
    assert float(of_second[0]["pfi-given"]["value"]) == by_hand
    for part, told, of_other in zip(TEN, of_first, of_second, strict=True):
        rows = inside(X, *part)
        assert int(told["n"]) == int(of_other["n"]) == rows.sum() > 2
        assert float(told["subgroup-error"]["value"]) == pytest.approx(one.given(rows).error, rel=1e-6)
        for name, shown, exact in (
            ("given", told, one.given(rows)), ("subset", told, one.subset(rows)), ("given", of_other, two.given(rows)),
        ):  # fmt: skip
            found = float(shown[f"pfi-{name}"]["value"])
            assert found == pytest.approx(exact.pfi, rel=1e-6, abs=1e-6 * (two if shown is of_other else one).std_error)


@pytest.fixture(scope="module")
def even() -> Any:
    X, y, _ = data()
    return ll.report(
        model, X, y, loss="squared_error", shapley=False, interactions=False, random_state=0, progress=False
    )


@pytest.mark.parametrize("weighted", [False, True], ids=["even", "weighted"])
def test_subgroups_have_the_librarys_intervals(opened: Open, even: Any, weighted: bool) -> None:
    """Whole cells: errors and both importances of three subgroups, to six digits of the interval's width."""
    X, y, weight = data()
    w = weight if weighted else None
    report = even if not weighted else ll.report(
        model, X, y, loss="squared_error", sample_weight=w, shapley=False, interactions=False, random_state=0,
        progress=False,
    )  # fmt: skip
    imp = ll.feature_importance(model, X, y, loss="squared_error", sample_weight=w)
    page = opened(report.summary)
    states = [(name, part) for part in (("b", -0.5, 0.5), ("a", 1.3, 9), ("b", -9, 9)) for name in imp]
    found = numbers_at(page, [{"feature": name, "where": where(*part)} for name, part in states], SHOWN)
    for (name, part), told in zip(states, found, strict=True):
        rows = inside(X, *part)
        assert int(told["n"]) == rows.sum()
        given, subset = imp[name].given(rows), imp[name].subset(rows)
        assert float(told["subgroup-error"]["value"]) == pytest.approx(given.error, rel=1e-6)
        np.testing.assert_allclose(ends(told["subgroup-error"]), error_ends(given), rtol=1e-6)
        for shown, exact in ((told["pfi-given"], given), (told["pfi-subset"], subset)):
            assert float(shown["value"]) == pytest.approx(exact.pfi, rel=1e-6)
            np.testing.assert_allclose(ends(shown), exact.interval(), rtol=1e-6, atol=1e-6 * exact.std_error)


def test_low_rank_cells_have_intervals_to_the_stated_error(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer bins and ranks than the cells have: the width is off by no more than the page says, and that is little.

    With as many bins as pages have: in coarser ones the skewness is blurred, by which an end is lengthened.
    """
    monkeypatch.setattr("losslens.page.sizes.MOST_CELLS", 1000)
    X, y, weight = data(400)
    report = ll.report(
        model, X, y, loss="squared_error", sample_weight=weight, shapley=False, interactions=False, random_state=0,
        progress=False,
    )  # fmt: skip
    imp = ll.feature_importance(model, X, y, loss="squared_error", sample_weight=weight)
    page = opened(report.summary)
    states = [(name, part) for part in (("b", -0.5, 0.5), ("a", 0.2, 9)) for name in imp]
    found = numbers_at(page, [{"feature": name, "where": where(*part)} for name, part in states], SHOWN)
    for (name, part), told in zip(states, found, strict=True):
        rows = inside(X, *part)
        for shown, exact in (
            (told["pfi-given"], imp[name].given(rows)), (told["pfi-subset"], imp[name].subset(rows)),
        ):  # fmt: skip
            (low, high), true, off = ends(shown), exact.interval(), float(shown["off"])
            assert 0 < off < 0.3
            assert abs((high - low) - (true[1] - true[0])) <= off * (high - low)


def test_small_subgroups_are_said_to_be_small(opened: Open, even: Any) -> None:
    X, _, _ = data()
    page = opened(even.summary)
    values = np.sort(X["a"].to_numpy())
    set_range(page, "a", str(values[-5] - 1e-6), "9")
    assert members(page) == 5
    assert "number of rows is 5" in page.locator("#feature-numbers").inner_text()
    assert "number of rows is 5" in page.locator("#subgroup-error .far").get_attribute("title")
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
