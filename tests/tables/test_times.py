"""Times of rows from any library, and their division into lengths of time."""

import datetime as dt

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from losslens.tables.times import Length, Times, read_length, read_times, time_text

HOURS = np.datetime64("2024-03-30T00", "us") + np.arange(60) * np.timedelta64(1, "h")
DAYS = [dt.date(2024, 1, 1) + dt.timedelta(days=k) for k in range(60)]


@pytest.mark.parametrize(
    "times",
    [
        HOURS.astype("M8[h]"), pd.Series(HOURS), pd.DatetimeIndex(HOURS), list(pd.DatetimeIndex(HOURS)),
        pl.Series(HOURS), pa.chunked_array([pa.array(HOURS)]), HOURS.astype(object), HOURS.tolist(),
        pl.Series(HOURS).dt.replace_time_zone("UTC"), pd.Series(HOURS).dt.tz_localize("UTC"),
        [moment.replace(tzinfo=dt.UTC) for moment in HOURS.tolist()],
    ],
)  # fmt: skip
def test_dates_of_every_library_are_the_same(times):
    np.testing.assert_array_equal(read_times(times).moments, HOURS)


def test_a_clock_with_a_zone_is_read_as_it_shows_the_time():
    """The hour after 2 am is skipped in Berlin on 31 March 2024: its days begin at midnight there all the same."""
    local = pd.date_range("2024-03-30", periods=71, freq="h", tz="Europe/Berlin")
    for times in (local, pd.Series(local), pl.from_pandas(pd.Series(local)), list(local)):
        days = read_length("1D", read_times(times), "length").number(read_times(times))
        assert np.bincount(days).tolist() == [24, 23, 24]


def test_numbers_and_durations_are_taken():
    for times in ([3, 1, 2], np.array([3, 1, 2], object), pd.Series([3, 1, 2], dtype="Int64"), pl.Series([3, 1, 2])):
        np.testing.assert_array_equal(read_times(times).moments, [3.0, 1.0, 2.0])
    spans = [dt.timedelta(hours=k) for k in range(5)]
    for times in (spans, np.array(spans, "m8[h]"), pd.Series(spans), pl.Series(spans)):
        assert read_length("2h", read_times(times), "length").number(read_times(times)).tolist() == [0, 0, 1, 1, 2]


@pytest.mark.parametrize(
    ("times", "error", "words"),
    [
        (
            ["2024-01-01", "2024-01-02"],
            TypeError,
            "times are numbers or dates; got .* such as '2024-01-01'. Convert text",
        ),
        (pd.Series(["2024-01-01"]), TypeError, "numbers or dates"),
        (pl.Series(["2024-01-01"]), TypeError, "numbers or dates"),
        (pd.period_range("2024", periods=3, freq="M"), TypeError, r"periods by times.to_timestamp\(\)"),
        ([True, False], TypeError, "numbers or dates; got bool"),
        ("2024-01-01", TypeError, "one time for each row; got the text '2024-01-01'"),
        ([], ValueError, "times is empty"),
        ([[1.0], [2.0]], ValueError, r"one time for each row; got shape \(2, 1\)"),
        ([0.0, np.nan, np.inf], ValueError, r"times has 2 missing or infinite values \(the first at position 1\)"),
        (np.array(["2024-01-01", "NaT"], "M8[D]"), ValueError, "1 missing or infinite value .*position 1"),
        (pd.Series([pd.NaT, pd.Timestamp(2024, 1, 1)]), ValueError, "1 missing"),
        (pl.Series([1, None]), ValueError, "1 missing"),
        ([dt.date(2024, 1, 1), None], ValueError, "1 missing"),
        (np.ma.masked_array([1.0, 2.0], [False, True]), ValueError, "times has 1 masked"),
        ([pd.Timestamp(2024, 1, 1, tz="UTC"), pd.Timestamp(2024, 1, 1)], ValueError, "several zones, None and UTC"),
    ],
)
def test_what_is_no_time_is_refused(times, error, words):
    with pytest.raises(error, match=words):
        read_times(times)


@pytest.mark.parametrize(
    ("length", "words", "sizes"),
    [
        ("30D", "30 days", [30, 30]),
        (pd.Timedelta(days=30), "30 days", [30, 30]),
        (np.timedelta64(720, "h"), "30 days", [30, 30]),
        (dt.timedelta(days=30), "30 days", [30, 30]),
        (pd.offsets.Day(30), "30 days", [30, 30]),
        ("1M", "1 month", [31, 29]),
        ("month", "1 month", [31, 29]),
        (np.timedelta64(1, "M"), "1 month", [31, 29]),
        (pd.offsets.MonthBegin(), "1 month", [31, 29]),
        ("2 quarters", "6 months", [60]),
        ("1Y", "1 year", [60]),
        ("W", "7 days", [7] * 8 + [4]),
        ("36 hours", "36 hours", [2, 1] * 20),
    ],
)  # fmt: skip
def test_lengths_are_those_of_the_calendar(length, words, sizes):
    """1 January 2024 is a Monday."""
    times = read_times(DAYS)
    found = read_length(length, times, "length")
    assert str(found) == words
    assert np.bincount(found.number(times)).tolist() == sizes
    assert read_length(found.plain, times, "length").number(times).tolist() == found.number(times).tolist()
    edges = found.edges(times, found.number(times).max() + 1)
    assert ((edges[found.number(times)] <= times.moments) & (times.moments < edges[found.number(times) + 1])).all()


def test_days_begin_at_midnight_and_weeks_on_monday():
    late = Times(np.array(["2024-01-04T18:00", "2024-01-05T02:00", "2024-01-08T02:00"], "M8[us]"))
    assert read_length("1D", late, "length").number(late).tolist() == [0, 1, 4]
    assert read_length("1W", late, "length").number(late).tolist() == [0, 0, 1]
    assert read_length("7D", late, "length").number(late).tolist() == [0, 0, 0]


def test_tenths_are_divided_without_rounding_errors():
    times = read_times(np.arange(30) / 10)
    assert Length(0.1).number(times).tolist() == list(range(30))


@pytest.mark.parametrize(
    "length", [7, "7", "7m", "D7", "-1D", "0D", "0.5M", None, True, np.timedelta64("NaT", "s"), pd.NaT]
)
def test_what_is_no_duration_is_refused(length):
    with pytest.raises(ValueError, match="width is a duration above 0 where times are dates: '7D'"):
        read_length(length, read_times(DAYS), "width")


@pytest.mark.parametrize("length", ["7D", 0, -1, np.inf, np.nan, True, None, dt.timedelta(1), np.timedelta64(3, "D")])
def test_numbers_need_a_number(length):
    with pytest.raises(ValueError, match="length is a number above 0, in the unit of times, which are numbers; got"):
        read_length(length, read_times([1, 2, 3]), "length")


def test_durations_have_no_months():
    with pytest.raises(ValueError, match="length='1M': months differ in length"):
        read_length("1M", read_times([dt.timedelta(1)]), "length")


def test_times_in_a_sentence():
    shown = [time_text(t) for t in (np.datetime64("2024-01-01", "us"), HOURS[1], np.timedelta64(90, "m"), 3.0)]
    assert shown == ["2024-01-01", "2024-03-30 01:00", "90 minutes", "3"]
