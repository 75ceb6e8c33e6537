"""Single rows: every cell of one feature as a map, and the local importances of all features as lines of dots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh

from losslens.plots import canvas
from losslens.plots.bars import dress_rows, not_shown, open_rows
from losslens.plots.canvas import BLUE, INK, VERMILLION
from losslens.plots.feature_data import MOST_VALUES, FeaturePicture, Singles, show
from losslens.plots.scale import word_ticks
from losslens.plots.shapley_effect import BINS, MOST_DOTS, MOST_LINES, apart, thinned
from losslens.plots.wording import MINUS, alike, count, labels, number, value_labels
from losslens.results.importance import FeatureImportance
from losslens.results.importances import Importances
from losslens.results.shapley import ShapleyImportance
from losslens.typing import Floats, Indices

MOST_MAPPED = 400  # rows of a map: about as many as a picture has pixels
HELD = 0.98  # share of the cells whose colour is their own; the rest has the colour of an end
UNMET = "0.8"
NARROW = 220.0  # points of width below which names stand without their mean
TICKS = 40.0  # points from one labelled row to the next
OUTLIERS = 0.005  # share of the dots at each end that may lie far out
REACH = 0.5  # how far an axis of dots goes beyond the others, in their range


# -- the cells of one feature -----------------------------------------------------------------------------------------


def plot_cells(feature: FeatureImportance, *, ax: Axes | None = None) -> Axes:
    """Draw how each row's loss changes with each value that it is given: a map with the most important row on top.

    Of more than 400 rows those are shown that stand evenly along the order of local importances, both ends included.

    Parameters
    ----------
    feature
        One feature of what `losslens.feature_importance` gives.
    ax
        Where to draw; a new figure by default.

    Examples
    --------
    >>> import numpy as np, losslens as ll
    >>> X = np.random.default_rng(0).normal(size=(50, 2))
    >>> imp = ll.feature_importance(lambda X: X[:, 1], X, X[:, 1], loss="squared_error")
    >>> plot_cells(imp["x1"]).get_xlabel()
    'x1'
    """
    shown = show(feature)
    singles = shown.singles
    if singles is None or not np.isfinite(singles.integral).any():
        raise ValueError(f"{feature.name!r} has no cells to draw: none was kept, or no row met anybody; raise memory=")
    ax = canvas.new_axes() if ax is None else ax
    rows, columns = _rows(singles), _columns(shown)
    cells = singles.curves(rows)[:, columns]
    reach = float(np.nanquantile(np.abs(cells), HELD)) or float(np.nanmax(np.abs(cells))) or 1.0
    mesh = ax.pcolormesh(
        np.arange(len(columns)), np.arange(len(rows)), cells, shading="nearest", rasterized=True, vmin=-reach,
        vmax=reach, cmap=mpl.colormaps["PuOr_r"].with_extremes(bad=UNMET),
    )  # fmt: skip
    narrow = canvas.size_in_points(ax)[0] < NARROW
    _name_rows(ax, singles, rows, narrow)
    _name_columns(ax, shown, columns)
    notes = _notes(shown, singles, rows, columns, bool(np.isnan(cells).any()))
    if narrow:
        notes.insert(0, f"{shown.axis}, colours up to {number(reach)}")
    _colour_bar(ax, mesh, cells, None if narrow else shown.axis)
    ax.spines[:].set_visible(False)
    canvas.caption(ax, notes)
    return ax


def _colour_bar(ax: Axes, mesh: QuadMesh, cells: Floats, title: str | None) -> None:
    """Without a title there is no room for numbers, either."""
    low, high = mesh.get_clim()
    below, above = bool(np.nanmin(cells) < low), bool(np.nanmax(cells) > high)
    extend = "both" if below and above else "min" if below else "max" if above else "neither"
    height = canvas.size_in_points(ax)[1]
    bar = canvas.colour_bar(ax, mesh, title or "", 0.8, extend=extend, aspect=max(10.0, height / 14))
    if title is None:
        bar.set_ticks([low, 0, high], labels=[MINUS, "0", "+"])


def _rows(singles: Singles) -> Indices:
    """Kept rows from top to bottom, the most important first; evenly along that order where they are too many."""
    order = np.argsort(-singles.integral, kind="stable")[: np.isfinite(singles.integral).sum()]
    return canvas.evenly(order, MOST_MAPPED)


def _columns(shown: FeaturePicture) -> Indices:
    """Grid positions from left to right; what has several columns and hence no order goes by its mean."""
    order = np.arange(shown.curve.size)
    if not _one_column(shown):
        order = np.argsort(np.ravel(shown.curve), kind="stable")
    return canvas.evenly(order, MOST_VALUES)


def _one_column(shown: FeaturePicture) -> bool:
    return len(shown.values) == 1 and shown.values[0].ndim == 1


def _name_rows(ax: Axes, singles: Singles, rows: Indices, narrow: bool) -> None:
    """Ticks with the local importance of some rows, both ends among them; none in narrow axes."""
    height = canvas.size_in_points(ax)[1]
    ax.set_ylabel(canvas.folded(f"rows, by {singles.integral_name}", 0.8 * height), parse_math=False)
    ax.set_ylim(len(rows) - 0.5, -0.5)
    if narrow:
        ax.set_yticks([])
        return
    ticks = min(len(rows), max(2, int(0.7 * height / TICKS)))
    at = canvas.evenly(np.arange(len(rows)), ticks)
    ax.set_yticks(at, [number(value) for value in singles.integral[rows[at]]])


def _name_columns(ax: Axes, shown: FeaturePicture, columns: Indices) -> None:
    if not _one_column(shown):
        ax.set_xticks([])
        ax.set_xlabel(f"{shown.title}: joint values, by their mean", parse_math=False)
        return
    values = shown.values[0][columns]
    names = value_labels(values)
    room = 0.7 * canvas.size_in_points(ax)[0]  # the bar of colours takes some
    word_ticks(ax.xaxis, np.arange(len(values), dtype=float), names, room, turn=values.dtype.kind == "O")
    ax.set_xlabel(shown.title, parse_math=False)


def _notes(shown: FeaturePicture, singles: Singles, rows: Indices, columns: Indices, unmet: bool) -> list[str]:
    explained = len(singles.result.at)
    notes = [f"{len(rows):,} of {count(explained, 'row')}" if len(rows) < explained else count(explained, "row")]
    if len(columns) < shown.curve.size:
        notes.append(f"{len(columns):,} of {shown.curve.size:,} values")
    if unmet:
        notes.append("grey: never met")
    return notes


# -- the rows of all features -----------------------------------------------------------------------------------------


def plot_local(importances: Importances | ShapleyImportance, *, ax: Axes | None = None) -> Axes:
    """Draw the importance of each feature for single rows: a line of dots each, the most important feature on top.

    Parameters
    ----------
    importances
        What `losslens.feature_importance` or `losslens.shapley_importance` gives.
    ax
        Where to draw; a new figure by default, as high as the features need.

    Examples
    --------
    >>> import numpy as np, losslens as ll
    >>> X = np.random.default_rng(0).normal(size=(50, 2))
    >>> imp = ll.feature_importance(lambda X: X[:, 1], X, X[:, 1], loss="squared_error")
    >>> [label.get_text().split()[0] for label in plot_local(imp).get_yticklabels()]
    ['x1', 'x0']
    """
    found = _local(importances)
    own = ax is None
    if ax is None:
        most = min(len(found), MOST_LINES)
        ax = canvas.new_axes(int(1.5 * most))
    else:
        ax, most = open_rows(ax, len(found), below=3)
    names = _names(ax, found[:most])
    ax.axvline(0, color=INK, linewidth=0.6, zorder=0)
    out = _swarm(ax, [local for _, _, local in found[:most]], np.array([mean for _, mean, _ in found[:most]]))
    what = importances.headline.split(";")[0].removesuffix(" that each feature earns")
    dress_rows(ax, names, own, f"{what}, per row")
    rows = max(len(local) for _, _, local in found)
    notes = [count(rows, "row") if rows <= MOST_DOTS else f"{MOST_DOTS:,} of {count(rows, 'row')} in each line"]
    notes.append("diamonds: mean")
    if out:
        notes.append(f"{count(out, 'dot')} from beyond the axis at its ends")
    canvas.caption(ax, notes + not_shown(len(found) - most))
    return ax


def _names(ax: Axes, lines: Sequence[tuple[str, float, Floats]]) -> list[str]:
    """Each feature with its mean, where there is room."""
    letters, names = canvas.letters_beside(ax), [name for name, _, _ in lines]
    if canvas.size_in_points(ax)[0] < NARROW:
        return labels(names, max(10, letters - 4))
    means = alike([mean for _, mean, _ in lines])
    return [f"{name} ({mean})" for name, mean in zip(labels(names, letters - 8), means, strict=True)]


def _local(importances: Importances | ShapleyImportance) -> list[tuple[str, float, Floats]]:
    """Name, mean and local importances of each feature that has them, the most important first."""
    if isinstance(importances, ShapleyImportance):
        means = importances.sfimp.tolist()
        found = list(zip(importances.features, means, importances.local.T, strict=True))
    else:
        found, why = [], None
        for feature in importances.values():
            try:
                found.append((feature.name, feature.pfi, feature.local))
            except ValueError as error:  # curves only, or a scorer
                why = error
        if why is not None and not found:
            raise why
    found = [(name, mean, local[np.isfinite(local)]) for name, mean, local in found if np.isfinite(mean)]
    if not found:
        raise ValueError("there are no local importances to draw: no row that counts met a donor")
    return sorted(found, key=lambda line: -line[1])


def _swarm(ax: Axes, lines: list[Floats], means: Floats) -> int:
    """All dots: those at nearly the same place in a line stand above each other; how many lie beyond the axis."""
    chosen = [local[thinned(local)] for local in lines]
    everything = np.concatenate(chosen)
    low, high = np.quantile(everything, [OUTLIERS, 1 - OUTLIERS])
    far = REACH * (high - low)
    low, high = min(low - far, means.min()), max(high + far, means.max())
    low, high = max(low, everything.min()), min(high, everything.max())
    width = (high - low or 1.0) / BINS
    height = canvas.size_in_points(ax)[1] / len(lines)  # of a line, in points
    style: dict[str, Any] = {"s": np.clip(0.13 * height, 1.5, 4.5) ** 2, "linewidths": 0, "rasterized": True}
    at = [np.clip(local, low, high) for local in chosen]
    y = [line + apart(np.floor(x / width)) for line, x in enumerate(at)]
    ax.scatter(np.concatenate(at), np.concatenate(y), color=BLUE, alpha=0.6, **style)
    ax.plot(means, np.arange(len(lines)), "D", color=VERMILLION, markersize=5, markeredgecolor="white", zorder=3)
    pad = 0.03 * (high - low or 1.0)
    ax.set_xlim(min(low, 0.0) - pad, max(high, 0.0) + pad)
    return int(((everything < low) | (everything > high)).sum())
