"""One feature in groups of rows: a curve for each group, or dots where values have no order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from losslens.plots import canvas
from losslens.plots.bars import dress_rows, legend_above
from losslens.plots.canvas import BLUE, GREEN, INK, MOST_ROWS, PALE, SKY, VERMILLION
from losslens.plots.dots import value_names, value_order
from losslens.plots.feature_data import FeaturePicture, show
from losslens.plots.lines import MARKED, draw_strip, widened
from losslens.plots.scale import Scale, dress, is_flag, scale
from losslens.plots.wording import count, is_absent, labels, number, value_label
from losslens.results.effects import FeatureEffect
from losslens.results.importance import FeatureImportance
from losslens.typing import Floats, Indices

# Colour, dashes and shape differ, so that groups can be told apart in print.
LOOKS: tuple[tuple[str, Any, str], ...] = (
    (BLUE, "-", "o"),
    (VERMILLION, (0, (4, 1.5)), "s"),
    (GREEN, (0, (1.2, 1)), "^"),
    ("#CC79A7", (0, (5, 1.5, 1, 1.5)), "D"),
    ("#E69F00", "-", "v"),
    (SKY, (0, (4, 1.5)), "P"),
    (INK, (0, (1.2, 1)), "X"),
    ("0.5", (0, (5, 1.5, 1, 1.5)), "*"),
)
MOST_MARKS = 4  # groups whose importances are marked beside the axes: more would lie over each other
LETTERS, LEGEND = (90, 60, 40, 24), 0.3  # of a group's name, where the legend takes no more of the height
SPREAD = 0.7  # of the dots of one value, in rows


@dataclass(frozen=True, eq=False)
class Group:
    """One group on the grid of all: its curve is NaN at values that none of its rows met."""

    label: str
    rows: int
    curve: Floats  # (g,)
    level: float | None
    faded: NDArray[np.bool_]  # (g,): where most of the replaced rows are unlike any real one


def plot_groups(parts: Mapping[Any, FeatureImportance | FeatureEffect], *, ax: Axes | None = None) -> Axes:
    """Draw the PI or PD curve of each group of rows; the legend has each group's importance and number of rows.

    Values without an order give dots. At most 8 groups are drawn, those with the most rows.

    Parameters
    ----------
    parts
        What ``.by(groups)`` of one feature gives: a result for each label.
    ax
        Where to draw; a new figure by default.

    Examples
    --------
    >>> import numpy as np, losslens as ll
    >>> X = np.random.default_rng(0).normal(size=(50, 2))
    >>> imp = ll.feature_importance(lambda X: X[:, 1], X, X[:, 1], loss="squared_error")
    >>> parts = imp["x1"].by(np.where(X[:, 0] > 0, "right", "left"))
    >>> [text.get_text().split(":")[0] for text in plot_groups(parts).get_legend().get_texts()]
    ['left', 'right', 'distribution of x1']
    """
    known = _known(parts)
    first = next(iter(known.values()))
    grid, whole = _common(first, list(known.values()), [len(parts[label].at) for label in known])
    own = ax is None
    if first.ordered and not is_flag(grid):
        ax = canvas.new_axes() if ax is None else ax
        groups = _groups(parts, known, grid, _fit(ax, own))
        _draw_curves(ax, whole, groups, scattered=first.scattered)
    else:
        ax, groups = _draw_dots(ax, whole, parts, known)
    canvas.caption(ax, _notes(ax, len(parts), len(known), groups, whole))
    return ax


def _known(parts: Mapping[Any, FeatureImportance | FeatureEffect]) -> dict[Any, FeaturePicture]:
    """What there is to draw of each group; streamed groups of few rows have no curve."""
    if not parts:
        raise ValueError("there is no group to draw")
    if len({(part.columns, type(part), getattr(part, "target", None)) for part in parts.values()}) > 1:
        raise ValueError("the groups speak of different features; use what .by(groups) of one feature gives")
    first = next(iter(parts.values()))
    if len(first.values) == 2 or first.values[0].ndim > 1:
        raise ValueError(f"{first.name!r} has several columns, and hence no axis that groups could share")
    found, why = {}, None
    for label, part in parts.items():
        try:
            found[label] = show(part)
        except ValueError as error:
            why = error
    if not found:
        assert why is not None
        raise why
    return found


def _fit(ax: Axes, own: bool) -> int:
    """For how many groups the legend has room, beside the distribution."""
    return int(np.clip(canvas.legend_room(*canvas.room_left(ax, own))[1] - 1, 3, len(LOOKS)))


def _common(
    first: FeaturePicture, shown: Sequence[FeaturePicture], rows: Sequence[int]
) -> tuple[NDArray[Any], FeaturePicture]:
    """The values of all groups in order, and how often they occur: groups lose values that none of their rows met."""
    grid = max((some.values[0] for some in shown), key=len)
    held = {_key(v) for v in grid}
    extra = [v for some in shown for v in some.values[0] if _key(v) not in held]
    if extra:
        absent = [v for v in (*grid, *extra) if is_absent(v)][:1]
        present = list(dict.fromkeys(v for v in (*grid, *extra) if not is_absent(v)))
        if grid.dtype.kind != "O":
            present = sorted(present)
        merged = np.empty(len(present) + len(absent), grid.dtype)
        merged[:] = [*present, *absent]
        grid = merged
    curve, weights = np.zeros(len(grid)), None
    if all(some.weights is not None for some in shown):
        weights = np.zeros(len(grid))
        for some, n in zip(shown, rows, strict=True):
            weights[_places(grid, some.values[0])] += np.asarray(some.weights) * n / sum(rows)
    return grid, replace(first, values=(grid,), curve=curve, weights=weights, singles=None, level=None)


def _key(value: Any) -> Any:
    return None if is_absent(value) else value


def _places(grid: NDArray[Any], values: NDArray[Any]) -> Indices:
    """Where values of a group stand on the common grid."""
    place = {_key(value): k for k, value in enumerate(grid)}
    return np.array([place[_key(value)] for value in values], np.intp)


def _groups(
    parts: Mapping[Any, Any], known: Mapping[Any, FeaturePicture], grid: NDArray[Any], most: int
) -> list[Group]:
    """The groups with the most rows, in the order in which they came."""
    sizes = {label: len(parts[label].at) for label in known}
    chosen = sorted(known, key=lambda label: -sizes[label])[:most]
    groups = []
    for label, shown in known.items():
        if label in chosen:
            curve = np.full(len(grid), np.nan)
            curve[_places(grid, shown.values[0])] = shown.curve
            faded = replace(shown, values=(grid,), curve=curve).faded
            groups.append(Group(value_label(label), sizes[label], curve, shown.level, faded))
    return groups


def _names(ax: Axes, groups: Sequence[Group]) -> list[str]:
    """Names for the legend, as long as there is room for, with each group's importance and number of rows."""
    names: list[str] = []
    for letters in LETTERS:
        short = labels([group.label for group in groups], letters)
        names = [_name(text, group) for text, group in zip(short, groups, strict=True)]
        if canvas.legend_share(ax, names) <= LEGEND:
            break
    return names


def _name(short: str, group: Group) -> str:
    level = "" if group.level is None else f": {number(group.level)}"
    text = f"{short}{level} (n = {group.rows:,})"
    return f" {text}" if text.startswith("_") else text  # matplotlib leaves out what begins with _


# -- curves -----------------------------------------------------------------------------------------------------------


def _draw_curves(ax: Axes, whole: FeaturePicture, groups: Sequence[Group], *, scattered: bool) -> None:
    """A curve for each group; points where each value was met by other rows."""
    places = scale(whole.values[0], whole.weights)
    for group, name, look in zip(groups, _names(ax, groups), LOOKS, strict=False):
        _trace(ax, places, group, name, look, scattered, marked=len(groups) <= MOST_MARKS)
    if whole.from_zero:
        ax.axhline(0, color=INK, linewidth=0.6, zorder=2)
    strip = draw_strip(ax, whole, places)
    dress(ax, places, whole.title)
    ax.set_ylabel(canvas.folded(whole.axis, 0.9 * canvas.size_in_points(ax)[1]), parse_math=False)
    canvas.plain_frame(ax)
    canvas.make_room(ax, strip, canvas.legend(ax))
    canvas.value_ticks(ax.yaxis)


def _trace(
    ax: Axes, places: Scale, group: Group, name: str, look: tuple[str, Any, str], scattered: bool, marked: bool
) -> None:
    """One group; its importance is a mark at the right end of the axes."""
    colour, dashes, marker = look
    met = np.isfinite(group.curve)
    line = met.copy()
    line[places.present.stop :] = False
    style: dict[str, Any] = {"color": colour, "markersize": 4, "zorder": 4}
    if line.any():
        few = scattered or line.sum() <= MARKED
        style_here: dict[str, Any] = {
            "linestyle": "none" if scattered else dashes,
            "marker": marker if few else None,
        } | style
        at, curve, faded = places.at[line], group.curve[line], group.faded[line]
        ax.plot(at, np.where(faded, np.nan, curve), linewidth=1.8, label=name, **style_here)
        if faded.any():
            pale = {"linewidth": 0.9, "alpha": 0.55, "markerfacecolor": "white", "zorder": 3.5}
            ax.plot(at, np.where(widened(faded), curve, np.nan), **(style_here | pale))
    if places.missing and met[-1]:
        label = None if line.any() else name
        ax.plot(places.at[-1:], group.curve[-1:], marker, label=label, **(style | {"markersize": 6}))
    if group.level is not None and marked:
        ax.plot(1, group.level, "<", transform=ax.get_yaxis_transform(), clip_on=False, **(style | {"markersize": 6}))


# -- dots -------------------------------------------------------------------------------------------------------------


def _draw_dots(
    ax: Axes | None, whole: FeaturePicture, parts: Mapping[Any, Any], known: Mapping[Any, FeaturePicture]
) -> tuple[Axes, list[Group]]:
    """A row for each value, a dot for each group."""
    own, grid = ax is None, whole.values[0]
    high = 1 + 0.3 * min(len(known), len(LOOKS))  # of a value, in lines of text
    if ax is None:
        ax = canvas.new_axes(int(min(len(grid) * high, MOST_ROWS)) + 1 + min(len(known), len(LOOKS)))
        groups = _groups(parts, known, grid, len(LOOKS))
        order = _order(whole, groups, max(1, int(MOST_ROWS / high)))
    else:
        groups = _groups(parts, known, grid, _fit(ax, own))
        left = canvas.rows_that_fit(ax) - len(groups)
        order = _order(whole, groups, max(1, int(left / min(high, 1.4))))
    weights = None if whole.weights is None else whole.weights[order]
    names = value_names(grid[order], weights, canvas.letters_beside(ax) - 6)
    _dots(ax, groups, order)
    zero = [ax.axvline(0, color=INK, linewidth=0.6, zorder=0)] if whole.from_zero else []
    ax.set_ylabel(whole.title, parse_math=False)
    legend_above(ax, len(order), dress_rows(ax, names, own, whole.axis), zero)
    return ax, groups


def _order(whole: FeaturePicture, groups: Sequence[Group], most: int) -> Indices:
    """Grid positions from top to bottom, by the mean over groups."""
    curves = np.array([group.curve for group in groups])
    met = np.isfinite(curves)
    height = np.where(met, curves, 0.0).sum(axis=0) / np.maximum(met.sum(axis=0), 1)
    return value_order(whole.values[0], whole.weights, height, most)


def _dots(ax: Axes, groups: Sequence[Group], order: Indices) -> None:
    """The groups of one value stand below each other, in the order of the legend."""
    for k, (group, name, (colour, _, marker)) in enumerate(zip(groups, _names(ax, groups), LOOKS, strict=False)):
        curve = group.curve[order]
        met = np.flatnonzero(np.isfinite(curve))
        at = met + SPREAD * ((k + 0.5) / len(groups) - 0.5)
        ax.plot(curve[met], at, marker, color=colour, markersize=5, label=name, zorder=4)
        faded = group.faded[order][met]
        if faded.any():
            hollow: dict[str, Any] = {"markeredgecolor": colour, "markerfacecolor": "white"}
            ax.plot(curve[met][faded], at[faded], marker, markersize=5, zorder=4.5, **hollow)
    for between in range(1, len(order)):
        ax.axhline(between - 0.5, color=PALE, linewidth=0.4, zorder=0)


def _notes(ax: Axes, asked: int, known: int, groups: Sequence[Group], whole: FeaturePicture) -> list[str]:
    curves = whole.ordered and not is_flag(whole.values[0])
    if curves:
        notes = ["triangles at the right: PFI"] if groups[0].level is not None and len(groups) <= MOST_MARKS else []
    else:
        notes = ["in brackets: how often a value occurs"] if whole.weights is not None else []
    lines = len(ax.get_yticks())
    if not curves and lines < len(whole.values[0]):
        notes.append(f"the {lines} most frequent of {len(whole.values[0]):,} values")
    if len(groups) < known:
        notes.append(f"the largest {len(groups)} of {count(known, 'group')}")
    if known < asked:
        notes.append(f"{count(asked - known, 'group')} without a curve left out: too few single rows are kept")
    if whole.scattered:
        notes.append(f"points, not curves: each value was met by other rows ({whole.design})")
    return [*notes, *whole.warning("thin and pale" if curves else "hollow")]
