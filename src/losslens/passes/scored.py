"""Importance by a scorer (AUC, R2), which gives one score for all rows.

A scikit-learn scorer calls the methods of an estimator. Here it gets a stand-in that returns the predictions of the
cells, so that a scorer needs no more predictions than a loss, and none of the model where an exact engine has them.
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
from losslens.passes import budget
from losslens.passes.auto import first_design
from losslens.passes.dispatch import ask, design_of
from losslens.passes.task import Options, Task, prepare
from losslens.results.scores import FeatureScore, Scores
from losslens.tables import checks
from losslens.tables.frames import Batch, Table, as_table
from losslens.text import size_in_words
from losslens.typing import Floats, Indices

METHODS = ("predict", "predict_proba", "decision_function")
SHIFTS = 30  # donors per row where all of them are over the limit
TIED = 64 * float(np.finfo(np.float64).eps)  # relative difference up to which an exact engine's predictions are equal

Score = Callable[[NDArray[Any], Floats | None], float]


def score_importance(model: Model, X: Any, y: Any, scorer: Any, options: Options) -> Scores:
    """Importance by a scorer: the score less its mean over the columns of the design."""
    method, task = prepare_scored(model, X, y, scorer, options)
    asked = [(s, design_of(task, s, score_design, all_exact=False)) for s in task.subjects]
    questions = [pose(subject, design, task.n, task.entropy) for subject, design in asked]
    check_budget(task, questions, task.n)
    answered, predicted = ask(task, asked)
    base: dict[str, float] = {}  # of each engine
    features = {}
    for question, answer in zip(questions, answered, strict=True):
        exact = answer.engine != task.engine.name
        if answer.engine not in base:
            base[answer.engine] = method.score(method.tied(answer.sample.prediction, exact=exact), method.weight)
        cells = method.tied(answer.filled.cells.predictions, exact=exact)
        features[answer.feature.name] = _feature_score(task, question, answer, cells, method, base[answer.engine])
    return Scores(features, predicted + method.probed)


@dataclass(frozen=True, eq=False)
class ScorerMethod:
    """A scorer, the response that it reads, and its function of predictions."""

    title: str
    response: Response
    score: Score
    weight: Floats | None  # of the rows, which sum to n
    probed: int  # rows that were predicted to see which method of the model it calls

    def tied(self, predictions: NDArray[Any], *, exact: bool) -> NDArray[Any]:
        """The predictions of an exact engine, made equal where they differ by rounding: ranks would tell them apart.

        Equal rows have equal predictions of the model, but an engine that adds up what differs between rows rounds each
        in another way. Rounding is relative to each probability, of other responses to the largest.
        """
        if not exact or predictions.dtype.kind != "f":
            return predictions
        values = np.unique(predictions)
        scale = np.abs(values[1:]) if self.response == "probabilities" else np.abs(values).max()
        new = np.diff(values) > TIED * scale
        if new.all():
            return predictions
        first = values[np.concatenate([[True], new])]
        return np.asarray(first[np.searchsorted(first, predictions, side="right") - 1])


def prepare_scored(model: Model, X: Any, y: Any, scorer: Any, options: Options) -> tuple[ScorerMethod, Task]:
    """Call the scorer once, to see which predictions it needs, and check the call."""
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
    method, probed = _method_used(model, table, truth, weight, scorer)
    every = Batch(table).fill(np.arange(table.n), [])  # a copy: a scorer may write to it
    score = _replay(model, scorer, method, every, truth)
    scored = ScorerMethod(_title(scorer), _response(model, method), score, weight, probed)
    task = prepare(model, table, None, options, loss=None, response=scored.response, any_design=True)
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
    task: Task, question: Question, answer: budget.Answered, cells: NDArray[Any], method: ScorerMethod, base: float
) -> FeatureScore:
    score, weight, part = method.score, method.weight, answer.filled
    meeting, feature = question.meeting, answer.feature
    columns = [] if not question.design.has_columns or not meeting.has_mass else list(_columns(question, weight))
    on_grid = isinstance(meeting, CommonGrid)
    return FeatureScore(
        name=feature.name,
        columns=tuple(task.table.names[j] for j in feature.columns),
        values=question.values,
        ordered=question.ordered,
        design=question.design,
        engine=answer.engine,
        declined=answer.declined,
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


def _few_rows(model: Model, y: NDArray[Any], weight: Floats | None) -> Indices:
    """Some rows that have weight, with all classes among them."""
    some = np.arange(len(y)) if weight is None else np.flatnonzero(weight)
    spread = some[np.linspace(0, len(some) - 1, CHECKED).astype(np.intp)]
    first = some[np.unique(y[some], return_index=True)[1]] if model.kind == "classifier" else spread
    return np.union1d(spread, first)


def _method_used(model: Model, table: Table, y: NDArray[Any], weight: Floats | None, scorer: Any) -> tuple[str, int]:
    """The method of the model that the scorer calls, and the rows that were predicted to see it.

    A few rows show it; a scorer that fails on these, which may need all of them, gets all.
    """
    rows, every = _few_rows(model, y, weight), np.arange(len(y))
    if len(rows) < len(y):
        try:
            return _method_called(model, table, rows, y, weight, scorer), len(rows)
        except Exception:  # noqa: BLE001 - whatever a scorer raises that reads other rows, too
            pass
    return _method_called(model, table, every, y, weight, scorer), len(y)


def _method_called(
    model: Model, table: Table, some: Indices, y: NDArray[Any], weight: Floats | None, scorer: Any
) -> str:
    """The method of the model that the scorer calls; any of them, if its score depends on no predictions."""
    called: list[str] = []
    rows, y = Batch(table).fill(some, []), y[some]
    weight = None if weight is None else weight[some]

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
