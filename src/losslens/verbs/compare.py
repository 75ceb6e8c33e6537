"""The verb that puts models side by side."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from losslens.donors.designs import Design
from losslens.losses import Loss, is_scorer
from losslens.models import as_model
from losslens.passes.task import Options, default_loss
from losslens.results.comparison import Comparison
from losslens.results.importances import Importances
from losslens.shapley.stopping import ShapleySettings
from losslens.tables.frames import as_table
from losslens.verbs.features import importances
from losslens.verbs.shapley import share_out
from losslens.workers import anywhere


@anywhere
def compare(
    models: Any,
    X: Any,
    y: Any,
    *,
    loss: str | Loss | Callable[..., Any] | None = None,
    features: Any = None,
    donors: str | Design = "auto",
    shapley: bool = True,
    sample_weight: Any = None,
    groups: Any = None,
    random_state: Any = None,
    n_jobs: int | None = None,
    memory: str | int = "1 GiB",
    progress: bool | None = None,
    executor: Any = None,
) -> Comparison:
    """Importances of several models on the same rows and donors, or of one model on several sets of rows.

    Parameters
    ----------
    models
        ``{"name": model, ...}``; or one model, with `X` and `y` (and `sample_weight`) as mappings: train and test,
        last year and this year. Models and rows may both be mappings, with the same names.
    X, y, loss, features, donors, sample_weight, random_state, n_jobs, memory, progress, executor
        As in `feature_importance`. All models are judged by one loss; scorers have no intervals and are refused.
    shapley
        Share out each model's performance as well (`shapley_importance`); False leaves out that cost.
    groups
        Labels of rows that belong together, of one set of rows: donors come from other groups and standard errors are
        clustered. Shapley shares know no groups: pass ``shapley=False``.

    Examples
    --------
    >>> import numpy as np, losslens as ll
    >>> X = np.random.default_rng(0).normal(size=(100, 2))
    >>> models = {"both": lambda X: X[:, 0] + X[:, 1], "one": lambda X: X[:, 0]}
    >>> found = ll.compare(models, X, X[:, 0] + X[:, 1], loss="squared_error", shapley=False)
    >>> found.difference("x1", "both", "one").low > 0
    True
    """
    if is_scorer(loss):
        raise ValueError("a scorer gives one number for all rows together: differences need a loss of each row")
    paired = not isinstance(X, Mapping)
    if groups is not None and (shapley or not paired):
        raise ValueError("groups are for the importances of models on one set of rows: pass one X and shapley=False")
    cases = _cases(models, X, y, sample_weight)
    chosen = _one_loss({name: model for name, (model, *_) in cases.items()}, loss)
    _check_columns(cases)
    shared = Options(  # the same seed, and so the same donors, for all
        features=features, donors=donors, groups=groups, random_state=random_state, n_jobs=n_jobs, memory=memory,
        progress=progress,
    )  # fmt: skip
    found, shares = {}, {}
    for name, (model, table, target, weight) in cases.items():
        options = replace(shared, sample_weight=weight)
        try:
            found[name] = importances(model, table, target, chosen, options)
            _check_numbers(found[name])
            if shapley:
                shares[name] = share_out(model, table, target, chosen, ShapleySettings(), options)
        except (ValueError, TypeError) as error:
            kind = TypeError if isinstance(error, TypeError) else ValueError
            raise kind(f"{name!r}: {error}") from error
    return Comparison(importances=found, shapley=shares, paired=paired)


Case = tuple[Any, Any, Any, Any]  # a model, its table, target and weights


def _cases(models: Any, X: Any, y: Any, weight: Any) -> dict[str, Case]:
    """What is to be compared, by name."""
    if isinstance(X, Mapping):
        if not isinstance(y, Mapping) or set(y) != set(X):
            raise ValueError(f"X has the sets of rows {list(X)!r}: y must be a mapping with the same names")
        if isinstance(models, Mapping) and set(models) != set(X):
            raise ValueError(f"models {list(models)!r} and sets of rows {list(X)!r} must have the same names")
        weights = dict.fromkeys(X) if weight is None else weight
        if not isinstance(weights, Mapping) or set(weights) != set(X):
            raise ValueError(f"X has the sets of rows {list(X)!r}: sample_weight must be a mapping with the same names")
        found = {
            str(name): (models[name] if isinstance(models, Mapping) else models, X[name], y[name], weights[name])
            for name in X
        }
    elif isinstance(y, Mapping) or isinstance(weight, Mapping):
        raise ValueError("y or sample_weight is a mapping, but X is one table: with one set of rows pass one of each")
    elif isinstance(models, Mapping):
        found = {str(name): (model, X, y, weight) for name, model in models.items()}
    else:
        raise TypeError(
            "compare takes models as a mapping, {'name': model, ...}, or one model with X and y as mappings, "
            f"{{'train': X1, 'test': X2}}; got {type(models).__name__}"
        )
    if len(found) < len(X if isinstance(X, Mapping) else models):
        raise ValueError(f"two names read alike: {', '.join(map(repr, X if isinstance(X, Mapping) else models))}")
    if len(found) < 2:
        raise ValueError(f"a comparison takes two or more; got {len(found)}")
    return found


def _one_loss(models: Mapping[str, Any], loss: Any) -> Loss:
    """The loss that all are judged by."""
    chosen = {name: default_loss(as_model(model), loss) for name, model in models.items()}
    names = {found.name for found in chosen.values()}
    reads = {found.reads for found in chosen.values()}
    if len(names) > 1 or len(reads) > 1:
        told = ", ".join(f"{name}: {found.name} of {found.reads}" for name, found in chosen.items())
        raise ValueError(f"the models suggest different losses ({told}); name one with loss=")
    return next(iter(chosen.values()))


def _check_columns(cases: Mapping[str, Case]) -> None:
    """All sets of rows have the same columns, and every model was fitted on them."""
    tables = {name: as_table(X) for name, (_, X, _, _) in cases.items()}
    first, expected = next((name, table.names) for name, table in tables.items())
    for name, table in tables.items():
        if table.names != expected:
            raise ValueError(f"{name!r} and {first!r} disagree on columns: {_unlike(table.names, expected)}")
    for name, (model, *_) in cases.items():
        fitted = getattr(model, "feature_names_in_", None)
        if fitted is not None and tables[name].backend != "numpy" and set(map(str, fitted)) != set(expected):
            raise ValueError(
                f"{name!r} was fitted on other columns than X has: {_unlike(tuple(map(str, fitted)), expected)}. "
                "Wrap it in a function, or a pipeline, that picks its own"
            )


def _check_numbers(found: Importances) -> None:
    """Curves alone, without a number, can't be compared: their reason is raised here, not later."""
    for feature in found.values():
        _ = feature.pfi


def _unlike(one: tuple[str, ...], other: tuple[str, ...]) -> str:
    more = [name for name in one if name not in other]
    fewer = [name for name in other if name not in one]
    told = [f"it has {', '.join(map(repr, more[:5]))}"] if more else []
    told += [f"it lacks {', '.join(map(repr, fewer[:5]))}"] if fewer else []
    return " and ".join(told) if told else "they come in another order"
