"""Groups of rows side by side: a dot with an interval for each group, or for each feature and group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from losslens.plots import canvas, named_rows
from losslens.plots.canvas import BLUE, DASHED, INK
from losslens.plots.comparison import LEGEND, draw_series
from losslens.plots.subgroups import LOOKS, separate_rows
from losslens.plots.wording import count, labels, not_shown, number, value_label
from losslens.results.by_group import ByGroup
from losslens.results.effects import Effects
from losslens.results.shapley_effect import ShapleyEffect
from losslens.typing import Floats
from losslens.uncertainty.cautions import noted


@canvas.takes_axes
def plot_by_group(groups: ByGroup[Any], *, ax: Axes | None = None) -> Axes:
    """Draw the importance in each group of rows with its 95% interval; of several features, group below group.

    At most 8 groups are drawn for several features, those with the most rows.

    Parameters
    ----------
    groups
        What ``.by(groups)`` gives.
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
    return _of_several(groups, ax) if groups._is_mapped else _of_one(groups, ax)


def _of_one(groups: ByGroup[Any], ax: Axes | None) -> Axes:
    """A row for each group; a dashed line at the importance in all rows."""
    own, (feature,) = ax is None, groups.features
    ax, most = named_rows.open_rows(ax, len(groups), below=3)
    chosen = _largest(groups, most)
    value, ends = _drawn(groups, chosen, [feature])
    _need_some(value)
    names = labels([value_label(groups._labels[k]) for k in chosen], named_rows.letters_beside(ax) - 8)
    ax.plot(value[:, 0], range(len(chosen)), "o", color=BLUE, markersize=6, zorder=4)
    ax.hlines(range(len(chosen)), *ends[:, 0].T, color=BLUE, linewidth=1.6, zorder=3)
    overall = next(iter(groups._numbers_of_all[feature].values()))
    zero = ax.axvline(0, color=INK, linewidth=0.8, zorder=1)
    lines = [zero]
    if np.isfinite(overall):
        lines.append(ax.axvline(overall, label=f"all rows: {number(overall)}", zorder=2, **DASHED))
    shown = [f"{name} (n = {groups.n[k]:,})" for name, k in zip(names, chosen, strict=True)]
    width = named_rows.dress_rows(ax, shown, own, groups.what)
    named_rows.legend_above(ax, width, lines)
    ax.set_ylabel(groups.name, parse_math=False)
    canvas.caption(ax, _notes(groups, chosen, [feature], ends))
    return ax


def _of_several(groups: ByGroup[Any], ax: Axes | None) -> Axes:
    """A row for each feature, with the groups below each other."""
    own, chosen = ax is None, _largest(groups, len(LOOKS))
    high = 0.5 + 0.45 * len(chosen)  # of a feature, in lines of text
    if ax is None:
        most = max(1, int(named_rows.MOST_ROWS / high))
        ax = canvas.new_axes(int(high * min(most, len(groups.features))) + LEGEND)
    else:
        most = max(1, int((named_rows.rows_that_fit(ax) - LEGEND) / high))
    known = [name for name in groups._ranked if np.isfinite(_drawn(groups, chosen, [name])[0]).any()]
    order = known[:most]
    value, ends = _drawn(groups, chosen, order)
    _need_some(value)
    names = labels([value_label(groups._labels[k]) for k in chosen], 30)
    for place, (k, name) in enumerate(zip(chosen, names, strict=True)):
        blank = " " if name.startswith("_") else ""  # matplotlib omits names that begin with _
        draw_series(ax, place, len(chosen), value[place], ends[place], f"{blank}{name} (n = {groups.n[k]:,})")
    separate_rows(ax, len(order))
    zero = ax.axvline(0, color=INK, linewidth=0.8, zorder=1)
    rows = labels(order, named_rows.letters_beside(ax))
    named_rows.legend_above(ax, named_rows.dress_rows(ax, rows, own, groups.what), [zero])
    unnamed = [] if ax.get_legend() else ["no space to name the groups"]
    left = [count(len(groups.features) - len(known), "feature") + " without a number left out"]
    notes = _notes(groups, chosen, order, ends) + not_shown(len(known) - len(order))
    canvas.caption(ax, unnamed + notes + (left if len(known) < len(groups.features) else []))
    return ax


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
