"""The verb that shares a model's performance out among its features."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from math import ceil
from typing import Any, Literal

import numpy as np

from losslens import drawn_games, engine_shares, mean_walks, pair_walks, routes, score_shares, streaming, walks
from losslens.allotments import Allotment, Orders, closed_form, everybody, from_all, left_apart, mean_along, met
from losslens.auto import EXACT_PREDICTIONS
from losslens.donors import All, Derangements, Design, Permutations
from losslens.engines.blackbox import BlackBox
from losslens.games import Board, MeanGame, PairGame, Remembered, ends, set_up
from losslens.lending import Bound
from losslens.losses import Loss, is_scorer
from losslens.mean_walks import MeanWalk
from losslens.meetings import PerRow
from losslens.models import as_model
from losslens.pair_walks import PairWalk
from losslens.progress import PREPARING, Teller, bar, waiting
from losslens.routes import Cost, Way
from losslens.sample import Indices
from losslens.shapley import random_orders
from losslens.shapley_curves import values_of
from losslens.shapley_results import ShapleyImportance
from losslens.stopping import Absolute, Method, Rule, Wanted
from losslens.tasks import Task, default_loss, prepare
from losslens.walking import Walking
from losslens.workers import anywhere

PRODUCTS = (
    "totals of coalitions need no pairs; raise budget=, so that the model is asked for them, or use method='walk'"
)
BACKGROUND = 512  # donors whose predictions are averaged before the loss, where all rows are more
CELLS_SHARE = 4  # of the memory: what a result keeps of single pairs


@anywhere
def shapley_importance(
    model: Any,
    X: Any,
    y: Any,
    *,
    loss: str | Loss | Callable[..., Any] | None = None,
    features: Any = None,
    method: Method = "auto",
    donors: str | Design = "auto",
    aggregate: Literal["loss", "prediction"] = "loss",
    precision: float | Absolute | None = None,
    budget: int | None = None,
    m_feat: int | None = None,
    m_obs: int | None = None,
    sample_weight: Any = None,
    random_state: Any = None,
    n_jobs: int | None = None,
    memory: str | int = "1 GiB",
    progress: bool | None = None,
    device: str | None = None,
    executor: Any = None,
) -> ShapleyImportance:
    """Shapley feature importance (SFIMP): how much of the model's performance each feature earns, fairly shared.

    ``sum over features of SFIMP_j = GE_0 - GE_P``, the error with all features replaced less the error with none.

    Parameters
    ----------
    model, X, y, loss, sample_weight, random_state, n_jobs, memory, progress, executor
        As in `feature_importance`. A scikit-learn scorer gives the global shares alone.
    features
        The players: columns, or ``{"name": [columns]}`` for columns that play together; no column in two of them.
        Columns that are not named keep their own values.
    method
        ``"auto"``: exact where that is cheap (the closed form of additive models; all coalitions of trees, of kernel
        machines, or of any model where that takes at most a million predictions a feature, or `budget`), otherwise
        walks. ``"exact"``: all coalitions, or an error that says what they would take. ``"walk"``: random walks
        from donors to rows. ``"paper"``: the paper's own algorithm.
    donors
        ``"auto"`` or ``"all"``: every pair of rows; ``Derangements()``: pairs of different rows; ``Latin(m)``,
        ``Permutations(m)``, ``Derangements(m)``: a sample of donors, for walks m sweeps. Averaged predictions: all rows
        (walks with ``"auto"``: 512 of them, where there are more), or ``Grid(m)``. A sampler (`Within`, `Residual`, a
        function): what a coalition lacks is drawn given what it keeps.
    aggregate
        ``"loss"``: losses are averaged over donors. ``"prediction"``: predictions are, before the loss: SAGE values.
    precision
        Walk until all features are this close to their values with 95% confidence, jointly: a share of the whole such
        as 0.02, or ``Absolute(value)``.
    budget
        The most predictions. Without `budget` and `precision` walks end when their Monte-Carlo variance is under a
        tenth of the sampling variance.
    m_feat, m_obs
        Orders of features and permutations of rows of the paper's algorithm.
    device
        ``"cuda"``: coalitions of tree ensembles are counted on a GPU (needs torch), so that far more of them are
        affordable. Torch modules compute where they live, whatever is said here.

    Examples
    --------
    >>> import numpy as np, losslens as ll
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> shap = ll.shapley_importance(lambda X: X[:, 0] * X[:, 1], X, X[:, 0] * X[:, 1], loss="squared_error")
    >>> bool(abs(shap.sfimp.sum() - (shap.error_none - shap.error_all)) < 1e-9), shap.sfimp[2].item()
    (True, 0.0)
    """
    asked = {"features": features, "donors": donors, "sample_weight": sample_weight}
    asked |= {"random_state": random_state, "n_jobs": n_jobs, "memory": memory, "progress": progress, "device": device}
    wanted = Wanted(method, aggregate, precision, budget, m_feat, m_obs)
    if is_scorer(loss):
        return score_shares.score_shapley(as_model(model), X, y, loss, wanted, asked | {"groups": None})
    known = as_model(model)
    streamed = streaming.opened(known, X, y, asked)
    if streamed is not None:
        return streaming.shares(known, streamed, default_loss(known, loss), wanted, asked)
    return request(model, X, y, loss, wanted, asked).result()


def request(model: Any, X: Any, y: Any, loss: Any, wanted: Wanted, asked: dict[str, Any]) -> Request:
    """A call with a loss, checked."""
    known = as_model(model)
    chosen = default_loss(known, loss)
    if wanted.aggregate == "prediction" and chosen.reads == "labels":
        raise ValueError(f"{chosen.name} reads labels, which have no mean; aggregate='prediction' needs numbers")
    task = prepare(known, X, y, loss=chosen, response=chosen.reads, groups=None, **asked)
    routes.check_players(task)
    routes.check_design(task, wanted)
    return Request(task, chosen, wanted)


@dataclass(frozen=True, eq=False)
class Request:
    """A checked call."""

    task: Task
    loss: Loss
    wanted: Wanted

    def result(self) -> ShapleyImportance:
        """Choose a way, go it, and say which it was."""
        task, way = self.task, self.way
        exact = task.exact if way not in ("coalitions", "walks", "paper", "draws") else None
        with waiting(PREPARING, task.progress):
            engine_shares.prepare(way)
        with bar(self._expected(way), "sharing out", task.progress, _unit(way)) as tell:
            board = set_up(task, exact, tell)
            found = self._go(way, board, tell)
        if task.design == Derangements() and way != "walks":
            found = left_apart(found, board.sample, board.sample.error)
        return self._result(found, board, "blackbox" if exact is None else self.engine)

    @property
    def way(self) -> Way | Literal["paper", "draws"]:
        """The first that fits; a refusal where none does and the answer has to be exact."""
        task, method = self.task, self.wanted.method
        if isinstance(task.design, Bound):
            return "draws"
        if method == "paper":
            return "paper"
        if method == "walk" and len(task.subjects) > 1:
            return "walks"
        if not routes.everybody_lends(task.design):
            ways = [routes.by_predictions(task, self._donors_a_row, self.wanted.budget, method == "exact")]
        else:
            ways = routes.exact_ways(task, self.loss, self.wanted.aggregate, self.wanted.budget, method == "exact")
        for cost in ways:
            if cost.fits:
                return cost.way
        if method == "exact":
            raise ValueError(_refusal(ways, self.wanted.budget))
        if self._has_totals and routes.most_circles(task) >= engine_shares.FEWEST_CIRCLES:
            return "tree orders"
        return "walks"

    @property
    def engine(self) -> str:
        """The exact engine, and where it counts."""
        name: str = self.task.exact.name
        there = self.task.device is not None and self.way in ("device pairs", "tree totals", "tree orders")
        return f"{name} on {self.task.device}" if there else name

    @property
    def _has_totals(self) -> bool:
        if self.wanted.aggregate == "prediction" or not routes.everybody_lends(self.task.design):
            return False
        return routes.has_totals(self.task, self.loss)

    @property
    def _donors_a_row(self) -> int:
        design = self.task.design
        assert design is not None
        return int(getattr(design, "m", None) or self.task.n)

    def _expected(self, way: Way | Literal["paper", "draws"]) -> int:
        p, n = len(self.task.subjects), self.task.n
        if way == "coalitions":
            return int(routes.predictions(self.task.subjects, n, self.width, routes.is_whole(self.task)))
        if way == "draws":
            return self.most_drawn
        if way == "paper":
            return n + n * self.wanted.permutations * min((1 << p) - 2, self.wanted.orders * (p - 1))
        if way in ("tree totals", "product totals", "single tree", "device pairs"):
            return 1 << (p - int(way == "tree totals" and routes.is_whole(self.task)))
        if way == "tree pairs":
            from losslens.engines.trees.pair_games import cost

            columns = [subject.feature.columns for subject in self.task.subjects]
            return int(cost(self.task.exact.bound, columns, n)) if self.wanted.aggregate == "loss" else n * n
        return n

    @property
    def most_drawn(self) -> int:
        """Predictions of values that are drawn given a coalition."""
        return self.wanted.budget or EXACT_PREDICTIONS * len(self.task.subjects)

    @property
    def width(self) -> int:
        """Donors that a row meets."""
        return self.task.n if routes.everybody_lends(self.task.design) else self._donors_a_row

    @property
    def sweep_cost(self) -> int:
        """The most predictions that a sweep of walks takes."""
        steps = len(self.task.subjects) - int(routes.is_whole(self.task))
        return self.task.n * steps * (1 if self.wanted.aggregate == "loss" else min(self.width, BACKGROUND))

    @property
    def fewest_sweeps(self) -> int:
        """Sweeps of walks before anything is decided."""
        if not routes.everybody_lends(self.task.design):
            return self.width
        kind = pair_walks if self.wanted.aggregate == "loss" else mean_walks
        return int(max(kind.FEWEST_SWEEPS, ceil(kind.FEWEST_WALKS / self.task.n)))

    # -- ways -----------------------------------------------------------------------------------------------------

    def _go(self, way: Way | Literal["paper", "draws"], board: Board, tell: Teller) -> Allotment:
        engine, rng = self.task.exact, np.random.default_rng([self.task.entropy, 4])
        if way == "closed form":
            return closed_form(board, engine, self._keeps(board.n))
        if way == "device pairs":
            return engine_shares.of_device_pairs(board, engine, tell)
        if way == "tree pairs" and self.wanted.aggregate == "prediction":
            return engine_shares.of_means(board, engine, np.arange(board.n), tell)
        if way == "tree pairs":
            return engine_shares.of_pairs(board, engine, self._keeps(board.n), self.task.n_jobs, tell)
        if way == "single tree":
            return engine_shares.of_single_tree(board, engine, tell)
        if way in ("tree totals", "tree orders", "product totals"):
            return self._totals(way, board, rng, tell)
        if way == "paper":
            return self._paper(board, rng)
        if way == "draws":
            return self._draws(board)
        return self._coalitions(board, rng) if way == "coalitions" else self._walks(board, rng, tell)

    def _totals(self, way: Way, board: Board, rng: np.random.Generator, tell: Teller) -> Allotment:
        engine, known = self.task.exact, ends(board)
        gains = None if known is None else known.by_row
        absent = engine_shares.what_rows_take(board.n, board.p)
        if way == "product totals":
            found = engine_shares.of_totals(board, engine_shares.product_totals(board, engine, tell), gains, PRODUCTS)
            return replace(
                found, remarks=(*found.remarks, "the sampling error is not known: nothing is of single rows")
            )
        game = engine_shares.tree_totals(board, engine, tell)
        if way == "tree totals":
            found = engine_shares.of_totals(board, game, gains, absent)
        else:
            most = routes.most_circles(self.task)
            rule = Rule(None, self.wanted.precision)
            found = engine_shares.of_orders(board, game, gains, absent, most, rule, rng, tell)
        return engine_shares.with_sampling_error(found, board, engine, rng, self.task.n_jobs)

    def _coalitions(self, board: Board, rng: np.random.Generator) -> Allotment:
        drawn: Indices | None = None
        if not routes.everybody_lends(self.task.design):
            drawn = self._drawn(board, rng)
        width = board.n if drawn is None else drawn.shape[1]
        keeps = self._keeps(width)
        meeting = everybody(board.n) if drawn is None else self._met(drawn)
        pairs = PairGame(board, drawn, keeps, apart=drawn is not None and meeting.leaves_out_own)
        game = pairs if self.wanted.aggregate == "loss" else MeanGame(pairs)
        return from_all(
            board, game, meeting, keeps=keeps, design="all pairs" if drawn is None else repr(self.task.design)
        )

    def _walks(self, board: Board, rng: np.random.Generator, tell: Teller) -> Allotment:
        design, sweeps = self.task.design, None
        room = self.task.budget.memory // 2
        if self.wanted.aggregate == "prediction":
            rule = Rule(self.wanted.budget, self.wanted.precision)
            walk: Any = MeanWalk(board, self._background(board, rng), rng)
            return Walking(board, walk, rule, room, tell).run()
        apart = design is not None and design.leaves_out_own
        lenders: Iterator[Indices] = walks.circles(board.n, rng, apart=apart)
        words = "sweeps of Latin walks"
        if not routes.everybody_lends(design):
            drawn = self._drawn(board, rng)
            lenders, sweeps, words = iter(drawn.T), drawn.shape[1], f"sweeps of walks, {design!r}"
            if self.wanted.budget is not None:
                raise ValueError(f"donors={design!r} says how many sweeps to walk; leave out budget=")
        rule = Rule(self.wanted.budget, self.wanted.precision, sweeps)
        return Walking(board, PairWalk(board, lenders, rng, words, apart), rule, room, tell).run()

    def _draws(self, board: Board) -> Allotment:
        """Coalitions whose other players are drawn given them."""
        engine, design = self.task.engine, self.task.design
        assert isinstance(engine, BlackBox)  # the one that answers everything
        assert isinstance(design, Bound)  # the way says so
        return drawn_games.share_out(board, engine, design, self.task.entropy, self.most_drawn)

    def _paper(self, board: Board, rng: np.random.Generator) -> Allotment:
        """Orders of features, and a fresh set of permutations for the error of each coalition they meet."""
        game = Remembered(_FreshPairs(board, self.wanted.permutations, rng))
        rounds = [mean_along(game, order[None]) for order in random_orders(self.wanted.orders, board.p, rng)]
        orders = Orders(np.array(rounds))
        nothing = next(iter(game.values(np.zeros((1, board.p), bool)))).total
        return Allotment(
            sfimp=orders.mean, method="the paper's algorithm", exact=False, error_none=nothing,
            monte_carlo_error=orders.std_error, freedom=orders.freedom,
            design=f"{self.wanted.orders} orders and {self.wanted.permutations} permutations",
            absent="the paper's algorithm averages over rows; use method='walk'",
            remarks=("the Monte-Carlo error is that of the orders: the permutations of a coalition add to it",),
        )  # fmt: skip

    # -- what the ways need ---------------------------------------------------------------------------------------

    def _keeps(self, width: int) -> bool:
        """Whether single pairs fit into what a result may keep."""
        needs = 8 * self.task.n * width * len(self.task.subjects)
        return self.wanted.aggregate == "loss" and needs <= self.task.budget.memory // CELLS_SHARE

    def _met(self, drawn: Indices) -> PerRow:
        design = self.task.design
        assert design is not None
        return met(drawn, repeats=design.repeats, apart=design.leaves_out_own)

    def _drawn(self, board: Board, rng: np.random.Generator) -> Indices:
        """The donors of each row, (n, m)."""
        assert self.task.design is not None
        if self.wanted.aggregate == "loss":
            return self.task.design.draw(board.n, rng)
        some = self._background(board, rng)
        return np.broadcast_to(some, (board.n, len(some)))

    def _background(self, board: Board, rng: np.random.Generator) -> Indices:
        """Donors that all rows share, among those that count."""
        rows, design = np.flatnonzero(board.sample.weight > 0), self.task.design
        m = len(rows) if isinstance(design, All) else getattr(design, "m", None) or BACKGROUND
        return rows if m >= len(rows) else np.sort(rng.choice(rows, m, replace=False))

    def _result(self, found: Allotment, board: Board, engine: str) -> ShapleyImportance:
        players, task = board.players, self.task
        declined = (f"no exact engine: {task.declined}",) if task.declined and engine == "blackbox" else ()
        idle = task.device is not None and task.device not in engine
        unused = (f"device={task.device!r} was not used: there coalitions of trees are counted",) if idle else ()
        return ShapleyImportance(
            features=tuple(player.feature.name for player in players),
            sfimp=found.sfimp,
            error_all=board.sample.error,
            error_none=found.error_none,
            title=self.loss.title,
            loss=self.loss,
            aggregate=self.wanted.aggregate,
            method=found.method,
            engine=engine,
            design=found.design,
            exact=found.exact,
            n_predictions=board.counter.rows,
            sample=board.sample,
            at=task.every,
            values=values_of(players, task.table.names),
            monte_carlo_error=found.monte_carlo_error,
            freedom=found.freedom,
            leaves_out_own=task.design is not None and task.design.leaves_out_own,
            index=found.index,
            backend=task.table.backend,
            shares=found.shares,
            gains=found.gains,
            table=found.table,
            sampling=found.sampling,
            absent=found.absent,
            remarks=(*found.remarks, *declined, *unused),
            complete=found.complete,
        )


@dataclass(frozen=True, eq=False)
class _FreshPairs:
    """Coalitions with permutations of their own."""

    board: Board
    m: int
    rng: np.random.Generator

    def values(self, kept: Any) -> Iterator[Any]:
        for S in kept:
            yield from PairGame(self.board, Permutations(self.m).draw(self.board.n, self.rng)).values(S[None])


def _refusal(ways: list[Cost], budget: int | None) -> str:
    by_model = ways[-1]
    limit = f"budget={budget:,}" if budget else f"{by_model.most:,.0f}"
    others = "".join(f"; {cost.way} would take {cost} (at most {cost.most:.0e})" for cost in ways[:-1])
    return (
        f"the exact shares would take {by_model} over all coalitions, more than {limit}{others}. Join columns to "
        "groups (features={'name': [columns]}), explain fewer rows, raise budget=, or use method='walk'"
    )


def _unit(way: Any) -> str:
    if way in ("tree totals", "product totals", "single tree", "tree orders", "device pairs"):
        return "coalitions"
    return "cells" if way == "tree pairs" else "predictions"
