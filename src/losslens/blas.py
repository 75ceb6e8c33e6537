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


class _Limit:
    """The limit of this process: set by the first thread that enters, lifted by the last that leaves.

    Limits that each thread sets and restores by itself would overlap, and leave BLAS at one thread for good.
    """

    lock = threading.Lock()
    threads = 0
    limited: Any = None


@contextmanager
def one_thread() -> Iterator[None]:
    """Context manager or decorator for small linear algebra; not for inner loops, nor around the user's model."""
    with _Limit.lock:
        if _Limit.threads == 0:
            _Limit.limited = _libraries("scipy.linalg" in sys.modules).limit(limits=1, user_api="blas")
        _Limit.threads += 1
    try:
        yield
    finally:
        with _Limit.lock:
            _Limit.threads -= 1
            if _Limit.threads == 0:
                _Limit.limited.restore_original_limits()


@lru_cache(maxsize=2)
def _libraries(scipy: bool) -> Any:
    """The loaded BLAS libraries, cached because the search takes milliseconds. SciPy loads one of its own."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
