from numba import types

from losslens.engines.compiled import compiled
from losslens.engines.loops import each

i8, u8 = types.int64, types.uint64


@compiled(i8(i8, i8, i8))
def join_signed(start, stop, step):
    """The numbers as digits, with breaks and gaps."""
    digits = 0
    for number in each(start, stop, step):
        if number == 4:
            continue
        if number == 9:
            break
        digits = 10 * digits + number
    return digits


@compiled(u8(u8, u8))
def count_pairs(high, wide):
    """As many as there are ones, from loops of one and of two bounds inside each other."""
    found = u8(0)
    for i in each(high):
        for _ in each(i, wide):
            found += u8(1)
    return found


@compiled(u8(u8))
def last(stop):
    """Of unsigned numbers, which are larger than any signed one."""
    found = u8(0)
    for number in each(stop - u8(2), stop):
        found = number
    return found


def test_numbers_are_those_of_range():
    for bounds in ((1, 8, 1), (1, 20, 1), (1, 9, 3), (5, 5, 1), (6, 2, 1), (2, 9, 7)):
        wanted = 0
        for number in range(*bounds):
            if number == 9:
                break
            wanted = wanted if number == 4 else 10 * wanted + number
        assert join_signed(*bounds) == wanted
    assert join_signed(-2, 1, 1) == -210


def test_loops_inside_each_other():
    for high, wide in ((0, 3), (3, 0), (4, 7), (7, 4)):
        assert count_pairs(high, wide) == sum(max(0, wide - i) for i in range(high))


def test_unsigned_bounds_are_compared_as_such():
    assert last(2**64 - 1) == 2**64 - 2
