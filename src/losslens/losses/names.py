"""The argument ``loss=`` as a `Loss`: by name, from a function, or from the metadata of a file."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from typing import Any, get_args

from losslens.losses.rows import FAMILIES, NAMED, Loss, Response, advice
from losslens.losses.scorers import is_scorer, required_arguments, scorer_names


def resolve(loss: str | Loss | Callable[..., Any], reads: Response = "values") -> Loss:
    """The argument ``loss=`` as a Loss; `reads` is the response of a custom function.

    >>> resolve("poisson").title
    'Poisson deviance'
    """
    if isinstance(loss, Loss):
        return loss
    if not isinstance(loss, str) and any(loss is family for family in FAMILIES.values()):
        loss = loss.__name__  # losses.pinball without a call: the default parameter
    if not isinstance(loss, str):
        return pointwise(loss, reads=reads)
    if loss in NAMED:
        return NAMED[loss]
    raise ValueError(advice(loss) or _unknown(loss))


def from_metadata(metadata: Mapping[str, Any]) -> Loss:
    """The loss of `Loss.metadata`; a custom one has no function.

    >>> from losslens.losses import pinball
    >>> from_metadata(pinball(0.9).metadata()) == pinball(0.9)
    True
    """
    name, parameters = metadata["name"], metadata["parameters"]
    if metadata["custom"]:
        return Loss(name, metadata["reads"], metadata["title"], None, custom=True)
    return FAMILIES[name](**parameters) if name in FAMILIES else resolve(name)


def pointwise(function: Callable[..., Any], *, reads: Response, name: str | None = None) -> Loss:
    """A custom function (y, prediction) -> (N,) as a Loss; its result is checked at each call.

    >>> far = pointwise(lambda y, f: abs(y - f) > 1, reads="values", name="far off")
    >>> far([0.0, 0.0], [0.5, 3.0])
    array([0., 1.])
    """
    if is_scorer(function):
        raise ValueError("a scorer gives one number for all rows; where a loss of each row is needed, pass one by name")
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
    return Loss(name, reads, name.replace("_", " "), function, custom=True)


def _unknown(name: str) -> str:
    nearest = difflib.get_close_matches(name, [*NAMED, *scorer_names()], n=1)
    guess = f"; did you mean {nearest[0]!r}?" if nearest else "."
    names = ", ".join(sorted({loss.name for loss in NAMED.values()}))
    return f"unknown loss {name!r}{guess} The losses are {names}, and any function (y, prediction) -> (N,)"
