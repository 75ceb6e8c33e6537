"""Instructions of the processor that numba's Python has no words for: bits of a word, and vectors in short loops."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

EIGHT = 8  # numbers of a vector; the compiler splits it where the processor's are shorter
FOUR = 4


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


def _data(context: Any, builder: Any, kind: Any, array: Any) -> Any:
    """The address of the first number of an array."""
    return context.make_array(kind)(context, builder, array).data


@intrinsic
def store_past_cache(_: Any, array: Any, index: Any, value: Any) -> Any:
    """``array[index] = value`` where much is written that is not read soon: the cache is neither filled nor asked."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = _data(context, builder, signature.args[0], arguments[0])
        store = builder.store(arguments[2], builder.gep(data, [arguments[1]]))
        store.set_metadata("nontemporal", builder.module.add_metadata([ir.Constant(ir.IntType(32), 1)]))
        return context.get_dummy_value()

    return types.void(array, index, value), emit


def _place(context: Any, builder: Any, signature: Any, arguments: Any, k: int, lanes: int) -> Any:
    """The address of some neighbouring numbers: argument k is the array, the next one their place, row by row."""
    data = _data(context, builder, signature.args[k], arguments[k])
    return builder.bitcast(builder.gep(data, [arguments[k + 1]]), ir.VectorType(ir.DoubleType(), lanes).as_pointer())


def _load(builder: Any, place: Any) -> Any:
    numbers = builder.load(place)
    numbers.align = 8
    return numbers


def _add(lanes: int) -> Any:
    """An intrinsic that adds `lanes` numbers."""

    def add(_: Any, to: Any, at: Any, given: Any, begin: Any) -> Any:
        def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            place, other = (_place(context, builder, signature, arguments, k, lanes) for k in (0, 2))
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
        place, numbers, times = (_place(context, builder, signature, arguments, k, EIGHT) for k in (0, 2, 4))
        sums = builder.fmul(_load(builder, numbers), _load(builder, times))
        zeros = ir.Constant(sums.type, [0.0] * EIGHT)
        for bit in (1, 2, 4):
            order = [S ^ bit if S & bit else EIGHT for S in range(EIGHT)]  # EIGHT: a zero
            mask = ir.Constant(ir.VectorType(ir.IntType(32), EIGHT), order)
            sums = builder.fadd(sums, builder.shuffle_vector(sums, zeros, mask))
        builder.store(sums, place).align = 8
        return context.get_dummy_value()

    u8 = types.uint64
    return types.void(to, u8, given, u8, factors, u8), emit
