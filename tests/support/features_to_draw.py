"""Importances of one feature of any type, for pictures."""

import numpy as np
import pandas as pd

import losslens as ll

N = 60


def model(X):
    return X[:, 0] ** 2 * (1 + X[:, 1]) + X[:, 1]


def explain(X, noise=0.5, **asked):
    y = model(X) + np.random.default_rng(1).normal(scale=noise, size=len(X))
    return ll.feature_importance(model, X, y, loss="squared_error", random_state=0, **asked)


def explain_column(values, score, **asked):
    """One column of any type and a partner; `score` turns the column into numbers."""
    rng = np.random.default_rng(2)
    table = pd.DataFrame({"z": values, "w": rng.normal(size=len(values))})

    def predict(table):
        return score(table["z"]) * (1 + table["w"].to_numpy())

    y = predict(table) + rng.normal(scale=0.1, size=len(table))
    asked = {"features": ["z"], "random_state": 0} | asked
    return ll.feature_importance(predict, table, y, loss="squared_error", **asked)["z"]


WORDS = ["rarely", "often", "sometimes", "always, on every single day of the year without any exception"]


def words(ordered, missing=False):
    chosen = pd.Series(np.array(WORDS)[np.arange(N) ** 2 % 7 % 4])
    if missing:
        chosen = chosen.mask(np.arange(N) % 5 == 0)
    return chosen.astype(pd.CategoricalDtype(WORDS, ordered=True)) if ordered else chosen.astype(object)


def word_length(z):
    return z.astype(object).fillna("nobody knows").str.len().to_numpy(float)
