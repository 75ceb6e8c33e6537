"""Models side by side: paired differences against the jackknife of all pairs, by brute force."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from matplotlib import pyplot as plt
from matplotlib.colors import to_hex
from scipy import stats
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import get_scorer
from sklearn.tree import DecisionTreeClassifier

import brute
import losslens as ll
from losslens.plots.canvas import LOOKS
from losslens.results.comparison import Comparison
from losslens.uncertainty.standard_errors import interval
from pictures import caption, legend, looked_at, texts

RNG = np.random.default_rng(0)
N = 36
X = np.column_stack([RNG.normal(size=(N, 2)), RNG.integers(0, 3, N)])
Y = X[:, 0] * X[:, 1] + X[:, 2] + 0.5 * RNG.normal(size=N)
COLUMN = {"x0": 0, "x1": 1, "x2": 2}
FRAME = pd.DataFrame(X, columns=list(COLUMN))


def rich(X):
    return X[:, 0] * X[:, 1] + X[:, 2]


def plain(X):
    return 0.5 * X[:, 0] + X[:, 2]


MODELS = {"rich": rich, "plain": plain}
ROWS = {"first": np.arange(0, 20), "second": np.arange(20, N)}


def compare(models=None, X=X, y=Y, **options):
    options = {"loss": "squared_error", "random_state": 0, "shapley": False} | options
    return ll.compare(MODELS if models is None else models, X, y, **options)


def of_parts(values):
    return {name: values[rows] for name, rows in ROWS.items()}


def cells(predict, name, X=X, y=Y):
    return brute.cells(predict, X, y, [COLUMN[name]], brute.LOSSES["squared_error"])


def jackknife(D):
    return brute.jackknife(lambda rows: brute.u_statistic(D[np.ix_(rows, rows)]), np.arange(len(D)))


# Differences on the same rows.


@pytest.mark.parametrize("donors", ["all", ll.Derangements()], ids=str)
@pytest.mark.parametrize("name", COLUMN)
def test_a_paired_difference_has_the_jackknife_of_the_difference_of_all_pairs(name, donors):
    """D(i, k) = D_a(i, k) - D_b(i, k): one matrix of cells, whose U-statistic is the difference.

    Leaving out row i as an observation and as a donor: U_(-i) = (T - R_i - C_i)/((n - 1)(n - 2)), with T the sum of
    all cells off the diagonal, R_i and C_i those of row and column i.
    """
    D = cells(rich, name) - cells(plain, name)
    np.fill_diagonal(D, 0.0)
    T, R, C = D.sum(), D.sum(axis=1), D.sum(axis=0)
    left = (T - R - C) / ((N - 1) * (N - 2))
    error = np.sqrt((N - 1) / N * np.sum((left - left.mean()) ** 2))
    assert error == pytest.approx(jackknife(D))
    both = compare(donors=donors)
    found = both.difference(name, "rich", "plain")
    assert found.value == pytest.approx(T / (N * N if donors == "all" else N * (N - 1)))
    assert found.value == pytest.approx(both["rich"][name].pfi - both["plain"][name].pfi)
    assert found.std_error == pytest.approx(error, rel=1e-9)
    assert (found.first, found.second) == ("rich", "plain")
    assert found.low < found.value < found.high


def test_a_difference_turned_round():
    found = compare()
    one, other = found.difference("x0", "rich", "plain"), found.difference("x0", "plain", "rich")
    assert (one.value, one.std_error, one.p_value) == pytest.approx((-other.value, other.std_error, other.p_value))
    assert (one.low, one.high) == pytest.approx((-other.high, -other.low))


def test_a_model_does_not_differ_from_itself():
    found = compare({"a": rich, "b": rich}).difference("x0", "a", "b")
    assert (found.value, found.std_error, found.low, found.high, found.p_value) == (0, 0, 0, 0, 1)


@pytest.mark.parametrize("design", [ll.Latin(N), ll.Derangements(N - 1)], ids=str)
def test_all_shifts_are_all_pairs(design):
    expected = jackknife(cells(rich, "x0") - cells(plain, "x0"))
    assert compare(donors=design).difference("x0", "rich", "plain").std_error == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("donors", ["all", ll.Latin(6), ll.Permutations(8), ll.Systematic(6)], ids=str)
def test_against_a_model_that_reads_nothing_of_a_feature_the_difference_is_the_importance(donors):
    found = compare({"a": rich, "b": lambda X: X[:, 2]}, donors=donors)
    alone = ll.feature_importance(rich, X, Y, loss="squared_error", donors=donors, random_state=0)["x0"]
    apart = found.difference("x0", "a", "b")
    assert apart.value == pytest.approx(alone.pfi)
    assert apart.std_error == pytest.approx(alone.std_error, rel=1e-9)
    assert (apart.low, apart.high) == pytest.approx(alone.interval())
    low = stats.t.interval(0.95, N - 1, alone.unbiased, apart.std_error)[0]  # skewed up
    assert apart.low == pytest.approx(min(low, low * alone.pfi / alone.unbiased))


@pytest.mark.parametrize("donors", ["all", ll.Latin(6), ll.Permutations(8)], ids=str)
def test_on_the_same_donors_the_difference_has_cells_of_its_own(donors):
    """With y = 0, twice the prediction has four times the loss: the cells of the difference are three times b's.

    Had the two met donors of their own, or their errors been added up, it would be more.
    """
    found = compare({"a": lambda X: 2 * rich(X), "b": rich}, y=np.zeros(N), donors=donors)
    alone = found.importances["b"]["x0"]
    apart = found.difference("x0", "a", "b")
    assert apart.value == pytest.approx(3 * alone.pfi)
    assert apart.std_error == pytest.approx(3 * alone.std_error, rel=1e-7)


def test_sampled_donors_estimate_the_error_of_all_pairs_and_their_own():
    """Over many draws the variance averages to that of the difference of all pairs, and what the draw adds to it."""
    exact = jackknife(cells(rich, "x0") - cells(plain, "x0"))
    drawn = [compare(donors=ll.Latin(10), random_state=seed, features=["x0"]) for seed in range(60)]
    found = [some.difference("x0", "rich", "plain") for some in drawn]
    noise = np.var([some.value for some in found], ddof=1)
    assert np.mean([some.std_error**2 for some in found]) == pytest.approx(exact**2 + noise, rel=0.15)


def by_hand(donors, seeds=(0, 1)):
    """Two results of their own, each with its own donors."""
    found = {
        name: ll.feature_importance(model, X, Y, loss="squared_error", donors=some, random_state=seed)
        for (name, model), some, seed in zip(MODELS.items(), donors, seeds, strict=True)
    }
    return Comparison(importances=found, shapley={}, paired=True)


def test_donors_of_their_own_make_a_difference_less_sure():
    """Draws that are not the same one add up: the error is that of all pairs at least, on average.

    Where one has met all pairs, the other's noise counts once: all pairs' variance and what the draw adds to it.
    """
    exact = jackknife(cells(rich, "x0") - cells(plain, "x0"))
    both = [by_hand([ll.Latin(10)] * 2, (seed, seed + 50)).difference("x0", "rich", "plain") for seed in range(40)]
    mixed = [by_hand([ll.Latin(6), ll.All()], (seed, seed)).difference("x0", "rich", "plain") for seed in range(60)]
    assert np.mean([some.std_error**2 for some in both]) > exact**2
    noise = np.var([some.value for some in mixed], ddof=1)
    assert np.mean([some.std_error**2 for some in mixed]) == pytest.approx(exact**2 + noise, rel=0.15)


def test_a_row_of_weight_zero_is_a_row_that_is_not_there():
    weight = np.ones(N)
    weight[:6] = 0
    one = compare(sample_weight=weight)
    other = compare(X=X[6:], y=Y[6:])
    for ask in (lambda c: c.difference("x1", "rich", "plain"), lambda c: c.error_difference("rich", "plain")):
        first, second = ask(one), ask(other)
        assert (first.value, first.std_error) == pytest.approx((second.value, second.std_error))
        assert (first.low, first.high, first.p_value) == pytest.approx((second.low, second.high, second.p_value))


def test_weights_reach_every_model():
    weight = RNG.integers(1, 4, N).astype(float)
    found = compare(sample_weight=weight)
    for name, model in MODELS.items():
        expected = brute.averages(cells(model, "x0"), np.ones((N, N)), weight)
        assert found.importances[name]["x0"].pfi == pytest.approx(expected.pfi)
    errors = found.errors().set_index("model")["error"]
    assert errors["rich"] == pytest.approx(np.average((Y - rich(X)) ** 2, weights=weight))


def test_importances_are_those_of_each_model_alone():
    found = compare()
    for name, model in MODELS.items():
        for feature in COLUMN:
            assert found.importances[name][feature].pfi == pytest.approx(cells(model, feature).mean(), abs=1e-12)


# Errors and rankings.


def test_the_difference_of_errors_is_a_paired_mean():
    a, b = (Y - rich(X)) ** 2, (Y - plain(X)) ** 2
    found = compare().error_difference("rich", "plain")
    expected = stats.ttest_rel(a, b)
    assert found.value == pytest.approx(np.mean(a - b))
    assert found.std_error == pytest.approx(found.value / expected.statistic)
    assert found.std_error == pytest.approx(stats.sem(a - b))
    symmetric = compare({"up": lambda X: rich(X) + 1, "down": lambda X: rich(X) - 1})
    turned = symmetric.error_difference("up", "down")
    assert turned.std_error == pytest.approx(stats.sem(4 * (rich(X) - Y)))


def test_errors_of_each_the_best_first():
    found = compare().errors()
    assert list(found["model"]) == ["rich", "plain"]
    assert list(found.columns) == ["model", "error", "std_error", "low", "high", "caution"]
    for row, model in zip(found.itertuples(), (rich, plain), strict=True):
        assert row.error == pytest.approx(np.mean((Y - model(X)) ** 2))
        assert row.std_error == pytest.approx(stats.sem((Y - model(X)) ** 2))
        assert row.low < row.error < row.high


def test_agreement_of_rankings_is_scipys():
    models = {"rich": rich, "plain": plain, "flat": lambda X: np.zeros(len(X))}
    found = compare(models)
    values = {name: [f.pfi for f in some.values()] for name, some in found.importances.items()}
    frame = found.agreement()
    assert list(zip(frame["first"], frame["second"], strict=True)) == [
        ("rich", "plain"),
        ("rich", "flat"),
        ("plain", "flat"),
    ]
    assert frame["kendall"][0] == pytest.approx(stats.kendalltau(values["rich"], values["plain"]).statistic)
    assert frame["spearman"][0] == pytest.approx(stats.spearmanr(values["rich"], values["plain"]).statistic)
    assert np.isnan(frame["kendall"][1:]).all()  # a model without importances has no ranking
    assert np.isnan(frame["spearman"][1:]).all()


# Rows of their own.


def test_one_model_on_two_sets_of_rows_is_welchs():
    """Variances add up; degrees of freedom (s_a² + s_b²)²/(s_a⁴/(n_a - 1) + s_b⁴/(n_b - 1)), rounded down."""
    found = compare(rich, of_parts(X), of_parts(Y))
    D = {name: cells(rich, "x0", X[rows], Y[rows]) for name, rows in ROWS.items()}
    value = brute.u_statistic(D["first"]) - brute.u_statistic(D["second"])
    one, two = (jackknife(D[name]) ** 2 for name in ROWS)
    error = np.sqrt(one + two)
    freedom = int((one + two) ** 2 / (one**2 / 19 + two**2 / 15))
    apart = found.difference("x0", "first", "second")
    assert not found.paired
    assert apart.value == pytest.approx(value)
    assert apart.std_error == pytest.approx(error, rel=1e-9)
    assert apart.p_value == pytest.approx(2 * stats.t.sf(abs(value) / error, freedom))
    parts = [found.importances[name]["x0"].influence for name in ROWS]
    skewness = (np.sum(parts[0].moved ** 3) - np.sum(parts[1].moved ** 3)) / error**3
    assert (apart.low, apart.high) == pytest.approx(interval(value, error, freedom + 1, 0.95, skewness))


def test_errors_on_two_sets_of_rows_are_welchs():
    loss = (Y - rich(X)) ** 2
    expected = stats.ttest_ind(loss[ROWS["first"]], loss[ROWS["second"]], equal_var=False)
    found = compare(rich, of_parts(X), of_parts(Y)).error_difference("first", "second")
    assert found.value == pytest.approx(loss[ROWS["first"]].mean() - loss[ROWS["second"]].mean())
    assert found.std_error == pytest.approx(found.value / expected.statistic)
    freedom = int(expected.df)
    assert found.p_value == pytest.approx(2 * stats.t.sf(abs(expected.statistic), freedom))


def test_models_and_rows_of_their_own():
    models = {"second": plain, "first": rich}
    found = compare(models, of_parts(X), of_parts(Y), sample_weight={name: np.ones(len(r)) for name, r in ROWS.items()})
    assert found.names == ("first", "second")
    for name, rows in ROWS.items():
        expected = cells(models[name], "x1", X[rows], Y[rows]).mean()
        assert found.importances[name]["x1"].pfi == pytest.approx(expected, abs=1e-12)


def test_sets_of_rows_without_any_difference():
    found = compare(lambda X: X[:, 2], of_parts(X), of_parts(Y)).difference("x0", "first", "second")
    assert (found.value, found.std_error, found.p_value) == (0, 0, 1)


def test_numbers_may_be_names():
    found = compare(rich, {2019: X[:20], 2020: X[20:]}, {2019: Y[:20], 2020: Y[20:]})
    assert found.names == ("2019", "2020")


# Tables.


def test_the_table_has_a_row_a_model_and_feature():
    found = compare(X=X, shapley=True)
    frame = found.to_frame()
    numbers = ["model", "feature", "importance", "std_error", "low", "high"]
    assert list(frame.columns) == [*numbers, "sfimp", "share", "caution"]
    assert list(frame["model"]) == ["rich"] * 3 + ["plain"] * 3
    assert list(frame["feature"]) == ["x0", "x1", "x2"] * 2
    for row in frame.itertuples():
        one = found.importances[row.model][row.feature]
        assert (row.importance, row.std_error) == (one.pfi, one.std_error)
        assert (row.low, row.high) == one.interval()
    shares = ll.shapley_importance(rich, X, Y, loss="squared_error", random_state=0)
    np.testing.assert_array_equal(frame["sfimp"][:3], shares.sfimp)
    np.testing.assert_array_equal(frame["share"][:3], shares.share)
    assert list(compare().to_frame().columns) == [*numbers, "caution"]


def test_a_model_that_earns_nothing_has_no_shares():
    frame = compare({"flat": lambda X: np.zeros(len(X)), "rich": rich}, shapley=True).to_frame()
    assert np.isnan(frame["share"][:3]).all()
    np.testing.assert_array_equal(frame["sfimp"][:3], 0.0)


def test_differences_from_one_of_them_the_largest_first():
    models = MODELS | {"half": lambda X: rich(X) / 2}
    found = compare(models)
    frame = found.differences()
    assert list(frame.columns) == [
        "feature", "model", "against", "difference", "std_error", "low", "high", "p", "p_adjusted", "caution",
    ]  # fmt: skip
    assert set(zip(frame["model"], frame["against"], strict=True)) == {("plain", "rich"), ("half", "rich")}
    assert len(frame) == 6
    assert list(frame["difference"].abs()) == sorted(frame["difference"].abs(), reverse=True)
    for row in frame.itertuples():
        assert row.difference == found.difference(row.feature, row.model, "rich").value
    p = np.sort(frame["p"])
    assert frame["p_adjusted"].min() == pytest.approx(min(1, 6 * p[0]))
    assert (frame["p_adjusted"] >= frame["p"]).all()
    assert set(found.differences("half", adjust=None)["against"]) == {"half"}
    assert "p_adjusted" not in found.differences(adjust=None)


@pytest.mark.parametrize(("make", "kind"), [(pd.DataFrame, pd.DataFrame), (pl.DataFrame, pl.DataFrame)])
def test_tables_are_of_the_users_library(make, kind):
    table = make({name: X[:, j] for name, j in COLUMN.items()})
    models = {"a": lambda X: np.asarray(X["x0"]), "b": lambda X: np.asarray(X["x2"])}
    found = compare(models, table)
    for frame in (found.to_frame(), found.differences(), found.errors(), found.agreement()):
        assert isinstance(frame, kind)
    assert found.difference("x0", "a", "b").value == pytest.approx(
        np.mean(cells(lambda X: X[:, 0], "x0") - cells(lambda X: X[:, 2], "x0"))
    )


def test_the_words_of_a_comparison():
    lines = repr(compare()).splitlines()
    assert lines[0] == "Comparison: increase in squared error; 2 side by side, on the same rows and donors"
    assert lines[1].split() == ["rich", "plain"]
    assert lines[2].split()[0] == "(error)"
    assert {line.split()[0] for line in lines[3:6]} == set(COLUMN)
    assert lines[0] in compare()._repr_html_()
    assert "on different rows" in repr(compare(rich, of_parts(X), of_parts(Y)))


@pytest.mark.parametrize("paired", [True, False])
def test_a_saved_comparison_says_the_same(paired, tmp_path):
    found = compare(shapley=True) if paired else compare(rich, of_parts(X), of_parts(Y), donors=ll.Latin(5))
    found.save(tmp_path / "comparison.zip")
    loaded = ll.load(tmp_path / "comparison.zip")
    assert repr(loaded) == repr(found)
    assert loaded.paired == paired
    assert loaded.difference("x0", *loaded.names) == found.difference("x0", *found.names)
    for ask in ("to_frame", "differences", "errors", "agreement"):
        pd.testing.assert_frame_equal(getattr(loaded, ask)(), getattr(found, ask)())


def test_fitted_models_of_several_kinds_on_frames():
    models = {"linear": LinearRegression().fit(FRAME, Y), "forest": RandomForestRegressor(5).fit(FRAME, Y)}
    found = ll.compare(models, FRAME, Y)
    for name, model in models.items():
        expected = cells(lambda X, model=model: model.predict(pd.DataFrame(X, columns=list(COLUMN))), "x0")
        assert found.importances[name]["x0"].pfi == pytest.approx(expected.mean())
    assert found.title == "squared error"
    np.testing.assert_allclose(found.to_frame()["share"].to_numpy().reshape(2, 3).sum(axis=1), 1.0)


def test_classifiers_are_judged_by_log_loss():
    y = np.where(Y > 0.5, "yes", "no")
    models = {"line": LogisticRegression().fit(X, y), "tree": DecisionTreeClassifier(max_depth=2).fit(X, y)}
    found = ll.compare(models, X, y, shapley=False)
    assert found.title == "log loss"
    read, judge = (y == "yes").astype(int), brute.LOSSES["log_loss"]
    D = [brute.cells(model.predict_proba, X, read, [0], judge) for model in models.values()]
    apart = found.difference("x0", "line", "tree")
    assert apart.value == pytest.approx(np.mean(D[0] - D[1]))
    assert apart.std_error == pytest.approx(jackknife(D[0] - D[1]))


def test_the_users_data_stay_as_they_are():
    frame, y = pd.DataFrame(X, columns=list(COLUMN)), pd.Series(Y.copy())
    compare({"a": lambda X: X["x0"].to_numpy(), "b": lambda X: X["x1"].to_numpy()}, frame, y, shapley=True)
    pd.testing.assert_frame_equal(frame, pd.DataFrame(X, columns=list(COLUMN)))
    np.testing.assert_array_equal(y, Y)


# What is refused.


@pytest.mark.parametrize(
    ("models", "options", "kind", "words"),
    [
        ({"one": rich}, {}, ValueError, "a comparison needs two cases or more; got 1"),
        ({}, {}, ValueError, "a comparison needs two cases or more; got 0"),
        (rich, {}, TypeError, "compare takes models as a mapping, .* got function"),
        ([rich, plain], {}, TypeError, "compare takes models as a mapping, .* got list"),
        (None, {"y": None}, ValueError, "'rich': y, the true values, is missing"),
        (
            None,
            {"y": {"rich": Y, "plain": Y}},
            ValueError,
            "y, sample_weight or groups is a mapping, but X is",
        ),
        (None, {"features": [("x0", "x1")]}, ValueError, "'rich': 'x0 x x1' has no importance, only curves"),
        (None, {"features": ["x7"]}, ValueError, "'rich': unknown feature 'x7'"),
        (None, {"donors": "every"}, ValueError, "'rich': .*every"),
        ({1: rich, "1": plain, "2": plain}, {}, ValueError, "two names are equal as text: 1, '1', '2'"),
        ({"a": rich, "b": LinearRegression()}, {}, ValueError, "'b': the model is not fitted"),
    ],
)
def test_comparisons_that_make_no_sense(models, options, kind, words):
    with pytest.raises(kind, match=words):
        compare(models, **options)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"y": Y}, "y must be one with the same keys"),
        ({"y": {"first": Y[:20], "2nd": Y[20:]}}, "y must be one with the same keys"),
        ({"models": MODELS}, r"models \['rich', 'plain'\] and sets of rows \['first', 'second'\] must have the same"),
        ({"sample_weight": np.ones(N)}, "sample_weight must be one with the same keys"),
        ({"sample_weight": {"frst": np.ones(20)}}, "sample_weight must be one with the same keys"),
        ({"groups": np.arange(N)}, "groups must be one with the same keys"),
        ({"X": {"first": FRAME[:20], "second": FRAME[["x0", "x1"]][20:]}}, "'second' and 'first' .* it lacks 'x2'"),
        ({"X": {"first": FRAME[:20], "second": FRAME[["x1", "x0", "x2"]][20:]}}, "their order differs"),
    ],
)
def test_sets_of_rows_that_make_no_sense(options, words):
    with pytest.raises(ValueError, match=words):
        compare(**({"models": rich, "X": of_parts(X), "y": of_parts(Y)} | options))


def test_models_that_disagree_on_columns():
    models = {"all": LinearRegression().fit(FRAME, Y), "two": LinearRegression().fit(FRAME[["x0", "x1"]], Y)}
    with pytest.raises(ValueError, match="'two' was fitted on other columns than X has: it lacks 'x2'"):
        compare(models, FRAME)
    models["two"] = lambda X, two=models["two"]: two.predict(X[["x0", "x1"]])
    assert compare(models, FRAME).importances["two"]["x2"].pfi == 0


def test_models_that_suggest_different_losses():
    models = {"values": LinearRegression().fit(X, Y > 0), "classes": LogisticRegression().fit(X, Y > 0)}
    with pytest.raises(ValueError, match="values: squared_error of values, classes: log_loss of probabilities"):
        compare(models, y=Y > 0, loss=None)
    with pytest.raises(ValueError, match="'values': LinearRegression gives values, not probabilities"):
        compare(models, y=Y > 0, loss="brier")


def test_names_that_nobody_has():
    found = compare()
    for ask in (lambda: found.difference("x0", "Rich", "plain"), lambda: found.error_difference("plain", "Rich")):
        with pytest.raises(KeyError, match="unknown model 'Rich'; did you mean 'rich'"):
            ask()
    with pytest.raises(KeyError, match="unknown feature 'X0'; did you mean 'x0'"):
        found.difference("X0", "rich", "plain")
    with pytest.raises(KeyError, match="unknown model 'none'"):
        found.differences("none")
    with pytest.raises(ValueError, match="level lies between 0 and 1"):
        found.difference("x0", "rich", "plain", level=95)
    with pytest.raises(ValueError, match="no Shapley shares were computed; compare again with shapley=True"):
        found.plot_shares()


@pytest.mark.parametrize("options", [{"X": X[:2], "y": Y[:2]}, {"donors": ll.Latin(2)}], ids=["rows", "donors"])
def test_too_few_rows_or_donors_have_numbers_but_no_errors(options):
    found = compare(**options)
    with pytest.raises(ValueError, match="standard error"):
        found.difference("x0", "rich", "plain")
    frame = found.to_frame()
    assert np.isfinite(frame["importance"]).all()
    assert frame[["std_error", "low", "high"]].isna().all(axis=None)
    assert "95%" not in caption(looked_at(found.plot()))


def test_a_small_set_of_rows_says_so():
    with pytest.raises(ValueError, match="a standard error needs at least 3 rows with weight; there are 2"):
        compare(rich, {"a": X[:2], "b": X[2:]}, {"a": Y[:2], "b": Y[2:]}).difference("x0", "a", "b")


# Pictures.


def test_the_picture_has_a_dot_and_a_line_a_model_and_feature():
    found = compare(shapley=True)
    ax = looked_at(found.plot())
    order = sorted(COLUMN, key=lambda name: -max(some[name].pfi for some in found.importances.values()))
    assert texts(ax.get_yticklabels()) == order
    for k, (name, some) in enumerate(found.importances.items()):
        dots = next(line for line in ax.lines if str(line.get_label()).startswith(f"{name}: error "))
        np.testing.assert_array_equal(dots.get_xdata(), [some[f].pfi for f in order])
        assert to_hex(dots.get_color()) == to_hex(LOOKS[k][0])
        at = np.asarray(dots.get_ydata())
        np.testing.assert_array_equal(np.round(at), np.arange(3))
        lines = np.array([path.vertices for path in ax.collections[k].get_paths()])
        np.testing.assert_allclose(lines[:, :, 0], [some[f].interval() for f in order])
        np.testing.assert_allclose(lines[:, 0, 1], at)
    assert [text.split(":")[0] for text in legend(ax)] == ["rich", "plain"]
    assert ax.get_xlabel() == "increase in squared error"
    assert "differences() is often more precise than the lines suggest" in caption(ax)
    assert looked_at(found.plot_shares()) is not ax


def test_of_rows_of_their_own_the_picture_does_not_speak_of_pairs():
    ax = looked_at(compare(rich, of_parts(X), of_parts(Y)).plot())
    assert "same rows" not in caption(ax)


def test_nine_models_are_too_many_for_one_picture():
    found = compare({f"model {k}": lambda X, k=k: k * rich(X) for k in range(9)})
    ax = looked_at(found.plot())
    assert len(legend(ax)) == 8
    assert "the first 8 of 9" in caption(ax)
    assert len(found.differences()) == 24


def sloped(p, k):
    return lambda X: np.asarray(X) @ (0.9 ** ((np.arange(p) + 3 * k) % p))


@pytest.mark.parametrize(("p", "name"), [(1, ("x{} " + 15 * "long").format), (60, "größe {} Возраст $x_1$ %".format)])
@pytest.mark.parametrize("models", [2, 8])
def test_pictures_of_few_and_many_features_in_axes_of_any_size(p, name, models):
    table = pd.DataFrame(np.random.default_rng(3).normal(size=(20, p)), columns=[name(j) for j in range(p)])
    cast = {f"model {k} with a name that is long, $x$": sloped(p, k) for k in range(models)}
    found = compare(cast, table, sloped(p, 0)(table), donors=ll.Latin(3))
    for size, layout in ((None, None), ((2.4, 2.2), None), ((2.4, 2.2), "constrained"), ((9, 1.8), "constrained")):
        ax = None if size is None else plt.subplots(figsize=size, layout=layout)[1]
        ax = looked_at(found.plot(ax=ax))
        rows = len(texts(ax.get_yticklabels()))
        assert 1 <= rows <= p
        assert ("not shown" in caption(ax)) == (rows < p)
        assert ("no space to name the models" in caption(ax)) == (ax.get_legend() is None)


# Shapley shares.


def test_a_difference_of_shares_is_the_jackknife_of_the_difference():
    """Shares of pairs have rows and donors as changes of loss do: leaving out a row takes off both of its parts.

    With row sums R and donor sums C of the differences of shares, U_(-i) = (T - R_i - C_i) / ((n - 1) (n - 2)).
    """
    found = compare(shapley=True)
    a, b = (found.shapley[name] for name in MODELS)
    for j, feature in enumerate(COLUMN):
        row, donor = (one[:, j] - other[:, j] for one, other in zip(parts(a), parts(b), strict=True))
        left_out = N * (N * row.mean() - row - donor) / ((N - 1) * (N - 2))
        expected = np.sqrt((N - 1) / N * np.sum((left_out - left_out.mean()) ** 2))
        difference = found.difference(feature, "rich", "plain", of="sfimp")
        assert difference.value == pytest.approx(a.sfimp[j] - b.sfimp[j])
        assert difference.std_error == pytest.approx(expected, rel=1e-9)


def parts(shares):
    return shares.shares.local, shares.shares.caused


def test_shares_of_different_rows_have_the_variances_of_both():
    found = ll.compare(rich, of_parts(X), of_parts(Y), loss="squared_error", random_state=0, features=["x0", "x1"])
    with pytest.raises(ValueError, match="of is 'pfi' or 'sfimp'; got array"):
        found.difference("x0", "first", "second", of=np.zeros(3))
    difference = found.difference("x0", "first", "second", of="sfimp")
    a, b = found.shapley.values()
    assert difference.value == pytest.approx(a.unbiased[0] - b.unbiased[0])
    assert difference.std_error == pytest.approx(np.hypot(a.std_error[0], b.std_error[0]))
    assert found.differences(of="sfimp")["feature"].tolist() in (["x0", "x1"], ["x1", "x0"])


def test_differences_of_shares_need_shares_and_a_known_word():
    with pytest.raises(ValueError, match="shapley=True"):
        compare().difference("x0", "rich", "plain", of="sfimp")
    with pytest.raises(ValueError, match="'pfi' or 'sfimp'"):
        compare().difference("x0", "rich", "plain", of="shares")


def test_groups_cluster_the_differences_of_importances():
    groups = np.arange(N) // 4
    found = compare(groups=groups)
    D = cells(rich, "x0") - cells(plain, "x0")
    apart = groups[:, None] != groups

    def mean(rows):
        inside = apart[np.ix_(rows, rows)]
        return D[np.ix_(rows, rows)][inside].mean()

    difference = found.difference("x0", "rich", "plain")
    assert difference.value == pytest.approx(mean(np.arange(N)))
    assert difference.std_error == pytest.approx(brute.jackknife(mean, groups), rel=1e-9)
    shared = compare(groups=groups, shapley=True)
    one = ll.shapley_importance(rich, X, Y, loss="squared_error", groups=groups)
    np.testing.assert_allclose(shared.shapley["rich"].sfimp, one.sfimp)
    found = shared.difference("x0", "rich", "plain", of="sfimp")
    moved = [shared.shapley[name].influence("x0").moved for name in MODELS]
    assert found.std_error == pytest.approx(np.linalg.norm(moved[0] - moved[1]))
    with pytest.raises(ValueError, match=r"'rich': with groups= .* all pairs"):
        compare(groups=groups, shapley=True, donors=ll.Latin(3))


# How far features moved.

LATE = {"early": FRAME[:20], "late": FRAME[20:] + np.array([0.0, 2.0, 0.0])}
TARGETS = {"early": Y[:20], "late": Y[20:]}


def of_frames(X):
    return rich(X.to_numpy())


def test_importances_and_values_that_moved():
    found = compare(of_frames, LATE, TARGETS)
    frame = found.moved().set_index("feature")
    assert list(frame.index) == found.differences()["feature"].tolist()
    for name in COLUMN:
        a, b = (LATE[part][name].to_numpy() for part in LATE)
        apart = found.difference(name, "late", "early")
        row = frame.loc[name]
        assert (row["difference"], row["low"], row["high"]) == (apart.value, apart.low, apart.high)
        assert row["importance"] == found.importances["late"][name].pfi
        assert row["importance_against"] == found.importances["early"][name].pfi
        assert row["distance"] == pytest.approx(stats.ks_2samp(a, b).statistic)
        assert row["value"] - row["value_against"] == pytest.approx(b.mean() - a.mean())
    assert frame["moved"].to_dict() == {"x0": False, "x1": True, "x2": False}
    assert f"{frame['distance']['x1']:.2f}*" in repr(found)
    other = found.moved(against="late").set_index("feature")
    np.testing.assert_allclose(other["mean_difference"], -frame.loc[other.index, "mean_difference"])
    assert found.shift("x1", "early", "late").value == found.shift("x1", "late", "early").value_against
    shared = compare(of_frames, LATE, TARGETS, shapley=True)
    of_shares = shared.moved(of="sfimp").set_index("feature")
    assert of_shares["importance"]["x0"] == shared.shapley["late"].sfimp[0]


def test_weights_and_groups_of_each_set_of_rows():
    """Variances add up, each by leaving out the groups of its own rows; as many groups of rows moved, or by chance."""
    weight = {"first": np.linspace(1, 2, 20), "second": np.ones(16)}
    groups = {"first": np.arange(20) // 2, "second": np.arange(16) // 4}
    found = compare(rich, of_parts(X), of_parts(Y), sample_weight=weight, groups=groups)
    asked = {"loss": "squared_error"}
    alone = [
        ll.feature_importance(rich, X[rows], Y[rows], sample_weight=weight[k], groups=groups[k], **asked)["x0"]
        for k, rows in ROWS.items()
    ]
    apart = found.difference("x0", "first", "second")
    assert apart.std_error == pytest.approx(np.hypot(alone[0].std_error, alone[1].std_error))
    assert "The effective number of groups is" in apart.caution
    shift = found.shift("x0", "second", "first")
    heavy = weight["first"].reshape(10, 2).sum(axis=1)
    assert shift.value_against == pytest.approx(np.average(X[:20, 0], weights=weight["first"]))
    units = heavy.sum() ** 2 / np.square(heavy).sum(), 4
    assert shift.by_chance == pytest.approx(np.sqrt(np.log(40) / 2 * (1 / units[0] + 1 / units[1])))


def test_columns_that_are_replaced_together_moved_as_far_as_the_farthest():
    found = compare(of_frames, LATE, TARGETS, features={"both": ["x0", "x1"], "x2": ["x2"]})
    alone = compare(of_frames, LATE, TARGETS)
    assert found.shift("both", "late", "early") == alone.shift("x1", "late", "early")
    assert found.shift("both", "late", "early").column == "x1"


def test_three_sets_of_rows_and_a_picture(tmp_path):
    rows = {"a": X[:12], "b": X[12:24], "c": X[24:]}
    found = compare(rich, rows, {"a": Y[:12], "b": Y[12:24], "c": Y[24:]})
    found.save(tmp_path / "found")
    again = ll.load(tmp_path / "found")
    assert set(again.moved(against="b")["model"]) == {"a", "c"}
    pd.testing.assert_frame_equal(again.moved(), found.moved())
    assert "values moved" not in repr(found)
    ax = found.plot_moved("c", "b")
    assert ax.get_xlabel() == "increase in squared error: c less b"
    (panel,) = [one for one in ax.figure.axes if one is not ax]
    order = [text.get_text() for text in ax.get_yticklabels()]
    distances = [found.shift(name, "c", "b").distance for name in order]
    np.testing.assert_allclose(panel.collections[-1].get_offsets()[:, 0], distances)
    plt.close(ax.figure)
    with pytest.raises(ValueError, match="the same rows"):
        found.shift("x0", "a", "a")
    with pytest.raises(KeyError, match="unknown model 'd'"):
        found.plot_moved("d")
    for call in (compare().moved, compare().plot_moved):
        with pytest.raises(ValueError, match="same rows"):
            call()


def test_scores_of_two_sets_of_rows_moved_too():
    label = (Y > 0.5).astype(int)
    model = LogisticRegression().fit(X, label)
    found = ll.compare(model, of_parts(X), of_parts(label), loss="accuracy", shapley=False, donors=ll.Latin(3))
    assert found.moved()["distance"].between(0, 1).all()
    assert "values moved" in repr(found)


# Scores.

LABEL = (np.median(Y) < Y).astype(int)
TWO = {"linear": LogisticRegression().fit(X, LABEL), "tree": DecisionTreeClassifier(max_depth=2).fit(X, LABEL)}
THIRDS = np.arange(N) % 9


def jackknifed(values):
    return np.sqrt((len(values) - 1) / len(values) * np.sum((values - np.mean(values)) ** 2))


@pytest.mark.parametrize(("scorer", "groups"), [("roc_auc", None), ("roc_auc", THIRDS), ("f1", THIRDS)])
def test_scores_differ_by_the_jackknife_that_leaves_out_the_same_rows_of_both(scorer, groups):
    """Importances of all drawn pairs together, without those of a row or group."""
    found = compare(TWO, y=LABEL, loss=scorer, groups=groups, donors=ll.Latin(2))
    seen = compare({"a": rich, "b": plain}, donors=ll.Latin(2)).importances["a"]["x2"]
    unit = np.arange(N) if groups is None else groups

    def score(model, rows, k):
        replaced = X[rows]
        replaced[:, 2] = X[k, 2]
        return get_scorer(scorer)(model, replaced, LABEL[rows])

    pairs = [(np.arange(N), k) for k in brute.donors(seen).T]
    if groups is not None:  # no donors of the own group
        pairs = [(r[groups[r] != groups[k]], k[groups[r] != groups[k]]) for r, k in pairs]
    own, importance = [], []
    for u in np.unique(unit):
        rows = np.flatnonzero(unit != u)
        own.append([score(model, rows, rows) for model in TWO.values()])
        keeps = [(unit[r] != u) & (unit[k] != u) for r, k in pairs]
        left = [(r[keep], k[keep]) for (r, k), keep in zip(pairs, keeps, strict=True)]
        left = [tuple(np.concatenate(part) for part in zip(*left, strict=True))]
        mass, drops = (
            [len(r) for r, _ in left],
            [[score(m, r, r) - score(m, r, k) for r, k in left] for m in TWO.values()],
        )
        importance.append([np.average(each, weights=mass) for each in drops])
    own, importance = np.array(own), np.array(importance)
    error = found.error_difference("linear", "tree")
    bases = [get_scorer(scorer)(model, X, LABEL) for model in TWO.values()]
    assert error.value == pytest.approx(bases[0] - bases[1])
    assert error.std_error == pytest.approx(jackknifed(own[:, 0] - own[:, 1]))
    apart = found.difference("x2", "linear", "tree")
    assert apart.std_error == pytest.approx(jackknifed(importance[:, 0] - importance[:, 1]))
    one, other = (found.importances[name]["x2"].unbiased for name in TWO)
    assert apart.value == pytest.approx(one - other)
    assert list(found.differences()["feature"])
    frame = found.errors()
    assert frame.columns[1] == "score"
    best = max(TWO, key=lambda name: get_scorer(scorer)(TWO[name], X, LABEL))
    assert frame["model"].iloc[0] == best
    assert frame["std_error"].iloc[0] == pytest.approx(jackknifed(own[:, list(TWO).index(best)]))


def test_scores_side_by_side_are_told_as_scores(tmp_path):
    found = compare(TWO, y=LABEL, loss="roc_auc", shapley=True)
    assert repr(found).startswith("Comparison: decrease in roc_auc_score; 2 side by side, on the same rows")
    assert "(score)" in repr(found)
    ax = found.plot()
    assert ax.get_xlabel() == "decrease in roc_auc_score"
    assert any("linear: score 0." in text for text in legend(ax))
    with pytest.raises(ValueError, match="roc_auc_score"):
        found.difference("x0", "linear", "tree", of="sfimp")
    assert {"sfimp", "low"} <= set(found.to_frame())
    found.save(tmp_path / "compared")
    assert ll.load(tmp_path / "compared").differences().equals(found.differences())
    other = compare(TWO["linear"], of_parts(X), of_parts(LABEL), loss="roc_auc")
    parts = [other.importances[name]["x0"].std_error for name in ROWS]
    assert other.difference("x0", "first", "second").std_error == pytest.approx(np.hypot(*parts))
    plt.close("all")


@pytest.mark.filterwarnings("ignore:The effective number")
def test_groups_of_one_set_alone_are_cautioned_of():
    rng = np.random.default_rng(0)
    sets = {name: rng.normal(size=(40, 2)) for name in ("a", "b")}
    y = {name: X[:, 0] + rng.normal(size=40) for name, X in sets.items()}
    groups = {"a": None, "b": np.arange(40) // 8}
    found = ll.compare(lambda X: X[:, 0], sets, y, loss="squared_error", groups=groups)
    assert found.difference("x0", "b", "a").caution.startswith("The effective number of groups is")
