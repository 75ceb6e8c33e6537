"""A scorer as a function of predictions, without the model: of an AUC from counts of pairs, of others by a call.

Scores of the table of true and predicted classes (F1, precision, recall, Jaccard, Matthews' correlation, kappa) are
computed for many tables at once: those without each row.
A scikit-learn scorer calls the methods of an estimator. Here it gets a stand-in that returns known predictions.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from losslens.losses import call_read_only, title_of
from losslens.typing import Floats, Indices
from losslens.uncertainty.pair_counts import Areas, ClassAreas

OF_ALL = ("accuracy_score", "balanced_accuracy_score", "matthews_corrcoef", "cohen_kappa_score")
MOST_CLASSES = 20  # a table for each row has the square of it
OF_ONE_CLASS = {  # weights of true positives, false positives and false negatives: above the line, and below it
    "precision_score": ((1, 0, 0), (1, 1, 0)),
    "recall_score": ((1, 0, 0), (1, 0, 1)),
    "jaccard_score": ((1, 0, 0), (1, 1, 1)),
}


@dataclass(frozen=True, eq=False)
class PredictionScore:
    """A score of predictions, the larger the better; files hold the name of a scorer, or none."""

    name: str  # by which scikit-learn knows it; "": by none
    title: str
    method: str  # of the estimator that it calls
    classes: NDArray[Any] | None  # of a classifier
    areas: Areas | None = None  # of an AUC
    table: TableScore | None = None  # of true and predicted classes
    precise: bool = False  # whether it is the average precision of two classes
    scorer: Any = None  # where it has no name

    @property
    def kind(self) -> str:
        """How it is computed of pooled cells; "": column by column."""
        if self.areas is not None:
            return "areas"
        return "table" if self.table is not None else "precision" if self.precise else ""

    @property
    def deletes(self) -> bool:
        """Whether single rows are left out of it, not blocks."""
        return self.kind in ("areas", "table")

    def of_rows(
        self, predictions: NDArray[Any], y: NDArray[Any], weight: Floats | None, rows: Indices | None = None
    ) -> float:
        """The score of all rows, or of those at these positions; y holds positions of classes, or numbers."""
        y = y if rows is None else y[rows]
        if self.areas is not None:
            return ClassAreas.of(self.areas, predictions, y, np.ones(len(y)) if weight is None else weight).auc
        if self.table is not None and self.classes is not None:
            size = len(self.classes)
            table = np.bincount(y * size + predictions, weight, size**2).astype(float)
            return float(self.table(table.reshape(size, size)))
        if self.precise:
            from sklearn.metrics import average_precision_score

            of_second = predictions if predictions.ndim == 1 else predictions[:, 1]
            return float(average_precision_score(y == 1, of_second, sample_weight=weight))
        labelled = self.method == "predict" and self.classes is not None
        known = self.classes[predictions] if labelled else predictions  # type: ignore[index]
        truth = y if self.classes is None else self.classes[y]
        return float(call_scorer(self._scorer(), self._stand_in, None, truth, weight, known))

    def why_undefined(self, score: Callable[[], float]) -> tuple[float, str]:
        """A score of some rows, and "" or why they have none; NaN also where scikit-learn warns of it."""
        if not self.kind:
            self._scorer()  # raises where a file doesn't hold it
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            try:
                found = score()
            except Exception as error:  # noqa: BLE001 - whatever a scorer raises for some rows, such as those of a class
                return np.nan, str(error)
        said = [str(one.message) for one in warned if issubclass(one.category, UserWarning)]
        if said or not np.isfinite(found):
            return np.nan, said[0] if said else "a class is missing among them"
        return found, ""

    @property
    def without_function(self) -> PredictionScore:
        """As files hold it."""
        return replace(self, scorer=None)

    def _scorer(self) -> Any:
        if self.scorer is not None:
            return self.scorer
        if not self.name:
            raise ValueError(f"the scorer {self.title} is a function, which files don't hold; explain again with it")
        from sklearn.metrics import get_scorer

        return get_scorer(self.name)

    def _stand_in(self, predictions: NDArray[Any]) -> Any:
        estimator = _kind(self.classes is not None)()
        if self.classes is not None:
            estimator.classes_ = self.classes

        def answer(X: Any) -> NDArray[Any]:
            return predictions

        answer.__name__ = self.method  # scikit-learn reads it
        setattr(estimator, self.method, answer)
        return estimator


@cache
def _kind(classifier: bool) -> type:
    """A class of estimators without methods."""
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin

    return type("KnownPredictions", (ClassifierMixin if classifier else RegressorMixin, BaseEstimator), {})


def prediction_score(scorer: Any, method: str, classes: NDArray[Any] | None) -> PredictionScore | None:
    """A scikit-learn scorer of predictions; None for others, which may read the model or the rows."""
    if not is_made(scorer):
        return None
    name, title, areas, table = name_of(scorer), title_of(scorer), _areas(scorer, method, classes), None
    if method == "predict" and classes is not None and scorer._sign == 1:
        table = TableScore.of(scorer._score_func, scorer._kwargs, classes)
    precise = (title, scorer._sign) == ("average_precision_score", 1) and method != "predict"
    if precise:  # of the second class, as the position 1 is
        two = classes is not None and len(classes) == 2 and not set(scorer._kwargs) - {"pos_label"}
        precise = two and classes is not None and classes[1] == scorer._kwargs.get("pos_label", 1)
    return PredictionScore(name, title, method, classes, areas, table, bool(precise), None if name else scorer)


def is_made(scorer: Any) -> bool:
    """Whether `sklearn.metrics.make_scorer` made it."""
    return any(kind.__name__ == "_BaseScorer" for kind in type(scorer).__mro__)


def name_of(scorer: Any) -> str:
    """The name of scikit-learn's own scorer that is the same; "" if there is none."""
    content = _content(scorer)
    return next((name for name, one in _named() if one == content), "")


@cache
def _named() -> list[tuple[str, tuple[Any, ...]]]:
    from sklearn.metrics import get_scorer, get_scorer_names

    return [(name, _content(get_scorer(name))) for name in get_scorer_names()]


def _content(scorer: Any) -> tuple[Any, ...]:
    how = getattr(scorer, "_response_method", None)
    return type(scorer), scorer._score_func, scorer._sign, scorer._kwargs, how


def _areas(scorer: Any, method: str, classes: NDArray[Any] | None) -> Areas | None:
    """Which AUCs this averages, if it is scikit-learn's scorer of the area under whole curves."""
    function, options = scorer._score_func, scorer._kwargs
    named = (getattr(function, "__module__", ""), getattr(function, "__name__", "")) == (
        "sklearn.metrics._ranking", "roc_auc_score",
    )  # fmt: skip
    if not named or scorer._sign != 1 or classes is None or method == "predict":
        return None
    if not set(options) <= {"average", "multi_class"}:
        return None
    if len(classes) == 2:
        return "two"
    known: dict[tuple[Any, Any], Areas] = {
        ("ovr", "macro"): "ovr", ("ovr", "weighted"): "ovr_weighted",
        ("ovo", "macro"): "ovo", ("ovo", "weighted"): "ovo_weighted",
    }  # fmt: skip
    return known.get((options.get("multi_class"), options.get("average", "macro")))


def call_scorer(
    scorer: Any, stand_in: Callable[[Any], Any], rows: Any, y: NDArray[Any], weight: Floats | None,
    predictions: NDArray[Any] | None = None,
) -> Any:  # fmt: skip
    """The score of a stand-in for the model, made of the predictions that it returns, if these are known."""

    def score(predictions: Any, y: Any, weight: Any) -> Any:
        options = {} if weight is None else {"sample_weight": weight}
        return scorer(stand_in(predictions), rows, y, **options)

    try:
        return call_read_only(score, f"the scorer {title_of(scorer)}", predictions, y, weight)
    except AttributeError as error:
        if "has none of the following attributes" not in str(error):  # scikit-learn's words
            raise
        raise ValueError(f"the scorer {title_of(scorer)} is for other models: {error} Pass another loss") from error
    except ValueError as error:
        if (advice := _advice(scorer, str(error))) is None:
            raise
        raise ValueError(f"{str(error).rstrip('.')}. {advice}") from error
    except TypeError as error:
        if weight is None or "sample_weight" not in str(error):
            raise
        raise TypeError(f"the scorer {title_of(scorer)} takes no sample_weight; leave it out, or use a loss") from error


def _advice(scorer: Any, error: str) -> str | None:
    """What to pass where scikit-learn's words don't say it; None for other errors."""
    title = title_of(scorer)
    if title == "roc_auc_score" and "multi_class must be in" in error:
        return "'roc_auc' is for two classes; of more of them pass loss='roc_auc_ovr' or 'roc_auc_ovo'"
    if "pos_label=1 is not a valid label" in error or "average='binary'" in error:
        name = title.removeprefix("neg_")
        label = "pos_label=..." if "pos_label" in error else "average='macro'"
        return f"Pass loss=make_scorer({name}, {label}), by sklearn.metrics.make_scorer"
    return None


@dataclass(frozen=True)
class TableScore:
    """A function of a table of weights, (..., K, K): true classes by predicted ones."""

    function: str  # scikit-learn's name
    average: str = "binary"
    positive: int = 1  # of two classes
    beta: float = 1.0

    @classmethod
    def of(cls, function: Any, options: dict[str, Any], classes: NDArray[Any]) -> Self | None:
        """The score that a metric of scikit-learn with these options is; None for others."""
        name, options = str(getattr(function, "__name__", "")), dict(options)
        module = str(getattr(function, "__module__", ""))
        if module != "sklearn.metrics._classification" or len(classes) > MOST_CLASSES:
            return None
        average, positive = options.pop("average", "binary"), options.pop("pos_label", 1)
        beta = options.pop("beta", 1.0) if name == "fbeta_score" else 1.0
        if options or (name not in OF_ALL and name not in OF_ONE_CLASS and name not in ("f1_score", "fbeta_score")):
            return None
        place = np.flatnonzero(classes == positive)
        if name in OF_ALL:
            return cls(name)
        if average == "binary":
            return cls(name, average, int(place[0]), beta) if len(classes) == 2 and len(place) == 1 else None
        return cls(name, average, beta=beta) if average in ("macro", "micro", "weighted") else None

    def __call__(self, table: Floats) -> Floats:
        """The score of each table.

        >>> float(TableScore("f1_score")(np.array([[3.0, 1.0], [2.0, 4.0]])))
        0.7272727272727273
        """
        right, true, predicted = np.einsum("...kk->...k", table), table.sum(axis=-1), table.sum(axis=-2)
        total = true.sum(axis=-1)
        if self.function == "accuracy_score":
            return np.asarray(right.sum(axis=-1) / total)
        if self.function == "balanced_accuracy_score":
            return np.asarray(_ratio(right, true).sum(axis=-1) / (true > 0).sum(axis=-1))
        by_chance = (true * predicted).sum(axis=-1)
        if self.function == "matthews_corrcoef":
            spread = [total**2 - (counts_of**2).sum(axis=-1) for counts_of in (true, predicted)]
            return _ratio(right.sum(axis=-1) * total - by_chance, np.sqrt(np.maximum(spread[0] * spread[1], 0.0)))
        if self.function == "cohen_kappa_score":
            return np.asarray(1 - (total - right.sum(axis=-1)) * total / (total**2 - by_chance))
        counts = np.stack([right, predicted - right, true - right])
        if self.average == "micro":
            counts = counts.sum(axis=-1, keepdims=True)
        numerator, denominator = OF_ONE_CLASS.get(
            self.function, ((1 + self.beta**2, 0, 0), (1 + self.beta**2, 1, self.beta**2))
        )  # fmt: skip
        each = _ratio(np.tensordot(numerator, counts, 1), np.tensordot(denominator, counts, 1))
        if self.average == "micro":
            return np.asarray(each[..., 0])
        if self.average == "binary":
            return np.asarray(each[..., self.positive])
        weight = true if self.average == "weighted" else ((true > 0) | (predicted > 0)).astype(float)
        return np.asarray((each * weight).sum(axis=-1) / weight.sum(axis=-1))


def _ratio(numerator: Floats, denominator: Floats) -> Floats:
    """0 where nothing is below the line, as in scikit-learn."""
    return np.divide(numerator, denominator, out=np.zeros(np.shape(numerator)), where=denominator > 0)
