"""The best constant of each loss: against scikit-learn's dummies and scores of the same name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import d2_absolute_error_score, d2_pinball_score, d2_tweedie_score, log_loss, r2_score

import losslens as ll

RNG = np.random.default_rng(0)
N = 60
X = RNG.normal(size=(N, 2))
Y = np.exp(X[:, 0] + RNG.normal(size=N) / 2)
CLASS = np.digitize(X[:, 0] + RNG.normal(size=N), [-0.8, 0.7])
WEIGHT = RNG.uniform(0.2, 3, N)
LINEAR = LinearRegression().fit(X, Y)
LOGISTIC = LogisticRegression().fit(X, CLASS)


def positive(X: Any) -> Any:
    return np.exp(np.asarray(X)[:, 0])


@pytest.mark.parametrize("weight", [None, WEIGHT])
@pytest.mark.parametrize(
    ("loss", "score"),
    [("squared_error", r2_score), ("absolute_error", d2_absolute_error_score),
     (ll.losses.pinball(0.9), lambda *a, **k: d2_pinball_score(*a, alpha=0.9, **k)),
     ("poisson", lambda *a, **k: d2_tweedie_score(*a, power=1, **k)),
     ("gamma", lambda *a, **k: d2_tweedie_score(*a, power=2, **k)),
     (ll.losses.tweedie_deviance(1.5), lambda *a, **k: d2_tweedie_score(*a, power=1.5, **k))],
)  # fmt: skip
def test_skill_is_scikit_learns_score(loss: Any, score: Any, weight: Any) -> None:
    imp = ll.feature_importance(positive, X, Y, loss=loss, sample_weight=weight)
    shares = ll.shapley_importance(positive, X, Y, loss=loss, sample_weight=weight)
    expected = score(Y, positive(X), sample_weight=weight)
    # d2_pinball_score interpolates the weighted quantile between two values: a constant that is not quite the best.
    slack = 1e-3 if "pinball" in imp.loss.name or imp.loss.name == "absolute_error" else 1e-12
    assert imp.skill == pytest.approx(expected, abs=slack)
    assert shares.error_constant == imp.error_constant
    assert shares.skill == pytest.approx(imp.skill, rel=1e-12)
    one = next(iter(imp.values()))
    assert (one.skill, one.error_constant) == (imp.skill, imp.error_constant)


@pytest.mark.parametrize("weight", [None, WEIGHT])
@pytest.mark.parametrize(
    ("loss", "strategy"), [("squared_error", "mean"), ("absolute_error", "median"), ("huber", None)]
)
def test_no_constant_has_a_smaller_error(loss: str, strategy: str | None, weight: Any) -> None:
    """Over a fine grid of constants and every y; scikit-learn's dummy has the same error."""
    imp = ll.feature_importance(LINEAR, X, Y, loss=loss, sample_weight=weight)
    share = np.full(N, 1 / N) if weight is None else weight / weight.sum()
    every = np.concatenate([np.linspace(Y.min(), Y.max(), 2000), Y])
    errors = [share @ imp.loss(Y, np.full(N, c)) for c in every]
    assert imp.error_constant <= min(errors) + 1e-12
    assert imp.error_constant == pytest.approx(min(errors), rel=1e-4)
    if strategy:
        dummy = DummyRegressor(strategy=strategy).fit(X, Y, sample_weight=weight)
        assert imp.error_constant == pytest.approx(share @ imp.loss(Y, dummy.predict(X)), rel=1e-9)


@pytest.mark.parametrize("weight", [None, WEIGHT])
def test_classes_are_predicted_by_their_shares_or_by_the_most_frequent(weight: Any) -> None:
    prior = DummyClassifier(strategy="prior").fit(X, CLASS, sample_weight=weight)
    share = np.full(N, 1 / N) if weight is None else weight / weight.sum()

    def constant(loss: str) -> float:
        return ll.feature_importance(LOGISTIC, X, CLASS, loss=loss, sample_weight=weight).error_constant

    assert constant("log_loss") == pytest.approx(log_loss(CLASS, prior.predict_proba(X), sample_weight=weight))
    hot = np.eye(3)[CLASS]
    assert constant("brier") == pytest.approx(share @ ((prior.predict_proba(X) - hot) ** 2).sum(axis=1))
    assert constant("zero_one") == pytest.approx(1 - prior.score(X, CLASS, sample_weight=weight))


def test_a_constant_score_of_two_classes() -> None:
    """mean hinge loss of a score s: p max(0, 1 - s) + (1 - p) max(0, 1 + s), least at +-1: 2 min(p, 1 - p)."""
    two = (CLASS > 0).astype(int)
    model = LogisticRegression().fit(X, two)
    found = ll.feature_importance(model, X, two, loss="hinge").error_constant
    assert found == pytest.approx(2 * min(two.mean(), 1 - two.mean()))


def test_rows_of_a_subset_have_their_own_constant() -> None:
    imp = ll.feature_importance(LINEAR, X, Y)
    some = X[:, 1] > 0
    assert imp.given(some).skill == pytest.approx(r2_score(Y[some], LINEAR.predict(X[some])))


def test_a_scale_does_not_matter() -> None:
    for unit in (1e-9, 1e9):

        def scaled(X: Any, unit: float = unit) -> Any:
            return unit * positive(X)

        imp = ll.feature_importance(scaled, X, unit * Y, loss=ll.losses.huber(unit))
        assert imp.skill == pytest.approx(
            ll.feature_importance(positive, X, Y, loss=ll.losses.huber(1.0)).skill, rel=1e-9
        )


def test_where_it_is_not_known_it_says_why() -> None:
    custom = ll.feature_importance(LINEAR, X, Y, loss=lambda y, f: np.abs(y - f) ** 1.5)
    with pytest.raises(ValueError, match="named loss"):
        custom.skill  # noqa: B018
    several = ll.feature_importance(LOGISTIC, X, CLASS, loss="hinge")
    with pytest.raises(ValueError, match="more than two classes"):
        several.error_constant  # noqa: B018
    flat = ll.feature_importance(LINEAR, X, np.ones(N))
    assert flat.error_constant == 0
    with pytest.raises(ValueError, match="exactly 0"):
        flat.skill  # noqa: B018
    nothing = ll.feature_importance(positive, X, np.zeros(N), loss="poisson")
    with pytest.raises(ValueError, match="the mean of y, 0"):
        nothing.error_constant  # noqa: B018
    from sklearn.metrics import get_scorer

    scored = ll.feature_importance(LINEAR, X, Y, loss=get_scorer("r2"))
    with pytest.raises(ValueError, match="doesn't exist for the scorer"):
        scored.skill  # noqa: B018
    shares = ll.shapley_importance(LINEAR, X, Y, loss=get_scorer("r2"))
    with pytest.raises(ValueError, match="scorer"):
        shares.skill  # noqa: B018


def test_a_single_class_has_a_constant_without_error():
    """What clipping leaves of log(1) is no error to compare with."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 2))
    model = LogisticRegression().fit(X, X[:, 0] > 0)
    found = ll.feature_importance(model, X, np.ones(30, bool), loss="log_loss")
    assert found.error_constant == 0
    with pytest.raises(ValueError, match="exactly 0"):
        _ = found.skill


def test_rows_without_weight_have_no_best_constant() -> None:
    weight = np.r_[0.0, np.ones(N - 1)]
    part = ll.feature_importance(LINEAR, X, Y, sample_weight=weight).given([0])
    with pytest.raises(ValueError, match="the best constant needs a row with a weight above zero"):
        _ = part.error_constant
