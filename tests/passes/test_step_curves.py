"""Sums over steps of curves."""

import threading

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor

import losslens as ll
from losslens.engines.trees import small_trees
from losslens.passes import step_curves


@pytest.mark.parametrize("model", [HistGradientBoostingRegressor(max_iter=5), RandomForestRegressor(3, random_state=0)])
@pytest.mark.parametrize(("kind", "memory"), [(float, "1 GiB"), (int, "1 MiB")])
def test_squared_errors_that_are_evaluated_in_the_sums_are_those_of_a_function(model, kind, memory):
    """The same operations in the same order, so every bit is the same."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    y = (3 * X[:, 0] + X[:, 1] * X[:, 2] + rng.normal(size=300)).astype(kind)
    model.fit(X, y)
    weights = rng.random(300)
    named, function = (
        ll.feature_importance(model, X, y, loss=loss, sample_weight=weights, memory=memory, random_state=0)
        for loss in ("squared_error", lambda y, f: (y - f) ** 2)
    )
    for name in named:
        ours, theirs = named[name], function[name]
        assert ours.engine == theirs.engine == "trees"
        for field in ("local", "pi", "ici"):
            np.testing.assert_array_equal(getattr(ours, field), getattr(theirs, field))


def test_what_the_engine_tabulates_is_ready_before_threads_start(monkeypatch):
    """From Python 3.12 on nothing keeps two threads from computing the same cached property."""
    tabulate, made = small_trees.tables, []

    def noted(bound):
        made.append(threading.current_thread())
        return tabulate(bound)

    monkeypatch.setattr(small_trees, "tables", noted)
    monkeypatch.setattr(step_curves, "CHUNK_ROWS", 50)
    X = np.random.default_rng(0).normal(size=(300, 4))
    model = HistGradientBoostingRegressor(max_iter=5).fit(X, X[:, 0])
    ll.feature_importance(model, X, X[:, 0], n_jobs=4)
    assert made == [threading.main_thread()]


@pytest.mark.parametrize("engine", ["trees", "blackbox"])
def test_a_loss_of_the_users_own_is_not_called_after_the_call(engine):
    """A function that says something else later, as a lambda in a loop does: cells stay those of the importance."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    y = X[:, 0] + rng.normal(size=60)
    model = HistGradientBoostingRegressor(max_iter=5, min_samples_leaf=5).fit(X, y)
    q = 0.1
    found = ll.feature_importance(
        model if engine == "trees" else model.predict,
        X,
        y,
        loss=lambda y, p: np.maximum(q * (y - p), (q - 1) * (y - p)),
    )["x0"]
    q = 0.9
    assert found.engine == engine
    np.testing.assert_allclose(found.ici @ found.weights, found.local, atol=1e-12)
