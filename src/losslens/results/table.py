"""The table of a result, defined once for data frames, text, notebooks and the command line."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from losslens.text import in_digits, padded, percent, width_of
from losslens.typing import Indices

NONE = "\N{EN DASH}"  # shown for a missing number
MOST_COLUMNS, INDENT = 60, 2  # longest name with numbers beside it, in columns of a terminal; indent of other numbers
MOST_ROWS = 20  # in text
FORMATS: dict[str, str | Callable[[Any], str]] = {
    "p": ".3g",
    "p_adjusted": ".2g",
    "share": lambda share: percent(share) if np.isfinite(share) else "",
}
# Headings and cell templates that many tables share.
FEATURE, IMPORTANCE = ("feature", "{feature}"), ("importance", "{importance}")
ERROR, INTERVAL = ("std. error", "{std_error}"), ("95% interval", "[{low} to {high}]")
RANKED = ("{feature}", "{importance}[ ± {std_error}]")  # a line of text
_OPTIONAL, _NAME = re.compile(r"\[([^]]*)\]"), re.compile(r"\{(\w+)")

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class ResultTable:
    """Columns of a data frame, and how they are shown.

    `line` and `view` are templates over columns. A part in brackets is left out where a value in it is missing:
    ``"{importance}[ ± {std_error}]"`` is ``"1.234 ± 0.056"``, or ``"1.234"`` where there is no standard error.
    """

    title: str
    # Lists or arrays with one entry a row, or functions that return them, called on first use: text needs no intervals.
    columns: Mapping[str, Any]
    line: Sequence[str] = ()  # cell templates of a line of text; empty: those of `view`, with headings
    view: Sequence[tuple[str, str]] = ()  # headings and cell templates in notebooks
    notes: Sequence[str] = ()
    extra: Mapping[str, Any] = field(default_factory=dict)  # columns that are shown, but not in data frames
    formats: Mapping[str, str | Callable[[Any], str]] = field(default_factory=dict)  # default: four digits
    like: str = ""  # a column whose number of decimals those in `alike` use
    alike: Sequence[str] = ("std_error", "low", "high")
    in_text: Sequence[int] | None = None  # rows shown in text; None: all
    in_view: Sequence[int] | None = None  # rows shown in notebooks; None: all
    most_in_text: int | None = MOST_ROWS  # the largest number of rows in text; None: all
    most: int = 40  # the largest number of rows in notebooks
    rounding: float = 0.0  # how far rounding moves the numbers of `like` and `alike`: up to it they are shown as 0
    rounded: Sequence[str] = ()  # further columns of such numbers
    _seen: dict[str, Any] = field(default_factory=dict, init=False)

    def ordered(self, order: Indices) -> ResultTable:
        """The table with its rows in this order."""
        columns, extra = (
            {name: _take(values, order) for name, values in some.items()} for some in (self.columns, self.extra)
        )
        return replace(self, columns=columns, extra=extra)

    def __len__(self) -> int:
        return len(self.column(next(iter(self.columns))))

    def column(self, name: str) -> Any:
        """The values of a column; None if there is no such column."""
        if name not in self._seen:
            values = self.columns.get(name, self.extra.get(name))
            self._seen[name] = values() if callable(values) else values
        return self._seen[name]

    def data(self) -> dict[str, Any]:
        """The columns of a data frame."""
        return {name: self.column(name) for name in self.columns}

    def written(self, name: str, row: int) -> str:
        """One formatted value; empty where it is missing."""
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
        value = None if column is None else column[row]
        if value is None or not self.rounding or name not in (self.like, *self.alike, *self.rounded):
            return value
        return 0.0 if abs(value) <= self.rounding else value  # NaN stays

    def texts(self, names: Sequence[str]) -> list[list[str]]:
        """Formatted values of some columns, row by row."""
        return [[self.written(name, row) for name in names] for row in range(len(self))]

    def lines(self) -> list[list[str]]:
        """Formatted rows for notebooks."""
        cells = [cell for _, cell in self.view]
        chosen = range(len(self)) if self.in_view is None else self.in_view
        return [[self._fill(cell, row) or NONE for cell in cells] for row in chosen[: self.most]]

    def text(self) -> str:
        """The title, one line a row in aligned cells, and the notes; a long name has a line of its own."""
        chosen = range(len(self)) if self.in_text is None else self.in_text
        cells = self.line or [cell for _, cell in self.view]
        lines = [] if self.line else [[heading for heading, _ in self.view]]
        lines += [[self._fill(cell, row) for cell in cells] for row in chosen[: self.most_in_text]]
        lines = [[" ".join(cell.split()) for cell in line] for line in lines]  # a name may have line breaks
        first = max((width for line in lines if (width := width_of(line[0])) <= MOST_COLUMNS), default=INDENT)
        others = [max(map(width_of, column)) for column in zip(*(line[1:] for line in lines), strict=True)]
        side = "<" if self.line else ">"
        aligned = []
        for name, *cells in lines:
            if width_of(name) > first and cells:
                aligned.append(f"  {name}")
                name = ""
            aligned.append("  ".join([f"  {padded(name, first)}", *map(padded, cells, others, [side] * len(cells))]))
        aligned += [f"  {note}" for note in more_not_shown(len(chosen) - len(chosen[: self.most_in_text]))]
        return "\n".join([self.title, *(line.rstrip() for line in aligned), *(f"  ({note})" for note in self.notes)])

    def _fill(self, template: str, row: int) -> str:
        texts = {name: self.written(name, row) for name in _NAME.findall(template)}
        filled = _OPTIONAL.sub(lambda part: part[1] if all(texts[n] for n in _NAME.findall(part[1])) else "", template)
        return filled.format_map({name: text or NONE for name, text in texts.items()})


def _take(values: Any, order: Indices) -> Any:
    if callable(values):
        return lambda: _take(values(), order)
    return values[order] if isinstance(values, np.ndarray) else [values[i] for i in order]


def more_not_shown(rows: int) -> list[str]:
    """A note on rows that are not shown."""
    return [f"and {rows:,} more: to_frame()"] if rows else []


def named(notes: Sequence[str]) -> list[str]:
    """Notes of a table with ± in it: the first begins with what that is."""
    first, *others = [*notes, ""]
    return [*filter(None, [f"±: standard error{'; ' * bool(first)}{first}", *others])]


def facts(title: str, numbers: Mapping[str, Any], notes: Sequence[str]) -> ResultTable:
    """A table of a few named numbers."""
    columns = {"what": list(numbers), "value": list(numbers.values())}
    return ResultTable(title, columns, view=(("", "{what}"), ("", "{value}")), notes=notes)


def grid_size(values: Sequence[NDArray[Any]]) -> str:
    """The number of values of a grid, or of both grids of a pair."""
    return " × ".join(f"{len(some):,}" for some in values)


def or_else(compute: Callable[[], T], default: T) -> T:
    """A computed value, or a default where ValueError says that there is none."""
    try:
        return compute()
    except ValueError:
        return default


def why_not(compute: Callable[[], Any]) -> str:
    """The reason that a ValueError gives; empty where there is a value."""
    try:
        compute()
    except ValueError as error:
        return str(error)
    return ""
