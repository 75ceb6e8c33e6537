"""Shapley results that are made up, for pictures."""

import numpy as np

from losslens.donors.layout import CommonGrid
from losslens.losses import squared_error
from losslens.results.interactions import Interactions
from losslens.results.shapley import ShapleyImportance, Shares
from losslens.results.shapley_curve import ShapleyCurve, Values
from losslens.results.shapley_effect import ShapleyEffect
from losslens.tables.sample import Sample

N = 60


def numbers(n, p):
    """Values of p columns of numbers."""
    columns = [np.unique(column, return_inverse=True) for column in np.random.default_rng(3).normal(size=(p, n))]
    codes = np.column_stack([codes for _, codes in columns]).astype(np.int32)
    names = tuple((f"x{j}",) for j in range(p))
    return Values(distinct=tuple(d for d, _ in columns), codes=codes, ordered=(True,) * p, columns=names)


def importance(p=5, *, scale=1.0, down=0.0, name="x{}".format, known=True, **other):
    rng = np.random.default_rng(0)
    local = scale * (rng.normal(size=(N, p)) + 3 * 0.8 ** np.arange(p) - down)
    weight, sfimp = np.full(N, 1 / N), local.mean(axis=0)
    sample = Sample(weight, np.zeros(N), np.zeros(N), scale * rng.gamma(1, 1, N))
    caused = sfimp + scale * (local[::-1] - local.mean(axis=0)) / 4
    shares = Shares(local, caused, CommonGrid(np.arange(N), np.arange(N), N)) if known else None
    made = {
        "features": tuple(name(j) for j in range(p)),
        "sfimp": sfimp,
        "error_all": sample.error,
        "error_none": sample.error + sfimp.sum(),
        "title": "squared error",
        "loss": squared_error,
        "aggregate": "loss",
        "method": "walks",
        "engine": "black box",
        "design": "",
        "exact": True,
        "n_predictions": 100,
        "sample": sample,
        "at": np.arange(N),
        "values": numbers(N, p),
        "monte_carlo_error": np.zeros(p),
        "backend": "pandas",
        "shares": shares,
    }
    return ShapleyImportance(**(made | other))


def curve(grid, earned, weights=None, *, by="own", ordered=True, name="LSTAT", columns=None):
    weights = np.ones(len(grid)) if weights is None else np.asarray(weights, float)
    return ShapleyCurve(
        name, by, np.asarray(grid), weights / weights.sum(), np.asarray(earned, float), columns or (name,), ordered,
        "squared error", "pandas",
    )  # fmt: skip


def noisy(n=500, scale=1.0, **asked):
    rng = np.random.default_rng(1)
    x = np.sort(rng.gamma(2, 5, n))
    return curve(x, scale * (40 * np.exp(-(((x - 5) / 4) ** 2)) + x) * rng.gamma(0.6, 1.6, n), **asked)


def words(*values):
    return np.array(values, dtype=object)


def interactions(p=4, scale=1.0, name="x{}".format):
    index = np.random.default_rng(4).normal(size=(p, p)) * scale * np.arange(1, p + 1) / p
    index = index + index.T
    np.fill_diagonal(index, 0.0)
    kind = "Shapley interaction index"
    return Interactions(tuple(name(j) for j in range(p)), index, kind, "squared error", "pandas")


def effect(rows=1, p=4, *, scale=1.0, name="x{}".format, error=0.0, **other):
    local = scale * np.random.default_rng(2).normal(size=(rows, p)) * 0.9 ** np.arange(p)
    made = {
        "features": tuple(name(j) for j in range(p)),
        "local": local,
        "prediction": 22 * scale + local.sum(axis=1),
        "base": np.full(rows, 22.0 * scale),
        "std_error": np.full((rows, p), error * scale),
        "target": None,
        "method": "walks",
        "engine": "black box",
        "exact": not error,
        "n_donors": 500,
        "n_predictions": 100,
        "values": numbers(rows, p),
        "backend": "pandas",
    }
    return ShapleyEffect(**(made | other))
