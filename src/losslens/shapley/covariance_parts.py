"""SFIMP as a covariance (`losslens.shapley.covariance`), from data read in parts: what donors lend adds up.

Trees: the first pass counts values, to which the trees are bound, the second the donors' patterns at each leaf, with
their weights w and with w b; the third gives each row the sum of its shares as an observation and as a donor. Sums,
also inside a link: a player lends the mean of what it adds, so that the first pass has all sums of donors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from operator import add
from typing import Any

import numpy as np
from numpy.typing import NDArray

from losslens.cells.row_sums import Deletion, JointSums, PartSums
from losslens.engines.base import Declined
from losslens.engines.choice import CHECKED, check_predictions
from losslens.engines.linked_sums import LinkedLinear
from losslens.engines.loss_scales import weights_of_sums
from losslens.engines.readers.pipelines import UnwrappedModel
from losslens.losses import Loss, log_loss
from losslens.models import Model
from losslens.passes.parts.counting import Counted, FirstPass, Quantiles, first_pass, kinds_of_all
from losslens.passes.parts.reading import Data, Job, PartRows, part_sample
from losslens.passes.parts.results import sum_over_parts
from losslens.passes.parts.stream import Stream, prepare
from losslens.passes.parts.trees import TreeWork, bound, counting
from losslens.passes.task import Options
from losslens.progress import Tick
from losslens.results.shapley import ShapleyImportance
from losslens.results.shapley_curve import Values
from losslens.shapley.covariance import UNCLIPPED, beyond_bound, both_roles, least_probability
from losslens.shapley.stopping import ShapleySettings
from losslens.tables.frames import Table
from losslens.tables.loading import Opened
from losslens.tables.sample import Sample, Totals
from losslens.text import size_in_words
from losslens.typing import Floats
from losslens.uncertainty.standard_errors import jackknife_factor

ABSENT = "this result comes from files and keeps no rows; pass a sample of the rows in memory"
COUNTS_IN_MEMORY = 4  # the counts of all parts, of one part, and what rows look up in them


def summed(of_part: Callable[[Any, PartRows], Any], work: Any, job: Job, tick: Tick) -> Any:
    """The sums of all parts of a job."""
    return reduce(add, (of_part(work, rows) for rows in work.data.rows(job, tick)))


def jackknife(sums: JointSums, sfimp: Floats, deletion: Deletion) -> tuple[Floats, Floats]:
    """Covariances and third moments of the importances, (p, p) each, by leaving out each row."""
    square, cube = sums.about_mean(sfimp, deletion)
    factor = jackknife_factor(deletion.units)
    np.fill_diagonal(square, np.maximum(np.diagonal(square), 0.0))
    return factor * square, factor**1.5 * cube


@dataclass(frozen=True, eq=False)
class BothRoles(PartSums):
    """Sums over the rows of a part."""

    both: Floats  # (p,): of a row's shares in both roles, with weights
    joint: JointSums
    error: float  # of the losses
    least: list[float]  # the smallest prediction of each part, where it may be clipped
    ends: list[Floats] = field(default_factory=list)  # (2, ...) of each part: what a column adds at least and at most
    # Weighted products of what two columns add to the prediction, (p, p).
    products: Floats = field(default_factory=lambda: np.zeros(()))

    @classmethod
    def of(cls, both: Floats, sample: Sample, loss: Loss, deletion: Deletion) -> BothRoles:
        """Of rows with their predictions."""
        losses = sample.with_loss(loss).loss
        assert losses is not None
        w = sample.weight
        some = sample.prediction[w > 0]
        least = [float(some.min())] if loss == log_loss and len(some) else []
        return cls(w @ both, JointSums.of(both, w, deletion), float(w @ losses), least)

    def result(
        self, stream: Stream, counted: Counted, engine: str, low: Floats, high: Floats, like: NDArray[Any],
        index: Floats | None = None,
    ) -> ShapleyImportance:  # fmt: skip
        """Means, and standard errors by leaving out each row; ValueError if the loss of a row is clipped.

        low, high: what the sums are at least and at most. like: any prediction, for its type. index: interactions.
        """
        if self.least and min(self.least) <= least_probability(like.dtype):
            raise ValueError(
                "a prediction is beyond the clipping bound of the log loss, so that Shapley importances of data that "
                "are read in parts are not exact; pass a sample of the rows in memory"
            )
        sfimp, loss, error = self.both / 2, stream.loss, self.error
        covariance, cubes = jackknife(self.joint, sfimp, counted.deletion)
        names, none, no_rows = tuple(feature.name for feature in stream.features), np.empty(0), np.empty(0, np.intp)
        assert loss is not None
        unclipped = (UNCLIPPED,) if self.least and beyond_bound(low, high, like.dtype) else ()
        return ShapleyImportance(
            features=names, sfimp=sfimp, error_all=error, error_none=error + float(sfimp.sum()), title=loss.title,
            loss=loss, aggregate="loss", method="covariance", engine=engine, design="all pairs", exact=True,
            n_predictions=min(CHECKED, stream.head.n), at=no_rows, monte_carlo_error=np.zeros(len(names)),
            sample=Sample(none, none, totals=Totals(stream.n, no_rows, counted.units, counted.squares, error)),
            covariance=covariance, cubes=cubes, index=index, absent=ABSENT,
            values=Values(distinct=tuple(none for _ in names), codes=np.empty((0, len(names)), np.int32),
                          ordered=(True,) * len(names), columns=tuple((name,) for name in names)),
            backend="pandas" if stream.head.backend == "numpy" else stream.head.backend,
            remarks=(f"{stream.n:,} rows, read part by part", *unclipped),
        )  # fmt: skip


# Trees.


@dataclass(frozen=True, eq=False)
class TargetSums:
    """The mean of y, as numbers: subtracted so that the sums lose no digits."""

    model: Model
    loss: Loss

    def __call__(self, rows: PartRows) -> Floats:
        """Weighted sums of 1 and y."""
        sample = part_sample(rows, self.model, self.loss, None, 1.0)
        return np.array([sample.weight.sum(), sample.weight @ np.asarray(sample.y)])


@dataclass(frozen=True, eq=False)
class TreeShareWork:
    """What all parts of the later passes need; sent to the workers."""

    trees: TreeWork
    players: tuple[tuple[int, ...], ...]
    slope: float
    origin: float  # of y
    memory: int
    counts: Any = None  # PatternCounts of all donors
    mean: Floats | None = None  # (K,): of b

    @property
    def data(self) -> Data:
        """The parts."""
        return self.trees.data

    def read(self, rows: PartRows, mass: float) -> tuple[Any, Sample, Floats]:
        """The trees with the rows of a part, their sample, and b less that of the origin, (rows, K)."""
        trees = self.trees
        sample = part_sample(rows, trees.model, trees.loss, trees.classes, mass)
        codes, _ = trees.codes(rows.table)
        assert sample.y is not None
        assert trees.loss is not None
        y = sample.y - self.origin if trees.classes is None else sample.y
        outputs = trees.engine.bound.ensemble.outputs
        b = weights_of_sums(trees.loss, y, self.slope, outputs)
        return replace(trees.engine, bound=replace(trees.engine.bound, codes=codes)), sample, b


@dataclass(frozen=True, eq=False)
class Donors(PartSums):
    """Sums over the donors of a part."""

    counts: Any  # PatternCounts
    b: Floats  # (K,): of w b


def count_donors(work: TreeShareWork, rows: PartRows) -> Donors:
    """Patterns of the donors of a part."""
    from losslens.engines.trees.effects import count_patterns

    engine, sample, b = work.read(rows, 1.0)
    weights = np.vstack([sample.weight, (sample.weight[:, None] * b).T])
    return Donors(count_patterns(engine.bound, work.players, np.arange(sample.n), weights), weights[1:].sum(axis=1))


def share_rows(work: TreeShareWork, rows: PartRows) -> BothRoles:
    """Both roles of the rows of a part."""
    engine, sample, b = work.read(rows, work.trees.mass)
    both = np.concatenate([_both(work, engine, b, some) for some in _blocks(work, sample.n, b.shape[1])])
    sample = replace(sample, prediction=engine.predict(np.arange(sample.n)))
    assert work.trees.loss is not None
    return BothRoles.of(both, sample, work.trees.loss, work.trees.deletion)


def _both(work: TreeShareWork, engine: Any, b: Floats, rows: NDArray[np.intp]) -> Floats:
    from losslens.engines.trees.effects import effects_of

    assert work.mean is not None
    effects = effects_of(work.counts, engine.bound, work.players, rows) / work.trees.mass
    effects[1:] -= work.mean[:, None, None, None] * effects[0]
    return both_roles(b[rows] - work.mean, effects)


def _blocks(work: TreeShareWork, n: int, outputs: int) -> Iterator[NDArray[np.intp]]:
    """Rows whose effects take a part of the memory."""
    step = max(1, work.memory // (16 * 8 * (1 + outputs) * outputs * len(work.players)))
    yield from np.split(np.arange(n), range(step, n, step))


def run_trees(stream: Stream) -> ShapleyImportance:
    """Three passes over the data."""
    arguments, bins = counting(stream)
    if stream.response == "values":
        assert stream.loss is not None
        arguments = replace(arguments, sums=TargetSums(stream.model_info, stream.loss))
    counted = first_pass(arguments, stream.jobs, stream.workers, stream.progress)
    work = _tree_work(stream, counted, bound(stream, counted, bins))
    donors = sum_over_parts(stream, counted, partial(summed, count_donors), work, "counting donors")
    work = replace(work, counts=donors.counts, mean=donors.b / counted.total)
    sums: BothRoles = sum_over_parts(stream, counted, partial(summed, share_rows), work, "Shapley values")
    engine = work.trees.engine
    of_trees: Any = engine.games(())  # which have such a range
    low, high = of_trees.range_of_sums()
    return sums.result(stream, counted, engine.name, low, high, work.trees.like)


def _tree_work(stream: Stream, counted: Counted, trees: TreeWork) -> TreeShareWork:
    """What the later passes need, once values are counted; an error if the counts at the leaves exceed the memory."""
    from losslens.engines.trees.effects import count_bytes

    players = tuple(feature.columns for feature in stream.features)
    needed = COUNTS_IN_MEMORY * count_bytes(trees.engine.bound, players, 1 + stream.read.outputs, stream.n).sum()
    if needed > stream.memory:
        raise ValueError(
            f"counts at the leaves of these trees take {size_in_words(needed)}, more than memory= allows; raise it, or "
            "pass a sample of the rows in memory"
        )
    assert stream.loss is not None
    slope = stream.read.slope(stream.loss)
    origin = 0.0 if counted.sums is None else float(counted.sums[1] / counted.sums[0])
    return TreeShareWork(trees, players, slope, origin, stream.memory)


# Sums, also inside a link.


@dataclass(frozen=True, eq=False)
class LinkedRows:
    """A model on the rows of any part: what each player adds to each sum, b, and the predictions."""

    linked: LinkedLinear
    unwrapped: UnwrappedModel
    columns: tuple[int, ...]
    shift: Floats  # (p, K): typical additions, subtracted so that the sums lose no digits
    model: Model
    loss: Loss

    def added(self, table: Table) -> tuple[Floats, NDArray[Any]]:
        """What players add, less the typical, (rows, p, K), and predictions."""
        sums = self.linked.sums(self.unwrapped, table)
        some = list(self.columns)
        added = np.stack([one.parts[:, some] * one.scale[some] for one in sums], axis=2)
        prediction = self.linked.respond(np.column_stack([one.prediction for one in sums]))
        return added - self.shift, prediction

    def read(self, rows: PartRows, mass: float) -> tuple[Floats, Floats, Sample]:
        """What players add, less the typical, b of each sum, (rows, K), and the sample of a part."""
        m, prediction = self.added(rows.table)
        sample = part_sample(rows, self.model, self.loss, self.model.classes, mass)
        sample = replace(sample, prediction=prediction)
        if self.linked.link == "identity":  # less what columns add that no player has: these are part of the target
            return m, 2 * ((np.asarray(sample.y) - prediction)[:, None] + m.sum(axis=1)), sample
        slope = self.linked.slope(self.loss)
        assert slope is not None  # else the call was declined
        return m, weights_of_sums(self.loss, sample.target(self.loss), slope, len(self.linked.coef)), sample

    def __call__(self, rows: PartRows) -> Floats:
        """Of a part, (2 p + 2, K): weighted sums of m, b m, b and 1, m what players add."""
        m, b, sample = self.read(rows, 1.0)
        w, mass = sample.weight, np.full((1, m.shape[2]), sample.weight.sum())
        return np.concatenate([np.tensordot(w, m, 1), np.einsum("i,ic,ijc->jc", w, b, m), (w @ b)[None], mass])


@dataclass(frozen=True, eq=False)
class LinkedWork:
    """What all parts of the second pass need; sent to the workers."""

    data: Data
    rows: LinkedRows
    mass: float
    deletion: Deletion
    mean: Floats  # (p, K): of m
    covariance: Floats  # (p, K): of b and m
    mean_b: Floats  # (K,)


def share_linked(work: LinkedWork, rows: PartRows) -> BothRoles:
    """Both roles of the rows of a part."""
    loss, (m, b, sample) = work.rows.loss, work.rows.read(rows, work.mass)
    loss.check_prediction(sample.prediction)
    c = m - work.mean
    both = np.einsum("ic,ijc->ij", b - work.mean_b, c) + work.covariance.sum(axis=1)
    products = (c[:, :, 0] * sample.weight[:, None]).T @ c[:, :, 0]
    sums, ends = BothRoles.of(both, sample, loss, work.deletion), [np.stack([m.min(axis=0), m.max(axis=0)])]
    return replace(sums, ends=ends, products=products)


def run_linked(stream: Stream) -> ShapleyImportance:
    """Two passes over the data."""
    unwrapped, read = stream.unwrapped, stream.read
    assert unwrapped is not None
    assert stream.loss is not None
    columns, outputs = tuple(feature.columns[0] for feature in stream.features), len(read.coef)
    site = stream.site(stream.head)
    engine = read.engine(unwrapped, site)
    check_predictions(engine, stream.model.responder(stream.response), site)
    rows = LinkedRows(read, unwrapped, columns, np.zeros((len(columns), outputs)), stream.model_info, stream.loss)
    rows = replace(rows, shift=rows.added(stream.head)[0].mean(axis=0))
    first = FirstPass(stream.data, (), Quantiles({}), labels=False, sums=rows)
    counted = first_pass(first, stream.jobs, stream.workers, stream.progress)
    assert counted.sums is not None
    means, p = counted.sums / counted.sums[-1], len(columns)
    mean, with_b, mean_b = means[:p], means[p : 2 * p], means[-2]
    data = replace(stream.data, kinds=kinds_of_all(counted, stream.data.columns))
    work = LinkedWork(data, rows, counted.total, counted.deletion, mean, with_b - mean_b * mean, mean_b)
    sums: BothRoles = sum_over_parts(stream, counted, partial(summed, share_linked), work, "Shapley values")
    low, high = (combine([one[k] for one in sums.ends], axis=0) for k, combine in enumerate((np.min, np.max)))
    least, most = ((rows.shift + end).sum(axis=0) + read.intercept for end in (low, high))
    index = None
    if read.link == "identity":  # replacing j and l adds 2 d_j d_l to a pair's loss, d = c_i - c_k: 4 cov(c_j, c_l)
        index = -4 * sums.products
        np.fill_diagonal(index, 0.0)
    return sums.result(stream, counted, engine.name, least, most, engine.predict(np.arange(1)), index)


# The call.


def shares(model: Model, data: Opened, loss: Loss, settings: ShapleySettings, options: Options) -> ShapleyImportance:
    """`shapley_importance` of data read in parts."""
    return run(share_stream(model, data, loss, settings, options))


def share_stream(model: Model, data: Opened, loss: Loss, settings: ShapleySettings, options: Options) -> Stream:
    """A checked call of `shapley_importance`: importances that are covariances, over all pairs."""
    if settings.method == "rows":
        raise ValueError(f"method='rows': {ABSENT}")
    stream = prepare(model, data, loss, loss.reads, options, for_games=True)
    all_pairs = stream.design is None or stream.design.all_pairs
    plain = settings.method in ("auto", "totals", "exact") and all_pairs
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
        return RUNS[stream.read.donor_sums](stream)
    except Declined as declined:
        raise ValueError(f"no Shapley importances of rows read in parts: {declined}; pass a sample of them") from None


RUNS = {"moments": run_linked, "additions": run_linked, "patterns": run_trees}
