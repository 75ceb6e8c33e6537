"""Labels of rows: which indices have them, how rows are found by them, and when two orders of them differ."""

import datetime as dt
import re

import numpy as np
import pandas as pd
import pytest

from losslens.tables.row_labels import (
    check_order,
    distinct_labels,
    find_rows,
    has_other_order,
    labels_of,
    plain_label,
    row_name,
    row_names,
)

DATES = pd.date_range("2024-03-01", periods=4)
LABELLED = {
    "words": pd.Index(list("wxyz")),
    "shuffled": pd.Index([2, 0, 3, 1]),
    "a part of a longer table": pd.RangeIndex(100, 104),
    "backwards": pd.RangeIndex(4)[::-1],
    "fractions": pd.Index([0.5, 1.5, 2.5, 3.5]),
    "dates": DATES,
    "dates with a zone": DATES.tz_localize("Europe/Vienna"),
    "months": pd.period_range("2024-01", periods=4, freq="M"),
    "two levels": pd.MultiIndex.from_product([["a", "b"], [1, 2]]),
    "mixed": pd.Index(["a", 1, 2.5, dt.date(2024, 1, 1)], dtype=object),
    "categories": pd.CategoricalIndex(list("wxyz")),
}


@pytest.mark.parametrize("kind", LABELLED)
def test_rows_are_found_by_their_own_labels(kind):
    index = LABELLED[kind]
    labels = labels_of(index)
    np.testing.assert_array_equal(find_rows(index[[2, 0]], labels), [2, 0])
    np.testing.assert_array_equal(find_rows(list(index[[3]]), labels), [3])
    assert row_name(labels, 1) == ("('a', 2)" if kind == "two levels" else str(index[1]).removesuffix(" 00:00:00"))
    np.testing.assert_array_equal(row_names(labels, np.array([1, 2])), index[[1, 2]].to_numpy())


@pytest.mark.parametrize(
    "index",
    [
        pd.RangeIndex(4),
        pd.Index([0, 1, 2, 3]),  # positions
        pd.Index([0, 0, 1, 1]),  # a label twice names no row
        pd.Index(["a", "b", None, "c"]),
        pd.Index([0.5, np.nan, 1.5, 2.5]),
        pd.DatetimeIndex(["2024", None, "2025", "2026"]),
        None,
    ],
)
def test_other_indices_label_nothing(index):
    assert labels_of(index) is None


def test_labels_are_no_window_on_the_users_index():
    values = np.array([5, 3, 4])
    labels = labels_of(pd.Index(values, copy=False))
    values[0] = 9
    assert labels.tolist() == [5, 3, 4]


@pytest.mark.parametrize("wanted", [["2024-03-02"], [DATES[1]], [dt.datetime(2024, 3, 2)], DATES[[1]].to_numpy()])
def test_dates_are_found_however_they_are_written(wanted):
    assert find_rows(wanted, labels_of(DATES)).tolist() == [1]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_dates_are_the_same_only_to_the_last_digit(unit):
    """In whatever unit the labels are, and the dates asked for: nothing is cut off, and nothing overflows."""
    start = np.datetime64("2001-09-09T01:46:40", unit)
    steps = np.arange(60).astype(f"m8[{unit}]")
    for index in (pd.DatetimeIndex(start + steps), pd.TimedeltaIndex(steps + np.timedelta64(1, unit))):
        labels = labels_of(index)
        for wanted in (index[[7, 3]], list(index[[7, 3]]), index[[7, 3]].to_numpy(), pd.Series(index[[7, 3]])):
            assert find_rows(wanted, labels).tolist() == [7, 3]
        absent = [index[7] + pd.Timedelta(1, "ns")] if unit != "ns" else [index[59] + pd.Timedelta(1, "ns")]
        for strange in (absent, [5], [True], ["5"], [None], ["NaT"], [""], [np.int64(5)]):
            with pytest.raises(ValueError, match="no row of X has the label"):
                find_rows(strange, labels)
    wraps = labels_of(pd.DatetimeIndex([start, np.datetime64("2011-01-01", unit)]))
    for strange in (
        [np.datetime64("5000-01-01")],
        ["2011-01-01", np.datetime64("5000-01-01")],
        [pd.Timestamp("2011-01-01", tz="UTC")],
    ):
        with pytest.raises(ValueError, match="no row of X has the label"):
            find_rows(strange, wraps)
    with pytest.raises(ValueError, match="the label 'nobody'"):
        find_rows([pd.Timestamp("2011-01-01"), "nobody"], wraps)


def test_large_numbers_are_the_same_only_to_the_last_digit():
    """Identifiers above 2^53, signed and unsigned: not compared as fractions, which hold 53 bits."""
    for large in (2**60 + np.arange(5), np.arange(5, dtype=np.uint64) + np.uint64(2**63)):
        labels = labels_of(pd.Index(large[::-1]))
        assert find_rows(large[[3, 0]].tolist(), labels).tolist() == [1, 4]
    labels = labels_of(pd.Index(2**60 + np.arange(5)[::-1], dtype=np.uint64))
    assert find_rows([2**60 + 3], labels).tolist() == [1]
    for strange in ([-1], [2.0**60 + 256], [np.nan], [1e300]):
        with pytest.raises(ValueError, match="no row of X has the label"):
            find_rows(strange, labels)


@pytest.mark.parametrize(
    ("wanted", "index"),
    [
        (["q"], "words"), ([1], "words"), ([["x"]], "words"), ([7], "shuffled"), ([-1], "shuffled"),
        (["2"], "shuffled"), ([2.5], "shuffled"), ([DATES[0]], "shuffled"), (["1999-01-01"], "dates"),
        (["no date"], "dates"),
        ([("a", 3)], "two levels"), (["a"], "two levels"),
    ],
)  # fmt: skip
def test_labels_that_no_row_has_are_named(wanted, index):
    with pytest.raises(ValueError, match=r"no row of X has the label .* for positions pass X.index\[positions\]"):
        find_rows(wanted, labels_of(LABELLED[index]))


@pytest.mark.parametrize("kind", [kind for kind in LABELLED if kind != "mixed"])
@pytest.mark.parametrize("wrap", [pd.Series, lambda values, index: pd.DataFrame({"y": values}, index)])
def test_the_same_labels_in_another_order_are_refused(kind, wrap):
    index, order = LABELLED[kind], [1, 0, 2, 3]
    check_order(wrap(range(4), index), index, "y")
    for labels in (index, labels_of(index)):
        with pytest.raises(ValueError, match=r"y has the row labels of X in another order: pass y.loc\[X.index\], or"):
            check_order(wrap(range(4), index[order]), labels, "y")


@pytest.mark.parametrize(
    ("own", "of_table"),
    [
        (pd.RangeIndex(4), LABELLED["words"]),
        (LABELLED["words"], pd.RangeIndex(4)),
        (pd.RangeIndex(10, 14), pd.RangeIndex(4)),
        (pd.Index([3, 2, 1, 9]), LABELLED["shuffled"]),
        (pd.Index([0, 0, 1, 1]), pd.Index([0, 1, 1, 1])),
        (pd.Index(list("0123")), pd.RangeIndex(4)),
        (LABELLED["dates"], None),
    ],
)
def test_other_labels_are_not_compared(own, of_table):
    """As in scikit-learn, rows correspond by position then."""
    check_order(pd.Series(range(4), own), of_table, "y")
    check_order([3, 1, 2, 0], of_table, "y")
    check_order(np.arange(4), of_table, "y")


def test_labels_that_repeat_in_another_order_are_refused():
    """`loc` would give a row for each pair of equal labels."""
    with pytest.raises(ValueError, match=r"in another order, some of them twice: pass y.to_numpy\(\) if its rows"):
        check_order(pd.Series(range(4), [1, 0, 0, 1]), pd.Index([0, 0, 1, 1]), "y")


def test_dates_are_no_numbers():
    """In nanoseconds they would be equal."""
    assert not has_other_order(DATES, DATES.asi8[::-1])


@pytest.mark.parametrize("kind", LABELLED)
def test_labels_from_files_are_those_of_the_index(kind):
    index = LABELLED[kind]
    labels = labels_of(index)
    if labels.dtype == object:
        labels = np.fromiter(map(plain_label, labels), object, 4)
    np.testing.assert_array_equal(find_rows(index[[2, 0]], labels), [2, 0])
    assert not has_other_order(index, labels)
    assert has_other_order(index[::-1], labels)


def test_numbers_and_dates_are_named_without_quotes():
    found = {
        "shuffled": "label '2'. X has row labels (2, 0, 3, ...)",
        "dates": "label '2'. X has row labels (2024-03-01, 2024-03-02, 2024-03-03, ...)",
        "two levels": "label '2'. X has row labels (('a', 1), ('a', 2), ('b', 1), ...)",
        "words": "label 2. X has row labels ('w', 'x', 'y', ...)",
    }
    for kind, words in found.items():
        for wanted in (["2"], np.array(["2"])) if kind != "words" else ([2], np.array([2])):
            with pytest.raises(ValueError, match=re.escape(words)):
                find_rows(wanted, labels_of(LABELLED[kind]))


def test_a_row_that_is_taken_twice_has_no_label_of_its_own():
    assert distinct_labels(np.array([5, 3, 5])) is None
    assert distinct_labels(None) is None
