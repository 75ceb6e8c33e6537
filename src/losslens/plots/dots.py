"""Values without an order: a dot for the mean, lines for the range of the rows, the largest mean on top."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes

from losslens.plots import canvas, named_rows
from losslens.plots.canvas import BAND, DASHED, INK, PALE
from losslens.plots.feature_data import FeaturePicture, Singles
from losslens.plots.importance_axis import EVERYTHING, bend, beyond, extent
from losslens.plots.lines import EXTREMES
from losslens.plots.wording import count, number
from losslens.typing import Floats, Indices

RANGES = ((0.05, 0.95, 1.0), (0.25, 0.75, 4.0))  # two quantiles of the rows, and the width of the line between them
LEGEND = 4  # lines of text that the legend takes in a new figure


def draw_dots(shown: FeaturePicture, ax: Axes | None) -> Axes:
    """The plot of an unordered feature; values run down the y axis, where long names fit."""
    own = ax is None
    ax = canvas.new_axes(min(len(shown.curve), named_rows.MOST_ROWS) + LEGEND) if ax is None else ax
    most = named_rows.MOST_ROWS if own else max(1, named_rows.rows_that_fit(ax) - LEGEND)
    order = named_rows.rank_values(shown.values[0], np.nan_to_num(shown.curve, nan=-np.inf), shown.weights, most)
    notes = _notes(shown, len(order))
    bend(ax.xaxis, shown.look.scale, shown.curve)
    _means(ax, shown, order)
    if shown.band is not None:  # a line through each dot
        style: dict[str, Any] = {"color": shown.colour, "linewidth": 1.6, "zorder": 4, "gid": BAND}
        ax.hlines(np.arange(len(order)), shown.band.low[order], shown.band.high[order], **style)
        notes.insert(0, f"lines: {shown.band.level:.0%} band of {shown.curve_name}")
    lines = []
    if shown.level is not None:
        lines.append(ax.axvline(shown.level, label=f"PFI, {number(shown.level)}", zorder=2, **DASHED))
    if (shown.from_zero or shown.centred) and shown.look.scale != "log":
        lines.append(ax.axvline(0, color=INK, linewidth=0.6, zorder=0))
    if shown.rows is not None:
        ends, points = _ranges(ax, shown.rows, order), _extremes(ax, shown.rows, order)
        each = " and ".join(f"{high - low:.0%}" for low, high, _ in reversed(RANGES))
        ranges = f"grey: {shown.rows.name}, {each} of {count(len(shown.rows.rows), 'row')}"
        notes = [ranges, *_cut(ax, shown, ends, points), *notes]
    names = named_rows.value_names(shown.values[0], order, shown.weights, named_rows.letters_beside(ax))
    ax.set_ylabel(shown.title, parse_math=False)
    named_rows.legend_above(ax, named_rows.dress_rows(ax, names, own, shown.axis), lines)
    canvas.caption(ax, notes)
    return ax


def _ranges(ax: Axes, singles: Singles, order: Indices) -> Floats:
    """A thin and a thick line for each value; returns both ends of all of them, (lines, 2)."""
    cells, all_ends = singles.by_value(order), []
    for low, high, width in RANGES:
        ends = [(row, *_quantiles(*some, (low, high))) for row, some in enumerate(cells) if len(some[0])]
        rows, start, end = np.array(ends).reshape(-1, 3).T
        ax.hlines(rows, start, end, color=PALE, linewidth=width, zorder=1)
        all_ends.append(np.column_stack([start, end]))
    return np.concatenate(all_ends)


def _quantiles(values: Floats, weight: Floats, shares: tuple[float, float]) -> Floats:
    """Weighted quantiles."""
    order = np.argsort(values)
    cumulated = np.cumsum(weight[order])
    place = np.searchsorted(cumulated, np.array(shares) * cumulated[-1] * (1 - 1e-12))
    return np.asarray(values[order][np.minimum(place, len(values) - 1)])


def _extremes(ax: Axes, singles: Singles, order: Indices) -> Floats:
    """A marker at each value for the two extreme rows; returns where they are."""
    points = [np.empty(0)]
    for position, (place, colour, _, marker) in zip(singles.extremes(), EXTREMES, strict=False):
        curve = singles.curves(np.array([position]))[0][order]
        places = np.flatnonzero(np.isfinite(curve))
        label = singles.label(position, place)
        ax.plot(curve[places], places, marker, color=colour, markersize=5, label=label, zorder=3)
        points.append(curve[places])
    return np.concatenate(points)


def _cut(ax: Axes, shown: FeaturePicture, ends: Floats, points: Floats) -> list[str]:
    """An axis that follows the means; returns notes if ranges or extreme rows leave it."""
    limits = shown.limits(ends.ravel())
    if (
        shown.from_zero and shown.look.limits == "pi" and limits == EVERYTHING
    ):  # ranges are near: extreme rows may be far
        limits = extent(np.append(shown.curve, ends), points)
    low, high = np.clip(ax.dataLim.intervalx, *limits)
    if ax.get_xscale() == "log":
        low = max(low, float(np.nanmin(shown.curve)) / 10)
    canvas.set_ends(ax.xaxis, low, high, 0.04, 0.04)
    lines, triangles = beyond(limits, ends), beyond(limits, points)
    notes = [f"the axis follows {shown.curve_name}: {lines:,} of {len(ends):,} ranges run beyond it"] if lines else []
    if shown.band is not None and beyond(limits, np.array([shown.band.low, shown.band.high])):
        notes.append("the band runs beyond the axis")
    return notes + ([f"{count(triangles, 'triangle')} beyond the axis"] if triangles else [])


def _means(ax: Axes, shown: FeaturePicture, order: Indices) -> None:
    curve, size, name = shown.curve[order], np.full(len(order), 42.0), shown.curve_name
    if shown.scattered and shown.weights is not None:
        size, name = 12 + 60 * shown.weights[order] / shown.weights.max(), f"{name}, sized by weight"
    finite, faded = np.isfinite(curve), shown.faded[order]
    solid, hollow = finite & ~faded, finite & faded
    if solid.any() or not faded.any():
        ax.scatter(curve[solid], np.flatnonzero(solid), s=size[solid], color=shown.colour, label=name, zorder=4)
    if hollow.any():
        edge = shown.colour
        look: dict[str, Any] = {"facecolors": "white", "edgecolors": edge, "linewidths": 1.3, "zorder": 4.5}
        ax.scatter(curve[hollow], np.flatnonzero(hollow), s=size[hollow], label=None if solid.any() else name, **look)


def _notes(shown: FeaturePicture, drawn: int) -> list[str]:
    notes = []
    if shown.weights is not None:
        notes.append("in brackets: how often a value occurs")
    if drawn < len(shown.curve):
        notes.append(f"the {drawn} most frequent of {len(shown.curve):,} values")
    if shown.scattered:
        notes.append(f"estimates, sampled with {shown.design}")
    return [*notes, *shown.warnings("hollow dots")]
