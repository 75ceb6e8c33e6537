"""Verbs on a real cluster of two processes: the same numbers as here, whoever dies on the way."""

import os
import signal
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression
from sklearn.svm import SVR

import losslens as ll
from losslens import workers

distributed = pytest.importorskip("distributed")
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # of sockets that dask closes late
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
RNG = np.random.default_rng(0)
N = 1200
X = pd.DataFrame({"a": RNG.normal(size=N), "b": RNG.integers(0, 4, N), "c": RNG.normal(size=N).round(1)})
Y = X["a"] * X["b"] + X["c"] + RNG.normal(size=N) * 0.2


@pytest.fixture(scope="module")
def client():
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
        distributed.Client(cluster) as connected,
    ):
        yield connected


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("parts")
    for k, rows in enumerate(np.split(np.arange(N), [50, 633, 634])):  # unequal parts
        X.iloc[rows].assign(y=Y.iloc[rows]).to_parquet(folder / f"part{k}.parquet")
    return folder


@pytest.fixture(scope="module")
def forest():
    return RandomForestRegressor(10, random_state=0).fit(X, Y)


def a_function():
    """A function by value: workers don't know this module."""
    return lambda table: np.asarray(table["a"]) * np.asarray(table["b"]) + np.asarray(table["c"])


def same(one, other, rtol=1e-9) -> None:
    np.testing.assert_allclose(
        [one[name].pfi for name in one], [other[name].pfi for name in one], rtol=rtol, atol=1e-12
    )


class Once:
    """Kills the worker that runs it, once for each of some names; a file remembers."""

    def __init__(self, folder: Path, times: int = 1) -> None:
        self.folder, self.times, self.parent = str(folder), times, os.getpid()

    def __call__(self, table):
        return self.predict(table)

    def predict(self, table):
        done = len(list(Path(self.folder).glob("killed*")))
        if os.getpid() != self.parent and done < self.times:
            (Path(self.folder) / f"killed{done}").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return np.asarray(table["a"]) * np.asarray(table["b"]) + np.asarray(table["c"])


def test_in_memory_black_boxes(client):
    here = ll.feature_importance(a_function(), X, Y, loss="squared_error", random_state=0)
    there = ll.feature_importance(a_function(), X, Y, loss="squared_error", random_state=0, executor=client)
    same(here, there)
    assert here.n_predictions == there.n_predictions


def test_in_memory_trees(client, forest, monkeypatch):
    monkeypatch.setattr(workers, "TASK", 0.0)  # otherwise so few rows stay here
    monkeypatch.setattr(workers, "SENT_BYTE", 0.0)
    here, there = ll.feature_importance(forest, X, Y), ll.feature_importance(forest, X, Y, executor=client)
    same(here, there)
    np.testing.assert_allclose(here["a"].ici, there["a"].ici, atol=1e-12)
    np.testing.assert_allclose(here["a"].std_error, there["a"].std_error)


@pytest.mark.parametrize("model", [LinearRegression(), SVR(), RandomForestRegressor(5, random_state=0)])
def test_effects_and_shapley(client, model):
    fitted = model.fit(X, Y)
    here, there = ll.feature_effect(fitted, X), ll.feature_effect(fitted, X, executor=client)
    np.testing.assert_allclose(here["a"].pd, there["a"].pd)
    few = X[:60], Y[:60]
    one = ll.shapley_importance(fitted, *few, random_state=0)
    other = ll.shapley_importance(fitted, *few, random_state=0, executor=client)
    np.testing.assert_allclose(one.sfimp, other.sfimp, atol=1e-12)


def test_shapley_walks_of_a_function(client):
    options = {"loss": "squared_error", "method": "walk", "budget": 5000, "random_state": 0}
    one = ll.shapley_importance(a_function(), X, Y, **options)
    other = ll.shapley_importance(a_function(), X, Y, executor=client, **options)
    np.testing.assert_allclose(one.sfimp, other.sfimp, atol=1e-12)
    rows = X[:3]
    shown = ll.shapley_effect(a_function(), X, rows, random_state=0)
    np.testing.assert_allclose(
        shown.local, ll.shapley_effect(a_function(), X, rows, random_state=0, executor=client).local
    )


def test_verbs_that_fit(client):
    linear, few = LinearRegression(), (X[:120], Y[:120])
    one = ll.feature_importance_cv(linear, *few, cv=3, variance="jackknife", random_state=0)
    other = ll.feature_importance_cv(linear, *few, cv=3, variance="jackknife", random_state=0, executor=client)
    np.testing.assert_allclose(one.importance, other.importance)
    np.testing.assert_allclose(one.without, other.without)
    test = ll.permuted_target_test(linear, *few, cv=2, permutations=5, random_state=0, executor=client)
    np.testing.assert_allclose(
        test.null, ll.permuted_target_test(linear, *few, cv=2, permutations=5, random_state=0).null
    )
    left = ll.leave_one_covariate_out(linear, *few, cv=3, random_state=0)
    far = ll.leave_one_covariate_out(linear, *few, cv=3, random_state=0, executor=client)
    np.testing.assert_allclose(left.local, far.local)

    def raises(X, y):
        raise KeyError("no such thing")

    with pytest.raises(RuntimeError, match=r"fold 1 of 3.*no such thing"):
        ll.leave_one_covariate_out(raises, *few, cv=3, random_state=0, executor=client)


def test_other_verbs(client, forest):
    models = {"forest": forest, "function": a_function()}
    one = ll.compare(models, X[:80], Y[:80], loss="squared_error", shapley=False, random_state=0)
    other = ll.compare(models, X[:80], Y[:80], loss="squared_error", shapley=False, random_state=0, executor=client)
    assert one.difference("a", "forest", "function").value == pytest.approx(
        other.difference("a", "forest", "function").value
    )
    page = ll.report(forest, X, Y, rows=60, shapley=False, random_state=0, executor=client)
    assert "3 features" in repr(page)


def test_little_work_on_trees_stays_here(client, forest, monkeypatch):
    """1,200 rows in 10 large trees are 24 ms by count; two tasks alone take 20 and half of that is still to be done."""
    monkeypatch.setattr(workers.Cluster, "map", lambda *_: pytest.fail("it travelled"))
    assert ll.feature_importance(forest, X, Y, executor=client)["a"].engine == "trees"


def test_a_plan_knows_the_cluster(client, folder, forest):
    data, files = (forest, X, Y), (forest, folder, "y")
    assert ll.plan(ll.feature_importance, *data, executor=client).workers == 0  # little work stays here
    asked = ll.plan(ll.feature_importance, a_function(), X, Y, loss="squared_error", executor=client)
    assert asked.workers == 2
    assert "on a cluster of 2 threads" in repr(asked)
    shared = ll.plan(ll.shapley_importance, a_function(), X, Y, loss="squared_error", executor=client)
    assert shared.workers == 2
    streamed = ll.plan(ll.feature_importance, *files, executor=client)
    assert (streamed.workers, streamed.parts, streamed.engine) == (2, 4, "trees")
    assert "on a cluster of 2 threads" in repr(streamed)


def test_one_part_that_fits_is_loaded(client, tmp_path, forest):
    """Nothing could be read side by side, and a result in memory tells more."""
    X.assign(y=Y).to_parquet(tmp_path / "one.parquet")
    found = ll.feature_importance(forest, tmp_path / "one.parquet", "y", executor=client)
    assert found["a"].totals is None


def test_a_plan_of_a_closed_client_is_one_clear_error(folder, forest):
    with distributed.Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=":0") as gone:
        pass
    for data in ((X, Y), (folder, "y")):
        with pytest.raises(ConnectionError, match="closed"):
            ll.plan(ll.feature_importance, forest, *data, executor=gone)


def test_parts_on_a_cluster_are_the_parts_in_memory(client, folder, forest):
    there = ll.feature_importance(forest, folder, "y", executor=client, random_state=0)
    same(ll.feature_importance(forest, X, Y), there)
    assert there["a"].totals.n == N
    serial = ll.feature_importance(forest, folder, "y", memory=200_000, random_state=0)
    assert [serial[name].pfi for name in X] == pytest.approx([there[name].pfi for name in X], rel=1e-12)


def test_latin_donors_do_not_hang_on_who_works(client, folder):
    options = {"loss": "squared_error", "donors": ll.Latin(3), "random_state": 0, "memory": 200_000}
    here = ll.feature_importance(a_function(), folder, "y", **options)
    same(here, ll.feature_importance(a_function(), folder, "y", executor=client, **options))


def test_a_worker_that_is_killed_loses_nothing(client, folder, tmp_path):
    options = {"loss": "squared_error", "donors": ll.Latin(3), "random_state": 0, "memory": 200_000}
    truth = ll.feature_importance(a_function(), folder, "y", **options)
    same(truth, ll.feature_importance(Once(tmp_path), folder, "y", executor=client, **options))
    assert (tmp_path / "killed0").exists()
    in_memory = tmp_path / "in_memory"
    in_memory.mkdir()
    there = ll.feature_importance(Once(in_memory), X, Y, loss="squared_error", random_state=0, executor=client)
    same(ll.feature_importance(a_function(), X, Y, loss="squared_error", random_state=0), there)
    assert (in_memory / "killed0").exists()


def after_the_first_answer(monkeypatch, disaster) -> list[int]:
    """From now on `disaster` happens once, as soon as a cluster has given its first answer."""
    plain, happened = workers.Cluster.map, []

    def interrupted(self, *work):
        for answer in plain(self, *work):
            if not happened:
                happened.append(1)
                disaster()
            yield answer

    monkeypatch.setattr(workers.Cluster, "map", interrupted)
    return happened


def test_all_workers_killed_and_restarted(client, folder, monkeypatch):
    """Their nannies start them again; what was under way is done again."""

    def kill_all():
        for pid in client.run(os.getpid).values():
            os.kill(pid, signal.SIGKILL)

    linear = LinearRegression().fit(X, Y)
    client.wait_for_workers(2, timeout=600)  # those that an earlier test has killed
    happened = after_the_first_answer(monkeypatch, kill_all)
    same(ll.feature_importance(linear, X, Y), ll.feature_importance(linear, folder, "y", executor=client))
    assert happened


def test_a_cluster_without_workers_is_one_clear_error(folder, monkeypatch):
    monkeypatch.setattr(workers, "CHECK_INTERVAL", 0.2)
    monkeypatch.setattr(workers, "WORKER_TIMEOUT", 0.5)
    nobody = distributed.LocalCluster(n_workers=0, dashboard_address=":0", processes=False)
    with nobody, distributed.Client(nobody) as idle, pytest.raises(ConnectionError, match="has had no worker"):
        ll.feature_importance(LinearRegression().fit(X, Y), folder, "y", executor=idle, memory=200_000)


def test_a_cluster_that_goes_away_is_one_clear_error(folder, tmp_path, monkeypatch):
    saved, linear = tmp_path / "result", LinearRegression().fit(X, Y)
    other = distributed.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=":0", processes=False)
    with distributed.Client(other) as gone:
        happened = after_the_first_answer(monkeypatch, other.close)
        with pytest.raises(ConnectionError, match=r"connection to the cluster was lost.*Nothing was written"):
            ll.feature_importance(linear, folder, "y", executor=gone).save(saved)
    with pytest.raises(ConnectionError, match="closed"):
        ll.feature_importance(linear, folder, "y", executor=gone).save(saved)
    assert happened
    assert not saved.exists()


def test_an_executor_is_a_client(forest):
    with pytest.raises(TypeError, match=r"dask\.distributed Client"):
        ll.feature_importance(forest, X, Y, executor=2)
