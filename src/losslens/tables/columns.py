"""One column of a table: its distinct values, their order, and selecting rows without changing its type."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
    """The distinct values of one or several columns.

    ``values[codes[i]]`` is the value of row i and ``first[v]`` a row that holds value v; a missing value is the
    last one. ``ordered``: the order of the codes is meaningful (numbers and dates, not strings).
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


@dataclass(frozen=True, eq=False)
class ClassRuns:
    """The class of each distinct value, of values that a model can't tell apart; of each run of values, if long."""

    classes: NDArray[np.int32]
    length: NDArray[np.int32] | None  # of each run; None: the class of each value

    @classmethod
    def of(cls, each: NDArray[np.int32]) -> ClassRuns:
        """From the class of each value, (g,)."""
        first = np.flatnonzero(np.diff(each, prepend=-1))
        if 2 * len(first) > len(each):
            return cls(each, None)
        return cls(each[first], np.diff(first, append=len(each)).astype(np.int32))

    @property
    def size(self) -> int:
        """The number of classes."""
        return int(self.classes.max()) + 1

    @property
    def each(self) -> NDArray[np.int32]:
        """The class of each value, (g,)."""
        return self.classes if self.length is None else np.repeat(self.classes, self.length)


@dataclass(frozen=True, eq=False)
class Column:
    """``gather(index)`` selects rows and keeps the type; ``array`` is the column as a NumPy array to compute with.

    Numbers are an array of numbers there, whatever holds them: objects, decimals, sparse columns.
    """

    gather: Callable[[Indices], Any]
    array: NDArray[Any]
    categories: tuple[Any, ...] | None  # of a categorical column, in its own order
    ordered: bool
    extend: Callable[[Sequence[Any]], Column]

    def extended(self, values: Sequence[Any]) -> Column:
        """The column with the user's values appended; cached by the values."""
        cache: dict[str, Column] = self.__dict__.setdefault("_extended", {})
        if repr(values) not in cache:
            cache[repr(values)] = self.extend(values)
        return cache[repr(values)]

    @cached_property
    def distinct(self) -> Distinct:
        """Distinct values in their order, with the missing value last."""
        values, codes = self.held.get("values"), self.held.get("codes")
        if values is None or codes is None:
            return distinct_values(self.array, self.categories, self.ordered)
        first = np.empty(len(values), codes.dtype)
        first[codes[::-1]] = np.arange(len(codes))[::-1]  # of the rows with a value the last one assigned: the first
        return Distinct(values, codes, first, ordered=True)

    @cached_property
    def held(self) -> WeakValueDictionary[Any, NDArray[Any]]:
        """Arrays of a result, as long as it holds them: the results of other models share them."""
        return WeakValueDictionary()

    def release(self) -> None:
        """Forget the distinct values, which take more than the column; what results hold of numbers is found again."""
        known: Distinct | None = vars(self).pop("distinct", None)
        if known is not None and _is_numeric(self.array):
            known.values.flags.writeable = known.codes.flags.writeable = False  # several results may share them
            self.held.update(values=known.values, codes=known.codes)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "held"}


def distinct_values(array: NDArray[Any], categories: tuple[Any, ...] | None, ordered: bool) -> Distinct:
    """Distinct values of a column in their order, with the missing value last."""
    if _is_numeric(array):
        return distinct_numbers(array)
    return _distinct_objects(array.tolist(), categories, ordered)


def _is_numeric(array: NDArray[Any]) -> bool:
    """Whether these are numbers or dates, not objects."""
    return array.dtype.kind in "biufmM"


def distinct_numbers(array: NDArray[Any]) -> Distinct:
    """The distinct values of numbers or dates, and the first row of each; NaN and NaT are one value, the last."""
    array = np.ascontiguousarray(array)
    order = narrow(np.argsort(array))  # not stable, as `np.unique` would be: that takes several times as long
    ranked = array[order]
    starts = np.ones(len(array), bool)
    np.not_equal(ranked[1:], ranked[:-1], out=starts[1:])
    if array.dtype.kind in "fmM":
        starts[len(array) - np.count_nonzero(np.isnan(ranked)) + 1 :] = False
    codes = np.empty_like(order)
    if starts.all():
        codes[order] = np.arange(len(array), dtype=codes.dtype)
        return Distinct(ranked, codes, order, ordered=True)
    codes[order] = np.cumsum(starts, dtype=codes.dtype) - 1
    first = np.minimum.reduceat(order, np.flatnonzero(starts))
    return Distinct(array[first], codes, first, ordered=True)


def is_missing(value: Any) -> bool:
    """None, NaN (also a decimal one), NaT and pandas' NA, without importing pandas."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    if isinstance(value, Decimal):
        return value.is_nan()
    return isinstance(value, (float, np.floating)) and bool(np.isnan(value))


def is_number(value: Any) -> bool:
    """A real number or a truth value of any type."""
    return isinstance(value, (Real, Decimal, np.bool_))


def numbers_among(objects: NDArray[Any]) -> NDArray[Any]:
    """Objects as integers or floats, if they are numbers or missing and stay different from each other.

    Truth values, and equal numbers of several types, stay objects: a model may tell True or 1.0 from 1.
    """
    items = objects.tolist()
    if not all(is_missing(item) or (is_number(item) and not isinstance(item, (bool, np.bool_))) for item in items):
        return objects
    present = [item for item in items if not is_missing(item)]
    different = {(type(item), item) for item in present}
    try:
        if len(present) == len(items) and all(isinstance(item, Integral) for item in items):
            array = np.array(items, np.int64)
        else:
            array = np.array([np.nan if is_missing(item) else float(item) for item in items])
    except OverflowError:  # integers beyond 64 bits
        return objects
    return array if present and len(set(array[array == array].tolist())) == len(different) else objects


def _distinct_objects(items: list[Any], categories: tuple[Any, ...] | None, ordered: bool) -> Distinct:
    # The type is part of the key: 1, 1.0 and True are equal in Python but not to every model.
    keys = [None if is_missing(item) else (type(item), item) for item in items]
    try:
        first: dict[Any, int] = {}
        for row, key in enumerate(keys):
            first.setdefault(key, row)
    except TypeError as error:
        raise TypeError("a column of lists or other unhashable values can't be explained") from error
    present = _sorted([key for key in first if key is not None], categories)
    keyed = [*present, *([None] if None in first else [])]
    place = {key: code for code, key in enumerate(keyed)}
    values = np.empty(len(keyed), dtype=object)
    values[:] = [None if key is None else key[1] for key in keyed]
    codes = np.fromiter((place[key] for key in keys), np.intp, len(keys))
    ordered = ordered or (categories is None and all(is_number(value) for _, value in present))
    return Distinct(values, codes, np.array([first[key] for key in keyed], np.intp), ordered)


def _sorted(keys: list[tuple[type, Any]], categories: tuple[Any, ...] | None) -> list[tuple[type, Any]]:
    """Values in the order of their categories, in their natural order, or, if they have none, by type and text."""
    if categories is not None:
        place = {value: position for position, value in enumerate(categories)}
        return sorted(keys, key=lambda key: place.get(key[1], len(place)))
    try:
        return sorted(keys, key=lambda key: (key[1], key[0].__name__))
    except TypeError:
        return sorted(keys, key=lambda key: (key[0].__name__, str(key[1])))


def sorted_keys(keys: list[Any], categories: tuple[Any, ...] | None) -> list[Any]:
    """Keys of values, ``(type, value)``, sorted; None, the key of missing values, comes last."""
    return [*_sorted([key for key in keys if key is not None], categories), *([None] if None in keys else [])]


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
    return Column(_gatherer(series), array, categories, ordered or array.dtype.kind in "biuf", extend)


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
    whole = native.combine_chunks() if hasattr(native, "combine_chunks") else native
    return lambda index: whole.take(_arrow_indices(index))


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
        return nw.from_native(type(native)(values, dtype=native.dtype, name=native.name), series_only=True)
    if series.implementation.is_polars():
        new = type(native)(native.name, values, dtype=native.dtype).cast(native.dtype)  # old releases may not convert
        return nw.from_native(new, series_only=True)
    if series.dtype in (nw.Decimal, nw.Categorical):  # old releases of narwhals do not know places and index types
        import pyarrow as pa

        return nw.from_native(pa.chunked_array([pa.array(values, native.type)]), series_only=True).alias(series.name)
    new = nw.new_series(series.name, values, dtype=series.dtype, backend=series.implementation)
    return nw.from_native(new.to_native().cast(native.type), series_only=True).alias(series.name)


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
