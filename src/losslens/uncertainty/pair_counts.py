"""The AUC from counts of pairs of cells, and what is left of it without some of them: the jackknife in one pass."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import permutations
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from losslens.typing import Floats, Indices, Mask

# Which AUCs are averaged: the one of two classes; of each class against the rest; of every two classes, both ways.
Areas = Literal["two", "ovr", "ovr_weighted", "ovo", "ovo_weighted"]


@dataclass(frozen=True, eq=False)
class PairCounts:
    """Weights of the pairs of a positive and a negative cell that scores put in the right order; ties count half."""

    score: NDArray[Any]  # (N,)
    positive: Mask  # (N,)
    weight: Floats  # (N,)

    @cached_property
    def _sorted(self) -> tuple[Indices, Indices]:
        """The order of the scores, and where each of them, ties together, begins in it; then their number."""
        order = np.argsort(self.score)
        score = self.score[order]
        new = np.flatnonzero(score[1:] != score[:-1])
        start = np.zeros(len(new) + 2, np.intp)
        np.add(new, 1, out=start[1:-1])
        start[-1] = len(score)
        return order, start

    @cached_property
    def _below(self) -> tuple[Floats, Floats]:
        """The weight of the negatives and of the positives below each distinct score; then all of them."""
        order, start = self._sorted
        weight = self.weight[order]
        of_positives = weight * self.positive[order]
        below = np.zeros((2, len(start)))
        for one, into in zip((weight - of_positives, of_positives), below, strict=True):
            into[1:] = np.cumsum(one, out=one)[start[1:] - 1]
        return below[0], below[1]

    @cached_property
    def place(self) -> Indices:
        """The rank of each score, ties together, (N,)."""
        order, start = self._sorted
        place = np.empty(len(order), np.int64)
        place[order] = np.repeat(np.arange(len(start) - 1), np.diff(start))
        return place

    @cached_property
    def won(self) -> Floats:
        """The weight of the cells with which each is in the right order, (N,)."""
        negatives, positives = ((below[1:] + below[:-1]) / 2 for below in self._below)  # ties count half
        return np.where(self.positive, negatives[self.place], self.sides[1] - positives[self.place])

    @property
    def sides(self) -> Floats:
        """The weight of the negative and the positive cells."""
        return np.array([below[-1] for below in self._below])

    @property
    def auc(self) -> float:
        """The share of pairs in the right order; NaN without a class.

        >>> PairCounts(np.array([1, 2, 2, 3]), np.array([False, True, False, True]), np.ones(4)).auc
        0.875
        """
        return min(self._total / float(self.sides.prod()), 1.0) if self.sides.prod() > 0 else float("nan")  # sums round

    @property
    def _total(self) -> float:
        negatives, positives = self._below
        return float(np.diff(positives) @ (negatives[1:] + negatives[:-1])) / 2

    @property
    def slope(self) -> Floats:
        """The derivative of the AUC by the weight of each cell, (N,)."""
        opposite = np.where(self.positive, self.sides[0], self.sides[1])
        return np.asarray((self.won / opposite - self.auc) / np.where(self.positive, self.sides[1], self.sides[0]))

    def without(self, cell: Indices, unit: Indices, weight: Floats, count: int) -> tuple[Floats, list[Floats]]:
        """The AUC without each unit, (count,), and the sides that are left; a unit takes these weights from its cells.

        Pairs of two cells of a unit, which are counted from one sort of all units, are lost once. It is NaN where a
        class is gone.

        >>> counts = PairCounts(np.array([1, 2, 2, 3]), np.array([False, True, False, True]), np.ones(4))
        >>> counts.without(np.array([1, 2, 3]), np.array([0, 0, 1]), np.ones(3), 2)[0]
        array([1.  , 0.75])
        """
        lost = np.bincount(unit, weight * self.won[cell], count)
        key = unit * (int(self.place.max()) + 1) + self.place[cell]
        order = np.argsort(key)
        key, unit, weight, positive = key[order], unit[order], weight[order], self.positive[cell][order]
        start = np.concatenate([[0], np.flatnonzero(key[1:] != key[:-1]) + 1, [len(key)]])
        negatives = np.concatenate([[0.0], np.cumsum(weight * ~positive)])
        positives = np.concatenate([[0.0], np.cumsum(weight * positive)])
        here = unit[start[:-1]]
        before = negatives[np.searchsorted(unit, np.arange(count))][here]  # in other units
        below = (negatives[start[1:]] + negatives[start[:-1]]) / 2 - before
        inside = np.bincount(here, np.diff(positives[start]) * below, count)
        sides = [total - np.bincount(unit, weight * (positive == side), count) for side, total in enumerate(self.sides)]
        pairs = sides[0] * sides[1]
        gone = np.minimum(*sides) <= 1e-12 * self.sides.min()
        return np.where(gone, np.nan, (self._total - lost + inside) / np.where(gone, 1.0, pairs)), sides


@dataclass(frozen=True, eq=False)
class ClassAreas:
    """An AUC of two classes, or the mean of those of several, as scikit-learn defines it."""

    areas: Areas
    parts: tuple[PairCounts, ...]

    @classmethod
    def of(cls, areas: Areas, prediction: NDArray[Any], y: Indices, weight: Floats) -> Self:
        """Of predictions (N,), of the second of two classes, or (N, K), and the positions of the true classes.

        >>> one = ClassAreas.of("ovr", np.array([[0.7, 0.3], [0.4, 0.6], [0.5, 0.5]]), np.array([0, 1, 1]), np.ones(3))
        >>> len(one.parts), one.auc
        (2, 1.0)
        """
        if areas == "two":
            of_second = prediction if prediction.ndim == 1 else prediction[:, 1]
            return cls(areas, (PairCounts(of_second, y == 1, weight),))
        classes = range(prediction.shape[1])
        if areas.startswith("ovr"):
            return cls(areas, tuple(PairCounts(prediction[:, c], y == c, weight) for c in classes))
        return cls(areas, tuple(
            PairCounts(prediction[:, c], y == c, weight * ((y == c) | (y == d))) for c, d in permutations(classes, 2)
        ))  # fmt: skip

    @property
    def auc(self) -> float:
        """The mean of the AUCs; NaN without a class."""
        return float(self._mean([part.auc for part in self.parts], self._sides))

    @property
    def _sides(self) -> list[Any]:
        return [part.sides for part in self.parts]

    @property
    def slope(self) -> Floats:
        """The derivative by the weight of each cell, (N,); prevalences, by which AUCs may be weighted, as they are."""
        counted = [part.weight > 0 for part in self.parts]
        each = [np.where(positive, part.slope, 0.0) for positive, part in zip(counted, self.parts, strict=True)]
        return np.asarray(self._mean(each, [side[:, None] for side in self._sides]))

    def without(self, cell: Indices, unit: Indices, weight: Floats, count: int) -> Floats:
        """The mean without each unit, which takes these weights from its cells; NaN where a class is gone."""
        left = [part.without(cell, unit, weight * (part.weight > 0)[cell], count) for part in self.parts]
        return np.asarray(self._mean([auc for auc, _ in left], [sides for _, sides in left]))

    def _mean(self, aucs: list[Any], sides: list[Any]) -> Any:
        """By the weight of the class, or of both, where scikit-learn weights by prevalence."""
        if not self.areas.endswith("weighted"):
            return aucs[0] if len(aucs) == 1 else np.mean(aucs, axis=0)
        weights = np.array([side[1] if self.areas == "ovr_weighted" else side[0] + side[1] for side in sides])
        return (weights * aucs).sum(axis=0) / weights.sum(axis=0)
