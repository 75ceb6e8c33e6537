"""Tree ensembles on data in parts: every row against the counts of all donors. Exact over all pairs.

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

from losslens.cells.row_sums import PartSums, RowSums
from losslens.donors.designs import All
from losslens.donors.questions import Subjects
from losslens.engines.base import Declined, Site
from losslens.engines.choice import CHECKED, choose_exact
from losslens.engines.readers.ensemble import Ensemble
from losslens.engines.readers.unwrapped import UnwrappedModel
from losslens.engines.trees.bound import tree_images
from losslens.engines.trees.engine import Trees, TreeWalker
from losslens.losses import Loss
from losslens.passes.budget import Filled
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
from losslens.passes.parts.kept_rows import KeptRows, rows_to_keep
from losslens.passes.parts.reading import Data, PartRows, Stretch, judged, kept_in
from losslens.passes.parts.results import Summed, curves_only, filled, loss_sums, sum_over_parts, totals
from losslens.passes.parts.stream import Stream, classes_of, wants_labels
from losslens.passes.steps import Axes, Kept, LaneSums, LaneWork, spread_cells
from losslens.progress import Tick
from losslens.tables.columns import Distinct
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
        columns = {j: (table.column(j), known) for j, known in distinct.items()}
        images = tree_images(self.ensemble, self.unwrapped, table, columns)
        return {j: self._bins(known, images.get(j)) for j, known in distinct.items()}

    def _bins(self, known: Distinct, image: tuple[NDArray[np.intp], Floats] | None) -> NDArray[np.int64] | None:
        if known.values.dtype == object or (image is not None and any(self._has_sets(int(c)) for c in image[0])):
            return None
        if image is None:  # no tree splits on it
            return np.zeros(len(known), np.int64)
        at, numbers = image
        found = np.stack([self._between(int(c), numbers[:, k]) for k, c in enumerate(at)], axis=1)
        if found.shape[1] == 1:
            return found[:, 0]
        # Several columns made of one: the bins in all of them, as one number.
        odd = np.random.default_rng(1).integers(2**62, size=found.shape[1], dtype=np.int64) * 2 + 1
        with np.errstate(over="ignore"):
            return np.asarray((found * odd).sum(axis=1))

    @cached_property
    def _thresholds(self) -> dict[int, Floats]:
        feature, threshold = self.ensemble.feature, self.ensemble.threshold
        return {int(c): np.unique(threshold[feature == c]) for c in np.unique(feature[feature >= 0])}

    def _between(self, column: int, numbers: Floats) -> NDArray[np.int64]:
        thresholds = self._thresholds.get(column, np.empty(0))
        side = "right" if self.ensemble.strict else "left"
        found = np.searchsorted(thresholds, numbers, side)  # type: ignore[call-overload]
        return np.where(np.isnan(numbers), MISSING, found).astype(np.int64)

    def _has_sets(self, column: int) -> bool:
        in_set = self.ensemble.in_set
        return in_set is not None and bool(np.any(in_set[self.ensemble.feature == column] >= 0))


@dataclass(frozen=True, eq=False)
class TreeWork:
    """The arguments of the second pass, which are sent to workers."""

    data: Data
    model: Any  # its name and classes alone
    loss: Loss | None
    classes: NDArray[Any] | None
    mass: float  # of all rows
    kept: Indices  # rows whose importances are kept, in the full data
    curves: Indices  # and those of them whose curves are
    engine: Trees  # bound to the grids, to no row
    like: NDArray[Any]  # some prediction: its type and shape
    bins: TreeBins
    grids: Mapping[int, CountedGrid]
    class_of: Mapping[int, Ints]  # of each value of a grid
    asked: tuple[int, ...]  # columns, ascending

    @cached_property
    def axes(self) -> Axes:
        """The classes of the asked features, and the mass of the donors below each."""
        of = [self.class_of[j] for j in self.asked]
        sizes = [int(self.engine.bound.size[j]) for j in self.asked]
        lent = [
            np.bincount(classes, self.grids[j].mass / self.mass, size).astype(float)
            for j, classes, size in zip(self.asked, of, sizes, strict=True)
        ]
        return Axes(len(of), of, lent)

    def codes(self, table: Table) -> tuple[Ints, Indices]:
        """The class of each row in each column, (p, b), and where its asked values stand on their grids, (k, b)."""
        at = places(table, self.grids, self.grids, self.bins)
        codes = np.zeros((len(table.names), table.n), np.int32)
        for j, place in at.items():
            codes[j] = self.class_of[j][place]
        return codes, np.stack([at[j] for j in self.asked])


@dataclass(frozen=True, eq=False)
class TreeSums(PartSums):
    """Sums over the rows of a stretch."""

    losses: Floats  # (3,)
    rows: tuple[RowSums, ...]  # of each feature
    curve: Floats  # (classes, 1 + outputs): what each class adds to the changes and the predictions
    clipped: Floats  # (k,)
    kept: KeptRows
    curves: list[Kept]


def evaluate(work: TreeWork, stretch: Stretch, tick: Tick) -> TreeSums:
    """All rows of a stretch."""
    return reduce(add, (_evaluate(work, rows, tick) for rows in work.data.rows(stretch)))


def _evaluate(work: TreeWork, rows: PartRows, tick: Tick) -> TreeSums:
    codes, own = work.codes(rows.table)
    sample = judged(rows, work.model, work.loss, work.classes, work.mass)
    bound = replace(work.engine.bound, codes=codes)
    wanted = np.zeros(len(bound.size), np.uint8)
    wanted[list(work.asked)] = 1
    walker = TreeWalker(bound, work.engine.search(wanted, bound))
    lane_work = LaneWork(work.axes, sample, work.loss, work.like, kept_in(work.curves, rows.part))
    lane = lane_work.sums(0, sample.n, walker, tick)
    sample = replace(sample, prediction=lane.prediction, loss=None if work.loss is None else lane.loss)
    kept = kept_in(work.kept, rows.part)
    some = KeptRows.of(sample, kept, rows.part.start, lane.local[kept], own[:, kept].T)
    return _sums(work.axes, lane, sample, codes[list(work.asked)], some)


def _sums(axes: Axes, lane: LaneSums, sample: Sample, codes: Ints, kept: KeptRows) -> TreeSums:
    return TreeSums(
        losses=loss_sums(sample),
        rows=tuple(
            RowSums.of(sample.weight, lane.local[:, k], lane.loss, of, axes.part(k).stop - axes.part(k).start)
            for k, of in enumerate(codes)
        ),
        curve=lane.curve,
        clipped=lane.clipped,
        kept=kept,
        curves=lane.cells,
    )


def classes_of_values(engine: Trees, codebook: Table, grids: Mapping[int, CountedGrid]) -> dict[int, Ints]:
    """The class of each value of each grid, from a table that holds the values of grid j in column j."""
    found = {}
    for j, grid in grids.items():
        codes = codebook.column(j).distinct.codes[: len(grid)]
        found[j] = engine.bound.class_of[j][codes]
    return found


def rowless(engine: Trees) -> Trees:
    """The engine without the rows of the table that it was bound to."""
    bound: Any = engine.bound
    return replace(engine, bound=replace(bound, codes=np.zeros((len(bound.size), 1), np.int32)))


def run(stream: Stream) -> Summed:
    """Two passes, and what they add up to."""
    asked, bins = counting(stream)
    counted = first_pass(asked, stream.stretches, stream.workers, stream.progress)
    work = bound(stream, counted, bins)
    sums = sum_over_parts(stream, counted, evaluate, work)
    sample = sums.kept.sample(work.classes, totals(stream, counted, sums.kept.at, sums.losses))
    columns = {j: (All(), _column(work, sums, k, j, sample)) for k, j in enumerate(work.asked)}
    return Summed(stream, work.engine.name, sample, columns, CHECKED)


def counting(stream: Stream) -> tuple[FirstPass, TreeBins]:
    """The arguments of the first pass: the columns of the trees and of the features."""
    ensemble, unwrapped = stream.read, stream.unwrapped
    assert unwrapped is not None
    used = {int(unwrapped.source[c]) for c in np.unique(ensemble.feature[ensemble.feature >= 0])}
    bins, needed = TreeBins(ensemble, unwrapped), tuple(sorted(used | set(stream.asked)))
    return FirstPass(stream.data, needed, bins, wants_labels(stream)), bins


def bound(stream: Stream, counted: Counted, bins: TreeBins) -> TreeWork:
    """An engine bound to the counted values, and checked on them."""
    kinds = kinds_of_all(counted, stream.data.columns)
    book = codebook(stream.head, counted.grids, kinds)
    engine = _engine(stream, book)
    like = engine.predict(np.arange(1))
    cells = sum(8 * (1 + like.size) * len(counted.grids[j]) for j in stream.asked)
    kept, curves = rows_to_keep(stream.n, len(stream.asked), cells, stream.memory, stream.entropy)
    return TreeWork(
        data=replace(stream.data, kinds=kinds), model=stream.nameplate, loss=stream.loss,
        classes=classes_of(stream, counted.labels), mass=counted.total, kept=kept, curves=curves,
        engine=rowless(engine), like=like, bins=bins, grids=counted.grids,
        class_of=classes_of_values(engine, book, counted.grids), asked=stream.asked,
    )  # fmt: skip


def _engine(stream: Stream, book: Table) -> Any:
    site = Site(book, Subjects(book).column, frozenset(stream.asked), stream.memory, None, stream.progress)
    respond = stream.model.responder(stream.response)
    engine, why = choose_exact(stream.model, stream.response, respond, stream.loss, site)
    if engine is None:
        raise Declined(why)
    return engine


def _column(work: TreeWork, sums: TreeSums, k: int, j: int, sample: Sample) -> Filled:
    part, of, own = work.axes.part(k), work.class_of[j], sums.kept.place[:, k]
    by_class = np.cumsum(sums.curve[part], axis=0)  # changes, then predictions, of all rows at each class
    changes, pd = by_class[:, 0], by_class[of, 1:]
    one = work.like.ndim == 1 and work.like.dtype.kind != "i"
    cells = spread_cells(k, work.axes, sample, sums.curves, np.searchsorted(sums.kept.at, work.curves))
    means = curves_only(sample, work.grids[j].mass, pd[:, 0] if one else pd)
    if work.loss is not None:
        pfi = float(sums.rows[k].rows[0])
        means = replace(
            means, local=sums.kept.local[:, k], pi=changes[of], caused=changes[of[own]], lent=sample.weight,
            clipped=float(sums.clipped[k]), total=pfi,
            influences=sums.rows[k].influences(pfi, changes, float(sums.losses[0])),
        )  # fmt: skip
    return filled(work.grids[j], own, means, cells)
