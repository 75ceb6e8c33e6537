"""Values without an order: a dot for the mean, lines for the range of the rows, the largest mean on top."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from losslens.plots import canvas, named_rows
from losslens.plots.canvas import DASHED, PALE
from losslens.plots.feature_data import FeaturePicture, Singles
from losslens.plots.importance_axis import EVERYTHING, beyond, extent
from losslens.plots.lines import EXTREMES
from losslens.plots.look import Look
from losslens.plots.marked_rows import Series, draw_series, rows_of_series
from losslens.plots.wording import count, number
from losslens.typing import Floats, Indices

RANGES = ((0.05, 0.95, 1.0), (0.25, 0.75, 4.0))  # two quantiles of the rows, and the width of the line between them
LEGEND = 4  # lines of text that the legend takes in a new figure


def draw_dots(shown: FeaturePicture, ax: Axes | None) -> Axes:
    """The plot of an unordered feature; values run down the y axis, where long names fit."""
    grid, letters = shown.values[0], 36 if ax is None else named_rows.letters_beside(ax)
    most = rows_of_series(ax, 1, LEGEND)
    ranked = named_rows.rank_values(grid, np.nan_to_num(shown.curve, nan=-np.inf), shown.weights, most)
    names = named_rows.value_names(grid, np.arange(len(grid)), shown.weights, letters - 6)
    band, none = shown.band, np.full(len(grid), np.nan)
    numbers = np.array([shown.curve, *((none, none) if band is None else (band.low, band.high))])
    series = Series(shown.curve_name, [shown.colour] * len(grid), numbers, shown.faded)
    notes = [] if band is None else [f"lines: {band.level:.0%} band of {shown.curve_name}"]

    def rows_beneath(ax: Axes, order: Indices) -> list[Line2D]:
        if shown.rows is not None:
            ends, points = _ranges(ax, shown.rows, order), _extremes(ax, shown.rows, order)
            each = " and ".join(f"{high - low:.0%}" for low, high, _ in reversed(RANGES))
            notes.append(f"grey: {shown.rows.name}, {each} of {count(len(shown.rows.rows), 'row')}")
            notes.extend(_cut(ax, shown, ends, points))
        level = shown.level
        return [] if level is None else [ax.axvline(level, label=f"PFI, {number(level)}", zorder=2, **DASHED)]

    zero, look = shown.from_zero or bool(shown.centred), Look(scale=shown.look.scale)
    ax, order = draw_series(
        ax, look, names, ranked, [series], shown.axis, legend=LEGEND, zero=zero, beneath=rows_beneath
    )
    ax.set_ylabel(shown.title, parse_math=False)
    canvas.caption(ax, [*notes, *_notes(shown, len(order))])
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


def _notes(shown: FeaturePicture, drawn: int) -> list[str]:
    notes = []
    if shown.weights is not None:
        notes.append("in brackets: how often a value occurs")
    if drawn < len(shown.curve):
        notes.append(f"the {drawn} most frequent of {len(shown.curve):,} values")
    if shown.scattered:
        notes.append(f"estimates, sampled with {shown.design}")
    return [*notes, *shown.warnings("hollow dots")]
