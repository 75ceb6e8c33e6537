"""Arguments for random calls: tables, targets, models and losses that fit together, and odd things in their place."""

import datetime as dt
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import scipy.sparse as sp
from pyarrow import dataset
from sklearn import ensemble, linear_model, neighbors, pipeline, preprocessing, svm, tree
from sklearn.cluster import KMeans
from sklearn.metrics import get_scorer, make_scorer, mean_squared_error
from sklearn.model_selection import GroupKFold, KFold, LeaveOneOut

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


# Tables.


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


def _frozen(X):
    X.flags.writeable = False
    return X


def _doubled(X):
    return pd.DataFrame(np.column_stack([X, X]), columns=[f"x{j // 2}" for j in range(2 * X.shape[1])])


def odd_table(s):
    X = numbers(s.rng, s.n, s.p)
    return s.pick([
        X.tolist, lambda: X[:0], lambda: X[:, :0], lambda: X[:1], lambda: X[0], lambda: X[None],
        lambda: X.astype(complex), lambda: X.astype(str), lambda: np.full_like(X, np.nan),
        lambda: np.full_like(X, np.inf),
        lambda: _doubled(X), lambda: pd.DataFrame(X).iloc[:0], lambda: pd.DataFrame(X)[[]], pd.DataFrame,
        lambda: pd.DataFrame(X, columns=pd.MultiIndex.from_product([["a"], range(s.p)])),
        lambda: pd.DataFrame(X, columns=[None] + [1.5] * (s.p - 1)), lambda: pd.Series(X[:, 0]),
        lambda: pl.DataFrame(X).lazy(), lambda: pl.DataFrame(X).clear(), lambda: pl.Series(X[:, 0]),
        lambda: pa.table({"a": X[:, 0]}), lambda: pa.array(X[:, 0]), lambda: sp.csr_matrix(X), lambda: sp.coo_array(X),
        lambda: np.ma.masked_array(X, X > 0), lambda: np.rec.fromarrays([X[:, 0]], names="x0"), lambda: {"x0": X[:, 0]},
        lambda: {"x0": X[:, 0].tolist()}, lambda: np.array([[object()] * s.p] * s.n), lambda: "no such file.parquet",
        lambda: "*.csv", list, lambda: [[]], lambda: [X.tolist(), X[:1].tolist()], lambda: np.sign(X).astype("M8[D]"),
        lambda: pd.DataFrame({"x0": [[1, 2]] * s.n}), lambda: pd.DataFrame({"x0": [{}] * s.n}),
        lambda: pd.DataFrame(X + 1j),
        lambda: pd.DataFrame({"x0": [Decimal("1.5")] * s.n}),
        lambda: pd.DataFrame({"x0": [Decimal("NaN"), *[Decimal(1)] * (s.n - 1)]}),
        lambda: pd.DataFrame({"x0": pd.arrays.SparseArray(X[:, 0])}), lambda: pd.DataFrame(X).T,
        lambda: pd.DataFrame({"x0": pd.period_range("2024", periods=s.n, freq="D")}), lambda: X[:, :1],
        lambda: pd.DataFrame({"x0": [1, "one"] * s.n}), lambda: pd.DataFrame({"x0": [None] * s.n}),
        lambda: pl.DataFrame({"x0": [[1, 2]] * s.n}), lambda: pl.DataFrame({"x0": [None] * s.n}),
        lambda: np.asmatrix(X),
        lambda: pd.DataFrame({"x0": pd.interval_range(0, s.n)}), lambda: X.astype(np.float16),
        lambda: X.astype(np.longdouble),
    ])()  # fmt: skip


# Targets.


LABELS = {"binary": [[0, 1], ["no", "yes"], [False, True]], "classes": [[0, 1, 2], ["a", "b", "c"]]}


def contained(values, rng):
    """A target, or weights, in one of the containers."""
    return [np.asarray, list, pd.Series, pl.Series, pa.array, lambda v: pd.Series(v, index=np.arange(len(v)) + 5)][
        rng.choice(6, p=[0.7, 0.08, 0.08, 0.05, 0.05, 0.04])
    ](values)


def odd_target(s):
    n, v = s.n, np.arange(float(s.n))
    return s.pick([
        lambda: None, list, v[:-1].copy, lambda: np.append(v, 1), lambda: np.zeros((n, 1)), lambda: np.zeros((n, 2)),
        lambda: np.full(n, np.nan), lambda: np.where(v > 0, v, np.inf), lambda: np.zeros(n), lambda: np.ones(n, int),
        lambda: ["a"] * n, lambda: [None] * n, lambda: ["a", *v[1:]], lambda: v.astype(str), lambda: v.astype(object),
        lambda: v + 1j, lambda: "y", lambda: "x0", lambda: 0, dict, lambda: dict.fromkeys(range(n), 1),
        lambda: pd.DataFrame({"y": v}), lambda: pl.DataFrame({"y": v}), lambda: pd.Series(v)[::-1], lambda: -v - 1,
        lambda: v * (1e308 / n), lambda: v * 1e-308, lambda: np.ma.masked_array(v, v > 1), lambda: v.astype("M8[D]"),
        lambda: [Decimal(1)] * n, lambda: [Decimal("NaN")] * n, lambda: pd.Series([pd.NA] * n), lambda: [[1], [2, 3]],
        lambda: (value for value in v), lambda: range(n), lambda: set(range(n)), lambda: v.astype(bool),
        object,
        lambda: pd.Categorical(["a"] * n), lambda: pd.Series(v, dtype="Float64"), lambda: pa.chunked_array([v]),
        lambda: [10**30] * n,
    ])()  # fmt: skip


# Models.


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


def _raising(X):
    raise ModelError("no predictions today")


def _wants_columns(X):
    return X["no such column"]


class _Changing:
    """Overwrites its input."""

    def predict(self, X):
        try:
            X[:] = 0
        except Exception as error:
            raise ModelError from error
        return np.zeros(len(X))


class _Unsteady:
    """Never the same answer."""

    def __init__(self):
        self.rng = np.random.default_rng(0)

    def predict(self, X):
        return self.rng.normal(size=len(X))


class _Shapes:
    """The right shape the first time only."""

    def __init__(self):
        self.calls = 0

    def predict(self, X):
        self.calls += 1
        return np.zeros(len(X) + (self.calls > 1))


def odd_model(s):
    n = s.n
    return s.pick([
        None, 3, "model", [], {}, object(), linear_model.LinearRegression, linear_model.LinearRegression(),
        tree.DecisionTreeClassifier(),
        ensemble.RandomForestRegressor(3), preprocessing.StandardScaler(), KMeans(2), _raising, _wants_columns,
        _Changing(), _Unsteady(), _Shapes(),
        lambda X: 1.0, lambda X: None, lambda X: np.zeros(n + 1), lambda X: np.zeros((len(X), 1)),
        lambda X: np.zeros((len(X), 2)),
        lambda X: np.zeros((len(X), 1, 1)), lambda X: np.full(len(X), np.nan), lambda X: np.full(len(X), np.inf),
        lambda X: ["a"] * len(X),
        lambda X: [1.0] * len(X), lambda X: {"p": 1}, lambda X: np.zeros(len(X), complex),
        lambda X: np.array([None] * len(X)),
        lambda X: pd.DataFrame({"p": np.zeros(len(X))}),
        lambda X: pd.Series(np.zeros(len(X)), index=np.arange(len(X)) + 3),
        lambda X: np.ma.masked_array(np.zeros(len(X)), [True] * len(X)), lambda X: np.zeros(len(X), "M8[D]"),
        lambda X: (v for v in range(len(X))),
        lambda X: np.full(len(X), 1e200), lambda X: np.full(len(X), 1e-320), lambda X: np.zeros(len(X), np.float16),
        lambda X: [[1, 2], [3]],
        lambda X: np.full((len(X), 3), 1 / 3), lambda X: np.full((len(X), 2), 0.7), lambda X: -np.ones(len(X)),
        lambda X: np.zeros(len(X), bool),
        lambda X, z: np.zeros(len(X)), lambda: 0, lambda X: X, lambda X: X[:, 0], np.mean, len, lambda X: np.zeros(0),
        lambda X: pl.Series([0.0] * len(X)),
        lambda X: np.array([Decimal(1)] * len(X)), lambda X: np.where(as_matrix(X)[:, 0] > 0, np.nan, 1.0),
        {"a": line, "b": curved}, {"a": line}, {"a": 3, "b": line}, {}, [line, line], [], {1: line, 2: line},
        {"a": (line, 3)},
    ])  # fmt: skip


# Losses.


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


def _raising_loss(y, prediction):
    raise ModelError("no loss today")


def _in_place(y, prediction):
    prediction -= y
    return prediction * prediction


def odd_loss(s):
    return s.pick([
        "poisson_deviance", "gamma_deviance", "tweedie_deviance", "hinge", "log_loss", "zero_one", "brier",
        "squared_error", "r2", "mse", "rmse", "accuracy",
        "", "Squared_error", 3, [], {}, object(), True, ll.losses.huber, ll.losses.pinball, ll.losses, cubed,
        _raising_loss, _in_place,
        mean_squared_error, lambda y, f: 1.0, lambda y, f: None, lambda y, f: np.zeros(len(y) + 1), lambda y,
        f: np.full(len(y), np.nan),
        lambda y, f: np.zeros((len(y), 1)), lambda y, f: np.zeros((len(y), 2)), lambda y, f: ["a"] * len(y),
        lambda y: y, lambda y, f, g: y,
        lambda y, f: -np.ones(len(y)), lambda y, f: np.full(len(y), np.inf), lambda y, f: y, lambda y, f: f, lambda y,
        f: [0.0] * len(y),
        lambda y, f: np.zeros(len(y), complex), lambda y, f: np.full(len(y), 1e200), lambda y,
        f: np.zeros(len(y), bool),
        get_scorer("r2"), get_scorer("roc_auc"), get_scorer("neg_log_loss"), make_scorer(lambda y, f: np.nan),
        make_scorer(lambda y, f: "a"),
        make_scorer(lambda y, f: 1.0), make_scorer(mean_squared_error, greater_is_better=False),
        ll.losses.tweedie_deviance(3), ll.losses.brier,
    ])  # fmt: skip


# Everything else, by the name of the parameter: what fits, and what is odd there.


def columns(s):
    names = s.labels
    one, other = names[0], names[-1]
    return s.pick([
        None, [one], [one, other] if one != other else [one], {"both": names}, {"a": [one]}, one,
        (one, other) if one != other else [one],
        tuple(names[:2]) if len(names) > 1 else [one], names,
    ])  # fmt: skip


def designs(s):
    m = int(s.rng.integers(1, 4))
    return s.pick([
        "auto", "all", ll.All(), ll.Derangements(), ll.Latin(m), ll.Permutations(m), ll.Derangements(m),
        ll.Systematic(m), ll.Grid(m),
        ll.Grid(m, at="quantiles"), ll.Within(), ll.Residual(), ll.Within(m=2), shuffled,
    ])  # fmt: skip


def shuffled(X, columns, rng):
    X = X.copy() if hasattr(X, "copy") else X
    order = rng.permutation(X.shape[0])
    return (
        X.iloc[order].set_axis(X.index)
        if isinstance(X, pd.DataFrame)
        else X.take(order)
        if isinstance(X, pa.Table)
        else X[order]
    )


def odd_design(s):
    return s.pick([
        lambda: "none", lambda: "latin", lambda: ll.Latin(10**6), lambda: ll.Grid(10**6), lambda: ll.Latin,
        lambda: ll.Derangements(s.n), lambda: 5,
        lambda: ll.Grid(values=[0.0, 1.0]), lambda: ll.Grid(values=["a"]), lambda: ll.Grid(values=[np.nan]),
        lambda: ll.Grid(values=[None, 1]),
        lambda: ll.Systematic(10**6), lambda: lambda X, columns, rng: None, lambda: lambda X, columns, rng: X[:1],
        lambda: _raising,
        lambda: lambda X, columns, rng: 3, lambda: ll.Within(given=["no such"]), lambda: ll.Residual(given=[]),
        lambda: np.zeros((s.n, 2), int),
        lambda: ll.Residual(regressor=tree.DecisionTreeRegressor()),
        lambda: ll.Within(tree=tree.DecisionTreeRegressor(max_depth=1)), lambda: [ll.All()],
    ])()  # fmt: skip


def weights(s):
    w = s.rng.random(s.n) + 0.1
    return contained(
        s.pick([w, np.ones(s.n), np.round(w * 3) + 1, np.where(np.arange(s.n) < 2, 1.0, w * (w > 0.5))]), s.rng
    )


def odd_weights(s):
    w = np.ones(s.n)
    return s.pick([
        w * 0, -w, w * np.nan, w * np.inf, w[:-1], w[:, None], np.append(w[1:] * 0, 1), w * 1e-320, w * 1e308,
        w.astype(str), w.astype(bool), "w", 2,
        np.where(np.arange(s.n) % 2, 1e300, 1e-300), np.ma.masked_array(w, w > 0), [None] * s.n, [], w.astype(object),
        pd.Series(w, dtype="Float64"), w + 0j,
        "x0", {"a": 1}, w.astype("M8[D]"),
    ])  # fmt: skip


def labels(s):
    g = s.rng.integers(0, 3, s.n)
    return contained(s.pick([g, np.array(["a", "b", "c"])[g], np.arange(s.n), np.arange(s.n) // 2]), s.rng)


def odd_labels(s):
    g = np.arange(s.n)
    return s.pick([
        g * 0, g[:-1], g[:, None], g * np.nan, [None] * s.n, "x0", "a", 3, [], {}, [[1], [2, 3]], ["a", 1] * s.n,
        [{}] * s.n, [("a", 1)] * s.n, g.astype("M8[ns]"),
        np.r_[np.zeros(s.n - 1), 1], pd.Categorical(g), pd.Series(g)[::-1], pd.Series([pd.NA] * s.n),
        np.ma.masked_array(g, g > 0), g + 0j, pd.DataFrame({"g": g}),
        [Decimal("NaN")] * s.n, [g] * s.n,
    ])  # fmt: skip


def some_rows(s):
    n = s.n
    some = s.rng.choice(n, max(1, n // 2), replace=False)
    return s.pick(
        [
            some,
            np.isin(np.arange(n), some),
            some.tolist(),
            pd.Series(np.isin(np.arange(n), some)),
            [0],
            [-1],
            range(max(1, n // 2)),
            slice(None),
        ]
    )


def odd_rows(s):
    n = s.n
    return s.pick([
        [], [0, 0], [n], [-n - 1], np.zeros(n, bool), np.ones(n + 1, bool), [0.5], ["a"], "a", None, {}, 10**9, [[0]],
        np.nan, [None], True, -1, 0, slice(0, 0),
        pd.Series([True, None] * n), np.zeros((n, 2), bool), [10**30], {0}, s.X, pd.DataFrame({"no": [1]}),
        np.array([], bool), (i for i in [0]), [True, 2], [1 + 0j],
    ])  # fmt: skip


def learner(s):
    kind = s.pick(list(ESTIMATORS))
    return ESTIMATORS[kind][s.task != "values"]()


def axes(s):
    import matplotlib.pyplot as plt

    return s.pick([None, None, plt.figure().add_subplot, lambda: plt.figure().add_subplot(projection="polar")])


def folds(s):
    half = np.arange(s.n) < s.n // 2
    rows = np.arange(s.n)
    return s.pick(
        [
            2,
            3,
            KFold(2),
            KFold(3, shuffle=True, random_state=0),
            [(rows[half], rows[~half]), (rows[~half], rows[half])],
            2,
            2,
        ]
    )


def odd_folds(s):
    rows = np.arange(s.n)
    return s.pick([
        0, 1, -1, s.n, s.n + 1, 10**9, 2.0, "2", [], [(rows, rows)], [(rows[:0], rows)], [(rows, rows[:0])],
        [(rows, rows + 1)], [1, 2], GroupKFold(2), LeaveOneOut(),
        [(rows[:2], rows[2:])], [("a", "b")], KFold, np.nan, [(rows < 2, rows >= 2)], [(rows.astype(float), rows)],
        {}, True, [([0, 0], [1])],
    ])  # fmt: skip


def feature_of(s):
    held = getattr(s.result, "features", None) or s.names
    return s.pick(list(held))


def whole(low, high):
    return lambda s: int(s.rng.integers(low, high))


def one_of(*choices):
    return lambda s: s.pick(choices)


def level(s):
    return s.pick([0.95, 0.5, 0.9, 0.999, np.float64(0.8)])


FITS = {
    "model": lambda s: s.model,
    "models": lambda s: {"one": s.model, "other": s.model},
    "estimator": learner,
    "learner": learner,
    "forest": lambda s: fitted("forest", s.task, s.p, s.classes),
    "X": lambda s: s.X,
    "y": lambda s: s.y,
    "loss": lambda s: s.loss,
    "features": columns,
    "donors": designs,
    "sampler": one_of(shuffled, ll.Within(), ll.Residual()),
    "sample_weight": weights,
    "groups": labels,
    "rows": some_rows,
    "random_state": lambda s: s.pick([3, np.random.default_rng(3), np.random.RandomState(3), np.int64(4)]),
    "n_jobs": one_of(None, 1, 2, -1),
    "memory": one_of("1 GiB", "64 KiB", 10**6, "1 MB", 5000),
    "progress": one_of(False, None),
    "device": one_of(None),
    "executor": one_of(None),
    "ax": axes,
    "grid": lambda s: np.array([0.0, 1.0]),
    "cv": folds,
    "fit_params": one_of(None, {}),
    "method": one_of("auto", "exact", "walk", "paper"),
    "aggregate": one_of("loss", "prediction"),
    "precision": one_of(None, 0.3, ll.Absolute(1.0)),
    "budget": one_of(None, 500, 2000),
    "m_feat": whole(1, 4),
    "m_obs": whole(1, 4),
    "permutations": whole(1, 25),
    "how": one_of("drop", "constant", "marginal"),
    "draws": whole(1, 4),
    "pairs": lambda s: s.pick([None, [tuple(s.names[:2])], [(s.names[0], s.names[-1])]]),
    "by": lambda s: s.pick([None, "own", "donor", labels(s), s.names[0]]),
    "shapley": lambda s: s.pick([True, False]),
    "interactions": one_of(True, False, 2, 0),
    "title": one_of(None, "A title", "<b>&"),
    "depth": whole(1, 4),
    "level": level,
    "k": one_of(None, 2, 3),
    "starts": whole(1, 4),
    "classifier": one_of(None),
    "verb": one_of(ll.feature_importance, ll.feature_effect, ll.shapley_importance),
    "path": one_of("result", "other.zip"),
    "target": lambda s: s.pick([None, "model", "learner", "importance", "interaction", "loss", *s.classes]),
    "adjust": one_of("holm", None, "bonferroni", "bh"),
    "first": feature_of,
    "second": feature_of,
    "feature": feature_of,
    "name": feature_of,
    "key": feature_of,
    "pair": lambda s: (feature_of(s), feature_of(s)),
    "against": lambda s: s.pick([None, *getattr(s.result, "names", [])]),
    "of": one_of("pfi", "sfimp"),
    "at": lambda s: s.pick([None, 0.0, "quantiles", "random"]),
    "label": lambda s: s.pick(s.classes or (0,)),
    "cluster": whole(0, 3),
    "value": one_of(0.1, 1.0, 3),
    "m": whole(1, 5),
    "values": one_of(None, [0.0, 1.0], np.array([1.0]), ["red"]),
    "given": one_of(None, [], ["x0"], [0]),
    "tree": one_of(None, tree.DecisionTreeRegressor(max_depth=2)),
    "regressor": one_of(None, linear_model.LinearRegression()),
    "delta": one_of(1.0, 0.5), "alpha": one_of(0.5, 0.1), "power": one_of(0, 1, 1.5, 2, 3, -1),
    "function": one_of(cubed), "reads": one_of("values", "probabilities", "labels", "scores"),
    "prediction": lambda s: np.zeros(s.n),
}  # fmt: skip


ODD = {
    "X": odd_table, "y": odd_target, "model": odd_model, "models": odd_model, "estimator": odd_model,
    "learner": odd_model, "forest": odd_model,
    "loss": odd_loss, "donors": odd_design, "sampler": odd_design, "sample_weight": odd_weights, "groups": odd_labels,
    "by": odd_labels, "rows": odd_rows, "cv": odd_folds,
}  # fmt: skip

# More of these means more work, and the user asked for it: nothing to refuse.
WORK = {
    "permutations",
    "starts",
    "draws",
    "m",
    "m_feat",
    "m_obs",
    "n_jobs",
    "budget",
    "depth",
    "k",
    "interactions",
    "rows",
    "precision",
    "donors",
}


def anything(s, name):
    """Anything at all, wherever it is put."""
    choices = [
        None, True, False, 0, 1, -1, 2.5, 0.0, -0.5, np.nan, np.inf, -np.inf, "", "x", "auto", "x0", b"x", [], (), {},
        set(), [1, 2], ["x0", "x0"], [None], [[]],
        {"x0": []}, {"a": ["x0"], "b": "x0"}, object(), len, int, Ellipsis, slice(2), range(2), np.array([]),
        np.array([np.nan]), np.array(["x0"]), np.float32(0.5),
        np.int8(2), np.bool_(True), np.datetime64("NaT"), pd.NA, pd.NaT, pd.Series([], dtype=float), pd.DataFrame(),
        dt.date(2024, 1, 1), Decimal("0.5"), 1 + 1j,
        "a" * 1000, "\x00", "é ü", ("x0", "x1"), ("x0", "x0"), ("x0",), {"x0"}, frozenset(["x0"]), pl.Series([1]),
        np.array(3), np.array([[0]]), 10**30, 1e-320, 1e300,
        s.X, s.y, s.model, "../..", "no/such/folder", ".", float("1e-12"), np.ma.masked, np.arange(3), 2**63,
        -(2**70), "inf", "1", "-1", ["a", 1], {1: 2},
    ]  # fmt: skip
    value = s.pick(choices)
    large = isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) > 1000
    return s.pick([None, -3, 0, "many"]) if name in WORK and large else value


# Scenes.


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
