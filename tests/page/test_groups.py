"""Groups side by side: their numbers are the library's, and no difference is said to be sure that is not."""

from __future__ import annotations

from collections.abc import Callable
from io import StringIO
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom, ttest_ind

import losslens as ll
from browser import value
from losslens.page.groups import MOST_GROUPS, by_group, errors_differ, for_whom, groups_by, how_grouped
from losslens.tables.columns import array_column
from losslens.uncertainty.inference import between

Open = Callable[..., Any]
RNG = np.random.default_rng(11)
N = 240
X = pd.DataFrame({"a": RNG.normal(size=N), "b": RNG.normal(size=N)})
WHO = np.array(["old", "young", "unknown"])[RNG.integers(0, 3, N)]
WEIGHT = RNG.uniform(0.5, 2, N)
Y = X.a.to_numpy() * np.where(WHO == "old", 2.0, 1.0) + np.where(WHO == "old", 2.0, 0.5) * RNG.normal(size=N)


def model(rows: Any) -> Any:
    return rows["a"].to_numpy() + 0.3 * rows["b"].to_numpy()


def named(labels: Any, weight: Any = None) -> Any:
    column = array_column(np.asarray(labels)).distinct
    even = np.full(len(labels), 1 / len(labels)) if weight is None else weight
    return groups_by("who", column, even)


def test_the_groups_of_a_report_are_those_of_the_library() -> None:
    """Errors, skills and importances of `given`, with intervals; weighted rows."""
    page = ll.report(
        model, X, Y, by=pd.Series(WHO, name="who"), loss="squared_error", sample_weight=WEIGHT, shapley=False,
        interactions=False, random_state=0, progress=False,
    )  # fmt: skip
    found = page.summary["for_whom"]
    imp = ll.feature_importance(model, X, Y, loss="squared_error", sample_weight=WEIGHT)
    assert [group["label"] for group in found["groups"]] == ["old", "unknown", "young"]
    assert sum(group["share"] for group in found["groups"]) == pytest.approx(1)
    for shown, group in zip(found["groups"], found["models"][0]["groups"], strict=True):
        rows = shown["label"] == WHO
        assert shown["n"] == rows.sum()
        for name, one in zip(found["features"], group["importances"], strict=True):
            given = imp[name].given(rows)
            assert (one["pfi"], one["low"], one["high"]) == pytest.approx((given.pfi, *given.interval()), rel=1e-9)
            assert group["error"] == pytest.approx(given.error)
            assert group["skill"] == pytest.approx(given.skill)
    assert found["sentences"][0].claim == "errors_differ"
    assert "surely larger where who is old" in found["sentences"][0]


def test_the_page_shows_groups_and_compares_any_two_of_them_without_rows(opened: Open) -> None:
    """The page holds no rows; the difference asked the other way round has the other sign."""
    page = ll.report(
        model, X, Y, by=pd.Series(WHO, name="who"), loss="squared_error", shapley=False, interactions=False,
        random_state=0, progress=False, embed="none",
    )  # fmt: skip
    found, shown = page.summary["for_whom"], opened(page.summary)
    group = found["models"][0]["groups"][2]
    assert value(shown, "group-error-2") == group["error"]
    assert value(shown, "group-pfi-2-0") == group["importances"][0]["pfi"]
    pair = next(one for one in found["models"][0]["differences"] if (one["first"], one["second"]) == (0, 2))
    for first, second, sign in (("old", "young", 1), ("young", "old", -1)):
        shown.locator("#group-first").select_option(label=first)
        shown.locator("#group-second").select_option(label=second)
        assert value(shown, "two-groups-0") == sign * pair["error"]["value"]
        assert value(shown, "two-groups-1") == sign * pair["importances"][0]["value"]
    shown.locator("#group-second").select_option(label="young")  # the first is it already: they swap
    assert value(shown, "two-groups-0") == pair["error"]["value"]


def test_the_difference_of_two_groups_is_their_jackknife() -> None:
    """Each row deleted, as an observation of its group and as a donor of both; unweighted, no ties.

    By the definition of `given`, both importances are computed again without each row: the deleted differences, about
    their mean, have the jackknife variance. The roles have factors of their own, (u - 1) / u each: all are near 1.
    """
    imp = ll.feature_importance(model, X, Y, loss="squared_error")["a"]
    groups = [WHO == "old", WHO == "young"]
    parts = [imp.given(rows) for rows in groups]
    found = between(*(part.estimates() for part in parts), parts[0].name, ("old", "young"), 0.95, "others")
    assert found.value == pytest.approx(parts[0].pfi - parts[1].pfi)
    cells = imp.ici[:, imp.layout.own]  # (n, n)
    np.fill_diagonal(cells, np.nan)
    deleted = []
    for i in range(N):
        kept = np.arange(N) != i
        a, b = (np.nanmean(cells[np.ix_(rows & kept, kept)]) for rows in groups)
        deleted.append(a - b)
    apart = np.array(deleted) - np.mean(deleted)
    assert found.std_error == pytest.approx(np.sqrt((N - 1) / N * apart @ apart), rel=0.02)
    assert found.low < found.value < found.high


def test_errors_of_two_groups_differ_as_by_welchs_test() -> None:
    imp = ll.feature_importance(model, X, Y, loss="squared_error")["a"]
    losses = (Y - model(X)) ** 2
    a, b = losses[WHO == "old"], losses[WHO == "young"]
    errors = [imp.given(who == WHO)._base_estimates for who in ("old", "young")]
    found = between(*errors, "error", ("old", "young"), 0.95, "others")
    expected = ttest_ind(a, b, equal_var=False)
    assert found.value == pytest.approx(a.mean() - b.mean())
    assert found.std_error == pytest.approx(found.value / expected.statistic, rel=1e-9)


def test_equal_errors_are_seldom_said_to_differ() -> None:
    """120 data sets with six groups of equal errors: as often as the level says, at 1 in 1,000."""
    wrong = 0
    for seed in range(120):
        rng = np.random.default_rng(seed)
        rows = rng.normal(size=(120, 1))
        y = rows[:, 0] + rng.normal(size=120)
        imp = ll.feature_importance(lambda rows: rows[:, 0], rows, y, loss="squared_error")
        wrong += bool(errors_differ(named(rng.integers(0, 6, 120)), imp))
    assert wrong <= binom.isf(0.001, 120, 0.05)


def test_many_values_are_ranges_or_are_joined() -> None:
    numbers = named(RNG.normal(size=N))
    assert numbers.in_ranges
    assert [len(rows) for rows in numbers.rows] == [48] * 5
    assert " to " in numbers.labels[0]
    assert how_grouped(numbers) == "Groups are ranges of who, with about equally many rows each."
    words = named([f"k{min(int(v), 19):02d}" for v in RNG.exponential(6, N)])
    assert len(words.rows) == MOST_GROUPS
    assert words.labels[-1] == f"{words.joined} rarer ones"
    assert sum(map(len, words.rows)) == N
    assert str(words.joined) in how_grouped(words)
    few = named(RNG.integers(0, 4, N))
    assert few.labels == ["0", "1", "2", "3"]
    assert how_grouped(few) == ""


def test_ranges_of_a_long_tail_have_names_of_their_own() -> None:
    """Rounded by the range of all values, the ends of all ranges but the last would be 0."""
    values = np.exp(np.linspace(-12, 12, 200))
    found = named(values)
    assert len(set(found.labels)) == len(found.rows) == 5
    for label, rows in zip(found.labels, found.rows, strict=True):
        ends = [float(end) for end in label.split(" to ")]
        np.testing.assert_allclose(ends, [values[rows].min(), values[rows].max()], atol=np.ptp(values[rows]) / 400)
    counts = named(
        np.repeat(1e6 + 0.125 * np.arange(13), 20)
    )  # ranges of few values, which six digits don't tell apart
    assert len(set(counts.labels)) == len(counts.rows)


def test_missing_values_are_a_group_of_their_own() -> None:
    values = RNG.normal(size=N)
    values[:30] = np.nan
    found = named(values)
    assert len(found.rows[-1]) == 30
    assert sorted(np.concatenate(found.rows).tolist()) == list(range(N))


def test_one_group_is_no_comparison() -> None:
    assert named(["all"] * N) is None
    assert named(WHO, np.where(WHO == "old", 1.0, 0.0)) is None
    assert for_whom(None, {}, []) is None


def test_groups_of_few_rows_have_numbers_and_no_intervals() -> None:
    labels = np.where(np.arange(N) < 2, "two", "others")
    imp = ll.feature_importance(model, X, Y, loss="squared_error")
    groups = named(labels)
    found = for_whom(groups, {"one": imp}, [{"a": by_group(imp["a"], groups)}])
    assert found is not None
    of_two = found["models"][0]["groups"][groups.labels.index("two")]
    assert np.isfinite(of_two["error"])
    assert np.isnan(of_two["low"])
    assert np.isnan(of_two["importances"][0]["low"])
    assert np.isnan(found["models"][0]["differences"][0]["error"]["value"])


# A browser allows ten downloads in a row: what would be saved is kept instead.
KEEP = """() => {
  URL.createObjectURL = (blob) => { window.kept = blob; return "#"; };
  HTMLAnchorElement.prototype.click = () => {};
}"""


def test_files_hold_numbers_and_not_what_was_drawn(opened: Open) -> None:
    """Of every table: rows as long as the head, ends in columns of their own, and numbers that are the summary's."""
    page = ll.report(
        model, X, Y, by=pd.Series(WHO, name="who"), models={"other": lambda X: np.zeros(len(X))}, loss="squared_error",
        interactions=False, random_state=0, progress=False,
    )  # fmt: skip
    shown, files = opened(page.summary), {}
    shown.evaluate(KEEP)
    for button in shown.locator("button.csv").all():
        button.evaluate("(one) => one.click()")
        text = shown.evaluate("window.kept.text()")
        files[button.get_attribute("data-csv")] = pd.read_csv(StringIO(text))
    assert all(" to " not in str(name) for table in files.values() for name in table.columns)
    groups = page.summary["for_whom"]["models"][0]
    pairs = files["differences"].query("model == 'this model' and `first less second` == 'error'")
    assert pairs["low"].to_numpy() == pytest.approx([one["error"]["low"] for one in groups["differences"]])
    ranges = page.summary["models"][0]["quality"]["residuals"]
    quantiles = files["residuals"][[f"residual at {q}%" for q in (5, 25, 50, 75, 95)]].to_numpy()
    assert quantiles == pytest.approx(np.array([one["quantiles"] for one in ranges]))
    assert files["models"]["error"].to_numpy() == pytest.approx([one["error"] for one in page.summary["models"]])
    assert files["model-features"]["value"].dtype == files["ranking"]["pfi"].dtype == float
