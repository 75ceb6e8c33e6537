"""Associations of columns against SciPy and formulas, groups, and what the others determine."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import chi2_contingency, spearmanr

from losslens.tables.associations import associations, by_chance, determined, groups_of, one_hot, ties
from losslens.tables.column_scores import CodedRows
from losslens.tables.frames import as_table
from losslens.tables.sample import copy_columns


def coded(X):
    table = as_table(X)
    return CodedRows.of(table.names, copy_columns(table, np.arange(table.n)))


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def test_numbers_have_their_absolute_rank_correlation_also_with_ties(rng):
    X = rng.normal(size=(200, 4))
    X[:, 1] -= 2 * X[:, 0]
    X[:, 3] = np.round(X[:, 3])  # with -0.0 and 0.0, which are equal
    assert np.allclose(associations(coded(X)), np.abs(spearmanr(X).statistic))


def test_numbers_that_are_missing_are_compared_where_both_are_present(rng):
    X = rng.normal(size=(4000, 3))
    X[:, 1] += X[:, 0]
    X[rng.random(4000) < 0.3, 0] = np.nan
    X[rng.random(4000) < 0.3, 1] = np.nan
    both = np.isfinite(X[:, :2]).all(axis=1)
    # Ranks are those among all present values: on random rows nearly those of the rows with both.
    assert abs(associations(coded(X))[0, 1] - abs(spearmanr(X[both, :2]).statistic)) < 0.005


def test_the_correlation_ratio_of_a_category_and_ranks(rng):
    """Squared, it is the variance of the ranks between the categories, corrected as 1 - (1 - eta^2)(n-1)/(n-k)."""
    group = rng.integers(0, 4, 300)
    x = group + rng.normal(size=300)
    found = associations(coded(pd.DataFrame({"x": x, "word": np.array(list("cadb"))[group]})))[0, 1]
    ranks = pd.Series(x).rank()
    within = (ranks - ranks.groupby(group).transform("mean")).var(ddof=0) / ranks.var(ddof=0)
    corrected = 1 - within * 299 / 296
    assert found**2 == pytest.approx(corrected, abs=1e-9)


def test_two_categories_have_cramers_v_corrected_for_bias(rng):
    first = rng.integers(0, 3, 500)
    second = np.where(rng.random(500) < 0.6, first, rng.integers(0, 3, 500))
    words = pd.DataFrame({"a": np.array(list("xyz"))[first], "b": np.array(list("pqr"))[second]})
    phi = chi2_contingency(pd.crosstab(first, second)).statistic / 500
    bergsma = np.sqrt((phi - 4 / 499) / (3 - 4 / 499 - 1))
    assert associations(coded(words))[0, 1] == pytest.approx(bergsma, abs=1e-6)


def test_names_of_rows_and_independent_categories_are_associated_with_nothing(rng):
    X = pd.DataFrame({
        "name": [f"row {k}" for k in range(400)], "x": rng.normal(size=400),
        "a": rng.choice(list("abcdefgh"), 400), "b": rng.choice(list("abcdefgh"), 400), "one": 1.0,
    })  # fmt: skip
    found = associations(coded(X))
    assert found[~np.eye(5, dtype=bool)].max() < 0.25
    assert found[4].tolist() == [0, 0, 0, 0, 1]


def test_a_category_nested_in_another_goes_with_it():
    city = np.repeat(np.arange(6), 50)
    X = pd.DataFrame({"city": np.array(list("abcdef"))[city], "country": np.array(list("xyz"))[city // 2]})
    assert associations(coded(X))[0, 1] == pytest.approx(1)
    assert groups_of(coded(X), 0.7) == [[0, 1]]


def test_indicators_of_one_category_are_a_group(rng):
    kind = rng.integers(0, 4, 300)
    X = np.column_stack([rng.integers(0, 2, 300), kind[:, None] == np.arange(4), rng.integers(0, 2, 300)]).astype(float)
    assert one_hot(coded(X)) == [[1, 2, 3, 4]]
    assert groups_of(coded(X), 0.7) == [[0], [1, 2, 3, 4], [5]]
    assert one_hot(coded(X[:, :4])) == []  # without the last, no row of its kind has a 1


def test_the_average_within_a_group_is_the_threshold_at_least(rng):
    base = rng.normal(size=(2000, 3))
    X = np.hstack([base + 0.7 * rng.normal(size=base.shape) for _ in range(4)])
    found = associations(coded(X))
    groups = groups_of(coded(X), 0.6)
    assert sorted(j for group in groups for j in group) == list(range(12))
    assert [group[0] for group in groups] == sorted(group[0] for group in groups)
    for group in groups:
        inside = found[np.ix_(group, group)][np.triu_indices(len(group), 1)]
        assert len(group) == 1 or inside.mean() >= 0.6


@pytest.mark.parametrize("n", [5, 8, 12, 30, 200])
def test_independent_columns_form_a_group_in_one_table_of_twenty_at_most(n):
    """4 standard deviations of 400 draws at 5% are 4.4 points."""
    rng = np.random.default_rng(n)
    grouped = [len(groups_of(coded(rng.normal(size=(n, 8))), 0.3)) < 8 for _ in range(400)]
    assert np.mean(grouped) < 0.05 + 0.044
    assert by_chance(n, 8) <= 1 or not any(grouped)


def test_what_the_others_determine_is_the_r_squared_of_ranks(rng):
    """``1 - 1 / (R^-1)_jj``, corrected for the p - 1 columns: ``1 - (1 - R2)(n - 1)/(n - p)``."""
    X = rng.normal(size=(400, 4))
    X[:, 3] = X[:, 0] + X[:, 1] + 0.2 * X[:, 3]
    r2 = 1 - 1 / np.diag(np.linalg.inv(spearmanr(X).statistic))
    assert determined(coded(X)) == pytest.approx(np.clip(1 - (1 - r2) * 399 / 396, 0, 1), abs=1e-6)
    assert determined(coded(X[:5])).tolist() == [0, 0, 0, 0]  # too few rows


def test_copies_and_indicators_are_determined_and_constants_are_not(rng):
    kind = rng.integers(0, 3, 300)
    X = np.column_stack([kind[:, None] == np.arange(3), rng.normal(size=300), np.ones(300)]).astype(float)
    X = np.column_stack([X, X[:, 3]])
    assert determined(coded(X)) == pytest.approx([1, 1, 1, 1, 0, 1], abs=1e-6)
    assert ties(associations(coded(X)), 3) == [5]
    assert ties(associations(coded(X)), 0) == [1, 2]
    assert ties(associations(coded(X)), 4) == []
