"""How far an axis of importances reaches: single rows can lie so far out that the mean would be a flat line."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from losslens.plots.shown import Shown

Floats = NDArray[np.float64]
REACH = 3.0  # an axis goes at most so many heights of the mean curve beyond it ...
HELD = (0.05, 0.95)  # ... unless it needs more to hold nine in ten of the values of single rows
EVERYTHING = (-np.inf, np.inf)


def extent(shown: Shown, singles: Floats) -> tuple[float, float]:
    """The ends of the axis, infinite where nothing is to be cut: effects are never cut."""
    seen = singles[np.isfinite(singles)]
    if not shown.from_zero or len(seen) == 0:
        return EVERYTHING
    core = np.array([0.0, shown.level or 0.0, *shown.curve[np.isfinite(shown.curve)]])
    further = REACH * np.ptp(core)
    low, high = np.quantile(seen, HELD)
    return min(low, core.min() - further), max(high, core.max() + further)


def beyond(limits: tuple[float, float], singles: Floats) -> int:
    """How many of these curves (rows of a matrix) or points leave the axis."""
    out = (singles < limits[0]) | (singles > limits[1])
    return int(out.any(axis=tuple(range(1, out.ndim))).sum())
