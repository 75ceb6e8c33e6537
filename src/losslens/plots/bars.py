"""Features ranked by their importance: bars with intervals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes

from losslens.plots import canvas, named_rows
from losslens.plots.canvas import INK, PALE, SKY
from losslens.plots.importance_axis import bend, check_scale, importance_ticks
from losslens.plots.options import Names, arrange, colours, most_of, name_features
from losslens.plots.wording import alike, count, not_shown, number
from losslens.plots.wording import labels as short_labels
from losslens.results.extrapolation import Extrapolations, rule_in_words
from losslens.results.gap import Gap
from losslens.results.importance import FeatureImportance
from losslens.results.importances import Importances
from losslens.results.scores import Scores
from losslens.results.segments import WeakSegments
from losslens.results.table import ResultTable, or_else
from losslens.tables.checks import check_flag
from losslens.text import measured
from losslens.typing import AxisScale, Colors, FeatureLabels, Indices, Sort
from losslens.uncertainty.cautions import noted

WARNS = " †"  # after the name of a feature whose replaced rows a classifier can separate from real ones
THICKEST = 22.0  # thickness of a bar in points, at most
NUMBERS_SHARE = 0.45  # share of the width that numbers with their percentages may take
ROOM = 0.5  # of a decade, before the smallest bar on a logarithmic axis


class Bar(NamedTuple):
    """One feature: its importance and, where there is one, its interval."""

    name: str
    value: float
    interval: tuple[float, float] | None
    mark: str = ""  # after the name


@dataclass(frozen=True)
class BarLook:
    """Which bars are drawn, in which order, and how: the options of plots of bars."""

    top: int | None = None
    sort: Sort = "importance"
    scale: AxisScale = "linear"
    colors: Colors | None = None
    names: Names = field(default_factory=lambda: Names({}))
    what: str = "feature"


@canvas.takes_axes
def plot_ranking(
    importances: Importances, *, ratio: bool = False, top: int | None = None, sort: Sort = "importance",
    scale: AxisScale = "linear", colors: Colors | None = None, labels: FeatureLabels | None = None,
    ax: Axes | None = None,
) -> Axes:  # fmt: skip
    """Draw the importances, the largest on top.

    Parameters
    ----------
    importances
        What `losslens.feature_importance` gives. Features with curves only (a pair, values of your own) are left out.
    ratio
        Draw the error with the feature replaced divided by the error with nothing replaced, not their difference.
    top
        How many features to draw, the most important ones; all that fit by default.
    sort
        Order of the features: ``"importance"``, ``"name"`` or ``"given"``, the order of the columns.
    scale
        Axis of the importances: ``"linear"``, ``"log"``, or ``"symlog"``, which also shows those up to 0.
    colors
        One colour for all bars, a list from top to bottom, or a mapping from features to colours.
    labels
        Names to show instead of those of the features: a mapping to a name, or to a name and a unit.
    ax
        Where to draw; a new figure by default, as high as the features need.

    Examples
    --------
    >>> import numpy as np, losslens as ll
    >>> X = np.random.default_rng(0).normal(size=(50, 2))
    >>> imp = ll.feature_importance(lambda X: X[:, 1], X, 2 * X[:, 1], loss="squared_error")
    >>> [label.get_text() for label in plot_ranking(imp).get_yticklabels()]
    ['x1', 'x0']
    >>> [label.get_text() for label in plot_ranking(imp, top=1, labels={"x1": "speed"}).get_yticklabels()]
    ['speed']
    """
    check_flag(ratio, "ratio")
    bars = _ranked(importances, ratio)
    look = BarLook(top, sort, scale, colors, name_features(labels, list(importances)))
    ax, drawn, width = ranked_bars(ax, bars, look, start=1.0 if ratio else 0.0)
    quotient = f"{importances.loss.title}: feature replaced / nothing replaced" if ratio else None
    named_rows.label_across(ax, quotient or importances.headline.split(";")[0], width)
    canvas.caption(ax, _ranking_notes(importances, [bars[j] for j in drawn], len(bars), look.names))
    return ax


@canvas.takes_axes
def plot_extrapolation(
    extrapolations: Extrapolations, *, top: int | None = None, sort: Sort = "importance",
    colors: Colors | None = None, labels: FeatureLabels | None = None, ax: Axes | None = None,
) -> Axes:  # fmt: skip
    """Draw the share of each feature's replaced rows that are unlike any real one, the largest on top.

    Parameters
    ----------
    extrapolations
        What `losslens.extrapolation` gives, or ``.extrapolation`` of importances.
    top
        How many features to draw, those with the largest shares; all that fit by default.
    sort
        Order of the features: ``"importance"``, the largest share first, ``"name"`` or ``"given"``.
    colors
        One colour for all bars, a list from top to bottom, or a mapping from features to colours.
    labels
        Names to show instead of those of the features: a mapping to a name, or to a name and a unit.
    ax
        Where to draw; a new figure by default, as high as the features need.

    Examples
    --------
    >>> import numpy as np, losslens as ll
    >>> X = np.random.default_rng(0).normal(size=(50, 2))
    >>> imp = ll.feature_importance(lambda X: X[:, 1], X, 2 * X[:, 1], loss="squared_error")
    >>> plot_extrapolation(imp.extrapolation, top=1).get_xlabel()
    'share of replaced rows that are unlike any real one'
    """
    tested = [one for one in extrapolations.values() if one.share >= 0]
    bars = [Bar(one.name, one.share, None, WARNS if one.warns else "") for one in tested]
    if not bars:
        raise ValueError("there is nothing to draw: every feature has too few rows to measure extrapolation")
    look = BarLook(top, sort, "linear", colors, name_features(labels, list(extrapolations)))
    ax, drawn, width = ranked_bars(ax, bars, look)
    named_rows.label_across(ax, "share of replaced rows that are unlike any real one", width)
    notes = [f"{WARNS.strip()}: {rule_in_words(tested)}"] if any(bars[j].mark for j in drawn) else []
    canvas.caption(ax, notes + not_shown(len(bars) - len(drawn), "smaller share"))
    return ax


@canvas.takes_axes
def plot_segments(
    found: WeakSegments, *, top: int | None = None, scale: AxisScale = "linear", colors: Colors | None = None,
    ax: Axes | None = None,
) -> Axes:  # fmt: skip
    """Draw the error of all rows and of each segment, with 95% intervals.

    Parameters
    ----------
    found
        What `losslens.weak_segments` gives.
    top
        How many segments to draw, the first ones; all that fit by default.
    scale
        Axis of the errors: ``"linear"``, ``"log"`` or ``"symlog"``.
    colors
        One colour for all bars, or a list from top to bottom, all rows first.
    ax
        Where to draw; a new figure by default, as high as the segments need.

    Examples
    --------
    >>> import numpy as np, losslens as ll
    >>> X = np.random.default_rng(0).normal(size=(400, 2))
    >>> y = X[:, 0] + np.where(X[:, 1] > 1, 3, 0)
    >>> found = ll.weak_segments(lambda X: X[:, 0], X, y, loss="squared_error")
    >>> plot_segments(found).get_yticklabels()[0].get_text()
    'all 400 rows'
    """
    bars = [Bar(f"all {found.n:,} rows", found.error, (found.low, found.high))]
    bars += [Bar(one.rule, one.error, (one.low, one.high)) for one in found.segments]
    own, total = ax is None, len(bars)
    check_scale(scale, np.array([bar.value for bar in bars]))
    ax, most = named_rows.open_rows(ax, 1 + most_of(top, total - 1), below=3)
    width = draw_bars(ax, bars[:most], own, BarLook(None, "given", scale, colors, what="segment"))
    named_rows.label_across(ax, found.title, width)
    notes = [f"no segment: {found.why}"] if found.why else ["of rows that had no part in finding the rule"]
    canvas.caption(ax, ["lines: 95% intervals", *notes, *not_shown(total - most, "segment")])
    return ax


@canvas.takes_axes
def plot_gap(
    gap: Gap, *, top: int | None = None, sort: Sort = "importance", scale: AxisScale = "linear",
    colors: Colors | None = None, labels: FeatureLabels | None = None, ax: Axes | None = None,
) -> Axes:  # fmt: skip
    """Draw the difference in error, and what each line adds to it, with 95% intervals.

    Parameters
    ----------
    gap
        What `ShapleyImportance.gap` gives.
    top
        How many features to draw, those that add or take off most; all that fit by default.
    sort
        Order of the features: ``"importance"``, ``"name"`` or ``"given"``, the order of the columns.
    scale
        Axis of the differences: ``"linear"`` or ``"symlog"``; ``"log"`` only if all are above 0.
    colors
        One colour for all lines below the first, a list from top to bottom, or a mapping from features to colours.
    labels
        Names to show instead of those of the features: a mapping to a name, or to a name and a unit.
    ax
        Where to draw; a new figure by default, as high as the features need.

    Examples
    --------
    >>> import numpy as np, losslens as ll
    >>> X = np.random.default_rng(0).normal(size=(60, 2))
    >>> y = X[:, 1] * np.where(X[:, 0] > 0, 1, 2)
    >>> shares = ll.shapley_importance(lambda X: X[:, 1], X, y, loss="squared_error")
    >>> [label.get_text() for label in plot_gap(shares.gap(X[:, 0] > 0)).get_yticklabels()]
    ['whole difference', '(without any feature)', 'x1', 'x0']
    """
    none, *features = gap.lines
    names, own = name_features(labels, features), ax is None
    low, high = (np.full(len(gap.lines), np.nan),) * 2 if gap.why else gap.interval()
    lines = [
        Bar(name, float(part), None if gap.why else (float(a), float(b)))
        for name, part, a, b in zip(gap.lines, gap.parts, low, high, strict=True)
    ]
    whole = None if gap.why else gap.whole()
    check_scale(scale, np.array([gap.total, *gap.parts]))
    ax, most = named_rows.open_rows(ax, 2 + most_of(top, len(features)), below=3)
    ranked = np.argsort(-np.abs(gap.parts[1:]), kind="stable")[: max(0, most - 2)]
    drawn = [0, *(1 + arrange(names.all(features), ranked, sort))][: most - 1]
    bars = [Bar("whole difference", gap.total, None if whole is None else (whole.low, whole.high))]
    bars += [lines[k] for k in drawn]
    asked = [gap.lines[k] for k in drawn]
    fill = [PALE, *colours(colors, asked, [SKY] * len(asked), "feature", gap.lines)]  # the first is the sum of the rest
    width = draw_bars(ax, bars, own, BarLook(None, "given", scale, fill, names, "line"))
    if len(bars) > 1:
        ax.axhline(0.5, color=PALE, linewidth=0.8)
    first, second = short_labels(gap.names, 30)
    named_rows.label_across(ax, f"{gap.title} of {first} less that of {second}", width)
    notes = [gap.why] if gap.why else ["lines: 95% intervals"]
    missing = len(gap.lines) - len(drawn)
    notes.append("the bars below the first add up to it" if not missing else "all lines together add up to the first")
    said = noted([none, *names.all(features)], gap.caution)
    canvas.caption(ax, [*notes, *said, *not_shown(missing, "smaller line")])
    return ax


def ranked_bars(
    ax: Axes | None, bars: Sequence[Bar], look: BarLook, *, start: float = 0.0,
    shares: Callable[[Sequence[Bar]], Sequence[str]] = lambda _: (), by_size: bool = False,
) -> tuple[Axes, Indices, float]:  # fmt: skip
    """The bars that are asked for and fit; of those in the given order, the largest, or those furthest from 0.

    Returns the axes, the positions of the bars that are drawn, from top to bottom, and the width of the axes in points.
    """
    own, values = ax is None, np.array([bar.value for bar in bars])
    ranked = np.argsort(-np.abs(values) if by_size else -values, kind="stable")[: most_of(look.top, len(bars))]
    check_scale(look.scale, values[ranked])
    ax, most = named_rows.open_rows(ax, len(ranked), below=3)
    drawn = arrange(look.names.all([bar.name for bar in bars]), ranked[:most], look.sort)
    chosen = [bars[j] for j in drawn]
    width = draw_bars(ax, chosen, own, look, start=start, shares=shares(chosen), known=[bar.name for bar in bars])
    return ax, drawn, width


def draw_bars(
    ax: Axes, bars: Sequence[Bar], own: bool, look: BarLook, *, start: float = 0.0, shares: Sequence[str] = (),
    known: Sequence[str] = (),
) -> float:  # fmt: skip
    """Named bars, the first on top, each with its number and, where they fit, its share.

    Returns the width of the axes in points.
    """
    names = [bar.name for bar in bars]
    short = short_labels(look.names.all(names), named_rows.letters_beside(ax))
    values = np.array([bar.value for bar in bars])
    thickness = min(0.62, THICKEST * len(bars) / canvas.size_in_points(ax)[1])
    fill = colours(look.colors, names, [SKY] * len(names), look.what, known)
    bend(ax.xaxis, look.scale, values)
    ax.barh(np.arange(len(bars)), values - start, left=start, height=thickness, color=fill)
    intervals = [(row, *bar.interval) for row, bar in enumerate(bars) if bar.interval is not None]
    if intervals:
        ax.hlines(*np.array(intervals).T, color=INK, linewidth=1.1)
    if start > 0 or look.scale != "log":
        ax.axvline(start, color=INK, linewidth=0.8)
    width = named_rows.name_rows(ax, [name + bar.mark for name, bar in zip(short, bars, strict=True)], own)
    texts = alike(values.tolist())
    long = [f"{text} ({share})" for text, share in zip(texts, shares, strict=False)]
    safe = (0.85 if own else 0.75) * width if long else width  # the width is an estimate, which long texts may exceed
    if long and named_rows.share_of_texts(long, safe) <= NUMBERS_SHARE:
        texts = long
    ends = [max(start, bar.value, *(bar.interval or ())) for bar in bars]
    low = min(start, *(min(bar.value, *(bar.interval or (bar.value,))) for bar in bars))
    if look.scale == "log":
        low = float(min(*values, start or np.inf)) / 10**ROOM
    named_rows.write_numbers(ax, texts, ends, low, safe, margin=low < start and look.scale != "log")
    importance_ticks(ax.xaxis, width)
    canvas.plain_frame(ax)
    return width


def table_bars(
    ax: Axes | None, table: ResultTable, features: Sequence[str], look: BarLook
) -> tuple[Axes, Indices, float]:
    """The importances of a table as bars; as `ranked_bars`, with positions among the features."""
    values = table.data()
    ends = zip(values["low"], values["high"], strict=True)
    intervals = [(float(low), float(high)) if np.isfinite(low) else None for low, high in ends]
    bars = zip(values["feature"], values["importance"], intervals, strict=True)
    by_name = {name: Bar(name, float(value), interval) for name, value, interval in bars}
    return ranked_bars(ax, [by_name[name] for name in features], look)


def _ranked(importances: Importances, ratio: bool) -> list[Bar]:
    bars = []
    for feature in importances.values():
        try:
            value = feature.pfi
        except ValueError:  # curves only
            continue
        if np.isfinite(value):
            extrapolation = feature.known_extrapolation
            mark = WARNS if extrapolation is not None and extrapolation.warns else ""
            bars.append(Bar(feature.name, feature.ratio if ratio else value, known_interval(feature, ratio), mark))
    if not bars:
        if isinstance(importances, Scores) and importances._first.undefined:
            raise ValueError(importances._first.undefined)
        raise ValueError("no feature has an importance to rank by, only curves; use a design such as 'all'")
    return bars


def known_interval(feature: FeatureImportance, ratio: bool = False) -> tuple[float, float] | None:
    """The 95% interval of a feature's importance, or of its ratio, where there is one."""
    ends = or_else(lambda: feature.ratio_interval() if ratio else feature.interval(), (np.nan, np.nan))
    return ends if np.isfinite(ends).all() else None


def _ranking_notes(importances: Importances, bars: Sequence[Bar], total: int, names: Names) -> list[str]:
    """The error with nothing replaced, what lines and marks mean, and which features are left out."""
    score = isinstance(importances, Scores) and not measured(importances.title)[1]
    notes = [f"{'score' if score else 'error'} with nothing replaced: {number(importances.base)}"]
    if any(bar.interval for bar in bars):
        notes.append("lines: 95% intervals")
    if any(bar.mark for bar in bars):
        marked = [one for one in (f.known_extrapolation for f in importances.values()) if one is not None]
        notes.append(f"{WARNS.strip()}: {rule_in_words(marked)}")
    by_size = sorted(bars, key=lambda bar: -bar.value)
    notes += noted([names.of(bar.name) for bar in by_size], [importances[bar.name].caution for bar in by_size])
    notes += not_shown(total - len(bars))
    if total < len(importances):
        notes.append(f"{count(len(importances) - total, 'feature')} without an importance left out")
    return notes
