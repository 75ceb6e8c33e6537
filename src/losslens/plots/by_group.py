"""Groups of rows side by side: a dot with an interval for each group, or for each feature and group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from losslens.plots import canvas, named_rows
from losslens.plots.canvas import BLUE, COLOURS, DASHED, INK, LOOKS
from losslens.plots.comparison import Series, draw_series
from losslens.plots.importance_axis import bend, check_scale
from losslens.plots.look import Look
from losslens.plots.options import check_colours, colours, name_features
from losslens.plots.wording import count, not_shown, number, value_label
from losslens.plots.wording import labels as short_labels
from losslens.results.by_group import ByGroup
from losslens.results.effects import Effects
from losslens.results.shapley_effect import ShapleyEffect
from losslens.typing import Floats
from losslens.uncertainty.cautions import noted


def plot_by_group(groups: ByGroup[Any], ax: Axes | None, look: Look) -> Axes:
    """The number of each group, or of each feature and group, with 95% intervals."""
    if isinstance(groups.every, Effects):
        raise ValueError("every feature has its own curves; name one: plot_curves('x')")
    name_features(look.labels, groups.features)
    return (_of_one if groups.every._of_one else _of_several)(groups, ax, look)


def _of_one(groups: ByGroup[Any], ax: Axes | None, look: Look) -> Axes:
    """A row for each group; a dashed line at the importance in all rows."""
    own, (feature,), labels = ax is None, groups.features, groups._labels
    check_scale(look.scale, _numbers(groups, range(len(groups)), [feature])[0])
    check_colours(look.colors, labels, "group")
    ax, most = named_rows.open_rows(ax, len(groups), below=3)
    chosen = _largest(groups, most)
    numbers = _numbers(groups, chosen, [feature])
    value, low, high = numbers[..., 0]
    _need_some(value)
    bend(ax.xaxis, look.scale, value)
    fill = colours(look.colors, [labels[k] for k in chosen], [BLUE] * len(chosen), "group", labels)
    names = short_labels([value_label(labels[k]) for k in chosen], named_rows.letters_beside(ax) - 8)
    ax.scatter(value, range(len(chosen)), s=36, color=fill, zorder=4)
    ax.hlines(range(len(chosen)), low, high, color=fill, linewidth=1.6, zorder=3)
    overall = next(iter(groups._numbers_of_all[feature].values()))
    lines = [] if look.scale == "log" else [ax.axvline(0, color=INK, linewidth=0.8, zorder=1)]
    if np.isfinite(overall) and (look.scale != "log" or overall > 0):
        lines.append(ax.axvline(overall, label=f"all rows: {number(overall)}", zorder=2, **DASHED))
    shown = [f"{name} (n = {groups.n[k]:,})" for name, k in zip(names, chosen, strict=True)]
    what = groups.what.replace(f"{feature}:", f"{look.names.of(feature)}:", 1)
    named_rows.legend_above(ax, named_rows.dress_rows(ax, shown, own, what), lines)
    ax.set_ylabel(groups.name, parse_math=False)
    canvas.caption(ax, _notes(groups, chosen, [feature], numbers))
    return ax


def _of_several(groups: ByGroup[Any], ax: Axes | None, look: Look) -> Axes:
    """A row for each feature, with the groups below each other."""
    chosen, features = _largest(groups, len(LOOKS)), list(groups.features)
    labels = [groups._labels[k] for k in chosen]
    fill = colours(look.colors, labels, COLOURS, "group", groups._labels)
    numbers = _numbers(groups, chosen, features)
    finite = np.isfinite(numbers[0]).any(axis=0)
    ranked = np.array([j for j in map(features.index, groups._ranked) if finite[j]], np.intp)
    _need_some(numbers[0])
    column = "" if groups.name == "group" else f"{groups.name} "
    names = short_labels([value_label(label) for label in labels], 30)
    series = [
        Series(f"{column}{name} (n = {groups.n[k]:,})", colour, numbers[:, place])
        for place, (k, name, colour) in enumerate(zip(chosen, names, fill, strict=False))
    ]
    ax, order = draw_series(ax, look, features, ranked, series, groups.what)
    unnamed = [] if ax.get_legend() else ["no space to name the groups"]
    notes = _notes(groups, chosen, [features[j] for j in order], numbers[..., order])
    notes += not_shown(len(ranked) - len(order))
    missing = len(features) - len(ranked)
    left = [f"{count(missing, 'feature')} without a number left out"] if missing else []
    canvas.caption(ax, unnamed + notes + left)
    return ax


def _largest(groups: ByGroup[Any], most: int) -> list[int]:
    """The groups with the most rows, in their given order."""
    return sorted(np.argsort(-groups.n, kind="stable")[:most].tolist())


def _numbers(groups: ByGroup[Any], chosen: Sequence[int], features: Sequence[str]) -> Floats:
    """Values and the ends of their intervals, (3, k, p); NaN where there is none."""
    each = list(groups._numbers.values())
    cells = [[each[k][feature] for feature in features] for k in chosen]
    value = [[next(iter(cell.values())) for cell in line] for line in cells]
    ends = [[[cell.get(end, np.nan) for cell in line] for line in cells] for end in ("low", "high")]
    return np.array([value, *ends], float)


def _need_some(value: Floats) -> None:
    if not np.isfinite(value).any():
        raise ValueError("no group has a number to draw; print the result to see why")


def _notes(groups: ByGroup[Any], chosen: Sequence[int], features: Sequence[str], numbers: Floats) -> list[str]:
    notes = ["lines: 95% intervals"] if np.isfinite(numbers[1:]).any() else []
    if isinstance(groups.every, ShapleyEffect):
        notes.append("means over these rows")
    if len(chosen) < len(groups):
        notes.append(f"the largest {len(chosen)} of {count(len(groups), 'group')}")
    each = list(groups._numbers.values())
    cautions = [each[k][feature].get("caution", "") for k in chosen for feature in features]
    if len(set(filter(None, cautions))) > 1:  # which, and why, is in the table: sentences take too much space
        return [*notes, f"{sum(map(bool, cautions))} of {len(cautions)} intervals with a caution: print the result"]
    return notes + noted(["some"] * len(cautions), cautions)
