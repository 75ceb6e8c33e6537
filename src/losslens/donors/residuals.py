"""A column given others: predictions and residuals of numbers, probabilities of values of which there are few."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from losslens.tables.columns import Column
from losslens.tables.numbers import cloned, scikit_learn
from losslens.typing import Floats, Indices

Error = Callable[[Any, Floats, Any], float]  # of a fitted estimator on some rows
FEW = 10  # numbers of so many values are drawn as words are
FOLDS = 5
MOST_CLASSES = 100  # of a classifier


def by_classes(column: Column, name: str) -> bool:
    """Whether values are drawn with the probabilities of a classifier."""
    if len(column.distinct) <= FEW:
        return True
    if column.distinct.ordered and column.array.dtype.kind in "iuf":
        return False
    if column.array.dtype.kind in "mM" or len(column.distinct) > MOST_CLASSES:
        what = "dates" if column.array.dtype.kind in "mM" else f"{len(column.distinct):,} words"
        raise ValueError(f"column {name!r} holds {what}, which no residual or classifier draws; use Within()")
    return True


def settled(values: Floats, column: Column) -> NDArray[Any]:
    """Whole numbers where the column has no others."""
    known = column.array[~np.isnan(column.array)] if column.array.dtype.kind == "f" else column.array
    whole = column.array.dtype.kind in "iu" or bool(np.all(known == np.round(known)))
    if not whole:
        return values
    return np.clip(np.round(values), known.min(), known.max())  # a type may hold no others


@dataclass(frozen=True, eq=False)
class Residuals:
    """What is expected of each row, and how far it is from that."""

    expected: Floats  # (n,)
    residual: Floats  # (n,); NaN where the value is missing
    explained: float

    @classmethod
    def of(cls, column: Column, others: Floats, rows: Indices, regressor: Any, seed: int, name: str) -> Residuals:
        """Predictions of models that have not seen the row; they learn from some rows."""
        values = np.asarray(column.array, float)
        known = rows[np.isfinite(values[rows])]
        if len(known) < 2 * FOLDS:
            raise ValueError(f"column {name!r} has {len(known)} known values; residuals need {2 * FOLDS}: use Within()")
        expected = _expected(values, known, others, regressor, seed)
        residual = values - expected
        spread = values[known].var()
        explained = 1 - float(np.square(residual[known]).mean() / spread) if spread > 0 else 0.0
        return cls(expected, residual - residual[known].mean(), max(explained, 0.0))

    @property
    def middle(self) -> float:
        """The number to go on with where one is missing."""
        return float(np.median(self.expected))

    def lent(self, donors: Indices) -> Floats:
        """Each row's expectation plus the residual of a donor; missing where the donor's value is, (m, n)."""
        return np.asarray(self.expected + self.residual[donors])


def _expected(values: Floats, known: Indices, others: Floats, regressor: Any, seed: int) -> Floats:
    if others.shape[1] == 0:
        return np.full(len(values), values[known].mean())
    if regressor is None:
        regressor = _best(_regressors(), others[known], values[known], seed, _squared_error)
    return _out_of_fold(regressor, others, values, known, seed)


def _best(candidates: list[Any], others: Floats, aim: NDArray[Any], seed: int, error: Error) -> Any:
    """The estimator that does best on rows that it has not seen, a fold of them."""
    train, test = next(_folds(len(aim), seed))
    found = [error(_fit(one, others[train], aim[train], seed), others[test], aim[test]) for one in candidates]
    return candidates[int(np.argmin(found))]


def _squared_error(fitted: Any, others: Floats, values: Floats) -> float:
    return float(np.square(values - fitted.predict(others)).mean())


def _log_loss(fitted: Any, others: Floats, codes: Indices) -> float:
    known = np.full((len(codes), int(max(codes.max(), fitted.classes_.max())) + 1), 1e-12)
    known[:, fitted.classes_] = np.maximum(fitted.predict_proba(others), 1e-12)
    return float(-np.log(known[np.arange(len(codes)), codes]).mean())


def _regressors() -> list[Any]:
    pipeline, linear, scale = scikit_learn("pipeline"), scikit_learn("linear_model"), scikit_learn("preprocessing")
    straight = pipeline.make_pipeline(scale.StandardScaler(), linear.Ridge(alpha=1e-3))
    return [straight, scikit_learn("ensemble").HistGradientBoostingRegressor()]


def _classifiers(values: int) -> list[Any]:
    pipeline, linear, scale = scikit_learn("pipeline"), scikit_learn("linear_model"), scikit_learn("preprocessing")
    straight = pipeline.make_pipeline(scale.StandardScaler(), linear.LogisticRegression(max_iter=1000))
    # Boosting grows trees for each value: too many of them.
    return [straight, scikit_learn("ensemble").HistGradientBoostingClassifier()] if values <= FEW else [straight]


def _out_of_fold(estimator: Any, others: Floats, values: Floats, known: Indices, seed: int) -> Floats:
    expected = np.empty(len(values))
    for train, test in _folds(len(values), seed):
        rows = np.intersect1d(train, known)
        fitted = cloned(estimator, seed).fit(others[rows], values[rows])
        expected[test] = np.asarray(fitted.predict(others[test]), float).reshape(-1)
    return expected


def _folds(n: int, seed: int) -> Iterator[tuple[Indices, Indices]]:
    fold = np.random.default_rng(seed).permutation(n) % FOLDS
    for k in range(FOLDS):
        yield np.flatnonzero(fold != k), np.flatnonzero(fold == k)


@dataclass(frozen=True, eq=False)
class Chances:
    """Probabilities of a column's values given others, by models fitted to all folds but one."""

    fitted: Sequence[Any]  # one a fold
    fold: Indices  # (n,)
    values: int  # how many there are
    shares: Floats  # of each value among all rows
    explained: float

    @classmethod
    def of(cls, column: Column, others: Floats, rows: Indices, classifier: Any, seed: int) -> Chances:
        """The classifier, or the better of two, fitted to some rows."""
        codes, n = column.distinct.codes, len(column.distinct.codes)
        shares = np.bincount(codes[rows], minlength=len(column.distinct)) / len(rows)
        fold = np.empty(n, np.intp)
        folds = list(_folds(n, seed))
        for k, (_, test) in enumerate(folds):
            fold[test] = k
        if others.shape[1] == 0 or len(shares) < 2:
            return cls((None,) * FOLDS, fold, len(shares), shares, 0.0)
        if classifier is None:
            classifier = _best(_classifiers(len(shares)), others[rows], codes[rows], seed, _log_loss)
        folds = [(np.intersect1d(train, rows), np.intersect1d(test, rows)) for train, test in folds]
        fitted = [_fit(classifier, others[train], codes[train], seed) for train, _ in folds]
        errors = [_log_loss(one, others[test], codes[test]) for one, (_, test) in zip(fitted, folds, strict=True)]
        nothing = -float(shares[shares > 0] @ np.log(shares[shares > 0]))
        return cls(fitted, fold, len(shares), shares, max(0.0, 1 - float(np.mean(errors)) / nothing))

    def of_rows(self, others: Floats) -> Floats:
        """Probabilities for rows, or for all rows several times over, by models that have not seen them."""
        found = np.zeros((len(others), self.values))
        fold = np.tile(self.fold, len(others) // len(self.fold))
        for k, fitted in enumerate(self.fitted):
            rows = np.flatnonzero(fold == k)
            if fitted is None:
                found[rows] = self.shares
            elif len(rows):
                found[np.ix_(rows, np.asarray(fitted.classes_, np.intp))] = fitted.predict_proba(others[rows])
        return found

    def drawn(self, others: Floats, n: int, m: int, rng: np.random.Generator) -> Indices:
        """m values for each of n rows, one draw of all rows behind the other."""
        reached = np.cumsum(self.of_rows(others), axis=1)
        reached = reached if len(reached) == n * m else np.tile(reached, (m, 1))
        ticket = rng.random(n * m)[:, None] * reached[:, -1:]
        return np.asarray(np.minimum(np.sum(reached <= ticket, axis=1), self.values - 1))


def _fit(estimator: Any, others: Floats, aim: NDArray[Any], seed: int) -> Any:
    """A fitted copy; where there is but one class, there is nothing to fit."""
    if aim.dtype.kind == "i" and len(np.unique(aim)) < 2:
        return _Only(int(aim[0]))
    return cloned(estimator, seed).fit(others, aim)


class _Only:
    """One value alone."""

    def __init__(self, code: int) -> None:
        self.classes_ = np.array([code])

    def predict_proba(self, others: Floats) -> Floats:
        """Certainty."""
        return np.ones((len(others), 1))
