"""What is shown of a result in a notebook, and how its numbers read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from losslens.importance import FeatureImportance
from losslens.results import in_digits

Draw = Callable[[Figure], object]
MOST_LINES = 40  # of a table
MOST_BARS = 15  # rows of text in a picture
MOST_EFFECTS = 6  # small pictures beside each other
ACROSS = 3  # of them in one line
DPI = 100
NONE = "\N{EN DASH}"


class View(NamedTuple):
    """What is shown of a result: a title, a table, small print, and how to draw it."""

    title: str
    head: Sequence[str]
    lines: Sequence[Sequence[str]]
    notes: Sequence[str]
    draw: Draw
    size: tuple[float, float]  # of the picture, in inches


def on_one(plot: Callable[..., object], result: Any) -> Draw:
    """A picture of one plot."""
    return lambda figure: plot(result, ax=figure.add_subplot())


def picture_of(rows: int) -> tuple[float, float]:
    """A picture with so many rows of text."""
    return 5.2, 1.7 + 0.27 * min(rows, MOST_BARS)


def sizes(values: Sequence[NDArray[Any]]) -> str:
    """How many values a grid has."""
    return " × ".join(f"{len(some):,}" for some in values)


def number(ask: Callable[[], float]) -> str:
    """A number, or a dash where there is none."""
    try:
        value = float(ask())
    except ValueError:
        return NONE
    return in_digits(value) if np.isfinite(value) else NONE


def interval(feature: FeatureImportance) -> str:
    """Both ends, or a dash where there are none."""
    try:
        low, high = feature.interval()
    except ValueError:
        return NONE
    if not np.isfinite([low, high]).all():
        return NONE
    return f"{in_digits(low)} to {in_digits(high)}"
