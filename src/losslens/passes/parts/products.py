"""Sums of products on data in parts, with squared error: ``f(i, k) = kept[i] . lent[k]``. Exact over all pairs.

The first pass finds the range of each column, which fixes the functions that span its factors; the second gives the
triangular factors R of both sides, of which those of parts are joined by another decomposition; the third evaluates
every row: a mean squared loss is the squared norm of R times its vector (`passes.factors`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import NamedTuple

import numpy as np

from losslens.cells.lazy import deferred
from losslens.cells.matrix import Cells
from losslens.cells.row_sums import Deletion, InfluenceSums, PartSums
from losslens.donors.designs import All
from losslens.engines.base import Declined
from losslens.engines.choice import CHECKED, check_predictions
from losslens.engines.kernel_machines import BLOCK_TERMS, IGNORE_RANGE, MAX_PRODUCTS, MIN_BLOCK_ROWS, ProductForm, span
from losslens.engines.readers.unwrapped import UnwrappedModel
from losslens.losses import Loss
from losslens.models import Model
from losslens.passes.budget import Filled
from losslens.passes.factors import Triangle, squared_norms
from losslens.passes.parts.additive import BINS
from losslens.passes.parts.counting import CountedGrid, FirstPass, Quantiles, first_pass, kinds_of_all, places
from losslens.passes.parts.kept_rows import KeptRows, rows_to_keep
from losslens.passes.parts.reading import Data, PartRows, Stretch, kept_in, part_sample
from losslens.passes.parts.results import Summed, curves_only, filled, loss_sums, sum_over_parts, totals
from losslens.passes.parts.stream import Stream
from losslens.progress import Tick
from losslens.tables.frames import Table
from losslens.tables.sample import Sample, loss_changes
from losslens.typing import Floats, Indices

MANY = 1 << 16  # values of a column: functions that span the terms are cheaper than terms, if they are fewer


@dataclass(frozen=True, eq=False)
class Ends:
    """The smallest and the largest value of each column of the estimator's input."""

    unwrapped: UnwrappedModel

    def __call__(self, rows: PartRows) -> Floats:
        """Of a part, (2, C)."""
        matrix = self.unwrapped.matrix(rows.table)
        return np.stack([matrix.min(axis=0), matrix.max(axis=0)])


class SideChunk(NamedTuple):
    """Some rows of a part: predictions, and both sides of each feature's cells, (rows, r + 1) each."""

    rows: slice
    base: Floats
    sides: list[tuple[Floats, Floats]]


@dataclass(frozen=True, eq=False)
class ProductRows:
    """A sum of products on the rows of any part."""

    form: ProductForm
    unwrapped: UnwrappedModel
    columns: tuple[tuple[int, ...], ...]  # of each feature: those of the estimator's input with an effect
    ranks: tuple[int | None, ...]  # how many functions span the terms of each feature; None: the terms themselves
    ends: Floats  # (2, C)
    step: int  # rows at a time

    @property
    def widths(self) -> list[int]:
        """Of both sides of each feature."""
        terms = len(self.form.coef)
        each = zip(self.columns, self.ranks, strict=True)
        return [1 + ((terms if rank is None else rank) if columns else 0) for columns, rank in each]

    def chunks(self, table: Table) -> Iterator[SideChunk]:
        """All rows, some at a time."""
        matrix = self.unwrapped.matrix(table)
        for start in range(0, len(matrix), self.step):
            with np.errstate(**IGNORE_RANGE):
                base, sides = self._sides(matrix[start : start + self.step])
            yield SideChunk(slice(start, start + len(base)), base, sides)

    def _sides(self, matrix: Floats) -> tuple[Floats, list[tuple[Floats, Floats]]]:
        form, n = self.form, len(matrix)
        spans = [
            span(form, columns, rank, self.ends, matrix) for columns, rank in zip(self.columns, self.ranks, strict=True)
        ]
        base, kept = np.empty(n), [np.full((n, width), form.intercept) for width in self.widths]
        moving = sorted({j for columns in self.columns for j in columns})
        block_rows = max(MIN_BLOCK_ROWS, BLOCK_TERMS // max(1, len(form.coef)))
        for rows in (slice(start, start + block_rows) for start in range(0, n, block_rows)):
            block = form.block(matrix[rows], moving)
            base[rows] = block.predict()
            for columns, (weights, _), side in zip(self.columns, spans, kept, strict=True):
                if columns:
                    factors = block.without(list(columns))
                    side[rows, :-1] = factors if weights is None else factors @ weights
                else:
                    side[rows, -1] = base[rows]
        return base, [
            (one, np.insert(basis, basis.shape[1], 1.0, axis=1)) for one, (_, basis) in zip(kept, spans, strict=True)
        ]


@dataclass(frozen=True, eq=False)
class ProductWork:
    """The arguments of the later passes, which are sent to workers."""

    data: Data
    rows: ProductRows
    model: Model
    loss: Loss | None
    mass: float
    deletion: Deletion
    kept: Indices  # rows whose importances are kept, in the full data
    curves: Indices  # those of them whose curves are kept
    bins: Quantiles
    grids: Mapping[int, CountedGrid]
    feature_columns: tuple[int, ...]
    sums: SideSums | None = None  # of the second pass

    def sample(self, rows: PartRows, prediction: Floats) -> Sample:
        """The rows of a part with predictions and losses."""
        sample = replace(part_sample(rows, self.model, self.loss, None, self.mass), prediction=prediction)
        if self.loss is None:
            return sample
        self.loss.check_prediction(prediction)
        return sample.with_loss(self.loss)


@dataclass(frozen=True, eq=False)
class SideSums(PartSums):
    """Both sides of the cells of all rows, as sums, of each feature."""

    losses: Floats  # (6,)
    lent: tuple[Triangle, ...]
    errors: tuple[Triangle, ...]  # of the kept side less y
    mean: tuple[Floats, ...]  # (r + 1,): of the kept side

    def pfi(self, k: int) -> float:
        """The mean change over all pairs."""
        return float(np.sum(np.square(self.errors[k].of @ self.lent[k].of.T)) - self.losses[0])


def add_sides(work: ProductWork, stretch: Stretch, tick: Tick) -> SideSums:
    """All rows of a stretch."""
    return reduce(add, (_sides(work, rows) for rows in work.data.rows(stretch, tick)))


def _sides(work: ProductWork, rows: PartRows) -> SideSums:
    y, widths = part_sample(rows, work.model, work.loss, None, work.mass), work.rows.widths
    base, lent, errors = np.empty(y.n), [Triangle.empty(w) for w in widths], [Triangle.empty(w) for w in widths]
    mean = [np.zeros(width) for width in widths]
    for chunk in work.rows.chunks(rows.table):
        base[chunk.rows] = chunk.base
        weight, target = y.weight[chunk.rows], 0.0 if y.y is None else np.asarray(y.y[chunk.rows], float)
        for k, (kept, of_donor) in enumerate(chunk.sides):
            mean[k] += weight @ kept
            kept[:, -1] -= target
            lent[k], errors[k] = lent[k].joined(of_donor, weight), errors[k].joined(kept, weight)
    losses = loss_sums(work.sample(rows, base), work.deletion)
    return SideSums(losses, tuple(lent), tuple(errors), tuple(mean))


@dataclass(frozen=True, eq=False)
class ProductSums(PartSums):
    """Sums over the rows of a stretch."""

    influence: Floats  # (4, k): of u, u^2, u^3 and u times the influence on the error
    pull: float  # the influence on the error
    on_grid: tuple[Floats, ...]  # (2 + r + 1, g) each: of 1, the changes that donors cause, and what they lend
    kept: KeptRows  # with importances of rows, and of donors


def evaluate(work: ProductWork, stretch: Stretch, tick: Tick) -> ProductSums:
    """All rows of a stretch."""
    return reduce(add, (_evaluate(work, rows) for rows in work.data.rows(stretch, tick)))


def _evaluate(work: ProductWork, rows: PartRows) -> ProductSums:
    sums, n, features = work.sums, rows.table.n, len(work.feature_columns)
    assert sums is not None
    own = np.stack(list(places(rows.table, work.grids, work.feature_columns, work.bins).values()))
    y = part_sample(rows, work.model, work.loss, None, work.mass)
    base, local, caused = np.empty(n), np.empty((n, features)), np.empty((n, features))
    on_grid = [
        np.zeros((2 + width, len(work.grids[j])))
        for width, j in zip(work.rows.widths, work.feature_columns, strict=True)
    ]
    with_curves, vectors = kept_in(work.curves, rows.part), []
    for chunk in work.rows.chunks(rows.table):
        base[chunk.rows] = chunk.base
        target = 0.0 if y.y is None else np.asarray(y.y[chunk.rows], float)
        some = with_curves[(with_curves >= chunk.rows.start) & (with_curves < chunk.rows.stop)] - chunk.rows.start
        vectors.append(np.concatenate([kept[some] for kept, _ in chunk.sides], axis=1))
        for k, (kept, lent) in enumerate(chunk.sides):
            kept[:, -1] -= target
            local[chunk.rows, k] = squared_norms(kept, sums.lent[k].of)
            caused[chunk.rows, k] = squared_norms(lent, sums.errors[k].of) - sums.losses[0]
            at, mass = own[k, chunk.rows], work.grids[work.feature_columns[k]].mass
            weight = np.where(mass[at] > 0, y.weight[chunk.rows], 1.0)  # values of rows without weight
            each = np.vstack([np.ones(len(at)), caused[chunk.rows, k], lent.T])
            for into, numbers in zip(on_grid[k], weight * each, strict=True):
                into += np.bincount(at, numbers, len(into))
    sample = work.sample(rows, base)
    own_loss = np.zeros(n) if sample.loss is None else sample.loss
    local -= own_loss[:, None]
    a, o = work.deletion.of_pairs(sample.weight)
    pfi = np.array([sums.pfi(k) for k in range(features)])
    u = a[:, None] * (local + caused) - 2 * pfi / work.deletion.pairs * o[:, None]
    pull = work.deletion.of_mean(sample.weight) * (own_loss - sums.losses[0])
    kept_rows = kept_in(work.kept, rows.part)
    both = np.concatenate([local, caused], axis=1)[kept_rows]
    return ProductSums(
        influence=np.stack([np.sum(u, axis=0), np.sum(u**2, axis=0), np.sum(u**3, axis=0), pull @ u]),
        pull=float(pull.sum()),
        on_grid=tuple(on_grid),
        kept=KeptRows.of(sample, kept_rows, rows.part.start, both, own[:, kept_rows].T, np.concatenate(vectors)),
    )


def run(stream: Stream) -> Summed:
    """Three passes over the data, and their sums."""
    form, unwrapped = stream.read, stream.unwrapped
    assert unwrapped is not None
    site = stream.site(stream.head)
    check_predictions(form.engine(unwrapped, site), stream.model.responder(stream.response), site)
    bins = Quantiles.of_rows(stream.spread_rows, stream.feature_columns, BINS)
    arguments = FirstPass(stream.data, stream.feature_columns, bins, labels=False, ends=Ends(unwrapped))
    counted = first_pass(arguments, stream.stretches, stream.workers, stream.progress)
    assert counted.ends is not None
    rows = _rows(stream, counted.ends)
    cells = sum(16 * len(counted.grids[j]) for j in stream.feature_columns) + 8 * sum(rows.widths)
    kept, curves = rows_to_keep(stream.n, 2 * len(stream.feature_columns), cells, stream.memory, stream.entropy)
    work = ProductWork(
        replace(stream.data, kinds=kinds_of_all(counted, stream.data.columns)), rows, stream.model_info, stream.loss,
        counted.total, counted.deletion, kept, curves, bins, counted.grids, stream.feature_columns,
    )  # fmt: skip
    work = replace(work, sums=sum_over_parts(stream, counted, add_sides, work, "multiplying"))
    assert work.sums is not None
    found = sum_over_parts(stream, counted, evaluate, work)
    sample = found.kept.sample(None, totals(stream, counted, found.kept.at, work.sums.losses))
    columns = {j: (All(), _column(work, found, k, j, sample)) for k, j in enumerate(stream.feature_columns)}
    return Summed(stream, form.kind, sample, columns, min(CHECKED, stream.head.n))


def _rows(stream: Stream, ends: Floats) -> ProductRows:
    """The functions that span the terms of each feature; `Declined` if they are too many."""
    form, source = stream.read, stream.unwrapped.source if stream.unwrapped is not None else None
    if not np.isfinite(ends).all():
        raise Declined("the input of the model has missing or infinite values")
    columns, ranks = [], []
    for j in stream.feature_columns:
        some = tuple(int(c) for c in np.flatnonzero(source == j) if form.moves(int(c)))
        columns.append(some)
        ranks.append(form.rank((list(some), np.resize(ends[:, list(some)], (MANY, len(some))))) if some else None)
    rows = ProductRows(form, stream.unwrapped, tuple(columns), tuple(ranks), ends, 1)  # type: ignore[arg-type]
    terms, widths = len(form.coef), rows.widths
    for j, width in zip(stream.feature_columns, widths, strict=True):
        if float(stream.n) * width * (terms + width) > MAX_PRODUCTS:
            raise Declined(
                f"{stream.head.names[j]!r} needs {width:,} numbers a row and donor, too many for {stream.n:,} rows"
            )
    room = stream.memory // 16 // (16 * (sum(widths) + 4 * terms))
    return replace(rows, step=int(np.clip(room, max(widths), 1 << 14)))


def _column(work: ProductWork, found: ProductSums, k: int, j: int, sample: Sample) -> Filled:
    sums, grid, features = work.sums, work.grids[j], len(work.feature_columns)
    assert sums is not None
    count, caused, *lent = found.on_grid[k] / found.on_grid[k][0]
    del count
    starts = np.cumsum([0, *work.rows.widths])
    vectors, shown = found.kept.adds[:, starts[k] : starts[k + 1]], np.array(lent).T
    rows, own = np.searchsorted(found.kept.at, work.curves), found.kept.place[:, k]
    predictions = deferred(_predictions, vectors, shown, sample.prediction[rows], own[rows])
    loss = work.loss
    cells = Cells(rows, predictions, None if loss is None else deferred(loss_changes, loss, sample, rows, predictions))
    means = curves_only(sample, grid.mass, shown @ sums.mean[k])
    if loss is not None:
        powers = [*found.influence[:, k].tolist(), found.pull]
        means = replace(
            means, local=found.kept.local[:, k], pi=caused, caused=found.kept.local[:, features + k],
            lent=sample.weight, total=sums.pfi(k), influences=InfluenceSums.of_powers(work.deletion.units, powers),
        )  # fmt: skip
    return filled(grid, own, means, cells)


def _predictions(vectors: Floats, lent: Floats, base: Floats, own: Indices) -> Floats:
    """The cells of rows that hold value `own`, (r, g)."""
    predictions = vectors @ lent.T
    predictions[np.arange(len(own)), own] = base  # a row at its own value is the row itself
    return np.asarray(predictions)
