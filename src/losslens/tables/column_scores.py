"""Columns as a few standardised scores each, to model relations between columns; and penalised logistic regression."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from losslens.tables.associations import associations, determined, groups_of
from losslens.tables.columns import count_missing, distinct_values, places_of
from losslens.tables.sample import ColumnCopy
from losslens.typing import Floats, Indices

POWERS = 3  # Hermite polynomials of the normal scores of a numeric column
INDICATORS = 6  # of a categorical column: its most frequent values
RARE = 5, 0.01  # a value, or a missing one, in fewer rows, or in a smaller share of them, has no indicator
MOST_SCORES = 9  # of a feature; more are reduced to as many principal components


@dataclass(frozen=True, eq=False)
class CodedRows:
    """Some rows of a table, each column as codes of its distinct values; the table itself is not kept."""

    names: tuple[str, ...]
    values: tuple[NDArray[Any], ...]  # the distinct values of each column, missing ones last
    ordered: tuple[bool, ...]
    codes: NDArray[np.int32]  # (r, p)

    @classmethod
    def of(cls, names: tuple[str, ...], columns: Sequence[ColumnCopy]) -> Self:
        """The codes of copied columns."""
        values, ordered, codes = [], [], np.zeros((len(columns[0][0]), len(names)), np.int32)
        for j, column in enumerate(columns):
            try:
                distinct = distinct_values(*column)
            except (TypeError, ValueError):  # unhashable or incomparable values, such as lists, count as one value
                values.append(np.zeros(1))
                ordered.append(True)
                continue
            values.append(distinct.values)
            ordered.append(distinct.ordered)
            codes[:, j] = distinct.codes
        return cls(names, tuple(values), tuple(ordered), codes)

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}  # without cached scores

    @property
    def n(self) -> int:
        """How many rows."""
        return len(self.codes)

    @cached_property
    def scored(self) -> tuple[ScoredColumn, ...]:
        """The scores of every column."""
        return tuple(map(score_column, self.values, self.codes.T, self.ordered))

    @cached_property
    def scores(self) -> Floats:
        """All scores side by side, (n, D)."""
        return np.hstack([column.scores for column in self.scored])

    @cached_property
    def association(self) -> Floats:
        """How strongly every two columns go together, (p, p)."""
        return associations(self)

    @cached_property
    def blocks(self) -> list[list[int]]:
        """The columns that go together, two or more."""
        return [columns for columns in groups_of(self) if len(columns) > 1]

    @cached_property
    def determined(self) -> Floats:
        """How far the other columns determine each, (p,)."""
        return determined(self)

    @cached_property
    def column_of(self) -> Indices:
        """The column of each score, (D,)."""
        return np.repeat(np.arange(len(self.scored)), [column.by_value.shape[1] for column in self.scored])


@dataclass(frozen=True, eq=False)
class ScoredColumn:
    """One column: the standardised scores of each of its distinct values."""

    values: NDArray[Any]  # (v,), distinct
    codes: NDArray[np.int32]  # (n,): the value of each row
    by_value: Floats  # (v, d): mean 0 and variance 1 over the rows
    degree: Floats  # (d,): 1 for a linear score or an indicator, 2 and 3 for polynomials

    @property
    def scores(self) -> Floats:
        """The scores of the rows, (n, d)."""
        return self.by_value[self.codes]

    def nearest(self, values: Any) -> Indices:
        """The codes of the equal or, for numbers and dates, of the nearest distinct values."""
        known, array = self.values, np.asarray(values)
        if known.dtype.kind in "biufmM" and array.dtype.kind in "biufmM":
            present = len(known) - count_missing(known)
            right = np.clip(np.searchsorted(known[:present], array), 1, max(present - 1, 1))
            left = right - 1
            right = np.minimum(right, present - 1)
            below, here, above = (
                some.astype(float) if some.dtype.kind in "biu" else some for some in (known[left], array, known[right])
            )  # differences of integers may overflow, of truth values there are none
            nearer = np.where(here - below <= above - here, left, right)
            return np.where(array != array, len(known) - 1, nearer)
        place = places_of(array, known)
        if len(place) and place.min() < 0:
            strange = array.tolist()[np.argmin(place)]
            raise ValueError(f"{strange!r} is no value of the column; its values are {list(known)[:5]!r}")
        return place

    def of_values(self, values: Any) -> Floats:
        """Scores of values of another table, (r, d); interpolated linearly between known numbers."""
        known, array = self.values, np.asarray(values)
        if known.dtype.kind not in "biuf" or array.dtype.kind not in "biuf":
            return self.by_value[self.nearest(values)]
        present = len(known) - count_missing(known)
        columns = [np.interp(array, known[:present], some[:present]) for some in self.by_value.T]
        scores = np.column_stack([*columns, np.empty((len(array), 0))])
        if present < len(known):
            scores[array != array] = self.by_value[-1]
        return scores


@dataclass(frozen=True, eq=False)
class FeatureScores:
    """The scores of a feature, whose columns are replaced together."""

    columns: Sequence[ScoredColumn]
    turn: Floats | None  # (d0, d): to principal components, where there are too many scores
    scores: Floats  # (n, d)
    degree: Floats  # (d,)

    @classmethod
    def of(cls, columns: Sequence[ScoredColumn]) -> Self:
        """All scores of the columns, or their principal components."""
        scores = np.hstack([column.scores for column in columns])
        if scores.shape[1] <= MOST_SCORES:
            return cls(columns, None, scores, np.concatenate([column.degree for column in columns]))
        _, size, turn = np.linalg.svd(scores, full_matrices=False)
        kept = size[:MOST_SCORES] > 1e-8 * size[0]
        turn = turn[:MOST_SCORES][kept].T / (size[:MOST_SCORES][kept] / np.sqrt(len(scores)))
        return cls(columns, turn, scores @ turn, np.ones(turn.shape[1]))

    def of_values(self, values: Sequence[Any]) -> Floats:
        """Scores of other values of the columns, (r, d)."""
        scores = np.hstack([column.of_values(some) for column, some in zip(self.columns, values, strict=True)])
        return scores if self.turn is None else scores @ self.turn


def score_column(values: NDArray[Any], codes: NDArray[np.int32], ordered: bool) -> ScoredColumn:
    """The scores of a column.

    >>> score_column(np.array([1.0, 2.0, 9.0]), np.array([0, 1, 1, 2]), ordered=True).scores[:, 0].round(2)
    array([-1.41,  0.  ,  0.  ,  1.41])
    """
    count = np.bincount(codes, minlength=len(values)).astype(float)
    by_value, degree = _powers(values, count) if ordered else _indicators(count)
    share = count / count.sum()
    by_value = by_value - share @ by_value
    spread = np.sqrt(share @ by_value**2)
    varies = spread > 1e-9
    return ScoredColumn(values, codes, by_value[:, varies] / spread[varies], degree[varies])


def _powers(values: NDArray[Any], count: Floats) -> tuple[Floats, Floats]:
    """Hermite polynomials of the normal scores, uncorrelated for a Gaussian; and an indicator of missing values."""
    from scipy.special import ndtri  # here: `import losslens` does not wait for SciPy

    missing = count_missing(values)
    present = count.copy()
    present[len(count) - missing :] = 0
    n = present.sum()
    kinds = int((present > 0).sum())
    z = np.zeros(len(count))
    if kinds > 1:
        middle = np.cumsum(present) - present / 2
        z[present > 0] = ndtri(middle[present > 0] / n)
    powers = [z, z**2 - 1, z**3 - 3 * z][: min(POWERS, kinds - 1)]
    scores = [np.where(present > 0, power - power @ present / max(n, 1), 0.0) for power in powers]
    degree = list(range(1, len(scores) + 1))
    if missing and count[-missing:].sum() >= max(RARE[0], RARE[1] * count.sum()):
        scores.append((np.arange(len(count)) >= len(count) - missing).astype(float))
        degree.append(1)
    return np.column_stack([*scores, np.empty((len(count), 0))]), np.array(degree, float)


def _indicators(count: Floats) -> tuple[Floats, Floats]:
    frequent = np.argsort(-count, kind="stable")[:INDICATORS]
    frequent = frequent[count[frequent] >= max(RARE[0], RARE[1] * count.sum())]
    return (np.arange(len(count))[:, None] == frequent).astype(float), np.ones(len(frequent))


NEWTON_STEPS, HALVINGS = 25, 12  # of a step that increases the objective
TOLERANCE = 1e-5  # of the objective per unit of weight: a smaller improvement ends the search


def fit_logistic(terms: Floats, y: Floats, weight: Floats, penalty: Floats) -> Floats:
    """Coefficients b that minimise ``sum w (log(1 + e^eta) - y eta) + sum penalty b^2 / 2`` with ``eta = terms b``.

    Parameters
    ----------
    terms
        (n, q); a constant is a term like any other.
    y
        (n,): 0 or 1.
    weight
        (n,).
    penalty
        (q,), at least 0. If it is positive for all but a constant, the minimum exists also for separable data.
    """
    b = np.zeros(terms.shape[1])
    objective = _objective(terms, y, weight, penalty, b)
    for _ in range(NEWTON_STEPS):
        chance = 0.5 + 0.5 * np.tanh(terms @ b / 2)  # 1 / (1 + e^-eta), without overflow
        gradient = terms.T @ (weight * (chance - y)) + penalty * b
        curvature = (terms * (weight * chance * (1 - chance))[:, None]).T @ terms
        curvature[np.diag_indices_from(curvature)] += penalty + 1e-9  # terms may be collinear
        step = np.linalg.solve(curvature, gradient)
        for _ in range(HALVINGS):  # a full Newton step can overshoot
            new = _objective(terms, y, weight, penalty, b - step)
            if new <= objective:
                break
            step /= 2
        if not objective - new > 0:
            break
        b, gain, objective = b - step, objective - new, new
        if gain < TOLERANCE * weight.sum():
            break
    return b


def _objective(terms: Floats, y: Floats, weight: Floats, penalty: Floats, b: Floats) -> float:
    eta = terms @ b
    return float(weight @ (np.logaddexp(0.0, eta) - y * eta) + 0.5 * penalty @ b**2)
