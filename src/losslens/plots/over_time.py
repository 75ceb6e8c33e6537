"""Importance over time: a line with its band for one feature, or for several the most important ones."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes

from losslens.plots import canvas
from losslens.plots.canvas import BAND, DASHED, INK, PALE
from losslens.plots.importance_axis import bend, check_scale, importance_ticks
from losslens.plots.look import Look
from losslens.plots.options import arrange, colours, most_of, name_features
from losslens.plots.scale import dress
from losslens.plots.scale import scale as scale_of
from losslens.plots.subgroups import COLOURS, LOOKS
from losslens.plots.wording import labels as short_labels
from losslens.plots.wording import number, some_of
from losslens.results.over_time import FROM_ALL, OverTime
from losslens.typing import Floats, Indices

MOST = 5  # features: bands of more would hide each other
SURE = 0.05  # p, adjusted for the features, up to which a step is marked
LETTERS = 30  # of a feature's name
REACH = 1.0  # the axis extends at most so many ranges of the lines beyond them


def plot_over_time(result: OverTime, ax: Axes | None, look: Look) -> Axes:
    """Draw the importance over time, with its band."""
    names = name_features(look.labels, result.features)
    chosen = result.ranking[: MOST if look.top is None else most_of(look.top, len(LOOKS))]
    check_scale(look.scale, result.importance[:, chosen])
    colours(look.colors, [result.features[j] for j in chosen], COLOURS, "feature", result.features)
    ax = canvas.new_axes() if ax is None else ax
    fit = canvas.legend_room(*canvas.room_left(ax, own=True))[1]
    shown = arrange(names.all(result.features), chosen[: max(1, fit)], look.sort)
    features = [result.features[j] for j in shown]
    fill = colours(look.colors, features, COLOURS, "feature", result.features)
    places = scale_of(np.concatenate([result.start[:1], result.middle, result.end[-1:]]))
    at, broken = places.at[1:-1], _breaks(result)
    bend(ax.yaxis, look.scale, result.importance[:, shown])
    for k, (j, name) in enumerate(zip(shown, short_labels(names.all(features), LETTERS), strict=True)):
        own = (fill[k], *LOOKS[k][1:])
        _draw(ax, result, int(j), f"{' ' if name.startswith('_') else ''}{name}", own, (at, broken))
    if len(result.features) == 1:
        overall = float(result.overall[0])
        ax.axhline(overall, label=f"all rows, {number(overall)}", zorder=3, **DASHED)
    if look.scale != "log":
        ax.axhline(0, color=INK, linewidth=0.6, zorder=2)
    dress(ax, places, "time")
    what = f"importance: increase in {result.title}"
    ax.set_ylabel(canvas.folded(what, 0.9 * canvas.size_in_points(ax)[1]), parse_math=False)
    canvas.plain_frame(ax)
    notes, limits = [*_marked(ax, result, at), *_notes(result, len(shown))], _limits(result, shown)
    ends = np.array([result.low[:, shown], result.high[:, shown]])
    if np.any((ends < limits[0]) | (ends > limits[1])):
        notes.insert(0, "the axis is cut: bands run beyond it")
    canvas.make_room(ax, 0.0, canvas.legend(ax), limits)
    importance_ticks(ax.yaxis)
    canvas.caption(ax, notes)
    return ax


def _limits(result: OverTime, shown: Indices) -> tuple[float, float]:
    """Of the axis: few groups in a stretch have a band so wide that the lines would look flat."""
    lines = np.append(result.importance[:, shown], 0.0)
    lines = lines[np.isfinite(lines)]  # a stretch whose rows have no donors has none
    reach = REACH * float(np.ptp(lines)) or np.inf
    return float(lines.min()) - reach, float(lines.max()) + reach


def _breaks(result: OverTime) -> Indices:
    """Where the line is broken: before the stretches that follow some without rows."""
    return np.flatnonzero(result.start[1:] != result.end[:-1]) + 1


def _draw(
    ax: Axes, result: OverTime, j: int, name: str, look: tuple[str, Any, str], where: tuple[Floats, Indices]
) -> None:
    colour, dashes, marker = look
    at, mean, low, high = (
        np.insert(np.asarray(values, float), where[1], np.nan)
        for values in (where[0], result.importance[:, j], result.low[:, j], result.high[:, j])
    )
    style: dict[str, Any] = {"color": colour, "linestyle": dashes, "marker": marker, "markersize": 4.5, "zorder": 5}
    ax.plot(at, mean, linewidth=1.8, label=name, **style)
    alpha = 0.22 if len(result.features) == 1 else 0.13
    ax.fill_between(at, low, high, color=colour, alpha=alpha, linewidth=0, zorder=1, gid=BAND)


def _marked(ax: Axes, result: OverTime, places: Floats) -> list[str]:
    """The largest step of a single feature, where it is significant: between two points."""
    k = int(result.step[0])
    if len(result.features) > 1 or k < 1 or not result.p[0] <= SURE:
        return []
    ax.axvline((places[k - 1] + places[k]) / 2, color=PALE, linewidth=1.2, linestyle=":", zorder=2)
    before, after = number(float(result.before[0])), number(float(result.after[0]))
    at = result.edges[0][k]
    return [f"dotted, the largest step: {before} before {at}, {after} after (p = {result.p[0]:.2g})"]


def _notes(result: OverTime, shown: int) -> list[str]:
    band = f"{result.level:.0%} bands, for all stretches of time together"
    notes = [FROM_ALL if result.why else f"{band}; {FROM_ALL}"]
    more = len(result.features) - shown
    return [*notes, *([f"the most important: {some_of(shown, shown + more, 'feature')}"] if more else [])]
