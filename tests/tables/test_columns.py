"""One column: equal values are found whatever their type, and gathering keeps that type."""

import datetime as dt
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from losslens.tables.columns import (
    array_column,
    count_missing,
    distinct_numbers,
    frame_column,
    is_missing,
    joint,
    places_of,
    stable_order,
)
from losslens.tables.frames import as_table

DAY = dt.date(2024, 2, 29)
NOON = dt.datetime(2024, 2, 29, 12)


def column(native):
    return frame_column(nw.from_native(native, series_only=True))


def type_of(values):
    return values.dtype if hasattr(values, "dtype") else values.type


def objects(*items):
    array = np.empty(len(items), dtype=object)
    array[:] = items
    return array


def check(distinct, items):
    """values[codes] are the items, and first points to where each of them is."""
    for found, item in zip(distinct.values[distinct.codes], items, strict=True):
        assert (is_missing(found) and is_missing(item)) or found == item
    np.testing.assert_array_equal(distinct.codes[distinct.first], np.arange(len(distinct)))


# Distinct values.


@given(st.lists(st.floats(allow_nan=True, width=32), min_size=1))
def test_numbers_are_told_apart_and_sorted_with_the_missing_last(items):
    distinct = array_column(np.array(items)).distinct
    check(distinct, items)
    present = distinct.values[~np.isnan(distinct.values)]
    assert all(a < b or (a == b == 0 and np.signbit(a) and not np.signbit(b)) for a, b in pairwise(present))
    assert np.isnan(distinct.values[: len(present)]).sum() == 0
    assert len(distinct) - len(present) == any(map(np.isnan, items))


COLUMNS_OF_NUMBERS = {
    "floats": st.lists(st.sampled_from([0.0, -0.0, 1.5, -np.inf, np.inf, np.nan]), max_size=40).map(np.array),
    "integers": st.lists(st.integers(-3, 3), max_size=40).map(lambda items: np.array(items, np.int8)),
    "truth values": st.lists(st.booleans(), max_size=40).map(lambda items: np.array(items, bool)),
    "dates": st.lists(st.sampled_from(["2024-01-01", "1969-12-31", "NaT"]), max_size=40).map(
        lambda items: np.array(items, "M8[D]")
    ),
    "every other number": st.lists(st.floats(width=16), max_size=40).map(lambda items: np.repeat(items, 2)[::2]),
}


@pytest.mark.parametrize("kind", COLUMNS_OF_NUMBERS)
@given(data=st.data())
def test_values_codes_and_first_rows_are_those_of_a_stable_sort(kind, data):
    """Whatever sorts: of equal values (all that are missing) it is the first row that is kept; -0 comes before 0."""
    array = data.draw(COLUMNS_OF_NUMBERS[kind])
    found = distinct_numbers(array)
    ranks = np.unique(array, return_inverse=True)[1]
    sign = np.where(array == 0, np.signbit(array), 0) if array.dtype.kind == "f" else 0
    _, first, codes = np.unique(2 * ranks - sign, return_index=True, return_inverse=True)
    assert found.values.dtype == array.dtype
    assert found.values.tobytes() == array[first].tobytes()
    np.testing.assert_array_equal(found.first, first)
    np.testing.assert_array_equal(found.codes, codes)


@given(st.lists(st.sampled_from([0, 1, 2, 65_535, 65_536, 65_537, 2**17, 2**31 - 1]), max_size=60))
def test_codes_are_sorted_by_their_digits_as_by_a_stable_sort(items):
    for kind in (np.int32, np.int64):
        codes = np.array(items, kind)
        np.testing.assert_array_equal(stable_order(codes), np.argsort(codes, kind="stable"))


@given(st.lists(st.one_of(st.none(), st.integers(-3, 3), st.text("ab", max_size=2), st.booleans()), min_size=1))
def test_objects_of_any_kind_are_told_apart(items):
    distinct = array_column(objects(*items)).distinct
    check(distinct, items)
    assert len(distinct) == len({(type(item), item) for item in items})
    assert None not in distinct.values[:-1].tolist()


def test_equal_objects_of_different_types_are_different_values():
    assert len(array_column(objects(1, 1.0, True, np.int64(1), "1")).distinct) == 5


@pytest.mark.parametrize(
    ("items", "numbers"),
    [
        ((3, np.int8(1), 2), np.array([3, 1, 2])),
        ((3, 1.5, Decimal("0.1"), Fraction(1, 2)), np.array([3, 1.5, 0.1, 0.5])),
        ((3, pd.NA, 1.5, pd.NA), np.array([3, np.nan, 1.5, np.nan])),
        ((2**53, None, 2**53 + 2), np.array([2.0**53, np.nan, 2.0**53 + 2])),
    ],
)
def test_objects_that_are_numbers_are_numbers(items, numbers):
    for one in (array_column(objects(*items)), column(pd.Series(objects(*items)))):
        assert one.array.dtype == numbers.dtype
        np.testing.assert_array_equal(one.array, numbers)
        assert one.ordered
        assert one.distinct.ordered


@pytest.mark.parametrize(
    "items",
    [
        (1, True), (1, "1"), (2**53, None, 2**53 + 1), (Decimal("0.1"), 0.1), (10**400, 1), (1j, 2.0), (None, None),
        (1, 1.0, 2), (1, 1.0, Decimal(1), None), (1, np.int64(1)), (3, None, pd.NA), (0.0, -0.0, None, float("nan")),
    ],
)  # fmt: skip
def test_objects_that_numbers_would_mix_up_stay_objects(items):
    for one in (array_column(objects(*items)), column(pd.Series(objects(*items), dtype=object))):
        assert one.array.dtype == object
        assert len(one.distinct) == len({(type(item), repr(item)) for item in items})


def test_every_kind_of_missing_is_a_value_of_its_own_and_the_last():
    nan = float("nan")
    items = ("b", None, nan, pd.NA, pd.NaT, Decimal("NaN"), np.datetime64("NaT", "ns"), "a", None, nan)
    distinct = array_column(objects(*items)).distinct
    assert [distinct.values[code] is item for code, item in zip(distinct.codes, items, strict=True)] == [True] * 10
    assert (len(distinct), distinct.present, count_missing(distinct.values)) == (8, 2, 6)


@pytest.mark.parametrize("missing", [float("nan"), pd.NA, pd.NaT])
def test_the_only_missing_value_among_objects_is_none(missing):
    distinct = array_column(objects("b", missing, "a", missing)).distinct
    assert distinct.values.tolist() == ["a", "b", None]
    assert distinct.codes.tolist() == [1, 2, 0, 2]
    np.testing.assert_array_equal(places_of(objects(missing, "b", None, "c"), distinct.values), [2, 1, 2, -1])


@pytest.mark.parametrize(
    "missing", [None, float("nan"), np.float32("nan"), pd.NA, pd.NaT, Decimal("NaN"), Decimal("sNaN")]
)
def test_missing_is_known_by_any_name(missing):
    assert is_missing(missing)


@pytest.mark.parametrize("value", [0, "", False, "nan", np.inf])
def test_nothing_else_is_missing(value):
    assert not is_missing(value)


def test_lists_in_a_column_are_refused():
    with pytest.raises(TypeError, match="unhashable"):
        _ = array_column(objects([1], [2])).distinct


ORDERED = {
    "float": [2.0, 10.0, 9.0],
    "int": [2, 10, 9],
    "bool": [True, False],
    "date": [DAY, DAY - dt.timedelta(300)],
    "datetime": [NOON, NOON - dt.timedelta(300)],
    "duration": [dt.timedelta(2), dt.timedelta(10), dt.timedelta(9)],
    "time": [dt.time(12), dt.time(2)],
    "decimal": [Decimal("2.0"), Decimal("10.0"), Decimal("9.0")],
}
LIBRARIES = {"pandas": pd.Series, "polars": pl.Series, "pyarrow": lambda items: pa.chunked_array([pa.array(items)])}


@pytest.mark.parametrize(
    ("kind", "library"),
    # To pandas decimals are objects, which have no order.
    [(kind, library) for kind in ORDERED for library in LIBRARIES if (kind, library) != ("decimal", "pandas")],
)
@pytest.mark.parametrize("missing", [False, True], ids=["complete", "missing"])
def test_values_that_have_an_order_are_in_it(kind, library, missing):
    items = ORDERED[kind]
    items = [None, *items, *items[:1]] if missing else [*items, *items[:1]]
    distinct = column(LIBRARIES[library](items)).distinct
    present = sorted(set(ORDERED[kind]))
    assert len(distinct) == len(present) + missing
    assert distinct.codes.tolist() == [len(present) if item is None else present.index(item) for item in items]


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("kind", ["float", "int", "bool", "datetime"])
def test_numbers_and_dates_say_that_they_are_ordered(kind, library):
    assert column(LIBRARIES[library](ORDERED[kind])).distinct.ordered


@pytest.mark.parametrize("library", LIBRARIES)
def test_words_are_told_apart_and_have_no_order(library):
    distinct = column(LIBRARIES[library](["b", "a", None, "b"])).distinct
    assert distinct.values.tolist() == ["a", "b", None]
    assert distinct.codes.tolist() == [1, 0, 2, 1]
    assert not distinct.ordered


@pytest.mark.parametrize(
    ("series", "ordered"),
    [
        (pd.Series(pd.Categorical(["s", "l", None, "s"], categories=["s", "m", "l"])), False),
        (pd.Series(pd.Categorical(["s", "l", None, "s"], categories=["s", "m", "l"], ordered=True)), True),
        (pl.Series(["s", "l", None, "s"], dtype=pl.Enum(["s", "m", "l"])), True),
    ],
    ids=["unordered", "ordered", "enum"],
)
def test_categories_come_in_their_own_order_and_unused_ones_not_at_all(series, ordered):
    distinct = column(series).distinct
    assert distinct.values.tolist() == ["s", "l", None]
    assert distinct.codes.tolist() == [0, 1, 2, 0]
    assert distinct.ordered == ordered


@pytest.mark.parametrize("ordered", [False, True])
def test_categories_need_not_be_words(ordered):
    series = pd.Series(pd.Categorical([3, 1, 3], categories=[3, 2, 1], ordered=ordered))
    assert column(series).distinct.values.tolist() == [3, 1]


@pytest.mark.parametrize(
    "series",
    [
        pl.Series(["b", "a", "b"], dtype=pl.Categorical),
        pa.chunked_array([pa.array(["b", "a", "b"])]).dictionary_encode(),
    ],
    ids=["polars", "pyarrow"],
)
def test_categories_without_an_order_of_their_own_are_sorted(series):
    distinct = column(series).distinct
    assert distinct.values.tolist() == ["a", "b"]
    assert not distinct.ordered


@pytest.mark.parametrize(
    "series",
    [
        pd.Series([2**53, 2**53 + 1, None], dtype="Int64"),
        pl.Series([2**53, 2**53 + 1, None]),
        pa.chunked_array([pa.array([2**53, 2**53 + 1, None])]),
    ],
    ids=["pandas", "polars", "pyarrow"],
)
def test_long_numbers_beside_missing_ones_stay_different(series):
    """As floats, which NumPy makes of whole numbers with a missing one among them, they would be the same."""
    assert column(series).distinct.codes.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    "series",
    [
        pd.Series([np.nan, np.nan]),
        pd.Series([None, None], dtype=object),
        pd.Series([None, None], dtype="Int64"),
        pd.Series(pd.Categorical([None, None], categories=["a"])),
        pd.Series([pd.NaT, pd.NaT]),
        pl.Series([None, None], dtype=pl.Int64),
        pl.Series([None, None], dtype=pl.String),
        pl.Series([None, None]),
        pa.chunked_array([pa.array([None, None], pa.int64())]),
        pa.chunked_array([pa.array([None, None])]),
    ],
    ids=lambda series: f"{type(series).__module__.partition('.')[0]} {type_of(series)}",
)
def test_a_column_with_nothing_in_it_has_one_value(series):
    distinct = column(series).distinct
    assert (len(distinct), distinct.codes.tolist()) == (1, [0, 0])
    assert is_missing(distinct.values[0]) or np.isnat(distinct.values[0])


def test_a_moment_is_the_same_in_every_time_zone():
    series = pd.Series(pd.to_datetime(["2024-01-01 12:00+00:00", "2024-01-01 11:00+00:00"])).dt.tz_convert("Asia/Tokyo")
    assert column(series).distinct.codes.tolist() == [1, 0]


# Several columns together.


@given(st.lists(st.tuples(st.integers(0, 2), st.sampled_from("ab")), min_size=1))
def test_the_values_of_a_group_are_its_distinct_rows(rows):
    numbers, words = (objects(*items) for items in zip(*rows, strict=True))
    distinct = joint([array_column(numbers).distinct, array_column(words).distinct])
    assert list(map(tuple, distinct.values[distinct.codes])) == rows
    assert len(distinct) == len(set(rows))
    assert [rows[first] for first in distinct.first] == list(map(tuple, distinct.values))


def test_a_group_of_numbers_has_numbers_for_values():
    parts = [array_column(np.array([1, 2, 1])).distinct, array_column(np.array([0.5, 0.5, 0.5])).distinct]
    assert joint(parts).values.dtype == float
    assert joint(parts[:1]) is parts[0]


# Gathering, and values of the user's own.

SERIES = {
    "pandas float32": pd.Series([0.5, 1.5], dtype="float32"),
    "pandas int8": pd.Series([1, 2], dtype="int8"),
    "pandas bool": pd.Series([True, False]),
    "pandas text": pd.Series(["a", "b"]),
    "pandas objects": pd.Series(["a", "b"], dtype=object),
    "pandas category": pd.Series(pd.Categorical(["a", "b"], categories=["b", "x", "a"])),
    "pandas ordered": pd.Series(pd.Categorical(["a", "b"], categories=["b", "x", "a"], ordered=True)),
    "pandas Int64": pd.Series([1, None], dtype="Int64"),
    "pandas boolean": pd.Series([True, None], dtype="boolean"),
    "pandas datetime": pd.Series(pd.to_datetime([NOON, None])),
    "pandas datetime in seconds": pd.Series(pd.to_datetime([NOON, None])).astype("datetime64[s]"),
    "pandas datetime with zone": pd.Series(pd.to_datetime([NOON, None])).dt.tz_localize("Europe/Vienna"),
    "pandas duration": pd.Series([dt.timedelta(1), None], dtype="timedelta64[us]"),
    "pandas arrow": pd.Series([1, None], dtype="int16[pyarrow]"),
    "polars Float32": pl.Series("a", [0.5, 1.5], dtype=pl.Float32),
    "polars Int8": pl.Series("a", [1, None], dtype=pl.Int8),
    "polars UInt16": pl.Series("a", [1, 2], dtype=pl.UInt16),
    "polars Boolean": pl.Series("a", [True, False]),
    "polars Decimal": pl.Series("a", [Decimal("1.5"), Decimal("2.5")]),
    "polars String": pl.Series("a", ["a", None]),
    "polars Enum": pl.Series("a", ["a", "b"], dtype=pl.Enum(["b", "x", "a"])),
    "polars Categorical": pl.Series("a", ["a", None], dtype=pl.Categorical),
    "polars Date": pl.Series("a", [DAY, None]),
    "polars Datetime": pl.Series("a", [NOON, None], dtype=pl.Datetime("ms", "Europe/Vienna")),
    "pyarrow int8": pa.chunked_array([pa.array([1], pa.int8()), pa.array([None], pa.int8())]),
    "pyarrow text": pa.chunked_array([pa.array(["a", None])]),
    "pyarrow dictionary": pa.chunked_array([pa.array(["a"]).dictionary_encode(), pa.array(["b"]).dictionary_encode()]),
    "pyarrow date": pa.chunked_array([pa.array([DAY, None])]),
}


for name, series in SERIES.items():
    if name.startswith("pandas"):
        series.name = "a"  # columns of a table have names


def listed(values):
    as_list = next(getattr(values, name) for name in ("to_pylist", "tolist", "to_list") if hasattr(values, name))
    return [None if is_missing(value) else value for value in as_list()]


@pytest.mark.parametrize("name", SERIES)
def test_gathering_keeps_values_and_type(name):
    series = SERIES[name]
    gathered = column(series).gather(np.array([1, 0, 0, 1]))
    first, second = listed(series)
    assert listed(gathered) == [second, first, first, second]
    if name != "pandas objects":  # what pandas makes of them is for the table to see to
        assert type_of(gathered) == type_of(series)


@pytest.mark.parametrize("name", SERIES)
def test_values_of_the_users_own_are_put_behind_in_the_same_type(name):
    series = SERIES[name]
    mine = listed(series)[:1]
    longer = column(series).extend(mine)
    gathered = longer.gather(np.array([2, 1]))
    assert listed(gathered) == [mine[0], listed(series)[1]]
    assert longer.distinct.codes.tolist()[0] == longer.distinct.codes.tolist()[2]
    if name != "pandas objects":
        assert type_of(gathered) == type_of(series)


@pytest.mark.parametrize(
    ("name", "misfit"),
    [
        ("pandas int8", 0.5),
        ("pandas int8", 1000),
        ("pandas float32", "much"),
        ("pandas category", "new"),
        ("pandas ordered", "new"),
        ("pandas Int64", 0.5),
        ("pandas datetime", "soon"),
        ("polars Int8", 0.5),
        ("polars Int8", 1000),
        ("polars Float32", "much"),
        ("polars Enum", "new"),
        ("polars Date", "soon"),
        ("pyarrow int8", 0.5),
        ("pyarrow int8", 1000),
        ("pyarrow date", "soon"),
    ],
)
def test_values_that_do_not_fit_the_column_are_refused_by_name(name, misfit):
    with pytest.raises(ValueError, match=r"Grid\(values=...\): .*don't fit"):
        column(SERIES[name]).extend([misfit])


@pytest.mark.parametrize(
    ("array", "misfit"),
    [(np.array([1, 2]), 0.5), (np.array([1, 2], "int8"), 1000), (np.array([0.5]), "much"), (np.array([True]), 2)],
)
def test_values_that_do_not_fit_an_array_are_refused_by_name(array, misfit):
    with pytest.raises(ValueError, match=r"Grid\(values=...\): .*don't fit a column of type"):
        array_column(array).extend([misfit])


def test_the_same_values_make_the_same_column():
    """One batch takes a column from one source."""
    one = array_column(np.array([0.5, 1.5]))
    assert one.extended([2.5]) is one.extended([2.5])
    assert one.extended([2.5]) is not one.extended([3.5])


def test_values_behind_an_array_keep_its_type():
    longer = array_column(np.array([0.5, np.nan], "float32")).extend([2, None])
    assert longer.array.dtype == np.float32
    np.testing.assert_array_equal(longer.gather(np.array([2, 3])), [2, np.nan])


@pytest.mark.parametrize(
    "frame",
    [
        pl.DataFrame({"a": [Decimal("1.50"), None]}, {"a": pl.Decimal(8, 2)}),
        pd.DataFrame({"a": pd.array([Decimal("1.50"), None], pd.ArrowDtype(pa.decimal128(8, 2)))}),
        pa.table({"a": pa.array([Decimal("1.50"), None], pa.decimal128(8, 2))}),
    ],
    ids=["polars", "pandas", "arrow"],
)
def test_numbers_behind_a_column_of_decimals_have_its_places(frame):
    column = as_table(frame).column_with(0, np.array([2.125, np.nan, -0.5]))
    np.testing.assert_array_equal(np.asarray(column.array, float), [1.5, np.nan, 2.12, np.nan, -0.5])


def test_values_without_a_common_order_are_sorted_by_type_and_text():
    for items in (["b", 2, "a", 10, 1.5], [10, "a", 1.5, "b", 2]):
        assert column(pd.Series(items, dtype=object)).distinct.values.tolist() == [1.5, 10, 2, "a", "b"]
