"""The table of docs/engines.md: each model is answered by the engine that the table names, exactly, under its default
loss and others, and a plan names the same engine; what no engine takes has a reason."""

import re
from functools import cache
from pathlib import Path

import catboost
import lightgbm as lgb
import numpy as np
import pytest
import xgboost as xgb
from sklearn import calibration, ensemble, model_selection, naive_bayes, neighbors, neural_network, svm, tree
from sklearn import linear_model as linear
from sklearn.compose import TransformedTargetRegressor
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.frozen import FrozenEstimator
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, Matern, WhiteKernel
from sklearn.kernel_approximation import Nystroem
from sklearn.kernel_ridge import KernelRidge
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import KBinsDiscretizer, PolynomialFeatures, SplineTransformer, StandardScaler

import losslens as ll

PAGE = Path(__file__).parents[2] / "docs" / "engines.md"
RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3))
VALUES = np.exp(X[:, 0] + X[:, 1] * X[:, 2] / 2 + 0.3 * RNG.normal(size=40))
TARGETS = {"values": VALUES, "two": np.digitize(VALUES, [1]), "three": np.digitize(VALUES, [0.6, 1.6])}

ON_VALUES = (None, "absolute_error", ll.losses.huber(0.5))
OF_CLASSES = (None, "brier", "zero_one")
DEVIANCES = ("squared_error", "poisson_deviance", "gamma_deviance")
SMALL = tree.DecisionTreeRegressor(max_depth=2, random_state=0)
LOGISTIC = linear.LogisticRegression()
SILENT = {"iterations": 3, "verbose": False, "thread_count": 1, "allow_writing_files": False}
FEW = {"n_estimators": 3, "n_jobs": 1}
HISTOGRAMS = {"max_iter": 3, "min_samples_leaf": 5}

# model, target, engine of the default loss, losses; a loss with an engine of its own comes with it
EXACT = {
    "tree": (SMALL, "values", "trees", ON_VALUES),
    "tree of classes": (tree.DecisionTreeClassifier(max_depth=2), "three", "trees", OF_CLASSES),
    "extra tree": (tree.ExtraTreeRegressor(max_depth=2), "values", "trees", ON_VALUES),
    "extra tree of classes": (tree.ExtraTreeClassifier(max_depth=2), "two", "trees", OF_CLASSES),
    "forest": (ensemble.RandomForestRegressor(3), "values", "trees", ON_VALUES),
    "forest of classes": (ensemble.RandomForestClassifier(3, min_samples_leaf=3), "three", "trees", OF_CLASSES[:2]),
    "extra trees": (ensemble.ExtraTreesRegressor(3), "values", "trees", ON_VALUES),
    "extra trees of classes": (ensemble.ExtraTreesClassifier(3), "two", "trees", OF_CLASSES),
    "gradient boosting": (ensemble.GradientBoostingRegressor(n_estimators=3), "values", "trees", ON_VALUES),
    "its classes": (ensemble.GradientBoostingClassifier(n_estimators=3), "two", "trees", OF_CLASSES),
    "histograms": (ensemble.HistGradientBoostingRegressor(**HISTOGRAMS), "values", "trees", ON_VALUES),
    "their classes": (ensemble.HistGradientBoostingClassifier(**HISTOGRAMS), "two", "trees", OF_CLASSES),
    "XGBoost": (xgb.XGBRegressor(**FEW), "values", "trees", ON_VALUES),
    "XGBoost, classes": (xgb.XGBClassifier(**FEW), "two", "trees", OF_CLASSES),
    "LightGBM": (lgb.LGBMRegressor(verbose=-1, **FEW), "values", "trees", ON_VALUES),
    "LightGBM, classes": (lgb.LGBMClassifier(verbose=-1, **FEW), "two", "trees", OF_CLASSES),
    "CatBoost": (catboost.CatBoostRegressor(**SILENT), "values", "trees", ON_VALUES),
    "CatBoost, classes": (catboost.CatBoostClassifier(**SILENT), "two", "trees", OF_CLASSES),
    "bagging": (ensemble.BaggingRegressor(SMALL, 3, max_features=2), "values", "trees", ON_VALUES),
    "bagging of lines": (ensemble.BaggingRegressor(linear.Ridge(), 3), "values", "additive", ON_VALUES),
    "bagged classes": (ensemble.BaggingClassifier(n_estimators=3), "two", "trees", OF_CLASSES),
    "voting": (ensemble.VotingRegressor([("a", SMALL), ("b", SMALL)]), "values", "trees", ON_VALUES),
    "votes": (
        ensemble.VotingClassifier([("a", tree.DecisionTreeClassifier())], voting="soft"),
        "two",
        "trees",
        OF_CLASSES[:2],
    ),
    "transformed": (
        TransformedTargetRegressor(SMALL, func=np.log, inverse_func=np.exp),
        "values",
        "trees",
        ("poisson_deviance", *ON_VALUES),
    ),
    "transformed line": (
        TransformedTargetRegressor(linear.Ridge(), func=np.log, inverse_func=np.exp),
        "values",
        "link",
        (*ON_VALUES, *DEVIANCES),
    ),
    "log(1 + y) of a line": (
        TransformedTargetRegressor(linear.Ridge(), func=np.log1p, inverse_func=np.expm1),
        "values",
        "link",
        ON_VALUES,
    ),
    "threshold of a line": (
        model_selection.FixedThresholdClassifier(LOGISTIC, threshold=0.4),
        "two",
        "link",
        OF_CLASSES[:2],
    ),
    "tuned line": (model_selection.TunedThresholdClassifierCV(LOGISTIC, cv=2), "two", "link", OF_CLASSES[:2]),
    "searched line": (model_selection.GridSearchCV(LOGISTIC, {"C": [1.0]}, cv=2), "two", "link", OF_CLASSES),
    "calibrated": (
        calibration.CalibratedClassifierCV(ensemble.HistGradientBoostingClassifier(**HISTOGRAMS), cv=2),
        "two",
        "trees",
        OF_CLASSES[:2],
    ),
    "threshold": (
        model_selection.FixedThresholdClassifier(ensemble.HistGradientBoostingClassifier(**HISTOGRAMS), threshold=0.3),
        "two",
        "trees",
        OF_CLASSES[:2],
    ),
    "tuned": (
        model_selection.TunedThresholdClassifierCV(ensemble.HistGradientBoostingClassifier(**HISTOGRAMS), cv=2),
        "two",
        "trees",
        OF_CLASSES[:2],
    ),
    "search": (model_selection.GridSearchCV(SMALL, {"max_depth": [2]}, cv=2), "values", "trees", ON_VALUES),
    "frozen": (FrozenEstimator(SMALL.fit(X, VALUES)), "values", "trees", ON_VALUES),
    "least squares": (linear.LinearRegression(), "values", "additive", ON_VALUES),
    "ridge": (linear.Ridge(), "values", "additive", (*ON_VALUES, ll.losses.pinball(0.2))),
    "lasso": (linear.Lasso(0.01), "values", "additive", ON_VALUES),
    "elastic net": (linear.ElasticNet(0.01), "values", "additive", ON_VALUES),
    "splines": (make_pipeline(SplineTransformer(), linear.Ridge()), "values", "additive", ON_VALUES),
    "bins": (
        make_pipeline(KBinsDiscretizer(3, strategy="uniform"), linear.Ridge()),
        "values",
        "additive",
        ON_VALUES,
    ),
    "logistic": (LOGISTIC, "two", "link", (*OF_CLASSES, ("additive", "hinge"))),
    "behind scales": (make_pipeline(StandardScaler(), LOGISTIC), "two", "link", OF_CLASSES),
    "gradient descent": (linear.SGDClassifier(loss="log_loss", random_state=0), "two", "link", OF_CLASSES),
    "discriminant": (LinearDiscriminantAnalysis(), "two", "link", OF_CLASSES),
    "calibrated line": (
        calibration.CalibratedClassifierCV(svm.LinearSVC(), ensemble=False, cv=2),
        "two",
        "link",
        OF_CLASSES[:2],
    ),
    "linear machine": (svm.LinearSVC(), "two", "link", (("additive", "hinge"), "zero_one")),
    "naive Bayes": (naive_bayes.GaussianNB(), "two", "link", OF_CLASSES),
    "Bernoulli": (naive_bayes.BernoulliNB(), "two", "link", OF_CLASSES),
    "Poisson": (linear.PoissonRegressor(), "values", "link", (*ON_VALUES, *DEVIANCES)),
    "gamma": (linear.GammaRegressor(), "values", "link", (*ON_VALUES, *DEVIANCES)),
    "Tweedie": (linear.TweedieRegressor(power=1.5), "values", "link", (*ON_VALUES, ll.losses.tweedie_deviance(1.5))),
    "machine": (svm.SVR(), "values", "products", ON_VALUES),
    "machine, scores": (svm.SVC(), "two", "products", ("hinge",)),
    "kernel ridge": (KernelRidge(kernel="rbf"), "values", "products", ON_VALUES),
    "process": (
        GaussianProcessRegressor(RBF([1.0, 2.0, 3.0]) + RBF() + WhiteKernel(), optimizer=None),
        "values",
        "products",
        ON_VALUES,
    ),
}
NOT_INSTALLED = {"ExplainableBoostingRegressor", "ExplainableBoostingClassifier"}  # and results of statsmodels
STACKED = ensemble.StackingRegressor([("a", SMALL)], cv=2)
SAMPLED = {
    "Matern": (GaussianProcessRegressor(Matern(), optimizer=None), "values", None),
    "neighbours": (neighbors.KNeighborsRegressor(), "values", None),
    "network": (neural_network.MLPRegressor(hidden_layer_sizes=[2], solver="lbfgs", tol=1.0), "values", None),
    "stacking": (STACKED, "values", None),
    "AdaBoost": (ensemble.AdaBoostRegressor(n_estimators=2), "values", None),
    "machine's labels": (svm.SVC(), "two", "zero_one"),
    "own transformation": (
        TransformedTargetRegressor(SMALL, func=np.cbrt, inverse_func=lambda y: y**3),
        "values",
        None,
    ),
    "several classes": (linear.LogisticRegression(), "three", None),
    "against the rest": (OneVsRestClassifier(linear.LogisticRegression()), "three", "brier"),
    "naive Bayes, three": (naive_bayes.GaussianNB(), "three", "zero_one"),
    "bagging of odds": (ensemble.BaggingClassifier(LOGISTIC, 3), "two", None),
    "voting of odds": (
        ensemble.VotingClassifier([("a", LOGISTIC), ("b", LinearDiscriminantAnalysis())], voting="soft"),
        "two",
        "brier",
    ),
    "calibrated lines": (calibration.CalibratedClassifierCV(svm.LinearSVC(), cv=2), "two", None),
    "polynomial odds": (make_pipeline(PolynomialFeatures(), LOGISTIC), "two", None),
    "polynomial": (make_pipeline(PolynomialFeatures(), linear.Ridge()), "values", None),
    "Nystroem": (make_pipeline(Nystroem(n_components=5), linear.Ridge()), "values", None),
    "threshold's labels": (model_selection.FixedThresholdClassifier(LOGISTIC, threshold=0.4), "two", "zero_one"),
    "trees and lines": (ensemble.VotingRegressor([("a", SMALL), ("b", linear.Ridge())]), "values", None),
}


@cache
def fitted(name):
    model, kind = (EXACT | SAMPLED)[name][:2]
    return model if isinstance(model, FrozenEstimator) else model.fit(X, TARGETS[kind]), TARGETS[kind]


def parts(model):
    """The names of its class and those of its steps and of models inside."""
    inside = [value for value in model.get_params().values() if hasattr(value, "get_params")]
    return {type(model).__name__, *(type(one).__name__ for one in inside)}


@pytest.mark.thread_unsafe(reason="models that all threads share are fitted")
@pytest.mark.parametrize("name", EXACT)
def test_the_engine_is_that_of_the_table_and_of_the_plan(name):
    """No predictions but those of the comparison with the model: at most one a row here."""
    model, y = fitted(name)
    for entry in EXACT[name][3]:
        engine, loss = entry if isinstance(entry, tuple) else (EXACT[name][2], entry)
        found = ll.feature_importance(model, X, y, loss=loss)
        assert (found.engine, found.exact, found.declined) == (engine, True, {}), loss
        assert not any(one.declined for one in found.values())
        assert found.n_predictions <= len(X)
        assert ll.plan(ll.feature_importance, model, X, y, loss=loss).engine == engine


@pytest.mark.thread_unsafe(reason="models that all threads share are fitted")
@pytest.mark.parametrize("name", SAMPLED)
def test_where_no_engine_answers_each_feature_has_a_reason(name):
    model, y = fitted(name)
    found = ll.feature_importance(model, X, y, loss=SAMPLED[name][2], donors=ll.Latin(2))
    automatic = ll.feature_importance(model, X, y, loss=SAMPLED[name][2])
    assert not found.exact
    for each in (found, automatic):
        assert (each.engine, len(each.declined)) == ("blackbox", X.shape[1])
        assert all(each.declined.values())
    assert ll.plan(ll.feature_importance, model, X, y, loss=SAMPLED[name][2]).engine == "blackbox"


def test_every_model_of_the_table_is_asked_here():
    """Class names in the first column, the engines in the second."""
    text = PAGE.read_text(encoding="utf-8").partition("| model | engine |")[2].partition("\n\n")[0]
    rows = [line.split("|")[1:3] for line in text.splitlines()[2:]]
    asked = {(part, engine) for model, _, engine, _ in EXACT.values() for part in parts(model)}
    for models, engines in rows[:-1]:
        for name in set(re.findall(r"`([A-Z]\w+)`", models)) - NOT_INSTALLED:
            assert asked & {(name, engine) for engine in re.findall(r"`(\w+)`", engines)}, name
    assert len(rows) >= 20
    assert rows[-1][1].strip() == "`blackbox`"
