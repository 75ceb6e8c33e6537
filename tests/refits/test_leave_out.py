"""Features left out: every fit made by hand, a truth with a formula, and what cannot be asked."""

from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer, make_column_transformer
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import get_scorer, log_loss
from sklearn.model_selection import GroupKFold, KFold, RepeatedKFold, StratifiedKFold, TimeSeriesSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeRegressor

import losslens as ll
from pictures import caption, looked_at, texts

RNG = np.random.default_rng(0)
N = 60
X = RNG.normal(size=(N, 3))
Y = X[:, 0] * (1 + 0.5 * X[:, 1]) + 0.5 * X[:, 1] + 0.3 * RNG.normal(size=N)
WORDS = np.array(["low", "mid", "top"])[np.digitize(Y, [-0.5, 0.8])]
GROUPS = np.arange(N) // 4
WEIGHT = RNG.integers(0, 4, N).astype(float)
TREE = DecisionTreeRegressor(max_leaf_nodes=6, random_state=0)


def leave_out(learner=TREE, X=X, y=Y, **options):
    return ll.leave_one_covariate_out(learner, X, y, **({"random_state": 0, "cv": 3} | options))


def squared(model, X, y):
    return (y - model.predict(X)) ** 2


def by_hand(learner, splits, left=((0,), (1,), (2,)), X=X, y=Y, lose=squared):
    """The change of each row's loss in each fold, NaN where the fold has not tested it, (M, n, p)."""
    found = np.full((len(splits), len(y), len(left)), np.nan)
    for k, (train, test) in enumerate(splits):
        whole = lose(clone(learner).fit(X[train], y[train]), X[test], y[test])
        for j, columns in enumerate(left):
            rest = np.delete(X, columns, axis=1)
            found[k, test, j] = lose(clone(learner).fit(rest[train], y[train]), rest[test], y[test]) - whole
    return found


# The numbers.


@pytest.mark.parametrize(
    "cv",
    [KFold(4), RepeatedKFold(n_splits=3, n_repeats=2, random_state=1), TimeSeriesSplit(3), GroupKFold(3)],
    ids=repr,
)
def test_every_fit_is_a_clone_judged_on_rows_that_it_has_not_seen(cv):
    groups = GROUPS if isinstance(cv, GroupKFold) else None
    changes = by_hand(TREE, list(cv.split(X, Y, groups)))
    tested = np.isfinite(changes[:, :, 0]).any(axis=0)
    local = np.full((N, 3), np.nan)
    local[tested] = np.nanmean(changes[:, tested], axis=0)
    found = leave_out(cv=cv, groups=groups)
    np.testing.assert_allclose(found.local, local, atol=1e-12)
    np.testing.assert_allclose(found.importance, local[tested].mean(axis=0), atol=1e-12)
    np.testing.assert_allclose(found.per_fold, np.nanmean(changes, axis=1), atol=1e-12)


def test_a_classifier_is_judged_by_log_loss():
    def lose(model, X, y):
        told = model.predict_proba(X)
        return np.array([log_loss(y[[i]], told[[i]], labels=model.classes_) for i in range(len(y))])

    learner = LogisticRegression()
    splits = list(StratifiedKFold(3, shuffle=True, random_state=7).split(X, WORDS))
    expected = by_hand(learner, splits, y=WORDS, lose=lose)
    found = leave_out(learner, y=WORDS, random_state=7)
    np.testing.assert_allclose(found.local, np.nanmean(expected, axis=0), atol=1e-9)
    assert found.title == "log loss"
    whole = np.concatenate([lose(clone(learner).fit(X[a], WORDS[a]), X[b], WORDS[b]) for a, b in splits])
    assert found.error == pytest.approx(whole.mean())


@pytest.mark.parametrize("how", ["drop", "constant"])
def test_a_gaussian_linear_truth(how):
    """y = b x + e. Without x_j least squares predicts b_j E[X_j | rest] in its place, and so

    LOCO_j = E (e + b_j (X_j - E[X_j | rest]))^2 - E e^2 = b_j^2 var(X_j | rest),

    half of the conditional importance, E of b_j^2 times a squared difference of two draws. With correlation r between
    the first two, var(X_j | rest) = 1 - r^2; the third is independent. The change of one row has the variance
    2 b^4 v^2 + 4 b^2 v s^2: at n = 20,000 a relative standard error of sqrt(2 + 4 s^2 / (b^2 v)) / 141 = 1.2%.
    """
    rng = np.random.default_rng(1)
    n, r, s, b = 20_000, 0.8, 0.3, np.array([1.0, 1.5, -1.0])
    X = rng.normal(size=(n, 3))
    X[:, 1] = r * X[:, 0] + np.sqrt(1 - r**2) * X[:, 1]
    y = X @ b + s * rng.normal(size=n)
    found = leave_out(LinearRegression(), X, y, cv=5, how=how)
    truth = b**2 * np.array([1 - r**2, 1 - r**2, 1.0])
    np.testing.assert_allclose(found.importance, truth, rtol=0.05)
    expected = np.sqrt((2 * truth**2 + 4 * truth * s**2) / n)
    np.testing.assert_allclose(found.std_error, expected, rtol=0.05)
    assert found.error == pytest.approx(s**2, rel=0.03)


def test_columns_left_out_together():
    splits = list(KFold(3, shuffle=True, random_state=0).split(X))
    found = leave_out(features={"both": [0, 2], "last": ["x2"]})
    assert found.features == ("both", "last")
    np.testing.assert_allclose(found.local, np.nanmean(by_hand(TREE, splits, ((0, 2), (2,))), axis=0), atol=1e-12)


def test_a_constant_column_tells_as_little_as_none():
    constant, dropped = (leave_out(LinearRegression(), how=how) for how in ("constant", "drop"))
    np.testing.assert_allclose(constant.local, dropped.local, atol=1e-12)


def test_the_constant_is_the_median_or_the_most_frequent_value():
    seen = []

    def fit(X, y):
        seen.append(X)
        return lambda X: np.zeros(len(X))

    frame = pd.DataFrame(
        {
            "number": np.append(np.arange(N - 4.0), [np.nan] * 4),
            "word": pd.Categorical(np.repeat(["b", "a", "c"], [15, 30, 15]), categories=["c", "a", "b", "z"]),
            "text": ["often"] * 40 + ["rare"] * 20,
            "day": pd.date_range("2024-01-01", periods=N),
            "gone": [None] * N,
        }
    )
    how = {"how": "constant", "loss": "squared_error", "cv": 2}
    leave_out(fit, frame, **how)
    for name, value in (("number", 27.0), ("word", "a"), ("text", "often"), ("day", pd.Timestamp("2024-01-30"))):
        constant = [{*X[name]} for X in seen if X[name].nunique(dropna=False) == 1]
        assert constant == [{value}] * 2, name  # one a fold
    assert all((X.dtypes == frame.dtypes).all() for X in seen)


def test_a_function_that_fits():
    found = leave_out(lambda X, y: clone(TREE).fit(X, y), loss="squared_error")
    np.testing.assert_array_equal(found.local, leave_out().local)

    def fit(X, y):
        b = np.linalg.lstsq(X, y, rcond=None)[0]
        return lambda X: X @ b

    found = leave_out(fit, loss="squared_error", cv=KFold(3))
    expected = by_hand(LinearRegression(fit_intercept=False), list(KFold(3).split(X)))
    np.testing.assert_allclose(found.local, np.nanmean(expected, axis=0), atol=1e-9)
    with pytest.raises(ValueError, match="loss must be named"):
        leave_out(fit)


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
@pytest.mark.parametrize("how", ["drop", "constant"])
def test_any_table_gives_the_same_and_keeps_its_kind(make, how):
    table = make(dict(zip("abc", X.T, strict=True)))
    seen = set()

    def fit(F, y):
        seen.add(type(F))
        names = list(F.column_names if hasattr(F, "column_names") else F.columns)
        model = clone(TREE).fit(np.column_stack([np.asarray(F[name]) for name in names]), y)
        return lambda F: model.predict(np.column_stack([np.asarray(F[name]) for name in names]))

    found = leave_out(fit, table, loss="squared_error", how=how)
    assert found.features == ("a", "b", "c")
    assert seen == {type(table)}
    np.testing.assert_allclose(found.local, leave_out(how=how).local, atol=1e-12)
    assert type(found.to_frame()) is type(table)


def test_the_users_data_and_estimator_stay_as_they_are():
    frame, y, tree = pd.DataFrame(X, columns=list("abc")), Y.copy(), clone(TREE).fit(X, Y)
    before, leaves = frame.copy(), tree.get_n_leaves()
    leave_out(tree, frame, y, how="constant")
    pd.testing.assert_frame_equal(frame, before)
    np.testing.assert_array_equal(y, Y)
    assert tree.get_n_leaves() == leaves
    assert tree.n_features_in_ == 3


def test_workers_seeds_and_order_change_nothing():
    once = leave_out()
    np.testing.assert_array_equal(leave_out(n_jobs=2).local, once.local)
    np.testing.assert_array_equal(leave_out(random_state=np.random.default_rng(3)).local.shape, once.local.shape)
    np.testing.assert_array_equal(leave_out(features=["x2", "x0"]).local, once.local[:, [2, 0]])
    assert np.any(leave_out(random_state=1).local != once.local)


# Weights and groups.


def test_weights_count_rows_when_they_judge_and_not_when_they_are_fitted():
    found, plain = leave_out(sample_weight=WEIGHT), leave_out()
    np.testing.assert_array_equal(found.local, plain.local)
    share = WEIGHT / WEIGHT.sum()
    np.testing.assert_allclose(found.importance, share @ plain.local)
    assert found.error == pytest.approx(share @ plain.loss)
    with pytest.raises(ValueError, match="the test rows of a fold have no weight"):
        leave_out(cv=KFold(3), sample_weight=(np.arange(N) >= 20).astype(float))


def test_arguments_of_fit_are_cut_to_the_training_rows():
    splits = list(KFold(3).split(X))
    weight = 1 + WEIGHT
    found = leave_out(LinearRegression(), cv=splits, fit_params={"sample_weight": weight})
    train, test = splits[0]
    rest = X[:, 1:]
    whole = LinearRegression().fit(X[train], Y[train], weight[train])
    less = LinearRegression().fit(rest[train], Y[train], weight[train])
    np.testing.assert_allclose(
        found.local[test, 0], squared(less, rest[test], Y[test]) - squared(whole, X[test], Y[test])
    )


def test_groups_stay_together_and_move_the_numbers_together():
    """A clustered standard error: with groups of one row it is the plain one; of G equal groups it is that of their
    means, s / sqrt(G)."""
    found = leave_out(groups=GROUPS)
    expected = by_hand(TREE, list(GroupKFold(3).split(X, Y, GROUPS)))
    np.testing.assert_allclose(found.local, np.nanmean(expected, axis=0), atol=1e-12)
    means = np.stack([found.local[g == GROUPS].mean(axis=0) for g in range(15)])
    alone = replace(found, training_variance=None)
    np.testing.assert_allclose(alone.std_error, means.std(axis=0, ddof=1) / np.sqrt(15), atol=1e-12)
    noise = np.stack([np.sqrt(found.training_variance[g == GROUPS]).mean(axis=0) for g in range(15)]) / 15
    np.testing.assert_allclose(found.std_error**2, alone.std_error**2 + np.square(noise).sum(axis=0), atol=1e-12)
    assert found.estimates().freedom == pytest.approx(14)
    folds = list(KFold(3).split(X))
    np.testing.assert_allclose(leave_out(cv=folds, groups=np.arange(N)).std_error, leave_out(cv=folds).std_error)


# What the numbers can be asked.


def test_the_standard_error_is_that_of_a_mean_over_rows_and_of_training():
    """The variance of a mean over rows, and n_train/n_test times that of each row's change between the fits.

    On test rows alone the fits of one fold are fixed, and its rows new. But the rows of fold k train the fits of fold
    l, and the other way round. With deviations sum_{i in k} sum_{j in l} g(i, j), g symmetric as for least squares, the
    folds k and l are correlated: cov = sum of the variances of g, as much as the training rows of fold l add to
    the variance of fold k. Between two fits the mean changes with two folds of the training rows, n_test each, so the
    variance over all training rows is n_train/n_test times that between fits.
    """
    splits = list(KFold(3).split(X))
    found = leave_out(cv=splits)
    every = np.stack([by_hand(TREE, [(train, np.arange(N))])[0] for train, _ in splits])
    noise = 40 / 20 * every.var(axis=0, ddof=1)
    np.testing.assert_allclose(found.training_variance, noise, rtol=1e-9, atol=1e-12)
    expected = found.local.var(axis=0, ddof=1) / N + noise.sum(axis=0) / N**2
    np.testing.assert_allclose(found.std_error, np.sqrt(expected), rtol=1e-9)
    low, high = found.interval()
    assert np.all((low < found.importance) & (found.importance < high))
    some = found.given(X[:, 0] > 0)
    np.testing.assert_array_equal(some.training_variance, found.training_variance[X[:, 0] > 0])


def test_intervals_of_a_worthless_feature_hold_for_these_fits():
    """Least squares: a fit has the error b_0^2 + |b - beta|^2 beyond the noise of the target."""
    held, alone = [], []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        Z = rng.normal(size=(60, 2))
        y = Z[:, 0] + 0.5 * rng.normal(size=60)
        splits, truth = list(KFold(6).split(Z)), 0.0
        for train, _ in splits:
            for columns, sign in (([0], 1), ([0, 1], -1)):
                A = np.column_stack([np.ones(50), Z[train][:, columns]])
                b = np.append(np.linalg.lstsq(A, y[train])[0], 0.0)[:3]
                truth += sign * np.sum(np.square(b - [0.0, 1.0, 0.0])) / 6
        found = leave_out(LinearRegression(), Z, y, cv=splits, features=["x1"])
        ends = [one.interval() for one in (found, replace(found, training_variance=None))]
        for low_high, into in zip(ends, (held, alone), strict=True):
            into.append(low_high[0][0] <= truth <= low_high[1][0])
    assert sum(held) >= 37
    assert sum(alone) <= 35


def test_rows_of_a_class_that_a_fit_has_not_seen_are_not_asked_of_it():
    y = np.where(np.arange(N) < 32, np.array(["a", "b"])[np.arange(N) % 2], np.array(["a", "c"])[np.arange(N) % 2])
    splits = [(np.arange(10), np.arange(10, 30)), (np.arange(40), np.arange(40, N))]
    found = leave_out(LogisticRegression(), y=y, cv=splits)
    assert np.all(found.training_variance[45::2] == 0)  # the second fit alone knows c
    assert np.all(found.training_variance[10:30] > 0)
    assert np.isfinite(found.std_error).all()


def test_the_learners_interval_is_nadeau_and_bengios():
    from scipy.stats import t

    found = leave_out(cv=RepeatedKFold(n_splits=3, n_repeats=2, random_state=0))
    spread = found.per_fold.std(axis=0, ddof=1)
    reach = t.ppf(0.975, 5) * np.sqrt(1 / 6 + 20 / 40) * spread
    low, high = found.interval(target="learner")
    np.testing.assert_allclose([low, high], [found.per_fold.mean(axis=0) - reach, found.per_fold.mean(axis=0) + reach])
    with pytest.raises(ValueError, match="use the result of all rows"):
        found.given(np.arange(30)).interval(target="learner")
    with pytest.raises(ValueError, match="target='learner'"):
        found.interval(target="sample")
    with pytest.raises(ValueError, match="target is"):
        found.interval(target=np.zeros(3))


def test_groups_of_rows_average_back_to_the_whole():
    found = leave_out(sample_weight=WEIGHT, cv=TimeSeriesSplit(3))
    parts = found.by(np.where(X[:, 1] > 0, "up", "down"))
    share = {name: found.weight[(X[:, 1] > 0) == (name == "up")].sum() for name in parts}
    assert sum(share.values()) == pytest.approx(1)
    np.testing.assert_allclose(sum(share[name] * part.importance for name, part in parts.items()), found.importance)
    assert sum(share[name] * part.error for name, part in parts.items()) == pytest.approx(found.error)
    with pytest.raises(ValueError, match="none of the chosen rows"):
        found.given([0, 1])  # which no fold tests


def test_paired_differences_ranks_and_tests_are_there():
    found = leave_out()
    gap = found.difference("x0", "x2")
    rows = (found.local[:, 0] - found.local[:, 2]).var(ddof=1) / N
    training = found.training_variance[:, [0, 2]].sum() / N**2
    assert gap.std_error == pytest.approx(np.sqrt(rows + training))
    assert next(iter(found.test()["feature"])) == "x0"
    assert set(found.ranks()["feature"]) == {"x0", "x1", "x2"}


# Pipelines.

CARS = pd.DataFrame({"size": X[:, 0], "age": X[:, 1], "kind": np.where(X[:, 2] > 0, "bus", "van")})


def pipeline(numbers=("size", "age"), words=("kind",)):
    steps = make_column_transformer((StandardScaler(), list(numbers)), (OneHotEncoder(), list(words)))
    return make_pipeline(steps, LinearRegression())


def test_a_pipeline_that_names_its_columns_is_left_with_a_constant():
    with pytest.raises((ValueError, RuntimeError), match=r"without 'size' failed: .*how='constant'"):
        leave_out(pipeline(), CARS)
    found = leave_out(pipeline(), CARS, how="constant")
    plain = np.column_stack([X[:, :2], X[:, 2] > 0])
    expected = by_hand(LinearRegression(), list(KFold(3, shuffle=True, random_state=0).split(X)), X=plain)
    np.testing.assert_allclose(found.local, np.nanmean(expected, axis=0), atol=1e-9)


@pytest.mark.parametrize(
    "learner",
    [
        make_pipeline(ColumnTransformer([("scaled", StandardScaler(), [0, 1])]), LinearRegression()),
        make_pipeline(ColumnTransformer([("scaled", StandardScaler(), slice(0, 2))]), LinearRegression()),
        HistGradientBoostingRegressor(categorical_features=[2]),
        HistGradientBoostingRegressor(monotonic_cst=[1, 0, 0]),
    ],
    ids=["list", "slice", "categories", "monotone"],
)
def test_positions_of_columns_would_shift(learner):
    with pytest.raises(ValueError, match="positions, which shift when one is dropped: use how='constant'"):
        leave_out(learner, np.abs(X).round())


def test_names_of_columns_do_not_shift():
    learner = HistGradientBoostingRegressor(categorical_features="from_dtype", max_iter=2, min_samples_leaf=5)
    assert leave_out(learner, CARS.astype({"kind": "category"})).features == ("size", "age", "kind")


# What makes no sense.


@pytest.mark.parametrize(
    ("options", "kind", "words"),
    [
        ({"learner": LinearRegression}, TypeError, "LinearRegression is a class"),
        ({"learner": "tree"}, TypeError, r"a function \(X, y\) -> model; got str"),
        ({"how": "mean"}, ValueError, "how must be 'drop' or 'constant'; got 'mean'"),
        ({"y": None}, ValueError, "y, the true values, is missing"),
        ({"X": X[:, :1]}, ValueError, "without 'x0' there is no column left; .*how='constant'"),
        ({"features": {"all": [0, 1, 2]}}, ValueError, "without 'all' there is no column left"),
        ({"features": [("x0", "x1")]}, ValueError, "left out together are a group: write"),
        ({"features": "x9"}, ValueError, "unknown feature 'x9'"),
        ({"cv": 1}, ValueError, "cv=1 gives one fold or none"),
        ({"n_jobs": 0}, ValueError, "n_jobs is None"),
        ({"loss": get_scorer("r2")}, ValueError, "a scorer gives one number for all rows"),
        ({"loss": "log_loss"}, ValueError, "fold 1 of 3.* gives values"),
        ({"sample_weight": -WEIGHT}, ValueError, "must not be negative"),
    ],
)
def test_what_makes_no_sense(options, kind, words):
    with pytest.raises(kind, match=words):
        leave_out(**options)


def test_one_column_alone_against_a_constant():
    """Least squares on a constant is the mean of the training rows."""
    found = leave_out(LinearRegression(), X[:, :1], how="constant", cv=KFold(3))
    train, test = next(iter(KFold(3).split(X)))
    own = LinearRegression().fit(X[train, :1], Y[train]).predict(X[test, :1])
    np.testing.assert_allclose(found.local[test, 0], (Y[test] - Y[train].mean()) ** 2 - (Y[test] - own) ** 2)


# Shown and kept.


def test_the_table_and_the_words():
    found = leave_out()
    frame, order = found.to_frame(), np.argsort(-found.importance)
    assert list(frame.columns) == ["feature", "importance", "std_error", "low", "high", "target", "p", "caution"]
    assert list(frame["feature"]) == [found.features[j] for j in order]
    lines = repr(found).splitlines()
    assert lines[0].startswith("LeftOut: increase in squared error without the feature, refitted; ")
    assert lines[0].endswith("with all features")
    assert "  (standard errors are for new test rows, with the models as fitted here)" in lines
    assert lines[0] in found._repr_html_()
    two = found.given([0, 1])
    assert "±" not in repr(two)
    assert two.to_frame()["p"].isna().all()


def test_a_saved_result_says_the_same(tmp_path):
    found = leave_out(sample_weight=WEIGHT, groups=GROUPS)
    found.save(tmp_path / "left.zip")
    loaded = ll.load(tmp_path / "left.zip")
    assert repr(loaded) == repr(found)
    np.testing.assert_array_equal(loaded.interval(), found.interval())
    np.testing.assert_array_equal(loaded.interval(target="learner"), found.interval(target="learner"))
    np.testing.assert_array_equal(loaded.given(X[:, 0] > 0).importance, found.given(X[:, 0] > 0).importance)


def test_the_picture_has_a_bar_and_a_line_a_feature():
    found = leave_out()
    ax = looked_at(found.plot())
    order = np.argsort(-found.importance)
    assert texts(ax.get_yticklabels()) == [found.features[j] for j in order]
    np.testing.assert_allclose([bar.get_width() for bar in ax.patches], found.importance[order])
    assert " ".join(ax.get_xlabel().split()) == "increase in squared error without the feature, refitted"
    assert "with all features" in caption(ax)
