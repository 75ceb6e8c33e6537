"""Values without an order: a dot for the mean, lines for the range of the rows, the most important on top."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from losslens.plots import canvas
from losslens.plots.canvas import BLUE, INK, MOST_ROWS, PALE
from losslens.plots.lines import EXTREMES
from losslens.plots.scale import is_flag
from losslens.plots.shown import Shown, Singles
from losslens.plots.wording import count, labels, number, value_label

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]
RANGES = ((0.05, 0.95, 1.0), (0.25, 0.75, 4.0))  # quantiles of the rows, and the width of their line
LEGEND = 6  # lines that the legend takes in a figure of our own


def draw_dots(shown: Shown, ax: Axes | None) -> Axes:
    """The whole picture; values run down the y axis, where long names have room."""
    if ax is None:
        ax = canvas.new_axes(min(len(shown.curve), MOST_ROWS) + LEGEND)
        most = MOST_ROWS
    else:
        most = max(1, canvas.rows_that_fit(ax) - LEGEND)
    order = _order(shown, most)
    if shown.singles is not None and len(shown.singles.rows):
        _ranges(ax, shown.singles, order)
        _extremes(ax, shown.singles, order)
    _means(ax, shown, order)
    _levels(ax, shown)
    canvas.name_rows(ax, _names(shown, order))
    ax.set_xlabel(shown.axis, parse_math=False)
    ax.set_ylabel(shown.title, parse_math=False)
    ax.margins(x=0.05)
    canvas.plain_frame(ax)
    canvas.room_for_legend(ax, len(order))
    canvas.caption(ax, _notes(shown, len(order)))
    return ax


def _order(shown: Shown, most: int) -> Indices:
    """Grid positions from top to bottom: by the mean, the missing value last; the most frequent if not all fit."""
    values, curve = shown.values[0], np.nan_to_num(shown.curve, nan=-np.inf)
    chosen = np.arange(len(curve))
    if len(chosen) > most:
        weight = np.abs(curve) if shown.weights is None else shown.weights
        chosen = np.sort(np.argsort(-weight, kind="stable")[:most])
    if not is_flag(values):
        chosen = chosen[np.argsort(-curve[chosen], kind="stable")]
    last = np.array([value_label(values[k]) == "missing" for k in chosen], bool)
    return np.concatenate([chosen[~last], chosen[last]])


def _ranges(ax: Axes, singles: Singles, order: Indices) -> None:
    cells = singles.by_value(order)
    for low, high, width in RANGES:
        ends = [(row, *_quantiles(*some, (low, high))) for row, some in enumerate(cells) if len(some[0])]
        rows, start, end = np.array(ends).reshape(-1, 3).T
        name = f"{singles.name}, {high - low:.0%} of {count(len(singles.rows), 'row')}"
        ax.hlines(rows, start, end, color=PALE, linewidth=width, label=name, zorder=1)


def _quantiles(values: Floats, weight: Floats, shares: tuple[float, float]) -> Floats:
    """The smallest values that so much of the weight doesn't exceed."""
    order = np.argsort(values)
    cumulated = np.cumsum(weight[order])
    place = np.searchsorted(cumulated, np.array(shares) * cumulated[-1] * (1 - 1e-12))
    return np.asarray(values[order][np.minimum(place, len(values) - 1)])


def _extremes(ax: Axes, singles: Singles, order: Indices) -> None:
    for position, (place, colour, _, marker) in zip(singles.extremes(), EXTREMES, strict=False):
        curve = singles.curves(np.array([position]))[0][order]
        met = np.flatnonzero(np.isfinite(curve))
        label = singles.label(position, place)
        ax.plot(curve[met], met, marker, color=colour, markersize=5, label=label, zorder=3)


def _means(ax: Axes, shown: Shown, order: Indices) -> None:
    curve, size, name = shown.curve[order], np.full(len(order), 42.0), shown.curve_name
    if shown.scattered and shown.weights is not None:
        size, name = 12 + 60 * shown.weights[order] / shown.weights.max(), f"{name}, sized by weight"
    met = np.isfinite(curve)
    ax.scatter(curve[met], np.flatnonzero(met), s=size[met], color=BLUE, label=name, zorder=4)


def _levels(ax: Axes, shown: Shown) -> None:
    if shown.from_zero:
        ax.axvline(0, color=INK, linewidth=0.6, zorder=0)
    if shown.level is not None:
        name = f"PFI, {number(shown.level)}"
        ax.axvline(shown.level, color=INK, linewidth=1.2, linestyle=(0, (6, 3)), label=name, zorder=2)


def _names(shown: Shown, order: Indices) -> list[str]:
    names = labels([value_label(shown.values[0][k]) for k in order])
    if shown.weights is None:
        return names
    return [f"{name} ({_percent(shown.weights[k])})" for name, k in zip(names, order, strict=True)]


def _percent(share: float) -> str:
    return "<1%" if 0 < share < 0.01 else f"{share:.0%}"


def _notes(shown: Shown, drawn: int) -> list[str]:
    notes = []
    if shown.weights is not None:
        notes.append("in brackets: how often a value occurs")
    if drawn < len(shown.curve):
        notes.append(f"the {drawn} most frequent of {len(shown.curve):,} values")
    if shown.scattered:
        notes.append(f"estimates, sampled with {shown.design}")
    return notes
