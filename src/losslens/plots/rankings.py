"""Numbers of features by name: importances, shares, differences, refits; of models, of groups and of segments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from losslens.plots import canvas, named_rows
from losslens.plots.canvas import BAND, BLUE, COLOURS, DASHED, INK, LOOKS, PALE, SINGLE, SKY, VERMILLION
from losslens.plots.importance_axis import check_scale
from losslens.plots.look import Look
from losslens.plots.marked_rows import LINES, Dots, Row, Series, draw_ranking, draw_series
from losslens.plots.options import check_colours, colours, most_of, name_features
from losslens.plots.wording import MOST_SHARE, count, not_shown, number, percent, shorten, value_label
from losslens.plots.wording import labels as short_labels
from losslens.results.by_group import ByGroup
from losslens.results.comparison import Comparison
from losslens.results.extrapolation import Extrapolations, rule_in_words
from losslens.results.gap import Gap
from losslens.results.good_models import GoodModels
from losslens.results.importances import Importances
from losslens.results.one_number import numbers_of
from losslens.results.permuted_target import PermutedTarget
from losslens.results.refits import Refits
from losslens.results.row_changes import RowChanges
from losslens.results.segments import WeakSegments
from losslens.results.shapley import ShapleyImportance
from losslens.results.table import or_else
from losslens.results.together import Block, Together
from losslens.tables.checks import check_flag
from losslens.text import listed
from losslens.typing import Floats, Indices
from losslens.uncertainty.cautions import noted

WARNS = " †"  # after the name of a feature whose replaced rows a classifier can separate from real ones
MEMBERS_NAMED = 2  # of a block
INSIDE = "wide bars: features that go together, replaced together; thin bars: each of them alone"
NUMBERS = "¹²³⁴⁵⁶⁷⁸⁹"  # after the names of features that go together
SAGE, STOPPED = "SAGE: predictions averaged over donors before the loss", "interrupted"


NOTHING: tuple[float, float] = (np.nan, np.nan)


def plot_importances(
    importances: Importances, ax: Axes | None, look: Look, ratio: bool, blocks: Together | None = None
) -> Axes:
    """Importances, or ratios of errors, with the error with nothing replaced; a block is one bar."""
    check_flag(ratio, "ratio")
    name_features(look.labels, list(importances))
    joint = [] if blocks is None else _blocks_of(importances, blocks, ratio)
    inside, rows = {member for block in joint for member in block.features}, []
    single = [one for name, one in importances.items() if name not in inside]
    named = [members for members in importances.blocks.values() if not inside & {*members}]
    numbered = {member: number for number, members in zip(NUMBERS, named, strict=False) for member in members}
    for one in single:
        if not np.isfinite(or_else(lambda: one.pfi, np.nan)):  # noqa: B023  curves only
            continue
        ends = or_else(lambda: one.ratio_interval() if ratio else one.interval(), NOTHING)  # noqa: B023
        mark = numbered.get(one.name, "") + _mark_of(one)
        rows.append(Row(one.name, one.ratio if ratio else one.pfi, *ends, mark, one._caution))
    if not rows and not joint:
        none = "no feature has an importance to rank by, only curves; use a design such as 'all'"
        raise ValueError(getattr(importances._first, "undefined", "") or none)

    def notes(drawn: Sequence[Row]) -> list[str]:
        texts = [f"{importances._measure} as it is: {number(importances.base)}"]
        if any(WARNS in row.mark for row in drawn):
            texts.append(f"{WARNS.strip()}: {_unreal_rows(importances)}")
        shared = sorted({row.mark[0] for row in drawn if row.name in numbered})
        texts += [f"{' '.join(shared)}: features that go together"] if shared else []
        missing = len(single) - len(rows)
        texts += [INSIDE] if any(row.parts for row in drawn) else []
        return texts + ([f"{count(missing, 'feature')} without an importance left out"] if missing else [])

    quotient = f"{importances.loss.title}: feature replaced / as it is" if ratio else None
    label = quotient or importances.headline.split(";")[0]
    every = [*rows, *map(_joint_row, joint)]
    return draw_ranking(ax, every, _naming_blocks(look, joint), label, notes, start=1.0 if ratio else 0.0)


def _mark_of(one: Any) -> str:
    """The mark of a feature whose replaced rows are unlike real ones, with their share from 30% on, or may be."""
    far = one.computed_extrapolation
    if far is None:
        return WARNS if one._unreal_rows else ""
    return f"{WARNS} {far.percent}" if far.remark else WARNS if far.warns else ""


def _unreal_rows(importances: Importances) -> str:
    """What the mark says: the rule of a classifier where it was computed, else that of the screen."""
    computed = [far for one in importances.values() if (far := one.computed_extrapolation) is not None]
    if not computed:
        return "correlated with other features: replacing it may create unrealistic rows (imp.extrapolation)"
    share = ", whose share is shown from 30% on" if any(one.remark for one in computed) else ""
    return f"{rule_in_words(computed)}{share}"


def plot_together(together: Together, ax: Axes | None, look: Look) -> Axes:
    """Blocks as bars, with their features inside."""
    blocks = list(together.blocks.values())
    if not blocks:
        raise ValueError(f"there is nothing to draw: {together.notes[0]}")
    name_features(look.labels, [*together.blocks, *(member for one in blocks for member in one.features)])
    notes = [INSIDE, f"error as it is: {number(together.error)}"]
    rows, label = list(map(_joint_row, blocks)), f"increase in {together.title}"
    return draw_ranking(ax, rows, _naming_blocks(look, blocks), label, lambda _: notes, smaller="smaller block")


def _blocks_of(importances: Importances, together: Together, ratio: bool) -> list[Block]:
    """The blocks of a result of `together`, checked."""
    if not isinstance(together, Together):
        raise TypeError(f"blocks is what imp.together(model, X, y) returns; got {type(together).__name__}")
    if ratio:
        raise ValueError("ratio=True draws single features: leave out blocks, whose numbers are differences")
    blocks = list(together.blocks.values())
    members = [member for one in blocks for member in one.features]
    unknown = [member for member in members if member not in importances]
    if unknown or together.title != importances.title:
        raise ValueError(
            f"blocks is of another result: {f'it has {unknown[0]!r}' if unknown else f'its loss is {together.title}'}"
        )
    twice = [member for member in members if members.count(member) > 1]
    if twice:
        raise ValueError(f"a ranking shows each feature once, and {twice[0]!r} is in two blocks: see blocks.plot()")
    return blocks


def _joint_row(block: Block) -> Row:
    joint = block.numbers[block.name]
    parts = tuple(np.sort(block.numbers.value[1:])[::-1].tolist())
    return Row(block.name, joint.value, joint.low, joint.high, "", joint.caution, parts)


def _naming_blocks(look: Look, blocks: Sequence[Block]) -> Look:
    """The look, with the names of blocks made of those of their features."""
    named = {one.name: listed(look.names.all(one.features), MEMBERS_NAMED) for one in blocks}
    return replace(look, labels={**named, **(look.labels or {})})


def plot_shapley(result: ShapleyImportance, ax: Axes | None, look: Look) -> Axes:
    """Shapley importances with their percentages of the total."""
    name_features(look.labels, result.features)
    lines = LINES
    try:
        low, high = result.interval()
    except ValueError:  # without importances of single rows, there is only the Monte-Carlo error
        low, high = result.interval(target="sample")
        lines = f"{LINES} of the Monte-Carlo error alone, not for new data"
    low, high = (np.where(low < high, end, np.nan) for end in (low, high))
    numbers = zip(result.features, result.sfimp.tolist(), low, high, result.caution, strict=True)
    rows = [Row(name, value, one, other, "", said) for name, value, one, other, said in numbers if np.isfinite(value)]
    if not rows:
        raise ValueError("no feature has an importance to rank by: no row with a positive weight has a donor")
    total, (what, sign) = result.error_none - result.error_all, ("error", 1) if result.is_error else ("score", -1)

    def shares(drawn: Sequence[Row]) -> list[str]:
        """None if there is no decrease, or if features nearly cancel out."""
        clear = total > 0 and max(abs(row.value) for row in drawn) <= MOST_SHARE * total
        return [percent(row.value / total) for row in drawn] if clear else []

    none, full = number(sign * result.error_none), number(sign * result.error_all)
    notes = [f"{what} {none} with all values from other rows, {full} with their own"]
    notes.append(f"sums to {number(float(result.sfimp.sum()))}")
    notes += [f"below 0: values that {result.harm}"] if result.negative_in_words else []
    notes += [*([SAGE] if result.aggregate == "prediction" else []), *([] if result.complete else [STOPPED])]
    label = result.headline.split(";")[0]
    return draw_ranking(ax, rows, look, label, lambda _: notes, shares=shares, lines=lines)


def plot_refits(refits: Refits, ax: Axes | None, look: Look) -> Axes:
    """Importances of a learner, with a dot for each fold."""
    style: dict[str, Any] = {"color": BLUE, "markersize": 4, "markerfacecolor": "white", "markeredgewidth": 1}
    notes = [f"mean {refits.measure} as it is: {number(float(refits.errors.mean()))}"]
    notes.append(f"dots: {count(len(refits.folds), 'fold')}")
    lines = f"{LINES} for the learner ({refits.variance} variance)"
    label, dots = refits.headline.split(";")[0], Dots(refits.per_fold, "o", style | {"zorder": 3})
    return draw_ranking(ax, _of_table(refits, look), look, label, lambda _: notes, lines=lines, repeats=dots)


def plot_row_changes(changes: RowChanges, ax: Axes | None, look: Look) -> Axes:
    """Increases of the loss without the information in a feature."""
    note = f"error {changes.untouched}: {number(changes.error)}"
    return draw_ranking(ax, _of_table(changes, look), look, changes.what, lambda _: [note])


def _of_table(result: Refits | RowChanges, look: Look) -> list[Row]:
    """The rows of a result's table, in the requested order of its features."""
    name_features(look.labels, result.features)
    table = result._table()
    columns = [table.column(name) for name in ("feature", "importance", "low", "high", "caution")]
    rows = {name: Row(name, value, low, high, "", said) for name, value, low, high, said in zip(*columns, strict=True)}
    return [rows[name] for name in result.features]


def plot_extrapolation(extrapolations: Extrapolations, ax: Axes | None, look: Look) -> Axes:
    """Shares of replaced rows that are unlike any real one."""
    name_features(look.labels, list(extrapolations))
    tested = [one for one in extrapolations.values() if one.share >= 0]
    rows = [Row(one.name, one.share, mark=WARNS if one.warns else "") for one in tested]
    if not rows:
        raise ValueError("there is nothing to draw: every feature has too few rows to measure extrapolation")
    rule = f"{WARNS.strip()}: {rule_in_words(tested)}"

    def notes(drawn: Sequence[Row]) -> list[str]:
        return [rule] if any(row.mark for row in drawn) else []

    label = "share of replaced rows that are unrealistic"
    return draw_ranking(ax, rows, look, label, notes, smaller="smaller share")


def plot_segments(result: WeakSegments, ax: Axes | None, look: Look) -> Axes:
    """The error of all rows and of each segment, in the order of the table."""
    rows = [Row(f"all {result.n:,} rows", result.error, result.low, result.high)]
    rows += [Row(one.rule, one.judged_error, one.judged_low, one.judged_high) for one in result.segments]
    kept = rows[: 1 + most_of(look.top, len(result.segments))]  # in the order of the table, the clearest first
    note = f"no segment: {result.why}" if result.why else "of rows that were not used to find the rule"
    notes = [note, *not_shown(len(rows) - len(kept), "segment")]
    look = replace(look, top=None)
    return draw_ranking(ax, kept, look, result.title, lambda _: notes, pinned=len(kept), what="segment")


def plot_gap(gap: Gap, ax: Axes | None, look: Look) -> Axes:
    """The difference in error, and what each line adds to it, the largest features on top."""
    name_features(look.labels, gap.lines[1:])
    ends = np.full((2, len(gap.lines)), np.nan) if gap.why else np.array(gap.interval())
    of_total = NOTHING if gap.why else (gap.whole().low, gap.whole().high)
    lines = zip(gap.lines, gap.parts.tolist(), *ends.tolist(), gap.caution, strict=True)
    rows = [Row("whole difference", gap.total, *of_total, colour=PALE)]
    rows += [Row(name, part, low, high, "", said) for name, part, low, high, said in lines]

    def notes(drawn: Sequence[Row]) -> list[str]:
        all_drawn = len(drawn) == len(rows)
        adding = "the bars below the first add up to it" if all_drawn else "all lines together add up to the first"
        return [*([gap.why] if gap.why else []), adding]

    first, second = short_labels(gap.names, 30)
    label = f"{gap.title} of {first} less that of {second}"
    ax = draw_ranking(ax, rows, look, label, notes, by_size=True, pinned=2, smaller="smaller line")
    if len(ax.get_yticks()) > 1:
        ax.axhline(0.5, color=PALE, linewidth=0.8)
    return ax


def plot_moved(comparison: Comparison, ax: Axes | None, look: Look, name: str, against: str) -> Axes:
    """How each feature's importance and its values differ in two sets of rows."""
    name_features(look.labels, comparison.features)
    moved = {f: comparison.shift(f, name, against) for f in comparison.features}
    importances = [comparison.importances[one] for one in (name, against)]
    rows = []
    for feature in comparison.features:
        ends = or_else(lambda: comparison.difference(feature, name, against), None)  # noqa: B023
        value = importances[0][feature].pfi - importances[1][feature].pfi
        rows.append(Row(feature, value) if ends is None else Row(feature, ends.value, ends.low, ends.high))

    def beside(panel: Axes, drawn: Sequence[Row]) -> None:
        """How far the values of each feature moved."""
        shifts = [moved[row.name] for row in drawn]
        distance, positions = [one.distance for one in shifts], np.arange(len(drawn))
        panel.hlines(positions, 0, distance, color=PALE, linewidth=1.2)
        inside = [BLUE if one.beyond_chance else "white" for one in shifts]
        panel.scatter(distance, positions, s=36, c=inside, edgecolors=BLUE, linewidths=1.2, zorder=3, clip_on=False)
        panel.set(xlim=(0, 1), xticks=[0, 0.5, 1])
        panel.set_xlabel(canvas.folded("shift of its values", canvas.size_in_points(panel)[0]))

    first, second = short_labels([name, against], 30)
    label = f"{comparison.change}: {first} less {second}"
    note = "right: distance of the two distributions, from 0 to 1; filled: beyond chance"
    return draw_ranking(
        ax, rows, look, label, lambda _: [note], by_size=True, smaller="smaller difference", beside=beside
    )


def plot_permuted_target(test: PermutedTarget, ax: Axes | None, look: Look) -> Axes:
    """Each feature's importance over its importances with permuted targets."""
    names = test.features
    name_features(look.labels, names)
    ranked, fill = np.argsort(-test.importance, kind="stable"), [VERMILLION] * len(names)
    fill = colours(look.colors, names, fill, "feature")
    null = Dots(test.null, "|", {"color": PALE, "markersize": 9, "alpha": 0.6, "zorder": 1,
                                    "label": f"target permuted, {count(len(test.null), 'time')}"})  # fmt: skip
    series = Series("importance", fill, np.array([test.importance, *np.full((2, len(names)), np.nan)]))
    p = [f"(p = {p:.2g})" for p in test.p_values]
    ax, order = draw_series(ax, look, names, ranked, [series], test.what, beside=p, repeats=null)
    notes = ["p: share of the permutations with at least this importance, the original included"]
    canvas.caption(ax, notes + not_shown(len(names) - len(order)))
    return ax


def plot_comparison(comparison: Comparison, ax: Axes | None, look: Look) -> Axes:
    """The importances of each feature, one model below the other."""
    shown, features = list(comparison.importances.items())[: len(LOOKS)], list(comparison.features)
    name_features(look.labels, features)
    models = [name for name, _ in shown]
    fill = colours(look.colors, models, COLOURS, "model", comparison.names)
    series = []
    for (_, importances), name, colour in zip(shown, short_labels(models, 30), fill, strict=True):
        each = list(importances.values())
        numbers = np.array([numbers_of(each, what) for what in ("importance", "low", "high")])
        series.append(Series(f"{name}: {comparison._measure} {number(importances.base)}", colour, numbers))
    ranked = np.array([features.index(feature) for feature in comparison._ranked], np.intp)
    ax, order = draw_series(ax, look, features, ranked, series, comparison.change)
    notes = [] if ax.get_legend() else ["no space to name the models"]
    lines = np.isfinite(np.array([one.numbers[1] for one in series])).any()
    notes += [LINES] if lines else []
    # Which features, and of which model, is in the table: names take too much space.
    cautions = [importances[features[j]]._caution for importances in comparison.importances.values() for j in order]
    cautions = noted(["some"] * len(cautions), cautions)
    if lines and comparison.paired and not cautions:  # advice is less urgent, and small axes have no space for both
        notes.append("on the same rows: .differences() is often more precise than the lines suggest")
    if len(shown) < len(comparison.names):
        notes.append(f"the first {len(shown)} of {len(comparison.names)}")
    canvas.caption(ax, [*notes, *cautions, *not_shown(len(features) - len(order))])
    return ax


def plot_good_models(good: GoodModels, ax: Axes | None, look: Look) -> Axes:
    """The range of each importance over good models, with a dot for each and a diamond for the best."""
    names, values = list(good.features), good.importance
    name_features(look.labels, names)
    ranked = np.argsort(-values.max(axis=0), kind="stable")[: most_of(look.top, len(names))]
    check_scale(look.scale, values[:, ranked])
    check_colours(look.colors, names, "feature")
    ends, others = good.interval(), [k for k, name in enumerate(good.good) if name != good.best]

    def beneath(ax: Axes, order: Indices) -> list[Line2D]:
        positions, low, high = np.arange(len(order)), values.min(axis=0)[order], values.max(axis=0)[order]
        ax.barh(positions, high - low, left=low, height=0.5, color=SKY, label="range over good models")
        ax.hlines(
            positions, ends[0][order], ends[1][order], color=INK, linewidth=1.1, label="its 95% interval", gid=BAND
        )
        fill = colours(look.colors, [names[j] for j in order], [BLUE] * len(order), "feature", names)
        for k in others:
            label = "a model" if k == others[0] else None
            ax.scatter(values[k, order], positions, c=fill, s=16, label=label, gid=SINGLE, zorder=3.5)
        return [ax.axvline(good.least, label=f"margin: {number(good.least)}", zorder=2, **DASHED)]

    own = values[list(good.good).index(good.best)]
    alone = np.array([own, *np.full((2, len(names)), np.nan)])
    best = Series(f"the best: {shorten(good.best, 30)}", [VERMILLION] * len(names), alone, marker="D")
    need = [f"({good.need[name]})" for name in names]
    look = replace(look, top=None)
    ax, order = draw_series(ax, look, names, ranked, [best], good.comparison.change, beside=need, beneath=beneath)
    notes = [f"{len(good.good)} of {count(len(good.names), 'model')} not surely worse than the best"]
    canvas.caption(ax, [*notes, *not_shown(len(names) - len(order))])
    return ax


def plot_by_group(groups: ByGroup[Any], ax: Axes | None, look: Look) -> Axes:
    """The number of each group, or of each feature and group."""
    if not groups.every._is_ranked:
        raise ValueError("every feature has its own curves; name one: plot_curves('x')")
    name_features(look.labels, groups.features)
    labels = groups._labels
    if not groups.every._of_one:
        fill = colours(look.colors, [labels[k] for k in _largest(groups, len(LOOKS))], COLOURS, "group", labels)
        return _features_by_group(groups, ax, look, fill)
    (feature,) = groups.features
    check_colours(look.colors, labels, "group")
    most = named_rows.MOST_ROWS if ax is None else max(1, named_rows.rows_that_fit(ax) - 3)
    chosen = _largest(groups, most)
    numbers = _numbers(groups, chosen, [feature])
    fill = colours(look.colors, [labels[k] for k in chosen], [BLUE] * len(chosen), "group", labels)
    names = [value_label(labels[k]) for k in chosen]
    what = groups.what.replace(f"{feature}:", f"{look.names.of(feature)}:", 1)
    beside, overall = [f"(n = {groups.n[k]:,})" for k in chosen], _value(groups._numbers_of_all[feature])
    series, look = [Series("", fill, numbers[..., 0])], replace(look, top=None, sort="given", labels=None)
    order = np.arange(len(chosen))
    ax, _ = draw_series(ax, look, names, order, series, what, beside=beside, level=overall, legend=0)
    ax.set_ylabel(groups.name, parse_math=False)
    canvas.caption(ax, _group_notes(groups, chosen, [feature], numbers))
    return ax


def _features_by_group(groups: ByGroup[Any], ax: Axes | None, look: Look, fill: Sequence[str]) -> Axes:
    """A row for each feature, with the groups below each other."""
    chosen, features = _largest(groups, len(LOOKS)), list(groups.features)
    numbers = _numbers(groups, chosen, features)
    finite = np.isfinite(numbers[0]).any(axis=0)
    ranked = np.array([j for j in map(features.index, groups._ranked) if finite[j]], np.intp)
    column = "" if groups.name == "group" else f"{groups.name} "
    names = short_labels([value_label(groups._labels[k]) for k in chosen], 30)
    series = [
        Series(f"{column}{name} (n = {groups.n[k]:,})", colour, numbers[:, place])
        for place, (k, name, colour) in enumerate(zip(chosen, names, fill, strict=False))
    ]
    ax, order = draw_series(ax, look, features, ranked, series, groups.what)
    unnamed = [] if ax.get_legend() else ["no space to name the groups"]
    notes = _group_notes(groups, chosen, [features[j] for j in order], numbers[..., order])
    missing = len(features) - len(ranked)
    left = [f"{count(missing, 'feature')} without a number left out"] if missing else []
    canvas.caption(ax, [*unnamed, *notes, *not_shown(len(ranked) - len(order)), *left])
    return ax


def _largest(groups: ByGroup[Any], most: int) -> list[int]:
    """The groups with the most rows, in their given order."""
    return sorted(np.argsort(-groups.n, kind="stable")[:most].tolist())


def _numbers(groups: ByGroup[Any], chosen: Sequence[int], features: Sequence[str]) -> Floats:
    """Values and the ends of their intervals, (3, k, p); NaN where there is none."""
    each = list(groups._numbers.values())
    cells = [[each[k][feature] for feature in features] for k in chosen]
    value = [[_value(cell) for cell in line] for line in cells]
    if not np.isfinite(value).any():
        raise ValueError("no group has a number to draw; print the result to see why")
    return np.array([value, *([[cell.get(end, np.nan) for cell in line] for line in cells] for end in ("low", "high"))])


def _value(cell: dict[str, Any]) -> float:
    return float(next(iter(cell.values())))


def _group_notes(groups: ByGroup[Any], chosen: Sequence[int], features: Sequence[str], numbers: Floats) -> list[str]:
    notes = [LINES] if np.isfinite(numbers[1:]).any() else []
    if not groups.every._measure:  # effects, whose rows have no error
        notes.append("means over these rows")
    if len(chosen) < len(groups):
        notes.append(f"the largest {len(chosen)} of {count(len(groups), 'group')}")
    each = list(groups._numbers.values())
    cautions = [each[k][feature].get("caution", "") for k in chosen for feature in features]
    if len(set(filter(None, cautions))) > 1:  # which, and why, is in the table: sentences take too much space
        return [*notes, f"{sum(map(bool, cautions))} of {len(cautions)} intervals with a caution: print the result"]
    return notes + noted(["some"] * len(cautions), cautions)
