"""Rows walk down an ensemble as it was read: what every response of the model must be equal to."""

import lightgbm as lgb
import numpy as np
import pandas as pd
import polars as pl
import xgboost as xgb

from losslens.engines.choice import read_trees
from losslens.models import as_model
from losslens.tables.frames import as_table

N = 300


# From 3.1 on a booster holds the codes of its categories, and binary:logitraw starts from a score.
XGBOOST_3_1 = tuple(int(part) for part in xgb.__version__.split(".")[:2]) >= (3, 1)

FLOAT64, FLOAT32 = 1e-12, 1e-5  # XGBoost adds up in float32, in an order of its own


def numbers(ensemble, X):
    table = as_table(X)
    columns = (table.column(j).distinct for j in range(len(table.names)))
    return np.column_stack([ensemble.numbers(j, column.values)[column.codes] for j, column in enumerate(columns)])


def goes_left(ensemble, x, at):
    left = x < ensemble.threshold[at] if ensemble.strict else x <= ensemble.threshold[at]
    missing = np.isnan(x)
    if ensemble.in_set is not None:
        for s in np.unique(ensemble.in_set[at][ensemble.in_set[at] >= 0]):
            here = ensemble.in_set[at] == s
            left[here] = np.isin(x[here], ensemble.sets[s])
    return np.where(missing, ensemble.missing_left[at], left)


def walk(ensemble, X):
    return ensemble.link(sums(ensemble, X))


def sums(ensemble, X):
    Z = numbers(ensemble, X)
    raw = np.tile(ensemble.offset, (len(Z), 1))
    for root, output in zip(ensemble.roots, ensemble.output, strict=True):
        at = np.full(len(Z), root)
        while (inner := np.flatnonzero(ensemble.feature[at] >= 0)).size:
            here = at[inner]
            left = goes_left(ensemble, Z[inner, ensemble.feature[here]], here)
            at[inner] = np.where(left, here + 1, ensemble.right[here])
        value = ensemble.value[ensemble.right[at]]
        raw[:, slice(None) if value.shape[1] == ensemble.outputs else slice(output, output + 1)] += value
    return raw / ensemble.divisor


def well_formed(ensemble):
    """Preorder: behind every node stands its left part, behind that its right one; leaves are numbered in order."""
    leaf = ensemble.feature < 0
    assert ensemble.right[leaf].tolist() == list(range(len(ensemble.value)))
    size = np.ones(len(leaf), int)
    for s in np.flatnonzero(~leaf)[::-1]:
        assert ensemble.right[s] == s + 1 + size[s + 1]
        size[s] += size[s + 1] + size[ensemble.right[s]]
    assert np.array_equal(ensemble.roots, np.cumsum(size[ensemble.roots]) - size[ensemble.roots])
    assert size[ensemble.roots].sum() == len(leaf)
    dtypes = {"roots": "i4", "feature": "i4", "threshold": "f8", "right": "i4", "missing_left": "?", "output": "i4"}
    assert all(getattr(ensemble, name).dtype == dtype for name, dtype in dtypes.items())
    assert ensemble.value.flags.c_contiguous
    assert ensemble.value.shape[1] in (1, ensemble.outputs)


def agree(model, X, responses=None, tolerance=FLOAT64):
    """Every response of the model, or these, read and predicted."""
    model = as_model(model)
    for response in responses or model.responses:
        ensemble = read_trees(model, response)
        assert ensemble is not None
        well_formed(ensemble)
        got, said = walk(ensemble, X), model.responder(response)(X)
        if response == "labels":
            assert got.dtype == np.intp
            leads = getattr(ensemble.link, "tied", lambda raw, _: np.zeros(len(raw), bool))
            tied = leads(sums(ensemble, X), ensemble.rounding)  # the model is asked for these
            assert np.array_equal(model.classes[got][~tied], said[~tied])
        else:
            assert (got.dtype, got.shape) == (said.dtype, said.shape)
            np.testing.assert_allclose(got, said, rtol=tolerance, atol=tolerance / 10 * np.abs(said).max())


def table(seed, missing=False):
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.normal(size=N), rng.integers(0, 5, N), rng.exponential(size=N), rng.integers(0, 2, N)])
    X[:, 0] = np.where(rng.random(N) < 0.2, 0.0, X[:, 0])
    if missing:
        X[rng.random(X.shape) < 0.15] = np.nan
    filled = np.nan_to_num(X, nan=1.5)
    y = filled[:, 0] * filled[:, 1] + np.sin(3 * filled[:, 2]) + filled[:, 3] + 0.3 * rng.normal(size=N)
    return X, y


def probes(model, X, missing):
    """Rows of the table with values at thresholds, next to them, far outside and missing."""
    model = as_model(model)
    ensemble, rng = (
        read_trees(model, "values" if "values" in model.responses else "probabilities"),
        np.random.default_rng(1),
    )
    parts = [X, rng.permuted(X, axis=0)]
    for column in range(X.shape[1]):
        at = ensemble.threshold[(ensemble.feature == column) & np.isfinite(ensemble.threshold)]
        at = np.concatenate([at, [0.0, -0.0, 1e-36, -1e-36, 1e-35, -1e30, 1e30, *([np.nan] if missing else [])]])
        at = np.concatenate([at, np.nextafter(at, np.inf), np.nextafter(at, -np.inf)])
        new = X[rng.integers(0, len(X), len(at))]
        new[:, column] = at
        parts.append(new)
    return np.concatenate(parts)


def classes(y, k):
    return np.array(["no", "maybe", "yes", "well"])[:k][np.digitize(y, np.quantile(y, np.arange(1, k) / k))]


def pick(seed, **options):
    rng = np.random.default_rng(seed)
    return {name: values[rng.integers(len(values))] for name, values in options.items()}


SEEDS = range(4)


def frame(library, seed=0, missing=True):
    """Two columns of categories among three of numbers; the words are not in the order of their letters."""
    X, y = table(seed, missing)
    rng = np.random.default_rng(seed)
    words = rng.choice(np.array(["c", "a", "d", "b", *([None] if missing else [])], dtype=object), N)
    few = rng.choice(np.array(["x", "y"], dtype=object), N)
    y = y + np.select([words == "a", words == "d"], [2.0, -3.0]) * (1 + X[:, 3].clip(0)) + (few == "x")
    data = {"n": X[:, 0], "words": words.tolist(), "m": X[:, 1], "few": few.tolist(), "o": X[:, 2]}
    y = np.nan_to_num(y)
    if library == "polars":
        return pl.DataFrame(data).with_columns(pl.col("words", "few").cast(pl.Categorical)), y
    result = pd.DataFrame(data)
    result["words"] = pd.Categorical(result["words"], categories=["d", "c", "b", "a"])
    result["few"] = pd.Categorical(result["few"])
    return result, y


def unseen(X):
    """The same rows in another order of categories, with one that no model has seen."""
    if isinstance(X, pl.DataFrame):
        return X.with_columns(words=pl.col("words").cast(pl.String).replace("b", "new").cast(pl.Categorical))
    words = X["words"].astype(object).replace("b", "new")
    return X.assign(words=pd.Categorical(words, categories=["new", "a", "c", "d"]))


def lightgbm(make=lgb.LGBMRegressor, **options):
    return make(**{"n_estimators": 10, "min_child_samples": 5, "verbose": -1, "n_jobs": 1, **options})
