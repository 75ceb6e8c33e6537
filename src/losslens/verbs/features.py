"""`feature_importance` and `feature_effect`: permutation importance, and partial dependence.

The steps of either, one line each; the first in `_by_losses_of_rows`, the others in `importances_of`:

- check every argument against the table: `prepare` in passes/task, of several losses `tasks_by_response`;
- donors: `first_designs` in passes/ways; the draw from a design is `pose` in donors/questions;
- predictions, losses, means: `evaluate` in passes/ways, by the pass that fits the engine: passes/cells for any model;
- again with more donors until their noise is negligible: `evaluate_until_precise` in passes/ways;
- the result: results/importances, by each loss, and results/importance, of each feature.

Scores take these steps by a mean loss where they are a function of one (`mean_score` in passes/scored).
Files that don't fit into memory take the same steps part by part (passes/parts).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Literal, overload

from losslens.donors.designs import Design
from losslens.donors.questions import Subjects
from losslens.losses import Loss, OutputsLoss, is_scorer, names_of
from losslens.models import Model, as_model
from losslens.passes.allowance import Limits, limits_of
from losslens.passes.outputs import tasks_by_response
from losslens.passes.parts import call
from losslens.passes.scored import by_scores, mean_score
from losslens.passes.task import Options, Task, class_of, default_loss, effect_of, opened, picked, prepare
from losslens.passes.ways import ByFeature, effect_designs, evaluate, evaluate_until_precise, first_designs
from losslens.results.afforded import Afforded
from losslens.results.effects import Effects, of_class
from losslens.results.importances import Importances
from losslens.tables.leakage import training_rows, warn_of_target
from losslens.tables.sample import with_parts
from losslens.tables.sources import as_source
from losslens.verbs.running import verb


@overload
def feature_importance(
    model: Any, X: Any, y: Any, *, loss: list[Any] | tuple[Any, ...], **options: Any
) -> dict[str, Importances]: ...


@overload
def feature_importance(
    model: Any,
    X: Any,
    y: Any,
    *,
    loss: str | Loss | Callable[..., Any] | None = None,
    features: Any = None,
    donors: str | Design = "auto",
    budget: str | int | None = None,
    precision: Literal["ranks"] | None = None,
    sample_weight: Any = None,
    groups: Any = None,
    random_state: Any = None,
    n_jobs: int | None = None,
    memory: str | int = "1 GiB",
    progress: bool | None = None,
    executor: Any = None,
) -> Importances: ...


@verb  # type: ignore[misc]  # a list of losses takes the same options as one
def feature_importance(
    model: Any,
    X: Any,
    y: Any,
    *,
    loss: Any = None,
    features: Any = None,
    donors: str | Design = "auto",
    budget: str | int | None = None,
    precision: Literal["ranks"] | None = None,
    sample_weight: Any = None,
    groups: Any = None,
    random_state: Any = None,
    n_jobs: int | None = None,
    memory: str | int = "1 GiB",
    progress: bool | None = None,
    executor: Any = None,
) -> Any:
    """Permutation feature importance, with the changes of loss that it is the mean of.

    ``PFI = mean over rows i and donors k of L(f(x_i with k's values), y_i) - L(f(x_i), y_i)``

    Exact engines give the numbers of brute force within 1e-9 of the model's mean losses, with nothing and with the most
    important feature replaced, in any unit of y; XGBoost, which adds up in float32, within 1e-5 (its single cells
    within the rounding of its margin times the slope of the loss). Where they can't, or know no such model,
    ``.declined`` says why, and the model is asked.

    Parameters
    ----------
    model
        A fitted estimator, any function from a table to predictions, or a torch module, which computes on its own
        device.
    X, y
        A table (NumPy, pandas, polars, pyarrow) and the true values, unseen by the model if possible. Or data larger
        than memory: Parquet files (a path, a list, a folder, a pattern), a pyarrow dataset, a polars lazy frame, a dask
        data frame. `y`, `sample_weight` and `groups` may be names of columns, which then leave X, unless the model was
        fitted on them. An array has the names that the model was fitted with. A list, an array or a series of strings
        is one column of texts, for pipelines that take these. Row labels of a pandas frame are kept: results name rows
        by them, and a `y` with the same labels in another order is refused.
    loss
        A name such as ``"squared_error"``, or a function ``(y, prediction) -> one loss a row``. Or a score of all rows,
        with its standard error and the PI curve, but nothing of single rows: a name of scikit-learn's such as
        ``"roc_auc"``, a scorer, ``"score"`` (the estimator's own), `losses.scorer` of a function ``(estimator, X, y)``.
        Default: squared error for regressors, log loss for classifiers. Where y has several columns, one for each
        output of the model, losses of numbers are averaged over them (`losses.outputs` for weights), and ``.outputs``
        has the importances for each; so it has those for each time of `losses.brier_survival`, the default of survival
        models, where y is (event, time), and for each quantile of `losses.pinball`. A list of losses gives a dict from
        their names to results; losses that read the same response are evaluated on the same predictions.
    features
        Columns; ``{"name": [columns]}`` for columns replaced together; a tuple for a pair on a product grid.
    donors
        ``"auto"``: all pairs where an exact engine supports the model (trees, linear and generalised linear models,
        logistic regression, kernel machines; see ``.engine``) or where that takes at most a million predictions a
        feature, otherwise systematic shifts, as many as the sampling error requires; Latin shifts of three and more
        columns of trees together, unless all pairs are as fast; ``"all"``; a design; or a sampler that draws values
        given the other columns: `Within`, `Residual`, or a function.
    budget
        For models that take long: a time, such as ``"10 min"``, or a number of predictions. Calls of the model are
        timed; rows with weight are drawn at random, all if there is time, and get donors where these reduce the error
        most, so that features which are surely unimportant get few. What is done when the time ends, at Ctrl-C, or when
        the model fails four times in a row is the result, which says what was afforded (`afforded`); `Importances.more`
        goes on. It ends early if more donors would hardly help. A number of predictions gives the same result on every
        machine. Where an exact engine reads the model nothing is sampled, and the budget does not matter.
    precision
        ``"ranks"`` ends the call once the leading five ranks are settled, each at 95%; this counts that one looks again
        and again.
    sample_weight
        Weights of the rows, as observations and as donors.
    groups
        A label for each row, for clustered rows (patients, sites) or rows in time (`time_blocks`): donors come from
        other groups and standard errors are clustered.

    Examples
    --------
    >>> import numpy as np, losslens as ll
    >>> X = np.random.default_rng(0).normal(size=(100, 2))
    >>> imp = ll.feature_importance(lambda X: 2 * X[:, 0], X, 2 * X[:, 0], loss="squared_error")
    >>> imp["x1"].pfi
    0.0
    """
    options = replace(picked(Options, locals()), limits=limits_of(budget, precision))
    warn_of_target(X, y)
    if isinstance(loss, (list, tuple)):
        return importances_by_loss(model, X, y, names_of(loss), options)
    return importances(model, X, y, loss, options)


def importances(
    model: Any, X: Any, y: Any, loss: Any, options: Options, subjects: Subjects | None = None
) -> Importances:
    """`feature_importance` with checked options; `subjects`, of the table X, are shared with other models."""
    return importances_by_loss(model, X, y, {"loss": loss}, options, subjects)["loss"]


def importances_by_loss(
    model: Any, X: Any, y: Any, losses: Mapping[str, Any], options: Options, subjects: Subjects | None = None
) -> dict[str, Importances]:
    """By each of several losses and scores: those that read the same response of a table share their predictions.

    Scores that are functions of a mean loss are its importances on another scale; others need the predictions.
    """
    model = as_model(model)
    scorers = {name: loss for name, loss in losses.items() if is_scorer(loss)}
    if (score := next(iter(scorers.values()), None)) is not None and options.limits is not None:
        raise ValueError(f"budget and precision are for losses, and {score!r} is a score: leave them out")
    means = {name: mean for name, scorer in scorers.items() if (mean := mean_score(model, scorer, y)) is not None}
    of_rows = {name: default_loss(model, loss, y) for name, loss in losses.items() if name not in scorers}
    of_rows |= {name: loss for name, (loss, _) in means.items()}
    results = _by_losses_of_rows(model, X, y, of_rows, options, subjects) if of_rows else {}
    results |= by_scores(model, X, y, scorers, means, options, results) if scorers else {}
    remark = "" if as_source(X) is not None else training_rows(model.native, X, y)
    return {name: replace(results[name], remarks=(remark,)) if remark else results[name] for name in losses}


def _by_losses_of_rows(
    model: Model, X: Any, y: Any, losses: Mapping[str, Loss], options: Options, subjects: Subjects | None = None
) -> dict[str, Importances]:
    """Of a table, of files part by part, or, without an engine that reads parts, of some of their rows."""
    X, y, options, files = opened(model, X, y, options)
    if files is None:
        tasks = tasks_by_response(model, X, y, losses, options, subjects)
        if len(tasks) > 1 and options.limits is not None:
            raise ValueError("budget is for losses that share predictions: make one call for each of these losses")
        lists = ((names, importances_of(task, options.limits)) for names, task in tasks)
        return {name: one for names, several in lists for name, one in zip(names, several, strict=True)}
    if options.limits is not None:
        raise ValueError("budget is for rows in memory, and these are read in parts: pass some of them as a table")
    results = call.importances(model, files, losses, options)
    if others := {name: loss for name, loss in losses.items() if name not in results}:
        X, y, options, remarks = call.some_rows(files, options)
        sampled = _by_losses_of_rows(model, X, y, others, options)
        results |= {name: replace(one, remarks=remarks) for name, one in sampled.items()}
    return results


def importances_of(task: Task, limits: Limits | None = None) -> list[Importances]:
    """The features of a checked call, by each of its losses; those of several outputs also by each of these."""
    if limits is not None:
        from losslens.passes.spending import spend  # most calls have no limits

        return as_importances(task, *spend(task, limits))
    donors = first_designs(task)
    return as_importances(task, *evaluate_until_precise(task, donors))


def as_importances(
    task: Task, by_feature: ByFeature, n_predictions: int, afforded: Afforded | None = None
) -> list[Importances]:
    """Results of features as those of each loss, and of each output."""
    every_loss = with_parts(task.losses)  # each followed by those of its outputs
    by_loss = iter([
        Importances({name: one[k] for name, one in by_feature.items()}, n_predictions, afforded=afforded)
        for k in range(len(every_loss))
    ])  # fmt: skip
    outputs = [loss.outputs if isinstance(loss, OutputsLoss) else () for loss in task.losses]
    return [replace(next(by_loss), by_output=dict(zip(names, by_loss, strict=False))) for names in outputs]


@verb
def feature_effect(
    model: Any,
    X: Any,
    *,
    features: Any = None,
    target: Any = None,
    donors: str | Design = "auto",
    sample_weight: Any = None,
    random_state: Any = None,
    n_jobs: int | None = None,
    memory: str | int = "1 GiB",
    progress: bool | None = None,
    executor: Any = None,
) -> Effects:
    """Partial dependence and ICE curves: how predictions change with a feature.

    ``PD(v) = mean over rows i of f(x_i with the feature at v)``

    Parameters
    ----------
    model, X, features, donors, sample_weight
        As in `feature_importance`; ``"auto"`` takes all values, or a grid of quantiles where these are too many and no
        exact engine supports the model.
    target
        The class whose probability is shown; for two classes the second by default. Of a model with several outputs
        the position of one, or its name where the model returns a frame.

    Examples
    --------
    >>> import numpy as np, losslens as ll
    >>> X = np.array([[0.0, 1.0], [1.0, 3.0]])
    >>> ll.feature_effect(lambda X: X[:, 0] * X[:, 1], X)["x0"].pd
    array([0., 2.])
    """
    options = picked(Options, locals())
    checked, response = effect_of(as_model(model), target)
    X, _, options, files = opened(checked, X, None, options)
    if files is not None:
        return call.effects(checked, files, response, target, options)
    task = prepare(checked, X, None, options, loss=None, response=response)
    k, label = class_of(task.sample, target, response)
    evaluated, n_predictions = evaluate(task, effect_designs(task))
    effects = [(one if k is None else of_class(one, k)).trimmed() for (one,) in evaluated]
    return Effects({one.name: replace(one, target=label) for one in effects}, n_predictions)
