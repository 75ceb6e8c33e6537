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
from losslens.results.by_group import ByGroup
from losslens.results.clusters import Clusters
from losslens.results.comparison import Comparison
from losslens.results.effects import Effects, FeatureEffect
from losslens.results.interactions import Interactions
from losslens.results.observations import Observations
from losslens.results.outputs import Outputs
from losslens.results.over_time import OverTime
from losslens.results.permuted_target import PermutedTarget
from losslens.results.regions import Regions
from losslens.results.row_changes import RowChanges
from losslens.results.row_influence import RowInfluence
from losslens.results.shapley_effect import ShapleyEffect
from losslens.results.table import ResultTable, more_not_shown

MOST_BARS = 15  # rows of text in a plot
MOST_EFFECTS = 6  # small plots of effects
ACROSS = 3  # of these beside each other
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
    if not isinstance(result, Displayed):
        raise TypeError(f"there is no table for {type(result).__name__}")
    table = result._table()
    lines = table.lines()
    notes = [*more_not_shown(len(table) - len(lines)), *table.notes]
    if isinstance(result, Effects) and len(result) > MOST_EFFECTS:
        notes.append(f"{MOST_EFFECTS} of {len(result)} drawn")
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
    if isinstance(result, Effects):
        result.plot(figure, top=MOST_EFFECTS)
    elif isinstance(result, Regions) and not result.found:  # the curve of all rows
        result.plot(next(iter(result.features)), ax=figure.add_subplot())
    else:
        result.plot(ax=figure.add_subplot())


def _tiles(result: Effects) -> tuple[int, int]:
    """The numbers of rows and columns of small plots."""
    drawn = min(len(result), MOST_EFFECTS)
    columns = min(ACROSS, drawn)
    return -(-drawn // columns), columns


def _size(result: Displayed, table: ResultTable) -> tuple[float, float]:
    """Size of the plot in inches: most have a row of text for each row of the table."""
    rows = len(table)
    match result:
        case Effects():
            rows, columns = _tiles(result)
            return 3.6 * columns, 3.0 * rows
        case Clusters():
            return 6.4, 2.4 + 0.9 * result.k
        case Observations() | OverTime() | RowInfluence() | Outputs():
            return 5.2, 3.8
        case Interactions():
            return 5.6, 2.2 + 0.27 * min(len(result.features), MOST_BARS)
        case Comparison():
            rows *= 1 + len(result.names) // 2
        case ByGroup() if isinstance(result.every, FeatureEffect):
            return 5.2, 3.6
        case ByGroup() if not result.every._of_one:
            rows = len(result.features) * (1 + len(result) // 2)
        case ShapleyEffect():
            rows = int(1.5 * (rows + 2 * (len(result.local) == 1)))
        case PermutedTarget() | RowChanges():
            rows += 2
    if isinstance(result, Regions) or not any(heading for heading, _ in table.view):  # a curve
        return 5.2, 3.6
    return 5.2, 1.7 + 0.27 * min(rows, MOST_BARS)
