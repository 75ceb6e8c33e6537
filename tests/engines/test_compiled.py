import io
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stderr
from pathlib import Path

import numba
import numpy as np
import pytest
from numba import types

import losslens
from losslens import progress
from losslens.engines import compiled, intrinsics
from losslens.engines.compiled import MODULES

NUMBER = types.int64(types.int64)
NJIT = numba.njit


def plus_one(x):
    return x + 1


def minus_one(x):
    return x - 1


class Screen(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def announced(monkeypatch, tmp_path):
    """The kernels of this file take seven seconds; nobody was told yet, and the cache is empty."""
    monkeypatch.setitem(MODULES, __name__, 7)
    monkeypatch.setattr(compiled, "_announced", set())
    monkeypatch.setattr(compiled, "_KERNELS", [])
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))


def kernel(function):
    """A kernel that is not compiled yet."""
    return compiled.compiled(NUMBER)(function)


def told(shown, stderr):
    """What is written while two kernels of a module are compiled behind a bar."""
    with redirect_stderr(stderr), progress.bar(1, "explaining", shown):
        assert kernel(plus_one)(1) == 2
        assert kernel(minus_one)(1) == 0
    return stderr.getvalue()


def test_a_terminal_is_told_once_that_a_module_is_compiled(announced):
    assert told(None, Screen()) == "losslens: compiling once for this machine, about 7 s\n"


def test_a_notebook_is_told(announced, monkeypatch):
    monkeypatch.setattr(progress, "_in_notebook", lambda: True)
    assert told(None, io.StringIO()) == "losslens: compiling once for this machine, about 7 s\n"


@pytest.mark.parametrize(("shown", "stderr"), [(False, Screen), (None, io.StringIO)])
def test_nobody_else_is_told(announced, shown, stderr):
    assert told(shown, stderr()) == ""


def test_progress_true_tells_no_pipe_of_compiling(announced):
    assert "compiling" not in told(True, io.StringIO())


def test_outside_a_call_nothing_is_told(announced):
    with redirect_stderr(Screen()) as screen:
        kernel(plus_one)(1)
    assert screen.getvalue() == ""


def refuse(error):
    """As `numba.njit`, where no cache can be written."""

    def njit(*signature, cache=False, **options):
        if cache:
            raise error
        return NJIT(*signature, **options)

    return njit


@pytest.mark.parametrize("error", [RuntimeError("cannot cache function: no locator"), PermissionError("read-only")])
def test_without_a_folder_kernels_are_compiled_all_the_same_and_the_message_says_so(announced, monkeypatch, error):
    monkeypatch.setattr(numba, "njit", refuse(error))
    with redirect_stderr(Screen()) as screen, progress.waiting("preparing", None):
        assert kernel(plus_one)(1) == 2
    said = "losslens: compiling in each process, unless NUMBA_CACHE_DIR is a writable folder, about 7 s\n"
    assert screen.getvalue() == said


def test_loading_from_the_cache_is_not_compiling(announced):
    kernel(plus_one)(1)
    compiled._announced.clear()
    again = kernel(plus_one)
    with redirect_stderr(Screen()) as screen, progress.waiting("preparing", None):
        assert again(1) == 2
    assert again.dispatcher.stats.cache_hits
    assert screen.getvalue() == ""


def test_a_kernel_is_compiled_when_it_is_called_and_for_its_signature_alone(announced):
    one = kernel(plus_one)
    assert one.dispatcher is None
    assert one(np.int32(1)) == 2
    with pytest.raises(TypeError, match="No matching definition"):
        one(np.zeros(2))
    assert one.dispatcher.signatures == [(types.int64,)]


@pytest.mark.parametrize(
    "given",
    [
        np.zeros(3, np.float32),
        np.zeros((3, 1)),
        np.zeros(6)[::2],
        np.frombuffer(np.zeros(3).tobytes()),  # read-only
    ],
)
def test_only_arrays_of_the_type_are_taken(announced, given):
    take = compiled.compiled(types.float64(types.float64[::1]))(lambda numbers: numbers[0])
    for _ in range(2):  # while it is compiled, and afterwards
        with pytest.raises(TypeError, match="No matching definition"):
            take(given)
        assert take(np.array([3.0])) == 3


def test_threads_compile_a_kernel_once(announced):
    one = kernel(plus_one)
    with ThreadPoolExecutor(4) as pool:
        dispatchers = list(pool.map(lambda _: one.compile(), range(8)))
    assert all(each is one.dispatcher for each in dispatchers)


def test_every_module_of_kernels_is_compiled_ahead():
    """`losslens warmup` and the announcement know modules by this table."""
    source = Path(losslens.__file__).parent
    found = {path for path in source.rglob("*.py") if "\n@compiled(" in path.read_text(encoding="utf-8")}
    assert {".".join(path.relative_to(source.parent).with_suffix("").parts) for path in found} == set(MODULES)


def test_bits_are_counted_and_found():
    zeros = numba.njit(lambda word: intrinsics.trailing_zeros(word))  # noqa: PLW0108 - an intrinsic is no function
    bits = numba.njit(lambda word: intrinsics.count_bits(word))  # noqa: PLW0108
    for word in (1, 8, 0b101000, 1 << 63, 2**64 - 1):
        assert bits(np.uint64(word)) == word.bit_count()
        assert zeros(np.uint64(word)) == (word & -word).bit_length() - 1


def test_without_a_compiler(monkeypatch):
    monkeypatch.setattr(numba.config, "DISABLE_JIT", 1)
    with pytest.raises(RuntimeError, match="unset NUMBA_DISABLE_JIT"):
        kernel(plus_one)


def test_numba_is_used_as_documented():
    """No private modules of numba's, and the code that it makes of kernels by hand in one file only."""
    source = Path(losslens.__file__).parent
    texts = {path.name: path.read_text(encoding="utf-8") for path in source.rglob("*.py")}
    assert not [name for name, text in texts.items() if "numba.core" in text]
    assert [name for name, text in texts.items() if "llvmlite" in text] == ["intrinsics.py"]
