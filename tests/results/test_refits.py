"""What the folds of a learner say together: intervals, curves, tables, files."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import stats
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.model_selection import KFold, RepeatedKFold, TimeSeriesSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.tree import DecisionTreeRegressor

import brute
import losslens as ll
from losslens.results.refits import MAX_VALUES
from pictures import looked_at
from refits_by_hand import DAYS, ODD, TREE, UNEQUAL, N, X, Y, by_hand, means, odd_pandas, odd_polars, refit, share

# What the folds say together.


@pytest.mark.parametrize("cv", [KFold(5), RepeatedKFold(n_splits=4, n_repeats=3, random_state=0), UNEQUAL])
def test_the_variance_is_that_of_nadeau_and_bengio(cv):
    """Var = (1/M + n_test/n_train) s², with s² over the folds' U-statistics and t of M - 1 degrees of freedom."""
    splits = list(cv.split(X)) if hasattr(cv, "split") else cv
    u = means(by_hand(Ridge(), splits), brute.u_statistic)
    M, tested, trained = len(splits), *(np.mean([len(pair[k]) for pair in splits]) for k in (1, 0))
    mean, error = u.mean(axis=0), np.sqrt((1 / M + tested / trained) * u.var(axis=0, ddof=1))
    found = refit(Ridge(), cv=cv, donors="all")
    np.testing.assert_allclose(found.std_error, error, rtol=1e-9, atol=1e-12)
    for level in (0.95, 0.5):
        reach = stats.t.ppf((1 + level) / 2, M - 1) * error
        low, high, share = mean - reach, mean + reach, found.importance / mean
        np.testing.assert_allclose(found.interval(level)[0], np.minimum(low, share * low), atol=1e-9)
        np.testing.assert_allclose(found.interval(level)[1], np.maximum(high, share * high), atol=1e-9)
    tests = found.test(adjust=None).set_index("feature").loc[["x0", "x1", "x2"], "p"]
    np.testing.assert_allclose(tests, stats.t.sf(mean / error, M - 1), rtol=1e-6)


def test_differences_of_features_are_those_of_the_folds():
    u = means(by_hand(TREE, KFold(5).split(X)), brute.u_statistic)
    apart = u[:, 0] - u[:, 1]
    refits = refit(cv=KFold(5), donors="all")
    found = refits.difference("x0", "x1")
    error = np.sqrt((1 / 5 + 1 / 4) * apart.var(ddof=1))
    assert found.value == pytest.approx(refits.importance[0] - refits.importance[1])
    assert found.std_error == pytest.approx(error)
    assert found.p_value == pytest.approx(2 * stats.t.sf(abs(apart.mean()) / error, 4))
    ranks = refit(cv=KFold(5)).ranks()
    assert list(ranks["rank"]) == [1, 2, 3]
    assert ((ranks["low"] <= ranks["rank"]) & (ranks["rank"] <= ranks["high"])).all()


def test_rows_that_several_folds_test_have_the_mean_of_their_importances():
    cv = RepeatedKFold(n_splits=3, n_repeats=2, random_state=0)
    splits = list(cv.split(X))
    total = np.zeros((N, 3))
    for (_, test), fold in zip(splits, by_hand(TREE, splits), strict=True):
        total[test] += np.stack([cell.mean(axis=1) for cell in fold], axis=1) / 2
    np.testing.assert_allclose(refit(cv=cv, donors="all").local, total, atol=1e-12)


def test_rows_that_no_fold_tests_have_no_importance():
    found = refit(cv=TimeSeriesSplit(3)).local
    assert np.isnan(found[:15]).all()
    assert np.isfinite(found[15:]).all()


def test_of_folds_that_test_every_row_once_local_importances_average_to_the_importance():
    found = refit(cv=KFold(4))
    np.testing.assert_allclose(found.local.mean(axis=0), found.importance, atol=1e-12)


def test_a_model_of_noise_is_worth_less_than_nothing_on_new_rows():
    """A learner that fits noise loses by it: on rows it has not seen, replacing noise helps or changes nothing."""
    noise = np.random.default_rng(1).normal(size=N)
    found = refit(DecisionTreeRegressor(random_state=0), y=noise, cv=RepeatedKFold(n_splits=5, n_repeats=4))
    low, _ = found.interval()
    assert (low < 0).all()


# Curves.


def test_the_curve_of_a_linear_truth():
    """y = 2 x: every fit is f(x) = 2 x, and in a fold with mean m and variance s² of x

    PI(v) = mean over i of (2 v - 2 x_i)² - 0 = 4 ((v - m)² + s²).

    The integers occur in every fold, so every fold is exact at every value.
    """
    x = np.tile([0, 1, 2, 3, 4, 5, 7, 9, 3, 4, 1, 2], 5)[:, None]
    found = refit(LinearRegression(), x, 2.0 * x[:, 0], cv=KFold(5))
    curve = found.curve("x0")
    values = np.array([0, 1, 2, 3, 4, 5, 7, 9])
    expected = [4 * ((values - x[rows].mean()) ** 2 + x[rows].var()) for rows in found.tested]
    np.testing.assert_array_equal(curve.grid, values)
    np.testing.assert_allclose(curve.folds, expected, atol=1e-9)
    np.testing.assert_allclose(curve.importance, np.mean(expected, axis=0), atol=1e-9)
    np.testing.assert_allclose(curve.reach, 0.0, atol=1e-9)  # every fold has the same rows
    assert curve.ordered
    assert repr(curve) == "<RefitCurve 'x0': 5 folds, 8 values>"


def test_the_interval_of_a_curve_is_that_of_the_folds_that_reach_a_value():
    """At each value t sqrt(1/k + n_test/n_train) s over the k folds that speak there; none where one speaks alone."""
    found = refit(LinearRegression(), X[:, :1], Y, cv=KFold(4))
    curve = found.curve("x0", level=0.8)
    for g in range(len(curve.grid)):
        told = curve.folds[:, g][np.isfinite(curve.folds[:, g])]
        if len(told) == 1:
            assert np.isnan(curve.reach[g])
        else:
            error = np.sqrt((1 / len(told) + 1 / 3) * told.var(ddof=1))
            assert curve.reach[g] == pytest.approx(stats.t.ppf(0.9, len(told) - 1) * error)
    frame = curve.to_frame()
    assert list(frame.columns) == ["value", "importance", "low", "high", "folds"]
    np.testing.assert_array_equal(frame["folds"], np.isfinite(curve.folds).sum(axis=0))
    np.testing.assert_allclose(frame["high"] - frame["low"], 2 * curve.reach)
    np.testing.assert_array_equal(frame["importance"], np.nanmean(curve.folds, axis=0))


@pytest.mark.parametrize("verb", [refit, share])
def test_folds_are_read_off_between_their_own_values_and_nowhere_beyond(verb):
    found = verb(LinearRegression(), cv=KFold(4))
    curve = found.curve("x1")
    np.testing.assert_array_equal(curve.grid, np.unique(X[:, 1]))
    for k, rows in enumerate(found.tested):
        own = np.unique(X[rows, 1])
        fold = found.folds[k]
        heights = fold["x1"].pi if verb is refit else fold.curve("x1").importance
        expected = np.interp(curve.grid, own, heights, left=np.nan, right=np.nan)
        np.testing.assert_allclose(curve.folds[k], expected, rtol=1e-12)


def test_of_many_values_a_curve_has_some_at_evenly_spaced_ranks():
    n = 400
    x = np.random.default_rng(2).normal(size=(n, 1))
    curve = refit(LinearRegression(), x, x[:, 0], cv=2).curve("x0")
    assert len(curve.grid) == MAX_VALUES
    assert np.isin(curve.grid, x).all()
    assert (curve.grid[0], curve.grid[-1]) == (x.min(), x.max())
    ranks = np.searchsorted(np.sort(x[:, 0]), curve.grid)
    np.testing.assert_allclose(np.diff(ranks), (n - 1) / (MAX_VALUES - 1), atol=1)


@pytest.mark.parametrize("verb", [refit, share])
@pytest.mark.parametrize("make", [odd_pandas, odd_polars])
def test_curves_of_words_dates_and_missing_values(make, verb):
    """Three folds of 20 rows: 'gold', 'medium' and one missing value are in the last alone, one in the first."""
    table = make()
    found = verb(ODD, table, Y, cv=KFold(3), features=["size", "colour", "day", "hole", "rare", "word", "flag"])
    curves = {name: found.curve(name) for name in found.features}
    assert list(curves["size"].grid) == ["small", "medium", "large"]
    assert curves["size"].ordered
    np.testing.assert_array_equal(np.isfinite(curves["size"].folds).sum(axis=0), [3, 1, 3])
    assert sorted(curves["colour"].grid) == ["blue", "gold", "green", "red"]
    assert not curves["colour"].ordered
    assert [str(v)[:10] for v in curves["day"].grid] == [str(day) for day in sorted(set(DAYS))]
    assert curves["day"].grid.dtype.kind == "M"
    np.testing.assert_array_equal(curves["hole"].grid, [0, 1, 2, 3, np.nan])
    assert np.isfinite(curves["hole"].folds).all()
    np.testing.assert_array_equal(curves["rare"].grid.astype(float), [0, 1, 2, np.nan])
    np.testing.assert_array_equal(np.isfinite(curves["rare"].folds).sum(axis=0), [3, 3, 3, 1])
    assert list(curves["word"].grid) == ["a", "b", None]
    np.testing.assert_array_equal(np.isfinite(curves["word"].folds)[:, -1], [True, False, False])
    for k, fold in enumerate(found.folds):
        own = fold["colour"] if verb is refit else fold.curve("colour")
        heights = dict(zip(own.grid, own.pi if verb is refit else own.importance, strict=True))
        expected = [heights.get(value, np.nan) for value in curves["colour"].grid]
        np.testing.assert_array_equal(curves["colour"].folds[k], expected)
    for name, curve in curves.items():
        assert type(curve.to_frame()) is type(table)
        assert np.isfinite(curve.importance).all(), name
        looked_at(curve.plot())


def test_ordered_words_keep_their_order_whatever_folds_lack():
    """b | a, d | b, c, d: the order of all of them follows."""
    sizes = ["a", "d"] * 4 + ["b", "c", "d", "b"] * 2 + ["a", "b"] * 4
    frame = pd.DataFrame({"size": pd.Categorical(sizes, list("abcd"), ordered=True)})
    coded = make_pipeline(FunctionTransformer(lambda X: X["size"].cat.codes.to_numpy(float)[:, None]), Ridge())
    found = refit(coded, frame, np.arange(24.0), cv=KFold(3)).curve("size")
    assert list(found.grid) == list("abcd")
    np.testing.assert_array_equal(np.isfinite(found.folds).sum(axis=0), [2, 2, 1, 2])


# Shown and kept.


@pytest.mark.parametrize("verb", [refit, share])
@pytest.mark.parametrize("make", [odd_pandas, odd_polars])
def test_a_saved_result_says_the_same(make, verb, tmp_path):
    found = verb(ODD, make(), Y, features=["number", "colour", "day", "hole"])
    found.save(tmp_path / "refits.zip")
    loaded = ll.load(tmp_path / "refits.zip")
    assert repr(loaded) == repr(found)
    for name in ("per_fold", "local", "errors", "std_error"):
        np.testing.assert_array_equal(getattr(loaded, name), getattr(found, name))
    assert type(loaded.to_frame()) is type(found.to_frame())
    for name in found.features:
        one, other = loaded.curve(name), found.curve(name)
        np.testing.assert_array_equal([str(v) for v in one.grid], [str(v) for v in other.grid])
        np.testing.assert_array_equal(one.folds, other.folds)


@pytest.mark.parametrize("verb", [refit, share])
def test_the_table_has_the_most_important_first(verb):
    found = verb(X=pl.DataFrame(X, schema=["a", "b", "c"]))
    frame = found.to_frame()
    assert isinstance(frame, pl.DataFrame)
    assert frame.columns == [
        "feature",
        "importance",
        "std_error",
        "low",
        "high",
        "target",
        "variance",
        "spread",
        "caution",
    ]
    order = np.argsort(-found.importance)
    assert frame["feature"].to_list() == [found.features[j] for j in order]
    np.testing.assert_array_equal(frame["importance"], found.importance[order])
    np.testing.assert_array_equal(frame["std_error"], found.std_error[order])
    np.testing.assert_array_equal(frame["high"], found.interval()[1][order])
    assert set(frame["target"]) == {"learner"}


def test_the_words_of_a_result():
    found = refit(LinearRegression(), X, 2 * X[:, 0])
    text = repr(found)
    assert text.splitlines()[0] in found._repr_html_()
    assert "increase in squared error" in found.curve("x0")._repr_html_()
    assert text.startswith("Refits: increase in squared error; mean of 3 refits, ")
    assert text.endswith("(±: standard errors, for the learner, refitted on new data; corrected variance)")
    assert text.splitlines()[1].startswith("  x0  ")


def test_a_forest_of_one_feature_among_others_is_seen():
    """The forest learns the one feature that matters, fold by fold: its interval excludes 0, the others' do not."""
    rng = np.random.default_rng(8)
    X = rng.normal(size=(150, 3))
    found = refit(RandomForestRegressor(20, random_state=0), X, X[:, 1] + 0.5 * rng.normal(size=150), cv=5)
    low, _ = found.interval()
    assert (low > 0).tolist() == [False, True, False]
