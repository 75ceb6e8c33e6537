"""Models side by side: for each feature, a dot with an interval for each model; differences of two sets of rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes

from losslens.plots import canvas, named_rows
from losslens.plots.bars import Bar, interval_or_nan, ranked_bars
from losslens.plots.canvas import COLOURS, INK, LOOKS
from losslens.plots.importance_axis import bend, check_scale
from losslens.plots.look import Look
from losslens.plots.options import arrange, colours, name_features
from losslens.plots.subgroups import separate_rows, shift_of
from losslens.plots.wording import labels as short_labels
from losslens.plots.wording import not_shown, number
from losslens.results.comparison import BEYOND, Comparison, distance_in_words
from losslens.typing import Floats, Indices
from losslens.uncertainty.cautions import noted

LEGEND = 3  # lines of text that the legend takes


class Series(NamedTuple):
    """A model or a group of rows: its name and colour, and the value of each feature with the ends of its interval."""

    label: str
    colour: str
    numbers: Floats  # (3, p): value, low and high; NaN where there is none


def plot_comparison(comparison: Comparison, ax: Axes | None, look: Look) -> Axes:
    """The importances of each feature, one model below the other, with intervals."""
    shown, features = list(comparison.importances.items())[: len(LOOKS)], list(comparison.features)
    name_features(look.labels, features)
    models = [name for name, _ in shown]
    fill = colours(look.colors, models, COLOURS, "model", comparison.names)
    series = []
    for (_, importances), name, colour in zip(shown, short_labels(models, 30), fill, strict=True):
        numbers = [(importances[feature].pfi, *interval_or_nan(importances[feature])) for feature in features]
        label = f"{name}: {comparison._measure} {number(importances.base)}"
        series.append(Series(label, colour, np.array(numbers).T))
    ranked = np.array([features.index(feature) for feature in comparison._ranked], np.intp)
    ax, order = draw_series(ax, look, features, ranked, series, comparison.change)
    unnamed = [] if ax.get_legend() else ["no space to name the models"]
    canvas.caption(ax, unnamed + _notes(comparison, len(shown), [features[j] for j in order]))
    return ax


def draw_series(
    ax: Axes | None, look: Look, features: Sequence[str], ranked: Indices, series: Sequence[Series], label: str
) -> tuple[Axes, Indices]:
    """Rows of features, given by their rank, with a dot and an interval for each series, below those of the one before.

    Returns the axes, and the features that are drawn, from top to bottom.
    """
    own, ranked = ax is None, ranked[: look.top]
    high = 0.5 + 0.45 * len(series)  # of a feature, in lines of text
    values = np.array([one.numbers[0] for one in series])
    check_scale(look.scale, values[:, ranked])
    if ax is None:
        most = max(1, int(named_rows.MOST_ROWS / high))
        ax = canvas.new_axes(int(high * min(most, len(ranked))) + LEGEND)
    else:
        most = max(1, int((named_rows.rows_that_fit(ax) - LEGEND) / high))
    order = arrange(look.names.all(features), ranked[:most], look.sort)
    bend(ax.xaxis, look.scale, values[:, order])
    for k, (name, colour, numbers) in enumerate(series):
        value, low, high = numbers[:, order]
        at = np.arange(len(order)) + shift_of(k, len(series))
        style: dict[str, Any] = {
            "color": colour,
            "label": canvas.legend_name(name),
            "markersize": 5,
            "linestyle": "none",
            "zorder": 4,
        }
        ax.plot(value, at, LOOKS[k][2], **style)
        ax.hlines(at, low, high, color=colour, linewidth=1.3, zorder=3)
    separate_rows(ax, len(order))
    zero = [] if look.scale == "log" else [ax.axvline(0, color=INK, linewidth=0.8, zorder=1)]
    short = short_labels(look.names.all([features[j] for j in order]), named_rows.letters_beside(ax))
    named_rows.legend_above(ax, named_rows.dress_rows(ax, short, own, label), zero)
    return ax, order


def plot_moved(comparison: Comparison, ax: Axes | None, look: Look, name: str, against: str) -> Axes:
    """How each feature's importance and its values differ in two sets of rows."""
    name_features(look.labels, comparison.features)
    shifts = {feature: comparison.shift(feature, name, against) for feature in comparison.features}
    bars = [_difference(comparison, feature, name, against) for feature in comparison.features]
    distances: list[str] = []

    def moved(drawn: Sequence[Bar]) -> list[str]:
        distances.extend(distance_in_words(shifts[bar.name]) for bar in drawn)
        return distances

    ax, drawn, width = ranked_bars(ax, bars, look, shares=moved, by_size=True)
    first, second = short_labels([name, against], 30)
    named_rows.label_across(ax, f"{comparison.change}: {first} less {second}", width)
    notes = ["lines: 95% intervals"] if any(np.isfinite(bar.low) for bar in bars) else []
    if any("(" in text.get_text() for text in ax.texts):
        notes.append("in brackets: how far the values moved, from 0 to 1")
        notes += [f"{BEYOND}: beyond chance"] if any(BEYOND in one for one in distances) else []
    canvas.caption(ax, notes + not_shown(len(bars) - len(drawn), "smaller difference"))
    return ax


def _difference(comparison: Comparison, feature: str, name: str, against: str) -> Bar:
    """The difference of two importances and, where there is one, its interval."""
    try:
        difference = comparison.difference(feature, name, against)
    except ValueError:
        first, second = (comparison.importances[one][feature].pfi for one in (name, against))
        return Bar(feature, first - second)
    return Bar(feature, difference.value, difference.low, difference.high)


def _notes(comparison: Comparison, models: int, names: Sequence[str]) -> list[str]:
    each = comparison.importances.values()
    lines = any(np.isfinite(interval_or_nan(next(iter(model.values())))[0]) for model in each)
    notes = ["lines: 95% intervals"] if lines else []
    # Which features, and of which model, is in the table: names take too much space.
    cautions = [model[name].caution for model in each for name in names]
    cautions = noted(["some"] * len(cautions), cautions)
    if lines and comparison.paired and not cautions:  # advice is less urgent, and small axes have no space for both
        notes.append("on the same rows: .differences() is often more precise than the lines suggest")
    if models < len(comparison.names):
        notes.append(f"the first {models} of {len(comparison.names)}")
    return notes + cautions + not_shown(len(comparison.features) - len(names))
