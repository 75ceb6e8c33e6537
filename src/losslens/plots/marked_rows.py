"""Named rows with a mark and an interval: the one picture of numbers by name, alone or as series below each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from losslens.plots import canvas, named_rows
from losslens.plots.canvas import BAND, BLUE, DASHED, INK, LOOKS, PALE, SINGLE, SKY
from losslens.plots.importance_axis import bend, check_scale, importance_ticks
from losslens.plots.look import Look
from losslens.plots.options import arrange, colours, most_of
from losslens.plots.wording import alike, not_shown, number
from losslens.plots.wording import labels as short_labels
from losslens.typing import Floats, Indices
from losslens.uncertainty.cautions import noted

THICKEST = 22.0  # thickness of a bar in points, at most
NUMBERS_SHARE = 0.45  # share of the width that numbers with their percentages may take
ROOM = 0.5  # of a decade, before the smallest bar on a logarithmic axis
LEGEND = 3  # lines of text that the legend of series takes
SPREAD = 0.7  # height over which the marks of one row are spread, in rows
LINES = "lines: 95% intervals"


class Row(NamedTuple):
    """A name with a number and the ends of its interval, NaN where there is none."""

    name: str
    value: float
    low: float = np.nan
    high: float = np.nan
    mark: str = ""  # after the name
    caution: str = ""
    parts: tuple[float, ...] = ()  # numbers of its own parts, thin bars in the lower half of its bar
    colour: str = ""  # whatever is asked for


class Dots(NamedTuple):
    """Further numbers of each row, such as those of folds, each with a small marker."""

    values: Floats  # (repeats, rows)
    marker: str
    style: dict[str, Any]

    def draw(self, ax: Axes, order: Indices) -> Floats:
        """Draw those of some rows, from top to bottom; returns their values."""
        values = self.values[:, order]
        at = np.broadcast_to(np.arange(len(order)), values.shape)
        ax.plot(values.ravel(), at.ravel(), self.marker, gid=SINGLE, **self.style)
        return values


class Series(NamedTuple):
    """A model or a group of rows: its name and colour, and the value of each row with the ends of its interval."""

    label: str
    colour: Any  # one, or that of each row
    numbers: Floats  # (3, p): value, low and high; NaN where there is none
    faded: NDArray[np.bool_] | None = None  # (p,): rows with a hollow mark
    marker: str = ""  # by default that of its place among the series


def draw_ranking(
    ax: Axes | None, rows: Sequence[Row], look: Look, label: str, notes: Callable[[Sequence[Row]], Sequence[str]], *,
    start: float = 0.0, shares: Callable[[Sequence[Row]], Sequence[str]] = lambda _: (), by_size: bool = False,
    lines: str = LINES, repeats: Dots | None = None, smaller: str = "less important feature", what: str = "feature",
    pinned: int = 0, beside: Callable[[Axes, Sequence[Row]], None] | None = None,
) -> Axes:  # fmt: skip
    """The rows that are requested and fit, the largest on top, or those furthest from 0; `notes` are of those drawn.

    The first `pinned` rows stay on top; `beside` draws a second panel with the same rows.
    """
    own, values, names = ax is None, np.array([row.value for row in rows]), [row.name for row in rows]
    free, most = values[pinned:], most_of(look.top, len(rows) - pinned)
    ranked = np.argsort(-np.abs(free) if by_size else -free, kind="stable")[:most]
    check_scale(look.scale, np.append(values[:pinned], free[ranked]))
    ax, most = named_rows.open_rows(ax, pinned + len(ranked), below=3)
    order = arrange(look.names.all(names[pinned:]), ranked[: max(0, most - pinned)], look.sort)
    drawn = np.append(np.arange(pinned), pinned + order)[:most]
    chosen = [rows[j] for j in drawn]
    panel, own = (None, own) if beside is None else (canvas.split(ax), False)
    dots = None if repeats is None else repeats.draw(ax, drawn)
    width = draw_rows(ax, chosen, own, look, start=start, shares=shares(chosen), all_names=names, what=what, dots=dots)
    named_rows.label_across(ax, label, width)
    if beside is not None and panel is not None:
        beside(panel, chosen)
    by_value = sorted(chosen, key=lambda row: -row.value)
    cautions = noted([look.names.of(row.name) for row in by_value], [row.caution for row in by_value])
    intervals = [lines] if any(np.isfinite(row.low) for row in chosen) else []
    canvas.caption(ax, [*notes(chosen), *intervals, *cautions, *not_shown(len(rows) - len(chosen), smaller)])
    return ax


def draw_rows(
    ax: Axes, rows: Sequence[Row], own: bool, look: Look, *, start: float = 0.0, shares: Sequence[str] = (),
    all_names: Sequence[str] = (), what: str = "feature", dots: Floats | None = None,
    filled: NDArray[np.bool_] | None = None,
) -> float:  # fmt: skip
    """Named bars, the first on top, each with its number and, where they fit, its share.

    `dots`: further numbers of each row, (repeats, rows), which the axis holds. `filled`: large dots in place of bars,
    and which of them are filled. Returns the width of the axes in points.
    """
    names, at = [row.name for row in rows], np.arange(len(rows))
    values, low, high = np.array([row[1:4] for row in rows]).T
    bend(ax.xaxis, look.scale, values)
    coloured = [row.name for row in rows if not row.colour]
    each = iter(colours(look.colors, coloured, [SKY if filled is None else BLUE] * len(rows), what, all_names))
    fill = [row.colour or next(each) for row in rows]
    if filled is None:
        thickness = min(0.62, THICKEST * len(rows) / canvas.size_in_points(ax)[1])
        ax.barh(at, values - start, left=start, height=thickness, color=fill)
        _draw_parts(ax, rows, thickness / 2, start)
    finite = np.isfinite(low)
    if finite.any():
        ax.hlines(at[finite], low[finite], high[finite], color=INK, linewidth=1.1)
    if filled is not None:
        inside = [colour if sure else "white" for colour, sure in zip(fill, filled, strict=True)]
        ax.scatter(values, at, s=36, c=inside, edgecolors=fill, linewidths=1.2, zorder=3)
    if start > 0 or look.scale != "log":
        ax.axvline(start, color=INK, linewidth=0.8)
    short = short_labels(look.names.all(names), named_rows.letters_beside(ax))
    width = named_rows.name_rows(ax, [name + row.mark for name, row in zip(short, rows, strict=True)], own)
    texts = [f"{'' if filled is None else ' '}{text}" for text in alike(values.tolist())]  # a blank after a dot
    long = [f"{text} ({share})" for text, share in zip(texts, shares, strict=False)]
    safe = (0.85 if own else 0.75) * width if long else width  # the width is an estimate, which long texts may exceed
    if long and named_rows.share_of_texts(long, safe) <= NUMBERS_SHARE:
        texts = long
    parts = [[end((row.value, *row.parts)) for row in rows] for end in (min, max)]
    every = np.vstack([parts, low, high] if dots is None else [parts, low, high, dots])
    ends, left = np.maximum(start, np.fmax.reduce(every)), min(start, float(np.nanmin(every)))
    if look.scale == "log":
        left = float(min(*values, start or np.inf)) / 10**ROOM
    named_rows.write_numbers(ax, texts, ends.tolist(), left, safe, margin=left < start and look.scale != "log")
    importance_ticks(ax.xaxis, width)
    canvas.plain_frame(ax)
    return width


def _draw_parts(ax: Axes, rows: Sequence[Row], height: float, start: float) -> None:
    """Thin bars from the middle of each row downward, which share this height."""
    for at, row in enumerate(rows):
        each = height / max(len(row.parts), 1)
        places = at + each * (np.arange(len(row.parts)) + 0.5)
        ax.barh(places, np.array(row.parts) - start, left=start, height=0.8 * each, color=BLUE)


def draw_series(
    ax: Axes | None, look: Look, names: Sequence[str], ranked: Indices, series: Sequence[Series], label: str, *,
    beside: Sequence[str] = (), repeats: Dots | None = None, level: float = np.nan, legend: int = LEGEND,
    zero: bool = True, beneath: Callable[[Axes, Indices], Sequence[Line2D]] = lambda *_: (),
) -> tuple[Axes, Indices]:  # fmt: skip
    """Ranked rows with a dot and an interval for each series, below those of the one before.

    `beside`: a text after each name; `level`: of all rows together, dashed; `legend`: lines of text that it takes;
    `beneath` draws more into these rows and returns lines across them, which end below the legend.
    Returns the axes, and the rows that are drawn, from top to bottom.
    """
    own, ranked = ax is None, ranked[: look.top]
    values = np.array([one.numbers[0] for one in series])
    check_scale(look.scale, values[:, ranked])
    most = rows_of_series(ax, len(series), legend)
    if ax is None:
        ax = canvas.new_axes(int(_height(len(series)) * min(most, len(ranked))) + legend)
    order = arrange(look.names.all(names), ranked[:most], look.sort)
    bend(ax.xaxis, look.scale, values[:, order])
    if repeats is not None:
        repeats.draw(ax, order)
    for k, one in enumerate(series):
        _mark(ax, one, order, np.arange(len(order)) + shift_of(k, len(series)), one.marker or LOOKS[k][2])
    if len(series) > 1:
        separate_rows(ax, len(order))
    lines = [*beneath(ax, order)]
    lines += [ax.axvline(0, color=INK, linewidth=0.8, zorder=1)] if zero and look.scale != "log" else []
    if np.isfinite(level) and (look.scale != "log" or level > 0):
        lines.append(ax.axvline(level, label=f"all rows: {number(level)}", zorder=2, **DASHED))
    letters = named_rows.letters_beside(ax) - (8 if beside else 0)
    short = short_labels(look.names.all([names[j] for j in order]), letters)
    shown = [f"{name} {beside[j]}" for name, j in zip(short, order, strict=True)] if beside else short
    named_rows.legend_above(ax, named_rows.dress_rows(ax, shown, own, label), lines)
    return ax, order


def rows_of_series(ax: Axes | None, series: int, legend: int) -> int:
    """How many rows with so many marks each fit below a legend; without axes, into a new figure."""
    lines = named_rows.MOST_ROWS if ax is None else named_rows.rows_that_fit(ax) - legend
    return max(1, int(lines / _height(series)))


def _height(series: int) -> float:
    """Of a row, in lines of text."""
    return 0.5 + 0.45 * series if series > 1 else 1.0


def _mark(ax: Axes, one: Series, order: Indices, rows: NDArray[Any], marker: str) -> None:
    """The marks of a series in these rows, hollow where they are faded, and the intervals that there are."""
    value, low, high = one.numbers[:, order]
    colour = one.colour if isinstance(one.colour, str) else np.array(one.colour)[order]
    name = canvas.legend_name(one.label)
    if isinstance(colour, str):
        ax.plot(value, rows, marker, color=colour, label=name, markersize=5, zorder=4)
    else:
        ax.scatter(value, rows, s=36, c=colour, marker=marker, label=name or None, zorder=4)
    if one.faded is not None and (hollow := one.faded[order]).any():
        edges = colour if isinstance(colour, str) else colour[hollow]
        look: dict[str, Any] = {"facecolors": "white", "edgecolors": edges, "linewidths": 1.3, "zorder": 4.5}
        ax.scatter(value[hollow], rows[hollow], s=36, marker=marker, **look)
    finite = np.isfinite(low)
    if finite.any():
        lines = colour if isinstance(colour, str) else colour[finite]
        ax.hlines(rows[finite], low[finite], high[finite], color=lines, linewidth=1.4, zorder=3, gid=BAND)


def shift_of(k: int, groups: int) -> float:
    """How far below the middle of its row the k-th of several dots is drawn."""
    return SPREAD * ((k + 0.5) / groups - 0.5)


def separate_rows(ax: Axes, rows: int) -> None:
    """Thin lines between rows that hold several dots each."""
    for row in range(1, rows):
        ax.axhline(row - 0.5, color=PALE, linewidth=0.4, zorder=0)
