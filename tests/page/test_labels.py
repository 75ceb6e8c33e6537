"""Labels of values: different values look different, and a missing value is none of them."""

import numpy as np
import pytest

from losslens.page.labels import bin_labels, label, labels, texts


def test_dates_are_labelled_by_their_day_and_missing_ones_as_missing():
    assert label(np.datetime64("2020-01-31")) == "2020-01-31"
    assert label(np.datetime64("NaT", "s")) == label(np.nan) == label(None) == "missing"


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1234567.1, 1234567.2, 1234567.3], ["1234567.1", "1234567.2", "1234567.3"]),
        ([0.1, 0.25, -0.0], ["0.1", "0.25", "0"]),
        ([0.1, np.nextafter(0.1, 1)], ["0.10000000000000001", "0.10000000000000002"]),
        ([1, "1", "a"], ["1", "'1'", "a"]),
        ([1, 1.0, True, "1", 2.0], ["1", "1.0", "True", "'1'", "2"]),
        ([0, False, "x", 0], ["0", "False", "x", "0"]),
        (["missing", "b", None], ["missing", "b", None]),
        ([True, False, np.nan], ["True", "False", None]),
    ],
)
def test_different_values_have_different_texts(values, expected):
    assert texts(values) == expected


def test_the_category_missing_is_no_missing_value():
    assert labels(["missing", "b", None]) == ["“missing”", "b", "missing"]
    assert labels(["missing", "b"]) == ["missing", "b"]


def test_the_ends_of_bins_are_told_apart():
    first, last = np.array([1234567.1, 1234567.3, 5e6]), np.array([1234567.2, 1234567.4, 5e6])
    assert bin_labels(first, last) == ["1234567.1 to 1234567.2", "1234567.3 to 1234567.4", "5000000"]
    assert bin_labels(np.array(["a", "b"]), np.array(["a", "b"]), 2) == ["a", "b and 2 rarer"]
