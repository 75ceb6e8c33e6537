"""Importance over time, and lines with bands of the most important features along any axis."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import PercentFormatter

from losslens.plots import canvas
from losslens.plots.canvas import BAND, COLOURS, DASHED, INK, LOOKS, PALE
from losslens.plots.importance_axis import bend, check_scale
from losslens.plots.lines import MARKED, dress_curves
from losslens.plots.look import Look
from losslens.plots.options import arrange, colours, most_of, name_features
from losslens.plots.scale import scale as scale_of
from losslens.plots.scale import word_ticks
from losslens.plots.wording import labels as short_labels
from losslens.plots.wording import number, some_of
from losslens.results.over_time import FROM_ALL, OverTime
from losslens.results.sufficient import Sufficient
from losslens.typing import Floats, Indices

MOST = 5  # features: bands of more would hide each other
SURE = 0.05  # p, adjusted for the features, up to which a step is marked
LOWEST = 0.25  # of the gain over a constant: how far below 0 shares are drawn
REACH = 1.0  # the axis extends at most so many ranges of the lines beyond them


def plot_over_time(result: OverTime, ax: Axes | None, look: Look) -> Axes:
    """The importance over time with its band; of one feature with the largest step, where it is significant."""
    name_features(look.labels, result.features)
    places = scale_of(np.concatenate([result.start[:1], result.middle, result.end[-1:]]))
    at, numbers = places.x[1:-1], np.array([result.importance.T, result.low.T, result.high.T])
    breaks = np.flatnonzero(result.start[1:] != result.end[:-1]) + 1  # behind blocks of time without rows
    broken = np.insert(at, breaks, np.nan), np.insert(numbers, breaks, np.nan, axis=2)
    ranked = result.ranking[: MOST if look.top is None else most_of(look.top, len(LOOKS))]
    ax, shown = draw_bands(ax, look, result.features, ranked, *broken)
    if len(result.features) == 1:
        overall = float(result.overall[0])
        ax.axhline(overall, label=f"all rows, {number(overall)}", zorder=3, **DASHED)
    notes, limits = [*_mark_step(ax, result, at), *_time_notes(result, len(shown))], _limits(numbers[0, shown])
    if np.any((numbers[1:, shown] < limits[0]) | (numbers[1:, shown] > limits[1])):
        notes.insert(0, "the axis is cut: bands run beyond it")
    named = dress_curves(ax, places, "time", f"importance: increase in {result.title}", limits)
    canvas.caption(ax, [*named, *notes])
    return ax


def plot_sufficient(result: Sufficient, ax: Axes | None, look: Look) -> Axes:
    """The share kept as features leave, from all of them to none, with the point at which they are still enough."""
    names, p = name_features(look.labels, result.features), len(result.features)
    (fill,) = colours(look.colors, ["kept"], COLOURS, "line", ["kept"])
    ax = canvas.new_axes() if ax is None else ax
    low, high = (np.append(1.0, ends) for ends in result.kept.intervals())
    at, value = np.arange(p + 1), np.append(1.0, result.kept.value)
    ax.fill_between(at, low, high, color=fill, alpha=0.22, linewidth=0, gid=BAND, label="95% intervals")
    ax.plot(at, value, "o-", color=fill, markersize=4.5, linewidth=1.8, label="share kept, on held-out rows")
    ax.plot(at[1:], result.chosen, color=PALE, linewidth=1.2, label="on the rows that chose the order")
    ax.axhline(result.keep, label=f"{result.keep:.0%}, the share to keep", **DASHED)
    ax.axvline(result.count, color=PALE, linewidth=1.2, linestyle=":")
    ticks = [f"all {p}", *(f"− {name}" for name in short_labels(names.all(result.features), 18))]
    word_ticks(ax.xaxis, at.astype(float), ticks, canvas.size_in_points(ax)[0])
    ax.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    ax.set_xlabel("features leave, from left to right")
    ax.set_ylabel("share of the gain over a constant")
    canvas.plain_frame(ax)
    canvas.make_room(ax, 0.0, canvas.legend(ax), (-LOWEST, np.inf))  # at their ends, names would lie on the curves
    notes = [f"dotted: {len(result.enough)} of {p} features are enough"]
    notes += ["the axis is cut: the last share is further below 0"] if value[-1] < -LOWEST else []
    canvas.caption(ax, notes)
    return ax


def draw_bands(
    ax: Axes | None, look: Look, features: Sequence[str], ranked: Indices, at: Floats, numbers: Floats
) -> tuple[Axes, Indices]:
    """Lines of those ranked features that the legend can name; `numbers`: (3, p, g), values, low and high.

    Returns the axes, and the features in the order of the legend.
    """
    check_scale(look.scale, numbers[0, ranked])
    colours(look.colors, [features[j] for j in ranked], COLOURS, "feature", features)  # before there is a figure
    ax = canvas.new_axes() if ax is None else ax
    letters, fit = canvas.legend_room(*canvas.room_left(ax, own=True))
    shown = arrange(look.names.all(features), ranked[:fit], look.sort)
    names = [features[j] for j in shown]
    bend(ax.yaxis, look.scale, numbers[0, shown])
    fill = colours(look.colors, names, COLOURS, "feature", features)
    for k, name in enumerate(short_labels(look.names.all(names), letters)):
        (value, low, high), (_, dashes, marker) = numbers[:, shown[k]], LOOKS[k]
        ax.plot(
            at, value, color=fill[k], linestyle=dashes, marker=marker if len(at) <= MARKED else None, markersize=4.5,
            linewidth=1.8, label=canvas.legend_name(name), zorder=5,
        )  # fmt: skip
        alpha = 0.22 if len(features) == 1 else 0.13
        ax.fill_between(at, low, high, color=fill[k], alpha=alpha, linewidth=0, zorder=1, gid=BAND)
    return ax, shown


def _limits(values: Floats) -> tuple[float, float]:
    """The limits of the axis: where groups are few, a band may be so wide that the lines would look flat."""
    values = np.append(values[np.isfinite(values)], 0.0)  # a block of time whose rows have no donors has none
    reach = REACH * float(np.ptp(values)) or np.inf
    return float(values.min()) - reach, float(values.max()) + reach


def _mark_step(ax: Axes, result: OverTime, places: Floats) -> list[str]:
    """The largest step of a single feature, where it is significant: between two points."""
    k = int(result.step[0])
    if len(result.features) > 1 or k < 1 or not result.p[0] <= SURE:
        return []
    ax.axvline((places[k - 1] + places[k]) / 2, color=PALE, linewidth=1.2, linestyle=":", zorder=2)
    before, after = number(float(result.before[0])), number(float(result.after[0]))
    at = result.edges[0][k]
    place = ((places[k - 1] + places[k]) / 2, 0.02)
    ax.annotate(
        f"{before} → {after}", place, (4, 0), xycoords=ax.get_xaxis_transform(), textcoords="offset points",
        fontsize="small", color=INK, parse_math=False, zorder=6,
    )  # fmt: skip
    return [f"dotted, the largest step: {before} before {at}, {after} after (p = {result.p[0]:.2g})"]


def _time_notes(result: OverTime, shown: int) -> list[str]:
    band = f"{result.level:.0%} bands, for all stretches of time together"
    notes, all_of_them = [FROM_ALL if result.why else f"{band}; {FROM_ALL}"], len(result.features)
    return notes + ([f"the most important: {some_of(shown, all_of_them, 'feature')}"] if shown < all_of_them else [])
