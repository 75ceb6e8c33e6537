"""The error of a model distributed among its features: models side by side, and one model step by step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from losslens.plots import canvas
from losslens.plots.canvas import BLUE, GREEN, INK, LETTER, SKY, VERMILLION, folded
from losslens.plots.look import Look
from losslens.plots.options import colours, most_of, name_features
from losslens.plots.rankings import SAGE, STOPPED
from losslens.plots.scale import word_ticks
from losslens.plots.steps import RISE_FALL, draw_chain, rise_and_fall
from losslens.plots.wording import MOST_SHARE, number, percent
from losslens.plots.wording import labels as short_labels
from losslens.results.shapley import ShapleyImportance
from losslens.typing import Floats

# Okabe and Ito's colours, neighbours as different as possible; more colours would not be distinct.
COLOURS = (BLUE, "#E69F00", GREEN, "#CC79A7", SKY, VERMILLION, "#F0E442", "0.25")
OTHERS = "0.82"
REST: dict[str, Any] = {"facecolor": "white", "edgecolor": "0.55", "hatch": "////", "linewidth": 0.8}
WIDTH, SIDE = 0.62, 0.13  # widths of a bar and of the narrow one beside it, in distances of bars
SMALL = 150.0  # points of height below which the caption is short


@dataclass(frozen=True, eq=False)
class Stack:
    """One model: its parts, and where they begin and end; scores have their usual sign."""

    name: str
    parts: Floats  # (k,): positive = useful
    start: float  # foot of the parts: the remaining error, or the score without features
    end: float  # start + sum of the parts
    total: float  # of which percentages are taken; 0: there are none


def plot_shares(models: Mapping[str, ShapleyImportance], ax: Axes | None, look: Look) -> Axes:
    """Draw how each model's performance is distributed over the features, with the remaining error."""
    first, own = _check(models), ax is None
    names, table = _table(models, most_of(look.top, len(COLOURS)))
    shown = name_features(look.labels, names)
    colours(
        look.colors, names[: most_of(look.top, len(COLOURS))], COLOURS, "feature", names
    )  # before there is a figure
    ax = canvas.new_axes() if ax is None else ax
    size = canvas.room_left(ax, own)
    letters, entries = canvas.legend_room(*size)
    most = int(np.clip(entries - 2, 2, len(COLOURS)))  # the legend also names the others and the remaining error
    kept = len(names) if len(names) <= most + (most < len(COLOURS)) else most
    kept = min(kept, most_of(look.top, len(names)))
    fill = [*colours(look.colors, names[:kept], COLOURS, "feature", names), OTHERS]
    parts = shown.all(names[:kept])
    if kept < len(names):
        table = np.column_stack([table[:, :kept], table[:, kept:].sum(axis=1)])
        parts.append(f"{len(names) - kept} others")
    stacks = [_stack(str(name), m, parts) for (name, m), parts in zip(models.items(), table, strict=True)]
    for k, name in enumerate(short_labels(parts, letters)):
        _draw_part(ax, stacks, k, fill[k], name)
    _draw_ends(ax, stacks, first.is_error)
    _dress(ax, stacks, first, size)
    _write(ax, stacks, fill, size)
    canvas.caption(ax, _notes(stacks, first, short=size[1] < SMALL))
    return ax


def _check(models: Mapping[str, ShapleyImportance]) -> ShapleyImportance:
    """The first of the models, after checking that all have shares, and of the same loss."""
    if not models:
        raise ValueError("there is no model to draw")
    titles = list(dict.fromkeys(result.title for result in models.values()))
    if len(titles) > 1:
        raise ValueError(f"the models have different losses, hence no common axis: {', '.join(titles)}")
    for name, result in models.items():
        if not np.isfinite(result.sfimp).all():
            raise ValueError(f"{name!r} has no shares to draw: no row with a positive weight has a donor")
    return next(iter(models.values()))


def _table(models: Mapping[str, ShapleyImportance], coloured: int) -> tuple[list[str], Floats]:
    """All features, the largest on average first, and their shares in each model: 0 if a model lacks the feature.

    Those with a colour of their own are the first of them, also where their shares have both signs.
    """
    names = list(dict.fromkeys(name for result in models.values() for name in result.features))
    shares = [dict(zip(result.features, result.sfimp.tolist(), strict=True)) for result in models.values()]
    table = np.array([[some.get(name, 0.0) for name in names] for some in shares])
    order = np.argsort(-table.mean(axis=0), kind="stable")
    large = np.argsort(-np.abs(table).max(axis=0), kind="stable")[:coloured]
    order = np.array([*(j for j in order if j in large), *(j for j in order if j not in large)], np.intp)
    return [names[j] for j in order], table[:, order]


def _stack(name: str, result: ShapleyImportance, parts: Floats) -> Stack:
    ends = (result.error_all, result.error_none) if result.is_error else (-result.error_none, -result.error_all)
    total = result.error_none - result.error_all
    clear = total > 0 and np.abs(parts).max() <= MOST_SHARE * total
    return Stack(name, parts, *ends, total if clear else 0.0)


def _spans(stack: Stack) -> Floats:
    """Lower end and height of each part, (k, 2): useful ones upwards, the last at the bottom; others downwards."""
    useful = np.maximum(stack.parts, 0.0)[::-1]
    low = (stack.start + np.cumsum(useful) - useful)[::-1]
    harm = np.maximum(-stack.parts, 0.0)
    top = stack.start + useful.sum() - np.cumsum(harm)
    return np.column_stack([np.where(stack.parts < 0, top, low), np.abs(stack.parts)])


def _draw_part(ax: Axes, stacks: Sequence[Stack], k: int, colour: str, name: str) -> None:
    """One feature in all models."""
    low, height = np.array([_spans(stack)[k] for stack in stacks]).T
    harm = np.array([stack.parts[k] < 0 for stack in stacks])
    x = np.arange(len(stacks)) + np.where(harm, (WIDTH + SIDE) / 2, 0.0)
    style: dict[str, Any] = {"edgecolor": ax.get_facecolor(), "linewidth": 0.6}
    ax.bar(x, height, np.where(harm, SIDE, WIDTH), low, color=colour, label=canvas.legend_name(name), **style)


def _draw_ends(ax: Axes, stacks: Sequence[Stack], error: bool) -> None:
    """The foot of the parts, and a line where they end."""
    start, end = np.array([(stack.start, stack.end) for stack in stacks]).T
    x = np.arange(len(stacks), dtype=float)
    ax.bar(x, np.maximum(start, 0.0), WIDTH, label="remaining" if error else "values of other rows", zorder=1, **REST)
    harm = np.array([(stack.parts < 0).any() for stack in stacks])
    left, right = np.where(harm, WIDTH / 2, -WIDTH / 2 - 0.03), np.where(harm, WIDTH / 2 + SIDE, WIDTH / 2) + 0.03
    ax.hlines(end, x + left, x + right, color=INK, linewidth=1.4, zorder=3)
    if min(start.min(), end.min()) < 0:
        ax.axhline(0, color=INK, linewidth=0.6, zorder=0)


def _dress(ax: Axes, stacks: Sequence[Stack], first: ShapleyImportance, size: tuple[float, float]) -> None:
    width, height = size
    word_ticks(ax.xaxis, np.arange(len(stacks), dtype=float), [stack.name for stack in stacks], width)
    ax.tick_params(axis="x", length=0)
    ax.set_xlim(-0.6, len(stacks) - 0.4)
    ax.set_xlabel("model")
    ax.set_ylabel(
        folded(f"mean {first.quantity}" if first.loss is not None else first.quantity, height), parse_math=False
    )
    canvas.plain_frame(ax)
    above = canvas.legend(ax, width) * canvas.size_in_points(ax)[1] / height
    canvas.make_room(ax, 0.0, min(0.65, above + 1.5 * canvas.font_size("small") / height))
    if min(min(stack.start, stack.end) for stack in stacks) >= 0:
        ax.set_ylim(bottom=0)
    canvas.value_ticks(ax.yaxis)


def _write(ax: Axes, stacks: Sequence[Stack], colours: Sequence[str], size: tuple[float, float]) -> None:
    """Numbers inside the parts where they fit, and where each stack ends."""
    letter, (low, high) = canvas.font_size("small"), ax.get_ylim()
    points, pitch = size[1] / (high - low), size[0] / (len(stacks) + 0.2)
    style: dict[str, Any] = {"ha": "center", "va": "center_baseline", "fontsize": "small"}
    for x, stack in enumerate(stacks):
        for (start, height), part, colour in zip(_spans(stack), stack.parts.tolist(), colours, strict=False):
            if part > 0 and height * points > 1.2 * letter:
                text = _fitting(part, stack.total, WIDTH * pitch)
                ax.text(x, start + height / 2, text, color=canvas.ink_on(colour), **style)
        if stack.start * points > 1.8 * letter:
            box = {"facecolor": "white", "edgecolor": "none", "pad": 1.0}
            text = _fitting(stack.start, 0.0, WIDTH * pitch)
            ax.text(x, stack.start / 2, text, color=INK, bbox=box if text else None, zorder=4, **style)
        _write_end(ax, x, stack, pitch)


def _write_end(ax: Axes, x: int, stack: Stack, pitch: float) -> None:
    """The number at the line: above the bar, or under the narrow bar beside it."""
    style: dict[str, Any] = {"textcoords": "offset points", "color": INK, "fontsize": "small"}
    if not (stack.parts < 0).any():
        ax.annotate(_fitting(stack.end, 0.0, pitch), (x, stack.end), (0, 2), ha="center", va="bottom", **style)
        return
    text = _fitting(stack.end, 0.0, (1 - WIDTH) * pitch - 3)
    ax.annotate(text, (x + WIDTH / 2, stack.end), (2, -2), ha="left", va="top", **style)


def _fitting(value: float, total: float, points: float) -> str:
    """The longest text that fits: the number with its share of the total, the number alone, or nothing."""
    texts = [number(value), ""]
    if total:
        texts.insert(0, f"{number(value)} ({percent(value / total)})")
    return next(text for text in texts if len(text) * LETTER * canvas.font_size("small") < points or not text)


def _notes(stacks: Sequence[Stack], first: ShapleyImportance, *, short: bool) -> list[str]:
    error = first.is_error
    notes = ["line: " + ("error with all values from other rows" if error else "score with all features")]
    if any(stack.total for stack in stacks) and not short:
        notes.append("percentages: shares of the difference that all features make")
    if any((stack.parts < 0).any() for stack in stacks):
        notes.append(f"narrow: features that {'raise the error' if error else 'lower the score'}")
    return [*notes, SAGE] if first.aggregate == "prediction" else notes


def plot_waterfall(result: ShapleyImportance, ax: Axes | None, look: Look) -> Axes:
    """Draw the steps from the error with all values from other rows to that with their own, the largest share first."""
    _check({"the result": result})
    error, sign = result.is_error, -1.0 if result.is_error else 1.0
    names, (harmful, useful) = name_features(look.labels, result.features), rise_and_fall(look.colors, RISE_FALL)
    ax, steps = draw_chain(
        ax, look, result.features, -sign * result.error_none, sign * result.sfimp, result.sfimp,
        lambda kept, letters: short_labels([names.of(result.features[j]) for j in kept], letters),
        ("no feature", "all features"), f"{'mean ' if result.loss is not None else ''}{result.quantity}",
        (harmful, useful) if error else (useful, harmful), below=3,
    )  # fmt: skip
    notes = ["each bar: a feature's Shapley importance"]
    if any((step.end > step.start) == error and step.end != step.start for step in steps):
        colour = "orange: " if look.colors is None else "to the right: " if error else "to the left: "
        notes.append(colour + ("raises the error" if error else "lowers the score"))
    if result.aggregate == "prediction":
        notes.append(SAGE)
    canvas.caption(ax, notes if result.complete else [*notes, STOPPED])
    return ax
