"""Shapley values of a scorer (AUC, R2): no shares of rows, because a score belongs to all rows together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from losslens.donors.designs import Latin
from losslens.game_theory import circle, values
from losslens.models import Model
from losslens.passes import scored
from losslens.passes.scorers import ScorerMethod
from losslens.passes.task import Options, Task
from losslens.progress import ProgressBar, bar
from losslens.results.shapley import ShapleyImportance
from losslens.shapley.coalitions import all_coalitions, cost_by_model, mean_along, over_rounds, without_and_with_all
from losslens.shapley.games import PairGame, Remembered, Value
from losslens.shapley.request import check_players, covers_table
from losslens.shapley.setup import GameSetup, set_up
from losslens.shapley.stopping import Paper, ShapleySettings
from losslens.shapley.way import Cost, result, stated
from losslens.typing import Floats, Indices, Mask

DEFAULT_DONORS = 10  # of a row
MIN_ROUNDS, MAX_ROUNDS = 6, 100  # of 2 p orders each
BY_MODEL = "a score needs rows that mix the columns of two rows, which the model predicts as fast as an exact engine"
ORDERS_ONLY = "the Monte-Carlo error is that of the orders; the draw of donors adds to it"
PRECISE = 0.01  # of the total: no more orders are drawn once the Monte-Carlo error is below it


def score_shapley(
    model: Model, X: Any, y: Any, scorer: Any, settings: ShapleySettings, options: Options
) -> ShapleyImportance:
    """Shapley values of a score: from all coalitions where they are few, otherwise along some orders."""
    request = check_scores(model, X, y, scorer, settings, options)
    method, task, cost, budget = request.method, request.task, request.cost, settings.budget
    with bar(int(min(cost.amount, cost.limit)), "Shapley values", task.progress) as progress:
        setup = set_up(task, None, progress)
        setup.counter.rows += method.probed
        repeats = task.design is not None and task.design.repeats
        game = ScoreGame(PairGame(setup, _donors(task)), method, repeats)
        if request.by_coalitions:
            importance = _by_coalitions(setup, game)
        else:
            importance = _by_orders(setup, game, np.random.default_rng([task.entropy, 4]), budget, progress)
    absent = f"the scorer {method.title} gives one number for all rows together; use a loss, such as 'log_loss'"
    declined = BY_MODEL if importance.exact else _why_sampled(request)
    return stated(importance, setup, declined=declined, title=method.title, engine=task.engine.name, absent=absent)


def _why_sampled(request: ScoreRequest) -> str:
    """Why not all coalitions of all pairs were predicted."""
    design = request.task.design
    if not request.by_coalitions:
        return "random orders of the features are drawn: all coalitions are too many, or were not requested"
    if design is None:
        return f"each row has {donors_a_row(request.task, request.task.n)} donors; donors='all' takes all of them"
    return scored.why_a_sample(design)


@dataclass(frozen=True, eq=False)
class ScoreRequest:
    """A checked call of `shapley_importance` with a scorer."""

    method: ScorerMethod
    task: Task
    cost: Cost  # of all coalitions
    by_coalitions: bool  # or else along some orders


def check_scores(
    model: Model, X: Any, y: Any, scorer: Any, settings: ShapleySettings, options: Options
) -> ScoreRequest:
    """Check all arguments."""
    wants_exact = settings.algorithm == "exact"
    _check(settings)
    method, task = scored.prepare_scored(model, X, y, scorer, options, exact=False)
    check_players(task)
    m, budget = donors_a_row(task, task.n), settings.budget
    cost = cost_by_model(task.subjects, task.n, m, covers_table(task), budget, wants_exact)
    if wants_exact and not cost.fits:
        raise ValueError(f"all coalitions would take {cost}, more than {cost.limit:,.0f}; use method='walk'")
    return ScoreRequest(method, task, cost, cost.fits and settings.method != "walk")


def _check(settings: ShapleySettings) -> None:
    if settings.averages_predictions:
        raise ValueError("Sage() needs a loss of each row; a scorer gives one number for all rows")
    if settings.precision is not None:
        raise ValueError("precision needs a loss of each row; with a scorer use budget=, or Latin(m) for more donors")
    if isinstance(settings.method, Paper):
        raise ValueError("the paper's algorithm needs a loss of each row; with a scorer use method='auto'")


def donors_a_row(task: Task, n: int) -> int:
    """Columns of donors: each column gives every row a donor, because a score needs all rows."""
    design = task.design
    if design is None:
        return min(DEFAULT_DONORS, n)
    if not design.has_columns:
        raise ValueError(
            f"a scorer needs a design with one donor of each row per column: 'all' or Latin(m); got {design!r}"
        )
    return n - int(design.leaves_out_own) if design.all_pairs else design.m or n


def _donors(task: Task) -> Indices:
    """The donors, (n, m)."""
    rng, n = np.random.default_rng([task.entropy, 5]), task.n
    if task.design is None:
        return Latin(donors_a_row(task, n)).draw(n, rng)
    if task.design.all_pairs and not task.design.leaves_out_own:
        return (np.arange(n)[:, None] + np.arange(n)) % n  # the n cyclic shifts
    return task.design.draw(n, rng)


@dataclass(frozen=True, eq=False)
class ScoreGame:
    """The negative score of a coalition, averaged over the columns of donors."""

    pairs: PairGame
    method: ScorerMethod
    repeats: bool  # pairs may be drawn twice
    columns: list[Floats] = field(
        default_factory=list
    )  # of each evaluated coalition, the negative scores of all columns

    def values(self, kept: Mask) -> Iterator[Value]:
        """Coalition by coalition."""
        for S in self.pairs.in_batches(kept):
            cells = np.concatenate([predictions for _, _, predictions in self.pairs.cells(S)])
            scores = np.array([self._score(cells[:, r], r) for r in range(cells.shape[1])])
            self.columns.append(-scores)
            yield Value(float(self.column_weights @ -scores))

    @cached_property
    def column_weights(self) -> Floats:
        """The weight of each column."""
        weight = self.method.weight
        mass = np.ones(self.donors.shape[1]) if weight is None else weight @ weight[self.donors]
        return np.asarray(mass / mass.sum())

    def std_error(self) -> Floats:
        """The Monte-Carlo error due to the draw of the columns, once all coalitions are evaluated, (p,)."""
        n, m = self.donors.shape
        if m < 2 or m >= n:
            return np.full(len(self.columns).bit_length() - 1, np.nan if m < 2 else 0.0)
        spread = values(np.array(self.columns)).std(axis=1, ddof=1)
        return np.asarray(spread * np.sqrt((1.0 if self.repeats else 1 - (m - 1) / (n - 1)) / m))

    @property
    def donors(self) -> Indices:
        """The donors of each row, (n, m)."""
        assert self.pairs.donors is not None
        return self.pairs.donors

    def _score(self, predictions: NDArray[Any], r: int) -> float:
        weight = self.method.weight
        pair = None if weight is None else weight * weight[self.donors[:, r]]
        return 0.0 if pair is not None and not pair.any() else self.method.of_rows(predictions, pair)


def _by_coalitions(setup: GameSetup, game: ScoreGame) -> ShapleyImportance:
    """The shares from all coalitions."""
    table, (n, m) = np.array([value.total for value in game.values(all_coalitions(setup.p))]), game.donors.shape
    return result(
        setup, values(table), "all coalitions", design=_design(n, m), exact=m == n, error_none=float(table[0]),
        error_all=float(table[-1]), table=table, monte_carlo_error=game.std_error(), freedom=float(m - 1),
    )  # fmt: skip


def _by_orders(
    setup: GameSetup, scores: ScoreGame, rng: np.random.Generator, budget: int | None, progress: ProgressBar
) -> ShapleyImportance:
    """The same from rounds of the 2 p orders of a random circle, until they are precise or the budget is spent."""
    game, (n, m), p, counter = Remembered(scores), scores.donors.shape, setup.p, setup.counter
    cost, rounds, complete, widest = p * (p - 1) * n * m, list[Floats](), True, np.inf
    if budget is not None and counter.rows + cost > budget:
        raise ValueError(
            f"budget={budget:,} is too small: a round of orders takes up to {cost:,} predictions, and "
            f"{counter.rows:,} are for the rows as they are; raise it, or draw fewer donors with Latin(m)"
        )
    try:
        while len(rounds) < MAX_ROUNDS and (budget is None or counter.rows + cost <= budget):
            progress.set_total(n + (1 + len(rounds)) * cost)
            rounds.append(mean_along(game, circle(p, rng)))
            if len(rounds) >= MIN_ROUNDS:
                widest = float(over_rounds(rounds)[1].max())
                progress.note(f"± {1.96 * widest:.3g}")
            nothing, everything = without_and_with_all(game, p)
            if widest <= PRECISE * abs(nothing - everything):
                break
    except KeyboardInterrupt:
        if len(rounds) < 2:
            raise
        complete = False
    nothing, everything = without_and_with_all(game, p)
    sfimp, error = over_rounds(rounds)
    return result(
        setup, sfimp, f"{2 * p * len(rounds):,} orders", design=_design(n, m), exact=False, error_none=nothing,
        error_all=everything, monte_carlo_error=error, freedom=float(len(rounds) - 1), remarks=(ORDERS_ONLY,),
        complete=complete,
    )  # fmt: skip


def _design(n: int, m: int) -> str:
    return "all shifts" if m == n else f"{m} donors a row"
