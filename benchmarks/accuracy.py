"""Error at equal numbers of predictions: systematic shifts against scikit-learn's repeated permutations.

Bars: root mean squared error of Systematic(30) at most 0.25, of Systematic(5) at most 0.8 of that of scikit-learn
with as many repeats, on forest, boosting and MLP. The truth is the importance over all pairs.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.inspection import permutation_importance
from threadpoolctl import threadpool_limits

import losslens as ll
from benchmarks.models import data, models

BAR = {5: 0.8, 30: 0.25}


def errors(model: Any, X: Any, y: Any, m: int, runs: int) -> tuple[float, float]:
    """Root mean squared errors over features and runs: ours, scikit-learn's."""
    truth = np.array([one.pfi for one in ll.feature_importance(model, X, y, donors="all").values()])
    ours, theirs = [], []
    for run in range(runs):
        sample = ll.feature_importance(model, X, y, donors=ll.Systematic(m), random_state=run)
        ours.append([one.pfi for one in sample.values()])
        theirs.append(
            permutation_importance(
                model, X, y, n_repeats=m, scoring="neg_mean_squared_error", random_state=run
            ).importances_mean
        )
    return tuple(float(np.sqrt(np.mean((np.array(found) - truth) ** 2))) for found in (ours, theirs))  # type: ignore[return-value]


def main(runs: int = 20, n: int = 200) -> None:
    """Print the table."""
    warnings.simplefilter("ignore")
    # scikit-learn calls predict on 200 rows at a time: waking threads for that takes longer than the work.
    with threadpool_limits(1):
        _table(runs, n)


def _table(runs: int, n: int) -> None:
    X_train, y_train, X, y = data(n)
    print(f"n = {n}, p = 13, {runs} runs; root mean squared error over all features")
    print(f"{'model':10}{'m':>4}{'systematic':>12}{'scikit-learn':>14}{'ratio':>8}{'bar':>6}")
    for name in ("boosting", "MLP", "forest"):
        model = models()[name].fit(X_train, y_train)
        for m, bar in BAR.items():
            ours, theirs = errors(model, X, y, m, runs)
            print(f"{name:10}{m:>4}{ours:12.4f}{theirs:14.4f}{ours / theirs:8.2f}{bar:6.2f}", flush=True)


if __name__ == "__main__":
    main()
