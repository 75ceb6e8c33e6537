"""Linear models on data in parts, with squared error: everything is a moment. Exact over all pairs.

With c what a column adds to a row, less its mean, and r = y - f, a row's importance is ``c (2 r + c) + var(c)`` and
that of its value as a donor ``c^2 - 2 c mean(r) + var(c) + 2 cov(c, r)``. The first pass sums c, c^2, r and c r; the
second computes both for every row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import reduce
from operator import add

import numpy as np

from losslens.cells.matrix import Cells
from losslens.cells.row_sums import Deletion, InfluenceSums, PartSums
from losslens.donors.designs import All
from losslens.engines.additive import Moments
from losslens.engines.choice import CHECKED, check_predictions
from losslens.engines.readers.linear import Linear
from losslens.engines.readers.pipelines import UnwrappedModel
from losslens.losses import Loss
from losslens.models import Model
from losslens.passes.parts.counting import (
    Counted,
    CountedGrid,
    FirstPass,
    Quantiles,
    first_pass,
    kinds_of_all,
    places,
)
from losslens.passes.parts.reading import Data, Job, PartRows, kept_in, part_sample
from losslens.passes.parts.results import KeptRows, Summed, curves_only, filled, rows_to_keep, sum_over_parts
from losslens.passes.parts.stream import Stream, classes_of
from losslens.passes.task import Outcome
from losslens.progress import Tick
from losslens.tables.frames import Table
from losslens.tables.frozen import deferred
from losslens.tables.sample import Sample, Totals, loss_changes
from losslens.typing import Floats, Indices

BINS = 512  # of a column with many values: a curve has one value per bin, the mean over its donors


@dataclass(frozen=True, eq=False)
class Sums:
    """A linear model on the rows of any part: what each feature's column adds, and the prediction."""

    linear: Linear
    unwrapped: UnwrappedModel
    feature_columns: tuple[int, ...]
    shift: Floats  # (k,): typical values, subtracted so that the variances lose no digits
    model: Model
    loss: Loss | None

    def parts(self, table: Table) -> tuple[Floats, Floats]:
        """What the features' columns add, (b, k), and f, (b,)."""
        (total,), some = self.linear.sums(self.unwrapped, table), list(self.feature_columns)
        return np.asarray(total.parts[:, some] * total.scale[some]), total.prediction

    def __call__(self, rows: PartRows) -> Floats:
        """Sums of a part, (4, k + 1): weighted, of m, m^2, m r and f m, m = g - shift; and of 1, r, r^2 and f."""
        g, f = self.parts(rows.table)
        sample = part_sample(rows, self.model, self.loss, None, 1.0)
        if self.loss is not None:
            self.loss.check_prediction(f)
        residual = np.zeros(len(f)) if sample.y is None else sample.y - f
        m, w = g - self.shift, sample.weight
        last = np.array([w.sum(), w @ residual, w @ residual**2, w @ f])
        return np.column_stack([np.stack([w @ m, w @ m**2, (w * residual) @ m, (w * f) @ m]), last])


@dataclass(frozen=True, eq=False)
class PartMoments(Moments):
    """Moments over all rows: of what each feature's column adds, of the residuals, and of the predictions."""

    residual: float  # mean of r
    error: float
    level: float  # mean of f

    @classmethod
    def of_sums(cls, sums: Floats, shift: Floats) -> PartMoments:
        """The moments from the sums of all parts."""
        _, residual, error, level = sums[:, -1] / sums[0, -1]
        first, second, cross, _ = sums[:, :-1] / sums[0, -1]
        variance = np.maximum(second - first**2, 0.0)
        return cls(first + shift, variance, cross - first * residual, float(residual), float(error), float(level))


@dataclass(frozen=True, eq=False)
class SumsWork:
    """The arguments of the second pass, which are sent to workers."""

    data: Data
    sums: Sums
    moments: PartMoments
    mass: float
    deletion: Deletion
    kept: Indices  # rows whose importances are kept, in the full data
    curves: Indices  # those of them whose curves are kept
    bins: Quantiles
    grids: Mapping[int, CountedGrid]


@dataclass(frozen=True, eq=False)
class AdditiveRowSums(PartSums):
    """Sums over the rows of a job."""

    influence: Floats  # (4, k): of u, u^2, u^3 and u times the influence on the error
    error: Floats  # (2,): of the influence on the error, and of its square
    on_grid: tuple[Floats, ...]  # (5, g) each: of w c, w c^2, 1, c and c^2 at each value
    kept: KeptRows


def evaluate(work: SumsWork, job: Job, tick: Tick) -> AdditiveRowSums:
    """Sums over all rows of a job, in the second pass."""
    return reduce(add, (_evaluate(work, rows) for rows in work.data.rows(job, tick)))


def _evaluate(work: SumsWork, rows: PartRows) -> AdditiveRowSums:
    sums, moments = work.sums, work.moments
    g, f = sums.parts(rows.table)
    sample = replace(part_sample(rows, sums.model, sums.loss, None, work.mass), prediction=f)
    sample = sample if sums.loss is None else sample.with_loss(sums.loss)
    c, w = g - moments.mean, sample.weight
    own = np.stack(list(places(rows.table, work.grids, sums.feature_columns, work.bins).values()))
    residual = np.zeros(len(f)) if sample.y is None else np.asarray(sample.y - f)
    local = c * (2 * residual[:, None] + c) + moments.variance
    caused = c**2 - 2 * c * moments.residual + moments.variance + 2 * moments.covariance
    a, o = work.deletion.of_pairs(w)
    u = a[:, None] * (local + caused) - 2 * moments.pfi / work.deletion.pairs * o[:, None]
    pull = np.zeros(len(f)) if sample.loss is None else work.deletion.of_mean(w) * (sample.loss - moments.error)
    kept = kept_in(work.kept, rows.part)
    return AdditiveRowSums(
        influence=np.stack([np.sum(u, axis=0), np.sum(u**2, axis=0), np.sum(u**3, axis=0), pull @ u]),
        error=np.array([pull.sum(), pull @ pull]),
        on_grid=tuple(
            _at_values(codes, len(work.grids[j]), w, c[:, k])
            for k, (j, codes) in enumerate(zip(sums.feature_columns, own, strict=True))
        ),
        kept=KeptRows.of(sample, kept, rows.part.start, local[kept], own[:, kept].T, c[kept]),
    )


def _at_values(places: Indices, g: int, w: Floats, c: Floats) -> Floats:
    return np.stack([np.bincount(places, each, g) for each in (w * c, w * c**2, np.ones(len(c)), c, c**2)])


def run(stream: Stream) -> Summed:
    """Two passes over the data, and their sums."""
    linear, unwrapped = stream.read, stream.unwrapped
    assert unwrapped is not None
    sums = Sums(
        linear, unwrapped, stream.feature_columns, np.zeros(len(stream.feature_columns)), stream.model_info, stream.loss
    )
    g, _ = sums.parts(stream.head)
    site = stream.site(stream.head)
    check_predictions(linear.engine(unwrapped, site), stream.model.responder(stream.response), site)
    sums = replace(sums, shift=np.where((g == g[0]).all(axis=0), g[0], g.mean(axis=0)))
    bins = Quantiles.of_rows(stream.spread_rows, stream.feature_columns, BINS)
    arguments = FirstPass(stream.data, stream.feature_columns, bins, labels=False, sums=sums)
    counted = first_pass(arguments, stream.jobs, stream.workers, stream.progress)
    work = _work(stream, counted, sums, bins)
    row_sums = sum_over_parts(stream, counted, evaluate, work)
    rows, classes = np.searchsorted(row_sums.kept.positions, work.curves), classes_of(stream, counted.labels)
    pull, square = row_sums.error.tolist()
    error_square = max(square - pull**2 / counted.units, 0.0)
    totals = Totals(stream.n, row_sums.kept.positions, counted.units, counted.squares, work.moments.error, error_square)
    sample = row_sums.kept.sample(classes, totals)
    columns = {j: (All(), _column(work, row_sums, k, j, sample, rows)) for k, j in enumerate(stream.feature_columns)}
    return Summed(stream, "additive", sample, columns, min(CHECKED, stream.head.n))


def _work(stream: Stream, counted: Counted, sums: Sums, bins: Quantiles) -> SumsWork:
    assert counted.sums is not None
    cells = sum(16 * len(counted.grids[j]) for j in stream.feature_columns)
    kept, curves = rows_to_keep(stream.n, len(stream.feature_columns), cells, stream.memory, stream.entropy)
    data = replace(stream.data, kinds=kinds_of_all(counted, stream.data.columns))
    moments = PartMoments.of_sums(counted.sums, sums.shift)
    return SumsWork(data, sums, moments, counted.total, counted.deletion, kept, curves, bins, counted.grids)


def _column(work: SumsWork, sums: AdditiveRowSums, k: int, j: int, sample: Sample, rows: Indices) -> Outcome:
    moments, grid, loss = work.moments, work.grids[j], work.sums.loss
    mass = grid.mass / work.mass
    wc, wc2, count, plain, plain2 = sums.on_grid[k]
    with np.errstate(invalid="ignore", divide="ignore"):  # values of rows without weight have an unweighted mean
        first, second = np.where(mass > 0, wc / mass, plain / count), np.where(mass > 0, wc2 / mass, plain2 / count)
    adds, own = sums.kept.adds[:, k], sums.kept.place[:, k]

    predictions = deferred(_predictions, sample.prediction[rows], adds[rows], first, own[rows])
    cells = Cells(rows, predictions, None if loss is None else deferred(loss_changes, loss, sample, rows, predictions))
    means = curves_only(sample, grid.mass, moments.level + first)
    if loss is not None:
        powers = [*sums.influence[:, k].tolist(), float(sums.error[0])]
        constant = float(moments.variance[k] + 2 * moments.covariance[k])
        means = replace(
            means, local=sums.kept.local[:, k], pi=second - 2 * first * moments.residual + constant,
            caused=adds**2 - 2 * adds * moments.residual + constant, donor_weight=sample.weight,
            total=float(moments.pfi[k]), influences=InfluenceSums.of_powers(work.deletion.units, powers),
        )  # fmt: skip
    return filled(grid, own, means, cells)


def _predictions(base: Floats, adds: Floats, on_grid: Floats, own: Indices) -> Floats:
    """The cells of rows that hold value `own`, to which the column adds `adds`, (r, g)."""
    predictions = (base - adds)[:, None] + on_grid
    predictions[np.arange(len(own)), own] = base  # a row at its own value is the row itself
    return np.asarray(predictions)
