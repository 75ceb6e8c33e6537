"""A story on one sheet: a headline, three pictures that each make a claim, and one caveat, as HTML, PDF or PNG.

All formats have the same words and pictures; the numbers are those of the report's first screen.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from html import escape
from io import BytesIO, StringIO
from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np

from losslens.page.labels import MISSING
from losslens.page.leading import leading
from losslens.page.opening import no_better
from losslens.page.page import with_minus
from losslens.results.files import atomic_file
from losslens.results.plain_error import PlainError
from losslens.results.sentences import matters_most_at, ranges
from losslens.text import cut, in_digits
from losslens.typing import Floats

FORMATS = (".html", ".pdf", ".png")
A4 = (8.27, 11.69)  # inches
MOST_TICKS = 12  # values of a number that each have a tick
MOST_WORDS = 8  # categories of a picture, those with the largest values
STYLE = "body{font:16px/1.45 system-ui,sans-serif;max-width:44rem;margin:2rem auto;padding:0 1rem;color:#1b1f24}"
STYLE += "h1{font-size:1.6rem;line-height:1.2}h2{font-size:1rem;margin:1.4rem 0 .3rem}svg{width:100%;height:auto}"
STYLE += "@page{size:A4;margin:14mm}"


@dataclass(frozen=True)
class Curve:
    """A curve of one feature: its values by name, their places (None: categories), and the height at each."""

    name: str
    labels: list[str]
    x: Floats | None
    height: Floats
    unit: str
    error: PlainError | None = None  # of which it is a number

    @property
    def level(self) -> float | None:
        """A line to compare with."""
        return None if self.error is None else self.error.now

    @property
    def peaks(self) -> tuple[int, int]:
        """Where it is lowest, and where highest."""
        return int(np.nanargmin(self.height)), int(np.nanargmax(self.height))


@dataclass(frozen=True)
class Story:
    """The words and the pictures of the sheet."""

    headline: str
    well: str  # how well the model predicts
    claims: list[str]  # of each picture, and of what it shows
    bars: dict[str, Any]  # `leading`
    curves: list[Curve]
    caveat: str
    source: str


def story_of(summary: dict[str, Any]) -> Story:
    """What the report says first, and the two curves of the leading feature that has some."""
    summary = with_minus(summary)
    words, bars = summary["words"], leading(summary)
    well, matters, *caveat = map(str, words["opening"])
    first, curves = bars["rows"][0], _curves(summary)
    useless = words["opening"][1].claim == no_better.__name__
    grown = re.sub(r"^its\b", "this model's", re.sub(r"^it\b", "this model", first["grown"]))
    alone = f"{cut(first['name'])} shuffled"
    which = f"{first['name'].removesuffix(' together')} shuffled together" if first["block"] else alone
    headline = f"With {which}, {grown}" if first["sure"] and not useless else matters
    # Where a useless model "matters most" says nothing.
    claims = [matters, *("" if useless and one.error else with_minus(str(_claim(one)), written=True) for one in curves)]
    source = f"{summary['title']}; {summary['n_explained']:,} rows; {summary['library']}, {summary['made']}"
    return Story(headline, well, claims, bars, curves, "".join(caveat[:1]), source)


def _curves(summary: dict[str, Any]) -> list[Curve]:
    """PI in the reader's unit and PD of the most important feature with a curve, where rows are like real ones."""
    loss, error = summary["loss"], summary["models"][0]["error"]
    told = PlainError(loss["told_as"], loss["title"], error)
    for feature in summary["features"]:
        entry, far = feature["models"][0], feature["extrapolation"] or {}
        if entry["pi"] is None or feature["labels"] is None:
            continue
        pale = far.get("faded")
        sure = np.ones(len(entry["pi"]), bool) if pale is None or not far["warns"] else ~np.asarray(pale, bool)
        pi = np.where(sure, [told.after(float(change)) for change in entry["pi"]], np.nan)
        if not np.isfinite(pi).any():
            continue
        grid = None if feature["kind"] == "words" else np.asarray(feature["values"], float)
        name, labels = cut(feature["name"]), [_written(k, feature, grid) for k in range(len(pi))]
        if grid is not None and feature["kind"] == "date":
            grid = np.array([np.datetime64("NaT") if np.isnan(ms) else np.datetime64(int(ms), "ms") for ms in grid])
        found = [Curve(name, labels, grid, pi, told.unit, told)]
        if entry["pd"] is not None:
            classes, shown = summary["target"]["classes"], summary["target"]["shown"]
            target = summary["target"]["name"]
            unit = f"prediction of {target}" if classes is None else f"probability of {classes[shown]}"
            found.append(Curve(name, labels, grid, np.where(sure, entry["pd"], np.nan), unit))
        return found
    return []


def _written(k: int, feature: dict[str, Any], grid: Floats | None) -> str:
    """A value in a sentence: numbers with four digits, years among them, without a comma."""
    label = str(feature["labels"][k])
    if grid is None or np.isnan(grid[k]) or feature["kind"] == "date" or " to " in label:
        return label
    return f"{grid[k]:.4g}".replace("-", "−") if abs(grid[k]) < 1e4 else in_digits(float(grid[k])).replace("-", "−")


def _claim(curve: Curve) -> str:
    """Where the curve is highest, beside the model as it is, or between what it ranges."""
    if curve.error is None:
        return ranges(curve.name, curve.labels, curve.height, curve.unit)
    return matters_most_at(curve.name, curve.labels, curve.height, curve.error)


# Pictures.


def _draw_bars(ax: Any, story: Story) -> None:
    rows = story.bars["rows"]
    y = np.arange(len(rows))
    now = float(story.bars["now_value"])
    values = np.array([row["value"] for row in rows])
    thick = [0.25 if row["block"] == "inside" else 0.5 for row in rows]
    ax.barh(y, values - now, left=now, color="#56b4e9", height=thick)
    for k, row in enumerate(rows):
        if row["low"] is not None and row["high"] is not None:
            ax.plot([row["low"], row["high"]], [k, k], color="#1b1f24", linewidth=1)
        ax.annotate(f" {row['text']}", (1, k), xycoords=ax.get_yaxis_transform(), va="center", fontsize="small")
    ax.axvline(now, color="#1b1f24", linewidth=0.8, linestyle="--")
    names = [fill(row["name"] if row["block"] == "all" else cut(row["name"]), 32) for row in rows]
    names = [f"└ {name}" if row["block"] == "inside" else name for name, row in zip(names, rows, strict=True)]
    ax.set_yticks(y, names, parse_math=False, fontsize="small")
    ax.invert_yaxis()
    ax.set_xlabel(f"{story.bars['measure']}, shuffled; dashed: as it is ({story.bars['now']})", fontsize="small")


def _draw_curve(ax: Any, curve: Curve) -> None:
    low, high = curve.peaks
    mark = low if curve.error is not None and curve.error.falls else high
    if curve.x is None:
        order = np.argsort(-np.nan_to_num(curve.height, nan=-np.inf), kind="stable")[:MOST_WORDS]
        ax.plot(curve.height[order], np.arange(len(order)), "o", color="#0072b2")
        names = [fill(curve.labels[k], 32) for k in order]
        ax.set_yticks(np.arange(len(order)), names, parse_math=False, fontsize="small")
        ax.invert_yaxis()
        ax.set_xlabel(curve.unit, fontsize="small", parse_math=False)
        if curve.level is not None:
            ax.axvline(curve.level, color="#1b1f24", linewidth=0.8, linestyle="--")
        return
    present = np.isfinite(curve.x)
    few = curve.x.dtype.kind == "f" and np.sum(present) <= MOST_TICKS
    ax.plot(curve.x[present], curve.height[present], "o-" if few else "-", color="#0072b2", linewidth=2)
    if few:  # each value has its tick, and nothing is between them
        ax.set_xticks(curve.x[present], [curve.labels[k] for k in np.flatnonzero(present)], fontsize="small")
    place = curve.x[mark]
    if np.isfinite(place):
        ax.plot(place, curve.height[mark], "o", color="#0072b2")
        style: dict[str, Any] = {"textcoords": "offset points", "fontsize": "small", "parse_math": False}
        ax.annotate(curve.labels[mark], (place, curve.height[mark]), (4, 4), **style)
    elif curve.labels[mark] == MISSING:
        ax.axhline(curve.height[mark], color="#0072b2", linewidth=0.8, linestyle=":")
    if curve.level is not None:
        ax.axhline(curve.level, color="#1b1f24", linewidth=0.8, linestyle="--")
    if "probability" in curve.unit:
        ax.set_ylim(0, 1)
    ax.set_xlabel(curve.name, fontsize="small", parse_math=False)
    ax.set_ylabel(curve.unit, fontsize="small", parse_math=False)


def _draw(ax: Any, story: Story, k: int) -> None:
    _draw_bars(ax, story) if k == 0 else _draw_curve(ax, story.curves[k - 1])
    ax.spines[["top", "right"]].set_visible(False)


# Files.


def save_story(summary: dict[str, Any], path: str | Path) -> None:
    """Write the sheet, completely or not at all."""
    kind = Path(path).suffix.lower()
    if kind not in FORMATS:
        raise ValueError(f"a story is an .html, a .pdf or a .png file; got {str(path)!r}")
    data = story_html(summary).encode() if kind == ".html" else _sheet(story_of(summary), kind)
    with atomic_file(path) as file:
        file.write(data)


def _sheet(story: Story, kind: str) -> bytes:
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    figure = Figure(figsize=A4, layout=ConstrainedLayoutEngine(rect=(0.03, 0.08, 0.92, 0.77)))
    figure.text(0.05, 0.975, fill(story.headline, 62), fontsize=14, weight="bold", va="top", parse_math=False)
    figure.text(0.05, 0.9, fill(story.well, 105), fontsize=10, va="top", parse_math=False)
    axes = figure.subplots(len(story.claims), 1, squeeze=False).flat
    for k, (ax, claim) in enumerate(zip(axes, story.claims, strict=True)):
        _draw(ax, story, k)
        ax.set_title(fill(claim, 78), loc="left", fontsize="small", parse_math=False)
    figure.text(0.05, 0.035, fill(f"Be careful: {story.caveat}", 110), fontsize=9, va="bottom", parse_math=False)
    figure.text(0.05, 0.012, story.source, fontsize=7, color="#59636e", va="bottom", parse_math=False)
    out = BytesIO()
    figure.savefig(out, format=kind[1:], dpi=150)
    return out.getvalue()


def story_html(summary: dict[str, Any]) -> str:
    """The story as a page of its own, which the report holds, too."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    story = story_of(summary)
    parts = [f"<h1>{escape(story.headline)}</h1><p>{escape(story.well)}</p>"]
    for k, claim in enumerate(story.claims):
        figure = Figure(figsize=(7.2, 2.9), layout="constrained")
        _draw(figure.subplots(), story, k)
        out = StringIO()
        with rc_context({"svg.fonttype": "none", "svg.hashsalt": "story"}):  # letters as text, the same each time
            figure.savefig(out, format="svg", metadata={"Date": None})
        picture = out.getvalue()[out.getvalue().index("<svg") :]
        parts.append(f"<h2>{escape(claim)}</h2>{picture}" if claim else picture)
    parts.append(f"<p><strong>Be careful.</strong> {escape(story.caveat)}</p>")
    parts.append(f"<p><small>{escape(story.source)}</small></p>")
    head = f'<meta charset="utf-8"><title>{escape(story.headline)}</title><style>{STYLE}</style>'
    return f'<!DOCTYPE html><html lang="en"><head>{head}</head><body><main>{"".join(parts)}</main></body></html>'
