"""Verbs on learners: fit on some rows, explain on the others, again and again.

Is a feature worth anything to a learner at all? Refits with a permuted target show what nothing looks like.

The verb that leaves features out: a learner fitted without each of them, judged on rows that it has not seen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import numpy as np

from losslens.donors.designs import Design
from losslens.losses import Loss
from losslens.passes.options import Options
from losslens.progress import Tick, bar
from losslens.refits.learner import Explain, Learner, learner
from losslens.refits.learner import learner as checked_learner
from losslens.refits.leave_out import (
    LeaveOutFits,
    as_estimator,
    features_to_leave_out,
    fold_mean,
    left_out_result,
    with_constant_columns,
    without_columns,
)
from losslens.refits.permuted_target import permuted
from losslens.results.permuted_target import PermutedTarget
from losslens.results.refits import Refits
from losslens.results.row_changes import How, LeftOut
from losslens.shapley.stopping import Absolute, Method, Wanted
from losslens.tables import checks
from losslens.verbs.features import importances
from losslens.verbs.shapley import share_out
from losslens.workers import anywhere, chosen


@anywhere
def feature_importance_cv(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    cv: Any = 5,
    groups: Any = None,
    fit_params: Mapping[str, Any] | None = None,
    loss: str | Loss | Callable[..., Any] | None = None,
    features: Any = None,
    donors: str | Design = "auto",
    sample_weight: Any = None,
    random_state: Any = None,
    n_jobs: int | None = None,
    memory: str | int = "1 GiB",
    progress: bool | None = None,
    executor: Any = None,
) -> Refits:
    """Permutation feature importance of a learner: of models fitted on different rows, each on rows it has not seen.

    Parameters
    ----------
    estimator
        A scikit-learn estimator, fitted or not; clones of it are fitted.
    X, y, loss, features, donors
        As in `feature_importance`.
    cv
        A number of folds (shuffled; for classifiers every fold has all classes in their shares; with `groups` no group
        is on both sides), any scikit-learn splitter, or a list of pairs of row positions, train and test.
    groups
        A label for each row, for splitters that keep groups together. Donors are drawn from all test rows.
    fit_params
        Arguments of ``fit``; those with a value for each row are cut to the training rows.
    sample_weight
        Weights of the rows when they explain; for fitting, pass them in `fit_params` as well.
    random_state
        A seed or a NumPy generator, for folds and donors; the estimator keeps its own.
    n_jobs
        Folds at a time, in threads.
    memory
        Bound for all folds together.
    progress
        None: a bar if somebody is looking.
    executor
        A dask.distributed ``Client``: the work is done on its cluster.

    Examples
    --------
    >>> import numpy as np, losslens as ll
    >>> from sklearn.linear_model import LinearRegression
    >>> X = np.random.default_rng(0).normal(size=(100, 2))
    >>> ll.feature_importance_cv(LinearRegression(), X, X[:, 1], cv=4, random_state=0).importance.argmax().item()
    1
    """
    options = Options(
        features=features, donors=donors, sample_weight=sample_weight, groups=groups, random_state=random_state,
        n_jobs=n_jobs, memory=memory, progress=progress,
    )  # fmt: skip
    return learner(estimator, X, y, cv, fit_params, options).explained(partial(importances, loss=loss))


@anywhere
def shapley_importance_cv(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    cv: Any = 5,
    groups: Any = None,
    fit_params: Mapping[str, Any] | None = None,
    loss: str | Loss | Callable[..., Any] | None = None,
    features: Any = None,
    method: Method = "auto",
    donors: str | Design = "auto",
    aggregate: Literal["loss", "prediction"] = "loss",
    precision: float | Absolute | None = None,
    budget: int | None = None,
    sample_weight: Any = None,
    random_state: Any = None,
    n_jobs: int | None = None,
    memory: str | int = "1 GiB",
    progress: bool | None = None,
    executor: Any = None,
) -> Refits:
    """Shapley feature importance of a learner: of models fitted on different rows, each on rows it has not seen.

    Parameters
    ----------
    estimator, X, y, cv, groups, fit_params, sample_weight, random_state, n_jobs, memory, progress, executor
        As in `feature_importance_cv`.
    loss, features, method, donors, aggregate, precision, budget
        As in `shapley_importance`; `budget` is that of each fold.

    Examples
    --------
    >>> import numpy as np, losslens as ll
    >>> from sklearn.linear_model import LinearRegression
    >>> X = np.random.default_rng(0).normal(size=(100, 2))
    >>> ll.shapley_importance_cv(LinearRegression(), X, X[:, 1], cv=4, random_state=0).importance.argmax().item()
    1
    """
    options = Options(
        features=features, donors=donors, sample_weight=sample_weight, groups=groups, random_state=random_state,
        n_jobs=n_jobs, memory=memory, progress=progress,
    )  # fmt: skip
    explain = partial(share_out, loss=loss, wanted=Wanted(method, aggregate, precision, budget))
    return learner(estimator, X, y, cv, fit_params, options).explained(explain)


@anywhere
def permuted_target_test(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    permutations: int = 99,
    cv: Any = 3,
    groups: Any = None,
    fit_params: Mapping[str, Any] | None = None,
    loss: str | Loss | Callable[..., Any] | None = None,
    features: Any = None,
    donors: str | Design = "auto",
    sample_weight: Any = None,
    random_state: Any = None,
    n_jobs: int | None = None,
    memory: str | int = "1 GiB",
    progress: bool | None = None,
    executor: Any = None,
) -> PermutedTarget:
    """Test whether a learner gains from each feature: its importance against those of refits on a permuted target.

    ``p = (1 + number of permutations with at least this importance) / (1 + permutations)``, which is never 0.

    Targets are permuted over all rows, as if each were drawn by itself; where there are `groups`, inside them: the null
    hypothesis is then that the features tell nothing about differences inside a group. Where targets of neighbouring
    times go together, p is too small.

    Parameters
    ----------
    estimator, X, y, cv, groups, fit_params, loss, features, donors, sample_weight, random_state, memory, progress,
    executor
        As in `feature_importance_cv`. Importances are means over the folds, on rows that the models have not seen.
    permutations
        How often the target is permuted; each time every fold is fitted again.
    n_jobs
        Permutations at a time, in threads.

    Examples
    --------
    >>> import numpy as np, losslens as ll
    >>> from sklearn.linear_model import LinearRegression
    >>> X = np.random.default_rng(0).normal(size=(60, 2))
    >>> test = ll.permuted_target_test(LinearRegression(), X, X[:, 1], permutations=19, random_state=0)
    >>> test.p_values[1].item()
    0.05
    """
    if isinstance(permutations, bool) or not isinstance(permutations, (int, np.integer)) or permutations < 1:
        raise ValueError(f"permutations is a whole number from 1 on; got {permutations!r}")
    options = Options(
        features=features, donors=donors, sample_weight=sample_weight, groups=groups, random_state=random_state,
        n_jobs=n_jobs, memory=memory, progress=progress,
    )  # fmt: skip
    known, explain = learner(estimator, X, y, cv, fit_params, options), partial(importances, loss=loss)
    if all(len(np.unique(known.y[rows])) < 2 for rows in known.exchangeable):
        where = "" if groups is None else " inside a group"
        raise ValueError(f"no two targets that differ can change hands{where}: there is nothing to permute")
    with bar(permutations + 1, "refitting on permuted targets", progress, "targets") as tick:
        observed = replace(known, options=replace(known.options, progress=False)).explained(explain)
        tick(1)
        shared = (known, explain)
        null = list(chosen(n_jobs).map(_importances_after_permutation, shared, range(permutations), tick))
    return PermutedTarget(
        features=observed.features,
        importance=observed.importance,
        null=np.stack(null),
        what=observed.headline.split(";")[0],
        backend=observed.backend,
    )


@anywhere
def leave_one_covariate_out(
    learner: Any,
    X: Any,
    y: Any,
    *,
    cv: Any = 5,
    loss: str | Loss | Callable[..., Any] | None = None,
    features: Any = None,
    how: How = "drop",
    groups: Any = None,
    fit_params: Mapping[str, Any] | None = None,
    sample_weight: Any = None,
    random_state: Any = None,
    n_jobs: int | None = None,
    progress: bool | None = None,
    executor: Any = None,
) -> LeftOut:
    """What a learner loses without a feature: fitted again without it, on rows that neither fit has seen.

    ``LOCO_j = mean over rows of L(f_{-j}(x_i), y_i) - L(f(x_i), y_i)``, f and f_{-j} fitted on the folds without row i.

    Unlike permutation importance, which asks what a model *uses*, this asks what it could not do without: a feature
    that others can stand in for is worth little. Rows of one fold share their training rows, so standard errors,
    intervals and tests hold for these fits on new rows; ``interval(target="learner")`` is about refits.

    Parameters
    ----------
    learner
        A scikit-learn estimator, fitted or not, of which clones are fitted; or a function ``(X, y) -> model``.
    X, y, loss
        As in `feature_importance`.
    features
        None (every column), a name, a list, or ``{"group": [columns]}``: a group is left out together.
    cv
        A number of folds (shuffled; for classifiers every fold has all classes in their shares; with `groups` no group
        is on both sides), any scikit-learn splitter, or a list of pairs of row positions, train and test. Of a
        row that several folds test the mean counts; one that none tests does not count.
    how
        ``"drop"`` takes the columns out of the table. ``"constant"`` leaves them there with one value in every row (the
        median of what has an order, else the most frequent one), for pipelines that name their columns.
    groups
        A label for each row: groups stay together in the folds of a number, and in standard errors.
    fit_params
        Arguments of ``fit``; those with a value for each row are cut to the training rows.
    sample_weight
        Weights of the rows when they judge; for fitting, pass them in `fit_params` as well.
    random_state
        A seed or a NumPy generator, for the folds; the learner keeps its own.
    n_jobs
        Fits at a time, in threads: one a fold with all features, and one a fold and feature.
    progress
        None: a bar if somebody is looking.
    executor
        A dask.distributed ``Client``: the fits are made on its cluster.

    Examples
    --------
    >>> import numpy as np, losslens as ll
    >>> from sklearn.linear_model import LinearRegression
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> X = np.column_stack([X, X[:, 1]])  # the last two stand in for each other
    >>> loco = ll.leave_one_covariate_out(LinearRegression(), X, X[:, 0] + X[:, 1], random_state=0)
    >>> (loco.importance > 0.1).tolist()
    [True, False, False]
    """
    if how not in ("drop", "constant"):
        raise ValueError(f"how is 'drop' or 'constant'; got {how!r}")
    options = Options(
        features=features, sample_weight=sample_weight, groups=groups, random_state=random_state, n_jobs=n_jobs,
        progress=progress,
    )  # fmt: skip
    known = checked_learner(as_estimator(learner), X, y, cv, fit_params, options)
    left = features_to_leave_out(features, known, how)
    tables = [
        known.table,
        *((without_columns if how == "drop" else with_constant_columns)(known.table, one.columns) for one in left),
    ]
    total, means = np.zeros((len(tables), known.table.n)), np.empty((len(known.splits), len(tables)))
    title = ""
    with bar(len(known.splits) * len(tables), "fitting without features", progress, "fits") as tick:
        work = LeaveOutFits(known, tables, ["", *(one.name for one in left)], how, loss)
        for k, t, losses, name in work.done(tick):
            title, test = name, known.splits[k][1]
            total[t, test] += losses
            means[k, t] = fold_mean(losses, known.weight, test)
    block = checks.blocks(groups, known.table.n)
    return left_out_result(total, means, known, block, features=tuple(one.name for one in left), how=how, title=title)


def _importances_after_permutation(shared: tuple[Learner, Explain], b: int, tick: Tick) -> Any:
    """The importances after the b-th permutation of the target."""
    known, explain = shared
    explained = permuted(known, b).explained(explain)
    tick(1)
    return explained.importance
