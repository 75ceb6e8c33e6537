"""What a Shapley verb would do, before it does it."""

from __future__ import annotations

from math import ceil
from typing import Any

from losslens.donors.conditional import BoundSampler
from losslens.engines import rates
from losslens.engines.choice import CHECKED
from losslens.losses import is_scorer
from losslens.passes.cost import spread
from losslens.passes.options import Options
from losslens.results.plan import Plan
from losslens.shapley import ways
from losslens.shapley.conditional import coalitions, rounds_and_draws
from losslens.shapley.request import CELLS_SHARE, Request, request
from losslens.shapley.stopping import MOST_PREDICTIONS, Wanted

WORDS = {  # what the ways of `routes` are, to people
    "closed form": "closed form",
    "device pairs": "all coalitions of all pairs, on the device",
    "tree pairs": "all coalitions of all pairs, inside the trees",
    "single tree": "all coalitions, from the leaves",
    "tree totals": "all coalitions' totals, from the leaves; no single rows",
    "product totals": "all coalitions' totals, from the kernel's factors; no single rows",
    "tree orders": "orders of exact totals; no single rows",
    "coalitions": "all coalitions, by the model",
    "walks": "walks",
    "paper": "the paper's algorithm",
    "draws": "coalitions, what they lack drawn given what they keep",
}


def plan_shares(model: Any, X: Any, y: Any, loss: Any, wanted: Wanted, options: Options) -> Plan:
    """The cost of `shapley_importance` with these arguments."""
    if is_scorer(loss):
        raise ValueError("plan knows what losses take; of a scorer's shares each coalition is n predictions a donor")
    return _plan(request(model, X, y, loss, wanted, options))


def _plan(asked: Request) -> Plan:
    task, way = asked.task, asked.way
    n, p, wanted = task.n, len(task.subjects), asked.wanted
    by_model = way in ("coalitions", "walks", "paper", "draws")
    least, most = (min(n, CHECKED),) * 2 if not by_model else _predictions(asked)
    rows, seconds = task.engine.timed_batch()
    time = seconds * least / rows
    if not by_model:
        costs = ways.exact_ways(task, asked.loss, wanted.aggregate, None, asked_for=True)
        known = rates.SECONDS if task.device is None else rates.SECONDS | rates.DEVICE_SECONDS
        time += sum(cost.takes * known.get(way, 0.0) for cost in costs if cost.way == way)
    threads, time = spread(task, time, least) if by_model else (0, time)
    kept = (
        40 * n * p * asked.fewest_sweeps
        if way in ("walks", "paper")
        else min(8 * n * n * p, task.budget.memory // CELLS_SHARE)
    )
    return Plan(
        features=tuple(subject.feature.name for subject in task.subjects),
        engines=(task.engine.name if by_model else asked.engine,) * p,
        way=WORDS[way],
        exact=way not in ("walks", "paper", "tree orders", "draws") and ways.everybody_lends(task.design),
        n_predictions=least,
        most=most,
        calls=ceil(least / task.engine.rows_a_call(n)),
        memory=int(kept + rows * (task.table.row_bytes + 64)),
        seconds=time,
        backend=task.table.backend,
        workers=threads,
    )


def _predictions(asked: Request) -> tuple[int, int]:
    """The fewest and the most predictions that the model is asked for."""
    task, wanted = asked.task, asked.wanted
    n, p, way = task.n, len(task.subjects), asked.way
    whole = ways.is_whole(task)
    if way == "coalitions":
        count = int(ways.predictions(task.subjects, n, asked.width, whole))
        return count, count
    if way == "draws":
        assert isinstance(task.design, BoundSampler)  # the way says so
        rounds, m = rounds_and_draws(p, n, task.design, asked.most_drawn)
        return (n + rounds * coalitions(p) * n * m,) * 2
    if way == "paper":
        distinct = min(wanted.orders * (p - 1), 2**p - 2)
        return n + n * (p - 1) * wanted.permutations, n + distinct * n * wanted.permutations
    sweep = asked.sweep_cost
    if wanted.budget is not None and wanted.precision is None:
        count = n + (wanted.budget - n) // max(1, sweep) * sweep
        return count, count
    if not ways.everybody_lends(task.design):
        return (n + asked.fewest_sweeps * sweep,) * 2
    return n + asked.fewest_sweeps * sweep, max(wanted.budget or MOST_PREDICTIONS, n + asked.fewest_sweeps * sweep)
