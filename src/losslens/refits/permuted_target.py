"""Importances of refits on a permuted target: what the importance of a feature without any worth looks like."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from losslens.progress import Tick, bar
from losslens.refits.learner import Explain, Learner
from losslens.results.permuted_target import PermutedTarget
from losslens.typing import Floats
from losslens.workers import chosen


def tested(known: Learner, explain: Explain, permutations: int) -> PermutedTarget:
    """The importances of all features, and those after each permutation."""
    if all(len(np.unique(known.y[rows])) < 2 for rows in known.exchangeable):
        where = "" if len(known.exchangeable) == 1 else " inside a group"
        raise ValueError(f"no two targets that differ can change hands{where}: there is nothing to permute")
    options = known.options
    with bar(permutations + 1, "refitting on permuted targets", options.progress, "targets") as tick:
        observed = replace(known, options=replace(options, progress=False)).explained(explain)
        tick(1)
        null = list(chosen(options.n_jobs).map(_importances, (known, explain), range(permutations), tick))
    return PermutedTarget(
        features=observed.features,
        importance=observed.importance,
        null=np.stack(null),
        what=observed.headline.split(";")[0],
        backend=observed.backend,
    )


def _importances(shared: tuple[Learner, Explain], b: int, tick: Tick) -> Floats:
    known, explain = shared
    found = _permuted(known, b).explained(explain).importance
    tick(1)
    return found


def _permuted(known: Learner, b: int) -> Learner:
    """The same rows with targets permuted among them, and split as the true ones are."""
    rng = np.random.default_rng([known.options.random_state, 9, b])
    y = known.y.copy()
    for rows in known.exchangeable:
        y[rows] = known.y[rng.permutation(rows)]
    options = replace(known.options, random_state=int(rng.integers(2**63)), n_jobs=None, progress=False)
    return replace(known, y=y, splits=known.split(y), options=options)
