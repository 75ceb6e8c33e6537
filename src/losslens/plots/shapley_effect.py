"""What each feature adds to predictions: one row's way from the base to its prediction, or the effects of many rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection

from losslens.plots import canvas
from losslens.plots.bars import THICKEST, dress_rows, label_across, not_shown, open_rows, write_numbers
from losslens.plots.canvas import BLUE, INK, PALE, VERMILLION
from losslens.plots.wording import MINUS, alike, count, is_absent, labels, number, shorten, value_label
from losslens.results.shapley_effect import ShapleyEffect
from losslens.typing import Floats, Indices

MOST_LINES = 20  # features in a figure of our own
MOST_DOTS = 1000  # rows in a line of dots
BINS = 120  # of a line of dots: those in the same one stand above each other
SPREAD = 0.38  # how far dots leave their line, in lines
STEP = 0.09  # from dot to dot, where they are few
BAR = 50.0  # points that the bar of colours takes
COLOURS = "cividis"  # from small to large values


def plot_shapley_effect(result: ShapleyEffect, *, ax: Axes | None = None) -> Axes:
    """Draw what each feature adds to the prediction, the largest effect on top.

    One row gives its way from the base to its prediction; many rows give a line of dots for each feature, coloured
    by its value where values have an order. Pick rows with ``.given``.

    Parameters
    ----------
    result
        What `losslens.shapley_effect` gives.
    ax
        Where to draw; a new figure by default, as high as the features need.

    Examples
    --------
    >>> import numpy as np, losslens as ll
    >>> X = np.array([[0.0, 0.0], [2.0, 4.0]])
    >>> result = ll.shapley_effect(lambda X: X[:, 0] + X[:, 0] * X[:, 1], X, 1)
    >>> [label.get_text() for label in plot_shapley_effect(result).get_yticklabels()]
    ['mean over 2 donors', 'x0 = 2', 'x1 = 4', 'prediction']
    """
    return _draw_way(result, ax) if len(result.local) == 1 else _draw_dots(result, ax)


# -- one row ----------------------------------------------------------------------------------------------------------


class Step(NamedTuple):
    """A bar on the way: its name, where it starts and ends, and the interval of its end where there is one."""

    name: str
    start: float
    end: float
    interval: tuple[float, float] | None = None


def _draw_way(result: ShapleyEffect, ax: Axes | None) -> Axes:
    own, p = ax is None, len(result.features)
    ax, most = open_rows(ax, min(p, MOST_LINES) + 2 + (p > MOST_LINES))
    letters = canvas.letters_beside(ax)
    steps = _steps(result, max(1, most - 2), letters)
    base = f"mean over {count(result.n_donors, 'donor')}"
    across = "prediction" if result.target is None else f"{result.response} of {shorten(result.target, 30)}"
    draw_steps(ax, steps, (base if len(base) <= letters else "mean", "prediction"), own, across)
    canvas.caption(ax, _notes(result, any(step.interval for step in steps)))
    return ax


def _step_texts(steps: Sequence[Step]) -> list[str]:
    """Both ends, as precise as the changes need, and the changes with their signs."""
    changes = alike([step.end - step.start for step in steps])
    decimals = len(changes[0].partition(".")[2]) - 1
    plain = not any("e" in text for text in changes)
    ends = [f"{at:,.{max(0, decimals)}f}" if plain else number(at) for at in (steps[0].start, steps[-1].end)]
    first, last = (f" {text}".replace("-", MINUS) for text in ends)  # a blank: there is a mark before it
    return [first, *(text if text.startswith(MINUS) else f"+{text}" for text in changes), last]


def _steps(result: ShapleyEffect, most: int, letters: int) -> list[Step]:
    """From the base to the prediction, the largest effect first; those that don't fit are one last step."""
    effect, p = result.local[0], len(result.features)
    order = np.argsort(-np.abs(effect), kind="stable")
    kept = order if p <= most else order[: most - 1]
    low, high = result.interval()
    at, steps = float(result.base[0]), []
    for j, name in zip(kept, _names(result, kept, letters), strict=True):
        ends = (at + float(low[0, j]), at + float(high[0, j])) if result.std_error[0, j] > 0 else None
        steps.append(Step(name, at, at + float(effect[j]), ends))
        at = steps[-1].end
    if len(kept) < p:
        steps.append(Step(count(p - len(kept), "other feature"), at, at + float(effect[order[len(kept) :]].sum())))
    return steps


def _names(result: ShapleyEffect, chosen: Indices, letters: int) -> list[str]:
    """Each feature with the row's value."""
    values = [shorten(_value(result, int(j)), max(8, letters // 3)) for j in chosen]
    room = letters - 3 - max(map(len, values), default=0)
    names = labels([result.features[j] for j in chosen], max(room, letters // 2))
    return [f"{name} = {value}" for name, value in zip(names, values, strict=True)]


def _value(result: ShapleyEffect, j: int) -> str:
    value = result.values.distinct[j][result.values.codes[0, j]]
    if result.values.distinct[j].ndim > 1:  # a group of columns
        return f"({', '.join(map(value_label, value))})"
    text = value_label(value)
    return text.replace("-", MINUS) if isinstance(value, (int, float, np.number)) else text


def draw_steps(
    ax: Axes, steps: Sequence[Step], ends: tuple[str, str], own: bool, across: str, up: str = VERMILLION,
    down: str = BLUE,
) -> None:  # fmt: skip
    """The bars from the second line on, in these colours, marks at both ends of the way, names and numbers."""
    _draw_bars(ax, steps, up, down)
    names = [ends[0], *(step.name for step in steps), ends[1]]
    canvas.name_rows(ax, names)
    width = canvas.width_beside(ax, names, own)
    spans = [(step.start, step.end, *(step.interval or ())) for step in steps]
    reach = [steps[0].start, *map(max, spans), steps[-1].end]
    write_numbers(ax, _step_texts(steps), reach, min(map(min, spans)), 0.85 * width, margin=True)
    canvas.value_ticks(ax.xaxis, 0.7 * width)  # numbers far from 0 have more digits
    label_across(ax, across, width)
    canvas.plain_frame(ax)


def _draw_bars(ax: Axes, steps: Sequence[Step], up: str, down: str) -> None:
    rows = np.arange(1, len(steps) + 1)
    start, end = np.array([(step.start, step.end) for step in steps]).T
    thick = min(0.62, THICKEST * (len(steps) + 2) / canvas.size_in_points(ax)[1])
    colours = np.where(end >= start, up, down).tolist()
    ax.barh(rows, end - start, left=start, height=thick, color=colours)
    at = np.append(start, end[-1])  # where each row is entered from the one above
    ax.vlines(at, np.arange(len(at)), np.arange(len(at)) + 1, color=PALE, linewidth=0.8, zorder=0)
    ax.plot([at[0], at[-1]], [0, len(steps) + 1], "D", color=INK, markersize=4, zorder=3)
    known = [(row, *step.interval) for row, step in zip(rows, steps, strict=True) if step.interval is not None]
    if known:
        ax.hlines(*np.array(known).T, color=INK, linewidth=1.1, zorder=3)


def _notes(result: ShapleyEffect, lines: bool) -> list[str]:
    notes = ["lines: 95% intervals of the Monte-Carlo error"] if lines else []
    return notes if result.complete else [*notes, "stopped by hand"]


# -- many rows --------------------------------------------------------------------------------------------------------


def _draw_dots(result: ShapleyEffect, ax: Axes | None) -> Axes:
    own, p = ax is None, len(result.features)
    if ax is None:
        most = min(p, MOST_LINES)
        ax = canvas.new_axes(int(1.5 * most))
    else:
        ax, most = open_rows(ax, p, below=3)
    order = np.argsort(-result.importance, kind="stable")[:most]
    names = labels([result.features[j] for j in order], canvas.letters_beside(ax) - 8)
    sizes = alike(result.importance[order].tolist())
    names = [f"{name} ({size})" for name, size in zip(names, sizes, strict=True)]
    ax.axvline(0, color=INK, linewidth=0.6, zorder=0)
    painted = _swarm(ax, result, order)
    dress_rows(ax, names, own, result.headline.split(";")[0], taken=BAR)
    _colour_bar(ax, painted)
    canvas.caption(ax, _dot_notes(result, len(order), np.isnan(np.asarray(painted.get_array(), float)).any()))
    return ax


def _swarm(ax: Axes, result: ShapleyEffect, order: Indices) -> PathCollection:
    """All dots: those at nearly the same place in a line stand above each other."""
    shown = result.local[:, order]
    width = (float(shown.max() - shown.min()) or 1.0) / BINS
    x, y, colour = [], [], []
    for line, j in enumerate(order):
        rows = thinned(result.local[:, j])
        x.append(result.local[rows, j])
        y.append(line + apart(np.floor(x[-1] / width)))
        colour.append(_ranks(result, int(j))[rows])
    height = canvas.size_in_points(ax)[1] / len(order)  # of a line, in points
    diameter = np.clip(0.13 * height, 1.5, 4.5)
    return ax.scatter(
        np.concatenate(x), np.concatenate(y), c=np.concatenate(colour), s=diameter**2, linewidths=0, vmin=0, vmax=1,
        cmap=mpl.colormaps[COLOURS].with_extremes(bad=PALE), plotnonfinite=True, rasterized=True,
    )  # fmt: skip


def thinned(effect: Floats) -> Indices:
    """At most `MOST_DOTS` rows, evenly along the order of their effects: both extremes are among them."""
    return canvas.evenly(np.argsort(effect, kind="stable"), MOST_DOTS)


def apart(bins: Floats) -> Floats:
    """How far each dot leaves its line: those in one bin go up and down in turn.

    >>> apart(np.array([1.0, 1.0, 1.0, 5.0])).tolist()
    [0.0, -0.09, 0.09, 0.0]
    """
    _, inverse, counts = np.unique(bins, return_inverse=True, return_counts=True)
    order = np.argsort(inverse, kind="stable")
    place = np.empty(len(bins), np.intp)
    place[order] = np.arange(len(bins)) - np.repeat(np.cumsum(counts) - counts, counts)
    step = min(STEP, SPREAD / max(1, counts.max() // 2))
    return np.asarray((place + 1) // 2 * np.where(place % 2, -step, step))


def _ranks(result: ShapleyEffect, j: int) -> Floats:
    """Where each row's value stands among those of all rows, from 0 to 1; NaN where it is missing or has no order."""
    distinct, codes = result.values.distinct[j], result.values.codes[:, j]
    if not result.values.ordered[j] or distinct.ndim > 1:
        return np.full(len(codes), np.nan)
    missing = len(distinct) > 0 and is_absent(distinct[-1])
    counts = np.bincount(codes, minlength=len(distinct)).astype(float)
    if missing:
        counts[-1] = 0.0
    middle = np.cumsum(counts) - counts / 2
    held = np.flatnonzero(counts)
    low, high = (middle[held[0]], middle[held[-1]]) if len(held) else (0.0, 0.0)
    ranks = (middle - low) / (high - low) if high > low else np.full(len(middle), 0.5)
    if missing:
        ranks[-1] = np.nan
    return np.asarray(ranks[codes])


def _colour_bar(ax: Axes, painted: PathCollection) -> None:
    if not np.isfinite(np.asarray(painted.get_array(), float)).any():
        return
    height = canvas.size_in_points(ax)[1]
    bar = ax.figure.colorbar(painted, ax=ax, ticks=[0, 1], aspect=max(10.0, height / 8))
    bar.ax.set_yticklabels(["low", "high"])
    bar.ax.tick_params(length=0)
    bar.set_label("value of the feature" if height > 180 else "value", labelpad=-8)
    bar.outline.set_visible(False)


def _dot_notes(result: ShapleyEffect, shown: int, grey: bool) -> list[str]:
    rows = len(result.local)
    what = count(rows, "row") if rows <= MOST_DOTS else f"{MOST_DOTS:,} of {count(rows, 'row')} in each line"
    notes = [what, "in brackets: mean size"]
    if grey:
        notes.append("grey: no order, or missing")
    drawn = result.std_error[result.std_error > 0]
    if len(drawn):
        notes.append(f"Monte-Carlo error: {number(float(np.median(drawn)))} (median)")
    notes += not_shown(len(result.features) - shown, "smaller effect")
    return notes if result.complete else [*notes, "stopped by hand"]
