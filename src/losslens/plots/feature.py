"""Plots of one feature: curves, dots, a heat map or a histogram, depending on its grid."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from losslens.plots.canvas import (
    BLUE,
    DASHED,
    INK,
    SKY,
    as_one,
    caption,
    legend,
    make_room,
    new_axes,
    paler,
    panels,
    plain_frame,
    value_ticks,
)
from losslens.plots.dots import draw_dots
from losslens.plots.feature_data import FeaturePicture, Singles, show
from losslens.plots.heatmap import draw_heatmap
from losslens.plots.importance_axis import check_scale
from losslens.plots.letters import find_fonts
from losslens.plots.lines import EXTREMES, STRIP, draw_lines
from losslens.plots.look import Look
from losslens.plots.options import check, colour_map, one_colour
from losslens.plots.scale import scale
from losslens.plots.wording import count, is_flag, number, shorten, value_labels
from losslens.results.effects import FeatureEffect
from losslens.results.importance import FeatureImportance
from losslens.results.scores import FeatureScore
from losslens.typing import Floats

MOST_BINS = 40  # of a histogram
HELD = (0.02, 0.98)  # quantiles at which the axis of a histogram of local importances ends


def draw_group(shown: FeaturePicture, ax: Axes) -> None:
    """A histogram for a group of columns: of the local importances, or of the curve's values for effects and scores."""
    notes = [no_common_axis(shown.title, shown.look.names.all(shown.columns))]
    lines = [ax.axvline(0, color=INK, linewidth=0.6)] if shown.from_zero else []
    if shown.level is not None and shown.singles is not None:
        lines.append(ax.axvline(shown.level, label=f"PFI, {number(shown.level)}", **DASHED))
        notes += _local_importances(ax, shown.singles, shown.colour)
    else:
        finite = np.isfinite(shown.curve)
        weights = None if shown.weights is None else shown.weights[finite]
        _histogram(ax, shown.curve[finite], weights, shown.colour)
        ax.set_ylabel("joint values" if shown.weights is None else "share of the donors")
        notes.append(f"shown are the values of its {shown.curve_name}")
    notes += shown.warnings("faded")
    ax.set_xlabel(shown.axis, parse_math=False)
    plain_frame(ax)
    above = legend(ax)
    make_room(ax, below=0.0, above=above)
    ax.set_ylim(bottom=0)
    for line in lines:
        line.set_ydata((0, 1 - above))  # not through the legend
    value_ticks(ax.xaxis)
    caption(ax, notes)


def no_common_axis(name: str, columns: Sequence[str]) -> str:
    """Why a group of columns has a histogram."""
    return f"{name} is {count(len(columns), 'column')} ({shorten(', '.join(columns), 60)}) without a common axis"


def _local_importances(ax: Axes, singles: Singles, colour: str) -> list[str]:
    local = np.asarray(singles.result.means.local)
    local = local[np.isfinite(local)]
    ends, cut = clipped_histogram(ax, local, None, "row", colour)
    ax.set_ylabel("rows")
    for position, (place, colour, _, marker) in zip(singles.extremes(), EXTREMES, strict=False):
        numbers = np.clip(singles.integral[position], *ends)
        style: dict[str, Any] = {"color": colour, "clip_on": False, "markersize": 7, "zorder": 4}
        ax.plot(numbers, 0, marker, label=singles.label(position, place), **style)
    return [f"shown are the local importances of {count(len(local), 'row')}", *cut]


def clipped_histogram(
    ax: Axes, values: Floats, weights: Floats | None, thing: str, colour: str
) -> tuple[Floats, list[str]]:
    """A histogram whose outermost bars hold the values beyond two quantiles; these quantiles, and a note for them."""
    ends = np.quantile(values, HELD)
    clipped = np.clip(values, *ends)
    _histogram(ax, clipped, weights, colour)
    out = int(np.sum(clipped != values))
    return ends, [f"the outermost bars include {count(out, thing)} beyond the axis"] if out else []


def _histogram(ax: Axes, values: Floats, weights: Floats | None, colour: str) -> None:
    bins = int(np.clip(2 * np.sqrt(len(values)), 5, MOST_BINS))
    fill = SKY if colour == BLUE else paler(colour)
    ax.hist(values, bins=bins, weights=weights, color=fill, edgecolor=colour, linewidth=0.5)


def plot_importance(feature: FeatureImportance | FeatureScore, ax: Axes | None, look: Look) -> Axes:
    """Draw ICI curves and the PI curve."""
    shown = show(feature, look)
    if look.scale != "linear" and not shown.one_column:
        raise ValueError(f"scale={look.scale!r} is of an axis of importances, and {feature.name!r} has several columns")
    check_scale(look.scale, shown.curve)
    return _draw(shown, ax)


def plot_effect(effect: FeatureEffect, ax: Axes | None, look: Look, center: Any) -> Axes:
    """Draw ICE curves and the PD curve."""
    shown = show(effect, look)
    if center is not False and center is not None:
        if not shown.one_column:
            raise ValueError(f"center needs the axis of a single column, and {effect.name!r} has several")
        shown = shown.centred_at(effect.place_of(None if center is True else center))
    return _draw(shown, ax)


def plot_panels(
    results: Sequence[FeatureEffect | FeatureImportance], figure: Any, look: Look, *, peaks: bool = False
) -> list[Axes]:
    """Draw several features as small panels; those of curves share the axis of predictions or losses and a legend."""
    check({"top": look.top, "colors": look.colors, "labels": look.labels})
    shown = [show(one, replace(look, panel=True)) for one in results[: look.top]]
    one_colour(shown[0].colour, BLUE)
    axes = [_draw(one, ax) for one, ax in zip(shown, panels(len(shown), figure), strict=True)]
    curves = [(one, ax) for one, ax in zip(shown, axes, strict=True) if one.one_column and not _is_dots(one)]
    if curves:
        as_one([ax for _, ax in curves], STRIP, 0.12 if peaks else 0.02)
    for one, ax in curves if peaks else ():
        _name_peak(one, ax)
    for ax in axes:
        find_fonts(ax)
    return axes


def _name_peak(shown: FeaturePicture, ax: Axes) -> None:
    """The value at which a feature matters most, on rows like real ones, and the height of the curve there."""
    curve = np.where(shown.faded, np.nan, shown.curve)
    if not np.isfinite(curve).any() or np.nanmax(curve) <= 0:
        return
    k = int(np.nanargmax(curve))
    position = scale(shown.values[0], shown.weights).x[k]
    left = ax.transAxes.inverted().transform(ax.transData.transform((position, curve[k])))[0] < 0.5
    ax.annotate(
        f"most at {value_labels(shown.values[0])[k]}: +{number(float(curve[k]))}", (position, curve[k]), (0, 4),
        textcoords="offset points", ha="left" if left else "right", va="bottom", fontsize="x-small", color=INK,
        parse_math=False, zorder=6,
    )  # fmt: skip


def _is_dots(shown: FeaturePicture) -> bool:
    return shown.one_column and (not shown.ordered or is_flag(shown.values[0]))


def _draw(shown: FeaturePicture, ax: Axes | None) -> Axes:
    one_colour(shown.colour, BLUE)  # before there is a figure
    if _is_dots(shown):
        return draw_dots(shown, ax)
    if len(shown.values) == 2:
        colour_map(shown.look.colors, "cividis")
    ax = new_axes() if ax is None else ax
    if len(shown.values) == 2:
        draw_heatmap(shown, ax)
    elif shown.one_column:
        draw_lines(shown, ax)
    else:
        draw_group(shown, ax)
    return ax
