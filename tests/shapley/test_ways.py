"""Shapley feature importance, exact: every way against all coalitions of all pairs, asked of the model itself."""

from itertools import combinations_with_replacement, permutations
from types import SimpleNamespace

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import brute
import coalitions
import losslens as ll
from losslens import losses
from losslens.shapley.by_model import paper_predictions
from losslens.text import how_computed

RNG = np.random.default_rng(0)
N = 14
NAMES = ("x0", "x1", "x2", "x3")


def table(n):
    """Two columns without ties, one of three values, and one that nobody can learn anything from."""
    X = np.column_stack([RNG.normal(size=(n, 2)), RNG.integers(0, 3, n), np.zeros(n)])
    return X, X[:, 0] * (1 + X[:, 1]) + np.sin(X[:, 2]) + 0.3 * RNG.normal(size=n)


(TRAIN, TARGET), (X, Y) = table(150), table(N)
X[:, 3] = RNG.integers(0, 4, N)  # constant where models were fitted
X[5] = X[3]
WEIGHT = RNG.integers(0, 4, N).astype(float)
LABELS = np.array(["low", "mid", "top"])
SETTINGS = {"random_state": 0, "max_leaf_nodes": 8}


def model(X):
    return X[:, 0] * (1 + X[:, 1]) + np.sin(X[:, 2])


def split(y, classes):
    return np.digitize(y, [0.3] if classes == 2 else [-0.3, 0.8])


def steep(y, f):
    return np.abs(y - f) ** 1.5 + (f > y)


def share(loss="squared_error", model=model, X=X, y=Y, **options):
    return ll.shapley_importance(model, X, y, loss=loss, **({"random_state": 0} | options))


# model, loss, and how labels are read; the classes are 2 or 3 words.
CASES = {
    "function": (model, "squared_error"),
    "function, absolute": (model, "absolute_error"),
    "function, pinball": (model, "pinball"),
    "function, a loss of one's own": (model, losses.pointwise(steep, reads="values")),
    "linear": (LinearRegression(), "squared_error"),
    "linear, absolute": (LinearRegression(), "absolute_error"),
    "pipeline": (make_pipeline(StandardScaler(), Ridge()), "squared_error"),
    "logistic, 3 classes": (LogisticRegression(), "log_loss", 3),
    "histogram": (HistGradientBoostingRegressor(max_iter=8, **SETTINGS), "squared_error"),
    "histogram, absolute": (HistGradientBoostingRegressor(max_iter=8, **SETTINGS), "absolute_error"),
    "histogram, 2 classes": (HistGradientBoostingClassifier(max_iter=8, **SETTINGS), "log_loss", 2),
    "histogram, 3 classes": (HistGradientBoostingClassifier(max_iter=8, **SETTINGS), "brier", 3),
    "forest": (RandomForestRegressor(6, **SETTINGS), "squared_error"),
    "forest, pinball": (RandomForestRegressor(6, **SETTINGS), "pinball"),
    "forest, brier": (RandomForestClassifier(6, **SETTINGS), "brier", 2),
    "forest, labels": (RandomForestClassifier(6, **SETTINGS), "zero_one", 3),
    "tree": (DecisionTreeRegressor(**SETTINGS), "squared_error"),
    "tree, a loss of one's own": (DecisionTreeRegressor(**SETTINGS), losses.pointwise(steep, reads="values")),
    "tree, 3 classes": (DecisionTreeClassifier(**SETTINGS), "log_loss", 3),
    "machine": (SVR(C=10), "squared_error"),
}


def fitted(case):
    """The model, its predict as the loss reads it, y as users have it and as losses read it, the loss in NumPy."""
    native, loss, *classes = CASES[case]
    judge = steep if not isinstance(loss, str) else brute.LOSSES[loss]
    if native is model:
        return model, model, Y, Y, judge
    if not classes:
        native.fit(TRAIN, TARGET)
        return native, native.predict, Y, Y, judge
    native.fit(TRAIN, LABELS[split(TARGET, *classes)])
    y = split(Y, *classes)
    if loss == "zero_one":
        return native, lambda X: np.searchsorted(LABELS, native.predict(X)), LABELS[y], y, judge
    return native, native.predict_proba, LABELS[y], y, judge


def at_values(amount, column, weight):
    """The mean at each value of a column, and the share of the rows there."""
    met = (weight > 0) & ~np.isnan(amount)
    values = np.unique(column[met], axis=0)
    mass = np.array([weight[met & (column == v)].sum() for v in values])
    means = [np.average(amount[met & (column == v)], weights=weight[met & (column == v)]) for v in values]
    return values, mass / mass.sum(), np.array(means)


def agrees(found, expected, X=X, weight=None, columns=range(4), slack=1e-9):
    """Everything that a result says about rows, donors and coalitions."""
    close = {"rtol": 1e-7, "atol": slack}
    weight = np.ones(len(X)) if weight is None else weight
    rows = weight > 0
    assert found.exact
    np.testing.assert_allclose(found.sfimp, expected.sfimp, **close)
    np.testing.assert_allclose([found.error_all, found.error_none], [expected.error_all, expected.error_none], **close)
    assert found.sfimp.sum() == pytest.approx(found.error_none - found.error_all, abs=1e-9)
    np.testing.assert_allclose(found.share, found.sfimp / found.sfimp.sum(), rtol=1e-9)
    np.testing.assert_allclose(found.paper_sfimp, -found.sfimp)
    np.testing.assert_allclose(found.local[rows], expected.local[rows], **close)
    np.testing.assert_allclose(found.observations[rows], expected.gains[rows], **close)
    np.testing.assert_allclose(found.local.sum(axis=1), found.observations, atol=1e-9)
    if found.table is not None:
        np.testing.assert_allclose(found.table, expected.table, **close)
        np.testing.assert_allclose(found.interactions.index, coalitions.interactions(expected.table), **close)
    for j, column in enumerate(columns):
        for by, amount in (("own", expected.local[:, j]), ("donor", expected.caused[:, j])):
            curve = found.curve(found.features[j], by=by)
            values, shares, means = at_values(amount, X[:, column], weight)
            np.testing.assert_array_equal(curve.grid, values)
            np.testing.assert_allclose(curve.weights, shares, rtol=1e-9)
            np.testing.assert_allclose(curve.importance, means, **close)
            assert curve.sfimp == pytest.approx(found.sfimp[j], abs=1e-9)
    assert (found.monte_carlo_error == 0).all()


@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["alike", "weights"])
@pytest.mark.parametrize("case", CASES)
def test_shares_are_those_of_all_pairs_and_coalitions(case, weight):
    native, predict, y, read, judge = fitted(case)
    found = share(CASES[case][1], native, y=y, sample_weight=weight)
    agrees(found, coalitions.shares(predict, X, read, judge, weight=weight), weight=weight)


@pytest.mark.parametrize("library", ["lightgbm", "xgboost"])
def test_shares_of_other_libraries(library):
    """XGBoost adds up in single precision."""
    if library == "lightgbm":
        native = pytest.importorskip(library).LGBMRegressor(n_estimators=10, num_leaves=8, verbose=-1)
    else:
        native = pytest.importorskip(library).XGBRegressor(n_estimators=10, max_depth=3)
    native.fit(TRAIN, TARGET)
    predict = getattr(native, "booster_", native).predict  # LightGBM's own warns of names
    found = share(model=native)
    assert found.engine == "trees"
    agrees(found, coalitions.shares(predict, X, Y, brute.LOSSES["squared_error"]), slack=1e-5)


@pytest.mark.parametrize(
    ("case", "route", "method"),
    [
        ("function", "blackbox", "all coalitions"),
        ("linear", "additive", "closed form"),
        ("pipeline", "additive", "closed form"),
        ("histogram", "trees", "all coalitions"),
        ("tree", "trees", "all coalitions"),
        ("machine", "blackbox", "all coalitions"),
    ],
)
def test_the_route_taken(case, route, method):
    found = share(model=fitted(case)[0])
    assert (found.engine, found.method) == (route, method)
    assert f"exact over all pairs of rows; method: {method}; {how_computed(route, found.n_predictions)}" in repr(found)


@pytest.mark.parametrize("players", [{"a": [0, 2], "b": [1], "c": [3]}, {"a": ["x0", "x1", "x2", "x3"]}], ids=str)
@pytest.mark.parametrize("case", ["function", "linear", "histogram", "tree", "machine"])
def test_columns_that_play_together(case, players):
    native, predict, y, read, judge = fitted(case)
    found = share(CASES[case][1], native, y=y, features=players)
    columns = [[NAMES.index(c) if isinstance(c, str) else c for c in group] for group in players.values()]
    expected = coalitions.shares(predict, X, read, judge, columns)
    assert found.features == tuple(players)
    np.testing.assert_allclose(found.sfimp, expected.sfimp, atol=1e-9)
    np.testing.assert_allclose(found.local, expected.local, atol=1e-9)
    np.testing.assert_allclose(found.observations, expected.gains, atol=1e-9)
    for j, name in enumerate(players):
        for by in ("own", "donor"):
            assert found.curve(name, by=by).sfimp == pytest.approx(expected.sfimp[j], abs=1e-9)


@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["alike", "weights"])
@pytest.mark.parametrize("case", ["function", "linear", "histogram", "tree", "machine", "forest, labels"])
def test_columns_that_nobody_plays_keep_their_values(case, weight):
    """The error without the players is that with the two of them replaced and the others as they are."""
    native, predict, y, read, judge = fitted(case)
    found = share(CASES[case][1], native, y=y, features=["x2", "x0"], sample_weight=weight)
    expected = coalitions.shares(predict, X, read, judge, [[2], [0]], weight)
    agrees(found, expected, weight=weight, columns=[2, 0])
    replaced = coalitions.pair_losses(predict, X, read, judge, [[0, 2]])[0]
    mass = np.ones(N) / N if weight is None else weight / weight.sum()
    assert found.error_none == pytest.approx(mass @ replaced @ mass)


@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["alike", "weights"])
@pytest.mark.parametrize("case", ["function", "linear", "histogram", "tree"])
def test_pairs_of_different_rows(case, weight):
    """A row that lends to itself changes nothing: without weights U = n/(n - 1) V."""
    native, predict, y, read, judge = fitted(case)
    found = share(CASES[case][1], native, y=y, donors=ll.Derangements(), sample_weight=weight)
    expected = coalitions.shares(predict, X, read, judge, weight=weight, apart=True)
    rows = np.ones(N, bool) if weight is None else weight > 0
    np.testing.assert_allclose(found.sfimp, expected.sfimp, atol=1e-9)
    np.testing.assert_allclose(found.local[rows], expected.local[rows], atol=1e-9)
    np.testing.assert_allclose(found.observations[rows], expected.gains[rows], atol=1e-9)
    assert found.sfimp.sum() == pytest.approx(found.error_none - found.error_all)
    for j, name in enumerate(NAMES):
        for by in ("own", "donor"):
            assert found.curve(name, by=by).sfimp == pytest.approx(expected.sfimp[j], abs=1e-9)
    if weight is None:
        np.testing.assert_allclose(found.sfimp, N / (N - 1) * share(CASES[case][1], native, y=y).sfimp, atol=1e-9)


@pytest.mark.parametrize("case", ["function", "linear", "histogram"])
def test_all_shifts_are_all_pairs(case):
    native, _, y, _, _ = fitted(case)
    whole, shifts = (share(model=native, y=y, donors=donors) for donors in ("all", ll.Latin(N)))
    for name in ("sfimp", "local", "observations", "table", "error_none"):
        if getattr(whole, name) is not None:
            np.testing.assert_allclose(getattr(shifts, name), getattr(whole, name), atol=1e-9)
    for by in ("own", "donor"):
        one, other = (found.curve("x0", by=by).importance for found in (shifts, whole))
        np.testing.assert_allclose(one, other, atol=1e-9)
    np.testing.assert_allclose(shifts.monte_carlo_error, 0.0, atol=1e-7)


@pytest.mark.parametrize("case", ["function", "function, absolute", "linear", "histogram", "forest, labels", "tree"])
def test_whole_weights_are_repeated_rows(case):
    native, _, y, _, _ = fitted(case)
    loss, rows = CASES[case][1], np.repeat(np.arange(N), WEIGHT.astype(int))
    found, longer = share(loss, native, y=y, sample_weight=WEIGHT), share(loss, native, X[rows], y[rows])
    np.testing.assert_allclose(found.sfimp, longer.sfimp, atol=1e-9)
    np.testing.assert_allclose(found.local[rows], longer.local, atol=1e-9)
    np.testing.assert_allclose(found.observations[rows], longer.observations, atol=1e-9)
    assert found.error_none == pytest.approx(longer.error_none)


# Containers.


def named(table):
    return model(np.column_stack([np.asarray(table[name], float) for name in NAMES]))


def test_containers_of_the_same_values_give_the_same_shares():
    frame = pd.DataFrame(X, columns=NAMES)
    frame["x2"] = frame["x2"].astype("int8")
    expected = share()
    for other in (frame, frame.set_index(frame["x0"]), pl.from_pandas(frame), frame[["x3", "x1", "x0", "x2"]]):
        found = share(model=named, X=other, y=list(Y))
        for j, name in enumerate(found.features):
            assert found.sfimp[j] == pytest.approx(expected.sfimp[NAMES.index(name)], abs=1e-12)


def test_nothing_of_the_user_is_changed():
    frame, y, weight = pd.DataFrame(X, columns=NAMES), pd.Series(Y.copy()), WEIGHT.copy()
    for options in ({}, {"method": "walk"}, {"method": ll.Paper(2, 2)}):
        state = np.random.get_state()  # noqa: NPY002 - it is what must not move
        one = share(model=named, X=frame, y=y, sample_weight=weight, random_state=3, **options)
        for before, after in zip(state[1:3], np.random.get_state()[1:3], strict=True):  # noqa: NPY002
            np.testing.assert_array_equal(before, after)
        np.testing.assert_array_equal(
            one.sfimp, share(model=named, X=frame, y=y, sample_weight=weight, random_state=3, **options).sfimp
        )
    pd.testing.assert_frame_equal(frame, pd.DataFrame(X, columns=NAMES))
    np.testing.assert_array_equal(y, Y)
    np.testing.assert_array_equal(weight, WEIGHT)


# The choice.


@pytest.mark.parametrize(("p", "orders"), [(1, 3), (2, 1), (2, 4), (3, 1), (3, 2), (3, 5), (4, 2)])
def test_the_papers_algorithm_predicts_no_fewer_and_no_more_coalitions_than_orders_can_have(p, orders):
    """The proper coalitions along all choices of orders; each is predicted for n rows and 5 permutations."""
    chains = [{frozenset(order[:k]) for k in range(1, p)} for order in permutations(range(p))]
    counts = [len(set().union(*chosen)) for chosen in combinations_with_replacement(chains, orders)]
    request = SimpleNamespace(n=10, p=p, settings=SimpleNamespace(method=ll.Paper(orders, 5)))
    assert paper_predictions(request) == (10 + 50 * min(counts), 10 + 50 * max(counts))


def test_a_result_says_why_the_model_was_asked():
    """Empty where an exact engine computed all, as the plan says; a file keeps it."""
    line, machine = Ridge().fit(TRAIN, TARGET), SVR().fit(TRAIN, TARGET)
    asked = [
        (line, {}, ""),
        (line, {"loss": "r2", "donors": "all"}, "which the model predicts as fast as an exact engine"),
        (line, {"loss": "absolute_error"}, "'additive' has no closed form of these shares"),
        (line, {"method": "walk"}, "method='walk' asks the model"),
        (line, {"donors": ll.Latin(3)}, "not those of Latin(3)"),
        (machine, {}, "'products' has no closed form of these shares, or only one that is slower or gives less"),
        (model, {"loss": "squared_error"}, "a function can be called"),
    ]
    for one, options, why in asked:
        found = ll.shapley_importance(one, X, Y, random_state=0, **options)
        assert bool(found.declined) == (found.engine == "blackbox") == bool(why)
        assert why in found.declined
        assert ll.plan(ll.shapley_importance, one, X, Y, **options).engine == found.engine
        assert not any("no exact engine" in text and found.declined not in text for text in found.remarks)


def test_the_reason_is_saved(tmp_path):
    found = share()
    found.save(tmp_path / "shares.lens")
    assert ll.load(tmp_path / "shares.lens").declined == found.declined != ""
