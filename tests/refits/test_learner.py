"""Importances of learners: every fold against a clone fitted by hand; what is refused."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.stats import t as student
from sklearn.base import clone
from sklearn.compose import make_column_transformer
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
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVR
from sklearn.tree import DecisionTreeClassifier

import brute
import coalitions
import losslens as ll
from losslens.uncertainty import standard_errors
from pictures import caption
from refits_by_hand import COLOURS, HALVES, RNG, TREE, UNEQUAL, N, X, Y, by_hand, means, refit, share

WORDS = np.array(["low", "mid", "top"])[np.digitize(Y, [-0.5, 0.8])]
GROUPS = np.arange(N) // 5
WEIGHT = RNG.integers(1, 4, N).astype(float)


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
    "unequal": UNEQUAL,
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
    found = share(SVR(), method=ll.Sage("walk"), budget=2000)
    assert {fold.aggregate for fold in found.folds} == {"prediction"}
    assert not any(fold.exact for fold in found.folds)
    again = share(SVR(), method=ll.Sage("walk"), budget=2000)
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


# The jackknife over folds.


def by_pairs(splits, estimator=TREE, X=X, y=Y):
    """The importances without each fold, from every fit without two folds, made by hand."""
    tests, k = [test for _, test in splits], len(splits)
    without = np.zeros((k, 3))
    for g in range(k):
        for h in range(k):
            if h == g:
                continue
            train = np.setdiff1d(np.arange(len(y)), np.concatenate([tests[g], tests[h]]))
            cells = by_hand(estimator, [(train, tests[h])], X, y)
            without[g] += means(cells, brute.u_statistic)[0] / (k - 1)
    return without


@pytest.mark.parametrize(
    ("cv", "groups"),
    [(KFold(4), None), (GroupKFold(3), GROUPS), (list(KFold(3).split(X)), None), (3, GROUPS)],
    ids=["k folds", "groups", "pairs", "number and groups"],
)
def test_the_jackknife_leaves_out_a_fold_in_training_and_in_test(cv, groups):
    """V = (K-1)/K sum (theta_(-g) - mean)^2, t with K-1 degrees of freedom, around the mean over the folds."""
    found = refit(cv=cv, groups=groups, donors="all", variance="jackknife")
    splitter = GroupKFold(3) if groups is not None else cv
    splits = list(splitter.split(X, Y, groups)) if hasattr(splitter, "split") else splitter
    without, k = by_pairs(splits), len(splits)
    np.testing.assert_allclose(found.without, without, rtol=1e-9, atol=1e-12)
    centred = without - without.mean(axis=0)
    covariance = (k - 1) / k * centred.T @ centred
    np.testing.assert_allclose(found.std_error, np.sqrt(np.diag(covariance)), rtol=1e-9)
    plain = refit(cv=cv, groups=groups, donors="all")
    middle, shown = plain.estimates().centre, plain.importance
    reach = student.ppf(0.975, k - 1) * found.std_error
    ends = [
        standard_errors.around(*one)
        for one in zip(shown, middle, zip(middle - reach, middle + reach, strict=True), strict=True)
    ]
    np.testing.assert_allclose(found.interval(), np.transpose(ends), rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(found.per_fold, plain.per_fold)
    one = found.difference("x0", "x2")
    variance = covariance[0, 0] + covariance[2, 2] - 2 * covariance[0, 2]
    assert one.std_error == pytest.approx(np.sqrt(variance), rel=1e-9)
    assert one.value == pytest.approx(shown[0] - shown[2])
    assert list(found.ranks()["feature"]) == list(plain.ranks()["feature"])


def test_the_jackknife_of_shares():
    splits = list(KFold(3).split(X))
    found = share(SVR(), cv=KFold(3), variance="jackknife")
    train, test = splits[2][1], splits[1][1]  # without the first fold, on the second
    fit = SVR().fit(X[train], Y[train])
    on_second = ll.shapley_importance(fit, X[test], Y[test], random_state=0).unbiased
    train, test = splits[1][1], splits[2][1]
    fit = SVR().fit(X[train], Y[train])
    on_third = ll.shapley_importance(fit, X[test], Y[test], random_state=0).unbiased
    np.testing.assert_allclose(found.without[0], (on_second + on_third) / 2, rtol=1e-9, atol=1e-12)
    assert found.variance == "jackknife"


def test_workers_weights_and_seeds_of_the_jackknife():
    options = {"cv": 4, "donors": ll.Latin(3), "variance": "jackknife", "sample_weight": WEIGHT}
    alone, together = (refit(n_jobs=jobs, memory=size, **options) for jobs, size in ((None, "1 GiB"), (6, "64 MiB")))
    np.testing.assert_array_equal(together.without, alone.without)
    np.testing.assert_array_equal(refit(**options).without, alone.without)
    assert not np.allclose(refit(**options | {"sample_weight": None}).without, alone.without)


def test_results_say_which_variance_they_have_and_the_test_has_the_corrected_one():
    jackknife, plain = refit(variance="jackknife"), refit()
    assert (jackknife.variance, plain.variance, plain.without) == ("jackknife", "corrected", None)
    pd.testing.assert_frame_equal(jackknife.test(), plain.test())
    assert set(jackknife.to_frame()["variance"]) == {"jackknife"}
    assert set(plain.to_frame()["variance"]) == {"corrected"}
    for view in (repr(jackknife), jackknife._repr_html_()):
        assert "jackknife variance" in view
        assert "test() uses the corrected variance" in view
    assert "corrected variance" in repr(plain)
    assert "test() uses" not in repr(plain)
    assert "jackknife variance" in caption(jackknife.plot())
    np.testing.assert_array_equal(jackknife.curve("x0").reach, plain.curve("x0").reach)


@pytest.mark.parametrize(
    ("cv", "words"),
    [
        (ShuffleSplit(4, test_size=0.25, random_state=1), "test every row once .* use variance='corrected'"),
        (RepeatedKFold(n_splits=3, n_repeats=2, random_state=1), "test every row once"),
        (TimeSeriesSplit(3), "test every row once"),
        (UNEQUAL, "test every row once"),
        ([(np.arange(25), np.arange(30, N)), (np.arange(30, N), np.arange(30))], "fitted on all other rows"),
        (HALVES, "leaves out two folds at a time; it needs 3 or more"),
    ],
)
def test_the_jackknife_is_for_numbered_folds(cv, words):
    for verb in (refit, share):
        with pytest.raises(ValueError, match=words):
            verb(cv=cv, variance="jackknife")


@pytest.mark.parametrize("odd", ["naive", None, 1, ["jackknife"]])
def test_there_are_two_variances(odd):
    with pytest.raises(ValueError, match="variance is 'corrected' or 'jackknife'; got"):
        refit(variance=odd)


def test_a_fit_without_two_folds_that_fails_is_named():
    y = np.where(np.isin(np.arange(N), (0, 20)), "rare", "often")  # in the first and the second fold
    with pytest.raises(ValueError, match=r"the fit without folds 1 and 2 of 3 failed: .*; use fewer folds, or"):
        refit(DecisionTreeClassifier(), y=y, cv=KFold(3), variance="jackknife")


def test_workers_change_nothing():
    options = {"cv": RepeatedKFold(n_splits=3, n_repeats=2, random_state=0), "donors": ll.Latin(4)}
    alone, together = (refit(SVR(), n_jobs=jobs, **options) for jobs in (None, 2))
    np.testing.assert_array_equal(together.per_fold, alone.per_fold)
    np.testing.assert_array_equal(together.local, alone.local)


def test_the_same_seed_gives_the_same_numbers_and_nothing_of_the_user_changes():
    frame, y, weight = pd.DataFrame(X, columns=list("abc")), pd.Series(Y.copy()), WEIGHT.copy()
    before = np.random.get_state()  # noqa: NPY002 - it is what must not move
    options = {"sample_weight": weight, "donors": ll.Latin(4), "cv": 4}
    one, two = (refit(KNeighborsRegressor(), frame, y, random_state=3, **options) for _ in range(2))
    drawn = [
        refit(KNeighborsRegressor(), frame, y, random_state=np.random.default_rng(5), **options).per_fold
        for _ in range(2)
    ]
    np.testing.assert_array_equal(one.per_fold, two.per_fold)
    np.testing.assert_array_equal(*drawn)
    assert not np.array_equal(one.per_fold, refit(KNeighborsRegressor(), frame, y, random_state=4, **options).per_fold)
    for now, then in zip(np.random.get_state(), before, strict=True):  # noqa: NPY002
        np.testing.assert_array_equal(now, then)
    pd.testing.assert_frame_equal(frame, pd.DataFrame(X, columns=list("abc")))
    np.testing.assert_array_equal(y, Y)
    np.testing.assert_array_equal(weight, WEIGHT)


# Scorers.


def test_a_scorer_has_numbers_of_folds_and_curves_and_none_of_rows():
    found = refit(cv=HALVES, loss=get_scorer("r2"), donors="all")
    np.testing.assert_array_equal(refit(cv=HALVES, loss="r2", donors="all").errors, found.errors)
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
    assert curve.what == curve.plot().get_ylabel() == "decrease in r2_score"
    assert caption(found.plot()).startswith("mean score as it is: ")


def test_shapley_shares_of_a_scorer():
    found = share(loss=get_scorer("r2"))
    assert repr(found).startswith("Refits: increase in r2_score by each feature; mean of 3 refits")
    np.testing.assert_allclose(found.errors, refit(loss=get_scorer("r2")).errors)
    assert caption(found.plot()).startswith("mean score as it is: ")
    for ask in (lambda: found.local, lambda: found.curve("x0")):
        with pytest.raises(ValueError, match="the scorer r2_score gives one number for all rows together"):
            ask()


def test_pandas_polars_and_arrays_of_the_same_values_give_the_same_numbers():
    frame = pd.DataFrame(X, columns=["x0", "x1", "x2"], index=np.arange(N)[::-1])
    expected = refit(LinearRegression()).per_fold
    series = pd.Series(Y, frame.index)
    for table, y in ((frame, Y), (frame, series), (pl.from_pandas(frame), pl.Series(Y)), (X.tolist(), list(Y))):
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


def test_an_error_that_is_a_kind_of_type_error_stays_one():
    """NumPy has kinds of its own: a product of dates and numbers."""
    dates = np.arange(60).astype("M8[D]").reshape(30, 2)
    with pytest.raises(TypeError, match=r"fold 1 of 3 failed: .*'?(matmul|subtract|add)"):
        refit(LinearRegression(), dates, y=np.arange(30.0), cv=KFold(3))


def test_a_class_that_training_rows_lack_is_named():
    y = np.repeat(["a", "b", "c"], 20)
    with pytest.raises(ValueError, match=r"fold 1 of 3 failed: y has the class 'a', which is no class of"):
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
        ({"estimator": lambda X: X[:, 0]}, TypeError, "estimator must be a scikit-learn estimator .* got function"),
        ({"estimator": None}, TypeError, "got NoneType"),
        ({"groups": [1, 2]}, ValueError, "groups has 2 values, but X has 60 rows"),
        ({"sample_weight": -WEIGHT}, ValueError, "^sample_weight must not be negative"),
        ({"sample_weight": WEIGHT[:3]}, ValueError, "sample_weight has 3 values"),
        ({"n_jobs": 0}, ValueError, "n_jobs is None"),
        ({"memory": "much"}, ValueError, "memory is a size"),
        ({"random_state": "x"}, ValueError, "random_state is None"),
        ({"features": ["x7"]}, ValueError, "fold 1 of 3 failed: unknown feature 'x7'"),
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


@pytest.mark.parametrize("odd", ["1", 3, [1], range(2), pd.DataFrame(), np.array(3), {1: 2}])
def test_arguments_of_fit_are_a_mapping(odd):
    with pytest.raises(TypeError, match="fit_params maps names of arguments of fit to their values"):
        ll.feature_importance_cv(LinearRegression(), X, Y, cv=2, fit_params=odd)


def test_a_class_is_no_estimator():
    with pytest.raises(TypeError, match="estimator must be a scikit-learn estimator"):
        ll.feature_importance_cv(LinearRegression, X, Y, cv=2)
