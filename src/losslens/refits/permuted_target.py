"""Importances of refits on permuted targets: the null distribution of importances."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from losslens.progress import Tick, bar
from losslens.refits.learner import Explain, Learner
from losslens.results.permuted_target import PermutedTarget
from losslens.typing import Floats
from losslens.workers import choose_workers


def tested(learner: Learner, explain: Explain, permutations: int) -> PermutedTarget:
    """The importances of all features, and those after each permutation."""
    if all(len(np.unique(learner.y[rows], axis=0)) < 2 for rows in learner.exchangeable):
        where = "" if len(learner.exchangeable) == 1 else " inside a group"
        raise ValueError(f"all targets in y are equal{where}: there is nothing to permute")
    options = learner.options
    with bar(permutations + 1, "refitting on permuted targets", options.progress, "targets") as tick:
        observed = replace(learner, options=replace(options, progress=False)).explained(explain)
        tick(1)
        null = list(choose_workers(options.n_jobs).map(_importances, (learner, explain), range(permutations), tick))
    return PermutedTarget(
        features=observed.features,
        importance=observed.importance,
        null=np.stack(null),
        what=observed.headline.split(";")[0],
        backend=observed.backend,
    )


def _importances(shared: tuple[Learner, Explain], b: int, tick: Tick) -> Floats:
    learner, explain = shared
    importance = _permuted(learner, b).explained(explain).importance
    tick(1)
    return importance


def _permuted(learner: Learner, b: int) -> Learner:
    """The learner with targets permuted within exchangeable rows, and split like the true ones."""
    rng = np.random.default_rng([learner.options.random_state, 9, b])
    y = learner.y.copy()
    for rows in learner.exchangeable:
        y[rows] = learner.y[rng.permutation(rows)]
    options = replace(learner.options, random_state=int(rng.integers(2**63)), n_jobs=None, progress=False)
    return replace(learner, y=y, splits=learner.split(y), options=options)
