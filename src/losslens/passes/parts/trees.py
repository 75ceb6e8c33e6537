"""Tree ensembles on data in parts: every row is paired with the counts of all donors. Exact over all pairs.

Only the class of a donor matters, so counts of classes replace the donors. A first pass counts, the engine is bound to
the counted values, and a second pass evaluates.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from operator import add
from typing import Any

import numpy as np
from numpy.typing import NDArray

from losslens.cells.row_sums import Deletion, PartSums, RowSums
from losslens.donors.designs import All
from losslens.engines.base import Declined
from losslens.engines.choice import CHECKED, choose_exact
from losslens.engines.readers.ensemble import Ensemble
from losslens.engines.readers.pipelines import UnwrappedModel
from losslens.engines.trees.bound import tree_images
from losslens.engines.trees.engine import Trees, TreeWalker
from losslens.losses import Loss
from losslens.passes.parts.counting import (
    MISSING,
    Counted,
    CountedGrid,
    FirstPass,
    codebook,
    first_pass,
    kinds_of_all,
    places,
)
from losslens.passes.parts.reading import Data, Job, PartRows, kept_in, part_sample
from losslens.passes.parts.results import (
    KeptRows,
    Summed,
    curves_only,
    filled,
    loss_sums,
    rows_to_keep,
    sum_over_parts,
    totals,
)
from losslens.passes.parts.stream import Stream, classes_of, wants_labels
from losslens.passes.step_curves import Axes, ChunkSums, ChunkWork, KeptCurves, spread_cells
from losslens.passes.task import Outcome
from losslens.progress import Tick
from losslens.tables.columns import ClassRuns, Distinct
from losslens.tables.frames import Table
from losslens.tables.sample import Sample
from losslens.typing import Floats, Indices

Ints = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class TreeBins:
    """Bins between the thresholds of an ensemble: values of one bin go the same way in every tree."""

    ensemble: Ensemble
    unwrapped: UnwrappedModel

    def of(self, table: Table, distinct: Mapping[int, Distinct]) -> Mapping[int, NDArray[np.int64] | None]:
        """The bin of each distinct value; None where a node splits on a set of categories."""
        columns = {j: (table.column(j), own) for j, own in distinct.items()}
        images = tree_images(self.ensemble, self.unwrapped, table, columns)
        return {j: self._bins(own, images(j)) for j, own in distinct.items()}

    def _bins(self, distinct: Distinct, image: tuple[NDArray[np.intp], Floats] | None) -> NDArray[np.int64] | None:
        if distinct.values.dtype == object or (image is not None and any(self._has_sets(int(c)) for c in image[0])):
            return None
        if image is None:  # no tree splits on it
            return np.zeros(len(distinct), np.int64)
        columns, numbers = image
        bins = np.stack([self._bins_between(int(c), numbers[:, k]) for k, c in enumerate(columns)], axis=1)
        if bins.shape[1] == 1:
            return bins[:, 0]
        # The model derives several columns from this one: combine their bins into one number.
        odd = np.random.default_rng(1).integers(2**62, size=bins.shape[1], dtype=np.int64) * 2 + 1
        with np.errstate(over="ignore"):
            return np.asarray((bins * odd).sum(axis=1))

    @cached_property
    def _thresholds(self) -> dict[int, Floats]:
        feature, threshold = self.ensemble.feature, self.ensemble.threshold
        return {int(c): np.unique(threshold[feature == c]) for c in np.unique(feature[feature >= 0])}

    def _bins_between(self, column: int, numbers: Floats) -> NDArray[np.int64]:
        thresholds = self._thresholds.get(column, np.empty(0))
        side = "right" if self.ensemble.strict else "left"
        bins = np.searchsorted(thresholds, numbers, side)  # type: ignore[call-overload]
        return np.where(np.isnan(numbers), MISSING, bins).astype(np.int64)

    def _has_sets(self, column: int) -> bool:
        in_set = self.ensemble.in_set
        return in_set is not None and bool(np.any(in_set[self.ensemble.feature == column] >= 0))


@dataclass(frozen=True, eq=False)
class TreeWork:
    """The arguments of the second pass, which are sent to workers."""

    data: Data
    model: Any  # only its name and classes
    loss: Loss | None
    classes: NDArray[Any] | None
    mass: float  # of all rows
    deletion: Deletion
    kept: Indices  # rows whose importances are kept, in the full data
    curves: Indices  # those of them whose curves are kept
    engine: Trees  # bound to the values of the grids, without rows
    like: NDArray[Any]  # any prediction, for type and shape
    bins: TreeBins
    grids: Mapping[int, CountedGrid]
    class_of: Mapping[int, Ints]  # of each value of a grid
    feature_columns: tuple[int, ...]  # ascending

    @cached_property
    def axes(self) -> Axes:
        """The classes of the features, and their cumulative donor weight."""
        class_of = [self.class_of[j] for j in self.feature_columns]
        sizes = [int(self.engine.bound.size[j]) for j in self.feature_columns]
        donor_mass = [
            np.bincount(classes, self.grids[j].mass / self.mass, size).astype(float)
            for j, classes, size in zip(self.feature_columns, class_of, sizes, strict=True)
        ]
        runs = [ClassRuns.of(*one) for one in zip(class_of, sizes, strict=True)]
        return Axes(len(class_of), runs, donor_mass)

    def codes(self, table: Table) -> tuple[Ints, Indices]:
        """The class of each row in each column, (p, b), and the positions of the features on their grids, (k, b)."""
        position = places(table, self.grids, self.grids, self.bins)
        codes = np.zeros((len(table.names), table.n), np.int32)
        for j, place in position.items():
            codes[j] = self.class_of[j][place]
        return codes, np.stack([position[j] for j in self.feature_columns])


@dataclass(frozen=True, eq=False)
class TreeSums(PartSums):
    """Sums over the rows of a job."""

    losses: Floats  # (6,)
    rows: tuple[RowSums, ...]  # of each feature
    curve: Floats  # (classes, 1 + outputs): jumps of the changes of loss and of the predictions at each class
    clipped: Floats  # (k,)
    kept: KeptRows
    curves: list[KeptCurves]


def evaluate(work: TreeWork, job: Job, tick: Tick) -> TreeSums:
    """Sums over all rows of a job, in the second pass."""
    return reduce(add, (_evaluate(work, rows, tick) for rows in work.data.rows(job)))


def _evaluate(work: TreeWork, rows: PartRows, tick: Tick) -> TreeSums:
    codes, own = work.codes(rows.table)
    sample = part_sample(rows, work.model, work.loss, work.classes, work.mass)
    bound = replace(work.engine.bound, codes=codes)
    is_feature = np.zeros(len(bound.size), np.uint8)
    is_feature[list(work.feature_columns)] = 1
    walker = TreeWalker(bound, work.engine.search(is_feature, bound))
    chunk_work = ChunkWork(work.axes, sample, work.loss, work.like, kept_in(work.curves, rows.part))
    chunk = chunk_work.sums(0, sample.n, walker, tick)
    sample = replace(sample, prediction=chunk.prediction, loss=None if work.loss is None else chunk.loss)
    kept = kept_in(work.kept, rows.part)
    some = KeptRows.of(sample, kept, rows.part.start, chunk.local[kept], own[:, kept].T)
    return _sums(work.axes, chunk, sample, codes[list(work.feature_columns)], some, work.deletion)


def _sums(axes: Axes, chunk: ChunkSums, sample: Sample, codes: Ints, kept: KeptRows, deletion: Deletion) -> TreeSums:
    return TreeSums(
        losses=loss_sums(sample, deletion),
        rows=tuple(
            RowSums.of(
                sample.weight, chunk.local[:, k], chunk.loss, own, axes.part(k).stop - axes.part(k).start, deletion
            )
            for k, own in enumerate(codes)
        ),
        curve=chunk.curve,
        clipped=chunk.clipped,
        kept=kept,
        curves=chunk.cells,
    )


def classes_of_values(engine: Trees, codebook: Table, grids: Mapping[int, CountedGrid]) -> dict[int, Ints]:
    """The class of each value of each grid, from a table that holds the values of grid j in column j."""
    class_of = {}
    for j, grid in grids.items():
        codes = codebook.column(j).distinct.codes[: len(grid)]
        class_of[j] = engine.bound.class_of[j].each[codes]
    return class_of


def rowless(engine: Trees) -> Trees:
    """The engine without the rows of the table that it was bound to."""
    bound: Any = engine.bound
    return replace(engine, bound=replace(bound, codes=np.zeros((len(bound.size), 1), np.int32)))


def run(stream: Stream) -> Summed:
    """Two passes over the data, and their sums."""
    arguments, bins = counting(stream)
    counted = first_pass(arguments, stream.jobs, stream.workers, stream.progress)
    work = bound(stream, counted, bins)
    sums = sum_over_parts(stream, counted, evaluate, work)
    sample = sums.kept.sample(work.classes, totals(stream, counted, sums.kept.positions, sums.losses))
    columns = {j: (All(), _column(work, sums, k, j, sample)) for k, j in enumerate(work.feature_columns)}
    return Summed(stream, work.engine.name, sample, columns, CHECKED)


def counting(stream: Stream) -> tuple[FirstPass, TreeBins]:
    """The arguments of the first pass: the columns of the trees and of the features."""
    ensemble, unwrapped = stream.read, stream.unwrapped
    assert unwrapped is not None
    used = ensemble.used(unwrapped)
    bins, needed = TreeBins(ensemble, unwrapped), tuple(sorted(used | set(stream.feature_columns)))
    return FirstPass(stream.data, needed, bins, wants_labels(stream)), bins


def bound(stream: Stream, counted: Counted, bins: TreeBins) -> TreeWork:
    """An engine bound to the counted values, and checked on them."""
    kinds = kinds_of_all(counted, stream.data.columns)
    book = codebook(stream.head, counted.grids, kinds)
    engine = _engine(stream, book)
    like = engine.predict(np.arange(1))
    cells = sum(8 * (1 + like.size) * len(counted.grids[j]) for j in stream.feature_columns)
    kept, curves = rows_to_keep(stream.n, len(stream.feature_columns), cells, stream.memory, stream.entropy)
    return TreeWork(
        data=replace(stream.data, kinds=kinds), model=stream.model_info, loss=stream.loss,
        classes=classes_of(stream, counted.labels), mass=counted.total, deletion=counted.deletion,
        kept=kept, curves=curves, engine=rowless(engine), like=like, bins=bins, grids=counted.grids,
        class_of=classes_of_values(engine, book, counted.grids), feature_columns=stream.feature_columns,
    )  # fmt: skip


def _engine(stream: Stream, book: Table) -> Any:
    respond = stream.model.responder(stream.response)
    engine, why = choose_exact(stream.model, stream.response, respond, stream.loss, stream.site(book))
    if engine is None:
        raise Declined(why)
    return engine


def _column(work: TreeWork, sums: TreeSums, k: int, j: int, sample: Sample) -> Outcome:
    part, class_of, own = work.axes.part(k), work.class_of[j], sums.kept.place[:, k]
    by_class = np.cumsum(sums.curve[part], axis=0)  # changes, then predictions, of all rows at each class
    changes, pd = by_class[:, 0], by_class[class_of, 1:]
    one = work.like.ndim == 1 and work.like.dtype.kind != "i"
    cells = spread_cells(
        k, work.axes, sample, work.loss, sums.curves, np.searchsorted(sums.kept.positions, work.curves)
    )
    means = curves_only(sample, work.grids[j].mass, pd[:, 0] if one else pd)
    if work.loss is not None:
        pfi = float(sums.rows[k].rows[0])
        means = replace(
            means, local=sums.kept.local[:, k], pi=changes[class_of], caused=changes[class_of[own]],
            donor_weight=sample.weight, clipped=float(sums.clipped[k]), total=pfi,
            influences=sums.rows[k].influences(pfi, changes, float(sums.losses[0]), work.deletion),
        )  # fmt: skip
    return filled(work.grids[j], own, means, cells)
