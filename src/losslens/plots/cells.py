"""Single rows: the cells of one feature as a heat map, and the local importances of all features as lines of dots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection

from losslens.plots import canvas, named_rows
from losslens.plots.canvas import BLUE, INK, VERMILLION, evenly, folded
from losslens.plots.feature_data import MOST_VALUES, Singles, show
from losslens.plots.importance_axis import bend, check_scale
from losslens.plots.look import Look, Names
from losslens.plots.options import arrange, colour_map, colours, most_of, name_features
from losslens.plots.scale import dress
from losslens.plots.scale import scale as scale_of
from losslens.plots.shapley_effect import BAR, COLOURS, coloured_swarm, dots_note, ranked, swarm, thinned, value_bar
from losslens.plots.steps import MOST_LINES
from losslens.plots.tables import draw_cells
from losslens.plots.wording import MINUS, alike, count, not_shown, number, some_of
from losslens.plots.wording import labels as short_labels
from losslens.results.importance import FeatureImportance
from losslens.results.importances import Importances
from losslens.results.shapley import ShapleyImportance
from losslens.tables.columns import array_column
from losslens.typing import Floats, Indices

MOST_MAPPED = 400  # rows of a heat map: about as many as a figure has pixels
HELD = 0.98  # share of the cells whose values lie within the colour scale
EMPTY = "0.8"  # grey of a cell without a value
BESIDE = 0.7  # share of the width that the colour bar leaves
NARROW = 220.0  # points of width below which names are written without their mean
TICKS = 40.0  # points from one labelled row to the next
OUTLIERS = 0.005  # share of the dots at each end that may lie outside the axis
REACH = 0.5  # how far an axis of dots extends beyond the others, in their range


def plot_cells(feature: FeatureImportance, ax: Axes | None, look: Look) -> Axes:
    """Draw how each row's loss changes with each value of the feature, the most important row on top."""
    shown = show(feature, look)
    colour_scale = colour_map(look.colors, "PuOr_r").with_extremes(bad=EMPTY)
    singles = shown.singles
    if singles is None or not np.isfinite(singles.integral).any():
        raise ValueError(f"{feature.name!r} has no cells to draw: none was kept, or no row has a donor; raise memory=")
    ax = canvas.new_axes() if ax is None else ax
    kept = np.argsort(-singles.integral, kind="stable")[: np.isfinite(singles.integral).sum()]
    # Joint values of several columns have no order: from left to right by their mean.
    order = np.arange(shown.curve.size) if shown.one_column else np.argsort(np.ravel(shown.curve), kind="stable")
    rows, columns = evenly(kept, MOST_MAPPED), evenly(order, MOST_VALUES)
    cells = singles.curves(rows)[:, columns]
    reach = float(np.nanquantile(np.abs(cells), HELD)) or float(np.nanmax(np.abs(cells))) or 1.0
    places = scale_of(shown.values[0], shown.weights) if shown.one_column else None
    to_scale = places is not None and bool((np.diff(places.x[columns]) >= 0).all())
    across = places.x[columns] if places is not None and to_scale else np.arange(len(columns))
    mesh = draw_cells(ax, cells, across, np.arange(len(rows)), vmin=-reach, vmax=reach, cmap=colour_scale)
    width, height = canvas.size_in_points(ax)
    narrow = width < NARROW
    _name_rows(ax, singles, rows, narrow)
    if places is not None and to_scale:
        limits = ax.get_xlim()
        dress(ax, places, shown.title, BESIDE)
        ax.set_xlim(limits)
    else:
        ax.set_xticks([])
        joint = "" if shown.one_column else ": joint values, by their mean"
        ax.set_xlabel(f"{shown.title}{joint}", parse_math=False)
    notes = [f"{shown.axis}, colours up to {number(reach)}"] if narrow else []
    notes.append(some_of(len(rows), len(singles.result.at), "row"))
    if len(columns) < shown.curve.size:
        notes.append(f"{len(columns):,} of {shown.curve.size:,} values")
    if np.isnan(cells).any():
        notes.append("grey: value not paired with the row")
    below, above = bool(np.nanmin(cells) < -reach), bool(np.nanmax(cells) > reach)
    extend = "both" if below and above else "min" if below else "max" if above else "neither"
    style: dict[str, Any] = {"extend": extend, "aspect": max(10.0, height / 14)}
    bar = canvas.colour_bar(ax, mesh, None if narrow else shown.axis, 0.8, **style)
    if narrow:
        bar.set_ticks([-reach, 0, reach], labels=[MINUS, "0", "+"])
    canvas.caption(ax, notes)
    return ax


def _name_rows(ax: Axes, singles: Singles, rows: Indices, narrow: bool) -> None:
    """Ticks with the local importance of some rows, both ends included; none in narrow axes."""
    height = canvas.size_in_points(ax)[1]
    ax.set_ylabel(folded(f"rows, by {singles.integral_name}", 0.8 * height), parse_math=False)
    ax.set_ylim(len(rows) - 0.5, -0.5)
    if narrow:
        ax.set_yticks([])
        return
    at = evenly(np.arange(len(rows)), max(2, int(0.7 * height / TICKS)))
    ax.set_yticks(at, [number(value) for value in singles.integral[rows[at]]])


def plot_local(
    importances: Importances | ShapleyImportance, ax: Axes | None, look: Look, color: Literal["value"] | None
) -> Axes:
    """Draw the importance of each feature for single rows: a line of dots each, the most important feature on top."""
    every = [(name, mean, local) for name, mean, local in importances._lines if np.isfinite(mean)]
    if not every:
        raise ValueError("there are no local importances to draw: no row with a positive weight has a donor")
    names, own = name_features(look.labels, list(importances.features)), ax is None
    first = np.argsort([-mean for _, mean, _ in every], kind="stable")[: most_of(look.top, len(every))]
    check_scale(look.scale, np.concatenate([every[j][2] for j in first]))
    ax, most = named_rows.open_rows(ax, len(first), below=3, most=MOST_LINES, line=1.5)
    lines = [every[j] for j in arrange(names.all([name for name, _, _ in every]), first[:most], look.sort)]
    means = np.array([mean for _, mean, _ in lines])
    features = [name for name, _, _ in lines]
    fill = colours(look.colors, features, [BLUE] * len(lines), "feature", list(importances.features))
    bend(ax.xaxis, look.scale, means)
    if look.scale != "log":
        ax.axvline(0, color=INK, linewidth=0.6, zorder=0)
    values = [_value_ranks(importances, name) for name in features] if color and look.colors is None else None
    dots, out = _draw_local(ax, [local for _, _, local in lines], means, fill, values)
    headline = importances.headline.split(";")[0].removesuffix(" by each feature")
    bar = values is not None and any(np.isfinite(ranks).any() for ranks in values)
    named_rows.dress_rows(ax, _names(ax, lines, names), own, f"{headline}, per row", taken=BAR if bar else 0.0)
    notes = [dots_note(max(int(np.isfinite(local).sum()) for _, _, local in lines)), "diamonds: mean"]
    if bar and values is not None:
        value_bar(ax, dots)
        notes += ["grey: categories, or missing values"] if any(np.isnan(ranks).any() for ranks in values) else []
    if out:
        notes.append(f"{count(out, 'dot')} beyond the axis, drawn at its ends")
    canvas.caption(ax, notes + not_shown(len(every) - len(lines)))
    return ax


def _names(ax: Axes, lines: Sequence[tuple[str, float, Floats]], names: Names) -> list[str]:
    """The name of each feature with its mean, where that fits."""
    letters, shown = named_rows.letters_beside(ax), [names.of(name) for name, _, _ in lines]
    if canvas.size_in_points(ax)[0] < NARROW:
        return short_labels(shown, max(10, letters - 4))
    means = alike([mean for _, mean, _ in lines])
    return [f"{name} ({mean})" for name, mean in zip(short_labels(shown, letters - 8), means, strict=True)]


def _value_ranks(importances: Importances | ShapleyImportance, name: str) -> Floats:
    """The rank of the feature's value in each row, from 0 to 1; NaN where it has none."""
    values = importances._values_held(name)
    if values is None:
        return np.full(len(importances.local), np.nan)
    distinct = array_column(values).distinct
    return ranked(distinct.values, distinct.codes, ordered=distinct.ordered)


def _draw_local(
    ax: Axes, lines: list[Floats], means: Floats, fill: Sequence[str], values: list[Floats] | None
) -> tuple[PathCollection, int]:
    """Lines of dots and their means; returns how many dots lie beyond the axis, and are drawn at its ends."""
    present = [np.flatnonzero(np.isfinite(local)) for local in lines]
    rows = [some[thinned(local[some])] for some, local in zip(present, lines, strict=True)]
    chosen = [local[some] for some, local in zip(rows, lines, strict=True)]
    everything = np.concatenate(chosen)
    low, high = np.quantile(everything, [OUTLIERS, 1 - OUTLIERS])
    far = REACH * (high - low)
    low, high = min(low - far, means.min()), max(high + far, means.max())
    low, high = max(low, everything.min()), min(high, everything.max())
    held = [np.clip(local, low, high) for local in chosen]
    if values is None:
        dots = swarm(ax, held, color=np.repeat(np.array(fill), [len(local) for local in chosen]).tolist(), alpha=0.6)
    else:
        dots = coloured_swarm(
            ax, held, [ranks[some] for ranks, some in zip(values, rows, strict=True)], colormaps[COLOURS]
        )
    mark = VERMILLION if values is None else INK  # a colour that no dot has
    ax.plot(means, np.arange(len(lines)), "D", color=mark, markersize=5, markeredgecolor="white", zorder=3)
    ends = (low, high) if ax.get_xscale() == "log" else (min(low, 0.0), max(high, 0.0))
    canvas.set_ends(ax.xaxis, *ends, 0.03, 0.03)
    return dots, int(((everything < low) | (everything > high)).sum())
