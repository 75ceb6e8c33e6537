"""The verb that shares predictions out among features: Shapley values of single rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from losslens import game_theory
from losslens.engines.additive import Additive
from losslens.passes.auto import EXACT_PREDICTIONS
from losslens.passes.task import Task
from losslens.progress import Teller, bar
from losslens.results.selection import in_order
from losslens.shapley import ways
from losslens.shapley.games import Board, set_up
from losslens.tables.frames import Table, one_behind_the_other
from losslens.typing import Floats, Indices, Mask

if TYPE_CHECKING:
    from losslens.engines.trees.engine import Trees

TOGETHER = 1 << 18  # cells that are handled at a time


@dataclass(frozen=True, eq=False)
class _Found:
    """What each player adds to each row."""

    local: Floats  # (r, p)
    std_error: Floats  # (r, p)
    method: str
    exact: bool = True
    complete: bool = True


def rows_and_donors(background: Table, rows: Any) -> tuple[Table, Indices, Indices]:
    """A table that holds rows and donors, and where they are in it."""
    every = np.arange(background.n)
    at = _as_positions(rows, background)
    if at is not None:
        return background, at, every
    both = one_behind_the_other(rows, background)
    first = both.n - background.n
    if first == 0:
        raise ValueError("rows is empty: there is nothing to explain")
    return both, np.arange(first), every + first


def _as_positions(rows: Any, background: Table) -> Indices | None:
    if isinstance(rows, (int, np.integer)) and not isinstance(rows, bool):
        return in_order([rows], background.n)
    if isinstance(rows, slice):
        return in_order(np.arange(background.n)[rows], background.n)
    if hasattr(rows, "columns") or hasattr(rows, "column_names"):
        return None
    array = np.asarray(rows)
    return in_order(rows, background.n) if array.ndim == 1 and array.dtype.kind in "biu" and len(array) else None


def chosen_donors(task: Task, lenders: Indices, weight: Floats) -> tuple[Indices, Floats]:
    """The donors of the design, and their weights."""
    design = task.design
    if design is None or (design.all_pairs and not design.leaves_out_own):
        return lenders, weight
    if design.sampled_grid and design.m is not None:
        design.check(len(lenders))
        drawn = design.draw(len(lenders), np.random.default_rng([task.entropy, 6]))[0]
        return lenders[drawn], weight[drawn]
    raise ValueError(f"every row meets the same donors here: donors is 'auto', 'all' or Grid(m); got {design!r}")


@dataclass(frozen=True, eq=False)
class EffectRequest:
    """A checked call."""

    task: Task
    rows: Indices  # (r,)
    donors: Indices  # (B,)
    weight: Floats  # (B,), sums to one
    column: int | None  # of the predictions
    method: str
    budget: int | None

    def answer(self) -> tuple[_Found, Board, str]:
        """By an exact engine where one is cheap, else by the model itself."""
        task, engine = self._of_one_number(), self.task.exact
        p, r, B = len(task.subjects), len(self.rows), len(self.donors)
        exact = engine if self.method != "walk" and self._engine_answers() else None
        most = self.budget or (ways.MOST_PREDICTIONS if self.method == "exact" else EXACT_PREDICTIONS * p)
        count = ways.predictions(task.subjects, r, B, ways.is_whole(task))
        if exact is None and self.method == "exact" and count > most:
            raise ValueError(
                f"the exact values would take {count:,.0f} predictions, more than {most:,.0f}; explain fewer rows, "
                "draw donors with Grid(m), raise budget=, or use method='walk'"
            )
        title, unit = "sharing out", "predictions" if exact is None else "rows"
        with bar(r if exact is not None else int(min(count, most)), title, task.progress, unit) as tell:
            board = set_up(task, _Picked(exact, self.column) if exact is not None else None, tell)
            if exact is not None:
                return self._by_engine(board, exact, tell), board, exact.name
            if self.method != "walk" and count <= most:
                return self._by_coalitions(board), board, "blackbox"
            return self._by_walks(board, tell), board, "blackbox"

    def _of_one_number(self) -> Task:
        if self.column is None:
            return self.task
        engine: Any = self.task.engine
        respond, column = engine.respond, self.column
        return replace(self.task, engine=replace(engine, respond=lambda table: respond(table)[:, column]))

    def _engine_answers(self) -> bool:
        engine, p = self.task.exact, len(self.task.subjects)
        if isinstance(engine, Additive):
            return True
        if not ways.is_trees(engine):
            return False
        from losslens.engines.trees.effects import linear_response

        if linear_response(engine.bound) is not None:
            return True
        cells = len(self.rows) * len(self.donors) * ways.coalition_count(p)
        return p <= ways.MOST_PLAYERS and cells <= ways.MOST_CELLS

    def _by_engine(self, board: Board, engine: Any, tell: Teller) -> _Found:
        nothing = np.zeros((len(self.rows), board.p))
        if isinstance(engine, Additive):
            weight = np.asarray(np.bincount(self.donors, self.weight, board.n), float)
            parts = [engine.contribution(player.feature.columns, weight) for player in board.players]
            return _Found(np.stack(parts, axis=1)[self.rows], nothing, "closed form")
        from losslens.engines.trees.effects import linear_response, shapley_effects

        columns = [player.feature.columns for player in board.players]
        respond = linear_response(engine.bound)
        if respond is None:
            return _Found(self._through_link(board, engine, columns, tell), nothing, "all coalitions")
        raw = shapley_effects(
            engine.bound, columns, self.rows, self.donors, self.weight, n_jobs=self.task.n_jobs, tick=tell
        )
        found = respond(raw)
        return _Found(found if self.column is None else found[..., self.column], nothing, "closed form")

    def _through_link(self, board: Board, engine: Trees, columns: list[tuple[int, ...]], tell: Teller) -> Floats:
        """A link that is no straight line is applied to every coalition of every pair."""
        from losslens.engines.trees.pair_games import pair_predictions

        local, some = np.empty((len(self.rows), board.p)), max(1, TOGETHER >> board.p)
        for place, i in enumerate(self.rows):
            table = np.zeros(1 << board.p)
            for start in range(0, len(self.donors), some):
                part = slice(start, start + some)
                lent = self.donors[part]
                raw = pair_predictions(engine.bound, columns, np.full(len(lent), i), lent)
                said = _pick(engine.bound.respond(raw.reshape(-1, raw.shape[2])), self.column)
                table += self.weight[part] @ said.reshape(len(lent), -1)
            local[place] = 0.0 - game_theory.values(table)
            tell(1)
        return local

    def _by_coalitions(self, board: Board) -> _Found:
        """Every coalition, every row, every donor, by the model itself."""
        kept = game_theory.members(board.p, np.arange(1 << board.p))
        means = np.stack([self._means(board, S) for S in kept])
        return _Found(0.0 - game_theory.values(means).T, np.zeros((len(self.rows), board.p)), "all coalitions")

    def _means(self, board: Board, S: Mask) -> Floats:
        """The mean prediction over the donors, for each row, (r,)."""
        base, B = board.sample.prediction, len(self.donors)
        found, step = np.empty(len(self.rows)), max(1, TOGETHER // B)
        for start in range(0, len(self.rows), step):
            rows = self.rows[start : start + step]
            said = np.empty((len(rows), B), base.dtype)
            if S.all():
                said[:] = base[rows][:, None]
            elif board.whole and not S.any():
                said[:] = base[self.donors]
            else:
                lent = np.tile(self.donors, len(rows))
                mixed = board.predict(np.repeat(rows, B), lent, np.broadcast_to(S, (len(lent), board.p)))
                said[:] = mixed.reshape(len(rows), B)
            found[start : start + step] = said @ self.weight  # one way for all: equal predictions, equal means
        return found

    def _by_walks(self, board: Board, tell: Teller) -> _Found:
        from losslens.shapley.walk_kinds import EffectWalk

        rng = np.random.default_rng([self.task.entropy, 7])
        walk = EffectWalk(board, self.rows, self.donors, self.weight, rng)
        found = walk.run(self.budget, self.task.budget.memory // 2, tell)
        return _Found(found.local, found.std_error, f"{found.walks} walks a row", exact=False, complete=found.complete)


@dataclass(frozen=True, eq=False)
class _Picked:
    """One column of an engine's predictions."""

    engine: Any
    column: int | None

    def predict(self, rows: Indices) -> NDArray[Any]:
        """As numbers."""
        return _pick(self.engine.predict(rows), self.column)


def _pick(predictions: NDArray[Any], column: int | None) -> NDArray[Any]:
    return predictions if column is None else np.ascontiguousarray(predictions[:, column])
