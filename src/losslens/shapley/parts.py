"""Shapley importances of data read in parts, as covariances (`covariance_parts`): the checked call and the result."""

from __future__ import annotations

import numpy as np

from losslens.engines.base import Declined
from losslens.engines.choice import CHECKED
from losslens.losses import Loss
from losslens.models import Model
from losslens.passes.parts.counting import Counted
from losslens.passes.parts.stream import Stream, prepare
from losslens.passes.task import Options
from losslens.results.shapley import ShapleyImportance
from losslens.results.shapley_curve import Values
from losslens.shapley.covariance_parts import SharesOfParts, run_linked, run_trees
from losslens.shapley.stopping import ShapleySettings
from losslens.tables.loading import Opened
from losslens.tables.sample import Sample, Totals

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


def _result(stream: Stream, counted: Counted, found: SharesOfParts) -> ShapleyImportance:
    names, none, no_rows = tuple(feature.name for feature in stream.features), np.empty(0), np.empty(0, np.intp)
    assert stream.loss is not None
    totals = Totals(stream.n, no_rows, counted.units, counted.squares, found.error)
    return ShapleyImportance(
        features=names, sfimp=found.sfimp, error_all=found.error, error_none=found.error + float(found.sfimp.sum()),
        title=stream.loss.title, loss=stream.loss, aggregate="loss", method="covariance", engine=found.engine,
        design="all pairs", exact=True, n_predictions=min(CHECKED, stream.head.n),
        sample=Sample(none, none, totals=totals), at=no_rows, monte_carlo_error=np.zeros(len(names)),
        covariance=found.covariance, cubes=found.cubes,
        values=Values(distinct=tuple(none for _ in names), codes=np.empty((0, len(names)), np.int32),
                      ordered=(True,) * len(names), columns=tuple((name,) for name in names)),
        backend="pandas" if stream.head.backend == "numpy" else stream.head.backend, index=found.index, absent=ABSENT,
        remarks=(f"{stream.n:,} rows, read part by part", *found.remarks),
    )  # fmt: skip


RUNS = {"moments": run_linked, "additions": run_linked, "patterns": run_trees}
