"""Tables, targets, models and losses that fit together, drawn at random."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
from pyarrow import dataset
from sklearn import ensemble, linear_model, neighbors, pipeline, preprocessing, svm, tree
from sklearn.metrics import get_scorer

import losslens as ll


class ModelError(Exception):
    """What a model of the user's raises: it must reach the user as it is."""


@dataclass
class Scene:
    """A table, a target and a model that fit together, before anything odd is put in."""

    rng: np.random.Generator
    n: int
    p: int
    task: str  # "values", "binary" or "classes"
    X: Any
    y: Any
    model: Any
    loss: Any
    numeric: bool
    classes: tuple
    labels: list  # of the columns
    result: Any = None  # of which a method is called

    def pick(self, choices):
        return choices[self.rng.integers(len(choices))]

    @property
    def names(self):
        return [f"x{label}" if isinstance(self.X, np.ndarray) else str(label) for label in self.labels]


def words(rng, n):
    return rng.choice(["red", "green", "blue", "=1+1", ""], n)


def numbers(rng, n, p):
    X = np.round(rng.normal(size=(n, p)), int(rng.integers(0, 4)))
    if rng.random() < 0.2:
        X[:, rng.integers(p)] = rng.choice([0.0, -1.5, 1e300, 1e-300])
    return X


def frame(rng, n, p):
    data = pd.DataFrame(numbers(rng, n, p), columns=[f"x{j}" for j in range(p)])
    for name in data.columns:
        kind = rng.integers(12)
        if kind == 0:
            data[name] = pd.Categorical(words(rng, n))
        elif kind == 1:
            data[name] = words(rng, n).astype(object)
        elif kind == 2:
            data[name] = rng.random(n) < 0.5
        elif kind == 3:
            data[name] = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 9, n), "D")
        elif kind == 4:
            data[name] = pd.array(rng.integers(0, 3, n), dtype="Int64")
        elif kind == 5:
            data[name] = [None if rng.random() < 0.2 else float(v) for v in rng.normal(size=n)]
        elif kind == 6:
            data[name] = pd.Categorical(rng.integers(0, 3, n), ordered=True)
    return data


def with_missing(X, rng):
    X = np.array(X, dtype=float)
    X[rng.random(X.shape) < 0.2] = np.nan
    return X


def _frozen(X):
    X.flags.writeable = False
    return X


TABLES = {  # name -> (table, whether estimators take it)
    "array": (numbers, True),
    "single": (lambda rng, n, p: np.clip(numbers(rng, n, p), -1e30, 1e30).astype(np.float32), True),
    "whole": (lambda rng, n, p: rng.integers(-3, 3, (n, p)), True),
    "yes or no": (lambda rng, n, p: rng.random((n, p)) < 0.5, True),
    "constant": (lambda rng, n, p: np.ones((n, p)), True),
    "fortran": (lambda rng, n, p: np.asfortranarray(numbers(rng, n, p)), True),
    "read-only": (lambda rng, n, p: _frozen(numbers(rng, n, p)), True),
    "missing": (lambda rng, n, p: with_missing(numbers(rng, n, p), rng), False),
    "objects": (lambda rng, n, p: numbers(rng, n, p).astype(object), False),
    "pandas": (frame, False),
    "pandas of numbers": (lambda rng, n, p: pd.DataFrame(numbers(rng, n, p)).add_prefix("x"), True),
    "labelled rows": (
        lambda rng, n, p: pd.DataFrame(numbers(rng, n, p), index=rng.permutation(n) * 7).add_prefix("x"), True,
    ),
    "numbered columns": (lambda rng, n, p: pd.DataFrame(numbers(rng, n, p)), True),
    "polars": (lambda rng, n, p: pl.DataFrame(numbers(rng, n, p), schema=[f"x{j}" for j in range(p)]), False),
    "polars of all": (lambda rng, n, p: pl.from_pandas(frame(rng, n, p)), False),
    "arrow": (lambda rng, n, p: pa.Table.from_pandas(frame(rng, n, p)), False),
    "pandas of arrow": (lambda rng, n, p: frame(rng, n, p).convert_dtypes(dtype_backend="pyarrow"), False),
}  # fmt: skip


LABELS = {"binary": [[0, 1], ["no", "yes"], [False, True]], "classes": [[0, 1, 2], ["a", "b", "c"]]}


def contained(values, rng):
    """A target, or weights, in one of the containers."""
    return [np.asarray, list, pd.Series, pl.Series, pa.array, lambda v: pd.Series(v, index=np.arange(len(v)) + 5)][
        rng.choice(6, p=[0.7, 0.08, 0.08, 0.05, 0.05, 0.04])
    ](values)


def as_matrix(X):
    """Any table as numbers, row by row: text by its length, what is missing as 0."""
    frame = X.to_pandas() if hasattr(X, "to_pandas") else pd.DataFrame(X)
    columns = []
    for j in range(frame.shape[1]):
        values = frame.iloc[:, j].tolist()
        columns.append([_number(value) for value in values])
    return np.array(columns, dtype=float).reshape(frame.shape[1], len(frame)).T


def _number(value):
    if isinstance(value, (bool, int, float, np.generic)):
        number = float(value)
        return float(np.clip(number, -1e9, 1e9)) if number == number else 0.0
    return float(len(str(value)) % 7)


def line(X):
    A = as_matrix(X)
    return A @ (1.0 + np.arange(A.shape[1]))


def curved(X):
    A = as_matrix(X)
    return np.tanh(A[:, 0]) * (1 + A[:, -1] ** 2) + A.sum(axis=1)


def chance(X):
    return 1 / (1 + np.exp(-np.clip(line(X), -30, 30)))


def chances(X):
    scores = np.tanh(as_matrix(X) @ np.ones((np.shape(X)[1], 3)) * np.array([1.0, -1.0, 0.3]))
    return np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)


@cache
def fitted(kind, task, p, labels):
    rng = np.random.default_rng(p)
    X = rng.normal(size=(60, p))
    score = X.sum(axis=1) + X[:, 0] ** 2
    if task == "values":
        return ESTIMATORS[kind][0]().fit(X, score)
    k = 2 if task == "binary" else 3
    return ESTIMATORS[kind][1]().fit(X, np.array(labels)[np.digitize(score, np.quantile(score, np.arange(1, k) / k))])


ESTIMATORS = {
    "line": (linear_model.LinearRegression, linear_model.LogisticRegression),
    "scaled": (
        lambda: pipeline.make_pipeline(preprocessing.StandardScaler(), linear_model.Ridge()),
        lambda: pipeline.make_pipeline(preprocessing.StandardScaler(), linear_model.RidgeClassifier()),
    ),
    "tree": (lambda: tree.DecisionTreeRegressor(max_depth=3), lambda: tree.DecisionTreeClassifier(max_depth=3)),
    "forest": (
        lambda: ensemble.RandomForestRegressor(4, max_depth=3, random_state=0),
        lambda: ensemble.RandomForestClassifier(4, max_depth=3, random_state=0),
    ),
    "boosting": (
        lambda: ensemble.HistGradientBoostingRegressor(max_iter=4, min_samples_leaf=2),
        lambda: ensemble.HistGradientBoostingClassifier(max_iter=4, min_samples_leaf=2),
    ),
    "kernel": (svm.SVR, svm.SVC),
    "neighbours": (lambda: neighbors.KNeighborsRegressor(2), lambda: neighbors.KNeighborsClassifier(2)),
}


VALUES = [
    "squared_error",
    "absolute_error",
    "huber",
    "pinball",
    ll.losses.pinball(0.2),
    ll.losses.huber(3.0),
    ll.losses.squared_error,
    None,
]


CHANCES = ["log_loss", "brier", ll.losses.log_loss, "zero_one", None]


SCORERS = {
    "values": ["r2", "neg_mean_squared_error"],
    "binary": ["accuracy", "neg_log_loss"],
    "classes": ["accuracy", "neg_log_loss"],
}


def cubed(y, prediction):
    return np.abs(y - prediction) ** 3


def scene(rng):
    """A table, a target, a model and a loss that fit together."""
    n, p = (
        int(rng.choice([1, 2, 3, 5, 12, 20, 30], p=[0.03, 0.04, 0.05, 0.13, 0.3, 0.25, 0.2])),
        int(rng.integers(1, 4)),
    )
    kind = list(TABLES)[rng.integers(len(TABLES))]
    make, numeric = TABLES[kind]
    X = make(rng, n, p)
    task = ["values", "values", "binary", "classes"][rng.integers(4)]
    if task == "values":
        names, y = (), contained(np.round(rng.normal(size=n), 2), rng)
        model, loss = [line, curved][rng.integers(2)], VALUES[rng.integers(len(VALUES) - 1)]
        if rng.random() < 0.1:
            loss = cubed
    else:
        names = LABELS[task][rng.integers(len(LABELS[task]))]
        y = contained(np.array(names)[rng.integers(len(names), size=n)], rng)
        model, loss = (chance if task == "binary" else chances), ["log_loss", "brier"][rng.integers(2)]
    if numeric and rng.random() < 0.7:
        model = fitted(list(ESTIMATORS)[rng.integers(len(ESTIMATORS))], task, p, tuple(names))
        if task == "values":
            loss = VALUES[rng.integers(len(VALUES))]
        elif hasattr(model, "predict_proba"):
            loss = CHANCES[rng.integers(len(CHANCES))]
        else:
            loss = ["hinge", "zero_one", None][rng.integers(3)]
        if rng.random() < 0.1:
            loss = get_scorer(SCORERS[task][0])
    labels = list(getattr(X, "column_names", getattr(X, "columns", range(p))))
    if isinstance(X, pd.DataFrame) and not isinstance(labels[0], int) and rng.random() < 0.3:
        X, y = in_files(X, y, rng)
    return Scene(rng, n, p, task, X, y, model, loss, numeric, tuple(names), labels)


def in_files(X, y, rng):
    """The same rows in a file of the current folder, opened in one of the ways; y is one of its columns."""
    path = f"rows {rng.integers(10**9)}.parquet"
    X.reset_index(drop=True).assign(y=np.asarray(y)).to_parquet(path)
    ways = [str, lambda path: [path], pl.scan_parquet, dataset.dataset, Path]
    return ways[rng.integers(len(ways))](path), "y"
