"""Importances of learners, by folds and with permuted targets; and what features add beyond the others."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.text import Annotation

from losslens.plots import canvas, named_rows
from losslens.plots.bars import table_bars
from losslens.plots.canvas import BAND, BLUE, INK, PALE, SINGLE, VERMILLION, folded
from losslens.plots.scale import dress, scale
from losslens.plots.wording import count, labels, not_shown, number, shorten, value_label
from losslens.results.permuted_target import PermutedTarget
from losslens.results.refits import RefitCurve, Refits
from losslens.results.row_changes import RowChanges
from losslens.typing import Floats
from losslens.uncertainty.cautions import noted


@canvas.takes_axes
def plot_refits(refits: Refits, *, ax: Axes | None = None) -> Axes:
    """Draw a learner's importances, the largest on top, with a dot for each fold.

    Parameters
    ----------
    refits
        What `losslens.feature_importance_cv` or `losslens.shapley_importance_cv` gives.
    ax
        Where to draw; a new figure by default.

    Examples
    --------
    >>> import numpy as np, losslens as ll
    >>> from sklearn.linear_model import LinearRegression
    >>> X = np.random.default_rng(0).normal(size=(50, 2))
    >>> refits = ll.feature_importance_cv(LinearRegression(), X, 2 * X[:, 1], random_state=0)
    >>> [label.get_text() for label in plot_refits(refits).get_yticklabels()]
    ['x1', 'x0']
    """
    ax, most, width = table_bars(ax, refits._table())
    dots = refits.per_fold[:, np.argsort(-refits.importance, kind="stable")[:most]]
    look: dict[str, Any] = {"color": BLUE, "markersize": 4, "markerfacecolor": "white", "markeredgewidth": 1}
    _draw_repeats(ax, dots, "o", zorder=3, **look)
    _make_way(ax, dots)
    named_rows.label_across(ax, refits.headline.split(";")[0], width)
    error = f"mean {refits.measure} with nothing replaced: {number(float(refits.errors.mean()))}"
    lines = f"lines: 95% intervals for the learner ({refits.variance} variance)"
    notes = [error, f"dots: {count(len(refits.folds), 'fold')}", lines]
    canvas.caption(ax, notes + refits.cautions + not_shown(len(refits.features) - most))
    return ax


@canvas.takes_axes
def plot_impact(impact: RowChanges, *, ax: Axes | None = None) -> Axes:
    """Draw what each feature adds beyond the others, the largest on top.

    Parameters
    ----------
    impact
        What `losslens.conditional_predictive_impact` or `losslens.leave_one_covariate_out` gives.
    ax
        Where to draw; a new figure by default.

    Examples
    --------
    >>> import numpy as np, losslens as ll
    >>> X = np.random.default_rng(0).normal(size=(50, 2))
    >>> shuffled = lambda X, columns, rng: X[rng.permutation(len(X))]
    >>> impact = ll.conditional_predictive_impact(lambda X: X[:, 1], X, 2 * X[:, 1], shuffled, loss="squared_error")
    >>> [label.get_text() for label in plot_impact(impact).get_yticklabels()]
    ['x1', 'x0']
    """
    ax, most, width = table_bars(ax, impact._table())
    named_rows.label_across(ax, impact.what, width)
    notes = [f"error {impact.untouched}: {number(impact.error)}", "lines: 95% intervals"]
    canvas.caption(ax, notes + impact.cautions + not_shown(len(impact.features) - most))
    return ax


@canvas.takes_axes
def plot_permuted_target(test: PermutedTarget, *, ax: Axes | None = None) -> Axes:
    """Draw each feature's importance over those with permuted targets, the largest on top; p beside the names.

    Parameters
    ----------
    test
        What `losslens.permuted_target_test` gives.
    ax
        Where to draw; a new figure by default.

    Examples
    --------
    >>> import numpy as np, losslens as ll
    >>> from sklearn.linear_model import LinearRegression
    >>> X = np.random.default_rng(0).normal(size=(50, 2))
    >>> test = ll.permuted_target_test(LinearRegression(), X, 2 * X[:, 1], permutations=9, random_state=0)
    >>> [label.get_text().split()[0] for label in plot_permuted_target(test).get_yticklabels()]
    ['x1', 'x0']
    """
    own = ax is None
    ax, most = named_rows.open_rows(ax, len(test.features) + 2)
    order = np.argsort(-test.importance, kind="stable")[: max(1, most - 2)]
    name = f"target permuted, {count(len(test.null), 'time')}"
    _draw_repeats(ax, test.null[:, order], "|", color=PALE, markersize=9, alpha=0.6, label=name, zorder=1)
    style: dict[str, Any] = {"color": VERMILLION, "markersize": 6, "label": "importance", "zorder": 3}
    ax.plot(test.importance[order], np.arange(len(order)), "D", **style)
    zero = ax.axvline(0, color=INK, linewidth=0.8, zorder=0)
    short = labels([test.features[j] for j in order], named_rows.letters_beside(ax) - 8)
    names = [f"{text} (p = {test.p_values[j]:.2g})" for text, j in zip(short, order, strict=True)]
    named_rows.legend_above(ax, named_rows.dress_rows(ax, names, own, test.what), [zero])
    notes = ["p: share of the permutations with at least this importance, the original included"]
    canvas.caption(ax, notes + not_shown(len(test.features) - len(order)))
    return ax


@canvas.takes_axes
def plot_refit_curve(curve: RefitCurve, *, ax: Axes | None = None) -> Axes:
    """Draw the PI curve of each fold thin and their mean strong, with the learner's interval at each value.

    Parameters
    ----------
    curve
        What ``.curve(feature)`` of refits gives.
    ax
        Where to draw; a new figure by default.

    Examples
    --------
    >>> import numpy as np, losslens as ll
    >>> from sklearn.linear_model import LinearRegression
    >>> X = np.random.default_rng(0).normal(size=(50, 2))
    >>> refits = ll.feature_importance_cv(LinearRegression(), X, 2 * X[:, 1], random_state=0)
    >>> plot_refit_curve(refits.curve("x1")).get_xlabel()
    'x1'
    """
    if not curve.ordered:
        return _draw_words(curve, ax)
    ax = canvas.new_axes() if ax is None else ax
    places = scale(curve.grid, None)
    at, here, apart = places.at, places.present, places.kind == "word"  # nothing lies between words
    for k, one in enumerate(curve.folds):
        label = count(len(curve.folds), "fold") if k == 0 else None
        style: dict[str, Any] = {"color": PALE, "linewidth": 0.8, "marker": "." if apart else None}
        ax.plot(at[here], one[here], label=label, zorder=1, gid=SINGLE, **style)
    mean, low, high = curve.importance, curve.importance - curve.reach, curve.importance + curve.reach
    name = f"{curve.level:.0%} for the learner"
    if apart:
        ax.vlines(at[here], low[here], high[here], color=BLUE, label=name, zorder=2, gid=BAND)
        ax.plot(at[here], mean[here], "D", color=BLUE, label="mean", zorder=3)
    else:
        style = {"color": BLUE, "alpha": 0.22, "linewidth": 0, "gid": BAND}
        ax.fill_between(at[here], low[here], high[here], label=name, zorder=2, **style)
        ax.plot(at[here], mean[here], color=BLUE, linewidth=2.4, label="mean", zorder=3)
    if places.missing:
        ax.plot(np.repeat(at[-1], len(curve.folds)), curve.folds[:, -1], ".", color=PALE, zorder=1, gid=SINGLE)
        ax.errorbar(at[-1:], mean[-1:], curve.reach[-1:], fmt="D", color=BLUE, zorder=3)
    ax.axhline(0, color=INK, linewidth=0.6, zorder=0)
    dress(ax, places, shorten(curve.name, 60))
    ax.set_ylabel(folded(curve.what, 0.9 * canvas.size_left(ax)[1]), parse_math=False)
    canvas.plain_frame(ax)
    canvas.make_room(ax, 0.0, canvas.legend(ax))
    canvas.value_ticks(ax.yaxis)
    notes = ["intervals: for each value separately", "folds are drawn over the values of their test rows"]
    canvas.caption(ax, notes + noted([curve.name], [curve.caution]))
    return ax


def _draw_words(curve: RefitCurve, ax: Axes | None) -> Axes:
    """A row for each value, the most important on top: a dot for each fold, a line for the learner's interval."""
    own = ax is None
    ax, most = named_rows.open_rows(ax, min(len(curve.grid), named_rows.MOST_ROWS) + 2)
    order = np.argsort(-np.nan_to_num(curve.importance, nan=-np.inf), kind="stable")[: max(1, most - 2)]
    rows, mean, reach = np.arange(len(order)), curve.importance[order], curve.reach[order]
    _draw_repeats(ax, curve.folds[:, order], ".", color=PALE, label=count(len(curve.folds), "fold"), zorder=2.5)
    ax.hlines(rows, mean - reach, mean + reach, color=BLUE, label=f"{curve.level:.0%} for the learner", gid=BAND)
    ax.plot(mean, rows, "o", color=BLUE, label="mean", zorder=3)
    names = labels([value_label(curve.grid[k]) for k in order], named_rows.letters_beside(ax))
    ax.set_ylabel(shorten(curve.name, 40), parse_math=False)
    named_rows.legend_above(ax, named_rows.dress_rows(ax, names, own, curve.what))
    notes = noted([curve.name], [curve.caution])
    canvas.caption(ax, notes + not_shown(len(curve.grid) - len(order), "less important value"))
    return ax


def _draw_repeats(ax: Axes, values: Floats, marker: str, **style: Any) -> None:
    """A marker for each fold or permutation in each row; values: (repeats, rows)."""
    at = np.broadcast_to(np.arange(values.shape[1]), values.shape)
    ax.plot(values.ravel(), at.ravel(), marker, gid=SINGLE, **style)


def _make_way(ax: Axes, dots: Floats) -> None:
    """Move the numbers right of the dots of their rows, (folds, rows), and extend the axis to all dots."""
    left, right = ax.get_xlim()
    numbers = [text for text in ax.texts if isinstance(text, Annotation)]
    before = max(text.xy[0] for text in numbers)
    for row, text in enumerate(numbers):
        text.xy = (max(text.xy[0], float(dots[:, row].max())), row)
    wider = (max(text.xy[0] for text in numbers) - left) / (before - left) if before > left else 1.0
    right = left + wider * (right - left)
    lowest = float(dots.min())
    ax.set_xlim(lowest - 0.03 * (right - lowest) if lowest < left else left, right)
