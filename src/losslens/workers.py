"""Who does the work: this thread, threads or processes of this machine, or a cluster. One seam: `map`, in order.

A piece of work is ``work(shared, part, tick)``: `shared` is what all parts need (a model, settings), a part is small
and says where its data are. Results come in the order of the parts, so that sums over them can't depend on the workers.
"""

from __future__ import annotations

import functools
import inspect
import io
import pickle
import sys
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Any, ClassVar, Generic, ParamSpec, Protocol, TypeVar

from losslens.progress import Tick, silent

S = TypeVar("S")
P = TypeVar("P")
R = TypeVar("R")
S_contra = TypeVar("S_contra", contravariant=True)
P_contra = TypeVar("P_contra", contravariant=True)
R_co = TypeVar("R_co", covariant=True)
A = ParamSpec("A")
PATIENCE, NOBODY = 10.0, 120.0  # seconds until somebody looks whether there are workers, and until there have to be
RETRIES = 3  # of a task whose file could not be read, or whose worker died
RESTARTS = 3  # of the whole cluster, while nothing new is done
MOST_SHARED = 8  # things that were shared and are kept on the cluster while a verb runs
AHEAD = 2  # tasks handed out for each thread of the cluster: enough to keep it busy, few enough to hold


class Work(Protocol[S_contra, P_contra, R_co]):
    """One part of the work.

    It reports its progress to `tick`, wherever it runs; `tick` raises once nobody waits for the result any more
    (Ctrl-C), so that a part that ticks often, with 0 if need be, ends early.
    """

    def __call__(self, shared: S_contra, part: P_contra, tick: Tick, /) -> R_co:
        """The result of a part."""


class Workers(Protocol):
    """Do work on parts."""

    grain: ClassVar[int]  # how many small tasks make a part that is worth handing out

    def map(self, work: Work[S, P, R], shared: S, parts: Iterable[P], tick: Tick = silent) -> Generator[R, None, None]:
        """The results, in the order of the parts; a part that fails is named (`name`, where it has one)."""


@dataclass(frozen=True)
class Serial:
    """One part after the other, in this thread."""

    grain: ClassVar[int] = 1

    def map(self, work: Work[S, P, R], shared: S, parts: Iterable[P], tick: Tick = silent) -> Generator[R, None, None]:
        """The results, in order, each when it is asked for."""
        return (_named(work, shared, part, tick) for part in parts)


@dataclass(frozen=True)
class Threads:
    """Threads of this process."""

    n_jobs: int
    grain: ClassVar[int] = 8

    def map(self, work: Work[S, P, R], shared: S, parts: Iterable[P], tick: Tick = silent) -> Generator[R, None, None]:
        """The results, in order; threads that are still at work when it is closed end at their next tick."""
        from joblib import Parallel, delayed

        stop, results = threading.Event(), iter(())

        def tick_or_stop(rows: int, /) -> None:
            if stop.is_set():
                raise _Stopped
            tick(rows)

        def one(part: P) -> Any:
            if stop.is_set():
                return None
            try:
                return _named(work, shared, part, tick_or_stop)
            except _Stopped:
                return None

        threads = Parallel(n_jobs=self.n_jobs, require="sharedmem", return_as="generator")
        try:  # around the call too, because it hands out work already
            results = threads(delayed(one)(part) for part in takewhile(lambda _: not stop.is_set(), parts))
            for result in results:  # noqa: UP028 - `yield from` would close it too, and joblib warn of unread results
                yield result
        finally:
            stop.set()
            deque(results, maxlen=0)


@dataclass(frozen=True)
class Processes:
    """Processes, or whatever else ``joblib.parallel_config`` says."""

    n_jobs: int
    grain: ClassVar[int] = 64

    def map(self, work: Work[S, P, R], shared: S, parts: Iterable[P], tick: Tick = silent) -> Generator[R, None, None]:
        """The results, in order."""
        from joblib import Parallel, delayed

        processes = Parallel(n_jobs=self.n_jobs, prefer="threads", return_as="generator")
        for result, rows in processes(delayed(_counted)(work, shared, part) for part in parts):
            tick(rows)
            yield result


class PerThread(Generic[R]):
    """Something that every thread makes once for itself, such as a buffer to work in."""

    def __init__(self, make: Callable[[], R]) -> None:
        self.make, self._local = make, threading.local()

    def get(self) -> R:
        """That of this thread."""
        if not hasattr(self._local, "made"):
            self._local.made = self.make()
        made: R = self._local.made
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return PerThread, (self.make,)


class _Stopped(BaseException):
    """Nobody waits for the result any more. No model's own `except Exception` may catch it."""


@dataclass(frozen=True, eq=False)
class SharedObject:
    """A model that lives on the cluster: tasks get it there, and it never travels again."""

    model: Any
    future: Any


@dataclass(frozen=True, eq=False)
class Cluster:
    """A dask.distributed cluster.

    What is shared travels once, as a task of its own that unpacks it, not as scattered data: a task is done again when
    its worker dies, and data that somebody put there are not.
    """

    grain: ClassVar[int] = 64
    client: Any
    model: SharedObject | None = None
    known: dict[Any, tuple[Any, Any]] = field(default_factory=dict)  # what was shared before, with its future

    @property
    def threads(self) -> int:
        """How many tasks it can do at a time."""
        try:
            return max(1, int(sum(self.client.nthreads().values())))
        except Exception as error:
            raise ConnectionError(f"the cluster went away ({error!r}); connect a new Client and call again") from error

    def map(self, work: Work[S, P, R], shared: S, parts: Iterable[P], tick: Tick = silent) -> Generator[R, None, None]:
        """The results, in order; as many tasks are under way as keep the cluster busy."""
        run = _ClusterRun(self, work, shared)
        todo, waiting = enumerate(parts), deque[tuple[Any, Any]]()
        try:
            while True:
                while len(waiting) < run.ahead and (more := next(todo, None)) is not None:
                    waiting.append((more[1], run.submit(more[1])))
                if not waiting:
                    return
                result, rows = run.result(waiting)
                tick(rows)
                yield result
        finally:
            run.cancel(future for _, future in waiting)


class _ClusterRun:
    """Tasks of one call."""

    def __init__(self, cluster: Cluster, work: Callable[..., Any], shared: Any) -> None:
        self.cluster, self.client, self.done, self.restarts = cluster, cluster.client, 0, 0
        self.given = (work, shared)
        # The same things again, as in block after block of rows, need not travel again.
        self.key = (work, *map(id, shared if isinstance(shared, tuple) else (shared,)))
        with self._connected():
            self.ahead = max(4, AHEAD * sum(self.client.nthreads().values()))
            self.shared = self.cluster.known[self.key][1] if self.key in self.cluster.known else self._share()

    def _share(self) -> Any:
        blob = _packed(self.given, self.cluster.model)
        with warnings.catch_warnings():
            # A large model has to travel: as part of the graph, it is known to the scheduler and survives any worker.
            warnings.filterwarnings("ignore", "Sending large graph", UserWarning)
            model = None if self.cluster.model is None else self.cluster.model.future
            shared = self.client.submit(_unpacked, blob, model, retries=RETRIES, pure=False)
        self.cluster.known[self.key] = (self.given, shared)
        while len(self.cluster.known) > MOST_SHARED:
            self.cluster.known.pop(next(iter(self.cluster.known)))
        return shared

    def submit(self, part: Any) -> Any:
        import cloudpickle

        with self._connected(), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Sending large graph", UserWarning)
            packed = cloudpickle.dumps(part)
            return self.client.submit(_work, self.shared, packed, retries=RETRIES, pure=False)

    def result(self, waiting: deque[tuple[Any, Any]]) -> Any:
        """That of the first part; what a restart of the cluster has cancelled is handed out again."""
        while True:
            part, future = waiting[0]
            try:
                found = self._patiently(future)
            except _cancelled() as error:
                self._again(waiting, error)
                continue
            except _killed() as error:
                self.cancel(other for _, other in waiting)
                raise RuntimeError(
                    f"{_name(part)}: the workers that took it died, one after the other ({error}); most often "
                    "they are short of memory: give them more, or lower memory="
                ) from error
            waiting.popleft()
            if isinstance(found, _Failed):
                raise found.error() from None
            self.done, self.restarts = self.done + 1, 0
            return found

    def _patiently(self, future: Any) -> Any:
        """What a task gave, however long it takes, as long as somebody is there to do it."""
        while True:
            try:
                with self._connected():
                    return future.result(timeout=PATIENCE)
            except TimeoutError:
                if future.status != "pending":  # the task's own
                    raise
            if not _wait_for_workers(self.client, NOBODY):
                raise ConnectionError(
                    f"the cluster has had no worker for {NOBODY:.0f} seconds, after {self.done} parts were done. "
                    "Nothing was written; start workers and call again"
                )

    def _again(self, waiting: deque[tuple[Any, Any]], error: BaseException) -> None:
        self.restarts += 1
        if self.restarts > RESTARTS or not _wait_for_workers(self.client):
            raise self._gone(error) from error
        with self._connected():
            self.shared = self._share()
        for k, (part, _) in enumerate(list(waiting)):
            waiting[k] = (part, self.submit(part))

    def cancel(self, futures: Iterable[Any]) -> None:
        """Nobody waits for these any more."""
        if not (left := list(futures)):
            return
        try:
            self.client.cancel(left, force=True)
        except Exception:  # noqa: BLE001 - whatever a cluster raises that is gone: there is nothing left to cancel
            return

    @contextmanager
    def _connected(self) -> Iterator[None]:
        from distributed.comm.core import CommClosedError

        try:
            yield
        except Exception as error:
            # A closed client has many ways to say so; what a task raised itself comes with a client that runs.
            if self.client.status == "running" and not isinstance(error, CommClosedError):
                raise
            raise self._gone(error) from error

    def _gone(self, error: BaseException) -> ConnectionError:
        return ConnectionError(
            f"the cluster went away after {self.done} parts were done ({error!r}). Nothing was written; connect a new "
            "Client and call again"
        )


def _wait_for_workers(client: Any, seconds: float = 30.0) -> bool:
    """Whether the cluster has workers (again)."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if client.status == "closed":
            return False
        try:
            if client.status == "running" and client.scheduler_info()["workers"]:
                return True
        except Exception:  # noqa: BLE001 - whatever a cluster raises while it comes back
            pass
        time.sleep(0.1)
    return False


def _cancelled() -> tuple[type[BaseException], ...]:
    import asyncio
    import concurrent.futures

    return asyncio.CancelledError, concurrent.futures.CancelledError


def _killed() -> tuple[type[BaseException], ...]:
    from distributed.scheduler import KilledWorker

    return (KilledWorker,)


def _packed(thing: Any, lent: SharedObject | None) -> bytes:
    """Anything as bytes, but for a model that is on the cluster already."""
    room = io.BytesIO()
    _pack(thing, lent, room)
    return room.getvalue()


def _pack(thing: Any, lent: SharedObject | None, room: Any) -> None:
    import cloudpickle

    class Packer(cloudpickle.Pickler):  # type: ignore[misc]
        def persistent_id(self, part: Any) -> str | None:
            return "model" if lent is not None and part is lent.model else None

    Packer(room).dump(thing)


class _Scales:
    """A file that weighs what is written and keeps nothing."""

    def __init__(self) -> None:
        self.size = 0

    def write(self, some: Any) -> int:
        self.size += memoryview(some).nbytes
        return memoryview(some).nbytes


def packed_size(thing: Any, cluster: Cluster) -> int:
    """How many bytes would travel to a worker."""
    scales = _Scales()
    _pack(thing, cluster.model, scales)
    return scales.size


class _Unpacker(pickle.Unpickler):
    def __init__(self, blob: bytes, model: Any) -> None:
        super().__init__(io.BytesIO(blob))
        self.model = model

    def persistent_load(self, name: Any) -> Any:
        return self.model


def _unpacked(blob: bytes, model: Any = None) -> Any:
    return _Unpacker(blob, model).load()


def _work(shared: tuple[Callable[..., Any], Any], packed: bytes) -> Any:
    """One part, on a worker. An error of the model's own comes back as an answer: to try again would not help it."""
    work, given = shared
    try:
        return _counted(work, given, pickle.loads(packed))
    except OSError:
        raise  # a file that can't be read now may be there in a moment: the task is tried again
    except Exception as error:  # noqa: BLE001 - whatever the model raises, the caller shall hear
        return _Failed(type(error).__name__, str(error))


@dataclass(frozen=True)
class _Failed:
    """What a part raised, in words: the class of an exception may not be known elsewhere."""

    kind: str
    text: str

    def error(self) -> Exception:
        kinds: dict[str, type[Exception]] = {"ValueError": ValueError, "TypeError": TypeError}
        known = kinds.get(self.kind)
        if known is not None:
            return known(self.text)
        return RuntimeError(self.text if self.kind == "RuntimeError" else f"{self.kind}: {self.text}")


def _counted(work: Work[S, P, R], shared: S, part: P) -> tuple[R, int]:
    """Work on a part in another process; what it ticked travels back with the result."""
    ticks: list[int] = []
    return _named(work, shared, part, ticks.append), sum(ticks)


def _named(work: Work[S, P, R], shared: S, part: P, tick: Tick) -> R:
    """Work on a part; an error says which."""
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


# Which workers a verb uses: said once, at its door.

_ACTIVE: ContextVar[Cluster | None] = ContextVar("losslens_cluster", default=None)


def active() -> Cluster | None:
    """The cluster of the verb that is running, or None."""
    return _ACTIVE.get()


def chosen(n_jobs: int | None) -> Workers:
    """The cluster of the verb that is running, else what joblib is set to: threads where nobody says otherwise."""
    return active() or _joblib(n_jobs, prefer="threads")


def in_process(n_jobs: int | None) -> Workers:
    """Threads of this process, for work that fills arrays in place, or is done sooner than it would travel."""
    return _joblib(n_jobs, require="sharedmem")


def _joblib(n_jobs: int | None, **kind: Any) -> Workers:
    if n_jobs == 1 or (n_jobs is None and "joblib" not in sys.modules):  # nobody can have asked joblib for workers
        return Serial()
    from joblib import Parallel
    from joblib.parallel import get_active_backend

    backend, _ = get_active_backend(**kind)
    count = backend.effective_n_jobs(Parallel(n_jobs=n_jobs, **kind).n_jobs)
    if count == 1:
        return Serial()
    return Threads(count) if getattr(backend, "supports_sharedmem", False) else Processes(count)


def as_cluster(executor: Any) -> Cluster | None:
    """What users pass as ``executor=``."""
    if executor is None or isinstance(executor, Cluster):
        return executor
    known = {f"{cls.__module__.partition('.')[0]}.{cls.__name__}" for cls in type(executor).__mro__}
    if "distributed.Client" not in known:
        raise TypeError(
            f"executor is a dask.distributed Client, or None for this machine (n_jobs= says how many threads); "
            f"got {type(executor).__name__}"
        )
    if executor.asynchronous:
        raise ValueError("executor is an asynchronous Client; connect one with Client(address)")
    if executor.status != "running":
        raise ConnectionError(f"executor is a Client that is {executor.status}; connect it to a cluster first")
    return Cluster(executor)


def anywhere(verb: Callable[A, R]) -> Callable[A, R]:
    """A verb whose ``executor=`` says where its work is done."""

    @functools.wraps(verb)
    def run(*args: A.args, **kwargs: A.kwargs) -> R:
        cluster = as_cluster(kwargs.get("executor"))
        if cluster is None:  # inside another verb the outer one has said it
            return verb(*args, **kwargs)
        first = next(iter(inspect.signature(verb).parameters))  # the model, or the estimator
        model = args[0] if args else kwargs.get(first)
        if hasattr(model, "result") and hasattr(model, "client"):  # a future of dask's
            lent = SharedObject(model.result(), model)
            cluster = replace(cluster, model=lent)
            if args:
                args = (lent.model, *args[1:])  # type: ignore[assignment]
            else:
                kwargs[first] = lent.model
        token = _ACTIVE.set(cluster)
        try:
            return verb(*args, **kwargs)
        finally:
            _ACTIVE.reset(token)

    return run
