"""Conditional predictive impact: known samplers against brute force, and a truth with a formula."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from matplotlib import pyplot as plt
from scipy import stats
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import get_scorer

import brute
import losslens as ll
from losslens.results.row_changes import ConditionalImpact
from pictures import caption, looked_at, texts

RNG = np.random.default_rng(0)
N = 50
X = RNG.normal(size=(N, 3))
Y = X[:, 0] * X[:, 1] + X[:, 1] + 0.3 * RNG.normal(size=N)
WEIGHT = RNG.integers(0, 4, N).astype(float)


def model(X):
    return X[:, 0] * X[:, 1] + X[:, 1]


def zero(X):
    return np.zeros(len(X))


def turned(X, columns, rng):
    """Every row gets the values of the row before it."""
    return np.roll(X, 1, axis=0)


def shuffled(X, columns, rng):
    return X[rng.permutation(len(X))]


def impact(sampler=turned, model=model, X=X, y=Y, **options):
    options = {"loss": "squared_error", "random_state": 0} | options
    return ll.conditional_predictive_impact(model, X, y, sampler, **options)


def changes(columns, donors, predict=model, X=X, y=Y, loss="squared_error"):
    """Of each row's loss, when it gets the values of these rows, (n,)."""
    replaced = X.copy()
    replaced[:, columns] = X[donors][:, columns]
    return brute.LOSSES[loss](y, predict(replaced)) - brute.LOSSES[loss](y, predict(X))


BEFORE = np.roll(np.arange(N), 1)


# The numbers.


def test_the_changes_are_those_that_the_model_itself_gives():
    found = impact()
    expected = np.stack([changes([j], BEFORE) for j in range(3)], axis=1)
    np.testing.assert_allclose(found.local, expected, atol=1e-12)
    np.testing.assert_allclose(found.importance, expected.mean(axis=0))
    assert found.importance[2] == 0
    assert found.error == pytest.approx(np.mean((Y - model(X)) ** 2))


def test_a_classifier_is_judged_by_log_loss():
    y = np.where(Y > 0, "yes", "no")
    native = LogisticRegression().fit(X, y)
    found = impact(model=native, y=y, loss=None)
    expected = changes([1], BEFORE, native.predict_proba, y=(y == "yes").astype(int), loss="log_loss")
    np.testing.assert_allclose(found.local[:, 1], expected, atol=1e-9)
    assert found.title == "log loss"


def test_columns_drawn_together():
    found = impact(features={"both": [0, 1], "last": ["x2"]})
    assert found.features == ("both", "last")
    np.testing.assert_allclose(found.local[:, 0], changes([0, 1], BEFORE), atol=1e-12)


def test_what_a_sampler_does_to_other_columns_is_not_read():
    def careless(X, columns, rng):
        drawn = np.full(X.shape, 1e6)
        drawn[:, columns] = np.roll(X, 1, axis=0)[:, columns]
        return drawn

    np.testing.assert_array_equal(impact(careless).local, impact().local)


def test_a_sampler_is_told_columns_as_the_table_calls_them():
    told = []

    def listening(X, columns, rng):
        told.append((type(X), columns))
        return X

    frame = pd.DataFrame(X, columns=["a", "b", 3])
    impact(listening, zero, frame, features={"g": ["a", 3], "b": ["b"]})
    impact(listening, features=["x1", "x0"])
    assert told == [(pd.DataFrame, ["a", 3]), (pd.DataFrame, ["b"]), (np.ndarray, [1]), (np.ndarray, [0])]


def test_several_draws_are_averaged_row_by_row():
    """The second draw turns the rows once more."""
    turns = []

    def further(X, columns, rng):
        turns.append(1)
        return np.roll(X, len(turns), axis=0)

    found = impact(further, features=["x1"], draws=3)
    expected = np.mean([changes([1], np.roll(np.arange(N), k)) for k in (1, 2, 3)], axis=0)
    np.testing.assert_allclose(found.local[:, 0], expected, atol=1e-12)


def test_small_batches_give_the_same_numbers():
    asked = []

    def listening(X):
        asked.append(len(X))
        return model(X)

    table = np.random.default_rng(4).normal(size=(3000, 3))
    found = impact(model=listening, X=table, y=table[:, 0], memory="2 MiB")
    assert max(asked) < 3000
    np.testing.assert_allclose(found.local, impact(X=table, y=table[:, 0]).local, atol=1e-12)


def test_draws_follow_the_seed_and_not_the_other_features():
    one, two = impact(shuffled), impact(shuffled)
    np.testing.assert_array_equal(one.local, two.local)
    np.testing.assert_array_equal(impact(shuffled, features=["x1"]).local[:, 0], one.local[:, 1])
    assert not np.array_equal(impact(shuffled, random_state=1).local, one.local)


def test_the_gaussian_truth():
    """y = 2 x1 + e, and the model knows it; x1 and x2 are standard normal with correlation 0.8.

    Given x2, x1 is normal with mean 0.8 x2 and variance 1 - 0.64. A fresh draw x1' is independent of x1 given x2:

    CPI = E (2 x1 - 2 x1' + e)² - E e² = 4 E (x1 - x1')² = 2 b² Var(x1 | x2) = 2 x 4 x 0.36 = 2.88.

    The marginal importance would be 2 b² Var(x1) = 8. Neither the model nor the truth reads x2: it adds nothing,
    exactly.
    """
    rng, n, rho, b = np.random.default_rng(3), 20_000, 0.8, 2.0
    x2 = rng.normal(size=n)
    x1 = rho * x2 + np.sqrt(1 - rho**2) * rng.normal(size=n)
    table, y = np.column_stack([x1, x2]), b * x1 + rng.normal(size=n)

    def given_the_other(X, columns, rng):
        (j,) = columns
        drawn = X.copy()
        drawn[:, j] = rho * X[:, 1 - j] + np.sqrt(1 - rho**2) * rng.normal(size=len(X))
        return drawn

    found = impact(given_the_other, lambda X: b * X[:, 0], table, y)
    assert abs(found.importance[0] - 2 * b**2 * (1 - rho**2)) < 4 * found.std_error[0]
    assert found.std_error[0] < 0.05
    assert (found.importance[1], found.std_error[1]) == (0, 0)
    more = impact(given_the_other, lambda X: b * X[:, 0], table, y, draws=4)
    assert abs(more.importance[0] - 2 * b**2 * (1 - rho**2)) < 4 * more.std_error[0]
    assert more.std_error[0] < found.std_error[0]


def test_a_copy_that_the_model_reads_adds_nothing_beyond_its_original():
    """x1 is x0 again: given the other, each is known, and a fair sampler changes nothing."""
    table = np.column_stack([X[:, 0], X[:, 0]])

    def fair(X, columns, rng):
        return X[:, ::-1]

    found = impact(fair, lambda X: X.sum(axis=1), table, 2 * X[:, 0])
    np.testing.assert_array_equal(found.local, 0.0)
    assert (found.estimates().p_values() == 1).all()


# How sure.


def test_the_standard_error_is_that_of_a_mean():
    found = impact()
    expected = np.stack([changes([j], BEFORE) for j in range(3)], axis=1).std(axis=0, ddof=1) / np.sqrt(N)
    np.testing.assert_allclose(found.std_error, expected, atol=1e-12)
    assert found.std_error[0] == pytest.approx(stats.sem(found.local[:, 0]))


def test_differences_are_paired():
    found = impact()
    expected = stats.ttest_rel(found.local[:, 0], found.local[:, 1])
    apart = found.difference("x0", "x1")
    assert apart.value == pytest.approx(np.mean(found.local[:, 0] - found.local[:, 1]))
    assert apart.std_error == pytest.approx(stats.sem(found.local[:, 0] - found.local[:, 1]))
    assert apart.p_value == pytest.approx(expected.pvalue)


def test_p_values_of_symmetric_changes_are_students():
    """Changes that are symmetric about their mean have no skewness: the one-sided t test."""
    rng = np.random.default_rng(5)
    half = rng.normal(size=20)
    local = 0.2 + np.concatenate([half, -half])[:, None]
    found = ConditionalImpact(
        features=("x",), local=local, weight=np.full(40, 1 / 40), error=1.0, title="squared error", backend="pandas"
    )
    expected = stats.ttest_1samp(local[:, 0], 0, alternative="greater").pvalue
    assert found.estimates().p_values()[0] == pytest.approx(expected)
    assert found.test(adjust=None)["p"][0] == pytest.approx(expected)
    reach = stats.t.ppf(0.975, 39) * stats.sem(local[:, 0])
    np.testing.assert_allclose(np.ravel(found.interval()), [0.2 - reach, 0.2 + reach])


def test_weights():
    """Whole weights change the mean as repeated rows do; a row without weight counts nowhere."""
    found = impact(sample_weight=WEIGHT)
    expected = np.stack([changes([j], BEFORE) for j in range(3)], axis=1)
    mean = np.average(expected, axis=0, weights=WEIGHT)
    np.testing.assert_allclose(found.importance, mean, atol=1e-12)
    counted = np.flatnonzero(WEIGHT)
    for j, error in enumerate(found.std_error):  # each row left out
        left = brute.jackknife(
            lambda rows, j=j: np.average(expected[counted[rows], j], weights=WEIGHT[counted[rows]]),
            np.arange(len(counted)),
        )
        assert error == pytest.approx(left, abs=1e-12)
    np.testing.assert_allclose(impact(sample_weight=np.full(N, 3.0)).std_error, impact().std_error)


def test_the_test_holds_its_level_where_a_model_fits_noise_given_the_others():
    """The model reads x1 with a slope that the truth doesn't have, and x1 is drawn fairly: E change = 0 or less.

    y = x0 + e, f = x0 + 0.2 x1, so that E change = 0 (both draws cost the same). Of 200 tests at 5% more than 21
    small ones have probability 0.0006.
    """
    rng, small = np.random.default_rng(6), 0
    for _ in range(200):
        table = rng.normal(size=(40, 2))
        y = table[:, 0] + rng.normal(size=40)

        def fresh(X, columns, rng):
            return rng.normal(size=X.shape)

        found = impact(fresh, lambda X: X[:, 0] + 0.2 * X[:, 1], table, y, features=["x1"], progress=False)
        small += found.estimates().p_values()[0] < 0.05
    assert small <= 21


# Tables.


def mixed():
    return pd.DataFrame(
        {
            "number": X[:, 0],
            "whole": np.arange(N) % 5,
            "colour": pd.Categorical(np.array(["red", "blue"])[np.arange(N) % 2]),
        },
        index=np.arange(N)[::-1],
    )


def of_mixed(table):
    colour = np.array([str(c) == "red" for c in table["colour"]])
    return np.asarray(table["number"]) + 0.5 * np.asarray(table["whole"]) * colour


def test_pandas_with_categories():
    """A sampler may give its rows in any order of its index: rows count by position."""

    def turned(X, columns, rng):
        assert list(X.columns) == ["number", "whole", "colour"]
        return X.iloc[np.roll(np.arange(N), 1)]

    frame = mixed()
    found = impact(turned, of_mixed, frame)
    for j, name in enumerate(frame):
        replaced = frame.assign(**{name: frame[name].to_numpy()[BEFORE]})
        expected = (Y - of_mixed(replaced)) ** 2 - (Y - of_mixed(frame)) ** 2
        np.testing.assert_allclose(found.local[:, j], expected, atol=1e-12)
    assert isinstance(found.to_frame(), pd.DataFrame)


def test_polars_gives_the_same():
    def turned(X, columns, rng):
        return X[np.roll(np.arange(N), 1).tolist()]

    found = impact(turned, of_mixed, pl.from_pandas(mixed()))
    same = impact(lambda X, columns, rng: X.iloc[np.roll(np.arange(N), 1)], of_mixed, mixed())
    np.testing.assert_allclose(found.local, same.local, atol=1e-12)
    assert isinstance(found.to_frame(), pl.DataFrame)


def test_words_for_categories_are_read_as_such():
    found = impact(lambda X, columns, rng: X.assign(colour="red"), of_mixed, mixed(), features=["colour"])
    blue = np.arange(N) % 2 == 1
    assert (found.local[~blue] == 0).all()
    assert np.any(found.local[blue] != 0)


def test_whole_numbers_in_a_column_of_floats_and_the_other_way_round():
    whole = np.arange(3 * N).reshape(N, 3) % 7
    found = impact(lambda X, columns, rng: np.roll(X, 1, axis=0).astype(float), X=whole)
    np.testing.assert_allclose(found.local[:, 1], changes([1], BEFORE, X=whole), atol=1e-9)


@pytest.mark.parametrize("make", [np.array, lambda X: pd.DataFrame(X, columns=list("abc"))], ids=["array", "frame"])
def test_a_sampler_that_writes_into_its_table_harms_nobody(make):
    def writing(X, columns, rng):
        if isinstance(X, np.ndarray):
            X[:, columns] = np.roll(X, 1, axis=0)[:, columns]
        else:
            X[columns] = np.roll(X.to_numpy(), 1, axis=0)[:, [list("abc").index(c) for c in columns]]
        return X

    table = make(X)
    found = impact(writing, lambda X: model(np.asarray(X)), table, draws=2)
    np.testing.assert_array_equal(np.asarray(table), X)
    np.testing.assert_allclose(found.local, impact().local, atol=1e-12)


# Shown and kept.


def test_the_table_and_the_words():
    found = impact(shuffled)
    frame = found.to_frame()
    order = np.argsort(-found.importance)
    assert list(frame.columns) == ["feature", "importance", "std_error", "low", "high", "target", "p", "caution"]
    assert list(frame["feature"]) == [found.features[j] for j in order]
    np.testing.assert_array_equal(frame["std_error"], found.std_error[order])
    np.testing.assert_array_equal(frame["low"], found.interval()[0][order])
    np.testing.assert_array_equal(frame["p"], found.estimates().p_values()[order])
    lines = repr(found).splitlines()
    assert lines[0].startswith("ConditionalImpact: increase in squared error beyond the other features; ")
    assert lines[1].startswith(f"  {found.features[order[0]]}  ")
    assert lines[len(order)].endswith("p = 1")
    assert lines[0] in found._repr_html_()


def test_a_saved_result_says_the_same(tmp_path):
    found = impact(shuffled, sample_weight=WEIGHT)
    found.save(tmp_path / "impact.zip")
    loaded = ll.load(tmp_path / "impact.zip")
    assert repr(loaded) == repr(found)
    np.testing.assert_array_equal(loaded.local, found.local)
    np.testing.assert_array_equal(loaded.interval(), found.interval())


def test_two_rows_have_a_number_and_nothing_that_says_how_sure_it_is():
    found = impact(X=X[:2], y=Y[:2])
    assert repr(found).count("±") == 0
    assert found.to_frame()[["std_error", "low", "high", "p"]].isna().all(axis=None)
    assert texts(looked_at(found.plot()).get_yticklabels())[0] == found.to_frame()["feature"][0]
    with pytest.raises(ValueError, match="a standard error needs at least 3 rows with weight; there are 2"):
        _ = found.std_error


def test_a_linear_fit_with_regression_residuals_as_the_sampler():
    """Residuals of a regression on the other columns, turned: a sampler that users write."""

    def residuals(X, columns, rng):
        drawn = X.copy()
        for j in columns:
            others = np.delete(X, columns, axis=1)
            mean = LinearRegression().fit(others, X[:, j]).predict(others)
            drawn[:, j] = mean + np.roll(X[:, j] - mean, 1)
        return drawn

    found = impact(residuals)
    replaced = residuals(X, [1], None)
    expected = (Y - model(replaced)) ** 2 - (Y - model(X)) ** 2
    np.testing.assert_allclose(found.local[:, 1], expected, atol=1e-12)


# What is refused.


@pytest.mark.parametrize(
    ("sampler", "kind", "words"),
    [
        (None, TypeError, r"sampler must be a function \(X, columns, rng\) -> a table like X; got NoneType"),
        (lambda X, c, r: X[:10], ValueError, "sampler gave 10 rows for 50; it draws one value for each row"),
        (lambda X, c, r: X[:1], ValueError, "sampler gave 1 rows for 50"),
        (lambda X, c, r: X[:, c], ValueError, r"sampler must give a table like X: .* 3 columns of X; got shape"),
        (lambda X, c, r: X[:, 0], ValueError, "sampler must give a table like X: .* 3 columns of X; got shape"),
        (lambda X, c, r: None, ValueError, "sampler must give a table like X"),
        (lambda X, c: X, TypeError, "takes 2 positional arguments but 3 were given"),
    ],
)
def test_samplers_that_make_no_sense(sampler, kind, words):
    with pytest.raises(kind, match=words):
        impact(sampler)


@pytest.mark.parametrize(
    ("sampler", "kind", "words"),
    [
        (lambda X, c, r: X[c], ValueError, "sampler must give a table like X: .* it has no column"),
        (lambda X, c, r: X.to_numpy(), TypeError, "sampler must give a table like X: .* got ndarray"),
        (
            lambda X, c, r: pl.from_pandas(X),
            ValueError,
            "sampler must give a table like X: .* polars table, X a pandas",
        ),
        (lambda X, c, r: X.assign(colour="gold"), ValueError, "'gold' in column 'colour', which is no category of X's"),
        (lambda X, c, r: X.assign(whole=0.5), ValueError, "column 'whole', which X's type int64 can't hold"),
        (lambda X, c, r: X.head(4), ValueError, "sampler gave 4 rows for 50"),
    ],
)
def test_samplers_of_frames_that_make_no_sense(sampler, kind, words):
    with pytest.raises(kind, match=words):
        impact(sampler, of_mixed, mixed())


@pytest.mark.parametrize("make", [np.array, lambda X: pl.DataFrame(X, schema=list("abc"))])
def test_fractions_do_not_fit_a_column_of_whole_numbers(make):
    whole = make(np.arange(3 * N).reshape(N, 3) % 7)
    with pytest.raises(ValueError, match=r"sampler must give a table like X: rows has values .* can't hold"):
        impact(lambda X, c, r: X + 0.5 if isinstance(X, np.ndarray) else X.select(pl.all() + 0.5), zero, whole)


@pytest.mark.parametrize(
    ("options", "kind", "words"),
    [
        ({"draws": 0}, ValueError, "draws is a whole number from 1 on; got 0"),
        ({"draws": True}, ValueError, "draws is a whole number from 1 on; got True"),
        ({"draws": 1.5}, ValueError, "draws is a whole number from 1 on; got 1.5"),
        ({"y": None}, ValueError, "y, the true values, is missing"),
        ({"loss": get_scorer("r2")}, ValueError, "a scorer gives one number for all rows"),
        ({"features": ["x9"]}, ValueError, "unknown feature 'x9'"),
    ],
)
def test_other_things_that_make_no_sense(options, kind, words):
    with pytest.raises(kind, match=words):
        impact(**options)


def test_questions_that_an_impact_cannot_answer():
    with pytest.raises(ValueError, match="the Monte-Carlo error alone has no interval here"):
        impact().interval(target="sample")
    with pytest.raises(ValueError, match="use feature_importance_cv"):
        impact().interval(target="learner")


# Pictures.


def test_the_picture_has_a_bar_and_a_line_a_feature():
    found = impact(shuffled)
    ax = looked_at(found.plot())
    order = np.argsort(-found.importance)
    assert texts(ax.get_yticklabels()) == [found.features[j] for j in order]
    np.testing.assert_allclose([bar.get_width() for bar in ax.patches], found.importance[order])
    drawn = [path.vertices[:, 0] for some in ax.collections for path in some.get_paths()]
    np.testing.assert_allclose(drawn, np.stack(found.interval(), axis=1)[order])
    assert " ".join(ax.get_xlabel().split()) == "increase in squared error beyond the other features"
    assert "lines: 95% intervals" in caption(ax)


@pytest.mark.parametrize(("p", "name"), [(1, ("x{} " + 15 * "long").format), (200, "größe {} Возраст $x_1$ %".format)])
@pytest.mark.parametrize("size", [None, (2.2, 2.0), (9, 1.6)])
def test_pictures_of_few_and_many_features_in_axes_of_any_size(p, name, size):
    local = 0.9 ** np.arange(p) + np.random.default_rng(3).normal(size=(30, p))
    found = ConditionalImpact(
        features=tuple(map(name, range(p))), local=local, weight=np.full(30, 1 / 30), error=1.0,
        title="squared error", backend="pandas",
    )  # fmt: skip
    ax = looked_at(found.plot(None if size is None else plt.subplots(figsize=size, layout="constrained")[1]))
    assert len(texts(ax.get_yticklabels())) == len(ax.patches) <= p
    assert ("less important features not shown" in caption(ax)) == (p == 200)


def test_rows_without_any_donor_are_refused():
    X, y = np.array([[0.0, 1.0], [1.0, 0.0], [0.0, -1.0]]), np.arange(3.0)
    with pytest.raises(ValueError, match=r"sampler=.* has no donor with weight for any row"):
        ll.conditional_predictive_impact(
            lambda X: X[:, 0], X, y, ll.Within(), loss="squared_error", sample_weight=[1.0, 1.0, 0.0], random_state=22
        )


def test_a_feature_that_the_model_does_not_read_has_no_impact_with_any_number_of_draws():
    """Changes are averaged, not losses: a mean of seven equal losses less the loss is rounding, not 0."""
    rng = np.random.default_rng(0)
    table = rng.normal(size=(60, 2))
    found = ll.conditional_predictive_impact(
        lambda Z: Z[:, 0], table, table[:, 0] + rng.normal(size=60), ll.Residual(), loss="squared_error", draws=7,
        random_state=0,
    )  # fmt: skip
    frame = found.to_frame()
    assert frame["p"][list(frame["feature"]).index("x1")] == 1
