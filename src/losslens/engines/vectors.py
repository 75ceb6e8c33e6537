"""Vector instructions for kernels whose loops are too short for the compiler to find them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

EIGHT = 8  # numbers of a vector; the compiler splits it where the processor's are shorter
FOUR = 4


def _place(context: Any, builder: Any, kind: Any, array: Any, at: Any, lanes: int) -> Any:
    """The address of some neighbouring numbers of an array."""
    data = builder.extract_value(array, 0)
    return builder.bitcast(builder.gep(data, [at]), ir.VectorType(ir.DoubleType(), lanes).as_pointer())


def _load(builder: Any, place: Any) -> Any:
    found = builder.load(place)
    found.align = 8
    return found


def _shuffled(builder: Any, vector: Any, order: Sequence[int]) -> Any:
    """Entries of a vector in another order; EIGHT stands for 0."""
    zeros = ir.Constant(vector.type, [0.0] * EIGHT)
    mask = ir.Constant(ir.VectorType(ir.IntType(32), EIGHT), list(order))
    return builder.shuffle_vector(vector, zeros, mask)


def _add(lanes: int) -> Any:
    """An intrinsic that adds `lanes` numbers."""

    def add(_: Any, to: Any, at: Any, given: Any, begin: Any) -> Any:
        def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            place = _place(context, builder, signature.args[0], arguments[0], arguments[1], lanes)
            other = _place(context, builder, signature.args[2], arguments[2], arguments[3], lanes)
            builder.store(builder.fadd(_load(builder, place), _load(builder, other)), place).align = 8
            return context.get_dummy_value()

        return types.void(to, types.uint64, given, types.uint64), emit

    return intrinsic(add)


add_eight = _add(EIGHT)  # to[at : at + 8] += given[begin : begin + 8]: numbers of an array are counted row by row
add_four = _add(FOUR)


@intrinsic
def sum_subsets_of_three(_: Any, to: Any, at: Any, given: Any, begin: Any, factors: Any, start: Any) -> Any:
    """Sums over the subsets of three players, into to[at :][:8]: of given[begin :][:8] * factors[start :][:8]."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place, numbers, times = (
            _place(context, builder, signature.args[k], arguments[k], arguments[k + 1], EIGHT) for k in (0, 2, 4)
        )
        found = builder.fmul(_load(builder, numbers), _load(builder, times))
        for bit in (1, 2, 4):
            without = _shuffled(builder, found, [S ^ bit if S & bit else EIGHT for S in range(EIGHT)])
            found = builder.fadd(found, without)
        builder.store(found, place).align = 8
        return context.get_dummy_value()

    u8 = types.uint64
    return types.void(to, u8, given, u8, factors, u8), emit
