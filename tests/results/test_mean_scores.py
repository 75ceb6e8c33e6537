"""Scores that are functions of mean losses, by brute force over all pairs of rows, and their literal jackknife."""

from functools import cache

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import PoissonRegressor, Ridge
from sklearn.metrics import get_scorer, make_scorer, mean_squared_error

import losslens as ll
from losslens.results.mean_scores import MEAN_SCORES

RNG = np.random.default_rng(0)
N = 30
X = RNG.normal(size=(N, 3)).round(1)
SIGNAL = X[:, 0] + X[:, 1] * X[:, 2] + RNG.normal(size=N)
WEIGHT, GROUPS = RNG.uniform(0.5, 2, N), RNG.integers(0, 13, N)
ROW, DONOR = np.repeat(np.arange(N), N), np.tile(np.arange(N), N)
THREE = np.digitize(SIGNAL, [-0.7, 0.7])
SITUATIONS = {"plain": (None, None), "weights": (WEIGHT, None), "groups": (None, GROUPS), "both": (WEIGHT, GROUPS)}


@cache
def case(scorer):
    loss, _ = MEAN_SCORES[scorer]
    if loss.reads != "values":
        return HistGradientBoostingClassifier(max_iter=10, min_samples_leaf=5).fit(X, THREE), THREE
    if "deviance" in scorer:
        y = np.exp(SIGNAL / 2)
        return PoissonRegressor().fit(X, y), y
    return HistGradientBoostingRegressor(max_iter=20, min_samples_leaf=5).fit(X, SIGNAL), SIGNAL


def brute(scorer, column, weight, groups, left_out=(), own=True):
    """The score of the pairs unchanged less that with the column from the donor, and the score of the rows.

    `own`: pairs of a row with itself are among them.
    """
    (model, y), score = case(scorer), get_scorer(scorer)
    unit, weight = np.arange(N) if groups is None else groups, np.ones(N) if weight is None else weight
    kept = ~np.isin(unit[ROW], left_out) & ~np.isin(unit[DONOR], left_out)
    kept &= unit[ROW] != unit[DONOR] if groups is not None or not own else True
    replaced = X[ROW[kept]]
    replaced[:, column] = X[DONOR[kept], column]
    pairs, mine = (weight[ROW] * weight[DONOR])[kept], ~np.isin(unit, left_out)
    before = score(model, X[ROW[kept]], y[ROW[kept]], sample_weight=pairs)
    after = score(model, replaced, y[ROW[kept]], sample_weight=pairs)
    of_rows = score(model, X[mine], y[mine], sample_weight=weight[mine])
    if (
        not own and groups is None and MEAN_SCORES[scorer][1] == "root"
    ):  # the change of squares of different rows, from the rows' own
        return of_rows + np.sqrt(of_rows**2 + after**2 - before**2), of_rows
    return before - after, of_rows


@pytest.mark.filterwarnings("ignore:The effective number")
@pytest.mark.parametrize("situation", SITUATIONS)
@pytest.mark.parametrize("scorer", MEAN_SCORES)
def test_a_score_of_a_mean_loss_is_that_of_all_pairs(scorer, situation):
    """And its jackknife: of U, pairs of different rows; R2 of all pairs has no bias by rows' own."""
    weight, groups = SITUATIONS[situation]
    model, y = case(scorer)
    options = {"sample_weight": weight, "groups": groups, "features": "x1", "donors": "all"}
    found = ll.feature_importance(model, X, y, loss=scorer, **options)["x1"]
    expected, score = brute(scorer, 1, weight, groups)
    assert found.pfi == pytest.approx(expected, abs=1e-9)
    assert found.score == pytest.approx(score, abs=1e-9)
    units = np.unique(np.arange(N) if groups is None else groups)
    own = MEAN_SCORES[scorer][1] == "share explained"
    without = np.array([brute(scorer, 1, weight, groups, [u], own) for u in units]).T
    literal = np.sqrt((len(units) - 1) / len(units) * np.sum((without - without.mean(axis=1)[:, None]) ** 2, axis=1))
    assert found.base_influence.std_error == pytest.approx(literal[1], rel=1e-6)
    assert found.std_error == pytest.approx(literal[0], rel=2e-3)


@pytest.mark.parametrize("scorer", ["neg_mean_squared_error", "neg_mean_absolute_error", "accuracy", "neg_log_loss"])
def test_minus_a_mean_loss_has_the_numbers_of_the_loss(scorer):
    (loss, _), (model, y) = MEAN_SCORES[scorer], case(scorer)
    found = ll.feature_importance(model, X, y, loss=scorer, sample_weight=WEIGHT)
    plain = ll.feature_importance(model, X, y, loss=loss, sample_weight=WEIGHT)
    for name, one in plain.items():
        assert (found[name].pfi, found[name].std_error) == (one.pfi, one.std_error)
        assert found[name].interval() == one.interval()
        np.testing.assert_array_equal(found[name].pi, one.pi)
        assert found[name].given(np.arange(18)).interval() == one.given(np.arange(18)).interval()
    assert (found.engine, found.exact, found.n_predictions) == (plain.engine, plain.exact, plain.n_predictions)


def test_curves_are_on_the_scale_of_the_score():
    for scorer in ("r2", "neg_root_mean_squared_error", "d2_absolute_error_score"):
        model, y = case(scorer)
        found = ll.feature_importance(model, X, y, loss=scorer, features="x0")["x0"]
        at = X.copy()
        at[:, 0] = found.grid[3]
        assert found.pi[3] == pytest.approx(found.score - get_scorer(scorer)(model, at, y))


@pytest.mark.parametrize("design", [ll.Latin(8), ll.Systematic(8)], ids=str)
@pytest.mark.parametrize("scorer", ["r2", "neg_root_mean_squared_error"])
def test_sampled_donors_give_about_the_same(design, scorer):
    model, y = case(scorer)
    exact = ll.feature_importance(model, X, y, loss=scorer, features="x0")["x0"]
    drawn = ll.feature_importance(model, X, y, loss=scorer, features="x0", donors=design, random_state=0)["x0"]
    assert drawn.pfi == pytest.approx(exact.pfi, rel=0.3)
    assert drawn.std_error == pytest.approx(exact.std_error, rel=0.5)


@pytest.mark.parametrize("scorer", ["r2", "neg_root_mean_squared_error", "neg_mean_absolute_error"])
def test_several_outputs_have_the_mean_of_their_scores(scorer):
    """As scikit-learn's metrics have it: the mean of R2s, not R2 of the mean."""
    y = pd.DataFrame({"up": 3 * SIGNAL, "down": X[:, 2] - SIGNAL})
    model = Ridge().fit(X, y)
    found = ll.feature_importance(model, X, y, loss=scorer, features="x0")["x0"]
    replaced, score, y = X[ROW], get_scorer(scorer), y.to_numpy()
    replaced[:, 0] = X[DONOR, 0]
    assert found.score == pytest.approx(score(model, X, y))
    assert found.pfi == pytest.approx(found.score - score(model, replaced, y[ROW]))
    assert found.std_error > 0


def test_a_made_scorer_is_recognised_and_one_with_other_options_is_not():
    model, y = case("r2")
    made = ll.feature_importance(model, X, y, loss=make_scorer(mean_squared_error, greater_is_better=False))
    assert made["x0"].pfi == ll.feature_importance(model, X, y, loss="squared_error")["x0"].pfi
    scaled = ll.feature_importance(model, X, y, loss=make_scorer(mean_squared_error, greater_is_better=True))
    assert scaled["x0"].units == "blocks"


def test_r2_of_one_y_is_not_defined():
    model, y = case("r2")
    with pytest.raises(ValueError, match="r2_score is not defined: all of them have the same y"):
        ll.feature_importance(model, X, np.ones(N), loss="r2")
    some = np.argsort(y)[:1].repeat(1)
    none = ll.feature_importance(model, X, y, loss="r2").given(some)
    assert np.isnan(none["x0"].pfi)
    assert none["x0"].undefined == "all of them have the same y"
    with pytest.raises(ValueError, match="the same y"):
        none["x0"].std_error  # noqa: B018
