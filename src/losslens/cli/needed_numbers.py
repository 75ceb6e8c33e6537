"""Text where a model needs numbers: words among them, such as NA, or decimal commas."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import narwhals as nw

from losslens.cli.csv_files import Kind, is_number
from losslens.cli.settings import join
from losslens.models import Model

SHOWN = 5  # different words in a message; more of them are hardly all missing values


@dataclass(frozen=True)
class TextColumn:
    """A column of text that may be meant as numbers."""

    name: str
    words: Sequence[str]  # its entries that are no numbers
    number: float | None  # the first that is one
    commas: bool  # all entries are numbers with decimal commas

    def message(self, is_input: bool) -> str:
        """The sentence about the column, with advice."""
        if self.commas:
            return f"column {self.name!r} has decimal commas, such as {self.words[0]!r}; write numbers with points"
        some = list(dict.fromkeys(self.words))
        few = len(some) <= SHOWN
        shown = f"{':' if few else ', such as'} {', '.join(map(repr, some[:SHOWN]))}"
        count = "it holds text"
        if self.number is not None:
            count = f"{len(self.words):,} of its values {'is' if len(self.words) == 1 else 'are'} text"
        text = f"column {self.name!r} must hold numbers, but {count}{shown}"
        if not is_input:
            return f"{text}; leave these rows out"
        marks = shlex.quote(join(some))
        return f"{text}; if they stand for missing values, read the CSV file with --missing {marks}" if few else text


def check_numbers(models: Iterable[Model], X: Any, beside: Sequence[Any], kinds: Mapping[str, Kind]) -> None:
    """Raise where text is in a column that must hold numbers.

    Parameters
    ----------
    models
        A model that says nothing about a column is tried on numbers and on text.
    X
        A data frame, their input.
    beside
        The target and the weights.
    kinds
        What the models say about columns.
    """
    frame = nw.from_native(X, eager_only=True)
    inputs = [text for column in frame.iter_columns() if (text := _text_column(column, kinds)) is not None]
    others = [text for column in beside if (text := _text_column(column, kinds)) is not None]
    for text in inputs:
        if kinds.get(text.name) == "number":
            raise ValueError(text.message(is_input=True))
    for text in others:
        if text.commas or (text.number is not None and kinds.get(text.name) == "number"):
            raise ValueError(text.message(is_input=False))
    unsure = [text for text in inputs if text.number is not None]
    for model in models if unsure else ():
        for text in _refused(model, frame, unsure):
            raise ValueError(text.message(is_input=True))


def _text_column(column: Any, kinds: Mapping[str, Kind]) -> TextColumn | None:
    if kinds.get(column.name) == "text" or column.dtype.is_numeric():
        return None
    texts = [text for text in column.to_list() if isinstance(text, str)]
    commas = bool(texts) and all(re.fullmatch(r"\s*[+-]?\d+,\d+\s*", text) for text in texts)
    words = [text for text in texts if not is_number(text)]
    if not words:
        return None
    number = words[0].replace(",", ".") if commas else next(filter(is_number, texts), None)
    return TextColumn(column.name, words, None if number is None else float(number), commas)


def _refused(model: Model, frame: Any, columns: Sequence[TextColumn]) -> Iterable[TextColumn]:
    """The columns in which a model takes a number, but no word."""

    def takes(words: Sequence[TextColumn]) -> bool:
        entries = {text.name: text.words[0] if text in words else text.number for text in columns}
        row = frame.head(1).with_columns(
            nw.new_series(name, [entry], backend=frame.implementation) for name, entry in entries.items()
        )
        try:
            next(iter(model.responses.values()))(row.to_native())
        except Exception:  # noqa: BLE001  any: models differ in how they refuse text
            return False
        return True

    return [text for text in columns if not takes([text])] if takes([]) else []
