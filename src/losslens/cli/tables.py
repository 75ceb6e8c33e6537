"""Tables from files, and which of their columns a model reads."""

from __future__ import annotations

import csv
import difflib
import gzip
import io
import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np

from losslens.cli.errors import existing_file, reason
from losslens.cli.model_files import categories_of, columns_of
from losslens.models import Model, as_model
from losslens.tables.frames import as_table
from losslens.text import listed
from losslens.typing import Mask

FORMATS = (
    dict.fromkeys((".csv", ".csv.gz", ".tsv", ".tsv.gz"), "csv")
    | {".parquet": "parquet"}
    | dict.fromkeys((".feather", ".arrow", ".ipc"), "arrow")
)
SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}
SHOWN = 1 << 18  # bytes of a CSV file that show its separator
LIBRARIES = ("pandas", "polars", "pyarrow")  # the first that is installed and can read the format


@dataclass(frozen=True)
class LoadedRows:
    """A table, split into the model's inputs, the target and the weights."""

    table: Any  # all columns
    X: Any
    y: Any  # None: no target was named
    weight: Any
    notes: tuple[str, ...]  # what was left out, sampled or treated as missing

    def column(self, name: str) -> Any:
        """One column, or an error with the nearest name."""
        return _column(self.table, name).to_native()


def rows_with(rows: LoadedRows, asked: str) -> Mask:
    """The rows that hold a value of a column, asked for as COLUMN=VALUE."""
    name, _, value = asked.partition("=")
    if not name or not value:
        raise ValueError(f"--gap takes a column and one of its values, such as site=3; got {asked!r}")
    held = [str(one) for one in np.asarray(rows.column(name)).tolist()]
    found = np.array([one in (value, f"{value}.0") for one in held])
    if not found.any() or found.all():
        few = listed(sorted(set(held)), 5)
        raise ValueError(f"--gap {asked}: {'every' if found.any() else 'no'} row has this value; there are {few}")
    return found


def read_table(name: str, sep: str | None = None) -> Any:
    """A data frame from a CSV, Parquet or Feather/Arrow file: pandas where it is installed, else polars or pyarrow.

    Parameters
    ----------
    name
        A path; its ending says what it is.
    sep
        What separates the columns of a CSV file, a character or ``"tab"``; by default what its first lines show.
    """
    path = existing_file(name, "table")
    kind = next((kind for suffix, kind in FORMATS.items() if path.name.lower().endswith(suffix)), None)
    if kind is None:
        raise ValueError(f"{name}: unknown kind of table; its name must end in one of {', '.join(FORMATS)}")
    named = None if sep is None else _named_separator(sep)
    read = _reader(kind)
    try:
        table = read(path, (named or _shown_separator(path)) if kind == "csv" else "")
    except AmbiguousError as error:
        raise ValueError(f"{name}: {error}") from None
    except Exception as error:  # libraries raise different ones for a damaged file
        words = {"csv": "CSV", "parquet": "Parquet", "arrow": "Feather or Arrow"}[kind]
        foreign = isinstance(error, UnicodeDecodeError) or re.search("invalid utf-?8", str(error), re.IGNORECASE)
        why = "it is not UTF-8 text; save it as UTF-8" if foreign else reason(error)
        raise ValueError(f"could not read {name} as {words}: {why}") from error
    if len(table) == 0:
        raise ValueError(f"{name} has no rows")
    return table


class AmbiguousError(ValueError):
    """The separator is not certain."""


def _named_separator(text: str) -> str:
    sep = "\t" if text.lower() in ("tab", "\\t") else text
    if len(sep) != 1 or not sep.isascii() or sep.isalnum() or sep in "\"'\r\n.-+_":
        raise ValueError(f"--sep takes one character such as ',' or ';', or the word tab; got {text!r}")
    return sep


def _shown_separator(path: Path) -> str:
    """The separator that gives the first lines equally many columns; a comma where none does."""
    with gzip.open(path) if path.name.lower().endswith(".gz") else path.open("rb") as file:
        start = file.read(SHOWN)
    if len(start) == SHOWN:
        start = start[: start.rfind(b"\n") + 1]  # complete lines
    text = start.decode("utf-8-sig")  # raises for another encoding, which pyarrow would read as bytes
    if path.name.lower().endswith((".tsv", ".tsv.gz")):
        return "\t"
    fitting = [sep for sep in SEPARATORS if _is_even(text, sep)]
    if len(fitting) > 1:
        words = " or ".join(SEPARATORS[sep] for sep in fitting)
        raise AmbiguousError(f"its columns may be separated by {words}; say which with --sep")
    return fitting[0] if fitting else ","


def _is_even(text: str, sep: str) -> bool:
    try:
        widths = [len(row) for row in csv.reader(io.StringIO(text), delimiter=sep) if row]
    except csv.Error:
        return False
    return bool(widths) and widths[0] > 1 and len(set(widths)) == 1


def _reader(kind: str) -> Callable[[Path, str], Any]:
    for library in LIBRARIES:
        needs_arrow = library == "pandas" and kind != "csv"
        if find_spec(library) is not None and (not needs_arrow or find_spec("pyarrow") is not None):
            return {"pandas": _pandas, "polars": _polars, "pyarrow": _pyarrow}[library](kind)
    needed = "pandas or polars" if kind == "csv" else "pyarrow or polars"
    raise ValueError(f"reading {kind} files needs {needed}: install one of them")


def _pandas(kind: str) -> Callable[[Path, str], Any]:
    import pandas as pd

    if kind == "csv":
        # Older releases read the last digit wrong without it; newer ones warn that it is the default.
        is_old = tuple(map(int, pd.__version__.split(".")[:2])) < (3, 1)
        exact: Any = {"float_precision": "round_trip"} if is_old else {}

        def read(path: Path, sep: str) -> Any:
            with warnings.catch_warnings():  # values beyond the last name would be lost
                warnings.simplefilter("error", pd.errors.ParserWarning)
                try:
                    return pd.read_csv(path, sep=sep, low_memory=False, index_col=False, **exact)
                except pd.errors.ParserWarning:
                    raise ValueError("its lines have more values than the first line has names") from None

        return read
    return lambda path, _: pd.read_parquet(path) if kind == "parquet" else pd.read_feather(path)


def _polars(kind: str) -> Callable[[Path, str], Any]:
    import polars as pl

    if kind == "csv":
        return lambda path, sep: pl.read_csv(path, separator=sep, infer_schema_length=None)
    return lambda path, _: pl.read_parquet(path) if kind == "parquet" else pl.read_ipc(path)


def _pyarrow(kind: str) -> Callable[[Path, str], Any]:
    from pyarrow import csv, feather, parquet

    if kind == "csv":
        return lambda path, sep: csv.read_csv(str(path), parse_options=csv.ParseOptions(delimiter=sep))
    return lambda path, _: (parquet if kind == "parquet" else feather).read_table(str(path))


def rows_for(
    models: Sequence[Any],
    table: Any,
    *,
    target: str | None,
    weight: str | None = None,
    drop: Sequence[str] = (),
    rows: int | None = None,
    seed: int = 0,
) -> LoadedRows:
    """The columns that the models read, in their order, with the target and weights beside them.

    Parameters
    ----------
    models
        Fitted on the same columns. A model without column names reads all columns but the target, the weight and
        those in `drop`.
    table
        A data frame.
    target, weight, drop
        Names of columns.
    rows, seed
        Take a random sample of this many rows, where there are more.
    """
    notes: list[str] = []
    if rows is not None and rows < len(table):
        if rows < 2:
            raise ValueError(f"a sample needs at least two rows; got {rows}")
        chosen = np.sort(np.random.default_rng(seed).choice(len(table), rows, replace=False))
        notes.append(f"a sample of {rows:,} of {len(table):,} rows, seed {seed}")
        table = as_table(table).rows(chosen)
    y = None if target is None else _column(table, target, "target").to_native()
    weights = None if weight is None else _column(table, weight, "weight").to_native()
    for name in drop:
        _column(table, name, "column to drop")
    beside = [name for name in (target, weight) if name is not None]
    names, more = _inputs(models, _names(table), beside, drop)
    X = nw.from_native(table, eager_only=True).select(names).to_native()
    for model in models:
        X, seen = _with_categories(X, model)
        more += seen
    _check_decimals(models, table, X, target, weight)
    return LoadedRows(table, X, y, weights, (*notes, *more))


def _check_decimals(models: Sequence[Any], table: Any, X: Any, target: str | None, weight: str | None) -> None:
    """Raise where numbers such as 1,5, which are read as text, are needed: classes may be such text, and inputs."""
    known = [as_model(model) for model in models]
    asked = [weight] if any(model.classes is not None for model in known) else [target, weight]
    columns = [*nw.from_native(X, eager_only=True).iter_columns(), *(_column(table, name) for name in asked if name)]
    found = {column.name: text for column in columns if (text := _with_comma(column)) is not None}
    first = nw.from_native(X, eager_only=True).head(1).to_native()
    if set(found).isdisjoint(_names(X)) or all(_takes(model, first) for model in known):
        found = {name: text for name, text in found.items() if name in asked}
    for name, text in found.items():
        raise ValueError(f"column {name!r} has decimal commas, such as {text!r}; write numbers with points")


def _with_comma(column: Any) -> str | None:
    """A value, if all are text that may be numbers with decimal commas."""
    texts = [] if column.dtype.is_numeric() else [one for one in column.head(100).to_list() if isinstance(one, str)]
    return texts[0] if texts and all(re.fullmatch(r"\s*[+-]?\d+,\d+\s*", text) for text in texts) else None


def _takes(model: Model, table: Any) -> bool:
    """Whether a model predicts these rows."""
    try:
        next(iter(model.responses.values()))(table)
    except Exception:  # noqa: BLE001  any: models differ in how they refuse text
        return False
    return True


def _names(table: Any) -> list[str]:
    return list(nw.from_native(table, eager_only=True).columns)


def _column(table: Any, name: str, what: str = "column") -> Any:
    if name not in _names(table):
        several = [part.strip() for part in name.split(",")]
        if len(several) > 1 and set(several) <= set(_names(table)):
            raise ValueError(f"the {what} is one column, got {name!r}; several outputs are explained in Python")
        raise ValueError(f"the data have no {what} {name!r}{suggestion(name, _names(table))}{_unsplit(_names(table))}")
    return nw.from_native(table, eager_only=True)[name]


def _unsplit(names: Sequence[str]) -> str:
    """The end of a message about a missing column, where names look like several columns in one."""
    found = [sep for sep in SEPARATORS if any(sep in str(name) for name in names)]
    return f"; if {SEPARATORS[found[0]]} separate the columns, say so with --sep" if found else ""


def suggestion(name: str, known: Sequence[str]) -> str:
    """The end of a message about an unknown name: the closest name, or all names."""
    folded = {other.casefold(): other for other in known}  # wrong case is the most common mistake
    matches = difflib.get_close_matches(name.casefold(), folded, n=1)
    if matches:
        return f"; did you mean {folded[matches[0]]!r}?"
    shown = ", ".join(known[:10]) + (f", ... ({len(known)} in all)" if len(known) > 10 else "")
    return f"; there is {shown}" if known else ""


def _inputs(
    models: Sequence[Any], names: Sequence[str], beside: Sequence[str], drop: Sequence[str]
) -> tuple[list[str], list[str]]:
    """Columns for the models, and notes on those left out."""
    left = [name for name in names if name not in beside and name not in drop]
    known = [columns for columns in map(columns_of, models) if columns.names is not None]
    if not known:
        counts = {columns.count for columns in map(columns_of, models)} - {None, len(left)}
        if counts:
            raise ValueError(
                f"the model takes {min(c for c in counts if c is not None)} columns and doesn't say which; the data "
                f"have {len(left)} besides the target: {', '.join(left[:10])}{', ...' * (len(left) > 10)}. "
                "Leave columns out with --drop"
            )
        return left, []
    wanted = list(dict.fromkeys(name for columns in known for name in columns.names or ()))
    missing = [name for name in wanted if name not in names or name in drop]
    if missing:
        raise ValueError(_lacking(missing, [name for name in left if name not in wanted], drop) + _unsplit(names))
    extra = [name for name in left if name not in wanted]
    some = ", ".join(extra[:5]) + (f" and {len(extra) - 5} more" if len(extra) > 5 else "")
    return wanted, [f"columns that the model does not use are left out: {some}"] if extra else []


def _lacking(missing: Sequence[str], spare: Sequence[str], drop: Sequence[str]) -> str:
    dropped = [name for name in missing if name in drop]
    if dropped:
        return f"the model needs the column {dropped[0]!r}: it can't be dropped"
    many = f" and {len(missing) - 5} more" if len(missing) > 5 else ""
    message = f"the data lack columns that the model needs: {', '.join(map(repr, missing[:5]))}{many}"
    guesses = {name: difflib.get_close_matches(name.casefold(), [s.casefold() for s in spare], n=1) for name in missing}
    folded = {name.casefold(): name for name in spare}
    alike = [f"{name!r} may be {folded[match[0]]!r}" for name, match in guesses.items() if match]
    return message + (f" ({', '.join(alike[:5])})" if alike else "")


def _with_categories(X: Any, model: Any) -> tuple[Any, list[str]]:
    """Categorical columns of a booster, with its categories: a CSV file holds text and numbers only."""
    if type(X).__module__.partition(".")[0] != "pandas":
        return X, []
    import pandas as pd

    words = [name for name in X if not pd.api.types.is_numeric_dtype(X[name].dtype)]
    categories, notes = categories_of(model, words), []
    for name, values in categories.items():
        column = X[name]
        if isinstance(column.dtype, pd.CategoricalDtype):
            continue
        if values is None:
            raise ValueError(
                f"column {name!r} is a category to the model, whose file does not list the values in order; save the "
                "data as Parquet or Feather, with the categories of the training data"
            )
        if all(isinstance(value, str) for value in values) and pd.api.types.is_numeric_dtype(column.dtype):
            column = column.astype(str)
        known = column.where(column.isin(values))
        new = pd.Series(pd.Categorical(known, categories=values), index=X.index)
        unseen = column[known.isna() & column.notna()]
        if len(unseen):
            notes.append(
                f"{name!r} has values in {len(unseen):,} rows that were not in the training data, such as "
                f"{unseen.iloc[0]!r}; they count as missing"
            )
        X = X.assign(**{name: new})
    return X, notes
