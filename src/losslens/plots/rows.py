"""Single rows: their influence on an importance, how much the features improve their predictions, and clusters."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes

from losslens.plots import canvas, named_rows
from losslens.plots.canvas import BLUE, INK, LINE, SINGLE, SKY, VERMILLION, evenly, folded
from losslens.plots.importance_axis import bend, check_scale, importance_ticks
from losslens.plots.look import Look, Names
from losslens.plots.marked_rows import Row, draw_ranking
from losslens.plots.options import arrange, colour_map, colours, most_of, name_features, one_colour
from losslens.plots.tables import caption, draw_table
from losslens.plots.wording import count, not_shown, number, percent, renamed, shorten, some_of
from losslens.plots.wording import labels as short_labels
from losslens.results.clusters import Clusters
from losslens.results.observations import Observations
from losslens.results.row_influence import RowInfluence
from losslens.tables.row_labels import Labels, row_name
from losslens.typing import Floats, Indices

MOST_DOTS = 5_000  # rows that are drawn
MOST_MOVED = 10  # rows whose influence is drawn
MOST_NUMBERED = 12  # rows labelled with their numbers
FAR = 10.0  # an axis is bent if its largest value exceeds the 90% quantile more than so many times
MOST_NAME = 18  # letters of a column's name in a rule
BAR = 75.0  # width of the colour bar in points
SHORTEST = 8  # letters of a line of a rule, at least
NUMBERED = "row number"  # gid of artists, to find them again


def plot_row_influence(influence: RowInfluence, ax: Axes | None, look: Look) -> Axes:
    """Draw what the rows that move the importance most add to it, and what all others add together."""
    name, colour = name_features(look.labels, [influence.name]).of(influence.name), one_colour(look.colors, BLUE)
    order = influence.ranking[np.isfinite(influence.total[influence.ranking])]
    if len(order) == 0:
        raise ValueError("no row can be left out: too few would remain to compute the importance")
    called = [f"{i:,}" if influence.row_labels is None else row_name(influence.row_labels, i) for i in order.tolist()]
    rows = [Row(f"row {text}", float(influence.total[i])) for text, i in zip(called, order, strict=True)]

    def notes(drawn: Sequence[Row]) -> list[str]:
        others = f"the {len(drawn)} of {count(len(rows), 'row')} that move it most, as a row and as a donor"
        return [f"importance with all rows: {number(influence.importance)}", others]

    label = f"what the row adds to the importance of {shorten(name, 40)}, {influence.title}"
    fill = SKY if colour == BLUE else colour
    return draw_ranking(ax, rows[:MOST_MOVED], Look(colors=fill), label, notes, by_size=True)


def plot_observations(observations: Observations, ax: Axes | None, look: Look) -> Axes:
    """Draw each row's importance over its loss; suspicious rows are marked with their numbers."""
    x, y, marked = observations.loss, observations.importance, observations.flagged
    plain, striking = colours(look.colors, ("rows", "rows that stand out"), (BLUE, VERMILLION), "kind of row")
    order = np.argsort(y, kind="stable")[: np.isfinite(y).sum()]
    if len(order) == 0:
        raise ValueError("no row has an importance: none has a donor")
    check_scale(look.scale, y)
    ax = canvas.new_axes() if ax is None else ax
    bend(ax.yaxis, look.scale, y)
    if look.scale != "log":
        ax.axhline(0, color=INK, linewidth=0.8, zorder=0)
    notes = [_draw_rows(ax, x, y, order[~np.isin(order, marked)], plain)]
    if (y < 0).any():
        notes.insert(0, f"{count(int(np.sum(y < 0)), 'row')} under 0: better predicted with values from other rows")
    if len(marked):
        ax.axhline(observations.fence, color=striking, linewidth=0.8, linestyle="--", zorder=0)
        style: dict[str, Any] = {"color": striking, "markeredgecolor": "white", "markeredgewidth": 0.6}
        ax.plot(x[marked], y[marked], "D", markersize=6, zorder=3, gid=SINGLE, **style)
    notes += _bend(ax, x)
    _finish(ax, f"{observations.title}, the row's own", f"importance: decrease in {observations.title}")
    if len(marked):
        numbered = _number_rows(ax, x, y, marked[:MOST_NUMBERED], observations.row_labels)
        some = f"{numbered} " if numbered < len(marked) else ""
        named = f"diamonds, {some}with their {_called(observations.row_labels)}"
        stand = "stands" if len(marked) == 1 else "stand"
        notes.insert(0, f"{count(len(marked), 'row')} {stand} out below the dashed line ({named})")
    else:
        notes.insert(0, "no row stands out")
    canvas.caption(ax, notes, 1.05)
    return ax


def _bend(ax: Axes, values: Floats) -> list[str]:
    """An x axis that is linear for most rows and logarithmic beyond, if a few values would squeeze all others."""
    size = np.abs(values[np.isfinite(values)])
    most = float(np.quantile(size, 0.9))
    if not size.max() > FAR * most > 0:
        return []
    ax.set_xscale("symlog", linthresh=most)
    return [f"axis of the row's own loss: linear up to {number(most)}, logarithmic beyond"]


def _draw_rows(ax: Axes, x: Floats, y: Floats, order: Indices, colour: str) -> str:
    """Rows as dots: all, or `MOST_DOTS` evenly along their order; returns a note on how many."""
    chosen = evenly(order, MOST_DOTS)
    size = float(np.clip(6 - np.log10(max(len(chosen), 1)), 2.5, 5))
    style: dict[str, Any] = {"s": size**2, "linewidths": 0, "alpha": 0.6, "rasterized": True, "gid": SINGLE}
    ax.scatter(x[chosen], y[chosen], color=colour, zorder=2, **style)
    return f"dots: {some_of(len(chosen), len(order), 'row')}"


def _finish(ax: Axes, x_label: str, y_label: str) -> None:
    """Ticks, labels, and limits that leave space for numbers beside the outermost rows."""
    ax.margins(0.08)
    ax.autoscale_view()
    ax.set(xlim=ax.get_xlim(), ylim=ax.get_ylim())
    width, height = canvas.size_left(ax)
    importance_ticks(ax.xaxis, width)
    importance_ticks(ax.yaxis)
    named_rows.label_across(ax, x_label, 0.9 * width)
    ax.set_ylabel(folded(y_label, 0.9 * height), parse_math=False)
    canvas.plain_frame(ax)


def _called(labels: Labels | None) -> str:
    """What stands beside the dots."""
    return "numbers" if labels is None else "labels"


def _number_rows(ax: Axes, x: Floats, y: Floats, rows: Indices, labels: Labels | None) -> int:
    """Row numbers, or labels, beside the dots, without those that would overlap an earlier one; returns how many."""
    size, axes = canvas.font_size("small"), canvas.size_left(ax)
    places = ax.transData.transform(np.column_stack([x[rows], y[rows]]))
    places = ax.transAxes.inverted().transform(places) * axes  # in points, in the final layout
    taken: list[tuple[float, float, float]] = []  # left and right end, and y of each text, in points
    for i, dot in zip(rows.tolist(), places.tolist(), strict=True):
        text = f"{i:,}" if labels is None else shorten(row_name(labels, i), 16)
        width = canvas.text_width(text, size)
        left = dot[0] + width + 8 > axes[0]  # of the dot
        start = dot[0] - width - 6 if left else dot[0] + 6
        if any(start < end and begin < start + width and abs(dot[1] - line) < 1.2 * size for begin, end, line in taken):
            continue
        taken.append((start, start + width, dot[1]))
        style: dict[str, Any] = {"va": "center", "fontsize": "small", "color": INK, "zorder": 4, "gid": NUMBERED}
        offset = (-6, 0) if left else (6, 0)
        ax.annotate(text, (x[i], y[i]), offset, textcoords="offset points", ha="right" if left else "left", **style)
    return len(taken)


def plot_clusters(clusters: Clusters, ax: Axes | None, look: Look) -> Axes:
    """Draw the mean importance of each feature in each cluster as a heat map."""
    own, colour_scale = ax is None, colour_map(look.colors, "PuOr_r")
    shown = name_features(look.labels, clusters.features, clusters.columns)
    if clusters.k == 1 and clusters.tried:
        return _no_clusters(clusters, ax)
    names = _cluster_names(clusters, shown, 34, max(2, named_rows.MOST_ROWS // clusters.k))
    if ax is None:
        ax = canvas.new_axes(clusters.k * max(name.count("\n") + 1 for name in names) + 6)
    else:
        letters = max(SHORTEST, named_rows.letters_beside(ax) - 2)
        names = _cluster_names(clusters, shown, letters, max(1, int(0.7 * named_rows.rows_that_fit(ax)) // clusters.k))
    width = max(60.0, named_rows.width_beside(ax, names, own) - BAR)
    fit = int(width / (LINE * canvas.font_size(mpl.rcParams["xtick.labelsize"])))
    order = np.argsort(-(clusters.shares @ np.abs(clusters.profiles)), kind="stable")
    order = arrange(shown.all(clusters.features), order[: min(max(2, fit), most_of(look.top, len(order)))], look.sort)
    title, below = f"decrease in {clusters.title} that a feature earns", [clusters.features[j] for j in order]
    notes = draw_table(ax, clusters.profiles[:, order], names, shown.all(below), title, colour_scale, own)
    caption(ax, notes + _cluster_notes(clusters, len(order)))
    return ax


def _no_clusters(clusters: Clusters, ax: Axes | None) -> Axes:
    """The sentence that says so, in place of a picture."""
    ax = canvas.new_axes(3) if ax is None else ax
    ax.set_axis_off()
    text = folded(clusters._message, canvas.size_in_points(ax)[0])
    ax.text(0.5, 0.5, text, ha="center", va="center", color=INK, transform=ax.transAxes)
    return ax


def _cluster_names(clusters: Clusters, shown: Names, letters: int, most: int) -> list[str]:
    """Number, size and rule of each cluster, in lines of so many letters; no more lines than `most`."""
    names, columns = [], clusters.columns
    # Long names of columns are shortened, so that the conditions are not cut off; names that contain others go first.
    written = short_labels(shown.all(columns), MOST_NAME)
    short = dict(zip(columns, written, strict=True))
    for c, (n, share) in enumerate(zip(clusters.sizes.tolist(), clusters.shares.tolist(), strict=True)):
        size = f"{c}: {count(n, 'row')} ({percent(share)})"
        rule = renamed(clusters.rules[c], short)
        rule = rule or ("" if clusters.k == 1 else "no rule")
        lines = [*textwrap.wrap(size, letters), *textwrap.wrap(rule, letters)]
        if len(lines) > most:
            lines = [*lines[: most - 1], shorten(lines[most - 1], letters - 2) + " …"]
        names.append("\n".join(lines))
    return names


def _cluster_notes(clusters: Clusters, shown: int) -> list[str]:
    notes = []
    if clusters.k > 1:
        notes.append(f"stability {clusters.stability:.2f} (1: two halves of the rows give the same, 0: chance)")
        own, chance = percent(clusters.described), percent(clusters.chance)
        placed = f"rules assign {own} of rows to their cluster ({chance} by chance)"
        notes.append(placed if any(clusters.rules) else "no rules describe them")
    else:
        notes.append("mean over all rows")
    return notes + not_shown(len(clusters.features) - shown)
