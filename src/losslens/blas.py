"""Linear algebra on small matrices, with one BLAS thread.

A product of matrices with tens of columns takes microseconds. Handing it to several threads takes longer than that, and
on busy cores, where a thread must wait for its turn, a thousand times longer.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

_limited = threading.Lock()  # held by the thread that has set the limit, which is that of the whole process


@contextmanager
def one_thread() -> Iterator[None]:
    """Context manager or decorator for small linear algebra; not for inner loops, nor around the user's model.

    The thread that sets the limit lifts it. One that comes meanwhile leaves it alone: limits that overlap would restore
    each other's, and some versions of threadpoolctl ignore a thread that lifts the limit of another.
    """
    if not _limited.acquire(blocking=False):
        yield
        return
    try:
        with _libraries("scipy.linalg" in sys.modules).limit(limits=1, user_api="blas"):
            yield
    finally:
        _limited.release()


@lru_cache(maxsize=2)
def _libraries(scipy: bool) -> Any:
    """The loaded BLAS libraries, cached because the search takes milliseconds. SciPy loads one of its own."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
