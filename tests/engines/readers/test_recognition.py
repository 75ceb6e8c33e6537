"""Code of the user's own is never read: at no level of a model, whether in a class, an object or a patched class.

The oracle is the model itself, called as a bare function, of which no engine can read anything.
"""

import re
from functools import partial, wraps
from pathlib import Path

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
import sklearn
import xgboost as xgb
from sklearn import calibration, compose, dummy, ensemble, model_selection, multioutput, pipeline, preprocessing
from sklearn import linear_model as linear
from sklearn.feature_selection import SelectKBest, f_regression
from sklearn.frozen import FrozenEstimator
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.svm import SVR
from sklearn.tree import DecisionTreeRegressor
from tests.oldest import constraints

import losslens as ll
from losslens.engines.base import Declined
from losslens.engines.readers import recognition
from losslens.engines.readers.recognition import class_names, kind_of, kinds_of

RNG = np.random.default_rng(0)
A = RNG.normal(size=40)
X = np.column_stack([A, RNG.normal(size=40) / 9 - A, RNG.normal(size=40)])  # pairs lie where no row does
Y = 3 * X[:, 0] + 3 * X[:, 1] + X[:, 2] ** 2


def floored(said):
    """Predictions with a floor that no row of the table is below, but many pairs are."""

    def predict(self, X, *more, **options):
        return np.maximum(said(self, X, *more, **options), -2.0)

    return predict


class MyLinear(linear.LinearRegression):
    predict = floored(linear.LinearRegression.predict)


class MyTree(DecisionTreeRegressor):
    predict = floored(DecisionTreeRegressor.predict)


class MyScaler(preprocessing.StandardScaler):
    def transform(self, X, copy=None):
        return np.maximum(super().transform(X, copy), -1.0)


class MyMean(dummy.DummyRegressor):
    def predict(self, X, return_std=False):
        return X[:, 0].astype(float)


class MySelector(SelectKBest):
    def transform(self, X):
        return np.maximum(super().transform(X), -1.0)


class MyBooster(xgb.Booster):
    def inplace_predict(self, data, *more, **options):
        return floored(xgb.Booster.inplace_predict)(self, data, *more, **options)


class MyKernel(RBF):
    def __call__(self, X, Y=None, eval_gradient=False):
        return super().__call__(X, Y, eval_gradient)


def shadowed(model, name, part=lambda model: model):
    """The same model, a part of which has a method of its own."""
    thing = part(model)
    said = getattr(thing, name)
    setattr(thing, name, lambda X, *more, **options: np.maximum(said(X, *more, **options), -0.5))
    return model


def steps(*steps):
    return pipeline.make_pipeline(*steps).fit(X, Y)


def with_first_tree(model, tree):
    model.estimators_[0] = tree
    return model


def with_booster(model):
    model._Booster.__class__ = MyBooster
    return model


FOREST = partial(ensemble.RandomForestRegressor, 3, random_state=0)
RIDGES = partial(model_selection.GridSearchCV, linear.Ridge(), {"alpha": [1.0]}, cv=2)
SCALER = preprocessing.StandardScaler
SCALED = partial(compose.make_column_transformer, remainder="passthrough")
BOOSTER = partial(lgb.LGBMRegressor, n_estimators=3, verbose=-1)
LEVELS = {
    "consensus of a class": lambda: linear.RANSACRegressor(MyLinear(), random_state=0).fit(X, Y),
    "consensus of an object": lambda: shadowed(
        linear.RANSACRegressor(random_state=0).fit(X, Y), "predict", lambda model: model.estimator_
    ),
    "search of a class": lambda: model_selection.GridSearchCV(MyTree(), {"max_depth": [3]}, scoring="r2", cv=2).fit(
        X, Y
    ),
    "search of an object": lambda: shadowed(RIDGES().fit(X, Y), "predict", lambda model: model.best_estimator_),
    "search with its own predict": lambda: shadowed(RIDGES().fit(X, Y), "predict"),
    "frozen": lambda: FrozenEstimator(MyLinear().fit(X, Y)),
    "last step": lambda: steps(SCALER(), MyLinear()),
    "first step of a class": lambda: steps(MyScaler(), linear.LinearRegression()),
    "first step of an object": lambda: shadowed(steps(SCALER(), FOREST()), "transform", lambda model: model[0]),
    "step of a pipeline in a pipeline": lambda: steps(pipeline.make_pipeline(MyScaler()), SVR()),
    "selector": lambda: steps(MySelector(f_regression, k=2), linear.LinearRegression()),
    "column transformer": lambda: steps(SCALED((MyScaler(), [0, 1])), FOREST()),
    "part of a column transformer": lambda: shadowed(
        steps(SCALED((SCALER(), [0, 1])), linear.Ridge()), "transform", lambda model: model[0].transformers_[0][1]
    ),
    "union": lambda: steps(pipeline.make_union(MyScaler(), preprocessing.MinMaxScaler()), linear.LinearRegression()),
    "tree of a forest": lambda: with_first_tree(FOREST().fit(X, Y), MyTree().fit(X, Y)),
    "tree object of a forest": lambda: shadowed(FOREST().fit(X, Y), "predict", lambda model: model.estimators_[1]),
    "start of boosting": lambda: ensemble.GradientBoostingRegressor(init=MyMean(), n_estimators=3).fit(X, Y),
    "subclass": lambda: MyTree().fit(X, Y),
    "object": lambda: shadowed(SVR().fit(X, Y), "predict"),
    "private method": lambda: shadowed(linear.Ridge().fit(X, Y), "_decision_function"),
    "booster": lambda: with_booster(xgb.XGBRegressor(n_estimators=3).fit(X, Y)),
    "booster object": lambda: shadowed(BOOSTER().fit(X, Y), "predict", lambda model: model.booster_),
    "kernel": lambda: GaussianProcessRegressor(ConstantKernel() * MyKernel(), alpha=0.1, optimizer=None).fit(X, Y),
    "transformed target": lambda: compose.TransformedTargetRegressor(MyLinear()).fit(X, Y),
    "stacking": lambda: ensemble.StackingRegressor([("a", MyLinear())], linear.Ridge()).fit(X, Y),
    "bagging": lambda: ensemble.BaggingRegressor(MyTree(), n_estimators=3, random_state=0).fit(X, Y),
    "voting": lambda: ensemble.VotingRegressor([("a", MyLinear()), ("b", DecisionTreeRegressor())]).fit(X, Y),
}


@pytest.mark.parametrize("level", LEVELS)
def test_code_of_the_users_own_is_asked_at_every_level(level):
    model = LEVELS[level]()
    found = ll.feature_importance(model, X, Y, loss="squared_error")
    truth = ll.feature_importance(model.predict, X, Y, loss="squared_error")
    assert found.engine == "blackbox"
    assert all(one.declined for one in found.values())
    assert [one.pfi for one in found.values()] == [one.pfi for one in truth.values()]


LINEAR_BASE = next(cls for cls in linear.LinearRegression.__mro__ if "_decision_function" in vars(cls))


@pytest.mark.parametrize(
    ("last", "cls", "name"),
    [
        (linear.LinearRegression, linear.LinearRegression, "predict"),
        (linear.LinearRegression, LINEAR_BASE, "_decision_function"),
        (DecisionTreeRegressor, DecisionTreeRegressor, "predict"),
        (ensemble.RandomForestRegressor, ensemble.RandomForestRegressor, "predict"),
        (SVR, SVR, "predict"),
        (linear.LinearRegression, preprocessing.StandardScaler, "transform"),
    ],
    ids=lambda one: getattr(one, "__name__", one),
)
def test_a_patched_class_is_asked(last, cls, name, monkeypatch):
    """Also where the new method claims the name and the module of the old one."""
    model = steps(preprocessing.StandardScaler(), last())
    assert ll.feature_importance(model, X, Y).engine != "blackbox"
    old = getattr(cls, name)
    monkeypatch.setattr(cls, name, wraps(old)(floored(old)))
    found = ll.feature_importance(model, X, Y)
    assert found.engine == "blackbox"
    assert f"{name} of {cls.__name__} was replaced" in found["x0"].declined


@pytest.mark.parametrize(
    ("oldest", "newest", "read"),
    [
        *(("1.6", "1.8", True), ("1.0", "1.0", True), ("1.10", "2.1", False), ("0.2", "0.9", False)),
        *(("2.0", "2.3", False),),
    ],
)
def test_releases_that_no_test_has_seen_are_asked(oldest, newest, read, monkeypatch):
    """Of scikit-learn 1.9: read from the oldest tested release on, and up to a change of the first number."""
    monkeypatch.setattr(sklearn, "__version__", "1.9.1")
    monkeypatch.setitem(recognition.TESTED, "sklearn", (oldest, newest))
    found = ll.feature_importance(linear.Ridge().fit(X, Y), X, Y)["x0"]
    assert (found.engine == "additive") == read
    assert found.declined == ("" if read else f"models of sklearn 1.9.1 are not read: tested was {oldest} to {newest}")


def test_a_release_after_0_may_store_something_else(monkeypatch):
    for release, read in (("0.7.8", True), ("0.8.0", False), ("0.6.11", False), ("1.0", False), ("?", False)):
        monkeypatch.setattr(sklearn, "__version__", release)
        monkeypatch.setitem(recognition.TESTED, "sklearn", ("0.7", "0.7"))
        found = ll.feature_importance(linear.Ridge().fit(X, Y), X, Y)["x0"]
        assert (found.engine == "additive") == read


def test_the_tested_releases_are_those_of_the_tests_and_of_the_docs():
    """The oldest are the lower bounds of `pyproject.toml`, which `make test-oldest` installs."""
    names = {"sklearn": "scikit-learn", "xgboost": "xgboost-cpu"}
    oldest = dict(line.split("==") for line in constraints())
    page = (Path(__file__).parents[3] / "docs" / "engines.md").read_text(encoding="utf-8")
    for library, (first, last) in recognition.TESTED.items():
        if (bound := oldest.get(names.get(library, library))) is not None:
            assert (*map(int, bound.split(".")[:2]),) == recognition._numbers(first)
        told = first if first == last else f"{first} to {last}"
        assert re.search(rf"(?i){names.get(library, library).removesuffix('-cpu')} {re.escape(told)}\b", page), library


def test_properties_that_pandas_keeps_are_those_of_the_library():
    """As those of statsmodels 0.14: the function inside says whose they are."""
    properties = pytest.importorskip("pandas._libs.properties")
    assert recognition._is_of_a_library(properties.cache_readonly(linear.Ridge.predict))
    assert not recognition._is_of_a_library(properties.cache_readonly(floored))
    assert not recognition._is_of_a_library(pd.Series([1]))


def test_classifiers_and_several_outputs_are_asked():
    labels, two = (Y > 0).astype(int), np.column_stack([Y, -Y])
    calibrated = calibration.CalibratedClassifierCV(linear.LogisticRegression(), method="isotonic", cv=2)
    calibrated.fit(X, labels)
    assert ll.feature_importance(calibrated, X, labels).engine == "blackbox"
    shadow = shadowed(ensemble.RandomForestClassifier(3, random_state=0).fit(X, labels), "predict_proba")
    assert ll.feature_importance(shadow, X, labels, loss="zero_one").engine == "blackbox"
    several = multioutput.MultiOutputRegressor(MyLinear()).fit(X, two)
    with pytest.raises(ValueError, match="multi-output"):
        ll.feature_importance(several, X, Y, loss="squared_error")


def test_methods_on_which_no_prediction_depends_may_be_replaced(monkeypatch):
    """Tools that record fits replace them."""
    old, fits = linear.LinearRegression.fit, []
    monkeypatch.setattr(linear.LinearRegression, "fit", lambda self, X, y: fits.append(X) or old(self, X, y))
    model = linear.LinearRegression().fit(X, Y)
    model.score = None
    assert ll.feature_importance(model, X, Y).engine == "additive"


def test_recognition_names_the_class_or_says_why_not():
    assert class_names(linear.Lasso())[:2] == ["sklearn.Lasso", "sklearn.ElasticNet"]
    assert kind_of(xgb.Booster()) == "xgboost.Booster"
    assert kinds_of([linear.Ridge(), linear.Ridge(), SVR()]) == {"sklearn.Ridge", "sklearn.SVR"}
    mine = type("Mine", (), {"__module__": "sklearn_extra"})()
    spoofed = type("Ridge", (linear.Ridge,), {"__module__": "sklearn.linear_model", "predict": MyLinear.predict})()
    others = {
        "a function can be called": [len, np.exp, partial(max, 1), lambda X: X],
        "no reader for Mine of sklearn_extra": [mine],
        "MyTree, derived from DecisionTreeRegressor": [MyTree()],
        "predict of Ridge was replaced in the class": [spoofed],
        "predict of a Ridge was replaced in this object": [shadowed(linear.Ridge(), "predict")],
    }
    for reason, things in others.items():
        for thing in things:
            with pytest.raises(Declined, match=reason):
                class_names(thing)
