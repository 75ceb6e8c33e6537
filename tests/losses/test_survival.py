"""Losses of survival curves: censoring weights and Brier scores, by hand and as scikit-survival has them."""

import numpy as np
import pytest

from losslens.losses.survival import Uncensored, brier_at, event_times, signed_weights, trapezoid
from survival_models import censored_rows

TIMES = np.array([1.0, 4.0, 4.5, 9.0, 13.0])


def uncensored_by_hand(event, time, t):
    """G(t): the product over times u <= t of the share of the rows at risk of censoring at u that are not censored.

    Events come first at ties: a row with an event at u is not at risk of censoring at u.
    """
    product = 1.0
    for u in sorted(set(time[time <= t].tolist())):
        censored = sum(not e and s == u for e, s in zip(event, time, strict=True))
        at_risk = censored + sum(s > u for s in time)
        product *= 1 - censored / at_risk if censored else 1.0
    return product


def brier_by_hand(y, survival, times, known):
    """Row by row, time by time, from the definition of Graf et al. (1999)."""
    losses = np.zeros(survival.shape)
    for i, (event, time) in enumerate(zip(y["event"], y["time"], strict=True)):
        for k, t in enumerate(times):
            if time > t:
                losses[i, k] = (1 - survival[i, k]) ** 2 / uncensored_by_hand(known["event"], known["time"], t)
            elif event:
                losses[i, k] = survival[i, k] ** 2 / uncensored_by_hand(known["event"], known["time"], time)
    return losses


@pytest.mark.parametrize("rounded", [True, False])
@pytest.mark.parametrize("of_training", [True, False])
def test_brier_by_hand(rounded, of_training):
    _, y = censored_rows(60, rounded=rounded, seed=1)
    _, train = censored_rows(80, rounded=rounded, seed=2)
    survival = np.random.default_rng(0).uniform(size=(60, len(TIMES)))
    known = train if of_training else y
    weights = signed_weights(event_times(y), TIMES, Uncensored.of(event_times(known)))
    np.testing.assert_allclose(brier_at(weights, survival), brier_by_hand(y, survival, TIMES, known), rtol=1e-12)


def test_weights_of_the_rows_that_tell_sum_to_all_rows():
    """E[weight] = 1: what a row censored before t would have counted is spread over later ones.

    With G from the same rows, (1/n) sum of [T > t] / G(t) = S(t), the Kaplan-Meier estimate, and the sum over events
    up to t of 1 / (n G(T)) = 1 - S(t) where no event is tied with a censored row (Satten and Datta, 2001).
    """
    _, y = censored_rows(200, rounded=False)
    weights = signed_weights(event_times(y), TIMES, Uncensored.of(event_times(y)))
    np.testing.assert_allclose(np.abs(weights).mean(axis=0), 1, rtol=1e-12)


def test_weighted_rows_count_as_often():
    _, y = censored_rows(40)
    often = np.random.default_rng(0).integers(0, 4, 40)
    weighted = Uncensored.of(event_times(y), often.astype(float)).at(TIMES)
    np.testing.assert_allclose(weighted, Uncensored.of(event_times(np.repeat(y, often))).at(TIMES), rtol=1e-12)


def test_the_integral_is_the_trapezoid_rule():
    curve = np.random.default_rng(0).normal(size=len(TIMES))
    area = sum((curve[k] + curve[k + 1]) / 2 * (TIMES[k + 1] - TIMES[k]) for k in range(len(TIMES) - 1))
    mean = area / (TIMES[-1] - TIMES[0])
    assert trapezoid(TIMES) @ curve == pytest.approx(mean, rel=1e-14)
    assert trapezoid(TIMES).sum() == pytest.approx(1, rel=1e-14)
    assert trapezoid(np.array([3.0])) == 1


def test_an_infinite_weight_says_what_to_do():
    known = event_times([(True, 1), (False, 3), (False, 3)])
    with pytest.raises(ValueError, match=r"row 1 at time 3 is infinite: .*give times= before 3, or censoring="):
        signed_weights(event_times([(True, 1), (True, 9)]), np.array([2.0, 3.0]), Uncensored.of(known))
    with pytest.raises(ValueError, match=r"row 0 at time 5 is infinite: .*give times= before 4"):
        signed_weights(event_times([(True, 4), (True, 9)]), np.array([2.0, 5.0]), Uncensored.of(known))


def test_scikit_survival_has_the_same_numbers():
    metrics = pytest.importorskip("sksurv.metrics")
    for rounded in (True, False):
        _, y = censored_rows(150, rounded=rounded, seed=3)
        _, train = censored_rows(300, rounded=rounded, seed=4)
        y, times = y[y["time"] < train["time"].max()], TIMES[1:]
        survival = np.random.default_rng(0).uniform(size=(len(y), len(times)))
        losses = brier_at(signed_weights(event_times(y), times, Uncensored.of(event_times(train))), survival)
        np.testing.assert_allclose(losses.mean(axis=0), metrics.brier_score(train, y, survival, times)[1], rtol=1e-12)
        integrated = metrics.integrated_brier_score(train, y, survival, times)
        assert trapezoid(times) @ losses.mean(axis=0) == pytest.approx(integrated, rel=1e-12)
