"""The rows on which an engine is compared with the model: half of them hold what is rare or extreme in its columns.

Rows at equal distances say how predictions vary. An engine that misreads a rare category, a kind of missing values or
the largest numbers would most likely agree with the model on all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from losslens.engines.base import ExactEngine, Site
from losslens.tables.columns import Column
from losslens.typing import Floats, Indices, Mask

COVERED_COLUMNS = 64  # whose values are looked at, those first that the model uses most
RARE_VALUES = 8  # of a column, besides its extremes and missing values
SOME_ROWS = 1 << 12  # among which extremes are searched, where the engine does not sort columns


def checked_rows(engine: ExactEngine, site: Site, count: int) -> tuple[Indices, Mask, Floats]:
    """So many rows, which of them cover odd values, and their weights.

    As long as there are odd values, every second row covers some, and stands for itself; the others lie at equal
    distances, and stand for the rest. Rows of weight 0 are left out: no mean depends on them.
    """
    n, of_rows = site.table.n, site.weight
    counted = np.arange(n) if of_rows is None else np.flatnonzero(of_rows)
    covering = np.empty(0, np.intp)
    if len(counted) > count:
        search = _covering_rows if engine.sorts_values else _extreme_rows
        columns = [site.column(j) for j in _columns(engine, site)]
        covering = search(columns, None if len(counted) == n else counted, count // 2)
    covers = np.zeros(min(n, count), np.bool_)
    covers[: 2 * len(covering) : 2] = True
    spread = counted[np.linspace(0, len(counted) - 1, len(covers) - len(covering)).astype(np.intp)]
    rows = np.empty(len(covers), np.intp)
    rows[covers], rows[~covers] = covering, spread
    weight = np.where(covers, 1.0, (len(counted) - len(covering)) / len(spread))
    return rows, covers, weight if of_rows is None else weight * of_rows[rows]


def _covering_rows(columns: Sequence[Column], counted: Indices | None, most: int) -> Indices:
    """Rows that hold as many odd values as possible: greedily, extremes and missing values before rare ones."""
    odd = sorted((turn, k, row) for k, column in enumerate(columns) for turn, row in _odd_values(column, counted, most))
    rows, places = np.unique([row for _, _, row in odd], return_inverse=True)
    codes = np.zeros((len(rows), len(columns)), np.intp)
    uncovered = np.zeros(codes.shape, np.bool_)  # of each row, the odd values that no chosen row holds
    for k, column in enumerate(columns):
        codes[:, k] = column.distinct.codes[rows]
        own = [place for place, (_, number, _) in zip(places.tolist(), odd, strict=True) if number == k]
        uncovered[:, k] = np.isin(codes[:, k], codes[own, k])
    chosen: list[int] = []
    for place, (_, k, _) in zip(places.tolist(), odd, strict=True):
        if uncovered[place, k] and len(chosen) < most:
            holding = np.flatnonzero(codes[:, k] == codes[place, k])
            best = holding[uncovered[holding].sum(axis=1).argmax()]
            uncovered &= codes != codes[best]
            chosen.append(int(rows[best]))
    return np.array(chosen, np.intp)


def _columns(engine: ExactEngine, site: Site) -> list[int]:
    """The columns that are looked at, those first that the model uses most."""
    requested, uses = np.array(sorted(site.requested), np.intp), engine.uses
    if uses is None:
        return list(requested[:COVERED_COLUMNS])
    columns = np.union1d(requested, np.flatnonzero(uses))
    return list(columns[np.argsort(-uses[columns], kind="stable")[:COVERED_COLUMNS]])


def _odd_values(column: Column, counted: Indices | None, most: int) -> Iterator[tuple[int, int]]:
    """The turn of each odd value, and a row that holds it: missing values and extremes at turn 0, then the rarest."""
    distinct, codes = column.distinct, column.distinct.codes
    present, first = np.arange(len(distinct)), distinct.first
    if counted is not None:
        codes = codes[counted]
        present, first = np.unique(codes, return_index=True)
        first = counted[first]
    last = int(np.searchsorted(present, distinct.present))
    for k in {*range(last, len(present)), 0, max(last - 1, 0)}:
        yield 0, int(first[k])
    if 4 * len(present) <= len(codes):  # else every value is about as rare as the others
        number = np.bincount(codes, minlength=len(distinct))[present[:last]]
        rare = np.flatnonzero(number * most <= len(codes))  # at equal distances less than one row has them
        for turn, k in enumerate(rare[np.argsort(number[rare], kind="stable")[:RARE_VALUES]].tolist()):
            yield 1 + turn, int(first[k])


def _extreme_rows(columns: Sequence[Column], counted: Indices | None, most: int) -> Indices:
    """Rows with extremes of numbers, or with a missing one, among some rows of columns that nobody has sorted."""
    chosen: dict[int, None] = {}
    for array in (column.array for column in columns if column.array.dtype.kind in "biuf"):
        if len(chosen) < most:
            step = (len(array) if counted is None else len(counted)) // SOME_ROWS + 1
            some = array[::step] if counted is None else array[counted[::step]]
            ends = (step * int(some.argmin()), step * int(some.argmax()))
            chosen |= dict.fromkeys(ends if counted is None else counted[list(ends)].tolist())
    return np.array([*chosen][:most], np.intp)
