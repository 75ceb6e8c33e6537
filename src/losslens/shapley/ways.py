"""Ways to share the error out, and which one is taken: exact wherever that is cheap, by stated counts, else walks.

The same data give the same way on every machine: costs count cells, words and predictions, never seconds.
"""

from __future__ import annotations

from dataclasses import replace

from losslens.progress import PREPARING, bar, waiting
from losslens.results.shapley import ShapleyImportance
from losslens.shapley import conditional
from losslens.shapley.allotment import Cost, Way, as_result, without_own_pairs
from losslens.shapley.by_engine import ClosedForm, PairsOnDevice, SingleTree, TreeMeans, TreePairs
from losslens.shapley.by_model import WALKS, Coalitions, Paper
from losslens.shapley.request import Request
from losslens.shapley.setup import set_up
from losslens.shapley.totals import ProductTotals, TreeOrders, TreeTotals

COALITIONS, PAPER = Coalitions(), Paper()
# The first that is cheap enough is taken: those that tell most of single rows and pairs come first.
WAYS: tuple[Way, ...] = (
    ClosedForm(), PairsOnDevice(), TreePairs(), TreeMeans(), SingleTree(), TreeTotals(), COALITIONS, ProductTotals(),
    TreeOrders(), WALKS,
)  # fmt: skip


def choose(request: Request) -> tuple[Way, Cost]:
    """The way to take, and what it costs; a ValueError where the answer has to be exact and no way is affordable."""
    named = _named(request)
    ways = WAYS if named is None else (named,)
    if named is None and request.wanted.method == "exact":
        ways = tuple(way for way in WAYS if way.exact)
    offers = [(way, cost) for way in ways if (cost := way.cost(request)) is not None]
    for way, cost in offers:
        if cost.fits:
            return way, cost
    raise ValueError(_refusal(request, offers))


def _named(request: Request) -> Way | None:
    """The way that the arguments leave no choice about."""
    if request.task.design is not None and request.task.design.conditional:
        few = request.p <= conditional.MOST_PLAYERS
        return conditional.ConditionalCoalitions() if few else conditional.ConditionalOrders()
    if request.wanted.method == "paper":
        return PAPER
    return WALKS if request.wanted.method == "walk" and request.p > 1 else None


def _refusal(request: Request, offers: list[tuple[Way, Cost]]) -> str:
    by_model, budget = dict(offers)[COALITIONS], request.wanted.budget
    limit = f"budget={budget:,}" if budget else f"{by_model.most:,.0f}"
    others = [f"; {way.name} would take {cost} (at most {cost.most:.0e})" for way, cost in offers if way != COALITIONS]
    return (
        f"the exact shares would take {by_model} over all coalitions, more than {limit}{''.join(others)}. Join columns "
        "to groups (features={'name': [columns]}), explain fewer rows, raise budget=, or use method='walk'"
    )


def engine_name(request: Request, way: Way) -> str:
    """The engine that answers, and where it counts."""
    task = request.task
    if way.by_model:
        return task.engine.name
    name: str = task.exact.name
    return f"{name} on {task.device}" if way.uses_device and task.device is not None else name


def result_of(request: Request) -> ShapleyImportance:
    """Choose a way, take it, and say which it was."""
    task, (way, _) = request.task, choose(request)
    exact = None if way.by_model else task.exact
    if exact is not None:
        with waiting(PREPARING, task.progress):
            request.task.games.import_kernels(way.name)
    with bar(request.n, "sharing out", task.progress, way.unit) as progress:
        setup = set_up(task, exact, progress)
        found = way.run(request, setup, progress)
    if request.all_pairs and request.leaves_out_own and way is not WALKS:  # walks draw no such pairs
        found = without_own_pairs(found, setup.sample)
    engine, remarks = engine_name(request, way), list(found.remarks)
    if task.declined and way.by_model:
        remarks.append(f"no exact engine: {task.declined}")
    if task.device is not None and task.device not in engine:
        remarks.append(f"device={task.device!r} was not used: there coalitions of trees are counted")
    return as_result(
        replace(found, remarks=tuple(remarks)), task, setup, title=request.loss.title, loss=request.loss,
        aggregate=request.wanted.aggregate, engine=engine, error_all=setup.sample.error,
        leaves_out_own=request.leaves_out_own,
    )  # fmt: skip
