"""How kernels are compiled: once, kept on disk where that is possible, and free of Python's lock."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numba
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

# numba found no folder for its cache, could not write into it, or not read what another version left there.
_NO_CACHE = (RuntimeError, OSError, AttributeError, ImportError, EOFError, pickle.UnpicklingError)


# Without Python's lock; without wrappers for C and checks for division by zero, which take a quarter of the compiling.
LEAN: dict[str, Any] = {"nogil": True, "no_cfunc_wrapper": True, "error_model": "numpy"}


def compiled(signature: Any, **options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Compile a function for one signature when its module is imported, or load it from the cache.

    Without a folder to write to (a read-only installation and home) it is compiled anew in each process.
    """

    def compile_or_load(function: Callable[..., Any]) -> Any:
        try:
            return numba.njit(signature, cache=True, **LEAN, **options)(function)
        except _NO_CACHE:
            return numba.njit(signature, **LEAN, **options)(function)

    return compile_or_load


@intrinsic
def trailing_zeros(_: Any, word: Any) -> Any:
    """The place of the lowest bit that is set in a word that is not zero."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.uint64), emit


@intrinsic
def count_bits(_: Any, word: Any) -> Any:
    """How many bits of a word are set."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.int64(types.uint64), emit
