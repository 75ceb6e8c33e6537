"""Importances for each output: a heat map of features and outputs, and lines over points in time or quantiles."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes

from losslens.plots import canvas, named_rows
from losslens.plots.bands import draw_bands
from losslens.plots.canvas import BAND, LOOKS
from losslens.plots.lines import dress_curves
from losslens.plots.look import Look
from losslens.plots.options import arrange, colour_map, most_of, name_features
from losslens.plots.scale import scale as scale_of
from losslens.plots.tables import MOST_TABLE, caption, draw_table
from losslens.plots.wording import not_shown, value_labels
from losslens.results.outputs import Outputs
from losslens.typing import Floats, Indices

MOST_LINES = 6  # features with a line: bands of more would cover each other
FAR_APART = 3.0  # errors of outputs of which one is so many times another's are in other units, or nearly


def plot_outputs(outputs: Outputs, ax: Axes | None, look: Look) -> Axes:
    """A heat map of features and outputs, the most important features first."""
    own, names = ax is None, name_features(look.labels, outputs.features)
    colour_scale, shown = colour_map(look.colors, "PuOr_r"), canvas.evenly(np.arange(len(outputs)), MOST_TABLE)
    order = _ranked(outputs)[: look.top]
    ax = canvas.new_axes(min(len(order), MOST_TABLE) + 3) if ax is None else ax
    order = order[: MOST_TABLE if own else max(1, int(0.7 * named_rows.rows_that_fit(ax)))]
    order = arrange(names.all(outputs.features), order, look.sort)
    what, cells = _relative(outputs)
    rows, columns = [outputs.features[j] for j in order], value_labels(np.array(list(outputs), object)[shown])
    notes = draw_table(
        ax,
        cells[np.ix_(order, shown)],
        [" ".join(one.split()) for one in names.all(rows)],
        columns,
        what,
        colour_scale,
        own,
    )
    notes += not_shown(len(outputs.features) - len(order), "weaker feature")
    caption(ax, notes + not_shown(len(outputs) - len(shown), outputs.noun))
    return ax


def plot_output_lines(outputs: Outputs, ax: Axes | None, look: Look) -> Axes:
    """Importances along outputs, with 95% intervals as bands; numbers, such as points in time, are drawn to scale."""
    features, names = outputs.features, list(outputs)
    name_features(look.labels, features)
    words = any(isinstance(name, str) for name in names)
    order = np.arange(len(names)) if words else np.argsort(names)
    places = scale_of(np.array(names, object if words else float)[order])
    ranked = _ranked(outputs)[: MOST_LINES if look.top is None else most_of(look.top, len(LOOKS))]
    numbers = np.array([outputs.importance, *outputs.interval()])[..., order]
    ax, shown = draw_bands(ax, look, features, ranked, places.x, numbers)
    if words:
        _separate(ax, places.x, numbers[:, shown])
    named = dress_curves(ax, places, outputs.noun, f"increase in {outputs.what}")
    notes = [*named, f"{'lines' if words else 'bands'}: 95% intervals, each for one {outputs.noun}"]
    canvas.caption(ax, [*notes, *not_shown(len(features) - len(shown))])
    return ax


def _separate(ax: Axes, positions: Floats, numbers: Floats) -> None:
    """Points with their intervals beside each other, where outputs have no order that a line could follow."""
    for k, (line, band) in enumerate(zip(list(ax.lines), list(ax.collections), strict=True)):
        beside = positions + 0.12 * (k - (len(numbers[0]) - 1) / 2)
        band.remove()
        line.set(xdata=beside, linestyle="none", marker=LOOKS[k][2])
        ax.vlines(beside, *numbers[1:, k], color=line.get_color(), linewidth=1.2, zorder=4, gid=BAND)


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
        what = f"increase in {outputs.what}, as a multiple of the error of each {outputs.noun}"
        return what, outputs.importance / error
    return f"increase in {outputs.what}", outputs.importance
