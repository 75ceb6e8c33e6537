"""Plots of one feature: curves, dots, a heat map or a histogram, depending on its grid."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from losslens.plots.canvas import (
    BLUE,
    DASHED,
    INK,
    SKY,
    caption,
    legend,
    make_room,
    new_axes,
    paler,
    plain_frame,
    takes_axes,
    value_ticks,
)
from losslens.plots.dots import draw_dots
from losslens.plots.feature_data import CurveLook, FeaturePicture, Singles, show
from losslens.plots.heatmap import draw_heatmap
from losslens.plots.importance_axis import check_scale
from losslens.plots.lines import EXTREMES, draw_lines
from losslens.plots.options import colour_map, name_features, one_colour
from losslens.plots.wording import count, is_flag, number, shorten
from losslens.results.effects import FeatureEffect
from losslens.results.importance import FeatureImportance
from losslens.results.scores import FeatureScore
from losslens.typing import AxisScale, Colors, FeatureLabels, Floats, Limits

MOST_BINS = 40  # of a histogram
HELD = (0.02, 0.98)  # quantiles at which the axis of a histogram of local importances ends


def draw_group(shown: FeaturePicture, ax: Axes) -> None:
    """A histogram for a group of columns: of the local importances, or of the curve's values for effects and scores."""
    notes = [no_common_axis(shown.title, shown.look.names.all(shown.columns))]
    lines = [ax.axvline(0, color=INK, linewidth=0.6)] if shown.from_zero else []
    if shown.level is not None and shown.singles is not None:
        lines.append(ax.axvline(shown.level, label=f"PFI, {number(shown.level)}", **DASHED))
        notes += _local_importances(ax, shown.singles, shown.look.colour)
    else:
        finite = np.isfinite(shown.curve)
        weights = None if shown.weights is None else shown.weights[finite]
        _histogram(ax, shown.curve[finite], weights, shown.look.colour)
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
        at = np.clip(singles.integral[position], *ends)
        style: dict[str, Any] = {"color": colour, "clip_on": False, "markersize": 7, "zorder": 4}
        ax.plot(at, 0, marker, label=singles.label(position, place), **style)
    return [f"shown are the local importances of {count(len(local), 'row')}", *cut]


def clipped_histogram(
    ax: Axes, values: Floats, weights: Floats | None, thing: str, colour: str
) -> tuple[Floats, list[str]]:
    """A histogram whose outermost bars hold the values beyond two quantiles; these quantiles, and a note for them."""
    ends = np.quantile(values, HELD)
    clipped = np.clip(values, *ends)
    _histogram(ax, clipped, weights, colour)
    out = int(np.sum(clipped != values))
    return ends, [f"the outermost bars hold {count(out, thing)} from beyond the axis"] if out else []


def _histogram(ax: Axes, values: Floats, weights: Floats | None, colour: str) -> None:
    bins = int(np.clip(2 * np.sqrt(len(values)), 5, MOST_BINS))
    fill = SKY if colour == BLUE else paler(colour)
    ax.hist(values, bins=bins, weights=weights, color=fill, edgecolor=colour, linewidth=0.5)


@takes_axes
def plot_importance(
    feature: FeatureImportance | FeatureScore, *, curves: bool = True, scale: AxisScale = "linear",
    limits: Limits = "pi", colors: Colors | None = None, labels: FeatureLabels | None = None, ax: Axes | None = None,
) -> Axes:  # fmt: skip
    """Draw where in a feature's range its importance comes from: the PI curve over the ICI curves of single rows.

    An ordered feature gives curves, or points if the design pairs each value with few rows only. Unordered values give
    dots and ranges. A pair gives a heat map with the observed rows as points, hatched where there are none. A group of
    columns gives a histogram of its local importances. At most 200 curves are drawn, evenly along the order of the
    rows' local importances; the rows at both ends are named. Curves can't be centred, as those of `plot_effect` can:
    each ICI curve is 0 at the row's own value.

    Parameters
    ----------
    feature
        One feature of what `losslens.feature_importance` gives.
    curves
        Whether single rows are drawn: their ICI curves, points or ranges.
    scale
        Axis of the importance: ``"linear"``, ``"log"``, or ``"symlog"``, which also shows values up to 0.
    limits
        ``"pi"``: the axis follows the PI curve and its band, and the caption says how many rows leave it; ``"all"``:
        it holds all rows that are drawn.
    colors
        Colour of the PI curve and its band; of a pair, a colour map or its name.
    labels
        Name to show instead of the feature's, or name and unit: a mapping, which may also name other features.
    ax
        Where to draw; a new figure by default.

    Examples
    --------
    >>> import numpy as np, losslens as ll
    >>> X = np.random.default_rng(0).normal(size=(50, 2))
    >>> imp = ll.feature_importance(lambda X: X[:, 1], X, 2 * X[:, 1], loss="squared_error")
    >>> plot_importance(imp["x1"]).get_ylabel()
    'increase in squared error'
    >>> plot_importance(imp["x1"], curves=False, labels={"x1": ("speed", "m/s")}).get_xlabel()
    'speed (m/s)'
    """
    names = name_features(labels, [feature.name], feature.columns)
    pair = len(feature.values) == 2
    look = CurveLook(BLUE if pair else one_colour(colors, BLUE), scale, curves, limits == "all", names)
    shown = show(feature, look)
    if scale != "linear" and not shown.one_column:
        raise ValueError(f"scale={scale!r} is of an axis of importances, and {feature.name!r} has several columns")
    check_scale(scale, shown.curve)
    return _draw(shown, ax, colors)


@takes_axes
def plot_effect(
    effect: FeatureEffect, *, curves: bool = True, center: Any = False, colors: Colors | None = None,
    labels: FeatureLabels | None = None, ax: Axes | None = None,
) -> Axes:  # fmt: skip
    """Draw how predictions change with a feature: the PD curve over the ICE curves of single rows.

    Parameters
    ----------
    effect
        One feature of what `losslens.feature_effect` gives, or ``.effect`` of an importance.
    curves
        Whether single rows are drawn: their ICE curves, points or ranges.
    center
        True: all curves are 0 at the first grid value; a value: at the grid value nearest to it.
    colors
        Colour of the PD curve and its band; of a pair, a colour map or its name.
    labels
        Name to show instead of the feature's, or name and unit: a mapping, which may also name other features.
    ax
        Where to draw; a new figure by default.

    Examples
    --------
    >>> import numpy as np, losslens as ll
    >>> effects = ll.feature_effect(lambda X: X[:, 0], np.eye(5))
    >>> plot_effect(effects["x0"]).get_xlabel()
    'x0'
    >>> plot_effect(effects["x0"], center=1).get_ylabel()
    'prediction, less that at x0 = 1'
    """
    names = name_features(labels, [effect.name], effect.columns)
    pair = len(effect.values) == 2
    shown = show(effect, CurveLook(BLUE if pair else one_colour(colors, BLUE), curves=curves, names=names))
    if center is not False and center is not None:
        if not shown.one_column:
            raise ValueError(f"center needs the axis of a single column, and {effect.name!r} has several")
        shown = shown.centred_at(effect.place_of(None if center is True else center))
    return _draw(shown, ax, colors)


def _draw(shown: FeaturePicture, ax: Axes | None, colors: Colors | None) -> Axes:
    if shown.one_column and (not shown.ordered or is_flag(shown.values[0])):
        return draw_dots(shown, ax)
    if len(shown.values) == 2:
        colour_map(colors, "cividis")  # before there is a figure
    ax = new_axes() if ax is None else ax
    if len(shown.values) == 2:
        draw_heatmap(shown, ax, colors)
    elif shown.one_column:
        draw_lines(shown, ax)
    else:
        draw_group(shown, ax)
    return ax
