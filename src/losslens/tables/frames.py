"""Tables: any data frame or array as columns, distinct values, and batches with some values replaced.

Frame libraries are used through narwhals, here and in `columns`. The model always gets the user's own kind of table,
with its own column types.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from losslens.tables.arrays import native_order
from losslens.tables.columns import (
    Column,
    array_column,
    as_decimals,
    concat_series,
    frame_column,
    like_column,
    objects_like,
)
from losslens.tables.row_labels import Labels, has_other_order, labels_of
from losslens.typing import Indices

TEXT = "text"  # the column of a list of texts


@dataclass(frozen=True)
class Edit:
    """Rows start..stop of a batch take ``source[index]`` in one column, each entry for an equal run of rows."""

    start: int
    stop: int
    column: int
    source: Column
    index: Indices


@dataclass(frozen=True)
class Table:
    """The user's table, and what the engines need of it."""

    native: Any
    labels: tuple[Hashable, ...]
    names: tuple[str, ...]
    n: int
    backend: str  # "numpy", "pandas", "polars", "pyarrow"

    @property
    def index(self) -> Any:
        """The index of a pandas frame; None for other tables."""
        return self.native.index if self.backend == "pandas" else None

    @cached_property
    def row_labels(self) -> Labels | None:
        """The labels of the rows; None if they are known by position."""
        return labels_of(self.index)

    def column(self, position: int) -> Column:
        """One column."""
        if self.backend == "numpy":
            return array_column(self.native[:, position])
        return frame_column(self._series(position))

    def column_with(self, position: int, values: NDArray[Any]) -> Column:
        """A column with numbers appended, which take its type; a missing one is that of the column."""
        if self.backend == "numpy":
            own = self.native[:, position]
            return array_column(
                np.append(own, objects_like(own, values) if own.dtype == object else values.astype(own.dtype))
            )
        series = self._series(position)
        if series.dtype == nw.Object:
            own = np.array(series.to_list(), object)
            return frame_column(concat_series(series, like_column(series, objects_like(own, values))))
        if series.dtype == nw.Decimal:
            return frame_column(concat_series(series, like_column(series, as_decimals(series, values))))
        if not series.dtype.is_float() and np.isnan(values).any():  # integers with missing values fit no NumPy array
            exact = int if series.dtype.is_integer() else float
            return frame_column(
                concat_series(series, like_column(series, [None if np.isnan(v) else exact(v) for v in values]))
            )
        return frame_column(concat_series(series, like_column(series, values)))

    def _series(self, position: int) -> Any:
        if self.backend == "pandas":  # by position: labels may be numbers or tuples
            return nw.from_native(self.native.iloc[:, position], series_only=True)
        return _narwhals(self.native)[self.names[position]]

    def rows(self, index: Indices) -> Any:
        """Some rows, as a table of the same kind."""
        if self.backend == "numpy":
            return self.native[index]
        if self.backend == "pandas":
            return self.native.take(index)
        return _narwhals(self.native)[index].to_native()

    def entries(self, index: Indices) -> list[Sequence[Any]]:
        """Some rows, as lists of Python objects: quick in tables of many columns."""
        rows = self.rows(index)
        in_arrays = self.backend in ("numpy", "pandas")
        return list(np.asarray(rows, dtype=object)) if in_arrays else list(_narwhals(rows).rows())

    def at(self, rows: Indices) -> Table:
        """Some rows, as a table of their own."""
        return replace(self, native=self.rows(rows), n=len(rows))

    def take(self, columns: Sequence[int]) -> Any:
        """Some columns, as a table of the same kind."""
        if self.backend == "numpy":
            return self.native[:, list(columns)]
        if self.backend == "pandas":
            return self.native.iloc[:, list(columns)]
        return _narwhals(self.native).select([self.names[j] for j in columns]).to_native()

    @property
    def row_bytes(self) -> int:
        """Approximate bytes of a row of a batch."""
        if self.backend == "numpy":
            return int(self.native.itemsize * len(self.names))
        if self.backend == "pandas":  # batches have no index
            size = self.native.memory_usage(index=False, deep=True).sum()
        else:
            size = _narwhals(self.native).estimated_size()
        return max(8 * len(self.names), int(size) // max(self.n, 1))


def as_table(X: Any) -> Table:
    """The user's table, checked."""
    if isinstance(X, Table):
        return X
    if type(X).__module__.startswith("scipy.sparse"):  # by name: importing it would slow `import losslens`
        raise TypeError("X is sparse; losslens needs dense data: pass X.toarray() or a data frame")
    if any(isinstance(part, np.ma.MaskedArray) for part in (X if isinstance(X, (list, tuple)) else (X,))):
        raise TypeError("X is a masked array; pass X.filled(numpy.nan), or a data frame with missing values")
    X = nw.to_native(X, pass_through=True)
    if isinstance(X, (list, tuple)) and not is_texts(X):
        try:
            X = np.asarray(X)
        except ValueError as error:
            raise ValueError(f"X is a {type(X).__name__} of rows of different lengths; pass a table") from error
    if is_texts(X):
        table = _text_table(X)
    elif _is_array(X):
        table = _array_table(native_order(np.asarray(X)))
    else:
        table = frame_table(X)
    if table.n < 2:
        what = "no rows" if table.n == 0 else "one row"
        raise ValueError(f"X has {what}; replacing values needs at least two rows")
    if not table.names:
        raise ValueError("X has no columns")
    return table


def is_texts(X: Any) -> bool:
    """Whether this is one text for each row: a list, an array or a series of strings."""
    X = nw.to_native(X, pass_through=True)
    if isinstance(X, np.ndarray):
        return X.ndim == 1 and X.dtype.kind in "OUT" and len(X) > 0 and all(isinstance(text, str) for text in X)
    if isinstance(X, (list, tuple)):
        return len(X) > 0 and all(isinstance(text, str) for text in X)
    series = nw.from_native(X, series_only=True, allow_series=True, pass_through=True)
    return isinstance(series, nw.Series) and series.dtype == nw.String


def _text_table(X: Any) -> Table:
    """Texts as a table of one column."""
    if isinstance(X, (np.ndarray, list, tuple)):
        return Table(np.array(X, object)[:, None], (TEXT,), (TEXT,), len(X), "numpy")
    series = nw.from_native(X, series_only=True)
    named = series if series.name not in (None, "") else series.alias(TEXT)
    return frame_table(named.to_frame().to_native())


def texts_of(table: Any) -> Any:
    """The only column of a table, as a list, an array or a series, for models that take one text a row.

    >>> texts_of(np.array([["good"], ["bad"]], object))
    array(['good', 'bad'], dtype=object)
    """
    if table.shape[1] != 1:
        raise ValueError(f"the model reads one text a row, and X has {table.shape[1]} columns: pass that of the texts")
    if isinstance(table, np.ndarray):
        return table[:, 0]
    column = _narwhals(table)[:, 0]
    return column.to_list() if column.implementation.is_pyarrow() else column.to_native()


def _array_table(array: NDArray[Any]) -> Table:
    if array.ndim != 2:
        raise ValueError(f"X must have two dimensions, rows and columns; got an array of shape {array.shape}")
    if array.dtype.names is not None:
        raise TypeError("X is a structured array; pass a data frame instead")
    labels = tuple(f"x{j}" for j in range(array.shape[1]))
    return Table(array, labels, labels, array.shape[0], "numpy")


def frame_table(X: Any) -> Table:
    """A data frame of any number of rows."""
    labels: tuple[Hashable, ...] = ()
    if _is_eager(X):  # in pyarrow `columns` is the data; hasattr of the type, because columns can be attributes
        labels = tuple(X.column_names if hasattr(type(X), "column_names") else getattr(X, "columns", ()))
    doubled = [str(name) for name, count in Counter(map(str, labels)).items() if count > 1]
    if doubled:
        raise ValueError(f"X has more than one column named {doubled[0]!r}; give each column its own name")
    try:
        frame = nw.from_native(X, eager_only=True)
    except TypeError as error:
        is_lazy = hasattr(X, "collect") or hasattr(X, "compute")
        hint = "; call .collect() or .compute() first" if is_lazy else ""
        if type(X).__name__ == "Series":
            hint = "; one row of pandas is X.iloc[[0]], not X.iloc[0], and one column X[['name']]"
        if isinstance(X, (str, Path)):
            hint = ": files are read by feature_importance, feature_effect and shapley_importance; load a sample"
        raise TypeError(
            f"X must be a NumPy array or a pandas, polars or pyarrow table; got {type(X).__name__}{hint}"
        ) from error
    backend = frame.implementation.value
    _check_types(X, backend)
    if backend == "pandas":
        X = _in_native_order(X)
    return Table(X, labels, tuple(map(str, labels)), len(frame), str(backend))


def _check_types(X: Any, backend: str) -> None:
    """Raise TypeError for columns of which pandas or pyarrow can't select rows."""
    if backend == "pandas":
        kinds = {str(label): getattr(kind, "pyarrow_dtype", kind) for label, kind in X.dtypes.items()}
    else:
        kinds = {field.name: field.type for field in X.schema} if backend == "pyarrow" else {}
    for name, kind in kinds.items():
        wanted = ""
        if str(kind).endswith("_view"):  # pyarrow's string_view and binary_view
            wanted = str(kind).removesuffix("_view")
            came = f"column {name!r} of X has the type {kind}"
            raise TypeError(f"{came}, of which {backend} can't select rows; convert it to {wanted}")


def _in_native_order(frame: Any) -> Any:
    """A pandas frame whose columns have this machine's byte order; of others pandas can't select rows."""
    swapped = [j for j, kind in enumerate(frame.dtypes) if isinstance(kind, np.dtype) and not kind.isnative]
    if not swapped:
        return frame
    frame = frame.copy(deep=False)
    for j in swapped:
        frame.isetitem(j, native_order(frame.iloc[:, j].to_numpy()))
    return frame


def _is_array(X: Any) -> bool:
    return isinstance(X, np.ndarray) or (hasattr(X, "__array__") and not hasattr(X, "columns") and not _is_eager(X))


def _is_eager(X: Any) -> bool:
    return hasattr(X, "__dataframe__") or hasattr(X, "__arrow_c_stream__")


def _narwhals(native: Any) -> Any:
    return nw.from_native(native, eager_only=True)


def _rows_of(array: NDArray[Any], rows: Indices) -> NDArray[Any]:
    """Some rows. `take` is fast, but first copies an array that is one column after the other: as a whole."""
    few = len(rows) < len(array) and not array.flags.c_contiguous
    return np.ascontiguousarray(array[rows]) if few else array.take(rows, axis=0)


class Batch:
    """A reusable batch of rows: `fill` returns rows with some values replaced, for the model."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.source = as_one_array(table)
        self.asked: tuple[Indices, Indices | None] | None = None
        self.rows: Indices | None = None
        self.base: Any = None  # the unchanged rows; never passed to the model
        self.buffer: NDArray[Any] | None = None

    def fill(self, rows: Indices, edits: Sequence[Edit], among: Indices | None = None) -> Any:
        """Rows of the table, or of those `among` it, with the edits applied; the model may modify them."""
        if self.asked is None or rows is not self.asked[0] or among is not self.asked[1]:  # the usual case: the same
            self.asked, rows = (rows, among), rows if among is None else among[rows]
            if self.rows is None or not np.array_equal(rows, self.rows):
                self.rows, self.base = rows, self._gather(rows)
        if self.source is None:
            assert self.rows is not None
            return self._replace(self.rows, edits)
        return self._framed(self._replace_in_array(edits))

    def mix(self, rows: Indices, donors: Indices, kept: NDArray[np.bool_]) -> Any:
        """Rows of a table that is one array, with a donor's values in the columns that are not kept, (m, columns)."""
        assert self.source is not None  # checked by callers
        return self._framed(np.where(kept, _rows_of(self.source, rows), _rows_of(self.source, donors)))

    def _framed(self, array: NDArray[Any]) -> Any:
        if self.table.backend == "numpy":
            return array
        # A frame around the array, several times cheaper than a new column in a frame.
        return type(self.table.native)(array, columns=self.table.native.columns, copy=False)

    def _replace_in_array(self, edits: Sequence[Edit]) -> NDArray[Any]:
        if self.buffer is None or self.buffer.shape != self.base.shape:
            self.buffer = np.empty_like(self.base)
        # Copied each time: it is cheap, and the model may have modified the last batch.
        np.copyto(self.buffer, self.base)
        for edit in edits:
            column = self.buffer[edit.start : edit.stop, edit.column]
            column.reshape(len(edit.index), -1)[:] = edit.source.gather(edit.index)[:, None]
        return self.buffer[:]  # a view: a model may reshape it

    def _gather(self, rows: Indices) -> Any:
        if self.source is not None:
            return _rows_of(self.source, rows)
        if self.table.backend == "pandas":
            return self.table.native.take(rows).reset_index(drop=True)
        return _narwhals(self.table.native)[rows].to_native()

    def _replace(self, rows: Indices, edits: Sequence[Edit]) -> Any:
        new: dict[int, Any] = {}
        for column in dict.fromkeys(edit.column for edit in edits):
            mine = [edit for edit in edits if edit.column == column]
            source, index = mine[0].source, np.array(rows)
            if any(edit.source is not source for edit in mine):
                raise AssertionError("a batch must have one source per column")
            for edit in mine:
                index[edit.start : edit.stop].reshape(len(edit.index), -1)[:] = edit.index[:, None]
            new[column] = source.gather(index)
        return _with_columns(self.base, self.table, new)


def as_one_array(table: Table) -> NDArray[Any] | None:
    """The table as one array, if it is an array or a pandas frame of a single numeric type; else None."""
    if table.backend == "numpy":
        return np.asarray(table.native)
    if table.backend != "pandas" or type(table.native).__module__.partition(".")[0] != "pandas":
        return None
    types = set(table.native.dtypes)
    one = next(iter(types))
    return table.native.to_numpy() if len(types) == 1 and isinstance(one, np.dtype) and one.kind in "biuf" else None


def _with_columns(base: Any, table: Table, new: Mapping[int, Any]) -> Any:
    if table.backend == "pandas":
        # Setting columns on a shallow copy: ten times as fast as narwhals. Before copy-on-write
        # (pandas 3) a model could write through the copy, hence the deep one.
        frame = base.copy(deep=int(sys.modules["pandas"].__version__.split(".")[0]) < 3)
        for position, values in new.items():
            frame.isetitem(position, values)
        return frame
    if table.backend == "polars":
        frame = base.clone()  # which shares the columns; `with_columns` would plan a query each time
        for position, values in new.items():
            frame.replace_column(position, values.alias(table.names[position]))
        return frame
    frame = base
    for position, values in new.items():
        frame = frame.set_column(position, frame.schema.field(position), values)
    return frame


def prepend_rows(rows: Any, table: Table) -> Table:
    """The user's rows followed by those of a table, with its columns and types."""
    return concatenate([as_rows(rows, table), table.native], table)


def concatenate(natives: Sequence[Any], like: Table) -> Table:
    """Tables of the same columns and types as one."""
    if like.backend == "numpy":
        native: Any = np.concatenate(list(natives))
    elif like.backend == "pandas":
        import pandas as pd

        native = pd.concat(list(natives), ignore_index=True)
    else:
        native = nw.concat([_narwhals(native) for native in natives], how="vertical").to_native()
    return Table(native, like.labels, like.names, len(native), like.backend)


def as_rows(rows: Any, like: Table) -> Any:
    """The user's rows, checked, as a table of the same kind, columns and types."""
    if len(like.names) == 1 and is_texts(rows):
        rows = _text_table(rows).native
    if like.backend == "numpy":
        return _array_rows(rows, like)
    if not _is_eager(rows) or not (hasattr(rows, "columns") or hasattr(rows, "column_names")):
        raise TypeError(
            "rows must be positions in X, or a table like X (one row of pandas is X.iloc[[0]], not X.iloc[0]); "
            f"got {type(rows).__name__}"
        )
    table = frame_table(nw.to_native(rows, pass_through=True))
    missing = [name for name in like.names if name not in table.names]
    if missing or table.backend != like.backend:
        problem = f"has no column {missing[0]!r}" if missing else f"is a {table.backend} table, X a {like.backend} one"
        raise ValueError(f"rows must be a table like X, but it {problem}")
    if like.backend == "pandas":
        return _typed_like(table.native[list(like.labels)], like.native)
    if like.backend == "pyarrow":
        return _unchanged(table.native.select(list(like.names)), lambda native: native.cast(like.native.schema))
    schema = _narwhals(like.native).schema
    casts = [nw.col(name).cast(schema[name]) for name in like.names]
    same = _narwhals(table.native).select(like.names).to_native()
    return _unchanged(same, lambda native: _narwhals(native).with_columns(*casts).to_native())


def _array_rows(rows: Any, like: Table) -> NDArray[Any]:
    if isinstance(rows, np.ma.MaskedArray):
        raise TypeError("rows is a masked array; pass rows.filled(numpy.nan)")
    array = np.atleast_2d(np.asarray(rows))
    if array.ndim != 2 or array.shape[1] != len(like.names):
        raise ValueError(f"rows must have the {len(like.names)} columns of X; got shape {np.shape(rows)}")
    try:
        with np.errstate(invalid="ignore"):
            typed = array.astype(like.native.dtype)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"rows must be positions in X, or rows with values of type {like.native.dtype}; got {type(rows).__name__}"
        ) from error
    if array.dtype.kind in "fc" and typed.dtype.kind in "iub" and not np.array_equal(typed, array):
        raise ValueError(f"rows has values that X, of type {typed.dtype}, can't hold; make X a table of floats")
    return typed


def _unchanged(native: Any, cast: Any) -> Any:
    """The table cast to other types; ValueError if a value would change."""
    try:
        typed = cast(native)
    except Exception as error:  # whatever the frame library raises
        raise ValueError(f"rows has values that X's types can't hold: {error}") from error
    before, after = _narwhals(native), _narwhals(typed)
    for name in before.columns:
        first, second = (frame[name].to_numpy() for frame in (before, after))
        if first.dtype.kind == "f" and second.dtype.kind in "iub" and not np.array_equal(first, second):
            raise ValueError(f"rows has values in column {name!r} that X's type {second.dtype} can't hold")
    return typed


def _typed_like(frame: Any, like: Any) -> Any:
    """A pandas frame with the types of another; ValueError if a value would change."""
    for label, kind in like.dtypes.items():
        categories, column = getattr(kind, "categories", None), frame[label]
        if categories is not None and hasattr(kind, "ordered"):
            strange = column.dropna()[lambda values, categories=categories: ~values.isin(categories)]
            if len(strange):
                raise ValueError(f"rows has {strange.iloc[0]!r} in column {str(label)!r}, which is no category of X's")
        elif getattr(kind, "kind", "") in "iub" and getattr(column.dtype, "kind", "") == "f":
            lost = column[column != column.round()]  # true for missing values too
            if len(lost):
                raise ValueError(
                    f"rows has {lost.iloc[0]!r} in column {str(label)!r}, which X's type {kind} can't hold"
                )
    return frame.astype(like.dtypes.to_dict())


def as_columns(table: Table, columns: Sequence[str], kinds: Mapping[str, Any] | None, *, as_array: bool) -> Table:
    """Some columns of a frame, cast to the given pandas types if parts of one table differ, or as one array."""
    if as_array:
        arrays = [table.column(table.names.index(name)).array for name in columns]
        strange = [name for name, array in zip(columns, arrays, strict=True) if array.dtype.kind not in "biuf"]
        if strange:
            raise TypeError(f"the model was fitted on an array of numbers, but column {strange[0]!r} is not numeric")
        return Table(np.column_stack(arrays), tuple(columns), tuple(columns), table.n, "numpy")
    if table.backend == "pandas":
        labels = [table.labels[table.names.index(name)] for name in columns]
        frame = table.native[labels]
        if kinds is not None:
            frame = frame.astype({label: kinds[name] for label, name in zip(labels, columns, strict=True)})
        return Table(frame, tuple(labels), tuple(columns), table.n, "pandas")
    native = _narwhals(table.native).select(list(columns)).to_native()
    return Table(native, tuple(columns), tuple(columns), table.n, table.backend)


def column_like(table: Table, j: int, values: NDArray[Any]) -> Column:
    """Numbers or dates as a column of the same type as the table's."""
    if table.backend == "numpy":
        return array_column(values.astype(table.native.dtype))
    series = nw.from_native(table.native, eager_only=True)[:, j] if table.backend != "pandas" else None
    if series is None:
        import pandas as pd

        kind = table.native.dtypes.iloc[j]
        own = pd.Series(values)
        own = own.dt.tz_localize("UTC") if isinstance(kind, pd.DatetimeTZDtype) else own  # NumPy's dates are UTC
        return frame_column(nw.from_native(own.astype(kind), series_only=True))
    new = nw.new_series(table.names[j], values, backend=series.implementation)
    if values.dtype.kind == "f" and np.isnan(values).any():  # NumPy shows missing values as NaN
        frame = new.to_frame().select(nw.when(~nw.col(new.name).is_nan()).then(nw.col(new.name)))
        new = frame[new.name]
    return frame_column(new.cast(series.dtype))


def common_kinds(tables: Sequence[Mapping[str, Any]], categories: Mapping[str, Any]) -> dict[str, Any]:
    """A common type for each column of pandas frames that are parts of one table, given the categories of all parts."""
    import pandas as pd

    common: dict[str, Any] = {}
    for name in tables[0]:
        kinds = list(dict.fromkeys(kinds[name] for kinds in tables))
        if all(isinstance(kind, pd.CategoricalDtype) for kind in kinds):
            union = categories.get(name) or dict.fromkeys(value for kind in kinds for value in kind.categories)
            common[name] = pd.CategoricalDtype(list(union), ordered=kinds[0].ordered)
        elif len(kinds) == 1:
            common[name] = kinds[0]
        elif all(isinstance(kind, np.dtype) and kind.kind in "biuf" for kind in kinds):
            common[name] = np.result_type(*kinds)
        else:
            common[name] = np.dtype(object)
    return common


def make_frame(data: Mapping[str, Any], backend: str) -> Any:
    """A data frame from columns: of the user's library, or else of any that is installed."""
    libraries: tuple[Literal["pandas", "polars", "pyarrow"], ...] = ("pandas", "polars", "pyarrow")
    for library in sorted(libraries, key=lambda name: name != backend):
        try:
            return nw.from_dict(dict(data), backend=library).to_native()
        except ModuleNotFoundError:
            continue
    raise ImportError("to_frame() needs pandas, polars or pyarrow; install one of them")


def explained_table(X: Any, n: int, labels: Labels | None) -> Table:
    """The table that was explained, which has as many rows as the result, in the same order."""
    table = as_table(X)
    if table.n != n:
        raise ValueError(f"X has {table.n} rows, the result {n}; pass the table that was explained")
    if has_other_order(table.index, labels):
        raise ValueError("X has the row labels of the result in another order; pass the table that was explained")
    return table
