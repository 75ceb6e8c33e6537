"""Tests that are repeated while donors are drawn: which of the leading ranks are settled, at the level of all looks.

The rows are fixed, so that estimates differ between looks by the donors alone: their covariance is the variance of the
later one, as in a group-sequential test with information ``1/Var``. The level that is spent until a look is in
proportion to the information, of which the most is that with all pairs of rows; what is left is for further looks.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from losslens.typing import Floats
from losslens.uncertainty.inference import Estimates

LEADING = 5  # ranks that are to be settled
LEVEL = 0.05  # probability that a tie is ordered, in all looks together
PATHS = 200_000  # simulated


def settled_ranks(estimates: Estimates, donors: Floats, settled: Sequence[str] = ()) -> tuple[str, ...]:
    """The leading features in their order, as far as each is surely above all that follow.

    donors: of each feature at each look, (looks, p), infinite for all pairs; the last look is that of the estimates.
    settled: what earlier looks have settled, which stays.
    """
    names = list(settled)
    left = [j for j in np.argsort(-estimates.value, kind="stable") if estimates.names[j] not in names]
    while len(names) < LEADING and len(left) > 1:
        first, *others = left
        if not all(_is_above(estimates, donors, first, other) for other in others):
            break
        names.append(estimates.names[first])
        left = others
    return tuple(names)


def _is_above(estimates: Estimates, donors: Floats, j: int, k: int) -> bool:
    difference = estimates.difference(estimates.names[j], estimates.names[k])
    if not difference.value > 0:
        return False
    shares = information(estimates, donors, j, k)
    # The level of a look is at least what is spent on it, and at most what is spent until then.
    if difference.p_value <= LEVEL * (shares[-1] - (shares[-2] if len(shares) > 1 else 0.0)):
        return True
    return difference.p_value <= LEVEL * shares[-1] and difference.p_value <= level_of_look(tuple(shares.tolist()))


def information(estimates: Estimates, donors: Floats, j: int, k: int) -> Floats:
    """The information on a difference at each look, as a share of that with all pairs of rows, rounded, (looks,)."""
    noise = [estimates.noise[one] if len(estimates.noise) else 0.0 for one in (j, k)]
    rows = max(float(estimates._difference_errors[j, k]) ** 2 - sum(noise), 0.0)
    drawn = np.zeros(len(donors))
    for one, of_one in zip((j, k), noise, strict=True):
        if of_one > 0:
            drawn += of_one * donors[-1, one] / donors[:, one]
    if rows == 0:
        return np.where(drawn > 0, 0.0, 1.0)
    return np.asarray(np.round(rows / (rows + drawn), 3))


@lru_cache(maxsize=4096)
def level_of_look(shares: tuple[float, ...]) -> float:
    """The two-sided level of the last look, if each look spends ``LEVEL`` times the information that it adds.

    By simulation of independent increments: paths that crossed the bound of an earlier look are gone.
    """
    from scipy.stats import norm

    rng = np.random.default_rng(20180417)
    total, before, level = np.zeros(PATHS), 0.0, 0.0
    alive = np.ones(PATHS, bool)
    for share in shares:
        spent = round(LEVEL * (share - before) * PATHS)
        if spent <= 0:
            level = 0.0
            continue
        total += np.sqrt(share - before) * rng.normal(size=PATHS)
        size = np.where(alive, np.abs(total) / np.sqrt(share), 0.0)
        first = before == 0  # whose bound needs no simulation
        bound = float(norm.isf(LEVEL * share / 2) if first else np.partition(size, -spent)[-spent])
        alive &= size < bound
        before, level = share, float(2 * norm.sf(bound))
    return level
