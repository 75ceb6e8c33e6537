"""A target that is a column of X: the warning, said once by every verb, and where it would be wrong to say it."""

import warnings
from functools import partial

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression
from sklearn.metrics import get_scorer

import losslens as ll
from losslens.tables import frames
from losslens.tables.leakage import warn_of_target

RNG = np.random.default_rng(0)
N = 40
X = pd.DataFrame(RNG.normal(size=(N, 3)), columns=["a", "b", "c"])
FULL = X.assign(price=2 * X["a"] + X["b"] * X["c"])
PRICE = FULL["price"].to_numpy()
WORDS = np.array(["low", "middle", "high"])[RNG.integers(0, 3, N)]
HALVES = pytest.mark.skipif(not hasattr(nw, "Float16"), reason="this narwhals does not know the type of the column")
WARNING = "X has the target: its column 'price' equals y in every row"


def told(X, y):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn_of_target(X, y)
    return [str(warning.message) for warning in caught]


@pytest.mark.parametrize(
    ("table", "y"),
    [
        (FULL, PRICE),
        (FULL, PRICE.tolist()),
        (FULL.astype("float32"), PRICE),  # the table was rounded
        (FULL.astype(object), PRICE),
        (pl.from_pandas(FULL), pl.Series(PRICE)),
        (X.assign(price=WORDS), WORDS),
        (X.assign(price=pd.Categorical(WORDS)), WORDS.astype(object)),
        (X.assign(price=PRICE > 0), (PRICE > 0).astype(int)),
        (X.assign(a=[np.array([1, 2])] * N, b=pd.NA, price=PRICE), PRICE),
        pytest.param(X.assign(price=PRICE.astype(np.float16)), PRICE, marks=HALVES),
        (pa.table(FULL), PRICE),
        (X.assign(price=pd.date_range("2024", periods=N)), pd.date_range("2024", periods=N).to_numpy()),
    ],
)
def test_a_column_that_equals_the_target_is_named(table, y):
    (text,) = told(table, y)
    assert text.startswith(WARNING)


@pytest.mark.parametrize(
    ("table", "y"),
    [
        (X, PRICE),
        (FULL, np.r_[PRICE[:-1], 0.0]),  # one row differs
        (FULL, PRICE + 1e-9),
        (FULL, -PRICE),
        (FULL, PRICE[:-1]),  # an error, said elsewhere
        (FULL, None),
        (None, PRICE),
        ("nowhere.parquet", "price"),
        (X.assign(price=1.0), np.ones(N)),  # constants are all equal
        (X.assign(price=np.arange(N) == 0), np.arange(N) == 0),  # one of N places
        (FULL[:2], PRICE[:2]),
        (FULL[:9], PRICE[:9]),  # 9! orders: under a million
        (X.assign(price=PRICE > 0)[:20], (PRICE > 0)[:20]),  # truth values of a few rows agree by chance
        (X.assign(price=WORDS), (WORDS == "low").astype(int)),
        (X.assign(price=PRICE.astype(str)), PRICE),
        (X.assign(price=PRICE.astype(int)), PRICE),
        (X.assign(price=[[value] for value in PRICE]), PRICE),
        (X.assign(price=[np.array([1, 2])] * N), np.array([np.array([1, 2])] * N + [None], dtype=object)[:-1]),
    ],
)
def test_other_columns_are_no_reason_to_warn(table, y):
    assert told(table, y) == []


def test_ten_numbers_or_two_dozen_truth_values_are_no_coincidence():
    """10! = 3.6 million orders of different numbers, 24 choose 12 = 2.7 million of truth values; 22 choose 11 = .7."""
    assert len(told(FULL[:10], PRICE[:10])) == 1
    for n, expected in ((24, 1), (22, 0)):
        y = np.arange(n) % 2 == 0
        assert len(told(pd.DataFrame({"a": RNG.normal(size=n), "price": y}), y)) == expected


LINEAR, FOREST = LinearRegression().fit(FULL, PRICE), RandomForestRegressor(3, random_state=0).fit(FULL, PRICE)
QUIET = {"progress": False, "random_state": 0}
CALLS = {
    "feature_importance": partial(ll.feature_importance, LINEAR, **QUIET),
    "a scorer": partial(ll.feature_importance, LINEAR, loss=get_scorer("r2"), **QUIET),
    "shapley_importance": partial(ll.shapley_importance, LINEAR, **QUIET),
    "pair_interactions": partial(ll.pair_interactions, LINEAR, **QUIET),
    "compare": partial(ll.compare, {"one": LINEAR, "two": FOREST}, **QUIET),
    "report": partial(ll.report, LINEAR, models={"two": FOREST}, **QUIET),
    "weak_segments": partial(ll.weak_segments, LINEAR, **QUIET),
    "conditional_predictive_impact": partial(
        ll.conditional_predictive_impact, LINEAR, sampler=lambda X, columns, rng: X, **QUIET
    ),
    "feature_importance_cv": partial(ll.feature_importance_cv, LinearRegression(), cv=2, n_jobs=2, **QUIET),
    "shapley_importance_cv": partial(ll.shapley_importance_cv, LinearRegression(), cv=2, **QUIET),
    "permuted_target_test": partial(ll.permuted_target_test, LinearRegression(), cv=2, permutations=2, **QUIET),
    "leave_one_covariate_out": partial(ll.leave_one_covariate_out, LinearRegression(), cv=2, **QUIET),
}


@pytest.mark.parametrize("verb", CALLS)
def test_every_verb_says_it_once_to_its_caller(verb):
    with pytest.warns(UserWarning, match=WARNING) as caught:
        CALLS[verb](X=FULL, y=PRICE)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        if verb == "feature_importance":
            ll.feature_importance(LinearRegression().fit(X, PRICE), X, PRICE, **QUIET)


@pytest.mark.parametrize("memory", ["1 GiB", "50 kB"])
def test_a_target_among_the_columns_of_files_is_named(tmp_path, memory):
    pd.concat([FULL] * 30).to_parquet(tmp_path / "rows.parquet", row_group_size=100)
    forest = RandomForestRegressor(3, max_depth=2, random_state=0).fit(FULL, PRICE)
    words = r"its column 'price' is also y, so a model that reads it .* ignore this if the model drops it"
    with pytest.warns(UserWarning, match=words) as caught:
        ll.feature_importance(forest, tmp_path / "rows.parquet", "price", memory=memory, **QUIET)
    assert len(caught) == 1


def test_a_target_beyond_single_precision_is_compared_silently():
    assert told(X.to_numpy(np.float32), 1e300 * PRICE) == []


def test_wide_tables_and_sorted_targets_are_compared_by_a_few_rows(monkeypatch):
    """No column is read in full, though the first hundreds of rows of each equal y."""
    read = []
    monkeypatch.setattr(frames.Table, "column", lambda table, j: read.append(j))
    rows = np.zeros((1000, 500))
    rows[np.arange(500), np.arange(500)] = 1  # dummies
    y = np.arange(1000) >= 999
    for table in (rows, pd.DataFrame(rows).astype("Int64"), pl.DataFrame(rows)):
        assert told(table, y) == []
    assert read == []
