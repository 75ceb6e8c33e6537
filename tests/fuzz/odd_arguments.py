"""What is odd in the place of an argument: wrong types and shapes, nothing, too much, models and losses that fail."""

import datetime as dt
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import scipy.sparse as sp
from sklearn import ensemble, linear_model, preprocessing, tree
from sklearn.cluster import KMeans
from sklearn.metrics import get_scorer, make_scorer, mean_squared_error
from sklearn.model_selection import GroupKFold, KFold, LeaveOneOut
from tests.fuzz.scenes import ModelError, as_matrix, cubed, curved, line, numbers

import losslens as ll


def _doubled(X):
    return pd.DataFrame(np.column_stack([X, X]), columns=[f"x{j // 2}" for j in range(2 * X.shape[1])])


def odd_table(s):
    X = numbers(s.rng, s.n, s.p)
    return s.pick([
        X.tolist, lambda: X[:0], lambda: X[:, :0], lambda: X[:1], lambda: X[0], lambda: X[None],
        lambda: X.astype(complex), lambda: X.astype(str), lambda: np.full_like(X, np.nan),
        lambda: np.full_like(X, np.inf),
        lambda: pd.DataFrame(X).assign(y=np.resize(np.asarray(s.y), s.n)), lambda: _doubled(X),
        lambda: pd.DataFrame(X).iloc[:0], lambda: pd.DataFrame(X)[[]], pd.DataFrame,
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


def odd_weights(s):
    w = np.ones(s.n)
    return s.pick([
        w * 0, -w, w * np.nan, w * np.inf, w[:-1], w[:, None], np.append(w[1:] * 0, 1), w * 1e-320, w * 1e308,
        w.astype(str), w.astype(bool), "w", 2,
        np.where(np.arange(s.n) % 2, 1e300, 1e-300), np.ma.masked_array(w, w > 0), [None] * s.n, [], w.astype(object),
        pd.Series(w, dtype="Float64"), w + 0j,
        "x0", {"a": 1}, w.astype("M8[D]"),
    ])  # fmt: skip


def odd_labels(s):
    g = np.arange(s.n)
    return s.pick([
        g * 0, g[:-1], g[:, None], g * np.nan, [None] * s.n, "x0", "a", 3, [], {}, [[1], [2, 3]], ["a", 1] * s.n,
        [{}] * s.n, [("a", 1)] * s.n, g.astype("M8[ns]"),
        np.r_[np.zeros(s.n - 1), 1], pd.Categorical(g), pd.Series(g)[::-1], pd.Series([pd.NA] * s.n),
        np.ma.masked_array(g, g > 0), g + 0j, pd.DataFrame({"g": g}),
        [Decimal("NaN")] * s.n, [g] * s.n,
    ])  # fmt: skip


def odd_rows(s):
    n = s.n
    return s.pick([
        [], [0, 0], [n], [-n - 1], np.zeros(n, bool), np.ones(n + 1, bool), [0.5], ["a"], "a", None, {}, 10**9, [[0]],
        np.nan, [None], True, -1, 0, slice(0, 0),
        pd.Series([True, None] * n), np.zeros((n, 2), bool), [10**30], {0}, s.X, pd.DataFrame({"no": [1]}),
        np.array([], bool), (i for i in [0]), [True, 2], [1 + 0j],
    ])  # fmt: skip


def odd_folds(s):
    rows = np.arange(s.n)
    return s.pick([
        0, 1, -1, s.n, s.n + 1, 10**9, 2.0, "2", [], [(rows, rows)], [(rows[:0], rows)], [(rows, rows[:0])],
        [(rows, rows + 1)], [1, 2], GroupKFold(2), LeaveOneOut(),
        [(rows[:2], rows[2:])], [("a", "b")], KFold, np.nan, [(rows < 2, rows >= 2)], [(rows.astype(float), rows)],
        {}, True, [([0, 0], [1])],
    ])  # fmt: skip


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
        np.array([np.nan]), np.array(["x0"]), np.float32(0.5), np.int8(2), np.bool_(True),
        np.datetime64("NaT", "s"), pd.NA, pd.NaT, pd.Series([], dtype=float), pd.DataFrame(),
        dt.date(2024, 1, 1), Decimal("0.5"), 1 + 1j,
        "a" * 1000, "\x00", "é ü", ("x0", "x1"), ("x0", "x0"), ("x0",), {"x0"}, frozenset(["x0"]), pl.Series([1]),
        np.array(3), np.array([[0]]), 10**30, 1e-320, 1e300,
        s.X, s.y, s.model, "../..", "no/such/folder", ".", float("1e-12"), np.ma.masked, np.arange(3), 2**63,
        -(2**70), "inf", "1", "-1", ["a", 1], {1: 2},
    ]  # fmt: skip
    value = s.pick(choices)
    large = isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) > 1000
    return s.pick([None, -3, 0, "many"]) if name in WORK and large else value
