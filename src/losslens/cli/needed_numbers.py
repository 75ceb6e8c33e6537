"""Text where a model needs numbers: words among them, such as NA, or decimal commas."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

import narwhals as nw

from losslens.cli.csv_files import Kind, is_number
from losslens.cli.settings import join

SHOWN = 5  # different words in a message; more of them are hardly all missing values


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
    few = len(some) <= SHOWN
    shown = f"{':' if few else ', such as'} {', '.join(map(repr, some[:SHOWN]))}"
    count = f"{len(words):,} of its values {'is' if len(words) == 1 else 'are'} text" if numbers else "it holds text"
    advice = "; leave these rows out"
    if is_input:
        marks = shlex.quote(join(some))
        advice = f"; if they stand for missing values, read the CSV file with --missing {marks}" if few else ""
    raise ValueError(f"column {name!r} must hold numbers, but {count}{shown}{advice}")
