"""Importance by a scorer (AUC, R2), which gives one score for all rows.

The score needs no more predictions than a loss, and none of the model where an exact engine has them. Its error is the
jackknife's: each row, as an observation and as a donor, is left out of the pairs that an AUC counts; of other scores
blocks of rows, which take a bounded number of calls.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from losslens.cells.matrix import besides_cells
from losslens.donors.designs import All, Design, Grid, Latin
from losslens.donors.layout import CommonGrid
from losslens.donors.questions import Question, Subject, pose
from losslens.engines.choice import CHECKED
from losslens.losses import as_scorer, resolve
from losslens.models import Model
from losslens.passes import budget
from losslens.passes.auto import EXACT_PREDICTIONS, PAIR_AXIS, exact_cost
from losslens.passes.dispatch import Asked, ask, design_of
from losslens.passes.scorers import ScorerMethod
from losslens.passes.task import Options, Task, prepare
from losslens.results.scores import FeatureScore, Scores
from losslens.tables import checks
from losslens.tables.frames import as_table
from losslens.tables.sample import effective_number
from losslens.text import size_in_words
from losslens.typing import Floats, Indices
from losslens.uncertainty.pair_counts import PairCounts

SHIFTS = 30  # donors per row where all of them are over the limit
MOST_CALLS, MOST_RANKINGS = 400, 2000  # calls of the scorer for all shifts and values of a feature; and AUCs
CURVE = 20  # values of the PI curve where all of them are over the limit
BLOCKS, BLOCK_ROWS, BLOCK_COLUMNS = 25, 6_000, 3  # of the jackknife of other scores; predictions and columns in a call


def score_importance(model: Model, X: Any, y: Any, scorer: Any, options: Options) -> Scores:
    """Importance by a scorer: the score less its mean over the columns of the design."""
    method, task = prepare_scored(model, X, y, scorer, options)
    asked = [(s, design_of(task, s, rule_of(method), all_exact=False)) for s in task.subjects]
    on_grid = curves_besides(task, asked)
    check_budget(task, [pose(*one, task.n, task.entropy) for one in (*asked, *on_grid)], task.n)
    answered, predicted = ask(task, asked)
    drawn, more = ask(task, on_grid) if on_grid else ([], 0)
    if any(answer.engine != task.engine.name for answer in drawn):
        more -= min(task.n, CHECKED)  # an exact engine is compared with the model once
    curves = {answer.feature.name: answer for answer in drawn}
    units = Units.of(task, method)
    own: dict[str, _OwnScore] = {}  # of each engine
    features = {}
    for (subject, _), answer in zip(asked, answered, strict=True):
        if answer.engine not in own:
            prediction = method.tied(answer.sample.prediction, exact=answer.engine != task.engine.name)
            own[answer.engine] = _OwnScore(method, units, prediction)
        drawn_curve = curves.get(answer.feature.name)
        number = _Cells.of(task, subject, answer, method)
        grid = number if drawn_curve is None else _Cells.of(task, subject, drawn_curve, method)
        features[answer.feature.name] = _feature_score(task, number, grid, own[answer.engine])
    return Scores(features, predicted + more + method.probed)


def rule_of(method: ScorerMethod) -> Callable[[Subject, int], Design]:
    """The rule of ``donors="auto"``: all shifts and values where they take few calls, which AUCs are faster than."""
    most = MOST_CALLS if method.positive is None else MOST_RANKINGS

    def rule(subject: Subject, n: int) -> Design:
        if subject.feature.kind == "pair":
            return Grid(min(PAIR_AXIS, n), at="quantiles")
        few = n + len(subject.distinct) <= most and exact_cost(subject, n) <= EXACT_PREDICTIONS
        return All() if few else Latin(min(SHIFTS, n))

    return rule


def curves_besides(task: Task, asked: Sequence[Asked]) -> list[Asked]:
    """The features that ``donors="auto"`` samples, without common values: with the grid of their curve."""
    sampled = [subject for subject, design in asked if task.design is None and not design.common]
    return [(subject, Grid(min(CURVE, task.n), at="quantiles")) for subject in sampled]


def calls_of(method: ScorerMethod, asked: Sequence[tuple[Design, int]], n: int) -> tuple[int, float]:
    """Calls of the scorer for features with these designs and cells in a row, and the rows of all calls."""
    calls = 1 + sum((n if d.all_pairs else w) * d.has_columns + w * d.common for d, w in asked)
    rows = float(n * calls)
    if method.positive is None:
        blocks = min(n, BLOCKS) if method.block is None else len(np.unique(method.block))
        for d, w in asked:
            if d.has_columns:
                calls += 2 * blocks
                rows += 2 * blocks * n * min(n if d.all_pairs else w, _pooled(n)) * (1 - 1 / blocks) ** 2
    return calls, rows


def _pooled(n: int) -> int:
    """Columns whose rows are scored together where a block is left out."""
    return max(BLOCK_COLUMNS, BLOCK_ROWS // n)


def prepare_scored(model: Model, X: Any, y: Any, scorer: Any, options: Options) -> tuple[ScorerMethod, Task]:
    """Call the scorer once, to see which predictions it needs, and check the call."""
    if y is None:
        raise ValueError("y, the true values, is missing; for curves of predictions use feature_effect")
    scorer = as_scorer(scorer, model.native)
    table, weight = as_table(X), options.sample_weight
    truth = checks.vector(y, table.n, "y", table.index)
    weight = None if weight is None else checks.row_weights(weight, table.n, table.index) * table.n
    _check_target(model, truth)
    block = checks.group_numbers(options.groups, table.n, table.index)
    scored = ScorerMethod.of(model, table, truth, scorer, weight, block)
    cells = replace(options, groups=None)  # of all pairs; those inside groups are left out of the scores
    task = prepare(model, table, None, cells, loss=None, response=scored.response, any_design=True)
    if task.design is not None and task.design.conditional:
        raise ValueError(f"{task.design!r} draws values given the other columns, which needs a loss, not a scorer")
    return scored, task


def check_budget(task: Task, questions: Sequence[budget.HasWidth], n: int) -> None:
    """Raise ValueError unless all cells of n rows fit into memory."""
    if not task.budget.fits(questions, n):
        needs = size_in_words(2 * n * task.budget.row_bytes(questions) + besides_cells(n, len(questions)))
        raise ValueError(f"a scorer needs all cells at once; pass memory='{needs}' or a design with fewer donors")


def _check_target(model: Model, y: NDArray[Any]) -> None:
    if model.kind == "classifier":
        observed = checks.observed_classes(y)
        if model.classes is not None:
            checks.class_positions(observed, model.classes, model.name)
    else:
        checks.numbers(y, resolve("squared_error"))


# The jackknife.


@dataclass(frozen=True, eq=False)
class Units:
    """What the jackknife leaves out, one after the other: rows, groups of rows, or random blocks of rows."""

    kind: Literal["rows", "groups", "blocks"]
    number: Indices  # (n,): the unit of each row
    count: int
    effective: float  # as many of equal weight

    @classmethod
    def of(cls, task: Task, method: ScorerMethod) -> Units:
        """Groups, the rows of an AUC, or else blocks."""
        n, weight = task.n, task.sample.weight
        if method.block is not None:
            sizes = np.bincount(method.block, weight).astype(float)
            return cls("groups", method.block, len(sizes), effective_number(sizes))
        if method.positive is not None:
            return cls("rows", np.arange(n), n, effective_number(weight))
        counted = np.flatnonzero(weight)
        count = min(BLOCKS, len(counted))
        number = np.full(n, -1)  # rows without weight are in no block
        # The same for every seed: what is exact has the same error again.
        number[np.random.default_rng(n).permutation(counted)] = np.arange(len(counted)) % count
        return cls("blocks", number, count, float(count))


@dataclass(frozen=True, eq=False)
class _OwnScore:
    """The score with nothing replaced."""

    method: ScorerMethod
    units: Units
    prediction: NDArray[Any]

    @cached_property
    def score(self) -> float:
        return self.method.of_rows(self.prediction, self.method.weight)

    @cached_property
    def counts(self) -> PairCounts:
        return self.method.counts(self.prediction, self.method.weight)


@dataclass(frozen=True, eq=False)
class ReplacedColumn:
    """Rows with one donor each: a column of the design. With weights the weight of a cell is w_i w_k."""

    rows: Indices | None  # None: all of them
    donors: Indices  # of these rows
    at: tuple[Indices, Any]  # their cells
    weight: Floats | None
    share: float


@dataclass(frozen=True, eq=False)
class _Cells:
    """The cells of a feature, and the columns that its design makes of them."""

    question: Question
    answer: budget.Answered
    predictions: NDArray[Any]
    method: ScorerMethod

    @classmethod
    def of(cls, task: Task, subject: Subject, answer: budget.Answered, method: ScorerMethod) -> _Cells:
        cells = method.tied(answer.filled.cells.predictions, exact=answer.engine != task.engine.name)
        return cls(pose(subject, answer.design, task.n, task.entropy), answer, cells, method)

    @cached_property
    def columns(self) -> list[ReplacedColumn]:
        """The columns of the design; for all pairs the n cyclic shifts."""
        has = self.question.design.has_columns and self.question.meeting.has_mass
        return list(self._columns()) if has else []

    def _columns(self) -> Iterator[ReplacedColumn]:
        meeting, weight, block = self.question.meeting, self.method.weight, self.method.block
        n = self.question.ask.own.shape[0]
        every = np.arange(n)
        drawn = None if isinstance(meeting, CommonGrid) else np.asarray(meeting.donors[:])
        for t in range(int(meeting.leaves_out_own and drawn is None), n if drawn is None else drawn.shape[1]):
            donors, rows = np.roll(every, -t) if drawn is None else drawn[:, t], every
            if block is not None:  # no donors of the own group
                rows = np.flatnonzero(block != block[donors])
                donors = donors[rows]
            pair = None if weight is None else weight[rows] * weight[donors]
            if not len(rows) or (pair is not None and not pair.any()):
                continue  # no pair has weight
            at = (rows, meeting.own[donors] if isinstance(meeting, CommonGrid) else np.full(len(rows), t))
            share = float(len(rows) if pair is None else pair.sum())
            yield ReplacedColumn(None if block is None else rows, donors, at, pair, share)

    def score(self, column: ReplacedColumn) -> float:
        return self.method.of_rows(self.predictions[column.at], column.weight, column.rows)

    def without(self, own: _OwnScore) -> Floats | None:
        """The importance without each unit, as rows and as donors; None where some unit can't be left out."""
        units = own.units
        if not self.columns or units.count < 3:
            return None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of scores that are not defined without a unit
            try:
                found = self._without_rows(own) if units.kind == "rows" else self._without_blocks(own)
            except Exception:  # noqa: BLE001 - whatever a scorer raises without some rows, such as those of a class
                return None
        return found if np.isfinite(found).all() else None

    def _without_rows(self, own: _OwnScore) -> Floats:
        """Of an AUC: without row i, and without the row that has it as its donor, also with nothing replaced."""
        n = self.question.ask.own.shape[0]
        every, total, mass = np.arange(n), np.zeros(n), np.zeros(n)
        for column in self.columns:
            having = np.empty(n, np.intp)
            having[column.donors] = every
            counts = self.method.counts(self.predictions[column.at], column.weight)
            pair = counts.weight
            left = column.share - pair - np.where(having == every, 0.0, pair[having])
            total += left * (own.counts.without(every, having) - counts.without(every, having))
            mass += left
        return total / mass

    def _without_blocks(self, own: _OwnScore) -> Floats:
        """Of any score: of some columns together, in one call for each block, and one with nothing replaced."""
        units, own_weight = own.units, self.method.weight
        n = self.question.ask.own.shape[0]
        pooled = _pooled(n)
        some = self.columns[:: max(1, len(self.columns) // pooled)][:pooled]
        rows, donors, places = (
            np.concatenate(part)
            for part in zip(*((one.at[0], one.donors, np.broadcast_to(one.at[1], len(one.donors))) for one in some),
                            strict=True)
        )  # fmt: skip
        weight = None if some[0].weight is None else np.concatenate([one.weight for one in some])
        cells, of_row, of_donor = self.predictions[rows, places], units.number[rows], units.number[donors]
        found = []
        for g in range(units.count):
            left = (of_row != g) & (of_donor != g)
            kept = rows[left]
            before = self.method.of_rows(own.prediction[kept], None if own_weight is None else own_weight[kept], kept)
            after = self.method.of_rows(cells[left], None if weight is None else weight[left], kept)
            found.append(before - after)
        return np.array(found)


def _feature_score(task: Task, number: _Cells, grid: _Cells, own: _OwnScore) -> FeatureScore:
    question, answer, method = number.question, number.answer, own.method
    meeting, columns, n = grid.question.meeting, number.columns, task.n
    shares = np.array([column.share for column in columns])
    itself = sum(_own_mass(column, n) for column in columns)
    curve = None
    if isinstance(meeting, CommonGrid):
        curve = np.array([method.of_rows(grid.predictions[:, v], method.weight) for v in range(meeting.size)])
    return FeatureScore(
        name=answer.feature.name,
        columns=tuple(task.table.names[j] for j in answer.feature.columns),
        values=grid.question.values,
        ordered=grid.question.ordered,
        design=question.design,
        engine=answer.engine,
        declined=answer.declined,
        exact=question.design.is_exact(n) and question.meeting.has_mass,
        n_predictions=answer.filled.n_predictions + (0 if grid is number else grid.answer.filled.n_predictions),
        title=method.title,
        score=own.score,
        column_scores=np.array([number.score(column) for column in columns]) if columns else None,
        column_shares=shares / shares.sum() if columns else None,
        curve=curve,
        shares=grid.answer.filled.means.weights,
        backend=task.table.backend,
        own_share=itself / float(shares.sum()) if columns else 0.0,
        without=number.without(own),
        units=own.units.kind,
        effective=own.units.effective,
    )


def _own_mass(column: ReplacedColumn, n: int) -> float:
    """The weight of the rows of a column that are their own donors."""
    same = column.at[0] == column.donors
    return float(same.sum() if column.weight is None else column.weight[same].sum())
