"""Work in order, errors that name a part, progress from wherever it is done, joblib's settings."""

import pickle
import threading
from contextlib import closing
from dataclasses import dataclass

import joblib
import pytest

from losslens import workers
from losslens.workers import PerThread, Processes, Serial, Threads


@dataclass(frozen=True)
class Part:
    k: int

    @property
    def name(self):
        return f"part {self.k}"


def double(shared, part, tick):
    if part.k == shared.get("bad"):
        raise shared["error"]
    return shared["times"] * part.k


@pytest.mark.parametrize("who", [Serial(), Threads(2), Processes(2)])
def test_results_come_in_the_order_of_the_parts(who):
    ticks = []

    def twice(shared, part, tick):  # a function by value: processes don't know this module
        tick(part)
        return shared * part

    with joblib.parallel_config("loky"):
        assert list(who.map(twice, 2, range(7), ticks.append)) == [0, 2, 4, 6, 8, 10, 12]
    assert sum(ticks) == sum(range(7))


@pytest.mark.parametrize("who", [Serial(), Threads(2)])
@pytest.mark.parametrize(
    ("error", "kind"), [(ValueError("too much"), ValueError), (KeyError("too much"), RuntimeError)]
)
def test_an_error_names_its_part(who, error, kind):
    with pytest.raises(kind, match=r"part 3: .*too much"):
        list(who.map(double, {"times": 2, "bad": 3, "error": error}, map(Part, range(7))))


def test_a_missing_file_stays_what_it_is():
    with pytest.raises(FileNotFoundError, match=r"^gone$"):
        list(Serial().map(double, {"bad": 0, "error": FileNotFoundError("gone")}, [Part(0)]))


def test_parts_are_asked_for_as_they_are_needed():
    asked = []
    found = Serial().map(double, {"times": 1}, (asked.append(k) or Part(k) for k in range(5)))
    assert (next(found), next(found), asked) == (0, 1, [0, 1])


def test_threads_end_at_their_next_tick_once_nobody_waits():
    started, ended = threading.Event(), threading.Event()

    def endless(_, part, tick):
        if part == 0:
            return part
        started.set()
        try:
            while True:
                tick(0)
        finally:
            ended.set()

    found = Threads(2).map(endless, None, range(100))
    assert next(found) == 0
    assert started.wait(10)
    found.close()
    assert ended.wait(10)


def test_workers_of_a_call():
    assert workers.active() is None
    assert workers.choose_workers(None) == Serial()
    assert workers.choose_workers(1) == Serial()
    assert workers.choose_workers(3) == workers.in_process(3) == Threads(3)


def test_joblib_says_who_works_where_nobody_else_does():
    with joblib.parallel_config("threading", n_jobs=2):
        assert workers.choose_workers(None) == workers.in_process(None) == Threads(2)
    with joblib.parallel_config("loky", n_jobs=2):
        assert workers.choose_workers(None) == Processes(2)
        assert workers.choose_workers(3) == Processes(3)
        assert workers.in_process(2) == Threads(2)  # never processes: arrays are filled in place


def test_each_thread_has_its_own():
    def mine(own, part, tick):
        return own.get()

    own, other = PerThread(object), []
    assert len(set(Serial().map(mine, own, range(3)))) == 1
    thread = threading.Thread(target=lambda: other.append(own.get()))
    thread.start()
    thread.join()
    assert other[0] is not own.get()
    assert pickle.loads(pickle.dumps(own)).get() is not own.get()


def test_only_a_client_is_an_executor():
    assert workers.as_workers(None) is None
    with pytest.raises(TypeError, match=r"executor is a dask\.distributed Client.*got int"):
        workers.as_workers(4)


def test_an_error_after_the_caller_has_left_does_not_replace_the_callers_own():
    """Part 0 is done, the caller raises; part 1, still running, fails after that."""
    left = threading.Event()

    def late(shared, part, tick):
        if part == 1:
            left.wait(5)
            raise ValueError("late failure")
        return part

    def caller():
        with closing(Threads(2).map(late, None, range(2))) as results:
            next(results)
            left.set()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        caller()
