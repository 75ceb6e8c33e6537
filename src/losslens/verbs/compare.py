"""`compare`: importances of several models on the same rows, or of one model on several sets of rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from losslens.donors.designs import Design
from losslens.donors.questions import Subjects
from losslens.losses import Loss, is_scorer
from losslens.models import as_model
from losslens.passes.allowance import Limits, limits_of
from losslens.passes.task import Options, default_loss, prepare
from losslens.results.comparison import Comparison
from losslens.results.importances import Importances
from losslens.shapley.stopping import ShapleySettings
from losslens.tables.checks import check_flag, group_numbers, row_weights
from losslens.tables.distribution_shift import DistributionShift, shift_of
from losslens.tables.frames import as_table
from losslens.tables.leakage import warn_of_target
from losslens.tables.sample import by_unit, effective_number
from losslens.typing import Indices
from losslens.verbs.features import importances
from losslens.verbs.running import verb
from losslens.verbs.shapley import share_out


@verb
def compare(
    models: Any,
    X: Any,
    y: Any,
    *,
    loss: str | Loss | Callable[..., Any] | None = None,
    features: Any = None,
    donors: str | Design = "auto",
    budget: str | int | None = None,
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

    Of several sets of rows, the result also has how much the values of each feature differ between them (`moved`).

    Parameters
    ----------
    models
        ``{"name": model, ...}``; or one model, with `X` and `y` (and `sample_weight`, `groups`) as mappings, such as
        train and test, or last year and this. Models and rows may both be mappings, with the same names.
    X, y, loss, features, donors, sample_weight
        As in `feature_importance`. All models have the same loss.
    budget
        As in `feature_importance`, for all models together. Models on the same rows have the same sample of them: as
        many rows as each model can predict in its part of the time.
    shapley
        Also compute each model's `shapley_importance`; False saves that cost.
    groups
        As in `feature_importance`. With Shapley shares only where `shapley_importance` takes them.
    memory
        As in `feature_importance`, for all results together. Not counted, for each model after the first: 8 bytes for
        each row and feature (its local importance); of a black box 8 more (what the row causes as a donor), and 16 for
        each row.

    Examples
    --------
    >>> import numpy as np, losslens as ll
    >>> X = np.random.default_rng(0).normal(size=(100, 2))
    >>> models = {"both": lambda X: X[:, 0] + X[:, 1], "one": lambda X: X[:, 0]}
    >>> comparison = ll.compare(models, X, X[:, 0] + X[:, 1], loss="squared_error", shapley=False)
    >>> comparison.difference("x1", "both", "one").low > 0
    True

    One model on two sets of rows:

    >>> late = X + [0, 2]
    >>> rows, targets = {"early": X, "late": late}, {"early": X[:, 0] + X[:, 1], "late": late[:, 0]}
    >>> ll.compare(models["both"], rows, targets, loss="squared_error", shapley=False).moved()["moved"].tolist()
    [True, False]
    """
    cases, chosen = checked_cases(models, X, y, loss, shapley, sample_weight, groups)
    shared = Options(  # the same seed, and so the same donors, for all
        features=features, donors=donors, random_state=random_state, n_jobs=n_jobs, memory=memory, progress=progress
    )
    limits, remark = limits_of(budget), ""
    if limits is not None and is_scorer(chosen):
        raise ValueError(f"budget is for losses, and {loss!r} is a score: leave out budget=, or name a loss")
    if limits is not None and not isinstance(X, Mapping):
        cases, limits, remark = _affordable(cases, chosen, shared, limits, shapley=shapley)
        X = next(iter(cases.values())).X
    subjects = None if isinstance(X, Mapping) else Subjects(as_table(X))
    results: dict[str, Importances] = {}
    shares, parts = {}, 1 + shapley  # of the limits, for each case
    for k, (name, case) in enumerate(cases.items()):
        options = case.options(shared)
        warn_of_target(case.X, case.y)
        try:
            mine = options_of_each(_limited(options, limits, parts * k, parts * len(cases)), len(cases))
            results[name] = importances(case.model, case.X, case.y, chosen, mine, subjects)
            results[name] = replace(results[name], remarks=(*results[name].remarks, *[remark] * bool(remark)))
            for feature in results[name].values():
                _ = feature.pfi  # features with curves only are an error here, not later
            if shapley:
                options = _limited(options, limits, parts * k + 1, parts * len(cases))
                shares[name] = share_out(case.model, case.X, case.y, chosen, ShapleySettings(), options)
        except (ValueError, TypeError) as error:
            kind = TypeError if isinstance(error, TypeError) else ValueError
            raise kind(f"{name!r}: {error}") from error
    shifts = _shifts(cases, next(iter(results.values()))) if isinstance(X, Mapping) else {}
    return Comparison(importances=results, shapley=shares, paired=not isinstance(X, Mapping), shifts=shifts)


def _limited(options: Options, limits: Limits | None, k: int, parts: int) -> Options:
    """The options with the limits of the k-th of so many parts."""
    return options if limits is None else replace(options, limits=limits.share(k, parts))


def _affordable(
    cases: Mapping[str, Case], loss: Any, shared: Options, limits: Limits, *, shapley: bool
) -> tuple[dict[str, Case], Limits, str]:
    """The cases with the rows that the limits afford, drawn at random, which all have in common; and a remark."""
    from losslens.passes.affordable_rows import rows_for_all  # most calls have no limits

    tasks = [
        prepare(as_model(case.model), case.X, case.y, case.options(shared), loss=loss, response=loss.reads)
        for case in cases.values()
    ]
    n, rows = tasks[0].n, rows_for_all(tasks, limits, shapley=shapley)
    limits = replace(limits, every_row=True)
    if len(rows) == n:
        return dict(cases), limits, ""
    some = {name: case.at(rows) for name, case in cases.items()}
    return some, limits, f"budget: {len(rows):,} of {n:,} rows, drawn at random, the same for all models"


class Case(NamedTuple):
    """A model and its rows."""

    model: Any
    X: Any
    y: Any
    weight: Any
    groups: Any

    def at(self, rows: Indices) -> Case:
        """With some of the rows."""
        table = as_table(self.X)
        y, weight, groups = (
            None if one is None else one.iloc[rows] if hasattr(one, "iloc") else np.asarray(one)[rows]
            for one in (self.y, self.weight, self.groups)
        )
        return Case(self.model, table.rows(rows), y, weight, groups)

    def options(self, shared: Options) -> Options:
        """The options of all, with these weights and groups."""
        return replace(shared, sample_weight=self.weight, groups=self.groups)


def _shifts(cases: Mapping[str, Case], features: Importances) -> dict[str, dict[str, tuple[DistributionShift, ...]]]:
    """How much the values of each feature differ between every two sets of rows; of several columns the most."""
    tables = {name: as_table(case.X) for name, case in cases.items()}
    weights = {name: row_weights(case.weight, tables[name].n) for name, case in cases.items()}
    blocks = {name: group_numbers(case.groups, tables[name].n) for name, case in cases.items()}
    units = {name: effective_number(by_unit(weights[name], blocks[name])) for name in cases}
    shifts: dict[str, dict[str, tuple[DistributionShift, ...]]] = {}
    for pair in combinations(cases, 2):
        of_column = {
            column: shift_of(
                column, [tables[name].column(j) for name in pair], [weights[name] for name in pair],
                [units[name] for name in pair],
            )
            for j, column in enumerate(tables[pair[0]].names)
            if any(column in feature.columns for feature in features.values())
        }  # fmt: skip
        shifts.setdefault(pair[0], {})[pair[1]] = tuple(
            max((of_column[column] for column in feature.columns), key=lambda one: one.distance)
            for feature in features.values()
        )
    return shifts


def checked_cases(
    models: Any, X: Any, y: Any, loss: Any, shapley: bool, weight: Any, groups: Any
) -> tuple[dict[str, Case], Any]:
    """The cases to compare, by name, and the loss or scorer of all of them."""
    cases = _cases(models, X, y, weight, groups)
    chosen = _one_loss(cases, loss)
    _check_columns(cases)
    check_flag(shapley, "shapley")
    if shapley and is_scorer(loss) and any(case.groups is not None for case in cases.values()):
        raise ValueError("Shapley shares of a score take no groups: pass shapley=False, or a loss")
    return cases, chosen


def options_of_each(options: Options, cases: int) -> Options:
    """The options of the importances of one of so many cases: all results share the memory."""
    return replace(options, memory=options.memory // cases)


def _cases(models: Any, X: Any, y: Any, weight: Any, groups: Any) -> dict[str, Case]:
    """The cases to compare, by name."""
    if isinstance(X, Mapping):
        if isinstance(models, Mapping) and set(models) != set(X):
            raise ValueError(f"models {list(models)!r} and sets of rows {list(X)!r} must have the same names")
        by_name = models if isinstance(models, Mapping) else dict.fromkeys(X, models)
        given = {"y": y, "sample_weight": weight, "groups": groups}
        parts = {name: dict.fromkeys(X) if part is None and name != "y" else part for name, part in given.items()}
        for name, part in parts.items():
            if not isinstance(part, Mapping) or set(part) != set(X):
                raise ValueError(f"X is a mapping with the keys {list(X)!r}: {name} must be one with the same keys")
        cases = {str(name): Case(by_name[name], X[name], *(part[name] for part in parts.values())) for name in X}
    elif any(isinstance(part, Mapping) for part in (y, weight, groups)):
        raise ValueError(
            "y, sample_weight or groups is a mapping, but X is a single table: pass arrays, or a mapping of tables as X"
        )
    elif isinstance(models, Mapping):
        cases = {str(name): Case(model, X, y, weight, groups) for name, model in models.items()}
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


def _one_loss(cases: Mapping[str, Case], loss: Any) -> Any:
    """The loss of all models, or a scorer; of survival models on the grid of the first case."""
    if is_scorer(loss):
        return loss
    losses = {name: default_loss(as_model(case.model), loss, case.y) for name, case in cases.items()}
    if len({(one.name, one.reads) for one in losses.values()}) > 1:
        defaults = ", ".join(f"{name}: {one.name} of {one.reads}" for name, one in losses.items())
        raise ValueError(f"the models have different default losses ({defaults}); name one with loss=")
    return next(iter(losses.values()))


def _check_columns(cases: Mapping[str, Case]) -> None:
    """All sets of rows have the same columns, and every model was fitted on them."""
    tables = {name: as_table(case.X) for name, case in cases.items()}
    first, expected = next((name, table.names) for name, table in tables.items())
    for name, table in tables.items():
        if table.names != expected:
            raise ValueError(f"{name!r} and {first!r} have different columns: {unlike(table.names, expected)}")
    for name, case in cases.items():
        fitted = getattr(case.model, "feature_names_in_", None)
        if fitted is not None and tables[name].backend != "numpy" and set(map(str, fitted)) != set(expected):
            raise ValueError(
                f"{name!r} was fitted on other columns than X has: {unlike(tuple(map(str, fitted)), expected)}. "
                "Wrap it in a function or pipeline that selects its columns"
            )


def unlike(one: tuple[str, ...], other: tuple[str, ...]) -> str:
    """What columns the one table has that the other has not, in words."""
    more = [name for name in one if name not in other]
    fewer = [name for name in other if name not in one]
    words = [f"it has {', '.join(map(repr, more[:5]))}"] if more else []
    words += [f"it lacks {', '.join(map(repr, fewer[:5]))}"] if fewer else []
    return " and ".join(words) or "their order differs"
