"""XGBoost and LightGBM: what is read says what the model says, at every value a table could hold."""

import lightgbm as lgb
import numpy as np
import pandas as pd
import polars as pl
import pytest
import xgboost as xgb
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor

import losslens as ll
from losslens.engines.base import Declined
from losslens.engines.choice import read_trees
from losslens.engines.readers.boosters import counts_bytes
from losslens.models import as_model
from tree_walks import (
    FLOAT32,
    SEEDS,
    XGBOOST_3_1,
    N,
    agree,
    classes,
    frame,
    lightgbm,
    numbers,
    pick,
    probes,
    table,
    unseen,
    walk,
)

needs_3_1 = pytest.mark.skipif(not XGBOOST_3_1, reason="before 3.1 XGBoost does not save the codes of categories")


def other_order(X):
    """Rows without one of the words, the rest in another order of categories."""
    if isinstance(X, pl.DataFrame):
        return X.filter(pl.col("words").cast(pl.String) != "c").reverse()
    words = X["words"].astype(object)
    return X.assign(words=pd.Categorical(words.replace("c", "a"), categories=["a", "b", "d"]))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("missing", [False, True])
def test_xgboost_of_numbers(missing, seed):
    X, y = table(seed, missing)
    options = pick(
        seed,
        max_depth=[1, 3, 6],
        booster=["gbtree", "dart"],
        num_parallel_tree=[1, 3],
        tree_method=["hist", "exact"],
        grow_policy=["depthwise", "lossguide"],
        base_score=[None, 3.0],
    )
    dart = {"rate_drop": 0.4, "skip_drop": 0.1} if options["booster"] == "dart" else {}
    model = xgb.XGBRegressor(n_estimators=12, subsample=0.7, gamma=0.5, random_state=seed, **options, **dart)
    model.fit(X, 100 * y)
    agree(model, probes(model, X, missing=True), tolerance=FLOAT32)
    agree(model.get_booster(), probes(model, X, missing=True), tolerance=FLOAT32)


REGRESSIONS = [
    *("reg:squarederror", "reg:squaredlogerror", "reg:absoluteerror", "reg:pseudohubererror", "reg:logistic"),
    *("reg:quantileerror", "count:poisson", "reg:gamma", "reg:tweedie", "survival:cox"),
    *(["binary:logitraw"] if XGBOOST_3_1 else []),
]


@pytest.mark.parametrize("objective", REGRESSIONS)
@pytest.mark.parametrize("base_score", [None, 0.3])
def test_xgboost_objectives_of_numbers(objective, base_score):
    X, y = table(0)
    y = 1 / (1 + np.exp(-y)) if objective != "binary:logitraw" else (y > 0.5).astype(float)
    alpha = {"quantile_alpha": 0.3} if "quantile" in objective else {}
    model = xgb.XGBRegressor(n_estimators=5, objective=objective, base_score=base_score, **alpha).fit(X, y)
    agree(model, X, tolerance=FLOAT32)


@pytest.mark.parametrize("objective", ["survival:aft", "rank:ndcg", "rank:pairwise"])
def test_xgboost_objectives_of_boosters(objective):
    X, y = table(0)
    data = xgb.DMatrix(X, np.digitize(y, [0, 1]))
    if objective == "survival:aft":
        data.set_float_info("label_lower_bound", np.abs(y) + 1)
        data.set_float_info("label_upper_bound", np.abs(y) + 2)
    else:
        data.set_group([N // 3] * 3)
    agree(xgb.train({"objective": objective}, data, 5), X, tolerance=FLOAT32)


def test_xgboost_of_classes():
    X, y = table(0, missing=True)
    of_two = ["logistic", "hinge", *(["logitraw"] if XGBOOST_3_1 else [])]
    for k, objectives in {2: of_two, 3: ["softprob", "softmax"]}.items():
        labels = np.digitize(y, np.quantile(y, np.arange(1, k) / k))
        for objective in objectives:
            name = f"{'binary' if k == 2 else 'multi'}:{objective}"
            model = xgb.XGBClassifier(n_estimators=6, max_depth=3, objective=name).fit(X, labels)
            agree(model, probes(model, X, missing=True), tolerance=FLOAT32)
            params = {"objective": name, "num_class": k if k > 2 else 1}
            agree(xgb.train(params, xgb.DMatrix(X, labels), 6), X, tolerance=FLOAT32)


def test_xgboost_forests():
    X, y = table(0)
    agree(xgb.XGBRFRegressor(n_estimators=9, max_depth=4).fit(X, y), X, tolerance=FLOAT32)
    agree(xgb.XGBRFClassifier(n_estimators=9).fit(X, np.digitize(y, [0, 1])), X, tolerance=FLOAT32)


def test_xgboost_stops_at_the_best_iteration_but_its_booster_does_not():
    X, y = table(0)
    for make, target in [(xgb.XGBRegressor, y), (xgb.XGBClassifier, np.digitize(y, [0, 1]))]:
        model = make(n_estimators=60, early_stopping_rounds=3, learning_rate=0.5, num_parallel_tree=2)
        model.fit(X[:200], target[:200], eval_set=[(X[200:], target[200:])], verbose=False)
        outputs = 1 if make is xgb.XGBRegressor else 3
        ensembles = [
            read_trees(as_model(m), "scores" if outputs > 1 else "values") for m in (model, model.get_booster())
        ]
        assert len(ensembles[0].roots) == 2 * outputs * (model.best_iteration + 1) < len(ensembles[1].roots)
        agree(model, X, tolerance=FLOAT32)
        agree(model.get_booster(), X, tolerance=FLOAT32)


def test_xgboost_with_an_objective_of_the_users_own():
    X, y = table(0)
    model = xgb.XGBRegressor(n_estimators=5, objective=lambda y, raw: (raw - y, np.ones_like(y))).fit(X, y)
    agree(model, X, tolerance=FLOAT32)


def test_xgboost_with_a_missing_value_of_the_users_own():
    X, y = table(0, missing=True)
    model = xgb.XGBRegressor(n_estimators=5, missing=-99.1).fit(np.nan_to_num(X, nan=-99.1), y)
    agree(model, np.concatenate([X, np.nan_to_num(X, nan=-99.1)]), tolerance=FLOAT32)


def test_extreme_raw_outputs_of_xgboost_stay_away_from_0():
    X, y = table(0)
    model = xgb.XGBClassifier(n_estimators=1, reg_lambda=0, min_child_weight=0, learning_rate=60).fit(X, y > 0)
    said = as_model(model).responder("probabilities")(X)
    assert 0 < said[:, 1].min() < 1e-30
    agree(model, X, ["probabilities"], tolerance=FLOAT32)


@pytest.mark.skipif(XGBOOST_3_1, reason="what earlier releases leave out")
def test_what_xgboost_did_not_save_before_3_1_is_declined():
    X, y = table(0)
    with pytest.raises(Declined, match="the objective binary:logitraw is not supported"):
        read_trees(as_model(xgb.XGBRegressor(n_estimators=2, objective="binary:logitraw").fit(X, y > 0)), "values")
    X, y = frame("pandas")
    with pytest.raises(Declined, match="does not save their codes"):
        walk(read_trees(as_model(xgb.XGBRegressor(n_estimators=2, enable_categorical=True).fit(X, y)), "values"), X)


@needs_3_1
@pytest.mark.parametrize("library", ["pandas", "polars"])
@pytest.mark.parametrize("one_hot", [1, 10])
def test_xgboost_with_categories(library, one_hot):
    X, y = frame(library)
    fitted = X.to_pandas() if library == "polars" else X
    model = xgb.XGBRegressor(n_estimators=8, enable_categorical=True, max_cat_to_onehot=one_hot).fit(fitted, y)
    assert read_trees(as_model(model), "values").sets
    for native in (model, model.get_booster()):
        agree(native, X, tolerance=FLOAT32)
        agree(native, other_order(X), tolerance=FLOAT32)
        with pytest.raises(Declined, match="not present in training"):
            walk(read_trees(as_model(native), "values"), unseen(X))


def test_xgboost_with_categories_beyond_ascii():
    """Declined before 3.4, which saves them incompletely."""
    X, y = frame("pandas")
    X["few"] = X["few"].cat.rename_categories(["ä", "y"])
    model = xgb.XGBRegressor(n_estimators=8, enable_categorical=True).fit(X, y)
    if counts_bytes():
        agree(model, X, tolerance=FLOAT32)
        agree(model.get_booster(), other_order(X), tolerance=FLOAT32)
        return
    with pytest.raises(Declined, match="codes"):
        walk(read_trees(as_model(model), "values"), X)


@needs_3_1
def test_xgboost_with_categories_that_are_numbers():
    X, y = table(0)
    coded = pd.DataFrame({"n": X[:, 0], "k": pd.Categorical(10 * X[:, 1].astype(int) + 3), "b": X[:, 3] > 0})
    model = xgb.XGBRegressor(n_estimators=8, enable_categorical=True).fit(coded, y)
    agree(model, coded, tolerance=FLOAT32)


def test_xgboost_with_numbers_that_are_categories():
    X, y = table(0)
    model = xgb.XGBRegressor(n_estimators=8, enable_categorical=True, feature_types=["q", "c", "q", "c"]).fit(X, y)
    others = X.copy()
    others[:, 1] = np.random.default_rng(0).choice([0, 1, 2, 3, 4, 1.5, -0.5, -1, 7, 1e8, np.nan], N)
    agree(model, X, tolerance=FLOAT32)
    agree(model, others, tolerance=FLOAT32)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_whole_numbers_and_truth_values_with_gaps(library):
    X, y = table(0, missing=True)
    whole, truths = ([None if np.isnan(x) else kind(x) for x in X[:, j]] for j, kind in ((1, int), (3, bool)))
    gaps = pl.DataFrame({"a": X[:, 0].astype(np.float32), "b": whole, "c": X[:, 2], "d": truths})
    if library == "pandas":
        types = {"b": "Int64", "d": "boolean"}
        gaps = pd.DataFrame({name: pd.Series(gaps[name].to_list(), dtype=types.get(name)) for name in gaps.columns})
    agree(xgb.XGBRegressor(n_estimators=8).fit(gaps, y), gaps, tolerance=FLOAT32)
    agree(lightgbm().fit(gaps, y), gaps)
    agree(HistGradientBoostingRegressor(max_iter=8).fit(gaps, y), gaps)
    agree(RandomForestRegressor(8).fit(gaps, y), gaps)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("missing", [False, True])
def test_lightgbm_of_numbers(missing, seed):
    X, y = table(seed, missing)
    options = pick(
        seed,
        boosting_type=["gbdt", "dart", "goss", "rf"],
        max_depth=[-1, 2],
        num_leaves=[31, 4],
        use_missing=[True, False],
        extra_trees=[True, False],
    )
    model = lightgbm(bagging_freq=1, subsample=0.7 if options["boosting_type"] == "rf" else 1.0, **options).fit(X, y)
    agree(model, probes(model, X, missing=True))
    agree(model.booster_, probes(model, X, missing=True))


LIGHTGBM = [
    *("regression", "regression_l1", "huber", "fair", "poisson", "quantile", "mape", "gamma", "tweedie"),
    *("cross_entropy", "cross_entropy_lambda"),
]


@pytest.mark.parametrize("objective", LIGHTGBM)
def test_lightgbm_objectives_of_numbers(objective):
    X, y = table(0, missing=True)
    agree(lightgbm(objective=objective).fit(X, 1 / (1 + np.exp(-y))), X)


def test_lightgbm_of_the_root_of_a_target():
    X, y = table(0)
    agree(lightgbm(reg_sqrt=True).fit(X, y), X)


@pytest.mark.parametrize("boosting", ["gbdt", "rf"])
@pytest.mark.parametrize(("objective", "k"), [("binary", 2), ("multiclass", 3), ("multiclassova", 3)])
def test_lightgbm_of_classes(objective, k, boosting):
    X, y = table(0, missing=True)
    sample = {"bagging_freq": 1, "subsample": 0.6, "boosting_type": boosting}
    model = lightgbm(lgb.LGBMClassifier, objective=objective, sigmoid=2 / 3, **sample).fit(X, classes(y, k))
    agree(model, probes(model, X, missing=True))
    agree(model.booster_, X)
    agree(lgb.Booster(model_str=model.booster_.model_to_string()), X)


def test_lightgbm_with_single_leaves():
    X, y = table(0)
    model = lightgbm(lgb.LGBMClassifier, min_child_samples=N).fit(X, classes(y, 3))
    assert len(read_trees(as_model(model), "scores").value) == 3
    agree(model, X)
    # A class without rows has single leaves among the trees of the others.
    params = {"objective": "multiclass", "num_class": 4, "verbose": -1}
    booster = lgb.train(params, lgb.Dataset(X, np.digitize(y, [0, 1])), 5)
    ensemble = read_trees(as_model(booster), "scores")
    sizes = np.diff([*ensemble.roots, len(ensemble.feature)])
    assert sizes.min() == 1 < sizes.max()
    agree(booster, X)


def test_lightgbm_keeps_all_digits_of_the_sigmoid_while_it_trains():
    X, y = table(0)
    data, params = lgb.Dataset(X, (y > 0).astype(int)), {"objective": "binary", "sigmoid": 2 / 3, "verbose": -1}
    for keep in (True, False):
        agree(lgb.train(params, data, 5, keep_training_booster=keep), X)


@pytest.mark.filterwarnings("ignore:The argument 'eval_set'")
def test_lightgbm_stops_at_the_best_iteration():
    X, y = table(0)
    model = lightgbm(n_estimators=60, learning_rate=0.5)
    model.fit(X[:200], y[:200], eval_set=[(X[200:], y[200:])], callbacks=[lgb.early_stopping(3, verbose=False)])
    assert len(read_trees(as_model(model), "values").roots) == model.best_iteration_ < 60
    agree(model, X)
    agree(model.booster_, X)


def test_lightgbm_with_an_objective_of_the_users_own():
    X, y = table(0)
    model = lightgbm(objective=lambda y, raw: (raw - y, np.ones_like(y))).fit(X, y)
    agree(model, X)
    agree(model.booster_, X)


@pytest.mark.parametrize("missing", [False, True])
def test_lightgbm_with_categories(missing):
    X, y = frame("pandas", missing=missing)
    model = lightgbm(max_cat_to_onehot=1, cat_smooth=1, min_data_per_group=5).fit(X, y)
    assert read_trees(as_model(model), "values").sets
    agree(model, X)
    agree(model, unseen(X))
    agree(model.booster_, pl.from_pandas(X))
    # One of two in order: it has a list of categories too, but thresholds.
    ordered = X.assign(few=X["few"].cat.as_ordered())
    agree(lightgbm().fit(ordered, y), ordered)


def test_lightgbm_with_categories_that_are_numbers():
    X, y = table(0, missing=True)
    model = lightgbm(cat_smooth=1, min_data_per_group=5).fit(X, y, categorical_feature=[1])
    others = X.copy()
    others[:, 1] = np.random.default_rng(0).choice([0, 1, 2, 3, 4, 1.5, -0.5, -1, 7, 1e8, np.nan], N)
    agree(model, X)
    agree(model, others)
    coded = pd.DataFrame({"n": X[:, 0], "k": pd.Categorical(np.nan_to_num(10 * X[:, 1]).astype(int))})
    agree(lightgbm().fit(coded, y), coded)
    turned = pd.DataFrame({"n": X[:, 0], "t": pd.Categorical(np.nan_to_num(X[:, 3]) > 0, categories=[True, False])})
    agree(lightgbm(cat_smooth=1, min_data_per_group=5).fit(turned, y), turned)


def test_lightgbm_rounds_whole_numbers_in_an_array_only():
    X, y = table(0)
    whole = 2**24 + np.argsort(np.argsort(X[:, 0]))[:, None]
    model = lightgbm(n_estimators=3, min_child_samples=1, num_leaves=200).fit(pd.DataFrame(whole), y)
    with pytest.raises(Declined, match="2\\^24"):
        numbers(read_trees(as_model(model), "values"), whole)
    for far in (1000 * whole, pd.DataFrame(1000 * whole)):  # rounded or not, on the same side of every threshold
        agree(lightgbm(n_estimators=3, num_leaves=2).fit(far, y), far)


@needs_3_1
@pytest.mark.parametrize("missing", [0, 1, 2, -1, 0.5])
def test_a_category_whose_code_xgboost_takes_for_missing_is_asked(missing):
    """The code is that of the table, whatever the codes in training: one row in 300 shows it."""
    X, y = frame("pandas", missing=False)
    rare = X["words"].astype(object).where(np.arange(N) != 17, "e")
    X["words"] = pd.Categorical(rare, categories=["d", "c", "e", "b", "a"])
    model = xgb.XGBRegressor(n_estimators=8, enable_categorical=True, missing=missing, max_depth=4)
    model.fit(X, y + 9 * (rare == "e"))
    found = ll.feature_importance(model, X, y, loss="squared_error", donors="all")
    asked = ll.feature_importance(model.predict, X, y, loss="squared_error", donors="all")
    np.testing.assert_allclose([one.pfi for one in found.values()], [one.pfi for one in asked.values()], rtol=1e-5)
    assert found.engine == ("blackbox" if missing in (0, 1, 2) else "trees")
    assert ("this code in the table" in found["words"].declined) == (found.engine == "blackbox")


@pytest.mark.parametrize("missing", [0, 1, 2])
def test_a_number_that_is_a_category_and_missing_to_xgboost_is_read(missing):
    X, y = table(0)
    types = ["q", "c", "q", "c"]
    model = xgb.XGBRegressor(n_estimators=8, enable_categorical=True, feature_types=types, missing=missing).fit(X, y)
    agree(model, X, tolerance=FLOAT32)
