"""scikit-learn's `permutation_importance`, with the same arguments and results: one import is all that changes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from losslens import losses
from losslens.donors.designs import Permutations
from losslens.results.one_number import numbers_of
from losslens.tables.checks import check_whole
from losslens.tables.frames import as_table
from losslens.verbs.features import feature_importance

BY_NAME = "by name"  # results of several scores


def permutation_importance(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    scoring: Any = None,
    n_repeats: int = 5,
    n_jobs: int | None = None,
    random_state: Any = None,
    sample_weight: Any = None,
    max_samples: float = 1.0,
) -> Any:
    """How much a score decreases when a feature's values come from other rows: scikit-learn's function, by losslens.

    Exact engines predict instead of trees, linear models and kernel machines, and every feature has a standard error
    over new data. A part of the rows (`max_samples`) is drawn once for all features and repeats.

    Parameters
    ----------
    estimator, X, y
        A fitted estimator, a table and the true values.
    scoring
        A name, a scorer, a function ``(estimator, X, y)``; a list or a dict of them, or a function that returns a dict,
        for several scores. None: the estimator's own `score`.
    n_repeats, n_jobs, random_state, sample_weight, max_samples
        As in scikit-learn.

    Returns
    -------
    sklearn.utils.Bunch
        ``importances_mean``, ``importances_std``, ``importances`` (features, repeats), as in scikit-learn; and
        ``std_error``, ``low`` and ``high``: the standard error and the 95% interval of the importance for this model
        on new data (NaN where there is none), and ``result``, all that losslens knows. Of several scores a dict.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LinearRegression
    >>> from losslens.sklearn import permutation_importance
    >>> X = np.random.default_rng(0).normal(size=(100, 2))
    >>> found = permutation_importance(LinearRegression().fit(X, X[:, 0]), X, X[:, 0], random_state=0)
    >>> found.importances.shape, bool(found.low[0] > 1)
    ((2, 5), True)
    """
    check_whole(n_repeats, "n_repeats")
    seed = random_state.randint(2**31 - 1) if isinstance(random_state, np.random.RandomState) else random_state
    X, y, sample_weight = _some(X, y, sample_weight, max_samples, seed)

    def found(loss: Any) -> Any:
        return _bunch(feature_importance(
            estimator, X, y, loss=loss, donors=Permutations(n_repeats), n_jobs=n_jobs, random_state=seed,
            sample_weight=sample_weight,
        ))  # fmt: skip

    several, scorers = _scorers(estimator, X, y, scoring)
    results = {name: found(scorer) for name, scorer in scorers.items()}
    return results if several else results[BY_NAME]


def _scorers(estimator: Any, X: Any, y: Any, scoring: Any) -> tuple[bool, dict[str, Any]]:
    """Whether there are several, and the scorers by name."""
    if scoring is None or isinstance(scoring, str):
        return False, {BY_NAME: scoring or "score"}
    if isinstance(scoring, (list, tuple)):
        return True, {str(name): name for name in scoring}
    if isinstance(scoring, dict):
        return True, {name: _scorer(one) for name, one in scoring.items()}
    value = scoring(estimator, X, y)
    if isinstance(value, dict):
        return True, {name: losses.FunctionScorer(partial(_named, scoring, name)) for name in value}
    return False, {BY_NAME: _scorer(scoring)}


def _scorer(scoring: Any) -> Any:
    return scoring if isinstance(scoring, str) or losses.is_scorer(scoring) else losses.scorer(scoring)


def _named(scoring: Callable[..., Any], name: str, estimator: Any, X: Any, y: Any, **options: Any) -> Any:
    return scoring(estimator, X, y, **options)[name]


def _some(X: Any, y: Any, weight: Any, max_samples: float, seed: Any) -> tuple[Any, Any, Any]:
    """A part of the rows, drawn without replacement."""
    n = as_table(X).n
    whole = isinstance(max_samples, (int, np.integer)) and not isinstance(max_samples, bool)
    count = int(max_samples) if whole else int(max_samples * n)
    if not 0 < count <= n:
        raise ValueError(f"max_samples must be <= n_samples: a number of rows up to {n}, or a share; got {max_samples}")
    if count == n:
        return X, y, weight
    some = np.sort(np.random.default_rng(seed).choice(n, count, replace=False))
    table = X.iloc[some] if hasattr(X, "iloc") else np.asarray(X)[some] if not hasattr(X, "__dataframe__") else X[some]
    target = y.iloc[some] if hasattr(y, "iloc") else np.asarray(y)[some]
    return table, target, None if weight is None else np.asarray(weight)[some]


def _bunch(scores: Any) -> Any:
    from sklearn.utils import Bunch

    importances = np.array([one.column_drops for one in scores.values()])
    frame = {name: np.array(numbers_of(list(scores.values()), name)) for name in ("std_error", "low", "high")}
    return Bunch(
        importances_mean=importances.mean(axis=1), importances_std=importances.std(axis=1), importances=importances,
        **frame, result=scores,
    )  # fmt: skip
