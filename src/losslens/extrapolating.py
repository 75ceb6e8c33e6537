"""The verb that asks how far replaced rows are from real ones; results know it of themselves as well."""

from __future__ import annotations

from typing import Any

from losslens.extrapolation import Extrapolations
from losslens.importance import FeatureImportance
from losslens.importances import Importances
from losslens.inputs import entropy
from losslens.surroundings import Surroundings
from losslens.tables import as_table


def extrapolation(
    importance: Importances | FeatureImportance, X: Any, *, classifier: Any = None, random_state: Any = None
) -> Extrapolations:
    """Find out how far the replaced rows behind an importance are from real ones.

    A classifier learns to tell rows whose value of the feature came from another row from real ones, on one half of
    the rows, and is tried on the other half, both ways round. Results know this of themselves, as ``.extrapolation``;
    this is for another classifier, for another draw, and for results from files of older versions.

    Parameters
    ----------
    importance
        What `feature_importance` gives, or one feature of it.
    X
        The table that was explained. At most 2,000 of its rows are looked at.
    classifier
        Anything with ``fit`` and ``predict_proba``, such as a forest of scikit-learn's; it sees tables like X. By
        default a logistic regression on products of the columns' ranks, which takes 30 to 100 ms a feature.
    random_state
        A seed or a NumPy generator, for the halves and the donors.

    Examples
    --------
    >>> import numpy as np, losslens as ll
    >>> a, b, c = np.random.default_rng(0).normal(size=(3, 500))
    >>> X = np.column_stack([a, a + 0.1 * b, c])
    >>> imp = ll.feature_importance(lambda X: X[:, 0], X, X[:, 0], loss="squared_error")
    >>> ll.extrapolation(imp, X, random_state=0).warned
    ('x0', 'x1')
    """
    if not isinstance(importance, (Importances, FeatureImportance)):
        raise TypeError(f"extrapolation takes what feature_importance gives; got {type(importance).__name__}")
    if classifier is not None and not (hasattr(classifier, "fit") and hasattr(classifier, "predict_proba")):
        raise TypeError(f"classifier needs fit and predict_proba; {type(classifier).__name__} lacks one")
    features = importance if isinstance(importance, Importances) else {importance.name: importance}
    first = next(iter(features.values()))
    table = as_table(X)
    if table.n != len(first.at):
        raise ValueError(f"X has {table.n} rows, the result {len(first.at)}; pass the table that was explained")
    around, seed = Surroundings.of(table, first.sample.weight[first.at]), entropy(random_state)
    place = {name: j for j, name in enumerate(table.names)}
    found = {}
    for name, one in features.items():
        lost = [column for column in one.columns if column not in place]
        if lost:
            raise ValueError(f"X has no column {lost[0]!r}; pass the table that was explained")
        if len(one.values) == 1:
            judged = around.judge(name, [place[column] for column in one.columns], classifier, seed)
            found[name] = judged.on(one.values[0])
    return Extrapolations(found, first.backend)
