"""Tests of nested fits: the losses on their convex scales, the correction by hand, levels and power."""

import numpy as np
import pytest
from scipy.stats import t as student
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import KFold

import losslens as ll
from losslens.losses import resolve
from losslens.refits.added_information import convex_form
from losslens.results.row_changes import NOISY_TEST

RNG = np.random.default_rng(0)
N, K = 50, 4
NUMBERS = ("squared_error", "absolute_error", ll.losses.pinball(0.8), ll.losses.huber(0.7))
POSITIVE = ("poisson_deviance", "gamma_deviance", ll.losses.tweedie_deviance(1.4), ll.losses.tweedie_deviance(0))


def named(loss):
    return resolve(loss, None) if isinstance(loss, str) else loss


def drawn(loss):
    """y and predictions of K fits."""
    if loss.reads == "probabilities":
        raw = RNG.exponential(size=(K, N, 3 if loss.name == "brier" else 2))
        return RNG.integers(0, raw.shape[2], N), raw / raw.sum(axis=2, keepdims=True)
    return RNG.exponential(size=N), RNG.exponential(size=(K, N))


@pytest.mark.parametrize("loss", [*map(named, (*NUMBERS, *POSITIVE, "log_loss", "brier"))], ids=lambda loss: loss.title)
def test_a_loss_is_the_same_on_its_scale_and_its_slope_is_the_derivative(loss):
    y, predictions = drawn(loss)
    form = convex_form(loss)
    T = form.scale(predictions)
    np.testing.assert_allclose(form.value(y, T), [loss(y, one) for one in predictions], rtol=1e-9, atol=1e-12)
    for k in range(T.shape[-1]):
        step = 1e-6 * (np.arange(T.shape[-1]) == k)
        slope = (form.value(y, T + step) - form.value(y, T - step)) / 2e-6
        np.testing.assert_allclose(form.slope(y, T)[..., k], slope, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("loss", [*map(named, (*NUMBERS, *POSITIVE, "log_loss", "brier"))], ids=lambda loss: loss.title)
def test_noise_and_divergence_are_not_negative(loss):
    """Jensen: the mean of a convex function is at least the function of the mean; it is above its tangents."""
    y, predictions = drawn(loss)
    form = convex_form(loss)
    T = form.scale(predictions)
    assert np.all(form.noise(y, T, np.full((K, N), 1 / K)) >= -1e-12)
    assert np.all(form.divergence(y, T[0], T[1]) >= -1e-12)


def test_losses_without_such_a_scale_have_none():
    for loss in ("zero_one", "hinge", ll.losses.tweedie_deviance(3), ll.losses.tweedie_deviance(-1)):
        assert convex_form(named(loss)) is None


def test_squared_errors_are_clark_and_wests():
    """c = d + share (f1 - f0)^2, share = mean(var f1 - var f0) / mean var(f1 - f0), between 0 and 1.

    Variances are those of the fits that have seen a row. The variance of c is that over rows and (1 - share)^2 times
    what training adds to that of d: for K folds K - 1 times the variance between fits that have seen the row.
    """
    X, noise = RNG.normal(size=(N, 3)), RNG.normal(size=N)
    y = X[:, 0] + noise
    splits = list(KFold(K).split(X))
    full = np.stack([LinearRegression().fit(X[a], y[a]).predict(X) for a, _ in splits])
    found = ll.leave_one_covariate_out(LinearRegression(), X, y, cv=splits)
    for j in range(3):
        rest = np.delete(X, j, axis=1)
        less = np.stack([LinearRegression().fit(rest[a], y[a]).predict(rest) for a, _ in splits])
        own = np.arange(N) * 0
        for k, (_, test) in enumerate(splits):
            own[test] = k
        seen = [np.arange(K) != own[i] for i in range(N)]

        def spread(fits, seen=seen):
            return np.array([np.var(fits[seen[i], i]) for i in range(N)])

        share = (spread(full) - spread(less)).mean() / spread(full - less).mean()
        f1, f0 = full[own, np.arange(N)], less[own, np.arange(N)]
        c = (y - f0) ** 2 - (y - f1) ** 2 + np.clip(share, 0, 1) * (f1 - f0) ** 2
        np.testing.assert_allclose(found.local[:, j] + found.fitting_noise[:, j], c, atol=1e-12)
        trained = spread((y - less) ** 2 - (y - full) ** 2) * (K - 1) / (K - 2) * (K - 1)
        trained = (1 - np.clip(share, 0, 1)) ** 2 * trained.mean() / N
        t = c.mean() / np.sqrt(c.var(ddof=1) / N + trained)
        tested = found.estimates().tested
        assert tested.value[j] / tested.std_error[j] == pytest.approx(t)
        assert found.estimates().p_values()[j] == pytest.approx(student.sf(t, N - 1))


@pytest.mark.parametrize("chances", [False, True])
def test_noise_is_flagged_as_often_as_the_level_says_and_weak_features_more_often(chances):
    """At 5% with 100 runs: at most 11 of noise; the test of the change itself finds a third as many weak features."""
    noise, weak, before = [], [], []
    for seed in range(100):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(100, 3))
        y = X[:, 0] + 0.3 * X[:, 1] + rng.normal(size=100)
        y, learner = (y > 0, LogisticRegression()) if chances else (y, LinearRegression())
        found = ll.leave_one_covariate_out(learner, X, y, features=["x1", "x2"], random_state=seed)
        estimates = found.estimates()
        p = estimates.p_values()
        weak.append(p[0] < 0.05)
        noise.append(p[1] < 0.05)
        before.append(estimates.value[0] > student.ppf(0.95, 99) * estimates.std_error[0])
    assert sum(noise) <= 11
    assert sum(weak) >= 1.5 * sum(before) > 0


def test_weights_groups_and_rows_are_those_of_the_importance():
    X, weight, groups = RNG.normal(size=(N, 2)), RNG.integers(0, 3, N), np.arange(N) // 5
    y = X[:, 0] + RNG.normal(size=N)
    found = ll.leave_one_covariate_out(LinearRegression(), X, y, sample_weight=weight, groups=groups, cv=5)
    c = found.local + found.fitting_noise
    tested = found.estimates().tested
    np.testing.assert_allclose(tested.value, weight @ c / weight.sum())
    assert tested.freedom == found.estimates().freedom
    some = found.given(X[:, 0] > 0)
    np.testing.assert_array_equal(some.fitting_noise, found.fitting_noise[X[:, 0] > 0])
    assert found.estimates()["x0"].p_value == found.estimates().p_values()[0]
    assert found.test(adjust=None)["p"].tolist() == sorted(found.estimates().p_values().tolist())


def test_what_a_small_p_says_depends_on_the_test():
    X = RNG.normal(size=(N, 2))
    y = X[:, 0] > 0
    assert "adds information" in repr(ll.leave_one_covariate_out(LogisticRegression(), X, y))
    plain = ll.leave_one_covariate_out(LogisticRegression(), X, y, loss="zero_one")
    assert plain.fitting_noise is None
    assert plain.estimates().tested is None
    assert NOISY_TEST in repr(plain)
    assert "adds information" not in repr(plain)
