"""The trees of a scikit-learn forest with their out-of-bag rows: checked, evaluated one by one, and averaged.

What happens with one tree is in `out_of_bag`.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from losslens.engines.base import Declined
from losslens.engines.readers.recognition import kinds_of
from losslens.engines.readers.scikit import check_arrays
from losslens.losses import Loss
from losslens.models import Model, as_model
from losslens.progress import Tick
from losslens.refits import out_of_bag
from losslens.refits.out_of_bag import Tree
from losslens.results.breiman import BreimanImportance
from losslens.tables import checks
from losslens.tables.columns import is_missing, narrow
from losslens.tables.features import Feature
from losslens.tables.features import resolve as resolve_features
from losslens.tables.frames import Batch, Table
from losslens.tables.sample import Sample
from losslens.typing import Floats, Indices
from losslens.workers import choose_workers

CHECKED_ROWS = 100  # predicted by the forest first: its own errors about names and columns are the clearest


@dataclass(frozen=True, eq=False)
class OutOfBagQuestion:
    """What is computed of every tree."""

    loss: Loss
    classes: NDArray[Any] | None
    features: Sequence[Feature]
    permutations: int | None
    entropy: int

    @property
    def predictions_a_row(self) -> int:
        """Predictions of a row by one tree with permutations; over all pairs the unit of the progress bar."""
        return 1 + len(self.features) * (self.permutations or 1)


@dataclass(frozen=True, eq=False)
class OutOfBagForest:
    """The trees, their out-of-bag rows, and the training data."""

    trees: Sequence[Tree]
    oob: Sequence[Indices]
    X: out_of_bag.Numbers
    y: NDArray[Any]


@dataclass(frozen=True, eq=False)
class TreeChanges:
    """The predictions and losses of one tree on its out-of-bag rows, and the changes of loss."""

    tree: int  # its position
    rows: Indices
    vote: Floats  # (m,) or (m, K)
    base: Floats  # (m,): losses with nothing replaced
    changes: Floats | None  # (m, p); None for a tree with fewer than two rows
    n_predictions: int


def evaluate_trees(
    forest: OutOfBagForest, question: OutOfBagQuestion, n_jobs: int | None, tick: Tick
) -> Iterator[TreeChanges]:
    """Tree by tree, in order: the result does not depend on n_jobs."""
    trees = (  # a process gets one tree and its rows, not the forest
        (t, tree, forest.oob[t], forest.X[forest.oob[t]], forest.y[forest.oob[t]])
        for t, tree in enumerate(forest.trees)
        if len(forest.oob[t])
    )
    return choose_workers(n_jobs).map(_evaluate, question, trees, tick)


def _evaluate(
    question: OutOfBagQuestion, one: tuple[int, Tree, Indices, out_of_bag.Numbers, NDArray[Any]], tick: Tick
) -> TreeChanges:
    t, tree, rows, X, y = one
    trial = out_of_bag.evaluated(tree, X, y, question.classes, question.loss)
    columns = [np.array(feature.columns, np.intp) for feature in question.features]
    changes, count = None, 0
    if len(rows) > 1 and question.permutations is None:
        changes, count = out_of_bag.over_all_pairs(trial, columns)
    elif len(rows) > 1:
        # Seeded by its name, a feature has the same permutations whatever the other features are.
        seeds = [[question.entropy, t, zlib.crc32(feature.name.encode())] for feature in question.features]
        draws = [np.random.default_rng(seed) for seed in seeds]
        changes, count = out_of_bag.over_permutations(trial, columns, draws, question.permutations or 1)
    tick(question.predictions_a_row * len(rows))
    return TreeChanges(t, rows, tree.vote[trial.leaf], trial.base, changes, count + len(rows))


def average_trees(
    forest: OutOfBagForest, question: OutOfBagQuestion, backend: str, trees_changes: Iterable[TreeChanges]
) -> BreimanImportance:
    """The means over the trees, and over the trees of each row."""
    n, p = len(forest.y), len(question.features)
    trees, errors = np.full((len(forest.trees), p), np.nan), []
    local, counts = np.zeros((n, p)), np.zeros(n)
    votes, voters = np.zeros((n, *forest.trees[0].vote.shape[1:])), np.zeros(n)
    n_predictions = 0
    for one in trees_changes:
        n_predictions += one.n_predictions
        votes[one.rows] += one.vote
        voters[one.rows] += 1
        if one.changes is not None:
            trees[one.tree] = one.changes.mean(axis=0)
            errors.append(one.base.mean())
            local[one.rows] += one.changes
            counts[one.rows] += 1
    local[counts == 0] = np.nan
    local /= np.maximum(counts, 1)[:, None]
    return BreimanImportance(
        features=tuple(feature.name for feature in question.features),
        trees=trees,
        local=local,
        error=float(np.mean(errors)),
        forest_error=_forest_error(forest, question, votes, voters),
        loss=question.loss,
        permutations=question.permutations,
        n_predictions=n_predictions,
        backend=backend,
    )


def _forest_error(forest: OutOfBagForest, question: OutOfBagQuestion, votes: Floats, voters: Floats) -> float:
    """Error of the mean over the trees not trained on a row; its label is the largest class, as in scikit-learn."""
    seen = np.flatnonzero(voters)
    mean = votes[seen] / voters[seen].reshape(-1, *[1] * (votes.ndim - 1))
    predicted = mean.argmax(axis=1) if question.loss.reads == "labels" else mean
    sample = Sample(np.full(len(seen), 1 / len(seen)), predicted, forest.y[seen], classes=question.classes)
    return sample.with_loss(question.loss).error


# Checks of the arguments.


def as_forest(forest: Any) -> Model:
    """A fitted forest of scikit-learn's as a model; an error for anything else."""
    name = type(forest).__name__
    if not isinstance(forest, type) and not hasattr(type(forest), "estimators_samples_"):
        hint = "pass its last step, and the table that this step gets" if hasattr(forest, "steps") else ""
        raise TypeError(
            "breiman_importance needs a random forest, extra trees or bagged trees of scikit-learn; got "
            f"{name}: {hint or 'feature_importance takes any model'}"
        )
    known = as_model(forest)
    if known.kind not in ("regressor", "classifier"):
        raise TypeError(f"{name} is neither a regressor nor a classifier: it has no loss")
    if not getattr(forest, "estimators_", None):
        raise ValueError(f"the {name} is not fitted; call fit first")
    if not all(hasattr(estimator, "tree_") for estimator in forest.estimators_):
        inside = type(forest.estimators_[0]).__name__
        raise TypeError(f"{name} holds {inside}, not single trees; feature_importance takes any model")
    try:
        kinds_of(forest.estimators_)
        check_arrays(forest.estimators_)
    except Declined as why:  # their arrays are read, their predict is not called
        raise TypeError(f"the trees of this {name} can't be read: {why}; feature_importance takes any model") from why
    if forest.estimators_[0].tree_.n_outputs > 1:
        raise ValueError(f"{name} is a multi-output model; fit a forest for each output")
    return known


def some_trees(known: Model, count: int) -> Model:
    """The same forest with its first trees only."""
    native = copy(known.native)
    for name in ("estimators_", "estimators_features_", "_seeds"):  # the last two of bagged trees
        if hasattr(native, name):
            setattr(native, name, getattr(native, name)[:count])
    return replace(known, native=native)


def column_sets(features: Any, table: Table) -> tuple[Feature, ...]:
    """The features, each a set of columns that are permuted together."""
    found = resolve_features(features, table.labels, by_position=table.backend == "numpy")
    for feature in found:
        if feature.kind == "pair":
            raise ValueError(
                f"{feature.name!r} is a pair on a product grid, not a permutation; for columns permuted "
                "together write {'name': [columns]}"
            )
    return found


def read_forest(known: Model, table: Table, y: Any, loss: Loss) -> OutOfBagForest:
    """The trees of the forest with their out-of-bag rows, checked against the data the forest was fitted on."""
    respond = known.responder(loss.reads)
    fitted_on = getattr(known.native, "_n_samples", table.n)
    if fitted_on != table.n:
        raise ValueError(
            f"X has {table.n} rows, but the {known.name} was fitted on {fitted_on}: out-of-bag rows are rows of the "
            "training data; pass exactly the X and y that it was fitted on, or use feature_importance"
        )
    target = _target(known, table, y, loss)
    respond(Batch(table).fill(np.arange(min(table.n, CHECKED_ROWS)), []))
    X = _numbers(table)
    bags = known.native.estimators_samples_
    oob = [narrow(np.flatnonzero(np.bincount(bag, minlength=table.n) == 0)) for bag in bags]
    ends = bags[0], bags[-1]  # warm_start adds trees later
    del bags  # of all trees
    _check_oob(known, oob)
    trees = _read(known, X, loss)
    if not all(out_of_bag.grew_on(trees[t], X, np.asarray(bag, np.intp)) for t, bag in zip((0, -1), ends, strict=True)):
        raise ValueError(
            f"the {known.name} was not fitted on this X: its leaves don't hold as many rows of their bag as in "
            "training. Pass exactly the X and y that it was fitted on, in the same order"
        )
    return OutOfBagForest(trees, oob, X, target)


def _target(known: Model, table: Table, y: Any, loss: Loss) -> NDArray[Any]:
    """y as losses read it: numbers, or positions among the classes."""
    y = checks.vector(y, table.n, "y", table.index)
    if known.classes is None:
        return checks.numbers(y, loss, table.index)
    checks.observed_classes(y, table.index)
    return checks.class_positions(y, known.classes, known.name)


def _numbers(table: Table) -> out_of_bag.Numbers:
    """The table as the trees read it: in single precision, NaN where a value is missing."""
    X = np.empty((table.n, len(table.names)), np.float32)
    for j, name in enumerate(table.names):
        values = table.column(j).array
        if values.dtype == object:
            values = np.array([np.nan if is_missing(value) else value for value in values.tolist()], dtype=object)
        try:
            X[:, j] = values.astype(np.float32)
        except (TypeError, ValueError) as error:
            raise TypeError(f"trees need numbers, but column {name!r} holds {values[0]!r}") from error
    return X


def _check_oob(known: Model, oob: Sequence[Indices]) -> None:
    if any(len(rows) > 1 for rows in oob):
        return
    if not getattr(known.native, "bootstrap", True):
        raise ValueError(f"no out-of-bag rows: every tree of this {known.name} saw all; fit with bootstrap=True")
    raise ValueError("no tree has two out-of-bag rows; fit on more rows, or with a smaller max_samples")


def _read(known: Model, X: out_of_bag.Numbers, loss: Loss) -> list[Tree]:
    trees = known.native.estimators_
    every = np.arange(X.shape[1])
    shown = getattr(known.native, "estimators_features_", [every] * len(trees))  # bagged trees may have some only
    n_classes = 0 if known.classes is None else len(known.classes)
    missing = bool(np.isnan(X).any())
    return [
        out_of_bag.read(tree, np.asarray(columns, np.intp), loss.reads, n_classes, missing=missing)
        for tree, columns in zip(trees, shown, strict=True)
    ]
