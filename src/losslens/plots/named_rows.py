"""Plots with a name beside each row: which rows fit, their names, the frame around them, and numbers at the right."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from losslens.plots import canvas
from losslens.plots.canvas import LETTER, LINE, QUIET, font_size, size_in_points, text_width
from losslens.plots.importance_axis import importance_ticks
from losslens.plots.wording import is_flag, labels, percent, word_labels
from losslens.tables.columns import is_missing
from losslens.typing import Floats, Indices

MOST_ROWS = 40  # lines of text up to which a new figure grows


def open_rows(ax: Axes | None, rows: int, below: int = 0, most: int = MOST_ROWS, line: float = 1.0) -> tuple[Axes, int]:
    """The axes, and how many of the rows they hold; without axes, a new figure with `line` lines of text a row.

    Axes with a layout engine hold `below` rows fewer: it will shrink them for the text under them.
    """
    if ax is None:
        most = min(rows, most)
        return canvas.new_axes(int(line * most)), most
    taken = 0 if ax.figure.get_layout_engine() is None else below
    return ax, min(rows, max(1, rows_that_fit(ax) - taken))


def rows_that_fit(ax: Axes) -> int:
    """How many lines of tick labels the axes hold without overlap."""
    return max(1, int(size_in_points(ax)[1] / (LINE * font_size(mpl.rcParams["ytick.labelsize"]))))


def letters_beside(ax: Axes) -> int:
    """How many letters the names beside the axes may have, so that most of the width is left to the axes."""
    letters = 0.6 * size_in_points(ax)[0] / font_size(mpl.rcParams["ytick.labelsize"]) / LETTER
    return int(np.clip(letters, 10, 36))


def width_beside(ax: Axes, names: Sequence[str], own: bool) -> float:
    """Width of the axes in points beside these names: a layout engine shrinks them; `own`: alone in a new figure."""
    width = size_in_points(ax)[0]
    if ax.figure.get_layout_engine() is None:
        return width
    total = ax.figure.bbox.width * 72 / ax.figure.dpi if own else 1.35 * width
    size = font_size(mpl.rcParams["ytick.labelsize"])
    return max(0.3 * width, total - max(text_width(name, size) for name in names) - 30)


def name_rows(ax: Axes, names: Sequence[str], own: bool) -> float:
    """Names down the y axis, the first on top; returns the width of the axes beside them, in points."""
    ax.set_yticks(range(len(names)), names, parse_math=False)
    ax.tick_params(axis="y", length=0)
    ax.set_ylim(len(names) - 0.4, -0.6)
    return width_beside(ax, names, own)


def dress_rows(ax: Axes, names: Sequence[str], own: bool, label: str, taken: float = 0.0) -> float:
    """Names of the rows, ticks and label of the x axis, and a plain frame; a colour bar takes some points of the width.

    Returns the width of the axes in points.
    """
    width = name_rows(ax, names, own)
    if taken:
        width = max(width - taken, 0.6 * size_in_points(ax)[0])
    importance_ticks(ax.xaxis, width)
    label_across(ax, label, width)
    canvas.plain_frame(ax)
    return width


def label_across(ax: Axes, text: str, width: float) -> None:
    """Label of the x axis, hardly longer than it, and clear of the power of ten at its end."""
    power = not 1e-4 < max(map(abs, ax.get_xlim())) < 1e9
    ax.set_xlabel(canvas.folded(text, width - 50 if power else width), parse_math=False, loc="left" if power else None)


def legend_above(ax: Axes, width: float, lines: Sequence[Line2D] = ()) -> None:
    """A legend above the rows; the given vertical lines end below it."""
    above, rows = canvas.legend(ax, width), len(ax.get_yticks())
    ax.set_ylim(rows - 0.4, -0.6 - rows * above / (1 - above))
    for line in lines:
        line.set_ydata((0, 1 - above))


def write_numbers(
    ax: Axes, texts: Sequence[str], ends: Sequence[float], low: float, width: float, *, margin: bool
) -> None:
    """A text right of each row's end, and an x axis from `low` on with space for them; `width`: in points."""
    for row, (text, end) in enumerate(zip(texts, ends, strict=True)):
        style: dict[str, Any] = {"va": "center", "fontsize": "small", "color": QUIET}
        ax.annotate(text, (end, row), (4, 0), textcoords="offset points", **style)
    canvas.set_ends(ax.xaxis, low, max(ends), 0.0, share_of_texts(texts, width))
    if margin:
        left, right = ax.get_xlim()
        canvas.set_ends(ax.xaxis, left, right, 0.029, 0.0)


def share_of_texts(texts: Sequence[str], width: float) -> float:
    """The share of the width that the longest text takes."""
    return min(0.6, (max(text_width(text, font_size("small")) for text in texts) + 8) / width)


def rank_values(values: NDArray[Any], heights: Floats, weights: Floats | None, most: int) -> Indices:
    """Positions of unordered grid values from top to bottom: the largest height first, a missing value last.

    If not all fit, the most frequent remain, or those furthest from 0 without weights. False stays before true.
    """
    chosen = np.arange(len(heights))
    if len(chosen) > most:
        chosen = np.sort(np.argsort(-(np.abs(heights) if weights is None else weights), kind="stable")[:most])
    if not is_flag(values):
        chosen = chosen[np.argsort(-heights[chosen], kind="stable")]
    last = np.array([is_missing(values[k]) for k in chosen], bool)
    return np.concatenate([chosen[~last], chosen[last]])


def value_names(values: NDArray[Any], order: Indices, weights: Floats | None, letters: int) -> list[str]:
    """Grid values as names of rows, with their share of the weight in brackets."""
    names = labels(word_labels([values[k] for k in order]), letters)
    if weights is None:
        return names
    return [f"{name} ({percent(weights[k])})" for name, k in zip(names, order, strict=True)]
