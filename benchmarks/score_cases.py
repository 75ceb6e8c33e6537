"""Populations and fitted models on which the coverage of scores is counted; truths are means over 400,000 rows, thrice.

They were drawn up from what a score promises, without regard to how its errors are computed: skewed and dependent
features, heavy tails, groups of rows, rare and unequal classes, ties.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import get_scorer

ROWS, FITTED = 400_000, 1_000
Drawn = tuple[Any, Any, Any]  # X, y, groups of rows
MIXING = np.linalg.cholesky([[1, 0.6, 0.2], [0.6, 1, 0.3], [0.2, 0.3, 1]]).T


def skewed(rng: np.random.Generator, n: int) -> Drawn:
    """Lognormal, dependent features and t noise."""
    X = np.exp(0.6 * (rng.normal(size=(n, 3)) @ MIXING))
    return X, X[:, 0] + 0.5 * X[:, 1] + 0.4 * X[:, 0] * X[:, 2] + rng.standard_t(5, size=n), None


def grouped(rng: np.random.Generator, n: int) -> Drawn:
    """Groups of four rows with parts of their features and odds in common; a fifth are positive."""
    group = np.repeat(np.arange(n // 4), 4)
    X = 0.6 * rng.normal(size=(n // 4, 3))[group] + 0.8 * rng.normal(size=(n, 3))
    odds = -1.9 + X @ [1.2, -0.6, 0.3] + 0.7 * rng.normal(size=n // 4)[group]
    return X, (rng.uniform(size=n) < 1 / (1 + np.exp(-odds))).astype(int), group


def tied(rng: np.random.Generator, n: int) -> Drawn:
    """A rounded feature that depends on another one, and an interaction."""
    X = rng.normal(size=(n, 3))
    X[:, 2] = np.round(0.7 * X[:, 0] + 0.7 * X[:, 2])
    odds = -0.9 + X[:, 0] + X[:, 1] * (X[:, 2] > 0) + 0.4 * X[:, 2]
    return X, (rng.uniform(size=n) < 1 / (1 + np.exp(-odds))).astype(int), None


def unequal(rng: np.random.Generator, n: int) -> Drawn:
    """Three classes of unequal size, heavy tails."""
    X = rng.standard_t(6, size=(n, 3))
    X[:, 1] += 0.5 * X[:, 0]
    scores = np.c_[np.full(n, 0.9), 1.1 * X[:, 0] + 0.2, 0.9 * X[:, 1] - 0.4 * X[:, 2] - 0.3]
    return X, (scores + rng.gumbel(size=(n, 3))).argmax(axis=1), None


@dataclass(frozen=True, eq=False)
class ScoreCase:
    """A score of a model that was fitted once; `n` rows are explained."""

    name: str
    score: str
    draw: Callable[[np.random.Generator, int], Drawn]
    estimator: Any
    n: int

    @cached_property
    def model(self) -> Any:
        """The fitted model."""
        X, y, _ = self.draw(np.random.default_rng(1), FITTED)
        return self.estimator.fit(X, y)

    @cached_property
    def importances(self) -> Any:
        """Of the population, (3,): the score less that with a feature from other rows."""
        rng, scorer, total = np.random.default_rng(2), get_scorer(self.score), np.zeros(3)
        for _ in range(3):
            X, y, _ = self.draw(rng, ROWS)
            base = scorer(self.model, X, y)
            for j in range(3):
                replaced = X.copy()
                replaced[:, j] = rng.permutation(X[:, j])
                total[j] += base - scorer(self.model, replaced, y)
        return total / 3


CASES = (
    ScoreCase(
        "skewed features", "r2", skewed, HistGradientBoostingRegressor(max_iter=60, random_state=0), 100
    ),
    ScoreCase("groups of rows", "roc_auc", grouped, LogisticRegression(), 160),
    ScoreCase(
        "ties, forest", "average_precision", tied, RandomForestClassifier(20, min_samples_leaf=10, random_state=0), 120
    ),
    ScoreCase(
        "three classes", "balanced_accuracy", unequal,
        HistGradientBoostingClassifier(max_iter=30, random_state=0), 120,
    ),
    ScoreCase("ties, logistic", "f1", tied, LogisticRegression(), 100),
)  # fmt: skip
