"""Where verbs hand over data larger than memory: which engine reads them part by part."""

from __future__ import annotations

from typing import Any

import numpy as np

from losslens import inputs, opening
from losslens.curves import Effects
from losslens.donors import Latin
from losslens.engines.ensembles import Declined, Ensemble
from losslens.engines.linear import Linear
from losslens.importances import Importances
from losslens.losses import Loss, Response
from losslens.models import Model
from losslens.opening import Opened
from losslens.sample import Sample
from losslens.shapley_results import ShapleyImportance
from losslens.stopping import Wanted
from losslens.streams import explaining
from losslens.streams.explaining import Stream
from losslens.streams.results import Everything
from losslens.tasks import class_of


def opened(known: Model, X: Any, y: Any, asked: dict[str, Any]) -> Opened | None:
    """The data, where they have to be read part by part; None where they are in memory, or will be."""
    found = opening.opened(known, X, y, asked["sample_weight"])
    return found if opening.streams(found, inputs.memory_bytes(asked["memory"])) else None


def importances(known: Model, data: Opened, loss: Loss, asked: dict[str, Any]) -> Importances:
    """`feature_importance` of data that are read part by part."""
    return _everything(importance_stream(known, data, loss, asked)).importances()


def importance_stream(known: Model, data: Opened, loss: Loss, asked: dict[str, Any]) -> Stream:
    """A checked call of `feature_importance`."""
    return explaining.prepare(known, data, loss, loss.reads, asked)


def effects(known: Model, data: Opened, response: Response, target: Any, asked: dict[str, Any]) -> Effects:
    """`feature_effect` of data that are read part by part."""
    stream = effect_stream(known, data, response, target, asked)
    return _everything(stream).effects(*_class_of(known, target, response))


def effect_stream(known: Model, data: Opened, response: Response, target: Any, asked: dict[str, Any]) -> Stream:
    """A checked call of `feature_effect`: a model whose curves are known."""
    _class_of(known, target, response)
    stream = explaining.prepare(known, data, None, response, asked)
    if stream.read is None:
        raise ValueError(
            "curves of data that are read part by part are known for tree ensembles and linear models"
            + (f" ({stream.declined})" if stream.declined else "")
            + "; pass a sample of the rows"
        )
    return stream


def _class_of(known: Model, target: Any, response: Response) -> tuple[int | None, str | None]:
    return class_of(Sample(np.ones(1), np.empty(0), classes=known.classes), target, response)


def shares(known: Model, data: Opened, loss: Loss, wanted: Wanted, asked: dict[str, Any]) -> ShapleyImportance:
    """`shapley_importance` of data that are read part by part: the closed form of linear models."""
    from losslens.streams import shares as of_sums

    return of_sums.run(share_stream(known, data, loss, wanted, asked))


def share_stream(known: Model, data: Opened, loss: Loss, wanted: Wanted, asked: dict[str, Any]) -> Stream:
    """A checked call of `shapley_importance`: a linear model over all pairs."""
    stream = explaining.prepare(known, data, loss, loss.reads, asked)
    plain = wanted.method in ("auto", "exact") and wanted.aggregate == "loss" and not isinstance(stream.design, Latin)
    if not isinstance(stream.read, Linear) or not plain:
        raise ValueError(
            f"Shapley importances of {data.n:,} rows that are read part by part are known for linear models with "
            "squared error, over all pairs; for any other model or method pass a sample of the rows"
        )
    return stream


def _everything(stream: Stream) -> Everything:
    from dataclasses import replace

    try:
        if isinstance(stream.read, Ensemble):
            from losslens.streams import tree_results

            return tree_results.run(stream)
        if isinstance(stream.read, Linear):
            from losslens.streams import sums

            return sums.run(stream)
    except Declined as declined:
        stream = replace(stream, read=None, declined=str(declined))
    from losslens.streams import box_results

    return box_results.run(stream)
