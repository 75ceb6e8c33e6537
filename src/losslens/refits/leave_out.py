"""Fits of a learner with all features and without each of them, and their losses on the test rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from losslens.losses import Loss, is_scorer
from losslens.models import as_model
from losslens.passes.task import Options, default_loss, prepare
from losslens.progress import Tick, bar
from losslens.refits.added_information import ConvexLoss, convex_form, having_seen
from losslens.refits.learner import Learner, named
from losslens.results.row_changes import How, LeftOut
from losslens.tables import checks
from losslens.tables.columns import Distinct
from losslens.tables.features import Feature
from losslens.tables.features import resolve as resolve_features
from losslens.tables.frames import Batch, Edit, Table, as_table
from losslens.tables.numbers import scikit_learn
from losslens.typing import Floats, Indices
from losslens.workers import choose_workers

# Parameters of estimators that identify columns by position; positions shift when a column is dropped.
POSITIONAL = ("categorical_features", "cat_features", "monotonic_cst", "monotone_constraints", "interaction_cst")


@dataclass(frozen=True, eq=False)
class LeaveOutFits:
    """The fits with all features and without each of them: one for each fold and table."""

    learner: Learner
    features: tuple[Feature, ...]  # each is left out of one table; the first table is the full one
    how: How
    loss: Any

    def result(self, block: Indices | None) -> LeftOut:
        """Make the fits and compare the losses."""
        learner, folds = self.learner, len(self.learner.splits)
        todo = [(k, t) for t in range(1 + len(self.features)) for k in range(folds)]
        with bar(len(todo), "fitting without features", learner.options.progress, "fits") as tick:
            fits = choose_workers(learner.options.n_jobs).map(LeaveOutFits.one, self, todo, tick)
            full, rest = list(islice(fits, folds)), (list(islice(fits, folds)) for _ in self.features)
            return self._result(full, rest, block)

    def one(self, which: tuple[int, int], tick: Tick) -> Fit:
        """One fit: an error names its fold and feature."""
        k, t = which
        try:
            fit = self._fit(k, t)
        except Exception as error:
            without = f" without {self.features[t - 1].name!r}" if t else ""
            fold = f"fold {k + 1} of {len(self.learner.splits)}{without}"
            hint = "; if the learner names its columns, pass how='constant'" if t and self.how == "drop" else ""
            raise named(error, fold, hint) from error
        tick(1)
        return fit

    def _fit(self, k: int, t: int) -> Fit:
        """The fit on the k-th training rows and the t-th table, and its losses on all tested rows."""
        train, test = self.learner.splits[k]
        learner = replace(self.learner, table=self._table(t))
        model = as_model(learner.fitted(train, learner.y))
        rows = self.tested
        if model.classes is not None:  # a fit has no probability of a class that it has not seen
            rows = np.union1d(test, rows[np.isin(learner.y[rows], learner.y[train])])
        loss, table = default_loss(model, self.loss, learner.y[rows]), learner.table.rows(rows)
        options = Options(
            features=[learner.table.labels[0]], random_state=0, memory=learner.options.memory, progress=False
        )
        task = prepare(model, table, learner.y[rows], options, loss=loss, response=loss.reads, exact=False)
        prediction = task.engine.respond(table)
        loss.check_prediction(prediction)
        losses = np.full(learner.table.n, np.nan)
        sample = replace(task.sample, prediction=prediction).with_loss(loss)
        losses[rows] = sample.loss
        classes = None if model.classes is None else np.asarray(model.classes).tolist()
        return Fit(loss, losses, prediction, sample.y, classes)

    @property
    def tested(self) -> Indices:
        """The rows that some fold tests: every fit predicts all of them, for the noise of the training rows."""
        return np.unique(np.concatenate([test for _, test in self.learner.splits]))

    def _table(self, t: int) -> Table:
        """The full table, or that without a feature, which is made for one fit at a time."""
        without = _without_columns if self.how == "drop" else _with_constant_columns
        return without(self.learner.table, self.features[t - 1].columns) if t else self.learner.table

    def _result(self, full: list[Fit], rest: Iterable[list[Fit]], block: Indices | None) -> LeftOut:
        """From the fits with all features, and those without each, one for each fold."""
        n, splits, p = self.learner.table.n, self.learner.splits, len(self.features)
        share = np.zeros((len(splits), n))  # of each fit in a row's numbers: those of folds that test it
        for k, (_, test) in enumerate(splits):
            share[k, test] += 1
        times = share.sum(axis=0)
        share /= np.maximum(times, 1)
        weight = np.where(times > 0, checks.row_weights(self.learner.weight, n), 0.0)
        weight = weight / weight.sum()
        tested, trained = (sum(len(pair[side]) for pair in splits) for side in (1, 0))
        loss, (local, noise, added), per_fold = _mean(full, share), np.zeros((3, n, p)), np.empty((len(splits), p))
        form, trained_more = _common_form(full), np.zeros(p)
        for j, fits in enumerate(rest):
            changes = np.stack([one.losses - with_all.losses for one, with_all in zip(fits, full, strict=True)])
            local[:, j] = _mean(fits, share) - loss
            noise[:, j] = trained / tested * _variance(changes)
            pairs = zip(changes, splits, strict=True)
            per_fold[:, j] = [_fold_mean(change[test], self.learner.weight, test) for change, (_, test) in pairs]
            if form is not None:
                less, with_all = (form.scale(np.stack([one.prediction for one in some])) for some in (fits, full))
                rows = self.tested
                added[rows, j], part = form.corrected(full[0].y, less, with_all, weight[rows], share[:, rows])
                seen = trained / tested * _variance(np.where(having_seen(share) > 0, changes, np.nan))
                of_all = weight @ noise[:, j]
                trained_more[j] = (1 - part) ** 2 * float(weight @ seen / of_all) if of_all > 0 else 0.0
        local[times == 0] = np.nan
        return LeftOut(
            features=tuple(one.name for one in self.features),
            local=local,
            loss=loss,
            weight=weight,
            error=float(weight[times > 0] @ loss[times > 0]),
            block=block,
            per_fold=per_fold,
            correction=1 / len(splits) + tested / trained,
            how=self.how,
            training_variance=noise,
            fitting_noise=None if form is None else added,
            tested_training=None if form is None else trained_more,
            title=full[0].loss.title,
            backend=self.learner.table.backend,
            row_labels=self.learner.table.row_labels,
        )


class Fit(NamedTuple):
    """What one fit predicts for the tested rows of the classes that it knows, and loses, (n,), NaN elsewhere."""

    loss: Loss
    losses: Floats
    prediction: NDArray[Any]
    y: Any  # as the loss takes it
    classes: list[Any] | None


def _common_form(fits: list[Fit]) -> ConvexLoss | None:
    """The loss on its scale; None where there is none, and where fits know other classes or there is one alone."""
    first = fits[0]
    alike = all(one.prediction.shape == first.prediction.shape and one.classes == first.classes for one in fits)
    return convex_form(first.loss) if alike and len(fits) > 1 else None


def _mean(fits: list[Fit], share: Floats) -> Floats:
    """The losses of the rows, each over the fits that have not been fitted to it; NaN where there are none."""
    losses = sum(np.where(part > 0, one.losses, 0.0) * part for one, part in zip(fits, share, strict=True))
    return np.where(share.any(axis=0), losses, np.nan)


def _variance(changes: Floats) -> Floats:
    """The variance over the fits that have predicted a row, (K, n) -> (n,); 0 after one alone."""
    here = ~np.isnan(changes)
    count = here.sum(axis=0)
    deviation = np.where(here, changes - np.where(here, changes, 0.0).sum(axis=0) / np.maximum(count, 1), 0.0)
    return np.asarray(np.square(deviation).sum(axis=0) / np.maximum(count - 1, 1))


def leave_out_fits(learner: Learner, features: Any, how: How, loss: Any) -> LeaveOutFits:
    """The fits with all features and without each, their features checked."""
    if not checks.is_one_of(how, ("drop", "constant")):
        raise ValueError(f"how must be 'drop' or 'constant'; got {how!r}")
    if is_scorer(loss):
        raise ValueError(
            "a scorer gives one number for all rows together; what a learner loses without a feature needs a loss of "
            "each row, such as 'log_loss' or 'squared_error'"
        )
    return LeaveOutFits(learner, _features_to_leave_out(features, learner, how), how, loss)


def _fold_mean(losses: Floats, weight: Any, test: Indices) -> float:
    """The weighted mean over the test rows of one fold."""
    share = np.ones(len(test)) if weight is None else weight[test].astype(float)
    if not share.sum() > 0:
        raise ValueError("the test rows of a fold have no weight; use fewer folds, or drop these rows")
    return float(losses @ share / share.sum())


# Features that are left out.


def _features_to_leave_out(features: Any, learner: Learner, how: How) -> tuple[Feature, ...]:
    """The features to leave out; an error where that is impossible."""
    table = learner.table
    resolved = resolve_features(features, table.labels, by_position=table.backend == "numpy")
    for feature in resolved:
        if feature.kind == "pair":
            names = [table.names[j] for j in feature.columns]
            raise ValueError(
                f"columns that are left out together are a group: write {{{' and '.join(names)!r}: {names!r}}}"
            )
        if how == "drop" and len(feature.columns) == len(table.names):
            raise ValueError(
                f"without {feature.name!r} there is no column left; use how='constant', which fits on a constant column"
            )
    if how == "drop" and (where := _by_position(learner.estimator)):
        raise ValueError(
            f"{where} identifies columns by their positions, which shift when one is dropped: use how='constant'"
        )
    return resolved


def _by_position(estimator: Any) -> str:
    """The parameter of an estimator, or of a step of it, that holds positions of columns; "" where none does."""
    for name, value in estimator.get_params(deep=True).items():
        last = name.rpartition("__")[2]
        if last in POSITIONAL and _holds_positions(value):
            return f"{name}={value!r}"
        if last == "transformers" and isinstance(value, list):
            for step in value:
                if len(step) == 3 and _holds_positions(step[2]):
                    return f"{step[0]!r} of {name}"
    return ""


def _holds_positions(columns: Any) -> bool:
    """Whether columns are chosen by number, anywhere in a list of them."""
    if columns is None or isinstance(columns, (str, Mapping)) or callable(columns):
        return False
    if isinstance(columns, slice):
        return any(isinstance(end, (int, np.integer)) for end in (columns.start, columns.stop)) or (
            columns.start is None and columns.stop is None
        )
    if isinstance(columns, (int, np.integer)):
        return True
    return isinstance(columns, Iterable) and any(map(_holds_positions, columns))  # lists of sets, too


def _without_columns(table: Table, columns: tuple[int, ...]) -> Table:
    """The table without these columns."""
    return as_table(table.take([j for j in range(len(table.names)) if j not in columns]))


def _with_constant_columns(table: Table, columns: tuple[int, ...]) -> Table:
    """The table with one constant value in each of these columns."""
    edits = []
    for j in columns:
        column = table.column(j)
        edits.append(Edit(0, table.n, j, column, np.full(table.n, _usual(column.distinct))))
    return as_table(Batch(table).fill(np.arange(table.n), edits))


def _usual(column: Distinct) -> int:
    """A row that holds the median, or the most frequent value of an unordered column; missing only if all are."""
    counts = np.bincount(column.codes, minlength=len(column))
    if column.present:
        counts[column.present :] = 0
    middle = np.searchsorted(np.cumsum(counts), counts.sum() / 2) if column.ordered else np.argmax(counts)
    return int(column.first[middle])


# Functions as estimators.


def as_estimator(learner: Any) -> Any:
    """An estimator unchanged; a function wrapped as one."""
    if isinstance(learner, type):
        raise TypeError(f"{learner.__name__} is a class, not a learner; pass an instance of it")
    if hasattr(learner, "fit"):
        return learner
    if not callable(learner):
        raise TypeError(
            f"learner must be a scikit-learn estimator or a function (X, y) -> model; got {type(learner).__name__}"
        )
    if hasattr(learner, "predict"):
        raise TypeError(f"{type(learner).__name__} predicts but can't be fitted: pass a function (X, y) -> model")
    base = scikit_learn("base").BaseEstimator

    class Function(base):  # type: ignore[misc, valid-type]
        """An estimator whose fit calls the function."""

        def __init__(self, fit_to: Callable[..., Any]) -> None:
            self.fit_to = fit_to

        def fit(self, X: Any, y: Any, **params: Any) -> Any:
            """The model that the function gives."""
            return self.fit_to(X, y, **params)

    return Function(learner)
