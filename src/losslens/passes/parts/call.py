"""Importances and effects of data larger than memory, by the engine that reads them in parts."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
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
from losslens.tables.loading import Opened
from losslens.tables.sample import Sample


def importances(model: Model, data: Opened, losses: Mapping[str, Loss], options: Options) -> dict[str, Importances]:
    """`feature_importance` by those losses that an exact engine computes in parts."""
    results: dict[str, Importances] = {}
    for name, loss in losses.items():
        with suppress(Declined):
            results[name] = summed(importance_stream(model, data, loss, options)).importances()
    return results


def some_rows(data: Opened, options: Options) -> tuple[Any, Any, Options, tuple[str, ...]]:
    """X, y and the options of a random sample that fits into memory, and what a result says about it."""
    rows = data.sample(options.memory, options.random_state)
    X, y, weight = data.load(rows)
    remarks = () if len(rows) == data.n else (f"a random sample of {len(rows):,} of {data.n:,} rows in files",)
    return X, y, replace(options, sample_weight=weight), remarks


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
