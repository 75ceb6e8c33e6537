"""Estimators that hold others: exact, or declined with the reason."""

import warnings
from functools import cache
from math import factorial

import catboost
import lightgbm as lgb
import numpy as np
import pytest
import sklearn
import xgboost as xgb
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import TransformedTargetRegressor
from sklearn.decomposition import PCA
from sklearn.ensemble import (
    BaggingClassifier,
    BaggingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
    StackingRegressor,
    VotingClassifier,
    VotingRegressor,
)
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.model_selection import (
    FixedThresholdClassifier,
    GridSearchCV,
    HalvingGridSearchCV,
    RandomizedSearchCV,
    TunedThresholdClassifierCV,
)
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MinMaxScaler,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
)
from sklearn.svm import SVR
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import brute
import losslens as ll
from losslens.cli.model_files import read_model as model_from_file
from losslens.engines.base import Declined
from losslens.engines.choice import read_model
from losslens.models import as_model

N, EXPLAINED = 160, 25


@cache
def data(kind):
    rng = np.random.default_rng(5)
    X = np.column_stack([rng.normal(size=N), rng.integers(0, 4, N), rng.exponential(size=N), rng.normal(size=N)])
    y = X[:, 0] * X[:, 1] + X[:, 2] + 0.3 * rng.normal(size=N)
    of = {"values": y, "positive": np.exp(y / 4), "two": (y > 1).astype(int), "three": np.digitize(y, [0.3, 1.8])}
    return X, of[kind]


def boosted(**options):
    return HistGradientBoostingRegressor(max_iter=8, min_samples_leaf=5, early_stopping=False, **options)


def classifier(**options):
    return HistGradientBoostingClassifier(max_iter=8, min_samples_leaf=5, early_stopping=False, **options)


def light(make=lgb.LGBMRegressor):
    return make(n_estimators=6, min_child_samples=5, verbose=-1, n_jobs=1)


def cat(make=catboost.CatBoostRegressor):
    return make(iterations=6, depth=3, verbose=0, allow_writing_files=False, thread_count=1)


def forest(make=RandomForestRegressor, **options):
    return make(6, random_state=0, **({"max_depth": 4} | options))


def tree(make=DecisionTreeRegressor, **options):
    return make(random_state=0, **options)


def transformed(regressor, **options):
    return TransformedTargetRegressor(regressor, **options)


class Own(DecisionTreeRegressor):
    def predict(self, X):
        return super().predict(X) ** 2


def frozen(model, target):
    return FrozenEstimator(model.fit(*data(target)))


LOGS = {"func": np.log1p, "inverse_func": np.expm1}
CHAIN = make_pipeline(FunctionTransformer(np.log, inverse_func=np.exp), StandardScaler())
SCALED = make_pipeline(StandardScaler(), boosted())

# name: model, target, losses, engine
EXACT = {
    "log of the target": (transformed(boosted(), **LOGS), "positive", ["squared_error", "gamma_deviance"]),
    "log of the target, forest": (transformed(forest(), func=np.log, inverse_func=np.exp), "positive", ["huber"]),
    "power of the target": (transformed(boosted(), transformer=PowerTransformer()), "positive", ["absolute_error"]),
    "quantiles of the target": (
        transformed(light(), transformer=QuantileTransformer(n_quantiles=50)),
        "values",
        ["squared_error"],
    ),
    "scaled target": (transformed(cat(), transformer=RobustScaler()), "values", ["squared_error", "pinball"]),
    "scaled target of XGBoost": (
        transformed(xgb.XGBRegressor(n_estimators=6), transformer=MinMaxScaler()),
        "values",
        ["squared_error"],
    ),
    "steps for the target": (transformed(boosted(), transformer=CHAIN), "positive", ["poisson_deviance"]),
    "a pipeline inside": (transformed(SCALED, **LOGS), "positive", ["squared_error"]),
    "in a pipeline": (make_pipeline(MinMaxScaler(), transformed(SCALED, **LOGS)), "positive", ["squared_error"]),
    "absolute predictions": (
        transformed(boosted(), func=np.positive, inverse_func=np.abs, check_inverse=False),
        "values",
        ["squared_error"],
    ),
    "identity of the target": (transformed(boosted()), "values", ["squared_error"]),
    "searched target": (
        GridSearchCV(transformed(boosted(), **LOGS), {"regressor__max_depth": [2, 3]}, cv=2),
        "positive",
        ["squared_error"],
    ),
    "grid": (GridSearchCV(boosted(), {"max_depth": [2, 3]}, cv=2), "values", ["squared_error"]),
    "random search": (RandomizedSearchCV(tree(), {"max_depth": [2, 3]}, n_iter=1, cv=2), "values", ["absolute_error"]),
    "halving": (
        HalvingGridSearchCV(tree(), {"max_depth": [2, 3]}, cv=2, min_resources=60, factor=2),
        "values",
        ["squared_error"],
    ),
    "frozen": (frozen(boosted(), "values"), "values", ["squared_error"]),
    "sigmoid": (
        CalibratedClassifierCV(frozen(classifier(), "two"), ensemble=False),
        "two",
        ["log_loss", "brier"],
    ),
    "sigmoid of probabilities": (
        CalibratedClassifierCV(frozen(light(lgb.LGBMClassifier), "two"), ensemble=False),
        "two",
        ["log_loss"],
    ),
    "isotonic": (CalibratedClassifierCV(classifier(), method="isotonic", ensemble=False, cv=3), "two", ["brier"]),
    "isotonic forest": (
        CalibratedClassifierCV(forest(RandomForestClassifier), method="isotonic", ensemble=False, cv=2),
        "two",
        ["brier"],
    ),
    "sigmoid, three classes": (CalibratedClassifierCV(classifier(), ensemble=False, cv=2), "three", ["log_loss"]),
    "isotonic, three classes": (
        CalibratedClassifierCV(forest(RandomForestClassifier), method="isotonic", ensemble=False, cv=2),
        "three",
        ["brier"],
    ),
    "five calibrated models": (CalibratedClassifierCV(classifier()), "two", ["log_loss"]),
    "five calibrated forests": (
        CalibratedClassifierCV(forest(RandomForestClassifier), method="isotonic", cv=3),
        "two",
        ["brier"],
    ),
    "calibrated, three classes": (CalibratedClassifierCV(forest(RandomForestClassifier), cv=2), "three", ["log_loss"]),
    "calibrated in a pipeline": (
        make_pipeline(StandardScaler(), CalibratedClassifierCV(classifier(), cv=2)),
        "two",
        ["log_loss"],
    ),
    "threshold": (FixedThresholdClassifier(classifier(), threshold=0.3), "two", ["log_loss"]),
    "tuned threshold": (TunedThresholdClassifierCV(classifier(), cv=2), "two", ["brier"]),
    "bagged trees": (BaggingRegressor(n_estimators=6, random_state=0), "values", ["squared_error", "absolute_error"]),
    "some columns": (BaggingRegressor(boosted(), 4, max_features=0.5, random_state=0), "values", ["squared_error"]),
    "columns with replacement": (
        BaggingRegressor(light(), 3, bootstrap_features=True, random_state=0),
        "values",
        ["squared_error"],
    ),
    "bagged probabilities": (
        BaggingClassifier(tree(DecisionTreeClassifier, max_depth=3), 5, max_features=3, random_state=0),
        "two",
        ["log_loss", "brier"],
    ),
    "bagged, three classes": (
        BaggingClassifier(tree(DecisionTreeClassifier, max_depth=3), 5, random_state=0),
        "three",
        ["log_loss"],
    ),
    "bagged votes": (BaggingClassifier(n_estimators=7, random_state=0), "three", ["zero_one"]),
    "bagged boosting": (BaggingClassifier(classifier(), 3, random_state=0), "two", ["log_loss", "hinge"]),
    "bagged boosting, three classes": (BaggingClassifier(classifier(), 2, random_state=0), "three", ["brier"]),
    "bagged bags": (
        BaggingRegressor(BaggingRegressor(n_estimators=2), 2, max_features=0.75, random_state=0),
        "values",
        ["squared_error"],
    ),
    "voting": (
        VotingRegressor([("a", boosted()), ("b", forest()), ("c", light()), ("d", cat())], weights=[1, 2, 0.5, 3]),
        "values",
        ["squared_error", "huber"],
    ),
    "voting of equals": (
        VotingRegressor([("a", forest()), ("b", forest(max_features=1))]),
        "values",
        ["squared_error"],
    ),
    "voting, one left out": (
        VotingRegressor([("a", boosted()), ("b", "drop"), ("c", forest())], weights=[1, 5, 2]),
        "values",
        ["squared_error"],
    ),
    "voting with logs": (
        VotingRegressor([("a", transformed(boosted(), **LOGS)), ("b", boosted(loss="poisson"))]),
        "positive",
        ["squared_error", "poisson_deviance"],
    ),
    "voting of XGBoost": (
        VotingRegressor([("a", xgb.XGBRegressor(n_estimators=4)), ("b", xgb.XGBRegressor(n_estimators=6))]),
        "values",
        ["squared_error"],
    ),
    "soft voting": (
        VotingClassifier([("a", classifier()), ("b", forest(RandomForestClassifier))], voting="soft", weights=[1, 2]),
        "two",
        ["log_loss", "brier"],
    ),
    "soft voting, three classes": (
        VotingClassifier([("a", light(lgb.LGBMClassifier)), ("b", forest(RandomForestClassifier))], voting="soft"),
        "three",
        ["log_loss"],
    ),
    "voting in a pipeline": (
        make_pipeline(StandardScaler(), VotingRegressor([("a", boosted()), ("b", forest())])),
        "values",
        ["squared_error"],
    ),
    "lines of a scaled target": (
        transformed(LinearRegression(), transformer=StandardScaler()),
        "values",
        ["squared_error", "absolute_error"],
    ),
    "lines of a target between 0 and 1": (
        VotingRegressor([("a", transformed(Ridge(), transformer=MinMaxScaler())), ("b", LinearRegression())]),
        "values",
        ["squared_error"],
    ),
    "log of the target, sums": (
        transformed(make_pipeline(StandardScaler(), Ridge()), func=np.log, inverse_func=np.exp),
        "positive",
        ["squared_error", "gamma_deviance"],
    ),
    "sigmoid of sums": (
        CalibratedClassifierCV(LogisticRegression(), ensemble=False, cv=2),
        "two",
        ["log_loss", "brier"],
    ),
    "log1p of the target, sums": (
        transformed(Ridge(), **LOGS),
        "positive",
        ["squared_error", "absolute_error", "pinball", "huber"],
    ),
    "threshold of sums": (
        FixedThresholdClassifier(LogisticRegression(), threshold=0.3),
        "two",
        ["log_loss", "brier"],
    ),
    "tuned threshold of sums": (TunedThresholdClassifierCV(LogisticRegression(), cv=2), "two", ["log_loss"]),
    "bagged lines": (
        BaggingRegressor(Ridge(), 4, max_features=0.5, random_state=0),
        "values",
        ["squared_error", "absolute_error"],
    ),
    "voting of lines": (
        VotingRegressor([("a", Ridge()), ("b", LinearRegression())], weights=[1, 3]),
        "values",
        ["squared_error", "pinball"],
    ),
}
if tuple(map(int, sklearn.__version__.split(".")[:2])) >= (1, 8):
    temperature = CalibratedClassifierCV(classifier(), method="temperature", ensemble=False, cv=2)
    EXACT["temperature"] = temperature, "two", ["log_loss"]


def engine_of(name):
    words = set(name.split())
    return "link" if "sums" in words else "additive" if "lines" in words else "trees"


RESPONSES = {"log_loss": "predict_proba", "brier": "predict_proba", "hinge": "decision_function"}


def paired(X, j):
    """Row i with column j of row k, as row n i + k."""
    i, k = np.divmod(np.arange(len(X) ** 2), len(X))
    rows = X[i]
    rows[:, j] = X[k, j]
    return rows


@cache
def fitted(name):
    model, target, *_ = EXACT[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of searches and calibrations of few rows
        return model.fit(*data(target))


@pytest.mark.parametrize(("name", "loss"), [(name, loss) for name, case in EXACT.items() for loss in case[2]])
def test_exact(name, loss):
    model, (X, y) = fitted(name), (part[:EXPLAINED] for part in data(EXACT[name][1]))
    imp = ll.feature_importance(model, X, y, loss=loss, progress=False)
    predict = getattr(model, RESPONSES.get(loss, "predict"))
    loss_of = brute.LOSSES[loss]
    tolerance = 1e-5 if "XGBoost" in name else 1e-9
    own = loss_of(y, predict(X))
    for j, one in enumerate(imp.values()):
        assert (one.engine, one.exact, one.declined) == (
            engine_of(name),
            True,
            "",
        )
        cells = loss_of(np.repeat(y, EXPLAINED), predict(paired(X, j))).reshape(EXPLAINED, EXPLAINED) - own[:, None]
        scale = own.mean() + np.abs(cells).mean()
        np.testing.assert_allclose(one.local, cells.mean(axis=1), rtol=tolerance, atol=tolerance * scale)
        assert one.pfi == pytest.approx(cells.mean(), rel=tolerance, abs=tolerance * scale)


DECLINED = {
    "a threshold of their own": (FixedThresholdClassifier(classifier(), threshold=0.3), "two", "zero_one"),
    "each with steps of its own": (VotingRegressor([("a", SCALED), ("b", forest())]), "values", "squared_error"),
    "several outputs": (transformed(forest()), "pair", "squared_error"),
    "lambda": (transformed(boosted(), func=np.log, inverse_func=lambda y: np.exp(1 * y)), "positive", "squared_error"),
    "not known to work value by value": (
        transformed(boosted(), func=np.sort, inverse_func=np.sort, check_inverse=False),
        "positive",
        "squared_error",
    ),
    "PCA of its target": (transformed(boosted(), transformer=PCA()), "values", "squared_error"),
    "different kinds": (VotingRegressor([("a", boosted()), ("b", Ridge())]), "values", "squared_error"),
    "no reader for the values of MLPRegressor": (
        VotingRegressor([("a", boosted()), ("b", MLPRegressor(max_iter=1))]),
        "values",
        "squared_error",
    ),
    "StackingRegressor": (StackingRegressor([("a", tree())], tree(), cv=2), "values", "squared_error"),
    "ties": (
        VotingClassifier([("a", classifier()), ("b", forest(RandomForestClassifier))], voting="soft"),
        "three",
        "zero_one",
    ),
    "are broken": (CalibratedClassifierCV(classifier(), cv=2), "two", "zero_one"),
    "'link'": (VotingClassifier([("a", LogisticRegression())], voting="soft"), "two", "log_loss"),
    "'products'": (VotingRegressor([("a", SVR()), ("b", SVR())]), "values", "squared_error"),
    "is not a class of the library": (transformed(Own()), "values", "squared_error"),
}


@pytest.mark.parametrize("reason", DECLINED)
def test_declined(reason):
    """What can't be read is answered by the model itself, and `declined` says why."""
    model, target, loss = DECLINED[reason]
    X, y = data("values" if target == "pair" else target)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, np.column_stack([y, y]) if target == "pair" else y)
    if target == "pair":
        with pytest.raises(Declined, match=reason):
            read_model(as_model(model), "values")
        return
    X, y = X[:12], y[:12]
    one = ll.feature_importance(model, X, y, loss=loss, features="x0", donors="all", progress=False)["x0"]
    assert one.engine == "blackbox"
    assert reason in one.declined


def test_a_wrapper_that_is_not_fitted():
    for model in (transformed(boosted()), CalibratedClassifierCV(classifier()), BaggingRegressor()):
        with pytest.raises(Declined, match="can't be read"):
            read_model(as_model(model), "values")


def test_a_replaced_method_inside_a_wrapper():
    model = transformed(boosted(), **LOGS).fit(*data("positive"))
    model.regressor_.predict = lambda X: X[:, 0]
    with pytest.raises(Declined, match="was replaced in this object"):
        read_model(as_model(model), "values")


def test_models_of_a_mean_that_lack_a_class():
    X, y = data("three")
    model = BaggingClassifier(n_estimators=2, random_state=0).fit(X, y)
    model.estimators_[0] = DecisionTreeClassifier().fit(X[y < 2], y[y < 2])
    with pytest.raises(Declined, match="without one of the classes"):
        read_model(as_model(model), "probabilities")


def test_shapley_importances_of_wrappers():
    """Sums inside any link: all coalitions of all pairs, against the model's own predictions."""
    for name in ("log of the target", "absolute predictions", "voting", "five calibrated forests"):
        model, target = fitted(name), EXACT[name][1]
        X, y = (part[:6] for part in data(target))
        loss = EXACT[name][2][0]
        predict, loss_of = getattr(model, RESPONSES.get(loss, "predict")), brute.LOSSES[loss]
        errors = np.empty(16)
        for bits in range(16):
            i, k = np.divmod(np.arange(36), 6)
            rows = np.where(bits >> np.arange(4) & 1, X[i], X[k])
            errors[bits] = loss_of(y[i], predict(rows)).mean()
        shares = ll.shapley_importance(model, X, y, loss=loss, progress=False)
        expected = [
            sum(
                factorial(s.bit_count()) * factorial(3 - s.bit_count()) / 24 * (errors[s] - errors[s | 1 << j])
                for s in range(16)
                if not s >> j & 1
            )
            for j in range(4)
        ]
        assert shares.exact
        np.testing.assert_allclose(shares.sfimp, expected, rtol=0, atol=1e-9 * errors.max())


@pytest.mark.parametrize(
    "name",
    [
        *("searched target", "tuned threshold", "five calibrated forests", "bagged votes", "voting", "threshold"),
        *("threshold of sums", "log1p of the target, sums"),
    ],
)
def test_skops_files(name, tmp_path):
    """As `test_exact`, after a way through a file; trusting what the message names."""
    io = pytest.importorskip("skops.io")
    model, target, (loss, *_) = fitted(name), *EXACT[name][1:]
    path = str(tmp_path / "model.skops")
    io.dump(model, path)
    names = []
    if name in (
        "threshold of sums",
        "log1p of the target, sums",
    ):  # scikit-learn's public classes and NumPy's functions
        model_from_file(path)
    else:
        with pytest.raises(ValueError, match="if you trust them, add --trust-type") as refused:
            model_from_file(path)
        names = str(refused.value).partition("--trust-type ")[2].split(" --trust-type ")
    X, y = (part[:EXPLAINED] for part in data(target))
    told, known = (
        ll.feature_importance(one, X, y, loss=loss, progress=False)
        for one in (model_from_file(path, trusted=names), model)
    )
    assert told["x0"].engine == engine_of(name)
    assert [one.pfi for one in told.values()] == [one.pfi for one in known.values()]
