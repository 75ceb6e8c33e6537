"""`conditional_predictive_impact`: importance with values drawn given the other columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from losslens.donors.conditional import BoundSampler, Conditioning, bound
from losslens.donors.questions import Subject
from losslens.donors.samplers import Sampler, Within
from losslens.losses import Loss
from losslens.models import as_model
from losslens.passes.task import Options, Task, default_loss, picked, prepare
from losslens.progress import Tick, bar
from losslens.results.row_changes import ConditionalImpact
from losslens.shapley.conditional import draw_weights, drawn_losses
from losslens.shapley.setup import GameSetup, set_up
from losslens.tables.checks import check_count
from losslens.tables.leakage import warn_of_target
from losslens.typing import Floats
from losslens.verbs.running import verb

WITHIN_LEAVES = Within()


@verb
def conditional_predictive_impact(
    model: Any,
    X: Any,
    y: Any,
    sampler: Sampler = WITHIN_LEAVES,
    *,
    loss: str | Loss | Callable[..., Any] | None = None,
    features: Any = None,
    draws: int = 1,
    sample_weight: Any = None,
    random_state: Any = None,
    n_jobs: int | None = None,
    memory: str | int = "1 GiB",
    progress: bool | None = None,
    executor: Any = None,
) -> ConditionalImpact:
    """What each feature adds to the model's performance beyond the other features, with a test.

    ``CPI = mean over rows of L(f(x_i with values drawn given the rest), y_i) - L(f(x_i), y_i)``

    Rows are independent given the sampler, so the mean change has an ordinary standard error. The test is valid if the
    sampler draws from the distribution of the feature given the other columns (knockoffs, residuals of a regression, a
    generative model). That is tested, too: where drawn values can be told from real ones, the result says so beside
    the p-value (`caution`).

    Parameters
    ----------
    model, X, y, loss, features, sample_weight
        As in `feature_importance`.
    sampler
        `Within`, the default, `Residual`, or a function ``(X, columns, rng) -> a table like X`` whose named columns are
        drawn given the others.
    draws
        Draws for each row; more of them reduce the Monte-Carlo noise.

    Examples
    --------
    >>> import numpy as np, losslens as ll
    >>> X = np.random.default_rng(0).normal(size=(200, 2))  # independent columns: any permutation is a fair draw
    >>> def shuffled(X, columns, rng):
    ...     return X[rng.permutation(len(X))]
    >>> cpi = ll.conditional_predictive_impact(
    ...     lambda X: X[:, 0], X, 2 * X[:, 0], shuffled, loss="squared_error", random_state=0
    ... )
    >>> (cpi.interval()[0] > 0).tolist()
    [True, False]
    """
    options = picked(Options, locals())
    warn_of_target(X, y)
    task = checked_task(model, X, y, sampler, loss, draws, options)
    with bar(task.n * (1 + draws * len(task.subjects)), "drawing and predicting", progress) as tick:
        setup = set_up(task, None, tick)
        design = bound(sampler, task.table, task.sample.weight)
        drawn = [mean_changes(task, setup, subject, design, draws, tick) for subject in task.subjects]
    local = np.stack([changes for changes, _ in drawn], axis=1)
    if np.isnan(local[setup.sample.weight > 0]).any(axis=1).all():
        raise ValueError(f"sampler={sampler!r} has no donor with weight for any row with weight; pass more rows")
    assert task.loss is not None  # `checked_task` has chosen one
    return ConditionalImpact(
        features=tuple(subject.feature.name for subject in task.subjects),
        local=local,
        weight=setup.sample.weight,
        error=setup.sample.error,
        title=task.loss.title,
        backend=task.table.backend,
        row_labels=task.table.row_labels,
        conditioning=tuple(conditioning for _, conditioning in drawn),
    )


def checked_task(model: Any, X: Any, y: Any, sampler: Sampler, loss: Any, draws: int, options: Options) -> Task:
    """Every argument checked."""
    if not callable(sampler) or isinstance(sampler, type):
        raise TypeError(f"sampler must be a function (X, columns, rng) -> a table like X; got {type(sampler).__name__}")
    check_count(draws, "draws")
    wrapped = as_model(model)
    chosen = default_loss(wrapped, loss, y)
    return prepare(wrapped, X, y, options, loss=chosen, response=chosen.reads, exact=False)


def mean_changes(
    task: Task, setup: GameSetup, subject: Subject, design: BoundSampler, draws: int, tick: Tick
) -> tuple[Floats, Conditioning]:
    """The mean change of each row's loss over the draws, (n,), and how values were drawn."""
    columns, base = subject.feature.columns, setup.sample.loss
    assert base is not None
    drawn = design.draw_values(columns, subject.generator(task.entropy), m=draws)
    losses = drawn_losses(setup, columns, drawn, tick)
    counted = draw_weights(drawn, setup.sample.weight)
    with np.errstate(invalid="ignore"):  # a row without a donor: NaN
        # Changes, not losses, are averaged: where nothing changes the mean is 0, not rounding.
        changes = np.asarray((counted * (losses - base)).sum(axis=0) / counted.sum(axis=0))
    return changes, design.conditioning(subject.feature.name, columns, drawn)
