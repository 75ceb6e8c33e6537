"""One number everywhere: what is printed as an importance is what tests, differences and influences are of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression

import losslens as ll

RNG = np.random.default_rng(5)
N = 24  # few rows: V and U differ by 4%
X = pd.DataFrame(RNG.normal(size=(N, 3)), columns=["a", "b", "c"])
Y = X["a"] * X["b"] + X["b"] + 0.3 * RNG.normal(size=N)
SIDE = np.where(np.arange(N) % 2, "odd", "even")
WEIGHT = RNG.integers(1, 4, N)
OPTIONS: dict[str, Any] = {"loss": "squared_error", "random_state": 0, "progress": False}


def model(X: Any) -> Any:
    return X["a"] * X["b"] + 0.8 * X["b"] + 0.1 * X["c"]


def other(X: Any) -> Any:
    return 0.5 * X["a"] + X["b"]


def importances(**more: Any) -> Any:
    return ll.feature_importance(model, X, Y, **OPTIONS, **more)


def of(frame: pd.DataFrame, key: str = "feature", number: str = "importance") -> Mapping[str, float]:
    return frame.set_index(key)[number].to_dict()


def close(one: Any, another: Any) -> None:
    np.testing.assert_allclose(one, another, rtol=1e-9, atol=1e-12)


MORE: tuple[dict[str, Any], ...] = (
    {},
    {"sample_weight": WEIGHT},
    {"donors": ll.Derangements()},
    {"donors": ll.Latin(5)},
)


@pytest.mark.parametrize("more", MORE, ids=str)
def test_tests_differences_and_influences_are_of_the_importances_of_the_table(more: dict[str, Any]) -> None:
    imp = importances(**more)
    shown = imp.to_frame()
    number = of(shown)
    assert of(imp.test()) == pytest.approx(number)
    assert {name: imp.estimates()[name].value for name in imp} == pytest.approx(number)
    for first, second in (("a", "b"), ("c", "b")):
        apart = imp.difference(first, second)
        close(apart.value, number[first] - number[second])
        assert apart.low <= apart.value <= apart.high
    assert (shown["low"] <= shown["importance"]).all()
    assert (shown["importance"] <= shown["high"]).all()
    for name, low, high in zip(shown["feature"], shown["low"], shown["high"], strict=True):
        one = imp.estimates()[name]
        close((one.low, one.high), (low, high))
        close(imp[name].interval(), (low, high))
    influence = imp["a"].row_influence
    close(influence.importance, number["a"])
    close(influence.without + influence.total, number["a"])
    assert f"{number['a']:.4g} with all rows" in influence.headline


@pytest.mark.parametrize("more", MORE, ids=str)
def test_differences_of_groups_are_those_of_their_table(more: dict[str, Any]) -> None:
    parts = importances(**more).by(SIDE)
    table = parts.to_frame().set_index(["group", "feature"])["importance"]
    for line in parts.differences().itertuples():
        close(line.difference, table[line.group, line.feature] - table[line.against, line.feature])
        assert line.low <= line.difference <= line.high
    shares = ll.shapley_importance(model, X, Y, **OPTIONS).by(SIDE)
    table = shares.to_frame().set_index(["group", "feature"])["sfimp"]
    for line in shares.differences().itertuples():
        close(line.difference, table[line.group, line.feature] - table[line.against, line.feature])


def test_differences_of_models_are_those_of_their_table() -> None:
    both = ll.compare({"one": model, "other": other}, X, Y, **OPTIONS)
    table = both.to_frame().set_index(["model", "feature"])
    for number in ("importance", "sfimp"):
        for line in both.differences(of="pfi" if number == "importance" else "sfimp").itertuples():
            close(line.difference, table[number][line.model, line.feature] - table[number][line.against, line.feature])


def halves(first: int) -> tuple[dict[str, Any], dict[str, Any]]:
    rows = {"early": slice(0, first), "late": slice(first, N)}
    return {name: X[some] for name, some in rows.items()}, {name: Y[some] for name, some in rows.items()}


def test_sets_of_rows_of_different_sizes_are_compared_per_pair_of_different_rows_and_that_is_said() -> None:
    """A row with itself, which changes nothing, is a larger share of the pairs of fewer rows."""
    same = ll.compare(model, *halves(N // 2), **OPTIONS, shapley=False)
    a, b = (same[name]["a"] for name in ("late", "early"))
    apart = same.difference("a", "late", "early")
    close(apart.value, a.pfi - b.pfi)
    assert not apart.note
    different = ll.compare(model, *halves(N // 3), **OPTIONS, shapley=False)
    a, b = (different[name]["a"] for name in ("late", "early"))
    apart = different.difference("a", "late", "early")
    close(apart.value, a.unbiased - b.unbiased)
    assert apart.note == "per pair of different rows"
    assert "; per pair of different rows" in repr(apart)
    assert different.differences()["caution"].str.startswith("per pair of different rows").all()
    assert "over pairs of different rows" in repr(different)


def test_shares_pairs_gaps_and_refits_are_tested_as_they_are_printed() -> None:
    shares = ll.shapley_importance(model, X, Y, **OPTIONS)
    number = of(shares.to_frame(), number="sfimp")
    assert of(shares.test()) == pytest.approx(number)
    close(shares.difference("b", "a").value, number["b"] - number["a"])
    gap = shares.gap(SIDE == "odd")
    table = gap.to_frame()
    for line, part, low, high in zip(table["line"], table["part"], table["low"], table["high"], strict=True):
        close([getattr(gap.part(line), end) for end in ("value", "low", "high")], (part, low, high))
        close(gap.estimates()[line].value, part)
        assert low <= part <= high
    pairs = ll.pair_interactions(model, X, Y, **OPTIONS)
    tested = pairs.interaction.test()
    for line in tested.itertuples():
        close(pairs.interaction.estimates()[f"{line.first} x {line.second}"].value, line.interaction)
    refits = ll.feature_importance_cv(LinearRegression(), X, Y, cv=3, random_state=0)
    number = of(refits.to_frame())
    assert of(refits.test()) == pytest.approx(number)
    close(refits.difference("b", "a").value, number["b"] - number["a"])


def test_what_a_page_shows_side_by_side_has_the_difference_that_it_shows() -> None:
    page = ll.report(
        model, X, Y, loss="squared_error", models={"other": other}, by=pd.Series(SIDE, name="side"), interactions=False,
        random_state=0, progress=False,
    ).summary  # fmt: skip
    entries = [[entry["pfi"] for entry in feature["models"]] for feature in page["features"]]
    shown = page["compared"]["differences"][0]
    close([one["value"] for one in shown["importances"]], [first - second for first, second in entries])
    groups = page["for_whom"]
    for found in groups["models"]:
        first, second = ([one["pfi"] for one in group["importances"]] for group in found["groups"])
        close([one["value"] for one in found["differences"][0]["importances"]], np.subtract(first, second))


def test_pictures_show_the_numbers_of_the_table() -> None:
    imp = importances()
    table = imp.to_frame()
    bars = imp.plot().patches
    close(sorted(bar.get_width() for bar in bars), sorted(table["importance"]))
    gap = ll.shapley_importance(model, X, Y, **OPTIONS).gap(SIDE == "odd")
    drawn = {round(bar.get_width(), 9) for bar in gap.plot().patches}
    assert {round(part, 9) for part in (gap.total, *gap.parts)} <= drawn
