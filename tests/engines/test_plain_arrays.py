import numpy as np
import pytest
from numba import types
from numba.core.errors import TypingError

from losslens.engines.compiled import compiled
from losslens.engines.plain_arrays import array_of

f8, i4, i8, u8 = types.float64, types.int32, types.int64, types.uint64


@compiled(types.void(array_of(f8, 3), array_of(i4), array_of(f8)))
def describe(cube, row, found):
    """Sizes, numbers by signed and unsigned indices, and arrays of fewer axes."""
    found[0], found[1], found[2], found[3] = len(cube), cube.shape[0], cube.shape[1], cube.shape[2]
    found[4], found[5], found[6] = cube[1, 2, 3], cube[-1, -2, -3], cube[u8(1), i4(1), row[0]]
    plane, line = cube[1], cube[0, 2]
    found[7], found[8], found[9] = plane[2, 0], line[-1], len(line)
    line[u8(1)] = 7
    found[-1] += row[-1]


@compiled(f8(types.Tuple((array_of(f8), array_of(f8, 2))), u8))
def from_tuple(both, i):
    """Arrays of a tuple."""
    return both[0][i] * both[1][i, 1]


def test_numbers_and_sizes():
    cube, row = np.arange(24.0).reshape(2, 3, 4), np.array([3, 5], np.int32)
    found = np.full(11, 0.5)
    wanted = [2, 2, 3, 4, cube[1, 2, 3], cube[-1, -2, -3], cube[1, 1, 3], cube[1, 2, 0], cube[0, 2, -1], 4, 5.5]
    describe(cube, row, found)
    np.testing.assert_array_equal(found, wanted)
    assert cube[0, 2, 1] == 7  # written to the array itself


def test_arrays_of_a_tuple_and_empty_ones():
    assert from_tuple((np.array([2.0, 3.0]), np.array([[1.0, 2.0], [3.0, 4.0]])), 1) == 12
    describe(np.zeros((2, 3, 4)), np.array([0], np.int32), np.zeros(11))


@pytest.mark.parametrize(
    "given",
    [
        np.zeros(3, np.float32),
        np.zeros((3, 1)),
        np.zeros(6)[::2],
        np.frombuffer(np.zeros(3).tobytes()),  # read-only
        [0.0, 0.0],
    ],
)
def test_only_arrays_of_the_type_are_taken(given):
    take = compiled(f8(array_of(f8)))(lambda numbers: numbers[0])
    for _ in range(2):  # while it is compiled, and afterwards
        with pytest.raises(TypeError, match=r"argument 0|No matching"):
            take(given)
        assert take(np.array([3.0])) == 3


def test_a_slice_is_refused():
    kernel = compiled(f8(array_of(f8)))(lambda numbers: numbers[1:][0])
    with pytest.raises(TypingError):
        kernel(np.zeros(3))
