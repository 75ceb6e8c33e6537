"""Tables from files, and which of their columns a model reads."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np

from losslens.cli import csv_files
from losslens.cli.csv_files import SEPARATORS, AmbiguousError, Kind, check_numbers
from losslens.cli.errors import existing_file, reason, suggestion
from losslens.cli.model_files import columns_of
from losslens.cli.trained_values import categories_of, kinds_of, kinds_of_values
from losslens.models import Model, as_model
from losslens.tables.frames import as_table
from losslens.text import closest, listed
from losslens.typing import Mask

FORMATS = (
    dict.fromkeys((".csv", ".csv.gz", ".tsv", ".tsv.gz"), "csv")
    | {".parquet": "parquet"}
    | dict.fromkeys((".feather", ".arrow", ".ipc"), "arrow")
)
# The first library that is installed reads a table: the module and function for each format of Arrow's.
LIBRARIES: dict[str, dict[str, tuple[str, str]]] = {
    "pandas": {"parquet": ("pandas", "read_parquet"), "arrow": ("pandas", "read_feather")},
    "polars": {"parquet": ("polars", "read_parquet"), "arrow": ("polars", "read_ipc")},
    "pyarrow": {"parquet": ("pyarrow.parquet", "read_table"), "arrow": ("pyarrow.feather", "read_table")},
}


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


def rows_with(rows: LoadedRows, condition: str) -> Mask:
    """The rows that hold a value of a column; the condition is COLUMN=VALUE."""
    name, _, value = condition.partition("=")
    if not name or not value:
        raise ValueError(f"--gap takes a column and one of its values, such as site=3; got {condition!r}")
    held = [str(one) for one in np.asarray(rows.column(name)).tolist()]
    chosen = np.array([one in (value, f"{value}.0") for one in held])
    if not chosen.any() or chosen.all():
        few = listed(sorted(set(held)), 5)
        raise ValueError(f"--gap {condition}: {'every' if chosen.any() else 'no'} row has this value; there are {few}")
    return chosen


def is_csv(name: str) -> bool:
    """Whether a table is text."""
    return _format(Path(name)) == "csv"


def _format(path: Path) -> str | None:
    return next((kind for suffix, kind in FORMATS.items() if path.name.lower().endswith(suffix)), None)


def missing_values(rows: LoadedRows, names: Sequence[str | None]) -> str:
    """A note on how many values of which columns are missing, of the inputs and of these; empty if none is."""
    frame = nw.from_native(rows.table, eager_only=True)
    used = [name for name in frame.columns if name in names or name in _names(rows.X)]
    counts = {name: frame[name].null_count() for name in used}
    some = [f"{count:,} of {name}" for name, count in counts.items() if count]
    return f"values read as missing: {listed(some)}" if some else ""


def read_table(
    name: str,
    sep: str | None = None,
    missing: Collection[str] = (),
    kinds: Callable[[Any], Mapping[str, Kind]] = lambda _: {},
) -> Any:
    """A data frame from a CSV, Parquet or Feather/Arrow file: pandas where it is installed, else polars or pyarrow.

    Parameters
    ----------
    name
        A path; its ending says what it is.
    sep
        What separates the columns of a CSV file, a character or ``"tab"``; by default what its first lines show.
    missing
        Text of a CSV file that stands for missing values, besides the empty field.
    kinds
        Which columns of a CSV file are numbers, and which text, given the frame as it looks.
    """
    path = existing_file(name, "table")
    kind = _format(path)
    if kind is None:
        raise ValueError(f"{name}: unknown kind of table; its name must end in one of {', '.join(FORMATS)}")
    named = None if sep is None else csv_files.named_separator(sep)
    library = _library(kind)
    try:
        if kind == "csv":
            table = csv_files.TEXTS[library](path, named or csv_files.shown_separator(path))
        else:
            module, function = LIBRARIES[library][kind]
            table = getattr(import_module(module), function)(str(path))
    except AmbiguousError as error:
        raise ValueError(f"{name}: {error}") from None
    except Exception as error:  # libraries raise different ones for a damaged file
        words = {"csv": "CSV", "parquet": "Parquet", "arrow": "Feather or Arrow"}[kind]
        foreign = isinstance(error, UnicodeDecodeError) or re.search("invalid utf-?8", str(error), re.IGNORECASE)
        why = "it is not UTF-8 text; save it as UTF-8" if foreign else reason(error)
        raise ValueError(f"could not read {name} as {words}: {why}") from error
    if len(table) == 0:
        raise ValueError(f"{name} has no rows")
    return csv_files.typed(table, missing, kinds) if kind == "csv" else table


def _library(kind: str) -> str:
    for library in LIBRARIES:
        needs_arrow = library == "pandas" and kind != "csv"
        if find_spec(library) is not None and (not needs_arrow or find_spec("pyarrow") is not None):
            return library
    needed = "pandas or polars" if kind == "csv" else "pyarrow or polars"
    raise ValueError(f"reading {kind} files needs {needed}: install one of them")


def kinds_for(
    models: Sequence[Any], table: Any, *, target: str | None, weight: str | None = None, drop: Sequence[str] = ()
) -> dict[str, Kind]:
    """Which columns of a table are numbers to the models, and which text, where these say so."""
    beside = _beside(table, target, weight, drop)
    inputs, _ = _inputs(models, _names(table), beside, drop)
    words, kinds = _words(table), dict[str, Kind]()
    for model in models:
        for name, kind in kinds_of(model, columns_of(model).names or inputs, words).items():
            if kinds.setdefault(name, kind) != kind:
                raise ValueError(f"column {name!r} is text to one model and a number to another; explain one at a time")
    if weight is not None:
        kinds[weight] = "number"
    if target is not None and (kind_of_target := _kind_of_target(as_model(models[0]))) is not None:
        kinds[target] = kind_of_target
    return kinds


def _kind_of_target(model: Model) -> Kind | None:
    """Numbers for a regressor; text or numbers as the classes are."""
    if model.classes is None:
        return "number" if model.kind == "regressor" else None
    return kinds_of_values({"classes": model.classes.tolist()}).get("classes")


def _beside(table: Any, target: str | None, weight: str | None, drop: Sequence[str]) -> dict[str, Any]:
    """The target and the weights by name; an error where one of these columns, or one to drop, does not exist."""
    named = {"target": target, "weight": weight}
    columns = {name: _column(table, name, what) for what, name in named.items() if name is not None}
    for name in drop:
        _column(table, name, "column to drop")
    return columns


def _words(table: Any) -> list[str]:
    """The columns that are not numeric."""
    schema = nw.from_native(table, eager_only=True).schema
    return [name for name, dtype in schema.items() if not dtype.is_numeric()]


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
    beside = _beside(table, target, weight, drop)
    y = None if target is None else beside[target].to_native()
    weights = None if weight is None else beside[weight].to_native()
    names, more = _inputs(models, _names(table), beside, drop)
    X = nw.from_native(table, eager_only=True).select(names).to_native()
    kinds = kinds_for(models, table, target=target, weight=weight, drop=drop)
    check_numbers(X, list(beside.values()), kinds)
    for model in models:
        X, seen = _with_categories(X, model)
        more += seen
    return LoadedRows(table, X, y, weights, (*notes, *more))


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
    separators = [sep for sep in SEPARATORS if any(sep in str(name) for name in names)]
    return f"; if {SEPARATORS[separators[0]]} separate the columns, say so with --sep" if separators else ""


def _inputs(
    models: Sequence[Any], names: Sequence[str], beside: Collection[str], drop: Sequence[str]
) -> tuple[list[str], list[str]]:
    """Columns for the models, and notes on those left out."""
    left = [name for name in names if name not in beside and name not in drop]
    with_names = [columns for columns in map(columns_of, models) if columns.names is not None]
    if not with_names:
        counts = {columns.count for columns in map(columns_of, models)} - {None, len(left)}
        if counts:
            raise ValueError(
                f"the model takes {min(c for c in counts if c is not None)} columns and doesn't say which; the data "
                f"have {len(left)} besides the target: {', '.join(left[:10])}{', ...' * (len(left) > 10)}. "
                "Leave columns out with --drop"
            )
        return left, []
    needed = list(dict.fromkeys(name for columns in with_names for name in columns.names or ()))
    missing = [name for name in needed if name not in names or name in drop]
    if missing:
        raise ValueError(_lacking(missing, [name for name in left if name not in needed], drop) + _unsplit(names))
    extra = [name for name in left if name not in needed]
    some = ", ".join(extra[:5]) + (f" and {len(extra) - 5} more" if len(extra) > 5 else "")
    return needed, [f"columns that the model does not use are left out: {some}"] if extra else []


def _lacking(missing: Sequence[str], spare: Sequence[str], drop: Sequence[str]) -> str:
    dropped = [name for name in missing if name in drop]
    if dropped:
        return f"the model needs the column {dropped[0]!r}: it can't be dropped"
    many = f" and {len(missing) - 5} more" if len(missing) > 5 else ""
    message = f"the data lack columns that the model needs: {', '.join(map(repr, missing[:5]))}{many}"
    alike = [f"{name!r} may be {likely!r}" for name in missing if (likely := closest(name, spare))]
    return message + (f" ({', '.join(alike[:5])})" if alike else "")


def _with_categories(X: Any, model: Any) -> tuple[Any, list[str]]:
    """Categorical columns of a booster, with its categories: a CSV file holds text and numbers only."""
    if type(X).__module__.partition(".")[0] != "pandas":
        return X, []
    import pandas as pd

    categories, notes = categories_of(model, X), []
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
        valid = column.where(column.isin(values))
        new = pd.Series(pd.Categorical(valid, categories=values), index=X.index)
        unseen = column[valid.isna() & column.notna()]
        if len(unseen):
            notes.append(
                f"{name!r} has values in {len(unseen):,} rows that were not in the training data, such as "
                f"{unseen.iloc[0]!r}; they count as missing"
            )
        X = X.assign(**{name: new})
    return X, notes
