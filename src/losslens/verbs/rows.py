"""Verbs on finished results and the table that was explained: regions, clusters, observations, extrapolation."""

from __future__ import annotations

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
from losslens.results.shapley import ShapleyImportance
from losslens.rows import kmeans
from losslens.rows.clusters import cluster_points, compress_shares, describe_clusters
from losslens.rows.extrapolation import OwnClassifier
from losslens.rows.observations import largest_influence, observed_target, shown_prediction
from losslens.rows.regions import RegionSearch, half_of_rows
from losslens.tables.checks import check_whole, entropy
from losslens.tables.column_scores import CodedRows, spread_rows
from losslens.tables.frames import as_table
from losslens.uncertainty.standard_errors import check_level


def regions(
    importance: Importances | FeatureImportance,
    X: Any,
    *,
    target: Target = "interaction",
    depth: int = 3,
    level: float = 0.05,
    permutations: int = 499,
    random_state: Any = None,
) -> Regions:
    """Find parts of the data in which a feature's importance differs, as a small tree with rules to read.

    Half of the rows look for the question about another column that splits the rows best, and ask a permutation test
    whether the best of all questions is better than chance; the other half says how important the feature is on either
    side. No prediction is made.

    The level holds for all features together: where nothing differs, some feature is split in one run of twenty (the
    first question of each of k features has the level / k). Further down it is that of one question, the best of all
    columns and bounds in one region. `p`, from the half that did not look, is the second opinion.

    Rows that belong together (``groups=`` of `feature_importance`) are in the same half, and standard errors and
    tests count groups, not rows. Any column may take part in rules, whether it varies inside groups or not, where
    five groups or more of those that look have rows on either side. Then groups' signs are drawn instead of
    permutations, which is a large-sample test in the number of groups: from some thirty on.

    Parameters
    ----------
    importance
        What `feature_importance` gives, with all cells kept, or one feature of it.
    X
        The table that was explained; any further columns may take part in rules, too.
    target
        ``"interaction"``: where the *model* makes more of the feature, whatever the labels; silent on a model without
        interactions. ``"importance"``: where its importance differs, also because rows there are other rows.
    depth
        The most questions one after the other.
    level
        The probability that any feature is split where nothing differs.
    permutations
        Of the test at each question (or draws of signs), which takes all rows that have a weight as alike; more where
        so many features need more.
    random_state
        A seed or a NumPy generator, for the halves and the permutations.

    Examples
    --------
    >>> import numpy as np, losslens as ll
    >>> X = np.random.default_rng(0).normal(size=(300, 3))
    >>> X[:, 2] = X[:, 2] > 0
    >>> f = lambda X: X[:, 0] * (1 + X[:, 2]) + X[:, 1]
    >>> found = ll.regions(ll.feature_importance(f, X, f(X), loss="squared_error"), X, random_state=0)
    >>> found.found, [region.rule for region in found.of("x0")]
    (('x0', 'x2'), ['', 'x2 = 0', 'x2 = 1'])
    """
    if not isinstance(importance, (Importances, FeatureImportance)):
        raise TypeError(f"regions takes what feature_importance gives; got {type(importance).__name__}")
    features = importance if isinstance(importance, Importances) else {importance.name: importance}
    if target not in ("interaction", "importance"):
        raise ValueError(f"target is 'interaction' or 'importance'; got {target!r}")
    check_whole(depth, "depth")
    check_whole(permutations, "permutations")
    if not 1 / (1 + permutations) <= check_level(level):
        raise ValueError(f"{permutations} permutations give no p-value of {level} or less; use more")
    drawn = [name for name, one in features.items() if one.conditioning is not None]
    if drawn:
        raise ValueError(
            f"the values of {drawn[0]!r} were drawn given other columns, so that rows differ by what they could meet; "
            "regions need donors from everywhere"
        )
    first = next(iter(features.values()))
    table = as_table(X)
    if table.n != len(first.at):
        raise ValueError(f"X has {table.n} rows, the result {len(first.at)}; pass the table that was explained")
    columns = {name: table.column(j).distinct for j, name in enumerate(table.names)}
    seed = entropy(random_state)
    block = None if first.sample.block is None else first.sample.block[first.at]
    looks = half_of_rows(np.arange(table.n) if block is None else block, np.random.default_rng([seed, 10]))
    search = RegionSearch(columns, looks, block, int(depth), level, int(permutations), seed, len(features))
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
    """Cluster rows by how the model knows them: through which features, and how much it gains from each.

    k-means on the rows' local SFIMP, n x p. All features share one scale, that of the loss, so that a feature which the
    model ignores doesn't count: ``z = asinh(local / s)``, s the median length of a row's local SFIMP. Within s that is
    linear; beyond it is logarithmic, so that a few rows with huge losses are no cluster of their own. A small tree on
    the columns of X says which rows the clusters are. No prediction is made. Shares that were sampled with few walks
    blur the rows: ask `shapley_importance` for more of them, or for an exact answer.

    Parameters
    ----------
    shapley
        What `shapley_importance` gives, with shares of single rows.
    X
        The table that was explained; any further columns may take part in rules, too.
    k
        How many clusters. None: the largest number from 2 to 6 that is stable (`Clusters.stability` of 0.8 or more),
        with 1% of the rows or more in each cluster and a valley between every two of them, where fewer than half as
        many rows lie as in the lower of both peaks; 1 if there is none, because a continuum can be cut anywhere.
    depth
        The most questions one after the other in a rule.
    starts
        Of k-means; the best is taken.
    random_state
        A seed or a NumPy generator.

    Examples
    --------
    >>> import numpy as np, losslens as ll
    >>> X = np.random.default_rng(0).normal(size=(300, 3))
    >>> X[:, 2] = X[:, 2] > 0
    >>> f = lambda X: np.where(X[:, 2] == 1, X[:, 0], 10 + X[:, 1])
    >>> found = ll.clusters(ll.shapley_importance(f, X, f(X), loss="squared_error"), X, k=2, random_state=0)
    >>> found.sizes.sum(), len(found.rules)
    (np.int64(300), 2)
    """
    if not isinstance(shapley, ShapleyImportance):
        raise TypeError(f"clusters takes what shapley_importance gives; got {type(shapley).__name__}")
    check_whole(depth, "depth")
    check_whole(starts, "starts")
    if k is not None:
        check_whole(k, "k")
    table = as_table(X)
    local, weight = shapley.local, shapley.sample.weight[shapley.at]
    if table.n != len(local):
        raise ValueError(f"X has {table.n} rows, the result {len(local)}; pass the table that was explained")
    counted = np.flatnonzero(np.isfinite(local).all(axis=1) & (weight > 0))
    if len(counted) < 2:
        raise ValueError(f"clusters need at least 2 rows that count and met a donor; there are {len(counted)}")
    points, mass = compress_shares(local[counted], weight[counted]), weight[counted] / weight[counted].sum()
    rng = np.random.default_rng([entropy(random_state), 12])
    labels, stable, tried = cluster_points(points, mass, k, int(starts), rng)
    rules, columns, described = describe_clusters(table, counted, labels, mass, int(depth), rng)
    every = np.full(len(local), -1)
    every[counted] = labels
    return Clusters(
        labels=every,
        weight=weight / weight.sum(),
        profiles=kmeans.group_means(local[counted], mass, labels, len(stable)),
        rules=rules,
        columns=columns,
        described=described,
        stability=next((one.stability for one in tried if one.k == len(stable)), np.nan),
        cluster_stability=stable,
        tried=tried,
        features=shapley.features,
        title=shapley.title,
        backend=shapley.backend,
    )


def observations(shapley: ShapleyImportance, importances: Importances | None = None) -> Observations:
    """Say how much the model's knowledge helps each row, which rows look wrong, and which carry the importances.

    ``O_i = mean_k L(f(x_k), y_i) - L(f(x_i), y_i)``: the loss of a row with everybody's prediction less that with its
    own. It is the sum of the row's local SFIMP. No prediction is made.

    Parameters
    ----------
    shapley
        What `shapley_importance` gives.
    importances
        What `feature_importance` gives for the same rows: adds how far leaving out a row would move a feature's
        importance, for that feature which it moves most.

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
        raise TypeError(f"observations takes what shapley_importance gives; got {type(shapley).__name__}")
    if shapley.loss is None or shapley.sample.loss is None:
        raise ValueError(f"{shapley.title} is a score of all rows together: single rows have none; use a loss")
    if shapley.aggregate == "prediction":
        raise ValueError("averaged predictions share out another gain than that of single donors; use aggregate='loss'")
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
    )


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
    table, seed = table.at(spread_rows(table, first.sample.weight[first.at])), entropy(random_state)
    real = CodedRows.of(table)
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
