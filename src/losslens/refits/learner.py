"""A learner: an estimator, its data and their folds, checked; fit on the training rows, explain on the test rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from losslens.models import input_of
from losslens.passes.task import Options
from losslens.progress import Tick, bar
from losslens.results.refits import Refits, Variance
from losslens.results.selection import split as by_label
from losslens.tables import checks
from losslens.tables.frames import Table, as_table
from losslens.tables.leakage import warn_of_target
from losslens.typing import Floats, Indices
from losslens.workers import Processes, Threads, choose_workers

Splits = tuple[tuple[Indices, Indices], ...]
Split = Callable[[NDArray[Any]], Splits]
Explain = Callable[..., Any]


@dataclass(frozen=True, eq=False)
class Learner:
    """An estimator, its data and how they are split, all checked."""

    estimator: Any
    table: Table
    y: NDArray[Any]
    split: Split  # a function of the target, which some splitters use
    splits: Splits  # of y
    exchangeable: tuple[Indices, ...]  # sets of rows whose targets are exchangeable under the null hypothesis
    fit_params: Mapping[str, Any]
    options: Options  # of the verb; `fold` derives those of a fold
    pairs: tuple[tuple[int, int], ...] = ()  # of folds that are left out together

    @property
    def weight(self) -> NDArray[Any] | None:
        """Weights of the rows in the explanation, not in the fit."""
        weight: NDArray[Any] | None = self.options.sample_weight
        return weight

    def explained(self, explain: Explain) -> Refits:
        """Fit and explain every fold; without every pair of folds, too, where the jackknife needs them."""
        count, pairs = len(self.splits), self.pairs
        with bar(count + len(pairs), "refitting", self.options.progress, "fits" if pairs else "folds") as tick:
            workers = choose_workers(self.options.n_jobs)
            folds = tuple(workers.map(_explain, (self, explain), [(k,) for k in range(count)], tick))
            if isinstance(workers, Threads | Processes):
                workers = replace(workers, n_jobs=min(workers.n_jobs, count))  # as many as share the memory
            by_pair = list(workers.map(_explain, (self, explain), pairs, tick))
        return Refits(
            folds=folds,
            tested=tuple(test for _, test in self.splits),
            trained=tuple(len(train) for train, _ in self.splits),
            n=self.table.n,
            backend=self.table.backend,
            without=_without_each(count, pairs, by_pair) if pairs else None,
        )

    def fold(self, k: int, explain: Explain) -> Any:
        """The result of one fold."""
        result = self.explained_by(self.fitted(self.splits[k][0], self.y), k, explain)
        result._importance  # noqa: B018 - results with curves only are an error before the other folds are fitted
        return result

    def without(self, pair: tuple[int, ...], explain: Explain) -> Floats:
        """The importances on each of two folds of a fit without both, (2, p).

        A fold has the same draw of donors with every fit: what it adds to the variance is then counted once.
        """
        first, second = pair
        model = self.fitted(np.setdiff1d(self.splits[first][0], self.splits[second][1]), self.y)
        return np.stack([self.explained_by(model, k, explain).unbiased for k in pair])

    def explained_by(self, model: Any, k: int, explain: Explain) -> Any:
        """The explanation of a model on the test rows of a fold."""
        test = self.splits[k][1]
        options = replace(
            self.options,
            sample_weight=None if self.weight is None else self.weight[test],
            random_state=int(np.random.SeedSequence([self.options.random_state, k]).generate_state(1)[0]),
            n_jobs=None,
            memory=max(self.options.memory // (len(self.splits) * (2 if self.pairs else 1)), 1),  # folds are kept
            progress=False,
        )
        return explain(model, self.table.at(test), self.y[test], options=options)

    def fitted(self, train: Indices, y: NDArray[Any]) -> Any:
        """A clone, fitted on these rows."""
        from sklearn.base import clone

        arguments = {name: _cut(value, train, self.table.n) for name, value in self.fit_params.items()}
        rows = input_of(self.estimator, self.table.rows(train))
        return clone(self.estimator).fit(rows, y[train], **arguments)


def _explain(shared: tuple[Learner, Explain], folds: tuple[int, ...], tick: Tick) -> Any:
    """The result of a fold, or the importances of a fit without two; an error names them."""
    learner, explain = shared
    try:
        result = learner.fold(*folds, explain) if len(folds) == 1 else learner.without(folds, explain)
    except Exception as error:
        count, which = len(learner.splits), " and ".join(str(k + 1) for k in folds)
        if len(folds) == 1:
            raise named(error, f"fold {which} of {count}") from error
        hint = "; use fewer folds, or variance='corrected'"
        raise named(error, f"the fit without folds {which} of {count}", hint) from error
    tick(1)
    return result


def _without_each(count: int, pairs: tuple[tuple[int, int], ...], by_pair: list[Floats]) -> Floats:
    """The importances without each fold, (K, p): means over the other folds, each of a fit without both."""
    total = np.zeros((count, by_pair[0].shape[1]))
    for (first, second), (on_first, on_second) in zip(pairs, by_pair, strict=True):
        total[first] += on_second
        total[second] += on_first
    return total / (count - 1)


def learner(
    estimator: Any, X: Any, y: Any, cv: Any, fit_params: Any, options: Options, variance: Variance = "corrected"
) -> Learner:
    """Check everything that does not need a fit."""
    if isinstance(estimator, type) or not hasattr(estimator, "fit") or not hasattr(estimator, "get_params"):
        raise TypeError(
            f"estimator must be a scikit-learn estimator with fit and get_params; got {type(estimator).__name__}. "
            "For a fitted model or a function use feature_importance"
        )
    if fit_params is not None and not (isinstance(fit_params, Mapping) and all(isinstance(k, str) for k in fit_params)):
        raise TypeError(f"fit_params maps names of arguments of fit to their values; got {fit_params!r}")
    if not checks.is_one_of(variance, ("corrected", "jackknife")):
        raise ValueError(f"variance is 'corrected' or 'jackknife'; got {variance!r}")
    table = as_table(X)
    if y is None:
        raise ValueError("y, the true values, is missing: a learner cannot be fitted without it")
    target = checks.rows_of(y, table.n, table.index)
    warn_of_target(table, target)
    groups, weight = options.groups, options.sample_weight
    groups = None if groups is None else checks.vector(groups, table.n, "groups", table.index)
    split = _splits(estimator, table.n, target, cv, groups, options.random_state)
    if weight is not None:
        checks.row_weights(weight, table.n, table.index)
        weight = checks.vector(weight, table.n, "sample_weight")
    splits = split(target)
    return Learner(
        estimator=estimator,
        table=table,
        y=target,
        split=split,
        splits=splits,
        exchangeable=_exchangeable(groups, table.n),
        fit_params={} if fit_params is None else dict(fit_params),
        options=replace(options, sample_weight=weight, groups=None),  # donors come from all test rows
        pairs=_pairs(splits, table.n) if variance == "jackknife" else (),
    )


def _pairs(splits: Splits, n: int) -> tuple[tuple[int, int], ...]:
    """All pairs of folds; an error where the folds are not parts of the rows."""
    times = np.bincount(np.concatenate([test for _, test in splits]), minlength=n)
    complementary = all(len(np.unique(train)) == len(train) == n - len(test) for train, test in splits)
    if not complementary or np.any(times != 1):
        raise ValueError(
            "variance='jackknife' needs folds that test every row once and are fitted on all other rows, such as "
            "cv=10, KFold or GroupKFold; for this cv use variance='corrected'"
        )
    if len(splits) < 3:
        raise ValueError("variance='jackknife' leaves out two folds at a time; it needs 3 or more: use cv=5 or 10")
    return tuple(combinations(range(len(splits)), 2))


def _splits(estimator: Any, n: int, y: NDArray[Any], cv: Any, groups: NDArray[Any] | None, entropy: int) -> Split:
    """How to split the rows for a target."""
    splitter = _splitter(estimator, y, cv, groups is not None, entropy)
    if not hasattr(splitter, "split"):
        listed = _checked(list(splitter), n)
        return lambda _: listed
    return lambda target: _checked(list(splitter.split(np.zeros((n, 1)), target, groups)), n)


def _checked(pairs: list[Any], n: int) -> Splits:
    """Folds as row positions, train and test; an error if one tests a row twice, or one that it was fitted on."""
    if len(pairs) < 2:
        raise ValueError(f"cv gives {len(pairs)} fold(s); the variation between refits needs two or more")
    splits = []
    for k, pair in enumerate(pairs):
        if not hasattr(pair, "__len__") or len(pair) != 2:
            raise TypeError(f"fold {k + 1}: a fold is a pair of row positions, train and test; got {pair!r}")
        train, test = (_positions(rows, n, k) for rows in pair)
        if len(test) < 2:
            raise ValueError(f"fold {k + 1} tests {len(test)} row(s); replacing values needs two: use fewer folds")
        if len(np.unique(test)) < len(test):
            raise ValueError(f"fold {k + 1} tests a row twice")
        if len(np.intersect1d(train, test)):
            raise ValueError(f"fold {k + 1} tests rows that it was fitted on; train and test rows must not overlap")
        splits.append((train, test))
    return tuple(splits)


def _splitter(estimator: Any, y: NDArray[Any], cv: Any, grouped: bool, entropy: int) -> Any:
    """A number of folds as a splitter; anything else unchanged."""
    if isinstance(cv, (bool, str)) or not isinstance(cv, (int, np.integer)):
        if not isinstance(cv, str) and (hasattr(cv, "split") or np.iterable(cv)):
            return cv
        raise TypeError(f"cv is a number of folds, a splitter or a list of (train, test) rows; got {cv!r}")
    from sklearn.base import is_classifier
    from sklearn.model_selection import GroupKFold, KFold, StratifiedGroupKFold, StratifiedKFold

    if cv < 2:
        raise ValueError(f"cv={cv} gives one fold or none; the variation between refits needs two or more")
    if grouped and not is_classifier(estimator):
        return GroupKFold(int(cv))
    kind = (StratifiedGroupKFold if grouped else StratifiedKFold) if is_classifier(estimator) else KFold
    return kind(int(cv), shuffle=True, random_state=entropy % 2**32)


def _positions(rows: Any, n: int, k: int) -> Indices:
    """The rows of the k-th fold, a mask or positions, as positions."""
    rows = np.asarray(rows)
    mask = rows.dtype == bool
    if rows.ndim != 1 or len(rows) == 0 or rows.dtype.kind not in "biu" or (mask and len(rows) != n):
        raise ValueError(
            f"fold {k + 1}: rows are positions, or a mask of {n} rows; got shape {rows.shape} of {rows.dtype}"
        )
    positions = np.flatnonzero(rows) if mask else rows.astype(np.intp)
    if len(positions) == 0 or positions.min() < 0 or positions.max() >= n:
        raise ValueError(f"fold {k + 1}: row positions run from 0 to {n - 1}, and there must be some")
    return positions


def _exchangeable(groups: Any, n: int) -> tuple[Indices, ...]:
    """The rows of each group, or all rows where there are no groups."""
    if groups is None:
        return (np.arange(n),)
    return tuple(np.flatnonzero(mask) for mask in by_label(groups, n).values())


def _cut(value: Any, rows: Indices, n: int) -> Any:
    """An argument of fit, cut to these rows if it has one value a row."""
    if isinstance(value, (str, bytes, Mapping)) or not hasattr(value, "__len__") or len(value) != n:
        return value
    return np.asarray(value)[rows]


def named(error: Exception, fold: str, hint: str = "") -> Exception:
    """The same error with the name of the fold."""
    kind = next((kind for kind in (ValueError, TypeError) if isinstance(error, kind)), RuntimeError)
    return kind(f"{fold} failed: {repr(error) if kind is RuntimeError else error}{hint}")
