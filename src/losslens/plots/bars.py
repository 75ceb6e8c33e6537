"""Features ranked by their importance: bars with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes

from losslens.plots import canvas, named_rows
from losslens.plots.canvas import INK, PALE, SKY
from losslens.plots.wording import alike, count, labels, not_shown, number
from losslens.results.breiman import BreimanImportance
from losslens.results.extrapolation import Extrapolations, rule_in_words
from losslens.results.gap import Gap
from losslens.results.importance import FeatureImportance
from losslens.results.importances import Importances
from losslens.results.scores import Scores
from losslens.results.segments import WeakSegments
from losslens.results.table import ResultTable, or_else
from losslens.text import measured

WARNS = " †"  # after the name of a feature whose replaced rows a classifier can separate from real ones
THICKEST = 22.0  # thickness of a bar in points, at most
NUMBERS_SHARE = 0.45  # share of the width that numbers with their percentages may take


class Bar(NamedTuple):
    """One feature: its importance and, where there is one, its interval."""

    name: str
    value: float
    interval: tuple[float, float] | None
    mark: str = ""  # after the name


@canvas.takes_axes
def plot_ranking(importances: Importances, *, ax: Axes | None = None, ratio: bool = False) -> Axes:
    """Draw the importances, the largest on top.

    Parameters
    ----------
    importances
        What `losslens.feature_importance` gives. Features with curves only (a pair, values of your own) are left out.
    ax
        Where to draw; a new figure by default, as high as the features need.
    ratio
        Draw the error with the feature replaced divided by the error with nothing replaced, not their difference.

    Examples
    --------
    >>> import numpy as np, losslens as ll
    >>> X = np.random.default_rng(0).normal(size=(50, 2))
    >>> imp = ll.feature_importance(lambda X: X[:, 1], X, 2 * X[:, 1], loss="squared_error")
    >>> [label.get_text() for label in plot_ranking(imp).get_yticklabels()]
    ['x1', 'x0']
    """
    bars, own = _ranked(importances, ratio), ax is None
    ax, most = named_rows.open_rows(ax, len(bars), below=3)
    width = draw_bars(ax, bars[:most], own, start=1.0 if ratio else 0.0)
    quotient = f"{importances.loss.title}: feature replaced / nothing replaced" if ratio else None
    named_rows.label_across(ax, quotient or importances.headline.split(";")[0], width)
    canvas.caption(ax, _ranking_notes(importances, bars, most))
    return ax


@canvas.takes_axes
def plot_extrapolation(extrapolations: Extrapolations, *, ax: Axes | None = None) -> Axes:
    """Draw the share of each feature's replaced rows that are unlike any real one, the largest on top."""
    tested = [one for one in extrapolations.values() if one.share >= 0]
    bars = [Bar(one.name, one.share, None, WARNS if one.warns else "") for one in tested]
    if not bars:
        raise ValueError("there is nothing to draw: every feature has too few rows to measure extrapolation")
    bars, own = sorted(bars, key=lambda bar: -bar.value), ax is None
    ax, most = named_rows.open_rows(ax, len(bars), below=3)
    width = draw_bars(ax, bars[:most], own)
    named_rows.label_across(ax, "share of replaced rows that are unlike any real one", width)
    notes = [f"{WARNS.strip()}: {rule_in_words(tested)}"]
    canvas.caption(ax, notes if any(bar.mark for bar in bars[:most]) else [])
    return ax


@canvas.takes_axes
def plot_segments(found: WeakSegments, *, ax: Axes | None = None) -> Axes:
    """Draw the error of all rows and of each segment, with 95% intervals."""
    bars = [Bar(f"all {found.n:,} rows", found.error, (found.low, found.high))]
    bars += [Bar(one.rule, one.error, (one.low, one.high)) for one in found.segments]
    own = ax is None
    ax, most = named_rows.open_rows(ax, len(bars), below=3)
    width = draw_bars(ax, bars[:most], own)
    named_rows.label_across(ax, found.title, width)
    notes = [f"no segment: {found.why}"] if found.why else ["of rows that had no part in finding the rule"]
    canvas.caption(ax, ["lines: 95% intervals", *notes, *not_shown(len(bars) - most)])
    return ax


@canvas.takes_axes
def plot_gap(gap: Gap, *, ax: Axes | None = None) -> Axes:
    """Draw the difference in error, and what each line adds to it, with 95% intervals.

    Parameters
    ----------
    gap
        What `ShapleyImportance.gap` gives.
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
    data, own = gap._table().data(), ax is None
    ends = [None if gap.why else (float(low), float(high)) for low, high in zip(data["low"], data["high"], strict=True)]
    bars = [Bar(*bar) for bar in zip(data["line"], data["part"].tolist(), ends, strict=True)]
    whole = None if gap.why else gap.whole()
    bars.insert(0, Bar("whole difference", gap.total, None if whole is None else (whole.low, whole.high)))
    ax, most = named_rows.open_rows(ax, len(bars), below=3)
    width = draw_bars(ax, bars[:most], own)
    ax.patches[0].set_facecolor(PALE)  # the sum of the others
    if most > 1:
        ax.axhline(0.5, color=PALE, linewidth=0.8)
    first, second = labels(gap.names, 30)
    named_rows.label_across(ax, f"{gap.title} of {first} less that of {second}", width)
    notes = [gap.why] if gap.why else ["lines: 95% intervals"]
    canvas.caption(ax, [*notes, "the bars below the first add up to it", *gap.cautions, *not_shown(len(bars) - most)])
    return ax


def draw_bars(ax: Axes, bars: Sequence[Bar], own: bool, *, start: float = 0.0, shares: Sequence[str] = ()) -> float:
    """Named bars, the first on top, each with its number and, where they fit, its share.

    Returns the width of the axes in points.
    """
    short = labels([bar.name for bar in bars], named_rows.letters_beside(ax))
    values = np.array([bar.value for bar in bars])
    thickness = min(0.62, THICKEST * len(bars) / canvas.size_in_points(ax)[1])
    ax.barh(np.arange(len(bars)), values - start, left=start, height=thickness, color=SKY)
    intervals = [(row, *bar.interval) for row, bar in enumerate(bars) if bar.interval is not None]
    if intervals:
        ax.hlines(*np.array(intervals).T, color=INK, linewidth=1.1)
    ax.axvline(start, color=INK, linewidth=0.8)
    width = named_rows.name_rows(ax, [name + bar.mark for name, bar in zip(short, bars, strict=True)], own)
    texts = alike(values.tolist())
    long = [f"{text} ({share})" for text, share in zip(texts, shares, strict=False)]
    safe = (0.85 if own else 0.75) * width if long else width  # the width is an estimate, which long texts may exceed
    if long and named_rows.share_of_texts(long, safe) <= NUMBERS_SHARE:
        texts = long
    ends = [max(start, bar.value, *(bar.interval or ())) for bar in bars]
    low = min(start, *(min(bar.value, *(bar.interval or (bar.value,))) for bar in bars))
    named_rows.write_numbers(ax, texts, ends, low, safe, margin=low < start)
    canvas.value_ticks(ax.xaxis, width)
    canvas.plain_frame(ax)
    return width


def table_bars(ax: Axes | None, table: ResultTable, *, lines: bool = True) -> tuple[Axes, int, float]:
    """The importances of a table as bars; returns the axes, how many rows they hold, and their width in points."""
    own, values = ax is None, table.data()
    ax, most = named_rows.open_rows(ax, len(table))
    ends = list(zip(values["low"], values["high"], strict=True)) if lines else [(np.nan, np.nan)] * len(table)
    intervals = [(float(low), float(high)) if np.isfinite(low) else None for low, high in ends]
    bars = zip(values["feature"], values["importance"], intervals, strict=True)
    width = draw_bars(ax, [Bar(name, float(value), interval) for name, value, interval in bars][:most], own)
    return ax, most, width


@canvas.takes_axes
def plot_breiman(result: BreimanImportance, *, ax: Axes | None = None) -> Axes:
    """Draw the ranking; without lines, which would look like intervals for new data."""
    ax, most, width = table_bars(ax, result._table(), lines=False)
    named_rows.label_across(ax, result.headline.split(";")[0], width)
    error = f"error with nothing replaced: {number(result.error)}"
    canvas.caption(ax, [error, *not_shown(len(result.features) - most)])
    return ax


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
        if isinstance(importances, Scores) and importances.one.undefined:
            raise ValueError(importances.one.undefined)
        raise ValueError("no feature has an importance to rank by, only curves; use a design such as 'all'")
    return sorted(bars, key=lambda bar: -bar.value)


def known_interval(feature: FeatureImportance, ratio: bool = False) -> tuple[float, float] | None:
    """The 95% interval of a feature's importance, or of its ratio, where there is one."""
    ends = or_else(lambda: feature.ratio_interval() if ratio else feature.interval(), (np.nan, np.nan))
    return ends if np.isfinite(ends).all() else None


def _ranking_notes(importances: Importances, bars: Sequence[Bar], shown: int) -> list[str]:
    """The error with nothing replaced, what lines and marks mean, and which features are left out."""
    score = isinstance(importances, Scores) and not measured(importances.title)[1]
    notes = [f"{'score' if score else 'error'} with nothing replaced: {number(importances.base)}"]
    if any(bar.interval for bar in bars[:shown]):
        notes.append("lines: 95% intervals")
    if any(bar.mark for bar in bars[:shown]):
        marked = [one for one in (f.known_extrapolation for f in importances.values()) if one is not None]
        notes.append(f"{WARNS.strip()}: {rule_in_words(marked)}")
    notes += importances.cautions
    notes += not_shown(len(bars) - shown)
    if len(bars) < len(importances):
        notes.append(f"{count(len(importances) - len(bars), 'feature')} without an importance left out")
    return notes
