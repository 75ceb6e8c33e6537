"""What ``loss=`` may be: a `Loss` by name, of a function, or from the metadata of a file; or a scorer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from typing import Any, get_args

from losslens.losses import vectors
from losslens.losses.rows import FAMILIES, NAMED, Loss, Response, advice
from losslens.losses.vectors import OutputsLoss, averaged
from losslens.text import closest


def resolve(loss: str | Loss | Callable[..., Any], reads: Response = "values") -> Loss:
    """The argument ``loss=`` as a Loss; `reads` is the response of a custom function.

    >>> resolve("poisson").title
    'Poisson deviance'
    """
    if isinstance(loss, Loss):
        return loss
    if not isinstance(loss, str) and any(loss is family for family in FAMILIES.values()):
        loss = loss.__name__  # losses.pinball without a call: the default parameter
    if isinstance(loss, (list, tuple)):
        raise TypeError(
            f"one loss is needed here, got {loss!r}; feature_importance and shapley_importance take several"
        )
    if not isinstance(loss, str):
        return pointwise(loss, reads=reads)
    if loss in NAMED:
        return NAMED[loss]
    raise ValueError(advice(loss) or _unknown(loss))


def names_of(losses: Sequence[Any]) -> dict[str, Any]:
    """Losses and scorers by name: as given, that of the loss or function, or the title of one of a family.

    >>> from losslens.losses import pinball
    >>> list(names_of(["roc_auc", pinball(0.1), pinball(0.9)]))
    ['roc_auc', 'pinball loss (0.1)', 'pinball loss (0.9)']
    """
    if not losses:
        raise ValueError("the list of losses is empty; give at least one, or leave loss out")
    short = [_name_of(one) for one in losses]
    names = [name if short.count(name) == 1 else _long_name(one) for one, name in zip(losses, short, strict=True)]
    if twice := [name for name in names if names.count(name) > 1]:
        raise ValueError(
            f"two losses are called {twice[0]!r}; pass each in a call of its own, or name a function by "
            "losses.pointwise(function, name=...)"
        )
    return dict(zip(names, losses, strict=True))


def _name_of(loss: Any) -> str:
    if is_scorer(loss):
        return loss if isinstance(loss, str) else title_of(loss)
    return str(getattr(loss, "name", getattr(loss, "__name__", loss)))


def _long_name(loss: Any) -> str:
    """With the parameters that distinguish losses of one name; functions have none."""
    if isinstance(loss, Loss):
        return loss.title
    return str(loss) if is_scorer(loss) else _name_of(loss)


def from_metadata(metadata: Mapping[str, Any]) -> Loss:
    """The loss of `Loss.metadata`; a custom one has no function.

    >>> from losslens.losses import pinball
    >>> from_metadata(pinball(0.9).metadata()) == pinball(0.9)
    True
    """
    name, parameters = metadata["name"], metadata["parameters"]
    if "of" in metadata:
        return _of_outputs(metadata["of"]).output(metadata["k"])
    if metadata["reads"] == "outputs":
        return _of_outputs(metadata)
    if metadata["custom"]:
        return Loss(name, metadata["reads"], metadata["title"], None, custom=True)
    return FAMILIES[name](**parameters) if name in FAMILIES else resolve(name)


def _of_outputs(metadata: Mapping[str, Any]) -> OutputsLoss:
    return vectors.from_metadata(metadata, tuple(map(from_metadata, metadata["each"])))


def pointwise(function: Callable[..., Any], *, reads: Response, name: str | None = None) -> Loss:
    """A custom function as a Loss; its result is checked at each call.

    Parameters
    ----------
    function
        (y, prediction) -> the losses of the rows, (N,).
    reads
        The response of the model that is the prediction. With ``"outputs"`` predictions are (N, K), and the function
        may return one loss for each output, (N, K).
    name
        The name of the loss; by default that of the function.

    Examples
    --------
    >>> far = pointwise(lambda y, f: abs(y - f) > 1, reads="values", name="far off")
    >>> far([0.0, 0.0], [0.5, 3.0])
    array([0., 1.])
    """
    if is_scorer(function):
        raise ValueError("a scorer gives one number for all rows; where a loss of each row is needed, pass one by name")
    if str(getattr(function, "__module__", "")).startswith("sklearn.metrics"):
        name = getattr(function, "__name__", "it")
        general = f"one number for all rows; pass loss=sklearn.metrics.make_scorer({name}, greater_is_better=...)"
        raise ValueError(f"{name} is a metric of scikit-learn: {advice(name) or general}")
    if not callable(function):
        raise TypeError(f"a loss is a name or a function (y, prediction) -> (N,), got {function!r}")
    if required_arguments(function) == 3:
        name = name or getattr(function, "__name__", "it")
        raise TypeError(
            f"a loss is a function (y, prediction) -> one loss a row, but {name} takes three arguments; a score "
            f"(estimator, X, y) -> one number is passed as loss=losslens.losses.scorer({name})"
        )
    if not isinstance(reads, str) or reads not in get_args(Response):
        raise ValueError(f"a loss reads one of {', '.join(get_args(Response))}, got {reads!r}")
    if name is not None and not isinstance(name, str):
        raise TypeError(f"name must be text, got {name!r}")
    inner = getattr(function, "func", function)  # functools.partial
    name = name or getattr(inner, "__name__", type(inner).__name__).replace("<lambda>", "custom loss")
    kind = OutputsLoss if reads == "outputs" else Loss
    return kind(name, reads, name.replace("_", " "), function, custom=True)


def outputs(
    loss: str | Loss | Sequence[str | Loss] = "squared_error",
    weights: Sequence[float] | Mapping[str, float] | None = None,
) -> OutputsLoss:
    """The weighted mean over the outputs of a model of a loss of values, or of one loss for each output.

    Parameters
    ----------
    loss
        A loss of values, by name or from `losslens.losses`, or a list of them.
    weights
        One for each output, in the order of y's columns or by their names; None: all alike. They are divided by their
        sum: outputs in different units need weights such as one over the variance of each.

    Examples
    --------
    >>> outputs("absolute_error", weights={"sales": 1.0, "returns": 3.0}).bound(["returns", "sales"]).weights
    (0.75, 0.25)
    """
    several = isinstance(loss, (list, tuple))
    each = tuple(map(resolve, loss if several else [loss]))  # type: ignore[arg-type]
    if not each or any(one.reads != "values" for one in each):
        raise ValueError(
            f"losses.outputs averages losses of numbers such as 'squared_error' over outputs; got {loss!r}"
        )
    series: Any = weights
    index = getattr(series, "index", None)  # of a series of pandas; a method of lists
    if not (index is None or callable(index)) and all(isinstance(name, str) for name in index):
        weights = dict(zip(index, series, strict=True))
    names = tuple(map(str, weights)) if isinstance(weights, Mapping) else ()  # as the columns of y are called
    numbers: Any = weights.values() if isinstance(weights, Mapping) else () if weights is None else weights
    try:
        given = tuple(float(weight) for weight in numbers)
        good = not given or (min(given) >= 0 and 0 < sum(given) < float("inf"))
    except (TypeError, ValueError):
        good = False
    if not good:
        raise ValueError(f"weights has one number from 0 on for each output, not all 0; got {weights!r}")
    return averaged(each, names, given)


def _unknown(name: str) -> str:
    nearest = closest(name, [*NAMED, *scorer_names()])
    guess = f"; did you mean {nearest!r}?" if nearest else "."
    names = ", ".join(sorted({loss.name for loss in NAMED.values()}))
    return f"unknown loss {name!r}{guess} The losses are {names}, and any function (y, prediction) -> (N,)"


# Scorers: one number for all rows, the larger the better.


class FunctionScorer:
    """A function (estimator, X, y) -> one number as a scorer."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.__name__ = str(getattr(function, "__name__", type(function).__name__)).replace("<lambda>", "custom score")

    def __call__(self, estimator: Any, X: Any, y: Any, **options: Any) -> Any:
        """The score."""
        return self.function(estimator, X, y, **options)


def scorer(function: Callable[..., Any]) -> FunctionScorer:
    """A score for ``loss=``, from a function of your own.

    Parameters
    ----------
    function
        ``(estimator, X, y) -> one number``, the larger the better.

    Examples
    --------
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
