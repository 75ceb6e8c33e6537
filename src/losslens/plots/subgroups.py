"""One feature in groups of rows: a curve for each group, or dots where values have no order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from losslens.plots import canvas, named_rows
from losslens.plots.canvas import COLOURS, LOOKS
from losslens.plots.feature_data import FeaturePicture, show
from losslens.plots.importance_axis import bend, check_scale
from losslens.plots.lines import draw_strip, dress_curves, faded_line
from losslens.plots.look import Look, Names
from losslens.plots.marked_rows import Series, draw_series, rows_of_series
from losslens.plots.options import check, check_colours, colours
from losslens.plots.scale import Scale
from losslens.plots.scale import scale as scale_of
from losslens.plots.wording import count, is_flag, number, renamed, value_label
from losslens.plots.wording import labels as short_labels
from losslens.results.effects import FeatureEffect
from losslens.results.importance import FeatureImportance
from losslens.tables.columns import is_missing, key, places_of
from losslens.typing import Colors, FeatureLabels, Floats

MOST_MARKS = 4  # groups whose importances are marked beside the axes: more would overlap
LONGEST = 75  # letters of a group's name beside its curve
MOST_NAME = 18  # letters of a column's name in a rule, in small axes


@dataclass(frozen=True, eq=False)
class Group:
    """One group on the common grid: its curve is NaN at values that the group doesn't have."""

    label: str
    colour: str
    rows: int
    curve: Floats  # (g,)
    level: float | None
    faded: NDArray[np.bool_]  # (g,): where most of the replaced rows are unlike any real one


def plot_groups(
    parts: Mapping[Any, FeatureImportance | FeatureEffect], ax: Axes | None, look: Look, column: str = ""
) -> Axes:
    """Draw the PI or PD curve of a feature in each group, whose labels follow the name of their column."""
    shown = _pictures(parts, look)
    first = next(iter(shown.values()))
    common = _common(first, list(shown.values()), [len(parts[label].at) for label in shown])
    if look.scale != "linear" and not first.from_zero:
        raise ValueError(f"scale={look.scale!r} is of an axis of importances, and these are effects")
    check_scale(look.scale, np.concatenate([picture.curve for picture in shown.values()]))
    check_colours(look.colors, list(parts), "group")
    if first.ordered and not is_flag(common.values[0]):
        own, ax = ax is None, canvas.new_axes() if ax is None else ax
        groups = _groups(parts, shown, common, _fit(ax, own), look.colors, column)
        notes = _draw_curves(ax, common, groups, scattered=first.scattered)
    else:
        ax, groups, notes = _draw_dots(ax, common, parts, shown, look.colors, column)
    canvas.caption(ax, notes + _notes(ax, len(parts), len(shown), groups, common))
    return ax


def name_rules(rules: Sequence[str], columns: Sequence[str], labels: FeatureLabels | None, own: bool) -> dict[str, str]:
    """Rules as they are shown: with the names of `labels`, and in axes of the user's with short names of columns.

    Conditions are not cut off, however long the names are.
    """
    check({"labels": labels})
    names = Names(labels or {})
    texts = list(dict.fromkeys((*columns, *names.labels)))
    shown = names.all(texts) if own else short_labels(names.all(texts), MOST_NAME)
    renamed_rules = [renamed(rule, dict(zip(texts, shown, strict=True))) for rule in rules]
    return dict(zip(rules, renamed_rules if len(set(renamed_rules)) == len(rules) else rules, strict=True))


def _pictures(parts: Mapping[Any, FeatureImportance | FeatureEffect], look: Look) -> dict[Any, FeaturePicture]:
    """What there is to draw of each group; a streamed group of which too few rows are kept has no curve."""
    if not parts:
        raise ValueError("there is no group to draw")
    if len({(part.columns, type(part), getattr(part, "target", None)) for part in parts.values()}) > 1:
        raise ValueError("the groups belong to different features; pass what .by(groups) of one feature returns")
    first = next(iter(parts.values()))
    if len(first.values) == 2 or first.values[0].ndim > 1:
        raise ValueError(f"{first.name!r} has several columns, hence no axis that the groups could share")
    shown, why = {}, None
    for label, part in parts.items():
        try:
            shown[label] = show(part, look)
        except ValueError as error:
            why = error
    if why is not None and not shown:
        raise why
    return shown


def _fit(ax: Axes, own: bool) -> int:
    """How many groups fit into the legend, beside the distribution."""
    return int(np.clip(canvas.legend_room(*canvas.room_left(ax, own))[1] - 1, 3, len(LOOKS)))


def _common(first: FeaturePicture, shown: Sequence[FeaturePicture], rows: Sequence[int]) -> FeaturePicture:
    """The grid of all groups in order, and the weights of its values; a single group may lack some values."""
    grid = max((some.values[0] for some in shown), key=len)
    held = set(map(key, grid))
    extra = [v for some in shown for v in some.values[0] if key(v) not in held]
    if extra:
        every = {key(v): v for v in (*grid, *extra)}.values()
        absent, present = [v for v in every if is_missing(v)], [v for v in every if not is_missing(v)]
        if grid.dtype.kind != "O":
            present = sorted(present)
        merged = np.empty(len(present) + len(absent), grid.dtype)
        merged[:] = [*present, *absent]
        grid = merged
    weights = None
    if all(some.weights is not None for some in shown):
        weights = np.zeros(len(grid))
        for some, n in zip(shown, rows, strict=True):
            weights[places_of(some.values[0], grid)] += np.asarray(some.weights) * n / sum(rows)
    return replace(first, values=(grid,), curve=np.zeros(len(grid)), weights=weights, singles=None, level=None)


def _groups(
    parts: Mapping[Any, Any], shown: Mapping[Any, FeaturePicture], common: FeaturePicture, most: int,
    colors: Colors | None, column: str,
) -> list[Group]:  # fmt: skip
    """The groups with the most rows, in their given order."""
    sizes, grid = {label: len(parts[label].at) for label in shown}, common.values[0]
    largest = sorted(shown, key=lambda label: -sizes[label])[:most]
    chosen, groups = [label for label in shown if label in largest], []
    for label, colour in zip(chosen, colours(colors, chosen, COLOURS, "group", list(parts)), strict=True):
        picture, curve = shown[label], np.full(len(grid), np.nan)
        curve[places_of(picture.values[0], grid)] = picture.curve
        faded = replace(picture, values=(grid,), curve=curve).faded
        name = f"{column} {value_label(label)}".lstrip()
        groups.append(Group(name, colour, sizes[label], curve, picture.level, faded))
    return groups


def _names(groups: Sequence[Group]) -> tuple[list[str], list[str]]:
    """Names with each group's importance and number of rows; long ones are numbers, which the caption explains."""
    names = [_name(group, group.label) for group in groups]
    if max(map(len, names)) <= LONGEST:
        return names, []
    key = "; ".join(f"{k}: {group.label}" for k, group in enumerate(groups, 1))
    return [_name(group, str(k)) for k, group in enumerate(groups, 1)], [key]


def _name(group: Group, name: str) -> str:
    level = "" if group.level is None else f": {number(group.level)}"
    return canvas.legend_name(f"{name}{level} (n = {group.rows:,})")


def _draw_curves(ax: Axes, common: FeaturePicture, groups: Sequence[Group], *, scattered: bool) -> list[str]:
    """A curve for each group; points if each value is paired with other rows. Returns notes for the caption."""
    places = scale_of(common.values[0], common.weights)
    bend(ax.yaxis, common.look.scale, np.concatenate([group.curve for group in groups]))
    names, notes = _names(groups)
    for group, name, (_, dashes, marker) in zip(groups, names, LOOKS, strict=False):
        look = (group.colour, dashes, marker)
        _trace(ax, places, group, name, look, scattered, marked=len(groups) <= MOST_MARKS)
    strip = draw_strip(ax, places, common.weights, common.distribution)
    named = dress_curves(ax, places, common.title, common.axis, strip=strip, zero=common.from_zero)
    return [*named, *notes]


def _trace(
    ax: Axes, places: Scale, group: Group, name: str, look: tuple[str, Any, str], scattered: bool, marked: bool
) -> None:
    """One group; its importance is marked at the left end of the axes."""
    colour, dashes, marker = look
    style: dict[str, Any] = {"color": colour, "linewidth": 1.8, "zorder": 4, "label": name, "marker": marker}
    weak = {"linewidth": 0.9, "alpha": 0.55}
    known = np.isfinite(group.curve)  # a group may lack values of the grid, which its line passes
    named = zip(places.missing, known[places.absent], strict=True)
    own = replace(places, x=places.x[known], missing=tuple(missing for missing, held in named if held))
    line = style | {"linestyle": "none" if scattered else dashes}
    faded_line(ax, own, group.curve[known], group.faded[known], weak, **line)
    if group.level is not None and marked:
        ax.plot(0, group.level, ">", transform=ax.get_yaxis_transform(), clip_on=False, color=colour, markersize=6)


def _draw_dots(
    ax: Axes | None, common: FeaturePicture, parts: Mapping[Any, Any], shown: Mapping[Any, FeaturePicture],
    colors: Colors | None, column: str,
) -> tuple[Axes, list[Group], list[str]]:  # fmt: skip
    """A row for each value, a dot for each group; also returns notes for the caption."""
    grid, letters = common.values[0], 36 if ax is None else named_rows.letters_beside(ax)
    groups = _groups(parts, shown, common, len(LOOKS) if ax is None else _fit(ax, own=False), colors, column)
    (names, notes), legend = _names(groups), 1 + len(groups)
    curves = np.array([group.curve for group in groups])
    finite = np.isfinite(curves)
    means = np.where(finite, curves, 0.0).sum(axis=0) / np.maximum(finite.sum(axis=0), 1)
    order = named_rows.rank_values(grid, means, common.weights, rows_of_series(ax, len(groups), legend))
    values = named_rows.value_names(grid, np.arange(len(grid)), common.weights, letters - 6)
    none = np.full((2, len(grid)), np.nan)
    series = [
        Series(name, group.colour, np.vstack([group.curve, none]), group.faded)
        for name, group in zip(names, groups, strict=True)
    ]
    look = Look(scale=common.look.scale)
    ax, _ = draw_series(ax, look, values, order, series, common.axis, legend=legend, zero=common.from_zero)
    ax.set_ylabel(common.title, parse_math=False)
    return ax, groups, notes


def _notes(ax: Axes, parts: int, shown: int, groups: Sequence[Group], common: FeaturePicture) -> list[str]:
    curves = common.ordered and not is_flag(common.values[0])
    if curves:
        notes = ["triangles at the left: PFI"] if groups[0].level is not None and len(groups) <= MOST_MARKS else []
    else:
        notes = ["in brackets: how often a value occurs"] if common.weights is not None else []
    lines = len(ax.get_yticks())
    if not curves and lines < len(common.values[0]):
        notes.append(f"the {lines} most frequent of {len(common.values[0]):,} values")
    if len(groups) < shown:
        notes.append(f"the largest {len(groups)} of {count(shown, 'group')}")
    if shown < parts:
        why = "too few single rows are kept, or it has no score"
        notes.append(f"{count(parts - shown, 'group')} without a curve left out: {why}")
    if common.scattered:
        notes.append(f"points, not curves: each value is paired with other rows ({common.design})")
    return [*notes, *common.warnings("thin and pale" if curves else "hollow")]
