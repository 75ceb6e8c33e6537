"""Interactions of performance, two features at a time: against permutation importances of one and of both."""

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import (
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LinearRegression, LogisticRegression, PoissonRegressor
from sklearn.metrics import get_scorer
from sklearn.naive_bayes import GaussianNB
from sklearn.svm import SVR, LinearSVC

import brute
import losslens as ll
from losslens.engines.trees import engine, pair_table

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
        ({"budget": 1000}, "leave out budget= and precision="),
        ({"precision": 0.1}, "leave out budget= and precision="),
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
    assert found.units == pytest.approx(N)


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
        low, high = ask(X=Z, y=t, donors=donors, random_state=seed).interval()
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


def test_draws_apart_add_their_noise():
    """Where each importance has donors of its own, the variance is that of the rows and the noise of all three.

    There are no parts then: these need changes of a prediction by the same donor.
    """
    sampler = ll.Within(m=5)
    found = ask(donors=sampler, random_state=0, features=["x0", "x2"])
    imp = ll.feature_importance(
        simulation, X, Y, loss="squared_error", donors=sampler, random_state=0,
        features={"x0": ["x0"], "x2": ["x2"], "both": ["x0", "x2"]},
    )  # fmt: skip
    assert found["x0", "x2"] == pytest.approx(imp["x0"].pfi + imp["x2"].pfi - imp["both"].pfi)
    parts = [imp[name].influence for name in ("x0", "x2", "both")]
    moved = parts[0].moved + parts[1].moved - parts[2].moved
    variance = max(moved @ moved - sum(one.excess for one in parts), sum(one.noise for one in parts))
    assert found.std_error[0, 1] == pytest.approx(np.sqrt(variance))
    assert np.isnan(found.interaction["x0", "x2"])
    why = "the features must have the same donors, but Within("
    assert f"whether the model combines features is unknown: {why}" in repr(found)


@pytest.mark.parametrize("donors", ["all", ll.Latin(60), ll.Derangements()], ids=str)
def test_streamed_sums_are_those_of_all_cells(donors):
    """With little memory pairs take turns, some rows at a time; numbers and errors are the same."""
    Z = np.random.default_rng(6).normal(size=(200, 4)).round(1)
    whole, few = (ask(X=Z, y=simulation(Z), donors=donors, random_state=0, memory=m) for m in ("1 GiB", "200 KiB"))
    assert few.n_predictions > whole.n_predictions  # in turns
    for one, other in [(few, whole), *((few.parts[name], whole.parts[name]) for name in whole.parts)]:
        np.testing.assert_allclose(one.index, other.index, atol=1e-12)
        np.testing.assert_allclose(one.std_error, other.std_error, atol=1e-12)


# -- the two parts ----------------------------------------------------------------------------------------------------


def logit(p):
    return np.log(p[..., 1]) - np.log(p[..., 0])


def from_logit(s):
    return np.stack([1 / (1 + np.exp(s)), 1 / (1 + np.exp(-s))], axis=-1)


def same(f):
    return f


def centred_log(p):
    return np.log(p) - np.log(p).mean(axis=-1, keepdims=True)


def softmax(s):
    return np.exp(s) / np.exp(s).sum(axis=-1, keepdims=True)


def parts(predict, y, j, k, loss, to=same, back=same, Z=X):
    """All pairs of rows by the model's own predict: cells of the interaction, of m squared, and of the whole."""
    f, first, second, both = (to(brute.predictions(predict, Z, columns)) for columns in ([], [j], [k], [j, k]))
    m = both - first - second + f
    e = (first + m / 2, second + m / 2)

    def judged(s):
        return np.stack([loss(y, back(s)[:, k]) for k in range(len(Z))], axis=1)

    whole = judged(first) + judged(second) - judged(both) - judged(f)
    interaction = judged(first) + judged(second) - judged(e[0]) - judged(e[1])
    return interaction, (m**2).reshape(len(Z), len(Z), -1).sum(axis=-1), whole


THREE = np.digitize(Y, [-0.5, 0.8])
POSITIVE_Y = np.exp(Y / 3)
SPLITS = {
    "function": (simulation, Y, "squared_error", "predict", same, same),
    "forest": (FOREST, Y, "squared_error", "predict", same, same),
    "absolute": (FOREST, Y, "absolute_error", "predict", same, same),
    "kernel": (SVR().fit(X, Y), Y, "huber", "predict", same, same),
    "logistic": (LogisticRegression().fit(X, Y > 0), Y > 0, "log_loss", "predict_proba", logit, from_logit),
    "boosting": (
        HistGradientBoostingClassifier(max_iter=5, min_samples_leaf=5).fit(X, Y > 0),
        Y > 0, "log_loss", "predict_proba", logit, from_logit,
    ),
    "boosting, Brier": (
        HistGradientBoostingClassifier(max_iter=5, min_samples_leaf=5).fit(X, Y > 0),
        Y > 0, "brier", "predict_proba", logit, from_logit,
    ),
    "forest, Brier": (
        RandomForestClassifier(5, max_depth=3, random_state=0).fit(X, Y > 0),
        Y > 0, "brier", "predict_proba", lambda p: p[..., 1], lambda s: np.stack([1 - s, s], axis=-1),
    ),
    "three classes": (
        GradientBoostingClassifier(n_estimators=4, random_state=0).fit(X, THREE), THREE, "log_loss", "predict_proba",
        centred_log, softmax,
    ),
    "three classes, forest": (
        RandomForestClassifier(5, max_depth=3, random_state=0).fit(X, THREE), THREE, "brier", "predict_proba",
        same, same,
    ),
    "Poisson": (
        HistGradientBoostingRegressor(loss="poisson", max_iter=5, min_samples_leaf=5).fit(X, POSITIVE_Y), POSITIVE_Y,
        "poisson_deviance", "predict", np.log, np.exp,
    ),
    "scores": (LinearSVC().fit(X, Y > 0), Y > 0, "hinge", "decision_function", same, same),
    "scores of three classes": (LinearSVC().fit(X, THREE), THREE, "hinge", "decision_function", same, same),
}  # fmt: skip


@pytest.mark.parametrize("donors", ["all", ll.Derangements()], ids=str)
@pytest.mark.parametrize("case", SPLITS)
def test_parts_are_those_of_every_pair_of_rows(case, donors):
    """Against the definitions, with the model's own predict for every pair; whole = shared + interaction."""
    fitted, y, loss, method, to, back = SPLITS[case]
    predict = fitted if fitted is simulation else getattr(fitted, method)
    found = ask(fitted, y=y, loss=loss, donors=donors)
    up = 1 if donors == "all" else N / (N - 1)
    for j, k in ((0, 1), (0, 2), (1, 3)):
        interaction, square, whole = parts(predict, np.asarray(y, int) if method != "predict" else y, j, k,
                                           brute.LOSSES[loss], to, back)  # fmt: skip
        assert found.index[j, k] == pytest.approx(up * whole.mean(), abs=1e-12)
        assert found.interaction.index[j, k] == pytest.approx(up * interaction.mean(), abs=1e-12)
        assert found.strength.index[j, k] == pytest.approx(up * square.mean(), rel=1e-10, abs=1e-12)
        assert found.shared.index[j, k] == pytest.approx(found.index[j, k] - found.interaction.index[j, k], abs=1e-12)
    assert found.interaction.title == found.title
    assert found.shared.kind == ("shared information" if loss == "squared_error" else "overlap")


def test_shared_information_is_minus_twice_the_product():
    """Squared error: with e_j + e_l = d_jl the two squares of a sum leave -2 e_j e_l, whatever the residuals."""
    f, first, second, both = (brute.predictions(simulation, X, columns) for columns in ([], [0], [1], [0, 1]))
    m = both - first - second + f
    expected = -2 * np.mean((first - f + m / 2) * (second - f + m / 2))
    assert ask(donors="all").shared["x0", "x1"] == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("r", "product", "shared", "interaction"), [(0, 1, 0, 2), (0.9, 0, -3.6, 0), (0.9, 1, -1.62, 5.24)]
)
def test_known_parts(r, product, shared, interaction):
    """Normal features of correlation r, and a model without error.

    x1 + x2: m = 0, and -2 E d_1 d_2 = -4 r. x1 x2: with D = x - x' and S = x + x', which are independent of each other
    and have covariance 2 r in both cases, m = D1 D2 and e_1 = -D1 S2 / 2, so that the shared part is
    -E(D1 D2) E(S1 S2) / 2 = -2 r^2. E m^2 = E D1^2 D2^2 = 4 + 8 r^2, and E (d_1 + d_2) m = -E m^2: the interaction is
    half of that, 2 + 4 r^2.
    """
    rng = np.random.default_rng(3)
    Z = rng.normal(size=(700, 2))
    Z[:, 1] = r * Z[:, 0] + np.sqrt(1 - r**2) * Z[:, 1]
    model = (lambda Z: Z[:, 0] * Z[:, 1]) if product else (lambda Z: Z[:, 0] + Z[:, 1])
    found = ask(model, Z, model(Z), donors=ll.Latin(100), random_state=0)
    for part, truth in ((found.shared, shared), (found.interaction, interaction)):
        error = part.std_error[0, 1]
        assert abs(part["x0", "x1"] - truth) <= 4 * error
    strength = (4 + 8 * r**2) * product
    assert abs(found.strength["x0", "x1"] - strength) <= 4 * found.strength.std_error[0, 1]
    assert (found.interaction.p[0, 1] < 1e-6) == bool(product)
    assert (found.shared.p[0, 1] < 1e-6) == (r > 0)


ADDING = {
    "linear": (LinearRegression().fit(X, Y), Y, None),
    "far from 0": (lambda Z: 1e6 + Z @ [1.0, 2.0, -3.0, 0.5], Y + 1e6, "squared_error"),
    "pinball": (lambda Z: Z @ [1.0, 2.0, -3.0, 0.5], Y, "pinball"),
    "single precision": (lambda Z: (Z @ [1.0, 2.0, -3.0, 0.5]).astype(np.float32), Y, "squared_error"),
    "stumps": (GradientBoostingRegressor(max_depth=1, n_estimators=30).fit(X, Y), Y, None),
    "logistic": (LogisticRegression(C=1e4).fit(X, Y > 0), Y > 0, "log_loss"),
    "logistic, Brier": (LogisticRegression().fit(X, Y > 0), Y > 0, "brier"),
    "naive Bayes": (GaussianNB().fit(X, THREE), THREE, "log_loss"),
    "boosted stumps": (
        HistGradientBoostingClassifier(max_depth=1, max_iter=20, min_samples_leaf=3).fit(X, Y > 0), Y > 0, "log_loss",
    ),
    "Poisson": (PoissonRegressor().fit(X, POSITIVE_Y), POSITIVE_Y, "poisson_deviance"),
    "forest of stumps": (RandomForestClassifier(9, max_depth=1, random_state=0).fit(X, Y > 0), Y > 0, "log_loss"),
}  # fmt: skip


@pytest.mark.parametrize("donors", ["all", ll.Latin(5)], ids=str)
@pytest.mark.parametrize("case", ADDING)
def test_a_model_that_only_adds_has_no_interaction_to_the_last_digit(case, donors):
    """However correlated its features: m = 0 on its scale, and what is left of it is rounding, never a finding."""
    fitted, y, loss = ADDING[case]
    Z = X.copy()
    Z[:, 1] += 2 * Z[:, 0]
    found = ask(fitted, Z, y, loss=loss, donors=donors, random_state=0)
    upper = np.triu_indices(4, 1)
    for part in (found.interaction, found.strength):
        for matrix in (part.index, part.std_error, part.low, part.high):
            np.testing.assert_array_equal(matrix[upper], 0.0)
        np.testing.assert_array_equal(part.p[upper], 1.0)
    if found.shared.title == found.title:
        np.testing.assert_allclose(found.shared.index, found.index, rtol=1e-12)
        np.testing.assert_allclose(found.shared.std_error, found.std_error, rtol=1e-12)
    assert np.abs(found.index[upper]).max() > 0


@pytest.mark.parametrize("offset", [0, 100])
def test_a_small_interaction_in_single_precision_is_not_rounding(offset):
    """A product of a thousandth of the spread, and none: float32 resolves 1e-7 of a prediction.

    What both importances count is 40, so that a cut-off of its rounding would take the interaction of 1e-3 for one.
    """

    def single(Z, size):
        return (Z[:, 0] + 2 * Z[:, 1] + offset + size * Z[:, 0] * Z[:, 1]).astype(np.float32)

    Z = np.random.default_rng(4).normal(size=(160, 2))
    y = Z[:, 0] + 2 * Z[:, 1] + offset
    found, double, none = (
        ask(f, Z, y, loss="squared_error", donors="all")
        for f in (
            lambda Z: single(Z, 2e-3),
            lambda Z: Z[:, 0] + 2 * Z[:, 1] + offset + 2e-3 * Z[:, 0] * Z[:, 1],
            lambda Z: single(Z, 0),
        )
    )
    assert found.strength.p[0, 1] < 1e-4
    assert found.strength["x0", "x1"] == pytest.approx(double.strength["x0", "x1"], rel=0.05)
    error = double.interaction.std_error[0, 1]
    assert found.interaction["x0", "x1"] == pytest.approx(double.interaction["x0", "x1"], abs=0.2 * error)
    assert found.interaction.std_error[0, 1] == pytest.approx(error, rel=0.1)
    assert none.strength["x0", "x1"] == none.interaction["x0", "x1"] == 0
    assert none.interaction.p[0, 1] == 1


def test_a_small_interaction_far_from_0_is_not_rounding():
    """m is a hundred-thousandth of the predictions' spread, and these are far from 0."""
    found = ask(lambda Z: 1e3 + Z @ [1.0, 2.0, -3.0, 0.5] + 1e-5 * Z[:, 0] * Z[:, 1], donors="all")
    d = X[:, 0] - X[:, None, 0], X[:, 1] - X[:, None, 1]
    assert found.strength["x0", "x1"] == pytest.approx(np.mean((1e-5 * d[0] * d[1]) ** 2), rel=1e-6)
    assert (found.strength["x0", "x2"], found.strength["x2", "x3"]) == (0, 0)


def test_errors_of_parts_are_the_jackknifes():
    """As of the whole: leave out each row in both roles, by hand."""
    found = ask(donors="all")
    cells = dict(
        zip(("interaction", "strength"), parts(simulation, Y, 0, 1, brute.LOSSES["squared_error"]), strict=False)
    )
    for name, table in cells.items():
        total, part = table.sum(), found.parts[name]
        left = (total - table.sum(axis=0) - table.sum(axis=1)) / (N - 1) / (N - 2)
        expected = np.sqrt((N - 1) / N * np.sum((left - left.mean()) ** 2))
        assert part.std_error[0, 1] == pytest.approx(expected, rel=1e-9)
        assert part.unbiased[0, 1] == pytest.approx(total / N / (N - 1), rel=1e-9)


def test_weights_and_groups_of_parts():
    """Weights of rows and donors; with groups only donors of other groups count."""
    weight, block = RNG.uniform(0.5, 2, N), np.arange(N) // 2
    interaction, square, _ = parts(simulation, Y, 0, 1, brute.LOSSES["squared_error"])
    mass = np.outer(weight, weight)
    found = ask(donors="all", sample_weight=weight)
    assert found.interaction["x0", "x1"] == pytest.approx(np.average(interaction, weights=mass), abs=1e-12)
    mass = mass * (block[:, None] != block)
    found = ask(donors="all", sample_weight=weight, groups=block)
    assert found.interaction["x0", "x1"] == pytest.approx(np.average(interaction, weights=mass), abs=1e-12)
    assert found.strength["x0", "x1"] == pytest.approx(np.average(square, weights=mass), abs=1e-12)
    sampled = ask(donors=ll.Latin(N), sample_weight=weight, groups=block, random_state=0)  # all shifts: all pairs
    assert sampled.interaction["x0", "x1"] == pytest.approx(np.average(interaction, weights=mass), abs=1e-12)


def test_clipped_probabilities_have_the_parts_of_the_brier_score():
    """A forest's probabilities of 0 have a log loss that no change can add to; the page and the text say so."""
    label = (Y > 0).astype(int)
    forest = RandomForestClassifier(5, random_state=0).fit(X, label)
    found, brier = (ask(forest, y=label, loss=loss, donors="all") for loss in ("log_loss", "brier"))
    for name, part in found.parts.items():
        np.testing.assert_allclose(part.index, brier.parts[name].index, atol=1e-12)
    assert (found.title, found.interaction.title, found.shared.kind) == (
        "log loss",
        "Brier score",
        "shared information",
    )
    why = "too many probabilities are at the clipping bound"
    assert f"the interaction is computed for the Brier score, not for the log loss: {why}" in repr(found)
    assert repr(found).startswith("Interactions: the model's interaction, Brier score")


@pytest.mark.parametrize(
    ("model", "y", "options", "why"),
    [
        (simulation, Y, {"loss": lambda y, f: np.abs(y - f)}, "your own loss function"),
        (FOREST, Y, {"loss": get_scorer("r2")}, "a scorer has no loss of single rows"),
        (LogisticRegression().fit(X, Y > 0), Y > 0, {"loss": "zero_one"}, "labels can't be added"),
        (simulation, Y, {"donors": ll.Grid(9)}, "the features must have the same donors, but Grid"),
        (
            RandomForestRegressor(3, max_depth=2, random_state=0).fit(X, POSITIVE_Y), POSITIVE_Y,
            {"loss": "poisson_deviance"}, "a RandomForestRegressor adds predictions",
        ),
    ],
    ids=["custom", "scorer", "labels", "grid", "deviance of means"],
)  # fmt: skip
def test_where_there_are_no_parts_the_reason_is_told(model, y, options, why):
    found = ask(model, y=y, random_state=0, **options)
    assert np.isfinite(found.index).all()
    assert why in found.interaction.absent
    assert f"whether the model combines features is unknown: {found.interaction.absent}" in repr(found)
    for part in found.parts.values():
        assert np.isnan(part.index[np.triu_indices(4, 1)]).all()
        assert part.to_frame().shape[0] == 0
    with pytest.raises(ValueError, match="nothing to draw"):
        found.plot(part="interaction")


def test_auto_samples_the_same_donors_where_all_would_be_too_many(monkeypatch):
    monkeypatch.setattr("losslens.passes.in_common.EXACT_PREDICTIONS", 0)
    Z = np.random.default_rng(2).normal(size=(100, 3))
    found = ask(X=Z, y=simulation(Z), random_state=0)
    again = ask(X=Z, y=simulation(Z), donors=ll.Latin(32), random_state=0)
    np.testing.assert_array_equal(found.index, again.index)
    np.testing.assert_array_equal(found.interaction.std_error, again.interaction.std_error)


def test_unknown_options_are_refused():
    with pytest.raises(TypeError, match="donor"):
        ask(donor="all")


def test_the_error_of_a_scorers_pair_is_that_of_the_sum_of_three_importances():
    scorer, several = "neg_median_absolute_error", ["x0", "x1", {"both": ["x0", "x1"]}]
    found = ask(FOREST, loss=get_scorer(scorer), features=["x0", "x1"], donors="all")
    of = ll.feature_importance(FOREST, X, Y, loss=scorer, donors="all", features=several)
    without = of["x0"].scored.without + of["x1"].scored.without - of["both"].scored.without
    error = np.sqrt((len(without) - 1) / len(without) * np.sum((without - without.mean()) ** 2))
    assert found.std_error[0, 1] == pytest.approx(error)


def test_too_many_pairs_of_rows_are_sampled(monkeypatch):
    for module, name in ((engine, "MAX_SMALL_TREES"), (engine, "MAX_LARGE_TREES"), (pair_table, "MAX_PAIRS")):
        monkeypatch.setattr(module, name, 0)
    found, drawn = ask(FOREST, random_state=0), ask(FOREST, donors=ll.Latin(32), random_state=0)
    np.testing.assert_array_equal(found.index, drawn.index)
    np.testing.assert_array_equal(found.std_error, drawn.std_error)
    np.testing.assert_array_equal(found.interaction.index, drawn.interaction.index)
    assert np.isfinite(found.std_error[0, 1])


def test_pairs_of_three_columns_have_the_same_donors(monkeypatch):
    monkeypatch.setattr(engine, "MANY_COLUMNS", 0)
    features = {"a": ["x0", "x1"], "b": ["x2"]}
    found, drawn = (ask(FOREST, features=features, random_state=0, donors=of) for of in ("auto", ll.Latin(32)))
    np.testing.assert_array_equal(found.index, drawn.index)
    np.testing.assert_array_equal(found.interaction.std_error, drawn.interaction.std_error)


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


@pytest.mark.parametrize("loss", ["log_loss", "brier"])
def test_logits_at_the_clipping_bound_are_not_split(loss):
    """Logits cut at the bound no longer add up: an additive model would be said to interact."""
    rng = np.random.default_rng(3)
    Z = rng.normal(size=(60, 3))
    Z[:, 1] = 0.9 * Z[:, 0] + 0.3 * Z[:, 1]
    label = (Z.sum(axis=1) > 0).astype(int)
    steep = LogisticRegression(C=1e8, max_iter=5000).fit(Z, label)
    found = ll.pair_interactions(steep, Z, label, loss=loss)
    assert np.isnan(found.interaction["x0", "x1"])
    assert "at the clipping bound, where logits no longer add up" in repr(found)


def test_a_model_without_a_log_link_is_not_split_on_logarithms():
    rng = np.random.default_rng(0)
    Z = rng.uniform(1, 2, size=(60, 3))
    target = Z @ [1, 2, 3.0] + rng.gamma(1, 1, 60)
    found = ll.pair_interactions(LinearRegression().fit(Z, target), Z, target, loss="poisson_deviance")
    assert np.isnan(found.strength["x1", "x2"])
    assert "not known to add logarithms" in repr(found)


@pytest.mark.parametrize("far", [1e10, 1e11])
def test_a_row_without_weight_does_not_hide_an_interaction(far):
    rng = np.random.default_rng(0)
    Z, weight = rng.normal(size=(60, 3)), np.ones(60)
    weight[0] = 0

    def product(Z):
        return Z[:, 0] * Z[:, 1] + Z[:, 2]

    target, moved = product(Z), Z.copy()
    moved[0, 2] = far
    here, there = (
        ll.pair_interactions(product, table, target, loss="squared_error", pairs=[("x0", "x1")], sample_weight=weight)
        for table in (Z, moved)
    )
    assert there.strength["x0", "x1"] == pytest.approx(here.strength["x0", "x1"], rel=1e-4)


def test_an_error_that_is_not_known_is_not_0():
    rng = np.random.default_rng(0)
    Z, weight = rng.normal(size=(8, 2)), np.ones(8)
    weight[0] = 1e13
    found = ll.pair_interactions(lambda Z: Z[:, 0] * Z[:, 1], Z, Z[:, 0], loss="squared_error", sample_weight=weight)
    assert np.isnan(found.std_error[0, 1]) == np.isnan(found.p[0, 1])
    assert not found.p[0, 1] < 1e-6


def test_correlated_features_of_an_additive_model_do_not_head_the_list():
    """Horsepower and weight are correlated, and the model adds them: what both count differs from 0 at p < 1e-9, but
    the model's interaction of them is 0. Of weight and year it is 2 E[(2 w z)^2] > 0: that pair leads."""
    rng = np.random.default_rng(0)
    size, year = rng.normal(size=400), rng.normal(size=400)
    X = pd.DataFrame({"horsepower": size, "weight": size + 0.3 * rng.normal(size=400), "year": year})
    both = [np.sin, lambda weight: -np.exp(0.3 * weight)]

    def added(table):
        return sum(f(table[name].to_numpy()) for f, name in zip(both, X, strict=False)) + table["year"].to_numpy() / 3

    def combined(table):
        return added(table) + 0.2 * table["weight"].to_numpy() * table["year"].to_numpy()

    y = combined(X) + 0.1 * rng.normal(size=400)
    found = ll.pair_interactions(added, X, y, loss="squared_error", progress=False)
    at = found._at(("horsepower", "weight"))
    assert found.p_adjusted[at] < 1e-9
    assert (found.interaction["horsepower", "weight"], found.interaction.p[at]) == (0, 1)
    for line in repr(found).splitlines()[1:4]:
        assert " 0 ± 0 (0 to 0), p = 1; counted by both: " in line
    assert "1e-" not in repr(found)
    found = ll.pair_interactions(combined, X, y, loss="squared_error", progress=False)
    first = found.to_frame().iloc[0]
    assert (first["first"], first["second"]) == ("weight", "year")
    assert first["interaction"] == found.interaction["weight", "year"] > 0
    assert first["p"] < 1e-9
    assert found.plot_ranking().get_yticklabels()[0].get_text() == "weight × year"
    assert '<td style="text-align: left">weight, year</td>' in found._repr_html_().partition("horsepower")[0]
