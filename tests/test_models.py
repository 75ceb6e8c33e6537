"""Every kind of model gives what its own library gives; everything else is refused with a reason."""

import pickle
import subprocess
import sys
import threading
from decimal import Decimal
from functools import partial

import cloudpickle
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from joblib import Parallel, delayed
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.cluster import KMeans
from sklearn.compose import TransformedTargetRegressor, make_column_transformer
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import IsolationForest, RandomForestClassifier, RandomForestRegressor, VotingClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import GridSearchCV
from sklearn.multioutput import MultiOutputClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC, SVR, LinearSVC

from losslens import feature_effect, feature_importance, losses
from losslens.models import Model, as_model

N = 60
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 3))
Y = X[:, 0] + RNG.normal(scale=0.1, size=N)
BINARY = (Y > 0).astype(int)
WORDS = np.array(["low", "mid", "top"])[np.digitize(Y, [-0.5, 0.5])]
THREE = np.digitize(Y, [-0.5, 0.5])
FRAME = pd.DataFrame(X, columns=list("abc"))
# The category decides the target, so a model that reads wrong codes is far off.
LETTERS = RNG.choice(list("xyz"), N)
MIXED = pd.DataFrame({"a": X[:, 0], "c": pd.Categorical(LETTERS)})
CATEGORICAL_Y = np.where(LETTERS == "y", 3.0, 0.0)


def respond(model, response, table=X):
    return as_model(model).responder(response)(table)


def all_tables(frame):
    """The frame in each library; only the last two rows, so that not every category is seen."""
    tail = frame.tail(2).reset_index(drop=True)
    yield tail
    yield pl.from_pandas(tail)
    if "c" in frame and frame["c"].dtype == "category":
        reversed_levels = tail.assign(c=tail["c"].cat.reorder_categories(list("zyx")))
        yield reversed_levels
        yield pl.from_pandas(tail).with_columns(pl.col("c").cast(pl.Enum(list("zyx"))))
        yield pa.Table.from_pandas(reversed_levels, preserve_index=False)
    yield pa.Table.from_pandas(tail, preserve_index=False)


# scikit-learn.


def test_regressor():
    forest = RandomForestRegressor(5, random_state=0).fit(X, Y)
    model = as_model(forest)
    assert (model.name, model.kind, model.classes) == ("RandomForestRegressor", "regressor", None)
    assert list(model.responses) == ["values"]
    assert model.native is forest
    np.testing.assert_array_equal(model.responder("values")(X), forest.predict(X))


def test_classifier():
    logistic = LogisticRegression().fit(X, WORDS)
    model = as_model(logistic)
    assert model.kind == "classifier"
    assert list(model.classes) == ["low", "mid", "top"]
    assert list(model.responses) == ["labels", "probabilities", "scores"]
    np.testing.assert_array_equal(model.responder("labels")(X), logistic.predict(X))
    np.testing.assert_array_equal(model.responder("probabilities")(X), logistic.predict_proba(X))
    np.testing.assert_array_equal(model.responder("scores")(X), logistic.decision_function(X))
    assert respond(LogisticRegression().fit(X, BINARY), "scores").shape == (N,)


@pytest.mark.parametrize(
    ("estimator", "responses"),
    [
        (make_pipeline(StandardScaler(), LogisticRegression()), {"labels", "probabilities", "scores"}),
        (make_pipeline(StandardScaler(), LinearSVC()), {"labels", "scores"}),
        (GridSearchCV(SVC(), {"C": [1, 2]}, cv=2), {"labels", "scores"}),
        (GridSearchCV(RandomForestClassifier(3), {"max_depth": [1, 2]}, cv=2), {"labels", "probabilities"}),
        (VotingClassifier([("a", LogisticRegression())]), {"labels"}),
        (VotingClassifier([("a", LogisticRegression())], voting="soft"), {"labels", "probabilities"}),
        (CalibratedClassifierCV(LinearSVC(), cv=2), {"labels", "probabilities"}),
        (
            make_pipeline(GridSearchCV(LogisticRegression(), {"C": [1]})),
            {"labels", "probabilities", "scores"},
        ),
    ],
)
def test_delegating_classifiers(estimator, responses):
    model = as_model(estimator.fit(X, BINARY))
    assert model.kind == "classifier"
    assert list(model.classes) == [0, 1]
    assert set(model.responses) == responses
    for response in responses:
        assert len(model.responder(response)(X)) == N


@pytest.mark.parametrize(
    "estimator",
    [
        make_pipeline(StandardScaler(), SVR()),
        GridSearchCV(SVR(), {"C": [1, 2]}, cv=2),
        TransformedTargetRegressor(LinearRegression(), func=np.sinh, inverse_func=np.arcsinh),
        make_pipeline(GridSearchCV(SVR(), {"C": [1, 2]}, cv=2)),
    ],
)
def test_delegating_regressors(estimator):
    model = as_model(estimator.fit(X, Y))
    assert (model.kind, list(model.responses), model.classes) == ("regressor", ["values"], None)
    np.testing.assert_array_equal(model.responder("values")(X), estimator.predict(X))


def test_frames_reach_a_pipeline_unchanged():
    encode = make_column_transformer((OneHotEncoder(), ["c"]), remainder="passthrough")
    pipeline = make_pipeline(encode, LinearRegression()).fit(MIXED, CATEGORICAL_Y)
    np.testing.assert_allclose(respond(pipeline, "values", MIXED), CATEGORICAL_Y, atol=1e-10)


def test_neither_classifier_nor_regressor():
    assert as_model(KMeans(2, random_state=0).fit(X)).kind == "unknown"
    model = as_model(IsolationForest(random_state=0).fit(X))
    assert (model.kind, list(model.responses)) == ("unknown", ["values", "labels", "scores"])
    assert set(model.responder("labels")(X)) == {-1, 1}
    assert "probabilities" in as_model(GaussianMixture(2, random_state=0).fit(X)).responses


class OnlyPredict:
    def predict(self, table):
        return table[:, 0]


class LikeKeras(OnlyPredict):
    def __call__(self, table):
        raise AssertionError("predict comes first")


class OldClassifier(OnlyPredict):
    _estimator_type = "classifier"


class WithProbabilities(OnlyPredict):
    def predict_proba(self, table):
        return np.full(len(table), 0.25)


def test_objects_that_only_look_like_estimators():
    model = as_model(OnlyPredict())
    assert (model.kind, set(model.responses)) == (
        "regressor",
        {"values", "probabilities", "labels", "scores", "outputs"},
    )
    assert as_model(LikeKeras()).kind == "unknown"
    np.testing.assert_array_equal(respond(LikeKeras(), "values"), X[:, 0])
    assert (as_model(OldClassifier()).kind, list(as_model(OldClassifier()).responses)) == (
        "classifier",
        ["labels"],
    )
    assert as_model(WithProbabilities()).kind == "classifier"
    np.testing.assert_array_equal(respond(WithProbabilities(), "probabilities"), np.tile([0.75, 0.25], (N, 1)))


# Functions.


def first(table, scale=1.0):
    return scale * np.asarray(table)[:, 0]


def test_function():
    model = as_model(first)
    assert (model.name, model.kind, model.classes) == ("first", "unknown", None)
    assert set(model.responses) == {"values", "probabilities", "labels", "scores", "outputs"}
    assert as_model(partial(first, scale=2.0)).name == "first"
    np.testing.assert_array_equal(respond(partial(first, scale=2.0), "values"), 2 * X[:, 0])
    forest = RandomForestClassifier(3).fit(X, BINARY)
    assert as_model(forest.predict_proba).name == "predict_proba"
    assert respond(forest.predict_proba, "probabilities").shape == (N, 2)


def test_a_model_is_taken_as_it_is():
    model = as_model(first)
    assert as_model(model) is model


@pytest.mark.parametrize("convert", [list, pd.Series, pl.Series, pa.array, pa.chunked_array, np.asfortranarray])
def test_outputs_of_any_library(convert):
    def output(table):
        column = np.asarray(table)[:, 0]
        return convert([column] if convert is pa.chunked_array else column)

    np.testing.assert_array_equal(respond(output, "values"), X[:, 0])


@pytest.mark.parametrize("convert", [pd.DataFrame, pl.DataFrame, np.asfortranarray])
def test_matrices_of_any_library(convert):
    wide = np.column_stack([np.full(N, 0.2), np.full(N, 0.8)])
    got = respond(lambda table: convert(wide), "probabilities")
    np.testing.assert_array_equal(got, wide)
    assert got.flags.c_contiguous


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_floats_are_kept(dtype):
    for response in ("values", "scores", "probabilities"):
        assert respond(lambda table: np.full(N, 0.5, dtype), response).dtype == dtype


@pytest.mark.parametrize("dtype", ["?", "i1", "u2", "i8", "f2", ">f8", "longdouble", object])
def test_other_numbers_become_float64(dtype):
    got = respond(lambda table: np.ones(N, dtype), "values")
    assert got.dtype == np.float64
    assert (got == 1).all()


def test_decimals_are_numbers():
    assert respond(lambda table: [Decimal("0.5")] * N, "values")[0] == 0.5


@pytest.mark.parametrize("shape", [(N,), (N, 1)])
def test_one_column_of_probabilities_is_the_second_class(shape):
    got = respond(lambda table: np.full(shape, 0.75), "probabilities")
    np.testing.assert_array_equal(got, np.tile([0.25, 0.75], (N, 1)))


@pytest.mark.parametrize("response", ["values", "labels", "scores"])
def test_one_column_is_flattened(response):
    assert respond(lambda table: np.ones((N, 1)), response).shape == (N,)


@pytest.mark.parametrize("labels", [WORDS, WORDS.astype(object), BINARY, BINARY > 0, BINARY.astype("f4")])
def test_labels_come_as_the_model_gives_them(labels):
    got = respond(lambda table: labels, "labels")
    assert got.dtype == labels.dtype
    np.testing.assert_array_equal(got, labels)


@pytest.mark.parametrize("response", ["values", "labels", "scores", "probabilities"])
def test_never_a_view_of_the_table_or_of_the_models_buffer(response):
    table = np.full((4, 2), 0.5)
    for view in (lambda rows: rows[:, 0], lambda rows: rows[:, :1]):
        assert not np.shares_memory(respond(view, response, table), table)
    frame = pd.DataFrame(table)
    assert not np.shares_memory(respond(lambda rows: rows[0], response, frame), frame[0].to_numpy())
    assert not np.shares_memory(respond(lambda rows: rows, "probabilities", table), table)
    buffer = np.zeros(4)
    got = respond(lambda rows: buffer, response, table)
    buffer += 1
    assert got.max() <= 1
    assert got.ravel()[-1] == 0


# Boosting libraries: wrappers.


def xgboost_classifier():
    return pytest.importorskip("xgboost").XGBClassifier(n_estimators=5)


def lightgbm_classifier():
    lightgbm = pytest.importorskip("lightgbm")
    return lightgbm.LGBMClassifier(n_estimators=5, min_child_samples=2, verbose=-1)


def catboost_classifier():
    return pytest.importorskip("catboost").CatBoostClassifier(iterations=5, verbose=0, allow_writing_files=False)


SCORES = {
    "XGB": {"output_margin": True},
    "LGB": {"raw_score": True},
    "Cat": {"prediction_type": "RawFormulaVal"},
}


@pytest.mark.parametrize("make", [xgboost_classifier, lightgbm_classifier, catboost_classifier])
@pytest.mark.parametrize("y", [BINARY, THREE], ids=["binary", "multiclass"])
def test_boosting_classifiers(make, y):
    native = make().fit(FRAME, y)
    model = as_model(native)
    assert model.kind == "classifier"
    np.testing.assert_array_equal(model.classes, np.unique(y))
    assert set(model.responses) == {"labels", "probabilities", "scores"}
    labels = model.responder("labels")(FRAME)
    np.testing.assert_array_equal(labels, native.predict(FRAME).ravel())
    np.testing.assert_array_equal(model.responder("probabilities")(FRAME), native.predict_proba(FRAME))
    scores = native.predict(FRAME, **SCORES[model.name[:3]])
    np.testing.assert_array_equal(model.responder("scores")(FRAME), scores)
    assert scores.shape == ((N,) if len(model.classes) == 2 else (N, 3))


@pytest.mark.parametrize("make", [lightgbm_classifier, catboost_classifier])
def test_boosting_classifiers_of_words(make):
    native = make().fit(FRAME, WORDS)
    assert list(as_model(native).classes) == ["low", "mid", "top"]
    assert set(respond(native, "labels", FRAME)) <= {"low", "mid", "top"}


def xgboost_regressor():
    return pytest.importorskip("xgboost").XGBRegressor(n_estimators=50, min_child_weight=0, enable_categorical=True)


def lightgbm_regressor():
    lightgbm = pytest.importorskip("lightgbm")
    options = {"min_child_samples": 1, "min_data_per_group": 1, "cat_smooth": 0, "verbose": -1}
    return lightgbm.LGBMRegressor(n_estimators=100, **options)


def catboost_regressor(**options):
    catboost = pytest.importorskip("catboost")
    return catboost.CatBoostRegressor(iterations=200, verbose=0, allow_writing_files=False, **options)


@pytest.mark.parametrize("make", [xgboost_regressor, lightgbm_regressor, catboost_regressor])
def test_boosting_regressors_of_any_frame(make):
    native = make().fit(FRAME, Y)
    model = as_model(native)
    assert (model.kind, list(model.responses), model.classes) == ("regressor", ["values"], None)
    for table in all_tables(FRAME):
        np.testing.assert_array_equal(model.responder("values")(table), native.predict(FRAME)[-2:])


@pytest.mark.parametrize(
    "make", [xgboost_regressor, lightgbm_regressor, partial(catboost_regressor, cat_features=["c"])]
)
def test_categories_of_any_frame_keep_their_meaning(make):
    native = make().fit(MIXED, CATEGORICAL_Y)
    for table in all_tables(MIXED):
        np.testing.assert_allclose(respond(native, "values", table), CATEGORICAL_Y[-2:], atol=0.3)


def test_rankers_give_values():
    lightgbm = pytest.importorskip("lightgbm")
    ranker = lightgbm.LGBMRanker(n_estimators=2, min_child_samples=2, verbose=-1).fit(FRAME, BINARY, group=[N])
    assert as_model(ranker).kind == "regressor"
    assert respond(ranker, "values", FRAME).shape == (N,)


# Boosting libraries: boosters.


def xgboost_booster(objective, y, table=X, **parameters):
    xgboost = pytest.importorskip("xgboost")
    data = xgboost.DMatrix(table, y, enable_categorical=True)
    return xgboost.train({"objective": objective, **parameters}, data, 50)


@pytest.mark.parametrize(
    ("objective", "y", "response", "shape"),
    [
        ("reg:squarederror", Y, "values", (N,)),
        ("reg:logistic", BINARY, "values", (N,)),
        ("count:poisson", BINARY, "values", (N,)),
        ("rank:ndcg", BINARY, "values", (N,)),
        ("binary:logistic", BINARY, "probabilities", (N, 2)),
        ("binary:hinge", BINARY, "labels", (N,)),
        ("binary:logitraw", BINARY, "scores", (N,)),
        ("multi:softprob", THREE, "probabilities", (N, 3)),
        ("multi:softmax", THREE, "labels", (N,)),
    ],
)
def test_xgboost_booster(objective, y, response, shape):
    xgboost = pytest.importorskip("xgboost")
    parameters = {"num_class": 3} if objective.startswith("multi") else {}
    booster = xgboost_booster(objective, y, **parameters)
    model, data = as_model(booster), xgboost.DMatrix(X)
    classifier = objective.startswith(("binary", "multi"))
    assert model.kind == ("classifier" if classifier else "regressor")
    assert set(model.responses) == ({response, "scores"} if classifier else {"values"})
    got = model.responder(response)(X)
    assert got.shape == shape
    expected = booster.predict(data)
    np.testing.assert_array_equal(got if got.ndim == expected.ndim else got[:, 1], expected)
    if classifier:
        np.testing.assert_array_equal(model.classes, np.arange(2 if objective.startswith("b") else 3))
        scores = booster.predict(data, output_margin=True)
        np.testing.assert_array_equal(model.responder("scores")(X), scores)


def lightgbm_booster(objective, y, table=FRAME, **parameters):
    lightgbm = pytest.importorskip("lightgbm")
    options = {"min_child_samples": 1, "min_data_per_group": 1, "cat_smooth": 0, "verbose": -1}
    data = lightgbm.Dataset(table, y, group=[N] if objective == "lambdarank" else None)
    return lightgbm.train({"objective": objective, **options, **parameters}, data, 100)


@pytest.mark.parametrize(
    ("objective", "y", "kind"),
    [
        ("regression", Y, "regressor"),
        ("l1", Y, "regressor"),
        ("poisson", BINARY, "regressor"),
        ("cross_entropy", BINARY, "regressor"),
        ("lambdarank", BINARY, "regressor"),
        ("binary", BINARY, "classifier"),
        ("multiclass", THREE, "classifier"),
        ("softmax", THREE, "classifier"),
        ("ova", THREE, "classifier"),
    ],
)
@pytest.mark.parametrize("reload", [False, True])
def test_lightgbm_booster(objective, y, kind, reload):
    booster = lightgbm_booster(objective, y, **({"num_class": 3} if y is THREE else {}))
    if reload:
        booster = type(booster)(model_str=booster.model_to_string())
    model = as_model(booster)
    assert model.kind == kind
    if kind == "regressor":
        assert list(model.responses) == ["values"]
        np.testing.assert_array_equal(model.responder("values")(FRAME), booster.predict(FRAME))
        return
    np.testing.assert_array_equal(model.classes, np.unique(y))
    got, expected = model.responder("probabilities")(FRAME), booster.predict(FRAME)
    np.testing.assert_array_equal(got if expected.ndim == 2 else got[:, 1], expected)
    np.testing.assert_array_equal(model.responder("scores")(FRAME), booster.predict(FRAME, raw_score=True))


def test_lightgbm_booster_of_the_users_own_objective():
    def gradient(prediction, data):
        return prediction - data.get_label(), np.ones(N)

    booster = lightgbm_booster(gradient, Y)
    assert (as_model(booster).kind, list(as_model(booster).responses)) == ("unknown", ["values", "scores"])
    np.testing.assert_array_equal(respond(booster, "values", FRAME), booster.predict(FRAME))


def catboost_base(loss, y, table=FRAME, **options):
    catboost = pytest.importorskip("catboost")
    quiet = {"verbose": 0, "allow_writing_files": False}
    return catboost.CatBoost({"loss_function": loss, "iterations": 200, **quiet, **options}).fit(table, y)


@pytest.mark.parametrize(
    ("loss", "y"),
    [("Logloss", BINARY), ("MultiClass", THREE), ("MultiClass", WORDS), ("Logloss", BINARY > 0)],
)
def test_catboost_base_classifier(loss, y):
    native = catboost_base(loss, y, iterations=5)
    model = as_model(native)
    assert model.kind == "classifier"
    assert len(model.classes) == len(np.unique(y))
    assert set(model.responses) == {"labels", "probabilities", "scores"}
    np.testing.assert_array_equal(
        model.responder("labels")(FRAME), native.predict(FRAME, prediction_type="Class").ravel()
    )
    probabilities = native.predict(FRAME, prediction_type="Probability")
    np.testing.assert_array_equal(model.responder("probabilities")(FRAME), probabilities)
    np.testing.assert_array_equal(model.responder("scores")(FRAME), native.predict(FRAME))


@pytest.mark.parametrize("loss", ["RMSE", "Poisson", "Tweedie:variance_power=1.5"])
def test_catboost_base_regressor_predicts_on_the_scale_of_y(loss):
    target = np.exp(Y)
    model = as_model(catboost_base(loss, target))
    assert (model.kind, model.classes, list(model.responses)) == ("regressor", None, ["values"])
    regressor = catboost_regressor(loss_function=loss).fit(FRAME, target)
    np.testing.assert_array_equal(model.responder("values")(FRAME), regressor.predict(FRAME))


@pytest.mark.parametrize(
    "make",
    [
        partial(xgboost_booster, "reg:squarederror", min_child_weight=0),
        partial(lightgbm_booster, "regression"),
        partial(catboost_base, "RMSE", cat_features=["c"]),
    ],
)
def test_boosters_of_any_frame_with_categories(make):
    booster = make(CATEGORICAL_Y, MIXED)
    for table in all_tables(MIXED):
        np.testing.assert_allclose(respond(booster, "values", table), CATEGORICAL_Y[-2:], atol=0.3)


# Torch, where it happens to be installed.


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("torch")


def test_torch_module(torch):
    network = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Dropout(), torch.nn.Linear(4, 1)).double()
    network[1].eval()  # a frozen part in a module in training
    model = as_model(network)
    assert (model.name, model.kind, model.classes) == ("Sequential", "unknown", None)
    assert set(model.responses) == {"values", "probabilities", "scores"}
    values = model.responder("values")
    got = values(X)
    assert (got.shape, got.dtype) == ((N,), np.float64)
    assert [part.training for part in network.modules()] == [True, True, False, True]
    with torch.no_grad():
        expected = network(torch.tensor(X))[:, 0].numpy()
    np.testing.assert_allclose(got, expected)
    for table in (FRAME, pl.DataFrame(X), pa.Table.from_pandas(FRAME), X[::-1][::-1], X.astype("f4")):
        np.testing.assert_allclose(values(table), expected, rtol=1e-5)


def test_torch_modules_with_several_heads(torch):
    """A tuple of heads with one number a row each is one column a head, as a module that joins them itself has."""

    class Heads(torch.nn.Module):
        def __init__(self, joined):
            super().__init__()
            torch.manual_seed(0)
            self.first, self.second, self.joined = torch.nn.Linear(3, 1), torch.nn.Linear(3, 1), joined

        def forward(self, x):
            heads = self.first(x), self.second(x)[:, 0]
            return torch.column_stack(heads) if self.joined else heads

    y = X[:, :2] + 1.0
    found, alone = (feature_importance(Heads(joined).double(), X, y, loss="squared_error") for joined in (0, 1))
    assert list(found.outputs) == ["y0", "y1"]
    for name, one in found.outputs.items():
        assert one["x1"].pfi == alone.outputs[name]["x1"].pfi
    with torch.no_grad():
        ice = torch.nn.functional.linear(torch.tensor(X), *Heads(1).double().second.parameters()).numpy()
    effect = feature_effect(Heads(0).double(), X, target=1)["x2"]
    assert effect.pd @ effect.weights == pytest.approx(ice.mean())
    with pytest.raises(ValueError, match="if it is a multi-output model, pass y with one column for each output"):
        feature_importance(Heads(0).double(), X, y[:, 0], loss="squared_error")


def test_a_list_of_arrays_leads_to_the_call_that_works():
    def predict(X):
        return [X[:, 0], X[:, 1:2]]

    y = X[:, :2] + 1.0
    with pytest.raises(ValueError, match=r"list of 2 arrays, one .*lambda X: np\.column_stack\(predict\(X\)\), and y"):
        feature_importance(predict, X, y, loss="squared_error")
    found = feature_importance(lambda X: np.column_stack(predict(X)), X, y, loss="squared_error")
    assert len(found.outputs) == 2


def test_torch_dropout_is_off_and_training_comes_back_even_after_an_error(torch):
    network = torch.nn.Dropout(0.5)
    np.testing.assert_allclose(respond(network, "values", X[:, :1]), X[:, 0], rtol=1e-6)
    assert network.training
    linear = torch.nn.Linear(2, 1)
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        respond(linear, "values")
    assert linear.training


def test_torch_modules_with_a_training_switch_of_their_own(torch):
    class Merged(torch.nn.Linear):  # as low-rank adapters do: weights are merged for evaluation only
        def train(self, mode=True):
            self.merged = not mode
            return super().train(mode)

    network = torch.nn.Sequential(Merged(3, 1))
    network.train()
    respond(network, "values")
    assert network[0].training
    assert not network[0].merged


def test_torch_never_touches_the_table(torch):
    class InPlace(torch.nn.Module):
        def forward(self, rows):
            return rows.mul_(2)

    table = np.full((4, 2), 0.25, dtype="f4")
    table.flags.writeable = False
    assert (respond(InPlace(), "probabilities", table) == 0.5).all()
    assert (table == 0.25).all()


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "float16"])
def test_torch_precisions(torch, dtype):
    network = torch.nn.Linear(3, 3).to(getattr(torch, dtype))
    got = respond(network, "scores")
    assert got.shape == (N, 3)
    assert got.dtype == ("f8" if dtype in ("float64", "float16") else "f4")


def test_torch_reads_numbers_only(torch):
    flags = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "c": BINARY > 0})
    assert respond(torch.nn.Linear(3, 1), "values", flags).shape == (N,)
    with pytest.raises(ValueError, match="needs numbers in every column"):
        respond(torch.nn.Linear(2, 1), "values", MIXED)


def test_torch_threads_do_not_disturb_one_another(torch):
    network = torch.nn.Sequential(torch.nn.Linear(3, 64), torch.nn.Dropout(), torch.nn.Linear(64, 1))
    values = as_model(network).responder("values")
    expected, wrong = values(X), []

    def ask():
        wrong.extend(not np.array_equal(values(X), expected) for _ in range(50))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not any(wrong)
    assert network.training


def test_torch_tensors_from_a_function(torch):
    weights = torch.ones(3, dtype=torch.float64, requires_grad=True)
    np.testing.assert_allclose(respond(lambda table: torch.tensor(table) @ weights, "values"), X.sum(axis=1))


@pytest.mark.filterwarnings("ignore:.torch.jit.trace:DeprecationWarning")
def test_torch_script_and_pickle(torch):
    scripted = torch.jit.trace(torch.nn.Linear(3, 1), torch.zeros(1, 3))
    assert respond(scripted, "values").shape == (N,)
    values = as_model(torch.nn.Linear(3, 1)).responder("values")
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(values))(X), values(X))


# Refusals.


@pytest.mark.parametrize("response", ["values", "probabilities", "labels", "scores"])
def test_wrong_number_of_rows(response):
    with pytest.raises(ValueError, match="the model returned 3 predictions for 10 rows"):
        respond(lambda table: np.ones(3), response, X[:10])


def test_wrong_dimensions():
    with pytest.raises(ValueError, match=r"shape \(60, 2\) as values of 60 rows; .*multi-output"):
        respond(LinearRegression().fit(X, np.column_stack([Y, Y])), "values")
    with pytest.raises(ValueError, match=r"as labels of 60 rows; .*multi-output"):
        respond(lambda table: np.ones((N, 2)), "labels")
    for third in (2, 3):
        with pytest.raises(ValueError, match=r"a list of 2 arrays, one for each output; .*np.column_stack"):
            respond(lambda table, k=third: [np.ones((N, 2)), np.ones((N, k))], "probabilities")
    with pytest.raises(ValueError, match="list that is no array; pass y with one column for each output"):
        respond(lambda table: [[1.0, 2.0], [3.0]], "values")
    with pytest.raises(ValueError, match="a single float for 60 rows"):
        respond(lambda table: 0.5, "values")


@pytest.mark.parametrize("estimator", [RandomForestClassifier(2), MultiOutputClassifier(LogisticRegression())])
def test_multi_output_classifier(estimator):
    with pytest.raises(ValueError, match=r"is a multi-output classifier; .*np.column_stack\(\[p\[:, 1\] for p in"):
        as_model(estimator.fit(X, np.column_stack([BINARY, THREE])))


def test_columns_must_be_the_classes():
    one_class = DummyClassifier().fit(X, np.zeros(N))
    with pytest.raises(ValueError, match="2 columns of probabilities for 1 classes"):
        respond(one_class, "probabilities")
    four = np.digitize(Y, [-0.5, 0, 0.5])
    pairs = SVC(decision_function_shape="ovo").fit(X, four)
    with pytest.raises(ValueError, match="6 columns of scores for 4 classes"):
        respond(pairs, "scores")


@pytest.mark.parametrize("values", [WORDS, WORDS.astype(object), ["1"] * N, [{}] * N, X[:, 0] + 1j])
def test_not_numbers(values):
    with pytest.raises(ValueError, match="where numbers are needed"):
        respond(lambda table: values, "values")


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("response", ["values", "probabilities", "scores", "labels"])
def test_not_finite(bad, response):
    values = np.zeros(N)
    values[[7, 9]] = bad
    with pytest.raises(ValueError, match=rf"NaN or infinity for 2 of {N} rows, first for row 7"):
        respond(lambda table: values, response)


def test_large_but_finite():
    respond(lambda table: np.full(N, -1e45), "values")
    with pytest.raises(ValueError, match=r"the model returned -1e\+46; beyond 1e\+45"):
        respond(lambda table: np.full(N, -1e46), "values")


@pytest.mark.parametrize(
    ("estimator", "response"),
    [
        (RandomForestRegressor(), "values"),
        (RandomForestClassifier(), "probabilities"),
        (make_pipeline(StandardScaler(), LogisticRegression()), "probabilities"),
        (GridSearchCV(SVR(), {}), "values"),
        (TransformedTargetRegressor(), "values"),
    ],
)
def test_not_fitted(estimator, response):
    with pytest.raises(ValueError, match=r"the model is not fitted .*; call fit first") as caught:
        respond(estimator, response, FRAME)
    assert type(caught.value) is ValueError
    assert type(caught.value.__cause__).__name__ == "NotFittedError"


@pytest.mark.parametrize(
    "make",
    [
        xgboost_classifier,
        xgboost_regressor,
        lightgbm_classifier,
        lightgbm_regressor,
        catboost_classifier,
        catboost_regressor,
        lambda: pytest.importorskip("xgboost").Booster(),
        lambda: pytest.importorskip("catboost").CatBoost(),
    ],
)
def test_boosting_not_fitted(make):
    native = make()
    response = "probabilities" if type(native).__name__.endswith("Classifier") else "values"
    with pytest.raises(ValueError, match=r"the model is not fitted .*; call fit first"):
        respond(native, response, FRAME)


class Broken(RegressorMixin, BaseEstimator):
    def predict(self, table):
        raise ZeroDivisionError("my own")


def test_the_models_own_errors_propagate():
    with pytest.raises(ZeroDivisionError, match="my own") as caught:
        respond(Broken(), "values")
    assert caught.value.__cause__ is None
    assert caught.traceback[-1].name == "predict"


def test_a_response_the_model_cannot_give():
    expected = (
        "LinearSVC gives labels and scores, not probabilities; "
        "use loss='zero_one' or 'hinge', or wrap it in CalibratedClassifierCV"
    )
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the whole text is compared
        as_model(LinearSVC().fit(X, BINARY)).responder("probabilities")
    assert str(caught.value) == expected
    with pytest.raises(ValueError, match=r"gives values, not labels; use loss='squared_error'$"):
        as_model(LinearRegression()).responder("labels")
    with pytest.raises(ValueError, match=r"gives values, not probabilities; use loss='squared_error'$"):
        as_model(LinearRegression()).responder("probabilities")


def test_the_losses_named_in_messages_exist():
    from losslens.models import _LOSSES

    assert {response: losses.resolve(loss).reads for response, loss in _LOSSES.items()} == {
        response: response for response in _LOSSES
    }


def test_not_a_model():
    with pytest.raises(TypeError, match="RandomForestRegressor is a class"):
        as_model(RandomForestRegressor)
    with pytest.raises(TypeError, match="function of a table or has a method predict, got StandardScaler"):
        as_model(StandardScaler())
    with pytest.raises(TypeError, match="got str"):
        as_model("forest")


# Processes.


@pytest.mark.parametrize(
    ("make", "response"),
    [
        (lambda: RandomForestRegressor(3).fit(FRAME, Y), "values"),
        (lambda: xgboost_classifier().fit(FRAME, BINARY), "scores"),
        (lambda: lightgbm_classifier().fit(FRAME, BINARY), "scores"),
        (lambda: catboost_classifier().fit(FRAME, BINARY), "scores"),
        (lambda: xgboost_booster("binary:logistic", BINARY, FRAME), "probabilities"),
        (lambda: lightgbm_booster("binary", BINARY), "probabilities"),
        (lambda: catboost_base("Logloss", BINARY), "probabilities"),
        (lambda: first, "values"),
    ],
)
def test_survives_pickling(make, response):
    model = as_model(make())
    expected = model.responder(response)(FRAME)
    copy = pickle.loads(pickle.dumps(model))
    assert isinstance(copy, Model)
    np.testing.assert_array_equal(copy.responder(response)(FRAME), expected)
    again = cloudpickle.loads(cloudpickle.dumps(model.responder(response)))
    np.testing.assert_array_equal(again(FRAME), expected)


def test_works_in_another_process():
    forest = RandomForestClassifier(3, random_state=0).fit(X, BINARY)
    probabilities = as_model(forest).responder("probabilities")
    for ask in (probabilities, as_model(lambda table: table[:, 0]).responder("values")):
        (got,) = Parallel(n_jobs=2, backend="loky")([delayed(ask)(X)])
        np.testing.assert_array_equal(got, ask(X))


def test_no_estimator_library_is_imported():
    code = "import sys, losslens.models; print(*{name.partition('.')[0] for name in sys.modules})"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = {"sklearn", "xgboost", "lightgbm", "catboost", "torch", "pandas", "polars", "pyarrow"}
    assert not heavy & set(result.stdout.split())


def test_torch_module_with_several_heads(torch):
    """The outputs of one module are those of a module for each head."""

    class Heads(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.heads = torch.nn.Linear(3, 4), torch.nn.ModuleList(torch.nn.Linear(4, 1) for _ in range(2))

        def forward(self, rows):
            hidden = torch.tanh(self.body(rows))
            return torch.cat([head(hidden) for head in self.heads], dim=1)

    torch.manual_seed(0)
    module, Y = Heads().double(), np.column_stack([X[:, 0], X[:, 1] ** 2])
    imp = feature_importance(module, X, Y, loss="squared_error")
    for k, head in enumerate(module.heads):
        alone = torch.nn.Sequential(module.body, torch.nn.Tanh(), head)
        expected = feature_importance(alone, X, Y[:, k], loss="squared_error")
        assert imp.outputs[f"y{k}"]["x0"].pfi == pytest.approx(expected["x0"].pfi, rel=1e-9)
