"""Ctrl-C ends every verb with KeyboardInterrupt; only walks that were asked for by name return what they have."""

import threading

import numpy as np
import pytest
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.ensemble import RandomForestRegressor

import losslens as ll
from losslens.shapley import effect_walks, loss_walks

N, P = 24, 16  # so many players that Shapley values take walks
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, P))
Y = X[:, 0] + X[:, 1] * X[:, 2]


class Calls:
    """Counts calls from all threads; raises KeyboardInterrupt at one of them."""

    def __init__(self, stop_at=None):
        self.stop_at, self.count, self.lock = stop_at, 0, threading.Lock()

    def __call__(self):
        with self.lock:
            self.count += 1
            if self.count == self.stop_at:
                raise KeyboardInterrupt

    def __deepcopy__(self, memo):
        return self  # clones count together


class Model(RegressorMixin, BaseEstimator):
    def __init__(self, calls):
        self.calls = calls

    def __sklearn_clone__(self):
        return Model(self.calls)

    def fit(self, X, y):
        return self

    def predict(self, X):
        self.calls()
        return X[:, 0] + X[:, 1] * X[:, 2]


class Forest(RandomForestRegressor):
    """Its predict is its own: no engine reads it."""

    def predict(self, X):
        self.calls()
        return super().predict(X)


def forest(calls):
    model = Forest(4, random_state=0).fit(X, Y)
    model.calls = calls
    return model


VERBS = {
    "feature_importance": lambda m, **k: ll.feature_importance(m, X, Y, donors=ll.Latin(4), memory="256 KiB", **k),
    "scorer": lambda m, **k: ll.feature_importance(m, X, Y, loss=scorer(), features=["x0"], **k),
    "feature_effect": lambda m, **k: ll.feature_effect(m, X, donors=ll.Grid(4), **k),
    "pair_interactions": lambda m, **k: ll.pair_interactions(m, X, Y, features=["x0", "x1"], **k),
    "conditional": lambda m, **k: ll.conditional_predictive_impact(m, X, Y, ll.Residual(), features=["x0"], **k),
    "exact": lambda m, **k: ll.shapley_importance(m, X[:, :4], Y, method="exact", **k),
    "exact effect": lambda m, **k: ll.shapley_effect(m, X[:, :4], [0, 1], method="exact", **k),
    "compare": lambda m, **k: ll.compare({"a": m, "b": m}, X, Y, **k),
    "report": lambda m, **k: ll.report(m, X, Y, interactions=False, **k),
    "feature_importance_cv": lambda m, **k: ll.feature_importance_cv(m, X, Y, cv=2, **k),
    "shapley_importance_cv": lambda m, **k: ll.shapley_importance_cv(m, X, Y, cv=2, budget=20 * N * P, **k),
    "permuted_target_test": lambda m, **k: ll.permuted_target_test(m, X, Y, cv=2, permutations=2, **k),
    "leave_one_covariate_out": lambda m, **k: ll.leave_one_covariate_out(m, X, Y, cv=2, how="constant", **k),
    "plan": lambda m, **k: ll.plan(ll.feature_importance, m, X, Y, **k),
}


def scorer():
    from sklearn.metrics import get_scorer

    return get_scorer("r2")


def places(run, n_jobs):
    """A middle and the last call of an uninterrupted run."""
    calls = Calls()
    run(Model(calls), n_jobs=n_jobs, random_state=0)
    return {(calls.count + 1) // 2, calls.count}


@pytest.fixture(autouse=True)
def _a_few_walks_at_a_time(monkeypatch):
    """So that small games take several calls of the model."""
    monkeypatch.setattr(loss_walks, "PREDICTIONS_AT_ONCE", 5 * N * P)
    monkeypatch.setattr(effect_walks, "STEPS_AT_ONCE", 100 * P)


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("verb", VERBS)
def test_ctrl_c_ends_the_verb(verb, n_jobs):
    """Wherever the model is when it comes: nothing is returned."""
    run = VERBS[verb]
    for k in places(run, n_jobs):
        calls = Calls(stop_at=k)
        with pytest.raises(KeyboardInterrupt):
            run(Model(calls), n_jobs=n_jobs, random_state=0)


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("verb", ["shapley_importance", "shapley_effect", "scores"])
def test_walks_that_were_asked_for_return_what_they_have(verb, n_jobs):
    """After the second sweep or round: a result that says it is incomplete. Before the first: KeyboardInterrupt."""
    options = {"n_jobs": n_jobs, "method": "walk", "random_state": 0}
    run = {
        "shapley_importance": lambda m: ll.shapley_importance(m, X, Y, budget=20 * N * P, **options),
        "shapley_effect": lambda m: ll.shapley_effect(m, X, [0, 1], budget=400 * P, **options),
        "scores": lambda m: ll.shapley_importance(m, X[:, :5], Y, loss=scorer(), donors=ll.Latin(2), **options),
    }[verb]
    calls = Calls()
    assert run(Model(calls)).complete
    assert not run(Model(Calls(stop_at=calls.count))).complete
    with pytest.raises(KeyboardInterrupt):
        run(Model(Calls(stop_at=1)))
