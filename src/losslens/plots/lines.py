"""Curves over an ordered feature: single rows pale, their mean strong, two extremes by name."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from numpy.typing import NDArray

from losslens.plots.canvas import BLUE, GREEN, INK, PALE, QUIET, VERMILLION, caption, legend, make_room, plain_frame
from losslens.plots.scale import Scale, dress, scale
from losslens.plots.shown import MOST_VALUES, Shown, Singles
from losslens.plots.wording import number

Floats = NDArray[np.float64]
MARKED = 40  # grid values up to which each is marked, and has a bar of its own in the strip
STRIP = 0.07  # height of the strip at the bottom, as a share of the axes

# Largest and smallest: colour, dashes and shape differ, so that they can be told apart in print.
EXTREMES = (("largest", VERMILLION, "-", "^"), ("smallest", GREEN, (0, (2, 1)), "v"))


def draw_lines(shown: Shown, ax: Axes) -> None:
    """The whole picture."""
    places = scale(shown.values[0])
    draw_singles(ax, shown, places)
    draw_level(ax, shown)
    draw_mean(ax, shown, places)
    strip = draw_strip(ax, shown, places)
    dress(ax, places, shown.title)
    ax.set_ylabel(shown.axis, parse_math=False)
    plain_frame(ax)
    make_room(ax, below=strip, above=legend(ax))
    if shown.scattered:
        caption(ax, [f"points, not curves: each value was met by few rows ({shown.design})"])


def draw_singles(ax: Axes, shown: Shown, places: Scale) -> None:
    """Pale curves, thinned, and the two extremes."""
    singles = shown.singles
    if singles is None or len(singles.rows) == 0:
        return
    chosen = singles.thinned()
    title = singles.title(len(chosen))
    if shown.scattered:
        where, values, _ = singles.points(chosen)
        _pale_points(ax, places.at[where], values, title)
    else:
        _pale_curves(ax, places, singles.curves(chosen), title)
    for position, style in zip(singles.extremes(), EXTREMES, strict=False):
        _extreme(ax, shown, singles, places, position, style)


def _pale_curves(ax: Axes, places: Scale, curves: Floats, title: str) -> None:
    at, curves_present = places.at[places.present], curves[:, places.present]
    if len(at) > MOST_VALUES:
        some = np.linspace(0, len(at) - 1, MOST_VALUES).round().astype(np.intp)
        at, curves_present = at[some], curves_present[:, some]
    if len(at) > 1:
        lines = [np.column_stack((at, curve)) for curve in curves_present]
        ax.add_collection(
            LineCollection(lines, colors=PALE, linewidths=0.5, alpha=0.45, rasterized=True, label=title, zorder=1)
        )
    elif len(at) == 1:  # a constant feature has no line
        _pale_points(ax, np.repeat(at, len(curves)), curves_present.ravel(), title)
    if places.missing:
        _pale_points(ax, np.repeat(places.at[-1], len(curves)), curves[:, -1], None if len(at) else title)


def _pale_points(ax: Axes, at: Floats, values: Floats, title: str | None) -> None:
    ax.plot(at, values, ".", color=PALE, markersize=3, alpha=0.4, rasterized=True, label=title, zorder=1, mew=0)


def _extreme(
    ax: Axes, shown: Shown, singles: Singles, places: Scale, position: int, style: tuple[str, str, Any, str]
) -> None:
    place, colour, dashes, marker = style
    curve = singles.curves(np.array([position]))[0]
    met, label = np.isfinite(curve), singles.label(position, place)
    if shown.scattered:
        ax.plot(places.at[met], curve[met], marker, color=colour, markersize=4.5, label=label, zorder=3)
        return
    _trace(ax, places, curve, color=colour, linestyle=dashes, linewidth=1.3, marker=marker, label=label, zorder=3)


def draw_level(ax: Axes, shown: Shown) -> None:
    """The zero line, and the mean of the curve."""
    if shown.from_zero:
        ax.axhline(0, color=INK, linewidth=0.6, zorder=2)
    if shown.level is not None:
        ax.axhline(
            shown.level, color=INK, linewidth=1.2, linestyle=(0, (6, 3)), label=f"PFI, {number(shown.level)}", zorder=4
        )


def draw_mean(ax: Axes, shown: Shown, places: Scale) -> None:
    """The strong curve; points by their weight where each is an estimate by itself."""
    if not shown.scattered:
        _trace(ax, places, shown.curve, color=BLUE, linewidth=2.4, marker="o", label=shown.curve_name, zorder=5)
        return
    met = np.isfinite(shown.curve)
    area = np.ones(len(places.at)) if shown.weights is None else shown.weights / shown.weights.max()
    ax.scatter(
        places.at[met], shown.curve[met], s=4 + 60 * area[met] * _thinner(met.sum()), color=BLUE, alpha=0.8,
        linewidths=0, label=f"{shown.curve_name}, sized by weight", zorder=5,
    )  # fmt: skip


def _thinner(points: int) -> float:
    """Smaller points where there are many."""
    return float(min(1.0, 60 / max(points, 1)))


def _trace(ax: Axes, places: Scale, curve: Floats, *, marker: str, **style: Any) -> None:
    """One curve, marked where its values are few; the missing value is a point of its own."""
    at, values = places.at[places.present], curve[places.present]
    if len(at):
        ax.plot(at, values, marker=marker if len(at) <= MARKED else None, markersize=4, **style)
    if places.missing:
        style |= {"linestyle": "none", "label": None if len(at) else style.get("label")}
        ax.plot(places.at[-1:], curve[-1:], marker="D" if marker == "o" else marker, markersize=6, **style)


def draw_strip(ax: Axes, shown: Shown, places: Scale) -> float:
    """The feature's distribution along the bottom; returns the share of the height that it takes."""
    if shown.weights is None:
        return 0.0
    at, share = places.at[places.present], shown.weights[places.present]
    if len(at) > MARKED:
        at, share = _binned(at, share)
    if places.missing:
        at, share = np.append(at, places.at[-1]), np.append(share, shown.weights[-1])
    height = np.where(share > 0, np.maximum(share / share.max(), 0.06), 0.0) * STRIP
    ax.vlines(
        at, 0, height, color=QUIET, alpha=0.7, linewidth=2.4 if len(at) <= MARKED + 1 else 3.2,
        transform=ax.get_xaxis_transform(), label=f"distribution of {shown.title}" if len(shown.title) < 25 else
        "distribution of the feature", zorder=2, capstyle="butt",
    )  # fmt: skip
    return STRIP


def _binned(at: Floats, share: Floats) -> tuple[Floats, Floats]:
    finite = np.isfinite(at)
    share, edges = np.histogram(at[finite], bins=2 * MARKED, weights=share[finite])
    return (edges[1:] + edges[:-1]) / 2, share
