"""How strongly columns of any type go together, which of them form groups, and which the others determine.

Numbers, dates and ordered categories enter as ranks, categories as indicators of their values: of both, orthogonal
scores. The squared association of two columns is the sum of their squared correlations between scores over the most
that it can be, both less what chance gives: the squared rank correlation of two numbers, the correlation ratio of a
category and ranks, Cramér's V squared of two categories (as Bergsma corrects it).
"""

from __future__ import annotations

from math import ceil, factorial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from losslens.blas import one_thread
from losslens.tables.columns import count_missing
from losslens.typing import Floats, Indices, Mask

if TYPE_CHECKING:
    from losslens.tables.column_scores import CodedRows

GOES_TOGETHER = 0.7  # average association within a group of columns, by default
LEVEL = 0.05  # how often some columns of independent values may seem to go together
MOST_VALUES = 30  # of a category: the rarest beyond them count as one
TIES = 3  # columns that a remark names
RIDGE = 1e-9  # of correlations: columns may determine each other exactly
AT_ONCE = 1000  # columns whose correlations with all others are held at a time
MOST_PRODUCTS = 6e9  # rows times the square of the number of scores


class RankScores(NamedTuple):
    """RankScores of all columns, of mean 0 and length 1."""

    of_rows: Floats  # (n, D)
    start: Indices  # (p,): where those of each column begin
    size: Indices  # (p,): how many it has; 0 of a constant
    present: Mask  # (n, p): where a number is not missing
    is_number: Mask  # (p,): has ranks, not categories


@one_thread()
def associations(rows: CodedRows) -> Floats:
    """The association of every two columns, from 0 to 1, (p, p); 0 with a constant column, 1 with itself.

    Numbers are compared on the rows where both are present; a missing category is one of its values.
    """
    scores, found = _scores(rows), np.eye(len(rows.names))
    varying, n = np.flatnonzero(scores.size), len(scores.of_rows)
    if not len(varying):
        return found
    start, size, squares = scores.start[varying], scores.size[varying], np.zeros((len(varying), len(varying)))
    for first in range(0, len(varying), AT_ONCE):
        some = slice(first, first + AT_ONCE)
        low, high = start[some][0], start[some][-1] + size[some][-1]
        across = np.square(scores.of_rows[:, low:high].T @ scores.of_rows)
        squares[some] = np.add.reduceat(np.add.reduceat(across, start, axis=1), start[some] - low, axis=0)
    categories = ~np.array(rows.ordered)[varying]
    chance = np.outer(size, size) / max(n - 1, 1) * (categories[:, None] | categories)  # two numbers: uncorrected
    most = np.minimum(size[:, None], size)
    left = np.where(most - chance > RIDGE, most - chance, np.inf)  # with as many values as rows chance gives it all
    found[np.ix_(varying, varying)] = np.sqrt(np.clip((squares - chance) / left, 0.0, 1.0))
    _compare_where_present(scores, found)
    for flags in one_hot(rows):
        found[np.ix_(flags, flags)] = 1.0
    np.fill_diagonal(found, 1.0)
    return found


def _compare_where_present(scores: RankScores, found: Floats) -> None:
    """Rank correlations of numbers that are missing somewhere, from the rows where both are present, in their place."""
    numbers = np.flatnonzero(scores.is_number & (scores.size > 0))
    missing = numbers[~scores.present[:, numbers].all(axis=0)]
    if not len(missing):
        return
    ranks, there = scores.of_rows[:, scores.start[numbers]], scores.present[:, numbers].astype(float)
    own, here = scores.of_rows[:, scores.start[missing]], scores.present[:, missing].astype(float)
    n = np.maximum(here.T @ there, 1.0)
    sum_own, sum_other = own.T @ there, here.T @ ranks
    spread = np.square(own).T @ there - sum_own**2 / n, here.T @ np.square(ranks) - sum_other**2 / n
    scale = np.sqrt(np.maximum(spread[0], 0.0) * np.maximum(spread[1], 0.0))
    products = own.T @ ranks - sum_own * sum_other / n
    size = np.divide(np.abs(products), scale, out=np.zeros_like(scale), where=(scale > RIDGE) & (n > 2))
    found[np.ix_(missing, numbers)] = np.clip(size, 0.0, 1.0)
    found[np.ix_(numbers, missing)] = found[np.ix_(missing, numbers)].T


def groups_of(rows: CodedRows, threshold: float = GOES_TOGETHER) -> list[list[int]]:
    """Columns whose average association within a group is the threshold at least; a group each for all others.

    Average linkage of the distance 1 - association. With few rows more is required: what independent columns reach in
    one table of twenty. Groups are in the order of their first columns.
    """
    from scipy.cluster.hierarchy import fcluster, linkage  # here: `import losslens` does not wait for SciPy
    from scipy.spatial.distance import squareform

    p = len(rows.names)
    least = max(threshold, by_chance(rows.n, p))
    if p < 2 or least > 1:
        return [[j] for j in range(p)]
    distance = 1 - rows.association
    tree = linkage(squareform((distance + distance.T) / 2, checks=False), method="average")
    groups: dict[int, list[int]] = {}
    for j, number in enumerate(fcluster(tree, 1 - least + 1e-9, criterion="distance").tolist()):
        groups.setdefault(number, []).append(j)
    return list(groups.values())


def by_chance(n: int, p: int) -> float:
    """The rank correlation that some two of p independent columns of n rows exceed in 5% of the tables; 2: any."""
    from scipy.special import stdtrit

    level = LEVEL / max(p * (p - 1) / 2, 1)
    if n < 4 or 2 / factorial(min(n, 20)) > level:  # of a perfect order
        return 2.0
    t = float(stdtrit(n - 2, 1 - level / 2))
    return float(t / np.sqrt(n - 2 + t**2))


@one_thread()
def determined(rows: CodedRows) -> Floats:
    """How far the other columns determine each, (p,): R squared of its ranks on theirs, ``1 - 1 / (R^-1)_jj``.

    R is the matrix of rank correlations. Of a category it is the mean over its indicators. Corrected for the number of
    columns; 0 where there are too few rows.
    """
    (of_rows, start, size, _, _), found = _scores(rows), np.zeros(len(rows.names))
    n, width = of_rows.shape
    if n <= width + 2:
        return found
    inverse = np.linalg.inv(of_rows.T @ of_rows + RIDGE * np.eye(width))
    for j in np.flatnonzero(size):
        own = slice(start[j], start[j] + size[j])
        left = np.trace(np.linalg.inv(inverse[own, own])) / size[j]
        freedom = (n - 1) / (n - 1 - (width - size[j]))
        found[j] = np.clip(1 - left * freedom, 0.0, 1.0)
    return found


def ties(association: Floats, j: int) -> list[int]:
    """The columns with which one goes together most: those with at least half the strongest association."""
    others = np.array(association[j])
    others[j] = 0.0
    order = np.argsort(-others, kind="stable")[:TIES]
    return sorted(k for k in order.tolist() if others[k] > 0 and others[k] >= others.max() / 2)


def one_hot(rows: CodedRows) -> list[list[int]]:
    """Sets of neighbouring columns of 0 and 1 of which one is 1 in every row: a category as indicators."""
    ones = [_ones(rows, j) for j in range(len(rows.names))]
    sets, first = [], 0
    while first < len(ones):
        total, last = np.zeros(rows.n, bool), first
        while last < len(ones) and (flag := ones[last]) is not None and not (total & flag).any() and not total.all():
            total, last = total | flag, last + 1
        if last - first > 2 and total.all():
            sets.append(list(range(first, last)))
            first = last
        else:
            first += 1
    return sets


def _ones(rows: CodedRows, j: int) -> Mask | None:
    """Where a column of 0 and 1, or of false and true, is 1; None for another column."""
    values = rows.values[j]
    if len(values) != 2 or values.dtype.kind not in "biuf" or values.tolist() != [0, 1]:
        return None
    return np.asarray(rows.codes[:, j] == 1)


def _scores(rows: CodedRows) -> RankScores:
    """Ranks of numbers, 0 where they are missing, and an orthonormal basis of the indicators of categories.

    Of tables with many scores fewer rows are used.
    """
    tables = [_of_values(rows, j) for j in range(len(rows.names))]
    size = np.array([table.shape[1] for table in tables], np.intp)
    codes = rows.codes[:: max(1, ceil(rows.n * float(size.sum()) ** 2 / MOST_PRODUCTS))]
    of_rows = np.hstack([np.empty((len(codes), 0)), *(table[codes[:, j]] for j, table in enumerate(tables))])
    if len(codes) < rows.n:
        of_rows -= of_rows.mean(axis=0)
        of_rows /= np.maximum(np.sqrt(np.square(of_rows).sum(axis=0)), RIDGE)
    present = np.array([
        len(values) - count_missing(values) if ordered else len(values)
        for values, ordered in zip(rows.values, rows.ordered, strict=True)
    ])  # fmt: skip
    return RankScores(of_rows, np.cumsum(size) - size, size, codes < present, np.array(rows.ordered))


def _of_values(rows: CodedRows, j: int) -> Floats:
    """The scores of a column's distinct values, (v, d)."""
    values = rows.values[j]
    count = np.bincount(rows.codes[:, j], minlength=len(values)).astype(float)
    if rows.ordered[j]:
        count[len(count) - count_missing(values) :] = 0.0
        middle = np.where(count > 0, np.cumsum(count) - count / 2 - count.sum() / 2, 0.0)
        if values.dtype.kind == "f" and (zero := np.flatnonzero(values == 0)).size > 1:  # -0.0 has a code of its own
            middle[zero] = count[zero] @ middle[zero] / count[zero].sum()
        length = np.sqrt(count @ middle**2)
        return middle[:, None] / length if length > 0 else np.empty((len(count), 0))
    place = np.empty(len(count), np.intp)
    place[np.argsort(-count, kind="stable")] = np.minimum(np.arange(len(count)), MOST_VALUES - 1)
    joined = np.bincount(place, count)
    # Indicators over the roots of their counts are orthonormal; a reflection turns the constant into the first of them.
    constant = np.sqrt(joined / joined.sum())
    mirror = constant - np.eye(len(joined))[0]
    basis = np.eye(len(joined)) - 2 * np.outer(mirror, mirror) / max(mirror @ mirror, RIDGE**2)
    return np.asarray((basis[:, 1:] / np.sqrt(joined)[:, None])[place])
