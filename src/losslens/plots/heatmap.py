"""Two features on a product grid: a heat map under the observed rows, hatched where there are none."""

from __future__ import annotations

from math import sqrt
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import PathPatch
from matplotlib.path import Path
from numpy.typing import NDArray

from losslens.plots import canvas
from losslens.plots.canvas import INK, evenly, folded
from losslens.plots.feature_data import FeaturePicture
from losslens.plots.options import colour_map
from losslens.plots.scale import word_ticks
from losslens.plots.tables import draw_cells
from losslens.plots.wording import count, is_flag, percent, shorten, some_of, value_labels
from losslens.tables.columns import count_missing
from losslens.typing import Floats, Indices

EMPTY, OBSERVED = "cells without a row", "observed rows"  # gid of artists, to find them again
MOST_POINTS = 1000  # observed rows that are drawn
NEAR = 0.05  # a row is near a grid value if at most this share of the rows lies between them ...
EXPECTED = 9  # ... or more if there are few rows: so many would be near a cell if the features were independent ...
FURTHEST = 0.2  # ... but never more than this
FEW = 40  # grid values up to which rows with the same value are spread around it
SPREAD = 0.6  # width of this spread, in steps of the grid
NARROW = 220.0  # points of width below which the title of the colour bar moves to the caption
BESIDE, BAR = 0.8, 58.0  # the colour bar leaves at most this share of the width, and takes at least so many points


def draw_heatmap(shown: FeaturePicture, ax: Axes) -> None:
    """A heat map in which each grid value takes the same space, however far apart the values are.

    The observed rows lie over it as points, at most `MOST_POINTS` of them, evenly along the order of the two
    features. Cells without an observed row near them are hatched (see `empty_cells`): there, the model predicts for
    combinations of values that the data doesn't have.
    """
    first, second = shown.values
    low, high = float(shown.curve.min()), float(shown.curve.max())
    colours: dict[str, Any] = {"cmap": colour_map(shown.look.colors, "cividis")}
    if shown.from_zero and low < -0.02 * high:  # two colours around 0
        colours = {"cmap": colour_map(shown.look.colors, "PuOr_r"), "vmin": -max(-low, high), "vmax": max(-low, high)}
    mesh = draw_cells(ax, shown.curve.T, np.arange(len(first)), np.arange(len(second)), **colours)
    across, up = canvas.size_left(ax)
    narrow = across < NARROW
    canvas.colour_bar(ax, mesh, None if narrow else shown.axis)
    width = max(0.3 * across, min(BESIDE * across, across - BAR))
    height = 0.75 * up if narrow else up  # the caption of narrow axes has many lines
    for axis, values, points in ((ax.xaxis, first, width), (ax.yaxis, second, height)):
        names, words = value_labels(values), values.dtype.kind == "O"
        word_ticks(axis, np.arange(len(values), dtype=float), names, points, turn=words)
    letters = 36 if narrow else 60
    titles = [shorten(shown.look.names.title(column), letters) for column in shown.columns]
    ax.set_xlabel(folded(titles[0], across), parse_math=False)
    ax.set_ylabel(folded(titles[1], 0.9 * up), parse_math=False)
    what = shown.curve_name if not narrow else f"{shown.curve_name}, {shown.axis}"
    canvas.caption(ax, [what, *_draw_observed(ax, shown, narrow)], 0.95)


# -- the observed rows ------------------------------------------------------------------------------------------------


def _draw_observed(ax: Axes, shown: FeaturePicture, narrow: bool) -> list[str]:
    """Points, and hatches where there are none; returns notes for the caption."""
    result = None if shown.singles is None else shown.singles.result
    if result is None:
        return []
    if result.observed is None:  # in a file of an old version
        return [f"over {count(len(result.at), 'row')}"]
    rows = result.observed[np.isfinite(result.observed).all(axis=1)]
    notes = [_draw_points(ax, rows, shown.values, len(result.at))]
    empty = empty_cells(rows, shown.values)
    if empty.any():
        _hatch(ax, empty)
        far = "" if narrow else f" (within {percent(reach(len(rows)))} of the ranks in both features)"
        notes.append(f"hatched: no observed row near{far}")
    return notes


def _draw_points(ax: Axes, rows: Floats, values: tuple[NDArray[Any], ...], explained: int) -> str:
    """Observed rows as points, spread around the values of a coarse grid; returns a note for the caption."""
    points = rows[evenly(np.lexsort(rows.T[::-1]), MOST_POINTS)]
    spread = [len(grid) <= FEW and np.array_equal(points[:, k], points[:, k].round()) for k, grid in enumerate(values)]
    points += SPREAD * (np.random.default_rng(0).random(points.shape) - 0.5) * spread
    side = min(canvas.size_in_points(ax))
    size = float(np.clip(4.4 - len(points) / 500, 2.4, 4.4) * np.clip(side / 220, 0.5, 1.0))  # in points
    # A white edge separates a dark point from dark cells, and from its neighbours.
    style: dict[str, Any] = {"color": INK, "edgecolors": "white", "linewidths": 0.12 * size, "rasterized": True}
    ax.scatter(points[:, 0], points[:, 1], s=size**2, zorder=3, gid=OBSERVED, **style)
    return f"points: {some_of(len(points), explained, 'observed row')}" + (", spread in cells" if any(spread) else "")


def reach(rows: int) -> float:
    """Within which share of the rows a row counts as near a cell."""
    return max(NEAR, min(FURTHEST, sqrt(EXPECTED / max(rows, 1)) / 2))


def empty_cells(rows: Floats, values: tuple[NDArray[Any], ...]) -> NDArray[np.bool_]:
    """Cells of the product grid that have no observed row near them, (g1, g2).

    A row is near a cell if it lies inside, or if in both features at most `reach` of the rows lie between its value
    and the cell's. Ranks are used because grids hold quantiles, or every value: with all values of two continuous
    features nearly no cell holds a row, however dense the data. A word, a truth value or a missing value is only near
    itself.

    >>> diagonal = np.column_stack([np.arange(100.0)] * 2)
    >>> empty = empty_cells(diagonal, (np.arange(100), np.arange(100)))
    >>> bool(empty[10, 12]), bool(empty[10, 80])
    (False, True)
    """
    shape = tuple(map(len, values))
    (low_a, high_a), (low_b, high_b) = (_near(rows[:, axis], values[axis]) for axis in (0, 1))
    corners = np.zeros((shape[0] + 1, shape[1] + 1), np.int64)  # the cells near a row are a rectangle: 2-d differences
    for sign, a, b in ((1, low_a, low_b), (-1, low_a, high_b), (-1, high_a, low_b), (1, high_a, high_b)):
        np.add.at(corners, (a, b), sign)
    covered = corners.cumsum(axis=0).cumsum(axis=1)[:-1, :-1]
    return np.asarray(covered == 0)


def _near(points: Floats, values: NDArray[Any]) -> tuple[Indices, Indices]:
    """The grid values that each row is near: from the first up to, but without, the second."""
    size, absent = len(values), count_missing(values)
    own = np.clip(points.round(), 0, size - 1).astype(np.intp)
    if is_flag(values) or any(isinstance(value, str) for value in values):
        return own, own + 1
    grid = size - absent
    missing = own >= grid
    ordered = np.sort(points)
    rank, of_grid = (_ranks(ordered, some) for some in (points, np.arange(grid, dtype=float)))
    near, slack = reach(len(points)), 1e-9
    low = np.minimum(np.searchsorted(of_grid, rank - near - slack), own)
    high = np.maximum(np.searchsorted(of_grid, rank + near + slack), own + 1)
    return np.where(missing, own, low), np.where(missing, own + 1, np.minimum(high, grid))


def _ranks(ordered: Floats, points: Floats) -> Floats:
    """Mid-ranks: the share of the rows below each place, and half of those at it."""
    below, up_to = (np.searchsorted(ordered, points, side) for side in ("left", "right"))
    return np.asarray((below + up_to) / (2 * max(len(ordered), 1)))


def _hatch(ax: Axes, empty: NDArray[np.bool_]) -> None:
    """One patch over all these cells, pale with dark lines: visible on any colour, and in print."""
    edges = np.diff(np.pad(empty, ((0, 0), (1, 1))).astype(np.int8), axis=1)
    runs = zip(np.argwhere(edges == 1), np.argwhere(edges == -1), strict=True)  # along the second feature
    boxes = [Path([(a - 0.5, b - 0.5), (a + 0.5, b - 0.5), (a + 0.5, c - 0.5), (a - 0.5, c - 0.5), (0, 0)],
                  [Path.MOVETO, *[Path.LINETO] * 3, Path.CLOSEPOLY]) for (a, b), (_, c) in runs]  # fmt: skip
    style: dict[str, Any] = {"facecolor": (1, 1, 1, 0.45), "edgecolor": "0.25", "linewidth": 0, "hatch": "////"}
    ax.add_patch(PathPatch(Path.make_compound_path(*boxes), zorder=2, gid=EMPTY, rasterized=True, **style))
