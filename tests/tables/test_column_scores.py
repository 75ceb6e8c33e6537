import numpy as np
import pandas as pd
import pytest
from scipy.special import ndtri

from coded import coded_rows
from losslens.tables import column_scores
from losslens.tables.column_scores import FeatureScores, fit_logistic, score_column
from losslens.tables.columns import array_column
from losslens.tables.frames import as_table
from losslens.tables.sample import MOST_ROWS, spread_rows


def scored(x):
    distinct = array_column(x).distinct
    return score_column(distinct.values, distinct.codes, distinct.ordered)


def test_rows_are_spread_over_the_table():
    table = as_table(np.zeros((10_000, 2)))
    rows = spread_rows(table)
    assert len(np.unique(rows)) == MOST_ROWS
    assert np.diff(rows).max() < 2 * 10_000 / MOST_ROWS
    np.testing.assert_array_equal(spread_rows(as_table(np.zeros((50, 2)))), np.arange(50))
    np.testing.assert_array_equal(spread_rows(as_table(np.zeros((49, 2))), np.full(49, 1 / 49)), np.arange(49))
    assert len(spread_rows(as_table(np.zeros((10_000, 2_000))))) < MOST_ROWS


def test_rows_without_weight_are_not_looked_at():
    weight = np.repeat([0.0, 1.0], 100)
    rows = spread_rows(as_table(np.zeros((200, 2))), weight / weight.sum())
    assert rows.min() >= 100


def test_codes_say_all_that_the_rows_hold_and_share_nothing_with_the_table():
    rng = np.random.default_rng(0)
    words, lists = rng.choice(np.array(["u", "v", None], object), 40), [[k] for k in range(40)]
    X = pd.DataFrame({"a": rng.normal(size=40), "b": pd.Series(words, dtype=object), "lists": lists})
    coded = coded_rows(X)
    assert coded.names == ("a", "b", "lists")
    np.testing.assert_array_equal(coded.values[0][coded.codes[:, 0]], X["a"])
    assert [coded.values[1][k] for k in coded.codes[:, 1]] == X["b"].tolist()
    assert coded.ordered == (True, False, True)
    assert coded.scored[2].scores.shape == (40, 0)  # lists can't be compared: no numbers
    assert not any(np.shares_memory(values, X["a"].to_numpy()) for values in coded.values)


def test_the_odds_minimise_the_penalised_loss():
    rng = np.random.default_rng(0)
    terms = np.column_stack([np.ones(200), rng.normal(size=(200, 3))])
    answer, weight = (terms[:, 1] + rng.normal(size=200) > 0).astype(float), rng.uniform(0.5, 2, 200)
    penalty = np.array([0.0, 1.0, 2.0, 3.0])
    found = fit_logistic(terms, answer, weight, penalty)
    chance = 1 / (1 + np.exp(-terms @ found))
    np.testing.assert_allclose(terms.T @ (weight * (chance - answer)) + penalty * found, 0, atol=1e-3)


def test_a_plane_between_zeros_and_ones_has_finite_odds():
    x = np.linspace(-1, 1, 40)
    found = fit_logistic(np.column_stack([np.ones(40), x]), (x > 0).astype(float), np.ones(40), np.array([0.0, 0.1]))
    assert np.isfinite(found).all()
    assert found[1] > 5


def test_scores_are_standardised_normal_scores_of_ranks():
    x = np.random.default_rng(0).lognormal(size=101)
    column = scored(x)
    np.testing.assert_allclose(column.scores.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(column.scores.std(axis=0), 1)
    z = ndtri((np.argsort(np.argsort(x)) + 0.5) / 101)
    np.testing.assert_allclose(column.scores[:, 0], z / z.std(), atol=1e-12)
    np.testing.assert_array_equal(column.of_values(x), column.scores)
    np.testing.assert_array_equal(column.nearest(x), column.codes)


@pytest.mark.parametrize(
    ("x", "values", "nearest"),
    [
        ([False, True, True], [True, False], [1, 0]),
        (np.array([0, 100, 250], np.uint8), np.array([120, 200, 255], np.uint8), [1, 2, 2]),
        (np.array([-128, 0, 127], np.int8), np.array([-100, 100], np.int8), [0, 2]),
        (np.array(["2020-01-01", "2020-01-09"], "M8[D]"), np.array(["2020-01-04"], "M8[D]"), [0]),
    ],
)
def test_the_nearest_value_of_any_type_with_an_order(x, values, nearest):
    """Small integers overflow when they are subtracted; truth values cannot be."""
    assert scored(np.asarray(x)).nearest(np.asarray(values)).tolist() == nearest


def test_missing_values_and_words_have_indicators():
    x = np.where(np.arange(60) % 3 == 0, np.nan, np.arange(60.0))
    column = scored(x)
    assert column.scores.shape == (60, 4)
    assert len(np.unique(column.scores[np.isnan(x)], axis=0)) == 1
    np.testing.assert_array_equal(column.of_values(x), column.scores)
    words = scored(np.array(["a", "b", None] * 20, dtype=object))
    assert words.scores.shape == (60, 3)
    with pytest.raises(ValueError, match="'z' is no value"):
        words.nearest(np.array(["a", "z"], dtype=object))
    assert FeatureScores.of([column, words]).scores.shape == (60, 7)


@pytest.mark.parametrize(("absent", "of", "counts"), [(4, 100, 0), (5, 100, 1), (9, 1000, 0), (10, 1000, 1)])
def test_missing_values_have_an_indicator_unless_they_are_rare(absent, of, counts):
    """At least 5 rows, and 1% of all."""
    scores, _ = column_scores._powers(np.array([0.0, 1.0, np.nan]), np.array([of / 2, of / 2 - absent, absent]))
    assert scores.shape == (3, 1 + counts)
