"""Compiled losses of a table of coalitions: squared error, and log loss of two classes.

The exponential and the logarithm are polynomials, so that several are computed at once (SIMD): the library's functions
are called one by one, and would take most of the time of a game.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit, types

from losslens.engines.trees.node_rules import ONE, U, i8

f8 = types.float64
NONE = U(0)
# Sums may be reordered, so that several numbers are added at once; compiled code always has the same order.
REORDERED_SUMS: dict[str, Any] = {"fastmath": {"reassoc", "contract", "nsz"}}
LOG2_E, LN2_HIGH, LN2_LOW = 1 / math.log(2), 6.93147180369123816490e-01, 1.90821492927058770002e-10
ROUNDING = 1.5 * 2.0**52  # adding this rounds a number to an integer, which is then in its lowest bits
EXPONENT = 2.0**52 + 1023  # 2^52 with a biased exponent in its lowest bits, minus this, is the exponent
BIAS, SHIFT = np.int64(1023), np.int64(52)  # bias and bit position of a float64 exponent
ROOT, POWER = np.int64(0x3FE6A09E667F3BCD), np.int64(0x4330000000000000)  # bits of sqrt(1/2) and of 2^52
EPS = float(np.finfo(np.float64).eps)


@njit(error_model="numpy", forceinline=True, fastmath={"contract"})
def exponential(x):
    """exp(x) for -700 .. 700 without branches or calls, so that several are computed at once; accurate to about 1 ulp.

    A power of two times exp(r) = 1 + r + r^2/2! + .., |r| < 0.35.
    """
    shifted = x * LOG2_E + ROUNDING
    k = shifted - ROUNDING
    r = (x - k * LN2_HIGH) - k * LN2_LOW
    e = 1 / 39916800 + r * (1 / 479001600 + r * (1 / 6227020800))
    e = 1 / 40320 + r * (1 / 362880 + r * (1 / 3628800 + r * e))
    e = 1 / 120 + r * (1 / 720 + r * (1 / 5040 + r * e))
    e = 1 / 2 + r * (1 / 6 + r * (1 / 24 + r * e))
    return (1 + (r + r * r * e)) * np.int64((np.float64(shifted).view(np.int64) + BIAS) << SHIFT).view(np.float64)


@njit(error_model="numpy", forceinline=True, fastmath={"contract"})
def logarithm(x):
    """log(x) for positive normal numbers, in the same way.

    k log(2) + log(m), m between sqrt(1/2) and sqrt(2); log(m) = 2 (s + s^3/3 + s^5/5 + ..), s = (m - 1) / (m + 1).
    """
    word = np.float64(x).view(np.int64)
    e = i8(U(word - ROOT + (BIAS << SHIFT)) >> U(SHIFT))
    k = np.int64(e | POWER).view(np.float64) - EXPONENT
    m = np.int64(word - ((e - BIAS) << SHIFT)).view(np.float64) - 1
    s = m / (2 + m)
    z = s * s
    t = 1 / 17 + z * (1 / 19 + z * (1 / 21))
    t = 1 / 11 + z * (1 / 13 + z * (1 / 15 + z * t))
    t = 1 / 5 + z * (1 / 7 + z * (1 / 9 + z * t))
    return k * LN2_HIGH + (2 * s + (2 * s * z * (1 / 3 + z * t) + k * LN2_LOW))


@njit(error_model="numpy", forceinline=True, **REORDERED_SUMS)
def squared_losses(table, start, side, scale, shift, row_y, donor_y, losses):
    """Squared errors of a block of coalitions, for the y of the row and that of the donor."""
    for c in range(side):
        score = f8(table[start + c]) * scale + shift
        losses[NONE, c] = (score - row_y) * (score - row_y)
        losses[ONE, c] = (score - donor_y) * (score - donor_y)


@njit(error_model="numpy", fastmath={"contract"})
def log_losses(table, start, side, scale, shift, row_y, donor_y, losses):
    """Log losses of two classes with a logistic score, likewise: clipped, and from 1 - p where y is 0."""
    for c in range(side):
        score = f8(table[start + c]) * scale + shift
        p = 1 / (1 + exponential(min(max(-score, -700.0), 700.0)))
        chance = p if row_y > 0.5 else 1 - p
        losses[NONE, c] = p
        losses[ONE, c] = -logarithm(min(max(chance, EPS), 1 - EPS))
    if row_y == donor_y:
        for c in range(side):
            losses[NONE, c] = losses[ONE, c]
        return
    for c in range(side):
        chance = losses[NONE, c] if donor_y > 0.5 else 1 - losses[NONE, c]
        losses[NONE, c] = losses[ONE, c]
        losses[ONE, c] = -logarithm(min(max(chance, EPS), 1 - EPS))
