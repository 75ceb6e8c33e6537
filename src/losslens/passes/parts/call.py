"""Importances and effects of data larger than memory: by the engine that reads them in parts, else of a sample."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from losslens.engines.base import Declined
from losslens.losses import Loss, Response
from losslens.models import Model
from losslens.passes.importances import by_losses
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


def importances(model: Model, data: Opened, losses: Mapping[str, Loss], options: Options) -> dict[str, Importances]:
    """`feature_importance` by each loss: of all rows, read in parts, or of a random sample that fits into memory."""
    results: dict[str, Importances] = {}
    sampled: dict[str, Loss] = {}
    for name, loss in losses.items():
        try:
            results[name] = summed(importance_stream(model, data, loss, options)).importances()
        except Declined:
            sampled[name] = loss
    if sampled:
        rows = data.sample(options.memory, options.random_state)
        X, y, weight = data.load(rows)
        some = by_losses(model, X, y, sampled, replace(options, sample_weight=weight))
        told = () if len(rows) == data.n else (f"a random sample of {len(rows):,} of {data.n:,} rows in files",)
        results |= {name: replace(one, remarks=told) for name, one in some.items()}
    return results


def importance_stream(model: Model, data: Opened, loss: Loss, options: Options) -> Stream:
    """A checked call of `feature_importance`."""
    return prepare(model, data, loss, loss.reads, options)


def effects(model: Model, data: Opened, response: Response, target: Any, options: Options) -> Effects:
    """`feature_effect` of data that are read in parts, by an exact engine."""
    stream = effect_stream(model, data, response, target, options)
    return curves(stream).effects(*_class_of(model, target, response))


def effect_stream(model: Model, data: Opened, response: Response, target: Any, options: Options) -> Stream:
    """A checked call of `feature_effect`."""
    _class_of(model, target, response)
    return prepare(model, data, None, response, options)


def _class_of(model: Model, target: Any, response: Response) -> tuple[int | None, str | None]:
    return class_of(Sample(np.ones(1), np.empty(0), classes=model.classes), target, response)


def summed(stream: Stream) -> Summed:
    """Sums over all parts by the exact engine of the model; `Declined` without one."""
    if stream.read is None:
        raise Declined(stream.declined)
    return RUNS[stream.read.kind](stream)


def curves(stream: Stream) -> Summed:
    """The same for effects, which are not sampled."""
    try:
        return summed(stream)
    except Declined as why:
        raise ValueError(
            f"curves of data that are read in parts need trees or a linear model ({why}); pass a sample of the rows"
        ) from None


def _trees(stream: Stream) -> Summed:
    from losslens.passes.parts import trees  # compiled when it is first needed

    return trees.run(stream)


def _additive(stream: Stream) -> Summed:
    from losslens.passes.parts import additive

    return additive.run(stream)


RUNS = {"trees": _trees, "additive": _additive}
