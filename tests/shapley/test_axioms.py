"""Shapley importances as theory has them: axioms by every method, known answers, and calls that are refused."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.linear_model import LinearRegression
from sklearn.metrics import get_scorer

import coalitions
import losslens as ll
from losslens import losses

RNG = np.random.default_rng(0)
N = 24
X = np.column_stack([RNG.normal(size=N), RNG.integers(0, 3, N), RNG.normal(size=N), RNG.integers(0, 2, N)])
Y = X[:, 0] * X[:, 1] + X[:, 0] + RNG.normal(size=N)
WEIGHT = RNG.integers(0, 4, N).astype(float)


def model(X):
    return X[:, 0] * X[:, 1] + X[:, 0]


def share(model=model, X=X, y=Y, loss="squared_error", **options):
    return ll.shapley_importance(model, X, y, loss=loss, **({"random_state": 0} | options))


class Estimator(RegressorMixin, BaseEstimator):
    """Any function as an estimator, for scorers."""

    def __init__(self, function):
        self.function = function
        self.fitted_ = True

    def fit(self, X, y):
        return self

    def predict(self, X):
        return self.function(X)


METHODS = {
    "all coalitions": {"method": "exact"},
    "all pairs of different rows": {"method": "exact", "donors": ll.Derangements()},
    "drawn donors": {"method": "exact", "donors": ll.Latin(5)},
    "walks": {"method": "walk", "budget": 5000},
    "walks, apart": {"method": "walk", "donors": ll.Derangements(), "budget": 5000},
    "walks, drawn": {"method": "walk", "donors": ll.Permutations(5)},
    "SAGE": {"method": ll.Sage()},
    "SAGE, walks": {"method": ll.Sage("walk")},
    "scorer": {"loss": get_scorer("neg_mean_squared_error")},
    "scorer, orders": {"loss": get_scorer("neg_mean_squared_error"), "method": "walk"},
}


# Who changes nothing.


@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["alike", "weights"])
@pytest.mark.parametrize("how", METHODS)
def test_columns_that_the_model_ignores_earn_exactly_nothing(how, weight):
    options = METHODS[how]
    asked = Estimator(model) if "scorer" in how else model
    found = share(asked, sample_weight=weight, **options)
    assert found.sfimp[2:].tolist() == [0.0, 0.0]
    assert found.monte_carlo_error[2:].tolist() == [0.0, 0.0]
    if found.shares is not None:
        assert (found.local[:, 2:] == 0).all()
        assert found.std_error[2:].tolist() == [0.0, 0.0]


@pytest.mark.parametrize("how", METHODS)
def test_columns_that_are_constant_earn_exactly_nothing(how):
    """Whatever the model makes of it, a donor's value is the row's own."""

    def uses(Z):
        return model(Z) * Z[:, 4]

    Z = np.column_stack([X, np.full(N, 7.0)])
    found = share(Estimator(uses) if "scorer" in how else uses, Z, **METHODS[how])
    assert found.sfimp[4] == 0.0


@pytest.mark.parametrize("native", [LinearRegression(), RandomForestRegressor(4, random_state=0)], ids=["sum", "trees"])
def test_columns_that_no_engine_can_use_earn_exactly_nothing(native):
    Z = np.column_stack([X, np.full(N, 7.0)])
    found = share(native.fit(Z, Y), Z)
    assert found.sfimp[4] == 0.0
    assert (found.local[:, 4] == 0.0).all()


def test_the_papers_algorithm_gives_a_dummy_noise_alone():
    """Every coalition has permutations of its own, as in the paper: a dummy's share is noise around 0."""
    found = [share(method=ll.Paper(4, 4), random_state=seed).sfimp[2] for seed in range(30)]
    assert abs(np.mean(found)) < 4 * np.std(found, ddof=1) / np.sqrt(30)


# Who plays the same role.


@pytest.mark.parametrize("how", ["all coalitions", "SAGE"])
def test_columns_in_the_same_role_earn_the_same(how):
    """Rows come in couples that have the first two values exchanged, and the model doesn't tell them apart."""
    Z = np.concatenate([X[:, :3], X[:, [1, 0, 2]]])
    y = np.concatenate([Y, Y])
    found = share(lambda Z: Z[:, 0] * Z[:, 1] + Z[:, 0] + Z[:, 1] + Z[:, 2], Z, y, **METHODS[how])
    assert found.sfimp[0] == pytest.approx(found.sfimp[1], abs=1e-12)
    np.testing.assert_allclose(found.local[:N, 0], found.local[N:, 1], atol=1e-12)


def test_the_order_of_columns_doesn_t_matter():
    order = [2, 0, 3, 1]
    found = share(lambda Z: model(Z[:, np.argsort(order)]), X[:, order])
    np.testing.assert_allclose(found.sfimp, share().sfimp[order], atol=1e-12)


# Linear in the loss.


@pytest.mark.parametrize("native", ["function", "trees"])
@pytest.mark.parametrize("method", ["exact", "walk"])
def test_shares_are_linear_in_the_loss(native, method):
    """pinball(a) + pinball(1 - a) = |y - f|; twice a loss has twice the shares. Walks of one seed meet the same pairs.

    Walks without their controls would be linear to the last bit: what the controls take off is fitted to each loss.
    """
    asked = model if native == "function" else HistGradientBoostingRegressor(max_iter=5).fit(X, Y)
    low, high = (share(asked, loss=losses.pinball(a), method=method) for a in (0.2, 0.8))
    whole, twice = (
        share(asked, loss=loss, method=method)
        for loss in ("absolute_error", losses.pointwise(lambda y, f: 2 * np.abs(y - f), reads="values"))
    )
    slack = 1e-9 if method == "exact" else 5 * np.sum([r.monte_carlo_error for r in (low, high, whole)], axis=0) + 1e-9
    assert (np.abs(low.sfimp + high.sfimp - whole.sfimp) <= slack).all()
    np.testing.assert_allclose(twice.sfimp, 2 * whole.sfimp, rtol=1e-6, atol=1e-9 if method == "exact" else slack.max())


# Answers that theory gives.


@pytest.mark.parametrize("options", [{}, {"method": "walk"}], ids=["exact", "walks"])
def test_the_whole_of_a_squared_loss_is_twice_the_covariance(options):
    """E(y_i - f_k)^2 - E(y_i - f_i)^2 = 2 (mean of f y - mean f mean y) over all pairs."""
    found = share(**options)
    covariance = np.cov(model(X), Y, ddof=0)[0, 1]
    assert found.error_none - found.error_all == pytest.approx(2 * covariance)
    assert found.sfimp.sum() == pytest.approx(2 * covariance)


def test_two_players_earn_the_mean_of_joining_first_and_last():
    """SFIMP_j = (PFI_j + first_j)/2: PFI_j is what j takes off when it joins last, first_j when it joins first.

    ``first_j = GE_0 - GE_{j}``, and GE_{j} is the error with the other one replaced: GE_P + PFI of the other.
    """
    Z = X[:, :2]
    found = share(X=Z)
    pfi = [ll.feature_importance(model, Z, Y, loss="squared_error", donors="all")[name].pfi for name in ("x0", "x1")]
    first = [found.error_none - found.error_all - pfi[1], found.error_none - found.error_all - pfi[0]]
    np.testing.assert_allclose(found.sfimp, (np.array(pfi) + first) / 2, rtol=1e-9)
    assert found.interactions["x0", "x1"] == pytest.approx(pfi[0] + pfi[1] - (found.error_none - found.error_all))


def simulation(n, seed=0):
    """Simulation 2 of the paper: f = x1 + x2 + x3 + x1 x2, independent standard normal columns."""
    Z = np.random.default_rng(seed).normal(size=(n, 3))
    return lambda Z: Z.sum(axis=1) + Z[:, 0] * Z[:, 1], Z


@pytest.mark.parametrize("options", [{"method": "walk"}, {"donors": ll.Latin(30)}], ids=str)
def test_the_papers_second_simulation(options):
    """Each main effect is worth 2 Var = 2; the product 2 E(x1 x2)^2 = 2 to who completes it, 1 each: (3, 3, 2)."""
    f, Z = simulation(3000)
    found = share(f, Z, f(Z), **options)
    low, high = found.interval(level=0.9999)
    assert (low < [3, 3, 2]).all()
    assert (high > [3, 3, 2]).all()
    assert (found.std_error < 0.25).all()


# Refused.


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"features": {"a": [0, 1], "b": [1]}}, "column 'x1' is in 'a' and in 'b'; players must not overlap"),
        ({"features": [("x0", "x1")]}, r"a pair on a product grid.* write \{'name': \[columns\]\}"),
        ({"donors": ll.Systematic(4)}, r"Systematic\(4\) orders donors by one feature's values.* use Latin\(m\)"),
        ({"donors": ll.Grid(4, at="quantiles")}, "orders donors by one feature's values"),
        ({"donors": ll.Grid(values=[0.0, 1.0])}, "holds the values of one feature, but a Shapley game"),
        ({"method": "exhaustive"}, r"'auto', .* 'walk', Paper\(m_feat, m_obs\) or Sage\(\); got 'exhaustive'"),
        ({"method": "walk", "budget": 50}, "budget=50 is too small: one sweep of walks takes up to 72 predictions"),
        ({"budget": 0}, "budget is a whole number of predictions"),
        ({"method": ll.Paper(), "budget": 100}, "leave out precision and budget"),
        ({"method": ll.Sage("exact"), "precision": 0.1}, "have no Monte-Carlo error"),
        ({"method": "exact", "precision": 0.1}, "have no Monte-Carlo error"),
        ({"precision": 1.5}, r"between 0 and 1, or Absolute\(value\)"),
        ({"method": "walk", "donors": ll.Latin(4), "budget": 500}, "fixes the number of sweeps"),
        ({"method": ll.Sage(), "donors": ll.Derangements()}, "need donors that all rows share"),
        ({"method": ll.Sage("walk"), "donors": ll.Latin(3)}, "donors that all rows share"),
        ({"y": None}, "y, the true values, is missing"),
        ({"loss": None}, "loss must be named"),
        ({"features": ["x9"]}, "unknown feature 'x9'"),
        (
            {"method": "exact", "budget": 1000},
            "would take 2,592 predictions over all coalitions, more than budget=1,000.*or use method='walk'",
        ),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_calls_that_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        share(**options)


def test_a_precision_is_a_number():
    with pytest.raises(TypeError, match=r"precision is a share such as 0\.02"):
        share(precision="high")
    with pytest.raises(ValueError, match="Absolute takes a number above 0"):
        ll.Absolute(0.0)


def test_orders_and_permutations_are_whole_numbers():
    with pytest.raises(ValueError, match="m_obs is a whole number from 1 on"):
        ll.Paper(m_obs=0)


@pytest.mark.parametrize("native", ["function", "trees"])
def test_too_many_features_for_the_exact_answer(native):
    """2^25 coalitions of 30^2 pairs; a coalition and its complement have the same predictions."""
    Z = RNG.normal(size=(30, 25))
    asked = HistGradientBoostingRegressor(max_iter=2).fit(Z, Z[:, 0]) if native == "trees" else lambda Z: Z[:, 0]
    with pytest.raises(ValueError, match=r"would take 15,099,\d{3},\d{3} predictions over all coalitions.*'walk'"):
        share(asked, Z, Z[:, 0], loss="absolute_error", method="exact")


def test_labels_have_no_mean():
    from sklearn.tree import DecisionTreeClassifier

    asked = DecisionTreeClassifier().fit(X, Y > 0)
    with pytest.raises(ValueError, match="reads labels, which have no mean"):
        share(asked, y=Y > 0, loss="zero_one", method=ll.Sage())


def test_unknown_columns_of_a_frame_are_suggested():
    frame = pd.DataFrame(X, columns=["age", "size", "b", "c"])
    with pytest.raises(ValueError, match="did you mean 'age'"):
        share(lambda t: model(t.to_numpy()), frame, features=["Age"])


def test_curves_and_shares_that_are_asked_for_wrongly():
    found = share()
    with pytest.raises(KeyError, match="unknown feature 'x7'"):
        found.curve("x7")
    with pytest.raises(ValueError, match="by is 'own'"):
        found.curve("x0", by="rows")
    with pytest.raises(ValueError, match="percentages are undefined"):
        _ = share(lambda X: np.ones(len(X))).share


def test_brute_force_agrees_with_itself():
    """The oracle of all coalitions on a game that is known: f = x0 x1 without noise, squared loss."""
    f, Z = simulation(40)
    expected = coalitions.shares(f, Z, f(Z), lambda y, f: (y - f) ** 2)
    assert expected.sfimp.sum() == pytest.approx(2 * np.var(f(Z)))
