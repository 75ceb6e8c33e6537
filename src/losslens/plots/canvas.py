"""What all pictures share: colours, a figure where none was given, captions, the room for text."""

from __future__ import annotations

import textwrap
import unicodedata
from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib import pyplot as plt
from matplotlib import ticker
from matplotlib.axes import Axes
from matplotlib.axis import Axis, XAxis
from matplotlib.font_manager import FontProperties
from matplotlib.patches import Patch, Rectangle
from matplotlib.transforms import Transform
from numpy.typing import NDArray

from losslens.plots.wording import number
from losslens.typing import Indices

# Okabe and Ito's colours: told apart with every kind of colour vision. Shapes and dashes tell them apart in print.
BLUE, SKY, GREEN, VERMILLION = "#0072B2", "#56B4E9", "#009E73", "#D55E00"
FAINT = "#3F97C9"  # blue, faded: with dashes where a curve stands on rows unlike any real one
INK, QUIET, PALE = "0.1", "0.4", "0.62"
LIGHTNESS = np.array([0.299, 0.587, 0.114])  # of red, green and blue

STEPS = [1, 2, 2.5, 5, 10]  # of ticks
SINGLE, BAND, CAPTION = "single row", "band", "caption"  # marks of artists, to find them again
MOST_ROWS = 40  # lines of text that a figure of our own grows to
LINE = 1.45  # height of a line of text that needs a place of its own, in font sizes
HANDLE = 6  # what a legend draws before a name, in letters
HIGHEST = 0.45  # share of the axes that a legend which names the colours may take
SHORTEST = 8  # letters of a name in it
LETTER = 0.53  # width of an average letter of a sentence, in font sizes
NARROW, WIDE, WIDEST = 0.36, 0.65, 1.0  # of other letters: see text_width
CELL, AROUND = 1.3, 60.0  # the room for axes and what is around them, in sides of the axes before; points around them
APART = 0.8  # least gap between two labels beside each other, in font sizes


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
    size = font_size(mpl.rcParams["ytick.labelsize"])
    taken = max(text_width(name, size) for name in names)
    return max(0.3 * width, whole - taken - 30)


def font_size(size: str | float) -> float:
    """A font size such as "small" in points, by the user's style."""
    return FontProperties(size=size).get_size_in_points()


def text_width(text: str, size: float) -> float:
    """About how wide the longest line of a text is, in points: digits and capitals are wider than small letters.

    >>> text_width("2024", 10) > text_width("year", 10) > text_width("ill.", 10)
    True
    """
    return size * max(sum(map(_letter_width, line)) for line in text.split("\n"))


def _letter_width(letter: str) -> float:
    if unicodedata.east_asian_width(letter) in "WF":
        return WIDEST
    if letter in " .,:;'|!()[]-/ijlfrt":
        return NARROW
    return WIDE if letter.isdigit() or letter.isupper() or not letter.isascii() or letter in "mw+=%" else 0.6


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
    apart = 1e4 <= max(abs(low), abs(high)) < 1e9 and high - low > 10
    if apart:
        axis.set_major_formatter(ticker.FuncFormatter(lambda value, _: number(round(value))))
    if isinstance(axis, XAxis):
        ticks = ticks_that_fit(low, high, width or size_in_points(axis.axes)[0], apart=apart)
        axis.set_major_locator(ticker.MaxNLocator(ticks, steps=STEPS))


def ticks_that_fit(low: float, high: float, room: float, *, apart: bool = False, whole: bool = False) -> int:
    """Into how many parts of an axis with so many points of room numbers may divide it: their labels must not meet.

    >>> ticks_that_fit(0, 1, 400) > ticks_that_fit(0, 0.001, 100) >= 1
    True
    """
    size = font_size(mpl.rcParams["xtick.labelsize"])
    for parts in range(9, 1, -1):
        ticks = np.asarray(ticker.MaxNLocator(parts, steps=STEPS, integer=whole).tick_values(low, high))
        labels = _labels(ticks, apart)
        widest = max(text_width(label, size) for label in labels) + APART * size
        pitch = room * (ticks[1] - ticks[0]) / (high - low) if high > low else room
        if widest <= pitch:
            return parts
    return 1


def _labels(ticks: NDArray[Any], apart: bool) -> list[str]:
    """About what matplotlib writes there: all with as many decimals as the step has, very large and small ones with a
    power of ten that stands at the end of the axis."""
    if apart:
        return [number(round(tick)) for tick in ticks]
    largest = float(np.abs(ticks).max())
    power = 0 if largest == 0 or 1e-4 <= largest < 1e6 else int(np.floor(np.log10(largest)))
    step = float(ticks[1] - ticks[0]) / 10.0**power if len(ticks) > 1 else 1.0
    decimals = next((d for d in range(6) if np.isclose(step, round(step, d), rtol=1e-6, atol=0)), 6)
    return [f"{tick / 10.0**power:.{decimals}f}" for tick in ticks]


def caption(ax: Axes, sentences: Sequence[str], share: float = 1.15) -> None:
    """Small print under the axis label; it ends where the axes end, and may begin under the tick labels.

    Its lines take that share of the width that the axes have now.
    """
    for old in [text for text in ax.texts if text.get_gid() == CAPTION]:
        old.remove()  # of a picture below this one
    if not sentences:
        return
    room, size = share * size_in_points(ax)[0], font_size("small")
    letters = max(int(room / (LETTER * size)), 20)
    lines = textwrap.wrap("; ".join(sentences), letters)
    while letters > 20 and max(text_width(line, size) for line in lines) > 1.1 * room:  # capitals, say
        letters = max(20, letters - 4)
        lines = textwrap.wrap("; ".join(sentences), letters)
    text = "\n".join(lines)
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


def evenly(order: Indices, most: int) -> Indices:
    """At most so many of these, at even distances: the first and the last are among them."""
    return order if len(order) <= most else order[np.linspace(0, len(order) - 1, most).round().astype(np.intp)]


def ink_on(colour: Any) -> str:
    """What can be read on a colour, given as red, green and blue."""
    return "white" if np.asarray(colour)[:3] @ LIGHTNESS < 0.5 else INK


def colour_bar(ax: Axes, painted: Any, title: str, share: float, **style: Any) -> Any:
    """A bar beside the axes that says what colours mean; its title folds at this share of their height."""
    bar = ax.figure.colorbar(painted, ax=ax, **style)
    bar.outline.set_visible(False)
    bar.set_label(folded(title, share * size_in_points(ax)[1]), parse_math=False)
    value_ticks(bar.ax.yaxis)
    return bar


def folded(text: str, room: float) -> str:
    """A label of an axis in lines that are so many points long."""
    return textwrap.fill(text, max(12, int(room / (LETTER * font_size(mpl.rcParams["axes.labelsize"])))))


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
    points = size_left(ax)
    points = (width or points[0], points[1])
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
        if handle is not None and not isinstance(handle, Patch):
            handle.set_alpha(1)  # one pale line alone can't be seen
    shown.set_in_layout(False)  # it lies inside the axes: they needn't shrink for it
    return share


def legend_share(ax: Axes, names: Sequence[str]) -> float:
    """The share of the height that a legend of these names would take."""
    return _fit_legend(names, *size_left(ax), font_size("small"))[0]


def _fit_legend(names: Sequence[str], width: float, height: float, size: float) -> tuple[float, int, float, list[str]]:
    """Share of the height, columns, font size and wrapped names of a legend in axes of this size in points."""
    letters = width / size / LETTER  # in one line
    half = -(-len(names) // 2)  # the first column holds as many
    parts = (names[:half], names[half:])
    widths = [max((text_width(name, size) for name in part), default=0.0) for part in parts]
    columns = 2 if sum(widths) + 2 * HANDLE * LETTER * size <= width else 1
    wrapped = [textwrap.fill(name, max(12, int(letters - HANDLE))) for name in names]
    lines = half if columns == 2 else sum(name.count("\n") + 1 for name in wrapped)
    return (lines * 1.55 + 0.8) * size / height, columns, size, wrapped


def size_left(ax: Axes) -> tuple[float, float]:
    """About the width and height in points that a layout engine leaves, beside tick labels, names and a caption."""
    width, height = size_in_points(ax)
    if ax.figure.get_layout_engine() is None:
        return width, height
    return tuple(float(np.clip(CELL * side - AROUND, 0.4 * side, side)) for side in (width, height))  # type: ignore[return-value]


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
    low, high = np.clip(_drawn(ax), *limits)
    span = high - low or abs(high) or 1.0
    whole = span / max(1 - below - above - 0.04, 0.1)
    ax.set_ylim(low - (below + 0.02) * whole, high + (above + 0.02) * whole)
    clear = Rectangle((0, below), 1, 1 - below - above, transform=ax.transAxes)
    for line in [*ax.lines, *ax.collections]:
        if line.get_gid() == SINGLE:  # rows that leave the axis don't run into the text
            line.set_clip_path(clear)


def _drawn(ax: Axes) -> tuple[float, float]:
    """From where to where something is drawn along the y axis.

    `Axes.dataLim` won't do: the strip's foot, at 0 of the height of the axes, counts there as the value 0.
    """
    lines = [line.get_ydata() for line in ax.lines if _is_data(ax, line.get_transform())]
    points = [
        some.get_datalim(ax.transData).intervaly
        for some in ax.collections
        if _is_data(ax, some.get_transform()) or _is_data(ax, some.get_offset_transform())
    ]
    bars = [
        bar.get_path().transformed(bar.get_patch_transform()).get_extents().intervaly
        for bar in ax.patches
        if _is_data(ax, bar.get_transform())
    ]
    held = np.concatenate([np.asarray(some, float) for some in (*lines, *points, *bars, ())])
    held = held[np.isfinite(held)]
    return (float(held.min()), float(held.max())) if len(held) else (0.0, 1.0)


def _is_data(ax: Axes, transform: Transform) -> bool:
    return transform.contains_branch_seperately(ax.transData)[1]
