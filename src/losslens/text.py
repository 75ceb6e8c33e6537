"""Numbers, sizes in bytes, durations and claims as text."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Sequence
from decimal import ROUND_HALF_UP, Decimal
from difflib import get_close_matches
from functools import wraps
from math import ceil, floor, log10
from typing import ParamSpec

import numpy as np

P = ParamSpec("P")
# The claims that a page or a result can make, and how often each may be false: the share of data sets on which it is
# printed although it does not hold of new rows. 0: it is about these rows and the printed numbers, and always holds.
CLAIMS: dict[str, float] = {}
LONGEST = 72  # letters of a name in a sentence


class Sentence(str):
    """A sentence that states something about data or model, with the name of the function that makes it."""

    claim: str


def claim(level: float) -> Callable[[Callable[P, str]], Callable[P, Sentence]]:
    """Register a function that makes a sentence, or "" where its precondition does not hold.

    Each of them is tried on simulated data (`benchmarks.sentences`): one that is not registered, or has no truth
    there, fails the test.

    >>> @claim(level=0)
    ... def rows_in_words(n):
    ...     return f"There are {n} rows." if n > 1 else ""
    >>> rows_in_words(3), rows_in_words(3).claim, CLAIMS.pop("rows_in_words")
    ('There are 3 rows.', 'rows_in_words', 0)
    """

    def register(make: Callable[P, str]) -> Callable[P, Sentence]:
        name = make.__name__.removeprefix("_")
        CLAIMS[name] = level

        @wraps(make)
        def made(*args: P.args, **options: P.kwargs) -> Sentence:
            sentence = Sentence(make(*args, **options))
            sentence.claim = name
            return sentence

        return made

    return register


def width_of(text: str) -> int:
    """How many columns of a terminal a text takes: two for a Chinese letter or an emoji, none for a combining mark.

    >>> width_of("age"), width_of("年齢"), width_of("e\N{COMBINING ACUTE ACCENT}")
    (3, 4, 1)
    """
    return sum(
        0 if unicodedata.category(letter) in ("Mn", "Me", "Cf") else 1 + (unicodedata.east_asian_width(letter) in "WF")
        for letter in text
    )


def padded(text: str, width: int, side: str = "<") -> str:
    """A text with blanks after it ("<") or before it (">") up to this width in columns of a terminal.

    >>> padded("年齢", 6) + "|", padded("age", 6, ">") + "|"
    ('年齢  |', '   age|')
    """
    blanks = " " * (width - width_of(text))
    return text + blanks if side == "<" else blanks + text


def listed(names: Sequence[str], most: int = 8) -> str:
    """Names in a sentence, at most so many.

    >>> listed(["a", "b", "c"]), listed(["a", "b", "c"], most=2)
    ('a, b and c', 'a, b and 1 more')
    """
    shown = [*names[:most], *([f"{len(names) - most} more"] if len(names) > most else [])]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def cut(name: str) -> str:
    """A name of at most 72 letters; of longer ones both ends.

    >>> cut("hr"), cut("a" * 60 + "b" * 60)
    ('hr', 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa…bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb')
    """
    return name if len(name) <= LONGEST else f"{name[: LONGEST // 2]}…{name[1 - LONGEST // 2 :]}"


def closest(name: object, names: Iterable[str]) -> str | None:
    """The name that is most like this one, if any is; a wrong case is the commonest mistake.

    >>> closest("Lstat", ["LSTAT", "RM"]), closest("age", ["LSTAT", "RM"])
    ('LSTAT', None)
    """
    folded = {other.casefold(): other for other in names}
    matches = get_close_matches(str(name).casefold(), folded, n=1)
    return folded[matches[0]] if matches else None


def in_digits(value: float, like: float | None = None, digits: int = 4) -> str:
    """A number with four significant digits, or with as many decimals as `like` has with four.

    >>> in_digits(26504.3), in_digits(0.96907), in_digits(1389.2, like=26504.3)
    ('26,504', '0.9691', '1,389')
    >>> in_digits(999_999_999), in_digits(1_000_000_000), in_digits(0.00001), in_digits(0.000009)
    ('999,999,999', '1e+09', '0.00001000', '9e-06')
    """
    size = abs(value if like is None else like)
    if not 1e-5 <= size < 1e9:
        return f"{value:.{digits}g}"
    return f"{value:,.{max(0, digits - 1 - floor(log10(size)))}f}"


def rounded(value: float, low: float = float("nan"), high: float = float("nan")) -> str:
    """A number with two digits of half the width of its interval, and three of its ends at most; three without one.

    >>> rounded(1234.567, 1100.0, 1400.0), rounded(0.51234, 0.4, 0.6), rounded(0.51234)
    ('1,230', '0.51', '0.512')
    """
    half, size = abs(high - low) / 2, max(abs(low), abs(high))
    if not half > 0 or not np.isfinite(half) or (value and not 1e-5 <= abs(value) < 1e9):
        return in_digits(value, digits=3) if value else "0"
    places = min(1 - floor(log10(half)), 2 - floor(log10(size)))
    whole = floor(value * 10.0**places + 0.5) / 10.0**places if places < 0 else value
    return f"{whole:,.{min(12, max(0, places))}f}"


def measured(title: str) -> tuple[str, bool]:
    """What a scorer measures, and whether that is an error: scikit-learn's name of a negated one begins with neg_.

    >>> measured("neg_mean_absolute_error"), measured("r2_score")
    (('mean absolute error', True), ('r2_score', False))
    """
    negated = title.startswith("neg_")
    return title.removeprefix("neg_").replace("_", " ") if negated else title, negated


# How engines compute, after "computed from"; a black box is only asked.
SOURCES = {
    "trees": "the model's trees", "additive": "the model's terms, which it adds", "products": "the model's kernel",
    "link": "the model's terms, the sum of which it links", "blackbox": "",
}  # fmt: skip


def how_computed(engine: str, predicted: int) -> str:
    """Where the numbers of an engine come from, and how many rows the model predicted for them.

    >>> how_computed("trees", 64), how_computed("blackbox", 2880)
    ("computed from the model's trees, so the model was called on only 64 rows", 'the model predicted 2,880 rows')
    """
    sources = [*filter(None, (SOURCES.get(name, name) for name in engine.split(", ")))]
    found = [f"computed from {listed(sources)}"] if sources else []
    all_read = len(sources) > engine.count(", ")
    asked = "so the model was called on only" if all_read else "the model predicted"
    found += [f"{asked} {predicted:,} row{'s' * (predicted != 1)}"] if predicted else []
    return (", " if all_read else "; ").join(found)


def rounding_error(count: float, *sizes: float) -> float:
    """How far rounding moves a sum of means over so many numbers of these sizes: a smaller one is 0 to rounding.

    >>> rounding_error(100, 1.0) == float(10 * np.finfo(float).eps)
    True
    """
    return float(np.finfo(float).eps * np.sqrt(count) * np.sum(np.abs(sizes)))


def percent(share: float, digits: int = 1) -> str:
    """A share for a table, rounded half up; one other than 0 is never shown as 0%, nor one below 1 as 100%.

    >>> [percent(share) for share in (0.5, 0.0001, 0.0, -0.0001, 0.9999, 1.0)]
    ['50.0%', '<0.1%', '0%', '>-0.1%', '>99.9%', '100.0%']
    >>> percent(0.965, digits=0), percent(0.955, digits=0), percent(-0.125, digits=0)
    ('97%', '96%', '-13%')
    """
    share = round(share, 12)  # a sum of weights may miss 1 by rounding
    rounded = Decimal(repr(float(share))).scaleb(2).quantize(step := Decimal(1).scaleb(-digits), ROUND_HALF_UP)
    if share and not rounded:
        return f"{'<' if share > 0 else '>-'}{step}%"
    return f">{100 - step}%" if share < 1 and rounded == 100 else f"{rounded}%" if share else "0%"


def share_in_words(share: float, digits: int = 0) -> str:
    """A share for a sentence, rounded half up; neither a small one as none, nor nearly all as all.

    >>> [share_in_words(share) for share in (0.0, 0.001, 0.123, 0.125, 0.999, 1 - 1e-15)]
    ['0%', 'under 1%', '12%', '13%', 'over 99%', '100%']
    """
    text = percent(share, 0 if round(share, 12) in (0, 1) else digits)
    return text.replace("<", "under ").replace(">-", "above -").replace(">", "over ")


def shares_in_words(*shares: float, digits: int = 0) -> list[str]:
    """Shares that are compared in a sentence: with one more digit, at most three, where two of them would look equal.

    >>> shares_in_words(0.965, 0.955), shares_in_words(0.961, 0.964), shares_in_words(0.5, 0.5)
    (['97%', '96%'], ['96.1%', '96.4%'], ['50%', '50%'])
    """
    texts = [[share_in_words(share, more) for share in shares] for more in range(digits, 4)]
    return max(texts, key=lambda compared: len(set(compared)))  # the shortest of those


def size_in_words(size: float) -> str:
    """Bytes in binary units, rounded up: a stated size is always large enough.

    >>> size_in_words(3 * 2**30)
    '3.0 GiB'
    """
    for unit in ("bytes", "KiB", "MiB", "GiB", "TiB"):
        if size < 1024 or unit == "TiB":
            break
        size /= 1024
    return f"{ceil(size)} {unit}" if unit == "bytes" else f"{ceil(size * 10) / 10:.1f} {unit}"


def duration(seconds: float) -> str:
    """Seconds as milliseconds, seconds or minutes.

    >>> duration(0.25), duration(1), duration(119), duration(120)
    ('250 ms', '1 s', '119 s', '2 min')
    """
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
