"""All ways to compute Shapley values, and the choice of one: an exact way within its limit, else walks.

The choice is the same on every machine: costs count cells, rows and leaves, and predictions, not seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from losslens.progress import bar
from losslens.results.shapley import ShapleyImportance
from losslens.shapley import by_engine, by_model, conditional, covariance
from losslens.shapley.by_engine import MOST_CELLS, QUICK_CELLS
from losslens.shapley.by_model import as_predicted
from losslens.shapley.coalitions import MOST_PLAYERS
from losslens.shapley.request import CELLS_SHARE, Request
from losslens.shapley.setup import set_up
from losslens.shapley.stopping import Paper
from losslens.shapley.way import Cost, Way, stated, without_own_groups, without_own_pairs
from losslens.text import size_in_words

COALITIONS = Way(
    name="coalitions", words="all coalitions, by the model", run=by_model.coalitions, cost=by_model.coalition_cost,
    predictions=by_model.coalition_predictions, exact=True, pairs=True, quick=5e5,
)  # fmt: skip
WALKS = Way(
    name="walks", words="walks", run=by_model.by_walks, cost=as_predicted(by_model.walk_predictions),
    predictions=by_model.walk_predictions, kept_bytes=by_model.walk_bytes,
)  # fmt: skip
PAPER = Way(
    name="paper", words="the paper's algorithm", run=by_model.paper_orders,
    cost=as_predicted(by_model.paper_predictions), predictions=by_model.paper_predictions, rows=False,
    kept_bytes=by_model.walk_bytes,
)  # fmt: skip
CONDITIONAL = Way(
    name="draws", words="coalitions; replaced features are drawn given the kept ones", run=conditional.draws,
    cost=as_predicted(conditional.predictions), predictions=conditional.predictions,
)  # fmt: skip
WALKS_FOR_ROWS = replace(
    WALKS, name="covariance and walks", run=covariance.walks_for_rows, cost=covariance.row_walk_cost,
    words="covariance of y and the predictions' Shapley values; values for single rows by walks",
)  # fmt: skip
by_the_engine = partial(Way, exact=True, by_model=False, predictions=by_engine.checked_rows)
COVARIANCE = by_the_engine(
    name="covariance", words="covariance of y and the predictions' Shapley values; none for single rows", unit="rows",
    run=covariance.totals, cost=covariance.cost, rows=False, quick=np.inf, kept_bytes=covariance.number_bytes,
)  # fmt: skip
MEAN_WALKS = replace(
    COVARIANCE, name="mean walks", words="walks; mean predictions over donors by the engine", run=by_engine.mean_walks,
    cost=by_engine.engine_cost("mean walks", "terms of leaves", by_engine.MOST_LEAVES), exact=False, rows=True,
    unit="predictions",
)  # fmt: skip
# In order of preference: exact shares of rows, exact totals, walks.
WAYS: tuple[Way, ...] = (
    by_the_engine(
        name="closed form", words="closed form", run=by_engine.closed_form, pairs=True, quick=np.inf,
        cost=by_engine.engine_cost("closed form", "predictions"),
    ),
    by_the_engine(
        name="tree pairs", words="all coalitions of all pairs, inside the trees", run=by_engine.tree_pairs,
        cost=by_engine.engine_cost("tree pairs", "cells of pairs and coalitions", MOST_CELLS, MOST_PLAYERS),
        unit="cells", pairs=True, quick=QUICK_CELLS,
    ),
    by_the_engine(
        name="leaf means", words="all coalitions, from the leaves", run=by_engine.leaf_means, unit="rows",
        cost=by_engine.engine_cost("leaf means", "terms of leaves and coalitions", MOST_CELLS, MOST_PLAYERS),
        quick=QUICK_CELLS,
    ),
    COALITIONS, COVARIANCE, WALKS_FOR_ROWS, MEAN_WALKS, WALKS,
)  # fmt: skip


def choose(request: Request) -> tuple[Way, Cost]:
    """The first of the possible ways that is within its limit, and its cost; ValueError if there is none.

    Where the covariance gives totals and standard errors in no time, a way before it must take no more than about a
    second (`Way.quick`), and with method="totals" there is none before it.
    """
    totals = request.settings.method == "totals"
    offers = [(way, cost) for way in _possible(request) if (cost := way.cost(request)) is not None]
    has_totals = any(way is COVARIANCE for way, _ in offers)
    for way, cost in offers:
        if has_totals and totals and way is not COVARIANCE:
            continue
        if cost.amount <= (min(cost.limit, way.quick) if has_totals else cost.limit):
            return way, cost
    raise ValueError(_refusal(request, offers))


def _possible(request: Request) -> Sequence[Way]:
    """The ways that the arguments allow, in order of preference."""
    settings, design = request.settings, request.task.design
    ways = WAYS
    if request.task.blocked:  # from the shares of all pairs those inside groups are left out
        keeps = request.all_pairs and request.keeps_pairs(request.n)
        usual = settings.algorithm in ("auto", "exact")
        ways = tuple(way for way in WAYS if usual and (way is COVARIANCE or (way.pairs and keeps)))
    elif design is not None and design.conditional:
        ways = (CONDITIONAL,)
    elif isinstance(settings.method, Paper):
        ways = (PAPER,)
    elif settings.algorithm == "walk" and request.p > 1:
        ways = (WALKS,)
    elif settings.algorithm == "exact":
        ways = tuple(way for way in WAYS if way.exact)
    return [way for way in ways if way.rows or settings.method != "rows"]


def _refusal(request: Request, offers: Sequence[tuple[Way, Cost]]) -> str:
    """Why there is no way."""
    if request.task.blocked:
        needs = size_in_words(8 * CELLS_SHARE * request.n**2 * request.p)
        return (
            "with groups= importances are computed as covariances, without single rows (of trees, linear models and "
            "logistic or log links of them, for the squared error, the Brier score, the log loss or the Poisson "
            "deviance, with every column in a feature), or from the shares of all pairs, which take "
            f"memory='{needs}' and are computed for few features; leave out groups=, or method= and donors="
        )
    by_model, budget = dict(offers)[COALITIONS], request.settings.budget
    limit = f"budget={budget:,}" if budget else f"{by_model.limit:,.0f}"
    others = [
        f"; {way.name} would take {cost} (at most {cost.limit:.0e})" for way, cost in offers if way is not COALITIONS
    ]
    return (
        f"the exact shares would take {by_model} over all coalitions, more than {limit}{''.join(others)}. Join columns "
        "to groups (features={'name': [columns]}), explain fewer rows, raise budget=, or use method='walk'"
    )


def engine_name(request: Request, way: Way) -> str:
    """The engine that computes, and the one that predicts mixed rows."""
    task = request.task
    names = [task.exact.name] if way is WALKS_FOR_ROWS or not way.by_model else []
    return ", ".join([*names, task.engine.name] if way.by_model else names)


def why_by_model(request: Request, way: Way) -> str:
    """Why mixed rows are predicted by the model; empty if an exact engine computes everything."""
    task, method = request.task, request.settings.method
    if not way.by_model or task.declined:
        return str(task.declined) if way.by_model else ""
    if request.settings.algorithm == "walk" or isinstance(method, Paper):
        return f"method={method!r} asks the model"
    what = "shares of single rows" if way is WALKS_FOR_ROWS else "these shares"
    return f"the engine {task.exact.name!r} has no closed form of {what}, or only one that is slower or gives less"


def _by_design(request: Request) -> bool:
    """Whether the model is asked because the caller wants this design."""
    design = request.task.design
    return design is not None and bool(request.task.declined == design.declined)


def result_of(request: Request) -> ShapleyImportance:
    """Choose a way, run it, and make the result."""
    return result_by(choose(request)[0], request)


def result_by(way: Way, request: Request) -> ShapleyImportance:
    """Run a way, and make the result."""
    task = request.task
    exact = None if way.by_model else task.exact
    with bar(request.n, "Shapley values", task.progress, way.unit) as progress:
        setup = set_up(task, exact, progress)
        importance = way.run(request, setup, progress)
    if task.blocked and way.pairs:
        importance = without_own_groups(importance, setup.sample)
    u_statistic = request.leaves_out_own and not task.blocked
    if request.all_pairs and u_statistic and way not in (WALKS, WALKS_FOR_ROWS):  # walks never draw these pairs
        importance = without_own_pairs(importance, setup.sample)
    remarks, declined = importance.remarks, why_by_model(request, way)
    if not importance.exact and declined and declined == task.declined and not _by_design(request):
        remarks = (*remarks, f"no exact engine: {declined}")
    return stated(
        importance, setup, declined=declined, engine=engine_name(request, way), leaves_out_own=request.leaves_out_own,
        aggregate="prediction" if request.averages_predictions else "loss", remarks=remarks,
    )  # fmt: skip
