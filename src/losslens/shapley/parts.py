"""Shapley importances of data read in parts, as covariances (`covariance_parts`): the checked call."""

from __future__ import annotations

from losslens.engines.base import Declined
from losslens.losses import Loss
from losslens.models import Model
from losslens.passes.parts.stream import Stream, prepare
from losslens.passes.task import Options
from losslens.results.shapley import ShapleyImportance
from losslens.shapley.covariance_parts import run_linked, run_trees
from losslens.shapley.stopping import ShapleySettings
from losslens.tables.loading import Opened


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
        return RUNS[stream.read.donor_sums](stream)
    except Declined as declined:
        raise ValueError(f"no Shapley importances of rows read in parts: {declined}; pass a sample of them") from None


RUNS = {"moments": run_linked, "additions": run_linked, "patterns": run_trees}
