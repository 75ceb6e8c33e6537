"""The AUC from counts of pairs, and what is left of it without single rows: the delete-one jackknife in one pass."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from losslens.typing import Floats, Indices, Mask

# Which AUCs are averaged: the one of two classes; of each class against the rest; of every two classes, both ways.
Areas = Literal["two", "ovr", "ovr_weighted", "ovo", "ovo_weighted"]


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
        """The share of pairs in the right order; NaN without a class."""
        pairs = self.sides.prod()
        return float(self.won[self.positive].sum() / pairs) if pairs > 0 else float("nan")

    def without(self, first: Indices, second: Indices) -> tuple[Floats, list[Floats]]:
        """The AUC without two rows, which may be one, for each of several such pairs, and the sides that are left.

        It is NaN where a class is gone.
        """
        weight, positive = self.weight, self.positive
        other = np.where(first == second, 0.0, 1.0)
        up, down = np.where(positive[first], first, second), np.where(positive[first], second, first)
        order = (self.score[up] > self.score[down]) + 0.5 * (self.score[up] == self.score[down])
        both = weight[first] * weight[second] * order * (positive[first] != positive[second])
        won = self.won[positive].sum() - self.won[first] - other * self.won[second] + both
        sides = [
            total - weight[first] * (positive[first] == side) - other * weight[second] * (positive[second] == side)
            for side, total in enumerate(self.sides)
        ]
        return self._share(won, sides), sides

    def without_units(self, row: Indices, unit: Indices, count: int) -> tuple[Floats, list[Floats]]:
        """The AUC without each unit, (count,), and the sides that are left; `row[k]` is one of the rows of `unit[k]`.

        Pairs of two rows of a unit, which are counted from one sort of all units, are lost once.

        >>> counts = PairCounts.of(np.array([1, 2, 2, 3]), np.array([False, True, False, True]), np.ones(4))
        >>> counts.without_units(np.array([1, 2, 3]), np.array([0, 0, 1]), 2)[0]
        array([1.  , 0.75])
        """
        weight, positive = self.weight[row], self.positive[row]
        order = np.lexsort([self.score[row], unit])
        row, unit, weight, positive = row[order], unit[order], weight[order], positive[order]
        score, new = self.score[row], np.ones(len(row), bool)
        new[1:] = (score[1:] != score[:-1]) | (unit[1:] != unit[:-1])
        place = np.cumsum(new) - 1  # of each score in each unit
        lost = np.bincount(place, weight * ~positive, len(row))
        before = np.concatenate([[0.0], np.cumsum(weight * ~positive)])[np.searchsorted(unit, unit)]  # in other units
        below = (np.cumsum(lost) - lost / 2)[place] - before
        inside = np.bincount(unit, weight * positive * below, count)
        won = self.won[self.positive].sum() - np.bincount(unit, self.won[row], count) + inside
        sides = [total - np.bincount(unit, weight * (positive == side), count) for side, total in enumerate(self.sides)]
        return self._share(won, sides), sides

    def _share(self, won: Floats, sides: list[Floats]) -> Floats:
        """The AUC of what is left; NaN where a class is gone."""
        left = sides[0] * sides[1]
        gone = left <= 1e-12 * self.sides.prod()
        return np.asarray(np.where(gone, np.nan, won / np.where(gone, 1.0, left)))


@dataclass(frozen=True, eq=False)
class ClassAreas:
    """An AUC of two classes, or the mean of those of several, as scikit-learn defines it."""

    areas: Areas
    weight: Floats  # (n,)
    parts: tuple[PairCounts, ...]

    @classmethod
    def of(cls, areas: Areas, prediction: NDArray[Any], y: Indices, weight: Floats) -> Self:
        """Of predictions (n,), of the second of two classes, or (n, K), and the positions of the true classes.

        >>> one = ClassAreas.of("ovr", np.array([[0.7, 0.3], [0.4, 0.6], [0.5, 0.5]]), np.array([0, 1, 1]), np.ones(3))
        >>> len(one.parts), one.auc
        (2, 1.0)
        """
        if areas == "two":
            of_second = prediction if prediction.ndim == 1 else prediction[:, 1]
            return cls(areas, weight, (PairCounts.of(of_second, y == 1, weight),))
        classes = range(prediction.shape[1])
        if areas.startswith("ovr"):
            parts = [PairCounts.of(prediction[:, c], y == c, weight) for c in classes]
        else:
            parts = [
                PairCounts.of(prediction[:, c], y == c, weight * ((y == c) | (y == d)))
                for c, d in permutations(classes, 2)
            ]
        return cls(areas, weight, tuple(parts))

    @property
    def auc(self) -> float:
        """The mean of the AUCs; NaN without a class."""
        return float(self._mean([part.auc for part in self.parts], [part.sides for part in self.parts]))

    def without(self, first: Indices, second: Indices) -> Floats:
        """The mean without two rows, which may be one, for each of several such pairs; NaN where a class is gone."""
        return self._left([part.without(first, second) for part in self.parts])

    def without_units(self, row: Indices, unit: Indices, count: int) -> Floats:
        """The mean without each unit; `row[k]` is one of the rows of `unit[k]`. NaN where a class is gone."""
        return self._left([part.without_units(row, unit, count) for part in self.parts])

    def _left(self, parts: list[tuple[Floats, list[Floats]]]) -> Floats:
        return np.asarray(self._mean([auc for auc, _ in parts], [sides for _, sides in parts]))

    def _mean(self, aucs: list[Any], sides: list[Any]) -> Any:
        """By the weight of the class, or of both, where scikit-learn weights by prevalence."""
        if not self.areas.endswith("weighted"):
            return np.mean(aucs, axis=0)
        by = np.array([side[1] if self.areas == "ovr_weighted" else side[0] + side[1] for side in sides])
        return (by * aucs).sum(axis=0) / by.sum(axis=0)


def sorts(areas: Areas, classes: int) -> int:
    """How many AUCs are averaged."""
    return 1 if areas == "two" else classes if areas.startswith("ovr") else classes * (classes - 1)
