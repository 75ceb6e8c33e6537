"""A selector for pipelines: the features whose importance on held-out rows is more than chance."""

from __future__ import annotations

from typing import Any, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone, is_classifier
from sklearn.feature_selection import SelectorMixin
from sklearn.model_selection import train_test_split
from sklearn.utils import _safe_indexing
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.validation import check_is_fitted, validate_data

from losslens.sklearn.displays import explained
from losslens.tables.checks import entropy, is_one_of
from losslens.verbs.features import feature_importance


class ImportanceSelector(SelectorMixin, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """Keep the features whose permutation importance is surely above 0, by a test on rows that are held out.

    The estimator is fitted on a part of the rows. On the others each feature's values are replaced by those of other
    rows, and a one-sided test asks whether the error rises on new data. A feature that the model does not need *because
    another one says the same* is dropped, and so may be all of a group that moves together: see
    `losslens.feature_groups`.

    Parameters
    ----------
    estimator
        An estimator with `fit` and a prediction; a clone of it is fitted.
    alpha
        The largest adjusted p-value of a feature that is kept.
    adjust
        ``"holm"``: the probability that any useless feature is kept is at most `alpha`. ``"benjamini_hochberg"``: the
        expected share of useless ones among those kept. None: `alpha` for each feature by itself.
    scoring
        A loss or a score, such as ``"log_loss"`` or ``"roc_auc"``; None: squared error for regressors, log loss (or the
        rate of wrong labels, for those without probabilities) for classifiers.
    validation
        The share of the rows that is held out.
    random_state
        A seed for the split of the rows and for the donors.
    n_jobs
        Threads for the importances.

    Attributes
    ----------
    importances_
        The importances on the held-out rows (`losslens.results.Importances`).
    p_values_
        The adjusted p-value of each feature.
    estimator_
        The estimator that was fitted on the other rows.
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LinearRegression
    >>> from losslens.sklearn import ImportanceSelector
    >>> X = np.random.default_rng(0).normal(size=(400, 5))
    >>> y = X[:, 1] + X[:, 3] + np.random.default_rng(1).normal(size=400)
    >>> ImportanceSelector(LinearRegression(), random_state=0).fit(X, y).get_support().tolist()
    [False, True, False, True, False]
    """

    def __init__(
        self,
        estimator: Any,
        *,
        alpha: float = 0.05,
        adjust: Literal["holm", "benjamini_hochberg"] | None = "holm",
        scoring: Any = None,
        validation: float = 0.25,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.alpha = alpha
        self.adjust = adjust
        self.scoring = scoring
        self.validation = validation
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any, **params: Any) -> Self:
        """Fit the estimator on a part of the rows, and test each feature on the others.

        Parameters
        ----------
        X, y
            The rows and their true values.
        **params
            For the estimator's `fit`, by metadata routing; ``sample_weight``, where the estimator requests it, also
            weighs the held-out rows.
        """
        if not (isinstance(self.alpha, (int, float)) and 0 < self.alpha < 1):
            raise ValueError(f"alpha is a probability between 0 and 1; got {self.alpha!r}")
        if self.adjust is not None and not is_one_of(self.adjust, ("holm", "benjamini_hochberg")):
            raise ValueError(f"adjust is 'holm', 'benjamini_hochberg' or None; got {self.adjust!r}")
        checked, y = validate_data(self, X, y, dtype=None, ensure_all_finite=False, ensure_min_samples=4)
        X = X if hasattr(X, "columns") else checked  # frames keep their names
        seed = entropy(self.random_state) % 2**32  # one for the split and the donors; a generator will do
        routed = process_routing(self, "fit", **params).estimator.fit
        rows = np.arange(len(y))
        labels, counts = np.unique(y, return_counts=True) if is_classifier(self.estimator) else (y, np.zeros(1))
        held = int(np.ceil(self.validation * len(y))) if isinstance(self.validation, float) else self.validation
        alike = y if counts.min() > 1 and len(labels) <= min(held, len(y) - held) else None
        train, test = train_test_split(rows, test_size=self.validation, random_state=seed, stratify=alike)
        of_fit = {name: _take(value, train, len(y)) for name, value in routed.items()}
        self.estimator_ = clone(self.estimator).fit(_take(X, train, len(y)), y[train], **of_fit)
        weight = routed.get("sample_weight")
        options: dict[str, Any] = {
            "sample_weight": None if weight is None else np.asarray(weight)[test],
            "random_state": seed,
            "n_jobs": self.n_jobs,
        }
        rows_held = _take(X, test, len(y)), y[test]
        self.estimator_.predict(rows_held[0])  # rows that the estimator can't read are refused in its own words
        if self.scoring is None:
            self.importances_ = feature_importance(self.estimator_, *rows_held, **options)
        else:
            self.importances_ = explained(self.estimator_, *rows_held, self.scoring, **options)
        tested = self.importances_.test(self.adjust)
        p = dict(zip(tested["feature"], tested["p" if self.adjust is None else "p_adjusted"], strict=True))
        # A feature that no prediction depends on has an importance of exactly 0, and no error: it has no p-value.
        self.p_values_ = np.array([p.get(name, 1.0) for name in self.importances_], float)
        return self

    def _get_support_mask(self) -> Any:
        check_is_fitted(self)
        return self.p_values_ <= self.alpha

    def get_metadata_routing(self) -> Any:
        """Where parameters of `fit` go: to the estimator's."""
        mapping = MethodMapping().add(caller="fit", callee="fit")
        return MetadataRouter(owner=type(self).__name__).add(estimator=self.estimator, method_mapping=mapping)

    def __sklearn_tags__(self) -> Any:
        tags, own = super().__sklearn_tags__(), self.estimator.__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.allow_nan = own.input_tags.allow_nan
        return tags


def _take(values: Any, rows: Any, n: int) -> Any:
    """These rows of a table or a list of values; what has no value for each row stays."""
    if not hasattr(values, "__len__") or len(values) != n:
        return values
    return _safe_indexing(values, rows)
