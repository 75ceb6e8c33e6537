"""Shapley importances by the mean over outputs: linear in losses, so that exact engines take one output at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from losslens.losses import OutputsLoss
from losslens.models import as_model, one_output
from losslens.passes.outputs import several_samples
from losslens.passes.task import Options
from losslens.results.shapley import ShapleyImportance
from losslens.shapley import ways
from losslens.shapley.request import Request, check_request


def result_of(model: Any, X: Any, request: Request, options: Options) -> ShapleyImportance:
    """The result by any loss; by the mean over outputs from each of them, if engines compute all."""
    loss, y, known = request.loss, request.task.sample.y, as_model(model)
    if not isinstance(loss, OutputsLoss) or not loss.each or y is None:
        return ways.result_of(request)
    chosen = []
    for k, one in enumerate(loss.each):
        output = one_output(known, k, len(loss.each))
        part = check_request(output, X, loss.target(y, k), one, request.settings, options)
        if part.task.exact is None:
            return ways.result_of(replace(request, task=replace(request.task, declined=part.task.declined)))
        way = ways.choose(part)[0]
        if way.by_model:
            why = ways.why_asked(part, way)
            return ways.result_of(replace(request, task=replace(request.task, declined=why)))
        chosen.append((way, part))
    found = [ways.result_by(way, part) for way, part in chosen]
    return _mean(found, loss) or ways.result_of(request)


def _mean(found: Sequence[ShapleyImportance], loss: OutputsLoss) -> ShapleyImportance | None:
    """The weighted mean of shares; None where outputs were computed in different ways."""
    first = found[0]
    if len({(one.shares is None, one.both is None) for one in found}) > 1:
        return None

    def mean(of: Sequence[Any]) -> Any:
        if any(part is None for part in of):
            return None
        return np.asarray(sum(weight * part for weight, part in zip(loss.weights, of, strict=True)))

    shares = None
    if first.shares is not None:
        parts = [one.shares for one in found if one.shares is not None]
        shares = replace(
            first.shares,
            **{name: mean([getattr(part, name) for part in parts]) for name in ("local", "caused", "cells")},
        )
    arrays = ("sfimp", "both", "gains", "table", "index")
    return replace(
        first,
        **{name: mean([getattr(one, name) for one in found]) for name in arrays},
        error_all=float(mean([one.error_all for one in found])),
        error_none=float(mean([one.error_none for one in found])),
        title=loss.title,
        loss=loss,
        shares=shares,
        sample=several_samples([one.sample for one in found], loss)[0],
        n_predictions=sum(one.n_predictions for one in found),
        remarks=(*dict.fromkeys(remark for one in found for remark in one.remarks), "one output after another"),
    )
