"""Importance by a scorer (AUC, R2), which gives one score for all rows.

The score needs no more predictions than a loss, and none of the model where an exact engine has them. Its error is the
jackknife's (`uncertainty/scored_cells.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from losslens.cells.matrix import besides_cells
from losslens.donors.designs import All, Design, Grid, Latin
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
from losslens.text import size_in_words
from losslens.uncertainty.prediction_scores import PredictionScore
from losslens.uncertainty.scored_cells import BLOCKS, ScoredCells, ScoredRows, pooled, score_fields

SHIFTS = 30  # donors per row where all of them are over the limit
MOST_CALLS, MOST_RANKINGS = 400, 2000  # calls of the scorer for all shifts and values of a feature; and AUCs
CURVE = 20  # values of the PI curve where all of them are over the limit


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
    own: dict[str, ScoredRows] = {}  # of each engine
    features = {}
    for (subject, _), answer in zip(asked, answered, strict=True):
        if answer.engine not in own:
            prediction = method.tied(answer.sample.prediction, exact=answer.engine != task.engine.name)
            sample = replace(answer.sample, prediction=prediction, y=method.y, block=method.block)
            own[answer.engine] = ScoredRows(method.judge, sample, task.every)
        name = answer.feature.name
        features[name] = _feature_score(task, method, subject, answer, curves.get(name), own[answer.engine])
    return Scores(features, predicted + more + method.probed)


def rule_of(method: ScorerMethod) -> Callable[[Subject, int], Design]:
    """The rule of ``donors="auto"``: all shifts and values where they take few calls, which AUCs are faster than."""
    most = MOST_RANKINGS // method.sorts if method.sorts else MOST_CALLS

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
    each = 1 + (method.weight is not None or method.block is not None)  # with nothing replaced, too
    calls = 1 + sum(each * (n if d.all_pairs else w) * d.has_columns + w * d.common for d, w in asked)
    rows = float(n * calls)
    if not method.sorts:
        blocks = min(n, BLOCKS) if method.block is None else len(np.unique(method.block))
        calls += blocks
        rows += (blocks - 1) * n
        for d, w in asked:
            if d.has_columns:
                calls += 2 * blocks
                rows += 2 * blocks * n * min(n if d.all_pairs else w, pooled(n)) * (1 - 1 / blocks) ** 2
    return calls, rows


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
    elif y.dtype.names is None:  # events and times are read by the scorer alone
        checks.numbers(y, resolve("squared_error"))


def _feature_score(
    task: Task, method: ScorerMethod, subject: Subject, answer: budget.Answered, drawn: budget.Answered | None,
    own: ScoredRows,
) -> FeatureScore:  # fmt: skip
    """One feature: `answer` has the number, and `drawn`, if given, the curve."""
    question, number = _cells(task, method, subject, answer)
    asked_grid, grid = (question, number) if drawn is None else _cells(task, method, subject, drawn)
    kept = isinstance(own.judge, PredictionScore)
    return FeatureScore(
        name=answer.feature.name,
        columns=tuple(task.table.names[j] for j in answer.feature.columns),
        values=asked_grid.values,
        ordered=asked_grid.ordered,
        design=question.design,
        engine=answer.engine,
        declined=answer.declined,
        exact=question.design.is_exact(task.n) and question.meeting.has_mass,
        n_predictions=answer.filled.n_predictions + (0 if drawn is None else drawn.filled.n_predictions),
        shares=(answer if drawn is None else drawn).filled.means.weights,
        backend=task.table.backend,
        title=method.title,
        **score_fields(own, number, grid),
        own=own if kept else None,
        column_cells=number if kept else None,
        curve_cells=grid if kept else None,
    )


def _cells(task: Task, method: ScorerMethod, subject: Subject, answer: budget.Answered) -> tuple[Question, ScoredCells]:
    question = pose(subject, answer.design, task.n, task.entropy)
    cells = method.tied(answer.filled.cells.predictions, exact=answer.engine != task.engine.name)
    return question, ScoredCells(question.meeting, cells, question.design.has_columns)
