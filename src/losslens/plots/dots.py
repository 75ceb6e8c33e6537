"""Values without an order: a dot for the mean, lines for the range of the rows, the most important on top."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from losslens.plots import canvas
from losslens.plots.bars import dress_rows, legend_above
from losslens.plots.canvas import BAND, BLUE, INK, MOST_ROWS, PALE
from losslens.plots.feature_data import FeaturePicture, Singles
from losslens.plots.lines import EXTREMES, known_band
from losslens.plots.scale import beyond, extent, is_flag
from losslens.plots.wording import count, is_absent, labels, number, percent, value_label
from losslens.typing import Floats, Indices

RANGES = ((0.05, 0.95, 1.0), (0.25, 0.75, 4.0))  # quantiles of the rows, and the width of their line
LEGEND = 6  # lines that the legend takes in a figure of our own


def draw_dots(shown: FeaturePicture, ax: Axes | None) -> Axes:
    """The whole picture; values run down the y axis, where long names have room."""
    own = ax is None
    ax = canvas.new_axes(min(len(shown.curve), MOST_ROWS) + LEGEND) if ax is None else ax
    most = MOST_ROWS if own else max(1, canvas.rows_that_fit(ax) - LEGEND)
    order = value_order(shown.values[0], shown.weights, np.nan_to_num(shown.curve, nan=-np.inf), most)
    weights = None if shown.weights is None else shown.weights[order]
    names = value_names(shown.values[0][order], weights, canvas.letters_beside(ax))
    notes = _notes(shown, len(order))
    _means(ax, shown, order)
    _band(ax, shown, order)
    lines = _levels(ax, shown)
    if shown.singles is not None and len(shown.singles.rows):
        ends = _ranges(ax, shown.singles, order)
        points = _extremes(ax, shown.singles, order)
        notes += _cut(ax, shown, ends, points)
    ax.set_ylabel(shown.title, parse_math=False)
    legend_above(ax, len(order), dress_rows(ax, names, own, shown.axis), lines)
    canvas.caption(ax, notes)
    return ax


def value_order(values: NDArray[Any], weights: Floats | None, height: Floats, most: int) -> Indices:
    """Grid positions from top to bottom, the highest first and a missing value last; the most frequent if too many."""
    chosen = np.arange(len(height))
    if len(chosen) > most:
        chosen = np.sort(np.argsort(-(np.abs(height) if weights is None else weights), kind="stable")[:most])
    if not is_flag(values):
        chosen = chosen[np.argsort(-height[chosen], kind="stable")]
    last = np.array([is_absent(values[k]) for k in chosen], bool)
    return np.concatenate([chosen[~last], chosen[last]])


def value_names(values: NDArray[Any], weights: Floats | None, letters: int) -> list[str]:
    """Values down the side, each with how often it occurs."""
    names = labels(list(map(value_label, values)), letters)
    if weights is None:
        return names
    return [f"{name} ({percent(weight)})" for name, weight in zip(names, weights, strict=True)]


def _ranges(ax: Axes, singles: Singles, order: Indices) -> Floats:
    """A thin and a thick line for each value; returns the ends of all of them."""
    cells, found = singles.by_value(order), []
    for low, high, width in RANGES:
        ends = [(row, *_quantiles(*some, (low, high))) for row, some in enumerate(cells) if len(some[0])]
        rows, start, end = np.array(ends).reshape(-1, 3).T
        name = f"{singles.name}, {high - low:.0%} of {count(len(singles.rows), 'row')}"
        ax.hlines(rows, start, end, color=PALE, linewidth=width, label=name, zorder=1)
        found += [start, end]
    return np.concatenate(found)


def _quantiles(values: Floats, weight: Floats, shares: tuple[float, float]) -> Floats:
    """The smallest values that so much of the weight doesn't exceed."""
    order = np.argsort(values)
    cumulated = np.cumsum(weight[order])
    place = np.searchsorted(cumulated, np.array(shares) * cumulated[-1] * (1 - 1e-12))
    return np.asarray(values[order][np.minimum(place, len(values) - 1)])


def _extremes(ax: Axes, singles: Singles, order: Indices) -> Floats:
    """A mark at each value for the two extreme rows; returns where."""
    found = [np.empty(0)]
    for position, (place, colour, _, marker) in zip(singles.extremes(), EXTREMES, strict=False):
        curve = singles.curves(np.array([position]))[0][order]
        met = np.flatnonzero(np.isfinite(curve))
        label = singles.label(position, place)
        ax.plot(curve[met], met, marker, color=colour, markersize=5, label=label, zorder=3)
        found.append(curve[met])
    return np.concatenate(found)


def _cut(ax: Axes, shown: FeaturePicture, ends: Floats, points: Floats) -> list[str]:
    """An axis that holds all ranges, but not rows that lie far out; says so."""
    low, high = extent(shown, ends)
    limits = (min(low, ends.min()), max(high, ends.max()))
    low, high = np.clip(ax.dataLim.intervalx, *limits)
    pad = 0.04 * (high - low or 1.0)
    ax.set_xlim(low - pad, high + pad)
    out = beyond(limits, points)
    return [f"{count(out, 'triangle')} beyond the axis"] if out else []


def _means(ax: Axes, shown: FeaturePicture, order: Indices) -> None:
    curve, size, name = shown.curve[order], np.full(len(order), 42.0), shown.curve_name
    if shown.scattered and shown.weights is not None:
        size, name = 12 + 60 * shown.weights[order] / shown.weights.max(), f"{name}, sized by weight"
    met, faded = np.isfinite(curve), shown.faded[order]
    solid = met & ~faded
    if solid.any() or not faded.any():
        ax.scatter(curve[solid], np.flatnonzero(solid), s=size[solid], color=BLUE, label=name, zorder=4)
    if (met & faded).any():
        look: dict[str, Any] = {"facecolors": "white", "edgecolors": BLUE, "linewidths": 1.3, "zorder": 4.5}
        some = met & faded
        ax.scatter(curve[some], np.flatnonzero(some), s=size[some], label=None if solid.any() else name, **look)


def _band(ax: Axes, shown: FeaturePicture, order: Indices) -> None:
    """Through each dot, where its mean lies on new data, all values at once."""
    band = known_band(shown)
    if band is not None:
        label = f"{band.level:.0%} band of {shown.curve_name}"
        style: dict[str, Any] = {"color": BLUE, "linewidth": 1.6, "zorder": 4, "gid": BAND}
        ax.hlines(np.arange(len(order)), band.low[order], band.high[order], label=label, **style)


def _levels(ax: Axes, shown: FeaturePicture) -> list[Line2D]:
    lines = []
    if shown.level is not None:
        name = f"PFI, {number(shown.level)}"
        lines.append(ax.axvline(shown.level, color=INK, linewidth=1.2, linestyle=(0, (6, 3)), label=name, zorder=2))
    if shown.from_zero:
        lines.append(ax.axvline(0, color=INK, linewidth=0.6, zorder=0))
    return lines


def _notes(shown: FeaturePicture, drawn: int) -> list[str]:
    notes = []
    if shown.weights is not None:
        notes.append("in brackets: how often a value occurs")
    if drawn < len(shown.curve):
        notes.append(f"the {drawn} most frequent of {len(shown.curve):,} values")
    if shown.scattered:
        notes.append(f"estimates, sampled with {shown.design}")
    return [*notes, *shown.warning("hollow dots")]
