"""Numbers of one run side by side: paired differences, ranks, tests and their adjustment."""

import numpy as np
import polars as pl
import pytest

import brute
import losslens as ll
from losslens.uncertainty import standard_errors
from losslens.uncertainty.inference import Estimates, adjusted

RNG = np.random.default_rng(4)
N = 40
X = RNG.normal(size=(N, 4))
Y = 2 * X[:, 0] + X[:, 0] * X[:, 1] + RNG.normal(size=N)


def model(X):
    return 2 * X[:, 0] + X[:, 0] * X[:, 1] + 0.2 * X[:, 2]


def explain(**options):
    return ll.feature_importance(model, X, Y, loss="squared_error", **options)


def cells(j):
    return brute.cells(model, X, Y, [j], brute.LOSSES["squared_error"])


# Differences.


@pytest.mark.parametrize("design", [ll.All(), ll.Derangements()], ids=str)
def test_a_difference_of_two_features_is_the_jackknife_of_their_difference(design):
    """The same rows move both numbers: their common part cancels. It is that of the numbers as they are printed."""
    D = cells(0) - cells(1)
    expected = brute.jackknife(lambda rows: brute.u_statistic(D[np.ix_(rows, rows)]), np.arange(N))
    imp = explain(donors=design)
    found, u = imp.difference("x0", "x1"), brute.u_statistic(D)
    assert found.value == pytest.approx(imp["x0"].pfi - imp["x1"].pfi)
    assert found.value == pytest.approx(u if design == ll.Derangements() else D.mean())
    assert found.std_error == pytest.approx(expected, rel=1e-9)
    skewness = imp.estimates()._difference_skewness[0, 1]
    ends = standard_errors.interval(u, expected, N, 0.95, skewness)
    share = found.value / u
    outward = min(ends[0], share * ends[0]), max(ends[1], share * ends[1])
    assert (found.low, found.high) == pytest.approx(outward)
    assert (found.p_value < 0.05) == (found.low > 0)


def test_a_feature_does_not_differ_from_itself_and_signs_turn():
    imp = explain()
    same = imp.difference("x1", "x1")
    assert (same.value, same.low, same.high, same.p_value) == (0, 0, 0, 1)
    one, other = imp.difference("x0", "x2"), imp.difference("x2", "x0")
    assert one.value == -other.value
    assert one.low == pytest.approx(-other.high)
    assert one.p_value == pytest.approx(other.p_value)


def test_sampled_features_have_donors_of_their_own_and_their_noise_adds_up():
    """400 draws of Latin(5): the spread of the difference of two features is that of two separate draws.

    A variance of 400 numbers has a relative standard error of .07, so that of the two sides of the equation is .1.
    """
    both = [explain(donors=ll.Latin(5), random_state=seed, features=["x0", "x1"]) for seed in range(400)]
    values = np.array([[f.pfi for f in imp.values()] for imp in both])
    apart = np.var(values[:, 0] - values[:, 1])
    assert apart == pytest.approx(np.var(values[:, 0]) + np.var(values[:, 1]), rel=0.2)


def test_a_difference_of_shapley_shares_is_the_jackknife_of_their_difference():
    shap = ll.shapley_importance(model, X, Y, loss="squared_error")
    moved = shap.shares.local, shap.shares.caused
    found = shap.difference("x0", "x1")
    row, donor = (part[:, 0] - part[:, 1] for part in moved)
    mean = row.mean()
    # As for a PFI: leaving out a row takes off its own share and that of its loans.
    left_out = (N**2 * mean - N * row - N * donor) / ((N - 1) * (N - 2))
    expected = np.sqrt((N - 1) / N * np.sum((left_out - left_out.mean()) ** 2))
    assert found.std_error == pytest.approx(expected, rel=1e-9)
    assert found.value == pytest.approx(shap.sfimp[0] - shap.sfimp[1])
    assert found.low < found.value < found.high


def test_walks_state_no_smaller_a_difference_than_all_coalitions():
    exact = ll.shapley_importance(model, X, Y, loss="squared_error").difference("x0", "x1")
    walks = ll.shapley_importance(
        model, X, Y, loss="squared_error", method="walk", budget=4000, random_state=0
    ).difference("x0", "x1")
    assert walks.value == pytest.approx(exact.value, abs=3 * exact.std_error)
    assert 0.8 * exact.std_error < walks.std_error < 2 * exact.std_error


def test_unknown_names_are_told():
    with pytest.raises(KeyError, match="x7"):
        explain().difference("x0", "x7")


# Ranks.


def test_ranks_of_numbers_that_are_far_apart_are_certain():
    known = Estimates.of_covariance(("a", "b", "c"), np.array([1.0, 9.0, 5.0]), 0.01 * np.eye(3), 51)
    rank, low, high = known.ranks()
    assert rank.tolist() == low.tolist() == high.tolist() == [3, 1, 2]


def test_ranks_of_numbers_that_cannot_be_told_apart_are_open():
    known = Estimates.of_covariance(("a", "b", "c"), np.array([1.0, 1.1, 0.9]), np.eye(3), 51)
    rank, low, high = known.ranks()
    assert rank.tolist() == [2, 1, 3]
    assert low.tolist() == [1, 1, 1]
    assert high.tolist() == [3, 3, 3]


def test_paired_numbers_can_be_told_apart_where_each_by_itself_could_not():
    """Two numbers that move together: their difference is certain, though neither is."""
    together = np.array([[1.0, 0.999], [0.999, 1.0]])
    known = Estimates.of_covariance(("a", "b"), np.array([1.0, 2.0]), together, 101)
    assert known.ranks()[1].tolist() == [2, 1]
    apart = Estimates.of_covariance(("a", "b"), np.array([1.0, 2.0]), np.eye(2), 101)
    assert apart.ranks()[1].tolist() == [1, 1]


def test_all_ranks_hold_at_once():
    """Three true numbers 0, .5, 1 with errors .4: 95% of the runs have all three ranks right, or more.

    300 runs: a share of .95 has standard error .013.
    """
    rng, truth = np.random.default_rng(0), np.array([0.0, 0.5, 1.0])
    covariance = 0.16 * np.array([[1, 0.3, 0], [0.3, 1, 0.3], [0, 0.3, 1]])
    root, right = np.linalg.cholesky(covariance), 0
    for _ in range(300):
        known = Estimates.of_covariance(("a", "b", "c"), truth + root @ rng.normal(size=3), covariance, 10**6 + 1)
        _, low, high = known.ranks()
        right += bool(((low <= [3, 2, 1]) & (high >= [3, 2, 1])).all())
    assert right / 300 > 0.92


def test_ranks_as_a_table_in_the_users_library():
    frame = pl.DataFrame(X, schema=list("abcd"))
    imp = ll.feature_importance(lambda F: model(F.to_numpy()), frame, Y, loss="squared_error")
    table = imp.ranks()
    assert isinstance(table, pl.DataFrame)
    assert table.columns == ["feature", "rank", "low", "high", "caution"]
    assert table["feature"].to_list()[0] == "a"
    assert table["rank"].to_list() == [1, 2, 3, 4]


# Tests.


def test_an_unused_feature_is_not_flagged_and_a_strong_one_is():
    table = explain().test()
    assert list(table.columns) == ["feature", "importance", "std_error", "p", "p_adjusted", "caution"]
    p = dict(zip(table["feature"], table["p"], strict=True))
    assert p["x0"] < 1e-3
    assert p["x3"] == 1
    assert table["p"].is_monotonic_increasing
    assert "p_adjusted" not in explain().test(adjust=None)


def test_noise_is_flagged_as_often_as_the_test_says():
    """A feature that the model uses and that has nothing to do with y: its importance is 0.

    1,000 runs at 5%: a share has standard error .007.
    """
    rng, flagged = np.random.default_rng(2), 0
    for _ in range(1000):
        Z = rng.normal(size=(60, 2))
        y = Z[:, 0] + rng.normal(size=60)
        imp = ll.feature_importance(lambda Z: Z[:, 0] + 0.3 * Z[:, 1], Z, y, loss="squared_error", features="x1")
        flagged += imp["x1"].p_value < 0.05
    assert 0.025 < flagged / 1000 < 0.07


def test_holm_and_benjamini_hochberg_by_hand():
    """p = .01, .04, .03, .005 of four tests.

    Holm, from the smallest: 4 x .005 = .02, 3 x .01 = .03, 2 x .03 = .06, 1 x .04 -> not under .06.
    Benjamini-Hochberg, from the largest: .04 x 4/4 = .04, .03 x 4/3 = .04, .01 x 4/2 = .02, .005 x 4/1 = .02.
    """
    p = np.array([0.01, 0.04, 0.03, 0.005])
    np.testing.assert_allclose(adjusted(p, "holm"), [0.03, 0.06, 0.06, 0.02])
    np.testing.assert_allclose(adjusted(p, "benjamini_hochberg"), [0.02, 0.04, 0.04, 0.02])
    np.testing.assert_array_equal(adjusted(np.array([0.9, 0.8]), "holm"), [1, 1])
    with pytest.raises(ValueError, match="'holm'"):
        adjusted(p, "bonferroni")


def test_features_without_a_standard_error_are_left_out_or_say_why():
    some = ll.feature_importance(
        model, X, Y, loss="squared_error", features=["x0", ("x0", "x1")], donors=ll.Grid(8), random_state=0
    )
    assert some.test()["feature"].tolist() == ["x0"]
    with pytest.raises(ValueError, match="at least 3 rows"):
        explain().given([0, 1]).test()


def test_what_is_not_known_is_no_finding():
    """An error that is not a number gives a p that is none, not p = 0."""
    from losslens.uncertainty import standard_errors
    from losslens.uncertainty.inference import difference

    assert np.isnan(standard_errors.p_value(1.0, np.nan, 10))
    assert np.isnan(difference(("a", "b"), 1.0, np.nan, 9, 0.95).p_value)
    sage = ll.shapley_importance(model, X, Y, loss="squared_error", method=ll.Sage(), donors=ll.Grid(10))
    assert np.isnan(sage.std_error).all()
    with pytest.raises(ValueError, match="Monte-Carlo error of the shares is unknown"):
        sage.test()


def test_the_noise_of_a_draw_is_never_taken_off_altogether():
    """Ten rows, three donors each: what is left of the squares can be negative; the draw's own noise is not."""
    for seed in range(40):
        rng = np.random.default_rng(seed)
        Z = rng.normal(size=(10, 2))
        imp = ll.feature_importance(
            lambda Z: Z[:, 0] + 0.02 * np.sign(Z[:, 1]), Z, rng.normal(size=10), loss="squared_error",
            donors=ll.Latin(3), random_state=seed, features="x1",
        )  # fmt: skip
        low, high = imp["x1"].interval(target="sample")
        if high > low:
            assert imp["x1"].std_error > 0
            assert imp["x1"].p_value > 0
