"""Shapley values of predictions: every route against all coalitions of all donors, rows and donors of every kind."""

from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pytest
from catboost import CatBoostClassifier
from lightgbm import LGBMClassifier
from matplotlib.text import Text
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import (
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LinearRegression, LogisticRegression, PoissonRegressor, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeRegressor
from xgboost import XGBClassifier

import coalitions
import losslens as ll
from losslens.shapley import effects

RNG = np.random.default_rng(0)
N = 25
X = np.column_stack([RNG.normal(size=(N, 2)), RNG.integers(0, 3, N), RNG.normal(size=N)])
Y = X[:, 0] * (1 + X[:, 1]) + X[:, 2] + 0.3 * RNG.normal(size=N)
WEIGHT = RNG.integers(0, 4, N).astype(float)
ROWS = [0, 7, 8, 24]
WORDS = np.array(["low", "mid", "top"])[np.digitize(Y, [0.5, 1.8])]
HALVES = np.where(Y > 1, "yes", "no")
SETTINGS = {"random_state": 0, "max_leaf_nodes": 6}


def model(X):
    return X[:, 0] * (1 + X[:, 1]) + np.sin(X[:, 2])


def second(native):
    return lambda X: native.predict_proba(X)[:, 1]


REGRESSORS = {
    "linear": (LinearRegression(), "additive", "closed form"),
    "pipeline": (make_pipeline(StandardScaler(), Ridge()), "additive", "closed form"),
    "histogram": (HistGradientBoostingRegressor(max_iter=8, min_samples_leaf=3, **SETTINGS), "trees", "closed form"),
    "forest": (RandomForestRegressor(5, **SETTINGS), "trees", "closed form"),
    "tree": (DecisionTreeRegressor(**SETTINGS), "trees", "closed form"),
    "positive": (
        HistGradientBoostingRegressor(loss="poisson", max_iter=8, min_samples_leaf=3, **SETTINGS),
        "trees",
        "all coalitions",
    ),
}
CLASSIFIERS = {
    "logistic": LogisticRegression(),
    "forest": RandomForestClassifier(5, **SETTINGS),
    "histogram": HistGradientBoostingClassifier(max_iter=6, min_samples_leaf=3, **SETTINGS),
    "boosted": GradientBoostingClassifier(n_estimators=4, max_depth=2),
}


def agrees(found, expected, prediction, slack=1e-9):
    assert found.exact
    assert (found.std_error == 0).all()
    np.testing.assert_allclose(found.local, expected, atol=slack)
    np.testing.assert_allclose(found.prediction, prediction, atol=slack)
    np.testing.assert_allclose(found.local.sum(axis=1), found.prediction - found.base, atol=max(slack, 1e-9))
    np.testing.assert_allclose(found.importance, np.abs(expected).mean(axis=0), atol=slack)


@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["alike", "weights"])
@pytest.mark.parametrize("name", REGRESSORS)
def test_effects_of_regressors(name, weight):
    native, engine, method = REGRESSORS[name]
    native.fit(X, np.exp(Y / 3) if name == "positive" else Y)
    found = ll.shapley_effect(native, X, ROWS, sample_weight=weight)
    assert (found.engine, found.method) == (engine, method)
    agrees(found, coalitions.effects(native.predict, X, ROWS, weight=weight), native.predict(X[ROWS]))
    np.testing.assert_allclose(found.base, np.average(native.predict(X), weights=weight))


@pytest.mark.parametrize("target", [None, "no", "yes"])
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_effects_on_one_of_two_chances(name, target):
    native = CLASSIFIERS[name].fit(X, HALVES)
    column = 0 if target == "no" else 1

    def chance(X):
        return native.predict_proba(X)[:, column]

    found = ll.shapley_effect(native, X, ROWS, target=target)
    assert found.target == (target or "yes")
    assert f"probability of {found.target}" in repr(found)
    agrees(found, coalitions.effects(chance, X, ROWS), chance(X[ROWS]))


@pytest.mark.parametrize("target", ["low", "top"])
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_effects_on_one_of_three_chances(name, target):
    native = CLASSIFIERS[name].fit(X, WORDS)

    def chance(X):
        return native.predict_proba(X)[:, list(native.classes_).index(target)]

    found = ll.shapley_effect(native, X, ROWS, target=target, sample_weight=WEIGHT)
    agrees(found, coalitions.effects(chance, X, ROWS, weight=WEIGHT), chance(X[ROWS]))


@pytest.mark.parametrize("native", [SVC(), LinearSVC()], ids=["kernel", "linear"])
def test_effects_on_scores(native):
    native.fit(X, HALVES)
    found = ll.shapley_effect(native, X, ROWS)
    agrees(found, coalitions.effects(native.decision_function, X, ROWS), native.decision_function(X[ROWS]))


@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["alike", "weights"])
@pytest.mark.parametrize("players", [None, [[0, 2], [1], [3]], [[2], [0]]], ids=["columns", "groups", "some"])
@pytest.mark.parametrize("name", ["function", "linear", "forest", "boosted"])
def test_effects_of_players(name, players, weight):
    """Columns of no player keep the row's own value: the base is then each row's own."""
    native, predict = model, model
    if name in REGRESSORS:
        native = REGRESSORS[name][0].fit(X, Y)
        predict = native.predict
    elif name == "boosted":
        native = CLASSIFIERS[name].fit(X, HALVES)
        predict = second(native)
    named = None if players is None else {f"g{k}": columns for k, columns in enumerate(players)}
    found = ll.shapley_effect(native, X, ROWS, features=named, sample_weight=weight)
    agrees(found, coalitions.effects(predict, X, ROWS, players, weight), predict(X[ROWS]))


@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["alike", "weights"])
@pytest.mark.parametrize("method", ["exact", "walk"])
@pytest.mark.parametrize("donors", ["all", ll.Grid(1), ll.Grid(3)], ids=str)
def test_a_column_that_the_model_ignores_adds_exactly_nothing(method, donors, weight):
    weight = weight if donors == "all" or weight is None else weight + 1  # or all that were drawn may count nothing
    found = ll.shapley_effect(model, X, ROWS, method=method, donors=donors, sample_weight=weight, random_state=0)
    assert (found.local[:, 3] == 0.0).all()
    assert (found.std_error[:, 3] == 0.0).all()


def test_donors_that_count_nothing_are_never_drawn():
    weight = np.zeros(N)
    with pytest.raises(ValueError, match="sample_weight must be above zero for at least one row"):
        ll.shapley_effect(model, X, ROWS, donors=ll.Grid(1), sample_weight=weight, random_state=0)
    weight[5] = 1.0
    found = ll.shapley_effect(model, X, ROWS, donors=ll.Grid(1), sample_weight=weight, random_state=0)
    np.testing.assert_allclose(found.base, model(X)[5])


# Walks.


@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["alike", "weights"])
@pytest.mark.parametrize("players", [None, [[0, 2], [1], [3]], [[1], [0]]], ids=["columns", "groups", "some"])
def test_walks_come_close(players, weight):
    named = None if players is None else {f"g{k}": columns for k, columns in enumerate(players)}
    found = ll.shapley_effect(model, X, ROWS, features=named, method="walk", sample_weight=weight, random_state=0)
    expected = coalitions.effects(model, X, ROWS, players, weight)
    assert not found.exact
    assert "walks a row" in found.method
    assert (np.abs(found.local - expected) <= 5 * found.std_error + 1e-9).all()
    np.testing.assert_allclose(found.local.sum(axis=1), found.prediction - found.base, atol=1e-9)
    low, high = found.interval(0.99999)
    assert ((low <= expected + 1e-9) & (expected <= high + 1e-9)).all()


def test_walks_are_right_on_average():
    found = [ll.shapley_effect(model, X, ROWS, method="walk", budget=2000, random_state=s) for s in range(60)]
    local = np.array([one.local for one in found])
    spread = local.std(axis=0, ddof=1)
    expected = coalitions.effects(model, X, ROWS)
    assert (np.abs(local.mean(axis=0) - expected) <= 5 * spread / np.sqrt(60) + 1e-9).all()
    stated = np.mean([one.std_error**2 for one in found], axis=0)
    assert (0.4 * spread**2 <= stated).all()
    assert (stated <= 2.5 * spread**2 + 1e-12).all()
    assert all(one.n_predictions <= 2000 for one in found)


def test_walks_of_classes():
    native = CLASSIFIERS["logistic"].fit(X, WORDS)
    found = ll.shapley_effect(native, X, ROWS, target="mid", method="walk", random_state=0)
    expected = coalitions.effects(lambda X: native.predict_proba(X)[:, 1], X, ROWS)
    assert (np.abs(found.local - expected) <= 5 * found.std_error + 1e-9).all()


def test_a_result_says_whether_it_is_exact():
    exact, walked = (ll.shapley_effect(model, X, ROWS, method=how, random_state=0) for how in ("exact", "walk"))
    assert exact.notes[0].startswith("exact (all coalitions); ")
    assert walked.notes[0].startswith("sampled (")
    assert walked.notes[0].endswith(f"; the model predicted {walked.n_predictions:,} rows")


def test_the_same_seed_walks_the_same_way():
    one, again, other = (ll.shapley_effect(model, X, 3, method="walk", random_state=s, n_jobs=1) for s in (0, 0, 1))
    np.testing.assert_array_equal(one.local, again.local)
    assert not np.array_equal(one.local, other.local)


def test_walks_stopped_by_hand_are_an_estimate():
    calls = []

    def impatient(X):
        calls.append(len(X))
        if len(calls) > stop:
            raise KeyboardInterrupt
        return model(X)

    stop = 3
    found = ll.shapley_effect(impatient, X, ROWS, method="walk", random_state=0)
    assert not found.complete
    assert "interrupted" in repr(found)
    expected = coalitions.effects(model, X, ROWS)
    assert (np.abs(found.local - expected) <= 6 * found.std_error + 1e-9).all()
    calls.clear()
    stop = 1
    with pytest.raises(KeyboardInterrupt):
        ll.shapley_effect(impatient, X, ROWS, method="walk", random_state=0)


# Rows.


def test_rows_are_positions_masks_numbers_slices_or_tables():
    whole = ll.shapley_effect(model, X, np.arange(N))
    mask = np.isin(np.arange(N), ROWS)
    for rows in (
        ROWS,
        np.array(ROWS),
        mask,
        mask.tolist(),
        pd.Series(ROWS),
        X[ROWS],
        X[ROWS].tolist(),
        [-25, 7, 8, -1],
    ):
        np.testing.assert_allclose(ll.shapley_effect(model, X, rows).local, whole.local[ROWS], atol=1e-12)
    np.testing.assert_allclose(ll.shapley_effect(model, X, 7).local, whole.local[[7]], atol=1e-12)
    np.testing.assert_allclose(ll.shapley_effect(model, X, np.int64(7)).local, whole.local[[7]], atol=1e-12)
    np.testing.assert_allclose(ll.shapley_effect(model, X, X[7]).local, whole.local[[7]], atol=1e-12)
    np.testing.assert_allclose(ll.shapley_effect(model, X, slice(2, 9, 3)).local, whole.local[2:9:3], atol=1e-12)


def test_rows_come_back_in_the_order_they_were_asked_for():
    whole = ll.shapley_effect(model, X, np.arange(N))
    np.testing.assert_allclose(ll.shapley_effect(model, X, [8, 3]).local, whole.local[[8, 3]], atol=1e-12)


FRAME = pd.DataFrame(
    {"x": X[:, 0], "word": pd.Categorical(np.array(["c", "a", "b"])[X[:, 2].astype(int)]), "z": X[:, 1]}
)
FRAME.loc[3, "z"] = np.nan


def reads_words(table):
    plain = {name: list(table[name]) for name in table.columns}
    worth = np.array([{"a": 1.0, "b": -1.0, "c": 2.0}[word] for word in plain["word"]])
    z = np.array([0.5 if v is None or v != v else v for v in plain["z"]], float)
    return np.array(plain["x"], float) * worth + z * worth**2


def test_rows_of_a_pandas_frame():
    """Columns may come in any order, and words as words: they take the types of X."""
    expected = coalitions.effects(reads_words, FRAME, ROWS)
    rows = FRAME.iloc[ROWS]
    tables = (
        rows,
        rows[["z", "word", "x"]],
        rows.assign(word=rows["word"].astype(str)),
        rows.assign(more=1.0),
        rows.reset_index(drop=True),
    )
    for table in (ROWS, *tables):
        found = ll.shapley_effect(reads_words, FRAME, table)
        assert found.features == ("x", "word", "z")
        np.testing.assert_allclose(found.local, expected, atol=1e-9)
    assert isinstance(found.to_frame(), pd.DataFrame)
    assert list(found.to_frame().columns) == ["prediction", "base", "x", "word", "z"]


def test_rows_of_a_polars_frame():
    frame = pl.from_pandas(FRAME)
    expected = coalitions.effects(reads_words, FRAME, ROWS)
    for rows in (ROWS, frame[ROWS], frame[ROWS].select("z", "x", "word")):
        found = ll.shapley_effect(reads_words, frame, rows)
        np.testing.assert_allclose(found.local, expected, atol=1e-9)
    assert isinstance(found.to_frame(), pl.DataFrame)


def test_rows_that_the_donors_have_not_seen():
    new = np.array([[9.0, -4.0, 1.0, 0.0], [0.3, 2.0, 2.0, 5.0]])
    native = REGRESSORS["histogram"][0].fit(X, Y)
    for asked, predict in ((model, model), (native, native.predict)):
        expected = coalitions.effects(predict, np.concatenate([new, X]), [0, 1], weight=[0, 0, *np.ones(N)])
        found = ll.shapley_effect(asked, X, new)
        np.testing.assert_allclose(found.local, expected, atol=1e-9)
        assert found.n_donors == N


def test_a_pipeline_of_words():
    native = make_pipeline(make_column_transformer((OneHotEncoder(), ["word"]), remainder="passthrough"), Ridge())
    frame = FRAME.fillna({"z": 0.0})
    native.fit(frame, Y)
    found = ll.shapley_effect(native, frame, frame.iloc[[5, 2]])
    np.testing.assert_allclose(found.local, coalitions.effects(native.predict, frame, [5, 2]), atol=1e-9)


# Donors.


def test_a_few_donors_are_drawn():
    found = ll.shapley_effect(model, X, ROWS, donors=ll.Grid(4), random_state=0)
    again = ll.shapley_effect(model, X, ROWS, donors=ll.Grid(4), random_state=0)
    assert found.n_donors == 4
    np.testing.assert_array_equal(found.local, again.local)
    whole = ll.shapley_effect(model, X, ROWS, donors=ll.Grid(N), random_state=0)
    np.testing.assert_allclose(whole.local, coalitions.effects(model, X, ROWS), atol=1e-9)
    seeds = [ll.shapley_effect(model, X, ROWS, donors=ll.Grid(8), random_state=s).local for s in range(60)]
    error = np.std(seeds, axis=0, ddof=1) / np.sqrt(60)
    assert (np.abs(np.mean(seeds, axis=0) - whole.local) <= 5 * error + 1e-9).all()


def test_some_of_the_rows():
    found = ll.shapley_effect(model, X, np.arange(N))
    part = found.given(ROWS)
    np.testing.assert_array_equal(part.local, found.local[ROWS])
    assert "4 rows, 25 donors" in repr(part)
    groups = found.by(HALVES)
    assert sum(len(one.local) for one in groups.values()) == N


# Refused.


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        (np.empty((0, 4)), {}, "rows is empty; give at least one row to explain"),
        (np.zeros(N, bool), {}, "no row is chosen"),
        ([N], {}, "row positions run from 0 to 24"),
        (X[:2, :3], {}, r"rows must have the 4 columns of X; got shape \(2, 3\)"),
        (0, {"donors": ll.Latin(3)}, "all rows share their donors here"),
        (0, {"donors": ll.Derangements()}, "all rows share their donors here"),
        (0, {"donors": ll.Grid(3, at="quantiles")}, "orders donors by one feature's values"),
        (0, {"donors": ll.Grid(26)}, "lower m to 25 or less"),
        (X[:2], {"donors": ll.Grid(26)}, "lower m to 25 or less"),
        (0, {"features": {"a": [0, 1], "b": [1]}}, "players must not overlap"),
        (0, {"features": [("x0", "x1")]}, "a pair on a product grid"),
        (0, {"method": "paper"}, "method is 'auto', 'exact' or 'walk'"),
        (0, {"target": "yes"}, "is no output of the model: its predictions have no names"),
        (0, {"method": "exact", "budget": 100}, "the exact values would take .* predictions, more than 100"),
        (0, {"method": "walk", "budget": 27}, "two sweeps of walks take 6 predictions"),
        (0, {"budget": -1}, "budget is a whole number"),
        (0, {"sample_weight": np.zeros(N)}, "weight"),
    ],
    ids=str,
)
def test_calls_that_are_refused(rows, options, message):
    with pytest.raises(ValueError, match=message):
        ll.shapley_effect(model, X, rows, **options)


def test_rows_of_a_frame_that_are_refused():
    rows = FRAME.iloc[:2]
    with pytest.raises(ValueError, match="rows must be a table like X, but it has no column 'z'"):
        ll.shapley_effect(reads_words, FRAME, rows[["x", "word"]])
    with pytest.raises(ValueError, match="is a polars table, X a pandas one"):
        ll.shapley_effect(reads_words, FRAME, pl.from_pandas(rows))


def test_rows_with_words_that_no_donor_can_have():
    rows = FRAME.iloc[:2]
    for words in (["a", "zebra"], pd.Categorical(["a", "zebra"])):
        with pytest.raises(ValueError, match="'zebra' in column 'word', which is no category of X's"):
            ll.shapley_effect(reads_words, FRAME, rows.assign(word=words))


def test_a_class_has_to_be_named():
    native = CLASSIFIERS["logistic"].fit(X, WORDS)
    for target in (None, "none"):
        with pytest.raises(ValueError, match=r"target must be one of the classes \['low', 'mid', 'top'\]"):
            ll.shapley_effect(native, X, 0, target=target)


def test_nothing_of_the_user_is_changed():
    frame, rows = FRAME.copy(), FRAME.iloc[[4, 2]][["z", "x", "word"]].copy()
    before = rows.copy()
    ll.shapley_effect(reads_words, frame, rows, method="walk", random_state=0)
    pd.testing.assert_frame_equal(frame, FRAME)
    pd.testing.assert_frame_equal(rows, before)


def test_coalitions_may_take_as_many_predictions_as_walks_of_all_features(monkeypatch):
    """4 rows, 25 donors, 4 features: (2^4 - 2) 4 25 = 1,400 predictions at most, which 350 for each feature allow."""
    for limit, way in ((350, "all coalitions"), (100, "walk")):
        monkeypatch.setattr(effects, "EXACT_PREDICTIONS", limit)
        assert way in ll.shapley_effect(model, X, ROWS, random_state=0).method


# The raw scale: scores that probabilities are made of.


RAW_SCORES = {
    "logistic": (LogisticRegression(), None, "log-odds"),
    "pipeline": (make_pipeline(StandardScaler(), LogisticRegression()), None, "log-odds"),
    "discriminant": (LinearDiscriminantAnalysis(), None, "log-odds"),
    "margins": (LinearSVC(), None, "score"),
    "histogram": (CLASSIFIERS["histogram"], None, "log-odds"),
    "boosted": (CLASSIFIERS["boosted"], None, "log-odds"),
    "exponential": (GradientBoostingClassifier(n_estimators=4, loss="exponential"), None, "score"),
    "XGBoost": (XGBClassifier(n_estimators=5), {"output_margin": True}, "log-odds"),
    "XGBoost in a pipeline": (
        make_pipeline(StandardScaler(), XGBClassifier(n_estimators=5)), {"output_margin": True}, "log-odds",
    ),
    "LightGBM": (LGBMClassifier(n_estimators=5, min_child_samples=3, verbose=-1), {"raw_score": True}, "log-odds"),
    "CatBoost": (CatBoostClassifier(iterations=5, verbose=0), {"prediction_type": "RawFormulaVal"}, "log-odds"),
}  # fmt: skip
TWO_ONLY = ("exponential", 3)


@pytest.mark.parametrize(
    ("name", "classes"), [(name, k) for name in RAW_SCORES for k in (2, 3) if (name, k) != TWO_ONLY]
)
def test_raw_scores_are_those_of_all_coalitions(name, classes):
    """Against what the model itself calls its scores: exact, by an engine. XGBoost adds up in single precision."""
    native, asked, words = RAW_SCORES[name]
    y = np.digitize(Y, [0.5] if classes == 2 else [0.5, 1.8])
    native = clone(native).fit(X, y)
    score = partial(native.predict, **asked) if isinstance(asked, dict) else native.decision_function
    target = None if classes == 2 else 1

    def explained(X):
        scores = np.asarray(score(X), float)
        return scores if target is None else scores[:, target]

    found = ll.shapley_effect(native, X, ROWS, target=target, scale="raw", sample_weight=WEIGHT)
    slack = 1e-6 if "XGBoost" in name else 1e-12
    agrees(found, coalitions.effects(explained, X, ROWS, weight=WEIGHT), explained(X[ROWS]), slack)
    assert found.method == "closed form"
    assert found.response == (words if classes == 2 else "score")
    assert f"to the {found.response} of {target or 1}; 4 rows" in found.headline


def test_raw_scores_of_many_features_take_no_coalition():
    table = np.random.default_rng(1).normal(size=(60, 40))
    native = LogisticRegression().fit(table, table[:, 0] > table[:, 1])
    found = ll.shapley_effect(native, table, slice(None), scale="raw")
    np.testing.assert_allclose(found.local, (table - table.mean(axis=0)) * native.coef_, atol=1e-12)


def test_the_raw_scale_is_the_response_of_what_has_scores_only():
    native = SVC().fit(X, HALVES)
    raw, response = (ll.shapley_effect(native, X, ROWS, scale=scale) for scale in ("raw", "response"))
    np.testing.assert_array_equal(raw.local, response.local)


@pytest.mark.parametrize(
    ("native", "message"),
    [
        (
            RandomForestClassifier(2).fit(X, HALVES),
            r"RandomForestClassifier has no raw scores \(no decision_function\)",
        ),
        (LinearRegression().fit(X, Y), "scale='raw' is that of a classifier's scores.*LinearRegression is a regressor"),
        (model, "scale='raw' is that of a classifier's scores, such as log-odds, but model is no classifier"),
    ],
    ids=["forest", "regressor", "function"],
)
def test_a_model_without_raw_scores_is_refused(native, message):
    for call in (ll.shapley_effect, partial(ll.plan, ll.shapley_effect)):
        with pytest.raises(ValueError, match=message):
            call(native, X, 0, scale="raw")


def test_a_scale_that_does_not_exist():
    with pytest.raises(ValueError, match="scale is 'response' or 'raw'; got 'log-odds'"):
        ll.shapley_effect(model, X, 0, scale="log-odds")


def test_the_unit_is_kept_and_shown(tmp_path):
    native = CLASSIFIERS["histogram"].fit(X, HALVES)
    found = ll.shapley_effect(native, X, ROWS, scale="raw")
    found.save(tmp_path / "effect.ll")
    again = ll.load(tmp_path / "effect.ll")
    np.testing.assert_array_equal(again.local, found.local)
    assert again.response == "log-odds"
    assert "log-odds of yes" in repr(again)
    np.testing.assert_allclose(again.to_frame().iloc[:, 2:].sum(axis=1), found.prediction - found.base)
    assert "log-odds of yes" in texts(found.given([0]).plot())
    assert "log-odds of yes" in texts(found.plot())
    assert ll.plan(ll.shapley_effect, native, X, ROWS, scale="raw").engine == "trees"


def texts(ax):
    return " ".join(text.get_text() for text in ax.figure.findobj(Text))


# Walks of an engine that knows the sums inside a link.


LINKED = {
    "histogram": (CLASSIFIERS["histogram"], 2),
    "histogram, 3 classes": (CLASSIFIERS["histogram"], 3),
    "large trees": (GradientBoostingClassifier(n_estimators=4, max_depth=9), 2),
    "single precision": (XGBClassifier(n_estimators=5), 2),
    "logistic": (CLASSIFIERS["logistic"], 2),
    "logistic, 3 classes": (CLASSIFIERS["logistic"], 3),
    "positive": (REGRESSORS["positive"][0], 0),
    "log-linear": (PoissonRegressor(), 0),
}


@pytest.fixture
def without_coalitions(monkeypatch):
    monkeypatch.setattr(effects, "QUICK_CELLS", 0)
    monkeypatch.setattr(effects, "count_predictions", lambda *given: 10**9)


@pytest.mark.usefixtures("without_coalitions")
@pytest.mark.parametrize("name", LINKED)
@pytest.mark.parametrize("players", [None, [[0, 2], [1]]], ids=["columns", "some"])
def test_walks_with_exact_raw_values_are_right_on_average(name, players):
    """Subtracting controls less their exact means moves no expectation, whatever the slopes are.

    Against all coalitions by the model's own predict. Wrong means would be off in the same direction for every seed;
    wrong standard errors would not be those of the spread.
    """
    native, classes = LINKED[name]
    y = np.exp(Y / 3) if classes == 0 else np.digitize(Y, [0.5] if classes == 2 else [0.5, 1.8])
    native = clone(native).fit(X, y)
    predict = native.predict if classes == 0 else lambda X: native.predict_proba(X)[:, 1].astype(float)
    named = None if players is None else {f"g{k}": columns for k, columns in enumerate(players)}
    expected = coalitions.effects(predict, X, ROWS, players, WEIGHT)
    asked = {"target": 1} if classes else {}
    found = [
        ll.shapley_effect(
            native, X, ROWS, features=named, sample_weight=WEIGHT, budget=2000, random_state=s, **asked
        )
        for s in range(60)
    ]  # fmt: skip
    local = np.array([one.local for one in found])
    spread, moving = local.std(axis=0, ddof=1), local.std(axis=0) > 1e-9
    slack = 2e-7 if name == "single precision" else 1e-9
    assert (np.abs(local.mean(axis=0) - expected) <= 5 * spread / np.sqrt(60) + slack).all()
    stated = np.mean([one.std_error**2 for one in found], axis=0)
    assert 0.6 < np.median(stated[moving] / spread[moving] ** 2) < 1.6
    assert all(not one.exact and one.n_predictions == N and "walks a row" in one.method for one in found)
    for one in found[:2]:
        np.testing.assert_allclose(one.local.sum(axis=1), one.prediction - one.base, atol=1e-9)


def test_all_coalitions_inside_trees_take_about_a_second_unless_they_are_asked_for(monkeypatch):
    """4 rows, 25 donors, 4 features: 1,600 cells. Else few rows would take longer than many."""
    native = CLASSIFIERS["histogram"].fit(X, HALVES)
    monkeypatch.setattr(effects, "count_predictions", lambda *given: 10**9)
    monkeypatch.setattr(effects, "QUICK_CELLS", 1599)
    sampled, exact = (ll.shapley_effect(native, X, ROWS, method=method, random_state=0) for method in ("auto", "exact"))
    assert (sampled.exact, exact.exact, exact.engine) == (False, True, "trees")
    monkeypatch.setattr(effects, "QUICK_CELLS", 1600)
    assert ll.shapley_effect(native, X, ROWS).exact


@pytest.mark.usefixtures("without_coalitions")
def test_exact_raw_values_leave_less_noise_than_walks_alone():
    """At the same number of walks: a tenth of the variance, and less."""
    native = CLASSIFIERS["histogram"].fit(X, HALVES)
    linked, alone = (
        ll.shapley_effect(native, X, ROWS, method=method, budget=4000, random_state=0) for method in ("auto", "walk")
    )
    assert (linked.engine, alone.engine) == ("trees", "blackbox")
    assert np.mean(linked.std_error**2) < 0.1 * np.mean(alone.std_error**2)


@pytest.mark.usefixtures("without_coalitions")
def test_linked_walks_of_a_column_that_the_model_ignores_add_nothing():
    native = CLASSIFIERS["histogram"].fit(X[:, :3], HALVES)
    table = np.column_stack([X[:, :3], np.zeros(N)])
    native = clone(native).fit(table, HALVES)
    table[:, 3] = X[:, 3]
    found = ll.shapley_effect(native, table, ROWS, random_state=0)
    assert "walks a row" in found.method
    assert (found.local[:, 3] == 0).all()
    assert (found.std_error[:, 3] == 0).all()


@pytest.mark.usefixtures("without_coalitions")
def test_linked_walks_are_planned_and_bounded():
    native = CLASSIFIERS["histogram"].fit(X, HALVES)
    planned = ll.plan(ll.shapley_effect, native, X, ROWS)
    assert (planned.way, planned.engine, planned.exact, planned.n_predictions) == ("walks", "trees", False, N)
    with pytest.raises(ValueError, match="two sweeps of walks take 48 predictions; raise budget="):
        ll.shapley_effect(native, X, ROWS, budget=40)
    same = [ll.shapley_effect(native, X, ROWS, random_state=3, n_jobs=jobs).local for jobs in (1, 2)]
    np.testing.assert_array_equal(*same)
