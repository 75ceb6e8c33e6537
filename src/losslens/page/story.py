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
from losslens.text import claim, cut, in_digits, share_in_words
from losslens.typing import Floats

FORMATS = (".html", ".pdf", ".png")
WIDTH, HEIGHT, MARGIN = 595.0, 842.0, 34.0  # A4, in points
BLUE, INK, SOFT = "#0072b2", "#1b1f24", "#59636e"
RARE = 0.1  # a smaller share of the rows is said with a value
MOST_TICKS = 12  # values of a number that each have a tick
MOST_WORDS = 8  # categories of a picture, those with the largest values
STYLE = "body{font:16px/1.45 system-ui,sans-serif;max-width:44rem;margin:2rem auto;padding:0 1rem;color:#1b1f24}"
STYLE += "h1{font-size:1.6rem;line-height:1.2}h2{font-size:1rem;margin:1.4rem 0 .3rem}svg{width:100%;height:auto}"
STYLE += "@page{size:A4;margin:14mm}"


@dataclass(frozen=True)
class Curve:
    """A curve of one feature: its values by name, their places (None: categories), the height at each, and its band."""

    name: str
    labels: list[str]
    x: Floats | None
    height: Floats
    band: tuple[Floats, Floats] | None
    unit: str
    share: Floats  # of the rows, at each value
    error: PlainError | None = None  # of which it is a number

    @property
    def peak(self) -> int:
        """Where it is highest, or where the error is worst."""
        return int((np.nanargmin if self.error is not None and self.error.falls else np.nanargmax)(self.height))

    @property
    def few(self) -> bool:
        """Whether each value has a point and a tick: nothing is between them."""
        return self.x is None or (self.x.dtype.kind == "f" and int(np.sum(np.isfinite(self.x))) <= MOST_TICKS)

    @property
    def percent(self) -> bool:
        """Whether its numbers are shares."""
        within = np.nanmin(self.height) >= 0 and np.nanmax(self.height) <= 1
        return bool(within and ("probability" in self.unit or "share" in self.unit))


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

    @property
    def key(self) -> str:
        """How the first picture is read."""
        together = any(row["block"] for row in self.bars["rows"])
        alone = " Together: the features get their values from the same other row." if together else ""
        hollow = "" if all(row["sure"] for row in self.bars["rows"]) else " Hollow: the effect could be chance."
        return f"Shuffled: every row gets the value of another row. Line: 95% interval.{hollow}{alone}"


def story_of(summary: dict[str, Any]) -> Story:
    """What the report says first, and the two curves of the leading feature that has some; none of a useless model."""
    summary = with_minus(summary)
    words, bars = summary["words"], leading(summary)
    well, matters, *caveat = map(str, words["opening"])
    first = bars["rows"][0]
    useless = words["opening"][1].claim == no_better.__name__
    curves = [] if useless else _curves(summary)
    headline = matters if useless else str(words["takeaway"])
    if first["block"] and first["sure"] and not useless:
        grown = re.sub(r"^its\b", "this model's", re.sub(r"^it\b", "this model", first["grown"]))
        headline = f"With {first['name'].removesuffix(' together')} shuffled together, {grown}"
    source = f"{summary['title']}; {summary['n_explained']:,} rows; {summary['library']}, {summary['made']}"
    claims = ["" if useless else matters, *map(_claim, curves)]
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

        def drawn(curve: Any, of: Any = float, sure: Any = sure) -> Any:
            return None if curve is None else np.where(sure, [of(float(one)) for one in curve], np.nan)

        pi = drawn(entry["pi"], told.after)
        if not np.isfinite(pi).any():
            continue
        grid = None if feature["kind"] == "words" else np.asarray(feature["values"], float)
        name, labels = cut(feature["name"]), [_written(k, feature, grid) for k in range(len(pi))]
        if grid is not None and feature["kind"] == "date":
            grid = np.array([np.datetime64("NaT") if np.isnan(ms) else np.datetime64(int(ms), "ms") for ms in grid])
        share = np.asarray(feature["weights"], float)
        bands = [(drawn(entry["pi_low"], told.after), drawn(entry["pi_high"], told.after))]
        bands += [(drawn(entry["pd_low"]), drawn(entry["pd_high"]))]
        pi_band, pd_band = (None if low is None or high is None else (low, high) for low, high in bands)
        found = [Curve(name, labels, grid, pi, pi_band, told.unit, share / share.sum(), told)]
        if entry["pd"] is not None:
            classes, shown = summary["target"]["classes"], summary["target"]["shown"]
            target = summary["target"]["name"]
            unit = f"prediction of {target}" if classes is None else f"probability of {classes[shown]}"
            found.append(Curve(name, labels, grid, drawn(entry["pd"]), pd_band, unit, share / share.sum()))
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
        text = ranges(curve.name, curve.labels, curve.height, curve.unit, percent=curve.percent)
        return str(with_minus(str(text), written=True))
    text = matters_most_at(curve.name, curve.labels, curve.height, curve.error)
    return str(with_minus(f"{text}{how_rare(curve) if text else ''}", written=True))


@claim(level=0)
def how_rare(curve: Curve) -> str:
    """How many rows have the value of which the caption speaks, where a few have it of a feature with few values."""
    share = float(curve.share[curve.peak])
    return f" Only {share_in_words(share, 1)} of the rows have it." if curve.few and share < RARE else ""


# Pictures.


def _percent(axis: Any) -> None:
    axis.set_major_formatter(lambda value, _: f"{100 * value:.3g}%".replace("-", "−"))


def _draw_bars(ax: Any, story: Story) -> None:
    rows = story.bars["rows"]
    now = float(story.bars["now_value"])
    for k, row in enumerate(rows):
        ax.barh(k, row["value"] - now, left=now, color="#cfe3f1", height=0.25 if row["block"] == "inside" else 0.5)
        if row["low"] is not None and row["high"] is not None:
            ax.plot([row["low"], row["high"]], [k, k], color=BLUE, linewidth=1.5)
        ax.plot(row["value"], k, "o", color=BLUE, markersize=5, mfc=BLUE if row["sure"] else "white")
        at = {"xycoords": ax.get_yaxis_transform(), "textcoords": "offset points"}
        ax.annotate(row["text"].replace("-", "−"), (1, k), (42, 0), **at, ha="right", va="center", fontsize=9)
    ax.axvline(now, color=INK, linewidth=0.8, linestyle="--", zorder=0)
    ax.set_yticks(np.arange(len(rows)), _names(story), parse_math=False, fontsize=9)
    ax.invert_yaxis()
    if story.bars["now"].endswith("%"):
        _percent(ax.xaxis)
    way = "← worse" if story.bars["falls"] else "worse →"
    now_in_words = story.bars["now"].replace("-", "−")
    ax.set_xlabel(f"{story.bars['measure']}; dashed: as it is ({now_in_words}); {way}", fontsize=8)


def _names(story: Story) -> list[str]:
    """The names of the bars, those of features that go together indented."""
    named = [(row, fill(row["name"] if row["block"] == "all" else cut(row["name"]), 30)) for row in story.bars["rows"]]
    return [f"└ {name}" if row["block"] == "inside" else name for row, name in named]


def _draw_curve(ax: Any, curve: Curve) -> None:
    style: dict[str, Any] = {"fontsize": 8, "parse_math": False}
    if curve.x is None:
        order = np.argsort(-np.nan_to_num(curve.height, nan=-np.inf), kind="stable")[:MOST_WORDS]
        places = np.arange(len(order))
        if curve.band is not None:
            ax.hlines(places, *(end[order] for end in curve.band), color=BLUE)
        ax.plot(curve.height[order], places, "o", color=BLUE)
        ax.set_yticks(places, [fill(curve.labels[k], 30) for k in order], parse_math=False, fontsize=9)
        ax.invert_yaxis()
        ax.set_xlabel(curve.unit, **style)
        if curve.percent:
            _percent(ax.xaxis)
        if curve.error is not None:
            ax.axvline(curve.error.now, color=INK, linewidth=0.8, linestyle="--")
        return
    present = np.isfinite(curve.x)
    x, height = curve.x[present], curve.height[present]
    ax.plot(x, height, color=BLUE, linewidth=1 if curve.few else 2, alpha=0.35 if curve.few else 1)
    if curve.band is not None:
        low, high = (end[present] for end in curve.band)
        _ = ax.vlines(x, low, high, color=BLUE) if curve.few else ax.fill_between(x, low, high, color=BLUE, alpha=0.15)
    if curve.few:
        ax.plot(x, height, "o", color=BLUE)
        ax.set_xticks(x, [curve.labels[k] for k in np.flatnonzero(present)])
    mark = curve.peak
    if present[mark] and not curve.few:
        ax.plot(curve.x[mark], curve.height[mark], "o", color=BLUE)
        at = {"xycoords": "data", "textcoords": "offset points", "ha": "center"}
        ax.annotate(curve.labels[mark], (curve.x[mark], curve.height[mark]), (0, 6), **at, **style)
    elif curve.labels[mark] == MISSING:
        ax.axhline(curve.height[mark], color=BLUE, linewidth=0.8, linestyle=":")
    ax.margins(x=0.08 if curve.few else 0.02, y=0.15)
    if curve.error is not None:
        ax.axhline(curve.error.now, color=INK, linewidth=0.8, linestyle="--")
        words = f"as it is: {curve.error.text(curve.error.now)}"
        at = {"xycoords": ax.get_yaxis_transform(), "textcoords": "offset points", "va": "bottom", "ha": "right"}
        ax.annotate(words, (1, curve.error.now), (0, 2), **at, **style)
    if curve.percent:
        ax.set_ylim(0, 1)
        _percent(ax.yaxis)
    ax.set_xlabel(curve.name, **style)
    ax.set_ylabel(fill(curve.unit, 20), **style)


def _draw(ax: Any, story: Story, k: int) -> None:
    _draw_bars(ax, story) if k == 0 else _draw_curve(ax, story.curves[k - 1])
    ax.tick_params(labelsize=8)
    ax.tick_params(axis="y", labelsize=9 if k == 0 else 8)
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


@dataclass
class _Sheet:
    """A sheet of paper that is filled from the top; lengths are in points."""

    figure: Any
    y: float = HEIGHT - MARGIN

    def write(self, text: str, size: float, after: float, **style: Any) -> None:
        """A paragraph in lines as long as the sheet is wide."""
        wide = 0.62 if style.get("weight") == "bold" else 0.53  # of a letter, of its height, at most on average
        lines = fill(text, int((WIDTH - 2 * MARGIN) / (wide * size)))
        style |= {"va": "top", "parse_math": False, "linespacing": 1.25, "fontsize": size}
        self.figure.text(MARGIN / WIDTH, self.y / HEIGHT, lines, **style)
        self.y -= 1.3 * size * (lines.count("\n") + 1) + after

    def axes(self, left: float, height: float, right: float) -> Any:
        """A picture of this height, with what is under its axis, between what stands at its sides."""
        under = 30.0
        box = (MARGIN + left, self.y - height + under, WIDTH - 2 * MARGIN - left - right, height - under)
        self.y -= height + 6
        return self.figure.add_axes((box[0] / WIDTH, box[1] / HEIGHT, box[2] / WIDTH, box[3] / HEIGHT))


def _sheet(story: Story, kind: str) -> bytes:
    from matplotlib.figure import Figure

    sheet = _Sheet(Figure(figsize=(WIDTH / 72, HEIGHT / 72)))
    sheet.write(story.headline, 17, 8, weight="bold")
    sheet.write(story.well, 10.5, 14)
    rows = len(story.bars["rows"])
    below = 110 + 70 * len(story.claims)  # captions, the key, and what is at the end
    each = min(170.0, (sheet.y - below - 22 * rows) / max(1, len(story.curves)))
    for k, text in enumerate(story.claims):
        if text:
            sheet.write(text, 10.5, 6, weight="bold")
        words = _names(story) if k == 0 else story.curves[k - 1].labels if story.curves[k - 1].x is None else ["x" * 12]
        left = 12 + 5.2 * min(30, max(len(line) for name in words for line in name.split("\n")))
        _draw(sheet.axes(left, *((22 * rows + 30, 48) if k == 0 else (each, 0))), story, k)
        if k == 0:
            sheet.write(story.key, 8.5, 12, color=SOFT)
        else:
            sheet.y -= 10
    if story.caveat:
        sheet.write(f"Be careful: {story.caveat}", 10.5, 8)
    sheet.figure.text(MARGIN / WIDTH, 20 / HEIGHT, story.source, fontsize=7.5, color=SOFT, parse_math=False)
    out = BytesIO()
    sheet.figure.savefig(out, format=kind[1:], dpi=150)
    return out.getvalue()


def story_html(summary: dict[str, Any]) -> str:
    """The story as a page of its own, which the report holds, too."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    story = story_of(summary)
    parts = [f"<h1>{escape(story.headline)}</h1><p>{escape(story.well)}</p>"]
    for k, text in enumerate(story.claims):
        figure = Figure(figsize=(7.2, 2.9), layout="constrained")
        _draw(figure.subplots(), story, k)
        out = StringIO()
        with rc_context({"svg.fonttype": "none", "svg.hashsalt": "story"}):  # letters as text, the same each time
            figure.savefig(out, format="svg", metadata={"Date": None})
        picture = out.getvalue()[out.getvalue().index("<svg") :]
        key = f"<p><small>{escape(story.key)}</small></p>" if k == 0 else ""
        parts.append((f"<h2>{escape(text)}</h2>{picture}" if text else picture) + key)
    parts += [f"<p><strong>Be careful.</strong> {escape(story.caveat)}</p>"] if story.caveat else []
    parts.append(f"<p><small>{escape(story.source)}</small></p>")
    head = f'<meta charset="utf-8"><title>{escape(story.headline)}</title><style>{STYLE}</style>'
    return f'<!DOCTYPE html><html lang="en"><head>{head}</head><body><main>{"".join(parts)}</main></body></html>'
