"""Numbers, names and grid values as texts of a plot."""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from losslens.tables.columns import is_missing, missing_name
from losslens.text import percent as in_percent

MINUS = "\N{MINUS SIGN}"  # as on matplotlib's axes
MOST_SHARE = 10.0  # shares beyond 1,000%, of features that nearly cancel out, are not shown: they say nothing


def number(value: float) -> str:
    """A number with about three significant digits.

    >>> number(24635.02), number(24.02), number(-0.012345), number(-0.0)
    ('24,635', '24.0', '−0.0123', '0')
    """
    if value == 0:
        return "0"
    text = f"{value:,.0f}" if 1000 <= abs(value) < 1e9 else f"{value:#.3g}".rstrip(".")
    return text.replace("-", MINUS)


def thousands(value: float) -> str:
    """A tick with separators, as in a label.

    >>> thousands(-12000.0), thousands(1002.5)
    ('−12,000', '1,002.5')
    """
    return f"{value:,.10g}".replace("-", MINUS)


def alike(values: Sequence[float]) -> list[str]:
    """Numbers of one column: as many decimals as the largest needs, and one more; or all with a power of ten.

    >>> alike([1.2634, 0.0447, -0.00002])
    ['1.263', '0.045', '0.000']
    >>> alike([2.5e9, 12345.6, 0.0])
    ['2.50e+09', '1.23e+04', '0']
    """
    largest = max(map(abs, values))
    if not 1e-6 < largest < 1e9:
        return [f"{value:.2e}".replace("-", MINUS) if value else "0" for value in values]
    decimals = max(0, 3 - math.floor(math.log10(largest)))
    rounded = [round(value, decimals) + 0.0 for value in values]  # + 0.0: no minus before a zero
    return [f"{value:,.{decimals}f}".replace("-", MINUS) for value in rounded]


def count(n: int, thing: str) -> str:
    """A number and its noun.

    >>> count(1, "row"), count(1200, "row")
    ('1 row', '1,200 rows')
    """
    return f"{n:,} {thing}" if n == 1 else f"{n:,} {thing}s"


def some_of(shown: int, total: int, thing: str) -> str:
    """How many of all are shown, such as "5 of 1,200 rows", or "1,200 rows" if none is left out."""
    return f"{shown:,} of {count(total, thing)}" if shown < total else count(total, thing)


def not_shown(n: int, thing: str = "less important feature") -> list[str]:
    """A note for the caption if anything was left out."""
    return [f"{count(n, thing)} not shown"] if n else []


def percent(share: float) -> str:
    """A share in percent.

    >>> percent(0.123), percent(0.001), percent(-0.123), percent(-0.003), percent(-1e-9)
    ('12%', '<1%', '−12%', '−0.3%', 'just below 0%')
    """
    for digits in (0, 1):
        text = in_percent(share, digits)
        if not text.startswith(">-"):
            return text.replace("-", MINUS)
    return "just below 0%"


def shorten(text: str, width: int) -> str:
    """A text on one line; one that is too long loses its middle, because names differ at their ends.

    >>> shorten("median household income, 2010 census", 20)
    'median househ…census'
    """
    text = " ".join(text.split())
    if len(text) <= width:
        return text
    tail = (width - 1) // 3
    return f"{text[: width - 1 - tail]}…{text[-tail:]}"


def labels(names: Sequence[str], width: int) -> list[str]:
    """Names on one line each that fit into so many letters and remain distinct.

    >>> labels(["income of the household in 2010, census", "income of the household in 2020, census"], 20)
    ['…in 2010, census', '…in 2020, census']
    """
    short = [shorten(name, width) for name in names]
    for clash in {label for label in short if short.count(label) > 1}:
        places = [place for place, label in enumerate(short) if label == clash]
        if len({names[place] for place in places}) == 1:
            continue  # the same word as text and as a number, say
        start = max(0, _first_difference([names[place] for place in places]) - width // 3)
        for place in places:  # from just before the first difference
            rest = " ".join(names[place][start:].split())
            short[place] = f"…{rest}" if len(rest) <= width else f"…{rest[: width - 1]}…"
    return short


def renamed(rule: str, names: Mapping[str, str]) -> str:
    """A rule with other names of its columns.

    >>> renamed("temp > 3 and temp_max ≤ 9", {"temp": "temp_max", "temp_max": "warmest"})
    'temp_max > 3 and warmest ≤ 9'
    """
    if not names:
        return rule
    longest = sorted(names, key=len, reverse=True)  # before names that are a part of them
    return re.sub("|".join(rf"(?<!\w){re.escape(name)}(?!\w)" for name in longest), lambda match: names[match[0]], rule)


def _first_difference(texts: Sequence[str]) -> int:
    low, high = min(texts), max(texts)  # the others lie between them in order, and share their common start
    return next((k for k, (a, b) in enumerate(zip(low, high, strict=False)) if a != b), min(len(low), len(high)))


def is_flag(values: NDArray[Any]) -> bool:
    """Whether the values are true and false: they have an order, but nothing lies between them."""
    return values.dtype.kind == "b" or all(isinstance(v, (bool, np.bool_)) for v in values if not is_missing(v))


def value_label(value: Any) -> str:
    """One grid value."""
    if is_missing(value):
        return "missing"
    if isinstance(value, (float, np.floating)):
        return f"{value:.10g}" if value == round(value) else f"{value:.4g}"
    if isinstance(value, np.datetime64):
        return str(value.astype("datetime64[s]")).replace("T00:00:00", "").replace("T", " ")
    if isinstance(value, dt.datetime):
        return value.isoformat(" ").replace(" 00:00:00", "")
    return str(value)


def word_labels(values: Iterable[Any]) -> list[str]:
    """Grid values one by one; kinds of missing values by their names, where there are several.

    >>> word_labels(["a", None]), word_labels(["a", None, float("nan")])
    (['a', 'missing'], ['a', 'missing (None)', 'missing (NaN)'])
    """
    items = list(values)
    kinds = {missing_name(value) for value in items if is_missing(value)}
    return [
        f"missing ({missing_name(value)})" if len(kinds) > 1 and is_missing(value) else value_label(value)
        for value in items
    ]


def value_labels(values: NDArray[Any]) -> list[str]:
    """The values of a grid: numbers with no more digits than distinguish what is drawn in different places.

    >>> value_labels(np.array([-1.60512, 0.09687, 2.0, np.nan]))
    ['−1.61', '0.10', '2.00', 'missing']
    """
    numbers = values[np.isfinite(values)].astype(float) if values.dtype.kind == "f" else np.empty(0)
    span = float(np.ptp(numbers)) if len(numbers) else 0.0
    if not 1e-4 < span < 1e9 or np.array_equal(numbers, numbers.round()):
        return [value_label(value).replace("-", MINUS) if len(numbers) else value_label(value) for value in values]
    decimals = max(0, 2 - math.floor(math.log10(span)))
    texts = [f"{round(float(v), decimals) + 0.0:,.{decimals}f}".replace("-", MINUS) for v in values]
    return ["missing" if is_missing(v) else text for v, text in zip(values, texts, strict=True)]
