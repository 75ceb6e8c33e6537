"""Columns given others: out of fold, with the probabilities and residuals that models of the other folds say."""

from itertools import pairwise

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.metrics import log_loss

from losslens.donors import residuals
from losslens.donors.residuals import (
    FOLDS,
    PENALTIES,
    SMOOTH_FOLDS,
    Chances,
    Folds,
    Residuals,
    SmoothTerms,
    _log_loss,
    _smoothed,
    by_classes,
    neighbourhoods,
    rounded_like,
)
from losslens.tables.columns import array_column

RNG = np.random.default_rng(0)
N = 300
OTHERS = RNG.normal(size=(N, 2))
CODES = (OTHERS[:, 0] + 0.5 * RNG.normal(size=N) > 0).astype(int) + (OTHERS[:, 1] > 1)
EVERY = np.arange(N)
THREE = Folds.draw(N, None, 3)


def test_the_log_loss_of_codes_is_scikit_learns():
    fitted = LogisticRegression().fit(OTHERS[:200], CODES[:200])
    expected = log_loss(CODES[200:], fitted.predict_proba(OTHERS[200:]), labels=[0, 1, 2])
    assert _log_loss(fitted, OTHERS[200:], CODES[200:]) == pytest.approx(expected)


def test_a_value_that_the_fit_has_not_seen_costs_a_lot():
    known = CODES < 2
    fitted = LogisticRegression().fit(OTHERS[known], CODES[known])
    assert _log_loss(fitted, OTHERS[:1], np.array([2])) == pytest.approx(-np.log(1e-12))


def test_folds_part_the_rows():
    for parts, count in ((list(THREE.parts), FOLDS), (list(THREE.smooth), SMOOTH_FOLDS)):
        assert len(parts) == count
        np.testing.assert_array_equal(np.sort(np.concatenate([test for _, test in parts])), EVERY)
        for train, test in parts:
            np.testing.assert_array_equal(np.sort(np.concatenate([train, test])), EVERY)
            assert len(test) == N / count


def test_a_group_of_rows_is_in_one_fold():
    block = RNG.permutation(N) % 40
    folds = Folds.draw(N, block, 0)
    for parts in (folds.parts, folds.smooth):
        for train, test in parts:
            assert len(test) > 0
            assert not set(block[train]) & set(block[test])


def test_chances_of_a_row_come_from_models_of_other_rows():
    """By hand: five logistic regressions, each for the rows that it has not seen."""
    native = LogisticRegression()
    chances = Chances.of(array_column(CODES), OTHERS, EVERY, native, THREE)
    found, losses = chances.of_rows(OTHERS), []
    for train, test in THREE.parts:
        fitted = LogisticRegression().fit(OTHERS[train], CODES[train])
        np.testing.assert_allclose(found[test], fitted.predict_proba(OTHERS[test]))
        losses.append(log_loss(CODES[test], found[test], labels=[0, 1, 2]))
    share = np.bincount(CODES) / N
    assert chances.explained == pytest.approx(1 - np.mean(losses) / -(share @ np.log(share)))
    twice = chances.of_rows(np.concatenate([OTHERS, OTHERS]))
    np.testing.assert_allclose(twice, np.concatenate([found, found]))


def test_the_best_of_the_classifiers_is_taken():
    """Whether |a| > 0.7 is nothing to a straight line, and everything to trees."""
    codes = (np.abs(OTHERS[:, 0]) > 0.7).astype(int)
    assert Chances.of(array_column(codes), OTHERS, EVERY, None, THREE).explained > 0.8
    assert Chances.of(array_column(codes), OTHERS, EVERY, LogisticRegression(), THREE).explained < 0.1


def test_values_are_drawn_as_often_as_their_chances_say():
    chances = Chances.of(array_column(CODES), OTHERS, EVERY, LogisticRegression(), THREE)
    drawn = chances.drawn(OTHERS, N, 400, np.random.default_rng(1)).reshape(400, N)
    found = np.stack([(drawn == code).mean(axis=0) for code in range(3)], axis=1)
    expected = chances.of_rows(OTHERS)
    assert (np.abs(found - expected) <= 5 * np.sqrt(expected * (1 - expected) / 400) + 0.01).all()


def test_without_other_columns_chances_are_shares():
    chances = Chances.of(array_column(CODES), OTHERS[:, :0], EVERY[:100], None, THREE)
    np.testing.assert_allclose(chances.of_rows(OTHERS[:, :0]), np.tile(np.bincount(CODES[:100]) / 100, (N, 1)))
    assert chances.explained == 0


def test_residuals_are_of_models_of_other_rows():
    values = OTHERS @ [2.0, -1.0] + 0.5 * RNG.normal(size=N) + 7
    values[5] = np.nan
    found = Residuals.of(array_column(values), OTHERS, EVERY, LinearRegression(), THREE, "a")
    present = np.isfinite(values)
    expected = np.empty(N)
    for train, test in THREE.parts:
        rows = train[present[train]]
        expected[test] = LinearRegression().fit(OTHERS[rows], values[rows]).predict(OTHERS[test])
    np.testing.assert_allclose(found.expected, expected)
    off = values - expected
    np.testing.assert_allclose(found.residual[present], (off - np.nanmean(off))[present])
    assert np.isnan(found.residual[5])
    assert found.explained == pytest.approx(1 - np.nanmean(off**2) / np.nanvar(values))
    assert 0.9 < found.explained < 1
    donors = RNG.integers(6, N, (3, N))
    np.testing.assert_allclose(found.of_donors(donors), expected + found.residual[donors])
    assert found.middle == np.median(expected)


def test_noise_is_not_explained_and_few_values_are_refused():
    noise = RNG.normal(size=N)
    assert Residuals.of(array_column(noise), OTHERS, EVERY, LinearRegression(), THREE, "a").explained < 0.05
    assert Residuals.of(array_column(np.ones(N)), OTHERS, EVERY, LinearRegression(), THREE, "a").explained == 0
    alone = Residuals.of(array_column(noise), OTHERS[:, :0], EVERY, None, THREE, "a")
    np.testing.assert_allclose(alone.expected, noise.mean())
    few = np.full(N, np.nan)
    few[:9] = noise[:9]
    with pytest.raises(ValueError, match="column 'a' has 9 values; residuals need 10"):
        Residuals.of(array_column(few), OTHERS, EVERY, LinearRegression(), THREE, "a")
    few[9] = 0.0
    assert np.isfinite(
        Residuals.of(array_column(few), OTHERS, EVERY, LinearRegression(), THREE, "a").residual[:10]
    ).all()


@pytest.mark.thread_unsafe(reason="the generator is shared")
def test_curves_are_followed_out_of_fold():
    """sin(2a) is nothing to a line; noise around it has variance 0.09, and a curve's error is a small part of that."""
    truth = np.sin(2 * OTHERS[:, 0])
    values = truth + 0.3 * RNG.normal(size=N)
    found = Residuals.of(array_column(values), OTHERS, EVERY, None, THREE, "a")
    assert np.mean((found.expected - truth) ** 2) < 0.3 * 0.09
    changed = values.copy()
    changed[5] += 1000.0  # which may choose another penalty, but is in no fit that predicts the row
    again = _smoothed(SmoothTerms.of(OTHERS), OTHERS, changed, EVERY, THREE)
    assert abs(again[5] - truth[5]) < 2


def test_smooth_curves_are_ridge_regressions_out_of_fold(monkeypatch):
    """By hand: scikit-learn's ridge with every penalty, and the penalty with the least error on the rows left out."""
    values = np.sin(2 * OTHERS[:, 0]) + 0.3 * RNG.normal(size=N) + 50
    terms = SmoothTerms.of(OTHERS)(OTHERS)
    monkeypatch.setattr(residuals, "PART", 20)
    expected = np.empty((N, len(PENALTIES)))
    for train, test in THREE.smooth:
        for k, penalty in enumerate(PENALTIES):
            expected[test, k] = Ridge(penalty).fit(terms[train], values[train]).predict(terms[test])
    best = np.argmin(np.square(values[:, None] - expected).mean(axis=0))
    np.testing.assert_allclose(_smoothed(SmoothTerms.of(OTHERS), OTHERS, values, EVERY, THREE), expected[:, best])


def test_expected_sizes_follow_the_spread():
    noise = np.random.default_rng(0).normal(size=N)
    values = OTHERS[:, 0] + (0.2 + 2 * np.abs(OTHERS[:, 1])) * noise
    found = Residuals.of(array_column(values), OTHERS, EVERY, None, THREE, "a")
    assert np.corrcoef(found.size, np.abs(OTHERS[:, 1]))[0, 1] > 0.8


def test_neighbours_are_alike_and_enough():
    """Along one column of 400 rows neighbourhoods are intervals of at least sqrt(400) = 20 and under 80 rows."""
    x = RNG.normal(size=400)
    found = neighbourhoods(np.column_stack([x, np.zeros(400)]), None)
    count = np.bincount(found)
    assert count.min() >= 20
    assert count.max() < 80
    ends = sorted((x[found == k].min(), x[found == k].max()) for k in range(len(count)))
    assert all(before[1] <= after[0] for before, after in pairwise(ends))
    assert (neighbourhoods(np.zeros((400, 2)), None) == 0).all()  # nothing to tell rows apart by


def test_neighbours_of_a_few_values_share_them():
    x = np.repeat([0.0, 1.0, 2.0, 3.0], 100)[RNG.permutation(400)]
    found = neighbourhoods(np.column_stack([x, np.zeros(400)]), None)
    assert all(len(np.unique(x[found == k])) == 1 for k in np.unique(found))


def test_neighbourhoods_hold_many_groups():
    """Groups of 20 rows that are alike: rows of one group alone would have no donor."""
    block = np.arange(400) // 20
    found = neighbourhoods(np.column_stack([block + 0.01 * RNG.normal(size=400), np.zeros(400)]), block)
    assert all(len(np.unique(block[found == k])) >= 10 for k in np.unique(found))


def test_which_columns_have_chances():
    assert by_classes(array_column(np.arange(N) % 10), "a")
    assert not by_classes(array_column(np.arange(N) % 11), "a")
    assert by_classes(array_column(np.array([f"w{k % 100:03}" for k in range(N)])), "a")
    with pytest.raises(ValueError, match="column 'a' holds 101 categories"):
        by_classes(array_column(np.array([f"w{k % 101:03}" for k in range(N)])), "a")


def test_whole_numbers_stay_whole_and_within_their_range():
    drawn = np.array([-3.2, 0.6, 2.5, 99.0])
    whole, gaps = array_column(np.arange(20)), array_column(np.append(np.arange(20.0), np.nan))
    for column in (whole, gaps):
        np.testing.assert_array_equal(rounded_like(drawn, column), [0, 1, 2, 19])
    np.testing.assert_array_equal(rounded_like(drawn, array_column(np.arange(20) / 2)), drawn)
