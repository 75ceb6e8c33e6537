"""Workers: this thread, threads or processes of this machine, or a cluster, with one interface: `map`.

A piece of work is ``work(shared, part, tick)``: `shared` is what all parts need (a model, settings), a part is small
and says where its data are. Results come in the order of the parts, so that sums over them don't depend on the workers.
"""

from __future__ import annotations

import functools
import os
import pickle
import sys
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any, ClassVar, Generic, ParamSpec, TypeAlias, TypeVar

from losslens.progress import Tick, silent
from losslens.tracebacks import shorten

S = TypeVar("S")
P = TypeVar("P")
R = TypeVar("R")
A = ParamSpec("A")
CHECK_INTERVAL, WORKER_TIMEOUT = 10.0, 120.0  # seconds between two checks for workers, and to wait for the first one
RETRIES = 3  # of a task, after a file that could not be read or a worker that died
RESTARTS = 3  # of the cluster, without a result between them
MOST_SHARED = 8  # objects kept on the cluster while a verb runs
DEATHS = {"ActorDiedError", "RayActorError", "WorkerCrashedError", "TerminatedWorkerError", "BrokenProcessPool"}
AHEAD = 2  # tasks submitted for each thread: enough to keep it busy, few enough for memory


# One part of the work: shared, part, tick -> result. It reports its progress to `tick`. After Ctrl-C `tick` raises, so
# that a part that ticks often, with 0 if need be, ends early.
Work: TypeAlias = Callable[[S, P, Tick], R]
# Seconds of the right order (`benchmarks.scale`), fixed: the choice is the same on every machine.
TASK = 0.01  # sending a task and receiving its result
WORKER_FACTOR = 1.6  # time on a worker / time in this process: it also serves its scheduler and frees memory at once
SENT_BYTE = 1e-8  # a byte from one machine to another: 1 Gbit a second


@dataclass(frozen=True)
class Serial:
    """One part after the other, in this thread."""

    grain: ClassVar[int] = 1  # small tasks in a part: fewer are not worth the overhead

    def map(self, work: Work[S, P, R], shared: S, parts: Iterable[P], tick: Tick = silent) -> Generator[R, None, None]:
        """The results, in order, each computed when it is requested."""
        return (_run_named(work, shared, part, tick) for part in parts)


@dataclass(frozen=True)
class Threads:
    """Threads of this process."""

    n_jobs: int
    grain: ClassVar[int] = 8

    def map(self, work: Work[S, P, R], shared: S, parts: Iterable[P], tick: Tick = silent) -> Generator[R, None, None]:
        """The results, in order; when the generator is closed, running threads end at their next tick."""
        from concurrent.futures import Future, ThreadPoolExecutor  # joblib looks for results every 10 ms only

        stop, todo, waiting = threading.Event(), iter(parts), deque[Future[Any]]()
        interrupts: list[BaseException] = []

        def tick_or_stop(rows: int, /) -> None:
            if stop.is_set():
                raise _Stopped
            tick(rows)

        def one(part: P) -> Any:
            try:
                return _run_named(work, shared, part, tick_or_stop)
            except _Stopped:
                return None
            except Exception:
                raise  # when its turn comes: the same error for any number of threads
            except BaseException as interrupt:  # such as Ctrl-C: it does not wait for the parts before
                interrupts.append(interrupt)
                stop.set()
                raise

        threads = ThreadPoolExecutor(self.n_jobs)
        try:
            waiting.extend(threads.submit(one, part) for part in islice(todo, AHEAD * self.n_jobs))
            while waiting:
                result = waiting.popleft().result()
                if interrupts:
                    raise interrupts[0]
                waiting.extend(threads.submit(one, part) for part in islice(todo, 1))
                yield result
        finally:
            stop.set()
            threads.shutdown(cancel_futures=True)


@dataclass(frozen=True)
class Processes:
    """Processes, or the backend of ``joblib.parallel_config``."""

    n_jobs: int
    one_by_one: bool = True  # whether the backend gives results as they come; those of Ray and Spark give lists
    grain: ClassVar[int] = 64

    def map(self, work: Work[S, P, R], shared: S, parts: Iterable[P], tick: Tick = silent) -> Generator[R, None, None]:
        """The results, in order."""
        from joblib import Parallel, delayed

        processes = Parallel(n_jobs=self.n_jobs, prefer="threads", return_as="generator" if self.one_by_one else "list")
        run = _run_and_count if self.one_by_one else _run_or_fail  # a list of Spark's has no room for an exception
        todo = (delayed(run)(work, shared, part) for part in parts)
        blocks = iter([todo]) if self.one_by_one else iter(lambda: [*islice(todo, AHEAD * self.n_jobs)], [])
        try:
            for result in chain.from_iterable(map(processes, blocks)):
                if isinstance(result, _Failed):
                    raise result.error() from None
                tick(result[1])
                yield result[0]
        except Exception as error:
            if type(error).__name__ in DEATHS or "_ExceptionWithTraceback" in str(error):  # so does joblibspark say it
                raise ConnectionError(_died(error)) from error
            raise


@dataclass(frozen=True, eq=False)
class FuturesPool:
    """Any `concurrent.futures.Executor`: threads, processes, or the workers of a cluster with that interface.

    What all parts need is sent with each part, and unpacked once by each process that works on some. A task of the
    executor itself must not call a verb with it: with one worker it would wait for itself.
    """

    grain: ClassVar[int] = 64
    executor: Any

    @property
    def threads(self) -> int:
        """The number of tasks it can run at a time, where it says so."""
        return int(getattr(self.executor, "_max_workers", None) or os.cpu_count() or 1)

    def map(self, work: Work[S, P, R], shared: S, parts: Iterable[P], tick: Tick = silent) -> Generator[R, None, None]:
        """The results, in order; as many tasks are submitted as keep the workers busy."""
        import cloudpickle

        packed, todo, waiting = cloudpickle.dumps((work, shared)), iter(parts), deque[Any]()
        try:
            while True:
                for part in islice(todo, AHEAD * self.threads - len(waiting)):
                    waiting.append(self._submit(packed, cloudpickle.dumps(part)))
                if not waiting:
                    return
                result = self._result(waiting.popleft())
                if isinstance(result, _Failed):
                    raise result.error() from None
                tick(result[1])
                yield result[0]
        finally:
            for future in waiting:
                future.cancel()
            _unpacked.cache_clear()  # threads share this process, which would keep the model

    def _submit(self, packed: bytes, part: bytes) -> Any:
        try:
            return self.executor.submit(_unpack_and_work, packed, part)
        except RuntimeError as error:  # it is shut down, or its processes are gone
            raise ConnectionError(
                f"the executor takes no more work ({error}): make a new one and call again"
            ) from error

    def _result(self, future: Any) -> Any:
        from concurrent.futures import BrokenExecutor

        try:
            return future.result()
        except BrokenExecutor as error:
            raise ConnectionError(_died(error)) from error


def _died(error: Exception) -> str:
    first = str(error).partition("\n")[0]
    return (
        f"a worker died ({first}), most often for lack of memory. Nothing was written; start new workers, lower "
        "memory=, and call again"
    )


@functools.lru_cache(maxsize=2)
def _unpacked(packed: bytes) -> Any:
    return pickle.loads(packed)


def _unpack_and_work(packed: bytes, part: bytes) -> Any:
    return _work(_unpacked(packed), part)


class PerThread(Generic[R]):
    """An object that every thread creates once for itself, such as a buffer."""

    def __init__(self, make: Callable[[], R]) -> None:
        self.make, self._local = make, threading.local()

    def get(self) -> R:
        """The object of this thread."""
        if not hasattr(self._local, "made"):
            self._local.made = self.make()
        made: R = self._local.made
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return PerThread, (self.make,)


class _Stopped(BaseException):
    """The result is no longer needed. A BaseException, so that no `except Exception` of a model catches it."""


@dataclass(frozen=True, eq=False)
class Cluster:
    """A dask.distributed cluster.

    Shared objects are sent once, as a task that unpickles them, not as scattered data: a task is repeated when its
    worker dies, scattered data are lost.
    """

    grain: ClassVar[int] = 64
    client: Any
    sent: dict[Any, tuple[Any, Any]] = field(default_factory=dict)  # shared objects and their futures

    @property
    def threads(self) -> int:
        """The number of tasks it can run at a time."""
        try:
            return max(1, int(sum(self.client.nthreads().values())))
        except Exception as error:
            raise ConnectionError(
                f"the connection to the cluster was lost ({error!r}); connect a new Client and call again"
            ) from error

    def map(self, work: Work[S, P, R], shared: S, parts: Iterable[P], tick: Tick = silent) -> Generator[R, None, None]:
        """The results, in order; as many tasks are submitted as keep the cluster busy."""
        run = _ClusterRun(self, work, shared)
        todo, waiting = iter(parts), deque[tuple[Any, Any]]()
        try:
            while True:
                for part in islice(todo, run.ahead - len(waiting)):
                    waiting.append((part, run.submit(part)))
                if not waiting:
                    return
                result, rows = run.result(waiting)
                tick(rows)
                yield result
        finally:
            run.cancel(future for _, future in waiting)


Elsewhere: TypeAlias = Cluster | FuturesPool  # what `executor=` may be
Workers: TypeAlias = Serial | Threads | Processes | Elsewhere


class _ClusterRun:
    """The tasks of one call of `map`."""

    def __init__(self, cluster: Cluster, work: Callable[..., Any], shared: Any) -> None:
        self.cluster, self.client, self.done, self.restarts = cluster, cluster.client, 0, 0
        self.objects = (work, shared)
        # The same objects, as for block after block of rows, are not sent again.
        self.key = (work, *map(id, shared if isinstance(shared, tuple) else (shared,)))
        with self._connected():
            self.ahead = max(4, AHEAD * sum(self.client.nthreads().values()))
            self.shared = self.cluster.sent[self.key][1] if self.key in self.cluster.sent else self._share()

    def _share(self) -> Any:
        import cloudpickle

        with warnings.catch_warnings():
            # A large model has to be sent: as part of the graph, the scheduler keeps it when a worker dies.
            warnings.filterwarnings("ignore", "Sending large graph", UserWarning)
            packed = cloudpickle.dumps(self.objects)
            shared = self.client.submit(pickle.loads, packed, retries=RETRIES, pure=False)
        self.cluster.sent[self.key] = (self.objects, shared)
        while len(self.cluster.sent) > MOST_SHARED:
            self.cluster.sent.pop(next(iter(self.cluster.sent)))
        return shared

    def submit(self, part: Any) -> Any:
        import cloudpickle

        with self._connected(), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Sending large graph", UserWarning)
            packed = cloudpickle.dumps(part)
            return self.client.submit(_work, self.shared, packed, retries=RETRIES, pure=False)

    def result(self, waiting: deque[tuple[Any, Any]]) -> Any:
        """The result of the first part; tasks that a restart of the cluster cancelled are submitted again."""
        import asyncio
        import concurrent.futures

        from distributed.scheduler import KilledWorker

        while True:
            part, future = waiting[0]
            try:
                result = self._wait_for(future)
            except (asyncio.CancelledError, concurrent.futures.CancelledError) as error:
                self._resubmit(waiting, error)
                continue
            except KilledWorker as error:
                self.cancel(other for _, other in waiting)
                raise RuntimeError(
                    f"{_name(part) or 'a task'}: its workers died, one after the other ({error}), most often for lack "
                    "of memory; give them more, or lower memory="
                ) from error
            waiting.popleft()
            if isinstance(result, _Failed):
                raise result.error() from None
            self.done, self.restarts = self.done + 1, 0
            return result

    def _wait_for(self, future: Any) -> Any:
        """The result of a task, however long it takes, as long as the cluster has workers."""
        while True:
            try:
                with self._connected():
                    return future.result(timeout=CHECK_INTERVAL)
            except TimeoutError:
                if future.status != "pending":  # the task's own
                    raise
            if not _wait_for_workers(self.client, WORKER_TIMEOUT):
                raise ConnectionError(
                    f"the cluster has had no worker for {WORKER_TIMEOUT:.0f} seconds, after {self.done} parts. "
                    "Nothing was written; start workers and call again"
                )

    def _resubmit(self, waiting: deque[tuple[Any, Any]], error: BaseException) -> None:
        self.restarts += 1
        if self.restarts > RESTARTS or not _wait_for_workers(self.client):
            raise self._lost(error) from error
        with self._connected():
            self.shared = self._share()
        for k, (part, _) in enumerate(list(waiting)):
            waiting[k] = (part, self.submit(part))

    def cancel(self, futures: Iterable[Any]) -> None:
        """Cancel tasks whose results are no longer needed."""
        if not (left := list(futures)):
            return
        try:
            self.client.cancel(left, force=True)
        except Exception:  # noqa: BLE001 - whatever a lost cluster raises: there is nothing left to cancel
            return

    @contextmanager
    def _connected(self) -> Iterator[None]:
        from distributed.comm.core import CommClosedError

        try:
            yield
        except Exception as error:
            # A closed client raises various exceptions; with a running client the exception is the task's own.
            if self.client.status == "running" and not isinstance(error, CommClosedError):
                raise
            raise self._lost(error) from error

    def _lost(self, error: BaseException) -> ConnectionError:
        return ConnectionError(
            f"the connection to the cluster was lost after {self.done} parts ({error!r}). Nothing was written; "
            "connect a new Client and call again"
        )


def _wait_for_workers(client: Any, seconds: float = 30.0) -> bool:
    """Wait for workers; False if there are none in time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if client.status == "closed":
            return False
        try:
            if client.status == "running" and client.scheduler_info()["workers"]:
                return True
        except Exception:  # noqa: BLE001 - whatever a restarting cluster raises
            pass
        time.sleep(0.1)
    return False


def _work(shared: tuple[Callable[..., Any], Any], packed: bytes) -> Any:
    """One part, on a worker."""
    return _run_or_fail(*shared, pickle.loads(packed))


def _run_or_fail(work: Work[S, P, R], shared: S, part: P) -> Any:
    """One part. An exception of the model is returned, not raised: repeating the task would not help."""
    try:
        return _run_and_count(work, shared, part)
    except OSError:
        raise  # a file may be readable a moment later: the task is repeated
    except Exception as error:  # noqa: BLE001 - whatever the model raises is reported to the caller
        return _Failed(type(error).__name__, str(error))


@dataclass(frozen=True)
class _Failed:
    """The exception of a part as text: its class may not exist in the calling process."""

    kind: str
    text: str

    def error(self) -> Exception:
        kinds: dict[str, type[Exception]] = {"ValueError": ValueError, "TypeError": TypeError}
        kind = kinds.get(self.kind)
        if kind is not None:
            return kind(self.text)
        return RuntimeError(self.text if self.kind == "RuntimeError" else f"{self.kind}: {self.text}")


def _run_and_count(work: Work[S, P, R], shared: S, part: P) -> tuple[R, int]:
    """Work on a part in another process; returns the result and the sum of its ticks."""
    ticks: list[int] = []
    return _run_named(work, shared, part, ticks.append), sum(ticks)


def _run_named(work: Work[S, P, R], shared: S, part: P, tick: Tick) -> R:
    """Work on a part; an error names it."""
    try:
        return work(shared, part, tick)
    except OSError:
        raise
    except Exception as error:
        name = _name(part)
        if not name or str(error).startswith(name):
            raise
        kind = type(error) if type(error) in (ValueError, TypeError) else RuntimeError
        raise kind(f"{name}: {error if kind is type(error) else repr(error)}") from error


def _name(part: Any) -> str:
    return str(getattr(part, "name", ""))


# Which workers a verb uses: set once, when it is called.

_ACTIVE: ContextVar[Elsewhere | None] = ContextVar("losslens_executor", default=None)


def active() -> Elsewhere | None:
    """The workers of the running verb's executor, or None."""
    return _ACTIVE.get()


@contextmanager
def _holding(variable: ContextVar[R], value: R) -> Iterator[None]:
    """A variable with a value, for a while."""
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


def here() -> AbstractContextManager[None]:
    """Work in this process, also inside a verb that has a cluster."""
    return _holding(_ACTIVE, None)


def choose_workers(n_jobs: int | None) -> Workers:
    """The cluster of the running verb, else joblib's backend: threads by default."""
    return active() or _joblib(n_jobs, prefer="threads")


def in_process(n_jobs: int | None) -> Workers:
    """Threads of this process, for work that fills arrays in place, or is too short to send."""
    return _joblib(n_jobs, require="sharedmem")


def _joblib(n_jobs: int | None, **kind: Any) -> Workers:
    if n_jobs == 1 or (n_jobs is None and "joblib" not in sys.modules):  # joblib can't be configured yet
        return Serial()
    from joblib import Parallel
    from joblib.parallel import get_active_backend

    backend, _ = get_active_backend(**kind)
    count = backend.effective_n_jobs(Parallel(n_jobs=n_jobs, **kind).n_jobs)
    if count == 1:
        return Serial()
    if getattr(backend, "supports_sharedmem", False):
        return Threads(count)
    return Processes(count, bool(getattr(backend, "supports_return_generator", False)))


def as_workers(executor: Any) -> Elsewhere | None:
    """The argument ``executor=`` as workers; None for this machine."""
    if executor is None or isinstance(executor, Cluster | FuturesPool):
        return executor
    ancestors = {f"{cls.__module__.partition('.')[0]}.{cls.__name__}" for cls in type(executor).__mro__}
    if "concurrent.Executor" in ancestors:
        return FuturesPool(executor)
    if "distributed.Client" not in ancestors:
        raise TypeError(
            "executor is a dask.distributed Client, a concurrent.futures.Executor, or None for this machine "
            f"(n_jobs= says how many threads); got {type(executor).__name__}"
        )
    if executor.asynchronous:
        raise ValueError("executor is an asynchronous Client; connect one with Client(address)")
    if executor.status != "running":
        raise ConnectionError(f"executor is a Client that is {executor.status}; connect it to a cluster first")
    return Cluster(executor)


_WARNED: ContextVar[set[str] | None] = ContextVar("losslens_warned", default=None)


def warn_once(text: str) -> None:
    """Warn the caller of a verb, once in a call, whatever further verbs it calls."""
    warned = _WARNED.get()
    if warned is not None:
        if text in warned:
            return
        warned.add(text)
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "losslens":
        level, frame = level + 1, frame.f_back
    warnings.warn(text, UserWarning, stacklevel=level)


def with_executor(verb: Callable[A, R]) -> Callable[A, R]:
    """Decorator of verbs: their work runs on ``executor=``, and they give each warning once, and errors in brief."""

    @functools.wraps(verb)
    def run(*args: A.args, **kwargs: A.kwargs) -> R:
        cluster, warned = as_workers(kwargs.get("executor")), _WARNED.get()
        # Inside another verb that verb's executor is used, and what it has warned of is not said again.
        with _holding(_ACTIVE, cluster or active()), _holding(_WARNED, set() if warned is None else warned):
            try:
                return verb(*args, **kwargs)
            except Exception as error:
                shorten(error)
                raise

    return run


def on_a_cluster(seconds: float, tasks: int, threads: int, sent: int) -> float:
    """Time of so many seconds of work in tasks of equal size: in the last round some threads are idle."""
    return WORKER_FACTOR * seconds * -(-tasks // threads) / tasks + tasks * TASK + sent * SENT_BYTE
