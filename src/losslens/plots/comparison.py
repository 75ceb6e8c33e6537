"""Models side by side: for each feature, a dot with an interval for each model; differences of two sets of rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

from losslens.plots import canvas, named_rows
from losslens.plots.bars import Bar, draw_bars, known_interval
from losslens.plots.canvas import INK
from losslens.plots.subgroups import LOOKS, separate_rows, shift_of
from losslens.plots.wording import labels, not_shown, number
from losslens.results.comparison import BEYOND, Comparison, distance_in_words
from losslens.typing import Floats
from losslens.uncertainty.cautions import noted

LEGEND = 3  # lines of text that the legend takes


@canvas.takes_axes
def plot_comparison(comparison: Comparison, *, ax: Axes | None = None) -> Axes:
    """Draw the importances of each feature below each other, with 95% intervals; the legend has each model's error.

    At most 8 models are drawn, and of the features those that matter most to any of them.

    Parameters
    ----------
    comparison
        What `losslens.compare` gives.
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
    high = 0.5 + 0.45 * len(shown)  # of a feature, in lines of text
    if ax is None:
        most = max(1, int(named_rows.MOST_ROWS / high))
        ax = canvas.new_axes(int(high * min(most, len(comparison.features))) + LEGEND)
    else:
        most = max(1, int((named_rows.rows_that_fit(ax) - LEGEND) / high))
    order = comparison._ranked[:most]
    for k, ((_, importances), name) in enumerate(zip(shown, labels([name for name, _ in shown], 30), strict=True)):
        pfi = [importances[feature].pfi for feature in order]
        ends = np.array([known_interval(importances[feature]) or (np.nan, np.nan) for feature in order])
        draw_series(ax, k, len(shown), pfi, ends, f"{name}: {comparison.told_as} {number(importances.base)}")
    separate_rows(ax, len(order))
    zero = ax.axvline(0, color=INK, linewidth=0.8, zorder=1)
    names = labels(order, named_rows.letters_beside(ax))
    named_rows.legend_above(ax, named_rows.dress_rows(ax, names, own, comparison.change), [zero])
    unnamed = [] if ax.get_legend() else ["no space to name the models"]
    canvas.caption(ax, unnamed + _notes(comparison, len(shown), order))
    return ax


def draw_series(ax: Axes, k: int, of: int, values: Sequence[float], ends: Floats, label: str) -> None:
    """The k-th of several series: a dot with an interval in each row, below those of the series before it."""
    colour, _, marker = LOOKS[k]
    at = np.arange(len(values)) + shift_of(k, of)
    ax.plot(values, at, marker, color=colour, markersize=5, label=label, zorder=4, linestyle="none")
    ax.hlines(at, ends[:, 0], ends[:, 1], color=colour, linewidth=1.3, zorder=3)


@canvas.takes_axes
def plot_moved(comparison: Comparison, name: str, against: str, *, ax: Axes | None = None) -> Axes:
    """Draw how much each importance differs between two sets of rows, with 95% intervals, and how far its values moved.

    Parameters
    ----------
    comparison
        What `losslens.compare` gives for several sets of rows.
    name, against
        The two sets of rows: the first less the second.
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
    order = sorted(comparison.features, key=lambda feature: -abs(apart[feature][0]))
    bars, own = [Bar(feature, apart[feature][0], apart[feature][1]) for feature in order], ax is None
    ax, most = named_rows.open_rows(ax, len(bars), below=3)
    distances = [distance_in_words(shifts[feature]) for feature in order[:most]]
    width = draw_bars(ax, bars[:most], own, shares=distances)
    first, second = labels([name, against], 30)
    named_rows.label_across(ax, f"{comparison.change}: {first} less {second}", width)
    notes = ["lines: 95% intervals"] if any(bar.interval for bar in bars) else []
    if any("(" in text.get_text() for text in ax.texts):
        notes.append("in brackets: how far the values moved, from 0 to 1")
        notes += [f"{BEYOND}: beyond chance"] if any(BEYOND in one for one in distances) else []
    canvas.caption(ax, notes + not_shown(len(bars) - most))
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
