"""Bands around a whole curve: with the stated probability, the curve on new data lies inside at every value at once.

A curve is a mean over rows at each value. The half-widths of the band, in standard errors, are quantiles of the largest
studentised deviation anywhere on the curve, from a bootstrap over the rows. Both sides have quantiles of their own,
because curves of losses are skewed. A sample shows too little of that skewness where changes of loss are near 0, so
the ends at each value are bent outward by its own skewness, as those of intervals are; the quantiles of the bootstrap
are long already, and are not lengthened.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from losslens.blas import one_thread
from losslens.tables.frozen import Frozen
from losslens.tables.sample import by_unit
from losslens.typing import Floats, Indices
from losslens.uncertainty.standard_errors import bent, check_level

DRAWS, BATCH = 1000, 100  # bootstrap samples, in all and at a time
MAX_UNITS = 1000  # rows in the bootstrap; standard errors are those of all rows
MAX_VALUES = 256  # grid values in the bootstrap, evenly spaced: neighbouring values are highly correlated
CONSTANT = 1e-9  # standard errors below this multiple of the largest value are rounding errors


@dataclass(frozen=True, eq=False)
class Band(Frozen):
    """A confidence band over a whole curve."""

    low: Floats  # as the curve: (g,), or (g1, g2) for a pair
    high: Floats
    std_error: Floats  # of the curve at each value
    level: float


@dataclass(frozen=True, eq=False)
class _Units:
    """Rows, or groups of rows, at each value: their weights and their contributions to the mean."""

    mass: Floats  # (u, g)
    pull: Floats  # (u, g): weight times the deviation from the mean

    @property
    def std_error(self) -> Floats:
        """Standard error of the mean at each value, (g,)."""
        u = len(self.mass)
        return np.asarray(np.sqrt(u / (u - 1) * np.square(self.pull).sum(axis=0)) / self.mass.sum(axis=0))

    @property
    def skewness(self) -> Floats:
        """Skewness of the mean at each value, (g,): 0 where it does not vary."""
        size = np.sqrt(np.square(self.pull).sum(axis=0))
        scaled = np.divide(self.pull, size, out=np.zeros_like(self.pull), where=size > 0)
        return np.asarray((scaled**3).sum(axis=0))


@one_thread()
def band(
    single: Floats, curve: Floats, weight: Floats, block: NDArray[np.intp] | None, units: int, level: float
) -> Band:
    """A band around the mean of single curves.

    Parameters
    ----------
    single
        One curve a row, (r, g); NaN at values where the row has none.
    curve
        The reported mean curve, (g,): the centre of the band.
    weight
        Weight of each row, (r,).
    block
        Labels of groups of rows, or None.
    units
        Number of rows (or groups) that the curve is the mean of; more than r where the curves of some are not kept.
    level
        Probability that the band contains the whole curve.
    """
    check_level(level)
    groups = _add_up(single, weight, block)
    if len(groups.mass) < 3:
        what = "rows" if block is None else "groups"
        raise ValueError(f"a band needs at least 3 {what} with weight; there are {len(groups.mass)}")
    kept = len(groups.mass) / max(units, len(groups.mass))  # of the units that the curve is the mean of
    error = groups.std_error * np.sqrt(kept)
    size = float(np.nanmax(np.abs(single), initial=0.0))
    up, down = _largest_deviations(groups, np.flatnonzero(error > CONSTANT * size), level)
    skewness = groups.skewness * np.sqrt(kept)
    return Band(curve - bent(up, skewness)[0] * error, curve + bent(down, skewness)[1] * error, error, level)


def _add_up(single: Floats, weight: Floats, block: Indices | None) -> _Units:
    counted = weight > 0
    single, weight = single[counted], weight[counted] / weight[counted].sum()
    present = np.isfinite(single)
    mass = present * weight[:, None]
    values = np.where(present, single, 0.0)
    with np.errstate(invalid="ignore"):  # 0 / 0: a value where no row has a curve
        pull = mass * (values - (mass * values).sum(axis=0) / mass.sum(axis=0))
    own = None if block is None else block[counted]
    return _Units(by_unit(mass, own), by_unit(pull, own))


def _largest_deviations(groups: _Units, varying: Indices, level: float) -> tuple[float, float]:
    """Quantiles of the largest deviation above and below the curve, in standard errors, over the values that vary.

    Each is exceeded with probability (1 - level) / 2.
    """
    if len(varying) == 0:
        return 0.0, 0.0
    # A fixed seed: the same result always has the same band.
    rng = np.random.default_rng(20180417)
    u = len(groups.mass)
    rows = np.arange(u) if u <= MAX_UNITS else rng.choice(u, MAX_UNITS, replace=False)
    values = varying[np.unique(np.linspace(0, len(varying) - 1, MAX_VALUES).round().astype(np.intp))]
    mass, pull = (part[np.ix_(rows, values)] for part in (groups.mass, groups.pull))
    if (mass == mass[:, :1]).all():  # rows have the same weight at all values: one column suffices
        mass = mass[:, :1]
    pull = pull - mass * (pull.sum(axis=0) / mass.sum(axis=0))  # centred at the mean of the chosen rows
    draws = np.concatenate([_deviations(mass, pull, rng) for _ in range(DRAWS // BATCH)], axis=1)
    up, down = np.quantile(draws, (1 + level) / 2, axis=1)
    return float(up), float(down)


def _deviations(mass: Floats, pull: Floats, rng: np.random.Generator) -> Floats:
    """The largest deviations up and down of some bootstrap samples, in standard errors of each sample, (2, draws)."""
    u = len(mass)
    drawn_rows = rng.integers(u, size=(BATCH, u)) + u * np.arange(BATCH)[:, None]
    times = np.bincount(drawn_rows.ravel(), minlength=BATCH * u).reshape(BATCH, u).astype(float)
    drawn = times @ mass
    with np.errstate(invalid="ignore", divide="ignore"):  # a sample in which a value does not occur or vary
        shift = times @ pull / drawn
        squares = (
            times @ np.square(pull) - 2 * shift * (times @ (pull * mass)) + np.square(shift) * (times @ np.square(mass))
        )
        deviation = shift * drawn / np.sqrt(u / (u - 1) * np.maximum(squares, 0.0))
    deviation = np.where(np.isfinite(deviation), deviation, 0.0)
    return np.stack([deviation.max(axis=1), -deviation.min(axis=1)])
