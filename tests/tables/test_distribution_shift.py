"""How far two columns are apart: SciPy's distances, total variation by hand, and how often chance is taken for more."""

import datetime as dt

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import stats

from losslens.tables.distribution_shift import shift_of
from losslens.tables.frames import as_table

RNG = np.random.default_rng(0)


def apart(first, second, weights=None, units=None, make=pd.DataFrame):
    columns = [as_table(make({"x": values})).column(0) for values in (first, second)]
    weights = [np.ones(len(first)), np.ones(len(second))] if weights is None else weights
    weights = [np.asarray(w, float) / np.sum(w) for w in weights]
    return shift_of("x", columns, weights, [len(first), len(second)] if units is None else units)


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame])
def test_numbers_have_scipys_distances(make):
    a, b = RNG.normal(size=40).round(1), 1 + RNG.exponential(size=30).round(1)
    found = apart(a, b, make=make)
    spread = np.sqrt((a.var() + b.var()) / 2)
    assert found.distance == pytest.approx(stats.ks_2samp(a, b).statistic)
    assert found.wasserstein == pytest.approx(stats.wasserstein_distance(a, b) / spread)
    assert found.mean_difference == pytest.approx((b.mean() - a.mean()) / spread)
    assert (found.what, found.value, found.value_against) == ("mean", pytest.approx(b.mean()), pytest.approx(a.mean()))
    assert (found.missing, found.missing_against) == (0, 0)
    back = apart(b, a, make=make)
    assert vars(found.turned()) == pytest.approx(vars(back))


def test_the_text_has_the_distance_and_what_moved():
    assert repr(apart([1, 2, 3, 4], [2, 3, 4, 5])) == (
        "<DistributionShift 'x': distance 0.25, within chance; mean 3.5, against 2.5>"
    )
    found = repr(apart(["a"] * 60 + ["b"] * 40, ["b"] * 100))
    assert found.startswith("<DistributionShift 'x': distance 0.60, beyond chance; share of ")


def test_weights_are_repeated_rows():
    a, b, w = RNG.normal(size=12), RNG.normal(size=15), RNG.integers(0, 4, 15)
    weighted, repeated = apart(a, b, weights=[np.ones(12), w]), apart(a, np.repeat(b, w))
    for name in ("distance", "wasserstein", "mean_difference", "value"):
        assert getattr(weighted, name) == pytest.approx(getattr(repeated, name))


def test_a_missing_value_is_the_last_one():
    """The distribution functions differ by the shares of missing values before the last value, at least."""
    a, b = np.array([1.0, 2.0, 3.0, 4.0]), np.array([1.0, 2.0, np.nan, np.nan])
    found = apart(a, b)
    assert (found.missing, found.missing_against) == (0.5, 0)
    assert found.distance == pytest.approx(0.5)
    assert (found.value, found.value_against) == (1.5, 2.5)  # of those that are there
    nothing = apart(a, np.full(4, np.nan))
    assert nothing.distance == 1
    assert np.isnan(nothing.wasserstein)
    assert (nothing.what, nothing.value, nothing.value_against) == ("missing", 1.0, 0.0)


def test_words_have_the_total_variation_of_their_shares():
    a, b = ["dry"] * 6 + ["rain"] * 3 + ["snow"], ["dry"] * 1 + ["rain"] * 3 + ["hail"] * 1
    found = apart(a, b)
    assert found.distance == pytest.approx((0.4 + 0.3 + 0.1 + 0.2) / 2)
    assert (found.what, found.value_against, found.value) == ("dry", pytest.approx(0.6), pytest.approx(0.2))
    assert np.isnan(found.mean_difference)
    kinds = [pd.Categorical(values, categories=sorted(set(values))) for values in (a, b)]
    assert apart(*kinds).distance == pytest.approx(found.distance)
    kind = pd.CategoricalDtype(["low", "mid", "high"], ordered=True)
    found = apart(pd.Series(["low", "high"], dtype=kind), pd.Series(["mid", "mid"], dtype=kind))
    assert found.distance == 0.5  # in the order of the categories, not of the alphabet
    assert found.by_chance == 1  # two rows say nothing


def test_dates_flags_and_values_of_several_types():
    days = [dt.date(2020, 1, 1) + dt.timedelta(days=k) for k in range(10)]
    assert apart(days[:5], days[5:]).distance == 1
    assert apart([True, True, False], [True, False, False]).value == pytest.approx(1 / 3)
    assert apart([1, 2], ["1", "2"]).distance == 1  # a number is no word
    constant = apart([3.0, 3.0], [3.0, 3.0, 3.0])
    assert constant.distance == 0
    assert np.isnan(constant.mean_difference)


@pytest.mark.parametrize("draw", [lambda n: RNG.normal(size=n), lambda n: RNG.choice(list("abcde"), n)])
def test_chance_is_seldom_taken_for_more(draw):
    """By Kolmogorov's and McDiarmid's bounds: in at most 5% of the cases, here within the error of 400 of them."""
    found = [apart(draw(60), draw(40), make=lambda rows: rows["x"][:, None]) for _ in range(400)]
    assert np.mean([one.beyond_chance for one in found]) <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / 400)
    if isinstance(draw(1)[0], str):  # the bound of words is their mean distance, and how far a sample exceeds it
        mean = np.mean([one.by_chance for one in found]) - np.sqrt(np.log(20) / 2 * (1 / 60 + 1 / 40))
        assert np.mean([one.distance for one in found]) == pytest.approx(mean, rel=0.06)
    assert apart(draw(600), ["e"] * 400 if isinstance(draw(1)[0], str) else 1 + draw(400)).beyond_chance


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ({"low": 5, "high": 5}, {"low": 2, "middle": 6, "high": 2}, 0.3),  # Kolmogorov and Smirnov's
        ({"low": 5, "middle": 5}, {"middle": 5, "high": 5}, 0.5),
        (
            {"low": 3, "left": 4, "high": 3},
            {"low": 5, "right": 4, "high": 1},
            0.6,
        ),  # left before right? Total variation
        ({"low": 2, "high": 8}, {"high": 8, "low": 2}, 0.0),
    ],
)
def test_ordered_categories_that_one_set_lacks_have_their_place(first, second, expected):
    columns = [
        pd.Categorical(np.repeat(list(some), list(some.values())), list(some), ordered=True) for some in (first, second)
    ]
    for pair in (columns, columns[::-1]):
        assert apart(*pair).distance == pytest.approx(expected)


@pytest.mark.parametrize("n", [3, 30, 49])  # 30 and 49 shares of 1 / n don't sum to 1 in floating point
def test_a_column_that_is_missing_everywhere_has_no_mean(n):
    none, some = np.full(n, np.nan), np.arange(n, dtype=float)
    assert (apart(none, none).distance, apart(none, none).what) == (0, "missing")
    found = apart(none, some)
    assert (found.distance, found.what) == (pytest.approx(1), "missing")
    assert np.isnan([found.mean_difference, found.wasserstein]).all()
