"""Is a feature worth anything to a learner at all? Refits with a permuted target show what nothing looks like."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from losslens.refits.learner import Learner


def permuted(known: Learner, b: int) -> Learner:
    """The same rows; the targets change hands, and are split as the true ones are."""
    rng = np.random.default_rng([known.options.random_state, 9, b])
    y = known.y.copy()
    for rows in known.exchangeable:
        y[rows] = known.y[rng.permutation(rows)]
    options = replace(known.options, random_state=int(rng.integers(2**63)), n_jobs=None, progress=False)
    return replace(known, y=y, splits=known.split(y), options=options)
