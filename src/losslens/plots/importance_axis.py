"""The axis of importances: linear, logarithmic, or logarithmic beyond a part around 0; and which values it holds.

Single rows can lie so far out that the mean would look flat: an axis then ends near the mean curve.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib import ticker
from matplotlib.axis import Axis, XAxis

from losslens.plots import canvas
from losslens.plots.canvas import LABEL_GAP, LINE, font_size, size_in_points, text_width
from losslens.plots.wording import MINUS
from losslens.typing import AxisScale, Floats

NEAR = 2.0  # an axis holds all single rows if their range is at most so many times that of the mean curve ...
REACH = 0.35  # ... and extends at most so many of the latter beyond the curve and its band ...
FAR_BAND = 1.0  # ... of which it shows what is at most so many of them from the curve
EVERYTHING = (-np.inf, np.inf)
BENT = 1e-3  # an axis is linear at most up to this share of the largest value ...
SMALL = 0.25  # ... or up to this quantile of all values
FEW = 3  # ticks: with fewer powers of ten, their multiples by 2 and 5 have ticks, too


def extent(mean: Floats, singles: Floats, band: Floats | None = None) -> tuple[float, float]:
    """Limits of an axis that shows 0, the mean curve, its band and what is near them; infinite if nothing is far.

    >>> extent(np.array([1.0, 2.0]), np.array([[-50.0, 70.0]]))
    (-0.7, 2.7)
    >>> extent(np.array([1.0, 2.0]), np.array([[0.5, 3.0]]))
    (-inf, inf)
    """
    core = np.append(mean[np.isfinite(mean)], 0.0)
    low, high, span = float(core.min()), float(core.max()), float(np.ptp(core))
    rows = singles[np.isfinite(singles)]
    if span == 0 or len(rows) == 0 or np.ptp([*core, rows.min(), rows.max()]) <= NEAR * span:
        return EVERYTHING
    finite = np.array([]) if band is None else band[np.isfinite(band)]
    if len(finite):
        low = min(low, max(float(finite.min()), low - FAR_BAND * span))
        high = max(high, min(float(finite.max()), high + FAR_BAND * span))
    return low - REACH * span, high + REACH * span


def beyond(limits: tuple[float, float], singles: Floats) -> int:
    """How many of these curves (rows of a matrix) or points leave the axis."""
    out = (singles < limits[0]) | (singles > limits[1])
    return int(out.any(axis=tuple(range(1, out.ndim))).sum())


def check_scale(scale: AxisScale, values: Floats) -> None:
    """Raise ValueError if a logarithmic axis can't hold all of these."""
    finite = values[np.isfinite(values)]
    outside = int(np.sum(finite <= 0))
    if scale == "log" and outside:
        raise ValueError(
            f"scale='log' needs values above 0, and {outside:,} of {finite.size:,} are not; scale='symlog' shows all"
        )


def bend(axis: Axis, scale: AxisScale, values: Floats) -> None:
    """Give an axis the requested scale; the part around 0 of "symlog" depends on these values."""
    if scale == "linear":
        return
    size = np.abs(values[np.isfinite(values) & (values != 0)])
    options: dict[str, Any] = {"nonpositive": "clip"}
    if scale == "symlog":
        largest = float(size.max(initial=0.0)) or 1.0
        small = float(np.quantile(size, SMALL)) if len(size) else largest
        options = {"linthresh": max(BENT * largest, min(small, largest))}
    getattr(axis.axes, "set_xscale" if isinstance(axis, XAxis) else "set_yscale")(scale, **options)


def importance_ticks(axis: Axis, width: float | None = None) -> None:
    """Ticks of an axis of importances; on a bent one at 0 and at powers of ten, as many as fit into its length."""
    if axis.get_scale() == "linear":
        canvas.value_ticks(axis, width)
        return
    horizontal = isinstance(axis, XAxis)
    points = (width or size_in_points(axis.axes)[0]) if horizontal else canvas.size_left(axis.axes)[1]
    ticks = _fitting(axis, _powers(axis, (1,)), points)
    if len(ticks) < FEW:
        ticks = _fitting(axis, [*ticks, *_powers(axis, (2, 5))], points)
    if len(ticks) < FEW:
        low, high = sorted(axis.get_view_interval())
        ticks = _fitting(axis, [*ticks, *ticker.MaxNLocator(5).tick_values(low, high)], points)
    axis.set_ticks(ticks, [_written(tick) for tick in ticks])
    axis.set_ticks([], minor=True)


def _powers(axis: Axis, multiples: Sequence[int]) -> list[float]:
    """0 and multiples of powers of ten, the largest first."""
    low, high = sorted(axis.get_view_interval())
    largest = max(abs(low), abs(high)) or 1.0
    smallest = low if low > 0 else getattr(axis.get_transform(), "linthresh", largest / 1e6)
    exponents = range(int(np.floor(np.log10(largest))), int(np.floor(np.log10(smallest))) - 1, -1)
    sizes = [multiple * 10.0**exponent for exponent in exponents for multiple in sorted(multiples, reverse=True)]
    return [0.0, *(sign * size for size in sizes for sign in (1, -1))]


def _fitting(axis: Axis, ticks: Sequence[float], points: float) -> list[float]:
    """The ticks on the axis that don't overlap an earlier one."""
    size = font_size(mpl.rcParams["xtick.labelsize"])
    bent, (low, high) = axis.get_transform(), sorted(axis.get_view_interval())
    start, end = bent.transform([low, high])
    taken: list[tuple[float, float]] = []  # where labels lie, and half of their lengths
    kept = []
    for tick in ticks:
        if not low <= tick <= high or (tick == 0 and axis.get_scale() == "log"):
            continue
        position = float(points * (bent.transform([tick])[0] - start) / ((end - start) or 1.0))
        half = (text_width(_written(tick), size) + LABEL_GAP * size) / 2 if isinstance(axis, XAxis) else LINE * size / 2
        if all(abs(position - other) >= half + length for other, length in taken):
            taken.append((position, half))
            kept.append(tick)
    return sorted(kept)


def _written(tick: float) -> str:
    text = f"{tick:,.0f}" if 1000 <= abs(tick) < 1e9 else f"{tick:.12g}" if 1e-4 <= abs(tick) < 1000 else f"{tick:g}"
    return text.replace("-", MINUS)
