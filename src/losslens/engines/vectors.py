"""Vector instructions for kernels whose loops are too short for the compiler to find them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
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


def _multiply(order: Sequence[int]) -> Any:
    """An intrinsic that multiplies eight numbers by others, which are taken in an order."""

    def multiply(_: Any, to: Any, at: Any, given: Any, begin: Any, factors: Any, start: Any) -> Any:
        def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            place, numbers, times = (
                _place(context, builder, signature.args[k], arguments[k], arguments[k + 1], EIGHT) for k in (0, 2, 4)
            )
            ordered = _shuffled(builder, _load(builder, times), order)
            builder.store(builder.fmul(_load(builder, numbers), ordered), place).align = 8
            return context.get_dummy_value()

        u8 = types.uint64
        return types.void(to, u8, given, u8, factors, u8), emit

    return intrinsic(multiply)


multiply_eight = _multiply(range(EIGHT))  # to[at : at + 8] = given[begin : begin + 8] * factors[start : start + 8]
multiply_reversed = _multiply(range(EIGHT)[::-1])  # the factors from the last to the first


@intrinsic
def fold(_: Any, table: Any, at: Any, half: Any) -> Any:
    """table[at : at + half] += table[at + half :][:half], a multiple of eight; returns the sum of what is added."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        (table, at, half), vector = arguments, ir.VectorType(ir.DoubleType(), EIGHT)
        with builder.goto_entry_block():
            total = builder.alloca(vector)
        builder.store(ir.Constant(vector, [0.0] * EIGHT), total)
        with cgutils.for_range_slice(builder, ir.IntType(64)(0), half, ir.IntType(64)(EIGHT)) as (k, _):
            low = builder.add(at, k)
            place, other = (
                _place(context, builder, signature.args[0], table, one, EIGHT) for one in (low, builder.add(low, half))
            )
            added = _load(builder, other)
            builder.store(builder.fadd(_load(builder, place), added), place).align = 8
            builder.store(builder.fadd(builder.load(total), added), total)
        found = builder.load(total)
        for bit in (4, 2, 1):
            found = builder.fadd(found, _shuffled(builder, found, [lane ^ bit for lane in range(EIGHT)]))
        return builder.extract_element(found, ir.IntType(32)(0))

    u8 = types.uint64
    return types.float64(table, u8, u8), emit


@intrinsic
def sum_of_rows(_: Any, to: Any, at: Any, factor: Any, row: Any, count: Any, given: Any, width: Any) -> Any:
    """to[at : at + 8] = sum of factor[k] * given[row[k] * width + at :][:8] over k < count, a multiple of four."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        (to, at), (count, given, width) = arguments[:2], arguments[4:]
        kinds, vector = signature.args, ir.VectorType(ir.DoubleType(), EIGHT)
        factors, rows = (builder.extract_value(arguments[k], 0) for k in (2, 3))
        with builder.goto_entry_block():
            sums = [builder.alloca(vector) for _ in range(FOUR)]  # several: none waits for the one before
        for one in sums:
            builder.store(ir.Constant(vector, [0.0] * EIGHT), one)
        with cgutils.for_range_slice(builder, ir.IntType(64)(0), count, ir.IntType(64)(FOUR)) as (k, _):
            for turn, one in enumerate(sums):
                each = builder.add(k, ir.IntType(64)(turn))
                of = builder.add(builder.mul(builder.load(builder.gep(rows, [each])), width), at)
                numbers = _load(builder, _place(context, builder, kinds[5], given, of, EIGHT))
                first = builder.load(builder.gep(factors, [each]))
                alone = builder.insert_element(ir.Constant(vector, ir.Undefined), first, ir.IntType(32)(0))
                times = builder.fmul(_shuffled(builder, alone, [0] * EIGHT), numbers)
                builder.store(builder.fadd(builder.load(one), times), one)
        found = [builder.load(one) for one in sums]
        found = builder.fadd(builder.fadd(found[0], found[1]), builder.fadd(found[2], found[3]))
        builder.store(found, _place(context, builder, kinds[0], to, at, EIGHT)).align = 8
        return context.get_dummy_value()

    u8 = types.uint64
    return types.void(to, u8, factor, row, u8, given, u8), emit


@intrinsic
def sum_of_bits(_: Any, to: Any, at: Any, factor: Any, word: Any, count: Any) -> Any:
    """to[at : at + 8] = sum of factor[k] where these bits of word[k] are set, over k < count, a multiple of four."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        (to, at), count = arguments[:2], arguments[4]
        kinds, vector = signature.args, ir.VectorType(ir.DoubleType(), EIGHT)
        factors, words = (builder.extract_value(arguments[k], 0) for k in (2, 3))
        zeros = ir.Constant(vector, [0.0] * EIGHT)
        with builder.goto_entry_block():
            sums = [builder.alloca(vector) for _ in range(FOUR)]  # several: none waits for the one before
        for one in sums:
            builder.store(zeros, one)
        with cgutils.for_range_slice(builder, ir.IntType(64)(0), count, ir.IntType(64)(FOUR)) as (k, _):
            for turn, one in enumerate(sums):
                each = builder.add(k, ir.IntType(64)(turn))
                bits = builder.trunc(builder.lshr(builder.load(builder.gep(words, [each])), at), ir.IntType(EIGHT))
                first = builder.load(builder.gep(factors, [each]))
                alone = builder.insert_element(ir.Constant(vector, ir.Undefined), first, ir.IntType(32)(0))
                some = builder.bitcast(bits, ir.VectorType(ir.IntType(1), EIGHT))
                added = builder.select(some, _shuffled(builder, alone, [0] * EIGHT), zeros)
                builder.store(builder.fadd(builder.load(one), added), one)
        found = [builder.load(one) for one in sums]
        found = builder.fadd(builder.fadd(found[0], found[1]), builder.fadd(found[2], found[3]))
        builder.store(found, _place(context, builder, kinds[0], to, at, EIGHT)).align = 8
        return context.get_dummy_value()

    u8 = types.uint64
    return types.void(to, u8, factor, word, u8), emit


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
