"""What all pictures share: colours, a figure where none was given, captions, the room for text."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

import matplotlib as mpl
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.font_manager import FontProperties

# Okabe and Ito's colours: told apart with every kind of colour vision. Shapes and dashes tell them apart in print.
BLUE, SKY, GREEN, VERMILLION = "#0072B2", "#56B4E9", "#009E73", "#D55E00"
INK, QUIET, PALE = "0.1", "0.4", "0.62"

MOST_ROWS = 40  # lines of text that a figure of our own grows to
LINE = 1.45  # height of a line of text that needs a place of its own, in font sizes
LETTER = 0.56  # width of an average letter, in font sizes


def new_axes(rows: int | None = None) -> Axes:
    """A figure of our own; one with a line of text for each of so many rows is as high as they need."""
    width, height = mpl.rcParams["figure.figsize"]
    if rows is not None:
        height = max(1.8, 1.2 + 0.26 * rows)
    # Constrained: long labels move the axes instead of being cut off.
    return plt.subplots(figsize=(width, height), layout="constrained")[1]


def size_in_points(ax: Axes) -> tuple[float, float]:
    """Width and height of the axes."""
    extent, dpi = ax.get_window_extent(), ax.figure.dpi
    return extent.width * 72 / dpi, extent.height * 72 / dpi


def font_size(size: str | float) -> float:
    """A font size such as "small" in points, by the user's style."""
    return FontProperties(size=size).get_size_in_points()


def rows_that_fit(ax: Axes) -> int:
    """How many lines of tick labels the axes hold without overlap."""
    return max(1, int(size_in_points(ax)[1] / (LINE * font_size(mpl.rcParams["ytick.labelsize"]))))


def name_rows(ax: Axes, names: Sequence[str]) -> None:
    """Names down the y axis, the first on top."""
    ax.set_yticks(range(len(names)), names, parse_math=False)
    ax.tick_params(axis="y", length=0)
    ax.set_ylim(len(names) - 0.4, -0.6)


def room_for_legend(ax: Axes, rows: int) -> None:
    """Room over the first of so many rows for the legend, which is drawn here."""
    share = legend(ax)
    ax.set_ylim(rows - 0.4, -0.6 - rows * share / (1 - share))


def caption(ax: Axes, sentences: Sequence[str]) -> None:
    """Small print under the axis label; it ends where the axes end."""
    if not sentences:
        return
    letters = int(size_in_points(ax)[0] / (LETTER * font_size("small")))
    text = "\n".join(textwrap.wrap("; ".join(sentences), max(letters, 30)))
    ax.annotate(
        text,
        xy=(1, 0),
        xycoords=(ax.transAxes, ax.xaxis.label),
        xytext=(0, -4),
        textcoords="offset points",
        ha="right",
        va="top",
        fontsize="small",
        color=QUIET,
        gid="caption",
        annotation_clip=False,
        parse_math=False,
    )


def plain_frame(ax: Axes) -> None:
    """Only the two spines that carry numbers."""
    ax.spines[["top", "right"]].set_visible(False)


def legend(ax: Axes) -> float:
    """Name everything at the top, in as many columns as fit; returns the share of the height that it takes."""
    names = ax.get_legend_handles_labels()[1]
    if not names:
        return 0.0
    width, height = size_in_points(ax)
    size = font_size("small")
    widest = (max(map(len, names)) * LETTER + 5) * size
    columns = max(1, min(2, int(width / widest)))
    shown = ax.legend(loc="upper left", ncols=columns, fontsize="small", frameon=False, borderaxespad=0.2)
    for text in shown.get_texts():
        text.set_parse_math(False)
    lines = -(-len(names) // columns)
    return min(0.45, (lines * 1.55 + 0.8) * size / height)


def make_room(ax: Axes, below: float, above: float) -> None:
    """Limits of the y axis that leave these shares of its height free of data: for the strip and the legend."""
    low, high = ax.dataLim.intervaly
    span = high - low or abs(high) or 1.0
    whole = span / max(1 - below - above - 0.04, 0.1)
    ax.set_ylim(low - (below + 0.02) * whole, high + (above + 0.02) * whole)
