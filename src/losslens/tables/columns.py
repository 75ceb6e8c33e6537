"""One column of a table: its distinct values, their order, and selecting rows without changing its type."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from numbers import Integral, Real
from typing import Any
from weakref import WeakValueDictionary

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from losslens.typing import Indices


def narrow(positions: Indices) -> Indices:
    """Positions in half of the bytes, as long as they fit: a result holds some for each row and feature."""
    if len(positions) > np.iinfo(np.int32).max or not isinstance(positions, np.ndarray):  # or computed on access
        return positions
    return positions.astype(np.int32, copy=False)


def stable_order(codes: NDArray[Any]) -> Indices:
    """``np.argsort(codes, kind="stable")`` of numbers from 0 on, by digits of 16 bits: NumPy counts these."""
    order, shift, most = np.argsort(codes.astype(np.uint16), kind="stable"), 16, int(codes.max(initial=0))
    while most >> shift:
        order = order[np.argsort((codes[order] >> shift).astype(np.uint16), kind="stable")]
        shift += 16
    return order


@dataclass(frozen=True)
class Distinct:
    """The distinct values of one or several columns: distinct to a model, not only to Python (see `key`).

    ``values[codes[i]]`` is the value of row i and ``first[v]`` a row that holds value v; missing values, one of each
    kind, are the last. The only missing one among objects is None, whatever its kind. ``ordered``: the order of the
    codes is meaningful (numbers and dates, not strings).
    """

    values: NDArray[Any]
    codes: Indices
    first: Indices
    ordered: bool

    def __post_init__(self) -> None:
        object.__setattr__(self, "codes", narrow(self.codes))
        object.__setattr__(self, "first", narrow(self.first))

    def __len__(self) -> int:
        return len(self.first)

    @property
    def present(self) -> int:
        """The number of values that are not missing: they come before those that are."""
        return len(self) - count_missing(self.values)


@dataclass(frozen=True, eq=False)
class ClassRuns:
    """The class of each distinct value, of values that a model can't tell apart; of each run of values, if long."""

    classes: NDArray[np.int32]
    length: NDArray[np.int32] | None  # of each run; None: the class of each value
    size: int  # the number of classes, some of which may have none of the values

    @classmethod
    def of(cls, each: NDArray[np.int32], size: int) -> ClassRuns:
        """From the class of each value, (g,)."""
        first = np.flatnonzero(np.diff(each, prepend=-1))
        if 2 * len(first) > len(each):
            return cls(each, None, size)
        return cls(each[first], np.diff(first, append=len(each)).astype(np.int32), size)

    @property
    def each(self) -> NDArray[np.int32]:
        """The class of each value, (g,)."""
        return self.classes if self.length is None else np.repeat(self.classes, self.length)


@dataclass(frozen=True, eq=False)
class Column:
    """``gather(index)`` selects rows and keeps the type; ``array`` is the column as a NumPy array to compute with.

    Numbers are an array of numbers there, whatever holds them: objects, decimals, sparse columns. ``null``: the rows
    that are null in a column of floats where others are NaN; the array shows both as NaN.
    """

    gather: Callable[[Indices], Any]
    array: NDArray[Any]
    categories: tuple[Any, ...] | None  # of a categorical column, in its own order
    ordered: bool
    extend: Callable[[Sequence[Any]], Column]
    null: NDArray[np.bool_] | None = None

    def extended(self, values: Sequence[Any]) -> Column:
        """The column with the user's values appended; cached by the values."""
        cache: dict[str, Column] = self.__dict__.setdefault("_extended", {})
        if repr(values) not in cache:
            cache[repr(values)] = self.extend(values)
        return cache[repr(values)]

    @cached_property
    def distinct(self) -> Distinct:
        """Distinct values in their order, with missing values last."""
        distinct = distinct_values(self.array, self.categories, self.ordered)
        return distinct if self.null is None else _with_null(distinct, self.null)

    @cached_property
    def held(self) -> WeakValueDictionary[Any, NDArray[Any]]:
        """Arrays of a result, as long as it holds them: the results of other models share them."""
        return WeakValueDictionary()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "held"}


def distinct_values(array: NDArray[Any], categories: tuple[Any, ...] | None, ordered: bool) -> Distinct:
    """Distinct values of a column in their order, with missing values last."""
    if _is_numeric(array):
        return distinct_numbers(array)
    return _distinct_objects(array.tolist(), categories, ordered)


def _is_numeric(array: NDArray[Any]) -> bool:
    """Whether these are numbers or dates, not objects."""
    return array.dtype.kind in "biufmM"


def distinct_numbers(array: NDArray[Any]) -> Distinct:
    """The distinct values of numbers or dates, and the first row of each; NaN and NaT are one value, the last.

    -0.0 comes before 0.0: a model may divide by it, or ask for its sign.
    """
    array = np.ascontiguousarray(array)
    order = narrow(np.argsort(array))  # not stable, as `np.unique` would be: that takes several times as long
    ranked = array[order]
    starts = np.ones(len(array), bool)
    np.not_equal(ranked[1:], ranked[:-1], out=starts[1:])
    if array.dtype.kind in "fmM":
        starts[len(array) - np.count_nonzero(np.isnan(ranked)) + 1 :] = False
    if array.dtype.kind == "f":
        low, high = np.searchsorted(ranked, 0.0, "left"), np.searchsorted(ranked, 0.0, "right")
        negative = np.signbit(ranked[low:high])
        if negative.any() and not negative.all():
            order[low:high] = order[low:high][np.argsort(~negative, kind="stable")]
            ranked[low:high] = array[order[low:high]]
            starts[low + np.count_nonzero(negative)] = True
    codes = np.empty_like(order)
    if starts.all():
        codes[order] = np.arange(len(array), dtype=codes.dtype)
        return Distinct(ranked, codes, order, ordered=True)
    codes[order] = np.cumsum(starts, dtype=codes.dtype) - 1
    first = np.minimum.reduceat(order, np.flatnonzero(starts))
    return Distinct(array[first], codes, first, ordered=True)


def _with_null(distinct: Distinct, null: NDArray[np.bool_]) -> Distinct:
    """The values of a column of floats in which NaN and null are two values; null is the last."""
    g, codes = len(distinct), distinct.codes.copy()
    codes[null] = g
    nan = np.flatnonzero(codes == g - 1)[0]
    values = np.append(distinct.values.astype(object), [None])
    return Distinct(values, codes, np.append(distinct.first[:-1], [nan, np.flatnonzero(null)[0]]), ordered=True)


def is_missing(value: Any) -> bool:
    """None, NaN (also a decimal one), NaT and pandas' NA, without importing pandas."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    if isinstance(value, Decimal):
        return value.is_nan()
    if isinstance(value, (np.datetime64, np.timedelta64)):
        return bool(np.isnat(value))
    return isinstance(value, (float, np.floating)) and bool(np.isnan(value))


def count_missing(values: NDArray[Any]) -> int:
    """How many of the last of distinct values are missing: kinds of them, such as None and NaN.

    >>> count_missing(np.array([1.0, 2.0, np.nan])), count_missing(np.array(["a", None, np.nan], object))
    (1, 2)
    """
    if values.ndim != 1 or values.dtype.kind not in "fmMO":
        return 0
    return next((k for k, value in enumerate(reversed(values)) if not is_missing(value)), len(values))


def missing_name(value: Any) -> str:
    """The kind of a missing value: None, NaN, NaT or NA."""
    kinds = {"NoneType": "None", "NAType": "NA", "NaTType": "NaT", "datetime64": "NaT", "timedelta64": "NaT"}
    return kinds.get(type(value).__name__, "NaN")


def is_number(value: Any) -> bool:
    """A real number or a truth value of any type."""
    return isinstance(value, (Real, Decimal, np.bool_))


# Types whose equal values no model can tell apart.
_PLAIN = frozenset({str, bytes, int, bool, type(None), dt.date})


def key(value: Any) -> Hashable:
    """The same for two values only if a model can't tell them apart; equality of the language is not enough.

    It is the type and the value, or its bits: 1, 1.0 and True are equal in Python, and so are 0.0 and -0.0,
    Decimal("0.5") and Decimal("0.50"), noon in Paris and 11 o'clock in London. NaN is not even equal to itself.
    """
    kind: Any = type(value)
    if kind in _PLAIN:
        return kind, value
    if is_missing(value):
        return kind, None
    if isinstance(value, (float, np.floating)):
        return kind, value, bool(np.signbit(value))
    if isinstance(value, Decimal):
        return kind, value.as_tuple()
    if isinstance(value, (dt.datetime, dt.time)):
        return kind, value, value.utcoffset(), str(value.tzinfo)
    if isinstance(value, (np.datetime64, np.timedelta64)):
        return kind, value, value.dtype.str
    if isinstance(value, tuple):
        return kind, tuple(map(key, value))
    if isinstance(value, frozenset):
        return kind, frozenset(map(key, value))
    return kind, value


def keys_of(items: Sequence[Any]) -> list[Hashable]:
    """The `key` of each of many items."""
    kinds = list(map(type, items))
    return list(zip(kinds, items, strict=True)) if _PLAIN.issuperset(kinds) else list(map(key, items))


def places_of(items: NDArray[Any], values: NDArray[Any]) -> Indices:
    """The place of each item among distinct values, -1 where it is none of them.

    Where these have one missing value, that is the place of every missing item.
    """
    place = {own: k for k, own in enumerate(keys_of(values.tolist()))}
    places = np.array([place.get(own, -1) for own in keys_of(items.tolist())], np.intp)
    if count_missing(values) == 1:
        places[[k for k, item in enumerate(items.tolist()) if is_missing(item)]] = len(values) - 1
    return places


def numbers_among(objects: NDArray[Any]) -> NDArray[Any]:
    """Objects as integers or floats, if they are numbers or missing and stay different from each other.

    Truth values, equal numbers of several types and several kinds of missing values stay objects: a model may tell
    True or 1.0 from 1.
    """
    items = objects.tolist()
    if not all(is_missing(item) or (is_number(item) and not isinstance(item, (bool, np.bool_))) for item in items):
        return objects
    present = [item for item in items if not is_missing(item)]
    different = set(keys_of(items))
    try:
        if len(present) == len(items) and all(isinstance(item, Integral) for item in items):
            array = np.array(items, np.int64)
        else:
            array = np.array([np.nan if is_missing(item) else float(item) for item in items])
    except OverflowError:  # integers beyond 64 bits
        return objects
    return array if present and len(distinct_numbers(array)) == len(different) else objects


def _distinct_objects(items: list[Any], categories: tuple[Any, ...] | None, ordered: bool) -> Distinct:
    try:
        keys, first = keys_of(items), dict[Hashable, int]()
        for row, own in enumerate(keys):
            first.setdefault(own, row)
    except TypeError as error:
        raise TypeError("a column of lists or other unhashable values can't be explained") from error
    different, rows = list(first), list(first.values())
    order = sorted_places([items[row] for row in rows], categories)
    place = {different[k]: code for code, k in enumerate(order)}
    values = np.empty(len(order), dtype=object)
    values[:] = [items[rows[k]] for k in order]
    codes = np.fromiter((place[own] for own in keys), np.intp, len(keys))
    ordered = ordered or (categories is None and all(is_number(value) for value in values if not is_missing(value)))
    return Distinct(one_missing(values), codes, np.array([rows[k] for k in order], np.intp), ordered)


def one_missing(values: NDArray[Any]) -> NDArray[Any]:
    """Distinct values, the only missing one among objects as None: NaN and NA don't compare as others do."""
    if values.dtype == object and count_missing(values) == 1:
        values = values.copy()
        values[-1] = None
    return values


def sorted_places(values: Sequence[Any], categories: tuple[Any, ...] | None) -> list[int]:
    """The places of distinct values, sorted; missing values come last.

    They are in the order of their categories, in their natural order, or, if they have none, by type and text.
    """
    absent = sorted((k for k, value in enumerate(values) if is_missing(value)), key=lambda k: missing_name(values[k]))
    there = [k for k in range(len(values)) if k not in set(absent)]
    if categories is not None:
        place = {value: position for position, value in enumerate(categories)}
        return [*sorted(there, key=lambda k: place.get(values[k], len(place))), *absent]
    try:
        there.sort(key=lambda k: (values[k], type(values[k]).__name__))
    except TypeError:
        there.sort(key=lambda k: (type(values[k]).__name__, str(values[k])))
    return [*there, *absent]


def joint(parts: Sequence[Distinct]) -> Distinct:
    """The distinct rows of several columns together: the values of a group of features."""
    if len(parts) == 1:
        return parts[0]
    stacked = np.stack([part.codes for part in parts], axis=1)
    rows, first, codes = np.unique(stacked, axis=0, return_index=True, return_inverse=True)
    columns = [part.values[rows[:, c]] for c, part in enumerate(parts)]
    numeric = all(column.dtype.kind in "biuf" for column in columns)
    values = np.stack([column.astype(float if numeric else object) for column in columns], axis=1)
    return Distinct(values, codes.reshape(-1), first, ordered=False)


def array_column(array: NDArray[Any]) -> Column:
    """A column of a NumPy array."""

    def extend(values: Sequence[Any]) -> Column:
        return array_column(np.concatenate([array, _cast(values, array.dtype)]))

    comparable = numbers_among(array) if array.dtype == object else array
    return Column(lambda index: array[index], comparable, None, comparable.dtype.kind in "biufmM", extend)


def _cast(values: Sequence[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    wanted = np.asarray(values)
    try:
        if dtype.kind in "biuf" and any(isinstance(value, str) for value in values):
            raise TypeError("strings")  # NumPy would read the string "1" as a number
        cast = wanted.astype(dtype)
        same = dtype.kind == "f" or bool(np.all(cast == wanted))
    except (TypeError, ValueError):
        same = False
    if not same:
        raise ValueError(f"Grid(values=...): {list(values)!r} don't fit a column of type {dtype}")
    return cast


def frame_column(series: Any) -> Column:
    """A column of a data frame (a narwhals series)."""
    categories, ordered = _categories(series)

    def extend(values: Sequence[Any]) -> Column:
        return frame_column(concat_series(series, _like(series, values)))

    array = _comparable(series)
    if array.dtype == object and categories is None:
        array = numbers_among(array)
    kept = _gatherer(series), array, categories, ordered or array.dtype.kind in "biuf", extend
    return Column(*kept, null=_null_beside_nan(series, array))


def _null_beside_nan(series: Any, array: NDArray[Any]) -> NDArray[np.bool_] | None:
    """The rows that are null, in a column of floats in which others are NaN; None in any other."""
    if array.dtype.kind != "f":
        return None
    nan = np.count_nonzero(np.isnan(array))
    null = np.asarray(series.is_null().to_numpy(), bool) if nan else np.zeros(0, bool)
    return null if 0 < np.count_nonzero(null) < nan else None


def _categories(series: Any) -> tuple[tuple[Any, ...] | None, bool]:
    dtype = series.dtype
    if isinstance(dtype, nw.Enum):
        return tuple(dtype.categories), True
    if dtype == nw.Categorical:
        if series.implementation.is_pandas() and hasattr(series.to_native().dtype, "categories"):  # not pyarrow's
            return tuple(series.to_native().cat.categories), False
        return tuple(sorted(series.drop_nulls().unique().to_list())), False
    return None, dtype.is_numeric() or dtype.is_temporal() or dtype == nw.Boolean


def _comparable(series: Any) -> NDArray[Any]:
    """The column as an array whose entries are equal exactly where they are equal to the model."""
    numeric = series.dtype.is_numeric() and series.dtype not in _BEYOND_NUMPY
    if numeric or series.dtype == nw.Boolean or series.dtype.is_temporal():
        array = np.asarray(series.to_numpy())
        # Integers with missing values become floats, in which different large ones are equal.
        merged = array.dtype.kind == "f" and series.dtype.is_integer() and np.nanmax(np.abs(array), initial=0) >= 2**53
        if array.dtype.kind in "biufmM" and not merged:
            return array
    array = np.empty(len(series), dtype=object)
    array[:] = series.to_list()
    return array


def _gatherer(series: Any) -> Callable[[Indices], Any]:
    """Selection through NumPy where that keeps the type, because it is several times faster."""
    native, backend = series.to_native(), series.implementation
    plain = series.dtype.is_numeric() or series.dtype == nw.Boolean
    if backend.is_pandas():
        if isinstance(native.dtype, np.dtype) and plain:
            return native.to_numpy().take  # type: ignore[no-any-return]
        if native.dtype == object:  # pandas would infer another type for a bare array of objects
            values, make = native.array, type(native)
            return lambda index: make(values.take(index), dtype=object)
        return native.array.take  # type: ignore[no-any-return]
    if backend.is_polars():
        if plain and series.dtype not in _BEYOND_NUMPY and native.null_count() == 0:
            values, make = native.to_numpy(), type(native)
            return lambda index: make(values[index])
        return native.gather  # type: ignore[no-any-return]
    array = native.combine_chunks() if hasattr(native, "combine_chunks") else native
    return lambda index: array.take(_arrow_indices(index))


_BEYOND_NUMPY = (nw.Decimal, nw.Int128, nw.UInt128)


def _arrow_indices(index: Indices) -> Any:
    import pyarrow as pa  # the column is pyarrow's: it is loaded already

    return pa.array(index)


def concat_series(first: Any, second: Any) -> Any:
    """Two series as one."""
    return nw.concat([series.alias("both").to_frame() for series in (first, second)])["both"]  # names may differ


def like_column(series: Any, values: Any) -> Any:
    """Values as a series of the same type as this one."""
    # The native type holds more than narwhals': pandas' category list and nullable types, arrow's index types.
    native = series.to_native()
    if series.implementation.is_pandas():
        if native.dtype.name == "category":  # of other values pandas warns; here they are missing, and refused later
            codes = native.cat.categories.get_indexer_for(values)
            values = type(native.array).from_codes(codes, dtype=native.dtype)
        return nw.from_native(type(native)(values, dtype=native.dtype, name=native.name), series_only=True)
    if series.implementation.is_polars():
        new = type(native)(native.name, values, dtype=native.dtype).cast(native.dtype)  # old releases may not convert
        return nw.from_native(new, series_only=True)
    if series.dtype in (nw.Decimal, nw.Categorical):  # old releases of narwhals do not know places and index types
        import pyarrow as pa

        return nw.from_native(pa.chunked_array([pa.array(values, native.type)]), series_only=True).alias(series.name)
    new = nw.new_series(series.name, values, dtype=series.dtype, backend=series.implementation)
    return nw.from_native(new.to_native().cast(native.type), series_only=True).alias(series.name)


def objects_like(own: NDArray[Any], values: NDArray[Any]) -> NDArray[Any]:
    """Numbers as objects, those that are missing as the column's own missing value."""
    items = values.astype(object)
    items[np.isnan(values)] = next((item for item in own.tolist() if is_missing(item)), None)
    return items


def as_decimals(series: Any, values: NDArray[Any]) -> list[Decimal | None]:
    """Floats as decimals with as many places as a column of decimals has; frame libraries convert only some of them."""
    native = series.to_native()
    kind = native.type if series.implementation.is_pyarrow() else native.dtype
    places = getattr(kind, "pyarrow_dtype", kind).scale
    return [None if np.isnan(value) else Decimal(f"{value:.{places}f}") for value in values.tolist()]


def _like(series: Any, values: Sequence[Any]) -> Any:
    """The user's values as a series of the same type, or an error that names them."""
    wanted = list(values)
    try:
        new = like_column(series, wanted)
        lost = [w for w, got in zip(wanted, new.to_list(), strict=True) if is_missing(got) and not is_missing(w)]
        moved = not series.dtype.is_float() and [
            w for w, got in zip(wanted, new.to_list(), strict=True) if not is_missing(w) and got != w
        ]
    except Exception as error:
        raise ValueError(f"Grid(values=...): {wanted!r} don't fit column {series.name!r} ({series.dtype})") from error
    if lost or moved:
        raise ValueError(f"Grid(values=...): {(lost or moved)!r} don't fit column {series.name!r} ({series.dtype})")
    return new
