"""How kernels are compiled: when they are first called, cached on disk if possible, releasing Python's global lock.

A kernel is called from Python. What kernels call is a function of numba's (`njit`), which is part of their code.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from threading import RLock
from typing import Any

import numba

from losslens.progress import tell

# Modules of kernels, with the seconds to compile what a usual call needs of them, and of the modules that they use.
MODULES = {
    "losslens.engines.additive_sums": 1,
    "losslens.engines.interpolation_kernels": 1,
    "losslens.engines.step_sums": 1,
    "losslens.engines.trees.small_trees": 2,
    "losslens.engines.trees.large_trees": 2,
    "losslens.engines.trees.effect_kernels": 2,
    "losslens.engines.trees.mean_games": 1,
    "losslens.engines.trees.pair_kernels": 4,
    "losslens.engines.trees.pair_table": 2,
    "losslens.engines.trees.node_rules": 1,
}
_COMPILING = RLock()  # one thread at a time: the others wait for what it compiles
# numba has no folder for its cache, could not write to it, or could not read the files of another version.
_NO_CACHE = (RuntimeError, OSError, AttributeError, ImportError, EOFError, pickle.UnpicklingError)


class Kernel:
    """A function that numba compiles for one signature, or loads from its cache, when it is first called."""

    def __init__(self, function: Callable[..., Any], signature: Any, options: dict[str, Any]) -> None:
        self.function, self.signature = function, signature
        self.options = {"nogil": True, "error_model": "numpy"} | options
        self.dispatcher: Any = None  # numba's, once it is compiled

    def __call__(self, *values: Any) -> Any:
        """Numbers are converted to those of the signature; arrays must be of its types."""
        return (self.dispatcher or self.compile())(*values)

    def compile(self) -> Any:
        """Without a writable folder (a read-only installation and home) it is compiled in each process."""
        with _COMPILING:
            if self.dispatcher is None:
                _announce(self)
                try:
                    self.dispatcher = numba.njit(self.signature, cache=True, **self.options)(self.function)
                except _NO_CACHE:
                    self.dispatcher = numba.njit(self.signature, **self.options)(self.function)
            return self.dispatcher

    def folder(self) -> str | None:
        """The folder of numba's cache; None if no folder can be written to."""
        with suppress(*_NO_CACHE):
            return str(numba.njit(cache=True)(self.function).stats.cache_path)
        return None


_KERNELS: list[Kernel] = []


def compiled(signature: Any, **options: Any) -> Callable[[Callable[..., Any]], Kernel]:
    """A kernel of a signature; options are those of `numba.njit`."""

    def declare(function: Callable[..., Any]) -> Kernel:
        if getattr(numba.config, "DISABLE_JIT", False):  # set when numba reads the environment
            raise RuntimeError("numba does not compile, which losslens needs: unset NUMBA_DISABLE_JIT")
        _KERNELS.append(Kernel(function, signature, options))
        return _KERNELS[-1]

    return declare


_announced: set[str] = set()  # modules


def _announce(kernel: Kernel) -> None:
    """Say that compiling takes a while, once a module, unless the cache has a file of the kernel."""
    function = kernel.function
    seconds = MODULES.get(function.__module__, 0)
    if seconds <= 1 or function.__module__ in _announced:
        return
    folder, once = kernel.folder(), "once for this machine"
    if folder is None:
        once = "in each process, unless NUMBA_CACHE_DIR is a writable folder"
    elif any(Path(folder).glob(f"{function.__module__.rpartition('.')[2]}.{function.__qualname__}-*")):
        return
    _announced.add(function.__module__)
    tell(f"losslens: compiling {once}, about {seconds} s")


@dataclass(frozen=True)
class CompiledModule:
    """What `compile_all` did for one module."""

    name: str
    kernels: int
    compiled: int  # of them; the others were in the cache
    seconds: float
    folder: str  # of the cache


def compile_all() -> Iterator[CompiledModule]:
    """Compile every kernel that is not in the cache, module by module."""
    ready = [kernel for kernel in _KERNELS if kernel.dispatcher]  # compiled or loaded in this process before
    for name in MODULES:
        started = time.perf_counter()
        import_module(name)
        kernels = [kernel for kernel in _KERNELS if kernel.function.__module__ == name]
        if (folder := kernels[0].folder()) is None:
            raise PermissionError(
                "compiled code cannot be kept: neither the folder of losslens nor your cache folder is writable; "
                "set the environment variable NUMBA_CACHE_DIR to a folder that is"
            )
        missed = [kernel for kernel in kernels if kernel.compile().stats.cache_misses and kernel not in ready]
        yield CompiledModule(name, len(kernels), len(missed), time.perf_counter() - started, folder)
