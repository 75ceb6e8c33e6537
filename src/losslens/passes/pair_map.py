"""Two features at once: the mean prediction and the mean loss where every row gets one value of each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from losslens.passes.task import Task
from losslens.tables.columns import Distinct
from losslens.tables.frames import Batch, Edit
from losslens.typing import Floats, Indices

MOST_BINS = 6  # of each feature
MOST_ROWS = 500  # that are predicted at each pair of values


@dataclass(frozen=True, eq=False)
class ValueBins:
    """The values of a feature in a few bins, missing ones in none, or its most frequent categories."""

    of: Indices  # (n,): the bin of each row; -1 for none
    ends: Indices  # (bins, 2): places of the first and the last of its distinct values
    row: Indices  # (bins,): a row that holds the middle one

    @classmethod
    def by(cls, column: Distinct) -> ValueBins:
        """Each value, or ranges with about equally many rows."""
        codes, present = np.asarray(column.codes, np.intp), column.present
        count = np.bincount(codes, minlength=len(column))[:present]
        if present <= MOST_BINS or not column.ordered:
            kept = np.sort(np.argsort(-count, kind="stable")[:MOST_BINS])
            of = np.full(len(column), -1)
            of[kept] = np.arange(len(kept))
            return cls(of[codes], np.column_stack([kept, kept]), np.asarray(column.first, np.intp)[kept])
        own = np.sort(codes[codes < present])
        cuts = np.unique(own[[len(own) * k // MOST_BINS for k in range(1, MOST_BINS)]])
        of = np.append(np.searchsorted(cuts, np.arange(present), side="right"), np.full(len(column) - present, -1))
        used, of[:present] = np.unique(of[:present], return_inverse=True)
        ends = [np.flatnonzero((of[:present] == b) & (count > 0))[[0, -1]] for b in range(len(used))]
        middle = [(held := own[of[own] == b])[(len(held) - 1) // 2] for b in range(len(used))]
        return cls(of[codes], np.array(ends), np.asarray(column.first, np.intp)[middle])


@dataclass(frozen=True, eq=False)
class PairMap:
    """Means over rows that get both values, for each pair of bins (a, b)."""

    names: tuple[str, str]
    bins: tuple[ValueBins, ValueBins]
    count: Indices  # (a, b): rows that hold both values
    loss: Floats  # (a, b)
    prediction: NDArray[np.float64]  # (a, b), or (a, b, classes)
    error: float  # of the same rows as they are
    rows: int  # that were predicted at each pair


def pair_map(task: Task) -> PairMap:
    """The map of a task with two single columns; of many rows a random sample."""
    names = [subject.feature.name for subject in task.subjects]
    columns = [subject.feature.columns[0] for subject in task.subjects]
    first, second = (ValueBins.by(task.table.column(j).distinct) for j in columns)
    there = np.flatnonzero(task.sample.weight > 0)
    if len(there) > MOST_ROWS:
        drawn = np.random.default_rng([task.entropy, 21]).choice(there, MOST_ROWS, replace=False)
        there = np.sort(drawn)
    (loss,), sample, batch = task.losses, task.sample, Batch(task.table)
    weight = sample.weight[there] / sample.weight[there].sum()

    def means(rows: Indices, edits: list[Edit]) -> tuple[Floats, NDArray[np.float64]]:
        predicted = task.engine.respond(batch.fill(rows, edits))
        lost = loss(sample.target(loss)[rows], sample.shown(loss, predicted))
        shape = (-1, len(there), *predicted.shape[1:])
        return lost.reshape(shape[:2]) @ weight, np.moveaxis(predicted.astype(float).reshape(shape), 1, -1) @ weight

    base = means(there, [])[0]
    each = np.tile(there, len(second.row))
    total = len(each)
    parts = []
    for row in first.row:
        sources = [(columns[0], np.full(len(second.row), row)), (columns[1], second.row)]
        parts.append(means(each, [Edit(0, total, j, task.table.column(j), index) for j, index in sources]))
    both = (first.of >= 0) & (second.of >= 0)
    count = np.zeros((len(first.row), len(second.row)), np.intp)
    np.add.at(count, (first.of[both], second.of[both]), 1)
    return PairMap(
        (names[0], names[1]), (first, second), count, np.stack([lost for lost, _ in parts]),
        np.stack([predicted for _, predicted in parts]), float(base[0]), len(there),
    )  # fmt: skip
