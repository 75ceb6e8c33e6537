"""A checked call of `shapley_importance`: which way is taken, and its result."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import ceil
from typing import Any, Literal

import numpy as np

from losslens.donors.conditional import BoundSampler
from losslens.donors.designs import Permutations
from losslens.donors.layout import OwnDonors
from losslens.engines.blackbox import BlackBox
from losslens.game_theory import random_orders
from losslens.losses import Loss
from losslens.models import as_model
from losslens.passes.auto import EXACT_PREDICTIONS
from losslens.passes.options import Options
from losslens.passes.task import Task, default_loss, prepare
from losslens.progress import PREPARING, Teller, bar, waiting
from losslens.results.shapley import ShapleyImportance
from losslens.results.shapley_curve import values_of
from losslens.shapley import by_engine, conditional, walk_kinds, walks
from losslens.shapley.allotment import Allotment, Orders, closed_form, everybody, from_all, left_apart, mean_along, met
from losslens.shapley.games import Board, MeanGame, PairGame, Remembered, ends, set_up
from losslens.shapley.stopping import StoppingRule, Wanted
from losslens.shapley.walk_kinds import MeanWalk, PairWalk
from losslens.shapley.walks import Walking
from losslens.shapley.ways import (
    Cost,
    Way,
    by_predictions,
    check_design,
    check_players,
    everybody_lends,
    exact_ways,
    has_totals,
    is_whole,
    most_circles,
    predictions,
)
from losslens.typing import Indices

PRODUCTS = (
    "totals of coalitions need no pairs; raise budget=, so that the model is asked for them, or use method='walk'"
)
BACKGROUND = 512  # donors whose predictions are averaged before the loss, where all rows are more
CELLS_SHARE = 4  # of the memory: what a result keeps of single pairs


def request(model: Any, X: Any, y: Any, loss: Any, wanted: Wanted, options: Options) -> Request:
    """A call with a loss, checked."""
    known = as_model(model)
    chosen = default_loss(known, loss)
    if wanted.aggregate == "prediction" and chosen.reads == "labels":
        raise ValueError(f"{chosen.name} reads labels, which have no mean; aggregate='prediction' needs numbers")
    task = prepare(known, X, y, options, loss=chosen, response=chosen.reads)
    check_players(task)
    check_design(task, wanted)
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
            by_engine.prepare(way)
        with bar(self._expected(way), "sharing out", task.progress, _unit(way)) as tell:
            board = set_up(task, exact, tell)
            found = self._go(way, board, tell)
        if task.design is not None and task.design.all_pairs and task.design.leaves_out_own and way != "walks":
            found = left_apart(found, board.sample, board.sample.error)
        return self._result(found, board, "blackbox" if exact is None else self.engine)

    @property
    def way(self) -> Way | Literal["paper", "draws"]:
        """The first that fits; a refusal where none does and the answer has to be exact."""
        task, method = self.task, self.wanted.method
        if task.design is not None and task.design.conditional:
            return "draws"
        if method == "paper":
            return "paper"
        if method == "walk" and len(task.subjects) > 1:
            return "walks"
        if not everybody_lends(task.design):
            ways = [by_predictions(task, self._donors_a_row, self.wanted.budget, method == "exact")]
        else:
            ways = exact_ways(task, self.loss, self.wanted.aggregate, self.wanted.budget, method == "exact")
        for cost in ways:
            if cost.fits:
                return cost.way
        if method == "exact":
            raise ValueError(_refusal(ways, self.wanted.budget))
        if self._has_totals and most_circles(task) >= by_engine.FEWEST_CIRCLES:
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
        if self.wanted.aggregate == "prediction" or not everybody_lends(self.task.design):
            return False
        return has_totals(self.task, self.loss)

    @property
    def _donors_a_row(self) -> int:
        design = self.task.design
        assert design is not None
        return design.m or self.task.n

    def _expected(self, way: Way | Literal["paper", "draws"]) -> int:
        p, n = len(self.task.subjects), self.task.n
        if way == "coalitions":
            return int(predictions(self.task.subjects, n, self.width, is_whole(self.task)))
        if way == "draws":
            return self.most_drawn
        if way == "paper":
            return n + n * self.wanted.permutations * min((1 << p) - 2, self.wanted.orders * (p - 1))
        if way in ("tree totals", "product totals", "single tree", "device pairs"):
            return 1 << (p - int(way == "tree totals" and is_whole(self.task)))
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
        return self.task.n if everybody_lends(self.task.design) else self._donors_a_row

    @property
    def sweep_cost(self) -> int:
        """The most predictions that a sweep of walks takes."""
        steps = len(self.task.subjects) - int(is_whole(self.task))
        return self.task.n * steps * (1 if self.wanted.aggregate == "loss" else min(self.width, BACKGROUND))

    @property
    def fewest_sweeps(self) -> int:
        """Sweeps of walks before anything is decided."""
        if not everybody_lends(self.task.design):
            return self.width
        if self.wanted.aggregate == "loss":
            return max(walk_kinds.FEWEST_SWEEPS, ceil(walk_kinds.FEWEST_WALKS / self.task.n))
        return max(walk_kinds.FEWEST_MEAN_SWEEPS, ceil(walk_kinds.FEWEST_MEAN_WALKS / self.task.n))

    # -- ways -----------------------------------------------------------------------------------------------------

    def _go(self, way: Way | Literal["paper", "draws"], board: Board, tell: Teller) -> Allotment:
        engine, rng = self.task.exact, np.random.default_rng([self.task.entropy, 4])
        if way == "closed form":
            return closed_form(board, engine, self._keeps(board.n))
        if way == "device pairs":
            return by_engine.of_device_pairs(board, engine, tell)
        if way == "tree pairs" and self.wanted.aggregate == "prediction":
            return by_engine.of_means(board, engine, np.arange(board.n), tell)
        if way == "tree pairs":
            return by_engine.of_pairs(board, engine, self._keeps(board.n), self.task.n_jobs, tell)
        if way == "single tree":
            return by_engine.of_single_tree(board, engine, tell)
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
        absent = by_engine.what_rows_take(board.n, board.p)
        if way == "product totals":
            found = by_engine.of_totals(board, by_engine.product_totals(board, engine, tell), gains, PRODUCTS)
            return replace(
                found, remarks=(*found.remarks, "the sampling error is not known: nothing is of single rows")
            )
        game = by_engine.tree_totals(board, engine, tell)
        if way == "tree totals":
            found = by_engine.of_totals(board, game, gains, absent)
        else:
            most = most_circles(self.task)
            rule = StoppingRule(None, self.wanted.precision)
            found = by_engine.of_orders(board, game, gains, absent, most, rule, rng, tell)
        return by_engine.with_sampling_error(found, board, engine, rng, self.task.n_jobs)

    def _coalitions(self, board: Board, rng: np.random.Generator) -> Allotment:
        drawn: Indices | None = None
        if not everybody_lends(self.task.design):
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
            rule = StoppingRule(self.wanted.budget, self.wanted.precision)
            walk: Any = MeanWalk(board, self._background(board, rng), rng)
            return Walking(board, walk, rule, room, tell).run()
        apart = design is not None and design.leaves_out_own
        lenders: Iterator[Indices] = walks.circles(board.n, rng, apart=apart)
        words = "sweeps of Latin walks"
        if not everybody_lends(design):
            drawn = self._drawn(board, rng)
            lenders, sweeps, words = iter(drawn.T), drawn.shape[1], f"sweeps of walks, {design!r}"
            if self.wanted.budget is not None:
                raise ValueError(f"donors={design!r} says how many sweeps to walk; leave out budget=")
        rule = StoppingRule(self.wanted.budget, self.wanted.precision, sweeps)
        return Walking(board, PairWalk(board, lenders, rng, words, apart), rule, room, tell).run()

    def _draws(self, board: Board) -> Allotment:
        """Coalitions whose other players are drawn given them."""
        engine, design = self.task.engine, self.task.design
        assert isinstance(engine, BlackBox)  # the one that answers everything
        assert isinstance(design, BoundSampler)  # the way says so
        return conditional.share_out(board, engine, design, self.task.entropy, self.most_drawn)

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

    def _met(self, drawn: Indices) -> OwnDonors:
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
        if design is not None and design.all_pairs:
            return rows
        m = BACKGROUND if design is None or design.m is None else design.m
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
