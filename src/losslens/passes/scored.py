"""Importance by a scorer (AUC, R2), which gives one score for all rows.

Functions of a mean loss are its importances on another scale (`results/mean_scores.py`). AUCs, scores of the table of
classes and average precision are computed of the pooled cells (`uncertainty/pooled_scores.py`), all other scores column
by column (`uncertainty/scored_cells.py`). None needs more predictions than a loss, and none of the model where an exact
engine has them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from losslens.cells.matrix import besides_cells
from losslens.cells.pool import Pool
from losslens.donors.designs import All, Design, Grid, Latin
from losslens.donors.layout import CommonGrid, Layout
from losslens.donors.questions import Question, Subject, pose
from losslens.engines.blackbox import UNSTEADY
from losslens.engines.choice import CHECKED
from losslens.losses import Loss, as_scorer, is_scorer, squared_error, title_of
from losslens.models import Model, has_survival_curves
from losslens.passes import step_curves
from losslens.passes.outputs import is_alone
from losslens.passes.scorers import ScorerMethod, metric_of
from losslens.passes.task import FeatureDesign, Options, Task, default_loss, prepare
from losslens.passes.ways import EXACT_PREDICTIONS, PAIR_AXIS, design_of, evaluate, exact_cost, route
from losslens.results.effects import FeatureEffect
from losslens.results.feature import FeatureResult
from losslens.results.importance import FeatureImportance
from losslens.results.importances import Importances
from losslens.results.mean_scores import MEAN_SCORES, MeanScore, Scale
from losslens.results.scores import FeatureScore, Scores
from losslens.tables import checks
from losslens.tables.frames import Table, as_table
from losslens.tables.frozen import deferred
from losslens.tables.sample import Sample
from losslens.text import size_in_words
from losslens.typing import Floats
from losslens.uncertainty.pooled_scores import PooledScore, shown_values
from losslens.uncertainty.prediction_scores import PredictionScore, is_made, name_of
from losslens.uncertainty.scored_cells import ColumnScore, ScoredCells, ScoredRows

# What the score of a feature has of its importance by a loss.
SHARED = ("name", "columns", "ordered", "design", "engine", "exact", "n_predictions", "declined", "backend")
SHIFTS = 30  # donors per row where all of them are over the limit
STEP_BYTES, MOST_INSIDE = 600, 5e6  # of a row and feature as steps; pairs inside groups, which are left out one by one
CURVE = 20  # values of the PI curve where all of them are over the limit


def mean_score(model: Model, loss: Any, y: Any) -> tuple[Loss, Scale] | None:
    """The loss of which a scorer is a function of the mean, as the model's y has it; None for other scorers."""
    scorer = metric_of(as_scorer(loss, model.native), model.native) if is_scorer(loss) else None
    if scorer is None or not is_made(scorer) or not hasattr(model.native, "predict") or y is None:
        return None
    if (mean := MEAN_SCORES.get(name_of(scorer))) is None:
        return None
    found, scale = mean
    of_numbers = found.reads == "values"
    if found.reads not in model.responses or of_numbers == (model.kind == "classifier"):  # labels scored as numbers
        return None
    return default_loss(model, found, y), scale


def by_scores(
    model: Model, X: Any, y: Any, scorers: Mapping[str, Any], means: Mapping[str, tuple[Loss, Scale]],
    options: Options, by_losses: Mapping[str, Importances],
) -> dict[str, Scores]:  # fmt: skip
    """Importances by scorers: those by their mean losses on another scale, or from predictions of the same call."""
    predicted = [one for several in by_losses.values() for one in several.values() if not is_alone(one.loss)]
    return {
        name: as_scores(by_losses[name], title_of(as_scorer(scorer, model.native)), means[name][1])
        if name in means
        else score_importance(model, X, y, scorer, options, predicted)
        for name, scorer in scorers.items()
    }


def as_scores(importances: Importances, title: str, scale: Scale) -> Scores:
    """The scores that are functions of the mean losses of these importances."""
    outputs = list(importances.by_output.values()) if scale in ("share explained", "root") else []
    features = {}
    for name, one in importances.items():
        parts = tuple(output[name] for output in outputs) or (one,)
        shared = {field: getattr(one, field) for field in SHARED}
        features[name] = FeatureScore(**shared, title=title, scored=MeanScore(parts=parts, scale=scale))
    if undefined := next(iter(features.values())).undefined:
        raise ValueError(f"{title} is not defined: {undefined}")
    return Scores(features, importances.n_predictions)


def score_importance(
    model: Model, X: Any, y: Any, scorer: Any, options: Options, by_losses: Sequence[FeatureImportance] = ()
) -> Scores:
    """Importance by a scorer: the score less that of the pooled cells, or the mean over the columns of the design.

    by_losses: importances of the same call, of whose predictions the score is computed where it reads the same.
    """
    method, task = prepare_scored(model, X, y, scorer, options)
    designs = scored_features(task, method)
    predicted = _predicted(task, method, [] if options.groups is not None else by_losses)
    designs = [
        (s, predicted[s.feature.name].design if s.feature.name in predicted else design) for s, design in designs
    ]
    as_steps = [one for one in designs if one[0].feature.name not in predicted and in_steps(task, method, *one)]
    cells = [one for one in designs if one not in as_steps]
    on_grid = curves_besides(task, cells)
    check_budget(task, [pose(*one, task.n, task.entropy) for one in (*cells, *on_grid)])
    new = [one for one in cells if one[0].feature.name not in predicted]
    evaluated, n_predictions = _with_donors(task, [*new, *on_grid])
    predicted |= {one.name: one for one in evaluated[: len(new)]}
    curves = {one.name: one for one in evaluated[len(new) :]}
    judged, asked = _Judged(task, method), 0 if task.exact is None else task.exact.asked
    features = judged.of_steps(as_steps)
    n_predictions += 0 if task.exact is None else task.exact.asked - asked
    if as_steps and all(one.engine == task.engine.name for one in evaluated):
        n_predictions += min(task.n, CHECKED)
    for name in (subject.feature.name for subject, _ in cells):
        features[name] = judged.of_cells(predicted[name], curves.get(name))
    return Scores({s.feature.name: features[s.feature.name] for s, _ in designs}, n_predictions + method.probed)


def in_steps(task: Task, method: ScorerMethod, subject: Subject, design: Design) -> bool:
    """Whether the cells are read off the steps of curves, which are kept: an exact engine has these, and they fit."""
    if not method.pools or not design.all_pairs or task.exact is None:
        return False
    found = route(task, subject, design)
    inside = 0 if method.block is None else int(np.sum(np.bincount(method.block) ** 2.0))
    return found.exact and found.way == "steps" and inside <= MOST_INSIDE and _steps_fit(task)


def _steps_fit(task: Task) -> bool:
    return STEP_BYTES * task.n * len(task.subjects) <= task.budget.memory


@dataclass(frozen=True, eq=False)
class _Judged:
    """Makes the scores of features from cells."""

    task: Task
    method: ScorerMethod
    own: dict[str, Sample] = field(default_factory=dict)  # the rows, of each engine
    scored: dict[str, ScoredRows] = field(default_factory=dict)  # which share what they compute

    def of_steps(self, designs: Sequence[FeatureDesign]) -> dict[str, FeatureScore]:
        """Of exact curves."""
        if not designs:
            return {}
        task, questions = self.task, [pose(*one, self.task.n, self.task.entropy) for one in designs]
        blank = replace(task.sample, y=self.method.y, block=self.method.block)
        sample, pools = step_curves.pools(task, task.exact, questions, blank)
        return {
            subject.feature.name: FeatureScore(
                name=subject.feature.name, columns=tuple(task.table.names[j] for j in subject.feature.columns),
                ordered=question.ordered, design=design.remembered, engine=task.exact.name, n_predictions=0,
                exact=design.is_exact(task.n), backend=task.table.backend, title=self.method.title,
                scored=self._pooled(sample, pool, pool, question.values, _shares(question.layout, task.sample)),
            )
            for (subject, design), question, pool in zip(designs, questions, pools, strict=True)
        }  # fmt: skip

    def of_cells(self, answer: FeatureResult, drawn: FeatureResult | None) -> FeatureScore:
        """Of predicted cells: `answer` has the number, and `drawn`, if given, the curve."""
        method, on_grid = self.method, answer if drawn is None else drawn
        sample = self._sample(answer)
        (layout, cells), (grid_layout, grid_cells) = self._cells(answer), self._cells(on_grid)
        values, shares = on_grid.values, on_grid.means.weights
        if method.pools:
            pool = deferred(Pool.of_cells, sample, cells, layout) if layout.has_mass else None
            grid: Any = None
            if isinstance(grid_layout, CommonGrid):
                same = grid_cells is cells and pool is not None
                grid = pool if same else deferred(Pool.of_cells, sample, grid_cells, grid_layout)
            scored: Any = self._pooled(sample, pool, grid, values, _shares(grid_layout, sample))
        else:
            own = self._rows(answer.engine, sample)
            number, curve = (
                ScoredCells(own_layout, kept_cells, one.design.has_columns)
                for own_layout, kept_cells, one in ((layout, cells, answer), (grid_layout, grid_cells, on_grid))
            )
            keeps = isinstance(method.judge, PredictionScore)
            scored = ColumnScore.of(own, number, curve, values, shares, method.title, keeps=keeps)
        shared = {name: getattr(answer, name) for name in SHARED} | {
            "n_predictions": answer.n_predictions + (0 if drawn is None else drawn.n_predictions),
            "declined": answer.declined or _why_sampled(self.task, answer),
        }
        return FeatureScore(**shared, title=method.title, scored=scored)

    def _pooled(self, sample: Sample, pool: Any, grid: Any, values: Any, shares: Any) -> PooledScore:
        values = tuple(one[shown_values(len(one))] for one in values) if len(values) == 1 else values
        assert isinstance(self.method.judge, PredictionScore)  # others are not pooled
        return PooledScore(
            judge=self.method.judge, pool=pool, grid=grid, values=values, shares=shares, every=sample,
            at=self.task.every,
        )  # fmt: skip

    def _sample(self, answer: FeatureResult) -> Sample:
        if answer.engine not in self.own:
            exact = answer.engine != self.task.engine.name
            prediction = self.method.tied(answer.sample.prediction, exact=exact)
            self.own[answer.engine] = replace(
                answer.sample, prediction=prediction, y=self.method.y, block=self.method.block, loss=None
            )
        return self.own[answer.engine]

    def _rows(self, engine: str, sample: Sample) -> ScoredRows:
        if engine not in self.scored:
            self.scored[engine] = ScoredRows(self.method.judge, sample, self.task.every)
        return self.scored[engine]

    def _cells(self, answer: FeatureResult) -> tuple[Layout, NDArray[Any]]:
        exact = answer.engine != self.task.engine.name
        return answer.layout, self.method.tied(answer.cells.predictions, exact=exact)


def _shares(layout: Layout, sample: Sample) -> Floats | None:
    """The share of the donors at each value of the curve, or nearest to it."""
    if not isinstance(layout, CommonGrid) or not layout.has_mass:
        return None
    shown = shown_values(layout.size)
    nearest = np.searchsorted((shown[1:] + shown[:-1]) / 2, layout.own[layout.donors])
    share = np.bincount(nearest, sample.weight[layout.donors], len(shown))
    return np.asarray(share / share.sum())


def _predicted(
    task: Task, method: ScorerMethod, by_losses: Sequence[FeatureImportance]
) -> dict[str, FeatureImportance | FeatureEffect]:
    """What importances by losses have asked the model: all their predictions, if they take few calls of the scorer."""
    predicted: dict[str, FeatureImportance | FeatureEffect] = {}
    subjects = {s.feature.name: s for s in task.subjects}
    for one in by_losses:
        exact = task.exact is not None and route(task, subjects[one.name], task.design or All()).exact
        few = method.pools or (task.n if one.design.all_pairs else one.layout.width) <= SHIFTS
        if (
            one.name in predicted or one.loss.reads != method.response or one.engine != task.engine.name or exact
            or not one.complete or one.cells.predictions is None or not one.design.has_columns or not few
        ):  # fmt: skip
            continue
        declined = one.declined if one.declined == UNSTEADY else task.declined
        predicted[one.name] = replace(one, declined=declined, n_predictions=0)
    return predicted


def _with_donors(task: Task, designs: Sequence[FeatureDesign]) -> tuple[list[FeatureEffect], int]:
    """The cells of features, with values and donors, which passes leave for when they are asked for."""
    if not designs:
        return [], 0
    evaluated, n_predictions = evaluate(task, designs)
    questions = [pose(*one, task.n, task.entropy) for one in designs]
    return [
        replace(one, values=question.values, layout=question.layout)
        for (one,), question in zip(evaluated, questions, strict=True)
    ], n_predictions


def scored_features(task: Task, method: ScorerMethod) -> list[FeatureDesign]:
    """The features with the designs of their numbers.

    ``donors="auto"`` takes all pairs where an exact engine has them as steps, or where they are few, and else 30
    shifts: always of a score that is computed column by column.
    """

    def rule(subject: Subject, n: int) -> Design:
        if subject.feature.kind == "pair":
            return Grid(min(PAIR_AXIS, n), at="quantiles")
        few = exact_cost(subject, n) <= EXACT_PREDICTIONS if method.pools else n <= SHIFTS
        return All() if few or in_steps(task, method, subject, All()) else Latin(min(SHIFTS, n))

    return [(s, design_of(task, s, rule, all_exact=False)) for s in task.subjects]


def curves_besides(task: Task, designs: Sequence[FeatureDesign]) -> list[FeatureDesign]:
    """The features that ``donors="auto"`` samples, without common values: with the grid of their curve."""
    sampled = [subject for subject, design in designs if task.design is None and not design.common]
    return [(subject, Grid(min(CURVE, task.n), at="quantiles")) for subject in sampled]


def prepare_scored(
    model: Model, X: Any, y: Any, scorer: Any, options: Options, *, exact: bool = True
) -> tuple[ScorerMethod, Task]:
    """Call the scorer once, to see which predictions it needs, and check the call; by the model unless `exact`."""
    if y is None:
        raise ValueError("y, the true values, is missing; for curves of predictions use feature_effect")
    scorer = as_scorer(scorer, model.native)
    table, weight = as_table(X), options.sample_weight
    truth = _target(model, y, table)
    weight = None if weight is None else checks.row_weights(weight, table.n, table.index) * table.n
    block = checks.group_numbers(options.groups, table.n, table.index)
    scored = ScorerMethod.of(model, table, truth, scorer, weight, block)
    cells = replace(options, groups=None)  # of all pairs; those inside groups are left out of the scores
    task = prepare(model, table, None, cells, loss=None, response=scored.response, exact=exact)
    if truth.ndim == 2:  # a cell has all of them
        task = replace(task, budget=replace(task.budget, cell_bytes=8 * truth.shape[1] + 8))
    if task.design is not None and task.design.conditional:
        raise ValueError(f"{task.design!r} draws values given the other columns, which needs a loss, not a scorer")
    return scored, task


def check_budget(task: Task, questions: Sequence[Question]) -> None:
    """Raise ValueError unless all cells fit into memory."""
    n = task.n
    if questions and not task.budget.fits(questions, n):
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


def why_a_sample(design: Design) -> str:
    """Why some pairs of rows are scored, where the caller wants these."""
    return f"donors={design.remembered!r} asks for some of the pairs of rows"


def _why_sampled(task: Task, answer: FeatureResult) -> str:
    """Why an exact engine filled the cells of some shifts, not of all; empty if nothing is sampled."""
    if answer.design.is_exact(task.n) or len(answer.values) == 2:
        return ""
    if task.design is not None:
        return why_a_sample(answer.design)
    return f"sampled, as all pairs take longer than {SHIFTS} shifts: donors='all' takes them"
