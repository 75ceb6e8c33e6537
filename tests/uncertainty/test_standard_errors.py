"""Standard errors against the jackknife by brute force, Monte-Carlo noise against many draws, and coverage."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.linear_model import LinearRegression

import brute
import losslens as ll
from losslens.uncertainty import standard_errors
from losslens.uncertainty.inference import difference

RNG = np.random.default_rng(0)
N = 36
X = np.column_stack([RNG.normal(size=(N, 2)), RNG.integers(0, 2, size=N)])
Y = X[:, 0] * X[:, 1] + X[:, 2] + RNG.normal(size=N)
FIVES = np.arange(N) // 6 * 6  # six groups of six
COLUMN = {"x0": 0, "x1": 1, "x2": 2}


def model(X):
    return X[:, 0] * X[:, 1] + X[:, 0] + 2 * X[:, 2] * X[:, 1]


def explain(loss="squared_error", features="x0", X=X, Y=Y, **options):
    return ll.feature_importance(model, X, Y, loss=loss, features=features, **options)[features]


def cells(name="x0", loss="squared_error", X=X, Y=Y):
    return brute.cells(model, X, Y, [COLUMN[name]], brute.LOSSES[loss])


def noise_variance(feature):
    return standard_errors.monte_carlo_variance(feature.means, feature.layout, feature.sample, feature.at)


# The jackknife.


@pytest.mark.parametrize("design", [ll.All(), ll.Derangements(), ll.Latin(N), ll.Derangements(N - 1)], ids=str)
@pytest.mark.parametrize(("name", "loss"), [("x0", "squared_error"), ("x2", "absolute_error"), ("x1", "huber")])
def test_the_standard_error_is_the_jackknife_of_the_u_statistic(name, loss, design):
    """Leave out row i as an observation and as a donor: U_(-i); x2 has two values, so the cells have ties."""
    D = cells(name, loss)
    expected = brute.jackknife(lambda rows: brute.u_statistic(D[np.ix_(rows, rows)]), np.arange(N))
    assert explain(loss, name, donors=design).std_error == pytest.approx(expected, rel=1e-9)


def between(D, units, rows):
    """The mean over pairs of rows in different units."""
    apart = units[rows][:, None] != units[rows]
    return D[np.ix_(rows, rows)][apart].mean()


@pytest.mark.parametrize("design", [ll.All(), ll.Derangements()], ids=str)
@pytest.mark.parametrize("name", ["x0", "x1", "x2"])
def test_the_clustered_standard_error_leaves_out_a_group_at_a_time(name, design):
    D = cells(name)
    expected = brute.jackknife(lambda rows: between(D, FIVES, rows), FIVES)
    assert explain(features=name, donors=design, groups=FIVES).std_error == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("design", [ll.Latin(N), ll.Systematic(N), ll.Derangements(N - 1)], ids=str)
@pytest.mark.parametrize("size", [2, 6])
def test_all_shifts_have_the_clustered_standard_error_of_all_pairs(design, size):
    groups = np.arange(N) // size
    assert explain(donors=design, groups=groups).std_error == pytest.approx(explain(groups=groups).std_error, rel=1e-6)


WEIGHT = np.random.default_rng(3).exponential(size=N)
UNEQUAL = np.repeat(np.arange(12), [1, 2, 3, 4, 5, 3, 2, 1, 4, 5, 2, 4])


def weighted_pairs(D, units, weight, rows):
    """The mean over pairs of rows in different units, a pair with the weight of both rows."""
    mass = np.outer(weight[rows], weight[rows]) * (units[rows][:, None] != units[rows])
    return (mass * D[np.ix_(rows, rows)]).sum() / mass.sum()


@pytest.mark.parametrize("design", [ll.All(), ll.Derangements(), ll.Latin(N), ll.Derangements(N - 1)], ids=str)
@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["plain", "weighted"])
@pytest.mark.parametrize("groups", [None, UNEQUAL], ids=["rows", "groups"])
def test_a_row_or_group_is_deleted_exactly(design, weight, groups):
    """T, R_g and C_g from the model's own predictions: sqrt((G - 1)/G sum of (U_(-g) - mean)^2), unweighted by size."""
    units, w = np.arange(N) if groups is None else groups, np.ones(N) if weight is None else weight
    D = cells("x0")
    expected = brute.jackknife(lambda rows: weighted_pairs(D, units, w, rows), units)
    found = explain(donors=design, groups=groups, sample_weight=weight)
    assert found.std_error == pytest.approx(expected, rel=1e-12)
    shares = np.bincount(units, w) / w.sum()
    assert found._units == pytest.approx(1 / np.sum(shares**2), rel=1e-12)


@pytest.mark.parametrize("groups", [None, UNEQUAL], ids=["rows", "groups"])
def test_the_mean_loss_is_deleted_exactly(groups):
    loss, units = (Y - model(X)) ** 2, np.arange(N) if groups is None else groups
    found = explain(sample_weight=WEIGHT, groups=groups)
    on_error = standard_errors.influence_on_error(found.sample, found.at)
    expected = brute.jackknife(lambda rows: np.average(loss[rows], weights=WEIGHT[rows]), units)
    assert on_error.std_error == pytest.approx(expected, rel=1e-12)


def test_shapley_shares_delete_weighted_rows_exactly():
    """Of a linear model a share of a pair is (g_i - g_k)(2 y_i - f_i - f_k), g the feature's term."""
    linear = LinearRegression().fit(X, Y)
    g, f = X[:, 0] * linear.coef_[0], linear.predict(X)
    D = (g[:, None] - g) * (2 * Y[:, None] - f[:, None] - f)
    found = ll.shapley_importance(linear, X, Y, loss="squared_error", sample_weight=WEIGHT)
    expected = brute.jackknife(lambda rows: weighted_pairs(D, np.arange(N), WEIGHT, rows), np.arange(N))
    assert found.std_error[0] == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("design", [ll.Latin(24), ll.Systematic(12)], ids=str)
@pytest.mark.parametrize("groups", [None, UNEQUAL], ids=["rows", "groups"])
def test_sampled_donors_come_close_to_exact_deletion(design, groups):
    """Effects are noisy; without the scaling of weights, a tenth smaller."""
    every = explain(sample_weight=WEIGHT, groups=groups).std_error
    found = [explain(sample_weight=WEIGHT, groups=groups, donors=design, random_state=s).std_error for s in range(8)]
    assert np.sqrt(np.mean(np.square(found))) == pytest.approx(every, rel=0.1)


def test_equal_weights_have_the_factors_of_equal_weights():
    """The scaling of fitted effects is 1 where no row weighs more than another."""
    for groups in (None, FIVES):
        plain, weighted = (
            explain(donors=ll.Latin(5), random_state=0, groups=groups, **w)
            for w in ({}, {"sample_weight": np.full(N, 3.0)})
        )
        assert weighted.std_error == pytest.approx(plain.std_error, rel=1e-12)


def test_every_row_its_own_group_is_no_group_at_all():
    alone = explain(groups=np.arange(N))
    assert alone.pfi == pytest.approx(brute.u_statistic(cells()))
    assert alone.std_error == pytest.approx(explain(donors=ll.Derangements()).std_error, rel=1e-9)


@pytest.mark.parametrize("weight", [np.ones(N), WEIGHT], ids=["plain", "weighted"])
@pytest.mark.parametrize("r", [3, 11])
def test_given_some_rows_each_role_is_deleted_and_has_a_factor_of_its_own(r, weight):
    """A row leaves as an observation of r and as a donor of n: U - U_(-i) = (R_i + C_i - U (Z - Z_(-i))) / Z_(-i).

    Z - Z_(-i) is w_i (W - w_i) of the row and w_i (W_G - w_i) of the column. The factor of a mean of r is (r - 1)/r:
    of equal weights, the rows' part is then sum of (a_i - mean)^2 / (r (r - 1)), the variance of a mean of r.
    """
    G = np.arange(r)
    mass = np.outer(weight, weight) * (1 - np.eye(N))
    mass[r:] = 0
    D, Z = cells("x0"), mass.sum()
    U = (mass * D).sum() / Z
    left = Z - mass.sum(axis=1) - mass.sum(axis=0)
    rows = ((mass * D).sum(axis=1) - U * mass.sum(axis=1))[G] / left[G]
    moved = np.sqrt((N - 1) / N) * about_mean(((mass * D).sum(axis=0) - U * mass.sum(axis=0)) / left)
    moved[G] += np.sqrt((r - 1) / r) * about_mean(rows)
    found = explain(sample_weight=weight).given(G)
    assert found.std_error == pytest.approx(np.sqrt(moved @ moved), rel=1e-12)


def about_mean(changes):
    return changes - changes.mean()


def test_a_grid_at_quantiles_has_every_row_as_a_donor():
    """What a row causes is read off the PI curve at its own value: nearly the error of all pairs."""
    rng = np.random.default_rng(0)
    big = rng.normal(size=(300, 3))
    y = big[:, 0] + 0.5 * rng.normal(size=300)

    def error(donors):
        how = {"loss": "squared_error", "features": "x0", "donors": donors, "random_state": 0}
        return ll.feature_importance(lambda Z: 0.8 * Z[:, 0], big, y, **how)["x0"].std_error

    assert error(ll.Grid(20, at="quantiles")) == pytest.approx(error("all"), rel=0.15)


@pytest.mark.parametrize("column", ["words", "holes"])
def test_a_grid_at_quantiles_of_words_and_missing_values(column):
    """Rows whose value is not on the grid lie between two of its values, or nowhere."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"words": rng.choice(list("abcdefgh"), 60), "holes": rng.normal(size=60)})
    table.loc[::7, "holes"] = np.nan
    y = rng.normal(size=60)

    def score(rows):
        return rows["words"].map(ord).to_numpy(float) % 5 + np.nan_to_num(rows["holes"].to_numpy(float), nan=2)

    how = {"loss": "squared_error", "features": column}
    found = ll.feature_importance(score, table, y, donors=ll.Grid(6, at="quantiles"), random_state=0, **how)[column]
    every = ll.feature_importance(score, table, y, donors="all", **how)[column]
    assert found.std_error == pytest.approx(every.std_error, rel=0.5)
    assert np.isfinite(found.given(np.arange(30)).std_error)
    assert np.isfinite(found.subset(np.arange(40)).std_error)


def test_a_row_of_weight_zero_is_a_row_that_is_not_there():
    weight = np.ones(N)
    weight[:6] = 0
    weighted, without = explain(sample_weight=weight), explain(X=X[6:], Y=Y[6:])
    assert weighted.pfi == pytest.approx(without.pfi)
    assert weighted.std_error == pytest.approx(without.std_error, rel=1e-9)
    np.testing.assert_allclose(weighted.interval(), without.interval(), rtol=1e-9)


def test_the_unit_of_weights_means_nothing():
    assert explain(sample_weight=np.full(N, 2.5)).std_error == pytest.approx(explain().std_error, rel=1e-12)


def test_an_unused_feature_is_certain():
    X4 = np.column_stack([X, RNG.normal(size=N)])
    for design in (ll.All(), ll.Derangements(), ll.Latin(5), ll.Systematic(5)):
        dummy = ll.feature_importance(model, X4, Y, loss="squared_error", features="x3", donors=design)["x3"]
        assert dummy.std_error == 0
        assert dummy.interval() == (0, 0)


# Intervals.


def bent(t, a):
    """Hall (1992), "On the removal of skewness by transformation": nearly Student's, where t is skewed by a."""
    return t + a * t**2 / 3 + a**2 * t**3 / 27 + a / 6


def skewness(statistic, rows):
    """Of a mean: the third moment of what leaving out each row takes off, over that of their size."""
    left_out = np.array([statistic(np.delete(rows, i)) for i in range(len(rows))])
    moved = left_out.mean() - left_out
    return float(np.sum(moved**3) / np.sum(moved**2) ** 1.5)


@pytest.mark.parametrize(("name", "scale"), [("x0", 0), ("x1", 1), ("x2", 3)])
@pytest.mark.parametrize("level", [0.9, 0.95])
def test_the_end_on_the_side_of_the_skewness_is_halls_with_a_lengthened_quantile(name, scale, level):
    """Hall's holds the importances whose distance from U, in standard errors and bent, is within a quantile T.

    T is Student's t lengthened by ``2/3 a^2 (a / limit)^2 (t^3 + t)``; the other end is Student's. The skewness is
    limited at the quantile where it is used: that of t when T is computed, that of T when the end is bent.

    The low end is printed of all pairs: (n - 1) / n of it, where it is above 0.
    """
    noisy = Y + np.random.default_rng(9).normal(scale=scale, size=N) if scale else model(X)
    D = cells(name, Y=noisy)
    feature = explain(features=name, Y=noisy)
    t = stats.t.ppf((1 + level) / 2, N - 1)
    measured = skewness(lambda rows: brute.u_statistic(D[np.ix_(rows, rows)]), np.arange(N))
    most = limit(t)
    a = np.clip(measured, -most, most)
    longer = t + 2 / 3 * a**2 * (a / most) ** 2 * (t**3 + t)
    a = np.clip(measured, -limit(longer), limit(longer))
    low, high = feature.interval(level)
    ends = np.array([low * N / (N - 1) if low > 0 else low, high if high > 0 else high * N / (N - 1)])
    down, up = np.abs(brute.u_statistic(D) - ends) / feature.std_error
    assert min(down, up) == pytest.approx(t)
    assert bent(-up if a > 0 else down, a) == pytest.approx(-longer if a > 0 else longer)


def limit(t):
    """Of the skewness: where the cube root that inverts Hall's correction is cbrt(1/4)."""
    return 3 * (np.sqrt(t**2 + 0.5) - t)


def test_why_the_quantile_grows_with_the_square_of_the_skewness():
    """Gamma variables: excess kurtosis 3/2 of the squared skewness, so that 2n/(k + 2) has 1/n + 3/4 a^2 as inverse.

    Student's quantile grows by (t^3 + t)/4 times 1 / freedom, to first order: halving the rest means a fourth of the
    error.
    """
    skew, kurtosis = map(float, stats.gamma.stats(2.7, moments="sk"))
    assert kurtosis == pytest.approx(1.5 * skew**2)
    n, a = 50, skew / np.sqrt(50)
    assert (kurtosis + 2) / (2 * n) == pytest.approx(1 / n + 0.75 * a**2)
    z = stats.norm.ppf(0.975)
    errors = [stats.t.ppf(0.975, f) - z - (z**3 + z) / (4 * f) for f in (100, 200)]
    assert errors[0] / errors[1] == pytest.approx(4, rel=0.03)


@pytest.mark.parametrize(
    ("draw", "truth", "gain", "least", "wider"),
    [
        (lambda rng: rng.exponential(size=(2000, 80)) ** 2, 2.0, 0.02, 0.9, 1.25),
        (lambda rng: rng.normal(size=(2000, 80)) ** 2, 1.0, 0.0, 0.93, 1.12),
        (lambda rng: rng.normal(size=(2000, 80)), 0.0, 0.0, 0.94, 1.001),
    ],
    ids=["squared exponential", "squared normal", "normal"],
)
def test_a_lengthened_quantile_covers_more_where_it_is_needed(draw, truth, gain, least, wider):
    """Means of 80 numbers: of squared exponential ones (kurtosis 88) Hall's correction alone covers too little.

    The normal ones are covered as before by intervals of the same width.
    """
    x, t = draw(np.random.default_rng(36)), stats.t.ppf(0.975, 79)
    off = x - x.mean(axis=1, keepdims=True)
    error = np.sqrt(np.sum(off**2, axis=1) / (80 * 79))
    a = np.sum((off / np.sqrt(80 * 79)) ** 3, axis=1) / error**3
    covered, width = [], []
    for far in (standard_errors.bent, standard_errors.reach):
        down, up = far(t, a)
        low, high = x.mean(axis=1) - down * error, x.mean(axis=1) + up * error
        covered.append(np.mean((low <= truth) & (truth <= high)))
        width.append(np.mean(high - low))
    assert covered[1] >= covered[0] + gain
    assert least < covered[1] < 0.975
    assert width[1] < wider * width[0]


def test_an_interval_without_skewness_is_students():
    low, high = standard_errors.interval(2.0, 0.5, 11, 0.95)
    np.testing.assert_allclose([low, high], stats.t.interval(0.95, 10, 2.0, 0.5))


@pytest.mark.parametrize("a", [-9.0, -0.3, 0.0, 0.3, 9.0])
def test_intervals_grow_with_their_level_and_reach_no_farther_than_stated(a):
    """However skewed: at most 4.31 standard errors at 95% and 5.56 at 99%, n >= 100; the near end is Student's."""
    levels = np.linspace(0.01, 0.9999, 200)
    ends = np.array([standard_errors.interval(0.0, 1.0, 100, level, a) for level in levels])
    assert (np.diff(ends[:, 0]) < 0).all()
    assert (np.diff(ends[:, 1]) > 0).all()
    student = stats.t.ppf((1 + levels) / 2, 99)
    near, far = (-ends[:, 0], ends[:, 1]) if a >= 0 else (ends[:, 1], -ends[:, 0])
    np.testing.assert_allclose(near, student)
    assert (far >= student - 1e-12).all()
    for level, most in ((0.95, 4.31), (0.99, 5.56)):
        assert max(map(abs, standard_errors.interval(0.0, 1.0, 100, level, a))) < most


@pytest.mark.parametrize("a", [-9.0, -0.3, -0.05, 0.0, 0.3, 9.0])
@pytest.mark.parametrize("estimate", [0.3, 1.7, 2.6, 6.0])
def test_p_values_invert_the_interval(a, estimate):
    """One-sided p: the lower end of the interval at level 1 - 2p is 0. Two-sided: an end of that at 1 - p is 0."""
    p = standard_errors.p_value(estimate, 1.0, 50, a)
    if p < 0.5:
        assert standard_errors.interval(estimate, 1.0, 50, 1 - 2 * p, a)[0] == pytest.approx(0, abs=1e-9)
    for sign in (1, -1):
        both = difference(("a", "b"), sign * estimate, 1.0, 49, 0.95, a)
        if both.p_value < 1:
            ends = standard_errors.interval(sign * estimate, 1.0, 50, 1 - both.p_value, a)
            assert min(map(abs, ends)) == pytest.approx(0, abs=1e-9)


def test_p_values_fall_as_the_estimate_grows():
    for a in (-5.0, -0.4, 0.0, 0.4):
        p = [standard_errors.p_value(x, 1.0, 30, a) for x in np.linspace(-4, 8, 400)]
        assert (np.diff(p) <= 0).all()


def test_the_test_is_students_unless_the_estimate_is_skewed_down():
    """Bent in by positive skewness, it flagged noise 1.5 times as often as it says at small levels."""
    assert standard_errors.p_value(1.0, 0.5, 11) == pytest.approx(stats.t.sf(2, 10))
    assert standard_errors.p_value(1.0, 0.5, 11, 0.3) == pytest.approx(stats.t.sf(2, 10))
    assert standard_errors.p_value(1.0, 0.5, 11, -0.3) > stats.t.sf(2, 10)
    assert standard_errors.p_value(0.0, 0.0, 11) == 1
    assert standard_errors.p_value(1.0, 0.0, 11) == 0


@pytest.mark.parametrize("design", [ll.All(), ll.Derangements()], ids=str)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("part", [np.arange(N), np.arange(0, N, 3)], ids=["whole", "given"])
def test_intervals_are_centred_at_the_u_statistic(design, weighted, part):
    """U = sum of w_i w_k D over pairs of different rows, i among the chosen, over the sum of w_i w_k."""
    weight = RNG.integers(1, 9, size=N) if weighted else np.ones(N)
    mass = np.outer(weight, weight) * (1 - np.eye(N))
    u = (mass * cells())[part].sum() / mass[part].sum()
    feature = explain(donors=design, sample_weight=weight).given(part)
    assert feature.unbiased == pytest.approx(u, rel=1e-9)
    low, high = feature.interval()
    assert low < u < high


def test_clustered_intervals_count_effective_groups_not_rows():
    """Six groups of six have 5 degrees of freedom; twelve of sizes 1 to 5 have 36^2 / sum of sizes^2 - 1 = 8.97."""
    for groups, freedom in ((FIVES, 5), (UNEQUAL, 36**2 / np.sum(np.bincount(UNEQUAL) ** 2) - 1)):
        feature = explain(groups=groups)
        reach = np.abs(feature.pfi - np.array(feature.interval())) / feature.std_error
        assert min(reach) == pytest.approx(stats.t.ppf(0.975, freedom), rel=1e-9)


def test_nothing_is_known_of_refits_from_one_model():
    with pytest.raises(ValueError, match="feature_importance_cv"):
        explain().interval(target="learner")
    with pytest.raises(ValueError, match="'model', 'sample'"):
        explain().interval(target="data")


# About this sample: had every pair been asked.


def test_all_pairs_leave_nothing_to_guess_about_the_sample():
    feature = explain()
    assert feature.interval(target="sample") == (feature.pfi, feature.pfi)
    assert feature.ratio_interval(target="sample") == (feature.ratio, feature.ratio)


@pytest.mark.parametrize("design", [ll.Latin(8), ll.Permutations(8), ll.Grid(12)], ids=str)
def test_intervals_about_the_sample_cover_the_number_over_all_pairs(design):
    """300 draws of donors: a share near .95 has standard error .013."""
    V, covered = explain().pfi, 0
    for seed in range(300):
        low, high = explain(donors=design, random_state=seed).interval(target="sample")
        covered += low <= V <= high
    assert 0.90 < covered / 300 < 0.99


def test_a_grid_of_quantiles_is_not_drawn_and_has_no_error_of_drawing():
    with pytest.raises(ValueError, match="is not random"):
        explain(donors=ll.Grid(12, at="quantiles")).interval(target="sample")


# The ratio.


def ratio(D, loss, rows):
    return 1 + brute.u_statistic(D[np.ix_(rows, rows)]) / loss[rows].mean()


@pytest.mark.parametrize("name", ["x0", "x1", "x2"])
def test_the_standard_error_of_the_ratio_is_the_jackknife_to_first_order(name):
    """Both errors move with the rows: the plain influence differs from the jackknife by terms of order 1/n."""
    rng = np.random.default_rng(5)
    n = 400
    Z = np.column_stack([rng.normal(size=(n, 2)), rng.integers(0, 2, size=n)])
    y = model(Z) + rng.normal(size=n)
    D, loss = cells(name, X=Z, Y=y), (y - model(Z)) ** 2
    expected = brute.jackknife(lambda rows: ratio(D, loss, rows), np.arange(n))
    assert explain(features=name, X=Z, Y=y).ratio_std_error == pytest.approx(expected, rel=0.02)


def test_the_interval_of_the_ratio_is_students_on_the_log_scale():
    feature = explain()
    centre = 1 + feature.unbiased / feature.error
    low, high = feature.ratio_interval()
    assert low > 1
    low = 1 + (low - 1) * N / (N - 1)  # as it is printed, it is of all pairs
    assert np.sqrt(low * high) == pytest.approx(centre)
    reach = stats.t.ppf(0.975, N - 1) * feature.ratio_std_error / centre
    assert np.log(high / low) == pytest.approx(2 * reach)


def test_a_model_without_error_has_no_ratio():
    feature = explain(Y=model(X))
    with pytest.raises(ValueError, match="exactly 0"):
        feature.ratio_interval()
    with pytest.raises(ValueError, match="exactly 0"):
        _ = feature.ratio_std_error


@pytest.mark.parametrize("level", [0, 1, 95, -0.1, float("nan")])
def test_a_level_that_is_no_share_is_refused(level):
    with pytest.raises(ValueError, match="level lies between 0 and 1"):
        explain().interval(level)


def test_intervals_cover_what_they_say():
    """X1 of Y = X1 + X2 + X3 + X1 X2 + e has importance 4. At n = 100 a 95% interval covers about 93%.

    600 samples: the share has standard error 0.010, so .90 is three of them below .93. Rows alone, without the
    donors' share, would cover about .72.
    """
    rng, covered = np.random.default_rng(11), 0
    for _ in range(600):
        Z = rng.normal(size=(100, 3))

        def truth(Z):
            return Z.sum(axis=1) + Z[:, 0] * Z[:, 1]

        y = truth(Z) + rng.normal(scale=0.5, size=100)
        low, high = ll.feature_importance(truth, Z, y, loss="squared_error", features="x0")["x0"].interval()
        covered += low < 4 < high
    assert 0.90 < covered / 600 < 0.98


# Sampled donors.


@pytest.mark.parametrize("m", [4, 12])
def test_the_noise_of_latin_shifts_is_what_the_formula_says(m):
    """Var = (Var_1/m)(1 - (m - 1)/(n - 1)), Var_1 = sum(d²)/(n²(n - 1)), d the doubly centred cells.

    4,000 draws: an empirical variance has relative standard error sqrt((kurtosis - 1)/4000), four of which are 9%.
    """
    D = cells()
    rng = np.random.default_rng(1)
    rows = np.arange(N)[:, None]
    draws = np.array([D[rows, ll.Latin(m).draw(N, rng)].mean() for _ in range(4000)])
    d = D - D.mean(axis=0) - D.mean(axis=1, keepdims=True) + D.mean()
    expected = np.sum(d**2) / (N**2 * (N - 1)) / m * (1 - (m - 1) / (N - 1))
    assert draws.mean() == pytest.approx(D.mean(), abs=4 * np.sqrt(expected / 4000))
    assert draws.var() == pytest.approx(expected, rel=0.1)


@pytest.mark.parametrize("m", [5, 12])
def test_the_noise_of_latin_shifts_is_estimated_without_bias(m):
    """D2 from the cells met estimates sum(d²)/(n - 1)², so the estimate is n/(n - 1) times the variance, on average.

    Rows and donors are not orthogonal in an incomplete design: plain double centring would be off by a factor of two.
    The mean of 300 estimates has the standard error that their spread says; four of them are allowed.
    """
    D = cells()
    d = D - D.mean(axis=0) - D.mean(axis=1, keepdims=True) + D.mean()
    expected = np.sum(d**2) / (N - 1) ** 2 / (N * m) * (1 - (m - 1) / (N - 1))
    found = np.array([noise_variance(explain(donors=ll.Latin(m), random_state=seed)) for seed in range(300)])
    error = found.std() / np.sqrt(300)
    assert error < 0.05 * expected
    assert found.mean() == pytest.approx(expected, abs=4 * error)


@pytest.mark.parametrize("m", [5, 12])
def test_the_standard_error_of_latin_shifts_is_that_of_all_pairs_and_the_noise(m):
    """Row and column means of m donors carry noise of their own, D2/(nm) each in the sum of squares: one of them is

    the Monte-Carlo variance of the estimate and belongs there, the other is taken off. So on average over draws the
    squared standard error is that of all pairs plus the Monte-Carlo variance. The mean of 300 has the standard error
    that their spread says; four of them, and 2/n for the small-sample factors of the terms, are allowed.
    """
    exact = explain()
    found = [explain(donors=ll.Latin(m), random_state=seed) for seed in range(300)]
    squares = np.array([feature.std_error**2 for feature in found])
    expected = exact.std_error**2 + np.mean([noise_variance(feature) for feature in found])
    slack = 4 * squares.std() / np.sqrt(300) + 2 / N * expected
    assert slack < 0.2 * expected
    assert squares.mean() == pytest.approx(expected, abs=slack)


@pytest.mark.parametrize("size", [3, 6])
def test_the_clustered_standard_error_of_latin_shifts_is_that_of_all_pairs_and_the_noise(size):
    """As above; a group lends nothing to itself, so effects of rows and donors lack a share of 1/G of the others'."""
    groups = np.arange(N) // size
    found = [explain(donors=ll.Latin(20), groups=groups, random_state=seed) for seed in range(300)]
    squares = np.array([feature.std_error**2 for feature in found])
    expected = explain(groups=groups).std_error ** 2 + np.mean([noise_variance(feature) for feature in found])
    slack = 4 * squares.std() / np.sqrt(300) + 2 / N * expected
    assert slack < 0.25 * expected
    assert squares.mean() == pytest.approx(expected, abs=slack)


def test_systematic_shifts_are_no_noisier_than_the_bound_they_report():
    """A monotone effect on sorted ranks: the variance over draws stays under that of as many Latin shifts."""
    found = [explain(donors=ll.Systematic(6), random_state=seed) for seed in range(300)]
    bound = np.mean([noise_variance(feature) for feature in found])
    assert np.var([feature.pfi for feature in found]) < bound
    assert np.mean([feature.pfi for feature in found]) == pytest.approx(explain().pfi, abs=4 * np.sqrt(bound / 300))


def test_all_pairs_have_no_noise():
    assert noise_variance(explain()) == 0
    assert noise_variance(explain(donors=ll.Latin(N))) == pytest.approx(0, abs=1e-12)


# Where there is none.


@pytest.mark.parametrize("design", [ll.Latin(2), ll.Permutations(1), ll.Systematic(2), ll.Derangements(2)], ids=str)
def test_fewer_than_three_donors_give_no_standard_error_and_say_why(design):
    feature = explain(donors=design)
    assert np.isfinite(feature.pfi)
    with pytest.raises(ValueError, match="use 3 donors or more"):
        feature.std_error  # noqa: B018
    with pytest.raises(ValueError, match="use 3 donors or more"):
        feature.interval()


def test_two_rows_or_two_groups_give_no_standard_error_and_say_why():
    pair = ll.feature_importance(model, X[:2], Y[:2], loss="squared_error")["x0"]
    with pytest.raises(ValueError, match="at least 3 rows"):
        pair.std_error  # noqa: B018
    with pytest.raises(ValueError, match="at least 3 groups"):
        explain(groups=np.arange(N) % 2).std_error  # noqa: B018


def test_values_of_the_users_own_have_no_standard_error():
    with pytest.raises(ValueError, match="no standard error"):
        explain(donors=ll.Grid(values=[0.0, 1.0])).std_error  # noqa: B018


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("design", [ll.Latin(6), ll.Derangements(6)], ids=str)
@pytest.mark.parametrize("r", [30, 60])
def test_the_variance_with_sampled_donors_is_unbiased_whatever_the_weights_and_the_rows(r, design, weighted):
    """Cells are ``a_i + c_k + e_ik``, independent, of variances 6, 2 and 8: those of a linear model with noise.

    Given the design and the weights W of its cells, the mean has the variance
    ``6 sum of W_i.^2 + 2 sum of W_.k^2 + 8 sum of W_ik^2``, own cells, which are 0, left out, and for the
    U-statistic over (1 - own share)^2. The estimate is
    a quadratic form of the cells: its expectation is the sum of its values at one row, one donor and one cell of 1,
    each times its variance. Nothing is simulated but designs and weights. With effects fitted to the few cells of a
    donor it was too large by a fifth of equal weights, and by a half of these.
    """
    n, expected, true = 60, 0.0, 0.0
    for seed in range(2):
        rng = np.random.default_rng(seed)
        X, w = rng.normal(size=(n, 1)), rng.exponential(size=n) if weighted else np.ones(n)
        one = ll.feature_importance(
            lambda X: X[:, 0], X, X[:, 0], loss="squared_error", donors=design, sample_weight=w, random_state=seed
        )["x0"]
        rows, layout, sample = np.arange(r), one.layout, one.sample
        donors = np.asarray(layout.donors[rows])
        W = sample.weight[rows][:, None] * sample.weight[donors]
        total = W.sum()
        W /= total
        row, donor = np.repeat(np.arange(r), donors.shape[1]), donors.ravel()
        pair = np.unique(row * n + donor, return_inverse=True)[1].ravel()
        up = 1.0 if layout.leaves_out_own else sample.others_share(rows, W.sum(axis=1))
        other = donors != rows[:, None]  # the change of a row's own cell is 0

        def estimate(D, W=W, total=total, donors=donors, layout=layout, sample=sample, rows=rows):
            lent = np.bincount(donors.ravel(), W.ravel(), n)
            caused = np.bincount(donors.ravel(), (W * D).ravel(), n)
            means = standard_errors.Means(
                local=(W * D).sum(axis=1) / W.sum(axis=1), mass=total * W.sum(axis=1),
                caused=np.divide(caused, lent, out=np.zeros(n), where=lent > 0), donor_weight=lent,
                square=float(np.sum(W * D * D)),
            )  # fmt: skip
            found = standard_errors._deleted_from_sampled(means, layout, sample, rows, np.nan)
            return float(found.moved @ found.moved) - found.excess

        for variance, unit in ((6, row), (2, donor), (8, pair)):
            expected += variance * sum(estimate((unit == u).reshape(W.shape) * other * 1.0) for u in np.unique(unit))
            true += variance * np.sum(np.bincount(unit, (W * other).ravel()) ** 2) / up**2
    assert 0.98 <= expected / true <= (1.06 if weighted else 1.02)


def test_intervals_of_small_numbers_scale_with_the_unit():
    """Losses of 1e-130 have influences whose cubes are 0 in floating point: their skewness is that of the ratios."""
    found, tiny = explain(), ll.feature_importance(lambda X: 1e-65 * model(X), X, 1e-65 * Y, loss="squared_error")["x0"]
    np.testing.assert_allclose(np.array(tiny.interval()) * 1e130, found.interval(), rtol=1e-9)


def test_a_row_with_nearly_all_weight_leaves_the_others_their_digits():
    """Of two rows the mean over pairs of different rows is (D_12 + D_21) / 2, whatever their weights."""
    rows = X[:2]
    mean = (cells()[0, 1] + cells()[1, 0]) / 2
    for weight in (1.0, 1e-6, 1e-12):
        found = ll.feature_importance(model, rows, Y[:2], loss="squared_error", sample_weight=[1.0, weight])["x0"]
        assert found.unbiased == pytest.approx(mean, rel=1e-9)
