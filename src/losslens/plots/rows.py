"""Single rows: how far each moves an importance, how much the model's knowledge helps it, and clusters of them."""

from __future__ import annotations

import textwrap
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh

from losslens.plots import canvas
from losslens.plots.bars import label_across, not_shown
from losslens.plots.canvas import BLUE, INK, LINE, MOST_ROWS, SINGLE, VERMILLION
from losslens.plots.scale import word_ticks
from losslens.plots.wording import count, labels, number, percent, shorten
from losslens.results.clusters import Clusters
from losslens.results.observations import Observations
from losslens.results.row_influence import RowInfluence
from losslens.typing import Floats, Indices

MOST_DOTS = 5_000
MOST_NUMBERED = 12  # rows with their numbers
FAR = 10.0  # how far beyond nine tenths of the rows the others lie where an axis is bent
MOST_POWERS = 4  # of ten on a bent axis
MOST_NAME = 18  # letters of a column's name in a rule
BAR = 75.0  # points that the bar of colours takes
SHORTEST = 8  # letters of a line of a rule
NUMBERED = "row number"  # mark of artists, to find them again


def plot_row_influence(influence: RowInfluence, *, ax: Axes | None = None) -> Axes:
    """Draw how far each row moves a feature's importance: as a donor, over as an observation.

    Parameters
    ----------
    influence
        ``.row_influence`` of one feature of what `losslens.feature_importance` gives.
    ax
        Where to draw; a new figure by default.

    Examples
    --------
    >>> import numpy as np, losslens as ll
    >>> X = np.random.default_rng(0).normal(size=(50, 2))
    >>> imp = ll.feature_importance(lambda X: X[:, 1], X, X[:, 1], loss="squared_error")
    >>> plot_row_influence(imp["x1"].row_influence).get_ylabel()
    'as a donor'
    """
    ax = canvas.new_axes() if ax is None else ax
    known = influence.order[np.isfinite(influence.total[influence.order])]
    if len(known) == 0:
        raise ValueError("no row can be left out: nothing would remain to tell the importance from")
    x, y = influence.as_row, influence.as_donor
    ax.axhline(0, color=INK, linewidth=0.6, zorder=0)
    ax.axvline(0, color=INK, linewidth=0.6, zorder=0)
    moved = known[np.abs(influence.total[known]) > 0][:MOST_NUMBERED]
    drawn = _draw_rows(ax, x, y, known, moved)
    what = f"what the row adds to the importance of {shorten(influence.name, 40)}"
    _finish(ax, f"as an observation: {what}", "as a donor")
    _number_rows(ax, x, y, moved)
    notes = [f"importance with all rows: {number(influence.unbiased)} ({influence.title})", drawn]
    notes.append("numbers: rows that move it most, both roles together")
    canvas.caption(ax, notes, 1.05)
    return ax


def plot_observations(observations: Observations, *, ax: Axes | None = None) -> Axes:
    """Draw how much the model's knowledge helps each row, over the row's loss; suspicious rows have their numbers.

    Parameters
    ----------
    observations
        What `losslens.observations` gives.
    ax
        Where to draw; a new figure by default.

    Examples
    --------
    >>> import numpy as np, losslens as ll
    >>> X = np.random.default_rng(0).normal(size=(50, 2))
    >>> shares = ll.shapley_importance(lambda X: X[:, 1], X, X[:, 1], loss="squared_error")
    >>> plot_observations(ll.observations(shares)).get_xlabel()
    "squared error, the row's own"
    """
    ax = canvas.new_axes() if ax is None else ax
    x, y, marked = observations.loss, observations.importance, observations.suspicious
    known = np.argsort(y, kind="stable")[: np.isfinite(y).sum()]
    if len(known) == 0:
        raise ValueError("no row has an importance: none met a donor")
    ax.axhline(0, color=INK, linewidth=0.8, zorder=0)
    notes = [_draw_rows(ax, x, y, known[~np.isin(known, marked)], marked[:0])]
    if (y < 0).any():
        notes.insert(0, f"{count(int(np.sum(y < 0)), 'row')} under 0: better predicted without knowing them")
    if len(marked):
        ax.axhline(observations.fence, color=VERMILLION, linewidth=0.8, linestyle="--", zorder=0)
        style: dict[str, Any] = {"color": VERMILLION, "markeredgecolor": "white", "markeredgewidth": 0.6}
        ax.plot(x[marked], y[marked], "D", markersize=6, zorder=3, gid=SINGLE, **style)
    _bend(ax, x)
    _finish(ax, f"{observations.title}, the row's own", f"importance: decrease in {observations.title}")
    if len(marked):
        numbered = _number_rows(ax, x, y, marked[:MOST_NUMBERED])
        with_numbers = f", {numbered} with their numbers" if numbered < len(marked) else ", with their numbers"
        notes.insert(0, f"diamonds: {count(len(marked), 'suspicious row')}{with_numbers}")
        notes.insert(1, "dashed: where they begin")
    else:
        notes.insert(0, "no row is suspicious")
    canvas.caption(ax, notes, 1.05)
    return ax


def _bend(ax: Axes, values: Floats) -> None:
    """A scale that is linear for most rows and logarithmic beyond, where a few values would squeeze all others."""
    size = np.abs(values[np.isfinite(values)])
    most = float(np.quantile(size, 0.9))
    if not size.max() > FAR * most > 0:
        return
    ax.set_xscale("asinh", linear_width=most)
    first, last = int(np.ceil(np.log10(2 * most))), int(np.floor(np.log10(size.max())))
    step = -(-(last - first + 1) // MOST_POWERS)
    powers = 10.0 ** np.arange(first, last + 1, max(1, step))
    ticks = [*(-powers[::-1] if values.min() < -most else []), 0.0, *powers]
    ax.set_xticks(ticks, [number(tick).removesuffix(".0").removesuffix(".00") for tick in ticks], minor=False)
    ax.set_xticks([], minor=True)


def _draw_rows(ax: Axes, x: Floats, y: Floats, order: Indices, always: Indices) -> str:
    """Rows as dots: all, or so many evenly along their order and some in any case; says how many."""
    chosen = order
    if len(order) > MOST_DOTS:
        chosen = np.union1d(canvas.evenly(order, MOST_DOTS - len(always)), always)
    size = float(np.clip(6 - np.log10(max(len(chosen), 1)), 2.5, 5))
    style: dict[str, Any] = {"s": size**2, "linewidths": 0, "alpha": 0.6, "rasterized": True, "gid": SINGLE}
    ax.scatter(x[chosen], y[chosen], color=BLUE, zorder=2, **style)
    many = f"{len(chosen):,} of {count(len(order), 'row')}" if len(chosen) < len(order) else count(len(order), "row")
    return f"dots: {many}"


def _finish(ax: Axes, across: str, up: str) -> None:
    """Limits with room for numbers beside the outermost rows, ticks and labels."""
    ax.margins(0.08)
    ax.autoscale_view()
    ax.set(xlim=ax.get_xlim(), ylim=ax.get_ylim())
    width, height = canvas.size_left(ax)
    if ax.get_xscale() == "linear":
        canvas.value_ticks(ax.xaxis, width)
    canvas.value_ticks(ax.yaxis)
    label_across(ax, across, 0.9 * width)
    ax.set_ylabel(canvas.folded(up, 0.9 * height), parse_math=False)
    canvas.plain_frame(ax)


def _number_rows(ax: Axes, x: Floats, y: Floats, rows: Indices) -> int:
    """The numbers of these rows beside them; one that would lie over an earlier one is left out. Returns how many."""
    size, room = canvas.font_size("small"), canvas.size_left(ax)
    places = ax.transData.transform(np.column_stack([x[rows], y[rows]]))
    places = ax.transAxes.inverted().transform(places) * room  # in points, once everything has its place
    taken: list[tuple[float, float, float]] = []  # left and right end, and height of the line, in points
    for i, at in zip(rows.tolist(), places.tolist(), strict=True):
        text = f"{i:,}"
        width = canvas.text_width(text, size)
        turned = at[0] + width + 8 > room[0]
        start = at[0] - width - 6 if turned else at[0] + 6
        if any(start < end and begin < start + width and abs(at[1] - line) < 1.2 * size for begin, end, line in taken):
            continue
        taken.append((start, start + width, at[1]))
        style: dict[str, Any] = {"va": "center", "fontsize": "small", "color": INK, "zorder": 4, "gid": NUMBERED}
        offset = (-6, 0) if turned else (6, 0)
        ax.annotate(text, (x[i], y[i]), offset, textcoords="offset points", ha="right" if turned else "left", **style)
    return len(taken)


# -- clusters ---------------------------------------------------------------------------------------------------------


def plot_clusters(clusters: Clusters, *, ax: Axes | None = None) -> Axes:
    """Draw how much the model gains from each feature in each cluster: a table of colours, with sizes and rules.

    Parameters
    ----------
    clusters
        What `losslens.clusters` gives.
    ax
        Where to draw; a new figure by default, as high as the rules need.

    Examples
    --------
    >>> import numpy as np, losslens as ll
    >>> X = np.random.default_rng(0).normal(size=(50, 2))
    >>> shares = ll.shapley_importance(lambda X: X[:, 1], X, X[:, 1], loss="squared_error")
    >>> [label.get_text() for label in plot_clusters(ll.clusters(shares, X, k=1)).get_yticklabels()]
    ['0: 50 rows (100%)']
    """
    own = ax is None
    names = _cluster_names(clusters, 34, max(2, MOST_ROWS // clusters.k))
    if ax is None:
        ax = canvas.new_axes(clusters.k * max(name.count("\n") + 1 for name in names) + 6)
    else:
        letters = max(SHORTEST, canvas.letters_beside(ax) - 2)
        names = _cluster_names(clusters, letters, max(1, int(0.7 * canvas.rows_that_fit(ax)) // clusters.k))
    width = max(60.0, canvas.width_beside(ax, names, own) - BAR)
    fit = int(width / (LINE * canvas.font_size(mpl.rcParams["xtick.labelsize"])))
    order = np.argsort(-(clusters.shares @ np.abs(clusters.profiles)), kind="stable")[: max(2, fit)]
    cells = clusters.profiles[:, order]
    reach = float(np.abs(cells).max()) or 1.0
    edges = np.arange(len(order) + 1) - 0.5, np.arange(clusters.k + 1) - 0.5
    style: dict[str, Any] = {"cmap": "PuOr_r", "vmin": -reach, "vmax": reach, "rasterized": True}
    mesh = ax.pcolormesh(*edges, cells, edgecolors="white", linewidth=0.6, **style)
    aspect = max(8.0, canvas.size_in_points(ax)[1] / 14)
    canvas.colour_bar(ax, mesh, f"decrease in {clusters.title} that a feature earns", 0.7, aspect=aspect)
    canvas.name_rows(ax, names)
    ax.set_ylim(clusters.k - 0.5, -0.5)
    shown = labels([clusters.features[j] for j in order], 24)
    word_ticks(ax.xaxis, np.arange(len(order), dtype=float), shown, width, turn=True)
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    _write(ax, mesh, cells, width)
    canvas.caption(ax, _cluster_notes(clusters, len(order)), 0.8)
    return ax


def _cluster_names(clusters: Clusters, letters: int, most: int) -> list[str]:
    """Number, size and rule of each cluster, in lines of so many letters; no more lines than `most`."""
    found = []
    for c, (n, share) in enumerate(zip(clusters.sizes.tolist(), clusters.shares.tolist(), strict=True)):
        told = f"{c}: {count(n, 'row')} ({percent(share)})"
        rule = _with_short_names(clusters.rules[c], clusters.columns) or ("" if clusters.k == 1 else "no rule")
        lines = [*textwrap.wrap(told, letters), *textwrap.wrap(rule, letters)]
        if len(lines) > most:
            lines = [*lines[: most - 1], shorten(lines[most - 1], letters - 2) + " …"]
        found.append("\n".join(lines))
    return found


def _with_short_names(rule: str, columns: tuple[str, ...]) -> str:
    """The rule with long names of columns shortened, so that what it says of them is not lost behind them."""
    for name, short in sorted(zip(columns, labels(columns, MOST_NAME), strict=True), key=lambda pair: -len(pair[0])):
        rule = rule.replace(name, short)
    return rule


def _write(ax: Axes, mesh: QuadMesh, cells: Floats, width: float) -> None:
    """The numbers, where there is room for them."""
    texts = [[number(float(value)) for value in row] for row in cells]
    for size in ("small", "x-small"):
        letter = canvas.font_size(size)
        widest = max(canvas.text_width(text, letter) for row in texts for text in row)
        if widest + 4 < width / cells.shape[1] and 1.3 * letter < 0.7 * canvas.size_in_points(ax)[1] / len(cells):
            break
    else:
        return
    for c, j in np.ndindex(cells.shape):
        colour = canvas.ink_on(mesh.to_rgba(cells[c, j]))
        ax.text(j, c, texts[c][j], ha="center", va="center", fontsize=size, color=colour)


def _cluster_notes(clusters: Clusters, shown: int) -> list[str]:
    notes = []
    if clusters.k > 1:
        notes.append(f"stability {clusters.stability:.2f} (1: halves of the rows agree, 0: chance)")
        notes.append(f"rules place {percent(clusters.described)} of rows ({percent(clusters.chance)} without)")
    elif clusters.tried:
        notes.append("the rows fall into no parts that are stable and lie apart")
    else:
        notes.append("mean over all rows")
    return notes + not_shown(len(clusters.features) - shown)
