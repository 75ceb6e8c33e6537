"""Importances of learners, by folds and with permuted targets; and what features add beyond the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.text import Annotation

from losslens.plots import canvas, named_rows
from losslens.plots.bars import table_bars
from losslens.plots.canvas import BAND, BLUE, INK, PALE, SINGLE, VERMILLION
from losslens.plots.importance_axis import bend, check_scale, importance_ticks
from losslens.plots.lines import dress_curves
from losslens.plots.look import Look, Names
from losslens.plots.options import arrange, check_colours, colours, most_of, name_features, one_colour
from losslens.plots.scale import scale as scale_of
from losslens.plots.wording import count, not_shown, number, shorten, value_label
from losslens.plots.wording import labels as short_labels
from losslens.results.permuted_target import PermutedTarget
from losslens.results.refits import RefitCurve, Refits
from losslens.results.row_changes import RowChanges
from losslens.typing import AxisScale, Floats, Indices
from losslens.uncertainty.cautions import noted


def plot_refits(refits: Refits, ax: Axes | None, look: Look) -> Axes:
    """Draw the ranking with a dot for each fold."""
    names = name_features(look.labels, refits.features)
    ax, drawn, width = table_bars(ax, refits._table(), refits.features, look)
    dots = refits.per_fold[:, drawn]
    style: dict[str, Any] = {"color": BLUE, "markersize": 4, "markerfacecolor": "white", "markeredgewidth": 1}
    _draw_repeats(ax, dots, "o", zorder=3, **style)
    _make_way(ax, dots)
    importance_ticks(ax.xaxis, width)
    named_rows.label_across(ax, refits.headline.split(";")[0], width)
    error = f"mean {refits.measure} with nothing replaced: {number(float(refits.errors.mean()))}"
    lines = f"lines: 95% intervals for the learner ({refits.variance} variance)"
    notes = [error, f"dots: {count(len(refits.folds), 'fold')}", lines]
    cautions = _cautions(refits.features, refits.caution, drawn, names)
    canvas.caption(ax, notes + cautions + not_shown(len(refits.features) - len(drawn)))
    return ax


def plot_impact(impact: RowChanges, ax: Axes | None, look: Look) -> Axes:
    """Draw the ranking."""
    names = name_features(look.labels, impact.features)
    ax, drawn, width = table_bars(ax, impact._table(), impact.features, look)
    named_rows.label_across(ax, impact.what, width)
    notes = [f"error {impact.untouched}: {number(impact.error)}", "lines: 95% intervals"]
    cautions = _cautions(impact.features, impact.caution, drawn, names)
    canvas.caption(ax, notes + cautions + not_shown(len(impact.features) - len(drawn)))
    return ax


def _cautions(features: Sequence[str], caution: Sequence[str], drawn: Indices, names: Names) -> list[str]:
    """Cautions on the features that are drawn, in the given order."""
    places = np.sort(drawn)
    return noted([names.of(features[j]) for j in places], [caution[j] for j in places])


def plot_permuted_target(test: PermutedTarget, ax: Axes | None, look: Look) -> Axes:
    """Draw each feature's importance over its importances with permuted targets."""
    own = ax is None
    names, ranked = name_features(look.labels, test.features), np.argsort(-test.importance, kind="stable")
    ranked = ranked[: most_of(look.top, len(ranked))]
    check_scale(look.scale, test.importance[ranked])
    check_colours(look.colors, test.features, "feature")
    ax, most = named_rows.open_rows(ax, len(ranked) + 2)
    order = arrange(names.all(test.features), ranked[: max(1, most - 2)], look.sort)
    features = [test.features[j] for j in order]
    fill = colours(look.colors, features, [VERMILLION] * len(order), "feature", test.features)
    bend(ax.xaxis, look.scale, test.importance[order])
    name = f"target permuted, {count(len(test.null), 'time')}"
    _draw_repeats(ax, test.null[:, order], "|", color=PALE, markersize=9, alpha=0.6, label=name, zorder=1)
    style: dict[str, Any] = {"marker": "D", "s": 36, "label": "importance", "zorder": 3}
    ax.scatter(test.importance[order], np.arange(len(order)), color=fill, **style)
    zero = [] if look.scale == "log" else [ax.axvline(0, color=INK, linewidth=0.8, zorder=0)]
    short = short_labels(names.all(features), named_rows.letters_beside(ax) - 8)
    rows = [f"{text} (p = {test.p_values[j]:.2g})" for text, j in zip(short, order, strict=True)]
    named_rows.legend_above(ax, named_rows.dress_rows(ax, rows, own, test.what), zero)
    notes = ["p: share of the permutations with at least this importance, the original included"]
    canvas.caption(ax, notes + not_shown(len(test.features) - len(order)))
    return ax


def plot_refit_curve(curve: RefitCurve, ax: Axes | None, look: Look) -> Axes:
    """Draw the curves of the folds and their mean."""
    names, colour = name_features(look.labels, [curve.name]), one_colour(look.colors, BLUE)
    check_scale(look.scale, curve.importance)
    folds = curve.folds if look.curves else curve.folds[:0]
    if not curve.ordered:
        return _draw_words(curve, folds, ax, names, colour, look.scale)
    ax = canvas.new_axes() if ax is None else ax
    places = scale_of(curve.grid, None)
    bend(ax.yaxis, look.scale, curve.importance)
    at, here, separate = places.at, places.present, places.kind == "word"  # nothing lies between words
    for k, one in enumerate(folds):
        label = count(len(curve.folds), "fold") if k == 0 else None
        style: dict[str, Any] = {"color": PALE, "linewidth": 0.8, "marker": "." if separate else None}
        ax.plot(at[here], one[here], label=label, zorder=1, gid=SINGLE, **style)
    mean, low, high = curve.importance, curve.importance - curve.reach, curve.importance + curve.reach
    name = f"{curve.level:.0%} for the learner"
    if separate:
        ax.vlines(at[here], low[here], high[here], color=colour, label=name, zorder=2, gid=BAND)
        ax.plot(at[here], mean[here], "D", color=colour, label="mean", zorder=3)
    else:
        style = {"color": colour, "alpha": 0.22, "linewidth": 0, "gid": BAND}
        ax.fill_between(at[here], low[here], high[here], label=name, zorder=2, **style)
        ax.plot(at[here], mean[here], color=colour, linewidth=2.4, label="mean", zorder=3)
    if places.missing:
        absent = places.absent
        ax.plot(np.tile(at[absent], len(folds)), folds[:, absent].ravel(), ".", color=PALE, zorder=1, gid=SINGLE)
        ax.errorbar(at[absent], mean[absent], curve.reach[absent], fmt="D", color=colour, zorder=3)
    dress_curves(ax, places, shorten(names.title(curve.name), 60), curve.what)
    notes = ["intervals: for each value separately"]
    notes += ["folds are drawn over the values of their test rows"] if look.curves else []
    canvas.caption(ax, notes + noted([names.of(curve.name)], [curve.caution]))
    return ax


def _draw_words(curve: RefitCurve, folds: Floats, ax: Axes | None, names: Names, colour: str, bent: AxisScale) -> Axes:
    """A row for each value, the most important on top: a dot for each fold, a line for the learner's interval."""
    own = ax is None
    ax, most = named_rows.open_rows(ax, min(len(curve.grid), named_rows.MOST_ROWS) + 2)
    order = np.argsort(-np.nan_to_num(curve.importance, nan=-np.inf), kind="stable")[: max(1, most - 2)]
    rows, mean, reach = np.arange(len(order)), curve.importance[order], curve.reach[order]
    bend(ax.xaxis, bent, curve.importance)
    if len(folds):
        _draw_repeats(ax, folds[:, order], ".", color=PALE, label=count(len(folds), "fold"), zorder=2.5)
    ax.hlines(rows, mean - reach, mean + reach, color=colour, label=f"{curve.level:.0%} for the learner", gid=BAND)
    ax.plot(mean, rows, "o", color=colour, label="mean", zorder=3)
    values = short_labels([value_label(curve.grid[k]) for k in order], named_rows.letters_beside(ax))
    ax.set_ylabel(shorten(names.title(curve.name), 40), parse_math=False)
    named_rows.legend_above(ax, named_rows.dress_rows(ax, values, own, curve.what))
    notes = noted([names.of(curve.name)], [curve.caution])
    canvas.caption(ax, notes + not_shown(len(curve.grid) - len(order), "less important value"))
    return ax


def _draw_repeats(ax: Axes, values: Floats, marker: str, **style: Any) -> None:
    """A marker for each fold or permutation in each row; values: (repeats, rows)."""
    at = np.broadcast_to(np.arange(values.shape[1]), values.shape)
    ax.plot(values.ravel(), at.ravel(), marker, gid=SINGLE, **style)


def _make_way(ax: Axes, dots: Floats) -> None:
    """Move the numbers right of the dots of their rows, (folds, rows), and extend the axis to all dots."""
    numbers, bent = [text for text in ax.texts if isinstance(text, Annotation)], ax.xaxis.get_transform()
    left, right, before = bent.transform([*ax.get_xlim(), max(text.xy[0] for text in numbers)])
    for row, text in enumerate(numbers):
        text.xy = (max(text.xy[0], float(dots[:, row].max())), row)
    after, lowest = bent.transform([max(text.xy[0] for text in numbers), float(dots.min())])
    right = left + (after - left) / (before - left) * (right - left) if before > left else right
    if lowest < left and ax.get_xscale() != "log":
        left = lowest - 0.03 * (right - lowest)
    ax.set_xlim(*bent.inverted().transform([left, right]).tolist())
