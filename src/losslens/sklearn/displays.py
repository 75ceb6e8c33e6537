"""Importances and their curves as displays: `from_estimator` computes and draws, `plot` draws again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from losslens import losses
from losslens.results.importances import Importances
from losslens.verbs.features import feature_importance

COLUMNS = 3  # of panels side by side, as in scikit-learn's PartialDependenceDisplay
WIDTH, HEIGHT = 5.0, 4.0  # of a panel, in inches


def explained(estimator: Any, X: Any, y: Any, scoring: Any, **options: Any) -> Importances:
    """The importances by a scorer, or the change of a loss; of the estimator's own `score` where none is named."""
    if scoring is None:
        scoring = "score"
    elif callable(scoring) and not losses.is_scorer(scoring):
        scoring = losses.scorer(scoring)
    elif not isinstance(scoring, str) and not callable(scoring):
        raise ValueError(f"importances are of one score: scoring is a name, a scorer or a function; got {scoring!r}")
    result: Importances = feature_importance(estimator, X, y, loss=scoring, **options)
    return result


class PermutationImportanceDisplay:
    """Permutation importances with their 95% intervals, one line a feature.

    Parameters
    ----------
    importances
        The result of `losslens.feature_importance`.

    Attributes
    ----------
    importances
        The result that is drawn: numbers, tests, curves.
    ax_, figure_
        The axes and the figure, once drawn.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.linear_model import Ridge
    >>> from losslens.sklearn import PermutationImportanceDisplay
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> display = PermutationImportanceDisplay.from_estimator(Ridge().fit(X, y), X, y, scoring="r2", top=3)
    >>> [label.get_text() for label in display.ax_.get_yticklabels()]
    ['bmi', 's5', 'bp']
    """

    def __init__(self, importances: Importances) -> None:
        if not isinstance(importances, Importances):
            raise TypeError(f"pass the result of losslens.feature_importance; got {type(importances).__name__}")
        self.importances = importances

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any, *, scoring: Any = None, sample_weight: Any = None,
        n_jobs: int | None = None, random_state: Any = None, ax: Any = None, **options: Any,
    ) -> Self:  # fmt: skip
        """Compute the importances of a fitted estimator, and draw them.

        Parameters
        ----------
        estimator, X, y
            A fitted estimator, the rows that are explained, and the true values.
        scoring
            A name, a scorer, or a function ``(estimator, X, y)``; None: the estimator's own `score`.
        sample_weight, n_jobs, random_state
            As in `losslens.feature_importance`.
        ax
            Axes to draw on; None: a new figure.
        **options
            Of `Importances.plot`: ``top``, ``sort``, ``scale``, ``colors``, ``labels``.
        """
        shared = {"sample_weight": sample_weight, "n_jobs": n_jobs, "random_state": random_state}
        return cls.from_importances(explained(estimator, X, y, scoring, **shared), ax=ax, **options)

    @classmethod
    def from_importances(cls, importances: Importances, *, ax: Any = None, **options: Any) -> Self:
        """Draw importances that `losslens.feature_importance` has computed; `ax` and options as in `from_estimator`."""
        return cls(importances).plot(ax, **options)

    def plot(self, ax: Any = None, **options: Any) -> Self:
        """Draw the importances once more, on `ax` or in a new figure; options as in `from_estimator`."""
        self.ax_ = self.importances.plot(ax, **options)
        self.figure_ = self.ax_.figure
        return self


class PartialImportanceDisplay:
    """Where in its range a feature matters: its PI curve over the ICI curves of single rows, one panel a feature.

    Parameters
    ----------
    importances
        The result of `losslens.feature_importance`.
    features
        The features to draw, by name or position; None: all of them.

    Attributes
    ----------
    axes_, figure_
        The axes of the panels, an array, and the figure, once drawn.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.ensemble import HistGradientBoostingRegressor
    >>> from losslens.sklearn import PartialImportanceDisplay
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> model = HistGradientBoostingRegressor(max_iter=20).fit(X, y)
    >>> display = PartialImportanceDisplay.from_estimator(model, X, y, ["bmi", "s5"])
    >>> [ax.get_xlabel() for ax in display.axes_]
    ['bmi', 's5']
    """

    def __init__(self, importances: Importances, features: Sequence[Any] | None = None) -> None:
        names = list(importances)
        asked = names if features is None else [features] if isinstance(features, (str, int)) else list(features)
        self.importances = importances
        self.features = [importances[names[one] if isinstance(one, (int, np.integer)) else one].name for one in asked]
        if not self.features:
            raise ValueError("features names no feature: nothing to draw")

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any, features: Any, *, scoring: Any = "auto", sample_weight: Any = None,
        n_jobs: int | None = None, random_state: Any = None, ax: Any = None, **options: Any,
    ) -> Self:  # fmt: skip
        """Compute the curves of a fitted estimator, and draw them.

        Parameters
        ----------
        estimator, X, y
            A fitted estimator, the rows that are explained, and the true values.
        features
            One feature or several, by name or position.
        scoring
            A loss or a score; curves of single rows need a loss, such as the default: squared error for regressors,
            log loss for classifiers.
        sample_weight, n_jobs, random_state
            As in `losslens.feature_importance`.
        ax
            Axes for the panels, as many as features; None: a new figure.
        **options
            Of `FeatureImportance.plot`.
        """
        shared = {"sample_weight": sample_weight, "n_jobs": n_jobs, "random_state": random_state, "features": features}
        if isinstance(scoring, str) and scoring == "auto":
            return cls.from_importances(feature_importance(estimator, X, y, **shared), ax=ax, **options)
        return cls.from_importances(explained(estimator, X, y, scoring, **shared), ax=ax, **options)

    @classmethod
    def from_importances(
        cls, importances: Importances, features: Any = None, *, ax: Any = None, **options: Any
    ) -> Self:
        """Draw curves that `losslens.feature_importance` has computed; `ax` and options as in `from_estimator`."""
        return cls(importances, features).plot(ax, **options)

    def plot(self, ax: Any = None, **options: Any) -> Self:
        """Draw the curves once more, on the axes `ax` or in a new figure; options as in `from_estimator`."""
        count = len(self.features)
        if ax is None:
            from matplotlib import pyplot as plt

            columns = min(count, COLUMNS)
            rows = -(-count // columns)
            size = (WIDTH * columns, HEIGHT * rows)
            _, grid = plt.subplots(rows, columns, figsize=size, squeeze=False, layout="constrained")
            for spare in grid.ravel()[count:]:
                spare.set_visible(False)
            ax = grid.ravel()[:count]
        axes = np.array(ax, object).ravel()
        if len(axes) != count:
            raise ValueError(f"ax has {len(axes)} axes for {count} features: pass one for each")
        for name, one in zip(self.features, axes, strict=True):
            self.importances[name].plot(one, **options)
        self.axes_, self.figure_ = axes, axes[0].figure
        return self
