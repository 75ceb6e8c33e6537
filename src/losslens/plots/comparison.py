"""Models side by side: a dot with an interval for each, feature by feature."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes

from losslens.plots import canvas
from losslens.plots.bars import dress_rows, legend_above, not_shown
from losslens.plots.canvas import INK, MOST_ROWS, PALE
from losslens.plots.subgroups import LOOKS, SPREAD
from losslens.plots.wording import labels, number
from losslens.results.comparison import Comparison
from losslens.results.importance import FeatureImportance
from losslens.results.importances import Importances
from losslens.results.table import or_else

LEGEND = 3  # lines of text that the legend takes


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
    >>> found = ll.compare(models, X, X[:, 1], loss="squared_error", shapley=False)
    >>> [label.get_text() for label in plot_comparison(found).get_yticklabels()]
    ['x1', 'x0']
    """
    own, shown = ax is None, list(comparison.importances.items())[: len(LOOKS)]
    high = 0.5 + 0.45 * len(shown)  # of a feature, in lines of text
    if ax is None:
        most = max(1, int(MOST_ROWS / high))
        ax = canvas.new_axes(int(high * min(most, len(comparison.features))) + LEGEND)
    else:
        most = max(1, int((canvas.rows_that_fit(ax) - LEGEND) / high))
    order = comparison._ranked[:most]
    names = labels(order, canvas.letters_beside(ax))
    legend = labels([name for name, _ in shown], 30)
    for k, ((_, importances), name) in enumerate(zip(shown, legend, strict=True)):
        shift = SPREAD * ((k + 0.5) / len(shown) - 0.5)
        _draw_models(ax, importances, order, shift, k, f"{name}: error {number(importances.error)}")
    for between in range(1, len(order)):
        ax.axhline(between - 0.5, color=PALE, linewidth=0.4, zorder=0)
    zero = ax.axvline(0, color=INK, linewidth=0.8, zorder=1)
    legend_above(ax, len(order), dress_rows(ax, names, own, f"increase in {comparison.title}"), [zero])
    unnamed = [] if ax.get_legend() else ["no room to name the models"]
    canvas.caption(ax, unnamed + _model_notes(comparison, len(shown), len(order)))
    return ax


def _draw_models(ax: Axes, importances: Importances, order: list[str], shift: float, k: int, label: str) -> None:
    colour, _, marker = LOOKS[k]
    at = np.arange(len(order)) + shift
    ax.plot(
        [importances[name].pfi for name in order], at, marker, color=colour, markersize=5, label=label, zorder=4,
        linestyle="none",
    )  # fmt: skip
    ends = np.array([_ends(importances[name]) for name in order])
    ax.hlines(at, ends[:, 0], ends[:, 1], color=colour, linewidth=1.3, zorder=3)


def _ends(feature: FeatureImportance) -> tuple[float, float]:
    return or_else(feature.interval, (np.nan, np.nan))  # none where rows or donors are too few


def _model_notes(comparison: Comparison, models: int, features: int) -> list[str]:
    known = any(np.isfinite(_ends(next(iter(found.values())))).all() for found in comparison.importances.values())
    notes = ["lines: 95% intervals"] if known else []
    if known and comparison.paired:
        notes.append("on the same rows: .differences() is often surer than the lines suggest")
    if models < len(comparison.names):
        notes.append(f"the first {models} of {len(comparison.names)}")
    return notes + not_shown(len(comparison.features) - features)
