"""A column given others: predictions and residuals of numbers, class probabilities of categories and few values.

A draw of a number is the row's prediction plus the residual of a *neighbour*: a row with a similar prediction and a
similar expected size of the residual. So residuals may have another spread, or another shape, where the other columns
have other values; and what the regression gets wrong in a neighbourhood is in the prediction and, with the other sign,
in the residual. Numbers are predicted by a ridge regression on them and on natural cubic splines of them, or by trees.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from losslens.blas import one_thread
from losslens.tables.columns import Column
from losslens.tables.numbers import cloned, scikit_learn
from losslens.typing import Floats, Indices

KNOTS = 12  # of a column, at most
MOST_TERMS = 200  # of all columns, about: with many columns each has fewer knots
ROWS_A_TERM = 4  # at least
MOST_ROWS = 2000  # that decide knots and scales
STRAIGHT = 30.0  # linear terms are this many times larger than curved ones: a ridge penalty hardly touches them


@dataclass(frozen=True, eq=False)
class SmoothTerms:
    """Knots and scales of every column; as a function, the standardised terms of some rows."""

    knots: Sequence[Floats]  # of each column; fewer than three: a line
    middle: Floats  # of all terms
    scale: Floats

    @classmethod
    def of(cls, columns: Floats) -> Self:
        """Knots between quantiles of these rows and even steps: few rows far out may lie on a bend, too."""
        n, p = columns.shape
        most = min(KNOTS, min(MOST_TERMS, n // ROWS_A_TERM) // max(p, 1))
        columns = columns[:: -(-n // MOST_ROWS)] if n > MOST_ROWS else columns
        knots = [_knots(column, most) for column in columns.T]
        terms = _terms(columns, knots)
        spread = terms.std(axis=0)
        heavy = np.concatenate([[STRAIGHT, *[1.0] * max(len(some) - 2, 0)] for some in knots]) if knots else np.empty(0)
        return cls(knots, terms.mean(axis=0), np.where(spread > 0, spread, 1.0) / heavy)

    def __call__(self, columns: Floats) -> Floats:
        """The terms of some rows, (n, d)."""
        return np.asarray((_terms(columns, self.knots) - self.middle) / self.scale)


def _knots(column: Floats, most: int) -> Floats:
    if most < 3 or len(np.unique(column)) < most:
        return np.empty(0)
    even = np.linspace(column.min(), column.max(), most)
    return np.unique((np.quantile(column, np.linspace(0, 1, most)) + even) / 2)


def _terms(columns: Floats, knots: Sequence[Floats]) -> Floats:
    parts = [_curve(column, some) for column, some in zip(columns.T, knots, strict=True)]
    return np.concatenate([np.empty((len(columns), 0)), *parts], axis=1)


def _curve(column: Floats, knots: Floats) -> Floats:
    """The column, and for each inner knot a cubic spline that is straight beyond the outermost knots, (n, 1 + k)."""
    if len(knots) < 3:
        return column[:, None]
    width = knots[-1] - knots[0]
    cubes = np.maximum((column[:, None] - knots) / width, 0.0) ** 3
    sides = (cubes[:, :-1] - cubes[:, -1:]) * width / (knots[-1] - knots[:-1])
    return np.column_stack([column, sides[:, :-1] - sides[:, -1:]])


Error = Callable[[Any, Floats, Any], float]  # of a fitted estimator on some rows
FEW = 10  # numbers with at most so many distinct values are drawn as categories
FOLDS, SMOOTH_FOLDS = 5, 10  # of estimators; of smooth curves, which are cheap to fit
PENALTIES = np.logspace(-3, 4, 15)  # of smooth curves; the best one is chosen out of fold
PART = 1024  # rows whose terms are held together
CLEARLY = 1.1  # curves are preferred unless their error on a held-out fold is this many times that of trees
NEIGHBOURS = 10  # rows, or groups, of a neighbourhood at least; the square root of their number, if that is more
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
    integers = column.array.dtype.kind in "iu" or bool(np.all(observed == np.round(observed)))
    if not integers:
        return values
    return np.clip(np.round(values), observed.min(), observed.max())  # within the range of the type


@dataclass(frozen=True, eq=False)
class Residuals:
    """Predictions of a column, its residuals, and the expected sizes of these."""

    expected: Floats  # (n,)
    residual: Floats  # (n,); NaN where the value is missing
    size: Floats  # (n,): the expected absolute residual
    explained: float

    @classmethod
    def of(cls, column: Column, others: Floats, rows: Indices, regressor: Any, folds: Folds, name: str) -> Residuals:
        """Out-of-fold predictions by models fitted to `rows`."""
        values = np.asarray(column.array, float)
        present = rows[np.isfinite(values[rows])]
        if len(present) < 2 * FOLDS:
            raise ValueError(f"column {name!r} has {len(present)} values; residuals need {2 * FOLDS}: use Within()")
        if others.shape[1] == 0:
            expected, size = np.full(len(values), values[present].mean()), np.ones(len(values))
        else:
            terms = SmoothTerms.of(others[rows])
            expected, smooth = _expected(values, present, others, terms, regressor, folds)
            deviation = np.abs(values - expected)
            if smooth or regressor is not None:
                size = _smoothed(terms, others, deviation, present, folds)
            else:
                size = _out_of_fold(_boosted(len(present)), others, deviation, present, folds)
        residual = values - expected
        spread = values[present].var()
        explained = 1 - float(np.square(residual[present]).mean() / spread) if spread > 0 else 0.0
        return cls(expected, residual - residual[present].mean(), size, max(explained, 0.0))

    @property
    def middle(self) -> float:
        """Stands for missing values."""
        return float(np.median(self.expected))

    @property
    def likeness(self) -> Floats:
        """Rows are neighbours where both numbers are close: prediction and size, in mean sizes, (n, 2)."""
        scale = np.nanmean(np.abs(self.residual)) or 1.0
        return np.column_stack([self.expected, self.size]) / scale

    def of_donors(self, donors: Indices) -> Floats:
        """Each row's prediction plus a donor's residual, (m, n); NaN where the donor's value is missing."""
        values = self.residual[donors]
        values += self.expected
        return np.asarray(values)


def neighbourhoods(likeness: Floats, block: Indices | None) -> Indices:
    """Rows in neighbourhoods, numbered, (n,): halved along the most variable column as long as halves are large enough.

    A half ends at the widest gap in its middle, so that rows with the same values of few-valued columns stay together.
    """
    label, waiting = np.zeros(len(likeness), np.intp), [np.arange(len(likeness))]
    everyone = len(likeness) if block is None else len(np.unique(block))
    least, count = max(NEIGHBOURS, round(np.sqrt(everyone))), 0
    while waiting:
        rows = waiting.pop()
        values = likeness[rows, int(np.argmax(likeness[rows].std(axis=0)))]
        order = np.argsort(values, kind="stable")
        quarter = len(rows) // 4
        gaps = np.diff(values[order])[quarter : len(rows) - quarter]
        halves = np.split(rows[order], [quarter + 1 + int(np.argmax(gaps))]) if len(gaps) and gaps.max() > 0 else []
        sizes = [len(half) if block is None else len(np.unique(block[half])) for half in halves]
        if halves and min(sizes) >= least:
            waiting += halves
        else:
            label[rows], count = count, count + 1
    return label


def _expected(
    values: Floats, present: Indices, others: Floats, terms: SmoothTerms, regressor: Any, folds: Folds
) -> tuple[Floats, bool]:
    """Out-of-fold predictions, and whether they are those of smooth curves: boosted trees if they predict better."""
    if regressor is not None:
        return _out_of_fold(regressor, others, values, present, folds), False
    smooth = _smoothed(terms, others, values, present, folds)
    trees, (train, test) = _boosted(len(present)), (np.intersect1d(part, present) for part in next(folds.parts))
    fitted = _fit(trees, others[train], values[train], folds.seed)
    if np.square(values[test] - smooth[test]).mean() <= CLEARLY * _squared_error(fitted, others[test], values[test]):
        return smooth, True
    return _out_of_fold(trees, others, values, present, folds), False


@one_thread()
def _smoothed(terms: SmoothTerms, others: Floats, values: Floats, present: Indices, folds: Folds) -> Floats:
    """Out-of-fold predictions of a ridge regression on these terms, with the penalty that predicts best.

    Sums of products are added up over parts of the rows: terms of all rows would take more memory than the table.
    """
    start = values[present].mean()
    inside = [_products(terms, others, values - start, np.intersect1d(test, present)) for _, test in folds.smooth]
    total, fits, errors = np.sum(inside, axis=0), [], np.zeros(len(PENALTIES))
    for products in inside:
        slopes = _ridge(total - products)
        errors += np.einsum("kp,kl,lp->p", slopes, products, slopes)
        fits.append(slopes)
    expected, best = np.empty(len(values)), int(np.argmin(errors))
    for (_, test), slopes in zip(folds.smooth, fits, strict=True):
        for rows in _in_parts(test):
            expected[rows] = start + slopes[0, best] + terms(others[rows]) @ slopes[1:-1, best]
    return expected


def _products(terms: SmoothTerms, others: Floats, values: Floats, rows: Indices) -> Floats:
    """Sums over rows of the products of 1, the terms and the value, (d + 2, d + 2)."""
    total: Floats | float = 0.0
    for some in _in_parts(rows):
        row = np.column_stack([np.ones(len(some)), terms(others[some]), values[some]])
        total = total + row.T @ row
    return np.asarray(total)


def _ridge(products: Floats) -> Floats:
    """Intercept and slopes for each penalty, and -1 for the value: the residual is minus their sum, (d + 2, .)."""
    mean = products[0] / products[0, 0]
    centred = products[1:, 1:] - products[0, 0] * np.outer(mean[1:], mean[1:])
    size, axes = np.linalg.eigh(centred[:-1, :-1])
    rotated = axes.T @ centred[:-1, -1]
    slopes = axes @ (rotated[:, None] / (np.maximum(size, 0)[:, None] + PENALTIES))
    return np.vstack([mean[-1] - mean[1:-1] @ slopes, slopes, np.full(len(PENALTIES), -1.0)])


def _in_parts(rows: Indices) -> list[Indices]:
    return np.array_split(rows, -(-len(rows) // PART) or 1)


def _best(candidates: list[Any], others: Floats, aim: NDArray[Any], rows: Indices, folds: Folds, error: Error) -> Any:
    """The estimator with the least error on a held-out fold of these rows."""
    parts = ([np.intersect1d(part, rows) for part in both] for both in folds.parts)
    train, test = next(both for both in parts if all(map(len, both)))  # few groups may leave a fold empty
    errors = [error(_fit(one, others[train], aim[train], folds.seed), others[test], aim[test]) for one in candidates]
    return candidates[int(np.argmin(errors))]


def _squared_error(fitted: Any, others: Floats, values: Floats) -> float:
    return float(np.square(values - fitted.predict(others)).mean())


def _log_loss(fitted: Any, others: Floats, codes: Indices) -> float:
    chances = np.full((len(codes), int(max(codes.max(), fitted.classes_.max())) + 1), 1e-12)
    chances[:, fitted.classes_] = np.maximum(fitted.predict_proba(others), 1e-12)
    return float(-np.log(chances[np.arange(len(codes)), codes]).mean())


def _boosted(rows: int) -> Any:
    """Boosted trees; with few rows their leaves are smaller, or they could not follow a curve."""
    leaf = int(np.clip(rows // 50, 5, 20))
    return scikit_learn("ensemble").HistGradientBoostingRegressor(min_samples_leaf=leaf)


def _classifiers(values: int, terms: SmoothTerms) -> list[Any]:
    pipeline, linear, scale = scikit_learn("pipeline"), scikit_learn("linear_model"), scikit_learn("preprocessing")
    steps = scale.StandardScaler(), linear.LogisticRegression(max_iter=1000)
    straight, curved = (pipeline.make_pipeline(*first, *steps) for first in ((), (scale.FunctionTransformer(terms),)))
    # Boosting grows trees for each class: too slow for many.
    trees = [scikit_learn("ensemble").HistGradientBoostingClassifier()] if values <= FEW else []
    return [straight, curved, *trees]


def _out_of_fold(estimator: Any, others: Floats, values: Floats, present: Indices, folds: Folds) -> Floats:
    expected = np.empty(len(values))
    for train, test in folds.parts:
        if not len(test):  # there are fewer groups than folds
            continue
        rows = np.intersect1d(train, present)
        fitted = cloned(estimator, folds.seed).fit(others[rows], values[rows])
        expected[test] = np.asarray(fitted.predict(others[test]), float).reshape(-1)
    return expected


Part = tuple[Indices, Indices]  # the rows outside and inside a fold


@dataclass(frozen=True, eq=False)
class Folds:
    """Folds of rows, and the seed of what is fitted; groups of rows stay together."""

    fine: Indices  # (n,), of `SMOOTH_FOLDS`: each is in one of the `FOLDS`
    seed: int

    @classmethod
    def draw(cls, n: int, block: Indices | None, seed: int) -> Folds:
        """Folds of about equally many rows, or groups."""
        unit = np.arange(n) if block is None else np.unique(block, return_inverse=True)[1].reshape(-1)
        return cls((np.random.default_rng(seed).permutation(unit.max() + 1) % SMOOTH_FOLDS)[unit], seed)

    @property
    def fold(self) -> Indices:
        """The fold of each row, (n,)."""
        return self.fine % FOLDS

    @property
    def parts(self) -> Iterator[Part]:
        """The folds of estimators."""
        return _parts(self.fold, FOLDS)

    @property
    def smooth(self) -> Iterator[Part]:
        """The folds of smooth curves."""
        return _parts(self.fine, SMOOTH_FOLDS)


def _parts(fold: Indices, count: int) -> Iterator[Part]:
    for k in range(count):
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
    def of(cls, column: Column, others: Floats, rows: Indices, classifier: Any, folds: Folds) -> Chances:
        """The classifier, or the best of a few, fitted to some rows."""
        codes, fold = column.distinct.codes, folds.fold
        shares = np.bincount(codes[rows], minlength=len(column.distinct)) / len(rows)
        if others.shape[1] == 0 or np.sum(shares > 0) < 2:
            return cls((None,) * FOLDS, fold, len(shares), shares, 0.0)
        if classifier is None:
            candidates = _classifiers(len(shares), SmoothTerms.of(others[rows]))
            classifier = _best(candidates, others, codes, rows, folds, _log_loss)
        parts = [[np.intersect1d(part, rows) for part in both] for both in folds.parts]
        fitted = [_fit(classifier, others[train], codes[train], folds.seed) for train, _ in parts]
        errors = [
            len(test) * _log_loss(one, others[test], codes[test])
            for one, (_, test) in zip(fitted, parts, strict=True)
            if len(test)
        ]
        nothing = -len(rows) * float(shares[shares > 0] @ np.log(shares[shares > 0]))
        return cls(fitted, fold, len(shares), shares, max(0.0, 1 - sum(errors) / nothing))

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
