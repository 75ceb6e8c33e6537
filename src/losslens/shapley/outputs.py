"""Shapley importances by the mean over outputs: linear in losses, so that exact engines take one output at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from losslens.losses import OutputsLoss
from losslens.models import Model, one_output
from losslens.passes.outputs import several_samples
from losslens.passes.task import Options
from losslens.results.shapley import ShapleyImportance
from losslens.shapley import ways
from losslens.shapley.request import Request, check_request
from losslens.shapley.way import Way


def result_of(model: Model, X: Any, request: Request, options: Options) -> ShapleyImportance:
    """The result by the mean loss of several outputs: that of each, if engines compute all; else by the model."""
    loss, y, each = request.loss, request.task.sample.y, list[tuple[Way, Request]]()
    assert isinstance(loss, OutputsLoss)
    assert y is not None
    for k, one in enumerate(loss.each):
        output = one_output(model, k, len(loss.each))
        of_output = check_request(output, X, loss.target(y, k), one, request.settings, options)
        way = None if of_output.task.exact is None else ways.choose(of_output)[0]
        if way is None or way.by_model:
            declined = of_output.task.declined if way is None else ways.why_by_model(of_output, way)
            return ways.result_of(replace(request, task=replace(request.task, declined=declined)))
        each.append((way, of_output))
    mean = _mean([ways.result_by(*one) for one in each], loss) if each else None
    return mean or ways.result_of(request)


def _mean(results: Sequence[ShapleyImportance], loss: OutputsLoss) -> ShapleyImportance | None:
    """The weighted mean of shares; None where outputs were computed in different ways."""
    first = results[0]
    if len({(one.shares is None, one.both is None) for one in results}) > 1:
        return None

    def mean(arrays: Sequence[Any]) -> Any:
        if any(part is None for part in arrays):
            return None
        return np.asarray(sum(weight * part for weight, part in zip(loss.weights, arrays, strict=True)))

    shares = None
    if first.shares is not None:
        parts = [one.shares for one in results if one.shares is not None]
        shares = replace(
            first.shares,
            **{name: mean([getattr(part, name) for part in parts]) for name in ("local", "caused", "cells")},
        )
    arrays = ("sfimp", "both", "gains", "table", "index")
    return replace(
        first,
        **{name: mean([getattr(one, name) for one in results]) for name in arrays},
        error_all=float(mean([one.error_all for one in results])),
        error_none=float(mean([one.error_none for one in results])),
        title=loss.title,
        loss=loss,
        shares=shares,
        sample=several_samples([one.sample for one in results], loss)[0],
        n_predictions=sum(one.n_predictions for one in results),
        remarks=(*dict.fromkeys(remark for one in results for remark in one.remarks), "one output after another"),
    )
