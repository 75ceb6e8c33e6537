"""Tables of colours: named rows and columns, with the numbers where they fit."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from itertools import product
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.colors import Colormap
from numpy.typing import NDArray

from losslens.plots import canvas, named_rows
from losslens.plots.canvas import LETTER
from losslens.plots.wording import MINUS, number
from losslens.plots.wording import labels as short_labels
from losslens.typing import Floats

MOST_TABLE = 20  # rows and columns in a new figure
NAME = 16  # letters of a name below a column
DIGIT = 0.64  # width of a digit, in font sizes
BAR = 65  # width of the colour bar in points
SIZES = ("small", "x-small", "xx-small")  # of the numbers in cells


def draw_cells(ax: Axes, cells: Floats, across: NDArray[Any], up: NDArray[Any], **style: Any) -> QuadMesh:
    """Rectangles of colours around these places, halfway to their neighbours: (len(up), len(across)) cells."""
    mesh = ax.pcolormesh(_edges(across), _edges(up), cells, rasterized=True, **style)
    ax.spines[:].set_visible(False)
    return mesh


def _edges(places: NDArray[Any]) -> Floats:
    if len(places) == 1:
        return np.array([places[0] - 0.5, places[0] + 0.5])
    middle = (places[1:] + places[:-1]) / 2
    return np.array([2 * places[0] - middle[0], *middle, 2 * places[-1] - middle[-1]])


def draw_table(
    ax: Axes, cells: Floats, rows: Sequence[str], columns: Sequence[str], title: str, colours: Colormap, own: bool
) -> list[str]:
    """Squares in the same colours on both sides of 0, with their bar, names on both axes and the numbers.

    Returns notes for the caption. Names of rows may have lines.
    """
    reach = float(np.max(np.abs(cells[np.isfinite(cells)]), initial=0.0)) or 1.0
    style: dict[str, Any] = {"cmap": colours, "vmin": -reach, "vmax": reach, "edgecolors": "white", "linewidth": 0.6}
    mesh = draw_cells(ax, cells, np.arange(cells.shape[1]) + 0.5, np.arange(cells.shape[0]) + 0.5, **style)
    height = canvas.size_in_points(ax)[1]
    bar = canvas.colour_bar(ax, mesh, title, 0.8, aspect=float(np.clip(height / 14, 8, 20)))
    bar.set_ticks([-reach, 0, reach], labels=[number(-reach), "0", number(reach)])
    rows = rows if any("\n" in name for name in rows) else short_labels(rows, named_rows.letters_beside(ax))
    width = named_rows.width_beside(ax, rows, own)
    if ax.figure.get_layout_engine() is not None:  # it will shrink the axes for the names and the colour bar
        width = max(0.3 * width, width - BAR)
    _name_columns(ax, columns, width)
    ax.set_yticks(np.arange(len(rows)) + 0.5, rows, parse_math=False)
    ax.tick_params(length=0)
    ax.set_ylim(len(rows), 0)
    return _write_cells(ax, mesh, cells, width)


def caption(ax: Axes, notes: Sequence[str]) -> None:
    """Small print below the table, which a layout engine will shrink."""
    canvas.caption(ax, notes, 1.15 if ax.figure.get_layout_engine() is None else 0.8)


def _name_columns(ax: Axes, columns: Sequence[str], width: float) -> None:
    """Names below columns, in up to three lines; where words are wider than a column, shorter, slanted or upright."""
    p, size = len(columns), canvas.font_size(mpl.rcParams["xtick.labelsize"])
    letters = max(1, int((width / p - 4) / (LETTER * size)))
    for short in (columns, short_labels(columns, 3 * letters - 4), short_labels(columns, 2 * letters)):
        lines = [textwrap.wrap(name, letters, break_long_words=False) for name in short]
        if letters > 6 and all(len(some) <= 3 and max(map(len, some), default=0) <= letters for some in lines):
            ax.set_xticks(np.arange(p) + 0.5, ["\n".join(some) for some in lines], parse_math=False)
            return
    below = short_labels(columns, int(np.clip(canvas.size_in_points(ax)[1] / 3 / size / LETTER, 8, NAME)))
    pitch = width / p
    turn = 0 if max(map(len, below)) * LETTER * size < pitch - 4 else 35 if pitch > 2 * size else 90
    slanted: dict[str, Any] = {"ha": "right", "rotation_mode": "anchor"} if turn == 35 else {}
    ax.set_xticks(np.arange(p) + 0.5, below, parse_math=False, rotation=turn, **slanted)


def _write_cells(ax: Axes, mesh: QuadMesh, cells: Floats, width: float) -> list[str]:
    """The numbers, if they fit; returns a note if they are scaled by a power of ten."""
    places = [(int(j), int(k)) for j, k in np.argwhere(np.isfinite(cells))]
    reach = max((abs(cells[place]) for place in places), default=0.0)
    power = 3 * int(np.floor(np.log10(reach) / 3)) if reach and not 0.1 <= reach < 1e4 else 0
    cell = np.array([width, canvas.size_in_points(ax)[1]]) / cells.shape[::-1]  # in points
    for size, digits in product(SIZES, (2, 1)):
        decimals = max(0, digits - int(np.floor(np.log10(reach or 1.0))) + power)
        scaled = [round(cells[place] / 10.0**power, decimals) + 0.0 for place in places]  # + 0.0: no "-0"
        texts = [f"{value:,.{decimals}f}".replace("-", MINUS) for value in scaled]
        letter = canvas.font_size(size)
        if texts and cell[0] > (max(map(len, texts)) + 0.5) * DIGIT * letter and cell[1] > 1.3 * letter:
            break
    else:
        return []
    for (j, k), text in zip(places, texts, strict=True):
        colour = canvas.ink_on(mesh.to_rgba(cells[j, k]))
        ax.text(k + 0.5, j + 0.5, text, ha="center", va="center", fontsize=size, color=colour)
    return [f"numbers in units of 1e{power}".replace("-", MINUS)] if power else []
