"""Scorers: one number for all rows, the larger the better."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import signature
from typing import Any

from losslens.losses.rows import NAMED


class FunctionScorer:
    """A function (estimator, X, y) -> one number as a scorer."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.__name__ = str(getattr(function, "__name__", type(function).__name__)).replace("<lambda>", "custom score")

    def __call__(self, estimator: Any, X: Any, y: Any, **options: Any) -> Any:
        """The score."""
        return self.function(estimator, X, y, **options)


def scorer(function: Callable[..., Any]) -> FunctionScorer:
    """A function (estimator, X, y) -> one number, the larger the better, to be passed as ``loss=``.

    >>> half = scorer(lambda estimator, X, y: -abs(y - estimator.predict(X)).mean() / 2)
    >>> is_scorer(half), half.__name__
    (True, 'custom score')
    """
    if is_scorer(function):
        return function  # type: ignore[return-value]
    count = required_arguments(function) if callable(function) else None
    if not callable(function) or count not in (None, 3):
        raise TypeError(
            f"scorer takes a function (estimator, X, y) -> one number; got {function!r}. A loss (y, prediction) -> one "
            "loss a row is passed as it is, a metric (y, prediction) -> one number as sklearn.metrics.make_scorer(...)"
        )
    return FunctionScorer(function)


def required_arguments(function: Any) -> int | None:
    """How many arguments a function needs by position; None where its signature does not say."""
    try:
        given = signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    if any(one.kind is one.VAR_POSITIONAL for one in given):
        return None
    return sum(
        one.default is one.empty and one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD) for one in given
    )


def as_scorer(loss: Any, estimator: Any) -> Any:
    """The scorer that a name stands for: scikit-learn's of that name, or the estimator's own method `score`."""
    if not isinstance(loss, str):
        return loss
    from sklearn.metrics import check_scoring, get_scorer

    if loss != "score":
        return get_scorer(loss)
    if not hasattr(estimator, "score"):
        raise TypeError(f"loss='score' needs an estimator with a method score; {type(estimator).__name__} has none")
    return check_scoring(estimator)


def is_scorer(loss: Any) -> bool:
    """Whether this gives one score for all rows: scikit-learn's scorers and their names, ``"score"``, `scorer`."""
    if isinstance(loss, str):
        return loss == "score" or (loss not in NAMED and loss in scorer_names())
    return callable(loss) and any(kind.__name__.endswith("Scorer") for kind in type(loss).__mro__)


def title_of(scorer: Any) -> str:
    """The name of what it measures, as scikit-learn has it."""
    function = getattr(scorer, "_score_func", None)
    # `check_scoring(model)` gives a scorer that calls the model's own method `score`.
    kind = type(scorer).__name__.replace("_PassthroughScorer", "score")
    name = str(getattr(function, "__name__", getattr(scorer, "__name__", kind)))
    return f"neg_{name}" if getattr(scorer, "_sign", 1) < 0 else name


def scorer_names() -> Sequence[str]:
    """The names of scikit-learn's scorers; none where it is not installed."""
    try:
        from sklearn.metrics import get_scorer_names
    except ImportError:  # scikit-learn is not needed for losses
        return ()
    names: Sequence[str] = get_scorer_names()
    return names
