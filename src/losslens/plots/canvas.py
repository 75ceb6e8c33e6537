"""What all pictures share: colours, a figure where none was given, captions, the room for text."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

import matplotlib as mpl
import numpy as np
from matplotlib import pyplot as plt
from matplotlib import ticker
from matplotlib.axes import Axes
from matplotlib.axis import Axis, XAxis
from matplotlib.font_manager import FontProperties
from matplotlib.patches import Rectangle

from losslens.plots.wording import number

# Okabe and Ito's colours: told apart with every kind of colour vision. Shapes and dashes tell them apart in print.
BLUE, SKY, GREEN, VERMILLION = "#0072B2", "#56B4E9", "#009E73", "#D55E00"
INK, QUIET, PALE = "0.1", "0.4", "0.62"

SINGLE, CAPTION = "single row", "caption"  # marks of artists, to find them again
MOST_ROWS = 40  # lines of text that a figure of our own grows to
LINE = 1.45  # height of a line of text that needs a place of its own, in font sizes
HANDLE = 6  # what a legend draws before a name, in letters
HIGHEST = 0.45  # share of the axes that a legend which names the colours may take
SHORTEST = 8  # letters of a name in it
LETTER = 0.53  # width of an average letter, in font sizes


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


def letters_beside(ax: Axes) -> int:
    """How long the names beside the axes may be: they leave most of the room to the picture."""
    letters = 0.6 * size_in_points(ax)[0] / font_size(mpl.rcParams["ytick.labelsize"]) / LETTER
    return int(np.clip(letters, 10, 36))


def width_beside(ax: Axes, names: Sequence[str], own: bool) -> float:
    """Width of the axes in points once these names stand beside them: a layout engine gives them of its room."""
    width = size_in_points(ax)[0]
    if ax.figure.get_layout_engine() is None:
        return width
    whole = ax.figure.bbox.width * 72 / ax.figure.dpi if own else 1.35 * width
    taken = max(map(len, names)) * LETTER * font_size(mpl.rcParams["ytick.labelsize"])
    return max(0.3 * width, whole - taken - 30)


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


def value_ticks(axis: Axis, width: float | None = None) -> None:
    """Thousands set apart where the numbers are large; across, no more ticks than the width in points takes."""
    low, high = axis.get_view_interval()
    largest = max(abs(low), abs(high))
    apart = 1e4 <= largest < 1e9 and high - low > 10
    if apart:
        axis.set_major_formatter(ticker.FuncFormatter(lambda value, _: number(round(value))))
    if isinstance(axis, XAxis):
        letters = len(number(largest)) if apart else 4
        room = (width or size_in_points(axis.axes)[0]) / font_size(mpl.rcParams["xtick.labelsize"]) / LETTER
        axis.set_major_locator(ticker.MaxNLocator(int(np.clip(room / (letters + 3), 2, 9)), steps=[1, 2, 2.5, 5, 10]))


def caption(ax: Axes, sentences: Sequence[str]) -> None:
    """Small print under the axis label; it ends where the axes end, and may begin under the tick labels."""
    for old in [text for text in ax.texts if text.get_gid() == CAPTION]:
        old.remove()  # of a picture below this one
    if not sentences:
        return
    letters = int(1.15 * size_in_points(ax)[0] / (LETTER * font_size("small")))
    text = "\n".join(textwrap.wrap("; ".join(sentences), max(letters, 20)))
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
        gid=CAPTION,
        annotation_clip=False,
        parse_math=False,
    )


def plain_frame(ax: Axes) -> None:
    """Only the two spines that carry numbers."""
    ax.spines[["top", "right"]].set_visible(False)


def legend(ax: Axes, width: float | None = None) -> float:
    """Name everything at the top, in one or two columns; returns the share of the height that it takes.

    In axes so small that it would take more than half of them there is none.
    """
    handles, names = ax.get_legend_handles_labels()
    if not names:
        return 0.0
    points = (width or size_in_points(ax)[0], size_in_points(ax)[1])
    share, columns, size, lines = _fit_legend(names, *points, font_size("small"))
    if share > 0.3:
        share, columns, size, lines = _fit_legend(names, *points, font_size("x-small"))
    if share > 0.55:
        return 0.0
    shown = ax.legend(
        handles, lines, loc="upper left", ncols=columns, fontsize=size, frameon=False, borderaxespad=0.2,
        handlelength=1.8, columnspacing=1.2,
    )  # fmt: skip
    for text in shown.get_texts():
        text.set_parse_math(False)
    for handle in shown.legend_handles:
        if handle is not None:
            handle.set_alpha(1)  # one pale line alone can't be seen
    shown.set_in_layout(False)  # it lies inside the axes: they needn't shrink for it
    return share


def _fit_legend(names: Sequence[str], width: float, height: float, size: float) -> tuple[float, int, float, list[str]]:
    """Share of the height, columns, font size and wrapped names of a legend in axes of this size in points."""
    letters = width / size / LETTER  # in one line
    half = -(-len(names) // 2)  # the first column holds as many
    widths = [max(map(len, part), default=0) + HANDLE for part in (names[:half], names[half:])]
    columns = 2 if sum(widths) <= letters else 1
    wrapped = [textwrap.fill(name, max(12, int(letters - HANDLE))) for name in names]
    lines = half if columns == 2 else sum(name.count("\n") + 1 for name in wrapped)
    return (lines * 1.55 + 0.8) * size / height, columns, size, wrapped


def room_left(ax: Axes, own: bool) -> tuple[float, float]:
    """Width and height in points, less what a layout engine will take for labels and the caption."""
    width, height = size_in_points(ax)
    if ax.figure.get_layout_engine() is None:
        return width, height
    return (0.9 * width, 0.85 * height) if own else (0.72 * width, 0.7 * height)


def legend_room(width: float, height: float) -> tuple[int, int]:
    """How long names in a legend of axes of this size may be, and how many it has room for."""
    size = font_size("small")
    letters = width / size / LETTER
    columns = 2 if letters / 2 - HANDLE >= SHORTEST else 1
    lines = int((HIGHEST * height / size - 0.8) / 1.55)
    return int(np.clip(letters / columns - HANDLE, SHORTEST, 36)), max(1, columns * lines)


def make_room(ax: Axes, below: float, above: float, limits: tuple[float, float] = (-np.inf, np.inf)) -> None:
    """Limits of the y axis that leave these shares of its height free of data: for the strip and the legend."""
    low, high = np.clip(ax.dataLim.intervaly, *limits)
    span = high - low or abs(high) or 1.0
    whole = span / max(1 - below - above - 0.04, 0.1)
    ax.set_ylim(low - (below + 0.02) * whole, high + (above + 0.02) * whole)
    clear = Rectangle((0, below), 1, 1 - below - above, transform=ax.transAxes)
    for line in [*ax.lines, *ax.collections]:
        if line.get_gid() == SINGLE:  # rows that leave the axis don't run into the text
            line.set_clip_path(clear)
