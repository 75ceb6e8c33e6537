"""How long blocks of a series must be for standard errors that delete blocks: from its autocorrelation."""

from __future__ import annotations

import numpy as np

from losslens.typing import Floats, Mask

IN_A_ROW = 5  # autocorrelations that must be insignificant together
FEWEST_BLOCKS = 6  # that a length must leave
LONGER = 1.5
NEIGHBOURS = 0.5  # correlation of consecutive values where none are known


def block_length(series: Floats) -> tuple[float, bool]:
    """The length of blocks of a series of evenly spaced values, and whether these are correlated for longer still.

    Politis and White's (2004, corrected by Patton, Politis and White 2009) length for the circular bootstrap of a mean,
    times `LONGER`. With autocovariances R(k), tapered from the first lag on after which `IN_A_ROW` are insignificant,
    ``g = sum of R(k)`` and ``G = sum of |k| R(k)`` it is ``(3/2 G^2 / g^2 n)^(1/3)``, which minimises the mean squared
    error of the variance. Blocks of length b underestimate the variance by a share of G / (g b), and an interval covers
    too little for a variance that is too small, but not for one that varies as Student's t assumes: hence longer.
    """
    n = len(series)
    longest = _longest(n)
    deviations = series - series.mean()
    square = float(deviations @ deviations)
    if not square > 1e-18 * float(series @ series) or n <= IN_A_ROW + 1:
        return 1.0, False
    last = min(int(np.ceil(np.sqrt(n))) + IN_A_ROW, n - 1)
    R = np.array([deviations[k:] @ deviations[: n - k] for k in range(1, last + 1)]) / square
    significant = np.abs(R) >= 2 * np.sqrt(np.log10(n) / n)
    reached, settled = _reached(significant)
    M = min(2 * max(1, reached), last)
    k = np.arange(1, M + 1)
    taper = np.minimum(1.0, 2 * (1 - k / M))
    g, G = 1 + 2 * float(taper @ R[:M]), 2 * float((taper * k) @ R[:M])
    if g <= 0 or G <= 0:  # values that alternate: short blocks have too large a variance
        return 1.0, not settled
    length = LONGER * (1.5 * (G / g) ** 2 * n) ** (1 / 3)
    return min(max(length, 1.0), longest), length > longest or not settled


def length_unseen(n: int) -> float:
    """`block_length` of so many values of which nothing is known, if consecutive ones correlate by `NEIGHBOURS`.

    With R(k) = r^k, ``G / g = 2 r / (1 - r^2)``.
    """
    length = float(LONGER * (1.5 * (2 * NEIGHBOURS / (1 - NEIGHBOURS**2)) ** 2 * n) ** (1 / 3))
    return min(length, _longest(n))


def _longest(n: int) -> float:
    """The longest blocks of so many values."""
    return max(1.0, float(np.floor(min(3 * np.sqrt(n), n / FEWEST_BLOCKS))))


def _reached(significant: Mask) -> tuple[int, bool]:
    """The lag after which so many autocorrelations in a row are insignificant, if there is one; else the last one."""
    for lag in range(len(significant) - IN_A_ROW + 1):
        if not significant[lag : lag + IN_A_ROW].any():
            return lag, True
    return len(significant), False
