"""Averaged metrics (AUC, R2): importance by a score that no single row has.

A scikit-learn scorer asks an estimator for its predictions. Here it asks a stand-in that hands out the predictions of
the cells, so that a scorer costs no more predictions than a loss.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from losslens import inputs, passes
from losslens.donors import Design, Grid, Latin, Systematic
from losslens.losses import Response
from losslens.meetings import Common
from losslens.models import Model
from losslens.progress import bar
from losslens.questions import Question, Subject, first_design, pose
from losslens.results import Floats, size_in_words
from losslens.scores import FeatureScore, Scores
from losslens.tables import Batch, Table, as_table
from losslens.tasks import Task, prepare

METHODS = ("predict", "predict_proba", "decision_function")
SHIFTS = 30  # columns where all of them are too many

Score = Callable[[NDArray[Any]], float]


def is_scorer(loss: Any) -> bool:
    """Whether this is a scikit-learn scorer, made by ``get_scorer`` or ``make_scorer``."""
    return callable(loss) and any(kind.__name__.endswith("Scorer") for kind in type(loss).__mro__)


def score_importance(model: Model, X: Any, y: Any, scorer: Any, asked: dict[str, Any]) -> Scores:
    """Importance by a scorer: the score less its mean over the columns of the design."""
    if asked["groups"] is not None:
        raise ValueError("groups= needs a loss: a scorer can't leave single cells out")
    if y is None:
        raise ValueError("y, the true values, is missing; for curves of predictions use feature_effect")
    table = as_table(X)
    truth = inputs.vector(y, table.n, "y")
    method = _method_used(model, table, truth, scorer)
    response = _response(model, method)
    task = prepare(model, table, None, loss=None, response=response, **asked)
    questions = [pose(s, task.design or score_design(s, task.n), task.n, task.entropy) for s in task.subjects]
    if not task.budget.fits(questions, task.n):
        needs = size_in_words(2 * task.n * task.budget.row_bytes(questions))
        raise ValueError(f"a scorer needs all cells at once; pass memory='{needs}' or a design with fewer donors")
    with bar(task.n + sum(q.ask.most(task.n) for q in questions), "explaining", task.progress) as tick:
        sample, filled, predicted = passes.run(
            task.engine, questions, task.sample, None, task.budget, task.entropy, tick
        )
    weight = None if asked["sample_weight"] is None else task.sample.weight * task.n
    score = _replay(model, scorer, method, table.native, truth, weight, sample.classes)
    base = score(sample.prediction)
    title = _title(scorer)
    features = {}
    for question, part in zip(questions, filled, strict=True):
        features[question.subject.feature.name] = _judge(task, question, part, score, base, title)
    return Scores(features, predicted + task.n)  # and once to see what the scorer asks for


def score_design(subject: Subject, n: int) -> Design:
    """The rule behind ``donors="auto"`` for scorers: shifts where all values are too dear."""
    design = first_design(subject, n)
    return Latin(min(SHIFTS, n)) if isinstance(design, (Systematic, Latin)) else design


def _judge(task: Task, question: Question, part: passes.Filled, score: Score, base: float, title: str) -> FeatureScore:
    cells, meeting, feature = part.cells.predictions, question.meeting, question.subject.feature
    common = isinstance(meeting, Common)
    number = meeting.has_mass and not isinstance(question.design, Grid)
    return FeatureScore(
        name=feature.name,
        columns=tuple(task.table.names[j] for j in feature.columns),
        values=question.values,
        ordered=question.ordered,
        design=question.design,
        engine=task.engine.name,
        exact=question.design.is_exact(task.n),
        n_predictions=part.n_predictions,
        title=title,
        score=base,
        column_scores=np.array([score(c) for c in _columns(cells, question)]) if number else None,
        curve=np.array([score(cells[:, v]) for v in range(meeting.size)]) if common else None,
        shares=part.means.weights,
        backend=task.table.backend,
    )


def _columns(cells: NDArray[Any], question: Question) -> Iterator[NDArray[Any]]:
    """Each row with one donor: the columns of the design; of the full table the n cyclic shifts."""
    meeting = question.meeting
    if not isinstance(meeting, Common):
        yield from (cells[:, t] for t in range(meeting.width))
        return
    every = np.arange(len(meeting.own))
    for shift in range(int(meeting.leaves_out_own), len(every)):
        yield cells[every, np.roll(meeting.own, -shift)]


class _StandIn:
    """Looks like the model to a scorer, but answers with the predictions it was given; notes what is asked."""

    def __init__(self, native: Any, answer: Callable[[str, Any], Any]) -> None:
        self._native, self._answer = native, answer

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._native, name)  # first, because a method that the model lacks must be missing here too
        if name not in METHODS:
            return found
        answer = partial(self._answer, name)
        answer.__name__ = name  # type: ignore[attr-defined]  # scikit-learn asks a method for its name
        return answer


def _method_used(model: Model, table: Table, y: NDArray[Any], scorer: Any) -> str:
    asked: list[str] = []

    def note(method: str, X: Any) -> Any:
        asked.append(method)
        return getattr(model.native, method)(X)

    if not hasattr(model.native, "predict"):
        raise TypeError(f"a scorer needs an estimator with predict; {model.name} is a bare function: pass a loss")
    value = scorer(_StandIn(model.native, note), Batch(table).fill(np.arange(table.n), []), y)
    if not np.isscalar(value) or not np.isfinite(value):
        raise ValueError(f"the scorer {_title(scorer)} returned {value!r}, not one finite number")
    if len(set(asked)) != 1:
        raise ValueError(f"the scorer {_title(scorer)} asked for {asked or 'nothing'}; one response is supported")
    return asked[0]


def _response(model: Model, method: str) -> Response:
    if method == "predict":
        return "labels" if model.kind == "classifier" else "values"
    return "probabilities" if method == "predict_proba" else "scores"


def _replay(
    model: Model, scorer: Any, method: str, X: Any, y: NDArray[Any], weight: Floats | None, classes: Any
) -> Score:
    more = {} if weight is None else {"sample_weight": weight}

    def score(predictions: NDArray[Any]) -> float:
        labels = model.kind == "classifier" and method == "predict"
        answer = classes[predictions] if labels else predictions
        return float(scorer(_StandIn(model.native, lambda method, X: answer), X, y, **more))

    return score


def _title(scorer: Any) -> str:
    function = getattr(scorer, "_score_func", None)
    return str(getattr(function, "__name__", type(scorer).__name__))
