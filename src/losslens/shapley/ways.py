"""All ways to compute Shapley values, and the choice of one: an exact way within its limit, else walks.

Where SFIMP is a covariance, totals and standard errors are exact in no time: another way is then taken only if the
shares of single rows are wanted, or come in about a second (`rows=`).

The choice is the same on every machine: costs count cells, word operations and predictions, not seconds.
"""

from __future__ import annotations

from dataclasses import replace

from losslens.progress import bar
from losslens.results.shapley import ShapleyImportance
from losslens.shapley import conditional
from losslens.shapley.allotment import Cost, Way, as_result, without_own_groups, without_own_pairs
from losslens.shapley.by_engine import ClosedForm, LeafMeans, SingleTree, SumMeans, TreeMeans, TreePairs
from losslens.shapley.by_model import WALKS, Coalitions, Paper, Walks
from losslens.shapley.covariance import TreeBoxes, WalksForRows, covariance
from losslens.shapley.request import CELLS_SHARE, Request
from losslens.shapley.setup import set_up
from losslens.shapley.totals import ProductTotals, TreeTotals
from losslens.text import size_in_words

COALITIONS, PAPER = Coalitions(), Paper()
# The first within its limit is used; those with shares of single rows and pairs come first.
WAYS: tuple[Way, ...] = (
    ClosedForm(), SumMeans(), TreePairs(), LeafMeans(), TreeMeans(), SingleTree(), TreeBoxes(),
    TreeTotals(), COALITIONS, ProductTotals(), WalksForRows(), WALKS,
)  # fmt: skip


def choose(request: Request, times: float = 1.0) -> tuple[Way, Cost]:
    """The way to use, and its cost; ValueError if method='exact' and no exact way is within its limit.

    times: how many times the rows of the request there are.
    """
    named, rows = _named(request), request.settings.rows
    if request.task.blocked:
        return _in_groups(request, times)
    ways = WAYS if named is None else (named,)
    if named is None and request.settings.method == "exact":
        ways = tuple(way for way in WAYS if way.exact)
    if rows is True:
        ways = tuple(way for way in ways if way.rows)
    offers = [(way, cost) for way in ways if (cost := way.cost(request)) is not None]
    of_all = [(way, replace(cost, amount=times * cost.amount)) for way, cost in offers]
    if named is None and rows is not True and (at_once := covariance(request, times)) is not None:
        quick = (way for way, cost in of_all if rows and way.exact and cost.fits and cost.amount <= way.quick)
        way = next(quick, None)
        return at_once if way is None else (way, dict(offers)[way])
    for way, cost in of_all:
        if cost.fits:
            return way, dict(offers)[way]
    raise ValueError(_refusal(request, offers))


def _in_groups(request: Request, times: float) -> tuple[Way, Cost]:
    """The covariance, or a way that keeps all pairs: those inside groups are left out of their means."""
    rows, at_once = request.settings.rows, covariance(request, times)
    kept = request.all_pairs and request.keeps_pairs(int(times**2 * request.n))
    costs = [(way, way.cost(request)) for way in WAYS if way.pairs and kept]
    offers = [(way, cost) for way, cost in costs if cost is not None and times * cost.amount <= cost.limit]
    if request.settings.method in ("auto", "exact"):
        if rows is not True and at_once is not None:
            quick = [(way, cost) for way, cost in offers if rows and times * cost.amount <= way.quick]
            return quick[0] if quick else at_once
        if offers:
            return offers[0]
    needs = size_in_words(8 * CELLS_SHARE * request.n**2 * request.p)
    raise ValueError(
        "with groups= importances are computed as covariances, without single rows (of trees, linear models, kernel "
        "machines and logistic or log links of them, for the squared error, the Brier score, the log loss or the "
        "Poisson deviance, with every column in a feature), or from the shares of all pairs, which take "
        f"memory='{needs}' and are computed for few features; leave out groups=, or method=, donors=, aggregate= and "
        "rows="
    )


def _named(request: Request) -> Way | None:
    """The way that the arguments determine, if they do."""
    if request.task.design is not None and request.task.design.conditional:
        few = request.p <= conditional.MOST_PLAYERS
        return conditional.ConditionalCoalitions() if few else conditional.ConditionalOrders()
    if request.settings.method == "paper":
        return PAPER
    return WALKS if request.settings.method == "walk" and request.p > 1 else None


def _refusal(request: Request, offers: list[tuple[Way, Cost]]) -> str:
    by_model, budget = dict(offers)[COALITIONS], request.settings.budget
    limit = f"budget={budget:,}" if budget else f"{by_model.limit:,.0f}"
    others = [f"; {way.name} would take {cost} (at most {cost.limit:.0e})" for way, cost in offers if way != COALITIONS]
    return (
        f"the exact shares would take {by_model} over all coalitions, more than {limit}{''.join(others)}. Join columns "
        "to groups (features={'name': [columns]}), explain fewer rows, raise budget=, or use method='walk'"
    )


def engine_name(request: Request, way: Way) -> str:
    """The engine that predicts, or computes."""
    task = request.task
    if way.by_model:
        return f"{task.exact.name}, {task.engine.name}" if isinstance(way, WalksForRows) else str(task.engine.name)
    return str(task.exact.name)


def why_asked(request: Request, way: Way) -> str:
    """Why mixed rows are predicted by the model; empty if an exact engine computes everything."""
    task, method = request.task, request.settings.method
    if not way.by_model or task.declined:
        return str(task.declined) if way.by_model else ""
    if method in ("walk", "paper"):
        return f"method={method!r} asks the model"
    what = "shares of single rows" if isinstance(way, WalksForRows) else "these shares"
    return f"the engine {task.exact.name!r} has no closed form of {what}, or one that gives less or takes longer"


def _wanted(request: Request) -> bool:
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
        allotment = way.run(request, setup, progress)
    if task.blocked and way.pairs:
        allotment = without_own_groups(allotment, setup.sample)
    apart = request.leaves_out_own and not task.blocked
    if request.all_pairs and apart and not isinstance(way, Walks):  # walks never draw these pairs
        allotment = without_own_pairs(allotment, setup.sample)
    engine, remarks = engine_name(request, way), list(allotment.remarks)
    declined = why_asked(request, way)
    if not allotment.exact and declined and declined == task.declined and not _wanted(request):
        remarks.append(f"no exact engine: {declined}")
    return as_result(
        replace(allotment, remarks=tuple(remarks)), task, setup, title=request.loss.title, loss=request.loss,
        aggregate=request.settings.aggregate, engine=engine, error_all=setup.sample.error,
        leaves_out_own=request.leaves_out_own, declined=declined,
    )  # fmt: skip
