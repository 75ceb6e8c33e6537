"""Numbers that are known without a computer: the derivation is in the docstring, the tolerance a standard error."""

import numpy as np
import pytest

import losslens as ll

N = 600


def simulation_1(n, rng):
    """Y = X1 + X2 + 10 X1 [X3 = 0] + 10 X2 [X3 = 1] + e, with X1, X2 ~ N(0, 1), X3 ~ Bernoulli(1/2), e ~ N(0, 0.5²)."""
    X = np.column_stack([rng.normal(size=(n, 2)), rng.integers(0, 2, size=n)])
    return X, truth_1(X) + rng.normal(scale=0.5, size=n)


def truth_1(X):
    return X[:, 0] + X[:, 1] + 10 * np.where(X[:, 2] == 0, X[:, 0], X[:, 1])


def simulation_2(n, rng):
    """Y = X1 + X2 + X3 + X1 X2 + e, all of them N(0, 1) but e ~ N(0, 0.5²)."""
    X = rng.normal(size=(n, 3))
    return X, truth_2(X) + rng.normal(scale=0.5, size=n)


def truth_2(X):
    return X.sum(axis=1) + X[:, 0] * X[:, 1]


@pytest.fixture(scope="module")
def first():
    X, y = simulation_1(N, np.random.default_rng(1))
    return X, ll.feature_importance(truth_1, X, y, loss="squared_error")


@pytest.fixture(scope="module")
def second():
    X, y = simulation_2(N, np.random.default_rng(2))
    return X, ll.feature_importance(truth_2, X, y, loss="squared_error")


def within(feature, value, errors=3.5):
    """`errors` standard errors of `feature` around the value; and these are small enough to tell it from zero."""
    assert feature.std_error < value / 3
    return abs(feature.pfi - value) < errors * feature.std_error


def test_simulation_1_has_importances_122_122_and_100(first):
    """With the true f, y - f = e, so D = (f(x_i) - f(x_i with k's value) + e_i)² - e_i², whose mean is E(difference²).

    X1: the difference is b (X1_i - X1_k) with b = 11 where X3 = 0 and 1 where X3 = 1: E b² · 2 = (121 + 1)/2 · 2 = 122.
    X2: the same. X3 changes with probability 1/2, and then the difference is 10 (X1 - X2): 1/2 · 100 · 2 = 100.
    """
    _, found = first
    assert within(found["x0"], 122)
    assert within(found["x1"], 122)
    assert within(found["x2"], 100)
    assert found.error == pytest.approx(0.25, abs=3.5 * 0.25 * np.sqrt(2 / N))  # var of e² is 2 · 0.5⁴


def test_simulation_1_tells_for_whom_the_first_feature_matters(first):
    """Given X3 = 0 the slope is 11: 2 · 121 = 242. Given X3 = 1 it is 1: 2. Half and half they average to 122."""
    X, found = first
    parts = found["x0"].by(X[:, 2].astype(int))
    assert within(parts[0], 242)
    assert within(parts[1], 2)
    share = np.mean(X[:, 2])
    assert (1 - share) * parts[0].pfi + share * parts[1].pfi == pytest.approx(found["x0"].pfi)


def test_simulation_1_has_the_parabola_61_times_one_plus_the_square_as_its_curve(first):
    """PI_1(x) = E b² E(X1 - x)² = 61 (1 + x²).

    At a fixed x the rows are independent, so the mean over rows has standard error sd(ici[:, x])/sqrt(n). The
    deviations are one random quadratic in x, three numbers, so the largest of them all, in standard errors, stays
    under the root of a chi-squared with three degrees of freedom: 4.03 at 99.9%.
    """
    _, found = first
    feature = found["x0"]
    error = feature.ici.std(axis=0, ddof=1) / np.sqrt(N)
    assert np.all(np.abs(feature.pi - 61 * (1 + feature.grid**2)) < 4 * error)
    assert np.median(error / feature.pi) < 0.1


def test_simulation_2_has_importances_4_4_and_2(second):
    """X1: the difference is (1 + X2)(X1_i - X1_k): E(1 + X2)² · 2 = 2 · 2 = 4, and X2 alike. X3: 1 · 2 = 2."""
    _, found = second
    for name, value in {"x0": 4, "x1": 4, "x2": 2}.items():
        assert within(found[name], value)


def test_simulation_2_has_ratios_17_17_and_9(second):
    """GE_P = 0.25, so 1 + 4/0.25 = 17 and 1 + 2/0.25 = 9.

    The ratio A/B of two means has influences [(row_i + column_i - 2A) - (A/B)(l_i - B)]/B, of pair losses.
    """
    X, found = second
    loss, B = found["x0"].sample.loss, found.error
    for name, value in {"x0": 17, "x1": 17, "x2": 9}.items():
        feature = found[name]
        A, column = feature.pfi + B, feature.pi[np.searchsorted(feature.grid, X[:, int(name[1])])] + B
        influence = ((feature.local + loss + column - 2 * A) - A / B * (loss - B)) / B
        assert abs(feature.ratio - value) < 3.5 * influence.std() / np.sqrt(N)
        assert influence.std() / np.sqrt(N) < value / 5


def test_simulation_2_has_a_loss_interaction_of_two(second):
    """X1 with X2: E(g_i - g_k)² with g = X1 + X2 + X1 X2 is 2 var g = 6, so 4 + 4 - 6 = 2.

    X1 with X3: E((1 + X2) dX1 + dX3)² = 4 + 2 = 6, so 4 + 2 - 6 = 0.
    """
    X, _ = second
    y = truth_2(X) + np.random.default_rng(3).normal(scale=0.5, size=N)
    pairs = ll.feature_importance(
        truth_2, X, y, loss="squared_error", features={"12": ["x0", "x1"], "13": ["x0", "x2"]}
    )
    assert within(pairs["12"], 6)
    assert within(pairs["13"], 6)


def test_the_toy_figure():
    """Cells (0, .65, .7), (.6, 0, .5), (.3, .25, 0): PI .3 .3 .4, local .45 .3667 .1833, V 1/3, U 1/2.

    A model that looks its answer up: row i at value k gets the number 3 i + k, and a loss that looks up the cell.
    """
    cells = np.array([[0, 0.65, 0.7], [0.6, 0, 0.5], [0.3, 0.25, 0]])
    X, y = np.column_stack([np.arange(3.0), np.arange(3.0)]), np.arange(3.0)

    def look_up(y, place):
        return 1 + cells.ravel()[place.astype(int)]

    found = ll.feature_importance(lambda X: 3 * X[:, 1] + X[:, 0], X, y, loss=look_up, features="x0")["x0"]
    np.testing.assert_allclose(found.ici, cells, atol=1e-15)
    np.testing.assert_allclose(found.pi, [0.3, 0.3, 0.4])
    np.testing.assert_allclose(found.local, [0.45, 1.1 / 3, 0.55 / 3])
    assert found.pfi == pytest.approx(1 / 3)
    assert found.ratio == pytest.approx(4 / 3)
    u = ll.feature_importance(
        lambda X: 3 * X[:, 1] + X[:, 0], X, y, loss=look_up, features="x0", donors=ll.Derangements()
    )["x0"]
    assert u.pfi == pytest.approx(1 / 2)
    np.testing.assert_allclose(u.pi, [0.45, 0.45, 0.6])  # the row that holds the value is left out
    np.testing.assert_allclose(u.local, [0.675, 0.55, 0.275])


@pytest.mark.parametrize("columns", [["a"], ["b"], ["a", "b"], ["a", "b", "c"]])
def test_an_additive_model_has_a_closed_form(columns):
    """f = sum of g_j(x_j): replacing R moves f by g_R(k) - g_R(i), so with r = y - f

    D(i, k) = (r_i + g_R(i) - g_R(k))² - r_i² = (g_R(i) - g_R(k))² + 2 r_i (g_R(i) - g_R(k));
    over all pairs 2 var_n(g_R) + 2 cov_n(r, g_R), whatever the dependence.
    """
    rng = np.random.default_rng(4)
    a = rng.normal(size=40)
    X = np.column_stack([a, a + rng.normal(size=40), rng.integers(0, 3, size=40)])
    parts = np.column_stack([np.sin(X[:, 0]), X[:, 1] ** 2, -2 * (X[:, 2] == 1)])
    y = parts.sum(axis=1) + rng.normal(size=40) + X[:, 0]

    def model(X):
        return np.sin(X[:, 0]) + X[:, 1] ** 2 - 2 * (X[:, 2] == 1)

    j = ["abc".index(name) for name in columns]
    g, r = parts[:, j].sum(axis=1), y - parts.sum(axis=1)
    found = ll.feature_importance(model, X, y, loss="squared_error", features={"R": j})["R"]
    assert found.pfi == pytest.approx(2 * g.var() + 2 * np.cov(r, g, bias=True)[0, 1], rel=1e-12)
    spread = g.var() + g**2 - 2 * g * g.mean() + g.mean() ** 2
    np.testing.assert_allclose(found.local, spread + 2 * r * (g - g.mean()), atol=1e-12)


def test_a_linear_model_on_independent_features_has_twice_the_square_of_its_coefficients():
    """PFI_j = 2 b_j² var(x_j) for the true linear f, from the closed form with cov(r, g) = 0."""
    rng = np.random.default_rng(5)
    b = np.array([1.0, 2.0, 3.0])
    X = rng.normal(size=(N, 3))
    found = ll.feature_importance(lambda X: X @ b, X, X @ b + rng.normal(size=N), loss="squared_error")
    for j in range(3):
        assert within(found[f"x{j}"], 2 * b[j] ** 2)


def test_a_coin_flip_decides_zero_one_loss():
    """f = [x > 0], y = f: a donor of the other sign makes a right answer wrong. With share q of positive rows,

    PFI = 2 q (1 - q), local = 1 - q where x > 0 and q elsewhere, PI = q at values <= 0 and 1 - q above.
    """
    x = np.array([-3.0, -2.0, -1.0, 1.0, 2.0, 3.0, 4.0, 5.0])
    X, y = np.column_stack([x, x]), (x > 0).astype(int)
    found = ll.feature_importance(lambda X: (X[:, 0] > 0).astype(int), X, y, loss="zero_one")["x0"]
    q = 5 / 8
    assert found.pfi == pytest.approx(2 * q * (1 - q))
    np.testing.assert_allclose(found.local, np.where(x > 0, 1 - q, q))
    np.testing.assert_allclose(found.pi, np.where(x > 0, 1 - q, q))
