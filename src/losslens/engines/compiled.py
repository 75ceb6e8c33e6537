"""How kernels are compiled: once, cached on disk if possible, and releasing Python's global lock."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numba
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

# numba found no folder for its cache, could not write to it, or could not read the files of another version.
_NO_CACHE = (RuntimeError, OSError, AttributeError, ImportError, EOFError, pickle.UnpicklingError)
# Without the global lock; without C wrappers and tests for division by zero, which take a quarter of compile time.
_OPTIONS: dict[str, Any] = {"nogil": True, "no_cfunc_wrapper": True, "error_model": "numpy"}


def compiled(signature: Any, **options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Compile a function for one signature when its module is imported, or load it from the cache.

    Without a writable folder (a read-only installation and home) it is compiled in each process.
    """

    def compile_or_load(function: Callable[..., Any]) -> Any:
        try:
            return numba.njit(signature, cache=True, **_OPTIONS, **options)(function)
        except _NO_CACHE:
            return numba.njit(signature, **_OPTIONS, **options)(function)

    return compile_or_load


@intrinsic
def trailing_zeros(_: Any, word: Any) -> Any:
    """Position of the lowest set bit of a nonzero word."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.uint64), emit


@intrinsic
def count_bits(_: Any, word: Any) -> Any:
    """Number of set bits of a word."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.int64(types.uint64), emit
