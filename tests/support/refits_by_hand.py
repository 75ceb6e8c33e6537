"""Refits of a small tree, and the same folds by hand."""

import datetime as dt

import numpy as np
import pandas as pd
import polars as pl
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.tree import DecisionTreeRegressor

import brute
import losslens as ll

RNG = np.random.default_rng(0)
N = 60
X = RNG.normal(size=(N, 3))
Y = X[:, 0] * (1 + 0.5 * X[:, 1]) + 0.5 * X[:, 1] + 0.3 * RNG.normal(size=N)
TREE = DecisionTreeRegressor(max_leaf_nodes=6, random_state=0)
HALVES = [(np.arange(0, 30), np.arange(30, N)), (np.arange(30, N), np.arange(0, 30))]
UNEQUAL = [(np.arange(10, N), np.arange(10)), (np.arange(30), np.arange(30, 40)), HALVES[0]]


def refit(estimator=TREE, X=X, y=Y, **options):
    return ll.feature_importance_cv(estimator, X, y, **({"random_state": 0, "cv": 3} | options))


def share(estimator=TREE, X=X, y=Y, **options):
    return ll.shapley_importance_cv(estimator, X, y, **({"random_state": 0, "cv": 3} | options))


def by_hand(estimator, splits, X=X, y=Y, loss="squared_error", columns=((0,), (1,), (2,))):
    """Every pair of test rows asked of a clone: the cells of each fold and feature, (M, p) matrices."""
    found = []
    for train, test in splits:
        model = clone(estimator).fit(X[train], y[train])
        read = y[test] if loss == "squared_error" else np.searchsorted(model.classes_, y[test])
        predict = model.predict if loss == "squared_error" else model.predict_proba
        found.append([brute.cells(predict, X[test], read, list(some), brute.LOSSES[loss]) for some in columns])
    return found


def means(cells, of=brute.v_statistic):
    return np.array([[of(cell) for cell in fold] for fold in cells])


DAYS = [dt.date(2020, 1, 1) + dt.timedelta(days=int(d)) for d in np.arange(N) % 7]
COLOURS = np.array(["red", "blue", "green"])[np.arange(N) % 3]
COLOURS[-1] = "gold"  # one fold alone has it
SIZES = np.array(["small", "large", "medium"])[np.arange(N) % 2]
SIZES[-20::4] = "medium"  # the last fold alone has it
HOLES = np.where(np.arange(N) % 10 == 3, np.nan, np.arange(N) % 4)
ONE_HOLE = [None if k == N - 1 else int(k % 3) for k in range(N)]


def features(table):
    """Numbers of the odd columns, for a linear model."""
    words = {name: np.asarray(table[name]).astype(str) for name in ("colour", "size", "word")}
    return np.column_stack([
        np.asarray(table["number"], float),
        words["colour"] == "red",
        words["size"] == "large",
        np.asarray(table["day"]).astype("datetime64[D]").astype(float),
        np.nan_to_num(np.asarray(table["hole"], float), nan=-1.0),
        words["word"] == "b",
        np.asarray(table["flag"], float),
    ])  # fmt: skip


def odd_pandas():
    words = [None if k == 0 else "ab"[k % 2] for k in range(N)]
    return pd.DataFrame(
        {
            "number": X[:, 0],
            "colour": COLOURS,
            "size": pd.Categorical(SIZES, ["small", "medium", "large"], ordered=True),
            "day": pd.to_datetime(DAYS),
            "hole": HOLES,
            "rare": pd.array(ONE_HOLE, dtype="Int64"),
            "word": words,
            "flag": np.arange(N) % 2 == 0,
        },
        index=np.arange(N) + 1000,
    )


def odd_polars():
    frame = odd_pandas()
    return pl.DataFrame(
        {
            "number": X[:, 0],
            "colour": COLOURS.tolist(),
            "size": pl.Series(SIZES.tolist(), dtype=pl.Enum(["small", "medium", "large"])),
            "day": DAYS,
            "hole": [None if np.isnan(v) else v for v in HOLES],
            "rare": ONE_HOLE,
            "word": [None if pd.isna(w) else w for w in frame["word"]],
            "flag": frame["flag"].to_numpy(),
        }
    )


ODD = make_pipeline(FunctionTransformer(features), Ridge())
