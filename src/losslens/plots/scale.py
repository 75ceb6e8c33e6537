"""From grid values to places on an axis: numbers, dates, spans of time, ordered words, and missing values."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise, product
from typing import Any, Literal

import numpy as np
from matplotlib import dates as untyped_dates
from matplotlib import rcParams, ticker
from matplotlib.axes import Axes
from matplotlib.axis import Axis, XAxis
from numpy.typing import NDArray

from losslens.plots import canvas
from losslens.plots.canvas import LABEL_GAP, LINE, PALE, font_size, size_in_points, text_width
from losslens.plots.wording import percent, shorten, value_label, word_labels
from losslens.tables.columns import count_missing
from losslens.typing import Floats

dates: Any = untyped_dates  # this module of matplotlib has no types
Kind = Literal["number", "whole", "date", "span", "word"]
UNITS = (("days", 86400), ("hours", 3600), ("minutes", 60), ("seconds", 1))
MOST_DATES = 7  # ticks on an axis of dates
SHRUNK = 0.85  # share of the width that a layout engine leaves beside the labels of the other axis
GAP = 0.09  # from the largest value to the missing one, as a share of the range


@dataclass(frozen=True, eq=False)
class Scale:
    """Where each grid value is drawn."""

    x: Floats  # (g,)
    kind: Kind
    words: tuple[str, ...] = ()  # labels of kind "word"
    unit: str = ""  # of kind "span"
    missing: tuple[str, ...] = ()  # names of the last values, which stand for missing ones: one for each kind

    @property
    def present(self) -> slice:
        """The grid without missing values."""
        return slice(0, len(self.x) - len(self.missing))

    @property
    def absent(self) -> slice:
        """The grid's missing values."""
        return slice(len(self.x) - len(self.missing), len(self.x))


def scale(values: NDArray[Any], weights: Floats | None = None) -> Scale:
    """The places of an ordered grid; the weights give the shares of missing values."""
    missing = count_missing(values)
    present = len(values) - missing
    positions, kind, words, unit = _places(values[:present])
    finite = positions[np.isfinite(positions)]
    span = float(np.ptp(finite)) if len(finite) else 0.0
    gap = 1.0 if kind == "word" else GAP * (span or 1.0)
    positions = np.append(positions, (finite.max() if len(finite) else 0.0) + gap * np.arange(1, missing + 1))
    names = word_labels(values[present:])
    if weights is not None:
        names = [f"{name} ({percent(weight)})" for name, weight in zip(names, weights[present:], strict=True)]
    return Scale(positions, kind, words, unit, tuple(names))


def _places(values: NDArray[Any]) -> tuple[Floats, Kind, tuple[str, ...], str]:
    if values.dtype.kind == "O":
        values = _plain(values)
    if values.dtype.kind == "M":
        return np.asarray(dates.date2num(values), np.float64), "date", (), ""
    if values.dtype.kind == "m":
        seconds = values / np.timedelta64(1, "s")
        unit, size = next((s for s in UNITS if np.abs(seconds).max(initial=0) >= 2 * s[1]), UNITS[-1])
        return seconds / size, "span", (), unit
    if values.dtype.kind in "iuf":
        numbers = values.astype(float)
        return numbers, "whole" if np.array_equal(numbers, np.round(numbers)) else "number", (), ""
    return np.arange(len(values), dtype=float), "word", tuple(map(value_label, values.tolist())), ""


def _plain(values: NDArray[Any]) -> NDArray[Any]:
    """Objects as the numbers or dates that they hold; other objects unchanged."""
    kinds: tuple[tuple[Any, Any], ...] = (((int, float, Decimal), float), ((dt.date,), "datetime64[us]"))
    for types, dtype in kinds:
        if len(values) and all(isinstance(v, types) and not isinstance(v, bool) for v in values):
            return values.astype(dtype)
    return values


def dress(ax: Axes, places: Scale, title: str, share: float = 1.0) -> None:
    """Ticks and label of the x axis, of which values have this share."""
    label = f"{title} ({places.unit})" if places.unit else title
    ax.set_xlabel(canvas.folded(label, 1.1 * canvas.size_left(ax)[0]), parse_math=False)
    if places.kind == "word":
        word_ticks(ax.xaxis, places.x, [*places.words, *places.missing], share * size_in_points(ax)[0])
        ax.set_xlim(places.x.min() - 0.5, places.x.max() + 0.5)
    else:
        _number_ticks(ax, places, share)
    first = places.absent.start
    if places.missing and first:
        ax.axvline((places.x[first] + places.x[first - 1]) / 2, color=PALE, linewidth=0.6, linestyle=":")


def _number_ticks(ax: Axes, places: Scale, share: float) -> None:
    points, integers, x = share * SHRUNK * size_in_points(ax)[0], places.kind == "whole", places.x[places.present]
    x = x[np.isfinite(x)]
    ends = (float(x.min()), float(x.max())) if len(x) else (0.0, 1.0)
    locator: ticker.Locator = ticker.MaxNLocator(
        canvas.ticks_that_fit(*ends, points, integer=integers), integer=integers, steps=canvas.TICK_STEPS, min_n_ticks=1
    )
    formatter: ticker.Formatter = ticker.ScalarFormatter()
    if places.kind == "date":
        locator = _date_locator(*ends, points)
        formatter = _date_format(locator)
    ax.margins(x=0.03)
    ax.xaxis.set_major_locator(locator)
    ax.xaxis.set_major_formatter(formatter)
    if places.missing:  # named on lines below, clear of the numbers, of which none is beyond the largest
        ticks = [tick for tick in locator() if len(x) and tick <= ends[1]]
        names = [*formatter.format_ticks(ticks), *("\n" * k + name for k, name in enumerate(places.missing, 1))]
        ax.xaxis.set_ticks([*ticks, *places.x[places.absent]], names)
        fixed = ax.xaxis.get_major_formatter()
        fixed.set_offset_string(formatter.get_offset())  # type: ignore[attr-defined]


def _date_locator(low: float, high: float, points: float) -> ticker.Locator:
    """As many ticks as possible, up to `MOST_DATES`, without overlapping labels, which matplotlib doesn't prevent."""
    best, most = dates.AutoDateLocator(minticks=1, maxticks=3), 0
    # If maxticks < 2 * minticks + 1, the locator finds no interval for some ranges, and warns.
    for step, least, more in product((1, 2, 3), range(1, 6), (1, 3, 5)):
        if step > 1 and most > 1:
            break  # every tick of a locator is kept unless that leaves a single one
        locator = dates.AutoDateLocator(minticks=least, maxticks=2 * least + more)
        ticks = np.asarray(locator.tick_values(dates.num2date(low), dates.num2date(high)))
        ticks = ticks[(ticks >= low) & (ticks <= high)][::step]
        if most < len(ticks) <= MOST_DATES and _fit(ticks, low, high, points):
            best, most = locator if step == 1 else ticker.FixedLocator(ticks.tolist()), len(ticks)
    return best  # type: ignore[no-any-return]


def _date_format(locator: Any) -> ticker.Formatter:
    """Short names of dates; the first day of a month has its number, as its neighbours have."""
    zero = ["", "%Y", "%b %d", "%b %d", "%H:%M", "%H:%M"]
    return dates.ConciseDateFormatter(locator, zero_formats=zero)  # type: ignore[no-any-return]


def _fit(ticks: Floats, low: float, high: float, points: float) -> bool:
    """Whether the labels of these dates fit beside each other."""
    size = font_size(rcParams["xtick.labelsize"])
    names = _date_format(dates.AutoDateLocator()).format_ticks(ticks.tolist())
    half = [(text_width(name, size) + LABEL_GAP * size) / 2 for name in names]
    positions = points * (ticks - low) / ((high - low) or 1.0)
    return all(right - left >= a + b for (left, right), (a, b) in zip(pairwise(positions), pairwise(half), strict=True))


def word_ticks(axis: Axis, positions: Floats, words: Sequence[str], points: float, turn: bool = True) -> None:
    """Labels along an axis of this length in points: turned or thinned out where they would overlap."""
    short = [shorten(word, 24) for word in words]
    size = font_size(rcParams["xtick.labelsize"])
    horizontal = isinstance(axis, XAxis)
    longest = max(text_width(word, size) for word in short) + LABEL_GAP * size
    turned = horizontal and turn and longest * len(short) > points
    step = max(1, int(np.ceil(len(short) * (longest if horizontal and not turned else LINE * size) / points)))
    chosen = list(range(0, len(short), step))
    if words[-1].startswith("missing") and chosen[-1] < len(short) - 1:  # keep the label of the missing value
        chosen = [*(place for place in chosen if place < len(short) - step), len(short) - 1]
    axis.set_ticks(positions[chosen], [short[place] for place in chosen], parse_math=False)
    if turned:
        axis.set_tick_params(rotation=35)
        for text in axis.get_ticklabels():
            text.set(ha="right", rotation_mode="anchor")
