"""The cost of `shapley_importance`, estimated before it runs."""

from __future__ import annotations

from math import ceil
from typing import Any

from losslens.engines import rates
from losslens.losses import is_scorer
from losslens.passes.cost import spread
from losslens.passes.task import Options
from losslens.results.plan import Plan
from losslens.shapley.request import check_request
from losslens.shapley.stopping import ShapleySettings
from losslens.shapley.ways import choose, engine_name


def plan_shares(
    model: Any, X: Any, y: Any, loss: Any, settings: ShapleySettings, options: Options, started: float
) -> Plan:
    """The cost of `shapley_importance` with these arguments."""
    if is_scorer(loss):
        raise ValueError(
            "plan estimates the cost of losses, not of scorers: there each coalition takes n predictions per donor; "
            "pass a loss"
        )
    request = check_request(model, X, y, loss, settings, options)
    task, (way, cost) = request.task, choose(request)
    least, most = way.predictions(request)
    rows = min(least, task.engine.rows_a_call(task.n))
    model = task.engine.timed(rows)
    time, threads = model.seconds(ceil(least / rows), least), 0
    if way.by_model:
        threads, time = spread(task, time, least)
    else:
        rate = rates.SECONDS if task.device is None else rates.SECONDS | rates.DEVICE_SECONDS
        time += cost.amount * rate.get(way.name, 0.0)
    return Plan(
        features=tuple(player.feature.name for player in request.players),
        engines=(engine_name(request, way),) * request.p,
        way=way.words,
        exact=way.exact and request.all_pairs,
        n_predictions=least,
        most=most,
        calls=ceil(least / task.engine.rows_a_call(task.n)),
        memory=int(way.kept_bytes(request) + rows * (task.table.row_bytes + 64)),
        seconds=time,
        backend=task.table.backend,
        workers=threads,
    )
