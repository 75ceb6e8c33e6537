"""What all plots share: colours, a figure where none was given, text that fits, captions, legends, colour bars."""

from __future__ import annotations

import re
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
from matplotlib.colorbar import Colorbar
from matplotlib.colors import to_hex, to_rgb
from matplotlib.font_manager import FontProperties
from matplotlib.patches import Patch, Rectangle
from matplotlib.transforms import Transform
from numpy.typing import NDArray

from losslens.plots.wording import MINUS, renamed, thousands
from losslens.typing import FeatureLabels, Indices

# Okabe and Ito's colours: distinct with every kind of colour vision. Shapes and dashes differ, too, for print.
BLUE, SKY, GREEN, VERMILLION = "#0072B2", "#56B4E9", "#009E73", "#D55E00"
INK, QUIET, PALE = "0.1", "0.4", "0.62"
# Colour, dashes and shape differ, so that series are distinct in print.
LOOKS: tuple[tuple[str, Any, str], ...] = (
    (BLUE, "-", "o"),
    (VERMILLION, (0, (4, 1.5)), "s"),
    (GREEN, (0, (1.2, 1)), "^"),
    ("#CC79A7", (0, (5, 1.5, 1, 1.5)), "D"),
    ("#E69F00", "-", "v"),
    (SKY, (0, (4, 1.5)), "P"),
    (INK, (0, (1.2, 1)), "X"),
    ("0.5", (0, (5, 1.5, 1, 1.5)), "*"),
)
COLOURS = [colour for colour, _, _ in LOOKS]
DASHED: dict[str, Any] = {"color": INK, "linewidth": 1.2, "linestyle": (0, (6, 3))}  # the line at a mean
LIGHTNESS = np.array([0.299, 0.587, 0.114])  # weights of red, green and blue in the lightness of a colour

TICK_STEPS = [1, 2, 2.5, 5, 10]  # multiples at which ticks are set
SINGLE, BAND, CAPTION = "single row", "band", "caption"  # gid of artists, to find them again
LINE = 1.45  # height of a line of tick labels, in font sizes
LETTER = 0.53  # width of an average letter of a sentence, in font sizes
NARROW, WIDE, WIDEST = 0.36, 0.65, 1.0  # widths of other letters, in font sizes: see text_width
LABEL_GAP = 0.8  # least gap between two labels beside each other, in font sizes
LEGEND_HANDLE = 6  # width of a legend's line or marker, in letters
LEGEND_SHARE = 0.45  # share of the height that a legend of colours may take
LEGEND_LETTERS = 8  # fewest letters of a name in it
CELL, AROUND = 1.3, 60.0  # a layout engine leaves CELL * side - AROUND points of each side of the axes


def new_axes(rows: int | None = None) -> Axes:
    """Axes in a new figure; if they have rows of text, it is as high as these need."""
    width, height = mpl.rcParams["figure.figsize"]
    if rows is not None:
        height = max(1.8, 1.2 + 0.26 * rows)
    # Constrained: long labels shrink the axes instead of being cut off.
    return plt.subplots(figsize=(width, height), layout="constrained")[1]


def split(ax: Axes) -> Axes:
    """A narrow panel with the same rows right of these axes, which become narrower."""
    place = ax.get_subplotspec()
    if place is None:  # axes at a place of the user's
        panel = ax.inset_axes((1.04, 0.0, 0.3, 1.0), sharey=ax)
    else:
        grid = place.subgridspec(1, 2, width_ratios=(3, 1), wspace=0.05)
        ax.set_subplotspec(grid[0])
        panel = ax.figure.add_subplot(grid[1], sharey=ax)
    panel.tick_params(axis="y", length=0, labelleft=False)
    plain_frame(panel)
    return panel


def panels(count: int, figure: Any = None) -> list[Axes]:
    """Axes of several small plots, up to four beside each other."""
    columns = min(3, count) if count < 7 else 4
    rows = -(-count // columns)
    if figure is None:
        figure = plt.figure(figsize=(3.6 * columns, 3.0 * rows), layout="constrained")
    return [figure.add_subplot(rows, columns, place + 1) for place in range(count)]


def as_one(axes: Sequence[Axes], below: float, above: float) -> None:
    """Panels of curves with the same limits of their y axes, named once a line, and one legend below all panels."""
    ends = np.array([_drawn(ax) for ax in axes])
    for ax in axes:
        set_ends(ax.yaxis, ends[:, 0].min(), ends[:, 1].max(), below + 0.02, above)
        value_ticks(ax.yaxis)
        above_strip(ax, below)
        place = ax.get_subplotspec()
        if place is not None and not place.is_first_col():
            ax.set_ylabel("")
    handles, names = axes[0].get_legend_handles_labels()
    if names:
        axes[0].figure.legend(
            handles, names, loc="outside lower center", ncols=len(names), frameon=False, fontsize="small"
        )


def size_in_points(ax: Axes) -> tuple[float, float]:
    """Width and height of the axes."""
    extent, dpi = ax.get_window_extent(), ax.figure.dpi
    return extent.width * 72 / dpi, extent.height * 72 / dpi


def font_size(size: str | float) -> float:
    """A font size such as "small" in points, in the user's style."""
    return FontProperties(size=size).get_size_in_points()


def text_width(text: str, size: float) -> float:
    """Approximate width of the longest line of a text in points: digits and capitals are wider than small letters.

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


def value_ticks(axis: Axis, width: float | None = None) -> None:
    """Thousands separators for large numbers; on an x axis, no more ticks than fit into the width in points."""
    low, high = axis.get_view_interval()
    separated = 1e3 <= max(abs(low), abs(high)) < 1e9 and high - low > 10
    if separated:
        axis.set_major_formatter(ticker.FuncFormatter(lambda value, _: thousands(value)))
    if isinstance(axis, XAxis):
        ticks = ticks_that_fit(low, high, width or size_in_points(axis.axes)[0], separated=separated)
        axis.set_major_locator(ticker.MaxNLocator(ticks, steps=TICK_STEPS))


def ticks_that_fit(low: float, high: float, points: float, *, separated: bool = False, integer: bool = False) -> int:
    """Into how many parts ticks may divide an axis of `points` length so that their labels don't overlap.

    >>> ticks_that_fit(0, 1, 400) > ticks_that_fit(0, 0.001, 100) >= 1
    True
    """
    size = font_size(mpl.rcParams["xtick.labelsize"])
    for parts in range(9, 1, -1):
        ticks = np.asarray(ticker.MaxNLocator(parts, steps=TICK_STEPS, integer=integer).tick_values(low, high))
        widest = max(text_width(label, size) for label in _tick_labels(ticks, separated)) + LABEL_GAP * size
        pitch = points * (ticks[1] - ticks[0]) / (high - low) if high > low else points
        if widest <= pitch:
            return parts
    return 1


def _tick_labels(ticks: NDArray[Any], separated: bool) -> list[str]:
    """Approximately matplotlib's labels: as many decimals as the step has; the power of ten of very large and small
    numbers is written at the end of the axis."""
    if separated:
        return list(map(thousands, ticks))
    largest = float(np.abs(ticks).max())
    power = 0 if largest == 0 or 1e-4 <= largest < 1e6 else int(np.floor(np.log10(largest)))
    step = float(ticks[1] - ticks[0]) / 10.0**power if len(ticks) > 1 else 1.0
    decimals = next((d for d in range(6) if np.isclose(step, round(step, d), rtol=1e-6, atol=0)), 6)
    return [f"{tick / 10.0**power:.{decimals}f}" for tick in ticks]


def caption(ax: Axes, sentences: Sequence[str], share: float = 1.15) -> None:
    """Small print under the axis label. It ends where the axes end, and may begin under the tick labels.

    Its lines take this share of the present width of the axes.
    """
    for old in [text for text in ax.texts if text.get_gid() == CAPTION]:
        old.remove()  # of an earlier plot on the same axes
    if not sentences:
        return
    points, size = share * size_in_points(ax)[0], font_size("small")
    letters = max(int(points / (LETTER * size)), 20)
    lines = _lines(sentences, letters)
    while letters > 20 and max(text_width(line, size) for line in lines) > 1.1 * points:  # many capitals, say
        letters = max(20, letters - 4)
        lines = _lines(sentences, letters)
    ax.annotate(
        "\n".join(lines), xy=(1, 0), xycoords=(ax.transAxes, ax.xaxis.label), xytext=(0, -4),
        textcoords="offset points", ha="right", va="top", fontsize="small", color=QUIET, gid=CAPTION,
        annotation_clip=False, parse_math=False,
    )  # fmt: skip


def _lines(sentences: Sequence[str], letters: int) -> list[str]:
    """Remarks in lines: one that does not fit beside those before it begins a new line.

    >>> _lines(["dots: rows", "line: their mean", "a few rows decide this number"], 30)
    ['dots: rows; line: their mean;', 'a few rows decide this number']
    """
    lines = [""]
    for k, sentence in enumerate(sentences):
        written = sentence if k == len(sentences) - 1 else f"{sentence};"
        beside = f"{lines[-1]} {written}".lstrip()
        lines[-1:] = (
            [beside] if len(beside) <= letters else [*filter(None, lines[-1:]), *textwrap.wrap(written, letters)]
        )
    return lines


def write_title(ax: Axes, text: str, labels: FeatureLabels) -> None:
    """A sentence over the whole width of the figure, or of axes of the user's, with the names that are shown."""
    names = {name: shown if isinstance(shown, str) else shown[0] for name, shown in labels.items()}
    letters = int(max(20, 1.1 * size_in_points(ax)[0] / (LETTER * font_size("medium"))))
    written = textwrap.fill(re.sub(r"(?<!\w)-(?=\d)", MINUS, renamed(text, names)).replace("(at ", "(at\xa0"), letters)
    ax.set_title(written, loc="left", fontsize="medium", color=INK, parse_math=False)


def folded(text: str, points: float) -> str:
    """The label of an axis in lines of so many points."""
    return textwrap.fill(text, max(12, int(points / (LETTER * font_size(mpl.rcParams["axes.labelsize"])))))


def evenly(order: Indices, most: int) -> Indices:
    """At most so many of these positions, evenly along their order, both ends included."""
    if len(order) <= most:
        return order
    return order[np.linspace(0, len(order) - 1, most).round().astype(np.intp)]


def paler(colour: Any) -> str:
    """The colour of the dashed part of a curve, where most replaced rows are unlike any real one."""
    return to_hex(tuple((0.75 * np.array(to_rgb(colour)) + 0.25).tolist()))


def ink_on(colour: Any) -> str:
    """The colour of a text that can be read on this colour."""
    return "white" if np.array(to_rgb(colour)) @ LIGHTNESS < 0.5 else INK


def colour_bar(ax: Axes, coloured: Any, title: str | None = None, share: float = 0.9, **options: Any) -> Colorbar:
    """A colour bar right of the axes; its title is folded at this share of their height."""
    bar = ax.figure.colorbar(coloured, ax=ax, **options)
    bar.outline.set_visible(False)
    if title is not None:
        bar.set_label(folded(title, share * size_in_points(ax)[1]), parse_math=False)
    value_ticks(bar.ax.yaxis)
    return bar


def plain_frame(ax: Axes) -> None:
    """Only the left and the bottom spine."""
    ax.spines[["top", "right"]].set_visible(False)


def legend(ax: Axes, width: float | None = None) -> float:
    """A legend at the top, in one or two columns; returns the share of the height that it takes.

    There is none in axes so small that it would take more than half of them.
    """
    handles, names = ax.get_legend_handles_labels()
    if not names:
        return 0.0
    available, height = size_left(ax)
    for size in ("small", "x-small"):
        share, columns, lines = _fit_legend(names, width or available, height, font_size(size))
        if share <= 0.3:
            break
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
            handle.set_alpha(1)  # a single pale line is hardly visible
    shown.set_in_layout(False)  # it lies inside the axes, which need not shrink for it
    return share


def legend_name(name: str) -> str:
    """A name in the legend: matplotlib omits those that begin with _."""
    return f" {name}" if name.startswith("_") else name


def _fit_legend(names: Sequence[str], width: float, height: float, size: float) -> tuple[float, int, list[str]]:
    """Share of the height, columns and wrapped names of a legend in axes of this size in points."""
    letters = width / size / LETTER  # of one line
    half = -(-len(names) // 2)  # names in the first of two columns
    parts = (names[:half], names[half:])
    widths = [max((text_width(name, size) for name in part), default=0.0) for part in parts]
    columns = 2 if sum(widths) + 2 * LEGEND_HANDLE * LETTER * size <= width else 1
    wrapped = [textwrap.fill(name, max(12, int(letters - LEGEND_HANDLE))) for name in names]
    lines = half if columns == 2 else sum(name.count("\n") + 1 for name in wrapped)
    return (lines * 1.55 + 0.8) * size / height, columns, wrapped


def size_left(ax: Axes) -> tuple[float, float]:
    """Approximate width and height in points that a layout engine leaves beside tick labels, names and a caption."""
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
    """How many letters and how many names a legend may have in axes of this size in points."""
    size = font_size("small")
    letters = width / size / LETTER
    columns = 2 if letters / 2 - LEGEND_HANDLE >= LEGEND_LETTERS else 1
    lines = int((LEGEND_SHARE * height / size - 0.8) / 1.55)
    return int(np.clip(letters / columns - LEGEND_HANDLE, LEGEND_LETTERS, 36)), max(1, columns * lines)


def make_room(ax: Axes, below: float, above: float, limits: tuple[float, float] = (-np.inf, np.inf)) -> None:
    """Limits of the y axis that leave these shares of its height free of data, for the strip and the legend."""
    low, high = np.clip(_drawn(ax), *limits)
    set_ends(ax.yaxis, low, high, below + 0.02, above + 0.02)
    clear = Rectangle((0, below), 1, 1 - below - above, transform=ax.transAxes)
    for line in [*ax.lines, *ax.collections]:
        if line.get_gid() == SINGLE:  # curves that leave the axis don't cross the text
            line.set_clip_path(clear)


def above_strip(ax: Axes, strip: float) -> None:
    """A y axis that ends where the strip at the foot of the axes begins: nobody takes its bars for values."""
    if not strip:
        return
    low = float(ax.transData.inverted().transform(ax.transAxes.transform((0, strip)))[1])
    high = ax.get_ylim()[1]
    written = isinstance(ax.yaxis.get_major_locator(), ticker.FixedLocator)  # labels of their own
    ticks = np.asarray(ax.get_yticks())
    names = ax.yaxis.get_major_formatter().format_ticks(ticks.tolist())
    kept = [(tick, name) for tick, name in zip(ticks, names, strict=True) if low <= tick <= high]
    if written:
        ax.set_yticks([tick for tick, _ in kept], [name for _, name in kept])
    else:
        ax.yaxis.set_major_locator(ticker.FixedLocator([tick for tick, _ in kept]))
    ax.spines["left"].set_bounds(low, high)


def set_ends(axis: Axis, low: float, high: float, before: float, after: float) -> None:
    """Limits of an axis that leave these shares of its length free before and after two values, whatever its scale."""
    bent = axis.get_transform()
    start, end = bent.transform([low, high])
    total = (float(end - start) or abs(float(end)) or 1.0) / max(1 - before - after, 0.1)
    ends = bent.inverted().transform([start - before * total, end + after * total]).tolist()
    (axis.axes.set_xlim if isinstance(axis, XAxis) else axis.axes.set_ylim)(*ends)


def _drawn(ax: Axes) -> tuple[float, float]:
    """Smallest and largest y value of anything drawn in data coordinates.

    `Axes.dataLim` won't do: it takes the foot of the strip, at 0 of the height of the axes, for the value 0.
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
    values = np.concatenate([np.asarray(some, float) for some in (*lines, *points, *bars, ())])
    values = values[np.isfinite(values) & (values > 0 if ax.get_yscale() == "log" else True)]
    return (float(values.min()), float(values.max())) if len(values) else (0.0, 1.0)


def _is_data(ax: Axes, transform: Transform) -> bool:
    return transform.contains_branch_seperately(ax.transData)[1]
