"""CSV files: every field is text first, then each column becomes numbers, True and False, or stays text.

The libraries that read them only split the lines: what counts as a number or as missing is the same with each. Text
where a model needs numbers, words such as NA or decimal commas, is an error that shows some of it.
"""

from __future__ import annotations

import csv
import gzip
import io
import re
import shlex
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

import narwhals as nw

from losslens.cli.settings import join

Kind: TypeAlias = Literal["number", "text"]
SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}
TRUTH = dict.fromkeys(("True", "TRUE", "true"), True) | dict.fromkeys(("False", "FALSE", "false"), False)
NUMBER = r"^ *[+-]?(?i:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?|inf|infinity) *$"
INTEGER = r"^ *[+-]?[0-9]{1,18} *$"  # of which int64 holds every one
# Names of things in digits: a zip code is another without its zero, and two long ones may be equal as float64.
NAME = r"^(?:0[0-9]| *[+-]?[0-9]{19,} *$)"
SHOWN = 1 << 18  # bytes of a CSV file that show its separator
WORDS_SHOWN = 5  # different words in a message; more of them are hardly all missing values


class AmbiguousError(ValueError):
    """The separator is not certain."""


def named_separator(text: str) -> str:
    """The separator that --sep names."""
    sep = "\t" if text.lower() in ("tab", "\\t") else text
    if len(sep) != 1 or not sep.isascii() or sep.isalnum() or sep in "\"'\r\n.-+_":
        raise ValueError(f"--sep takes one character such as ',' or ';', or the word tab; got {text!r}")
    return sep


def shown_separator(path: Path) -> str:
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


def _pandas(path: Path, sep: str) -> Any:
    import pandas as pd

    with warnings.catch_warnings():  # values beyond the last name would be lost
        warnings.simplefilter("error", pd.errors.ParserWarning)
        try:
            return pd.read_csv(path, sep=sep, index_col=False, dtype=str, keep_default_na=False, na_values=[""])
        except pd.errors.ParserWarning:
            raise ValueError("its lines have more values than the first line has names") from None


def _polars(path: Path, sep: str) -> Any:
    import polars as pl

    return pl.read_csv(path, separator=sep, infer_schema=False)


def _pyarrow(path: Path, sep: str) -> Any:
    import pyarrow as pa
    from pyarrow import csv as arrow

    split = arrow.ParseOptions(delimiter=sep)
    with arrow.open_csv(str(path), parse_options=split) as file:
        text = dict.fromkeys(file.schema.names, pa.string())
    return arrow.read_csv(str(path), parse_options=split, convert_options=arrow.ConvertOptions(column_types=text))


TEXTS: dict[str, Callable[[Path, str], Any]] = {"pandas": _pandas, "polars": _polars, "pyarrow": _pyarrow}


def typed(texts: Any, missing: Collection[str] = (), kinds: Callable[[Any], Mapping[str, Kind]] = lambda _: {}) -> Any:
    """A data frame of text with its columns as numbers, as True and False, or as they are.

    Parameters
    ----------
    texts
        Every field as text.
    missing
        Texts that stand for missing values, besides the empty one.
    kinds
        Which columns are numbers or text whatever they look like, given the frame as it looks. A column that is to be
        numbers, and can't, stays text.
    """
    none, frame = ["", *missing], nw.from_native(texts, eager_only=True)
    frame = frame.with_columns(
        nw.when(~nw.col(name).is_in(none)).then(nw.col(name)).alias(name) for name in frame.columns
    )
    table = frame.with_columns(_as_values(column, padded=False) for column in frame.iter_columns())
    required = kinds(table.to_native())
    looks = {name: "text" if dtype == nw.String else "number" for name, dtype in table.schema.items()}
    columns = (
        column for column in frame.iter_columns() if required.get(column.name, looks[column.name]) != looks[column.name]
    )
    return table.with_columns(
        column if required[column.name] == "text" else _as_values(column, padded=True) for column in columns
    ).to_native()


def _as_values(column: Any, *, padded: bool) -> Any:
    """Text as numbers, also those that begin with zeros if `padded`, or as True and False, if all of it is."""
    texts = column.drop_nulls()
    if len(texts) and texts.is_in(list(TRUTH)).all():
        cells = [TRUTH.get(text, text) for text in column.to_list()]  # a missing value as the library has it
        return nw.new_series(column.name, cells, backend=column.implementation)
    if not texts.str.contains(NUMBER).all() or (not padded and texts.str.contains(NAME).any()):
        return column
    if texts.str.contains("[ +]").any():  # which pyarrow does not take for a part of a number
        column = column.str.replace_all("[ +]", "")
    integers = len(texts) == len(column) and texts.str.contains(INTEGER).all()
    return column.cast(nw.Int64() if integers else nw.Float64())


def is_number(text: str) -> bool:
    """Whether text is a number; "nan" is text.

    >>> [is_number(text) for text in ("1", "+.5", "1e5", "-inf", "nan", "1_000", "1,5", "")]
    [True, True, True, True, False, False, False, False]
    """
    return re.search(NUMBER, text) is not None


def check_numbers(X: Any, beside: Sequence[Any], kinds: Mapping[str, Kind]) -> None:
    """Raise where text is in a column that must hold numbers.

    Parameters
    ----------
    X
        A data frame, the input of models.
    beside
        The target and the weights.
    kinds
        What the models say about columns.
    """
    for column in nw.from_native(X, eager_only=True).iter_columns():
        words, numbers = _words_and_numbers(column)
        if words and kinds.get(column.name) == "number":
            _refuse_text(column.name, words, numbers, is_input=True)
    for column in beside:
        words, numbers = _words_and_numbers(column)
        mixed = kinds.get(column.name) == "number" and bool(numbers)
        if words and kinds.get(column.name) != "text" and (mixed or all(map(_has_decimal_comma, words))):
            _refuse_text(column.name, words, numbers, is_input=False)


def _words_and_numbers(column: Any) -> tuple[list[str], list[str]]:
    """The text of a column that is no number, and that which is one."""
    texts = [] if column.dtype.is_numeric() else [text for text in column.to_list() if isinstance(text, str)]
    return [text for text in texts if not is_number(text)], [text for text in texts if is_number(text)]


def _has_decimal_comma(text: str) -> bool:
    return re.fullmatch(r"\s*[+-]?\d+,\d+\s*", text) is not None


def _refuse_text(name: str, words: Sequence[str], numbers: Sequence[str], *, is_input: bool) -> None:
    if not numbers and all(map(_has_decimal_comma, words)):
        raise ValueError(f"column {name!r} has decimal commas, such as {words[0]!r}; write numbers with points")
    some = list(dict.fromkeys(words))
    few = len(some) <= WORDS_SHOWN
    shown = f"{':' if few else ', such as'} {', '.join(map(repr, some[:WORDS_SHOWN]))}"
    count = f"{len(words):,} of its values {'is' if len(words) == 1 else 'are'} text" if numbers else "it holds text"
    advice = "; leave these rows out"
    if is_input:
        marks = shlex.quote(join(some))
        advice = f"; if they stand for missing values, read the CSV file with --missing {marks}" if few else ""
    raise ValueError(f"column {name!r} must hold numbers, but {count}{shown}{advice}")
