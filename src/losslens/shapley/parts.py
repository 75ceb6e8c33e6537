"""Shapley importances of data read in parts: of linear models with squared error, whose closed form needs moments only.

Other models and losses: `covariance_parts`.

With c_j what feature j adds to a row, minus its mean, C their sum, r = y - f and s = 2 r + C, the share of row
i is ``c_ij s_i + mean(C c_j)``, that of donor k ``mean(c_j s) - c_kj (mean(s) - C_k)``; both average to
``SFIMP_j = 2 cov(c_j, r + C)``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from operator import add

import numpy as np

from losslens.cells.row_sums import Deletion, JointSums, PartSums
from losslens.engines.base import Declined
from losslens.engines.choice import CHECKED, check_predictions
from losslens.losses import Loss
from losslens.models import Model
from losslens.passes.parts.additive import Sums
from losslens.passes.parts.counting import Counted, FirstPass, Quantiles, first_pass, kinds_of_all
from losslens.passes.parts.reading import Data, PartRows, Stretch, part_sample
from losslens.passes.parts.results import sum_over_parts
from losslens.passes.parts.stream import Stream, prepare
from losslens.passes.task import Options
from losslens.progress import Tick
from losslens.results.shapley import ShapleyImportance
from losslens.results.shapley_curve import Values
from losslens.shapley.covariance_parts import SharesOfParts, jackknife, run_linked, run_trees
from losslens.shapley.stopping import ShapleySettings
from losslens.tables.loading import Opened
from losslens.tables.sample import Sample, Totals
from losslens.typing import Floats

ABSENT = "this result comes from files and keeps no rows; pass a sample of the rows in memory"


def shares(model: Model, data: Opened, loss: Loss, settings: ShapleySettings, options: Options) -> ShapleyImportance:
    """`shapley_importance` of data read in parts."""
    return run(share_stream(model, data, loss, settings, options))


def share_stream(model: Model, data: Opened, loss: Loss, settings: ShapleySettings, options: Options) -> Stream:
    """A checked call of `shapley_importance`: importances that are covariances, over all pairs."""
    stream = prepare(model, data, loss, loss.reads, options, for_games=True)
    all_pairs = stream.design is None or stream.design.all_pairs
    plain = settings.method in ("auto", "exact") and settings.aggregate == "loss" and all_pairs
    covers = (
        stream.read is None
        or stream.read.donor_sums == "moments"
        or len(stream.feature_columns) == len(stream.data.columns)
    )
    if stream.read is None or not plain or not covers:
        raise ValueError(
            f"Shapley importances of {data.n:,} rows read in parts need all pairs, trees or a linear model, also "
            "inside a logistic or log link, a loss that is linear in y on the scale of its sums (squared error, "
            "Brier score, log loss, Poisson deviance), and all columns as features; else pass a sample of the "
            "rows in memory"
        )
    return stream


def run(stream: Stream) -> ShapleyImportance:
    """All passes over the data, and the result."""
    try:
        counted, found = RUNS[stream.read.donor_sums](stream)
    except Declined as declined:
        raise ValueError(f"no Shapley importances of rows read in parts: {declined}; pass a sample of them") from None
    return _result(stream, counted, found)


@dataclass(frozen=True, eq=False)
class ShareSums(Sums):
    """Sums of the first pass."""

    def __call__(self, rows: PartRows) -> Floats:
        """Of a part, (3, k + 1): weighted sums of m, m r and m M, M the sum of all m; and of 1, r and r^2."""
        g, f = self.parts(rows.table)
        sample = part_sample(rows, self.model, self.loss, None, 1.0)
        if self.loss is not None:
            self.loss.check_prediction(f)
        residual = np.asarray(sample.y) - f
        m, w = g - self.shift, sample.weight
        last = np.array([w.sum(), w @ residual, w @ residual**2])
        return np.column_stack([np.stack([w @ m, (w * residual) @ m, (w * m.sum(axis=1)) @ m]), last])


@dataclass(frozen=True, eq=False)
class ShareWork:
    """What all parts of the second pass need; sent to the workers."""

    data: Data
    sums: ShareSums
    mass: float
    deletion: Deletion
    mean: Floats  # (k,): of g
    with_residual: Floats  # (k,): cov(c, r)
    with_sum: Floats  # (k,): cov(c, C)
    residual: float  # mean of r

    @property
    def sfimp(self) -> Floats:
        """``2 cov(c_j, r + C)``, (k,)."""
        return 2 * (self.with_residual + self.with_sum)


@dataclass(frozen=True, eq=False)
class AddedSums(PartSums):
    """Sums over the rows of a part."""

    joint: JointSums
    products: Floats  # (k, k): of w c c'


def evaluate(work: ShareWork, stretch: Stretch, tick: Tick) -> AddedSums:
    """Sums over the rows of a stretch."""
    return reduce(add, (_evaluate(work, rows) for rows in work.data.rows(stretch, tick)))


def _evaluate(work: ShareWork, rows: PartRows) -> AddedSums:
    g, f = work.sums.parts(rows.table)
    sample = part_sample(rows, work.sums.model, work.sums.loss, None, work.mass)
    c, w = g - work.mean, sample.weight
    total = c.sum(axis=1)
    reach = 2 * (np.asarray(sample.y) - f) + total
    local = c * reach[:, None] + work.with_sum
    caused = 2 * work.with_residual + work.with_sum - c * (2 * work.residual - total)[:, None]
    return AddedSums(JointSums.of(local + caused, w, work.deletion), (c * w[:, None]).T @ c)


def _moments(stream: Stream) -> tuple[Counted, SharesOfParts]:
    """Two passes over the data."""
    linear, unwrapped = stream.read, stream.unwrapped
    assert unwrapped is not None
    columns = tuple(feature.columns[0] for feature in stream.features)
    sums = ShareSums(linear, unwrapped, columns, np.zeros(len(columns)), stream.model_info, stream.loss)
    g, _ = sums.parts(stream.head)
    site = stream.site(stream.head)
    check_predictions(linear.engine(unwrapped, site), stream.model.responder(stream.response), site)
    sums = replace(sums, shift=g.mean(axis=0))
    first = FirstPass(stream.data, (), Quantiles({}), labels=False, sums=sums)
    counted = first_pass(first, stream.stretches, stream.workers, stream.progress)
    work = _work(stream, counted, sums)
    of_rows = sum_over_parts(stream, counted, evaluate, work, "Shapley values")
    assert counted.sums is not None
    index = -4 * of_rows.products
    np.fill_diagonal(index, 0.0)
    moments = jackknife(of_rows.joint, work.sfimp, counted.deletion)
    error = float(counted.sums[2, -1] / counted.sums[0, -1])
    return counted, SharesOfParts(work.sfimp, error, *moments, "closed form", "additive", index)


def _work(stream: Stream, counted: Counted, sums: ShareSums) -> ShareWork:
    assert counted.sums is not None
    means = counted.sums / counted.sums[0, -1]
    first, with_residual, with_sum = means[:, :-1]
    residual = float(means[1, -1])
    data = replace(stream.data, kinds=kinds_of_all(counted, stream.data.columns))
    return ShareWork(
        data, sums, counted.total, counted.deletion, first + sums.shift, with_residual - first * residual,
        with_sum - first * first.sum(), residual,
    )  # fmt: skip


def _result(stream: Stream, counted: Counted, found: SharesOfParts) -> ShapleyImportance:
    names, none, no_rows = tuple(feature.name for feature in stream.features), np.empty(0), np.empty(0, np.intp)
    assert stream.loss is not None
    totals = Totals(stream.n, no_rows, counted.units, counted.squares, found.error)
    return ShapleyImportance(
        features=names, sfimp=found.sfimp, error_all=found.error, error_none=found.error + float(found.sfimp.sum()),
        title=stream.loss.title, loss=stream.loss, aggregate="loss", method=found.method, engine=found.engine,
        design="all pairs", exact=True, n_predictions=min(CHECKED, stream.head.n),
        sample=Sample(none, none, totals=totals), at=no_rows, monte_carlo_error=np.zeros(len(names)),
        covariance=found.covariance, cubes=found.cubes,
        values=Values(distinct=tuple(none for _ in names), codes=np.empty((0, len(names)), np.int32),
                      ordered=(True,) * len(names), columns=tuple((name,) for name in names)),
        backend="pandas" if stream.head.backend == "numpy" else stream.head.backend, index=found.index, absent=ABSENT,
        remarks=(f"{stream.n:,} rows, read part by part", *found.remarks),
    )  # fmt: skip


RUNS = {"moments": _moments, "additions": run_linked, "patterns": run_trees}
