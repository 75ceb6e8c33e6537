"""The verb that shares predictions out among features: Shapley values of single rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from losslens import inputs, routes, shapley, stopping
from losslens.auto import EXACT_PREDICTIONS
from losslens.donors import All, Design, Grid
from losslens.engines.additive import Additive
from losslens.games import Board, Marks, set_up
from losslens.models import as_model
from losslens.progress import Teller, bar
from losslens.results import in_order
from losslens.sample import Floats, Indices
from losslens.shapley_curves import values_of
from losslens.shapley_effects import ShapleyEffect
from losslens.tables import Table, as_table, one_behind_the_other
from losslens.tasks import Task, class_of, effect_response, prepare
from losslens.workers import anywhere

if TYPE_CHECKING:
    from losslens.engines.trees.engine import Trees

TOGETHER = 1 << 18  # cells that are handled at a time


@anywhere
def shapley_effect(
    model: Any,
    X: Any,
    rows: Any,
    *,
    features: Any = None,
    target: Any = None,
    method: Literal["auto", "exact", "walk"] = "auto",
    donors: str | Design = "auto",
    budget: int | None = None,
    sample_weight: Any = None,
    random_state: Any = None,
    n_jobs: int | None = None,
    memory: str | int = "1 GiB",
    progress: bool | None = None,
    executor: Any = None,
) -> ShapleyEffect:
    """Shapley values of predictions: what each feature adds to a row's prediction, against the rows of X as donors.

    ``sum over features of phi_j(x) = f(x) - mean over donors k of f(x_k)``

    Parameters
    ----------
    model, features, random_state, n_jobs, memory, progress, executor
        As in `shapley_importance`.
    X
        The donors: the background that a row is compared with.
    rows
        The rows to explain: positions in X (a mask, a list, one number), or a table with the columns of X.
    target
        The class whose probability is explained; for two classes the second by default.
    method
        ``"auto"``: exact where that is cheap (additive models and trees in closed form; all coalitions where that takes
        at most a million predictions a feature, or `budget`), otherwise walks.
    donors
        ``"auto"`` or ``"all"``: every row of X; ``Grid(m)``: m of them, drawn at random.
    budget
        The most predictions; without one walks end when the errors are small beside the spread of the predictions.
    sample_weight
        Weights of the donors.

    Examples
    --------
    >>> import numpy as np, losslens as ll
    >>> X = np.array([[0.0, 0.0], [2.0, 4.0]])
    >>> ll.shapley_effect(lambda X: X[:, 0] + X[:, 0] * X[:, 1], X, 1).local
    array([[3., 2.]])
    """
    if method not in ("auto", "exact", "walk"):
        raise ValueError(f"method is 'auto', 'exact' or 'walk'; got {method!r}")
    stopping.check(None, budget)
    known, background = as_model(model), as_table(X)
    table, explained, lenders = _stage(background, rows)
    weight = inputs.row_weights(sample_weight, background.n)
    response = effect_response(known)
    task = prepare(
        known, table, None, loss=None, response=response, features=features, donors=donors, sample_weight=None,
        groups=None, random_state=random_state, n_jobs=n_jobs, memory=memory, progress=progress,
    )  # fmt: skip
    routes.check_players(task)
    column, label = class_of(task.sample, target, response)
    lenders, weight = _chosen(task, lenders[weight > 0], weight[weight > 0])
    ask = _Asked(task, explained, lenders, weight / weight.sum(), column, method, budget)
    found, board, engine = ask.answer()
    base = board.base_of(explained, ask.donors, ask.weight)
    return ShapleyEffect(
        features=tuple(player.feature.name for player in board.players),
        local=found.local,
        prediction=board.sample.prediction[explained],
        base=board.sample.prediction[explained] - found.local.sum(axis=1) if base is None else base,
        std_error=found.std_error,
        target=label,
        response={"values": "value", "probabilities": "probability"}.get(response, "score"),
        method=found.method,
        engine=engine,
        exact=found.exact,
        n_donors=len(ask.donors),
        n_predictions=board.counter.rows,
        values=replace(values_of(board.players, task.table.names), codes=board.codes[explained]),
        backend=task.table.backend,
        complete=found.complete,
    )


@dataclass(frozen=True, eq=False)
class _Found:
    """What each player adds to each row."""

    local: Floats  # (r, p)
    std_error: Floats  # (r, p)
    method: str
    exact: bool = True
    complete: bool = True


def _stage(background: Table, rows: Any) -> tuple[Table, Indices, Indices]:
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


def _chosen(task: Task, lenders: Indices, weight: Floats) -> tuple[Indices, Floats]:
    design = task.design
    if design is None or isinstance(design, All):
        return lenders, weight
    if isinstance(design, Grid) and design.m is not None:
        design.check(len(lenders))
        drawn = design.draw(len(lenders), np.random.default_rng([task.entropy, 6]))[0]
        return lenders[drawn], weight[drawn]
    raise ValueError(f"every row meets the same donors here: donors is 'auto', 'all' or Grid(m); got {design!r}")


@dataclass(frozen=True, eq=False)
class _Asked:
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
        most = self.budget or (routes.MOST_PREDICTIONS if self.method == "exact" else EXACT_PREDICTIONS * p)
        count = routes.predictions(task.subjects, r, B, routes.is_whole(task))
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
        if not routes.is_trees(engine):
            return False
        from losslens.engines.trees.effects import linear_response

        if linear_response(engine.bound) is not None:
            return True
        cells = len(self.rows) * len(self.donors) * routes.coalition_count(p)
        return p <= routes.MOST_PLAYERS and cells <= routes.MOST_CELLS

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
            local[place] = 0.0 - shapley.values(table)
            tell(1)
        return local

    def _by_coalitions(self, board: Board) -> _Found:
        """Every coalition, every row, every donor, by the model itself."""
        kept = shapley.members(board.p, np.arange(1 << board.p))
        means = np.stack([self._means(board, S) for S in kept])
        return _Found(0.0 - shapley.values(means).T, np.zeros((len(self.rows), board.p)), "all coalitions")

    def _means(self, board: Board, S: Marks) -> Floats:
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
        from losslens.effect_walks import EffectWalk

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
