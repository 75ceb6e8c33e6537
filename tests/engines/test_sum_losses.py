"""Means over all pairs of losses of u_i + v_k, against the table of all pairs; losses by their formulas."""

import numpy as np
import pytest

from losslens import losses
from losslens.engines import sum_losses
from losslens.engines.interpolation import GridAxis, means_of_sums
from losslens.engines.linked_sums import mean_losses, mean_response, respond

N = 41
RNG = np.random.default_rng(5)
WEIGHT = RNG.uniform(size=N)
WEIGHT /= WEIGHT.sum()
U, V = RNG.normal(size=N), RNG.normal(size=N).round(1)  # with ties
V -= WEIGHT @ V
POSITIVE, LABEL = RNG.uniform(0.1, 3, N), RNG.integers(0, 2, N)
CEILING = losses.log_loss.ceiling(float)
NUMBERS = [losses.squared_error, losses.absolute_error, losses.pinball(0.8), losses.huber(0.7)]
DEVIANCES = [losses.poisson_deviance, losses.gamma_deviance, *map(losses.tweedie_deviance, (-1, 1.5, 2.7))]


def all_pairs(link, loss, y, u=U, v=V):
    """L(h(u_i + v_k), y_i), (n, n), by the loss of predictions."""
    sums = (u[:, None] + v).reshape(-1, 1)
    response = {"values": "values", "labels": "labels"}.get(loss.reads, "probabilities")
    return loss(np.repeat(y, len(v)), respond(link, response, sums)).reshape(len(u), len(v))


def agrees(link, loss, y, cells, u=U, v=V, weight=WEIGHT, atol=1e-13):
    """Mean changes of rows and of donors, relative to the mean loss."""
    base, scale = np.diag(cells), weight @ cells @ weight
    ceiling, tolerance = loss.ceiling(np.float64), {"rtol": 1e-12, "atol": atol * scale}
    found = mean_losses(link, loss, y, u, v, base, ceiling)
    own = found.own(v)
    np.testing.assert_allclose(found.over_donors(v, weight) - own, cells @ weight - base, **tolerance)
    np.testing.assert_allclose(found.over_rows(v, weight) - weight @ own, weight @ cells - weight @ base, **tolerance)
    return found


CASES = [
    *(("identity", loss, RNG.normal(size=N)) for loss in NUMBERS),
    ("identity", losses.hinge, LABEL),
    *(("log", loss, POSITIVE) for loss in NUMBERS + DEVIANCES),
    ("log", losses.squared_error, POSITIVE - 1),
    ("log", losses.poisson_deviance, POSITIVE.round()),
    ("logistic", losses.squared_error, RNG.normal(size=N)),
    ("logistic", losses.log_loss, LABEL),
    ("logistic", losses.brier, LABEL),
    ("sign", losses.zero_one, LABEL),
]


@pytest.mark.parametrize(("link", "loss", "y"), CASES, ids=lambda part: getattr(part, "title", ""))
def test_every_loss_is_that_of_all_pairs(link, loss, y):
    agrees(link, loss, y, all_pairs(link, loss, y))


@pytest.mark.parametrize(("link", "loss", "y"), CASES, ids=lambda part: getattr(part, "title", ""))
def test_mean_responses_are_those_of_all_pairs(link, loss, y):
    response = {"values": "values", "labels": "labels", "scores": "values"}.get(loss.reads, "probabilities")
    said = respond(link, response, (U[:, None] + V).reshape(-1, 1)).reshape(N, N, -1)
    said = np.concatenate([said == 0, said == 1], axis=2) if link == "sign" else said
    found = mean_response(link, response, U, V, WEIGHT)
    np.testing.assert_allclose(found.reshape(N, -1), np.tensordot(WEIGHT, said, 1), rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("spread", [(1e-9, 1e-9), (30, 1), (1, 30), (40, 60), (3000, 1), (1, 1e9)], ids=str)
def test_losses_of_two_classes_at_any_distance(spread):
    """softplus and the squared logistic function, without the rounding of 1 - p, and clipped exactly."""
    u, v = spread[0] * U, spread[1] * V
    toward = np.where(LABEL[:, None] == 1, -1, 1) * (u[:, None] + v)
    clipped = np.minimum(np.logaddexp(0, toward), CEILING)
    found = agrees("odds", losses.log_loss, LABEL, clipped, u, v, atol=1e-12)
    assert found.clipped(v, WEIGHT) == pytest.approx(WEIGHT @ (clipped == CEILING) @ WEIGHT, abs=1e-14)
    squares = np.exp(-2 * np.logaddexp(0, -np.maximum(toward, -500)))
    agrees("odds", losses.brier, LABEL, squares, u, v, atol=1e-12)


def test_a_log_link_overflows_nowhere():
    """e^u and e^v are no numbers, e^(u + v) are. Of y = 1 the deviance is 2 (f - 1 - log f)."""
    v, y = np.linspace(-60, 0, N), np.ones(N)
    for shift in (900.0, -900.0):
        z = (U + shift)[:, None] + (v - shift)
        agrees("log", losses.poisson_deviance, y, 2 * (np.exp(z) - 1 - z), U + shift, v - shift)
        agrees("log", losses.squared_error, y, (1 - np.exp(z)) ** 2, U + shift, v - shift)
        agrees("log", losses.gamma_deviance, y, 2 * (np.exp(-z) - 1 + z), U + shift, v - shift)


def test_small_residuals_of_large_predictions_keep_their_digits():
    """Predictions of about 10^5 that differ by 1: squares of them would leave 10^-6 of a residual of 1."""
    u, v = np.full(N, np.log(1e5)), 1e-5 * V
    y, f = 1e5 + RNG.normal(size=N), 1e5 * np.exp(v)
    for loss in NUMBERS:
        cells = np.stack([loss(y, np.full(N, one)) for one in f], axis=1)
        agrees("log", loss, y, cells, u, v, atol=1e-9)


def test_kinks_by_hand():
    """Row 0: max(0, 1 - v) over v = 0, 2: (1 + 0) / 2; row 1: max(0, v - 1): (0 + 1) / 2."""
    lines = sum_losses._lines(np.ones(2), np.array([1.0, 0.0]), np.array([0.0, 1.0]))
    np.testing.assert_allclose(lines.over_donors(np.array([0.0, 2.0]), np.full(2, 0.5)), [0.5, 0.5])
    np.testing.assert_allclose(lines.over_rows(np.array([0.0, 1.0, 2.0]), np.full(2, 0.5)), [0.5, 0.0, 0.5])
    np.testing.assert_allclose(lines.own(np.array([0.0, 2.0])), [1.0, 1.0])


def test_interpolation_is_exact_to_rounding():
    """Eight points reproduce polynomials of degree 7, and exponentials to 2^-50."""
    u, v = GridAxis.of(U), GridAxis.of(V)
    none, grown = np.zeros(N, np.uint8), (U[:, None] + V)
    for phi in (lambda z: z**7 - z, lambda z: np.exp(-z)):
        values = means_of_sums(phi, u, v, v.masses(none, WEIGHT, 1)[0])
        scale = np.abs(phi(grown)).max()
        np.testing.assert_allclose(u.interpolate(none, values[None]), phi(grown) @ WEIGHT, rtol=0, atol=2**-49 * scale)


@pytest.mark.parametrize("link", ["identity", "log"])
@pytest.mark.parametrize("delta", [1.0, 1e9])
def test_huber_losses_of_one_outlier_leave_the_others_their_digits(link, delta):
    """Beyond delta the loss is linear: an outlier's changes are delta times those of the prediction, whatever its size,
    and no square of it, or of a delta that no other residual reaches, is subtracted from itself.
    """
    loss, f = losses.huber(delta), respond(link, "values", (U[:, None] + V).reshape(-1, 1)).reshape(len(U), -1)
    y = np.diag(f).copy()
    y[3] += 1e6 * max(delta, 1e3)
    found = mean_losses(link, loss, y, U, V, np.zeros(len(U)), None)
    changes = np.where(np.arange(len(U))[:, None] == 3, -delta * (f - np.diag(f)[:, None]), np.nan)
    gap = np.abs(f - np.diag(f)[:, None])
    changes = np.where(np.isnan(changes), np.where(gap <= delta, gap**2 / 2, delta * (gap - delta / 2)), changes)
    rows = found.over_donors(V, WEIGHT) - found.own(V)
    expected = changes @ WEIGHT
    own = np.abs(y - np.diag(f)) * delta * 2.0**-50  # what rounding of its own loss leaves
    assert np.all(np.abs(rows - expected) <= 1e-12 * np.abs(changes).max(axis=1) + own)
