"""Breiman's own permutation importance: each tree of a forest is judged on its out-of-bag rows."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from losslens.losses import Loss
from losslens.models import Model, as_model
from losslens.progress import Tick
from losslens.refits import out_of_bag
from losslens.refits.out_of_bag import Tree
from losslens.results.breiman import BreimanImportance
from losslens.tables import checks
from losslens.tables.columns import is_missing
from losslens.tables.features import Feature
from losslens.tables.features import resolve as resolve_features
from losslens.tables.frames import Batch, Table
from losslens.tables.sample import Sample
from losslens.typing import Floats, Indices
from losslens.workers import chosen

FEW = 100  # rows that the forest itself is asked for, to see whether it takes the table


@dataclass(frozen=True, eq=False)
class OutOfBagQuestion:
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
    X: out_of_bag.Numbers
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


def ask_trees(grove: _Grove, question: OutOfBagQuestion, n_jobs: int | None, tick: Tick) -> Iterator[_Verdict]:
    """Tree by tree, in order, whoever asks it: the answer can't depend on n_jobs."""
    asked = (  # a process gets one tree and its rows, not the forest
        (t, tree, grove.oob[t], grove.X[grove.oob[t]], grove.y[grove.oob[t]])
        for t, tree in enumerate(grove.trees)
        if len(grove.oob[t])
    )
    return chosen(n_jobs).map(_ask, question, asked, tick)


def _ask(
    question: OutOfBagQuestion, asked: tuple[int, Tree, Indices, out_of_bag.Numbers, NDArray[Any]], tick: Tick
) -> _Verdict:
    t, tree, rows, X, y = asked
    trial = out_of_bag.tried(tree, X, y, question.classes, question.loss)
    columns = [np.array(feature.columns, np.intp) for feature in question.features]
    changes, count = None, 0
    if len(rows) > 1 and question.permutations is None:
        changes, count = out_of_bag.over_all_pairs(trial, columns)
    elif len(rows) > 1:
        # By its name a feature draws the same whichever others are asked for.
        draws = [np.random.default_rng([question.entropy, t, _number(feature)]) for feature in question.features]
        changes, count = out_of_bag.over_permutations(trial, columns, draws, question.permutations or 1)
    tick(question.most * len(rows))
    return _Verdict(t, rows, tree.vote[trial.leaf], trial.base, changes, count + len(rows))


def _number(feature: Feature) -> int:
    return zlib.crc32(feature.name.encode())


def add_up_trees(
    grove: _Grove, question: OutOfBagQuestion, backend: str, verdicts: Iterable[_Verdict]
) -> BreimanImportance:
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


def _forest_error(grove: _Grove, question: OutOfBagQuestion, votes: Floats, voters: Floats) -> float:
    """Error of the mean over the trees that had not seen a row; its label is the largest class, as in scikit-learn."""
    seen = np.flatnonzero(voters)
    mean = votes[seen] / voters[seen].reshape(-1, *[1] * (votes.ndim - 1))
    predicted = mean.argmax(axis=1) if question.loss.reads == "labels" else mean
    sample = Sample(np.full(len(seen), 1 / len(seen)), predicted, grove.y[seen], classes=question.classes)
    return sample.with_loss(question.loss).error


# What came, checked.


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
        raise TypeError(f"{name} is neither a regressor nor a classifier: it has no error that could grow")
    if not getattr(forest, "estimators_", None):
        raise ValueError(f"the {name} is not fitted; call fit first")
    if not all(hasattr(estimator, "tree_") for estimator in forest.estimators_):
        inside = type(forest.estimators_[0]).__name__
        raise TypeError(f"{name} holds {inside}, not single trees; feature_importance takes any model")
    if forest.estimators_[0].tree_.n_outputs > 1:
        raise ValueError(f"{name} is a multi-output model; fit a forest for each output")
    return known


def column_sets(features: Any, table: Table) -> tuple[Feature, ...]:
    """The features, each a set of columns that are permuted together."""
    found = resolve_features(features, table.labels, by_position=table.backend == "numpy")
    for feature in found:
        if feature.kind == "pair":
            raise ValueError(
                f"{feature.name!r} is a pair on a product grid, which no permutation gives; for columns permuted "
                "together write {'name': [columns]}"
            )
    return found


def read_grove(known: Model, table: Table, y: Any, loss: Loss) -> _Grove:
    """The trees of the forest with their out-of-bag rows, checked against the data the forest was fitted on."""
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
    if not all(out_of_bag.grew_on(trees[t], X, bags[t]) for t in (0, -1)):  # -1: warm_start adds trees later
        raise ValueError(
            f"the {known.name} was not fitted on this X: the rows in a tree's bag don't fill its leaves as they did "
            "then. Pass the very X and y that it was fitted on, in the same order"
        )
    return _Grove(trees, oob, X, target)


def _target(known: Model, table: Table, y: Any, loss: Loss) -> NDArray[Any]:
    """y as losses read it: numbers, or positions among the classes."""
    y = checks.vector(y, table.n, "y")
    if known.classes is None:
        return checks.numbers(y, loss)
    checks.observed_classes(y)
    return checks.class_positions(y, known.classes, known.name)


def _numbers(table: Table) -> out_of_bag.Numbers:
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


def _read(known: Model, X: out_of_bag.Numbers, loss: Loss) -> list[Tree]:
    trees = known.native.estimators_
    every = np.arange(X.shape[1])
    shown = getattr(known.native, "estimators_features_", [every] * len(trees))  # bagged trees may see some columns
    n_classes = 0 if known.classes is None else len(known.classes)
    missing = bool(np.isnan(X).any())
    return [
        out_of_bag.read(tree, np.asarray(columns, np.intp), loss.reads, n_classes, missing=missing)
        for tree, columns in zip(trees, shown, strict=True)
    ]
