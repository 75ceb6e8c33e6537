"""The verbs from end to end: defaults, "auto", random states, containers, and models of every library."""

import catboost
import lightgbm
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import xgboost
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVR, LinearSVC
from sklearn.tree import DecisionTreeClassifier

import brute
import losslens as ll
from losslens import losses
from losslens.uncertainty import standard_errors

RNG = np.random.default_rng(0)
N = 40
X = np.column_stack([RNG.normal(size=(N, 2)), RNG.integers(0, 3, size=N)])
Y = X[:, 0] + X[:, 1] * X[:, 2] + RNG.normal(size=N)
WORDS = np.array(["low", "mid", "top"])[X[:, 2].astype(int)]
FOREST = RandomForestRegressor(10, random_state=0).fit(X, Y)


def model(X):
    return X[:, 0] * X[:, 1] + X[:, 2]


def explain(model=model, X=X, y=Y, loss="squared_error", **options):
    return ll.feature_importance(model, X, y, **({"loss": loss, "random_state": 0} | options))


def agrees(found, predict, X, y, loss, names=("x0", "x1", "x2"), slack=1e-9):
    """Every feature against brute force over all pairs; XGBoost adds up in float32, which needs more slack."""
    for j, name in enumerate(names):
        cells = brute.cells(predict, X, y, [j], brute.LOSSES[loss])
        assert found[name].pfi == pytest.approx(cells.mean(), rel=1e-6, abs=slack)
        np.testing.assert_allclose(found[name].local, cells.mean(axis=1), rtol=1e-6, atol=slack)


# The default loss.


@pytest.mark.parametrize(
    ("fitted", "y", "loss"),
    [
        (LinearRegression(), Y, "squared_error"),
        (LogisticRegression(), WORDS, "log_loss"),
        (RandomForestClassifier(3, random_state=0), Y > 0, "log_loss"),
        (LinearSVC(), WORDS, "zero_one"),
    ],
    ids=["regressor", "words", "booleans", "labels alone"],
)
def test_the_kind_of_model_names_the_loss(fitted, y, loss):
    assert ll.feature_importance(fitted.fit(X, y), X, y).loss.name == loss


def test_a_bare_function_needs_a_loss():
    with pytest.raises(ValueError, match=r"loss must be named for model: .* try 'squared_error'"):
        ll.feature_importance(model, X, Y)


def test_a_regression_needs_y():
    with pytest.raises(ValueError, match="y, the true values, is missing"):
        ll.feature_importance(model, X, None, loss="squared_error")


# "auto".


def tall(n, columns=2):
    rng = np.random.default_rng(n)
    Z = rng.normal(size=(n, columns))
    Z[:, -1] = rng.integers(0, 2, size=n)
    return Z


def test_auto_is_exact_up_to_a_million_predictions():
    Z = tall(1000)
    found = ll.feature_importance(lambda Z: Z[:, 0], Z, Z[:, 0], loss="squared_error")
    assert found["x0"].n_predictions == 1_000_000  # a row's own value included: it is one of many
    assert found.exact
    assert found.design == "All()"


def test_auto_samples_beyond_a_million_and_decides_for_each_feature():
    Z = tall(1001)
    found = ll.feature_importance(
        lambda Z: Z[:, 0] + Z[:, 1], Z, Z[:, 0], loss="squared_error", features={"x0": [0], "x1": [1], "g": [0, 1]}
    )
    assert isinstance(found["x0"].design, ll.Systematic)
    assert isinstance(found["x1"].design, ll.All)  # two values: 1,001 predictions
    assert isinstance(found["g"].design, ll.Latin)
    assert not found.exact
    assert found["x1"].exact


def noise_share(feature):
    """Monte-Carlo variance over the sampling variance; the squared error of Latin shifts holds both."""
    noise = standard_errors.monte_carlo_variance(feature.means, feature.layout, feature.sample, feature.at)
    return noise / (feature.std_error**2 - (noise if isinstance(feature.design, ll.Latin) else 0))


@pytest.mark.parametrize("features", ["x0", {"g": [0, 1]}], ids=str)
def test_auto_doubles_the_donors_until_their_noise_no_longer_counts(features):
    """Nearly pure interaction: eight donors leave noise of more than a tenth of the sampling variance."""
    Z = tall(1100, columns=3)

    def wild(Z):
        return np.sin(9 * Z[:, 0] * Z[:, 2]) + np.sin(9 * (Z[:, 0] + Z[:, 1]) * (Z[:, 2] + 1))

    rng = np.random.default_rng(1)
    y = wild(Z) + rng.normal(size=1100)
    found = next(
        iter(ll.feature_importance(wild, Z, y, loss="squared_error", features=features, random_state=0).values())
    )
    design = found.design
    first = ll.feature_importance(
        wild, Z, y, loss="squared_error", features=features, random_state=0, donors=type(design)(8)
    )
    assert noise_share(next(iter(first.values()))) > 0.1
    assert np.log2(design.m / 8) % 1 == 0
    assert design.m > 8
    assert noise_share(found) <= 0.1
    assert not found.exact


def test_auto_stops_at_eight_for_a_feature_that_is_not_used():
    Z = tall(1100, columns=3)
    found = ll.feature_importance(lambda Z: Z[:, 1], Z, Z[:, 1], loss="squared_error", features="x0")["x0"]
    assert found.design == ll.Systematic(8)
    assert found.pfi == 0


def test_auto_is_a_rule_of_counts():
    """The same data give the same answer: to the last bit, seed by seed."""
    Z = tall(1100)
    one, two = (
        ll.feature_importance(lambda Z: np.sin(3 * Z[:, 0]), Z, Z[:, 0], loss="squared_error", random_state=5)["x0"]
        for _ in range(2)
    )
    assert one.pfi == two.pfi
    assert one.design == two.design


def test_the_effect_of_a_dear_feature_has_a_grid_of_quantiles():
    Z = tall(1100)
    found = ll.feature_effect(lambda Z: Z[:, 0], Z)
    assert isinstance(found["x0"].design, ll.Grid)
    assert found["x0"].design.at == "quantiles"
    assert isinstance(found["x1"].design, ll.All)
    assert np.all(np.diff(found["x0"].pd) > 0)


# Nothing else in the call changes a feature's numbers.


@pytest.mark.parametrize(
    "design", [ll.All(), ll.Latin(5), ll.Systematic(5), ll.Permutations(5), ll.Grid(5), ll.Derangements(5)], ids=str
)
def test_a_feature_does_not_depend_on_which_others_are_asked_for(design):
    whole = explain(FOREST, donors=design)
    for features in (["x1"], ["x2", "x1"], ["x1", "x0", ("x0", "x1")] if design.common else ["x1", "x0"]):
        part = explain(FOREST, donors=design, features=features)["x1"]
        assert part.pfi == whole["x1"].pfi
        np.testing.assert_array_equal(part.local, whole["x1"].local)
        np.testing.assert_array_equal(part.pi, whole["x1"].pi)


@pytest.mark.parametrize("design", [ll.All(), ll.Latin(5), ll.Systematic(5), ll.Permutations(5), ll.Grid(5)], ids=str)
def test_a_feature_does_not_depend_on_the_order_of_columns_or_the_container(design):
    frame = pd.DataFrame(X, columns=["x0", "x1", "x2"])

    def named(table):
        return np.asarray(table["x0"]) * np.asarray(table["x1"]) + np.asarray(table["x2"])

    expected = explain(donors=design)
    tables = [
        frame[["x2", "x0", "x1"]],
        frame.set_index(pd.Index(RNG.permutation(N) + 100)),
        pl.from_pandas(frame),
        pa.Table.from_pandas(frame[["x1", "x2", "x0"]]),
    ]
    for table in tables:
        found = explain(named, table, donors=design)
        for name in expected:
            assert found[name].pfi == pytest.approx(expected[name].pfi, rel=1e-12)
            np.testing.assert_allclose(found[name].ici, expected[name].ici, atol=1e-12)


def test_column_major_arrays_and_other_dtypes_are_the_same_table():
    expected = explain()
    for table in (np.asfortranarray(X), X[::-1][::-1], X.tolist()):
        assert explain(X=table)["x0"].pfi == pytest.approx(expected["x0"].pfi)
    whole = np.round(X * 4)
    assert explain(X=whole.astype(np.int64))["x1"].pfi == pytest.approx(explain(X=whole)["x1"].pfi)


@pytest.mark.parametrize("n_jobs", [1, 2, -1])
def test_the_answer_does_not_depend_on_n_jobs(n_jobs):
    expected, found = explain(FOREST, memory="600 kB"), explain(FOREST, memory="600 kB", n_jobs=n_jobs)
    for name in expected:
        assert found[name].pfi == expected[name].pfi
        np.testing.assert_array_equal(found[name].ici, expected[name].ici)


# Random states.


def donors_of(random_state):
    return brute.donors(explain(donors=ll.Latin(4), features="x0", random_state=random_state)["x0"])


def test_a_seed_gives_the_same_donors_and_another_seed_others():
    np.testing.assert_array_equal(donors_of(3), donors_of(3))
    np.testing.assert_array_equal(donors_of(3), donors_of(np.int64(3)))
    assert not np.array_equal(donors_of(3), donors_of(4))
    assert not np.array_equal(donors_of(None), donors_of(None))


@pytest.mark.parametrize("make", [np.random.default_rng, np.random.RandomState])
def test_generators_move_on(make):
    np.testing.assert_array_equal(donors_of(make(3)), donors_of(make(3)))
    generator = make(3)
    assert not np.array_equal(donors_of(generator), donors_of(generator))


@pytest.mark.parametrize("bad", [-1, 1.5, "seed", True, [1]])
def test_other_random_states_are_refused(bad):
    with pytest.raises(ValueError, match="random_state is None, a whole number from 0 on, or a NumPy generator; got"):
        explain(random_state=bad)


def test_features_with_different_values_draw_different_donors():
    """One seed for all columns would make their errors move together."""
    found = explain(donors=ll.Latin(4))
    assert not np.array_equal(brute.donors(found["x0"]), brute.donors(found["x1"]))


def test_the_global_random_state_is_not_touched():
    before = np.random.get_state()[1].copy()  # noqa: NPY002 - the global state is what this is about
    for design in (ll.Latin(3), ll.Permutations(3), ll.Systematic(3), ll.Grid(3), ll.Derangements(3)):
        explain(donors=design, random_state=None)
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002


# y and classes.


@pytest.mark.parametrize(
    "y",
    [Y.tolist(), pd.Series(Y, index=np.arange(N) + 7), pl.Series(Y), Y[:, None], pd.DataFrame({"y": Y}), pa.array(Y)],
    ids=["list", "pandas", "polars", "column", "frame", "pyarrow"],
)
def test_y_comes_in_any_container(y):
    assert explain(y=y)["x0"].pfi == explain()["x0"].pfi


def test_a_frame_whose_index_is_not_that_of_y_pairs_rows_by_position():
    frame = pd.DataFrame(X, columns=["x0", "x1", "x2"], index=np.arange(N)[::-1])
    for index in (frame.index, np.arange(N) + 1, [f"id{k}" for k in range(N)]):
        found = explain(lambda t: model(t.to_numpy()), frame, pd.Series(Y, index=index))
        assert found["x0"].pfi == explain()["x0"].pfi


@pytest.mark.parametrize("loss", ["log_loss", "brier", "zero_one", "hinge"])
@pytest.mark.parametrize(
    "y", [X[:, 2].astype(int), WORDS, (Y > 0), np.where(Y > 0, "yes", "no"), (Y > 0) * 5 + 2], ids=str
)
def test_classifiers_are_brute_force_whatever_the_labels(loss, y):
    fitted = LogisticRegression(C=10, max_iter=1000).fit(X, y)
    codes = np.searchsorted(fitted.classes_, y)
    ask = {
        "zero_one": lambda X: np.searchsorted(fitted.classes_, fitted.predict(X)),
        "hinge": fitted.decision_function,
    }.get(loss, fitted.predict_proba)
    agrees(explain(fitted, y=y, loss=loss), ask, X, codes, loss)


def test_the_order_of_classes_is_the_models():
    class Backwards(LogisticRegression):
        def fit(self, X, y):
            super().fit(X, y)
            self.flipped = True
            return self

        @property
        def classes_(self):
            return self.__dict__["classes_"][::-1] if getattr(self, "flipped", False) else self.__dict__["classes_"]

        @classes_.setter
        def classes_(self, value):
            self.__dict__["classes_"] = value

        def predict_proba(self, X):
            self.flipped = False
            found = super().predict_proba(X)[:, ::-1]
            self.flipped = True
            return found

    straight = LogisticRegression().fit(X, WORDS)
    expected, found = (
        explain(straight, y=WORDS, loss="log_loss"),
        explain(Backwards().fit(X, WORDS), y=WORDS, loss="log_loss"),
    )
    for name in expected:
        assert found[name].pfi == pytest.approx(expected[name].pfi)


def test_a_function_of_probabilities_takes_the_classes_of_y():
    fitted = LogisticRegression().fit(X, WORDS)
    found = explain(fitted.predict_proba, y=WORDS, loss="log_loss")
    assert found["x1"].pfi == pytest.approx(explain(fitted, y=WORDS, loss="log_loss")["x1"].pfi)
    one_column = LogisticRegression().fit(X, Y > 0)
    found = explain(lambda X: one_column.predict_proba(X)[:, 1], y=(Y > 0).astype(int), loss="brier")
    assert found["x1"].pfi == pytest.approx(explain(one_column, y=Y > 0, loss="brier")["x1"].pfi)


def test_the_share_of_clipped_cells_is_stated():
    """A small forest says probability 0 for many true classes: these log losses are a bound, not a measurement."""
    forest = RandomForestClassifier(5, random_state=0).fit(X[:20], WORDS[:20])
    found = explain(forest, y=WORDS, loss="log_loss")
    codes = np.searchsorted(forest.classes_, WORDS)
    for j, name in enumerate(found):
        p = brute.predictions(forest.predict_proba, X, [j])
        expected = np.mean(np.take_along_axis(p, codes[:, None, None], axis=2) == 0)
        assert found[name].clipped == pytest.approx(expected)
    worst = max(found.values(), key=lambda feature: feature.clipped)
    assert worst.clipped > 0
    assert f"up to {worst.clipped:.1%} of the cells ({worst.name}) give the true class probability 0" in repr(found)
    assert explain(forest, y=WORDS, loss="brier")["x0"].clipped == 0


def test_a_few_clipped_cells_are_not_told_as_none():
    """Class 1 is impossible at x0 = 0: of 10,000 cells that is wrong where row 99 has the value of row 0, alone."""
    table = np.arange(100.0)[:, None]
    found = ll.feature_importance(
        lambda X: np.where(X[:, 0] == 0, 0.0, 0.5), table, (np.arange(100) == 99).astype(int), loss="log_loss"
    )
    assert found["x0"].clipped == pytest.approx(1e-4)
    assert "under 0.1% of the cells (x0) give the true class probability 0" in repr(found)


# Models.


@pytest.mark.parametrize("kind", ["xgboost", "lightgbm", "catboost"])
def test_boosted_regressions_are_brute_force(kind):
    options = {"n_estimators": 8, "max_depth": 3}
    fitted = {
        "xgboost": lambda: xgboost.XGBRegressor(**options, n_jobs=1).fit(X, Y),
        "lightgbm": lambda: lightgbm.LGBMRegressor(**options, verbose=-1, n_jobs=1, min_child_samples=3).fit(X, Y),
        "catboost": lambda: catboost.CatBoostRegressor(
            **options, verbose=False, thread_count=1, allow_writing_files=False
        ).fit(X, Y),
    }[kind]()
    slack = 1e-5 if kind == "xgboost" else 1e-9
    agrees(explain(fitted), fitted.predict, X, Y, "squared_error", slack=slack)


@pytest.mark.parametrize("kind", ["xgboost", "lightgbm"])
@pytest.mark.parametrize("classes", [0, 2, 3])
def test_boosters_know_their_objective(kind, classes):
    y = {0: Y, 2: (Y > 0).astype(int), 3: X[:, 2].astype(int)}[classes]
    if kind == "xgboost":
        objective = {0: "reg:squarederror", 2: "binary:logistic", 3: "multi:softprob"}[classes]
        options = {"objective": objective, "nthread": 1} | ({"num_class": 3} if classes == 3 else {})
        booster = xgboost.train(options, xgboost.DMatrix(X, y), 6)

        def ask(X):
            return booster.predict(xgboost.DMatrix(X)).astype(float)
    else:
        objective = {0: "regression", 2: "binary", 3: "multiclass"}[classes]
        options = {"objective": objective, "verbose": -1, "min_data_in_leaf": 3, "num_threads": 1}
        booster = lightgbm.train(options | ({"num_class": 3} if classes == 3 else {}), lightgbm.Dataset(X, y), 6)
        ask = booster.predict

    def proba(X):
        p = ask(X)
        return np.column_stack([1 - p, p]) if p.ndim == 1 else p

    found = ll.feature_importance(booster, X, y)
    assert found.loss.name == ("log_loss" if classes else "squared_error")
    agrees(found, proba if classes else ask, X, y, found.loss.name, slack=1e-5 if kind == "xgboost" else 1e-9)


def test_catboost_reads_words_and_categories():
    table = pd.DataFrame({"x0": X[:, 0], "x1": X[:, 1], "x2": WORDS})
    options = {"iterations": 8, "depth": 3, "verbose": False, "thread_count": 1, "allow_writing_files": False}
    fitted = catboost.CatBoostClassifier(**options, cat_features=["x2"]).fit(table, Y > 0)
    found = ll.feature_importance(fitted, table, Y > 0)
    for name in table:
        proba = np.stack([fitted.predict_proba(table.assign(**{name: table[name].iloc[k]})) for k in range(N)], axis=1)
        truth = (Y > 0).astype(int)
        losses = -np.log(np.take_along_axis(proba, truth[:, None, None], axis=2)[:, :, 0])
        base = -np.log(fitted.predict_proba(table)[np.arange(N), truth])
        assert found[name].pfi == pytest.approx((losses - base[:, None]).mean())


def test_one_hot_columns_of_a_pipeline_belong_to_their_original_column():
    table = pd.DataFrame({"a": X[:, 0], "word": WORDS, "b": X[:, 1]})
    pipeline = make_pipeline(
        make_column_transformer((OneHotEncoder(), ["word"]), (StandardScaler(), ["a", "b"])), LinearRegression()
    ).fit(table, Y)
    found = ll.feature_importance(pipeline, table, Y)
    assert list(found) == ["a", "word", "b"]
    assert list(found["word"].grid) == ["low", "mid", "top"]
    losses = [np.mean((Y - pipeline.predict(table.assign(word=word))) ** 2) for word in WORDS]
    assert found["word"].pfi == pytest.approx(np.mean(losses) - np.mean((Y - pipeline.predict(table)) ** 2))
    assert found.engine == "additive"
    assert found["word"].n_predictions == 0


def test_missing_values_reach_the_model():
    table = X.copy()
    table[::5, 0] = np.nan
    boosting = HistGradientBoostingRegressor(max_iter=5, min_samples_leaf=3).fit(table, Y)
    agrees(explain(boosting, table), boosting.predict, table, Y, "squared_error")


def test_a_model_that_writes_into_its_table_gets_the_right_answer():
    def writes(X):
        found = model(X)
        X[:] = 0
        return found

    mine = X.copy()
    found = explain(writes, mine)
    np.testing.assert_array_equal(mine, X)
    for name in found:
        np.testing.assert_array_equal(found[name].ici, explain()[name].ici)


@pytest.mark.parametrize("kind", ["numpy", "pandas", "polars", "pyarrow"])
def test_what_the_user_passed_is_unchanged(kind):
    frame = pd.DataFrame(X, columns=["x0", "x1", "x2"])
    table = {
        "numpy": X.copy,
        "pandas": frame.copy,
        "polars": lambda: pl.from_pandas(frame),
        "pyarrow": lambda: pa.Table.from_pandas(frame),
    }[kind]()
    y, weight, groups = Y.copy(), np.arange(1.0, N + 1), np.arange(N) // 2
    for design in (ll.All(), ll.Latin(4), ll.Grid(values=[0.0, 1.0])):
        explain(lambda t: np.asarray(t)[:, 0] * 2.0, table, y, donors=design, sample_weight=weight, groups=groups)
    after = pd.DataFrame(np.asarray(table), columns=["x0", "x1", "x2"]) if kind != "pyarrow" else table.to_pandas()
    pd.testing.assert_frame_equal(after, frame)
    np.testing.assert_array_equal(y, Y)
    np.testing.assert_array_equal(weight, np.arange(1.0, N + 1))
    np.testing.assert_array_equal(groups, np.arange(N) // 2)


# What features are.


def test_columns_are_named_by_position_label_or_group():
    found = explain(features=[2, "x0", np.int64(1)])
    assert list(found) == ["x2", "x0", "x1"]
    grouped = explain(features={"all of it": ["x0", 1, 2]})["all of it"]
    cells = brute.cells(model, X, Y, [0, 1, 2], brute.LOSSES["squared_error"])
    assert grouped.pfi == pytest.approx(cells.mean())
    assert grouped.columns == ("x0", "x1", "x2")
    one = explain(features={"alone": ["x1"]})["alone"]
    assert one.pfi == explain()["x1"].pfi


def test_frames_with_any_labels():
    frame = pd.DataFrame(X, columns=[10, "two words", ("t", 1)])
    found = explain(lambda t: model(t.to_numpy()), frame)
    assert list(found) == ["10", "two words", "('t', 1)"]
    assert found["10"].pfi == pytest.approx(explain()["x0"].pfi)
    assert list(explain(lambda t: model(t.to_numpy()), frame, features=[10, ("t", 1)])) == ["10", "('t', 1)"]


# Findings of a reader with fresh eyes.


def test_curves_without_donors_average_over_all_rows_in_groups_too():
    found = ll.feature_importance(
        lambda Z: Z[:, 0] * Z[:, 1], X, Y, loss="squared_error", features=("x0", "x1"), groups=np.arange(len(X)) % 5
    )
    plain = ll.feature_importance(lambda Z: Z[:, 0] * Z[:, 1], X, Y, loss="squared_error", features=("x0", "x1"))
    np.testing.assert_allclose(found["x0", "x1"].pi, plain["x0", "x1"].pi)
    assert not found["x0", "x1"].exact


def test_auto_does_without_a_standard_error_where_none_is_possible():
    Z = tall(1500)
    found = ll.feature_importance(
        lambda Z: Z[:, 0], Z, Z[:, 0], loss="squared_error", features=["x0"], groups=np.arange(1500) % 2
    )["x0"]
    assert found.design == ll.Latin(32)
    with pytest.raises(ValueError, match="at least 3 groups"):
        found.std_error  # noqa: B018


def test_auto_goes_on_where_a_draw_met_too_few_rows_that_count():
    Z = tall(1500)
    weight = np.zeros(1500)
    weight[:40] = 1
    found = ll.feature_importance(
        lambda Z: Z[:, 0], Z, Z[:, 0], loss="squared_error", features=["x0"], sample_weight=weight, random_state=0
    )
    exact = ll.feature_importance(lambda Z: Z[:, 0], Z[:40], Z[:40, 0], loss="squared_error", features=["x0"])
    assert found["x0"].pfi == pytest.approx(exact["x0"].pfi, abs=exact["x0"].std_error)


def test_groups_beside_single_columns():
    found = ll.feature_importance(lambda Z: Z[:, 0], X, Y, loss="squared_error", features=["x0", {"g": ["x1", "x2"]}])
    assert list(found) == ["x0", "g"]


def test_the_effect_of_a_classifier_without_probabilities_is_its_score():
    model = LinearSVC().fit(X, np.median(Y) < Y)
    effect = ll.feature_effect(model, X, features="x0")["x0"]
    Z = X.copy()
    Z[:, 0] = effect.grid[0]
    assert effect.pd[0] == pytest.approx(model.decision_function(Z).mean())
    with pytest.raises(ValueError, match="scores of two classes are about the second"):
        ll.feature_effect(model, X, target=False)


def test_labels_are_counted_when_streamed_too():
    Z = np.random.default_rng(0).normal(size=(300, 2))
    labels = np.digitize(Z[:, 0], [-0.5, 0.5])
    model = DecisionTreeClassifier(max_depth=3).fit(Z, labels)
    arguments = {"loss": "zero_one", "features": "x0", "donors": "all"}
    whole = ll.feature_importance(model, Z, labels, **arguments)["x0"]
    part = ll.feature_importance(model, Z, labels, **arguments, memory="200 kB")["x0"]
    assert not part.complete
    for label in range(3):
        expected = [(model.predict(np.column_stack([np.full(300, v), Z[:, 1]])) == label).mean() for v in whole.grid]
        np.testing.assert_allclose(whole.effect_of(label).pd, expected)
        np.testing.assert_allclose(part.effect_of(label).pd, expected)


@pytest.mark.parametrize("donors", ["all", ll.Grid(4), ll.Grid(values=[0.0, 1.0])])
@pytest.mark.parametrize("fitted", [model, FOREST, LinearRegression().fit(X, Y), SVR().fit(X, Y)])
def test_the_curve_of_one_row_with_a_weight_is_its_own(fitted, donors):
    """PD is the weighted mean of the rows' curves: here of one. Importances need a second row, as a donor."""
    weight = np.zeros(N)
    weight[7] = 3
    one = ll.feature_effect(fitted, X, donors=donors, sample_weight=weight, random_state=0)["x0"]
    rows = np.repeat(X[[7]], len(one.grid), axis=0)
    rows[:, 0] = one.grid
    np.testing.assert_allclose(one.pd, getattr(fitted, "predict", fitted)(rows), rtol=1e-9, atol=1e-12)
    with pytest.raises(ValueError, match="sample_weight must be above zero for at least two rows"):
        explain(fitted, sample_weight=weight)


@pytest.mark.parametrize("unit", [1e-300, 1e300])
@pytest.mark.parametrize("fitted", [model, FOREST, LinearRegression().fit(X, Y)])
def test_the_unit_of_the_weights_does_not_matter(fitted, unit):
    weight = RNG.uniform(1, 3, N)
    found, expected = explain(fitted, sample_weight=weight * unit), explain(fitted, sample_weight=weight)
    for name in ("x0", "x1", "x2"):
        np.testing.assert_allclose(found[name].pfi, expected[name].pfi, rtol=1e-9)
        np.testing.assert_allclose(found[name].interval(), expected[name].interval(), rtol=1e-9)
    shares = [
        ll.shapley_importance(fitted, X, Y, loss="squared_error", sample_weight=w) for w in (weight, weight * unit)
    ]
    np.testing.assert_allclose(shares[1].sfimp, shares[0].sfimp, rtol=1e-9, atol=1e-12)


def test_numbers_whose_squares_overflow_are_refused():
    """A prediction or y near 1e200: its squared error is infinite. Up to 1e45 all is well."""
    for verb in (ll.feature_importance, ll.shapley_importance):
        with pytest.raises(ValueError, match=r"the model returned .*e\+200; beyond 1e\+45 .* overflow: give y and"):
            verb(lambda X: 1e200 * X[:, 0], X, Y, loss="squared_error")
        with pytest.raises(ValueError, match=r"y is .*e\+200 in row \d+; beyond 1e\+45 .* overflow: give y and"):
            verb(model, X, 1e200 * Y, loss="squared_error")
        with pytest.raises(ValueError, match=r"the loss 'huge' returned .*e\+20. for row \d+; .* of at most 1e\+90"):
            verb(model, X, Y, loss=losses.pointwise(lambda y, p: 1e200 * (y - p) ** 2, reads="values", name="huge"))
    with pytest.raises(ValueError, match=r"the model returned .*e\+200"):
        ll.feature_effect(lambda X: 1e200 * X[:, 0], X)
    large, usual = (explain(lambda X, u=u: u * model(X), X, u * Y)["x0"] for u in (1e44, 1.0))
    np.testing.assert_allclose(large.pfi, 1e88 * usual.pfi)
    np.testing.assert_allclose(large.interval(), 1e88 * np.array(usual.interval()))


def test_a_y_whose_squares_underflow_is_refused():
    """Standard errors of 1e-160 would be 0. A y that is constant, or varies by more than 1e-75, is as usual."""
    for verb in (ll.feature_importance, ll.shapley_importance):
        with pytest.raises(
            ValueError, match=r"y varies by .*e-8\d; below 1e-75 .* underflow: give y and .* smaller unit"
        ):
            verb(lambda X: 1e-80 * model(X), X, 1e-80 * Y, loss="squared_error")
    with pytest.raises(ValueError, match=r"column 'y1' of y varies by .*e-8\d; below 1e-75"):
        ll.feature_importance(
            lambda X: np.column_stack([X[:, 0]] * 2), X, np.column_stack([Y, 1e-80 * Y]), loss="squared_error"
        )
    small, usual = (explain(lambda X, u=u: u * model(X), X, u * Y)["x0"] for u in (1e-73, 1.0))
    np.testing.assert_allclose(small.pfi, 1e-146 * usual.pfi)
    np.testing.assert_allclose(small.interval(), 1e-146 * np.array(usual.interval()))
    for constant in (0.0, 1e-80, 5.0):
        assert np.isfinite(explain(model, X, np.full(len(X), constant))["x0"].std_error)


def test_one_row_has_no_standard_error():
    one = ll.feature_importance(lambda Z: Z[:, 0], X, Y, loss="squared_error", features="x0")["x0"].given([3])
    with pytest.raises(ValueError, match="at least 3 rows with weight; there are 1"):
        one.std_error  # noqa: B018
