"""Linear algebra on small matrices, with one BLAS thread.

A product of matrices with tens of columns takes microseconds. Handing it to several threads takes longer than that, and
on busy cores, where a thread must wait for its turn, a thousand times longer.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any


@contextmanager
def one_thread() -> Iterator[None]:
    """Context manager or decorator for small linear algebra; not for inner loops, nor around the user's model."""
    with _libraries("scipy.linalg" in sys.modules).limit(limits=1, user_api="blas"):
        yield


@lru_cache(maxsize=2)
def _libraries(scipy: bool) -> Any:
    """The loaded BLAS libraries, cached because the search takes milliseconds. SciPy loads one of its own."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
