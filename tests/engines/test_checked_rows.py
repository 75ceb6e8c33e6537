"""Half of the rows on which an engine is checked hold what is rare or extreme, in the columns that the model uses."""

from functools import partial

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.linear_model import LinearRegression

import losslens as ll
from losslens.engines import choice
from losslens.engines.readers import scikit

N, ODD = 2000, 1234  # no row at equal distances
RNG = np.random.default_rng(0)
SPREAD = {count: np.linspace(0, N - 1, count).astype(int) for count in range(1, 65)}


def frame():
    """A column of a rare category, one with a missing value, counts with a rare one, and numbers."""
    word = RNG.choice(["a", "b", "c"], N).astype(object)
    word[ODD] = "rare"
    count, gap = RNG.poisson(3, N), RNG.normal(size=N)
    count[ODD + 1], gap[ODD + 2] = 40, np.nan
    X = pd.DataFrame({"word": pd.Categorical(word), "count": count, "gap": gap, "number": RNG.normal(size=N)})
    return X, X["number"] + (word == "a") + 0.3 * count + np.nan_to_num(gap, nan=4.0)


X, Y = frame()
assert all(not set(SPREAD[count]) & {ODD, ODD + 1, ODD + 2} for count in (32, 64))


@pytest.fixture
def seen(monkeypatch):
    """The rows that engines are checked on."""
    calls, search = [], choice.checked_rows
    monkeypatch.setattr(choice, "checked_rows", lambda *args: calls.append(search(*args)) or calls[-1])
    return calls


def boosting():
    return HistGradientBoostingRegressor(max_iter=20, categorical_features="from_dtype", random_state=0)


def test_rare_and_missing_values_and_extremes_are_among_the_rows(seen):
    model = boosting().fit(X, Y)
    for jobs in (1, 2, 1):
        assert ll.feature_importance(model, X, Y, n_jobs=jobs).engine == "trees"
    rows, covers, weight = seen[0]
    assert len(rows) == 64
    assert {ODD, ODD + 1, ODD + 2} <= set(rows[covers])
    for name in ("gap", "number"):
        assert {X[name].argmin(), X[name].argmax()} <= set(rows[covers])
    assert 0 < covers.sum() <= 32
    assert not covers[1::2].any()  # those take values of other rows
    np.testing.assert_array_equal(rows[~covers], SPREAD[64 - covers.sum()])
    assert weight.sum() == pytest.approx(1.0)  # covering rows stand for themselves
    np.testing.assert_allclose(weight[covers], 1 / N)
    assert all(np.array_equal(rows, others) for others, _, _ in seen)


def misread(original, codes, column, values):
    """The encoding, but for the rarest category."""
    encoded = original(codes, column, values)
    return np.where(values == "rare", 0.0, encoded) if values.dtype == object else encoded


def test_an_engine_that_misreads_a_category_of_one_row_is_not_used(monkeypatch):
    """Found though the row is no special one otherwise."""
    model = boosting().set_params(min_samples_leaf=1, max_leaf_nodes=6).fit(X, Y + 50 * (X["word"] == "rare"))
    asked = ll.feature_importance(model.predict, X[:300], Y[:300], loss="squared_error", donors="all")
    found = ll.feature_importance(model, X[:300], Y[:300], donors="all")
    assert found.engine == "trees"
    np.testing.assert_allclose([one.pfi for one in found.values()], [one.pfi for one in asked.values()], rtol=1e-9)
    monkeypatch.setattr(scikit, "_encode_categories", partial(misread, scikit._encode_categories))
    found = ll.feature_importance(model, X, Y)
    assert (found.engine, found["word"].declined) == ("blackbox", choice.DIFFERENT)


def test_rows_of_weight_0_hold_nothing(seen):
    model, weight = boosting().fit(X, Y), np.ones(N)
    weight[[ODD, X["number"].argmax()]] = 0
    second = X["number"].where(weight > 0).argmax()
    ll.feature_importance(model, X, Y, sample_weight=weight)
    rows, covers, weights = seen[0]
    assert not set(rows) & set(np.flatnonzero(weight == 0))
    assert {ODD + 1, ODD + 2, second} <= set(rows[covers])
    assert (weights > 0).all()


def test_columns_that_the_model_uses_most_come_first(seen):
    """Of 100 columns 64 are looked at, and 32 rows hold two extremes of 16 of them at least."""
    wide = RNG.normal(size=(N, 100))
    y = wide[:, 70] + 2 * wide[:, 99]
    forest = RandomForestRegressor(5, max_depth=3, random_state=0).fit(wide, y)
    linear = LinearRegression().fit(wide, y)
    for model, engine in ((forest, "trees"), (linear, "additive")):
        assert ll.feature_importance(model, wide, y, features=["x70", "x98"]).engine == engine
        rows, covers, _ = seen.pop()
        for j in (70, 99):
            assert {wide[:, j].argmin(), wide[:, j].argmax()} <= set(rows[covers])
