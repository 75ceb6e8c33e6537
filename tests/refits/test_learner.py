"""Importances of learners: every fold against a clone fitted by hand, and what the folds say together."""

import datetime as dt

import numpy as np
import pandas as pd
import polars as pl
import pytest
from matplotlib import pyplot as plt
from scipy import stats
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.metrics import get_scorer, r2_score
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    LeaveOneOut,
    RepeatedKFold,
    ShuffleSplit,
    StratifiedGroupKFold,
    StratifiedKFold,
    TimeSeriesSplit,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from sklearn.svm import SVR
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import brute
import coalitions
import losslens as ll
from losslens.plots.canvas import BAND, SINGLE
from losslens.plots.refits import plot_refit_curve, plot_refits
from losslens.results.refits import MOST_VALUES
from pictures import caption, legend, looked_at, texts

RNG = np.random.default_rng(0)
N = 60
X = RNG.normal(size=(N, 3))
Y = X[:, 0] * (1 + 0.5 * X[:, 1]) + 0.5 * X[:, 1] + 0.3 * RNG.normal(size=N)
WORDS = np.array(["low", "mid", "top"])[np.digitize(Y, [-0.5, 0.8])]
GROUPS = np.arange(N) // 5
WEIGHT = RNG.integers(1, 4, N).astype(float)
TREE = DecisionTreeRegressor(max_leaf_nodes=6, random_state=0)
HALVES = [(np.arange(0, 30), np.arange(30, N)), (np.arange(30, N), np.arange(0, 30))]


@pytest.fixture(autouse=True)
def _closed():
    yield
    plt.close("all")


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


# Folds.


SPLITTERS = {
    "k folds": KFold(4),
    "repeated": RepeatedKFold(n_splits=3, n_repeats=2, random_state=1),
    "drawn": ShuffleSplit(4, test_size=0.25, random_state=1),
    "in time": TimeSeriesSplit(3),
    "groups": GroupKFold(3),
    "pairs": HALVES,
    "lists": [(train.tolist(), test.tolist()) for train, test in HALVES],
    "masks": [(np.arange(N) < 30, np.arange(N) >= 30), (np.arange(N) >= 30, np.arange(N) < 30)],
    "unequal": [(np.arange(10, N), np.arange(10)), (np.arange(30), np.arange(30, 40)), HALVES[0]],
}


@pytest.mark.parametrize("name", SPLITTERS)
def test_every_fold_is_a_clone_explained_on_the_rows_that_it_has_not_seen(name):
    cv = SPLITTERS[name]
    groups = GROUPS if name == "groups" else None
    splits = list(cv.split(X, Y, groups)) if hasattr(cv, "split") else cv
    cells = by_hand(TREE, splits)
    found = refit(cv=cv, groups=groups, donors="all")
    np.testing.assert_allclose(found.per_fold, means(cells), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found.importance, means(cells).mean(axis=0), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found.spread, means(cells).std(axis=0, ddof=1), rtol=1e-9, atol=1e-12)
    for (_, test), tested in zip(splits, found.tested, strict=True):
        np.testing.assert_array_equal(tested, np.flatnonzero(test) if np.asarray(test).dtype == bool else test)
    errors = [np.mean((Y[test] - clone(TREE).fit(X[train], Y[train]).predict(X[test])) ** 2) for train, test in splits]
    np.testing.assert_allclose(found.errors, errors)


def test_a_splitter_may_be_any_iterable_of_pairs():
    listed = refit(cv=list(KFold(3).split(X)))
    np.testing.assert_array_equal(refit(cv=KFold(3).split(X)).per_fold, listed.per_fold)


def test_a_number_of_folds_for_regressors_is_shuffled():
    expected = means(by_hand(TREE, KFold(4, shuffle=True, random_state=7).split(X)))
    np.testing.assert_allclose(refit(cv=4, random_state=7).per_fold, expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(refit(cv=np.int64(4), random_state=7).per_fold, expected, rtol=1e-9, atol=1e-12)


def test_a_number_of_folds_for_classifiers_keeps_the_shares_of_the_classes():
    splits = list(StratifiedKFold(4, shuffle=True, random_state=7).split(X, WORDS))
    expected = means(by_hand(LogisticRegression(), splits, y=WORDS, loss="log_loss"))
    found = refit(LogisticRegression(), y=WORDS, cv=4, random_state=7)
    np.testing.assert_allclose(found.per_fold, expected, rtol=1e-9, atol=1e-12)
    same = refit(LogisticRegression(), y=WORDS, cv=StratifiedKFold(4, shuffle=True, random_state=7))
    np.testing.assert_allclose(same.per_fold, expected, rtol=1e-9, atol=1e-12)


def test_a_number_of_folds_with_groups_keeps_them_together():
    found = refit(cv=4, groups=GROUPS)
    np.testing.assert_allclose(
        found.per_fold, means(by_hand(TREE, GroupKFold(4).split(X, Y, GROUPS))), rtol=1e-9, atol=1e-12
    )
    named = refit(cv=4, groups=pd.Series([f"patient {g}" for g in GROUPS]))
    assert all(len(set(GROUPS[rows]) & set(np.delete(GROUPS, rows))) == 0 for rows in named.tested)


def test_classifiers_with_groups_keep_both_groups_and_classes():
    """Groups are long runs of one class: folds of whole groups must still have them all."""
    y = np.repeat(["a", "b", "c"], 20)
    splits = StratifiedGroupKFold(3, shuffle=True, random_state=0).split(X, y, GROUPS)
    expected = means(by_hand(LogisticRegression(), splits, y=y, loss="log_loss"))
    found = refit(LogisticRegression(), y=y, groups=GROUPS)
    np.testing.assert_allclose(found.per_fold, expected, rtol=1e-9, atol=1e-12)
    for rows in found.tested:
        assert set(y[rows]) == {"a", "b", "c"}
        assert not set(GROUPS[rows]) & set(np.delete(GROUPS, rows))


def test_a_clone_of_a_fitted_estimator_has_forgotten_its_fit():
    fitted = clone(TREE).fit(X, -Y)
    np.testing.assert_array_equal(refit(fitted).per_fold, refit(TREE).per_fold)
    np.testing.assert_array_equal(fitted.predict(X), clone(TREE).fit(X, -Y).predict(X))


@pytest.mark.parametrize("library", ["lightgbm", "xgboost", "catboost"])
def test_classifiers_of_other_libraries_are_split_by_class(library):
    make = {
        "lightgbm": lambda m: m.LGBMClassifier(n_estimators=3, verbose=-1, min_child_samples=2),
        "xgboost": lambda m: m.XGBClassifier(n_estimators=3),
        "catboost": lambda m: m.CatBoostClassifier(iterations=3, verbose=0, allow_writing_files=False),
    }[library]
    y = (np.arange(N) < 3).astype(int)
    found = refit(make(pytest.importorskip(library)), y=y)
    assert all(y[rows].sum() == 1 for rows in found.tested)


@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["alike", "weights"])
def test_shapley_folds_are_shares_of_all_coalitions(weight):
    found = share(SVR(), cv=HALVES, sample_weight=weight)
    for k, (train, test) in enumerate(HALVES):
        own = None if weight is None else weight[test]
        predict = SVR().fit(X[train], Y[train]).predict
        expected = coalitions.shares(predict, X[test], Y[test], brute.LOSSES["squared_error"], weight=own)
        np.testing.assert_allclose(found.per_fold[k], expected.sfimp, atol=1e-9)
        np.testing.assert_allclose(found.local[test], expected.local, atol=1e-9)


def test_shapley_options_reach_every_fold():
    found = share(SVR(), method="walk", budget=2000, aggregate="prediction")
    assert {fold.aggregate for fold in found.folds} == {"prediction"}
    assert not any(fold.exact for fold in found.folds)
    again = share(SVR(), method="walk", budget=2000, aggregate="prediction")
    np.testing.assert_array_equal(again.per_fold, found.per_fold)


def test_weights_of_rows_are_cut_to_the_test_rows():
    found = refit(cv=HALVES, sample_weight=WEIGHT)
    for k, (train, test) in enumerate(HALVES):
        model = clone(TREE).fit(X[train], Y[train])
        expected = ll.feature_importance(model, X[test], Y[test], sample_weight=WEIGHT[test])
        np.testing.assert_allclose(found.per_fold[k], [f.pfi for f in expected.values()], rtol=1e-12)
        assert found.errors[k] == pytest.approx(
            np.average((Y[test] - model.predict(X[test])) ** 2, weights=WEIGHT[test])
        )


@pytest.mark.parametrize("kind", [np.asarray, list, pd.Series, pl.Series])
def test_arguments_of_fit_are_cut_to_the_training_rows(kind):
    found = refit(Ridge(), cv=HALVES, fit_params={"sample_weight": kind(WEIGHT)}, donors="all")
    for k, (train, test) in enumerate(HALVES):
        predict = Ridge().fit(X[train], Y[train], sample_weight=WEIGHT[train]).predict
        expected = [brute.cells(predict, X[test], Y[test], [j], brute.LOSSES["squared_error"]).mean() for j in range(3)]
        np.testing.assert_allclose(found.per_fold[k], expected, rtol=1e-9)
    piped = refit(make_pipeline(Ridge()), cv=HALVES, fit_params={"ridge__sample_weight": kind(WEIGHT)}, donors="all")
    np.testing.assert_allclose(piped.per_fold, found.per_fold, rtol=1e-9)


class Told(LinearRegression):
    """Says what it was fitted with."""

    def fit(self, X, y, note, **others):
        self.note_, self.others_ = note, others
        return super().fit(X, y)

    def predict(self, X):
        assert self.note_ == "as it is"
        assert {name: len(value) for name, value in self.others_.items()} == {"short": 2, "text": N, "table": N}
        return super().predict(X)


def test_other_arguments_of_fit_stay_as_they_are():
    """Neither a short list, nor a text or a mapping that happens to be as long as the data, is cut."""
    others = {"short": [1, 2], "text": "x" * N, "table": dict.fromkeys(range(N))}
    refit(Told(), fit_params={"note": "as it is"} | others)


def test_features_are_chosen_and_grouped():
    cells = by_hand(TREE, HALVES, columns=[(2,), (0, 1)])
    found = refit(cv=HALVES, features={"last": [2], "both": ["x0", "x1"]}, donors="all")
    assert found.features == ("last", "both")
    np.testing.assert_allclose(found.per_fold, means(cells), rtol=1e-9, atol=1e-12)
    chosen = refit(cv=HALVES, features=["x2", "x0"])
    assert chosen.features == ("x2", "x0")
    np.testing.assert_allclose(chosen.per_fold[:, 0], means(cells)[:, 0], rtol=1e-9, atol=1e-12)
    assert share(features={"both": [0, 1], "last": [2]}).features == ("both", "last")
    with pytest.raises(ValueError, match="'both' is a group of columns: its values have no common axis"):
        found.curve("both")
    assert np.isfinite(found.curve("last").importance).all()


def test_workers_change_nothing():
    options = {"cv": RepeatedKFold(n_splits=3, n_repeats=2, random_state=0), "donors": ll.Latin(4)}
    alone, together = (refit(SVR(), n_jobs=jobs, **options) for jobs in (None, 2))
    np.testing.assert_array_equal(together.per_fold, alone.per_fold)
    np.testing.assert_array_equal(together.local, alone.local)


def test_the_same_seed_gives_the_same_numbers_and_nothing_of_the_user_changes():
    frame, y, weight = pd.DataFrame(X, columns=list("abc")), pd.Series(Y.copy()), WEIGHT.copy()
    before = np.random.get_state()[1].copy()  # noqa: NPY002 - it is what must not move
    options = {"sample_weight": weight, "donors": ll.Latin(4), "cv": 4}
    one, two = (refit(SVR(), frame, y, random_state=3, **options) for _ in range(2))
    drawn = [refit(SVR(), frame, y, random_state=np.random.default_rng(5), **options).per_fold for _ in range(2)]
    np.testing.assert_array_equal(one.per_fold, two.per_fold)
    np.testing.assert_array_equal(*drawn)
    assert not np.array_equal(one.per_fold, refit(SVR(), frame, y, random_state=4, **options).per_fold)
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002
    pd.testing.assert_frame_equal(frame, pd.DataFrame(X, columns=list("abc")))
    np.testing.assert_array_equal(y, Y)
    np.testing.assert_array_equal(weight, WEIGHT)


# What the folds say together.


@pytest.mark.parametrize("cv", [KFold(5), RepeatedKFold(n_splits=4, n_repeats=3, random_state=0), SPLITTERS["unequal"]])
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
        np.testing.assert_allclose(found.interval(level), [mean - reach, mean + reach], atol=1e-9)
    tests = found.test(adjust=None).set_index("feature").loc[["x0", "x1", "x2"], "p"]
    np.testing.assert_allclose(tests, stats.t.sf(mean / error, M - 1), rtol=1e-6)


def test_differences_of_features_are_those_of_the_folds():
    u = means(by_hand(TREE, KFold(5).split(X)), brute.u_statistic)
    apart = u[:, 0] - u[:, 1]
    found = refit(cv=KFold(5), donors="all").difference("x0", "x1")
    error = np.sqrt((1 / 5 + 1 / 4) * apart.var(ddof=1))
    assert found.value == pytest.approx(apart.mean())
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


# Scorers.


def test_a_scorer_has_numbers_of_folds_and_curves_and_none_of_rows():
    found = refit(cv=HALVES, loss=get_scorer("r2"), donors="all")
    for k, (train, test) in enumerate(HALVES):
        model = clone(TREE).fit(X[train], Y[train])
        score = r2_score(Y[test], model.predict(X[test]))
        assert found.errors[k] == pytest.approx(score)
        replaced = brute.predictions(model.predict, X[test], [0])
        shifts = [np.diagonal(np.roll(replaced, -s, axis=1)) for s in range(len(test))]
        expected = score - np.mean([r2_score(Y[test], some) for some in shifts])
        assert found.per_fold[k, 0] == pytest.approx(expected)
    assert repr(found).startswith("Refits: decrease in r2_score; mean of 2 refits")
    assert np.isfinite(found.std_error).all()
    with pytest.raises(ValueError, match="a local importance doesn't exist for the scorer r2_score"):
        _ = found.local
    curve = found.curve("x0")
    assert curve.what == plot_refit_curve(curve).get_ylabel() == "decrease in r2_score"
    assert caption(plot_refits(found)).startswith("mean score with nothing replaced: ")


def test_shapley_shares_of_a_scorer():
    found = share(loss=get_scorer("r2"))
    assert repr(found).startswith("Refits: increase in r2_score that each feature earns; mean of 3 refits")
    np.testing.assert_allclose(found.errors, refit(loss=get_scorer("r2")).errors)
    assert caption(plot_refits(found)).startswith("mean score with nothing replaced: ")
    for ask in (lambda: found.local, lambda: found.curve("x0")):
        with pytest.raises(ValueError, match="the scorer r2_score gives one number for all rows together"):
            ask()


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
    assert len(curve.grid) == MOST_VALUES
    assert np.isin(curve.grid, x).all()
    assert (curve.grid[0], curve.grid[-1]) == (x.min(), x.max())
    ranks = np.searchsorted(np.sort(x[:, 0]), curve.grid)
    np.testing.assert_allclose(np.diff(ranks), (n - 1) / (MOST_VALUES - 1), atol=1)


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


def test_pandas_polars_and_arrays_of_the_same_values_give_the_same_numbers():
    frame = pd.DataFrame(X, columns=["x0", "x1", "x2"], index=np.arange(N)[::-1])
    expected = refit(LinearRegression()).per_fold
    for table, y in ((frame, Y), (frame, pd.Series(Y)), (pl.from_pandas(frame), pl.Series(Y)), (X.tolist(), list(Y))):
        np.testing.assert_allclose(refit(LinearRegression(), table, y).per_fold, expected, rtol=1e-9)


def test_a_pipeline_with_words_in_pandas():
    frame = pd.DataFrame({"number": X[:, 0], "colour": COLOURS})
    encoded = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), ["colour"]), (StandardScaler(), ["number"])
    )
    learner = make_pipeline(encoded, LinearRegression())
    found = refit(learner, frame, Y, cv=KFold(3))
    for k, (train, test) in enumerate(KFold(3).split(frame)):
        model = clone(learner).fit(frame.iloc[train], Y[train])
        expected = []
        for name in frame:
            pairs = [(frame.iloc[test].assign(**{name: frame[name].iloc[donor]}), donor) for donor in test]
            loss = [np.mean((Y[test] - model.predict(some)) ** 2) for some, _ in pairs]
            expected.append(np.mean(loss) - np.mean((Y[test] - model.predict(frame.iloc[test])) ** 2))
        np.testing.assert_allclose(found.per_fold[k], expected, rtol=1e-9)


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
    assert frame.columns == ["feature", "importance", "std_error", "low", "high", "target", "spread"]
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
    assert text.endswith("(± is the standard error for the learner, refitted on new data)")
    assert text.splitlines()[1].startswith("  x0  ")


# What is refused.


class Fails(LinearRegression):
    """Can't be fitted without the row that holds the largest value of the third column."""

    def fit(self, X, y):
        if 99.0 not in X[:, 2]:
            raise KeyError("no such row")
        return super().fit(X, y)


def test_a_fold_that_fails_is_named():
    marked = X.copy()
    marked[30, 2] = 99.0  # a test row of the third fold
    with pytest.raises(RuntimeError, match=r"fold 3 of 5 failed: KeyError\('no such row'\)") as caught:
        refit(Fails(), marked, cv=KFold(5))
    assert isinstance(caught.value.__cause__, KeyError)
    with pytest.raises(RuntimeError, match="fold 3 of 5 failed"):
        refit(Fails(), marked, cv=KFold(5), n_jobs=2)


def test_a_class_that_training_rows_lack_is_named():
    y = np.repeat(["a", "b", "c"], 20)
    with pytest.raises(ValueError, match=r"fold 1 of 3 failed: y has the class 'a', which .* has never seen"):
        refit(DecisionTreeClassifier(), y=y, cv=KFold(3))


@pytest.mark.parametrize(
    ("cv", "kind", "words"),
    [
        (1, ValueError, "cv=1 gives one fold or none"),
        (0, ValueError, "cv=0 gives one fold or none"),
        ("x", TypeError, "cv is a number of folds, a splitter or a list of .* got 'x'"),
        (True, TypeError, "cv is a number of folds, .* got True"),
        (2.5, TypeError, "cv is a number of folds, .* got 2.5"),
        (None, TypeError, "cv is a number of folds, .* got None"),
        ([], ValueError, r"cv gives 0 fold\(s\)"),
        (HALVES[:1], ValueError, r"cv gives 1 fold\(s\)"),
        (LeaveOneOut(), ValueError, r"fold 1 tests 1 row\(s\); replacing values needs two: use fewer folds"),
        ([HALVES[0], ([0, 1, 2], [2, 3])], ValueError, "fold 2 tests rows that it was fitted on"),
        ([HALVES[0], ([0, 1], [2, N])], ValueError, f"fold 2: row positions run from 0 to {N - 1}"),
        ([HALVES[0], ([0, -1], [2, 3])], ValueError, "fold 2: row positions run from 0"),
        ([HALVES[0], (np.zeros(N, bool), [2, 3])], ValueError, "fold 2: .* and there must be some"),
        ([(np.ones(30, bool), [40, 41])] * 2, ValueError, rf"fold 1: rows are positions, or a mask of {N} rows"),
        ([([0.5, 1.5], [40, 41])] * 2, ValueError, "fold 1: rows are positions, .* of float64"),
        ([([[0, 1]], [40, 41])] * 2, ValueError, r"fold 1: rows are positions, .* got shape \(1, 2\)"),
        ([1, 2, 3], TypeError, "fold 1: a fold is a pair of row positions, train and test; got 1"),
        ([([1, 2],)] * 2, TypeError, "fold 1: a fold is a pair of row positions"),
    ],
)
def test_folds_that_make_no_sense(cv, kind, words):
    for verb in (refit, share):
        with pytest.raises(kind, match=words):
            verb(cv=cv)


@pytest.mark.parametrize(
    ("options", "kind", "words"),
    [
        ({"y": None}, ValueError, "y, the true values, is missing: a learner cannot be fitted without it"),
        ({"y": Y[:5]}, ValueError, "y has 5 values, but X has 60 rows"),
        ({"estimator": lambda X: X[:, 0]}, TypeError, "estimator is a scikit-learn estimator, .* got function"),
        ({"estimator": None}, TypeError, "got NoneType"),
        ({"groups": [1, 2]}, ValueError, "groups has 2 values, but X has 60 rows"),
        ({"sample_weight": -WEIGHT}, ValueError, "^sample_weight must not be negative"),
        ({"sample_weight": WEIGHT[:3]}, ValueError, "sample_weight has 3 values"),
        ({"n_jobs": 0}, ValueError, "n_jobs is None"),
        ({"memory": "much"}, ValueError, "memory is a size"),
        ({"random_state": "x"}, ValueError, "random_state is None"),
        ({"features": ["x7"]}, ValueError, "fold 1 of 3 failed: unknown feature 'x7'"),
        ({"loss": "r2"}, ValueError, "fold 1 of 3 failed: 'r2' is an average over rows"),
        ({"fit_params": {"no": 1}}, TypeError, "fold 1 of 3 failed: .*unexpected keyword argument 'no'"),
    ],
)
def test_other_things_that_make_no_sense(options, kind, words):
    for verb in (refit, share):
        with pytest.raises(kind, match=words):
            verb(**options)


def test_curves_without_a_number_are_refused_at_once():
    with pytest.raises(ValueError, match="fold 1 of 3 failed: 'x0 x x1' has no importance, only curves"):
        refit(features=[("x0", "x1")])


def test_questions_that_refits_cannot_answer():
    found = refit()
    with pytest.raises(ValueError, match=r"target='model' is about one fitted model, .* folds\[k\]\[name\].interval"):
        found.interval(target="model")
    with pytest.raises(ValueError, match="target of refits is 'learner'; got 'world'"):
        found.interval(target="world")
    with pytest.raises(ValueError, match="level lies between 0 and 1"):
        found.interval(2)
    with pytest.raises(ValueError, match="level lies between 0 and 1"):
        found.curve("x0", level=0)
    with pytest.raises(KeyError, match="unknown feature 'X0'; did you mean 'x0'"):
        found.curve("X0")


# Pictures.


@pytest.mark.parametrize("verb", [refit, share])
def test_the_picture_has_a_bar_a_feature_and_a_dot_a_fold(verb):
    found = verb()
    ax = looked_at(found.plot())
    order = np.argsort(-found.importance)
    assert texts(ax.get_yticklabels()) == [found.features[j] for j in order]
    np.testing.assert_allclose([bar.get_width() for bar in ax.patches], found.importance[order])
    dots = next(line for line in ax.lines if line.get_gid() == SINGLE)
    np.testing.assert_allclose(dots.get_xdata(), found.per_fold[:, order].ravel())
    np.testing.assert_array_equal(dots.get_ydata(), np.tile(np.arange(3), 3))
    low, high = found.interval()
    drawn = [path.vertices[:, 0] for some in ax.collections for path in some.get_paths()]
    np.testing.assert_allclose(drawn, np.stack([low, high], axis=1)[order])
    left, right = ax.get_xlim()
    assert left <= found.per_fold.min()
    assert right >= found.per_fold.max()
    assert "dots: 3 folds" in caption(ax)


def test_numbers_stand_right_of_every_dot():
    found = refit(cv=[*HALVES, *KFold(3).split(X)])
    ax = looked_at(found.plot())
    order = np.argsort(-found.importance)
    ends = np.maximum(found.interval()[1], found.per_fold.max(axis=0))[order]
    np.testing.assert_allclose([text.xy[0] for text in ax.texts[:3]], np.maximum(ends, 0))
    box = ax.get_window_extent()
    assert all(text.get_window_extent().x1 <= box.x1 for text in ax.texts[:3])


def test_the_picture_of_ordered_words_joins_nothing():
    """'medium' is in one fold alone: it has no interval, and its neighbours keep theirs."""
    curve = refit(ODD, odd_pandas(), Y, cv=KFold(3), features="size").curve("size")
    ax = looked_at(curve.plot())
    assert texts(ax.get_xticklabels()) == ["small", "medium", "large"]
    mean = next(line for line in ax.lines if line.get_label() == "mean")
    assert mean.get_linestyle() == "None"
    lines = next(some for some in ax.collections if some.get_gid() == BAND)
    drawn = np.array([path.vertices[:, 1] for path in lines.get_paths() if np.isfinite(path.vertices).all()])
    ends = np.stack([curve.importance - curve.reach, curve.importance + curve.reach], axis=1)
    np.testing.assert_allclose(drawn, ends[[0, 2]])


def test_the_picture_of_a_curve():
    found = refit(LinearRegression(), cv=KFold(4))
    curve = found.curve("x0")
    ax = looked_at(curve.plot())
    lines = [line for line in ax.lines if line.get_gid() == SINGLE]
    assert len(lines) == 4
    for line, fold in zip(lines, curve.folds, strict=True):
        np.testing.assert_array_equal(line.get_ydata(), fold)
    mean = next(line for line in ax.lines if line.get_label() == "mean")
    np.testing.assert_array_equal(mean.get_xdata(), curve.grid)
    np.testing.assert_array_equal(mean.get_ydata(), curve.importance)
    assert legend(ax) == ["4 folds", "95% for the learner", "mean"]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("x0", "increase in squared error")
    assert any(some.get_gid() == BAND for some in ax.collections)


def test_the_picture_of_words_has_a_row_a_value():
    curve = refit(ODD, odd_pandas(), Y, cv=KFold(3), features="colour").curve("colour")
    ax = looked_at(curve.plot())
    order = np.argsort(-curve.importance)
    assert texts(ax.get_yticklabels()) == [curve.grid[k] for k in order]
    mean = next(line for line in ax.lines if line.get_label() == "mean")
    np.testing.assert_array_equal(mean.get_xdata(), curve.importance[order])
    assert (ax.get_ylabel(), ax.get_xlabel()) == ("colour", "increase in squared error")


@pytest.fixture(scope="module")
def odd():
    return refit(ODD, odd_pandas(), Y, cv=KFold(3))


@pytest.mark.parametrize("size", [(2.2, 2.0), (1.6, 4), (9, 1.6)])
@pytest.mark.parametrize("layout", [None, "constrained"])
def test_pictures_fit_axes_of_any_size(odd, size, layout):
    for draw in (odd, *(odd.curve(name) for name in ("number", "colour", "hole"))):
        figure, ax = plt.subplots(figsize=size, layout=layout)
        assert draw.plot(ax=ax) is ax
        figure.canvas.draw()


@pytest.mark.parametrize(("p", "name"), [(1, ("x{} " + 15 * "long").format), (200, "größe {} Возраст $x_1$ %".format)])
def test_pictures_of_few_and_many_features_with_any_names(p, name):
    table = pd.DataFrame(np.random.default_rng(3).normal(size=(30, p)), columns=[name(j) for j in range(p)])
    y = table.to_numpy() @ (0.9 ** np.arange(p))
    found = refit(Ridge(), table, y, cv=2)
    ax = looked_at(found.plot())
    assert len(texts(ax.get_yticklabels())) == len(ax.patches) <= p
    assert ("less important features not shown" in caption(ax)) == (p == 200)
    looked_at(found.curve(name(0)).plot())


def test_a_forest_of_one_feature_among_others_is_seen():
    """The forest learns the one feature that matters, fold by fold: its interval excludes 0, the others' do not."""
    rng = np.random.default_rng(8)
    X = rng.normal(size=(150, 3))
    found = refit(RandomForestRegressor(20, random_state=0), X, X[:, 1] + 0.5 * rng.normal(size=150), cv=5)
    low, _ = found.interval()
    assert (low > 0).tolist() == [False, True, False]
