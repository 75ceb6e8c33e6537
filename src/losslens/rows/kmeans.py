"""Weighted k-means, the stability of its clusters, and whether they are separated.

Seeds and distances are scipy's. Its own steps know neither weights nor when to stop.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from losslens.typing import Floats, Indices

MAX_STEPS = 50  # of Lloyd's algorithm
SETTLED = 1e-4  # it stops when at most this share of the points changes its cluster
SPLITS = 10  # random splits of the points into halves
BIN = 0.2  # width of a histogram's bin, as a fraction of the distance between two centres


@dataclass(frozen=True, eq=False)
class Clustering:
    """Centres, and the nearest of them for each point."""

    centres: Floats  # (k, p)
    labels: Indices  # (n,)
    cost: float  # weighted sum of the squared distances


def fit(points: Floats, weight: Floats, k: int, starts: int, rng: np.random.Generator) -> Clustering:
    """The best of several starts."""
    from scipy.cluster.vq import kmeans2

    with np.errstate(invalid="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of fewer than k different points: `settle` fills empty clusters
        seeds = [kmeans2(points, k, iter=1, minit="++", check_finite=False, rng=rng)[0] for _ in range(starts)]
    return min((settle(points, weight, centres) for centres in seeds), key=lambda clustering: clustering.cost)


def settle(points: Floats, weight: Floats, centres: Floats) -> Clustering:
    """Lloyd's steps from these centres: each point to its nearest centre, each centre to the mean of its points."""
    k, labels = len(centres), np.full(len(points), -1)
    for _ in range(MAX_STEPS):
        before, (labels, distance) = labels, nearest(points, centres)
        moved = int(np.sum(labels != before))
        mass = np.bincount(labels, weight, k)
        if moved <= SETTLED * len(points) and (mass > 0).all():
            break
        centres = np.where(mass[:, None] > 0, group_means(points, weight, labels, k), centres)
        for empty in np.flatnonzero(mass == 0):  # moved to the point that is farthest from its centre
            farthest = int(np.argmax(weight * np.square(distance)))
            centres[empty], distance[farthest] = points[farthest], 0.0
    labels, distance = nearest(points, centres)
    return Clustering(centres, labels, float(weight @ np.square(distance)))


def nearest(points: Floats, centres: Floats) -> tuple[Indices, Floats]:
    """The nearest centre of each point, and how far it is."""
    from scipy.cluster.vq import vq

    labels, distance = vq(points, centres, check_finite=False)
    return labels.astype(np.intp), distance


def group_means(points: Floats, weight: Floats, labels: Indices, k: int) -> Floats:
    """The weighted mean of each group of points, (k, p); 0 for a group without weight."""
    # Not `@`: on a busy machine the threads of a matrix product over many rows wait for each other for seconds.
    sums = np.einsum("kn,np->kp", weight * (labels == np.arange(k)[:, None]), points)
    mass = np.bincount(labels, weight, k)
    return np.asarray(sums / np.where(mass > 0, mass, 1.0)[:, None])


def stability(
    points: Floats, weight: Floats, clustering: Clustering, starts: int, rng: np.random.Generator
) -> tuple[float, Floats]:
    """How well clusterings of two halves of the points agree, and how well each cluster is reproduced, (k,).

    Each half is clustered on its own, and its centres assign all points: the mean adjusted Rand index of the two
    assignments, and for each cluster of all points the mean Jaccard index with the most similar cluster of a half.
    """
    n, k = len(points), len(clustering.centres)
    rand, jaccard = [], []
    for _ in range(SPLITS):
        order = rng.permutation(n)
        halves = (order[: n // 2], order[n // 2 :])
        assigned = [nearest(points, fit(points[some], weight[some], k, starts, rng).centres)[0] for some in halves]
        rand.append(adjusted_rand(*assigned))
        jaccard += [_jaccard(clustering.labels, labels, k) for labels in assigned]
    return float(np.mean(rand)), np.mean(jaccard, axis=0)


def adjusted_rand(one: Indices, other: Indices) -> float:
    """Share of the pairs of points on which two clusterings agree, corrected for chance: 1 for equal ones.

    >>> adjusted_rand(np.array([0, 0, 1, 1]), np.array([1, 1, 0, 0]))
    1.0
    """
    table = _crossed(one, other)
    together, rows, columns = (float((some * (some - 1) / 2).sum()) for some in (table, table.sum(1), table.sum(0)))
    expected = rows * columns / (len(one) * (len(one) - 1) / 2)
    largest = (rows + columns) / 2
    return 1.0 if largest == expected else (together - expected) / (largest - expected)


def _crossed(one: Indices, other: Indices) -> Floats:
    columns = int(other.max()) + 1
    counts = np.bincount(one * columns + other, minlength=(int(one.max()) + 1) * columns)
    return counts.reshape(-1, columns).astype(float)


def _jaccard(one: Indices, other: Indices, k: int) -> Floats:
    """For each cluster of one, the largest Jaccard index with a cluster of the other."""
    table = np.zeros((k, k))
    crossed = _crossed(one, other)
    table[: crossed.shape[0], : crossed.shape[1]] = crossed
    either = table.sum(axis=1)[:, None] + table.sum(axis=0) - table
    return np.asarray(np.divide(table, either, out=np.zeros((k, k)), where=either > 0).max(axis=1))


def separated(points: Floats, weight: Floats, clustering: Clustering) -> bool:
    """Whether the density has a valley between every two clusters.

    Along the line between two centres a unimodal cloud of points has no valley, however long it is. There is one if
    some bin of a histogram has significantly fewer than half as many points as the lower of the peaks on its two sides.
    """
    return all(
        _has_valley(points[either], clustering.centres[a], clustering.centres[b])
        for a, b in combinations(range(len(clustering.centres)), 2)
        for either in [np.isin(clustering.labels, (a, b)) & (weight > 0)]
    )


def _has_valley(points: Floats, one: Floats, other: Floats) -> bool:
    line = other - one
    length = float(line @ line)
    if not length > 0:
        return False
    bins = np.floor((points - one) @ line / length / BIN).astype(int)  # 0 at the first centre
    counts = np.bincount(np.clip(bins, -10, 14) + 10, minlength=25)
    middle = 10 + int(0.5 / BIN)  # the bin with the midpoint of both centres
    left, right = int(counts[: middle + 1].argmax()), middle + int(counts[middle:].argmax())
    if right - left < 2:
        return False
    lowest, peak = counts[left + 1 : right].min(), min(counts[left], counts[right])
    return bool(lowest + 2 * np.sqrt(lowest + 1) < peak / 2)
