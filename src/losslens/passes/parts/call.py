"""Importances and effects of data larger than memory: the engine that reads them in parts, and its results."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from losslens.engines.base import Declined
from losslens.losses import Loss, Response
from losslens.models import Model
from losslens.passes.parts.results import Summed
from losslens.passes.parts.stream import Stream, prepare
from losslens.passes.task import Options, class_of
from losslens.results.effects import Effects
from losslens.results.importances import Importances
from losslens.tables import loading
from losslens.tables.loading import Opened
from losslens.tables.sample import Sample
from losslens.tables.sources import Source


def opened(model: Model, source: Source, y: Any, options: Options) -> Opened | None:
    """The data, where they have to be read in parts; None where they fit into memory."""
    data = loading.opened(model, source, y, options.sample_weight)
    return data if loading.streams(data, options.memory) else None


def importances(model: Model, data: Opened, loss: Loss, options: Options) -> Importances:
    """`feature_importance` of data that are read in parts."""
    return summed(importance_stream(model, data, loss, options)).importances()


def importance_stream(model: Model, data: Opened, loss: Loss, options: Options) -> Stream:
    """A checked call of `feature_importance`."""
    return prepare(model, data, loss, loss.reads, options)


def effects(model: Model, data: Opened, response: Response, target: Any, options: Options) -> Effects:
    """`feature_effect` of data that are read in parts."""
    stream = effect_stream(model, data, response, target, options)
    return summed(stream).effects(*_class_of(model, target, response))


def effect_stream(model: Model, data: Opened, response: Response, target: Any, options: Options) -> Stream:
    """A checked call of `feature_effect`, for models whose exact engine reads data in parts."""
    _class_of(model, target, response)
    stream = prepare(model, data, None, response, options)
    if stream.read is None:
        raise ValueError(
            f"curves of data that are read in parts need trees or a linear model ({stream.declined}); "
            "pass a sample of the rows"
        )
    return stream


def _class_of(model: Model, target: Any, response: Response) -> tuple[int | None, str | None]:
    return class_of(Sample(np.ones(1), np.empty(0), classes=model.classes), target, response)


def summed(stream: Stream) -> Summed:
    """Sums over all parts by the exact engine of the model, or by the black box if that declines."""
    if stream.read is not None:
        try:
            return RUNS[stream.read.kind](stream)
        except Declined as declined:
            stream = replace(stream, read=None, declined=str(declined))
    from losslens.passes.parts import blackbox

    return blackbox.run(stream)


def _trees(stream: Stream) -> Summed:
    from losslens.passes.parts import trees  # compiled when it is first needed

    return trees.run(stream)


def _additive(stream: Stream) -> Summed:
    from losslens.passes.parts import additive

    return additive.run(stream)


RUNS = {"trees": _trees, "additive": _additive}
