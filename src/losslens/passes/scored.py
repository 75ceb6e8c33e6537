"""Importance by a scorer (AUC, R2), which gives one score for all rows.

A scikit-learn scorer calls the methods of an estimator. Here it gets a stand-in that returns the predictions of the
cells, so that a scorer needs no more predictions than a loss.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from losslens.cells.matrix import besides_cells
from losslens.donors.designs import Design, Latin
from losslens.donors.layout import CommonGrid
from losslens.donors.questions import Question, Subject, pose
from losslens.engines.choice import CHECKED
from losslens.losses import Response, call_read_only, resolve
from losslens.models import Model
from losslens.passes import budget, dense
from losslens.passes.auto import first_design
from losslens.passes.task import Options, Task, prepare
from losslens.progress import bar
from losslens.results.scores import FeatureScore, Scores
from losslens.tables import checks
from losslens.tables.frames import Batch, as_table
from losslens.tables.sample import Sample
from losslens.text import size_in_words
from losslens.typing import Floats, Indices

METHODS = ("predict", "predict_proba", "decision_function")
SCORED = "a scorer needs the predictions of all rows at once, and exact engines give mean losses"
SHIFTS = 30  # donors per row where all of them are over the limit

Score = Callable[[NDArray[Any], Floats | None], float]


def score_importance(model: Model, X: Any, y: Any, scorer: Any, options: Options) -> Scores:
    """Importance by a scorer: the score less its mean over the columns of the design."""
    method, task = prepare_scored(model, X, y, scorer, options)
    questions = [pose(s, task.design or score_design(s, task.n), task.n, task.entropy) for s in task.subjects]
    check_budget(task, questions, task.n)
    sample, filled, predicted = predicted_cells(task, questions)
    base = method.score(sample.prediction, method.weight)
    features = {}
    for question, part in zip(questions, filled, strict=True):
        features[question.subject.feature.name] = _feature_score(task, question, part, method, base)
    return Scores(features, predicted + task.n)  # and once to see which method the scorer calls


def predicted_cells(task: Task, questions: Sequence[Question]) -> tuple[Sample, list[budget.Filled], int]:
    """All cells, and the number of predictions."""
    with bar(task.n + sum(q.ask.most(task.n) for q in questions), "explaining", task.progress) as tick:
        return dense.run(task.engine, questions, task.sample, None, task.budget, np.arange(task.n), tick)


@dataclass(frozen=True, eq=False)
class ScorerMethod:
    """A scorer, the response that it reads, and its function of predictions."""

    title: str
    response: Response
    score: Score
    weight: Floats | None  # of the rows, which sum to n


def prepare_scored(
    model: Model, X: Any, y: Any, scorer: Any, options: Options, few: bool = False
) -> tuple[ScorerMethod, Task]:
    """Call the scorer once, on all rows or on a few, to see which predictions it needs, and check the call."""
    if options.groups is not None:
        raise ValueError(
            "groups= needs a loss, because a scorer can't leave out single cells; pass loss= instead of a scorer"
        )
    if y is None:
        raise ValueError("y, the true values, is missing; for curves of predictions use feature_effect")
    table, weight = as_table(X), options.sample_weight
    truth = checks.vector(y, table.n, "y", table.index)
    weight = None if weight is None else checks.row_weights(weight, table.n, table.index) * table.n
    _check_target(model, truth)
    batch, rows = Batch(table), _few_rows(model, truth) if few else np.arange(table.n)
    some = None if weight is None else weight[rows]
    method = _method_used(model, batch.fill(rows, []), truth[rows], some, scorer)
    every = batch.fill(np.arange(table.n), [])  # a copy: a scorer may write to it
    score = _replay(model, scorer, method, every, truth)
    scored = ScorerMethod(_title(scorer), _response(model, method), score, weight)
    task = prepare(model, table, None, options, loss=None, response=scored.response, exact=False)
    if task.design is not None and task.design.conditional:
        raise ValueError(f"{task.design!r} draws values given the other columns, which needs a loss, not a scorer")
    return scored, task


def check_budget(task: Task, questions: Sequence[budget.HasWidth], n: int) -> None:
    """Raise ValueError unless all cells of n rows fit into memory."""
    if not task.budget.fits(questions, n):
        needs = size_in_words(2 * n * task.budget.row_bytes(questions) + besides_cells(n, len(questions)))
        raise ValueError(f"a scorer needs all cells at once; pass memory='{needs}' or a design with fewer donors")


def score_design(subject: Subject, n: int) -> Design:
    """The rule of ``donors="auto"`` for scorers: shifts where all values are over the limit."""
    design = first_design(subject, n)
    return Latin(min(SHIFTS, n)) if not design.common else design


def _feature_score(
    task: Task, question: Question, part: budget.Filled, method: ScorerMethod, base: float
) -> FeatureScore:
    score, weight = method.score, method.weight
    cells, meeting, feature = part.cells.predictions, question.meeting, question.subject.feature
    columns = [] if not question.design.has_columns or not meeting.has_mass else list(_columns(question, weight))
    on_grid = isinstance(meeting, CommonGrid)
    return FeatureScore(
        name=feature.name,
        columns=tuple(task.table.names[j] for j in feature.columns),
        values=question.values,
        ordered=question.ordered,
        design=question.design,
        engine=task.engine.name,
        declined=task.declined or SCORED,
        exact=question.design.is_exact(task.n) and meeting.has_mass,
        n_predictions=part.n_predictions,
        title=method.title,
        score=base,
        column_scores=np.array([score(cells[c.at], c.weight) for c in columns]) if columns else None,
        column_shares=np.array([c.share for c in columns]) / sum(c.share for c in columns) if columns else None,
        curve=np.array([score(cells[:, v], weight) for v in range(meeting.size)]) if on_grid else None,
        shares=part.means.weights,
        backend=task.table.backend,
    )


@dataclass(frozen=True, eq=False)
class ReplacedColumn:
    """Each row with one donor: a column of the design. With weights the weight of a cell is w_i w_k."""

    at: tuple[Indices, Any]  # the cells
    weight: Floats | None
    share: float


def _columns(question: Question, weight: Floats | None) -> Iterator[ReplacedColumn]:
    """The columns of the design; for all pairs the n cyclic shifts."""
    meeting = question.meeting
    n = question.ask.own.shape[0]
    every = np.arange(n)
    drawn = None if isinstance(meeting, CommonGrid) else np.asarray(meeting.donors[:])
    for t in range(int(meeting.leaves_out_own and drawn is None), n if drawn is None else drawn.shape[1]):
        donors = np.roll(every, -t) if drawn is None else drawn[:, t]
        pair = None if weight is None else weight * weight[donors]
        if pair is not None and not pair.any():
            continue  # no pair has weight
        at = (every, meeting.own[donors] if isinstance(meeting, CommonGrid) else np.full(n, t))
        yield ReplacedColumn(at, pair, 1.0 if pair is None else float(pair.sum()))


def _check_target(model: Model, y: NDArray[Any]) -> None:
    if model.kind == "classifier":
        observed = checks.observed_classes(y)
        if model.classes is not None:
            checks.class_positions(observed, model.classes, model.name)
    else:
        checks.numbers(y, resolve("squared_error"))


class _StandIn:
    """Looks like the model to a scorer, but its prediction methods call `answer`, and so does its `score`."""

    def __init__(self, native: Any, answer: Callable[[str, Any], Any]) -> None:
        self._native, self._answer = native, answer

    @property  # type: ignore[misc]
    def __class__(self) -> type:  # super() inside the model's own methods asks for it
        return type(self._native)

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._native, name)  # first: a method that the model lacks must be missing here too
        if name == "score":
            return partial(_score, self, self._native)
        if name not in METHODS:
            return attribute
        answer = partial(self._answer, name)
        answer.__name__ = name  # type: ignore[attr-defined]  # scikit-learn reads it
        return answer


def _score(stand_in: _StandIn, native: Any, X: Any, y: Any, **options: Any) -> Any:
    """The model's method `score`, with the predictions of the stand-in.

    A pipeline calls that of its last step, with transformed rows; a search over parameters its own scorer.
    """
    if hasattr(native, "steps"):
        return _score(stand_in, native.steps[-1][1], X, y, **options)
    if hasattr(native, "best_estimator_"):
        scorer = native.scorer_[native.refit] if native.multimetric_ else native.scorer_
        return scorer(_StandIn(native.best_estimator_, stand_in._answer), X, y, **options)
    return type(native).score(stand_in, X, y, **options)


def _few_rows(model: Model, y: NDArray[Any]) -> Indices:
    """Some rows, with all classes among them."""
    spread = np.linspace(0, len(y) - 1, CHECKED).astype(np.intp)
    return np.union1d(spread, np.unique(y, return_index=True)[1]) if model.kind == "classifier" else np.unique(spread)


def _method_used(model: Model, rows: Any, y: NDArray[Any], weight: Floats | None, scorer: Any) -> str:
    """The method of the model that the scorer calls; any of them, if its score depends on no predictions."""
    called: list[str] = []

    def note(method: str, X: Any) -> Any:
        called.append(method)
        return getattr(model.native, method)(X)

    def score(rows: Any) -> Any:
        return _call(scorer, lambda _: _StandIn(model.native, note), rows, y, weight)

    if not hasattr(model.native, "predict"):
        raise TypeError(f"a scorer needs an estimator with predict; {model.name} is a bare function: pass a loss")
    value = score(rows)
    if not np.isscalar(value) or not np.isfinite(value):
        raise ValueError(f"the scorer {_title(scorer)} returned {value!r}, not one finite number")
    if not called and _is_constant(score, value):
        return "predict"
    if len(set(called)) != 1:
        raise ValueError(
            f"the scorer {_title(scorer)} called {called or 'none'} of {METHODS}; it must call exactly one of them"
        )
    return called[0]


def _is_constant(score: Callable[[Any], Any], value: Any) -> bool:
    """Whether a score that is computed without predictions doesn't read the rows either."""
    try:
        return bool(score(None) == value)
    except Exception:  # noqa: BLE001 - whatever a scorer raises that wants to read the rows
        return False


def _response(model: Model, method: str) -> Response:
    if method == "predict":
        return "labels" if model.kind == "classifier" else "values"
    return "probabilities" if method == "predict_proba" else "scores"


def _replay(model: Model, scorer: Any, method: str, rows: Any, y: NDArray[Any]) -> Score:
    def score(predictions: NDArray[Any], weight: Floats | None) -> float:
        labels = model.kind == "classifier" and method == "predict"
        answers = model.classes[predictions] if labels and model.classes is not None else predictions
        return float(_call(scorer, lambda given: _StandIn(model.native, lambda *_: given), rows, y, weight, answers))

    return score


def _call(
    scorer: Any, stand_in: Callable[[Any], _StandIn], rows: Any, y: NDArray[Any], weight: Floats | None,
    predictions: NDArray[Any] | None = None,
) -> Any:  # fmt: skip
    """The score of a stand-in for the model, made of the predictions that it returns, if these are known."""

    def score(predictions: Any, y: Any, weight: Any) -> Any:
        options = {} if weight is None else {"sample_weight": weight}
        return scorer(stand_in(predictions), rows, y, **options)

    try:
        return call_read_only(score, f"the scorer {_title(scorer)}", predictions, y, weight)
    except AttributeError as error:
        if "has none of the following attributes" not in str(error):  # scikit-learn's words
            raise
        raise ValueError(f"the scorer {_title(scorer)} is for other models: {error} Pass another loss") from error
    except TypeError as error:
        if weight is None or "sample_weight" not in str(error):
            raise
        raise TypeError(f"the scorer {_title(scorer)} takes no sample_weight; leave it out, or use a loss") from error


def _title(scorer: Any) -> str:
    function = getattr(scorer, "_score_func", None)
    # `check_scoring(model)` gives a scorer that calls the model's own method `score`.
    kind = type(scorer).__name__.replace("_PassthroughScorer", "score")
    name = str(getattr(function, "__name__", kind))
    return f"neg_{name}" if getattr(scorer, "_sign", 1) < 0 else name
