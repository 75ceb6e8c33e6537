"""What is known of data that a result does not hold: rows that were read part by part and let go."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from losslens.results.base import Stored
from losslens.typing import Floats


@dataclass(frozen=True, eq=False)
class Whole(Stored):
    """Numbers of one feature over all rows."""

    n: int
    units: int  # rows that count: with a weight above zero
    rows: NDArray[np.intp]  # (r,): the rows that were kept, as positions in the whole
    moved: Floats  # (r,): how far each of them moves the number, scaled so that their squares sum to the variance
    error: float = float("nan")  # GE_P
    up: float = 1.0  # from the V-statistic to the U-statistic
    variance: float = float("nan")  # of the importance, over new data
    cubes: float = 0.0  # of all rows' influences
    error_variance: float = float("nan")  # of GE_P
    covariance: float = float("nan")  # of both
    noise: float = 0.0  # variance that is due to the draw of the donors

    def ratio_std_error(self, unbiased: float) -> float:
        """Standard error of 1 + unbiased / error."""
        slope = unbiased / self.error
        variance = self.variance - 2 * slope * self.covariance + slope**2 * self.error_variance
        return float(np.sqrt(max(variance, 0.0)) / self.error)


def scaled(moved: Floats, variance: float) -> Floats:
    """Influences of some rows, so that their squares sum to the variance of all."""
    square = float(moved @ moved)
    return moved * np.sqrt(variance / square) if square > 0 else moved
