"""Tables, models and brute force over all pairs, for the tests of trees, and of torch modules."""

from itertools import combinations

import numpy as np
import pandas as pd
from sklearn.ensemble import GradientBoostingRegressor, HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.tree import DecisionTreeRegressor

from losslens.engines.choice import read_trees
from losslens.engines.trees.bound import bind
from losslens.models import as_model
from losslens.tables.frames import as_table

RNG = np.random.default_rng(0)
N, TRAINED, P = 70, 400, 4
SUBSETS = [list(kept) for size in range(P + 1) for kept in combinations(range(P), size)]
SOME = [[], [0], [1, 3], [0, 1, 2], [0, 1, 2, 3]]


def table(n):
    """Two columns without ties, one with five values and one with two."""
    X = np.column_stack([RNG.normal(size=(n, 2)), RNG.integers(0, 5, n), RNG.integers(0, 2, n)]).astype(float)
    return X, X[:, 0] * X[:, 2] + np.sin(3 * X[:, 1]) + X[:, 3] + 0.3 * RNG.normal(size=n)


def frame(n):
    """Categories, one of them unseen in training, and missing values."""
    X, y = table(n)
    X[RNG.random(X.shape) < 0.1] = np.nan
    words = pd.Categorical(RNG.choice(["a", "b", "c", "d", "e"], n), categories=["a", "b", "c", "d", "e", "f"])
    data = pd.DataFrame({"x": X[:, 0], "word": words, "count": X[:, 2], "flag": X[:, 3]})
    return data, y + 2.0 * (words.codes % 2)


(TRAIN, TARGET), (X, Y) = table(TRAINED), table(N)
(FRAME_TRAIN, FRAME_TARGET), (FRAME, FRAME_Y) = frame(TRAINED), frame(N)
FRAME.loc[3, "word"] = "f"
CLASSES, KINDS = np.digitize(TARGET, [-0.5, 1]), np.digitize(Y, [-0.5, 1])
EQUAL = np.full(N, 1 / N)
UNEQUAL = RNG.exponential(size=N) * (RNG.random(N) < 0.8)
WEIGHTS = {"equal": EQUAL, "with zeros": (UNEQUAL > 0.3).astype(float), "unequal": UNEQUAL}

REGRESSORS = {
    "tree": DecisionTreeRegressor(max_leaf_nodes=20, random_state=0),
    "tree without a node": DecisionTreeRegressor(min_samples_leaf=300),
    "large tree": DecisionTreeRegressor(random_state=0),
    "forest": RandomForestRegressor(7, max_leaf_nodes=12, random_state=0),
    "forest of large trees": RandomForestRegressor(3, random_state=0),
    "boosting": GradientBoostingRegressor(n_estimators=20, random_state=0),
    "histogram": HistGradientBoostingRegressor(max_iter=15, min_samples_leaf=5, early_stopping=False),
    "categories": HistGradientBoostingRegressor(
        max_iter=15, min_samples_leaf=5, early_stopping=False, categorical_features="from_dtype"
    ),
}


def bound_of(model, X, response="values"):
    ensemble, columns = read_trees(as_model(model), response), as_table(X)
    distinct = [columns.column(j).distinct for j in range(X.shape[1])]
    images = {j: (np.array([j]), ensemble.numbers(j, values.values)[:, None]) for j, values in enumerate(distinct)}
    return bind(ensemble, len(distinct[0].codes), distinct, images.get)


def pairs(X, kept):
    """Row i with the donor k's other columns, at place i n + k."""
    n = len(X)
    i, k = np.repeat(np.arange(n), n), np.tile(np.arange(n), n)
    if isinstance(X, pd.DataFrame):
        return pd.concat([X.iloc[i if j in kept else k, [j]].reset_index(drop=True) for j in range(X.shape[1])], axis=1)
    return np.column_stack([X[i if j in kept else k, j] for j in range(X.shape[1])])


def answers(predict, X, kept):
    """All pairs asked of the model, (n, n, outputs)."""
    return predict(pairs(X, kept)).reshape(len(X), len(X), -1)


def squared(said, y, weight):
    loss = np.square(said - y.reshape(len(y), 1, -1)).sum(axis=2)
    return weight @ loss @ weight / weight.sum() ** 2
