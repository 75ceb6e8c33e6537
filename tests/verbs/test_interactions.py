"""Interactions of performance, two features at a time: against permutation importances of one and of both."""

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestRegressor
from sklearn.metrics import get_scorer

import brute
import losslens as ll
from losslens.engines.trees import engine, two_columns

RNG = np.random.default_rng(0)
N = 40
X = RNG.normal(size=(N, 4))
X[:, 3] = RNG.integers(0, 3, N)
Y = X[:, 0] * (1 + X[:, 1]) + X[:, 2] + RNG.normal(size=N)
FOREST = RandomForestRegressor(5, max_leaf_nodes=8, random_state=0).fit(X, Y)
NAMES = ("x0", "x1", "x2", "x3")


def simulation(X):
    """Simulation 2 of the paper."""
    return X[:, 0] + X[:, 1] + X[:, 2] + X[:, 0] * X[:, 1]


def ask(model=simulation, X=X, y=Y, loss="squared_error", **options):
    return ll.pair_interactions(model, X, y, loss=loss, **options)


def direct(predict, j, k, loss="squared_error"):
    """PFI_j + PFI_k - PFI_jk over all pairs of rows."""
    alone = [brute.cells(predict, X, Y, columns, brute.LOSSES[loss]).mean() for columns in ([j], [k], [j, k])]
    return alone[0] + alone[1] - alone[2]


@pytest.mark.parametrize("loss", ["squared_error", "absolute_error"])
@pytest.mark.parametrize("native", ["function", "forest"])
def test_interactions_are_what_two_importances_have_in_common(native, loss):
    fitted, predict = (simulation, simulation) if native == "function" else (FOREST, FOREST.predict)
    found = ask(fitted, loss=loss, donors="all")
    assert found.features == NAMES
    for j in range(4):
        assert found.index[j, j] == 0
        for k in range(j):
            expected = direct(predict, j, k, loss)
            assert found[NAMES[j], NAMES[k]] == pytest.approx(expected, abs=1e-9)
            assert found[NAMES[k], NAMES[j]] == found[NAMES[j], NAMES[k]]


def test_the_papers_second_simulation():
    """PFI_1 = PFI_2 = 2 + 2, PFI_12 = 2 + 2 + 2: the product counts for both, 2 in common; nothing else does.

    2,000 rows; products of normals have a spread of a few, so that a twentieth of it is a tenth or two.
    """
    Z = np.random.default_rng(1).normal(size=(2000, 3))
    found = ask(X=Z, y=simulation(Z), donors=ll.Latin(20), random_state=0)
    assert found["x0", "x1"] == pytest.approx(2, abs=0.5)
    assert found["x0", "x2"] == pytest.approx(0, abs=0.5)
    assert found["x1", "x2"] == pytest.approx(0, abs=0.5)


def test_all_sign_patterns_have_the_theoretical_answer():
    """On all 8 rows of signs the columns are independent to the last digit: x0 x1 interacts by 2, nothing else does."""
    Z = np.array([[a, b, c] for a in (-1.0, 1.0) for b in (-1.0, 1.0) for c in (-1.0, 1.0)])
    found = ask(X=Z, y=simulation(Z))
    np.testing.assert_allclose(found.index, [[0, 2, 0], [2, 0, 0], [0, 0, 0]], atol=1e-12)
    shapley = ll.shapley_importance(simulation, Z, simulation(Z), loss="squared_error")
    np.testing.assert_allclose(shapley.interactions.index, found.index, atol=1e-12)
    np.testing.assert_allclose(shapley.sfimp, [3, 3, 2], atol=1e-12)


def test_some_pairs_alone_are_asked_for():
    found = ask(pairs=[("x3", "x1"), ("x1", "x0")])
    whole = ask()
    assert set(found.features) == {"x3", "x1", "x0"}
    for pair in (("x3", "x1"), ("x0", "x1")):
        assert found[pair] == pytest.approx(whole[pair], abs=1e-12)
    assert np.isnan(found["x3", "x0"])
    frame = found.to_frame()
    assert len(frame) == 2
    assert np.abs(frame["interaction"]).is_monotonic_decreasing


def test_groups_interact_too():
    found = ask(features={"a": [0, 3], "b": [1], "c": [2]})
    both, a, b = (
        brute.cells(simulation, X, Y, columns, brute.LOSSES["squared_error"]).mean()
        for columns in ([0, 3, 1], [0, 3], [1])
    )
    assert found["a", "b"] == pytest.approx(a + b - both, abs=1e-9)


def test_frames_and_options_are_those_of_feature_importance():
    frame = pd.DataFrame(X, columns=["a b", "c", "d", "e"])
    weight = RNG.integers(1, 4, N)

    def named(table):
        return simulation(np.asarray(table))

    found = ask(named, frame, donors=ll.Derangements(), sample_weight=weight, features=["a b", "c"])
    alone = ll.feature_importance(
        named, frame, Y, loss="squared_error", donors=ll.Derangements(), sample_weight=weight,
        features={"a b": ["a b"], "c": ["c"], "both": ["a b", "c"]},
    )  # fmt: skip
    assert found["a b", "c"] == pytest.approx(alone["a b"].pfi + alone["c"].pfi - alone["both"].pfi)
    assert isinstance(found.to_frame(), pd.DataFrame)
    assert "a b, c" in repr(found)


def test_one_pair_and_a_feature_named_like_a_pair():
    """A group that carries the name of two others together must not be mistaken for them."""
    players = {"x0": [0], "x1": [1], "x0 and x1": [2]}
    found = ask(features=players)
    assert found["x0", "x1"] == pytest.approx(direct(simulation, 0, 1), abs=1e-9)
    assert found["x0", "x0 and x1"] == pytest.approx(direct(simulation, 0, 2), abs=1e-9)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"features": ["x0"]}, "an interaction needs two features"),
        ({"features": [("x0", "x1")]}, r"name the pairs in pairs=\[\(a, b\), ...\]"),
        ({"pairs": [("x0", "x0")]}, "pairs must be a list of pairs of different names"),
        ({"pairs": ["x0x1"]}, "pairs must be a list of pairs of different names"),
        ({"pairs": [("x0", "x1", "x2")]}, "pairs must be a list of pairs of different names"),
        ({"pairs": [("x0", "x9")]}, "unknown feature 'x9' in pairs"),
        ({"pairs": []}, "pairs"),
        ({"features": {"a": [0, 1], "b": [1, 2]}}, "'a' and 'b' share column 'x1'"),
        ({"y": None}, "y, the true values, is missing"),
    ],
    ids=str,
)
def test_calls_that_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        ask(**options)


# -- how surely -------------------------------------------------------------------------------------------------------


def jackknifed(predict, X, y, j, k, leave=None):
    """The U-statistic of all pairs of two different rows."""
    rows = np.delete(np.arange(len(X)), [] if leave is None else [leave])
    Z, t, n = X[rows], y[rows], len(rows)
    one, two, both = (brute.cells(predict, Z, t, c, brute.LOSSES["squared_error"]) for c in ([j], [k], [j, k]))
    return (one + two - both).sum() / n / (n - 1)


def test_errors_are_the_jackknifes():
    """With h_i the mean of row i's cells with all others, half of it as an observation and half as a donor,

        U - U_(-i) = 2/(n - 2) (h_i - U),

    because the sum over all pairs loses the cells of row i in both roles. The influence is 2/n (h_i - U), and
    n (n - 1)/(n - 2)^2 times its sum of squares is the jackknife's variance (n - 1)/n sum (U_(-i) - U)^2.
    """
    found = ask(donors="all")
    left = np.array([jackknifed(simulation, X, Y, 0, 1, i) for i in range(N)])
    expected = np.sqrt((N - 1) / N * np.sum((left - left.mean()) ** 2))
    assert found.std_error[0, 1] == pytest.approx(expected, rel=1e-9)
    assert found.unbiased[0, 1] == pytest.approx(jackknifed(simulation, X, Y, 0, 1), rel=1e-9)
    assert found.std_error[1, 0] == found.std_error[0, 1]
    assert found.units == N


@pytest.mark.parametrize("donors", ["all", ll.Latin(6)], ids=str)
def test_intervals_hold_the_truth_about_as_often_as_they_say(donors):
    """y = f + noise and the model f = x0 + x1 + x2 + x0 x1 of independent normal features: I is 2, 0 and 0.

    Of 60 runs with 95% intervals 57 hold it, give or take 1.7; 4.7 standard deviations are 8.
    """
    rng, held = np.random.default_rng(2), np.zeros(3)
    upper = np.triu_indices(3, 1)
    for seed in range(60):
        Z = rng.normal(size=(80, 3))
        t = simulation(Z) + 0.5 * rng.normal(size=80)
        low, high = ask(X=Z, y=t, donors=donors, random_state=seed).intervals()
        held += (low[upper] <= [2, 0, 0]) & (high[upper] >= [2, 0, 0])
    assert np.all(held >= 49)
    assert held.mean() < 60


def test_correlated_features_that_are_only_added_interact_by_their_covariance():
    """Squared error, f = g_j + g_l + rest: with d = g(own) - g(donor) the cells of I are those of

        (2 r d_j + d_j^2) + (2 r d_l + d_l^2) - (2 r (d_j + d_l) + (d_j + d_l)^2) = -2 d_j d_l,

    of mean -2 * 2 cov(g_j, g_l) over all pairs of rows (divided by n).
    """
    Z = RNG.normal(size=(N, 3))
    Z[:, 1] += Z[:, 0]
    found = ask(lambda Z: 2 * Z[:, 0] + Z[:, 1] ** 3, Z, RNG.normal(size=N), donors="all")
    assert found["x0", "x1"] == pytest.approx(-4 * np.cov(2 * Z[:, 0], Z[:, 1] ** 3, ddof=0)[0, 1])


@pytest.mark.parametrize("donors", ["all", ll.Latin(5), ll.Permutations(5)], ids=str)
@pytest.mark.parametrize("native", ["function", "forest"])
def test_a_feature_that_is_not_used_interacts_with_nobody(native, donors):
    """Rounding must not pass for a sure finding: nothing is left, neither of the number nor of its error."""
    Z = np.column_stack([X[:, :3], RNG.normal(size=N)])
    flat = np.column_stack([X[:, :3], np.zeros(N)])
    fitted = simulation if native == "function" else RandomForestRegressor(5, random_state=0).fit(flat, Y)
    found = ask(fitted, Z, donors=donors, random_state=0)
    for name in ("x0", "x1", "x2"):
        k = NAMES.index(name)
        assert (found.std_error[3, k], found.p[3, k], found.low[3, k], found.high[3, k]) == (0, 1, 0, 0)
        assert found[name, "x3"] == pytest.approx(0, abs=1e-12)


def test_the_same_donors_for_both_features_take_their_noise_off():
    """Over repeated draws the number varies as its Monte-Carlo error says, and less than three draws apart would."""
    found = [ask(donors=ll.Latin(4), random_state=seed)["x0", "x2"] for seed in range(80)]
    apart = []
    for seed in range(40):
        imp = [
            ll.feature_importance(
                simulation, X, Y, loss="squared_error", donors=ll.Latin(4), random_state=3 * seed + k, features=group
            )
            for k, group in enumerate((["x0"], ["x2"], {"x0": ["x0", "x2"]}))
        ]
        apart.append(imp[0]["x0"].pfi + imp[1]["x2"].pfi - imp[2]["x0"].pfi)
    assert np.std(found) < 0.6 * np.std(apart)
    assert np.mean(found) == pytest.approx(ask(donors="all")["x0", "x2"], abs=4 * np.std(found) / np.sqrt(80))


def test_draws_apart_add_their_noise(monkeypatch):
    """Where each importance has donors of its own, the variance is that of the rows and the noise of all three."""
    from losslens.verbs import interactions

    monkeypatch.setattr(interactions, "_with_same_donors", lambda options: options)
    found = ask(donors=ll.Latin(4), random_state=0, features=["x0", "x2"])
    imp = ll.feature_importance(
        simulation, X, Y, loss="squared_error", donors=ll.Latin(4), random_state=0,
        features={"x0": ["x0"], "x2": ["x2"], "both": ["x0", "x2"]},
    )  # fmt: skip
    parts = [imp[name].influence for name in ("x0", "x2", "both")]
    moved = parts[0].moved + parts[1].moved - parts[2].moved
    variance = max(moved @ moved - sum(one.excess for one in parts), sum(one.noise for one in parts))
    assert found.std_error[0, 1] == pytest.approx(np.sqrt(variance))


def test_streamed_cells_in_common_keep_all_their_noise():
    """Which of it cancels is not known without the cells: the error is never less than that of draws apart."""
    Z = np.random.default_rng(6).normal(size=(400, 4))
    whole, few = (ask(X=Z, y=simulation(Z), donors=ll.Latin(60), random_state=0, memory=m) for m in ("1 GiB", "1 MiB"))
    np.testing.assert_allclose(few.index, whole.index, atol=1e-12)
    upper = np.triu_indices(4, 1)
    assert np.all(few.std_error[upper] > whole.std_error[upper])


def test_a_scorer_has_no_errors_and_says_so():
    found = ask(FOREST, loss=get_scorer("r2"), features=["x0", "x1"])
    assert np.isnan(found.std_error[0, 1])
    assert "no interval for any of the pairs: an influence doesn't exist for the scorer" in repr(found)


def test_too_many_pairs_of_rows_leave_an_exact_number_without_an_interval(monkeypatch):
    for module, name in ((engine, "MAX_SMALL_TREES"), (engine, "MAX_LARGE_TREES"), (two_columns, "MAX_PAIRS")):
        monkeypatch.setattr(module, name, 0)
    found = ask(FOREST)
    assert found["x0", "x1"] == pytest.approx(direct(FOREST.predict, 0, 1), abs=1e-9)
    assert np.isnan(found.std_error).all()
    assert "40 rows have too many pairs for a standard error" in repr(found)


# -- what it costs ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pairs", [None, [("x0", "x1")], [("x0", "x1"), ("x1", "x2")]], ids=str)
@pytest.mark.parametrize("donors", ["all", ll.Latin(5)], ids=str)
def test_a_pair_costs_one_group_of_columns(donors, pairs):
    """The features that are named once, each pair once, and the rows themselves."""
    Z, asked = RNG.normal(size=(N, 4)), []

    def counted(X):
        asked.append(len(X))
        return simulation(X)

    found = ask(counted, Z, donors=donors, pairs=pairs, random_state=0)
    alone, together = (4, 6) if pairs is None else (len({name for pair in pairs for name in pair}), len(pairs))
    each = N * N if donors == "all" else N * 5
    assert found.n_predictions == sum(asked)
    assert sum(asked) <= N + (alone + together) * each


def test_trees_are_asked_for_nothing_but_the_check():
    assert ask(FOREST).n_predictions == N  # rows that the engine was compared with the model on
