"""The AUC from counts of pairs, and what is left of it without single rows: the delete-one jackknife in one pass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from losslens.typing import Floats, Indices, Mask


@dataclass(frozen=True, eq=False)
class PairCounts:
    """Weights of the pairs of a positive and a negative row that scores put in the right order; ties count half."""

    score: NDArray[Any]  # (n,)
    positive: Mask  # (n,)
    weight: Floats  # (n,)
    won: Floats  # (n,): of each row's pairs

    @classmethod
    def of(cls, score: NDArray[Any], positive: Mask, weight: Floats) -> Self:
        """From one sort.

        >>> PairCounts.of(np.array([1, 2, 2, 3]), np.array([False, True, False, True]), np.ones(4)).auc
        0.875
        """
        place = np.unique(score, return_inverse=True)[1].reshape(-1)
        lost, gained = (np.bincount(place, weight * of, place.max() + 1) for of in (~positive, positive))
        below = np.cumsum(lost) - lost / 2  # negatives below each score
        above = gained.sum() - np.cumsum(gained) + gained / 2  # positives above it
        return cls(score, positive, weight, np.where(positive, weight * below[place], weight * above[place]))

    @property
    def sides(self) -> Floats:
        """The weight of the negative and the positive rows."""
        return np.bincount(self.positive, self.weight, 2).astype(float)

    @property
    def auc(self) -> float:
        """The share of pairs in the right order."""
        return float(self.won[self.positive].sum() / self.sides.prod())

    def without(self, first: Indices, second: Indices) -> Floats:
        """The AUC without two rows, which may be one, for each of several such pairs; NaN where a class is gone."""
        weight, positive = self.weight, self.positive
        twice = first == second
        other = np.where(twice, 0.0, 1.0)
        up, down = np.where(positive[first], first, second), np.where(positive[first], second, first)
        order = (self.score[up] > self.score[down]) + 0.5 * (self.score[up] == self.score[down])
        both = weight[first] * weight[second] * order * (positive[first] != positive[second])
        won = self.won[positive].sum() - self.won[first] - other * self.won[second] + both
        sides = [
            total - weight[first] * (positive[first] == side) - other * weight[second] * (positive[second] == side)
            for side, total in enumerate(self.sides)
        ]
        left = sides[0] * sides[1]
        gone = left <= 1e-12 * self.sides.prod()
        return np.asarray(np.where(gone, np.nan, won / np.where(gone, 1.0, left)))
