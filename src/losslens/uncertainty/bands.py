"""Bands around a whole curve: with the stated probability, the curve on new data lies inside at every value at once.

A curve is a mean over rows at each value. The band reaches as many standard errors up and down as the largest
studentised deviations anywhere on the curve do, learnt by a bootstrap over the rows, each side by itself: curves of
losses are skewed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from losslens.blas import one_thread
from losslens.typing import Floats, Indices
from losslens.uncertainty.standard_errors import check_level

DRAWS = 1000
AT_A_TIME = 100
MOST_UNITS = 1000  # rows that teach how far the largest deviation reaches; standard errors are those of all rows
MOST_VALUES = 256  # and values, evenly along the grid: neighbours move together
CONSTANT = 1e-9  # a spread this small beside the curve's own size is rounding


@dataclass(frozen=True, eq=False)
class Band:
    """A confidence band over a whole curve."""

    low: Floats  # as the curve: (g,), or (g1, g2) for a pair
    high: Floats
    std_error: Floats  # of the curve at each value
    level: float


@dataclass(frozen=True, eq=False)
class _Units:
    """Rows, or groups of rows that belong together, at each value: how much they count, and their pull on the mean."""

    mass: Floats  # (u, g)
    pull: Floats  # (u, g): mass times the deviation from the mean

    @property
    def std_error(self) -> Floats:
        """Of the mean at each value, (g,)."""
        u = len(self.mass)
        return np.asarray(np.sqrt(u / (u - 1) * np.square(self.pull).sum(axis=0)) / self.mass.sum(axis=0))


@one_thread()
def band(
    single: Floats, curve: Floats, weight: Floats, block: NDArray[np.intp] | None, units: int, level: float
) -> Band:
    """A band around the mean of single curves.

    Parameters
    ----------
    single
        A curve a row, (r, g); NaN at values that a row does not speak of.
    curve
        Their mean as it is reported, (g,): the middle of the band.
    weight
        How much each row counts, (r,).
    block
        Labels of rows that belong together, or None.
    units
        Of how many rows (or blocks) the curve is the mean; more than r where only some rows are kept.
    level
        Probability that the band holds the whole curve.
    """
    check_level(level)
    known = _add_up(single, weight, block)
    if len(known.mass) < 3:
        what = "rows" if block is None else "groups"
        raise ValueError(f"a band needs at least 3 {what} that count; there are {len(known.mass)}")
    error = known.std_error * np.sqrt(len(known.mass) / max(units, len(known.mass)))
    size = float(np.nanmax(np.abs(single), initial=0.0))
    over, under = _largest_deviations(known, np.flatnonzero(error > CONSTANT * size), level)
    return Band(curve - over * error, curve + under * error, error, level)


def _add_up(single: Floats, weight: Floats, block: Indices | None) -> _Units:
    counted = weight > 0
    single, weight = single[counted], weight[counted] / weight[counted].sum()
    here = np.isfinite(single)
    mass = here * weight[:, None]
    values = np.where(here, single, 0.0)
    with np.errstate(invalid="ignore"):  # 0 / 0: a value that no row speaks of
        pull = mass * (values - (mass * values).sum(axis=0) / mass.sum(axis=0))
    if block is None:
        return _Units(mass, pull)
    codes = np.unique(block[counted], return_inverse=True)[1]
    sums = np.zeros((2, int(codes.max()) + 1, single.shape[1]))
    np.add.at(sums[0], codes, mass)
    np.add.at(sums[1], codes, pull)
    return _Units(*sums)


def _largest_deviations(known: _Units, varying: Indices, level: float) -> tuple[float, float]:
    """How far a curve overshoots and undershoots at most, in standard errors, over the values that vary.

    Each is exceeded with half the probability that is left.
    """
    if len(varying) == 0:
        return 0.0, 0.0
    # A seed of its own: the same result has the same band, whenever it is looked at.
    rng = np.random.default_rng(20180417)
    u = len(known.mass)
    rows = np.arange(u) if u <= MOST_UNITS else rng.choice(u, MOST_UNITS, replace=False)
    values = varying[np.unique(np.linspace(0, len(varying) - 1, MOST_VALUES).round().astype(np.intp))]
    mass, pull = (part[np.ix_(rows, values)] for part in (known.mass, known.pull))
    if (mass == mass[:, :1]).all():  # rows speak of all values alike: one column says it
        mass = mass[:, :1]
    pull = pull - mass * (pull.sum(axis=0) / mass.sum(axis=0))  # some rows have a mean of their own
    draws = np.concatenate([_deviations(mass, pull, rng) for _ in range(DRAWS // AT_A_TIME)], axis=1)
    over, under = np.quantile(draws, (1 + level) / 2, axis=1)
    return float(over), float(under)


def _deviations(mass: Floats, pull: Floats, rng: np.random.Generator) -> Floats:
    """The largest deviations up and down of some bootstrap samples, in standard errors of each sample, (2, draws)."""
    u = len(mass)
    drawn_rows = rng.integers(u, size=(AT_A_TIME, u)) + u * np.arange(AT_A_TIME)[:, None]
    times = np.bincount(drawn_rows.ravel(), minlength=AT_A_TIME * u).reshape(AT_A_TIME, u).astype(float)
    drawn = times @ mass
    with np.errstate(invalid="ignore", divide="ignore"):  # a sample in which a value does not occur or vary
        shift = times @ pull / drawn
        squares = (
            times @ np.square(pull) - 2 * shift * (times @ (pull * mass)) + np.square(shift) * (times @ np.square(mass))
        )
        deviation = shift * drawn / np.sqrt(u / (u - 1) * np.maximum(squares, 0.0))
    known = np.where(np.isfinite(deviation), deviation, 0.0)
    return np.stack([known.max(axis=1), -known.min(axis=1)])
