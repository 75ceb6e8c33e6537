"""Whether a model answers the same rows alike.

It doesn't if its predictions are random (dropout that was left on, noise), or if they depend on the other rows of a
batch (a mean over them, batch normalisation in training mode). No number is exact then. Rounding depends on the batch,
too: predictions are compared with their own spread.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from losslens.typing import Indices
from losslens.workers import warn_once

UNSTEADY = (
    "the model answers the same rows differently when it is asked again: its predictions are random, or depend on the "
    "other rows of a batch"
)
# Of the standard deviation of the predictions; single precision may hide a shorter one in which a network computes.
NOISE, NOISE_IN_SINGLE = 1e-3, 1e-2
ROUNDING = 1e-5  # of the largest prediction
LABELS = 1e-3  # share of labels that rounding may change
REMEMBERED = 1_000  # unchanged rows, at most, whose predictions are compared with those of a later pass


@dataclass(eq=False)
class Repeats:
    """Compares answers for rows that are predicted twice, and keeps the reason why none of them counts as exact."""

    watches: bool = True  # False: what predicts only stands in for the model
    declined: str = ""
    rows: Indices | None = None  # the first rows that were predicted as they are
    base: NDArray[Any] | None = None  # and their predictions

    def compare(self, first: NDArray[Any], again: NDArray[Any], every: Callable[[], NDArray[Any]]) -> None:
        """Two answers for the same rows; `every` gives predictions of different rows, which say how much they vary."""
        if not self.watches or self.declined or np.array_equal(first, again):
            return
        if differ(first, again, every()):
            self.declined = UNSTEADY
            warn_once(
                f"{UNSTEADY}; importances contain that noise, and none of them is exact. Fix the seed, switch off "
                "dropout (evaluation mode), or predict each row by itself"
            )

    def compare_unchanged(self, rows: Indices, base: NDArray[Any], every: Callable[[], NDArray[Any]]) -> None:
        """Predictions of rows as they are, with those of an earlier pass over the same rows, if there was one."""
        if self.rows is None or self.base is None:
            self.rows, self.base = rows[:REMEMBERED].copy(), base[:REMEMBERED].copy()
        elif np.array_equal(self.rows, rows[: len(self.rows)]):
            self.compare(self.base, base[: len(self.rows)], every)


def differ(first: NDArray[Any], again: NDArray[Any], every: NDArray[Any]) -> bool:
    """Whether answers for the same rows differ by more than rounding.

    >>> y = np.arange(4.0)
    >>> differ(y, y + 1e-9, y), differ(y, y + 0.1, y)
    (False, True)
    """
    if first.dtype.kind != "f":
        return int(np.sum(first != again)) > LABELS * first.size
    noise = NOISE if first.dtype.itemsize >= 8 else NOISE_IN_SINGLE
    gaps = np.sqrt(np.mean(np.square(np.subtract(first, again, dtype=np.float64)), axis=0))
    spread, largest = np.std(every, axis=0, dtype=np.float64), np.abs(every).max()
    return bool(np.max(gaps) > noise * np.max(spread) + ROUNDING * float(largest))
