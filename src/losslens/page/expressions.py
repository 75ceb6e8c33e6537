"""How a reader writes the rows of a subgroup in Python: columns of the user's table, and categories, as expressions."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from losslens.page.labels import texts
from losslens.tables.columns import is_missing
from losslens.tables.frames import Table

NAIVE = '.dt.tz_convert("UTC").dt.tz_localize(None)'  # as the page holds times


def expressions(table: Table) -> dict[str, str]:
    """Each column of X, by name, as what can be compared with numbers, dates and text."""
    return {name: _written(table, j) for j, name in enumerate(table.names)}


def rows_in_python(table: Table) -> str:
    """The expression for the names of the rows: their labels, or positions."""
    return "np.arange(len(X))" if table.row_labels is None else "X.index"


def _written(table: Table, j: int) -> str:
    """The j-th column of X as Python code, in the way of the user's library."""
    if table.backend == "numpy":
        return f"X[:, {j}]{_numbers(table, j, table.native.dtype)}"
    if table.backend != "pandas":
        zone = getattr(table._series(j).dtype, "time_zone", None)
        return f"X.to_pandas()[{_quoted(table.names[j])}]{NAIVE if zone else ''}"
    label, dtype = table.labels[j], table.native.dtypes.iloc[j]
    plain = label.item() if isinstance(label, np.generic) else label
    simple = isinstance(plain, (bool, int, float, tuple))
    column = f"X[{_quoted(plain)}]" if isinstance(plain, str) else f"X[{plain!r}]" if simple else f"X.iloc[:, {j}]"
    if getattr(dtype, "tz", None) or getattr(getattr(dtype, "pyarrow_dtype", None), "tz", None):
        return column + NAIVE
    return column + _numbers(table, j, dtype)


def _numbers(table: Table, j: int, dtype: Any) -> str:
    """Objects, and numbers that may be missing in pandas' own way, compare as floats do."""
    special = not isinstance(dtype, np.dtype) or dtype.kind == "O"
    return ".astype(float)" if special and table.column(j).array.dtype.kind in "iuf" else ""


def literals(values: NDArray[Any]) -> dict[str, Any]:
    """The literal of each label: `literals` are pairs of both; with `as_text` they are those of `repr`.

    Text stands for itself, without a pair. Values such as 1 and True, which are equal but not the same, and values
    without a simple literal are distinguished by their `repr`.
    """
    items = [value for value in values.tolist() if not is_missing(value)]
    if all(isinstance(item, str) for item in items):
        return {"as_text": False, "literals": []}
    simple = all(isinstance(item, (bool, int, float, str)) for item in items) and len(set(items)) == len(items)
    pairs = zip(texts(items), items, strict=True)
    return {
        "as_text": not simple,
        "literals": [[text, _literal(item) if simple else _quoted(repr(item))] for text, item in pairs],
    }


def _literal(item: Any) -> str:
    return _quoted(item) if isinstance(item, str) else repr(item)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)  # as Python reads it, too
