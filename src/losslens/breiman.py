"""Breiman's own permutation importance: each tree of a forest is judged on its out-of-bag rows."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from losslens import inputs, outofbag
from losslens.breiman_results import BreimanImportance
from losslens.columns import is_missing
from losslens.features import Feature
from losslens.features import resolve as resolve_features
from losslens.losses import Loss
from losslens.models import Model, as_model
from losslens.outofbag import Tree
from losslens.progress import Tick, bar
from losslens.sample import Sample
from losslens.tables import Batch, Table, as_table
from losslens.tasks import default_loss
from losslens.workers import active, anywhere

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]
FEW = 100  # rows that the forest itself is asked for, to see whether it takes the table


@anywhere
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

    O_t are the rows that tree t has not seen, tau is a random permutation of them, and the importance is the mean of
    d_t over the trees. A random permutation sends a row to each row of O_t, itself included, with the same
    probability 1/|O_t|. So the expectation of d_t over all permutations is the mean over all pairs,

    ``E d_t = 1/|O_t|^2 sum over i and k in O_t of L(f_t(x_i with the values of row k), y_i) - L(f_t(x_i), y_i)``

    which is what you get unless you ask for a number of permutations. It takes a few passes' time, because with all
    these values together a row reaches only a few leaves of a tree.

    The numbers are about single trees, whose errors are larger than the forest's; `feature_importance` is about the
    forest.

    Parameters
    ----------
    forest
        A fitted random forest, extra trees or bagged trees of scikit-learn, grown with ``bootstrap=True``.
    X, y
        The very table and true values that it was fitted on.
    loss
        As in `feature_importance`. Default: squared error for regressors, zero-one loss for classifiers, which is
        Breiman's choice: the decrease in accuracy.
    features
        Columns; ``{"name": [columns]}`` for columns permuted together.
    permutations
        None: exact. A number: that many random permutations for each tree and feature; 1 is what R's randomForest
        does.
    random_state
        A seed or a NumPy generator; the exact numbers need none.
    n_jobs
        Threads; for processes call inside ``joblib.parallel_config("loky")``.
    progress
        None: a bar if somebody is looking.
    executor
        A dask.distributed ``Client``: the work is done on its cluster.

    Examples
    --------
    >>> import numpy as np, losslens as ll
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> X[:, 2] = 1.0  # no tree can use it
    >>> forest = RandomForestRegressor(20, random_state=0).fit(X, X[:, 0])
    >>> imp = ll.breiman_importance(forest, X, X[:, 0])
    >>> imp.features[imp.importance.argmax()], imp.importance[2].item()
    ('x0', 0.0)
    """
    inputs.check_workers(n_jobs, progress)
    _check_permutations(permutations)
    known, table = _as_forest(forest), as_table(X)
    chosen = default_loss(known, "zero_one" if loss is None and known.kind == "classifier" else loss)
    question = _Question(chosen, known.classes, _sets(features, table), permutations, inputs.entropy(random_state))
    grove = _grove(known, table, y, chosen)
    with bar(question.most * sum(map(len, grove.oob)), "explaining", progress) as tick:
        return _total(grove, question, table.backend, _verdicts(grove, question, n_jobs, tick))


@dataclass(frozen=True, eq=False)
class _Question:
    """What every tree is asked."""

    loss: Loss
    classes: NDArray[Any] | None
    features: Sequence[Feature]
    permutations: int | None
    entropy: int

    @property
    def most(self) -> int:
        """Predictions a row, unless all pairs need others."""
        return 1 + len(self.features) * (self.permutations or 1)


@dataclass(frozen=True, eq=False)
class _Grove:
    """The trees, their out-of-bag rows, and the data that they grew on."""

    trees: Sequence[Tree]
    oob: Sequence[Indices]
    X: outofbag.Numbers
    y: NDArray[Any]


@dataclass(frozen=True, eq=False)
class _Verdict:
    """What one tree says of its out-of-bag rows."""

    tree: int  # its position
    rows: Indices
    vote: Floats  # (m,) or (m, K)
    base: Floats  # (m,): losses
    changes: Floats | None  # (m, p); None for a tree with fewer than two rows
    n_predictions: int


def _verdicts(grove: _Grove, question: _Question, n_jobs: int | None, tick: Tick) -> Iterator[_Verdict]:
    """Tree by tree, in order, whoever asks it: the answer can't depend on n_jobs."""
    from joblib import Parallel, delayed

    asked = (  # a process gets one tree and its rows, not the forest
        (t, tree, grove.oob[t], grove.X[grove.oob[t]], grove.y[grove.oob[t]])
        for t, tree in enumerate(grove.trees)
        if len(grove.oob[t])
    )
    cluster = active()
    if cluster is not None:
        verdicts = cluster.map(_ask_far_away, question, asked)
    else:
        workers, ask = Parallel(n_jobs=n_jobs, prefer="threads", return_as="generator"), delayed(_ask)
        verdicts = workers(ask(question, *each) for each in asked)
    for verdict in verdicts:
        tick(question.most * len(verdict.rows))
        yield verdict


def _ask_far_away(question: _Question, asked: tuple[Any, ...]) -> _Verdict:
    """A tree on a cluster."""
    return _ask(question, *asked)


def _ask(question: _Question, t: int, tree: Tree, rows: Indices, X: outofbag.Numbers, y: NDArray[Any]) -> _Verdict:
    trial = outofbag.tried(tree, X, y, question.classes, question.loss)
    columns = [np.array(feature.columns, np.intp) for feature in question.features]
    changes, asked = None, 0
    if len(rows) > 1 and question.permutations is None:
        changes, asked = outofbag.over_all_pairs(trial, columns)
    elif len(rows) > 1:
        # By its name a feature draws the same whichever others are asked for.
        draws = [np.random.default_rng([question.entropy, t, _number(feature)]) for feature in question.features]
        changes, asked = outofbag.over_permutations(trial, columns, draws, question.permutations or 1)
    return _Verdict(t, rows, tree.vote[trial.leaf], trial.base, changes, asked + len(rows))


def _number(feature: Feature) -> int:
    return zlib.crc32(feature.name.encode())


def _total(grove: _Grove, question: _Question, backend: str, verdicts: Iterable[_Verdict]) -> BreimanImportance:
    """The trees' verdicts added up, by tree and by row."""
    n, p = len(grove.y), len(question.features)
    trees, errors = np.full((len(grove.trees), p), np.nan), []
    local, judges = np.zeros((n, p)), np.zeros(n)
    votes, voters = np.zeros((n, *grove.trees[0].vote.shape[1:])), np.zeros(n)
    n_predictions = 0
    for verdict in verdicts:
        n_predictions += verdict.n_predictions
        votes[verdict.rows] += verdict.vote
        voters[verdict.rows] += 1
        if verdict.changes is not None:
            trees[verdict.tree] = verdict.changes.mean(axis=0)
            errors.append(verdict.base.mean())
            local[verdict.rows] += verdict.changes
            judges[verdict.rows] += 1
    local[judges == 0] = np.nan
    return BreimanImportance(
        features=tuple(feature.name for feature in question.features),
        trees=trees,
        local=local / np.maximum(judges, 1)[:, None],
        error=float(np.mean(errors)),
        forest_error=_forest_error(grove, question, votes, voters),
        loss=question.loss,
        permutations=question.permutations,
        n_predictions=n_predictions,
        backend=backend,
    )


def _forest_error(grove: _Grove, question: _Question, votes: Floats, voters: Floats) -> float:
    """Error of the mean over the trees that had not seen a row; its label is the largest class, as in scikit-learn."""
    seen = np.flatnonzero(voters)
    mean = votes[seen] / voters[seen].reshape(-1, *[1] * (votes.ndim - 1))
    predicted = mean.argmax(axis=1) if question.loss.reads == "labels" else mean
    sample = Sample(np.full(len(seen), 1 / len(seen)), predicted, grove.y[seen], classes=question.classes)
    return sample.with_loss(question.loss).error


# What came, checked.


def _check_permutations(permutations: Any) -> None:
    whole = isinstance(permutations, (int, np.integer)) and not isinstance(permutations, bool)
    if permutations is not None and (not whole or permutations < 1):
        raise ValueError(f"permutations is None for the exact numbers, or a whole number from 1; got {permutations!r}")


def _as_forest(forest: Any) -> Model:
    name = type(forest).__name__
    if not isinstance(forest, type) and not hasattr(type(forest), "estimators_samples_"):
        hint = "pass its last step, and the table that this step gets" if hasattr(forest, "steps") else ""
        raise TypeError(
            "breiman_importance needs a random forest, extra trees or bagged trees of scikit-learn; got "
            f"{name}: {hint or 'feature_importance takes any model'}"
        )
    known = as_model(forest)
    if known.kind not in ("regressor", "classifier"):
        raise TypeError(f"{name} is neither a regressor nor a classifier: it has no error that could grow")
    if not getattr(forest, "estimators_", None):
        raise ValueError(f"the {name} is not fitted; call fit first")
    if not all(hasattr(estimator, "tree_") for estimator in forest.estimators_):
        inside = type(forest.estimators_[0]).__name__
        raise TypeError(f"{name} holds {inside}, not single trees; feature_importance takes any model")
    if forest.estimators_[0].tree_.n_outputs > 1:
        raise ValueError(f"{name} is a multi-output model; fit a forest for each output")
    return known


def _sets(features: Any, table: Table) -> tuple[Feature, ...]:
    found = resolve_features(features, table.labels, by_position=table.backend == "numpy")
    for feature in found:
        if feature.kind == "pair":
            raise ValueError(
                f"{feature.name!r} is a pair on a product grid, which no permutation gives; for columns permuted "
                "together write {'name': [columns]}"
            )
    return found


def _grove(known: Model, table: Table, y: Any, loss: Loss) -> _Grove:
    respond = known.responder(loss.reads)
    fitted_on = getattr(known.native, "_n_samples", table.n)
    if fitted_on != table.n:
        raise ValueError(
            f"X has {table.n} rows, but the {known.name} was fitted on {fitted_on}: out-of-bag rows are rows of the "
            "training data; pass the very X and y that it was fitted on, or use feature_importance"
        )
    target = _target(known, table, y, loss)
    respond(Batch(table).fill(np.arange(min(table.n, FEW)), []))  # it says best what is wrong with names and columns
    X = _numbers(table)
    bags = [np.asarray(bag, np.intp) for bag in known.native.estimators_samples_]
    oob = [np.flatnonzero(np.bincount(bag, minlength=table.n) == 0) for bag in bags]
    _check_oob(known, oob)
    trees = _read(known, X, loss)
    if not all(outofbag.grew_on(trees[t], X, bags[t]) for t in (0, -1)):  # -1: warm_start adds trees later
        raise ValueError(
            f"the {known.name} was not fitted on this X: the rows in a tree's bag don't fill its leaves as they did "
            "then. Pass the very X and y that it was fitted on, in the same order"
        )
    return _Grove(trees, oob, X, target)


def _target(known: Model, table: Table, y: Any, loss: Loss) -> NDArray[Any]:
    """y as losses read it: numbers, or positions among the classes."""
    y = inputs.vector(y, table.n, "y")
    if known.classes is None:
        return inputs.numbers(y, loss)
    inputs.observed_classes(y)
    return inputs.class_positions(y, known.classes, known)


def _numbers(table: Table) -> outofbag.Numbers:
    """The table as the trees compare it: in single precision, NaN where a value is missing."""
    X = np.empty((table.n, len(table.names)), np.float32)
    for j, name in enumerate(table.names):
        values = table.column(j).array
        if values.dtype == object:
            values = np.array([np.nan if is_missing(value) else value for value in values.tolist()], dtype=object)
        try:
            X[:, j] = values.astype(np.float32)
        except (TypeError, ValueError) as error:
            raise TypeError(f"trees compare numbers, but column {name!r} holds {values[0]!r}") from error
    return X


def _check_oob(known: Model, oob: Sequence[Indices]) -> None:
    if any(len(rows) > 1 for rows in oob):
        return
    if not getattr(known.native, "bootstrap", True):
        raise ValueError(f"no out-of-bag rows: every tree of this {known.name} has seen all; fit with bootstrap=True")
    raise ValueError("no tree has two out-of-bag rows; fit on more rows, or with a smaller max_samples")


def _read(known: Model, X: outofbag.Numbers, loss: Loss) -> list[Tree]:
    trees = known.native.estimators_
    every = np.arange(X.shape[1])
    shown = getattr(known.native, "estimators_features_", [every] * len(trees))  # bagged trees may see some columns
    n_classes = 0 if known.classes is None else len(known.classes)
    missing = bool(np.isnan(X).any())
    return [
        outofbag.read(tree, np.asarray(columns, np.intp), loss.reads, n_classes, missing=missing)
        for tree, columns in zip(trees, shown, strict=True)
    ]
