"""scikit-learn's `permutation_importance`, with the same arguments and results: one import is all that changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.utils import Bunch

from losslens import losses
from losslens.donors.designs import Design, Drawn, Permutations
from losslens.passes.task import Options
from losslens.tables.checks import check_count, entropy
from losslens.tables.frames import as_table
from losslens.tables.frozen import Deferred
from losslens.typing import Floats
from losslens.verbs.features import importances_by_loss

BY_NAME = "by name"  # results of several scores
SAME = 1e-9  # relative difference of two scores of the same rows


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

    Where an exact engine supports the estimator (trees, linear models, kernel machines; `result.engine`),
    ``importances_mean`` is the mean over all permutations, which costs less than five of them. The mean of the columns
    of ``importances`` differs from it by their Monte-Carlo error. Other estimators predict `n_repeats` permutations,
    and ``importances_mean`` is the mean of these columns, as in scikit-learn.

    What takes time of its own (``importances`` where an engine has computed the mean, ``importances_std`` and the
    standard errors) is computed when it is read, also by ``["importances"]``, or when the result is pickled or copied.

    Parameters
    ----------
    estimator, X, y
        A fitted estimator, a table and the true values. They must not change until ``importances`` has been read.
    scoring
        A name, a scorer, a function ``(estimator, X, y)``; a list or a dict of them, or a function that returns a dict,
        for several scores. None: the estimator's own `score`.
    n_repeats, n_jobs, sample_weight
        As in scikit-learn.
    random_state
        As in scikit-learn: the same number gives the same permutations as there.
    max_samples
        As in scikit-learn, but a part of the rows is drawn once for all features and repeats.

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
    check_count(n_repeats, "n_repeats")
    seed = _seed(random_state)
    X, y, sample_weight = _some(X, y, sample_weight, max_samples, seed)
    several, scorers = _scorers(estimator, X, y, scoring)
    options = Options(sample_weight=sample_weight, random_state=seed, n_jobs=n_jobs)
    explain = partial(importances_by_loss, estimator, X, y, scorers)
    results = explain(replace(options, donors=ExactOrShuffles(n_repeats, seed)))
    repeats = Deferred(explain, replace(options, donors=Shuffles(n_repeats, seed)))
    found = {name: _bunch(result, name, repeats) for name, result in results.items()}
    return found if several else found[BY_NAME]


@dataclass(frozen=True, repr=False)
class Shuffles(Permutations):
    """The permutations that scikit-learn draws, the same for all features."""

    seed: int

    def lend(self, n: int, rng: np.random.Generator) -> Drawn:
        """One permutation of the rows a column: each shuffles the rows as the last one has left them."""
        shuffles, order, last = np.random.RandomState(self.seed), np.arange(n), np.arange(n)
        donors = np.empty((n, self.m), np.intp)
        for k in range(self.m):
            shuffles.shuffle(order)
            donors[:, k] = last = last[order]
        return donors

    @property
    def remembered(self) -> Design:
        """Results hold the donors themselves."""
        return Permutations(self.m)


class ExactOrShuffles(Shuffles):
    """All pairs of what an exact engine supports, and for the other features these permutations."""

    unless_exact = True


class Lazy(Bunch):  # type: ignore[misc]  # scikit-learn has no types
    """A bunch of values that are computed when they are read."""

    def __getitem__(self, name: str) -> Any:
        value = super().__getitem__(name)
        if isinstance(value, Deferred):
            self[name] = value = value.now
        return value

    # A dictionary's own methods would give what is not computed yet.
    get: Any = Mapping.get
    items: Any = Mapping.items
    values: Any = Mapping.values
    __eq__ = Mapping.__eq__
    __hash__ = None  # type: ignore[assignment]  # as dictionaries

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())  # with it, `dict(self)` reads the values by `self[name]`

    def __reduce__(self) -> tuple[Any, ...]:
        return Bunch, (), None, None, iter(self.items())

    def __repr__(self) -> str:
        return repr(self.copy())

    def __or__(self, other: Mapping[str, Any]) -> dict[str, Any]:
        return dict(self.items()) | dict(other)

    def pop(self, name: str, *default: Any) -> Any:
        """The value of this name, which leaves."""
        self.get(name)
        return super().pop(name, *default)

    def copy(self) -> Bunch:
        """A bunch of all values."""
        return Bunch(**dict(self.items()))


def _bunch(scores: Any, name: str, repeats: Deferred[dict[str, Any]]) -> Bunch:
    """The result of one score, of which `repeats` has the columns that scikit-learn has."""
    drawn = all(isinstance(one.design, Permutations) for one in scores.values())
    columns = Deferred(_columns, scores, scores if drawn else Deferred(lambda: repeats.now[name]))
    means = [one.column_drops.mean() if isinstance(one.design, Permutations) else one.pfi for one in scores.values()]
    uncertain = Deferred(_uncertain, scores)
    return Lazy(
        importances_mean=np.array(means),
        importances_std=Deferred(lambda importances: importances.std(axis=1), columns),
        importances=columns,
        **{name: Deferred(lambda of, name=name: of[name], uncertain) for name in ("std_error", "low", "high")},
        result=scores,
    )


def _columns(scores: Any, repeats: Any) -> Floats:
    """How much lower the score of each permutation is, (features, repeats)."""
    for now, then in zip(repeats.values(), scores.values(), strict=True):
        if not np.isclose(now.score, then.score, rtol=SAME, atol=SAME, equal_nan=True):
            raise RuntimeError(
                f"the score of the estimator was {then.score:.6g}, and is now {now.score:.6g}: the estimator, X or y "
                "has changed since permutation_importance was called; read importances before, or call it again"
            )
    return np.array([one.column_drops for one in repeats.values()])


def _uncertain(scores: Any) -> dict[str, Floats]:
    """Standard errors and intervals."""
    numbers = {name: np.full(len(scores), np.nan) for name in ("std_error", "low", "high")}
    for k, one in enumerate(scores.values()):
        try:
            numbers["std_error"][k] = one.std_error
            numbers["low"][k], numbers["high"][k] = one.interval()
        except ValueError:  # there is none: the reason is in `result`
            pass
    return numbers


def _seed(random_state: Any) -> int:
    """The seed of the permutations, as scikit-learn draws it."""
    number = entropy(random_state)
    if isinstance(random_state, (int, np.integer)):
        return int(np.random.RandomState(number).randint(2**31))
    return number % 2**31


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
    is_count = isinstance(max_samples, (int, np.integer)) and not isinstance(max_samples, bool)
    count = int(max_samples) if is_count else int(max_samples * n)
    if not 0 < count <= n:
        raise ValueError(f"max_samples must be <= n_samples: a number of rows up to {n}, or a share; got {max_samples}")
    if count == n:
        return X, y, weight
    some = np.sort(np.random.default_rng(seed).choice(n, count, replace=False))
    table = X.iloc[some] if hasattr(X, "iloc") else np.asarray(X)[some] if not hasattr(X, "__dataframe__") else X[some]
    target = y.iloc[some] if hasattr(y, "iloc") else np.asarray(y)[some]
    return table, target, None if weight is None else np.asarray(weight)[some]
