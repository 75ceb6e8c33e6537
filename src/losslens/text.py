"""Numbers, sizes in bytes and durations as text."""

from __future__ import annotations

from math import ceil, floor, log10


def in_digits(value: float, like: float | None = None) -> str:
    """A number with four significant digits, or with as many decimals as `like` has with four.

    >>> in_digits(26504.3), in_digits(0.96907), in_digits(1389.2, like=26504.3)
    ('26,504', '0.9691', '1,389')
    >>> in_digits(999_999_999), in_digits(1_000_000_000), in_digits(0.00001), in_digits(0.000009)
    ('999,999,999', '1e+09', '0.00001000', '9e-06')
    """
    size = abs(value if like is None else like)
    if not 1e-5 <= size < 1e9:
        return f"{value:.4g}"
    return f"{value:,.{max(0, 3 - floor(log10(size)))}f}"


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
