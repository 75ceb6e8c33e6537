"""Verbs on results: `regions`, `clusters`, `observations`, `extrapolation`. None of them calls the model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from losslens.blas import one_thread
from losslens.results.clusters import Clusters
from losslens.results.extrapolation import Extrapolations
from losslens.results.importance import FeatureImportance
from losslens.results.importances import Importances
from losslens.results.observations import Observations
from losslens.results.regions import Regions, Target
from losslens.results.replaced_rows import ReplacedRows
from losslens.results.scores import FeatureScore, Scores
from losslens.results.shapley import ShapleyImportance
from losslens.rows import kmeans
from losslens.rows.clusters import cluster_points, compress_shares, describe_clusters
from losslens.rows.extrapolation import OwnClassifier
from losslens.rows.observations import largest_influence, observed_target, shown_prediction
from losslens.rows.regions import RegionSearch
from losslens.tables.checks import check_whole, entropy, is_one_of
from losslens.tables.column_scores import CodedRows, copy_columns, spread_rows
from losslens.tables.frames import Table, as_table
from losslens.tables.row_labels import Labels, has_other_order
from losslens.uncertainty.standard_errors import check_level


def regions(
    importance: Importances | FeatureImportance,
    X: Any,
    *,
    target: Target = "interaction",
    depth: int = 3,
    level: float = 0.05,
    permutations: int = 499,
    random_state: Any = 0,
) -> Regions:
    """Find regions of the data in which a feature's importance differs, as a small tree with readable rules.

    The split on another column is chosen that separates the rows best, and a permutation test compares it with the best
    split under chance; then the same within either side. No prediction is made.

    The level holds for all features together: if nothing differs, some feature is split in one run of twenty. `p` and
    the 95% intervals of `difference` and `ratio` are of the importance on one side of a split against the other, and
    allow for the choice of the rule: with ``target="interaction"`` a row counts for the side that the best split
    without that row puts it on; with ``target="importance"`` the difference is compared with the largest of all splits
    under chance. `p` is multiplied by the number of features. `sentences` tells what is sure. `pfi`, `low` and `high`
    are those of the region's rows, as if its rule had been given.

    Clustered rows (``groups=`` of `feature_importance`) are left out together, and standard errors and tests count
    groups, not rows. A split needs at least five groups with rows on either side. Instead of permutations, signs of
    groups are drawn: a large-sample test, which needs some thirty groups.

    Parameters
    ----------
    importance
        The result of `feature_importance`, with all cells kept, or one feature of it.
    X
        The table that was explained; further columns may be used in rules.
    target
        ``"interaction"``: where the effect of the feature in the *model* is stronger, whatever the labels; none in a
        model without interactions. ``"importance"``: where its importance differs for any reason.
    depth
        The most splits from root to leaf.
    level
        The probability that any feature is split although nothing differs.
    permutations
        Of the test of each split (or draws of signs), in which all rows with positive weight are exchangeable; more if
        the number of features requires it.
    random_state
        A seed or a NumPy generator, for the permutations: the same data have the same regions by default, and another
        seed changes only what is about to be chance.

    Examples
    --------
    >>> import numpy as np, losslens as ll
    >>> X = np.random.default_rng(0).normal(size=(300, 3))
    >>> X[:, 2] = X[:, 2] > 0
    >>> f = lambda X: X[:, 0] * (1 + X[:, 2]) + X[:, 1]
    >>> found = ll.regions(ll.feature_importance(f, X, f(X), loss="squared_error"), X)
    >>> found.sentences[0]
    'x0 matters 4.0 times as much (95% interval 3.4 to 4.9) where x2 = 1 (150 rows) as elsewhere.'
    >>> [region.rule for region in found.of("x0")]
    ['', 'x2 = 0', 'x2 = 1']
    """
    features = _features(importance, "regions")
    if not is_one_of(target, ("interaction", "importance")):
        raise ValueError(f"target is 'interaction' or 'importance'; got {target!r}")
    check_whole(depth, "depth")
    check_whole(permutations, "permutations")
    if not 1 / (1 + permutations) <= check_level(level):
        raise ValueError(f"{permutations} permutations cannot give a p-value of {level} or less; use more")
    first = next(iter(features.values()))
    search = RegionSearch.over(
        _explained_table(X, len(first.at), first.row_labels), first, len(features), depth=int(depth), level=level,
        permutations=int(permutations), seed=entropy(random_state),
    )  # fmt: skip
    found = [region for one in features.values() for region in search.of(one, target)]
    return Regions(tuple(found), dict(features), target)


def clusters(
    shapley: ShapleyImportance,
    X: Any,
    *,
    k: int | None = None,
    depth: int = 3,
    starts: int = 10,
    random_state: Any = None,
) -> Clusters:
    """Cluster rows by their local SFIMP: by how much the model gains from each feature for a row.

    k-means on the rows' local SFIMP, n x p. All features share one scale, that of the loss, so that a feature which the
    model ignores doesn't count: ``z = asinh(local / s)``, s the median length of a row's local SFIMP. Within s that is
    linear; beyond it is logarithmic, so that a few rows with huge losses do not form a cluster. A small tree on the
    columns of X describes the clusters. No prediction is made. Shares from few walks are noisy for single rows: call
    `shapley_importance` with a higher precision or an exact method.

    Parameters
    ----------
    shapley
        The result of `shapley_importance`, with shares of single rows.
    X
        The table that was explained; further columns may be used in rules.
    k
        Number of clusters. None: the largest number from 2 to 6 that is stable (`Clusters.stability` of 0.8 or more),
        with 1% of the rows or more in each cluster and a valley between every two of them, where the density is less
        than half of that at the lower peak; 1 if there is none, because a continuum has no natural cut.
    depth
        The most conditions in a rule.
    starts
        Random starts of k-means; the best result is taken.
    random_state
        A seed or a NumPy generator.

    Examples
    --------
    >>> import numpy as np, losslens as ll
    >>> X = np.random.default_rng(0).normal(size=(300, 3))
    >>> X[:, 2] = X[:, 2] > 0
    >>> f = lambda X: np.where(X[:, 2] == 1, X[:, 0], 10 + X[:, 1])
    >>> found = ll.clusters(ll.shapley_importance(f, X, f(X), loss="squared_error"), X, k=2, random_state=0)
    >>> int(found.sizes.sum()), len(found.rules)
    (300, 2)
    """
    if not isinstance(shapley, ShapleyImportance):
        raise TypeError(f"clusters needs the result of shapley_importance; got {type(shapley).__name__}")
    check_whole(depth, "depth")
    check_whole(starts, "starts")
    if k is not None:
        check_whole(k, "k")
    local, weight = shapley.local, shapley.sample.weight[shapley.at]
    table = _explained_table(X, len(local), shapley.row_labels)
    counted = np.flatnonzero(np.isfinite(local).all(axis=1) & (weight > 0))
    if len(counted) < 2:
        raise ValueError(f"clusters need at least 2 rows with weight and donors; there are {len(counted)}")
    shares = local if len(counted) == len(local) else local[counted]
    points, mass = compress_shares(shares, weight[counted]), weight[counted] / weight[counted].sum()
    rng = np.random.default_rng([entropy(random_state), 12])
    labels, stable, tried = cluster_points(points, mass, k, int(starts), rng)
    rules, columns, described = describe_clusters(table, counted, labels, mass, int(depth), rng)
    every = np.full(len(local), -1)
    every[counted] = labels
    return Clusters(
        labels=every,
        weight=weight / weight.sum(),
        profiles=kmeans.group_means(shares, mass, labels, len(stable)),
        rules=rules,
        columns=columns,
        described=described,
        stability=next((one.stability for one in tried if one.k == len(stable)), np.nan),
        cluster_stability=stable,
        tried=tried,
        features=shapley.features,
        title=shapley.title,
        backend=shapley.backend,
        row_labels=shapley.row_labels,
    )


def observations(shapley: ShapleyImportance, importances: Importances | None = None) -> Observations:
    """How much the model gains for each row, which rows look wrong, and which rows are influential.

    ``O_i = mean_k L(f(x_k), y_i) - L(f(x_i), y_i)``: the mean loss of a row with the predictions of all rows less that
    with its own. It is the sum of the row's local SFIMP. No prediction is made.

    Parameters
    ----------
    shapley
        The result of `shapley_importance`.
    importances
        The result of `feature_importance` for the same rows: adds the influence of each row on the importance of the
        feature that would change most without it.

    Examples
    --------
    >>> import numpy as np, losslens as ll
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> y = X[:, 0] + 0.1 * X[:, 1]
    >>> y[7] = -10 * X[7, 0]  # a wrong target
    >>> shares = ll.shapley_importance(lambda X: X[:, 0], X, y, loss="squared_error")
    >>> ll.observations(shares).suspicious
    array([7])
    """
    if not isinstance(shapley, ShapleyImportance):
        raise TypeError(f"observations needs the result of shapley_importance; got {type(shapley).__name__}")
    if shapley.loss is None or shapley.sample.loss is None:
        raise ValueError(f"{shapley.title} is a score of all rows together, which single rows do not have; use a loss")
    if shapley.aggregate == "prediction":
        raise ValueError(
            "with averaged predictions rows have another gain than with single donors; use aggregate='loss'"
        )
    at, sample = shapley.at, shapley.sample
    assert sample.y is not None  # a loss has read it
    importance, loss = shapley.observations, shapley.sample.loss[at]
    influence, on = (None, None) if importances is None else largest_influence(importances, len(at), sample.y[at])
    labels = shapley.loss.reads == "labels"
    return Observations(
        importance=importance,
        loss=loss,
        weight=sample.weight[at] / sample.weight[at].sum(),
        target=observed_target(sample, at),
        prediction=shown_prediction(sample, at, labels),
        influence=influence,
        influence_on=on,
        title=shapley.title,
        backend=shapley.backend,
        row_labels=shapley.row_labels,
    )


def extrapolation(
    importance: Importances | FeatureImportance, X: Any, *, classifier: Any = None, random_state: Any = None
) -> Extrapolations:
    """Measure how far rows with replaced values are from real ones.

    A classifier is trained on one half of the rows to separate rows with a replaced value from real ones, and evaluated
    on the other half, both ways round. Results have this as ``.extrapolation``; the function is for another classifier,
    another draw, and results from files of older versions.

    Parameters
    ----------
    importance
        The result of `feature_importance`, or one feature of it.
    X
        The table that was explained. At most 2,000 of its rows are used.
    classifier
        Anything with ``fit`` and ``predict_proba``, such as a forest of scikit-learn; it gets tables like X. By
        default a logistic regression on products of the columns' ranks, which takes 30 to 100 ms a feature.
    random_state
        A seed or a NumPy generator, for the halves and the donors.

    Examples
    --------
    >>> import numpy as np, losslens as ll
    >>> a, b, c = np.random.default_rng(0).normal(size=(3, 500))
    >>> X = np.column_stack([a, a + 0.1 * b, c])
    >>> imp = ll.feature_importance(lambda X: X[:, 0], X, 2 * X[:, 0], loss="squared_error")
    >>> ll.extrapolation(imp, X, random_state=0).warned
    ('x0', 'x1')
    """
    features = _features(importance, "extrapolation")
    if classifier is not None and not (hasattr(classifier, "fit") and hasattr(classifier, "predict_proba")):
        raise TypeError(f"classifier needs fit and predict_proba; {type(classifier).__name__} lacks one")
    first = next(iter(features.values()))
    table = _explained_table(X, len(first.at), first.row_labels)
    rows, seed = spread_rows(table, first.sample.weight[first.at]), entropy(random_state)
    real, table = CodedRows.of(table.names, copy_columns(table, rows)), table.at(rows)
    place = {name: j for j, name in enumerate(table.names)}
    found = {}
    for name, one in features.items():
        lost = [column for column in one.columns if column not in place]
        if lost:
            raise ValueError(f"X has no column {lost[0]!r}; pass the table that was explained")
        if len(one.values) == 1:
            replaced = ReplacedRows(name, tuple(place[column] for column in one.columns), real)
            if classifier is None:
                with one_thread():
                    judged = replaced.examine(seed)
            else:
                judged = replaced.examine(seed, OwnClassifier(table, replaced.columns, classifier).odds)
            found[name] = judged.on(one.values[0])
    return Extrapolations(found, first.backend)


def _features(importance: Any, verb: str) -> Mapping[str, Any]:
    """The features of a result of `feature_importance`, by name."""
    if verb == "regions" and isinstance(importance, (Scores, FeatureScore)):
        raise ValueError(
            f"{importance.title} is a score of all rows together, which single rows do not have; regions need the "
            "importances by a loss, such as 'log_loss' or 'squared_error'"
        )
    if not isinstance(importance, (Importances, FeatureImportance, FeatureScore)):
        raise TypeError(f"{verb} needs the result of feature_importance; got {type(importance).__name__}")
    return importance if isinstance(importance, Importances) else {importance.name: importance}


def _explained_table(X: Any, n: int, labels: Labels | None) -> Table:
    """The table that was explained, which has as many rows as the result, in the same order."""
    table = as_table(X)
    if table.n != n:
        raise ValueError(f"X has {table.n} rows, the result {n}; pass the table that was explained")
    if has_other_order(table.index, labels):
        raise ValueError("X has the row labels of the result in another order; pass the table that was explained")
    return table
