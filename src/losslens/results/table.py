"""The table of a result, described once: data frames, text, notebooks and the command line read it from here."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from losslens.text import in_digits
from losslens.typing import Indices

NONE = "\N{EN DASH}"  # in the place of a number that does not exist
FORMATS: dict[str, str] = {"p": ".3g", "p_adjusted": ".2g", "share": ".1%"}
# Headings and cells that many tables have.
FEATURE, IMPORTANCE = ("feature", "{feature}"), ("importance", "{importance}")
ERROR, INTERVAL = ("std. error", "{std_error}"), ("95% interval", "[{low} to {high}]")
RANKED = ("{feature}", "{importance}[ ± {std_error}]")  # a line of text
_OPTIONAL, _NAME = re.compile(r"\[([^]]*)\]"), re.compile(r"\{(\w+)")

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class ResultTable:
    """Columns of a data frame, and how people read them.

    `line` and `view` are templates over columns. A part in brackets is left out where a value in it is missing:
    ``"{importance}[ ± {std_error}]"`` is ``"1.234 ± 0.056"``, or ``"1.234"`` where there is no standard error.
    """

    title: str
    # Lists or arrays, one entry a row; or functions that give them, called when somebody looks: text has no intervals.
    columns: Mapping[str, Any]
    line: Sequence[str] = ()  # cells of a line of text; none: those of the view, under its headings
    view: Sequence[tuple[str, str]] = ()  # headings and cells of a notebook's table
    notes: Sequence[str] = ()
    extra: Mapping[str, Any] = field(default_factory=dict)  # columns for people alone
    formats: Mapping[str, str | Callable[[Any], str]] = field(default_factory=dict)  # where not four digits
    like: str = ""  # the column that has as many decimals as those of `alike`
    alike: Sequence[str] = ("std_error", "low", "high")
    in_text: Sequence[int] | None = None  # the rows that the text is about; None: all
    most_in_text: int | None = None  # of them; None: all
    most: int = 40  # rows in a notebook
    _seen: dict[str, Any] = field(default_factory=dict, init=False)

    def ordered(self, order: Indices) -> ResultTable:
        """The same with its rows in this order."""
        columns, extra = (
            {name: _take(values, order) for name, values in some.items()} for some in (self.columns, self.extra)
        )
        return replace(self, columns=columns, extra=extra)

    def __len__(self) -> int:
        return len(self.column(next(iter(self.columns))))

    def column(self, name: str) -> Any:
        """The values of a column; None where there is no such column."""
        if name not in self._seen:
            values = self.columns.get(name, self.extra.get(name))
            self._seen[name] = values() if callable(values) else values
        return self._seen[name]

    def data(self) -> dict[str, Any]:
        """The columns of a data frame."""
        return {name: self.column(name) for name in self.columns}

    def written(self, name: str, row: int) -> str:
        """One value as people write it; nothing where it is missing."""
        value, form = self._value(name, row), self.formats.get(name, FORMATS.get(name))
        if callable(form):
            return form(value)
        if value is None or isinstance(value, str):
            return value or ""
        if isinstance(value, (bool, np.bool_)):
            return "yes" if value else "no"
        if isinstance(value, (int, np.integer)):
            return format(value, form or ",")
        if not isinstance(value, (float, np.floating)):
            return str(value)
        if not np.isfinite(value):
            return ""
        if form is not None:
            return format(value, form)
        like = self._value(self.like, row) if name in self.alike else None
        return in_digits(float(value), like or None) if value else "0"

    def _value(self, name: str, row: int) -> Any:
        column = self.column(name)
        return None if column is None else column[row]

    def texts(self, names: Sequence[str]) -> list[list[str]]:
        """Some columns as people write them, row by row."""
        return [[self.written(name, row) for name in names] for row in range(len(self))]

    def lines(self) -> list[list[str]]:
        """Rows as a notebook shows them."""
        cells = [cell for _, cell in self.view]
        return [[self._fill(cell, row) or NONE for cell in cells] for row in range(min(self.most, len(self)))]

    def text(self) -> str:
        """The title, one line a row in aligned cells, and the notes."""
        chosen = range(len(self)) if self.in_text is None else self.in_text
        cells = self.line or [cell for _, cell in self.view]
        lines = [] if self.line else [[heading for heading, _ in self.view]]
        lines += [[self._fill(cell, row) for cell in cells] for row in chosen[: self.most_in_text]]
        first, *others = (max(map(len, column)) for column in zip(*lines, strict=True)) if lines else (0,)
        side = "<" if self.line else ">"
        aligned = [
            "  ".join([f"  {line[0]:<{first}}", *(f"{c:{side}{w}}" for c, w in zip(line[1:], others, strict=True))])
            for line in lines
        ]
        notes = [*more_not_shown(len(chosen) - len(chosen[: self.most_in_text])), *self.notes]
        return "\n".join([self.title, *(line.rstrip() for line in aligned), *(f"  ({note})" for note in notes)])

    def _fill(self, template: str, row: int) -> str:
        texts = {name: self.written(name, row) for name in _NAME.findall(template)}
        known = _OPTIONAL.sub(lambda part: part[1] if all(texts[n] for n in _NAME.findall(part[1])) else "", template)
        return known.format_map({name: text or NONE for name, text in texts.items()})


def _take(values: Any, order: Indices) -> Any:
    if callable(values):
        return lambda: _take(values(), order)
    return values[order] if isinstance(values, np.ndarray) else [values[i] for i in order]


def more_not_shown(rows: int) -> list[str]:
    """A note on rows that are left out."""
    return [f"{rows:,} more not shown; to_frame() has all"] if rows else []


def facts(title: str, known: Mapping[str, Any], notes: Sequence[str]) -> ResultTable:
    """What there is to say of a curve in a few numbers, each beside its name."""
    columns = {"what": list(known), "value": list(known.values())}
    return ResultTable(title, columns, view=(("", "{what}"), ("", "{value}")), notes=notes)


def grid_size(values: Sequence[NDArray[Any]]) -> str:
    """How many values a grid has."""
    return " × ".join(f"{len(some):,}" for some in values)


def or_else(ask: Callable[[], T], otherwise: T) -> T:
    """A number where there is one: tables have a place for each."""
    try:
        return ask()
    except ValueError:
        return otherwise
