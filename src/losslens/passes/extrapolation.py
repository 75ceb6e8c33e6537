"""Whether replaced rows look like real ones: a cross-fitted classifier that tries to tell them apart.

A replaced row holds the other columns of row i and the feature's value of donor k, so each column by itself is
distributed as before; only what hangs together differs. The classifier is a logistic regression on few numbers of each
column (normal scores of ranks and their second and third powers; which of the frequent words), their products with the
feature's, and how far the feature is from what the other columns say of it. For a Gaussian pair the log density
ratio is such a sum, so that shares can be compared with the truth.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from losslens.results.extrapolation import RARER, WARNING, Extrapolation
from losslens.tables import column_scores
from losslens.tables.column_scores import Own, ScoredColumn, score_column
from losslens.tables.columns import Distinct
from losslens.tables.frames import Batch, Edit, Table
from losslens.typing import Floats, Indices, Mask

MOST_ROWS, LEAST_ROWS = 2000, 20  # that are looked at; under so few nothing can be told
MOST_CELLS = 1 << 20  # of the table that are kept: wide tables keep fewer rows
DONORS = 5  # that each row meets when cells are judged
TRAINED = 2000  # replaced rows to learn from, where the rows are few: up to `DONORS` of each
HALVINGS = 6  # at most, of few rows
RELATED = 8  # columns that take part, those most related with the feature
RIDGE, RIDGE_MEAN = 1.0, 5.0  # penalties: of a product of first degree; of the regression on the other columns
RIDGE_RESIDUAL = 0.2
LUCK = 1.0  # over sqrt(n): 4 standard deviations of an AUC that is 0.5 in truth (0.25 over sqrt(n), measured)
BINS = 20  # rank bins along a feature
CLEAR = 3.0  # a column is named as tied where its relation is so many times what chance gives


@dataclass(frozen=True, eq=False)
class Replaced:
    """Rows with another value of a feature."""

    rows: Indices  # (r,)
    own: Floats  # (r, d): what they hold now, on the feature's column
    codes: Indices  # (r,): the nearest of the feature's distinct values
    learns: Mask  # (r,): whether the classifier learns from them


class Judged(NamedTuple):
    """What one halving of the rows found."""

    auc: float
    codes: Indices  # (r,), of the replaced rows
    far: Mask  # (r,)


@dataclass(frozen=True, eq=False)
class Surroundings:
    """Some rows of a table, copied: replaced rows are compared with them whenever somebody asks."""

    table: Table
    index: Indices  # where the rows stood in the whole table

    @classmethod
    def of(cls, table: Table, weight: Floats | None = None) -> Self:
        """At most `MOST_ROWS` rows, spread over the table (by weight); a copy of a few microseconds a column.

        What is asked for late must not hang on a table that changed meanwhile, nor keep all of it alive.
        """
        most = max(MOST_ROWS // 10, min(MOST_ROWS, MOST_CELLS // len(table.names)))
        flat = weight is None or bool((weight == weight[0]).all())
        if flat and table.n <= most:
            index = np.arange(table.n)
        else:
            # One from each of so many equal stretches: no row twice, and no rhythm that a sorted table could have.
            m = min(most, table.n)
            place = (np.arange(m) + np.random.default_rng(0).random(m)) / m
            if weight is None or flat:
                index = (place * table.n).astype(np.intp)
            else:
                index = np.unique(np.searchsorted(np.cumsum(weight), place * (1 - 1e-12)))
        return cls(replace(table, native=table.rows(index), n=len(index)), index)

    @property
    def n(self) -> int:
        """How many rows are looked at."""
        return self.table.n

    @cached_property
    def scored(self) -> tuple[ScoredColumn, ...]:
        """Every column in few numbers."""
        return tuple(score_column(self.table.column(j)) for j in range(len(self.table.names)))

    @cached_property
    def scores(self) -> Floats:
        """All of these numbers beside each other, (n, D)."""
        return np.hstack([column.scores for column in self.scored])

    @cached_property
    def column_of(self) -> Indices:
        """Whose number each of them is, (D,)."""
        return np.repeat(np.arange(len(self.scored)), [column.by_value.shape[1] for column in self.scored])

    def judge(self, name: str, columns: Sequence[int], classifier: Any = None, seed: int = 0) -> Extrapolation:
        """Rows that take values of donors from everywhere."""
        rng = np.random.default_rng([seed, 20])
        own, codes = Own.of([self.scored[j] for j in columns]), self._codes(columns)

        def once() -> Judged:
            half = rng.permutation(self.n) % 2
            rows, donors, learns = _donors(half, rng)
            replaced = Replaced(rows, own.scores[donors], codes[donors], learns)
            if classifier is None:
                return _judged(replaced, half, self._odds(columns, own, replaced, half))
            return _judged(
                replaced, half, _Guesses(self.table, tuple(columns), classifier).odds(half, replaced, donors)
            )

        return self._found(name, columns, own, once)

    def judge_values(self, name: str, columns: Sequence[int], rows: Indices, values: Sequence[Any]) -> Extrapolation:
        """Rows that were given values by another way than from all donors, such as conditional samplers.

        Parameters
        ----------
        rows
            (r,), positions among the rows of this object (`index` says where they stood in the whole table).
        values
            For each of the feature's columns what these rows hold instead, (r,).
        """
        rng = np.random.default_rng(20)
        own = Own.of([self.scored[j] for j in columns])
        codes = self.scored[columns[0]].nearest(values[0]) if len(columns) == 1 else np.zeros(len(rows), np.intp)
        replaced = Replaced(rows, own.of_values(values), codes, np.ones(len(rows), bool))

        def once() -> Judged:
            half = rng.permutation(self.n) % 2
            return _judged(replaced, half, self._odds(columns, own, replaced, half))

        return replace(self._found(name, columns, own, once), drawn=True)

    def _codes(self, columns: Sequence[int]) -> Indices:
        return self.scored[columns[0]].distinct.codes if len(columns) == 1 else np.zeros(self.n, np.intp)

    def _odds(self, columns: Sequence[int], own: Own, replaced: Replaced, half: Indices) -> tuple[Floats, Floats]:
        """Log odds of being replaced, from the half that a row is not in: of the real rows, of the replaced ones."""
        real, changed = np.zeros(self.n), np.zeros(len(replaced.rows))
        if own.scores.shape[1] == 0 or not self._others(columns).any():
            return real, changed
        for side in (0, 1):
            seen, unseen = (np.flatnonzero(half == part) for part in (side, 1 - side))
            learns = (half[replaced.rows] == side) & replaced.learns
            judged = half[replaced.rows] != side
            terms = _Terms.of(self, columns, own, seen)
            table = np.vstack([terms(seen, own.scores[seen]), terms(replaced.rows[learns], replaced.own[learns])])
            answer = np.repeat([0.0, 1.0], [len(seen), learns.sum()])
            weight = np.where(answer > 0, len(seen) / max(learns.sum(), 1), 1.0)
            coefficients = column_scores.fit(table, answer, weight, terms.penalty)
            real[unseen] = terms(unseen, own.scores[unseen]) @ coefficients
            changed[judged] = terms(replaced.rows[judged], replaced.own[judged]) @ coefficients
        return real, changed

    def _found(self, name: str, columns: Sequence[int], own: Own, once: Callable[[], Judged]) -> Extrapolation:
        """Few rows are halved several times: what is found hangs less on how they fell."""
        if self.n < LEAST_ROWS:
            return Extrapolation(name, np.nan, np.nan, np.empty(0), np.empty(0))
        every = [once() for _ in range(_times(self.n, HALVINGS))]
        codes, far = (np.concatenate([getattr(one, part) for one in every]) for part in ("codes", "far"))
        grid, at = np.empty(0), np.empty(0)
        if len(columns) == 1:
            grid, at = along(self.scored[columns[0]].distinct, codes, far)
        threshold = max(WARNING, 0.5 + LUCK / np.sqrt(self.n))
        auc, share = float(np.mean([one.auc for one in every])), float(far.mean())
        return Extrapolation(name, auc, share, grid, at, self._ties(columns, own), float(threshold))

    def _others(self, columns: Sequence[int]) -> Mask:
        """Which columns may tell something of a feature, (p,)."""
        found = np.bincount(self.column_of, minlength=len(self.scored)) > 0
        found[list(columns)] = False
        return found

    def related(self, columns: Sequence[int], own: Own, rows: Indices) -> Floats:
        """How much each column hangs together with a feature, less what chance gives; -inf for its own, (p,)."""
        together = (own.scores[rows].T @ self.scores[rows] / len(rows)) ** 2
        found = np.bincount(self.column_of, together.sum(axis=0), len(self.scored))
        chance = np.bincount(self.column_of, minlength=len(self.scored)) * own.scores.shape[1] / len(rows)
        return np.where(self._others(columns), found - chance, -np.inf)

    def _ties(self, columns: Sequence[int], own: Own) -> tuple[str, ...]:
        """The column that a feature hangs together with most, and a second one that does half as much."""
        related = self.related(columns, own, np.arange(self.n))
        size = np.bincount(self.column_of, minlength=len(self.scored)) * own.scores.shape[1]
        order = np.argsort(-related, kind="stable")[:2]
        best = related[order[0]]
        named = [j for j in order if related[j] >= best / 2 and related[j] > (CLEAR - 1) * size[j] / self.n]
        return tuple(self.table.names[j] for j in named)


@dataclass(frozen=True, eq=False)
class _Terms:
    """What the classifier reads of rows with some value of the feature."""

    scores: Floats  # (n, D), of the columns that take part
    mean: Floats  # (n, d): what these say of the feature
    spread: Floats  # (d,): mean square of the feature around it
    penalty: Floats

    @classmethod
    def of(cls, around: Surroundings, columns: Sequence[int], own: Own, seen: Indices) -> Self:
        """Columns are chosen, and the mean is learnt, among the rows seen: the others must not have a say."""
        related = around.related(columns, own, seen)
        most = np.sort(np.argsort(-related, kind="stable")[:RELATED])
        chosen = np.isin(around.column_of, most[np.isfinite(related[most])])
        scores = around.scores[:, chosen]
        gram = scores[seen].T @ scores[seen] + RIDGE_MEAN * np.eye(scores.shape[1])
        mean = scores @ np.linalg.solve(gram, scores[seen].T @ own.scores[seen])
        spread = ((own.scores[seen] - mean[seen]) ** 2).mean(axis=0)
        others = np.concatenate([around.scored[j].degree for j in most if np.isfinite(related[j])])
        products = ((own.degree[:, None] + others) / 2) ** 2
        penalty = [[0.0], own.degree**2, others**2, products.ravel()]
        return cls(
            scores, mean, np.maximum(spread, 1e-6),
            RIDGE * np.concatenate([*penalty, np.full(3 * len(own.degree), RIDGE_RESIDUAL)]),
        )  # fmt: skip

    def __call__(self, rows: Indices, own: Floats) -> Floats:
        scores, mean = self.scores[rows], self.mean[rows]
        products = (own[:, :, None] * scores[:, None, :]).reshape(len(rows), -1)
        residual = np.log1p((own - mean) ** 2 / self.spread)  # its logarithm: a close tie leaves far rows very far
        return np.hstack([np.ones((len(rows), 1)), own, scores, products, residual, own * mean, mean**2])


def _donors(half: Indices, rng: np.random.Generator) -> tuple[Indices, Indices, Mask]:
    """Rows, donors from their own half, and whether to learn from them: a replaced row is made of one half alone."""
    learnt = _times(len(half), DONORS)
    rows, donors, learns = [], [], []
    for side in (0, 1):
        mine = rng.permutation(np.flatnonzero(half == side))
        shifts = 1 + rng.permutation(len(mine) - 1)[:DONORS]
        for turn, shift in enumerate(shifts):
            rows.append(mine)
            donors.append(np.roll(mine, shift))
            learns.append(np.full(len(mine), turn < learnt))
    return np.concatenate(rows), np.concatenate(donors), np.concatenate(learns)


def _times(n: int, most: int) -> int:
    """How often the same is done again where the rows are few."""
    return max(1, min(most, TRAINED // n))


def _judged(replaced: Replaced, half: Indices, odds: tuple[Floats, Floats]) -> Judged:
    """From log odds of the real and of the replaced rows, each known from the half that it is not in."""
    real, changed = odds
    side = half[replaced.rows]
    auc = float(np.mean([_auc(real[half == part], changed[side == part]) for part in (0, 1)]))
    return Judged(auc, replaced.codes, _calibrated(real, changed) > np.log(RARER))


def _auc(real: Floats, changed: Floats) -> float:
    """How often a replaced row has the larger odds of the two, ties counting half."""
    if not len(real) or not len(changed):
        return 0.5
    ordered = np.sort(real)
    below, up_to = (np.searchsorted(ordered, changed, side=end) for end in ("left", "right"))
    return float((below + up_to).mean() / 2 / len(real))


def _calibrated(real: Floats, changed: Floats) -> Floats:
    """Log odds of the replaced rows as the rows that were not learnt from bear them out.

    With few rows and many columns a classifier is too sure of itself; two numbers put that right.
    """
    both = np.clip(np.concatenate([real, changed]), -30, 30)
    answer = np.repeat([0.0, 1.0], [len(real), len(changed)])
    weight = np.where(answer > 0, len(real) / max(len(changed), 1), 1.0)
    shift, slope = column_scores.fit(np.column_stack([np.ones(len(both)), both]), answer, weight, np.array([0.0, 1e-3]))
    return np.asarray(shift + max(slope, 0.0) * both[len(real) :])


def along(distinct: Distinct, codes: Indices, far: Mask) -> tuple[NDArray[Any], Floats]:
    """The share of far cells along a feature: at each of its values, or in rank bins where they are many."""
    count = np.bincount(codes, minlength=len(distinct)).astype(float)
    hit = np.bincount(codes, far, minlength=len(distinct))
    met = np.flatnonzero(count)
    if len(met) <= BINS or distinct.values.dtype.kind not in "biufmM":
        return distinct.values[met], hit[met] / count[met]
    present = count.copy()
    if distinct.values.dtype.kind in "fmM" and bool(distinct.values[-1] != distinct.values[-1]):
        present[-1] = 0  # a missing value is no neighbour of the largest
    middle = (np.cumsum(present) - present / 2) / present.sum()
    bins = np.where((count > 0) & (present == 0), BINS, np.minimum((middle * BINS).astype(np.intp), BINS - 1))
    mass, hits = np.bincount(bins, count), np.bincount(bins, hit)
    held = np.flatnonzero(mass)
    wanted = [met[bins[met] == b] for b in held]
    at = [some[np.searchsorted(np.cumsum(count[some]), count[some].sum() / 2)] for some in wanted]
    return distinct.values[at], hits[held] / mass[held]


@dataclass(frozen=True, eq=False)
class _Guesses:
    """A classifier of the user's own, asked for the same thing; it sees tables like the user's."""

    table: Table
    columns: tuple[int, ...]
    classifier: Any

    def odds(self, half: Indices, replaced: Replaced, donors: Indices) -> tuple[Floats, Floats]:
        real, changed = np.zeros(self.table.n), np.zeros(len(donors))
        for side in (0, 1):
            seen, unseen = (np.flatnonzero(half == part) for part in (side, 1 - side))
            learns = np.flatnonzero((half[replaced.rows] == side) & replaced.learns)[: len(seen)]
            judged = half[replaced.rows] != side
            model = _unfitted(self.classifier)
            mixed = self._mixed(np.concatenate([seen, replaced.rows[learns]]), np.concatenate([seen, donors[learns]]))
            model.fit(mixed, np.repeat([0, 1], [len(seen), len(learns)]))
            real[unseen] = self._odds(model, unseen, unseen)
            changed[judged] = self._odds(model, replaced.rows[judged], donors[judged])
        return real, changed

    def _mixed(self, rows: Indices, donors: Indices) -> Any:
        """Rows with the feature's values of donors."""
        edits = [Edit(0, len(rows), j, self.table.column(j), donors) for j in self.columns]
        return Batch(self.table).fill(rows, edits)

    def _odds(self, model: Any, rows: Indices, donors: Indices) -> Floats:
        chance = np.asarray(model.predict_proba(self._mixed(rows, donors)), float)[:, 1]
        chance = np.clip(chance, 1e-6, 1 - 1e-6)
        return np.asarray(np.log(chance / (1 - chance)))


def _unfitted(classifier: Any) -> Any:
    try:
        from sklearn.base import clone
    except ImportError:  # any object with fit and predict_proba will do
        from copy import deepcopy

        return deepcopy(classifier)
    return clone(classifier, safe=False)
