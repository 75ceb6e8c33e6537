"""What each feature adds to predictions: one row step by step from the base to its prediction, or many rows as dots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import Collection, PathCollection
from matplotlib.colors import Colormap
from numpy.typing import NDArray

from losslens.plots import canvas, named_rows
from losslens.plots.canvas import INK, PALE
from losslens.plots.look import Look, Names
from losslens.plots.options import arrange, colour_map, most_of, name_features
from losslens.plots.steps import MOST_LINES, RISE_FALL, draw_chain, rise_and_fall
from losslens.plots.wording import MINUS, alike, count, not_shown, number, shorten, value_label
from losslens.plots.wording import labels as short_labels
from losslens.results.shapley_effect import ShapleyEffect
from losslens.tables.columns import count_missing
from losslens.typing import Floats, Indices, Sort

MOST_DOTS = 1000  # rows in a line of dots
BINS = 120  # of a line of dots: those in the same bin are stacked
SPREAD = 0.38  # largest distance of a dot from its line, in lines
STEP = 0.09  # from one stacked dot to the next, if they are few
BAR = 50.0  # width of the colour bar in points
COLOURS = "cividis"  # from small to large values


def plot_shapley_effect(result: ShapleyEffect, ax: Axes | None, look: Look) -> Axes:
    """Draw the effects of one row from the base to its prediction, or those of many rows."""
    names = name_features(look.labels, result.features)
    if len(result.local) == 1:
        return _draw_row(result, ax, names, look)
    return _draw_dots(result, ax, names, look.top, look.sort, colour_map(look.colors, COLOURS))


def _draw_row(result: ShapleyEffect, ax: Axes | None, names: Names, look: Look) -> Axes:
    changes = result.local[0]
    title = "prediction" if result.target is None else f"{result.response} of {shorten(result.target, 30)}"
    ax, steps = draw_chain(
        ax, look, result.features, float(result.base[0]), changes, np.abs(changes),
        lambda kept, letters: _names(result, kept, names, letters),
        (f"mean over {count(result.n_donors, 'donor')}", "prediction"), title, rise_and_fall(look.colors, RISE_FALL),
        reach=result.interval()[1][0] - changes,
    )  # fmt: skip
    notes = ["lines: 95% intervals of the Monte-Carlo error"] if any(step.interval for step in steps) else []
    canvas.caption(ax, notes if result.complete else [*notes, "interrupted"])
    return ax


def _names(result: ShapleyEffect, chosen: Indices, names: Names, letters: int) -> list[str]:
    """Each feature with the row's value and its unit."""
    features = [result.features[j] for j in chosen]
    units = [f" {names.unit(name)}" if names.unit(name) else "" for name in features]
    values = [
        shorten(_value(result, int(j)) + unit, max(8, letters // 3)) for j, unit in zip(chosen, units, strict=True)
    ]
    left = letters - 3 - max(map(len, values), default=0)
    short = short_labels(names.all(features), max(left, letters // 2))
    return [f"{name} = {value}" for name, value in zip(short, values, strict=True)]


def _value(result: ShapleyEffect, j: int) -> str:
    value = result.values.distinct[j][result.values.codes[0, j]]
    if result.values.distinct[j].ndim > 1:  # a group of columns
        return f"({', '.join(map(value_label, value))})"
    text = value_label(value)
    return text.replace("-", MINUS) if isinstance(value, (int, float, np.number)) else text


def _draw_dots(
    result: ShapleyEffect, ax: Axes | None, names: Names, top: int | None, sort: Sort, colour_scale: Colormap
) -> Axes:
    own, p = ax is None, len(result.features)
    ax, most = named_rows.open_rows(ax, most_of(top, p), below=3, most=MOST_LINES, line=1.5)
    order = arrange(names.all(result.features), np.argsort(-result.importance, kind="stable")[:most], sort)
    short = short_labels([names.of(result.features[j]) for j in order], named_rows.letters_beside(ax) - 8)
    sizes = alike(result.importance[order].tolist())
    written = [f"{name} ({size})" for name, size in zip(short, sizes, strict=True)]
    ax.axvline(0, color=INK, linewidth=0.6, zorder=0)
    drawn = [thinned(result.local[:, j]) for j in order]
    values = result.values
    ranks = [
        ranked(values.distinct[j], values.codes[:, j], ordered=values.ordered[j])[rows]
        for j, rows in zip(order.tolist(), drawn, strict=True)
    ]
    effects = [result.local[rows, j] for j, rows in zip(order, drawn, strict=True)]
    dots = coloured_swarm(ax, effects, ranks, colour_scale)
    named_rows.dress_rows(ax, written, own, result.headline.split(";")[0], taken=BAR)
    value_bar(ax, dots)
    canvas.caption(ax, _dot_notes(result, len(order), bool(np.isnan(np.concatenate(ranks)).any())))
    return ax


def coloured_swarm(
    ax: Axes, lines: Sequence[Floats], ranks: Sequence[Floats], colour_scale: Colormap
) -> PathCollection:
    """Lines of dots in the colour of the feature's value, by its rank; grey where it has none."""
    style: dict[str, Any] = {"cmap": colour_scale.with_extremes(bad=PALE), "plotnonfinite": True}
    return swarm(ax, lines, c=np.concatenate(ranks), vmin=0, vmax=1, **style)


def value_bar(ax: Axes, dots: Collection, name: str = "value of the feature") -> None:
    """The colour bar of such dots or curves, from low to high values; none where none has a rank."""
    if not np.isfinite(np.asarray(dots.get_array(), float)).any():
        return
    height = canvas.size_in_points(ax)[1]
    bar = canvas.colour_bar(ax, dots, ticks=[0, 1], aspect=max(10.0, height / 8))
    bar.ax.set_yticklabels(["low", "high"])
    bar.ax.tick_params(length=0)
    bar.set_label(name if height > 180 else "value", labelpad=-8, parse_math=False)


def swarm(ax: Axes, lines: Sequence[Floats], **style: Any) -> PathCollection:
    """Lines of dots, the first on top: dots at nearly the same place are stacked."""
    positions = [np.asarray(ax.xaxis.get_transform().transform(line)) for line in lines]
    width = (float(np.ptp(np.concatenate(positions))) or 1.0) / BINS
    y = [line + spread(np.floor(x / width)) for line, x in enumerate(positions)]
    diameter = np.clip(0.13 * canvas.size_in_points(ax)[1] / len(lines), 1.5, 4.5)
    return ax.scatter(np.concatenate(lines), np.concatenate(y), s=diameter**2, linewidths=0, rasterized=True, **style)


def thinned(effect: Floats) -> Indices:
    """At most `MOST_DOTS` rows, evenly along the order of their effects: both extremes are among them."""
    return canvas.evenly(np.argsort(effect, kind="stable"), MOST_DOTS)


def dots_note(rows: int) -> str:
    """How many rows a line of dots shows."""
    return count(rows, "row") if rows <= MOST_DOTS else f"{MOST_DOTS:,} of {count(rows, 'row')} in each line"


def spread(bins: Floats) -> Floats:
    """The distance of each dot from its line: those in one bin alternate above and below it.

    >>> spread(np.array([1.0, 1.0, 1.0, 5.0])).tolist()
    [0.0, -0.09, 0.09, 0.0]
    """
    _, inverse, counts = np.unique(bins, return_inverse=True, return_counts=True)
    order = np.argsort(inverse, kind="stable")
    place = np.empty(len(bins), np.intp)
    place[order] = np.arange(len(bins)) - np.repeat(np.cumsum(counts) - counts, counts)
    step = min(STEP, SPREAD / max(1, int(counts.max()) // 2))
    return np.asarray((place + 1) // 2 * np.where(place % 2, -step, step))


def ranked(distinct: NDArray[Any], codes: NDArray[Any], *, ordered: bool) -> Floats:
    """The rank of each row's value among all rows, from 0 to 1; NaN if it is missing or has no order."""
    if not ordered or distinct.ndim > 1:
        return np.full(len(codes), np.nan)
    present_values = len(distinct) - count_missing(distinct)
    counts = np.bincount(codes, minlength=len(distinct)).astype(float)
    counts[present_values:] = 0.0
    middle = np.cumsum(counts) - counts / 2
    present = np.flatnonzero(counts)
    low, high = (middle[present[0]], middle[present[-1]]) if len(present) else (0.0, 0.0)
    ranks = (middle - low) / (high - low) if high > low else np.full(len(middle), 0.5)
    ranks[present_values:] = np.nan
    return np.asarray(ranks[codes])


def _dot_notes(result: ShapleyEffect, shown: int, grey: bool) -> list[str]:
    notes = [f"{dots_note(len(result.local))}, mean prediction {number(float(result.prediction.mean()))}"]
    notes.append("in brackets: mean absolute effect")
    if grey:
        notes.append("grey: categories, or missing values")
    errors = result.std_error[result.std_error > 0]
    if len(errors):
        notes.append(f"Monte-Carlo error: {number(float(np.median(errors)))} (median)")
    notes += not_shown(len(result.features) - shown, "smaller effect")
    return notes if result.complete else [*notes, "interrupted"]
