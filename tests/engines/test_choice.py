"""An engine is exact in any unit of y, or it declines; the comparison with the model meets rows with replaced values.

Brute force asks the model's own predict for every pair of rows. The scale of an error is S = GE_P + max GE_j, the mean
losses with nothing and with the most important column replaced: it has the unit of the loss, and no offset.
"""

import json
import sys

import lightgbm as lgb
import numpy as np
import pytest
import xgboost as xgb
from sklearn import ensemble, pipeline, preprocessing, svm, tree
from sklearn import linear_model as linear
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF
from sklearn.kernel_ridge import KernelRidge

import brute
import losslens as ll
from losslens.engines import choice

RNG = np.random.default_rng(0)
TRAIN, X = RNG.normal(size=(120, 3)), RNG.normal(size=(30, 3))


def signal(X):
    return np.sin(2 * X[:, 0]) + X[:, 1] * np.abs(X[:, 2]) + 0.2 * np.cos(90 * X.sum(axis=1))


MODELS = {
    "xgboost": lambda: xgb.XGBRegressor(n_estimators=40, max_depth=3, n_jobs=1),
    "lightgbm": lambda: lgb.LGBMRegressor(n_estimators=20, min_child_samples=5, n_jobs=1, verbose=-1),
    "tree": lambda: tree.DecisionTreeRegressor(max_depth=4),
    "forest": lambda: ensemble.RandomForestRegressor(7, random_state=0),
    "boosting": lambda: ensemble.GradientBoostingRegressor(n_estimators=20, random_state=0),
    "histograms": lambda: ensemble.HistGradientBoostingRegressor(max_iter=15, min_samples_leaf=5),
    "least squares": linear.LinearRegression,
    "ridge": lambda: linear.Ridge(10.0),
    "kernel ridge": lambda: KernelRidge(kernel="rbf", alpha=1e-3),
    "cancelling kernel ridge": lambda: KernelRidge(kernel="rbf", alpha=1e-13, gamma=0.01),
    "support vectors": lambda: svm.SVR(C=10.0),
    "process": lambda: GaussianProcessRegressor(RBF(), alpha=0.1, optimizer=None, normalize_y=True),
    "scaled": lambda: pipeline.make_pipeline(preprocessing.StandardScaler(), svm.SVR()),
    "splines": lambda: pipeline.make_pipeline(preprocessing.SplineTransformer(), linear.Ridge(1e-3)),
    "binned": lambda: pipeline.make_pipeline(preprocessing.MinMaxScaler(), tree.DecisionTreeRegressor(max_depth=5)),
}
UNITS = [(1.0, 0.0), (1e-9, 0.0), (1e-6, 0.0), (1e9, 0.0), (1e-3, 1.1), (1.0, 30.0), (1e6, -1e12), (1e-3, 1e6)]
OWN, DONOR = np.divmod(np.arange(len(X) ** 2), len(X))


def paired(X):
    """Row i with column j of row k: the columns one after the other, (3 n^2, 3)."""
    rows = np.tile(X[OWN], (3, 1, 1))
    for j in range(3):
        rows[j, :, j] = X[DONOR, j]
    return rows.reshape(-1, 3)


PAIRS = paired(X)


def losses_of(predict, y, loss):
    """The losses of the rows, (n,), and of all pairs, (3, n, n), from two calls of the model."""
    several = np.tile(y[OWN], 3)
    return loss(y, predict(X)), loss(several, predict(PAIRS)).reshape(3, len(X), len(X))


@pytest.mark.parametrize("name", MODELS)
def test_exact_is_exact_in_any_unit(name):
    """y -> a y + b: the numbers are those of brute force, to the stated bound, or the model is asked for them all."""
    engines, bound = {}, 1e-5 if name == "xgboost" else 1e-9
    for a, b in UNITS:
        y, model = a * signal(X) + b, MODELS[name]().fit(TRAIN, a * signal(TRAIN) + b)
        found = ll.feature_importance(model, X, y, loss="squared_error")
        own, pairs = losses_of(lambda X, model=model: model.predict(X).astype(float), y, brute.LOSSES["squared_error"])
        scale = own.mean() + pairs.mean(axis=(1, 2)).max()
        engines[a, b] = found.engine
        assert all((one.declined == "") == (found.engine != "blackbox") for one in found.values())
        if found.engine != "blackbox":
            expected = pairs.mean(axis=(1, 2)) - own.mean()
            np.testing.assert_allclose([one.pfi for one in found.values()], expected, rtol=0, atol=bound * scale)
            np.testing.assert_allclose(found.local.T, pairs.mean(axis=2) - own, rtol=0, atol=30 * bound * scale)
    if name not in ("support vectors", "scaled"):  # their C and epsilon have a unit: these fit other curves
        assert len({engines[a, b] for a, b in UNITS[:4]}) == 1, engines


def test_a_model_that_is_constant_is_read():
    """A standard deviation of equal numbers need not be 0: 64 times 0.1 is not 6.4."""
    for value in np.random.default_rng(0).normal(size=20):
        forest = ensemble.RandomForestRegressor(7, min_samples_split=999).fit(TRAIN, np.full(len(TRAIN), value))
        rows = np.tile(X, (3, 1))
        found = ll.feature_importance(forest, rows, rows[:, 0])
        assert (found.engine, found["x0"].pfi) == ("trees", 0.0)


def test_a_linear_model_of_columns_far_from_0_is_asked():
    """Its own sums lose the digits in which rows differ; the closed form, which takes differences, does not."""
    model = linear.LinearRegression().fit(TRAIN, signal(TRAIN))
    for distance, engine in ((1e3, "additive"), (1e9, "blackbox")):
        model.intercept_ = float(-model.coef_.sum() * distance)
        found = ll.feature_importance(model, X + distance, signal(X))
        assert (found.engine, bool(found["x0"].declined)) == (engine, engine == "blackbox")


def test_rows_of_weight_0_do_not_make_a_model_exact():
    """Their predictions and losses are large, so that rounding errors of the rows that count would seem small."""
    left_out = np.arange(200) % 10 == 0
    rows = np.column_stack([RNG.normal(size=(200, 2)), left_out])
    y = np.where(left_out, 1000.0, 1.1 + 1e-3 * rows[:, 0] + 1e-4 * RNG.normal(size=200))
    model = xgb.XGBRegressor(n_estimators=30, max_depth=3, base_score=1.1, reg_lambda=0).fit(rows, y)
    whole = ll.feature_importance(model, rows, y, sample_weight=~left_out, donors="all")
    some = ll.feature_importance(model, rows[~left_out], y[~left_out], donors="all")
    assert (whole.engine, whole["x0"].declined) == (some.engine, some["x0"].declined)
    assert whole.engine == "blackbox"
    assert whole["x0"].pfi == pytest.approx(some["x0"].pfi, rel=1e-12)


def test_checked_rows_are_those_that_are_counted_as_predicted(monkeypatch):
    """However few rows have a weight, and however few rows there are."""
    model, asked = linear.LinearRegression().fit(TRAIN, signal(TRAIN)), []
    checked = sys.modules["sklearn.linear_model._base"].validate_data

    def counted(estimator, rows, **options):
        asked.append(len(rows))
        return checked(estimator, rows, **options)

    monkeypatch.setattr("sklearn.linear_model._base.validate_data", counted)
    for rows, weight in ((TRAIN, np.arange(120) < 5), (TRAIN, None), (X, np.arange(30) % 2), (X, None)):
        asked.clear()
        found = ll.feature_importance(model, rows, signal(rows), sample_weight=weight)
        assert (found.engine, found.n_predictions) == ("additive", sum(asked))
        assert sum(asked) == min(len(rows), choice.CHECKED)


def test_a_perfect_model_is_read():
    """Its losses are rounding errors, which sums in another order don't share; a column that it ignores adds none."""
    model = linear.LinearRegression().fit(TRAIN, 2 * TRAIN[:, 0])
    found = ll.feature_importance(model, X, 2 * X[:, 0], features=["x1"])["x1"]
    assert (found.engine, found.declined) == ("additive", "")
    assert abs(found.pfi) < 1e-28


def test_losses_that_rounding_errors_change_are_those_of_the_model():
    """Errors a thousand times as large as rounding errors; and a loss that the last bit decides."""
    model = linear.LinearRegression().fit(TRAIN, 2 * TRAIN[:, 0])
    near = 2 * X[:, 0] + 1e-13 * RNG.normal(size=len(X))
    found = ll.feature_importance(model, X, near, features=["x1"])["x1"]
    assert (found.engine, found.declined) == ("blackbox", f"{choice.ROUNDED_LOSSES} more than 1e-10")
    own, mine = np.full(4, 1.0), np.full(4, 1.0 + 2**-52)
    with pytest.raises(choice.Declined, match=choice.ROUNDED_LOSSES):
        choice._check_losses(lambda f: (f != 1.0).astype(float), own, mine, np.ones(4), 1e-10, 2**-50)


def test_rows_with_replaced_values_are_compared(monkeypatch):
    """A model that is linear on every row of the table and bent elsewhere, by a function that no reader looks at."""
    x = RNG.normal(size=50)
    close = np.column_stack([x, x + 0.01 * RNG.normal(size=50)])
    model = linear.LinearRegression().fit(close, x)
    straight = model.predict(close)
    assert ll.feature_importance(model, close, x).engine == "additive"
    checked = sys.modules["sklearn.linear_model._base"].validate_data

    def bent(*arguments, **options):
        rows = checked(*arguments, **options)
        return np.where(np.abs(rows[:, :1] - rows[:, 1:]) < 0.1, rows, 0.0)

    monkeypatch.setattr("sklearn.linear_model._base.validate_data", bent)
    np.testing.assert_array_equal(model.predict(close), straight)
    found = ll.feature_importance(model, close, x)
    assert (found.engine, found["x0"].declined) == ("blackbox", choice.DIFFERENT)


def test_a_loss_that_fails_on_rows_that_are_no_cells_is_left_to_the_black_box():
    """All columns are equal, so one replaced column gives a sum of 0, 1, 3 or 4; two replaced columns give 2."""
    every = np.indices((2, 2, 2, 2)).reshape(4, -1).T.astype(float)
    model = tree.DecisionTreeRegressor().fit(every, every.sum(axis=1))
    rows = np.repeat(every[[0, -1]], 20, axis=0)

    def fails(y, prediction):
        if np.any(prediction == 2):
            raise ArithmeticError("never two")
        return (y - prediction) ** 2

    found = ll.feature_importance(model, rows, np.zeros(40), loss=fails)
    assert (found.engine, found["x0"].pfi) == ("blackbox", pytest.approx(0.25 * (1 - 0) + 0.25 * (9 - 16)))
    assert "never two" in found["x0"].declined


# XGBoost, which adds up in single precision.


U = 2.0**-24  # the largest relative rounding error of float32
OBJECTIVES = {
    "survival:cox": ("exp", ["squared_error", "absolute_error"]),
    "count:poisson": ("exp", ["poisson_deviance", "squared_error"]),
    "reg:gamma": ("exp", ["gamma_deviance", "squared_error"]),
    "reg:tweedie": ("exp", ["tweedie_deviance"]),
    "reg:logistic": ("logistic", ["squared_error"]),
    "binary:logistic": ("logistic", ["log_loss", "brier"]),
    "reg:squarederror": ("identity", ["squared_error"]),
}
LINKS = {
    "exp": (np.exp, np.log),
    "logistic": (lambda m: 1 / (1 + np.exp(-m)), lambda f: np.log(f / (1 - f))),
    "identity": (lambda m: m, lambda f: f),
}


def drawn(X, objective):
    rng, mean = np.random.default_rng(1), 1.5 * signal(X)
    if "logistic" in objective:
        return (rng.random(len(X)) < 1 / (1 + np.exp(-2 * mean))).astype(int)
    if objective == "count:poisson":
        return rng.poisson(np.exp(mean)).astype(float)
    return mean if objective == "reg:squarederror" else np.exp(mean) * rng.gamma(2, 0.5, len(X)) + 0.01


def magnitude(model, link):
    """|base score| plus the sum over the trees of the largest |leaf|: no partial sum of a margin is larger."""

    def leaves(node):
        return [abs(node["leaf"])] if "leaf" in node else [x for child in node["children"] for x in leaves(child)]

    booster = model.get_booster()
    largest = [max(leaves(json.loads(text))) for text in booster.get_dump(dump_format="json")]
    base = json.loads(json.loads(booster.save_config())["learner"]["learner_model_param"]["base_score"])
    return abs(float(LINKS[link][1](np.atleast_1d(base)[0]))) + sum(largest), len(largest)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_xgboost_is_within_its_stated_bound(objective):
    """A margin, a sum of T leaves and the base score in float32, is off by at most T u A to first order, with A the
    largest that a partial sum can be. Rounding the true sum, the link of the base score, and the link itself, on both
    sides, add less than 8 roundings: of a margin up to A, of a prediction up to itself. A cell is off by what these
    move the loss, with the value replaced and without. Means over all rows are checked to 1e-5 of the mean losses.
    """
    name, losses = OBJECTIVES[objective]
    kind = xgb.XGBClassifier if objective.startswith("binary") else xgb.XGBRegressor
    y = drawn(X, objective)
    model = kind(objective=objective, n_estimators=60, max_depth=4, n_jobs=1).fit(TRAIN, drawn(TRAIN, objective))
    largest, trees = magnitude(model, name)
    delta, link = (trees + 8) * U * largest, LINKS[name][0]
    margins = [model.predict(rows, output_margin=True).astype(float) for rows in (X, PAIRS)]

    def said(f):
        return np.column_stack([1 - f, f]).astype(np.float32) if kind is xgb.XGBClassifier else f

    for loss in map(ll.losses.resolve, losses):
        found = ll.feature_importance(model, X, y, loss=loss)
        assert found.engine == "trees", found["x0"].declined
        own, pairs = losses_of(model.predict_proba if kind is xgb.XGBClassifier else model.predict, y, loss)
        slack = []
        for margin, target in zip(margins, (y, np.tile(y[OWN], 3)), strict=True):
            ends = [link(margin + s * delta) * (1 + 8 * t * U) for s in (-1, 1) for t in (-1, 1)]
            ends = [loss(target, said(np.clip(f, 0, 1) if name == "logistic" else f)) for f in ends]
            slack.append(np.max(np.abs(np.array(ends) - loss(target, said(link(margin)))), axis=0))
        cells = slack[1].reshape(pairs.shape) + slack[0][:, None]
        for j, one in enumerate(found.values()):
            expected, at = pairs[j] - own[:, None], np.searchsorted(one.grid, X[:, j])
            assert np.all(np.abs(one.ici[:, at] - expected) <= cells[j])
            assert np.all(np.abs(one.local - expected.mean(axis=1)) <= cells[j].mean(axis=1))
            assert np.all(np.abs(one.pi[at] - expected.mean(axis=0)) <= cells[j].mean(axis=0))
            scale = own.mean() + pairs.mean(axis=(1, 2)).max()
            assert one.pfi == pytest.approx(expected.mean(), rel=0, abs=1e-5 * scale)
            assert cells[j].mean() < 1e-3 * scale  # the bound says something
