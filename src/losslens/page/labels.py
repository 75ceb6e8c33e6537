"""Values as text and as numbers of an axis. Different values have different texts; a missing value is no text.

And in Python, as readers write the rows of a subgroup: columns of the user's table, and categories, as expressions.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from losslens.tables.columns import Distinct, is_missing, keys_of, missing_name
from losslens.tables.frames import Table
from losslens.typing import Floats, Indices, Mask

MISSING = "missing"  # how a missing value is labelled
DAY = 24 * 3600 * 1000.0
DIGITS = (6, 9, 12, 15, 17)  # as few as distinguish the values; 17 distinguish all
NAIVE = '.dt.tz_convert("UTC").dt.tz_localize(None)'  # as the page holds times


def kind_of(column: Distinct) -> str:
    """The axis of the values: numbers, integers, dates or words (categories)."""
    values = column.values
    if values.dtype.kind in "mM":
        return "date"
    if not column.ordered or values.dtype.kind not in "iuf":
        return "words"
    present = values[np.isfinite(values)]
    return "integer" if np.array_equal(present, np.round(present)) else "number"


def as_numbers(values: NDArray[Any]) -> Floats:
    """Numbers unchanged, dates as milliseconds; missing is NaN."""
    if values.dtype.kind not in "mM":
        return np.asarray(values, float)
    return np.where(np.isnat(values), np.nan, values.astype("datetime64[ms]").astype("i8").astype(float))


def label(value: Any) -> str:
    """One value as text."""
    return MISSING if is_missing(value) else _text(value, DIGITS[0])


def texts(values: Iterable[Any]) -> list[str | None]:
    """Each value as text, None if it is missing; numbers with enough digits, 1 and '1' as Python writes them."""
    items = list(values)
    keys = keys_of(items)
    there = {key: value for key, value in zip(keys, items, strict=True) if not is_missing(value)}
    zeros = [value for value in there.values() if isinstance(value, (float, np.floating)) and value == 0]
    signed = len({bool(np.signbit(zero)) for zero in zeros}) > 1
    for digits in DIGITS:
        named = {key: _text(value, digits, signed) for key, value in there.items()}
        if len(set(named.values())) == len(there):
            break
    often = Counter(named.values())
    named = {key: repr(there[key]) if often[text] > 1 else text for key, text in named.items()}
    return [named.get(key) for key in keys]


def labels(values: Iterable[Any]) -> list[str]:
    """Each value as text for an axis: a missing value is labelled, a category of that name stands in quotes."""
    items = list(values)
    written, kinds = texts(items), {missing_name(value) for value in items if is_missing(value)}
    quoted = f"“{MISSING}”" if kinds else MISSING
    return [
        (f"{MISSING} ({missing_name(value)})" if len(kinds) > 1 else MISSING) if text is None
        else quoted if text == MISSING else text
        for text, value in zip(written, items, strict=True)
    ]  # fmt: skip


def condition_of(name: str, column: Distinct, rows: Mask | Indices) -> dict[str, Any]:
    """The condition of the page that a column's values in these rows fulfil: their range, or a list of words.

    Other rows fulfil it, too, unless these are all whose values lie in a range or a set of words.
    """
    codes = np.unique(column.codes[rows])
    if kind_of(column) == "words":
        named = texts(column.values)
        return {"column": name, "chosen": [named[code] for code in codes]}
    numbers = as_numbers(column.values[codes])
    present = numbers[~np.isnan(numbers)]
    ends = (float(present.min()), float(present.max())) if len(present) else (1.0, 0.0)  # none but missing ones
    return {"column": name, "low": ends[0], "high": ends[1], "missing": bool(len(present) < len(numbers))}


def rough(values: Floats, among: Floats, kind: str) -> Floats:
    """Numbers of an axis, rounded to a 200th of the range of others or finer; dates to days."""
    there = among[np.isfinite(among)]
    spread = float(np.ptp(there)) if len(there) else 0.0
    step = DAY if kind == "date" else 10.0 ** np.floor(np.log10(spread / 200)) if spread > 0 else 0.0
    rounded = np.round(values / step) * step if step else values
    return rounded if kind == "date" else np.array([float(f"{value:.12g}") for value in rounded])


def rough_labels(values: Floats, kind: str) -> list[str]:
    """Labels of rounded numbers."""
    return labels(values.astype("datetime64[ms]").astype("datetime64[D]") if kind == "date" else values)


def bin_labels(first: NDArray[Any], last: NDArray[Any], rarer: int = 0) -> list[str]:
    """Bins by their ends; `rarer`: so many more categories are in the last one."""
    g = len(first)
    named = labels([*first, *last])
    ends = [a if a == b else f"{a} to {b}" for a, b in zip(named[:g], named[g:], strict=True)]
    if rarer:
        ends[-1] += f" and {rarer:,} rarer"
    return ends


def _text(value: Any, digits: int, signed: bool = False) -> str:
    """signed: a negative zero stands beside another."""
    if isinstance(value, (float, np.floating)):
        return f"{value if signed else value + 0.0:.{digits}g}"
    return str(value)


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
