"""The importance along the values of a feature in all folds of a learner."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes

from losslens.plots import canvas
from losslens.plots.canvas import BLUE, PALE, SINGLE
from losslens.plots.importance_axis import bend, check_scale
from losslens.plots.lines import dress_curves, fill_band, trace
from losslens.plots.look import Look, Names
from losslens.plots.marked_rows import Dots, Series, draw_series
from losslens.plots.options import name_features, one_colour
from losslens.plots.scale import scale as scale_of
from losslens.plots.wording import count, not_shown, shorten, value_label
from losslens.results.refits import RefitCurve
from losslens.typing import Floats
from losslens.uncertainty.cautions import noted


def plot_refit_curve(curve: RefitCurve, ax: Axes | None, look: Look) -> Axes:
    """Draw the curves of the folds and their mean."""
    names, colour = name_features(look.labels, [curve.name]), one_colour(look.colors, BLUE)
    check_scale(look.scale, curve.importance)
    folds = curve.folds if look.curves else curve.folds[:0]
    if not curve.ordered:
        return _draw_words(curve, folds, ax, names, colour, look)
    ax = canvas.new_axes() if ax is None else ax
    places = scale_of(curve.grid, None)
    bend(ax.yaxis, look.scale, curve.importance)
    for k, one in enumerate(folds):
        style: dict[str, Any] = {"color": PALE, "linewidth": 0.8, "zorder": 1, "gid": SINGLE}
        trace(ax, places, one, marker=".", label=count(len(curve.folds), "fold") if k == 0 else None, **style)
    every = np.isfinite(curve.folds).all(axis=0)  # elsewhere a mean of fewer folds would step where one ends
    mean = np.where(every, curve.importance, np.nan) if every.any() else curve.importance
    name = f"{curve.level:.0%} for the learner"
    joined = places.kind != "word"  # nothing lies between words
    fill_band(ax, places, mean - curve.reach, mean + curve.reach, colour, name, joined=joined)
    style = {"color": colour, "linewidth": 2.4, "linestyle": "-" if joined else "none", "label": "mean", "zorder": 5}
    trace(ax, places, mean, marker="o", **style)
    named = dress_curves(ax, places, shorten(names.title(curve.name), 60), curve.what)
    notes = [*named, "intervals: for each value separately"]
    notes += ["the mean is drawn where every fold has test rows"] if every.any() and not every.all() else []
    canvas.caption(ax, notes + noted([names.of(curve.name)], [curve.caution]))
    return ax


def _draw_words(curve: RefitCurve, folds: Floats, ax: Axes | None, names: Names, colour: str, look: Look) -> Axes:
    """A row for each value, the most important on top: a dot for each fold, a line for the learner's interval."""
    mean = curve.importance
    numbers = np.array([mean, mean - curve.reach, mean + curve.reach])
    style = {"color": PALE, "label": count(len(folds), "fold"), "zorder": 2.5}
    dots = Dots(folds, ".", style) if len(folds) else None
    values = [value_label(value) for value in curve.grid]
    ranked = np.argsort(-np.nan_to_num(mean, nan=-np.inf), kind="stable")
    series = [Series("mean", colour, numbers)]
    ax, order = draw_series(ax, Look(scale=look.scale), values, ranked, series, curve.what, repeats=dots)
    ax.set_ylabel(shorten(names.title(curve.name), 40), parse_math=False)
    notes = [f"lines: {curve.level:.0%} for the learner", *noted([names.of(curve.name)], [curve.caution])]
    canvas.caption(ax, notes + not_shown(len(curve.grid) - len(order), "less important value"))
    return ax
