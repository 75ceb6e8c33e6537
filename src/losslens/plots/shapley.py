"""Shapley importance of a feature along its values."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes

from losslens.plots import canvas
from losslens.plots.canvas import BLUE, DASHED, INK, PALE, SINGLE, SKY
from losslens.plots.feature import clipped_histogram, no_common_axis
from losslens.plots.importance_axis import EVERYTHING, bend, beyond, check_scale, extent
from losslens.plots.lines import draw_strip, dress_curves
from losslens.plots.look import Look, Names
from losslens.plots.marked_rows import Row, draw_rows
from losslens.plots.named_rows import label_across, letters_beside, open_rows, rank_values, value_names
from losslens.plots.options import name_features, one_colour
from losslens.plots.scale import Scale
from losslens.plots.scale import scale as scale_of
from losslens.plots.wording import count, is_flag, number, shorten
from losslens.results.shapley_curve import ShapleyCurve
from losslens.typing import AxisScale, Floats

FEW = 25  # values up to which the curve passes through each; of more, a running mean shows the shape
WINDOW = 0.15  # of the running mean, as a share of the rows
POINTS = 200  # of the running mean
HOLDERS = {"own": "rows that hold the value", "donor": "donors that hold the value"}


def plot_shapley_curve(curve: ShapleyCurve, ax: Axes | None, look: Look) -> Axes:
    """Draw the curve, with the number of rows at each value below it."""
    names = name_features(look.labels, [curve.name], curve.columns)
    check_scale(look.scale, curve.importance)
    if curve.grid.ndim == 1 and (not curve.ordered or is_flag(curve.grid)):
        return _draw_words(ax, curve, names, look.scale, one_colour(look.colors, SKY))
    colour = one_colour(look.colors, BLUE)
    if curve.grid.ndim > 1 and look.scale != "linear":
        raise ValueError(f"scale={look.scale!r} is of an axis of importances, and {curve.name!r} has several columns")
    ax = canvas.new_axes() if ax is None else ax
    if curve.grid.ndim > 1:
        _draw_group(ax, curve, names, colour)
    else:
        _draw_ordered(ax, curve, names, colour, look.scale, show_all=look.limits == "all")
    return ax


def _draw_ordered(ax: Axes, curve: ShapleyCurve, names: Names, colour: str, bent: AxisScale, *, show_all: bool) -> None:
    places = scale_of(curve.grid, curve.weights)
    bend(ax.yaxis, bent, curve.importance)
    finite = np.isfinite(places.x)
    finite[places.present.stop :] = False
    many = int(finite.sum()) > FEW
    trace = (places.x[finite], curve.importance[finite])
    if many:
        trace = running_mean(*trace, curve.weights[finite])
    _draw_points(ax, curve, places, PALE if many else colour, pale=many)
    name = f"running mean, {WINDOW:.0%} of the {'rows' if curve.by == 'own' else 'donors'}" if many else None
    ax.plot(*trace, color=colour, linewidth=2.4 if many else 1.4, label=name, zorder=4)
    ax.axhline(curve.sfimp, label=f"SFIMP, {number(curve.sfimp)}", zorder=3, **DASHED)
    strip = draw_strip(ax, places, curve.weights, "distribution", FEW)
    strong = [*trace[1], *curve.importance[places.present.stop :], curve.sfimp]  # everything that is not pale
    limits = extent(np.array(strong), curve.importance) if many and not show_all else EVERYTHING
    title = shorten(names.title(curve.name), 60)
    named = dress_curves(ax, places, title, f"decrease in {curve.title}", limits, strip=strip)
    notes = [*named, "points are sized by weight"] if np.ptp(curve.weights) > 1e-9 else named
    out = beyond(limits, curve.importance)
    cut = f"the axis follows the running mean: {out:,} of {count(len(places.x), 'point')} lie beyond it"
    canvas.caption(ax, [*notes, cut] if out else notes)


def _draw_points(ax: Axes, curve: ShapleyCurve, places: Scale, colour: str, *, pale: bool) -> None:
    """A point for each value, sized by weight; the missing value is a diamond."""
    here, share = places.present, curve.weights / curve.weights.max()
    area = 6 + 60 * share * min(1.0, 2 * FEW / len(share)) if pale else 14 + 60 * share
    style: dict[str, Any] = {"color": colour, "alpha": 0.5, "zorder": 1} if pale else {"color": colour, "zorder": 5}
    name: str | None = HOLDERS[curve.by]
    if places.x[here].size:
        ax.scatter(
            places.x[here], curve.importance[here], s=area[here], linewidths=0, label=name, gid=SINGLE,
            rasterized=pale, **style,
        )  # fmt: skip
        name = None
    if places.missing:
        ax.plot(
            places.x[places.absent],
            curve.importance[places.absent],
            "D",
            color=BLUE if pale else colour,
            markersize=6,
            label=name,
            zorder=5,
        )


def running_mean(positions: Floats, values: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Means of places and of values over `WINDOW` of the weight: a straight line remains one, up to its ends.

    A mean over half of the window is taken twice, which is smoother than a single one over all of it.

    >>> x, y = running_mean(np.arange(100.0), 2 * np.arange(100.0), np.ones(100))
    >>> bool(np.allclose(y, 2 * x))
    True
    """
    for _ in range(2):
        edges = np.concatenate([[0.0], np.cumsum(weights) / weights.sum()])
        centre = np.linspace(0, 1, POINTS)
        low, high = np.maximum(centre - WINDOW / 4, 0), np.minimum(centre + WINDOW / 4, 1)
        positions, values = (_means_between(edges, some, low, high) for some in (positions, values))
        weights = np.ones(POINTS)
    return positions, values


def _means_between(edges: Floats, values: Floats, low: Floats, high: Floats) -> Floats:
    """Means of a step function: `values[k]` between `edges[k]` and `edges[k + 1]`."""
    summed = np.concatenate([[0.0], np.cumsum(values * np.diff(edges))])
    return np.asarray((np.interp(high, edges, summed) - np.interp(low, edges, summed)) / (high - low))


def _draw_words(ax: Axes | None, curve: ShapleyCurve, names: Names, bent: AxisScale, colour: str) -> Axes:
    own, all_values = ax is None, len(curve.importance)
    ax, most = open_rows(ax, all_values, below=2)
    order = rank_values(curve.grid, curve.importance, curve.weights, most)
    values = value_names(curve.grid, order, curve.weights, letters_beside(ax) - 6)
    bars = [Row(name, float(curve.importance[k])) for name, k in zip(values, order, strict=True)]
    width = draw_rows(ax, bars, own, Look(scale=bent, colors=colour))
    ax.axvline(curve.sfimp, **DASHED)
    for text in ax.texts:  # numbers remain legible where the dashed line crosses them
        text.set_bbox({"facecolor": ax.get_facecolor(), "edgecolor": "none", "pad": 0.5})
    label_across(ax, f"decrease in {curve.title}", width)
    ax.set_ylabel(shorten(names.title(curve.name), 30), parse_math=False)
    notes = [f"in brackets: share of the {HOLDERS[curve.by]}", f"dashed: their mean, the SFIMP, {number(curve.sfimp)}"]
    if most < all_values:
        notes.append(f"the {most} most frequent of {all_values:,} values")
    canvas.caption(ax, notes)
    return ax


def _draw_group(ax: Axes, curve: ShapleyCurve, names: Names, colour: str) -> None:
    _, cut = clipped_histogram(ax, curve.importance, curve.weights, "value", colour)
    ax.axvline(0, color=INK, linewidth=0.6)
    ax.axvline(curve.sfimp, **DASHED)
    label_across(ax, f"decrease in {curve.title}", canvas.size_in_points(ax)[0])
    ax.set_ylabel(f"share of the {'rows' if curve.by == 'own' else 'donors'}")
    canvas.plain_frame(ax)
    canvas.value_ticks(ax.xaxis)
    columns = no_common_axis(shorten(names.of(curve.name), 60), names.all(curve.columns))
    notes = [columns, f"importance by {HOLDERS[curve.by]}"]
    canvas.caption(ax, [*notes, f"dashed: their mean, the SFIMP, {number(curve.sfimp)}", *cut])
