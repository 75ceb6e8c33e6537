"""Letters that a text's font lacks: from another installed font that has them, or a box and one warning."""

from __future__ import annotations

import unicodedata
import warnings
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

from matplotlib import font_manager, ticker
from matplotlib.axes import Axes
from matplotlib.font_manager import FontProperties
from matplotlib.text import Text

BOX = "\N{WHITE SQUARE}"  # for a letter that no font has; matplotlib's own has a warning for each letter and drawing
UNUSABLE = ("LastResort", "Last Resort", "Color Emoji")  # fonts of boxes, and of pictures that matplotlib can't draw
PREFERRED = ("Noto Sans", "Source Han Sans", "Sans", "Gothic")  # in such names first: the look of the other letters
_warned: set[str] = set()  # letters that a warning was given for


def find_fonts(ax: Axes) -> None:
    """Give each text of these axes, and of their colour bars, fonts that have all its letters, as far as there are."""
    lacking: set[str] = set()
    bars = [some.colorbar.ax for some in ax.collections if some.colorbar is not None]
    for one in (ax, *bars):
        for axis in (one.xaxis, one.yaxis):
            if isinstance(axis.get_major_locator(), ticker.FixedLocator):
                lacking |= _find_for_ticks(axis)
        for text in one.findobj(Text):
            lacking |= _find_for_text(text)
    new = lacking - _warned
    if new:
        _warned.update(new)
        many = f" and {len(new) - 20} more" if len(new) > 20 else ""
        letters = "".join(sorted(new)[:20])
        warnings.warn(f"no installed font has {letters}{many}: shown as {BOX}; install one that has", stacklevel=3)


def _find_for_text(text: Text) -> set[str]:
    """Returns the letters that are drawn as boxes."""
    if text.get_text().isascii() or text.get_usetex():
        return set()
    changed, families, lacking = _written(text.get_text(), tuple(text.get_fontfamily()))
    if changed != text.get_text():
        text.set_text(changed)
    if families:
        text.set_fontfamily([*text.get_fontfamily(), *families])
    return lacking


def _find_for_ticks(axis: Any) -> set[str]:
    """Returns those of the names along an axis, which matplotlib writes anew at each drawing."""
    names = [label.get_text() for label in axis.get_ticklabels()]
    if all(name.isascii() for name in names) or not names:
        return set()
    first = tuple(axis.get_ticklabels()[0].get_fontfamily())
    written = [_written(name, first) for name in names]
    if any(changed != name for name, (changed, _, _) in zip(names, written, strict=True)):
        axis.set_ticklabels([changed for changed, _, _ in written])
    families = list(dict.fromkeys(family for _, some, _ in written for family in some))
    if families:
        for label in axis.get_ticklabels():
            label.set_fontfamily([*first, *families])
    return set().union(*(lacking for _, _, lacking in written))


def _written(text: str, families: tuple[str, ...]) -> tuple[str, list[str], set[str]]:
    """The text as it can be drawn, other fonts that it needs, and the letters that no font has."""
    more: dict[str, None] = {}
    lacking, drawn = set(), []
    own = [_letters(font_manager.findfont(FontProperties(family=[family]))) for family in families]
    for letter in text:
        if letter.isascii() or any(ord(letter) in some for some in own):
            drawn.append(letter)
        elif (other := _other_font(letter, len(font_manager.fontManager.ttflist))) is not None:
            more[other] = None
            drawn.append(letter)
        elif (
            unicodedata.category(letter) not in ("Cc", "Cf")
            and not unicodedata.combining(letter)
            and letter != "\ufe0f"
        ):
            lacking.add(letter)  # the others have no look of their own
            drawn.append(BOX)
    return "".join(drawn), list(more), lacking


@cache
def _other_font(letter: str, fonts: int) -> str | None:
    """The name of an installed font that has this letter, among so many: computed again where one was added."""
    return next((name for name, path in _installed() if ord(letter) in _letters(path)), None)


@cache
def _letters(path: str) -> frozenset[int]:
    """The code points that a font has; none where it can't be read."""
    try:
        return frozenset(font_manager.get_font(path).get_charmap())
    except (OSError, RuntimeError):
        return frozenset()


def _installed() -> Iterator[tuple[str, str]]:
    """Upright fonts by name, those that look like the usual one first."""
    fonts = [
        font for font in font_manager.fontManager.ttflist if font.style == "normal" and not _is_in(font.name, UNUSABLE)
    ]
    fonts.sort(key=lambda font: (not _is_in(font.name, PREFERRED), abs(_weight(font.weight) - 400), font.name))
    yield from ((font.name, font.fname) for font in fonts)


def _weight(weight: str | int) -> int:
    return font_manager.weight_dict.get(weight, 400) if isinstance(weight, str) else weight


def _is_in(name: str, parts: Sequence[str]) -> bool:
    return any(part in name for part in parts)
