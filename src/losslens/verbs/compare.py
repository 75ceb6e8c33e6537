"""`compare`: importances of several models on the same rows, or of one model on several sets of rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from losslens.donors.designs import Design
from losslens.donors.questions import Subjects
from losslens.losses import Loss, is_scorer
from losslens.models import as_model
from losslens.passes.task import Options, default_loss
from losslens.results.comparison import Comparison
from losslens.results.importances import Importances
from losslens.shapley.stopping import ShapleySettings
from losslens.tables.checks import check_flag
from losslens.tables.frames import as_table
from losslens.tables.leaked_target import warn_of_target
from losslens.verbs.features import importances
from losslens.verbs.shapley import share_out
from losslens.workers import with_executor


@with_executor
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
        ``{"name": model, ...}``; or one model, with `X` and `y` (and `sample_weight`) as mappings, such as train and
        test. Models and rows may both be mappings, with the same names.
    X, y, loss, features, donors, sample_weight, random_state, n_jobs, progress, executor
        As in `feature_importance`. All models have the same loss.
    shapley
        Also compute each model's `shapley_importance`; False saves that cost.
    groups
        As in `feature_importance`, for one set of rows. Shapley shares do not support groups: pass ``shapley=False``.
    memory
        As in `feature_importance`, for all results together. Not counted, for each model after the first: 8 bytes for
        each row and feature (its local importance); of a black box 8 more (what the row causes as a donor), and 16 for
        each row.

    Examples
    --------
    >>> import numpy as np, losslens as ll
    >>> X = np.random.default_rng(0).normal(size=(100, 2))
    >>> models = {"both": lambda X: X[:, 0] + X[:, 1], "one": lambda X: X[:, 0]}
    >>> found = ll.compare(models, X, X[:, 0] + X[:, 1], loss="squared_error", shapley=False)
    >>> found.difference("x1", "both", "one").low > 0
    True
    """
    cases, chosen = checked_cases(models, X, y, loss, shapley, sample_weight, groups)
    shared = Options(  # the same seed, and so the same donors, for all
        features=features, donors=donors, groups=groups, random_state=random_state, n_jobs=n_jobs, memory=memory,
        progress=progress,
    )  # fmt: skip
    subjects = None if isinstance(X, Mapping) else Subjects(as_table(X))
    results: dict[str, Importances] = {}
    shares = {}
    for name, case in cases.items():
        model, table, target, weight = case
        options = replace(shared, sample_weight=weight)
        warn_of_target(table, target)
        try:
            mine = options_of_each(options, len(cases))
            results[name] = importances(model, table, target, chosen, mine, subjects)
            for feature in results[name].values():
                _ = feature.pfi  # features with curves only are an error here, not later
            if shapley:
                shares[name] = share_out(model, table, target, chosen, ShapleySettings(), options)
        except (ValueError, TypeError) as error:
            kind = TypeError if isinstance(error, TypeError) else ValueError
            raise kind(f"{name!r}: {error}") from error
    return Comparison(importances=results, shapley=shares, paired=not isinstance(X, Mapping))


Case = tuple[Any, Any, Any, Any]  # a model, its table, target and weights


def checked_cases(
    models: Any, X: Any, y: Any, loss: Any, shapley: bool, weight: Any, groups: Any
) -> tuple[dict[str, Case], Any]:
    """The cases to compare, by name, and the loss or scorer of all of them."""
    if groups is not None and (shapley or isinstance(X, Mapping)):
        raise ValueError("groups need one set of rows and no Shapley shares: pass one X and shapley=False")
    cases = _cases(models, X, y, weight)
    chosen = _one_loss({name: model for name, (model, *_) in cases.items()}, loss)
    _check_columns(cases)
    check_flag(shapley, "shapley")
    return cases, chosen


def options_of_each(options: Options, cases: int) -> Options:
    """The options of the importances of one of so many cases: all results are held together."""
    return replace(options, memory=options.memory // cases)


def _cases(models: Any, X: Any, y: Any, weight: Any) -> dict[str, Case]:
    """The cases to compare, by name."""
    if isinstance(X, Mapping):
        if not isinstance(y, Mapping) or set(y) != set(X):
            raise ValueError(f"X has the sets of rows {list(X)!r}: y must be a mapping with the same names")
        if isinstance(models, Mapping) and set(models) != set(X):
            raise ValueError(f"models {list(models)!r} and sets of rows {list(X)!r} must have the same names")
        weights = dict.fromkeys(X) if weight is None else weight
        if not isinstance(weights, Mapping) or set(weights) != set(X):
            raise ValueError(f"X has the sets of rows {list(X)!r}: sample_weight must be a mapping with the same names")
        cases = {
            str(name): (models[name] if isinstance(models, Mapping) else models, X[name], y[name], weights[name])
            for name in X
        }
    elif isinstance(y, Mapping) or isinstance(weight, Mapping):
        raise ValueError("y or sample_weight is a mapping, but X is one table: with one set of rows pass one of each")
    elif isinstance(models, Mapping):
        cases = {str(name): (model, X, y, weight) for name, model in models.items()}
    else:
        raise TypeError(
            "compare takes models as a mapping, {'name': model, ...}, or one model with X and y as mappings, "
            f"{{'train': X1, 'test': X2}}; got {type(models).__name__}"
        )
    if len(cases) < len(X if isinstance(X, Mapping) else models):
        raise ValueError(
            f"two names are equal as text: {', '.join(map(repr, X if isinstance(X, Mapping) else models))}"
        )
    if len(cases) < 2:
        raise ValueError(f"models holds too few cases: a comparison needs two cases or more; got {len(cases)}")
    return cases


def _one_loss(models: Mapping[str, Any], loss: Any) -> Any:
    """The loss of all models, or a scorer."""
    if is_scorer(loss):
        return loss
    losses = {name: default_loss(as_model(model), loss) for name, model in models.items()}
    if len({(one.name, one.reads) for one in losses.values()}) > 1:
        defaults = ", ".join(f"{name}: {one.name} of {one.reads}" for name, one in losses.items())
        raise ValueError(f"the models have different default losses ({defaults}); name one with loss=")
    return next(iter(losses.values()))


def _check_columns(cases: Mapping[str, Case]) -> None:
    """All sets of rows have the same columns, and every model was fitted on them."""
    tables = {name: as_table(X) for name, (_, X, _, _) in cases.items()}
    first, expected = next((name, table.names) for name, table in tables.items())
    for name, table in tables.items():
        if table.names != expected:
            raise ValueError(f"{name!r} and {first!r} have different columns: {_unlike(table.names, expected)}")
    for name, (model, *_) in cases.items():
        fitted = getattr(model, "feature_names_in_", None)
        if fitted is not None and tables[name].backend != "numpy" and set(map(str, fitted)) != set(expected):
            raise ValueError(
                f"{name!r} was fitted on other columns than X has: {_unlike(tuple(map(str, fitted)), expected)}. "
                "Wrap it in a function or pipeline that selects its columns"
            )


def _unlike(one: tuple[str, ...], other: tuple[str, ...]) -> str:
    more = [name for name in one if name not in other]
    fewer = [name for name in other if name not in one]
    words = [f"it has {', '.join(map(repr, more[:5]))}"] if more else []
    words += [f"it lacks {', '.join(map(repr, fewer[:5]))}"] if fewer else []
    return " and ".join(words) or "their order differs"
