"""Ray and Spark through joblib, where they are installed: the same numbers, and errors in one sentence."""

import os
import sys

import joblib
import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor

import losslens as ll

pytestmark = [pytest.mark.thread_unsafe(reason="clusters of the process"), pytest.mark.filterwarnings("ignore")]
RNG = np.random.default_rng(0)
X = RNG.normal(size=(400, 5))
Y = X[:, 0] * X[:, 1]
FOREST = RandomForestRegressor(10, random_state=0).fit(X, Y)


def ray(monkeypatch):
    ray = pytest.importorskip("ray")
    from ray.util.joblib import register_ray

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, ignore_reinit_error=True)
    register_ray()


def spark(monkeypatch):
    backend = pytest.importorskip("joblibspark")
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    backend.register_spark()


@pytest.mark.parametrize("start", [ray, spark], ids=lambda start: start.__name__)
def test_the_numbers_are_the_same_and_errors_are_the_models_own(start, monkeypatch, tmp_path):
    start(monkeypatch)
    asked = {"loss": "squared_error", "random_state": 0}

    def fails(Z):
        if len(Z) > 400:  # not where the call is checked
            raise ValueError("no such luck")
        return Z[:, 0]

    def dies(Z):
        if len(Z) > 400:
            os.kill(os.getpid(), 9)
        return Z[:, 0]

    here = ll.feature_importance(FOREST.predict, X, Y, **asked)
    with joblib.parallel_config(start.__name__, n_jobs=2):
        there = ll.feature_importance(FOREST.predict, X, Y, **asked)
        with pytest.raises(ValueError, match="no such luck"):
            ll.feature_importance(fails, X, Y, **asked)
        with pytest.raises(ConnectionError, match="a worker died"):
            ll.feature_importance(dies, X, Y, **asked)
    np.testing.assert_array_equal(there["x0"].local, here["x0"].local)
