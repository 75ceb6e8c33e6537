"""The verb that clusters rows by how the model knows them, and puts the clusters into words."""

from __future__ import annotations

from typing import Any

import numpy as np

from losslens import kmeans, rule_trees
from losslens.cluster_results import Clusters, Tried
from losslens.columns import Distinct
from losslens.inputs import entropy
from losslens.results import Floats, Indices
from losslens.shapley_results import ShapleyImportance
from losslens.tables import Table, as_table

MOST_SEARCHED = 3_000  # rows that choose k and the first centres; all rows settle them
MOST_TOLD = 10_000  # rows that rules are made from
LARGEST_K = 6  # that is tried
STABLE = 0.8
LEAST_SHARE = 0.01  # of the rows, in the smallest cluster, where k is chosen
RESTARTS = 3  # of k-means on halves


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
    for name, number in (("depth", depth), ("starts", starts), *([("k", k)] if k is not None else [])):
        if isinstance(number, bool) or not isinstance(number, (int, np.integer)) or number < 1:
            raise ValueError(f"{name} is a whole number from 1 on; got {number!r}")
    table = as_table(X)
    local, weight = shapley.local, shapley.sample.weight[shapley.at]
    if table.n != len(local):
        raise ValueError(f"X has {table.n} rows, the result {len(local)}; pass the table that was explained")
    counted = np.flatnonzero(np.isfinite(local).all(axis=1) & (weight > 0))
    if len(counted) < 2:
        raise ValueError(f"clusters need at least 2 rows that count and met a donor; there are {len(counted)}")
    points, mass = _tamed(local[counted], weight[counted]), weight[counted] / weight[counted].sum()
    rng = np.random.default_rng([entropy(random_state), 12])
    labels, stable, tried = _clustered(points, mass, k, int(starts), rng)
    rules, columns, described = _described(table, counted, labels, mass, int(depth), rng)
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


def _tamed(local: Floats, weight: Floats) -> Floats:
    """One scale for all features, in units of the loss; linear for most rows, logarithmic for the largest shares."""
    length = np.sqrt(np.square(local).sum(axis=1))
    order = np.argsort(length)
    cumulated = np.cumsum(weight[order])
    scale = float(length[order][np.searchsorted(cumulated, cumulated[-1] / 2)])
    scale = scale if scale > 1e-9 * float(length.max()) else float(weight @ length / weight.sum())
    return np.asarray(np.arcsinh(local / scale)) if scale > 0 else np.zeros_like(local)


def _clustered(
    points: Floats, weight: Floats, k: int | None, starts: int, rng: np.random.Generator
) -> tuple[Indices, Floats, tuple[Tried, ...]]:
    """Labels, the largest cluster 0; how stable each cluster is; and what was tried."""
    distinct = _distinct(points, LARGEST_K if k is None else k)
    if k is not None and k > distinct:
        raise ValueError(f"{k} clusters need as many rows that the model knows differently; there are {distinct}")
    searched = np.sort(rng.permutation(len(points))[:MOST_SEARCHED])
    some, mass = points[searched], weight[searched]
    found: dict[int, tuple[kmeans.Fit, Floats]] = {}
    tried = []
    most = min(LARGEST_K, distinct, len(some) // 4)
    for count in range(2, most + 1) if k is None else range(k, k + 1):
        if count == 1:
            continue
        fit = kmeans.fit(some, mass, count, starts, rng)
        stability, by_cluster = kmeans.stability(some, mass, fit, min(RESTARTS, starts), rng)
        smallest = np.bincount(fit.labels, minlength=count).min() / len(some)
        apart = bool(smallest >= LEAST_SHARE) and kmeans.parted(some, mass, fit)
        found[count] = fit, by_cluster
        tried.append(Tried(count, stability, apart))
    good = [one.k for one in tried if k is not None or (one.stability >= STABLE and one.parted)]
    if not good:
        return np.zeros(len(points), np.intp), np.full(1, np.nan), tuple(tried)
    fit, by_cluster = found[max(good)]
    labels = kmeans.settle(points, weight, fit.centres).labels
    order = np.argsort(-np.bincount(labels, minlength=max(good)), kind="stable")
    place = np.empty(len(order), np.intp)
    place[order] = np.arange(len(order))
    return place[labels], by_cluster[order], tuple(tried)


def _distinct(points: Floats, enough: int) -> int:
    """How many points differ by more than rounding; all are counted only where the first ones are not enough."""
    found = len(np.unique(points[:MOST_SEARCHED].round(12), axis=0))
    return found if found >= enough else len(np.unique(points.round(12), axis=0))


def _described(
    table: Table, counted: Indices, labels: Indices, weight: Floats, depth: int, rng: np.random.Generator
) -> tuple[tuple[str, ...], tuple[str, ...], float]:
    """A rule for each cluster, the columns in them, and the share of rows that rules from the other half put right."""
    k = int(labels.max()) + 1
    if k == 1:
        return ("",), (), 1.0
    told = np.sort(rng.permutation(len(counted))[:MOST_TOLD])
    columns = {
        name: Distinct(whole.values, whole.codes[counted[told]], whole.first, whole.ordered)
        for name, whole in ((name, table.column(j).distinct) for j, name in enumerate(table.names))
    }
    mine, mass = labels[told], weight[told]
    half = rng.permutation(len(told)) < len(told) / 2
    right = 0.0
    for here in (half, ~half):
        where = rule_trees.placed(rule_trees.grow(columns, mine, mass, here, depth), len(told))
        right += float(mass[~here] @ (where == mine)[~here])
    tree = rule_trees.grow(columns, mine, mass, np.ones(len(told), bool), depth)
    return rule_trees.in_words(tree, k), rule_trees.asked_about(tree), right / float(mass.sum())
