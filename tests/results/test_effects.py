"""Partial dependence and ICE: by brute force, on every kind of grid, as a mapping and as a frame."""

import datetime as dt

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.multioutput import MultiOutputRegressor

import brute
import losslens as ll

RNG = np.random.default_rng(0)
N = 25
X = np.column_stack([RNG.normal(size=N), RNG.integers(0, 3, size=N), RNG.normal(size=N)])


def model(X):
    return X[:, 0] * X[:, 1] + np.sin(X[:, 2])


def effect(donors="all", features="x0", X=X, model=model, **options):
    found = ll.feature_effect(model, X, features=features, donors=donors, random_state=0, **options)
    return next(iter(found.values()))


@pytest.mark.parametrize("name", ["x0", "x1", "x2"])
def test_curves_are_the_model_with_one_value_replaced(name):
    j = int(name[1])
    found = effect(features=name)
    grid, first = np.unique(X[:, j], return_index=True)
    np.testing.assert_array_equal(found.grid, grid)
    expected = brute.predictions(model, X, [j])[:, first]
    np.testing.assert_allclose(found.ice, expected)
    np.testing.assert_allclose(found.pd, expected.mean(axis=0))
    np.testing.assert_allclose(found.weights, np.bincount(np.searchsorted(grid, X[:, j])) / N)


def test_importance_holds_the_same_effect():
    imp = ll.feature_importance(model, X, model(X), loss="squared_error", donors="all")
    for name in imp:
        alone = effect(features=name)
        np.testing.assert_array_equal(imp[name].effect.ice, alone.ice)
        np.testing.assert_allclose(imp[name].effect.pd, alone.pd)


def test_weights_are_those_of_rows():
    weight = RNG.integers(1, 6, size=N)
    np.testing.assert_allclose(effect(sample_weight=weight).pd, np.average(effect().ice, axis=0, weights=weight))


def test_centred_curves_start_at_zero():
    found = effect()
    np.testing.assert_array_equal(found.centred()[:, 0], 0)
    np.testing.assert_allclose(found.centred(), found.ice - found.ice[:, [0]])
    nearest = np.argmin(np.abs(found.grid - 0.4))
    np.testing.assert_array_equal(found.centred(0.4)[:, nearest], 0)


def test_centring_at_a_word_needs_one_of_the_grid():
    frame = pd.DataFrame({"a": X[:, 0], "w": np.array(["p", "q", "r"])[X[:, 1].astype(int)]})
    found = effect(features="w", X=frame, model=lambda t: t["a"] * (t["w"] == "q"))
    np.testing.assert_array_equal(found.centred("q")[:, 1], 0)
    with pytest.raises(ValueError, match="'z' is not on the grid"):
        found.centred("z")


def test_given_averages_some_of_the_curves():
    found, rows = effect(), np.array([1, 5, 7])
    part = found.given(rows)
    np.testing.assert_allclose(part.pd, found.ice[rows].mean(axis=0))
    np.testing.assert_array_equal(part.ice, found.ice[rows])
    parts = found.by(X[:, 1].astype(int))
    np.testing.assert_allclose(parts[2].pd, found.ice[X[:, 1] == 2].mean(axis=0))
    whole = ll.feature_effect(model, X, donors="all").given(rows)
    np.testing.assert_allclose(whole["x0"].pd, part.pd)


# Grids.


@pytest.mark.parametrize("values", [[3.0, -1.0, 0.5], np.array([3.0, -1.0, 0.5]), (3.0, -1.0, 0.5)])
def test_values_of_ones_own_are_a_grid_in_order_without_weights(values):
    found = effect(ll.Grid(values=values))
    np.testing.assert_array_equal(found.grid, [-1.0, 0.5, 3.0])
    for v, pd_at in zip(found.grid, found.pd, strict=True):
        replaced = X.copy()
        replaced[:, 0] = v
        assert pd_at == pytest.approx(model(replaced).mean())
    with pytest.raises(ValueError, match="has no weights"):
        found.weights  # noqa: B018
    assert list(found.to_frame().columns) == ["value", "effect"]


def test_quantiles_are_observed_values_evenly_spaced_in_rank():
    found = effect(ll.Grid(5, at="quantiles"))
    np.testing.assert_array_equal(found.grid, np.sort(X[:, 0])[[2, 7, 12, 17, 22]])
    np.testing.assert_allclose(found.weights, 0.2)


def test_a_random_grid_is_a_sample_of_rows():
    found = effect(ll.Grid(6))
    assert len(found.grid) == 6
    assert set(found.grid) <= set(X[:, 0])
    np.testing.assert_allclose(found.pd, [effect().pd[np.flatnonzero(effect().grid == v)[0]] for v in found.grid])


def test_a_pair_has_a_table_over_both_grids():
    found = effect(features=("x0", "x1"))
    assert found.pd.shape == (N, 3)
    assert found.ice.shape == (N, N, 3)
    first, second = found.grid
    for a, b in ((0, 0), (7, 2), (24, 1)):
        replaced = X.copy()
        replaced[:, 0], replaced[:, 1] = first[a], second[b]
        np.testing.assert_allclose(found.ice[:, a, b], model(replaced))
        assert found.pd[a, b] == pytest.approx(model(replaced).mean())
    frame = found.to_frame()
    assert list(frame.columns) == ["x0", "x1", "effect"]
    np.testing.assert_allclose(frame["effect"], found.pd.ravel())
    np.testing.assert_array_equal(frame["x1"][:3], second)
    with pytest.raises(ValueError, match="a pair"):
        found.centred()


def test_a_pair_on_a_coarser_grid():
    found = effect(ll.Grid(4, at="quantiles"), features=("x0", "x2"))
    assert found.pd.shape == (4, 4)
    np.testing.assert_array_equal(found.grid[0], np.sort(X[:, 0])[[3, 9, 15, 21]])


def test_a_group_has_a_grid_of_rows():
    found = effect(features={"both": ["x0", "x1"]})
    assert found.grid.shape == (N, 2)
    assert {tuple(row) for row in found.grid} == {tuple(row) for row in X[:, :2]}
    asked = brute.predictions(model, X, [0, 1]).mean(axis=0)
    order = [int(np.flatnonzero((X[:, :2] == row).all(axis=1))[0]) for row in found.grid]
    np.testing.assert_allclose(found.pd, asked[order])
    assert list(found.to_frame().columns) == ["x0", "x1", "weight", "effect"]


def test_a_missing_value_is_one_grid_value_the_last():
    table = X.copy()
    table[[0, 3, 9], 0] = np.nan
    found = effect(X=table, model=lambda X: np.where(np.isnan(X[:, 0]), -5.0, X[:, 0]))
    assert np.isnan(found.grid[-1])
    assert np.isfinite(found.grid[:-1]).all()
    assert found.weights[-1] == pytest.approx(3 / N)
    assert found.pd[-1] == pytest.approx(-5)


KINDS = {
    "words": pd.Series(list("ba") * 12 + [None]),
    "categories": pd.Series(pd.Categorical(list("ba") * 12 + ["b"], categories=["b", "a", "unseen"])),
    "booleans": pd.Series([True, False] * 12 + [True]),
    "integers": pd.Series([3, 1] * 12 + [3]),
    "dates": pd.Series(pd.to_datetime(["2020-01-02", "2020-01-01"] * 12 + ["2020-01-02"])),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_grids_hold_the_columns_own_values(kind, library):
    column = KINDS[kind]
    frame = pd.DataFrame({"a": X[:, 0], "k": column})
    table = {"pandas": lambda f: f, "polars": pl.from_pandas, "pyarrow": pa.Table.from_pandas}[library](frame)
    found = ll.feature_effect(lambda t: np.asarray(t["a"], float), table, features="k")["k"]
    values = {
        "words": ["a", "b", None],
        "categories": ["b", "a"] if library == "pandas" else sorted("ab"),
        "booleans": [False, True],
        "integers": [1, 3],
        "dates": [dt.datetime(2020, 1, 1), dt.datetime(2020, 1, 2)],
    }[kind]
    shown = pd.Series(found.grid).tolist() if kind != "words" else list(found.grid)
    if kind == "categories" and library != "pandas":
        shown = sorted(shown)
    assert shown == values
    assert found.weights.sum() == pytest.approx(1)
    made = found.to_frame()
    assert type(made).__module__.partition(".")[0] == library
    assert len(made) == len(values)


# Classes.


def test_the_effect_of_two_classes_is_the_probability_of_the_second():
    labels = np.where(X[:, 0] > 0, "yes", "no")
    logistic = LogisticRegression().fit(X, labels)
    found = effect(model=logistic)
    assert found.target == "yes"
    np.testing.assert_allclose(found.pd, 1 - effect(model=logistic, target="no").pd)
    asked = brute.predictions(lambda X: logistic.predict_proba(X)[:, 1], X, [0]).mean(axis=0)
    np.testing.assert_allclose(found.pd, asked[np.argsort(X[:, 0])])


def test_more_classes_need_a_target():
    three = LogisticRegression().fit(X, X[:, 1].astype(int))
    with pytest.raises(ValueError, match=r"target must be one of the classes \[0, 1, 2\], such as target=2; got None"):
        effect(model=three)
    with pytest.raises(ValueError, match=r"target must be one of the classes .* got 3"):
        effect(model=three, target=3)
    with pytest.raises(ValueError, match=r"target must be one of the classes .* got array"):
        effect(model=three, target=np.arange(3))
    sums = sum(effect(model=three, target=k, features="x1").pd for k in range(3))
    np.testing.assert_allclose(sums, 1)


def test_a_model_of_one_number_has_no_target():
    with pytest.raises(ValueError, match="target='yes' is no output of the model: its predictions have no names"):
        effect(target="yes")
    with pytest.raises(ValueError, match="target=1 is no output of the model, which returns 1 for each row"):
        effect(target=1)
    with pytest.raises(ValueError, match=r"target is an output of the model, by position or name; got 0.5"):
        effect(target=0.5)


def test_effects_of_one_of_several_outputs():
    """By position, or by the name of a column where the model returns a frame; exact where that output is."""
    X = np.round(np.random.default_rng(0).normal(size=(30, 2)), 1)
    Y = np.c_[X[:, 0] - X[:, 1], X[:, 0] * X[:, 1]]
    forest = RandomForestRegressor(5, random_state=0).fit(X, Y)
    named = ll.feature_effect(
        lambda X: pd.DataFrame(forest.predict(X), columns=["sum", "product"]), X, target="product"
    )
    exact = ll.feature_effect(forest, X, target=1)
    alone = ll.feature_effect(lambda X: forest.predict(X)[:, 1], X)
    assert (exact.engine, named["x0"].target, exact["x0"].target) == ("trees", "product", "1")
    for name in alone:
        np.testing.assert_allclose(named[name].ice, alone[name].ice, rtol=1e-12)
        np.testing.assert_allclose(exact[name].ice, alone[name].ice, rtol=1e-9, atol=1e-12)  # some are 0
    effect_of_row = ll.shapley_effect(forest, X, 0, target=1)
    assert effect_of_row.prediction[0] == pytest.approx(forest.predict(X[:1])[0, 1])
    with pytest.raises(ValueError, match=r"multi-output model, .* for curves target= the position of an output"):
        ll.feature_effect(forest, X)
    for model in (forest, MultiOutputRegressor(LinearRegression()).fit(X, Y)):
        with pytest.raises(ValueError, match="target=2 is no output of the model, which returns 2 for each row"):
            ll.feature_effect(model, X, target=2)


# The mapping.


def test_effects_are_a_mapping_in_the_order_asked_for():
    found = ll.feature_effect(model, X, features=["x2", "x0", ("x0", "x1")])
    assert list(found) == ["x2", "x0", "x0 x x1"]
    assert len(found) == 3
    assert found["x0", "x1"] is found["x0 x x1"]
    assert "x1" not in found
    with pytest.raises(KeyError, match="unknown feature 'x'; did you mean"):
        found["x"]


def test_effects_show_what_they_are():
    found = ll.feature_effect(model, X, features=["x0"])
    assert repr(found["x0"]) == f"<FeatureEffect 'x0': {N} rows, {N} values, All()>"
    heading, line = repr(found).splitlines()[1:3]
    assert heading.split() == ["feature", "smallest", "largest"]
    assert repr(found).splitlines()[3] == f"  (rows: {N}; values: {N}; design: All())"
    assert line.split()[0] == "x0"
    assert float(line.split()[2]) == pytest.approx(found["x0"].pd.max(), rel=1e-3)
    assert found.n_predictions == N + N * (N - 1)


def test_the_frame_holds_the_curve():
    frame = effect(features="x1").to_frame()
    assert list(frame.columns) == ["value", "weight", "effect"]
    np.testing.assert_array_equal(frame["value"], [0, 1, 2])
    np.testing.assert_allclose(frame["effect"], effect(features="x1").pd)


def test_curves_are_centred_at_the_missing_value_and_only_on_a_common_grid():
    X = np.array([[1.0], [2.0], [np.nan]])
    effect = ll.feature_effect(lambda X: np.nan_to_num(X[:, 0], nan=5.0), X)["x0"]
    np.testing.assert_array_equal(effect.centred(at=np.nan), [[-4, -3, 0]] * 3)
    with pytest.raises(ValueError, match="gives each row its own donors"):
        ll.feature_effect(lambda X: np.nan_to_num(X[:, 0]), X, donors=ll.Latin(2))["x0"].centred()


def test_effects_are_chosen_by_group_like_importances():
    effects = ll.feature_effect(lambda X: X[:, 0], np.eye(4), features=[0, 1])
    assert effects.exact
    assert effects.engine == "blackbox"
    assert [len(part["x0"].at) for part in effects.by([0, 0, 1, 1]).values()] == [2, 2]


@pytest.mark.parametrize("odd", [int, "x", [1, 2]])
def test_curves_are_centred_at_a_number(odd):
    effect = ll.feature_effect(lambda X: X[:, 0], np.arange(6.0).reshape(3, 2))["x0"]
    with pytest.raises(ValueError, match=r"is no number, and the grid holds numbers"):
        effect.centred(odd)


@pytest.mark.parametrize("top", [0, "all", 2.5], ids=str)
def test_the_number_of_panels_is_checked(top):
    effects = ll.feature_effect(lambda X: X[:, 0], np.eye(4))
    with pytest.raises(ValueError, match="top is how many to draw"):
        effects.plot(top=top)
