"""Clusters of rows by their Shapley shares, and rules that describe them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from losslens.results.clusters import Clusters, Tried
from losslens.results.shapley import ShapleyImportance
from losslens.rows import kmeans, rule_tree
from losslens.tables.checks import check_count, entropy
from losslens.tables.columns import Distinct
from losslens.tables.frames import Table, explained_table
from losslens.typing import Floats, Indices

SEARCH_ROWS = 3_000  # rows from which k and the first centres are chosen; the final centres use all rows
RULE_ROWS = 10_000  # rows from which rules are learned
LARGEST_K = 6  # largest number of clusters that is tried
STABLE = 0.8  # stability from which on a number of clusters can be chosen
LEAST_SHARE = 0.01  # of the rows, in the smallest cluster, if k is chosen
RESTARTS = 3  # of k-means on halves


def find_clusters(
    shapley: ShapleyImportance, X: Any, k: int | None, depth: int, starts: int, random_state: Any
) -> Clusters:
    """The clusters of the rows by their shares, described by rules on the columns of the table."""
    check_count(depth, "depth")
    check_count(starts, "starts")
    if k is not None:
        check_count(k, "k")
    local, weight = shapley.local, shapley.sample.weight[shapley.at]
    table = explained_table(X, len(local), shapley.row_labels)
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


def compress_shares(local: Floats, weight: Floats) -> Floats:
    """Shares on one scale for all features: linear for most rows, logarithmic for the largest shares."""
    length = np.concatenate([np.sqrt(np.square(some).sum(axis=1)) for some in _parts(local)])
    order = np.argsort(length)
    cumulated = np.cumsum(weight[order])
    scale = float(length[order][np.searchsorted(cumulated, cumulated[-1] / 2)])
    scale = scale if scale > 1e-9 * float(length.max()) else float(weight @ length / weight.sum())
    if not scale > 0:
        return np.zeros_like(local)
    points = local / scale
    return np.arcsinh(points, out=points)


def _parts(points: Floats) -> Iterator[Floats]:
    """Yield some points at a time."""
    return (points[start : start + RULE_ROWS] for start in range(0, len(points), RULE_ROWS))


def cluster_points(
    points: Floats, weight: Floats, k: int | None, starts: int, rng: np.random.Generator
) -> tuple[Indices, Floats, tuple[Tried, ...]]:
    """Labels, 0 for the largest cluster; the stability of each cluster; and the numbers of clusters that were tried."""
    distinct = _distinct(points, LARGEST_K if k is None else k)
    if k is not None and k > distinct:
        raise ValueError(f"{k} clusters need at least {k} rows with different shares; there are {distinct}")
    searched = np.sort(rng.permutation(len(points))[:SEARCH_ROWS])
    some, mass = points[searched], weight[searched]
    fits: dict[int, tuple[kmeans.Clustering, Floats]] = {}
    tried = []
    largest = min(LARGEST_K, distinct, len(some) // 4)
    for count in range(2, largest + 1) if k is None else range(k, k + 1):
        if count == 1:
            continue
        fit = kmeans.fit(some, mass, count, starts, rng)
        stability, by_cluster = kmeans.stability(some, mass, fit, min(RESTARTS, starts), rng)
        smallest = np.bincount(fit.labels, minlength=count).min() / len(some)
        separated = bool(smallest >= LEAST_SHARE) and kmeans.separated(some, mass, fit)
        fits[count] = fit, by_cluster
        tried.append(Tried(count, stability, separated))
    good = [one.k for one in tried if k is not None or (one.stability >= STABLE and one.parted)]
    if not good:
        return np.zeros(len(points), np.intp), np.full(1, np.nan), tuple(tried)
    fit, by_cluster = fits[max(good)]
    labels = kmeans.settle(points, weight, fit.centres).labels
    order = np.argsort(-np.bincount(labels, minlength=max(good)), kind="stable")
    place = np.empty(len(order), np.intp)
    place[order] = np.arange(len(order))
    return place[labels], by_cluster[order], tuple(tried)


def _distinct(points: Floats, enough: int) -> int:
    """Number of points that differ by more than rounding; all points are counted only if the first are not enough."""
    count = len(np.unique(points[:SEARCH_ROWS].round(12), axis=0))
    return count if count >= enough else len(np.unique(points.round(12), axis=0))


def _among(column: Distinct, rows: Indices) -> Distinct:
    """The distinct values of some rows, and the next larger of each, which thresholds lie below."""
    kept = np.zeros(len(column) + 1, bool)
    kept[column.codes[rows]] = kept[column.codes[rows] + 1] = True
    place, kept = np.cumsum(kept) - 1, kept[:-1]
    return Distinct(column.values[kept], place[column.codes[rows]], column.first[kept], column.ordered)


def describe_clusters(
    table: Table, counted: Indices, labels: Indices, weight: Floats, depth: int, rng: np.random.Generator
) -> tuple[tuple[str, ...], tuple[str, ...], float]:
    """A rule for each cluster, the columns used, and the share of rows that rules of the other half classify right."""
    k = int(labels.max()) + 1
    if k == 1:
        return ("",), (), 1.0
    used = np.sort(rng.permutation(len(counted))[:RULE_ROWS])
    columns = {name: _among(table.column(j).distinct, counted[used]) for j, name in enumerate(table.names)}
    cluster, mass = labels[used], weight[used]
    half = rng.permutation(len(used)) < len(used) / 2
    right = 0.0
    for training in (half, ~half):
        predicted = rule_tree.predict(rule_tree.grow(columns, cluster, mass, training, depth), len(used))
        right += float(mass[~training] @ (predicted == cluster)[~training])
    chance = float(np.bincount(cluster, mass).max())
    if right <= chance:  # no better than always predicting the largest cluster
        return ("",) * k, (), right / float(mass.sum())
    tree = rule_tree.grow(columns, cluster, mass, np.ones(len(used), bool), depth)
    return rule_tree.in_words(tree, k), rule_tree.columns_of(tree), right / float(mass.sum())
