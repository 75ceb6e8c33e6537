"""Groups of rows side by side: a dot with an interval for each group, or for each feature and group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from losslens.plots import canvas, named_rows
from losslens.plots.canvas import BLUE, DASHED, INK
from losslens.plots.comparison import LEGEND, draw_series
from losslens.plots.importance_axis import bend, check_scale
from losslens.plots.options import arrange, check_colours, colours, most_of, name_features
from losslens.plots.subgroups import COLOURS, LOOKS, separate_rows
from losslens.plots.wording import count, not_shown, number, value_label
from losslens.plots.wording import labels as short_labels
from losslens.results.by_group import ByGroup
from losslens.results.effects import Effects
from losslens.results.shapley_effect import ShapleyEffect
from losslens.typing import AxisScale, Colors, FeatureLabels, Floats, Sort
from losslens.uncertainty.cautions import noted


@canvas.takes_axes
def plot_by_group(
    groups: ByGroup[Any], *, top: int | None = None, sort: Sort = "importance", scale: AxisScale = "linear",
    colors: Colors | None = None, labels: FeatureLabels | None = None, ax: Axes | None = None,
) -> Axes:  # fmt: skip
    """Draw the importance in each group of rows with its 95% interval; of several features, group below group.

    At most 8 groups are drawn for several features, those with the most rows.

    Parameters
    ----------
    groups
        What ``.by(groups)`` gives.
    top
        How many features to draw, the most important ones; all that fit by default.
    sort
        Order of the features: ``"importance"``, ``"name"`` or ``"given"``, the order of the columns.
    scale
        Axis of the importances: ``"linear"``, ``"log"``, or ``"symlog"``, which also shows those up to 0.
    colors
        One colour for all groups, a list in the order of those drawn, or a mapping from their labels to colours.
    labels
        Names to show instead of those of the features: a mapping to a name, or to a name and a unit.
    ax
        Where to draw; a new figure by default, as high as the rows need.

    Examples
    --------
    >>> import numpy as np, losslens as ll
    >>> X = np.random.default_rng(0).normal(size=(60, 2))
    >>> imp = ll.feature_importance(lambda X: X[:, 1], X, 2 * X[:, 1], loss="squared_error")
    >>> place = np.where(X[:, 0] > 0, "north", "south")
    >>> [label.get_text() for label in plot_by_group(imp["x1"].by(place)).get_yticklabels()]
    ['north (n = 30)', 'south (n = 30)']
    >>> [label.get_text() for label in plot_by_group(imp.by(place)).get_yticklabels()]
    ['x1', 'x0']
    """
    if isinstance(groups.every, Effects):
        raise ValueError("every feature has its own curves; name one: plot_curves('x')")
    if not groups.every._of_one:
        return _of_several(groups, top, sort, scale, colors, labels, ax)
    return _of_one(groups, scale, colors, labels, ax)


def _of_one(
    groups: ByGroup[Any], scale: AxisScale, colors: Colors | None, labels: FeatureLabels | None, ax: Axes | None
) -> Axes:
    """A row for each group; a dashed line at the importance in all rows."""
    own, (feature,) = ax is None, groups.features
    shown_as = name_features(labels, groups.features)
    check_scale(scale, _drawn(groups, range(len(groups)), [feature])[0])
    check_colours(colors, groups._labels, "group")
    ax, most = named_rows.open_rows(ax, len(groups), below=3)
    chosen = _largest(groups, most)
    value, ends = _drawn(groups, chosen, [feature])
    _need_some(value)
    bend(ax.xaxis, scale, value)
    fill = colours(colors, [groups._labels[k] for k in chosen], [BLUE] * len(chosen), "group", groups._labels)
    names = short_labels([value_label(groups._labels[k]) for k in chosen], named_rows.letters_beside(ax) - 8)
    ax.scatter(value[:, 0], range(len(chosen)), s=36, color=fill, zorder=4)
    ax.hlines(range(len(chosen)), *ends[:, 0].T, color=fill, linewidth=1.6, zorder=3)
    overall = next(iter(groups._numbers_of_all[feature].values()))
    lines = _zero(ax, scale)
    if np.isfinite(overall) and (scale != "log" or overall > 0):
        lines.append(ax.axvline(overall, label=f"all rows: {number(overall)}", zorder=2, **DASHED))
    shown = [f"{name} (n = {groups.n[k]:,})" for name, k in zip(names, chosen, strict=True)]
    what = groups.what.replace(f"{feature}:", f"{shown_as.of(feature)}:", 1)
    width = named_rows.dress_rows(ax, shown, own, what)
    named_rows.legend_above(ax, width, lines)
    ax.set_ylabel(groups.name, parse_math=False)
    canvas.caption(ax, _notes(groups, chosen, [feature], ends))
    return ax


def _of_several(
    groups: ByGroup[Any], top: int | None, sort: Sort, scale: AxisScale, colors: Colors | None,
    labels: FeatureLabels | None, ax: Axes | None,
) -> Axes:  # fmt: skip
    """A row for each feature, with the groups below each other."""
    own, chosen = ax is None, _largest(groups, len(LOOKS))
    shown_as = name_features(labels, groups.features)
    fill = colours(colors, [groups._labels[k] for k in chosen], COLOURS, "group", groups._labels)
    known = [name for name in groups._ranked if np.isfinite(_drawn(groups, chosen, [name])[0]).any()]
    ranked = known[: most_of(top, len(known))]
    check_scale(scale, _drawn(groups, chosen, ranked)[0])
    high = 0.5 + 0.45 * len(chosen)  # of a feature, in lines of text
    if ax is None:
        most = max(1, int(named_rows.MOST_ROWS / high))
        ax = canvas.new_axes(int(high * min(most, len(ranked))) + LEGEND)
    else:
        most = max(1, int((named_rows.rows_that_fit(ax) - LEGEND) / high))
    every = list(groups.features)
    places = np.array([every.index(name) for name in ranked[:most]], np.intp)
    order = [every[j] for j in arrange(shown_as.all(every), places, sort)]
    value, ends = _drawn(groups, chosen, order)
    _need_some(value)
    bend(ax.xaxis, scale, value)
    names = short_labels([value_label(groups._labels[k]) for k in chosen], 30)
    column = "" if groups.name == "group" else f"{groups.name} "
    for place, (k, name) in enumerate(zip(chosen, names, strict=True)):
        label = f"{column}{name} (n = {groups.n[k]:,})"
        label = f" {label}" if label.startswith("_") else label  # matplotlib omits names that begin with _
        draw_series(ax, place, len(chosen), value[place], ends[place], label, fill[place])
    separate_rows(ax, len(order))
    rows = short_labels(shown_as.all(order), named_rows.letters_beside(ax))
    named_rows.legend_above(ax, named_rows.dress_rows(ax, rows, own, groups.what), _zero(ax, scale))
    unnamed = [] if ax.get_legend() else ["no space to name the groups"]
    left = [count(len(groups.features) - len(known), "feature") + " without a number left out"]
    notes = _notes(groups, chosen, order, ends) + not_shown(len(known) - len(order))
    canvas.caption(ax, unnamed + notes + (left if len(known) < len(groups.features) else []))
    return ax


def _zero(ax: Axes, scale: AxisScale) -> list[Any]:
    """A line at 0, which a logarithmic axis has not."""
    return [] if scale == "log" else [ax.axvline(0, color=INK, linewidth=0.8, zorder=1)]


def _largest(groups: ByGroup[Any], most: int) -> list[int]:
    """The groups with the most rows, in their given order."""
    return sorted(np.argsort(-groups.n, kind="stable")[:most].tolist())


def _drawn(groups: ByGroup[Any], chosen: Sequence[int], features: Sequence[str]) -> tuple[Floats, Floats]:
    """Numbers, (k, p), and the ends of their intervals, (k, p, 2); NaN where there is none."""
    each = list(groups._numbers.values())
    lines = [[each[k][feature] for feature in features] for k in chosen]
    value = np.array([[next(iter(one.values())) for one in line] for line in lines], float)
    ends = [[(one.get("low", np.nan), one.get("high", np.nan)) for one in line] for line in lines]
    return value, np.array(ends, float).reshape(len(chosen), len(features), 2)


def _need_some(value: Floats) -> None:
    if not np.isfinite(value).any():
        raise ValueError("no group has a number to draw; print the result to see why")


def _notes(groups: ByGroup[Any], chosen: Sequence[int], features: Sequence[str], ends: Floats) -> list[str]:
    notes = ["lines: 95% intervals"] if np.isfinite(ends).any() else []
    if isinstance(groups.every, ShapleyEffect):
        notes.append("means over these rows")
    if len(chosen) < len(groups):
        notes.append(f"the largest {len(chosen)} of {count(len(groups), 'group')}")
    each = list(groups._numbers.values())
    said = [each[k][feature].get("caution", "") for k in chosen for feature in features]
    if len(set(filter(None, said))) > 1:  # which, and why, is in the table: sentences take too much space
        return [*notes, f"{sum(map(bool, said))} of {len(said)} intervals with a caution: print the result"]
    return notes + noted(["some"] * len(said), said)
