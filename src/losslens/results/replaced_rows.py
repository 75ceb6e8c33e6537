"""Whether replaced rows look like real ones: a cross-fitted classifier that distinguishes them.

A replaced row holds the other columns of row i and the feature's value of donor k, so the distribution of each
column is unchanged; only relations between columns differ. The classifier is a logistic regression on scores of each
column (normal scores of ranks and their second and third powers; indicators of the frequent categories), their products
with the feature's, and the distance of the feature from its regression on the other columns. For two Gaussian columns
the log density ratio has this form, so that shares can be compared with the truth.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from losslens.blas import one_thread
from losslens.results.base import Stored
from losslens.results.extrapolation import RARER, WARNING, Extrapolation
from losslens.tables import column_scores
from losslens.tables.associations import ties
from losslens.tables.column_scores import CodedRows, FeatureScores
from losslens.tables.columns import count_missing
from losslens.tables.frozen import lazy
from losslens.text import claim, listed
from losslens.typing import Floats, Indices, Mask

MIN_ROWS = 20  # with fewer no classifier is fitted
DONORS = 5  # of each row, for its replaced rows
TRAINED = 2000  # replaced rows to train on, where there are few rows: up to `DONORS` of each
MAX_HALVINGS = 6  # random splits into halves, where there are few rows
RELATED = 8  # columns that are used: those most associated with the feature
RIDGE, RIDGE_MEAN = 1.0, 5.0  # penalties: of products of first-degree terms; of the regression on the other columns
RIDGE_RESIDUAL = 0.2  # of terms of the residual, as a multiple of RIDGE
CHANCE = 1.0  # over sqrt(n): 4 standard deviations of the AUC of rows without a difference (0.25 / sqrt(n), measured)
BINS = 20  # rank bins along a feature
DETERMINED = (
    0.8  # R squared of a feature's ranks on those of the others, from which on rows with it shuffled are doubtful
)
CLEAR = 3.0  # a column is reported as tied where its association is this many times that by chance


@dataclass(frozen=True, eq=False)
class Replaced:
    """Rows with another value of a feature."""

    rows: Indices  # (r,)
    own: Floats  # (r, d): the scores of their new value
    codes: NDArray[np.integer]  # (r,): the nearest of the feature's distinct values
    learns: Mask  # (r,): whether they are training data


class Halving(NamedTuple):
    """The result of one random split into halves."""

    auc: float
    codes: NDArray[np.integer]  # (r,), of the replaced rows
    far: Mask  # (r,)


@dataclass(frozen=True, eq=False)
class ReplacedRows(Stored):
    """The arrays from which the extrapolation of a feature is computed on first access."""

    name: str
    columns: tuple[int, ...]
    among: CodedRows = lazy()  # the real rows, shared by all features of one call; coded on first access
    drawn: tuple[NDArray[Any], ...] | None = None  # values of each column, where they do not come from all donors
    computed: Extrapolation | None = None  # of a result that was read from a file

    @cached_property
    def extrapolation(self) -> Extrapolation:
        """How far the replaced rows are from real ones."""
        if self.computed is not None:
            return self.computed
        with one_thread():
            return self._of_donors() if self.drawn is None else self._of_drawn(self.drawn)

    @property
    def remark(self) -> str:
        """What is said wherever the importance stands: the share of unreal rows, or, while it is unknown, a screen."""
        return self.extrapolation.remark if self.is_computed else self._moves_with()

    @claim(level=0.05)
    def _moves_with(self) -> str:
        """Where the other columns determine the feature: the R squared of its ranks on theirs is 0.8 or more."""
        if self.drawn is not None or not self._is_single or self.among.determined[self.columns[0]] < DETERMINED:
            return ""
        others = listed([self.among.names[k] for k in ties(self.among.association, self.columns[0])])
        return f"Correlated with {others}: shuffling it may create unrealistic rows (imp.extrapolation)."

    @property
    def is_computed(self) -> bool:
        """Whether the extrapolation has been computed."""
        return self.computed is not None or "extrapolation" in self.__dict__

    @property
    def stored(self) -> Any:
        """Files contain these arrays, and the extrapolation if it has been computed."""
        return replace(self, computed=self.extrapolation) if self.is_computed else self

    def _of_donors(self) -> Extrapolation:
        """The extrapolation of rows with values of donors from all rows."""
        rng, codes, n = np.random.default_rng([0, 20]), self._codes, self.among.n

        def halve() -> Halving:
            half = rng.permutation(n) % 2
            rows, donors, learns = _donors(half, rng)
            replaced = Replaced(rows, self._own_scores.scores[donors], codes[donors], learns)
            return _halving(replaced, half, self._odds(replaced, half))

        return self._averaged(halve)

    def _of_drawn(self, values: tuple[NDArray[Any], ...]) -> Extrapolation:
        """The extrapolation of rows with other values than those of all donors, such as from conditional samplers."""
        rng, n = np.random.default_rng(20), self.among.n
        rows = np.arange(len(values[0])) % n
        codes = self.among.scored[self.columns[0]].nearest(values[0]) if self._is_single else np.zeros_like(rows)
        own = self._own_scores.of_values(values)
        replaced = Replaced(rows, own, codes, np.ones(len(rows), bool))

        def halve() -> Halving:
            half = rng.permutation(n) % 2
            return _halving(replaced, half, self._odds(replaced, half))

        return replace(self._averaged(halve), drawn=True)

    @cached_property
    def _own_scores(self) -> FeatureScores:
        return FeatureScores.of([self.among.scored[j] for j in self.columns])

    @property
    def _is_single(self) -> bool:
        return len(self.columns) == 1

    @property
    def _codes(self) -> NDArray[np.int32]:
        return self.among.codes[:, self.columns[0]] if self._is_single else np.zeros(self.among.n, np.int32)

    def _odds(self, replaced: Replaced, half: Indices) -> tuple[Floats, Floats]:
        """Log odds of being replaced, of the real and the replaced rows, each from a model fitted on the other half."""
        own = self._own_scores
        real, changed = np.zeros(self.among.n), np.zeros(len(replaced.rows))
        if own.scores.shape[1] == 0 or not self._other_columns.any():
            return real, changed
        for side in (0, 1):
            training, tests = (np.flatnonzero(half == part) for part in (side, 1 - side))
            learns = (half[replaced.rows] == side) & replaced.learns
            tested = half[replaced.rows] != side
            terms, rows = _Terms.of(self, own, training), replaced.rows[learns]
            table = np.vstack([terms(training, own.scores[training]), terms(rows, replaced.own[learns])])
            answer = np.repeat([0.0, 1.0], [len(training), learns.sum()])
            weight = np.where(answer > 0, len(training) / max(learns.sum(), 1), 1.0)
            coefficients = column_scores.fit_logistic(table, answer, weight, terms.penalty)
            real[tests] = terms(tests, own.scores[tests]) @ coefficients
            changed[tested] = terms(replaced.rows[tested], replaced.own[tested]) @ coefficients
        return real, changed

    def _averaged(self, halve: Callable[[], Halving]) -> Extrapolation:
        """The mean over random halvings, more of them with fewer rows, to reduce the variance of the split."""
        n = self.among.n
        if n < MIN_ROWS:
            return Extrapolation(self.name, np.nan, np.nan, np.empty(0), np.empty(0))
        halvings = [halve() for _ in range(_repetitions(n, MAX_HALVINGS))]
        codes, far = (np.concatenate([getattr(one, part) for one in halvings]) for part in ("codes", "far"))
        grid, far_shares = np.empty(0), np.empty(0)
        if self._is_single:
            grid, far_shares = along(self.among.values[self.columns[0]], codes, far)
        threshold = max(WARNING, 0.5 + CHANCE / np.sqrt(n))
        auc, share = float(np.mean([one.auc for one in halvings])), float(far.mean())
        return Extrapolation(self.name, auc, share, grid, far_shares, self._ties(), float(threshold))

    @property
    def _other_columns(self) -> Mask:
        """Which columns may be associated with the feature, (p,)."""
        others = np.bincount(self.among.column_of, minlength=len(self.among.scored)) > 0
        others[list(self.columns)] = False
        return others

    def related(self, rows: Indices) -> Floats:
        """Association of each column with the feature among some rows, (p,); -inf for the feature's own columns.

        The sum of squared correlations between scores, minus its expectation under independence.
        """
        own, among = self._own_scores, self.among
        squares = (own.scores[rows].T @ among.scores[rows] / len(rows)) ** 2
        total = np.bincount(among.column_of, squares.sum(axis=0), len(among.scored))
        chance = np.bincount(among.column_of, minlength=len(among.scored)) * own.scores.shape[1] / len(rows)
        return np.where(self._other_columns, total - chance, -np.inf)

    def _ties(self) -> tuple[str, ...]:
        """The column most associated with the feature, and a second one with at least half its association."""
        among = self.among
        related = self.related(np.arange(among.n))
        size = np.bincount(among.column_of, minlength=len(among.scored)) * self._own_scores.scores.shape[1]
        order = np.argsort(-related, kind="stable")[:2]
        best = related[order[0]]
        named = [j for j in order if related[j] >= best / 2 and related[j] > (CLEAR - 1) * size[j] / among.n]
        return tuple(among.names[j] for j in named)


@dataclass(frozen=True, eq=False)
class _Terms:
    """The terms of the classifier, for rows with some value of the feature."""

    scores: Floats  # (n, D), of the related columns
    mean: Floats  # (n, d): the feature's scores predicted from them
    spread: Floats  # (d,): mean squared residual
    penalty: Floats

    @classmethod
    def of(cls, rows: ReplacedRows, own: FeatureScores, training: Indices) -> Self:
        """Terms from the training rows `seen`, which alone choose the columns and fit the regression."""
        related, among = rows.related(training), rows.among
        most = np.sort(np.argsort(-related, kind="stable")[:RELATED])
        chosen = np.isin(among.column_of, most[np.isfinite(related[most])])
        scores = among.scores[:, chosen]
        gram = scores[training].T @ scores[training] + RIDGE_MEAN * np.eye(scores.shape[1])
        mean = scores @ np.linalg.solve(gram, scores[training].T @ own.scores[training])
        spread = ((own.scores[training] - mean[training]) ** 2).mean(axis=0)
        others = np.concatenate([among.scored[j].degree for j in most if np.isfinite(related[j])])
        products = ((own.degree[:, None] + others) / 2) ** 2
        penalty = [[0.0], own.degree**2, others**2, products.ravel()]
        return cls(
            scores, mean, np.maximum(spread, 1e-6),
            RIDGE * np.concatenate([*penalty, np.full(3 * len(own.degree), RIDGE_RESIDUAL)]),
        )  # fmt: skip

    def __call__(self, rows: Indices, own: Floats) -> Floats:
        scores, mean = self.scores[rows], self.mean[rows]
        products = (own[:, :, None] * scores[:, None, :]).reshape(len(rows), -1)
        residual = np.log1p((own - mean) ** 2 / self.spread)  # log: residuals may be very large
        return np.hstack([np.ones((len(rows), 1)), own, scores, products, residual, own * mean, mean**2])


def _donors(half: Indices, rng: np.random.Generator) -> tuple[Indices, Indices, Mask]:
    """Rows, donors from the same half, and whether to train on them: both parts of a replaced row are from one half."""
    trained = _repetitions(len(half), DONORS)
    rows, donors, learns = [], [], []
    for side in (0, 1):
        mine = rng.permutation(np.flatnonzero(half == side))
        shifts = 1 + rng.permutation(len(mine) - 1)[:DONORS]
        for turn, shift in enumerate(shifts):
            rows.append(mine)
            donors.append(np.roll(mine, shift))
            learns.append(np.full(len(mine), turn < trained))
    return np.concatenate(rows), np.concatenate(donors), np.concatenate(learns)


def _repetitions(n: int, most: int) -> int:
    """How often a random step is repeated for n rows: up to `most` times, more often for fewer rows."""
    return max(1, min(most, TRAINED // n))


def _halving(replaced: Replaced, half: Indices, odds: tuple[Floats, Floats]) -> Halving:
    """AUC and far rows, from log odds of the real and the replaced rows."""
    real, changed = odds
    side = half[replaced.rows]
    auc = float(np.mean([_auc(real[half == part], changed[side == part]) for part in (0, 1)]))
    return Halving(auc, replaced.codes, _calibrated(real, changed) > np.log(RARER))


def _auc(real: Floats, changed: Floats) -> float:
    """The probability that a replaced row has larger odds than a real one, ties counting half."""
    if not len(real) or not len(changed):
        return 0.5
    ordered = np.sort(real)
    below, up_to = (np.searchsorted(ordered, changed, side=end) for end in ("left", "right"))
    return float((below + up_to).mean() / 2 / len(real))


def _calibrated(real: Floats, changed: Floats) -> Floats:
    """Log odds of the replaced rows, calibrated on test rows by a logistic regression.

    With few rows and many columns a classifier is overconfident.
    """
    both = np.clip(np.concatenate([real, changed]), -30, 30)
    answer = np.repeat([0.0, 1.0], [len(real), len(changed)])
    weight = np.where(answer > 0, len(real) / max(len(changed), 1), 1.0)
    shift, slope = column_scores.fit_logistic(
        np.column_stack([np.ones(len(both)), both]), answer, weight, np.array([0.0, 1e-3])
    )
    return np.asarray(shift + max(slope, 0.0) * both[len(real) :])


def along(values: NDArray[Any], codes: NDArray[np.integer], far: Mask) -> tuple[NDArray[Any], Floats]:
    """The share of far cells along a feature: at each of its values, or in rank bins where there are many."""
    count = np.bincount(codes, minlength=len(values)).astype(float)
    hit = np.bincount(codes, far, minlength=len(values))
    used = np.flatnonzero(count)
    if len(used) <= BINS or values.dtype.kind not in "biufmM":
        return values[used], hit[used] / count[used]
    present = count.copy()
    present[len(values) - count_missing(values) :] = 0  # a missing value has a bin of its own
    middle = (np.cumsum(present) - present / 2) / present.sum()
    bins = np.where((count > 0) & (present == 0), BINS, np.minimum((middle * BINS).astype(np.intp), BINS - 1))
    mass, hits = np.bincount(bins, count), np.bincount(bins, hit)
    held = np.flatnonzero(mass)
    members = [used[bins[used] == b] for b in held]
    middles = [some[np.searchsorted(np.cumsum(count[some]), count[some].sum() / 2)] for some in members]
    return values[middles], hits[held] / mass[held]
