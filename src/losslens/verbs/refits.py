"""Verbs that fit a learner on several folds: importances, their test, and leaving features out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from losslens.donors.designs import Design
from losslens.losses import Loss
from losslens.passes.task import Options, for_folds, picked
from losslens.refits.learner import learner as checked_learner
from losslens.refits.leave_out import as_estimator, leave_out_fits
from losslens.refits.permuted_target import tested
from losslens.results.permuted_target import PermutedTarget
from losslens.results.refits import Refits, Variance
from losslens.results.row_changes import How, LeftOut
from losslens.shapley.stopping import Absolute, Method, ShapleySettings
from losslens.tables import checks
from losslens.verbs.features import importances
from losslens.verbs.running import verb
from losslens.verbs.shapley import share_out


@verb
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
    variance: Variance = "corrected",
    random_state: Any = None,
    n_jobs: int | None = None,
    memory: str | int = "1 GiB",
    progress: bool | None = None,
    executor: Any = None,
) -> Refits:
    """Permutation feature importance of a learner: of models fitted on the folds, each explained on its test rows.

    Parameters
    ----------
    estimator
        A scikit-learn estimator, fitted or not; clones of it are fitted.
    X, y, loss, features, donors
        As in `feature_importance`.
    cv
        A number of folds (shuffled; stratified for classifiers; with `groups` no group is in both train and test), any
        scikit-learn splitter, or a list of pairs of row positions, train and test.
    groups
        A label for each row, for splitters that keep groups together. Donors are drawn from all test rows.
    fit_params
        Arguments of ``fit``; those with a value for each row are cut to the training rows.
    sample_weight
        Weights of the rows in the explanation; for fitting, pass them in `fit_params` as well.
    variance
        Of the mean over the folds. ``"corrected"``: Nadeau and Bengio's, without further fits; too small where chance
        in the training rows moves the importance. ``"jackknife"``: M(M - 1)/2 more fits, each without two of the M
        folds and explained on both; folds test every row once and are fitted on all others, as with a number,
        ``KFold``, ``StratifiedKFold`` and ``GroupKFold``. Its intervals are too wide for a feature that is worth
        nothing. ``test()`` uses the corrected one in any case.

    Examples
    --------
    >>> import numpy as np, losslens as ll
    >>> from sklearn.linear_model import LinearRegression
    >>> X = np.random.default_rng(0).normal(size=(100, 2))
    >>> ll.feature_importance_cv(LinearRegression(), X, 2 * X[:, 1], cv=4, random_state=0).importance.argmax().item()
    1
    >>> ll.plan(ll.feature_importance_cv, LinearRegression(), X, 2 * X[:, 1], cv=10, variance="jackknife").fits
    55
    """
    options = picked(Options, locals())
    learner = checked_learner(estimator, X, y, cv, fit_params, options, variance)
    return learner.explained(partial(importances, loss=for_folds(estimator, loss, y)))


@verb
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
    precision: float | Absolute | None = None,
    budget: int | None = None,
    sample_weight: Any = None,
    variance: Variance = "corrected",
    random_state: Any = None,
    n_jobs: int | None = None,
    memory: str | int = "1 GiB",
    progress: bool | None = None,
    executor: Any = None,
) -> Refits:
    """Shapley feature importance of a learner: of models fitted on the folds, each explained on its test rows.

    Parameters
    ----------
    estimator, X, y, cv, groups, fit_params, sample_weight, variance
        As in `feature_importance_cv`.
    loss, features, method, donors, precision, budget
        As in `shapley_importance`; `budget` is that of each fold.

    Examples
    --------
    >>> import numpy as np, losslens as ll
    >>> from sklearn.linear_model import LinearRegression
    >>> X = np.random.default_rng(0).normal(size=(100, 2))
    >>> ll.shapley_importance_cv(LinearRegression(), X, 2 * X[:, 1], cv=4, random_state=0).importance.argmax().item()
    1
    """
    options = picked(Options, locals())
    if isinstance(budget, str):
        raise TypeError(f"budget is a number of predictions here, for each fold; got {budget!r}")
    settings = ShapleySettings(method, precision, budget)
    explain = partial(share_out, loss=for_folds(estimator, loss, y), settings=settings)
    return checked_learner(estimator, X, y, cv, fit_params, options, variance).explained(explain)


@verb
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
    """Test whether a learner gains from each feature: its importance against that of refits on permuted targets.

    ``p = (1 + number of permutations with at least this importance) / (1 + permutations)``, which is never 0.

    Targets are permuted over all rows, which are assumed independent; with `groups` within each group: the null
    hypothesis is then that the features do not explain differences within a group. For autocorrelated targets p is too
    small.

    Parameters
    ----------
    estimator, X, y, cv, groups, fit_params, loss, features, donors, sample_weight
        As in `feature_importance_cv`. Importances are means over the folds, on test rows.
    permutations
        Number of permutations; for each of them every fold is fitted again.
    n_jobs
        Permutations at a time, in threads.

    Examples
    --------
    >>> import numpy as np, losslens as ll
    >>> from sklearn.linear_model import LinearRegression
    >>> X = np.random.default_rng(0).normal(size=(60, 2))
    >>> test = ll.permuted_target_test(LinearRegression(), X, 2 * X[:, 1], permutations=19, random_state=0)
    >>> test.p_values[1].item()
    0.05
    """
    checks.check_count(permutations, "permutations")
    options = picked(Options, locals())
    return tested(
        checked_learner(estimator, X, y, cv, fit_params, options),
        partial(importances, loss=for_folds(estimator, loss, y)),
        permutations,
    )


@verb
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
    """What a learner loses without a feature: it is fitted again without it, and compared on test rows.

    ``LOCO_j = mean over rows of L(f_{-j}(x_i), y_i) - L(f(x_i), y_i)``, f and f_{-j} fitted on the folds without row i.

    Permutation importance measures what a model *uses*; this measures what it cannot replace by other features. Rows
    of one fold share their training rows, so standard errors, intervals and tests hold for these fits on new rows;
    ``interval(target="learner")`` is about refits. Every fit predicts all tested rows: how much the fits differ on a
    row estimates what the chance in their training rows adds to the variance.

    Parameters
    ----------
    learner
        A scikit-learn estimator, fitted or not, of which clones are fitted; or a function ``(X, y) -> model``.
    X, y, loss
        As in `feature_importance`.
    features
        None (every column), a name, a list, or ``{"group": [columns]}``: a group is left out together.
    cv, fit_params, sample_weight
        As in `feature_importance_cv`. The losses of a row are averaged over the folds that test it; a row that no fold
        tests is ignored.
    how
        ``"drop"`` removes the columns. ``"constant"`` gives them one value in every row (the median of ordered values,
        else the most frequent one), for pipelines that name their columns.
    groups
        A label for each row: with a number of folds no group is split, and standard errors are clustered.
    random_state
        A seed or a NumPy generator, for the folds; the learner has its own.
    n_jobs
        Fits at a time, in threads.

    Examples
    --------
    >>> import numpy as np, losslens as ll
    >>> from sklearn.linear_model import LinearRegression
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> X = np.column_stack([X, X[:, 1]])  # the last two are equal
    >>> loco = ll.leave_one_covariate_out(LinearRegression(), X, X[:, 0] + X[:, 1], random_state=0)
    >>> (loco.importance > 0.1).tolist()
    [True, False, False]
    """
    options = picked(Options, locals())
    checked = checked_learner(as_estimator(learner), X, y, cv, fit_params, options)
    return leave_out_fits(checked, features, how, for_folds(checked.estimator, loss, y)).result(
        checks.group_numbers(groups, checked.table.n, checked.table.index)
    )
