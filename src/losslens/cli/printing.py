"""Results as text tables, JSON or CSV."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import re
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import narwhals as nw
import typer

from losslens.cli.options import Arguments
from losslens.text import in_digits

WIDE = 10_000  # characters a line in a pipe: no wrapping


@dataclass(frozen=True)
class Sheet:
    """One text table."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    title: str = ""
    words: Sequence[str] = ("feature",)  # columns of text, aligned left


@dataclass(frozen=True)
class Output:
    """What a command prints and saves."""

    headline: str
    sheets: Sequence[Sheet]
    notes: Sequence[str]
    records: Sequence[Mapping[str, Any]]  # all numbers, for CSV and as "result" in JSON
    facts: Mapping[str, Any] = field(default_factory=dict)  # further entries of the JSON output
    result: Any = None  # what --save writes
    code: int = 0  # of the exit


def records(frame: Any) -> list[dict[str, Any]]:
    """The rows of a data frame as mappings, missing numbers as None."""
    rows = nw.from_native(frame, eager_only=True).rows(named=True)
    return [{name: plain(value) for name, value in row.items()} for row in rows]


def plain(value: Any) -> Any:
    """A value that JSON can hold."""
    value = value.item() if hasattr(value, "item") else value
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


def digits(value: Any, like: Any = None) -> str:
    """A rounded number as text; empty where there is none."""
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, (bool, int)) or not math.isfinite(value):
        return str(value)
    return in_digits(value, like or None) if value else "0"


def probability(value: float | None) -> str:
    """A p-value as text."""
    return "" if value is None else "<0.0001" if value < 1e-4 else f"{value:.4f}"


def emit(args: Arguments, output: Output, command: str) -> None:
    """Print as JSON, CSV or text."""
    if args.json:
        from losslens import __version__

        head = {"command": command, "losslens": __version__, "model": args.model, "data": args.data}
        facts = {key: plain(value) if not isinstance(value, list) else value for key, value in output.facts.items()}
        content = head | {"target": args.target} | facts | {"notes": list(output.notes), "result": output.records}
        text = json.dumps(content, indent=1, ensure_ascii=False, default=str) + "\n"
    elif args.csv:
        text = as_csv(output.records)
    else:
        text = as_text(output)
    try:
        typer.echo(text, nl=False)
    except BrokenPipeError:  # `| head`
        raise
    except OSError as error:
        with suppress(
            OSError, ValueError
        ):  # else Python retries the rest of the buffer at exit, and prints a traceback
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise ValueError(f"could not write to the standard output: {error.strerror}") from error


def as_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """Comma-separated, with a header; missing values are empty."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    lines: list[list[Any]] = [columns, *([row.get(name) for name in columns] for row in rows)]
    return "".join(map(_csv_line, lines))


def _csv_line(cells: Sequence[Any]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\r\n").writerow(map(_inert, cells))  # cells with either character are quoted
    return text.getvalue().removesuffix("\r\n") + "\n"


def _inert(value: Any) -> Any:
    """Text that a spreadsheet would take for a formula, behind an apostrophe: names come from data.

    >>> _inert("=1+1"), _inert("-1.5e3"), _inert(-1.5)
    ("'=1+1", '-1.5e3', -1.5)
    """
    number = r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?"
    formula = isinstance(value, str) and value.startswith(tuple("=+-@\t\r\n"))
    return f"'{value}" if formula and not re.fullmatch(number, value, re.IGNORECASE | re.ASCII) else value


def as_text(output: Output) -> str:
    """Tables as wide as the terminal; in a pipe aligned text, one line a row."""
    from rich.console import Console
    from rich.padding import Padding

    seen = sys.stdout.isatty()
    text = io.StringIO()
    console = Console(
        file=text, force_terminal=seen, no_color=not seen, highlight=False, width=None if seen else WIDE, emoji=False
    )
    console.print(output.headline, markup=False, soft_wrap=not seen)
    for sheet in output.sheets:
        console.print()
        if sheet.title:
            console.print(sheet.title, markup=False, style="bold" if seen else "")
        console.print(_table(sheet, seen))
    if output.notes:
        console.print()
    for line in output.notes:
        console.print(Padding(f"({line})", 0) if seen else f"({line})", markup=False, style="dim" if seen else "")
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines()) + "\n"


def _table(sheet: Sheet, seen: bool) -> Any:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(
        box=box.SIMPLE_HEAD if seen else None, show_edge=False, pad_edge=False, padding=(0, 1 if seen else 2, 0, 0)
    )
    full = [k for k, _ in enumerate(sheet.columns) if any(row[k] for row in sheet.rows)]
    for name in (sheet.columns[k] for k in full):
        left = name in sheet.words
        table.add_column(Text(name), justify="left" if left else "right", overflow="fold", no_wrap=not left)
    for row in sheet.rows:
        table.add_row(*(Text(row[k]) for k in full))
    return table
