"""The verb on conditional importance: values drawn given the other columns, by a sampler of the user's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from losslens.engines import BlackBox
from losslens.games import Board, set_up
from losslens.impact_results import ConditionalImpact
from losslens.losses import Loss
from losslens.models import as_model
from losslens.progress import Tick, bar
from losslens.questions import Subject
from losslens.results import Floats
from losslens.sample import lose
from losslens.tables import Batch, Edit, Table, as_rows, as_table
from losslens.tasks import Task, default_loss, prepare
from losslens.workers import anywhere


class Sampler(Protocol):
    """Draws some columns of every row given its other columns."""

    def __call__(self, X: Any, columns: Sequence[Any], rng: np.random.Generator, /) -> Any:
        """A table like X whose named columns (positions, for an array) are drawn anew; the others are not read."""


@anywhere
def conditional_predictive_impact(
    model: Any,
    X: Any,
    y: Any,
    sampler: Sampler,
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
    """What a feature adds to the model's performance beyond the other features, with a test for each.

    ``CPI = mean over rows of L(f(x_i with values drawn given the rest), y_i) - L(f(x_i), y_i)``

    Rows are independent given the sampler, so the mean change has an ordinary standard error. The test is as good as
    the sampler: it must draw from the distribution of the feature given the other columns (knockoffs, residuals of a
    regression, a generative model).

    Parameters
    ----------
    model, X, y, loss, features, sample_weight, random_state, n_jobs, memory, progress, executor
        As in `feature_importance`.
    sampler
        A function ``(X, columns, rng) -> a table like X`` whose named columns are drawn given the others.
    draws
        How often values are drawn for each row; more of them lessen the draw's own noise.

    Examples
    --------
    >>> import numpy as np, losslens as ll
    >>> X = np.random.default_rng(0).normal(size=(200, 2))  # independent columns: any permutation is a fair draw
    >>> def shuffled(X, columns, rng):
    ...     return X[rng.permutation(len(X))]
    >>> cpi = ll.conditional_predictive_impact(
    ...     lambda X: X[:, 0], X, X[:, 0], shuffled, loss="squared_error", random_state=0
    ... )
    >>> (cpi.estimates.p_values() < 0.05).tolist()
    [True, False]
    """
    if not callable(sampler):
        raise TypeError(f"sampler is a function (X, columns, rng) -> a table like X; got {type(sampler).__name__}")
    if isinstance(draws, bool) or not isinstance(draws, (int, np.integer)) or draws < 1:
        raise ValueError(f"draws is a whole number from 1 on; got {draws!r}")
    known = as_model(model)
    chosen = default_loss(known, loss)
    task = prepare(
        known, X, y, loss=chosen, response=chosen.reads, features=features, donors="auto", groups=None, exact=False,
        sample_weight=sample_weight, random_state=random_state, n_jobs=n_jobs, memory=memory, progress=progress,
    )  # fmt: skip
    with bar(task.n * (1 + draws * len(task.subjects)), "drawing and predicting", progress) as tick:
        board = set_up(task, None, tick)
        changes = [_changes(task, board, subject, sampler, draws, tick) for subject in task.subjects]
    return ConditionalImpact(
        features=tuple(subject.feature.name for subject in task.subjects),
        local=np.stack(changes, axis=1),
        weight=board.sample.weight,
        error=board.sample.error,
        title=chosen.title,
        backend=task.table.backend,
    )


def _changes(task: Task, board: Board, subject: Subject, sampler: Sampler, draws: int, tick: Tick) -> Floats:
    """The mean change of each row's loss over the draws, (n,)."""
    rng = subject.generator(task.entropy)
    return np.asarray(np.mean([_drawn(task, board, subject, sampler, rng, tick) for _ in range(draws)], axis=0))


def _drawn(
    task: Task, board: Board, subject: Subject, sampler: Sampler, rng: np.random.Generator, tick: Tick
) -> Floats:
    """The change of each row's loss with one draw."""
    table, engine, loss = task.table, task.engine, task.loss
    assert isinstance(engine, BlackBox)  # the one that answers everything
    assert loss is not None  # it was chosen above
    where = subject.feature.columns
    own = table.rows(np.arange(table.n))  # a copy: samplers may write into what they get
    drawn = _taken(sampler(own, _called(task, where), rng), table)
    sources, batch, found = {j: drawn.column(j) for j in where}, Batch(table), np.empty(table.n)
    for start in range(0, table.n, engine.batch_rows):
        rows = np.arange(start, min(start + engine.batch_rows, table.n))
        edits = [Edit(0, len(rows), j, source, rows) for j, source in sources.items()]
        prediction = engine.respond(batch.fill(rows, edits))
        loss.check_prediction(prediction)
        found[rows] = lose(loss, board.sample, rows, prediction[:, None])[:, 0]
        tick(len(rows))
    return found


def _taken(given: Any, like: Table) -> Table:
    """What a sampler gave as a table like X, or say what is wrong with it."""
    try:
        rows = as_rows(given, like)
    except (TypeError, ValueError) as error:
        raise type(error)(f"sampler must give a table like X: {error}") from error
    if len(rows) != like.n:
        raise ValueError(f"sampler gave {len(rows)} rows for {like.n}; it draws one value for each row")
    return as_table(rows)


def _called(task: Task, columns: Sequence[int]) -> list[Any]:
    """Columns as the user's table calls them."""
    return [j if task.table.backend == "numpy" else task.table.labels[j] for j in columns]
