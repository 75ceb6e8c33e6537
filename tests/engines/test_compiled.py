import io
from contextlib import redirect_stderr
from pathlib import Path

import numba
import numpy as np
import pytest
from numba import types

import losslens
from losslens import progress
from losslens.engines import compiled
from losslens.engines.compiled import MODULES

NUMBER = types.int64(types.int64)


def plus_one(x):
    return x + 1


def minus_one(x):
    return x - 1


class Screen(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def announced(monkeypatch):
    """The kernels of this file take seven seconds; nobody was told yet."""
    monkeypatch.setitem(MODULES, __name__, 7)
    monkeypatch.setattr(compiled._announcer, "told", set())
    monkeypatch.setattr(compiled, "_KERNELS", [])


class Forgetful:
    """A cache that holds nothing."""

    def load_overload(self, signature, context):
        return None

    def save_overload(self, signature, kernel):
        pass


def fresh(function):
    """A kernel that its cache doesn't hold."""
    kernel = compiled.compiled(NUMBER)(function)
    kernel._cache = Forgetful()
    return kernel


def told(shown, stderr):
    """What is written while two kernels of a module are compiled behind a bar."""
    with redirect_stderr(stderr), progress.bar(1, "explaining", shown):
        assert fresh(plus_one)(1) == 2
        assert fresh(minus_one)(1) == 0
    return stderr.getvalue()


def test_a_terminal_is_told_once_that_a_module_is_compiled(announced):
    assert told(None, Screen()) == "losslens: compiling once for this machine, about 7 s\n"


def test_a_notebook_is_told_in_its_cell_and_not_on_stderr(announced, monkeypatch):
    shown = []
    monkeypatch.setattr(progress, "_in_notebook", lambda: True)
    monkeypatch.setattr(progress._NotebookCell, "show", lambda self, html, text: shown.append(text))
    assert told(None, io.StringIO()) == ""
    assert shown == ["losslens: compiling once for this machine, about 7 s"]


@pytest.mark.parametrize(("shown", "stderr"), [(False, Screen), (None, io.StringIO)])
def test_nobody_else_is_told(announced, shown, stderr):
    assert told(shown, stderr()) == ""


def test_progress_true_tells_no_pipe_of_compiling(announced):
    assert "compiling" not in told(True, io.StringIO())


def test_outside_a_call_nothing_is_told(announced):
    with redirect_stderr(Screen()) as screen:
        fresh(plus_one)(1)
    assert screen.getvalue() == ""


def test_without_a_folder_the_message_says_that_nothing_is_kept(announced):
    kernel = fresh(plus_one)
    kernel._cache = compiled.NullCache()
    with redirect_stderr(Screen()) as screen, progress.waiting("preparing", None):
        kernel(1)
    said = "losslens: compiling in each process, unless NUMBA_CACHE_DIR is a writable folder, about 7 s\n"
    assert screen.getvalue() == said


def test_loading_from_the_cache_is_not_compiling(announced):
    compiled.compiled(NUMBER)(plus_one)(1)
    again = compiled.compiled(NUMBER)(plus_one)
    with redirect_stderr(Screen()) as screen, progress.waiting("preparing", None):
        assert again(1) == 2
    assert again.stats.cache_hits
    assert screen.getvalue() == ""


def test_a_kernel_is_compiled_when_it_is_called_and_for_its_signature_alone(announced):
    kernel = fresh(plus_one)
    assert not kernel.signatures
    with pytest.raises(TypeError, match="argument 0 of plus_one is array"):
        kernel(np.zeros(2))
    assert not kernel.signatures
    assert kernel(np.int32(1)) == 2
    assert kernel.signatures == [(types.int64,)]
    with pytest.raises(TypeError, match="No matching definition"):
        kernel(np.zeros(2))


def test_a_kernel_inside_another_takes_numbers_of_other_kinds(announced):
    inner = fresh(plus_one)
    outer = compiled.compiled(types.int64(types.uint8))(lambda x: inner(x) * 2)
    assert outer(np.uint8(3)) == 8
    assert inner.signatures == [(types.int64,)]


def test_every_module_of_kernels_is_compiled_ahead():
    """`losslens warmup` and the announcement know modules by this table."""
    source = Path(losslens.__file__).parent
    found = {path for path in source.rglob("*.py") if "\n@compiled(" in path.read_text(encoding="utf-8")}
    assert {".".join(path.relative_to(source.parent).with_suffix("").parts) for path in found} == set(MODULES)


@pytest.mark.parametrize("error", [RuntimeError("cannot cache function: no locator"), PermissionError("read-only")])
def test_without_a_folder_for_the_cache_functions_are_compiled_all_the_same(monkeypatch, error):
    def refuse(function):
        raise error

    monkeypatch.setattr(compiled, "_KernelCache", refuse)
    assert compiled.compiled(types.int64(types.int64))(plus_one)(1) == 2


def test_bits_are_counted_and_found():
    zeros = numba.njit(lambda word: compiled.trailing_zeros(word))  # noqa: PLW0108 - an intrinsic is no function
    bits = numba.njit(lambda word: compiled.count_bits(word))  # noqa: PLW0108
    for word in (1, 8, 0b101000, 1 << 63, 2**64 - 1):
        assert bits(np.uint64(word)) == word.bit_count()
        assert zeros(np.uint64(word)) == (word & -word).bit_length() - 1


def test_without_a_compiler(monkeypatch):
    monkeypatch.setattr(numba.config, "DISABLE_JIT", 1)
    with pytest.raises(RuntimeError, match="unset NUMBA_DISABLE_JIT"):
        compiled.compiled(NUMBER)(plus_one)


def test_parts_are_kernels_of_their_own_where_numba_is_newer_than_any_that_was_tried(monkeypatch):
    """What `part` does inside numba might crash there; a kernel that takes longer to compile doesn't."""
    monkeypatch.setattr(compiled, "NEWEST", (0, 1))
    add_one = compiled.part(types.int64(types.int64), copied=False)(plus_one)
    assert add_one(1) == 2  # a part could not be called
