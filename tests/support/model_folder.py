"""A folder with small tables and models of every kind, for the tests of what reads them."""

import pickle
import warnings
from pathlib import Path

import joblib
import lightgbm
import numpy as np
import pandas as pd
import xgboost
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.tree import DecisionTreeRegressor

TREE = "sklearn.tree._tree.Tree"  # which skops doesn't know
SIZES = ["small", "middle", "large"]

OWN_MODULE = """
import sys, time

def slope(X):
    print("a model may print")
    return 2.0 * X["a"].to_numpy()

def quiet(X):
    return 2.0 * X["a"].to_numpy()

def slow(X):
    print("asked", file=sys.stderr, flush=True)
    time.sleep(0.1)
    return 2.0 * X["a"].to_numpy()

def fails(X):
    raise RuntimeError("no such luck\\nand more")

def error(y, prediction):
    return abs(y - prediction)
"""


def make_table(n=200):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a": rng.normal(size=n), "b": rng.normal(size=n)})
    table["size"] = pd.Categorical(rng.choice(SIZES, n), categories=SIZES)
    table["y"] = 2 * table["a"] + table["b"] * (table["size"] == "large") + 0.1 * rng.normal(size=n)
    table["label"] = np.where(table["y"] > 0, "up", "down")
    table["id"] = np.arange(n)
    table["weight"] = rng.uniform(0.5, 1.5, n).round(2)
    return table


def fill(folder: Path) -> Path:
    """Write everything; warnings of the libraries that write are not ours."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        table = make_table()
        _tables(folder, table)
        _models(folder, table)
        _onnx(folder, table)
    (folder / "mine.py").write_text(OWN_MODULE)
    return folder


def _tables(folder, table):
    table.to_csv(folder / "t.csv", index=False)
    table.to_csv(folder / "t.csv.gz", index=False)
    table.to_parquet(folder / "t.parquet")
    for suffix in ("feather", "arrow", "ipc"):
        table.to_feather(folder / f"t.{suffix}")


# Before scikit-learn 1.7 column transformers hold it, and skops does not trust it.
REMAINDER = "sklearn.compose._column_transformer._RemainderColsList"


def _models(folder, table):
    import skops.io  # slow to import: for the tests that read its files, not for all that are collected

    X, y, Z = table[["a", "b", "size"]], table["y"], table[["a", "b"]]
    linear = LinearRegression().fit(Z, y)
    skops.io.dump(linear, folder / "linear.skops")
    joblib.dump(linear, folder / "linear.joblib")
    with (folder / "linear.pkl").open("wb") as file:
        pickle.dump(linear, file)
    skops.io.dump(LinearRegression().fit(Z.to_numpy(), y), folder / "nameless.skops")
    skops.io.dump(LinearRegression().fit(Z.assign(b=0), y / 2), folder / "only_a.skops")
    skops.io.dump(LinearRegression().fit(Z + 0.01 * np.sin(Z), y), folder / "near.skops")
    skops.io.dump(LinearRegression().fit(table[["a", "y"]], y), folder / "given_the_answer.skops")
    skops.io.dump(DecisionTreeRegressor(max_depth=4).fit(Z, y), folder / "tree.skops")
    skops.io.dump(LogisticRegression().fit(Z, table["label"]), folder / "classes.skops")
    skops.io.dump(LogisticRegression().fit(Z, table["size"].astype(str)), folder / "sizes.skops")
    words = make_column_transformer((OneHotEncoder(handle_unknown="ignore"), ["size"]), remainder="passthrough")
    skops.io.dump(make_pipeline(words, LinearRegression()).fit(X, y), folder / "words.skops")
    booster = xgboost.train({"max_depth": 3}, xgboost.DMatrix(X, y, enable_categorical=True), 10)
    for suffix in ("json", "ubj", "model"):
        booster.save_model(folder / f"xgb.{suffix}")
    unordered = X.assign(size=X["size"].cat.as_unordered())
    ordered = X.assign(size=X["size"].cat.as_ordered())
    quiet = {"verbose": -1, "min_data_in_leaf": 5}
    for name, some in (("unordered.txt", unordered), ("ordered.lgb", ordered), ("lgb.model", unordered)):
        lightgbm.train(quiet, lightgbm.Dataset(some, y), 10).save_model(folder / name)


def _onnx(folder, table):
    from skl2onnx import to_onnx
    from skl2onnx.common.data_types import FloatTensorType, StringTensorType

    Z = table[["a", "b"]]
    array = Z.to_numpy(np.float32)
    classes = LogisticRegression().fit(Z, table["label"])
    regressor = LinearRegression().fit(Z, table["y"])
    words = make_column_transformer((OneHotEncoder(), ["size"]), remainder="passthrough")
    both = make_pipeline(words, LinearRegression()).fit(table[["a", "b", "size"]], table["y"])
    types = [
        ("a", FloatTensorType([None, 1])),
        ("b", FloatTensorType([None, 1])),
        ("size", StringTensorType([None, 1])),
    ]
    graphs = {
        "values.onnx": to_onnx(regressor, array),
        "zipmap.onnx": to_onnx(classes, array),
        "matrix.onnx": to_onnx(classes, array, options={"zipmap": False}),
        "columns.onnx": to_onnx(both, initial_types=types),
    }
    for name, graph in graphs.items():
        (folder / name).write_bytes(graph.SerializeToString())
