"""`feature_importance` and `feature_effect`: permutation importance, and partial dependence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from losslens.donors.designs import Design
from losslens.donors.questions import Subject, Subjects
from losslens.losses import Loss, OutputsLoss, is_scorer
from losslens.models import as_model
from losslens.passes import auto
from losslens.passes.budget import Answered
from losslens.passes.dispatch import Asked, ask, design_of
from losslens.passes.parts import call
from losslens.passes.scored import score_importance
from losslens.passes.task import Options, Task, class_of, default_loss, effect_response, prepare
from losslens.results.effects import Effects, FeatureEffect, of_class
from losslens.results.importance import FeatureImportance
from losslens.results.importances import Importances
from losslens.results.replaced_rows import ReplacedRows
from losslens.tables.leaked_target import warn_of_target
from losslens.tables.sample import Sample, with_parts
from losslens.tables.sources import as_source
from losslens.workers import with_executor


@with_executor
def feature_importance(
    model: Any,
    X: Any,
    y: Any,
    *,
    loss: str | Loss | Callable[..., Any] | None = None,
    features: Any = None,
    donors: str | Design = "auto",
    sample_weight: Any = None,
    groups: Any = None,
    random_state: Any = None,
    n_jobs: int | None = None,
    memory: str | int = "1 GiB",
    progress: bool | None = None,
    device: str | None = None,
    executor: Any = None,
) -> Importances:
    """Permutation feature importance, with the changes of loss that it is the mean of.

    ``PFI = mean over rows i and donors k of L(f(x_i with k's values), y_i) - L(f(x_i), y_i)``

    Exact engines give the numbers of brute force within 1e-9 of the model's mean losses, with nothing and with the most
    important feature replaced, in any unit of y; XGBoost, which adds up in float32, within 1e-5 (its single cells
    within the rounding of its margin times the slope of the loss). Where they can't, or know no such model,
    ``.declined`` says why, and the model is asked.

    Parameters
    ----------
    model
        A fitted estimator, or any function from a table to predictions.
    X, y
        A table (NumPy, pandas, polars, pyarrow) and the true values, unseen by the model if possible. Or data larger
        than memory: Parquet files (a path, a list, a folder, a pattern), a pyarrow dataset, a polars lazy frame, a dask
        data frame; then `y` and `sample_weight` may be names of columns. Row labels of a pandas frame are kept: results
        name rows by them, and a `y` with the same labels in another order is refused.
    loss
        A name such as ``"squared_error"``, or a function ``(y, prediction) -> one loss a row``. Or a score of all rows,
        with its standard error and the PI curve, but nothing of single rows: a name of scikit-learn's such as
        ``"roc_auc"``, a scorer, ``"score"`` (the estimator's own), `losses.scorer` of a function ``(estimator, X, y)``.
        Default: squared error for regressors, log loss for classifiers.
    features
        Columns; ``{"name": [columns]}`` for columns replaced together; a tuple for a pair on a product grid.
    donors
        ``"auto"``: all pairs where an exact engine supports the model (trees, linear and generalised linear models,
        logistic regression, kernel machines; see ``.engine``) or where that takes at most a million predictions a
        feature, otherwise systematic shifts, as many as the sampling error requires; ``"all"``; a design; or a sampler
        that draws values given the other columns: `Within`, `Residual`, or a function.
    sample_weight
        Weights of the rows, as observations and as donors.
    groups
        A label for each row, for clustered rows (patients, sites): donors come from other groups and standard errors
        are clustered.
    random_state
        A seed or a NumPy generator.
    n_jobs
        Threads; for processes call inside ``joblib.parallel_config("loky")``.
    memory
        The most memory for intermediate arrays and for the result, besides what the model itself uses, 8 bytes for
        each local importance (rows x features) and, with Latin, Permutations or Derangements(m), 16 for each value of
        a column (PI and PD). Ten features of 200,000 rows need 64 MiB; with less than about 16
        bytes for each row and feature, and 160 for each row, it can't be kept to.
    progress
        Whether to show a progress bar; None: in terminals and notebooks only.
    device
        ``"cuda"``: groups of columns of tree ensembles, over all pairs, are computed on a GPU (needs torch). Torch
        modules always compute on their own device.
    executor
        A dask.distributed ``Client``: the work is done on its cluster.

    Examples
    --------
    >>> import numpy as np, losslens as ll
    >>> X = np.random.default_rng(0).normal(size=(100, 2))
    >>> imp = ll.feature_importance(lambda X: 2 * X[:, 0], X, 2 * X[:, 0], loss="squared_error")
    >>> imp["x1"].pfi
    0.0
    """
    options = Options(
        features=features, donors=donors, sample_weight=sample_weight, groups=groups, random_state=random_state,
        n_jobs=n_jobs, memory=memory, progress=progress, device=device,
    )  # fmt: skip
    warn_of_target(X, y)
    return importances(model, X, y, loss, options)


def importances(
    model: Any, X: Any, y: Any, loss: Any, options: Options, subjects: Subjects | None = None
) -> Importances:
    """`feature_importance` with checked options; `subjects`, of the table X, are shared with other models."""
    known = as_model(model)
    if is_scorer(loss):
        return score_importance(known, X, y, loss, options)
    chosen = default_loss(known, loss, y)
    if (source := as_source(X)) is not None:
        X = source  # not opened again by `prepare`
        if (data := call.opened(known, source, y, options)) is not None:
            return call.importances(known, data, chosen, options)
    task = prepare(known, X, y, options, loss=chosen, response=chosen.reads, subjects=subjects)
    return until_precise(task)[0]


@with_executor
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
    model, X, features, donors, sample_weight, random_state, n_jobs, memory, progress, executor
        As in `feature_importance`; ``"auto"`` takes all values, or a grid of quantiles where these are too many and no
        exact engine supports the model.
    target
        The class whose probability is shown; for two classes the second by default.

    Examples
    --------
    >>> import numpy as np, losslens as ll
    >>> X = np.array([[0.0, 1.0], [1.0, 3.0]])
    >>> ll.feature_effect(lambda X: X[:, 0] * X[:, 1], X)["x0"].pd
    array([0., 2.])
    """
    options = Options(
        features=features, donors=donors, sample_weight=sample_weight, random_state=random_state, n_jobs=n_jobs,
        memory=memory, progress=progress,
    )  # fmt: skip
    known = as_model(model)
    response = effect_response(known)
    if (source := as_source(X)) is not None:
        X = source  # not opened again by `prepare`
        if (data := call.opened(known, source, None, options)) is not None:
            return call.effects(known, data, response, target, options)
    task = prepare(known, X, None, options, loss=None, response=response)
    of = class_of(task.sample, target, response)
    curves, predicted = effects_of(task, [(s, design_of(task, s, auto.effect_design)) for s in task.subjects], of)
    return Effects({one.name: one for one in curves}, predicted)


def effects_of(
    task: Task, asked: Sequence[Asked], of: tuple[int | None, str | None]
) -> tuple[list[FeatureEffect], int]:
    """Effects with these designs on the class `of`, and the number of predictions."""
    answered, predicted = ask(task, asked)
    k, label = of
    curves = [FeatureEffect(**_shared(task, answer), target=label) for answer in answered]
    return [(one if k is None else of_class(one, k)).trimmed() for one in curves], predicted


def importances_of(task: Task, asked: Sequence[Asked]) -> tuple[list[FeatureImportance], int]:
    """Importances with these designs, and the number of predictions."""
    answered, predicted = ask(task, asked)
    samples: dict[int, list[Sample]] = {}
    return [_by_loss(task, answer, samples)[0] for answer in answered], predicted


def _importance(task: Task, answer: Answered, loss: Loss) -> FeatureImportance:
    return FeatureImportance(**_shared(task, answer), loss=loss).trimmed()


def until_precise(task: Task) -> list[Importances]:
    """All features, by each loss of the call; those that "auto" samples get donors until their noise is negligible."""
    rule = partial(auto.first_design, blocked=task.blocked)
    designs = {s.feature.name: design_of(task, s, rule) for s in task.subjects}
    found: dict[str, list[FeatureImportance]] = {}  # of each feature, by each loss and its parts
    spent: Counter[str] = Counter()  # predictions of each feature
    tight = task.budget.is_tight(len(task.subjects), task.n)
    pending = list(task.subjects)
    total = 0
    while pending:
        asked = [(s, designs[s.feature.name]) for s in pending]
        now = _beside(task, asked, found)
        answered, predicted = ask(now, asked)
        total += predicted
        pending = []
        samples: dict[int, list[Sample]] = {}  # one for all features that share one, by each loss
        for (subject, _), answer in zip(asked, answered, strict=True):
            name, several = answer.feature.name, _by_loss(task, answer, samples)
            spent[name] += several[0].n_predictions
            more = [one for one in several if auto.wants_more(one)] if task.design is None else []
            if more:  # the draw so far is not kept while the next is computed
                noisiest = max(more, key=auto.more_donors)
                designs[name] = auto.next_design(noisiest, subject, task.n)
                pending.append(subject)
            elif several[0].design.common and spent[name] == several[0].n_predictions:  # computed at once
                found[name] = several
            else:  # new results, without the influences that were computed for the decision
                found[name] = [replace(one, n_predictions=spent[name]) for one in several]
            if tight:
                subject.release()
        del answered, answer, several, more
    return by_loss(task.losses, {s.feature.name: found[s.feature.name] for s in task.subjects}, total)


def _by_loss(task: Task, answer: Answered, samples: dict[int, list[Sample]]) -> list[FeatureImportance]:
    """The importance of a feature by each loss, and by its parts."""
    losses, sample = with_parts(task.losses), answer.sample
    if len(losses) == 1:
        return [_importance(task, answer, losses[0])]
    alone = samples.setdefault(id(sample), [sample.alone(k) for k in range(len(losses))])
    return [_importance(task, one, loss) for one, loss in zip(answer.of_losses(alone), losses, strict=True)]


def by_loss(losses: Sequence[Loss], found: dict[str, list[FeatureImportance]], predicted: int) -> list[Importances]:
    """The importances by each loss, with those of its outputs, from those of each feature by losses and parts."""
    results, start = [], 0
    for loss in losses:
        of = [
            Importances({name: several[k] for name, several in found.items()}, predicted)
            for k in range(start, start + 1 + len(loss.parts))
        ]
        start += len(of)
        names = loss.outputs if isinstance(loss, OutputsLoss) else ()
        results.append(replace(of[0], by_output=dict(zip(names, of[1:], strict=True))))
    return results


def _beside(task: Task, asked: Sequence[tuple[Subject, Design]], found: dict[str, list[FeatureImportance]]) -> Task:
    """The call with the memory that features computed before leave; these keep cells of no more rows than the next."""
    cells = {name: of[0].meeting.width for name, of in found.items() if of[0].engine == task.engine.name}
    if not cells:
        return task
    budget = replace(task.budget, beside=tuple(cells.values()))
    widths = [len(s.distinct) if design.m is None else design.m for s, design in asked]
    kept = budget.rows_to_keep(widths, task.n, task.entropy)
    found |= {name: [one.keeping(kept) for one in found[name]] for name in cells}
    return replace(task, budget=budget, sample=found[next(iter(cells))][0].sample)


def _shared(task: Task, answer: Answered) -> dict[str, Any]:
    """The fields that importances and effects share."""
    fields = answer.fields(task.table.names, task.every, task.table.backend)
    return fields | {"extrapolated": _replaced_rows(task, answer)}


def _replaced_rows(task: Task, answer: Answered) -> ReplacedRows | None:
    """Rows with replaced values, to be compared with real ones; None for a pair, whose values have no donors."""
    feature = answer.feature
    if feature.kind == "pair":
        return None
    return ReplacedRows(feature.name, feature.columns, task.real_rows[1], answer.filled.drawn)
