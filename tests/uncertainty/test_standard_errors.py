"""Standard errors against the jackknife by brute force, Monte-Carlo noise against many draws, and coverage."""

import numpy as np
import pytest
from scipy import stats

import brute
import losslens as ll
from losslens.uncertainty import standard_errors

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
    return standard_errors.monte_carlo_variance(feature.means, feature.meeting, feature.sample, feature.at)


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


def test_groups_of_unequal_size_have_the_jackknife_to_first_order():
    """The statistic is then a ratio, (sum of cells)/(number of cells); leaving out one of G groups moves both.

    The influence function is its derivative: what is left is of relative order 1/G, here 1/12.
    """
    groups = np.repeat(np.arange(12), [1, 2, 3, 4, 5, 3, 2, 1, 4, 5, 2, 4])
    D = cells("x0")
    expected = brute.jackknife(lambda rows: between(D, groups, rows), groups)
    assert explain(groups=groups).std_error == pytest.approx(expected, rel=1 / 12)


def test_every_row_its_own_group_is_no_group_at_all():
    alone = explain(groups=np.arange(N))
    assert alone.pfi == pytest.approx(brute.u_statistic(cells()))
    assert alone.std_error == pytest.approx(explain(donors=ll.Derangements()).std_error, rel=1e-9)


def test_given_some_rows_both_they_and_their_donors_vary():
    """IF_i = 1{i in G}(n/n_G)(row_i - A) + (col_i - A), from the means of the group's cells; SE = sd(IF)/sqrt(n).

    The jackknife's factor is (n/(n - 1))² n (n - 1)/(n - 2)² to the sum of (IF/n)². Without the donors it would be
    a third too small.
    """
    G = np.flatnonzero(X[:, 2] == 1)
    D = cells("x0")
    row, column, A = D[G].mean(axis=1), D[G].mean(axis=0), D[G].mean()
    influence = column - A
    influence[G] += N / len(G) * (row - A)
    factor = (N / (N - 1)) ** 2 * N * (N - 1) / (N - 2) ** 2
    part = explain().given(G)
    assert part.std_error == pytest.approx(np.sqrt(factor * np.sum(influence**2)) / N, rel=1e-9)


def test_given_some_rows_the_standard_error_is_the_jackknife_to_first_order():
    """Leaving a row of G out also moves the number of rows, which the influence leaves out: 1/n_G."""
    G = X[:, 2] == 1
    D = cells("x0")

    def u_given(rows):
        part = D[np.ix_(rows, rows)][G[rows]]
        return part.sum() / (len(part) * (len(rows) - 1))

    expected = brute.jackknife(u_given, np.arange(N))
    assert explain().given(G).std_error == pytest.approx(expected, rel=2 / G.sum())


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
    """Of a mean: the third moment of what leaving out each row takes off, over that of their size; at most 0.4."""
    left_out = np.array([statistic(np.delete(rows, i)) for i in range(len(rows))])
    moved = left_out.mean() - left_out
    return float(np.clip(np.sum(moved**3) / np.sum(moved**2) ** 1.5, -0.4, 0.4))


@pytest.mark.parametrize(("name", "scale"), [("x0", 0), ("x1", 1), ("x2", 3)])
@pytest.mark.parametrize("level", [0.9, 0.95])
def test_an_interval_ends_where_the_bent_t_statistic_is_a_quantile_of_student(name, scale, level):
    """The interval holds every importance whose distance from U, in standard errors and bent, is small enough."""
    noisy = Y + np.random.default_rng(9).normal(scale=scale, size=N) if scale else model(X)
    D = cells(name, Y=noisy)
    feature = explain(features=name, Y=noisy)
    a = skewness(lambda rows: brute.u_statistic(D[np.ix_(rows, rows)]), np.arange(N))
    t = (brute.u_statistic(D) - np.array(feature.interval(level))) / feature.std_error
    # The skewness is that of first-order effects; the jackknife's differ from them by terms of order 1/n.
    np.testing.assert_allclose(bent(t, a), stats.t.ppf([(1 + level) / 2, (1 - level) / 2], N - 1), rtol=1e-6)


def test_an_interval_without_skewness_is_students():
    low, high = standard_errors.interval(2.0, 0.5, 11, 0.95)
    np.testing.assert_allclose([low, high], stats.t.interval(0.95, 10, 2.0, 0.5))


def test_the_test_is_students_one_sided():
    """Bent by its skewness, as the interval is, it flagged noise 1.5 times as often as it says at small levels."""
    assert standard_errors.p_value(1.0, 0.5, 11) == pytest.approx(stats.t.sf(2, 10))
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


def test_clustered_intervals_count_groups_not_rows():
    feature = explain(groups=FIVES)
    t = (feature.pfi - np.array(feature.interval())) / feature.std_error
    np.testing.assert_allclose(bent(t, feature.influence.skewness), stats.t.ppf([0.975, 0.025], 5), rtol=1e-9)


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
