"""Shapley shares of an averaged metric (AUC, R2): the global numbers alone, because no single row has a score."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from losslens.donors.designs import Latin
from losslens.game_theory import values
from losslens.models import Model
from losslens.passes import scored
from losslens.passes.options import Options
from losslens.passes.task import Task, prepare
from losslens.progress import Teller, bar
from losslens.results.shapley import ShapleyImportance
from losslens.results.shapley_curve import values_of
from losslens.shapley import ways
from losslens.shapley.allotment import Orders, all_coalitions, circles
from losslens.shapley.games import Board, PairGame, Remembered, Value, set_up
from losslens.shapley.stopping import Wanted
from losslens.tables import checks
from losslens.tables.frames import as_table
from losslens.typing import Floats, Indices, Mask

SHIFTS = 10  # donors a row, unless asked otherwise
FEWEST, MOST = 6, 100  # rounds of orders
ORDERS_ALONE = "the Monte-Carlo error is that of the orders; the draw of donors adds to it"
PRECISE = 0.01  # of the whole: the Monte-Carlo error at which orders end, unless asked otherwise


def score_shapley(model: Model, X: Any, y: Any, scorer: Any, wanted: Wanted, options: Options) -> ShapleyImportance:
    """Shares of a score: all coalitions where they are few, otherwise orders."""
    method, budget = wanted.method, wanted.budget
    if wanted.aggregate == "prediction":
        raise ValueError("aggregate='prediction' needs a loss of each row; a scorer gives one number for all rows")
    if wanted.precision is not None:
        raise ValueError("precision needs a loss of each row; with a scorer use budget=, or Latin(m) for more donors")
    if method == "paper":
        raise ValueError("the paper's algorithm needs a loss of each row; with a scorer use method='auto'")
    if y is None:
        raise ValueError("y, the true values, is missing")
    table = as_table(X)
    truth = checks.vector(y, table.n, "y")
    weight = options.sample_weight
    weight = None if weight is None else checks.row_weights(weight, table.n) * table.n
    judge = scored.judge(model, table, truth, weight, scorer)
    task = prepare(model, table, None, options, loss=None, response=judge.response, exact=False)
    ways.check_players(task)
    donors = _donors(task)
    cost = ways.by_predictions(task, donors.shape[1], budget, method == "exact")
    if method == "exact" and not cost.fits:
        raise ValueError(f"all coalitions would take {cost}, more than {cost.most:,.0f}; use method='walk'")
    with bar(int(min(cost.takes, cost.most)), "sharing out", task.progress) as tell:
        board = set_up(task, None, tell)
        board.counter.rows += task.n  # once to see what the scorer asks for
        scores = _ScoreGame(
            PairGame(board, donors), judge.score, weight, task.design is not None and task.design.repeats
        )
        game = Remembered(scores)
        coalitions: Floats | None = None
        if cost.fits and method != "walk":
            coalitions = np.array([value.total for value in scores.values(all_coalitions(board.p))])
            shares, how, drawn = values(coalitions), "all coalitions", scores.std_error()
            ends, freedom = (float(coalitions[0]), float(coalitions[-1])), float(donors.shape[1] - 1)
        else:
            rng = np.random.default_rng([task.entropy, 4])
            orders = _orders(board, game, rng, budget, donors, tell)
            shares, drawn, freedom = orders.mean, orders.std_error, orders.freedom
            how = f"{2 * board.p * len(orders.rounds):,} orders"
            ends = _ends(board, game)
    return _result(task, board, judge.title, _Shared(shares, drawn, freedom, how, coalitions, ends), donors.shape[1])


class _Shared(NamedTuple):
    """What the features earn of a score."""

    shares: Floats
    drawn: Floats
    freedom: float
    how: str
    table: Floats | None
    ends: tuple[float, float]  # nothing kept, everything kept


def _ends(board: Board, game: Remembered) -> tuple[float, float]:
    nothing, everything = (next(iter(game.values(np.full((1, board.p), full)))).total for full in (False, True))
    return nothing, everything


def _donors(task: Task) -> Indices:
    """Columns of donors, each of which gives every row one: a score needs all rows."""
    rng, n = np.random.default_rng([task.entropy, 5]), task.n
    if task.design is None:
        return Latin(min(SHIFTS, n)).draw(n, rng)
    if task.design.sampled_grid:
        raise ValueError(
            f"a scorer needs columns that give every row one donor: 'all' or Latin(m), not {task.design!r}"
        )
    if task.design.all_pairs and not task.design.leaves_out_own:
        return (np.arange(n)[:, None] + np.arange(n)) % n  # the n cyclic shifts
    return task.design.draw(n, rng)


@dataclass(frozen=True, eq=False)
class _ScoreGame:
    """The score of a coalition with a minus sign, averaged over the columns of donors."""

    pairs: PairGame
    score: scored.Score
    weight: Floats | None
    repeats: bool  # pairs may be met twice
    columns: list[Floats] = field(default_factory=list)  # of each coalition asked for, the scores of all columns

    def values(self, kept: Mask) -> Iterator[Value]:
        for S in self.pairs.in_turn(kept):
            cells = np.concatenate([predictions for _, _, predictions in self.pairs.cells(S)])
            scores = np.array([self._score(cells[:, r], r) for r in range(cells.shape[1])])
            self.columns.append(-scores)
            yield Value(float(self.shares @ -scores))

    @cached_property
    def shares(self) -> Floats:
        """How much each column counts."""
        mass = np.ones(self._donors.shape[1]) if self.weight is None else self.weight @ self.weight[self._donors]
        return np.asarray(mass / mass.sum())

    def std_error(self) -> Floats:
        """Due to the draw of the columns, once every coalition was asked for: their shares differ, (p,)."""
        n, m = self._donors.shape
        if m < 2 or m >= n:
            return np.full(len(self.columns).bit_length() - 1, np.nan if m < 2 else 0.0)
        spread = values(np.array(self.columns)).std(axis=1, ddof=1)
        return np.asarray(spread * np.sqrt((1.0 if self.repeats else 1 - (m - 1) / (n - 1)) / m))

    @property
    def _donors(self) -> Indices:
        assert self.pairs.donors is not None
        return self.pairs.donors

    def _score(self, predictions: NDArray[Any], r: int) -> float:
        pair = None if self.weight is None else self.weight * self.weight[self._donors[:, r]]
        return 0.0 if pair is not None and not pair.any() else self.score(predictions, pair)


def _orders(
    board: Board, game: Remembered, rng: np.random.Generator, budget: int | None, donors: Indices, tell: Teller
) -> Orders:
    """Circles of orders until they are precise, or the budget is spent."""
    dearest = board.p * (board.p - 1) * donors.size
    if budget is not None and board.counter.rows + dearest > budget:
        raise ValueError(
            f"budget={budget:,} is too small: a round of orders takes up to {dearest:,} predictions, and "
            f"{board.counter.rows:,} are for the rows as they are; raise it, or draw fewer donors with Latin(m)"
        )
    nothing, everything = _ends(board, game)
    rounds: list[Floats] = []
    for shares in circles(game, board.p, rng):
        rounds.append(shares)
        if len(rounds) >= MOST or (budget is not None and board.counter.rows + dearest > budget):
            break
        widest = float(Orders(np.array(rounds)).std_error.max()) if len(rounds) >= FEWEST else np.inf
        if np.isfinite(widest):
            tell.say(f"± {1.96 * widest:.3g}")
        if widest <= PRECISE * abs(nothing - everything):
            break
    return Orders(np.array(rounds))


def _result(task: Task, board: Board, title: str, found: _Shared, m: int) -> ShapleyImportance:
    players = board.players
    absent = f"the scorer {title} gives one number for all rows together; use a loss, such as 'log_loss'"
    exact = found.table is not None and m == board.n
    return ShapleyImportance(
        features=tuple(player.feature.name for player in players),
        sfimp=found.shares,
        error_all=found.ends[1],
        error_none=found.ends[0],
        title=title,
        loss=None,
        aggregate="loss",
        method=found.how,
        engine="blackbox",
        design="all shifts" if m == board.n else f"{m} donors a row",
        exact=exact,
        n_predictions=board.counter.rows,
        sample=board.sample,
        at=task.every,
        values=values_of(players, task.table.names),
        monte_carlo_error=found.drawn,
        freedom=found.freedom,
        backend=task.table.backend,
        table=found.table,
        absent=absent,
        remarks=() if found.table is not None else (ORDERS_ALONE,),
    )
