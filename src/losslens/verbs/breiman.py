"""`breiman_importance`: permutation importance of the trees of a forest on their out-of-bag rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from losslens.losses import Loss
from losslens.passes.task import Options, default_loss
from losslens.progress import bar
from losslens.refits.breiman import (
    OutOfBagQuestion,
    as_forest,
    average_trees,
    column_sets,
    evaluate_trees,
    read_forest,
)
from losslens.results.breiman import BreimanImportance
from losslens.tables.checks import check_whole
from losslens.tables.frames import as_table
from losslens.tables.leaked_target import warn_of_target
from losslens.workers import with_executor


@with_executor
def breiman_importance(
    forest: Any,
    X: Any,
    y: Any,
    *,
    loss: str | Loss | Callable[..., Any] | None = None,
    features: Any = None,
    permutations: int | None = None,
    random_state: Any = None,
    n_jobs: int | None = None,
    progress: bool | None = None,
    executor: Any = None,
) -> BreimanImportance:
    """Breiman's out-of-bag permutation importance of a random forest, exact by default.

    ``d_t = mean over i in O_t of L(f_t(x_i with the values of row tau(i)), y_i) - L(f_t(x_i), y_i)``

    O_t are the out-of-bag rows of tree t, tau is a random permutation of them, and the importance is the mean of d_t
    over the trees. A random permutation sends a row to each row of O_t, itself included, with the same probability
    ``1/|O_t|``. So the expectation of d_t over all permutations is the mean over all pairs,

    ``E d_t = 1/|O_t|^2 sum over i and k in O_t of L(f_t(x_i with the values of row k), y_i) - L(f_t(x_i), y_i)``

    which is the result unless a number of permutations is given. It is cheap, because with all these values a row
    reaches only a few leaves of a tree.

    The numbers describe single trees, whose errors are larger than the forest's; `feature_importance` describes the
    forest.

    Parameters
    ----------
    forest
        A fitted random forest, extra trees or bagged trees of scikit-learn, grown with ``bootstrap=True``.
    X, y
        Exactly the table and true values that it was fitted on.
    loss
        As in `feature_importance`. Default: squared error for regressors, zero-one loss for classifiers, which is
        Breiman's choice: the decrease in accuracy.
    features
        Columns; ``{"name": [columns]}`` for columns permuted together.
    permutations
        None: exact. A number: that many random permutations for each tree and feature; 1 is what R's randomForest
        does.
    random_state, n_jobs, progress, executor
        As in `feature_importance`; the exact numbers need no `random_state`.

    Examples
    --------
    >>> import numpy as np, losslens as ll
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> X[:, 2] = 1.0  # no tree can use it
    >>> forest = RandomForestRegressor(20, random_state=0).fit(X, 2 * X[:, 0])
    >>> imp = ll.breiman_importance(forest, X, 2 * X[:, 0])
    >>> imp.features[imp.importance.argmax()], imp.importance[2].item()
    ('x0', 0.0)
    """
    options = Options(features=features, random_state=random_state, n_jobs=n_jobs, progress=progress)
    if permutations is not None:  # None: exact
        check_whole(permutations, "permutations")
    known, table = as_forest(forest), as_table(X)
    chosen = default_loss(known, "zero_one" if loss is None and known.kind == "classifier" else loss)
    question = OutOfBagQuestion(chosen, known.classes, column_sets(features, table), permutations, options.random_state)
    warn_of_target(table, y)
    trees = read_forest(known, table, y, chosen)
    with bar(question.predictions_a_row * sum(map(len, trees.oob)), "explaining", progress) as tick:
        return average_trees(trees, question, table.backend, evaluate_trees(trees, question, n_jobs, tick))
