"""Shapley shares of an averaged metric (AUC, R2): the global numbers alone, because no single row has a score."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from losslens import inputs, routes, scoring
from losslens.allotments import Orders, all_coalitions, circles
from losslens.donors import Derangements, Latin
from losslens.games import Board, PairGame, Remembered, Value, set_up
from losslens.models import Model
from losslens.progress import Teller, bar
from losslens.sample import Floats, Indices
from losslens.shapley import Marks, values
from losslens.shapley_curves import values_of
from losslens.shapley_results import ShapleyImportance
from losslens.stopping import Absolute, Wanted
from losslens.tables import as_table
from losslens.tasks import Task, prepare

SHIFTS = 10  # donors a row, unless asked otherwise
FEWEST, MOST = 6, 100  # rounds of orders
PRECISE = 0.01  # of the whole: the Monte-Carlo error at which orders end, unless asked otherwise


def score_shapley(
    model: Model, X: Any, y: Any, scorer: Any, wanted: Wanted, asked: dict[str, Any]
) -> ShapleyImportance:
    """Shares of a score: all coalitions where they are few, otherwise orders."""
    method, precision, budget = wanted.method, wanted.precision, wanted.budget
    if wanted.aggregate == "prediction":
        raise ValueError("aggregate='prediction' needs a loss of each row; a scorer gives one number for all rows")
    if method == "paper":
        raise ValueError("the paper's algorithm needs a loss of each row; with a scorer use method='auto'")
    if y is None:
        raise ValueError("y, the true values, is missing")
    table = as_table(X)
    truth = inputs.vector(y, table.n, "y")
    weight = None if asked["sample_weight"] is None else inputs.row_weights(asked["sample_weight"], table.n) * table.n
    judge = scoring.judge(model, table, truth, weight, scorer)
    task = prepare(model, table, None, loss=None, response=judge.response, exact=False, **asked)
    routes.check_players(task)
    donors = _donors(task)
    cost = routes.by_predictions(task, donors.shape[1], budget, method == "exact")
    if method == "exact" and not cost.fits:
        raise ValueError(f"all coalitions would take {cost}, more than {cost.most:,.0f}; use method='walk'")
    with bar(int(min(cost.takes, cost.most)), "sharing out", task.progress) as tell:
        board = set_up(task, None, tell)
        board.counter.rows += task.n  # once to see what the scorer asks for
        game = Remembered(_ScoreGame(PairGame(board, donors), judge.score, weight))
        coalitions: Floats | None = None
        if cost.fits and method != "walk":
            coalitions = np.array([value.total for value in game.values(all_coalitions(board.p))])
            shares, how = Orders(values(coalitions)[None]), "all coalitions"
        else:
            rng = np.random.default_rng([task.entropy, 4])
            shares = _orders(board, game, rng, precision, budget, donors, tell)
            how = f"{2 * board.p * len(shares.rounds):,} orders"
        ends = [next(iter(game.values(np.full((1, board.p), full)))).total for full in (False, True)]
    return _result(task, board, judge.title, shares, how, coalitions, ends, donors.shape[1])


def _donors(task: Task) -> Indices:
    """Columns of donors, each of which gives every row one: a score needs all rows."""
    rng, n = np.random.default_rng([task.entropy, 5]), task.n
    if task.design is None:
        return Latin(min(SHIFTS, n)).draw(n, rng)
    if task.design.common and not isinstance(task.design, Derangements):  # all pairs: the n cyclic shifts
        if getattr(task.design, "m", None) is not None:
            raise ValueError(
                f"a scorer needs columns that give every row one donor: 'all' or Latin(m), not {task.design!r}"
            )
        return (np.arange(n)[:, None] + np.arange(n)) % n
    return task.design.draw(n, rng)


@dataclass(frozen=True, eq=False)
class _ScoreGame:
    """The score of a coalition with a minus sign, averaged over the columns of donors."""

    pairs: PairGame
    score: scoring.Score
    weight: Floats | None

    def values(self, kept: Marks) -> Iterator[Value]:
        donors = self.pairs.donors
        assert donors is not None
        for S in kept:
            cells = np.concatenate([predictions for _, _, predictions in self.pairs.cells(S)])
            found, mass = 0.0, 0.0
            for r in range(donors.shape[1]):
                pair = None if self.weight is None else self.weight * self.weight[donors[:, r]]
                share = 1.0 if pair is None else float(pair.sum())
                if share > 0:
                    found += share * self.score(cells[:, r], pair)
                    mass += share
            yield Value(-found / mass)


def _orders(
    board: Board, game: Remembered, rng: np.random.Generator, precision: Any, budget: int | None, donors: Indices,
    tell: Teller,
) -> Orders:  # fmt: skip
    """Circles of orders until they are precise, or the budget is spent."""
    nothing, everything = (next(iter(game.values(np.full((1, board.p), full)))).total for full in (False, True))
    total, rounds = nothing - everything, []
    wanted = precision.value if isinstance(precision, Absolute) else (precision or PRECISE) * abs(total)
    reach = 1.96 if precision is not None else 1.0
    dearest = board.p * (board.p - 1) * donors.size
    if budget is not None and board.counter.rows + dearest > budget:
        raise ValueError(
            f"budget={budget:,} is too small: a round of orders takes up to {dearest:,} predictions, and "
            f"{board.counter.rows:,} are for the rows as they are; draw fewer donors with Latin(m)"
        )
    for shares in circles(game, board.p, rng):
        rounds.append(shares)
        if len(rounds) >= MOST or (budget is not None and board.counter.rows + dearest > budget):
            break
        widest = float(Orders(np.array(rounds)).std_error.max()) if len(rounds) >= FEWEST else np.inf
        if np.isfinite(widest):
            tell.say(f"± {1.96 * widest:.3g}")
        if reach * widest <= wanted:
            break
    return Orders(np.array(rounds))


def _result(
    task: Task, board: Board, title: str, shares: Orders, how: str, table: Floats | None, ends: list[float], m: int
) -> ShapleyImportance:
    players = board.players
    absent = f"the scorer {title} gives one number for all rows together; use a loss, such as 'log_loss'"
    exact = table is not None and m == board.n
    return ShapleyImportance(
        features=tuple(player.feature.name for player in players),
        sfimp=shares.mean,
        error_all=ends[1],
        error_none=ends[0],
        title=title,
        loss=None,
        aggregate="loss",
        method=how,
        engine="blackbox",
        design="all shifts" if m == board.n else f"{m} donors a row",
        exact=exact,
        n_predictions=board.counter.rows,
        sample=board.sample,
        at=task.every,
        values=values_of(players, task.table.names),
        monte_carlo_error=shares.std_error if table is None else np.zeros(board.p),
        freedom=shares.freedom if table is None else np.inf,
        backend=task.table.backend,
        table=table,
        absent=absent,
        remarks=() if exact else ("the Monte-Carlo error is that of the orders; the draw of donors adds to it",),
    )
