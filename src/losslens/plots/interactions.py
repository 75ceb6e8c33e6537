"""Which features interact: all pairs as a heat map, and the strongest ones with their intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from losslens.plots import canvas, named_rows
from losslens.plots.canvas import BLUE, INK, LINE
from losslens.plots.importance_axis import check_scale
from losslens.plots.look import Look, Names
from losslens.plots.marked_rows import LINES, Row, draw_rows
from losslens.plots.options import arrange, check_colours, colour_map, colours, most_of, name_features
from losslens.plots.tables import MOST_TABLE, caption, draw_table
from losslens.plots.wording import labels as short_labels
from losslens.plots.wording import not_shown, shorten
from losslens.results.interactions import Interactions, Part
from losslens.typing import Indices, Sort
from losslens.uncertainty.cautions import noted

SURE = "interval without 0"  # gid of a frame, to find it again


def plot_interactions(result: Interactions, ax: Axes | None, look: Look, part: Part | None) -> Axes:
    """Draw the pairs as a table of colours."""
    own, result = ax is None, result.of_part(part)
    if part is not None and not result._pairs:
        raise ValueError(f"there is nothing to draw: {result.absent}")
    names, colour_scale = name_features(look.labels, result.features), colour_map(look.colors, "PuOr_r")
    ax, order = _open_table(result, ax, look.top)
    order = arrange(names.all(result.features), order, look.sort)
    down, across = (order[1:], order[:-1]) if len(order) > 1 else (order, order)
    cells = result.index[np.ix_(down, across)].copy()  # each pair once: no row for the first, no column for the last
    blank = np.isnan(cells[np.tril_indices(len(cells))]).any()
    cells[np.triu_indices(len(cells), int(len(order) > 1))] = np.nan
    rows, columns = ([" ".join(names.of(result.features[j]).split()) for j in side] for side in (down, across))
    title = f"{result.kind}, {result.title}"
    notes = draw_table(ax, cells, rows, columns, title, colour_scale, own)
    notes = [*filter(None, [result.meaning]), *notes]
    framed = _frame_sure(ax, result, order)
    sure = is_sure(result)
    notes += [*framed, *_cautions(result, names, [pair for pair in result._pairs if sure[pair]])] if framed else []
    if blank:
        notes.append("blank: not requested")
    notes += not_shown(len(result.features) - len(order), "weaker feature")
    caption(ax, notes)
    return ax


def _cautions(result: Interactions, names: Names, pairs: Sequence[tuple[int, int]]) -> list[str]:
    """Why to doubt the intervals of pairs: of those that a table frames, or that a ranking draws."""
    named = [" and ".join(shorten(names.of(result.features[j]), 40) for j in pair) for pair in pairs]
    return noted(named, [result._caution(pair) for pair in pairs])


def _open_table(result: Interactions, ax: Axes | None, top: int | None) -> tuple[Axes, Indices]:
    """The axes, and the features that fit, those with the strongest interactions first."""
    p = max(2, most_of(top, len(result.features)))  # no pair has fewer
    size = np.where(np.isfinite(result.index), np.abs(result.index), 0.0)
    order = np.argsort(-(size.sum(axis=1) - size.diagonal()), kind="stable")
    own = ax is None
    ax = canvas.new_axes(min(p, MOST_TABLE) + 4) if ax is None else ax
    width, height = canvas.size_in_points(ax)
    if not own:
        width, height = 0.8 * width, 0.7 * height  # the colour bar and the names below take the rest
    fit = int(min(width, height) / (LINE * canvas.font_size(mpl.rcParams["ytick.labelsize"])))
    return ax, order[: min(p, MOST_TABLE if own else max(2, fit))]


def _frame_sure(ax: Axes, result: Interactions, order: Indices) -> list[str]:
    """A frame around every cell whose interval excludes 0; returns a note if there is one."""
    sure = np.tril(is_sure(result)[np.ix_(order[1:], order[:-1])])
    if not sure.any():
        return []
    for colour, width in (("white", 4.0), (INK, 1.4)):  # ink on white: to be seen on a dark cell, too
        style: dict[str, Any] = {"edgecolor": colour, "linewidth": width, "fill": False, "clip_on": False}
        for j, k in np.argwhere(sure):
            ax.add_patch(Rectangle((k, j), 1, 1, gid=SURE, zorder=3, **style))
    return ["framed: the 95% interval excludes 0"]


def is_sure(result: Interactions) -> NDArray[np.bool_]:
    """Pairs whose 95% interval lies on one side of 0."""
    low, high = result.interval()
    return np.asarray((low > 0) | (high < 0))


def plot_interaction_ranking(result: Interactions, ax: Axes | None, look: Look, part: Part | None) -> Axes:
    """Draw the strongest pairs with their intervals, the strongest on top."""
    result, names = result.of_part(part), name_features(look.labels, result.features)
    ranked, own = result._pairs, ax is None
    if not ranked:
        raise ValueError(f"there is nothing to draw: {result.absent or 'no pair has an interaction'}")
    most = most_of(look.top, len(ranked))
    check_scale(look.scale, np.array([result.index[pair] for pair in ranked[:most]]))
    every = {pair: (result.features[pair[0]], result.features[pair[1]]) for pair in ranked}
    check_colours(look.colors, list(every.values()), "pair")
    ax, most = named_rows.open_rows(ax, most, below=4)
    shown = _sorted_pairs(ranked[:most], names.all(result.features), look.sort)
    fill = colours(look.colors, [every[pair] for pair in shown], [BLUE] * len(shown), "pair", list(every.values()))
    short = _pair_names(names.all(result.features), shown, named_rows.letters_beside(ax))
    columns = (*(matrix[tuple(np.array(shown).T)] for matrix in (result.index, *result.interval())),)
    rows = [Row(*row) for row in zip(short, *columns, strict=True)]
    sure = np.array([is_sure(result)[pair] for pair in shown]) | ~np.isfinite(columns[1]).any()
    width = draw_rows(ax, rows, own, replace(look, colors=fill, labels=None), filled=sure)
    named_rows.label_across(ax, f"{result.kind}, {result.title}", width)
    notes = [*filter(None, [result.meaning])]
    if any(pair in result._with_error for pair in shown):
        notes += [f"{LINES}; filled: the interval excludes 0", *_cautions(result, names, shown)]
    canvas.caption(ax, notes + not_shown(len(ranked) - len(shown), "weaker pair"))
    return ax


def _sorted_pairs(ranked: Sequence[tuple[int, int]], names: Sequence[str], sort: Sort) -> list[tuple[int, int]]:
    """Pairs in the requested order, given the strongest first."""
    if sort == "importance":
        return list(ranked)
    every = sorted(ranked)
    places = np.arange(len(every))
    return [every[k] for k in arrange([f"{names[j]} {names[k]}" for j, k in every], places, sort)]


def _pair_names(features: Sequence[str], pairs: Sequence[tuple[int, int]], letters: int) -> list[str]:
    """Both names of each pair, shortened to equal lengths; a short name leaves its letters to the other."""
    used = sorted({j for pair in pairs for j in pair})
    for half in range(max(letters, 6), 5, -1):
        short = dict(zip(used, short_labels([features[j] for j in used], half), strict=True))
        names = [f"{short[j]} × {short[k]}" for j, k in pairs]
        if max(map(len, names)) <= letters:
            break
    return names
