"""How kernels are compiled: when they are first called, cached on disk if possible, releasing Python's global lock."""

from __future__ import annotations

import gc
import pickle
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numba
from llvmlite import ir
from numba import types
from numba.core import event
from numba.core.caching import FunctionCache, NullCache
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.compiler_lock import global_compiler_lock
from numba.core.runtime.nrt import rtsys
from numba.extending import intrinsic

from losslens.progress import tell

# Modules of kernels, with the seconds to compile what a usual call needs of them, and of the modules that they use.
MODULES = {
    "losslens.engines.additive_sums": 1,
    "losslens.engines.interpolation_kernels": 1,
    "losslens.engines.own_group_sums": 1,
    "losslens.engines.step_sums": 1,
    "losslens.engines.trees.small_trees": 2,
    "losslens.engines.trees.large_trees": 2,
    "losslens.engines.trees.effect_kernels": 2,
    "losslens.engines.trees.mean_games": 1,
    "losslens.engines.trees.wide_leaf_kernels": 1,
    "losslens.engines.trees.pair_kernels": 4,
    "losslens.engines.trees.pair_table": 1,
    "losslens.engines.trees.two_columns": 1,
    "losslens.engines.trees.node_rules": 1,
}
_KERNELS: list[Any] = []
NEWEST = 0, 68  # release of numba that `part` was tried with, and those since 0.60; a later one might crash
# numba found no folder for its cache, could not write to it, or could not read the files of another version.
_NO_CACHE = (RuntimeError, OSError, AttributeError, ImportError, EOFError, pickle.UnpicklingError)
# Without the global lock; without C wrappers, tests for division by zero and counts of references, which take a third
# of compile time; a kernel that makes arrays needs these (`_nrt=True`).
_OPTIONS: dict[str, Any] = {"nogil": True, "no_cfunc_wrapper": True, "error_model": "numpy", "_nrt": False}


def compiled(signature: Any, **options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Compile a function for one signature, or load it from the cache, when it is first called.

    Without a writable folder (a read-only installation and home) it is compiled in each process.
    """

    def declare(function: Callable[..., Any]) -> Any:
        if getattr(numba.config, "DISABLE_JIT", False):  # set when numba reads the environment
            raise RuntimeError("numba does not compile, which losslens needs: unset NUMBA_DISABLE_JIT")
        kernel = numba.njit(**(_OPTIONS | options))(function)
        with suppress(*_NO_CACHE):
            kernel._cache = _KernelCache(function)
        compile_for, compile_and_call = kernel.compile, kernel._compile_for_args

        def compile_declared(_: Any) -> Any:
            with global_compiler_lock:
                if kernel.overloads:
                    return kernel.overloads[signature.args].entry_point
                with _no_garbage():
                    try:
                        entry = compile_for(signature)
                    except _NO_CACHE:
                        kernel._cache = NullCache()
                        entry = compile_for(signature)
                kernel.disable_compile()  # from now on numba converts what it is given
                return entry

        def check_and_call(*values: Any, **named: Any) -> Any:
            """numba calls what it has just compiled without a look at the types."""
            for place, (value, wanted) in enumerate(zip(values, signature.args, strict=True)):
                given = kernel.typeof_pyval(value)
                if kernel.typingctx.can_convert(given, wanted) is None:
                    raise TypeError(f"argument {place} of {function.__name__} is {given}, not {wanted}")
            return compile_and_call(*values, **named)

        kernel.compile, kernel._compile_for_args = compile_declared, check_and_call
        _KERNELS.append(kernel)
        return kernel

    return declare


class _KernelCache(FunctionCache):
    """Loads a kernel without numba's tables of types and implementations, which only compiling reads."""

    def load_overload(self, signature: Any, context: Any) -> Any:
        """None if it is not there, or of another version of the function."""
        with self._guard_against_spurious_io_errors():
            return self._load_overload(signature, context)


@contextmanager
def _no_garbage() -> Iterator[None]:
    """Compiling makes objects that stay, in millions: to look for garbage among them takes a tenth of the time."""
    pauses = gc.isenabled()
    if pauses:
        gc.disable()
    try:
        yield
    finally:
        if pauses:
            gc.enable()


def part(signature: Any, *, copied: bool = True, **options: Any) -> Callable[[Callable[..., Any]], Any]:
    """A kernel that only other kernels call: its code becomes part of theirs, and is optimised with it alone.

    So it is in their caches, has none of its own, and takes half of the time to compile. copied: the compiler may
    insert it at every place where it is called; otherwise there is one copy of it.
    """
    if tuple(map(int, numba.__version__.split(".")[:2])) > NEWEST:
        return compiled(signature, **options)

    def declare(function: Callable[..., Any]) -> Any:
        compiler = _PartCompiler if copied else _SinglePartCompiler
        kernel = numba.njit(pipeline_class=compiler, no_cpython_wrapper=True, **(_OPTIONS | options))(function)
        compile_for = kernel.compile

        def compile_declared(_: Any) -> Any:
            with global_compiler_lock:
                if not kernel.overloads:
                    compile_for(signature)
                    kernel.disable_compile()
                return kernel.overloads[signature.args].entry_point

        def add(found: Any) -> None:
            """Known to other kernels by its code; nothing that Python could call."""
            kernel.targetctx.insert_user_function(found.library, found.fndesc, [found.library])
            kernel.overloads[found.signature.args] = found._replace(entry_point=found.library)

        kernel.compile, kernel.add_overload = compile_declared, add
        return kernel

    return declare


class _PartCompiler(Compiler):
    """Ends before machine code."""

    copied = True

    def __init__(self, types_: Any, target: Any, _: Any, arguments: Any, returned: Any, flags: Any, names: Any) -> None:
        flags.no_compile = True
        library = _PartLibrary(target.codegen(), "part")
        library.copied = self.copied
        super().__init__(types_, target, library, arguments, returned, flags, names)


class _SinglePartCompiler(_PartCompiler):
    """Of a part that is not copied to where it is called."""

    copied = False


class _PartLibrary(JITCodeLibrary):
    """Code that is not optimised by itself."""

    copied: bool

    def add_ir_module(self, module: Any) -> None:
        """The code of the part."""
        if not self.copied:
            for one in module.functions:
                if not one.is_declaration:
                    one.attributes.add("noinline")
        super().add_ir_module(module)

    def finalize(self) -> None:
        """Take over the parts that this one calls."""
        for library in dict.fromkeys(self._linking_libraries):
            if library is not rtsys.library:  # counts references: kernels have it themselves
                self._final_module.link_in(library._get_module_for_linking(), preserve=True)
        self._finalized = True


class _Announcer(event.Listener):
    """Says that compiling takes a while, once a module; loading from the cache is no such event."""

    def __init__(self) -> None:
        self.told: set[str] = set()
        self.depth = 0

    def on_start(self, event: Any) -> None:
        kernel = event.data.get("dispatcher")  # also functions that are not ours
        module = getattr(getattr(kernel, "py_func", None), "__module__", "")
        seconds = MODULES.get(module, 0)
        if not self.depth and seconds > 1 and module not in self.told:
            self.told.add(module)
            kept = not isinstance(kernel._cache, NullCache)
            once = "once for this machine" if kept else "in each process, unless NUMBA_CACHE_DIR is a writable folder"
            tell(f"losslens: compiling {once}, about {seconds} s")
        self.depth += 1

    def on_end(self, event: Any) -> None:
        self.depth -= 1


_announcer = _Announcer()
event.register("numba:compile", _announcer)


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
    ready = [kernel for kernel in _KERNELS if kernel.overloads]  # compiled or loaded in this process before
    for name in MODULES:
        started = time.perf_counter()
        import_module(name)
        kernels = [kernel for kernel in _KERNELS if kernel.py_func.__module__ == name]
        if any(isinstance(kernel._cache, NullCache) for kernel in kernels):
            raise PermissionError(
                "compiled code cannot be kept: neither the folder of losslens nor your cache folder is writable; "
                "set the environment variable NUMBA_CACHE_DIR to a folder that is"
            )
        for kernel in kernels:
            kernel.compile(None)
        missed = sum(bool(kernel.stats.cache_misses) for kernel in kernels if kernel not in ready)
        folder = kernels[0].stats.cache_path
        yield CompiledModule(name, len(kernels), missed, time.perf_counter() - started, folder)


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


@intrinsic
def store_past_cache(_: Any, array: Any, index: Any, value: Any) -> Any:
    """``array[index] = value`` where much is written that is not read soon: the cache is neither filled nor asked."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        store = builder.store(arguments[2], builder.gep(data, [arguments[1]]))
        store.set_metadata("nontemporal", builder.module.add_metadata([ir.Constant(ir.IntType(32), 1)]))
        return context.get_dummy_value()

    return types.void(array, index, value), emit


def _chosen(relation: str) -> Any:
    """An intrinsic for the first of two numbers if it is in a relation to the second, else the second.

    numba's `min` and `max` are kernels of their own, compiled for each type.
    """

    def choose(context: Any, one: Any, other: Any) -> Any:
        kind = context.unify_types(types.unliteral(one), types.unliteral(other))

        def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            first, second = arguments
            if isinstance(kind, types.Float):
                compare = builder.fcmp_ordered
            else:
                compare = builder.icmp_signed if kind.signed else builder.icmp_unsigned
            return builder.select(compare(relation, first, second), first, second)

        return kind(kind, kind), emit

    return intrinsic(choose)


smaller, larger = _chosen("<"), _chosen(">")
