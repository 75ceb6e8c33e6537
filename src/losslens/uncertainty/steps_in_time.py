"""The largest step in a sequence of estimates: where those before and after differ most, and whether by chance."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from losslens.blas import one_thread
from losslens.typing import Floats, Indices
from losslens.uncertainty.standard_errors import Influence, p_value

DRAWS = 10_000  # simulated sequences
FEWEST = 6  # rows, or groups, on either side


@dataclass(frozen=True)
class LargestStep:
    """The place where the mean estimate before differs most from that afterwards, in standard errors."""

    place: int  # the first estimate after it
    p: float  # of no step anywhere


@one_thread()
def largest_step(
    value: Floats, influences: Sequence[Influence], mass: Floats, units: Callable[[Indices], float]
) -> LargestStep | None:
    """The largest step of estimates in order, each with its influences and its share of the data.

    `units` gives the effective number of rows, or groups, of several of them: a group may have rows in all of them.
    Every place is tried. The difference of the weighted means on both sides is tested as any other, with Welch's
    degrees of freedom; the smallest p is compared with the smallest of normal variables of the same correlations.
    None where no place has enough rows, or groups, on either side.
    """
    from scipy.stats import norm

    places, p_values, directions = [], [], []
    for k in range(1, len(value)):
        sides = (np.arange(k), np.arange(k, len(value)))
        counts = np.array([units(side) for side in sides])
        if counts.min() < FEWEST:
            continue
        first, second = (_mean(value, influences, mass, side) for side in sides)
        difference = second[1] - first[1]
        variance = difference.variance
        if not variance > 0:
            continue
        parts = np.array([first[1].variance, second[1].variance])
        freedom = parts.sum() ** 2 / np.sum(parts**2 / (counts - 1))
        places.append(k)
        step = second[0] - first[0]
        skewness = np.copysign(1.0, step) * difference.skewness
        p_values.append(min(1.0, 2 * p_value(abs(step), np.sqrt(variance), freedom + 1, skewness)))
        directions.append(difference.moved / np.sqrt(float(difference.moved @ difference.moved)))
    if not places:
        return None
    best = int(np.argmin(p_values))
    rng = np.random.default_rng(20180417)  # a fixed seed: the same result always has the same p
    size, axes = np.linalg.eigh(np.array(directions) @ np.array(directions).T)
    largest = np.abs(rng.normal(size=(DRAWS, len(size))) @ (axes * np.sqrt(np.maximum(size, 0.0))).T).max(axis=1)
    as_large = (1 + np.sum(largest >= norm.isf(p_values[best] / 2))) / (1 + DRAWS)
    p = min(float(as_large), len(places) * p_values[best])  # Bonferroni's is finer where p is tiny
    return LargestStep(places[best], p)


def _mean(value: Floats, influences: Sequence[Influence], mass: Floats, side: Indices) -> tuple[float, Influence]:
    """The mean of some of the estimates, weighted by their share of the data, and its influences."""
    share = mass[side] / mass[side].sum()
    some = [influences[k] for k in side]
    return float(share @ value[side]), Influence(
        share @ np.stack([one.moved for one in some]),
        excess=float(share**2 @ np.array([one.excess for one in some])),
        noise=float(share**2 @ np.array([one.noise for one in some])),
    )
