"""Bands over whole curves: their width, what they cover, and what they need."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import losslens as ll
from losslens.uncertainty import bands
from losslens.uncertainty.bands import band
from losslens.uncertainty.standard_errors import bent

RNG = np.random.default_rng(3)
N = 60
X = np.column_stack([RNG.normal(size=(N, 2)), RNG.integers(0, 3, size=N)])
Y = X[:, 0] * X[:, 1] + X[:, 2] + RNG.normal(size=N)


def model(X):
    return X[:, 0] * X[:, 1] + X[:, 2]


def explain(X=X, Y=Y, **options):
    return ll.feature_importance(model, X, Y, loss="squared_error", **options)


def test_a_curve_is_a_mean_of_rows_at_each_value_and_has_its_standard_error():
    feature = explain()["x0"]
    expected = feature.ici.std(axis=0, ddof=1) / np.sqrt(N)
    np.testing.assert_allclose(feature.band().std_error, expected)
    np.testing.assert_allclose(feature.effect.band().std_error, feature.effect.ice.std(axis=0, ddof=1) / np.sqrt(N))


def test_a_curve_is_as_sure_at_a_value_as_the_rows_that_have_one_there():
    """The mean over the k of u rows that have the value, weights w: a ratio of two means over all u rows.

    Its influence function is w_i (x_i - mean) / sum of w, 0 for the others: with equal weights the standard error is
    the standard deviation of the k rows over sqrt(k), up to a factor sqrt(u / (u - 1)). Twice the weights say nothing.
    """
    rng = np.random.default_rng(0)
    single, weight = rng.normal(size=(N, 3)) * [1.0, 5.0, 1.0], rng.uniform(0.5, 2, N)
    single[20:, 1], single[:3, 2] = np.nan, np.nan
    curve = np.nanmean(single, axis=0)
    alike = band(single, curve, np.ones(N), None, N, 0.95)
    for v, k in enumerate((N, 20, N - 3)):
        expected = np.nanstd(single[:, v]) / np.sqrt(k) * np.sqrt(N / (N - 1))
        assert alike.std_error[v] == pytest.approx(expected)
    found, scaled = (band(single, curve, c * weight, None, N, 0.95) for c in (1.0, 1e3))
    np.testing.assert_allclose(found.std_error, scaled.std_error)
    np.testing.assert_allclose(found.low, scaled.low)
    for v in range(3):
        has = np.isfinite(single[:, v])
        x, w = single[has, v], weight[has]
        influence = w * (x - np.average(x, weights=w)) / w.sum()
        assert found.std_error[v] == pytest.approx(np.sqrt(N / (N - 1) * influence @ influence))


def test_a_curve_of_more_rows_than_are_kept_is_surer():
    """In a band of symmetric curves everything halves; where they are skewed, the skewness of the mean falls, too."""
    half = np.random.default_rng(0).normal(size=(N // 2, 2))
    single = np.concatenate([half, -half])
    kept, all_rows = (band(single, single.mean(axis=0), np.ones(N), None, units, 0.95) for units in (N, 4 * N))
    np.testing.assert_allclose(all_rows.std_error, kept.std_error / 2)
    np.testing.assert_allclose(all_rows.high - all_rows.low, (kept.high - kept.low) / 2)


@pytest.mark.parametrize("level", [0.8, 0.95])
def test_a_band_lies_around_its_curve_and_is_wider_than_intervals_at_single_values(level):
    feature = explain()["x0"]
    found = feature.band(level)
    assert ((feature.pi - found.low) / found.std_error > 0).all()
    assert ((found.high - found.low) / 2 / found.std_error > stats.t.ppf((1 + level) / 2, N - 1)).all()


def test_ends_are_bent_outward_by_the_skewness_at_each_value():
    """As those of an interval with the quantile of the largest deviation; where nothing is skewed it is that quantile.

    Two columns of symmetric numbers (each with its negative) and one of exponential ones: the skewness of a mean is the
    sum of cubed deviations over the sum of squares to the power 1.5.
    """
    rng = np.random.default_rng(5)
    half = rng.normal(size=(40, 2))
    single = np.column_stack([np.concatenate([half, -half]), rng.exponential(size=80)])
    curve = single.mean(axis=0)
    found = band(single, curve, np.ones(80), None, 80, 0.95)
    down, up = (curve - found.low) / found.std_error, (found.high - curve) / found.std_error
    assert down[0] == pytest.approx(down[1])
    assert up[0] == pytest.approx(up[1])
    off = single[:, 2] - curve[2]
    skewness = np.sum(off**3) / np.sum(off**2) ** 1.5
    assert up[2] == pytest.approx(bent(up[0], skewness)[1])
    assert up[2] > 1.05 * up[0]
    assert down[2] == pytest.approx(down[0])  # never bent inward
    twice = band(np.repeat(single, 2, axis=0), curve, np.ones(160), np.repeat(np.arange(80), 2), 80, 0.95)
    np.testing.assert_allclose(twice.high, found.high)


def test_a_band_of_skewed_losses_reaches_further_up_than_down():
    """The mean of skewed numbers lies below the truth more often than above, and its standard error with it."""
    feature = explain()["x0"]
    found = feature.band()
    assert (found.high - feature.pi > feature.pi - found.low).all()


def test_a_surer_band_is_wider_and_the_same_result_has_the_same_band():
    feature = explain()["x0"]
    wide, narrow = feature.band(0.99), feature.band(0.5)
    assert (wide.high > narrow.high).all()
    np.testing.assert_array_equal(wide.high, explain()["x0"].band(0.99).high)


def test_a_curve_that_does_not_vary_has_a_band_of_no_width():
    unused = ll.feature_importance(lambda X: X[:, 1], X, Y, loss="squared_error", features="x0")["x0"]
    found = unused.band()
    np.testing.assert_array_equal(found.low, found.high)
    np.testing.assert_array_equal(found.low, 0)


def test_two_values_give_nearly_bonferronis_interval():
    """Two independent means: the larger of both is under q with probability .975 where each is with sqrt(.975)."""
    rng = np.random.default_rng(0)
    single = rng.normal(size=(2000, 2))
    found = band(single, single.mean(axis=0), np.full(2000, 1 / 2000), None, 2000, 0.95)
    reach = (found.high - found.low) / 2 / found.std_error
    np.testing.assert_allclose(reach, stats.norm.ppf(np.sqrt(0.975)), rtol=0.05)


def test_a_row_of_weight_zero_is_a_row_that_is_not_there():
    weight = np.ones(N)
    weight[:10] = 0
    with_them = explain(sample_weight=weight)["x2"].band()
    without = explain(X[10:], Y[10:])["x2"].band()
    np.testing.assert_allclose(with_them.low, without.low)
    np.testing.assert_allclose(with_them.std_error, without.std_error)


def test_rows_that_belong_together_move_a_curve_together():
    """Every row twice, each pair a group: the standard error is that of the single rows, not smaller by sqrt(2)."""
    twice, groups = np.repeat(np.arange(N), 2), np.repeat(np.arange(N), 2)
    single = explain()["x0"].ici
    once = band(single, single.mean(axis=0), np.full(N, 1 / N), None, N, 0.95)
    both = band(single[twice], single.mean(axis=0), np.full(2 * N, 1 / (2 * N)), groups, N, 0.95)
    np.testing.assert_allclose(both.std_error, once.std_error)
    np.testing.assert_allclose(both.low, once.low)


def test_a_band_covers_the_whole_curve_as_often_as_it_says():
    """f = x0 x1 + x2, y = f + e: PI of x0 at v is E[(x1 (x0 - v))^2] = 1 + v^2, at every value at once.

    300 samples of 100 rows: a share near .95 has standard error .013. Bands bend outward only, so that they cover more
    often than they say where a curve's values are skewed to one side, as squares are; hardly more often.
    """
    rng, covered = np.random.default_rng(8), 0
    for _ in range(300):
        Z = rng.normal(size=(100, 3))
        y = model(Z) + rng.normal(scale=0.5, size=100)
        feature = ll.feature_importance(model, Z, y, loss="squared_error", features="x0", donors=ll.Grid(30))["x0"]
        found, truth = feature.band(), 1 + feature.grid**2
        covered += bool(((found.low <= truth) & (truth <= found.high)).all())
    assert 0.93 < covered / 300 < 0.99


@pytest.mark.parametrize("design", ["all", ll.Derangements(), ll.Grid(10), ll.Systematic(10)], ids=str)
def test_designs_with_common_values_have_bands(design):
    feature = explain(donors=design)["x0"]
    found = feature.band()
    assert found.low.shape == feature.pi.shape
    assert (found.low < feature.pi).all()
    assert (found.high > feature.pi).all()


@pytest.mark.parametrize("design", [ll.Latin(10), ll.Permutations(10)], ids=str)
def test_donors_row_by_row_have_no_band_and_say_why(design):
    with pytest.raises(ValueError, match="its own donors"):
        explain(donors=design)["x0"].band()


def test_a_streamed_result_has_the_standard_errors_of_all_its_rows():
    """Rows that are kept teach the spread; the curve is the mean of all of them."""
    rng = np.random.default_rng(1)
    Z = rng.normal(size=(2000, 3))
    y = model(Z) + rng.normal(size=2000)
    options = {"loss": "squared_error", "features": "x0", "donors": ll.Grid(20), "random_state": 0}
    whole = ll.feature_importance(model, Z, y, **options)["x0"]
    streamed = ll.feature_importance(model, Z, y, memory="544 KiB", **options)["x0"]
    assert not streamed.complete
    np.testing.assert_allclose(streamed.pi, whole.pi)
    np.testing.assert_allclose(streamed.band().std_error, whole.band().std_error, rtol=0.25)


def test_bands_of_categories_classes_and_pairs():
    frame = pd.DataFrame({"a": X[:, 0], "b": pd.Categorical(np.array(list("uvw"))[X[:, 2].astype(int)])})
    found = ll.feature_importance(
        lambda F: F["a"].to_numpy() * (F["b"] == "u").to_numpy(), frame, Y, loss="squared_error", features=["b"]
    )["b"]
    assert found.band().low.shape == (3,)
    pair = explain(features=[("x0", "x1")], donors=ll.Grid(5))["x0", "x1"]
    assert pair.band().low.shape == pair.pi.shape
    part = explain()["x0"].given(X[:, 2] == 1)
    assert ((part.band().low < part.pi) & (part.pi < part.band().high)).all()


def test_what_a_band_needs():
    three = explain()["x0"].given([0, 1, 2]).band()
    assert (three.low < three.high).any()
    with pytest.raises(ValueError, match="at least 3 rows"):
        explain()["x0"].given([0, 1]).band()
    with pytest.raises(ValueError, match="level lies between 0 and 1"):
        explain()["x0"].band(95)


def test_deviations_of_a_bootstrap_sample_are_in_its_own_standard_errors():
    """Weights w and pulls z of units drawn with replacement, again and again: the mean z / w over the standard error
    of a ratio, sqrt(u / (u - 1) sum (z_i - m w_i)^2) / sum w_i."""
    rng = np.random.default_rng(0)
    mass, pull = rng.uniform(0.5, 2, (7, 3)), rng.normal(size=(7, 3))
    up, down = bands._deviations(mass, pull, np.random.default_rng(5))
    drawn = np.random.default_rng(5).integers(7, size=(bands.BATCH, 7))
    for b in (0, 1, bands.BATCH - 1):
        w, z = mass[drawn[b]], pull[drawn[b]]
        m = z.sum(axis=0) / w.sum(axis=0)
        t = m / (np.sqrt(7 / 6 * ((z - m * w) ** 2).sum(axis=0)) / w.sum(axis=0))
        assert up[b] == pytest.approx(t.max())
        assert down[b] == pytest.approx(-t.min())
