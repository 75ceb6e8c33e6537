"""Numbers, names and grid values as people read them in a picture."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

import numpy as np

from losslens.columns import is_missing

WIDTHS = (36, 60, 100)  # characters of a label: the first at which no two names look alike


def number(value: float) -> str:
    """A number of three digits or so.

    >>> number(24635.02), number(0.012345), number(-0.0)
    ('24,635', '0.0123', '0')
    """
    if 1000 <= abs(value) < 1e9:
        return f"{value:,.0f}"
    return f"{value + 0.0:.3g}"


def count(n: int, thing: str) -> str:
    """So many of a thing.

    >>> count(1, "row"), count(1200, "row")
    ('1 row', '1,200 rows')
    """
    return f"{n:,} {thing}" if n == 1 else f"{n:,} {thing}s"


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


def labels(names: Sequence[str]) -> list[str]:
    """Names that fit beside an axis, and still tell the features apart."""
    for width in WIDTHS:
        short = [shorten(name, width) for name in names]
        if len(set(short)) == len(set(names)):
            return short
    return [" ".join(name.split()) for name in names]


def value_label(value: Any) -> str:
    """One grid value."""
    if is_missing(value) or (isinstance(value, (np.datetime64, np.timedelta64)) and np.isnat(value)):
        return "missing"
    if isinstance(value, (float, np.floating)):
        return number(float(value)) if value != round(value) else f"{value:.10g}"
    if isinstance(value, np.datetime64):
        return str(value.astype("datetime64[s]")).replace("T00:00:00", "").replace("T", " ")
    if isinstance(value, dt.datetime):
        return value.isoformat(" ").replace(" 00:00:00", "")
    return str(value)
