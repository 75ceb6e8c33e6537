"""A group of columns has no axis to draw a curve over: a histogram of what there is for each row instead."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from losslens.plots.canvas import BLUE, INK, SKY, caption, legend, make_room, plain_frame, value_ticks
from losslens.plots.lines import EXTREMES
from losslens.plots.shown import Shown, Singles
from losslens.plots.wording import count, number, shorten

Floats = NDArray[np.float64]
MOST_BINS = 40
HELD = (0.02, 0.98)  # the axis reaches from one quantile of the local importances to the other


def draw_group(shown: Shown, ax: Axes) -> None:
    """Importances: the local ones, a row each. Effects and scores: the curve's own values."""
    members = shorten(", ".join(shown.columns), 60)
    notes = [f"{shown.title} is {count(len(shown.columns), 'column')} ({members}) without a common axis"]
    lines = [ax.axvline(0, color=INK, linewidth=0.6)] if shown.from_zero else []
    if shown.level is not None and shown.singles is not None:
        name = f"PFI, {number(shown.level)}"
        lines.append(ax.axvline(shown.level, color=INK, linewidth=1.2, linestyle=(0, (6, 3)), label=name))
        notes += _local_importances(ax, shown.singles)
    else:
        notes += _curve_values(ax, shown)
    notes += shown.warning("faded")
    ax.set_xlabel(shown.axis, parse_math=False)
    plain_frame(ax)
    above = legend(ax)
    make_room(ax, below=0.0, above=above)
    ax.set_ylim(bottom=0)
    for line in lines:
        line.set_ydata((0, 1 - above))  # not through the legend
    value_ticks(ax.xaxis)
    caption(ax, notes)


def _local_importances(ax: Axes, singles: Singles) -> list[str]:
    local = np.asarray(singles.result.means.local)
    local = local[np.isfinite(local)]
    ends = np.quantile(local, HELD)
    _histogram(ax, np.clip(local, *ends), None)
    ax.set_ylabel("rows")
    for position, (place, colour, _, marker) in zip(singles.extremes(), EXTREMES, strict=False):
        at = np.clip(singles.integral[position], *ends)
        style: dict[str, Any] = {"color": colour, "clip_on": False, "markersize": 7, "zorder": 4}
        ax.plot(at, 0, marker, label=singles.label(position, place), **style)
    notes = [f"shown are the local importances of {count(len(local), 'row')}"]
    out = int(np.sum((local < ends[0]) | (local > ends[1])))
    return [*notes, f"the outermost bars hold {count(out, 'row')} from beyond the axis"] if out else notes


def _curve_values(ax: Axes, shown: Shown) -> list[str]:
    met = np.isfinite(shown.curve)
    _histogram(ax, shown.curve[met], None if shown.weights is None else shown.weights[met])
    ax.set_ylabel("joint values" if shown.weights is None else "share of the donors")
    return [f"shown are the values of its {shown.curve_name}"]


def _histogram(ax: Axes, values: Floats, weights: Floats | None) -> None:
    bins = int(np.clip(2 * np.sqrt(len(values)), 5, MOST_BINS))
    ax.hist(values, bins=bins, weights=weights, color=SKY, edgecolor=BLUE, linewidth=0.5)
