"""Importance by a scorer (AUC, R2), which gives one score for all rows.

The score needs no more predictions than a loss, and none of the model where an exact engine has them. Its error is the
jackknife's (`uncertainty/scored_cells.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from numpy.typing import NDArray

from losslens.cells.matrix import besides_cells
from losslens.donors.designs import All, Design, Grid, Latin
from losslens.donors.questions import Question, Subject, pose
from losslens.engines.choice import CHECKED
from losslens.engines.repeats import UNSTEADY
from losslens.losses import as_scorer, squared_error
from losslens.models import Model
from losslens.passes.outcomes import Evaluated, Outcome
from losslens.passes.scorers import ScorerMethod
from losslens.passes.task import FeatureDesign, Options, Task, prepare
from losslens.passes.ways import EXACT_PREDICTIONS, PAIR_AXIS, design_of, evaluate, exact_cost, route
from losslens.results.importance import FeatureImportance
from losslens.results.scores import FeatureScore, Scores
from losslens.survival_curves import has_survival_curves
from losslens.tables import checks
from losslens.tables.frames import Table, as_table
from losslens.text import size_in_words
from losslens.uncertainty.prediction_scores import PredictionScore
from losslens.uncertainty.scored_cells import ScoredCells, ScoredRows, score_fields

SHIFTS = 30  # donors per row where all of them are over the limit
MOST_CALLS, MOST_RANKINGS = 400, 2000  # calls of the scorer for all shifts and values of a feature; and AUCs
CURVE = 20  # values of the PI curve where all of them are over the limit


def score_importance(
    model: Model, X: Any, y: Any, scorer: Any, options: Options, by_losses: Sequence[FeatureImportance] = ()
) -> Scores:
    """Importance by a scorer: the score less its mean over the columns of the design.

    by_losses: importances of the same call, of whose predictions the score is computed where it reads the same.
    """
    method, task = prepare_scored(model, X, y, scorer, options)
    asked = scored_features(task, method)
    known = _predicted(task, method, [] if options.groups is not None else by_losses)
    asked = [(s, known[s.feature.name].design if s.feature.name in known else design) for s, design in asked]
    on_grid = curves_besides(task, asked)
    check_budget(task, [pose(*one, task.n, task.entropy) for one in (*asked, *on_grid)])
    new = [one for one in asked if one[0].feature.name not in known]
    found, predicted = evaluate(task, new) if new else ([], 0)
    drawn, more = evaluate(task, on_grid) if on_grid else ([], 0)
    if any(answer.engine != task.engine.name for (answer,) in drawn):
        more -= min(task.n, CHECKED)  # an exact engine is compared with the model once
    curves = _with_donors(task, on_grid, drawn)
    known |= _with_donors(task, new, found)
    own: dict[str, ScoredRows] = {}  # of each engine
    features = {}
    for answer in (known[subject.feature.name] for subject, _ in asked):
        if answer.engine not in own:
            prediction = method.tied(answer.sample.prediction, exact=answer.engine != task.engine.name)
            sample = replace(answer.sample, prediction=prediction, y=method.y, block=method.block, loss=None)
            own[answer.engine] = ScoredRows(method.judge, sample, task.every)
        name = answer.feature.name
        features[name] = _feature_score(task, method, answer, curves.get(name), own[answer.engine])
    return Scores(features, predicted + more + method.probed)


def _predicted(task: Task, method: ScorerMethod, known: Sequence[FeatureImportance]) -> dict[str, Evaluated]:
    """What importances by losses have asked the model: all their predictions, if they take few calls of the scorer."""
    answered, most = {}, most_calls(method)
    subjects = {s.feature.name: s for s in task.subjects}
    for one in known:
        subject = subjects[one.name]
        calls = task.n + len(subject.distinct) if one.design.all_pairs else one.layout.width
        exact = task.exact is not None and route(task, subject, task.design or All()).exact
        if (
            one.name in answered or one.loss.reads != method.response or one.engine != task.engine.name or exact
            or not one.complete or one.cells.predictions is None or not one.design.has_columns or calls > most
        ):  # fmt: skip
            continue
        declined = one.declined if one.declined == UNSTEADY else task.declined
        outcome = Outcome(values=one.values, ordered=one.ordered, layout=one.layout, means=one.means, cells=one.cells)
        answered[one.name] = Evaluated(subject.feature, one.design, one.engine, one.sample, outcome, declined)
    return answered


def _with_donors(
    task: Task, asked: Sequence[FeatureDesign], answered: Sequence[list[Evaluated]]
) -> dict[str, Evaluated]:
    """The answers with their values and donors, which passes leave for when they are asked for."""
    found = {}
    for (subject, _), (answer,) in zip(asked, answered, strict=True):
        question = pose(subject, answer.design, task.n, task.entropy)
        outcome = replace(answer.outcome, values=question.values, layout=question.layout)
        found[answer.feature.name] = replace(answer, outcome=outcome)
    return found


def scored_features(task: Task, method: ScorerMethod) -> list[FeatureDesign]:
    """The features with the designs of their numbers."""
    return [(s, design_of(task, s, rule_of(method), all_exact=False)) for s in task.subjects]


def most_calls(method: ScorerMethod) -> int:
    """Most columns of a feature: an AUC is faster than other scores."""
    return MOST_RANKINGS // method.sorts if method.sorts else MOST_CALLS


def rule_of(method: ScorerMethod) -> Callable[[Subject, int], Design]:
    """The rule of ``donors="auto"``: all shifts and values where they take few calls, which AUCs are faster than."""
    most = most_calls(method)

    def rule(subject: Subject, n: int) -> Design:
        if subject.feature.kind == "pair":
            return Grid(min(PAIR_AXIS, n), at="quantiles")
        few = n + len(subject.distinct) <= most and exact_cost(subject, n) <= EXACT_PREDICTIONS
        return All() if few else Latin(min(SHIFTS, n))

    return rule


def curves_besides(task: Task, asked: Sequence[FeatureDesign]) -> list[FeatureDesign]:
    """The features that ``donors="auto"`` samples, without common values: with the grid of their curve."""
    sampled = [subject for subject, design in asked if task.design is None and not design.common]
    return [(subject, Grid(min(CURVE, task.n), at="quantiles")) for subject in sampled]


def prepare_scored(model: Model, X: Any, y: Any, scorer: Any, options: Options) -> tuple[ScorerMethod, Task]:
    """Call the scorer once, to see which predictions it needs, and check the call."""
    if y is None:
        raise ValueError("y, the true values, is missing; for curves of predictions use feature_effect")
    scorer = as_scorer(scorer, model.native)
    table, weight = as_table(X), options.sample_weight
    truth = _target(model, y, table)
    weight = None if weight is None else checks.row_weights(weight, table.n, table.index) * table.n
    block = checks.group_numbers(options.groups, table.n, table.index)
    scored = ScorerMethod.of(model, table, truth, scorer, weight, block)
    cells = replace(options, groups=None)  # of all pairs; those inside groups are left out of the scores
    task = prepare(model, table, None, cells, loss=None, response=scored.response)
    if truth.ndim == 2:  # a cell has all of them
        task = replace(task, budget=replace(task.budget, cell_bytes=8 * truth.shape[1] + 8))
    if task.design is not None and task.design.conditional:
        raise ValueError(f"{task.design!r} draws values given the other columns, which needs a loss, not a scorer")
    return scored, task


def check_budget(task: Task, questions: Sequence[Question]) -> None:
    """Raise ValueError unless all cells fit into memory."""
    n = task.n
    if not task.budget.fits(questions, n):
        needs = size_in_words(2 * n * task.budget.row_bytes(questions) + besides_cells(n, len(questions)))
        raise ValueError(f"a scorer needs all cells at once; pass memory='{needs}' or a design with fewer donors")


def _target(model: Model, y: Any, table: Table) -> NDArray[Any]:
    """The true values, (n,), or (n, K) of a model of several outputs."""
    names = None if model.kind == "classifier" else checks.output_names(y)
    if names is not None and has_survival_curves(model.native):
        raise ValueError(
            f"y has the columns {names[0]} and {names[1]}, and a score of {model.name} reads a structured array of "
            "(event, time): sksurv.util.Surv.from_arrays(event, time)"
        )
    if names is not None:
        return checks.columns_of(y, names, table.n, table.index)
    truth = checks.vector(y, table.n, "y", table.index)
    if model.kind == "classifier":
        observed = checks.observed_classes(truth)
        if model.classes is not None:
            checks.class_positions(observed, model.classes, model.name)
    elif truth.dtype.names is None:  # events and times are read by the scorer alone
        checks.numbers(truth, squared_error)
    return truth


def _feature_score(
    task: Task, method: ScorerMethod, answer: Evaluated, drawn: Evaluated | None, own: ScoredRows
) -> FeatureScore:  # fmt: skip
    """One feature: `answer` has the number, and `drawn`, if given, the curve."""
    number = _cells(task, method, answer)
    on_grid, grid = (answer, number) if drawn is None else (drawn, _cells(task, method, drawn))
    kept = isinstance(own.judge, PredictionScore)
    return FeatureScore(
        name=answer.feature.name,
        columns=tuple(task.table.names[j] for j in answer.feature.columns),
        values=on_grid.outcome.values,
        ordered=on_grid.outcome.ordered,
        design=answer.design.remembered,
        engine=answer.engine,
        declined=answer.declined or _why_sampled(task, method, answer),
        exact=answer.design.is_exact(task.n) and number.layout.has_mass and answer.declined != UNSTEADY,
        n_predictions=answer.outcome.n_predictions + (0 if drawn is None else drawn.outcome.n_predictions),
        shares=on_grid.outcome.means.weights,
        backend=task.table.backend,
        title=method.title,
        **score_fields(own, number, grid),
        own=own if kept else None,
        column_cells=number if kept else None,
        curve_cells=grid if kept else None,
    )


def wanted_sample(design: Design) -> str:
    """Why some pairs of rows are scored, where the caller wants these."""
    return f"donors={design.remembered!r} asks for some of the pairs of rows"


def _why_sampled(task: Task, method: ScorerMethod, answer: Evaluated) -> str:
    """Why an exact engine filled the cells of some shifts, not of all; empty if nothing is sampled."""
    if answer.design.is_exact(task.n) or answer.feature.kind == "pair":
        return ""
    if task.design is not None:
        return wanted_sample(answer.design)
    return f"with all shifts the scorer would be called over {most_calls(method):,} times, or there are too many cells"


def _cells(task: Task, method: ScorerMethod, answer: Evaluated) -> ScoredCells:
    cells = method.tied(answer.outcome.cells.predictions, exact=answer.engine != task.engine.name)
    return ScoredCells(answer.outcome.layout, cells, answer.design.has_columns)
