"""Pictures of one feature: which kind fits its grid."""

from __future__ import annotations

from matplotlib.axes import Axes

from losslens.curves import FeatureEffect
from losslens.importance import FeatureImportance
from losslens.plots.canvas import new_axes
from losslens.plots.dots import draw_dots
from losslens.plots.group import draw_group
from losslens.plots.heatmap import draw_heatmap
from losslens.plots.lines import draw_lines
from losslens.plots.scale import is_flag
from losslens.plots.shown import Shown, show
from losslens.scores import FeatureScore


def plot_importance(feature: FeatureImportance | FeatureScore, *, ax: Axes | None = None) -> Axes:
    """Draw where in a feature's range its importance comes from: the PI curve over the ICI curves of single rows.

    An ordered feature gives curves, or points where the design met each value with few rows only; words give dots
    and ranges; a pair gives a heat map with the observed rows as points, hatched where there are none; a group of
    columns gives its local importances. At most 200 curves are drawn, evenly along the order of the rows' local
    importances, and the rows at both ends are named.

    Parameters
    ----------
    feature
        One feature of what `losslens.feature_importance` gives.
    ax
        Where to draw; a new figure by default.

    Examples
    --------
    >>> import numpy as np, losslens as ll
    >>> X = np.random.default_rng(0).normal(size=(50, 2))
    >>> imp = ll.feature_importance(lambda X: X[:, 1], X, X[:, 1], loss="squared_error")
    >>> plot_importance(imp["x1"]).get_ylabel()
    'increase in squared error'
    """
    return _draw(show(feature), ax)


def plot_effect(effect: FeatureEffect, *, ax: Axes | None = None) -> Axes:
    """Draw how predictions move with a feature: the PD curve over the ICE curves of single rows.

    Parameters
    ----------
    effect
        One feature of what `losslens.feature_effect` gives, or ``.effect`` of an importance.
    ax
        Where to draw; a new figure by default.

    Examples
    --------
    >>> import numpy as np, losslens as ll
    >>> effects = ll.feature_effect(lambda X: X[:, 0], np.eye(5))
    >>> plot_effect(effects["x0"]).get_xlabel()
    'x0'
    """
    return _draw(show(effect), ax)


def _draw(shown: Shown, ax: Axes | None) -> Axes:
    grid = shown.values[0]
    one_column = len(shown.values) == 1 and grid.ndim == 1
    if one_column and (not shown.ordered or is_flag(grid)):
        return draw_dots(shown, ax)
    ax = new_axes() if ax is None else ax
    if len(shown.values) == 2:
        draw_heatmap(shown, ax)
    elif one_column:
        draw_lines(shown, ax)
    else:
        draw_group(shown, ax)
    return ax
