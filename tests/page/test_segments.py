"""Weak segments on the page: numbers of the library, and one click that makes the subgroup."""

import numpy as np
import pandas as pd
import pytest

import losslens as ll
from browser import members, value
from claims import KINDS, TRUTHS, Case, drawn
from losslens.page import sizes
from losslens.page.embedding import embedded
from losslens.page.findings import segments_dict
from losslens.results.plain_error import PlainError
from losslens.results.sentences import error_is_larger, no_weak_segment

N = 500


def data():
    rng = np.random.default_rng(4)
    X = pd.DataFrame({"a": rng.normal(size=N), "b": rng.normal(size=N), "kind": rng.choice(list("uvw"), N)})
    X.loc[rng.random(N) < 0.1, "a"] = np.nan
    there = (X["kind"] == "v") & (X["b"] > 0)
    return X, X["a"].fillna(0) + rng.normal(size=N) * np.where(there, 6, 1)


def model(X):
    return X["a"].fillna(0).to_numpy()


@pytest.fixture(scope="module")
def report():
    X, y = data()
    asked = {"shapley": False, "interactions": False, "random_state": 0, "progress": False, "by": "kind"}
    return ll.report(model, X, y, loss="squared_error", **asked)


def test_numbers_and_conditions_are_those_of_the_library(report):
    X, y = data()
    found, shown = ll.weak_segments(model, X, y, loss="squared_error", progress=False), report.summary["segments"]
    assert shown["whole"]["error"] == pytest.approx(found.error)
    for k, (one, segment) in enumerate(zip(shown["segments"], found.segments, strict=True)):
        for key in ("rule", "n", "share", "error", "other", "judged", "judged_error", "judged_low", "judged_high", "p"):
            assert one[key] == getattr(segment, key)
        np.testing.assert_array_equal(fulfil(one["conditions"], X), found.mask(k))
    assert {condition["column"] for condition in shown["segments"][0]["conditions"]} == {"kind", "b"}


def fulfil(conditions, X):
    there = np.ones(len(X), bool)
    for one in conditions:
        values = X[one["column"]]
        if "chosen" in one:
            there &= values.isin(one["chosen"])
        else:
            there &= values.between(one["low"], one["high"]) | (values.isna() & one["missing"])
    return there


def test_without_rows_there_are_no_conditions(report):
    held = embedded(report.summary, "none", np.random.default_rng(0))
    assert [one["conditions"] for one in held["segments"]["segments"]] == [[]]
    assert [one["conditions"] for one in held["for_whom"]["groups"]] == [[], [], []]


def test_what_was_not_searched_is_said(report, monkeypatch):
    """Of three columns those of the two leading features, and some of the rows; otherwise nothing is said."""
    said = "The search for where the model is worst used"
    assert not any(text.startswith(said) for text in report.summary["words"]["computed"])
    monkeypatch.setattr("losslens.verbs.report.SEGMENT_FEATURES", 2)
    monkeypatch.setattr("losslens.verbs.report.SEGMENT_ROWS", 200)
    X, y = data()
    asked = {"shapley": False, "interactions": False, "random_state": 0, "progress": False}
    fewer = ll.report(model, X, y, loss="squared_error", **asked).summary
    assert (
        f"{said} 2 of 3 columns, those of the 2 most important features and random samples of 200 rows "
        "of each half only."
    ) in fewer["words"]["computed"]
    leading = {one["column"] for one in fewer["features"][:2]}
    assert {one["column"] for found in fewer["segments"]["segments"] for one in found["conditions"]} <= leading


def test_columns_of_segments_are_not_rounded_in_a_large_page(report, monkeypatch):
    """Otherwise rows at the bound of a condition would be others than the segment's."""
    monkeypatch.setattr(sizes, "LARGE", 0)
    features = [
        one | {"models": [entry | {"cells": None} for entry in one["models"]]} for one in report.summary["features"]
    ]
    X, _ = data()
    columns = {
        one["name"]: one["values"]
        for one in sizes.with_fewer_digits(report.summary | {"features": features})["table"]["columns"]
    }
    np.testing.assert_array_equal(columns["b"], np.asarray(X["b"], columns["b"].dtype))
    assert not np.array_equal(columns["a"], np.asarray(X["a"], columns["a"].dtype), equal_nan=True)


def test_one_click_makes_the_subgroup(opened, report):
    shown, groups = report.summary["segments"]["segments"][0], report.summary["for_whom"]["groups"]
    page = opened(report.summary)
    page.locator("[data-group='1']").click()
    assert members(page) == groups[1]["n"]
    assert value(page, "segment-0") == pytest.approx(shown["error"])
    page.locator("[data-segment='0']").click()
    assert members(page) == shown["n"]


def test_the_sentence_needs_a_segment_and_is_false_where_the_error_is_the_same():
    """The null data: the same losses, whatever x2 is."""
    X, y = data()
    found = ll.weak_segments(model, X, y, loss="squared_error", progress=False)
    sentence = error_is_larger(found.segments[0], PlainError("root", found.title, found.error))
    assert sentence.startswith(f"Where {found.segments[0].rule} (")
    assert no_weak_segment(found) == ""
    none = ll.weak_segments(model, X[:80], y[:80], loss="squared_error", progress=False)
    assert "needs 100 rows" in no_weak_segment(none)
    assert segments_dict(None, {}, PlainError("root", "squared error", 1.0)) is None
    case = drawn(KINDS[0], 0)
    assert isinstance(case, Case)
    assert TRUTHS["error_is_larger"](case, "Where x0 > 1.5 (20 rows), the squared error is 2, elsewhere 1.")
    assert not TRUTHS["error_is_larger"](case, "Where -0.5 < x0 ≤ 0.5 (90 rows), the squared error is 2, elsewhere 1.")
