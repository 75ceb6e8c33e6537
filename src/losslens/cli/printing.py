"""Results as text, JSON, CSV or JUnit XML."""

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
from dataclasses import dataclass, field, replace
from typing import Any
from xml.etree import ElementTree as ET

import narwhals as nw
import typer

from losslens.cli.errors import naming_file
from losslens.cli.options import Arguments
from losslens.results.gate import Verdict
from losslens.results.table import ResultTable


@dataclass(frozen=True)
class Output:
    """What a command prints and saves."""

    texts: Sequence[str]  # results as they print themselves, with a blank line between them
    notes: Sequence[str]  # of the command itself, for text ...
    remarks: Sequence[str]  # ... and all notes, for JSON
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


def in_full(table: ResultTable) -> str:
    """A table as text, with all of its rows and the headings of its columns."""
    return replace(table, line=() if len(table) else table.line, most_in_text=None).text()


def emit(args: Arguments, output: Output, command: str) -> None:
    """Print as JSON, CSV or text."""
    if args.json:
        from losslens import __version__

        head = {"command": command, "losslens": __version__, "model": args.model, "data": args.data}
        facts = {key: plain(value) if not isinstance(value, list) else value for key, value in output.facts.items()}
        content = head | {"target": args.target} | facts | {"notes": list(output.remarks), "result": output.records}
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
    """Each result, and the notes of the command."""
    return "\n\n".join(output.texts) + "".join(f"\n  ({note})" for note in output.notes) + "\n"


def write_junit(path: str, verdicts: Sequence[Verdict], *, strict: bool) -> None:
    """One test a condition and model: failed, passed, or skipped where the rows can't tell."""
    suite = ET.Element("testsuite", name="losslens compare", tests=str(len(verdicts)))
    of_outcome = {"fails": "failure", "cannot tell": "failure" if strict else "skipped"}
    for one in verdicts:
        case = ET.SubElement(suite, "testcase", classname=one.model, name=one.question)
        if one.outcome in of_outcome:
            ET.SubElement(case, of_outcome[one.outcome], message=one.sentence)
    for count, kind in (("failures", "failure"), ("skipped", "skipped")):
        suite.set(count, str(len(suite.findall(f"testcase/{kind}"))))
    with naming_file(path):
        ET.ElementTree(suite).write(path, encoding="utf-8", xml_declaration=True)
