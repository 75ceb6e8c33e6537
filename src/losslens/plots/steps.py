"""Steps from one number to another: what each feature adds or takes off, the largest first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes

from losslens.plots import canvas, named_rows
from losslens.plots.canvas import BLUE, INK, PALE, VERMILLION
from losslens.plots.look import Look
from losslens.plots.marked_rows import THICKEST
from losslens.plots.options import arrange, colours, most_of
from losslens.plots.wording import MINUS, alike, count, number, shorten
from losslens.typing import Colors, Floats, Indices

MOST_LINES = 20  # features in a new figure
RISE_FALL = (VERMILLION, BLUE)  # colours of positive and negative steps


def rise_and_fall(colors: Colors | None, default: tuple[str, str]) -> tuple[str, str]:
    """The colours of positive and negative steps."""
    first, second = colours(colors, ("above 0", "below 0"), default, "kind of step")
    return first, second


class Step(NamedTuple):
    """One feature: its name, where its bar starts and ends, and the interval of its end where there is one."""

    name: str
    start: float
    end: float
    interval: tuple[float, float] | None = None


def draw_chain(
    ax: Axes | None, look: Look, features: Sequence[str], start: float, changes: Floats, rank: Floats,
    named: Callable[[Indices, int], list[str]], ends: tuple[str, str], label: str, both: tuple[str, str], *,
    below: int = 0, reach: Floats | None = None,
) -> tuple[Axes, list[Step]]:  # fmt: skip
    """A step for each feature that is asked for and fits, the largest `rank` on top, and a last one for all others.

    `named`: the names of some features, in so many letters; `reach`: half of the interval of each change, NaN for none.
    """
    own, p, asked = ax is None, len(features), most_of(look.top, len(features))
    drawn = min(asked, MOST_LINES)
    ax, most = named_rows.open_rows(ax, drawn + 2 + (drawn < p), below=below)
    letters, fit = named_rows.letters_beside(ax), max(1, most - 2)
    kept = np.argsort(-np.abs(changes), kind="stable")
    kept = kept[:asked] if asked + (asked < p) <= fit else kept[: max(0, fit - 1)]
    kept = arrange(look.names.all(features), kept[np.argsort(-rank[kept], kind="stable")], look.sort)
    written, each = named(kept, letters), changes[kept].tolist()
    if len(kept) < p:
        written.append(shorten(count(p - len(kept), "other feature"), letters))
        each.append(float(np.delete(changes, kept).sum()))
    steps = chain(start, written, each)
    for k, j in enumerate(kept if reach is not None else ()):
        if reach is not None and reach[j] > 0:
            steps[k] = steps[k]._replace(interval=(steps[k].end - reach[j], steps[k].end + reach[j]))
    first = ends[0] if len(ends[0]) <= letters else ends[0].partition(" over ")[0]
    draw_steps(ax, steps, (first, ends[1]), label, own, both)
    return ax, steps


def chain(start: float, names: Sequence[str], changes: Sequence[float]) -> list[Step]:
    """Steps of which each starts where the one before ends."""
    ends = np.cumsum([start, *changes]).tolist()
    return [Step(name, *span) for name, span in zip(names, pairwise(ends), strict=True)]


def draw_steps(
    ax: Axes, steps: Sequence[Step], ends: tuple[str, str], label: str, own: bool, colours: tuple[str, str] = RISE_FALL
) -> None:
    """A named bar with its change for each step, and a marker with its value at both ends of the chain."""
    rows = np.arange(1, len(steps) + 1)
    start, end = np.array([(step.start, step.end) for step in steps]).T
    thickness = min(0.62, THICKEST * (len(steps) + 2) / canvas.size_in_points(ax)[1])
    ax.barh(rows, end - start, left=start, height=thickness, color=np.where(end >= start, *colours).tolist())
    x = np.append(start, end[-1])
    ax.vlines(x, np.arange(len(x)), np.arange(len(x)) + 1, color=PALE, linewidth=0.8, zorder=0)  # to the next row
    ax.plot([x[0], x[-1]], [0, len(steps) + 1], "D", color=INK, markersize=4, zorder=3)
    intervals = [(row, *step.interval) for row, step in zip(rows, steps, strict=True) if step.interval is not None]
    if intervals:
        ax.hlines(*np.array(intervals).T, color=INK, linewidth=1.1, zorder=3)
    width = named_rows.name_rows(ax, [ends[0], *(step.name for step in steps), ends[1]], own)
    spans = [(step.start, step.end, *(step.interval or ())) for step in steps]
    right = [steps[0].start, *map(max, spans), steps[-1].end]
    named_rows.write_numbers(ax, _texts(steps), right, min(map(min, spans)), 0.85 * width, margin=True)
    canvas.value_ticks(ax.xaxis, 0.7 * width)  # numbers far from 0 have more digits
    named_rows.label_across(ax, label, width)
    canvas.plain_frame(ax)


def _texts(steps: Sequence[Step]) -> list[str]:
    """Both ends, as precise as the changes need, and the changes with their signs."""
    changes = alike([step.end - step.start for step in steps])
    decimals = len(changes[0].partition(".")[2]) - 1
    plain = not any("e" in text for text in changes)
    ends = [f"{end:,.{max(0, decimals)}f}" if plain else number(end) for end in (steps[0].start, steps[-1].end)]
    first, last = (f" {text}".replace("-", MINUS) for text in ends)  # a blank, because there is a marker before it
    return [first, *(text if text.startswith(MINUS) else f"+{text}" for text in changes), last]
