"""Importances for each output: a heat map of features and outputs, and lines over points in time or quantiles."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes

from losslens.plots import canvas, named_rows
from losslens.plots.bars import known_interval
from losslens.plots.canvas import BAND, INK, folded
from losslens.plots.importance_axis import bend, check_scale, importance_ticks
from losslens.plots.interactions import BAR, name_table, write_cells
from losslens.plots.lines import MARKED
from losslens.plots.look import Look
from losslens.plots.options import arrange, colour_map, colours, most_of, name_features
from losslens.plots.scale import word_ticks
from losslens.plots.subgroups import COLOURS, LOOKS
from losslens.plots.wording import labels as short_labels
from losslens.plots.wording import not_shown, value_labels
from losslens.results.outputs import Outputs
from losslens.typing import Floats, Indices

MOST_TABLE = 20  # features and outputs in a new figure
MOST_LINES = 6  # features with a line: bands of more would cover each other
FAR_APART = 3.0  # errors of outputs of which one is so many times another's are in other units, or nearly


def plot_outputs(outputs: Outputs, ax: Axes | None, look: Look) -> Axes:
    """Draw a heat map of features and outputs."""
    own, names, colour_scale = (
        ax is None,
        name_features(look.labels, outputs.features),
        colour_map(look.colors, "PuOr_r"),
    )
    order, shown = _ranked(outputs), canvas.evenly(np.arange(len(outputs)), MOST_TABLE)
    order = order[: most_of(look.top, len(order))]
    ax = canvas.new_axes(min(len(order), MOST_TABLE) + 3) if ax is None else ax
    order = order[: MOST_TABLE if own else max(1, int(0.7 * named_rows.rows_that_fit(ax)))]
    order = arrange(names.all(outputs.features), order, look.sort)
    what, cells = _relative(outputs)
    cells = cells[np.ix_(order, shown)]
    reach = float(np.max(np.abs(cells[np.isfinite(cells)]), initial=0.0))
    style: dict[str, Any] = {"cmap": colour_scale, "vmin": -(reach or 1.0), "vmax": reach or 1.0, "rasterized": True}
    mesh = ax.pcolormesh(cells, edgecolors="white", linewidth=0.6, **style)
    canvas.colour_bar(ax, mesh, what, 0.8)
    rows, columns = [names.of(outputs.features[j]) for j in order], value_labels(np.array(list(outputs), object)[shown])
    laid_out = ax.figure.get_layout_engine() is not None  # it will shrink the axes for the names and the colour bar
    width = named_rows.width_beside(ax, short_labels(rows, named_rows.letters_beside(ax)), own)
    width = max(0.3 * width, width - BAR) if laid_out else width
    name_table(ax, rows, columns, width)
    notes = write_cells(ax, mesh, cells, width)
    notes += not_shown(len(outputs.features) - len(order), "weaker feature")
    notes += not_shown(len(outputs) - len(shown), outputs.noun)
    canvas.caption(ax, notes, 0.8 if laid_out else 1.15)
    return ax


def plot_output_lines(outputs: Outputs, ax: Axes | None, look: Look) -> Axes:
    """Draw lines over the outputs, with 95% intervals as bands."""
    names, of, numbers = name_features(look.labels, outputs.features), list(outputs), not any(map(_is_word, outputs))
    at = np.array(of, float) if numbers else np.arange(len(of), dtype=float)
    along = np.argsort(at)
    at, order = at[along], _ranked(outputs)
    order = order[: MOST_LINES if look.top is None else most_of(look.top, len(LOOKS))]
    check_scale(look.scale, outputs.importance[order])
    colours(look.colors, [outputs.features[j] for j in order], COLOURS, "feature", outputs.features)
    ax = canvas.new_axes() if ax is None else ax
    width, height = canvas.size_left(ax)
    letters, most = canvas.legend_room(width, height)
    order = arrange(names.all(outputs.features), order[:most], look.sort)
    of_outputs = [list(outputs.values())[k] for k in along]
    features = [outputs.features[j] for j in order]
    fill, short = colours(look.colors, features, COLOURS, "feature", outputs.features), names.all(features)
    bend(ax.yaxis, look.scale, outputs.importance[order])
    for k, (name, label) in enumerate(zip(features, short_labels(short, letters), strict=True)):
        colour, (_, dashes, marker) = fill[k], LOOKS[k]
        ends = np.array([known_interval(one[name]) for one in of_outputs])
        line: dict[str, Any] = {"color": colour, "linestyle": dashes, "marker": marker if len(at) <= MARKED else None}
        ax.plot(at, [one[name].pfi for one in of_outputs], markersize=4, linewidth=1.8, label=label, zorder=4, **line)
        ax.fill_between(at, ends[:, 0], ends[:, 1], color=colour, alpha=0.18, linewidth=0, zorder=3, gid=BAND)
    if look.scale != "log":
        ax.axhline(0, color=INK, linewidth=0.6, zorder=2)
    if numbers:
        canvas.value_ticks(ax.xaxis, width)
    else:
        word_ticks(ax.xaxis, at, value_labels(np.array(of, object)), width, turn=True)
    ax.set_xlabel(outputs.noun)
    ax.set_ylabel(folded(f"increase in {outputs.what}", 0.9 * height), parse_math=False)
    canvas.plain_frame(ax)
    canvas.make_room(ax, 0.0, canvas.legend(ax))
    importance_ticks(ax.yaxis)
    canvas.caption(
        ax, [f"bands: 95% intervals, each for one {outputs.noun}", *not_shown(len(outputs.features) - len(order))]
    )
    return ax


def _is_word(output: str | float) -> bool:
    return isinstance(output, str)


def _ranked(outputs: Outputs) -> Indices:
    """Features with a number, the one that matters most in the mean of outputs, in units of their errors, first."""
    relative = _relative(outputs)[1]
    finite = np.flatnonzero(np.isfinite(relative).all(axis=1))
    if not len(finite):
        raise ValueError("no feature has an importance, only curves")
    return finite[np.argsort(-relative[finite].mean(axis=1), kind="stable")]


def _relative(outputs: Outputs) -> tuple[str, Floats]:
    """What the colours are, and the numbers: increases, divided by the errors where these differ by much."""
    error = outputs.error
    if error.min() > 0 and error.max() > FAR_APART * error.min():
        return (
            f"increase in {outputs.what}, as a multiple of the error of each {outputs.noun}",
            outputs.importance / error,
        )
    return f"increase in {outputs.what}", outputs.importance
