"""Two features on a product grid: a heat map."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes

from losslens.plots.canvas import caption, size_in_points
from losslens.plots.scale import word_ticks
from losslens.plots.shown import Shown
from losslens.plots.wording import count, shorten, value_label


def draw_heatmap(shown: Shown, ax: Axes) -> None:
    """The whole picture; each grid value takes the same room, however far apart the values are."""
    first, second = shown.values
    colours = _colours(shown)
    mesh = ax.pcolormesh(
        np.arange(len(first)), np.arange(len(second)), shown.curve.T, shading="nearest", rasterized=True, **colours
    )
    bar = ax.figure.colorbar(mesh, ax=ax)
    bar.set_label(shown.axis, parse_math=False)
    bar.outline.set_visible(False)
    room = size_in_points(ax)
    for axis, values, points in ((ax.xaxis, first, room[0]), (ax.yaxis, second, room[1])):
        names = [value_label(value) for value in values]
        word_ticks(axis, np.arange(len(values), dtype=float), names, points, turn=values.dtype.kind == "O")
    ax.set_xlabel(shorten(shown.columns[0], 60), parse_math=False)
    ax.set_ylabel(shorten(shown.columns[1], 40), parse_math=False)
    ax.spines[:].set_visible(False)
    if shown.singles is not None:
        rows = count(len(shown.singles.result.at), "row")
        caption(ax, [f"{shown.curve_name} over {rows}", "a cell for each pair of grid values"])


def _colours(shown: Shown) -> dict[str, Any]:
    """From dark to light; two colours around zero where the curve lies on both of its sides."""
    low, high = float(shown.curve.min()), float(shown.curve.max())
    if shown.from_zero and low < -0.02 * high:
        reach = max(-low, high)
        return {"cmap": "PuOr_r", "vmin": -reach, "vmax": reach}
    return {"cmap": "cividis"}
