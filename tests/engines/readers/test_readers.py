"""All readers: models of one leaf, types of columns, and what is not read."""

import pickle

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
import xgboost as xgb
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import (
    BaggingRegressor,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LinearRegression
from sklearn.tree import DecisionTreeRegressor, ExtraTreeRegressor

from losslens.engines.base import Declined
from losslens.engines.choice import read_trees
from losslens.models import as_model
from tree_walks import FLOAT32, FLOAT64, XGBOOST_3_1, N, agree, frame, lightgbm, table, walk


@pytest.mark.parametrize(
    "make",
    [
        *(DecisionTreeRegressor, ExtraTreeRegressor, RandomForestRegressor, ExtraTreesRegressor),
        *(GradientBoostingRegressor, HistGradientBoostingRegressor, lightgbm, xgb.XGBRegressor, xgb.XGBRFRegressor),
    ],
)
def test_one_leaf_trees_frames_integers_and_pickles(make):
    X, y = table(0)
    tolerance = FLOAT32 if "XGB" in make.__name__ else FLOAT64
    agree(make().fit(X, np.full(N, 2.5)), X, tolerance=tolerance)  # every tree is a leaf
    whole = (10 * X).astype(np.int64)
    for other in (X.astype(np.float32), whole, pd.DataFrame(X).add_prefix("x"), pd.DataFrame(whole).add_prefix("x")):
        agree(make().fit(other, y), other, tolerance=tolerance)
    model = as_model(make().fit(X, y))
    ensemble = read_trees(model, "values")
    assert np.array_equal(walk(pickle.loads(pickle.dumps(ensemble)), X), walk(ensemble, X))


def test_other_models_are_not_read():
    X, y = table(0)

    class Own(xgb.XGBRegressor):
        def predict(self, X, **options):
            return np.expm1(super().predict(X, **options))

    others = [LinearRegression().fit(X, y), BaggingRegressor(n_estimators=2).fit(X, y)]
    others += [xgb.XGBRegressor(booster="gblinear", n_estimators=2).fit(X, y)]
    for other in others:
        assert read_trees(as_model(other), "values") is None
    patched = DecisionTreeRegressor().fit(X, y)
    patched.predict = lambda X: X[:, 0]
    for other in (Own(n_estimators=2).fit(X, y), patched, lambda X: X[:, 0]):
        with pytest.raises(Declined, match=r"derived from XGB|was replaced|not read"):
            read_trees(as_model(other), "values")
    assert read_trees(as_model(DecisionTreeRegressor().fit(X, y)), "scores") is None


def declined():
    X, y = table(0)
    two, k = np.column_stack([y, y]), np.digitize(y, [0, 1])
    yield "several outputs", DecisionTreeRegressor().fit(X, two)
    yield "several outputs", RandomForestRegressor(2).fit(X, two)
    yield "several outputs", xgb.XGBRegressor(n_estimators=2).fit(X, two)
    yield "several outputs", xgb.XGBRegressor(n_estimators=2, multi_strategy="multi_output_tree").fit(X, two)
    yield "several outputs", xgb.XGBClassifier(n_estimators=2, multi_strategy="multi_output_tree").fit(X, k)
    yield "several outputs", xgb.XGBRegressor(objective="reg:quantileerror", quantile_alpha=[0.1, 0.9]).fit(X, y)
    yield "another model", GradientBoostingRegressor(n_estimators=2, init=LinearRegression()).fit(X, y)
    random = DummyClassifier(strategy="stratified")
    yield "another model", GradientBoostingClassifier(n_estimators=2, init=random).fit(X, k)
    yield "linear", lightgbm(linear_tree=True).fit(X, y)
    yield "zeros", lightgbm(zero_as_missing=True).fit(X, y)
    yield "stop early", lightgbm(lgb.LGBMClassifier, pred_early_stop=True).fit(X, k)
    yield "custom objective", lightgbm(lgb.LGBMClassifier, objective=lambda y, p: (p - y, 1 + 0 * y)).fit(X, y > 0)
    yield "single class", RandomForestClassifier(2).fit(X, np.zeros(N))
    yield "stores its trees", DecisionTreeRegressor()


def test_declined_models():
    for reason, model in declined():
        model = as_model(model)
        with pytest.raises(Declined, match=reason):
            read_trees(model, "values" if "values" in model.responses else "probabilities")


def test_declined_tables():
    X, y = table(0)
    words, dates = np.array(["a", "b"], dtype=object), np.array(["2020-01-01"], dtype="M8[D]")
    frames = frame("pandas")
    plain = [make().fit(X, y) for make in (RandomForestRegressor, lightgbm, xgb.XGBRegressor)]
    plain.append(HistGradientBoostingRegressor(max_iter=2).fit(X, y))
    for model in plain:
        ensemble = read_trees(as_model(model), "values")
        for values in (words, dates):
            with pytest.raises(Declined, match=r"text|dates|categories"):
                ensemble.numbers(0, values)
    with pytest.raises(Declined, match="infinite"):  # in float32
        read_trees(as_model(plain[0]), "values").numbers(0, np.array([1e39]))
    with pytest.raises(Declined, match="infinite"):
        read_trees(as_model(plain[2].get_booster()), "values").numbers(0, np.array([np.inf]))
    with pytest.raises(Declined, match="2\\^53"):
        read_trees(as_model(plain[0]), "values").numbers(0, np.array([2**54 + 2**30 + 1]))
    boosted = xgb.XGBRegressor(n_estimators=2, enable_categorical=True).fit(*frames)
    with pytest.raises(Declined, match="a type other than" if XGBOOST_3_1 else "does not save their codes"):
        read_trees(as_model(boosted), "values").numbers(1, np.array([1, 2], dtype=object))
    boosted = lightgbm(n_estimators=2).fit(*frames)
    with pytest.raises(Declined, match="list"):
        read_trees(as_model(boosted), "values").numbers(1, np.array(["z"], dtype=object))


def test_infinity_is_a_number_to_those_who_take_it():
    X, y = table(0)
    X[::7, 0], X[::11, 0] = np.inf, -np.inf
    agree(HistGradientBoostingRegressor(max_iter=9).fit(X, y), X)
    agree(lightgbm().fit(X, y), X)
    agree(xgb.XGBRegressor(n_estimators=9).fit(X.clip(-9, 9), y), X, tolerance=FLOAT32)
