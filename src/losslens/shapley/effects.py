"""Shapley values of the predictions of single rows: the checked call, the ways to compute them, and the result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from losslens import game_theory
from losslens.donors.questions import Subject
from losslens.engines.choice import CHECKED
from losslens.models import Model
from losslens.passes.task import Options, Task, class_of, effect_of, prepare, raw_of
from losslens.passes.ways import EXACT_PREDICTIONS
from losslens.progress import ProgressBar, bar
from losslens.results.selection import in_order
from losslens.results.shapley_curve import values_of
from losslens.results.shapley_effect import ShapleyEffect
from losslens.shapley import walks
from losslens.shapley.by_engine import MOST_CELLS, QUICK_CELLS
from losslens.shapley.coalitions import MOST_PLAYERS, MOST_PREDICTIONS, all_coalitions, count_predictions
from losslens.shapley.effect_walks import FIRST_SWEEPS, STRATA, EffectWalk, LinkedWalk
from losslens.shapley.request import check_players, covers_table
from losslens.shapley.setup import GameSetup, set_up
from losslens.tables import checks
from losslens.tables.frames import Batch, Table, as_table, prepend_rows
from losslens.tables.row_labels import Labels, distinct_labels, labels_of, take_labels
from losslens.typing import Floats, Indices, Mask

CELLS_AT_ONCE = 1 << 18  # pairs times coalitions, or pairs, in memory at a time


@dataclass(frozen=True, eq=False)
class EffectRequest:
    """A checked call of `shapley_effect`."""

    task: Task
    rows: Indices  # (r,)
    donors: Indices  # (B,)
    weight: Floats  # (B,), sums to one
    response: str  # what is explained, in a word
    column: int | None  # of the predictions
    target: str | None  # its class
    method: str
    budget: int | None
    row_labels: Labels | None  # (r,)

    @property
    def players(self) -> tuple[Subject, ...]:
        """The features."""
        return self.task.subjects

    @property
    def steps(self) -> int:
        """Predictions of a walk to every row: the two ends are known, unless some columns are always kept."""
        return len(self.rows) * (len(self.players) - int(covers_table(self.task)))

    @cached_property
    def engine_work(self) -> dict[str, float]:
        """The ways that the exact engine offers, and the number of cells of each."""
        return dict(self.task.games.effect_ways(len(self.rows), len(self.donors)))

    def pick(self, predictions: NDArray[Any]) -> NDArray[Any]:
        """The explained column of the predictions: one number each."""
        return predictions if self.column is None else np.ascontiguousarray(predictions[:, self.column])


def check_request(
    model: Model, X: Any, rows: Any, target: Any, scale: str, method: str, budget: int | None, weight: Any,
    options: Options,
) -> EffectRequest:  # fmt: skip
    """Check all arguments, and find the rows and their donors."""
    background = as_table(X)
    model, response = raw_of(model) if scale == "raw" else effect_of(model, target)
    table, explained, donors, labels = _rows_and_donors(background, rows)
    mass = checks.row_weights(weight, background.n, background.index, least=1)
    task = prepare(model, table, None, options, loss=None, response=response, all_pairs=True)
    check_players(task)
    column, label = class_of(task.sample, target, response)
    donors, mass = _drawn(task, donors[mass > 0], mass[mass > 0])
    words = {"values": "value", "probabilities": "probability"}.get(response, "score")
    if scale == "raw" and column is None and _are_log_odds(model, background):
        words = "log-odds"
    return EffectRequest(
        task, explained, donors, mass / mass.sum(), words, column, label, method, budget, labels
    )  # fmt: skip


def _are_log_odds(model: Model, table: Table) -> bool:
    """Whether the scores of two classes are log-odds of its probabilities: compared on some rows.

    In digits that a probability close to 0 or 1 still has, if it is in single precision.
    """
    if "probabilities" not in model.responses:
        return False
    some = Batch(table).fill(np.unique(np.linspace(0, table.n - 1, CHECKED).astype(np.intp)), [])
    score, chance = model.responder("scores")(some), model.responder("probabilities")(some)[:, 1]
    return bool(np.allclose(1 / (1 + np.exp(-np.clip(score, -700, 700))), chance, rtol=1e-5, atol=1e-6))


def _rows_and_donors(background: Table, rows: Any) -> tuple[Table, Indices, Indices, Labels | None]:
    """A table of rows and donors, their positions in it, and the labels of the rows."""
    every = np.arange(background.n)
    positions = _as_positions(rows, background)
    if positions is not None:
        return background, positions, every, distinct_labels(take_labels(background.row_labels, positions))
    both = prepend_rows(rows, background)
    first = both.n - background.n
    if first == 0:
        raise ValueError("rows is empty; give at least one row to explain")
    return both, np.arange(first), every + first, labels_of(rows.index) if background.backend == "pandas" else None


def _as_positions(rows: Any, background: Table) -> Indices | None:
    """The rows to explain as positions in the donors' table, by labels where it has them; None if they are a table."""
    labels = background.row_labels
    if isinstance(rows, slice):
        return in_order(np.arange(background.n)[rows], background.n)
    if hasattr(rows, "columns") or hasattr(rows, "column_names"):
        return None
    array = np.asarray(rows)
    if labels is not None and (array.ndim == 0 or (isinstance(rows, tuple) and rows in labels.tolist())):
        return in_order([rows], background.n, labels)
    if labels is not None and (array.ndim == 1 or isinstance(rows, list)):
        return in_order(rows, background.n, labels)
    if isinstance(rows, (int, np.integer)) and not isinstance(rows, bool):
        return in_order([rows], background.n)
    return in_order(rows, background.n) if array.ndim == 1 and array.dtype.kind in "biu" and len(array) else None


def _drawn(task: Task, donors: Indices, weight: Floats) -> tuple[Indices, Floats]:
    """The donors of the design, and their weights."""
    design = task.design
    if design is None or (design.all_pairs and not design.leaves_out_own):
        return donors, weight
    if design.sampled_grid and design.m is not None:
        design.check(len(donors))
        drawn = design.draw(len(donors), np.random.default_rng([task.entropy, 6]))[0]
        return donors[drawn], weight[drawn]
    raise ValueError(f"all rows share their donors here: donors must be 'auto', 'all' or Grid(m); got {design!r}")


# Ways.


@dataclass(frozen=True, eq=False)
class EffectShares:
    """What each player adds to the prediction of each row."""

    local: Floats  # (r, p)
    method: str
    std_error: Floats | None = None  # (r, p): due to drawing orders and donors; None where nothing is drawn
    complete: bool = True


EffectWay = Callable[[EffectRequest, GameSetup, ProgressBar], EffectShares]


def in_closed_form(request: EffectRequest, setup: GameSetup, progress: ProgressBar) -> EffectShares:
    """From an exact engine."""
    effects = request.task.games.effects(request.rows, request.donors, request.weight, request.task.n_jobs, progress)
    return EffectShares(effects if request.column is None else effects[..., request.column], "closed form")


def _inside_trees(request: EffectRequest, setup: GameSetup, progress: ProgressBar) -> EffectShares:
    """All coalitions of all pairs: the response is not linear in the trees' sums."""
    p, rows, donors, games = setup.p, request.rows, request.donors, request.task.games
    local, step = np.empty((len(rows), p)), max(1, CELLS_AT_ONCE >> p)
    for place, i in enumerate(rows):
        table = np.zeros(1 << p)
        for start in range(0, len(donors), step):
            some_donors = donors[start : start + step]
            predictions = games.pair_predictions(np.full(len(some_donors), i), some_donors)
            predictions = request.pick(predictions.reshape(-1, *predictions.shape[2:]))
            table += request.weight[start : start + step] @ predictions.reshape(len(some_donors), -1)
        local[place] = 0.0 - game_theory.values(table)
        progress(1)
    return EffectShares(local, "all coalitions")


def by_coalitions(request: EffectRequest, setup: GameSetup, progress: ProgressBar) -> EffectShares:
    """All coalitions of all rows and donors, predicted by the model."""
    means = np.stack([_means(request, setup, S) for S in all_coalitions(setup.p)])
    return EffectShares(0.0 - game_theory.values(means).T, "all coalitions")


def _means(request: EffectRequest, setup: GameSetup, S: Mask) -> Floats:
    """The mean prediction over the donors, for each row, (r,)."""
    base, donors, B = setup.sample.prediction, request.donors, len(request.donors)
    means, step = np.empty(len(request.rows)), max(1, CELLS_AT_ONCE // B)
    for start in range(0, len(request.rows), step):
        rows = request.rows[start : start + step]
        predictions = np.empty((len(rows), B), base.dtype)
        if S.all():
            predictions[:] = base[rows][:, None]
        elif setup.covers_table and not S.any():
            predictions[:] = base[donors]
        else:
            lined_up = np.tile(donors, len(rows))
            mixed = setup.predict(np.repeat(rows, B), lined_up, np.broadcast_to(S, (len(lined_up), setup.p)))
            predictions[:] = mixed.reshape(len(rows), B)
        # One product for all cases: equal predictions have equal means to the last bit.
        means[start : start + step] = predictions @ request.weight
    return means


def effect_walk(request: EffectRequest, setup: GameSetup) -> EffectWalk:
    """The kind of walks, and when they end."""
    rng, memory = np.random.default_rng([request.task.entropy, 7]), request.task.budget.memory // 2
    return EffectWalk(
        setup=setup, rng=rng, cost=request.steps, rows=request.rows, donors=request.donors, weight=request.weight,
        budget=request.budget, memory=memory,
    )  # fmt: skip


def by_walks(request: EffectRequest, setup: GameSetup, progress: ProgressBar) -> EffectShares:
    """Walks from donors to rows, until they are precise or the budget is spent."""
    walk = effect_walk(request, setup)
    sweeps, complete, *_ = walks.run(walk, progress)
    local, error = walk.summary(sweeps)
    return EffectShares(local, f"{len(sweeps)} walks a row", error, complete)


def by_linked_walks(request: EffectRequest, setup: GameSetup, progress: ProgressBar) -> EffectShares:
    """The same from an engine that knows the sums inside a link: exact values of these are control variates."""
    walk, strata = effect_walk(request, setup), STRATA
    if request.budget is not None:
        a_stratum = 2 * FIRST_SWEEPS * request.steps
        strata = max(1, min(STRATA, (request.budget - setup.counter.rows) // a_stratum))
    fields = vars(walk) | {"cost": 2 * strata * request.steps}
    kind = LinkedWalk(**fields, strata=strata, pick=request.pick, tick=progress)
    sweeps, complete, *_ = walks.run(kind, progress)
    local, error = kind.summary(sweeps)
    return EffectShares(local, f"{2 * strata * len(sweeps)} walks a row", error, complete)


def choose(request: EffectRequest) -> tuple[EffectWay, int]:
    """The way, and the steps of its progress bar: an exact engine where it is cheap, else the model."""
    r, p = len(request.rows), len(request.players)
    if request.method == "walk":
        return by_walks, r
    if "closed form" in request.engine_work:
        return in_closed_form, r
    walks_inside = "walks" in request.engine_work and request.method == "auto"  # precise in a fraction of a second
    most = QUICK_CELLS if walks_inside else MOST_CELLS
    if request.engine_work.get("all coalitions", np.inf) <= most and p <= MOST_PLAYERS:
        return _inside_trees, r
    limit = request.budget or (MOST_PREDICTIONS if request.method == "exact" else EXACT_PREDICTIONS * p)
    predictions = count_predictions(request.players, r, len(request.donors), covers_table(request.task))
    if predictions <= limit:
        return by_coalitions, int(predictions)
    if request.method == "exact":
        raise ValueError(
            f"the exact values would take {predictions:,.0f} predictions, more than {limit:,.0f}; explain fewer rows, "
            "draw donors with Grid(m), raise budget=, or use method='walk'"
        )
    return (by_linked_walks if walks_inside else by_walks), r


def explain(request: EffectRequest) -> ShapleyEffect:
    """Choose a way, run it, and make the result."""
    return explain_by(*choose(request), request)


def explain_by(way: EffectWay, steps: int, request: EffectRequest) -> ShapleyEffect:
    """Run a way, and make the result."""
    task, rows = request.task, request.rows
    by_model, walked = way in (by_coalitions, by_walks), way is by_linked_walks
    with bar(steps, "Shapley values", task.progress, "predictions" if by_model or walked else "rows") as progress:
        if by_model:
            setup = set_up(of_one_number(request), None, progress)
        else:
            setup = set_up(task, SimpleNamespace(predict=lambda rows: request.pick(task.exact.predict(rows))), progress)
        shares = way(request, setup, progress)
    engine = task.engine.name if by_model else task.exact.name
    prediction = setup.sample.prediction
    base = prediction[rows] - shares.local.sum(axis=1)
    if setup.covers_table:
        base = np.full(len(rows), request.weight @ prediction[request.donors])
    explains_all = len(rows) == setup.n and np.array_equal(rows, task.every)
    values = values_of(setup.players, task.table.names)
    return ShapleyEffect(
        features=tuple(player.feature.name for player in setup.players),
        local=shares.local,
        prediction=prediction[rows],
        base=base,
        std_error=np.zeros(shares.local.shape) if shares.std_error is None else shares.std_error,
        target=request.target,
        response=request.response,
        method=shares.method,
        engine=engine,
        exact=shares.std_error is None and not task.engine.repeats.declined,
        n_donors=len(request.donors),
        n_predictions=setup.counter.rows,
        values=values if explains_all else replace(values, codes=values.codes[rows]),
        backend=task.table.backend,
        complete=shares.complete,
        row_labels=request.row_labels,
    )


def of_one_number(request: EffectRequest) -> Task:
    """The task with a model that predicts only the explained class."""
    engine = request.task.engine
    return replace(request.task, engine=replace(engine, respond=lambda table: request.pick(engine.respond(table))))
