"""`weak_segments`: where the model itself is worst."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from losslens.losses import Loss, is_scorer
from losslens.models import as_model
from losslens.passes.task import Options, Task, default_loss, picked, prepare
from losslens.progress import bar
from losslens.results.segments import WeakSegments
from losslens.rows.segments import HALVINGS, MOST_ROWS, SegmentSearch, mean_interval
from losslens.shapley.setup import set_up
from losslens.tables.checks import check_count
from losslens.tables.frames import Table
from losslens.tables.leakage import warn_of_target
from losslens.tables.sample import Sample
from losslens.uncertainty.standard_errors import check_level
from losslens.verbs.running import verb

MOST_CONDITIONS = 3


@verb
def weak_segments(
    model: Any,
    X: Any,
    y: Any,
    *,
    loss: str | Loss | Callable[..., Any] | None = None,
    sample_weight: Any = None,
    groups: Any = None,
    level: float = 0.05,
    depth: int = 2,
    random_state: Any = 0,
    n_jobs: int | None = None,
    memory: str | int = "1 GiB",
    progress: bool | None = None,
    executor: Any = None,
) -> WeakSegments:
    """Find where the model is worst: rows, described by a rule of a few conditions, whose error is larger.

    A random half of the rows finds the rules under which losses are largest on average, of one condition and of two;
    the other half judges them: is the mean loss under the rule larger than that of the other rows? Both ways round, and
    with three pairs of halves. The error of a segment, its interval and its p-value are of the half that judged it. A
    segment has at most half of the rows, and 5% of them or more. Every row is predicted once.

    The test permutes which rows are in the segment, and is exact if losses have nothing to do with the columns, however
    skewed they are; in large samples it needs equal means only. p-values are multiplied by the number of rules that
    are tested (12): in at most 5% of the calls any segment is reported where there is none. Clustered rows (`groups`)
    stay together in a half, and signs of groups are drawn in place of permutations.

    Parameters
    ----------
    model, X, y, loss, sample_weight
        As in `feature_importance`; y must be unseen by the model, otherwise segments are those where it memorised less.
        Every row has a loss: a scorer is refused.
    groups
        A label for each row, for clustered rows (patients, sites).
    level
        The probability of any false finding.
    depth
        The most conditions of a rule, 1 to 3; two bounds of one column are two.
    random_state
        A seed or a NumPy generator, for halves and permutations: the same data have the same segments by default.

    Examples
    --------
    >>> import numpy as np, losslens as ll
    >>> rng = np.random.default_rng(0)
    >>> X, noise = rng.normal(size=(1000, 4)), rng.normal(size=1000)
    >>> y = X[:, 0] + np.where(X[:, 1] > 1, 3.0, 1.0) * noise
    >>> weak = ll.weak_segments(lambda X: X[:, 0], X, y, loss="squared_error")
    >>> weak.segments[0].columns, weak.segments[0].n
    (('x1',), 153)
    """
    options = picked(Options, locals())
    warn_of_target(X, y)
    task = checked_segments(model, X, y, loss, level, depth, options)
    with bar(task.n, "predicting", progress) as tick:
        sample = set_up(task, None, tick).sample
    assert task.loss is not None
    return segments_of(task.table, sample, task.loss, level, int(depth), options=options)


def checked_segments(model: Any, X: Any, y: Any, loss: Any, level: float, depth: int, options: Options) -> Task:
    """A task without an exact engine, every argument checked."""
    if is_scorer(loss):
        raise ValueError("a scorer gives one number for all rows together; weak_segments needs a loss of each row")
    check_level(level)
    check_count(depth, "depth")
    if depth > MOST_CONDITIONS:
        raise ValueError(
            f"depth is at most {MOST_CONDITIONS}: longer rules are hard to read and to confirm; got {depth}"
        )
    wrapped = as_model(model)
    chosen = default_loss(wrapped, loss, y)
    return prepare(wrapped, X, y, options, loss=chosen, response=chosen.reads, exact=False)


def segments_of(
    table: Table, sample: Sample, loss: Loss, level: float = 0.05, depth: int = 2, *, options: Options,
    columns: Sequence[str] | None = None, most_rows: int = MOST_ROWS,
) -> WeakSegments:  # fmt: skip
    """Weak segments of rows with losses, by rules on all columns or on these; `most_rows` of each half are searched."""
    values = {n: table.column(j).distinct for j, n in enumerate(table.names) if columns is None or n in columns}
    search = SegmentSearch(values, sample, depth, level, options.random_state, loss.custom, most_rows)
    with bar(2 * HALVINGS, "looking for segments", options.progress, "halves") as tick:
        segments, why = search.find(tick)
    error, low, high = mean_interval(sample, search.counted, signed=loss.custom)
    return WeakSegments(segments, why, error, low, high, table.n, level, loss.title, table.backend, table.row_labels)
