"""The verb that clusters rows by how the model knows them, and puts the clusters into words."""

from __future__ import annotations

import numpy as np

from losslens.results.clusters import Tried
from losslens.rows import kmeans, rule_tree
from losslens.tables.columns import Distinct
from losslens.tables.frames import Table
from losslens.typing import Floats, Indices

MOST_SEARCHED = 3_000  # rows that choose k and the first centres; all rows settle them
MOST_TOLD = 10_000  # rows that rules are made from
LARGEST_K = 6  # that is tried
STABLE = 0.8
LEAST_SHARE = 0.01  # of the rows, in the smallest cluster, where k is chosen
RESTARTS = 3  # of k-means on halves


def compress_shares(local: Floats, weight: Floats) -> Floats:
    """One scale for all features, in units of the loss; linear for most rows, logarithmic for the largest shares."""
    length = np.sqrt(np.square(local).sum(axis=1))
    order = np.argsort(length)
    cumulated = np.cumsum(weight[order])
    scale = float(length[order][np.searchsorted(cumulated, cumulated[-1] / 2)])
    scale = scale if scale > 1e-9 * float(length.max()) else float(weight @ length / weight.sum())
    return np.asarray(np.arcsinh(local / scale)) if scale > 0 else np.zeros_like(local)


def cluster_points(
    points: Floats, weight: Floats, k: int | None, starts: int, rng: np.random.Generator
) -> tuple[Indices, Floats, tuple[Tried, ...]]:
    """Labels, the largest cluster 0; how stable each cluster is; and what was tried."""
    distinct = _distinct(points, LARGEST_K if k is None else k)
    if k is not None and k > distinct:
        raise ValueError(f"{k} clusters need as many rows that the model knows differently; there are {distinct}")
    searched = np.sort(rng.permutation(len(points))[:MOST_SEARCHED])
    some, mass = points[searched], weight[searched]
    found: dict[int, tuple[kmeans.Clustering, Floats]] = {}
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


def describe_clusters(
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
        where = rule_tree.placed(rule_tree.grow(columns, mine, mass, here, depth), len(told))
        right += float(mass[~here] @ (where == mine)[~here])
    chance = float(np.bincount(mine, mass).max())
    if right <= chance:  # rules that say less than the size of the largest cluster are none
        return ("",) * k, (), right / float(mass.sum())
    tree = rule_tree.grow(columns, mine, mass, np.ones(len(told), bool), depth)
    return rule_tree.in_words(tree, k), rule_tree.asked_about(tree), right / float(mass.sum())
