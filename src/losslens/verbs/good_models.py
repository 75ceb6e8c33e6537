"""`good_models`: the range of importances over all models that predict about as well as the best."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, count
from numbers import Real
from typing import Any

import numpy as np

from losslens.donors.designs import Design
from losslens.losses import Loss, OutputsLoss, is_scorer, resolve
from losslens.passes.task import Options
from losslens.progress import Tick, bar
from losslens.refits.learner import Learner
from losslens.refits.learner import learner as checked_learner
from losslens.results.good_models import GoodModels
from losslens.tables.checks import class_positions, group_numbers, row_weights, rows_of, vector
from losslens.tables.frames import as_table
from losslens.tables.sources import in_files
from losslens.typing import Indices
from losslens.verbs.compare import compare, unlike
from losslens.verbs.running import verb
from losslens.workers import choose_workers

TAKEN = (
    "models is a mapping {'name': model, ...}, a list of fitted models, a fitted search of scikit-learn such as "
    "GridSearchCV, or (learner, n) for n fits on bootstrap samples"
)


@verb
def good_models(
    models: Any,
    X: Any,
    y: Any,
    *,
    within: float = 0.01,
    margin: float = 0.02,
    train: tuple[Any, Any] | None = None,
    loss: str | Loss | Callable[..., Any] | None = None,
    features: Any = None,
    donors: str | Design = "auto",
    sample_weight: Any = None,
    groups: Any = None,
    random_state: Any = None,
    n_jobs: int | None = None,
    memory: str | int = "1 GiB",
    progress: bool | None = None,
    executor: Any = None,
) -> GoodModels:
    """How important each feature is, at least and at most, to the models that predict about as well as the best.

    A model class often holds many models of nearly the same error, which may depend on other features (model class
    reliance of Fisher, Rudin and Dominici; Rashomon sets): the importance to one of them says little of the others.
    The result says of each feature whether every good model needs it, none does, or some do.

    Parameters
    ----------
    models
        ``{"name": model, ...}`` or a list of fitted models; a fitted search of scikit-learn, whose candidates are
        fitted again (`plan` says how many there are, and how long it takes); or ``(learner, n)``, an estimator and the
        number of fits on bootstrap samples. A fit that fails, or lacks a class, is named in the result and left out.
    X, y, loss, features, donors, sample_weight
        As in `feature_importance`, and the same for all models. A block of columns is a group of `features`. Rows that
        the models have not seen: see `train`.
    within
        How much worse than the best a good model may be: a share of the best model's gain over a constant prediction.
    margin
        A share of that gain; importances below it don't count.
    train
        ``(X, y)`` that a search's candidates, or a learner, are fitted on; by default a random half of the rows, and
        the numbers are of the other half.
    groups
        As in `feature_importance`; halves and bootstrap samples hold whole groups.
    n_jobs
        Threads; fits at a time.

    Examples
    --------
    >>> import numpy as np, losslens as ll
    >>> from sklearn.linear_model import LinearRegression
    >>> X = np.random.default_rng(0).normal(size=(300, 3))
    >>> y = X[:, 0] + 0.1 * np.random.default_rng(1).normal(size=300)
    >>> ll.good_models((LinearRegression(), 4), X, y, random_state=0).need
    {'x0': 'always', 'x1': 'never', 'x2': 'never'}
    """
    check_shares(within, margin)
    options = Options(
        features=features, donors=donors, sample_weight=sample_weight, groups=groups, random_state=random_state,
        n_jobs=n_jobs, memory=memory, progress=progress,
    )  # fmt: skip
    given = candidates(models, X, y, train, loss, options)
    failed: dict[str, str] = {}
    if isinstance(given, Candidates):
        models, failed = given.fitted()
        X, y, sample_weight, groups = given.judged
    else:
        models = given
    if len(models) < 2:
        why = "".join(f"; the fit of {name!r} failed: {text}" for name, text in failed.items())
        raise ValueError(f"a range needs two models or more; there is {len(models) or 'none'}{why}")
    comparison = compare(
        models, X, y, loss=loss, features=features, donors=donors, shapley=False, sample_weight=sample_weight,
        groups=groups, random_state=options.random_state, n_jobs=n_jobs, memory=memory, progress=progress,
    )  # fmt: skip
    fitted_on = given.learner.table.n if isinstance(given, Candidates) else 0
    good = GoodModels(comparison=comparison, within=within, margin=margin, failed=failed, n_fitted=fitted_on)
    if not good.gain > 0:
        raise ValueError(
            "no model predicts better than always giving the same answer, so there is no gain to set a margin by"
        )
    _ = good.need  # without standard errors it is an error here, not later
    return good


def check_shares(within: Any, margin: Any) -> None:
    """Both are shares of the best model's gain."""
    for name, share in (("within", within), ("margin", margin)):
        if isinstance(share, bool) or not isinstance(share, Real) or not 0 <= float(share) < 1:
            raise ValueError(
                f"{name} is a share of the best model's gain, from 0 to below 1, such as 0.01; got {share!r}"
            )


@dataclass(frozen=True, eq=False)
class Candidates:
    """Estimators that are fitted here, each on some rows of the learner's table, and the rows that judge them."""

    learner: Learner  # its table holds the rows for fits
    fits: Mapping[str, tuple[Any, Indices]]  # estimators, and positions of rows
    judged: tuple[Any, Any, Any, Any]  # X, y, weights and groups of the other rows

    def fitted(self) -> tuple[dict[str, Any], dict[str, str]]:
        """The fitted models by name, and why others failed."""
        options, models, failed = self.learner.options, dict[str, Any](), dict[str, str]()
        with bar(len(self.fits), "fitting candidates", options.progress, "fits") as tick:
            each = choose_workers(options.n_jobs).map(Candidates.one, self, list(self.fits), tick)
            for name, (model, why) in zip(self.fits, each, strict=True):
                if why:
                    failed[name] = why
                else:
                    models[name] = model
        return models, failed

    def one(self, name: str, tick: Tick) -> tuple[Any, str]:
        """A fitted model, or why it failed."""
        estimator, rows = self.fits[name]
        try:
            model = replace(self.learner, estimator=estimator).fitted(rows, self.learner.y)
            self.check(model)
        except Exception as error:  # noqa: BLE001 - whatever a learner raises for parameters that don't fit together
            return None, f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
        tick(1)
        return model, ""

    def check(self, model: Any) -> None:
        """ValueError for a model without a class of the rows that judge it: it has no loss there."""
        if self.learner.y.ndim == 1 and len(classes := getattr(model, "classes_", ())):
            class_positions(self.judged[1], np.asarray(classes), "this fit")

    def first(self) -> Any:
        """The first fit that doesn't fail."""
        why = ""
        for name in self.fits:
            model, why = self.one(name, lambda _: None)
            if not why:
                return model
        raise ValueError(f"no fit succeeds; of the last, {why}")


def candidates(
    models: Any, X: Any, y: Any, train: Any, loss: Any, options: Options
) -> Candidates | dict[str, Any]:  # fmt: skip
    """The models by name, or what is to be fitted; everything checked."""
    if in_files(X) or isinstance(X, Mapping):
        kind = "several sets of rows" if isinstance(X, Mapping) else "in files"
        raise ValueError(f"good_models takes one table in memory, and X is {kind}: pass one, or a sample of the rows")
    reading = None if loss is None or is_scorer(loss) else resolve(loss)
    if is_scorer(loss) or (
        reading is not None and (reading.custom or (isinstance(reading, OutputsLoss) and reading.encodes))
    ):
        raise ValueError(
            "the margin of good models is a share of the best one's gain over the best constant, which "
            f"{'a score' if reading is None else f'the loss {reading.name!r}'} does not have: name another loss"
        )
    search, bootstrap = hasattr(models, "cv_results_"), isinstance(models, tuple) and _is_learner(models)
    if not search and not bootstrap:
        if train is not None:
            raise ValueError("train= has the rows to fit a learner or a search on; leave it out for fitted models")
        return _by_name(models)
    base = models.estimator if search else models[0]
    fit_X, fit_y, judged, fit_groups = _parts(X, y, train, options)
    one_split = [(np.array([0]), np.array([1, 2]))] * 2  # of a learner that has none: its fits name their rows
    of_fits = replace(options, sample_weight=None, groups=None)
    learner = checked_learner(base, fit_X, fit_y, one_split, None, of_fits)
    n, rows = learner.table.n, np.arange(learner.table.n)
    learner = replace(learner, splits=((rows, rows),))
    if search:
        return Candidates(learner, _of_search(models, rows), judged)
    blocks = rows if fit_groups is None else group_numbers(fit_groups, n)
    assert blocks is not None
    members = [np.flatnonzero(blocks == block) for block in np.unique(blocks)]
    fits = {}
    for k in range(models[1]):
        rng = np.random.default_rng([options.random_state, k])
        drawn = rng.integers(0, len(members), len(members))
        fits[f"fit {k + 1}"] = (base, np.concatenate([members[block] for block in drawn]))
    return Candidates(learner, fits, judged)


def _is_learner(models: tuple[Any, ...]) -> bool:
    """Whether this is an estimator and a number of fits."""
    if len(models) != 2 or not hasattr(models[0], "fit") or not isinstance(models[1], (int, np.integer)):
        return False
    if isinstance(models[1], bool) or models[1] < 2:
        raise ValueError(f"(learner, n) takes n fits, 2 or more; got n = {models[1]!r}")
    return True


def _by_name(models: Any) -> dict[str, Any]:
    """Fitted models with names: in a list those of their classes, numbered where two are the same."""
    if isinstance(models, Mapping):
        return dict(models)  # names that are equal as text are refused by the comparison
    if not isinstance(models, Sequence) or isinstance(models, str):
        hint = "; fit the search first" if hasattr(models, "estimator") and hasattr(models, "fit") else ""
        raise TypeError(f"{TAKEN}; got {type(models).__name__}{hint}")
    return _numbered([(getattr(one, "__name__", type(one).__name__), one) for one in models])


def _numbered(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Named objects, with the next free number after a name that came before."""
    result: dict[str, Any] = {}
    for name, value in pairs:
        names = chain([name], (f"{name} {k}" for k in count(2)))
        result[next(one for one in names if one not in result)] = value
    return result


def _of_search(search: Any, rows: Indices) -> dict[str, tuple[Any, Indices]]:
    """The candidates of a fitted search, called by their parameters."""
    from sklearn.base import clone

    each = search.cv_results_["params"]
    return _numbered([
        (", ".join(f"{name.rpartition('__')[2]}={value}" for name, value in params.items()),
         (clone(search.estimator).set_params(**clone(params, safe=False)), rows))
        for params in each
    ])  # fmt: skip


def _parts(X: Any, y: Any, train: Any, options: Options) -> tuple[Any, Any, tuple[Any, Any, Any, Any], Any]:
    """X, y for fits, the rows that judge with y, weights and groups, and the groups of the rows for fits.

    What the rows that judge are given with is checked here, before anything is fitted.
    """
    if train is not None and (not isinstance(train, tuple) or len(train) != 2):
        raise TypeError(f"train is a pair (X, y) of rows for the fits; got {type(train).__name__}")
    if y is None:
        raise ValueError("y, the true values, is missing: models are judged by their errors")
    weight, groups, table = options.sample_weight, options.groups, as_table(X)
    y = rows_of(y, table.n, table.index)
    weight = None if weight is None else vector(weight, table.n, "sample_weight", table.index)
    groups = None if groups is None else vector(groups, table.n, "groups", table.index)
    numbers = group_numbers(groups, table.n)
    if train is not None:
        row_weights(weight, table.n)
        names = as_table(train[0]).names
        if names != table.names:
            raise ValueError(f"the rows for the fits have other columns than X: {unlike(names, table.names)}")
        return *train, (X, y, weight, groups), None
    blocks = np.arange(table.n) if numbers is None else np.unique(numbers, return_inverse=True)[1]
    half = np.random.default_rng([options.random_state, 1]).permutation(blocks.max() + 1) % 2 == 0
    rows = [np.flatnonzero(half[blocks]), np.flatnonzero(~half[blocks])]
    if min(map(len, rows)) < 3:
        raise ValueError("half of the rows are for the fits, half for the numbers: too few; pass train=(X, y)")

    def cut(values: Any, part: Indices) -> Any:
        return None if values is None else values[part]

    (fit_X, judged_X), (fit_y, judged_y) = (table.at(part) for part in rows), (y[part] for part in rows)
    judged = judged_X, judged_y, cut(weight, rows[1]), cut(groups, rows[1])
    row_weights(judged[2], len(rows[1]))
    return fit_X, fit_y, judged, cut(groups, rows[0])
