"""Any `concurrent.futures.Executor` as `executor=`: the same numbers to the bit, and errors in one sentence."""

import os
import signal
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context

import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression

import losslens as ll

pytestmark = pytest.mark.thread_unsafe(reason="processes of its own")
RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 4))
Y = X[:, 0] * X[:, 1] + X[:, 2]
FOREST = RandomForestRegressor(5, max_depth=4, random_state=0).fit(X, Y)


class Counting(ThreadPoolExecutor):
    """Says how often it was asked."""

    tasks = 0

    def submit(self, *args, **kwargs):
        self.tasks += 1
        return super().submit(*args, **kwargs)


@pytest.fixture(scope="module", params=["threads", "processes"])
def executor(request):
    if request.param == "threads":
        with ThreadPoolExecutor(2) as pool:
            yield pool
    else:
        with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
            yield pool


VERBS = {
    "importance": lambda **more: ll.feature_importance(FOREST.predict, X, Y, loss="squared_error", **more)["x0"].local,
    "shapley": lambda **more: (
        ll.shapley_importance(FOREST.predict, X[:60], Y[:60], loss="squared_error", budget=20_000, **more).sfimp
    ),
    "refits": lambda **more: ll.feature_importance_cv(LinearRegression(), X, Y, cv=3, **more).per_fold,
}


@pytest.mark.parametrize("verb", VERBS)
def test_the_numbers_are_those_of_this_process(executor, verb):
    np.testing.assert_array_equal(VERBS[verb](random_state=0, executor=executor), VERBS[verb](random_state=0))


def test_files_are_read_by_the_workers(executor, tmp_path):
    import pandas as pd

    for k in range(3):
        pd.DataFrame(X[k::3], columns=list("abcd")).assign(y=Y[k::3]).to_parquet(tmp_path / f"{k}.parquet")
    fitted = RandomForestRegressor(5, max_depth=4, random_state=0).fit(pd.DataFrame(X, columns=list("abcd")), Y)
    here = ll.feature_importance(fitted, tmp_path, "y", random_state=0)
    there = ll.feature_importance(fitted, tmp_path, "y", random_state=0, executor=executor)
    # Here the files fit into memory and are one table; there each part is summed by itself: another order of sums.
    np.testing.assert_allclose([one.pfi for one in there.values()], [one.pfi for one in here.values()], rtol=1e-12)


def dies(X):
    if len(X) > 100:  # not where the call is checked
        os.kill(os.getpid(), signal.SIGKILL)
    return X[:, 0]


def test_the_models_error_is_the_error(executor):

    def late(X):
        if len(X) > 300:
            raise ValueError("no such luck")
        return X[:, 0]

    with pytest.raises(ValueError, match="no such luck"):
        ll.feature_importance(late, X, Y, loss="squared_error", executor=executor)


def test_a_dead_worker_is_said():
    with (
        ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool,
        pytest.raises(ConnectionError, match="a worker died"),
    ):
        ll.feature_importance(dies, np.tile(X, (4, 1)), np.tile(Y, 4), loss="squared_error", executor=pool)


def test_an_executor_that_is_shut_down_is_said():
    pool = ThreadPoolExecutor(1)
    pool.shutdown()
    with pytest.raises(ConnectionError, match=r"the executor takes no more work \(cannot schedule new futures"):
        ll.feature_importance(FOREST.predict, X, Y, loss="squared_error", executor=pool)


def test_work_is_done_there_and_planned_for_it():
    with Counting(3) as pool:
        ll.feature_importance(FOREST.predict, X, Y, loss="squared_error", executor=pool)
        assert pool.tasks >= 1
        plan = ll.plan(ll.feature_importance, FOREST.predict, X, Y, loss="squared_error", executor=pool)
        assert plan.workers == 3


def test_what_is_no_executor_is_refused():
    with pytest.raises(
        TypeError, match=r"a dask\.distributed Client, a concurrent\.futures\.Executor, or None .* got Future"
    ):
        ll.feature_importance(FOREST, X, Y, executor=Future())
