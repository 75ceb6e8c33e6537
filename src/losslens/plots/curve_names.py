"""Names of curves at their ends, in their colours: there is no legend to look up, and the caption names the rest."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.colors import to_hex, to_rgb
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator

from losslens.plots import canvas
from losslens.plots.canvas import BAND, LETTER, SINGLE, font_size, text_width
from losslens.typing import Floats

MOST = 0.34  # share of the width that names may take
SHORTEST, LONGEST = 11, 26  # letters of a line of a name
LONG = 4  # lines of a name that are too many
LINE = 1.45  # height of a line, in font sizes
NARROWEST = 150.0  # points that are left to the curves
BESIDE = 7.0  # points from a curve to its name
DARKER = 0.8  # of a curve's colour, so that its name can be read
Named = tuple[float, float, Line2D, str]  # place in shares of the axes, curve and name
LEADER = {"arrowstyle": "-", "linewidth": 0.5, "shrinkA": 1, "shrinkB": 2, "relpos": (0, 0.5)}  # to a curve
NAME = "name of a curve"  # gid of artists, to find them again


def room_for_names(ax: Axes) -> float:
    """The share of the width that the names of curves take at the right; 0 where they don't fit, or none has one."""
    named = _named(ax)
    width, height = canvas.size_left(ax)
    size, texts = font_size("small"), [_folded(str(line.get_label()), width) for line in named]
    lines = [text.count("\n") + 1 for text in texts]
    if not named or max(lines) > LONG or sum(lines) * LINE * size > 0.9 * height:
        return 0.0
    share = (max(text_width(text, size) for text in texts) + 2 * BESIDE) / width
    return share if share <= MOST + 0.1 and (1 - share) * width > NARROWEST else 0.0


def _named(ax: Axes) -> list[Line2D]:
    """The curves with a name; none where points have names, too: a legend shows their shapes."""
    handles, _ = ax.get_legend_handles_labels()
    strong = [one for one in handles if not (isinstance(one, Line2D) and one.get_gid() == SINGLE and _is_dots(one))]
    lines = [one for one in strong if isinstance(one, Line2D)]
    others = [one for one in strong if not isinstance(one, (Line2D, PolyCollection, LineCollection))]
    plain = all(one.get_gid() == SINGLE or _is_strip(ax, one) for one in others)
    return lines if plain and not any(map(_is_dots, lines)) else []


def _is_dots(line: Line2D) -> bool:
    return str(line.get_linestyle()) == "None"


def _is_strip(ax: Axes, one: Any) -> bool:
    return isinstance(one, Artist) and one.get_transform() == ax.get_xaxis_transform()


def _folded(name: str, width: float) -> str:
    letters = int(np.clip(MOST * width / (LETTER * font_size("small")), SHORTEST, LONGEST))
    return textwrap.fill(name.strip().replace("(n = ", "(n\xa0=\xa0").replace("≤ ", "≤\xa0"), letters)


def name_ends(ax: Axes, share: float, strip: float) -> list[str]:
    """Write the names right of the curves, on an axis that is longer by this share; what the caption says of others.

    A curve that leaves the axis, or runs into the strip at its foot, before has its name where it does.
    """
    _lengthen(ax, share)
    (width, height), size = canvas.size_left(ax), font_size("small")
    at_end: list[Named] = []
    leaving: list[Named] = []
    for line in _named(ax):
        text = _folded(str(line.get_label()), width)
        (x, y), inside = _last_visible(ax, line, strip)
        if inside:
            at_end.append((x, y, line, text))
        elif np.isfinite(x):
            leaving.append((x, y, line, text))
    _write_leaving(ax, leaving, share, strip)
    at_end.sort(key=lambda one: one[1])
    tall = [(text.count("\n") + 1) * LINE * size / height for *_, text in at_end]
    for (x, y, line, text), place in zip(at_end, _spread(np.array([y for _, y, *_ in at_end]), tall), strict=True):
        moved: dict[str, Any] = {}
        if abs(place - y) > 0.6 * size / height or x < 0.97 * (1 - share):
            moved = {"arrowprops": LEADER | {"color": _ink(line)}}
        start = 1 - share + BESIDE / width
        _write(ax, text, (x, y), (start, place), line, textcoords=ax.transAxes, va="center", ha="left", **moved)
    return _others(ax)


def _write_leaving(ax: Axes, leaving: Sequence[Named], share: float, strip: float) -> None:
    """Names of curves that leave the axes at the top or at the foot, below or above each other."""
    lines = {strip: 0, 1.0: 0}
    for x, y, line, text in leaving:
        down = y > 0.5
        beside = "left" if x < (0.3 if down else 0.8 - share) else "right"
        offset = 2 + lines[y] * LINE * font_size("small")
        lines[y] += text.count("\n") + 1
        shift = (4 if beside == "left" else -4, -offset if down else offset)
        _write(ax, text, (x, y), shift, line, textcoords="offset points", ha=beside, va="top" if down else "bottom")


def _lengthen(ax: Axes, share: float) -> None:
    """A longer x axis, without ticks behind the names; lines across the axes end where the names begin."""
    low, high = ax.get_xlim()
    locator, bounds = ax.xaxis.get_major_locator(), (low, high)
    if not isinstance(locator, FixedLocator):
        ticks = [tick for tick in np.asarray(locator(), float).tolist() if low <= tick <= high]
        ax.xaxis.set_major_locator(FixedLocator(ticks))
    ax.set_xlim(low, low + (high - low) / (1 - share))
    ax.spines["bottom"].set_bounds(*bounds)
    for line in ax.lines:
        if line.get_transform() == ax.get_yaxis_transform() and len(line.get_xdata()) == 2:  # type: ignore[arg-type]
            line.set_xdata((0, 1 - share))


def _last_visible(ax: Axes, line: Line2D, strip: float) -> tuple[tuple[float, float], bool]:
    """In shares of the axes: the end of a curve, or where it leaves them before that; NaN if it is outside."""
    points = line.get_transform().transform(np.column_stack(line.get_data()).astype(float))
    x, y = ax.transAxes.inverted().transform(points[np.isfinite(points).all(axis=1)]).T.reshape(2, -1)
    seen = np.flatnonzero((y >= strip) & (y <= 1))
    if not len(seen):
        return (np.nan, np.nan), False
    k = int(seen[-1])
    if k == len(y) - 1:
        return (float(x[k]), float(y[k])), True
    edge = 1.0 if y[k + 1] > 1 else strip
    part = (edge - y[k]) / (y[k + 1] - y[k])
    return (float(x[k] + part * (x[k + 1] - x[k])), edge), False


def _spread(places: Floats, tall: list[float]) -> Floats:
    """Middles of texts of these heights, in ascending order, as near their places as they can be without overlap.

    Least squares: isotonic regression of the places, each less the height of the texts below it.

    >>> _spread(np.array([0.5, 0.52]), [0.1, 0.1]).round(2).tolist()
    [0.46, 0.56]
    """
    if not len(places):
        return places
    below = np.cumsum(tall) - np.array(tall) / 2
    free, every = places - below, range(len(places))
    means = [[free[i : j + 1].mean() if i <= j else np.inf for j in every] for i in every]
    fitted = [max(min(means[i][k:]) for i in range(k + 1)) for k in every]
    return np.asarray(np.clip(fitted, 0.0, max(0.0, 1 - sum(tall))) + below)


def _write(ax: Axes, text: str, place: tuple[float, float], position: Any, line: Line2D, **style: Any) -> None:
    ax.annotate(
        text, place, position, xycoords=ax.transAxes, fontsize="small", color=_ink(line), zorder=6, linespacing=1.1,
        annotation_clip=False, parse_math=False, gid=NAME, **style,
    )  # fmt: skip


def _ink(line: Line2D) -> str:
    return to_hex(tuple((DARKER * np.array(to_rgb(line.get_color()))).tolist()))


def _others(ax: Axes) -> list[str]:
    """The caption's names of bands, pale rows and the distribution."""
    notes = []
    for one, name in zip(*ax.get_legend_handles_labels(), strict=True):
        if _is_strip(ax, one):
            notes.append(f"below: {name}")
        elif one.get_gid() in (SINGLE, BAND) and not (isinstance(one, Line2D) and not _is_dots(one)):
            lines = "bars" if one.get_gid() == BAND else "thin lines"
            kinds = ((PolyCollection, "shaded"), (LineCollection, lines))
            notes.append(f"{next((word for kind, word in kinds if isinstance(one, kind)), 'dots')}: {name}")
    return notes
