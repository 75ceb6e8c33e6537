"""A column given others: predictions and residuals of numbers, class probabilities of categories and few values."""

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
FEW = 10  # numbers with at most so many distinct values are drawn as categories
FOLDS = 5
MOST_CLASSES = 100  # of a classifier


def by_classes(column: Column, name: str) -> bool:
    """Whether values are drawn with the probabilities of a classifier."""
    if len(column.distinct) <= FEW:
        return True
    if column.distinct.ordered and column.array.dtype.kind in "iuf":
        return False
    if column.array.dtype.kind in "mM" or len(column.distinct) > MOST_CLASSES:
        what = "dates" if column.array.dtype.kind in "mM" else f"{len(column.distinct):,} categories"
        raise ValueError(f"column {name!r} holds {what}, which Residual() can't draw; use Within()")
    return True


def rounded_like(values: Floats, column: Column) -> NDArray[Any]:
    """Values rounded to whole numbers if the column holds whole numbers only."""
    observed = column.array[~np.isnan(column.array)] if column.array.dtype.kind == "f" else column.array
    whole = column.array.dtype.kind in "iu" or bool(np.all(observed == np.round(observed)))
    if not whole:
        return values
    return np.clip(np.round(values), observed.min(), observed.max())  # within the range of the type


@dataclass(frozen=True, eq=False)
class Residuals:
    """Predictions of a column and its residuals."""

    expected: Floats  # (n,)
    residual: Floats  # (n,); NaN where the value is missing
    explained: float

    @classmethod
    def of(cls, column: Column, others: Floats, rows: Indices, regressor: Any, seed: int, name: str) -> Residuals:
        """Out-of-fold predictions by models fitted to `rows`."""
        values = np.asarray(column.array, float)
        present = rows[np.isfinite(values[rows])]
        if len(present) < 2 * FOLDS:
            raise ValueError(f"column {name!r} has {len(present)} values; residuals need {2 * FOLDS}: use Within()")
        expected = _expected(values, present, others, regressor, seed)
        residual = values - expected
        spread = values[present].var()
        explained = 1 - float(np.square(residual[present]).mean() / spread) if spread > 0 else 0.0
        return cls(expected, residual - residual[present].mean(), max(explained, 0.0))

    @property
    def middle(self) -> float:
        """Stands for missing values."""
        return float(np.median(self.expected))

    def of_donors(self, donors: Indices) -> Floats:
        """Each row's prediction plus a donor's residual, (m, n); NaN where the donor's value is missing."""
        values = self.residual[donors]
        values += self.expected
        return np.asarray(values)


def _expected(values: Floats, known: Indices, others: Floats, regressor: Any, seed: int) -> Floats:
    if others.shape[1] == 0:
        return np.full(len(values), values[known].mean())
    if regressor is None:
        regressor = _best(_regressors(), others, values, known, seed, _squared_error)
    return _out_of_fold(regressor, others, values, known, seed)


def _best(candidates: list[Any], others: Floats, aim: NDArray[Any], rows: Indices, seed: int, error: Error) -> Any:
    """The estimator with the least error on a held-out fold of these rows."""
    train, test = (rows[fold] for fold in next(_folds(len(rows), seed)))
    errors = [error(_fit(one, others[train], aim[train], seed), others[test], aim[test]) for one in candidates]
    return candidates[int(np.argmin(errors))]


def _squared_error(fitted: Any, others: Floats, values: Floats) -> float:
    return float(np.square(values - fitted.predict(others)).mean())


def _log_loss(fitted: Any, others: Floats, codes: Indices) -> float:
    known = np.full((len(codes), int(max(codes.max(), fitted.classes_.max())) + 1), 1e-12)
    known[:, fitted.classes_] = np.maximum(fitted.predict_proba(others), 1e-12)
    return float(-np.log(known[np.arange(len(codes)), codes]).mean())


def _regressors() -> list[Any]:
    pipeline, linear, scale = scikit_learn("pipeline"), scikit_learn("linear_model"), scikit_learn("preprocessing")
    ridge = linear.Ridge(alpha=1e-3, copy_X=False)  # scaled numbers are a copy
    straight = pipeline.make_pipeline(scale.StandardScaler(), ridge)
    return [straight, scikit_learn("ensemble").HistGradientBoostingRegressor()]


def _classifiers(values: int) -> list[Any]:
    pipeline, linear, scale = scikit_learn("pipeline"), scikit_learn("linear_model"), scikit_learn("preprocessing")
    straight = pipeline.make_pipeline(scale.StandardScaler(), linear.LogisticRegression(max_iter=1000))
    # Boosting grows trees for each class: too slow for many.
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
    """Out-of-fold probabilities of a column's values given other columns."""

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
            classifier = _best(_classifiers(len(shares)), others, codes, rows, seed, _log_loss)
        folds = [(np.intersect1d(train, rows), np.intersect1d(test, rows)) for train, test in folds]
        fitted = [_fit(classifier, others[train], codes[train], seed) for train, _ in folds]
        errors = [_log_loss(one, others[test], codes[test]) for one, (_, test) in zip(fitted, folds, strict=True)]
        nothing = -float(shares[shares > 0] @ np.log(shares[shares > 0]))
        return cls(fitted, fold, len(shares), shares, max(0.0, 1 - float(np.mean(errors)) / nothing))

    def of_rows(self, others: Floats) -> Floats:
        """Out-of-fold probabilities of rows, or of all rows repeated."""
        chances = np.zeros((len(others), self.values))
        fold = np.tile(self.fold, len(others) // len(self.fold))
        for k, fitted in enumerate(self.fitted):
            rows = np.flatnonzero(fold == k)
            if fitted is None:
                chances[rows] = self.shares
            elif len(rows):
                chances[np.ix_(rows, np.asarray(fitted.classes_, np.intp))] = fitted.predict_proba(others[rows])
        return chances

    def drawn(self, others: Floats, n: int, m: int, rng: np.random.Generator) -> Indices:
        """m values for each of n rows, draw by draw."""
        cumulative = np.cumsum(self.of_rows(others), axis=1)
        cumulative = cumulative if len(cumulative) == n * m else np.tile(cumulative, (m, 1))
        uniform = rng.random(n * m)[:, None] * cumulative[:, -1:]
        return np.asarray(np.minimum(np.sum(cumulative <= uniform, axis=1), self.values - 1))


def _fit(estimator: Any, others: Floats, aim: NDArray[Any], seed: int) -> Any:
    """A fitted clone; with a single class there is nothing to fit."""
    if aim.dtype.kind == "i" and len(np.unique(aim)) < 2:
        return _SingleClass(int(aim[0]))
    return cloned(estimator, seed).fit(others, aim)


class _SingleClass:
    """Predicts the only class there is."""

    def __init__(self, code: int) -> None:
        self.classes_ = np.array([code])

    def predict_proba(self, others: Floats) -> Floats:
        """1 for every row."""
        return np.ones((len(others), 1))
