"""The ranking of features."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from losslens.plots import canvas
from losslens.plots.canvas import INK, MOST_ROWS, QUIET, SKY
from losslens.plots.wording import alike, count, labels, number
from losslens.results.breiman import BreimanImportance
from losslens.results.extrapolation import WARNING, Extrapolations
from losslens.results.importance import FeatureImportance
from losslens.results.importances import Importances
from losslens.results.scores import Scores
from losslens.results.table import ResultTable, or_else

WARNS = " †"  # behind the name of a feature whose replaced rows can be told from real ones
THICKEST = 22.0  # of a bar, in points
ROOM = 0.45  # of the width, that numbers with their shares may take


class Bar(NamedTuple):
    """One feature: its number and, where there is one, its interval."""

    name: str
    value: float
    interval: tuple[float, float] | None
    mark: str = ""  # behind the name


def plot_ranking(importances: Importances, *, ax: Axes | None = None, ratio: bool = False) -> Axes:
    """Draw the importances, the largest on top.

    Parameters
    ----------
    importances
        What `losslens.feature_importance` gives. Features without a number (a pair, values of your own) are left out.
    ax
        Where to draw; a new figure by default, as high as the features need.
    ratio
        Error with the feature's values replaced over the error with nothing replaced, instead of the difference.

    Examples
    --------
    >>> import numpy as np, losslens as ll
    >>> X = np.random.default_rng(0).normal(size=(50, 2))
    >>> imp = ll.feature_importance(lambda X: X[:, 1], X, X[:, 1], loss="squared_error")
    >>> [label.get_text() for label in plot_ranking(imp).get_yticklabels()]
    ['x1', 'x0']
    """
    bars, own = _ranked(importances, ratio), ax is None
    ax, most = open_rows(ax, len(bars), below=3)
    bars[:most] = [bar._replace(mark=_mark(importances[bar.name])) for bar in bars[:most]]
    width = draw_bars(ax, bars[:most], own, start=1.0 if ratio else 0.0)
    label_across(ax, _title(importances, ratio), width)
    canvas.caption(ax, _ranking_notes(importances, bars, most))
    return ax


def plot_extrapolation(found: Extrapolations, *, ax: Axes | None = None) -> Axes:
    """Draw the share of each feature's replaced rows that are unlike any real one, the largest on top."""
    bars = [Bar(one.name, one.share, None, WARNS if one.warns else "") for one in found.values() if one.share >= 0]
    if not bars:
        raise ValueError("there is nothing to draw: no feature has enough rows to tell")
    bars, own = sorted(bars, key=lambda bar: -bar.value), ax is None
    ax, most = open_rows(ax, len(bars), below=3)
    width = draw_bars(ax, bars[:most], own)
    label_across(ax, "share of replaced rows that are unlike any real one", width)
    notes = [f"{WARNS.strip()}: replaced rows differ from real ones (AUC > {WARNING})"]
    canvas.caption(ax, notes if any(bar.mark for bar in bars[:most]) else [])
    return ax


def open_rows(ax: Axes | None, rows: int, below: int = 0) -> tuple[Axes, int]:
    """The axes, or new ones as high as so many rows of text need; and how many of the rows they hold.

    Where a layout engine will shrink the user's axes for what is written under them, so many rows fewer.
    """
    if ax is None:
        most = min(rows, MOST_ROWS)
        return canvas.new_axes(most), most
    taken = 0 if ax.figure.get_layout_engine() is None else below
    return ax, min(rows, max(1, canvas.rows_that_fit(ax) - taken))


def draw_bars(ax: Axes, bars: Sequence[Bar], own: bool, *, start: float = 0.0, shares: Sequence[str] = ()) -> float:
    """Named bars, the first on top, each with its number and, where there is room for them, its share.

    Returns the width of the axes in points.
    """
    short = labels([bar.name for bar in bars], canvas.letters_beside(ax))
    names = [name + bar.mark for name, bar in zip(short, bars, strict=True)]
    _draw_ranking(ax, bars, start)
    canvas.name_rows(ax, names)
    width = canvas.width_beside(ax, names, own)
    texts = alike([bar.value for bar in bars])
    long = [f"{text} ({share})" for text, share in zip(texts, shares, strict=False)]
    safe = (0.85 if own else 0.75) * width if long else width  # long texts must not trust a guess
    if long and _room(long, safe) <= ROOM:
        texts = long
    ends = [max(start, bar.value, *(bar.interval or ())) for bar in bars]
    low = min(start, *(min(bar.value, *(bar.interval or (bar.value,))) for bar in bars))
    write_numbers(ax, texts, ends, low, safe, margin=low < start)
    canvas.value_ticks(ax.xaxis, width)
    canvas.plain_frame(ax)
    return width


def label_across(ax: Axes, text: str, width: float) -> None:
    """Label of the x axis, hardly longer than it, and clear of the power of ten at its end."""
    low, high = ax.get_xlim()
    power = not 1e-4 < max(abs(low), abs(high)) < 1e9
    room = width - 50 if power else width
    ax.set_xlabel(canvas.folded(text, room), parse_math=False, loc="left" if power else None)


def dress_rows(ax: Axes, names: Sequence[str], own: bool, across: str, taken: float = 0.0) -> float:
    """Names down the side, and ticks and a label across; a bar of colours takes some points of the width.

    Returns the width of the axes in points.
    """
    canvas.name_rows(ax, names)
    width = canvas.width_beside(ax, names, own)
    if taken:
        width = max(width - taken, 0.6 * canvas.size_in_points(ax)[0])
    canvas.value_ticks(ax.xaxis, width)
    label_across(ax, across, width)
    canvas.plain_frame(ax)
    return width


def legend_above(ax: Axes, rows: int, width: float, lines: Sequence[Line2D] = ()) -> None:
    """A legend above so many rows of text; these vertical lines end under it."""
    above = canvas.legend(ax, width)
    ax.set_ylim(rows - 0.4, -0.6 - rows * above / (1 - above))
    for line in lines:
        line.set_ydata((0, 1 - above))


def not_shown(left_out: int, thing: str = "less important feature") -> list[str]:
    """A note on what there was no room for."""
    return [f"{count(left_out, thing)} not shown"] if left_out else []


def table_bars(ax: Axes | None, table: ResultTable, *, lines: bool = True) -> tuple[Axes, int, float]:
    """The importances of a table as bars; the axes, how many rows they hold, and their width in points."""
    own, values = ax is None, table.data()
    ax, most = open_rows(ax, len(table))
    ends = list(zip(values["low"], values["high"], strict=True)) if lines else [(np.nan, np.nan)] * len(table)
    known = [(float(low), float(high)) if np.isfinite(low) else None for low, high in ends]
    bars = zip(values["feature"], values["importance"], known, strict=True)
    width = draw_bars(ax, [Bar(name, float(value), interval) for name, value, interval in bars][:most], own)
    return ax, most, width


def plot_breiman(found: BreimanImportance, *, ax: Axes | None = None) -> Axes:
    """Draw the ranking; without lines, which would be read as intervals for new data."""
    ax, most, width = table_bars(ax, found._table(), lines=False)
    label_across(ax, found.headline.split(";")[0], width)
    error = f"error with nothing replaced: {number(found.error)}"
    canvas.caption(ax, [error, *not_shown(len(found.features) - most)])
    return ax


def write_numbers(
    ax: Axes, texts: Sequence[str], ends: Sequence[float], low: float, width: float, *, margin: bool
) -> None:
    """A text right of each row's end, and an axis from `low` with room for them; `width`: of the axes, in points."""
    for row, (text, end) in enumerate(zip(texts, ends, strict=True)):
        style: dict[str, Any] = {"va": "center", "fontsize": "small", "color": QUIET}
        ax.annotate(text, (end, row), (4, 0), textcoords="offset points", **style)
    span = (max(ends) - low or 1.0) / (1 - _room(texts, width))
    ax.set_xlim(low - (0.03 * span if margin else 0.0), low + span)


def _room(texts: Sequence[str], width: float) -> float:
    """The share of the width that the longest text takes."""
    return min(0.6, (max(canvas.text_width(text, canvas.font_size("small")) for text in texts) + 8) / width)


def _ranked(importances: Importances, ratio: bool) -> list[Bar]:
    bars = []
    for feature in importances.values():
        try:
            value = feature.pfi
        except ValueError:  # curves only
            continue
        if np.isfinite(value):
            bars.append(Bar(feature.name, feature.ratio if ratio else value, known_interval(feature, ratio)))
    if not bars:
        raise ValueError("none of the features has a number to rank by, only curves; use a design such as 'all'")
    return sorted(bars, key=lambda bar: -bar.value)


def _mark(feature: Any) -> str:
    found = getattr(feature, "known_extrapolation", None)  # a stand-in for another number has none
    return WARNS if found is not None and found.warns else ""


def known_interval(feature: FeatureImportance, ratio: bool = False) -> tuple[float, float] | None:
    """The 95% interval of a feature's importance, or of its ratio, where there is one."""
    ends = or_else(lambda: feature.ratio_interval() if ratio else feature.interval(), (np.nan, np.nan))
    return ends if np.isfinite(ends).all() else None


def _draw_ranking(ax: Axes, bars: Sequence[Bar], start: float) -> None:
    rows = np.arange(len(bars))
    values = np.array([bar.value for bar in bars])
    thick = min(0.62, THICKEST * len(bars) / canvas.size_in_points(ax)[1])
    ax.barh(rows, values - start, left=start, height=thick, color=SKY)
    known = [(row, *bar.interval) for row, bar in enumerate(bars) if bar.interval is not None]
    if known:
        at, low, high = np.array(known).T
        ax.hlines(at, low, high, color=INK, linewidth=1.1)
    ax.axvline(start, color=INK, linewidth=0.8)


def _title(importances: Importances, ratio: bool) -> str:
    if ratio:
        return f"{importances.loss.title}: feature replaced / nothing replaced"
    return importances.headline.split(";")[0]


def _ranking_notes(importances: Importances, bars: Sequence[Bar], shown: int) -> list[str]:
    """The error to compare with, what the thin lines are, and who is left out."""
    score = isinstance(importances, Scores)
    base = importances.score if isinstance(importances, Scores) else importances.error
    notes = [f"{'score' if score else 'error'} with nothing replaced: {number(base)}"]
    if any(bar.interval for bar in bars[:shown]):
        notes.append("lines: 95% intervals")
    if any(bar.mark for bar in bars[:shown]):
        notes.append(f"{WARNS.strip()}: with its values replaced, rows differ from real ones (AUC > {WARNING})")
    notes += not_shown(len(bars) - shown)
    if len(bars) < len(importances):
        notes.append(f"{count(len(importances) - len(bars), 'feature')} without a number left out")
    return notes
