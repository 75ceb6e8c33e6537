"""A group of columns has no axis to draw a curve over: a histogram of what there is for each row instead."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from losslens.plots.canvas import BLUE, INK, SKY, caption, legend, make_room, plain_frame
from losslens.plots.lines import EXTREMES
from losslens.plots.shown import Shown, Singles
from losslens.plots.wording import count, number, shorten

Floats = NDArray[np.float64]
MOST_BINS = 40


def draw_strip_of_rows(shown: Shown, ax: Axes) -> None:
    """Importances: the local ones, a row each. Effects and scores: the curve's own values."""
    if shown.level is not None and shown.singles is not None:
        _local_importances(ax, shown.singles, shown.level)
        what = "shown are the local importances"
    else:
        _curve_values(ax, shown)
        what = f"shown are the values of its {shown.curve_name}"
    ax.set_xlabel(shown.axis, parse_math=False)
    plain_frame(ax)
    make_room(ax, below=0.0, above=legend(ax))
    ax.set_ylim(bottom=0)
    members = shorten(", ".join(shown.columns), 60)
    caption(ax, [f"{shown.title} is {count(len(shown.columns), 'column')} ({members}) without a common axis: {what}"])


def _local_importances(ax: Axes, singles: Singles, level: float) -> None:
    local = np.asarray(singles.result.means.local)
    _histogram(ax, local[np.isfinite(local)], None)
    ax.set_ylabel("rows")
    ax.axvline(0, color=INK, linewidth=0.6)
    ax.axvline(level, color=INK, linewidth=1.2, linestyle=(0, (6, 3)), label=f"PFI, {number(level)}")
    for position, (place, colour, _, marker) in zip(singles.extremes(), EXTREMES, strict=False):
        ax.plot(
            singles.integral[position], 0, marker, color=colour, label=singles.label(position, place), clip_on=False,
            markersize=7, zorder=4,
        )  # fmt: skip


def _curve_values(ax: Axes, shown: Shown) -> None:
    met = np.isfinite(shown.curve)
    _histogram(ax, shown.curve[met], None if shown.weights is None else shown.weights[met])
    ax.set_ylabel("joint values" if shown.weights is None else "share of the donors")
    if shown.from_zero:
        ax.axvline(0, color=INK, linewidth=0.6)


def _histogram(ax: Axes, values: Floats, weights: Floats | None) -> None:
    bins = int(np.clip(2 * np.sqrt(len(values)), 5, MOST_BINS))
    ax.hist(values, bins=bins, weights=weights, color=SKY, edgecolor=BLUE, linewidth=0.5)
