"""Features ranked by their importance: bars with intervals."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes

from losslens.plots import canvas, named_rows
from losslens.plots.canvas import BLUE, INK, PALE, SKY
from losslens.plots.importance_axis import bend, check_scale, importance_ticks
from losslens.plots.look import Look, Names
from losslens.plots.options import arrange, colours, most_of, name_features
from losslens.plots.wording import alike, count, not_shown, number
from losslens.plots.wording import labels as short_labels
from losslens.results.extrapolation import Extrapolations, rule_in_words
from losslens.results.gap import Gap
from losslens.results.importance import FeatureImportance
from losslens.results.importances import Importances
from losslens.results.scores import Scores
from losslens.results.segments import WeakSegments
from losslens.results.table import ResultTable, or_else
from losslens.results.together import Block, Together
from losslens.tables.checks import check_flag
from losslens.text import listed, measured
from losslens.typing import Indices
from losslens.uncertainty.cautions import noted

WARNS = " †"  # after the name of a feature whose replaced rows a classifier can separate from real ones
THICKEST = 22.0  # thickness of a bar in points, at most
NUMBERS_SHARE = 0.45  # share of the width that numbers with their percentages may take
MEMBERS_NAMED = 2  # of a block
INSIDE = "wide bars: features that go together, replaced together; thin bars: each of them alone"
ROOM = 0.5  # of a decade, before the smallest bar on a logarithmic axis


class Bar(NamedTuple):
    """A named row: its value and the ends of its interval, NaN where there is none."""

    name: str
    value: float
    low: float = np.nan
    high: float = np.nan
    mark: str = ""  # after the name
    parts: tuple[float, ...] = ()  # thin bars in the lower half of it


def plot_ranking(
    importances: Importances, ax: Axes | None, look: Look, ratio: bool, blocks: Together | None
) -> Axes:  # fmt: skip
    """Importances, or ratios of errors, the largest on top; a block is one bar with its features inside."""
    check_flag(ratio, "ratio")
    names, bars = name_features(look.labels, list(importances)), _ranked(importances, ratio)
    joint: dict[str, Block] = {} if blocks is None else _blocks_of(importances, blocks, ratio)
    inside = {member for block in joint.values() for member in block.features}
    bars, single = [bar for bar in bars if bar.name not in inside], len(importances) - len(inside)
    look = _naming_blocks(look, joint)
    ax, drawn, width = ranked_bars(ax, [*bars, *map(_joint_bar, joint.values())], look, start=1.0 if ratio else 0.0)
    quotient = f"{importances.loss.title}: feature replaced / nothing replaced" if ratio else None
    named_rows.label_across(ax, quotient or importances.headline.split(";")[0], width)
    shown = [bars[j] for j in drawn if j < len(bars)]
    notes = _ranking_notes(importances, shown, len(bars), names, len(bars) + len(joint) - len(drawn), single)
    canvas.caption(ax, [INSIDE, *notes] if joint else notes)
    return ax


def plot_together(together: Together, ax: Axes | None, look: Look) -> Axes:
    """Blocks as bars, the largest on top, with their features inside."""
    blocks = list(together.blocks.values())
    name_features(look.labels, [*together.blocks, *(member for one in blocks for member in one.features)])
    look = _naming_blocks(look, together.blocks)
    ax, drawn, width = ranked_bars(ax, list(map(_joint_bar, blocks)), look)
    named_rows.label_across(ax, f"increase in {together.title}", width)
    base = f"error with nothing replaced: {number(together.error)}"
    left_out = not_shown(len(blocks) - len(drawn), "smaller block")
    canvas.caption(ax, [INSIDE, base, "lines: 95% intervals", *together.cautions, *left_out])
    return ax


def _blocks_of(importances: Importances, blocks: Together, ratio: bool) -> dict[str, Block]:
    """The blocks of a result of `together`, checked."""
    if not isinstance(blocks, Together):
        raise TypeError(f"blocks is what imp.together(model, X, y) returns; got {type(blocks).__name__}")
    if ratio:
        raise ValueError("ratio=True draws single features: leave out blocks, whose numbers are differences")
    members = [member for one in blocks.blocks.values() for member in one.features]
    unknown = [member for member in members if member not in importances]
    if unknown or blocks.title != importances.title:
        raise ValueError(
            f"blocks is of another result: {f'it has {unknown[0]!r}' if unknown else f'its loss is {blocks.title}'}"
        )
    twice = [member for member in members if members.count(member) > 1]
    if twice:
        raise ValueError(f"a ranking shows each feature once, and {twice[0]!r} is in two blocks: see blocks.plot()")
    return blocks.blocks


def _joint_bar(block: Block) -> Bar:
    joint = block.numbers[block.name]
    return Bar(block.name, joint.value, joint.low, joint.high, parts=tuple(sorted(block.numbers.value[1:])[::-1]))


def _naming_blocks(look: Look, blocks: Mapping[str, Block]) -> Look:
    """The look, with the names of blocks made of those of their features."""
    named = {name: listed(look.names.all(block.features), MEMBERS_NAMED) for name, block in blocks.items()}
    return replace(look, labels={**named, **(look.labels or {})})


def plot_extrapolation(extrapolations: Extrapolations, ax: Axes | None, look: Look) -> Axes:
    """Shares of replaced rows that are unlike any real one, the largest on top."""
    name_features(look.labels, list(extrapolations))
    tested = [one for one in extrapolations.values() if one.share >= 0]
    bars = [Bar(one.name, one.share, mark=WARNS if one.warns else "") for one in tested]
    if not bars:
        raise ValueError("there is nothing to draw: every feature has too few rows to measure extrapolation")
    ax, drawn, width = ranked_bars(ax, bars, look)
    named_rows.label_across(ax, "share of replaced rows that are unlike any real one", width)
    notes = [f"{WARNS.strip()}: {rule_in_words(tested)}"] if any(bars[j].mark for j in drawn) else []
    canvas.caption(ax, notes + not_shown(len(bars) - len(drawn), "smaller share"))
    return ax


def plot_segments(result: WeakSegments, ax: Axes | None, look: Look) -> Axes:
    """The error of all rows and of each segment, in the order of the table."""
    bars = [Bar(f"all {result.n:,} rows", result.error, result.low, result.high)]
    bars += [Bar(one.rule, one.error, one.low, one.high) for one in result.segments]
    own, total = ax is None, len(bars)
    check_scale(look.scale, np.array([bar.value for bar in bars]))
    ax, most = named_rows.open_rows(ax, 1 + most_of(look.top, total - 1), below=3)
    width = draw_bars(ax, bars[:most], own, look, what="segment")
    named_rows.label_across(ax, result.title, width)
    notes = [f"no segment: {result.why}"] if result.why else ["of rows that had no part in finding the rule"]
    canvas.caption(ax, ["lines: 95% intervals", *notes, *not_shown(total - most, "segment")])
    return ax


def plot_gap(gap: Gap, ax: Axes | None, look: Look) -> Axes:
    """The difference in error, and what each line adds to it, the largest features on top."""
    none, *features = gap.lines
    names, own = name_features(look.labels, features), ax is None
    low, high = (np.full(len(gap.lines), np.nan),) * 2 if gap.why else gap.interval()
    lines = [Bar(*line) for line in zip(gap.lines, gap.parts.tolist(), low.tolist(), high.tolist(), strict=True)]
    total = Bar("whole difference", gap.total)
    if not gap.why:
        total = total._replace(low=gap.whole().low, high=gap.whole().high)
    check_scale(look.scale, np.array([gap.total, *gap.parts]))
    ax, most = named_rows.open_rows(ax, 2 + most_of(look.top, len(features)), below=3)
    ranked = np.argsort(-np.abs(gap.parts[1:]), kind="stable")[: max(0, most - 2)]
    drawn = [0, *(1 + arrange(names.all(features), ranked, look.sort))][: most - 1]
    shown = [gap.lines[k] for k in drawn]
    parts = colours(look.colors, shown, [SKY] * len(shown), "feature", gap.lines)
    fill = [PALE, *parts]  # the first is the sum of the rest
    width = draw_bars(ax, [total, *(lines[k] for k in drawn)], own, replace(look, colors=fill))
    if drawn:
        ax.axhline(0.5, color=PALE, linewidth=0.8)
    first, second = short_labels(gap.names, 30)
    named_rows.label_across(ax, f"{gap.title} of {first} less that of {second}", width)
    notes = [gap.why] if gap.why else ["lines: 95% intervals"]
    missing = len(gap.lines) - len(drawn)
    notes.append("the bars below the first add up to it" if not missing else "all lines together add up to the first")
    cautions = noted([none, *names.all(features)], gap.caution)
    canvas.caption(ax, [*notes, *cautions, *not_shown(missing, "smaller line")])
    return ax


def ranked_bars(
    ax: Axes | None, bars: Sequence[Bar], look: Look, *, start: float = 0.0,
    shares: Callable[[Sequence[Bar]], Sequence[str]] = lambda _: (), by_size: bool = False,
) -> tuple[Axes, Indices, float]:  # fmt: skip
    """The bars that are requested and fit; of those in the given order, the largest, or those furthest from 0.

    Returns the axes, the positions of the bars that are drawn, from top to bottom, and the width of the axes in points.
    """
    own, values = ax is None, np.array([bar.value for bar in bars])
    ranked = np.argsort(-np.abs(values) if by_size else -values, kind="stable")[: most_of(look.top, len(bars))]
    check_scale(look.scale, values[ranked])
    ax, most = named_rows.open_rows(ax, len(ranked), below=3)
    drawn = arrange(look.names.all([bar.name for bar in bars]), ranked[:most], look.sort)
    chosen = [bars[j] for j in drawn]
    width = draw_bars(ax, chosen, own, look, start=start, shares=shares(chosen), all_names=[bar.name for bar in bars])
    return ax, drawn, width


def draw_bars(
    ax: Axes, bars: Sequence[Bar], own: bool, look: Look, *, start: float = 0.0, shares: Sequence[str] = (),
    all_names: Sequence[str] = (), what: str = "feature",
) -> float:  # fmt: skip
    """Named bars, the first on top, each with its number and, where they fit, its share.

    Returns the width of the axes in points.
    """
    names, rows = [bar.name for bar in bars], np.arange(len(bars))
    values, low, high = np.array([bar[1:4] for bar in bars]).T
    thickness = min(0.62, THICKEST * len(bars) / canvas.size_in_points(ax)[1])
    bend(ax.xaxis, look.scale, values)
    fill = colours(look.colors, names, [SKY] * len(names), what, all_names)
    ax.barh(rows, values - start, left=start, height=thickness, color=fill)
    for row, bar in enumerate(bars):
        for k, part in enumerate(bar.parts):
            height = thickness / 2 / len(bar.parts)
            ax.barh(row + (k + 0.5) * height, part - start, left=start, height=0.8 * height, color=BLUE)
    finite = np.isfinite(low)
    if finite.any():
        ax.hlines(rows[finite], low[finite], high[finite], color=INK, linewidth=1.1)
    if start > 0 or look.scale != "log":
        ax.axvline(start, color=INK, linewidth=0.8)
    short = short_labels(look.names.all(names), named_rows.letters_beside(ax))
    width = named_rows.name_rows(ax, [name + bar.mark for name, bar in zip(short, bars, strict=True)], own)
    texts = alike(values.tolist())
    long = [f"{text} ({share})" for text, share in zip(texts, shares, strict=False)]
    safe = (0.85 if own else 0.75) * width if long else width  # the width is an estimate, which long texts may exceed
    if long and named_rows.share_of_texts(long, safe) <= NUMBERS_SHARE:
        texts = long
    least, most = (np.array([end((bar.value, *bar.parts)) for bar in bars]) for end in (min, max))
    ends = np.maximum(start, np.fmax(most, high))
    left = min(start, float(np.fmin(least, low).min()))
    if look.scale == "log":
        left = float(min(*values, start or np.inf)) / 10**ROOM
    named_rows.write_numbers(ax, texts, ends.tolist(), left, safe, margin=left < start and look.scale != "log")
    importance_ticks(ax.xaxis, width)
    canvas.plain_frame(ax)
    return width


def table_bars(ax: Axes | None, table: ResultTable, features: Sequence[str], look: Look) -> tuple[Axes, Indices, float]:
    """The importances of a table as bars; as `ranked_bars`, with positions among the features."""
    numbers = np.array([table.column(name) for name in ("importance", "low", "high")], float)
    bars = {name: Bar(name, *line) for name, line in zip(table.column("feature"), numbers.T.tolist(), strict=True)}
    return ranked_bars(ax, [bars[name] for name in features], look)


def _ranked(importances: Importances, ratio: bool) -> list[Bar]:
    bars = []
    for feature in importances.values():
        try:
            value = feature.pfi
        except ValueError:  # curves only
            continue
        if np.isfinite(value):
            extrapolation = feature.computed_extrapolation
            mark = WARNS if extrapolation is not None and extrapolation.warns else ""
            bars.append(Bar(feature.name, feature.ratio if ratio else value, *interval_or_nan(feature, ratio), mark))
    if not bars:
        if isinstance(importances, Scores) and importances._first.undefined:
            raise ValueError(importances._first.undefined)
        raise ValueError("no feature has an importance to rank by, only curves; use a design such as 'all'")
    return bars


def interval_or_nan(feature: FeatureImportance, ratio: bool = False) -> tuple[float, float]:
    """The 95% interval of a feature's importance, or of its ratio; NaN where there is none."""
    return or_else(lambda: feature.ratio_interval() if ratio else feature.interval(), (np.nan, np.nan))


def _ranking_notes(
    importances: Importances, bars: Sequence[Bar], total: int, names: Names, left_out: int, single: int
) -> list[str]:
    """The error with nothing replaced, what lines and marks mean, and what is left out, of so many single features."""
    score = isinstance(importances, Scores) and not measured(importances.title)[1]
    notes = [f"{'score' if score else 'error'} with nothing replaced: {number(importances.base)}"]
    if any(np.isfinite(bar.low) for bar in bars):
        notes.append("lines: 95% intervals")
    if any(bar.mark for bar in bars):
        marked = [one for one in (f.computed_extrapolation for f in importances.values()) if one is not None]
        notes.append(f"{WARNS.strip()}: {rule_in_words(marked)}")
    by_size = sorted(bars, key=lambda bar: -bar.value)
    notes += noted([names.of(bar.name) for bar in by_size], [importances[bar.name].caution for bar in by_size])
    notes += not_shown(left_out)
    if total < single:
        notes.append(f"{count(single - total, 'feature')} without an importance left out")
    return notes
