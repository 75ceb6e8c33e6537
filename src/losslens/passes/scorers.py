"""Scorers of a model: which of its methods they call, and the scores of given predictions.

Scorers of predictions alone are `PredictionScore`; the others get a stand-in for the model that returns known
predictions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from losslens.engines.choice import CHECKED
from losslens.losses import Response, title_of
from losslens.models import Model, input_of
from losslens.tables import checks
from losslens.tables.frames import Batch, Table
from losslens.typing import Floats, Indices
from losslens.uncertainty.prediction_scores import PredictionScore, call_scorer, prediction_score

METHODS = ("predict", "predict_proba", "decision_function")
TIED = 64 * float(np.finfo(np.float64).eps)  # relative difference up to which an exact engine's predictions are equal


@dataclass(frozen=True, eq=False)
class ReplayedScore:
    """A scorer that may read the model and the rows: it gets a stand-in for the model."""

    score: Callable[[NDArray[Any], Floats | None, Indices | None], float]

    def of_rows(
        self, predictions: NDArray[Any], y: NDArray[Any], weight: Floats | None, rows: Indices | None = None
    ) -> float:
        """The score of all rows, or of those at these positions."""
        return self.score(predictions, weight, rows)


@dataclass(frozen=True, eq=False)
class ScorerMethod:
    """A scorer, the response that it reads, and its function of predictions."""

    title: str
    response: Response
    judge: PredictionScore | ReplayedScore
    y: NDArray[Any]  # (n,): positions of classes, or numbers
    weight: Floats | None  # of the rows, which sum to n
    probed: int  # rows that were predicted to see which method of the model it calls
    block: Indices | None = None  # (n,): groups of rows

    @classmethod
    def of(
        cls, model: Model, table: Table, y: NDArray[Any], scorer: Any, weight: Floats | None, block: Indices | None
    ) -> ScorerMethod:
        """Call the scorer once, to see which predictions it needs."""
        asked = None if getattr(scorer, "_kwargs", {}).get("multi_class") == "ovo" else weight  # of which it takes none
        method, probed = _method_used(model, table, y, asked, scorer)
        classes, judge = model.classes if model.kind == "classifier" else None, None
        if model.kind != "classifier" or classes is not None:
            judge = prediction_score(metric_of(scorer, model.native), method, classes)
        title = title_of(scorer)
        made = ReplayedScore(_replay(model, scorer, method, table, y)) if judge is None else replace(judge, title=title)
        truth = np.array(y) if classes is None else checks.class_positions(y, classes, model.name)  # results keep it
        return cls(title, _response(model, method, y), made, truth, weight, probed, block)

    @property
    def pools(self) -> bool:
        """Whether it is computed of the pooled cells."""
        return isinstance(self.judge, PredictionScore) and bool(self.judge.kind)

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

    def of_rows(self, predictions: NDArray[Any], weight: Floats | None, rows: Indices | None = None) -> float:
        """The score of all rows, or of some."""
        return self.judge.of_rows(predictions, self.y, weight, rows)


def metric_of(scorer: Any, native: Any) -> Any:
    """The scorer of predictions that the model's own method `score` is, if it is known; others as they are."""
    if type(scorer).__name__ != "_PassthroughScorer":
        return scorer
    from sklearn.base import ClassifierMixin, RegressorMixin
    from sklearn.metrics import get_scorer

    if hasattr(native, "steps"):
        return metric_of(scorer, native.steps[-1][1])
    for kind, name in ((ClassifierMixin, "accuracy"), (RegressorMixin, "r2")):
        if getattr(type(native), "score", None) is kind.score:
            return get_scorer(name)
    return scorer


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
        return getattr(model.native, method)(input_of(model.native, X))

    def score(rows: Any) -> Any:
        return call_scorer(scorer, lambda _: _StandIn(model.native, note), rows, y, weight)

    if not hasattr(model.native, "predict"):
        raise TypeError(f"a scorer needs an estimator with predict; {model.name} is a bare function: pass a loss")
    value = score(rows)
    if not isinstance(value, (Real, np.bool_)) or not math.isfinite(value):
        raise ValueError(f"the scorer {title_of(scorer)} returned {value!r}, not one finite number")
    if not called and _is_constant(score, value):
        return "predict"
    if len(set(called)) != 1:
        raise ValueError(
            f"the scorer {title_of(scorer)} called {called or 'none'} of {METHODS}; it must call exactly one of them"
        )
    return called[0]


def _is_constant(score: Callable[[Any], Any], value: Any) -> bool:
    """Whether a score that is computed without predictions doesn't read the rows either."""
    try:
        return bool(score(None) == value)
    except Exception:  # noqa: BLE001 - whatever a scorer raises that wants to read the rows
        return False


def _response(model: Model, method: str, y: NDArray[Any]) -> Response:
    if method == "predict":
        return "outputs" if y.ndim == 2 else "labels" if model.kind == "classifier" else "values"
    return "probabilities" if method == "predict_proba" else "scores"


def _replay(
    model: Model, scorer: Any, method: str, table: Table, y: NDArray[Any]
) -> Callable[[NDArray[Any], Floats | None, Indices | None], float]:
    every = Batch(table).fill(np.arange(table.n), [])  # a copy: a scorer may write to it
    labels = model.classes if model.kind == "classifier" and method == "predict" else None

    def score(predictions: NDArray[Any], weight: Floats | None, rows: Indices | None = None) -> float:
        answers = predictions if labels is None else labels[predictions]
        given, truth = (every, y) if rows is None else (Batch(table).fill(rows, []), y[rows])
        return float(
            call_scorer(scorer, lambda known: _StandIn(model.native, lambda *_: known), given, truth, weight, answers)
        )

    return score
