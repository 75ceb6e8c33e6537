"""Results in notebooks: a table and a small plot, as HTML."""

from __future__ import annotations

import base64
import io
import warnings
from collections.abc import Sequence
from html import escape
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from losslens.results.base import Displayed
from losslens.results.table import ResultTable, more_not_shown

MOST_BARS = 15  # rows of text in a plot
ACROSS = 3  # small plots beside each other
CURVE = (5.2, 3.6)  # inches of a picture that is no list of rows
DPI = 100
SHOWN_LINES, FEW = 15, 2  # of a table before it folds, and lines that are too few to fold
CLICKED = "cursor: pointer"  # to fold and unfold


def show(result: Displayed) -> str:
    """The table of a result beside a small plot of it, as HTML; leaves no figure open.

    >>> import numpy as np, losslens as ll
    >>> X = np.random.default_rng(0).normal(size=(50, 2))
    >>> imp = ll.feature_importance(lambda X: X[:, 1], X, 2 * X[:, 1], loss="squared_error")
    >>> show(imp).startswith("<div>") and "data:image/png;base64," in show(imp)
    True
    """
    table: ResultTable = result._table()  # type: ignore[attr-defined]
    lines = table.lines()
    notes = [*more_not_shown(len(table) - len(lines)), *table.notes]
    if 0 < result._panels < len(result):
        notes.append(f"{result._panels} of {len(result)} drawn")
    head = _line([heading for heading, _ in table.view], "th")
    style = "display: flex; flex-wrap: wrap; gap: 1.5em; align-items: flex-start"
    parts = f'<div style="{style}"><div>{_folded_table(head, lines)}</div>{_picture(result, table)}</div>'
    title = f'<summary style="{CLICKED}"><b>{escape(table.title)}</b></summary>'
    return f"<div><details open>{title}{parts}{_folded_notes(result, notes)}</details></div>"


def _folded_table(head: str, lines: Sequence[Sequence[str]]) -> str:
    """The table; of a long one the first lines, and the others behind a click."""
    first = lines if len(lines) <= SHOWN_LINES + FEW else lines[:SHOWN_LINES]
    shown, rest = _html_table(head, first), lines[len(first) :]
    if not rest:
        return shown
    count = f'<summary style="{CLICKED}">{len(rest)} more lines</summary>'
    return f"{shown}<details>{count}{_html_table(head, rest)}</details>"


def _html_table(head: str, lines: Sequence[Sequence[str]]) -> str:
    return f"<table><thead>{head}</thead><tbody>{''.join(map(_line, lines))}</tbody></table>"


def _folded_notes(result: Any, notes: Sequence[str]) -> str:
    """Notes under the table: how numbers were computed behind a click, if that takes several; cautions are seen."""
    warned = [*getattr(result, "cautions", ()), *getattr(result, "_extrapolation_note", ())]
    seen = [note for note in notes if note in warned]
    quiet = [note for note in notes if note not in warned]
    written = "".join(f"<div><small>{escape(note)}</small></div>" for note in quiet)
    if len(quiet) > FEW:
        count = f'<summary style="{CLICKED}"><small>{len(quiet)} notes</small></summary>'
        written = f"<details>{count}{written}</details>"
    return "".join(f"<div><small>{escape(note)}</small></div>" for note in seen) + written


def _line(cells: Sequence[str], kind: str = "td") -> str:
    first, *others = (escape(cell) for cell in cells)
    left = f'<{kind} style="text-align: left">{first}</{kind}>'
    return f"<tr>{left}{''.join(f'<{kind}>{cell}</{kind}>' for cell in others)}</tr>"


def _picture(result: Displayed, table: ResultTable) -> str:
    """An image inside the HTML; nothing if there is nothing to draw."""
    figure = Figure(figsize=_size(result, table), layout="constrained")  # without pyplot, which would keep it open
    FigureCanvasAgg(figure)
    page = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of letters that the font lacks
        try:
            _draw(result, figure)
        except ValueError:  # no curve or no importance to draw: the table shows that
            return ""
        figure.savefig(page, format="png", dpi=DPI)
    code = base64.b64encode(page.getvalue()).decode("ascii")
    return f'<img alt="{escape(table.title)}" src="data:image/png;base64,{code}">'


def _draw(result: Any, figure: Figure) -> None:
    if result._panels:
        result.plot(figure, top=result._panels)
    else:
        result.plot(*result._plotted, ax=figure.add_subplot())


def _size(result: Displayed, table: ResultTable) -> tuple[float, float]:
    """Size of the plot in inches: most have a row of text for each row of the table."""
    if result._panels:
        drawn = min(len(result), result._panels)
        columns = min(ACROSS, drawn)
        return 3.6 * columns, 3.0 * -(-drawn // columns)
    rows = result._rows_drawn(len(table))
    return (CURVE[0], 1.7 + 0.27 * min(rows, MOST_BARS)) if rows else CURVE
