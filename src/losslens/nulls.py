"""Is a feature worth anything to a learner at all? Refits with a permuted target show what nothing looks like."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from losslens import inputs
from losslens.donors import Design
from losslens.explain import feature_importance
from losslens.losses import Loss
from losslens.null_results import PermutedTarget
from losslens.progress import bar
from losslens.refits import Learner, learner
from losslens.workers import active, anywhere


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
    inputs.check_workers(n_jobs, progress)
    options = {"loss": loss, "features": features, "donors": donors}
    known = learner(estimator, X, y, cv, groups, fit_params, sample_weight, random_state, memory)
    if all(len(np.unique(known.y[rows])) < 2 for rows in known.exchangeable):
        where = "" if groups is None else " inside a group"
        raise ValueError(f"no two targets that differ can change hands{where}: there is nothing to permute")
    from joblib import Parallel, delayed

    with bar(permutations + 1, "refitting on permuted targets", progress, "targets") as tick:
        observed = known.explained(feature_importance, options, n_jobs, progress=False)
        tick(1)

        def one(b: int) -> Any:
            found = _one((known, options), b)
            tick(1)
            return found

        cluster = active()
        if cluster is not None:
            null = []
            for found in cluster.map(_one, (known, options), range(permutations)):
                null.append(found)
                tick(1)
        else:
            null = Parallel(n_jobs=n_jobs, prefer="threads")(delayed(one)(b) for b in range(permutations))
    return PermutedTarget(
        features=observed.features,
        importance=observed.importance,
        null=np.stack(list(null)),
        what=observed.headline.split(";")[0],
        backend=observed.backend,
    )


def _one(shared: tuple[Learner, dict[str, Any]], b: int) -> Any:
    """The importances after the b-th permutation of the target."""
    known, options = shared
    return _permuted(known, b).explained(feature_importance, options, None, progress=False).importance


def _permuted(known: Learner, b: int) -> Learner:
    """The same rows; the targets change hands, and are split as the true ones are."""
    rng = np.random.default_rng([known.entropy, 9, b])
    y = known.y.copy()
    for rows in known.exchangeable:
        y[rows] = known.y[rng.permutation(rows)]
    return replace(known, y=y, splits=known.split(y), entropy=int(rng.integers(2**63)))
