"""Importances for each output: a heat map of features and outputs, and lines over points in time or quantiles."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes

from losslens.plots import canvas, named_rows
from losslens.plots.bars import known_interval
from losslens.plots.canvas import BAND, INK, folded
from losslens.plots.interactions import BAR, name_table, write_cells
from losslens.plots.lines import MARKED
from losslens.plots.scale import word_ticks
from losslens.plots.subgroups import LOOKS
from losslens.plots.wording import labels, not_shown, value_labels
from losslens.results.outputs import Outputs
from losslens.typing import Floats, Indices

MOST_TABLE = 20  # features and outputs in a new figure
MOST_LINES = 6  # features with a line: bands of more would cover each other
FAR_APART = 3.0  # errors of outputs of which one is so many times another's are in other units, or nearly


@canvas.takes_axes
def plot_outputs(outputs: Outputs, *, ax: Axes | None = None) -> Axes:
    """Draw the importance of each feature for each output as a heat map; the most important features come first.

    Outputs in different units have errors of different sizes: the increases are then divided by them.

    Parameters
    ----------
    outputs
        ``.outputs`` of the importances of a model with several outputs.
    ax
        Where to draw; a new figure by default.

    Examples
    --------
    >>> import numpy as np, losslens as ll
    >>> X = np.random.default_rng(0).normal(size=(50, 2))
    >>> imp = ll.feature_importance(lambda X: X[:, [1, 1]], X, X + X[:, [1]], loss="squared_error")
    >>> [label.get_text() for label in plot_outputs(imp.outputs).get_yticklabels()]
    ['x1', 'x0']
    """
    own = ax is None
    ax = canvas.new_axes(min(len(outputs.features), MOST_TABLE) + 3) if ax is None else ax
    order, shown = _ranked(outputs), canvas.evenly(np.arange(len(outputs)), MOST_TABLE)
    order = order[: MOST_TABLE if own else max(1, int(0.7 * named_rows.rows_that_fit(ax)))]
    what, cells = _relative(outputs)
    cells = cells[np.ix_(order, shown)]
    reach = float(np.max(np.abs(cells[np.isfinite(cells)]), initial=0.0))
    style: dict[str, Any] = {"cmap": "PuOr_r", "vmin": -(reach or 1.0), "vmax": reach or 1.0, "rasterized": True}
    mesh = ax.pcolormesh(cells, edgecolors="white", linewidth=0.6, **style)
    canvas.colour_bar(ax, mesh, what, 0.8)
    names, columns = [outputs.features[j] for j in order], value_labels(np.array(list(outputs), object)[shown])
    laid_out = ax.figure.get_layout_engine() is not None  # it will shrink the axes for the names and the colour bar
    width = named_rows.width_beside(ax, labels(names, named_rows.letters_beside(ax)), own)
    width = max(0.3 * width, width - BAR) if laid_out else width
    name_table(ax, names, columns, width)
    notes = write_cells(ax, mesh, cells, width)
    notes += not_shown(len(outputs.features) - len(order), "weaker feature")
    notes += not_shown(len(outputs) - len(shown), outputs.noun)
    canvas.caption(ax, notes, 0.8 if laid_out else 1.15)
    return ax


@canvas.takes_axes
def plot_output_lines(outputs: Outputs, *, ax: Axes | None = None) -> Axes:
    """Draw the importance of the features that matter most along the outputs, with 95% intervals as bands.

    Parameters
    ----------
    outputs
        ``.outputs`` of importances: numbers, such as points in time or quantiles, are drawn to scale.
    ax
        Where to draw; a new figure by default.

    Examples
    --------
    >>> import numpy as np, losslens as ll
    >>> X = np.random.default_rng(0).normal(size=(50, 2))
    >>> imp = ll.feature_importance(lambda X: X[:, [1, 1]], X, X + X[:, [1]], loss="squared_error")
    >>> plot_output_lines(imp.outputs).get_ylabel()
    'increase in squared error'
    """
    ax = canvas.new_axes() if ax is None else ax
    names, numbers = list(outputs), all(not isinstance(name, str) for name in outputs)
    at = np.array(names, float) if numbers else np.arange(len(names), dtype=float)
    along = np.argsort(at)
    at, order = at[along], _ranked(outputs)
    width, height = canvas.size_left(ax)
    letters, most = canvas.legend_room(width, height)
    order = order[: min(most, MOST_LINES)]
    of_outputs = [list(outputs.values())[k] for k in along]
    features = [outputs.features[j] for j in order]
    for name, label, (colour, dashes, marker) in zip(features, labels(features, letters), LOOKS, strict=False):
        ends = np.array([known_interval(one[name]) or (np.nan, np.nan) for one in of_outputs])
        line: dict[str, Any] = {"color": colour, "linestyle": dashes, "marker": marker if len(at) <= MARKED else None}
        ax.plot(at, [one[name].pfi for one in of_outputs], markersize=4, linewidth=1.8, label=label, zorder=4, **line)
        ax.fill_between(at, ends[:, 0], ends[:, 1], color=colour, alpha=0.18, linewidth=0, zorder=3, gid=BAND)
    ax.axhline(0, color=INK, linewidth=0.6, zorder=2)
    if numbers:
        canvas.value_ticks(ax.xaxis, width)
    else:
        word_ticks(ax.xaxis, at, value_labels(np.array(names, object)), width, turn=True)
    ax.set_xlabel(outputs.noun)
    ax.set_ylabel(folded(f"increase in {outputs.what}", 0.9 * height), parse_math=False)
    canvas.plain_frame(ax)
    canvas.make_room(ax, 0.0, canvas.legend(ax))
    canvas.value_ticks(ax.yaxis)
    canvas.caption(
        ax, [f"bands: 95% intervals, each for one {outputs.noun}", *not_shown(len(outputs.features) - len(order))]
    )
    return ax


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
