"""A pass: each feature says why no exact engine computed it, where the model was asked; progress comes to its end."""

import warnings
from contextlib import contextmanager
from functools import partial

import numpy as np
import pandas as pd
import pytest
import xgboost as xgb
from sklearn import ensemble, neighbors, neural_network, svm, tree
from sklearn import linear_model as linear
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.decomposition import PCA
from sklearn.metrics import get_scorer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import losslens as ll
from losslens.passes import additive, cells, products, step_curves

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3))
Y = np.exp(X[:, 0] + X[:, 1] * X[:, 2] / 2)
LABELS = (Y > 1).astype(int)


class Own(RegressorMixin, BaseEstimator):
    def fit(self, X, y):
        return self

    def predict(self, X):
        return np.asarray(X)[:, 0]


def cubed(y, prediction):
    return np.abs(y - prediction) ** 3


ASKED = {
    "own loss": (linear.PoissonRegressor(), {"loss": cubed}, "are known, not of cubed"),
    "other loss": (linear.Ridge(), {"loss": cubed}, "squared, absolute, pinball, Huber and hinge losses"),
    "bagging": (ensemble.BaggingRegressor(Own(), n_estimators=2), {}, "no reader for Own of"),
    "voting": (ensemble.VotingRegressor([("a", linear.Ridge()), ("b", svm.SVR())]), {}, "models of different kinds"),
    "neighbours": (neighbors.KNeighborsRegressor(), {}, "no reader for the values of KNeighborsRegressor"),
    "network": (
        neural_network.MLPRegressor(hidden_layer_sizes=[2], solver="lbfgs", tol=1.0),
        {},
        "no reader for the values of MLP",
    ),
    "own class": (Own(), {}, "no reader for Own of"),
    "projected": (make_pipeline(PCA(2), tree.DecisionTreeRegressor()), {}, "its step PCA"),
    "linear booster": (xgb.XGBRegressor(booster="gblinear", n_estimators=2), {}, "no reader for the values of XGB"),
    "scorer": (neighbors.KNeighborsRegressor(), {"loss": get_scorer("r2")}, "losslens has no reader for the values"),
    "drawn": (tree.DecisionTreeRegressor(), {"donors": ll.Within()}, "not those of Within"),
}


def explained(model, options):
    y = LABELS if hasattr(model, "predict_proba") or "Classifier" in type(model).__name__ else Y
    return ll.feature_importance(model.fit(X, y), X, y, **options)


def test_engines_that_take_own_donors_are_asked_themselves():
    """Matrix products take a third of the time that rows take one by one."""
    found = explained(svm.SVR(), {"donors": ll.Latin(2), "loss": get_scorer("explained_variance")})
    assert found.engine == "products"
    assert set(found.declined.values()) == {"donors=Latin(2) asks for some of the pairs of rows"}  # not of the model


def test_what_an_exact_engine_computes_has_no_reason():
    """Of other models: tests/engines/test_engine_table.py."""
    found = explained(make_pipeline(StandardScaler(), tree.DecisionTreeRegressor()), {"donors": ll.Derangements()})
    assert (found.exact, found.engine, found.declined) == (True, "trees", {})
    assert all(one.declined == "" for one in found.values())


@pytest.mark.thread_unsafe(reason="models that all threads share are fitted")
@pytest.mark.parametrize("name", ASKED)
def test_where_the_model_is_asked_every_feature_says_why(name):
    model, options, reason = ASKED[name]
    found = explained(model, options)
    assert (found.engine, list(found.declined)) == ("blackbox", ["x0", "x1", "x2"])
    for one in found.values():
        assert one.declined == found.declined[one.name]
        assert reason in one.declined


def test_functions_can_only_be_called(tmp_path):
    functions = [lambda X: X[:, 0], Own().predict, partial(np.dot, b=[1.0, 0.0, 2.0])]
    for function in functions:
        found = ll.feature_importance(function, X, Y, loss="squared_error")
        assert set(found.declined.values()) == {"a function can be called, but not read"}
    found.save(tmp_path / "function")
    assert ll.load(tmp_path / "function").declined == found.declined


@pytest.mark.thread_unsafe(reason="models that all threads share are fitted")
@pytest.mark.parametrize("donors", ["auto", "all"])
@pytest.mark.parametrize(
    ("model", "engine"),
    [
        (ensemble.RandomForestRegressor(3, random_state=0), "trees"),
        (linear.Ridge(), "additive"),
        (linear.LogisticRegression(), "link"),
        (svm.SVR(), "products"),
    ],
    ids=str,
)
def test_curves_of_two_columns_are_those_of_the_model(model, engine, donors):
    """No predictions of the model, in either order of the columns; the importance of a product grid is not defined."""
    pairs, classifies = [("x2", "x0"), ("x1", "x2")], engine == "link"
    y, loss = (LABELS, "log_loss") if classifies else (Y, "squared_error")
    model.fit(X, y)
    options = {"loss": loss, "features": ["x0", *pairs], "donors": donors}
    found = ll.feature_importance(model, X, y, **options)
    asked = ll.feature_importance(model.predict_proba if classifies else model.predict, X, y, **options)
    assert (found.engine, found.declined) == (engine, {})
    for pair in pairs:
        np.testing.assert_allclose(found[pair].pi, asked[pair].pi, atol=1e-12)
        np.testing.assert_allclose(found[pair].effect.pd, asked[pair].effect.pd, atol=1e-12)
    assert set(ll.feature_effect(model.predict, X).declined.values()) == {"a function can be called, but not read"}


def test_data_in_files_say_why_too(tmp_path):
    frame = pd.DataFrame(RNG.normal(size=(4000, 2)), columns=["a", "b"]).assign(y=lambda X: X.a)
    frame.to_parquet(tmp_path / "rows.parquet", row_group_size=500)
    inputs = frame[["a", "b"]].to_numpy()
    for model, donors in (
        (linear.LinearRegression(), "auto"),
        (linear.LinearRegression(), ll.Latin(2)),
        (Own(), "auto"),
    ):
        fitted = model.fit(inputs, frame.y)
        found = ll.feature_importance(fitted, tmp_path / "rows.parquet", "y", donors=donors, memory="256 KiB")
        assert (found["a"].totals is not None) == (found.engine == "additive" and donors == "auto")
        assert bool(found["a"].declined) == (found.engine == "blackbox")


def test_the_table_gives_the_reason_where_numbers_are_sampled_for_lack_of_an_engine():
    rows = RNG.normal(size=(1100, 1))
    asked = ll.feature_importance(lambda X: X[:, 0], rows, rows[:, 0], loss="squared_error")
    wanted = ll.feature_importance(lambda X: X[:, 0], rows, rows[:, 0], loss="squared_error", donors=ll.Latin(2))
    complete = ll.feature_importance(lambda X: X[:, 0], X, Y, loss="squared_error")
    assert (asked.exact, complete.exact) == (False, True)
    for sampled in (asked, wanted):
        assert "no exact engine: a function can be called" in repr(sampled)
    assert "no exact engine" not in repr(complete)


# -- progress ---------------------------------------------------------------------------------------------------------

COUNTED = ensemble.RandomForestRegressor(3, random_state=0).fit(X, Y)


@pytest.mark.parametrize(
    ("model", "features", "unit"),
    [
        (COUNTED, {"g": [0, 1]}, "cells"),
        (linear.LinearRegression().fit(X, Y).predict, ["x0", "x1"], "predictions"),
        (COUNTED.predict, {"g": [0, 1]}, "predictions"),
    ],
    ids=["trees", "function", "function of a group"],
)
def test_the_bar_has_a_unit_and_comes_to_its_end(model, features, unit, monkeypatch):
    bars = []

    @contextmanager
    def recorded(total, title, progress, unit):
        steps = []
        yield steps.append
        bars.append((unit, total, sum(steps)))

    for one in (additive, cells, products, step_curves):
        monkeypatch.setattr(one, "bar", recorded, raising=False)
    ll.feature_importance(model, X, Y, loss="squared_error", features=features, donors="all")
    assert bars
    for shown, total, done in bars:
        assert shown == unit
        assert done == total


@pytest.mark.parametrize("donors", ["all", ll.Derangements()])
@pytest.mark.parametrize("rest", [1e-9, 0.0])
@pytest.mark.parametrize("kind", ["link", "trees", "additive"])
def test_nearly_all_weight_in_one_group_leaves_no_digits_to_subtract(kind, rest, donors):
    """Pairs inside groups, or a row's own, are subtracted from all pairs: of the weight, 1 - 10^-9 of 1 would leave
    7 digits. Nothing is left if one group holds all of it: then there is no importance, but no crash either.
    """
    rng = np.random.default_rng(0)
    X = rng.normal(size=(12, 2))
    y = (X[:, 0] + rng.normal(size=12) > 0).astype(int)
    model = {
        "link": linear.LogisticRegression(),
        "trees": tree.DecisionTreeClassifier(max_depth=2),
        "additive": linear.LinearRegression(),
    }[kind].fit(X, y)
    loss, predict = ("squared_error", model.predict) if kind == "additive" else ("log_loss", model.predict_proba)
    groups = None if donors != "all" else np.arange(12) // 2
    weight = np.where(np.arange(12) < (2 if donors == "all" else 1), 1.0, rest)
    weight[11] = max(rest, 1e-20 if donors != "all" else 0.0)  # a single row can't hold all of it
    call = partial(ll.feature_importance, X=X, y=y, loss=loss, sample_weight=weight, donors=donors, progress=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few groups
        found, expected = (call(asked, groups=groups)["x0"] for asked in (model, predict))
    np.testing.assert_allclose(found.local, expected.local, rtol=1e-9, atol=1e-12)
    assert (found.engine, bool(found.declined)) == ("blackbox", True)
