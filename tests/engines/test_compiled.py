import subprocess
import sys

import numba
import numpy as np
import pytest
from numba import types

from losslens.engines import compiled


def plus_one(x):
    return x + 1


@pytest.mark.parametrize("error", [RuntimeError("cannot cache function: no locator"), PermissionError("read-only")])
def test_without_a_folder_for_the_cache_functions_are_compiled_all_the_same(monkeypatch, error):
    njit = numba.njit

    def refuse(*arguments, cache=False, **options):
        if cache:
            raise error
        return njit(*arguments, **options)

    monkeypatch.setattr(numba, "njit", refuse)
    assert compiled.compiled(types.int64(types.int64))(plus_one)(1) == 2


def test_bits_are_counted_and_found():
    zeros = numba.njit(lambda word: compiled.trailing_zeros(word))  # noqa: PLW0108 - an intrinsic is no function
    bits = numba.njit(lambda word: compiled.count_bits(word))  # noqa: PLW0108
    for word in (1, 8, 0b101000, 1 << 63, 2**64 - 1):
        assert bits(np.uint64(word)) == word.bit_count()
        assert zeros(np.uint64(word)) == (word & -word).bit_length() - 1


def test_importing_losslens_loads_no_compiler():
    code = "import sys, losslens; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
