"""Models side by side: for each feature, a dot with an interval for each model; differences of two sets of rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

from losslens.plots import canvas, named_rows
from losslens.plots.bars import Bar, BarLook, known_interval, ranked_bars
from losslens.plots.canvas import INK
from losslens.plots.importance_axis import bend, check_scale
from losslens.plots.options import arrange, colours, most_of, name_features
from losslens.plots.subgroups import COLOURS, LOOKS, separate_rows, shift_of
from losslens.plots.wording import labels as short_labels
from losslens.plots.wording import not_shown, number
from losslens.results.comparison import BEYOND, Comparison, distance_in_words
from losslens.typing import AxisScale, Colors, FeatureLabels, Floats, Sort
from losslens.uncertainty.cautions import noted

LEGEND = 3  # lines of text that the legend takes


@canvas.takes_axes
def plot_comparison(
    comparison: Comparison, *, top: int | None = None, sort: Sort = "importance", scale: AxisScale = "linear",
    colors: Colors | None = None, labels: FeatureLabels | None = None, ax: Axes | None = None,
) -> Axes:  # fmt: skip
    """Draw the importances of each feature below each other, with 95% intervals; the legend has each model's error.

    At most 8 models are drawn, and of the features those that matter most to any of them.

    Parameters
    ----------
    comparison
        What `losslens.compare` gives.
    top
        How many features to draw, the most important ones; all that fit by default.
    sort
        Order of the features: ``"importance"``, ``"name"`` or ``"given"``, the order of the columns.
    scale
        Axis of the importances: ``"linear"``, ``"log"``, or ``"symlog"``, which also shows those up to 0.
    colors
        One colour for all models, a list in their order, or a mapping from their names to colours.
    labels
        Names to show instead of those of the features: a mapping to a name, or to a name and a unit.
    ax
        Where to draw; a new figure by default.

    Examples
    --------
    >>> import numpy as np, losslens as ll
    >>> X = np.random.default_rng(0).normal(size=(50, 2))
    >>> models = {"both": lambda X: X[:, 0] + X[:, 1], "one": lambda X: X[:, 1]}
    >>> comparison = ll.compare(models, X, 2 * X[:, 1], loss="squared_error", shapley=False)
    >>> [label.get_text() for label in plot_comparison(comparison).get_yticklabels()]
    ['x1', 'x0']
    """
    own, shown = ax is None, list(comparison.importances.items())[: len(LOOKS)]
    names, models = name_features(labels, comparison.features), [name for name, _ in shown]
    fill = colours(colors, models, COLOURS, "model", comparison.names)
    ranked = comparison._ranked[: most_of(top, len(comparison.features))]
    check_scale(scale, np.array([one[feature].pfi for _, one in shown for feature in ranked]))
    high = 0.5 + 0.45 * len(shown)  # of a feature, in lines of text
    if ax is None:
        most = max(1, int(named_rows.MOST_ROWS / high))
        ax = canvas.new_axes(int(high * min(most, len(ranked))) + LEGEND)
    else:
        most = max(1, int((named_rows.rows_that_fit(ax) - LEGEND) / high))
    every = list(comparison.features)
    places = np.array([every.index(feature) for feature in ranked[:most]], np.intp)
    order = [every[j] for j in arrange(names.all(every), places, sort)]
    bend(ax.xaxis, scale, np.array([one[feature].pfi for _, one in shown for feature in order]))
    for k, ((_, importances), name) in enumerate(zip(shown, short_labels(models, 30), strict=True)):
        pfi = [importances[feature].pfi for feature in order]
        ends = np.array([known_interval(importances[feature]) or (np.nan, np.nan) for feature in order])
        label = f"{name}: {comparison._measure} {number(importances.base)}"
        draw_series(ax, k, len(shown), pfi, ends, label, fill[k])
    separate_rows(ax, len(order))
    zero = [] if scale == "log" else [ax.axvline(0, color=INK, linewidth=0.8, zorder=1)]
    short = short_labels(names.all(order), named_rows.letters_beside(ax))
    named_rows.legend_above(ax, named_rows.dress_rows(ax, short, own, comparison.change), zero)
    unnamed = [] if ax.get_legend() else ["no space to name the models"]
    canvas.caption(ax, unnamed + _notes(comparison, len(shown), order))
    return ax


def draw_series(ax: Axes, k: int, of: int, values: Sequence[float], ends: Floats, label: str, colour: str) -> None:
    """The k-th of several series: a dot with an interval in each row, below those of the series before it."""
    at = np.arange(len(values)) + shift_of(k, of)
    ax.plot(values, at, LOOKS[k][2], color=colour, markersize=5, label=label, zorder=4, linestyle="none")
    ax.hlines(at, ends[:, 0], ends[:, 1], color=colour, linewidth=1.3, zorder=3)


@canvas.takes_axes
def plot_moved(
    comparison: Comparison, name: str, against: str, *, top: int | None = None, sort: Sort = "importance",
    scale: AxisScale = "linear", colors: Colors | None = None, labels: FeatureLabels | None = None,
    ax: Axes | None = None,
) -> Axes:  # fmt: skip
    """Draw how much each importance differs between two sets of rows, with 95% intervals, and how far its values moved.

    Parameters
    ----------
    comparison
        What `losslens.compare` gives for several sets of rows.
    name, against
        The two sets of rows: the first less the second.
    top
        How many features to draw, those whose importances differ most; all that fit by default.
    sort
        Order of the features: ``"importance"``, ``"name"`` or ``"given"``, the order of the columns.
    scale
        Axis of the differences: ``"linear"`` or ``"symlog"``; ``"log"`` only if all are above 0.
    colors
        One colour for all bars, a list from top to bottom, or a mapping from features to colours.
    labels
        Names to show instead of those of the features: a mapping to a name, or to a name and a unit.
    ax
        Where to draw; a new figure by default, as high as the features need.

    Examples
    --------
    >>> import numpy as np, losslens as ll
    >>> X = np.random.default_rng(0).normal(size=(50, 2))
    >>> rows = {"early": X, "late": X + [0, 2]}
    >>> y = {"early": X[:, 0] + X[:, 1], "late": X[:, 0]}
    >>> found = ll.compare(lambda X: X.sum(axis=1), rows, y, loss="squared_error", shapley=False)
    >>> [label.get_text() for label in plot_moved(found, "late", "early").get_yticklabels()]
    ['x1', 'x0']
    """
    shifts = {feature: comparison.shift(feature, name, against) for feature in comparison.features}
    apart = {feature: _known_difference(comparison, feature, name, against) for feature in comparison.features}
    bars = [Bar(feature, apart[feature][0], apart[feature][1]) for feature in comparison.features]
    distances: list[str] = []

    def moved(drawn: Sequence[Bar]) -> list[str]:
        distances.extend(distance_in_words(shifts[bar.name]) for bar in drawn)
        return distances

    look = BarLook(top, sort, scale, colors, name_features(labels, comparison.features))
    ax, drawn, width = ranked_bars(ax, bars, look, shares=moved, by_size=True)
    first, second = short_labels([name, against], 30)
    named_rows.label_across(ax, f"{comparison.change}: {first} less {second}", width)
    notes = ["lines: 95% intervals"] if any(bar.interval for bar in bars) else []
    if any("(" in text.get_text() for text in ax.texts):
        notes.append("in brackets: how far the values moved, from 0 to 1")
        notes += [f"{BEYOND}: beyond chance"] if any(BEYOND in one for one in distances) else []
    canvas.caption(ax, notes + not_shown(len(bars) - len(drawn), "smaller difference"))
    return ax


def _known_difference(
    comparison: Comparison, feature: str, name: str, against: str
) -> tuple[float, tuple[float, float] | None]:
    """The difference of two importances and, where there is one, its interval."""
    try:
        found = comparison.difference(feature, name, against)
    except ValueError:
        return comparison.importances[name][feature].pfi - comparison.importances[against][feature].pfi, None
    return found.value, (found.low, found.high)


def _notes(comparison: Comparison, models: int, names: Sequence[str]) -> list[str]:
    lines = any(known_interval(next(iter(model.values()))) for model in comparison.importances.values())
    notes = ["lines: 95% intervals"] if lines else []
    cautions = _cautions(comparison, names)
    if lines and comparison.paired and not cautions:  # advice is less urgent, and small axes have no space for both
        notes.append("on the same rows: .differences() is often more precise than the lines suggest")
    if models < len(comparison.names):
        notes.append(f"the first {models} of {len(comparison.names)}")
    return notes + cautions + not_shown(len(comparison.features) - len(names))


def _cautions(comparison: Comparison, names: Sequence[str]) -> list[str]:
    """Of the features that are drawn; which, and of which model, is in the table: names take too much space."""
    said = [model[name].caution for model in comparison.importances.values() for name in names]
    return noted(["some"] * len(said), said)
