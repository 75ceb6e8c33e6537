"""Shapley feature importance: the ranking, where in a feature's range it comes from, and which features interact."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from itertools import product
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from numpy.typing import NDArray

from losslens.interactions import Interactions
from losslens.plots import canvas
from losslens.plots.canvas import BLUE, INK, LETTER, LINE, PALE, SINGLE, SKY
from losslens.plots.extent import EVERYTHING, beyond, extent
from losslens.plots.group import HELD, MOST_BINS
from losslens.plots.lines import BINS, STRIP
from losslens.plots.ranking import Bar, draw_bars, folded, label_across, open_rows
from losslens.plots.scale import Scale, dress, is_flag, scale
from losslens.plots.shown import Shown
from losslens.plots.wording import MINUS, count, is_absent, labels, number, percent, shorten, value_label
from losslens.shapley_curves import ShapleyCurve
from losslens.shapley_results import ShapleyImportance

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]
MOST_SHARE = 10.0  # features that nearly cancel out have shares of thousands of percent, which say nothing
FEW = 25  # values up to which the curve goes through each; beyond, a running mean shows the shape
WINDOW = 0.15  # of the running mean: share of the rows
POINTS = 200  # of the running mean
HOLDERS = {"own": "rows that hold the value", "donor": "donors that lend the value"}
DASHED: dict[str, Any] = {"color": INK, "linewidth": 1.2, "linestyle": (0, (6, 3))}
MOST_TABLE = 20  # features in a table of our own
NAME = 16  # letters of a name below a column
DIGIT = 0.64  # width of a digit, in font sizes
BAR = 65  # points that the bar of colours takes
LIGHTNESS = np.array([0.299, 0.587, 0.114])  # of red, green and blue
SIZES = ("small", "x-small", "xx-small")  # of the numbers in cells


# -- the ranking ------------------------------------------------------------------------------------------------------


def plot_shapley(result: ShapleyImportance, *, ax: Axes | None = None) -> Axes:
    """Draw what each feature earns of the model's performance, the largest on top, with its share of the whole.

    Parameters
    ----------
    result
        What `losslens.shapley_importance` gives.
    ax
        Where to draw; a new figure by default, as high as the features need.

    Examples
    --------
    >>> import numpy as np, losslens as ll
    >>> X = np.random.default_rng(0).normal(size=(50, 2))
    >>> result = ll.shapley_importance(lambda X: X[:, 1], X, X[:, 1], loss="squared_error")
    >>> [label.get_text() for label in plot_shapley(result).get_yticklabels()]
    ['x1', 'x0']
    """
    lines, what = _intervals(result)
    bars = [Bar(name, float(result.sfimp[j]), lines[j]) for j, name in enumerate(result.features)]
    bars = sorted((bar for bar in bars if np.isfinite(bar.value)), key=lambda bar: -bar.value)
    if not bars:
        raise ValueError("none of the features has a number to rank by: no row that counts met a donor")
    own = ax is None
    ax, most = open_rows(ax, len(bars), below=3)
    width = draw_bars(ax, bars[:most], own, shares=_shares(result, bars[:most]))
    label_across(ax, result.headline.split(";")[0], width)
    notes = _notes(result) + ([what] if any(bar.interval for bar in bars[:most]) else [])
    if most < len(bars):
        notes.append(f"{count(len(bars) - most, 'less important feature')} not shown")
    canvas.caption(ax, notes)
    return ax


def _intervals(result: ShapleyImportance) -> tuple[list[tuple[float, float] | None], str]:
    """A thin line for each feature or none, and what the lines are."""
    what = "lines: 95% intervals"
    try:
        low, high = result.interval()
    except ValueError:  # single rows are not known: what drawing orders and donors adds is all that there is
        low, high = result.interval(target="sample")
        what = "lines: 95% intervals of the Monte-Carlo error alone, not for new data"
    ends = zip(low.tolist(), high.tolist(), strict=True)
    return [pair if np.isfinite(pair).all() and pair[0] < pair[1] else None for pair in ends], what


def _shares(result: ShapleyImportance, bars: Sequence[Bar]) -> list[str]:
    """Percent of what all features take off the error; none where they take off nothing, or nearly cancel out."""
    total = result.error_none - result.error_all
    if not total > 0 or max(abs(bar.value) for bar in bars) > MOST_SHARE * total:
        return []
    return [signed_percent(bar.value / total) for bar in bars]


def signed_percent(share: float) -> str:
    """A share that may be negative."""
    if share >= 0:
        return percent(share)
    return f"{MINUS}{-share:.0%}" if share <= -0.005 else "0%"


def _notes(result: ShapleyImportance) -> list[str]:
    what, sign = ("error", 1) if result.loss is not None else ("score", -1)
    without, complete = number(sign * result.error_none), number(sign * result.error_all)
    notes = [f"{what} {without} without, {complete} with all features"]
    notes.append(f"sums to {number(float(result.sfimp.sum()))}")
    if result.aggregate == "prediction":
        notes.append("SAGE: predictions averaged over donors before the loss")
    return notes if result.complete else [*notes, "stopped by hand"]


# -- along the values -------------------------------------------------------------------------------------------------


def plot_shapley_curve(curve: ShapleyCurve, *, ax: Axes | None = None) -> Axes:
    """Draw where in a feature's range its Shapley importance comes from; the dashed line is its mean, the SFIMP.

    Many ordered values give a pale point each and a running mean; few give a curve; words give bars; a group of
    columns, which has no axis, gives a histogram.

    Parameters
    ----------
    curve
        What ``.curve(feature)`` of a `ShapleyImportance` gives.
    ax
        Where to draw; a new figure by default.

    Examples
    --------
    >>> import numpy as np
    >>> from losslens.shapley_curves import ShapleyCurve
    >>> half, earned = np.array([0.5, 0.5]), np.array([1.0, 3.0])
    >>> curve = ShapleyCurve("age", "own", np.array([30, 60]), half, earned, ("age",), True, "squared error", "numpy")
    >>> ax = plot_shapley_curve(curve)
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('age', 'decrease in squared error')
    """
    if curve.grid.ndim > 1:
        ax = canvas.new_axes() if ax is None else ax
        _draw_group(ax, curve)
    elif not curve.ordered or is_flag(curve.grid):
        ax = _draw_words(ax, curve)
    else:
        ax = canvas.new_axes() if ax is None else ax
        _draw_ordered(ax, curve)
    return ax


def _draw_ordered(ax: Axes, curve: ShapleyCurve) -> None:
    places = scale(curve.grid, curve.weights)
    known = np.isfinite(places.at)
    known[places.present.stop :] = False
    many = int(known.sum()) > FEW
    trace = (places.at[known], curve.importance[known])
    if many:
        trace = running_mean(*trace, curve.weights[known])
    _draw_points(ax, curve, places, pale=many)
    name = f"running mean, {WINDOW:.0%} of the {'rows' if curve.by == 'own' else 'donors'}" if many else None
    ax.plot(*trace, color=BLUE, linewidth=2.4 if many else 1.4, label=name, zorder=4)
    ax.axhline(curve.sfimp, label=f"SFIMP, {number(curve.sfimp)}", zorder=3, **DASHED)
    ax.axhline(0, color=INK, linewidth=0.6, zorder=2)
    _draw_strip(ax, places.at[known], curve.weights[known])
    dress(ax, places, shorten(curve.name, 60))
    ax.set_ylabel(folded(f"decrease in {curve.title}", 0.9 * canvas.size_in_points(ax)[1]), parse_math=False)
    canvas.plain_frame(ax)
    limits = _limits(curve, trace[1], places) if many else EVERYTHING
    canvas.make_room(ax, STRIP, canvas.legend(ax, 0.85 * canvas.size_in_points(ax)[0]), limits)
    canvas.value_ticks(ax.yaxis)
    notes = ["points are sized by weight"] if np.ptp(curve.weights) > 1e-9 else []
    out = beyond(limits, curve.importance)
    cut = f"the axis is cut: {out:,} of {count(len(places.at), 'point')} lie beyond it"
    canvas.caption(ax, [*notes, cut] if out else notes)


def _limits(curve: ShapleyCurve, trace: Floats, places: Scale) -> tuple[float, float]:
    """An axis that shows the shape of the running mean: single values may lie far out."""
    strong = np.append(trace, curve.importance[places.present.stop :])  # the missing value is not pale
    shown = Shown(
        curve.name, curve.columns, (curve.grid,), curve.ordered, strong, "", None, "", level=curve.sfimp
    )  # fmt: skip
    return extent(shown, curve.importance)


def _draw_points(ax: Axes, curve: ShapleyCurve, places: Scale, *, pale: bool) -> None:
    """A point for each value, by its weight; the missing value is a diamond."""
    here, share = places.present, curve.weights / curve.weights.max()
    area = 6 + 60 * share * min(1.0, 2 * FEW / len(share)) if pale else 14 + 60 * share
    style: dict[str, Any] = {"color": PALE, "alpha": 0.5, "zorder": 1} if pale else {"color": BLUE, "zorder": 5}
    name: str | None = HOLDERS[curve.by]
    if places.at[here].size:
        ax.scatter(
            places.at[here], curve.importance[here], s=area[here], linewidths=0, label=name, gid=SINGLE,
            rasterized=pale, **style,
        )  # fmt: skip
        name = None
    if places.missing:
        ax.plot(places.at[-1:], curve.importance[-1:], "D", color=BLUE, markersize=6, label=name, zorder=5)


def _draw_strip(ax: Axes, at: Floats, weights: Floats) -> None:
    """The feature's distribution along the bottom."""
    style: dict[str, Any] = {"color": PALE, "zorder": 0, "transform": ax.get_xaxis_transform(), "label": "distribution"}
    if len(at) > FEW:
        weights, edges = np.histogram(at, bins=BINS, weights=weights)
        ax.stairs(STRIP * weights / weights.max(), edges, fill=True, linewidth=0, **style)
    elif len(at):
        ax.vlines(at, 0, STRIP * np.maximum(weights / weights.max(), 0.06), linewidth=3, **style)


def running_mean(at: Floats, values: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Means over `WINDOW` of the weight, of places and of values: a straight line stays one, up to its ends.

    A mean over half of the window is taken twice, which is smoother than once over all of it.

    >>> at, _ = running_mean(np.arange(100.0), np.zeros(100), np.ones(100))
    >>> x, y = running_mean(np.arange(100.0), 2 * np.arange(100.0), np.ones(100))
    >>> bool(np.allclose(y, 2 * x))
    True
    """
    for _ in range(2):
        edges = np.concatenate([[0.0], np.cumsum(weights) / weights.sum()])
        centre = np.linspace(0, 1, POINTS)
        low, high = np.maximum(centre - WINDOW / 4, 0), np.minimum(centre + WINDOW / 4, 1)
        at, values = (_means_between(edges, some, low, high) for some in (at, values))
        weights = np.ones(POINTS)
    return at, values


def _means_between(edges: Floats, values: Floats, low: Floats, high: Floats) -> Floats:
    """Means of a step function: `values[k]` between `edges[k]` and `edges[k + 1]`."""
    summed = np.concatenate([[0.0], np.cumsum(values * np.diff(edges))])
    return np.asarray((np.interp(high, edges, summed) - np.interp(low, edges, summed)) / (high - low))


def _draw_words(ax: Axes | None, curve: ShapleyCurve) -> Axes:
    own, all_values = ax is None, len(curve.importance)
    ax, most = open_rows(ax, all_values, below=2)
    chosen = np.sort(np.argsort(-curve.weights, kind="stable")[:most])
    if not is_flag(curve.grid):
        chosen = chosen[np.argsort(-curve.importance[chosen], kind="stable")]
    last = np.array([is_absent(curve.grid[k]) for k in chosen], bool)
    order = [*chosen[~last].tolist(), *chosen[last].tolist()]
    names = labels([value_label(curve.grid[k]) for k in order], canvas.letters_beside(ax) - 6)
    names = [f"{name} ({percent(curve.weights[k])})" for name, k in zip(names, order, strict=True)]
    bars = [Bar(name, float(curve.importance[k]), None) for name, k in zip(names, order, strict=True)]
    width = draw_bars(ax, bars, own)
    ax.axvline(curve.sfimp, **DASHED)
    for text in ax.texts:  # the dashed line doesn't strike numbers out
        text.set_bbox({"facecolor": ax.get_facecolor(), "edgecolor": "none", "pad": 0.5})
    label_across(ax, f"decrease in {curve.title}", width)
    ax.set_ylabel(shorten(curve.name, 30), parse_math=False)
    notes = [f"in brackets: share of the {HOLDERS[curve.by]}", f"dashed: their mean, the SFIMP, {number(curve.sfimp)}"]
    if most < all_values:
        notes.append(f"the {most} most frequent of {all_values:,} values")
    canvas.caption(ax, notes)
    return ax


def _draw_group(ax: Axes, curve: ShapleyCurve) -> None:
    ends = np.quantile(curve.importance, HELD)
    bins = int(np.clip(2 * np.sqrt(len(curve.importance)), 5, MOST_BINS))
    clipped = np.clip(curve.importance, *ends)
    ax.hist(clipped, bins=bins, weights=curve.weights, color=SKY, edgecolor=BLUE, linewidth=0.5)
    ax.axvline(0, color=INK, linewidth=0.6)
    ax.axvline(curve.sfimp, **DASHED)
    label_across(ax, f"decrease in {curve.title}", canvas.size_in_points(ax)[0])
    ax.set_ylabel(f"share of the {'rows' if curve.by == 'own' else 'donors'}")
    canvas.plain_frame(ax)
    canvas.value_ticks(ax.xaxis)
    name, members = shorten(curve.name, 60), shorten(", ".join(curve.columns), 60)
    notes = [f"{name} is {count(len(curve.columns), 'column')} ({members}) without a common axis"]
    notes += [f"importance by {HOLDERS[curve.by]}", f"dashed: their mean, the SFIMP, {number(curve.sfimp)}"]
    out = int(np.sum(clipped != curve.importance))
    canvas.caption(
        ax, [*notes, f"the outermost bars hold {count(out, 'value')} from beyond the axis"] if out else notes
    )


# -- pairs ------------------------------------------------------------------------------------------------------------


def plot_interactions(result: Interactions, *, ax: Axes | None = None) -> Axes:
    """Draw how much more each two features are worth together, as a table of colours; the strongest come first.

    Parameters
    ----------
    result
        ``.interactions`` of a `ShapleyImportance`, or what `losslens.pair_interactions` gives.
    ax
        Where to draw; a new figure by default.

    Examples
    --------
    >>> import numpy as np
    >>> from losslens.interactions import Interactions
    >>> index = np.array([[0.0, 0.1, 2.0], [0.1, 0.0, -1.0], [2.0, -1.0, 0.0]])
    >>> found = Interactions(("a", "b", "c"), index, "Shapley interaction index", "squared error", "numpy")
    >>> [label.get_text() for label in plot_interactions(found).get_yticklabels()]
    ['c', 'a', 'b']
    """
    own = ax is None
    ax, order = _open_table(result, ax)
    cells = result.index[np.ix_(order, order)].copy()
    np.fill_diagonal(cells, np.nan)
    reach = float(np.max(np.abs(cells[np.isfinite(cells)]), initial=0.0))
    style: dict[str, Any] = {"cmap": "PuOr_r", "vmin": -(reach or 1.0), "vmax": reach or 1.0, "rasterized": True}
    mesh = ax.pcolormesh(cells, edgecolors="white", linewidth=0.6, **style)
    bar = ax.figure.colorbar(mesh, ax=ax)
    bar.set_label(folded(f"{result.kind}, {result.title}", 0.8 * canvas.size_in_points(ax)[1]), parse_math=False)
    bar.outline.set_visible(False)
    names = [result.features[j] for j in order]
    width = _table_width(ax, names, own)
    _name_table(ax, names, width)
    notes = ["above 0: worth more together", *_write_cells(ax, mesh, cells, width)]
    if np.isnan(cells).sum() > len(order):
        notes.append("blank: not asked for")
    if len(order) < len(result.features):
        notes.append(f"{count(len(result.features) - len(order), 'weaker feature')} not shown")
    _caption(ax, notes)
    return ax


def _open_table(result: Interactions, ax: Axes | None) -> tuple[Axes, Indices]:
    """The axes, and the features that they have room for, those with the strongest interactions first."""
    p = len(result.features)
    size = np.where(np.isfinite(result.index), np.abs(result.index), 0.0)
    order = np.argsort(-(size.sum(axis=1) - size.diagonal()), kind="stable")
    own = ax is None
    ax = canvas.new_axes(min(p, MOST_TABLE) + 4) if ax is None else ax
    width, height = canvas.size_in_points(ax)
    if not own:
        width, height = 0.8 * width, 0.7 * height  # the bar of colours and the names below take some
    fit = int(min(width, height) / (LINE * canvas.font_size(mpl.rcParams["ytick.labelsize"])))
    return ax, order[: min(p, MOST_TABLE if own else max(2, fit))]


def _table_width(ax: Axes, names: Sequence[str], own: bool) -> float:
    """Width of the cells in points, beside their names and the bar of colours, which a layout engine places later."""
    width = canvas.width_beside(ax, labels(names, canvas.letters_beside(ax)), own)
    return width if ax.figure.get_layout_engine() is None else max(0.3 * width, width - BAR)


def _name_table(ax: Axes, features: Sequence[str], width: float) -> None:
    """Names on both axes: upright under narrow columns, slanted where they are longer than a column is wide."""
    p, size = len(features), canvas.font_size(mpl.rcParams["xtick.labelsize"])
    below = labels(features, int(np.clip(canvas.size_in_points(ax)[1] / 3 / size / LETTER, 8, NAME)))
    pitch = width / p
    turn = 0 if max(map(len, below)) * LETTER * size < pitch - 4 else 35 if pitch > 2 * size else 90
    slanted: dict[str, Any] = {"ha": "right", "rotation_mode": "anchor"} if turn == 35 else {}
    ax.set_xticks(np.arange(p) + 0.5, below, parse_math=False, rotation=turn, **slanted)
    ax.set_yticks(np.arange(p) + 0.5, labels(features, canvas.letters_beside(ax)), parse_math=False)
    ax.tick_params(length=0)
    ax.set_ylim(p, 0)
    ax.spines[:].set_visible(False)


def _write_cells(ax: Axes, mesh: QuadMesh, cells: Floats, width: float) -> list[str]:
    """The numbers, if there is room for them; says so if they have a unit."""
    known = [(int(j), int(k)) for j, k in np.argwhere(np.isfinite(cells))]
    reach = max((abs(cells[place]) for place in known), default=0.0)
    power = 3 * int(np.floor(np.log10(reach) / 3)) if reach and not 0.1 <= reach < 1e4 else 0
    room = np.array([width, canvas.size_in_points(ax)[1]]) / len(cells)
    for size, digits in product(SIZES, (2, 1)):
        decimals = max(0, digits - int(np.floor(np.log10(reach or 1.0))) + power)
        texts = [_rounded(cells[place] / 10.0**power, decimals) for place in known]
        letter = canvas.font_size(size)
        if texts and room[0] > (max(map(len, texts)) + 0.5) * DIGIT * letter and room[1] > 1.3 * letter:
            break
    else:
        return []
    for (j, k), text in zip(known, texts, strict=True):
        dark = mesh.to_rgba(cells[j, k])[:3] @ LIGHTNESS < 0.5
        ax.text(k + 0.5, j + 0.5, text, ha="center", va="center", fontsize=size, color="white" if dark else INK)
    return [f"numbers in units of 1e{power}".replace("-", MINUS)] if power else []


def _caption(ax: Axes, sentences: Sequence[str]) -> None:
    """A caption of lines that are shorter where a layout engine will shrink the axes for a bar of colours."""
    canvas.caption(ax, sentences)
    if ax.figure.get_layout_engine() is None:
        return
    letters = int(0.8 * canvas.size_in_points(ax)[0] / (LETTER * canvas.font_size("small")))
    for text in ax.texts:
        if text.get_gid() == canvas.CAPTION:
            text.set_text(textwrap.fill("; ".join(sentences), max(letters, 20)))


def _rounded(value: float, decimals: int) -> str:
    return f"{round(value, decimals) + 0.0:,.{decimals}f}".replace("-", MINUS)  # + 0.0: no minus before a zero
